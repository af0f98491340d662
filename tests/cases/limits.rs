//! L: limits.

use futures_util::future::join_all;
use procession::{Code, Process, Spec};

use crate::support::Bench;

#[tokio::test]
async fn r112_what_is_refused_never_ran() {
    let bench = Bench::with(|_, profile| profile.limits.live_per_session = 3).await;
    let spec = || Spec { label: "held".parse().ok(), ..Spec::command("sleep 71201") };
    for _ in 0..3 {
        bench.agent().start(spec()).await.expect("there is room");
    }
    let error = bench.agent().start(Spec::command("touch r112; sleep 5")).await.expect_err("all are taken");
    assert_eq!((error.code, error.retryable), (Code::LimitReached, true));
    assert_eq!((&error.details["limit"], &error.details["value"]), (&"limits.live_per_session".into(), &3.into()));
    assert_eq!(error.details["holders"].as_array().map(Vec::len), Some(3));
    assert_eq!(error.details["holders"][0]["label"], "held");
    assert!(!bench.directory.path().join("r112").exists());
    let list = bench.agent().list(Default::default()).await.expect("a list");
    assert_eq!((list.counts.live, list.counts.finished), (3, 0), "a refusal leaves no record");
    bench.ended().await;
}

async fn start_in(bench: &Bench, session: &str) -> Result<Process, procession::Error> {
    bench.agent_of(session, "main").start(Spec::argv(["sleep", "71301"])).await
}

/// Starts in these sessions at the same moment: exactly `limit` succeed, and never more run.
async fn check(bench: Bench, sessions: &[&str], limit: usize, named: &str) {
    let starts = (0..64).map(|n| start_in(&bench, sessions[n % sessions.len()]));
    let (started, refused): (Vec<_>, Vec<_>) = join_all(starts).await.into_iter().partition(Result::is_ok);
    assert_eq!((started.len(), refused.len()), (limit, 64 - limit));
    for error in refused.into_iter().filter_map(Result::err) {
        assert_eq!((error.code, &error.details["limit"]), (Code::LimitReached, &named.into()), "{error}");
    }
    let host = bench.host.status().await.expect("a status");
    assert_eq!((host.live, host.places.held), (limit as u64, limit as u64));
    bench.appeared("sleep 71301", limit).await;
    bench.ended().await;
}

#[tokio::test]
async fn r113_parallel_starts_do_not_pass_a_limit() {
    let bench = Bench::with(|_, profile| profile.limits.live_per_session = 8).await;
    check(bench, &["s"], 8, "limits.live_per_session").await;
    let bench = Bench::with(|host, _| host.limits.live_per_host = 12).await;
    check(bench, &["a", "b", "c", "d", "e", "f", "g", "h"], 12, "limits.live_per_host").await;
}
