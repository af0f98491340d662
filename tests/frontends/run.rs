//! `procession run`: exit codes, bytes, signals, and that nothing is left.

use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::Child;
use tokio::time::timeout;

use super::harness::{Mark, PATIENCE, procession};

async fn check(arguments: &[&str], code: i32, stdout: &[u8], stderr: &str) {
    let mut words = vec!["run"];
    words.extend(arguments);
    let output = timeout(PATIENCE, procession(&words).output()).await.expect("in time").expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(code), stdout), "{arguments:?}: {said}");
    assert!(if stderr.is_empty() { said.is_empty() } else { said.contains(stderr) }, "{arguments:?}: {said:?}");
}

#[tokio::test]
async fn the_exit_code_is_the_commands_or_says_why_there_is_none() {
    check(&["--", "true"], 0, b"", "").await;
    check(&["--shell", "--", "echo out; echo err >&2; exit 3"], 3, b"out\n", "err\n").await;
    check(&["--shell", "--", "kill -KILL $$"], 137, b"", "").await;
    check(&["--timeout-ms", "100", "--", "sleep", "60"], 124, b"", "").await;
    check(&["--", "no-such-program-here"], 127, b"", "procession: ").await;
    check(&["--", "/etc/passwd"], 126, b"", "procession: ").await;
    check(&["--cwd", "/no/such/directory", "--", "true"], 125, b"", "procession: ").await;
    check(&["--grace-ms", "999999", "--", "true"], 125, b"", "grace_ms").await;
    check(&[], 125, b"", "procession: ").await;
    check(&["--set", "nonsense=1", "--", "true"], 125, b"", "nonsense").await;
    check(&["--cwd", "/usr", "--", "pwd"], 0, b"/usr\n", "").await;
}

#[tokio::test]
async fn bytes_are_passed_on_as_they_are() {
    check(&["--", "printf", "a\\0b\\377\\n"], 0, b"a\0b\xff\n", "").await;
    let many: Vec<u8> = (1..=1_000_000).flat_map(|n| format!("{n}\n").into_bytes()).collect();
    check(&["--", "seq", "1", "1000000"], 0, &many, "").await;
}

#[tokio::test]
async fn the_command_waits_for_a_slow_reader_and_nothing_is_lost() {
    const BYTES: usize = 30_000_000;
    let mut child = start(&format!("head -c {BYTES} /dev/zero; echo produced >&2"));
    let mut errors = String::new();
    let mut stderr = child.stderr.take().expect("piped");
    let mut read = 0;
    {
        // Not one byte is taken from stdout until the command can write no more: far more than is kept anywhere.
        let said = stderr.read_to_string(&mut errors);
        let silent = tokio::time::timeout(std::time::Duration::from_millis(300), said).await;
        assert!(silent.is_err(), "the command went on without its reader");
    }
    let mut stdout = child.stdout.take().expect("piped");
    let mut buffer = vec![0; 1 << 16];
    loop {
        match stdout.read(&mut buffer).await.expect("reads") {
            0 => break,
            count => read += count,
        }
    }
    stderr.read_to_string(&mut errors).await.expect("reads");
    assert_eq!((read, errors.as_str(), code(child).await), (BYTES, "produced\n", Some(0)));
}

#[tokio::test]
async fn what_the_command_leaves_behind_is_ended_with_it() {
    let mark = Mark::new();
    check(&["--shell", "--", &format!("{} >/dev/null 2>&1 & exit 0", mark.lives())], 0, b"", "").await;
    mark.check_gone();
}

fn start(script: &str) -> Child {
    let mut command = procession(&["run", "--shell", "--", script]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts")
}

fn send(child: &Child, signal: Signal) {
    kill(Pid::from_raw(child.id().expect("running").cast_signed()), signal).expect("sent");
}

async fn code(mut child: Child) -> Option<i32> {
    timeout(PATIENCE, child.wait()).await.expect("in time").expect("waited for").code()
}

#[tokio::test]
async fn a_signal_ends_the_tree_and_is_the_exit_code() {
    for (signal, expected) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143), (Signal::SIGHUP, 129)] {
        let mark = Mark::new();
        let mut child = start(&format!("echo ready; {} & {}", mark.lives(), mark.lives()));
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).await.expect("read");
        assert_eq!(line, "ready\n");
        send(&child, signal);
        assert_eq!(code(child).await, Some(expected));
        mark.check_gone();
    }
}

#[tokio::test]
async fn a_second_signal_does_not_wait_for_the_grace() {
    let mark = Mark::new();
    let script = format!("trap 'echo asked' TERM; echo ready; while :; do {} & wait $!; done", mark.lives());
    let mut child = procession(&["run", "--grace-ms", "60000", "--shell", "--", &script])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    assert_eq!(lines.next_line().await.expect("read").as_deref(), Some("ready"));
    send(&child, Signal::SIGINT);
    assert_eq!(lines.next_line().await.expect("read").as_deref(), Some("asked"));
    send(&child, Signal::SIGINT);
    assert_eq!(code(child).await, Some(130));
    mark.check_gone();
}

#[tokio::test]
async fn a_reader_that_has_gone_ends_the_command_quietly() {
    let mark = Mark::new();
    let mut child = start(&format!("{} & yes", mark.lives()));
    let mut beginning = [0; 4];
    let mut stdout = child.stdout.take().expect("piped");
    stdout.read_exact(&mut beginning).await.expect("read");
    drop(stdout);
    let mut said = String::new();
    let mut stderr = child.stderr.take().expect("piped");
    let read = stderr.read_to_string(&mut said);
    timeout(Duration::from_secs(20), read).await.expect("in time").expect("read");
    assert_eq!(code(child).await, Some(141));
    let loud = said.lines().find(|line| !line.contains("were not read in time"));
    assert_eq!(loud, None, "{said}");
    mark.check_gone();
}
