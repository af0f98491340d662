//! From a model's arguments to a [`Call`]: what models are known to get slightly wrong is taken where the meaning
//! is certain, and refused with our word where it is not.
//!
//! Taken: null for absent; integers, booleans, arrays and objects given as text; integers written `5000.0`;
//! the arguments as a whole given as text. Refused by name: other tools' words (`timeout`, `id`, `cmd`, …).

use serde_json::{Map, Value, json};

use super::schema::Kinds;
use super::spec::{ACTIONS, EXEC, PROCESS, UNTIL_EXIT, exec_kinds, process_kinds};
use crate::protocol::call::{Call, unknown_field};
use crate::protocol::error::{Code, Error};

/// Other tools' words, ours, and what to know about the difference.
const FOREIGN: &[(&str, &str, &str)] = &[
    ("timeout", "timeout_ms", "milliseconds; it ends the process. `wait_ms` bounds a wait"),
    ("timeout_seconds", "timeout_ms", "milliseconds"),
    ("timeoutMs", "timeout_ms", "milliseconds"),
    ("yield_ms", "wait_ms", "of `process`; use its action `start` for what goes on in the background"),
    ("wait", "wait_ms", "milliseconds"),
    ("grace", "grace_ms", "milliseconds"),
    ("id", "process_id", "an id or a label"),
    ("pid", "process_id", "an id or a label, never the system's pid"),
    ("session_id", "process_id", "an id or a label"),
    ("shell_id", "process_id", "an id or a label"),
    ("bash_id", "process_id", "an id or a label"),
    ("task_id", "process_id", "an id or a label"),
    ("ids", "process_ids", "a list of ids or labels"),
    ("name", "label", "a-z, 0-9, `.`, `_`, `-`"),
    ("cmd", "command", "a shell command line"),
    ("args", "argv", "the program and its arguments in one list, instead of `command`"),
    ("script", "command", "a shell command line"),
    ("workdir", "cwd", "relative to the session's directory"),
    ("working_directory", "cwd", "relative to the session's directory"),
    ("working_dir", "cwd", "relative to the session's directory"),
    ("dir", "cwd", "relative to the session's directory"),
    ("directory", "cwd", "relative to the session's directory"),
    ("environment", "env", "an object of variables"),
    ("offset", "cursor", "a byte position, from `next_cursor`"),
    ("since", "cursor", "a byte position, from `next_cursor`"),
    ("until", UNTIL_EXIT, "true, or absent: `wait` is until the end"),
    ("run_in_background", "start", "the action of tool `process` that runs a command in the background"),
    ("background", "start", "the action of tool `process` that runs a command in the background"),
    ("is_background", "start", "the action of tool `process` that runs a command in the background"),
];

/// What one tool call asks of the host.
///
/// # Errors
/// `invalid_argument` says what was meant and what would be right; `too_large` the bound.
pub(super) fn read(tool: &str, arguments: Value) -> Result<Call, Error> {
    match tool {
        EXEC => {
            let fields = fields(arguments, &exec_kinds())?;
            parse(EXEC, refuse_conflicts(fields))
        }
        PROCESS => {
            let mut fields = fields(arguments, &process_kinds())?;
            let action = action(fields.remove("action"))?;
            match action {
                "start" => fields = refuse_conflicts(fields),
                "wait" => wait_until(&mut fields)?,
                _ => {}
            }
            parse(action, fields)
        }
        other => Err(Error::invalid("name", other, format!("the tool `{EXEC}` or `{PROCESS}`"))),
    }
}

fn parse(action: &str, mut fields: Map<String, Value>) -> Result<Call, Error> {
    fields.insert("action".to_owned(), json!(action));
    Call::parse(Value::Object(fields))
}

/// The arguments with each value in the kind its field wants.
fn fields(arguments: Value, kinds: &Kinds) -> Result<Map<String, Value>, Error> {
    let given = match arguments {
        Value::Null => Map::new(),
        Value::Object(map) => map,
        Value::String(text) => match serde_json::from_str(&text) {
            Ok(Value::Object(map)) => map,
            _ => return Err(Error::invalid("arguments", text, "an object")),
        },
        other => return Err(Error::invalid("arguments", other, "an object")),
    };
    let mut fields = Map::new();
    for (name, value) in given.into_iter().filter(|(_, value)| !value.is_null()) {
        let Some(kind) = kinds.get(&name) else { return Err(no_field(&name, kinds)) };
        fields.insert(name, as_kind(value, kind["type"].as_str().unwrap_or("string")));
    }
    Ok(fields)
}

