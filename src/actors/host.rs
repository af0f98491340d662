//! The actor of the host: gives places, knows the sessions by name, ends everything in order.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef, SupervisionEvent};

use super::clock::Clock;
use super::port::Port;
use super::session::{self, Opening, SessionActor, SessionCall, SessionMsg};
use crate::logic::environment::Variable;
use crate::logic::host::{HostCore, PlaceKey, Tenant};
use crate::os::launch::Launcher;
use crate::protocol::call::{Answer, Caller, Origin};
use crate::protocol::error::{Code, Error};
use crate::protocol::id::{ProcessId, SessionName};
use crate::protocol::settings::{HostLimits, SessionSettings};
use crate::protocol::verb::host::{Holder, Shutdown, ShutdownAnswer, ShutdownMode};
use crate::protocol::verb::session::SessionsAnswer;

/// What all sessions of a host share.
pub struct Surroundings {
    /// The host's clock.
    pub clock: Clock,
    /// Who launches.
    pub launcher: Arc<dyn Launcher>,
    /// The host's environment when it began.
    pub environment: Vec<Variable>,
    /// Longest time any process may be given.
    pub timeout_max_ms: Option<u64>,
}

/// What the host is told.
#[derive(Debug)]
pub enum HostMsg {
    /// Somebody asks a session.
    Call(Origin, SessionCall, Port),
    /// A session is opened.
    Open(SessionName, Opening, Port),
    /// Every session.
    Sessions(Port),
    /// The host itself.
    Status(Port),
    /// The host ends.
    Shutdown(Shutdown, Option<Port>),
    /// A session asks for a place.
    TakePlace(Tenant, ActorRef<SessionMsg>),
    /// A place is free.
    FreePlace(PlaceKey),
    /// What is in a place changed.
    PassPlace(PlaceKey, Tenant),
    /// A finished record is kept.
    Finished(SessionName, ProcessId),
    /// A record is gone.
    Forgotten(ProcessId),
    /// A deleted session is gone.
    SessionGone(SessionName, ActorId),
    /// A session's processes have ended: so many confirmed, these not.
    SessionEnded(SessionName, u64, Vec<Holder>),
    /// The time of a drain is over.
    DrainOver,
    /// Time to say that calls are served.
    Beat,
    /// The last handle was dropped.
    Abandoned,
}

/// The actor of the host.
pub struct HostActor;

/// What the host actor begins with.
pub struct Arguments {
    /// Its limits.
    pub limits: HostLimits,
    /// What a session that was not opened opens with; absent = such calls are refused.
    pub auto_open: Option<(Arc<SessionSettings>, PathBuf)>,
    /// What all sessions share.
    pub surroundings: Arc<Surroundings>,
}

/// Its state.
pub struct HostState {
    core: HostCore,
    around: Arc<Surroundings>,
    auto_open: Option<(Arc<SessionSettings>, PathBuf)>,
    sessions: BTreeMap<SessionName, ActorRef<SessionMsg>>,
    ending: Ending,
}

/// How far a shutdown is.
#[derive(Default)]
struct Ending {
    waiting: BTreeSet<SessionName>,
    answer: ShutdownAnswer,
    ports: Vec<Port>,
    abandoned: bool,
}

impl Actor for HostActor {
    type Msg = HostMsg;
    type State = HostState;
    type Arguments = Arguments;

