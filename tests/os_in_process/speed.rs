//! How long a launch takes beside the bare calls. Run in release mode:
//! `cargo test --release --test os_in_process speed -- --ignored --nocapture`

use std::time::{Duration, Instant};

use crate::harness::{Bench, check_with, every_means};

const ROUNDS: usize = 5;
const LAUNCHES: usize = 200;

#[test]
#[ignore = "a measurement"]
fn launches_and_ends_beside_the_bare_calls() {
    check_with(every_means(), |bench| async move {
        for _ in 0..ROUNDS {
            let (bare_launched, bare_ended) = bare();
            let (launched, ended, gone) = ours(&bench).await;
            println!(
                "bare {bare_launched:?} / {bare_ended:?}; launched {launched:?}, root's end {ended:?}, gone {gone:?}; \
                 ratio {:.2} / {:.2}; {:?}",
                launched.as_secs_f64() / bare_launched.as_secs_f64(),
                gone.as_secs_f64() / bare_ended.as_secs_f64(),
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

async fn ours(bench: &Bench) -> (Duration, Duration, Duration) {
    let mut sums = [Duration::ZERO; 3];
    for _ in 0..LAUNCHES {
        let began = Instant::now();
        let mut case = bench.launch(bench.request(&["/bin/sh", "-c", "true"])).launched().await;
        sums[0] += began.elapsed();
        case.root_end().await;
        sums[1] += began.elapsed();
        case.next().await;
        sums[2] += began.elapsed();
    }
    let [launched, ended, gone] = sums.map(|sum| sum / LAUNCHES as u32);
    (launched, ended, gone)
}
