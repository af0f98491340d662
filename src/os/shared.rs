//! What the handle on a tree, its launch and its task share: how far it has come, and who may signal it.
//!
//! ```text
//! Preparing ──► Spawning ──► Live ──► Over
//!     └──────────── abort ────────────►┘
//! ```
//!
//! Invariant: a group is signalled under the lock and only while `Live`, so whoever holds the lock, or has set
//! `Over`, may reap the root that pins the group's number.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::protocol::state::Signal;

use super::group::Group;
use super::launch::{Fact, FactSink, LaunchError};

/// What the handle, the launch and the task share.
pub(super) struct Shared {
    facts: FactSink,
    state: Mutex<State>,
    bell: Notify,
}

struct State {
    stage: Stage,
    /// Everything is to die: nothing but death will do from now on.
    killing: bool,
    /// The handle was dropped.
    released: bool,
    /// Inspections not answered yet.
    asked: usize,
}

enum Stage {
    /// Nothing was started, and nothing will be if it is given up now.
    Preparing,
    /// The kernel is executing the program; nobody knows its number yet.
    Spawning,
    Live(Arc<Group>),
    Over,
}

impl Shared {
    /// Before anything is started.
    pub(super) fn new(facts: FactSink) -> Self {
        let state = State { stage: Stage::Preparing, killing: false, released: false, asked: 0 };
        Shared { facts, state: Mutex::new(state), bell: Notify::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code that holds the lock can leave the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells a fact. Never called with the lock held, because the sink may call back.
    pub(super) fn report(&self, fact: Fact) {
        (self.facts)(fact);
    }

    /// Before the launch: whether it is still wanted. From `true` on the program may exist.
    pub(super) fn begin_spawn(&self) -> bool {
        let mut state = self.state();
        let wanted = matches!(state.stage, Stage::Preparing);
        if wanted {
            state.stage = Stage::Spawning;
        }
        wanted
    }

    /// Whether there is nothing more to do.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.state().stage, Stage::Over)
    }

    /// Gives up a launch that has started nothing, for the reason `hint` states; no effect on another.
    pub(super) fn give_up(&self, hint: &str) {
        let mut state = self.state();
        if matches!(state.stage, Stage::Preparing) {
            state.stage = Stage::Over;
            drop(state);
            self.report(Fact::LaunchFailed(LaunchError {
                operation: "cancelled",
                errno: 0,
                path: None,
                hint: hint.to_owned(),
            }));
        }
    }

    /// Whether everything is to die.
    pub(super) fn given_up(&self) -> bool {
        self.state().killing
    }

    /// The launch failed and nothing of it exists. Says so, unless it was given up and that was said.
    pub(super) fn fail(&self, error: LaunchError) {
        let before = std::mem::replace(&mut self.state().stage, Stage::Over);
        if !matches!(before, Stage::Over) {
            self.report(Fact::LaunchFailed(error));
        }
    }

    /// The program was executed. If it was given up meanwhile it is killed here.
    pub(super) fn live(&self, group: Arc<Group>) {
        let mut state = self.state();
        if state.killing {
            group.send(Signal::Kill);
        }
        state.stage = Stage::Live(group);
    }

    /// Signals the group, if there is one.
    pub(super) fn signal(&self, signal: Signal) {
        if signal == Signal::Kill {
            return self.kill();
        }
        if let Stage::Live(group) = &self.state().stage {
            group.send(signal);
            group.resume();
        }
    }

    /// Gives the launch up, or kills what came of it.
    pub(super) fn kill(&self) {
        self.give_up("The launch was given up before the program was started.");
        let mut state = self.state();
        state.killing = true;
        if let Stage::Live(group) = &state.stage {
            group.send(Signal::Kill);
        }
        drop(state);
        self.bell.notify_one();
    }

    /// Asks the task who is left.
    pub(super) fn inspect(&self) {
        self.state().asked += 1;
        self.bell.notify_one();
    }

    /// The handle is gone: everything dies.
    pub(super) fn release(&self) {
        self.state().released = true;
        self.kill();
    }

    /// Whether the handle is gone.
    pub(super) fn is_released(&self) -> bool {
        self.state().released
    }

    /// Waits for a call that needs the task. One that came before is not missed. Cancel safe.
    pub(super) async fn command(&self) {
        self.bell.notified().await;
    }

    /// Whether an inspection waits for its answer.
    pub(super) fn is_asked(&self) -> bool {
        self.state().asked > 0
    }

    /// How many answers are due; from now on none.
    pub(super) fn take_asked(&self) -> usize {
        std::mem::take(&mut self.state().asked)
    }

    /// Does something during which nobody else signals.
    pub(super) fn alone<T>(&self, work: impl FnOnce() -> T) -> T {
        let _nobody_signals = self.state();
        work()
    }

    /// Nothing is signalled from here on.
    pub(super) fn close(&self) {
        self.state().stage = Stage::Over;
    }

    /// The last signal, unless nothing is left to be signalled.
    pub(super) fn kill_and_close(&self) {
        let mut state = self.state();
        if let Stage::Live(group) = &state.stage {
            group.send(Signal::Kill);
        }
        state.stage = Stage::Over;
    }
}