/// The value in the kind that is wanted, where it certainly means that; else as it is, for the parser to refuse.
fn as_kind(value: Value, kind: &str) -> Value {
    let better = match (&value, kind) {
        (Value::String(text), "integer") => text.trim().parse().ok().map(|number: i64| json!(number)),
        (Value::String(text), "boolean") => match text.trim() {
            "true" => Some(json!(true)),
            "false" => Some(json!(false)),
            _ => None,
        },
        (Value::String(text), "array" | "object") => serde_json::from_str(text)
            .ok()
            .filter(|read: &Value| if kind == "array" { read.is_array() } else { read.is_object() }),
        (Value::Number(number), "integer") => number.as_f64().filter(|_| !number.is_u64()).and_then(whole),
        _ => None,
    };
    better.unwrap_or(value)
}

/// A float that is a whole number every reader agrees on.
fn whole(number: f64) -> Option<Value> {
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    let fits = number.fract() == 0.0 && (0.0..=EXACT_MAX).contains(&number);
    fits.then(|| format!("{number:.0}").parse::<u64>().ok()).flatten().map(|number| json!(number))
}

fn no_field(name: &str, kinds: &Kinds) -> Error {
    let foreign = FOREIGN.iter().find(|(theirs, _, _)| *theirs == name);
    match foreign {
        Some((_, ours, about)) => {
            Error::new(Code::InvalidArgument, format!("`{name}` is not a field here: use `{ours}` ({about})"))
                .with("field", name)
                .with("expected", about)
                .with("nearest", ours)
        }
        None => unknown_field(name, &kinds.keys().cloned().collect::<Vec<_>>()),
    }
}

fn action(given: Option<Value>) -> Result<&'static str, Error> {
    let expected = || format!("one of {}", ACTIONS.join(", "));
    match given {
        None => Err(Error::missing("action", expected())),
        Some(Value::String(word)) if word == EXEC => {
            Err(Error::invalid("action", word, "the tool `exec` for that, or the action `start`"))
        }
        Some(Value::String(word)) => match ACTIONS.iter().find(|action| **action == word) {
            Some(action) => Ok(action),
            None => Err(no_action(&word, &expected())),
        },
        Some(other) => Err(Error::invalid("action", other, expected())),
    }
}

/// Other tools' words for our actions.
fn no_action(word: &str, expected: &str) -> Error {
    let ours = match word {
        "kill" | "terminate" | "cancel" => Some("stop"),
        "run" | "spawn" | "launch" => Some("start"),
        "read" | "log" | "logs" | "poll" | "tail" => Some("output"),
        "ps" => Some("list"),
        "delete" | "rm" => Some("remove"),
        _ => None,
    };
    let error = Error::invalid("action", word, expected);
    match ours {
        Some(ours) => {
            Error { message: format!("{}. Here it is `{ours}`", error.message), ..error }.with("nearest", ours)
        }
        None => error,
    }
}

/// The host's own default may be laxer; a model is told before two of a kind run.
fn refuse_conflicts(mut fields: Map<String, Value>) -> Map<String, Value> {
    fields.entry("on_conflict").or_insert_with(|| json!("refuse"));
    fields
}

