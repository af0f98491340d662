//! JSON lines: every verb of the protocol over a pair of byte streams.
//!
//! ```text
//! host    {"hello": {"version", "protocol": 1, "features": [], "limits": {…}, "host_id"}}        first, once
//! client  {"id", "session", "agent"?, "request"?, "call": {"action", …}}       id: string or integer, ours to return
//! host    {"id", "result": {…}} | {"id", "error": {"code", "message", "details"?, "retryable"}}     in any order
//! client  {"cancel": id}                                     ends that call: it answers `cancelled`, unless answered
//! host    {"id": null, "error": {…}}                                        to a line that is none of the above
//! ```
//!
//! Without `agent` the call is the operator's. A line is UTF-8, ends with a line feed, and has at most
//! [`LINE_BYTES_MAX`] bytes; a longer one is skipped without being kept. No line ends the connection. The end of the
//! reader is the end of the host.
//!
//! Invariant: everything is bounded: lines, calls in flight ([`IN_FLIGHT_MAX`], then `busy`), answers not yet
//! written ([`ANSWERS_QUEUED_MAX`], then nothing more is read).
//!
//! Deliberately absent: events and credit.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, BufReader, BufWriter};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use self::line::{Line, read_line};
use super::ending::shut_down;
use crate::protocol::bounds::{LINE_BYTES_MAX, PAGE_BYTES_MAX};
use crate::protocol::call::{Call, Caller, Origin, read_name, unknown_field};
use crate::protocol::error::{Code, Error};
use crate::protocol::id::SessionName;
use crate::runtime::Host;

mod line;

/// Most calls that are not answered yet.
pub const IN_FLIGHT_MAX: usize = 1024;
/// Most answers that wait to be written.
pub const ANSWERS_QUEUED_MAX: usize = 256;
/// After the shutdown, the longest wait for calls still in flight, and then for a client that reads slowly.
const FAREWELL_MS: u64 = 2_000;

/// The fields of a call's line.
const ENVELOPE: &[&str] = &["id", "session", "agent", "request", "call"];

