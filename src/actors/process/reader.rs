//! Reads one output pipe into a process's mailbox.
//!
//! A reader holds a few credits, one for each buffer that is on its way: the child is slowed by its own pipe, never
//! by the host's memory. Many small writes are the common case and the expensive one: after a short read it pauses,
//! so that the next one finds more, and is not woken by each of them meanwhile. The first bytes after silence are
//! never delayed, and nothing is once the root has ended.

use std::sync::Arc;
use std::time::Duration;

use ractor::ActorRef;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::ProcessMsg;
use crate::os::pipe::Pipe;
use crate::protocol::output::Stream;

/// Buffers on their way from one pipe.
const CREDITS: usize = 4;
/// Size of a buffer.
const BUFFER_BYTES: usize = 64 * 1024;
/// A read below this is short.
const SHORT_BYTES: usize = 16 * 1024;
/// Pause after a short read.
const PAUSE: Duration = Duration::from_micros(500);
/// Most that is read when asked to finish: what the largest pipe can hold.
const FINISH_BYTES_MAX: usize = 2 * 1024 * 1024;

/// How eagerly a pipe is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// With pauses after short reads.
    Steady,
    /// Without pauses.
    Hurry,
    /// What is there now, and no more.
    Finish,
}

/// Reads `pipe` to its end, or until asked to finish, then says that the stream is closed.
pub async fn read(mut pipe: Pipe, stream: Stream, actor: ActorRef<ProcessMsg>, mut pace: watch::Receiver<Pace>) {
    let credits = Arc::new(Semaphore::new(CREDITS));
    let mut finished = 0;
    loop {
        let credit = credit(&credits, &mut pace).await;
        let mut bytes = Vec::new();
        if next(&mut pipe, &mut bytes, &mut pace).await == 0 {
            break;
        }
        let (short, now) = (bytes.len() < SHORT_BYTES, *pace.borrow());
        finished += if now == Pace::Finish { bytes.len() } else { 0 };
        if actor.send_message(ProcessMsg::Bytes(stream, bytes, credit)).is_err() || finished > FINISH_BYTES_MAX {
            break;
        }
        if short && now == Pace::Steady {
            pipe.rest();
            tokio::select! {
                () = tokio::time::sleep(PAUSE) => {}
                _ = pace.changed() => {}
            }
        }
    }
    // A process that is gone needs no word.
    let _ = actor.send_message(ProcessMsg::Closed(stream));
}

/// Waits for a credit; whoever is to finish needs none.
async fn credit(credits: &Arc<Semaphore>, pace: &mut watch::Receiver<Pace>) -> Option<OwnedSemaphorePermit> {
    loop {
        if *pace.borrow_and_update() == Pace::Finish {
            return None;
        }
        tokio::select! {
            biased;
            // The semaphore is never closed, so a permit always comes.
            credit = Arc::clone(credits).acquire_owned() => return credit.ok(),
            changed = pace.changed() => if changed.is_err() { return None },
        }
    }
}

/// The next bytes; 0 = the end, or nothing more is wanted. A failing read is an end.
async fn next(pipe: &mut Pipe, bytes: &mut Vec<u8>, pace: &mut watch::Receiver<Pace>) -> usize {
    loop {
        if *pace.borrow_and_update() == Pace::Finish {
            return pipe.read_now(bytes, BUFFER_BYTES).ok().flatten().unwrap_or(0);
        }
        tokio::select! {
            biased;
            read = pipe.read(bytes, BUFFER_BYTES) => return read.unwrap_or(0),
            changed = pace.changed() => if changed.is_err() { return 0 },
        }
    }
}
