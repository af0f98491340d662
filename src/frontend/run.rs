//! `procession run`: one command in the foreground, its whole tree ended with it.
//!
//! Output comes as it is written, each stream on its own, byte for byte; standard input is empty. Exit codes: the
//! command's; 128+n for a signal, also one that asked us to end; 124 at the deadline; 126 and 127 as a shell; 125
//! for a mistake of ours; 4 where it is not proven that nothing is left.
//!
//! The command waits for our reader as it would in a pipeline (`output.wait_for_reader` is on), so nothing is
//! dropped. Where that is configured away, what a slow reader loses is counted on standard error. A reader that has
//! gone ends the command.
//!
//! Deliberately absent: a terminal, input, detaching.

use std::io;
use std::pin::pin;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::io::{AsyncWrite, AsyncWriteExt};

use super::ending::operator;
use super::signals::{Ends, number};
use crate::protocol::bounds::PAGE_BYTES_MAX;
use crate::protocol::call::{Answer, Call, Origin};
use crate::protocol::error::{Code, Error};
use crate::protocol::id::{Handle, SessionName};
use crate::protocol::output::{Cursor, Encoding, Page, Stream};
use crate::protocol::spec::Spec;
use crate::protocol::state::{Cleanup, State};
use crate::protocol::status::Status;
use crate::protocol::verb::output::ReadOutput;
use crate::protocol::verb::stop::Stop;
use crate::protocol::verb::wait::Wait;
use crate::runtime::Host;

/// Ours: what was asked cannot be done.
pub(super) const OURS: u8 = 125;
const DEADLINE: u8 = 124;
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;
const UNCERTAIN: u8 = 4;
const SIGNAL_BASE: u8 = 128;
const SIGPIPE: u8 = 13;

/// How long one read waits for output. Only bounds the call: the next follows at once.
const READ_WAIT_MS: u64 = 30_000;
/// After the command was ended, how long a reader of ours that stands still is waited for.
const LAST_WRITE_MS: u64 = 2_000;

/// Runs `spec` and gives its exit code.
///
/// # Errors
/// What stood in the way, where that is not the program itself.
pub(super) async fn run<O, E>(host: &Host, spec: Spec, ends: &mut Ends, out: O, err: E) -> Result<u8, Error>
where
    O: AsyncWrite + Unpin,
    E: AsyncWrite + Unpin,
{
    let session = SessionName::new("run").map_err(|error| Error::internal(error.to_string()))?;
    let client = Client { host, origin: operator(session) };
    // A start that is dropped is stopped, so a signal may come at any time.
    let started = tokio::select! {
        started = client.status(Call::Start(spec)) => started,
        signal = ends.next() => return Ok(SIGNAL_BASE + signal),
    };
    let process = match started {
        Ok(status) => Handle::from(&status.process_id),
        Err(error) if error.code == Code::LaunchFailed => return launch_failure(error),
        Err(error) => return Err(error),
    };
    let ended_by = client.show(&process, ends, out, err).await;
    // Whatever ended the showing: the tree is gone, or told to be uncertain, before we are.
    let wait = Wait::exit(process.clone());
    client.ask(Call::Wait(wait)).await?;
    let status = client.status(Call::Status(crate::protocol::verb::status::GetStatus { process_id: process })).await?;
    for warning in &status.warnings {
        tracing::info!("{warning}");
    }
    Ok(exit_code(&status, ended_by))
}

struct Client<'a> {
    host: &'a Host,
    origin: Origin,
}

