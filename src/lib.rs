//! A runtime that owns background processes for agent servers.

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
pub use protocol::state::{Cleanup, Exit, Proof, Reason, State};
pub use protocol::status::{Row, Status};
pub use protocol::verb::exec::{Exec, ExecAnswer};
pub use protocol::verb::list::List;
pub use protocol::verb::session::OpenSession;
pub use protocol::verb::update::Update;
pub use protocol::verb::wait::{Outcome, Wait, WaitAnswer};
pub use runtime::{Agent, Host, HostBuilder, Output, Process, Request, Session, tools};
