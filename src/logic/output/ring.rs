//! The newest bytes of both streams, in the order they came.
//!
//! ```text
//!   first        earliest                                   end
//!     |              |                                       |
//!     [ gone  gone  kept ] [ kept  kept  kept ] [ kept  room ]      spare: [ ]
//!       front block, full        full             back block
//! ```
//!
//! Blocks of one size; all but the back one are full, so a position finds its block by division. A front block
//! that is wholly gone becomes the next back block: in steady state nothing is allocated.
//!
//! Invariants: `first <= earliest <= end`; `earliest` is never inside a whole character; no more than
//! `retain_bytes` are kept; memory stays within [`memory_bytes_max`]. Where labels would break the last one (a
//! large ring and streams that change every few bytes), older bytes go earlier, and `earliest` says so.
//!
//! It does not know of incomplete characters: what is appended is whole or invalid.

use std::collections::VecDeque;

use crate::protocol::output::{Cursor, Stream};

use super::characters::{CHARACTER_BYTES_MAX, Unit, first_unit, is_continuation};
use super::labels::{BLOCK_BYTES_MAX, Labels};

/// Smallest block.
const BLOCK_BYTES_MIN: usize = 16;

/// First capacity of the first block.
const CAPACITY_BYTES_MIN: usize = 256;

/// Part of the fixed allowance left for what is held only for a moment: a list being moved as it grows.
const MOMENTARY_BYTES: usize = 8 * 1024;

/// Heap that a ring may hold, whatever is written: the bytes, a tenth for their labels, and 64 KiB.
pub(super) const fn memory_bytes_max(retain_bytes: u64) -> usize {
    (retain_bytes + retain_bytes / 10) as usize + 64 * 1024
}

/// The ring.
#[derive(Clone, Debug)]
pub(super) struct Ring {
    retain_bytes: u64,
    block_bytes: usize,
    blocks: VecDeque<Block>,
    /// A block that is wholly gone, kept for the next one.
    spare: Option<Block>,
    /// Position of the front block's first byte.
    first: Cursor,
    earliest: Cursor,
    end: Cursor,
    /// Heap of all blocks, the spare one included.
    blocks_heap_bytes: usize,
}

impl Ring {
    /// A ring that keeps the newest `retain_bytes`, at least one character. Allocates nothing.
    pub(super) fn new(retain_bytes: u64) -> Self {
        Self::with_blocks(retain_bytes, retain_bytes.clamp(BLOCK_BYTES_MIN as u64, BLOCK_BYTES_MAX as u64) as usize)
    }

    /// A ring of blocks of a given size.
    pub(super) fn with_blocks(retain_bytes: u64, block_bytes: usize) -> Self {
        Self {
            retain_bytes: retain_bytes.max(CHARACTER_BYTES_MAX as u64),
            block_bytes,
            blocks: VecDeque::new(),
            spare: None,
            first: 0,
            earliest: 0,
            end: 0,
            blocks_heap_bytes: 0,
        }
    }

    /// Position of the oldest byte kept.
    pub(super) fn earliest(&self) -> Cursor {
        self.earliest
    }

    /// Position after the newest byte.
    pub(super) fn end(&self) -> Cursor {
        self.end
    }

    /// Heap held.
    pub(super) fn memory_bytes(&self) -> usize {
        self.blocks_heap_bytes + self.blocks.capacity() * size_of::<Block>()
    }

    /// Heap held, counted anew.
    #[cfg(test)]
    pub(super) fn counted_memory_bytes(&self) -> usize {
        let blocks: usize = self.blocks.iter().chain(&self.spare).map(Block::heap_bytes).sum();
        blocks + self.blocks.capacity() * size_of::<Block>()
    }

    /// Where the blocks' bytes are, the spare one included.
    #[cfg(test)]
    pub(super) fn block_addresses(&self) -> std::collections::BTreeSet<*const u8> {
        self.blocks.iter().chain(&self.spare).map(|block| block.bytes.as_ptr()).collect()
    }

