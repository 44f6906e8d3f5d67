//! Clients at the other end of connections.

use std::any::Any;
use std::fmt;
use std::marker::PhantomData;

/// A client at the end of a stream of bytes.
pub trait Client: Any {
    /// Reads what the broker sent and removes what it has read from `down`; answers go to `up`.
    fn receive(&mut self, down: &mut Vec<u8>, up: &mut Vec<u8>);

    /// Sees what the broker has just written for it, whether it will arrive or not.
    fn overhear(&mut self, _written: &[u8]) {}
}

/// A client that was connected, by its number.
pub struct Who<C> {
    pub(crate) pipe: usize,
    client: PhantomData<fn() -> C>,
}

impl<C> Who<C> {
    pub(crate) fn new(pipe: usize) -> Self {
        Who {
            pipe,
            client: PhantomData,
        }
    }

    /// The same connection, whose client is known to be of another type.
    pub fn cast<D>(self) -> Who<D> {
        Who::new(self.pipe)
    }

    /// Clients are numbered in the order in which they were opened.
    pub fn number(self) -> usize {
        self.pipe
    }
}

impl<C> Clone for Who<C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C> Copy for Who<C> {}

impl<C> PartialEq for Who<C> {
    fn eq(&self, other: &Self) -> bool {
        self.pipe == other.pipe
    }
}

impl<C> Eq for Who<C> {}

impl<C> fmt::Debug for Who<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "client {}", self.pipe)
    }
}

/// A client that understands nothing: it keeps what the broker sends.
#[derive(Debug, Default)]
pub struct Raw {
    pub received: Vec<u8>,
}

impl Client for Raw {
    fn receive(&mut self, down: &mut Vec<u8>, _: &mut Vec<u8>) {
        self.received.append(down);
    }
}
