//! Acknowledgements of stanzas and resumption, XEP-0198: what both ends keep.

use crate::write::{end_message, put_copy};
use crate::{Framing, PeerFault, ns};
use std::collections::VecDeque;

/// Counts of a managed stream, and its unacknowledged stanzas. It outlives the connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Management {
    /// That of the connection.
    framing: Framing,
    /// Stanzas that came, modulo 2^32.
    received: u32,
    /// Stanzas that the peer has acknowledged.
    acknowledged: u32,
    /// Those behind, in the order in which they were sent.
    sent: VecDeque<Sent>,
    /// Stanzas in `sent`.
    unacknowledged: u32,
    /// Octets of the copies in `sent`.
    bytes: usize,
    /// An acknowledgement was asked for and has not come, or must not be asked for yet.
    asked: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Sent {
    /// Sent again as it is.
    Copied(Box<[u8]>),
    /// Known to its sender by this number.
    Kept(u16),
    /// So many that are not sent again.
    Forgotten(u32),
}

/// How an unacknowledged stanza is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// By a copy that is kept here.
    Copy,
    /// By its sender, which gets this number back once the stanza is acknowledged.
    Kept(u16),
    /// It is lost: at-most-once messages, and answers to requests.
    Never,
}

impl Management {
    /// Number of unacknowledged stanzas.
    pub fn unacknowledged(&self) -> u32 {
        self.unacknowledged
    }

    /// Octets of all stanzas that are kept here.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Octets of memory: of copies, and of the list of sent stanzas.
    pub fn memory(&self) -> usize {
        self.bytes + self.sent.capacity() * size_of::<Sent>()
    }

    /// Number of received stanzas, modulo 2^32.
    pub fn received(&self) -> u32 {
        self.received
    }

    pub(crate) fn new(framing: Framing) -> Self {
        Management {
            framing,
            ..Management::default()
        }
    }

    /// For a client that has asked for stream management and has no answer yet: what it sends counts already.
    pub(crate) fn before_answer(framing: Framing) -> Self {
        Management {
            asked: true,
            ..Management::new(framing)
        }
    }

    /// The answer has come.
    pub(crate) fn on_answer(&mut self, out: &mut Vec<u8>) {
        self.asked = false;
        self.ask(out);
    }

    /// Only the first `handled` stanzas of those that came count: the others are to come again when the stream goes on.
    pub fn go_back(&mut self, handled: u32) {
        self.received = handled;
    }

    pub(crate) fn on_received(&mut self) {
        self.received = self.received.wrapping_add(1);
    }

    /// The stanza at the end of `out`, from `from` on, was written. Asks for an acknowledgement, unless one is on its way.
    pub(crate) fn on_sent(&mut self, again: Again, from: usize, out: &mut Vec<u8>) {
        match (again, self.sent.back_mut()) {
            (Again::Copy, _) => {
                let stanza = out.get(from..).unwrap_or_default();
                self.bytes += stanza.len();
                self.sent.push_back(Sent::Copied(stanza.into()));
            }
            (Again::Kept(number), _) => self.sent.push_back(Sent::Kept(number)),
            (Again::Never, Some(Sent::Forgotten(count))) => *count = count.saturating_add(1),
            (Again::Never, _) => self.sent.push_back(Sent::Forgotten(1)),
        }
        self.unacknowledged = self.unacknowledged.wrapping_add(1);
        self.ask(out);
    }

    pub(crate) fn ask(&mut self, out: &mut Vec<u8>) {
        if self.is_to_ask() {
            self.asked = true;
            out.extend_from_slice(format!("<r xmlns='{}'/>", ns::MANAGEMENT).as_bytes());
            end_message(self.framing, out);
        }
    }

    /// Whether no request for an acknowledgement is pending although stanzas are unacknowledged; [`Management::ask`]
    /// sends one.
    pub(crate) fn is_to_ask(&self) -> bool {
        !self.asked && self.unacknowledged > 0
    }

    /// The peer has handled `h` stanzas. Returns the numbers of those that their sender keeps. A peer that has handled nothing more
    /// is not asked again at once: it would say the same, and be asked again.
    pub(crate) fn on_acknowledged(
        &mut self,
        h: u32,
        out: &mut Vec<u8>,
    ) -> Result<Vec<u16>, PeerFault> {
        let before = self.acknowledged;
        let kept = self.forget(h)?;
        self.asked = false;
        if h != before {
            self.ask(out);
        }
        Ok(kept)
    }

    fn forget(&mut self, h: u32) -> Result<Vec<u16>, PeerFault> {
        let mut left = h.wrapping_sub(self.acknowledged);
        if left > self.unacknowledged {
            return Err(PeerFault::ACKNOWLEDGED_TOO_MUCH);
        }
        self.unacknowledged -= left;
        self.acknowledged = h;
        let mut kept = Vec::new();
        while left > 0 {
            if let Some(Sent::Forgotten(count)) = self.sent.front_mut()
                && *count > left
            {
                *count -= left;
                break;
            }
            left -= match self.sent.pop_front() {
                Some(Sent::Copied(stanza)) => {
                    self.bytes -= stanza.len();
                    1
                }
                Some(Sent::Kept(number)) => {
                    kept.push(number);
                    1
                }
                Some(Sent::Forgotten(count)) => count,
                None => break,
            };
        }
        Ok(kept)
    }

    /// The stream goes on over another connection, and the peer has handled `h` stanzas: copies of the others are sent again.
    /// Returns the numbers of those that their sender keeps and need not send again.
    pub(crate) fn resume(
        &mut self,
        h: u32,
        framing: Framing,
        out: &mut Vec<u8>,
    ) -> Result<Vec<u16>, PeerFault> {
        self.framing = framing;
        let kept = self.forget(h)?;
        self.sent.retain(|sent| matches!(sent, Sent::Copied(_)));
        self.unacknowledged = self.sent.len() as u32;
        self.asked = false;
        for sent in &self.sent {
            if let Sent::Copied(stanza) = sent {
                put_copy(stanza, framing, out);
            }
        }
        self.ask(out);
        Ok(kept)
    }

    pub(crate) fn put_acknowledgement(framing: Framing, handled: u32, out: &mut Vec<u8>) {
        let acknowledgement = format!("<a xmlns='{}' h='{handled}'/>", ns::MANAGEMENT);
        out.extend_from_slice(acknowledgement.as_bytes());
        end_message(framing, out);
    }
}