/// The flat form of what to wait for, made the protocol's.
fn wait_until(fields: &mut Map<String, Value>) -> Result<(), Error> {
    match fields.remove(UNTIL_EXIT) {
        None | Some(Value::Bool(true)) => {
            fields.insert("until".to_owned(), json!({"kind": "exit"}));
            Ok(())
        }
        Some(other) => Err(Error::invalid(UNTIL_EXIT, other, "true, or absent")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::id::Handle;
    use crate::protocol::spec::{OnConflict, Spec};
    use crate::protocol::verb::exec::Exec;
    use crate::protocol::verb::wait::Wait;

    fn check(tool: &str, arguments: Value, expected: Call) {
        assert_eq!(read(tool, arguments.clone()), Ok(expected), "{tool} {arguments}");
    }

    fn refused(tool: &str, arguments: Value, field: &str, nearest: Option<&str>) {
        let error = read(tool, arguments.clone()).expect_err("should be refused");
        assert_eq!(error.details["field"], field, "{arguments}: {error:?}");
        assert_eq!(error.details.get("nearest").and_then(Value::as_str), nearest, "{arguments}: {error:?}");
    }

    fn exec(change: impl FnOnce(&mut Exec)) -> Call {
        let mut exec = Exec { on_conflict: Some(OnConflict::Refuse), ..Exec::command("true") };
        change(&mut exec);
        Call::Exec(exec)
    }

    #[test]
    fn what_certainly_means_something_is_taken() {
        check("exec", json!({"command": "true"}), exec(|_| ()));
        check("exec", json!("{\"command\": \"true\"}"), exec(|_| ()));
        check("exec", json!({"command": "true", "timeout_ms": null, "argv": null}), exec(|_| ()));
        check("exec", json!({"command": "true", "timeout_ms": "5000"}), exec(|exec| exec.timeout_ms = Some(5000)));
        check("exec", json!({"command": "true", "timeout_ms": 5000.0}), exec(|exec| exec.timeout_ms = Some(5000)));
        let env = || Some([("A".to_owned(), Some("1".to_owned())), ("B".to_owned(), None)].into());
        check("exec", json!({"command": "true", "env": {"A": "1", "B": null}}), exec(|exec| exec.env = env()));
        check("exec", json!({"command": "true", "env": "{\"A\":\"1\",\"B\":null}"}), exec(|exec| exec.env = env()));
        let argv = Spec { on_conflict: Some(OnConflict::Refuse), ..Spec::argv(["ls", "-l"]) };
        check("process", json!({"action": "start", "argv": "[\"ls\",\"-l\"]"}), Call::Start(argv));
        check(
            "exec",
            json!({"command": "true", "on_conflict": "allow"}),
            exec(|exec| exec.on_conflict = Some(OnConflict::Allow)),
        );
    }

    #[test]
    fn text_stays_text_where_text_is_wanted() {
        let call = read("exec", json!({"command": "5000"})).expect("a command");
        assert!(matches!(call, Call::Exec(exec) if exec.command.as_deref() == Some("5000")));
    }

    #[test]
    fn a_wait_is_for_the_end() {
        let wait = || Call::Wait(Wait::exit(Handle("web".into())));
        check("process", json!({"action": "wait", "process_id": "web"}), wait());
        check("process", json!({"action": "wait", "process_id": "web", "until_exit": true}), wait());
        check("process", json!({"action": "wait", "process_id": "web", "until_exit": "true"}), wait());
        refused("process", json!({"action": "wait", "process_id": "web", "until_exit": false}), "until_exit", None);
    }

    #[test]
    fn other_words_are_answered_with_ours() {
        refused("exec", json!({"command": "x", "timeout": 5}), "timeout", Some("timeout_ms"));
        refused("exec", json!({"cmd": "x"}), "cmd", Some("command"));
        refused("exec", json!({"command": "x", "workdir": "a"}), "workdir", Some("cwd"));
        refused("exec", json!({"command": "x", "run_in_background": true}), "run_in_background", Some("start"));
        refused("process", json!({"action": "status", "id": "x"}), "id", Some("process_id"));
        refused("process", json!({"action": "wait", "until": {"kind": "exit"}}), "until", Some("until_exit"));
        refused("process", json!({"action": "kill", "process_id": "x"}), "action", Some("stop"));
    }

    #[test]
    fn what_is_no_call_is_refused_by_name() {
        refused("dance", json!({}), "name", None);
        refused("exec", json!([]), "arguments", None);
        refused("exec", json!("not json"), "arguments", None);
        refused("exec", json!({}), "command", None);
        refused("exec", json!({"comand": "x"}), "comand", Some("command"));
        refused("exec", json!({"command": "x", "timeout_ms": "soon"}), "timeout_ms", None);
        refused("exec", json!({"command": "x", "timeout_ms": 0.5}), "timeout_ms", None);
        refused("exec", json!({"command": "x", "timeout_ms": -5}), "timeout_ms", None);
        refused("process", json!({}), "action", None);
        refused("process", json!({"action": "exec", "command": "x"}), "action", None);
        refused("process", json!({"action": "shutdown"}), "action", None);
        refused("process", json!({"action": 3}), "action", None);
        refused("process", json!({"action": "status", "process_id": "a", "cursor": 3}), "cursor", None);
    }
}
