//! The guardian of one tree: its parent and subreaper, from before there is a program until nothing of it is left.
//!
//! It reports what the kernel says and does what the host asks. Only without the host, or past the deadline, does it
//! act by itself: the stop signal, the grace, then KILL until the kernel says that there is no child.
//!
//! Invariant: a dead root is kept unreaped while any other member lives, because its number is its group's; after it is
//! reaped no group is signalled. "Nothing is left" is said only on ECHILD. No send ever waits: what could not be told is
//! kept as what is true now.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;

use libc::pid_t;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::RecvFlags;

use super::beat::{Watcher, Word};
use super::children::{self, Children, Stat};
use super::ending::{self, Killing};
use super::spare::Passed;
use super::sys::{self, Waited};
use crate::os::frame::{End, Left, Message, NAMED_MAX};
use crate::os::packet::{self, Received};

/// How long after the deadline a host is given to act on it itself.
const DEADLINE_SLACK_MS: u64 = 1000;
/// The longest time without looking whether an unkillable member has ended: its end is told by no event where it is not
/// our own child.
const LOOK_AGAIN_MS: u64 = 500;

/// What it is to do without the host.
#[derive(Clone, Copy, Debug)]
struct Policy {
    signal: i32,
    grace_ms: u64,
    /// 0 = none.
    deadline_ms: u64,
}

/// One guardian.
#[derive(Debug)]
pub(super) struct Keeper {
    /// The host's lifeline; `None` once the host is gone.
    control: Option<OwnedFd>,
    passed: Passed,
    /// The guardian's own watch over the host, once its broker is gone.
    watcher: Option<Watcher>,
    /// The host does not serve.
    silent: bool,
    signals: OwnedFd,
    children: Children,
    root: pid_t,
    root_stat: Option<std::fs::File>,
    root_end: Option<(End, bool)>,
    root_reaped: bool,
    policy: Policy,
    kill_at: Option<u64>,
    killing: Option<Killing>,
    /// Not told yet.
    root_untold: bool,
    /// Inspections not answered yet.
    asked: u32,
    /// The host did not take the last message.
    blocked: bool,
}

impl Keeper {
    /// Takes over `root`, a child of the calling process. `grace_ms` holds until the host tells its own.
    pub(super) fn new(control: OwnedFd, passed: Passed, signals: OwnedFd, root: pid_t, grace_ms: u64) -> Self {
        Keeper {
            control: Some(control),
            passed,
            watcher: None,
            silent: false,
            signals,
            children: Children::open(),
            root,
            root_stat: std::fs::File::open(format!("/proc/{root}/stat")).ok(),
            root_end: None,
            root_reaped: false,
            policy: Policy { signal: libc::SIGTERM, grace_ms, deadline_ms: 0 },
            kill_at: None,
            killing: None,
            root_untold: false,
            asked: 0,
            blocked: false,
        }
    }

    /// Keeps the tree to its end.
    pub(super) fn run(mut self) {
        self.tell(&Message::Ready { guardian: sys::own(), root: self.root });
        loop {
            self.blocked = false;
            sys::take_signals(&self.signals);
            self.collect();
            if self.finish_if_gone() {
                return;
            }
            if self.root_untold {
                self.tell_root_end();
            }
            self.act_alone(sys::now_ms());
            let mut news = false;
            if let Some(killing) = &mut self.killing {
                news = killing.round(&self.children, (!self.root_reaped).then_some(self.root));
            }
            if self.asked > 0 {
                self.tell_survivors();
            }
            self.listen(news);
        }
    }

    /// Learns of the root's end, and reaps everybody else who has ended.
    fn collect(&mut self) {
        if self.root_end.is_none()
            && let Waited::Ended(_, end) = sys::look(self.root)
        {
            self.root_end = Some((end, self.root_executed()));
            self.root_untold = true;
        }
        if self.killing.is_none() {
            for pid in self.children.list() {
                if pid != self.root {
                    sys::reap(pid);
                }
            }
        }
    }

