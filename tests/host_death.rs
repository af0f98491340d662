//! The host dies, in every way and at any moment, and nothing that it started outlives it.
//!
//! `procession rpc` is killed at random moments in a stream of starts and stops. This test is a subreaper, so whatever
//! nobody owns any more becomes its child: that the kernel says "no child" is the census, brokers and guardians
//! included. PROCESSION_TEST_ROUNDS=200 is the full run.

#![cfg(all(feature = "cli", target_os = "linux"))]

mod support;

use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use rustix::process::{PidfdFlags, PidfdGetfdFlags, pidfd_getfd};
use serde_json::{Value, json};
use support::census::{MARK, carrying, descendants};
use support::pause::{look_again_blocking, spend_blocking};
use support::probe::{probe, rounds};
use support::{fresh_mark, guarded};

/// Milliseconds between TERM and KILL of the hosts here.
const GRACE_MS: u64 = 200;
/// The longest time until nothing is left. The contract says grace and 2 s; a loaded machine gets more.
const END: Duration = Duration::from_secs(15);
/// Until that moment of the stream a death may come, in microseconds.
const STREAM_US: u64 = 300_000;
/// Lines of the stream.
const LINES: u64 = 60;

/// One test at a time: each waits until this process has no child at all.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    let guard = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    nix::sys::prctl::set_child_subreaper(true).expect("Linux has subreapers");
    guard
}

/// A host in a process of its own, its answers as they come.
struct Host {
    child: Child,
    stdin: Option<ChildStdin>,
    answers: mpsc::Receiver<Value>,
    mark: String,
    directory: tempfile::TempDir,
}

impl Host {
    fn start() -> Host {
        Host::with(&[])
    }

    fn with(settings: &[&str]) -> Host {
        let mark = fresh_mark();
        let directory = tempfile::tempdir().expect("a temporary directory");
        let mut command = Command::new(env!("CARGO_BIN_EXE_procession"));
        command.arg("rpc").args(["--set", &format!("env.pass=[\"{MARK}\"]")]);
        command.args(["--set", &format!("stop.grace_ms={GRACE_MS}")]).current_dir(directory.path());
        command.args(settings.iter().flat_map(|setting| ["--set", setting]));
        command.env("XDG_CONFIG_HOME", "/nonexistent").env(MARK, &mark);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a host starts");
        let stdin = child.stdin.take();
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let (sender, answers) = mpsc::channel();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                // A line that the host's death cut is no answer.
                if let Ok(answer) = serde_json::from_str::<Value>(&line) {
                    let _ = sender.send(answer);
                }
            }
        });
        let host = Host { child, stdin, answers, mark: format!("{MARK}={mark}"), directory };
        assert_eq!(host.answer()["hello"]["protocol"], 1);
        host
    }

    fn answer(&self) -> Value {
        self.answers.recv_timeout(END).expect("an answer")
    }

    fn send(&mut self, id: u64, session: &str, call: &Value) {
        let line = json!({"id": id, "session": session, "agent": "main", "call": call});
        // A host that was killed meanwhile takes nothing.
        let _ = writeln!(self.stdin.as_mut().expect("open"), "{line}");
    }

    fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// The broker, which is the host's only child, and the guardians.
    fn helpers(&self) -> (Vec<i32>, Vec<i32>) {
        let below = descendants(self.pid());
        let named = |name: &str| below.iter().filter(|(_, found, _)| found == name).map(|(pid, ..)| *pid).collect();
        let mut brokers: Vec<i32> = named("procession-brok");
        // A guardian that was forked this moment still has its name.
        brokers.truncate(1);
        (brokers, named("procession-guar"))
    }

    /// A stream of starts that replace each other, and of stops.
    fn stream(&mut self) {
        let kinds: [&[&str]; 5] = [&["setsid"], &["daemon"], &["ignore"], &["reparent", "5"], &["deep", "6"]];
        for id in 0..LINES {
            let (session, label) = (format!("s{}", id % 5), format!("l{}", id % 3));
            let call = match id % 4 {
                3 => json!({"action": "stop", "process_id": label}),
                _ => {
                    let kind = kinds[(id as usize * 7) % kinds.len()];
                    let argv: Vec<&str> = [probe()].into_iter().chain(kind.iter().copied()).collect();
                    json!({"action": "start", "argv": argv, "label": label, "on_conflict": "replace"})
                }
            };
            self.send(id, &session, &call);
        }
    }

    /// Starts processes that want to stay, and waits until they run.
    fn settle_in(&mut self) {
        for (id, kind) in (1000..).zip(["setsid", "daemon", "reparent"]) {
            self.send(id, "stay", &json!({"action": "start", "argv": [probe(), kind]}));
            assert_eq!(self.answer()["result"]["state"], "running");
        }
    }

    /// Nothing is left of it, itself included. Gives how long that took, from `since`.
    fn census(self, since: Instant) -> Duration {
        loop {
            match waitpid(Pid::from_raw(-1), Some(WaitPidFlag::WNOHANG)) {
                Err(Errno::ECHILD) => break,
                Ok(WaitStatus::StillAlive) => {
                    let left = descendants(std::process::id().cast_signed());
                    assert!(since.elapsed() < END, "left behind: {left:?}");
                    look_again_blocking();
                }
                Ok(_) => {}
                Err(error) => panic!("{error}"),
            }
        }
        let took = since.elapsed();
        assert_eq!(carrying(&self.mark), [0; 0], "nobody is left under anybody else either");
        took
    }
}

