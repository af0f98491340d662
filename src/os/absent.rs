//! Where processes cannot be owned: nothing is launched, and a start says so before it gets here.

use super::launch::{Fact, FactSink, LaunchError, LaunchRequest, Launcher, Tree};
use crate::protocol::state::{Containment, ContainmentKind, Signal};

/// Launches nothing.
pub struct Absent;

/// A tree of nothing.
struct Nothing;

impl Launcher for Absent {
    fn containment(&self) -> Containment {
        Containment { kind: ContainmentKind::Group, why: Some("this platform is not supported".to_owned()) }
    }

    fn launch(&self, _: LaunchRequest, facts: FactSink) -> Box<dyn Tree> {
        let hint = "Processes are managed on Linux and macOS.".to_owned();
        facts(Fact::LaunchFailed(LaunchError { operation: "execute", errno: 0, path: None, hint }));
        Box::new(Nothing)
    }
}

impl Tree for Nothing {
    fn abort(&self) {}
    fn signal(&self, _: Signal) {}
    fn kill(&self) {}
    fn inspect(&self) {}
}
