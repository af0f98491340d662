//! What takes another's place: restarts, labels that are taken, the same start twice.

use futures_util::future::join_all;
use procession::protocol::spec::OnConflict;
use procession::{Code, Exec, Reason, Spec, State};

use super::{label, labelled, lives, named, poll_once, refused};
use crate::support::{Bench, settled};

fn on_conflict(spec: Spec, rule: OnConflict) -> Spec {
    Spec { on_conflict: Some(rule), ..spec }
}

#[tokio::test]
async fn a_restart_takes_the_same_place_at_the_limit_and_names_whom_it_replaces() {
    let bench = Bench::with(|_, session| session.limits.live_per_session = 1).await;
    let old = bench.agent().start(labelled("web")).await.expect("a start");
    refused(bench.agent().start(lives()).await, Code::LimitReached);
    for _ in 0..3 {
        let old = bench.agent().process(named("web")).await.expect("the newest by its label");
        let new = old.restart().await.expect("a restart");
        let (was, is) = (old.status().await.expect("a status"), new.status().await.expect("a status"));
        assert_ne!(old.id(), new.id());
        assert_eq!((was.state, was.reason), (State::Stopped, Some(Reason::StopRequested)));
        assert_eq!((is.state, is.replaces.as_ref(), is.label), (State::Running, Some(old.id()), Some(label("web"))));
        assert_eq!(bench.host.status().await.expect("a status").places.held, 1);
    }
    assert_eq!(old.status().await.expect("a status").state, State::Stopped);
    bench.ended().await;
}

#[tokio::test]
async fn restarts_at_the_same_time_answer_the_same_new_process() {
    let bench = Bench::with(|_, session| session.limits.live_per_session = 1).await;
    let old = bench.agent().start(lives()).await.expect("a start");
    let answers = join_all((0..5).map(|_| old.restart())).await;
    let ids: Vec<_> = answers.into_iter().map(|answer| answer.expect("a restart").id().clone()).collect();
    assert!(ids.iter().all(|id| *id == ids[0] && id != old.id()), "{ids:?}");
    assert_eq!(bench.host.status().await.expect("a status").live, 1);
    bench.ended().await;
}

#[tokio::test]
async fn a_finished_process_restarts_where_there_is_a_place() {
    let bench = Bench::with(|_, session| session.limits.live_per_session = 1).await;
    let (old, _) = bench.run("echo again").await;
    let new = old.restart().await.expect("a restart");
    assert_eq!(new.status().await.expect("a status").replaces.as_ref(), Some(old.id()));
    settled(&new).await;
    assert_eq!(crate::support::text(&new).await, "again\n");
    let taken = bench.agent().start(lives()).await.expect("a start");
    refused(old.restart().await, Code::LimitReached);
    taken.stop(None).await.expect("a stop");
    settled(&old.restart().await.expect("a place again")).await;
    bench.ended().await;
}

#[tokio::test]
async fn a_taken_label_is_refused_reused_replaced_or_allowed() {
    let bench = Bench::new().await;
    let agent = bench.agent();
    let first = agent.start(labelled("web")).await.expect("a start");
    let error = refused(agent.start(on_conflict(labelled("web"), OnConflict::Refuse)).await, Code::Conflict);
    assert_eq!(error.details["holder"], first.id().to_string());
    let reused = agent.start(on_conflict(labelled("web"), OnConflict::Reuse)).await.expect("the same");
    assert_eq!(reused.id(), first.id());
    let replacing = agent.start(on_conflict(labelled("web"), OnConflict::Replace)).await.expect("another");
    let status = replacing.status().await.expect("a status");
    assert_eq!((status.state, status.replaces.as_ref()), (State::Running, Some(first.id())));
    assert_eq!(first.status().await.expect("a status").state, State::Stopped);
    let second = agent.start(on_conflict(labelled("web"), OnConflict::Allow)).await.expect("two of a name");
    assert_eq!(bench.host.status().await.expect("a status").live, 2);
    assert_eq!(agent.process(named("web")).await.expect("the newest").id(), second.id());
    // Another agent's label is no conflict.
    let other = bench.agent_of("s", "b").start(on_conflict(labelled("web"), OnConflict::Refuse)).await;
    assert_ne!(other.expect("a start").id(), second.id());
    bench.ended().await;
}

