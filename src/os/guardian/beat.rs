//! Whether the host still serves: it counts in a page that all of them share, and who watches looks whether that moves.
//!
//! The broker watches, and rings an alarm that its guardians hear: one byte in a pipe that nobody reads, so that none
//! misses it. Without a broker each guardian watches by itself.
//!
//! Invariant: what is counted are the watcher's own looks, not the time between them: who was suspended or stopped together
//! with the host comes to no conclusion from that.

use std::io;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::pipe::PipeFlags;

/// Looks of the broker within the time that a host may be silent.
const LOOKS: u64 = 4;
/// The same of a guardian that has lost its broker.
const LOOKS_ALONE: u64 = 2;
/// The shortest time between two looks.
const LOOK_MS_MIN: u64 = 10;

/// What a guardian has of it from birth.
#[derive(Debug)]
pub(super) struct Beat {
    page: OwnedFd,
    alarm: OwnedFd,
    silence_ms: u64,
}

/// What the broker rings.
#[derive(Debug)]
pub(super) struct Alarm {
    bell: OwnedFd,
    rings: bool,
}

/// What an alarm says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// The host serves.
    Quiet,
    /// It does not.
    Rings,
    /// Nobody watches any more.
    Nobody,
}

impl Beat {
    /// For a host that may be silent for `silence_ms`, which is more than 0.
    pub(super) fn new(page: OwnedFd, silence_ms: u64) -> io::Result<(Beat, Alarm)> {
        let (alarm, bell) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        Ok((Beat { page, alarm, silence_ms }, Alarm { bell, rings: false }))
    }

    /// The descriptors that a guardian keeps.
    pub(super) fn descriptors(&self) -> [&OwnedFd; 2] {
        [&self.page, &self.alarm]
    }

    /// The same for a guardian.
    pub(super) fn duplicate(&self) -> io::Result<Beat> {
        Ok(Beat { page: self.page.try_clone()?, alarm: self.alarm.try_clone()?, silence_ms: self.silence_ms })
    }

    /// What wakes who waits for the alarm.
    pub(super) fn alarm(&self) -> &OwnedFd {
        &self.alarm
    }

    /// What the alarm says now.
    pub(super) fn word(&self) -> Word {
        let mut watched = [PollFd::new(&self.alarm, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let _ = rustix::event::poll(&mut watched, Some(&now));
        let said = watched[0].revents();
        if said.contains(PollFlags::IN) {
            Word::Rings
        } else if said.intersects(PollFlags::HUP | PollFlags::ERR) {
            Word::Nobody
        } else {
            Word::Quiet
        }
    }

    fn count(&self) -> u64 {
        let mut bytes = [0; 8];
        match rustix::io::pread(&self.page, &mut bytes, 0) {
            Ok(8) => u64::from_le_bytes(bytes),
            _ => 0,
        }
    }

    /// Begins to watch, as the broker.
    pub(super) fn watch(&self, now_ms: u64) -> Watcher {
        Watcher::new(self.count(), self.silence_ms, LOOKS, now_ms)
    }

    /// Begins to watch, as a guardian without a broker.
    pub(super) fn watch_alone(&self, now_ms: u64) -> Watcher {
        Watcher::new(self.count(), self.silence_ms, LOOKS_ALONE, now_ms)
    }

    /// Looks because the host asks for something: that counts only if the count has moved. Gives whether it is silent.
    pub(super) fn notice(&self, watcher: &mut Watcher) -> bool {
        watcher.notice(self.count());
        watcher.is_silent()
    }

    /// Looks, if it is time. Gives whether the host is silent.
    pub(super) fn look(&self, watcher: &mut Watcher, now_ms: u64) -> bool {
        if now_ms >= watcher.next_ms {
            watcher.look(self.count(), now_ms);
        }
        watcher.is_silent()
    }
}

impl Alarm {
    /// Rings, or falls quiet again.
    pub(super) fn set(&mut self, rings: bool, beat: &Beat) {
        if rings && !self.rings {
            self.rings = rustix::io::write(&self.bell, &[0]).is_ok();
        } else if !rings && self.rings {
            self.rings = rustix::io::read(&beat.alarm, &mut [0; 1]).is_err();
        }
    }
}

/// Counts its own looks at a count that should move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Watcher {
    seen: u64,
    missed: u64,
    most: u64,
    every_ms: u64,
    next_ms: u64,
}

impl Watcher {
    fn new(seen: u64, silence_ms: u64, looks: u64, now_ms: u64) -> Self {
        let every_ms = (silence_ms / looks).max(LOOK_MS_MIN);
        Watcher { seen, missed: 0, most: looks, every_ms, next_ms: now_ms + every_ms }
    }

    fn notice(&mut self, count: u64) {
        if count != self.seen {
            self.missed = 0;
            self.seen = count;
        }
    }

    fn look(&mut self, count: u64, now_ms: u64) {
        self.missed += 1;
        self.notice(count);
        // From now: one that came late counts once.
        self.next_ms = now_ms + self.every_ms;
    }

    fn is_silent(&self) -> bool {
        self.missed >= self.most
    }

    /// When it wants to look next.
    pub(super) fn next_ms(&self) -> u64 {
        self.next_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_that_stands_still_for_all_looks_is_silence_and_one_that_moves_ends_it() {
        let mut watcher = Watcher::new(7, 4000, 4, 0);
        for (now, count, silent) in
            [(1000, 7, false), (2000, 7, false), (3000, 7, false), (4000, 7, true), (5000, 8, false), (6000, 8, false)]
        {
            watcher.look(count, now);
            assert_eq!(watcher.is_silent(), silent, "at {now}");
        }
    }

    #[test]
    fn a_look_that_comes_late_counts_once() {
        let mut watcher = Watcher::new(7, 4000, 4, 0);
        watcher.look(7, 3_600_000);
        assert!(!watcher.is_silent(), "an hour's pause of both is no silence");
        assert_eq!(watcher.next_ms(), 3_601_000);
    }

    #[test]
    fn an_alarm_rings_for_all_until_it_is_taken_back() {
        let page = rustix::fs::memfd_create(c"page", rustix::fs::MemfdFlags::CLOEXEC).expect("a page");
        let (beat, mut alarm) = Beat::new(page, 1000).expect("a pipe");
        let other = beat.duplicate().expect("a copy");
        assert_eq!(beat.word(), Word::Quiet);
        alarm.set(true, &beat);
        alarm.set(true, &beat);
        assert_eq!((beat.word(), other.word()), (Word::Rings, Word::Rings));
        alarm.set(false, &beat);
        assert_eq!((beat.word(), other.word()), (Word::Quiet, Word::Quiet));
        drop(alarm);
        assert_eq!(other.word(), Word::Nobody);
    }
}
