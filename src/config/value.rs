//! Values on their way through the `config` package: in from JSON, out to JSON, and shown in messages.
//!
//! That package's own getters turn `32.9` into 33 and `true` into 1, so nothing here calls them: the kind of a
//! value is looked at, never converted.

use config::{Value, ValueKind};
use serde_json::Value as Json;

/// Longest value shown in a message, in characters.
const SHOWN_CHARS_MAX: usize = 80;

/// The same value, marked as coming from `origin`.
pub fn from_json(origin: &str, json: &Json) -> Value {
    let kind = match json {
        Json::Null => ValueKind::Nil,
        Json::Bool(flag) => ValueKind::Boolean(*flag),
        Json::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(number), _) => ValueKind::U64(number),
            (None, Some(number)) => ValueKind::I64(number),
            (None, None) => ValueKind::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(text) => ValueKind::String(text.clone()),
        Json::Array(items) => ValueKind::Array(items.iter().map(|item| from_json(origin, item)).collect()),
        Json::Object(fields) => {
            ValueKind::Table(fields.iter().map(|(name, field)| (name.clone(), from_json(origin, field))).collect())
        }
    };
    Value::new(Some(&origin.to_owned()), kind)
}

/// The same value as JSON. What JSON has no word for (not a number, integers beyond 64 bits) becomes null; a
/// checked value is never one of these.
pub fn to_json(value: &Value) -> Json {
    match &value.kind {
        ValueKind::Nil | ValueKind::I128(_) | ValueKind::U128(_) => Json::Null,
        ValueKind::Boolean(flag) => Json::from(*flag),
        ValueKind::I64(number) => Json::from(*number),
        ValueKind::U64(number) => Json::from(*number),
        ValueKind::Float(number) => Json::from(*number),
        ValueKind::String(text) => Json::from(text.as_str()),
        ValueKind::Array(items) => items.iter().map(to_json).collect(),
        ValueKind::Table(fields) => fields.iter().map(|(name, field)| (name.clone(), to_json(field))).collect(),
    }
}

/// The value as a message shows it.
pub fn show(kind: &ValueKind) -> String {
    let text = match kind {
        ValueKind::Nil => "null".to_owned(),
        ValueKind::Boolean(flag) => flag.to_string(),
        ValueKind::I64(number) => number.to_string(),
        ValueKind::I128(number) => number.to_string(),
        ValueKind::U64(number) => number.to_string(),
        ValueKind::U128(number) => number.to_string(),
        // `{:?}` keeps the `.0` that makes it no integer.
        ValueKind::Float(number) => format!("{number:?}"),
        ValueKind::String(text) => format!("{:?}", shorten(text)),
        ValueKind::Array(items) => {
            let shown: Vec<String> = items.iter().take(SHOWN_CHARS_MAX).map(|item| show(&item.kind)).collect();
            format!("[{}]", shown.join(", "))
        }
        ValueKind::Table(_) => "a table".to_owned(),
    };
    shorten(&text)
}

/// The beginning of a text, if it is too long to be shown.
pub fn shorten(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