    async fn pre_start(&self, _: ActorRef<HostMsg>, with: Arguments) -> Result<HostState, ActorProcessingErr> {
        Ok(HostState {
            core: HostCore::new(with.limits),
            around: with.surroundings,
            auto_open: with.auto_open,
            sessions: BTreeMap::new(),
            ending: Ending::default(),
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<HostMsg>,
        message: HostMsg,
        state: &mut HostState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            HostMsg::Call(origin, call, port) => state.call(&myself, origin, call, port).await,
            HostMsg::Open(name, opening, port) => state.open(&myself, name, opening, port).await,
            HostMsg::Sessions(port) => state.list_sessions(port),
            HostMsg::Status(port) => {
                let containment = state.around.launcher.containment();
                let status = state.core.status(state.around.clock.now(), state.sessions.len(), containment);
                port.send(Ok(Answer::Host(status)));
            }
            HostMsg::Shutdown(shutdown, port) => state.shutdown(&myself, shutdown, port),
            HostMsg::TakePlace(tenant, session) => {
                let id = tenant.process_id.clone();
                let place = state.core.take(tenant);
                // A session that has failed meanwhile took its processes with it; its place is freed there.
                let _ = session.send_message(SessionMsg::Place(id, place, state.core.held()));
            }
            HostMsg::FreePlace(key) => state.core.free(key),
            HostMsg::PassPlace(key, tenant) => state.core.pass(key, tenant),
            HostMsg::Finished(session, id) => {
                for (name, id) in state.core.finished(session, id) {
                    if let Some(session) = state.sessions.get(&name) {
                        let _ = session.send_message(SessionMsg::Forget(id));
                    }
                }
            }
            HostMsg::Forgotten(id) => state.core.forgotten(&id),
            HostMsg::SessionGone(name, id) => state.session_gone(&name, id),
            HostMsg::SessionEnded(name, stopped, unconfirmed) => {
                state.ending.answer.stopped += stopped;
                state.ending.answer.unconfirmed.extend(unconfirmed);
                state.session_ended(&myself, &name);
            }
            HostMsg::Beat => state.around.launcher.beat(),
            HostMsg::DrainOver => state.end_sessions(true),
            HostMsg::Abandoned => {
                state.ending.abandoned = true;
                state.shutdown(&myself, Shutdown::default(), None);
            }
        }
        Ok(())
    }

    /// A session that fails takes its own processes with it, and no other session.
    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<HostMsg>,
        event: SupervisionEvent,
        state: &mut HostState,
    ) -> Result<(), ActorProcessingErr> {
        let ended = match event {
            SupervisionEvent::ActorTerminated(cell, _, _) => cell.get_id(),
            SupervisionEvent::ActorFailed(cell, error) => {
                tracing::error!(%error, "the actor of a session failed");
                cell.get_id()
            }
            SupervisionEvent::ActorStarted(_) | SupervisionEvent::ProcessGroupChanged(_) => return Ok(()),
        };
        let failed = state.sessions.iter().find(|(_, session)| session.get_id() == ended).map(|(name, _)| name.clone());
        if let Some(name) = failed {
            state.sessions.remove(&name);
            state.core.evict(&name);
            state.session_ended(&myself, &name);
        }
        Ok(())
    }
}

impl HostState {
    async fn call(&mut self, myself: &ActorRef<HostMsg>, origin: Origin, call: SessionCall, port: Port) {
        let name = origin.session.clone();
        if !self.sessions.contains_key(&name) {
            let Some((settings, directory)) = self.auto_open.clone().filter(|_| opens(&call)) else {
                return port.send(Err(unknown_session(&name)));
            };
            let opening = Opening { settings, directory, agents: BTreeMap::new() };
            if let Err(error) = self.spawn(myself, name.clone(), opening).await {
                return port.send(Err(error));
            }
        }
        if let Some(session) = self.sessions.get(&name) {
            // A message that cannot be delivered drops its port, which tells the caller.
            let _ = session.send_message(SessionMsg::Call(origin, call, port));
        }
    }

    async fn open(&mut self, myself: &ActorRef<HostMsg>, name: SessionName, opening: Opening, port: Port) {
        if let Some(session) = self.sessions.get(&name) {
            let _ = session.send_message(SessionMsg::Open(opening, port));
            return;
        }
        match self.spawn(myself, name.clone(), opening).await {
            Ok(session) => {
                let origin = Origin { session: name, caller: Caller::Operator, request: None };
                let _ = session.send_message(SessionMsg::Call(origin, SessionCall::Info, port));
            }
            Err(error) => port.send(Err(error)),
        }
    }

