//! The read end of a child's output.
//!
//! Invariant: an idle pipe holds no buffer; room is made in the caller's buffer only once there is something to
//! read. Lacks: any idea of what the bytes mean, and any limit but the one each call gives.

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::Ready;
use tokio::io::unix::AsyncFd;

/// The read end of a child's output.
#[derive(Debug)]
pub struct Pipe {
    end: AsyncFd<OwnedFd>,
}

impl Pipe {
    /// Takes a non-blocking read end. Must be called inside a tokio runtime with I/O enabled.
    ///
    /// Errors: the system's, where the descriptor cannot be watched.
    pub(super) fn new(end: OwnedFd) -> io::Result<Self> {
        Ok(Pipe { end: super::descriptors::watched(end)? })
    }

    /// Waits for bytes and appends at most `max` of them to `buffer`; gives their number, 0 = the end.
    ///
    /// Errors: the system's. Cancel safe: a dropped call has read nothing.
    pub async fn read(&mut self, buffer: &mut Vec<u8>, max: usize) -> io::Result<usize> {
        loop {
            let mut guard = self.end.readable().await?;
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
        read_appending(self.end.get_ref(), buffer, max)
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
