//! What is told about a process: its status, its launch's failure, advice after its end.

use super::lifecycle::Lifecycle;
use super::{Admission, LaunchFailure, ProcessCore, lifetime};
use crate::protocol::error::{Code, Error};
use crate::protocol::id::ProcessId;
use crate::protocol::output::Excerpt;
use crate::protocol::spec::Stdin;
use crate::protocol::state::State;
use crate::protocol::status::Status;
use crate::protocol::time::{Moment, rfc3339};

impl ProcessCore {
    /// Everything that is known about it.
    pub fn status(&self, now: Moment) -> Status {
        let facts = &self.facts;
        let until = self.ended.unwrap_or(now);
        let wall = |moment: Moment| {
            let since = moment.since_start().saturating_sub(facts.admitted.since_start());
            rfc3339(facts.admitted_at.checked_add(since).unwrap_or(facts.admitted_at))
        };
        Status {
            process_id: facts.process_id.clone(),
            session: facts.session.clone(),
            agent: facts.agent.clone(),
            request: facts.request.clone(),
            mode: facts.mode,
            name: facts.name.clone(),
            label: facts.label.clone(),
            command: facts.command.clone(),
            cwd: facts.cwd.clone(),
            state: self.life.state(),
            reason: self.life.reason(),
            settling: self.life.settling(),
            exit: self.exit(),
            cleanup: self.life.cleanup(),
            proof: self.life.proof(),
            survivors: self.life.survivors().to_vec(),
            containment: facts.containment.clone(),
            pty: false,
            lifetime: lifetime(facts.mode),
            started_at: rfc3339(facts.admitted_at),
            ended_at: self.ended.map(wall),
            runtime_ms: until.ms_since(facts.admitted),
            deadline_at: self.life.deadline().filter(|_| self.ended.is_none()).map(wall),
            output: self.output.retained(),
            stdin: Stdin::Closed,
            idle_ms: until.ms_since(self.last_output),
            replaces: facts.replaces.clone(),
            warnings: self.life.warnings().to_vec(),
        }
    }
}

/// The step that fails for a reason of ours, which passes: the broker died, and the next start has a new one.
const OURS: &str = "make_guardian";

/// The error of a launch that failed.
pub(super) fn launch_failed(process_id: &ProcessId, failure: &LaunchFailure) -> Error {
    let step = failure.operation.replace('_', " ");
    let what = failure.path.as_ref().map(|path| format!(" {path}")).unwrap_or_default();
    let system = if failure.errno == 0 { String::new() } else { format!(": {}", failure.system) };
    let hint = if failure.hint.is_empty() { String::new() } else { format!(". {}", failure.hint) };
    let mut error = Error::new(Code::LaunchFailed, format!("could not {step}{what}{system}{hint}"));
    error.retryable = failure.operation == OURS;
    error
        .with("process_id", process_id)
        .with("errno", failure.errno)
        .with("operation", &failure.operation)
        .with("path", &failure.path)
        .with("hint", &failure.hint)
}

/// How it ended, in words.
pub(super) fn in_words(facts: &Admission, life: &Lifecycle) -> String {
    let end = match life.exit() {
        Some(exit) => match (&exit.code, &exit.signal) {
            (Some(code), _) => format!("exit code {code}"),
            (None, Some(signal)) => format!("by {signal}"),
            (None, None) => "nobody saw how".to_owned(),
        },
        None => "nobody saw how".to_owned(),
    };
    format!("{}: {end}", facts.name)
}

/// What to know after a foreground command's end, before the next step.
pub(super) fn advice(process: &Status, output: &Excerpt) -> Option<String> {
    let mut advice = Vec::new();
    if process.state == State::TimedOut {
        advice.push("It was ended at its timeout: check what it did before running it again.".to_owned());
    }
    match process.exit.as_ref().and_then(|exit| exit.code) {
        Some(126) => advice.push("Code 126: the shell found the program but could not execute it.".to_owned()),
        Some(127) => advice.push("Code 127: the shell did not find the program.".to_owned()),
        _ => {}
    }
    if output.omitted_bytes > 0 {
        advice.push(format!(
            "{} earlier bytes are omitted here: read them with `output` from cursor {}.",
            output.omitted_bytes,
            output.start - output.omitted_bytes
        ));
    }
    (!advice.is_empty()).then(|| advice.join(" "))
}
