//! Calls by message alone, from one session to a thousand: no process starts or ends while the clock runs.
//!
//! Each session keeps one call in flight and sends its next as soon as it has its answer. Of ten calls six are
//! `status`, three a page of 4 KiB, one a list of the session's processes.

#[allow(dead_code, unused_imports, reason = "each bench uses a part")]
mod floor;
#[allow(dead_code, unused_imports, reason = "each bench uses a part")]
mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use floor::{Owner, Program, Running, Verb};
use procession::{Agent, List, Process};
use support::{Aim, Mode, Ours, Report, Samples, census, figure, memory, ours, writer};

const ROUNDS: usize = 3;
/// What each session's process has written.
const OUTPUT_BYTES: u64 = 16 << 10;
const PAGE_BYTES: usize = 4 << 10;
/// Processes launched and not settled, at most, while a round is prepared.
const IN_FLIGHT: usize = 32;

fn main() {
    writer::run_if_asked();
    let mode = Mode::from_arguments();
    let report = Report::new("load", mode, ROUNDS);
    memory::raise_descriptor_limit();
    let calls = mode.pick(200_000, 2_000);
    for sessions in mode.pick([1, 10, 100, 1000].as_slice(), &[1, 10]).iter().copied() {
        let name = |what: &str| format!("{sessions} sessions: {what}");
        let figures = [
            figure(name("calls"), "/s", Aim::Shown),
            figure(name("latency p50"), "us", Aim::Shown),
            figure(name("latency p90"), "us", Aim::Shown),
            figure(name("latency p99"), "us", Aim::Shown),
            figure(name("host CPU per call"), "us", Aim::Shown),
        ];
        let floor = Box::new(move || floor_load(sessions, calls));
        report.compare(&figures, floor, Some(Box::new(move || our_load(sessions, calls))));
    }
    census::finish();
}

/// One owner thread, and one caller thread that plays every session.
fn floor_load(sessions: usize, calls: usize) -> Vec<f64> {
    let supervisor = Running::start().expect("an epoll thread");
    let ids: Vec<Arc<[usize]>> = settled_processes(&supervisor, sessions).into_iter().map(|id| [id].into()).collect();
    let owner = Owner::start(supervisor);
    let mut latencies = Samples::default();
    let (cpu, began) = (memory::cpu_time(), Instant::now());
    let mut sent = 0;
    for (session, ids) in ids.iter().enumerate() {
        owner.send(session, ids, verb(sent));
        sent += 1;
    }
    for answered in 0..calls.max(sessions) {
        let answer = owner.next();
        latencies.push(answer.sent.elapsed());
        assert!(answer.size > 0, "an answer of substance, call {answered}");
        if sent < calls {
            owner.send(answer.session, &ids[answer.session], verb(sent));
            sent += 1;
        }
    }
    let (cpu, taken) = (memory::cpu_time() - cpu, began.elapsed());
    values(sent, taken, &latencies, cpu)
}

fn values(calls: usize, taken: Duration, latencies: &Samples, cpu: Duration) -> Vec<f64> {
    vec![
        calls as f64 / taken.as_secs_f64(),
        latencies.percentile(50.0),
        latencies.percentile(90.0),
        latencies.percentile(99.0),
        cpu.as_secs_f64() * 1e6 / calls as f64,
    ]
}

/// One process for each session, which has written [`OUTPUT_BYTES`] and ended.
fn settled_processes(supervisor: &Running, sessions: usize) -> Vec<usize> {
    let program = Program::new(&writer::arguments(4 << 10, OUTPUT_BYTES), &census::environment());
    let mut ids = Vec::new();
    let mut settled = 0;
    while settled < sessions {
        while ids.len() < sessions && ids.len() - settled < IN_FLIGHT {
            ids.push(supervisor.launch(&program).expect("launch"));
        }
        settled += supervisor.take_settled().len();
    }
    ids
}

/// A task for each session, which makes its calls one after the other.
fn our_load(sessions: usize, calls: usize) -> Vec<f64> {
    let ours = Ours::start();
    let agents: Vec<_> = (0..sessions).map(|session| ours.agent(session)).collect();
    ours.run(async move {
        let processes = our_settled_processes(agents).await;
        let calls = calls.max(sessions);
        let begun = Arc::new(AtomicUsize::new(0));
        let (cpu, began) = (memory::cpu_time(), Instant::now());
        let tasks: Vec<_> = processes
            .into_iter()
            .map(|(agent, process)| tokio::spawn(our_calls(agent, process, Arc::clone(&begun), calls)))
            .collect();
        let mut latencies = Samples::default();
        for task in tasks {
            latencies.extend(task.await.expect("a session"));
        }
        let (cpu, taken) = (memory::cpu_time() - cpu, began.elapsed());
        values(calls, taken, &latencies, cpu)
    })
}

async fn our_settled_processes(agents: Vec<Agent>) -> Vec<(Agent, Process)> {
    let spec = ours::spec(&writer::arguments(4 << 10, OUTPUT_BYTES));
    let mut ready = Vec::new();
    for some in agents.chunks(IN_FLIGHT) {
        let begun: Vec<_> = some
            .iter()
            .map(|agent| {
                let (agent, spec) = (agent.clone(), spec.clone());
                tokio::spawn(async move {
                    let process = agent.start(spec).await.expect("a start");
                    ours::wait(&process).await;
                    (agent, process)
                })
            })
            .collect();
        for task in begun {
            ready.push(task.await.expect("a start"));
        }
    }
    ready
}

async fn our_calls(agent: Agent, process: Process, begun: Arc<AtomicUsize>, calls: usize) -> Samples {
    let mut latencies = Samples::default();
    loop {
        let call = begun.fetch_add(1, Ordering::Relaxed);
        if call >= calls {
            return latencies;
        }
        let began = Instant::now();
        let size = our_answer(&agent, &process, verb(call)).await;
        latencies.push(began.elapsed());
        assert!(size > 0, "an answer of substance, call {call}");
    }
}

async fn our_answer(agent: &Agent, process: &Process, verb: Verb) -> u64 {
    match verb {
        Verb::Status => process.status().await.expect("a status").output.end,
        Verb::Page(max) => {
            let page = process.output().max_bytes(max as u64).page().await.expect("a page");
            page.next_cursor - page.start
        }
        Verb::List => {
            let list = agent.list(List::default()).await.expect("a list");
            list.processes.expect("rows, where no more is asked for").len() as u64
        }
    }
}

fn verb(call: usize) -> Verb {
    match call % 10 {
        0 | 2 | 4 | 5 | 7 | 9 => Verb::Status,
        1 | 3 | 8 => Verb::Page(PAGE_BYTES),
        _ => Verb::List,
    }
}
