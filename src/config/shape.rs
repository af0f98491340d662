//! What a key takes, and the check of a value against it.
//!
//! Invariant: a value that passes is of exactly the kind its key stores, so filling the settings cannot fail.
//! Typed sources (file, flags, `open_session`) are taken as they are; the environment is always text and is read
//! here, by one spelling per value: `32`, not ` 32`, `032`, `+32`, `0x20` or `3e1`.

use config::{Value, ValueKind};

use super::place::nearest;
use super::value::show;

/// What a key takes. Bounds are inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A number of things.
    Count(u64, u64),
    /// A time in milliseconds.
    Ms(u64, u64),
    /// A size in bytes.
    Bytes(u64, u64),
    /// Yes or no.
    Flag,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// The absolute path of a directory.
    Directory,
    /// The absolute path of a file.
    File,
    /// A program and its first arguments.
    Program,
    /// Patterns of variable names, where `*` stands for any text.
    Patterns,
}

/// Why a value does not fit: what would, and the word that was probably meant.
#[derive(Debug, PartialEq, Eq)]
pub struct Misfit {
    /// What was given, as a message shows it.
    pub given: String,
    /// What would be right.
    pub expected: String,
    /// The nearest word, where words are expected.
    pub nearest: Option<String>,
}

impl Shape {
    /// The value, if it fits; integers come back as `U64`.
    pub fn check(self, value: Value) -> Result<Value, Misfit> {
        let fitting = match self {
            Shape::Count(min, max) | Shape::Ms(min, max) | Shape::Bytes(min, max) => {
                integer(&value.kind).filter(|number| (min..=max).contains(number)).map(ValueKind::U64)
            }
            Shape::Flag => matches!(value.kind, ValueKind::Boolean(_)).then(|| value.kind.clone()),
            Shape::OneOf(words) => text(&value.kind).filter(|text| words.contains(text)).map(ValueKind::from),
            Shape::Directory | Shape::File => text(&value.kind).filter(|text| is_directory(text)).map(ValueKind::from),
            Shape::Program => texts(&value.kind).filter(|texts| is_program(texts)).map(|_| value.kind.clone()),
            Shape::Patterns => {
                texts(&value.kind).filter(|texts| texts.iter().all(|text| is_pattern(text))).map(|_| value.kind.clone())
            }
        };
        let origin = value.origin().map(str::to_owned);
        fitting.map(|kind| Value::new(origin.as_ref(), kind)).ok_or_else(|| self.misfit(&value.kind))
    }

    /// The value that a text of the environment spells, if it fits.
    pub fn read(self, origin: &str, text: &str) -> Result<Value, Misfit> {
        let origin = origin.to_owned();
        let kind = match self {
            Shape::Count(..) | Shape::Ms(..) | Shape::Bytes(..) => digits(text).map(ValueKind::U64),
            Shape::Flag => text.parse().ok().map(ValueKind::Boolean),
            Shape::OneOf(_) | Shape::Directory | Shape::File => Some(ValueKind::from(text)),
            Shape::Program | Shape::Patterns if text.is_empty() => Some(ValueKind::Array(Vec::new())),
            Shape::Program | Shape::Patterns => {
                Some(ValueKind::Array(text.split(',').map(|item| Value::new(Some(&origin), item)).collect()))
            }
        };
        match kind {
            Some(kind) => self.check(Value::new(Some(&origin), kind)),
            None => Err(self.misfit(&ValueKind::from(text))),
        }
    }

    /// What the key takes, in words.
    pub fn expected(self) -> String {
        match self {
            Shape::Count(min, max) => format!("an integer from {min} to {max}"),
            Shape::Ms(min, max) => format!("an integer from {min} to {max}, in milliseconds"),
            Shape::Bytes(min, max) => format!("an integer from {min} to {max}, in bytes"),
            Shape::Flag => "true or false".to_owned(),
            Shape::OneOf(words) => format!("one of {}", words.join(", ")),
            Shape::Directory => "the absolute path of a directory".to_owned(),
            Shape::File => "the absolute path of a file".to_owned(),
            Shape::Program => "a list of texts: a program and its first arguments".to_owned(),
            Shape::Patterns => "a list of variable names, in which * stands for any text".to_owned(),
        }
    }

    fn misfit(self, kind: &ValueKind) -> Misfit {
        let nearest = match (self, kind) {
            (Shape::OneOf(words), ValueKind::String(given)) => {
                // Compared in one case, so that `sigterm` and `term` find TERM.
                nearest(&given.to_lowercase(), words.iter().map(|word| word.to_lowercase()))
                    .and_then(|near| words.iter().find(|word| word.to_lowercase() == near))
                    .map(|word| (*word).to_owned())
            }
            _ => None,
        };
        Misfit { given: show(kind), expected: self.expected(), nearest }
    }
}

fn integer(kind: &ValueKind) -> Option<u64> {
    match *kind {
        ValueKind::I64(number) => number.try_into().ok(),
        ValueKind::U64(number) => Some(number),
        ValueKind::I128(number) => number.try_into().ok(),
        ValueKind::U128(number) => number.try_into().ok(),
        _ => None,
    }
}

fn digits(text: &str) -> Option<u64> {
    let one_spelling = text == "0" || !text.starts_with('0');
    (one_spelling && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok()).flatten()
}

fn text(kind: &ValueKind) -> Option<&str> {
    match kind {
        ValueKind::String(text) => Some(text),
        _ => None,
    }
}

fn texts(kind: &ValueKind) -> Option<Vec<&str>> {
    match kind {
        ValueKind::Array(items) => items.iter().map(|item| text(&item.kind)).collect(),
        _ => None,
    }
}

// No file is looked at: the directory may be made later, and whoever uses it says what is wrong with it.
fn is_directory(text: &str) -> bool {
    std::path::Path::new(text).is_absolute() && !text.contains('\0')
}

fn is_program(texts: &[&str]) -> bool {
    texts.first().is_some_and(|program| !program.trim().is_empty()) && !texts.iter().any(|text| text.contains('\0'))
}

fn is_pattern(text: &str) -> bool {
    !text.is_empty() && !text.contains(|c: char| c == '=' || c == '\0' || c == ',' || c.is_whitespace())
}
