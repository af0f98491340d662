//! How fast output is taken in, what that costs, and how the host fares meanwhile.

#[allow(dead_code, unused_imports, reason = "each bench uses a part")]
mod floor;
#[allow(dead_code, unused_imports, reason = "each bench uses a part")]
mod support;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use floor::{Program, Running};
use procession::{Page, Process};
use support::{Aim, Mode, Ours, Report, Samples, census, figure, memory, ours, writer};

const ROUNDS: usize = 5;
const MIB: u64 = 1 << 20;
const GIB: f64 = (1_u64 << 30) as f64;
/// A large write, and a page.
const CHUNK_BYTES: usize = 64 << 10;
/// Pause between two status calls while the big writer runs.
const STATUS_EVERY: Duration = Duration::from_micros(200);

fn main() {
    writer::run_if_asked();
    let mode = Mode::from_arguments();
    let report = Report::new("output", mode, ROUNDS);
    throughput(&report, mode);
    page(&report, mode.pick(2000, 50));
    big_writer(&report, mode);
    census::finish();
}

fn throughput(report: &Report, mode: Mode) {
    let figures = [
        figure("64 KiB writes", "GB/s", Aim::RatioAtLeast(0.9)),
        figure("64 KiB writes, host CPU", "s/GiB", Aim::Shown),
    ];
    let total = mode.pick(1024, 32) * MIB;
    report.compare(
        &figures,
        Box::new(|| floor_reads(CHUNK_BYTES, total)),
        Some(Box::new(|| our_reads(CHUNK_BYTES, total))),
    );

    // The floor's reading is the plain loop that these are compared with.
    let figures = [
        figure("80-byte lines, one write each", "GB/s", Aim::RatioAtLeast(3.0)),
        figure("80-byte lines, one write each, host CPU", "s/GiB", Aim::RatioAtMost(0.1)),
    ];
    let total = mode.pick(128, 2) * MIB;
    let floor = Box::new(|| floor_reads(writer::LINE_BYTES, total));
    report.compare(&figures, floor, Some(Box::new(|| our_reads(writer::LINE_BYTES, total))));
}

/// From the launch of the writer to its last byte and exit.
fn floor_reads(chunk: usize, total: u64) -> Vec<f64> {
    let program = Program::new(&writer::arguments(chunk, total), &census::environment());
    let supervisor = Running::start().expect("an epoll thread");
    let (cpu, began) = (memory::cpu_time(), Instant::now());
    let id = supervisor.launch(&program).expect("launch");
    let status = supervisor.wait(id);
    let (cpu, taken) = (memory::cpu_time() - cpu, began.elapsed());
    assert_eq!(status.end, total, "every byte was read");
    vec![total as f64 / 1e9 / taken.as_secs_f64(), cpu.as_secs_f64() / (total as f64 / GIB)]
}

/// The same. What is read is checked by [`page`].
fn our_reads(chunk: usize, total: u64) -> Vec<f64> {
    let spec = ours::spec(&writer::arguments(chunk, total));
    let ours = Ours::start();
    let agent = ours.agent(0);
    ours.run(async move {
        let (cpu, began) = (memory::cpu_time(), Instant::now());
        let process = agent.start(spec).await.expect("a start");
        ours::wait(&process).await;
        let (cpu, taken) = (memory::cpu_time() - cpu, began.elapsed());
        assert_eq!(process.status().await.expect("a status").output.end, total, "every byte was read");
        vec![total as f64 / 1e9 / taken.as_secs_f64(), cpu.as_secs_f64() / (total as f64 / GIB)]
    })
}

fn page(report: &Report, each: usize) {
    let arguments = writer::arguments(CHUNK_BYTES, MIB + MIB / 2);
    let program = Program::new(&arguments, &census::environment());
    let supervisor = Running::start().expect("an epoll thread");
    let id = supervisor.launch(&program).expect("launch");
    let end = supervisor.wait(id).end;
    // The oldest page, one across the seam of the ring, and the newest.
    let checked = [end - MIB, MIB - 100, end - CHUNK_BYTES as u64];
    for cursor in checked {
        check_page(cursor, &supervisor.page(id, cursor, CHUNK_BYTES));
    }
    let ours = Ours::start();
    let agent = ours.agent(0);
    let process = ours.run(async move {
        let process = agent.start(ours::spec(&arguments)).await.expect("a start");
        ours::wait(&process).await;
        for cursor in checked {
            check_page(cursor, our_page(&process, cursor).await.text().as_bytes());
        }
        process
    });
    let floor = || {
        let mut pages = Samples::default();
        for at in 0..each {
            let page = pages.time(|| supervisor.page(id, page_cursor(end, at), CHUNK_BYTES));
            assert_eq!(page.len(), CHUNK_BYTES, "a whole page");
        }
        vec![pages.percentile(50.0), pages.percentile(99.0)]
    };
    let figures = [
        figure("64 KiB page of a full buffer p50", "us", Aim::AtMost(12.0)),
        figure("64 KiB page of a full buffer p99", "us", Aim::Shown),
    ];
    let our_side = || {
        let process = process.clone();
        ours.run(async move { our_pages(&process, end, each).await })
    };
    report.compare(&figures, Box::new(floor), Some(Box::new(our_side)));
}

