//! The actor of one process: owns its tree, its output and its timer, and serializes everything about it.

mod backlog;
mod effects;
mod reader;

use std::collections::HashMap;
use std::sync::Arc;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::{OwnedSemaphorePermit, oneshot, watch};
use tokio::task::JoinHandle;

use super::clock::Clock;
use super::port::Port;
use super::session::SessionMsg;
use crate::logic::process::lifecycle::Input;
use crate::logic::process::{CallId, ProcessCall, ProcessCore};
use crate::os::launch::{Fact, LaunchRequest, Launcher, Tree};
use crate::protocol::call::Answer;
use crate::protocol::error::Error;
use crate::protocol::id::ProcessId;
use crate::protocol::output::Stream;
use crate::protocol::state::Reason;
use crate::protocol::time::Moment;

use backlog::Backlog;
use reader::Pace;

/// What a process is told.
#[derive(Debug)]
pub enum ProcessMsg {
    /// Launch, and answer whoever asked once it runs or does not.
    Begin(Option<Port>),
    /// Something happened to the tree, at that moment.
    Fact(Fact, Moment),
    /// Bytes were read; the permit is the reader's credit, if it needed one.
    Bytes(Stream, Vec<u8>, Option<OwnedSemaphorePermit>),
    /// A stream was read to its end.
    Closed(Stream),
    /// Somebody asks; the permit counts parked calls.
    Call(ProcessCall, Port, Option<OwnedSemaphorePermit>),
    /// It is to end, with its own grace.
    End(Reason),
    /// Whoever made that call has gone.
    Cancel(CallId),
    /// The timer fired.
    Tick,
    /// Fails here, as a bug would.
    #[cfg(test)]
    Panic,
}

/// What a process actor begins with.
pub struct Arguments {
    /// Its id.
    pub id: ProcessId,
    /// Its rules.
    pub core: ProcessCore,
    /// What to launch.
    pub request: LaunchRequest,
    /// Who launches it.
    pub launcher: Arc<dyn Launcher>,
    /// Its session.
    pub session: ActorRef<SessionMsg>,
    /// Most bytes unread before its child waits; absent = it never does.
    pub unread_max: Option<u64>,
    /// The host's clock.
    pub clock: Clock,
}

/// The actor of one process.
pub struct ProcessActor;

/// Where a call's answer goes.
enum Waiting {
    /// It has just come in.
    Fresh(Port, Option<OwnedSemaphorePermit>),
    /// A task holds the port and looks whether its caller is still there.
    Parked(oneshot::Sender<Result<Answer, Error>>),
}

/// Its state.
pub struct ProcessState {
    id: ProcessId,
    core: ProcessCore,
    request: Option<LaunchRequest>,
    launcher: Arc<dyn Launcher>,
    tree: Option<Box<dyn Tree>>,
    session: ActorRef<SessionMsg>,
    clock: Clock,
    backlog: Backlog,
    pace: watch::Sender<Pace>,
    ports: HashMap<CallId, Waiting>,
    next_call: CallId,
    timer: Option<(Moment, JoinHandle<()>)>,
    /// The deadline that the tree's owner knows.
    limited: Option<Moment>,
}

impl Actor for ProcessActor {
    type Msg = ProcessMsg;
    type State = ProcessState;
    type Arguments = Arguments;

