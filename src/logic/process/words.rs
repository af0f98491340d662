//! The words of a life: what it is told, what it wants done, where it can be. `lifecycle` decides with them.

use crate::protocol::state::{Exit, Proof, Reason, Signal, Survivor};

/// How a process is ended, fixed at its admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Policy {
    /// The first signal.
    pub signal: Signal,
    /// Time between it and KILL.
    pub grace_ms: u64,
    /// Time after KILL until an unproven process settles as uncertain.
    pub confirm_ms: u64,
    /// After the tree's end: silence on a pipe held elsewhere that ends the reading.
    pub drain_idle_ms: u64,
    /// The same, in all.
    pub drain_max_ms: u64,
}

/// What can happen to a process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Input {
    /// The kernel executed the program.
    Launched,
    /// It did not, and nothing of it exists.
    LaunchFailed,
    /// The root ended.
    RootEnded(Option<Exit>),
    /// The root is gone and so many others were left.
    Leftovers(usize),
    /// What is still alive.
    Survivors(Vec<Survivor>),
    /// Nothing is left.
    Gone(Proof),
    /// Every output pipe was read to its end, or given up.
    PipesClosed,
    /// Somebody asks for its end, and gives so many milliseconds before KILL.
    End(Reason, u64),
    /// Time has passed.
    Tick,
}

/// What to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Give up the launch.
    Abort,
    /// Send the signal to the tree.
    Signal(Signal),
    /// Kill the tree, until nothing is left.
    Kill,
    /// Ask what is left.
    Inspect,
    /// Do not wait for more before looking for the end of the pipes: the root has ended.
    HurryPipes,
    /// Read what the pipes hold now, then close them.
    FinishPipes,
    /// It is running: tell whoever started it.
    Running,
    /// Its state or what is known of it changed.
    Changed,
    /// It is in its final state: tell everybody.
    Settled,
    /// What was uncertain is proven now.
    Confirmed,
}

/// Where a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Its launch is under way.
    Starting,
    /// It runs.
    Running,
    /// Its end was asked for; the root lives.
    Stopping,
    /// Its root has ended; the rest is being dealt with.
    Settling,
    /// Nothing changes any more, but that what is uncertain may be proven.
    Final,
}
