//! `wait`: answers when something is true of one or several processes. Never ends one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::protocol::bounds::{DURATION_MS_MAX, WAIT_PROCESSES_MAX, clamp};
use crate::protocol::error::{Code, Error};
use crate::protocol::id::Handle;
use crate::protocol::output::Excerpt;
use crate::protocol::state::{Cleanup, Exit, State};
use crate::protocol::status::Row;

/// What to wait for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Condition {
    /// The process is settled, however it ended; `unavailable` while its cleanup is uncertain.
    Exit {},
}

/// Whether one of several processes is enough.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WaitMode {
    /// The first one answers.
    #[default]
    Any,
    /// All must.
    All,
}

/// Which processes, what for, and how long.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Wait {
    /// One process: its id, or a label. Either this or `process_ids`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process_id: Option<Handle>,
    /// Several processes, at most 32. Either this or `process_id`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process_ids: Option<Vec<Handle>>,
    /// With `process_ids`: whether one of them is enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<WaitMode>,
    /// What to wait for.
    pub until: Condition,
    /// Most milliseconds to wait; absent = unbounded; 0 = look once; more than a year is taken as that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The condition is true.
    Satisfied,
    /// `wait_ms` passed; the process goes on.
    Timeout,
    /// The process ended before the condition became true, and now it cannot.
    ProcessEnded,
    /// Nobody can tell.
    Unavailable,
}

/// What was seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Observation {
    /// The process's state.
    pub state: State,
    /// How its root ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<Exit>,
    /// What is known about what it left behind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cleanup: Option<Cleanup>,
}

/// The evidence about one process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WaitAnswer {
    /// How the wait ended.
    pub outcome: Outcome,
    /// What was waited for.
    pub condition: Condition,
    /// What was seen.
    pub observation: Observation,
    /// The process: of several, the one that decided.
    pub process: Row,
    /// Output since the wait began; on a timeout the newest 2000 bytes.
    pub new_output: Excerpt,
    /// With `mode: all`: every process, in the order asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub processes: Vec<Row>,
    /// The longest wait used, where the one asked for was out of range.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
}

impl Wait {
    /// Waits without bound for the end of one process.
    pub fn exit(process: impl Into<Handle>) -> Self {
        Wait {
            process_id: Some(process.into()),
            process_ids: None,
            mode: None,
            until: Condition::Exit {},
            wait_ms: None,
        }
    }

    /// The processes asked about.
    ///
    /// # Errors
    /// `invalid_argument` unless exactly one of `process_id` and `process_ids` is given, with at most 32 of them.
    pub fn handles(&self) -> Result<Vec<Handle>, Error> {
        match (&self.process_id, &self.process_ids) {
            (Some(one), None) if self.mode.is_none() => Ok(vec![one.clone()]),
            (Some(_), None) => Err(Error::invalid("mode", self.mode, "no `mode` beside `process_id`")),
            (None, Some(several)) if several.is_empty() => Err(Error::invalid("process_ids", several, "at least one")),
            (None, Some(several)) if several.len() > WAIT_PROCESSES_MAX => Err(Error::new(
                Code::TooLarge,
                format!("`process_ids` names {} processes: at most {WAIT_PROCESSES_MAX} are taken", several.len()),
            )
            .with("field", "process_ids")
            .with("given", several.len())
            .with("limit", WAIT_PROCESSES_MAX)),
            (None, Some(several)) => Ok(several.clone()),
            (Some(_), Some(_)) => {
                Err(Error::invalid("process_ids", "given beside `process_id`", "either `process_id` or `process_ids`"))
            }
            (None, None) => Err(Error::missing("process_id", "an id or a label, or `process_ids`")),
        }
    }

    /// Takes the wait into its range. Gives what is used, where that is not what was asked for.
    pub(crate) fn clamp(&mut self) -> Option<u64> {
        clamp(&mut self.wait_ms, 0..=DURATION_MS_MAX)
    }
}
