//! How processes end, and what they leave in their group.

use crate::pause::{look_again, spend};
use procession::os::launch::Fact;
use procession::protocol::state::{Exit, Signal};

use crate::harness::{
    Bench, carrying, check, check_guarded, check_with, every_means, until_no_children, until_nobody_carries,
    until_state,
};

#[test]
fn exit_codes_and_signal_deaths_are_told_as_they_were() {
    check(|bench| async move {
        for (script, expected) in [
            ("exit 0", Exit::code(0)),
            ("exit 3", Exit::code(3)),
            ("exit 255", Exit::code(255)),
            ("kill -s KILL $$", Exit::signal("SIGKILL", false)),
            ("kill -s TERM $$", Exit::signal("SIGTERM", false)),
            ("kill -s INT $$", Exit::signal("SIGINT", false)),
            ("kill -s USR1 $$", Exit::signal("SIGUSR1", false)),
            ("ulimit -c 0; kill -s SEGV $$", Exit::signal("SIGSEGV", false)),
        ] {
            assert_eq!(bench.sh(script).launched().await.ends().await, expected, "{script}");
        }
    });
}

#[test]
fn a_written_core_is_told() {
    check(|bench| async move {
        let exit = bench.sh("ulimit -c unlimited 2>/dev/null; kill -s SEGV $$").launched().await.ends().await;
        assert_eq!(exit.signal.as_deref(), Some("SIGSEGV"));
        let written = std::fs::read_dir(&bench.directory).unwrap().count() > 0;
        if written {
            assert_eq!(exit.core, Some(true));
        } else {
            println!("skipped: core files are not written into the working directory here");
        }
    });
}

#[test]
fn leftovers_are_told_whatever_they_hold_and_are_gone_after_the_kill() {
    check(|bench| async move {
        for held in ["", ">/dev/null", "</dev/null >/dev/null 2>&1"] {
            let script = format!("sleep 60101.25 {held} & exit 4");
            let mut case = bench.sh(&script).launched().await;
            assert_eq!(case.root_end().await, Exit::code(4), "{script}");
            assert_eq!(case.leftovers().await, 1, "{script}");
            loop {
                case.tree().inspect();
                let survivors = case.survivors().await;
                assert_eq!((survivors.len(), survivors[0].why.as_str()), (1, "still running"));
                match survivors[0].name.as_str() {
                    "sleep" => break,
                    name => assert_eq!(name, "sh", "it is forked and not yet executed"),
                }
            }
            case.tree().kill();
            case.gone().await;
            assert!(carrying("60101.25").is_empty());
        }
    });
}

#[test]
fn leftovers_that_end_by_themselves_are_gone_without_being_asked_for() {
    check(|bench| async move {
        let mut case = bench.sh("sleep 0.2 & sleep 0.3 & exit 0").launched().await;
        assert_eq!(case.root_end().await, Exit::code(0));
        assert_eq!(case.leftovers().await, 2);
        case.gone().await;
    });
}

#[test]
fn a_leftover_is_ended_by_a_term() {
    check(|bench| async move {
        let mut case = bench.sh("sleep 60102.25 & exit 0").launched().await;
        case.root_end().await;
        assert_eq!(case.leftovers().await, 1);
        case.tree().signal(Signal::Term);
        case.gone().await;
        assert!(carrying("60102.25").is_empty());
    });
}

#[test]
fn who_ignores_term_lives_on_and_dies_by_kill() {
    check(|bench| async move {
        let mut case = bench.sh("trap '' TERM; echo ready; while :; do sleep 60103.25; done").launched().await;
        case.read_until("ready").await;
        case.tree().signal(Signal::Term);
        case.tree().inspect();
        assert!(!case.survivors().await.is_empty());
        case.tree().kill();
        assert_eq!(case.ends_somehow().await, Exit::signal("SIGKILL", false));
        assert!(carrying("60103.25").is_empty());
    });
}

#[test]
fn a_member_that_ignores_term_outlives_its_root_and_is_killed() {
    check(|bench| async move {
        let script = "trap 'exit 0' TERM; sh -c 'trap \"\" TERM; echo ready; while :; do sleep 0.05; done' & wait";
        let mut case = bench.sh(script).launched().await;
        case.read_until("ready").await;
        case.tree().signal(Signal::Term);
        assert_eq!(case.root_end().await, Exit::code(0));
        assert!(case.leftovers().await >= 1);
        case.tree().kill();
        case.gone().await;
    });
}

#[test]
fn a_stopped_process_sees_term() {
    check(|bench| async move {
        let script = "trap 'echo cleaned; exit 7' TERM; echo $$; kill -STOP $$; while :; do sleep 0.05; done";
        let mut case = bench.sh(script).launched().await;
        let pid = case.read_until("\n").await;
        until_state(pid.trim(), "T").await;
        case.tree().signal(Signal::Term);
        assert_eq!(case.root_end().await, Exit::code(7));
        assert_eq!(case.output().await.0, "cleaned\n");
        case.gone_somehow().await;
    });
}

