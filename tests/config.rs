//! The promise of the configuration: what it takes, what it refuses, and how it says so.

use std::fmt::Debug;
use std::io::Write;

use procession::config::keys::{HOST, SESSION};
use procession::config::{ConfigError, Loaded, Shape, Sources, defaults, load, narrow};
use procession::protocol::settings::{
    BrokerSettings, EnvInherit, EnvSettings, ExecSettings, HostLimits, HostSettings, McpSettings, OutputSettings,
    OwnerSettings, SessionLimits, SessionSettings, StopSettings,
};
use procession::protocol::state::{ContainmentKind, Signal};
use serde_json::{Value as Json, json};

fn from_file(text: impl AsRef<[u8]>) -> Result<Loaded, ConfigError> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_ref()).unwrap();
    load(Sources { file: Some(file.path().to_owned()), ..Sources::default() }).map_err(|mut error| {
        assert_eq!(error.source, format!("file {}", file.path().display()));
        error.source = "file".to_owned();
        error
    })
}

fn from_environment(variables: &[(&str, &str)]) -> Result<Loaded, ConfigError> {
    let environment = variables.iter().map(|(name, text)| (name.to_string(), text.to_string())).collect();
    load(Sources { environment, ..Sources::default() })
}

fn from_flags(flags: &[(&str, Json)]) -> Result<Loaded, ConfigError> {
    let flags = flags.iter().map(|(key, value)| (key.to_string(), value.clone())).collect();
    load(Sources { flags, ..Sources::default() })
}

/// A refusal's sentence must be exactly `expected`.
fn check<T: Debug>(result: Result<T, ConfigError>, expected: &str) {
    assert_eq!(result.expect_err("this should be refused").to_string(), expected);
}

fn source_of<'a>(loaded: &'a Loaded, key: &str) -> &'a str {
    &loaded.report.iter().find(|row| row.key == key).unwrap_or_else(|| panic!("{key} is not reported")).source
}

/// Every key under the name it has in `session.default`, or as the host's, with its shape and default.
fn every_key() -> Vec<(String, Shape, Json)> {
    let host = HOST.iter().map(|key| (key.name.to_owned(), key.shape, (key.default)()));
    let session = SESSION.iter().map(|key| (format!("session.default.{}", key.name), key.shape, (key.default)()));
    host.chain(session).collect()
}

/// Another value than the default for a key of this shape.
fn other(shape: Shape, default: &Json) -> Json {
    match shape {
        Shape::Count(min, max) | Shape::Ms(min, max) | Shape::Bytes(min, max) => {
            json!(if *default == json!(max) { min } else { max })
        }
        Shape::Flag => json!(*default != json!(true)),
        Shape::OneOf(words) => json!(words.iter().rfind(|word| *default != json!(word)).unwrap()),
        Shape::Directory => json!("/srv/work"),
        Shape::File => json!("/usr/bin/true"),
        Shape::Program => json!(["/bin/dash", "-e", "-c"]),
        Shape::Patterns => json!(["ONLY_*", "THIS"]),
    }
}

