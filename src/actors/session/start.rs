//! Starting: admission, a place from the host, an actor for the process; and what takes another's place.

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
use crate::protocol::state::{Cleanup, Reason};

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

    fn ask(&self, origin: Origin, mode: Mode, spec: Arc<Spec>) -> Result<Ask, Error> {
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

    fn admit(&mut self, myself: &ActorRef<SessionMsg>, ask: Ask, port: Port) {
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

    fn take_place(&mut self, myself: &ActorRef<SessionMsg>, id: &ProcessId, port: Port) {
        let port = self.guarded(myself, id, port);
        self.placing.insert(id.clone(), Placing { port, asked: Vec::new(), ending: None });
        self.tell_host(HostMsg::TakePlace(self.tenant(id), myself.clone()));
    }

    /// A port whose answer must be taken: what was started for nobody is stopped.
    fn guarded(&mut self, myself: &ActorRef<SessionMsg>, id: &ProcessId, port: Port) -> Port {
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

    /// Whoever waits for the end of a process that was not launched need not.
    fn never_began(&mut self, myself: &ActorRef<SessionMsg>, id: &ProcessId, error: &Error) {
        for succession in self.successions.remove(id).unwrap_or_default() {
            match succession {
                Succession::Restart(_, ports) => ports.into_iter().for_each(|port| port.send(Err(error.clone()))),
                Succession::Replace(ask, port) => self.admit(myself, ask, port),
            }
        }
        self.no_longer_awaited(myself, id);
    }

    /// Spawns the process's actor and lets it launch.
    async fn launch(&mut self, myself: &ActorRef<SessionMsg>, id: &ProcessId, ports: Vec<Port>) {
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
    fn take_back(&mut self, myself: &ActorRef<SessionMsg>, id: &ProcessId, told: (Vec<Port>, &Error)) {
        let (ports, error) = told;
        self.core.refused(id);
        self.free_place(id);
        self.askers.remove(id);
        for port in ports {
            port.send(Err(error.clone()));
        }
        self.never_began(myself, id, error);
    }

    /// A process is settled: whatever was to take its place does, if it is proven to be gone.
    pub(super) async fn succeed(&mut self, myself: &ActorRef<SessionMsg>, old: &ProcessId) {
        for succession in self.successions.remove(old).unwrap_or_default() {
            let confirmed =
                self.core.record(old).is_some_and(|record| record.summary.cleanup == Some(Cleanup::Confirmed));
            match succession {
                Succession::Restart(_, ports) if !confirmed => {
                    for port in ports {
                        port.send(Err(uncertain(old)));
                    }
                }
                Succession::Replace(_, port) if !confirmed => port.send(Err(uncertain(old))),
                Succession::Restart(ask, ports) if self.places.contains_key(old) => {
                    self.take_over(myself, old, &ask, ports).await;
                }
                // Another one was faster: it needs a place of its own.
                Succession::Restart(ask, ports) => self.start_again(myself, old, &ask, ports),
                Succession::Replace(ask, port) if self.places.contains_key(old) => {
                    self.take_over(myself, old, &ask, vec![port]).await;
                }
                // Another one was faster: it is asked anew, and may have to replace that one.
                Succession::Replace(ask, port) => self.admit(myself, ask, port),
            }
        }
    }

    async fn take_over(&mut self, myself: &ActorRef<SessionMsg>, old: &ProcessId, ask: &Ask, ports: Vec<Port>) {
        if let Err(error) = self.core.succeed(self.clock.now(), ask, old) {
            return ports.into_iter().for_each(|port| port.send(Err(error.clone())));
        }
        let Some(place) = self.places.remove(old) else {
            let error = Error::internal("the place of the process to be replaced is gone");
            return self.take_back(myself, &ask.process_id, (ports, &error));
        };
        self.places.insert(ask.process_id.clone(), place);
        self.tell_host(HostMsg::PassPlace(place, self.tenant(&ask.process_id)));
        let ports = ports.into_iter().map(|port| self.guarded(myself, &ask.process_id, port)).collect();
        self.launch(myself, &ask.process_id, ports).await;
    }

    /// Ends a process and starts the same specification in its place.
    pub(super) fn restart(&mut self, myself: &ActorRef<SessionMsg>, origin: Origin, id: &ProcessId, port: Port) {
        let Some(record) = self.core.record(id).cloned() else { return self.refuse(port, Error::gone()) };
        let spec = Arc::new(Spec { start_id: None, ..(*record.spec).clone() });
        let mut ask = match self.ask(origin, record.mode, spec) {
            Ok(ask) => ask,
            Err(error) => return self.refuse(port, error),
        };
        // Whatever label it has now, not the one it was started with.
        Arc::make_mut(&mut ask.spec).label.clone_from(&record.label);
        if !record.summary.settled {
            let waiting = self.successions.entry(id.clone()).or_default();
            let same = waiting.iter_mut().find_map(|succession| match succession {
                Succession::Restart(_, ports) => Some(ports),
                Succession::Replace(..) => None,
            });
            match same {
                Some(ports) => ports.push(port),
                None => waiting.push(Succession::Restart(ask, vec![port])),
            }
            self.end_process(id, Reason::StopRequested);
        } else if record.summary.holds_place() {
            self.refuse(port, uncertain(id));
        } else {
            self.start_again(myself, id, &ask, vec![port]);
        }
    }

    /// Starts what a finished process was, in another place.
    fn start_again(&mut self, myself: &ActorRef<SessionMsg>, old: &ProcessId, ask: &Ask, ports: Vec<Port>) {
        if let Err(error) = self.core.again(self.clock.now(), ask, old) {
            return ports.into_iter().for_each(|port| port.send(Err(error.clone())));
        }
        let mut ports = ports.into_iter();
        if let Some(first) = ports.next() {
            self.take_place(myself, &ask.process_id, first);
        }
        for port in ports {
            let port = self.guarded(myself, &ask.process_id, port);
            self.hand_on(&ask.process_id, ProcessCall::Begun, port);
        }
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

fn uncertain(id: &ProcessId) -> Error {
    Error::new(
        Code::CleanupUncertain,
        format!("{id} was stopped but is not proven to be gone: nothing is started in its place"),
    )
    .with("process_id", id)
}

fn random_id() -> Result<ProcessId, Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| Error::internal(format!("no random bytes for an id: {error}")))?;
    Ok(ProcessId::from_bits(u128::from_le_bytes(bytes)))
}
