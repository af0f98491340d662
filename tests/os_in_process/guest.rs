//! What depends on the program around: its runtime, its SIGCHLD, its user; and the kernel facts relied upon.

use crate::pause::{look_again, look_again_blocking, spend};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use procession::os::in_process::InProcess;
use procession::os::launch::Fact;
use procession::os::means::Means;
use procession::protocol::state::Exit;
use rustix::process::{Pid, PidfdFlags, WaitId, WaitIdOptions, pidfd_open, waitid};

use crate::harness::{
    Bench, PATIENCE, alone, carrying, check, check_guarded, check_with, children, every_means, runtime,
};
use procession::protocol::state::Proof;

/// Becomes root and stays until a file is there that names it.
const PAUSE_UNTIL_TOLD: &str = "#include <stdio.h>
#include <unistd.h>
int main() {
    char name[64];
    if (setuid(0)) return 1;
    snprintf(name, sizeof name, \"end-%d\", getpid());
    for (int n = 0; n < 6000 && access(name, F_OK); n++) usleep(10000);
    return 0;
}
";

#[test]
fn where_exits_cannot_be_seen_launches_are_refused() {
    for (handler, flags) in [(SigHandler::SigIgn, SaFlags::empty()), (SigHandler::SigDfl, SaFlags::SA_NOCLDWAIT)] {
        check_with(every_means, move |bench| async move {
            let action = SigAction::new(handler, flags, SigSet::empty());
            // SAFETY: no handler of ours; put back below. Other tests, and their children, wait meanwhile.
            let before = unsafe { sigaction(Signal::SIGCHLD, &action) }.unwrap();
            let error = bench.refused(bench.request(&["true"])).await;
            // SAFETY: puts back what was there.
            unsafe { sigaction(Signal::SIGCHLD, &before) }.unwrap();
            assert_eq!((error.operation, error.errno), ("execute", 0));
            assert!(error.hint.contains("SIGCHLD"), "{error:?}");
            assert_eq!(bench.sh("exit 3").launched().await.ends().await, Exit::code(3));
        });
    }
}

#[test]
fn a_guardian_sees_exits_also_for_a_program_that_cannot() {
    check_guarded(|bench| async move {
        let action = SigAction::new(SigHandler::SigIgn, SaFlags::empty(), SigSet::empty());
        // SAFETY: no handler of ours; put back below. Other tests, and their children, wait meanwhile.
        let before = unsafe { sigaction(Signal::SIGCHLD, &action) }.unwrap();
        let exit = bench.sh("exit 3").launched().await.ends().await;
        // SAFETY: puts back what was there.
        unsafe { sigaction(Signal::SIGCHLD, &before) }.unwrap();
        assert_eq!(exit, Exit::code(3));
    });
}

#[test]
fn a_runtime_that_goes_away_takes_its_processes_with_it() {
    let _alone = alone();
    for means in every_means() {
        for script in ["echo ready; sleep 60201.25 & sleep 60201.25", "echo ready; sleep 60201.25 & exit 0"] {
            let runtime = runtime(8);
            let directory = tempfile::tempdir().unwrap();
            let launcher = Arc::new(InProcess::with_means(runtime.handle().clone(), means));
            let bench = Bench { launcher, directory: directory.path().to_owned(), means, proof: Proof::GroupGone };
            let case = runtime.block_on(async {
                let mut case = bench.sh(script).launched().await;
                case.read_until("ready").await;
                case
            });
            let Bench { launcher, .. } = bench;
            drop(runtime);
            // The handle outlives its runtime and does nothing any more.
            case.tree().kill();
            case.tree().inspect();
            drop((case, launcher));
            let deadline = std::time::Instant::now() + PATIENCE;
            while !(children().is_empty() && carrying("60201.25").is_empty()) {
                assert!(std::time::Instant::now() < deadline, "{means:?}: {:?} left", children());
                look_again_blocking();
            }
        }
    }
}

#[test]
fn a_launch_on_a_runtime_that_is_gone_is_cancelled() {
    let _alone = alone();
    let gone = runtime(1);
    let launcher = Arc::new(InProcess::new(gone.handle().clone()));
    drop(gone);
    let directory = tempfile::tempdir().unwrap();
    let bench =
        Bench { launcher, directory: directory.path().to_owned(), means: Means::probe(), proof: Proof::GroupGone };
    runtime(1).block_on(async {
        let error = bench.refused(bench.request(&["touch", "started"])).await;
        assert_eq!(error.operation, "cancelled");
    });
    assert!(!directory.path().join("started").exists());
}

#[test]
fn a_root_reaped_by_the_embedding_program_has_an_unseen_exit() {
    check(|bench| async move {
        let mut case = bench.sh("echo $$; exit 3").launched().await;
        let pid: i32 = case.read_until("\n").await.trim().parse().unwrap();
        // Whoever is first: our task with the code, or this thief without.
        let _ = waitid(WaitId::Pid(Pid::from_raw(pid).unwrap()), WaitIdOptions::EXITED);
        let exit = case.ends_somehow().await;
        assert!(exit == Exit::code(3) || (exit.code, exit.signal) == (None, None));
    });
}

#[test]
fn idle_processes_take_no_turn() {
    check(|bench| async move {
        let mut cases = Vec::new();
        for _ in 0..20 {
            cases.push(bench.launch(bench.request(&["sleep", "60203.25"])).launched().await);
        }
        // Spares for the next starts are still on their way.
        let deadline = std::time::Instant::now() + PATIENCE;
        loop {
            let before = turns();
            look_again().await;
            if turns() - before < 5 {
                break;
            }
            assert!(std::time::Instant::now() < deadline, "it does not come to rest");
        }
        let before = turns();
        spend(std::time::Duration::from_millis(300)).await; // idle: the subject of the test
        let taken = turns() - before;
        assert!(taken < 15, "{taken} turns in 0.3 s of 20 idle processes");
        for case in cases {
            case.tree().kill();
            case.ends().await;
        }
    });
}

/// How often a thread of this program went to sleep by itself so far.
fn turns() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let texts = tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("status")).unwrap_or_default());
    texts
        .filter_map(|text| {
            text.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")?.trim().parse::<u64>().ok())
        })
        .sum()
}

