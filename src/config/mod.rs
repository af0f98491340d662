//! What a host runs with: keys, their bounds, and where each value came from.
//!
//! Weakest to strongest: the table's default, what the front end prefers, the file, the environment, flags. A
//! profile's own value beats the base it stands on, wherever either was given. Every value of every source is
//! checked, also one that a stronger source replaces, so a mistake never waits for the day it is uncovered.
//!
//! Invariant: settings that leave here are complete and within the bounds of [`keys`]; what was not understood
//! was refused by name. Nothing is coerced: `32.9`, `"32"` and `true` are no counts.
//!
//! Deliberately absent: reading the environment (the caller passes it in), reloading, writing a file.

mod error;
mod file;
pub mod keys;
mod layer;
mod load;
mod place;
mod shape;
mod shell;
mod value;

pub use error::ConfigError;
pub use load::{KeyReport, Loaded, Sources, defaults, load, narrow};
pub use shape::Shape;
