//! Who is in a process group: a scan of `/proc`, never on the path of a process that leaves nothing behind.
//!
//! Invariant: a member is known by number *and* start time, so that a reused number is nobody. A zombie is not
//! alive unless threads of it still run. Lacks: any signal but 0.

use std::io::Read;

use rustix::process::Pid;

use crate::protocol::state::Survivor;

/// A live member of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    /// Its number.
    pub(super) pid: Pid,
    /// When it started, in clock ticks since the system did.
    started_ticks: u64,
    state: u8,
    name: String,
}

/// What one scan found.
#[derive(Debug, Default)]
pub(super) struct Census {
    /// Members that are alive, by number.
    pub(super) live: Vec<Member>,
    /// Zombie members, by number.
    pub(super) dead: Vec<Pid>,
    /// Whether every process can be seen. Then nothing found means nothing there.
    pub(super) complete: bool,
}

/// The most of `/proc/N/stat` that is read; the fields needed end far before.
const STAT_BYTES: usize = 1024;

struct Stat {
    name: String,
    state: u8,
    group: i32,
    threads: u64,
    started_ticks: u64,
}

/// Looks through all processes. Takes some 10 µs for each; blocks on nothing.
pub(super) fn scan(group: Pid) -> Census {
    let mut census = Census { complete: everything_is_visible(), ..Census::default() };
    let Ok(entries) = std::fs::read_dir("/proc") else { return Census::default() };
    for entry in entries {
        let Ok(entry) = entry else {
            census.complete = false;
            break;
        };
        let number = entry.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
        let Some(pid) = number else { continue };
        let Some(stat) = read_stat(pid).filter(|stat| stat.group == group.as_raw_nonzero().get()) else { continue };
        if is_dead(&stat) {
            census.dead.push(pid);
        } else {
            census.live.push(Member { pid, started_ticks: stat.started_ticks, state: stat.state, name: stat.name });
        }
    }
    census
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
pub(super) fn is_still(member: &Member, group: Pid) -> bool {
    read_stat(member.pid).is_some_and(|stat| {
        stat.started_ticks == member.started_ticks && stat.group == group.as_raw_nonzero().get() && !is_dead(&stat)
    })
}

/// What is told of members that are still there.
pub(super) fn survivors(members: &[Member]) -> Vec<Survivor> {
    let now_ms = since_boot_ms();
    let ticks_per_second = ticks_per_second();
    members
        .iter()
        .map(|member| {
            let uid = status_number(member.pid, "Uid:", 1);
            let user = user_name(uid);
            let why = why_alive(member, &user);
            let started_ms = member.started_ticks.saturating_mul(1000) / ticks_per_second;
            Survivor { name: member.name.clone(), user, age_ms: now_ms.saturating_sub(started_ms), why }
        })
        .collect()
}

/// A member the kernel counts and `/proc` does not show.
pub(super) fn hidden() -> Survivor {
    let unknown = || "unknown".to_owned();
    Survivor { name: unknown(), user: unknown(), age_ms: 0, why: "not visible in /proc".to_owned() }
}

fn why_alive(member: &Member, user: &str) -> String {
    // Signal 0 tests permission and disturbs nobody, whoever the number belongs to by now.
    if rustix::process::test_kill_process(member.pid) == Err(rustix::io::Errno::PERM) {
        return format!("may not be signalled: runs as {user}");
    }
    if status_number(member.pid, "TracerPid:", 0).is_some_and(|tracer| tracer != 0) {
        return "traced by another program".to_owned();
    }
    match member.state {
        b'D' => "in uninterruptible sleep".to_owned(),
        b'T' | b't' => "stopped".to_owned(),
        _ => "still running".to_owned(),
    }
}

/// The number at `place` after `key` in `/proc/N/status`.
fn status_number(pid: Pid, key: &str, place: usize) -> Option<u32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    line.split_ascii_whitespace().nth(place)?.parse().ok()
}

fn user_name(uid: Option<u32>) -> String {
    let Some(uid) = uid else { return "unknown".to_owned() };
    match nix::unistd::User::from_uid(nix::unistd::Uid::from_raw(uid)) {
        Ok(Some(user)) => user.name,
        _ => uid.to_string(),
    }
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

    #[test]
    fn this_process_is_found_in_its_own_group() {
        let census = scan(rustix::process::getpgrp());
        let own = census.live.iter().find(|member| member.pid == rustix::process::getpid()).unwrap();
        assert!(is_still(own, rustix::process::getpgrp()));
        let told = survivors(std::slice::from_ref(own));
        assert!(told[0].age_ms < 3_600_000, "{told:?}");
    }
}
