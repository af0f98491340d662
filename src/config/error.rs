//! The one way a configuration is refused: which key, what was given, what would be right, and where it stands.
//!
//! The first mistake is reported, in the order of the sources and then of the names, so the same input always
//! gets the same answer.

use std::fmt;

/// Why a configuration was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The key, dotted (`session.default.stop.grace_ms`); `line N` where the text never became keys.
    pub key: String,
    /// What was given, shortened.
    pub given: String,
    /// What would be right.
    pub expected: String,
    /// Where it stands: `file PATH`, `environment NAME`, `flag --NAME`, …
    pub source: String,
    /// The known key or word that is nearest, where one is near.
    pub nearest: Option<String>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ConfigError { key, given, expected, source, nearest } = self;
        write!(f, "{source}: `{key}` is {given}, expected {expected}")?;
        match nearest {
            Some(nearest) => write!(f, "; did you mean `{nearest}`?"),
            None => Ok(()),
        }
    }
}

// By hand: the field `source` is a place to look at, not a cause to unwrap.
impl std::error::Error for ConfigError {}
