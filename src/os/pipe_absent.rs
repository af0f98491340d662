//! The read end of a child's output, where no child can be started: a type without values.

use std::io;

/// The read end of a child's output. There is none on this platform.
#[derive(Debug)]
pub enum Pipe {}

impl Pipe {
    /// See the Unix implementation.
    pub async fn read(&mut self, _buffer: &mut Vec<u8>, _max: usize) -> io::Result<usize> {
        match *self {}
    }

    /// See the Unix implementation.
    pub fn rest(&mut self) {
        match *self {}
    }

    /// See the Unix implementation.
    pub fn read_now(&mut self, _buffer: &mut Vec<u8>, _max: usize) -> io::Result<Option<usize>> {
        match *self {}
    }
}
