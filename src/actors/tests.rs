//! What only a failing actor can show.

use std::ffi::OsString;
use std::sync::Arc;

use ractor::{Actor, ActorRef};
use tokio::sync::mpsc;

use super::clock::Clock;
use super::host::{HostMsg, Surroundings};
use super::port::Port;
use super::session::{Arguments, Opening, SessionActor, SessionCall, SessionMsg};
use crate::logic::host::HostCore;
use crate::logic::process::Summary;
use crate::os;
use crate::protocol::call::{Answer, Caller, Origin};
use crate::protocol::error::Error;
use crate::protocol::id::{Handle, ProcessId, SessionName};
use crate::protocol::settings::{
    EnvInherit, EnvSettings, ExecSettings, HostLimits, OutputSettings, SessionLimits, SessionSettings, StopSettings,
};
use crate::protocol::spec::{Mode, Spec};
use crate::protocol::state::{Cleanup, ContainmentKind, Reason, Signal, State};
use crate::protocol::verb::list::List;

/// A host that gives places and keeps what it is told.
struct Places(mpsc::UnboundedSender<HostMsg>);

impl Actor for Places {
    type Msg = HostMsg;
    type State = HostCore;
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<HostMsg>, (): ()) -> Result<HostCore, ractor::ActorProcessingErr> {
        Ok(HostCore::new(HostLimits { live_per_host: 8, finished_per_host: 8, sessions: 1, timeout_max_ms: None }))
    }

    async fn handle(
        &self,
        _: ActorRef<HostMsg>,
        message: HostMsg,
        core: &mut HostCore,
    ) -> Result<(), ractor::ActorProcessingErr> {
        if let HostMsg::TakePlace(tenant, session) = message {
            let id = tenant.process_id.clone();
            session.send_message(SessionMsg::Place(id, core.take(tenant), core.held()))?;
        } else {
            let _ = self.0.send(message);
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<HostMsg>,
        _: ractor::SupervisionEvent,
        _: &mut HostCore,
    ) -> Result<(), ractor::ActorProcessingErr> {
        Ok(())
    }
}

fn settings() -> SessionSettings {
    SessionSettings {
        directory: None,
        limits: SessionLimits {
            live_per_session: 8,
            finished_per_session: 8,
            parked_calls_per_session: 8,
            timeout_max_ms: None,
        },
        output: OutputSettings {
            retain_bytes: 4096,
            page_bytes: 4096,
            wait_for_reader: false,
            drain_idle_ms: 250,
            drain_max_ms: 5000,
        },
        exec: ExecSettings { timeout_ms: 0, max_output_bytes: 4096 },
        start_timeout_ms: 0,
        stop: StopSettings { grace_ms: 5000, confirm_ms: 4000, signal: Signal::Term },
        shell: vec!["sh".to_owned(), "-c".to_owned()],
        env: EnvSettings { inherit: EnvInherit::All, pass: Vec::new(), deny: Vec::new() },
        cwd_outside: false,
        containment_require: ContainmentKind::Group,
    }
}

struct Bench {
    session: ActorRef<SessionMsg>,
    told: mpsc::UnboundedReceiver<HostMsg>,
}

impl Bench {
    async fn new() -> Self {
        let (sender, told) = mpsc::unbounded_channel();
        let (host, _) = Actor::spawn(None, Places(sender), ()).await.expect("a host");
        let settings = Arc::new(settings());
        let environment = os::bytes_of(vec![(OsString::from("PATH"), OsString::from("/usr/bin:/bin"))]);
        let surroundings = Surroundings {
            clock: Clock::start(),
            launcher: os::launcher(&os::Wanted::default()),
            environment,
            timeout_max_ms: None,
        };
        let with = Arguments {
            name: SessionName::new("s").expect("a name"),
            opening: Opening { settings, directory: "/tmp".into(), agents: std::collections::BTreeMap::new() },
            surroundings: Arc::new(surroundings),
            host: host.clone(),
        };
        let (session, _) = Actor::spawn_linked(None, SessionActor, with, host.get_cell()).await.expect("a session");
        Bench { session, told }
    }

    /// Sends a call now; the future only waits for the answer.
    fn ask(&self, call: SessionCall) -> impl Future<Output = Result<Answer, Error>> + use<> {
        let (port, pending) = Port::new();
        let session = SessionName::new("s").expect("a name");
        let origin = Origin { session, caller: Caller::Operator, request: None };
        self.session.send_message(SessionMsg::Call(origin, call, port)).expect("the session lives");
        async move {
            let reply = pending.await.map_err(|_| Error::gone())?;
            reply.guard.into_iter().for_each(super::port::StartGuard::confirm);
            reply.answer
        }
    }

