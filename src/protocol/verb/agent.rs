//! The operator's verbs on agents: who calls inside a session as the model.
//!
//! An agent that calls without having been opened is opened with `sees: own`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::protocol::id::{AgentName, SessionName};
use crate::protocol::status::Row;

/// Whose processes an agent sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Sees {
    /// Its own.
    #[default]
    Own,
    /// Every one of its session.
    Session,
}

/// What to open. The same again is idempotent, another `sees` is `conflict`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OpenAgent {
    /// The agent.
    pub agent: AgentName,
    /// Whose processes it sees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sees: Option<Sees>,
}

/// One agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentInfo {
    /// Its session.
    pub session: SessionName,
    /// Its name.
    pub agent: AgentName,
    /// Whose processes it sees.
    pub sees: Sees,
}

/// What becomes of a closed agent's processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Leaving {
    /// They are stopped.
    #[default]
    Stop,
    /// They belong to agent `main` from now on.
    Transfer,
}

/// Which agent to close.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CloseAgent {
    /// The agent.
    pub agent: AgentName,
    /// What becomes of its processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<Leaving>,
}

/// What closing it did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CloseAnswer {
    /// The agent.
    pub agent: AgentName,
    /// Processes that were live and are confirmed to be gone.
    pub stopped: u64,
    /// Processes that belong to `main` now, finished ones included.
    pub transferred: u64,
    /// Processes that could not be confirmed; each keeps its place until proof or `clear`.
    pub unconfirmed: Vec<Row>,
}