/// The value as the environment spells it.
fn spell(value: &Json) -> String {
    match value {
        Json::String(text) => text.clone(),
        Json::Array(items) => items.iter().map(|item| item.as_str().unwrap()).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

#[test]
fn every_default_is_the_one_of_the_contract() {
    let session = SessionSettings {
        directory: None,
        limits: SessionLimits {
            live_per_session: 8,
            finished_per_session: 100,
            parked_calls_per_session: 1000,
            timeout_max_ms: None,
        },
        output: OutputSettings {
            retain_bytes: 1 << 20,
            page_bytes: 65536,
            wait_for_reader: false,
            drain_idle_ms: 250,
            drain_max_ms: 5000,
        },
        exec: ExecSettings { timeout_ms: 1_800_000, max_output_bytes: 200_000 },
        start_timeout_ms: 0,
        stop: StopSettings { grace_ms: 5000, confirm_ms: 4000, signal: Signal::Term },
        shell: ["sh", "-c"].map(str::to_owned).to_vec(),
        env: EnvSettings {
            inherit: EnvInherit::Core,
            pass: vec![],
            deny: ["LD_*", "DYLD_*", "BASH_ENV", "ENV", "IFS", "GCONV_PATH"].map(str::to_owned).to_vec(),
        },
        cwd_outside: false,
        containment_require: if cfg!(target_os = "linux") { ContainmentKind::Subtree } else { ContainmentKind::Group },
    };
    let host = HostSettings {
        limits: HostLimits { live_per_host: 32, finished_per_host: 10000, sessions: 1000, timeout_max_ms: None },
        auto_open: true,
        broker: BrokerSettings { path: None, spares: 2 },
        owner: OwnerSettings { heartbeat_ms: 5_000, heartbeat_grace_ms: 30_000 },
        mcp: McpSettings { call_max_ms: 50000, answer_bytes: 16384 },
        profiles: [("default".to_owned(), session)].into(),
    };
    let loaded = from_environment(&[("PATH", "/nonexistent")]).unwrap();
    assert_eq!(loaded.settings, host);
    assert_eq!(loaded.report.len(), HOST.len() + SESSION.len());
    assert!(loaded.report.iter().all(|row| row.source == "default"), "{:?}", loaded.report);
}

#[test]
fn every_bound_is_the_one_of_the_contract() {
    let (year, gib) = (31_536_000_000_i64, 1 << 30);
    let bounds = [
        ("limits.live_per_host", 1, 100_000),
        ("limits.finished_per_host", 0, 1_000_000),
        ("broker.spares", 1, 64),
        ("owner.heartbeat_ms", 10, 3_600_000),
        ("owner.heartbeat_grace_ms", 0, 31_536_000_000),
        ("limits.sessions", 0, 1_000_000),
        ("limits.timeout_max_ms", 1, year),
        ("mcp.call_max_ms", 1000, 600_000),
        ("mcp.answer_bytes", 0, gib),
        ("session.default.limits.live_per_session", 1, 10_000),
        ("session.default.limits.finished_per_session", 0, 1_000_000),
        ("session.default.limits.parked_calls_per_session", 0, 1_000_000),
        ("session.default.limits.timeout_max_ms", 1, year),
        ("session.default.output.retain_bytes", 4096, gib),
        ("session.default.output.page_bytes", 1, 1 << 20),
        ("session.default.output.drain_idle_ms", 0, year),
        ("session.default.output.drain_max_ms", 0, year),
        ("session.default.exec.timeout_ms", 0, year),
        ("session.default.exec.max_output_bytes", 0, gib),
        ("session.default.start.timeout_ms", 0, year),
        ("session.default.stop.grace_ms", 0, 60_000),
        ("session.default.stop.confirm_ms", 100, 60_000),
    ];
    for (key, min, max) in bounds {
        for inside in [min, max] {
            let loaded = from_flags(&[(key, json!(inside))]).unwrap_or_else(|error| panic!("{error}"));
            assert!(loaded.report.iter().any(|row| row.key == key && row.value == json!(inside)), "{key} = {inside}");
        }
        for outside in [min - 1, max + 1] {
            let error = from_flags(&[(key, json!(outside))]).expect_err(key);
            assert_eq!((error.key.as_str(), error.given), (key, outside.to_string()));
            assert!(error.expected.starts_with(&format!("an integer from {min} to {max}")), "{}", error.expected);
        }
    }
    let bounded = |shape: &Shape| matches!(shape, Shape::Count(..) | Shape::Ms(..) | Shape::Bytes(..));
    let integers = every_key().iter().filter(|(_, shape, _)| bounded(shape)).count();
    assert_eq!(integers, bounds.len(), "a key with bounds is missing here");
}

#[test]
fn every_key_says_the_same_from_file_environment_and_flag() {
    for (key, shape, default) in every_key() {
        let value = other(shape, &default);
        let variable = format!("PROCESSION__{}", key.to_uppercase().replace('.', "__"));
        let file = from_file(format!("{key} = {value}")).unwrap_or_else(|error| panic!("{error}"));
        let environment = from_environment(&[(&variable, &spell(&value))]).unwrap_or_else(|error| panic!("{error}"));
        let flag = from_flags(&[(&key, value.clone())]).unwrap_or_else(|error| panic!("{error}"));

        assert_ne!(file.settings, defaults(), "{key} changes nothing");
        assert_eq!(file.settings, environment.settings, "{key}");
        assert_eq!(file.settings, flag.settings, "{key}");
        assert!(source_of(&file, &key).starts_with("file /"), "{key}");
        assert_eq!(source_of(&environment, &key), format!("environment {variable}"));
        assert_eq!(source_of(&flag, &key), format!("flag --{key}"));
        let moved: Vec<_> = flag.report.iter().filter(|row| row.source != "default").collect();
        assert_eq!(moved.len(), 1, "{key} moved another key: {moved:?}");
        assert_eq!((&moved[0].key, &moved[0].value), (&key, &value));
    }
}

#[test]
fn a_report_given_back_makes_the_same_settings() {
    let flags = every_key().into_iter().map(|(key, shape, default)| (key, other(shape, &default))).collect();
    let loaded = load(Sources { flags, ..Sources::default() }).unwrap();
    let flags = loaded.report.iter().map(|row| (row.key.clone(), row.value.clone())).collect();
    assert_eq!(load(Sources { flags, ..Sources::default() }).unwrap(), loaded);
}

#[test]
fn every_word_of_a_key_with_words_is_taken() {
    for (key, shape, _) in every_key() {
        let Shape::OneOf(words) = shape else { continue };
        for word in words {
            from_flags(&[(&key, json!(word))]).unwrap_or_else(|error| panic!("{error}"));
        }
    }
}

#[test]
fn flags_beat_the_environment_beats_the_file_beats_the_front_end() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"[stop]\ngrace_ms = 1\nconfirm_ms = 101\n[output]\npage_bytes = 1\n").unwrap();
    let own = |pairs: &[(&str, Json)]| pairs.iter().map(|(key, value)| (key.to_string(), value.clone())).collect();
    let loaded = load(Sources {
        preferred: own(&[("env.inherit", json!("filtered")), ("output.page_bytes", json!(7))]),
        file: Some(file.path().to_owned()),
        environment: vec![
            ("PROCESSION__STOP__GRACE_MS".to_owned(), "2".to_owned()),
            ("PROCESSION__STOP__CONFIRM_MS".to_owned(), "102".to_owned()),
        ],
        flags: own(&[("stop.grace_ms", json!(3))]),
    })
    .unwrap();
    let session = &loaded.settings.profiles["default"];
    assert_eq!((session.stop.grace_ms, session.stop.confirm_ms, session.output.page_bytes), (3, 102, 1));
    assert_eq!(session.env.inherit, EnvInherit::Filtered);
    assert_eq!(source_of(&loaded, "session.default.stop.grace_ms"), "flag --stop.grace_ms");
    assert_eq!(source_of(&loaded, "session.default.stop.confirm_ms"), "environment PROCESSION__STOP__CONFIRM_MS");
    assert!(source_of(&loaded, "session.default.output.page_bytes").starts_with("file /"));
    assert_eq!(source_of(&loaded, "session.default.env.inherit"), "front end");
    assert_eq!(source_of(&loaded, "session.default.stop.signal"), "default");
}

