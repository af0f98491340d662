//! What is shown of a session: its list of processes, and itself.

use super::{Record, SessionCore};
use crate::protocol::bounds::{LIST_LIMIT_DEFAULT, LIST_LIMIT_MAX};
use crate::protocol::call::Caller;
use crate::protocol::state::Cleanup;
use crate::protocol::status::Row;
use crate::protocol::time::{Moment, rfc3339};
use crate::protocol::verb::list::{Counts, List, ListAnswer};
use crate::protocol::verb::session::SessionInfo;

impl SessionCore {
    /// The caller's processes: live ones first, then the newest.
    pub fn list(&self, now: Moment, caller: &Caller, ask: &List) -> ListAnswer {
        let asked = ask.limit.unwrap_or(LIST_LIMIT_DEFAULT);
        let limit = asked.clamp(1, LIST_LIMIT_MAX);
        let seen = || self.order.values().rev().filter_map(|id| self.records.get(id)).filter(|r| self.sees(caller, r));
        let mut counts = Counts::default();
        let mut matching = 0;
        let mut processes = Vec::new();
        for live in [true, false] {
            for record in seen().filter(|record| record.summary.settled != live) {
                if live {
                    counts.live += 1
                } else {
                    counts.finished += 1
                }
                counts.uncertain += u64::from(record.summary.cleanup == Some(Cleanup::Uncertain));
                if ask.state.is_some_and(|state| state != record.summary.state) {
                    continue;
                }
                matching += 1;
                if matching <= limit {
                    processes.push(row(now, record));
                }
            }
        }
        ListAnswer {
            processes: Some(processes),
            statuses: None,
            counts,
            truncated: matching > limit,
            limit: (limit != asked).then_some(limit),
        }
    }

    /// The session itself.
    pub fn info(&self) -> SessionInfo {
        let held = self.places_held();
        SessionInfo {
            session: self.name.clone(),
            directory: self.directory.display().to_string(),
            opened_at: rfc3339(self.opened_at),
            agents: self.agents.keys().cloned().collect(),
            live: held,
            finished: self.records.values().filter(|record| record.summary.settled).count() as u64,
            deleted: self.deleted,
        }
    }
}

/// One line about a process.
pub fn row(now: Moment, record: &Record) -> Row {
    let summary = &record.summary;
    let until = summary.ended.unwrap_or(now);
    let retained = record.gauge.retained();
    Row {
        process_id: record.process_id.clone(),
        label: record.label.clone(),
        name: record.label.is_none().then(|| record.name.clone()),
        state: summary.state,
        exit: summary.exit.clone(),
        cleanup: summary.cleanup.filter(|cleanup| *cleanup == Cleanup::Uncertain),
        runtime_ms: until.ms_since(record.admitted),
        idle_ms: until.ms_since(record.gauge.last_output()),
        unread_bytes: retained.end - retained.earliest,
    }
}
