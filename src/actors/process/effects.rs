//! Carries out what a process's rules decide: on its tree, its pipes, its callers, its session.

use ractor::ActorRef;

use super::{ProcessMsg, ProcessState, Waiting};
use crate::actors::clock::Clock;
use crate::actors::process::reader::Pace;
use crate::actors::session::SessionMsg;
use crate::logic::process::{Effect, LaunchFailure, lifecycle};
use crate::logic::session::orphan::Heard;
use crate::os::launch::{Fact, FactSink, LaunchError};
use crate::protocol::id::ProcessId;
use crate::protocol::state::{Cleanup, Exit};

impl ProcessState {
    /// In order, so that a session hears of a change before any caller does.
    pub(super) fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Act(act) => self.act(act),
                Effect::Answer(call, answer) => match self.ports.remove(&call) {
                    Some(Waiting::Fresh(port, _)) => port.send(*answer),
                    // The caller went away in this moment.
                    Some(Waiting::Parked(sender)) => drop(sender.send(*answer)),
                    None => {}
                },
                Effect::Publish(summary) => {
                    let over = summary.settled && summary.cleanup != Some(Cleanup::Uncertain);
                    // A session that is gone has no use for it.
                    let _ = self.session.send_message(SessionMsg::Told(self.id.clone(), summary));
                    if over {
                        self.tree = None;
                    }
                }
            }
        }
    }

    fn act(&mut self, act: lifecycle::Effect) {
        let Some(tree) = &self.tree else { return };
        match act {
            lifecycle::Effect::Abort => tree.abort(),
            lifecycle::Effect::Signal(signal) => tree.signal(signal),
            lifecycle::Effect::Kill => tree.kill(),
            lifecycle::Effect::Inspect => tree.inspect(),
            lifecycle::Effect::HurryPipes => self.set_pace(Pace::Hurry),
            lifecycle::Effect::FinishPipes => self.set_pace(Pace::Finish),
            // The core turned these into answers and summaries.
            lifecycle::Effect::Running
            | lifecycle::Effect::Changed
            | lifecycle::Effect::Settled
            | lifecycle::Effect::Confirmed => {}
        }
    }

    fn set_pace(&self, pace: Pace) {
        self.pace.send_replace(pace);
    }
}

/// Brings facts to the process's actor; if that has died, what still matters to its session.
pub(super) fn sink(
    actor: ActorRef<ProcessMsg>,
    session: ActorRef<SessionMsg>,
    id: ProcessId,
    clock: Clock,
) -> FactSink {
    Box::new(move |fact| {
        let heard = match &fact {
            Fact::RootEnded(exit) => seen(exit.clone()).map(Heard::RootEnded),
            Fact::Gone(proof) => Some(Heard::Gone(*proof)),
            Fact::LaunchFailed(_) | Fact::Launched { .. } | Fact::Leftovers(_) | Fact::Survivors(_) | Fact::Alone => {
                None
            }
        };
        if actor.send_message(ProcessMsg::Fact(fact, clock.now())).is_err()
            && let Some(heard) = heard
        {
            // Both gone: the host has ended.
            let _ = session.send_message(SessionMsg::Heard(id.clone(), heard));
        }
    })
}

/// An exit that somebody saw.
pub(super) fn seen(exit: Exit) -> Option<Exit> {
    (exit.code.is_some() || exit.signal.is_some()).then_some(exit)
}

/// A launch error in the rules' words.
pub(super) fn failure(error: LaunchError) -> LaunchFailure {
    LaunchFailure {
        operation: error.operation.to_owned(),
        errno: error.errno,
        system: std::io::Error::from_raw_os_error(error.errno).to_string(),
        path: error.path.map(|path| path.display().to_string()),
        hint: error.hint,
    }
}
