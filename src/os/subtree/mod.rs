//! The launcher that owns whole trees, on Linux: each process has a guardian beside this program, which outlives it.
//!
//! Launching is one message to a root that was forked ahead; who forked it, and who ends its tree, is told in `guardian`.
//!
//! Invariant: it is a guest. The embedding program forks nothing, becomes no subreaper and has one child, the broker.

mod broker;
mod line;
mod watch;

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::fs::{MemfdFlags, SealFlags};
use tokio::runtime::Handle;

use super::frame::{self, Message};
use super::hints;
use super::launch::{FactSink, LaunchError, LaunchRequest, Launcher, Tree};
use super::packet::{self, PACKET_BYTES_MAX};
use super::pipe::Pipe;
use super::spawn;
use super::{descriptors, guardian};
use crate::protocol::state::{Containment, ContainmentKind, Signal};
use broker::{Broker, Gone, NoSpare, Spare};
use line::{Line, Policy};
use watch::{Launching, Origin, Watch};

/// The name of the program that serves as the broker where no other is named.
const BESIDE: &str = "procession-guardian";

/// The program to run as the broker: the one named, else this program's own image where it is ready to be one, else the
/// one that stands beside it.
///
/// # Errors
/// Why there is none, with the path that was tried.
pub fn find_image(named: Option<&Path>) -> Result<PathBuf, String> {
    if let Some(named) = named {
        return Ok(named.to_owned());
    }
    let Err(why) = guardian::is_ready() else { return Ok("/proc/self/exe".into()) };
    let own = std::env::current_exe().map_err(|error| format!("this program's own path is not known: {error}"))?;
    let beside = own.with_file_name(BESIDE);
    if beside.is_file() {
        return Ok(beside);
    }
    Err(format!("{why}, and there is no {}", beside.display()))
}

/// Launches processes under guardians.
#[derive(Debug)]
pub struct Subtree {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    runtime: Handle,
    plan: Plan,
    umask: u32,
    broker: Mutex<Arc<Broker>>,
    /// Where it is counted that this program serves, and how far.
    page: OwnedFd,
    beats: AtomicU64,
}

/// How a host wants its broker.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The program.
    pub image: PathBuf,
    /// Spares that are usually kept.
    pub spares: usize,
    /// What a process gets between the stop signal and KILL where the host died before it could say, in milliseconds.
    pub grace_ms: u64,
    /// How long nobody may call [`Launcher::beat`] before every tree is ended, in milliseconds; 0 = for ever.
    pub silence_ms: u64,
}

impl Subtree {
    /// Starts the broker, on `runtime`, which needs I/O and time enabled. Blocks until it has greeted.
    ///
    /// # Errors
    /// The system's, and `InvalidData` or `UnexpectedEof` where the image is no broker of this version.
    pub fn start(runtime: Handle, plan: Plan) -> io::Result<Self> {
        let page = descriptors::above_standard(rustix::fs::memfd_create(c"procession-beat", MemfdFlags::CLOEXEC)?)?;
        let broker = Mutex::new(Broker::start(&plan, &page, &runtime)?);
        let inner = Inner { runtime, plan, umask: own_umask(), broker, page, beats: AtomicU64::new(0) };
        Ok(Subtree { inner: Arc::new(inner) })
    }
}

impl Inner {
    /// The broker, a new one where the last has died.
    fn broker(&self) -> io::Result<Arc<Broker>> {
        let mut broker = self.broker.lock().unwrap_or_else(PoisonError::into_inner);
        if broker.gone() == Some(Gone::Ended) {
            *broker = Broker::start(&self.plan, &self.page, &self.runtime)?;
        }
        Ok(Arc::clone(&broker))
    }
}

impl Launcher for Subtree {
    fn containment(&self) -> Containment {
        Containment { kind: ContainmentKind::Subtree, why: None }
    }

    fn beat(&self) {
        let count = self.inner.beats.fetch_add(1, Ordering::Relaxed) + 1;
        // A write of eight bytes into memory that is there; what is not written is a beat that is missed.
        let _ = rustix::io::pwrite(&self.inner.page, &count.to_le_bytes(), 0);
    }

    fn launch(&self, request: LaunchRequest, facts: FactSink) -> Box<dyn Tree> {
        // Whoever asks for this serves; a broker that has taken us for silent is to know before it makes spares.
        self.beat();
        let signal = super::group::number_of(request.signal);
        let policy = Policy { signal, grace_ms: request.grace_ms, deadline_ms: 0 };
        let line = Arc::new(Line::new(facts, policy));
        let launch = Launch { line: Arc::clone(&line), request: Some(request), inner: Arc::clone(&self.inner) };
        // Looking up directory and program may hang with a file system: not on a worker of the runtime.
        // A runtime that can make no thread panics; the launch is dropped by that and tells its end.
        let begin = || self.inner.runtime.spawn_blocking(move || launch.run());
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(begin));
        Box::new(Owned { line })
    }
}

/// A launch on its way.
struct Launch {
    line: Arc<Line>,
    request: Option<LaunchRequest>,
    inner: Arc<Inner>,
}

impl Launch {
    fn run(mut self) {
        if let Err(error) = self.launch() {
            self.line.fail(error);
        }
    }

