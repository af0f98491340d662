//! The life of one process: the table in the documentation against the code, and each rule by name.

use super::*;
use crate::protocol::state::Signal;

const POLICY: Policy =
    Policy { signal: Signal::Term, grace_ms: 5000, confirm_ms: 4000, drain_idle_ms: 250, drain_max_ms: 5000 };

fn at(ms: u64) -> Moment {
    Moment::from_ms(ms)
}

fn exit(code: i32) -> Input {
    Input::RootEnded(Some(Exit::code(code)))
}

fn survivor() -> Survivor {
    Survivor { name: "stuck".into(), user: "root".into(), age_ms: 1, why: "still running".into() }
}

/// A life after `inputs`, each at its time.
fn life(deadline: Option<u64>, inputs: &[(u64, Input)]) -> (Lifecycle, Vec<Effect>) {
    let mut life = Lifecycle::new(POLICY, deadline.map(at));
    let mut effects = Vec::new();
    for (ms, input) in inputs {
        effects.extend(life.handle(at(*ms), input.clone()));
    }
    (life, effects)
}

fn in_row(row: &str) -> Lifecycle {
    let end = Input::End(Reason::StopRequested, 5000);
    let inputs: Vec<(u64, Input)> = match row {
        "starting" => vec![],
        "asked" => vec![(0, end)],
        "running" => vec![(0, Input::Launched)],
        "stopping" => vec![(0, Input::Launched), (0, end)],
        "settling" => vec![(0, Input::Launched), (0, exit(0))],
        "uncertain" => vec![
            (0, Input::Launched),
            (0, end),
            (5000, Input::Tick),
            (9000, Input::Tick),
            (9000, Input::Survivors(vec![survivor()])),
            (9000, Input::PipesClosed),
        ],
        "final" => vec![(0, Input::LaunchFailed)],
        other => panic!("the table has a row {other}"),
    };
    life(None, &inputs).0
}

fn column(name: &str) -> Input {
    match name {
        "Launched" => Input::Launched,
        "LaunchFailed" => Input::LaunchFailed,
        "RootEnded" => exit(0),
        "Leftovers" => Input::Leftovers(1),
        "Survivors" => Input::Survivors(vec![survivor()]),
        "Gone" => Input::Gone(Proof::GroupGone),
        "PipesClosed" => Input::PipesClosed,
        "End" => Input::End(Reason::SessionDeleted, 5000),
        "Deadline" => Input::Tick,
        other => panic!("the table has a column {other}"),
    }
}

fn row_of(life: &Lifecycle) -> &'static str {
    match life.phase {
        Phase::Starting if life.cause.is_some() => "asked",
        Phase::Starting => "starting",
        Phase::Running => "running",
        Phase::Stopping => "stopping",
        Phase::Settling => "settling",
        Phase::Final if life.verdict == Some(Verdict::Uncertain) => "uncertain",
        Phase::Final => "final",
    }
}

#[test]
fn the_table_in_the_documentation_is_what_the_code_does() {
    let table: Vec<Vec<&str>> = include_str!("lifecycle.rs")
        .lines()
        .filter_map(|line| line.strip_prefix("//! "))
        .filter(|line| line.contains(" | ") || line.contains("| "))
        .map(|line| line.split('|').map(str::trim).collect())
        .collect();
    let (head, rows) = table.split_first().expect("a table");
    assert_eq!((head.len(), rows.len()), (10, 7), "{table:?}");
    for row in rows {
        for (name, expected) in head.iter().zip(row).skip(1) {
            let mut life = in_row(row[0]);
            if *name == "Deadline" {
                // A passed deadline, whatever else was due: only its own effect is looked at.
                life.set_deadline(Some(at(0)));
            }
            // The start of a launch that was never answered is the only uncertain row LaunchFailed can meet.
            if row[0] == "uncertain" && *name == "LaunchFailed" {
                life = never_answered();
            }
            let before = (life.late, row_of(&life));
            let now = if row[0] == "uncertain" { at(9000) } else { at(0) };
            let _ = life.handle(now, column(name));
            let got = if life.late > before.0 { "·" } else { row_of(&life) };
            let expected = match (row[0], *name, *expected) {
                ("starting", "End" | "Deadline", "starting") => "asked",
                (_, _, other) => other,
            };
            assert_eq!(got, expected, "{} × {name}", row[0]);
        }
    }
}

