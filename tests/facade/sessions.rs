//! Sessions: opened, opened again, reset, deleted, opened afresh; and what is kept of what has ended.

use std::collections::BTreeMap;

use procession::protocol::verb::agent::Sees;
use procession::protocol::verb::list::Detail;
use procession::{Code, Exec, List, OpenSession, Reason, Spec, State};
use serde_json::{Value, json};

use super::{labelled, live_becomes, lives, refused};
use crate::support::{Bench, name};

fn configured(config: Value) -> OpenSession {
    OpenSession { config: config.as_object().cloned(), ..OpenSession::default() }
}

#[tokio::test]
async fn the_same_configuration_opens_again_and_another_is_a_conflict() {
    let bench = Bench::new().await;
    let open = || OpenSession {
        agents: Some(BTreeMap::from([("a".parse().expect("a name"), Sees::Session)])),
        ..configured(json!({"limits": {"live_per_session": 1}, "stop.grace_ms": 700}))
    };
    for _ in 0..2 {
        bench.host.open_session(name("s"), open()).await.expect("opened");
    }
    refused(bench.host.open_session(name("s"), OpenSession::default()).await, Code::Conflict);
    refused(bench.host.open_session(name("s"), configured(json!({"stop.grace_ms": 701}))).await, Code::Conflict);
    let elsewhere = OpenSession { directory: Some("/".to_owned()), ..open() };
    refused(bench.host.open_session(name("s"), elsewhere).await, Code::Conflict);
    // The override is in force.
    bench.agent().start(lives()).await.expect("a start");
    let error = refused(bench.agent().start(lives()).await, Code::LimitReached);
    assert_eq!((&error.details["limit"], &error.details["value"]), (&json!("limits.live_per_session"), &json!(1)));
    bench.ended().await;
}

#[tokio::test]
async fn a_wrong_key_or_value_opens_nothing_and_is_named() {
    let bench = Bench::new().await;
    for (config, field) in [
        (json!({"limits.live_per_sesion": 1}), "config.limits.live_per_sesion"),
        (json!({"limits.live_per_session": 0}), "config.limits.live_per_session"),
        (json!({"limits.live_per_session": "many"}), "config.limits.live_per_session"),
        (json!({"limits.live_per_host": 1}), "config.limits.live_per_host"),
    ] {
        let error = refused(bench.host.open_session(name("s"), configured(config)).await, Code::InvalidArgument);
        assert_eq!(error.details["field"], field, "{error:?}");
    }
    let unknown = OpenSession { profile: Some("none".to_owned()), ..OpenSession::default() };
    refused(bench.host.open_session(name("s"), unknown).await, Code::InvalidArgument);
    let relative = OpenSession { directory: Some("here".to_owned()), ..OpenSession::default() };
    refused(bench.host.open_session(name("s"), relative).await, Code::InvalidArgument);
    assert_eq!(bench.host.list_sessions().await.expect("a list"), []);
    bench.ended().await;
}

#[tokio::test]
async fn a_reset_forgets_what_has_ended_and_a_deletion_ends_everything() {
    let bench = Bench::new().await;
    let session = bench.host.session(name("s"));
    refused(session.reset().await, Code::UnknownSession);
    refused(session.delete().await, Code::UnknownSession);
    bench.run("true").await;
    bench.run("false").await;
    let live = bench.agent().start(labelled("web")).await.expect("a start");
    let reset = session.reset().await.expect("a reset");
    assert_eq!((reset.cleared, reset.kept), (2, 0));
    assert_eq!(live.status().await.expect("a status").state, State::Running);

    let (waited, deleted) = tokio::join!(live.wait(None), session.delete());
    assert_eq!(waited.expect("a wait").observation.state, State::Stopped);
    let deleted = deleted.expect("deleted");
    assert_eq!((deleted.stopped, deleted.unconfirmed.len()), (1, 0));
    assert_eq!(bench.host.list_sessions().await.expect("a list"), []);
    live_becomes(&bench, 0).await;

    // The name opens afresh, with another configuration, and knows nothing.
    let afresh = configured(json!({"limits.live_per_session": 1}));
    bench.host.open_session(name("s"), afresh).await.expect("opened");
    refused(live.status().await, Code::UnknownProcess);
    assert_eq!(bench.agent().list(List::default()).await.expect("a list").counts.finished, 0);
    bench.ended().await;
}

#[tokio::test]
async fn a_deletion_ends_starts_under_way_too() {
    let bench = Bench::new().await;
    for _ in 0..10 {
        let session = bench.host.session(name("s"));
        session.info().await.expect("opened");
        let agent = bench.agent();
        let (started, deleted) = tokio::join!(agent.start(lives()), session.delete());
        deleted.expect("deleted");
        if let Err(error) = started {
            assert!(matches!(error.code, Code::Cancelled | Code::Unavailable | Code::UnknownSession), "{error:?}");
        }
        live_becomes(&bench, 0).await;
    }
    bench.ended().await;
}

