//! The messages that are not settled: each in a slot of its own whose memory is used again, so that a steady flow
//! allocates nothing.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use thalweg_model::{Reliability, Time};

use super::draft::Draft;
use crate::transport::MessageId;

/// Largest distance of a sent message's stamp from the lowest unsettled one. It keeps every message within the windows
/// in which brokers and receivers recognize repetitions (1,024 at least), however long one message waits.
pub(super) const STAMP_HORIZON: u64 = 1_000;

/// Free slots that keep their memory, and how much of it each.
const WARM_SLOTS: usize = 1_024;
const WARM_BYTES: usize = 2_048;

/// Bytes of a message besides its content, for [`super::EngineSettings::bytes_max`].
const SLOT_BYTES: usize = size_of::<Slot>() + 2 * size_of::<Key>();

/// Names a slot as long as the same message is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub id: MessageId,
    pub slot: u32,
}

/// Where a message is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Place {
    #[default]
    Free,
    /// In its way's queue.
    Waiting,
    /// A lane has it.
    UnderWay(u32),
}

/// A message and its state.
#[derive(Debug, Default)]
pub(super) struct Slot {
    pub id: MessageId,
    /// As [`Draft::encode`] has it.
    pub entry: Vec<u8>,
    pub place: Place,
    pub way: u32,
    pub class: u8,
    pub reliability: Reliability,
    pub expires: Time,
    /// A hash of its address.
    pub topic: u64,
    /// The sequence of its stamp; 0: it never has one.
    pub sequence: u64,
    /// It was given to a lane before.
    pub repeated: bool,
    /// The lane that has had it under the protocol's own exactly once: no other may get it.
    pub pinned_to: Option<u32>,
    /// The host that it was given to first, by number from 1 on; 0: none.
    pub host: u32,
    /// When a lane got it.
    pub sent: Time,
    /// The spool has it.
    pub spooled: bool,
}

#[derive(Debug, Default)]
pub(super) struct Outbox {
    slots: Vec<Slot>,
    free: Vec<u32>,
    live: usize,
    bytes: usize,
    /// Those that expire, soonest first; settled ones among them are passed over.
    expiries: BinaryHeap<Reverse<(Time, Key)>>,
    /// Those that can have stamps, lowest first; settled ones among them are passed over.
    stamped: VecDeque<(u64, Key)>,
    next_stamp: u64,
}

impl Outbox {
    pub fn new(next_stamp: u64) -> Self {
        Outbox {
            next_stamp,
            ..Outbox::default()
        }
    }

    /// Number of unsettled messages.
    pub fn len(&self) -> usize {
        self.live
    }

    /// Bytes that they take.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes that a message would take.
    pub fn cost(draft: &Draft<'_>) -> usize {
        draft.encoded_len() + SLOT_BYTES
    }

    /// Takes a message; None if a part of it is too long. `sequence`: of its stamp, if it already has one.
    pub fn insert(&mut self, draft: &Draft<'_>, sequence: Option<u64>) -> Option<Key> {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            (self.slots.len() - 1) as u32
        });
        let slot = self.slots.get_mut(index as usize)?;
        slot.entry.clear();
        if !draft.encode(&mut slot.entry) {
            self.free.push(index);
            return None;
        }
        let key = Key {
            id: draft.id,
            slot: index,
        };
        slot.id = draft.id;
        slot.place = Place::Waiting;
        slot.way = draft.way;
        slot.class = draft.priority.min(9);
        slot.reliability = draft.reliability;
        slot.expires = draft.expires;
        slot.topic = topic_of(draft.address);
        slot.sequence = match (sequence, draft.reliability) {
            (Some(sequence), _) => sequence,
            (None, Reliability::AtMostOnce) => 0,
            (None, _) => {
                self.next_stamp += 1;
                self.next_stamp - 1
            }
        };
        (
            slot.repeated,
            slot.pinned_to,
            slot.host,
            slot.sent,
            slot.spooled,
        ) = (false, None, 0, Time::ZERO, false);
        self.live += 1;
        self.bytes += slot.entry.len() + SLOT_BYTES;
        let (sequence, expires) = (slot.sequence, slot.expires);
        if sequence != 0 {
            if self.stamped.len() > 2 * self.live + WARM_SLOTS {
                let slots = &self.slots;
                self.stamped.retain(|&(_, key)| is_live(slots, key));
            }
            self.stamped.push_back((sequence, key));
        }
        if expires != Time::NEVER {
            if self.expiries.len() > 2 * self.live + WARM_SLOTS {
                let slots = &self.slots;
                self.expiries
                    .retain(|Reverse((_, key))| is_live(slots, *key));
            }
            self.expiries.push(Reverse((expires, key)));
        }
        Some(key)
    }

    /// The message of a key, unless it was settled.
    pub fn get(&self, key: Key) -> Option<&Slot> {
        self.slots
            .get(key.slot as usize)
            .filter(|slot| slot.id == key.id && slot.place != Place::Free)
    }

    /// As [`Outbox::get`].
    pub fn get_mut(&mut self, key: Key) -> Option<&mut Slot> {
        self.slots
            .get_mut(key.slot as usize)
            .filter(|slot| slot.id == key.id && slot.place != Place::Free)
    }

    /// Whether a message is there and waits.
    pub fn is_waiting(&self, key: Key) -> bool {
        self.get(key)
            .is_some_and(|slot| slot.place == Place::Waiting)
    }

    /// A message is settled: its slot is free.
    pub fn remove(&mut self, key: Key) {
        let is_cold = self.free.len() >= WARM_SLOTS;
        let Some(slot) = self.get_mut(key) else {
            return;
        };
        slot.place = Place::Free;
        let bytes = slot.entry.len() + SLOT_BYTES;
        slot.entry.clear();
        if is_cold || slot.entry.capacity() > WARM_BYTES {
            slot.entry = Vec::new();
        }
        self.live -= 1;
        self.bytes = self.bytes.saturating_sub(bytes);
        self.free.push(key.slot);
        if self.live == 0 && self.slots.len() > 4 * WARM_SLOTS {
            // Releases the memory that a long time without network has cost.
            let next_stamp = self.next_stamp;
            *self = Outbox::new(next_stamp);
        }
    }

    /// The soonest that a message expires; may be too early.
    pub fn expires_next(&self) -> Time {
        self.expiries
            .peek()
            .map_or(Time::NEVER, |Reverse((time, _))| *time)
    }

    /// A message whose time is over, each once.
    pub fn pop_expired(&mut self, now: Time) -> Option<Key> {
        loop {
            match self.expiries.peek() {
                Some(Reverse((time, _))) if *time <= now => {}
                _ => return None,
            }
            let Reverse((_, key)) = self.expiries.pop()?;
            if self.get(key).is_some() {
                return Some(key);
            }
        }
    }

    /// The unsettled message whose stamp is the lowest.
    pub fn lowest_stamp(&mut self) -> Option<(u64, Key)> {
        while let Some(&(sequence, key)) = self.stamped.front() {
            if is_live(&self.slots, key) {
                return Some((sequence, key));
            }
            self.stamped.pop_front();
        }
        None
    }

    /// All unsettled messages, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (Key, &Slot)> {
        let key = |(index, slot): (usize, &Slot)| Key {
            id: slot.id,
            slot: index as u32,
        };
        self.slots
            .iter()
            .enumerate()
            .filter(|(_, slot)| slot.place != Place::Free)
            .map(move |at| (key(at), at.1))
    }
}

