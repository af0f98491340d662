//! Starting: admission, a place from the host, an actor for the process.

use std::ffi::CString;
use std::path::PathBuf;
use std::sync::Arc;

use ractor::{Actor, ActorRef};

use super::{Placing, SessionMsg, SessionState, Succession};
use crate::actors::host::HostMsg;
use crate::actors::port::{Port, StartGuard};
use crate::actors::process::{self, ProcessActor, ProcessMsg};
use crate::logic::environment;
use crate::logic::host::{PlaceKey, Refusal, Tenant};
use crate::logic::process::lifecycle::Policy;
use crate::logic::process::{Admission, ProcessCall, ProcessCore};
use crate::logic::session::admit::shown;
use crate::logic::session::{Admitted, Ask, Record};
use crate::os;
use crate::os::launch::LaunchRequest;
use crate::protocol::call::Origin;
use crate::protocol::error::{Code, Error};
use crate::protocol::id::ProcessId;
use crate::protocol::spec::{Mode, Spec};
use crate::protocol::state::Reason;

/// Capacity asked for an output pipe: many small writes are then read together.
const PIPE_BYTES: usize = 1024 * 1024;

impl SessionState {
    pub(super) fn start(&mut self, myself: &ActorRef<SessionMsg>, origin: Origin, mode: Mode, with: (Arc<Spec>, Port)) {
        let (spec, port) = with;
        let ask = match self.ask(origin, mode, spec) {
            Ok(ask) => ask,
            Err(error) => return self.refuse(port, error),
        };
        self.admit(myself, ask, port);
    }

    pub(super) fn ask(&self, origin: Origin, mode: Mode, spec: Arc<Spec>) -> Result<Ask, Error> {
        if !os::SUPPORTED {
            return Err(Error::new(Code::UnsupportedPlatform, "processes are managed on Linux and macOS only"));
        }
        environment::check(&self.core.settings().env, &spec)?;
        let needed = self.core.settings().containment_require;
        let has = self.around.launcher.containment();
        if has.kind < needed {
            let why = has.why.clone().unwrap_or_default();
            return Err(Error::new(
                Code::ContainmentUnavailable,
                format!("`containment.require` asks for more than there is here: {why}"),
            )
            .with("required", needed)
            .with("available", has));
        }
        Ok(Ask { origin, process_id: random_id()?, mode, spec, at: self.clock.time_of_day() })
    }

    pub(super) fn admit(&mut self, myself: &ActorRef<SessionMsg>, ask: Ask, port: Port) {
        match self.core.admit(self.clock.now(), &ask) {
            Err(error) => self.refuse(port, error),
            Ok(Admitted::New) => self.take_place(myself, &ask.process_id, port),
            Ok(Admitted::Existing(id)) => {
                let port = self.guarded(myself, &id, port);
                self.hand_on(&id, ProcessCall::Begun, port);
            }
            Ok(Admitted::Replace(old)) => {
                self.successions.entry(old.clone()).or_default().push(Succession::Replace(ask, port));
                self.end_process(&old, Reason::StopRequested);
            }
        }
    }

    pub(super) fn take_place(&mut self, myself: &ActorRef<SessionMsg>, id: &ProcessId, port: Port) {
        let port = self.guarded(myself, id, port);
        self.placing.insert(id.clone(), Placing { port, asked: Vec::new(), ending: None });
        self.tell_host(HostMsg::TakePlace(self.tenant(id), myself.clone()));
    }

    /// A port whose answer must be taken: what was started for nobody is stopped.
    pub(super) fn guarded(&mut self, myself: &ActorRef<SessionMsg>, id: &ProcessId, port: Port) -> Port {
        *self.askers.entry(id.clone()).or_default() += 1;
        port.guarded(StartGuard::new(myself.clone(), id.clone()))
    }

    pub(super) fn tenant(&self, id: &ProcessId) -> Tenant {
        let record = self.core.record(id).expect("a tenant is made of a record that was just looked up or made");
        Tenant {
            process_id: id.clone(),
            session: self.core.name().clone(),
            agent: record.agent.clone(),
            label: record.label.clone(),
            admitted: record.admitted,
            uncertain: record.summary.settled,
        }
    }

    /// The host's word on a place.
    pub(super) async fn placed(
        &mut self,
        myself: &ActorRef<SessionMsg>,
        id: ProcessId,
        place: Result<PlaceKey, Refusal>,
        held: u64,
    ) {
        let Some(placing) = self.placing.remove(&id) else {
            // Nobody waits for it any more.
            if let Ok(place) = place {
                self.tell_host(HostMsg::FreePlace(place));
            }
            return;
        };
        match place {
            Ok(place) => {
                self.places.insert(id.clone(), place);
                self.launch(myself, &id, vec![placing.port]).await;
                for (call, port, permit) in placing.asked {
                    match self.processes.get(&id) {
                        Some(actor) => drop(actor.send_message(ProcessMsg::Call(call, port, permit))),
                        None => self.refuse(port, Error::gone()),
                    }
                }
                if let Some(reason) = placing.ending {
                    self.end_process(&id, reason);
                }
            }
            Err(refusal) => {
                let agent = self.core.record(&id).map(|record| record.agent.clone());
                self.core.refused(&id);
                self.askers.remove(&id);
                let error = match (refusal, agent) {
                    (Refusal::Full { limit }, Some(agent)) => {
                        let limit = ("limits.live_per_host", limit);
                        self.core.limit_reached(self.clock.now(), limit, held, &agent)
                    }
                    _ => Error::shutting_down(),
                };
                placing.refuse(&error);
                self.never_began(myself, &id, &error);
            }
        }
    }

