//! Who is in the tree: the guardian's own children, and everybody below them.
//!
//! The list of own children comes from the kernel (`/proc/self/task/TID/children`, kept open). Without it, or in a PID
//! namespace whose `/proc` is another's, numbers are asked for one by one.

use std::fs::File;
use std::os::unix::fs::FileExt;

use libc::pid_t;

use super::sys::{self, Waited};
use crate::os::frame::Left;

/// The most descendants that one walk looks at.
pub(super) const WALK_MAX: usize = 1000;
/// What is read of the list at a time.
const LIST_BYTES: usize = 4096;
/// Below it are all numbers on a small system; they are tried first where there is no list.
const NUMBER_USUAL: pid_t = 1 << 15;
/// Below it are all numbers that Linux gives (PID_MAX_LIMIT).
const NUMBER_MAX: pid_t = 1 << 22;

/// The list of own children.
#[derive(Debug)]
pub(super) struct Children {
    list: Option<File>,
    look: fn(pid_t) -> Waited,
}

/// One process of the tree, as it was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) pid: pid_t,
    /// Its parent then.
    pub(super) parent: pid_t,
}

impl Children {
    /// Of the calling thread. Opened after a fork, by the copy itself.
    pub(super) fn open() -> Self {
        Children::open_with(sys::look)
    }

    /// Of the calling thread only, where others have children too.
    pub(super) fn open_of_thread() -> Self {
        Children::open_with(sys::look_as_thread)
    }

    fn open_with(look: fn(pid_t) -> Waited) -> Self {
        let own = std::fs::read_link("/proc/self").ok();
        let same = own.and_then(|link| link.to_str().and_then(|text| text.parse::<pid_t>().ok())) == Some(sys::own());
        let tid = rustix::thread::gettid().as_raw_nonzero();
        let list = same.then(|| File::open(format!("/proc/self/task/{tid}/children")).ok()).flatten();
        Children { list, look }
    }

    /// Their numbers, oldest first, zombies included.
    pub(super) fn list(&self) -> Vec<pid_t> {
        match self.list.as_ref().and_then(read_numbers) {
            Some(numbers) => numbers,
            None => {
                let known = |numbers: std::ops::Range<pid_t>| -> Vec<pid_t> {
                    numbers.filter(|pid| (self.look)(*pid) != Waited::NoChild).collect()
                };
                let usual = known(2..NUMBER_USUAL);
                if usual.is_empty() { known(NUMBER_USUAL..NUMBER_MAX) } else { usual }
            }
        }
    }

    /// The tree below us, top down, at most [`WALK_MAX`]. Zombies among our own children are left out.
    pub(super) fn walk(&self) -> Vec<Member> {
        let own = sys::own();
        let children = self.list().into_iter().filter(|pid| sys::look(*pid) == Waited::Alive);
        let mut found: Vec<Member> = children.take(WALK_MAX).map(|pid| Member { pid, parent: own }).collect();
        let mut at = 0;
        while at < found.len() && found.len() < WALK_MAX {
            let parent = found[at].pid;
            at += 1;
            let below = children_of(parent);
            found.extend(below.into_iter().take(WALK_MAX - found.len()).map(|pid| Member { pid, parent }));
        }
        found
    }
}

fn read_numbers(list: &File) -> Option<Vec<pid_t>> {
    let mut text = Vec::new();
    let mut part = [0; LIST_BYTES];
    loop {
        let read = list.read_at(&mut part, text.len() as u64).ok()?;
        if read == 0 {
            break;
        }
        text.extend_from_slice(&part[..read]);
    }
    Some(numbers(&text))
}

fn numbers(text: &[u8]) -> Vec<pid_t> {
    let words = text.split(|byte| byte.is_ascii_whitespace());
    words.filter_map(|word| std::str::from_utf8(word).ok()?.parse().ok()).collect()
}

/// The children of all threads of another process.
fn children_of(pid: pid_t) -> Vec<pid_t> {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let lists = threads.flatten().filter_map(|thread| std::fs::read(thread.path().join("children")).ok());
    lists.flat_map(|list| numbers(&list)).collect()
}

/// What `/proc/N/stat` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stat {
    pub(super) name: Vec<u8>,
    pub(super) state: u8,
    pub(super) parent: pid_t,
    pub(super) flags: u64,
    pub(super) threads: u64,
    pub(super) started_ticks: u64,
}

