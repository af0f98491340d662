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

/// Makes this program able to own whole trees of processes: call it first in `main`.
///
/// A host starts a small helper process, the broker, from the embedding program's own image. This call is where the copy
/// becomes the broker, and then never returns; in the program itself it only remembers that. Without it a host uses the
/// program `procession-guardian` beside the executable or the one named by `broker.path`, and without any of them
/// processes are owned by their process group only, which every status says in `containment`.
///
/// ```no_run
/// procession::init();
/// // parse arguments, build the runtime, start a host
/// ```
pub fn init() {
    crate::actors::link::init();
}

pub use host::{Host, HostBuilder};
pub use process::{Output, Process};
pub use session::{Agent, Request, Session};
