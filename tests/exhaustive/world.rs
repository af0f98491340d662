//! A host, two sessions and two starters in each: the real rules, joined as the actors join them, and everything
//! that can happen to them as one action each.
//!
//! Every process has a clock of its own, which moves only where the process wants a tick: no rule compares the
//! clocks of two processes. Worlds that differ only in which starter or session did what are one world.

use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::SystemTime;

use procession::logic::host::{HostCore, Refusal, Tenant};
use procession::logic::process::lifecycle::{self, Input};
use procession::logic::process::{CallId, Effect, ProcessCall};
use procession::logic::session::{Admitted, Ask, SessionCore};
use procession::protocol::call::{Caller, Origin};
use procession::protocol::error::Code;
use procession::protocol::id::{AgentName, Handle, ProcessId, SessionName};
use procession::protocol::output::Stream;
use procession::protocol::settings::*;
use procession::protocol::spec::{Mode, Spec};
use procession::protocol::state::*;
use procession::protocol::time::Moment;
use procession::protocol::verb::host::ShutdownMode;

use crate::play::{Detail, Event, Process, START, STOP, WAIT, coarse, failure, fine, process};

const SESSIONS: usize = 2;
const LIVE_PER_SESSION: u32 = 2;

/// A mistake in joining the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    None,
    /// A place is given back when its process settles, proven or not.
    FreesBeforeProof,
    /// A failed launch keeps its place.
    NeverFreesAFailedLaunch,
    /// Every place is given back twice.
    FreesTwice,
    /// With each place, one of another process is given back.
    FreesAnothers,
    /// Whoever stops is answered at once, and again at the end.
    AnswersEarly,
    /// A shutdown forgets to tell the host.
    StartsAfterShutdown,
}

#[derive(Clone, Debug)]
pub struct World {
    pub plant: Plant,
    detail: Detail,
    pub host: HostCore,
    pub sessions: Vec<SessionCore>,
    pub processes: Vec<Option<Process>>,
    pub shut_down: bool,
    pub faults: Vec<String>,
    /// Whether the newest start found no place.
    pub refused: bool,
    limit: u32,
}

impl Hash for World {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let hash = |value: &dyn Fn(&mut std::collections::hash_map::DefaultHasher)| {
            let mut hasher = std::collections::hash_map::DefaultHasher::new();
            value(&mut hasher);
            hasher.finish()
        };
        let mut sessions: Vec<Vec<u64>> = Vec::new();
        for (session, core) in self.sessions.iter().enumerate() {
            let own = self.processes.iter().skip(session).step_by(SESSIONS);
            // To what nothing can happen any more, only its place still matters.
            let over = |process: &&Process| process.core.settled() && self.possible(process).is_empty();
            let one = |process: &Option<Process>| match process.as_ref().filter(over) {
                Some(process) => u64::from(process.place.is_some()) + 2 * u64::from(process.proven_late),
                None => hash(&|hasher| process.as_ref().map(Process::key).hash(hasher)),
            };
            let mut own: Vec<u64> = own.map(one).collect();
            own.sort_unstable();
            own.push(core.places_held());
            sessions.push(own);
        }
        sessions.sort_unstable();
        (sessions, self.host.held(), self.shut_down, self.refused, self.faults.len()).hash(hasher);
    }
}

impl PartialEq for World {
    fn eq(&self, other: &World) -> bool {
        let hash = |world: &World| {
            let mut hasher = std::collections::hash_map::DefaultHasher::new();
            world.hash(&mut hasher);
            hasher.finish()
        };
        hash(self) == hash(other)
    }
}

impl World {
    pub fn new(limit: u32, with: (usize, Detail), plant: Plant) -> World {
        let limits = HostLimits { live_per_host: limit, finished_per_host: 100, sessions: 10, timeout_max_ms: None };
        let session =
            |at: usize| SessionCore::new(session_name(at), Arc::new(settings()), "/".into(), SystemTime::UNIX_EPOCH);
        let (starters, detail) = with;
        World {
            plant,
            detail,
            host: HostCore::new(limits),
            sessions: (0..SESSIONS).map(session).collect(),
            processes: vec![None; starters],
            shut_down: false,
            faults: Vec::new(),
            refused: false,
            limit,
        }
    }

    /// What can happen.
    pub fn events(&self) -> Vec<(usize, Event)> {
        let mut events = Vec::new();
        for (at, process) in self.processes.iter().enumerate() {
            match process {
                None => events.push((at, Event::Start)),
                Some(process) => events.extend(self.possible(process).into_iter().map(|event| (at, event))),
            }
        }
        if !self.shut_down {
            events.push((0, Event::Shutdown));
        }
        events
    }

    fn possible(&self, process: &Process) -> Vec<Event> {
        match self.detail {
            _ if process.cleared => Vec::new(),
            Detail::Fine => fine(process),
            Detail::Coarse | Detail::Whole => coarse(process, self.detail),
        }
    }

