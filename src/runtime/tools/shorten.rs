//! Cutting to a bound: text in its middle, values at their longest list or string.
//!
//! Pure. Invariants, each tested on random input: the result is never over the bound, no character is split, and
//! the omitted count is exact.

use serde_json::{Value, json};

/// What was left out of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Omitted {
    /// Where it began in the whole text, in bytes.
    pub at: usize,
    /// How much it was, in bytes.
    pub bytes: usize,
}

/// Shortest string that a value is cut to; shorter ones are left alone.
const STRING_BYTES_LEFT: usize = 64;

/// At most `max` bytes of `text`: its first quarter and last three quarters, and between them the line that `mark`
/// makes. Where there is no room for that line, the end of the text alone.
pub(super) fn middle(text: &str, max: usize, mark: impl Fn(Omitted) -> String) -> (String, Option<Omitted>) {
    if text.len() <= max {
        return (text.to_owned(), None);
    }
    // The longest the line can be: no place and no count has more digits than these.
    let longest = mark(Omitted { at: text.len(), bytes: text.len() }).len();
    let Some(room) = max.checked_sub(longest).filter(|room| *room >= 4) else {
        let from = ceil_boundary(text, text.len() - max);
        return (text[from..].to_owned(), Some(Omitted { at: 0, bytes: from }));
    };
    let head = floor_boundary(text, room / 4);
    let tail = ceil_boundary(text, text.len() - (room - room / 4));
    let omitted = Omitted { at: head, bytes: tail - head };
    let line = mark(omitted);
    if head + line.len() + (text.len() - tail) > max {
        let from = ceil_boundary(text, text.len() - max);
        return (text[from..].to_owned(), Some(Omitted { at: 0, bytes: from }));
    }
    (format!("{}{line}{}", &text[..head], &text[tail..]), Some(omitted))
}

/// Cuts lists from their end and strings in their middle until `value` has at most `max` bytes as JSON, or nothing
/// is left to cut. Says whether it cut anything.
pub(super) fn fit(value: &mut Value, max: usize) -> bool {
    let mut cut = false;
    loop {
        let size = value.to_string().len();
        if size <= max || !cut_longest(value, size - max) {
            return cut;
        }
        cut = true;
    }
}

/// Cuts about `excess` bytes from the largest list, or else from the longest string.
fn cut_longest(value: &mut Value, excess: usize) -> bool {
    if let Some(Value::Array(list)) = largest(value, &|value| {
        value.as_array().map_or(0, |list| if list.len() > 1 { value.to_string().len() } else { 0 })
    }) {
        let mut gone = 0;
        while gone < excess && list.len() > 1 {
            gone += list.pop().map_or(0, |last| last.to_string().len() + 1);
        }
        return true;
    }
    let long = |value: &Value| value.as_str().map_or(0, str::len);
    match largest(value, &|value| if long(value) > STRING_BYTES_LEFT { long(value) } else { 0 }) {
        Some(Value::String(text)) => {
            let max = text.len().saturating_sub(excess).max(STRING_BYTES_LEFT).min(text.len() - 1);
            *text = middle(text, max, |omitted| format!("… {} bytes …", omitted.bytes)).0;
            true
        }
        _ => false,
    }
}

/// The part of `value` that weighs most, if any weighs anything.
fn largest<'a>(value: &'a mut Value, weight: &dyn Fn(&Value) -> usize) -> Option<&'a mut Value> {
    let mut best = (0, String::new());
    find(value, "", weight, &mut best);
    if best.0 == 0 { None } else { value.pointer_mut(&best.1) }
}

fn find(value: &Value, path: &str, weight: &dyn Fn(&Value) -> usize, best: &mut (usize, String)) {
    let own = weight(value);
    if own > best.0 {
        *best = (own, path.to_owned());
    }
    let step = |key: &str| format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"));
    match value {
        Value::Object(map) => map.iter().for_each(|(key, value)| find(value, &step(key), weight, best)),
        Value::Array(list) => {
            list.iter().enumerate().for_each(|(at, value)| find(value, &step(&at.to_string()), weight, best))
        }
        _ => {}
    }
}

/// Marks a list answer whose rows were cut.
pub(super) fn note_truncated(value: &mut Value) {
    if let Some(map) = value.as_object_mut() {
        map.insert("truncated".to_owned(), json!(true));
    }
}

fn floor_boundary(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
}

fn ceil_boundary(text: &str, at: usize) -> usize {
    (at..=text.len()).find(|&at| text.is_char_boundary(at)).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn mark(omitted: Omitted) -> String {
        format!("\n[{} bytes at {}]\n", omitted.bytes, omitted.at)
    }

    fn check(text: &str, max: usize, expected: &str) {
        assert_eq!(middle(text, max, mark).0, expected, "{text:?} in {max}");
    }

    #[test]
    fn the_beginning_and_the_end_are_kept() {
        check("short", 5, "short");
        check(&"a".repeat(100), 60, &format!("{}\n[60 bytes at 10]\n{}", "a".repeat(10), "a".repeat(30)));
        check("abcdefghij", 3, "hij");
        check("abcdefghij", 0, "");
    }

    proptest! {
        #[test]
        fn never_over_the_bound_never_a_split_character_always_the_exact_count(
            text in "[a-zä€😀\n]{0,400}", max in 0usize..600,
        ) {
            let (cut, omitted) = middle(&text, max, mark);
            prop_assert!(cut.len() <= max, "{} over {max}", cut.len());
            match omitted {
                None => prop_assert_eq!(&cut, &text),
                Some(Omitted { at, bytes }) => {
                    prop_assert!(text.is_char_boundary(at) && text.is_char_boundary(at + bytes));
                    let whole = format!("{}{}{}", &text[..at], mark(Omitted { at, bytes }), &text[at + bytes..]);
                    let without = format!("{}{}", &text[..at], &text[at + bytes..]);
                    prop_assert!(cut == whole || (at == 0 && cut == without), "{:?}", cut);
                }
            }
        }

        #[test]
        fn a_value_fits_or_has_nothing_left_to_cut(
            rows in proptest::collection::vec("[a-zä\"\n]{0,200}", 0..40), long in "[a-z\u{1}]{0,3000}", max in 400usize..2000,
        ) {
            let mut value = json!({"rows": rows, "long": long, "n": 1});
            let before = value.clone();
            let cut = fit(&mut value, max);
            prop_assert!(value.to_string().len() <= max.max(900), "{}", value.to_string().len());
            prop_assert_eq!(cut, before != value);
            prop_assert_eq!(&value["n"], &json!(1));
        }
    }
}
