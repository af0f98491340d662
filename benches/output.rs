//! How fast output is taken in, what that costs, and how the host fares meanwhile.

#[allow(dead_code, unused_imports, reason = "each bench uses a part")]
mod floor;
#[allow(dead_code, unused_imports, reason = "each bench uses a part")]
mod support;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use floor::{Program, Running};
use support::{Aim, Mode, Report, Samples, census, figure, memory, writer};

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
    report.compare(&figures, Box::new(|| floor_reads(CHUNK_BYTES, total)), None);

    // The floor's reading is the plain loop that these are compared with.
    let figures = [
        figure("80-byte lines, one write each", "GB/s", Aim::RatioAtLeast(3.0)),
        figure("80-byte lines, one write each, host CPU", "s/GiB", Aim::RatioAtMost(0.1)),
    ];
    let total = mode.pick(128, 2) * MIB;
    report.compare(&figures, Box::new(|| floor_reads(writer::LINE_BYTES, total)), None);
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

fn page(report: &Report, each: usize) {
    let program = Program::new(&writer::arguments(CHUNK_BYTES, MIB + MIB / 2), &census::environment());
    let supervisor = Running::start().expect("an epoll thread");
    let id = supervisor.launch(&program).expect("launch");
    let end = supervisor.wait(id).end;
    // The oldest page, one across the seam of the ring, and the newest.
    for cursor in [end - MIB, MIB - 100, end - CHUNK_BYTES as u64] {
        check_page(cursor, &supervisor.page(id, cursor, CHUNK_BYTES));
    }
    let floor = || {
        let mut pages = Samples::default();
        for at in 0..each {
            // Pages all over the kept mebibyte, across the seam of the ring too.
            let cursor = end - MIB + (at as u64 * 977) % (MIB - CHUNK_BYTES as u64);
            let page = pages.time(|| supervisor.page(id, cursor, CHUNK_BYTES));
            assert_eq!(page.len(), CHUNK_BYTES, "a whole page");
        }
        vec![pages.percentile(50.0), pages.percentile(99.0)]
    };
    let figures = [
        figure("64 KiB page of a full buffer p50", "us", Aim::AtMost(12.0)),
        figure("64 KiB page of a full buffer p99", "us", Aim::Shown),
    ];
    report.compare(&figures, Box::new(floor), None);
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
    report.compare(&figures, Box::new(|| floor_big_writer(total)), None);
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
