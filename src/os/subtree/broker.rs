//! The broker as its host sees it: started, asked for spares, listened to, and reaped.
//!
//! Invariant: a spare is used once, and only of a broker that lives: those of a dead one are dropped. Lacks: any idea of
//! what is launched.

use std::collections::{HashMap, VecDeque};
use std::ffi::{CString, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak, mpsc};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType};
use rustix::process::{Pid, WaitId, WaitIdOptions};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::Plan;
use crate::os::descriptors;
use crate::os::frame::{End, Message, VERSION};
use crate::os::guardian::MARK;
use crate::os::packet::{self, PACKET_BYTES_MAX, Received};
use crate::os::spawn;

/// How long a broker may take to greet, and a guardian to say that it is there.
const ANSWER_MS: i64 = 5000;
/// How long the drop of a broker waits for its end, which is at once when no process of it is left.
const END_WAIT: Duration = Duration::from_millis(500);
/// The quiet after a start before the pool is filled again, so that doing so does not slow the start itself.
const REFILL_PAUSE: Duration = Duration::from_millis(2);
/// Most spares kept.
const SPARES_MAX: usize = 64;
/// Without a start that found no spare for so long, the pool goes back to its usual size.
const CALM: Duration = Duration::from_secs(30);
/// Most names of dead guardians kept for those who have not asked yet.
const FALLEN_MAX: usize = 1024;

/// A guardian and its waiting root.
#[derive(Debug)]
pub(super) struct Spare {
    /// The root's end of the launch.
    pub(super) launch: OwnedFd,
    /// The guardian's lifeline.
    pub(super) control: OwnedFd,
    pub(super) guardian: i32,
    pub(super) root: i32,
    /// `/proc/ROOT/stat`, where there is one.
    pub(super) stat: Option<File>,
}

/// Why there is no spare.
#[derive(Clone, Debug)]
pub(super) enum NoSpare {
    /// The broker is gone.
    BrokerGone,
    /// It could not make one.
    System(i32),
}

/// Why a broker serves no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gone {
    /// It ended.
    Ended,
    /// Nobody listens to it any more: the runtime has ended, or nobody needs it.
    Unheard,
}

/// A running broker.
#[derive(Debug)]
pub(super) struct Broker {
    socket: Arc<OwnedFd>,
    runtime: Handle,
    usual: usize,
    grace_ms: u64,
    pool: Mutex<Pool>,
    ended: Mutex<mpsc::Receiver<()>>,
}

#[derive(Debug, Default)]
struct Pool {
    spares: VecDeque<(OwnedFd, OwnedFd)>,
    /// Asked for and not come yet.
    asked: usize,
    target: usize,
    starved: Option<Instant>,
    refilling: bool,
    /// The last spare could not be received: this program has no free descriptor. Until one can, none are kept ready,
    /// because they would take what the launches themselves need.
    exhausted: bool,
    waiting: VecDeque<oneshot::Sender<Result<(OwnedFd, OwnedFd), NoSpare>>>,
    gone: Option<Gone>,
    /// What is known of dead guardians whose trees were ended, and who waits for that.
    fallen: HashMap<i32, Vec<(i32, End)>>,
    watching: HashMap<i32, oneshot::Sender<Vec<(i32, End)>>>,
}

impl Broker {
    /// Starts a broker, which watches whether the host counts in `page`. Blocks until it has greeted.
    ///
    /// Errors: the system's, `InvalidData` where it speaks another version.
    pub(super) fn start(plan: &Plan, page: &OwnedFd, runtime: &Handle) -> io::Result<Arc<Broker>> {
        let (ours, theirs) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let ours = descriptors::above_standard(ours)?;
        let program = CString::new(plan.image.as_os_str().as_bytes())?;
        let mark = CString::new(MARK)?;
        let pid = spawn::spawn_helper(&program, &mark, &loader_environment(), &theirs)?;
        drop(theirs);
        let (tell, ended) = mpsc::channel();
        std::thread::Builder::new().name("procession-reaper".to_owned()).spawn(move || {
            reap(pid);
            let _ = tell.send(());
        })?;
        let socket = Arc::new(ours);
        let target = plan.spares.clamp(1, SPARES_MAX);
        let broker = Arc::new(Broker {
            socket,
            runtime: runtime.clone(),
            usual: target,
            grace_ms: plan.grace_ms,
            pool: Mutex::new(Pool { target, ..Pool::default() }),
            ended: Mutex::new(ended),
        });
        greet(&broker.socket, page, plan.silence_ms)?;
        let _inside = runtime.enter();
        let watched = descriptors::watched(Arc::clone(&broker.socket))?;
        runtime.spawn(listen(watched, Listening(Arc::downgrade(&broker))));
        broker.ask_for(target);
        Ok(broker)
    }

