//! Faults that people met elsewhere, each a test with its number in the name.

#![cfg(target_os = "linux")]

#[path = "../support/mod.rs"]
mod support;

mod held_pipes;
