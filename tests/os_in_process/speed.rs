//! How long a launch takes beside the bare calls. Run in release mode:
//! `cargo test --release --test os_in_process speed -- --ignored --nocapture`

use std::time::{Duration, Instant};

use crate::harness::{Bench, check_with, every_means};

const ROUNDS: usize = 5;
const LAUNCHES: usize = 200;

#[test]
#[ignore = "a measurement"]
fn launches_and_ends_beside_the_bare_calls() {
    check_with(every_means, |bench| async move {
        for _ in 0..ROUNDS {
            let (bare_launched, bare_ended) = bare();
            // In a task, as its callers are: the thread of `block_on` may wait behind the child for a processor.
            let measured = bench.clone();
            let ours = tokio::spawn(async move { ours(&measured).await }).await.unwrap();
            println!(
                "bare: launched {bare_launched:?}, ended {bare_ended:?}; ours: launched told {:?}, read {:?}, root's end \
                 told {:?}, gone told {:?}, read {:?}; ratio told {:.2} / {:.2}; {:?}",
                ours[0],
                ours[3],
                ours[1],
                ours[2],
                ours[4],
                ours[0].as_secs_f64() / bare_launched.as_secs_f64(),
                ours[2].as_secs_f64() / bare_ended.as_secs_f64(),
                bench.means
            );
        }
    });
}

/// Mean times of `posix_spawn` and of `waitid` after it, with the two pipes any launcher needs.
fn bare() -> (Duration, Duration) {
    let (mut launched, mut ended) = (Duration::ZERO, Duration::ZERO);
    for _ in 0..LAUNCHES {
        let began = Instant::now();
        let mut child = std::process::Command::new("/bin/sh")
            .args(["-c", "true"])
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        launched += began.elapsed();
        child.wait().unwrap();
        ended += began.elapsed();
    }
    (launched / LAUNCHES as u32, ended / LAUNCHES as u32)
}

/// Mean times from the call until `Launched`, `RootEnded` and `Gone` were told, and until this task, on another
/// thread, has read the first and the last: what lies between is the scheduler's.
async fn ours(bench: &Bench) -> [Duration; 5] {
    let mut sums = [Duration::ZERO; 5];
    for _ in 0..LAUNCHES {
        let (sender, mut told) = tokio::sync::mpsc::unbounded_channel();
        let began = Instant::now();
        let sink = move |fact| {
            let _ = sender.send((began.elapsed(), fact));
        };
        let tree = bench.launcher.launch(bench.request(&["/bin/sh", "-c", "true"]), Box::new(sink));
        for fact in 0..3 {
            let (at, _kept) = told.recv().await.unwrap();
            sums[fact] += at;
            match fact {
                0 => sums[3] += began.elapsed(),
                2 => sums[4] += began.elapsed(),
                _ => {}
            }
        }
        drop(tree);
    }
    sums.map(|sum| sum / LAUNCHES as u32)
}
