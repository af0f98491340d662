//! Output against a naive model, and one test for each rule.

use std::collections::HashSet;
use std::sync::OnceLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;

use super::memory_tests::alternating;
use super::*;
use crate::protocol::output::{Chunk, Encoding, Stream::Stderr, Stream::Stdout};

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

// --- The model: all bytes ever written, and rules written the slow way ---

/// Every proper prefix of every character.
fn beginnings() -> &'static HashSet<Vec<u8>> {
    static BEGINNINGS: OnceLock<HashSet<Vec<u8>>> = OnceLock::new();
    BEGINNINGS.get_or_init(|| {
        let mut all = HashSet::new();
        let mut buffer = [0; 4];
        for character in ('\u{80}'..=char::MAX).step_by(64) {
            // Steps of 64 meet every prefix once: they differ in more than the last byte.
            let bytes = character.encode_utf8(&mut buffer).as_bytes();
            all.extend((1..bytes.len()).map(|count| bytes[..count].to_vec()));
        }
        all
    })
}

#[derive(Default)]
struct Model {
    all: Vec<(u8, Stream)>,
    held: [Vec<u8>; 2],
    retain_bytes: usize,
    earliest: usize,
}

impl Model {
    fn new(retain_bytes: u64) -> Self {
        Self { retain_bytes: retain_bytes as usize, ..Self::default() }
    }

    fn push(&mut self, stream: Stream, bytes: &[u8]) {
        let mut bytes = [&self.held[stream as usize], bytes].concat();
        let tail = (1..=3.min(bytes.len())).find(|&count| beginnings().contains(&bytes[bytes.len() - count..]));
        self.held[stream as usize] = bytes.split_off(bytes.len() - tail.unwrap_or(0));
        self.add(stream, &bytes);
    }

    fn close(&mut self, stream: Stream) {
        let bytes = std::mem::take(&mut self.held[stream as usize]);
        self.add(stream, &bytes);
    }

    fn add(&mut self, stream: Stream, bytes: &[u8]) {
        self.all.extend(bytes.iter().map(|&byte| (byte, stream)));
        let target = self.all.len().saturating_sub(self.retain_bytes).max(self.earliest);
        let around = (target.saturating_sub(3).max(self.earliest)..target).find_map(|from| {
            let to = (target + 1..=self.all.len().min(from + 4)).find(|&to| self.is_character(from, to))?;
            Some(to)
        });
        self.earliest = around.unwrap_or(target);
    }

    fn is_character(&self, from: usize, to: usize) -> bool {
        let piece = &self.all[from..to];
        let bytes: Vec<u8> = piece.iter().map(|&(byte, _)| byte).collect();
        piece.iter().all(|&(_, stream)| stream == piece[0].1)
            && std::str::from_utf8(&bytes).is_ok_and(|text| text.chars().count() == 1)
    }

    fn kept(&self, from: u64, stream: Option<Stream>) -> Vec<u8> {
        let kept = self.all[self.earliest.max(from as usize)..].iter();
        kept.filter(|(_, of)| stream.is_none_or(|wanted| wanted == *of)).map(|&(byte, _)| byte).collect()
    }

    /// The text of each run, in order.
    fn text(&self, from: usize) -> String {
        let runs = self.all[from..].chunk_by(|left, right| left.1 == right.1);
        runs.map(|run| {
            let bytes: Vec<u8> = run.iter().map(|&(byte, _)| byte).collect();
            String::from_utf8_lossy(&bytes).into_owned()
        })
        .collect()
    }
}

// --- Reading ---

fn query(cursor: u64, max_bytes: u64) -> PageQuery {
    PageQuery { cursor: Some(cursor), max_bytes, stream: None, encoding: Encoding::Text }
}

fn bytes_of(chunk: &Chunk) -> Vec<u8> {
    STANDARD.decode(chunk.data_base64.as_ref().unwrap()).unwrap()
}

