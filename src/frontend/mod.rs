//! Front ends: ways to reach a host from outside this program. Each builds calls and shows answers, and decides
//! nothing else.
//!
//! Invariant: where the connection is the host's own (standard input of `mcp` and `rpc`), its end is the host's.

#[cfg(feature = "cli")]
pub mod cli;
pub mod ending;
#[cfg(feature = "mcp")]
pub mod mcp;
pub mod rpc;
#[cfg(feature = "cli")]
mod run;
#[cfg(feature = "cli")]
mod signals;