#[test]
fn zombies_are_no_survivors() {
    check_with(every_means, |bench| async move {
        // The parent of the zombie has left the group before the root ends.
        let script = "import os, sys
leaver, told = os.pipe()
if os.fork() == 0:
    if os.fork() == 0: os._exit(0)
    os.setsid()
    os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
    print(os.getpid(), flush=True)
    os.write(told, b'x')
    import time; time.sleep(60104)
os.read(leaver, 1)
";
        let mut case = bench.launch(bench.request(&["python3", "-c", script])).launched().await;
        let escaped = case.read_until("\n").await;
        assert_eq!(case.root_end().await, Exit::code(0));
        case.gone().await;
        end(escaped.trim());
    });
}

#[test]
fn dead_children_of_a_killed_root_do_not_delay_its_end() {
    check(|bench| async move {
        let mut case = bench.sh("true & true & true & echo ready; exec sleep 60105.25").launched().await;
        case.read_until("ready").await;
        case.tree().kill();
        assert_eq!(case.root_end().await, Exit::signal("SIGKILL", false));
        case.gone_somehow().await;
    });
}

#[test]
fn what_leaves_the_group_is_not_in_the_claim() {
    check_with(every_means, |bench| async move {
        let mut case = bench.sh("setsid sleep 60106.25 >/dev/null 2>&1 & echo $!; sleep 0.1").launched().await;
        let escaped = case.read_until("\n").await;
        until_session(escaped.trim()).await;
        assert_eq!(case.ends().await, Exit::code(0));
        assert_eq!(carrying("60106.25"), [escaped.trim()]);
        end(escaped.trim());
    });
}

#[test]
fn a_fork_loop_is_killed_whole() {
    check(|bench| async move {
        for _ in 0..10 {
            let mut case =
                bench.sh("echo ready; while :; do sh -c 'sleep 61501.25' & sleep 0.002; done").launched().await;
            case.read_until("ready").await;
            spend(std::time::Duration::from_millis(30)).await; // lets it fork: the subject of the test
            case.tree().kill();
            assert_eq!(case.root_end().await, Exit::signal("SIGKILL", false));
            case.gone_somehow().await;
            assert!(carrying("61501.25").is_empty());
        }
    });
}

#[test]
fn an_inspection_of_a_running_process_names_its_root() {
    check(|bench| async move {
        let mut case = bench.launch(bench.request(&["sleep", "60107.25"])).launched().await;
        case.tree().inspect();
        let survivors = case.survivors().await;
        assert_eq!((survivors.len(), survivors[0].name.as_str()), (1, "sleep"));
        assert!(survivors[0].age_ms < 20_000, "{survivors:?}");
        assert!(!survivors[0].user.is_empty());
        case.tree().kill();
        assert_eq!(case.ends().await, Exit::signal("SIGKILL", false));
    });
}

#[test]
fn dropping_the_handle_kills_the_group_and_leaves_no_zombie() {
    check(|bench| async move {
        for script in ["sleep 60108.25 & echo ready; sleep 60108.25", "sleep 60108.25 & echo ready; exit 0"] {
            let mut case = bench.sh(script).launched().await;
            case.read_until("ready").await;
            drop(case.tree.take());
            // The task lets go of the sink when it is through.
            while tokio::time::timeout(crate::harness::PATIENCE, case.facts.recv()).await.unwrap().is_some() {}
            until_no_children(bench.own_children()).await;
            until_nobody_carries("60108.25").await;
        }
    });
}

#[test]
fn many_at_once_all_end_with_their_own_code() {
    check(many);
}

async fn many(bench: Bench) {
    let mut tasks = Vec::new();
    for worker in 0..32 {
        let bench = bench.clone();
        tasks.push(tokio::spawn(async move {
            for turn in 0..25 {
                let (script, code) = match (worker + turn) % 2 {
                    0 => ("exit 7", 7),
                    _ => ("(sleep 0.01 &) ; exit 5", 5),
                };
                let mut case = bench.sh(script).launched().await;
                assert_eq!(case.root_end().await, Exit::code(code));
                loop {
                    match case.next().await {
                        Fact::Gone(_) => break,
                        Fact::Leftovers(count) => assert_eq!((count, code), (1, 5)),
                        other => panic!("{other:?}"),
                    }
                }
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
}

async fn until_session(pid: &str) {
    let number: i32 = pid.parse().unwrap();
    while nix::unistd::getsid(Some(nix::unistd::Pid::from_raw(number))).map(nix::unistd::Pid::as_raw) != Ok(number) {
        look_again().await;
    }
}

/// Ends a process that left our reach on purpose.
fn end(pid: &str) {
    let pid = nix::unistd::Pid::from_raw(pid.parse().unwrap());
    assert!(pid.as_raw() > 1);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).unwrap();
}

#[test]
fn what_leaves_the_group_is_told_and_ended_by_a_guardian() {
    check_guarded(|bench| async move {
        let mut case = bench.sh("setsid sleep 60109.25 >/dev/null 2>&1 & echo $!; sleep 0.1").launched().await;
        let escaped = case.read_until("\n").await;
        until_session(escaped.trim()).await;
        assert_eq!(case.root_end().await, Exit::code(0));
        assert_eq!(case.leftovers().await, 1);
        case.tree().signal(Signal::Term);
        case.gone().await;
        assert!(carrying("60109.25").is_empty());
    });
}
