//! How the code is kept: who may import whom, and what stands nowhere.
//!
//! The tables here are the rules, the only place where they are written; every rule is shown to catch what it
//! forbids. What it cannot see: paths that macros put together, and names that are imported under another name.

#[path = "tidy/source.rs"]
mod source;

use std::fs;
use std::path::Path;

use source::{Source, is_word};

/// Who may import whom: a folder of `src`, and the folders it may name. Its own is always among them.
const ARROWS: &[(&str, &[&str])] = &[
    ("bin/procession-guardian.rs", &["os"]),
    ("bin", &["frontend"]),
    ("frontend", &["runtime", "protocol"]),
    ("runtime", &["actors", "config", "protocol"]),
    ("actors", &["logic", "os", "ledger", "protocol"]),
    ("logic", &["protocol"]),
    ("os", &["protocol"]),
    ("ledger", &["protocol"]),
    ("config", &["protocol"]),
    ("protocol", &[]),
];

/// Packages that belong to some folders only.
const ONLY_IN: &[(&str, &[&str])] =
    &[("ractor", &["actors"]), ("nix", &["os"]), ("rustix", &["os"]), ("libc", &["os"])];

/// Packages that stand nowhere in some folders.
const NOT_IN: &[(&str, &[&str])] = &[
    ("tokio", &["protocol", "logic", "config"]),
    ("tokio_util", &["protocol", "logic", "config"]),
    ("tracing", &["logic"]),
];

/// What `logic` may not name: a clock, the system, a log. Any part of a path.
const IMPURE_PATHS: &[&str] =
    &["std::fs", "std::net", "std::process", "std::thread", "std::env", "std::io", "Instant::now", "SystemTime::now"];
const IMPURE_MACROS: &[&str] = &["print", "println", "eprint", "eprintln"];

/// Macros that are unfinished work.
const UNFINISHED_MACROS: &[&str] = &["todo", "unimplemented"];

const FILE_LINES_MAX: usize = 500;
const BIN_LINES_MAX: usize = 30;

/// The arrow's row for a file of `src`; none for `lib.rs`, which shows what it likes.
fn arrow(file: &str) -> Option<&'static (&'static str, &'static [&'static str])> {
    ARROWS.iter().find(|(from, _)| file.strip_prefix(from).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
}

/// What is wrong with a file, as `path:line: what`.
fn problems(path: &str, text: &str) -> Vec<String> {
    let source = Source::of(text);
    let mut found = Vec::new();
    let lines = text.lines().count();
    if !text.starts_with("//! ") {
        found.push((1, "a file begins with `//!`: what it is and why".to_owned()));
    }
    if lines > FILE_LINES_MAX {
        found.push((lines, format!("a file has at most {FILE_LINES_MAX} lines")));
    }
    found.extend(unfinished(&source));
    found.extend(sleeping_tests(path, &source));
    if let Some(file) = path.strip_prefix("src/") {
        found.extend(misplaced(file, &source));
        if file.starts_with("bin/") && lines > BIN_LINES_MAX {
            found.push((lines, format!("a bin has at most {BIN_LINES_MAX} lines")));
        }
    }
    found.sort();
    found.into_iter().map(|(line, what)| format!("{path}:{line}: {what}")).collect()
}

/// Imports, packages, `unsafe` and impurity where they do not belong.
fn misplaced(file: &str, source: &Source) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let folder = file.split('/').next().unwrap_or(file);
    if file != "lib.rs" && arrow(file).is_none() {
        found.push((1, format!("`{folder}` stands in no arrow of tests/tidy.rs")));
    }
    for path in source.paths() {
        let segments: Vec<&str> = path.segments.iter().map(String::as_str).collect();
        if let Some(target) = target(file, &segments, path.imported) {
            found.extend(forbidden_arrow(file, target).map(|what| (path.line, what)));
        }
        if segments.len() > 1 || path.imported {
            found.extend(forbidden_package(folder, segments[0]).map(|what| (path.line, what)));
        }
        if folder == "logic" {
            let whole = format!("::{}::", segments.join("::"));
            let impure = IMPURE_PATHS.iter().filter(|part| whole.contains(&format!("::{part}::")));
            found.extend(impure.map(|part| (path.line, format!("`logic` is pure: no `{part}`"))));
        }
    }
    for (at, token) in source.tokens.iter().enumerate() {
        if token.text == "unsafe" && folder != "os" {
            found.push((token.line, "`unsafe` stands in `os` only".to_owned()));
        }
        if folder == "logic" && IMPURE_MACROS.contains(&token.text.as_str()) && source.text(at + 1) == "!" {
            found.push((token.line, format!("`logic` is pure: no `{}!`", token.text)));
        }
        if folder == "logic" && token.text == "elapsed" && source.text(at + 1) == "(" {
            found.push((token.line, "`logic` is pure: no `elapsed`, time is an argument".to_owned()));
        }
    }
    found
}

