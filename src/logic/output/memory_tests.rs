//! The memory of one process's output, held against its bound after every push.

use super::*;
use crate::protocol::output::{Stream::Stderr, Stream::Stdout};

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

/// Runs a pattern of pushes, and holds memory against the bound after each.
fn check_memory(retain_bytes: u64, pushes: impl Iterator<Item = (Stream, Vec<u8>)>) -> Output {
    let bound = (retain_bytes + retain_bytes / 10 + 64 * KIB) as usize;
    let mut output = Output::new(retain_bytes);
    assert_eq!(output.memory_bytes(), 0);
    for (stream, bytes) in pushes {
        output.push(stream, &bytes);
        assert!(output.memory_bytes() <= bound, "{} > {bound}", output.memory_bytes());
        let Retained { earliest, end } = output.retained();
        assert!(end - earliest <= retain_bytes);
        assert!(end - earliest >= end.min(retain_bytes - retain_bytes / 10));
    }
    assert_eq!(output.memory_bytes(), output.ring.counted_memory_bytes());
    output
}

pub(super) fn alternating(count: u64, piece_bytes: usize) -> impl Iterator<Item = (Stream, Vec<u8>)> {
    (0..count).map(move |at| (Stream::ALL[at as usize % 2], vec![b'x'; piece_bytes]))
}

#[test]
fn memory_is_bounded_for_alternating_bytes_in_a_ring_of_any_size() {
    for retain_bytes in [4 * KIB, 5000, 100 * KIB, MIB, 8 * MIB] {
        check_memory(retain_bytes, alternating(retain_bytes * 5 / 4, 1));
    }
}

#[test]
fn memory_is_bounded_when_calm_and_hectic_times_take_turns() {
    for retain_bytes in [4 * KIB, 4 * MIB] {
        let lap = || alternating(retain_bytes, 1).chain(alternating(retain_bytes / 20, 37));
        let calm = || std::iter::repeat_n((Stdout, vec![b'y'; 70_000]), retain_bytes as usize / 30_000 + 1);
        let output = check_memory(retain_bytes, calm().chain(lap()).chain(calm()));
        // Whoever writes calmly again has the whole ring again.
        assert_eq!(output.retained().end - output.retained().earliest, retain_bytes);
    }
}

#[test]
fn one_stream_has_the_whole_ring() {
    for retain_bytes in [4 * KIB, 5000, MIB, 8 * MIB] {
        for piece_bytes in [80, 4096, 65_536] {
            let pushes = std::iter::repeat_n(
                (Stderr, vec![b'z'; piece_bytes]),
                (retain_bytes as usize * 2 + 70_000) / piece_bytes,
            );
            let output = check_memory(retain_bytes, pushes);
            assert_eq!(output.retained().end - output.retained().earliest, retain_bytes);
        }
    }
}

#[test]
fn memory_grows_with_what_was_written() {
    let mut output = Output::new(1024 * MIB);
    for (written, at_most) in [(10, 1024), (1000, 3 * 1024), (10_000, 20 * 1024), (100_000, 128 * 1024)] {
        while output.retained().end < written {
            output.push(Stdout, b"0123456789");
        }
        assert!(output.memory_bytes() <= at_most, "{written}: {}", output.memory_bytes());
    }
}

#[test]
fn in_steady_state_blocks_are_used_again() {
    for (retain_bytes, piece_bytes) in [(MIB, 1), (MIB, 3), (MIB, 80), (4 * MIB, 1)] {
        let mut output = Output::new(retain_bytes);
        let write = |bytes: u64| alternating(bytes / piece_bytes as u64, piece_bytes);
        write(retain_bytes * 3 / 2).for_each(|(stream, bytes)| output.push(stream, &bytes));
        let (settled, blocks) = (output.memory_bytes(), output.ring.block_addresses());
        write(retain_bytes / 4).for_each(|(stream, bytes)| {
            output.push(stream, &bytes);
            assert!(output.memory_bytes().abs_diff(settled) <= 4 * 1024);
        });
        assert_eq!(output.ring.block_addresses(), blocks);
    }
}
