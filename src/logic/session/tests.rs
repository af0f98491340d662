//! The rules of one session.
