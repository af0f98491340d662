//! Proof that nothing a bench started is left.
//!
//! Every command runs with one variable in its environment that names this bench process; at the end no process may
//! have it, and this process may have no child. The first finds what escaped to another parent, the second zombies.

use std::fs;
use std::process;

const NAME: &str = "PROCESSION_BENCH";

/// The whole environment a command runs with.
pub fn environment() -> Vec<String> {
    vec!["PATH=/usr/local/bin:/usr/bin:/bin".into(), marker()]
}

/// Says what is left, and fails if anything is.
pub fn finish() {
    let marked = marked_processes();
    let children = children();
    if marked.is_empty() && children.is_empty() {
        println!("left       nothing: no process, no zombie");
        return;
    }
    println!("left       processes {marked:?}, children and zombies {children:?}");
    process::exit(1);
}

fn marker() -> String {
    format!("{NAME}={}", process::id())
}

fn marked_processes() -> Vec<String> {
    let marker = marker();
    let entries = fs::read_dir("/proc").expect("/proc is mounted");
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let pids = names.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
    // Unreadable means gone meanwhile, or another user's: not ours either way.
    pids.filter(|pid| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == marker.as_bytes())
    })
    .collect()
}

fn children() -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task").expect("/proc is mounted");
    let lists = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).collect()
}
