//! The host: one running procession.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use super::dispatch;
use super::session::Session;
use crate::actors::link::{Beginning, Link};
use crate::config;
use crate::protocol::call::{Answer, Call, Caller, Origin};
use crate::protocol::error::Error;
use crate::protocol::id::SessionName;
use crate::protocol::settings::HostSettings;
use crate::protocol::state::ContainmentKind;
use crate::protocol::verb::host::{GetHostStatus, HostStatus, Shutdown, ShutdownAnswer};
use crate::protocol::verb::session::{ListSessions, OpenSession, SessionInfo};

/// How a host is made: `Host::builder()`, then what differs from the defaults, then [`HostBuilder::start`].
#[derive(Clone, Debug)]
pub struct HostBuilder {
    settings: HostSettings,
    directory: Option<PathBuf>,
    environment: Option<Vec<(OsString, OsString)>>,
}

/// One running procession. Cheap to clone; dropping the last clone (and every handle made from it) ends everything
/// it started: each tree gets the stop signal, its grace, then KILL.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), procession::Error> {
/// use procession::{ContainmentKind, Host, Spec};
///
/// let host = Host::builder().directory("/tmp").require(ContainmentKind::Group).start().await?;
/// let agent = host.session("conversation-1".parse()?).agent("main".parse()?);
/// let process = agent.start(Spec::command("echo hello; sleep 60")).await?;
/// assert!(process.status().await?.state == procession::State::Running);
///
/// let done = host.shutdown().await?;
/// assert_eq!((done.stopped, done.unconfirmed.len()), (1, 0));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Host {
    inner: Arc<Inner>,
}

/// What every handle holds on to.
#[derive(Debug)]
pub(super) struct Inner {
    pub(super) settings: HostSettings,
    pub(super) directory: PathBuf,
    pub(super) link: Link,
}

impl HostBuilder {
    /// Runs with these settings instead of the defaults.
    #[must_use]
    pub fn settings(mut self, settings: HostSettings) -> Self {
        self.settings = settings;
        self
    }

    /// The weakest containment that processes may be started with, in every profile: the key `containment.require`.
    /// [`Group`](ContainmentKind::Group) is for programs that have no broker, such as test binaries.
    #[must_use]
    pub fn require(mut self, containment: ContainmentKind) -> Self {
        for profile in self.settings.profiles.values_mut() {
            profile.containment_require = containment;
        }
        self
    }

    /// The directory of sessions that name none, absolute; without this, the current one.
    #[must_use]
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = Some(directory.into());
        self
    }

    /// The environment that commands may inherit; without this, that of the embedding program.
    #[must_use]
    pub fn environment(mut self, environment: Vec<(OsString, OsString)>) -> Self {
        self.environment = Some(environment);
        self
    }

    /// Starts the host. Must be called within a tokio runtime whose I/O and time are enabled.
    ///
    /// # Errors
    /// `invalid_argument` for a directory that is not absolute, `containment_unavailable` where the profile `default`
    /// requires more than there is here, `internal` where no actor could be made.
    pub async fn start(self) -> Result<Host, Error> {
        let directory = self.directory.unwrap_or_else(current_directory);
        if !directory.is_absolute() {
            return Err(Error::invalid("directory", directory.display().to_string(), "an absolute path"));
        }
        let environment = self.environment.unwrap_or_else(|| std::env::vars_os().collect());
        let default = Arc::new(dispatch::profile(&self.settings, None)?);
        let home = default.directory.clone().unwrap_or_else(|| directory.clone());
        let (require, grace_ms) = (default.containment_require, default.stop.grace_ms);
        let link = Link::start(Beginning {
            require,
            grace_ms,
            limits: self.settings.limits,
            auto_open: self.settings.auto_open.then_some((default, home)),
            environment,
            broker: self.settings.broker.clone(),
            owner: self.settings.owner,
        })
        .await?;
        Ok(Host { inner: Arc::new(Inner { settings: self.settings, directory, link }) })
    }
}

