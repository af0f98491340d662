//! One tool call: read, bounded, made, told.
//!
//! No call outlives `mcp.call_max_ms`. A wait answers at that bound that the process still runs; a command run by
//! `exec` is given so much less time that it is stopped and proven to be gone by then; a call that only changes
//! something already begun is let go of and goes on.

use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::answer::{ANSWER_BYTES_MIN, Draft, FIELDS_BYTES, ToolResult};
use super::describe::duration;
use super::lenient;
use super::text::{Text, begin_at_line};
use crate::protocol::call::{Answer, Call, Origin};
use crate::protocol::error::{Code, Error};
use crate::protocol::id::Handle;
use crate::protocol::output::Page;
use crate::protocol::settings::{HostSettings, SessionSettings};
use crate::protocol::spec::Spec;
use crate::protocol::state::Reason;
use crate::protocol::status::Status;
use crate::protocol::verb::exec::Exec;
use crate::protocol::verb::output::ReadOutput;
use crate::protocol::verb::status::GetStatus;
use crate::protocol::verb::wait::Wait;
use crate::runtime::Host;

/// After a start, the answer waits so long for an early end, to show why a command did not stay.
const START_SETTLE_MS: u64 = 500;
/// What a call keeps of its bound for the host to answer in.
const ANSWER_MARGIN_MS: u64 = 250;
/// What an `exec` keeps of its bound, after the grace, for the proof that nothing is left.
const EXEC_MARGIN_MS: u64 = 2_000;
/// Least time an `exec` is given, whatever the grace; half the bound where that is less.
const EXEC_TIMEOUT_MS_MIN: u64 = 1_000;
/// A page of so few bytes is not made shorter.
const PAGE_BYTES_LEFT: u64 = 64;

/// Calls a tool.
///
/// Total: every mistake is a result. Cancel safe: `cancel`, and dropping the future, stop a command that `exec` or
/// an unconfirmed `start` runs, and nothing else.
pub async fn call_tool(
    host: &Host,
    origin: Origin,
    name: &str,
    arguments: Value,
    cancel: CancellationToken,
) -> ToolResult {
    let bound = host.settings().mcp.answer_bytes;
    let door = Door { host, origin };
    let draft = tokio::select! {
        biased;
        draft = door.call(name, arguments) => draft,
        () = cancel.cancelled() => Err(Error::new(Code::Cancelled, "the call was cancelled")),
    };
    draft.unwrap_or_else(|error| Draft::error(&error)).finish(bound)
}

struct Door<'a> {
    host: &'a Host,
    origin: Origin,
}

