//! What every bench shares: rounds in pairs, percentiles, one line for each figure, memory and CPU of this process,
//! a writer to read from, the host that is measured, and the proof that nothing is left.
//!
//! Invariant: a bench fails on a wrong result or a leftover process, never on a time. A time is reported.

pub mod census;
pub mod memory;
pub mod mode;
pub mod ours;
pub mod report;
pub mod samples;
pub mod writer;

pub use mode::Mode;
pub use ours::Ours;
pub use report::{Aim, Figure, Report, Side, figure};
pub use samples::Samples;
