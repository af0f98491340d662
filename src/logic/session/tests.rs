//! The rules of one session, each by name: what may start, who sees what, what a handle names.

use std::time::Duration;

use super::*;
use crate::protocol::call::{Caller, Origin};
use crate::protocol::id::Handle;
use crate::protocol::settings::*;
use crate::protocol::spec::OnConflict;
use crate::protocol::state::{Cleanup, ContainmentKind, Exit, Signal, State};

pub(super) const OPERATOR: Caller = Caller::Operator;

pub(super) fn at(ms: u64) -> Moment {
    Moment::from_ms(ms)
}

pub(super) fn agent(name: &str) -> AgentName {
    AgentName::new(name).expect("a name")
}

pub(super) fn by(name: &str) -> Caller {
    Caller::Agent(agent(name))
}

pub(super) fn id(bits: u128) -> ProcessId {
    ProcessId::from_bits(bits)
}

pub(super) fn handle(text: &str) -> Handle {
    Handle(text.to_owned())
}

pub(super) fn of(bits: u128) -> Handle {
    Handle::from(&id(bits))
}

pub(super) fn settings(live_per_session: u32, finished_per_session: u32) -> Arc<SessionSettings> {
    Arc::new(SessionSettings {
        directory: None,
        limits: SessionLimits {
            live_per_session,
            finished_per_session,
            parked_calls_per_session: 10,
            timeout_max_ms: None,
        },
        output: OutputSettings {
            retain_bytes: 4096,
            page_bytes: 4096,
            wait_for_reader: false,
            drain_idle_ms: 250,
            drain_max_ms: 5000,
        },
        exec: ExecSettings { timeout_ms: 0, max_output_bytes: 4096 },
        start_timeout_ms: 0,
        stop: StopSettings { grace_ms: 5000, confirm_ms: 4000, signal: Signal::Term },
        shell: vec!["sh".into(), "-c".into()],
        env: EnvSettings { inherit: EnvInherit::None, pass: Vec::new(), deny: Vec::new() },
        cwd_outside: false,
        containment_require: ContainmentKind::Group,
    })
}

pub(super) fn session(live: u32, finished: u32) -> SessionCore {
    let name = SessionName::new("s").expect("a name");
    SessionCore::new(name, settings(live, finished), "/".into(), SystemTime::UNIX_EPOCH)
}

pub(super) fn labelled(label: &str) -> Spec {
    Spec { label: (!label.is_empty()).then(|| Label::new(label).expect("a label")), ..Spec::command("sleep 1") }
}

pub(super) fn ask(bits: u128, caller: Caller, spec: Spec) -> Ask {
    Ask {
        origin: Origin { session: SessionName::new("s").expect("a name"), caller, request: None },
        process_id: id(bits),
        mode: Mode::Background,
        spec: Arc::new(spec),
        at: SystemTime::UNIX_EPOCH + Duration::from_secs(1),
    }
}

/// Starts process `bits` at `bits` milliseconds.
pub(super) fn start(core: &mut SessionCore, bits: u128, caller: Caller, label: &str) -> ProcessId {
    let admitted = core.admit(at(bits as u64), &ask(bits, caller, labelled(label)));
    assert_eq!(admitted, Ok(Admitted::New));
    id(bits)
}

pub(super) fn summary(cleanup: Cleanup) -> Summary {
    Summary {
        state: State::Exited,
        settled: true,
        exit: Some(Exit::code(0)),
        cleanup: Some(cleanup),
        ended: Some(at(100)),
    }
}

/// Process `bits` settles; what it leads to is done, as the session's actor does it.
pub(super) fn settle(core: &mut SessionCore, bits: u128, cleanup: Cleanup) -> Told {
    let told = core.told(&id(bits), summary(cleanup));
    for id in &told.forget {
        core.drop_record(id);
    }
    told
}

pub(super) fn confirmed(core: &mut SessionCore, bits: u128) -> Told {
    settle(core, bits, Cleanup::Confirmed)
}

/// The error, whose code is `code`.
pub(super) fn check<T: std::fmt::Debug>(got: Result<T, Error>, code: Code) -> Error {
    let error = got.expect_err("should be refused");
    assert_eq!(error.code, code, "{error:?}");
    error
}

