//! Signals to a process group, and whether the kernel still knows it.
//!
//! Two ways to name a group. Through the process descriptor of its leader (Linux 6.9): the descriptor stands for
//! the kernel's own object, so it is right for ever, also after the leader was reaped; signal 0 answers ESRCH
//! exactly when no member is left, zombies counted. By number: right only while the dead leader is unreaped and
//! keeps the number ours; the owner of the root says when that ends.
//!
//! Invariant: no signal goes to a number that is not pinned, nor to 0, 1 or a negative one.

use std::io;
use std::os::fd::OwnedFd;
#[cfg(target_os = "linux")]
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;
use rustix::process::Pid;

use crate::protocol::state::Signal;

/// One process group.
#[derive(Debug)]
pub(super) struct Group {
    leader: Pid,
    /// The leader's descriptor, where groups can be signalled through it.
    descriptor: Option<Arc<OwnedFd>>,
    /// Whether the number is ours: the leader lives or is unreaped.
    pinned: AtomicBool,
}

impl Group {
    /// The group of a child that leads one and is unreaped.
    pub(super) fn new(leader: Pid, descriptor: Option<Arc<OwnedFd>>) -> Self {
        Group { leader, descriptor, pinned: AtomicBool::new(true) }
    }

    /// The group's number.
    pub(super) fn number(&self) -> Pid {
        self.leader
    }

    /// Whether the group can be signalled after its leader was reaped.
    pub(super) fn outlives_leader(&self) -> bool {
        self.descriptor.is_some()
    }

    /// To be called before the leader is reaped: from now on the number means nothing.
    pub(super) fn unpin(&self) {
        self.pinned.store(false, Ordering::SeqCst);
    }

    /// Sends a signal to every member that may be signalled. What could not be done shows in who is left.
    pub(super) fn send(&self, signal: Signal) {
        let _ = self.send_number(number_of(signal));
    }

    /// Lets stopped members run, so that they see what was sent to them.
    pub(super) fn resume(&self) {
        let _ = self.send_number(libc::SIGCONT);
    }

    /// Whether the kernel says that the group has no member at all. `false` also where it only has zombies, and
    /// where a number has come to mean another group.
    pub(super) fn is_gone(&self) -> bool {
        let answer = match &self.descriptor {
            Some(descriptor) => by_descriptor(descriptor, 0),
            None => rustix::process::test_kill_process_group(self.leader).map_err(io::Error::from),
        };
        answer.is_err_and(|error| error.raw_os_error() == Some(Errno::SRCH.raw_os_error()))
    }

    fn send_number(&self, signal: i32) -> io::Result<()> {
        if let Some(descriptor) = &self.descriptor {
            return by_descriptor(descriptor, signal);
        }
        if !self.pinned.load(Ordering::SeqCst) {
            return Err(Errno::SRCH.into());
        }
        nix::sys::signal::killpg(
            nix::unistd::Pid::from_raw(self.leader.as_raw_nonzero().get()),
            nix::sys::signal::Signal::try_from(signal)?,
        )?;
        Ok(())
    }
}

#[cfg(target_os = "linux")]
fn by_descriptor(descriptor: &OwnedFd, signal: i32) -> io::Result<()> {
    signal_by_pidfd(descriptor.as_raw_fd(), signal, libc::PIDFD_SIGNAL_PROCESS_GROUP)
}

#[cfg(not(target_os = "linux"))]
fn by_descriptor(_descriptor: &OwnedFd, _signal: i32) -> io::Result<()> {
    Err(Errno::NOSYS.into())
}

/// `pidfd_send_signal` with flags, which no safe wrapper offers.
#[cfg(target_os = "linux")]
pub(super) fn signal_by_pidfd(descriptor: RawFd, signal: i32, flags: u32) -> io::Result<()> {
    let no_info = std::ptr::null::<libc::siginfo_t>();
    // SAFETY: the call takes numbers and a null pointer; a wrong descriptor gives an error.
    let sent = unsafe { libc::syscall(libc::SYS_pidfd_send_signal, descriptor, signal, no_info, flags) };
    if sent == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The system's number of a signal.
pub(super) fn number_of(signal: Signal) -> i32 {
    match signal {
        Signal::Term => libc::SIGTERM,
        Signal::Int => libc::SIGINT,
        Signal::Hup => libc::SIGHUP,
        Signal::Quit => libc::SIGQUIT,
        Signal::Kill => libc::SIGKILL,
    }
}

/// The name of a signal's number, `SIGKILL`; real-time ones count from the first, `SIGRTMIN+3`.
pub(super) fn signal_name(number: i32) -> String {
    if let Ok(signal) = nix::sys::signal::Signal::try_from(number) {
        return signal.as_str().to_owned();
    }
    #[cfg(target_os = "linux")]
    if number >= libc::SIGRTMIN() {
        return match number - libc::SIGRTMIN() {
            0 => "SIGRTMIN".to_owned(),
            above => format!("SIGRTMIN+{above}"),
        };
    }
    format!("SIG{number}")
}
