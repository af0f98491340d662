//! Bad input: every field of every verb, wrong in type, size, range or encoding, as the schemas say it. Each is
//! answered with an error that names the field, and the host goes on as if nothing had been asked.

#![cfg(all(feature = "cli", target_os = "linux"))]

mod support;

use std::collections::BTreeSet;
use std::time::Duration;

use procession::protocol::call::{Call, VERBS};
use serde_json::{Map, Value, json};
use tokio::time::timeout;

use support::door::{Door, Rpc, program};
use support::{Bench, settled};

/// No refusal takes longer, however busy the machine is.
const AT_ONCE: Duration = Duration::from_secs(10);
/// The time in which any refusal comes.
const LONG: Duration = Duration::from_millis(500);
/// Longest message: an error repeats only part of what it refuses.
const MESSAGE_BYTES_MAX: usize = 2000;
/// Codes that say by themselves which field they are about.
const SPEAKING: &[&str] =
    &["unknown_process", "unknown_session", "cursor_out_of_range", "page_too_small", "launch_failed"];

/// The least that each verb takes. `live` and `done` are labels of two processes.
fn least(action: &str) -> Value {
    match action {
        "start" | "exec" => json!({"command": "true"}),
        "list" | "list_sessions" | "reset_session" | "delete_session" | "open_session" | "host_status" | "shutdown" => {
            json!({})
        }
        "status" | "output" | "restart" => json!({"process_id": "live"}),
        "stop" | "clear" | "remove" => json!({"process_id": "done"}),
        "wait" => json!({"process_id": "live", "until": {"kind": "exit"}, "wait_ms": 0}),
        "update" => json!({"process_id": "live", "timeout_ms": 0}),
        "open_agent" | "close_agent" => json!({"agent": "a"}),
        "transfer" => json!({"process_id": "live", "to": "a"}),
        other => panic!("what does {other} take at least? say it here"),
    }
}

/// A bench with the two processes that [`least`] speaks of.
async fn bench() -> Bench {
    let bench = Bench::new().await;
    for (label, command) in [("live", "sleep 80001"), ("done", "true")] {
        let spec = procession::Spec { label: label.parse().ok(), ..procession::Spec::command(command) };
        let process = bench.agent().start(spec).await.expect("a start");
        if label == "done" {
            settled(&process).await;
        }
    }
    bench
}

/// One field of a verb, as its schema describes it.
struct Field<'a> {
    action: &'static str,
    name: String,
    schema: &'a Value,
    root: &'a Value,
}

