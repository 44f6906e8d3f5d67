//! Acknowledgements of stanzas and resumption, XEP-0198: what both ends keep.

use crate::{PeerFault, ns};
use std::collections::VecDeque;

/// Counts of a managed stream, and the stanzas that the peer has not acknowledged. It outlives the connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Management {
    /// Stanzas that came, modulo 2^32.
    received: u32,
    /// Stanzas that the peer has acknowledged.
    acknowledged: u32,
    /// Those behind, in the order in which they were sent.
    unacknowledged: VecDeque<Box<[u8]>>,
    bytes: usize,
    /// An acknowledgement was asked for and has not come, or must not be asked for yet.
    asked: bool,
}

impl Management {
    /// Stanzas that were sent and not acknowledged, the oldest first.
    pub fn unacknowledged(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.unacknowledged.iter().map(|stanza| &**stanza)
    }

    /// Octets of all [`Management::unacknowledged`] together.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// For a client that has asked for stream management and has no answer yet: what it sends counts already.
    pub(crate) fn before_answer() -> Self {
        Management {
            asked: true,
            ..Management::default()
        }
    }

    /// The answer has come.
    pub(crate) fn on_answer(&mut self, out: &mut Vec<u8>) {
        self.asked = false;
        self.ask(out);
    }

    pub(crate) fn on_received(&mut self) {
        self.received = self.received.wrapping_add(1);
    }

    pub(crate) fn received(&self) -> u32 {
        self.received
    }

    /// A stanza was written. Asks for an acknowledgement, unless one is on its way.
    pub(crate) fn on_sent(&mut self, stanza: &[u8], out: &mut Vec<u8>) {
        self.bytes += stanza.len();
        self.unacknowledged.push_back(stanza.into());
        self.ask(out);
    }

    fn ask(&mut self, out: &mut Vec<u8>) {
        if !self.asked && !self.unacknowledged.is_empty() {
            self.asked = true;
            out.extend_from_slice(format!("<r xmlns='{}'/>", ns::MANAGEMENT).as_bytes());
        }
    }

    /// The peer has handled `h` stanzas. Returns how many it had not acknowledged before.
    pub(crate) fn on_acknowledged(&mut self, h: u32, out: &mut Vec<u8>) -> Result<u32, PeerFault> {
        let count = self.forget(h)?;
        self.asked = false;
        self.ask(out);
        Ok(count)
    }

    fn forget(&mut self, h: u32) -> Result<u32, PeerFault> {
        let count = h.wrapping_sub(self.acknowledged);
        if count as usize > self.unacknowledged.len() {
            return Err(PeerFault::ACKNOWLEDGED_TOO_MUCH);
        }
        for stanza in self.unacknowledged.drain(..count as usize) {
            self.bytes -= stanza.len();
        }
        self.acknowledged = h;
        Ok(count)
    }

    /// The stream goes on over another connection: what the peer has not handled is sent again.
    pub(crate) fn resume(&mut self, h: u32, out: &mut Vec<u8>) -> Result<(), PeerFault> {
        self.forget(h)?;
        self.asked = false;
        for stanza in &self.unacknowledged {
            out.extend_from_slice(stanza);
        }
        self.ask(out);
        Ok(())
    }

    pub(crate) fn put_acknowledgement(&self, out: &mut Vec<u8>) {
        let acknowledgement = format!("<a xmlns='{}' h='{}'/>", ns::MANAGEMENT, self.received);
        out.extend_from_slice(acknowledgement.as_bytes());
    }
}
