//! The seam between a process's actor and whatever owns its tree.
//!
//! One side asks ([`Launcher`], [`Tree`]), the other reports ([`Fact`]). Nothing behind this seam decides when
//! a process ends or what its end is called; nothing in front of it touches a pid.
//!
//! Order of facts for one process: `Launched` or `LaunchFailed` once, first; after `LaunchFailed` nothing.
//! After `Launched`, `RootEnded` once; after it `Leftovers` at most once, directly (only if the root left live
//! members behind, also where they are being killed), and `Gone` once, last, if the kernel ever says so.
//! `Survivors` come at any time between `Launched` and `Gone`, one for each [`Tree::inspect`] not answered by
//! `Gone`: also while the root is alive, which then is among them.

use std::ffi::CString;
use std::path::PathBuf;
use std::time::Duration;

use crate::protocol::state::{Containment, Exit, Proof, Signal, Survivor};

use super::pipe::Pipe;

/// Everything needed to launch one process.
#[derive(Debug)]
pub struct LaunchRequest {
    /// The program and its arguments. A program without a slash is searched for in `PATH` of `env`.
    pub argv: Vec<CString>,
    /// The whole environment, `NAME=value`.
    pub env: Vec<CString>,
    /// The session's directory, absolute.
    pub directory: PathBuf,
    /// The working directory: relative to `directory`, or absolute.
    pub cwd: PathBuf,
    /// Whether `cwd` must lie beneath `directory`, links resolved.
    pub confined: bool,
    /// The first signal of an end that nobody here asks for: this program died, and its process is ended by its owner.
    pub signal: Signal,
    /// Milliseconds between it and KILL.
    pub grace_ms: u64,
    /// Capacity asked for the output pipes; where it is refused, the system's default is used.
    pub pipe_bytes: usize,
}

/// Why a launch failed: the step, the system's error, and what it concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchError {
    /// `cancelled`, `open_directory`, `find_program`, `make_pipe`, `make_guardian` or `execute`.
    pub operation: &'static str,
    /// The system's error number, 0 where there is none.
    pub errno: i32,
    /// The path concerned, where there is one.
    pub path: Option<PathBuf>,
    /// What would help.
    pub hint: String,
}

/// What a tree's owner reports.
#[derive(Debug)]
pub enum Fact {
    /// The kernel executed the program. The read ends of its output.
    Launched {
        /// Its standard output.
        stdout: Pipe,
        /// Its standard error.
        stderr: Pipe,
    },
    /// The program was not executed; nothing of it exists.
    LaunchFailed(LaunchError),
    /// The root ended.
    RootEnded(Exit),
    /// The root is gone and this many other live members were left when it was looked at.
    Leftovers(usize),
    /// What is still alive, and why; the answer to [`Tree::inspect`]. Never empty: then it is `Gone`.
    Survivors(Vec<Survivor>),
    /// Its owner ends it by itself, because this program was silent or let the deadline pass. At most once, any time
    /// between `Launched` and `Gone`.
    Alone,
    /// Nothing is left. Nothing follows.
    Gone(Proof),
}

/// Where facts go. Called from any thread, also from within a call on [`Tree`]; must not block.
pub type FactSink = Box<dyn Fn(Fact) + Send + Sync>;

/// Launches processes.
pub trait Launcher: Send + Sync + 'static {
    /// How far the trees launched here can be ended.
    fn containment(&self) -> Containment;

    /// Says that whoever serves calls is there. An owner that this program cannot hold up ends everything where that is
    /// not said for long. Never blocks.
    fn beat(&self) {}

    /// Launches in the background; the first fact says how it went. Never blocks.
    fn launch(&self, request: LaunchRequest, facts: FactSink) -> Box<dyn Tree>;
}

/// A handle on one tree. Calls never block and never fail: what they could not do shows in the facts.
/// Dropping it kills what is left of the tree.
pub trait Tree: Send {
    /// Gives up a launch. If nothing was started, `LaunchFailed` with `cancelled` follows at once (from within
    /// this call) and nothing will be. If the program is being executed or already was, it is killed and told in
    /// order: `Launched`, `RootEnded`, `Gone`. A launch whose own failure comes first tells that.
    fn abort(&self);
    /// Sends a signal to every live member, then CONT, so that a stopped one sees it. `Kill` is [`Tree::kill`].
    /// Nothing is sent before `Launched`.
    fn signal(&self, signal: Signal);
    /// Kills every member, and goes on until nothing is left or the handle is dropped. Before `Launched` it gives
    /// the launch up.
    fn kill(&self);
    /// Asks for `Survivors` or `Gone`.
    fn inspect(&self);
    /// Has the tree ended this long from now, and a second more, without anybody here: for an owner that this program
    /// cannot hold up. `None` = never. Nothing happens where this program itself is the owner.
    fn limit(&self, _left: Option<Duration>) {}
}
