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
/// becomes the broker, and then never returns; in the program itself it only remembers that. A program with other threads
/// cannot be copied so: call it before a runtime is built, not within `#[tokio::main]`. Without it a host uses the
/// program `procession-guardian` beside the executable or the one named by `broker.path`, and without any of them
/// processes are owned by their process group only, which every status says in `containment`.
///
/// ```no_run
/// fn main() -> Result<(), Box<dyn std::error::Error>> {
///     procession::init()?;
///     // parse arguments
///     let runtime = tokio::runtime::Runtime::new()?;
///     runtime.block_on(async {
///         let host = procession::Host::builder().start().await?;
///         host.shutdown().await?;
///         Ok(())
///     })
/// }
/// ```
///
/// # Errors
/// `containment_unavailable` where other threads run already. The program may go on; its hosts then look for
/// `procession-guardian`.
pub fn init() -> Result<(), crate::protocol::error::Error> {
    crate::actors::link::init()
}

pub use host::{Host, HostBuilder};
pub use process::{Output, Process};
pub use session::{Agent, Request, Session};