    async fn spawn(
        &mut self,
        myself: &ActorRef<HostMsg>,
        name: SessionName,
        opening: Opening,
    ) -> Result<ActorRef<SessionMsg>, Error> {
        if self.core.ending().is_some() {
            return Err(Error::shutting_down());
        }
        if !self.core.room_for_session(self.sessions.len()) {
            let limit = self.sessions.len();
            return Err(Error::new(
                Code::LimitReached,
                format!("`limits.sessions` is {limit} and so many are open: delete one first"),
            )
            .with("limit", "limits.sessions")
            .with("value", limit));
        }
        let with = session::Arguments {
            name: name.clone(),
            opening,
            surroundings: Arc::clone(&self.around),
            host: myself.clone(),
        };
        let (session, _) = Actor::spawn_linked(None, SessionActor, with, myself.get_cell())
            .await
            .map_err(|error| Error::internal(format!("no actor could be made for the session: {error}")))?;
        self.sessions.insert(name, session.clone());
        Ok(session)
    }

    fn session_gone(&mut self, name: &SessionName, id: ActorId) {
        if self.sessions.get(name).is_some_and(|session| session.get_id() == id)
            && let Some(session) = self.sessions.remove(name)
        {
            // Calls already on their way are told that it was deleted.
            let _ = session.drain();
        }
    }

    fn list_sessions(&self, port: Port) {
        let asked: Vec<_> = self
            .sessions
            .iter()
            .map(|(name, session)| {
                let (port, pending) = Port::new();
                let origin = Origin { session: name.clone(), caller: Caller::Operator, request: None };
                let _ = session.send_message(SessionMsg::Call(origin, SessionCall::Info, port));
                pending
            })
            .collect();
        tokio::spawn(async move {
            let mut sessions = Vec::with_capacity(asked.len());
            for pending in asked {
                // A session that has gone meanwhile is not listed.
                if let Ok(reply) = pending.await
                    && let Ok(Answer::Session(info)) = reply.answer
                {
                    sessions.push(info);
                }
            }
            port.send(Ok(Answer::Sessions(SessionsAnswer { sessions })));
        });
    }

    fn shutdown(&mut self, myself: &ActorRef<HostMsg>, shutdown: Shutdown, port: Option<Port>) {
        self.ending.ports.extend(port);
        let mode = shutdown.mode.unwrap_or_default();
        let first = self.core.ending().is_none();
        self.core.end(mode);
        if first {
            self.ending.waiting = self.sessions.keys().cloned().collect();
        }
        if first || mode == ShutdownMode::Now {
            self.end_sessions(mode == ShutdownMode::Now);
        }
        if let Some(ms) = shutdown.within_ms {
            let host = myself.clone();
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(ms)).await;
                // A host that is gone has drained.
                let _ = host.send_message(HostMsg::DrainOver);
            });
        }
        self.answer_if_ended(myself);
    }

    fn end_sessions(&self, now: bool) {
        for name in &self.ending.waiting {
            if let Some(session) = self.sessions.get(name) {
                let _ = session.send_message(SessionMsg::End { now });
            }
        }
    }

    fn session_ended(&mut self, myself: &ActorRef<HostMsg>, name: &SessionName) {
        self.ending.waiting.remove(name);
        self.answer_if_ended(myself);
    }

    fn answer_if_ended(&mut self, myself: &ActorRef<HostMsg>) {
        if self.core.ending().is_none() || !self.ending.waiting.is_empty() {
            return;
        }
        for port in std::mem::take(&mut self.ending.ports) {
            port.send(Ok(Answer::Shutdown(self.ending.answer.clone())));
        }
        if self.ending.abandoned {
            // Every tree has been dealt with; nobody is left to ask.
            myself.stop(None);
        }
    }
}

/// Whether a call opens its session: a question about a session does not.
fn opens(call: &SessionCall) -> bool {
    !matches!(call, SessionCall::Reset | SessionCall::Delete | SessionCall::Info)
}

fn unknown_session(name: &SessionName) -> Error {
    Error::new(Code::UnknownSession, format!("no session {name} is open: `open_session` first")).with("session", name)
}
