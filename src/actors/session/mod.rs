//! The actor of one session: finds the process that a call means, admits starts, keeps records.
//!
//! It answers what it knows itself, and hands everything else with its port to the process's actor.

mod calls;
mod closing;
mod start;
mod succession;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::clock::Clock;
use super::host::{HostMsg, Surroundings};
use super::port::Port;
use super::process::ProcessMsg;
use crate::logic::host::{PlaceKey, Refusal};
use crate::logic::process::{ProcessCall, Summary};
use crate::logic::session::orphan::Heard;
use crate::logic::session::{Ask, Gathering, SessionCore};
use crate::protocol::call::{Answer, Origin};
use crate::protocol::error::Error;
use crate::protocol::id::{AgentName, Handle, ProcessId, SessionName};
use crate::protocol::settings::SessionSettings;
use crate::protocol::spec::{Mode, Spec};
use crate::protocol::state::Reason;
use crate::protocol::verb::agent::{CloseAgent, OpenAgent, Sees};
use crate::protocol::verb::list::List;
use crate::protocol::verb::output::ReadOutput;
use crate::protocol::verb::session::Transfer;
use crate::protocol::verb::stop::Stop;
use crate::protocol::verb::update::Update;

/// What can be asked of a session.
#[derive(Clone, Debug)]
pub enum SessionCall {
    /// Launch it.
    Start(Mode, Arc<Spec>),
    /// The end of a foreground process, with so much of its output (absent: the session's own measure).
    Exec(ProcessId, Option<u64>),
    /// The caller's processes.
    List(List),
    /// One status.
    Status(Handle),
    /// A page.
    Output(ReadOutput),
    /// One process's end, within so many milliseconds.
    Wait(Handle, Option<u64>),
    /// End it.
    Stop(Stop),
    /// End it and start it afresh.
    Restart(Handle),
    /// Change it.
    Update(Update),
    /// Forget a finished one.
    Clear(Handle),
    /// End and forget it.
    Remove(Handle),
    /// The session itself.
    Info,
    /// Forget what is finished.
    Reset,
    /// End the session.
    Delete,
    /// Open an agent.
    OpenAgent(OpenAgent),
    /// Close an agent.
    CloseAgent(CloseAgent),
    /// Give a process to another agent.
    Transfer(Transfer),
}

/// What a session opens with.
#[derive(Clone, Debug)]
pub struct Opening {
    /// What it runs with.
    pub settings: Arc<SessionSettings>,
    /// Its directory.
    pub directory: PathBuf,
    /// Agents to open with it.
    pub agents: BTreeMap<AgentName, Sees>,
}

/// What a session is told.
#[derive(Debug)]
pub enum SessionMsg {
    /// Somebody asks.
    Call(Origin, SessionCall, Port),
    /// It is opened, perhaps again.
    Open(Opening, Port),
    /// The host's word on a place, with how many are held.
    Place(ProcessId, Result<PlaceKey, Refusal>, u64),
    /// A process tells how it is.
    Told(ProcessId, Summary),
    /// Something was heard of the tree of a process whose actor died.
    Heard(ProcessId, Heard),
    /// One who asked for its start did not take the answer.
    Abandoned(ProcessId),
    /// The host keeps too many records.
    Forget(ProcessId),
    /// The host shuts down: processes end now, or by themselves.
    End {
        /// Whether they are stopped.
        now: bool,
    },
    /// The actor of that process fails, as a bug would make it.
    #[cfg(test)]
    Panic(ProcessId),
}

/// A start that waits for another process's end.
enum Succession {
    /// The same specification again, for everybody who asked.
    Restart(Ask, Vec<Port>),
    /// Another one, under the same label.
    Replace(Ask, Port),
}

/// A start that waits for the host's word on a place.
struct Placing {
    port: Port,
    /// What was asked of it meanwhile, in order.
    asked: Vec<(ProcessCall, Port, Option<OwnedSemaphorePermit>)>,
    /// Why it is to end as soon as it has begun.
    ending: Option<Reason>,
}