/// A test that failed leaves the next ones alone.
impl Drop for Host {
    fn drop(&mut self) {
        if std::thread::panicking() {
            end(self.pid());
        }
    }
}

fn end(pid: i32) {
    // One that has just ended by itself needs no signal.
    let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
}

fn random(below: u64) -> u64 {
    getrandom::u64().expect("random numbers") % below
}

/// Runs the stream, does `death` at some moment of it, and counts what is left; in the end prints the longest time.
fn any_moment(what: &str, death: impl Fn(&mut Host)) {
    if !guarded() {
        return;
    }
    let _alone = alone();
    let mut longest = Duration::ZERO;
    for _ in 0..rounds() {
        let mut host = Host::start();
        // The stream is one burst of lines; the host works on it while the moment comes, which may be any.
        host.stream();
        spend_blocking(Duration::from_micros(random(STREAM_US)));
        let died = Instant::now();
        death(&mut host);
        longest = longest.max(host.census(died));
    }
    println!("{what}: nothing was left after at most {longest:?}, of which {GRACE_MS} ms are the grace");
}

#[test]
fn the_host_is_killed() {
    any_moment("host", |host| end(host.pid()));
}

#[test]
fn the_host_and_its_broker_are_killed() {
    any_moment("host and broker", |host| {
        let (brokers, _) = host.helpers();
        end(host.pid());
        brokers.into_iter().for_each(end);
    });
}

#[test]
fn the_host_and_half_of_its_guardians_are_killed() {
    any_moment("host and guardians", |host| {
        let (_, guardians) = host.helpers();
        end(host.pid());
        guardians.into_iter().step_by(2).for_each(end);
    });
}

#[test]
fn the_broker_is_killed_and_the_host_ends_in_order() {
    any_moment("broker", |host| {
        host.helpers().0.into_iter().for_each(end);
        host.stdin = None;
    });
}

#[test]
fn guardians_are_killed_and_the_host_ends_in_order() {
    any_moment("guardians", |host| {
        host.helpers().1.into_iter().for_each(end);
        host.stdin = None;
    });
}

/// As a service manager does it, who signals everything in the service at once.
#[test]
fn everybody_gets_term_at_once() {
    any_moment("everybody", |host| {
        let (brokers, guardians) = host.helpers();
        for pid in [host.pid()].into_iter().chain(brokers).chain(guardians) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
        }
    });
}

#[test]
fn a_host_whose_socket_lives_on_in_a_copy_is_missed_all_the_same() {
    if !guarded() {
        return;
    }
    let _alone = alone();
    for _ in 0..rounds() {
        let mut host = Host::start();
        host.settle_in();
        // We are the copy: every descriptor of the host is held open here.
        let held = held_open(host.pid());
        assert!(!held.is_empty());
        let died = Instant::now();
        end(host.pid());
        host.census(died);
        drop(held);
    }
}

#[test]
fn who_outlives_the_host_gets_the_stop_signal_and_its_grace() {
    if !guarded() {
        return;
    }
    let _alone = alone();
    let mut host = Host::start();
    // Its output has no reader any more: it must not write there.
    let command = "trap 'echo bye >said; exit' TERM; echo up; exec >said.log 2>&1; while :; do sleep 0.01; done";
    host.send(1, "s", &json!({"action": "start", "command": command, "label": "polite"}));
    assert_eq!(host.answer()["result"]["state"], "running");
    host.send(2, "s", &json!({"action": "start", "argv": [probe(), "ignore"], "label": "stubborn"}));
    assert_eq!(host.answer()["result"]["state"], "running");
    for (id, label) in [(3, "polite"), (4, "stubborn")] {
        host.send(id, "s", &json!({"action": "output", "process_id": label, "wait_ms": 10_000}));
        assert_eq!(host.answer()["result"]["chunks"][0]["stream"], "stdout", "it is in its place");
    }
    let said = host.directory.path().join("said");
    end(host.pid());
    let since = Instant::now();
    while !said.exists() {
        assert!(since.elapsed() < END, "the polite one was not asked");
        look_again_blocking();
    }
    let took = host.census(since);
    assert!(took >= Duration::from_millis(GRACE_MS / 2), "the stubborn one had its grace: {took:?}");
}

