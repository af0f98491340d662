//! Bounds on what a caller may send, each by name with its unit.

/// Longest `command`, and longest single string of `argv` or `env`: what Linux takes in one string (MAX_ARG_STRLEN, 32 pages).
pub const STRING_BYTES_MAX: usize = 128 * 1024;
/// Longest `command` or `argv` in all.
pub const ARGV_BYTES_MAX: usize = 1024 * 1024;
/// Most strings in `argv`.
pub const ARGV_COUNT_MAX: usize = 10_000;
/// Largest `env` in all, names and values.
pub const ENV_BYTES_MAX: usize = 1024 * 1024;
/// Most variables in `env`.
pub const ENV_COUNT_MAX: usize = 10_000;
/// Longest name of a variable.
pub const ENV_NAME_BYTES_MAX: usize = 256;
/// Longest path: PATH_MAX of Linux.
pub const PATH_BYTES_MAX: usize = 4096;
/// Longest `start_id`.
pub const START_ID_BYTES_MAX: usize = 128;
/// Longest duration in a call: 365 days.
pub const DURATION_MS_MAX: u64 = 31_536_000_000;
/// Longest grace.
pub const GRACE_MS_MAX: u64 = 60_000;
/// Largest page.
pub const PAGE_BYTES_MAX: u64 = 1024 * 1024;
/// Most rows of a `list`.
pub const LIST_LIMIT_MAX: u64 = 1000;
/// Rows of a `list` that names no limit.
pub const LIST_LIMIT_DEFAULT: u64 = 100;
/// Most processes of one `wait`.
pub const WAIT_PROCESSES_MAX: usize = 32;
/// Output that a `wait` gives with its answer.
pub const WAIT_OUTPUT_BYTES: u64 = 2000;
/// Most agents of one session.
pub const AGENTS_MAX: usize = 1000;

/// Takes a number that a caller gave into its range. Gives what is used, where that is not what was given.
pub(crate) fn clamp(given: &mut Option<u64>, range: std::ops::RangeInclusive<u64>) -> Option<u64> {
    let number = given.as_mut()?;
    let used = (*number).clamp(*range.start(), *range.end());
    let differs = used != *number;
    *number = used;
    differs.then_some(used)
}

/// Longest line of the JSON-lines protocol.
pub const LINE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Most of a refused value that an error repeats.
pub const GIVEN_BYTES_MAX: usize = 200;
/// Most holders that a refusal names.
pub const HOLDERS_MAX: usize = 100;
/// Longest name derived from a command.
pub const DERIVED_NAME_BYTES_MAX: usize = 64;
/// Most survivors that a status names.
pub const SURVIVORS_MAX: usize = 20;