/// The name at the top of the crate that a path of this file leads to, if it leads there.
fn target<'a>(file: &str, segments: &[&'a str], imported: bool) -> Option<&'a str> {
    let root = if file.starts_with("bin/") { "procession" } else { "crate" };
    if segments[0] == root {
        return segments.get(1).copied().or(imported.then_some(segments[0]));
    }
    let steps = segments.iter().skip_while(|segment| **segment == "self").take_while(|segment| **segment == "super");
    let steps = steps.count();
    let depth = file.split('/').count() - usize::from(file.ends_with("/mod.rs"));
    let next = segments.iter().find(|segment| !matches!(**segment, "self" | "super"))?;
    // One step more than the file is deep may only leave an inline module; a folder's name tells.
    let is_folder = ARROWS.iter().any(|(from, _)| from == next);
    (steps > 0 && steps >= depth && is_folder).then_some(*next)
}

fn forbidden_arrow(file: &str, target: &str) -> Option<String> {
    let (from, allowed) = arrow(file)?;
    let own = file.split('/').next() == Some(target);
    if own || allowed.contains(&target) {
        None
    } else if ARROWS.iter().any(|(folder, _)| *folder == target) {
        Some(format!("`{from}` may not import `{target}`"))
    } else {
        Some(format!("`{target}` at the top of the crate: name the folder it stands in"))
    }
}

fn forbidden_package(folder: &str, package: &str) -> Option<String> {
    let elsewhere = |(name, folders): &&(&str, &[&str])| *name == package && !folders.contains(&folder);
    let here = |(name, folders): &&(&str, &[&str])| *name == package && folders.contains(&folder);
    let only = ONLY_IN.iter().find(elsewhere).map(|(_, folders)| format!("`{package}` in {} only", folders.join(", ")));
    only.or_else(|| NOT_IN.iter().find(here).map(|_| format!("no `{package}` in `{folder}`")))
}

/// Work that was left lying.
fn unfinished(source: &Source) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (at, token) in source.tokens.iter().enumerate() {
        if UNFINISHED_MACROS.contains(&token.text.as_str()) && source.text(at + 1) == "!" {
            found.push((token.line, format!("no `{}!`", token.text)));
        }
    }
    let code = source.comments.iter().filter(|(_, text)| is_code(text));
    found.extend(code.map(|(line, _)| (*line, "commented-out code: delete it, the history has it".to_owned())));
    found
}

/// Whether a comment reads as code: it ends as code does and holds what prose does not.
fn is_code(comment: &str) -> bool {
    let signs = ["=", "::", "let ", "use ", "return", "fn ", "mod ", "struct ", "enum "];
    let ends = comment.ends_with([';', '{']) && !comment.contains('`');
    let calls =
        comment.match_indices('(').any(|(at, _)| comment[..at].ends_with(|c: char| c.is_alphanumeric() || c == '!'));
    matches!(comment, "}" | "};" | "});" | "})") || (ends && (calls || signs.iter().any(|sign| comment.contains(sign))))
}

/// Tests that wait for time. Fixture programs may: what they do is what they are named for; and so may the one file
/// that says when a test may let time pass.
fn sleeping_tests(path: &str, source: &Source) -> Vec<(usize, String)> {
    let tokens = &source.tokens;
    let begins = |at: usize| (at..at + 5).map(|at| source.text(at)).eq(["[", "cfg", "(", "test", ")"]);
    let may = ["tests/fixtures/", "tests/support/pause.rs", "benches/"];
    let from = if may.iter().any(|start| path.starts_with(start)) {
        tokens.len()
    } else if path.starts_with("tests/") {
        0
    } else {
        (0..tokens.len()).find(|at| begins(*at)).unwrap_or(tokens.len())
    };
    let sleeps = (from..tokens.len()).filter(|at| source.text(*at) == "sleep" && source.text(at + 1) == "(");
    sleeps.map(|at| (tokens[at].line, "a test waits for an event, not for time: no `sleep(`".to_owned())).collect()
}