#[test]
fn a_profile_stands_on_the_base_and_its_own_value_wins() {
    let text = "stop.grace_ms = 10\nexec.timeout_ms = 20\n[session.big]\nstop.grace_ms = 11\n[session.plain]\n\
                [session.default]\nexec.timeout_ms = 21\n";
    let profiles = from_file(text).unwrap().settings.profiles;
    let seen: Vec<_> = profiles.iter().map(|(name, s)| (name.as_str(), s.stop.grace_ms, s.exec.timeout_ms)).collect();
    assert_eq!(seen, [("big", 11, 20), ("default", 10, 21), ("plain", 10, 20)]);
}

#[test]
fn the_timeout_cap_at_the_top_is_the_hosts_and_in_a_profile_the_sessions() {
    let settings = from_file("limits.timeout_max_ms = 10\nsession.x.limits.timeout_max_ms = 5").unwrap().settings;
    assert_eq!(settings.limits.timeout_max_ms, Some(10));
    assert_eq!(settings.profiles["x"].limits.timeout_max_ms, Some(5));
    assert_eq!(settings.profiles["default"].limits.timeout_max_ms, None);
}

#[test]
fn a_file_value_of_the_wrong_kind_is_refused_by_name() {
    for (given, shown) in [
        ("32.9", "32.9"),
        ("32.0", "32.0"),
        ("\"32\"", "\"32\""),
        ("true", "true"),
        ("-1", "-1"),
        ("0", "0"),
        ("100001", "100001"),
        ("9223372036854775807", "9223372036854775807"),
        ("nan", "NaN"),
        ("inf", "inf"),
        ("1e3", "1000.0"),
        ("[32]", "[32]"),
        ("{}", "a table"),
        ("1979-05-27", "\"1979-05-27\""),
    ] {
        let expected = format!("file: `limits.live_per_host` is {shown}, expected an integer from 1 to 100000");
        check(from_file(format!("[limits]\nlive_per_host = {given}\n")), &expected);
    }
    let program = "a list of texts: a program and its first arguments";
    let patterns = "a list of variable names, in which * stands for any text";
    for (key, given, expected) in [
        ("sessions.auto_open", "1", "true or false"),
        ("sessions.auto_open", "\"yes\"", "true or false"),
        ("directory", "\"work\"", "the absolute path of a directory"),
        ("directory", "1979-05-27", "the absolute path of a directory"),
        ("shell", "\"bash -c\"", program),
        ("shell", "[]", program),
        ("shell", "[\"bash\", 1]", program),
        ("env.pass", "[\"A=1\"]", patterns),
        ("env.pass", "\"A\"", patterns),
    ] {
        let error = from_file(format!("{key} = {given}")).expect_err(given);
        assert_eq!((error.key.as_str(), error.expected.as_str()), (key, expected), "{given}");
    }
}

