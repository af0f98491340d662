//! What the handle on a tree, its launch and its task share: how far it is, and the guardian's lifeline.
//!
//! ```text
//! Preparing ──► Sent ──► Over
//!     └── abort ────────►┘
//! ```

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::os::frame::Message;
use crate::os::launch::{Fact, FactSink, LaunchError};
use crate::os::packet;

/// What the handle, the launch and the task share.
pub(super) struct Line {
    facts: FactSink,
    state: Mutex<State>,
    bell: Notify,
}

struct State {
    stage: Stage,
    killing: bool,
    policy: Policy,
    /// Whether the guardian was told it.
    told: bool,
}

/// What the guardian is to do without us.
#[derive(Clone, Copy, Debug)]
pub(super) struct Policy {
    pub(super) signal: i32,
    pub(super) grace_ms: u64,
    /// In milliseconds of CLOCK_MONOTONIC; 0 = none.
    pub(super) deadline_ms: u64,
}

enum Stage {
    /// Nothing was started, and nothing will be if it is given up now.
    Preparing,
    /// The launch was sent: its own socket decides.
    Sent(Arc<OwnedFd>),
    Over,
}

impl Line {
    pub(super) fn new(facts: FactSink, policy: Policy) -> Self {
        let state = State { stage: Stage::Preparing, killing: false, policy, told: false };
        Line { facts, state: Mutex::new(state), bell: Notify::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code that holds the lock can leave the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells a fact. Never called with the lock held, because the sink may call back.
    pub(super) fn report(&self, fact: Fact) {
        (self.facts)(fact);
    }

    /// Whether there is nothing more to do.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.state().stage, Stage::Over)
    }

    /// Sends the launch, if it is still wanted: from then on the program may exist. `None` = it was given up.
    pub(super) fn begin<T>(&self, control: &Arc<OwnedFd>, send: impl FnOnce() -> T) -> Option<T> {
        let mut state = self.state();
        if !matches!(state.stage, Stage::Preparing) {
            return None;
        }
        state.stage = Stage::Sent(Arc::clone(control));
        Some(send())
    }

    /// The launch failed and nothing of it exists. Says so, unless it was given up and that was said.
    pub(super) fn fail(&self, error: LaunchError) {
        let before = std::mem::replace(&mut self.state().stage, Stage::Over);
        if !matches!(before, Stage::Over) {
            self.report(Fact::LaunchFailed(error));
        }
    }

    /// Gives up a launch that was not sent, for the reason `hint` states; no effect on another.
    pub(super) fn give_up(&self, hint: &str) {
        let mut state = self.state();
        if matches!(state.stage, Stage::Preparing) {
            state.stage = Stage::Over;
            drop(state);
            let hint = hint.to_owned();
            self.report(Fact::LaunchFailed(LaunchError { operation: "cancelled", errno: 0, path: None, hint }));
        }
    }

    /// Whether everything is to die.
    pub(super) fn is_killing(&self) -> bool {
        self.state().killing
    }

    /// Says something to the guardian. `false` = it does not read.
    pub(super) fn say(&self, message: &Message) -> bool {
        let Stage::Sent(control) = &self.state().stage else { return true };
        let sent = packet::send(control, &message.encode(), &[]);
        !sent.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
    }

    /// Tells the guardian what it is to do without us: once the program runs, so that a launch is not slowed.
    pub(super) fn tell_policy(&self) {
        let policy = {
            let mut state = self.state();
            state.told = true;
            state.policy
        };
        let Policy { signal, grace_ms, deadline_ms } = policy;
        // Whether it reads is seen when it matters: at a kill.
        self.say(&Message::Policy { signal, grace_ms, deadline_ms });
    }

    /// Sets the deadline. The guardian hears of it now, or with the rest.
    pub(super) fn limit(&self, deadline_ms: u64) {
        let told = {
            let mut state = self.state();
            state.policy.deadline_ms = deadline_ms;
            state.told
        };
        if told {
            self.tell_policy();
        }
    }

    /// Gives the launch up, or kills what came of it.
    pub(super) fn kill(&self) {
        self.give_up("The launch was given up before the program was started.");
        self.state().killing = true;
        self.bell.notify_one();
        self.say(&Message::Kill);
    }

    /// Asks who is left.
    pub(super) fn inspect(&self) {
        // One that does not read is found at a kill, which comes before any inspection that matters.
        self.say(&Message::Inspect);
    }

    /// The handle is gone: everything dies.
    pub(super) fn release(&self) {
        self.kill();
    }

    /// Nothing is left.
    pub(super) fn close(&self) {
        self.state().stage = Stage::Over;
    }

    /// Waits for a call that needs the task. One that came before is not missed. Cancel safe.
    pub(super) async fn command(&self) {
        self.bell.notified().await;
    }
}
