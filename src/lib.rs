pub mod logic;
pub mod os;
pub mod protocol;