#[test]
fn a_value_has_one_spelling_in_the_environment() {
    let numbers =
        ["32.9", " 32", "32 ", "0x20", "1e3", "+32", "032", "3_2", "-1", "", "true", "99999999999999999999", "３２"];
    for text in numbers {
        let expected = format!(
            "environment PROCESSION__LIMITS__LIVE_PER_HOST: `limits.live_per_host` is {text:?}, \
             expected an integer from 1 to 100000"
        );
        check(from_environment(&[("PROCESSION__LIMITS__LIVE_PER_HOST", text)]), &expected);
    }
    for text in ["True", "1", "yes", "on", " true", ""] {
        let expected = format!(
            "environment PROCESSION__SESSIONS__AUTO_OPEN: `sessions.auto_open` is {text:?}, expected true or false"
        );
        check(from_environment(&[("PROCESSION__SESSIONS__AUTO_OPEN", text)]), &expected);
    }
    check(
        from_environment(&[("PROCESSION__ENV__PASS", "A_*, B")]),
        "environment PROCESSION__ENV__PASS: `env.pass` is [\"A_*\", \" B\"], \
         expected a list of variable names, in which * stands for any text",
    );
    let loaded = from_environment(&[("PROCESSION__ENV__DENY", ""), ("PROCESSION__SHELL", "bash,-e,-c")]).unwrap();
    let session = &loaded.settings.profiles["default"];
    assert!(session.env.deny.is_empty());
    assert_eq!(session.shell, ["bash", "-e", "-c"]);
}

#[test]
fn a_flag_is_typed_too() {
    for (value, shown) in [
        (json!(32.9), "32.9"),
        (json!("32"), "\"32\""),
        (json!(true), "true"),
        (json!(null), "null"),
        (json!(-1), "-1"),
        (json!(u64::MAX), "18446744073709551615"),
    ] {
        let expected = format!(
            "flag --mcp.call_max_ms: `mcp.call_max_ms` is {shown}, \
             expected an integer from 1000 to 600000, in milliseconds"
        );
        check(from_flags(&[("mcp.call_max_ms", value)]), &expected);
    }
}

