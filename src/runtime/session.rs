//! Handles on a session, an agent and a request: who calls.

use serde_json::Value;

use super::dispatch;
use super::host::Host;
use super::process::Process;
use super::tools::{self, CancellationToken, Style, ToolResult, ToolSpec};
use crate::protocol::call::{Answer, Call, Caller, Origin};
use crate::protocol::error::Error;
use crate::protocol::id::{AgentName, Handle, RequestName, SessionName};
use crate::protocol::spec::Spec;
use crate::protocol::verb::agent::{CloseAgent, CloseAnswer, Leaving, OpenAgent, Sees};
use crate::protocol::verb::exec::{Exec, ExecAnswer};
use crate::protocol::verb::list::{List, ListAnswer};
use crate::protocol::verb::session::{
    DeleteAnswer, DeleteSession, OpenSession, ResetAnswer, ResetSession, SessionInfo, Transfer,
};
use crate::protocol::verb::status::GetStatus;
use crate::protocol::verb::wait::{Wait, WaitAnswer};

/// One conversation's namespace, seen as the operator: every process of the session. Dropping it ends nothing.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), procession::Error> {
/// # let host = procession::Host::builder().require(procession::ContainmentKind::Group).start().await?;
/// let session = host.session("conversation-1".parse()?);
/// session.agent("main".parse()?).start(procession::Spec::command("sleep 60")).await?;
/// let deleted = session.delete().await?;
/// assert_eq!((deleted.stopped, deleted.unconfirmed.len()), (1, 0));
/// # host.shutdown().await?; Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Session {
    host: Host,
    name: SessionName,
}

/// Who calls inside a session as the model. Dropping it ends nothing.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), procession::Error> {
/// # let host = procession::Host::builder().require(procession::ContainmentKind::Group).start().await?;
/// let agent = host.session("conversation-1".parse()?).agent("main".parse()?);
/// let done = agent.exec(procession::Exec::command("echo hello; exit 3")).await?;
/// assert_eq!(done.output.text, "hello\n");
/// assert_eq!(done.process.exit, Some(procession::Exit::code(3)));
/// # host.shutdown().await?; Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Agent {
    host: Host,
    origin: Origin,
}

/// One turn of an agent: what it starts carries the request's name. Dropping it ends nothing.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), procession::Error> {
/// # let host = procession::Host::builder().require(procession::ContainmentKind::Group).start().await?;
/// let agent = host.session("conversation-1".parse()?).agent("main".parse()?);
/// let request = agent.request("turn-7".parse()?);
/// let process = request.start(procession::Spec::command("true")).await?;
/// assert_eq!(process.status().await?.request.map(String::from).as_deref(), Some("turn-7"));
/// # host.shutdown().await?; Ok(()) }
/// ```
pub type Request = Agent;

impl Session {
    pub(super) fn new(host: Host, name: SessionName) -> Self {
        Session { host, name }
    }

    /// Its name.
    pub fn name(&self) -> &SessionName {
        &self.name
    }

    /// A handle on one of its agents. It is opened by its first call, and then sees its own processes.
    pub fn agent(&self, agent: AgentName) -> Agent {
        let caller = Caller::Agent(agent);
        Agent { host: self.host.clone(), origin: Origin { session: self.name.clone(), caller, request: None } }
    }

    /// The operator as a caller: sees every process; what it starts belongs to agent `main`.
    pub fn operator(&self) -> Agent {
        let caller = Caller::Operator;
        Agent { host: self.host.clone(), origin: Origin { session: self.name.clone(), caller, request: None } }
    }

    /// Opens an agent that sees its own processes, or all of the session's.
    ///
    /// # Errors
    /// `conflict` where it is open and sees something else.
    pub async fn open_agent(&self, agent: AgentName, sees: Sees) -> Result<Agent, Error> {
        self.ask(Call::OpenAgent(OpenAgent { agent: agent.clone(), sees: Some(sees) })).await?;
        Ok(self.agent(agent))
    }

    /// Closes an agent; its processes are stopped, or belong to `main` from now on.
    ///
    /// # Errors
    /// `unknown_session`, `unavailable`.
    pub async fn close_agent(&self, agent: AgentName, processes: Leaving) -> Result<CloseAnswer, Error> {
        match self.ask(Call::CloseAgent(CloseAgent { agent, processes: Some(processes) })).await? {
            Answer::Closed(answer) => Ok(answer),
            other => Err(dispatch::unexpected(&other)),
        }
    }

    /// Gives a process to another agent of the session.
    ///
    /// # Errors
    /// `unknown_process`.
    pub async fn transfer(&self, process_id: Handle, to: AgentName) -> Result<(), Error> {
        self.ask(Call::Transfer(Transfer { process_id, to })).await.map(|_| ())
    }

    /// The session as it stands; opens it, with the default profile, where it is not open.
    ///
    /// # Errors
    /// `limit_reached`, `shutting_down`.
    pub async fn info(&self) -> Result<SessionInfo, Error> {
        let known = self.host.list_sessions().await?.into_iter().find(|info| info.session == self.name);
        match known {
            Some(info) => Ok(info),
            None => match self.ask(Call::OpenSession(OpenSession::default())).await? {
                Answer::Session(info) => Ok(info),
                other => Err(dispatch::unexpected(&other)),
            },
        }
    }

