//! The promise of the configuration's file: whatever stands in it is taken or refused, with its line or its key,
//! and nothing in it brings the host down.

use std::fmt::Debug;
use std::io::Write;
use std::path::PathBuf;

use procession::config::keys::{HOST, SESSION};
use procession::config::{ConfigError, Loaded, Sources, defaults, load};
use proptest::prelude::*;

fn from_file(text: impl AsRef<[u8]>) -> Result<Loaded, ConfigError> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_ref()).unwrap();
    load(Sources { file: Some(file.path().to_owned()), ..Sources::default() }).map_err(|mut error| {
        assert_eq!(error.source, format!("file {}", file.path().display()));
        error.source = "file".to_owned();
        error
    })
}

/// A refusal's sentence must be exactly `expected`.
fn check<T: Debug>(result: Result<T, ConfigError>, expected: &str) {
    assert_eq!(result.expect_err("this should be refused").to_string(), expected);
}

#[test]
fn a_file_that_cannot_be_read_is_refused_with_its_reason() {
    let missing = PathBuf::from("/nonexistent/procession.toml");
    check(
        load(Sources { file: Some(missing), ..Sources::default() }),
        "file /nonexistent/procession.toml: `--config` is unreadable (No such file or directory (os error 2)), \
         expected a file that can be read",
    );
    check(from_file(vec![b'#'; (1 << 20) + 1]), "file: `--config` is too large, expected at most 1048576 bytes");
    assert_eq!(from_file(vec![b'#'; 1 << 20]).unwrap().settings, defaults());
    check(from_file(b"# fine\n\xff = 1\n"), "file: `line 2` is not UTF-8, expected a text in UTF-8");
}

#[test]
fn what_is_no_toml_is_refused_with_its_line() {
    for (text, line) in [
        ("limits.sessions = 1\n\nstop = = 2\n", 3),
        ("[limits]\nsessions = 1\nsessions = 2\n", 3),
        ("[limits\n", 1),
        ("[limits]\n# 99999999999999999999\nsessions = 99999999999999999999\n", 3),
        ("[limits]\nsessions = 0xFFFFFFFFFFFFFFFFFFFF\n", 2),
        ("shell = [\n\"a\",\n99999999999999999999,\n]\n", 4),
        ("\n\nx = 1e999\n", 3),
    ] {
        let error = from_file(text).expect_err(text);
        assert_eq!((error.key, error.expected.as_str()), (format!("line {line}"), "TOML"), "{text}: {}", error.given);
    }
}

#[test]
fn deep_nesting_is_refused_and_overflows_no_stack() {
    for text in [
        format!("{}b = 1", "a.".repeat(300_000)),
        format!("[{}b]", "a.".repeat(300_000)),
        format!("{}b = 1", "a .\t".repeat(900)),
        format!("a = {}{}", "[".repeat(400_000), "]".repeat(400_000)),
        format!("a = {}", "{a=".repeat(300_000)),
        format!("a{} = {{ a{} = 1 }}", ".a".repeat(400), ".a".repeat(400)),
    ] {
        from_file(text).expect_err("too deep");
    }
}

/// Lines made of what configurations are made of, often right and often wrong.
fn line() -> impl Strategy<Value = String> {
    let session = SESSION.iter().map(|key| format!("session.x.{}", key.name));
    let names: Vec<_> = HOST.iter().map(|key| key.name.to_owned()).chain(session).chain(["x".to_owned()]).collect();
    let value = prop_oneof![
        any::<i64>().prop_map(|number| number.to_string()),
        (0..200_000u32).prop_map(|number| number.to_string()),
        any::<f64>().prop_map(|number| format!("{number:?}")),
        any::<bool>().prop_map(|flag| flag.to_string()),
        "[a-zA-Z0-9*/ -]{0,8}".prop_map(|text| format!("{text:?}")),
        "\\PC{0,12}",
        Just("[\"a\", [1, {x = 1979-05-27T07:32:00Z}]]".to_owned()),
        Just("99999999999999999999999".to_owned()),
    ];
    prop_oneof![
        4 => (prop::sample::select(names), value).prop_map(|(name, value)| format!("{name} = {value}")),
        1 => "\\[\\[?[a-z.\"]{0,12}\\]?\\]",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_text_is_taken_or_refused_and_never_panics(text in "(\\PC|\n){0,200}") {
        let _ = from_file(text);
    }

    #[test]
    fn random_toml_is_within_bounds_or_refused_by_name(lines in prop::collection::vec(line(), 0..5)) {
        let text = lines.join("\n");
        match from_file(&text) {
            Ok(loaded) => prop_assert!((1..=100_000).contains(&loaded.settings.limits.live_per_host)),
            Err(error) => prop_assert!(!error.given.is_empty() && !error.expected.is_empty(), "{text}: {error}"),
        }
    }
}
