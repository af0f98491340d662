//! The read end of a child's output.
//!
//! A watched pipe costs its writer: the kernel then wakes whoever watches at every write, however small, and a child
//! that writes line by line would keep the runtime busy with nothing but being woken. So a pipe is watched only
//! while a read waits for it, and its reader may let it rest.
//!
//! Invariant: an idle pipe holds no buffer; room is made in the caller's buffer only once there is something to
//! read. Lacks: any idea of what the bytes mean, and any limit but the one each call gives.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use tokio::io::Ready;
use tokio::io::unix::AsyncFd;

/// How soon a pipe that cannot be watched just now is looked at again.
const UNWATCHED_PAUSE_MS: u64 = 10;

/// The read end of a child's output.
#[derive(Debug)]
pub struct Pipe {
    /// `None` only within a call.
    end: Option<End>,
}

#[derive(Debug)]
enum End {
    Watched(AsyncFd<OwnedFd>),
    Resting(OwnedFd),
}

impl Pipe {
    /// Takes a non-blocking read end and watches it. Must be called inside a tokio runtime with I/O enabled.
    ///
    /// Errors: the system's, where the descriptor cannot be watched.
    pub(super) fn new(end: OwnedFd) -> io::Result<Self> {
        Ok(Pipe { end: Some(End::Watched(super::descriptors::watched(end)?)) })
    }

    /// Waits for bytes and appends at most `max` of them to `buffer`; gives their number, 0 = the end.
    ///
    /// Errors: the system's. Cancel safe: a dropped call has read nothing.
    pub async fn read(&mut self, buffer: &mut Vec<u8>, max: usize) -> io::Result<usize> {
        loop {
            let Some(End::Watched(watched)) = &self.end else {
                if let Some(read) = self.read_now(buffer, max)? {
                    return Ok(read);
                }
                if !self.watch() {
                    tokio::time::sleep(Duration::from_millis(UNWATCHED_PAUSE_MS)).await;
                }
                continue;
            };
            let mut guard = watched.readable().await?;
            match read_appending(guard.get_inner(), buffer, max)? {
                Some(read) => {
                    // Less than asked for: the pipe was empty at that moment, so the next call waits for an
                    // event and saves the read that would find nothing. The end stays ready.
                    if read > 0 && read < max {
                        guard.clear_ready_matching(Ready::READABLE);
                    }
                    return Ok(read);
                }
                None => guard.clear_ready_matching(Ready::READABLE),
            }
        }
    }

    /// Appends what is there now, at most `max` bytes, to `buffer`: `None` = nothing now, 0 = the end.
    ///
    /// Errors: the system's. Never waits.
    pub fn read_now(&mut self, buffer: &mut Vec<u8>, max: usize) -> io::Result<Option<usize>> {
        match &self.end {
            Some(End::Watched(watched)) => read_appending(watched.get_ref(), buffer, max),
            Some(End::Resting(end)) => read_appending(end, buffer, max),
            None => Ok(Some(0)),
        }
    }

    /// Nobody is woken by what is written from now on, until a read has to wait.
    pub fn rest(&mut self) {
        self.end = self.end.take().map(|end| match end {
            End::Watched(watched) => End::Resting(watched.into_inner()),
            resting @ End::Resting(_) => resting,
        });
    }

    /// Watches it again; `false` where the system refuses that now.
    fn watch(&mut self) -> bool {
        let (end, watched) = match self.end.take() {
            Some(End::Resting(end)) => match super::descriptors::try_watched(end) {
                Ok(watched) => (End::Watched(watched), true),
                Err(refused) => (End::Resting(refused.into_parts().0), false),
            },
            Some(watched) => (watched, true),
            None => return false,
        };
        self.end = Some(end);
        watched
    }
}