impl Stat {
    /// Of a process that is there.
    pub(super) fn of(pid: pid_t) -> Option<Stat> {
        Stat::parse(&std::fs::read(format!("/proc/{pid}/stat")).ok()?)
    }

    /// `pid (name) state ppid …`; the name may hold anything, so it ends at the last parenthesis.
    pub(super) fn parse(text: &[u8]) -> Option<Stat> {
        let open = text.iter().position(|byte| *byte == b'(')?;
        let close = text.iter().rposition(|byte| *byte == b')')?;
        let name = text.get(open + 1..close)?.to_vec();
        let rest = std::str::from_utf8(text.get(close + 1..)?).ok()?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        // Numbered as in proc(5), where the state is field 3.
        let field = |number: usize| fields.get(number - 3).copied();
        Some(Stat {
            name,
            state: *field(3)?.as_bytes().first()?,
            parent: field(4)?.parse().ok()?,
            flags: field(9)?.parse().ok()?,
            threads: field(20)?.parse().ok()?,
            started_ticks: field(22)?.parse().ok()?,
        })
    }

    /// Whether it is forked and has not executed a program since (PF_FORKNOEXEC). A zombie keeps the mark.
    pub(super) fn is_unexecuted(&self) -> bool {
        const FORKED_NOT_EXECUTED: u64 = 0x40;
        self.flags & FORKED_NOT_EXECUTED != 0
    }

    /// A zombie main thread with others running is alive.
    pub(super) fn is_dead(&self) -> bool {
        matches!(self.state, b'X' | b'x') || (self.state == b'Z' && self.threads <= 1)
    }
}

/// Whether it is alive. Of our own children the kernel said so as they were listed, also of one that a tracer keeps.
pub(super) fn is_alive(member: &Member) -> bool {
    Stat::of(member.pid).is_some_and(|stat| member.parent == sys::own() || !stat.is_dead())
}

/// What is told of a member that is still there.
pub(super) fn describe(member: &Member) -> Option<Left> {
    let stat = Stat::of(member.pid).filter(|stat| member.parent == sys::own() || !stat.is_dead())?;
    let status = std::fs::read_to_string(format!("/proc/{}/status", member.pid)).unwrap_or_default();
    let number = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key))?;
        line.split_ascii_whitespace().next()?.parse::<u32>().ok()
    };
    // SAFETY: signal 0 tests permission and disturbs nobody.
    let tested = unsafe { libc::kill(member.pid, 0) };
    let refused = tested != 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::EPERM);
    Some(Left {
        pid: member.pid,
        uid: number("Uid:").unwrap_or(u32::MAX),
        age_ms: since_boot_ms().saturating_sub(stat.started_ticks.saturating_mul(1000) / ticks_per_second()),
        state: stat.state,
        refused,
        traced: number("TracerPid:").is_some_and(|tracer| tracer != 0),
        name: stat.name,
    })
}

fn since_boot_ms() -> u64 {
    // `/proc/uptime` counts what start times count, suspended time included.
    let text = std::fs::read_to_string("/proc/uptime").unwrap_or_default();
    let seconds = text.split(' ').next().and_then(|word| word.parse::<f64>().ok()).unwrap_or(0.0);
    (seconds * 1000.0) as u64
}

fn ticks_per_second() -> u64 {
    // SAFETY: a plain call.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    u64::try_from(ticks).ok().filter(|ticks| *ticks > 0).unwrap_or(100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_and_spaces_does_not_shift_the_fields() {
        let text = b"9 (a) (b R 1) S 7 77 77 0 -1 4194624 1 2 3 4 5 6 7 8 20 0 3 0 123456 1000";
        let stat = Stat::parse(text).expect("a stat");
        assert_eq!((&stat.name[..], stat.state, stat.parent), (&b"a) (b R 1"[..], b'S', 7));
        assert_eq!((stat.threads, stat.started_ticks, stat.is_unexecuted()), (3, 123_456, true));
        for cut in [&b""[..], b"9", b"9 (cut", b"9 (cut) S 1 77"] {
            assert_eq!(Stat::parse(cut), None);
        }
    }

    #[test]
    fn the_kernels_list_is_read() {
        assert_eq!(numbers(b"12 345 6 "), [12, 345, 6]);
        assert_eq!(numbers(b""), [0; 0]);
    }
}
