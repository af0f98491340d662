//! K: failing to start.

use procession::{Exit, Spec, State};
use serde_json::{Value, json};

use crate::support::door::{Door, Rpc, program, program_after};
use crate::support::{Bench, text};

#[tokio::test]
async fn r105_what_is_too_long_is_named() {
    let bench = Bench::with(|_, profile| profile.limits.live_per_session = 1).await;
    let many: serde_json::Map<String, Value> = (0..30).map(|n| (format!("V{n}"), json!("x".repeat(100_000)))).collect();
    for (call, field) in [
        (json!({"action": "start", "command": format!(": {}; echo ok", "a".repeat(140_000))}), "command"),
        (json!({"action": "start", "argv": ["echo", "a".repeat(140_000)]}), "argv[1]"),
        (json!({"action": "start", "command": "true", "env": {"BIG": "x".repeat(200_000)}}), "env.BIG"),
        (json!({"action": "start", "command": "true", "env": many}), "env"),
    ] {
        let error = bench.call("s", Some("main"), call).await.expect_err("it is too large");
        assert_eq!((&error["code"], &error["details"]["field"]), (&json!("too_large"), &json!(field)));
        assert!(error["details"]["limit"].is_u64() && error["details"]["given"].is_u64(), "{error}");
        assert!(error.to_string().len() < 2000, "an error does not repeat what was too large");
    }
    // The kernel's limit is met by a string that is just within ours, with its closing NUL.
    let longest = "a".repeat(128 * 1024);
    match bench.agent().start(Spec::argv(["true", longest.as_str()])).await {
        Ok(process) => drop(process.wait(None).await.expect("a wait")),
        Err(error) => assert!(error.message.contains("131072 bytes"), "{error}"),
    }
    let list = bench.agent().list(Default::default()).await.expect("a list");
    assert_eq!(list.counts.live, 0);
    assert_eq!(bench.run("exit 0").await.1.state, State::Exited);
    bench.ended().await;
}

#[tokio::test]
async fn r106_a_deleted_directory_is_named() {
    let bench = Bench::new().await;
    let directory = bench.directory.path().join("r106");
    std::fs::create_dir(&directory).expect("a directory");
    let there = |command: &str| Spec { cwd: Some("r106".to_owned()), ..Spec::command(command) };
    let goes_on = bench.agent().start(there("sleep 70601")).await.expect("a start");
    std::fs::remove_dir(&directory).expect("removed");
    let error = bench.agent().start(there("echo b")).await.expect_err("it is gone");
    assert_eq!(error.code, procession::Code::LaunchFailed);
    assert!(error.message.contains(&format!("{} does not exist", directory.display())), "{error}");
    let (process, status) = bench.run("echo c").await;
    assert_eq!((status.exit, text(&process).await.as_str()), (Some(Exit::code(0)), "c\n"));
    assert_eq!(goes_on.status().await.expect("a status").state, State::Running);
    bench.ended().await;
}