    async fn pre_start(&self, _: ActorRef<ProcessMsg>, with: Arguments) -> Result<ProcessState, ActorProcessingErr> {
        Ok(ProcessState {
            id: with.id,
            core: with.core,
            request: Some(with.request),
            launcher: with.launcher,
            tree: None,
            session: with.session,
            clock: with.clock,
            backlog: Backlog::new(with.unread_max),
            pace: watch::Sender::new(Pace::Steady),
            ports: HashMap::new(),
            next_call: 0,
            timer: None,
            limited: None,
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<ProcessMsg>,
        message: ProcessMsg,
        state: &mut ProcessState,
    ) -> Result<(), ActorProcessingErr> {
        let now = state.clock.now();
        match message {
            ProcessMsg::Begin(port) => state.begin(&myself, now, port),
            ProcessMsg::Fact(fact, at) => state.fact(&myself, at, fact),
            ProcessMsg::Bytes(stream, bytes, credit) => {
                let effects = state.core.output(now, stream, &bytes);
                drop(bytes);
                state.backlog.wrote(state.core.output_end(), credit);
                state.carry_out(effects);
            }
            ProcessMsg::Closed(stream) => {
                let effects = state.core.stream_closed(now, stream);
                state.carry_out(effects);
            }
            ProcessMsg::Call(call, port, permit) => state.call(&myself, now, call, (port, permit)),
            ProcessMsg::End(reason) => {
                let effects = state.core.end(now, reason);
                state.carry_out(effects);
            }
            ProcessMsg::Cancel(call) => {
                state.ports.remove(&call);
                let effects = state.core.cancel(now, call);
                state.carry_out(effects);
            }
            ProcessMsg::Tick => {
                state.timer = None;
                if state.backlog.waits() {
                    state.core.backlogged(now);
                }
                let effects = state.core.tick(now);
                state.carry_out(effects);
            }
            #[cfg(test)]
            ProcessMsg::Panic => panic!("asked to"),
        }
        state.limit(now);
        state.arm(&myself);
        Ok(())
    }
}

impl ProcessState {
    fn begin(&mut self, myself: &ActorRef<ProcessMsg>, now: Moment, port: Option<Port>) {
        if let Some(request) = self.request.take() {
            let sink = effects::sink(myself.clone(), self.session.clone(), self.id.clone(), self.clock);
            self.tree = Some(self.launcher.launch(request, sink));
        }
        if let Some(port) = port {
            self.call(myself, now, ProcessCall::Begun, (port, None));
        }
    }

    fn fact(&mut self, myself: &ActorRef<ProcessMsg>, at: Moment, fact: Fact) {
        let effects = match fact {
            Fact::Launched { stdout, stderr } => {
                for (pipe, stream) in [(stdout, Stream::Stdout), (stderr, Stream::Stderr)] {
                    tokio::spawn(reader::read(pipe, stream, myself.clone(), self.pace.subscribe()));
                }
                self.core.launched(at)
            }
            Fact::LaunchFailed(error) => self.core.launch_failed(at, effects::failure(error)),
            Fact::RootEnded(exit) => self.core.live(at, Input::RootEnded(effects::seen(exit))),
            Fact::Leftovers(count) => self.core.live(at, Input::Leftovers(count)),
            Fact::Survivors(list) => self.core.live(at, Input::Survivors(list)),
            Fact::Alone => self.core.end(at, Reason::OwnerLost),
            Fact::Gone(proof) => self.core.live(at, Input::Gone(proof)),
        };
        self.carry_out(effects);
    }

    fn call(
        &mut self,
        myself: &ActorRef<ProcessMsg>,
        now: Moment,
        ask: ProcessCall,
        answer_to: (Port, Option<OwnedSemaphorePermit>),
    ) {
        if let ProcessCall::Output(query, _) = &ask {
            self.backlog.read(query.cursor.unwrap_or(0));
        }
        let call = self.next_call;
        self.next_call += 1;
        self.ports.insert(call, Waiting::Fresh(answer_to.0, answer_to.1));
        let effects = self.core.call(now, call, ask);
        self.carry_out(effects);
        self.park(myself, call);
    }

    /// A call that was not answered waits in a task of its own, which notices when its caller goes.
    fn park(&mut self, myself: &ActorRef<ProcessMsg>, call: CallId) {
        let Some(Waiting::Fresh(mut port, permit)) = self.ports.remove(&call) else { return };
        let (sender, answer) = oneshot::channel();
        self.ports.insert(call, Waiting::Parked(sender));
        let actor = myself.clone();
        tokio::spawn(async move {
            tokio::select! {
                biased;
                answer = answer => port.send(answer.unwrap_or_else(|_| Err(Error::gone()))),
                // A process that is gone has nothing to cancel.
                () = port.closed() => drop(actor.send_message(ProcessMsg::Cancel(call))),
            }
            drop(permit);
        });
    }

    /// Tells the tree's owner a deadline that it does not know, so that it holds without us too.
    fn limit(&mut self, now: Moment) {
        let deadline = self.core.deadline();
        if let Some(tree) = self.tree.as_ref().filter(|_| deadline != self.limited) {
            self.limited = deadline;
            tree.limit(deadline.map(|at| at.since_start().saturating_sub(now.since_start())));
        }
    }

    /// Keeps one timer for whatever is due next. One that fires early is harmless; it is set anew.
    fn arm(&mut self, myself: &ActorRef<ProcessMsg>) {
        let next = self.core.next_tick();
        match (&self.timer, next) {
            (Some((at, _)), Some(next)) if *at <= next => return,
            (None, None) => return,
            _ => {}
        }
        if let Some((_, timer)) = self.timer.take() {
            timer.abort();
        }
        if let Some(at) = next {
            let (actor, instant) = (myself.clone(), self.clock.instant(at));
            let timer = tokio::spawn(async move {
                tokio::time::sleep_until(instant).await;
                let _ = actor.send_message(ProcessMsg::Tick);
            });
            self.timer = Some((at, timer));
        }
    }
}

impl Drop for ProcessState {
    fn drop(&mut self) {
        if let Some((_, timer)) = self.timer.take() {
            timer.abort();
        }
    }
}
