//! What takes another's place: restarts, and starts that replace whoever has their label.
//!
//! Invariant: nothing is started in the place of a process that is not proven to be gone.

use std::sync::Arc;

use ractor::ActorRef;

use super::{SessionMsg, SessionState, Succession};
use crate::actors::host::HostMsg;
use crate::actors::port::Port;
use crate::logic::process::ProcessCall;
use crate::logic::session::Ask;
use crate::protocol::call::Origin;
use crate::protocol::error::{Code, Error};
use crate::protocol::id::ProcessId;
use crate::protocol::spec::Spec;
use crate::protocol::state::{Cleanup, Reason};

impl SessionState {
    /// A process is settled: whatever was to take its place does, if it is proven to be gone.
    pub(super) async fn succeed(&mut self, myself: &ActorRef<SessionMsg>, old: &ProcessId) {
        for succession in self.successions.remove(old).unwrap_or_default() {
            let confirmed =
                self.core.record(old).is_some_and(|record| record.summary.cleanup == Some(Cleanup::Confirmed));
            match succession {
                Succession::Restart(_, ports) if !confirmed => {
                    for port in ports {
                        port.send(Err(uncertain(old)));
                    }
                }
                Succession::Replace(_, port) if !confirmed => port.send(Err(uncertain(old))),
                Succession::Restart(ask, ports) if self.places.contains_key(old) => {
                    self.take_over(myself, old, &ask, ports).await;
                }
                // Another one was faster: it needs a place of its own.
                Succession::Restart(ask, ports) => self.start_again(myself, old, &ask, ports),
                Succession::Replace(ask, port) if self.places.contains_key(old) => {
                    self.take_over(myself, old, &ask, vec![port]).await;
                }
                // Another one was faster: it is asked anew, and may have to replace that one.
                Succession::Replace(ask, port) => self.admit(myself, ask, port),
            }
        }
    }

    async fn take_over(&mut self, myself: &ActorRef<SessionMsg>, old: &ProcessId, ask: &Ask, ports: Vec<Port>) {
        if let Err(error) = self.core.succeed(self.clock.now(), ask, old) {
            return ports.into_iter().for_each(|port| port.send(Err(error.clone())));
        }
        let Some(place) = self.places.remove(old) else {
            let error = Error::internal("the place of the process to be replaced is gone");
            return self.take_back(myself, &ask.process_id, (ports, &error));
        };
        self.places.insert(ask.process_id.clone(), place);
        self.tell_host(HostMsg::PassPlace(place, self.tenant(&ask.process_id)));
        let ports = ports.into_iter().map(|port| self.guarded(myself, &ask.process_id, port)).collect();
        self.launch(myself, &ask.process_id, ports).await;
    }

    /// Ends a process and starts the same specification in its place.
    pub(super) fn restart(&mut self, myself: &ActorRef<SessionMsg>, origin: Origin, id: &ProcessId, port: Port) {
        let Some(record) = self.core.record(id).cloned() else { return self.refuse(port, Error::gone()) };
        let spec = Arc::new(Spec { start_id: None, ..(*record.spec).clone() });
        let mut ask = match self.ask(origin, record.mode, spec) {
            Ok(ask) => ask,
            Err(error) => return self.refuse(port, error),
        };
        // Whatever label it has now, not the one it was started with.
        Arc::make_mut(&mut ask.spec).label.clone_from(&record.label);
        if !record.summary.settled {
            let waiting = self.successions.entry(id.clone()).or_default();
            let same = waiting.iter_mut().find_map(|succession| match succession {
                Succession::Restart(_, ports) => Some(ports),
                Succession::Replace(..) => None,
            });
            match same {
                Some(ports) => ports.push(port),
                None => waiting.push(Succession::Restart(ask, vec![port])),
            }
            self.end_process(id, Reason::StopRequested);
        } else if record.summary.holds_place() {
            self.refuse(port, uncertain(id));
        } else {
            self.start_again(myself, id, &ask, vec![port]);
        }
    }

    /// Starts what a finished process was, in another place.
    fn start_again(&mut self, myself: &ActorRef<SessionMsg>, old: &ProcessId, ask: &Ask, ports: Vec<Port>) {
        if let Err(error) = self.core.again(self.clock.now(), ask, old) {
            return ports.into_iter().for_each(|port| port.send(Err(error.clone())));
        }
        let mut ports = ports.into_iter();
        if let Some(first) = ports.next() {
            self.take_place(myself, &ask.process_id, first);
        }
        for port in ports {
            let port = self.guarded(myself, &ask.process_id, port);
            self.hand_on(&ask.process_id, ProcessCall::Begun, port);
        }
    }

    /// Whoever waits for the end of a process that was not launched need not.
    pub(super) fn never_began(&mut self, myself: &ActorRef<SessionMsg>, id: &ProcessId, error: &Error) {
        for succession in self.successions.remove(id).unwrap_or_default() {
            match succession {
                Succession::Restart(_, ports) => ports.into_iter().for_each(|port| port.send(Err(error.clone()))),
                Succession::Replace(ask, port) => self.admit(myself, ask, port),
            }
        }
        self.no_longer_awaited(myself, id);
    }
}

fn uncertain(id: &ProcessId) -> Error {
    Error::new(
        Code::CleanupUncertain,
        format!("{id} was stopped but is not proven to be gone: nothing is started in its place"),
    )
    .with("process_id", id)
}
