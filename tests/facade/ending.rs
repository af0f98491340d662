//! The end of a host: now, drained, asked for twice; what can still be read; and hosts beside each other.

use procession::protocol::verb::host::{Shutdown, ShutdownMode};
use procession::{Code, Exec, OpenSession, Reason, Spec, State};

use super::{live_becomes, lives, poll_once, refused};
use crate::support::{Bench, name, settled, text, written};

const DRAIN: Shutdown = Shutdown { mode: Some(ShutdownMode::Drain), within_ms: None };

#[tokio::test]
async fn a_shutdown_stops_everything_and_what_there_was_can_be_read() {
    let bench = Bench::new().await;
    let process = bench.start("echo up; exec sleep 86396").await;
    bench.agent_of("t", "b").start(lives()).await.expect("a start");
    written(&process, "up\n").await;
    let (ended, _) = bench.run("echo over").await;
    let answer = bench.host.shutdown().await.expect("an end");
    assert_eq!((answer.stopped, answer.unconfirmed.len()), (2, 0));
    assert_eq!(bench.host.shutdown().await.expect("the same again"), answer);
    let status = process.status().await.expect("still known");
    assert_eq!((status.state, status.reason), (State::Stopped, Some(Reason::HostShutdown)));
    assert_eq!((text(&process).await, text(&ended).await), ("up\n".to_owned(), "over\n".to_owned()));
    refused(bench.agent().start(lives()).await, Code::ShuttingDown);
    refused(bench.agent().exec(Exec::command("true")).await, Code::ShuttingDown);
    refused(process.restart().await, Code::ShuttingDown);
    refused(bench.host.open_session(name("new"), OpenSession::default()).await, Code::ShuttingDown);
    let status = bench.host.status().await.expect("a status");
    assert_eq!((status.shutting_down, status.live, status.can_suspend), (true, 0, true));
    bench.ended().await;
}

#[tokio::test]
async fn a_drain_waits_for_what_runs_and_starts_nothing() {
    let bench = Bench::new().await;
    let process = bench.start("until [ -e go ]; do sleep 0.02; done; echo done").await;
    let mut drain = Box::pin(bench.host.shutdown_with(DRAIN));
    assert!(poll_once(&mut drain).await.is_pending());
    refused(bench.agent().start(lives()).await, Code::ShuttingDown);
    assert_eq!(process.status().await.expect("a status").state, State::Running);
    assert!(poll_once(&mut drain).await.is_pending(), "it waits");
    std::fs::write(bench.directory.path().join("go"), "").expect("a file");
    let answer = drain.await.expect("drained");
    assert_eq!(answer.unconfirmed, []);
    assert_eq!((settled(&process).await.state, text(&process).await), (State::Exited, "done\n".to_owned()));
    bench.ended().await;
}

#[tokio::test]
async fn a_drain_ends_what_is_left_when_its_time_is_over() {
    let bench = Bench::new().await;
    let process = bench.agent().start(lives()).await.expect("a start");
    let answer = bench.host.shutdown_with(Shutdown { within_ms: Some(100), ..DRAIN }).await.expect("an end");
    assert_eq!((answer.stopped, answer.unconfirmed.len()), (1, 0));
    assert_eq!(process.status().await.expect("a status").reason, Some(Reason::HostShutdown));
    refused(bench.host.shutdown_with(Shutdown { mode: None, within_ms: Some(1) }).await, Code::InvalidArgument);
    bench.ended().await;
}

#[tokio::test]
async fn a_drain_is_cut_short_by_a_shutdown_and_both_get_the_same_answer() {
    let bench = Bench::new().await;
    bench.agent().start(lives()).await.expect("a start");
    let mut drain = Box::pin(bench.host.shutdown_with(DRAIN));
    assert!(poll_once(&mut drain).await.is_pending());
    let (drained, again, now) = tokio::join!(&mut drain, bench.host.shutdown_with(DRAIN), bench.host.shutdown());
    let now = now.expect("an end");
    assert_eq!((drained.expect("an end"), again.expect("an end")), (now.clone(), now.clone()));
    assert_eq!(now.stopped, 1);
    drop(drain);
    bench.ended().await;
}

#[tokio::test]
async fn a_start_and_a_shutdown_at_the_same_time_leave_nothing() {
    for polls in 0..20 {
        let bench = Bench::new().await;
        let agent = bench.agent();
        let mut start = Box::pin(agent.start(lives()));
        for _ in 0..polls * 5 {
            if poll_once(&mut start).await.is_ready() {
                start = Box::pin(agent.start(lives()));
            }
            tokio::task::yield_now().await;
        }
        let (started, answer) = tokio::join!(start, bench.host.shutdown());
        assert_eq!(answer.expect("an end").unconfirmed, []);
        match started {
            Ok(process) => assert!(process.status().await.expect("a status").state.is_final()),
            Err(error) => assert_eq!(error.code, Code::ShuttingDown, "{error:?}"),
        }
        live_becomes(&bench, 0).await;
        bench.ended().await;
    }
}

#[tokio::test]
async fn dropping_a_shutdown_does_not_stop_it() {
    let bench = Bench::new().await;
    let process = bench.agent().start(lives()).await.expect("a start");
    let mut shutdown = Box::pin(bench.host.shutdown());
    assert!(poll_once(&mut shutdown).await.is_pending());
    drop(shutdown);
    assert_eq!(settled(&process).await.reason, Some(Reason::HostShutdown));
    bench.ended().await;
}

#[tokio::test]
async fn hosts_in_one_program_do_not_disturb_each_other() {
    let (first, second) = (Bench::new().await, Bench::new().await);
    let mine = first.agent().start(lives()).await.expect("a start");
    let its = second.start("echo here; exec sleep 86395").await;
    refused(first.agent().process(its.id().into()).await, Code::UnknownProcess);
    let done = first.agent().exec(Exec::command("sleep 86394 & exit 5")).await.expect("an exec");
    assert_eq!(done.process.exit, Some(procession::Exit::code(5)));
    mine.stop(None).await.expect("a stop");
    drop(mine);
    first.ended().await;
    written(&its, "here\n").await;
    assert_eq!(its.status().await.expect("a status").state, State::Running);
    let again = second.agent().exec(Exec::command("echo still")).await.expect("an exec");
    assert_eq!(again.output.text, "still\n");
    second.agent().start(Spec::command("true")).await.expect("a start");
    second.ended().await;
}
