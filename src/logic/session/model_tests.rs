//! Random requests to a session against a naive one: every answer's essence, and what is held and kept after each.
//!
//! The session's actor is played here as far as it drops what is told to go and lets one process follow another.

use proptest::prelude::*;

use super::forget::Removal;
use super::naive_tests::{Fate, Naive, Name, Who, Wish};
use super::tests::{ask, at, handle, id, of, settings, summary};
use super::*;
use crate::protocol::call::Caller;
use crate::protocol::id::Handle;
use crate::protocol::spec::OnConflict;
use crate::protocol::state::Cleanup;
use crate::protocol::verb::list::List;

const SEQUENCES: u32 = 10_000;
const AGENTS: [&str; 3] = ["main", "a", "b"];
const LABELS: [&str; 2] = ["x", "y"];
const LIVE_MAX: u32 = 4;
const FINISHED_MAX: u32 = 2;

/// A number that choices are taken from.
struct Choices(u64);

impl Choices {
    fn of(&mut self, count: u64) -> usize {
        let choice = self.0 % count;
        self.0 /= count;
        usize::try_from(choice).expect("small")
    }

    fn who(&mut self) -> Who {
        self.of(4).checked_sub(1)
    }

    fn name(&mut self, both: &Both) -> Name {
        match self.of(2) {
            0 => Name::Label(self.of(2) as u8),
            _ => Name::Id(1 + self.of(u64::try_from(both.next).expect("small") + 1) as u128),
        }
    }
}

struct Both {
    real: SessionCore,
    naive: Naive,
    /// The next process's id.
    next: u128,
    /// What takes the place of which process.
    successions: Vec<(u128, Wish)>,
}

fn caller(who: Who) -> Caller {
    who.map_or(Caller::Operator, |agent| Caller::Agent(name_of(agent)))
}

fn name_of(agent: usize) -> AgentName {
    AgentName::new(AGENTS[agent]).expect("a name")
}

fn spelled(name: Name) -> Handle {
    match name {
        Name::Id(bits) => of(bits),
        Name::Label(label) => handle(LABELS[label as usize]),
    }
}

fn code<T>(answer: Result<T, Error>) -> Result<T, Code> {
    answer.map_err(|error| error.code)
}

fn asked(bits: u128, wish: Wish) -> Ask {
    let spec = Spec {
        label: wish.label.map(|label| Label::new(LABELS[label as usize]).expect("a label")),
        on_conflict: wish.on_conflict,
        start_id: wish.start_id.map(|start_id| start_id.to_string()),
        ..Spec::command(wish.command.to_string())
    };
    let mode = if wish.foreground { Mode::Foreground } else { Mode::Background };
    Ask { mode, ..ask(bits, caller(wish.who), spec) }
}

impl Both {
    fn new() -> Both {
        let name = SessionName::new("s").expect("a name");
        let settings = settings(LIVE_MAX, FINISHED_MAX);
        let real = SessionCore::new(name, settings, "/".into(), SystemTime::UNIX_EPOCH);
        let naive = Naive { live_max: LIVE_MAX as usize, finished_max: FINISHED_MAX as usize, ..Naive::default() };
        Both { real, naive, next: 1, successions: Vec::new() }
    }

    fn step(&mut self, choices: &mut Choices) {
        match choices.of(16) {
            0..=3 => self.start(choices),
            4..=6 => self.settle(choices),
            7 => self.confirm(choices),
            8 => self.look(choices),
            9 => self.clear(choices),
            10 => self.remove(choices),
            11 => self.reset_or_delete(choices),
            12 => self.transfer(choices),
            13 => self.open_agent(choices),
            14 => self.restart(choices),
            _ => self.label(choices),
        }
        self.compare();
    }

    fn start(&mut self, choices: &mut Choices) {
        let conflicts = [None, Some(OnConflict::Refuse), Some(OnConflict::Reuse), Some(OnConflict::Replace)];
        let wish = Wish {
            who: choices.who(),
            label: choices.of(3).checked_sub(1).map(|label| label as u8),
            on_conflict: conflicts[choices.of(4)],
            start_id: choices.of(6).checked_sub(4).map(|start_id| start_id as u8),
            foreground: choices.of(2) == 1,
            command: u8::from(choices.of(8) == 0),
        };
        if self.admit(wish) == Ok(Fate::New) && choices.of(8) == 0 {
            // The host has no place for it.
            self.real.refused(&id(self.next - 1));
            self.naive.drop(self.next - 1);
        }
    }

    fn admit(&mut self, wish: Wish) -> Result<Fate, Code> {
        let bits = self.next;
        let expected = self.naive.admit(bits, wish);
        let as_real = expected.map(|fate| match fate {
            Fate::New => Admitted::New,
            Fate::Existing(bits) => Admitted::Existing(id(bits)),
            Fate::Replace(bits) => Admitted::Replace(id(bits)),
        });
        assert_eq!(code(self.real.admit(at(0), &asked(bits, wish))), as_real, "{wish:?}");
        self.next += u128::from(expected == Ok(Fate::New));
        if let Ok(Fate::Replace(old)) = expected {
            self.successions.push((old, wish));
        }
        expected
    }

