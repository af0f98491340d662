//! The members of a group on macOS: `proc_listpids` and `proc_pidinfo`.

use std::mem::{MaybeUninit, size_of};

use rustix::process::Pid;

use super::{Census, Details, Member};

/// `PROC_PGRP_ONLY` of `sys/proc_info.h`: the members of one group.
const GROUP_ONLY: u32 = 2;
/// Members listed at most; a larger group is seen in part.
const MEMBERS_MAX: usize = 4096;

/// Asks for the members of one group.
pub(in crate::os) fn scan(group: Pid) -> Census {
    let mut numbers = vec![0 as libc::pid_t; MEMBERS_MAX];
    let bytes = (MEMBERS_MAX * size_of::<libc::pid_t>()) as libc::c_int;
    let number = group.as_raw_nonzero().get() as u32;
    // SAFETY: the buffer has the size named and is written with whole numbers.
    let written = unsafe { libc::proc_listpids(GROUP_ONLY, number, numbers.as_mut_ptr().cast(), bytes) };
    let Some(count) = usize::try_from(written).ok().map(|bytes| bytes / size_of::<libc::pid_t>()) else {
        return Census::default();
    };
    let mut census = Census { complete: count < MEMBERS_MAX, ..Census::default() };
    for pid in numbers[..count].iter().filter_map(|number| Pid::from_raw(*number)) {
        // Of a zombie, and of nobody, there is no information.
        match info(pid).filter(|info| info.pbi_status != libc::SZOMB) {
            Some(info) => census.live.push(member(pid, &info)),
            None if rustix::process::test_kill_process(pid) == Err(rustix::io::Errno::PERM) => {
                census.live.push(Member { pid, started: 0, doing: "still running", name: "unknown".to_owned() });
            }
            None => census.dead.push(pid),
        }
    }
    census
}

fn member(pid: Pid, info: &libc::proc_bsdinfo) -> Member {
    let name: Vec<u8> = info.pbi_comm.iter().take_while(|byte| **byte != 0).map(|byte| *byte as u8).collect();
    let doing = if info.pbi_status == libc::SSTOP { "stopped" } else { "still running" };
    Member { pid, started: started_ms(info), doing, name: String::from_utf8_lossy(&name).into_owned() }
}

fn started_ms(info: &libc::proc_bsdinfo) -> u64 {
    info.pbi_start_tvsec * 1000 + info.pbi_start_tvusec / 1000
}

fn info(pid: Pid) -> Option<libc::proc_bsdinfo> {
    let mut info = MaybeUninit::<libc::proc_bsdinfo>::zeroed();
    let bytes = size_of::<libc::proc_bsdinfo>() as libc::c_int;
    let number = pid.as_raw_nonzero().get();
    // SAFETY: the buffer has the size named.
    let written = unsafe { libc::proc_pidinfo(number, libc::PROC_PIDTBSDINFO, 0, info.as_mut_ptr().cast(), bytes) };
    // SAFETY: plain numbers, zeroed before and written whole.
    (written == bytes).then(|| unsafe { info.assume_init() })
}

/// What the system says of a member now. A state of uninterruptible sleep is not told here.
pub(super) fn details(member: &Member) -> Details {
    let now_ms = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |now| now.as_millis());
    let now_ms = u64::try_from(now_ms).unwrap_or(u64::MAX);
    match info(member.pid).filter(|info| started_ms(info) == member.started) {
        Some(info) => Details { uid: Some(info.pbi_uid), age_ms: now_ms.saturating_sub(member.started), traced: false },
        None => Details::default(),
    }
}
