//! Where a dotted name stands: on a key, on the way to one, or nowhere, and then which known one is nearest.

use super::keys::{HOST, Key, SESSION};
use super::shape::Shape;
use crate::protocol::settings::SessionSettings;

/// The profile that is always there.
pub const DEFAULT_PROFILE: &str = "default";
const PROFILE_CHARS_MAX: usize = 64;
/// From 0 (nothing in common) to 1: below this a known name is no help. 0.5 finds a forgotten section
/// (`grace_ms`) and two typing errors in a short name, not an unrelated name.
const SIMILARITY_MIN: f64 = 0.5;

/// Which names are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// A whole configuration: the host's keys, the base, the profiles.
    Host,
    /// One session's keys.
    Session,
}

/// What stands at a dotted name.
#[derive(Debug)]
pub enum Place {
    /// A key that takes a value of this shape.
    Key(Shape),
    /// Not a key, but the beginning of one.
    Section,
    /// Nothing.
    Unknown {
        /// What would be right.
        expected: String,
        /// The nearest known name.
        nearest: Option<String>,
    },
}

impl Scope {
    /// What stands at `name`.
    pub fn find(self, name: &str) -> Place {
        match (self, name.split_once('.')) {
            (Scope::Host, None) if name == "session" => Place::Section,
            (Scope::Host, Some(("session", rest))) => in_profile(name, rest),
            (Scope::Host, _) => find_in(name, name, host_names(), self),
            (Scope::Session, _) => find_in(name, name, session_names("").collect(), self),
        }
    }
}

/// The profile a name belongs to.
pub fn profile_of(name: &str) -> Option<&str> {
    let rest = name.strip_prefix("session.")?;
    Some(rest.split_once('.').map_or(rest, |(profile, _)| profile))
}

/// Whether a session's key given at the top level is the base of every profile. False where the host has a key
/// of the same name.
pub fn has_base(key: &Key<SessionSettings>) -> bool {
    HOST.iter().all(|host| host.name != key.name)
}

/// The candidate most like `given`, if one is like it at all.
pub fn nearest(given: &str, candidates: impl IntoIterator<Item = String>) -> Option<String> {
    candidates
        .into_iter()
        .map(|candidate| (strsim::normalized_damerau_levenshtein(given, &candidate), candidate))
        .filter(|(similarity, _)| *similarity >= SIMILARITY_MIN)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, candidate)| candidate)
}

fn in_profile(name: &str, rest: &str) -> Place {
    let (profile, key) = rest.split_once('.').unwrap_or((rest, ""));
    if !is_profile(profile) {
        // Lower case only, because the environment cannot say any other.
        let expected = "a profile name: a-z, 0-9, _, -, at most 64, beginning with a letter or digit".to_owned();
        return Place::Unknown { expected, nearest: None };
    }
    if key.is_empty() && !rest.ends_with('.') {
        return Place::Section;
    }
    find_in(name, key, session_names(&format!("session.{profile}.")).collect(), Scope::Session)
}

fn find_in(name: &str, key: &str, known: Vec<String>, scope: Scope) -> Place {
    let host = HOST.iter().find(|row| row.name == key).map(|row| row.shape);
    let session = SESSION.iter().find(|row| row.name == key).map(|row| row.shape);
    let here = if scope == Scope::Host { host.or(session) } else { session };
    if let Some(shape) = here {
        return Place::Key(shape);
    }
    if known.iter().any(|known| known.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'))) {
        return Place::Section;
    }
    match host {
        Some(_) => {
            Place::Unknown { expected: format!("no such key in a session: `{key}` is the host's"), nearest: None }
        }
        None => Place::Unknown { expected: "a known key".to_owned(), nearest: nearest(name, known) },
    }
}

fn host_names() -> Vec<String> {
    let profile = format!("session.{DEFAULT_PROFILE}.");
    HOST.iter().map(|key| key.name.to_owned()).chain(session_names("")).chain(session_names(&profile)).collect()
}

fn session_names(prefix: &str) -> impl Iterator<Item = String> {
    SESSION.iter().map(move |key| format!("{prefix}{}", key.name))
}

fn is_profile(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    text.len() <= PROFILE_CHARS_MAX
        && text.bytes().next().is_some_and(plain)
        && text.bytes().all(|b| plain(b) || b == b'_' || b == b'-')
}
