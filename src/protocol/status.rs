//! What is said about one process: a status in full, a row of a list.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::id::{AgentName, Label, ProcessId, RequestName, SessionName};
use super::output::Retained;
use super::spec::{Lifetime, Mode, Stdin};
use super::state::{Cleanup, Containment, Exit, Proof, Reason, State, Survivor};

/// Everything that is known about a process. Absent = null, empty or not applicable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Status {
    /// Names it for ever.
    pub process_id: ProcessId,
    /// Its session.
    pub session: SessionName,
    /// The agent it belongs to.
    pub agent: AgentName,
    /// The request that made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<RequestName>,
    /// Whether its caller waits for the end.
    pub mode: Mode,
    /// A short name derived from the command.
    pub name: String,
    /// The caller's own word for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<Label>,
    /// The command line, or `argv` quoted as a shell would read it.
    pub command: String,
    /// The working directory asked for, absolute.
    pub cwd: String,
    /// Where it is in its life.
    pub state: State,
    /// Why it is in its final state, or is being ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// Whether its root has ended but what it left behind has not been dealt with yet.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub settling: bool,
    /// How the root ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<Exit>,
    /// What is known about what it left behind; once final.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cleanup: Option<Cleanup>,
    /// What shows that nothing is left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<Proof>,
    /// What was still there when waiting was given up.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub survivors: Vec<Survivor>,
    /// How far the means of ending it reach.
    pub containment: Containment,
    /// Whether it runs in a terminal.
    pub pty: bool,
    /// How long it lives in relation to its request.
    pub lifetime: Lifetime,
    /// When it was admitted, RFC 3339 UTC.
    pub started_at: String,
    /// When it settled, RFC 3339 UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    /// From admission to the end, or until now, in milliseconds.
    pub runtime_ms: u64,
    /// When it will be ended, RFC 3339 UTC, if no clock is stepped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_at: Option<String>,
    /// The range of its output that can be read.
    pub output: Retained,
    /// What it reads.
    pub stdin: Stdin,
    /// Since its last output (or its admission), in milliseconds; until its end, once final.
    pub idle_ms: u64,
    /// The process it took the place of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<ProcessId>,
    /// What a reader should know: leftovers that were ended, output given up.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// One line about a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// Names it for ever.
    pub process_id: ProcessId,
    /// The caller's own word for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<Label>,
    /// A short name derived from the command, where there is no label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Where it is in its life.
    pub state: State,
    /// How the root ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<Exit>,
    /// What is known about what it left behind, where that is not `confirmed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cleanup: Option<Cleanup>,
    /// From admission to the end, or until now, in milliseconds.
    pub runtime_ms: u64,
    /// Since its last output (or its admission), in milliseconds.
    pub idle_ms: u64,
    /// Retained output that no `poll` has shown to the agent yet.
    pub unread_bytes: u64,
}

impl Status {
    /// The status in one line.
    pub fn row(&self) -> Row {
        Row {
            process_id: self.process_id.clone(),
            label: self.label.clone(),
            name: self.label.is_none().then(|| self.name.clone()),
            state: self.state,
            exit: self.exit.clone(),
            cleanup: self.cleanup.filter(|cleanup| *cleanup == Cleanup::Uncertain),
            runtime_ms: self.runtime_ms,
            idle_ms: self.idle_ms,
            unread_bytes: self.output.end - self.output.earliest,
        }
    }
}
