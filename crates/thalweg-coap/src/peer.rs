//! The peers of one socket: a small record each, found by address, forgotten in the order of their last sign of life.

use core::net::SocketAddr;
use std::hash::{BuildHasher, Hasher};

use foldhash::quality::FixedState;
use hashbrown::HashTable;
use thalweg_wire::{Span, Time};

use crate::slots::{NONE, Slots};

/// Record of a peer. There may be a hundred thousand, so each byte counts.
#[derive(Debug)]
pub(crate) struct Peer {
    pub address: SocketAddr,
    /// When, by its pace, the next notification without confirmation would leave.
    pub paced_until: Time,
    /// When, by its rate, the next request would come.
    pub requests_until: Time,
    /// Time of its last datagram, in seconds: peers are evicted in this order.
    seen: u32,
    /// Estimate of the round trip in microseconds; 0: unknown.
    pub round_trip: u32,
    /// Estimate of how much it deviates, in [`DEVIATION_UNIT`]s.
    deviation: u16,
    /// Answers in a row that could not be measured.
    pub unmeasured: u8,
    /// First request that waits for the application.
    pub exchanges: u32,
    pub relations: u32,
    /// First confirmable message in flight.
    pub flying: u32,
    /// First and last one that waits for NSTART.
    pub waiting: [u32; 2],
    /// First and last observation whose notification is due and was refused as busy.
    pub wanting: [u32; 2],
    /// Neighbours in the list of those that may be forgotten.
    older: u32,
    newer: u32,
    pub relation_count: u16,
    pub exchange_count: u16,
    pub in_flight: u8,
    pub waiting_count: u8,
    /// Confirmable notifications given up in a row.
    pub failures: u8,
    pub next_id: u16,
    /// Bytes sent since its last datagram; a client's account of RFC 7252 §4.7.
    pub unanswered: u32,
    /// Whether it is where it seems to be.
    pub proven: bool,
    /// The id of the last message that asked it so.
    pub asked: Option<u16>,
    /// Whether a timer is set for the end of its pace.
    pub pace_timer: bool,
    /// Whether it is in the list of those that may be forgotten.
    listed: bool,
    /// Number of peers that had gone when it came: distinguishes it from earlier peers at its address.
    incarnation: u32,
}

/// A deviation of six and a half seconds fits into sixteen bits.
const DEVIATION_UNIT: u32 = 100;

impl Peer {
    /// Deviation of the round trip, in microseconds.
    pub fn deviation(&self) -> u32 {
        u32::from(self.deviation) * DEVIATION_UNIT
    }

    /// A round trip was measured, in microseconds. RFC 6298 §2
    pub fn measured(&mut self, sample: u32) {
        let old = self.round_trip;
        let apart = if old == 0 {
            sample / 2
        } else {
            sample.abs_diff(old)
        };
        let before = if old == 0 { apart } else { self.deviation() };
        let deviation = before / 4 * 3 + apart / 4;
        self.deviation = u16::try_from(deviation / DEVIATION_UNIT).unwrap_or(u16::MAX);
        self.round_trip = if old == 0 {
            sample
        } else {
            (old * 7 / 8 + sample / 8).max(1)
        };
        self.unmeasured = 0;
    }

    /// Whether a datagram came from it since then; the same second, which is the resolution, does not count.
    pub fn was_heard_since(&self, time: Time) -> bool {
        u64::from(self.seen) > time.since(Time::ZERO).secs()
    }

    /// Whether nothing is going on with it that must not be forgotten.
    fn is_idle(&self) -> bool {
        self.relation_count == 0 && self.in_flight == 0 && self.waiting_count == 0
    }
}

#[derive(Debug)]
pub(crate) struct Peers {
    pub slots: Slots<Peer>,
    table: HashTable<u32>,
    hasher: FixedState,
    oldest: u32,
    newest: u32,
    seed: u64,
    /// Number of peers that have gone.
    departures: u32,
    pub displaced: u64,
}

impl Peers {
    pub fn new(seed: u64) -> Self {
        Peers {
            slots: Slots::default(),
            table: HashTable::new(),
            hasher: FixedState::with_seed(seed),
            oldest: NONE,
            newest: NONE,
            seed,
            departures: 0,
            displaced: 0,
        }
    }

    /// Name of a peer that stays valid when its record may be gone. Where peers are never reported as gone, that is its
    /// address.
    #[inline]
    pub fn name(&self, index: u32, hash: u64) -> u64 {
        let incarnation = self.slots.get(index).map_or(0, |peer| peer.incarnation);
        hash ^ u64::from(incarnation).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }

