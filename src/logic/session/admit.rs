//! What may start: limits, labels, ids of starts. Admission makes the record; the place comes from the host.

use std::sync::Arc;
use std::time::SystemTime;

use super::{Record, SessionCore};
use crate::logic::gauge::Gauge;
use crate::logic::process::{Summary, quote};
use crate::protocol::bounds::HOLDERS_MAX;
use crate::protocol::call::{Caller, Origin};
use crate::protocol::error::{Code, Error};
use crate::protocol::id::{AgentName, Handle, Label, ProcessId};
use crate::protocol::spec::{Mode, OnConflict, Spec};
use crate::protocol::state::State;
use crate::protocol::time::Moment;
use crate::protocol::verb::host::Holder;

/// Most holders that the message of a refusal names; its details name more.
const NAMED_MAX: usize = 20;

/// A start as it is asked for.
#[derive(Clone, Debug)]
pub struct Ask {
    /// Who asks.
    pub origin: Origin,
    /// The id it gets if it is admitted.
    pub process_id: ProcessId,
    /// Whether its caller waits for the end.
    pub mode: Mode,
    /// What to start.
    pub spec: Arc<Spec>,
    /// The time of day.
    pub at: SystemTime,
}

/// What becomes of a start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admitted {
    /// A record was made; a place is needed.
    New,
    /// This process is the answer; nothing is started.
    Existing(ProcessId),
    /// This process is to be stopped; the new one then takes its place.
    Replace(ProcessId),
}

impl SessionCore {
    /// Decides about a start.
    ///
    /// # Errors
    /// `conflict` for a label or start id that is taken, `limit_reached` at the session's limits, `shutting_down`,
    /// `unavailable` while the session is being deleted.
    pub fn admit(&mut self, now: Moment, ask: &Ask) -> Result<Admitted, Error> {
        self.refuse_if_ending()?;
        let agent = owner(&ask.origin.caller);
        if let Some(id) = ask.spec.start_id.as_ref().and_then(|id| self.start_ids.get(id)) {
            return self.same_start(id, ask);
        }
        if let Some(holder) = self.label_holder(&agent, ask.spec.label.as_ref()) {
            match ask.spec.on_conflict.unwrap_or(OnConflict::Allow) {
                OnConflict::Allow => {}
                OnConflict::Reuse => return Ok(Admitted::Existing(holder.process_id.clone())),
                OnConflict::Replace => return Ok(Admitted::Replace(holder.process_id.clone())),
                OnConflict::Refuse => return Err(label_taken(now, holder)),
            }
        }
        self.check_agents([&agent])?;
        self.check_live(now, &agent)?;
        self.insert(now, ask, agent, None);
        Ok(Admitted::New)
    }

    /// Makes the record of a process that takes the place of a settled one.
    ///
    /// # Errors
    /// As for a new start, but for the limit: the place is there.
    pub fn succeed(&mut self, now: Moment, ask: &Ask, old: &ProcessId) -> Result<(), Error> {
        self.refuse_if_ending()?;
        let agent = self.records.get(old).map_or_else(|| owner(&ask.origin.caller), |record| record.agent.clone());
        self.insert(now, ask, agent, Some(old.clone()));
        Ok(())
    }

    /// Makes the record of a process that is started again after its end was confirmed: a place is needed.
    ///
    /// # Errors
    /// As for a new start.
    pub fn again(&mut self, now: Moment, ask: &Ask, old: &ProcessId) -> Result<(), Error> {
        self.refuse_if_ending()?;
        let agent = self.records.get(old).map_or_else(|| owner(&ask.origin.caller), |record| record.agent.clone());
        self.check_agents([&agent])?;
        self.check_live(now, &agent)?;
        self.insert(now, ask, agent, Some(old.clone()));
        Ok(())
    }

    /// Takes back a record that got no place.
    pub fn refused(&mut self, id: &ProcessId) {
        self.drop_record(id);
    }

    /// Refuses a label that another live process of the same agent has.
    ///
    /// # Errors
    /// `conflict` names the holder.
    pub fn check_label(&self, now: Moment, id: &ProcessId, label: &Label) -> Result<(), Error> {
        let Some(record) = self.records.get(id) else { return Ok(()) };
        match self.label_holders(&record.agent, label).find(|holder| holder.process_id != *id) {
            Some(holder) => Err(label_taken(now, holder)),
            None => Ok(()),
        }
    }

    /// The error of a limit: which, its value, the caller's own holders, the count of the others.
    pub fn limit_reached(&self, now: Moment, limit: (&str, u64), held: u64, agent: &AgentName) -> Error {
        let own = self.holders(now, Some(agent));
        let others = held.saturating_sub(own.len() as u64);
        let mut named: Vec<String> = own.iter().take(NAMED_MAX).map(name_of).collect();
        if own.len() > NAMED_MAX {
            named.push(format!("{} more of yours", own.len() - NAMED_MAX));
        }
        let whose = if own.is_empty() { "none of them is yours".to_owned() } else { named.join(", ") };
        let (name, value) = limit;
        Error::new(
            Code::LimitReached,
            format!("`{name}` is {value} and all are taken ({whose}; {others} of others): stop one first"),
        )
        .with("limit", name)
        .with("value", value)
        .with("holders", own.iter().take(HOLDERS_MAX).collect::<Vec<_>>())
        .with("others", others)
    }

