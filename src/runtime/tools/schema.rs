//! The protocol's schemas made plain: what every reader of tool schemas takes.
//!
//! A field becomes one of string, integer, boolean, array or object, with `enum`, `items` and
//! `additionalProperties` where they say something. References are followed, null and alternatives fall away.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::protocol::call::Call;

/// Field → its plain schema.
pub(super) type Kinds = BTreeMap<String, Value>;

/// The fields of a verb. None where there is no such verb.
pub(super) fn fields_of(action: &str) -> Kinds {
    let Some(schema) = Call::schema(action) else { return Kinds::new() };
    let empty = Map::new();
    let part = |name| schema.get(name).and_then(Value::as_object).unwrap_or(&empty);
    let (properties, definitions) = (part("properties"), part("$defs"));
    properties.iter().map(|(name, field)| (name.clone(), plain(field, definitions))).collect()
}

fn plain(schema: &Value, definitions: &Map<String, Value>) -> Value {
    if let Some(target) = schema["$ref"].as_str().and_then(|path| definitions.get(path.rsplit('/').next()?)) {
        return plain(target, definitions);
    }
    if let Some(first) = alternatives(schema, "anyOf").find(|schema| schema["type"] != "null") {
        return plain(first, definitions);
    }
    let mut words = alternatives(schema, "oneOf").filter_map(|schema| schema["const"].as_str()).peekable();
    if words.peek().is_some() {
        return json!({"type": "string", "enum": words.collect::<Vec<_>>()});
    }
    let mut plainer = Map::new();
    plainer.insert("type".to_owned(), json!(kind(schema)));
    if let Some(items) = schema.get("items") {
        plainer.insert("items".to_owned(), plain(items, definitions));
    }
    if let Some(values) = schema.get("additionalProperties").filter(|values| values.is_object()) {
        plainer.insert("additionalProperties".to_owned(), plain(values, definitions));
    }
    Value::Object(plainer)
}

fn alternatives<'a>(schema: &'a Value, word: &str) -> impl Iterator<Item = &'a Value> {
    schema.get(word).and_then(Value::as_array).into_iter().flatten()
}

/// The one type that is not null.
fn kind(schema: &Value) -> &str {
    match &schema["type"] {
        Value::String(kind) => kind,
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).find(|kind| *kind != "null").unwrap_or("object"),
        _ => "object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(action: &str, field: &str, expected: Value) {
        assert_eq!(fields_of(action).get(field), Some(&expected), "{action}.{field}");
    }

    #[test]
    fn every_form_the_protocol_uses_becomes_plain() {
        check("exec", "command", json!({"type": "string"}));
        check("exec", "argv", json!({"type": "array", "items": {"type": "string"}}));
        check("exec", "env", json!({"type": "object", "additionalProperties": {"type": "string"}}));
        check("exec", "timeout_ms", json!({"type": "integer"}));
        check("exec", "label", json!({"type": "string"}));
        check("exec", "on_conflict", json!({"type": "string", "enum": ["refuse", "reuse", "replace", "allow"]}));
        check("wait", "process_ids", json!({"type": "array", "items": {"type": "string"}}));
        check("status", "process_id", json!({"type": "string"}));
    }

    #[test]
    fn an_unknown_verb_has_no_fields() {
        assert!(fields_of("dance").is_empty());
    }
}
