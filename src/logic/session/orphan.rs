//! A process whose actor died: what is known of it stays, and nobody is left to ask.

use super::SessionCore;
use super::admit::shown;
use crate::logic::process::Summary;
use crate::protocol::id::ProcessId;
use crate::protocol::output::Page;
use crate::protocol::spec::{Lifetime, Mode, Stdin};
use crate::protocol::state::{Cleanup, Containment, Exit, Proof, Reason, State};
use crate::protocol::status::Status;
use crate::protocol::time::{Moment, rfc3339};

/// What is still heard of the tree of such a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// The root ended.
    RootEnded(Exit),
    /// Nothing is left.
    Gone(Proof),
}

impl SessionCore {
    /// Its actor died: it is lost, and what it left is uncertain until something else is heard.
    pub fn orphan(&mut self, now: Moment, id: &ProcessId, containment: Containment) -> Option<Summary> {
        let directory = self.directory.clone();
        let record = self.records.get_mut(id).filter(|record| !record.summary.settled)?;
        let summary = Summary {
            state: State::Lost,
            settled: true,
            exit: None,
            cleanup: Some(Cleanup::Uncertain),
            ended: Some(now),
        };
        let since = |moment: Moment| moment.since_start().saturating_sub(record.admitted.since_start());
        let cwd = record.spec.cwd.as_ref().map_or_else(|| directory.clone(), |cwd| directory.join(cwd));
        record.orphaned = Some(Box::new(Status {
            process_id: record.process_id.clone(),
            session: self.name.clone(),
            agent: record.agent.clone(),
            request: record.request.clone(),
            mode: record.mode,
            name: record.name.clone(),
            label: record.label.clone(),
            command: shown(&record.spec),
            cwd: cwd.display().to_string(),
            state: State::Lost,
            reason: Some(Reason::SupervisorFailed),
            settling: false,
            exit: None,
            cleanup: Some(Cleanup::Uncertain),
            proof: None,
            survivors: Vec::new(),
            containment,
            pty: false,
            lifetime: if record.mode == Mode::Foreground { Lifetime::Command } else { Lifetime::Service },
            started_at: rfc3339(record.admitted_at),
            ended_at: Some(rfc3339(record.admitted_at + since(now))),
            runtime_ms: now.ms_since(record.admitted),
            deadline_at: None,
            output: record.gauge.retained(),
            stdin: Stdin::Closed,
            idle_ms: now.ms_since(record.gauge.last_output()),
            replaces: record.replaces.clone(),
            warnings: vec!["its supervisor failed: it was killed, and its output is gone".to_owned()],
        }));
        Some(summary)
    }

    /// Something was heard of its tree after all.
    pub fn heard(&mut self, id: &ProcessId, heard: &Heard) -> Option<Summary> {
        let record = self.records.get_mut(id)?;
        let status = record.orphaned.as_mut()?;
        match heard {
            Heard::RootEnded(exit) => status.exit = Some(exit.clone()),
            Heard::Gone(proof) => {
                status.cleanup = Some(Cleanup::Confirmed);
                status.proof = Some(*proof);
            }
        }
        Some(Summary { exit: status.exit.clone(), cleanup: status.cleanup, ..record.summary.clone() })
    }
}

/// What is left of its output: nothing, and the page says so.
pub fn lost_page(status: &Status) -> Page {
    let end = status.output.end;
    Page {
        process_id: status.process_id.clone(),
        state: status.state,
        start: end,
        next_cursor: end,
        earliest: end,
        end,
        dropped_bytes: end,
        eof: true,
        chunks: Vec::new(),
        max_bytes: None,
        wait_ms: None,
    }
}
