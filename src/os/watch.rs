//! One task for each launched process: it owns the root, and reports its end and that of its group.
//!
//! It is only woken to look; signals are sent by whoever asks (see `shared`). While nothing happens it takes no
//! turn and holds no more than its root's descriptor.
//!
//! Invariant: a root whose group is known by its number alone is reaped only when nothing is signalled any more.
//! Lacks: any decision about when to signal; but see [`Watch::kill_unseen`].

use std::sync::Arc;
use std::time::Duration;

use tokio::io::unix::AsyncFd;

use crate::protocol::state::{Exit, Proof, Signal, Survivor};

use super::group::Group;
use super::launch::Fact;
use super::means::Means;
use super::members::{self, Member};
use super::root::Root;
use super::shared::Shared;

/// Scans in which zombies come and go and nothing alive is seen, before the group counts as not visible.
const SCANS_MAX: usize = 8;
/// First pause between two looks where the end of what is left gives no event.
const PAUSE_MS: u64 = 10;
/// The longest; each is twice the last.
const PAUSE_MS_MAX: u64 = 500;

/// Who is left of a group.
enum Left {
    Nothing,
    Members(Vec<Member>),
    /// The kernel counts somebody whom `/proc` does not show, or nobody can tell.
    Unseen,
}

/// The task's own part.
pub(super) struct Watch {
    /// First, so that it is reaped before the sink is let go.
    root: Root,
    shared: Arc<Shared>,
    means: Means,
    pause_ms: u64,
}

impl Watch {
    pub(super) fn new(shared: Arc<Shared>, root: Root, means: Means) -> Self {
        Watch { root, shared, means, pause_ms: PAUSE_MS }
    }

    /// Watches to the end. Dropped before, also by a runtime that goes away, it kills and reaps.
    pub(super) async fn run(mut self) {
        let exit = self.root_end().await;
        self.shared.report(Fact::RootEnded(exit));
        let mut told = false;
        loop {
            let left = self.left().await;
            match &left {
                Left::Nothing => break,
                Left::Unseen if self.kill_unseen() => continue,
                _ => {}
            }
            if !told {
                told = true;
                self.shared.report(Fact::Leftovers(left.count()));
            }
            self.answer(&left).await;
            if self.shared.is_released() {
                return;
            }
            if self.shared.given_up() {
                // Again, for members that joined since.
                self.root.group().send(Signal::Kill);
            }
            self.until_news(&left).await;
        }
        self.shared.close();
        self.root.reap();
        self.shared.report(Fact::Gone(Proof::GroupGone));
    }

    async fn root_end(&mut self) -> Exit {
        loop {
            tokio::select! {
                biased;
                exit = self.root.ended() => return exit,
                () = self.shared.command() => {}
            }
            if self.shared.is_asked() {
                self.answer_while_alive().await;
            }
        }
    }

    /// Answers inspections, unless the root is seen to have ended: its end is told first.
    async fn answer_while_alive(&mut self) {
        let number = self.root.group().number();
        let census = blocking(move || members::scan(number)).await.unwrap_or_default();
        if census.dead.contains(&number) {
            return;
        }
        let left = if census.live.is_empty() { Left::Unseen } else { Left::Members(census.live) };
        self.answer(&left).await;
    }

    async fn answer(&self, left: &Left) {
        let asked = self.shared.take_asked();
        if asked == 0 {
            return;
        }
        let survivors = left.survivors().await;
        for _ in 0..asked {
            self.shared.report(Fact::Survivors(survivors.clone()));
        }
    }

    /// The usual case, nothing left, is one call to the kernel; only otherwise `/proc` is read.
    async fn left(&self) -> Left {
        let group = self.root.group();
        if group.is_gone() {
            return Left::Nothing;
        }
        let group = Arc::clone(group);
        blocking(move || look_for_members(&group)).await.unwrap_or(Left::Unseen)
    }

    /// Neither the kernel nor `/proc` can tell who is left, and the group's number is ours only as long as the
    /// root is unreaped: what is left is killed now, because it could not be signalled later, and then the
    /// number itself tells when it is gone.
    ///
    /// Gives whether that was done now.
    fn kill_unseen(&mut self) -> bool {
        if self.root.group().outlives_leader() || self.root.is_reaped() {
            return false;
        }
        self.shared.alone(|| {
            self.root.group().send(Signal::Kill);
            self.root.reap();
        });
        self.root.is_reaped()
    }

