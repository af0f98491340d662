//! `exec`: runs a command to its end and answers with its output. Cancelling the call stops the command.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::protocol::bounds::PAGE_BYTES_MAX;
use crate::protocol::error::Error;
use crate::protocol::id::Label;
use crate::protocol::output::Excerpt;
use crate::protocol::spec::{OnConflict, Spec, Stdin};
use crate::protocol::status::Status;

/// What to run, and how much output to answer with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Exec {
    /// A command line for the session's shell, byte for byte. Either this or `argv`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// A program and its arguments, run without a shell. Either this or `command`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub argv: Option<Vec<String>>,
    /// The caller's own word for the process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<Label>,
    /// Working directory, relative to the session's directory; absent = that directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Variables to set, over what the session inherits. `null` removes one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<BTreeMap<String, Option<String>>>,
    /// What the process reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<Stdin>,
    /// Ends the process this many milliseconds after its admission; 0 = no deadline; absent = `exec.timeout_ms`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Milliseconds between the stop signal and KILL, whenever it is ended; absent = the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_ms: Option<u64>,
    /// What happens if a live process of the caller has the label; absent = the front end's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_conflict: Option<OnConflict>,
    /// The same id in a session answers the same process while its record is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_id: Option<String>,
    /// Most output in the answer: the newest; absent = `exec.max_output_bytes`. Older output stays readable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_bytes: Option<u64>,
}

/// How the command ended, and its output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecAnswer {
    /// The process as it ended.
    pub process: Status,
    /// Whether it was still running when the call ended and went on in the background.
    pub yielded: bool,
    /// The newest output; with how much was dropped for good and how much is merely omitted here.
    pub output: Excerpt,
    /// From admission to the answer, in milliseconds.
    pub duration_ms: u64,
    /// What to know before the next step, where there is something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

impl Exec {
    /// Runs `command` through the session's shell.
    pub fn command(command: impl Into<String>) -> Self {
        Exec { command: Some(command.into()), ..Exec::default() }
    }

    /// The part that `exec` has in common with `start`.
    pub fn spec(&self) -> Spec {
        Spec {
            command: self.command.clone(),
            argv: self.argv.clone(),
            label: self.label.clone(),
            cwd: self.cwd.clone(),
            env: self.env.clone(),
            stdin: self.stdin,
            timeout_ms: self.timeout_ms,
            grace_ms: self.grace_ms,
            on_conflict: self.on_conflict,
            start_id: self.start_id.clone(),
        }
    }

    /// Refuses what no host could run.
    ///
    /// # Errors
    /// As [`Spec::check`].
    pub fn check(&self) -> Result<(), Error> {
        self.spec().check()?;
        match self.max_output_bytes {
            Some(bytes) if bytes > PAGE_BYTES_MAX => {
                Err(Error::invalid("max_output_bytes", bytes, format!("at most {PAGE_BYTES_MAX}")))
            }
            _ => Ok(()),
        }
    }
}
