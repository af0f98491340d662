//! What a model is told about each tool. Every word here costs tokens in every conversation.
//!
//! The fields and their kinds come from the protocol ([`schema`](super::schema)); only the words are written here,
//! and a test holds that each field has its words and each word its field.

use serde_json::{Map, Value, json};

use super::schema::{Kinds, fields_of};

/// The tool that runs a command to its end.
pub(super) const EXEC: &str = "exec";
/// The tool for everything that lives longer than a call.
pub(super) const PROCESS: &str = "process";
/// What `process` can do. All that an agent may call, but `exec`.
pub(super) const ACTIONS: &[&str] =
    &["start", "list", "status", "output", "wait", "stop", "restart", "update", "clear", "remove"];
/// The flat word for the condition `exit` of a `wait`.
pub(super) const UNTIL_EXIT: &str = "until_exit";
/// The protocol's word for it, which no tool takes.
pub(super) const UNTIL: &str = "until";

/// How the verbs are spread over tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// `exec`, and `process` with an `action`.
    #[default]
    Actions,
}

/// One tool, as it is offered.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    /// What it is called by.
    pub name: &'static str,
    /// For people.
    pub title: &'static str,
    /// For models.
    pub description: &'static str,
    /// A plain JSON Schema: an object without `$ref`, alternatives or null.
    pub input_schema: Value,
    /// Whether it changes nothing.
    pub read_only: bool,
    /// Whether it may end or overwrite something.
    pub destructive: bool,
    /// Whether the same call again changes nothing more.
    pub idempotent: bool,
    /// Whether it reaches beyond what procession owns.
    pub open_world: bool,
}

const EXEC_TEXT: &str = "Run a command to its end and get its exit code and output. For servers, watchers and work \
longer than a minute use `process` with action `start`.";

const PROCESS_TEXT: &str = "Background processes. start: run in the background. list. status. output: read, the \
newest without `cursor`, then on from `next_cursor`. wait: until exit. stop: end it and all its children. restart. \
update: deadline or label. clear: forget a finished one. remove: stop and forget.";

/// The tools of a style.
pub fn specs(style: Style) -> Vec<ToolSpec> {
    match style {
        Style::Actions => vec![
            ToolSpec {
                name: EXEC,
                title: "Run a command",
                description: EXEC_TEXT,
                input_schema: exec_schema(),
                read_only: false,
                destructive: true,
                idempotent: false,
                open_world: true,
            },
            ToolSpec {
                name: PROCESS,
                title: "Background processes",
                description: PROCESS_TEXT,
                input_schema: process_schema(),
                read_only: false,
                destructive: true,
                idempotent: false,
                open_world: true,
            },
        ],
    }
}

/// The kind of each field that `exec` takes.
pub(super) fn exec_kinds() -> Kinds {
    fields_of(EXEC)
}

/// The kind of each field that any action of `process` takes.
pub(super) fn process_kinds() -> Kinds {
    let mut kinds = Kinds::new();
    for action in ACTIONS {
        kinds.extend(fields_of(action));
    }
    kinds.remove(UNTIL);
    kinds.insert(UNTIL_EXIT.to_owned(), json!({"type": "boolean"}));
    kinds.insert("action".to_owned(), json!({"type": "string", "enum": ACTIONS}));
    kinds
}

fn exec_schema() -> Value {
    object(exec_kinds(), &[])
}

fn process_schema() -> Value {
    object(process_kinds(), &["action"])
}

/// One schema of `kinds`, each with its words.
fn object(kinds: Kinds, required: &[&str]) -> Value {
    let mut properties = Map::new();
    for (name, mut kind) in kinds {
        if let (Some(text), Some(kind)) = (words(&name), kind.as_object_mut()) {
            kind.insert("description".to_owned(), json!(text));
        }
        properties.insert(name, kind);
    }
    let mut schema = Map::new();
    schema.insert("type".to_owned(), json!("object"));
    schema.insert("properties".to_owned(), Value::Object(properties));
    if !required.is_empty() {
        schema.insert("required".to_owned(), json!(required));
    }
    schema.insert("additionalProperties".to_owned(), json!(false));
    Value::Object(schema)
}