/// Reads everything from the oldest byte on, page by page; checks what must hold for every page.
fn read_all(output: &Output, max_bytes: u64, stream: Option<Stream>, encoding: Encoding) -> Vec<Chunk> {
    let Retained { earliest, end } = output.retained();
    let mut query = PageQuery { cursor: None, max_bytes, stream, encoding };
    let mut chunks = Vec::new();
    loop {
        let cut = match output.page(&query) {
            Err(PageError::TooSmall { needed }) => {
                assert!(needed > max_bytes && needed <= 4);
                assert_eq!(output.page(&PageQuery { max_bytes: needed - 1, ..query }), output.page(&query));
                output.page(&PageQuery { max_bytes: needed, ..query }).unwrap()
            }
            answer => answer.unwrap(),
        };
        assert_eq!(cut.start, query.cursor.unwrap_or(earliest));
        assert_eq!(cut.dropped_bytes, if query.cursor.is_none() { earliest } else { 0 });
        assert!(cut.next_cursor > cut.start || cut.start == end);
        assert!(cut.chunks.windows(2).all(|pair| pair[0].stream != pair[1].stream));
        if encoding == Encoding::Base64 {
            let given: usize = cut.chunks.iter().map(|chunk| bytes_of(chunk).len()).sum();
            assert!(given as u64 <= max_bytes.max(4));
            assert!(stream.is_some() || given as u64 == cut.next_cursor - cut.start);
        }
        chunks.extend(cut.chunks);
        if cut.next_cursor == end {
            return chunks;
        }
        query.cursor = Some(cut.next_cursor);
    }
}

fn text_of(chunks: &[Chunk], stream: Stream) -> String {
    chunks.iter().filter(|chunk| chunk.stream == stream).filter_map(|chunk| chunk.text.as_deref()).collect()
}

/// What is read, with pages of this size, is what the model kept.
fn check_pages(output: &Output, model: &Model, max_bytes: u64) {
    let chunks = read_all(output, max_bytes, None, Encoding::Base64);
    assert_eq!(chunks.iter().flat_map(bytes_of).collect::<Vec<u8>>(), model.kept(0, None));
    let merged = read_all(output, max_bytes, None, Encoding::Text);
    for stream in Stream::ALL {
        let kept = model.kept(0, Some(stream));
        let of_stream: Vec<u8> = chunks.iter().filter(|chunk| chunk.stream == stream).flat_map(bytes_of).collect();
        assert_eq!(of_stream, kept);
        let alone = read_all(output, max_bytes, Some(stream), Encoding::Base64);
        assert_eq!(alone.iter().flat_map(bytes_of).collect::<Vec<u8>>(), kept);
        let text = String::from_utf8_lossy(&kept);
        assert_eq!(text_of(&merged, stream), text);
        assert_eq!(text_of(&read_all(output, max_bytes, Some(stream), Encoding::Text), stream), text);
        let lossy = merged.iter().any(|chunk| chunk.stream == stream && chunk.lossy);
        assert_eq!(lossy, std::str::from_utf8(&kept).is_err());
    }
}

/// From wherever asked, an excerpt is the model's newest text, begun between units.
fn check_excerpt(output: &Output, model: &Model, from: u64, max_bytes: u64) {
    let Retained { earliest, end } = output.retained();
    let excerpt = output.excerpt(from, max_bytes);
    assert_eq!(excerpt.next_cursor, end);
    assert_eq!(excerpt.dropped_bytes, earliest.saturating_sub(from.min(end)));
    assert_eq!(from.min(end) + excerpt.dropped_bytes + excerpt.omitted_bytes, excerpt.start);
    assert!(end - excerpt.start <= max_bytes);
    let skipped = excerpt.start - from.max(earliest).max(end.saturating_sub(max_bytes)).min(end);
    assert!(skipped <= 3);
    assert_eq!(excerpt.text, model.text(excerpt.start as usize));
    if from <= earliest {
        let whole = model.text(earliest as usize);
        assert!(whole.ends_with(&excerpt.text), "{whole:?} {:?}", excerpt.text);
    }
}

// --- Any pattern of writes ---

#[derive(Clone, Debug)]
struct Push {
    stream: Stream,
    bytes: Vec<u8>,
}

