//! One scenario through every door: a list of calls and what each must answer at least, the same for the library,
//! for JSON lines and for MCP.
//!
//! A step is `{"call", "answer" | "error", "keep"?}`. What is expected is a part of what comes: of an object some
//! fields, of a list every element; a text that begins with `~` must be contained. `keep` names a value of the answer,
//! which `$name` then stands for in later steps; `$containment` and `$proof` are those of the hosts under test.

#![cfg(all(feature = "cli", target_os = "linux"))]

mod support;

use std::collections::HashMap;

use procession::ContainmentKind;
use serde_json::{Value, json};
use support::door::{Door, Facade, Mcp, Rpc, program};
use support::{Bench, guarded, proof};

/// What the doors that are programs are told, as [`Bench`] tells the library.
const SETTINGS: &[&str] = &["--set", "stop.grace_ms=1000", "--set", "stop.confirm_ms=2000"];

fn steps(scenario: &str) -> Vec<Value> {
    let path = format!("{}/tests/scenarios/{scenario}.json", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Makes every call of a scenario, in order.
async fn play(door: &mut impl Door, scenario: &str) {
    let containment = if guarded() { ContainmentKind::Subtree } else { ContainmentKind::Group };
    let told = [("containment", json!(containment)), ("proof", json!(proof()))];
    let mut kept: HashMap<String, Value> = told.map(|(name, value)| (name.to_owned(), value)).into();
    for (number, step) in steps(scenario).iter().enumerate() {
        let place = format!("step {number} of {scenario}");
        let call = filled(&step["call"], &kept);
        let got = match (door.call("s", Some("main"), call).await, step.get("answer")) {
            (Ok(answer), Some(_)) => answer,
            (Err(error), None) => error,
            (unexpected, _) => panic!("{place}: {} gave {unexpected:?}", step["call"]),
        };
        let expected = step.get("answer").or(step.get("error")).expect("a step says what it expects");
        if let Err(why) = fits(&filled(expected, &kept), &got) {
            panic!("{place}: {}: {why} in {got}", step["call"]);
        }
        for (name, path) in step["keep"].as_object().into_iter().flatten() {
            let path = path.as_str().expect("a path").replace('.', "/");
            let value = got.pointer(&format!("/{path}")).unwrap_or_else(|| panic!("{place}: no {path} in {got}"));
            kept.insert(name.clone(), value.clone());
        }
    }
}

/// The value with every `$name` replaced.
fn filled(value: &Value, kept: &HashMap<String, Value>) -> Value {
    match value {
        Value::String(text) => match text.strip_prefix('$').and_then(|name| kept.get(name)) {
            Some(kept) => kept.clone(),
            None => value.clone(),
        },
        Value::Array(list) => list.iter().map(|one| filled(one, kept)).collect(),
        Value::Object(map) => map.iter().map(|(key, one)| (key.clone(), filled(one, kept))).collect(),
        other => other.clone(),
    }
}

/// Whether what is expected is a part of what came.
fn fits(expected: &Value, got: &Value) -> Result<(), String> {
    match (expected, got) {
        (Value::Object(fields), Value::Object(_)) => fields.iter().try_for_each(|(key, value)| {
            let has = got.get(key).ok_or_else(|| format!("no {key}"))?;
            fits(value, has).map_err(|why| format!("{key}: {why}"))
        }),
        (Value::Array(all), Value::Array(has)) if all.len() == has.len() => {
            all.iter().zip(has).try_for_each(|(expected, got)| fits(expected, got))
        }
        (Value::String(text), Value::String(got)) if text.starts_with('~') && got.contains(&text[1..]) => Ok(()),
        (expected, got) if expected == got => Ok(()),
        (expected, got) => Err(format!("expected {expected}, got {got}")),
    }
}

/// Plays a scenario through every door; nothing is left behind any of them.
async fn check(scenario: &str) {
    let bench = Bench::new().await;
    play(&mut Facade(&bench), scenario).await;
    bench.ended().await;

    let directory = tempfile::tempdir().expect("a directory");
    let place = ["--directory", directory.path().to_str().expect("text")];
    let (command, census) = program(&[&["rpc"], &place[..], SETTINGS].concat());
    let mut rpc = Rpc::start(command).await;
    play(&mut rpc, scenario).await;
    assert_eq!(rpc.end().await.code(), Some(0));
    census.end().await;

    let who = ["mcp", "--session", "s", "--agent", "main"];
    let (command, census) = program(&[&who[..], &place[..], SETTINGS].concat());
    let mut mcp = Mcp::start(command).await;
    play(&mut mcp, scenario).await;
    mcp.end().await;
    census.end().await;
}

#[tokio::test]
async fn a_background_process_lives_alike_behind_every_door() {
    check("life").await;
}

#[tokio::test]
async fn commands_end_alike_behind_every_door() {
    check("commands").await;
}

#[test]
fn what_does_not_fit_is_found() {
    let got = json!({"a": {"b": [1, {"c": "text"}]}, "d": null});
    let check = |expected: Value, fine: bool| assert_eq!(fits(&expected, &got).is_ok(), fine, "{expected}");
    check(json!({"a": {"b": [1, {"c": "~ex"}]}}), true);
    check(json!({"d": null}), true);
    check(json!({"a": {"b": [1]}}), false);
    check(json!({"a": {"b": [1, {"c": "~no"}]}}), false);
    check(json!({"e": null}), false);
    check(json!({"a": []}), false);
}