    /// Who holds places here: one agent, or all.
    pub fn holders(&self, now: Moment, agent: Option<&AgentName>) -> Vec<Holder> {
        let mine = |record: &&Record| agent.is_none_or(|agent| record.agent == *agent);
        self.order
            .values()
            .filter_map(|id| self.records.get(id))
            .filter(|record| record.summary.holds_place())
            .filter(mine)
            .map(|record| self.holder(now, record))
            .collect()
    }

    /// A record as the holder of a place.
    pub fn holder(&self, now: Moment, record: &Record) -> Holder {
        Holder {
            process_id: record.process_id.clone(),
            session: self.name.clone(),
            agent: record.agent.clone(),
            label: record.label.clone(),
            age_ms: now.ms_since(record.admitted),
            uncertain: record.summary.settled && record.summary.holds_place(),
        }
    }

    /// Places held here.
    pub fn places_held(&self) -> u64 {
        self.records.values().filter(|record| record.summary.holds_place()).count() as u64
    }

    fn check_live(&self, now: Moment, agent: &AgentName) -> Result<(), Error> {
        let limit = u64::from(self.settings.limits.live_per_session);
        let held = self.places_held();
        if held < limit {
            return Ok(());
        }
        Err(self.limit_reached(now, ("limits.live_per_session", limit), held, agent))
    }

    fn same_start(&self, id: &ProcessId, ask: &Ask) -> Result<Admitted, Error> {
        let record = &self.records[id];
        if *record.spec == *ask.spec && record.mode == ask.mode && record.agent == owner(&ask.origin.caller) {
            return Ok(Admitted::Existing(id.clone()));
        }
        Err(Error::new(Code::Conflict, "`start_id` was used for another start: use a new one")
            .with("field", "start_id"))
    }

    fn label_holder(&self, agent: &AgentName, label: Option<&Label>) -> Option<&Record> {
        self.label_holders(agent, label?).next()
    }

    /// The agent's live processes that have the label, newest first.
    fn label_holders(&self, agent: &AgentName, label: &Label) -> impl Iterator<Item = &Record> {
        self.order.values().rev().filter_map(|id| self.records.get(id)).filter(move |record| {
            record.label.as_ref() == Some(label) && record.agent == *agent && !record.summary.settled && !record.hidden
        })
    }

    fn insert(&mut self, now: Moment, ask: &Ask, agent: AgentName, replaces: Option<ProcessId>) {
        self.agents.entry(agent.clone()).or_default();
        let shown = shown(&ask.spec);
        let record = Record {
            process_id: ask.process_id.clone(),
            agent,
            request: ask.origin.request.clone(),
            mode: ask.mode,
            label: ask.spec.label.clone(),
            name: quote::name(&shown),
            spec: Arc::clone(&ask.spec),
            admitted: now,
            admitted_at: ask.at,
            summary: Summary { state: State::Starting, settled: false, exit: None, cleanup: None, ended: None },
            gauge: Arc::new(Gauge::new(now)),
            replaces,
            hidden: false,
            orphaned: None,
            seq: self.next_seq,
        };
        if let Some(start_id) = &ask.spec.start_id {
            self.start_ids.insert(start_id.clone(), ask.process_id.clone());
        }
        self.order.insert(self.next_seq, ask.process_id.clone());
        self.next_seq += 1;
        self.records.insert(ask.process_id.clone(), record);
    }
}

/// The command of `spec` as it is shown.
pub fn shown(spec: &Spec) -> String {
    match (&spec.command, &spec.argv) {
        (Some(command), _) => command.clone(),
        (None, Some(argv)) => quote::quote(argv),
        (None, None) => String::new(),
    }
}

/// The agent that what `caller` starts belongs to.
pub(super) fn owner(caller: &Caller) -> AgentName {
    match caller {
        Caller::Agent(agent) => agent.clone(),
        Caller::Operator => AgentName::main(),
    }
}

fn label_taken(now: Moment, holder: &Record) -> Error {
    let label = holder.label.as_ref().map_or("", Label::as_str);
    Error::new(
        Code::Conflict,
        format!(
            "label {label} is taken by {}, {} for {} s: stop it, use `on_conflict` (reuse, replace, allow), or another label",
            holder.process_id,
            state_word(holder.summary.state),
            now.ms_since(holder.admitted) / 1000
        ),
    )
    .with("field", "label")
    .with("holder", Handle::from(&holder.process_id))
    .with("state", holder.summary.state)
}

fn name_of(holder: &Holder) -> String {
    let label = holder.label.as_ref().map_or_else(String::new, |label| format!(" ({label})"));
    format!("{}{label} for {} s", holder.process_id, holder.age_ms / 1000)
}

fn state_word(state: State) -> &'static str {
    match state {
        State::Starting => "starting",
        State::Stopping => "stopping",
        _ => "running",
    }
}