fn never_answered() -> Lifecycle {
    let end = Input::End(Reason::StopRequested, 0);
    let (life, _) = life(None, &[(0, end), (4000, Input::Tick), (5000, Input::Tick)]);
    assert_eq!(life.cleanup(), Some(Cleanup::Uncertain));
    life
}

/// Inputs, then the state, reason and exit code that they lead to.
fn check(deadline: Option<u64>, inputs: &[(u64, Input)], expected: (State, Reason)) -> Lifecycle {
    let (life, _) = life(deadline, inputs);
    assert_eq!((life.state(), life.reason()), (expected.0, Some(expected.1)), "{inputs:?}");
    assert!(life.state().is_final() && life.next_tick().is_none());
    life
}

fn ended(from: u64, how: Input) -> Vec<(u64, Input)> {
    vec![(0, Input::Launched), (from, how), (from, Input::Gone(Proof::GroupGone)), (from, Input::PipesClosed)]
}

#[test]
fn an_end_by_itself_is_named_by_what_the_kernel_told() {
    check(None, &ended(1, exit(0)), (State::Exited, Reason::Exit));
    check(None, &ended(1, exit(7)), (State::Failed, Reason::Exit));
    let signal = Input::RootEnded(Some(Exit::signal("SIGKILL", false)));
    check(None, &ended(1, signal), (State::Failed, Reason::Signal));
    let unseen = check(None, &ended(1, Input::RootEnded(None)), (State::Lost, Reason::SupervisorFailed));
    assert_eq!(unseen.exit(), None);
    check(None, &[(0, Input::LaunchFailed)], (State::Failed, Reason::LaunchError));
}

#[test]
fn the_first_cause_wins() {
    let stop = |ms| (ms, Input::End(Reason::StopRequested, 5000));
    let mut inputs = ended(3, exit(0));
    inputs.insert(1, stop(1));
    inputs.insert(2, (2, Input::End(Reason::HostShutdown, 0)));
    check(Some(2), &inputs, (State::Stopped, Reason::StopRequested));

    let mut inputs = ended(1, exit(0));
    inputs.insert(2, stop(1));
    check(None, &inputs, (State::Exited, Reason::Exit));

    check(None, &[stop(0), (1, Input::LaunchFailed)], (State::Stopped, Reason::StopRequested));
}

#[test]
fn a_passed_deadline_counts_even_if_its_timer_never_fired() {
    check(Some(100), &ended(100, exit(0)), (State::TimedOut, Reason::Deadline));
    check(Some(100), &ended(99, exit(0)), (State::Exited, Reason::Exit));
    let late_stop = [(0, Input::Launched), (500, Input::End(Reason::StopRequested, 1)), (501, exit(0))];
    let rest = [(501, Input::Gone(Proof::GroupGone)), (501, Input::PipesClosed)];
    check(Some(100), &[&late_stop[..], &rest].concat(), (State::TimedOut, Reason::Deadline));
    check(Some(100), &[(200, Input::LaunchFailed)], (State::TimedOut, Reason::Deadline));
}

#[test]
fn a_stop_is_signal_then_kill_after_the_grace_then_uncertain_after_the_bound() {
    let (mut life, effects) = life(None, &[(0, Input::Launched), (10, Input::End(Reason::StopRequested, 1000))]);
    assert_eq!(effects, [Effect::Running, Effect::Changed, Effect::Signal(Signal::Term)]);
    assert_eq!(life.next_tick(), Some(at(1010)));
    assert_eq!(life.handle(at(1009), Input::Tick), []);
    assert_eq!(life.handle(at(1010), Input::Tick), [Effect::Kill]);
    assert_eq!(life.next_tick(), Some(at(5010)));
    assert_eq!(life.handle(at(5010), Input::Tick), [Effect::Inspect]);
    assert_eq!(life.handle(at(5011), Input::Survivors(vec![survivor()])), [Effect::FinishPipes]);
    assert_eq!(life.handle(at(5012), Input::PipesClosed), [Effect::Settled]);
    assert_eq!((life.state(), life.cleanup(), life.exit()), (State::Stopped, Some(Cleanup::Uncertain), None));
    assert_eq!(life.survivors().len(), 1);

    assert_eq!(life.handle(at(9000), exit(9)), [Effect::Changed]);
    assert_eq!(life.handle(at(9000), Input::Gone(Proof::GroupGone)), [Effect::Confirmed]);
    assert_eq!((life.cleanup(), life.proof()), (Some(Cleanup::Confirmed), Some(Proof::GroupGone)));
    assert_eq!((life.state(), life.survivors().len()), (State::Stopped, 0));
    assert_eq!(life.handle(at(9001), Input::Gone(Proof::GroupGone)), [], "confirmed once");
}

