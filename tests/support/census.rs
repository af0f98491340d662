//! Counting what is left: processes with a host's mark in their environment, zombies that are children of ours, and
//! (where a test has its process for itself) open descriptors.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::pause::{look_again, look_again_blocking};

/// The variable that every command of a bench inherits.
pub const MARK: &str = "PROCESSION_TEST_MARK";
/// Looks before something left is a failure: about ten seconds.
pub const LOOKS: usize = 10_000;

/// What was there when a test began.
pub struct Census {
    mark: String,
}

impl Census {
    /// Remembers what is there now.
    pub fn begin(mark: &str) -> Self {
        Census { mark: format!("{MARK}={mark}") }
    }

    /// Nothing is left: no process with the mark, and no zombie of ours. Other tests of the binary may run at the
    /// same time: a zombie of theirs goes away, and one that stays is a fault whoever made it.
    pub async fn end(self) {
        let mut corpses = zombies();
        for look in 0.. {
            let left = self.left();
            corpses.retain(|pid| zombies().contains(pid));
            if left.is_empty() && corpses.is_empty() {
                return;
            }
            assert!(look < LOOKS, "left behind: {left:?}, zombies {corpses:?}");
            look_again().await;
        }
    }

    /// Live processes that carry the mark.
    pub fn marked(&self) -> Vec<i32> {
        carrying(&self.mark)
    }

    fn left(&self) -> Vec<String> {
        self.marked().into_iter().map(describe).collect()
    }
}

/// A test that failed leaves nothing behind either: what still carries its mark is named and killed.
impl Drop for Census {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        let mut named = std::collections::BTreeSet::new();
        for _ in 0..LOOKS {
            let marked = self.marked();
            if marked.is_empty() {
                break;
            }
            for pid in marked {
                if named.insert(pid) {
                    eprintln!("left behind by the failed test, and killed: {}", describe(pid));
                }
                // One that has ended meanwhile needs no signal.
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
            look_again_blocking();
        }
    }
}

/// Every process there is.
pub fn processes() -> impl Iterator<Item = i32> {
    let entries = std::fs::read_dir("/proc").expect("Linux has /proc");
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Live processes with this `NAME=value` in their environment.
pub fn carrying(entry: &str) -> Vec<i32> {
    let carries = |pid: &i32| {
        std::fs::read(format!("/proc/{pid}/environ"))
            .is_ok_and(|all| all.split(|byte| *byte == 0).any(|found| found == entry.as_bytes()))
    };
    processes().filter(|pid| alive(*pid)).filter(carries).collect()
}

/// Whether a process is more than a zombie.
pub fn alive(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
    !matches!(state, None | Some('Z' | 'X'))
}

/// Zombies that are children of ours.
pub fn zombies() -> Vec<i32> {
    let own = std::process::id().to_string();
    let child = |pid: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let mut rest = stat.rsplit(") ").next().unwrap_or_default().split(' ');
        rest.next() == Some("Z") && rest.next() == Some(own.as_str())
    };
    processes().filter(child).collect()
}

/// What is below a process: number, name and the letter of the state of each.
pub fn descendants(of: i32) -> Vec<(i32, String, char)> {
    let mut below = Vec::new();
    let mut parents = vec![of];
    while let Some(parent) = parents.pop() {
        for task in std::fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten().flatten() {
            let children = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
            for child in children.split_whitespace().filter_map(|child| child.parse().ok()) {
                let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
                let (before, after) = stat.rsplit_once(") ").unwrap_or_default();
                let name = before.split_once('(').unwrap_or_default().1.to_owned();
                below.push((child, name, after.chars().next().unwrap_or('?')));
                parents.push(child);
            }
        }
    }
    below
}

/// Open descriptors of this process. Only a test that has its process for itself can compare them.
pub fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("Linux has /proc").count()
}

fn describe(pid: i32) -> String {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    format!("{pid}: {}", String::from_utf8_lossy(&line).replace('\0', " "))
}