/// Serves until `reader` ends, then ends the host.
///
/// # Errors
/// The writer failed before the reader ended, and not because its other side has gone. The host has been ended then,
/// too.
pub async fn serve<R, W>(host: Host, reader: R, writer: W) -> std::io::Result<()>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let (answers, queue) = mpsc::channel(ANSWERS_QUEUED_MAX);
    let mut writing = tokio::spawn(write_lines(queue, writer));
    let mut connection = Connection::new(host.clone(), answers);
    connection.say(hello(&host)).await;
    let written = tokio::select! {
        () = connection.read_to_end(reader) => None,
        written = &mut writing => Some(written),
    };
    // Calls still parked are answered by what the shutdown does to their processes.
    if let Err(error) = shut_down(&host, end_session()).await {
        tracing::warn!(%error, "the host did not shut down as it should");
    }
    connection.end().await;
    let written = match written {
        Some(written) => written,
        None => match tokio::time::timeout(Duration::from_millis(FAREWELL_MS), &mut writing).await {
            Ok(written) => written,
            Err(_) => {
                writing.abort();
                return Ok(());
            }
        },
    };
    match written.unwrap_or_else(|error| Err(std::io::Error::other(error))) {
        // A client that has gone has nothing to be told.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// Serves on standard input and output.
///
/// # Errors
/// As [`serve`].
pub async fn serve_stdio(host: Host) -> std::io::Result<()> {
    serve(host, tokio::io::stdin(), tokio::io::stdout()).await
}

fn end_session() -> SessionName {
    SessionName::new("rpc").expect("three letters are a name")
}

fn hello(host: &Host) -> Value {
    let settings = host.settings();
    let mut random = [0; 16];
    if let Err(error) = getrandom::fill(&mut random) {
        tracing::warn!(%error, "no random bytes: the host's id is not unique");
    }
    json!({"hello": {
        "version": env!("CARGO_PKG_VERSION"),
        "protocol": 1,
        "features": [],
        "limits": {
            "line_bytes": LINE_BYTES_MAX,
            "calls_in_flight": IN_FLIGHT_MAX,
            "page_bytes": PAGE_BYTES_MAX,
            "live_per_host": settings.limits.live_per_host,
            "sessions": settings.limits.sessions,
        },
        "host_id": format!("h-{:032x}", u128::from_ne_bytes(random)),
    }})
}

/// Writes each line, and flushes when none is waiting.
async fn write_lines<W: AsyncWrite + Unpin>(mut queue: mpsc::Receiver<Value>, writer: W) -> std::io::Result<()> {
    let mut writer = BufWriter::new(writer);
    while let Some(answer) = queue.recv().await {
        let mut line = answer.to_string();
        line.push('\n');
        writer.write_all(line.as_bytes()).await?;
        if queue.is_empty() {
            writer.flush().await?;
        }
    }
    writer.flush().await
}

/// Calls in flight by their id, each with what cancels it.
type InFlight = Arc<Mutex<HashMap<String, CancellationToken>>>;

/// What a call in flight holds.
struct Place {
    cancel: CancellationToken,
    /// Given back when its answer is queued, so that unread answers count as calls.
    room: OwnedSemaphorePermit,
}

struct Connection {
    host: Host,
    answers: mpsc::Sender<Value>,
    in_flight: InFlight,
    room: Arc<Semaphore>,
    calls: JoinSet<()>,
}

impl Connection {
    fn new(host: Host, answers: mpsc::Sender<Value>) -> Self {
        let room = Arc::new(Semaphore::new(IN_FLIGHT_MAX));
        Connection { host, answers, in_flight: InFlight::default(), room, calls: JoinSet::new() }
    }

    async fn read_to_end(&mut self, reader: impl AsyncRead + Unpin) {
        let mut reader = BufReader::new(reader);
        loop {
            while self.calls.try_join_next().is_some() {}
            match read_line(&mut reader, LINE_BYTES_MAX).await {
                Ok(Line::End) => return,
                Ok(Line::TooLong(bytes)) => self.refuse(Value::Null, too_long(bytes)).await,
                Ok(Line::Whole(line)) => self.take(&line).await,
                Err(error) => {
                    tracing::warn!(%error, "reading failed");
                    return;
                }
            }
        }
    }

    /// Takes one line: begins its call, cancels another, or says what is wrong with it.
    async fn take(&mut self, line: &[u8]) {
        if line.trim_ascii().is_empty() {
            return;
        }
        match Message::parse(line) {
            Ok(Message::Cancel(id)) => {
                if let Some(call) = lock(&self.in_flight).get(&id.to_string()) {
                    call.cancel();
                }
            }
            Ok(Message::Call { id, origin, call }) => match self.admit(&id) {
                Ok(place) => self.begin(id, origin, *call, place),
                Err(error) => self.refuse(id, error).await,
            },
            Err((id, error)) => self.refuse(id, error).await,
        }
    }

    fn admit(&self, id: &Value) -> Result<Place, Error> {
        let mut in_flight = lock(&self.in_flight);
        if in_flight.contains_key(&id.to_string()) {
            return Err(Error::new(Code::Conflict, format!("call {id} is not answered yet: ids in flight are unique")));
        }
        let room = self.room.clone().try_acquire_owned().map_err(|_| {
            Error::new(Code::Busy, format!("{IN_FLIGHT_MAX} calls are in flight, no more are taken"))
                .with("limit", IN_FLIGHT_MAX)
        })?;
        let cancel = CancellationToken::new();
        in_flight.insert(id.to_string(), cancel.clone());
        Ok(Place { cancel, room })
    }

    fn begin(&mut self, id: Value, origin: Origin, call: Call, place: Place) {
        let (host, answers, in_flight) = (self.host.clone(), self.answers.clone(), self.in_flight.clone());
        self.calls.spawn(async move {
            let result = tokio::select! {
                biased;
                result = host.call(origin, call) => result,
                () = place.cancel.cancelled() => Err(Error::new(Code::Cancelled, "the call was cancelled")),
            };
            let answer = match result {
                Ok(answer) => json!({"id": id, "result": answer}),
                Err(error) => json!({"id": id, "error": error}),
            };
            // Before the answer can be seen: whoever sees it may use the id again.
            lock(&in_flight).remove(&id.to_string());
            let _ = answers.send(answer).await;
            drop(place.room);
        });
    }

    async fn refuse(&self, id: Value, error: Error) {
        self.say(json!({"id": id, "error": error})).await;
    }

    async fn say(&self, line: Value) {
        // A writer that has gone ends the connection by itself.
        let _ = self.answers.send(line).await;
    }

    /// Waits for the calls in flight, then cancels those that do not end.
    async fn end(mut self) {
        let all = async { while self.calls.join_next().await.is_some() {} };
        if tokio::time::timeout(Duration::from_millis(FAREWELL_MS), all).await.is_err() {
            self.calls.shutdown().await;
        }
    }
}

fn lock(in_flight: &InFlight) -> std::sync::MutexGuard<'_, HashMap<String, CancellationToken>> {
    in_flight.lock().unwrap_or_else(PoisonError::into_inner)
}