fn found(core: &SessionCore, caller: &Caller, text: &str) -> Result<ProcessId, Error> {
    core.find(caller, &handle(text)).map(|record| record.process_id.clone())
}

#[test]
fn a_refusal_names_the_limit_its_value_the_own_holders_and_counts_the_others() {
    let mut core = session(3, 10);
    start(&mut core, 1, by("a"), "web");
    start(&mut core, 2, by("b"), "secret");
    start(&mut core, 3, by("a"), "");
    let error = check(core.admit(at(5001), &ask(4, by("a"), labelled(""))), Code::LimitReached);
    assert_eq!(
        (error.details["limit"].as_str(), error.details["value"].as_u64(), error.details["others"].as_u64()),
        (Some("limits.live_per_session"), Some(3), Some(1))
    );
    let holders = error.details["holders"].as_array().expect("a list");
    assert_eq!(holders.len(), 2);
    assert_eq!((holders[0]["label"].as_str(), holders[0]["age_ms"].as_u64()), (Some("web"), Some(5000)));
    assert!(error.message.contains("(web) for 5 s") && error.message.contains("1 of others"), "{}", error.message);
    assert!(!error.message.contains("secret") && !error.details["holders"].to_string().contains("secret"));
    assert!(error.retryable);
    let error = check(core.admit(at(5001), &ask(4, by("c"), labelled(""))), Code::LimitReached);
    assert!(error.message.contains("none of them is yours; 3 of others"), "{}", error.message);
}

#[test]
fn a_refusal_stays_short_however_many_places_there_are() {
    let mut core = session(1000, 10);
    for bits in 1..=1000 {
        start(&mut core, bits, by("a"), "");
    }
    let error = check(core.admit(at(2000), &ask(1001, by("a"), labelled(""))), Code::LimitReached);
    assert!(error.message.contains("980 more of yours") && error.message.len() < 2000, "{}", error.message);
    assert_eq!(error.details["holders"].as_array().map(Vec::len), Some(100));
}

#[test]
fn a_place_comes_back_with_proof_only() {
    let mut core = session(1, 10);
    start(&mut core, 1, by("a"), "");
    assert!(!settle(&mut core, 1, Cleanup::Uncertain).freed);
    let error = check(core.admit(at(2), &ask(2, by("a"), labelled(""))), Code::LimitReached);
    assert_eq!(error.details["holders"][0]["uncertain"], true);
    assert!(confirmed(&mut core, 1).freed);
    start(&mut core, 2, by("a"), "");
    core.refused(&id(2));
    start(&mut core, 3, by("a"), "");
    assert_eq!(core.places_held(), 1);
}

#[test]
fn a_label_that_a_live_process_has_is_answered_as_the_caller_asks() {
    let mut core = session(9, 9);
    start(&mut core, 1, by("a"), "web");
    let mut asked =
        |bits, on_conflict| core.admit(at(4001), &ask(bits, by("a"), Spec { on_conflict, ..labelled("web") }));
    let error = check(asked(2, Some(OnConflict::Refuse)), Code::Conflict);
    assert_eq!(
        (error.details["field"].as_str(), error.details["holder"].as_str()),
        (Some("label"), Some(id(1).as_str()))
    );
    assert!(error.message.contains("starting for 4 s"), "{}", error.message);
    assert_eq!(asked(2, Some(OnConflict::Reuse)), Ok(Admitted::Existing(id(1))));
    assert_eq!(asked(2, Some(OnConflict::Replace)), Ok(Admitted::Replace(id(1))));
    assert_eq!(asked(2, Some(OnConflict::Allow)), Ok(Admitted::New));
    assert_eq!(asked(3, None), Ok(Admitted::New), "allowed where nothing is said");
    assert_eq!(asked(4, Some(OnConflict::Reuse)), Ok(Admitted::Existing(id(3))), "the newest");
}

#[test]
fn labels_of_other_agents_of_finished_and_of_removed_processes_do_not_conflict() {
    let mut core = session(9, 9);
    start(&mut core, 1, by("b"), "web");
    start(&mut core, 2, by("a"), "web");
    confirmed(&mut core, 2);
    start(&mut core, 3, by("a"), "web");
    core.remove(&by("a"), &of(3)).expect("is taken");
    let spec = Spec { on_conflict: Some(OnConflict::Refuse), ..labelled("web") };
    assert_eq!(core.admit(at(9), &ask(4, by("a"), spec)), Ok(Admitted::New));
}

