//! Words: everything that is said between a caller and a host.
//!
//! Plain data. Nothing here decides, reads a clock or touches the system.

pub mod id;
pub mod output;
pub mod settings;
pub mod state;