    /// Forgets the session's finished records.
    ///
    /// # Errors
    /// `unknown_session`.
    pub async fn reset(&self) -> Result<ResetAnswer, Error> {
        match self.ask(Call::ResetSession(ResetSession::default())).await? {
            Answer::Reset(answer) => Ok(answer),
            other => Err(dispatch::unexpected(&other)),
        }
    }

    /// Ends the session: stops everything and waits for it. What could not be confirmed is named, and keeps its
    /// place. Dropping the future does not stop the deletion.
    ///
    /// # Errors
    /// `unknown_session`.
    pub async fn delete(&self) -> Result<DeleteAnswer, Error> {
        match self.ask(Call::DeleteSession(DeleteSession::default())).await? {
            Answer::Deleted(answer) => Ok(answer),
            other => Err(dispatch::unexpected(&other)),
        }
    }

    pub(super) async fn ask(&self, call: Call) -> Result<Answer, Error> {
        self.operator().call(call).await
    }
}

impl Agent {
    /// The same caller within one request.
    #[must_use]
    pub fn request(&self, request: RequestName) -> Request {
        Agent { host: self.host.clone(), origin: Origin { request: Some(request), ..self.origin.clone() } }
    }

    /// Where its calls are made, and by whom.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The host it calls.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Makes one call. Cancel safe as [`Host::call`].
    ///
    /// # Errors
    /// As [`Host::call`].
    pub async fn call(&self, call: Call) -> Result<Answer, Error> {
        self.host.call(self.origin.clone(), call).await
    }

    /// The tools a language model is offered for this agent.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), procession::Error> {
    /// # let host = procession::Host::builder().require(procession::ContainmentKind::Group).start().await?;
    /// # let agent = host.session("conversation-1".parse()?).agent("main".parse()?);
    /// use procession::tools::{CancellationToken, Style};
    /// let names: Vec<_> = agent.tools(Style::Actions).into_iter().map(|tool| tool.name).collect();
    /// assert_eq!(names, ["exec", "process"]);
    ///
    /// let arguments = serde_json::json!({"command": "echo hello"});
    /// let result = agent.call_tool("exec", arguments, CancellationToken::new()).await;
    /// assert!(!result.is_error && result.text.contains("hello"));
    /// # host.shutdown().await?; Ok(()) }
    /// ```
    pub fn tools(&self, style: Style) -> Vec<ToolSpec> {
        tools::specs(style)
    }

    /// Calls a tool by name. Total: what went wrong is told in the result. Cancelling `cancel`, or dropping the
    /// future, cancels the call: a command in the foreground is stopped, anything else stops nothing.
    pub async fn call_tool(&self, name: &str, arguments: Value, cancel: CancellationToken) -> ToolResult {
        tools::call_tool(&self.host, self.origin.clone(), name, arguments, cancel).await
    }

    /// Launches a process; answers once the kernel executed the program. Dropping the future before that stops it.
    ///
    /// # Errors
    /// `launch_failed` names the step, `limit_reached` the holders, `conflict`, `invalid_argument`, `denied`.
    pub async fn start(&self, spec: Spec) -> Result<Process, Error> {
        match self.call(Call::Start(spec)).await? {
            Answer::Status(status) => Ok(Process::new(self.clone(), status.process_id)),
            other => Err(dispatch::unexpected(&other)),
        }
    }

    /// Runs a command to its end. Dropping the future stops it.
    ///
    /// # Errors
    /// As [`Agent::start`]. How the command ended is a result, whatever its code.
    pub async fn exec(&self, exec: Exec) -> Result<ExecAnswer, Error> {
        match self.call(Call::Exec(exec)).await? {
            Answer::Exec(answer) => Ok(*answer),
            other => Err(dispatch::unexpected(&other)),
        }
    }

    /// The processes it sees.
    ///
    /// # Errors
    /// `unavailable` where the host has ended.
    pub async fn list(&self, list: List) -> Result<ListAnswer, Error> {
        match self.call(Call::List(list)).await? {
            Answer::List(answer) => Ok(answer),
            other => Err(dispatch::unexpected(&other)),
        }
    }

    /// Waits for the end of one or several processes; never ends one. Dropping the future stops nothing.
    ///
    /// # Errors
    /// `unknown_process`, `invalid_argument`, `limit_reached` where too many calls wait.
    pub async fn wait(&self, wait: Wait) -> Result<WaitAnswer, Error> {
        match self.call(Call::Wait(wait)).await? {
            Answer::Wait(answer) => Ok(*answer),
            other => Err(dispatch::unexpected(&other)),
        }
    }

    /// A handle on a process, by id or label.
    ///
    /// # Errors
    /// `unknown_process` with those it sees.
    pub async fn process(&self, process_id: Handle) -> Result<Process, Error> {
        match self.call(Call::Status(GetStatus { process_id })).await? {
            Answer::Status(status) => Ok(Process::new(self.clone(), status.process_id)),
            other => Err(dispatch::unexpected(&other)),
        }
    }
}
