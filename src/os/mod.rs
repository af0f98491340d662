//! Mechanism: launching a process, owning its tree, reading its pipes. Decides nothing.
//!
//! The only place for `unsafe` and for calls to the system; each `unsafe` block says why it is sound.
//!
//! ```text
//! in_process ─► place, descriptors: what is needed ─► spawn: the child ─► root: owns it, unreaped
//!     │                                  └ on failure: hints                 │
//!   shared: how far it is, who may signal ◄── watch: one task per process ───┘
//!     └─► group: signals, presence                └─► members: who is in the group
//! ```

#![allow(unsafe_code, reason = "system calls that no safe package wraps; nowhere else")]

#[cfg(unix)]
mod descriptors;
#[cfg(unix)]
mod group;
#[cfg(unix)]
mod hints;
#[cfg(unix)]
pub mod in_process;
pub mod launch;
#[cfg(unix)]
pub mod means;
#[cfg(unix)]
mod members;
#[cfg(unix)]
pub mod pipe;
#[cfg(not(unix))]
#[path = "pipe_absent.rs"]
pub mod pipe;
#[cfg(unix)]
mod place;
#[cfg(unix)]
mod root;
#[cfg(unix)]
mod shared;
#[cfg(unix)]
mod spawn;
#[cfg(unix)]
mod watch;

/// What launches on this system, within the current tokio runtime.
#[cfg(unix)]
pub fn launcher() -> std::sync::Arc<dyn launch::Launcher> {
    std::sync::Arc::new(in_process::InProcess::new(tokio::runtime::Handle::current()))
}

/// Names and values of variables as the system has them.
#[cfg(unix)]
pub fn bytes_of(variables: Vec<(std::ffi::OsString, std::ffi::OsString)>) -> Vec<(Vec<u8>, Vec<u8>)> {
    use std::os::unix::ffi::OsStringExt;
    variables.into_iter().map(|(name, value)| (name.into_vec(), value.into_vec())).collect()
}
