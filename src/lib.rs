//! A runtime that owns background processes for agent servers.
//!
//! An agent server holds many conversations at once. Each gets a [`Session`]; in it an [`Agent`] starts commands,
//! reads their output, waits for them and stops them. One [`Host`] owns them all: it limits them, and ends them when it
//! ends.
//!
//! ```standalone_crate
//! use procession::{Host, Spec, State};
//!
//! fn main() -> Result<(), procession::Error> {
//!     procession::init()?; // first of all: the host runs a copy of this program, which then does not return from here
//!     tokio::runtime::Runtime::new().expect("a runtime").block_on(serve())
//! }
//!
//! async fn serve() -> Result<(), procession::Error> {
//!     let host = Host::builder().start().await?;
//!     let agent = host.session("conversation-1".parse()?).agent("main".parse()?);
//!
//!     let server = agent.start(Spec::command("echo ready; exec sleep 60")).await?; // launched, not ready
//!     let page = server.output().wait_ms(5_000).page().await?; // labelled, with cursors
//!     assert_eq!(page.text(), "ready\n");
//!
//!     let status = server.stop(None).await?; // the whole tree, proven or named
//!     assert_eq!(status.state, State::Stopped);
//!     host.shutdown().await?;
//!     Ok(())
//! }
//! ```
//!
//! # Where things are
//!
//! | module | what |
//! |---|---|
//! | [`runtime`] | the facade: [`Host`], [`Session`], [`Agent`], [`Process`], [`Output`], and [`tools`] for models |
//! | [`protocol`] | the words: every call and answer, states, errors, bounds |
//! | [`logic`] | the rules, pure: the life of a process, its output, limits, retention |
//! | [`actors`] | the shells that carry the rules out |
//! | [`os`] | the mechanism: launching, signalling, reading |
//! | [`config`] | settings: every key with its default and bounds |
//! | [`frontend`] | `procession run`, `mcp`, `rpc`, `config` |
//!
//! # What may be relied on
//!
//! Dropping the future of a `start` or `exec` stops that command; dropping any other future, or a handle, stops
//! nothing; dropping the last [`Host`] ends everything it started. Durations are in milliseconds on CLOCK_MONOTONIC,
//! sizes in bytes. The library is a guest: it touches no signal handler, working directory, environment or standard
//! stream of the embedding program. It must run within a tokio runtime with I/O and time enabled.

#![warn(missing_docs, clippy::print_stdout, clippy::print_stderr, clippy::unwrap_used)]
// Unit tests may launch helpers and wait as they like; clippy.toml has the calls and the reasons.
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod actors;
pub mod config;
pub mod frontend;
pub mod logic;
pub mod os;
pub mod protocol;
pub mod runtime;

pub use protocol::error::{Code, Error};
pub use protocol::id::{AgentName, Handle, Label, ProcessId, RequestName, SessionName};
pub use protocol::output::{Chunk, Cursor, Encoding, Excerpt, Page, Stream};
pub use protocol::spec::{OnConflict, Spec};
pub use protocol::state::{Cleanup, Containment, ContainmentKind, Exit, Proof, Reason, State};
pub use protocol::status::{Row, Status};
pub use protocol::verb::exec::{Exec, ExecAnswer};
pub use protocol::verb::list::List;
pub use protocol::verb::session::OpenSession;
pub use protocol::verb::update::Update;
pub use protocol::verb::wait::{Outcome, Wait, WaitAnswer};
pub use runtime::{Agent, Host, HostBuilder, Output, Process, Request, Session, init, tools};
