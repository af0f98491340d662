//! The rules of one process: its life, its output, and the calls that wait for either.
//!
//! [`ProcessCore`] composes them. A parked call is data here: the core holds its number, the shell its reply port.
//! Each call is answered exactly once. Time is an argument.

mod calls;
pub mod lifecycle;
pub mod quote;
mod report;
mod words;

use std::sync::Arc;
use std::time::SystemTime;

use crate::logic::gauge::Gauge;
use crate::logic::output::Output;
use crate::protocol::call::Answer;
use crate::protocol::error::Error;
use crate::protocol::id::{AgentName, Label, ProcessId, RequestName, SessionName};
use crate::protocol::output::{Cursor, Retained, Stream};
use crate::protocol::spec::{Lifetime, Mode};
use crate::protocol::state::{Cleanup, Containment, Exit, Reason, State};
use crate::protocol::time::Moment;

use calls::Parked;
pub use calls::ProcessCall;
use lifecycle::{Input, Lifecycle, Policy};

/// Numbers one call of one process.
pub type CallId = u64;

/// What is fixed about a process when it is admitted.
#[derive(Clone, Debug)]
pub struct Admission {
    /// Its id.
    pub process_id: ProcessId,
    /// Its session.
    pub session: SessionName,
    /// The agent it belongs to.
    pub agent: AgentName,
    /// The request that made it.
    pub request: Option<RequestName>,
    /// Whether its caller waits for the end.
    pub mode: Mode,
    /// The caller's own word for it.
    pub label: Option<Label>,
    /// A short name.
    pub name: String,
    /// The command as it is shown.
    pub command: String,
    /// The working directory as it is shown.
    pub cwd: String,
    /// How far the means of ending it reach.
    pub containment: Containment,
    /// When it was admitted.
    pub admitted: Moment,
    /// The time of day then.
    pub admitted_at: SystemTime,
    /// Milliseconds from then to its deadline.
    pub timeout_ms: Option<u64>,
    /// How it is ended.
    pub policy: Policy,
    /// Newest output kept.
    pub retain_bytes: u64,
    /// The process it takes the place of.
    pub replaces: Option<ProcessId>,
}

/// Why a launch failed, as far as the rules care.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchFailure {
    /// The step.
    pub operation: String,
    /// The system's error number, 0 where there is none.
    pub errno: i32,
    /// What the system says of it.
    pub system: String,
    /// The path concerned.
    pub path: Option<String>,
    /// What would help.
    pub hint: String,
}

/// What a session knows of a process without asking it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Its state.
    pub state: State,
    /// Whether it is final.
    pub settled: bool,
    /// How its root ended.
    pub exit: Option<Exit>,
    /// What is known about what it left behind.
    pub cleanup: Option<Cleanup>,
    /// When it settled.
    pub ended: Option<Moment>,
}

impl Summary {
    /// Whether it holds a place: it is not settled, or not proven to be gone.
    pub fn holds_place(&self) -> bool {
        !self.settled || self.cleanup == Some(Cleanup::Uncertain)
    }
}

/// What the shell is to do.
#[derive(Debug)]
pub enum Effect {
    /// Carry out on the tree or the pipes.
    Act(lifecycle::Effect),
    /// Answer a call.
    Answer(CallId, Box<Result<Answer, Error>>),
    /// Tell the session.
    Publish(Summary),
}

/// The rules of one process.
#[derive(Clone, Debug)]
pub struct ProcessCore {
    facts: Admission,
    life: Lifecycle,
    failure: Option<LaunchFailure>,
    output: Output,
    open_streams: Vec<Stream>,
    parked: Vec<Parked>,
    gauge: Arc<Gauge>,
    last_output: Moment,
    ended: Option<Moment>,
}

impl ProcessCore {
    /// A process whose launch is about to begin. `gauge` is where its session reads how much it wrote.
    pub fn new(facts: Admission, gauge: Arc<Gauge>) -> Self {
        let deadline = facts.timeout_ms.map(|ms| facts.admitted.plus_ms(ms));
        ProcessCore {
            life: Lifecycle::new(facts.policy, deadline),
            failure: None,
            output: Output::new(facts.retain_bytes),
            open_streams: Vec::new(),
            parked: Vec::new(),
            gauge,
            last_output: facts.admitted,
            ended: None,
            facts,
        }
    }

    /// The kernel executed the program, and these streams are open.
    pub fn launched(&mut self, now: Moment) -> Vec<Effect> {
        self.open_streams = Stream::ALL.to_vec();
        self.live(now, Input::Launched)
    }