#[test]
fn a_wrong_word_finds_the_right_one() {
    for (given, nearest) in [("SIGTERM", "TERM"), ("term", "TERM"), ("KIL", "KILL")] {
        let expected = format!(
            "file: `stop.signal` is {given:?}, expected one of TERM, INT, HUP, QUIT, KILL; did you mean `{nearest}`?"
        );
        check(from_file(format!("stop.signal = {given:?}")), &expected);
    }
    check(from_file("env.inherit = \"x\""), "file: `env.inherit` is \"x\", expected one of core, filtered, all, none");
}

#[test]
fn an_unknown_key_finds_the_nearest_known_one() {
    for (text, key, nearest) in [
        ("limits.live_per_hots = 3", "limits.live_per_hots", "limits.live_per_host"),
        ("[limts]\nlive_per_host = 3", "limts.live_per_host", "limits.live_per_host"),
        ("grace_ms = 3", "grace_ms", "stop.grace_ms"),
        ("[sesion.default.stop]\ngrace_ms = 3", "sesion.default.stop.grace_ms", "session.default.stop.grace_ms"),
        ("[session.big]\nstop.grace = 3", "session.big.stop.grace", "session.big.stop.grace_ms"),
    ] {
        check(from_file(text), &format!("file: `{key}` is 3, expected a known key; did you mean `{nearest}`?"));
    }
    for (text, refusal) in [
        ("zebra = 3", "`zebra` is 3, expected a known key"),
        ("[zebra]", "`zebra` is a table, expected a known key"),
        ("\"\" = 3", "`` is 3, expected a known key"),
        ("\"limits.\" = 3", "`limits.` is 3, expected a known key"),
        ("limits = 3", "`limits` is 3, expected a table of keys"),
        ("session = 3", "`session` is 3, expected a table of keys"),
        ("session.x = 3", "`session.x` is 3, expected a table of keys"),
        ("[[limits]]\nsessions = 1", "`limits` is [a table], expected a table of keys"),
        ("sessions.auto_open.x = 3", "`sessions.auto_open` is a table, expected true or false"),
    ] {
        let error = from_file(text).expect_err(text);
        check(Err::<(), _>(ConfigError { nearest: None, ..error }), &format!("file: {refusal}"));
    }
    assert!(from_file("[\"\"]\nlimits.sessions = 1").is_err(), "an empty name is no way to the top level");
}

#[test]
fn a_misspelled_variable_is_refused_and_a_foreign_one_ignored() {
    check(
        from_environment(&[("PROCESSION__LIMITS__LIVE_PER_HOTS", "3")]),
        "environment PROCESSION__LIMITS__LIVE_PER_HOTS: `limits.live_per_hots` is \"3\", expected a known key; \
         did you mean `limits.live_per_host`?",
    );
    for odd in ["PROCESSION__", "PROCESSION___LIMITS__SESSIONS", "PROCESSION__LIMITS", "PROCESSION__SESSION__X"] {
        assert_eq!(from_environment(&[(odd, "3")]).expect_err(odd).source, format!("environment {odd}"));
    }
    let foreign = [("PROCESSION_LOG", "x"), ("PROCESSION", "x"), ("PROCESSIONS__X", "x"), ("X__LIMITS", "x")];
    assert_eq!(from_environment(&foreign).unwrap().settings, defaults());
}

#[test]
fn a_hosts_key_is_refused_in_a_profile_and_in_a_session() {
    let refusal = "is 3, expected no such key in a session: `limits.sessions` is the host's";
    check(from_file("session.x.limits.sessions = 3"), &format!("file: `session.x.limits.sessions` {refusal}"));
    let config = json!({"limits": {"sessions": 3}});
    let narrowed = narrow(&defaults().profiles["default"], config.as_object().unwrap());
    check(narrowed, &format!("config of the session: `limits.sessions` {refusal}"));
}

