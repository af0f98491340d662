//! I: exit codes.

use procession::{Exit, Reason, State};
use serde_json::json;

use crate::support::{Bench, text};

async fn check(command: &str, state: State, reason: Reason, exit: Exit) {
    let bench = Bench::new().await;
    let (process, status) = bench.run(command).await;
    assert_eq!((status.state, status.reason, status.exit.as_ref()), (state, Some(reason), Some(&exit)), "{command}");
    let id = process.id();
    let shown = json!(exit);
    let ask = |call| bench.call("s", Some("main"), call);
    let waited = ask(json!({"action": "wait", "process_id": id, "until": {"kind": "exit"}})).await.expect("a wait");
    assert_eq!((&waited["observation"]["exit"], &waited["process"]["exit"]), (&shown, &shown));
    let list = ask(json!({"action": "list"})).await.expect("a list");
    assert_eq!((&list["processes"][0]["exit"], &list["processes"][0]["state"]), (&shown, &json!(state)));
    let exec = ask(json!({"action": "exec", "command": command})).await.expect("an end is a result");
    assert_eq!(exec["process"]["exit"], shown);
    bench.ended().await;
}

#[tokio::test]
async fn r88_a_death_by_signal_is_no_success() {
    check("kill -s KILL $$", State::Failed, Reason::Signal, Exit::signal("SIGKILL", false)).await;
    check("ulimit -c 0; kill -s SEGV $$", State::Failed, Reason::Signal, Exit::signal("SIGSEGV", false)).await;
}

#[tokio::test]
async fn r89_a_death_by_signal_has_a_name_and_no_invented_code() {
    check("kill -s TERM $$", State::Failed, Reason::Signal, Exit::signal("SIGTERM", false)).await;
    check("kill -s INT $$", State::Failed, Reason::Signal, Exit::signal("SIGINT", false)).await;
    check("exit 143", State::Failed, Reason::Exit, Exit::code(143)).await;
    check("exit 255", State::Failed, Reason::Exit, Exit::code(255)).await;
}

#[tokio::test]
async fn r91_looking_ends_nothing() {
    let bench = Bench::new().await;
    let process = bench.start("sleep 3; echo fin").await;
    let mut looks = 0;
    while process.wait(Some(20)).await.expect("a wait").outcome == procession::Outcome::Timeout {
        process.status().await.expect("a status");
        process.output().page().await.expect("a page");
        bench.agent().list(Default::default()).await.expect("a list");
        looks += 1;
    }
    assert!(looks > 20, "{looks}");
    let status = process.status().await.expect("a status");
    assert_eq!((status.state, status.exit), (State::Exited, Some(Exit::code(0))));
    assert_eq!(text(&process).await, "fin\n");
    bench.ended().await;
}
