//! How soon a program is launched and its exit seen, alone, in a big host, and with many in flight.

#[allow(dead_code, unused_imports, reason = "each bench uses a part")]
mod floor;
#[allow(dead_code, unused_imports, reason = "each bench uses a part")]
mod support;

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use floor::{Program, Running, Scratch, Supervisor};
use procession::Agent;
use support::{Aim, Mode, Ours, Report, Samples, Side, census, figure, memory, ours, writer};

const ROUNDS: usize = 5;
/// Ends at once.
const SCRIPT: &str = "true";
/// What the big host holds.
const BIG_HOST_BYTES: usize = 4 << 30;
/// Left free for everything else on the machine, in KiB.
const SPARE_KIB: u64 = 2 << 20;

fn main() {
    writer::run_if_asked();
    let mode = Mode::from_arguments();
    let report = Report::new("launch", mode, ROUNDS);
    let program = Program::shell(SCRIPT, &census::environment());
    let each = mode.pick(200, 10);

    one_at_a_time(&report, "", &program, each);
    report.compare(
        &[
            figure("launched p50, caller's thread", "us", Aim::Shown),
            figure("exit seen p50, caller's thread", "us", Aim::Shown),
        ],
        Box::new(|| on_callers_thread(&program, each)),
        None,
    );
    in_flight(&report, &program, mode.pick(2000, 64));
    in_big_host(&report, mode, &program, each);
    census::finish();
}

fn one_at_a_time(report: &Report, place: &str, program: &Program, each: usize) {
    let named = |name: &str, aim| figure(format!("{name}{place}"), "us", aim);
    let figures = [
        named("launched p50", Aim::RatioAtMost(2.0)),
        named("launched p90", Aim::Shown),
        named("launched p99", Aim::Shown),
        named("exit seen p50", Aim::RatioAtMost(1.25)),
        named("exit seen p90", Aim::Shown),
        named("exit seen p99", Aim::Shown),
    ];
    report.compare(&figures, floor_alone(program, each), Some(Box::new(move || ours_alone(each))));
}

/// Launched: `launch` returned. Exit seen: the waiting caller has the status, and both pipes are at EOF.
fn floor_alone(program: &Program, each: usize) -> Side<'_> {
    Box::new(move || {
        let supervisor = Running::start().expect("an epoll thread");
        let (mut launched, mut seen) = (Samples::default(), Samples::default());
        for _ in 0..each {
            let began = Instant::now();
            let id = supervisor.launch(program).expect("launch");
            launched.push(began.elapsed());
            supervisor.wait(id);
            seen.push(began.elapsed());
            supervisor.forget(id);
        }
        percentiles(&launched, &seen)
    })
}

/// Launched: `start` has answered. Exit seen: `wait` has answered, so the process is settled: its tree is proven to
/// be gone, and both pipes were read to their end.
fn ours_alone(each: usize) -> Vec<f64> {
    let ours = Ours::start();
    let agent = ours.agent(0);
    ours.run(async move {
        let spec = ours::shell(SCRIPT);
        let (mut launched, mut seen) = (Samples::default(), Samples::default());
        for _ in 0..each {
            let began = Instant::now();
            let process = agent.start(spec.clone()).await.expect("a start");
            launched.push(began.elapsed());
            ours::wait(&process).await;
            seen.push(began.elapsed());
            process.clear().await.expect("a clear");
        }
        percentiles(&launched, &seen)
    })
}

fn percentiles(launched: &Samples, seen: &Samples) -> Vec<f64> {
    let of = |samples: &Samples| [50.0, 90.0, 99.0].map(|percent| samples.percentile(percent));
    [of(launched), of(seen)].concat()
}

/// The same without an epoll thread: what is left when nobody has to be woken.
fn on_callers_thread(program: &Program, each: usize) -> Vec<f64> {
    let supervisor = Supervisor::new().expect("an epoll set");
    let mut scratch = Scratch::new();
    let (mut launched, mut seen) = (Samples::default(), Samples::default());
    for _ in 0..each {
        let began = Instant::now();
        let id = supervisor.launch(program).expect("launch");
        launched.push(began.elapsed());
        while !supervisor.status(id).settled {
            supervisor.turn(&mut scratch, -1).expect("a turn");
        }
        seen.push(began.elapsed());
        supervisor.forget(id);
    }
    vec![launched.percentile(50.0), seen.percentile(50.0)]
}

fn in_flight(report: &Report, program: &Program, total: usize) {
    for in_flight in [8, 32, 128] {
        let figures = [
            figure(format!("spawns/s, {in_flight} in flight"), "/s", Aim::RatioAtLeast(0.75)),
            figure(format!("host CPU per spawn, {in_flight} in flight"), "us", Aim::Shown),
        ];
        let floor = Box::new(move || floor_in_flight(program, in_flight, total));
        report.compare(&figures, floor, Some(Box::new(move || ours_in_flight(in_flight, total))));
    }
}

fn floor_in_flight(program: &Program, in_flight: usize, total: usize) -> Vec<f64> {
    let supervisor = Running::start().expect("an epoll thread");
    let (cpu, began) = (memory::cpu_time(), Instant::now());
    let (mut launched, mut settled) = (0, 0);
    while settled < total {
        while launched < total && launched - settled < in_flight {
            supervisor.launch(program).expect("launch");
            launched += 1;
        }
        for id in supervisor.take_settled() {
            supervisor.forget(id);
            settled += 1;
        }
    }
    let (cpu, taken) = (memory::cpu_time() - cpu, began.elapsed());
    vec![total as f64 / taken.as_secs_f64(), cpu.as_secs_f64() * 1e6 / total as f64]
}

/// One task for each process in flight.
fn ours_in_flight(in_flight: usize, total: usize) -> Vec<f64> {
    let ours = Ours::start();
    let agent = ours.agent(0);
    ours.run(async move {
        let begun = Arc::new(AtomicUsize::new(0));
        let (cpu, began) = (memory::cpu_time(), Instant::now());
        let tasks: Vec<_> =
            (0..in_flight).map(|_| tokio::spawn(starts(agent.clone(), Arc::clone(&begun), total))).collect();
        for task in tasks {
            task.await.expect("the task does not panic");
        }
        let (cpu, taken) = (memory::cpu_time() - cpu, began.elapsed());
        vec![total as f64 / taken.as_secs_f64(), cpu.as_secs_f64() * 1e6 / total as f64]
    })
}

async fn starts(agent: Agent, begun: Arc<AtomicUsize>, total: usize) {
    let spec = ours::shell(SCRIPT);
    while begun.fetch_add(1, Ordering::Relaxed) < total {
        let process = agent.start(spec.clone()).await.expect("a start");
        ours::wait(&process).await;
        process.clear().await.expect("a clear");
    }
}

fn in_big_host(report: &Report, mode: Mode, program: &Program, each: usize) {
    let bytes = mode.pick(BIG_HOST_BYTES, BIG_HOST_BYTES / 64);
    let place = format!(", host of {} MiB", bytes >> 20);
    if memory::available_kib() < (bytes >> 10) as u64 + SPARE_KIB {
        return report.skip(&format!("launched, exit seen{place}"), "not enough memory available");
    }
    let ballast = memory::touched(bytes);
    one_at_a_time(report, &place, program, each);
    drop(black_box(ballast));
}
