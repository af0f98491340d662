//! The verbs: one file per family, each with what is asked and what is answered.

pub mod agent;
pub mod exec;
pub mod forget;
pub mod host;
pub mod list;
pub mod output;
pub mod session;
pub mod start;
pub mod status;
pub mod stop;
pub mod update;
pub mod wait;
