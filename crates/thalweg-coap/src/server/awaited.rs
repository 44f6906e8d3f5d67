//! Responses whose outcome the application asked for: each is reported once, whatever its message and its body come to.
//! Notifications that insist and go in blocks are waited for in the same way; what follows may leave then.

use super::ServerSide;
use super::exchange::Exchange;
use crate::Notice;
use crate::slots::NONE;

/// A response whose outcome the application asked for. It is here until its first message is over, and its body.
#[derive(Debug)]
pub(super) struct Awaited {
    cookie: u64,
    /// The observation that it is a notification of, or [`NONE`]: then no event is made.
    relation: u32,
    /// Key of the rest of its body, if it is sent in several blocks.
    body: Option<u64>,
    /// The message with the first block was acknowledged.
    is_acknowledged: bool,
    /// The last block was asked for, and sent.
    is_fetched: bool,
    /// It was reported as lost, and only its message is under way still: its number must not be used for another.
    is_told: bool,
}

impl Awaited {
    pub fn new(cookie: u64) -> Self {
        Awaited {
            cookie,
            relation: NONE,
            body: None,
            is_acknowledged: false,
            is_fetched: false,
            is_told: false,
        }
    }
}

impl ServerSide {
    /// The rest of an insistent notification is to be fetched before the next one leaves: an observer that asks for a block
    /// would get one of another body.
    pub(super) fn await_fetch(&mut self, index: u32) {
        let Some(relation) = self.relations.get_mut(index) else {
            return;
        };
        let (key, peer) = (relation.cache_key, relation.peer);
        let awaited = self.awaited.insert(Awaited {
            relation: index,
            body: Some(key),
            ..Awaited::new(0)
        });
        // It is repeated until it is acknowledged; only then time runs.
        if self
            .kept
            .await_fate(key, awaited, peer, thalweg_wire::Time::NEVER)
        {
            relation.fetching = awaited;
        } else {
            self.awaited.remove(awaited);
        }
    }

    /// The observer is there: it has acknowledged the notification, or asked for a block of it.
    pub(super) fn fetch_goes_on(&mut self, fetching: u32) {
        let until = self.now + self.settings.fetch_within;
        let Some(awaited) = self.awaited.get(fetching) else {
            return;
        };
        if let (Some(key), Some(relation)) = (awaited.body, self.relations.get(awaited.relation))
            && self.kept.awaited(key) == fetching
        {
            self.kept.await_fate(key, fetching, relation.peer, until);
        }
    }

    /// The observation ends, and with it the wait.
    pub(super) fn forget_fetch(&mut self, fetching: u32) {
        if let Some(Awaited {
            body: Some(key), ..
        }) = self.awaited.remove(fetching)
            && self.kept.awaited(key) == fetching
        {
            self.kept
                .await_fate(key, NONE, NONE, thalweg_wire::Time::NEVER);
        }
    }

    /// The observer has fetched a notification, or cannot any more.
    fn fetch_is_over(&mut self, index: u32) {
        let Some(relation) = self.relations.get_mut(index) else {
            return;
        };
        let (fetching, peer, is_in_flight) =
            (relation.fetching, relation.peer, relation.sending != NONE);
        relation.fetching = NONE;
        self.forget_fetch(fetching);
        if !is_in_flight {
            self.has_landed(index);
            self.wake(peer, self.now);
        }
    }

    /// The body of this response was kept, or had no room: then the rest of it cannot be fetched.
    pub(super) fn body_kept(&mut self, exchange: &Exchange) {
        let Some(awaited) = self.awaited.get_mut(exchange.awaited) else {
            return;
        };
        let until = self.now + self.settings.fetch_within;
        if self
            .kept
            .await_fate(exchange.cache_key, exchange.awaited, exchange.peer, until)
        {
            awaited.body = Some(exchange.cache_key);
        } else {
            self.body_lost(exchange.awaited);
        }
    }

    /// The message of a response is over: it was acknowledged, or never will be.
    pub(super) fn tell_fate(&mut self, index: u32, has_arrived: bool) {
        let Some(awaited) = self.awaited.get_mut(index) else {
            return;
        };
        if awaited.is_told {
            self.awaited.remove(index);
            return;
        }
        if has_arrived && awaited.body.is_some() && !awaited.is_fetched {
            awaited.is_acknowledged = true;
            return;
        }
        self.settle(index, has_arrived);
    }

    /// The last block of a kept body has left.
    pub(super) fn body_fetched(&mut self, index: u32) {
        let Some(awaited) = self.awaited.get_mut(index) else {
            return;
        };
        if awaited.relation != NONE {
            let relation = awaited.relation;
            return self.fetch_is_over(relation);
        }
        awaited.is_fetched = true;
        if awaited.is_acknowledged {
            self.settle(index, true);
        }
    }

    /// Tells of those whose bodies were dropped before their fate was known.
    pub(super) fn tell_dropped(&mut self) {
        while let Some(index) = self.kept.pop_dropped() {
            self.body_lost(index);
        }
    }

    /// The rest of a body cannot be had any more.
    fn body_lost(&mut self, index: u32) {
        let Some(awaited) = self.awaited.get_mut(index) else {
            return;
        };
        awaited.body = None;
        if awaited.relation != NONE {
            let relation = awaited.relation;
            return self.fetch_is_over(relation);
        }
        if awaited.is_acknowledged {
            return self.settle(index, false);
        }
        awaited.is_told = true;
        self.notices.push_back(Notice::ResponseLost {
            cookie: awaited.cookie,
        });
    }

    /// Tells the application what became of a response. The body of one that is lost is not served any more; that of
    /// another is, as long as it is kept: the answer with its last block may not have arrived.
    fn settle(&mut self, index: u32, has_arrived: bool) {
        let Some(Awaited { cookie, body, .. }) = self.awaited.remove(index) else {
            return;
        };
        if let Some(key) = body {
            self.kept
                .await_fate(key, NONE, NONE, thalweg_wire::Time::NEVER);
            if !has_arrived {
                self.kept.forget(key);
            }
        }
        self.notices.push_back(match has_arrived {
            true => Notice::ResponseConfirmed { cookie },
            false => Notice::ResponseLost { cookie },
        });
    }
}
