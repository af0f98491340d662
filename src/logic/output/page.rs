//! Pages: what one answer gives of the retained output.
//!
//! Reading from `next_cursor` to `next_cursor` gives every retained byte once. A page ends where the next unit
//! (a character, or a maximal invalid part) no longer fits, in either encoding; so the texts of all pages,
//! joined, are the text of all bytes, joined. With a stream chosen, only its bytes count and are given, and the
//! cursor passes the others.
//!
//! Pages do not know the process's state, and decide nothing about `eof`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::protocol::output::{Chunk, Cursor, Encoding, Stream};

use super::ring::Ring;

/// Most chunks of one page; streams that change every few bytes end a page early.
pub const PAGE_CHUNKS_MAX: usize = 4096;

/// What a caller wants to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageQuery {
    /// Where to begin; absent = at the oldest retained byte.
    pub cursor: Option<Cursor>,
    /// Most raw bytes the page may give, of the chosen stream where one is chosen.
    pub max_bytes: u64,
    /// Give only this stream.
    pub stream: Option<Stream>,
    /// How to give bytes.
    pub encoding: Encoding,
}

/// A page, as cut from the retained output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The cursor asked for, or the oldest retained byte where that is gone.
    pub start: Cursor,
    /// Where the next page begins; more than `start` unless nothing was there.
    pub next_cursor: Cursor,
    /// Bytes between the cursor asked for (0 if absent) and `start`, gone for good.
    pub dropped_bytes: u64,
    /// The bytes. Neighbours are of different streams.
    pub chunks: Vec<Chunk>,
}

/// Why there is no page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PageError {
    /// The cursor is beyond the newest byte.
    #[error("the cursor is beyond the end of the output, {end}")]
    OutOfRange {
        /// Position after the newest byte.
        end: Cursor,
    },
    /// The next character alone is larger than `max_bytes`.
    #[error("the page is too small for the next character, which needs {needed} bytes")]
    TooSmall {
        /// The smallest `max_bytes` that moves the cursor.
        needed: u64,
    },
}

/// Cuts a page. A `start` inside a character gives the rest of it as the raw bytes it is.
pub(super) fn cut(ring: &Ring, query: &PageQuery) -> Result<Cut, PageError> {
    let asked = query.cursor.unwrap_or(0);
    if asked > ring.end() {
        return Err(PageError::OutOfRange { end: ring.end() });
    }
    let start = asked.max(ring.earliest());
    let stop = ring.floor(reach(ring, start, query), start);
    let mut chunks = Vec::new();
    let next_cursor = fill(ring, start..stop, query, &mut chunks);
    if chunks.is_empty() && stop < ring.end() {
        return Err(PageError::TooSmall { needed: ring.unit_bytes(stop) });
    }
    Ok(Cut { start, next_cursor, dropped_bytes: start - asked, chunks })
}

/// The first byte that does not fit, or the end: `max_bytes` are before it, and all that is not asked for.
fn reach(ring: &Ring, start: Cursor, query: &PageQuery) -> Cursor {
    let Some(wanted) = query.stream else {
        return start.saturating_add(query.max_bytes).min(ring.end());
    };
    let mut left = query.max_bytes;
    let mut at = start;
    while at < ring.end() {
        let (stream, to) = ring.run(at, ring.end());
        if stream == wanted {
            if to - at > left {
                return at + left;
            }
            left -= to - at;
        }
        at = to;
    }
    at
}

/// Fills the chunks of a range, and says where it stopped: before a chunk too many, or at the range's end.
fn fill(ring: &Ring, range: std::ops::Range<Cursor>, query: &PageQuery, chunks: &mut Vec<Chunk>) -> Cursor {
    let mut at = range.start;
    let mut open: Option<(Stream, Vec<u8>)> = None;
    while at < range.end {
        let (stream, to) = ring.run(at, range.end);
        if query.stream.is_none_or(|wanted| wanted == stream) {
            match &mut open {
                Some((same, bytes)) if *same == stream => ring.copy(at, to, bytes),
                _ => {
                    chunks.extend(open.take().map(|(stream, bytes)| chunk(stream, bytes, query.encoding)));
                    if chunks.len() == PAGE_CHUNKS_MAX {
                        return at;
                    }
                    let mut bytes = Vec::new();
                    ring.copy(at, to, &mut bytes);
                    open = Some((stream, bytes));
                }
            }
        }
        at = to;
    }
    chunks.extend(open.map(|(stream, bytes)| chunk(stream, bytes, query.encoding)));
    at
}

fn chunk(stream: Stream, bytes: Vec<u8>, encoding: Encoding) -> Chunk {
    match encoding {
        Encoding::Text => {
            let (text, lossy) = decode(bytes);
            Chunk { stream, text: Some(text), data_base64: None, lossy }
        }
        Encoding::Base64 => Chunk { stream, text: None, data_base64: Some(STANDARD.encode(bytes)), lossy: false },
    }
}

/// The text of bytes, and whether U+FFFD stands for some of them. Valid text is not copied.
pub(super) fn decode(bytes: Vec<u8>) -> (String, bool) {
    match String::from_utf8(bytes) {
        Ok(text) => (text, false),
        Err(error) => (String::from_utf8_lossy(error.as_bytes()).into_owned(), true),
    }
}
