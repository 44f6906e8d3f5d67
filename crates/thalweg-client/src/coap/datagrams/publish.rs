//! Publishes: how they are sent, how many are under way, and in which order a server takes them.
//!
//! A server that announces [`option::AFTER_ANNOUNCEMENT`] takes the messages of a topic in the order in which they were sent,
//! so several of a topic may be under way, and the number of all follows the network as TCP's window does. To others one
//! message of a topic goes at a time, and NSTART in all.

use std::hash::BuildHasher;

use thalweg_coap::{RequestId, RequestRefused};
use thalweg_model::{Span, Time};

use super::{Coap, LEAST_WAIT, Purpose, UNANSWERED_MAX};
use crate::message::Retain;
use crate::plugin::Asked;
use crate::transport::{Departure, Outbound, Refusal};

/// Limit of publishes in flight: NSTART, until the server announces that it keeps their order. Then it begins higher,
/// grows by one for each answer while at least half of it is used, and halves after a repetition, but never goes below
/// NSTART. RFC 5681 §3.1, RFC 7661 §4.1, RFC 7252 §4.7
#[derive(Debug)]
pub(super) struct Congestion {
    size: usize,
    least: usize,
    /// The most that were under way since it was opened or halved.
    used: usize,
    /// Answers and repetitions so far.
    seen: (u64, u64),
    /// A repetition before then is of the same loss as the last one.
    cut_until: Time,
}

/// Initial limit in percent of NSTART: 40 publishes; with blocks of 1 KiB nearly three times TCP's initial window
/// (RFC 6928).
const BEGIN_PERCENT: usize = 250;

/// Our server takes 255 bodies of a peer at a time.
const WINDOW_MAX: usize = 250;

/// Payloads under way beyond NSTART, in bytes: a server gives one peer a quarter of its room for bodies in blocks.
const BODIES_BYTES_MAX: usize = 1 << 20;

/// After a silence of so long the network may be another. RFC 5681 §4.1
const WINDOW_LASTS: Span = Span::from_secs(1);

impl Congestion {
    pub(super) fn new(nstart: u8) -> Self {
        let least = usize::from(nstart.max(1));
        Congestion {
            size: least,
            least,
            used: 0,
            seen: (0, 0),
            cut_until: Time::ZERO,
        }
    }

    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// Raises the limit because the server keeps the order. An NSTART of one (RFC 7252) still means one at a time.
    pub(super) fn open(&mut self) {
        if self.least > 1 {
            self.size =
                (self.least * BEGIN_PERCENT / 100).clamp(self.least, WINDOW_MAX.max(self.least));
        }
    }

    /// So many publishes are under way, this one included.
    fn use_of(&mut self, in_flight: usize) {
        self.used = self.used.max(in_flight);
    }

    /// So much was answered and repeated until now. Many answers may come before the next publish is given to us: that there
    /// was room at that moment does not mean that the window is too large.
    fn note(&mut self, answered: u64, repeated: u64, now: Time) {
        let (before, again) = std::mem::replace(&mut self.seen, (answered, repeated));
        if repeated > again {
            if now >= self.cut_until {
                self.size = (self.size / 2).max(self.least);
                self.used = 0;
                self.cut_until = now + LEAST_WAIT;
            }
        } else if self.least > 1 {
            let more = usize::try_from(answered.saturating_sub(before)).unwrap_or(0);
            let most = (2 * self.used).clamp(self.size, WINDOW_MAX.max(self.size));
            self.size = (self.size + more).min(most);
        }
    }
}

impl Coap {
    /// Begins with a network of which nothing is known.
    pub(super) fn open_window(&mut self) {
        self.window = Congestion::new(self.settings().nstart);
        self.adapt_window();
        if self.requests.keeps_order {
            self.window.open();
            self.adapt_window();
        }
    }

    /// Lets the number of messages under way follow what was answered and repeated.
    pub(super) fn adapt_window(&mut self) {
        if !self.requests.keeps_order {
            return;
        }
        let side = &mut self.requests.side;
        let (answered, repeated) = (side.answered(), side.retransmissions());
        self.window.note(answered, repeated, self.conn.now());
        side.set_nstart(u8::try_from(self.window.size()).unwrap_or(u8::MAX));
    }

    /// Returns the number that all messages of a topic share.
    pub(super) fn topic(&self, address: &str) -> u64 {
        self.requests.last.hasher().hash_one(address)
    }

    /// A request is over.
    pub(super) fn has_ended(&mut self, request: RequestId, purpose: Purpose) {
        if let Some((topic, bytes)) = purpose.topic() {
            self.in_flight = self.in_flight.saturating_sub(1);
            self.bytes = self.bytes.saturating_sub(bytes);
            if self.requests.last.get(&topic) == Some(&request) {
                self.requests.last.remove(&topic);
            }
        }
    }

    /// A publish that is not answered.
    pub(super) fn tell(
        &mut self,
        message: &Outbound<'_>,
        unawaited: Purpose,
        out: &mut Vec<u8>,
    ) -> Asked<Departure> {
        // It must not overtake what may still be repeated.
        let topic = unawaited.topic().map(|(topic, _)| topic);
        if topic.is_some_and(|topic| self.requests.last.contains_key(&topic)) {
            return self.put(message, unawaited);
        }
        let (code, options) = self.wording.publish(message, true)?;
        let (options, payload) = (options.as_slice(), payload(message));
        let (peer, now) = (self.conn.peer(), self.conn.now());
        let side = &mut self.requests.side;
        let is_told = match side.tell(peer, code, options, payload, now, out) {
            Ok(()) => true,
            Err(RequestRefused::TooLarge) => return self.put(message, unawaited),
            Err(_) => false,
        };
        if !is_told || side.unanswered(peer) >= UNANSWERED_MAX / 2 {
            self.ask_whether_there();
        }
        match is_told {
            true => Ok(Departure::Gone),
            false => Err(Refusal::Window),
        }
    }

    /// A publish that is acknowledged.
    pub(super) fn put(&mut self, message: &Outbound<'_>, purpose: Purpose) -> Asked<Departure> {
        if self.in_flight == 0 && self.conn.now().since(self.heard) > WINDOW_LASTS {
            self.open_window();
        }
        let is_too_much = self.in_flight >= usize::from(self.settings().nstart)
            && self.bytes + message.payload.len() > BODIES_BYTES_MAX;
        if self.in_flight >= self.window.size() || is_too_much {
            return Err(Refusal::Window);
        }
        let (code, options) = self.wording.publish(message, false)?;
        let said = (code, options.as_slice());
        let request = self
            .requests
            .ask(said, payload(message), purpose, &self.conn)?;
        self.in_flight += 1;
        self.window.use_of(self.in_flight);
        self.bytes += message.payload.len();
        if let (true, Some((topic, _))) = (self.requests.keeps_order, purpose.topic()) {
            self.requests.last.insert(topic, request);
        }
        Ok(match purpose {
            Purpose::Unawaited { .. } => Departure::Gone,
            _ => Departure::Awaited,
        })
    }
}

fn payload<'m>(message: &Outbound<'m>) -> &'m [u8] {
    match message.retain {
        Retain::Clear => &[],
        _ => message.payload,
    }
}