impl Field<'_> {
    /// The kinds of value it takes.
    fn kinds(&self) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        self.walk(self.schema, &mut |schema| match &schema["type"] {
            Value::String(kind) => drop(found.insert(kind.clone())),
            Value::Array(kinds) => found.extend(kinds.iter().filter_map(Value::as_str).map(str::to_owned)),
            _ => {}
        });
        assert!(!found.is_empty(), "{}.{}: a schema without a type: {}", self.action, self.name, self.schema);
        found
    }

    /// Whether only some texts are taken.
    fn picky(&self) -> bool {
        let mut picky = false;
        self.walk(self.schema, &mut |schema| {
            picky |= schema.get("pattern").is_some() || schema.get("enum").is_some() || schema.get("const").is_some();
        });
        picky
    }

    fn walk(&self, schema: &Value, see: &mut dyn FnMut(&Value)) {
        if let Some(target) = schema["$ref"].as_str() {
            let target = target.strip_prefix('#').expect("a reference within the schema");
            return self.walk(self.root.pointer(target).expect("a definition"), see);
        }
        see(schema);
        for several in ["anyOf", "oneOf", "allOf"] {
            for one in schema[several].as_array().into_iter().flatten() {
                self.walk(one, see);
            }
        }
    }

    /// Values it may not take.
    fn wrong(&self) -> Vec<Value> {
        let kinds = self.kinds();
        let lacks = |kind: &str| !kinds.contains(kind);
        let mut wrong = Vec::new();
        let samples = [
            ("boolean", json!(true)),
            ("string", json!("no-such-word")),
            ("array", json!([])),
            ("array", json!([{"a": [1]}])),
            ("object", json!({})),
            ("object", json!({"kind": 7})),
        ];
        wrong.extend(samples.into_iter().filter(|(kind, _)| lacks(kind)).map(|(_, value)| value));
        if lacks("integer") && lacks("number") {
            wrong.push(json!(7));
        }
        if lacks("number") {
            wrong.extend([json!(-1), json!(1.5), json!(1e300)]);
        }
        if !lacks("string") && self.picky() {
            wrong
                .extend(["", " ", "a b", "a\0b", "\u{e4}", "No-Such-Word!", &"x".repeat(5000)].map(|text| json!(text)));
        }
        if !lacks("array") {
            wrong.extend([json!([7]), json!([null]), json!([["a"]])]);
        }
        wrong
    }

    /// Values that are of the right kind and strange: taken, or refused by name.
    fn strange(&self) -> Vec<Value> {
        let kinds = self.kinds();
        let mut strange = Vec::new();
        if kinds.contains("integer") {
            strange.extend([json!(u64::MAX), json!(31_536_000_001_u64), json!(i64::MAX)]);
        }
        if kinds.contains("string") && !self.picky() {
            let long = "\u{20ac}".repeat(700_000);
            strange
                .extend(["", " ", "\0", "a\0b", "\u{feff}", "../..", "/", "-1", "p-", &long].map(|text| json!(text)));
        }
        if kinds.contains("array") {
            strange.extend([json!([]), json!([""]), json!(["\0"]), json!(vec!["x"; 20_000])]);
        }
        if kinds.contains("object") {
            let many: Map<String, Value> = (0..11_000).map(|n| (format!("V{n}"), json!("x"))).collect();
            strange.extend([
                json!({"": "x"}),
                json!({"A=B": "x"}),
                json!({"A\0": "x"}),
                json!({"A": "\0"}),
                json!(many),
            ]);
        }
        strange
    }

    fn call_with(&self, value: &Value) -> Value {
        let mut call = least(self.action);
        call["action"] = json!(self.action);
        call[&self.name] = value.clone();
        call
    }

    /// Whether an error tells that this field was wrong.
    fn is_named_by(&self, error: &Value) -> bool {
        let field = error["details"]["field"].as_str().unwrap_or_default();
        field.strip_prefix(&self.name).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    }
}

