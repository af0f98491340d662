//! Output for a model: one string of both streams, each place in it tied to its position in the process's output.
//!
//! Standard error is marked line by line where both streams are shown. Every cut can name the cursor it begins at;
//! where bytes were no text and a place has no exact position, the nearest earlier one is named, so that reading on
//! from it never misses a byte.

use crate::protocol::output::{Cursor, Excerpt, Page, Stream};

/// What replaces bytes that are no text.
const REPLACEMENT: char = '\u{FFFD}';
/// Most bytes of a character that can stand at the beginning of a page without their first.
const CONTINUATION_BYTES_MAX: usize = 3;
/// What a line of standard error begins with.
const STDERR_MARK: &str = "[stderr] ";

/// Text with positions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Text {
    pub text: String,
    /// From here in the text on, positions run along with bytes (or, if not exact, stand still).
    anchors: Vec<Anchor>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Anchor {
    at: usize,
    cursor: Cursor,
    exact: bool,
}

impl Text {
    /// The text of an excerpt.
    pub fn of_excerpt(excerpt: &Excerpt) -> Self {
        let exact = excerpt.next_cursor - excerpt.start.min(excerpt.next_cursor) == excerpt.text.len() as u64;
        let anchors = vec![Anchor { at: 0, cursor: excerpt.start, exact }];
        Text { text: excerpt.text.clone(), anchors }
    }

    /// The text of a page. With `whole`, the page has every stream's bytes, so positions can be told.
    pub fn of_page(page: &Page, whole: bool) -> Self {
        let marked = whole && page.chunks.iter().any(|chunk| chunk.stream == Stream::Stderr);
        let mut text = Text::default();
        let (mut cursor, mut exact) = (page.start, whole);
        text.anchor(cursor, exact);
        for chunk in &page.chunks {
            let Some(words) = &chunk.text else { continue };
            if chunk.lossy && exact {
                // From here on nobody can count any more.
                exact = false;
                text.anchor(cursor, exact);
            }
            text.add(words, marked.then_some(chunk.stream), exact.then_some(cursor));
            cursor += words.len() as u64;
        }
        text
    }

    /// The position of the byte at `at` in the text, or the nearest earlier one that is known.
    pub fn cursor_at(&self, at: usize) -> Cursor {
        let after = self.anchors.partition_point(|anchor| anchor.at <= at);
        let Some(anchor) = after.checked_sub(1).map(|before| self.anchors[before]) else { return 0 };
        let cursor = anchor.cursor + if anchor.exact { (at - anchor.at) as u64 } else { 0 };
        // Marks and breaks between two anchors are no output: they stand where the next line begins.
        self.anchors.get(after).map_or(cursor, |next| cursor.min(next.cursor))
    }

    fn anchor(&mut self, cursor: Cursor, exact: bool) {
        self.anchors.push(Anchor { at: self.text.len(), cursor, exact });
    }

    /// Adds one chunk; its lines are marked by their stream if that is given.
    fn add(&mut self, words: &str, marked: Option<Stream>, cursor: Option<Cursor>) {
        if marked.is_some() && !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push('\n');
        }
        let mut passed = 0;
        for line in words.split_inclusive('\n') {
            if marked == Some(Stream::Stderr) {
                self.text.push_str(STDERR_MARK);
            }
            if let Some(cursor) = cursor {
                self.anchor(cursor + passed, true);
            }
            self.text.push_str(line);
            passed += line.len() as u64;
        }
    }
}

/// Makes a page of the newest bytes begin at the start of a line: what stands before the first line break goes, and
/// `start` moves behind it. Left alone where there is no line break before the end, or where the bytes that would
/// go cannot be counted.
pub(super) fn begin_at_line(page: &mut Page) {
    let mut gone = 0;
    for at in 0..page.chunks.len() {
        let Some(text) = &page.chunks[at].text else { return };
        let end = text.find('\n').map(|found| found + 1);
        let Some(bytes) = counted(&text[..end.unwrap_or(text.len())], page.chunks[at].lossy, at == 0) else { return };
        gone += bytes;
        let Some(end) = end else { continue };
        if end == text.len() && at + 1 == page.chunks.len() {
            return;
        }
        let rest = text[end..].to_owned();
        let rest_lossy = page.chunks[at].lossy && rest.contains(REPLACEMENT);
        page.chunks.drain(..at);
        page.chunks[0].text = Some(rest);
        page.chunks[0].lossy = rest_lossy;
        page.chunks.retain(|chunk| chunk.text.as_deref() != Some(""));
        page.start += gone;
        return;
    }
}

