//! The operator's verbs on the whole host.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::protocol::bounds::DURATION_MS_MAX;
use crate::protocol::error::Error;
use crate::protocol::id::{AgentName, Label, ProcessId, SessionName};
use crate::protocol::spec::check_ms;
use crate::protocol::state::Containment;

/// Nothing to say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetHostStatus {}

/// Who holds a place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Holder {
    /// The process.
    pub process_id: ProcessId,
    /// Its session.
    pub session: SessionName,
    /// Its agent.
    pub agent: AgentName,
    /// Its label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<Label>,
    /// Since its admission, in milliseconds.
    pub age_ms: u64,
    /// Whether it is settled but not proven to be gone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub uncertain: bool,
}

/// The places of the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Places {
    /// Taken.
    pub held: u64,
    /// In all.
    pub limit: u64,
    /// By whom, oldest first, at most 100.
    pub holders: Vec<Holder>,
}

/// The host as it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostStatus {
    /// The version of procession.
    pub version: String,
    /// Processes that are not settled.
    pub live: u64,
    /// The places.
    pub places: Places,
    /// Whether the host could be suspended or ended without anything being lost: no place is held.
    pub can_suspend: bool,
    /// What stands against it, in words.
    pub blockers: Vec<String>,
    /// How far the means of ending a process reach.
    pub containment: Containment,
    /// Open sessions.
    pub sessions: u64,
    /// Whether a shutdown has begun.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shutting_down: bool,
}

/// How to shut down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ShutdownMode {
    /// Every process is ended now.
    #[default]
    Now,
    /// Nothing new is started; what runs may end by itself, and is ended after `within_ms`.
    Drain,
}

/// How to shut down, and how patiently.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Shutdown {
    /// Now, or after what runs has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<ShutdownMode>,
    /// With `drain`: after so many milliseconds what still runs is ended; absent = never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_ms: Option<u64>,
}

impl Shutdown {
    /// Refuses a bound beside `now`.
    ///
    /// # Errors
    /// `invalid_argument` names the field.
    pub fn check(&self) -> Result<(), Error> {
        if self.within_ms.is_some() && self.mode != Some(ShutdownMode::Drain) {
            return Err(Error::invalid("within_ms", self.within_ms, "no `within_ms` unless `mode` is `drain`"));
        }
        check_ms("within_ms", self.within_ms, DURATION_MS_MAX)
    }
}

/// What the shutdown ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShutdownAnswer {
    /// Processes that were live and are confirmed to be gone.
    pub stopped: u64,
    /// Processes that could not be confirmed to be gone.
    pub unconfirmed: Vec<Holder>,
}
