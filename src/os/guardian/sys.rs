//! The few system calls of broker and guardian, without a runtime: waiting, signalling, closing, time.
//!
//! Invariant: a number is signalled only through [`Pinned`], which the kernel has just said is our own unreaped child, or
//! through a descriptor. Lacks: any allocation that a freshly forked child could not make.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use libc::{c_int, pid_t};

use crate::os::frame::End;

/// What waiting for one child says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waited {
    /// It has not ended.
    Alive,
    /// It ended so.
    Ended(pid_t, End),
    /// It is no child of ours.
    NoChild,
}

fn waitid(kind: libc::idtype_t, id: pid_t, options: c_int) -> Waited {
    loop {
        // SAFETY: all zeroes is a valid `siginfo_t`.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        // SAFETY: `info` is ours, and the call writes only there.
        let failed = unsafe { libc::waitid(kind, id as libc::id_t, &raw mut info, options | libc::WEXITED) };
        if failed != 0 {
            match io::Error::last_os_error().raw_os_error() {
                Some(libc::EINTR) => continue,
                _ => return Waited::NoChild,
            }
        }
        // SAFETY: `waitid` filled it in, or left it zero: then the number is 0.
        let (pid, status) = unsafe { (info.si_pid(), info.si_status()) };
        if pid == 0 {
            return Waited::Alive;
        }
        return Waited::Ended(
            pid,
            match info.si_code {
                libc::CLD_EXITED => End::Exited(status),
                libc::CLD_DUMPED => End::Dumped(status),
                _ => End::Killed(status),
            },
        );
    }
}

/// Looks at one child without reaping it.
pub(super) fn look(pid: pid_t) -> Waited {
    waitid(libc::P_PID, pid, libc::WNOHANG | libc::WNOWAIT | libc::__WALL)
}

/// The same, if it is a child of the calling thread.
pub(super) fn look_as_thread(pid: pid_t) -> Waited {
    waitid(libc::P_PID, pid, libc::WNOHANG | libc::WNOWAIT | libc::__WALL | libc::__WNOTHREAD)
}

/// Reaps one child if it has ended.
pub(super) fn reap(pid: pid_t) -> Waited {
    waitid(libc::P_PID, pid, libc::WNOHANG | libc::__WALL)
}

/// Looks at any child, of any thread, without reaping it.
pub(super) fn look_at_any() -> Waited {
    waitid(libc::P_ALL, 0, libc::WNOHANG | libc::WNOWAIT | libc::__WALL)
}

/// The same, of the calling thread's children only.
pub(super) fn look_at_own() -> Waited {
    waitid(libc::P_ALL, 0, libc::WNOHANG | libc::WNOWAIT | libc::__WALL | libc::__WNOTHREAD)
}

/// A live child of ours, which nobody else can reap: its number is its own for as long as this is not waited for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pinned(pid_t);

/// Pins a child; `None` = it has ended, or is none of ours.
pub(super) fn pin(pid: pid_t) -> Option<Pinned> {
    (pid > 1 && look(pid) == Waited::Alive).then_some(Pinned(pid))
}

impl Pinned {
    /// Signals it. `false` = it may not be signalled.
    pub(super) fn signal(self, signal: c_int) -> bool {
        // SAFETY: a plain call.
        (unsafe { libc::kill(self.0, signal) }) == 0
    }
}

/// Signals the group that an unreaped child of ours leads.
pub(super) fn signal_group(leader: pid_t, signal: c_int) -> bool {
    // SAFETY: a plain call; 0 and 1 would mean our own group or everybody.
    leader > 1 && unsafe { libc::kill(-leader, signal) } == 0
}

/// The group a process is in.
pub(super) fn group_of(pid: pid_t) -> Option<pid_t> {
    // SAFETY: a plain call.
    let group = unsafe { libc::getpgid(pid) };
    (group > 0).then_some(group)
}

/// A descriptor of a process.
pub(super) fn open_process(pid: pid_t) -> Option<OwnedFd> {
    // SAFETY: a plain call that gives a new descriptor, close-on-exec, or fails.
    let got = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    // SAFETY: opened just now, and nobody else's.
    (got >= 0).then(|| unsafe { OwnedFd::from_raw_fd(got as RawFd) })
}