fn read_appending(end: &OwnedFd, buffer: &mut Vec<u8>, max: usize) -> io::Result<Option<usize>> {
    buffer.reserve(max);
    let room = &mut buffer.spare_capacity_mut()[..max];
    let read = loop {
        match rustix::io::read(end, &mut *room) {
            Ok((filled, _)) => break filled.len(),
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::AGAIN) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    };
    // SAFETY: the kernel has initialised the first `read` bytes behind the length, and they lie within the
    // capacity reserved above.
    unsafe { buffer.set_len(buffer.len() + read) };
    Ok(Some(read))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::descriptors::output_pipe;

    const ASKED_BYTES: usize = 64 * 1024;

    fn pipe() -> (Pipe, OwnedFd) {
        let (read, write) = output_pipe(ASKED_BYTES).unwrap();
        (Pipe::new(read).unwrap(), write)
    }

    #[tokio::test]
    async fn reads_wait_and_take_what_is_there_up_to_the_limit() {
        let (mut pipe, write) = pipe();
        let mut buffer = Vec::new();
        assert_eq!(pipe.read_now(&mut buffer, 100).unwrap(), None);
        let waiting = tokio::time::timeout(std::time::Duration::from_millis(10), pipe.read(&mut buffer, 100)).await;
        assert!(waiting.is_err(), "nothing was written yet");
        rustix::io::write(&write, b"hello").unwrap();
        assert_eq!(pipe.read(&mut buffer, 2).await.unwrap(), 2);
        assert_eq!(pipe.read(&mut buffer, 100).await.unwrap(), 3);
        assert_eq!(buffer, b"hello");
    }

    #[tokio::test]
    async fn a_closed_pipe_gives_its_last_bytes_and_then_the_end_for_ever() {
        let (mut pipe, write) = pipe();
        let mut buffer = Vec::new();
        rustix::io::write(&write, b"last").unwrap();
        drop(write);
        assert_eq!(pipe.read(&mut buffer, 100).await.unwrap(), 4);
        assert_eq!(pipe.read(&mut buffer, 100).await.unwrap(), 0);
        assert_eq!(pipe.read_now(&mut buffer, 100).unwrap(), Some(0));
        assert_eq!(pipe.read(&mut buffer, 100).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn a_rested_pipe_gives_what_came_meanwhile_and_waits_again() {
        let (mut pipe, write) = pipe();
        let mut buffer = Vec::new();
        pipe.rest();
        rustix::io::write(&write, b"first").unwrap();
        assert_eq!(pipe.read(&mut buffer, 100).await.unwrap(), 5);
        let waiting = tokio::spawn(async move {
            let mut buffer = Vec::new();
            pipe.rest();
            pipe.rest();
            let read = pipe.read(&mut buffer, 100).await.unwrap();
            pipe.rest();
            (read, pipe.read(&mut buffer, 100).await.unwrap())
        });
        tokio::task::yield_now().await;
        rustix::io::write(&write, b"then").unwrap();
        drop(write);
        assert_eq!(waiting.await.unwrap(), (4, 0));
    }

    #[tokio::test]
    async fn an_idle_pipe_makes_no_room_in_the_buffer() {
        let (mut pipe, _write) = pipe();
        let mut buffer = Vec::new();
        let _ = tokio::time::timeout(std::time::Duration::from_millis(5), pipe.read(&mut buffer, 1 << 20)).await;
        assert_eq!(buffer.capacity(), 0);
    }

    #[tokio::test]
    async fn nothing_is_lost_when_the_writer_is_faster() {
        let (mut pipe, write) = pipe();
        let text: Vec<u8> = (0..1_000_000u32).flat_map(u32::to_le_bytes).collect();
        let expected = text.clone();
        let writer = std::thread::spawn(move || {
            let mut rest = &text[..];
            while !rest.is_empty() {
                rest = &rest[rustix::io::write(&write, rest).unwrap()..];
            }
        });
        let mut buffer = Vec::new();
        while pipe.read(&mut buffer, 10_007).await.unwrap() > 0 {}
        writer.join().unwrap();
        assert!(buffer == expected);
    }
}