    /// It did not.
    pub fn launch_failed(&mut self, now: Moment, failure: LaunchFailure) -> Vec<Effect> {
        self.failure = Some(failure);
        self.live(now, Input::LaunchFailed)
    }

    /// Something happened to its tree, or somebody asks for its end.
    pub fn live(&mut self, now: Moment, input: Input) -> Vec<Effect> {
        let effects = self.life.handle(now, input);
        self.carry(now, effects)
    }

    /// It is to end, with its own grace.
    pub fn end(&mut self, now: Moment, reason: Reason) -> Vec<Effect> {
        self.live(now, Input::End(reason, self.facts.policy.grace_ms))
    }

    /// Bytes were written. After its end they are ignored: nothing is added to a final process.
    pub fn output(&mut self, now: Moment, stream: Stream, bytes: &[u8]) -> Vec<Effect> {
        if self.settled() {
            return Vec::new();
        }
        self.output.push(stream, bytes);
        self.last_output = now;
        self.life.heard(now);
        self.gauge.wrote(now, self.output.retained());
        if self.parked.is_empty() { Vec::new() } else { self.answer_readers() }
    }

    /// A stream was read to its end, or given up.
    pub fn stream_closed(&mut self, now: Moment, stream: Stream) -> Vec<Effect> {
        if self.settled() {
            return Vec::new();
        }
        self.output.close(stream);
        self.gauge.wrote(self.last_output, self.output.retained());
        self.open_streams.retain(|open| *open != stream);
        if self.open_streams.is_empty() { self.live(now, Input::PipesClosed) } else { Vec::new() }
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Moment) -> Vec<Effect> {
        let mut effects = self.live(now, Input::Tick);
        effects.extend(self.expire(now));
        effects
    }

    /// Its output waits for a reader: see [`Lifecycle::backlogged`].
    pub fn backlogged(&mut self, now: Moment) {
        self.life.backlogged(now);
    }

    /// Position after the newest byte of its output.
    pub fn output_end(&self) -> Cursor {
        self.retained().end
    }

    /// When it is ended for lasting too long.
    pub fn deadline(&self) -> Option<Moment> {
        self.life.deadline()
    }

    /// When it wants to be ticked next, at the latest.
    pub fn next_tick(&self) -> Option<Moment> {
        let parked = self.parked.iter().filter_map(Parked::until).min();
        [self.life.next_tick(), parked].into_iter().flatten().min()
    }

    /// Whether it is in its final state.
    pub fn settled(&self) -> bool {
        self.ended.is_some()
    }

    /// Its life as it stands.
    pub fn life(&self) -> &Lifecycle {
        &self.life
    }

    /// Calls that wait.
    pub fn parked(&self) -> usize {
        self.parked.len()
    }

    /// Inputs that could not happen or came too late.
    pub fn late(&self) -> u32 {
        self.life.late()
    }

    /// What its session is told.
    pub fn summary(&self) -> Summary {
        Summary {
            state: self.life.state(),
            settled: self.settled(),
            exit: self.exit(),
            cleanup: self.life.cleanup(),
            ended: self.ended,
        }
    }

    fn retained(&self) -> Retained {
        self.output.retained()
    }

    fn exit(&self) -> Option<Exit> {
        self.life.exit().filter(|_| self.settled()).cloned()
    }

    fn carry(&mut self, now: Moment, effects: Vec<lifecycle::Effect>) -> Vec<Effect> {
        let mut out = Vec::with_capacity(effects.len());
        for effect in effects {
            match effect {
                lifecycle::Effect::Running => {
                    out.push(Effect::Publish(self.summary()));
                    self.answer_starters(now, &mut out);
                }
                lifecycle::Effect::Changed | lifecycle::Effect::Confirmed => out.push(Effect::Publish(self.summary())),
                lifecycle::Effect::Settled => {
                    self.ended = Some(now);
                    for stream in std::mem::take(&mut self.open_streams) {
                        self.output.close(stream);
                    }
                    self.gauge.wrote(self.last_output, self.output.retained());
                    // The session hears of it before anybody who waits: what they ask next is answered alike.
                    out.push(Effect::Publish(self.summary()));
                    self.answer_all(now, &mut out);
                }
                act => out.push(Effect::Act(act)),
            }
        }
        out
    }
}

/// How long a process lives in relation to its request, by how it was made.
fn lifetime(mode: Mode) -> Lifetime {
    match mode {
        Mode::Foreground => Lifetime::Command,
        Mode::Background => Lifetime::Service,
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