#[test]
fn an_earlier_kill_shortens_the_grace_and_a_later_one_changes_nothing() {
    let (mut life, _) = life(None, &[(0, Input::Launched), (0, Input::End(Reason::StopRequested, 30_000))]);
    let _ = life.handle(at(1), Input::End(Reason::StopRequested, 60_000));
    assert_eq!(life.next_tick(), Some(at(30_000)));
    assert_eq!(life.handle(at(2), Input::End(Reason::HostShutdown, 0)), [Effect::Kill]);
}

#[test]
fn what_the_root_leaves_behind_gets_signal_grace_and_kill_and_is_counted() {
    let (mut life, effects) = life(None, &[(0, Input::Launched), (5, exit(0)), (5, Input::Leftovers(2))]);
    assert_eq!(effects[1..], [Effect::HurryPipes, Effect::Changed, Effect::Signal(Signal::Term)]);
    assert!(life.settling() && life.state() == State::Running);
    assert!(life.warnings()[0].contains("2 processes"));
    assert_eq!(life.handle(at(5005), Input::Tick), [Effect::Kill]);
    assert_eq!(life.handle(at(5006), Input::Gone(Proof::GroupGone)), []);
    assert_eq!(life.handle(at(5007), Input::PipesClosed), [Effect::Settled]);
    assert_eq!(life.state(), State::Exited);
}

#[test]
fn a_pipe_held_elsewhere_is_read_until_silence_or_a_bound() {
    let begun = [(0, Input::Launched), (0, exit(3)), (0, Input::Gone(Proof::GroupGone))];
    let (mut silent, _) = life(None, &begun);
    silent.heard(at(100));
    assert_eq!(silent.next_tick(), Some(at(350)));
    assert_eq!(silent.handle(at(349), Input::Tick), []);
    assert_eq!(silent.handle(at(350), Input::Tick), [Effect::FinishPipes]);
    assert_eq!(silent.handle(at(351), Input::PipesClosed), [Effect::Settled]);
    assert!(silent.warnings()[0].contains("holds its output open"));

    let (mut chatty, _) = life(None, &begun);
    for ms in (0..5000).step_by(100) {
        chatty.heard(at(ms));
        assert_eq!(chatty.handle(at(ms), Input::Tick), []);
    }
    chatty.heard(at(5000));
    assert_eq!(chatty.handle(at(5000), Input::Tick), [Effect::FinishPipes]);
}

#[test]
fn a_launch_that_is_never_answered_settles_uncertain_and_is_killed_if_it_comes_late() {
    let mut life = never_answered();
    assert_eq!(life.state(), State::Stopped);
    assert_eq!(life.handle(at(9000), Input::Launched), [Effect::FinishPipes, Effect::Kill]);
    let _ = life.handle(at(9001), exit(0));
    assert_eq!(life.handle(at(9002), Input::Gone(Proof::GroupGone)), [Effect::Confirmed]);

    let mut life = never_answered();
    assert_eq!(life.handle(at(9000), Input::LaunchFailed), [Effect::Confirmed]);
    assert_eq!(life.cleanup(), Some(Cleanup::Confirmed));
}

