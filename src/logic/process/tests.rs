//! Calls on one process: each is answered exactly once, at the moment its answer is true.

use std::time::Duration;

use super::lifecycle::Policy;
use super::*;
use crate::logic::output::PageQuery;
use crate::protocol::output::Encoding;
use crate::protocol::state::{ContainmentKind, Proof, Signal};
use crate::protocol::verb::wait::Outcome;

fn at(ms: u64) -> Moment {
    Moment::from_ms(ms)
}

fn core(timeout_ms: Option<u64>) -> ProcessCore {
    let policy = Policy { signal: Signal::Term, grace_ms: 100, confirm_ms: 100, drain_idle_ms: 10, drain_max_ms: 50 };
    let facts = Admission {
        process_id: ProcessId::from_bits(1),
        session: SessionName::new("s").expect("a name"),
        agent: AgentName::main(),
        request: None,
        mode: Mode::Background,
        label: None,
        name: "true".into(),
        command: "true".into(),
        cwd: "/".into(),
        containment: Containment { kind: ContainmentKind::Group, why: None },
        admitted: at(0),
        admitted_at: SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000),
        timeout_ms,
        policy,
        retain_bytes: 4096,
        replaces: None,
    };
    ProcessCore::new(facts, Arc::new(Gauge::new(at(0))))
}

fn settle(core: &mut ProcessCore, ms: u64, code: i32) -> Vec<Effect> {
    let mut effects = core.live(at(ms), Input::RootEnded(Some(Exit::code(code))));
    effects.extend(core.live(at(ms), Input::Gone(Proof::GroupGone)));
    for stream in Stream::ALL {
        effects.extend(core.stream_closed(at(ms), stream));
    }
    effects
}

/// The answers among `effects`, by call.
fn answers(effects: Vec<Effect>) -> Vec<(CallId, Result<Answer, Error>)> {
    let answer = |effect| match effect {
        Effect::Answer(call, answer) => Some((call, *answer)),
        _ => None,
    };
    effects.into_iter().filter_map(answer).collect()
}

fn page(cursor: u64) -> PageQuery {
    PageQuery { cursor: Some(cursor), max_bytes: 100, stream: None, encoding: Encoding::Text }
}

fn running(timeout_ms: Option<u64>) -> ProcessCore {
    let mut core = core(timeout_ms);
    let _ = core.launched(at(1));
    core
}

#[test]
fn a_start_is_answered_when_it_runs_and_a_failed_one_with_the_step() {
    let mut good = core(None);
    assert!(answers(good.call(at(0), 1, ProcessCall::Begun)).is_empty());
    let told = answers(good.launched(at(1)));
    assert!(matches!(&told[..], [(1, Ok(Answer::Status(status)))] if status.state == State::Running), "{told:?}");

    let mut bad = core(None);
    let _ = bad.call(at(0), 1, ProcessCall::Begun);
    let failure = LaunchFailure {
        operation: "find_program".into(),
        errno: 2,
        system: "No such file or directory".into(),
        path: Some("/no".into()),
        hint: "Check the name.".into(),
    };
    let told = answers(bad.launch_failed(at(1), failure));
    let [(1, Err(error))] = &told[..] else { panic!("{told:?}") };
    assert_eq!(error.message, "could not find program /no: No such file or directory. Check the name.");
    assert_eq!(bad.status(at(1)).state, State::Failed);
}

#[test]
fn a_start_whose_caller_has_gone_is_stopped() {
    let mut core = core(None);
    let _ = core.call(at(0), 1, ProcessCall::Begun);
    let effects = core.cancel(at(0), 1);
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Act(lifecycle::Effect::Abort))), "{effects:?}");
    assert_eq!(core.status(at(0)).reason, Some(Reason::StartCancelled));
}

#[test]
fn every_stop_gets_the_same_final_status_and_a_finished_one_at_once() {
    let mut core = running(None);
    for call in 1..=3 {
        assert!(answers(core.call(at(2), call, ProcessCall::Stop(Reason::StopRequested, None))).is_empty());
    }
    let told = answers(settle(&mut core, 3, 0));
    assert_eq!(told.len(), 3);
    assert!(told.iter().all(|(_, answer)| answer == &told[0].1));
    let again = answers(core.call(at(3), 4, ProcessCall::Stop(Reason::StopRequested, Some(0))));
    assert_eq!(again[0].1, told[0].1);
}

