//! epoll and eventfd, as thin as they can be: each call is one system call with its error checked.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Turns the -1 of a system call into its error.
pub fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Takes a descriptor that a system call just made.
pub fn owned(result: libc::c_int) -> io::Result<OwnedFd> {
    let fd = checked(result)?;
    // SAFETY: the call just returned this descriptor, so it is open and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A level-triggered epoll set; each descriptor carries a number.
pub struct Poll(OwnedFd);

impl Poll {
    pub fn new() -> io::Result<Self> {
        // SAFETY: takes a flag and no pointer.
        owned(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) }).map(Self)
    }

    pub fn add(&self, fd: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: token };
        // SAFETY: both descriptors are open and `event` outlives the call, which only reads it.
        checked(unsafe { libc::epoll_ctl(self.0.as_raw_fd(), libc::EPOLL_CTL_ADD, fd.as_raw_fd(), &mut event) })?;
        Ok(())
    }

    /// Unregisters, then closes. Closing alone is not enough: while another thread's child stands between vfork
    /// and exec it shares the open file, so the registration would live on and report for ever.
    pub fn remove(&self, fd: OwnedFd) -> io::Result<()> {
        // SAFETY: both descriptors are open; DEL takes no event.
        let deleted =
            unsafe { libc::epoll_ctl(self.0.as_raw_fd(), libc::EPOLL_CTL_DEL, fd.as_raw_fd(), std::ptr::null_mut()) };
        checked(deleted)?;
        Ok(())
    }

    /// Waits for at least one event, or until `timeout_ms` have passed (-1 = no limit); an interruption is no event.
    pub fn wait(&self, events: &mut [libc::epoll_event], timeout_ms: i32) -> io::Result<usize> {
        let room = i32::try_from(events.len()).unwrap_or(i32::MAX);
        // SAFETY: the kernel writes at most `room` events, all of them inside the slice.
        let ready = unsafe { libc::epoll_wait(self.0.as_raw_fd(), events.as_mut_ptr(), room, timeout_ms) };
        match checked(ready) {
            Ok(count) => Ok(count as usize),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
            Err(error) => Err(error),
        }
    }
}

/// A counter that wakes an epoll set.
pub fn eventfd() -> io::Result<OwnedFd> {
    // SAFETY: takes two numbers and no pointer.
    owned(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) })
}
