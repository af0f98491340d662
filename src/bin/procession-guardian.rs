//! The broker as a program of its own, for hosts whose image cannot serve as one.

use std::process::ExitCode;

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    procession::os::guardian::main()
}

#[cfg(not(target_os = "linux"))]
fn main() -> ExitCode {
    eprintln!("procession-guardian: trees are owned so on Linux only");
    ExitCode::FAILURE
}
