//! The root of a tree: our own child, from its launch until it is reaped.
//!
//! Invariant: once adopted a child is waited for by exactly one owner, by descriptor or number, never by "any
//! child"; whatever happens to the owner, the child is killed and reaped. Where its group can only be named by
//! number, the dead root stays unreaped until [`Root::reap`], so that the number stays ours.
//!
//! Lacks: any handler for SIGCHLD. Where the embedding program ignores SIGCHLD no exit can be seen, so
//! [`exits_are_visible`] is asked before each launch.

use std::future::pending;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, WaitId, WaitIdOptions, WaitIdStatus};
use tokio::io::unix::AsyncFd;
use tokio::sync::oneshot;

use crate::protocol::state::{Exit, Signal};

use super::descriptors::watched;
use super::group::{Group, signal_name};
use super::means::Means;

/// How often a root is looked at again whose descriptor says "ended" while its exit is kept back: by a tracer
/// that has not waited for it yet. No event tells when that ends.
const WITHHELD_PAUSE_MS: u64 = 100;
/// Stack of a thread that only waits.
const WAIT_STACK_BYTES: usize = 64 * 1024;

/// An adopted child.
#[derive(Debug)]
pub(super) struct Root {
    pid: Pid,
    descriptor: Option<Arc<OwnedFd>>,
    group: Arc<Group>,
    end: End,
    reaped: bool,
}

/// How its end is noticed.
#[derive(Debug)]
enum End {
    Descriptor(AsyncFd<Arc<OwnedFd>>),
    Thread(oneshot::Receiver<Exit>),
    Known(Exit),
}

/// What a look at a child gave.
enum Look {
    Alive,
    Ended(Exit),
    /// It is no child of ours any more: somebody else in this program has reaped it.
    Stolen,
}

/// What is said of an exit that nobody saw.
pub(super) const UNSEEN: Exit = Exit { code: None, signal: None, core: None };

impl Root {
    /// Takes over a child just started, which leads its group. Never fails and never leaves it unwatched: where
    /// the better means fail now (no descriptor free), a thread waits; where even that fails, the child is
    /// killed and its end awaited here.
    pub(super) fn adopt(pid: Pid, means: Means) -> Self {
        let descriptor = if means.pidfd { open_descriptor(pid).map(Arc::new) } else { None };
        let group = Arc::new(Group::new(pid, descriptor.clone().filter(|_| means.pidfd_group)));
        let mut root = Root { pid, descriptor, group, end: End::Known(UNSEEN), reaped: false };
        let watched = root.descriptor.clone().and_then(|d| watched(d).ok());
        root.end = match watched {
            Some(watched) => End::Descriptor(watched),
            None => root.end_by_thread(),
        };
        root
    }

    fn end_by_thread(&self) -> End {
        let (tell, told) = oneshot::channel();
        let pid = self.pid;
        let thread = std::thread::Builder::new().name("procession-wait".to_owned()).stack_size(WAIT_STACK_BYTES);
        match thread.spawn(move || tell.send(wait_unreaping(pid))) {
            Ok(_) => End::Thread(told),
            Err(_) => {
                self.group.send(Signal::Kill);
                End::Known(wait_unreaping(pid))
            }
        }
    }

    /// The group it leads.
    pub(super) fn group(&self) -> &Arc<Group> {
        &self.group
    }

    /// Waits for its end. Reaps it, unless its group needs its number. Cancel safe.
    pub(super) async fn ended(&mut self) -> Exit {
        match &mut self.end {
            End::Known(exit) => exit.clone(),
            End::Thread(told) => {
                let exit = told.await.unwrap_or(UNSEEN);
                self.end = End::Known(exit.clone());
                if self.group.outlives_leader() {
                    self.reap();
                }
                exit
            }
            End::Descriptor(_) => self.ended_by_descriptor().await,
        }
    }

    async fn ended_by_descriptor(&mut self) -> Exit {
        loop {
            let End::Descriptor(watched) = &self.end else { return UNSEEN };
            if watched.readable().await.is_err() {
                // The runtime is going away and will drop this task.
                return pending().await;
            }
            let reaps = self.group.outlives_leader();
            let exit = match self.look(reaps) {
                Look::Alive => {
                    tokio::time::sleep(Duration::from_millis(WITHHELD_PAUSE_MS)).await;
                    continue;
                }
                Look::Ended(exit) => {
                    self.reaped = reaps;
                    exit
                }
                Look::Stolen => {
                    self.group.unpin();
                    self.reaped = true;
                    UNSEEN
                }
            };
            self.end = End::Known(exit.clone());
            return exit;
        }
    }

