//! `output`: a page of a process's output, from a cursor. Reading consumes nothing.
//!
//! The answer is a [`Page`](crate::protocol::output::Page).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::protocol::bounds::{DURATION_MS_MAX, PAGE_BYTES_MAX, clamp};
use crate::protocol::id::Handle;
use crate::protocol::output::{Cursor, Encoding, Stream};

/// Which part, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadOutput {
    /// The process's id, or a label.
    pub process_id: Handle,
    /// Position to read from; absent = the oldest retained byte.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<Cursor>,
    /// Most raw bytes in the page; absent = `output.page_bytes`; 0 is taken as 1, more than 1 MiB as
    /// that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<u64>,
    /// Only this stream; the cursor still passes all bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<Stream>,
    /// Text, or base64 of the raw bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<Encoding>,
    /// With nothing to read at `cursor` (of `stream`, where one is chosen), waits so many milliseconds for a byte or the
    /// end; more than a year is taken as that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
}

impl ReadOutput {
    /// Reads from the oldest retained byte.
    pub fn of(process: impl Into<Handle>) -> Self {
        ReadOutput {
            process_id: process.into(),
            cursor: None,
            max_bytes: None,
            stream: None,
            encoding: None,
            wait_ms: None,
        }
    }

    /// Takes size and wait into their ranges. Gives what is used of each, where that is not what was asked for.
    pub(crate) fn clamp(&mut self) -> (Option<u64>, Option<u64>) {
        (clamp(&mut self.max_bytes, 1..=PAGE_BYTES_MAX), clamp(&mut self.wait_ms, 0..=DURATION_MS_MAX))
    }
}
