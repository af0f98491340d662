//! A spare: a guardian and its root-to-be, forked ahead of the start that will use them.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use libc::pid_t;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use super::beat::Beat;
use super::keeper::Keeper;
use super::{root, sys};
use crate::os::frame::Message;
use crate::os::packet;

/// What every guardian has from its broker.
#[derive(Debug)]
pub(super) struct Passed {
    /// The host as a process.
    pub(super) host: Option<OwnedFd>,
    /// Whether the host serves; `None` where it may be silent for ever.
    pub(super) beat: Option<Beat>,
}

/// Makes one and sends the host its two ends: the launch socket, then the guardian's. Gives the guardian's number.
///
/// # Errors
/// The system's; then nothing of it is left, and the host was sent nothing.
pub(super) fn make(broker: &OwnedFd, passed: &Passed, grace_ms: u64) -> io::Result<pid_t> {
    let (launch, root_end) = pair()?;
    let (control, guardian_end) = pair()?;
    let guardian = match sys::fork()? {
        0 => keep(guardian_end, root_end, passed, grace_ms),
        guardian => guardian,
    };
    drop((root_end, guardian_end));
    // Where this fails the ends close, the root ends with them, and the guardian after it.
    packet::send(broker, &Message::Spare.encode(), &[launch.as_fd(), control.as_fd()])?;
    Ok(guardian)
}

fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let kind = SocketType::SEQPACKET;
    Ok(rustix::net::socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?)
}

/// The guardian's whole life, in the copy.
fn keep(control: OwnedFd, launch: OwnedFd, passed: &Passed, grace_ms: u64) -> ! {
    let beat = passed.beat.iter().flat_map(Beat::descriptors);
    let kept = [&control, &launch].into_iter().chain(&passed.host).chain(beat);
    let numbers: Vec<i32> = kept.map(AsRawFd::as_raw_fd).collect();
    sys::close_all_but(&numbers);
    sys::name(c"procession-guard");
    sys::adopt_orphans();
    let own = sys::own();
    let root = match sys::fork() {
        Ok(0) => root::wait(&launch, own),
        Ok(root) => root,
        Err(_) => sys::leave(1),
    };
    drop(launch);
    let host = passed.host.as_ref().and_then(|host| host.try_clone().ok());
    let beat = passed.beat.as_ref().and_then(|beat| beat.duplicate().ok());
    let passed = Passed { host, beat };
    match sys::only_children() {
        Ok(signals) => Keeper::new(control, passed, signals, root, grace_ms).run(),
        Err(_) => sys::leave(1),
    }
    sys::leave(0)
}
