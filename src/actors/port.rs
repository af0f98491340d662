//! Where an answer goes, and what follows if nobody takes it.
//!
//! The answer to a start carries a guard: whoever asked must confirm it. An answer that is never read, because its
//! caller has gone, is dropped with the guard, which tells the session to stop the process.

use ractor::ActorRef;
use tokio::sync::oneshot;

use super::session::SessionMsg;
use crate::protocol::call::Answer;
use crate::protocol::error::Error;
use crate::protocol::id::ProcessId;

/// An answer on its way.
#[derive(Debug)]
pub struct Reply {
    /// What is answered.
    pub answer: Result<Answer, Error>,
    /// With the answer to a start: stops the process unless it is confirmed.
    pub guard: Option<StartGuard>,
}

/// Where one call's answer goes.
#[derive(Debug)]
pub struct Port {
    sender: oneshot::Sender<Reply>,
    guard: Option<StartGuard>,
}

/// The other end of a [`Port`].
pub type Pending = oneshot::Receiver<Reply>;

impl Port {
    /// A port, and where its answer arrives.
    pub fn new() -> (Self, Pending) {
        let (sender, pending) = oneshot::channel();
        (Port { sender, guard: None }, pending)
    }

    /// What it answers is the start of the process that `guard` names.
    #[must_use]
    pub fn guarded(mut self, guard: StartGuard) -> Self {
        self.guard = Some(guard);
        self
    }

    /// Answers. If nobody listens any more, a started process is stopped.
    pub fn send(mut self, answer: Result<Answer, Error>) {
        let mut guard = self.guard.take();
        if answer.is_err()
            && let Some(guard) = guard.take()
        {
            guard.confirm();
        }
        // An answer that cannot be delivered comes back and is dropped, with its guard.
        drop(self.sender.send(Reply { answer, guard }));
    }

    /// Waits until nobody listens any more. Cancel safe.
    pub async fn closed(&mut self) {
        self.sender.closed().await;
    }
}

/// Stops a process unless its start is confirmed.
#[derive(Debug)]
pub struct StartGuard {
    target: Option<(ActorRef<SessionMsg>, ProcessId)>,
}

impl StartGuard {
    /// A guard over a process of a session.
    pub fn new(session: ActorRef<SessionMsg>, process_id: ProcessId) -> Self {
        StartGuard { target: Some((session, process_id)) }
    }

    /// The caller has the answer: the process may live.
    pub fn confirm(mut self) {
        self.target = None;
    }
}

impl Drop for StartGuard {
    fn drop(&mut self) {
        if let Some((session, id)) = self.target.take() {
            // A session that is gone has ended its processes itself.
            let _ = session.send_message(SessionMsg::Abandoned(id));
        }
    }
}
