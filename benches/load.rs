//! Calls by message alone, from one session to a thousand: no process starts or ends while the clock runs.
//!
//! Each session keeps one call in flight and sends its next as soon as it has its answer. Of ten calls six are
//! `status`, three a page of 4 KiB, one a list of the session's processes.

#[allow(dead_code, unused_imports, reason = "each bench uses a part")]
mod floor;
#[allow(dead_code, unused_imports, reason = "each bench uses a part")]
mod support;

use std::sync::Arc;
use std::time::Instant;

use floor::{Owner, Program, Running, Verb};
use support::{Aim, Mode, Report, Samples, census, figure, memory, writer};

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
        report.compare(&figures, Box::new(move || floor_load(sessions, calls)), None);
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
    vec![
        sent as f64 / taken.as_secs_f64(),
        latencies.percentile(50.0),
        latencies.percentile(90.0),
        latencies.percentile(99.0),
        cpu.as_secs_f64() * 1e6 / sent as f64,
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

fn verb(call: usize) -> Verb {
    match call % 10 {
        0 | 2 | 4 | 5 | 7 | 9 => Verb::Status,
        1 | 3 | 8 => Verb::Page(PAGE_BYTES),
        _ => Verb::List,
    }
}
