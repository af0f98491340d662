//! The launcher that needs nothing but this program: it starts children itself and owns them as their parent.
//!
//! Invariant: it is a guest. No signal handler, directory, environment or descriptor of the embedding program is
//! changed, and only its own children are waited for, each by its own number or descriptor.
//! Lacks: reach beyond the process group (a member that calls `setsid` leaves it) and beyond this program's life.

use std::fmt;
use std::sync::Arc;

use tokio::runtime::Handle;

use crate::protocol::state::{Containment, ContainmentKind, Signal};

use super::launch::{Fact, FactSink, LaunchError, LaunchRequest, Launcher, Tree};
use super::means::Means;
use super::pipe::Pipe;
use super::root::{Root, exits_are_visible};
use super::shared::Shared;
use super::spawn;
use super::watch::Watch;

/// How far it reaches.
const REACH: &str =
    "processes are started by the embedding program itself; what leaves the process group is out of reach";

/// Launches processes from this program.
#[derive(Debug)]
pub struct InProcess {
    runtime: Handle,
    means: Means,
    /// Why nothing stronger is used.
    why: String,
}

impl InProcess {
    /// A launcher that works on `runtime`, which needs I/O and time enabled, with the best the system offers.
    pub fn new(runtime: Handle) -> Self {
        InProcess::with_means(runtime, Means::probe())
    }

    /// The same with chosen means; those the system lacks must be off.
    pub fn with_means(runtime: Handle, means: Means) -> Self {
        InProcess { runtime, means, why: REACH.to_owned() }
    }

    /// The same, which says why nothing stronger is used.
    #[must_use]
    pub fn because(mut self, why: &str) -> Self {
        self.why = format!("{why}; {REACH}");
        self
    }
}

impl Launcher for InProcess {
    fn containment(&self) -> Containment {
        Containment { kind: ContainmentKind::Group, why: Some(self.why.clone()) }
    }

    fn launch(&self, request: LaunchRequest, facts: FactSink) -> Box<dyn Tree> {
        let shared = Arc::new(Shared::new(facts));
        let launch = Launch { shared: Arc::clone(&shared), request, runtime: self.runtime.clone(), means: self.means };
        // Looking up directory and program may hang with a file system: not on a worker of the runtime.
        // A runtime that can make no thread panics; the launch is dropped by that and tells its end.
        let begin = || self.runtime.spawn_blocking(move || launch.run());
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(begin));
        Box::new(Owned { shared })
    }
}

/// A launch on its way.
struct Launch {
    shared: Arc<Shared>,
    request: LaunchRequest,
    runtime: Handle,
    means: Means,
}

impl Launch {
    fn run(self) {
        if let Err(error) = self.launch() {
            self.shared.fail(error);
        }
    }

    fn launch(&self) -> Result<(), LaunchError> {
        if self.shared.is_over() {
            return Ok(());
        }
        refuse_unseen_exits()?;
        let (prepared, outputs) = spawn::prepare(&self.request)?;
        // Watched before there is a child, so that nothing after its start can fail.
        let watched = |end| Pipe::new(end).map_err(|error| spawn::pipe_error(&error, None));
        let (stdout, stderr) = (watched(outputs.stdout)?, watched(outputs.stderr)?);
        if !self.shared.begin_spawn() {
            return Ok(());
        }
        let pid = prepared.spawn(&self.request, self.means, || self.shared.given_up())?;
        let root = Root::adopt(pid, self.means);
        self.shared.live(Arc::clone(root.group()));
        let watch = Watch::new(Arc::clone(&self.shared), root, self.means);
        self.shared.report(Fact::Launched { stdout, stderr });
        self.runtime.spawn(watch.run());
        Ok(())
    }
}

impl Drop for Launch {
    /// One that ran is past giving up.
    fn drop(&mut self) {
        self.shared.give_up("The launch never began: the runtime has ended, or no thread could be made for it.");
    }
}

fn refuse_unseen_exits() -> Result<(), LaunchError> {
    if exits_are_visible().unwrap_or(true) {
        return Ok(());
    }
    let hint = "The embedding program ignores SIGCHLD (SIG_IGN or SA_NOCLDWAIT), so no exit could be seen; \
                restore the default disposition of SIGCHLD.";
    Err(LaunchError { operation: "execute", errno: 0, path: None, hint: hint.to_owned() })
}

/// The handle on a tree.
struct Owned {
    shared: Arc<Shared>,
}

impl fmt::Debug for Owned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Owned").finish_non_exhaustive()
    }
}

impl Tree for Owned {
    fn abort(&self) {
        self.shared.kill();
    }

    fn signal(&self, signal: Signal) {
        self.shared.signal(signal);
    }

    fn kill(&self) {
        self.shared.kill();
    }

    fn inspect(&self) {
        self.shared.inspect();
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        self.shared.release();
    }
}
