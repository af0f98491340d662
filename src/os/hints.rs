//! What would help when the kernel refuses to execute a program: one plain sentence for each error.
//!
//! Lacks: values of environment variables, which may be secret; only their names and sizes are said.

use std::ffi::CString;

use rustix::io::Errno;

use super::launch::LaunchRequest;

/// The most bytes of a file looked at for its `#!` line; the kernel itself reads 256.
pub(super) const FIRST_LINE_BYTES: usize = 256;
/// Longest single string an exec takes on Linux, its closing NUL included: 32 pages of 4 KiB.
const STRING_BYTES_MAX: usize = 128 * 1024;

/// Why executing `program`, whose file begins with `beginning`, gave `error`.
pub(super) fn execute_hint(error: Errno, request: &LaunchRequest, program: &str, beginning: &[u8]) -> String {
    match error {
        Errno::NOENT | Errno::NOTDIR => missing_interpreter(program, beginning),
        Errno::NOEXEC => no_format(program, beginning),
        Errno::TOOBIG => too_big(request),
        Errno::TXTBSY => format!("{program} is still open for writing by some process; close it, then try again."),
        Errno::ACCESS | Errno::PERM => {
            format!("{program} may not be executed; look at its interpreter, and for a mount with noexec.")
        }
        Errno::AGAIN => "No more processes can be made; look at the limits on processes of this user, of its \
                         control group (pids.max) and of the system."
            .to_owned(),
        Errno::NOMEM => "There is not enough memory to start another process.".to_owned(),
        Errno::MFILE | Errno::NFILE => out_of_descriptors(error),
        other => format!("The system refused to execute {program}: {other}."),
    }
}

/// Which limit on open files was met.
pub(super) fn out_of_descriptors(error: Errno) -> String {
    if error == Errno::NFILE {
        return "The system has no free file descriptor; raise fs.file-max or end other programs.".to_owned();
    }
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let limit = limit.map_or_else(|| "none".to_owned(), |number| number.to_string());
    format!("This program has no free file descriptor (limit {limit}); raise its limit (ulimit -n) or stop processes.")
}

/// The file was there when it was looked up, so something it needs is not.
fn missing_interpreter(program: &str, beginning: &[u8]) -> String {
    match interpreter(beginning) {
        Some(named) if named.ends_with('\r') => format!(
            "The first line of {program} ends in a carriage return, so its interpreter {} is not found.",
            named.trim_end()
        ),
        Some(named) => format!("The interpreter {named}, named in the first line of {program}, does not exist."),
        None => format!("{program} exists, but the loader or interpreter it needs does not."),
    }
}

fn no_format(program: &str, beginning: &[u8]) -> String {
    if beginning.is_empty() {
        return format!("{program} is empty.");
    }
    if beginning.starts_with(b"\x7fELF") {
        return format!("{program} was built for another kind of machine.");
    }
    format!("{program} is no program for this system; a script needs a first line such as #!/bin/sh.")
}

fn interpreter(beginning: &[u8]) -> Option<String> {
    let line = beginning.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let word = line.split(|byte| matches!(byte, b' ' | b'\t')).find(|word| !word.is_empty())?;
    Some(String::from_utf8_lossy(word).into_owned())
}

/// Names the part that is too large, and the limit it passes.
fn too_big(request: &LaunchRequest) -> String {
    if cfg!(target_os = "linux") {
        let long = |strings: &[CString]| strings.iter().position(|text| text.count_bytes() >= STRING_BYTES_MAX);
        if let Some(place) = long(&request.argv) {
            let bytes = request.argv[place].count_bytes();
            return format!(
                "Argument {place} of the command has {bytes} bytes, and one string may have {}.",
                STRING_BYTES_MAX - 1
            );
        }
        if let Some(place) = long(&request.env) {
            let entry = request.env[place].to_bytes();
            let name = entry.split(|byte| *byte == b'=').next().unwrap_or_default();
            return format!(
                "The environment variable {} has {} bytes with its name, and one string may have {}.",
                String::from_utf8_lossy(name),
                entry.len(),
                STRING_BYTES_MAX - 1
            );
        }
    }
    let bytes = |strings: &[CString]| -> usize { strings.iter().map(|text| text.count_bytes() + 1).sum() };
    let limit = nix::unistd::sysconf(nix::unistd::SysconfVar::ARG_MAX).ok().flatten().unwrap_or(0);
    format!(
        "The command has {} bytes and the environment {}, together more than the system takes (about {limit}).",
        bytes(&request.argv),
        bytes(&request.env)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(error: Errno, beginning: &[u8], expected: &str) {
        let request = LaunchRequest {
            argv: vec![c"./x".to_owned()],
            env: Vec::new(),
            directory: "/".into(),
            cwd: "".into(),
            confined: false,
            signal: crate::protocol::state::Signal::Term,
            grace_ms: 0,
            pipe_bytes: 0,
        };
        let hint = execute_hint(error, &request, "./x", beginning);
        assert!(hint.contains(expected), "{hint:?} should say {expected:?}");
        assert!(hint.ends_with('.') && !hint.contains('\n'), "{hint:?} is one sentence");
    }

    #[test]
    fn a_hint_says_what_is_missing() {
        check(Errno::NOENT, b"#!/no/such/sh -e\necho", "The interpreter /no/such/sh,");
        check(Errno::NOENT, b"#!/bin/sh\r\necho", "carriage return");
        check(Errno::NOENT, b"\x7fELF", "the loader or interpreter");
        check(Errno::NOEXEC, b"echo hi\n", "#!/bin/sh");
        check(Errno::NOEXEC, b"", "is empty");
        check(Errno::NOEXEC, b"\x7fELF\x01", "another kind of machine");
        check(Errno::MFILE, b"", "ulimit -n");
        check(Errno::AGAIN, b"", "pids.max");
        check(Errno::TOOBIG, b"", "together more");
    }
}
