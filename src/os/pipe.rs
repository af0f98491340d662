//! The read end of a child's output.
/// The read end of a child's output.
#[derive(Debug)]
pub struct Pipe;
