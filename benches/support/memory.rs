//! Memory and CPU time of this process, as the kernel counts them, and its limit of descriptors.

#![allow(unsafe_code, reason = "reads clocks and limits that no safe package wraps")]

use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::time::Duration;

const PAGE_BYTES: usize = 4096;

/// Resident memory now, in KiB.
pub fn resident_kib() -> u64 {
    field("/proc/self/status", "VmRSS:")
}

/// The most resident memory since [`reset_peak`], in KiB.
pub fn peak_kib() -> u64 {
    field("/proc/self/status", "VmHWM:")
}

/// Makes the peak start anew from what is resident now.
pub fn reset_peak() -> io::Result<()> {
    fs::write("/proc/self/clear_refs", "5")
}

/// Returns freed memory to the kernel, so that what is measured next cannot hide in what was used before.
pub fn give_back() {
    // SAFETY: takes a number; glibc's allocator may be trimmed at any time, from any thread.
    unsafe { libc::malloc_trim(0) };
}

/// Memory that could be had without swapping, in KiB.
pub fn available_kib() -> u64 {
    field("/proc/meminfo", "MemAvailable:")
}

/// CPU time of all threads of this process, children not included.
pub fn cpu_time() -> Duration {
    let mut now = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: the call writes one timespec; this clock exists on every Linux, so it succeeds and fills it.
    let now = unsafe {
        assert_eq!(libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, now.as_mut_ptr()), 0);
        now.assume_init()
    };
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// This much memory, each page of it touched, so that a fork would have to copy its page tables.
pub fn touched(bytes: usize) -> Vec<u8> {
    let mut memory = vec![0_u8; bytes];
    for page in memory.chunks_mut(PAGE_BYTES) {
        page[0] = 1;
    }
    memory
}

/// Raises the limit of open descriptors as far as it goes; answers how far that was.
pub fn raise_descriptor_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls take a pointer to one rlimit that outlives them.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit), 0);
        limit.rlim_cur = limit.rlim_max;
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &limit), 0);
    }
    limit.rlim_cur
}

fn field(path: &str, name: &str) -> u64 {
    let text = fs::read_to_string(path).expect("/proc is mounted");
    let line = text.lines().find_map(|line| line.strip_prefix(name)).expect("the kernel names this field");
    line.trim().trim_end_matches(" kB").parse().expect("a number of kB")
}
