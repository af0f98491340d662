//! Where and what is launched, and what is said when that cannot be done.

use crate::pause::spend;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use procession::os::launch::{Fact, LaunchError};
use procession::os::means::Means;
use procession::protocol::state::Exit;

use crate::harness::{Bench, c, check, check_with, every_means};
use procession::protocol::state::Proof;

fn script(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

fn said(error: &LaunchError, operation: &str, errno: i32, hint: &str) {
    assert_eq!((error.operation, error.errno), (operation, errno), "{error:?}");
    assert!(error.hint.contains(hint), "{:?} should say {hint:?}", error.hint);
}

async fn first_line(bench: &Bench, request: procession::os::launch::LaunchRequest) -> String {
    let mut case = bench.launch(request).launched().await;
    let line = case.output().await.0.trim_end().to_owned();
    assert_eq!(case.ends().await, Exit::code(0));
    line
}

#[test]
fn a_working_directory_is_relative_to_the_sessions() {
    check(|bench| async move {
        let real = bench.directory.canonicalize().unwrap();
        std::fs::create_dir_all(real.join("a/b")).unwrap();
        symlink("a/b", real.join("link")).unwrap();
        symlink(real.join("a"), real.join("absolute-link")).unwrap();
        for (cwd, confined, expected) in [
            ("", true, real.clone()),
            ("a/b", true, real.join("a/b")),
            ("a/../a/b/..", true, real.join("a")),
            ("link", true, real.join("a/b")),
            ("absolute-link", true, real.join("a")),
            (real.join("a").to_str().unwrap(), true, real.join("a")),
            ("/", false, "/".into()),
            ("..", false, real.parent().unwrap().to_owned()),
        ] {
            let mut request = bench.request(&["pwd", "-P"]);
            request.cwd = cwd.into();
            request.confined = confined;
            assert_eq!(first_line(&bench, request).await, expected.to_str().unwrap(), "{cwd}");
        }
    });
}

#[test]
fn a_working_directory_that_leads_outside_is_refused() {
    check(|bench| async move {
        std::fs::create_dir_all(bench.directory.join("a")).unwrap();
        symlink("/", bench.directory.join("out")).unwrap();
        symlink("../..", bench.directory.join("a/up")).unwrap();
        symlink("loop", bench.directory.join("loop")).unwrap();
        // A sibling whose name begins with the session's is outside too.
        let sibling = format!("{}x", bench.directory.display());
        std::fs::create_dir(&sibling).unwrap();
        for cwd in ["..", "a/../..", "/", "out", "out/tmp", "a/up", "/proc/self/root", &sibling] {
            let mut request = bench.request(&["true"]);
            request.cwd = cwd.into();
            let error = bench.refused(request).await;
            said(&error, "open_directory", libc::EXDEV, "must lie inside");
            assert_eq!(error.path, Some(bench.directory.join(cwd)));
        }
        std::fs::remove_dir(&sibling).unwrap();
        let mut request = bench.request(&["true"]);
        request.cwd = "loop".into();
        said(&bench.refused(request).await, "open_directory", libc::ELOOP, "links");
    });
}

#[test]
fn a_missing_working_directory_is_named() {
    check(|bench| async move {
        std::fs::write(bench.directory.join("file"), "").unwrap();
        for confined in [true, false] {
            for (cwd, errno, hint) in
                [("nowhere", libc::ENOENT, "does not exist"), ("file", libc::ENOTDIR, "is not a directory")]
            {
                let mut request = bench.request(&["true"]);
                request.cwd = cwd.into();
                request.confined = confined;
                let error = bench.refused(request).await;
                said(&error, "open_directory", errno, hint);
                assert!(error.hint.contains(bench.directory.join(cwd).to_str().unwrap()), "{error:?}");
            }
        }
    });
}

#[test]
fn a_directory_deleted_later_does_not_disturb_who_runs_in_it() {
    check(|bench| async move {
        let cwd = bench.directory.join("soon-gone");
        std::fs::create_dir(&cwd).unwrap();
        let mut request = bench.request(&["sh", "-c", "echo ready; read x; exit 3"]);
        request.argv[2] = c("echo ready; while [ -e ../go-on ]; do sleep 0.01; done; exit 3");
        std::fs::write(bench.directory.join("go-on"), "").unwrap();
        request.cwd = "soon-gone".into();
        let mut case = bench.launch(request).launched().await;
        case.read_until("ready").await;
        std::fs::remove_dir(&cwd).unwrap();
        let mut late = bench.request(&["true"]);
        late.cwd = "soon-gone".into();
        said(&bench.refused(late).await, "open_directory", libc::ENOENT, "does not exist");
        assert_eq!(bench.sh("exit 4").launched().await.ends().await, Exit::code(4));
        case.tree().kill();
        case.ends_somehow().await;
    });
}

#[test]
fn a_program_is_searched_for_in_the_requests_own_path() {
    check(|bench| async move {
        for directory in ["empty", "refused", "bin", "bin/named"] {
            std::fs::create_dir(bench.directory.join(directory)).unwrap();
        }
        std::fs::create_dir(bench.directory.join("empty/tool")).unwrap();
        script(&bench.directory.join("refused/tool"), "#!/bin/sh\necho wrong\n");
        std::fs::set_permissions(bench.directory.join("refused/tool"), std::fs::Permissions::from_mode(0o644)).unwrap();
        script(&bench.directory.join("bin/tool"), "#!/bin/sh\necho found $0\n");
        script(&bench.directory.join("here"), "#!/bin/sh\necho here\n");

        let with_path = |argv: &[&str], path: &str| {
            let mut request = bench.request(argv);
            request.env = vec![c(&format!("PATH={path}"))];
            request
        };
        assert_eq!(first_line(&bench, with_path(&["tool"], "/nowhere:empty:refused:bin")).await, "found bin/tool");
        assert_eq!(first_line(&bench, with_path(&["here"], "/nowhere:")).await, "here");
        assert_eq!(first_line(&bench, with_path(&["./here"], "/nowhere")).await, "here");
        let mut beside = with_path(&["../here"], "");
        beside.cwd = "bin".into();
        assert_eq!(first_line(&bench, beside).await, "here");

        let error = bench.refused(with_path(&["no-such-tool"], "/nowhere:bin")).await;
        said(&error, "find_program", libc::ENOENT, "no-such-tool is in PATH (/nowhere:bin)");
        said(&bench.refused(with_path(&["tool"], "refused")).await, "find_program", libc::EACCES, "not executable");
        said(&bench.refused(with_path(&["./nope"], "")).await, "find_program", libc::ENOENT, "does not exist");
        said(&bench.refused(with_path(&["./bin"], "")).await, "find_program", libc::EACCES, "is a directory");
        said(&bench.refused(with_path(&[""], "bin")).await, "find_program", libc::ENOENT, "PATH");
        said(&bench.refused(with_path(&[], "bin")).await, "find_program", libc::EINVAL, "empty");
    });
}

#[test]
fn a_script_that_cannot_be_executed_says_why() {
    check(|bench| async move {
        script(&bench.directory.join("lost"), "#!/no/such/shell -e\n");
        script(&bench.directory.join("dos"), "#!/bin/sh\r\necho\r\n");
        script(&bench.directory.join("bare"), "echo hi\n");
        script(&bench.directory.join("empty"), "");
        said(&bench.refused(bench.request(&["./lost"])).await, "execute", libc::ENOENT, "interpreter /no/such/shell");
        said(&bench.refused(bench.request(&["./dos"])).await, "execute", libc::ENOENT, "carriage return");
        said(&bench.refused(bench.request(&["./bare"])).await, "execute", libc::ENOEXEC, "#!/bin/sh");
        said(&bench.refused(bench.request(&["./empty"])).await, "execute", libc::ENOEXEC, "is empty");
    });
}

#[test]
fn a_request_that_is_too_large_says_which_part() {
    check(|bench| async move {
        let long = "a".repeat(140_000);
        let error = bench.refused(bench.request(&["true", &long])).await;
        said(&error, "execute", libc::E2BIG, "Argument 1 of the command has 140000 bytes");
        let mut request = bench.request(&["true"]);
        request.env.push(c(&format!("SECRET={}", "s".repeat(200_000))));
        let error = bench.refused(request).await;
        said(&error, "execute", libc::E2BIG, "environment variable SECRET has 200007 bytes");
        assert!(!error.hint.contains("sss"));
        let mut request = bench.request(&["true"]);
        request.env.extend((0..64).map(|n| c(&format!("V{n}={}", "v".repeat(100_000)))));
        said(&bench.refused(request).await, "execute", libc::E2BIG, "together more than");
        let just = "a".repeat(128 * 1024 - 1);
        assert_eq!(bench.launch(bench.request(&["true", &just])).launched().await.ends().await, Exit::code(0));
    });
}

#[test]
fn a_program_just_written_is_executed_although_others_start_meanwhile() {
    check(|bench| async move {
        let noise = bench.clone();
        let (stop, mut stopped) = tokio::sync::oneshot::channel::<()>();
        let starts = tokio::spawn(async move {
            while stopped.try_recv().is_err() {
                noise.launch(noise.request(&["true"])).launched().await.ends().await;
            }
        });
        for n in 0..200 {
            let name = format!("fresh-{n}");
            script(&bench.directory.join(&name), "#!/bin/sh\nexit 6\n");
            let exit = bench.launch(bench.request(&[&format!("./{name}")])).launched().await.ends().await;
            assert_eq!(exit, Exit::code(6));
        }
        stop.send(()).unwrap();
        starts.await.unwrap();
    });
}

#[test]
fn a_program_open_for_writing_is_tried_again_and_then_named() {
    check(|bench| async move {
        script(&bench.directory.join("busy"), "#!/bin/sh\nexit 6\n");
        let writer = std::fs::OpenOptions::new().append(true).open(bench.directory.join("busy")).unwrap();
        let began = std::time::Instant::now();
        let error = bench.refused(bench.request(&["./busy"])).await;
        said(&error, "execute", libc::ETXTBSY, "open for writing");
        assert!(began.elapsed() < std::time::Duration::from_secs(5));
        let case = bench.launch(bench.request(&["./busy"]));
        // The first tries meet the open file, a later one does not.
        spend(std::time::Duration::from_millis(20)).await;
        drop(writer);
        assert_eq!(case.launched().await.ends().await, Exit::code(6));
    });
}

#[test]
fn without_descriptors_a_launch_fails_by_name_or_works_whole() {
    check(|bench| async move {
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        setrlimit(Resource::RLIMIT_NOFILE, 400, hard).unwrap();
        let mut fill: Vec<_> = std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()).collect();
        let (mut failed, mut worked) = (0, 0);
        for _ in 0..14 {
            let mut case = bench.launch(bench.request(&["sh", "-c", "exit 9"]));
            match case.next().await {
                Fact::LaunchFailed(error) => {
                    failed += 1;
                    assert_eq!(error.errno, libc::EMFILE, "{error:?}");
                    assert!(error.hint.contains("ulimit -n"), "{error:?}");
                }
                Fact::Launched { .. } => {
                    worked += 1;
                    assert_eq!(case.root_end().await, Exit::code(9));
                    case.gone_somehow().await;
                }
                other => panic!("{other:?}"),
            }
            drop(fill.pop());
        }
        drop(fill);
        setrlimit(Resource::RLIMIT_NOFILE, soft, hard).unwrap();
        assert!(failed > 0 && worked > 0, "{failed} failed, {worked} worked");
        assert_eq!(bench.sh("exit 4").launched().await.ends().await, Exit::code(4));
    });
}

