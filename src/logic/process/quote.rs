//! Showing a command to people: `argv` as a shell would read it, and a short name.

use crate::protocol::bounds::DERIVED_NAME_BYTES_MAX;

/// Words that say nothing about what is run.
const PREFIXES: [&str; 8] = ["sudo", "env", "exec", "nohup", "time", "command", "setsid", "nice"];

/// `argv` as one line that a shell would split into the same strings.
pub fn quote(argv: &[String]) -> String {
    argv.iter().map(|text| quote_one(text)).collect::<Vec<_>>().join(" ")
}

fn quote_one(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"_@%+=:,./-".contains(&b);
    if !text.is_empty() && text.bytes().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// A short name for a command line: its verb and its target, as in `cargo build` or `python3 server.py`.
pub fn name(command: &str) -> String {
    let mut words = last_step(command).split_whitespace().skip_while(|word| skipped(word));
    let verb = base(words.next().unwrap_or("command"));
    let name = match words.find(|word| !word.starts_with('-')) {
        Some(target) => format!("{verb} {}", base(target)),
        None => verb.to_owned(),
    };
    let name = if name.trim().is_empty() { "command".to_owned() } else { name };
    let end = (0..=name.len().min(DERIVED_NAME_BYTES_MAX)).rev().find(|&at| name.is_char_boundary(at)).unwrap_or(0);
    name[..end].to_owned()
}

/// What follows leading `cd DIR &&` steps.
fn last_step(command: &str) -> &str {
    let mut rest = command.trim();
    while let Some((first, more)) = rest.split_once("&&").filter(|(first, _)| first.trim_start().starts_with("cd ")) {
        debug_assert!(first.len() < rest.len());
        rest = more.trim_start();
    }
    if rest.is_empty() { command.trim() } else { rest }
}

fn skipped(word: &str) -> bool {
    let assignment = word
        .split_once('=')
        .is_some_and(|(name, _)| !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'));
    assignment || PREFIXES.contains(&word)
}

fn base(word: &str) -> &str {
    let word = word.trim_matches(['\'', '"', ';', '&', '|', '(', ')']);
    word.rsplit('/').find(|part| !part.is_empty()).unwrap_or(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(command: &str, expected: &str) {
        assert_eq!(name(command), expected, "{command:?}");
    }

    #[test]
    fn a_name_is_the_verb_and_its_target() {
        check("cargo build --release", "cargo build");
        check("cd web && NODE_ENV=dev exec npm run dev", "npm run");
        check("/usr/bin/python3 -u src/server.py --port 1", "python3 server.py");
        check("sleep 5", "sleep 5");
        check("  true", "true");
        check("", "command");
        check("&& &&", "command");
        check(&"ä".repeat(100), &"ä".repeat(32));
    }

    #[test]
    fn argv_is_shown_as_a_shell_would_read_it() {
        let argv = ["printf", "%s\n", "two words", "", "it's", "--x=$HOME"].map(str::to_owned);
        assert_eq!(quote(&argv), "printf '%s\n' 'two words' '' 'it'\\''s' '--x=$HOME'");
    }
}
