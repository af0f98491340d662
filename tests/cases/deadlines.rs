//! M: deadlines and clocks.

use std::time::{Duration, Instant};

use procession::{Cleanup, Exit, Reason, Spec, State};

use crate::support::{Bench, settled};

fn within(ms: u64, command: &str) -> Spec {
    Spec { timeout_ms: Some(ms), ..Spec::command(command) }
}

#[tokio::test]
async fn r115_the_deadline_ends_the_whole_pipeline() {
    let bench = Bench::new().await;
    let began = Instant::now();
    let process = bench.agent().start(within(500, "sleep 71501 & sleep 71502 | cat")).await.expect("a start");
    let status = settled(&process).await;
    let took = began.elapsed();
    assert!((Duration::from_millis(500)..Duration::from_secs(5)).contains(&took), "{took:?}");
    assert_eq!((status.state, status.reason), (State::TimedOut, Some(Reason::Deadline)));
    assert_eq!(status.cleanup, Some(Cleanup::Confirmed));
    assert!(bench.running("sleep 71501").is_empty() && bench.running("sleep 71502").is_empty());
    bench.ended().await;
}

#[tokio::test]
async fn r116_a_deadline_is_not_ignored() {
    let bench = Bench::with(|_, profile| profile.stop.grace_ms = 300).await;
    let began = Instant::now();
    let deaf = within(500, "trap '' TERM INT HUP; while :; do sleep 1; done");
    let process = bench.agent().start(deaf).await.expect("a start");
    let status = settled(&process).await;
    let took = began.elapsed();
    assert!((Duration::from_millis(800)..Duration::from_secs(5)).contains(&took), "{took:?}");
    assert_eq!((status.state, status.exit), (State::TimedOut, Some(Exit::signal("SIGKILL", false))));
    bench.ended().await;
}

#[tokio::test]
async fn r118_a_deadline_belongs_to_the_process_and_none_is_made_up() {
    let bench = Bench::new().await;
    let id = {
        let session = bench.host.session("gone".parse().expect("a name"));
        let process = session.agent("main".parse().expect("a name")).start(within(700, "sleep 71801")).await;
        process.expect("a start").id().clone()
    };
    let endless = bench.start("sleep 71802").await;
    assert_eq!(endless.status().await.expect("a status").deadline_at, None);
    // Every handle of the caller is gone; the deadline is not.
    let process = bench.agent_of("gone", "main").process((&id).into()).await.expect("its record");
    let status = settled(&process).await;
    assert_eq!((status.state, status.deadline_at), (State::TimedOut, None));
    assert!((700..5000).contains(&status.runtime_ms), "{}", status.runtime_ms);
    assert_eq!(endless.status().await.expect("a status").state, State::Running);
    bench.ended().await;
}