    /// What happens.
    pub fn happen(&mut self, at: usize, event: Event) {
        match event {
            Event::Start => self.start(at),
            Event::Shutdown => self.shut_down(),
            Event::Clear => self.clear(at),
            Event::WholeEnd => [Event::Ended, Event::PipesClosed].into_iter().for_each(|event| self.tell(at, event)),
            Event::Silence => {
                if self.processes[at].as_ref().is_some_and(|process| !process.stopped) {
                    self.tell(at, Event::Stop);
                }
                // KILL, looking what is left, giving up.
                (0..3).for_each(|_| self.tell(at, Event::Tick));
                self.tell(at, Event::PipesClosed);
            }
            Event::LateEnd => {
                if !self.processes[at].as_ref().is_some_and(|process| process.system.launched) {
                    self.tell(at, Event::Launched);
                }
                self.tell(at, Event::Ended);
            }
            _ => self.tell(at, event),
        }
    }

    fn start(&mut self, at: usize) {
        let (id, session) = (ProcessId::from_bits(at as u128), at % SESSIONS);
        let origin = Origin { session: session_name(session), caller: Caller::Operator, request: None };
        let spec = Arc::new(Spec::command("true"));
        let ask = Ask { origin, process_id: id.clone(), mode: Mode::Background, spec, at: SystemTime::UNIX_EPOCH };
        self.refused = self.host.held() >= u64::from(self.limit) && !self.shut_down;
        let held_here = self.sessions[session].places_held();
        match self.sessions[session].admit(Moment::ZERO, &ask) {
            Ok(Admitted::New) => {}
            Err(error) => {
                let full = error.code == Code::LimitReached && held_here >= u64::from(LIVE_PER_SESSION);
                let over = error.code == Code::ShuttingDown && self.shut_down;
                return self.expect(full || over, "a session refuses though it has room");
            }
            Ok(other) => return self.expect(false, &format!("{other:?}")),
        }
        match self.host.take(tenant(&id, session, false)) {
            Ok(place) => {
                self.expect(!self.shut_down, "a start after the shutdown");
                self.processes[at] = Some(process(&id, session_name(session), place));
                self.call(at, START, ProcessCall::Begun);
                self.call(at, WAIT, ProcessCall::Wait(None));
            }
            Err(refusal) => {
                self.sessions[session].refused(&id);
                let full =
                    refusal == Refusal::Full { limit: self.limit.into() } && self.host.held() >= self.limit.into();
                self.expect(full || self.shut_down, "the host refuses though it has room");
            }
        }
    }

    fn shut_down(&mut self) {
        self.shut_down = true;
        if self.plant != Plant::StartsAfterShutdown {
            self.host.end(ShutdownMode::Now);
            for session in &mut self.sessions {
                session.end(Reason::HostShutdown);
            }
        }
        for at in 0..self.processes.len() {
            self.act(at, |process, now| process.core.end(now, Reason::HostShutdown));
        }
    }

    fn clear(&mut self, at: usize) {
        let (id, session) = (ProcessId::from_bits(at as u128), at % SESSIONS);
        let cleared = self.sessions[session].clear(&Caller::Operator, &Handle::from(&id));
        self.expect(cleared.is_ok(), "the operator may not clear");
        self.sessions[session].drop_record(&id);
        self.free(at);
        if let Some(process) = &mut self.processes[at] {
            process.cleared = true;
        }
    }

    fn tell(&mut self, at: usize, event: Event) {
        let survivor = Survivor { name: "stuck".into(), user: "root".into(), age_ms: 1, why: "alive".into() };
        match event {
            Event::Stop => return self.call(at, STOP, ProcessCall::Stop(Reason::StopRequested, None)),
            Event::CancelStart => {
                self.processes[at].iter_mut().for_each(|process| {
                    process.cancelled = true;
                    process.open[START as usize] -= 1;
                });
                return self.act(at, |process, now| process.core.cancel(now, START));
            }
            _ => {}
        }
        self.act(at, |process, now| match event {
            Event::Launched => {
                process.system.launched = true;
                process.core.launched(now)
            }
            Event::LaunchFailed => {
                process.system.failed = true;
                process.core.launch_failed(now, failure())
            }
            Event::Ended | Event::LeftOthers => {
                process.system.root_ended = true;
                process.system.gone = event == Event::Ended;
                let mut effects = process.core.live(now, Input::RootEnded(Some(Exit::code(0))));
                effects.extend(match event {
                    Event::LeftOthers => process.core.live(now, Input::Leftovers(1)),
                    _ => process.core.live(now, Input::Gone(Proof::GroupGone)),
                });
                effects
            }
            Event::Gone => {
                process.system.gone = true;
                process.core.live(now, Input::Gone(Proof::GroupGone))
            }
            Event::Survivors => {
                process.inspected = false;
                process.core.live(now, Input::Survivors(vec![survivor]))
            }
            Event::PipesClosed => {
                process.system.pipes_closed = true;
                let mut effects = process.core.stream_closed(now, Stream::Stdout);
                effects.extend(process.core.stream_closed(now, Stream::Stderr));
                effects
            }
            Event::Tick => {
                process.now = process.core.next_tick().unwrap_or(now).max(now);
                process.core.tick(process.now)
            }
            _ => Vec::new(),
        });
    }