    fn look(&self, reaps: bool) -> Look {
        let keep = if reaps { WaitIdOptions::empty() } else { WaitIdOptions::NOWAIT };
        look(self.wait_id(), WaitIdOptions::EXITED | WaitIdOptions::NOHANG | keep)
    }

    #[cfg(target_os = "linux")]
    fn wait_id(&self) -> WaitId<'_> {
        use std::os::fd::AsFd;
        match &self.descriptor {
            Some(descriptor) => WaitId::PidFd(descriptor.as_fd()),
            None => WaitId::Pid(self.pid),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn wait_id(&self) -> WaitId<'_> {
        WaitId::Pid(self.pid)
    }

    /// Whether its number means nothing any more.
    pub(super) fn is_reaped(&self) -> bool {
        self.reaped
    }

    /// Reaps the dead root, once. From then on a group known by number only is not signalled any more; whoever
    /// signals it must be kept out during the call.
    pub(super) fn reap(&mut self) {
        if self.reaped {
            return;
        }
        self.group.unpin();
        self.reaped = !matches!(self.look(true), Look::Alive);
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        if self.reaped {
            return;
        }
        self.group.send(Signal::Kill);
        self.reap();
        if self.reaped {
            return;
        }
        // It takes a moment to die, or it cannot yet. A thread waits, because the runtime may be gone. Without a
        // thread the zombie stays until the embedding program ends.
        let pid = self.pid;
        let thread = std::thread::Builder::new().name("procession-reap".to_owned()).stack_size(WAIT_STACK_BYTES);
        let _ = thread.spawn(move || look(WaitId::Pid(pid), WaitIdOptions::EXITED));
    }
}

/// Waits, blocking, for the end of a child and leaves it unreaped.
fn wait_unreaping(pid: Pid) -> Exit {
    loop {
        match look(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
            Look::Ended(exit) => return exit,
            Look::Stolen => return UNSEEN,
            Look::Alive => {}
        }
    }
}

fn look(id: WaitId<'_>, options: WaitIdOptions) -> Look {
    // `WaitId` is no `Copy` type: an interrupted wait is repeated with the same one.
    let again = |id: &WaitId<'_>| match id {
        WaitId::Pid(pid) => rustix::process::waitid(WaitId::Pid(*pid), options),
        #[cfg(target_os = "linux")]
        WaitId::PidFd(descriptor) => rustix::process::waitid(WaitId::PidFd(*descriptor), options),
        _ => Err(Errno::INVAL),
    };
    loop {
        match again(&id) {
            Ok(Some(status)) => return Look::Ended(exit_of(&status)),
            Ok(None) => return Look::Alive,
            Err(Errno::INTR) => {}
            Err(_) => return Look::Stolen,
        }
    }
}

fn exit_of(status: &WaitIdStatus) -> Exit {
    if let Some(code) = status.exit_status() {
        return Exit::code(code);
    }
    match status.terminating_signal() {
        Some(number) => Exit::signal(signal_name(number), status.dumped()),
        None => UNSEEN,
    }
}

#[cfg(target_os = "linux")]
fn open_descriptor(pid: Pid) -> Option<OwnedFd> {
    rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok()
}

#[cfg(not(target_os = "linux"))]
fn open_descriptor(_pid: Pid) -> Option<OwnedFd> {
    None
}

/// Whether a child's exit can be seen: not where SIGCHLD is ignored or `SA_NOCLDWAIT` set, because the kernel
/// then reaps children itself.
#[expect(clippy::disallowed_methods, reason = "only reads the embedder's setting")]
pub(super) fn exits_are_visible() -> io::Result<bool> {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: a null new action changes nothing; the old one is written on success.
    if unsafe { libc::sigaction(libc::SIGCHLD, ptr::null(), action.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: written just now.
    let action = unsafe { action.assume_init() };
    Ok(action.sa_sigaction != libc::SIG_IGN && action.sa_flags & libc::SA_NOCLDWAIT == 0)
}
