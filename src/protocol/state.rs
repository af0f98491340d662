//! What can be said about a process's life: its state, why it ended, what was seen of its end, and what is
//! proven about what it left behind.
//!
//! Wire names here are for ever: they stand in answers, in saved files and in other people's code.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where a process is in its life. The last five are final and never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Its place is reserved and its launch is under way.
    Starting,
    /// The kernel has executed the program.
    Running,
    /// Somebody asked it to end, or its deadline passed; its tree is being ended.
    Stopping,
    /// It ended by itself with code 0.
    Exited,
    /// It ended by itself otherwise, or could not be launched.
    Failed,
    /// It was ended on request.
    Stopped,
    /// It was ended because its deadline passed.
    TimedOut,
    /// Whatever owned it died; nobody saw its end.
    Lost,
}

impl State {
    /// Every state, in the order of a life.
    pub const ALL: [State; 8] = [
        State::Starting,
        State::Running,
        State::Stopping,
        State::Exited,
        State::Failed,
        State::Stopped,
        State::TimedOut,
        State::Lost,
    ];

    /// Whether the state is one of those that never change.
    pub fn is_final(self) -> bool {
        !matches!(self, State::Starting | State::Running | State::Stopping)
    }
}

/// Why a process is in its final state. The first cause wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The root exited by itself.
    Exit,
    /// A signal that nobody here sent ended the root.
    Signal,
    /// The program was never executed.
    LaunchError,
    /// `timeout_ms` passed.
    Deadline,
    /// A `stop`, `restart`, `remove` or a start with `on_conflict: replace` asked for it.
    StopRequested,
    /// Its session was deleted.
    SessionDeleted,
    /// Its host shut down.
    HostShutdown,
    /// The call that made it was cancelled before it was answered.
    StartCancelled,
    /// Its actor or guardian died.
    SupervisorFailed,
    /// Its host died.
    OwnerLost,
}

/// How the root ended, as the kernel told it. Never invented: absent where nobody saw it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Exit {
    /// The exit code, where the root exited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// The name of the signal that ended the root (`SIGKILL`), where one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// Whether the kernel wrote a core file; only beside `signal`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core: Option<bool>,
}

impl Exit {
    /// The root exited with `code`.
    pub fn code(code: i32) -> Self {
        Exit { code: Some(code), signal: None, core: None }
    }

    /// The signal `name` ended the root.
    pub fn signal(name: impl Into<String>, core: bool) -> Self {
        Exit { code: None, signal: Some(name.into()), core: Some(core) }
    }
}

/// What is known about what the process left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Cleanup {
    /// Nothing is left, as `proof` says.
    Confirmed,
    /// It could not be shown that nothing is left.
    Uncertain,
}

/// What shows that nothing is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Proof {
    /// The kernel told the subreaper of the tree that it has no child (ECHILD).
    NoChildren,
    /// The kernel told that the control group holds no process.
    CgroupEmpty,
    /// The kernel told that the process group has no live member. Speaks of the group only.
    GroupGone,
}

/// How far the means of ending a process reach, weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ContainmentKind {
    /// The POSIX process group: what leaves it (`setsid`) is out of reach.
    Group,
    /// Everything descended from the root.
    Subtree,
    /// Everything in a control group of its own.
    Cgroup,
}

/// The containment a process has, and why it is not a stronger one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Containment {
    /// How far it reaches.
    pub kind: ContainmentKind,
    /// Why it reaches no further.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// Something of the process that was still there when waiting for its end was given up.
/// Named by program, user and age: no interface shows an OS pid.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Survivor {
    /// The program's name.
    pub name: String,
    /// The user it runs as.
    pub user: String,
    /// How long it has been alive, in milliseconds.
    pub age_ms: u64,
    /// Why it could not be ended.
    pub why: String,
}

/// A signal that may be sent to a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum Signal {
    /// Ask it to end.
    Term,
    /// Interrupt, as Ctrl-C does.
    Int,
    /// Hang up.
    Hup,
    /// Quit, by default with a core file.
    Quit,
    /// End it at once; cannot be ignored.
    Kill,
}