    /// Another peer takes an address: what was remembered under the former name is found no more.
    pub fn rename(&mut self, index: Option<u32>) {
        self.departures = self.departures.wrapping_add(1);
        if let Some(peer) = index.and_then(|index| self.slots.get_mut(index)) {
            peer.incarnation = self.departures;
        }
    }

    /// Hash of an address for the index.
    #[inline]
    pub fn hash(&self, address: SocketAddr) -> u64 {
        hash(&self.hasher, address)
    }

    /// The peer at this address. `hash` is that of the address.
    #[inline]
    pub fn find(&self, address: SocketAddr, hash: u64) -> Option<u32> {
        let slots = &self.slots;
        self.table
            .find(hash, |index| {
                slots
                    .get(*index)
                    .is_some_and(|peer| peer.address == address)
            })
            .copied()
    }

    /// A record for a peer that has none. Nothing if there are `most` already and something goes on with each that was
    /// looked at.
    pub fn insert(
        &mut self,
        address: SocketAddr,
        hash: u64,
        proven: bool,
        most: usize,
        now: Time,
    ) -> Option<u32> {
        if self.slots.len() >= most && !self.displace() {
            return None;
        }
        // An id that cannot be guessed without the seed. RFC 7252 §4.4, §11.4
        let next_id = (hash ^ self.seed.rotate_left(32)).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 48;
        let index = self.slots.insert(Peer {
            address,
            paced_until: Time::ZERO,
            requests_until: Time::ZERO,
            seen: now.since(Time::ZERO).secs() as u32,
            round_trip: 0,
            deviation: 0,
            unmeasured: 0,
            exchanges: NONE,
            relations: NONE,
            flying: NONE,
            waiting: [NONE; 2],
            wanting: [NONE; 2],
            older: NONE,
            newer: NONE,
            relation_count: 0,
            exchange_count: 0,
            in_flight: 0,
            waiting_count: 0,
            failures: 0,
            next_id: next_id as u16,
            unanswered: 0,
            proven,
            asked: None,
            pace_timer: false,
            listed: false,
            incarnation: self.departures,
        });
        let (slots, hasher) = (&self.slots, &self.hasher);
        self.table.insert_unique(hash, index, |index| {
            slots
                .get(*index)
                .map_or(0, |p| self::hash(hasher, p.address))
        });
        self.list(index);
        Some(index)
    }

    /// Notes a sign of life.
    #[inline(always)]
    pub fn touch(&mut self, index: u32, now: Time) {
        let second = now.since(Time::ZERO).secs() as u32;
        let Some(peer) = self.slots.get_mut(index) else {
            return;
        };
        peer.unanswered = 0;
        if peer.seen != second {
            peer.seen = second;
            if peer.listed && self.newest != index {
                self.unlist(index);
                self.list(index);
            }
        }
    }

    /// Puts a peer on the list of those that may be forgotten, or takes it off, after something began or ended with it.
    #[inline]
    pub fn settle(&mut self, index: u32) {
        match self
            .slots
            .get(index)
            .map(|peer| (peer.is_idle(), peer.listed))
        {
            Some((true, false)) => self.list(index),
            Some((false, true)) => self.unlist(index),
            _ => {}
        }
    }

    /// Forgets up to `most` peers that were silent for `idle`.
    pub fn forget_idle(&mut self, idle: Span, now: Time, most: usize) {
        for _ in 0..most {
            let Some(peer) = self.slots.get(self.oldest) else {
                return;
            };
            if now.since(Time::from_secs(u64::from(peer.seen))) < idle || !self.displace_one() {
                return;
            }
        }
    }

    pub fn bytes(&self) -> usize {
        self.slots.bytes() + self.table.allocation_size()
    }

    /// Makes room for one.
    fn displace(&mut self) -> bool {
        // Those with an open request are passed over: few can be, because these have a limit of their own.
        let done = (0..8).any(|_| self.displace_one());
        self.displaced += u64::from(done);
        done
    }

    /// Forgets the oldest, or makes it the newest if the application still has a request of it.
    fn displace_one(&mut self) -> bool {
        let index = self.oldest;
        let Some(peer) = self.slots.get(index) else {
            return false;
        };
        let (address, busy) = (peer.address, peer.exchange_count > 0);
        self.unlist(index);
        if busy {
            self.list(index);
            return false;
        }
        if let Ok(entry) = self
            .table
            .find_entry(self.hash(address), |found| *found == index)
        {
            entry.remove();
        }
        self.slots.remove(index);
        true
    }

