//! What a process that does nothing costs its host: memory, CPU time, and its line in a list.

#[allow(dead_code, unused_imports, reason = "each bench uses a part")]
mod floor;
#[allow(dead_code, unused_imports, reason = "each bench uses a part")]
mod support;

use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use floor::{Program, Running};
use procession::{List, State};
use support::{Aim, Mode, Ours, Report, Samples, census, figure, memory, ours, writer};

/// One, without a warm-up: a round starts thousands of processes.
const ROUNDS: usize = 1;
/// Descriptors a process needs here: two pipes and a pidfd.
const DESCRIPTORS_EACH: u64 = 3;
/// Descriptors for everything else.
const DESCRIPTORS_SPARE: u64 = 200;
const LISTS: usize = 50;
/// Ours live in sessions of so many, the most that one list can name.
const SESSION_PROCESSES: usize = 1000;

fn main() {
    writer::run_if_asked();
    let mode = Mode::from_arguments();
    let report = Report::new("idle", Mode::Quick, ROUNDS);
    let descriptors = memory::raise_descriptor_limit();
    let idle = Duration::from_secs(mode.pick(10, 1));
    let counts: &[usize] = mode.pick(&[1000, 5000], &[50]);
    for count in counts.iter().copied() {
        let needed = count as u64 * DESCRIPTORS_EACH + DESCRIPTORS_SPARE;
        if needed > descriptors {
            report.skip(&format!("{count} idle"), &format!("needs {needed} descriptors, may have {descriptors}"));
            continue;
        }
        let name = |what: &str| format!("{count} idle: {what}");
        let list_aim = if count == 1000 { Aim::AtMost(1000.0) } else { Aim::Shown };
        let figures = [
            figure(name("host memory each"), "KiB", Aim::AtMost(16.0)),
            figure(name(&format!("host CPU in {} s", idle.as_secs())), "ms", Aim::AtMost(1.0)),
            figure(name("list p50"), "us", list_aim),
            figure(name("starts per second"), "/s", Aim::Shown),
            figure(name("stop all"), "ms", Aim::Shown),
        ];
        report.compare(
            &figures,
            Box::new(move || floor_idle(count, idle)),
            Some(Box::new(move || our_idle(count, idle))),
        );
    }
    census::finish();
}

fn floor_idle(count: usize, idle: Duration) -> Vec<f64> {
    let program = Program::new(&["/bin/sleep", "1000"], &census::environment());
    let supervisor = Running::start().expect("an epoll thread");
    memory::give_back();
    let before = memory::resident_kib();
    let began = Instant::now();
    for _ in 0..count {
        supervisor.launch(&program).expect("launch");
    }
    let starting = began.elapsed();
    let each = memory::resident_kib().saturating_sub(before) as f64 / count as f64;

    let cpu = memory::cpu_time();
    thread::sleep(idle);
    let cpu = memory::cpu_time() - cpu;

    let mut lists = Samples::default();
    for _ in 0..LISTS {
        let list = lists.time(|| black_box(supervisor.list()));
        assert!(list.len() == count && list.iter().all(|status| !status.settled), "all are alive");
    }
    let began = Instant::now();
    supervisor.kill_all();
    let mut settled = 0;
    while settled < count {
        settled += supervisor.take_settled().len();
    }
    let stopping = began.elapsed();
    vec![
        each,
        cpu.as_secs_f64() * 1e3,
        lists.percentile(50.0),
        count as f64 / starting.as_secs_f64(),
        stopping.as_secs_f64() * 1e3,
    ]
}

fn our_idle(count: usize, idle: Duration) -> Vec<f64> {
    let spec = ours::spec(&["/bin/sleep", "1000"]);
    let ours = Ours::start();
    let agents: Vec<_> = (0..count.div_ceil(SESSION_PROCESSES)).map(|session| ours.agent(session)).collect();
    memory::give_back();
    let before = memory::resident_kib();
    let starting = agents.clone();
    let starting = ours.run(async move {
        let began = Instant::now();
        for at in 0..count {
            starting[at / SESSION_PROCESSES].start(spec.clone()).await.expect("a start");
        }
        began.elapsed()
    });
    let each = memory::resident_kib().saturating_sub(before) as f64 / count as f64;

    let cpu = memory::cpu_time();
    thread::sleep(idle);
    let cpu = memory::cpu_time() - cpu;

    let lists = ours.run(async move {
        let mut lists = Samples::default();
        for _ in 0..LISTS {
            let began = Instant::now();
            let mut listed = 0;
            for agent in &agents {
                let all = List { limit: Some(SESSION_PROCESSES as u64), ..List::default() };
                let rows = agent.list(all).await.expect("a list").processes.expect("rows, where no more is asked for");
                assert!(rows.iter().all(|row| row.state == State::Running), "all are alive");
                listed += rows.len();
            }
            lists.push(began.elapsed());
            assert_eq!(listed, count, "all are there");
        }
        lists
    });
    let began = Instant::now();
    ours.shutdown();
    let stopping = began.elapsed();
    vec![
        each,
        cpu.as_secs_f64() * 1e3,
        lists.percentile(50.0),
        count as f64 / starting.as_secs_f64(),
        stopping.as_secs_f64() * 1e3,
    ]
}