    /// Waits for a command, or until what was left has ended.
    async fn until_news(&mut self, left: &Left) {
        let pause_ms = self.pause_ms;
        self.pause_ms = (2 * pause_ms).min(PAUSE_MS_MAX);
        let ended = async {
            match left {
                Left::Members(members) if self.means.pidfd => self.until_ended(members, pause_ms).await,
                _ => tokio::time::sleep(Duration::from_millis(pause_ms)).await,
            }
        };
        tokio::select! {
            biased;
            () = self.shared.command() => self.pause_ms = PAUSE_MS,
            () = ended => {}
        }
    }

    /// One after the other, so that any number of members takes one descriptor and no needless turn.
    async fn until_ended(&self, members: &[Member], pause_ms: u64) {
        for member in members {
            match open_member(member, self.root.group()) {
                Ok(Some(watched)) => {
                    if watched.readable().await.is_ok() {
                        continue;
                    }
                }
                Ok(None) => continue,
                Err(_) => {}
            }
            // No descriptor is free: look again later.
            return tokio::time::sleep(Duration::from_millis(pause_ms)).await;
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.shared.kill_and_close();
    }
}

impl Left {
    fn count(&self) -> usize {
        match self {
            Left::Nothing => 0,
            Left::Members(members) => members.len(),
            Left::Unseen => 1,
        }
    }

    async fn survivors(&self) -> Vec<Survivor> {
        match self {
            Left::Nothing => Vec::new(),
            Left::Members(members) => {
                let members = members.clone();
                blocking(move || members::survivors(&members)).await.unwrap_or_else(|| vec![members::hidden()])
            }
            Left::Unseen => vec![members::hidden()],
        }
    }
}

/// A scan sees a process that forks and ends on and on at most by chance, so "only zombies" is believed when two
/// scans in a row saw the same ones, and the kernel's own answer is asked for after each.
fn look_for_members(group: &Group) -> Left {
    let mut before = None;
    for _ in 0..SCANS_MAX {
        let census = members::scan(group.number());
        if !census.live.is_empty() {
            return Left::Members(census.live);
        }
        if group.is_gone() {
            return Left::Nothing;
        }
        if !census.complete {
            return Left::Unseen;
        }
        if !census.dead.is_empty() && before.as_ref() == Some(&census.dead) {
            return Left::Nothing;
        }
        before = Some(census.dead);
    }
    Left::Unseen
}

/// Watches one member: opened first, compared after, so that the descriptor cannot be of another process that
/// got its number. `None` = it has ended.
#[cfg(target_os = "linux")]
fn open_member(member: &Member, group: &Group) -> std::io::Result<Option<AsyncFd<std::os::fd::OwnedFd>>> {
    use rustix::io::Errno;
    let opened = rustix::process::pidfd_open(member.pid, rustix::process::PidfdFlags::empty());
    let descriptor = match opened {
        Ok(descriptor) => descriptor,
        Err(Errno::SRCH) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    if !members::is_still(member, group.number()) {
        return Ok(None);
    }
    super::descriptors::watched(descriptor).map(Some)
}

#[cfg(not(target_os = "linux"))]
fn open_member(_member: &Member, _group: &Group) -> std::io::Result<Option<AsyncFd<std::os::fd::OwnedFd>>> {
    Err(rustix::io::Errno::NOSYS.into())
}

/// Runs what may take long away from the runtime's workers. `None` = the runtime is going away, or it can make no
/// thread, at which it panics.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let begun = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| tokio::task::spawn_blocking(work)));
    begun.ok()?.await.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The task of an idle process, with what it shares, in bytes.
    const IDLE_BYTES_MAX: usize = 1024;

    fn size_of_future<Arguments, F: Future>(_: impl Fn(Arguments) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn an_idle_process_costs_little_memory() {
        let task = size_of_future(Watch::run);
        assert!(task + size_of::<Shared>() <= IDLE_BYTES_MAX, "{task} + {}", size_of::<Shared>());
    }
}
