//! The harness: boots a host in a temporary directory, speaks only requests and responses, waits for named events,
//! and ends with a census: no process that carries the host's mark, no child of ours, descriptors as at the start.
//!
//! [`Bench::ended`] is the end of a test. Where a test fails before it, the census names and kills what is left, without
//! a second panic.

#![allow(dead_code, reason = "each test binary uses its part")]

pub mod census;
#[cfg(feature = "cli")]
pub mod door;
pub mod pause;
#[cfg(target_os = "linux")]
pub mod probe;

use std::ffi::OsString;
use std::sync::atomic::{AtomicU64, Ordering};

use procession::protocol::call::{Call, Caller, Origin};
use procession::protocol::settings::{HostSettings, SessionSettings};
use procession::{Agent, AgentName, Host, Process, Proof, SessionName, Spec, Status};
use serde_json::{Value, json};

use census::{Census, LOOKS};
use pause::look_again;

/// Longest wait of a test for something that will come, in milliseconds.
pub const PATIENCE_MS: u64 = 20_000;

/// Numbers the hosts of one test binary.
static BENCHES: AtomicU64 = AtomicU64::new(0);

/// A mark that no other host bears.
pub fn fresh_mark() -> String {
    format!("{}-{}", std::process::id(), BENCHES.fetch_add(1, Ordering::Relaxed))
}

/// Whether guardians own the trees of the hosts under test. With PROCESSION_TEST_IN_PROCESS set those hosts find no
/// broker and launch by themselves, as on other systems.
pub fn guarded() -> bool {
    cfg!(target_os = "linux") && std::env::var_os("PROCESSION_TEST_IN_PROCESS").is_none()
}

/// The broker that the hosts under test are told.
pub fn broker() -> &'static str {
    if guarded() { env!("CARGO_BIN_EXE_procession-guardian") } else { "/nonexistent/procession-guardian" }
}

/// What proves that a tree is gone, with this containment.
pub fn proof() -> Proof {
    if guarded() { Proof::NoChildren } else { Proof::GroupGone }
}

/// One host in a directory of its own.
pub struct Bench {
    /// The host.
    pub host: Host,
    /// The directory of its sessions.
    pub directory: tempfile::TempDir,
    census: Census,
}

impl Bench {
    /// A host with the defaults, but for short graces.
    pub async fn new() -> Self {
        Bench::with(|_, _| {}).await
    }

    /// A host with settings changed by `change`, which gets the host's and the default profile's.
    pub async fn with(change: impl FnOnce(&mut HostSettings, &mut SessionSettings)) -> Self {
        let mark = fresh_mark();
        let census = Census::begin(&mark);
        let directory = tempfile::tempdir().expect("a temporary directory");
        let mut settings = procession::config::defaults();
        let mut profile = settings.profiles["default"].clone();
        profile.env.pass.push(census::MARK.to_owned());
        profile.stop.grace_ms = 1000;
        profile.stop.confirm_ms = 2000;
        settings.broker.path = Some(broker().into());
        if !guarded() {
            profile.containment_require = procession::ContainmentKind::Group;
        }
        change(&mut settings, &mut profile);
        settings.profiles.insert("default".to_owned(), profile);
        let mut environment: Vec<(OsString, OsString)> = std::env::vars_os().collect();
        environment.push((census::MARK.into(), mark.into()));
        let builder = Host::builder().settings(settings).directory(directory.path()).environment(environment);
        let host = builder.start().await.expect("a host");
        Bench { host, directory, census }
    }

    /// Agent `main` of session `s`.
    pub fn agent(&self) -> Agent {
        self.agent_of("s", "main")
    }

    /// An agent of a session.
    pub fn agent_of(&self, session: &str, agent: &str) -> Agent {
        self.host.session(name(session)).agent(agent.parse::<AgentName>().expect("an agent's name"))
    }