impl Door<'_> {
    async fn call(&self, name: &str, arguments: Value) -> Result<Draft, Error> {
        match lenient::read(name, arguments)? {
            Call::Exec(exec) => self.exec(exec).await,
            Call::Start(spec) => self.start(spec).await,
            Call::Output(read) => self.output(read).await,
            Call::Wait(wait) => self.wait(wait).await,
            other => self.plain(other).await,
        }
    }

    async fn exec(&self, mut exec: Exec) -> Result<Draft, Error> {
        let bounded = bound_exec(&mut exec, self.host.settings());
        let Answer::Exec(mut answer) = self.ask(Call::Exec(exec)).await? else { return Err(unexpected("exec")) };
        if let Some(ms) = bounded
            && answer.process.reason == Some(Reason::Deadline)
        {
            answer.advice = Some(format!(
                "ended at {}, the longest one call may take here; run long work with the tool process, action start",
                duration(ms)
            ));
        }
        Ok(Draft::exec(&answer))
    }

    async fn start(&self, spec: Spec) -> Result<Draft, Error> {
        let mut status = self.status_of(Call::Start(spec)).await?;
        let process = Handle::from(&status.process_id);
        if !status.state.is_final() {
            let settle = Wait { wait_ms: Some(START_SETTLE_MS), ..Wait::exit(process.clone()) };
            // The process is launched whatever becomes of this wait.
            if self.ask(Call::Wait(settle)).await.is_ok() {
                status = self.status_of(get_status(&process)).await.unwrap_or(status);
            }
        }
        let page = self.newest(ReadOutput::of(process), &status).await.ok();
        Ok(Draft::started(&status, page.as_ref()))
    }

    async fn output(&self, mut read: ReadOutput) -> Result<Draft, Error> {
        let whole = read.stream.is_none();
        let asked = read.max_bytes;
        let most = page_bytes_max(self.host.settings());
        read.max_bytes = Some(asked.unwrap_or(most).clamp(1, most));
        let asked_ms = self.bound_wait(&mut read.wait_ms);
        let mut page = self.newest_or_from(&read).await?;
        // Text in JSON, and chunks with their names, take more room than their bytes. A page that is cut short goes
        // on at its end; one that is cut in its middle would have to be read again.
        while let Some(less) = fewer_bytes(&page, whole, most) {
            read.max_bytes = Some(less);
            page = self.newest_or_from(&read).await?;
        }
        let mut draft = Draft::page(&page, whole);
        if asked.is_some_and(|asked| Some(asked) != read.max_bytes) {
            draft.set("max_bytes", json!(read.max_bytes));
        }
        if asked_ms.is_some_and(|asked| Some(asked) != read.wait_ms) {
            draft.set("wait_ms", json!(read.wait_ms));
        }
        Ok(draft)
    }

    async fn wait(&self, mut wait: Wait) -> Result<Draft, Error> {
        wait.wait_ms.get_or_insert(u64::MAX);
        let asked = self.bound_wait(&mut wait.wait_ms);
        let used = wait.wait_ms;
        let Answer::Wait(answer) = self.ask(Call::Wait(wait)).await? else { return Err(unexpected("wait")) };
        let mut draft = Draft::wait(&answer);
        if asked != used {
            draft.set("wait_ms", json!(used));
        }
        Ok(draft)
    }

    async fn plain(&self, call: Call) -> Result<Draft, Error> {
        let process = changed_process(&call);
        let whole = matches!(call, Call::Status(_));
        match self.ask(call).await {
            Ok(Answer::Status(status)) if whole => Ok(Draft::status(&status)),
            Ok(Answer::Status(status)) => Ok(Draft::brief(&status)),
            Ok(Answer::List(list)) => Ok(Draft::list(&list)),
            Ok(Answer::Forgotten(forgotten)) => {
                let what = if forgotten.forgotten { "is forgotten" } else { "is being stopped, and then forgotten" };
                Ok(Draft::of(format!("{} {what}.", forgotten.process_id), &forgotten))
            }
            Ok(_) => Err(unexpected("call")),
            // The change goes on without its call: show how far it is.
            Err(error) if error.code == Code::Unavailable && error.details.contains_key(OVER_TIME) => match process {
                Some(process) => {
                    let status = self.status_of(get_status(&process)).await.map_err(|_| error)?;
                    let mut draft = Draft::brief(&status);
                    draft.set("advice", json!("this is still under way; look again with the action status"));
                    Ok(draft)
                }
                None => Err(error),
            },
            Err(error) => Err(error),
        }
    }

    async fn newest_or_from(&self, read: &ReadOutput) -> Result<Page, Error> {
        if read.cursor.is_some() {
            return self.page(read.clone()).await;
        }
        let status = self.status_of(get_status(&read.process_id)).await?;
        self.newest(read.clone(), &status).await
    }

    /// The newest page: from a line's start, no longer than `max_bytes`.
    async fn newest(&self, read: ReadOutput, status: &Status) -> Result<Page, Error> {
        let most = read.max_bytes.unwrap_or_else(|| page_bytes_max(self.host.settings()));
        let from = status.output.end.saturating_sub(most).max(status.output.earliest);
        let whole = read.stream.is_none();
        let mut page = self.page(ReadOutput { cursor: Some(from), max_bytes: Some(most), ..read }).await?;
        // The oldest may have gone between the two calls: that is not what the caller asked for.
        page.dropped_bytes = 0;
        if page.start > page.earliest && whole {
            begin_at_line(&mut page);
        }
        Ok(page)
    }

    async fn page(&self, read: ReadOutput) -> Result<Page, Error> {
        match self.ask(Call::Output(read)).await? {
            Answer::Output(page) => Ok(page),
            _ => Err(unexpected("output")),
        }
    }

    async fn status_of(&self, call: Call) -> Result<Status, Error> {
        match self.ask(call).await? {
            Answer::Status(status) => Ok(*status),
            _ => Err(unexpected("status")),
        }
    }

    /// Makes one call of the host, for no longer than any call may take.
    async fn ask(&self, call: Call) -> Result<Answer, Error> {
        let most = self.host.settings().mcp.call_max_ms;
        let action = call.action();
        match tokio::time::timeout(Duration::from_millis(most), self.host.call(self.origin.clone(), call)).await {
            Ok(answer) => answer,
            Err(_) => Err(over_time(action, most)),
        }
    }

    /// Bounds a wait; gives back what was asked.
    fn bound_wait(&self, wait_ms: &mut Option<u64>) -> Option<u64> {
        let most = self.host.settings().mcp.call_max_ms.saturating_sub(ANSWER_MARGIN_MS);
        let asked = *wait_ms;
        *wait_ms = asked.map(|ms| ms.min(most));
        asked
    }
}

