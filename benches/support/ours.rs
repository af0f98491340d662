//! Ours: a host with limits out of the way, on a runtime of two workers, as an embedder would run it.
//!
//! What is measured runs in tasks of that runtime. The main thread only waits for them to end: a thread that waits
//! is woken late, and that would be counted as ours.

use std::future::Future;

use procession::protocol::settings::{EnvInherit, HostSettings};
use procession::{Agent, ContainmentKind, Host, Process, Spec};
use tokio::runtime::{Builder, Runtime};

use super::census;

/// As many as the smallest server has cores.
const WORKERS: usize = 2;
/// Beyond what any bench asks for.
const LIVE_MAX: u32 = 100_000;
const FINISHED_MAX: u32 = 1_000_000;
const SESSIONS_MAX: u32 = 10_000;
const PARKED_MAX: u32 = 1_000_000;

/// A host and its runtime. Dropping it shuts the host down, which must leave nothing.
pub struct Ours {
    host: Host,
    runtime: Runtime,
}

impl Ours {
    pub fn start() -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(WORKERS).enable_all().build().expect("a runtime");
        let environment = census::environment().into_iter().map(|variable| {
            let (name, value) = variable.split_once('=').expect("NAME=value");
            (name.into(), value.into())
        });
        let builder = Host::builder().settings(settings()).directory("/").environment(environment.collect());
        let host = runtime.block_on(builder.start()).expect("a host");
        Self { host, runtime }
    }

    /// Runs work as a task of the runtime, and waits for it.
    pub fn run<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> T {
        self.runtime.block_on(self.runtime.spawn(work)).expect("the task does not panic")
    }

    /// An agent of its own session.
    pub fn agent(&self, session: usize) -> Agent {
        let name = format!("session-{session}").parse().expect("a name by its rule");
        self.host.session(name).agent("main".parse().expect("a name by its rule"))
    }

    /// Ends everything.
    pub fn shutdown(&self) {
        let host = self.host.clone();
        let done = self.run(async move { host.shutdown().await }).expect("a shutdown");
        assert!(done.unconfirmed.is_empty(), "nothing is left: {:?}", done.unconfirmed);
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.shutdown();
        }
    }
}

/// The program that the floor gets as `argv`.
pub fn spec<S: AsRef<str>>(argv: &[S]) -> Spec {
    Spec::argv(argv.iter().map(|word| word.as_ref().to_owned()))
}

/// `/bin/sh -c script`, as the floor runs it.
pub fn shell(script: &str) -> Spec {
    spec(&["/bin/sh", "-c", script])
}

/// Waits for the end of a process, which must have ended by itself.
pub async fn wait(process: &Process) {
    let answer = process.wait(None).await.expect("an answer");
    assert_eq!(answer.outcome, procession::Outcome::Satisfied, "it has ended, and nothing of it is left");
}

fn settings() -> HostSettings {
    let mut settings = procession::config::defaults();
    settings.limits.live_per_host = LIVE_MAX;
    settings.limits.finished_per_host = FINISHED_MAX;
    settings.limits.sessions = SESSIONS_MAX;
    for profile in settings.profiles.values_mut() {
        profile.limits.live_per_session = LIVE_MAX;
        profile.limits.finished_per_session = FINISHED_MAX;
        profile.limits.parked_calls_per_session = PARKED_MAX;
        profile.env.inherit = EnvInherit::All;
        // Without a broker beside it a bench launches by itself; what it reports says which.
        profile.containment_require = ContainmentKind::Group;
    }
    settings
}