    fn list(&mut self, index: u32) {
        let newest = std::mem::replace(&mut self.newest, index);
        if let Some(peer) = self.slots.get_mut(newest) {
            peer.newer = index;
        } else {
            self.oldest = index;
        }
        if let Some(peer) = self.slots.get_mut(index) {
            (peer.older, peer.newer, peer.listed) = (newest, NONE, true);
        }
    }

    fn unlist(&mut self, index: u32) {
        let Some(peer) = self.slots.get_mut(index) else {
            return;
        };
        let (older, newer) = (peer.older, peer.newer);
        (peer.older, peer.newer, peer.listed) = (NONE, NONE, false);
        match self.slots.get_mut(older) {
            Some(peer) => peer.newer = newer,
            None => self.oldest = newer,
        }
        match self.slots.get_mut(newer) {
            Some(peer) => peer.older = older,
            None => self.newest = older,
        }
    }
}

#[inline]
fn hash(hasher: &FixedState, address: SocketAddr) -> u64 {
    let mut hasher = hasher.build_hasher();
    match address {
        SocketAddr::V4(v4) => {
            hasher.write_u64(u64::from(u32::from(*v4.ip())) << 16 | u64::from(v4.port()))
        }
        SocketAddr::V6(v6) => {
            hasher.write_u128(u128::from(*v6.ip()));
            hasher.write_u64(u64::from(v6.scope_id()) << 16 | u64::from(v6.port()));
        }
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(n: u16) -> SocketAddr {
        SocketAddr::from(([10, 0, (n >> 8) as u8, n as u8], 5683))
    }

    fn insert(peers: &mut Peers, n: u16, most: usize, second: u64) -> Option<u32> {
        let hash = peers.hash(address(n));
        peers.insert(address(n), hash, false, most, Time::from_secs(second))
    }

    fn knows(peers: &Peers, n: u16) -> bool {
        peers.find(address(n), peers.hash(address(n))).is_some()
    }

    #[test]
    fn the_longest_silent_is_displaced_first() {
        let mut peers = Peers::new(1);
        for n in 0..3 {
            insert(&mut peers, n, 3, u64::from(n)).expect("room");
        }
        let first = peers
            .find(address(0), peers.hash(address(0)))
            .expect("it is there");
        peers.touch(first, Time::from_secs(5));
        insert(&mut peers, 3, 3, 6).expect("room is made");
        assert_eq!(
            [0, 1, 2, 3].map(|n| knows(&peers, n)),
            [true, false, true, true]
        );
        assert_eq!((peers.slots.len(), peers.displaced), (3, 1));
    }

    #[test]
    fn peers_with_something_going_on_stay() {
        let mut peers = Peers::new(1);
        let busy = insert(&mut peers, 0, 2, 0).expect("room");
        let asking = insert(&mut peers, 1, 2, 0).expect("room");
        peers
            .slots
            .get_mut(busy)
            .expect("it is there")
            .relation_count = 1;
        peers.settle(busy);
        peers
            .slots
            .get_mut(asking)
            .expect("it is there")
            .exchange_count = 1;
        assert_eq!(insert(&mut peers, 2, 2, 1), None);
        peers
            .slots
            .get_mut(busy)
            .expect("it is there")
            .relation_count = 0;
        peers.settle(busy);
        assert!(insert(&mut peers, 2, 2, 1).is_some());
        assert!(knows(&peers, 1) && !knows(&peers, 0));
    }

    #[test]
    fn the_silent_are_forgotten_after_a_while() {
        let mut peers = Peers::new(1);
        for n in 0..10 {
            insert(&mut peers, n, 100, u64::from(n) * 10).expect("room");
        }
        peers.forget_idle(Span::from_secs(60), Time::from_secs(100), 100);
        assert_eq!(peers.slots.len(), 5);
        assert!(!knows(&peers, 4) && knows(&peers, 5));
    }

    #[test]
    fn message_ids_do_not_begin_with_the_same_number_for_all() {
        let mut peers = Peers::new(1);
        let ids: Vec<u16> = (0..4)
            .map(|n| {
                let index = insert(&mut peers, n, 9, 0).expect("room");
                peers.slots.get(index).expect("it is there").next_id
            })
            .collect();
        assert!(
            ids.windows(2)
                .any(|pair| pair[0].wrapping_add(1) != pair[1]),
            "{ids:?}"
        );
    }
}
