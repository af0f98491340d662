//! The one switch: which call goes where, who may make it, and what is put together from several.

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;

use super::host::Inner;
use crate::actors::session::SessionCall;
use crate::config;
use crate::protocol::call::{Answer, Audience, Call, Caller, Origin};
use crate::protocol::error::{Code, Error};
use crate::protocol::id::{Handle, SessionName};
use crate::protocol::output::Page;
use crate::protocol::settings::{HostSettings, SessionSettings};
use crate::protocol::spec::Mode;
use crate::protocol::verb::exec::Exec;
use crate::protocol::verb::list::{Detail, List, ListAnswer};
use crate::protocol::verb::session::OpenSession;
use crate::protocol::verb::wait::{Outcome, Wait, WaitAnswer, WaitMode};

/// Makes one call. Dropping the future cancels it.
pub(super) async fn dispatch(host: &Inner, origin: Origin, call: Call) -> Result<Answer, Error> {
    refuse_agents(&origin, &call)?;
    call.check()?;
    let ask = |call| host.link.ask(origin.clone(), call);
    let answer = match call {
        Call::Start(spec) => {
            let (answer, guard) = ask(SessionCall::Start(Mode::Background, Arc::new(spec))).await?;
            // The caller has it from here on: nothing is awaited any more.
            guard.into_iter().for_each(crate::actors::port::StartGuard::confirm);
            return Ok(answer);
        }
        Call::Exec(exec) => return run(host, origin, exec).await,
        Call::List(list) if list.detail == Some(Detail::Full) => return list_in_full(host, origin, list).await,
        Call::List(list) => ask(SessionCall::List(list)).await?.0,
        Call::Status(status) => ask(SessionCall::Status(status.process_id)).await?.0,
        Call::Output(mut read) => {
            let (max_bytes, wait_ms) = read.clamp();
            match ask(SessionCall::Output(read)).await?.0 {
                Answer::Output(page) => Answer::Output(Page { max_bytes, wait_ms, ..page }),
                other => other,
            }
        }
        Call::Wait(wait) => return wait_for(host, origin, wait).await,
        Call::Stop(stop) => ask(SessionCall::Stop(stop)).await?.0,
        Call::Restart(restart) => {
            let (answer, guard) = ask(SessionCall::Restart(restart.process_id)).await?;
            guard.into_iter().for_each(crate::actors::port::StartGuard::confirm);
            answer
        }
        Call::Update(update) => ask(SessionCall::Update(update)).await?.0,
        Call::Clear(clear) => ask(SessionCall::Clear(clear.process_id)).await?.0,
        Call::Remove(remove) => ask(SessionCall::Remove(remove.process_id)).await?.0,
        Call::OpenSession(open) => return open_session(host, origin, open).await,
        Call::ListSessions(_) => host.link.sessions().await?,
        Call::ResetSession(reset) => in_session(host, origin, reset.session, SessionCall::Reset).await?,
        Call::DeleteSession(delete) => in_session(host, origin, delete.session, SessionCall::Delete).await?,
        Call::OpenAgent(open) => ask(SessionCall::OpenAgent(open)).await?.0,
        Call::CloseAgent(close) => ask(SessionCall::CloseAgent(close)).await?.0,
        Call::Transfer(transfer) => ask(SessionCall::Transfer(transfer)).await?.0,
        Call::HostStatus(_) => host.link.status().await?,
        Call::Shutdown(shutdown) => host.link.shutdown(shutdown).await?,
    };
    Ok(answer)
}

fn refuse_agents(origin: &Origin, call: &Call) -> Result<(), Error> {
    match &origin.caller {
        Caller::Agent(agent) if call.audience() == Audience::Operator => Err(Error::new(
            Code::Denied,
            format!("`{}` is the operator's: agent {agent} may not call it", call.action()),
        )
        .with("action", call.action())),
        _ => Ok(()),
    }
}

/// Starts, waits for the end, answers with the output. Until the answer is there, the guard of the start is held: a
/// caller that goes away stops the command.
async fn run(host: &Inner, origin: Origin, exec: Exec) -> Result<Answer, Error> {
    let spec = Arc::new(exec.spec());
    let (answer, guard) = host.link.ask(origin.clone(), SessionCall::Start(Mode::Foreground, spec)).await?;
    let Answer::Status(status) = answer else { return Err(unexpected(&answer)) };
    let call = SessionCall::Exec(status.process_id.clone(), exec.max_output_bytes);
    let (answer, _) = host.link.ask(origin, call).await?;
    guard.into_iter().for_each(crate::actors::port::StartGuard::confirm);
    Ok(answer)
}

