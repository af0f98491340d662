//! The broker: one small process between a host and its guardians. It makes spares, and it is the net beneath guardians
//! that die.
//!
//! The main thread adopts, kills and reaps, and holds no lock; the second one only forks guardians. So everything that
//! the kernel lists as the main thread's child is an orphan of a dead guardian, and "no child of this thread" proves that
//! all of them are gone.
//!
//! Invariant: nothing is left when it ends: with its host gone it stays until its last guardian has ended.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use libc::pid_t;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::RecvFlags;

use super::Fault;
use super::beat::{Alarm, Beat, Watcher};
use super::children::Children;
use super::ending::Killing;
use super::keeper::has_ended;
use super::spare::{self, Passed};
use super::sys::{self, Waited};
use crate::os::frame::{End, Message, VERSION};
use crate::os::packet::{self, Received};

/// The longest time without looking, while there is something that may end without an event.
const LOOK_AGAIN_MS: i64 = 100;
/// How many ends of orphans are remembered.
const ENDS_MAX: usize = 256;

/// What both threads know.
#[derive(Debug)]
struct Shared {
    socket: OwnedFd,
    passed: Passed,
    /// No more spares: nobody would take them.
    host_gone: AtomicBool,
}

#[derive(Debug)]
struct Broker {
    shared: Arc<Shared>,
    /// Neither where the host may be silent for ever.
    alarm: Option<Alarm>,
    watcher: Option<Watcher>,
    signals: OwnedFd,
    children: Children,
    /// How many spares, and the grace of their guardians.
    forker: Sender<(u32, u64)>,
    made: Receiver<pid_t>,
    guardians: HashSet<pid_t>,
    /// Guardians that died before their tree, whose orphans are not proven gone yet.
    fallen: Vec<pid_t>,
    killing: Killing,
    host_gone: bool,
    /// Of whom the host is still to be told.
    untold: Vec<pid_t>,
    /// How the newest orphans ended: a root among them is known to the host by its number.
    ends: VecDeque<(pid_t, End)>,
}

/// The broker's whole life.
pub(super) fn run(socket: OwnedFd) -> Result<(), Fault> {
    let host_pid = sys::parent();
    let host = sys::open_process(host_pid);
    let (page, silence_ms) = greet(&socket)?;
    let watched = (silence_ms > 0).then(|| Beat::new(page, silence_ms)).transpose().map_err(Fault::System)?;
    let (beat, alarm) = watched.unzip();
    if sys::parent() != host_pid {
        return Err(Fault::HostGone);
    }
    let _ = rustix::process::chdir(c"/");
    sys::name(c"procession-brok");
    sys::adopt_orphans();
    let signals = sys::only_children().map_err(Fault::System)?;
    let shared = Arc::new(Shared { socket, passed: Passed { host, beat }, host_gone: AtomicBool::new(false) });
    let (forker, asked) = channel();
    let (made_by, made) = channel();
    let theirs = Arc::clone(&shared);
    std::thread::Builder::new().spawn(move || fork(&theirs, &asked, &made_by)).map_err(Fault::System)?;
    let watcher = shared.passed.beat.as_ref().map(|beat| beat.watch(sys::now_ms()));
    let broker = Broker {
        shared,
        alarm,
        watcher,
        signals,
        children: Children::open_of_thread(),
        forker,
        made,
        guardians: HashSet::new(),
        fallen: Vec::new(),
        killing: Killing::default(),
        host_gone: false,
        untold: Vec::new(),
        ends: VecDeque::new(),
    };
    broker.serve();
    Ok(())
}

/// Gives the page in which the host counts, and how long it may be silent.
fn greet(socket: &OwnedFd) -> Result<(OwnedFd, u64), Fault> {
    let mut buffer = [0; 64];
    let (message, mut descriptors) =
        match packet::receive(socket, &mut buffer, RecvFlags::empty()).map_err(Fault::System)? {
            Received::Packet(length, descriptors) => (Message::decode(&buffer[..length]), descriptors),
            Received::End => return Err(Fault::HostGone),
        };
    let own = Message::Hello { version: VERSION, silence_ms: 0 };
    packet::send(socket, &own.encode(), &[]).map_err(Fault::System)?;
    match (message, descriptors.pop()) {
        (Ok(Message::Hello { version: VERSION, silence_ms }), Some(page)) => Ok((page, silence_ms)),
        _ => Err(Fault::Language),
    }
}

/// The second thread: makes as many spares as it is asked for.
fn fork(shared: &Shared, asked: &Receiver<(u32, u64)>, made: &Sender<pid_t>) {
    while let Ok((count, grace_ms)) = asked.recv() {
        for _ in 0..count {
            if shared.host_gone.load(Ordering::Relaxed) {
                break;
            }
            match spare::make(&shared.socket, &shared.passed, grace_ms) {
                Ok(guardian) => {
                    let _ = made.send(guardian);
                }
                Err(error) => {
                    let errno = error.raw_os_error().unwrap_or(libc::EIO);
                    let _ = packet::send(&shared.socket, &Message::NoSpare { errno }.encode(), &[]);
                }
            }
        }
    }
}

