//! The rules of one session, each by name: its list, what is kept and what goes, its opening and its end.

use super::forget::Removal;
use super::tests::*;
use super::*;
use crate::protocol::call::Caller;
use crate::protocol::state::{Cleanup, State};
use crate::protocol::verb::list::{Counts, List, ListAnswer};

fn list(core: &SessionCore, caller: &Caller, state: Option<State>, limit: Option<u64>) -> ListAnswer {
    core.list(at(1000), caller, &List { state, limit, detail: None })
}

fn ids(answer: &ListAnswer) -> Vec<ProcessId> {
    answer.processes.iter().flatten().map(|row| row.process_id.clone()).collect()
}

/// Starts and settles a process of agent `a`.
fn finished(core: &mut SessionCore, bits: u128, mode: Mode) -> Told {
    let ask = Ask { mode, ..ask(bits, by("a"), labelled("")) };
    assert_eq!(core.admit(at(0), &ask), Ok(Admitted::New));
    confirmed(core, bits)
}

fn kept(core: &SessionCore) -> Vec<ProcessId> {
    ids(&list(core, &OPERATOR, None, Some(1000)))
}

#[test]
fn a_list_has_live_processes_first_then_the_newest_and_only_what_the_caller_sees() {
    let mut core = session(9, 9);
    for (bits, who) in [(1, "a"), (2, "a"), (3, "b"), (4, "a"), (5, "a")] {
        start(&mut core, bits, by(who), "");
    }
    confirmed(&mut core, 4);
    settle(&mut core, 1, Cleanup::Uncertain);
    let answer = list(&core, &by("a"), None, None);
    assert_eq!(ids(&answer), [id(5), id(2), id(4), id(1)]);
    assert_eq!(answer.counts, Counts { live: 2, finished: 2, uncertain: 1 });
    assert_eq!((answer.truncated, answer.limit), (false, None));
    assert_eq!(ids(&list(&core, &OPERATOR, None, None)), [5, 3, 2, 4, 1].map(id));
    core.remove(&by("a"), &of(5)).expect("is taken");
    assert_eq!(ids(&list(&core, &by("a"), None, None)), [2, 4, 1].map(id), "removed ones are hidden");
}

#[test]
fn a_state_filters_the_rows_but_not_the_counts() {
    let mut core = session(9, 9);
    for bits in 1..=3 {
        start(&mut core, bits, by("a"), "");
    }
    confirmed(&mut core, 2);
    let answer = list(&core, &by("a"), Some(State::Exited), None);
    assert_eq!((ids(&answer), answer.counts), (vec![id(2)], Counts { live: 2, finished: 1, uncertain: 0 }));
    assert_eq!(ids(&list(&core, &by("a"), Some(State::Lost), None)), []);
}

#[test]
fn a_limit_out_of_range_is_taken_as_the_nearest_and_told() {
    let mut core = session(2000, 9);
    for bits in 1..=1001 {
        start(&mut core, bits, by("a"), "");
    }
    for (asked, rows, told) in
        [(None, 100, None), (Some(0), 1, Some(1)), (Some(7), 7, None), (Some(5000), 1000, Some(1000))]
    {
        let answer = list(&core, &by("a"), None, asked);
        assert_eq!((ids(&answer).len(), answer.limit, answer.truncated), (rows, told, true), "{asked:?}");
    }
    core.refused(&id(1));
    assert!(!list(&core, &by("a"), None, Some(1000)).truncated, "exactly as many as asked for");
}

#[test]
fn a_row_is_about_the_life_of_the_process_and_no_longer() {
    let mut core = session(9, 9);
    start(&mut core, 1, by("a"), "");
    start(&mut core, 2, by("a"), "web");
    confirmed(&mut core, 1);
    let rows = list(&core, &by("a"), None, None).processes.expect("rows");
    assert_eq!((rows[0].runtime_ms, rows[0].label.is_some(), rows[0].name.is_some()), (998, true, false));
    assert_eq!((rows[1].runtime_ms, rows[1].idle_ms, rows[1].name.as_deref()), (99, 99, Some("sleep 1")));
}

#[test]
fn records_over_the_limit_go_the_oldest_end_first() {
    let mut core = session(9, 100);
    for bits in 1..=100 {
        assert_eq!(finished(&mut core, bits, Mode::Background).forget, []);
    }
    assert_eq!(finished(&mut core, 101, Mode::Background).forget, [id(1)]);
    start(&mut core, 102, by("a"), "");
    assert_eq!(finished(&mut core, 103, Mode::Background).forget, [id(2)]);
    assert_eq!(confirmed(&mut core, 102).forget, [id(3)], "by the end, not the admission");
}

