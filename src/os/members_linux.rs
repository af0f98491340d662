//! The members of a group on Linux: a scan of `/proc`.

use std::io::Read;

use rustix::process::Pid;

use super::{Census, Details, Member};

/// The most of `/proc/N/stat` that is read; the fields needed end far before.
const STAT_BYTES: usize = 1024;

struct Stat {
    name: String,
    state: u8,
    group: i32,
    threads: u64,
    started_ticks: u64,
}

/// Looks through all processes. Their groups are asked for first: reading what `/proc` says of one takes some 10 µs.
/// Blocks on nothing.
pub(in crate::os) fn scan(group: Pid) -> Census {
    let mut census = Census { complete: everything_is_visible(), ..Census::default() };
    let Ok(entries) = std::fs::read_dir("/proc") else { return Census::default() };
    for entry in entries {
        let Ok(entry) = entry else {
            census.complete = false;
            break;
        };
        let number = entry.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
        let Some(pid) = number else { continue };
        if !may_be_member(pid, group) {
            continue;
        }
        let Some(stat) = read_stat(pid).filter(|stat| stat.group == group.as_raw_nonzero().get()) else { continue };
        if is_dead(&stat) {
            census.dead.push(pid);
        } else {
            let doing = match stat.state {
                b'D' => "in uninterruptible sleep",
                b'T' | b't' => "stopped",
                _ => "still running",
            };
            census.live.push(Member { pid, started: stat.started_ticks, doing, name: stat.name });
        }
    }
    census
}

/// `false` only where the kernel says so: of a process that is gone or in another group, zombies included.
fn may_be_member(pid: Pid, group: Pid) -> bool {
    // Not rustix: a kernel thread is in group 0, which is no number to it.
    match nix::unistd::getpgid(Some(nix::unistd::Pid::from_raw(pid.as_raw_nonzero().get()))) {
        Ok(of) => of.as_raw() == group.as_raw_nonzero().get(),
        Err(error) => error != nix::errno::Errno::ESRCH,
    }
}

/// Whether `/proc` shows this process under its own number (it may belong to another PID namespace) and
/// processes of other users (it may hide them).
fn everything_is_visible() -> bool {
    let own = std::fs::read_link("/proc/self").ok();
    let own = own.as_deref().and_then(|own| own.to_str()).and_then(|own| own.parse::<u32>().ok());
    own == Some(std::process::id()) && std::fs::exists("/proc/1/stat").unwrap_or(false)
}

/// A zombie main thread with others running is alive.
fn is_dead(stat: &Stat) -> bool {
    matches!(stat.state, b'X' | b'x') || (stat.state == b'Z' && stat.threads <= 1)
}

fn read_stat(pid: Pid) -> Option<Stat> {
    let mut text = [0; STAT_BYTES];
    let mut file = std::fs::File::open(format!("/proc/{pid}/stat")).ok()?;
    let length = file.read(&mut text).ok()?;
    parse_stat(&text[..length])
}

/// `pid (name) state ppid pgrp session …`; the name may hold anything, so it ends at the last parenthesis.
fn parse_stat(text: &[u8]) -> Option<Stat> {
    let open = text.iter().position(|byte| *byte == b'(')?;
    let close = text.iter().rposition(|byte| *byte == b')')?;
    let name = String::from_utf8_lossy(text.get(open + 1..close)?).into_owned();
    let mut fields = std::str::from_utf8(text.get(close + 1..)?).ok()?.split_ascii_whitespace();
    let state = *fields.next()?.as_bytes().first()?;
    let group = fields.nth(1)?.parse().ok()?; // field 5
    let threads = fields.nth(14)?.parse().ok()?; // field 20
    let started_ticks = fields.nth(1)?.parse().ok()?; // field 22
    Some(Stat { name, state, group, threads, started_ticks })
}

/// Whether the number still stands for that member of that group, alive.
pub(in crate::os) fn is_still(member: &Member, group: Pid) -> bool {
    read_stat(member.pid).is_some_and(|stat| {
        stat.started_ticks == member.started && stat.group == group.as_raw_nonzero().get() && !is_dead(&stat)
    })
}

/// What `/proc` says of a member now.
pub(super) fn details(member: &Member) -> Details {
    let started_ms = member.started.saturating_mul(1000) / ticks_per_second();
    Details {
        uid: status_number(member.pid, "Uid:", 1),
        age_ms: since_boot_ms().saturating_sub(started_ms),
        traced: status_number(member.pid, "TracerPid:", 0).is_some_and(|tracer| tracer != 0),
    }
}

/// The number at `place` after `key` in `/proc/N/status`.
fn status_number(pid: Pid, key: &str, place: usize) -> Option<u32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    line.split_ascii_whitespace().nth(place)?.parse().ok()
}

fn since_boot_ms() -> u64 {
    // `/proc/uptime` counts what start times count, suspended time included.
    let text = std::fs::read_to_string("/proc/uptime").unwrap_or_default();
    let seconds = text.split(' ').next().and_then(|word| word.parse::<f64>().ok()).unwrap_or(0.0);
    (seconds * 1000.0) as u64
}

fn ticks_per_second() -> u64 {
    let ticks = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).ok().flatten();
    ticks.and_then(|ticks| u64::try_from(ticks).ok()).filter(|ticks| *ticks > 0).unwrap_or(100)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<(&str, u8, i32, u64, u64)>) {
        let stat = parse_stat(text.as_bytes());
        let got = stat.as_ref().map(|s| (s.name.as_str(), s.state, s.group, s.threads, s.started_ticks));
        assert_eq!(got, expected, "{text:?}");
    }

    #[test]
    fn a_name_with_parentheses_and_spaces_does_not_shift_the_fields() {
        let rest = "S 1 77 77 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 3 0 123456 1000";
        check(&format!("9 (a) (b R 1) {rest}"), Some(("a) (b R 1", b'S', 77, 3, 123_456)));
        check(&format!("9 () {rest}"), Some(("", b'S', 77, 3, 123_456)));
        check("9 (cut) S 1 77", None);
        check("", None);
    }
}