/// The finding this launcher stands on: the descriptor of a reaped leader still names its group, and signal 0
/// through it says exactly whether the group has a member.
#[test]
fn a_reaped_leaders_descriptor_still_names_its_group() {
    let _alone = alone();
    if !Means::probe().pidfd_group {
        return println!("skipped: this kernel does not signal groups through a descriptor");
    }
    // A group whose leader ends and leaves a member.
    let mut leader = {
        use std::os::unix::process::CommandExt;
        let mut command = std::process::Command::new("sh");
        command.args(["-c", "sleep 60202.25 & exit 0"]).process_group(0).spawn().unwrap()
    };
    let descriptor = pidfd_open(Pid::from_child(&leader), PidfdFlags::empty()).unwrap();
    assert!(leader.wait().unwrap().success());
    assert_eq!(group_signal(descriptor.as_raw_fd(), 0), Ok(()), "a member is left");
    assert_eq!(group_signal(descriptor.as_raw_fd(), libc::SIGKILL), Ok(()));
    let deadline = std::time::Instant::now() + PATIENCE;
    loop {
        match group_signal(descriptor.as_raw_fd(), 0) {
            Ok(()) => look_again_blocking(),
            Err(errno) => break assert_eq!(errno, libc::ESRCH),
        }
        assert!(std::time::Instant::now() < deadline, "the member's parent does not reap it");
    }
    assert!(carrying("60202.25").is_empty());
}

