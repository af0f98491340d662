//! How the facade reaches the actors, without seeing one.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorRef};

use super::clock::Clock;
use super::host::{Arguments, HostActor, HostMsg, Surroundings};
use super::port::{Pending, Port, StartGuard};
use super::session::{Opening, SessionCall};
use crate::os;
use crate::protocol::call::{Answer, Origin};
use crate::protocol::error::{Code, Error};
use crate::protocol::id::{AgentName, SessionName};
use crate::protocol::settings::{BrokerSettings, HostLimits, OwnerSettings, SessionSettings};
use crate::protocol::state::{Containment, ContainmentKind};
use crate::protocol::verb::agent::Sees;
use crate::protocol::verb::host::Shutdown;

/// What a host begins with.
pub struct Beginning {
    /// Its limits.
    pub limits: HostLimits,
    /// What a session that was not opened opens with; absent = such calls are refused.
    pub auto_open: Option<(Arc<SessionSettings>, PathBuf)>,
    /// The environment that commands may inherit.
    pub environment: Vec<(OsString, OsString)>,
    /// The weakest containment it may begin with.
    pub require: ContainmentKind,
    /// The grace of a process whose host died before it could tell its own, in milliseconds.
    pub grace_ms: u64,
    /// Who owns the trees.
    pub broker: BrokerSettings,
    /// What they do where this program does not serve.
    pub owner: OwnerSettings,
}

/// A host that cannot own trees as it must does not begin.
fn contained(has: Containment, needed: ContainmentKind) -> Result<(), Error> {
    if has.kind >= needed {
        return Ok(());
    }
    let why = has.why.as_deref().unwrap_or("this system has no more");
    let remedies = if cfg!(target_os = "linux") {
        "call `procession::init()` first in `main`, or put the program `procession-guardian` beside the executable (or name \
         it in `broker.path`), or settle for less with `containment.require = \"group\"`"
    } else {
        "set `containment.require = \"group\"`"
    };
    let message = format!("`containment.require` asks for more than there is here: {why}. To mend that, {remedies}");
    Err(Error::new(Code::ContainmentUnavailable, message).with("required", needed).with("available", has))
}

/// Has the host actor say that it serves, for as long as it is there: the actor that answers calls, because one that
/// hangs must not be covered up by a task that does not.
async fn beat(host: ActorRef<HostMsg>, every: Duration) {
    while host.send_message(HostMsg::Beat).is_ok() {
        tokio::time::sleep(every).await;
    }
}

/// Becomes a broker if this program was started as one; else its image can serve as one from now on.
///
/// # Errors
/// `containment_unavailable` where it cannot.
pub fn init() -> Result<(), Error> {
    os::init().map_err(|why| Error::new(Code::ContainmentUnavailable, why))
}

/// The way to one host. Dropping it ends everything the host started.
#[derive(Debug)]
pub struct Link {
    host: ActorRef<HostMsg>,
}

impl Link {
    /// Starts a host. Needs a tokio runtime.
    ///
    /// # Errors
    /// `containment_unavailable` where trees cannot be owned as is required, `internal` where no actor could be made.
    pub async fn start(with: Beginning) -> Result<Self, Error> {
        let wanted = os::Wanted {
            image: with.broker.path,
            spares: with.broker.spares as usize,
            grace_ms: with.grace_ms,
            silence_ms: with.owner.heartbeat_grace_ms,
        };
        let launcher = tokio::task::spawn_blocking(move || os::launcher(&wanted))
            .await
            .map_err(|error| Error::internal(format!("no launcher could be made for the host: {error}")))?;
        contained(launcher.containment(), with.require)?;
        let surroundings = Surroundings {
            clock: Clock::start(),
            launcher,
            environment: os::bytes_of(with.environment),
            timeout_max_ms: with.limits.timeout_max_ms,
        };
        let arguments =
            Arguments { limits: with.limits, auto_open: with.auto_open, surroundings: Arc::new(surroundings) };
        let (host, _) = Actor::spawn(None, HostActor, arguments)
            .await
            .map_err(|error| Error::internal(format!("no actor could be made for the host: {error}")))?;
        let OwnerSettings { heartbeat_ms, heartbeat_grace_ms } = with.owner;
        if heartbeat_grace_ms > 0 {
            let every = Duration::from_millis(heartbeat_ms.min(heartbeat_grace_ms / 4).max(1));
            tokio::spawn(beat(host.clone(), every));
        }
        Ok(Link { host })
    }

    /// Asks a session. Dropping the future cancels the call.
    ///
    /// # Errors
    /// What the session answers; `unavailable` where nobody is left to answer.
    pub async fn ask(&self, origin: Origin, call: SessionCall) -> Result<(Answer, Option<StartGuard>), Error> {
        self.send(|port| HostMsg::Call(origin, call, port)).await
    }

    /// Opens a session.
    ///
    /// # Errors
    /// `conflict`, `limit_reached`, `shutting_down`.
    pub async fn open(
        &self,
        name: SessionName,
        settings: Arc<SessionSettings>,
        directory: PathBuf,
        agents: BTreeMap<AgentName, Sees>,
    ) -> Result<Answer, Error> {
        let opening = Opening { settings, directory, agents };
        Ok(self.send(|port| HostMsg::Open(name, opening, port)).await?.0)
    }

    /// Every session.
    ///
    /// # Errors
    /// `unavailable` where the host has ended.
    pub async fn sessions(&self) -> Result<Answer, Error> {
        Ok(self.send(HostMsg::Sessions).await?.0)
    }

    /// The host as it stands.
    ///
    /// # Errors
    /// `unavailable` where the host has ended.
    pub async fn status(&self) -> Result<Answer, Error> {
        Ok(self.send(HostMsg::Status).await?.0)
    }

    /// Ends the host. Dropping the future does not stop the shutdown.
    ///
    /// # Errors
    /// `unavailable` where the host has ended.
    pub async fn shutdown(&self, shutdown: Shutdown) -> Result<Answer, Error> {
        Ok(self.send(|port| HostMsg::Shutdown(shutdown, Some(port))).await?.0)
    }

    async fn send(&self, message: impl FnOnce(Port) -> HostMsg) -> Result<(Answer, Option<StartGuard>), Error> {
        let (port, pending): (Port, Pending) = Port::new();
        self.host.send_message(message(port)).map_err(|_| Error::gone())?;
        let reply = pending.await.map_err(|_| Error::gone())?;
        Ok((reply.answer?, reply.guard))
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // A host that has ended has nothing to end.
        let _ = self.host.send_message(HostMsg::Abandoned);
    }
}