fn too_long(bytes: u64) -> Error {
    Error::new(Code::TooLarge, format!("the line has {bytes} bytes: at most {LINE_BYTES_MAX} are taken"))
        .with("given", bytes)
        .with("limit", LINE_BYTES_MAX)
}

/// What a client says in one line.
#[derive(Debug, PartialEq)]
enum Message {
    Call { id: Value, origin: Origin, call: Box<Call> },
    Cancel(Value),
}

impl Message {
    /// Reads a line; an error comes with the id it is to be answered to, null where there is none.
    fn parse(line: &[u8]) -> Result<Message, (Value, Error)> {
        let anonymous = |error| (Value::Null, error);
        let text = std::str::from_utf8(line)
            .map_err(|error| anonymous(Error::new(Code::InvalidArgument, format!("the line is not UTF-8: {error}"))))?;
        let value: Value = serde_json::from_str(text)
            .map_err(|error| anonymous(Error::new(Code::InvalidArgument, format!("the line is not JSON: {error}"))))?;
        let Value::Object(mut fields) = value else {
            return Err(anonymous(Error::invalid("line", value, "an object")));
        };
        if let Some(id) = fields.remove("cancel") {
            check_id("cancel", &id).map_err(anonymous)?;
            return match fields.keys().next() {
                None => Ok(Message::Cancel(id)),
                Some(field) => Err(anonymous(unknown_field(field, &["cancel".to_owned()]))),
            };
        }
        let id = fields.remove("id").ok_or_else(|| anonymous(Error::missing("id", "a string or an integer")))?;
        check_id("id", &id).map_err(anonymous)?;
        match envelope(fields) {
            Ok((origin, call)) => Ok(Message::Call { id, origin, call: Box::new(call) }),
            Err(error) => Err((id, error)),
        }
    }
}

fn check_id(field: &str, id: &Value) -> Result<(), Error> {
    if id.is_string() || id.is_i64() || id.is_u64() {
        Ok(())
    } else {
        Err(Error::invalid(field, id, "a string or an integer"))
    }
}

fn envelope(mut fields: Map<String, Value>) -> Result<(Origin, Call), Error> {
    let known: Vec<String> = ENVELOPE.iter().map(|name| (*name).to_owned()).collect();
    if let Some(field) = fields.keys().find(|field| !known.contains(field)) {
        return Err(unknown_field(field, &known));
    }
    fields.retain(|_, value| !value.is_null());
    let session = fields.remove("session").ok_or_else(|| Error::missing("session", "the name of a session"))?;
    let session = read_name("session", session)?;
    let caller = match fields.remove("agent") {
        Some(agent) => Caller::Agent(read_name("agent", agent)?),
        None => Caller::Operator,
    };
    let request = fields.remove("request").map(|request| read_name("request", request)).transpose()?;
    let call = fields.remove("call").ok_or_else(|| Error::missing("call", "an object with `action`"))?;
    Ok((Origin { session, caller, request }, Call::parse(call)?))
}

#[cfg(test)]
mod tests;
