//! The rules of one session: whose processes there are, who sees which, what may start, what is kept.
//!
//! [`SessionCore`] decides; the session's actor asks the host for places, spawns and tells. A place belongs to a
//! record from its admission until its process is proven to be gone, or an operator clears it.

pub mod admit;
mod find;
pub mod forget;
mod gather;
pub mod orphan;
pub mod show;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use crate::logic::gauge::Gauge;
use crate::logic::process::Summary;
use crate::protocol::bounds::AGENTS_MAX;
use crate::protocol::error::{Code, Error};
use crate::protocol::id::{AgentName, Label, ProcessId, RequestName, SessionName};
use crate::protocol::settings::SessionSettings;
use crate::protocol::spec::{Mode, Spec};
use crate::protocol::state::Reason;
use crate::protocol::status::Status;
use crate::protocol::time::Moment;
use crate::protocol::verb::agent::Sees;

pub use admit::{Admitted, Ask};
pub use gather::{Gathered, Gathering};

/// What a session knows of one of its processes.
#[derive(Clone, Debug)]
pub struct Record {
    /// Its id.
    pub process_id: ProcessId,
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
    /// What was asked for: a restart asks again.
    pub spec: Arc<Spec>,
    /// When it was admitted.
    pub admitted: Moment,
    /// The time of day then.
    pub admitted_at: SystemTime,
    /// What is known of it without asking.
    pub summary: Summary,
    /// How much it wrote.
    pub gauge: Arc<Gauge>,
    /// The process it takes the place of.
    pub replaces: Option<ProcessId>,
    /// Whether it was removed while live: it is listed again only if it settles uncertain.
    pub hidden: bool,
    /// Its last status, where its actor died: nobody is left to ask.
    pub orphaned: Option<Box<Status>>,
    /// Its number in the session, in order of admission.
    seq: u64,
}

/// What a process's end, or a change of what is known of it, leads to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Its place is free.
    pub freed: bool,
    /// It is settled: whoever waits for it can go on.
    pub settled: bool,
    /// Records that go, itself perhaps among them.
    pub forget: Vec<ProcessId>,
}

/// The rules of one session.
#[derive(Clone, Debug)]
pub struct SessionCore {
    name: SessionName,
    settings: Arc<SessionSettings>,
    directory: PathBuf,
    opened_at: SystemTime,
    agents: BTreeMap<AgentName, Sees>,
    records: HashMap<ProcessId, Record>,
    /// Records by number: the order of admission.
    order: BTreeMap<u64, ProcessId>,
    /// Settled records by the order of their end.
    finished: BTreeMap<u64, ProcessId>,
    start_ids: HashMap<String, ProcessId>,
    next_seq: u64,
    next_end: u64,
    /// Why nothing new may start, once that is so.
    ending: Option<Reason>,
    deleted: bool,
}

impl SessionCore {
    /// An open session without processes.
    pub fn new(name: SessionName, settings: Arc<SessionSettings>, directory: PathBuf, opened_at: SystemTime) -> Self {
        SessionCore {
            name,
            settings,
            directory,
            opened_at,
            agents: BTreeMap::new(),
            records: HashMap::new(),
            order: BTreeMap::new(),
            finished: BTreeMap::new(),
            start_ids: HashMap::new(),
            next_seq: 0,
            next_end: 0,
            ending: None,
            deleted: false,
        }
    }

    /// Its name.
    pub fn name(&self) -> &SessionName {
        &self.name
    }

    /// What it runs with.
    pub fn settings(&self) -> &Arc<SessionSettings> {
        &self.settings
    }

    /// Its directory.
    pub fn directory(&self) -> &PathBuf {
        &self.directory
    }

    /// What is known of a process.
    pub fn record(&self, id: &ProcessId) -> Option<&Record> {
        self.records.get(id)
    }

    /// Every process that is not settled.
    pub fn live(&self) -> Vec<ProcessId> {
        self.order.values().filter(|id| !self.records[*id].summary.settled).cloned().collect()
    }

    /// Every process of an agent, finished ones included, in order of admission.
    pub fn of_agent(&self, agent: &AgentName) -> Vec<ProcessId> {
        self.order.values().filter(|id| self.records[*id].agent == *agent).cloned().collect()
    }

    /// Nothing starts from now on. The end of the host outlasts that of the session.
    pub fn end(&mut self, reason: Reason) {
        if reason == Reason::HostShutdown {
            self.ending = Some(reason);
        }
        self.ending.get_or_insert(reason);
    }

    /// Whether nothing starts any more.
    pub fn ending(&self) -> Option<Reason> {
        self.ending
    }

