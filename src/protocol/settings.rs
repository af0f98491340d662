//! The settings a host and its sessions run with, resolved and within bounds.
//!
//! Plain data: defaults, bounds, names and sources of the keys stand in one table, `config::keys`.
//! A `_ms` of 0 means "none" where a field says so.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::state::{ContainmentKind, Signal};

/// What one host runs with.
#[derive(Clone, Debug, PartialEq)]
pub struct HostSettings {
    /// Limits over all sessions.
    pub limits: HostLimits,
    /// Whether a call that names an unopened session opens it with the profile `default`.
    pub auto_open: bool,
    /// Who owns the trees of processes.
    pub broker: BrokerSettings,
    /// What owners of trees do without their host.
    pub owner: OwnerSettings,
    /// Bounds of answers and calls over MCP.
    pub mcp: McpSettings,
    /// What a session runs with, by profile; `default` is always there.
    pub profiles: BTreeMap<String, SessionSettings>,
}

/// Limits over all sessions of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostLimits {
    /// Places for live processes.
    pub live_per_host: u32,
    /// Finished records kept.
    pub finished_per_host: u32,
    /// Open sessions.
    pub sessions: u32,
    /// Longest time any process may be given; `None` = no such limit.
    pub timeout_max_ms: Option<u64>,
}

/// The broker, which owns trees on Linux.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerSettings {
    /// The program to run as the broker; `None` = this program after `init`, else `procession-guardian` beside it.
    pub path: Option<PathBuf>,
    /// Guardians kept ready for the next starts.
    pub spares: u32,
}

/// What owners of trees do without their host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnerSettings {
    /// The host says so often that it serves, and at least four times within its grace.
    pub heartbeat_ms: u64,
    /// A host that did not say so for this long has lost its processes: they are ended. 0 = never.
    pub heartbeat_grace_ms: u64,
}

/// Bounds of answers and calls over MCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct McpSettings {
    /// No call is parked longer than this.
    pub call_max_ms: u64,
    /// Text of one answer, at most.
    pub answer_bytes: u64,
}

/// What one session runs with, frozen when it opens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionSettings {
    /// The session's directory; `None` = the host's own.
    pub directory: Option<PathBuf>,
    /// Limits of this session.
    pub limits: SessionLimits,
    /// How output is kept, paged and drained.
    pub output: OutputSettings,
    /// Defaults of `exec`.
    pub exec: ExecSettings,
    /// Process timeout of a `start` that names none; 0 = none.
    pub start_timeout_ms: u64,
    /// How a process is ended.
    pub stop: StopSettings,
    /// The program and first arguments that a `command` is appended to.
    pub shell: Vec<String>,
    /// What commands get of the host's environment.
    pub env: EnvSettings,
    /// Whether `cwd` may leave the session's directory.
    pub cwd_outside: bool,
    /// The weakest containment a process may be started with.
    pub containment_require: ContainmentKind,
}

/// Limits of one session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionLimits {
    /// Places for live processes.
    pub live_per_session: u32,
    /// Finished records kept.
    pub finished_per_session: u32,
    /// Calls waiting at the same time.
    pub parked_calls_per_session: u32,
    /// Longest time a process may be given; `None` = no such limit.
    pub timeout_max_ms: Option<u64>,
}

/// How output is kept, paged and drained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputSettings {
    /// Newest output kept of each process.
    pub retain_bytes: u64,
    /// Size of a page that names none.
    pub page_bytes: u64,
    /// Whether a child waits for its reader rather than that anything is dropped.
    pub wait_for_reader: bool,
    /// After the tree's end, silence on a pipe held elsewhere that ends the reading.
    pub drain_idle_ms: u64,
    /// The same, in all.
    pub drain_max_ms: u64,
}

/// Defaults of `exec`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExecSettings {
    /// Process timeout of an `exec` that names none; 0 = none.
    pub timeout_ms: u64,
    /// Output in the answer, at most.
    pub max_output_bytes: u64,
}

/// How a process is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StopSettings {
    /// Time between the stop signal and KILL.
    pub grace_ms: u64,
    /// Time after KILL until an unproven process settles as uncertain.
    pub confirm_ms: u64,
    /// The first signal.
    pub signal: Signal,
}

/// What commands get of the host's environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvSettings {
    /// Which of the host's variables pass.
    pub inherit: EnvInherit,
    /// Patterns (`*` stands for any text) of further names that pass.
    pub pass: Vec<String>,
    /// Patterns of names that a call may not set.
    pub deny: Vec<String>,
}

/// Which of the host's variables a command gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EnvInherit {
    /// PATH, HOME, locale and the like.
    Core,
    /// All but names that look like secrets.
    Filtered,
    /// All.
    All,
    /// None.
    None,
}