impl Broker {
    fn serve(mut self) {
        loop {
            sys::take_signals(&self.signals);
            let news = self.collect();
            self.tell();
            self.watch_host();
            if self.host_gone && sys::look_at_any() == Waited::NoChild {
                return;
            }
            self.wait(news);
            self.hear();
        }
    }

    /// Reaps guardians, and ends and reaps what dead ones left. Gives whether there is more to do at once.
    fn collect(&mut self) -> bool {
        while let Waited::Ended(pid, end) = sys::look_at_any() {
            self.guardians.extend(self.made.try_iter());
            sys::reap(pid);
            match self.guardians.remove(&pid) {
                true if end != End::Exited(0) => self.fallen.push(pid),
                true => {}
                false => self.remember(pid, end),
            }
        }
        match sys::look_at_own() {
            Waited::NoChild => {
                self.untold.append(&mut self.fallen);
                self.killing = Killing::default();
                false
            }
            _ => self.killing.round(&self.children, None),
        }
    }

    /// A host that does not serve is no host: its guardians hear the alarm, until it serves again.
    fn watch_host(&mut self) {
        if let (Some(beat), Some(alarm), Some(watcher)) = (&self.shared.passed.beat, &mut self.alarm, &mut self.watcher)
        {
            let silent = beat.look(watcher, sys::now_ms());
            alarm.set(silent, beat);
        }
    }

    fn remember(&mut self, pid: pid_t, end: End) {
        self.ends.push_front((pid, end));
        self.ends.truncate(ENDS_MAX);
    }

    fn tell(&mut self) {
        let (socket, ends) = (&self.shared.socket, &self.ends);
        let told = |guardian: &pid_t| {
            let ends = ends.iter().copied().collect();
            let sent = packet::send(socket, &Message::Orphans { guardian: *guardian, ends }.encode(), &[]);
            !sent.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
        };
        self.untold.retain(|guardian| !told(guardian));
    }

    fn wait(&self, news: bool) {
        let mut watched = vec![PollFd::new(&self.signals, PollFlags::IN)];
        if !self.host_gone {
            watched.push(PollFd::new(&self.shared.socket, PollFlags::IN));
            watched.extend(self.shared.passed.host.as_ref().map(|host| PollFd::new(host, PollFlags::IN)));
        }
        let again = news.then_some(0).or((!self.fallen.is_empty() || !self.untold.is_empty()).then_some(LOOK_AGAIN_MS));
        let beat = self.watcher.as_ref().filter(|_| !self.host_gone);
        let beat = beat.map(|watcher| watcher.next_ms().saturating_sub(sys::now_ms()) as i64);
        let again = [again, beat].into_iter().flatten().min();
        let limit = again.map(|ms| Timespec { tv_sec: ms / 1000, tv_nsec: ms % 1000 * 1_000_000 });
        // Interrupted or refused: the next turn looks again.
        let _ = rustix::event::poll(&mut watched, limit.as_ref());
    }

    fn hear(&mut self) {
        let mut buffer = [0; 64];
        while !self.host_gone {
            match packet::receive(&self.shared.socket, &mut buffer, RecvFlags::DONTWAIT) {
                Ok(Received::Packet(length, _)) => self.obey(Message::decode(&buffer[..length]).ok()),
                Ok(Received::End) => self.lose_host(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => self.lose_host(),
            }
        }
        if !self.host_gone && self.shared.passed.host.as_ref().is_some_and(|host| has_ended(host.as_fd())) {
            self.lose_host();
        }
    }

    fn obey(&mut self, message: Option<Message>) {
        match message {
            Some(Message::Spares { count, grace_ms }) => {
                // Before they are born: an alarm that still rang would end them.
                if let (Some(beat), Some(alarm), Some(watcher)) =
                    (&self.shared.passed.beat, &mut self.alarm, &mut self.watcher)
                {
                    alarm.set(beat.notice(watcher), beat);
                }
                // A forker that is gone shows in the spares that do not come.
                let _ = self.forker.send((count, grace_ms));
            }
            Some(Message::Silent { guardian }) => {
                self.guardians.extend(self.made.try_iter());
                if let Some(pinned) = self.guardians.get(&guardian).and_then(|guardian| sys::pin(*guardian)) {
                    pinned.signal(libc::SIGCONT);
                    pinned.signal(libc::SIGKILL);
                }
            }
            Some(_) => {}
            None => self.lose_host(),
        }
    }

    /// Guardians see the same and end their trees; orphans go on being ended here. The second thread stays: were it to
    /// end, its children, the guardians, would become this thread's, and be taken for orphans.
    fn lose_host(&mut self) {
        self.host_gone = true;
        self.shared.host_gone.store(true, Ordering::Relaxed);
    }
}
