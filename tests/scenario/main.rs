//! One scenario through every door: the library, JSON lines, MCP. What is asked and what must be answered stands in
//! `steps.json`, once for all of them.
//!
//! In a step `$name` stands for what an earlier one kept, `$mark` for a number of seconds that only this run sleeps.
//! An expected object is part of the answer; an expected null is a field that is absent.

#![cfg(all(feature = "cli", target_os = "linux"))]

mod doors;
#[allow(dead_code, reason = "a part of it is used here")]
#[path = "../frontends/harness.rs"]
mod harness;
#[path = "../support/mod.rs"]
mod support;

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use doors::{Door, Facade, Mcp, Rpc};

/// One call and what it must answer.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    name: String,
    call: Value,
    answer: Option<Value>,
    error: Option<Value>,
    /// Fields of the answer that later steps name.
    #[serde(default)]
    keep: BTreeMap<String, String>,
}

/// Puts what was kept in place of its names; longer names first.
fn filled(value: &Value, kept: &BTreeMap<String, String>) -> Value {
    let fill = |text: &String| {
        let mut names: Vec<_> = kept.iter().collect();
        names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        names.iter().fold(text.clone(), |text, (name, value)| text.replace(&format!("${name}"), value))
    };
    match value {
        Value::String(text) => Value::String(fill(text)),
        Value::Array(values) => values.iter().map(|value| filled(value, kept)).collect(),
        Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), filled(value, kept))).collect(),
        other => other.clone(),
    }
}

/// Whether `wanted` is part of `given`.
fn part(wanted: &Value, given: &Value) -> bool {
    match (wanted, given) {
        (Value::Object(wanted), Value::Object(given)) => {
            wanted.iter().all(|(key, value)| part(value, given.get(key).unwrap_or(&Value::Null)))
        }
        (Value::Array(wanted), Value::Array(given)) => {
            wanted.len() == given.len() && wanted.iter().zip(given).all(|(wanted, given)| part(wanted, given))
        }
        (wanted, given) => wanted == given,
    }
}

/// Goes through the scenario; at the end nothing is left.
async fn check(mut door: impl Door, mark: &str) {
    let steps: Vec<Step> = serde_json::from_str(include_str!("steps.json")).expect("a list of steps");
    let mut kept = BTreeMap::from([("mark".to_owned(), mark.to_owned())]);
    for step in steps {
        let given = door.call(filled(&step.call, &kept)).await;
        let (wanted, met) = match (&step.answer, &step.error) {
            (Some(wanted), None) => {
                let wanted = filled(wanted, &kept);
                let met = given.as_ref().is_ok_and(|given| part(&wanted, given));
                (wanted, met)
            }
            (None, Some(wanted)) => {
                let wanted = filled(wanted, &kept);
                let met = given.as_ref().is_err_and(|given| part(&wanted, given));
                (wanted, met)
            }
            _ => panic!("{}: either an answer or an error", step.name),
        };
        assert!(met, "{}: wanted {wanted}, given {given:?}", step.name);
        for (name, field) in step.keep {
            let value = given.as_ref().expect("an answer")[&field].as_str().expect("text").to_owned();
            kept.insert(name, value);
        }
    }
    door.end().await;
    assert_eq!(support::running(&format!("sleep {mark}")), Vec::<i32>::new());
}

#[tokio::test]
async fn the_library_answers_it() {
    check(Facade::open().await, "60301").await;
}

#[tokio::test]
async fn json_lines_answer_it() {
    check(Rpc::open().await, "60302").await;
}

#[tokio::test]
async fn mcp_answers_it() {
    check(Mcp::open().await, "60303").await;
}