#[test]
fn a_new_label_may_not_be_that_of_another_live_process_of_the_same_agent() {
    let mut core = session(9, 9);
    for (bits, who, label) in [(1, "a", "web"), (2, "a", "db"), (3, "b", "web")] {
        start(&mut core, bits, by(who), label);
    }
    let label = |text| Label::new(text).expect("a label");
    check(core.check_label(at(9), &id(2), &label("web")), Code::Conflict);
    assert_eq!(core.check_label(at(9), &id(1), &label("web")), Ok(()), "its own");
    assert_eq!(core.check_label(at(9), &id(3), &label("db")), Ok(()), "another agent's");
    confirmed(&mut core, 1);
    assert_eq!(core.check_label(at(9), &id(2), &label("web")), Ok(()), "a finished one's");
    core.set_label(&id(2), label("web"));
    assert_eq!(found(&core, &by("a"), "web"), Ok(id(2)));
}

#[test]
fn a_start_id_answers_the_same_process_while_its_record_is_kept() {
    let mut core = session(9, 9);
    let spec = |command: &str| Spec { start_id: Some("once".into()), ..Spec::command(command) };
    let same = |bits| ask(bits, by("a"), spec("x"));
    assert_eq!(core.admit(at(0), &same(1)), Ok(Admitted::New));
    assert_eq!(core.admit(at(0), &same(2)), Ok(Admitted::Existing(id(1))));
    let foreground = Ask { mode: Mode::Foreground, ..same(2) };
    for other in [ask(2, by("a"), spec("y")), ask(2, by("b"), spec("x")), foreground] {
        let error = check(core.admit(at(0), &other), Code::Conflict);
        assert_eq!(error.details["field"], "start_id");
    }
    confirmed(&mut core, 1);
    assert_eq!(core.admit(at(0), &same(2)), Ok(Admitted::Existing(id(1))), "a finished one too");
    core.drop_record(&id(1));
    assert_eq!(core.admit(at(0), &same(2)), Ok(Admitted::New));
}

#[test]
fn a_start_id_is_answered_at_the_limit_too_and_survives_a_restart() {
    let mut core = session(1, 9);
    let spec = Spec { start_id: Some("once".into()), ..Spec::command("x") };
    let same = |bits| ask(bits, by("a"), spec.clone());
    assert_eq!(core.admit(at(0), &same(1)), Ok(Admitted::New));
    assert_eq!(core.admit(at(0), &same(2)), Ok(Admitted::Existing(id(1))));
    confirmed(&mut core, 1);
    assert_eq!(core.succeed(at(1), &same(2), &id(1)), Ok(()));
    core.drop_record(&id(1));
    assert_eq!(core.admit(at(2), &same(3)), Ok(Admitted::Existing(id(2))));
    assert_eq!(core.record(&id(2)).and_then(|record| record.replaces.clone()), Some(id(1)));
}

#[test]
fn what_takes_anothers_place_belongs_to_the_same_agent_whoever_asks() {
    let mut core = session(1, 9);
    start(&mut core, 1, by("a"), "");
    confirmed(&mut core, 1);
    core.succeed(at(1), &ask(2, OPERATOR, labelled("")), &id(1)).expect("the place is there");
    assert_eq!(core.record(&id(2)).map(|record| record.agent.clone()), Some(agent("a")));
    check(core.again(at(1), &ask(3, OPERATOR, labelled("")), &id(1)), Code::LimitReached);
    confirmed(&mut core, 2);
    assert_eq!(core.again(at(1), &ask(3, OPERATOR, labelled("")), &id(1)), Ok(()));
}

#[test]
fn what_the_operator_starts_belongs_to_main() {
    let mut core = session(9, 9);
    start(&mut core, 1, OPERATOR, "");
    assert_eq!(found(&core, &by("main"), id(1).as_str()), Ok(id(1)));
    check(found(&core, &by("a"), id(1).as_str()), Code::UnknownProcess);
}

