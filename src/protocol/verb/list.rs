//! `list`: the caller's processes, live ones first, then the newest.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::protocol::state::State;
use crate::protocol::status::{Row, Status};

/// How much is said about each process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Detail {
    /// A row.
    #[default]
    Row,
    /// The status.
    Full,
}

/// Which processes, and how many.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct List {
    /// Only those in this state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<State>,
    /// At most so many (100; at most 1000, more is taken as that).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// How much is said about each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<Detail>,
}

/// How many processes of the caller are in which state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Counts {
    /// Not settled yet.
    pub live: u64,
    /// Settled and kept.
    pub finished: u64,
    /// Of the finished: cleanup not confirmed, place still held.
    pub uncertain: u64,
}

/// The processes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListAnswer {
    /// Rows, with `detail: row`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<Vec<Row>>,
    /// Statuses, with `detail: full`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub statuses: Option<Vec<Status>>,
    /// All processes the caller sees, whatever `state` and `limit` say.
    pub counts: Counts,
    /// Whether `limit` cut the answer.
    pub truncated: bool,
    /// The limit used, where the one asked for was out of range.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
}
