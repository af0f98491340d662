//! One process of a world: its rules, the system that is played for them, and what can happen to it.

use std::sync::Arc;
use std::time::SystemTime;

use procession::logic::gauge::Gauge;
use procession::logic::host::PlaceKey;
use procession::logic::process::lifecycle::{Lifecycle, Policy};
use procession::logic::process::{Admission, CallId, LaunchFailure, ProcessCore};
use procession::protocol::id::{AgentName, ProcessId, SessionName};
use procession::protocol::spec::Mode;
use procession::protocol::state::{Containment, ContainmentKind, Reason, Signal, State};
use procession::protocol::time::Moment;

const POLICY: Policy = Policy { signal: Signal::Term, grace_ms: 1, confirm_ms: 1, drain_idle_ms: 1, drain_max_ms: 1 };

/// The calls that are made on every process, by number.
pub const CALLS: usize = 3;
pub const START: CallId = 0;
pub const WAIT: CallId = 1;
pub const STOP: CallId = 2;

/// What happens, and to which process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    Start,
    Launched,
    LaunchFailed,
    /// The root ended, and nothing was left.
    Ended,
    /// The root ended and left others.
    LeftOthers,
    Gone,
    Survivors,
    PipesClosed,
    Stop,
    /// The clock moves to where the process wants it.
    Tick,
    /// Whoever started it is gone.
    CancelStart,
    /// The operator clears it.
    Clear,
    Shutdown,
    /// The root ended, nothing was left, and the pipes were read.
    WholeEnd,
    /// It is stopped, nothing is heard of it for as long as it takes, and the pipes were read.
    Silence,
    /// What was silent ended after all.
    LateEnd,
}

/// How finely the life of a process is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Every single event.
    Fine,
    /// A whole end at once, or what the root left behind ends after it.
    Coarse,
    /// Whole ends only: for worlds of several processes.
    Whole,
}

/// What the system has told of a process.
#[derive(Clone, Copy, Debug, Default, Hash)]
pub struct System {
    pub launched: bool,
    pub failed: bool,
    pub root_ended: bool,
    pub gone: bool,
    pub pipes_closed: bool,
}

/// One process, and what an onlooker remembers of it.
#[derive(Clone, Debug)]
pub struct Process {
    pub core: ProcessCore,
    pub place: Option<PlaceKey>,
    pub now: Moment,
    pub system: System,
    pub inspected: bool,
    pub outcome: Option<(State, Option<Reason>)>,
    /// How often each call was made, less one for its answer.
    pub open: [i8; CALLS],
    pub stopped: bool,
    pub cancelled: bool,
    pub cleared: bool,
    pub proven_late: bool,
}

impl Process {
    /// What decides about what can happen to it next.
    pub fn key(&self) -> (&Lifecycle, Moment, System, [bool; 6], [i8; CALLS]) {
        let marks = [self.cancelled, self.cleared, self.place.is_some(), self.proven_late];
        let known = [self.inspected, self.stopped, marks[0], marks[1], marks[2], marks[3]];
        (self.core.life(), self.now, self.system, known, self.open)
    }

    pub fn holds_place(&self) -> bool {
        !self.cleared && self.core.summary().holds_place()
    }
}

/// What the system, a caller or the clock can do to a process, in the order that is promised.
pub fn fine(process: &Process) -> Vec<Event> {
    let System { launched, failed, root_ended, gone, pipes_closed } = process.system;
    let settled = process.core.settled();
    let mut events = Vec::new();
    let mut may = |event, holds: bool| {
        if holds {
            events.push(event);
        }
    };
    may(Event::Launched, !launched && !failed);
    may(Event::LaunchFailed, !launched && !failed);
    may(Event::CancelStart, !process.cancelled && process.open[START as usize] > 0);
    may(Event::Ended, launched && !root_ended);
    may(Event::LeftOthers, launched && !root_ended);
    may(Event::Gone, root_ended && !gone);
    may(Event::Survivors, launched && !gone && process.inspected);
    may(Event::PipesClosed, launched && !pipes_closed);
    may(Event::Stop, !process.stopped);
    may(Event::Tick, process.core.next_tick().is_some());
    may(Event::Clear, settled && process.holds_place());
    events
}

/// The same, by whole ends.
pub fn coarse(process: &Process, detail: Detail) -> Vec<Event> {
    let System { launched, failed, root_ended, gone, pipes_closed } = process.system;
    let settled = process.core.settled();
    let uncertain = settled && process.holds_place();
    let all = [
        (Event::Launched, !launched && !failed && !settled),
        (Event::LaunchFailed, !launched && !failed),
        (Event::Stop, !process.stopped && !settled),
        (Event::Silence, !settled),
        (Event::WholeEnd, launched && !root_ended && !settled),
        (Event::LeftOthers, launched && !root_ended && !settled),
        (Event::Gone, root_ended && !gone),
        (Event::PipesClosed, root_ended && !pipes_closed && !settled),
        (Event::LateEnd, uncertain && !root_ended),
        (Event::Clear, uncertain),
    ];
    let finer = [Event::LeftOthers, Event::Gone, Event::PipesClosed];
    let told = |event: &Event| detail == Detail::Coarse || !finer.contains(event);
    all.into_iter().filter(|(event, holds)| *holds && told(event)).map(|(event, _)| event).collect()
}

pub fn process(id: &ProcessId, session: SessionName, place: PlaceKey) -> Process {
    let facts = Admission {
        process_id: id.clone(),
        session,
        agent: AgentName::main(),
        request: None,
        mode: Mode::Background,
        label: None,
        name: "true".into(),
        command: "true".into(),
        cwd: "/".into(),
        containment: Containment { kind: ContainmentKind::Group, why: None },
        admitted: Moment::ZERO,
        admitted_at: SystemTime::UNIX_EPOCH,
        timeout_ms: None,
        policy: POLICY,
        retain_bytes: 4096,
        replaces: None,
    };
    Process {
        core: ProcessCore::new(facts, Arc::new(Gauge::new(Moment::ZERO))),
        place: Some(place),
        now: Moment::ZERO,
        system: System::default(),
        inspected: false,
        outcome: None,
        open: [0; CALLS],
        stopped: false,
        cancelled: false,
        cleared: false,
        proven_late: false,
    }
}

pub fn failure() -> LaunchFailure {
    LaunchFailure {
        operation: "execute".into(),
        errno: 2,
        system: "No such file".into(),
        path: None,
        hint: String::new(),
    }
}