/// Pieces of text and of garbage, cut anywhere.
fn pushes() -> impl Strategy<Value = Vec<Push>> {
    let text = prop_oneof![
        3 => "[a-cé€あ😀\\n]{0,6}".prop_map(String::into_bytes),
        1 => prop::collection::vec(any::<u8>(), 0..5),
        1 => prop::collection::vec(prop::sample::select(b"\xF0\x9F\x98\x80\xE3\x81\xED\xA0\xC0\xF4\x90".to_vec()), 0..5),
    ];
    let side = prop::collection::vec(text, 0..25).prop_map(|texts| texts.concat());
    let sizes = prop::collection::vec((any::<bool>(), prop_oneof![4 => 1..4usize, 1 => 4..40usize]), 0..80);
    (side.clone(), side, sizes).prop_map(|(stdout, stderr, sizes)| {
        let mut rest = [&stdout[..], &stderr[..]];
        let mut pushes = Vec::new();
        for (stream, size) in sizes.into_iter().map(|(err, size)| (if err { Stderr } else { Stdout }, size)) {
            let from = rest[stream as usize];
            let (bytes, after) = from.split_at(size.min(from.len()));
            rest[stream as usize] = after;
            pushes.push(Push { stream, bytes: bytes.to_vec() });
        }
        pushes
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn what_is_read_is_what_the_model_kept(
        pushes in pushes(), retain_bytes in 4..90u64, block_bytes in 3..40usize, close_early in any::<bool>(),
    ) {
        let ring = Ring::with_blocks(retain_bytes, block_bytes);
        let mut output = Output { assembler: Assembler::default(), ring };
        let mut model = Model::new(retain_bytes);
        for push in &pushes {
            let before = output.retained();
            output.push(push.stream, &push.bytes);
            model.push(push.stream, &push.bytes);
            let now = output.retained();
            prop_assert_eq!(now, Retained { earliest: model.earliest as u64, end: model.all.len() as u64 });
            prop_assert!(now.earliest >= before.earliest && now.end >= before.end);
        }
        check_pages(&output, &model, 7);
        let order = if close_early { [Stderr, Stdout] } else { [Stdout, Stderr] };
        for stream in order.into_iter().chain(order) {
            output.close(stream);
            model.close(stream);
        }
        prop_assert_eq!(output.retained(), Retained { earliest: model.earliest as u64, end: model.all.len() as u64 });
        let end = output.retained().end;
        for max_bytes in 1..=retain_bytes + 1 {
            check_pages(&output, &model, max_bytes);
            check_excerpt(&output, &model, end.saturating_sub(max_bytes / 2), max_bytes);
            check_excerpt(&output, &model, 0, max_bytes - 1);
        }
    }

    #[test]
    fn a_page_from_any_cursor_begins_there(pushes in pushes(), max_bytes in 1..20u64) {
        let mut output = Output::new(64);
        let mut model = Model::new(64);
        for push in &pushes {
            output.push(push.stream, &push.bytes);
            model.push(push.stream, &push.bytes);
        }
        let Retained { earliest, end } = output.retained();
        for cursor in 0..=end {
            let query = PageQuery { encoding: Encoding::Base64, ..query(cursor, max_bytes) };
            match output.page(&query) {
                Ok(cut) => {
                    prop_assert_eq!(cut.start, cursor.max(earliest));
                    prop_assert_eq!(cut.dropped_bytes, cut.start - cursor);
                    let given: Vec<u8> = cut.chunks.iter().flat_map(bytes_of).collect();
                    prop_assert_eq!(given.len() as u64, cut.next_cursor - cut.start);
                    prop_assert!(model.kept(cursor, None).starts_with(&given));
                }
                Err(PageError::TooSmall { needed }) => prop_assert!(needed > max_bytes),
                Err(error) => prop_assert!(false, "{error}"),
            }
        }
    }
}

// --- The rules, one by one ---

fn stdout(retain_bytes: u64, pieces: &[&[u8]]) -> Output {
    let mut output = Output::new(retain_bytes);
    pieces.iter().for_each(|piece| output.push(Stdout, piece));
    output
}

/// A page's text and next cursor.
#[track_caller]
fn check_page(output: &Output, query: PageQuery, text: &str, next_cursor: u64) -> Cut {
    let cut = output.page(&query).unwrap();
    let given: String = cut.chunks.iter().filter_map(|chunk| chunk.text.as_deref()).collect();
    assert_eq!((given.as_str(), cut.next_cursor), (text, next_cursor));
    cut
}

#[test]
fn nothing_written_is_an_empty_page() {
    let cut = check_page(&Output::new(MIB), PageQuery { cursor: None, ..query(0, 0) }, "", 0);
    assert_eq!(cut, Cut { start: 0, next_cursor: 0, dropped_bytes: 0, chunks: vec![] });
}

#[test]
fn r49_a_character_split_over_reads_shows_when_it_is_whole() {
    let mut output = Output::new(MIB);
    for piece in [&b"\xF0\x9F"[..], b"\x98"] {
        output.push(Stdout, piece);
        check_page(&output, query(0, 100), "", 0);
    }
    output.push(Stdout, b"\x80 ok\n");
    assert!(!check_page(&output, query(0, 100), "😀 ok\n", 8).chunks[0].lossy);
}

#[test]
fn r49_also_where_the_other_stream_wrote_between_its_bytes() {
    let mut output = stdout(MIB, &[b"a\xF0\x9F"]);
    output.push(Stderr, b"\xE3\x81");
    output.push(Stderr, b"\x82!");
    output.push(Stdout, b"\x98\x80");
    let cut = check_page(&output, query(0, 100), "aあ!😀", 9);
    assert_eq!(cut.chunks.iter().map(|chunk| chunk.stream).collect::<Vec<_>>(), [Stdout, Stderr, Stdout]);
}

#[test]
fn r50_a_page_limit_cuts_no_character() {
    let output = stdout(MIB, &["abあい".as_bytes()]);
    check_page(&output, query(0, 4), "ab", 2);
    check_page(&output, query(2, 3), "あ", 5);
    assert_eq!(output.page(&query(2, 2)), Err(PageError::TooSmall { needed: 3 }));
    assert_eq!(output.page(&query(2, 0)), Err(PageError::TooSmall { needed: 3 }));
    let base64 = output.page(&PageQuery { encoding: Encoding::Base64, ..query(0, 4) }).unwrap();
    assert_eq!((base64.next_cursor, bytes_of(&base64.chunks[0])), (2, b"ab".to_vec()));
}

#[test]
fn r52_bytes_of_any_value_count_and_come_back_as_they_are() {
    let bytes = b"a\0b\xFF\xFEc\x1B]0;x\x07\x1B[31mred\x1B[0m\r\n";
    let output = stdout(MIB, &[bytes]);
    let text = "a\0b\u{FFFD}\u{FFFD}c\u{1B}]0;x\u{7}\u{1B}[31mred\u{1B}[0m\r\n";
    let cut = check_page(&output, query(0, 100), text, bytes.len() as u64);
    assert!(cut.chunks[0].lossy);
    assert_eq!(serde_json::from_str::<Chunk>(&serde_json::to_string(&cut.chunks[0]).unwrap()).unwrap(), cut.chunks[0]);
    let raw = output.page(&PageQuery { encoding: Encoding::Base64, ..query(0, 100) }).unwrap();
    assert_eq!(bytes_of(&raw.chunks[0]), bytes);
    assert!(!raw.chunks[0].lossy && raw.chunks[0].text.is_none());
}

#[test]
fn an_invalid_part_shows_once_and_is_not_split() {
    let output = stdout(MIB, &[b"a\xF0\x9F\x98", b"b"]);
    check_page(&output, query(0, 100), "a\u{FFFD}b", 5);
    check_page(&output, query(0, 3), "a", 1);
    assert_eq!(output.page(&query(1, 2)), Err(PageError::TooSmall { needed: 3 }));
    check_page(&output, query(1, 3), "\u{FFFD}", 4);
}

#[test]
fn what_was_held_at_the_end_goes_in_once() {
    let mut output = stdout(MIB, &[b"a\xE3\x81"]);
    assert_eq!(output.retained().end, 1);
    output.close(Stderr);
    assert_eq!(output.retained().end, 1);
    for _ in 0..2 {
        output.close(Stdout);
        assert!(check_page(&output, query(0, 100), "a\u{FFFD}", 3).chunks[0].lossy);
    }
}

#[test]
fn two_streams_never_make_a_character_together() {
    let mut output = stdout(MIB, &[b"\xE3"]);
    output.close(Stdout);
    output.push(Stderr, b"\x81\x82");
    check_page(&output, query(0, 1), "\u{FFFD}", 1);
    assert_eq!(output.excerpt(0, 100).text, "\u{FFFD}\u{FFFD}\u{FFFD}");
    assert_eq!(output.excerpt(0, 1).text, "\u{FFFD}");
}

#[test]
fn a_cursor_beyond_the_end_is_out_of_range() {
    let output = stdout(MIB, &[b"abc\xE3"]);
    assert_eq!(output.page(&query(4, 10)), Err(PageError::OutOfRange { end: 3 }));
    check_page(&output, query(3, 10), "", 3);
}

#[test]
fn an_old_cursor_resumes_at_the_oldest_byte() {
    let output = stdout(4, &[b"0123456789"]);
    for (cursor, dropped_bytes) in [(None, 6), (Some(0), 6), (Some(5), 1), (Some(6), 0)] {
        let cut = check_page(&output, PageQuery { cursor, ..query(0, 3) }, "678", 9);
        assert_eq!((cut.start, cut.dropped_bytes), (6, dropped_bytes));
    }
}

#[test]
fn eviction_moves_past_a_character_it_would_cut() {
    let output = stdout(8, &["😀😀".as_bytes(), b"a"]);
    assert_eq!(output.retained(), Retained { earliest: 4, end: 9 });
    check_page(&output, query(0, 100), "😀a", 9);
}

#[test]
fn eviction_skips_no_stray_continuation_bytes() {
    assert_eq!(stdout(6, &[b"\x80\x80\x80\x80\x80\x80\x80"]).retained().earliest, 1);
    assert_eq!(stdout(6, &[b"\xF0\x9F\x98abcd"]).retained().earliest, 1);
}

#[test]
fn a_cursor_inside_a_character_gives_the_raw_rest() {
    let output = stdout(MIB, &["😀b".as_bytes()]);
    let cut = check_page(&output, query(2, 2), "\u{FFFD}\u{FFFD}", 4);
    assert!(cut.chunks[0].lossy);
    check_page(&output, query(2, 1), "\u{FFFD}", 3);
    assert_eq!(output.excerpt(2, 100).text, "\u{FFFD}\u{FFFD}b");
}

#[test]
fn with_a_stream_chosen_its_bytes_count_and_the_cursor_passes_all() {
    let mut output = stdout(MIB, &[b"ab"]);
    output.push(Stderr, b"12345");
    output.push(Stdout, "cé".as_bytes());
    output.push(Stderr, b"67");
    let only = |stream, cursor, max_bytes| PageQuery { stream: Some(stream), ..query(cursor, max_bytes) };
    assert_eq!(check_page(&output, only(Stdout, 0, 3), "abc", 8).chunks.len(), 1);
    check_page(&output, only(Stdout, 0, 2), "ab", 7);
    check_page(&output, only(Stdout, 0, 4), "abc", 8);
    check_page(&output, only(Stdout, 0, 5), "abcé", 12);
    check_page(&output, only(Stderr, 0, 7), "1234567", 12);
    assert_eq!(output.page(&only(Stdout, 8, 1)), Err(PageError::TooSmall { needed: 2 }));
    check_page(&output, only(Stdout, 10, 1), "", 12);
}

#[test]
fn a_stream_whose_bytes_come_later_is_never_an_empty_page() {
    let mut output = Output::new(MIB);
    output.push(Stderr, b"noise");
    output.push(Stdout, "あ".as_bytes());
    let only = |max_bytes| PageQuery { stream: Some(Stdout), ..query(0, max_bytes) };
    assert_eq!(output.page(&only(2)), Err(PageError::TooSmall { needed: 3 }));
    check_page(&output, only(3), "あ", 8);
}

#[test]
fn a_page_has_no_more_than_its_chunks() {
    let mut output = Output::new(MIB);
    alternating(10_000, 1).for_each(|(stream, bytes)| output.push(stream, &bytes));
    let cut = output.page(&query(0, MIB)).unwrap();
    assert_eq!((cut.chunks.len(), cut.next_cursor), (PAGE_CHUNKS_MAX, PAGE_CHUNKS_MAX as u64));
    assert_eq!(read_all(&output, MIB, None, Encoding::Text).len(), 10_000);
    let alone = output.page(&PageQuery { stream: Some(Stderr), ..query(0, MIB) }).unwrap();
    assert_eq!((alone.chunks.len(), alone.next_cursor), (1, 10_000));
}

#[test]
fn consecutive_bytes_of_one_stream_are_one_chunk_across_blocks() {
    let output = stdout(MIB, &["0123456789é".repeat(10_000).as_bytes()]);
    let cut = output.page(&query(0, 100_000)).unwrap();
    assert_eq!(cut.chunks.len(), 1);
    assert_eq!(cut.next_cursor, 100_000);
    assert_eq!(cut.chunks[0].text.as_deref(), Some(&"0123456789é".repeat(10_000)[..100_000]));
}

#[test]
fn an_excerpt_is_the_newest_text_from_a_characters_start() {
    let output = stdout(10, &["abcdあいう".as_bytes()]);
    let check = |from, max_bytes, text: &str, start, omitted_bytes, dropped_bytes| {
        let text = text.to_owned();
        let expected = Excerpt { text, start, next_cursor: 13, omitted_bytes, dropped_bytes };
        assert_eq!(output.excerpt(from, max_bytes), expected);
    };
    check(0, 100, "dあいう", 3, 0, 3);
    check(0, 8, "いう", 7, 4, 3);
    check(4, 6, "いう", 7, 3, 0);
    check(7, 100, "いう", 7, 0, 0);
    check(0, 2, "", 13, 10, 3);
    check(13, 100, "", 13, 0, 0);
    check(99, 100, "", 13, 0, 0);
}
