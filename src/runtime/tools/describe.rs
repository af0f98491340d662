//! An answer as text: a sentence that says what happened, then every field as a line.
//!
//! Invariant: what stands in the value stands in the text, but what is `false` or says that no byte is missing.
//! A model that is shown only the text misses nothing.

use std::fmt::Write as _;

use serde_json::Value;

use crate::protocol::state::{Cleanup, Exit, State};
use crate::protocol::status::{Row, Status};

/// Counts that say nothing while they are 0.
const SILENT_AT_ZERO: &[&str] = &["omitted_bytes", "dropped_bytes"];

/// One process in a sentence.
pub(super) fn sentence(status: &Status) -> String {
    sentence_of_row(&status.row())
}

/// One process in a sentence, from its row.
pub(super) fn sentence_of_row(row: &Row) -> String {
    let label = row.label.as_ref().map(|label| format!(" ({label})")).unwrap_or_default();
    let time = duration(row.runtime_ms);
    let what = match (row.state, row.exit.as_ref().map(ending)) {
        (State::Starting, _) => format!("is starting ({time})"),
        (State::Running, _) => format!("is running ({time})"),
        (State::Stopping, _) => format!("is being stopped ({time})"),
        (State::Exited | State::Failed, Some(how)) => format!("{how} after {time}"),
        (State::Exited | State::Failed, None) => format!("ended after {time}; how was not seen"),
        (State::Stopped, how) => format!("was stopped after {time}{}", aside(how)),
        (State::TimedOut, how) => format!("was ended at its timeout after {time}{}", aside(how)),
        (State::Lost, _) => "was lost: what owned it died, nobody saw its end".to_owned(),
    };
    let uncertain = match row.cleanup {
        Some(Cleanup::Uncertain) => "; something of it may be left",
        _ => "",
    };
    format!("{}{label} {what}{uncertain}.", row.process_id)
}

fn ending(exit: &Exit) -> String {
    match (exit.code, &exit.signal) {
        (Some(code), _) => format!("exited with code {code}"),
        (None, Some(signal)) => format!("was ended by {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

fn aside(how: Option<String>) -> String {
    how.map(|how| format!(" ({how})")).unwrap_or_default()
}

/// `ms` as people write it: `12 ms`, `3.4 s`, `2 min 5 s`, `3 h 20 min`.
pub(super) fn duration(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        60_000..3_600_000 => format!("{} min {} s", ms / 60_000, ms % 60_000 / 1_000),
        _ => format!("{} h {} min", ms / 3_600_000, ms % 3_600_000 / 60_000),
    }
}

/// Every field of `value`, one a line, a list one line for each of its rows.
pub(super) fn lines(value: &Value) -> String {
    let mut text = String::new();
    for (key, value) in value.as_object().into_iter().flatten().filter(|(key, value)| says_something(key, value)) {
        match value {
            Value::Array(rows) if rows.iter().any(Value::is_object) => {
                let _ = writeln!(text, "{key}:");
                for row in rows {
                    let _ = writeln!(text, "- {}", pairs(row));
                }
            }
            Value::Object(_) => {
                let _ = writeln!(text, "{key}: {}", pairs(value));
            }
            Value::String(word) => {
                let _ = writeln!(text, "{key}: {word}");
            }
            other => {
                let _ = writeln!(text, "{key}: {other}");
            }
        }
    }
    text
}

fn says_something(key: &str, value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::Number(_) => !(SILENT_AT_ZERO.contains(&key) && *value == 0),
        Value::Array(list) => !list.is_empty(),
        Value::Object(map) => !map.is_empty(),
        Value::Bool(true) | Value::String(_) => true,
    }
}

/// An object as `a=1 b.c=2`.
fn pairs(value: &Value) -> String {
    let mut text = String::new();
    add_pairs("", value, &mut text);
    text.trim_end().to_owned()
}

fn add_pairs(prefix: &str, value: &Value, text: &mut String) {
    let Some(map) = value.as_object() else {
        let _ = write!(text, "{value} ");
        return;
    };
    for (key, value) in map.iter().filter(|(key, value)| says_something(key, value)) {
        match value {
            Value::Object(_) => add_pairs(&format!("{prefix}{key}."), value, text),
            Value::String(word) if !word.is_empty() && !word.contains([' ', '\n', '"']) => {
                let _ = write!(text, "{prefix}{key}={word} ");
            }
            other => {
                let _ = write!(text, "{prefix}{key}={other} ");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::protocol::id::ProcessId;

    fn check(state: State, exit: Option<Exit>, cleanup: Option<Cleanup>, expected: &str) {
        let row = Row {
            process_id: ProcessId::from_bits(0),
            label: Some("web".parse().expect("a label")),
            name: None,
            state,
            exit,
            cleanup,
            runtime_ms: 1_250,
            idle_ms: 0,
            unread_bytes: 0,
        };
        assert_eq!(sentence_of_row(&row), format!("p-aaaaaaaaaaaaa (web) {expected}."));
    }

    #[test]
    fn every_end_is_told_in_a_sentence() {
        check(State::Running, None, None, "is running (1.2 s)");
        check(State::Exited, Some(Exit::code(0)), None, "exited with code 0 after 1.2 s");
        check(State::Failed, Some(Exit::signal("SIGSEGV", true)), None, "was ended by SIGSEGV after 1.2 s");
        check(
            State::Stopped,
            Some(Exit::signal("SIGTERM", false)),
            None,
            "was stopped after 1.2 s (was ended by SIGTERM)",
        );
        check(
            State::TimedOut,
            None,
            Some(Cleanup::Uncertain),
            "was ended at its timeout after 1.2 s; something of it may be left",
        );
    }

    #[test]
    fn every_field_is_told() {
        let value = json!({
            "a": 1, "b": "two words", "off": false, "on": true, "none": [],
            "o": {"x": 1, "y": {"z": "q w"}, "dropped_bytes": 0},
            "rows": [{"id": "p", "exit": {"code": 0}}, {"id": "q"}],
        });
        let expected = "a: 1\nb: two words\no: x=1 y.z=\"q w\"\non: true\nrows:\n- exit.code=0 id=p\n- id=q\n";
        assert_eq!(lines(&value), expected);
    }

    #[test]
    fn durations_read_as_people_write_them() {
        let written: Vec<String> = [0, 999, 1_000, 61_000, 3_661_000].into_iter().map(duration).collect();
        assert_eq!(written, ["0 ms", "999 ms", "1.0 s", "1 min 1 s", "1 h 1 min"]);
    }
}