    /// Spawns the process's actor and lets it launch.
    pub(super) async fn launch(&mut self, myself: &ActorRef<SessionMsg>, id: &ProcessId, ports: Vec<Port>) {
        let Some(record) = self.core.record(id).cloned() else { return };
        let request = match self.request(&record) {
            Ok(request) => request,
            Err(error) => return self.take_back(myself, id, (ports, &error)),
        };
        let with = process::Arguments {
            id: id.clone(),
            core: ProcessCore::new(self.admission(&record), Arc::clone(&record.gauge)),
            request,
            launcher: Arc::clone(&self.around.launcher),
            session: myself.clone(),
            unread_max: self.unread_max(),
            clock: self.clock,
        };
        let spawned = Actor::spawn_linked(None, ProcessActor, with, myself.get_cell()).await;
        let Ok((actor, _)) = spawned else {
            let error = Error::internal("no actor could be made for the process");
            return self.take_back(myself, id, (ports, &error));
        };
        self.by_actor.insert(actor.get_id(), id.clone());
        self.processes.insert(id.clone(), actor.clone());
        let mut ports = ports.into_iter();
        // If it has died meanwhile, its end is reported, and the ports say so.
        let _ = actor.send_message(ProcessMsg::Begin(ports.next()));
        for port in ports {
            let _ = actor.send_message(ProcessMsg::Call(ProcessCall::Begun, port, None));
        }
    }

    /// Nothing was launched: the record and its place go.
    pub(super) fn take_back(&mut self, myself: &ActorRef<SessionMsg>, id: &ProcessId, told: (Vec<Port>, &Error)) {
        let (ports, error) = told;
        self.core.refused(id);
        self.free_place(id);
        self.askers.remove(id);
        for port in ports {
            port.send(Err(error.clone()));
        }
        self.never_began(myself, id, error);
    }

    fn admission(&self, record: &Record) -> Admission {
        let settings = self.core.settings();
        let asked = record.spec.timeout_ms;
        let default =
            if record.mode == Mode::Foreground { settings.exec.timeout_ms } else { settings.start_timeout_ms };
        Admission {
            process_id: record.process_id.clone(),
            session: self.core.name().clone(),
            agent: record.agent.clone(),
            request: record.request.clone(),
            mode: record.mode,
            label: record.label.clone(),
            name: record.name.clone(),
            command: shown(&record.spec),
            cwd: self.cwd(&record.spec).display().to_string(),
            containment: self.around.launcher.containment(),
            admitted: record.admitted,
            admitted_at: record.admitted_at,
            timeout_ms: self.capped(asked.unwrap_or(default)),
            policy: Policy {
                signal: settings.stop.signal,
                grace_ms: record.spec.grace_ms.unwrap_or(settings.stop.grace_ms),
                confirm_ms: settings.stop.confirm_ms,
                drain_idle_ms: settings.output.drain_idle_ms,
                drain_max_ms: settings.output.drain_max_ms,
            },
            retain_bytes: settings.output.retain_bytes,
            replaces: record.replaces.clone(),
        }
    }

    /// A timeout within the caps of host and session; 0 = none, where no cap says otherwise.
    pub(super) fn capped(&self, timeout_ms: u64) -> Option<u64> {
        let asked = (timeout_ms > 0).then_some(timeout_ms);
        let caps = [self.around.timeout_max_ms, self.core.settings().limits.timeout_max_ms, asked];
        caps.into_iter().flatten().min()
    }

    /// With `output.wait_for_reader`: what is unread and what the readers have under way fit the retained output.
    fn unread_max(&self) -> Option<u64> {
        let output = self.core.settings().output;
        output.wait_for_reader.then_some(output.retain_bytes / 4)
    }

    fn cwd(&self, spec: &Spec) -> PathBuf {
        match &spec.cwd {
            Some(cwd) => self.core.directory().join(cwd),
            None => self.core.directory().clone(),
        }
    }

    fn request(&self, record: &Record) -> Result<LaunchRequest, Error> {
        let (spec, settings) = (&record.spec, self.core.settings());
        let argv: Vec<String> = match (&spec.command, &spec.argv) {
            (Some(command), _) => settings.shell.iter().chain([command]).cloned().collect(),
            (None, argv) => argv.clone().unwrap_or_default(),
        };
        let nul = |_| Error::internal("a NUL byte got past the checks of a start");
        let argv = argv.into_iter().map(CString::new).collect::<Result<_, _>>().map_err(nul)?;
        let env = environment::build(&self.around.environment, &settings.env, spec, record.mode)
            .into_iter()
            .map(|(name, value)| CString::new([name, b"=".to_vec(), value].concat()))
            .collect::<Result<_, _>>()
            .map_err(nul)?;
        Ok(LaunchRequest {
            argv,
            env,
            directory: self.core.directory().clone(),
            cwd: spec.cwd.as_ref().map_or_else(|| PathBuf::from("."), PathBuf::from),
            confined: !settings.cwd_outside,
            signal: settings.stop.signal,
            grace_ms: spec.grace_ms.unwrap_or(settings.stop.grace_ms),
            pipe_bytes: PIPE_BYTES,
        })
    }
}

impl Placing {
    /// It does not start.
    pub(super) fn refuse(self, error: &Error) {
        self.port.send(Err(error.clone()));
        for (_, port, _) in self.asked {
            port.send(Err(error.clone()));
        }
    }
}

fn random_id() -> Result<ProcessId, Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| Error::internal(format!("no random bytes for an id: {error}")))?;
    Ok(ProcessId::from_bits(u128::from_le_bytes(bytes)))
}
