//! Settings for front ends: where they come from and what they are, without a way to the keys behind them.

pub use crate::config::{ConfigError, KeyReport, Loaded, Sources, load};
