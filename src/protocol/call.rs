//! One call type and one answer type, used by every front end.
//!
//! A call is a flat object whose `action` names the verb. [`Call::parse`] is the one way in from JSON: it refuses
//! unknown fields with the nearest known one, and names the field that is wrong.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};

use super::error::{Code, Error, shorten};
use super::id::{AgentName, RequestName, SessionName};
use super::output::Page;
use super::spec::Spec;
use super::status::Status;
use super::verb::agent::{AgentInfo, CloseAgent, CloseAnswer, OpenAgent};
use super::verb::exec::{Exec, ExecAnswer};
use super::verb::forget::{Clear, Forgotten, Remove};
use super::verb::host::{GetHostStatus, HostStatus, Shutdown, ShutdownAnswer};
use super::verb::list::{List, ListAnswer};
use super::verb::output::ReadOutput;
use super::verb::session::{
    DeleteAnswer, DeleteSession, ListSessions, OpenSession, ResetAnswer, ResetSession, SessionInfo, SessionsAnswer,
    Transfer,
};
use super::verb::status::GetStatus;
use super::verb::stop::{Restart, Stop};
use super::verb::update::Update;
use super::verb::wait::{Wait, WaitAnswer};

/// Who calls.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Caller {
    /// The human or server side: sees everything, may call everything.
    Operator,
    /// A model: sees its own processes, or its session's if it was opened so.
    Agent(AgentName),
}

/// Where a call is made, and by whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The session.
    pub session: SessionName,
    /// Who calls.
    pub caller: Caller,
    /// The agent's turn that it belongs to.
    pub request: Option<RequestName>,
}