#[test]
fn a_deadline_holds_while_the_host_is_stopped_and_is_told_when_it_goes_on() {
    if !guarded() {
        return;
    }
    let _alone = alone();
    let mut host = Host::start();
    host.settle_in();
    let argv = [probe(), "jobs", "5"];
    host.send(1, "late", &json!({"action": "start", "argv": argv, "label": "late", "timeout_ms": 60_000}));
    assert_eq!(host.answer()["result"]["state"], "running");
    let of_late = |mark: &str| {
        let line = |pid: &i32| std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        carrying(mark).iter().filter(|pid| String::from_utf8_lossy(&line(pid)).contains("jobs")).count()
    };
    let since = Instant::now();
    while of_late(&host.mark) < 11 {
        assert!(since.elapsed() < END, "eleven never came up");
        look_again_blocking();
    }
    // Moved while it runs, so that what holds is what was said last.
    host.send(2, "late", &json!({"action": "update", "process_id": "late", "timeout_ms": 1000}));
    assert_eq!(host.answer()["result"]["state"], "running");
    let pid = Pid::from_raw(host.pid());
    kill(pid, Signal::SIGSTOP).expect("it is stopped");
    let since = Instant::now();
    while of_late(&host.mark) > 0 {
        assert!(since.elapsed() < END, "the deadline held nobody");
        look_again_blocking();
    }
    assert!(!carrying(&host.mark).is_empty(), "the others go on");
    kill(pid, Signal::SIGCONT).expect("it goes on");
    host.send(3, "late", &json!({"action": "wait", "process_id": "late", "until": {"kind": "exit"}}));
    assert_eq!(host.answer()["result"]["outcome"], "satisfied");
    host.send(4, "late", &json!({"action": "status", "process_id": "late"}));
    let status = host.answer()["result"].take();
    assert_eq!((&status["reason"], &status["cleanup"]), (&json!("deadline"), &json!("confirmed")), "{status}");
    host.stdin = None;
    host.census(Instant::now());
}

/// Beats and the grace without one, short.
const BEATS: &[&str] = &["owner.heartbeat_ms=20", "owner.heartbeat_grace_ms=1000"];

#[test]
fn a_host_that_hangs_loses_its_processes_says_so_when_it_goes_on_and_serves_again() {
    if !guarded() {
        return;
    }
    let _alone = alone();
    // With its broker, and without: then each guardian watches by itself.
    for broker_dies in [false, true] {
        let mut host = Host::with(BEATS);
        host.settle_in();
        host.send(1, "s", &json!({"action": "start", "argv": [probe(), "daemon"], "label": "mine"}));
        assert_eq!(host.answer()["result"]["state"], "running");
        if broker_dies {
            host.helpers().0.into_iter().for_each(end);
        }
        let pid = Pid::from_raw(host.pid());
        // The host's own environment has the mark too, so it must be stopped while others are counted.
        kill(pid, Signal::SIGSTOP).expect("it is stopped");
        let since = Instant::now();
        while carrying(&host.mark).iter().any(|member| *member != host.pid()) {
            assert!(since.elapsed() < END, "left behind: {:?}", carrying(&host.mark));
            look_again_blocking();
        }
        kill(pid, Signal::SIGCONT).expect("it goes on");
        host.send(2, "s", &json!({"action": "wait", "process_id": "mine", "until": {"kind": "exit"}}));
        assert_eq!(host.answer()["result"]["outcome"], "satisfied");
        host.send(3, "s", &json!({"action": "status", "process_id": "mine"}));
        let status = host.answer()["result"].take();
        assert_eq!((&status["reason"], &status["cleanup"]), (&json!("owner_lost"), &json!("confirmed")), "{status}");
        // Its spares have ended too; new ones are made, and by a broker that lives.
        host.send(4, "s", &json!({"action": "start", "argv": [probe(), "setsid"], "label": "next"}));
        let next = host.answer();
        assert_eq!(next["result"]["state"], "running", "{next}");
        host.send(5, "s", &json!({"action": "stop", "process_id": "next"}));
        assert_eq!(host.answer()["result"]["cleanup"], "confirmed");
        host.stdin = None;
        host.census(Instant::now());
    }
}

#[test]
fn a_suspended_machine_kills_nothing() {
    if !guarded() {
        return;
    }
    let _alone = alone();
    let mut host = Host::with(BEATS);
    host.settle_in();
    let (brokers, guardians) = host.helpers();
    let everybody: Vec<i32> = [host.pid()].into_iter().chain(brokers).chain(guardians).collect();
    // Who watches goes on first: that is the order in which a false alarm would come.
    everybody.iter().for_each(|pid| kill(Pid::from_raw(*pid), Signal::SIGSTOP).expect("it is stopped"));
    spend_blocking(Duration::from_millis(1500)); // longer than the grace: the subject of the test
    everybody.iter().rev().for_each(|pid| kill(Pid::from_raw(*pid), Signal::SIGCONT).expect("it goes on"));
    host.send(1, "stay", &json!({"action": "list"}));
    let listed = host.answer();
    let rows = listed["result"]["processes"].as_array().expect("rows");
    assert!(rows.len() == 3 && rows.iter().all(|row| row["state"] == "running"), "{listed}");
    host.stdin = None;
    host.census(Instant::now());
}

/// Copies of the descriptors that a process of ours has open.
fn held_open(pid: i32) -> Vec<OwnedFd> {
    let number = rustix::process::Pid::from_raw(pid).expect("a number");
    let process = rustix::process::pidfd_open(number, PidfdFlags::empty()).expect("it runs");
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("its descriptors");
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter_map(|number| pidfd_getfd(&process, number, PidfdGetfdFlags::empty()).ok()).collect()
}
