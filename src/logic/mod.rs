//! Rules: what happens next, decided purely. No clock, no I/O, no log, no async: time is an argument.

pub mod output;