#[tokio::test]
async fn starts_that_replace_each_other_at_the_same_time_leave_one() {
    let bench = Bench::with(|_, session| session.limits.live_per_session = 1).await;
    let agent = bench.agent();
    let starts = (0..6).map(|_| agent.start(on_conflict(labelled("web"), OnConflict::Replace)));
    let mut all = Vec::new();
    for answer in join_all(starts).await {
        all.push(answer.expect("a start"));
    }
    let mut states = Vec::new();
    for process in &all {
        states.push(process.status().await.expect("a status").state);
    }
    assert_eq!(states.iter().filter(|state| **state == State::Running).count(), 1, "{states:?}");
    assert_eq!(bench.host.status().await.expect("a status").live, 1);
    bench.ended().await;
}

#[tokio::test]
async fn a_restart_and_a_replacement_at_the_same_time_both_get_an_answer() {
    let bench = Bench::with(|_, session| session.limits.live_per_session = 2).await;
    let agent = bench.agent();
    for _ in 0..5 {
        let old = agent.start(on_conflict(labelled("web"), OnConflict::Replace)).await.expect("a start");
        let replace = agent.start(on_conflict(labelled("web"), OnConflict::Replace));
        let (replacing, restarted) = tokio::join!(replace, old.restart());
        let (replacing, restarted) = (replacing.expect("a start"), restarted.expect("a restart"));
        assert_ne!(replacing.id(), restarted.id());
        assert_eq!(restarted.status().await.expect("a status").replaces.as_ref(), Some(old.id()));
        restarted.stop(None).await.expect("a stop");
        replacing.stop(None).await.expect("a stop");
    }
    bench.ended().await;
}

#[tokio::test]
async fn the_same_start_id_answers_the_same_process_and_another_start_under_it_is_refused() {
    let bench = Bench::new().await;
    let agent = bench.agent();
    let spec = Spec { start_id: Some("a-1".to_owned()), ..lives() };
    // At the same time, and later.
    let answers = join_all((0..5).map(|_| agent.start(spec.clone()))).await;
    let ids: Vec<_> = answers.into_iter().map(|answer| answer.expect("a start").id().clone()).collect();
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    let again = agent.start(spec.clone()).await.expect("the same");
    assert_eq!(again.id(), &ids[0]);
    assert_eq!(bench.host.status().await.expect("a status").live, 1);
    let other = Spec { command: Some("true".to_owned()), argv: None, ..spec.clone() };
    let error = refused(agent.start(other).await, Code::Conflict);
    assert_eq!(error.details["field"], "start_id");
    refused(bench.agent_of("s", "b").start(spec.clone()).await, Code::Conflict);
    let exec = Exec { argv: spec.argv.clone(), start_id: spec.start_id.clone(), ..Exec::default() };
    refused(agent.exec(exec).await, Code::Conflict);
    // While its record is kept, also after its end; then the id is free.
    again.stop(None).await.expect("a stop");
    let ended = agent.start(spec.clone()).await.expect("the same");
    assert_eq!((ended.id(), ended.status().await.expect("a status").state), (&ids[0], State::Stopped));
    ended.clear().await.expect("forgotten");
    assert_ne!(agent.start(spec).await.expect("a new one").id(), &ids[0]);
    bench.ended().await;
}

#[tokio::test]
async fn a_start_that_is_asked_for_twice_goes_on_while_one_of_the_askers_stays() {
    let bench = Bench::new().await;
    let agent = bench.agent();
    for attempt in 0..20_u32 {
        let spec = Spec { start_id: Some(format!("b-{attempt}")), ..lives() };
        let mut gone = Box::pin(agent.start(spec.clone()));
        let mut stays = Box::pin(agent.start(spec));
        assert!(poll_once(&mut gone).await.is_pending() && poll_once(&mut stays).await.is_pending());
        for _ in 0..attempt {
            tokio::task::yield_now().await;
        }
        drop(gone);
        let process = stays.await.expect("a start");
        // A round through the session: what was told to it before has been heard.
        process.wait(Some(1)).await.expect("a wait");
        assert_eq!(process.status().await.expect("a status").state, State::Running, "attempt {attempt}");
        process.stop(None).await.expect("a stop");
    }
    bench.ended().await;
}