#[test]
fn a_profile_name_is_one_the_environment_can_say() {
    for name in ["Big", "a b", "", "-a", "ä", &"a".repeat(65)] {
        let error = from_file(format!("[session.\"{name}\"]\nstop.grace_ms = 1")).expect_err(name);
        assert!(error.expected.starts_with("a profile name:"), "{error}");
    }
    let profiles = from_environment(&[("PROCESSION__SESSION__CI-2__STOP__GRACE_MS", "1")]).unwrap().settings.profiles;
    assert_eq!((profiles["ci-2"].stop.grace_ms, profiles["default"].stop.grace_ms), (1, 5000));
}

#[test]
fn a_key_given_twice_in_one_source_is_refused() {
    let twice = "is 1 and 2, expected one value: it is given twice";
    let nested_first = from_flags(&[("stop", json!({"grace_ms": 1})), ("stop.grace_ms", json!(2))]);
    check(nested_first, &format!("flag --stop.grace_ms: `stop.grace_ms` {twice}"));
    assert!(from_file("\"stop.grace_ms\" = 2\nstop.grace_ms = 1").is_err());
    check(
        from_environment(&[("PROCESSION__STOP__GRACE_MS", "1"), ("PROCESSION__stop__grace_ms", "2")]),
        &format!("environment PROCESSION__stop__grace_ms: `stop.grace_ms` {twice}"),
    );
}

#[test]
fn a_bad_value_is_refused_even_where_a_stronger_one_covers_it() {
    let covered = Sources {
        environment: vec![("PROCESSION__STOP__GRACE_MS".to_owned(), "x".to_owned())],
        flags: vec![("stop.grace_ms".to_owned(), json!(1))],
        ..Sources::default()
    };
    assert_eq!(load(covered).unwrap_err().given, "\"x\"");
}

#[cfg(unix)]
#[test]
fn the_shell_is_bash_where_the_path_has_it() {
    use std::os::unix::fs::PermissionsExt;

    let directory = tempfile::tempdir().unwrap();
    let (path, bash) = (directory.path().to_str().unwrap(), directory.path().join("bash"));
    let shell = |path: &str| from_environment(&[("PATH", path)]).unwrap().settings.profiles["default"].shell.clone();
    assert_eq!(shell(path), ["sh", "-c"]);
    std::fs::write(&bash, "").unwrap();
    assert_eq!(shell(path), ["sh", "-c"], "a file that cannot be executed is no shell");
    std::fs::set_permissions(&bash, std::fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(shell(&format!("/nonexistent:{path}")), ["bash", "-c"]);
}

#[test]
fn a_session_takes_nested_objects_and_dotted_names() {
    let profile = &defaults().profiles["default"];
    let config = json!({"stop": {"grace_ms": 7}, "exec.timeout_ms": 9, "env": {"pass": ["A"]}, "directory": "/tmp"});
    let session = narrow(profile, config.as_object().unwrap()).unwrap();
    let mut expected = profile.clone();
    expected.stop.grace_ms = 7;
    expected.exec.timeout_ms = 9;
    expected.env.pass = vec!["A".to_owned()];
    expected.directory = Some("/tmp".into());
    assert_eq!(session, expected);
    assert_eq!(narrow(profile, &serde_json::Map::new()).unwrap(), *profile);

    for (config, refusal) in [
        (json!({"stop": {"grace_ms": "7"}}), "`stop.grace_ms` is \"7\", expected an integer from 0 to 60000"),
        (json!({"stop.grace": 7}), "`stop.grace` is 7, expected a known key; did you mean `stop.grace_ms`?"),
        (json!({"session": {"x": {}}}), "`session.x` is a table, expected a known key"),
        (json!({"stop": null}), "`stop` is null, expected a table of keys"),
    ] {
        let error = narrow(profile, config.as_object().unwrap()).expect_err(refusal).to_string();
        assert!(error.starts_with(&format!("config of the session: {refusal}")), "{error}");
    }
}