#[test]
fn a_launch_that_comes_after_its_kill_is_killed_and_given_time_to_confirm() {
    let (mut life, _) = life(None, &[(0, Input::End(Reason::StopRequested, 0)), (10, Input::Launched)]);
    assert_eq!(life.next_tick(), Some(at(4010)));
    assert_eq!(life.handle(at(4010), Input::Tick), [Effect::Inspect]);
    let _ = life.handle(at(5010), Input::Tick);
    assert_eq!(life.handle(at(5010), Input::PipesClosed), [Effect::Settled]);
    assert_eq!(life.cleanup(), Some(Cleanup::Uncertain));
}

#[test]
fn a_stop_between_the_roots_end_and_its_leftovers_is_as_patient_as_it_asked() {
    let end = (5, Input::End(Reason::HostShutdown, 100));
    let (mut life, _) = life(None, &[(0, Input::Launched), (5, exit(0)), end, (5, Input::Leftovers(1))]);
    assert_eq!(life.next_tick(), Some(at(105)));
    assert_eq!(life.handle(at(105), Input::Tick), [Effect::Kill]);
}

#[test]
fn a_kill_that_is_no_longer_needed_is_not_waited_for() {
    let stop = (0, Input::End(Reason::StopRequested, 100));
    let (mut life, _) = life(None, &[(0, Input::Launched), stop, (1, exit(0)), (1, Input::Gone(Proof::GroupGone))]);
    for ms in [50, 100, 150, 200] {
        life.heard(at(ms));
        assert_eq!(life.handle(at(ms), Input::Tick), []);
        assert_eq!(life.next_tick(), Some(at(ms + 250)));
    }
}

#[test]
fn an_end_seen_after_the_process_was_given_up_is_told() {
    let stop = (0, Input::End(Reason::StopRequested, 0));
    let given_up = [(0, Input::Launched), stop, (4000, Input::Tick), (4000, Input::Survivors(vec![survivor()]))];
    let (mut life, _) = life(None, &given_up);
    assert_eq!(life.handle(at(4001), exit(9)), [Effect::Changed]);
    let _ = life.handle(at(4001), Input::Gone(Proof::GroupGone));
    assert_eq!(life.handle(at(4001), Input::PipesClosed), [Effect::Settled]);
    assert_eq!((life.exit(), life.cleanup()), (Some(&Exit::code(9)), Some(Cleanup::Confirmed)));
    assert!(life.survivors().is_empty(), "nothing survived");
}

#[test]
fn output_that_waits_for_a_reader_is_not_silence_unless_somebody_asked_for_the_end() {
    let begun = [(0, Input::Launched), (0, exit(0)), (0, Input::Gone(Proof::GroupGone))];
    let (mut patient, _) = life(None, &begun);
    patient.backlogged(at(250));
    assert_eq!(patient.handle(at(250), Input::Tick), []);
    assert_eq!(patient.next_tick(), Some(at(500)));

    let _ = patient.handle(at(260), Input::End(Reason::StopRequested, 0));
    patient.backlogged(at(500));
    assert_eq!(patient.handle(at(500), Input::Tick), [Effect::FinishPipes]);
}

#[test]
fn of_many_survivors_some_are_named_and_all_are_counted() {
    let stop = (0, Input::End(Reason::StopRequested, 0));
    let many = Input::Survivors(vec![survivor(); SURVIVORS_MAX + 1]);
    let inputs = [(0, Input::Launched), stop, (4000, Input::Tick), (4000, many)];
    let (life, _) = life(None, &inputs);
    assert_eq!(life.survivors().len(), SURVIVORS_MAX);
    assert_eq!(life.warnings(), ["21 survivors, of which 20 are named"]);
}

#[test]
fn a_grace_that_was_not_enough_is_told_and_one_that_nobody_had_is_not() {
    let stop = |grace_ms, kill_at| {
        let end = Input::End(Reason::StopRequested, grace_ms);
        life(None, &[(0, Input::Launched), (10, end), (kill_at, Input::Tick)]).0
    };
    assert_eq!(stop(300, 309).warnings(), [""; 0]);
    assert_eq!(stop(300, 310).warnings(), ["not all of it ended within its grace: what was left was killed"]);
    assert_eq!(stop(0, 10).warnings(), [""; 0]);
}
