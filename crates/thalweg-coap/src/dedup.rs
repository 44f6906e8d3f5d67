//! Answered messages, kept for as long as a repetition may come: RFC 7252 §4.2, §4.5.
//!
//! Entries are in the order in which they were made, and their bodies in a second ring in the same order: the oldest
//! goes first in both, and nothing is allocated per entry. A peer is named by the keyed hash of its address, so that
//! an answer is remembered even if its peer is not.

use std::collections::VecDeque;

use hashbrown::HashTable;
use thalweg_wire::{Span, Time};

use crate::Code;

/// Action for a repetition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Again {
    /// The response is sent again in an acknowledgement.
    Respond(Code),
    /// An empty acknowledgement: the response came separately.
    Acknowledge,
    /// Nothing: it was not confirmable.
    Ignore,
}

/// Sender and message id of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    /// Hash of the address.
    pub peer: u64,
    pub id: u16,
    /// Of the datagram: another message with the same id is no repetition, but of a peer that has begun again.
    pub fingerprint: u32,
}

/// 32 bytes.
#[derive(Clone, Copy, Debug)]
struct Entry {
    peer: u64,
    at: u32,
    fingerprint: u32,
    /// Where its body begins, counted from the first body ever, and wrapping.
    body: u32,
    body_len: u16,
    id: u16,
    again: Again,
}

/// Old entries are looked for once in so many.
const AT_ONCE: u32 = 32;

#[derive(Debug, Default)]
pub(crate) struct Remembered {
    entries: VecDeque<Entry>,
    /// Number of removed entries, wrapping: entry `n` is at `n - gone`.
    gone: u32,
    /// Entries by peer and id, those from this number on in the first. Nothing is taken out: what has gone is not found,
    /// and when all of the second has gone the first takes its place. So forgetting costs no look at a table.
    young: HashTable<u32>,
    old: HashTable<u32>,
    young_from: u32,
    bodies: VecDeque<u8>,
    bodies_gone: u32,
    pub displaced: u64,
}

impl Remembered {
    /// Returns the action for this message if it is a repetition, and the body of the response. `lifetime` is that of
    /// its type.
    #[inline]
    pub fn find(&self, key: Key, lifetime: Span, now: Time) -> Option<(Again, [&[u8]; 2])> {
        let matches = |n: &u32| {
            self.entry(*n).is_some_and(|e| {
                e.peer == key.peer && e.id == key.id && e.fingerprint == key.fingerprint
            })
        };
        let hash = hash(key.peer, key.id);
        let entry = self.entry(
            *self
                .young
                .find(hash, matches)
                .or_else(|| self.old.find(hash, matches))?,
        )?;
        if entry.is_older(lifetime, now) {
            return None;
        }
        Some((entry.again, self.body(entry)))
    }

    /// Returns the action taken for the peer's last message with this id, whatever its content, if that was within
    /// `lifetime`.
    pub fn find_id(&self, peer: u64, id: u16, lifetime: Span, now: Time) -> Option<Again> {
        let matches = |n: &u32| {
            self.entry(*n)
                .is_some_and(|e| e.peer == peer && e.id == id && !e.is_older(lifetime, now))
        };
        let hash = hash(peer, id);
        let n = self
            .young
            .find(hash, matches)
            .or_else(|| self.old.find(hash, matches))?;
        self.entry(*n).map(|entry| entry.again)
    }

    /// Remembers. The oldest entries go if there are more than `most` or their bodies have more than `most_bytes`.
    pub fn insert(
        &mut self,
        key: Key,
        again: Again,
        body: &[u8],
        now: Time,
        most: usize,
        most_bytes: usize,
    ) {
        while self.entries.len() >= most || self.bodies.len() + body.len() > most_bytes {
            if !self.forget_oldest() {
                return;
            }
            self.displaced += 1;
        }
        let entry = Entry {
            peer: key.peer,
            // Rounded up: nothing is forgotten too early.
            at: ticks(now).wrapping_add(1),
            fingerprint: key.fingerprint,
            body: self.bodies_gone.wrapping_add(self.bodies.len() as u32),
            body_len: body.len() as u16,
            id: key.id,
            again,
        };
        let n = self.gone.wrapping_add(self.entries.len() as u32);
        if self.gone.wrapping_sub(self.young_from).cast_signed() > 0 {
            self.begin_table(n);
        }
        self.bodies.extend(body);
        self.entries.push_back(entry);
        let (entries, gone) = (&self.entries, self.gone);
        let rehash = |n: &u32| {
            entries
                .get(n.wrapping_sub(gone) as usize)
                .map_or(0, |e| hash(e.peer, e.id))
        };
        self.young.insert_unique(hash(key.peer, key.id), n, rehash);
    }

