//! Faults that people met elsewhere, each a test with its number in the name.

#![cfg(all(feature = "cli", target_os = "linux"))]

#[path = "../support/mod.rs"]
mod support;

mod bad_kernel;
mod deadlines;
mod drained;
mod encoding;
mod exit_codes;
mod failing_to_start;
mod growth;
mod held_pipes;
mod inherited;
mod limits;
mod records;
mod stopping;
