//! Signals that ask this program to end, and the numbers of those that end others.

#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};
#[cfg(windows)]
use tokio::signal::windows::{CtrlBreak, CtrlC};

/// What asks to end where there are no signals: Ctrl-C and Ctrl-Break.
#[cfg(windows)]
#[derive(Debug)]
pub(super) struct Ends {
    interrupt: CtrlC,
    terminate: CtrlBreak,
}

#[cfg(windows)]
impl Ends {
    /// Begins to listen.
    ///
    /// # Errors
    /// The system refuses a handler.
    pub fn listen() -> std::io::Result<Self> {
        Ok(Ends { interrupt: tokio::signal::windows::ctrl_c()?, terminate: tokio::signal::windows::ctrl_break()? })
    }

    /// The number that Unix gives the next one. Cancel safe.
    pub async fn next(&mut self) -> u8 {
        tokio::select! {
            _ = self.interrupt.recv() => 2,
            _ = self.terminate.recv() => 15,
        }
    }
}

/// Signals that ask to end: INT, TERM and HUP. From its making on, none of them ends this program by itself.
#[cfg(unix)]
#[derive(Debug)]
pub(super) struct Ends {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

#[cfg(unix)]
impl Ends {
    /// Begins to listen.
    ///
    /// # Errors
    /// The system refuses a handler.
    pub fn listen() -> std::io::Result<Self> {
        Ok(Ends {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hangup: listen(SignalKind::hangup())?,
        })
    }

    /// The number of the next one. Cancel safe.
    pub async fn next(&mut self) -> u8 {
        tokio::select! {
            _ = self.interrupt.recv() => 2,
            _ = self.terminate.recv() => 15,
            _ = self.hangup.recv() => 1,
        }
    }
}

#[cfg(unix)]
#[expect(clippy::disallowed_methods, reason = "the command line owns its process")]
fn listen(kind: SignalKind) -> std::io::Result<Signal> {
    signal(kind)
}

/// Names and numbers that are the same on every system we know.
const EVERYWHERE: &[(&str, u8)] = &[
    ("SIGHUP", 1),
    ("SIGINT", 2),
    ("SIGQUIT", 3),
    ("SIGILL", 4),
    ("SIGTRAP", 5),
    ("SIGABRT", 6),
    ("SIGFPE", 8),
    ("SIGKILL", 9),
    ("SIGSEGV", 11),
    ("SIGPIPE", 13),
    ("SIGALRM", 14),
    ("SIGTERM", 15),
    ("SIGXCPU", 24),
    ("SIGXFSZ", 25),
    ("SIGVTALRM", 26),
    ("SIGPROF", 27),
];

#[cfg(target_os = "linux")]
const HERE: &[(&str, u8)] = &[
    ("SIGBUS", 7),
    ("SIGUSR1", 10),
    ("SIGUSR2", 12),
    ("SIGSTKFLT", 16),
    ("SIGIO", 29),
    ("SIGPWR", 30),
    ("SIGSYS", 31),
];
#[cfg(not(target_os = "linux"))]
const HERE: &[(&str, u8)] = &[("SIGEMT", 7), ("SIGBUS", 10), ("SIGSYS", 12), ("SIGUSR1", 30), ("SIGUSR2", 31)];

/// First real-time signal a program may use on Linux.
const REAL_TIME_FIRST: u8 = 34;

/// The number of a signal's name; none where nobody knows it.
pub(super) fn number(name: &str) -> Option<u8> {
    if let Some((_, number)) = EVERYWHERE.iter().chain(HERE).find(|(known, _)| *known == name) {
        return Some(*number);
    }
    if let Some(above) = name.strip_prefix("SIGRTMIN") {
        let above = if above.is_empty() { 0 } else { above.strip_prefix('+')?.parse().ok()? };
        return REAL_TIME_FIRST.checked_add(above);
    }
    name.strip_prefix("SIG")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, expected: Option<u8>) {
        assert_eq!(number(name), expected, "{name}");
    }

    #[test]
    fn names_have_their_numbers() {
        check("SIGKILL", Some(9));
        check("SIGTERM", Some(15));
        check("SIGRTMIN", Some(34));
        check("SIGRTMIN+3", Some(37));
        check("SIG40", Some(40));
        check("SIGRTMIN+999", None);
        check("TERM", None);
    }
}
