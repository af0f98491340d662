//! Descriptors for a launch: pipes, and how they stay out of other children.
//!
//! Invariant: everything made here is close-on-exec and numbered 3 or higher, so that placing it as 0, 1 or 2 in
//! the child never overwrites another one, also where the embedding program has closed its own.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;

use rustix::io::FdFlags;
use tokio::io::Interest;
use tokio::io::unix::{AsyncFd, AsyncFdRegisterError};

/// The first number that is not standard input, output or error.
pub(super) const FIRST_FREE: RawFd = 3;

/// Both ends of an output pipe: a non-blocking read end and a blocking write end.
///
/// The capacity asked for is a wish: an unprivileged user's 64th large pipe keeps the default size.
pub(super) fn output_pipe(capacity_bytes: usize) -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = close_on_exec_pipe()?;
    let (read, write) = (above_standard(read)?, above_standard(write)?);
    rustix::fs::fcntl_setfl(&read, rustix::fs::OFlags::NONBLOCK)?;
    #[cfg(target_os = "linux")]
    let _ = rustix::pipe::fcntl_setpipe_size(&read, capacity_bytes);
    #[cfg(not(target_os = "linux"))]
    let _ = capacity_bytes;
    Ok((read, write))
}

/// `/dev/null`, opened so.
pub(super) fn null(access: rustix::fs::OFlags) -> io::Result<OwnedFd> {
    let flags = access | rustix::fs::OFlags::CLOEXEC;
    above_standard(rustix::fs::open(c"/dev/null", flags, rustix::fs::Mode::empty())?)
}

/// Moves a descriptor out of the range of standard input, output and error.
pub(super) fn above_standard(descriptor: OwnedFd) -> io::Result<OwnedFd> {
    if descriptor.as_raw_fd() >= FIRST_FREE {
        return Ok(descriptor);
    }
    Ok(rustix::io::fcntl_dupfd_cloexec(&descriptor, FIRST_FREE)?)
}

#[cfg(not(target_vendor = "apple"))]
fn close_on_exec_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?)
}

/// Without pipe2 there is a moment in which another thread's child would inherit the ends; our own children
/// do not (`POSIX_SPAWN_CLOEXEC_DEFAULT`).
#[cfg(target_vendor = "apple")]
fn close_on_exec_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = rustix::pipe::pipe()?;
    rustix::io::fcntl_setfd(&read, FdFlags::CLOEXEC)?;
    rustix::io::fcntl_setfd(&write, FdFlags::CLOEXEC)?;
    Ok((read, write))
}

/// The numbers, 3 and higher, that a child would inherit now. What another thread opens meanwhile without
/// close-on-exec is missed.
pub(super) fn inheritable() -> io::Result<Vec<RawFd>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(if cfg!(target_os = "linux") { "/proc/self/fd" } else { "/dev/fd" })? {
        let name = entry?.file_name();
        let Some(number) = name.to_str().and_then(|name| name.parse::<RawFd>().ok()) else { continue };
        if number < FIRST_FREE {
            continue;
        }
        // SAFETY: the number is only asked for its flags; if it has been closed meanwhile, the answer is an error.
        let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
        if rustix::io::fcntl_getfd(descriptor).is_ok_and(|flags| !flags.contains(FdFlags::CLOEXEC)) {
            found.push(number);
        }
    }
    Ok(found)
}

/// What keeps one descriptor open, the same one, for as long as it lives.
pub(super) trait Owning: AsRawFd {}
impl Owning for OwnedFd {}
impl Owning for Arc<OwnedFd> {}

/// Registers a descriptor with the current runtime, for reading. Must be called inside a runtime.
pub(super) fn watched<T: Owning>(descriptor: T) -> io::Result<AsyncFd<T>> {
    Ok(try_watched(descriptor)?)
}

/// The same; the error gives the descriptor back.
pub(super) fn try_watched<T: Owning>(descriptor: T) -> Result<AsyncFd<T>, AsyncFdRegisterError<T>> {
    // SAFETY: `Owning` types give the same open descriptor for their whole life, and `AsyncFd` unregisters it
    // before it drops them.
    unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) }
}