/// Calls `check` with every field of every verb.
async fn for_every_field(mut check: impl AsyncFnMut(&Bench, &Field<'_>)) {
    for (action, _) in VERBS {
        let root = json!(Call::schema(action).expect("every verb has a schema"));
        let bench = bench().await;
        for (name, schema) in root["properties"].as_object().into_iter().flatten() {
            check(&bench, &Field { action, name: name.clone(), schema, root: &root }).await;
        }
        bench.ended().await;
    }
}

fn check_shape(error: &Value, call: &str) {
    let message = error["message"].as_str().expect("a message");
    assert!(!message.is_empty() && message.len() <= MESSAGE_BYTES_MAX, "{} bytes: {call}", message.len());
    assert_ne!(error["code"], "internal", "{call}: {error}");
}

fn short(value: &Value) -> String {
    value.to_string().chars().take(200).collect()
}

#[tokio::test]
async fn a_field_of_the_wrong_kind_is_named() {
    let mut seen = 0;
    for_every_field(async |bench, field| {
        for value in field.wrong() {
            let call = field.call_with(&value);
            let answer = timeout(AT_ONCE, bench.call("s", None, call.clone())).await.expect("at once");
            let error = answer.expect_err(&format!("{} is wrong", short(&call)));
            assert!(field.is_named_by(&error), "{}: {error}", short(&call));
            assert_eq!(error["code"], "invalid_argument", "{}", short(&call));
            assert!(error["details"]["expected"].is_string(), "{}: {error}", short(&call));
            check_shape(&error, &short(&call));
            seen += 1;
        }
    })
    .await;
    assert!(seen > 300, "only {seen} values were tried");
}

#[tokio::test]
async fn a_strange_value_is_taken_or_named() {
    for_every_field(async |bench, field| {
        for value in field.strange() {
            let call = field.call_with(&value);
            // A long wait is taken, and waits; it is long enough to see that it was not refused.
            let waits = field.name == "wait_ms" && value.as_u64() > Some(LONG.as_millis() as u64);
            let Ok(answer) = timeout(if waits { LONG } else { AT_ONCE }, bench.call("s", None, call.clone())).await
            else {
                assert!(waits, "{} hangs", short(&call));
                continue;
            };
            if let Err(error) = answer {
                let named = field.is_named_by(&error) || SPEAKING.iter().any(|code| error["code"] == *code);
                assert!(named, "{}: {error}", short(&call));
                check_shape(&error, &short(&call));
            }
        }
    })
    .await;
}

#[tokio::test]
async fn an_unknown_field_is_refused_with_the_nearest_known_one() {
    for_every_field(async |bench, field| {
        let mut call = least(field.action);
        let misspelt = format!("{}x", field.name);
        call["action"] = json!(field.action);
        call[&misspelt] = json!(1);
        let error = bench.call("s", None, call.clone()).await.expect_err("nobody knows it");
        let details = &error["details"];
        assert_eq!((&details["field"], &details["nearest"]), (&json!(misspelt), &json!(field.name)), "{call}");
    })
    .await;
}

#[tokio::test]
async fn what_is_missing_is_named() {
    let bench = bench().await;
    for (action, _) in VERBS {
        let root = json!(Call::schema(action).expect("every verb has a schema"));
        for required in root["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            let mut call = least(action);
            call["action"] = json!(action);
            call.as_object_mut().expect("an object").remove(required);
            let error = bench.call("s", None, call.clone()).await.expect_err("it is needed");
            assert_eq!((&error["code"], &error["details"]["field"]), (&json!("invalid_argument"), &json!(required)));
        }
    }
    for call in [json!({}), json!([]), json!(null), json!("start"), json!({"action": 7}), json!({"action": "Start"})] {
        let error = bench.call("s", None, call.clone()).await.expect_err("it is no call");
        assert_eq!(error["code"], "invalid_argument", "{call}");
        assert!(matches!(error["details"]["field"].as_str(), Some("call" | "action")), "{call}: {error}");
    }
    bench.ended().await;
}

/// What is wrong in its meaning, and what must be said of it.
#[tokio::test]
async fn what_cannot_be_meant_is_refused_by_name() {
    let bench = bench().await;
    std::fs::write(bench.directory.path().join("file"), "").expect("a file");
    std::os::unix::fs::symlink("/", bench.directory.path().join("out")).expect("a link");
    for (call, code, field) in [
        (json!({"action": "start"}), "invalid_argument", "command"),
        (json!({"action": "start", "command": "true", "argv": ["true"]}), "invalid_argument", "argv"),
        (json!({"action": "start", "argv": ["echo", "a\0b"]}), "invalid_argument", "argv[1]"),
        (json!({"action": "start", "command": "true", "env": {"A=B": "x"}}), "invalid_argument", "env"),
        (json!({"action": "start", "command": "true", "env": {"LD_PRELOAD": "x"}}), "denied", "env.LD_PRELOAD"),
        (json!({"action": "start", "command": "true", "env": {"BASH_ENV": null}}), "denied", "env.BASH_ENV"),
        (json!({"action": "start", "command": "true", "label": "p-x"}), "invalid_argument", "label"),
        (json!({"action": "start", "command": "true", "label": "p-aaaaaaaaaaaaa"}), "invalid_argument", "label"),
        (json!({"action": "start", "command": "true", "grace_ms": 60_001}), "invalid_argument", "grace_ms"),
        (json!({"action": "stop", "process_id": "live", "grace_ms": 60_001}), "invalid_argument", "grace_ms"),
        (
            json!({"action": "exec", "command": "true", "max_output_bytes": 1_048_577}),
            "invalid_argument",
            "max_output_bytes",
        ),
        (json!({"action": "wait", "until": {"kind": "exit"}}), "invalid_argument", "process_id"),
        (json!({"action": "wait", "until": {"kind": "exit"}, "process_ids": []}), "invalid_argument", "process_ids"),
        (
            json!({"action": "wait", "until": {"kind": "exit"}, "process_ids": vec!["live"; 33]}),
            "too_large",
            "process_ids",
        ),
        (
            json!({"action": "wait", "until": {"kind": "exit"}, "process_id": "live", "mode": "all"}),
            "invalid_argument",
            "mode",
        ),
        (json!({"action": "wait", "until": {"kind": "never"}, "process_id": "live"}), "invalid_argument", "until.kind"),
        (json!({"action": "wait", "until": {}, "process_id": "live"}), "invalid_argument", "until.kind"),
        (
            json!({"action": "wait", "until": {"kind": "exit", "x": 1}, "process_id": "live"}),
            "invalid_argument",
            "until.x",
        ),
        (json!({"action": "update", "process_id": "live"}), "invalid_argument", "timeout_ms"),
        (json!({"action": "open_session", "directory": "here"}), "invalid_argument", "directory"),
        (json!({"action": "open_session", "profile": "none"}), "invalid_argument", "profile"),
        (
            json!({"action": "open_session", "config": {"stop.grace_ms": 60_001}}),
            "invalid_argument",
            "config.stop.grace_ms",
        ),
        (json!({"action": "open_session", "config": {"stop": {"grace": 1}}}), "invalid_argument", "config.stop.grace"),
        (json!({"action": "shutdown", "within_ms": 5}), "invalid_argument", "within_ms"),
    ] {
        let error = bench.call("s", None, call.clone()).await.expect_err("it cannot be meant");
        assert_eq!((&error["code"], &error["details"]["field"]), (&json!(code), &json!(field)), "{call}: {error}");
        check_shape(&error, &call.to_string());
    }
    for cwd in ["..", "/", "out", "out/tmp", "file", "file/x", "absent", "./../..", "/proc/self/root"] {
        let call = json!({"action": "start", "command": "true", "cwd": cwd});
        let error = bench.call("s", None, call).await.expect_err("it is no directory inside the session's");
        let details = &error["details"];
        assert_eq!(
            (&error["code"], &details["operation"]),
            (&json!("launch_failed"), &json!("open_directory")),
            "{cwd}"
        );
        assert!(details["path"].is_string() && details["hint"].is_string(), "{cwd}: {error}");
    }
    still_works(&bench).await;
    bench.ended().await;
}

#[tokio::test]
async fn what_belongs_to_others_is_unknown() {
    let bench = bench().await;
    let theirs = bench.agent_of("s", "other").start(procession::Spec::command("sleep 80002")).await.expect("a start");
    let elsewhere = bench.agent_of("t", "main").start(procession::Spec::command("sleep 80003")).await.expect("a start");
    for id in [json!(theirs.id()), json!(elsewhere.id()), json!("p-aaaaaaaaaaaaa"), json!("nobody"), json!("")] {
        for (action, _) in VERBS.iter().filter(|(action, _)| least(action).get("process_id").is_some()) {
            let mut call = least(action);
            call["action"] = json!(action);
            call["process_id"] = id.clone();
            let error = bench.call("s", Some("main"), call.clone()).await.expect_err("it is not the caller's");
            let expected = if *action == "transfer" { "denied" } else { "unknown_process" };
            assert_eq!(error["code"], expected, "{call}: {error}");
            assert!(!error.to_string().contains("8000"), "nothing of another's is told: {error}");
        }
    }
    for process in [theirs, elsewhere] {
        assert_eq!(process.status().await.expect("a status").state, procession::State::Running);
    }
    for (action, audience) in VERBS {
        if *audience == procession::protocol::call::Audience::Operator {
            let mut call = least(action);
            call["action"] = json!(action);
            let error = bench.call("s", Some("main"), call).await.expect_err("it is the operator's");
            assert_eq!((&error["code"], &error["details"]["action"]), (&json!("denied"), &json!(action)));
        }
    }
    still_works(&bench).await;
    bench.ended().await;
}

/// The host starts, reads and stops, and what lived before lives.
async fn still_works(bench: &Bench) {
    let live =
        bench.call("s", Some("main"), json!({"action": "status", "process_id": "live"})).await.expect("a status");
    assert_eq!(live["state"], "running");
    let process = bench.start("echo works; sleep 80004").await;
    support::written(&process, "works").await;
    assert_eq!(process.stop(None).await.expect("a stop").state, procession::State::Stopped);
    let host = bench.host.status().await.expect("a status");
    assert_eq!(host.live, host.places.held);
}

#[tokio::test]
async fn a_line_that_is_no_call_is_answered_and_the_connection_lives() {
    let (command, census) = program(&["rpc"]);
    let mut door = Rpc::start(command).await;
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    let long = format!("{{\"id\": 1, \"x\": \"{}\"}}", "x".repeat(5 * 1024 * 1024));
    let lines: &[&[u8]] = &[
        b"not json",
        b"{\"id\": 1",
        b"{\"id\": 1, \"session\": \"s\", \"call\": {\"action\": \"list\"}} x",
        b"\xff\xfe{}",
        b"{\"id\": 1, \"session\": \"s\", \"call\": {\"action\": \"start\", \"command\": \"\xff\"}}",
        b"{\"id\": 1, \"session\": \"s\", \"call\": {\"action\": \"start\", \"command\": \"\\ud800\"}}",
        b"[]",
        b"7",
        b"\0",
        deep.as_bytes(),
        long.as_bytes(),
    ];
    for line in lines {
        let answer = door.exchange(line).await;
        let shown = String::from_utf8_lossy(&line[..line.len().min(100)]);
        assert_eq!(answer["id"], Value::Null, "{shown}: {answer}");
        assert!(answer["error"]["message"].is_string() && answer.get("result").is_none(), "{shown}: {answer}");
        check_shape(&answer["error"], &shown);
    }
    for (line, field) in [
        (json!({"id": 1, "session": "s"}), "call"),
        (json!({"id": 1, "call": {"action": "list"}}), "session"),
        (json!({"id": 1, "session": "a b", "call": {"action": "list"}}), "session"),
        (json!({"id": 1, "session": "s", "agent": "", "call": {"action": "list"}}), "agent"),
        (json!({"id": 1, "session": "s", "request": 7, "call": {"action": "list"}}), "request"),
        (json!({"id": 1, "session": "s", "agnet": "x", "call": {"action": "list"}}), "agnet"),
        (json!({"id": 1, "session": "s", "call": []}), "call"),
    ] {
        let answer = door.exchange(line.to_string().as_bytes()).await;
        assert_eq!(
            (&answer["id"], &answer["error"]["details"]["field"]),
            (&json!(1), &json!(field)),
            "{line}: {answer}"
        );
    }
    let answer = door.call("s", None, json!({"action": "exec", "command": "echo works"})).await.expect("an answer");
    assert_eq!(answer["output"]["text"], "works\n");
    assert_eq!(door.end().await.code(), Some(0));
    census.end().await;
}

#[tokio::test]
async fn a_size_or_a_wait_out_of_range_is_clamped_and_the_answer_says_so() {
    const YEAR_MS: u64 = 31_536_000_000;
    let bench = bench().await;
    let sizes = [(1, Value::Null), (1_048_576, Value::Null), (0, json!(1)), (1_048_577, json!(1_048_576))];
    for (asked, used) in sizes {
        let call = json!({"action": "output", "process_id": "done", "max_bytes": asked});
        let page = bench.call("s", None, call).await.expect("a page");
        assert_eq!(page["max_bytes"], used, "{page}");
    }
    for (asked, used) in [(YEAR_MS, Value::Null), (YEAR_MS + 1, json!(YEAR_MS)), (u64::MAX, json!(YEAR_MS))] {
        let calls = [
            json!({"action": "output", "process_id": "done", "wait_ms": asked}),
            json!({"action": "wait", "process_id": "done", "until": {"kind": "exit"}, "wait_ms": asked}),
            json!({"action": "wait", "process_ids": ["done"], "until": {"kind": "exit"}, "wait_ms": asked}),
        ];
        for call in calls {
            let answer = bench.call("s", None, call).await.expect("an answer");
            assert_eq!(answer["wait_ms"], used, "{answer}");
        }
    }
    bench.ended().await;
}