/// The fact that marks an error of a call that took longer than any may.
const OVER_TIME: &str = "call_max_ms";

fn over_time(action: &str, most_ms: u64) -> Error {
    let what = match action {
        "exec" | "start" => "the command is being stopped, unless it has ended; `process` with `list` shows it",
        _ => "it may still be under way; `process` with `status` shows how far it is",
    };
    let message = format!("`{action}` was not answered within {}: {what}", duration(most_ms));
    Error::new(Code::Unavailable, message).with(OVER_TIME, most_ms)
}

fn unexpected(action: &str) -> Error {
    Error::internal(format!("`{action}` was answered with something else"))
}

fn get_status(process: &Handle) -> Call {
    Call::Status(GetStatus { process_id: process.clone() })
}

/// The process that a call changes in a way that goes on without the call.
fn changed_process(call: &Call) -> Option<Handle> {
    match call {
        Call::Stop(stop) => Some(stop.process_id.clone()),
        Call::Restart(restart) => Some(restart.process_id.clone()),
        Call::Remove(remove) => Some(remove.process_id.clone()),
        _ => None,
    }
}

/// Most bytes of one page's output in an answer.
fn page_bytes_max(settings: &HostSettings) -> u64 {
    settings.mcp.answer_bytes.max(ANSWER_BYTES_MIN) - FIELDS_BYTES
}

/// How many bytes to read instead, where this page takes more than `room` in an answer.
fn fewer_bytes(page: &Page, whole: bool, room: u64) -> Option<u64> {
    let raw = page.chunks.iter().any(|chunk| chunk.data_base64.is_some());
    let shown = if raw { json!(page.chunks) } else { json!(Text::of_page(page, whole).text) };
    let takes = shown.to_string().len() as u64;
    let read = page.next_cursor.saturating_sub(page.start);
    // In proportion, and a little less, so that one step is nearly always enough.
    let less = (read * room / takes.max(1)).saturating_sub(read / 64);
    (takes > room && read > PAGE_BYTES_LEFT).then(|| less.clamp(PAGE_BYTES_LEFT, read - 1))
}

/// Gives a command so little time that stopping it and proving that nothing is left fits into one call. Says how
/// much, where that is less than was asked for.
fn bound_exec(exec: &mut Exec, settings: &HostSettings) -> Option<u64> {
    let session: Option<&SessionSettings> = settings.profiles.get("default");
    let grace = exec.grace_ms.or(session.map(|session| session.stop.grace_ms)).unwrap_or(0);
    let asked = exec.timeout_ms.or(session.map(|session| session.exec.timeout_ms)).unwrap_or(0);
    let call_max = settings.mcp.call_max_ms;
    let most = call_max.saturating_sub(grace + EXEC_MARGIN_MS).max(EXEC_TIMEOUT_MS_MIN.min(call_max / 2));
    let bounded = asked == 0 || asked > most;
    exec.timeout_ms = Some(if bounded { most } else { asked });
    bounded.then_some(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(timeout_ms: Option<u64>, grace_ms: Option<u64>, expected: (u64, bool)) {
        let mut exec = Exec { timeout_ms, grace_ms, ..Exec::command("true") };
        let bounded = bound_exec(&mut exec, &crate::config::defaults());
        assert_eq!((exec.timeout_ms, bounded.is_some()), (Some(expected.0), expected.1), "{timeout_ms:?} {grace_ms:?}");
        assert!(bounded.is_none_or(|ms| ms == expected.0));
    }

    #[test]
    fn a_command_and_its_stopping_fit_into_one_call() {
        check(None, None, (43_000, true));
        check(Some(0), None, (43_000, true));
        check(Some(5_000), None, (5_000, false));
        check(Some(43_001), None, (43_000, true));
        check(None, Some(0), (48_000, true));
        check(None, Some(60_000), (1_000, true));
    }
}
