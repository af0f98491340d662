//! The calls on one process: answered at once, or parked until there is something to answer.

use super::lifecycle::{Input, Phase};
use super::{CallId, Effect, ProcessCore};
use crate::logic::output::{Output, PageError, PageQuery};
use crate::protocol::bounds::WAIT_OUTPUT_BYTES;
use crate::protocol::call::Answer;
use crate::protocol::error::{Code, Error};
use crate::protocol::id::{AgentName, Label};
use crate::protocol::output::{Cursor, Excerpt, Page};
use crate::protocol::state::{Cleanup, Reason};
use crate::protocol::time::Moment;
use crate::protocol::verb::exec::ExecAnswer;
use crate::protocol::verb::wait::{Condition, Observation, Outcome, WaitAnswer};

/// What can be asked of one process.
#[derive(Clone, Debug)]
pub enum ProcessCall {
    /// Its launch was asked for: answered with the status once it runs, or why it does not.
    Begun,
    /// The status.
    Status,
    /// A page; with nothing to read, after waiting so many milliseconds.
    Output(PageQuery, u64),
    /// The status when settled.
    Stop(Reason, Option<u64>),
    /// The end, within so many milliseconds.
    Wait(Option<u64>),
    /// The end, with so much of the newest output.
    Exec(u64),
    /// A new deadline (milliseconds after admission), a new label.
    Update(Option<Option<u64>>, Option<Label>),
    /// Another agent.
    Transfer(AgentName),
}

/// What a parked call waits for.
#[derive(Clone, Debug)]
enum Waits {
    Launch,
    Settled,
    Bytes { query: PageQuery, until: Moment },
    Exit { since: Cursor, until: Option<Moment> },
    Exec { max_bytes: u64 },
}

/// A call that waits.
#[derive(Clone, Debug)]
pub(super) struct Parked {
    call: CallId,
    waits: Waits,
}

impl Parked {
    pub(super) fn until(&self) -> Option<Moment> {
        match &self.waits {
            Waits::Bytes { until, .. } => Some(*until),
            Waits::Exit { until, .. } => *until,
            Waits::Launch | Waits::Settled | Waits::Exec { .. } => None,
        }
    }
}

impl ProcessCore {
    /// Answers a call, or parks it. Deadlines are looked at first: what is told is true now.
    pub fn call(&mut self, now: Moment, call: CallId, ask: ProcessCall) -> Vec<Effect> {
        let mut effects = self.live(now, Input::Tick);
        match ask {
            ProcessCall::Begun if self.life.phase() != Phase::Starting => {
                let answer = self.started(now);
                answer_now(&mut effects, call, answer);
            }
            ProcessCall::Begun => self.park(call, Waits::Launch),
            ProcessCall::Status => answer_now(&mut effects, call, Ok(self.status_answer(now))),
            ProcessCall::Output(query, wait_ms) => self.read(now, call, (query, wait_ms), &mut effects),
            ProcessCall::Stop(reason, grace_ms) => {
                let grace_ms = grace_ms.unwrap_or(self.facts.policy.grace_ms);
                effects.extend(self.live(now, Input::End(reason, grace_ms)));
                self.answer_when_settled(now, call, Waits::Settled, &mut effects);
            }
            ProcessCall::Wait(wait_ms) => {
                let until = wait_ms.map(|ms| now.plus_ms(ms));
                self.answer_when_settled(now, call, Waits::Exit { since: self.retained().end, until }, &mut effects);
                effects.extend(self.expire(now));
            }
            ProcessCall::Exec(max_bytes) => {
                self.answer_when_settled(now, call, Waits::Exec { max_bytes }, &mut effects);
            }
            ProcessCall::Update(timeout_ms, label) => self.update(now, call, (timeout_ms, label), &mut effects),
            ProcessCall::Transfer(agent) => {
                self.facts.agent = agent;
                answer_now(&mut effects, call, Ok(self.status_answer(now)));
            }
        }
        effects
    }

