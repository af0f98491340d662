//! B: stop and tree kill.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use procession::{Cleanup, Exit, List, Spec, State};
use serde_json::json;

use crate::support::pause::look_again;
use crate::support::{Bench, proof, text, written};

#[tokio::test]
async fn r09_a_stop_ends_what_the_shell_runs() {
    let bench = Bench::new().await;
    let nested = bench.start("sh -c 'sh -c \"sleep 60901; :\"; :'").await;
    bench.appeared("sleep 60901", 1).await;
    let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a free port").port();
    let serve = format!("python3 -u -m http.server {port} --bind 127.0.0.1 & sleep 60902; :");
    let server = bench.start(&serve).await;
    written(&server, "Serving HTTP").await;
    for process in [nested, server] {
        let status = process.stop(None).await.expect("a stop");
        assert_eq!((status.state, status.cleanup), (State::Stopped, Some(Cleanup::Confirmed)));
    }
    assert!(bench.running("sleep 60901").is_empty() && bench.running("sleep 60902").is_empty());
    TcpListener::bind(("127.0.0.1", port)).expect("the port is free when the stop is answered");
    bench.ended().await;
}

#[tokio::test]
async fn r10_after_a_stop_a_loop_launches_nothing_more() {
    let bench = Bench::new().await;
    let steps = "for n in 1 2 3 4 5 6; do sh -c \"sleep 0.1; echo step $n >> r10; echo step $n\"; done";
    let process = bench.start(steps).await;
    written(&process, "step 1").await;
    let status = process.stop(None).await.expect("a stop");
    // The proof says that no member is left: nobody is there to write a line.
    assert_eq!((status.state, status.proof), (State::Stopped, Some(proof())));
    let lines = || std::fs::read_to_string(bench.directory.path().join("r10")).expect("a file").lines().count();
    let count = lines();
    assert!((1..6).contains(&count), "{count}");
    bench.run("sleep 0.4").await;
    assert_eq!(lines(), count);
    bench.ended().await;
}

#[tokio::test]
async fn r11_a_member_that_ignores_term_is_killed_after_the_grace() {
    let bench = Bench::new().await;
    let member = "trap 'exit 0' TERM; \
                  sh -c 'trap \"\" TERM; while :; do echo beat >> r11; touch ready; sleep 0.05; done' & \
                  until [ -e ready ]; do sleep 0.01; done; echo ready; wait";
    let process = bench.start(member).await;
    written(&process, "ready").await;
    let began = Instant::now();
    let status = process.stop(Some(300)).await.expect("a stop");
    assert!(began.elapsed() >= Duration::from_millis(300), "the writer had its grace");
    assert_eq!((status.state, status.cleanup), (State::Stopped, Some(Cleanup::Confirmed)));
    assert_eq!(status.exit, Some(Exit::code(0)), "the root obeyed");
    let escalated = "not all of it ended within its grace: what was left was killed";
    assert!(status.warnings.iter().any(|warning| warning == escalated), "{:?}", status.warnings);
    let size = || std::fs::metadata(bench.directory.path().join("r11")).expect("a file").len();
    let at_the_end = size();
    bench.run("sleep 0.3").await;
    assert_eq!(size(), at_the_end, "the writer is gone");
    bench.ended().await;
}

#[tokio::test]
async fn r15_what_is_forked_during_the_kill_does_not_escape() {
    let bench = Bench::with(|_, profile| profile.stop.grace_ms = 200).await;
    for round in 0..20 {
        // Bounded: it forks a few hundred times at most, and the process ends at its own deadline.
        let forks =
            "n=0; while [ $n -lt 300 ]; do sh -c 'sleep 61501' & n=$((n+1)); [ $n = 5 ] && echo on; sleep 0.002; done";
        let spec = Spec { timeout_ms: Some(10_000), ..Spec::command(forks) };
        let process = bench.agent().start(spec).await.expect("a start");
        written(&process, "on").await;
        let status = process.stop(None).await.expect("a stop");
        assert_eq!(status.cleanup, Some(Cleanup::Confirmed), "round {round}: {status:?}");
        assert!(bench.running("sleep 61501").is_empty(), "round {round}");
    }
    bench.ended().await;
}

#[tokio::test]
async fn r16_a_paused_process_sees_the_stop_signal() {
    let bench = Bench::with(|_, profile| profile.stop.grace_ms = 30_000).await;
    let paused = "trap 'echo cleaned; exit 0' TERM; echo $$; kill -STOP $$; while :; do sleep 0.05; done";
    let process = bench.start(paused).await;
    written(&process, "\n").await;
    let pid: i32 = text(&process).await.trim().parse().expect("a number");
    let stopped =
        |pid: i32| std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") T "));
    for _ in 0..10_000 {
        if stopped(pid) {
            break;
        }
        look_again().await;
    }
    assert!(stopped(pid), "it paused itself");
    assert_eq!(process.status().await.expect("a status").state, State::Running, "paused is not ended");
    let began = Instant::now();
    let status = process.stop(None).await.expect("a stop");
    assert!(began.elapsed() < Duration::from_secs(5), "by TERM and CONT, not by KILL: {:?}", began.elapsed());
    assert_eq!((status.state, status.exit), (State::Stopped, Some(Exit::code(0))));
    assert!(text(&process).await.ends_with("cleaned\n"));
    bench.ended().await;
}

