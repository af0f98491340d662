//! Ending several processes and waiting for them: a deletion, a closed agent, the host's shutdown.

use ractor::ActorRef;

use super::{Purpose, SessionMsg, SessionState};
use crate::actors::host::HostMsg;
use crate::actors::port::Port;
use crate::logic::session::Gathering;
use crate::protocol::call::Answer;
use crate::protocol::error::Error;
use crate::protocol::id::{AgentName, ProcessId};
use crate::protocol::state::Reason;
use crate::protocol::verb::agent::{CloseAgent, CloseAnswer, Leaving};
use crate::protocol::verb::session::DeleteAnswer;

impl SessionState {
    /// Ends the session: everything is stopped, then the answer says what could not be confirmed.
    pub(super) fn delete(&mut self, myself: &ActorRef<SessionMsg>, port: Port) {
        self.core.end(Reason::SessionDeleted);
        let live = self.stop_all(Reason::SessionDeleted);
        self.gather(myself, live, Purpose::Delete(port));
    }

    pub(super) fn close_agent(&mut self, myself: &ActorRef<SessionMsg>, close: &CloseAgent, port: Port) {
        let own: Vec<ProcessId> = self.core.of_agent(&close.agent);
        self.core.close_agent(&close.agent);
        if close.processes == Some(Leaving::Transfer) {
            for id in &own {
                // Can only fail before the first: an agent that was open has left its room to `main`.
                if let Err(error) = self.core.transfer(id, &AgentName::main()) {
                    return self.refuse(port, error);
                }
                self.retell_place(id);
                if let Some(actor) = self.processes.get(id) {
                    let (port, _) = Port::new();
                    let call = crate::logic::process::ProcessCall::Transfer(AgentName::main());
                    // Nobody waits for this answer; one that is gone needs no new agent.
                    let _ = actor.send_message(crate::actors::process::ProcessMsg::Call(call, port, None));
                }
            }
            let purpose = Purpose::CloseAgent(close.agent.clone(), own.len() as u64, port);
            return self.gather(myself, Vec::new(), purpose);
        }
        let live: Vec<ProcessId> =
            own.into_iter().filter(|id| self.core.record(id).is_some_and(|record| !record.summary.settled)).collect();
        for id in &live {
            self.end_process(id, Reason::StopRequested);
        }
        self.gather(myself, live, Purpose::CloseAgent(close.agent.clone(), 0, port));
    }

    /// The host shuts down.
    pub(super) fn end(&mut self, myself: &ActorRef<SessionMsg>, now: bool) {
        self.core.end(Reason::HostShutdown);
        let live = if now { self.stop_all(Reason::HostShutdown) } else { self.core.live() };
        let waits = self.gatherings.iter().any(|(_, purpose)| matches!(purpose, Purpose::HostShutdown));
        if !waits {
            self.gather(myself, live, Purpose::HostShutdown);
        }
    }

    fn stop_all(&mut self, reason: Reason) -> Vec<ProcessId> {
        self.refuse_waiting_starts(reason);
        let live = self.core.live();
        for id in &live {
            self.end_process(id, reason);
        }
        live
    }

    /// Starts that wait for a place or for another's end will not happen.
    fn refuse_waiting_starts(&mut self, reason: Reason) {
        let error = || match reason {
            Reason::HostShutdown => Error::shutting_down(),
            _ => Error::new(crate::protocol::error::Code::Cancelled, "the session is being deleted"),
        };
        for (id, placing) in std::mem::take(&mut self.placing) {
            self.core.refused(&id);
            self.askers.remove(&id);
            placing.refuse(&error());
        }
        for succession in std::mem::take(&mut self.successions).into_values().flatten() {
            match succession {
                super::Succession::Restart(_, ports) => ports.into_iter().for_each(|port| port.send(Err(error()))),
                super::Succession::Replace(_, port) => port.send(Err(error())),
            }
        }
    }

    fn gather(&mut self, myself: &ActorRef<SessionMsg>, processes: Vec<ProcessId>, purpose: Purpose) {
        self.gatherings.push((Gathering::new(processes), purpose));
        self.finish_gatherings(myself);
    }

    /// Answers those whose processes are all settled.
    pub(super) fn finish_gatherings(&mut self, myself: &ActorRef<SessionMsg>) {
        let (done, waiting): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.gatherings).into_iter().partition(|(gathering, _)| gathering.done());
        self.gatherings = waiting;
        for (gathering, purpose) in done {
            let gathered = self.core.gathered(self.clock.now(), &gathering);
            match purpose {
                Purpose::Delete(port) => {
                    let (cleared, _) = self.core.delete();
                    for id in &cleared {
                        self.forget(id);
                    }
                    self.leave_if_empty(myself);
                    port.send(Ok(Answer::Deleted(DeleteAnswer {
                        session: self.core.name().clone(),
                        stopped: gathered.stopped,
                        unconfirmed: gathered.unconfirmed,
                    })));
                }
                Purpose::CloseAgent(agent, transferred, port) => port.send(Ok(Answer::Closed(CloseAnswer {
                    agent,
                    stopped: gathered.stopped,
                    transferred,
                    unconfirmed: gathered.unconfirmed,
                }))),
                Purpose::HostShutdown => {
                    let now = self.clock.now();
                    let unconfirmed = self.core.holders(now, None);
                    self.tell_host(HostMsg::SessionEnded(self.core.name().clone(), gathered.stopped, unconfirmed));
                }
            }
        }
    }

    /// The host shows holders by agent and label: it hears when they change.
    pub(super) fn retell_place(&self, id: &ProcessId) {
        if let Some(place) = self.places.get(id) {
            self.tell_host(HostMsg::PassPlace(*place, self.tenant(id)));
        }
    }
}
