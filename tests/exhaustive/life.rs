//! The life of one process under every sequence of inputs up to a length, impossible ones included.
//!
//! Sequences that lead to the same life at the same moment with the same past, as far as a rule asks about it, are
//! followed once and counted. Time moves with `Tick` only: by one, or to where the life wants it next.

use std::collections::HashMap;

use procession::logic::process::lifecycle::{Effect, INSPECT_MS, Input, Lifecycle, Phase, Policy};
use procession::protocol::state::{Cleanup, Exit, Proof, Reason, Signal, State, Survivor};
use procession::protocol::time::Moment;

const GRACE_MS: u64 = 3;
const CONFIRM_MS: u64 = 4;
const DRAIN_MAX_MS: u64 = 5;
const DEADLINE_MS: u64 = 2;
const LENGTH: usize = 6;

const POLICY: Policy = Policy {
    signal: Signal::Term,
    grace_ms: GRACE_MS,
    confirm_ms: CONFIRM_MS,
    drain_idle_ms: 2,
    drain_max_ms: DRAIN_MAX_MS,
};

/// One step of a sequence.
#[derive(Clone, Debug)]
enum Step {
    /// An input, now.
    Give(Input),
    /// A tick, one millisecond later.
    Wait,
    /// A tick when the life wants it.
    Due,
    /// Output, now.
    Heard,
}

fn alphabet() -> Vec<Step> {
    let survivor = Survivor { name: "stuck".into(), user: "root".into(), age_ms: 1, why: "still running".into() };
    let inputs = [
        Input::Launched,
        Input::LaunchFailed,
        Input::RootEnded(Some(Exit::code(0))),
        Input::RootEnded(Some(Exit::signal("SIGKILL", false))),
        Input::RootEnded(None),
        Input::Leftovers(1),
        Input::Survivors(vec![survivor]),
        Input::Gone(Proof::GroupGone),
        Input::PipesClosed,
        Input::End(Reason::StopRequested, GRACE_MS),
        Input::End(Reason::HostShutdown, 0),
    ];
    inputs.into_iter().map(Step::Give).chain([Step::Wait, Step::Due, Step::Heard]).collect()
}

/// What a naive onlooker remembers of a sequence.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Past {
    now_ms: u64,
    /// The first moment at which anybody who asked would have let it be killed.
    kill_due_ms: Option<u64>,
    signals: u32,
    settled: u32,
    confirmed: u32,
    /// The end that was told first.
    told_exit: Option<Option<Exit>>,
    launched: bool,
    failed: bool,
    leftovers: bool,
    gone: bool,
    /// Whether the order of facts was the one that is promised.
    in_order: bool,
    /// Whether somebody asked for the end of it before it was settled.
    asked: bool,
    outcome: Option<(State, Option<Reason>)>,
}

type Seen = (Lifecycle, Past);

fn apply(seen: &Seen, step: &Step) -> Option<Seen> {
    let (mut life, mut past) = seen.clone();
    let input = match step {
        Step::Heard => {
            life.heard(Moment::from_ms(past.now_ms));
            return Some((life, past));
        }
        Step::Give(input) => input.clone(),
        Step::Wait => {
            past.now_ms += 1;
            Input::Tick
        }
        Step::Due => {
            let due_ms = life.next_tick()?.ms_since(Moment::ZERO);
            past.now_ms = past.now_ms.max(due_ms);
            Input::Tick
        }
    };
    past.note(&life, &input);
    let before = life.phase();
    let now = Moment::from_ms(past.now_ms);
    let effects = life.handle(now, input.clone());
    past.check(before, &life, (&input, &effects));
    Some((life, past))
}

impl Past {
    fn note(&mut self, life: &Lifecycle, input: &Input) {
        let live = life.phase() != Phase::Final;
        let alive = matches!(life.phase(), Phase::Starting | Phase::Running);
        if alive && !self.asked && life.deadline().is_some_and(|at| Moment::from_ms(self.now_ms) >= at) {
            self.asked = true;
            self.due(GRACE_MS);
        }
        match input {
            Input::End(_, grace_ms) if live => {
                self.asked = true;
                self.due(*grace_ms);
            }
            Input::Leftovers(_) if live => self.due(GRACE_MS),
            _ => {}
        }
        let ended = self.told_exit.is_some();
        self.in_order &= match input {
            Input::Launched | Input::LaunchFailed => !self.launched && !self.failed,
            Input::RootEnded(_) => self.launched && !ended,
            Input::Leftovers(_) => ended && !self.leftovers && !self.gone,
            Input::Survivors(_) => self.launched && !self.gone,
            Input::Gone(_) => ended && !self.gone,
            Input::PipesClosed => self.launched,
            Input::End(..) | Input::Tick => true,
        };
        match input {
            Input::Launched => self.launched = true,
            Input::LaunchFailed => self.failed = true,
            Input::RootEnded(exit) if !ended => self.told_exit = Some(exit.clone()),
            Input::Leftovers(_) => self.leftovers = true,
            Input::Gone(_) => self.gone = true,
            _ => {}
        }
    }

