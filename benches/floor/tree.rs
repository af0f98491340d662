//! Ending a tree: TERM to its group, then reap every member, the calling process being their subreaper.
//!
//! Invariant: [`Tree::stop`] returns once the kernel says that no child of the group is left. A member that left
//! the group, or ignores TERM, is beyond it: the floor proves no more than this.

use std::fs::File;
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use super::poll::checked;
use super::spawn::{Program, null_input, signal_group, spawn};

/// While this lives, orphans beneath this process become its own children.
pub struct Subreaper(());

impl Subreaper {
    pub fn become_one() -> io::Result<Self> {
        set_subreaper(1).map(|()| Self(()))
    }
}

impl Drop for Subreaper {
    fn drop(&mut self) {
        // Clearing a flag of this process cannot fail.
        let _ = set_subreaper(0);
    }
}

/// A root and its group.
pub struct Tree {
    pid: libc::pid_t,
    stdout: File,
    stderr: File,
    /// Held as a supervisor would hold it; the reaping goes by group.
    _pidfd: OwnedFd,
    gone: bool,
}

impl Tree {
    /// Launches, and returns once the program has written its first byte: its way of saying that the tree stands.
    pub fn launch(program: &Program, _subreaper: &Subreaper) -> io::Result<Self> {
        let child = spawn(program, null_input()?.as_fd())?;
        let mut tree = Self {
            pid: child.pid,
            stdout: child.stdout.into(),
            stderr: child.stderr.into(),
            _pidfd: child.pidfd,
            gone: false,
        };
        tree.stdout.read_exact(&mut [0])?;
        Ok(tree)
    }

    /// TERM to the group, reap until no member is left, read both pipes to EOF. Answers how many were reaped.
    pub fn stop(mut self) -> io::Result<usize> {
        let reaped = self.end(libc::SIGTERM)?;
        let mut rest = Vec::new();
        self.stdout.read_to_end(&mut rest)?;
        self.stderr.read_to_end(&mut rest)?;
        Ok(reaped)
    }

    fn end(&mut self, signal: libc::c_int) -> io::Result<usize> {
        signal_group(self.pid, signal)?;
        let mut reaped = 0;
        while reap_member(self.pid)? {
            reaped += 1;
        }
        self.gone = true;
        Ok(reaped)
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        if !self.gone {
            // Only on the way out of a failure, which is already being reported.
            let _ = self.end(libc::SIGKILL);
        }
    }
}

/// Waits for one member of the group and reaps it; `false` if this process has no child in that group.
fn reap_member(group: libc::pid_t) -> io::Result<bool> {
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    // SAFETY: `info` is writable and outlives the call.
    match checked(unsafe { libc::waitid(libc::P_PGID, group as libc::id_t, info.as_mut_ptr(), libc::WEXITED) }) {
        Ok(_) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::ECHILD) => Ok(false),
        Err(error) => Err(error),
    }
}

fn set_subreaper(on: libc::c_ulong) -> io::Result<()> {
    // SAFETY: this option takes numbers and no pointer.
    checked(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, on, 0, 0, 0) })?;
    Ok(())
}
