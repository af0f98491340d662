//! What every test here uses: a launcher for each set of means, a case for each process, and the census.

use crate::pause::look_again;
use std::ffi::CString;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use procession::os::in_process::InProcess;
use procession::os::launch::{Fact, LaunchError, LaunchRequest, Launcher, Tree};
use procession::os::means::Means;
use procession::os::pipe::Pipe;
use procession::os::subtree::{Plan, Subtree};
use procession::protocol::state::{Exit, Proof, Signal, Survivor};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// No wait in these tests is longer; it is met only by a failure.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// The program that serves as the broker.
pub const GUARDIAN: &str = env!("CARGO_BIN_EXE_procession-guardian");

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// The sets of means that are tried: what the kernel offers, group by number, and neither process descriptors
/// nor `closefrom`.
pub fn every_means() -> Vec<Means> {
    let best = Means::probe();
    let mut all = vec![best, Means { pidfd_group: false, ..best }, Means::NONE];
    all.dedup();
    all
}

/// Runs a test once for every set of means, and takes the census after each.
pub fn check<F: Future<Output = ()>>(test: impl Fn(Bench) -> F) {
    check_with(every_means, &test);
    check_guarded(test);
}

/// Runs a test under guardians, and takes the census after it.
pub fn check_guarded<F: Future<Output = ()>>(test: impl Fn(Bench) -> F) {
    let _alone = alone();
    let before = descriptors();
    let runtime = runtime(512);
    let directory = tempfile::tempdir().unwrap();
    let plan = Plan { image: GUARDIAN.into(), spares: 2, grace_ms: 5000, silence_ms: 0 };
    let launcher = Subtree::start(runtime.handle().clone(), plan).expect("a broker");
    let directory_path = directory.path().to_owned();
    let means = Means::probe();
    let bench =
        Bench { launcher: std::sync::Arc::new(launcher), directory: directory_path, means, proof: Proof::NoChildren };
    runtime.block_on(test(bench));
    drop(runtime);
    drop(directory);
    census(&before, means);
}

pub fn check_with<F: Future<Output = ()>>(all: impl Fn() -> Vec<Means>, test: impl Fn(Bench) -> F) {
    let _alone = alone();
    // Asked for with nobody else about: asking opens a descriptor for a moment.
    for means in all() {
        let descriptors = descriptors();
        let runtime = runtime(512);
        let directory = tempfile::tempdir().unwrap();
        let bench = Bench {
            launcher: std::sync::Arc::new(InProcess::with_means(runtime.handle().clone(), means)),
            directory: directory.path().to_owned(),
            means,
            proof: Proof::GroupGone,
        };
        runtime.block_on(test(bench));
        drop(runtime);
        drop(directory);
        census(&descriptors, means);
    }
}

/// Keeps other tests out. The first runtime of a program opens descriptors that stay: it is made before any count.
pub fn alone() -> std::sync::MutexGuard<'static, ()> {
    let alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    drop(runtime(1));
    alone
}

pub fn runtime(blocking_threads_max: usize) -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(blocking_threads_max)
        .enable_all()
        .build()
        .unwrap()
}

/// Shows that nothing is left: no child (a zombie is one), and the descriptors of before.
pub fn census(before: &[String], means: Means) {
    assert_eq!(children(), Vec::<String>::new(), "children left with {means:?}");
    assert_eq!(descriptors(), before, "descriptors left with {means:?}");
}

/// Children of this process, zombies among them.
pub fn children() -> Vec<String> {
    let mut found = Vec::new();
    for task in std::fs::read_dir("/proc/self/task").unwrap() {
        let list = task.unwrap().path().join("children");
        found.extend(std::fs::read_to_string(list).unwrap_or_default().split_whitespace().map(str::to_owned));
    }
    found
}

pub fn descriptors() -> Vec<String> {
    let names = std::fs::read_dir("/proc/self/fd").unwrap().map(|entry| entry.unwrap().path());
    let mut open: Vec<_> = names
        .filter_map(|path| Some((path.file_name()?.to_str()?.to_owned(), std::fs::read_link(&path).ok()?)))
        .filter(|(_, target)| !target.to_string_lossy().starts_with("/proc/"))
        .map(|(number, target)| format!("{number} {}", target.display()))
        .collect();
    open.sort();
    open
}