    fn call(&mut self, at: usize, call: CallId, ask: ProcessCall) {
        if let Some(process) = &mut self.processes[at] {
            process.open[call as usize] += 1;
            process.stopped |= call == STOP;
        }
        let early = self.plant == Plant::AnswersEarly && call == STOP;
        self.act(at, |process, now| {
            process.open[call as usize] -= i8::from(early);
            process.core.call(now, call, ask)
        });
    }

    /// Lets something happen to a process, and carries out what follows.
    fn act(&mut self, at: usize, what: impl FnOnce(&mut Process, Moment) -> Vec<Effect>) {
        let Some(process) = self.processes[at].as_mut().filter(|process| !process.cleared) else { return };
        let now = process.now;
        for effect in what(process, now) {
            self.carry_out(at, effect);
        }
        self.look_at(at);
    }

    fn carry_out(&mut self, at: usize, effect: Effect) {
        let (id, session) = (ProcessId::from_bits(at as u128), at % SESSIONS);
        let Some(process) = &mut self.processes[at] else { return };
        match effect {
            Effect::Act(lifecycle::Effect::Inspect) => process.inspected = true,
            Effect::Act(_) => {}
            Effect::Answer(call, _) => process.open[call as usize] -= 1,
            Effect::Publish(summary) => {
                let failed = summary.state == State::Failed;
                let told = self.sessions[session].told(&id, summary);
                process.proven_late |= told.freed && !told.settled;
                if told.settled
                    && !told.freed
                    && let Some(place) = process.place
                {
                    self.host.pass(place, tenant(&id, session, true));
                }
                let keeps = self.plant == Plant::NeverFreesAFailedLaunch && failed;
                if told.freed && !keeps || told.settled && self.plant == Plant::FreesBeforeProof {
                    self.free(at);
                }
                for id in &told.forget {
                    self.sessions[session].drop_record(id);
                }
            }
        }
    }

    fn free(&mut self, at: usize) {
        if let Some(place) = self.processes[at].as_mut().and_then(|process| process.place.take()) {
            self.host.free(place);
            if self.plant == Plant::FreesTwice {
                self.host.free(place);
            }
            let other = self.processes.iter().flatten().find_map(|process| process.place);
            if let Some(other) = other.filter(|_| self.plant == Plant::FreesAnothers) {
                self.host.free(other);
            }
        }
    }

    /// What is final stays; who waits is answered once, at the latest at the end.
    fn look_at(&mut self, at: usize) {
        let Some(process) = &mut self.processes[at] else { return };
        let settled = process.core.settled();
        let status = process.core.status(process.now);
        let outcome = (status.state, status.reason);
        let changed = settled && *process.outcome.get_or_insert(outcome) != outcome;
        let twice = process.open.iter().any(|open| *open < 0);
        let forgotten = settled && process.open.iter().any(|open| *open > 0);
        let parked = process.open.iter().filter(|open| **open > 0).count() != process.core.parked();
        self.expect(!changed, "a final state changed");
        self.expect(!twice, "a call was answered twice");
        self.expect(!forgotten, "a call was not answered at the end");
        self.expect(!parked, "the parked calls are not those that wait");
        self.expect(settled == status.state.is_final(), "settled is not final");
    }

    fn expect(&mut self, holds: bool, what: &str) {
        if !holds {
            self.faults.push(what.to_owned());
        }
    }
}

fn tenant(id: &ProcessId, session: usize, uncertain: bool) -> Tenant {
    Tenant {
        process_id: id.clone(),
        session: session_name(session),
        agent: AgentName::main(),
        label: None,
        admitted: Moment::ZERO,
        uncertain,
    }
}

pub fn session_name(at: usize) -> SessionName {
    SessionName::new(format!("s{at}")).expect("a name")
}

fn settings() -> SessionSettings {
    SessionSettings {
        directory: None,
        limits: SessionLimits {
            live_per_session: LIVE_PER_SESSION,
            finished_per_session: 100,
            parked_calls_per_session: 10,
            timeout_max_ms: None,
        },
        output: OutputSettings {
            retain_bytes: 4096,
            page_bytes: 4096,
            wait_for_reader: false,
            drain_idle_ms: 1,
            drain_max_ms: 1,
        },
        exec: ExecSettings { timeout_ms: 0, max_output_bytes: 4096 },
        start_timeout_ms: 0,
        stop: StopSettings { grace_ms: 1, confirm_ms: 1, signal: Signal::Term },
        shell: vec!["sh".into(), "-c".into()],
        env: EnvSettings { inherit: EnvInherit::None, pass: Vec::new(), deny: Vec::new() },
        cwd_outside: false,
        containment_require: ContainmentKind::Group,
    }
}
