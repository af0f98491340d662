//! C: the state machine, races, records.

use std::time::Duration;

use futures_util::future::join_all;
use procession::{Cleanup, Code, Exit, Reason, State};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::support::census::{LOOKS, descendants};
use crate::support::door::{Door, Rpc, program};
use crate::support::pause::look_again;
use crate::support::{Bench, PATIENCE_MS, guarded, proof, settled, text, written};

/// A second is ten times what is promised: the machine may be busy.
const AT_ONCE: Duration = Duration::from_secs(1);

#[tokio::test]
async fn r30_a_second_stop_can_hurry_the_first() {
    let bench = Bench::new().await;
    let process = bench.start("trap '' TERM; echo ready; while :; do sleep 63001; done").await;
    written(&process, "ready").await;
    // In this order: each is on its way when the next is asked.
    let patient = async { join_all((0..10).map(|_| process.stop(Some(30_000)))).await };
    let (patient, hurried) = tokio::join!(patient, process.stop(Some(0)));
    let ended = hurried.expect("a stop");
    assert_eq!((ended.state, ended.reason), (State::Stopped, Some(Reason::StopRequested)));
    assert_eq!((ended.exit.clone(), ended.proof), (Some(Exit::signal("SIGKILL", false)), Some(proof())));
    for other in patient {
        assert_eq!(other.expect("a stop"), ended);
    }
    assert_eq!(process.stop(None).await.expect("a stop of what has ended"), ended);
    assert!(bench.running("sleep 63001").is_empty());
    bench.ended().await;
}

#[tokio::test]
async fn r31_reading_a_final_state_changes_nothing() {
    let bench = Bench::new().await;
    let (process, first) = bench.run("echo hi; exit 3").await;
    let page = process.output().page().await.expect("a page");
    let waited = process.wait(None).await.expect("a wait");
    for _ in 0..3 {
        assert_eq!(process.status().await.expect("a status"), first);
        assert_eq!(process.output().from(0).page().await.expect("a page"), page);
        assert_eq!(process.wait(Some(600_000)).await.expect("a wait"), waited);
        assert_eq!(process.stop(None).await.expect("a stop"), first);
    }
    assert_eq!((first.state, first.exit, page.text().as_str()), (State::Failed, Some(Exit::code(3)), "hi\n"));
    bench.ended().await;
}

#[tokio::test]
async fn r32_very_short_processes_keep_their_record_and_their_words() {
    let bench = Bench::new().await;
    for round in 0..25 {
        let runs = (0..8).map(|n| {
            let bench = &bench;
            async move {
                let word = format!("boom-{round}-{n}");
                let (process, status) = bench.run(&format!("echo {word} >&2; exit 1")).await;
                assert_eq!((status.state, status.exit), (State::Failed, Some(Exit::code(1))), "{word}");
                assert_eq!(text(&process).await, format!("{word}\n"));
            }
        });
        join_all(runs).await;
    }
    bench.ended().await;
}

#[tokio::test]
async fn r34_an_unknown_or_finished_id_is_answered_at_once() {
    let bench = Bench::new().await;
    let (done, _) = bench.run("exit 0").await;
    let until = json!({"kind": "exit"});
    for call in [
        json!({"action": "wait", "process_id": "no-such-id", "until": until, "wait_ms": 600_000}),
        json!({"action": "wait", "process_ids": ["no-such-id", done.id()], "until": until, "mode": "all"}),
        json!({"action": "output", "process_id": "no-such-id", "wait_ms": 600_000}),
        json!({"action": "stop", "process_id": "no-such-id"}),
        json!({"action": "status", "process_id": "p-aaaaaaaaaaaaa"}),
    ] {
        let answer = timeout(AT_ONCE, bench.call("s", Some("main"), call.clone())).await.expect("at once");
        let error = answer.expect_err("nobody has that id");
        assert_eq!(error["code"], "unknown_process", "{call}: {error}");
        let known = error["details"]["known"].to_string();
        assert!(known.contains(done.id().as_str()), "the caller's own are named: {error}");
    }
    let waited = timeout(AT_ONCE, done.wait(Some(600_000))).await.expect("at once").expect("a wait");
    assert_eq!(waited.observation.state, State::Exited);
    let page = timeout(AT_ONCE, done.output().wait_ms(600_000).page()).await.expect("at once").expect("a page");
    assert!(page.eof);
    bench.ended().await;
}

