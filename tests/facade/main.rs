//! What an embedding program relies on: the handles of the library, on a real host with real processes.
//!
//! Every test boots its own host and ends with a census. Time passes only where a deadline is the subject, and then
//! the end is waited for as an event.

#![cfg(target_os = "linux")]

#[path = "../support/mod.rs"]
mod support;

mod agents;
mod cancelling;
mod ending;
mod limits;
mod sessions;
mod succession;

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use procession::{Code, Error, Handle, Label, Spec};

use support::Bench;
use support::pause::look_again;

/// Looks at what becomes true without an event.
const LOOKS: usize = 10_000;

/// A command that lives until it is stopped.
fn lives() -> Spec {
    Spec::argv(["sleep", "86399"])
}

/// The same under a label.
fn labelled(text: &str) -> Spec {
    Spec { label: Some(label(text)), ..lives() }
}

/// A label.
fn label(text: &str) -> Label {
    text.parse().expect("a label")
}

/// A call that must be refused with `code`; answers the error.
#[track_caller]
fn refused<T: std::fmt::Debug>(answer: Result<T, Error>, code: Code) -> Error {
    let error = answer.expect_err("a refusal");
    assert_eq!(error.code, code, "{error:?}");
    error
}

/// A label where a process is to be named.
fn named(text: &str) -> Handle {
    Handle(text.to_owned())
}

/// Polls a future once.
async fn poll_once<F: Future>(future: &mut Pin<Box<F>>) -> Poll<F::Output> {
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await
}

/// Waits until the host counts so many live processes.
async fn live_becomes(bench: &Bench, wanted: u64) {
    for look in 0.. {
        let live = bench.host.status().await.expect("a status").live;
        if live == wanted {
            return;
        }
        assert!(look < LOOKS, "{live} are live, not {wanted}");
        look_again().await;
    }
}
