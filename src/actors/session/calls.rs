//! The switch over a session's calls.

use ractor::ActorRef;
use tokio::sync::OwnedSemaphorePermit;

use super::{SessionCall, SessionMsg, SessionState};
use crate::actors::port::Port;
use crate::actors::process::ProcessMsg;
use crate::logic::output::PageQuery;
use crate::logic::process::ProcessCall;
use crate::logic::session::forget::Removal;
use crate::logic::session::orphan::lost_page;
use crate::protocol::call::{Answer, Caller, Origin};
use crate::protocol::error::{Code, Error};
use crate::protocol::id::{Handle, ProcessId};
use crate::protocol::output::Excerpt;
use crate::protocol::state::{Cleanup, Reason};
use crate::protocol::status::Status;
use crate::protocol::verb::agent::{AgentInfo, OpenAgent};
use crate::protocol::verb::exec::ExecAnswer;
use crate::protocol::verb::forget::Forgotten;
use crate::protocol::verb::output::ReadOutput;
use crate::protocol::verb::session::{ResetAnswer, Transfer};
use crate::protocol::verb::update::Update;
use crate::protocol::verb::wait::{Condition, Observation, Outcome, WaitAnswer};

impl SessionState {
    pub(super) async fn call(&mut self, myself: &ActorRef<SessionMsg>, origin: Origin, call: SessionCall, port: Port) {
        if self.core.empty() {
            let name = self.core.name();
            let error = Error::new(Code::UnknownSession, format!("session {name} was deleted")).with("session", name);
            return self.refuse(port, error);
        }
        if let Caller::Agent(agent) = &origin.caller {
            // An agent that calls without having been opened is opened with what it sees by default.
            if let Err(error) = self.core.open_agent(agent, None) {
                return self.refuse(port, error);
            }
        }
        let caller = origin.caller.clone();
        match call {
            SessionCall::Start(mode, spec) => self.start(myself, origin, mode, (spec, port)),
            SessionCall::Exec(id, max_bytes) => {
                let max_bytes = max_bytes.unwrap_or(self.core.settings().exec.max_output_bytes);
                self.hand_on(&id, ProcessCall::Exec(max_bytes), port);
            }
            SessionCall::List(list) => port.send(Ok(Answer::List(self.core.list(self.clock.now(), &caller, &list)))),
            SessionCall::Status(handle) => self.hand_to(&caller, &handle, ProcessCall::Status, port),
            SessionCall::Output(read) => {
                let (handle, call) = self.page_call(read);
                self.hand_to(&caller, &handle, call, port);
            }
            SessionCall::Wait(handle, wait_ms) => self.hand_to(&caller, &handle, ProcessCall::Wait(wait_ms), port),
            SessionCall::Stop(stop) => {
                let call = ProcessCall::Stop(Reason::StopRequested, stop.grace_ms);
                self.hand_to(&caller, &stop.process_id, call, port);
            }
            SessionCall::Restart(handle) => match self.find(&caller, &handle) {
                Ok(id) => self.restart(myself, origin, &id, port),
                Err(error) => self.refuse(port, error),
            },
            SessionCall::Update(update) => self.update(&caller, update, port),
            SessionCall::Clear(handle) => self.clear(myself, &caller, &handle, port),
            SessionCall::Remove(handle) => self.remove(&caller, &handle, port),
            SessionCall::Info => port.send(Ok(Answer::Session(self.core.info()))),
            SessionCall::Reset => self.reset(port),
            SessionCall::Delete => self.delete(myself, port),
            SessionCall::OpenAgent(open) => port.send(self.open_agent(&open)),
            SessionCall::CloseAgent(close) => self.close_agent(myself, &close, port),
            SessionCall::Transfer(transfer) => self.transfer(&caller, transfer, port),
        }
    }

    fn find(&self, caller: &Caller, handle: &Handle) -> Result<ProcessId, Error> {
        self.core.find(caller, handle).map(|record| record.process_id.clone())
    }

    fn hand_to(&mut self, caller: &Caller, handle: &Handle, call: ProcessCall, port: Port) {
        match self.find(caller, handle) {
            Ok(id) => self.hand_on(&id, call, port),
            Err(error) => self.refuse(port, error),
        }
    }

    /// Hands a call to the process's actor, once it has one; one whose actor died is answered from what is known.
    pub(super) fn hand_on(&mut self, id: &ProcessId, call: ProcessCall, port: Port) {
        if let Some(status) = self.core.record(id).and_then(|record| record.orphaned.as_deref()) {
            return port.send(of_orphan(status, &call));
        }
        let permit = match self.parking_permit(&call) {
            Ok(permit) => permit,
            Err(error) => return self.refuse(port, error),
        };
        if let Some(actor) = self.processes.get(id) {
            // A message that cannot be delivered drops its port, which tells the caller.
            drop(actor.send_message(ProcessMsg::Call(call, port, permit)));
        } else if let Some(placing) = self.placing.get_mut(id) {
            placing.asked.push((call, port, permit));
        } else {
            self.refuse(port, Error::gone());
        }
    }

