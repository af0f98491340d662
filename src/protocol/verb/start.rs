//! `start`: launches a process in the background. Answers its status once the kernel executed the program:
//! launched, not ready.
//!
//! Its fields are those of [`Spec`](crate::protocol::spec::Spec); the answer is a
//! [`Status`](crate::protocol::status::Status).

pub use crate::protocol::spec::Spec as Start;
