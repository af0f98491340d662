//! Futures that are dropped: a start and an exec stop their command, a wait stops nothing, the last host ends all.

use std::task::Poll;

use procession::protocol::verb::list::Detail;
use procession::{Code, Exec, List, Outcome, Process, Reason, Spec, State};

use super::{LOOKS, label, live_becomes, lives, named, poll_once, refused};
use crate::support::{Bench, running, settled, written};

/// Starts that are dropped; more than this many are made.
const ABORTS: usize = 320;
/// Starts that run to their answer are kept up to this many.
const KEPT: usize = 12;

/// Numbers that look random and come again with the same seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// Polls `future` so many times, letting others run in between.
async fn some_polls<F: Future>(future: F, polls: u64) -> Option<F::Output> {
    let mut future = Box::pin(future);
    for _ in 0..polls {
        if let Poll::Ready(answer) = poll_once(&mut future).await {
            return Some(answer);
        }
        tokio::task::yield_now().await;
    }
    None
}

/// Drops starts at random moments; whoever got an answer holds its process, and nothing else is left.
async fn check_aborts(seed: u64) {
    let bench = Bench::with(|host, session| {
        host.limits.live_per_host = 2000;
        session.limits.live_per_session = 2000;
        session.limits.finished_per_session = 2000;
    })
    .await;
    let agent = bench.agent();
    let mut dice = Dice(seed);
    let (mut held, mut stopped, mut dropped) = (Vec::<Process>::new(), Vec::new(), 0);
    while dropped < ABORTS {
        // From none at all to more than a launch needs, small numbers as often as large ones.
        let magnitude = dice.roll(14);
        let polls = dice.roll(1 << magnitude);
        match some_polls(agent.start(lives()), polls).await {
            None => dropped += 1,
            Some(answer) => held.push(answer.expect("a start")),
        }
        if held.len() > KEPT {
            let oldest = held.remove(0);
            assert_eq!(oldest.stop(None).await.expect("a stop").reason, Some(Reason::StopRequested));
            stopped.push(oldest.id().clone());
        }
    }
    live_becomes(&bench, held.len() as u64).await;
    for process in &held {
        assert_eq!(process.status().await.expect("a status").state, State::Running, "seed {seed}");
    }
    let list = List { detail: Some(Detail::Full), limit: Some(1000), ..List::default() };
    let list = agent.list(list).await.expect("a list");
    let known = |id| stopped.contains(id) || held.iter().any(|process| process.id() == id);
    let mut cancelled = 0;
    for status in list.statuses.expect("statuses").iter().filter(|status| !known(&status.process_id)) {
        assert_eq!(status.reason, Some(Reason::StartCancelled), "seed {seed}: {status:?}");
        cancelled += 1;
    }
    assert!(cancelled > 0, "seed {seed}: none was dropped while it was under way");
    for process in held {
        process.stop(None).await.expect("a stop");
    }
    live_becomes(&bench, 0).await;
    bench.ended().await;
}

#[tokio::test]
async fn a_start_dropped_at_any_moment_leaves_nothing_behind() {
    check_aborts(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_dropped_at_any_moment_leaves_nothing_behind_on_several_threads_either() {
    check_aborts(2).await;
}

#[tokio::test]
async fn dropping_an_exec_stops_its_command() {
    let bench = Bench::new().await;
    let agent = bench.agent();
    let exec = Exec { label: Some(label("job")), ..Exec::command("echo up; exec sleep 60201") };
    let mut running_exec = Box::pin(agent.exec(exec));
    let process = loop {
        assert!(poll_once(&mut running_exec).await.is_pending());
        match agent.process(named("job")).await {
            Ok(process) => break process,
            Err(error) => assert_eq!(error.code, Code::UnknownProcess),
        }
    };
    tokio::select! {
        answer = &mut running_exec => panic!("it ended: {answer:?}"),
        () = written(&process, "up\n") => {}
    }
    drop(running_exec);
    let status = settled(&process).await;
    assert_eq!((status.state, status.reason), (State::Stopped, Some(Reason::StartCancelled)));
    assert_eq!(running("sleep 60201"), Vec::<i32>::new());
    bench.ended().await;
}

#[tokio::test]
async fn dropping_a_wait_stops_nothing_and_frees_its_place_among_the_parked() {
    let bench = Bench::with(|_, session| session.limits.parked_calls_per_session = 1).await;
    let process = bench.agent().start(lives()).await.expect("a start");
    for _ in 0..20 {
        let mut waiting = Box::pin(process.wait(None));
        // Once a second one is refused, the first is parked.
        loop {
            assert!(poll_once(&mut waiting).await.is_pending());
            match process.wait(Some(1)).await {
                Ok(answer) => assert_eq!(answer.outcome, Outcome::Timeout),
                Err(error) => break assert_eq!(error.code, Code::LimitReached),
            }
        }
        let error = refused(process.output().wait_ms(1000).page().await, Code::LimitReached);
        assert_eq!(error.details["limit"], "limits.parked_calls_per_session");
        assert_eq!(process.wait(Some(0)).await.expect("a look parks nothing").outcome, Outcome::Timeout);
        drop(waiting);
        for look in 0.. {
            match process.wait(Some(1)).await {
                Ok(_) => break,
                Err(error) => assert!(look < LOOKS, "its place was never freed: {error}"),
            }
        }
    }
    assert_eq!(process.status().await.expect("a status").state, State::Running);
    assert_eq!(process.stop(None).await.expect("never refused").state, State::Stopped);
    bench.ended().await;
}

#[tokio::test]
async fn dropping_the_last_host_ends_everything() {
    let bench = Bench::new().await;
    let process = bench.start("sleep 60202 & trap '' TERM; echo up; sleep 60203; sleep 60203").await;
    let other = bench.agent_of("t", "b").start(Spec::command("exec sleep 60204")).await.expect("a start");
    written(&process, "up\n").await;
    let (agent, id) = (bench.agent(), process.id().clone());
    drop((process, other));
    assert!(agent.process((&id).into()).await.is_ok(), "dropping a handle on a process ends nothing");
    drop(agent);
    bench.dropped().await;
    for line in ["sleep 60202", "sleep 60203", "sleep 60204"] {
        assert_eq!(running(line), Vec::<i32>::new());
    }
}