    /// Its caller has gone: nothing is answered. A start that nobody waits for any more is stopped.
    pub fn cancel(&mut self, now: Moment, call: CallId) -> Vec<Effect> {
        let Some(at) = self.parked.iter().position(|parked| parked.call == call) else { return Vec::new() };
        let gone = self.parked.swap_remove(at);
        let others = self.parked.iter().any(|parked| matches!(parked.waits, Waits::Launch));
        match gone.waits {
            Waits::Launch if others => Vec::new(),
            Waits::Launch => self.live(now, Input::End(Reason::StartCancelled, self.facts.policy.grace_ms)),
            Waits::Settled | Waits::Bytes { .. } | Waits::Exit { .. } | Waits::Exec { .. } => Vec::new(),
        }
    }

    fn park(&mut self, call: CallId, waits: Waits) {
        self.parked.push(Parked { call, waits });
    }

    /// Takes out the parked calls that are like `which`.
    fn unpark(&mut self, which: impl Fn(&Parked) -> bool) -> Vec<Parked> {
        self.parked.extract_if(.., |parked| which(parked)).collect()
    }

    fn answer_when_settled(&mut self, now: Moment, call: CallId, waits: Waits, effects: &mut Vec<Effect>) {
        if self.settled() {
            let answer = self.answer_settled(now, &waits);
            answer_now(effects, call, answer);
        } else {
            self.park(call, waits);
        }
    }

    fn read(&mut self, now: Moment, call: CallId, ask: (PageQuery, u64), effects: &mut Vec<Effect>) {
        let (query, wait_ms) = ask;
        if wait_ms > 0 && !self.settled() && !holds(&self.output, &query) {
            self.park(call, Waits::Bytes { query, until: now.plus_ms(wait_ms) });
        } else {
            let answer = self.page(&query).map(Answer::Output);
            answer_now(effects, call, answer);
        }
    }

    fn update(
        &mut self,
        now: Moment,
        call: CallId,
        change: (Option<Option<u64>>, Option<Label>),
        effects: &mut Vec<Effect>,
    ) {
        if self.settled() {
            answer_now(effects, call, Err(self.not_running()));
            return;
        }
        if let Some(timeout_ms) = change.0 {
            self.facts.timeout_ms = timeout_ms;
            self.life.set_deadline(timeout_ms.map(|ms| self.facts.admitted.plus_ms(ms)));
        }
        if let Some(label) = change.1 {
            self.facts.label = Some(label);
        }
        effects.extend(self.live(now, Input::Tick));
        answer_now(effects, call, Ok(self.status_answer(now)));
    }

    /// Answers calls whose time is over.
    pub(super) fn expire(&mut self, now: Moment) -> Vec<Effect> {
        let over = self.unpark(|parked| parked.until().is_some_and(|at| now >= at));
        over.into_iter()
            .map(|parked| {
                let answer = match &parked.waits {
                    Waits::Bytes { query, .. } => self.page(query).map(Answer::Output),
                    Waits::Exit { since, .. } => Ok(self.evidence(now, Outcome::Timeout, *since)),
                    Waits::Launch | Waits::Settled | Waits::Exec { .. } => self.answer_settled(now, &parked.waits),
                };
                Effect::Answer(parked.call, Box::new(answer))
            })
            .collect()
    }

    /// There is output: answers those who wait for a byte.
    pub(super) fn answer_readers(&mut self) -> Vec<Effect> {
        let output = &self.output;
        let ready = |parked: &mut Parked| matches!(&parked.waits, Waits::Bytes { query, .. } if holds(output, query));
        let answered: Vec<Parked> = self.parked.extract_if(.., ready).collect();
        answered
            .into_iter()
            .filter_map(|parked| match parked.waits {
                Waits::Bytes { query, .. } => Some((parked.call, self.page(&query).map(Answer::Output))),
                _ => None,
            })
            .map(|(call, answer)| Effect::Answer(call, Box::new(answer)))
            .collect()
    }

    /// It runs: answers those who started it.
    pub(super) fn answer_starters(&mut self, now: Moment, effects: &mut Vec<Effect>) {
        for parked in self.unpark(|parked| matches!(parked.waits, Waits::Launch)) {
            let answer = self.started(now);
            answer_now(effects, parked.call, answer);
        }
    }

    /// It is settled: answers everybody.
    pub(super) fn answer_all(&mut self, now: Moment, effects: &mut Vec<Effect>) {
        for parked in std::mem::take(&mut self.parked) {
            let answer = self.answer_settled(now, &parked.waits);
            answer_now(effects, parked.call, answer);
        }
    }