/// Who waits for several processes.
enum Purpose {
    Delete(Port),
    CloseAgent(AgentName, u64, Port),
    HostShutdown,
}

/// The actor of one session.
pub struct SessionActor;

/// What a session actor begins with.
pub struct Arguments {
    /// Its name.
    pub name: SessionName,
    /// What it opens with.
    pub opening: Opening,
    /// What all sessions share.
    pub surroundings: Arc<Surroundings>,
    /// The host.
    pub host: ActorRef<HostMsg>,
}

/// Its state.
pub struct SessionState {
    core: SessionCore,
    around: Arc<Surroundings>,
    clock: Clock,
    host: ActorRef<HostMsg>,
    processes: HashMap<ProcessId, ActorRef<ProcessMsg>>,
    by_actor: HashMap<ActorId, ProcessId>,
    places: HashMap<ProcessId, PlaceKey>,
    /// Starts that wait for the host's word on a place.
    placing: HashMap<ProcessId, Placing>,
    /// How many asked for a start and have not gone before they had its answer.
    askers: HashMap<ProcessId, u64>,
    successions: HashMap<ProcessId, Vec<Succession>>,
    gatherings: Vec<(Gathering, Purpose)>,
    parked: Arc<Semaphore>,
}

impl Actor for SessionActor {
    type Msg = SessionMsg;
    type State = SessionState;
    type Arguments = Arguments;

    async fn pre_start(&self, _: ActorRef<SessionMsg>, with: Arguments) -> Result<SessionState, ActorProcessingErr> {
        let clock = with.surroundings.clock;
        let parked = with.opening.settings.limits.parked_calls_per_session as usize;
        let settings = with.opening.settings;
        let mut core = SessionCore::new(with.name, settings, with.opening.directory, clock.time_of_day());
        for (agent, sees) in with.opening.agents {
            // A new session has no agent that could see something else.
            let _ = core.open_agent(&agent, Some(sees));
        }
        Ok(SessionState {
            core,
            around: with.surroundings,
            clock,
            host: with.host,
            processes: HashMap::new(),
            by_actor: HashMap::new(),
            places: HashMap::new(),
            placing: HashMap::new(),
            askers: HashMap::new(),
            successions: HashMap::new(),
            gatherings: Vec::new(),
            parked: Arc::new(Semaphore::new(parked)),
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<SessionMsg>,
        message: SessionMsg,
        state: &mut SessionState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            SessionMsg::Call(origin, call, port) => state.call(&myself, origin, call, port).await,
            SessionMsg::Open(opening, port) => {
                let time: SystemTime = state.clock.time_of_day();
                let opened = state.core.open(&opening.settings, &opening.directory, &opening.agents, time);
                port.send(opened.map(|()| Answer::Session(state.core.info())));
            }
            SessionMsg::Place(id, place, held) => state.placed(&myself, id, place, held).await,
            SessionMsg::Told(id, summary) => state.told(&myself, &id, summary).await,
            SessionMsg::Heard(id, heard) => {
                if let Some(summary) = state.core.heard(&id, &heard) {
                    state.told(&myself, &id, summary).await;
                }
            }
            SessionMsg::Abandoned(id) => state.abandoned(&id),
            SessionMsg::Forget(id) => state.forget(&id),
            SessionMsg::End { now } => state.end(&myself, now),
            #[cfg(test)]
            SessionMsg::Panic(id) => state.processes[&id].send_message(ProcessMsg::Panic)?,
        }
        Ok(())
    }

    /// A process actor that ends otherwise than by being forgotten has failed: its process is lost, and nothing else.
    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<SessionMsg>,
        event: SupervisionEvent,
        state: &mut SessionState,
    ) -> Result<(), ActorProcessingErr> {
        let ended = match event {
            SupervisionEvent::ActorTerminated(cell, _, _) => cell.get_id(),
            SupervisionEvent::ActorFailed(cell, error) => {
                tracing::error!(%error, "the actor of a process failed");
                cell.get_id()
            }
            SupervisionEvent::ActorStarted(_) | SupervisionEvent::ProcessGroupChanged(_) => return Ok(()),
        };
        let Some(id) = state.by_actor.remove(&ended) else { return Ok(()) };
        state.processes.remove(&id);
        let containment = state.around.launcher.containment();
        if let Some(summary) = state.core.orphan(state.clock.now(), &id, containment) {
            state.told(&myself, &id, summary).await;
        }
        Ok(())
    }
}

