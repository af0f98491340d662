//! A runtime that owns background processes for agent servers.

#![warn(missing_docs, clippy::print_stdout, clippy::print_stderr, clippy::unwrap_used)]
// Unit tests may launch helpers and wait as they like; clippy.toml has the calls and the reasons.
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod config;
pub mod frontend;
pub mod logic;
pub mod os;
pub mod protocol;
pub mod runtime;
