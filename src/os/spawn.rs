//! One `posix_spawn`: a new session with clean signals and descriptors 0–2 only.
//!
//! Invariant: the child shares nothing with the embedding program but what is named here, and the embedding
//! program's memory is not copied (no fork). When [`Prepared::spawn`] returns a number, the kernel has executed
//! the program; when it returns an error, nothing of it exists.
//! Lacks: anything that needs code between fork and exec.

use std::ffi::{CStr, CString, c_char, c_int, c_short};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::ptr;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::Pid;

use super::descriptors::{self, FIRST_FREE};
use super::launch::{LaunchError, LaunchRequest};
use super::means::Means;
use super::{hints, place};

/// How often a file that is open for writing is tried.
const BUSY_TRIES: u32 = 12;
/// The first pause between two tries; each is twice the last, up to [`BUSY_PAUSE_MS_MAX`]: 0.7 s in all.
const BUSY_PAUSE_MS: u64 = 1;
/// The longest pause between two tries.
const BUSY_PAUSE_MS_MAX: u64 = 128;

#[cfg(target_vendor = "apple")]
const SETSID: c_int = 0x0400;
#[cfg(not(target_vendor = "apple"))]
const SETSID: c_int = libc::POSIX_SPAWN_SETSID as c_int;

type AddCloseFrom = unsafe extern "C" fn(*mut libc::posix_spawn_file_actions_t, c_int) -> c_int;

/// A launch that is checked and has its descriptors; nothing is started yet.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) directory: OwnedFd,
    pub(super) program: CString,
    pub(super) stdin: OwnedFd,
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
}

/// The read ends of a prepared launch's output, non-blocking.
#[derive(Debug)]
pub(super) struct Outputs {
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
}

/// Finds directory and program and makes the pipes. May block on a file system that hangs.
///
/// Errors: `open_directory`, `find_program`, `make_pipe`.
pub(super) fn prepare(request: &LaunchRequest) -> Result<(Prepared, Outputs), LaunchError> {
    let directory = place::open_directory(request)?;
    let program = place::find_program(request, &directory)?;
    let stdin = descriptors::null(rustix::fs::OFlags::RDONLY).map_err(|error| pipe_error(&error, Some("/dev/null")))?;
    let pipe = || descriptors::output_pipe(request.pipe_bytes).map_err(|error| pipe_error(&error, None));
    let (stdout_read, stdout) = pipe()?;
    let (stderr_read, stderr) = pipe()?;
    let prepared = Prepared { directory, program, stdin, stdout, stderr };
    Ok((prepared, Outputs { stdout: stdout_read, stderr: stderr_read }))
}

/// What a failure to make or watch a standard descriptor is called.
pub(super) fn pipe_error(error: &std::io::Error, path: Option<&str>) -> LaunchError {
    let errno = Errno::from_io_error(error);
    let hint = match errno {
        Some(errno @ (Errno::MFILE | Errno::NFILE)) => hints::out_of_descriptors(errno),
        _ => format!("The process's standard input and output could not be made: {error}."),
    };
    LaunchError {
        operation: "make_pipe",
        errno: errno.map_or(0, Errno::raw_os_error),
        path: path.map(Into::into),
        hint,
    }
}

/// What a refusal of the kernel to execute `program` is called.
pub(super) fn execute_error(error: Errno, request: &LaunchRequest, directory: &OwnedFd, program: &CStr) -> LaunchError {
    let path = place::as_path(program);
    let beginning = place::beginning(directory, program, hints::FIRST_LINE_BYTES).unwrap_or_default();
    LaunchError {
        operation: "execute",
        errno: error.raw_os_error(),
        hint: hints::execute_hint(error, request, &path.to_string_lossy(), &beginning),
        path: Some(path),
    }
}

