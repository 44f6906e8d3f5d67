//! Common to both ends of datagram exchanges: message ids, confirmable messages in flight, their repetition and their
//! queue. RFC 7252 §4

use core::net::SocketAddr;
use std::sync::Arc;

use thalweg_wire::{Span, Time};

use crate::peer::Peers;
use crate::slots::{NONE, Slots};
use crate::timers::{TimerKind, Timers};
use crate::{Datagrams, Delivery, Encoder, SharedBody, Token, Transmission, Type, empty};

/// Owner of a confirmable message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// No caller to report the outcome to.
    Nobody,
    /// A question whether the peer is where it seems to be.
    Probe,
    /// An observation: a notification.
    Relation(u32),
    /// A response whose outcome the application asked for.
    Awaited(u32),
    /// A client's request, or its ping.
    Request(u32),
}

/// Content of a confirmable message.
#[derive(Debug)]
pub(crate) enum Content {
    /// Nothing: the receiver answers with a reset.
    Empty,
    /// A whole datagram, message id and all.
    Encoded(Vec<u8>),
    Notification(Notification),
}

/// A notification: the part shared with other observers, and its own.
#[derive(Debug)]
pub(crate) struct Notification {
    pub body: Arc<SharedBody>,
    /// Nothing for the last one of an ended observation.
    pub observe: Option<u32>,
    pub token: Token,
    pub block_exponent: u8,
}

impl Notification {
    #[inline]
    pub fn write(&self, kind: Type, id: u16, out: &mut Vec<u8>) {
        Encoder::start(out, kind, self.body.code(), id, self.token);
        self.body.write(self.observe, self.block_exponent, out);
    }
}

/// A confirmable message in flight, or waiting for NSTART.
#[derive(Debug)]
pub(crate) struct Sending {
    pub peer: u32,
    /// The next one of this peer in its list.
    next: u32,
    pub owner: Owner,
    content: Content,
    /// When it is due to be repeated or given up.
    at: Time,
    /// Length of the current wait.
    wait: Span,
    sent_at: Time,
    pub id: u16,
    /// Number of transmissions; 0: it waits.
    transmissions: u8,
    /// Whether there is a newer state to be sent in its place. RFC 7641 §4.5.2
    pub is_outdated: bool,
    /// Whether it is repeated beyond MAX_RETRANSMIT, and nothing newer takes its place.
    pub insists: bool,
}

/// Action for an expired timer of a confirmable message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// Nothing, or it has been sent again.
    Done,
    /// Its owner has something newer to say in its place, by [`Endpoint::replace`]; the next repetition is planned.
    Replaceable(Owner),
    /// It was given up. `is_there`: the peer was heard from in the meantime, and the message is not an insistent one.
    GivenUp {
        owner: Owner,
        peer: u32,
        is_there: bool,
    },
}

/// Numbers for the counters of both sides.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EndpointCounts {
    pub confirmable: u64,
    pub retransmissions: u64,
    pub timeouts: u64,
    pub answered: u64,
}

#[derive(Debug)]
pub(crate) struct Endpoint {
    pub transmission: Transmission,
    pub peers: Peers,
    pub sendings: Slots<Sending>,
    pub timers: Timers,
    pub counts: EndpointCounts,
    /// Most waiting messages per peer.
    pub waiting_per_peer: u8,
    pub sendings_max: usize,
    /// State of the generator for the first waits.
    dice: u64,
    /// Buffers of messages that have gone.
    spare: Vec<Vec<u8>>,
    /// The last round trip that was measured and not asked for.
    pub sample: Option<Span>,
}

/// Buffers kept, and how large one may be that is kept.
const SPARE_MAX: usize = 64;
const SPARE_BYTES_MAX: usize = 2048;

