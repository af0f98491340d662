//! What a child gets from this program: nothing but what was meant for it.

use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};

use nix::sys::signal::{SigHandler, SigSet, SigmaskHow, Signal, pthread_sigmask, signal};
use procession::os::launch::Fact;
use procession::protocol::state::{Exit, Signal as Sent};

use crate::harness::{alone, c, check, check_with, every_means};
use procession::protocol::state::Proof;

#[test]
fn signals_blocked_or_ignored_here_are_neither_in_the_child() {
    let mut blocked = SigSet::empty();
    blocked.add(Signal::SIGTERM);
    blocked.add(Signal::SIGINT);
    pthread_sigmask(SigmaskHow::SIG_BLOCK, Some(&blocked), None).unwrap();
    // Blocked here is blocked in the runtime's threads, which this thread makes.
    let ignored = [Signal::SIGINT, Signal::SIGPIPE, Signal::SIGHUP];
    // SAFETY: SIG_IGN is no function of ours.
    let before = ignored.map(|number| unsafe { signal(number, SigHandler::SigIgn) }.unwrap());
    check(|bench| async move {
        let mut case =
            bench.launch(bench.request(&["grep", "-E", "Sig(Blk|Ign)", "/proc/self/status"])).launched().await;
        let text = case.output().await.0;
        assert_eq!(text, "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
        case.ends().await;
        let case = bench.launch(bench.request(&["sleep", "69301.25"])).launched().await;
        case.tree().signal(Sent::Term);
        assert_eq!(case.ends().await, Exit::signal("SIGTERM", false));
        let mut case =
            bench.launch(bench.request(&["bash", "-c", "yes | head -1; echo ${PIPESTATUS[0]}"])).launched().await;
        assert_eq!(case.output().await, ("y\n141\n".to_owned(), String::new()));
        case.ends_somehow().await;
    });
    for (number, handler) in ignored.into_iter().zip(before) {
        // SAFETY: puts back what was there.
        unsafe { signal(number, handler) }.unwrap();
    }
    pthread_sigmask(SigmaskHow::SIG_UNBLOCK, Some(&blocked), None).unwrap();
}

#[test]
fn only_standard_descriptors_are_open_in_the_child() {
    check(|bench| async move {
        // Without close-on-exec, as an embedding program may have them.
        let leaky = [307, 308].map(|number| {
            let null = std::fs::File::open("/dev/null").unwrap();
            // SAFETY: nobody else in this program uses these numbers.
            unsafe { nix::unistd::dup2_raw(&null, number) }.unwrap()
        });
        let mut case = bench.sh("echo $$; exec sleep 69501.25").launched().await;
        let pid = case.read_until("\n").await;
        let open: Vec<_> = std::fs::read_dir(format!("/proc/{}/fd", pid.trim()))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .map(|path| format!("{} {}", path.file_name().unwrap().display(), path.read_link().unwrap().display()))
            .collect();
        assert_eq!(open.len(), 3, "{open:?}");
        assert_eq!(open[0], "0 /dev/null");
        assert!(open[1].starts_with("1 pipe:") && open[2].starts_with("2 pipe:"), "{open:?}");
        case.tree().kill();
        case.ends().await;
        drop(leaky);
    });
}

#[test]
fn the_child_leads_its_own_session_and_has_no_terminal() {
    check(|bench| async move {
        let mut case =
            bench.sh("cut -d' ' -f1,5,6,7 /proc/$$/stat; (: </dev/tty) 2>/dev/null || echo none").launched().await;
        let text = case.output().await.0;
        let numbers: Vec<i32> = text.lines().next().unwrap().split(' ').map(|n| n.parse().unwrap()).collect();
        assert_eq!(numbers[0], numbers[1]);
        assert_eq!(numbers[0], numbers[2]);
        assert_eq!(numbers[3], 0, "no terminal");
        assert!(text.ends_with("none\n"));
        case.ends_somehow().await;
    });
}

#[test]
fn arguments_and_environment_arrive_byte_for_byte() {
    check(|bench| async move {
        let words = ["two words", "", "--x=$HOME", "a\\b\n\t", "é"];
        let mut argv = vec!["/usr/bin/printf", "%s|"];
        argv.extend(words);
        let mut case = bench.launch(bench.request(&argv)).launched().await;
        assert_eq!(case.output().await.0, "two words||--x=$HOME|a\\b\n\t|é|");
        case.ends().await;
        let mut request = bench.request(&["env"]);
        request.env = vec![c("PATH=/usr/bin:/bin"), c("A=b=c"), c("EMPTY="), c("odd")];
        let mut case = bench.launch(request).launched().await;
        let text = case.output().await.0;
        assert_eq!(text, "PATH=/usr/bin:/bin\nA=b=c\nEMPTY=\nodd\n");
        case.ends().await;
    });
}

#[test]
fn both_streams_arrive_where_they_were_written() {
    check(|bench| async move {
        let mut case = bench.sh("echo out; echo err >&2; cat; exit 2").launched().await;
        assert_eq!(case.output().await, ("out\n".to_owned(), "err\n".to_owned()));
        assert_eq!(case.ends_somehow().await, Exit::code(2));
    });
}

#[test]
fn a_program_without_standard_descriptors_can_launch() {
    let _alone = alone();
    // In a program of its own: what reports on tests needs its standard output.
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--ignored", "--nocapture", "--test-threads=1", "inherited::without_standard_descriptors"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
#[ignore = "run by the test above, in a program of its own"]
fn without_standard_descriptors() {
    let _alone = alone();
    // Set aside, above any number that matters, and closed for the time of the launch.
    let aside: Vec<OwnedFd> =
        (0..3).map(|number| rustix::io::fcntl_dupfd_cloexec(rustix_borrow(number), 200).unwrap()).collect();
    for number in 0..3 {
        nix::unistd::close(number).unwrap();
    }
    let outcome = std::panic::catch_unwind(|| {
        let runtime = crate::harness::runtime(4);
        let directory = tempfile::tempdir().unwrap();
        every_means().into_iter().map(|means| runtime.block_on(one_launch(&runtime, directory.path(), means))).collect()
    });
    for (number, kept) in (0..3).zip(&aside) {
        // SAFETY: puts back what was there.
        let _now_standard = unsafe { nix::unistd::dup2_raw(kept, number) }.unwrap().into_raw_fd();
    }
    drop(aside);
    let outcome: Vec<(String, String, Option<i32>)> = outcome.unwrap();
    for (stdout, stderr, code) in outcome {
        assert_eq!((stdout.as_str(), stderr.as_str(), code), ("out\n", "err\n", Some(5)));
    }
    assert!(crate::harness::children().is_empty());
}

fn rustix_borrow(number: i32) -> std::os::fd::BorrowedFd<'static> {
    // SAFETY: standard descriptors are open in the test program at this point.
    unsafe { std::os::fd::BorrowedFd::borrow_raw(number) }
}

async fn one_launch(
    runtime: &tokio::runtime::Runtime,
    directory: &std::path::Path,
    means: procession::os::means::Means,
) -> (String, String, Option<i32>) {
    let launcher = procession::os::in_process::InProcess::with_means(runtime.handle().clone(), means);
    let bench = crate::harness::Bench {
        launcher: std::sync::Arc::new(launcher),
        directory: directory.to_owned(),
        means,
        proof: Proof::GroupGone,
    };
    let mut case = bench.sh("echo out; echo err >&2; exit 5").launched().await;
    let (stdout, stderr) = case.output().await;
    let exit = case.ends_somehow().await;
    (stdout, stderr, exit.code)
}

#[test]
fn many_large_pipes_are_a_wish() {
    check_with(every_means, |bench| async move {
        let mut request = bench.request(&["sh", "-c", "exit 0"]);
        request.pipe_bytes = 1 << 40;
        let mut case = bench.launch(request);
        assert!(matches!(case.next().await, Fact::Launched { .. }));
        case.ends_somehow().await;
    });
    assert!(std::io::stdout().as_raw_fd() == 1);
}
