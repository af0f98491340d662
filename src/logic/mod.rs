//! Rules: what happens next, decided purely. No clock, no I/O, no log, no async: time is an argument.

pub mod environment;
pub mod gauge;
pub mod host;
pub mod output;
pub mod process;
pub mod session;