    fn due(&mut self, grace_ms: u64) {
        let at = self.now_ms + grace_ms;
        self.kill_due_ms = Some(self.kill_due_ms.map_or(at, |earlier| earlier.min(at)));
    }

    fn check(&mut self, before: Phase, life: &Lifecycle, done: (&Input, &[Effect])) {
        let (input, effects) = done;
        let count = |effect: &Effect| effects.iter().filter(|done| *done == effect).count() as u32;
        self.signals += count(&Effect::Signal(Signal::Term));
        self.settled += count(&Effect::Settled);
        self.confirmed += count(&Effect::Confirmed);
        assert!(self.signals <= 1, "one stop signal");
        assert_eq!(self.settled, u32::from(life.phase() == Phase::Final), "Settled comes with the final state, once");
        assert!(self.confirmed <= self.settled, "Confirmed comes after Settled, once");
        if count(&Effect::Kill) > 0 && before != Phase::Final {
            let due = self.kill_due_ms.expect("KILL needs somebody who asked, a deadline, or leftovers");
            assert!(self.now_ms >= due, "KILL before its grace is over");
        }
        if let Some(next) = life.next_tick() {
            assert!(next > Moment::from_ms(self.now_ms), "a tick that was just handled is wanted again: {next:?}");
        }
        self.check_end(life, input);
    }

    fn check_end(&mut self, life: &Lifecycle, input: &Input) {
        if let Some(exit) = life.exit() {
            assert!(self.told_exit.is_some(), "an exit that nobody told: {exit:?}");
        }
        if self.in_order {
            let told = self.told_exit.clone().flatten();
            assert_eq!(life.exit(), told.as_ref(), "the exit is what was told, after {input:?}");
        }
        if life.phase() != Phase::Final {
            assert!(!life.state().is_final() && life.cleanup().is_none());
            return;
        }
        let outcome = (life.state(), life.reason());
        assert!(outcome.0.is_final());
        assert_eq!(*self.outcome.get_or_insert(outcome), outcome, "what is final never changes");
        if life.cleanup() == Some(Cleanup::Confirmed) {
            assert!(life.survivors().is_empty(), "survivors of what is proven to be gone");
        }
    }

    /// Whoever asked is answered within the bound, if the system says no more and pipes are closed when told.
    fn check_bound(&self, life: &Lifecycle) {
        let (mut life, mut now_ms, mut finish) = (life.clone(), self.now_ms, false);
        let bound_ms = self.kill_due_ms.unwrap_or(now_ms).max(now_ms) + 2 * CONFIRM_MS + INSPECT_MS + DRAIN_MAX_MS;
        for _ in 0..10 {
            if life.phase() == Phase::Final {
                assert!(now_ms <= bound_ms, "settled at {now_ms}, after {bound_ms}");
                return;
            }
            let input = match life.next_tick() {
                Some(at) => {
                    now_ms = at.ms_since(Moment::ZERO);
                    Input::Tick
                }
                // Only the pipes are waited for.
                None if !finish => {
                    finish = true;
                    Input::PipesClosed
                }
                None => break,
            };
            let _ = life.handle(Moment::from_ms(now_ms), input);
        }
        panic!("never settles");
    }
}

/// Tells the sequence that broke a rule.
struct Trail<'a>(&'a [Step], Option<&'a Step>);

impl Drop for Trail<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("after {:?}, then {:?}", self.0, self.1);
        }
    }
}

/// Follows every sequence; the lives reached, and the sequences that lead there.
fn follow(deadline: Option<u64>, length: usize) -> (usize, u128) {
    let begin = Lifecycle::new(POLICY, deadline.map(Moment::from_ms));
    let past = Past { in_order: true, ..Past::default() };
    let mut reached: HashMap<Seen, (u128, Vec<Step>)> = [((begin, past), (1, Vec::new()))].into();
    let (mut lives, mut sequences) = (1, 1);
    let steps = alphabet();
    for _ in 0..length {
        let mut next: HashMap<Seen, (u128, Vec<Step>)> = HashMap::new();
        for (seen, (ways, trail)) in &reached {
            for step in &steps {
                let _trail = Trail(trail, Some(step));
                let Some(then) = apply(seen, step) else { continue };
                let entry = next.entry(then).or_insert_with(|| (0, [&trail[..], std::slice::from_ref(step)].concat()));
                entry.0 += ways;
            }
        }
        for ((life, past), (_, trail)) in next.iter().filter(|((_, past), _)| past.asked && past.in_order) {
            let _trail = Trail(trail, None);
            past.check_bound(life);
        }
        lives += next.len();
        sequences += next.values().map(|(ways, _)| ways).sum::<u128>();
        reached = next;
    }
    (lives, sequences)
}

#[test]
fn no_sequence_of_inputs_breaks_a_rule_of_a_life() {
    for deadline in [None, Some(DEADLINE_MS)] {
        let (lives, sequences) = follow(deadline, LENGTH);
        println!("deadline {deadline:?}: {sequences} sequences of up to {LENGTH} steps, {lives} lives");
    }
}