async fn list_in_full(host: &Inner, origin: Origin, list: List) -> Result<Answer, Error> {
    let (answer, _) = host.link.ask(origin.clone(), SessionCall::List(list)).await?;
    let Answer::List(list) = answer else { return Err(unexpected(&answer)) };
    let rows = list.processes.unwrap_or_default();
    let asked = rows.iter().map(|row| {
        let call = SessionCall::Status(Handle::from(&row.process_id));
        host.link.ask(origin.clone(), call)
    });
    // One that was forgotten meanwhile is left out.
    let statuses = join_all(asked).await.into_iter().filter_map(|answer| match answer {
        Ok((Answer::Status(status), _)) => Some(*status),
        _ => None,
    });
    Ok(Answer::List(ListAnswer { processes: None, statuses: Some(statuses.collect()), ..list }))
}

async fn wait_for(host: &Inner, origin: Origin, mut wait: Wait) -> Result<Answer, Error> {
    let wait_ms = wait.clamp();
    let handles = wait.handles()?;
    let mut waits: FuturesUnordered<_> = handles
        .into_iter()
        .enumerate()
        .map(|(at, handle)| {
            let call = SessionCall::Wait(handle, wait.wait_ms);
            let asked = host.link.ask(origin.clone(), call);
            async move { (at, asked.await) }
        })
        .collect();
    let mut answers: Vec<(usize, WaitAnswer)> = Vec::with_capacity(waits.len());
    while let Some((at, answer)) = waits.next().await {
        let (Answer::Wait(answer), _) = answer? else { return Err(Error::internal("a wait was answered otherwise")) };
        let decided = answer.outcome == Outcome::Satisfied && wait.mode != Some(WaitMode::All);
        answers.push((at, *answer));
        if decided {
            break;
        }
    }
    Ok(Answer::Wait(Box::new(WaitAnswer { wait_ms, ..judge(answers, wait.mode) })))
}

/// One answer from those of several processes: for `any` the one that is satisfied, for `all` the one that is worst.
fn judge(mut answers: Vec<(usize, WaitAnswer)>, mode: Option<WaitMode>) -> WaitAnswer {
    let rank = |outcome: Outcome| match outcome {
        Outcome::Satisfied => 0,
        Outcome::ProcessEnded => 1,
        Outcome::Timeout => 2,
        Outcome::Unavailable => 3,
    };
    let all = mode == Some(WaitMode::All);
    let in_order = |answers: &mut Vec<(usize, WaitAnswer)>| answers.sort_by_key(|(at, _)| *at);
    in_order(&mut answers);
    let rows = if all { answers.iter().map(|(_, answer)| answer.process.clone()).collect() } else { Vec::new() };
    let decides = if all {
        answers.into_iter().max_by_key(|(_, answer)| rank(answer.outcome))
    } else {
        answers.into_iter().min_by_key(|(_, answer)| rank(answer.outcome))
    };
    let (_, answer) = decides.expect("a wait names at least one process");
    WaitAnswer { processes: rows, ..answer }
}

async fn open_session(host: &Inner, origin: Origin, open: OpenSession) -> Result<Answer, Error> {
    let mut settings = profile(&host.settings, open.profile.as_deref())?;
    if let Some(config) = &open.config {
        settings = config::narrow(&settings, config).map_err(|error| config_error(&error))?;
    }
    let directory = match (&open.directory, &settings.directory) {
        (Some(directory), _) => directory.into(),
        (None, Some(directory)) => directory.clone(),
        (None, None) => host.directory.clone(),
    };
    let name = open.session.unwrap_or(origin.session);
    host.link.open(name, Arc::new(settings), directory, open.agents.unwrap_or_default()).await
}

async fn in_session(
    host: &Inner,
    origin: Origin,
    session: Option<SessionName>,
    call: SessionCall,
) -> Result<Answer, Error> {
    let session = session.unwrap_or(origin.session);
    Ok(host.link.ask(Origin { session, ..origin }, call).await?.0)
}

/// The settings of a profile; absent = `default`.
pub(super) fn profile(settings: &HostSettings, name: Option<&str>) -> Result<SessionSettings, Error> {
    let name = name.unwrap_or("default");
    settings.profiles.get(name).cloned().ok_or_else(|| {
        let known: Vec<&str> = settings.profiles.keys().map(String::as_str).collect();
        Error::invalid("profile", name, format!("one of {}", known.join(", ")))
    })
}

fn config_error(error: &config::ConfigError) -> Error {
    let field = format!("config.{}", error.key);
    Error::new(Code::InvalidArgument, error.to_string())
        .with("field", field)
        .with("given", &error.given)
        .with("expected", &error.expected)
}

/// The error for an answer of the wrong kind: a bug here.
pub(super) fn unexpected(answer: &Answer) -> Error {
    Error::internal(format!("an answer of another kind came back: {answer:?}"))
}