    async fn start(&self, command: &str) -> ProcessId {
        let spec = Arc::new(Spec::command(command));
        match self.ask(SessionCall::Start(Mode::Background, spec)).await {
            Ok(Answer::Status(status)) => status.process_id,
            other => panic!("{other:?}"),
        }
    }

    async fn status(&self, id: &ProcessId) -> crate::protocol::status::Status {
        match self.ask(SessionCall::Status(Handle::from(id))).await {
            Ok(Answer::Status(status)) => *status,
            other => panic!("{other:?}"),
        }
    }

    /// Waits until the place of a process is given back.
    async fn freed(&mut self) {
        while !matches!(self.told.recv().await.expect("the host lives"), HostMsg::FreePlace(_)) {}
    }
}

fn carrying(mark: &str) -> usize {
    let commands = std::fs::read_dir("/proc").expect("Linux").flatten();
    let read = commands.filter_map(|entry| std::fs::read_to_string(entry.path().join("cmdline")).ok());
    read.filter(|line| line.replace('\0', " ").contains(mark)).count()
}

#[tokio::test]
async fn a_process_actor_that_panics_costs_its_own_process_and_nothing_else() {
    let mut bench = Bench::new().await;
    let (lost, kept) = (bench.start("exec sleep 60017.5").await, bench.start("exec sleep 60017.5").await);
    let waiting = bench.ask(SessionCall::Wait(Handle::from(&lost), None));
    bench.session.send_message(SessionMsg::Panic(lost.clone())).expect("the session lives");
    assert!(waiting.await.is_err(), "whoever waited is told");
    bench.freed().await;

    let status = bench.status(&lost).await;
    assert_eq!((status.state, status.reason), (State::Lost, Some(Reason::SupervisorFailed)));
    assert_eq!(status.cleanup, Some(Cleanup::Confirmed), "its tree was killed, and that was heard of");
    assert_eq!(status.exit.and_then(|exit| exit.signal).as_deref(), Some("SIGKILL"));
    assert_eq!(bench.status(&kept).await.state, State::Running);
    assert_eq!(carrying("sleep 60017.5"), 1, "only the other one is left");

    let Ok(Answer::List(list)) = bench.ask(SessionCall::List(List::default())).await else { panic!("a list") };
    assert_eq!((list.counts.live, list.counts.finished), (1, 1));
    bench.session.send_message(SessionMsg::End { now: true }).expect("the session lives");
    bench.freed().await;
    assert_eq!(carrying("sleep 60017.5"), 0);
}

#[tokio::test]
async fn a_message_that_fails_is_reported_before_the_next_call_is_answered() {
    let mut bench = Bench::new().await;
    let lost = bench.start("exec sleep 60017.25").await;
    bench.session.send_message(SessionMsg::Panic(lost.clone())).expect("the session lives");
    bench.freed().await;
    let stopped = bench
        .ask(SessionCall::Stop(crate::protocol::verb::stop::Stop { process_id: Handle::from(&lost), grace_ms: None }));
    assert!(matches!(stopped.await, Ok(Answer::Status(status)) if status.state == State::Lost));
}

#[tokio::test]
async fn a_record_that_is_proven_late_counts_as_finished_for_the_host() {
    let mut bench = Bench::new().await;
    let id = bench.start("exec sleep 60017.75").await;
    let uncertain = Summary {
        state: State::Stopped,
        settled: true,
        exit: None,
        cleanup: Some(Cleanup::Uncertain),
        ended: Some(crate::protocol::time::Moment::ZERO),
    };
    let proven = Summary { cleanup: Some(Cleanup::Confirmed), ..uncertain.clone() };
    for summary in [uncertain, proven] {
        bench.session.send_message(SessionMsg::Told(id.clone(), summary)).expect("the session lives");
    }
    let mut told = Vec::new();
    while !matches!(told.last(), Some(HostMsg::FreePlace(_))) {
        told.push(bench.told.recv().await.expect("the host lives"));
    }
    let finished = told.iter().filter(|message| matches!(message, HostMsg::Finished(_, finished) if *finished == id));
    assert_eq!(finished.count(), 1, "{told:?}");

    // The process itself is none the wiser, and lives.
    let stop = crate::protocol::verb::stop::Stop { process_id: Handle::from(&id), grace_ms: None };
    let stopped = bench.ask(SessionCall::Stop(stop)).await;
    assert!(matches!(stopped, Ok(Answer::Status(status)) if status.cleanup == Some(Cleanup::Confirmed)));
    assert_eq!(carrying("sleep 60017.75"), 0);
}
