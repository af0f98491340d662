//! Deadlines and their caps, labels that change, places, waits for several, output that is followed.

use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt};
use procession::protocol::verb::wait::{Condition, WaitMode};
use procession::{Code, Exec, Handle, List, Outcome, Process, ProcessId, Reason, Spec, State, Update, Wait};
use serde_json::json;

use super::{label, labelled, live_becomes, lives, named, refused};
use crate::support::pause::spend;
use crate::support::{Bench, PATIENCE_MS, name, settled, written};

/// What `update` changes nothing with.
fn nothing() -> Update {
    Update { process_id: named(""), timeout_ms: None, label: None }
}

fn timeout(timeout_ms: u64) -> Update {
    Update { timeout_ms: Some(timeout_ms), ..nothing() }
}

async fn timed_out(process: &Process) {
    let status = settled(process).await;
    assert_eq!((status.state, status.reason), (State::TimedOut, Some(Reason::Deadline)));
}

#[tokio::test]
async fn a_deadline_is_moved_removed_and_may_already_have_passed() {
    let bench = Bench::new().await;
    let agent = bench.agent();
    let moved = agent.start(Spec { timeout_ms: Some(600_000), ..lives() }).await.expect("a start");
    let kept = agent.start(Spec { timeout_ms: Some(600), ..lives() }).await.expect("a start");
    let none = agent.start(lives()).await.expect("a start");
    assert_eq!(none.status().await.expect("a status").deadline_at, None);
    assert_eq!(kept.update(timeout(0)).await.expect("removed").deadline_at, None);
    let before = moved.status().await.expect("a status").deadline_at.expect("a deadline");
    let after = moved.update(timeout(700)).await.expect("moved").deadline_at.expect("a deadline");
    assert!(after < before, "{after} is earlier than {before}");
    timed_out(&moved).await;
    // It counts from the admission: what is younger than the new timeout lives, what is older ends.
    assert!(moved.status().await.expect("a status").runtime_ms >= 700);
    assert!(kept.status().await.expect("a status").runtime_ms >= 600);
    kept.update(timeout(1)).await.expect("already passed");
    timed_out(&kept).await;
    refused(kept.update(timeout(0)).await, Code::NotRunning);
    refused(none.update(nothing()).await, Code::InvalidArgument);
    bench.ended().await;
}

#[tokio::test]
async fn the_smallest_cap_of_host_session_and_call_is_the_timeout() {
    let bench = Bench::with(|host, session| {
        host.limits.timeout_max_ms = Some(700);
        session.limits.timeout_max_ms = Some(600_000);
    })
    .await;
    let agent = bench.agent();
    for spec in [lives(), Spec { timeout_ms: Some(0), ..lives() }, Spec { timeout_ms: Some(500_000), ..lives() }] {
        let process = agent.start(spec).await.expect("a start");
        process.update(timeout(0)).await.expect("the cap stays");
        timed_out(&process).await;
    }
    let done = agent.exec(Exec { timeout_ms: Some(50), ..Exec::command("exec sleep 86398") }).await.expect("an exec");
    assert_eq!(done.process.state, State::TimedOut);
    assert!(done.duration_ms < 700, "the call's is smaller: {}", done.duration_ms);
    bench.ended().await;
}

#[tokio::test]
async fn a_label_is_changed_unless_another_live_process_has_it() {
    let bench = Bench::new().await;
    let agent = bench.agent();
    let (web, db) = (agent.start(labelled("web")).await, agent.start(labelled("db")).await);
    let (web, db) = (web.expect("a start"), db.expect("a start"));
    let renamed = |text: &str| Update { label: Some(label(text)), ..nothing() };
    refused(db.update(renamed("web")).await, Code::Conflict);
    assert_eq!(web.update(renamed("api")).await.expect("renamed").label, Some(label("api")));
    refused(agent.process(named("web")).await, Code::UnknownProcess);
    db.update(renamed("web")).await.expect("it is free");
    assert_eq!(agent.process(named("web")).await.expect("by its new label").id(), db.id());
    web.update(renamed("api")).await.expect("its own");
    let holders = bench.host.status().await.expect("a status").places.holders;
    let labels: Vec<_> = holders.iter().filter_map(|holder| holder.label.clone()).collect();
    assert!(labels.contains(&label("api")) && labels.contains(&label("web")), "{labels:?}");
    bench.ended().await;
}

