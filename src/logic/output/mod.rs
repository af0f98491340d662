//! The output of one process: one byte space, its newest bytes kept, read by absolute position.
//!
//! ```text
//!   a stream's bytes → Assembler: whole characters of that stream → Ring: both streams, in order → pages
//! ```
//!
//! A character's bytes stand together in the ring even where they came in pieces or the other stream wrote
//! between them, so no page, excerpt or eviction has to split one. A position never changes its byte.
//!
//! Memory is at most `retain_bytes` + 10 % + 64 KiB for any pattern of writes, and grows with what was written.
//! Where streams change every few bytes in a large ring, the labels that tell them apart would exceed this: then
//! somewhat less than `retain_bytes` is kept (never less than nine tenths), and `earliest` tells it.
//!
//! Nothing here knows whether the process lives, what a secret is, or what a terminal would make of the bytes.

mod characters;
mod labels;
#[cfg(test)]
mod memory_tests;
mod page;
mod ring;
#[cfg(test)]
mod tests;

pub use page::{Cut, PAGE_CHUNKS_MAX, PageError, PageQuery};

use crate::protocol::output::{Cursor, Excerpt, Retained, Stream};

use characters::Assembler;
use ring::Ring;

/// The output of one process.
#[derive(Clone, Debug)]
pub struct Output {
    assembler: Assembler,
    ring: Ring,
}

impl Output {
    /// An output that keeps the newest `retain_bytes`. Allocates nothing until the first byte.
    pub fn new(retain_bytes: u64) -> Self {
        Self { assembler: Assembler::default(), ring: Ring::new(retain_bytes) }
    }

    /// Takes what was read from a stream. A last character that is not whole yet (at most 3 bytes) has no
    /// position before it is.
    pub fn push(&mut self, stream: Stream, bytes: &[u8]) {
        self.assembler.push(stream, bytes, |bytes| self.ring.append(stream, bytes));
    }

    /// The stream ended: a last character that is not whole goes in as the bytes it is. Idempotent.
    pub fn close(&mut self, stream: Stream) {
        self.assembler.close(stream, |bytes| self.ring.append(stream, bytes));
    }

    /// What can be read.
    pub fn retained(&self) -> Retained {
        Retained { earliest: self.ring.earliest(), end: self.ring.end() }
    }

    /// Cuts a page: at most `max_bytes` and [`PAGE_CHUNKS_MAX`] chunks, whole characters only. A cursor that is
    /// gone resumes at the oldest retained byte; one beyond the end is an error, as is a page too small for the
    /// next character. With anything left to read, a page moves on.
    pub fn page(&self, query: &PageQuery) -> Result<Cut, PageError> {
        page::cut(&self.ring, query)
    }

    /// The newest `max_bytes` of what is at or after `from`, begun between characters, as text. `dropped_bytes`
    /// and then `omitted_bytes` lie between `from` and its start. A `from` beyond the end gives nothing.
    pub fn excerpt(&self, from: Cursor, max_bytes: u64) -> Excerpt {
        let end = self.ring.end();
        let from = from.min(end);
        let oldest = from.max(self.ring.earliest());
        let newest = end.saturating_sub(max_bytes).max(oldest);
        let start = self.ring.ceil(newest, oldest);
        let mut text = String::new();
        let mut at = start;
        while at < end {
            // Run by run: one stream's last bytes and another's first must not become a character.
            let (_, to) = self.ring.run(at, end);
            let mut bytes = Vec::new();
            self.ring.copy(at, to, &mut bytes);
            text.push_str(&page::decode(bytes).0);
            at = to;
        }
        Excerpt { text, start, next_cursor: end, omitted_bytes: start - oldest, dropped_bytes: oldest - from }
    }

    /// Heap held, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.ring.memory_bytes()
    }
}