impl Endpoint {
    pub fn new(
        transmission: Transmission,
        waiting_per_peer: u8,
        sendings_max: usize,
        seed: u64,
    ) -> Self {
        Endpoint {
            transmission,
            peers: Peers::new(seed),
            sendings: Slots::default(),
            timers: Timers::default(),
            counts: EndpointCounts::default(),
            waiting_per_peer,
            sendings_max,
            dice: seed | 1,
            spare: Vec::new(),
            sample: None,
        }
    }

    /// 64 bits that look like chance: xorshift64*.
    pub fn throw(&mut self) -> u64 {
        self.dice ^= self.dice >> 12;
        self.dice ^= self.dice << 25;
        self.dice ^= self.dice >> 27;
        self.dice.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// An empty buffer for [`Content::Encoded`].
    pub fn buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    /// Takes a buffer back.
    pub fn give_back(&mut self, mut buffer: Vec<u8>) {
        if self.spare.len() < SPARE_MAX && (1..=SPARE_BYTES_MAX).contains(&buffer.capacity()) {
            buffer.clear();
            self.spare.push(buffer);
        }
    }

    /// The id of the next message to this peer; not one that is in flight.
    #[inline(always)]
    pub fn next_id(&mut self, peer: u32) -> u16 {
        let Some(record) = self.peers.slots.get_mut(peer) else {
            return 0;
        };
        if record.in_flight > 0 || record.waiting_count > 0 {
            return self.next_free_id(peer);
        }
        let id = record.next_id;
        record.next_id = id.wrapping_add(1);
        id
    }

    #[inline(never)]
    fn next_free_id(&mut self, peer: u32) -> u16 {
        let Some(record) = self.peers.slots.get(peer) else {
            return 0;
        };
        let (mut id, lists) = (record.next_id, [record.flying, record.waiting[0]]);
        let is_taken = |id| {
            let found = lists.into_iter().find_map(|first| self.find_in(first, id));
            found.is_some()
        };
        // There are at most 510 of them.
        while is_taken(id) {
            id = id.wrapping_add(1);
        }
        if let Some(record) = self.peers.slots.get_mut(peer) {
            record.next_id = id.wrapping_add(1);
        }
        id
    }

    /// Whether a confirmable message would leave at once.
    #[inline]
    pub fn can_confirm(&self, peer: u32) -> bool {
        let room = self.sendings.len() < self.sendings_max;
        let nstart = self.transmission.nstart.max(1);
        room && self
            .peers
            .slots
            .get(peer)
            .is_some_and(|peer| peer.in_flight < nstart && peer.waiting_count == 0)
    }

    /// Sends a confirmable message, or queues it. Nothing if there is no room.
    pub fn send(
        &mut self,
        peer: u32,
        id: u16,
        owner: Owner,
        content: Content,
        now: Time,
        out: &mut Datagrams,
    ) -> Option<u32> {
        let at_once = self.can_confirm(peer);
        let waiting = self.peers.slots.get(peer)?.waiting_count;
        if self.sendings.len() >= self.sendings_max
            || (!at_once && waiting >= self.waiting_per_peer)
        {
            self.reclaim(content);
            return None;
        }
        let index = self.sendings.insert(Sending {
            peer,
            next: NONE,
            owner,
            content,
            at: Time::NEVER,
            wait: Span::ZERO,
            sent_at: now,
            id,
            transmissions: 0,
            is_outdated: false,
            insists: false,
        });
        if at_once {
            self.start(index, now, out);
        } else {
            self.queue(peer, index);
        }
        self.peers.settle(peer);
        Some(index)
    }

    /// An acknowledgement or a reset of `id` came from this peer: the message it belongs to is over. `next` of the queue
    /// leaves.
    pub fn answered(
        &mut self,
        peer: u32,
        id: u16,
        now: Time,
        out: &mut Datagrams,
    ) -> Option<Owner> {
        let first = self.peers.slots.get(peer)?.flying;
        let index = self.find_in(first, id)?;
        let sending = self.sendings.get(index)?;
        let (owner, transmissions, sent_at) =
            (sending.owner, sending.transmissions, sending.sent_at);
        let last_sent = sending.at - sending.wait;
        self.counts.answered += 1;
        if let Some(record) = self.peers.slots.get_mut(peer) {
            record.proven = true;
            record.failures = 0;
            // An acknowledgement of a repeated message does not show which transmission it answers (Karn), unless it
            // comes sooner after the second than any round trip: then it answers the first. The mean says nothing of
            // the shortest round trip where they vary; taking an answer to the second for one to the first would
            // measure our own wait, and lengthen the next.
            let least = record
                .round_trip
                .saturating_sub(record.deviation().saturating_mul(4));
            let too_soon = u64::from(least) * 1000 / 2;
            let is_early = transmissions == 2 && now.since(last_sent).nanos() < too_soon;
            if transmissions == 1 || (is_early && self.transmission.adaptive_least.is_some()) {
                let sample =
                    (now.since(sent_at).nanos() / 1000).clamp(1, u64::from(u32::MAX / 8)) as u32;
                if record.round_trip == 0 {
                    // The slow pace of those of whom nothing is known is over.
                    record.paced_until = now;
                    record.pace_timer = false;
                }
                record.measured(sample);
                if transmissions == 1 {
                    self.sample = Some(now.since(sent_at));
                }
            } else {
                record.unmeasured = record.unmeasured.saturating_add(1);
            }
        }
        self.remove(index, now, out);
        Some(owner)
    }

    /// Stops repeating a message, or takes it out of its queue; the next one in the queue leaves.
    pub fn remove(&mut self, index: u32, now: Time, out: &mut Datagrams) {
        let Some(peer) = self.take(index) else { return };
        self.start_waiting(peer, now, out);
        self.peers.settle(peer);
    }

    /// Drops one of those that are in flight to a peer or wait, until there is none.
    pub fn drop_one(&mut self, peer: u32) -> Option<Owner> {
        let record = self.peers.slots.get(peer)?;
        let first = if record.flying == NONE {
            record.waiting[0]
        } else {
            record.flying
        };
        let owner = self.sendings.get(first)?.owner;
        self.take(first);
        self.peers.settle(peer);
        Some(owner)
    }

    /// A timer of a confirmable message came up.
    pub fn due(&mut self, index: u32, now: Time, out: &mut Datagrams) -> Due {
        let generation = self.sendings.generation(index);
        let Some(sending) = self.sendings.get_mut(index) else {
            return Due::Done;
        };
        if sending.at > now {
            self.timers
                .set(sending.at, TimerKind::Sending, index, generation);
            return Due::Done;
        }
        let (peer, owner) = (sending.peer, sending.owner);
        let may_repeat = self
            .transmission
            .may_repeat(sending.transmissions, now.since(sending.sent_at));
        let insists = sending.insists && sending.transmissions < Delivery::INSISTING;
        if !may_repeat && !insists {
            self.counts.timeouts += 1;
            let (sent_at, may_be_unlucky) = (sending.sent_at, !sending.insists);
            let mut is_there = false;
            if let Some(record) = self.peers.slots.get_mut(peer) {
                record.failures = record.failures.saturating_add(1);
                is_there = may_be_unlucky && record.was_heard_since(sent_at);
            }
            self.remove(index, now, out);
            return Due::GivenUp {
                owner,
                peer,
                is_there,
            };
        }
        // A peer that was heard from since the last repetition is reachable: the loss was random, and not congestion.
        let is_reached = self.transmission.adaptive_least.is_some()
            && self
                .peers
                .slots
                .get(peer)
                .is_some_and(|peer| peer.was_heard_since(sending.at - sending.wait));
        if may_repeat && !is_reached {
            sending.wait = Span::from_nanos(sending.wait.nanos().saturating_mul(2));
        }
        sending.at = now + sending.wait;
        sending.transmissions += 1;
        self.timers
            .set(sending.at, TimerKind::Sending, index, generation);
        self.counts.retransmissions += 1;
        if sending.is_outdated {
            return Due::Replaceable(owner);
        }
        if let Some(record) = self.peers.slots.get(peer) {
            sending.write(record.address, out);
        }
        Due::Done
    }

    /// Sends one again that is due to be repeated, although there is something newer. It can be replaced the next time.
    pub fn repeat(&mut self, index: u32, out: &mut Datagrams) {
        let Some(sending) = self.sendings.get_mut(index) else {
            return;
        };
        if let Some(record) = self.peers.slots.get(sending.peer) {
            sending.write(record.address, out);
        }
    }

    /// Sends a newer state in the place of one that is due to be repeated. Attempts and waits go on counting.
    pub fn replace(
        &mut self,
        index: u32,
        id: u16,
        notification: Notification,
        out: &mut Datagrams,
    ) {
        let Some(sending) = self.sendings.get_mut(index) else {
            return;
        };
        sending.id = id;
        sending.is_outdated = false;
        sending.content = Content::Notification(notification);
        if let Some(record) = self.peers.slots.get(sending.peer) {
            sending.write(record.address, out);
        }
    }

    /// Bytes allocated for messages, what observers share not counted.
    pub fn sending_bytes(&self) -> usize {
        self.sendings.bytes() + self.spare.iter().map(Vec::capacity).sum::<usize>()
    }

    fn start(&mut self, index: u32, now: Time, out: &mut Datagrams) {
        // ACK_TIMEOUT to ACK_TIMEOUT * ACK_RANDOM_FACTOR. RFC 7252 §4.2
        let peer = self
            .sendings
            .get(index)
            .and_then(|sending| self.peers.slots.get(sending.peer));
        let known = peer.map_or((0, 0, 0), |peer| {
            (peer.round_trip, peer.deviation(), peer.unmeasured)
        });
        let least = self
            .transmission
            .first_wait(known.0, known.1, known.2)
            .nanos();
        let spread = least.saturating_mul(u64::from(
            self.transmission.ack_random_percent.max(100) - 100,
        )) / 100;
        let wait =
            Span::from_nanos(least.saturating_add(self.throw() % spread.saturating_add(1).max(1)));
        let generation = self.sendings.generation(index);
        let Some(sending) = self.sendings.get_mut(index) else {
            return;
        };
        let Some(record) = self.peers.slots.get_mut(sending.peer) else {
            return;
        };
        sending.next = std::mem::replace(&mut record.flying, index);
        record.in_flight += 1;
        (
            sending.transmissions,
            sending.wait,
            sending.sent_at,
            sending.at,
        ) = (1, wait, now, now + wait);
        sending.write(record.address, out);
        self.timers
            .set(now + wait, TimerKind::Sending, index, generation);
        self.counts.confirmable += 1;
    }

    fn queue(&mut self, peer: u32, index: u32) {
        let Some(record) = self.peers.slots.get_mut(peer) else {
            return;
        };
        let [first, last] = record.waiting;
        record.waiting = if first == NONE {
            [index; 2]
        } else {
            [first, index]
        };
        record.waiting_count += 1;
        if let Some(last) = self.sendings.get_mut(last) {
            last.next = index;
        }
    }

    /// Lets messages leave as far as NSTART allows.
    fn start_waiting(&mut self, peer: u32, now: Time, out: &mut Datagrams) {
        loop {
            let nstart = self.transmission.nstart.max(1);
            let Some(record) = self.peers.slots.get_mut(peer) else {
                return;
            };
            let [first, last] = record.waiting;
            if first == NONE || record.in_flight >= nstart {
                return;
            }
            let next = self
                .sendings
                .get(first)
                .map_or(NONE, |sending| sending.next);
            record.waiting = if next == NONE {
                [NONE; 2]
            } else {
                [next, last]
            };
            record.waiting_count -= 1;
            self.start(first, now, out);
        }
    }

    /// Takes a message out of its peer's lists and away. Returns the peer.
    fn take(&mut self, index: u32) -> Option<u32> {
        let sending = self.sendings.get(index)?;
        let (peer, next, is_flying) = (sending.peer, sending.next, sending.transmissions > 0);
        let record = self.peers.slots.get_mut(peer)?;
        let first = if is_flying {
            &mut record.flying
        } else {
            &mut record.waiting[0]
        };
        let mut before = NONE;
        if *first == index {
            *first = next;
        } else {
            before = *first;
            while let Some(sending) = self.sendings.get_mut(before) {
                if sending.next == index {
                    sending.next = next;
                    break;
                }
                before = sending.next;
            }
        }
        if is_flying {
            record.in_flight -= 1;
            self.timers.forget_first(TimerKind::Sending, index);
        } else {
            record.waiting_count -= 1;
            if next == NONE {
                record.waiting[1] = before;
            }
        }
        let sending = self.sendings.remove(index)?;
        self.reclaim(sending.content);
        Some(peer)
    }

    fn reclaim(&mut self, content: Content) {
        if let Content::Encoded(buffer) = content {
            self.give_back(buffer);
        }
    }

    fn find_in(&self, first: u32, id: u16) -> Option<u32> {
        let mut index = first;
        while let Some(sending) = self.sendings.get(index) {
            if sending.id == id {
                return Some(index);
            }
            index = sending.next;
        }
        None
    }
}

impl Sending {
    fn write(&self, to: SocketAddr, out: &mut Datagrams) {
        out.push(to, |out| match &self.content {
            Content::Empty => empty(out, Type::Confirmable, self.id),
            Content::Encoded(bytes) => out.extend_from_slice(bytes),
            Content::Notification(notification) => {
                notification.write(Type::Confirmable, self.id, out)
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(nstart: u8) -> (Endpoint, u32) {
        let transmission = Transmission {
            nstart,
            ..Transmission::default()
        };
        let mut endpoint = Endpoint::new(transmission, 3, 100, 7);
        let address = SocketAddr::from(([10, 0, 0, 1], 5683));
        let hash = endpoint.peers.hash(address);
        let peer = endpoint
            .peers
            .insert(address, hash, false, 10, Time::ZERO)
            .expect("room");
        (endpoint, peer)
    }

    fn send(endpoint: &mut Endpoint, peer: u32, now: Time, out: &mut Datagrams) -> Option<u16> {
        let id = endpoint.next_id(peer);
        endpoint
            .send(peer, id, Owner::Nobody, Content::Empty, now, out)
            .map(|_| id)
    }

    fn ids(out: &mut Datagrams) -> Vec<u16> {
        let ids = out
            .iter()
            .map(|(_, d)| u16::from_be_bytes([d[2], d[3]]))
            .collect();
        out.clear();
        ids
    }

    #[test]
    fn a_message_is_repeated_four_times_with_doubling_waits_and_given_up() {
        let (mut endpoint, peer) = endpoint(1);
        let mut out = Datagrams::new();
        let id = send(&mut endpoint, peer, Time::ZERO, &mut out).expect("room");
        let (mut at, mut ends) = (vec![0], None);
        while ends.is_none() {
            let now = endpoint.timers.next();
            let timer = endpoint.timers.pop(now).expect("it is due");
            match endpoint.due(timer.index, now, &mut out) {
                Due::Done => at.push(now.nanos()),
                due => ends = Some((now.nanos(), due)),
            }
        }
        assert_eq!(ids(&mut out), [id; 5]);
        let first = at[1];
        assert!((2_000_000_000..=3_000_000_000).contains(&first), "{first}");
        assert_eq!(at, [0, first, first * 3, first * 7, first * 15]);
        assert_eq!(
            ends,
            Some((
                first * 31,
                Due::GivenUp {
                    owner: Owner::Nobody,
                    peer,
                    is_there: false
                }
            ))
        );
        assert_eq!(
            (endpoint.sendings.len(), endpoint.timers.next()),
            (0, Time::NEVER)
        );
    }

    #[test]
    fn first_waits_are_spread_over_the_random_factor() {
        let (mut endpoint, peer) = endpoint(200);
        let mut out = Datagrams::new();
        let firsts: Vec<u64> = (0..100)
            .map(|_| {
                let id = send(&mut endpoint, peer, Time::ZERO, &mut out).expect("room");
                let next = endpoint.timers.next().nanos();
                endpoint.answered(peer, id, Time::ZERO, &mut out);
                next
            })
            .collect();
        assert!(
            firsts
                .iter()
                .all(|at| (2_000_000_000..=3_000_000_000).contains(at))
        );
        assert!(
            firsts.iter().any(|at| *at < 2_200_000_000)
                && firsts.iter().any(|at| *at > 2_800_000_000)
        );
    }

    #[test]
    fn nstart_holds_further_messages_back_and_the_queue_is_bounded() {
        let (mut endpoint, peer) = endpoint(2);
        let mut out = Datagrams::new();
        let sent: Vec<_> = (0..6)
            .map(|_| send(&mut endpoint, peer, Time::ZERO, &mut out))
            .collect();
        assert_eq!(
            sent.iter().filter(|id| id.is_some()).count(),
            5,
            "two in flight and three waiting"
        );
        let sent: Vec<u16> = sent.into_iter().flatten().collect();
        assert_eq!(ids(&mut out), sent[..2]);
        assert_eq!(
            endpoint.answered(peer, sent[3], Time::ZERO, &mut out),
            None,
            "it has not left"
        );
        assert_eq!(
            endpoint.answered(peer, sent[1], Time::ZERO, &mut out),
            Some(Owner::Nobody)
        );
        assert_eq!(ids(&mut out), [sent[2]], "in order");
        assert_eq!(std::iter::from_fn(|| endpoint.drop_one(peer)).count(), 4);
        assert_eq!((endpoint.sendings.len(), ids(&mut out)), (0, vec![]));
    }

    #[test]
    fn the_end_of_the_queue_may_be_taken_away() {
        let (mut endpoint, peer) = endpoint(1);
        let mut out = Datagrams::new();
        let sent: Vec<u16> = (0..3)
            .filter_map(|_| send(&mut endpoint, peer, Time::ZERO, &mut out))
            .collect();
        let last = endpoint.find_in(
            endpoint.peers.slots.get(peer).expect("it is there").waiting[0],
            sent[2],
        );
        endpoint.remove(last.expect("it waits"), Time::ZERO, &mut out);
        let fourth = send(&mut endpoint, peer, Time::ZERO, &mut out).expect("room");
        ids(&mut out);
        for next in [sent[1], fourth] {
            let flying = endpoint.peers.slots.get(peer).expect("it is there").flying;
            let id = endpoint.sendings.get(flying).expect("it flies").id;
            endpoint.answered(peer, id, Time::ZERO, &mut out);
            assert_eq!(ids(&mut out), [next]);
        }
    }

    #[test]
    fn round_trips_are_measured_on_messages_that_were_sent_once() {
        let (mut endpoint, peer) = endpoint(1);
        let mut out = Datagrams::new();
        let id = send(&mut endpoint, peer, Time::ZERO, &mut out).expect("room");
        endpoint.answered(peer, id, Time::from_nanos(8_000_000), &mut out);
        assert_eq!(
            endpoint
                .peers
                .slots
                .get(peer)
                .expect("it is there")
                .round_trip,
            8000
        );
        let id = send(&mut endpoint, peer, Time::from_secs(1), &mut out).expect("room");
        let now = endpoint.timers.next();
        let timer = endpoint.timers.pop(now).expect("it is due");
        endpoint.due(timer.index, now, &mut out);
        endpoint.answered(peer, id, now, &mut out);
        assert_eq!(
            endpoint
                .peers
                .slots
                .get(peer)
                .expect("it is there")
                .round_trip,
            8000
        );
    }
}
