//! J: what the child inherits. G: what it reads.

use procession::{Exit, Process, Spec, State, Status, Stream};

use crate::support::{Bench, settled, text};

async fn run(bench: &Bench, spec: Spec) -> (Process, Status) {
    let process = bench.agent().start(spec).await.expect("a start");
    let status = settled(&process).await;
    (process, status)
}

#[tokio::test]
async fn r67_a_read_meets_the_end_at_once() {
    let bench = Bench::new().await;
    for (command, said) in [("cat; echo rc=$?", "rc=0\n"), ("grep x; echo rc=$?", "rc=1\n")] {
        let (process, status) = bench.run(command).await;
        assert_eq!((status.state, text(&process).await.as_str()), (State::Exited, said));
    }
    bench.ended().await;
}

#[tokio::test]
async fn r92_a_pipeline_ends_by_sigpipe() {
    let bench = Bench::new().await;
    let (process, _) = run(&bench, Spec::argv(["bash", "-c", "yes | head -1; echo ${PIPESTATUS[0]}"])).await;
    assert_eq!(text(&process).await, "y\n141\n");
    assert_eq!(process.output().stream(Stream::Stderr).page().await.expect("a page").chunks, []);
    bench.ended().await;
}

#[tokio::test]
async fn r93_signals_are_neither_blocked_nor_ignored() {
    let bench = Bench::new().await;
    let (process, _) = run(&bench, Spec::argv(["grep", "-E", "Sig(Blk|Ign)", "/proc/self/status"])).await;
    let nothing = "0000000000000000";
    assert_eq!(text(&process).await, format!("SigBlk:\t{nothing}\nSigIgn:\t{nothing}\n"));
    let sleeper = bench.start("exec sleep 69301").await;
    let status = sleeper.stop(Some(30_000)).await.expect("a stop");
    assert_eq!(status.exit, Some(Exit::signal("SIGTERM", false)));
    bench.ended().await;
}

#[tokio::test]
async fn r95_no_descriptor_of_the_host_is_inherited() {
    let bench = Bench::new().await;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a listener");
    // An embedder may hold what is not marked close-on-exec.
    let loud = nix::unistd::dup(&listener).expect("a descriptor without close-on-exec");
    let (process, _) = run(&bench, Spec::argv(["ls", "/proc/self/fd"])).await;
    assert_eq!(text(&process).await, "0\n1\n2\n3\n", "3 is the directory being listed");
    let address = listener.local_addr().expect("an address");
    let sleeper = bench.start("sleep 69501").await;
    drop((listener, loud));
    // A helper that another test of this binary starts in this moment inherits the listener too, for as long as it
    // lives; our sleeper would hold it for a day.
    let mut looks = 0;
    while let Err(error) = std::net::TcpListener::bind(address) {
        assert!(looks < 10_000, "no child holds the port: {error}");
        looks += 1;
        crate::support::pause::look_again().await;
    }
    sleeper.stop(None).await.expect("a stop");
    bench.ended().await;
}

#[tokio::test]
async fn r99_text_beyond_ascii_is_text() {
    let bench = Bench::with(|_, profile| {
        profile.env.inherit = procession::protocol::settings::EnvInherit::None;
        profile.env.pass.push("PATH".to_owned());
    })
    .await;
    let count = "printf '\\303\\251\\n' | wc -m";
    let (process, _) = bench.run(count).await;
    assert_eq!(text(&process).await, "2\n");
    let env = [("LC_ALL".to_owned(), Some("C".to_owned()))].into();
    let (process, _) = run(&bench, Spec { env: Some(env), ..Spec::command(count) }).await;
    assert_eq!(text(&process).await, "3\n");
    bench.ended().await;
}

#[tokio::test]
async fn r100_no_profile_replaces_the_shell() {
    let bench = Bench::new().await;
    for name in [".bash_profile", ".profile", ".bashrc"] {
        std::fs::write(bench.directory.path().join(name), "exec sh\n").expect("a file");
    }
    let home = bench.directory.path().display().to_string();
    let env = [("HOME".to_owned(), Some(home))].into();
    let (process, status) = run(&bench, Spec { env: Some(env), ..Spec::command("echo hi; exit 3") }).await;
    assert_eq!((status.exit, text(&process).await.as_str()), (Some(Exit::code(3)), "hi\n"));
    bench.ended().await;
}

#[tokio::test]
async fn r103_the_shell_is_bash_where_there_is_one() {
    let bench = Bench::new().await;
    assert_eq!(bench.host.settings().profiles["default"].shell, ["bash", "-c"], "as everywhere with a bash");
    let (process, _) = bench.run("echo \"$0\"; [[ 1 == 1 ]] && a=(x y) && echo \"${a[1]}\"").await;
    assert_eq!(text(&process).await, "bash\ny\n");
    bench.ended().await;
    let bench = Bench::with(|_, profile| profile.shell = vec!["sh".to_owned(), "-c".to_owned()]).await;
    let (process, _) = bench.run("echo \"$0\"").await;
    assert_eq!(text(&process).await, "sh\n");
    bench.ended().await;
}

#[tokio::test]
async fn r104_a_command_arrives_byte_for_byte() {
    let bench = Bench::new().await;
    let command = "printf '%s|' \"a b\" '$HOME `x` \\n \\\\b' \"!bang\" \"{x,y}\"; { echo grp; } | cat\n\
                   cat <<'E-O-F'\na\\\\b $HOME \"q\" \\t !z\nE-O-F\n# last line is a comment";
    let (process, status) = bench.run(command).await;
    let expected = std::process::Command::new("bash").args(["-c", command]).output().expect("bash runs");
    assert!(!expected.stdout.is_empty() && expected.status.success());
    assert_eq!(text(&process).await.as_bytes(), expected.stdout);
    assert_eq!(status.command, command);
    let (process, _) = run(&bench, Spec::argv(["printf", "%s\n", "two words", "", "--x=$HOME"])).await;
    assert_eq!(text(&process).await, "two words\n\n--x=$HOME\n");
    bench.ended().await;
}
