//! Ending what is left of a tree: who is signalled, in which order, and when the next look is worth it.
//!
//! Invariant: our own children are signalled while they are pinned (see [`sys::pin`]); anybody below them through a
//! descriptor that was opened first and compared after, so that nobody who got a number since is ever hit.

use std::collections::HashSet;

use libc::{c_int, pid_t};

use super::children::{Children, Member, Stat};
use super::sys::{self, Waited};

/// Zombies reaped in one round while there is news.
const REAPS_MAX: usize = 64;
/// A list of own children longer than this is a storm.
const STORM_CHILDREN: usize = 64;
/// A list no longer than this may hide a chain below it.
const CHAIN_CHILDREN: usize = 8;
/// Rounds with news after which a chain is walked.
const CHAIN_ROUNDS: u32 = 16;

/// The state of killing a tree.
#[derive(Debug, Default)]
pub(super) struct Killing {
    group_killed: bool,
    killed: HashSet<pid_t>,
    rounds: u32,
}

/// Signals every member once, top down, then CONT: the group its root leads in one call, which no fork escapes, and
/// who has left that group one by one.
pub(super) fn signal(children: &Children, root: Option<pid_t>, signal: c_int) {
    let members = children.walk();
    for signal in [signal, libc::SIGCONT] {
        if let Some(root) = root {
            sys::signal_group(root, signal);
        }
        let others = members.iter().filter(|member| root.is_none() || sys::group_of(member.pid) != root);
        for member in others {
            signal_member(member, signal);
        }
    }
}

fn signal_member(member: &Member, signal: c_int) {
    if member.parent == sys::own() {
        if let Some(pinned) = sys::pin(member.pid) {
            pinned.signal(signal);
        }
        return;
    }
    let Some(process) = sys::open_process(member.pid) else { return };
    let parent = Stat::of(member.pid).map(|stat| stat.parent);
    if parent == Some(member.parent) || parent == Some(sys::own()) {
        sys::signal_process(&process, signal);
    }
}

impl Killing {
    /// One round. `root` = the root, as long as it is not reaped. Gives whether somebody new was found or somebody was
    /// reaped, so that the next look is worth it at once: who was reaped here may have been the last.
    pub(super) fn round(&mut self, children: &Children, root: Option<pid_t>) -> bool {
        if let Some(root) = root.filter(|_| !self.group_killed) {
            // Atomic against forks, and sure of its target: the root is not reaped, so the number is its own.
            sys::signal_group(root, libc::SIGKILL);
            self.group_killed = true;
        }
        let list = children.list();
        let mut news = false;
        let mut reaped = 0;
        // The newest first: in a storm, those are the ones that go on forking.
        for pid in list.iter().rev().copied() {
            if Some(pid) != root && (reaped < REAPS_MAX || !news) && matches!(sys::reap(pid), Waited::Ended(..)) {
                reaped += 1;
                self.killed.remove(&pid);
                continue;
            }
            if self.killed.contains(&pid) {
                continue;
            }
            if let Some(pinned) = sys::pin(pid) {
                news = true;
                pinned.signal(libc::SIGKILL);
                self.killed.insert(pid);
            }
        }
        self.rounds = if news { self.rounds + 1 } else { 0 };
        if self.rounds >= CHAIN_ROUNDS && list.len() <= CHAIN_CHILDREN {
            self.rounds = 0;
            for member in children.walk() {
                signal_member(&member, libc::SIGKILL);
            }
        }
        if list.len() > STORM_CHILDREN {
            // Who was killed by number and has been reaped since may have given it to a new one.
            self.killed.retain(|pid| sys::look(*pid) == Waited::Alive);
        }
        news || reaped > 0
    }
}
