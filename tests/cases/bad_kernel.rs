//! K: a kernel that gives no pidfds. That changes the whole process, so it meets the program as a child of ours.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::running;

const PROGRAM: &str = env!("CARGO_BIN_EXE_procession");

/// The launcher that takes pidfds away, built in `directory`.
fn no_pidfd(directory: &Path) -> PathBuf {
    let program = directory.join("no_pidfd");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/no_pidfd.c");
    let built = Command::new("cc").args(["-Wall", "-Wextra", "-o"]).arg(&program).arg(source).status();
    assert!(built.expect("there is a C compiler").success());
    program
}

fn check(launcher: &Path, errno: i32, arguments: &[&str], code: i32) {
    let mut command = Command::new(launcher);
    command.arg(errno.to_string()).arg(PROGRAM).arg("run").args(arguments).env("XDG_CONFIG_HOME", "/nonexistent");
    let output = command.output().expect("it runs");
    assert_eq!(output.status.code(), Some(code), "{errno}: {arguments:?}: {output:?}");
}

#[test]
fn r111_without_pidfds_commands_end_as_they_should_and_leave_nothing() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let launcher = no_pidfd(directory.path());
    const EPERM: i32 = 1;
    const ENOSYS: i32 = 38;
    for errno in [EPERM, ENOSYS] {
        check(&launcher, errno, &["--", "sh", "-c", "exit 3"], 3);
        check(&launcher, errno, &["--timeout-ms", "100", "--", "sleep", "71101"], 124);
        check(&launcher, errno, &["--shell", "--", "sleep 71102 >/dev/null 2>&1 & exit 0"], 0);
        for line in ["sleep 71101", "sleep 71102"] {
            assert!(running(line).is_empty(), "{errno}: {line}");
        }
    }
}
