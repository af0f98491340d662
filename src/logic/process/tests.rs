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
fn a_reader_of_one_stream_is_not_answered_by_a_byte_of_the_other() {
    let mut core = running(None);
    let errors = PageQuery { stream: Some(Stream::Stderr), ..page(0) };
    let _ = core.output(at(2), Stream::Stdout, b"not this");
    assert!(answers(core.call(at(2), 1, ProcessCall::Output(errors, 1000))).is_empty());
    assert!(answers(core.output(at(3), Stream::Stdout, b", nor this")).is_empty());
    let told = answers(core.output(at(4), Stream::Stderr, b"this"));
    assert!(matches!(&told[..], [(1, Ok(Answer::Output(page)))] if page.text() == "this"), "{told:?}");

    let _ = core.call(at(4), 2, ProcessCall::Output(PageQuery { cursor: Some(22), ..errors }, 1000));
    let told = answers(core.tick(at(1004)));
    assert!(matches!(&told[..], [(2, Ok(Answer::Output(page)))] if page.chunks.is_empty()), "{told:?}");
}

#[test]
fn a_cursor_beyond_the_end_is_refused_at_once_however_long_its_reader_would_wait() {
    let mut core = running(None);
    for (ms, written) in [(2, ""), (3, "x")] {
        let _ = core.output(at(ms), Stream::Stdout, written.as_bytes());
        let told = answers(core.call(at(ms), ms, ProcessCall::Output(page(2), 1000)));
        let code = crate::protocol::error::Code::CursorOutOfRange;
        assert!(matches!(&told[..], [(_, Err(error))] if error.code == code), "{written:?}: {told:?}");
    }
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

#[test]
fn cancelling_a_call_other_than_a_start_stops_nothing_and_leaves_no_timer() {
    let asks = [
        ProcessCall::Output(page(0), 1000),
        ProcessCall::Wait(Some(1000)),
        ProcessCall::Wait(None),
        ProcessCall::Exec(100),
        ProcessCall::Stop(Reason::StopRequested, None),
    ];
    for ask in asks {
        let mut core = running(None);
        let _ = core.call(at(1), 1, ask.clone());
        let before = core.status(at(2));
        assert!(core.cancel(at(2), 1).is_empty(), "{ask:?}");
        assert_eq!((core.parked(), core.status(at(2))), (0, before), "{ask:?}");
        let waits_for_kill = matches!(ask, ProcessCall::Stop(..));
        assert_eq!(core.next_tick().is_some(), waits_for_kill, "{ask:?}");
        assert!(answers(settle(&mut core, 3, 0)).is_empty(), "nobody is left to answer: {ask:?}");
    }
}

#[test]
fn a_start_that_others_wait_for_too_goes_on_when_one_of_them_goes() {
    let mut core = core(None);
    for call in [1, 2] {
        let _ = core.call(at(0), call, ProcessCall::Begun);
    }
    assert!(core.cancel(at(0), 1).is_empty());
    assert_eq!(core.status(at(0)).reason, None);
    let _ = core.cancel(at(0), 2);
    assert_eq!(core.status(at(0)).reason, Some(Reason::StartCancelled));
}

#[test]
fn a_start_that_is_stopped_while_starting_answers_that_and_not_a_failed_launch() {
    let mut core = core(None);
    let _ = core.call(at(0), 1, ProcessCall::Begun);
    let _ = core.call(at(0), 2, ProcessCall::Stop(Reason::StopRequested, None));
    let failure = LaunchFailure {
        operation: "cancelled".into(),
        errno: 0,
        system: String::new(),
        path: None,
        hint: String::new(),
    };
    let told = answers(core.launch_failed(at(1), failure));
    assert_eq!(told.len(), 2);
    for (_, answer) in &told {
        assert!(
            matches!(answer, Ok(Answer::Status(status)) if status.state == State::Stopped
            && status.reason == Some(Reason::StopRequested) && status.exit.is_none()),
            "{answer:?}"
        );
    }
}

#[test]
fn a_new_label_and_a_new_agent_show_at_once_and_a_finished_process_has_neither() {
    let mut core = running(None);
    let label = Label::new("web").expect("a label");
    let told = answers(core.call(at(1), 1, ProcessCall::Update(None, Some(label.clone()))));
    assert!(matches!(&told[0].1, Ok(Answer::Status(status)) if status.label == Some(label)));
    let agent = AgentName::new("b").expect("a name");
    let told = answers(core.call(at(1), 2, ProcessCall::Transfer(agent.clone())));
    assert!(matches!(&told[0].1, Ok(Answer::Status(status)) if status.agent == agent));
    let _ = settle(&mut core, 2, 3);
    let other = Label::new("db").expect("a label");
    let told = answers(core.call(at(3), 3, ProcessCall::Update(None, Some(other))));
    let Err(error) = &told[0].1 else { panic!("{told:?}") };
    assert!(error.message.contains("exit code 3") && error.details["exit"]["code"] == 3, "{error:?}");
    assert_eq!(core.status(at(3)).label.map(String::from).as_deref(), Some("web"));
}

#[test]
fn a_deadline_moved_into_the_past_ends_the_process_at_once() {
    let mut core = running(None);
    let told = answers(core.call(at(100), 1, ProcessCall::Update(Some(Some(50)), None)));
    assert!(matches!(&told[0].1, Ok(Answer::Status(status)) if status.state == State::Stopping
        && status.reason == Some(Reason::Deadline)));
}

#[test]
fn an_exit_is_told_once_settled_and_not_before() {
    let mut core = running(None);
    let _ = core.live(at(1), Input::RootEnded(Some(Exit::code(7))));
    let status = core.status(at(1));
    assert_eq!((status.settling, status.exit, status.state), (true, None, State::Running));
    let _ = core.live(at(1), Input::Gone(Proof::GroupGone));
    for stream in Stream::ALL {
        let _ = core.stream_closed(at(1), stream);
    }
    let status = core.status(at(9));
    assert_eq!((status.settling, status.exit, status.state), (false, Some(Exit::code(7)), State::Failed));
}

#[test]
fn a_wait_is_unavailable_while_uncertain_and_satisfied_after_proof() {
    let mut core = running(None);
    let _ = core.call(at(1), 1, ProcessCall::Wait(None));
    let _ = core.call(at(1), 2, ProcessCall::Stop(Reason::StopRequested, Some(0)));
    let _ = core.tick(at(101));
    let mut effects = core.tick(at(1101));
    for stream in Stream::ALL {
        effects.extend(core.stream_closed(at(1101), stream));
    }
    let outcome = |answer: &Result<Answer, Error>| match answer {
        Ok(Answer::Wait(answer)) => (answer.outcome, answer.observation.cleanup, answer.process.cleanup),
        other => panic!("{other:?}"),
    };
    let told = answers(effects);
    let unproven = Some(Cleanup::Uncertain);
    assert_eq!(told.len(), 2);
    assert_eq!(outcome(&told[0].1), (Outcome::Unavailable, unproven, unproven));
    assert_eq!(outcome(&answers(core.call(at(1102), 3, ProcessCall::Wait(None)))[0].1).0, Outcome::Unavailable);
    assert!(core.summary().holds_place());

    let _ = core.live(at(2000), Input::RootEnded(Some(Exit::signal("SIGKILL", false))));
    let published = core.live(at(2000), Input::Gone(Proof::GroupGone));
    assert!(matches!(&published[..], [Effect::Publish(summary)] if !summary.holds_place()), "{published:?}");
    let told = answers(core.call(at(2001), 4, ProcessCall::Wait(None)));
    assert_eq!(outcome(&told[0].1), (Outcome::Satisfied, Some(Cleanup::Confirmed), None));
    let status = core.status(at(3000));
    assert_eq!((status.state, status.exit), (State::Stopped, Some(Exit::signal("SIGKILL", false))));
    assert_eq!(status.runtime_ms, 1101, "it ended when it settled");
}

/// The advice after a foreground command that wrote so much and ended with `code`, and whether at its timeout.
fn check_advice(code: i32, written: usize, timed_out: bool, expected: &[&str]) {
    let mut core = running(timed_out.then_some(50));
    let _ = core.output(at(2), Stream::Stdout, &vec![b'x'; written]);
    let _ = core.call(at(3), 1, ProcessCall::Exec(100));
    let told = answers(settle(&mut core, 50, code));
    let Ok(Answer::Exec(answer)) = &told[0].1 else { panic!("{told:?}") };
    let advice = answer.advice.clone().unwrap_or_default();
    assert_eq!(advice.is_empty(), expected.is_empty(), "{advice}");
    assert!(expected.iter().all(|part| advice.contains(part)), "{advice}");
}

#[test]
fn advice_is_given_where_the_next_step_depends_on_it() {
    check_advice(0, 10, false, &[]);
    check_advice(1, 10, false, &[]);
    check_advice(126, 0, false, &["could not execute"]);
    check_advice(127, 0, false, &["did not find"]);
    check_advice(0, 10, true, &["timeout"]);
    check_advice(127, 300, false, &["did not find", "200 earlier bytes", "from cursor 0"]);
    check_advice(0, 5000, false, &["3996 earlier bytes", "from cursor 904"]);
}

#[test]
fn calls_at_one_process_are_each_answered_once_at_its_end() {
    let mut core = running(None);
    let asks = [
        ProcessCall::Output(page(0), 1000),
        ProcessCall::Wait(Some(1000)),
        ProcessCall::Exec(100),
        ProcessCall::Stop(Reason::StopRequested, None),
    ];
    for (call, ask) in asks.into_iter().enumerate() {
        assert!(answers(core.call(at(2), call as u64, ask)).is_empty());
    }
    let mut answered: Vec<CallId> = answers(settle(&mut core, 3, 0)).into_iter().map(|(call, _)| call).collect();
    answered.sort_unstable();
    assert_eq!((answered, core.parked(), core.next_tick()), (vec![0, 1, 2, 3], 0, None));
    assert!(core.tick(at(5000)).is_empty());
}