#[tokio::test]
async fn r18_a_stop_right_after_the_start_hits_nobody_else() {
    let bench = Bench::new().await;
    let canary = bench.start("sleep 61802").await;
    for _ in 0..100 {
        let process = bench.start("sleep 61801").await;
        let status = process.stop(None).await.expect("a stop");
        assert_eq!((status.state, status.cleanup), (State::Stopped, Some(Cleanup::Confirmed)));
    }
    assert!(bench.running("sleep 61801").is_empty());
    assert_eq!(canary.status().await.expect("a status").state, State::Running);
    let list = bench.agent().list(List { state: Some(State::Stopped), ..List::default() }).await.expect("a list");
    assert_eq!((list.counts.live, list.processes.expect("rows").len()), (1, 100));
    bench.ended().await;
}

#[tokio::test]
async fn r19_nothing_is_signalled_for_an_id_that_is_no_process() {
    let bench = Bench::new().await;
    let canary = bench.start("sleep 61901").await;
    let mut ids: Vec<serde_json::Value> = ["0", "1", "-1", "", "p-", "p-aaaaaaaaaaaaa"].map(|id| json!(id)).into();
    for _ in 0..20 {
        for call in [
            json!({"action": "start", "command": "true", "cwd": "nonexistent"}),
            json!({"action": "start", "argv": ["/no/such/bin"]}),
        ] {
            let error = bench.call("s", Some("main"), call).await.expect_err("it cannot start");
            ids.push(error["details"]["process_id"].clone());
        }
    }
    for id in ids {
        match bench.call("s", Some("main"), json!({"action": "stop", "process_id": id})).await {
            Ok(status) => assert_eq!(status["reason"], "launch_error", "{id}"),
            Err(error) => assert_eq!(error["code"], "unknown_process", "{id}"),
        }
    }
    assert_eq!(canary.status().await.expect("a status").state, State::Running);
    bench.ended().await;
}

#[tokio::test]
async fn r21_corpses_are_no_survivors() {
    let bench = Bench::with(|_, profile| profile.stop.grace_ms = 30_000).await;
    // The shell becomes a program that never collects its children.
    let process = bench.start("for n in 1 2 3 4 5; do true & done; echo left; exec sleep 62101").await;
    written(&process, "left").await;
    bench.appeared("sleep 62101", 1).await;
    let began = Instant::now();
    let status = process.stop(None).await.expect("a stop");
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert_eq!((status.cleanup, status.survivors.len()), (Some(Cleanup::Confirmed), 0));
    bench.ended().await;
}

#[tokio::test]
async fn r26_a_slow_stop_holds_up_nobody_else() {
    let bench = Bench::new().await;
    let slow = bench.start("trap '' TERM; echo ready; while :; do sleep 62601; done").await;
    written(&slow, "ready").await;
    let other = bench.start("echo other; sleep 62602").await;
    written(&other, "other").await;
    let stop = slow.stop(Some(20_000));
    let others = async {
        let mut slowest = Duration::ZERO;
        for _ in 0..50 {
            let began = Instant::now();
            other.status().await.expect("a status");
            bench.agent().list(List::default()).await.expect("a list");
            other.output().page().await.expect("a page");
            slowest = slowest.max(began.elapsed());
        }
        let (_, status) = bench.run("exit 0").await;
        assert_eq!(status.state, State::Exited);
        slow.stop(Some(0)).await.expect("a stop");
        slowest
    };
    let (stopped, slowest) = tokio::join!(stop, others);
    assert_eq!(stopped.expect("a stop").state, State::Stopped);
    assert!(slowest < Duration::from_secs(1), "{slowest:?}");
    bench.ended().await;
}

#[tokio::test]
async fn r27_nothing_is_added_after_the_final_state() {
    let bench = Bench::new().await;
    let process = bench.start("trap '' TERM; while :; do echo late; sleep 0.01; done").await;
    written(&process, "late").await;
    let status = process.stop(Some(100)).await.expect("a stop");
    assert_eq!(status.exit, Some(Exit::signal("SIGKILL", false)));
    let end = status.output.end;
    bench.run("sleep 0.2").await;
    let page = process.output().from(end).wait_ms(600_000).page().await.expect("a page");
    assert_eq!((page.end, page.eof, page.chunks.len()), (end, true, 0));
    assert_eq!(process.status().await.expect("a status"), status);
    bench.ended().await;
}

#[tokio::test]
async fn stops_of_many_at_once_end_all_of_them() {
    let bench = Bench::with(|_, profile| profile.limits.live_per_session = 32).await;
    let processes = join_all((0..32).map(|_| bench.start("sleep 62701 & sleep 62701"))).await;
    for status in join_all(processes.iter().map(|process| process.stop(None))).await {
        assert_eq!(status.expect("a stop").cleanup, Some(Cleanup::Confirmed));
    }
    assert!(bench.running("sleep 62701").is_empty());
    bench.ended().await;
}