#[tokio::test]
async fn r106_a_host_whose_own_directory_is_gone_says_so() {
    let directory = tempfile::tempdir().expect("a directory");
    let gone = directory.path().join("gone");
    std::fs::create_dir(&gone).expect("a directory");
    let (mut command, census) = program(&["rpc", "--set", "cwd.outside=true"]);
    command.current_dir(&gone).env("PWD", &gone);
    let mut door = Rpc::start(command).await;
    std::fs::remove_dir(&gone).expect("removed");
    let error = door.call("s", None, json!({"action": "exec", "command": "echo here"})).await;
    let error = error.expect_err("there is no directory");
    assert_eq!(error["code"], "launch_failed");
    assert!(error["message"].as_str().is_some_and(|text| text.contains("does not exist")), "{error}");
    let elsewhere = json!({"action": "exec", "command": "echo there", "cwd": directory.path()});
    let answer = door.call("s", None, elsewhere).await.expect("an absolute directory works");
    assert_eq!(answer["output"]["text"], "there\n");
    assert_eq!(door.end().await.code(), Some(0));
    census.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r108_a_program_just_written_runs() {
    let bench = Bench::with(|_, profile| profile.limits.live_per_session = 8).await;
    let (enough, mut seen) = tokio::sync::watch::channel(false);
    let others = (0..3).map(|_| {
        let (agent, enough) = (bench.agent(), enough.subscribe());
        tokio::spawn(async move {
            while !*enough.borrow() {
                let process = agent.start(Spec::command("true")).await.expect("a start");
                process.wait(None).await.expect("a wait");
            }
        })
    });
    let others: Vec<_> = others.collect();
    for n in 0..200 {
        let path = bench.directory.path().join(format!("p{n}"));
        write_program(&path);
        let spec = Spec::argv([path.to_str().expect("text")]);
        let process = bench.agent().start(spec).await.unwrap_or_else(|error| panic!("{n}: {error}"));
        let waited = process.wait(None).await.expect("a wait");
        assert_eq!(waited.observation.exit, Some(Exit::code(0)), "{n}");
    }
    enough.send(true).expect("the others listen");
    seen.borrow_and_update();
    for other in others {
        other.await.expect("no panic");
    }
    bench.ended().await;
}

/// Writes a script and closes it, as a build does.
fn write_program(path: &std::path::Path) {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o755).open(path).expect("a file");
    file.write_all(b"#!/bin/sh\nexit 0\n").expect("written");
}

/// In a process of its own: the limit is the whole program's.
#[tokio::test]
async fn r110_out_of_descriptors_is_an_error_and_no_end() {
    let few = ["rpc", "--set", "limits.live_per_session=30", "--set", "stop.grace_ms=500"];
    let (command, census) = program_after("ulimit -n 40", &few);
    let mut door = Rpc::start(command).await;
    let mut started = Vec::new();
    let mut refused = 0;
    for _ in 0..30 {
        let call = json!({"action": "start", "command": "while sleep 0.05; do echo x; done"});
        match door.call("s", None, call).await {
            Ok(status) => started.push(status["process_id"].clone()),
            Err(error) => {
                assert_eq!(error["code"], "launch_failed", "{error}");
                assert!(error["message"].as_str().is_some_and(|text| text.contains("limit 40")), "{error}");
                refused += 1;
            }
        }
    }
    assert!(started.len() >= 3 && refused >= 3, "{} started, {refused} refused", started.len());
    let first = started[0].clone();
    let page = json!({"action": "output", "process_id": first, "wait_ms": 10_000});
    let end = door.call("s", None, page).await.expect("a page")["end"].as_u64().expect("a number");
    let later = json!({"action": "output", "process_id": first, "cursor": end, "wait_ms": 10_000});
    assert!(door.call("s", None, later).await.expect("a page")["end"].as_u64() > Some(end), "it goes on to be read");
    for id in &started[..2] {
        let status = door.call("s", None, json!({"action": "stop", "process_id": id})).await.expect("a stop");
        assert_eq!((&status["state"], &status["cleanup"]), (&json!("stopped"), &json!("confirmed")));
    }
    let again = door.call("s", None, json!({"action": "start", "command": "sleep 71001"})).await;
    assert_eq!(again.expect("there is room again")["state"], "running");
    assert_eq!(door.end().await.code(), Some(0));
    census.end().await;
}

/// In a process of its own, which begins as its parent wants: signals blocked and ignored.
#[tokio::test]
async fn r93_what_the_host_was_started_with_is_not_passed_on() {
    let (command, census) = program_after("trap '' HUP INT QUIT PIPE", &["rpc"]);
    let mut door = Rpc::start(command).await;
    let signals = json!({"action": "exec", "argv": ["grep", "-E", "Sig(Blk|Ign)", "/proc/self/status"]});
    let answer = door.call("s", None, signals).await.expect("an answer");
    let nothing = "0000000000000000";
    assert_eq!(answer["output"]["text"], format!("SigBlk:\t{nothing}\nSigIgn:\t{nothing}\n"));
    assert_eq!(door.end().await.code(), Some(0));
    census.end().await;
}
