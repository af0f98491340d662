//! What is kept and what goes: retention, `clear`, `remove`, `reset_session`, the end of a session.

use super::{Record, SessionCore};
use crate::protocol::call::Caller;
use crate::protocol::error::{Code, Error};
use crate::protocol::id::{Handle, ProcessId};
use crate::protocol::spec::Mode;

/// What a `remove` leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Removal {
    /// It was finished: its record goes now.
    Now(ProcessId),
    /// It is live: it is hidden, to be stopped, and goes when settled.
    Later(ProcessId),
}

impl SessionCore {
    /// Settled records over the limit: the foreground ones first, then the oldest end. Uncertain ones stay.
    pub(super) fn over_retention(&self) -> Vec<ProcessId> {
        let limit = self.settings.limits.finished_per_session as usize;
        let kept: Vec<&Record> = self
            .finished
            .values()
            .filter_map(|id| self.records.get(id))
            .filter(|record| !record.summary.holds_place())
            .collect();
        let over = kept.len().saturating_sub(limit);
        if over == 0 {
            return Vec::new();
        }
        let newest = kept.last().map(|record| &record.process_id);
        let foreground = kept.iter().filter(|record| record.mode == Mode::Foreground);
        let background = kept.iter().filter(|record| record.mode == Mode::Background);
        foreground
            .chain(background)
            .filter(|record| limit == 0 || Some(&record.process_id) != newest)
            .take(over)
            .map(|record| record.process_id.clone())
            .collect()
    }

    /// Which record a `clear` forgets. Whether its place becomes free is in the answer.
    ///
    /// # Errors
    /// `still_running` for a live one, `cleanup_uncertain` for an agent's uncertain one, `unknown_process`.
    pub fn clear(&self, caller: &Caller, handle: &Handle) -> Result<(ProcessId, bool), Error> {
        let record = self.find(caller, handle)?;
        if !record.summary.settled {
            return Err(Error::new(
                Code::StillRunning,
                format!("{} is still running: `stop` it first, or use `remove`", record.process_id),
            )
            .with("process_id", &record.process_id)
            .with("state", record.summary.state));
        }
        let uncertain = record.summary.holds_place();
        if uncertain && *caller != Caller::Operator {
            return Err(Error::new(
                Code::CleanupUncertain,
                format!("{} is not proven to be gone: only the operator may clear it", record.process_id),
            )
            .with("process_id", &record.process_id));
        }
        Ok((record.process_id.clone(), uncertain))
    }

    /// Hides a live process, or names a finished one to forget.
    ///
    /// # Errors
    /// As [`SessionCore::clear`], but a live one is taken.
    pub fn remove(&mut self, caller: &Caller, handle: &Handle) -> Result<Removal, Error> {
        let id = self.find(caller, handle)?.process_id.clone();
        match self.records.get_mut(&id) {
            Some(record) if !record.summary.settled => {
                record.hidden = true;
                Ok(Removal::Later(id))
            }
            _ => self.clear(caller, handle).map(|(id, _)| Removal::Now(id)),
        }
    }

    /// Finished records that a reset forgets, and how many stay because they are uncertain.
    pub fn reset(&self) -> (Vec<ProcessId>, u64) {
        let (kept, cleared): (Vec<&Record>, Vec<&Record>) = self
            .records
            .values()
            .filter(|record| record.summary.settled)
            .partition(|record| record.summary.holds_place());
        (cleared.into_iter().map(|record| record.process_id.clone()).collect(), kept.len() as u64)
    }

    /// The session's processes have ended: everything certain goes. Whether anything is left.
    pub fn delete(&mut self) -> (Vec<ProcessId>, bool) {
        let (cleared, kept) = self.reset();
        self.deleted = true;
        self.agents.clear();
        (cleared, kept > 0)
    }

    /// Whether it was deleted and only waits for its uncertain processes.
    pub fn deleted(&self) -> bool {
        self.deleted
    }

    /// Whether it was deleted and nothing is left.
    pub fn empty(&self) -> bool {
        self.deleted && self.records.is_empty()
    }

    /// Forgets a record.
    pub fn drop_record(&mut self, id: &ProcessId) -> Option<Record> {
        let record = self.records.remove(id)?;
        self.order.remove(&record.seq);
        self.finished.retain(|_, finished| finished != id);
        if let Some(start_id) = &record.spec.start_id
            && self.start_ids.get(start_id) == Some(id)
        {
            self.start_ids.remove(start_id);
        }
        Some(record)
    }
}
