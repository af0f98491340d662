//! `output`: a page of a process's output, from a cursor. Reading consumes nothing.
//!
//! The answer is a [`Page`](crate::protocol::output::Page).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::protocol::bounds::DURATION_MS_MAX;
use crate::protocol::error::Error;
use crate::protocol::id::Handle;
use crate::protocol::output::{Cursor, Encoding, Stream};
use crate::protocol::spec::check_ms;

/// Which part, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadOutput {
    /// The process's id, or a label.
    pub process_id: Handle,
    /// Position to read from; absent = the oldest retained byte.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<Cursor>,
    /// Most raw bytes in the page; absent = `output.page_bytes`; more than 1 MiB is taken as that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<u64>,
    /// Only this stream; the cursor still passes all bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<Stream>,
    /// Text, or base64 of the raw bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<Encoding>,
    /// With nothing to read at `cursor` (of `stream`, where one is chosen), waits so many milliseconds for a byte or the
    /// end.
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

    /// Refuses a size of 0 and an endless wait.
    ///
    /// # Errors
    /// `invalid_argument` names the field.
    pub fn check(&self) -> Result<(), Error> {
        if self.max_bytes == Some(0) {
            return Err(Error::invalid("max_bytes", 0, "at least 1"));
        }
        check_ms("wait_ms", self.wait_ms, DURATION_MS_MAX)
    }
}