    /// Opens the session: the first time, again with the same configuration, or afresh after its deletion.
    ///
    /// # Errors
    /// `conflict` where it is open with another configuration; `unavailable` while it is being deleted.
    pub fn open(
        &mut self,
        settings: &Arc<SessionSettings>,
        directory: &PathBuf,
        agents: &BTreeMap<AgentName, Sees>,
        now: SystemTime,
    ) -> Result<(), Error> {
        if self.deleted && self.ending != Some(Reason::HostShutdown) {
            self.settings = Arc::clone(settings);
            self.directory = directory.clone();
            self.opened_at = now;
            self.ending = None;
            self.deleted = false;
        }
        self.refuse_if_ending()?;
        let moved = (*directory != self.directory).then_some("directory");
        if let Some(field) = moved.or((*settings != self.settings).then_some("config")) {
            return Err(Error::new(
                Code::Conflict,
                format!("session {} is open with another `{field}`, which is frozen: delete it first", self.name),
            )
            .with("field", field)
            .with("session", &self.name));
        }
        // All or none: a refusal has changed nothing.
        for (agent, sees) in agents {
            self.check_agent(agent, *sees)?;
        }
        self.check_agents(agents.keys())?;
        self.agents.extend(agents.iter().map(|(agent, sees)| (agent.clone(), *sees)));
        Ok(())
    }

    /// Opens an agent; one that is open stays as it is.
    ///
    /// # Errors
    /// `conflict` where it is open and sees something else; `limit_reached` where [`AGENTS_MAX`] are open.
    pub fn open_agent(&mut self, agent: &AgentName, sees: Option<Sees>) -> Result<Sees, Error> {
        if let Some(asked) = sees {
            self.check_agent(agent, asked)?;
        }
        self.check_agents([agent])?;
        Ok(*self.agents.entry(agent.clone()).or_insert(sees.unwrap_or_default()))
    }

    fn check_agent(&self, agent: &AgentName, asked: Sees) -> Result<(), Error> {
        match self.agents.get(agent) {
            Some(has) if *has != asked => {
                Err(Error::new(Code::Conflict, format!("agent {agent} is open and sees something else"))
                    .with("field", "sees")
                    .with("agent", agent)
                    .with("sees", has))
            }
            _ => Ok(()),
        }
    }

    /// Refuses agents for which there is no room. Those that are open need none.
    fn check_agents<'a>(&self, agents: impl IntoIterator<Item = &'a AgentName>) -> Result<(), Error> {
        let new = agents.into_iter().filter(|agent| !self.agents.contains_key(*agent)).count();
        if self.agents.len() + new <= AGENTS_MAX {
            return Ok(());
        }
        let open = self.agents.len();
        Err(Error::new(
            Code::LimitReached,
            format!("session {} may have {AGENTS_MAX} agents and has {open}: close one first", self.name),
        )
        .with("limit", "agents")
        .with("value", AGENTS_MAX)
        .with("session", &self.name))
    }

    /// Closes an agent. Its processes are the caller's business.
    pub fn close_agent(&mut self, agent: &AgentName) {
        self.agents.remove(agent);
    }

    /// Gives a process to another agent, which is opened with it.
    ///
    /// # Errors
    /// As for [`SessionCore::open_agent`].
    pub fn transfer(&mut self, id: &ProcessId, to: &AgentName) -> Result<(), Error> {
        self.open_agent(to, None)?;
        if let Some(record) = self.records.get_mut(id) {
            record.agent = to.clone();
            if let Some(status) = &mut record.orphaned {
                status.agent = to.clone();
            }
        }
        Ok(())
    }

    /// Gives a process another label; the rules of [`SessionCore::check_label`] have been asked.
    pub fn set_label(&mut self, id: &ProcessId, label: Label) {
        if let Some(record) = self.records.get_mut(id) {
            record.label = Some(label);
        }
    }

    /// A process tells how it is now.
    pub fn told(&mut self, id: &ProcessId, summary: Summary) -> Told {
        let Some(record) = self.records.get_mut(id) else { return Told::default() };
        let before = record.summary.clone();
        record.summary = summary;
        let settled = record.summary.settled && !before.settled;
        let freed = before.holds_place() && !record.summary.holds_place();
        if settled && record.summary.holds_place() {
            record.hidden = false;
        }
        // Of a deleted session only what is uncertain was kept.
        let gone = (record.hidden || self.deleted) && !record.summary.holds_place();
        if settled {
            self.finished.insert(self.next_end, id.clone());
            self.next_end += 1;
        }
        let mut forget = if gone { vec![id.clone()] } else { Vec::new() };
        // An uncertain record does not count; one that is proven later does from then on.
        if (settled || freed) && !gone {
            forget.extend(self.over_retention());
        }
        Told { freed, settled, forget }
    }

    fn refuse_if_ending(&self) -> Result<(), Error> {
        match self.ending {
            None if !self.deleted => Ok(()),
            Some(Reason::HostShutdown) => Err(Error::shutting_down()),
            _ => Err(Error::new(Code::Unavailable, format!("session {} is being deleted", self.name))
                .with("session", &self.name)),
        }
    }
}

#[cfg(test)]
mod keeping_tests;
#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod naive_tests;
#[cfg(test)]
mod tests;
