//! The front ends as programs: MCP, JSON lines and `run`, each as its own process on real pipes.
//!
//! Every test that starts something ends by showing that nothing of it is left.

#![cfg(all(feature = "cli", target_os = "linux"))]

mod config;
mod harness;
mod mcp;
mod rpc;
mod run;