macro_rules! calls {
    ($($(#[$doc:meta])* $variant:ident($body:ty) -> $answer:ty = $action:literal, $who:ident;)*) => {
        /// What is asked of a host.
        #[derive(Clone, Debug, PartialEq, Serialize)]
        #[serde(tag = "action", rename_all = "snake_case")]
        pub enum Call {
            $($(#[$doc])* $variant($body),)*
        }

        /// Every verb: its name, and whether an agent may call it.
        pub const VERBS: &[(&str, Audience)] = &[$(($action, Audience::$who),)*];

        impl Call {
            /// The verb's name.
            pub fn action(&self) -> &'static str {
                match self { $(Call::$variant(_) => $action,)* }
            }

            /// Who may call it.
            pub fn audience(&self) -> Audience {
                match self { $(Call::$variant(_) => Audience::$who,)* }
            }

            fn read(action: &str, fields: Map<String, Value>) -> Result<Call, Error> {
                match action {
                    $($action => Ok(Call::$variant(read_fields::<$body>(fields)?)),)*
                    _ => Err(unknown_action(action)),
                }
            }

            /// The JSON Schema of one verb's fields.
            pub fn schema(action: &str) -> Option<schemars::Schema> {
                match action {
                    $($action => Some(schemars::schema_for!($body)),)*
                    _ => None,
                }
            }

            /// The JSON Schema of what one verb answers.
            pub fn answer_schema(action: &str) -> Option<schemars::Schema> {
                match action {
                    $($action => Some(schemars::schema_for!($answer)),)*
                    _ => None,
                }
            }
        }
    };
}

/// Who may call a verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// Agents and the operator.
    Agents,
    /// The operator only.
    Operator,
}

calls! {
    /// Launches a process in the background.
    Start(Spec) -> Status = "start", Agents;
    /// Runs a command to its end.
    Exec(Exec) -> ExecAnswer = "exec", Agents;
    /// The caller's processes.
    List(List) -> ListAnswer = "list", Agents;
    /// Everything about one process.
    Status(GetStatus) -> Status = "status", Agents;
    /// A page of output.
    Output(ReadOutput) -> Page = "output", Agents;
    /// Waits for something to be true.
    Wait(Wait) -> WaitAnswer = "wait", Agents;
    /// Ends a process's tree.
    Stop(Stop) -> Status = "stop", Agents;
    /// Stops, confirms, starts afresh.
    Restart(Restart) -> Status = "restart", Agents;
    /// Changes a deadline or label.
    Update(Update) -> Status = "update", Agents;
    /// Forgets a finished record.
    Clear(Clear) -> Forgotten = "clear", Agents;
    /// Stops and forgets.
    Remove(Remove) -> Forgotten = "remove", Agents;
    /// Opens a session.
    OpenSession(OpenSession) -> SessionInfo = "open_session", Operator;
    /// Every session.
    ListSessions(ListSessions) -> SessionsAnswer = "list_sessions", Operator;
    /// Forgets a session's finished records.
    ResetSession(ResetSession) -> ResetAnswer = "reset_session", Operator;
    /// Ends a session.
    DeleteSession(DeleteSession) -> DeleteAnswer = "delete_session", Operator;
    /// Opens an agent.
    OpenAgent(OpenAgent) -> AgentInfo = "open_agent", Operator;
    /// Closes an agent.
    CloseAgent(CloseAgent) -> CloseAnswer = "close_agent", Operator;
    /// Gives a process to another agent.
    Transfer(Transfer) -> Status = "transfer", Operator;
    /// The host as it stands.
    HostStatus(GetHostStatus) -> HostStatus = "host_status", Operator;
    /// Ends the host.
    Shutdown(Shutdown) -> ShutdownAnswer = "shutdown", Operator;
}

/// What a host answers.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// To `start`, `status`, `stop`, `restart`, `update`, `transfer`.
    Status(Box<Status>),
    /// To `exec`.
    Exec(Box<ExecAnswer>),
    /// To `list`.
    List(ListAnswer),
    /// To `output`.
    Output(Page),
    /// To `wait`.
    Wait(Box<WaitAnswer>),
    /// To `clear` and `remove`.
    Forgotten(Forgotten),
    /// To `open_session`.
    Session(SessionInfo),
    /// To `list_sessions`.
    Sessions(SessionsAnswer),
    /// To `reset_session`.
    Reset(ResetAnswer),
    /// To `delete_session`.
    Deleted(DeleteAnswer),
    /// To `open_agent`.
    Agent(AgentInfo),
    /// To `close_agent`.
    Closed(CloseAnswer),
    /// To `host_status`.
    Host(HostStatus),
    /// To `shutdown`.
    Shutdown(ShutdownAnswer),
}

impl Serialize for Answer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Answer::Status(body) => body.serialize(serializer),
            Answer::Exec(body) => body.serialize(serializer),
            Answer::List(body) => body.serialize(serializer),
            Answer::Output(body) => body.serialize(serializer),
            Answer::Wait(body) => body.serialize(serializer),
            Answer::Forgotten(body) => body.serialize(serializer),
            Answer::Session(body) => body.serialize(serializer),
            Answer::Sessions(body) => body.serialize(serializer),
            Answer::Reset(body) => body.serialize(serializer),
            Answer::Deleted(body) => body.serialize(serializer),
            Answer::Agent(body) => body.serialize(serializer),
            Answer::Closed(body) => body.serialize(serializer),
            Answer::Host(body) => body.serialize(serializer),
            Answer::Shutdown(body) => body.serialize(serializer),
        }
    }
}

impl Call {
    /// Reads a call from its JSON object, and checks what can be checked without a host.
    ///
    /// # Errors
    /// `invalid_argument` names the field (and the nearest known one), `too_large` the bound.
    pub fn parse(value: Value) -> Result<Call, Error> {
        let Value::Object(mut fields) = value else {
            return Err(Error::invalid("call", kind_of(&value), "an object with `action`"));
        };
        let action = match fields.remove("action") {
            Some(Value::String(action)) => action,
            Some(other) => return Err(Error::invalid("action", other, "the name of a verb")),
            None => return Err(Error::missing("action", "the name of a verb")),
        };
        let call = Call::read(&action, fields)?;
        call.check()?;
        Ok(call)
    }

    /// Refuses what no host could do: sizes, ranges, contradictions.
    ///
    /// # Errors
    /// `invalid_argument` or `too_large` names the field.
    pub fn check(&self) -> Result<(), Error> {
        match self {
            Call::Start(spec) => spec.check(),
            Call::Exec(exec) => exec.check(),
            Call::Wait(wait) => wait.handles().map(|_| ()),
            Call::Stop(stop) => stop.check(),
            Call::Update(update) => update.check(),
            Call::OpenSession(open) => open.check(),
            Call::Shutdown(shutdown) => shutdown.check(),
            Call::List(_)
            | Call::Output(_)
            | Call::Status(_)
            | Call::Restart(_)
            | Call::Clear(_)
            | Call::Remove(_)
            | Call::ListSessions(_)
            | Call::ResetSession(_)
            | Call::DeleteSession(_)
            | Call::OpenAgent(_)
            | Call::CloseAgent(_)
            | Call::Transfer(_)
            | Call::HostStatus(_) => Ok(()),
        }
    }
}