#[tokio::test]
async fn the_hosts_places_are_over_all_sessions_and_name_only_the_callers_own() {
    let bench = Bench::with(|host, _| host.limits.live_per_host = 2).await;
    let status = bench.host.status().await.expect("a status");
    assert_eq!((status.can_suspend, status.blockers.len(), status.places.limit), (true, 0, 2));
    let mine = bench.agent().start(labelled("web")).await.expect("a start");
    let other = bench.agent_of("t", "b").start(labelled("secret")).await.expect("a start");
    let error = refused(bench.agent().start(lives()).await, Code::LimitReached);
    assert_eq!((&error.details["limit"], &error.details["others"]), (&json!("limits.live_per_host"), &json!(1)));
    assert!(error.message.contains("web") && !json!(error).to_string().contains("secret"), "{error:?}");
    assert_eq!(bench.agent().list(List::default()).await.expect("a list").counts.finished, 0, "no record of it");
    let status = bench.host.status().await.expect("a status");
    let held: Vec<_> = status.places.holders.iter().map(|holder| (&holder.process_id, &holder.session)).collect();
    assert_eq!(held, [(mine.id(), &name("s")), (other.id(), &name("t"))]);
    assert_eq!((status.can_suspend, status.live, status.places.held), (false, 2, 2));
    assert_eq!(status.blockers, ["2 live"]);
    // A launch that fails gives its place back.
    other.stop(None).await.expect("a stop");
    for _ in 0..3 {
        refused(bench.agent().start(Spec::argv(["/nonexistent"])).await, Code::LaunchFailed);
    }
    bench.agent().start(lives()).await.expect("a place");
    mine.stop(None).await.expect("a stop");
    live_becomes(&bench, 1).await;
    bench.ended().await;
}

#[tokio::test]
async fn a_wait_for_several_answers_for_any_or_for_all() {
    let bench = Bench::new().await;
    let agent = bench.agent();
    let lasting = agent.start(lives()).await.expect("a start");
    let short = bench.start("exit 3").await;
    let wait = |ids: &[&ProcessId], mode, wait_ms| Wait {
        process_id: None,
        process_ids: Some(ids.iter().map(|id| Handle::from(*id)).collect()),
        mode,
        until: Condition::Exit {},
        wait_ms: Some(wait_ms),
    };
    let both = [lasting.id(), short.id()];
    let any = agent.wait(wait(&both, None, PATIENCE_MS)).await.expect("a wait");
    assert_eq!((any.outcome, &any.process.process_id), (Outcome::Satisfied, short.id()));
    let all = agent.wait(wait(&both, Some(WaitMode::All), 50)).await.expect("a wait");
    assert_eq!((all.outcome, &all.process.process_id), (Outcome::Timeout, lasting.id()));
    assert_eq!(all.processes.iter().map(|row| &row.process_id).collect::<Vec<_>>(), both);
    let waiting = agent.wait(wait(&both, Some(WaitMode::All), PATIENCE_MS));
    let (all, stopped) = tokio::join!(waiting, lasting.stop(None));
    assert_eq!((all.expect("a wait").outcome, stopped.expect("a stop").state), (Outcome::Satisfied, State::Stopped));
    refused(agent.wait(wait(&[], None, 0)).await, Code::InvalidArgument);
    let unknown = Wait { process_ids: Some(vec![Handle::from(short.id()), named("no")]), ..wait(&both, None, 0) };
    refused(agent.wait(Wait { mode: Some(WaitMode::All), ..unknown }).await, Code::UnknownProcess);
    bench.ended().await;
}

#[tokio::test]
async fn following_gives_every_byte_once_and_ends_with_the_process() {
    let bench = Bench::new().await;
    let process = bench.start("for i in $(seq 1 300); do echo line $i; [ $((i % 100)) = 0 ] && sleep 0.05; done").await;
    let wanted: String = (1..=300).map(|number| format!("line {number}\n")).collect();
    let read = |max_bytes| process.output().max_bytes(max_bytes).follow().try_collect::<Vec<_>>();
    let (small, large) = tokio::join!(read(7), read(65_536));
    for pages in [small.expect("pages"), large.expect("pages")] {
        assert_eq!(pages.iter().map(procession::Page::text).collect::<String>(), wanted);
        assert!(pages.windows(2).all(|two| two[0].next_cursor == two[1].start && !two[0].eof));
        assert!(pages.last().is_some_and(|page| page.eof && page.next_cursor == wanted.len() as u64));
        assert!(pages.iter().all(|page| page.dropped_bytes == 0));
    }
    // One that is dropped stops nothing.
    let lasting = bench.start("echo up; exec sleep 86397").await;
    written(&lasting, "up\n").await;
    let mut follow = Box::pin(lasting.output().follow());
    assert_eq!(follow.next().await.expect("a page").expect("read").text(), "up\n");
    let mut next = Box::pin(follow.next());
    assert!(super::poll_once(&mut next).await.is_pending());
    drop(next);
    drop(follow);
    assert_eq!(lasting.status().await.expect("a status").state, State::Running);
    bench.ended().await;
}

#[tokio::test]
async fn a_timeout_counts_from_the_admission_and_not_from_the_update() {
    let bench = Bench::new().await;
    let process = bench.agent().start(lives()).await.expect("a start");
    spend(Duration::from_millis(300)).await;
    process.update(timeout(600)).await.expect("moved");
    timed_out(&process).await;
    let runtime_ms = process.status().await.expect("a status").runtime_ms;
    assert!(runtime_ms >= 600, "{runtime_ms}");
    bench.ended().await;
}