    /// The next entries, from this number on, go into a table of their own.
    #[cold]
    fn begin_table(&mut self, n: u32) {
        std::mem::swap(&mut self.young, &mut self.old);
        self.young.clear();
        if self.young.capacity() / 8 > self.entries.len() {
            // A burst was here.
            self.young = HashTable::new();
        }
        self.young_from = n;
    }

    /// Forgets up to `most` entries older than `lifetime`.
    pub fn forget_old(&mut self, lifetime: Span, now: Time, most: usize) {
        for _ in 0..most {
            match self.entries.front() {
                Some(entry) if entry.is_older(lifetime, now) => self.forget_oldest(),
                _ => return,
            };
        }
    }

    /// Called for each answer: now and then forgets what is older than `lifetime`, more than comes meanwhile.
    #[inline]
    pub fn forget_some_old(&mut self, lifetime: Span, now: Time) {
        let inserted = self.gone.wrapping_add(self.entries.len() as u32);
        if inserted.is_multiple_of(AT_ONCE) {
            self.forget_old(lifetime, now, 4 * AT_ONCE as usize);
        }
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>()
            + self.young.allocation_size()
            + self.old.allocation_size()
            + self.bodies.capacity()
    }

    fn forget_oldest(&mut self) -> bool {
        let Some(entry) = self.entries.pop_front() else {
            return false;
        };
        self.gone = self.gone.wrapping_add(1);
        let len = usize::from(entry.body_len).min(self.bodies.len());
        if len > 0 {
            self.bodies.drain(..len);
            self.bodies_gone = self.bodies_gone.wrapping_add(len as u32);
        }
        true
    }

    #[inline]
    fn entry(&self, n: u32) -> Option<&Entry> {
        self.entries.get(n.wrapping_sub(self.gone) as usize)
    }

    fn body(&self, entry: &Entry) -> [&[u8]; 2] {
        let (first, second) = self.bodies.as_slices();
        let start = entry.body.wrapping_sub(self.bodies_gone) as usize;
        let end = start + usize::from(entry.body_len);
        let part = |of: &'_ [u8], before: usize| -> (usize, usize) {
            (
                start.saturating_sub(before).min(of.len()),
                end.saturating_sub(before).min(of.len()),
            )
        };
        let (a, b) = (part(first, 0), part(second, first.len()));
        [
            first.get(a.0..a.1).unwrap_or_default(),
            second.get(b.0..b.1).unwrap_or_default(),
        ]
    }
}