impl Client<'_> {
    async fn ask(&self, call: Call) -> Result<Answer, Error> {
        self.host.call(self.origin.clone(), call).await
    }

    async fn status(&self, call: Call) -> Result<Status, Error> {
        match self.ask(call).await? {
            Answer::Status(status) => Ok(*status),
            _ => Err(Error::internal("a status was answered with something else")),
        }
    }

    /// Shows the output to its end. Gives the signal that ended the command by way of us, if one did.
    async fn show<O, E>(&self, process: &Handle, ends: &mut Ends, out: O, err: E) -> Option<u8>
    where
        O: AsyncWrite + Unpin,
        E: AsyncWrite + Unpin,
    {
        let mut copy = pin!(self.copy(process, out, err));
        let mut stops = FuturesUnordered::new();
        let (mut ended_by, mut copying) = (None, true);
        loop {
            tokio::select! {
                copied = &mut copy, if copying => match copied {
                    Ok(()) => break,
                    Err(failure) => {
                        if failure.kind() != io::ErrorKind::BrokenPipe {
                            tracing::error!(%failure, "the output could not be shown");
                        }
                        copying = false;
                        ended_by = ended_by.or(Some(SIGPIPE));
                        stops.push(self.stop(process, None));
                    }
                },
                signal = ends.next() => {
                    let grace = ended_by.is_some().then_some(0);
                    ended_by = ended_by.or(Some(signal));
                    stops.push(self.stop(process, grace));
                }
                Some(()) = stops.next() => {
                    // Ended. What is left to show is short, unless nobody reads it.
                    if copying {
                        let _ = tokio::time::timeout(Duration::from_millis(LAST_WRITE_MS), &mut copy).await;
                    }
                    break;
                }
            }
        }
        ended_by
    }

    async fn stop(&self, process: &Handle, grace_ms: Option<u64>) {
        if let Err(error) = self.ask(Call::Stop(Stop { process_id: process.clone(), grace_ms })).await {
            tracing::error!(%error, "the command could not be stopped");
        }
    }

    /// Copies every byte to the stream it was written on.
    async fn copy<O, E>(&self, process: &Handle, mut out: O, mut err: E) -> io::Result<()>
    where
        O: AsyncWrite + Unpin,
        E: AsyncWrite + Unpin,
    {
        let mut cursor: Cursor = 0;
        loop {
            let page = self.page(process, cursor).await.map_err(io::Error::other)?;
            if page.dropped_bytes > 0 {
                let lost = format!("procession: {} bytes were not read in time and are lost\n", page.dropped_bytes);
                err.write_all(lost.as_bytes()).await?;
            }
            for chunk in &page.chunks {
                let text = chunk.data_base64.as_deref().unwrap_or_default();
                let bytes = STANDARD.decode(text).map_err(io::Error::other)?;
                match chunk.stream {
                    Stream::Stdout => out.write_all(&bytes).await?,
                    Stream::Stderr => err.write_all(&bytes).await?,
                }
            }
            out.flush().await?;
            err.flush().await?;
            if page.eof {
                return Ok(());
            }
            cursor = page.next_cursor;
        }
    }

    async fn page(&self, process: &Handle, cursor: Cursor) -> Result<Page, Error> {
        let read = ReadOutput {
            cursor: Some(cursor),
            max_bytes: Some(PAGE_BYTES_MAX),
            encoding: Some(Encoding::Base64),
            wait_ms: Some(READ_WAIT_MS),
            ..ReadOutput::of(process.clone())
        };
        match self.ask(Call::Output(read)).await? {
            Answer::Output(page) => Ok(page),
            _ => Err(Error::internal("`output` was answered with something else")),
        }
    }
}

/// The exit code of a command that ended, and by which signal of ours.
fn exit_code(status: &Status, ended_by: Option<u8>) -> u8 {
    if status.cleanup == Some(Cleanup::Uncertain) || status.state == State::Lost {
        return UNCERTAIN;
    }
    if status.state == State::TimedOut {
        return DEADLINE;
    }
    let exit = status.exit.as_ref();
    match (ended_by, exit.and_then(|exit| exit.code), exit.and_then(|exit| exit.signal.as_deref())) {
        (Some(signal), _, _) if status.state == State::Stopped => SIGNAL_BASE + signal,
        (_, Some(code), _) => u8::try_from(code & 0xff).unwrap_or(OURS),
        (_, None, Some(name)) => number(name).and_then(|number| SIGNAL_BASE.checked_add(number)).unwrap_or(OURS),
        (_, None, None) => OURS,
    }
}

