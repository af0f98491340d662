//! `clear` and `remove`: forget a process's record.
//!
//! `clear` forgets a finished one (the operator also an uncertain one, which frees its place); a live one is
//! `still_running`. `remove` also takes a live one: it is stopped and hidden at once, and forgotten when settled;
//! until then it keeps its place. One that settles uncertain is listed again.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::protocol::id::{Handle, ProcessId};

/// Which finished process to forget.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Clear {
    /// Its id, or a label.
    pub process_id: Handle,
}

/// Which process to stop and forget.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Remove {
    /// Its id, or a label.
    pub process_id: Handle,
}

/// What became of the record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Forgotten {
    /// The process.
    pub process_id: ProcessId,
    /// Whether its record is gone; otherwise it is hidden, being stopped, and goes when settled.
    pub forgotten: bool,
}
