//! Which shell runs a `command` where nobody names one: `bash` if the search path has it, else `sh`.
//!
//! Never `$SHELL`: what a command means must not hang on who started the host.

use std::path::Path;

use super::load::Sources;

/// Searched where the environment has no `PATH`, as the system's own search would.
const PATH_DEFAULT: &str = "/usr/local/bin:/usr/bin:/bin";

/// The shell found on the `PATH` of these sources, with `-c`.
pub fn detect(sources: &Sources) -> [&'static str; 2] {
    let path = sources.environment.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.as_str());
    let found = std::env::split_paths(path.unwrap_or(PATH_DEFAULT))
        // A relative entry would make the answer depend on the directory the host happens to stand in.
        .any(|directory| directory.is_absolute() && is_program(&directory.join("bash")));
    [if found { "bash" } else { "sh" }, "-c"]
}

#[cfg(unix)]
fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_program(path: &Path) -> bool {
    path.with_extension("exe").is_file()
}
