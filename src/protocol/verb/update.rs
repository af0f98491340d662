//! `update`: changes what may change in a live process: its deadline and its label.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::protocol::bounds::DURATION_MS_MAX;
use crate::protocol::error::Error;
use crate::protocol::id::{Handle, Label};
use crate::protocol::spec::check_ms;

/// Which process, and what changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Update {
    /// Its id, or a label.
    pub process_id: Handle,
    /// Its new deadline, counted from its admission; 0 = none. The caps of host and session still apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Its new label; no other live process of its agent may have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<Label>,
}

impl Update {
    /// Refuses a change of nothing.
    ///
    /// # Errors
    /// `invalid_argument` names the field.
    pub fn check(&self) -> Result<(), Error> {
        if self.timeout_ms.is_none() && self.label.is_none() {
            return Err(Error::missing("timeout_ms", "`timeout_ms`, `label` or both"));
        }
        check_ms("timeout_ms", self.timeout_ms, DURATION_MS_MAX)
    }
}