    /// Starts a command as agent `main` of session `s`.
    pub async fn start(&self, command: &str) -> Process {
        self.agent().start(Spec::command(command)).await.unwrap_or_else(|error| panic!("{command}: {error}"))
    }

    /// Starts a command and waits for its end.
    pub async fn run(&self, command: &str) -> (Process, Status) {
        let process = self.start(command).await;
        let status = settled(&process).await;
        (process, status)
    }

    /// One call as JSON: the operator's where `agent` is absent.
    pub async fn call(&self, session: &str, agent: Option<&str>, call: Value) -> Result<Value, Value> {
        let caller = agent.map_or(Caller::Operator, |agent| Caller::Agent(agent.parse().expect("an agent's name")));
        let origin = Origin { session: name(session), caller, request: None };
        let answer = match Call::parse(call) {
            Ok(call) => self.host.call(origin, call).await,
            Err(error) => Err(error),
        };
        answer.map(|answer| json!(answer)).map_err(|error| json!(error))
    }

    /// The pids of this host's live processes whose command line is exactly `line`. Observed from outside the product,
    /// and blind to what other runs of the same test start.
    pub fn running(&self, line: &str) -> Vec<i32> {
        self.census.marked().into_iter().filter(|pid| running(line).contains(pid)).collect()
    }

    /// Waits until `count` such processes run: the kernel tells nobody when a shell has become another program, and a
    /// program's command line stands there a moment after it was executed.
    pub async fn appeared(&self, line: &str, count: usize) {
        for _ in 0..LOOKS {
            let found = self.running(line).len();
            assert!(found <= count, "{found} of {line}, {count} were expected");
            if found == count {
                return;
            }
            look_again().await;
        }
        panic!("{count} of {line} never ran");
    }

    /// Shuts the host down and counts what is left: nothing.
    pub async fn ended(self) {
        let answer = self.host.shutdown().await.expect("an orderly end");
        assert_eq!(answer.unconfirmed, [], "everything is confirmed to be gone");
        let Bench { host, directory, census } = self;
        drop(host);
        census.end().await;
        drop(directory);
    }

    /// Drops the host, which must be the last handle, and counts what is left: nothing.
    pub async fn dropped(self) {
        let Bench { host, directory, census } = self;
        drop(host);
        census.end().await;
        drop(directory);
    }
}

/// A session's name.
pub fn name(session: &str) -> SessionName {
    session.parse().expect("a session's name")
}

/// Waits for the end of a process.
pub async fn settled(process: &Process) -> Status {
    let waited = process.wait(Some(PATIENCE_MS)).await.expect("a wait");
    assert_eq!(waited.outcome, procession::Outcome::Satisfied, "{waited:?}");
    process.status().await.expect("a status")
}

/// Everything a process wrote that is retained, as text, page by page.
pub async fn text(process: &Process) -> String {
    let (mut cursor, mut text) = (0, String::new());
    loop {
        let page = process.output().from(cursor).page().await.expect("a page");
        text += &page.text();
        if page.next_cursor == cursor || page.next_cursor == page.end {
            return text;
        }
        cursor = page.next_cursor;
    }
}

/// Waits until a process has written `wanted`.
pub async fn written(process: &Process, wanted: &str) {
    let (mut cursor, mut seen) = (0, String::new());
    while !seen.contains(wanted) {
        let page = process.output().from(cursor).wait_ms(PATIENCE_MS).page().await.expect("a page");
        assert!(page.next_cursor > cursor, "{wanted:?} never came; there is {seen:?}");
        seen += &page.text();
        cursor = page.next_cursor;
    }
}

/// The pids of live processes whose command line is exactly `line`. Observed from outside the product.
pub fn running(line: &str) -> Vec<i32> {
    census::processes()
        .filter(|pid| {
            let read = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let shown = String::from_utf8_lossy(&read).trim_end_matches('\0').replace('\0', " ");
            shown == line && census::alive(*pid)
        })
        .collect()
}
