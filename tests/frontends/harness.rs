//! The program under test on pipes of ours, and a census of what it leaves behind.

use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

/// The longest anything here may take. Only a failing test meets it.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// The program, with arguments of ours and no configuration of whoever runs the test.
pub fn procession(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_procession"));
    command.args(arguments).env("XDG_CONFIG_HOME", "/nonexistent").kill_on_drop(true);
    command
}

/// A number of seconds to sleep that nobody else sleeps, by which a process is found again.
pub struct Mark(String);

impl Mark {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        Mark(format!("9{:08}.{:04}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)))
    }

    /// A shell command that lives until it is ended.
    pub fn lives(&self) -> String {
        format!("sleep {}", self.0)
    }

    /// Pids whose command line bears the mark.
    pub fn census(&self) -> Vec<String> {
        let entries = std::fs::read_dir("/proc").expect("/proc").flatten();
        let pids = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let bears = |pid: &String| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).split('\0').any(|word| word.contains(&self.0))
        };
        pids.filter(|pid| pid.bytes().all(|byte| byte.is_ascii_digit())).filter(bears).collect()
    }

    pub fn check_gone(&self) {
        assert_eq!(self.census(), Vec::<String>::new(), "left behind");
    }
}

/// A program that speaks lines of JSON.
pub struct Peer {
    pub child: Child,
    writer: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Peer {
    pub fn start(arguments: &[&str]) -> Self {
        let mut command = procession(arguments);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the program starts");
        let writer = child.stdin.take();
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        Peer { child, writer, lines }
    }

    pub async fn send(&mut self, message: Value) {
        let line = format!("{message}\n");
        self.writer.as_mut().expect("open").write_all(line.as_bytes()).await.expect("written");
    }

    /// The next line; none at the end.
    pub async fn next(&mut self) -> Option<Value> {
        let line = timeout(PATIENCE, self.lines.next_line()).await.expect("in time").expect("read");
        line.map(|line| serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line:?}: {error}")))
    }

    /// Reads on to the answer to `id`.
    pub async fn answer(&mut self, id: u64) -> Value {
        loop {
            let line = self.next().await.expect("an answer");
            if line["id"] == id {
                return line;
            }
        }
    }

    pub fn close(&mut self) {
        self.writer = None;
    }

    /// Closes our side; everything still said, and how the program ended.
    pub async fn end(mut self) -> (Vec<Value>, ExitStatus) {
        self.close();
        let mut rest = Vec::new();
        while let Some(line) = self.next().await {
            rest.push(line);
        }
        (rest, self.status().await)
    }

    pub async fn status(&mut self) -> ExitStatus {
        timeout(PATIENCE, self.child.wait()).await.expect("in time").expect("waited for")
    }
}
