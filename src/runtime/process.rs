//! Handles on a process and on its output.

use futures_core::Stream;
use futures_util::stream;

use super::dispatch;
use super::session::Agent;
use crate::protocol::bounds::DURATION_MS_MAX;
use crate::protocol::call::{Answer, Call};
use crate::protocol::error::Error;
use crate::protocol::id::{Handle, ProcessId};
use crate::protocol::output::{Cursor, Encoding, Page};
use crate::protocol::status::Status;
use crate::protocol::verb::forget::{Clear, Forgotten, Remove};
use crate::protocol::verb::output::ReadOutput;
use crate::protocol::verb::status::GetStatus;
use crate::protocol::verb::stop::{Restart, Stop};
use crate::protocol::verb::update::Update;
use crate::protocol::verb::wait::{Wait, WaitAnswer};

/// One process. Dropping it stops nothing.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), procession::Error> {
/// # let host = procession::Host::builder().require(procession::ContainmentKind::Group).start().await?;
/// # let agent = host.session("conversation-1".parse()?).agent("main".parse()?);
/// let process = agent.start(procession::Spec::command("echo ready; sleep 60")).await?;
/// let page = process.output().wait_ms(5000).page().await?;
/// assert_eq!(page.text(), "ready\n");
/// let status = process.stop(None).await?;
/// assert_eq!(status.state, procession::State::Stopped);
/// # host.shutdown().await?; Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Process {
    agent: Agent,
    id: ProcessId,
}

/// The output of a process, read from a cursor. Reading consumes nothing: any number of readers see all of it.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), procession::Error> {
/// # let host = procession::Host::builder().require(procession::ContainmentKind::Group).start().await?;
/// # let agent = host.session("conversation-1".parse()?).agent("main".parse()?);
/// use futures_util::TryStreamExt;
/// let process = agent.start(procession::Spec::command("seq 1 3; sleep 0.1; seq 4 6")).await?;
/// let first = process.output().wait_ms(5000).page().await?;
/// let rest: Vec<_> = process.output().from(first.next_cursor).follow().try_collect().await?;
/// let rest: String = rest.iter().map(|page| page.text()).collect();
/// assert_eq!(first.text() + &rest, "1\n2\n3\n4\n5\n6\n");
/// # host.shutdown().await?; Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Output {
    process: Process,
    read: ReadOutput,
}

impl Process {
    pub(super) fn new(agent: Agent, id: ProcessId) -> Self {
        Process { agent, id }
    }

    /// Names it for ever.
    pub fn id(&self) -> &ProcessId {
        &self.id
    }

    /// Everything that is known about it.
    ///
    /// # Errors
    /// `unknown_process` where its record was forgotten.
    pub async fn status(&self) -> Result<Status, Error> {
        self.ask(Call::Status(GetStatus { process_id: self.handle() })).await
    }

    /// Its output, from the oldest retained byte unless said otherwise.
    pub fn output(&self) -> Output {
        Output { process: self.clone(), read: ReadOutput::of(self.handle()) }
    }

    /// Ends its tree and answers the final status, for every caller the same. `grace_ms` between the stop signal and
    /// KILL; `None` = its own. Dropping the future does not take the stop back.
    ///
    /// # Errors
    /// `unknown_process`, `invalid_argument`.
    pub async fn stop(&self, grace_ms: Option<u64>) -> Result<Status, Error> {
        self.ask(Call::Stop(Stop { process_id: self.handle(), grace_ms })).await
    }

    /// Stops it, confirms, starts the same specification in the same place; answers the new process. Dropping the
    /// future does not take the stop back; what was to be started for nobody else is stopped, as with a start.
    ///
    /// # Errors
    /// `cleanup_uncertain` where the old one is not proven to be gone, and what a start can answer.
    pub async fn restart(&self) -> Result<Process, Error> {
        let status = self.ask(Call::Restart(Restart { process_id: self.handle() })).await?;
        Ok(Process::new(self.agent.clone(), status.process_id))
    }