/// Reads `fields` as `T`, naming what is wrong: an unknown field with the nearest known one, a value of the wrong
/// kind with the field, what was given and what was expected.
///
/// # Errors
/// `invalid_argument`.
pub fn read_fields<T: DeserializeOwned + JsonSchema>(fields: Map<String, Value>) -> Result<T, Error> {
    let value = Value::Object(fields);
    serde_path_to_error::deserialize(&value).map_err(|error| {
        let path = error.path().to_string();
        let message = error.inner().to_string();
        refusal::<T>(&value, &path, &message)
    })
}

/// Turns what serde says into an error by name.
fn refusal<T: JsonSchema>(value: &Value, path: &str, message: &str) -> Error {
    if let Some(field) = quoted_after(message, "unknown field ") {
        return unknown_field_in(parent(path, field), field, &known_fields(message));
    }
    if let Some(field) = quoted_after(message, "missing field ") {
        let parent = parent(path, field);
        let whole = format!("{parent}{field}");
        let told = whole.split(['.', '[']).next().unwrap_or(field);
        return Error::missing(&whole, describe::<T>(told));
    }
    let given = path.split('.').try_fold(value, |value, key| match value {
        Value::Object(map) => map.get(key),
        Value::Array(list) => key.trim_matches(['[', ']']).parse::<usize>().ok().and_then(|at| list.get(at)),
        _ => None,
    });
    let expected = message.split("expected ").nth(1).unwrap_or(message);
    Error::invalid(path, given.unwrap_or(&Value::Null), shorten(in_words(expected)))
}

/// What stands before a field that serde names alone: nothing at the top, else the field it is in, and a dot.
fn parent(path: &str, field: &str) -> String {
    let above = path.strip_suffix(field).map_or(path, |above| above.trim_end_matches('.'));
    if above.is_empty() || above == "." { String::new() } else { format!("{above}.") }
}

/// What serde calls a type, as people do.
fn in_words(expected: &str) -> &str {
    match expected {
        "u64" | "u32" | "usize" => "a whole number, not negative",
        "i64" | "i32" => "a whole number",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "a map" => "an object",
        other => other,
    }
}

/// The error for a field nobody knows.
pub fn unknown_field(field: &str, known: &[String]) -> Error {
    unknown_field_in(String::new(), field, known)
}

fn unknown_field_in(parent: String, field: &str, known: &[String]) -> Error {
    let nearest = nearest(field, known.iter().map(String::as_str));
    let hint = nearest.map(|name| format!("; did you mean `{name}`?")).unwrap_or_default();
    let error = Error::new(
        Code::InvalidArgument,
        format!("`{parent}{}` is not a field here{hint} Known: {}", shorten(field), known.join(", ")),
    );
    let error = error.with("field", parent + &shorten(field)).with("expected", known);
    match nearest {
        Some(name) => error.with("nearest", name),
        None => error,
    }
}

fn unknown_action(action: &str) -> Error {
    let names: Vec<&str> = VERBS.iter().map(|(name, _)| *name).collect();
    let error = Error::invalid("action", action, format!("one of {}", names.join(", ")));
    match nearest(action, names.iter().copied()) {
        Some(name) => error.with("nearest", name),
        None => error,
    }
}

/// The candidate most like `word`, if one is like it at all.
fn nearest<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .map(|candidate| (strsim::jaro_winkler(word, candidate), candidate))
        .filter(|(likeness, _)| *likeness > 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

/// The text in backquotes right after `prefix`.
fn quoted_after<'a>(message: &'a str, prefix: &str) -> Option<&'a str> {
    message.strip_prefix(prefix)?.strip_prefix('`')?.split('`').next()
}

