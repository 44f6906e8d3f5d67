//! The spool that remembers nothing: messages wait in the engine's memory, and end with the process.

use super::{Recovered, Spool, SpoolError};
use crate::transport::MessageId;

/// A spool without storage: what waits ends with the process.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    publisher: u64,
}

impl Memory {
    /// The spool of a process that calls itself `publisher`: a random number, another one for each process.
    pub const fn new(publisher: u64) -> Self {
        Memory { publisher }
    }
}

impl Spool for Memory {
    fn append(&mut self, _: MessageId, _: &[u8]) -> Result<(), SpoolError> {
        Ok(())
    }

    fn settled(&mut self, _: MessageId) {}

    fn commit(&mut self) -> Result<(), SpoolError> {
        Ok(())
    }

    fn recover(&mut self, _: &mut dyn FnMut(MessageId, &[u8])) -> Result<Recovered, SpoolError> {
        Ok(Recovered {
            publisher: self.publisher,
            next_sequence: 1,
        })
    }
}