    fn launch(&mut self) -> Result<(), LaunchError> {
        let Some(request) = self.request.take() else { return Ok(()) };
        if self.line.is_over() {
            return Ok(());
        }
        let (prepared, outputs) = spawn::prepare(&request)?;
        let watched = |end| Pipe::new(end).map_err(|error| spawn::pipe_error(&error, None));
        let (stdout, stderr) = (watched(outputs.stdout)?, watched(outputs.stderr)?);
        let broker = self.inner.broker().map_err(|error| broker_error(&error.to_string(), error.raw_os_error()))?;
        let spare = broker.take().map_err(|why| match why {
            NoSpare::BrokerGone => broker_error("it died", None),
            NoSpare::System(errno @ (libc::EMFILE | libc::ENFILE)) => LaunchError {
                operation: "make_pipe",
                errno,
                path: None,
                hint: hints::out_of_descriptors(rustix::io::Errno::from_raw_os_error(errno)),
            },
            NoSpare::System(errno) => broker_error("it could not make a guardian", Some(errno)),
        })?;
        let Spare { launch, control, guardian, root, stat } = spare;
        let packet = self.packet(&request, &prepared, stat.is_none());
        let control = Arc::new(control);
        let socket = descriptors::watched(launch).map_err(|error| spawn::pipe_error(&error, None))?;
        let watched = descriptors::watched(Arc::clone(&control)).map_err(|error| spawn::pipe_error(&error, None))?;
        let standard =
            [prepared.directory.as_fd(), prepared.stdin.as_fd(), prepared.stdout.as_fd(), prepared.stderr.as_fd()];
        let Some(sent) = self.line.begin(&control, || send(socket.get_ref(), &packet, &standard)) else {
            return Ok(());
        };
        // The root never read it, so nothing was started.
        sent.map_err(|error| broker_error("its spare died", error.raw_os_error()))?;
        let origin = Origin { directory: prepared.directory, program: prepared.program, request };
        // The child has its own: ours would keep the pipes from ending.
        drop((prepared.stdin, prepared.stdout, prepared.stderr));
        let watch = Watch { line: Arc::clone(&self.line), broker, control: watched, guardian, root };
        self.inner.runtime.spawn(watch.run(Launching { socket, stat, stdout, stderr, origin }));
        Ok(())
    }

    fn packet(&self, request: &LaunchRequest, prepared: &spawn::Prepared, tell: bool) -> Vec<u8> {
        let strings = |list: &[std::ffi::CString]| list.iter().map(|text| text.to_bytes().to_vec()).collect();
        let launch = frame::Launch {
            program: prepared.program.to_bytes().to_vec(),
            argv: strings(&request.argv),
            env: strings(&request.env),
            umask: self.inner.umask,
            tell,
        };
        Message::Launch(launch).encode()
    }
}

impl Drop for Launch {
    /// One that was sent is past giving up.
    fn drop(&mut self) {
        self.line.give_up("The launch never began: the runtime has ended, or no thread could be made for it.");
    }
}

/// Sends a launch; a large one in a sealed file.
fn send(socket: &OwnedFd, packet: &[u8], descriptors: &[BorrowedFd<'_>; 4]) -> io::Result<()> {
    if packet.len() <= PACKET_BYTES_MAX {
        return packet::send(socket, packet, descriptors);
    }
    let file = rustix::fs::memfd_create(c"procession-launch", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let mut written = 0;
    while written < packet.len() {
        written += rustix::io::pwrite(&file, &packet[written..], written as u64)?;
    }
    let seals = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&file, seals)?;
    let [directory, stdin, stdout, stderr] = *descriptors;
    packet::send(socket, &Message::Sealed.encode(), &[directory, stdin, stdout, stderr, file.as_fd()])
}

fn broker_error(what: &str, errno: Option<i32>) -> LaunchError {
    LaunchError {
        operation: "make_guardian",
        errno: errno.unwrap_or(0),
        path: None,
        hint: format!(
            "The broker, which makes guardians for processes, failed: {what}. Nothing was started; try again."
        ),
    }
}

/// The mask of new files that this program has, without changing it.
fn own_umask() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    mask.and_then(|mask| u32::from_str_radix(mask.trim(), 8).ok()).unwrap_or(0o022)
}

/// The handle on a tree.
struct Owned {
    line: Arc<Line>,
}

impl fmt::Debug for Owned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Owned").finish_non_exhaustive()
    }
}

impl Tree for Owned {
    fn abort(&self) {
        self.line.kill();
    }

    fn signal(&self, signal: Signal) {
        match super::group::number_of(signal) {
            libc::SIGKILL => self.line.kill(),
            signal => {
                self.line.say(&Message::Signal { signal });
            }
        }
    }

    fn kill(&self) {
        self.line.kill();
    }

    fn inspect(&self) {
        self.line.inspect();
    }

    fn limit(&self, left: Option<Duration>) {
        let at =
            |left: Duration| guardian::now_ms().saturating_add(u64::try_from(left.as_millis()).unwrap_or(u64::MAX));
        self.line.limit(left.map_or(0, at));
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        self.line.release();
    }
}
