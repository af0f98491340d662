//! Nothing gets away: programs that use every way out known to us are stopped, and when `stop` has returned nothing of
//! them is left. `PROCESSION_TEST_ROUNDS=200 cargo test --test tree` is the full run.
//!
//! With in-process launches there is nothing to test here: who leaves the group is out of reach, and is said to be.

#![cfg(target_os = "linux")]

mod support;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use procession::{Cleanup, Code, ContainmentKind, Process, Proof, Reason, Spec, State, Status};
use support::census::{alive, carrying, descendants};
use support::probe::{probe, rounds};
use support::{Bench, PATIENCE_MS, guarded, settled};

/// The variable that tells one adversary's processes from another's.
const ADVERSARY: &str = "PROCESSION_TEST_ADVERSARY";

/// A behaviour of the probe and how many processes say that they are up.
struct Adversary {
    behaviour: &'static str,
    number: u32,
    ups: usize,
    /// Milliseconds between TERM and KILL.
    grace_ms: u64,
}

const ADVERSARIES: &[Adversary] = &[
    Adversary { behaviour: "setsid", number: 1, ups: 2, grace_ms: 5000 },
    Adversary { behaviour: "daemon", number: 1, ups: 2, grace_ms: 5000 },
    Adversary { behaviour: "ignore", number: 1, ups: 2, grace_ms: 20 },
    Adversary { behaviour: "stop_itself", number: 1, ups: 2, grace_ms: 5000 },
    Adversary { behaviour: "jobs", number: 5, ups: 11, grace_ms: 20 },
    Adversary { behaviour: "respawn", number: 8, ups: 9, grace_ms: 20 },
    Adversary { behaviour: "reparent", number: 20, ups: 21, grace_ms: 5000 },
    Adversary { behaviour: "deep", number: 100, ups: 100, grace_ms: 5000 },
    Adversary { behaviour: "wide", number: 100, ups: 100, grace_ms: 5000 },
    Adversary { behaviour: "bomb", number: 7, ups: 128, grace_ms: 20 },
];

static COUNT: AtomicU64 = AtomicU64::new(0);

/// A start of the probe, and what its processes carry in their environment.
fn spec(behaviour: &str, number: u32, grace_ms: u64) -> (Spec, String) {
    let name = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let env = BTreeMap::from([(ADVERSARY.to_owned(), Some(name.clone()))]);
    let argv = [probe(), behaviour, &number.to_string()].map(str::to_owned);
    let spec = Spec { env: Some(env), grace_ms: Some(grace_ms), ..Spec::argv(argv) };
    (spec, format!("{ADVERSARY}={name}"))
}

/// Starts the probe, and waits until so many of its processes are in their places.
async fn begun(bench: &Bench, behaviour: &str, number: u32, ups: usize, grace_ms: u64) -> (Process, String) {
    let (spec, mark) = spec(behaviour, number, grace_ms);
    let process = bench.agent_of(behaviour, "main").start(spec).await.expect("the probe starts");
    let (mut cursor, mut text) = (0, String::new());
    while text.matches("up\n").count() < ups {
        let page = process.output().from(cursor).wait_ms(PATIENCE_MS).page().await.expect("a page");
        assert!(page.next_cursor > cursor, "{behaviour}: {ups} were to come up; there is {text:?}");
        text += &page.text();
        cursor = page.next_cursor;
    }
    (process, mark)
}

