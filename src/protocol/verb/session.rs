//! The operator's verbs on sessions: open, list, reset, delete; and `transfer` of a process between agents.
//!
//! `reset_session` forgets finished records only. `delete_session` stops everything, waits for it, and keeps what
//! is uncertain until `clear`; the name then opens afresh.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::agent::Sees;
use crate::protocol::bounds::{AGENTS_MAX, PATH_BYTES_MAX};
use crate::protocol::error::{Code, Error};
use crate::protocol::id::{AgentName, Handle, SessionName};
use crate::protocol::status::Row;

/// What to open. The same again is idempotent, another configuration for the same session is `conflict`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OpenSession {
    /// The session; absent = the one the call is made in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionName>,
    /// Its directory, absolute; absent = the profile's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    /// Name of the profile it starts from; absent = `default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Settings over the profile's, by the names of the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<Map<String, Value>>,
    /// Agents to open with it, and what each sees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agents: Option<BTreeMap<AgentName, Sees>>,
}

impl OpenSession {
    /// Refuses a directory that is no absolute path, and too many agents.
    ///
    /// # Errors
    /// `invalid_argument` or `too_large` names the field.
    pub fn check(&self) -> Result<(), Error> {
        if let Some(directory) = &self.directory
            && (!directory.starts_with('/') || directory.contains('\0') || directory.len() > PATH_BYTES_MAX)
        {
            return Err(Error::invalid("directory", directory, "an absolute path of at most 4096 bytes"));
        }
        match &self.agents {
            Some(agents) if agents.len() > AGENTS_MAX => {
                Err(Error::new(Code::TooLarge, format!("`agents` names {}: at most {AGENTS_MAX}", agents.len()))
                    .with("field", "agents")
                    .with("limit", AGENTS_MAX))
            }
            _ => Ok(()),
        }
    }
}

/// Which sessions: all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListSessions {}

/// Which session's finished records to forget.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResetSession {
    /// The session; absent = the one the call is made in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionName>,
}

/// Which session to end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeleteSession {
    /// The session; absent = the one the call is made in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionName>,
}

/// One session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionInfo {
    /// Its name.
    pub session: SessionName,
    /// Its directory.
    pub directory: String,
    /// When it opened, RFC 3339 UTC.
    pub opened_at: String,
    /// Its agents, by name.
    pub agents: Vec<AgentName>,
    /// Processes that hold a place.
    pub live: u64,
    /// Finished records kept.
    pub finished: u64,
    /// Whether it was deleted and only waits for its uncertain processes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deleted: bool,
}

/// Every session, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionsAnswer {
    /// The sessions.
    pub sessions: Vec<SessionInfo>,
}

/// What a reset forgot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResetAnswer {
    /// The session.
    pub session: SessionName,
    /// Finished records forgotten.
    pub cleared: u64,
    /// Kept because their cleanup is uncertain.
    pub kept: u64,
}

/// What a deletion ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeleteAnswer {
    /// The session.
    pub session: SessionName,
    /// Processes that were live and are confirmed to be gone.
    pub stopped: u64,
    /// Processes that could not be confirmed; each keeps its place until proof or `clear`.
    pub unconfirmed: Vec<Row>,
}

/// Which process, and to which agent of the same session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Transfer {
    /// Its id, or a label.
    pub process_id: Handle,
    /// The agent it belongs to from now on.
    pub to: AgentName,
}
