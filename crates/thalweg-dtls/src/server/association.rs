//! Remains of a handshake: keys, numbers and a name.

use std::sync::Arc;

use super::PeerIdentity;
use super::handshake::{Done, LastFlight, Opened};
use crate::cipher::Keys;
use crate::psk::PskEntry;
use crate::record::{NUMBER_MAX, Record, ReplayWindow};

/// A peer that proved who it is.
pub(super) struct Association {
    keys: Keys,
    /// Of the next record.
    number: u64,
    window: ReplayWindow,
    /// The beginning of the cookie of the ClientHello that led here, so that a copy of it starts no new handshake. (Its
    /// random would not do: a device whose random generator restarts with it would be taken for its own copy.)
    began_with: [u8; 8],
    pub identity: PeerIdentity,
    /// Entry of the peer's key; `None` with certificates.
    pub psk: Option<Arc<PskEntry>>,
    /// Until the client shows that it has come.
    last_flight: Option<Box<LastFlight>>,
}

impl Association {
    pub fn new(done: Done) -> Association {
        Association {
            keys: done.keys,
            number: 0,
            window: done.window,
            began_with: *done.cookie.first_chunk().expect("a cookie has 16 bytes"),
            identity: done.identity,
            psk: done.psk,
            last_flight: Some(Box::new(done.last_flight)),
        }
    }

    pub fn began_with(&self, cookie: &[u8]) -> bool {
        cookie.starts_with(&self.began_with)
    }

    /// Appends a record. False: all numbers are used up, which takes 9,000 years at a thousand records per second.
    pub fn seal(&mut self, content: u8, plain: &[u8], out: &mut Vec<u8>) -> bool {
        if self.number > NUMBER_MAX {
            return false;
        }
        self.keys.seal(content, 1, self.number, plain, out);
        self.number += 1;
        true
    }

    /// As if all numbers before this one had served.
    #[cfg(test)]
    pub fn skip_to(&mut self, number: u64) {
        self.number = number;
    }

    /// Appends the text of a record to `plain`.
    pub fn open(&mut self, record: &Record<'_>, plain: &mut Vec<u8>) -> Opened {
        if !self.window.is_new(record.number) {
            return Opened::Passed;
        }
        if !self.keys.open(
            record.content,
            record.epoch,
            record.number,
            record.fragment,
            plain,
        ) {
            return Opened::No;
        }
        self.window.remember(record.number);
        Opened::Yes(record.content, Vec::new())
    }

    /// The client has everything it needs: it sent something that it can only send then.
    pub fn is_confirmed(&mut self) {
        self.last_flight = None;
    }

    /// Appends the last flight as one datagram, for the first time or again. False: the client has had it.
    pub fn write_last_flight(&mut self, out: &mut Vec<u8>) -> bool {
        let Some(flight) = self
            .last_flight
            .as_mut()
            .filter(|_| self.number <= NUMBER_MAX)
        else {
            return false;
        };
        flight.write(&self.keys, self.number, out);
        self.number += 1;
        true
    }
}
