//! Who sees which process, and what a handle names.

use super::{Record, SessionCore};
use crate::protocol::call::Caller;
use crate::protocol::error::{Code, Error, shorten};
use crate::protocol::id::{Handle, Label, ProcessId};
use crate::protocol::verb::agent::Sees;

/// Most own processes that an `unknown_process` names.
const KNOWN_MAX: usize = 20;

impl SessionCore {
    /// Whether the caller sees a process. What was removed while live is seen by nobody.
    pub(super) fn sees(&self, caller: &Caller, record: &Record) -> bool {
        !record.hidden
            && match caller {
                Caller::Operator => true,
                Caller::Agent(agent) => {
                    record.agent == *agent || self.agents.get(agent).copied().unwrap_or_default() == Sees::Session
                }
            }
    }

    /// The process that `handle` names to `caller`: by id, or the live one of that label, else its newest.
    ///
    /// # Errors
    /// `unknown_process` with the caller's own; `ambiguous` where several agents' live processes have the label and
    /// the caller sees them all.
    pub fn find(&self, caller: &Caller, handle: &Handle) -> Result<&Record, Error> {
        if let Ok(id) = ProcessId::new(handle.0.as_str()) {
            let found = self.records.get(&id).filter(|record| self.sees(caller, record));
            return found.ok_or_else(|| self.unknown(caller, handle));
        }
        let Ok(label) = Label::new(handle.0.as_str()) else { return Err(self.unknown(caller, handle)) };
        let named: Vec<&Record> = self
            .order
            .values()
            .rev()
            .filter_map(|id| self.records.get(id))
            .filter(|record| record.label.as_ref() == Some(&label) && self.sees(caller, record))
            .collect();
        let own = |record: &&&Record| matches!(caller, Caller::Agent(agent) if record.agent == *agent);
        let live: Vec<&&Record> = named.iter().filter(|record| !record.summary.settled).collect();
        if let Some(first) = live.iter().find(|record| own(record)).or(live.first()) {
            let others = live.iter().any(|record| record.agent != first.agent);
            return if others && !own(first) { Err(ambiguous(&label, &live)) } else { Ok(first) };
        }
        named.iter().find(own).or(named.first()).copied().ok_or_else(|| self.unknown(caller, handle))
    }

    fn unknown(&self, caller: &Caller, handle: &Handle) -> Error {
        let own: Vec<String> = self
            .order
            .values()
            .rev()
            .filter_map(|id| self.records.get(id))
            .filter(|record| self.sees(caller, record))
            .take(KNOWN_MAX)
            .map(|record| {
                let word = record.label.as_ref().map_or(record.name.as_str(), Label::as_str);
                format!("{} ({word})", record.process_id)
            })
            .collect();
        let known = if own.is_empty() { "there is none".to_owned() } else { own.join(", ") };
        Error::new(Code::UnknownProcess, format!("no process {}; known: {known}", shorten(&handle.0)))
            .with("given", shorten(&handle.0))
            .with("known", own)
    }
}

fn ambiguous(label: &Label, live: &[&&Record]) -> Error {
    let ids: Vec<&ProcessId> = live.iter().map(|record| &record.process_id).collect();
    let listed: Vec<&str> = ids.iter().map(|id| id.as_str()).collect();
    Error::new(
        Code::Ambiguous,
        format!("label {label} names processes of several agents: use an id ({})", listed.join(", ")),
    )
    .with("candidates", ids)
}
