//! Many conversations at once: each starts its commands, polls them all every 10 ms, and reads what they wrote.

#[allow(dead_code, unused_imports, reason = "each bench uses a part")]
mod floor;
#[allow(dead_code, unused_imports, reason = "each bench uses a part")]
mod support;

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use floor::{Program, Running};
use support::{Aim, Mode, Report, Samples, census, figure, memory, samples, writer};

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
    report.compare(&figures, Box::new(|| floor_sessions(sessions, &program)), None);
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