impl Host {
    /// A host with the default settings.
    pub fn builder() -> HostBuilder {
        HostBuilder { settings: config::defaults(), directory: None, environment: None }
    }

    /// What it runs with.
    pub fn settings(&self) -> &HostSettings {
        &self.inner.settings
    }

    /// Makes one call: the one door that every other method and every front end goes through.
    ///
    /// Dropping the future cancels the call: a `start` that was not answered and an `exec` are stopped, any other
    /// call stops nothing.
    ///
    /// # Errors
    /// Any of [`Code`](crate::Code); the message says what was wrong and what would be right.
    pub async fn call(&self, origin: Origin, call: Call) -> Result<Answer, Error> {
        dispatch::dispatch(&self.inner, origin, call).await
    }

    /// A handle on a session, by name. It is opened by the first call that needs it.
    pub fn session(&self, name: SessionName) -> Session {
        Session::new(self.clone(), name)
    }

    /// Opens a session, with its directory, configuration and agents. The same again is idempotent.
    ///
    /// # Errors
    /// `conflict` where it is open with another configuration, `invalid_argument`, `limit_reached`.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), procession::Error> {
    /// # let host = procession::Host::builder().require(procession::ContainmentKind::Group).start().await?;
    /// use procession::OpenSession;
    /// let open = OpenSession { directory: Some("/tmp".into()), ..OpenSession::default() };
    /// let session = host.open_session("conversation-1".parse()?, open).await?;
    /// assert_eq!(session.info().await?.directory, "/tmp");
    /// # host.shutdown().await?; Ok(()) }
    /// ```
    pub async fn open_session(&self, name: SessionName, open: OpenSession) -> Result<Session, Error> {
        let session = self.session(name.clone());
        let open = OpenSession { session: Some(name), ..open };
        session.ask(Call::OpenSession(open)).await?;
        Ok(session)
    }

    /// Every session, by name.
    ///
    /// # Errors
    /// `unavailable` where the host has ended.
    pub async fn list_sessions(&self) -> Result<Vec<SessionInfo>, Error> {
        match self.ask(Call::ListSessions(ListSessions {})).await? {
            Answer::Sessions(answer) => Ok(answer.sessions),
            other => Err(dispatch::unexpected(&other)),
        }
    }

    /// The host as it stands: places, who holds them, whether it could be suspended.
    ///
    /// # Errors
    /// `unavailable` where the host has ended.
    pub async fn status(&self) -> Result<HostStatus, Error> {
        match self.ask(Call::HostStatus(GetHostStatus {})).await? {
            Answer::Host(status) => Ok(status),
            other => Err(dispatch::unexpected(&other)),
        }
    }

    /// Ends every process now and answers when that is done: nothing starts from here on, what there is can still be
    /// read. Bounded by the longest grace and `stop.confirm_ms`. Dropping the future does not stop the shutdown.
    ///
    /// # Errors
    /// `unavailable` where the host has ended.
    pub async fn shutdown(&self) -> Result<ShutdownAnswer, Error> {
        self.shutdown_with(Shutdown::default()).await
    }

    /// Ends the host as `shutdown` says: now, or after what runs has ended by itself.
    ///
    /// # Errors
    /// `unavailable` where the host has ended, `invalid_argument`.
    pub async fn shutdown_with(&self, shutdown: Shutdown) -> Result<ShutdownAnswer, Error> {
        match self.ask(Call::Shutdown(shutdown)).await? {
            Answer::Shutdown(answer) => Ok(answer),
            other => Err(dispatch::unexpected(&other)),
        }
    }

    async fn ask(&self, call: Call) -> Result<Answer, Error> {
        let session = SessionName::new("host").expect("a name by its own rule");
        self.call(Origin { session, caller: Caller::Operator, request: None }, call).await
    }
}

/// The current directory; where it was deleted, what the shell says it was, so that a start can name it.
fn current_directory() -> PathBuf {
    let told = || std::env::var_os("PWD").map(PathBuf::from).filter(|path| path.is_absolute());
    std::env::current_dir().ok().or_else(told).unwrap_or_else(|| PathBuf::from("/"))
}
