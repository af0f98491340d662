//! `procession config`: what is in force, and who said so.

use serde_json::{Value, json};
use tokio::time::timeout;

use super::harness::{PATIENCE, procession};

#[tokio::test]
async fn every_setting_is_shown_with_its_source() {
    let folder = tempfile::tempdir().expect("a directory");
    let file = folder.path().join("p.toml");
    std::fs::write(&file, "[stop]\ngrace_ms = 7\n").expect("written");
    let file = file.to_str().expect("text");
    let mut command = procession(&["config", "--json", "--config", file, "--set", "limits.sessions=5"]);
    command.env("PROCESSION__MCP__CALL_MAX_MS", "2000");
    let output = timeout(PATIENCE, command.output()).await.expect("in time").expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Vec<Value> = serde_json::from_slice(&output.stdout).expect("JSON");
    let check = |key: &str, value: Value, source: &str| {
        let row = report.iter().find(|row| row["key"] == key).unwrap_or_else(|| panic!("no {key}"));
        assert_eq!(row["value"], value, "{key}");
        assert!(row["source"].as_str().is_some_and(|told| told.starts_with(source)), "{row}");
    };
    check("limits.sessions", json!(5), "flag");
    check("mcp.call_max_ms", json!(2000), "environment");
    check("session.default.stop.grace_ms", json!(7), "file");
    check("mcp.answer_bytes", json!(16384), "default");
}

#[tokio::test]
async fn a_named_file_that_is_missing_is_a_mistake() {
    let mut command = procession(&["config", "--config", "/no/such/file.toml"]);
    let output = timeout(PATIENCE, command.output()).await.expect("in time").expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(said.starts_with("procession: ") && said.lines().count() == 1, "{said:?}");
}
