//! A: descendants that keep the output pipe open; what "finished" means.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use procession::{Exit, State};

use crate::support::{Bench, guarded, proof, settled, text, written};

/// A command that leaves something behind which ignores TERM: it stays unsettled until the grace is over.
const STUBBORN: &str = "trap '' TERM; (echo up; while :; do sleep 60301; done) & exit 0";

fn none_of(bench: &Bench, lines: &[&str]) {
    for line in lines {
        assert!(bench.running(line).is_empty(), "{line} is alive");
    }
}

#[tokio::test]
async fn r01_a_quiet_background_child_does_not_hold_the_call() {
    let bench = Bench::new().await;
    for (command, said) in [
        ("echo up; sleep 60101 & exit 0", "up\n"),
        ("sleep 60102 >/dev/null & exit 0", ""),
        ("sleep 60103 </dev/null >/dev/null 2>&1 & exit 0", ""),
    ] {
        let (process, status) = bench.run(command).await;
        assert_eq!((status.state, status.exit), (State::Exited, Some(Exit::code(0))), "{command}");
        assert!(
            status.warnings.iter().any(|warning| warning.contains("1 process")),
            "{command}: {:?}",
            status.warnings
        );
        assert_eq!(text(&process).await, said);
    }
    none_of(&bench, &["sleep 60101", "sleep 60102", "sleep 60103"]);
    bench.ended().await;
}

#[tokio::test]
async fn r02_a_child_that_keeps_printing_does_not_hold_the_call() {
    let bench = Bench::new().await;
    let loops = "(n=0; while sleep 0.02; do n=$((n+1)); echo tick $n; done) & sleep 0.1; echo front-done; exit 0";
    let began = Instant::now();
    let (process, status) = bench.run(loops).await;
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert_eq!((status.state, status.exit), (State::Exited, Some(Exit::code(0))));
    assert!(status.warnings.iter().any(|warning| warning.contains("behind")), "{:?}", status.warnings);
    let said = text(&process).await;
    assert!(said.contains("front-done") && said.contains("tick 1"), "{said}");
    bench.ended().await;
}

#[tokio::test]
async fn r03_what_is_listed_as_live_can_be_stopped() {
    let bench = Bench::with(|_, profile| profile.stop.grace_ms = 60_000).await;
    let process = bench.start(STUBBORN).await;
    written(&process, "up").await;
    let mut status = process.status().await.expect("a status");
    while !status.settling {
        assert_eq!(status.state, State::Running);
        status = process.status().await.expect("a status");
    }
    assert_eq!(status.state, State::Running, "it is live while what it left is being ended");
    let list = bench.agent().list(Default::default()).await.expect("a list");
    assert_eq!((list.counts.live, list.processes.expect("rows")[0].state), (1, State::Running));
    let stopped = process.stop(Some(0)).await.expect("a live process is stopped");
    assert_eq!((stopped.state, stopped.cleanup), (State::Exited, Some(procession::Cleanup::Confirmed)));
    for _ in 0..3 {
        assert_eq!(process.status().await.expect("a status"), stopped);
    }
    let list = bench.agent().list(Default::default()).await.expect("a list");
    assert_eq!((list.counts.live, list.processes.expect("rows")[0].state), (0, State::Exited));
    none_of(&bench, &["sleep 60301"]);

    let (_, piped) = bench.run("nohup sh -c 'sleep 60302; :' </dev/null 2>/dev/null | tee /dev/null & exit 0").await;
    assert_eq!(piped.state, State::Exited);
    none_of(&bench, &["sleep 60302"]);
    bench.ended().await;
}

/// A guardian ends what has left the group too. Where there is none it is out of reach: the pipe is given up after
/// silence, and a warning says that something still holds it.
#[tokio::test]
async fn r04_a_daemon_in_its_own_session_hides_no_exit_code() {
    let bench = Bench::new().await;
    let leaves = "setsid sh -c 'touch left; exec sleep 60401' & until [ -e left ]; do sleep 0.01; done; exit 3";
    let process = bench.start(leaves).await;
    let mut status = process.status().await.expect("a status");
    while !status.settling && !status.state.is_final() {
        assert_eq!(status.state, State::Running);
        status = process.status().await.expect("a status");
    }
    let began = Instant::now();
    let status = settled(&process).await;
    assert!(began.elapsed() < Duration::from_secs(2), "a held pipe held the code up for {:?}", began.elapsed());
    assert_eq!((status.state, status.exit, status.proof), (State::Failed, Some(Exit::code(3)), Some(proof())));
    let escaped = bench.running("sleep 60401");
    let told = if guarded() { "left 1 process behind" } else { "holds its output" };
    assert!(status.warnings.iter().any(|warning| warning.contains(told)), "{:?}", status.warnings);
    assert_eq!(escaped.len(), usize::from(!guarded()));
    for escaped in escaped {
        kill(Pid::from_raw(escaped), Signal::SIGKILL).expect("the test ends what it let escape");
    }
    bench.ended().await;
}

#[tokio::test]
async fn r06_a_busy_machine_makes_no_leftovers() {
    let bench = Bench::with(|_, profile| profile.limits.live_per_session = 12).await;
    let load = join_all((0..4).map(|_| bench.start("while :; do :; done"))).await;
    for _ in 0..6 {
        let runs = (0..8).map(|_| async {
            let (process, status) = bench.run("seq 1 3000").await;
            (text(&process).await.len(), status)
        });
        for (bytes, status) in join_all(runs).await {
            assert_eq!((bytes, status.exit), (13_893, Some(Exit::code(0))));
            assert_eq!(status.warnings, [""; 0]);
        }
    }
    for busy in load {
        assert_eq!(busy.stop(None).await.expect("a stop").state, State::Stopped);
    }
    bench.ended().await;
}

#[tokio::test]
async fn r07_an_ended_root_is_not_told_as_finished_work() {
    let bench = Bench::with(|_, profile| profile.stop.grace_ms = 60_000).await;
    let leaves = "nohup sh -c 'trap \"\" TERM; touch begun; sleep 60701; echo row >> r07' >/dev/null 2>&1 & \
                  until [ -e begun ]; do sleep 0.01; done; exit 0";
    let process = bench.start(leaves).await;
    let mut status = process.status().await.expect("a status");
    while status.warnings.is_empty() {
        assert!(!status.state.is_final(), "what was left behind still runs: {status:?}");
        status = process.status().await.expect("a status");
    }
    // The root has ended, its work has not: that is not told as finished, and a wait goes on.
    assert_eq!((status.state, status.ended_at), (State::Running, None));
    let waited = process.wait(Some(0)).await.expect("a wait");
    assert_eq!(waited.outcome, procession::Outcome::Timeout);
    assert!(status.warnings.iter().any(|warning| warning.contains("behind")), "{:?}", status.warnings);
    process.stop(Some(0)).await.expect("a stop");
    let status = settled(&process).await;
    assert_eq!((status.state, status.proof), (State::Exited, Some(proof())));
    assert!(!bench.directory.path().join("r07").exists(), "nothing of it goes on");
    bench.ended().await;
}