/// Signals through a descriptor.
pub(super) fn signal_process(process: &OwnedFd, signal: c_int) -> bool {
    let none: *const libc::siginfo_t = std::ptr::null();
    // SAFETY: the descriptor is open; a null pointer asks for the usual information.
    (unsafe { libc::syscall(libc::SYS_pidfd_send_signal, process.as_raw_fd(), signal, none, 0) }) == 0
}

/// Milliseconds of CLOCK_MONOTONIC, which stands still while the machine is suspended.
pub(in crate::os) fn now_ms() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    (now.tv_sec as u64) * 1000 + (now.tv_nsec as u64) / 1_000_000
}

/// Closes every descriptor from 3 on but these.
pub(super) fn close_all_but(keep: &[RawFd]) {
    let mut keep: Vec<RawFd> = keep.iter().copied().filter(|number| *number >= 3).collect();
    keep.sort_unstable();
    let mut from: RawFd = 3;
    for number in keep {
        close_range(from, number - 1);
        from = number + 1;
    }
    close_range(from, RawFd::MAX);
}

fn close_range(first: RawFd, last: RawFd) {
    if first > last {
        return;
    }
    // SAFETY: a plain call; the descriptors belong to a parent's copy of this program, of which nothing runs here.
    if unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } == 0 {
        return;
    }
    // Before Linux 5.9, or filtered away.
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return };
    let open: Vec<RawFd> =
        entries.flatten().filter_map(|entry| entry.file_name().to_str().and_then(|name| name.parse().ok())).collect();
    for number in open.into_iter().filter(|number| (first..=last).contains(number)) {
        // SAFETY: as above; one that is closed already gives an error.
        unsafe { libc::close(number) };
    }
}

/// Blocks every signal that can be blocked and gives a descriptor that becomes readable when a child changes.
#[expect(clippy::disallowed_methods, reason = "a process of its own")]
pub(super) fn only_children() -> io::Result<OwnedFd> {
    // SAFETY: the sets are initialised by the calls before they are used; the descriptor is new.
    unsafe {
        let mut every: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut every);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const every, std::ptr::null_mut());
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        let mut child: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut child);
        libc::sigaddset(&raw mut child, libc::SIGCHLD);
        let got = libc::signalfd(-1, &raw const child, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        if got < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(got)) }
    }
}

/// Takes what a descriptor of signals has.
pub(super) fn take_signals(signals: &OwnedFd) {
    let mut buffer = [0; 8 * size_of::<libc::signalfd_siginfo>()];
    while rustix::io::read(signals, &mut buffer).is_ok_and(|read| read == buffer.len()) {}
}

/// Every signal at its default and none blocked, for a program that is about to begin.
#[expect(clippy::disallowed_methods, reason = "a process of its own")]
pub(super) fn clean_signals() {
    for signal in 1..=64 {
        // SAFETY: a plain call; numbers that may not be changed are refused.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    // SAFETY: the set is initialised before it is used.
    unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
}

/// Ends this process at once, without any of the program's own endings.
pub(super) fn leave(code: c_int) -> ! {
    // SAFETY: never returns.
    unsafe { libc::_exit(code) }
}

/// Makes orphans of this process's descendants its children.
pub(super) fn adopt_orphans() {
    // SAFETY: a plain call.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) };
}

/// Names this thread, so that a list of processes tells what it is.
pub(super) fn name(name: &std::ffi::CStr) {
    // SAFETY: a plain call; the kernel copies at most 16 bytes.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
}

/// Which signal this process gets when its parent dies; 0 = none.
pub(super) fn die_with_parent(signal: c_int) {
    // SAFETY: a plain call.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal, 0, 0, 0) };
}

/// The parent's number.
pub(super) fn parent() -> pid_t {
    // SAFETY: a plain call.
    unsafe { libc::getppid() }
}

/// Our own number.
pub(super) fn own() -> pid_t {
    std::process::id() as pid_t
}

/// A copy of this process. `Ok(0)` in the copy.
pub(super) fn fork() -> io::Result<pid_t> {
    // SAFETY: the copy has one thread; it makes system calls, allocates (the C library's allocator is made ready by
    // `fork`) and leaves by `leave` or `execve`, never through code that another thread of the original could have
    // held a lock of.
    let got = unsafe { libc::fork() };
    if got < 0 { Err(io::Error::last_os_error()) } else { Ok(got) }
}