    /// Adds bytes of one stream; the oldest make room for them.
    pub(super) fn append(&mut self, stream: Stream, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            self.open_block();
            let alone = self.blocks.len() == 1;
            let back = self.blocks.back_mut().expect("one was opened above");
            let (now, rest) = bytes.split_at(bytes.len().min(self.block_bytes - back.bytes.len()));
            let heap_bytes_before = back.heap_bytes();
            let at_least = if alone { CAPACITY_BYTES_MIN } else { self.block_bytes };
            back.reserve(now.len(), at_least, self.block_bytes);
            back.append(stream, now, self.block_bytes);
            self.blocks_heap_bytes += back.heap_bytes() - heap_bytes_before;
            self.end += now.len() as u64;
            self.evict_to(self.end.saturating_sub(self.retain_bytes));
            self.evict_for_memory();
            bytes = rest;
        }
    }

    /// The stream of the byte at `from`, and where its run ends, at the latest at `limit`. `from < limit <= end`.
    pub(super) fn run(&self, from: Cursor, limit: Cursor) -> (Stream, Cursor) {
        let (stream, mut to) = self.run_in_block(from);
        while to < limit {
            let (next, next_to) = self.run_in_block(to);
            if next != stream {
                break;
            }
            to = next_to;
        }
        (stream, to.min(limit))
    }

    /// Copies the bytes `from..to` behind what `into` holds.
    pub(super) fn copy(&self, from: Cursor, to: Cursor, into: &mut Vec<u8>) {
        into.reserve((to - from) as usize);
        let mut at = from;
        while at < to {
            let (block, offset) = self.locate(at);
            let count = (block.bytes.len() - offset).min((to - at) as usize);
            into.extend_from_slice(&block.bytes[offset..offset + count]);
            at += count as u64;
        }
    }

    /// The nearest position at or before `position` that splits no unit of what begins at `start`.
    pub(super) fn floor(&self, position: Cursor, start: Cursor) -> Cursor {
        self.unit_around(position, start).map_or(position, |(begin, _)| begin)
    }

    /// The nearest such position at or after `position`.
    pub(super) fn ceil(&self, position: Cursor, start: Cursor) -> Cursor {
        self.unit_around(position, start).map_or(position, |(begin, unit)| begin + unit.bytes())
    }

    /// Length of the unit at `position`, which is before the end.
    pub(super) fn unit_bytes(&self, position: Cursor) -> u64 {
        self.unit(position).bytes()
    }

    /// The unit that `position` lies inside of, and where it begins, at the earliest at `start`.
    fn unit_around(&self, position: Cursor, start: Cursor) -> Option<(Cursor, Unit)> {
        if position >= self.end || !is_continuation(self.byte(position)) {
            return None;
        }
        let reach = (CHARACTER_BYTES_MAX - 1) as u64;
        let lowest = position.saturating_sub(reach).max(start);
        let begin = (lowest..position).rev().find(|&before| !is_continuation(self.byte(before)))?;
        let unit = self.unit(begin);
        (begin + unit.bytes() > position).then_some((begin, unit))
    }

    /// The unit that begins at `position`. The end of the run ends what could belong to it.
    fn unit(&self, position: Cursor) -> Unit {
        let (_, limit) = self.run(position, self.end.min(position + CHARACTER_BYTES_MAX as u64));
        let mut bytes = [0; CHARACTER_BYTES_MAX];
        let count = (limit - position) as usize;
        for (byte, at) in bytes[..count].iter_mut().zip(position..) {
            *byte = self.byte(at);
        }
        match first_unit(&bytes[..count]) {
            Unit::Incomplete => Unit::Invalid(count),
            decided => decided,
        }
    }

    fn byte(&self, position: Cursor) -> u8 {
        let (block, offset) = self.locate(position);
        block.bytes[offset]
    }

    fn run_in_block(&self, position: Cursor) -> (Stream, Cursor) {
        let (block, offset) = self.locate(position);
        let (stream, to) = block.labels.run(offset, block.bytes.len());
        (stream, position + (to - offset) as u64)
    }

    fn locate(&self, position: Cursor) -> (&Block, usize) {
        let distance = (position - self.first) as usize;
        (&self.blocks[distance / self.block_bytes], distance % self.block_bytes)
    }

    /// Makes the back block one with room.
    fn open_block(&mut self) {
        if self.blocks.back().is_some_and(|back| back.bytes.len() < self.block_bytes) {
            return;
        }
        let needed = self.block_bytes + Labels::heap_bytes_max(self.block_bytes);
        while self.spare.is_none() && self.blocks.len() > 1 && self.memory_bytes() + needed > self.memory_aim() {
            self.evict_to(self.first + self.block_bytes as u64);
        }
        self.blocks.push_back(self.spare.take().unwrap_or_default());
    }

    /// Drops what is before `target`, and the rest of a character that this would cut.
    fn evict_to(&mut self, target: Cursor) {
        if target <= self.earliest {
            return;
        }
        self.earliest = match self.unit_around(target, self.earliest) {
            Some((begin, Unit::Character(bytes))) => begin + bytes as u64,
            _ => target,
        };
        while !self.blocks.is_empty() && self.first + self.block_bytes as u64 <= self.earliest {
            let mut block = self.blocks.pop_front().expect("it is not empty");
            self.first += self.block_bytes as u64;
            self.blocks_heap_bytes -= block.heap_bytes();
            if self.spare.is_none() {
                block.clear();
                self.blocks_heap_bytes += block.heap_bytes();
                self.spare = Some(block);
            }
        }
    }

    /// Drops the oldest blocks while more memory is held than may be.
    fn evict_for_memory(&mut self) {
        while self.memory_bytes() > self.memory_aim() {
            if let Some(block) = self.spare.take() {
                self.blocks_heap_bytes -= block.heap_bytes();
            } else if self.blocks.len() > 1 {
                self.evict_to(self.first + self.block_bytes as u64);
            } else {
                return;
            }
        }
    }

    fn memory_aim(&self) -> usize {
        memory_bytes_max(self.retain_bytes) - MOMENTARY_BYTES
    }
}

/// A piece of the ring.
#[derive(Clone, Debug, Default)]
struct Block {
    bytes: Vec<u8>,
    labels: Labels,
}

impl Block {
    fn heap_bytes(&self) -> usize {
        self.bytes.capacity() + self.labels.heap_bytes()
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.labels.clear();
    }

    /// Makes room, by doubling from `at_least`, up to a whole block.
    fn reserve(&mut self, more: usize, at_least: usize, block_bytes: usize) {
        let needed = self.bytes.len() + more;
        if needed > self.bytes.capacity() {
            let capacity = needed.next_power_of_two().max(at_least).min(block_bytes);
            self.bytes.reserve_exact(capacity - self.bytes.len());
        }
    }

    fn append(&mut self, stream: Stream, bytes: &[u8], block_bytes: usize) {
        let from = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        self.labels.extend(stream, from, from + bytes.len(), block_bytes);
    }
}