    fn pool(&self) -> MutexGuard<'_, Pool> {
        // No code that holds the lock can leave the pool half changed.
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it serves no more, and why.
    pub(super) fn gone(&self) -> Option<Gone> {
        self.pool().gone
    }

    /// Takes a spare. Blocks until there is one.
    pub(super) fn take(self: &Arc<Self>) -> Result<Spare, NoSpare> {
        loop {
            let (launch, control) = self.take_pair()?;
            match open_spare(launch, control) {
                Ok(spare) => return Ok(spare),
                Err(error) => {
                    if let Some(errno @ (libc::EMFILE | libc::ENFILE)) = error.raw_os_error() {
                        self.pool().exhausted = true;
                        return Err(NoSpare::System(errno));
                    }
                    // One whose guardian died while it waited is dropped; the root has died with it.
                }
            }
        }
    }

    fn take_pair(self: &Arc<Self>) -> Result<(OwnedFd, OwnedFd), NoSpare> {
        let mut pool = self.pool();
        if pool.gone.is_some() {
            return Err(NoSpare::BrokerGone);
        }
        if pool.starved.is_some_and(|at| at.elapsed() > CALM) {
            pool.starved = None;
            pool.target = self.usual;
        }
        if let Some(pair) = pool.spares.pop_front() {
            if !pool.refilling && pool.spares.len() + pool.asked < pool.target {
                pool.refilling = true;
                let broker = Arc::downgrade(self);
                self.runtime.spawn(async move {
                    tokio::time::sleep(REFILL_PAUSE).await;
                    if let Some(broker) = broker.upgrade() {
                        broker.refill();
                    }
                });
            }
            return Ok(pair);
        }
        if !pool.exhausted {
            pool.starved = Some(Instant::now());
            pool.target = (2 * pool.target).min(SPARES_MAX);
        }
        let (sender, spare) = oneshot::channel();
        pool.waiting.push_back(sender);
        let missing = pool.missing();
        drop(pool);
        self.ask_for(missing);
        spare.blocking_recv().unwrap_or(Err(NoSpare::BrokerGone))
    }

    fn refill(&self) {
        let mut pool = self.pool();
        pool.refilling = false;
        let missing = pool.missing();
        drop(pool);
        self.ask_for(missing);
    }

    fn ask_for(&self, count: usize) {
        if count == 0 {
            return;
        }
        self.pool().asked += count;
        let count = count as u32;
        if packet::send(&self.socket, &Message::Spares { count, grace_ms: self.grace_ms }.encode(), &[]).is_err() {
            // It does not read: nothing will come. Its end, if it ends, tells those who wait.
            self.pool().asked -= count as usize;
        }
    }

    /// Asks the broker to end a guardian that does not answer.
    pub(super) fn end_silent(&self, guardian: i32) {
        let _ = packet::send(&self.socket, &Message::Silent { guardian }.encode(), &[]);
    }

    /// Waits until the broker has ended what a dead guardian left; gives how orphans ended. `None` = the broker is gone.
    pub(super) async fn orphans_ended(&self, guardian: i32) -> Option<Vec<(i32, End)>> {
        let told = {
            let mut pool = self.pool();
            if let Some(ends) = pool.fallen.remove(&guardian) {
                return Some(ends);
            }
            if pool.gone.is_some() {
                return None;
            }
            let (sender, told) = oneshot::channel();
            pool.watching.insert(guardian, sender);
            told
        };
        told.await.ok()
    }

    fn hear(&self, message: Option<Message>, mut descriptors: Vec<OwnedFd>) {
        let mut pool = self.pool();
        match message {
            Some(Message::Spare) if descriptors.len() == 2 => {
                pool.asked = pool.asked.saturating_sub(1);
                pool.exhausted = false;
                let Some((control, launch)) = descriptors.pop().zip(descriptors.pop()) else { return };
                let mut pair = (launch, control);
                while let Some(waiting) = pool.waiting.pop_front() {
                    match waiting.send(Ok(pair)) {
                        Err(Ok(unwanted)) => pair = unwanted,
                        _ => return,
                    }
                }
                pool.spares.push_back(pair);
            }
            Some(Message::NoSpare { errno }) => pool.fail_one(errno),
            Some(Message::Orphans { guardian, ends }) => match pool.watching.remove(&guardian) {
                Some(watching) => drop(watching.send(ends)),
                None if pool.fallen.len() < FALLEN_MAX => drop(pool.fallen.insert(guardian, ends)),
                None => {}
            },
            // Descriptors that could not be received, or a message of no use.
            _ => {
                pool.exhausted = true;
                pool.starved = None;
                pool.target = self.usual;
                pool.fail_one(libc::EMFILE);
            }
        }
    }

    fn lose(&self, gone: Gone) {
        let mut pool = self.pool();
        pool.gone.get_or_insert(gone);
        pool.spares.clear();
        pool.watching.clear();
        for waiting in std::mem::take(&mut pool.waiting) {
            let _ = waiting.send(Err(NoSpare::BrokerGone));
        }
    }
}

