//! Mechanism: launching a process, owning its tree, reading its pipes. Decides nothing.
//!
//! The only place for `unsafe` and for calls to the system; each `unsafe` block says why it is sound.

#![allow(unsafe_code, reason = "system calls that no safe package wraps; nowhere else")]

pub mod launch;
pub mod pipe;
