//! What to start: the part that `start` and `exec` have in common.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::bounds::{
    ARGV_BYTES_MAX, ARGV_COUNT_MAX, DURATION_MS_MAX, ENV_BYTES_MAX, ENV_COUNT_MAX, ENV_NAME_BYTES_MAX, GRACE_MS_MAX,
    PATH_BYTES_MAX, START_ID_BYTES_MAX, STRING_BYTES_MAX,
};
use super::error::{Code, Error};
use super::id::Label;

/// What happens to a start whose label a live process of the caller already has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnConflict {
    /// Refused with `conflict`, naming the holder.
    Refuse,
    /// Answers the live one and starts nothing.
    Reuse,
    /// Stops the live one, then starts the new one in its place.
    Replace,
    /// Starts beside it; the label then names the newest.
    Allow,
}

/// How long a process lives in relation to the request that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Lifetime {
    /// Survives the end of its request, is stopped when that is cancelled.
    Command,
    /// Survives both.
    Service,
}

/// Whether the caller waits for the process's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Made by `exec`: its caller waits for the end.
    Foreground,
    /// Made by `start`.
    Background,
}

/// What the process reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stdin {
    /// `/dev/null`: the first read meets the end.
    #[default]
    Closed,
}

/// What to run, where, with what, and for how long.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// A command line for the session's shell, byte for byte. Either this or `argv`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// A program and its arguments, run without a shell. Either this or `command`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub argv: Option<Vec<String>>,
    /// The caller's own word for the process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<Label>,
    /// Working directory, relative to the session's directory; absent = that directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Variables to set, over what the session inherits. `null` removes one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<BTreeMap<String, Option<String>>>,
    /// What the process reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<Stdin>,
    /// Ends the process this many milliseconds after its admission; 0 = no deadline; absent = the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Milliseconds between the stop signal and KILL, whenever it is ended; absent = the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_ms: Option<u64>,
    /// What happens if a live process of the caller has the label; absent = the front end's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_conflict: Option<OnConflict>,
    /// The same id in a session answers the same process while its record is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_id: Option<String>,
}

impl Spec {
    /// Runs `command` through the session's shell.
    pub fn command(command: impl Into<String>) -> Self {
        Spec { command: Some(command.into()), ..Spec::default() }
    }

    /// Runs the program `argv[0]` with the rest as arguments.
    pub fn argv<S: Into<String>>(argv: impl IntoIterator<Item = S>) -> Self {
        Spec { argv: Some(argv.into_iter().map(Into::into).collect()), ..Spec::default() }
    }

    /// Refuses what no host could start: both or neither of `command` and `argv`, NUL bytes, what is too large.
    ///
    /// # Errors
    /// `invalid_argument` names the field; `too_large` its bound.
    pub fn check(&self) -> Result<(), Error> {
        self.check_program()?;
        self.check_env()?;
        if let Some(cwd) = &self.cwd {
            check_text("cwd", cwd, PATH_BYTES_MAX)?;
            if cwd.is_empty() {
                return Err(Error::invalid("cwd", cwd, "a directory"));
            }
        }
        if let Some(id) = &self.start_id {
            check_text("start_id", id, START_ID_BYTES_MAX)?;
            if id.is_empty() {
                return Err(Error::invalid("start_id", id, "at least one character"));
            }
        }
        check_ms("timeout_ms", self.timeout_ms, DURATION_MS_MAX)?;
        check_ms("grace_ms", self.grace_ms, GRACE_MS_MAX)
    }

    fn check_program(&self) -> Result<(), Error> {
        match (&self.command, &self.argv) {
            (Some(_), Some(_)) => Err(Error::invalid("argv", "given beside `command`", "either `command` or `argv`")),
            (None, None) => Err(Error::missing("command", "a command line, or `argv`")),
            (Some(command), None) => {
                check_text("command", command, STRING_BYTES_MAX)?;
                if command.trim().is_empty() {
                    return Err(Error::invalid("command", command, "a command line"));
                }
                Ok(())
            }
            (None, Some(argv)) => {
                if argv.first().is_none_or(String::is_empty) {
                    return Err(Error::invalid("argv", argv, "a program and its arguments"));
                }
                check_size("argv", argv.len(), ARGV_COUNT_MAX, "strings")?;
                for (at, text) in argv.iter().enumerate() {
                    check_text(&format!("argv[{at}]"), text, STRING_BYTES_MAX)?;
                }
                check_size("argv", argv.iter().map(|text| text.len() + 1).sum(), ARGV_BYTES_MAX, "bytes")
            }
        }
    }