    /// Moves its deadline (`timeout_ms`, from its admission; 0 = none) or changes its label.
    ///
    /// # Errors
    /// `not_running`, `conflict`, `invalid_argument`.
    pub async fn update(&self, update: Update) -> Result<Status, Error> {
        self.ask(Call::Update(Update { process_id: self.handle(), ..update })).await
    }

    /// Waits until it is settled, at most `wait_ms` (`None` = without bound). Dropping the future stops nothing.
    ///
    /// # Errors
    /// `unknown_process`, `limit_reached` where too many calls wait.
    pub async fn wait(&self, wait_ms: Option<u64>) -> Result<WaitAnswer, Error> {
        self.agent.wait(Wait { wait_ms, ..Wait::exit(self.handle()) }).await
    }

    /// Forgets its record; it must be finished.
    ///
    /// # Errors
    /// `still_running`, `cleanup_uncertain`, `unknown_process`.
    pub async fn clear(&self) -> Result<Forgotten, Error> {
        self.forget(Call::Clear(Clear { process_id: self.handle() })).await
    }

    /// Stops it if it is live, and forgets it.
    ///
    /// # Errors
    /// `unknown_process`.
    pub async fn remove(&self) -> Result<Forgotten, Error> {
        self.forget(Call::Remove(Remove { process_id: self.handle() })).await
    }

    async fn forget(&self, call: Call) -> Result<Forgotten, Error> {
        match self.agent.call(call).await? {
            Answer::Forgotten(answer) => Ok(answer),
            other => Err(dispatch::unexpected(&other)),
        }
    }

    async fn ask(&self, call: Call) -> Result<Status, Error> {
        match self.agent.call(call).await? {
            Answer::Status(status) => Ok(*status),
            other => Err(dispatch::unexpected(&other)),
        }
    }

    fn handle(&self) -> Handle {
        Handle::from(&self.id)
    }
}

impl Output {
    /// From this cursor on.
    #[must_use]
    pub fn from(mut self, cursor: Cursor) -> Self {
        self.read.cursor = Some(cursor);
        self
    }

    /// At most so many raw bytes in a page.
    #[must_use]
    pub fn max_bytes(mut self, max_bytes: u64) -> Self {
        self.read.max_bytes = Some(max_bytes);
        self
    }

    /// Only this stream.
    #[must_use]
    pub fn stream(mut self, stream: crate::protocol::output::Stream) -> Self {
        self.read.stream = Some(stream);
        self
    }

    /// As text, or as base64 of the raw bytes.
    #[must_use]
    pub fn encoding(mut self, encoding: Encoding) -> Self {
        self.read.encoding = Some(encoding);
        self
    }

    /// With nothing to read, waits so many milliseconds for a byte or the end.
    #[must_use]
    pub fn wait_ms(mut self, wait_ms: u64) -> Self {
        self.read.wait_ms = Some(wait_ms);
        self
    }

    /// One page.
    ///
    /// # Errors
    /// `cursor_out_of_range`, `page_too_small`, `unknown_process`.
    pub async fn page(&self) -> Result<Page, Error> {
        match self.process.agent.call(Call::Output(self.read.clone())).await? {
            Answer::Output(page) => Ok(page),
            other => Err(dispatch::unexpected(&other)),
        }
    }

    /// Pages as they come, until the process is settled and read to its end; the last one says `eof`. Each retained
    /// byte comes once; what was dropped meanwhile is counted in `dropped_bytes`. Dropping the stream stops nothing.
    pub fn follow(self) -> impl Stream<Item = Result<Page, Error>> {
        let from = self.wait_ms(DURATION_MS_MAX);
        stream::try_unfold(Some(from), async |reader| {
            let Some(reader) = reader else { return Ok(None) };
            let page = reader.page().await?;
            let next = (!page.eof).then(|| reader.from(page.next_cursor));
            Ok(Some((page, next)))
        })
    }
}
