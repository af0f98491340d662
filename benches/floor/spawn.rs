//! One process by `posix_spawn`: a session of its own, default signals, an empty mask, two pipes, a pidfd.
//!
//! glibc carries `posix_spawn` out with CLONE_VM and CLONE_VFORK, so it costs the same in a host of any size and
//! returns once exec succeeded or failed.

use std::ffi::{CString, OsStr};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::ptr;

use super::poll::{checked, owned};

/// What to execute: an absolute path, its arguments, its whole environment.
#[derive(Clone)]
pub struct Program {
    argv: Vec<CString>,
    env: Vec<CString>,
}

impl Program {
    /// `argv[0]` is the path; `env` is the whole environment, `NAME=value`.
    pub fn new<S: AsRef<OsStr>>(argv: &[S], env: &[String]) -> Self {
        let text = |bytes: &[u8]| CString::new(bytes).expect("benches pass no NUL");
        Self {
            argv: argv.iter().map(|word| text(word.as_ref().as_bytes())).collect(),
            env: env.iter().map(|word| text(word.as_bytes())).collect(),
        }
    }

    /// `/bin/sh -c script`.
    pub fn shell(script: &str, env: &[String]) -> Self {
        Self::new(&["/bin/sh", "-c", script], env)
    }
}

/// How a process ended: the `si_code` and `si_status` of its `waitid`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    pub code: i32,
    pub status: i32,
}

/// A spawned process that nobody has reaped.
pub struct Child {
    /// Its pid, which is its session and its group too.
    pub pid: libc::pid_t,
    pub pidfd: OwnedFd,
    pub stdout: OwnedFd,
    pub stderr: OwnedFd,
}

/// Spawns; returns once the kernel executed the program.
pub fn spawn(program: &Program, stdin: BorrowedFd<'_>) -> io::Result<Child> {
    let (stdout, stdout_end) = pipe()?;
    let (stderr, stderr_end) = pipe()?;
    let actions = Actions::new(&[(stdin, 0), (stdout_end.as_fd(), 1), (stderr_end.as_fd(), 2)])?;
    let attributes = Attributes::new()?;
    let argv = pointers(&program.argv);
    let env = pointers(&program.env);
    let mut pid = 0;
    // SAFETY: both arrays end with a null and point into `program`, which outlives the call; actions and attributes
    // are initialised. The child runs on this memory, with this thread stopped, and glibc's code only.
    let result =
        unsafe { libc::posix_spawn(&mut pid, argv[0], &actions.0, &attributes.0, argv.as_ptr(), env.as_ptr()) };
    named(result)?;
    let pidfd = pidfd_open(pid).inspect_err(|_| kill_and_reap(pid))?;
    Ok(Child { pid, pidfd, stdout, stderr })
}

/// Reaps the process behind a pidfd; waits if it has not ended.
pub fn reap(pidfd: BorrowedFd<'_>) -> io::Result<Exit> {
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    // SAFETY: `info` is writable and outlives the call.
    checked(unsafe { libc::waitid(libc::P_PIDFD, pidfd.as_raw_fd() as libc::id_t, info.as_mut_ptr(), libc::WEXITED) })?;
    // SAFETY: all zeroes is a siginfo_t, and a successful waitid filled in the fields of SIGCHLD.
    let (info, status) = unsafe { (info.assume_init_ref(), info.assume_init_ref().si_status()) };
    Ok(Exit { code: info.si_code, status })
}

/// Signals the group of a child that has not been reaped, which keeps its number from being anyone else's.
pub fn signal_group(pid: libc::pid_t, signal: libc::c_int) -> io::Result<()> {
    // SAFETY: takes two numbers and no pointer.
    checked(unsafe { libc::kill(-pid, signal) })?;
    Ok(())
}

/// `/dev/null` to read from: the standard input of what is spawned.
pub fn null_input() -> io::Result<OwnedFd> {
    std::fs::File::open("/dev/null").map(OwnedFd::from)
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [-1; 2];
    // SAFETY: the call writes two numbers into an array of two.
    checked(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) })?;
    // SAFETY: the call just made both descriptors, and nobody else owns them.
    Ok(unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) })
}

fn pidfd_open(pid: libc::pid_t) -> io::Result<OwnedFd> {
    // SAFETY: takes two numbers and no pointer.
    owned(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) } as libc::c_int)
}

fn kill_and_reap(pid: libc::pid_t) {
    // SAFETY: the child is ours and unreaped, so the number is its own; waitpid may be given no place for a status.
    unsafe {
        libc::kill(pid, libc::SIGKILL);
        libc::waitpid(pid, ptr::null_mut(), 0);
    }
}

fn pointers(words: &[CString]) -> Vec<*mut libc::c_char> {
    words.iter().map(|word| word.as_ptr().cast_mut()).chain([ptr::null_mut()]).collect()
}

/// The `posix_spawn` family answers with the error itself.
fn named(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(result)) }
}

/// The child's descriptors 0, 1 and 2. The sources are above 2, because the standard library opens 0 to 2 before
/// `main`; so no copy overwrites the source of a later one.
struct Actions(libc::posix_spawn_file_actions_t);

impl Actions {
    fn new(copies: &[(BorrowedFd<'_>, libc::c_int)]) -> io::Result<Self> {
        let mut raw = MaybeUninit::uninit();
        // SAFETY: initialises the memory it is given.
        named(unsafe { libc::posix_spawn_file_actions_init(raw.as_mut_ptr()) })?;
        // SAFETY: the call above succeeded.
        let mut actions = Self(unsafe { raw.assume_init() });
        for (from, to) in copies {
            // SAFETY: the actions are initialised; the other two are numbers.
            named(unsafe { libc::posix_spawn_file_actions_adddup2(&mut actions.0, from.as_raw_fd(), *to) })?;
        }
        Ok(actions)
    }
}

impl Drop for Actions {
    fn drop(&mut self) {
        // SAFETY: initialised in `new`, and destroyed only here.
        unsafe { libc::posix_spawn_file_actions_destroy(&mut self.0) };
    }
}

/// A new session, every signal at its default, none blocked.
struct Attributes(libc::posix_spawnattr_t);

impl Attributes {
    fn new() -> io::Result<Self> {
        let mut raw = MaybeUninit::uninit();
        // SAFETY: initialises the memory it is given.
        named(unsafe { libc::posix_spawnattr_init(raw.as_mut_ptr()) })?;
        // SAFETY: the call above succeeded.
        let mut attributes = Self(unsafe { raw.assume_init() });
        let flags =
            libc::POSIX_SPAWN_SETSID as libc::c_int | libc::POSIX_SPAWN_SETSIGDEF | libc::POSIX_SPAWN_SETSIGMASK;
        let mut all = MaybeUninit::uninit();
        let mut none = MaybeUninit::uninit();
        // SAFETY: the attributes are initialised, and each set is filled before it is read.
        unsafe {
            libc::sigfillset(all.as_mut_ptr());
            libc::sigemptyset(none.as_mut_ptr());
            named(libc::posix_spawnattr_setflags(&mut attributes.0, flags as libc::c_short))?;
            named(libc::posix_spawnattr_setsigdefault(&mut attributes.0, all.as_ptr()))?;
            named(libc::posix_spawnattr_setsigmask(&mut attributes.0, none.as_ptr()))?;
        }
        Ok(attributes)
    }
}

impl Drop for Attributes {
    fn drop(&mut self) {
        // SAFETY: initialised in `new`, and destroyed only here.
        unsafe { libc::posix_spawnattr_destroy(&mut self.0) };
    }
}