/// The numbers of live processes whose arguments contain `mark`.
pub fn carrying(mark: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let text = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let words: Vec<_> = text.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
        if words.iter().any(|word| word == mark) {
            found.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    found
}

/// A launcher with its means and a directory that goes away with the test.
#[derive(Clone)]
pub struct Bench {
    pub launcher: std::sync::Arc<dyn Launcher>,
    pub directory: std::path::PathBuf,
    pub means: Means,
    /// What shows that nothing is left.
    pub proof: Proof,
}

impl Bench {
    pub fn request(&self, argv: &[&str]) -> LaunchRequest {
        request(&self.directory, argv)
    }

    pub fn launch(&self, request: LaunchRequest) -> Case {
        let (sender, facts) = unbounded_channel();
        let tree = self.launcher.launch(
            request,
            Box::new(move |fact| {
                let _ = sender.send(fact);
            }),
        );
        Case { tree: Some(tree), facts, stdout: None, stderr: None, proof: self.proof }
    }

    /// How many children this program has by itself: a broker, if there is one.
    pub fn own_children(&self) -> usize {
        usize::from(self.proof == Proof::NoChildren)
    }

    pub fn sh(&self, script: &str) -> Case {
        self.launch(self.request(&["sh", "-c", script]))
    }

    /// Launches what cannot be launched.
    pub async fn refused(&self, request: LaunchRequest) -> LaunchError {
        let mut case = self.launch(request);
        let fact = case.next().await;
        let Fact::LaunchFailed(error) = fact else { panic!("should have failed: {fact:?}") };
        assert!(error.hint.ends_with('.') && !error.hint.contains('\n'), "one sentence: {error:?}");
        drop(case.tree.take());
        assert!(case.facts.recv().await.is_none(), "nothing follows a failed launch");
        error
    }
}

pub fn c(text: &str) -> CString {
    CString::new(text).unwrap()
}

pub fn request(directory: &Path, argv: &[&str]) -> LaunchRequest {
    LaunchRequest {
        argv: argv.iter().map(|word| c(word)).collect(),
        env: vec![c(&format!("PATH={}", std::env::var("PATH").unwrap()))],
        directory: directory.to_owned(),
        cwd: "".into(),
        confined: true,
        signal: Signal::Term,
        grace_ms: 1000,
        pipe_bytes: 64 * 1024,
    }
}

/// One process.
pub struct Case {
    pub tree: Option<Box<dyn Tree>>,
    pub facts: UnboundedReceiver<Fact>,
    pub stdout: Option<Pipe>,
    pub stderr: Option<Pipe>,
    proof: Proof,
}

impl Case {
    pub fn tree(&self) -> &dyn Tree {
        self.tree.as_deref().unwrap()
    }

    pub async fn next(&mut self) -> Fact {
        let fact = tokio::time::timeout(PATIENCE, self.facts.recv()).await.expect("a fact in time");
        fact.expect("a fact before the end")
    }

    pub async fn launched(mut self) -> Self {
        match self.next().await {
            Fact::Launched { stdout, stderr } => {
                self.stdout = Some(stdout);
                self.stderr = Some(stderr);
            }
            other => panic!("not launched: {other:?}"),
        }
        self
    }

    pub async fn root_end(&mut self) -> Exit {
        match self.next().await {
            Fact::RootEnded(exit) => exit,
            other => panic!("the root's end was expected: {other:?}"),
        }
    }

    pub async fn leftovers(&mut self) -> usize {
        match self.next().await {
            Fact::Leftovers(count) => count,
            other => panic!("leftovers were expected: {other:?}"),
        }
    }

    pub async fn survivors(&mut self) -> Vec<Survivor> {
        match self.next().await {
            Fact::Survivors(list) => list,
            other => panic!("survivors were expected: {other:?}"),
        }
    }

    /// The last fact, and nothing after it.
    pub async fn gone(mut self) {
        let fact = self.next().await;
        assert!(matches!(fact, Fact::Gone(proof) if proof == self.proof), "{fact:?}");
        drop(self.tree.take());
        assert!(self.facts.recv().await.is_none(), "nothing follows");
    }

    /// The root's end, and nothing left behind.
    pub async fn ends(mut self) -> Exit {
        let exit = self.root_end().await;
        self.gone().await;
        exit
    }

    /// `Gone`, perhaps after leftovers were told.
    pub async fn gone_somehow(mut self) {
        match self.next().await {
            Fact::Gone(proof) if proof == self.proof => {
                drop(self.tree.take());
                assert!(self.facts.recv().await.is_none(), "nothing follows");
            }
            Fact::Leftovers(count) => {
                assert!(count > 0);
                self.gone().await;
            }
            other => panic!("the end was expected: {other:?}"),
        }
    }

    /// The root's end, whatever it leaves for a moment.
    pub async fn ends_somehow(mut self) -> Exit {
        let exit = self.root_end().await;
        self.gone_somehow().await;
        exit
    }

    /// Reads standard output up to and including `end`.
    pub async fn read_until(&mut self, end: &str) -> String {
        let stdout = self.stdout.as_mut().unwrap();
        let mut text = Vec::new();
        while !String::from_utf8_lossy(&text).contains(end) {
            let read = tokio::time::timeout(PATIENCE, stdout.read(&mut text, 4096)).await.expect("output in time");
            assert_ne!(read.unwrap(), 0, "the end came before {end:?}: {:?}", String::from_utf8_lossy(&text));
        }
        String::from_utf8(text).unwrap()
    }

    /// Everything on both streams.
    pub async fn output(&mut self) -> (String, String) {
        let mut texts = [Vec::new(), Vec::new()];
        for (pipe, text) in [&mut self.stdout, &mut self.stderr].into_iter().zip(&mut texts) {
            let all = async { while pipe.as_mut().unwrap().read(text, 65536).await.unwrap() > 0 {} };
            tokio::time::timeout(PATIENCE, all).await.expect("the end of output in time");
        }
        let [stdout, stderr] = texts.map(|text| String::from_utf8_lossy(&text).into_owned());
        (stdout, stderr)
    }
}

/// Waits until a process is in one of `states`, as `/proc` says; there is no event for it.
pub async fn until_state(pid: &str, states: &str) {
    let deadline = std::time::Instant::now() + PATIENCE;
    loop {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let state = stat.rsplit(')').next().and_then(|rest| rest.trim().chars().next()).unwrap_or('-');
        if states.contains(state) {
            return;
        }
        assert!(std::time::Instant::now() < deadline, "{pid} is {state:?}, not one of {states:?}");
        look_again().await;
    }
}

/// Waits until nobody has `mark` among its arguments: who was killed together ends one after the other.
pub async fn until_nobody_carries(mark: &str) {
    let deadline = std::time::Instant::now() + PATIENCE;
    while !carrying(mark).is_empty() {
        assert!(std::time::Instant::now() < deadline, "{mark} still runs");
        look_again().await;
    }
}

/// Waits until this program has so many children.
pub async fn until_no_children(but: usize) {
    let deadline = std::time::Instant::now() + PATIENCE;
    while children().len() != but {
        assert!(std::time::Instant::now() < deadline, "{:?} are left", children());
        look_again().await;
    }
}