/// Starts a helper of this crate: a new session, clean signals, `/dev/null` as its standard input and output, `socket` as
/// descriptor 3, nothing else open. `name` is all it has in its argv; its environment is `env`.
///
/// Errors: the system's. Blocks until the kernel has read the program.
#[cfg(target_os = "linux")]
pub(super) fn spawn_helper(program: &CStr, name: &CStr, env: &[CString], socket: &OwnedFd) -> std::io::Result<Pid> {
    let null = descriptors::null(rustix::fs::OFlags::RDWR)?;
    // Placed as 3 by a copy, which is not close-on-exec; so it must not be 3 itself.
    let socket = rustix::io::fcntl_dupfd_cloexec(socket, FIRST_FREE + 1)?;
    let attributes = Attributes::clean()?;
    let mut actions = Actions::new()?;
    for number in 0..FIRST_FREE {
        actions.place(&null, number)?;
    }
    actions.place(&socket, FIRST_FREE)?;
    // Without this call it closes them itself, first of all.
    if let Some(add) = closefrom() {
        actions.close_from(add, FIRST_FREE + 1)?;
    }
    let env = pointers(env);
    let argv = [name.as_ptr().cast_mut(), ptr::null_mut()];
    let mut pid: libc::pid_t = 0;
    // SAFETY: as in `spawn_once`.
    let failed = unsafe {
        libc::posix_spawn(
            &raw mut pid,
            program.as_ptr(),
            &raw const actions.0,
            &raw const attributes.0,
            argv.as_ptr(),
            env.as_ptr(),
        )
    };
    check(failed)?;
    Ok(Pid::from_raw(pid).filter(|pid| !pid.is_init()).ok_or(Errno::SRCH)?)
}

impl Prepared {
    /// Starts the program. Where its file is open for writing it is tried for up to 0.7 s, unless `given_up`.
    ///
    /// Errors: `execute`. Blocks until the kernel has read the program.
    pub(super) fn spawn(
        self,
        request: &LaunchRequest,
        means: Means,
        given_up: impl Fn() -> bool,
    ) -> Result<Pid, LaunchError> {
        let mut pause_ms = BUSY_PAUSE_MS;
        for tried in 1..=BUSY_TRIES {
            match self.spawn_once(request, means) {
                Ok(pid) => return Ok(pid),
                Err(Errno::TXTBSY) if tried < BUSY_TRIES && !given_up() => {
                    #[expect(
                        clippy::disallowed_methods,
                        reason = "a thread of the launch's own; the kernel tells no end of ETXTBSY"
                    )]
                    std::thread::sleep(Duration::from_millis(pause_ms));
                    pause_ms = (2 * pause_ms).min(BUSY_PAUSE_MS_MAX);
                }
                Err(error) => return Err(execute_error(error, request, &self.directory, &self.program)),
            }
        }
        unreachable!("the last try returns");
    }

    fn spawn_once(&self, request: &LaunchRequest, means: Means) -> Result<Pid, Errno> {
        let argv = pointers(&request.argv);
        let env = pointers(&request.env);
        let attributes = Attributes::clean()?;
        let actions = self.actions(means)?;
        let mut pid: libc::pid_t = 0;
        // SAFETY: both lists end in a null pointer and, like the attributes and actions, outlive the call; the
        // call reads them and writes `pid` only.
        let failed = unsafe {
            libc::posix_spawn(
                &raw mut pid,
                self.program.as_ptr(),
                &raw const actions.0,
                &raw const attributes.0,
                argv.as_ptr(),
                env.as_ptr(),
            )
        };
        check(failed)?;
        // A number of 0 or 1 as a group would mean our own or everybody's: nothing is ever sent there.
        Pid::from_raw(pid).filter(|pid| !pid.is_init()).ok_or(Errno::SRCH)
    }

    fn actions(&self, means: Means) -> Result<Actions, Errno> {
        let mut actions = Actions::new()?;
        actions.enter(&self.directory)?;
        for (descriptor, number) in [(&self.stdin, 0), (&self.stdout, 1), (&self.stderr, 2)] {
            actions.place(descriptor, number)?;
        }
        if cfg!(target_vendor = "apple") {
            return Ok(actions); // POSIX_SPAWN_CLOEXEC_DEFAULT closes the others
        }
        match closefrom().filter(|_| means.closefrom) {
            Some(add) => actions.close_from(add, FIRST_FREE)?,
            None => {
                let listed = descriptors::inheritable().map_err(|error| os_error(&error))?;
                for number in listed {
                    // Refused where the limit on descriptors was lowered below one that is open: it would leak.
                    actions.close(number).map_err(|_| Errno::MFILE)?;
                }
            }
        }
        Ok(actions)
    }
}

/// `posix_spawn_file_actions_addclosefrom_np`, looked up at run time because older C libraries lack it.
pub(super) fn closefrom() -> Option<AddCloseFrom> {
    // SAFETY: looks a name up; the string ends in NUL.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"posix_spawn_file_actions_addclosefrom_np".as_ptr()) };
    // SAFETY: a function of that name has this type on every system that has it (glibc, Solaris, illumos, BSD).
    (!found.is_null()).then(|| unsafe { std::mem::transmute::<*mut libc::c_void, AddCloseFrom>(found) })
}

fn pointers(strings: &[CString]) -> Vec<*mut c_char> {
    strings.iter().map(|text| text.as_ptr().cast_mut()).chain([ptr::null_mut()]).collect()
}