    fn one(&self, choices: &mut Choices, is: fn(&super::naive_tests::Process) -> bool) -> Option<u128> {
        let found: Vec<u128> = self.naive.processes.iter().filter(|p| is(p)).map(|p| p.id).collect();
        (!found.is_empty()).then(|| found[choices.of(found.len() as u64)])
    }

    fn settle(&mut self, choices: &mut Choices) {
        let Some(bits) = self.one(choices, |process| process.live) else { return };
        self.settle_as(bits, choices.of(4) == 0);
    }

    fn settle_as(&mut self, bits: u128, uncertain: bool) {
        let cleanup = if uncertain { Cleanup::Uncertain } else { Cleanup::Confirmed };
        let (freed, forget) = self.naive.settle(bits, uncertain);
        let told = self.real.told(&id(bits), summary(cleanup));
        let expected = Told { freed, settled: true, forget: forget.iter().copied().map(id).collect() };
        assert_eq!(told, expected);
        self.succeed(bits, uncertain);
        self.forget(&forget);
    }

    /// The first that was to follow takes the place; the others are asked anew.
    fn succeed(&mut self, old: u128, uncertain: bool) {
        let (now, later) = std::mem::take(&mut self.successions).into_iter().partition(|(of, _)| *of == old);
        self.successions = later;
        let now: Vec<(u128, Wish)> = now;
        for (turn, (_, wish)) in now.into_iter().filter(|_| !uncertain).enumerate() {
            if turn > 0 {
                let _ = self.admit(wish);
                continue;
            }
            let expected = if self.naive.deleted { Err(Code::Unavailable) } else { Ok(()) };
            assert_eq!(code(self.real.succeed(at(0), &asked(self.next, wish), &id(old))), expected);
            if expected.is_ok() {
                let agent = self.naive.get(old).expect("is not forgotten yet").agent;
                self.naive.add(self.next, agent, wish);
                self.next += 1;
            }
        }
    }

    fn forget(&mut self, forget: &[u128]) {
        for bits in forget {
            assert!(self.real.drop_record(&id(*bits)).is_some());
            self.naive.drop(*bits);
        }
    }

    fn confirm(&mut self, choices: &mut Choices) {
        let Some(bits) = self.one(choices, |process| process.uncertain) else { return };
        let forget = self.naive.confirm(bits);
        let told = self.real.told(&id(bits), summary(Cleanup::Confirmed));
        let expected = Told { freed: true, settled: false, forget: forget.iter().copied().map(id).collect() };
        assert_eq!(told, expected);
        self.forget(&forget);
    }

    fn look(&mut self, choices: &mut Choices) {
        let (who, name, limit) = (choices.who(), choices.name(self), 1 + choices.of(8));
        let found = self.real.find(&caller(who), &spelled(name)).map(|record| record.process_id.clone());
        assert_eq!(code(found), self.naive.find(who, name).map(id), "{who:?} {name:?}");
        let list = List { limit: Some(limit as u64), ..List::default() };
        let answer = self.real.list(at(200), &caller(who), &list);
        let ids: Vec<ProcessId> = answer.processes.iter().flatten().map(|row| row.process_id.clone()).collect();
        let counts = [answer.counts.live, answer.counts.finished, answer.counts.uncertain];
        let expected = self.naive.list(who, limit);
        assert_eq!((ids, counts, answer.truncated), (expected.0.into_iter().map(id).collect(), expected.1, expected.2));
    }

    fn clear(&mut self, choices: &mut Choices) {
        let (who, name) = (choices.who(), choices.name(self));
        let expected = self.naive.clear(who, name);
        let cleared = self.real.clear(&caller(who), &spelled(name));
        assert_eq!(code(cleared), expected.map(|(bits, uncertain)| (id(bits), uncertain)));
        if let Ok((bits, _)) = expected {
            self.forget(&[bits]);
        }
    }

    fn remove(&mut self, choices: &mut Choices) {
        let (who, name) = (choices.who(), choices.name(self));
        let removed = code(self.real.remove(&caller(who), &spelled(name)));
        match self.naive.clear(who, name) {
            Err(Code::StillRunning) => {
                let bits = self.naive.find(who, name).expect("was found");
                assert_eq!(removed, Ok(Removal::Later(id(bits))));
                self.naive.get_mut(bits).hidden = true;
            }
            expected => {
                assert_eq!(removed, expected.map(|(bits, _)| Removal::Now(id(bits))));
                if let Ok((bits, _)) = expected {
                    self.forget(&[bits]);
                }
            }
        }
    }

    fn reset_or_delete(&mut self, choices: &mut Choices) {
        match choices.of(4) {
            0 if !self.naive.deleted => self.delete(choices),
            1 => self.open(),
            _ => self.reset(),
        }
    }

    fn reset(&mut self) {
        let (mut cleared, kept) = self.real.reset();
        cleared.sort();
        assert_eq!((cleared, kept), (self.finished(), self.uncertain()));
        for bits in self.naive.processes.iter().filter(|p| !p.holds_place()).map(|p| p.id).collect::<Vec<_>>() {
            self.forget(&[bits]);
        }
    }

