//! Requests to the group of all nodes: each is handled at a random time, so that the answers of many nodes do not come at
//! once. RFC 7252 §8.2
//!
//! The request waits, not its answer: then it is a request like any other, and what is answered is what there is by then.

use core::net::SocketAddr;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hash::BuildHasher;
use thalweg_model::{Span, Time};

/// Requests that wait at a time. Further ones are ignored: who invents senders must not make us flood them.
const WAITING_MAX: usize = 64;
/// Octets of a request; longer ones are ignored. A client that looks for a node needs few options.
const BYTES_MAX: usize = 512;

type Waiting = (Time, u64, SocketAddr, Box<[u8]>);

pub(super) struct Leisure {
    /// Each with its number, which decides between those of one time.
    waiting: BinaryHeap<Reverse<Waiting>>,
    count: u64,
    chance: foldhash::quality::FixedState,
}

impl Leisure {
    pub(super) fn new(seed: u64) -> Self {
        Leisure {
            waiting: BinaryHeap::new(),
            count: 0,
            chance: foldhash::quality::FixedState::with_seed(seed),
        }
    }

    /// A request has come. Says whether it waits, until some time from now to `leisure` from now.
    pub(super) fn push(
        &mut self,
        from: SocketAddr,
        request: &[u8],
        leisure: Span,
        now: Time,
    ) -> bool {
        // It came by two interfaces, or its sender is impatient.
        let is_same = |(_, _, sender, bytes): &Waiting| *sender == from && **bytes == *request;
        if self.waiting.iter().any(|Reverse(waiting)| is_same(waiting)) {
            return true;
        }
        if self.waiting.len() >= WAITING_MAX || request.len() > BYTES_MAX {
            return false;
        }
        self.count += 1;
        let wait = self.chance.hash_one(self.count) % (leisure.nanos() + 1);
        let due = now + Span::from_nanos(wait);
        self.waiting
            .push(Reverse((due, self.count, from, request.into())));
        true
    }

    /// A request whose time has come.
    pub(super) fn pop_due(&mut self, now: Time) -> Option<(SocketAddr, Box<[u8]>)> {
        if self.next() > now {
            return None;
        }
        let Reverse((_, _, from, request)) = self.waiting.pop()?;
        Some((from, request))
    }

    pub(super) fn next(&self) -> Time {
        self.waiting
            .peek()
            .map_or(Time::NEVER, |Reverse((due, ..))| *due)
    }
}