impl SessionState {
    /// A process changed: its place, whoever waits for it, what is kept.
    async fn told(&mut self, myself: &ActorRef<SessionMsg>, id: &ProcessId, summary: Summary) {
        let told = self.core.told(id, summary);
        if told.settled {
            self.succeed(myself, id).await;
        }
        if told.settled || told.freed {
            self.report_end(id);
        }
        if told.freed {
            self.free_place(id);
        }
        for id in &told.forget {
            self.forget(id);
        }
        if told.settled {
            self.no_longer_awaited(myself, id);
        }
        if told.freed {
            self.leave_if_empty(myself);
        }
    }

    /// Tells the host of a settled process: a record to count, now or once it is proven to be gone, or a place that
    /// stays taken.
    fn report_end(&mut self, id: &ProcessId) {
        let Some(record) = self.core.record(id) else { return };
        if record.summary.holds_place() {
            if let Some(place) = self.places.get(id) {
                self.tell_host(HostMsg::PassPlace(*place, self.tenant(id)));
            }
        } else if !record.hidden {
            self.tell_host(HostMsg::Finished(self.core.name().clone(), id.clone()));
        }
    }

    fn free_place(&mut self, id: &ProcessId) {
        if let Some(place) = self.places.remove(id) {
            self.tell_host(HostMsg::FreePlace(place));
        }
    }

    fn forget(&mut self, id: &ProcessId) {
        if self.core.drop_record(id).is_none() {
            return;
        }
        self.free_place(id);
        self.askers.remove(id);
        if let Some(actor) = self.processes.remove(id) {
            self.by_actor.remove(&actor.get_id());
            // Whoever has asked already is answered first.
            let _ = actor.drain();
        }
        self.tell_host(HostMsg::Forgotten(id.clone()));
    }

    fn end_process(&mut self, id: &ProcessId, reason: Reason) {
        if let Some(actor) = self.processes.get(id) {
            // One that is gone has been reported.
            let _ = actor.send_message(ProcessMsg::End(reason));
        } else if let Some(placing) = self.placing.get_mut(id) {
            placing.ending.get_or_insert(reason);
        }
    }

    /// A start ends when the last one who asked for it has gone unanswered.
    fn abandoned(&mut self, id: &ProcessId) {
        let Some(askers) = self.askers.get_mut(id) else { return };
        *askers -= 1;
        if *askers == 0 {
            self.end_process(id, Reason::StartCancelled);
        }
    }

    fn tell_host(&self, message: HostMsg) {
        // Without a host everything here is ending too.
        let _ = self.host.send_message(message);
    }

    /// A deleted session whose last uncertain process is gone has no reason to be.
    fn leave_if_empty(&self, myself: &ActorRef<SessionMsg>) {
        if self.core.empty() {
            self.tell_host(HostMsg::SessionGone(self.core.name().clone(), myself.get_id()));
        }
    }

    /// A process is settled, or was never launched: whoever gathers need not wait for it.
    fn no_longer_awaited(&mut self, myself: &ActorRef<SessionMsg>, id: &ProcessId) {
        for (gathering, _) in &mut self.gatherings {
            gathering.settled(id);
        }
        self.finish_gatherings(myself);
    }

    fn refuse(&self, port: Port, error: Error) {
        port.send(Err(error));
    }
}