#[tokio::test]
async fn r37_a_session_neither_sees_nor_reaches_another() {
    let bench = Bench::new().await;
    let agent = bench.agent_of("a", "main");
    let theirs = agent.start(procession::Spec::command("while sleep 0.02; do echo A; done")).await.expect("a start");
    written(&theirs, "A").await;
    let own = bench.agent_of("b", "main").start(procession::Spec::command("sleep 63701")).await.expect("a start");
    let id = theirs.id();
    for caller in [Some("main"), None] {
        for call in [
            json!({"action": "status", "process_id": id}),
            json!({"action": "output", "process_id": id}),
            json!({"action": "stop", "process_id": id}),
            json!({"action": "remove", "process_id": id}),
        ] {
            let error = bench.call("b", caller, call.clone()).await.expect_err("it is another session's");
            assert_eq!(error["code"], "unknown_process", "{caller:?} {call}");
            assert!(!error["message"].as_str().expect("text").contains("while sleep"), "{error}");
        }
        let list = bench.call("b", caller, json!({"action": "list"})).await.expect("a list");
        assert_eq!((&list["counts"]["live"], list["processes"].as_array().map(Vec::len)), (&json!(1), Some(1)));
    }
    assert_eq!(theirs.status().await.expect("a status").state, State::Running);
    let deleted = bench.host.session("a".parse().expect("a name")).delete().await.expect("a deletion");
    assert_eq!((deleted.stopped, deleted.unconfirmed.len()), (1, 0));
    assert_eq!(theirs.status().await.expect_err("it went with its session").code, Code::UnknownProcess);
    assert_eq!(own.status().await.expect("a status").state, State::Running);
    bench.ended().await;
}

#[tokio::test]
async fn r38_a_start_that_fails_half_way_leaves_a_record_and_nothing_else() {
    let bench = Bench::with(|_, profile| profile.limits.live_per_session = 1).await;
    for call in [
        json!({"action": "start", "command": "sleep 63801", "cwd": "absent"}),
        json!({"action": "start", "argv": ["/no/such/program"]}),
    ] {
        let error = bench.call("s", Some("main"), call).await.expect_err("it cannot start");
        assert_eq!(error["code"], "launch_failed");
        let id = &error["details"]["process_id"];
        let status = bench.call("s", Some("main"), json!({"action": "status", "process_id": id})).await;
        let status = status.expect("its record is kept");
        assert_eq!((&status["state"], &status["reason"]), (&json!("failed"), &json!("launch_error")));
        assert_eq!((&status["exit"], &status["cleanup"]), (&Value::Null, &json!("confirmed")));
        let stopped = bench.call("s", Some("main"), json!({"action": "stop", "process_id": id})).await;
        assert_eq!(stopped.expect("a stop"), status);
    }
    let host = bench.host.status().await.expect("a status");
    assert_eq!((host.live, host.places.held, host.can_suspend), (0, 0, true));
    let process = bench.start("echo repaired").await;
    assert_eq!(settled(&process).await.cleanup, Some(Cleanup::Confirmed));
    assert!(bench.running("sleep 63801").is_empty());
    let waited = process.wait(Some(PATIENCE_MS)).await.expect("a wait");
    assert_eq!(waited.process.state, State::Exited);
    bench.ended().await;
}

/// In a process of its own, whose descriptors and children are counted from outside.
#[tokio::test]
async fn r63_descriptors_and_corpses_do_not_pile_up() {
    let (command, census) = program(&["rpc"]);
    let mut door = Rpc::start(command).await;
    let pid = door.pid();
    // A spare guardian, whose number changes with the pace of starts, is held by two.
    let spares = || descendants(pid).into_iter().filter(|(_, name, _)| name == "procession-guar").count();
    let descriptors = || std::fs::read_dir(format!("/proc/{pid}/fd")).expect("it runs").count();
    let beside_spares = || descriptors().saturating_sub(2 * spares());
    let mut before = None;
    for round in 0..30 {
        for call in [
            json!({"action": "exec", "command": "true"}),
            json!({"action": "exec", "command": "sleep 66301 & exit 0"}),
            json!({"action": "exec", "argv": ["/no/such/program"]}),
            json!({"action": "start", "command": "sleep 66301", "label": "job"}),
            json!({"action": "stop", "process_id": "job"}),
        ] {
            let answer = door.call("s", None, call.clone()).await;
            assert_eq!(answer.is_err(), call["argv"].is_array(), "{round}: {answer:?}");
        }
        // What the first round opens once for all stays open.
        before.get_or_insert_with(beside_spares);
    }
    let before = before.expect("there was a round");
    // A spare may be on its way while both are counted, a guardian may be about to be collected.
    for look in 0.. {
        let (after, below) = (beside_spares(), descendants(pid));
        let owned = below.iter().all(|(_, name, state)| name.starts_with("procession") && *state != 'Z');
        if after <= before + 2 && owned && (guarded() || below.is_empty()) {
            break;
        }
        assert!(look < LOOKS, "{before} before, {after} after, with every record kept; below it {below:?}");
        look_again().await;
    }
    assert_eq!(door.end().await.code(), Some(0));
    census.end().await;
}