async fn our_pages(process: &Process, end: u64, each: usize) -> Vec<f64> {
    let mut pages = Samples::default();
    for at in 0..each {
        let cursor = page_cursor(end, at);
        let began = Instant::now();
        let page = our_page(process, cursor).await;
        pages.push(began.elapsed());
        assert_eq!(page.next_cursor - page.start, CHUNK_BYTES as u64, "a whole page");
    }
    vec![pages.percentile(50.0), pages.percentile(99.0)]
}

async fn our_page(process: &Process, cursor: u64) -> Page {
    process.output().from(cursor).max_bytes(CHUNK_BYTES as u64).page().await.expect("a page")
}

/// Pages all over the kept mebibyte, across the seam of the ring too.
fn page_cursor(end: u64, at: usize) -> u64 {
    end - MIB + (at as u64 * 977) % (MIB - CHUNK_BYTES as u64)
}

/// Every byte of the page is the one that was written at its place.
fn check_page(cursor: u64, page: &[u8]) {
    assert_eq!(page.len(), CHUNK_BYTES, "a whole page from {cursor}");
    let wrong = (cursor..).zip(page).find(|(position, byte)| **byte != writer::byte_at(CHUNK_BYTES, *position));
    assert_eq!(wrong, None, "the bytes from {cursor} on are those written there");
}

fn big_writer(report: &Report, mode: Mode) {
    let total = mode.pick(1024, 32) * MIB;
    let name = |what: &str| format!("{} MiB writer: {what}", total / MIB);
    let figures = [
        figure(name("host peak memory"), "MiB", Aim::AtMost(32.0)),
        figure(name("status p50 meanwhile"), "us", Aim::Shown),
        figure(name("status p99 meanwhile"), "us", Aim::AtMost(1000.0)),
    ];
    report.compare(&figures, Box::new(|| floor_big_writer(total)), Some(Box::new(|| our_big_writer(total))));
}

fn floor_big_writer(total: u64) -> Vec<f64> {
    let program = Program::new(&writer::arguments(CHUNK_BYTES, total), &census::environment());
    let supervisor = Running::start().expect("an epoll thread");
    memory::give_back();
    memory::reset_peak().expect("a process may reset its own peak");
    let id = supervisor.launch(&program).expect("launch");
    let done = AtomicBool::new(false);
    let statuses = thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let mut statuses = Samples::default();
            while !done.load(Ordering::Relaxed) {
                statuses.time(|| supervisor.status(id));
                thread::sleep(STATUS_EVERY);
            }
            statuses
        });
        assert_eq!(supervisor.wait(id).end, total, "every byte was read");
        done.store(true, Ordering::Relaxed);
        asking.join().expect("the asking thread")
    });
    let peak = memory::peak_kib();
    vec![peak as f64 / 1024.0, statuses.percentile(50.0), statuses.percentile(99.0)]
}

fn our_big_writer(total: u64) -> Vec<f64> {
    let spec = ours::spec(&writer::arguments(CHUNK_BYTES, total));
    let ours = Ours::start();
    let agent = ours.agent(0);
    memory::give_back();
    memory::reset_peak().expect("a process may reset its own peak");
    let statuses = ours.run(async move {
        let process = agent.start(spec).await.expect("a start");
        let asking = tokio::spawn(statuses_until_the_end(process.clone()));
        ours::wait(&process).await;
        let (statuses, end) = asking.await.expect("the asking task");
        assert_eq!(end, total, "every byte was read");
        statuses
    });
    let peak = memory::peak_kib();
    vec![peak as f64 / 1024.0, statuses.percentile(50.0), statuses.percentile(99.0)]
}

/// The runtime's clock makes a millisecond of the pause, so these are fewer than the floor's.
async fn statuses_until_the_end(process: Process) -> (Samples, u64) {
    let mut statuses = Samples::default();
    loop {
        let began = Instant::now();
        let status = process.status().await.expect("a status");
        statuses.push(began.elapsed());
        if status.state.is_final() {
            return (statuses, status.output.end);
        }
        tokio::time::sleep(STATUS_EVERY).await;
    }
}
