//! Rules against every order of events, within small bounds: one life, and a host with its sessions.
//!
//! What is run here is the rules themselves; only what surrounds them (the system, the actors) is played.

mod life;
mod machine;
mod play;
mod world;