    fn check_env(&self) -> Result<(), Error> {
        let Some(env) = &self.env else { return Ok(()) };
        check_size("env", env.len(), ENV_COUNT_MAX, "variables")?;
        for (name, value) in env {
            check_text("env", name, ENV_NAME_BYTES_MAX)?;
            if name.is_empty() || name.contains('=') {
                return Err(Error::invalid("env", name, "variable names without `=`, not empty"));
            }
            let value = value.as_deref().unwrap_or("");
            if name.len() + 1 + value.len() >= STRING_BYTES_MAX {
                return Err(too_large(&format!("env.{name}"), name.len() + 1 + value.len(), STRING_BYTES_MAX, "bytes"));
            }
            check_text(&format!("env.{name}"), value, STRING_BYTES_MAX)?;
        }
        let total = env.iter().map(|(name, value)| name.len() + value.as_deref().unwrap_or("").len() + 2).sum();
        check_size("env", total, ENV_BYTES_MAX, "bytes")
    }
}

/// Refuses a duration over `max`.
pub(crate) fn check_ms(field: &str, given: Option<u64>, max: u64) -> Result<(), Error> {
    match given {
        Some(ms) if ms > max => Err(Error::invalid(field, ms, format!("at most {max} (milliseconds)"))),
        _ => Ok(()),
    }
}

fn check_text(field: &str, text: &str, max: usize) -> Result<(), Error> {
    check_size(field, text.len(), max, "bytes")?;
    if text.contains('\0') {
        return Err(Error::invalid(field, text, "text without NUL bytes"));
    }
    Ok(())
}

fn check_size(field: &str, given: usize, max: usize, unit: &str) -> Result<(), Error> {
    if given > max { Err(too_large(field, given, max, unit)) } else { Ok(()) }
}

fn too_large(field: &str, given: usize, max: usize, unit: &str) -> Error {
    Error::new(Code::TooLarge, format!("`{field}` has {given} {unit}: at most {max} are taken"))
        .with("field", field)
        .with("given", given)
        .with("limit", max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(spec: Spec, expected: Result<(), (Code, &str)>) {
        let got = spec.check().map_err(|error| (error.code, error.details["field"].as_str().unwrap_or("").to_owned()));
        assert_eq!(got, expected.map_err(|(code, field)| (code, field.to_owned())), "{spec:?}");
    }

    fn env(name: &str, value: &str) -> Spec {
        let env = [(name.to_owned(), Some(value.to_owned()))].into();
        Spec { env: Some(env), ..Spec::command("true") }
    }

    #[test]
    fn exactly_one_of_command_and_argv() {
        check(Spec::command("true"), Ok(()));
        check(Spec::argv(["true", ""]), Ok(()));
        check(Spec::default(), Err((Code::InvalidArgument, "command")));
        check(Spec { command: Some("x".into()), ..Spec::argv(["x"]) }, Err((Code::InvalidArgument, "argv")));
        check(Spec::command("  \n"), Err((Code::InvalidArgument, "command")));
        check(Spec::argv([""; 1]), Err((Code::InvalidArgument, "argv")));
        check(Spec::argv([""; 0]), Err((Code::InvalidArgument, "argv")));
    }

    #[test]
    fn nul_bytes_are_refused_everywhere() {
        check(Spec::command("a\0b"), Err((Code::InvalidArgument, "command")));
        check(Spec::argv(["a", "b\0"]), Err((Code::InvalidArgument, "argv[1]")));
        check(env("A\0", ""), Err((Code::InvalidArgument, "env")));
        check(env("A", "\0"), Err((Code::InvalidArgument, "env.A")));
        check(Spec { cwd: Some("a\0".into()), ..Spec::command("true") }, Err((Code::InvalidArgument, "cwd")));
    }

    #[test]
    fn names_of_variables_are_checked() {
        check(env("", "x"), Err((Code::InvalidArgument, "env")));
        check(env("A=B", "x"), Err((Code::InvalidArgument, "env")));
        check(env(&"A".repeat(257), "x"), Err((Code::TooLarge, "env")));
    }

    #[test]
    fn what_is_too_large_is_named() {
        check(Spec::command("x".repeat(STRING_BYTES_MAX)), Ok(()));
        check(Spec::command("x".repeat(STRING_BYTES_MAX + 1)), Err((Code::TooLarge, "command")));
        check(Spec::argv(vec!["x".repeat(STRING_BYTES_MAX); 9]), Err((Code::TooLarge, "argv")));
        check(Spec::argv(vec!["x"; ARGV_COUNT_MAX + 1]), Err((Code::TooLarge, "argv")));
        check(env("A", &"x".repeat(STRING_BYTES_MAX - 2)), Err((Code::TooLarge, "env.A")));
        check(Spec { grace_ms: Some(60_001), ..Spec::command("true") }, Err((Code::InvalidArgument, "grace_ms")));
        let year = Spec { timeout_ms: Some(DURATION_MS_MAX + 1), ..Spec::command("true") };
        check(year, Err((Code::InvalidArgument, "timeout_ms")));
    }
}
