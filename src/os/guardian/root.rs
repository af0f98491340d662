//! The root-to-be: forked ahead, it waits for what to execute, and becomes it.
//!
//! Done at birth, off the launch's way: a session of its own, default signals, nothing open but its launch socket.
//! The socket closes as the program is executed; that, with the kernel's mark, is how the host learns of it.
//!
//! Invariant: without its guardian it executes nothing: it dies with it while it waits, and looks once more after it has
//! given that protection up, because the program must not inherit it.

use std::ffi::CString;
use std::io::Read;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use rustix::net::RecvFlags;

use super::sys;
use crate::os::frame::{Launch, Message};
use crate::os::packet::{self, PACKET_BYTES_MAX, Received};

/// Descriptors beside a launch: the working directory and the three standard ones.
const DESCRIPTORS: usize = 4;
/// The largest sealed launch that is read.
const SEALED_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// What is given where a root could not become its program; the host has been told why.
const NOT_EXECUTED: i32 = 127;
/// How often a file that is open for writing is tried.
const BUSY_TRIES: u32 = 12;
/// The first pause between two tries; each is twice the last, up to [`BUSY_PAUSE_MS_MAX`]: 0.7 s in all.
const BUSY_PAUSE_MS: u64 = 1;
/// The longest pause between two tries.
const BUSY_PAUSE_MS_MAX: u64 = 128;

/// Waits, and becomes the program. Runs in a process of its own, whose parent is `guardian`.
pub(super) fn wait(socket: &OwnedFd, guardian: libc::pid_t) -> ! {
    sys::die_with_parent(libc::SIGKILL);
    let _ = rustix::process::setsid();
    sys::close_all_but(&[socket.as_raw_fd()]);
    sys::clean_signals();
    sys::name(c"procession-root");
    if sys::parent() == guardian {
        let mut buffer = vec![0; PACKET_BYTES_MAX];
        if let Ok(Received::Packet(length, descriptors)) = packet::receive(socket, &mut buffer, RecvFlags::empty()) {
            let errno = match read(&buffer[..length], descriptors) {
                Some((launch, descriptors)) => become_program(socket, &launch, &descriptors, guardian),
                None => libc::EBADMSG,
            };
            let _ = packet::send(socket, &Message::NotExecuted { errno }.encode(), &[]);
        }
    }
    sys::leave(NOT_EXECUTED);
}

/// The launch and its four descriptors.
fn read(packet: &[u8], mut descriptors: Vec<OwnedFd>) -> Option<(Launch, Vec<OwnedFd>)> {
    let launch = match Message::decode(packet).ok()? {
        Message::Launch(launch) if descriptors.len() == DESCRIPTORS => launch,
        Message::Sealed if descriptors.len() == DESCRIPTORS + 1 => {
            let file = std::fs::File::from(descriptors.pop()?);
            let mut bytes = Vec::new();
            file.take(SEALED_BYTES_MAX).read_to_end(&mut bytes).ok()?;
            match Message::decode(&bytes).ok()? {
                Message::Launch(launch) => launch,
                _ => return None,
            }
        }
        _ => return None,
    };
    // Numbers below 3 would be written over as the standard ones are put in place.
    descriptors.iter().all(|descriptor| descriptor.as_raw_fd() > 2).then_some((launch, descriptors))
}

/// Returns only if that could not be done: the system's error.
fn become_program(socket: &OwnedFd, launch: &Launch, descriptors: &[OwnedFd], guardian: libc::pid_t) -> i32 {
    let strings = |list: &[Vec<u8>]| list.iter().map(|text| CString::new(&text[..]).ok()).collect::<Option<Vec<_>>>();
    let (Ok(program), Some(argv), Some(env)) =
        (CString::new(&launch.program[..]), strings(&launch.argv), strings(&launch.env))
    else {
        return libc::EINVAL;
    };
    let pointers = |list: &[CString]| -> Vec<*const libc::c_char> {
        list.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect()
    };
    let (argv, env) = (pointers(&argv), pointers(&env));
    let [directory, standard @ ..] = descriptors else { return libc::EINVAL };
    if let Err(error) = rustix::process::fchdir(directory) {
        return error.raw_os_error();
    }
    for (number, descriptor) in (0..).zip(standard) {
        // SAFETY: a plain call; the descriptor is open and is not `number`, so the copy is not close-on-exec.
        if unsafe { libc::dup2(descriptor.as_raw_fd(), number) } < 0 {
            return last_error();
        }
    }
    // SAFETY: a plain call that cannot fail.
    unsafe { libc::umask(launch.umask & 0o777) };
    sys::die_with_parent(0);
    if sys::parent() != guardian {
        sys::leave(NOT_EXECUTED);
    }
    if launch.tell && packet::send(socket, &Message::Executing.encode(), &[]).is_err() {
        return last_error();
    }
    let mut pause_ms = BUSY_PAUSE_MS;
    for _ in 1..BUSY_TRIES {
        execute(&program, &argv, &env);
        if last_error() != libc::ETXTBSY {
            return last_error();
        }
        #[expect(clippy::disallowed_methods, reason = "a process of its own; the kernel tells no end of ETXTBSY")]
        std::thread::sleep(Duration::from_millis(pause_ms));
        pause_ms = (2 * pause_ms).min(BUSY_PAUSE_MS_MAX);
    }
    execute(&program, &argv, &env);
    last_error()
}

fn execute(program: &CString, argv: &[*const libc::c_char], env: &[*const libc::c_char]) {
    // SAFETY: both lists end in a null pointer and name strings that outlive the call.
    unsafe { libc::execve(program.as_ptr(), argv.as_ptr(), env.as_ptr()) };
}

fn last_error() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL)
}