#[test]
fn a_label_names_the_live_process_else_the_newest() {
    let mut core = session(9, 9);
    for bits in 1..=3 {
        start(&mut core, bits, by("a"), "web");
    }
    confirmed(&mut core, 3);
    assert_eq!(found(&core, &by("a"), "web"), Ok(id(2)), "the newest live one");
    confirmed(&mut core, 1);
    confirmed(&mut core, 2);
    assert_eq!(found(&core, &by("a"), "web"), Ok(id(3)), "the newest");
}

#[test]
fn another_agents_process_is_unknown_and_the_answer_lists_the_callers_own() {
    let mut core = session(9, 9);
    start(&mut core, 1, by("a"), "web");
    start(&mut core, 2, by("b"), "secret");
    for text in [id(2).as_str(), "secret", id(9).as_str(), "No Label", "", "p-short"] {
        let error = check(found(&core, &by("a"), text), Code::UnknownProcess);
        assert!(error.message.contains("(web)") && !error.details["known"].to_string().contains("secret"), "{error:?}");
    }
    let error = check(found(&core, &by("c"), "web"), Code::UnknownProcess);
    assert!(error.message.contains("there is none"), "{}", error.message);
    assert_eq!(found(&core, &OPERATOR, "secret"), Ok(id(2)));
}

#[test]
fn an_agent_opened_to_see_its_session_sees_all_and_prefers_its_own() {
    let mut core = session(9, 9);
    core.open_agent(&agent("a"), Some(Sees::Session)).expect("is new");
    start(&mut core, 1, by("b"), "web");
    assert_eq!(found(&core, &by("a"), "web"), Ok(id(1)));
    start(&mut core, 2, by("a"), "web");
    start(&mut core, 3, by("b"), "web");
    assert_eq!(found(&core, &by("a"), "web"), Ok(id(2)));
    assert_eq!(found(&core, &by("a"), id(3).as_str()), Ok(id(3)));
}

#[test]
fn a_label_of_several_agents_live_processes_is_ambiguous_to_who_sees_them_all() {
    let mut core = session(9, 9);
    start(&mut core, 1, by("a"), "web");
    start(&mut core, 2, by("b"), "web");
    let error = check(found(&core, &OPERATOR, "web"), Code::Ambiguous);
    assert_eq!(error.details["candidates"].as_array().map(Vec::len), Some(2));
    assert_eq!(found(&core, &by("a"), "web"), Ok(id(1)));
    confirmed(&mut core, 2);
    assert_eq!(found(&core, &OPERATOR, "web"), Ok(id(1)));
}

#[test]
fn a_transferred_process_is_its_new_agents() {
    let mut core = session(9, 9);
    start(&mut core, 1, by("a"), "web");
    core.transfer(&id(1), &agent("b")).expect("room for an agent");
    check(found(&core, &by("a"), "web"), Code::UnknownProcess);
    assert_eq!(found(&core, &by("b"), "web"), Ok(id(1)));
    assert_eq!((core.of_agent(&agent("a")), core.of_agent(&agent("b"))), (vec![], vec![id(1)]));
}

#[test]
fn a_process_that_was_removed_while_live_is_unknown_to_everybody() {
    let mut core = session(9, 9);
    start(&mut core, 1, by("a"), "web");
    core.remove(&by("a"), &handle("web")).expect("is taken");
    for text in ["web", id(1).as_str()] {
        check(found(&core, &by("a"), text), Code::UnknownProcess);
        check(found(&core, &OPERATOR, text), Code::UnknownProcess);
    }
    assert_eq!((core.places_held(), core.live()), (1, vec![id(1)]), "its place is kept, and it is waited for");
}

#[test]
fn a_session_has_room_for_so_many_agents_and_no_more() {
    let mut core = session(9, 9);
    for number in core.info().agents.len()..AGENTS_MAX {
        core.open_agent(&agent(&format!("a{number}")), None).expect("room");
    }
    core.admit(at(1), &ask(1, OPERATOR, labelled(""))).expect_err("`main` has no room");
    let error = check(core.open_agent(&agent("late"), None).map(|_| Admitted::New), Code::LimitReached);
    assert_eq!(error.details["limit"], "agents");
    core.close_agent(&agent("a7"));
    core.open_agent(&agent("late"), None).expect("there is room again");
    core.open_agent(&agent("late"), None).expect("it is open");
}
