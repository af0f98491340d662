//! `stop` and `restart`: end a process's tree.
//!
//! `stop` answers the final status, for every caller the same, and is idempotent on a finished process.
//! `restart` stops, confirms, then starts the same specification in the same place; the answer is the new status,
//! whose `replaces` names the old process.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::protocol::bounds::GRACE_MS_MAX;
use crate::protocol::error::Error;
use crate::protocol::id::Handle;
use crate::protocol::spec::check_ms;

/// Which process, and how patiently.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Stop {
    /// Its id, or a label.
    pub process_id: Handle,
    /// Milliseconds between the stop signal and KILL; absent = the process's own. A later stop can only shorten it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_ms: Option<u64>,
}

impl Stop {
    /// Refuses a grace over the bound.
    ///
    /// # Errors
    /// `invalid_argument` names the field.
    pub fn check(&self) -> Result<(), Error> {
        check_ms("grace_ms", self.grace_ms, GRACE_MS_MAX)
    }
}

/// Which process to start afresh.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Restart {
    /// Its id, or a label.
    pub process_id: Handle,
}
