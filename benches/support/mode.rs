//! How much to measure: in full under `cargo bench`, or each thing once and small.

use std::env;

/// Full measurement, or one small pass that shows that the bench works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Full,
    Quick,
}

impl Mode {
    /// Quick when `--quick` is given or `PROCESSION_BENCH_QUICK` is set, and when cargo runs the bench as a test
    /// (it passes `--bench` only under `cargo bench`).
    pub fn from_arguments() -> Self {
        let has = |wanted: &str| env::args().any(|argument| argument == wanted);
        let quick = has("--quick") || env::var_os("PROCESSION_BENCH_QUICK").is_some() || !has("--bench");
        if quick { Self::Quick } else { Self::Full }
    }

    /// One of two amounts.
    pub fn pick<T>(self, full: T, quick: T) -> T {
        match self {
            Self::Full => full,
            Self::Quick => quick,
        }
    }
}