/// Every Rust file below `folder`, with its path from the top of the repository.
fn files(folder: &Path, found: &mut Vec<(String, String)>) {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    for entry in fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let name = path.strip_prefix(top).unwrap().to_str().unwrap().replace('\\', "/");
            found.push((name, fs::read_to_string(&path).unwrap()));
        }
    }
}

#[test]
fn the_tree_is_tidy() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    for folder in ["src", "tests", "benches"].map(|folder| top.join(folder)) {
        if folder.exists() {
            files(&folder, &mut found);
        }
    }
    assert!(found.iter().any(|(path, _)| path == "src/lib.rs"), "the walk saw no source");
    let problems: Vec<_> = found.iter().flat_map(|(path, text)| problems(path, text)).collect();
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
}

/// Judges one file that begins as it should; what is wrong must be exactly `expected`, by line and beginning.
fn check(path: &str, code: &str, expected: &[(usize, &str)]) {
    let found = problems(path, &format!("//! A file.\n{code}\n"));
    let fits = |(found, (line, what)): (&String, &(usize, &str))| found.starts_with(&format!("{path}:{line}: {what}"));
    assert!(found.len() == expected.len() && found.iter().zip(expected).all(fits), "{path}: {code}\n{found:#?}");
}

#[test]
fn an_arrow_that_is_not_drawn_is_found() {
    check("src/logic/a.rs", "use crate::os::launch;", &[(2, "`logic` may not import `os`")]);
    check("src/os/a.rs", "fn f() { crate::logic::f() }", &[(2, "`os` may not import `logic`")]);
    check("src/os/a.rs", "use super::super::logic::f;", &[(2, "`os` may not import `logic`")]);
    check("src/os/mod.rs", "use super::{actors, protocol};", &[(2, "`os` may not import `actors`")]);
    check(
        "src/config/mod.rs",
        "use crate::{\n    protocol::id,\n    runtime::{self, x},\n};",
        &[(4, "`config` may not import `runtime`"), (4, "`config` may not import `runtime`")],
    );
    check("src/protocol/a.rs", "pub use crate::config as c;", &[(2, "`protocol` may not import `config`")]);
    check("src/bin/procession.rs", "use procession::os::f;", &[(2, "`bin` may not import `os`")]);
    check("src/bin/procession-guardian.rs", "use procession::actors::f;", &[(2, "`bin/procession-guardian.rs` may")]);
    check("src/logic/a.rs", "use crate::Host;", &[(2, "`Host` at the top of the crate")]);
    check("src/logic/a.rs", "use crate::*;", &[(2, "`*` at the top of the crate")]);
    check("src/logic/a.rs", "use crate as all;", &[(2, "`crate` at the top of the crate")]);
    check("src/helpers/a.rs", "", &[(1, "`helpers` stands in no arrow")]);
    check("src/helpers.rs", "", &[(1, "`helpers.rs` stands in no arrow")]);
}

#[test]
fn an_arrow_that_is_drawn_is_left_alone() {
    check("src/actors/a/b.rs", "use crate::{logic::x, os, protocol::{id, state}};\nuse super::super::c;", &[]);
    check("src/os/a.rs", "use super::pipe::Pipe;\nmod tests { use super::super::pipe; }", &[]);
    check("src/lib.rs", "pub use crate::runtime::Host;", &[]);
    check("src/bin/procession-guardian.rs", "use procession::os::guardian;", &[]);
    check("src/logic/a.rs", "pub(crate) fn f() {} // not crate::os\nconst TEXT: &str = \"crate::os\";", &[]);
}

#[test]
fn a_package_out_of_its_place_is_found() {
    check("src/runtime/a.rs", "use ractor;", &[(2, "`ractor` in actors only")]);
    check("src/actors/a.rs", "let x = y as libc::c_int;", &[(2, "`libc` in os only")]);
    check("src/actors/a.rs", "use nix::{sys, unistd};", &[(2, "`nix` in os only"), (2, "`nix` in os only")]);
    check("src/lib.rs", "extern crate rustix;", &[(2, "`rustix` in os only")]);
    check("src/config/a.rs", "#[tokio::test]", &[(2, "no `tokio` in `config`")]);
    check("src/protocol/a.rs", "type A = ::tokio::X;", &[(2, "no `tokio` in `protocol`")]);
    check("src/logic/a.rs", "tracing::info!(\"x\");", &[(2, "no `tracing` in `logic`")]);
    check("src/os/a.rs", "use nix::sys;\nuse rustix::x;\nfn f(tokio: u8) { self.ractor.x() }", &[]);
}