#[test]
fn foreground_records_go_first_but_the_newest_is_kept() {
    let mut core = session(9, 2);
    finished(&mut core, 1, Mode::Background);
    finished(&mut core, 2, Mode::Foreground);
    assert_eq!(finished(&mut core, 3, Mode::Background).forget, [id(2)]);
    assert_eq!(finished(&mut core, 4, Mode::Foreground).forget, [id(1)], "what has just ended can be read");
    let mut none = session(9, 0);
    assert_eq!(finished(&mut none, 1, Mode::Background).forget, [id(1)]);
}

#[test]
fn an_uncertain_record_never_goes_by_itself_and_counts_once_it_is_proven() {
    let mut core = session(9, 1);
    start(&mut core, 1, by("a"), "");
    settle(&mut core, 1, Cleanup::Uncertain);
    for bits in 2..=5 {
        finished(&mut core, bits, Mode::Background);
    }
    assert_eq!(kept(&core), [id(5), id(1)]);
    let told = confirmed(&mut core, 1);
    assert_eq!((told.freed, told.settled, told.forget), (true, false, vec![id(1)]));
    assert_eq!(kept(&core), [id(5)]);
}

#[test]
fn a_finished_record_is_cleared_and_a_live_one_is_not() {
    let mut core = session(9, 9);
    start(&mut core, 1, by("a"), "web");
    check(core.clear(&by("a"), &handle("web")), Code::StillRunning);
    check(core.clear(&by("b"), &of(1)), Code::UnknownProcess);
    confirmed(&mut core, 1);
    assert_eq!(core.clear(&by("a"), &handle("web")), Ok((id(1), false)));
    assert!(core.drop_record(&id(1)).is_some() && core.drop_record(&id(1)).is_none());
    assert_eq!(kept(&core), []);
}

#[test]
fn only_the_operator_clears_or_removes_what_is_not_proven_to_be_gone() {
    let mut core = session(9, 9);
    start(&mut core, 1, by("a"), "");
    settle(&mut core, 1, Cleanup::Uncertain);
    check(core.clear(&by("a"), &of(1)), Code::CleanupUncertain);
    check(core.remove(&by("a"), &of(1)), Code::CleanupUncertain);
    assert_eq!(core.clear(&OPERATOR, &of(1)), Ok((id(1), true)));
    assert_eq!(core.remove(&OPERATOR, &of(1)), Ok(Removal::Now(id(1))));
}

#[test]
fn a_removed_process_goes_when_it_settles_or_is_listed_again() {
    let mut core = session(9, 9);
    start(&mut core, 1, by("a"), "");
    start(&mut core, 2, by("a"), "");
    for bits in [1, 2] {
        assert_eq!(core.remove(&by("a"), &of(bits)), Ok(Removal::Later(id(bits))));
    }
    let told = confirmed(&mut core, 1);
    assert_eq!((told.freed, told.settled, told.forget), (true, true, vec![id(1)]));
    assert_eq!(settle(&mut core, 2, Cleanup::Uncertain).forget, []);
    assert_eq!(kept(&core), [id(2)], "listed again");
    assert_eq!(confirmed(&mut core, 2).forget, [], "and then kept as any other");
}

#[test]
fn a_reset_forgets_the_finished_and_keeps_the_live_and_the_uncertain() {
    let mut core = session(9, 9);
    for bits in 1..=3 {
        start(&mut core, bits, by("a"), "");
    }
    confirmed(&mut core, 1);
    settle(&mut core, 2, Cleanup::Uncertain);
    assert_eq!(core.reset(), (vec![id(1)], 1));
}

#[test]
fn a_process_that_tells_twice_frees_its_place_once() {
    let mut core = session(9, 9);
    start(&mut core, 1, by("a"), "");
    assert_eq!(confirmed(&mut core, 1), Told { freed: true, settled: true, forget: vec![] });
    assert_eq!(confirmed(&mut core, 1), Told::default());
    assert_eq!(confirmed(&mut core, 7), Told::default(), "nobody knows it");
}

fn open(core: &mut SessionCore, live: u32, agents: &[(&str, Sees)]) -> Result<(), Error> {
    let agents = agents.iter().map(|(name, sees)| (agent(name), *sees)).collect();
    core.open(&settings(live, 9), &"/".into(), &agents, SystemTime::UNIX_EPOCH)
}

#[test]
fn the_same_configuration_opens_again_and_another_is_a_conflict() {
    let mut core = session(9, 9);
    assert_eq!(open(&mut core, 9, &[("a", Sees::Session)]), Ok(()));
    assert_eq!(open(&mut core, 9, &[("a", Sees::Session)]), Ok(()));
    check(open(&mut core, 8, &[]), Code::Conflict);
    let elsewhere = core.open(&settings(9, 9), &"/tmp".into(), &BTreeMap::new(), SystemTime::UNIX_EPOCH);
    check(elsewhere, Code::Conflict);
    check(open(&mut core, 9, &[("Z", Sees::Own), ("a", Sees::Own)]), Code::Conflict);
    assert_eq!(core.info().agents, [agent("a")], "a refusal has changed nothing");
}