#[test]
fn a_launch_given_up_before_its_start_starts_nothing() {
    // One blocking thread, held: the launch cannot begin.
    let _alone = crate::harness::alone();
    let runtime = crate::harness::runtime(1);
    let directory = tempfile::tempdir().unwrap();
    let launcher = procession::os::in_process::InProcess::new(runtime.handle().clone());
    let bench = Bench {
        launcher: std::sync::Arc::new(launcher),
        directory: directory.path().to_owned(),
        means: Means::probe(),
        proof: Proof::GroupGone,
    };
    runtime.block_on(async {
        let (free, held) = std::sync::mpsc::channel::<()>();
        let holder = tokio::task::spawn_blocking(move || held.recv());
        let mut case = bench.sh("touch started");
        case.tree().abort();
        let Fact::LaunchFailed(error) = case.next().await else { panic!("cancelled at once, while held") };
        assert_eq!(error.operation, "cancelled");
        free.send(()).unwrap();
        holder.await.unwrap().unwrap();
        assert!(case.tree.take().is_some());
        assert!(case.facts.recv().await.is_none());
    });
    drop(runtime);
    assert!(!directory.path().join("started").exists());
}

#[test]
fn a_launch_given_up_at_any_moment_is_reported_in_order_and_leaves_nothing() {
    check(|bench| async move {
        for turn in 0..60u64 {
            let mut case = bench.sh("sleep 61801.25");
            for _ in 0..turn * 20 {
                std::hint::spin_loop();
            }
            case.tree().abort();
            match case.next().await {
                Fact::LaunchFailed(error) => assert_eq!(error.operation, "cancelled", "{error:?}"),
                Fact::Launched { .. } => {
                    assert_eq!(case.root_end().await, Exit::signal("SIGKILL", false));
                    case.gone_somehow().await;
                }
                other => panic!("{other:?}"),
            }
        }
        assert!(crate::harness::carrying("61801.25").is_empty());
    });
}

#[test]
fn the_launcher_says_how_far_it_reaches() {
    check_with(every_means, |bench| async move {
        let containment = bench.launcher.containment();
        assert_eq!(containment.kind, procession::protocol::state::ContainmentKind::Group);
        assert!(containment.why.is_some());
    });
    crate::harness::check_guarded(|bench| async move {
        let containment = bench.launcher.containment();
        assert_eq!(containment.kind, procession::protocol::state::ContainmentKind::Subtree);
        assert_eq!(containment.why, None);
    });
}
