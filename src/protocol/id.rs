//! Names: of processes, sessions, agents, requests, and the labels callers give.
//!
//! Each is a type of its own that cannot hold a malformed value, so nothing behind the protocol checks again.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Longest session, agent or request name, in bytes.
pub const NAME_BYTES_MAX: usize = 128;
/// Longest label, in bytes.
pub const LABEL_BYTES_MAX: usize = 64;
/// Characters after `p-` in a process id: 65 random bits.
pub const PROCESS_ID_CHARS: usize = 13;

const BASE32: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// Why a text is not a name of the kind asked for; says what would be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected}")]
pub struct NameError {
    /// What is accepted.
    pub expected: &'static str,
}

macro_rules! name {
    ($(#[$doc:meta])* $type:ident, $check:expr, $expected:literal, $pattern:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
        #[serde(try_from = "String", into = "String")]
        pub struct $type(#[schemars(regex(pattern = $pattern))] String);

        impl $type {
            /// Checks and takes a name.
            pub fn new(text: impl Into<String>) -> Result<Self, NameError> {
                let text = text.into();
                if $check(text.as_str()) { Ok($type(text)) } else { Err(NameError { expected: $expected }) }
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $type {
            type Error = NameError;
            fn try_from(text: String) -> Result<Self, NameError> {
                $type::new(text)
            }
        }

        impl std::str::FromStr for $type {
            type Err = NameError;
            fn from_str(text: &str) -> Result<Self, NameError> {
                $type::new(text)
            }
        }

        impl From<$type> for String {
            fn from(name: $type) -> String {
                name.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name!(
    /// Names one process for ever: `p-` and 13 lower-case base32 characters, random.
    ProcessId, is_process_id, "`p-` and 13 characters a-z2-7", "^p-[a-z2-7]{13}$"
);
name!(
    /// A caller's own word for a process, usable wherever an id is.
    Label, is_label, "a label: a-z, 0-9, `.`, `_`, `-`, at most 64, beginning with a letter or digit, not with `p-`",
    "^[a-z0-9][a-z0-9._-]{0,63}$"
);
name!(
    /// One conversation's namespace.
    SessionName, is_name, "a session name: 1 to 128 of A-Z, a-z, 0-9, `.`, `_`, `:`, `-`", "^[A-Za-z0-9._:-]{1,128}$"
);
name!(
    /// Who calls inside a session as the model.
    AgentName, is_name, "an agent name: 1 to 128 of A-Z, a-z, 0-9, `.`, `_`, `:`, `-`", "^[A-Za-z0-9._:-]{1,128}$"
);
name!(
    /// One turn of an agent.
    RequestName, is_name, "a request name: 1 to 128 of A-Z, a-z, 0-9, `.`, `_`, `:`, `-`", "^[A-Za-z0-9._:-]{1,128}$"
);

impl ProcessId {
    /// The id spelled by the low 65 bits of `bits`.
    pub fn from_bits(bits: u128) -> Self {
        let mut text = String::with_capacity(2 + PROCESS_ID_CHARS);
        text.push_str("p-");
        for place in 0..PROCESS_ID_CHARS {
            text.push(char::from(BASE32[(bits >> (5 * place)) as usize & 31]));
        }
        ProcessId(text)
    }
}

impl AgentName {
    /// The agent that what the operator starts belongs to, unless another is named.
    pub fn main() -> Self {
        AgentName("main".to_owned())
    }
}

/// What a caller names a process by: its id, or a label.
///
/// Any text is taken: one that is neither names no process, and the answer says `unknown_process`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Handle(pub String);

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<&ProcessId> for Handle {
    fn from(id: &ProcessId) -> Self {
        Handle(id.as_str().to_owned())
    }
}

fn is_process_id(text: &str) -> bool {
    text.strip_prefix("p-")
        .is_some_and(|rest| rest.len() == PROCESS_ID_CHARS && rest.bytes().all(|b| BASE32.contains(&b)))
}

fn is_label(text: &str) -> bool {
    let lower = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    text.len() <= LABEL_BYTES_MAX
        && text.bytes().next().is_some_and(lower)
        && text.bytes().all(|b| lower(b) || matches!(b, b'.' | b'_' | b'-'))
        && !text.starts_with("p-")
}

fn is_name(text: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b':' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<T: std::str::FromStr>(good: &[&str], bad: &[&str]) {
        for text in good {
            assert!(text.parse::<T>().is_ok(), "{text:?} should be taken");
        }
        for text in bad {
            assert!(text.parse::<T>().is_err(), "{text:?} should be refused");
        }
    }

    #[test]
    fn a_label_is_short_lower_case_and_never_looks_like_an_id() {
        let longest = "a".repeat(64);
        let too_long = "a".repeat(65);
        check::<Label>(&["a", "0", "web-1.x_y", &longest], &["", "-a", ".a", "A", "a b", "p-x", "ä", "a\0", &too_long]);
    }

    #[test]
    fn a_name_is_ascii_and_bounded() {
        let longest = "a".repeat(128);
        let too_long = "a".repeat(129);
        check::<SessionName>(&["A:b-c_d.9", &longest], &["", "a b", "a/b", "ä", "a\n", &too_long]);
    }

    #[test]
    fn ids_made_here_are_ids() {
        for bits in [0, u128::MAX, 0x1234_5678_9abc_def0_1234] {
            let id = ProcessId::from_bits(bits);
            assert_eq!(ProcessId::new(id.as_str()), Ok(id));
        }
        check::<ProcessId>(&["p-aaaaaaaaaaaa7"], &["p-aaaaaaaaaaaa1", "p-AAAAAAAAAAAAA", "p-aaaaaaaaaaaaaa", "x"]);
    }
}
