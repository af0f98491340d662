//! The floor: the smallest supervisor that does the job with raw calls.
//!
//! It is here so that a speed is a ratio to something measured in the same process, in the same minute, on the
//! same busy machine. It spawns by `posix_spawn` with a session of its own and default signals, reads two pipes
//! into a 1 MiB ring, learns of the exit by pidfd, and ends a tree by signalling its group and reaping it.
//!
//! Invariant: whatever it leaves out makes it faster, so a ratio to it never flatters.
//!
//! Lacks on purpose: labels, pages of whole characters, limits, policy, records, actors, a ledger, and any proof
//! that a tree is gone beyond its process group.

#![allow(unsafe_code, reason = "the floor is raw calls: that is its point")]

mod messages;
mod poll;
mod ring;
mod spawn;
mod supervisor;
mod tree;

pub use messages::{Answer, Owner, Verb};
pub use spawn::Program;
pub use supervisor::{Running, Scratch, Supervisor};
pub use tree::{Subreaper, Tree};