#[test]
fn impure_logic_is_found() {
    check("src/logic/a.rs", "let now = Instant::now();", &[(2, "`logic` is pure: no `Instant::now`")]);
    check("src/logic/a.rs", "std::time::SystemTime::now()", &[(2, "`logic` is pure: no `SystemTime::now`")]);
    check("src/logic/a.rs", "use std::{fs::File, time::Duration};", &[(2, "`logic` is pure: no `std::fs`")]);
    check(
        "src/logic/a.rs",
        "\nuse std::{net, process, thread};",
        &[
            (3, "`logic` is pure: no `std::net`"),
            (3, "`logic` is pure: no `std::process`"),
            (3, "`logic` is pure: no `std::thread`"),
        ],
    );
    check("src/logic/a.rs", "println!(\"x\")", &[(2, "`logic` is pure: no `println!`")]);
    check("src/logic/a.rs", "start.elapsed()", &[(2, "`logic` is pure: no `elapsed`")]);
    check("src/logic/a.rs", "use std::time::{Duration, Instant};\nuse std::collections::BTreeMap;", &[]);
    check("src/os/a.rs", "use std::fs; // println!", &[]);
}

#[test]
fn unsafe_outside_os_is_found() {
    check("src/actors/a.rs", "/* unsafe */\nfn f() { unsafe { g() } }", &[(3, "`unsafe` stands in `os` only")]);
    check("src/os/a.rs", "unsafe fn f() {}", &[]);
    check("src/lib.rs", "#![deny(unsafe_code)]\n// unsafe\nconst A: &str = r#\"unsafe \" \"#;", &[]);
}

#[test]
fn unfinished_work_is_found() {
    check("src/os/a.rs", "fn f() { todo!() }", &[(2, "no `todo!`")]);
    check("tests/a.rs", "fn f() { unimplemented!() }", &[(2, "no `unimplemented!`")]);
    let commented = "commented-out code";
    check("src/os/a.rs", "// let a = b;\n// if a == b {\n// }", &[(2, commented), (3, commented), (4, commented)]);
    check("tests/a.rs", "/*\nfn f() {\n*/\n// f(a);", &[(3, commented), (5, commented)]);
    check("src/os/a.rs", "// One thing (a); another;\n/// `let a = b;`\n// as `f();` does", &[]);
    check("src/os/a.rs", "// Plain prose; and more of it;\n/// let documented = 1;", &[]);
}

#[test]
fn a_test_that_sleeps_is_found() {
    let sleeps = "a test waits for an event";
    check("tests/a.rs", "tokio::time::sleep(x).await;", &[(2, sleeps)]);
    check("src/os/a.rs", "fn f() { sleep(x) }\n#[cfg(test)]\nmod tests { fn g() { sleep(x) } }", &[(4, sleeps)]);
    check("tests/fixtures/probe.rs", "sleep(x)", &[]);
    check("tests/a.rs", "run(\"sleep(1)\"); let sleep = 1;", &[]);
}

#[test]
fn the_look_of_a_file_is_checked() {
    assert_eq!(problems("tests/a.rs", "fn f() {}\n"), ["tests/a.rs:1: a file begins with `//!`: what it is and why"]);
    check("src/os/a.rs", &"\n".repeat(499), &[(501, "a file has at most 500 lines")]);
    check("src/os/a.rs", &"\n".repeat(498), &[]);
    check("src/bin/a.rs", &"\n".repeat(29), &[(31, "a bin has at most 30 lines")]);
}

#[test]
fn code_is_told_from_what_is_none() {
    let text = "a 'x '\\'' 'b' '\\u{1F}' b\"c\" br#\"d\"# r\"e\" \"f\\\"\" /* g /* h */ i */ 1_000 j::k // l";
    let source = Source::of(text);
    let words: Vec<_> = source.tokens.iter().map(|token| token.text.as_str()).filter(|text| is_word(text)).collect();
    assert_eq!(words, ["a", "x", "j", "k"]);
    assert_eq!(source.comments, [(1, "g /* h */ i".to_owned()), (1, "l".to_owned())]);
}
