//! The facade: what an embedder holds. Handles on a host, its sessions, agents, requests and processes.
//!
//! No actor type is visible here. Dropping a handle or a wait stops nothing; dropping the future of a `start` or
//! `exec` stops that command; dropping the last [`Host`] ends everything it started.

mod dispatch;
mod host;
mod process;
mod session;
pub mod settings;
pub mod tools;

pub use host::{Host, HostBuilder};
pub use process::{Output, Process};
pub use session::{Agent, Request, Session};