fn os_error(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::INVAL)
}

fn check(result: c_int) -> Result<(), Errno> {
    if result == 0 { Ok(()) } else { Err(Errno::from_raw_os_error(result)) }
}

/// What the child does to its descriptors and directory before it executes.
struct Actions(libc::posix_spawn_file_actions_t);

impl Actions {
    fn new() -> Result<Self, Errno> {
        let mut actions = MaybeUninit::uninit();
        // SAFETY: the call initialises what the pointer names, or fails.
        check(unsafe { libc::posix_spawn_file_actions_init(actions.as_mut_ptr()) })?;
        // SAFETY: initialised just now. The C libraries allow it to be moved: it holds no pointer to itself.
        Ok(Actions(unsafe { actions.assume_init() }))
    }

    fn enter(&mut self, directory: &OwnedFd) -> Result<(), Errno> {
        // SAFETY: `self.0` is initialised, as for every call below.
        check(unsafe { libc::posix_spawn_file_actions_addfchdir_np(&raw mut self.0, directory.as_raw_fd()) })
    }

    fn place(&mut self, descriptor: &OwnedFd, number: RawFd) -> Result<(), Errno> {
        // SAFETY: see `enter`.
        check(unsafe { libc::posix_spawn_file_actions_adddup2(&raw mut self.0, descriptor.as_raw_fd(), number) })
    }

    fn close(&mut self, number: RawFd) -> Result<(), Errno> {
        // SAFETY: see `enter`.
        check(unsafe { libc::posix_spawn_file_actions_addclose(&raw mut self.0, number) })
    }

    fn close_from(&mut self, add: AddCloseFrom, first: RawFd) -> Result<(), Errno> {
        // SAFETY: see `enter`; `add` is the C library's own function.
        check(unsafe { add(&raw mut self.0, first) })
    }
}

impl Drop for Actions {
    fn drop(&mut self) {
        // SAFETY: initialised, and destroyed once.
        unsafe { libc::posix_spawn_file_actions_destroy(&raw mut self.0) };
    }
}

/// What the child is: leader of a new session, every signal at its default, none blocked.
struct Attributes(libc::posix_spawnattr_t);

impl Attributes {
    fn clean() -> Result<Self, Errno> {
        let mut attributes = MaybeUninit::uninit();
        // SAFETY: the call initialises what the pointer names, or fails.
        check(unsafe { libc::posix_spawnattr_init(attributes.as_mut_ptr()) })?;
        // SAFETY: initialised just now; it holds no pointer to itself.
        let mut attributes = Attributes(unsafe { attributes.assume_init() });
        let (every, none) = signal_sets();
        let mut flags = SETSID | c_int::from(libc::POSIX_SPAWN_SETSIGDEF) | c_int::from(libc::POSIX_SPAWN_SETSIGMASK);
        if cfg!(target_vendor = "apple") {
            flags |= CLOSE_OTHERS;
        }
        // SAFETY: attributes and sets are initialised; the calls copy the sets.
        unsafe {
            check(libc::posix_spawnattr_setsigdefault(&raw mut attributes.0, &raw const every))?;
            check(libc::posix_spawnattr_setsigmask(&raw mut attributes.0, &raw const none))?;
            check(libc::posix_spawnattr_setflags(&raw mut attributes.0, flags as c_short))?;
        }
        Ok(attributes)
    }
}

#[cfg(target_vendor = "apple")]
const CLOSE_OTHERS: c_int = libc::POSIX_SPAWN_CLOEXEC_DEFAULT;
#[cfg(not(target_vendor = "apple"))]
const CLOSE_OTHERS: c_int = 0;

impl Drop for Attributes {
    fn drop(&mut self) {
        // SAFETY: initialised, and destroyed once.
        unsafe { libc::posix_spawnattr_destroy(&raw mut self.0) };
    }
}

/// Every signal, and none.
fn signal_sets() -> (libc::sigset_t, libc::sigset_t) {
    let mut none = MaybeUninit::<libc::sigset_t>::uninit();
    let mut every = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `sigemptyset` and `sigfillset` initialise the set. On Linux a set is an array of bits; all ones is
    // a valid value, and names also the two signals that the C library keeps from `sigfillset`.
    unsafe {
        libc::sigemptyset(none.as_mut_ptr());
        libc::sigfillset(every.as_mut_ptr());
        if cfg!(target_os = "linux") {
            every.as_mut_ptr().write_bytes(0xff, 1);
        }
        (every.assume_init(), none.assume_init())
    }
}