/// What a field means, in as few words as a model needs.
fn words(field: &str) -> Option<&'static str> {
    WORDS.iter().find(|(name, _)| *name == field).map(|(_, text)| *text)
}

const WORDS: &[(&str, &str)] = &[
    ("action", "What to do."),
    ("argv", "Program and arguments, without a shell; instead of command."),
    ("command", "Shell command line."),
    ("cursor", "output: byte position to read from; absent = the newest."),
    ("cwd", "Working directory, relative to the session's."),
    ("detail", "list: full = every status whole."),
    ("encoding", "output: base64 = raw bytes."),
    ("env", "Variables to set; null removes one."),
    ("grace_ms", "Time between the stop signal and KILL."),
    ("label", "Your own name for it (a-z 0-9 . _ -), usable as process_id."),
    ("limit", "list: most rows."),
    ("max_bytes", "output: most bytes."),
    ("max_output_bytes", "Most output in the answer; older stays readable."),
    ("mode", "wait with process_ids: is one enough, or all."),
    ("on_conflict", "If a live process has the label; absent = refuse."),
    ("process_id", "Its id or label."),
    ("process_ids", "wait: several ids or labels."),
    ("start_id", "Repeating a start with the same id starts nothing twice."),
    ("state", "list: only these."),
    ("stdin", "What it reads; closed = nothing."),
    ("stream", "output: only this stream."),
    ("timeout_ms", "Ends the process after this time; 0 = never."),
    (UNTIL_EXIT, "wait: until it has ended (the default)."),
    ("wait_ms", "wait, output: longest time to wait; ends nothing."),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::protocol::call::{Audience, VERBS};

    /// Fails on anything that some client's schema reader is known not to take.
    fn check_plain(at: &str, schema: &Value) {
        match schema {
            Value::Object(map) => {
                for word in ["$ref", "$defs", "$schema", "oneOf", "anyOf", "allOf", "const"] {
                    assert!(!map.contains_key(word), "{at} has {word}");
                }
                for (key, value) in map {
                    check_plain(&format!("{at}.{key}"), value);
                }
            }
            Value::Array(list) => list.iter().for_each(|value| check_plain(at, value)),
            Value::Null => panic!("{at} holds null"),
            Value::String(text) => assert!(text != "null", "{at} takes null"),
            Value::Bool(_) | Value::Number(_) => {}
        }
    }

    #[test]
    fn the_schemas_are_plain_objects() {
        for spec in specs(Style::Actions) {
            assert_eq!(spec.input_schema["type"], "object");
            check_plain(spec.name, &spec.input_schema);
            for (name, property) in spec.input_schema["properties"].as_object().expect("an object") {
                assert!(property["type"].is_string(), "{}.{name} has no single type: {property}", spec.name);
            }
        }
    }

    #[test]
    fn every_field_has_its_words_and_every_word_its_field() {
        let mut seen = BTreeSet::new();
        for spec in specs(Style::Actions) {
            for (name, property) in spec.input_schema["properties"].as_object().expect("an object") {
                assert!(property["description"].is_string(), "{}.{name} is not described", spec.name);
                seen.insert(name.clone());
            }
        }
        let known: BTreeSet<String> = WORDS.iter().map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(seen, known);
    }

    #[test]
    fn every_verb_of_an_agent_is_in_a_tool() {
        let tools: BTreeSet<&str> = ACTIONS.iter().copied().chain([EXEC]).collect();
        let verbs: BTreeSet<&str> =
            VERBS.iter().filter(|(_, who)| *who == Audience::Agents).map(|(name, _)| *name).collect();
        assert_eq!(tools, verbs);
    }

    #[test]
    fn a_field_means_the_same_kind_in_every_action() {
        let all = process_kinds();
        for action in ACTIONS {
            for (name, kind) in fields_of(action) {
                assert!(name == UNTIL || all[&name] == kind, "{action}.{name}: {kind} and {}", all[&name]);
            }
        }
    }

    #[test]
    fn the_tools_cost_few_tokens() {
        let bytes: usize =
            specs(Style::Actions).iter().map(|spec| spec.description.len() + spec.input_schema.to_string().len()).sum();
        assert!(bytes < 6000, "{bytes} bytes");
    }
}
