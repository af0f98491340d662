//! Broker, guardian and waiting root: the processes beside a host that own its trees and outlive it until those are gone.
//!
//! ```text
//! host ──socket── broker   its second thread forks ──► guardian ──forks──► root, waiting
//!   └───────────────────── lifeline ───────────────────┘                      │
//!   └───────────────────── launch socket ─────────────────────────────────────┘
//! ```
//!
//! No runtime, no logs, no configuration: what they know is told them in messages (see `frame`), what they do is what the
//! kernel and the host say. Invariant: everything but standard input, output and error (which are `/dev/null`) and the
//! sockets named here is closed.

mod beat;
mod broker;
mod children;
mod ending;
mod keeper;
mod root;
mod spare;
mod sys;

pub(super) use sys::now_ms;

use std::fmt;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU8, Ordering};

/// The name a broker is started under: that, with the host's greeting on [`SOCKET`], makes this program one.
pub(super) const MARK: &str = "procession-broker";
/// Where a broker finds its host.
pub(super) const SOCKET: RawFd = 3;

/// Whether this program's own image becomes a broker when it is asked to: [`UNASKED`], [`READY`], [`LATE`].
static OWN_IMAGE: AtomicU8 = AtomicU8::new(UNASKED);
const UNASKED: u8 = 0;
const READY: u8 = 1;
/// It was asked for when other threads ran already: a copy would fork with locks that nobody will ever release.
const LATE: u8 = 2;

/// Why a broker could not begin.
#[derive(Debug)]
enum Fault {
    System(std::io::Error),
    Language,
    HostGone,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::System(error) => error.fmt(f),
            Fault::Language => f.write_str("the host speaks another version"),
            Fault::HostGone => f.write_str("the host is gone"),
        }
    }
}

/// Becomes a broker if this program was started as one, and then never returns. Otherwise remembers that its own image
/// can serve as one.
///
/// # Errors
/// Why it cannot: other threads run already.
pub fn run_if_asked() -> Result<(), &'static str> {
    let threads = std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
    let asked = std::env::args_os().next().is_some_and(|name| name == MARK);
    if threads > 1 {
        OWN_IMAGE.store(LATE, Ordering::Relaxed);
        return if asked { sys::leave(1) } else { Err(TOO_LATE) };
    }
    if asked {
        let code = if serve().is_ok() { 0 } else { 1 };
        sys::leave(code);
    }
    OWN_IMAGE.store(READY, Ordering::Relaxed);
    Ok(())
}

/// What is said of a call that came after the first thread.
const TOO_LATE: &str = "`procession::init()` was called when other threads ran already: call it first in `main`, before a \
    runtime is built";

/// What `/proc/N/stat` says of an exec since the fork: `Some(true)` = none.
pub(super) fn is_unexecuted(stat: &[u8]) -> Option<bool> {
    children::Stat::parse(stat).map(|stat| stat.is_unexecuted())
}

/// Whether this program's own image can serve as a broker.
///
/// # Errors
/// Why not.
pub fn is_ready() -> Result<(), &'static str> {
    match OWN_IMAGE.load(Ordering::Relaxed) {
        READY => Ok(()),
        LATE => Err(TOO_LATE),
        _ => Err("`procession::init()` was not called"),
    }
}

/// The whole of the program `procession-guardian`.
#[expect(clippy::print_stderr, reason = "a program of its own, started by hand")]
pub fn main() -> ExitCode {
    if std::env::args_os().next().is_none_or(|name| name != MARK) {
        eprintln!("procession-guardian is started by a host of procession, and does nothing by itself");
        return ExitCode::from(64);
    }
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn serve() -> Result<(), Fault> {
    // SAFETY: a plain call that looks whether the number is open.
    if unsafe { libc::fcntl(SOCKET, libc::F_GETFD) } < 0 {
        return Err(Fault::HostGone);
    }
    // SAFETY: open, as was just seen, and by the mark this program's own.
    let socket = unsafe { OwnedFd::from_raw_fd(SOCKET) };
    // What the host let through: numbers above a limit that was lowered since, or an old C library.
    sys::close_all_but(&[SOCKET]);
    rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC).map_err(|error| Fault::System(error.into()))?;
    broker::run(socket)
}
