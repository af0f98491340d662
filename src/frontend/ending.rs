//! The end of a host that belongs to its front end.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};
use tokio_util::sync::CancellationToken;

use crate::protocol::call::{Answer, Call, Caller, Origin};
use crate::protocol::error::Error;
use crate::protocol::id::SessionName;
use crate::protocol::verb::host::{Shutdown, ShutdownAnswer, ShutdownMode};
use crate::runtime::Host;

/// The operator in `session`.
pub fn operator(session: SessionName) -> Origin {
    Origin { session, caller: Caller::Operator, request: None }
}

/// Ends every process of the host now, each with its own grace, and says what could not be proven to be gone.
///
/// # Errors
/// What the host answers.
pub async fn shut_down(host: &Host, session: SessionName) -> Result<ShutdownAnswer, Error> {
    let shutdown = Shutdown { mode: Some(ShutdownMode::Now), within_ms: None };
    match host.call(operator(session), Call::Shutdown(shutdown)).await? {
        Answer::Shutdown(answer) => {
            for holder in &answer.unconfirmed {
                tracing::warn!(process_id = %holder.process_id, "not proven to be gone");
            }
            Ok(answer)
        }
        _ => Err(Error::internal("`shutdown` was answered with something else")),
    }
}

/// A reader that tells when its other side has ended.
#[derive(Debug)]
pub struct Watched<R> {
    reader: R,
    ended: CancellationToken,
}

impl<R> Watched<R> {
    /// Watches `reader`; the token is cancelled at its end, or at its first error.
    pub fn new(reader: R) -> (Self, CancellationToken) {
        let ended = CancellationToken::new();
        (Watched { reader, ended: ended.clone() }, ended)
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Watched<R> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let room = buffer.remaining() > 0;
        let read = Pin::new(&mut this.reader).poll_read(context, buffer);
        match &read {
            Poll::Ready(Ok(())) if room && buffer.filled().len() == before => this.ended.cancel(),
            Poll::Ready(Err(_)) => this.ended.cancel(),
            Poll::Ready(Ok(())) | Poll::Pending => {}
        }
        read
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    #[tokio::test]
    async fn the_end_of_a_reader_is_told_once_it_was_read() {
        let (mut reader, ended) = Watched::new(&b"ab"[..]);
        let mut byte = [0];
        reader.read_exact(&mut byte).await.expect("a byte");
        assert!(!ended.is_cancelled());
        let mut rest = Vec::new();
        reader.read_to_end(&mut rest).await.expect("the rest");
        assert!(ended.is_cancelled());
    }
}