    fn answer_settled(&self, now: Moment, waits: &Waits) -> Result<Answer, Error> {
        match waits {
            Waits::Launch => self.started(now),
            Waits::Settled => Ok(self.status_answer(now)),
            Waits::Bytes { query, .. } => self.page(query).map(Answer::Output),
            Waits::Exit { since, .. } => {
                let uncertain = self.life.cleanup() == Some(Cleanup::Uncertain);
                let outcome = if uncertain { Outcome::Unavailable } else { Outcome::Satisfied };
                Ok(self.evidence(now, outcome, *since))
            }
            Waits::Exec { max_bytes } => Ok(self.exec_answer(now, *max_bytes)),
        }
    }

    fn started(&self, now: Moment) -> Result<Answer, Error> {
        match &self.failure {
            Some(failure) if self.life.reason() == Some(Reason::LaunchError) => {
                Err(super::report::launch_failed(&self.facts.process_id, failure))
            }
            _ => Ok(self.status_answer(now)),
        }
    }

    fn status_answer(&self, now: Moment) -> Answer {
        Answer::Status(Box::new(self.status(now)))
    }

    fn page(&self, query: &PageQuery) -> Result<Page, Error> {
        let cut = self.output.page(query).map_err(|error| self.page_error(query, &error))?;
        let retained = self.retained();
        Ok(Page {
            process_id: self.facts.process_id.clone(),
            state: self.life.state(),
            start: cut.start,
            next_cursor: cut.next_cursor,
            earliest: retained.earliest,
            end: retained.end,
            dropped_bytes: cut.dropped_bytes,
            eof: self.settled() && cut.next_cursor == retained.end,
            chunks: cut.chunks,
            max_bytes: None,
            wait_ms: None,
        })
    }

    fn page_error(&self, query: &PageQuery, error: &PageError) -> Error {
        match error {
            PageError::OutOfRange { end } => Error::new(
                Code::CursorOutOfRange,
                format!("`cursor` is {}: the output ends at {end}", query.cursor.unwrap_or(0)),
            )
            .with("earliest", self.retained().earliest)
            .with("end", end),
            PageError::TooSmall { needed } => Error::new(
                Code::PageTooSmall,
                format!("`max_bytes` is {}: the next character needs {needed}", query.max_bytes),
            )
            .with("needed", needed),
        }
    }

    fn evidence(&self, now: Moment, outcome: Outcome, since: Cursor) -> Answer {
        let from = if outcome == Outcome::Timeout { 0 } else { since };
        Answer::Wait(Box::new(WaitAnswer {
            outcome,
            condition: Condition::Exit {},
            observation: Observation { state: self.life.state(), exit: self.exit(), cleanup: self.life.cleanup() },
            process: self.status(now).row(),
            new_output: self.output.excerpt(from, WAIT_OUTPUT_BYTES),
            processes: Vec::new(),
            wait_ms: None,
        }))
    }

    fn exec_answer(&self, now: Moment, max_bytes: u64) -> Answer {
        let process = self.status(now);
        let output: Excerpt = self.output.excerpt(0, max_bytes);
        Answer::Exec(Box::new(ExecAnswer {
            yielded: false,
            duration_ms: process.runtime_ms,
            advice: super::report::advice(&process, &output),
            process,
            output,
        }))
    }

    fn not_running(&self) -> Error {
        let state = self.life.state();
        Error::new(
            Code::NotRunning,
            format!("the process has ended ({})", super::report::in_words(&self.facts, &self.life)),
        )
        .with("state", state)
        .with("exit", self.exit())
    }
}

/// Whether there is something to answer a reader: a byte it asked for, or an error. A byte of a stream that it did not
/// choose is none.
fn holds(output: &Output, query: &PageQuery) -> bool {
    match query.stream {
        None => query.cursor.unwrap_or(0) != output.retained().end,
        Some(_) => output.page(query).map_or(true, |cut| !cut.chunks.is_empty()),
    }
}

fn answer_now(effects: &mut Vec<Effect>, call: CallId, answer: Result<Answer, Error>) {
    effects.push(Effect::Answer(call, Box::new(answer)));
}
