//! Which stream each byte of one block came from.
//!
//! Two forms, whichever is smaller: the offsets at which the stream changes, or, where it changes more often
//! than every 16 bytes, one bit for each byte. Both live in the same words, so a block's labels never hold more
//! than an eighth of the block, and a block used again allocates nothing.

use crate::protocol::output::Stream;

const BITS: usize = u16::BITS as usize;

/// Largest block whose offsets fit a word and whose bits fit the scratch space of a change of form.
pub(super) const BLOCK_BYTES_MAX: usize = 16 * 1024;

/// Smallest capacity of a list of changes, in words.
const WORDS_MIN: usize = 4;

/// The labels of one block.
#[derive(Clone, Debug, Default)]
pub(super) struct Labels {
    /// Offsets of changes, growing; or the bits, set for standard error.
    words: Vec<u16>,
    /// Whether `words` are bits.
    bits: bool,
    /// Label of the block's first byte.
    first: bool,
    /// Label of the block's newest byte.
    newest: bool,
}

impl Labels {
    /// Heap that the labels of a block of this size may hold.
    pub(super) const fn heap_bytes_max(block_bytes: usize) -> usize {
        words_max(block_bytes) * size_of::<u16>()
    }

    /// Heap held.
    pub(super) fn heap_bytes(&self) -> usize {
        self.words.capacity() * size_of::<u16>()
    }

    /// Forgets all labels. Keeps its memory, unless most of it was of no use.
    pub(super) fn clear(&mut self) {
        if self.words.len() * 4 < self.words.capacity() {
            self.words = Vec::new();
        }
        self.words.clear();
        self.bits = false;
    }

    /// Labels the bytes `from..to` of the block; `from` is the first without a label.
    pub(super) fn extend(&mut self, stream: Stream, from: usize, to: usize, block_bytes: usize) {
        let label = label(stream);
        if from == 0 {
            self.first = label;
        } else if label != self.newest && !self.bits {
            if self.words.len() < words_max(block_bytes) {
                self.push_change(from, block_bytes);
            } else {
                self.turn_into_bits(from);
            }
        }
        if self.bits && label {
            set_bits(&mut self.words, from, to);
        }
        self.newest = label;
    }

    /// The stream of the byte at `offset`, and where the bytes of that stream end. `len`: bytes in the block.
    pub(super) fn run(&self, offset: usize, len: usize) -> (Stream, usize) {
        if self.bits {
            let (label, end) = bit_run(&self.words, offset);
            return (stream(label), end.min(len));
        }
        let changes = self.words.partition_point(|&change| usize::from(change) <= offset);
        let label = self.first ^ (changes % 2 == 1);
        (stream(label), self.words.get(changes).map_or(len, |&change| usize::from(change)))
    }

    fn push_change(&mut self, offset: usize, block_bytes: usize) {
        let count = self.words.len();
        if count == self.words.capacity() {
            let capacity = (count * 2).max(WORDS_MIN).min(words_max(block_bytes));
            self.words.reserve_exact(capacity - count);
        }
        self.words.push(u16::try_from(offset).expect("a block is smaller than a word's range"));
    }

    /// `len`: labels so far. As many words of bits as there were changes: the list was full.
    fn turn_into_bits(&mut self, len: usize) {
        let mut bits = [0; BLOCK_BYTES_MAX / BITS];
        let mut from = 0;
        while from < len {
            let (stream, to) = self.run(from, len);
            if label(stream) {
                set_bits(&mut bits, from, to);
            }
            from = to;
        }
        let words = self.words.len();
        self.words.copy_from_slice(&bits[..words]);
        self.bits = true;
    }
}

const fn words_max(block_bytes: usize) -> usize {
    block_bytes.div_ceil(BITS)
}

fn label(stream: Stream) -> bool {
    match stream {
        Stream::Stdout => false,
        Stream::Stderr => true,
    }
}

fn stream(label: bool) -> Stream {
    if label { Stream::Stderr } else { Stream::Stdout }
}

fn set_bits(words: &mut [u16], from: usize, to: usize) {
    let mut at = from;
    while at < to {
        let shift = at % BITS;
        let count = (BITS - shift).min(to - at);
        words[at / BITS] |= (u16::MAX >> (BITS - count)) << shift;
        at += count;
    }
}

/// The bit at `offset`, and where the next that differs is; may point past the last label.
fn bit_run(words: &[u16], offset: usize) -> (bool, usize) {
    let set = words[offset / BITS] >> (offset % BITS) & 1 == 1;
    let mut at = offset;
    while at / BITS < words.len() {
        let differs = (if set { !words[at / BITS] } else { words[at / BITS] }) >> (at % BITS);
        if differs != 0 {
            return (set, at + differs.trailing_zeros() as usize);
        }
        at = (at / BITS + 1) * BITS;
    }
    (set, at)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK_BYTES: usize = 4096;

    /// Writes pieces of these lengths, streams in turn, and expects every byte's label and run to be true.
    fn check(mut piece_bytes: impl FnMut(usize) -> usize) -> Labels {
        let mut labels = Labels::default();
        let mut naive = Vec::new();
        for piece in 0.. {
            let from = naive.len();
            let to = (from + piece_bytes(piece)).min(BLOCK_BYTES);
            if from == to {
                break;
            }
            let stream = Stream::ALL[piece % 2];
            labels.extend(stream, from, to, BLOCK_BYTES);
            naive.resize(to, stream);
        }
        for offset in 0..naive.len() {
            let run = naive[offset..].iter().take_while(|&&other| other == naive[offset]).count();
            assert_eq!(labels.run(offset, naive.len()), (naive[offset], offset + run), "at {offset}");
        }
        assert!(labels.heap_bytes() <= Labels::heap_bytes_max(BLOCK_BYTES));
        labels
    }

    #[test]
    fn one_stream_needs_no_memory() {
        assert_eq!(check(|_| BLOCK_BYTES).heap_bytes(), 0);
    }

    #[test]
    fn rare_changes_are_a_short_list() {
        assert!(!check(|piece| 17 + piece % 40).bits);
    }

    #[test]
    fn frequent_changes_are_bits() {
        assert!(check(|_| 1).bits);
        assert!(check(|piece| 1 + piece % 3).bits);
        assert!(check(|piece| if piece < 600 { 1 } else { 37 }).bits);
    }

    #[test]
    fn labels_used_again_say_nothing_of_the_past() {
        let mut labels = check(|_| 1);
        let heap_bytes = labels.heap_bytes();
        labels.clear();
        labels.extend(Stream::Stderr, 0, 10, BLOCK_BYTES);
        assert_eq!(labels.run(0, 10), (Stream::Stderr, 10));
        assert_eq!(labels.heap_bytes(), heap_bytes);
        labels.clear();
        assert_eq!(labels.heap_bytes(), 0);
    }
}