/// A program that is not there or cannot be executed is told as a shell tells it.
fn launch_failure(error: Error) -> Result<u8, Error> {
    match launch_code(&error) {
        Some(code) => {
            complain(&error.message);
            Ok(code)
        }
        None => Err(error),
    }
}

fn launch_code(error: &Error) -> Option<u8> {
    let operation = error.details.get("operation").and_then(|operation| operation.as_str());
    if !matches!(operation, Some("find_program" | "execute")) {
        return None;
    }
    let errno = error.details.get("errno")?;
    match (errno.as_i64(), errno.as_str()) {
        (Some(2), _) | (_, Some("ENOENT")) => Some(NOT_FOUND),
        // ENOTDIR, EACCES, EPERM, ENOEXEC.
        (Some(20 | 13 | 1 | 8), _) | (_, Some("ENOTDIR" | "EACCES" | "EPERM" | "ENOEXEC")) => Some(NOT_EXECUTABLE),
        _ => None,
    }
}

/// One line on standard error.
#[expect(clippy::print_stderr, reason = "the command line speaks to its user")]
pub(super) fn complain(message: &str) {
    eprintln!("procession: {message}");
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn status(state: State, exit: serde_json::Value, cleanup: &str) -> Status {
        serde_json::from_value(json!({
            "process_id": "p-aaaaaaaaaaaaa", "session": "run", "agent": "main", "mode": "background", "name": "x",
            "command": "x", "cwd": "/", "state": state, "exit": exit, "cleanup": cleanup,
            "containment": {"kind": "subtree"}, "pty": false, "lifetime": "service", "started_at": "", "runtime_ms": 1,
            "output": {"earliest": 0, "end": 0}, "stdin": "closed", "idle_ms": 0,
        }))
        .expect("a status")
    }

    fn check(state: State, exit: serde_json::Value, cleanup: &str, ended_by: Option<u8>, expected: u8) {
        assert_eq!(exit_code(&status(state, exit.clone(), cleanup), ended_by), expected, "{state:?} {exit}");
    }

    #[test]
    fn each_end_has_its_exit_code() {
        check(State::Exited, json!({"code": 0}), "confirmed", None, 0);
        check(State::Failed, json!({"code": 3}), "confirmed", None, 3);
        check(State::Failed, json!({"signal": "SIGKILL"}), "confirmed", None, 137);
        check(State::TimedOut, json!({"signal": "SIGTERM"}), "confirmed", None, 124);
        check(State::Stopped, json!({"code": 0}), "confirmed", Some(2), 130);
        check(State::Exited, json!({"code": 0}), "confirmed", Some(2), 0);
        check(State::Exited, json!({"code": 0}), "uncertain", None, 4);
        check(State::Failed, json!({"signal": "SIGNOBODYKNOWS"}), "confirmed", None, 125);
    }

    fn check_launch(details: serde_json::Value, expected: Option<u8>) {
        let mut error = Error::new(Code::LaunchFailed, "m");
        error.details = details.as_object().cloned().expect("an object");
        assert_eq!(launch_code(&error), expected, "{details}");
    }

    #[test]
    fn a_program_that_cannot_be_run_is_told_as_a_shell_does() {
        check_launch(json!({"operation": "find_program", "errno": 2}), Some(127));
        check_launch(json!({"operation": "execute", "errno": 13}), Some(126));
        check_launch(json!({"operation": "execute", "errno": "ENOEXEC"}), Some(126));
        check_launch(json!({"operation": "open_directory", "errno": 2}), None);
        check_launch(json!({"operation": "execute", "errno": 11}), None);
    }
}