/// The field names that serde lists after "expected".
fn known_fields(message: &str) -> Vec<String> {
    let (_, list) = message.split_once("expected ").unwrap_or(("", ""));
    list.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// What the schema says of a field.
fn describe<T: JsonSchema>(field: &str) -> String {
    let schema = schemars::schema_for!(T);
    schema
        .pointer(&format!("/properties/{field}/description"))
        .and_then(Value::as_str)
        .map_or_else(|| "a value".to_owned(), |text| text.trim_end_matches('.').to_owned())
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// Reads an optional name from an envelope.
///
/// # Errors
/// `invalid_argument` names the field.
pub fn read_name<T: for<'de> Deserialize<'de>>(field: &str, value: Value) -> Result<T, Error> {
    serde_json::from_value(value.clone()).map_err(|error| Error::invalid(field, value, error))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(call: Value, field: &str, nearest: Option<&str>) {
        let error = Call::parse(call.clone()).expect_err("should be refused");
        assert_eq!(error.details["field"], field, "{call}: {error:?}");
        assert_eq!(error.details.get("nearest").and_then(Value::as_str), nearest, "{call}: {error:?}");
    }

    #[test]
    fn what_is_wrong_is_named_with_the_nearest_known_word() {
        check(json!([]), "call", None);
        check(json!({}), "action", None);
        check(json!({"action": 3}), "action", None);
        check(json!({"action": "stat"}), "action", Some("start"));
        check(json!({"action": "start", "comand": "x"}), "comand", Some("command"));
        check(json!({"action": "start", "command": "x", "zzz": 1}), "zzz", None);
        check(json!({"action": "start", "command": "x", "timeout_ms": -1}), "timeout_ms", None);
        check(json!({"action": "start", "command": "x", "timeout_ms": 1.5}), "timeout_ms", None);
        check(json!({"action": "start", "command": "x", "timeout_ms": "1"}), "timeout_ms", None);
        check(json!({"action": "start", "command": "x", "label": "A B"}), "label", None);
        check(json!({"action": "start", "command": "x", "env": {"A": 3}}), "env.A", None);
        check(json!({"action": "start", "argv": ["a", 3]}), "argv[1]", None);
        check(json!({"action": "start", "command": "x", "stdin": "open"}), "stdin", None);
        check(json!({"action": "start"}), "command", None);
        check(json!({"action": "status"}), "process_id", None);
        check(json!({"action": "status", "process_id": 3}), "process_id", None);
        check(json!({"action": "wait", "process_id": "a"}), "until", None);
        check(json!({"action": "wait", "process_id": "a", "until": {"kind": "exist"}}), "until.kind", None);
        check(json!({"action": "wait", "process_id": "a", "until": {}}), "until.kind", None);
        let close = json!({"action": "wait", "process_id": "a", "until": {"kind": "exit", "for_ms": 1}});
        check(close, "until.for_ms", None);
        check(json!({"action": "wait", "process_id": "a", "until": {"kind": "exit"}, "mode": "any"}), "mode", None);
        check(json!({"action": "wait", "process_ids": [], "until": {"kind": "exit"}}), "process_ids", None);
        check(json!({"action": "open_session", "directory": "relative"}), "directory", None);
    }

    #[test]
    fn what_is_expected_is_said_in_words() {
        let call = json!({"action": "start", "command": "x", "timeout_ms": 1.5});
        let error = Call::parse(call).expect_err("is no whole number");
        assert_eq!(error.message, "`timeout_ms` is 1.5: expected a whole number, not negative");
    }

    #[test]
    fn every_verb_reads_what_it_writes() {
        let calls = [
            Call::Start(Spec::command("true")),
            Call::Exec(Exec::command("true")),
            Call::List(List::default()),
            Call::Wait(Wait::exit(super::super::id::Handle("web".into()))),
            Call::HostStatus(GetHostStatus {}),
            Call::Shutdown(Shutdown::default()),
        ];
        for call in calls {
            let written = serde_json::to_value(&call).expect("calls are plain data");
            assert_eq!(written["action"], call.action());
            assert_eq!(Call::parse(written).expect("reads back"), call);
        }
    }

    #[test]
    fn every_verb_has_a_schema_of_an_object() {
        for (action, _) in VERBS {
            let schema = Call::schema(action).expect("a schema for each verb");
            let answer = Call::answer_schema(action).expect("a schema for each answer");
            for schema in [schema, answer] {
                assert_eq!(schema.get("type").and_then(Value::as_str), Some("object"), "{action}");
            }
        }
    }
}