/// It is over, the kernel said so, and nobody is there.
fn check(behaviour: &str, status: &Status, mark: &str) {
    assert_eq!(status.cleanup, Some(Cleanup::Confirmed), "{behaviour}: {status:?}");
    assert_eq!(status.proof, Some(Proof::NoChildren), "{behaviour}: {status:?}");
    assert_eq!(carrying(mark), [0; 0], "{behaviour}: nobody is left when the call has returned");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_is_left_when_a_stop_returns() {
    if !guarded() {
        return;
    }
    let bench = Bench::new().await;
    for _ in 0..rounds() {
        // All at once: each is the load under which the others are stopped.
        let each = ADVERSARIES.iter().map(async |it| {
            let (process, mark) = begun(&bench, it.behaviour, it.number, it.ups, it.grace_ms).await;
            assert!(!carrying(&mark).is_empty(), "{}: the census sees them", it.behaviour);
            let status = process.stop(None).await.expect("a stop");
            assert_eq!(status.state, State::Stopped, "{}: {status:?}", it.behaviour);
            check(it.behaviour, &status, &mark);
        });
        futures_util::future::join_all(each).await;
    }
    bench.ended().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_descendants_deep_and_wide_are_ended() {
    if !guarded() {
        return;
    }
    let bench = Bench::new().await;
    for behaviour in ["deep", "wide"] {
        let (process, mark) = begun(&bench, behaviour, 500, 500, 5000).await;
        assert_eq!(carrying(&mark).len(), 500);
        check(behaviour, &process.stop(None).await.expect("a stop"), &mark);
    }
    bench.ended().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_root_leaves_behind_in_other_sessions_is_ended_after_it() {
    if !guarded() {
        return;
    }
    let bench = Bench::new().await;
    for _ in 0..rounds() {
        let (spec, mark) = spec("leave", 5, 20);
        let process = bench.agent().start(spec).await.expect("the probe starts");
        let status = settled(&process).await;
        assert_eq!((status.state, status.reason), (State::Failed, Some(Reason::Exit)), "{status:?}");
        assert_eq!(status.exit.as_ref().and_then(|exit| exit.code), Some(3), "the root's own end is what is told");
        assert!(status.warnings.iter().any(|warning| warning.contains("5 processes")), "{:?}", status.warnings);
        check("leave", &status, &mark);
    }
    bench.ended().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pipe_held_from_outside_delays_no_proof() {
    if !guarded() {
        return;
    }
    let bench = Bench::new().await;
    let (process, mark) = begun(&bench, "setsid", 1, 2, 5000).await;
    let root = carrying(&mark)[0];
    // We are the outsider: a writer of its output whom nobody stops.
    let held = std::fs::File::options().write(true).open(format!("/proc/{root}/fd/1")).expect("its output");
    let status = process.stop(None).await.expect("a stop");
    check("setsid", &status, &mark);
    drop(held);
    bench.ended().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guardian_that_is_killed_takes_its_tree_with_it_and_nothing_else() {
    if !guarded() {
        return;
    }
    let bench = Bench::new().await;
    let bystander = bench.start("exec sleep 71301").await;
    for _ in 0..rounds() {
        let (process, mark) = begun(&bench, "reparent", 5, 6, 5000).await;
        let guardian = guardian_of(&mark);
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(guardian), nix::sys::signal::Signal::SIGKILL)
            .expect("it is killed");
        let status = settled(&process).await;
        check("reparent", &status, &mark);
        assert_eq!(bystander.status().await.expect("a status").state, State::Running);
    }
    bystander.stop(None).await.expect("a stop");
    bench.ended().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_is_killed_costs_no_process_and_is_replaced() {
    if !guarded() {
        return;
    }
    let bench = Bench::new().await;
    for round in 0..rounds() {
        let (process, mark) = begun(&bench, "reparent", 5, 6, 5000).await;
        let broker = parent_of(guardian_of(&mark));
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(broker), nix::sys::signal::Signal::SIGKILL)
            .expect("it is killed");
        while alive(broker) {
            support::pause::look_again().await;
        }
        // One that was on its way may fail, and then by name; it is never run twice.
        let after = loop {
            match bench.agent().start(Spec::argv(["sleep", "71302"])).await {
                Ok(process) => break process,
                Err(error) => {
                    assert_eq!(error.code, Code::LaunchFailed, "{error:?}");
                    assert!(error.message.contains("broker") && error.retryable, "{error:?}");
                }
            }
        };
        assert_eq!(bench.running("sleep 71302").len(), 1, "round {round}");
        assert_eq!(process.status().await.expect("a status").state, State::Running, "the old one goes on");
        check("reparent", &process.stop(None).await.expect("a stop"), &mark);
        assert_eq!(after.stop(None).await.expect("a stop").proof, Some(Proof::NoChildren));
    }
    bench.ended().await;
}

/// The guardian above the processes that carry `mark`.
fn guardian_of(mark: &str) -> i32 {
    let below_us = descendants(std::process::id().cast_signed());
    let guards = below_us.iter().filter(|(_, name, _)| name == "procession-guar");
    let above = |guardian: &i32| {
        let below = descendants(*guardian);
        carrying(mark).iter().any(|member| below.iter().any(|(pid, ..)| pid == member))
    };
    guards.map(|(pid, ..)| *pid).find(above).expect("they have a guardian")
}

fn parent_of(pid: i32) -> i32 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it is there");
    let (_, after) = stat.rsplit_once(") ").expect("a stat");
    after.split(' ').nth(1).and_then(|parent| parent.parse().ok()).expect("a parent")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_init_that_comes_after_the_first_thread_is_refused_and_said_to_be_why() {
    let error = procession::init().expect_err("this program has threads");
    assert_eq!(error.code, Code::ContainmentUnavailable, "{error:?}");
    let error = procession::Host::builder().start().await.expect_err("guardians are required");
    assert_eq!(error.code, Code::ContainmentUnavailable, "{error:?}");
    for remedy in ["other threads", "procession::init()", "procession-guardian", "containment.require = \"group\""] {
        assert!(error.message.contains(remedy), "{remedy}: {}", error.message);
    }
    let bench = Bench::with(|host, profile| {
        host.broker.path = None;
        profile.containment_require = ContainmentKind::Group;
    })
    .await;
    let containment = bench.host.status().await.expect("a status").containment;
    assert_eq!(containment.kind, ContainmentKind::Group);
    assert!(containment.why.as_ref().is_some_and(|why| why.contains("other threads")), "{containment:?}");
    let process = bench.start("exec sleep 71303").await;
    assert_eq!(process.stop(None).await.expect("a stop").proof, Some(Proof::GroupGone));
    bench.ended().await;
}