fn is_live(slots: &[Slot], key: Key) -> bool {
    slots
        .get(key.slot as usize)
        .is_some_and(|slot| slot.id == key.id && slot.place != Place::Free)
}

/// A hash of an address. Two addresses that share one wait for each other now and then, nothing worse.
pub(super) fn topic_of(address: &str) -> u64 {
    // FNV-1a over words of eight bytes, with a last turn that spreads the high bits.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64 ^ address.len() as u64;
    let mut words = address.as_bytes().chunks_exact(8);
    for word in &mut words {
        hash = (hash
            ^ word
                .iter()
                .fold(0, |number, &byte| (number << 8) | u64::from(byte)))
        .wrapping_mul(PRIME);
        hash ^= hash >> 29;
    }
    let tail = words
        .remainder()
        .iter()
        .fold(1, |number, &byte| (number << 8) | u64::from(byte));
    hash = (hash ^ tail).wrapping_mul(PRIME);
    hash ^ (hash >> 32)
}

const PRIME: u64 = 0x9e37_79b9_7f4a_7c15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_flow_uses_the_same_memory() {
        let mut outbox = Outbox::new(1);
        let mut under_way = VecDeque::new();
        for id in 1..=10_000_u64 {
            let draft = Draft {
                expires: Time::from_secs(id),
                ..Draft::new(id, "a/b", b"21.5")
            };
            under_way.push_back(outbox.insert(&draft, None).expect("short"));
            if under_way.len() > 10 {
                outbox.remove(under_way.pop_front().expect("some"));
            }
        }
        assert_eq!(outbox.len(), 10);
        assert_eq!(outbox.slots.len(), 11);
        assert!(
            outbox.expiries.len() < 2 * WARM_SLOTS,
            "{}",
            outbox.expiries.len()
        );
        assert!(
            outbox.stamped.len() < 2 * WARM_SLOTS,
            "{}",
            outbox.stamped.len()
        );
        assert_eq!(
            outbox.lowest_stamp().map(|(sequence, _)| sequence),
            Some(9_991)
        );
    }

    #[test]
    fn what_a_long_wait_took_is_given_back() {
        let mut outbox = Outbox::new(1);
        let keys: Vec<_> = (1..=20_000)
            .map(|id| {
                outbox
                    .insert(&Draft::new(id, "a/b", &[0; 100]), None)
                    .expect("short")
            })
            .collect();
        assert!(outbox.bytes() > 20_000 * 100);
        for key in keys {
            outbox.remove(key);
            outbox.remove(key);
        }
        assert_eq!(
            (outbox.len(), outbox.bytes(), outbox.slots.capacity()),
            (0, 0, 0)
        );
        assert_eq!(
            outbox
                .insert(&Draft::new(20_001, "a", b""), None)
                .map(|key| key.slot),
            Some(0)
        );
        assert_eq!(
            outbox.lowest_stamp().map(|(sequence, _)| sequence),
            Some(20_001)
        );
    }

    #[test]
    fn topics_have_different_hashes() {
        let mut hashes: Vec<u64> = (0..100_000)
            .map(|n| topic_of(&format!("plant/{}/sensor/{n}", n % 7)))
            .collect();
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), 100_000);
        assert_ne!(topic_of("a"), topic_of("b"));
        assert_ne!(topic_of(""), topic_of("\0"));
    }
}