/// How many bytes of output `text` stands for, if that can be told. The tail of a cut character at the beginning of
/// a page shows as one replacement for each byte.
fn counted(text: &str, lossy: bool, first: bool) -> Option<u64> {
    if !lossy {
        return Some(text.len() as u64);
    }
    let rest = if first { text.trim_start_matches(REPLACEMENT) } else { text };
    let replaced = (text.len() - rest.len()) / REPLACEMENT.len_utf8();
    let known = replaced <= CONTINUATION_BYTES_MAX && !rest.contains(REPLACEMENT);
    known.then_some((replaced + rest.len()) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::id::ProcessId;
    use crate::protocol::output::Chunk;
    use crate::protocol::state::State;

    fn page(start: Cursor, chunks: &[(Stream, &str)]) -> Page {
        let chunks = chunks.iter().map(|(stream, text)| Chunk {
            stream: *stream,
            text: Some((*text).to_owned()),
            data_base64: None,
            lossy: text.contains(REPLACEMENT),
        });
        Page {
            max_bytes: None,
            wait_ms: None,
            process_id: ProcessId::from_bits(0),
            state: State::Running,
            start,
            next_cursor: start,
            earliest: 0,
            end: start,
            dropped_bytes: 0,
            eof: false,
            chunks: chunks.collect(),
        }
    }

    fn check(chunks: &[(Stream, &str)], expected: &str, positions: &[(&str, Cursor)]) {
        let text = Text::of_page(&page(100, chunks), true);
        assert_eq!(text.text, expected);
        for (word, cursor) in positions {
            let at = text.text.find(word).expect("the word is there");
            assert_eq!(text.cursor_at(at), *cursor, "{word} in {expected:?}");
        }
    }

    #[test]
    fn standard_error_is_marked_and_places_keep_their_positions() {
        use Stream::{Stderr, Stdout};
        check(&[(Stdout, "one\ntwo\n")], "one\ntwo\n", &[("one", 100), ("two", 104)]);
        check(
            &[(Stdout, "one\nhalf"), (Stderr, "bad\nworse\n"), (Stdout, " more\n")],
            "one\nhalf\n[stderr] bad\n[stderr] worse\n more\n",
            &[("half", 104), ("bad", 108), ("orse", 113), (" more", 118), ("ore", 120)],
        );
        check(&[(Stdout, "a\n"), (Stderr, "b\u{FFFD}c\n"), (Stdout, "d")], "a\n[stderr] b\u{FFFD}c\nd", &[("d", 102)]);
    }

    fn check_line(chunks: &[(Stream, &str)], start: Cursor, expected: &str) {
        let mut page = page(100, chunks);
        begin_at_line(&mut page);
        assert_eq!((page.start, page.text().as_str()), (start, expected), "{chunks:?}");
    }

    #[test]
    fn the_newest_output_begins_at_a_line() {
        use Stream::{Stderr, Stdout};
        check_line(&[(Stdout, "lf\ntwo\n")], 103, "two\n");
        check_line(&[(Stdout, "no break")], 100, "no break");
        check_line(&[(Stdout, "only the end\n")], 100, "only the end\n");
        check_line(&[(Stdout, "a"), (Stderr, "b\nc")], 103, "c");
        check_line(&[(Stdout, "a\n"), (Stderr, "b\n")], 102, "b\n");
        check_line(&[(Stdout, "\u{FFFD}\u{FFFD}x\ny")], 104, "y");
        check_line(&[(Stdout, "x\u{FFFD}\ny")], 100, "x\u{FFFD}\ny");
        check_line(&[], 100, "");
    }
}
