//! Lines of bounded length from a reader that may send anything.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt};

/// What comes before the next line feed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// A line, without its line feed. The last may lack one.
    Whole(Vec<u8>),
    /// A line of so many bytes, not kept.
    TooLong(u64),
    /// Nothing more.
    End,
}

/// Reads one line of at most `max` bytes; what is over is passed by without being kept. Not cancel safe.
pub(super) async fn read_line(reader: &mut (impl AsyncBufRead + Unpin), max: usize) -> io::Result<Line> {
    let mut line = Vec::new();
    let mut bytes: u64 = 0;
    loop {
        let available = reader.fill_buf().await?;
        if available.is_empty() && bytes == 0 {
            return Ok(Line::End);
        }
        let feed = available.iter().position(|byte| *byte == b'\n');
        let part = &available[..feed.unwrap_or(available.len())];
        bytes += part.len() as u64;
        let fits = bytes <= max as u64;
        if fits {
            line.extend_from_slice(part);
        } else {
            line = Vec::new();
        }
        let (passed, ended) = (feed.map_or(available.len(), |at| at + 1), feed.is_some() || available.is_empty());
        reader.consume(passed);
        if ended {
            return Ok(if fits { Line::Whole(line) } else { Line::TooLong(bytes) });
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::BufReader;

    use super::*;

    async fn check(bytes: &[u8], expected: &[Line]) {
        for buffer in [1, 3, 1024] {
            let mut reader = BufReader::with_capacity(buffer, bytes);
            for line in expected.iter().chain([&Line::End]) {
                assert_eq!(&read_line(&mut reader, 4).await.expect("no error"), line, "{bytes:?} by {buffer}");
            }
        }
    }

    #[tokio::test]
    async fn a_long_line_is_passed_by_and_the_next_is_read() {
        let whole = |text: &str| Line::Whole(text.as_bytes().to_vec());
        check(b"", &[]).await;
        check(b"a\n\nb", &[whole("a"), whole(""), whole("b")]).await;
        check(b"abcd\nabcde\nabcd\n", &[whole("abcd"), Line::TooLong(5), whole("abcd")]).await;
        check(b"abcdefghijkl", &[Line::TooLong(12)]).await;
    }
}
