//! Shells: a message in, the rules asked, their effects carried out. The only place for actors.
//!
//! ```text
//! HostActor      places, sessions by name, shutdown
//!  └─ SessionActor × n   records, limits, labels, waiting for several
//!      └─ ProcessActor × m   one process: its tree, its output, its deadline, its parked calls
//! ```
//!
//! No handler awaits a process, a peer's answer or a disk: slow work runs elsewhere and comes back as a message.
//! Every producer of messages holds credits. Errors travel in replies; a handler returns `Ok`.

pub mod clock;
pub mod host;
pub mod link;
pub mod port;
pub mod process;
pub mod session;
