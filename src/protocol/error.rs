//! Errors: a closed set of codes, each with the facts that belong to it.
//!
//! What a process did is never an error: a non-zero exit, a timeout and a stop are results. A message says what
//! was wrong and what would be right.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::bounds::GIVEN_BYTES_MAX;

/// What kind of error it is. Clients treat a code they do not know as `internal`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the codes are their own names; spec and README explain them")]
pub enum Code {
    InvalidArgument,
    UnknownProcess,
    UnknownSession,
    Ambiguous,
    LimitReached,
    Conflict,
    LaunchFailed,
    ContainmentUnavailable,
    CursorOutOfRange,
    PageTooSmall,
    NotRunning,
    StillRunning,
    Denied,
    Cancelled,
    CleanupUncertain,
    TooLarge,
    Busy,
    ShuttingDown,
    UnsupportedPlatform,
    Unavailable,
    #[serde(other)]
    Internal,
}

/// An error as it is answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Error {
    /// What kind it is.
    pub code: Code,
    /// What was wrong, and what would be right, for people and models.
    pub message: String,
    /// The facts that belong to the code.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub details: Map<String, Value>,
    /// Whether the same call may succeed later.
    pub retryable: bool,
}

impl Error {
    /// An error of `code` that says `message`. Retryable where the code is by nature.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        let retryable = matches!(code, Code::LimitReached | Code::Busy | Code::Unavailable);
        Error { code, message: message.into(), details: Map::new(), retryable }
    }

    /// Adds a fact.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Serialize) -> Self {
        self.details.insert(key.to_owned(), json!(value));
        self
    }

    /// The field `field` holds what it may not.
    pub fn invalid(field: &str, given: impl Serialize, expected: impl fmt::Display) -> Self {
        let given = shorten(&json!(given).to_string());
        Error::new(Code::InvalidArgument, format!("`{field}` is {given}: expected {expected}"))
            .with("field", field)
            .with("given", given)
            .with("expected", expected.to_string())
    }

    /// The field `field` is missing.
    pub fn missing(field: &str, expected: impl fmt::Display) -> Self {
        Error::new(Code::InvalidArgument, format!("`{field}` is missing: expected {expected}"))
            .with("field", field)
            .with("expected", expected.to_string())
    }

    /// Something here is broken: a bug, worth a report.
    pub fn internal(message: impl Into<String>) -> Self {
        Error::new(Code::Internal, message)
    }

    /// The host is shutting down and takes no new work.
    pub fn shutting_down() -> Self {
        Error::new(Code::ShuttingDown, "the host is shutting down: nothing new is started")
    }

    /// Nobody serves this any more: the actor behind it has gone.
    pub fn gone() -> Self {
        Error::new(Code::Unavailable, "the session or host that would have answered has ended")
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

impl From<super::id::NameError> for Error {
    fn from(error: super::id::NameError) -> Self {
        Error::new(Code::InvalidArgument, error.to_string()).with("expected", error.expected)
    }
}

/// At most [`GIVEN_BYTES_MAX`] bytes of `text`, cut at a character.
pub fn shorten(text: &str) -> String {
    if text.len() <= GIVEN_BYTES_MAX {
        return text.to_owned();
    }
    let end = (0..=GIVEN_BYTES_MAX).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    format!("{}… ({} bytes)", &text[..end], text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_of_a_later_version_reads_as_internal() {
        let error: Error =
            serde_json::from_value(json!({"code": "from_the_future", "message": "m", "retryable": false}))
                .expect("an unknown code is taken");
        assert_eq!(error.code, Code::Internal);
    }

    #[test]
    fn a_refused_value_is_repeated_only_in_part() {
        let error = Error::invalid("label", "ä".repeat(10_000), "a label");
        assert!(error.message.len() < 2 * GIVEN_BYTES_MAX, "{}", error.message.len());
        assert!(error.message.contains("20002 bytes"), "{}", error.message);
    }
}
