pub mod config;
pub mod logic;
pub mod os;
pub mod protocol;