    /// The kernel's own mark, readable as long as the root is not reaped.
    fn root_executed(&self) -> bool {
        let mut text = [0; 1024];
        let read = self.root_stat.as_ref().and_then(|file| file.read_at(&mut text, 0).ok());
        let stat = read.and_then(|read| Stat::parse(&text[..read]));
        stat.is_none_or(|stat| !stat.is_unexecuted())
    }

    /// Ends this guardian's work where nothing is left.
    fn finish_if_gone(&mut self) -> bool {
        let Some((end, executed)) = self.root_end else { return false };
        if !self.root_reaped {
            if self.children.list().iter().any(|pid| *pid != self.root) {
                return false;
            }
            // The last one: from here on no group is signalled.
            sys::reap(self.root);
            self.root_reaped = true;
        }
        if sys::look_at_any() != Waited::NoChild {
            return false;
        }
        let last = match self.root_untold {
            true => Message::RootEnded { end, executed, gone: true, left: 0 },
            false => Message::Gone,
        };
        // The only message that is waited for: nothing else is left to do, and the host's end ends the wait.
        while !self.tell(&last) {
            self.wait(None, PollFlags::OUT);
            self.hear();
        }
        true
    }

    fn tell_root_end(&mut self) {
        let Some((end, executed)) = self.root_end else { return };
        let members = self.children.walk();
        let alive = members.iter().filter(|member| member.pid != self.root && children::is_alive(member)).count();
        let left = u32::try_from(alive).unwrap_or(u32::MAX);
        self.root_untold = !self.tell(&Message::RootEnded { end, executed, gone: false, left });
    }

    fn tell_survivors(&mut self) {
        let members = self.children.walk();
        let left: Vec<Left> = members.iter().filter_map(children::describe).collect();
        let count = u32::try_from(left.len()).unwrap_or(u32::MAX);
        let named: Vec<Left> = left.into_iter().take(NAMED_MAX).collect();
        if count == 0 {
            // Only zombies, which are being collected: `Gone` answers, or the next look.
            return;
        }
        while self.asked > 0 && self.tell(&Message::Survivors { named: named.clone(), count }) {
            self.asked -= 1;
        }
    }

    /// Without the host, or past the deadline.
    fn act_alone(&mut self, now: u64) {
        let late = self.policy.deadline_ms > 0 && now >= self.policy.deadline_ms.saturating_add(DEADLINE_SLACK_MS);
        self.watch_host(now);
        if (self.control.is_none() || late || self.silent) && self.kill_at.is_none() && self.killing.is_none() {
            // Before any of it has an effect, so that the host calls it by its name.
            self.tell(&Message::Alone);
            self.kill_at = Some(now.saturating_add(self.policy.grace_ms));
            self.signal(self.policy.signal);
        }
        if self.kill_at.is_some_and(|at| now >= at) {
            self.killing.get_or_insert_default();
        }
    }

    /// Hears the broker's alarm, or looks by itself where there is no broker. Once silent is enough: the tree is ended.
    fn watch_host(&mut self, now: u64) {
        let Some(beat) = self.passed.beat.as_ref().filter(|_| !self.silent && self.control.is_some()) else { return };
        match &mut self.watcher {
            Some(watcher) => self.silent = beat.look(watcher, now),
            None => match beat.word() {
                Word::Quiet => {}
                Word::Rings => self.silent = true,
                Word::Nobody => self.watcher = Some(beat.watch_alone(now)),
            },
        }
    }

    fn signal(&self, signal: i32) {
        ending::signal(&self.children, (!self.root_reaped).then_some(self.root), signal);
    }

