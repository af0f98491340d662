//! Words: everything that is said between a caller and a host.
//!
//! Plain data. Nothing here decides, reads a clock or touches the system.

pub mod bounds;
pub mod call;
pub mod error;
pub mod id;
pub mod output;
pub mod settings;
pub mod spec;
pub mod state;
pub mod status;
pub mod time;
pub mod verb;
