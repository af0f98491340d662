//! F: floods, idle waits and finished records cost no more than they may.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use procession::{List, Outcome, Spec, State};

use crate::support::pause::{look_again, spend};
use crate::support::{Bench, name, settled, text};

#[tokio::test]
async fn r57_a_flood_does_not_starve_the_deadlines() {
    const TIMEOUT_MS: u64 = 500;
    let bench = Bench::new().await;
    let other = bench.start("sleep 65701").await;
    let flood = || Spec { timeout_ms: Some(TIMEOUT_MS), ..Spec::command("yes flood") };
    let mut floods = Vec::new();
    for _ in 0..4 {
        floods.push(bench.agent().start(flood()).await.expect("a start"));
    }
    let mut live = floods.len();
    while live > 0 {
        let asked = Instant::now();
        other.status().await.expect("the other one answers meanwhile");
        assert!(asked.elapsed() < Duration::from_secs(1), "{:?}", asked.elapsed());
        let states = join_all(floods.iter().map(|flood| flood.status())).await;
        live = states.iter().filter(|status| !status.as_ref().expect("a status").state.is_final()).count();
        look_again().await;
    }
    for flood in &floods {
        let status = flood.status().await.expect("a status");
        assert_eq!(status.state, State::TimedOut);
        assert!((TIMEOUT_MS..TIMEOUT_MS + 3000).contains(&status.runtime_ms), "{}", status.runtime_ms);
        assert!(status.output.end - status.output.earliest <= 2 << 20, "{:?}", status.output);
        assert!(status.output.earliest > 0, "it was a flood");
    }
    other.stop(None).await.expect("a stop");
    bench.ended().await;
}

/// Time on the processor of the calling thread, which runs the host of its test and nothing else.
fn busy() -> Duration {
    let read = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux has it");
    Duration::from_nanos(read.split(' ').next().and_then(|first| first.parse().ok()).expect("nanoseconds"))
}

/// How often that thread waited for something.
fn pauses() -> u64 {
    let read = std::fs::read_to_string("/proc/thread-self/status").expect("Linux has it");
    let line = read.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).expect("a line");
    line.trim().parse().expect("a number")
}

#[tokio::test]
async fn r61_waiting_costs_nothing() {
    let bench = Bench::with(|host, profile| {
        host.limits.live_per_host = 32;
        profile.limits.live_per_session = 32;
    })
    .await;
    let starts = join_all((0..32).map(|_| bench.start("sleep 66101"))).await;
    let waits: Vec<_> = starts
        .iter()
        .map(|process| {
            let process = process.clone();
            tokio::spawn(async move { process.wait(None).await })
        })
        .collect();
    // The waits begin, and what the starts set in motion comes to rest.
    spend(Duration::from_millis(100)).await;
    let (busy_before, pauses_before) = (busy(), pauses());
    spend(Duration::from_secs(1)).await;
    let (used, paused) = (busy() - busy_before, pauses() - pauses_before);
    assert!(used < Duration::from_millis(20), "{used:?} of one second");
    assert!(paused < 20, "32 waits woke {paused} times in one second");
    bench.host.session(name("s")).delete().await.expect("a deletion");
    for wait in waits {
        let waited = wait.await.expect("no panic").expect("a wait");
        assert_eq!((waited.outcome, waited.observation.state), (Outcome::Satisfied, State::Stopped));
    }
    bench.ended().await;
}

#[tokio::test]
async fn r65_finished_records_are_kept_up_to_a_limit() {
    let bench = Bench::with(|_, profile| profile.limits.finished_per_session = 10).await;
    let mut newest = None;
    for _ in 0..60 {
        let process = bench.start("head -c 100000 /dev/zero").await;
        settled(&process).await;
        newest = Some(process);
    }
    let newest = newest.expect("sixty were started");
    let counts = bench.agent().list(List::default()).await.expect("a list").counts;
    assert_eq!((counts.live, counts.finished), (0, 10));
    let status = newest.status().await.expect("a status");
    assert_eq!((status.output.earliest, status.output.end), (0, 100_000), "the newest is complete");
    assert_eq!(text(&newest).await, "\0".repeat(100_000));
    bench.host.session(name("s")).delete().await.expect("a deletion");
    assert_eq!(bench.host.list_sessions().await.expect("sessions"), [], "nothing is kept");
    assert!(newest.status().await.is_err(), "nor can it be read");
    bench.ended().await;
}
