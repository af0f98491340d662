//! Time as data: moments on the host's steady clock, and times of day for people.

use std::time::{Duration, SystemTime};

/// A moment on the host's steady clock (CLOCK_MONOTONIC: neither suspend nor clock steps count), as time since
/// the host began. Rules take it as an argument; only shells read the clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(Duration);

impl Moment {
    /// The host's beginning.
    pub const ZERO: Moment = Moment(Duration::ZERO);

    /// The moment `since` after the host's beginning.
    pub fn new(since: Duration) -> Self {
        Moment(since)
    }

    /// The moment `ms` milliseconds after the host's beginning.
    pub fn from_ms(ms: u64) -> Self {
        Moment(Duration::from_millis(ms))
    }

    /// This moment and `ms` milliseconds more.
    #[must_use]
    pub fn plus_ms(self, ms: u64) -> Self {
        Moment(self.0.saturating_add(Duration::from_millis(ms)))
    }

    /// Whole milliseconds since `earlier`; 0 where that is later.
    pub fn ms_since(self, earlier: Moment) -> u64 {
        u64::try_from(self.0.saturating_sub(earlier.0).as_millis()).unwrap_or(u64::MAX)
    }

    /// Time since the host's beginning.
    pub fn since_start(self) -> Duration {
        self.0
    }
}

/// `time` in RFC 3339, UTC, with milliseconds.
pub fn rfc3339(time: SystemTime) -> String {
    humantime::format_rfc3339_millis(time).to_string()
}
