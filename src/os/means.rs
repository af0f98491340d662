//! What the running kernel and C library offer, looked up once.
//!
//! Each `false` leads to a slower or older way that keeps the same promises; tests take them on purpose.

#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd;

/// Which mechanisms may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Means {
    /// Process descriptors (Linux 5.4); else a thread waits for each root.
    pub pidfd: bool,
    /// Signals to a group through the process descriptor of its leader (Linux 6.9); else the dead root is kept
    /// unreaped so that its number, the group's, stays ours.
    pub pidfd_group: bool,
    /// `posix_spawn_file_actions_addclosefrom_np` (glibc 2.34); else inheritable descriptors are listed.
    pub closefrom: bool,
}

impl Means {
    /// Only what every Unix has.
    pub const NONE: Means = Means { pidfd: false, pidfd_group: false, closefrom: false };

    /// Asks the system. Signals nothing: signal 0 is sent to the own group.
    pub fn probe() -> Means {
        let (pidfd, pidfd_group) = probe_pidfd();
        Means { pidfd, pidfd_group, closefrom: super::spawn::closefrom().is_some() }
    }
}

#[cfg(target_os = "linux")]
fn probe_pidfd() -> (bool, bool) {
    let Ok(own) = rustix::process::pidfd_open(rustix::process::getpid(), rustix::process::PidfdFlags::empty()) else {
        return (false, false);
    };
    // A kernel without the flag refuses it (EINVAL) and a filter refuses the call; ESRCH means that the flag is
    // known and that this process leads no group.
    let known = match super::group::signal_by_pidfd(own.as_raw_fd(), 0, libc::PIDFD_SIGNAL_PROCESS_GROUP) {
        Ok(()) => true,
        Err(error) => error.raw_os_error() == Some(libc::ESRCH),
    };
    (true, known)
}

#[cfg(not(target_os = "linux"))]
fn probe_pidfd() -> (bool, bool) {
    (false, false)
}
