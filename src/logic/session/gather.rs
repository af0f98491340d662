//! Waiting for several processes to settle: a deletion, a closed agent, a shutdown.

use std::collections::BTreeSet;

use super::{SessionCore, show};
use crate::protocol::id::ProcessId;
use crate::protocol::status::Row;
use crate::protocol::time::Moment;

/// Processes that are waited for together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gathering {
    waiting: BTreeSet<ProcessId>,
    all: Vec<ProcessId>,
}

/// What became of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gathered {
    /// Confirmed to be gone.
    pub stopped: u64,
    /// Not confirmed; each keeps its place.
    pub unconfirmed: Vec<Row>,
}

impl Gathering {
    /// Waits for these.
    pub fn new(all: Vec<ProcessId>) -> Self {
        Gathering { waiting: all.iter().cloned().collect(), all }
    }

    /// One of the session's processes is settled. Whether none is waited for any more.
    pub fn settled(&mut self, id: &ProcessId) -> bool {
        self.waiting.remove(id);
        self.done()
    }

    /// Whether none is waited for any more.
    pub fn done(&self) -> bool {
        self.waiting.is_empty()
    }
}

impl SessionCore {
    /// What became of the processes of a gathering: a record that is gone by now was confirmed.
    pub fn gathered(&self, now: Moment, gathering: &Gathering) -> Gathered {
        let unconfirmed: Vec<Row> = gathering
            .all
            .iter()
            .filter_map(|id| self.record(id))
            .filter(|record| record.summary.holds_place())
            .map(|record| show::row(now, record))
            .collect();
        Gathered { stopped: (gathering.all.len() - unconfirmed.len()) as u64, unconfirmed }
    }
}