#[test]
fn an_agent_opens_once_and_what_it_sees_is_fixed() {
    let mut core = session(9, 9);
    assert_eq!(core.open_agent(&agent("a"), None), Ok(Sees::Own));
    assert_eq!(core.open_agent(&agent("a"), Some(Sees::Own)), Ok(Sees::Own));
    let error = check(core.open_agent(&agent("a"), Some(Sees::Session)), Code::Conflict);
    assert_eq!(error.details["sees"], "own");
    core.close_agent(&agent("a"));
    assert_eq!(core.open_agent(&agent("a"), Some(Sees::Session)), Ok(Sees::Session));
    assert_eq!(core.open_agent(&agent("a"), None), Ok(Sees::Session));
}

#[test]
fn a_session_that_is_ending_starts_nothing_and_says_why() {
    for (reason, code) in [(Reason::SessionDeleted, Code::Unavailable), (Reason::HostShutdown, Code::ShuttingDown)] {
        let mut core = session(9, 9);
        start(&mut core, 1, by("a"), "");
        core.end(reason);
        check(core.admit(at(1), &ask(2, by("a"), labelled(""))), code);
        check(core.succeed(at(1), &ask(2, by("a"), labelled("")), &id(1)), code);
        check(core.again(at(1), &ask(2, by("a"), labelled("")), &id(1)), code);
        check(open(&mut core, 9, &[]), code);
        assert_eq!(core.places_held(), 1);
    }
}

#[test]
fn a_deleted_session_keeps_what_is_uncertain_until_proof_and_its_name_opens_afresh() {
    let mut core = session(9, 9);
    for bits in 1..=3 {
        start(&mut core, bits, by("a"), "");
    }
    core.end(Reason::SessionDeleted);
    confirmed(&mut core, 1);
    settle(&mut core, 2, Cleanup::Uncertain);
    settle(&mut core, 3, Cleanup::Uncertain);
    let (cleared, left) = core.delete();
    assert_eq!((&cleared[..], left, core.info().agents), (&[id(1)][..], true, vec![]));
    core.drop_record(&id(1));
    check(core.admit(at(9), &ask(4, by("a"), labelled(""))), Code::Unavailable);
    assert_eq!(confirmed(&mut core, 2).forget, [id(2)], "proof is all it waited for");
    assert!(core.deleted() && !core.empty());

    assert_eq!(open(&mut core, 2, &[("b", Sees::Own)]), Ok(()));
    assert_eq!((core.deleted(), core.info().agents, core.places_held()), (false, vec![agent("b")], 1));
    start(&mut core, 5, by("b"), "");
    check(core.admit(at(9), &ask(6, by("b"), labelled(""))), Code::LimitReached);
}

#[test]
fn a_deleted_session_is_empty_once_nothing_is_left() {
    let mut core = session(9, 9);
    start(&mut core, 1, by("a"), "");
    settle(&mut core, 1, Cleanup::Uncertain);
    core.end(Reason::SessionDeleted);
    let _ = core.delete();
    assert!(!core.empty());
    assert_eq!(core.clear(&OPERATOR, &of(1)), Ok((id(1), true)));
    core.drop_record(&id(1));
    assert!(core.empty());
}

#[test]
fn the_end_of_the_host_outlasts_a_deletion() {
    let mut core = session(9, 9);
    core.end(Reason::SessionDeleted);
    core.end(Reason::HostShutdown);
    let _ = core.delete();
    check(open(&mut core, 9, &[]), Code::ShuttingDown);
    assert_eq!(core.ending(), Some(Reason::HostShutdown));
}

#[test]
fn a_gathering_ends_with_the_last_end_and_tells_what_is_not_proven() {
    let mut core = session(9, 0);
    for bits in 1..=3 {
        start(&mut core, bits, by("a"), "");
    }
    let mut gathering = Gathering::new(core.live());
    assert!(!gathering.settled(&id(9)) && !gathering.done(), "nobody waits for that one");
    for (bits, cleanup, done) in
        [(2, Cleanup::Confirmed, false), (1, Cleanup::Uncertain, false), (3, Cleanup::Confirmed, true)]
    {
        settle(&mut core, bits, cleanup);
        assert_eq!(gathering.settled(&id(bits)), done);
    }
    let gathered = core.gathered(at(9), &gathering);
    assert_eq!((gathered.stopped, gathered.unconfirmed.len()), (2, 1), "a record that is gone was confirmed");
    assert_eq!(gathered.unconfirmed[0].process_id, id(1));
    assert!(Gathering::new(Vec::new()).done());
}