fn group_signal(descriptor: i32, signal: i32) -> Result<(), i32> {
    let flags = libc::PIDFD_SIGNAL_PROCESS_GROUP;
    // SAFETY: numbers and a null pointer only.
    let sent = unsafe { libc::syscall(libc::SYS_pidfd_send_signal, descriptor, signal, std::ptr::null::<()>(), flags) };
    if sent == 0 { Ok(()) } else { Err(std::io::Error::last_os_error().raw_os_error().unwrap()) }
}

#[test]
fn a_member_that_may_not_be_signalled_is_named_and_waited_for() {
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: needs root, to make a program of another user");
    }
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let everybody = |mode| std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(directory.path(), everybody(0o777)).unwrap();
    let source = directory.path().join("rootpause.c");
    std::fs::write(&source, PAUSE_UNTIL_TOLD).unwrap();
    let program = directory.path().join("rootpause");
    assert!(std::process::Command::new("cc").arg("-o").args([&program, &source]).status().unwrap().success());
    std::fs::set_permissions(&program, everybody(0o4755)).unwrap();
    // This test program once more, as an ordinary user.
    let mine = std::env::current_exe().unwrap();
    let copy = directory.path().join("tests");
    std::fs::copy(&mine, &copy).unwrap();
    let output = std::process::Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"])
        .arg(&copy)
        .args(["--exact", "--ignored", "--nocapture", "guest::as_an_ordinary_user"])
        .env("ROOTPAUSE_DIRECTORY", directory.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
#[ignore = "run by the test above, as another user"]
fn as_an_ordinary_user() {
    let directory = std::env::var("ROOTPAUSE_DIRECTORY").expect("set by the test that runs this one");
    check(move |bench| {
        let directory = directory.clone();
        async move {
            let mut request = bench.request(&["sh", "-c", "./rootpause & echo $!; sleep 62301.25"]);
            request.directory = directory.into();
            let mut case = bench.launch(request).launched().await;
            let pid = case.read_until("\n").await.trim().to_owned();
            until_owned_by_root(&pid).await;
            case.tree().kill();
            assert_eq!(case.root_end().await, Exit::signal("SIGKILL", false));
            case.leftovers().await;
            crate::harness::until_nobody_carries("62301.25").await;
            let used_before = cpu_ticks();
            let started = std::time::Instant::now();
            let mut asked = 0;
            while started.elapsed() < std::time::Duration::from_millis(300) {
                case.tree().inspect();
                let survivors = case.survivors().await;
                if survivors.iter().any(|survivor| survivor.name != "rootpause") {
                    continue; // it was killed and is still on its way out
                }
                assert_eq!(survivors.len(), 1, "{survivors:?}");
                assert_eq!((survivors[0].name.as_str(), survivors[0].user.as_str()), ("rootpause", "root"));
                assert_eq!(survivors[0].why, "may not be signalled: runs as root");
                asked += 1;
                spend(std::time::Duration::from_millis(100)).await; // idle: the subject of this part
            }
            assert!(asked >= 3 && cpu_ticks() - used_before <= 10, "it waits without spinning");
            assert!(case.facts.try_recv().is_err(), "not gone while it lives");
            finish(case, &pid).await;
        }
    });
}

/// A user may not end it, but its end is told when it comes.
async fn finish(mut case: crate::harness::Case, pid: &str) {
    std::fs::write(format!("{}/end-{pid}", std::env::var("ROOTPAUSE_DIRECTORY").unwrap()), "").unwrap();
    let fact = tokio::time::timeout(PATIENCE, case.facts.recv()).await.expect("its end is told");
    assert!(matches!(fact, Some(Fact::Gone(_))), "{fact:?}");
}

async fn until_owned_by_root(pid: &str) {
    loop {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        if status.contains("Uid:\t0\t0\t0\t0") {
            return;
        }
        look_again().await;
    }
}

/// Processor time of this program so far, in clock ticks of 10 ms.
fn cpu_ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<_> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}