#[test]
fn a_reader_is_answered_by_the_first_byte_the_end_or_its_time() {
    let mut core = running(None);
    assert!(answers(core.call(at(2), 1, ProcessCall::Output(page(0), 1000))).is_empty());
    let told = answers(core.output(at(3), Stream::Stdout, b"hi"));
    assert!(matches!(&told[..], [(1, Ok(Answer::Output(page)))] if page.text() == "hi" && !page.eof), "{told:?}");

    let _ = core.call(at(3), 2, ProcessCall::Output(page(2), 1000));
    assert_eq!(core.next_tick(), Some(at(1003)));
    let told = answers(core.tick(at(1003)));
    assert!(matches!(&told[..], [(2, Ok(Answer::Output(page)))] if page.chunks.is_empty()), "{told:?}");

    let _ = core.call(at(1003), 3, ProcessCall::Output(page(2), 1000));
    let told = answers(settle(&mut core, 1004, 0));
    assert!(matches!(&told[..], [(3, Ok(Answer::Output(page)))] if page.eof), "{told:?}");
}

#[test]
fn half_a_character_does_not_answer_a_reader() {
    let mut core = running(None);
    let _ = core.call(at(2), 1, ProcessCall::Output(page(0), 1000));
    assert!(answers(core.output(at(3), Stream::Stdout, &[0xf0, 0x9f])).is_empty());
    assert!(answers(core.output(at(3), Stream::Stdout, &[0x98])).is_empty());
    let told = answers(core.output(at(4), Stream::Stdout, &[0x80]));
    assert!(matches!(&told[..], [(1, Ok(Answer::Output(page)))] if page.text() == "😀"), "{told:?}");
}

#[test]
fn a_wait_looks_once_times_out_or_tells_the_end() {
    let mut core = running(None);
    let _ = core.output(at(2), Stream::Stdout, b"before ");
    let outcome = |told: &[(CallId, Result<Answer, Error>)]| match &told[0].1 {
        Ok(Answer::Wait(answer)) => (answer.outcome, answer.new_output.text.clone()),
        other => panic!("{other:?}"),
    };
    let told = answers(core.call(at(2), 1, ProcessCall::Wait(Some(0))));
    assert_eq!(outcome(&told), (Outcome::Timeout, "before ".into()));
    let _ = core.call(at(2), 2, ProcessCall::Wait(None));
    let _ = core.output(at(3), Stream::Stdout, b"after");
    assert_eq!(outcome(&answers(settle(&mut core, 4, 3))), (Outcome::Satisfied, "after".into()));
}

#[test]
fn a_status_never_tells_of_a_process_that_it_runs_past_its_deadline() {
    let mut core = running(Some(50));
    let told = answers(core.call(at(60), 1, ProcessCall::Status));
    assert!(matches!(&told[0].1, Ok(Answer::Status(status)) if status.state == State::Stopping
        && status.reason == Some(Reason::Deadline)));
}

#[test]
fn a_deadline_can_be_moved_and_removed_while_it_lives() {
    let mut core = running(Some(50));
    let _ = core.call(at(10), 1, ProcessCall::Update(Some(Some(500)), None));
    assert_eq!(core.next_tick(), Some(at(500)));
    let _ = core.call(at(10), 2, ProcessCall::Update(Some(None), None));
    assert_eq!(core.next_tick(), None);
    let _ = settle(&mut core, 20, 0);
    let told = answers(core.call(at(21), 3, ProcessCall::Update(Some(None), None)));
    assert!(matches!(&told[0].1, Err(error) if error.code == crate::protocol::error::Code::NotRunning));
}

#[test]
fn no_byte_is_added_after_the_end() {
    let mut core = running(None);
    let _ = core.output(at(2), Stream::Stdout, b"all");
    let _ = settle(&mut core, 3, 0);
    assert!(core.output(at(4), Stream::Stdout, b"late").is_empty());
    assert_eq!(core.status(at(9)).output.end, 3);
    assert_eq!(core.status(at(9)).runtime_ms, 3);
}

#[test]
fn a_cancelled_wait_leaves_nothing_behind() {
    let mut core = running(None);
    let _ = core.call(at(1), 1, ProcessCall::Wait(None));
    assert!(core.cancel(at(2), 1).is_empty());
    assert_eq!(core.parked(), 0);
    assert!(core.cancel(at(2), 1).is_empty(), "cancelling twice is nothing");
}
