//! The host's clock: the one place where time is read.
//!
//! It follows tokio's clock, which is CLOCK_MONOTONIC, so that a test can move it.

use std::time::SystemTime;

use tokio::time::Instant;

use crate::protocol::time::Moment;

/// The host's clock.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    epoch: Instant,
}

impl Clock {
    /// A clock that begins now.
    pub fn start() -> Self {
        Clock { epoch: Instant::now() }
    }

    /// This moment.
    pub fn now(self) -> Moment {
        Moment::new(self.epoch.elapsed())
    }

    /// When `moment` is, for a timer.
    pub fn instant(self, moment: Moment) -> Instant {
        // A moment beyond what the clock can say never comes.
        let never = || self.epoch + std::time::Duration::from_secs(30 * 365 * 86_400);
        self.epoch.checked_add(moment.since_start()).unwrap_or_else(never)
    }

    /// The time of day.
    pub fn time_of_day(self) -> SystemTime {
        SystemTime::now()
    }
}