#[tokio::test]
async fn the_newest_records_are_kept_and_foreground_ones_go_first() {
    let bench = Bench::with(|_, session| session.limits.finished_per_session = 3).await;
    let agent = bench.agent();
    let mut all = Vec::new();
    for _ in 0..3 {
        all.push(bench.run("true").await.0);
    }
    let done = agent.exec(Exec::command("true")).await.expect("an exec");
    refused(all[0].status().await, Code::UnknownProcess);
    all.push(bench.run("true").await.0);
    refused(agent.process((&done.process.process_id).into()).await, Code::UnknownProcess);
    for process in &all[1..] {
        process.status().await.expect("kept");
    }
    assert_eq!(agent.list(List::default()).await.expect("a list").counts.finished, 3);
    bench.ended().await;
}

#[tokio::test]
async fn the_host_keeps_so_many_records_over_all_its_sessions() {
    let bench = Bench::with(|host, _| host.limits.finished_per_host = 2).await;
    let mut all = Vec::new();
    for session in ["s", "t", "u"] {
        let process = bench.agent_of(session, "main").start(Spec::command("true")).await.expect("a start");
        crate::support::settled(&process).await;
        all.push(process);
    }
    // The word goes from a session to the host and to the other session: a look, until it has come.
    for look in 0.. {
        match all[0].status().await {
            Err(error) => {
                assert_eq!(error.code, Code::UnknownProcess);
                break;
            }
            Ok(_) => assert!(look < super::LOOKS, "never forgotten"),
        }
    }
    for process in &all[1..] {
        process.status().await.expect("kept");
    }
    bench.ended().await;
}

#[tokio::test]
async fn a_removed_process_is_hidden_at_once_and_its_place_is_free_when_it_is_gone() {
    let bench = Bench::with(|_, session| session.limits.live_per_session = 1).await;
    let agent = bench.agent();
    let stubborn = bench.start("trap '' TERM; echo up; while :; do sleep 1; done").await;
    crate::support::written(&stubborn, "up\n").await;
    let removed = stubborn.remove().await.expect("removed");
    assert!(!removed.forgotten, "it is forgotten later");
    refused(stubborn.status().await, Code::UnknownProcess);
    assert_eq!(agent.list(List::default()).await.expect("a list").processes, Some(vec![]));
    refused(agent.start(lives()).await, Code::LimitReached);
    live_becomes(&bench, 0).await;
    let next = agent.start(lives()).await.expect("a place again");
    refused(stubborn.status().await, Code::UnknownProcess);
    next.stop(None).await.expect("a stop");
    assert!(next.remove().await.expect("removed").forgotten, "a finished one at once");
    bench.ended().await;
}

#[tokio::test]
async fn a_live_process_is_not_cleared_and_a_finished_one_is_once() {
    let bench = Bench::new().await;
    let process = bench.agent().start(lives()).await.expect("a start");
    refused(process.clear().await, Code::StillRunning);
    process.stop(None).await.expect("a stop");
    assert!(process.clear().await.expect("cleared").forgotten);
    refused(process.clear().await, Code::UnknownProcess);
    refused(process.remove().await, Code::UnknownProcess);
    bench.ended().await;
}

#[tokio::test]
async fn a_list_is_filtered_by_state_cut_and_full() {
    let bench = Bench::new().await;
    let agent = bench.agent();
    bench.run("true").await;
    bench.run("false").await;
    let live = agent.start(labelled("web")).await.expect("a start");
    live.stop(None).await.expect("a stop");
    let live = agent.start(labelled("web")).await.expect("a start");
    for (state, wanted) in [(State::Exited, 1), (State::Failed, 1), (State::Running, 1), (State::Lost, 0)] {
        let list = agent.list(List { state: Some(state), ..List::default() }).await.expect("a list");
        assert!(list.processes.iter().flatten().all(|row| row.state == state));
        assert_eq!(list.processes.expect("rows").len(), wanted, "{state:?}");
        assert_eq!((list.counts.live, list.counts.finished), (1, 3), "counts are of all");
    }
    let list = List { limit: Some(2), detail: Some(Detail::Full), ..List::default() };
    let list = agent.list(list).await.expect("a list");
    assert_eq!((list.truncated, list.processes), (true, None));
    let statuses = list.statuses.expect("statuses");
    assert_eq!((statuses.len(), &statuses[0].process_id), (2, live.id()), "live ones first");
    assert_eq!(statuses[1].reason, Some(Reason::StopRequested), "then the newest");
    bench.ended().await;
}
