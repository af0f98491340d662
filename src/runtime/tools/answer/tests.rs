//! Answers: within their bound, complete in both forms, and wrong only where something went wrong.

use proptest::prelude::*;
use serde_json::from_value;

use super::*;

fn status(change: Value) -> Status {
    let mut status = json!({
        "process_id": "p-aaaaaaaaaaaaa", "session": "s", "agent": "main", "mode": "foreground", "name": "make",
        "command": "make all", "cwd": "/src", "state": "exited", "reason": "exit", "exit": {"code": 0},
        "cleanup": "confirmed", "proof": "no_children", "containment": {"kind": "subtree"}, "pty": false,
        "lifetime": "command", "started_at": "2026-01-01T00:00:00Z", "runtime_ms": 12,
        "output": {"earliest": 0, "end": 0}, "stdin": "closed", "idle_ms": 0,
    });
    for (key, value) in change.as_object().expect("an object") {
        status[key] = value.clone();
    }
    from_value(status).expect("a status")
}

fn exec(change: Value, text: &str) -> ExecAnswer {
    let output = Excerpt { text: text.to_owned(), next_cursor: text.len() as u64, ..Excerpt::default() };
    ExecAnswer { process: status(change), yielded: false, output, duration_ms: 12, advice: None }
}

fn check_error(change: Value, expected: bool) {
    let result = Draft::exec(&exec(change.clone(), "")).finish(16_384);
    assert_eq!(result.is_error, expected, "{change}");
}

#[test]
fn an_exec_is_wrong_only_if_the_command_did_not_end_by_itself_or_on_request() {
    check_error(json!({}), false);
    check_error(json!({"state": "failed", "exit": {"code": 1}}), false);
    check_error(json!({"state": "stopped", "reason": "stop_requested", "exit": {"signal": "SIGTERM"}}), false);
    check_error(json!({"state": "failed", "reason": "signal", "exit": {"signal": "SIGSEGV"}}), true);
    check_error(json!({"state": "timed_out", "reason": "deadline"}), true);
    check_error(json!({"state": "lost", "reason": "owner_lost"}), true);
    check_error(json!({"cleanup": "uncertain"}), true);
}

#[test]
fn a_short_answer_reads_well_in_both_forms() {
    let result = Draft::exec(&exec(json!({"label": "job"}), "hello\n")).finish(16_384);
    let expected = "p-aaaaaaaaaaaaa (job) exited with code 0 after 12 ms.\n\
        duration_ms: 12\n\
        output: next_cursor=6 start=0\n\
        process: cleanup=confirmed exit.code=0 label=job process_id=p-aaaaaaaaaaaaa proof=no_children reason=exit \
        runtime_ms=12 state=exited\n\nhello";
    assert_eq!(result.text, expected);
    assert_eq!(result.structured["output"]["text"], "hello\n");
    assert_eq!(result.structured["process"]["exit"]["code"], 0);
}

#[test]
fn an_error_says_everything_once() {
    let error = Error::invalid("timeout", "5", "`timeout_ms`: milliseconds").with("nearest", "timeout_ms");
    let result = Draft::error(&error).finish(16_384);
    assert!(result.is_error);
    assert_eq!(result.structured["error"]["code"], "invalid_argument");
    assert_eq!(result.text.matches("expected `timeout_ms`").count(), 1, "{}", result.text);
}

#[test]
fn a_long_list_is_cut_at_its_end_and_says_so() {
    let rows = vec![status(json!({"name": "x".repeat(64)})).row(); 1000];
    let list = ListAnswer { processes: Some(rows), ..ListAnswer::default() };
    let result = Draft::list(&list).finish(16_384);
    let shown = result.structured["processes"].as_array().expect("rows").len();
    assert!((20..1000).contains(&shown), "{shown} rows");
    assert_eq!(result.structured["truncated"], true);
    assert!(result.text.contains("truncated: true"), "{}", result.text);
}

#[test]
fn a_huge_command_does_not_fill_a_status() {
    let result = Draft::status(&status(json!({"command": "x".repeat(100_000)}))).finish(16_384);
    assert!(result.structured["command"].as_str().is_some_and(|command| command.len() <= REPEATED_BYTES_MAX));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn no_answer_is_over_its_bound_in_either_form(
        output in "([a-z ]{0,200}|[\u{1}-\u{1f}€\"]{0,200}|\n){0,100}",
        warnings in proptest::collection::vec("[a-zä\n]{0,300}", 0..40),
        advice in "[a-z]{0,4000}",
        bound in 0u64..20_000,
    ) {
        let answer = ExecAnswer { advice: Some(advice), ..exec(json!({"warnings": warnings}), &output) };
        let result = Draft::exec(&answer).finish(bound);
        let most = bound.max(ANSWER_BYTES_MIN) as usize;
        prop_assert!(result.text.len() <= most, "text {} over {most}", result.text.len());
        prop_assert!(result.structured.to_string().len() <= most, "value {}", result.structured.to_string().len());
        if output.len() < 300 && warnings.is_empty() && bound > 10_000 {
            prop_assert_eq!(&result.structured["output"]["text"], &json!(output));
        }
    }
}
