//! The life of one process, as one total rule: every input in every phase is decided here.
//!
//! The phase that follows, for an undisturbed process (`asked` = somebody asked it to end while it was starting;
//! `uncertain` = settled without proof). `·` = cannot happen or comes too late: counted, never acted on.
//!
//! ```text
//! phase     | Launched | LaunchFailed | RootEnded | Leftovers | Survivors | Gone     | PipesClosed | End      | Deadline
//! ----------+----------+--------------+-----------+-----------+-----------+----------+-------------+----------+---------
//! starting  | running  | final        | ·         | ·         | ·         | ·        | ·           | starting | starting
//! asked     | stopping | final        | ·         | ·         | ·         | ·        | ·           | asked    | asked
//! running   | ·        | ·            | settling  | ·         | running   | ·        | running     | stopping | stopping
//! stopping  | ·        | ·            | settling  | ·         | stopping  | ·        | stopping    | stopping | stopping
//! settling  | ·        | ·            | ·         | settling  | settling  | settling | settling    | settling | settling
//! uncertain | ·        | final        | uncertain | uncertain | ·         | final    | ·           | uncertain| uncertain
//! final     | ·        | ·            | ·         | ·         | ·         | ·        | ·           | final    | final
//! ```
//!
//! `settling` becomes final when the tree is dealt with and the pipes are drained, whichever comes last. The first
//! cause of an end wins; a deadline that has passed counts even if nobody had looked at the clock.

use crate::protocol::bounds::SURVIVORS_MAX;
use crate::protocol::state::{Cleanup, Exit, Proof, Reason, State, Survivor};
use crate::protocol::time::Moment;

pub use super::words::{Effect, Input, Phase, Policy};

/// How long the answer to "what is left?" is waited for before a process settles without it.
pub const INSPECT_MS: u64 = 1000;

/// What became of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Verdict {
    Gone(Proof),
    Uncertain,
}

/// The clock of reading what something outside the tree still holds open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Drain {
    quiet_since: Moment,
    until: Moment,
}

/// The life of one process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lifecycle {
    policy: Policy,
    phase: Phase,
    /// The first cause of an end that somebody here wanted.
    cause: Option<Reason>,
    /// The final state and its reason.
    outcome: Option<(State, Reason)>,
    launched: bool,
    launch_failed: bool,
    deadline: Option<Moment>,
    root_ended: bool,
    exit: Option<Exit>,
    /// Somebody asked for its end, whether or not that became its cause.
    hurried: bool,
    signalled_at: Option<Moment>,
    killed: bool,
    kill_at: Option<Moment>,
    uncertain_at: Option<Moment>,
    inspect_until: Option<Moment>,
    verdict: Option<Verdict>,
    pipes_closed: bool,
    finishing: bool,
    drain: Option<Drain>,
    survivors: Vec<Survivor>,
    warnings: Vec<String>,
    late: u32,
}

impl Lifecycle {
    /// A process whose launch has begun, with its deadline.
    pub fn new(policy: Policy, deadline: Option<Moment>) -> Self {
        Lifecycle {
            policy,
            phase: Phase::Starting,
            cause: None,
            outcome: None,
            launched: false,
            launch_failed: false,
            deadline,
            root_ended: false,
            exit: None,
            hurried: false,
            signalled_at: None,
            killed: false,
            kill_at: None,
            uncertain_at: None,
            inspect_until: None,
            verdict: None,
            pipes_closed: false,
            finishing: false,
            drain: None,
            survivors: Vec::new(),
            warnings: Vec::new(),
            late: 0,
        }
    }

