//! Output: one byte space per process, its streams, and the pages cut from it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::id::ProcessId;
use super::state::State;

/// Absolute byte position in a process's output: 0 is the first byte written on any stream. Only grows.
pub type Cursor = u64;

/// Where bytes were written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl Stream {
    /// Every stream.
    pub const ALL: [Stream; 2] = [Stream::Stdout, Stream::Stderr];
}

/// How a page gives bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Encoding {
    /// As text; invalid UTF-8 shows as U+FFFD, one for each maximal invalid part, and the chunk is marked `lossy`.
    #[default]
    Text,
    /// As base64 of the raw bytes (RFC 4648, padded).
    Base64,
}

/// Consecutive bytes of one stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Chunk {
    /// The stream they were written on.
    pub stream: Stream,
    /// The bytes as text, with `encoding: text`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The bytes in base64, with `encoding: base64`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_base64: Option<String>,
    /// Whether `text` holds U+FFFD in place of invalid bytes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lossy: bool,
}

/// A piece of a process's output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Page {
    /// Whose output it is.
    pub process_id: ProcessId,
    /// The process's state when the page was cut.
    pub state: State,
    /// Position of the page's first byte: the cursor asked for, or `earliest` where that was dropped.
    pub start: Cursor,
    /// Where the next page begins.
    pub next_cursor: Cursor,
    /// Position of the oldest retained byte.
    pub earliest: Cursor,
    /// Position after the newest byte.
    pub end: Cursor,
    /// Bytes between the cursor asked for and `start`, gone for good.
    pub dropped_bytes: u64,
    /// Whether the process is settled and everything retained has been passed: no further page will hold a byte.
    pub eof: bool,
    /// The bytes, in order.
    pub chunks: Vec<Chunk>,
    /// The size used, where the one asked for was out of range.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<u64>,
    /// The longest wait used, where the one asked for was out of range.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
}

impl Page {
    /// All text of the page in order, whatever the stream.
    pub fn text(&self) -> String {
        self.chunks.iter().filter_map(|chunk| chunk.text.as_deref()).collect()
    }
}

/// The retained range of a process's output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Retained {
    /// Position of the oldest retained byte.
    pub earliest: Cursor,
    /// Position after the newest byte.
    pub end: Cursor,
}

/// Output as one string, for a model to read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Excerpt {
    /// The text, newest last.
    pub text: String,
    /// Position of its first byte.
    pub start: Cursor,
    /// Position after its last byte.
    pub next_cursor: Cursor,
    /// Bytes before `start` that are kept and can be read with `output`.
    pub omitted_bytes: u64,
    /// Bytes that are gone for good.
    pub dropped_bytes: u64,
}