    /// Waits for something to happen, and takes the host's messages.
    fn listen(&mut self, at_once: bool) {
        let flags = if self.blocked { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let wait_ms = if at_once { Some(0) } else { self.next_ms(sys::now_ms()) };
        self.wait(wait_ms, flags);
        self.hear();
    }

    /// Milliseconds until it has to act without being woken.
    fn next_ms(&self, now: u64) -> Option<u64> {
        let kill = self.kill_at.filter(|_| self.killing.is_none());
        let deadline = Some(self.policy.deadline_ms).filter(|at| *at > 0 && self.kill_at.is_none());
        let deadline = deadline.filter(|_| self.killing.is_none()).map(|at| at.saturating_add(DEADLINE_SLACK_MS));
        let again = self.killing.as_ref().map(|_| now + LOOK_AGAIN_MS);
        let look = self.watcher.as_ref().filter(|_| !self.silent && self.control.is_some()).map(Watcher::next_ms);
        [kill, deadline, again, look].into_iter().flatten().min().map(|at| at.saturating_sub(now))
    }

    fn wait(&self, wait_ms: Option<u64>, control: PollFlags) {
        let mut watched = vec![PollFd::new(&self.signals, PollFlags::IN)];
        if let Some(socket) = &self.control {
            watched.push(PollFd::new(socket, control));
            // A copy of the host's end may live on in a child of the host: its own end counts too.
            watched.extend(self.passed.host.as_ref().map(|host| PollFd::new(host, PollFlags::IN)));
            let alarm = self.passed.beat.as_ref().filter(|_| !self.silent && self.watcher.is_none());
            watched.extend(alarm.map(|beat| PollFd::new(beat.alarm(), PollFlags::IN)));
        }
        let limit =
            wait_ms.map(|ms| Timespec { tv_sec: (ms / 1000) as i64, tv_nsec: ((ms % 1000) * 1_000_000) as i64 });
        // Interrupted or refused: whoever calls looks again.
        let _ = rustix::event::poll(&mut watched, limit.as_ref());
    }

    /// Takes every message that is there.
    fn hear(&mut self) {
        let mut buffer = [0; 256];
        while let Some(control) = &self.control {
            match packet::receive(control, &mut buffer, RecvFlags::DONTWAIT) {
                Ok(Received::Packet(length, _)) => match Message::decode(&buffer[..length]) {
                    Ok(message) => self.obey(&message),
                    Err(_) => self.lose_host(),
                },
                Ok(Received::End) => self.lose_host(),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
                Err(_) => self.lose_host(),
            }
        }
        if self.control.is_some() && self.passed.host.as_ref().is_some_and(|host| has_ended(host.as_fd())) {
            self.lose_host();
        }
    }

    fn lose_host(&mut self) {
        self.control = None;
    }

    fn obey(&mut self, message: &Message) {
        match *message {
            Message::Policy { signal, grace_ms, deadline_ms } => {
                self.policy = Policy { signal: checked(signal), grace_ms, deadline_ms };
            }
            Message::Signal { signal } => self.signal(checked(signal)),
            Message::Kill => {
                self.killing.get_or_insert_default();
            }
            Message::Inspect => self.asked = self.asked.saturating_add(1),
            _ => {}
        }
    }

    /// Gives whether the host has it, or is gone.
    fn tell(&mut self, message: &Message) -> bool {
        let Some(control) = &self.control else { return true };
        match packet::send(control, &message.encode(), &[]) {
            Ok(()) => true,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                self.blocked = true;
                false
            }
            Err(_) => {
                self.lose_host();
                true
            }
        }
    }
}

/// A signal that may be sent; anything else is TERM.
fn checked(signal: i32) -> i32 {
    if (1..=64).contains(&signal) { signal } else { libc::SIGTERM }
}

/// Whether the process of a descriptor has ended.
pub(super) fn has_ended(process: BorrowedFd<'_>) -> bool {
    let mut watched = [PollFd::new(&process, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::event::poll(&mut watched, Some(&now)).is_ok_and(|ready| ready > 0)
}
