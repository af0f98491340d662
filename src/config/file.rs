//! Reading the configuration file: bounded, UTF-8, TOML; what is wrong is said with its line.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use config::{FileFormat, Format, Map, Value};

use super::error::ConfigError;
use super::value::shorten;

/// Largest file taken.
pub const FILE_BYTES_MAX: u64 = 1 << 20;
/// Longest chain of dots in one line. A dotted name nests one table per dot, and whoever walks or drops them
/// recurses; no key of ours has more than four.
const DOTS_PER_LINE_MAX: usize = 1_000;
/// How many lines are tried in search of a number that does not fit.
const LINES_TRIED_MAX: usize = 100;

/// The file's values. `source` is how messages name it.
pub fn read(path: &Path, source: &str) -> Result<Map<String, Value>, ConfigError> {
    let refuse = |key: String, given: String, expected: &str| ConfigError {
        key,
        given,
        expected: expected.to_owned(),
        source: source.to_owned(),
        nearest: None,
    };
    let bytes = read_bounded(path)
        .map_err(|error| refuse("--config".to_owned(), format!("unreadable ({error})"), "a file that can be read"))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        let expected = format!("at most {FILE_BYTES_MAX} bytes");
        return Err(refuse("--config".to_owned(), "too large".to_owned(), &expected));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let line = line_of(error.as_bytes(), error.utf8_error().valid_up_to());
        refuse(format!("line {line}"), "not UTF-8".to_owned(), "a text in UTF-8")
    })?;
    if let Some(line) = text.lines().position(|line| line.matches('.').count() > DOTS_PER_LINE_MAX) {
        return Err(refuse(format!("line {}", line + 1), "nested too deep".to_owned(), "a known key"));
    }
    parse(&text).map_err(|message| {
        let (line, message) = explain(&text, &message);
        refuse(line, message, "TOML")
    })
}

fn read_bounded(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn parse(text: &str) -> Result<Map<String, Value>, String> {
    FileFormat::Toml.parse(None, text).map_err(|error| error.to_string())
}

/// Where the mistake is and what it is. The parser's own message has the line at its head and the reason at its
/// end, with a drawing between; a number that does not fit comes without a line.
fn explain(text: &str, message: &str) -> (String, String) {
    let reason = message.lines().rfind(|line| !line.trim().is_empty()).unwrap_or(message);
    let line = match message.strip_prefix("TOML parse error at line ") {
        Some(rest) => Some(rest.chars().take_while(char::is_ascii_digit).collect()),
        None => line_of_number(text).map(|line| line.to_string()),
    };
    (line.map_or_else(|| "text".to_owned(), |line: String| format!("line {line}")), shorten(reason))
}

/// The first line up to which the text parses but for a number that does not fit. In a list over several lines
/// that is the line of its end.
fn line_of_number(text: &str) -> Option<usize> {
    let may_end_number =
        |line: &str| line.contains([']', '}']) || line.bytes().filter(u8::is_ascii_hexdigit).count() >= 3;
    let mut end = 0;
    text.split_inclusive('\n')
        .enumerate()
        .map(|(index, line)| {
            end += line.len();
            (index + 1, line, &text[..end])
        })
        .filter(|(_, line, _)| may_end_number(line))
        .take(LINES_TRIED_MAX)
        .find(|(_, _, head)| parse(head).is_err_and(|message| !message.starts_with("TOML parse error")))
        .map(|(number, _, _)| number)
}

fn line_of(bytes: &[u8], position: usize) -> usize {
    1 + bytes[..position].iter().filter(|byte| **byte == b'\n').count()
}
