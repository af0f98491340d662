//! The last mebibyte of a stream. Grows as bytes arrive, so that a silent process costs nothing.
//!
//! Invariant: holds the bytes from `start()` to `end()`; both only grow, and are at most [`RING_BYTES`] apart.

/// Most bytes kept.
pub const RING_BYTES: usize = 1 << 20;

/// Bytes with absolute positions; the oldest give way.
#[derive(Default)]
pub struct Ring {
    /// Shorter than [`RING_BYTES`] until that many bytes came; from then on byte `n` stands at `n % RING_BYTES`.
    bytes: Vec<u8>,
    /// Bytes ever appended.
    end: u64,
}

impl Ring {
    pub fn end(&self) -> u64 {
        self.end
    }

    pub fn start(&self) -> u64 {
        self.end - self.bytes.len() as u64
    }

    pub fn append(&mut self, mut new: &[u8]) {
        let room = RING_BYTES - self.bytes.len();
        let (grown, rest) = new.split_at(room.min(new.len()));
        self.bytes.extend_from_slice(grown);
        self.end += grown.len() as u64;
        new = rest;
        while !new.is_empty() {
            let at = (self.end % RING_BYTES as u64) as usize;
            let count = new.len().min(RING_BYTES - at);
            self.bytes[at..at + count].copy_from_slice(&new[..count]);
            self.end += count as u64;
            new = &new[count..];
        }
    }

    /// Copies at most `max` bytes from `cursor` on, or from the oldest kept byte if `cursor` is older.
    pub fn page(&self, cursor: u64, max: usize) -> Vec<u8> {
        let from = cursor.clamp(self.start(), self.end);
        let count = max.min((self.end - from) as usize);
        let at = (from % RING_BYTES as u64) as usize;
        let first = count.min(self.bytes.len().saturating_sub(at));
        let mut page = Vec::with_capacity(count);
        page.extend_from_slice(&self.bytes[at..at + first]);
        page.extend_from_slice(&self.bytes[..count - first]);
        page
    }
}
