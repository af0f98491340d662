//! Many conversations at once: each starts its commands, polls them all every 10 ms, and reads what they wrote.

#[allow(dead_code, unused_imports, reason = "each bench uses a part")]
mod floor;
#[allow(dead_code, unused_imports, reason = "each bench uses a part")]
mod support;

use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use floor::{Program, Running};
use procession::Agent;
use support::{Aim, Mode, Ours, Report, Samples, census, figure, memory, ours, samples, writer};

const ROUNDS: usize = 5;
const PROCESSES_EACH: usize = 8;
const POLL_EVERY: Duration = Duration::from_millis(10);
const SCRIPT: &str = "echo a; sleep 0.2; echo b";
const OUTPUT: &[u8] = b"a\nb\n";

fn main() {
    writer::run_if_asked();
    let mode = Mode::from_arguments();
    let report = Report::new("sessions", mode, ROUNDS);
    memory::raise_descriptor_limit();
    let sessions = mode.pick(64, 4);
    let name = |what: &str| format!("{sessions} x {PROCESSES_EACH} polled: {what}");
    let figures = [
        figure(name("total"), "ms", Aim::RatioAtMost(1.25)),
        figure(name("status p50"), "us", Aim::Shown),
        figure(name("status p99"), "us", Aim::AtMost(100.0)),
        figure(name("start p50"), "ms", Aim::Shown),
        figure(name("host CPU"), "ms", Aim::Shown),
    ];
    let program = Program::shell(SCRIPT, &census::environment());
    report.compare(
        &figures,
        Box::new(|| floor_sessions(sessions, &program)),
        Some(Box::new(|| our_sessions(sessions))),
    );
    census::finish();
}

/// A thread for each session.
fn floor_sessions(sessions: usize, program: &Program) -> Vec<f64> {
    let supervisor = Running::start().expect("an epoll thread");
    let ready = Barrier::new(sessions + 1);
    let (mut statuses, mut starts) = (Samples::default(), Samples::default());
    let (cpu, began) = thread::scope(|scope| {
        let running: Vec<_> =
            (0..sessions).map(|_| scope.spawn(|| floor_session(&supervisor, program, &ready))).collect();
        let cpu = memory::cpu_time();
        ready.wait();
        let began = Instant::now();
        for session in running {
            let (status, start) = session.join().expect("a session");
            statuses.extend(status);
            starts.extend(start);
        }
        (cpu, began)
    });
    let (cpu, taken) = (memory::cpu_time() - cpu, began.elapsed());
    values(taken, &statuses, &starts, cpu)
}

fn values(taken: Duration, statuses: &Samples, starts: &Samples, cpu: Duration) -> Vec<f64> {
    vec![
        samples::micros(taken) / 1e3,
        statuses.percentile(50.0),
        statuses.percentile(99.0),
        starts.percentile(50.0) / 1e3,
        samples::micros(cpu) / 1e3,
    ]
}

fn floor_session(supervisor: &Running, program: &Program, ready: &Barrier) -> (Samples, Samples) {
    let (mut statuses, mut starts) = (Samples::default(), Samples::default());
    ready.wait();
    let mut live: Vec<usize> =
        (0..PROCESSES_EACH).map(|_| starts.time(|| supervisor.launch(program).expect("launch"))).collect();
    while !live.is_empty() {
        thread::sleep(POLL_EVERY);
        live.retain(|id| {
            let status = statuses.time(|| supervisor.status(*id));
            if status.settled {
                assert_eq!(supervisor.page(*id, 0, 64 << 10), OUTPUT, "both lines, and nothing else");
                supervisor.forget(*id);
            }
            !status.settled
        });
    }
    (statuses, starts)
}

/// A task for each session.
fn our_sessions(sessions: usize) -> Vec<f64> {
    let ours = Ours::start();
    let agents: Vec<_> = (0..sessions).map(|session| ours.agent(session)).collect();
    ours.run(async move {
        let ready = Arc::new(tokio::sync::Barrier::new(sessions + 1));
        let running: Vec<_> =
            agents.into_iter().map(|agent| tokio::spawn(our_session(agent, Arc::clone(&ready)))).collect();
        let cpu = memory::cpu_time();
        ready.wait().await;
        let began = Instant::now();
        let (mut statuses, mut starts) = (Samples::default(), Samples::default());
        for session in running {
            let (status, start) = session.await.expect("a session");
            statuses.extend(status);
            starts.extend(start);
        }
        let (cpu, taken) = (memory::cpu_time() - cpu, began.elapsed());
        values(taken, &statuses, &starts, cpu)
    })
}

async fn our_session(agent: Agent, ready: Arc<tokio::sync::Barrier>) -> (Samples, Samples) {
    let spec = ours::shell(SCRIPT);
    let (mut statuses, mut starts) = (Samples::default(), Samples::default());
    ready.wait().await;
    let mut live = Vec::new();
    for _ in 0..PROCESSES_EACH {
        let began = Instant::now();
        live.push(agent.start(spec.clone()).await.expect("a start"));
        starts.push(began.elapsed());
    }
    while !live.is_empty() {
        tokio::time::sleep(POLL_EVERY).await;
        let mut still = Vec::new();
        for process in live {
            let began = Instant::now();
            let status = process.status().await.expect("a status");
            statuses.push(began.elapsed());
            if !status.state.is_final() {
                still.push(process);
                continue;
            }
            let page = process.output().page().await.expect("a page");
            assert_eq!(page.text().as_bytes(), OUTPUT, "both lines, and nothing else");
            process.clear().await.expect("a clear");
        }
        live = still;
    }
    (statuses, starts)
}
