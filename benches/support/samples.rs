//! Measurements of one kind, and their percentiles.

use std::time::{Duration, Instant};

/// Durations in microseconds.
#[derive(Default)]
pub struct Samples(Vec<f64>);

impl Samples {
    pub fn push(&mut self, taken: Duration) {
        self.0.push(micros(taken));
    }

    /// Runs `work` and keeps how long it took.
    pub fn time<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let result = work();
        self.push(began.elapsed());
        result
    }

    pub fn extend(&mut self, other: Samples) {
        self.0.extend(other.0);
    }

    /// The value that `percent` of the samples do not exceed (nearest rank).
    pub fn percentile(&self, percent: f64) -> f64 {
        percentile(&self.0, percent)
    }
}

pub fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

/// Nearest rank; an empty set has no percentile, and asking for one is a mistake of the bench.
pub fn percentile(values: &[f64], percent: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1]
}