    /// A call that may wait is counted. A stop is never refused.
    fn parking_permit(&self, call: &ProcessCall) -> Result<Option<OwnedSemaphorePermit>, Error> {
        let waits = match call {
            ProcessCall::Output(_, wait_ms) => *wait_ms > 0,
            ProcessCall::Wait(wait_ms) => *wait_ms != Some(0),
            ProcessCall::Exec(_) => true,
            ProcessCall::Begun
            | ProcessCall::Status
            | ProcessCall::Stop(..)
            | ProcessCall::Update(..)
            | ProcessCall::Transfer(_) => false,
        };
        if !waits {
            return Ok(None);
        }
        std::sync::Arc::clone(&self.parked).try_acquire_owned().map(Some).map_err(|_| {
            let limit = self.core.settings().limits.parked_calls_per_session;
            Error::new(
                Code::LimitReached,
                format!("`limits.parked_calls_per_session` is {limit} and so many calls wait: cancel one"),
            )
            .with("limit", "limits.parked_calls_per_session")
            .with("value", limit)
        })
    }

    fn page_call(&self, read: ReadOutput) -> (Handle, ProcessCall) {
        let asked = read.max_bytes.unwrap_or(self.core.settings().output.page_bytes);
        let query = PageQuery {
            cursor: read.cursor,
            max_bytes: asked,
            stream: read.stream,
            encoding: read.encoding.unwrap_or_default(),
        };
        (read.process_id, ProcessCall::Output(query, read.wait_ms.unwrap_or(0)))
    }

    fn update(&mut self, caller: &Caller, update: Update, port: Port) {
        let id = match self.find(caller, &update.process_id) {
            Ok(id) => id,
            Err(error) => return self.refuse(port, error),
        };
        let settled = self.core.record(&id).is_some_and(|record| record.summary.settled);
        if let Some(label) = update.label.as_ref().filter(|_| !settled) {
            if let Err(error) = self.core.check_label(self.clock.now(), &id, label) {
                return self.refuse(port, error);
            }
            self.core.set_label(&id, label.clone());
            self.retell_place(&id);
        }
        let timeout_ms = update.timeout_ms.map(|ms| self.capped(ms));
        self.hand_on(&id, ProcessCall::Update(timeout_ms, update.label), port);
    }

    fn clear(&mut self, myself: &ActorRef<SessionMsg>, caller: &Caller, handle: &Handle, port: Port) {
        match self.core.clear(caller, handle) {
            Ok((id, _)) => {
                self.forget(&id);
                self.leave_if_empty(myself);
                port.send(Ok(Answer::Forgotten(Forgotten { process_id: id, forgotten: true })));
            }
            Err(error) => self.refuse(port, error),
        }
    }

    fn remove(&mut self, caller: &Caller, handle: &Handle, port: Port) {
        let (process_id, forgotten) = match self.core.remove(caller, handle) {
            Ok(Removal::Now(id)) => {
                self.forget(&id);
                (id, true)
            }
            Ok(Removal::Later(id)) => {
                self.end_process(&id, Reason::StopRequested);
                (id, false)
            }
            Err(error) => return self.refuse(port, error),
        };
        port.send(Ok(Answer::Forgotten(Forgotten { process_id, forgotten })));
    }

    fn reset(&mut self, port: Port) {
        let (cleared, kept) = self.core.reset();
        for id in &cleared {
            self.forget(id);
        }
        let session = self.core.name().clone();
        port.send(Ok(Answer::Reset(ResetAnswer { session, cleared: cleared.len() as u64, kept })));
    }

    fn open_agent(&mut self, open: &OpenAgent) -> Result<Answer, Error> {
        let sees = self.core.open_agent(&open.agent, open.sees)?;
        Ok(Answer::Agent(AgentInfo { session: self.core.name().clone(), agent: open.agent.clone(), sees }))
    }

    fn transfer(&mut self, caller: &Caller, transfer: Transfer, port: Port) {
        match self.find(caller, &transfer.process_id) {
            Ok(id) => self.give(&id, transfer, port),
            Err(error) => self.refuse(port, error),
        }
    }

    fn give(&mut self, id: &ProcessId, transfer: Transfer, port: Port) {
        if let Err(error) = self.core.transfer(id, &transfer.to) {
            return self.refuse(port, error);
        }
        self.retell_place(id);
        self.hand_on(id, ProcessCall::Transfer(transfer.to), port);
    }
}

/// What is answered about a process whose actor died.
fn of_orphan(status: &Status, call: &ProcessCall) -> Result<Answer, Error> {
    let told = || Answer::Status(Box::new(status.clone()));
    let nothing = Excerpt {
        start: status.output.end,
        next_cursor: status.output.end,
        dropped_bytes: status.output.end,
        ..Excerpt::default()
    };
    match call {
        ProcessCall::Begun | ProcessCall::Status | ProcessCall::Stop(..) | ProcessCall::Transfer(_) => Ok(told()),
        ProcessCall::Output(..) => Ok(Answer::Output(lost_page(status))),
        ProcessCall::Update(..) => {
            Err(Error::new(Code::NotRunning, "the process is lost: its supervisor failed").with("state", status.state))
        }
        ProcessCall::Wait(_) => Ok(Answer::Wait(Box::new(WaitAnswer {
            outcome: match status.cleanup {
                Some(Cleanup::Uncertain) => Outcome::Unavailable,
                _ => Outcome::Satisfied,
            },
            condition: Condition::Exit {},
            observation: Observation { state: status.state, exit: status.exit.clone(), cleanup: status.cleanup },
            process: status.row(),
            new_output: nothing,
            processes: Vec::new(),
            wait_ms: None,
        }))),
        ProcessCall::Exec(_) => Ok(Answer::Exec(Box::new(ExecAnswer {
            process: status.clone(),
            yielded: false,
            output: nothing,
            duration_ms: status.runtime_ms,
            advice: Some("Its supervisor failed: check what it did before running it again.".to_owned()),
        }))),
    }
}
