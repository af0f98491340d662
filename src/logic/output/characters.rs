//! Characters in raw bytes: what begins here, and what may still be on its way.
//!
//! A *unit* is what text shows as one character: a whole UTF-8 character, or a maximal invalid part (1–3 bytes)
//! shown as one U+FFFD. The standard library's decoder is the only authority on both, so that units here and
//! `String::from_utf8_lossy` never disagree.
//!
//! What makes looking at a few bytes enough: a byte that is not a continuation (`10xxxxxx`) begins a unit,
//! wherever it stands.

use crate::protocol::output::Stream;

/// Longest UTF-8 character, in bytes.
pub(super) const CHARACTER_BYTES_MAX: usize = 4;

/// What a piece of bytes begins with, and its length in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// A whole character.
    Character(usize),
    /// A maximal invalid part.
    Invalid(usize),
    /// A possible character of which more bytes must follow.
    Incomplete,
}

impl Unit {
    /// Its length; of one that is incomplete nothing can be said.
    pub(super) fn bytes(self) -> u64 {
        match self {
            Unit::Character(bytes) | Unit::Invalid(bytes) => bytes as u64,
            Unit::Incomplete => 0,
        }
    }
}

/// The unit that `bytes` begin with. Of more than four bytes only the first four matter.
pub(super) fn first_unit(bytes: &[u8]) -> Unit {
    let bytes = &bytes[..bytes.len().min(CHARACTER_BYTES_MAX)];
    let (valid, error_bytes) = match std::str::from_utf8(bytes) {
        Ok(text) => (text, None),
        Err(error) => {
            let valid = std::str::from_utf8(&bytes[..error.valid_up_to()]).expect("the decoder called it valid");
            (valid, error.error_len())
        }
    };
    match (valid.chars().next(), error_bytes) {
        (Some(character), _) => Unit::Character(character.len_utf8()),
        (None, Some(invalid_bytes)) => Unit::Invalid(invalid_bytes),
        (None, None) => Unit::Incomplete,
    }
}

/// Whether a byte can only stand inside a character, never begin one.
pub(super) fn is_continuation(byte: u8) -> bool {
    byte & 0b1100_0000 == 0b1000_0000
}

/// How many of the last bytes are a possible character's beginning: 0–3.
fn incomplete_bytes(bytes: &[u8]) -> usize {
    let longest = bytes.len().min(CHARACTER_BYTES_MAX - 1);
    for count in 1..=longest {
        let tail = &bytes[bytes.len() - count..];
        if !is_continuation(tail[0]) {
            return if first_unit(tail) == Unit::Incomplete { count } else { 0 };
        }
    }
    0
}

/// Holds back what of each stream may become a character, so that only whole characters and bytes that are
/// invalid for certain go on. What a stream sent goes on in its order, nothing added, nothing left out.
#[derive(Clone, Debug, Default)]
pub(super) struct Assembler {
    tails: [Tail; Stream::ALL.len()],
}

impl Assembler {
    /// Takes what a stream sent and calls `on` with what goes on, zero to two times.
    pub(super) fn push(&mut self, stream: Stream, bytes: &[u8], mut on: impl FnMut(&[u8])) {
        let tail = &mut self.tails[stream as usize];
        let rest = tail.complete(bytes, &mut on);
        let (whole, incomplete) = rest.split_at(rest.len() - incomplete_bytes(rest));
        if !whole.is_empty() {
            on(whole);
        }
        tail.extend(incomplete);
    }

    /// The stream ended: what was held goes on as it is.
    pub(super) fn close(&mut self, stream: Stream, mut on: impl FnMut(&[u8])) {
        let tail = std::mem::take(&mut self.tails[stream as usize]);
        if tail.count > 0 {
            on(tail.held());
        }
    }
}

/// The beginning of one character; empty between characters.
#[derive(Clone, Debug, Default)]
struct Tail {
    bytes: [u8; CHARACTER_BYTES_MAX],
    count: usize,
}

impl Tail {
    fn held(&self) -> &[u8] {
        &self.bytes[..self.count]
    }

    fn extend(&mut self, bytes: &[u8]) {
        self.bytes[self.count..self.count + bytes.len()].copy_from_slice(bytes);
        self.count += bytes.len();
    }

    /// Moves bytes from the front of `bytes` behind what is held until that is decided, or until there are no
    /// more. Gives back the bytes not used; some are left only when nothing is held any more.
    fn complete<'a>(&mut self, bytes: &'a [u8], on: &mut impl FnMut(&[u8])) -> &'a [u8] {
        let mut used = 0;
        while self.count > 0 && used < bytes.len() {
            self.extend(&bytes[used..=used]);
            used += 1;
            match first_unit(self.held()) {
                Unit::Incomplete => {}
                Unit::Character(_) => {
                    on(self.held());
                    self.count = 0;
                }
                Unit::Invalid(invalid_bytes) => {
                    // The byte that broke it is not part of it, and may begin something itself.
                    on(&self.bytes[..invalid_bytes]);
                    used -= self.count - invalid_bytes;
                    self.count = 0;
                }
            }
        }
        &bytes[used..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pushes the pieces on one stream and expects what is held back after the last.
    fn check(pieces: &[&[u8]], held: &[u8]) {
        let mut assembler = Assembler::default();
        let mut gone = Vec::new();
        for piece in pieces {
            assembler.push(Stream::Stdout, piece, |bytes| gone.extend_from_slice(bytes));
        }
        let went_on = gone.len();
        assembler.close(Stream::Stdout, |bytes| gone.extend_from_slice(bytes));
        assert_eq!(gone[went_on..], *held, "{pieces:x?}");
        assert_eq!(gone, pieces.concat());
    }

    #[test]
    fn whole_characters_go_on() {
        check(&[b"a", "é".as_bytes(), "あ😀".as_bytes()], b"");
    }

    #[test]
    fn a_possible_beginning_is_held() {
        check(&[b"a\xC3"], b"\xC3");
        check(&[b"a\xF0\x9F"], b"\xF0\x9F");
        check(&[b"a\xF0", b"\x9F", b"\x98"], b"\xF0\x9F\x98");
        check(&[b"\xFF\xE3"], b"\xE3");
    }

    #[test]
    fn a_character_that_arrives_byte_by_byte_goes_on_when_it_is_whole() {
        check(&[b"\xF0", b"\x9F", b"\x98", b"\x80"], b"");
        check(&[b"\xF0\x9F", b"\x98\x80\xF0"], b"\xF0");
    }

    #[test]
    fn an_impossible_beginning_is_not_held() {
        for impossible in [&b"\xFF"[..], b"\xC0", b"\xC1", b"\xF5", b"\xE0\x80", b"\xED\xA0", b"\xF0\x8F", b"\xF4\x90"]
        {
            check(&[impossible], b"");
        }
        check(&[b"\x80\x80\x80"], b"");
    }

    #[test]
    fn the_byte_that_breaks_a_held_beginning_may_begin_another() {
        check(&[b"\xE3\x81", b"a"], b"");
        check(&[b"\xE3\x81", b"\xE3"], b"\xE3");
        check(&[b"\xF0", b"\x8F"], b"");
    }
}
