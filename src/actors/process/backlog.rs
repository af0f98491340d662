//! A child that waits for its reader: credits are kept back while too much is unread.
//!
//! Off by default: then credits go back at once, and nobody reading never blocks a child. With it nothing is
//! dropped, as long as the bytes allowed unread and the readers' credits together fit the retained output.

use std::collections::VecDeque;

use tokio::sync::OwnedSemaphorePermit;

use crate::protocol::output::Cursor;

/// Credits kept back for one process.
#[derive(Debug)]
pub struct Backlog {
    /// Most bytes unread before credits are kept back; absent = never.
    unread_max: Option<u64>,
    /// How far somebody has read.
    read_to: Cursor,
    /// Credits, each with the end of the output after its bytes.
    held: VecDeque<(Cursor, OwnedSemaphorePermit)>,
}

impl Backlog {
    /// Keeps credits back while more than `unread_max` bytes are unread.
    pub fn new(unread_max: Option<u64>) -> Self {
        Backlog { unread_max, read_to: 0, held: VecDeque::new() }
    }

    /// Bytes came, and the output ends at `end` now.
    pub fn wrote(&mut self, end: Cursor, credit: Option<OwnedSemaphorePermit>) {
        if self.unread_max.is_some()
            && let Some(credit) = credit
        {
            self.held.push_back((end, credit));
            self.release();
        }
    }

    /// Somebody asks for what is at `cursor`: everything before it was read.
    pub fn read(&mut self, cursor: Cursor) {
        self.read_to = self.read_to.max(cursor);
        self.release();
    }

    /// Whether a child may be waiting.
    pub fn waits(&self) -> bool {
        !self.held.is_empty()
    }

    fn release(&mut self) {
        let allowed = self.read_to + self.unread_max.unwrap_or(u64::MAX - self.read_to);
        while self.held.front().is_some_and(|(end, _)| *end <= allowed) {
            self.held.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::Semaphore;

    use super::*;

    /// After these writes and reads, so many of ten credits are free.
    fn check(unread_max: Option<u64>, written: &[u64], read: &[u64], free: usize) {
        let credits = Arc::new(Semaphore::new(10));
        let mut backlog = Backlog::new(unread_max);
        for end in written {
            backlog.wrote(*end, Arc::clone(&credits).try_acquire_owned().ok());
        }
        read.iter().for_each(|cursor| backlog.read(*cursor));
        assert_eq!(credits.available_permits(), free, "{unread_max:?} {written:?} {read:?}");
        assert_eq!(backlog.waits(), free < 10);
    }

    #[test]
    fn credits_come_back_at_once_unless_a_reader_is_to_be_waited_for() {
        check(None, &[100, 1000, u64::MAX], &[], 10);
    }

    #[test]
    fn credits_are_kept_back_while_too_much_is_unread() {
        check(Some(100), &[50, 100], &[], 10);
        check(Some(100), &[50, 100, 101, 200], &[], 8);
        check(Some(100), &[50, 100, 101, 200], &[1], 9);
        check(Some(100), &[50, 100, 101, 200], &[150, 2], 10);
    }

    #[test]
    fn whoever_finishes_needs_no_credit() {
        let mut backlog = Backlog::new(Some(0));
        backlog.wrote(10, None);
        assert!(!backlog.waits());
    }
}