    fn finished(&self) -> Vec<ProcessId> {
        let mut ids: Vec<ProcessId> =
            self.naive.processes.iter().filter(|p| !p.holds_place()).map(|p| id(p.id)).collect();
        ids.sort();
        ids
    }

    fn uncertain(&self) -> u64 {
        self.naive.processes.iter().filter(|process| process.uncertain).count() as u64
    }

    fn delete(&mut self, choices: &mut Choices) {
        self.real.end(Reason::SessionDeleted);
        self.successions.clear();
        let live: Vec<u128> = self.naive.processes.iter().filter(|process| process.live).map(|p| p.id).collect();
        for bits in live {
            self.settle_as(bits, choices.of(2) == 0);
        }
        let (mut cleared, left) = self.real.delete();
        cleared.sort();
        assert_eq!((cleared, left), (self.finished(), self.uncertain() > 0));
        self.naive.deleted = true;
        self.naive.agents.clear();
        for bits in self.naive.processes.iter().filter(|p| !p.holds_place()).map(|p| p.id).collect::<Vec<_>>() {
            self.forget(&[bits]);
        }
    }

    fn open(&mut self) {
        let settings = settings(LIVE_MAX, FINISHED_MAX);
        let opened = self.real.open(&settings, &"/".into(), &BTreeMap::new(), SystemTime::UNIX_EPOCH);
        assert_eq!(code(opened), Ok(()));
        self.naive.deleted = false;
    }

    fn transfer(&mut self, choices: &mut Choices) {
        let Some(bits) = self.one(choices, |process| !process.hidden) else { return };
        let to = choices.of(3);
        self.real.transfer(&id(bits), &name_of(to)).expect("room for an agent");
        let _ = self.naive.open_agent(to, None);
        self.naive.get_mut(bits).agent = to;
    }

    fn open_agent(&mut self, choices: &mut Choices) {
        let (agent, sees) = (choices.of(3), [None, Some(Sees::Own), Some(Sees::Session)][choices.of(3)]);
        if choices.of(4) == 0 {
            self.real.close_agent(&name_of(agent));
            self.naive.agents.retain(|(open, _)| *open != agent);
        }
        assert_eq!(code(self.real.open_agent(&name_of(agent), sees)), self.naive.open_agent(agent, sees));
    }

    fn restart(&mut self, choices: &mut Choices) {
        let Some(bits) = self.one(choices, |process| !process.hidden && !process.uncertain) else { return };
        let process = self.naive.get(bits).expect("was found").clone();
        if process.live {
            self.successions.push((bits, process.wish));
            return;
        }
        let expected = match self.naive.places() {
            _ if self.naive.deleted => Err(Code::Unavailable),
            held if held >= LIVE_MAX as usize => Err(Code::LimitReached),
            _ => Ok(()),
        };
        assert_eq!(code(self.real.again(at(0), &asked(self.next, process.wish), &id(bits))), expected);
        if expected.is_ok() {
            self.naive.add(self.next, process.agent, process.wish);
            self.next += 1;
        }
    }

    fn label(&mut self, choices: &mut Choices) {
        let Some(bits) = self.one(choices, |process| process.live && !process.hidden) else { return };
        let number = choices.of(2);
        let agent = self.naive.get(bits).expect("was found").agent;
        let label = Label::new(LABELS[number]).expect("a label");
        let others = self.naive.processes.iter().any(|process| {
            process.id != bits
                && process.live
                && !process.hidden
                && process.agent == agent
                && process.label == Some(number as u8)
        });
        let expected = if others { Err(Code::Conflict) } else { Ok(()) };
        assert_eq!(code(self.real.check_label(at(0), &id(bits), &label)), expected);
        if expected.is_ok() {
            self.real.set_label(&id(bits), label);
            self.naive.get_mut(bits).label = Some(number as u8);
        }
    }

    /// What is held and kept.
    fn compare(&self) {
        assert_eq!(self.real.places_held(), self.naive.places() as u64);
        let ids = |is: fn(&super::naive_tests::Process) -> bool| -> Vec<ProcessId> {
            self.naive.processes.iter().filter(|process| is(process)).map(|process| id(process.id)).collect()
        };
        assert_eq!(self.real.live(), ids(|process| process.live));
        let holders: Vec<ProcessId> =
            self.real.holders(at(0), None).into_iter().map(|holder| holder.process_id).collect();
        assert_eq!(holders, ids(|process| process.holds_place()));
        assert_eq!(self.real.info().finished as usize, ids(|process| !process.live).len());
        assert!(self.naive.processes.iter().all(|process| self.real.record(&id(process.id)).is_some()));
        assert_eq!(self.real.empty(), self.naive.deleted && self.naive.processes.is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(SEQUENCES) })]

    #[test]
    fn a_session_answers_as_a_naive_one_whatever_is_asked(steps in prop::collection::vec(any::<u64>(), 10..40)) {
        let mut both = Both::new();
        for step in steps {
            both.step(&mut Choices(step));
        }
    }
}