/// Ids of one peer follow each other: sixteen neighbours are neighbours in the table, too, so that what is looked up, put in
/// and forgotten next is in the processor's cache already. Addresses are hashed with a key.
#[inline]
fn hash(peer: u64, id: u16) -> u64 {
    let (row, place) = (u64::from(id >> 4), u64::from(id & 15));
    let mixed =
        (peer ^ row.wrapping_mul(0xD6E8_FEB8_6659_FD93)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    // The lowest bits say where, the highest seven tell those who are at one place.
    (mixed ^ mixed >> 32).wrapping_add(place) ^ place << 57
}

/// Time in units of 17 milliseconds, which wrap after two years: much longer than anything is remembered.
fn ticks(time: Time) -> u32 {
    (time.nanos() >> 24) as u32
}

impl Entry {
    fn is_older(&self, than: Span, now: Time) -> bool {
        // Below zero just after it was made, because that was rounded up.
        let age = i64::from(ticks(now).wrapping_sub(self.at).cast_signed());
        age > (than.nanos() >> 24) as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFETIME: Span = Span::from_secs(247);
    /// Nanoseconds since 1970, as the server has them.
    const START: Time = Time::from_secs(1_795_000_000);

    fn key(n: u32) -> Key {
        Key {
            peer: u64::from(n >> 8) << 40,
            id: n as u16 & 0xFF,
            fingerprint: n,
        }
    }

    fn body_of(n: u32) -> Vec<u8> {
        vec![n as u8; n as usize % 7]
    }

    #[test]
    fn an_entry_is_32_bytes() {
        assert_eq!(size_of::<Entry>(), 32);
    }

    #[test]
    fn answers_are_found_with_their_bodies_until_their_time_is_over() {
        let mut all = Remembered::default();
        for n in 0..3000_u32 {
            let at = START + Span::from_secs(u64::from(n) / 10);
            all.insert(
                key(n),
                Again::Respond(Code::CHANGED),
                &body_of(n),
                at,
                1 << 20,
                1 << 20,
            );
            all.forget_old(Span::from_secs(100), at, 4);
        }
        let now = START + Span::from_secs(299);
        for n in 0..3000 {
            let found = all.find(key(n), Span::from_secs(100), now);
            assert_eq!(found.is_some(), n >= 1990, "{n}");
            if let Some((again, body)) = found {
                assert_eq!(
                    (again, body.concat()),
                    (Again::Respond(Code::CHANGED), body_of(n)),
                    "{n}"
                );
            }
        }
        assert!(all.len() <= 1020, "{}", all.len());
        assert_eq!(all.displaced, 0);
    }

    #[test]
    fn what_is_remembered_is_found_over_many_tables_and_the_end_of_numbers() {
        let begin = u32::MAX - 2000;
        let mut all = Remembered {
            gone: begin,
            young_from: begin,
            ..Remembered::default()
        };
        for n in 0..5000_u32 {
            all.insert(key(n), Again::Acknowledge, &[], Time::ZERO, 300, 9);
            assert!(all.find(key(n), LIFETIME, Time::ZERO).is_some(), "{n}");
            let oldest = (n + 1).saturating_sub(300);
            assert!(
                all.find(key(oldest), LIFETIME, Time::ZERO).is_some(),
                "{oldest} at {n}"
            );
            assert!(
                oldest == 0 || all.find(key(oldest - 1), LIFETIME, Time::ZERO).is_none(),
                "{n}"
            );
        }
        assert!(
            all.young.len() + all.old.len() <= 601 && all.bytes() < 40 << 10,
            "{} bytes",
            all.bytes()
        );
    }

    #[test]
    fn ids_that_follow_each_other_are_neighbours_and_others_are_not() {
        let (first, last) = (hash(7, 160), hash(7, 175));
        assert_eq!((last as u32).wrapping_sub(first as u32), 15);
        let mut tags: Vec<u64> = (160..176).map(|id| hash(7, id) >> 57).collect();
        tags.sort_unstable();
        tags.dedup();
        assert_eq!(tags.len(), 16);
        assert!((hash(7, 176) as u32).wrapping_sub(last as u32) > 1000);
    }

    #[test]
    fn another_message_with_the_same_id_is_no_repetition() {
        let mut all = Remembered::default();
        all.insert(key(5), Again::Acknowledge, &[], Time::ZERO, 9, 9);
        assert!(all.find(key(5), LIFETIME, Time::ZERO).is_some());
        assert!(
            all.find(
                Key {
                    fingerprint: 6,
                    ..key(5)
                },
                LIFETIME,
                Time::ZERO
            )
            .is_none()
        );
        assert!(
            all.find(Key { peer: 1, ..key(5) }, LIFETIME, Time::ZERO)
                .is_none()
        );
        all.insert(
            Key {
                fingerprint: 6,
                ..key(5)
            },
            Again::Ignore,
            &[],
            Time::ZERO,
            9,
            9,
        );
        assert_eq!(
            all.find(key(5), LIFETIME, Time::ZERO).map(|found| found.0),
            Some(Again::Acknowledge)
        );
    }

    #[test]
    fn number_and_bytes_are_limited_and_the_oldest_go_first() {
        let mut all = Remembered::default();
        for n in 0..100 {
            all.insert(key(n), Again::Acknowledge, &[], Time::ZERO, 10, 100);
        }
        assert_eq!((all.len(), all.displaced), (10, 90));
        assert!(
            all.find(key(89), LIFETIME, Time::ZERO).is_none()
                && all.find(key(90), LIFETIME, Time::ZERO).is_some()
        );
        for n in 100..120 {
            all.insert(
                key(n),
                Again::Respond(Code::CONTENT),
                &[7; 40],
                Time::ZERO,
                10,
                100,
            );
        }
        assert_eq!(all.len(), 2);
        all.insert(
            key(200),
            Again::Respond(Code::CONTENT),
            &[7; 101],
            Time::ZERO,
            10,
            100,
        );
        assert_eq!(all.len(), 0, "what does not fit at all is not remembered");
    }
}
