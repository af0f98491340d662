//! The program that output benches read from: the bench itself, executed again with other arguments.
//!
//! It writes lines of 80 bytes, in writes of the size asked for and with no buffer of its own, so that what is
//! measured is the reader. What stands at each position is known, so that a reader can be checked.

use std::env;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::process;

const FLAG: &str = "--writer";
/// Bytes of one line, its newline included.
pub const LINE_BYTES: usize = 80;

/// The arguments, program included, that write `total` bytes, `chunk` at a time.
pub fn arguments(chunk: usize, total: u64) -> Vec<String> {
    let program = env::current_exe().expect("/proc is mounted").into_os_string();
    let program = program.into_string().expect("a build directory with a UTF-8 name");
    vec![program, FLAG.into(), chunk.to_string(), total.to_string()]
}

/// First line of every bench's `main`: in the re-executed process this writes and does not return.
pub fn run_if_asked() {
    let arguments: Vec<String> = env::args().collect();
    if let [_, flag, chunk, total] = arguments.as_slice()
        && flag == FLAG
    {
        let chunk = chunk.parse().expect("a number of bytes");
        let total = total.parse().expect("a number of bytes");
        process::exit(write_lines(chunk, total));
    }
}

/// What the writer puts at `position` of its output: lines, begun anew with each write.
pub fn byte_at(chunk: usize, position: u64) -> u8 {
    let column = position % chunk as u64 % LINE_BYTES as u64;
    if column == LINE_BYTES as u64 - 1 { b'\n' } else { b'x' }
}

fn write_lines(chunk: usize, total: u64) -> i32 {
    let stdout = io::stdout().as_fd().try_clone_to_owned().expect("a free descriptor");
    let mut unbuffered = File::from(stdout);
    let bytes: Vec<u8> = (0..chunk as u64).map(|position| byte_at(chunk, position)).collect();
    let mut left = total;
    while left > 0 {
        let count = left.min(chunk as u64) as usize;
        match unbuffered.write_all(&bytes[..count]) {
            Ok(()) => left -= count as u64,
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return 1,
            Err(error) => panic!("writing: {error}"),
        }
    }
    0
}
