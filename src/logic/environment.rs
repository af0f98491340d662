//! What a command finds in its environment: what is inherited, what is set, what a call may not set.

use std::collections::BTreeMap;

use crate::protocol::error::{Code, Error};
use crate::protocol::settings::{EnvInherit, EnvSettings};
use crate::protocol::spec::{Mode, Spec};

/// Names that pass with `core`, beside `LC_*` and `XDG_*`.
const CORE: [&str; 20] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "TZ",
    "TMPDIR",
    "SSH_AUTH_SOCK",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    "GIT_SSL_CAINFO",
    "LANGUAGE",
];
/// Families of names that pass with `core`.
const CORE_FAMILIES: [&str; 2] = ["LC_*", "XDG_*"];
/// Names that look like secrets, which do not pass with `filtered`.
const SECRETS: [&str; 7] = ["*_KEY", "*_TOKEN", "*_SECRET", "*PASSWORD*", "*PASSWD*", "*CREDENTIAL*", "AWS_*"];

/// One variable: name and value, as the system has them.
pub type Variable = (Vec<u8>, Vec<u8>);

/// Refuses what a call may not set.
///
/// # Errors
/// `denied` names the variable and the pattern.
pub fn check(settings: &EnvSettings, spec: &Spec) -> Result<(), Error> {
    for name in spec.env.iter().flatten().map(|(name, _)| name) {
        if let Some(pattern) = settings.deny.iter().find(|pattern| matches(pattern, name.as_bytes())) {
            return Err(Error::new(Code::Denied, format!("`env` may not set {name}: `env.deny` has `{pattern}`"))
                .with("field", format!("env.{name}"))
                .with("pattern", pattern));
        }
    }
    Ok(())
}

/// The whole environment of a command: the host's as far as it passes, what procession sets, what the call sets.
pub fn build(host: &[Variable], settings: &EnvSettings, spec: &Spec, mode: Mode) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut all: BTreeMap<Vec<u8>, Vec<u8>> = host.iter().filter(|(name, _)| passes(settings, name)).cloned().collect();
    let marker = if mode == Mode::Foreground { "exec" } else { "process" };
    let fixed = [
        ("PROCESSION_SHELL", marker),
        ("PAGER", "cat"),
        ("GIT_PAGER", "cat"),
        ("GIT_TERMINAL_PROMPT", "0"),
        ("TERM", "dumb"),
        ("NO_COLOR", "1"),
    ];
    for (name, value) in fixed {
        all.insert(name.into(), value.into());
    }
    // Without a locale programs write `?` for every character beyond ASCII.
    if !["LANG", "LC_ALL", "LC_CTYPE"]
        .iter()
        .any(|name| all.get(name.as_bytes()).is_some_and(|value| !value.is_empty()))
    {
        all.insert("LANG".into(), "C.UTF-8".into());
    }
    for (name, value) in spec.env.iter().flatten() {
        match value {
            Some(value) => all.insert(name.clone().into_bytes(), value.clone().into_bytes()),
            None => all.remove(name.as_bytes()),
        };
    }
    all
}

fn passes(settings: &EnvSettings, name: &[u8]) -> bool {
    let by_rule = match settings.inherit {
        EnvInherit::All => true,
        EnvInherit::None => false,
        EnvInherit::Filtered => !SECRETS.iter().any(|pattern| matches_any_case(pattern, name)),
        EnvInherit::Core => {
            CORE.iter().any(|core| {
                name.eq_ignore_ascii_case(core.as_bytes()) && (core.ends_with("_PROXY") || name == core.as_bytes())
            }) || CORE_FAMILIES.iter().any(|pattern| matches(pattern, name))
        }
    };
    by_rule || settings.pass.iter().any(|pattern| matches(pattern, name))
}

fn matches_any_case(pattern: &str, name: &[u8]) -> bool {
    matches(pattern, &name.to_ascii_uppercase())
}

/// Whether `name` is like `pattern`, where `*` stands for any text.
fn matches(pattern: &str, name: &[u8]) -> bool {
    let mut parts = pattern.as_bytes().split(|b| *b == b'*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        match rest.windows(part.len().max(1)).position(|window| window == part) {
            _ if part.is_empty() => {}
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(inherit: EnvInherit) -> EnvSettings {
        EnvSettings { inherit, pass: vec!["MY_*".into()], deny: vec!["LD_*".into(), "IFS".into()] }
    }

    fn check_passing(inherit: EnvInherit, passing: &[&str], held_back: &[&str]) {
        for (names, expected) in [(passing, true), (held_back, false)] {
            for name in names {
                assert_eq!(passes(&settings(inherit), name.as_bytes()), expected, "{inherit:?} {name}");
            }
        }
    }

    #[test]
    fn what_passes_depends_on_the_mode_and_on_further_patterns() {
        check_passing(EnvInherit::Core, &["PATH", "LC_ALL", "http_proxy", "MY_X"], &["FOO", "path", "OPENAI_API_KEY"]);
        let secrets = ["OPENAI_API_KEY", "gh_token", "AWS_REGION", "DB_PASSWORD_FILE", "X_SECRET"];
        check_passing(EnvInherit::Filtered, &["FOO", "PATH", "KEYBOARD"], &secrets);
        check_passing(EnvInherit::All, &["FOO", "OPENAI_API_KEY"], &[]);
        check_passing(EnvInherit::None, &["MY_KEY"], &["PATH"]);
    }

    #[test]
    fn a_pattern_stands_for_any_text_at_its_stars() {
        for (pattern, name, expected) in [
            ("IFS", "IFS", true),
            ("IFS", "IFS2", false),
            ("LD_*", "LD_", true),
            ("*_KEY", "_KEY", true),
            ("*_KEY", "KEY", false),
            ("*PASS*", "xPASSx", true),
            ("A*B*C", "AxBxC", true),
            ("A*B*C", "AxC", false),
            ("A*A", "A", false),
            ("*", "", true),
            ("**", "x", true),
        ] {
            assert_eq!(matches(pattern, name.as_bytes()), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn a_call_sets_removes_and_overrides_but_not_what_is_denied() {
        let host = vec![(b"PATH".to_vec(), b"/bin".to_vec()), (b"HOME".to_vec(), b"/root".to_vec())];
        let env = [("HOME", None), ("TERM", Some("xterm".to_owned())), ("A", Some("ä".to_owned()))];
        let env = env.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let spec = Spec { env: Some(env), ..Spec::command("true") };
        let built = build(&host, &settings(EnvInherit::Core), &spec, Mode::Foreground);
        let get = |name: &str| built.get(name.as_bytes()).map(|value| String::from_utf8_lossy(value).into_owned());
        assert_eq!(get("HOME"), None);
        assert_eq!(get("TERM").as_deref(), Some("xterm"));
        assert_eq!(get("A").as_deref(), Some("ä"));
        assert_eq!(get("LANG").as_deref(), Some("C.UTF-8"));
        assert_eq!(get("PROCESSION_SHELL").as_deref(), Some("exec"));

        let denied = Spec { env: Some([("LD_PRELOAD".to_owned(), None)].into()), ..Spec::command("true") };
        let error = super::check(&settings(EnvInherit::All), &denied).expect_err("is denied");
        assert_eq!((error.code, error.details["field"].as_str()), (Code::Denied, Some("env.LD_PRELOAD")));
    }
}
