//! K: a kernel that gives no descriptors, or no pidfds. Both change the whole process, so they meet the program as
//! a child of ours.

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::support::running;

const PROGRAM: &str = env!("CARGO_BIN_EXE_procession");
const EMFILE: i32 = 24;

/// The program with few descriptors, by raw lines.
struct Rpc {
    child: Child,
    requests: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
    next: u64,
}

impl Rpc {
    fn start(descriptors: u32) -> Self {
        let mut child = Command::new("sh")
            .args(["-c", &format!("ulimit -n {descriptors}; exec \"$0\" rpc"), PROGRAM])
            .env("PROCESSION__LIMITS__LIVE_PER_SESSION", "30")
            .env("XDG_CONFIG_HOME", "/nonexistent")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let requests = child.stdin.take().expect("piped");
        let mut answers = BufReader::new(child.stdout.take().expect("piped")).lines();
        let hello = answers.next().expect("hello").expect("read");
        assert!(hello.contains("\"hello\""), "{hello}");
        Rpc { child, requests, answers, next: 1 }
    }

    fn call(&mut self, call: &Value) -> Result<Value, Value> {
        let id = self.next;
        self.next += 1;
        writeln!(self.requests, "{}", json!({"id": id, "session": "s", "agent": "a", "call": call})).expect("written");
        loop {
            let line = self.answers.next().expect("the program lives").expect("read");
            let mut answer: Value = serde_json::from_str(&line).expect("JSON");
            if answer["id"] == id {
                return if answer["error"].is_null() {
                    Ok(answer["result"].take())
                } else {
                    Err(answer["error"].take())
                };
            }
        }
    }

    fn ended(mut self) {
        drop(self.requests);
        assert!(self.child.wait().expect("waited for").success());
    }
}

#[test]
fn r110_out_of_descriptors_starts_fail_by_name_and_the_rest_goes_on() {
    let mut rpc = Rpc::start(48);
    let start = json!({"action": "start", "command": "while sleep 0.011; do echo x; done"});
    let (mut started, mut failed) = (Vec::new(), 0);
    for _ in 0..30 {
        match rpc.call(&start) {
            Ok(status) => started.push(status["process_id"].clone()),
            Err(error) => {
                failed += 1;
                assert_eq!(
                    (&error["code"], &error["details"]["errno"]),
                    (&json!("launch_failed"), &json!(EMFILE)),
                    "{error}"
                );
            }
        }
    }
    assert!(failed > 0 && started.len() >= 4, "{failed} failed, {} started", started.len());

    for id in &started {
        let status = rpc.call(&json!({"action": "status", "process_id": id})).expect("a status");
        assert_eq!(status["state"], "running", "{status}");
        let first = rpc.call(&json!({"action": "output", "process_id": id, "wait_ms": 20_000})).expect("a page");
        let more = json!({"action": "output", "process_id": id, "cursor": first["next_cursor"], "wait_ms": 20_000});
        let page = rpc.call(&more).expect("a page");
        assert!(page["next_cursor"].as_u64() > first["next_cursor"].as_u64(), "it goes on logging: {page}");
    }
    for id in started.drain(..3) {
        let status = rpc.call(&json!({"action": "stop", "process_id": id})).expect("stopped");
        assert_eq!((&status["state"], &status["cleanup"]), (&json!("stopped"), &json!("confirmed")), "{status}");
    }
    let again = rpc.call(&start).expect("works again after stops");
    assert_eq!(again["state"], "running", "{again}");
    let list = rpc.call(&json!({"action": "list"})).expect("a list");
    assert_eq!(list["counts"]["live"], started.len() + 1, "{list}");
    rpc.ended();
    assert!(running("sleep 0.011").is_empty());
}

/// The launcher that takes pidfds away, built in `directory`.
fn no_pidfd(directory: &Path) -> PathBuf {
    let program = directory.join("no_pidfd");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/no_pidfd.c");
    let built = Command::new("cc").args(["-Wall", "-Wextra", "-o"]).arg(&program).arg(source).status();
    assert!(built.expect("there is a C compiler").success());
    program
}

fn check(launcher: &Path, errno: i32, arguments: &[&str], code: i32) {
    let mut command = Command::new(launcher);
    command.arg(errno.to_string()).arg(PROGRAM).arg("run").args(arguments).env("XDG_CONFIG_HOME", "/nonexistent");
    let output = command.output().expect("it runs");
    assert_eq!(output.status.code(), Some(code), "{errno}: {arguments:?}: {output:?}");
}

#[test]
fn r111_without_pidfds_commands_end_as_they_should_and_leave_nothing() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let launcher = no_pidfd(directory.path());
    const EPERM: i32 = 1;
    const ENOSYS: i32 = 38;
    for errno in [EPERM, ENOSYS] {
        check(&launcher, errno, &["--", "sh", "-c", "exit 3"], 3);
        check(&launcher, errno, &["--timeout-ms", "100", "--", "sleep", "71101"], 124);
        check(&launcher, errno, &["--shell", "--", "sleep 71102 >/dev/null 2>&1 & exit 0"], 0);
        for line in ["sleep 71101", "sleep 71102"] {
            assert!(running(line).is_empty(), "{errno}: {line}");
        }
    }
}