    /// Decides. `now` is when the input was seen, which for `RootEnded` may be before it is handled.
    #[must_use = "an effect that is not carried out is lost"]
    pub fn handle(&mut self, now: Moment, input: Input) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.pass_deadline(now, &mut effects);
        match self.phase {
            Phase::Starting => self.while_starting(now, input, &mut effects),
            Phase::Running | Phase::Stopping => self.while_alive(now, input, &mut effects),
            Phase::Settling => self.while_settling(now, input, &mut effects),
            Phase::Final => self.when_final(input, &mut effects),
        }
        self.pass_time(now, &mut effects);
        self.settle_if_done(&mut effects);
        effects
    }

    /// Output arrived: whatever holds the pipe is not silent.
    pub fn heard(&mut self, now: Moment) {
        if let Some(drain) = &mut self.drain {
            drain.quiet_since = now;
        }
    }

    /// Output waits for a reader of ours: the pipe is not silent, and time does not count; unless somebody asked for
    /// the end, who waits for no reader.
    pub fn backlogged(&mut self, now: Moment) {
        if let Some(drain) = self.drain.as_mut().filter(|_| !self.hurried) {
            *drain = Drain { quiet_since: now, until: now.plus_ms(self.policy.drain_max_ms) };
        }
    }

    /// Moves the deadline of a process that is not settled.
    pub fn set_deadline(&mut self, deadline: Option<Moment>) {
        self.deadline = deadline;
    }

    /// When it wants to be handled next, at the latest.
    pub fn next_tick(&self) -> Option<Moment> {
        if self.phase == Phase::Final {
            return None;
        }
        if self.verdict.is_some() {
            // Only the pipes are waited for; a kill that is due no more would be asked for again and again.
            return self.drain.filter(|_| !self.finishing && !self.pipes_closed).map(|drain| self.drained_at(drain));
        }
        let deadline = self.deadline.filter(|_| self.cause.is_none() && self.phase != Phase::Settling);
        let kill = self.kill_at.filter(|_| !self.killed);
        let uncertain = self.uncertain_at.filter(|_| self.inspect_until.is_none());
        [deadline, kill, uncertain, self.inspect_until].into_iter().flatten().min()
    }

    /// The phase.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// The state to show.
    pub fn state(&self) -> State {
        match (self.phase, self.outcome) {
            (_, Some((state, _))) => state,
            (Phase::Starting, None) => State::Starting,
            (_, None) if self.cause.is_some() => State::Stopping,
            (_, None) => State::Running,
        }
    }

    /// The reason to show: of the final state, or of the end that is under way.
    pub fn reason(&self) -> Option<Reason> {
        self.outcome.map(|(_, reason)| reason).or(self.cause)
    }

    /// How the root ended; shown once settled.
    pub fn exit(&self) -> Option<&Exit> {
        self.exit.as_ref()
    }

    /// Whether the root has ended but the process is not settled.
    pub fn settling(&self) -> bool {
        self.phase == Phase::Settling
    }

    /// What is known about what it left behind, once final.
    pub fn cleanup(&self) -> Option<Cleanup> {
        (self.phase == Phase::Final).then_some(match self.verdict {
            Some(Verdict::Uncertain) => Cleanup::Uncertain,
            _ => Cleanup::Confirmed,
        })
    }

    /// What shows that nothing is left.
    pub fn proof(&self) -> Option<Proof> {
        match self.verdict {
            Some(Verdict::Gone(proof)) if self.phase == Phase::Final => Some(proof),
            _ => None,
        }
    }

    /// What was still there when waiting was given up.
    pub fn survivors(&self) -> &[Survivor] {
        &self.survivors
    }

    /// What a reader should know.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// When it will be ended.
    pub fn deadline(&self) -> Option<Moment> {
        self.deadline
    }

    /// Inputs that could not happen or came too late.
    pub fn late(&self) -> u32 {
        self.late
    }

    fn while_starting(&mut self, now: Moment, input: Input, effects: &mut Vec<Effect>) {
        self.launched = input == Input::Launched;
        match input {
            Input::Launched if self.cause.is_some() => {
                self.phase = Phase::Stopping;
                effects.push(Effect::Running);
                self.send_signal(now, effects);
                if self.killed {
                    // The grace was over before there was anything to kill: the time to confirm begins now.
                    self.uncertain_at = Some(now.plus_ms(self.policy.confirm_ms));
                    self.inspect_until = None;
                    effects.push(Effect::Kill);
                }
            }
            Input::Launched => {
                self.phase = Phase::Running;
                effects.push(Effect::Running);
            }
            Input::LaunchFailed => {
                self.launch_failed = true;
                self.phase = Phase::Settling;
                self.pipes_closed = true;
            }
            Input::End(reason, grace_ms) => self.ask(now, reason, grace_ms, effects),
            Input::Tick => {}
            Input::RootEnded(_) | Input::Leftovers(_) | Input::Survivors(_) | Input::Gone(_) | Input::PipesClosed => {
                self.late += 1
            }
        }
    }

    fn while_alive(&mut self, now: Moment, input: Input, effects: &mut Vec<Effect>) {
        match input {
            Input::RootEnded(exit) => {
                self.phase = Phase::Settling;
                effects.push(Effect::HurryPipes);
                self.learn_exit(exit, effects);
            }
            Input::Survivors(list) => self.judge_survivors(list, effects),
            Input::PipesClosed => self.pipes_closed = true,
            Input::End(reason, grace_ms) => self.ask(now, reason, grace_ms, effects),
            Input::Tick => {}
            Input::Launched | Input::LaunchFailed | Input::Leftovers(_) | Input::Gone(_) => self.late += 1,
        }
    }

    fn while_settling(&mut self, now: Moment, input: Input, effects: &mut Vec<Effect>) {
        match input {
            // Nothing is left: nothing can follow.
            Input::Leftovers(_) | Input::Gone(_) if matches!(self.verdict, Some(Verdict::Gone(_))) => self.late += 1,
            Input::Leftovers(count) => {
                if self.cause.is_none() {
                    let them = if count == 1 { "1 process" } else { &format!("{count} processes") };
                    self.warnings.push(format!("the root ended and left {them} behind, which are ended too"));
                }
                self.shorten_grace(now.plus_ms(self.policy.grace_ms));
                self.send_signal(now, effects);
            }
            Input::Gone(proof) => {
                self.verdict = Some(Verdict::Gone(proof));
                self.survivors.clear();
                self.drain = Some(Drain { quiet_since: now, until: now.plus_ms(self.policy.drain_max_ms) });
            }
            // It was given up while the root lived, and its pipes are still being read.
            Input::RootEnded(exit) if !self.root_ended => self.learn_exit(exit, effects),
            Input::Survivors(list) => self.judge_survivors(list, effects),
            Input::PipesClosed => self.pipes_closed = true,
            // Its end is decided already; whoever asks joins, and may be in more of a hurry than what it left has been
            // given, or will be: nobody waits for longer than was asked.
            Input::End(_, grace_ms) => {
                self.hurried = true;
                self.shorten_grace(now.plus_ms(grace_ms));
            }
            Input::Tick => {}
            Input::Launched | Input::LaunchFailed | Input::RootEnded(_) => self.late += 1,
        }
    }

    fn when_final(&mut self, input: Input, effects: &mut Vec<Effect>) {
        let uncertain = self.verdict == Some(Verdict::Uncertain);
        match input {
            Input::Gone(proof) if uncertain => {
                self.verdict = Some(Verdict::Gone(proof));
                self.survivors.clear();
                effects.push(Effect::Confirmed);
            }
            Input::LaunchFailed if uncertain && !self.launched => {
                self.verdict = None;
                effects.push(Effect::Confirmed);
            }
            Input::RootEnded(exit) if uncertain && self.launched && !self.root_ended => self.learn_exit(exit, effects),
            // A launch that was given up for good succeeded after all.
            Input::Launched if uncertain && !self.launched => {
                self.launched = true;
                effects.extend([Effect::FinishPipes, Effect::Kill]);
            }
            Input::Leftovers(_) if uncertain => effects.push(Effect::Kill),
            Input::End(..) | Input::Tick => {}
            Input::Launched
            | Input::LaunchFailed
            | Input::RootEnded(_)
            | Input::Leftovers(_)
            | Input::Survivors(_)
            | Input::Gone(_)
            | Input::PipesClosed => self.late += 1,
        }
    }

    fn learn_exit(&mut self, exit: Option<Exit>, effects: &mut Vec<Effect>) {
        self.root_ended = true;
        self.exit = exit;
        effects.push(Effect::Changed);
    }

    /// Somebody asks for the end of a process that is starting or alive.
    fn ask(&mut self, now: Moment, reason: Reason, grace_ms: u64, effects: &mut Vec<Effect>) {
        let first = self.cause.is_none();
        self.hurried = true;
        self.cause.get_or_insert(reason);
        self.shorten_grace(now.plus_ms(grace_ms));
        match self.phase {
            Phase::Starting if first => effects.extend([Effect::Changed, Effect::Abort]),
            Phase::Running => {
                self.phase = Phase::Stopping;
                effects.push(Effect::Changed);
                self.send_signal(now, effects);
            }
            Phase::Starting | Phase::Stopping | Phase::Settling | Phase::Final => {}
        }
    }

    fn pass_deadline(&mut self, now: Moment, effects: &mut Vec<Effect>) {
        let alive = matches!(self.phase, Phase::Starting | Phase::Running);
        if alive && self.cause.is_none() && self.deadline.is_some_and(|deadline| now >= deadline) {
            self.ask(now, Reason::Deadline, self.policy.grace_ms, effects);
        }
    }

    fn pass_time(&mut self, now: Moment, effects: &mut Vec<Effect>) {
        let due = |at: Option<Moment>| at.is_some_and(|at| now >= at);
        if matches!(self.phase, Phase::Final) || self.verdict.is_some() {
            self.pass_drain(now, effects);
            return;
        }
        if !self.killed && due(self.kill_at) {
            self.killed = true;
            self.uncertain_at = Some(now.plus_ms(self.policy.confirm_ms));
            effects.push(Effect::Kill);
            if self.signalled_at.is_some_and(|at| at < now) {
                self.warnings.push("not all of it ended within its grace: what was left was killed".to_owned());
            }
        } else if self.inspect_until.is_none() && due(self.uncertain_at) {
            self.inspect_until = Some(now.plus_ms(INSPECT_MS));
            effects.push(Effect::Inspect);
        } else if due(self.inspect_until) {
            self.warnings.push("what is left could not be listed in time".to_owned());
            self.give_up(effects);
        }
    }

    fn pass_drain(&mut self, now: Moment, effects: &mut Vec<Effect>) {
        let Some(drain) = self.drain else { return };
        if self.phase == Phase::Settling && !self.pipes_closed && !self.finishing && now >= self.drained_at(drain) {
            self.finishing = true;
            self.warnings.push(
                "something outside the process still holds its output open; what it writes from now on is not read"
                    .to_owned(),
            );
            effects.push(Effect::FinishPipes);
        }
    }

    fn drained_at(&self, drain: Drain) -> Moment {
        drain.quiet_since.plus_ms(self.policy.drain_idle_ms).min(drain.until)
    }

    fn judge_survivors(&mut self, mut list: Vec<Survivor>, effects: &mut Vec<Effect>) {
        if self.inspect_until.is_some() && self.verdict.is_none() {
            if list.len() > SURVIVORS_MAX {
                self.warnings.push(format!("{} survivors, of which {SURVIVORS_MAX} are named", list.len()));
                list.truncate(SURVIVORS_MAX);
            }
            self.survivors = list;
            self.give_up(effects);
        }
    }

    /// Settles without proof: what the pipes hold now is read, and no more.
    fn give_up(&mut self, effects: &mut Vec<Effect>) {
        self.verdict = Some(Verdict::Uncertain);
        if self.phase == Phase::Starting {
            self.warnings.push("the launch was never answered".to_owned());
            self.pipes_closed = true;
        } else if !self.pipes_closed && !self.finishing {
            self.finishing = true;
            effects.push(Effect::FinishPipes);
        }
        self.phase = Phase::Settling;
    }

    fn settle_if_done(&mut self, effects: &mut Vec<Effect>) {
        let dealt_with = self.launch_failed || self.verdict.is_some();
        if self.phase == Phase::Settling && dealt_with && self.pipes_closed {
            self.phase = Phase::Final;
            self.outcome = Some(self.decide());
            effects.push(Effect::Settled);
        }
    }

    fn decide(&self) -> (State, Reason) {
        match (self.cause, &self.exit) {
            (Some(Reason::Deadline), _) => (State::TimedOut, Reason::Deadline),
            (Some(reason), _) => (State::Stopped, reason),
            (None, _) if self.launch_failed => (State::Failed, Reason::LaunchError),
            (None, Some(Exit { code: Some(0), .. })) => (State::Exited, Reason::Exit),
            (None, Some(Exit { signal: Some(_), .. })) => (State::Failed, Reason::Signal),
            (None, Some(_)) => (State::Failed, Reason::Exit),
            // Somebody else collected the root's end: nobody here saw it, and nothing is made up.
            (None, None) => (State::Lost, Reason::SupervisorFailed),
        }
    }

    fn shorten_grace(&mut self, kill_at: Moment) {
        self.kill_at = Some(self.kill_at.map_or(kill_at, |earlier| earlier.min(kill_at)));
    }

    /// Sends the stop signal, once.
    fn send_signal(&mut self, now: Moment, effects: &mut Vec<Effect>) {
        if self.signalled_at.is_none() && !self.killed {
            self.signalled_at = Some(now);
            effects.push(Effect::Signal(self.policy.signal));
        }
    }
}

#[cfg(test)]
#[path = "lifecycle_tests.rs"]
mod tests;