impl Pool {
    /// How many more to ask for.
    fn missing(&self) -> usize {
        let kept = if self.exhausted { 0 } else { self.target };
        (kept + self.waiting.len()).saturating_sub(self.spares.len() + self.asked)
    }

    fn fail_one(&mut self, errno: i32) {
        self.asked = self.asked.saturating_sub(1);
        if let Some(waiting) = self.waiting.pop_front() {
            let _ = waiting.send(Err(NoSpare::System(errno)));
        }
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
        self.lose(Gone::Unheard);
        // Spares on their way to us would live as long as the socket that holds their ends.
        let mut buffer = vec![0; PACKET_BYTES_MAX];
        while let Ok(Received::Packet(..)) = packet::receive(&self.socket, &mut buffer, RecvFlags::DONTWAIT) {}
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = ended.recv_timeout(END_WAIT);
    }
}

/// Tells everybody who waits for the broker that it is gone, also where the task that listens is dropped by a runtime that
/// goes away.
struct Listening(Weak<Broker>);

impl Drop for Listening {
    fn drop(&mut self) {
        if let Some(broker) = self.0.upgrade() {
            broker.lose(Gone::Unheard);
        }
    }
}

/// Hands on what the broker says, for as long as somebody has use for it.
async fn listen(socket: tokio::io::unix::AsyncFd<Arc<OwnedFd>>, listening: Listening) {
    let mut buffer = vec![0; PACKET_BYTES_MAX];
    while let Ok(mut ready) = socket.readable().await {
        let received = packet::receive(socket.get_ref(), &mut buffer, RecvFlags::DONTWAIT);
        let Some(broker) = listening.0.upgrade() else { return };
        match received {
            Ok(Received::Packet(length, descriptors)) => {
                broker.hear(Message::decode(&buffer[..length]).ok(), descriptors);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready.clear_ready(),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => broker.hear(None, Vec::new()),
            Ok(Received::End) | Err(_) => return broker.lose(Gone::Ended),
        }
    }
}

fn greet(socket: &OwnedFd, page: &OwnedFd, silence_ms: u64) -> io::Result<()> {
    packet::send(socket, &Message::Hello { version: VERSION, silence_ms }.encode(), &[page.as_fd()])?;
    match receive_in_time(socket)? {
        Some(Message::Hello { version: VERSION, .. }) => Ok(()),
        Some(_) => Err(io::Error::new(io::ErrorKind::InvalidData, "it speaks another version of procession")),
        None => Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            "it ended without a greeting: is it built with procession, and does it call procession::init() first?",
        )),
    }
}

/// The numbers of guardian and root, which the guardian says first.
fn open_spare(launch: OwnedFd, control: OwnedFd) -> io::Result<Spare> {
    match receive_in_time(&control)? {
        Some(Message::Ready { guardian, root }) if !is_closed(&control) => {
            let stat = match File::open(format!("/proc/{root}/stat")) {
                Ok(stat) => Some(stat),
                Err(error) if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) => return Err(error),
                Err(_) => None,
            };
            Ok(Spare { launch, control, guardian, root, stat })
        }
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Whether the other side is gone: what it said before is still there to be read.
fn is_closed(socket: &OwnedFd) -> bool {
    let mut watched = [PollFd::new(socket, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let _ = rustix::event::poll(&mut watched, Some(&now));
    watched[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
}

/// The next message; `None` = the other side is gone, or said something else.
fn receive_in_time(socket: &OwnedFd) -> io::Result<Option<Message>> {
    let mut buffer = [0; 256];
    loop {
        match packet::receive(socket, &mut buffer, RecvFlags::DONTWAIT) {
            Ok(Received::Packet(length, _)) => return Ok(Message::decode(&buffer[..length]).ok()),
            Ok(Received::End) => return Ok(None),
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
            Err(_) => {}
        }
        let limit = Timespec { tv_sec: ANSWER_MS / 1000, tv_nsec: ANSWER_MS % 1000 * 1_000_000 };
        let socket = socket.as_fd();
        match rustix::event::poll(&mut [PollFd::new(&socket, PollFlags::IN)], Some(&limit)) {
            Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// What a dynamic loader needs of our environment, and nothing else of it.
fn loader_environment() -> Vec<CString> {
    let entry = |value: OsString| CString::new([b"LD_LIBRARY_PATH=", &value.into_vec()[..]].concat()).ok();
    std::env::var_os("LD_LIBRARY_PATH").and_then(entry).into_iter().collect()
}

fn reap(pid: Pid) {
    loop {
        match rustix::process::waitid(WaitId::Pid(pid), WaitIdOptions::EXITED) {
            Ok(Some(_)) => return,
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            // The embedder's own wait for any child has taken it.
            Err(_) => return,
        }
    }
}
