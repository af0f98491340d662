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

#[cfg(not(unix))]
mod absent;
#[cfg(unix)]
mod descriptors;
#[cfg(target_os = "linux")]
pub mod frame;
#[cfg(unix)]
mod group;
#[cfg(target_os = "linux")]
pub mod guardian;
#[cfg(unix)]
mod hints;
#[cfg(unix)]
pub mod in_process;
pub mod launch;
#[cfg(unix)]
pub mod means;
#[cfg(unix)]
mod members;
#[cfg(target_os = "linux")]
mod packet;
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
#[cfg(target_os = "linux")]
pub mod subtree;
#[cfg(unix)]
mod watch;

/// Whether processes can be owned here.
pub const SUPPORTED: bool = cfg!(unix);

/// Which broker is asked for.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// The program to run as the broker; `None` = this program where it is ready, else the one beside it.
    pub image: Option<std::path::PathBuf>,
    /// Spares that are usually kept.
    pub spares: usize,
    /// What a process gets between the stop signal and KILL where its host died before it could say, in milliseconds.
    pub grace_ms: u64,
    /// How long nobody may call [`launch::Launcher::beat`] before every tree is ended, in milliseconds; 0 = for ever.
    pub silence_ms: u64,
}

/// What launches on this system, on the current tokio runtime: guardians where there is a broker, else this program
/// itself, which then says why. Blocks for the start of a broker.
#[cfg(target_os = "linux")]
pub fn launcher(wanted: &Wanted) -> std::sync::Arc<dyn launch::Launcher> {
    let runtime = tokio::runtime::Handle::current();
    let why = match subtree::find_image(wanted.image.as_deref()) {
        Ok(image) => {
            let failed = format!("the broker {} could not be started", image.display());
            let Wanted { spares, grace_ms, silence_ms, .. } = *wanted;
            match subtree::Subtree::start(runtime.clone(), subtree::Plan { image, spares, grace_ms, silence_ms }) {
                Ok(subtree) => return std::sync::Arc::new(subtree),
                Err(error) => format!("{failed}: {error}"),
            }
        }
        Err(why) => why,
    };
    std::sync::Arc::new(in_process::InProcess::new(runtime).because(&why))
}

/// What launches on this system, on the current tokio runtime.
#[cfg(not(target_os = "linux"))]
pub fn launcher(_wanted: &Wanted) -> std::sync::Arc<dyn launch::Launcher> {
    #[cfg(unix)]
    return std::sync::Arc::new(in_process::InProcess::new(tokio::runtime::Handle::current()));
    #[cfg(not(unix))]
    return std::sync::Arc::new(absent::Absent);
}

/// Becomes a broker if this program was started as one; else remembers that its image can serve as one.
///
/// # Errors
/// Why it cannot.
pub fn init() -> Result<(), &'static str> {
    #[cfg(target_os = "linux")]
    guardian::run_if_asked()?;
    Ok(())
}

/// Names and values of variables as the system has them.
pub fn bytes_of(variables: Vec<(std::ffi::OsString, std::ffi::OsString)>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let bytes = |text: std::ffi::OsString| text.into_encoded_bytes();
    variables.into_iter().map(|(name, value)| (bytes(name), bytes(value))).collect()
}
