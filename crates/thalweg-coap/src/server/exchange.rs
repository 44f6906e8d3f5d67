//! Requests that wait for the application's answer.

use std::collections::VecDeque;

use thalweg_wire::Time;

use crate::dedup::Key;
use crate::slots::{NONE, Slots};
use crate::{Code, ExchangeId, NoResponse, Observe, Token};

/// A request that waits for the application's answer.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub peer: u32,
    /// The next one of this peer.
    pub next: u32,
    /// Key by which a repetition is recognized.
    pub key: Key,
    /// Key by which requests for further blocks are recognized.
    pub cache_key: u64,
    /// The observation that its response is the first notification of.
    pub relation: u32,
    /// The generation of that one: it may end before the response comes.
    pub relation_generation: u32,
    /// The name of its response, if the application asked to be notified of its outcome.
    pub awaited: u32,
    /// Block1 of a request in blocks, for its response; and Block2 if it has one.
    pub block1: Option<u32>,
    pub block2: Option<u32>,
    /// Size of the request.
    pub len: u16,
    pub token: Token,
    pub code: Code,
    pub observe: Option<Observe>,
    /// Response classes that the client declined by No-Response.
    pub no_response: NoResponse,
    pub is_confirmable: bool,
    /// Whether its acknowledgement has left.
    pub is_acknowledged: bool,
}

impl Exchange {
    /// Whether doing it again does nothing more: then its answer is not remembered.
    pub fn is_safe(&self) -> bool {
        is_safe(self.code) && self.awaited == NONE
    }
}

/// Whether a method only reads.
#[inline]
pub(crate) fn is_safe(code: Code) -> bool {
    code == Code::GET || code == Code::FETCH
}

/// All of them, and when they must be acknowledged and answered. The waits are the same for all, so that queues in the
/// order of their begin are enough.
#[derive(Debug, Default)]
pub(crate) struct Exchanges {
    pub slots: Slots<Exchange>,
    to_acknowledge: VecDeque<(Time, ExchangeId)>,
    to_answer: VecDeque<(Time, ExchangeId)>,
}

impl Exchanges {
    /// Begins to wait: confirmable requests for their acknowledgement first, others for the answer.
    pub fn open(
        &mut self,
        exchange: Exchange,
        acknowledge_at: Time,
        answer_at: Time,
    ) -> ExchangeId {
        let is_confirmable = exchange.is_confirmable;
        let index = self.slots.insert(exchange);
        let id = ExchangeId {
            index,
            generation: self.slots.generation(index),
        };
        if is_confirmable {
            self.to_acknowledge.push_back((acknowledge_at, id));
        } else {
            self.to_answer.push_back((answer_at, id));
        }
        id
    }

    /// Notes that the acknowledgement has left.
    pub fn acknowledged(&mut self, id: ExchangeId, answer_at: Time) {
        if let Some(exchange) = self.get_mut(id) {
            exchange.is_acknowledged = true;
            self.to_answer.push_back((answer_at, id));
        }
    }

    #[inline]
    pub fn get(&self, id: ExchangeId) -> Option<&Exchange> {
        self.slots.get_of(id.index, id.generation)
    }

    #[inline]
    pub fn get_mut(&mut self, id: ExchangeId) -> Option<&mut Exchange> {
        self.get(id)?;
        self.slots.get_mut(id.index)
    }

    /// Takes one away; the caller takes it out of its peer's list.
    #[inline]
    pub fn close(&mut self, id: ExchangeId) -> Option<Exchange> {
        self.get(id)?;
        let exchange = self.slots.remove(id.index);
        // In the usual order of answers the queues are empty again after this.
        while self
            .to_acknowledge
            .front()
            .is_some_and(|(_, id)| self.get(*id).is_none())
        {
            self.to_acknowledge.pop_front();
        }
        while self
            .to_answer
            .front()
            .is_some_and(|(_, id)| self.get(*id).is_none())
        {
            self.to_answer.pop_front();
        }
        exchange
    }

    /// One that must be acknowledged now.
    pub fn acknowledgement_due(&mut self, now: Time) -> Option<ExchangeId> {
        while let Some((at, id)) = self.to_acknowledge.front().copied() {
            let waits = self
                .get(id)
                .is_some_and(|exchange| !exchange.is_acknowledged);
            if waits && at > now {
                return None;
            }
            self.to_acknowledge.pop_front();
            if waits {
                return Some(id);
            }
        }
        None
    }

    /// One that the application has taken too long for.
    pub fn answer_due(&mut self, now: Time) -> Option<ExchangeId> {
        while let Some((at, id)) = self.to_answer.front().copied() {
            let waits = self.get(id).is_some();
            if waits && at > now {
                return None;
            }
            self.to_answer.pop_front();
            if waits {
                return Some(id);
            }
        }
        None
    }

    /// When one of these has something.
    pub fn next(&self) -> Time {
        let first =
            |queue: &VecDeque<(Time, ExchangeId)>| queue.front().map_or(Time::NEVER, |(at, _)| *at);
        first(&self.to_acknowledge).min(first(&self.to_answer))
    }

    /// The exchange of a peer that this message began.
    #[inline]
    pub fn find(&self, first: u32, key: Key) -> Option<ExchangeId> {
        let mut index = first;
        while let Some(exchange) = self.slots.get(index) {
            if exchange.key.id == key.id && exchange.key.fingerprint == key.fingerprint {
                return Some(ExchangeId {
                    index,
                    generation: self.slots.generation(index),
                });
            }
            index = exchange.next;
        }
        None
    }

    /// Whether a message of a peer with this id waits for its answer.
    pub fn has_id(&self, first: u32, id: u16) -> bool {
        let mut index = first;
        while let Some(exchange) = self.slots.get(index) {
            if exchange.key.id == id {
                return true;
            }
            index = exchange.next;
        }
        false
    }

    /// Takes `index` out of the list that begins with `first`.
    #[inline]
    pub fn unlink(&mut self, first: &mut u32, index: u32, next: u32) {
        if *first == index {
            *first = next;
            return;
        }
        let mut before = *first;
        while let Some(exchange) = self.slots.get_mut(before) {
            if exchange.next == index {
                exchange.next = next;
                return;
            }
            before = exchange.next;
        }
        debug_assert!(before == NONE);
    }

    pub fn bytes(&self) -> usize {
        let queues = self.to_acknowledge.capacity() + self.to_answer.capacity();
        self.slots.bytes() + queues * size_of::<(Time, ExchangeId)>()
    }
}
