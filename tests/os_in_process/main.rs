//! The in-process launcher with real processes, once for every set of means the system offers.
//!
//! The tests run one at a time, each in a runtime of its own, and each ends with a census: no child, no zombie,
//! no process that carries the test's mark, and as many descriptors as before.
#![cfg(target_os = "linux")]
#![allow(unsafe_code, reason = "makes itself the bad embedder: signal masks, ignored signals, odd descriptors")]

mod ending;
mod guest;
mod harness;
mod inherited;
mod launching;
#[path = "../support/pause.rs"]
mod pause;
mod speed;
