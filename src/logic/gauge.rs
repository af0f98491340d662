//! How much a process has written, readable by its session without asking it.
//!
//! Without this a `list` of a thousand processes would be a thousand messages. One writer, any readers; the values
//! only grow, so a reader sees each of them as it was at some moment.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::protocol::output::Retained;
use crate::protocol::time::Moment;

/// The gauge of one process.
#[derive(Debug, Default)]
pub struct Gauge {
    earliest: AtomicU64,
    end: AtomicU64,
    last_output_ns: AtomicU64,
}

impl Gauge {
    /// A process admitted at `now` that has written nothing.
    pub fn new(now: Moment) -> Self {
        Gauge { last_output_ns: AtomicU64::new(nanos(now)), ..Gauge::default() }
    }

    /// It wrote.
    pub fn wrote(&self, now: Moment, retained: Retained) {
        self.earliest.store(retained.earliest, Ordering::Relaxed);
        self.end.store(retained.end, Ordering::Release);
        self.last_output_ns.store(nanos(now), Ordering::Relaxed);
    }

    /// The retained range.
    pub fn retained(&self) -> Retained {
        let end = self.end.load(Ordering::Acquire);
        Retained { earliest: self.earliest.load(Ordering::Relaxed).min(end), end }
    }

    /// When it last wrote, or was admitted.
    pub fn last_output(&self) -> Moment {
        Moment::new(Duration::from_nanos(self.last_output_ns.load(Ordering::Relaxed)))
    }
}

fn nanos(moment: Moment) -> u64 {
    u64::try_from(moment.since_start().as_nanos()).unwrap_or(u64::MAX)
}
