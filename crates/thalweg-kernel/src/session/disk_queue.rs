//! The part of a session's queue whose messages are on disk only.
//!
//! A queue that grows beyond its share of memory goes on here: a newcomer waits in memory until it is written, then only
//! its place is kept. When the receiver has taken what is in memory, messages are fetched back, some at a time. The
//! order of the whole backlog is: what is in memory, then what is being fetched, then `stored`, then `fresh`.

use crate::effects::Spot;
use crate::entry::{Entry, SubscriptionIds, Via};
use crate::ledger::AccountPlace;
use std::collections::VecDeque;
use std::sync::Arc;
use thalweg_model::{Message, Time};
use thalweg_records::{Stored, Waiting};

/// Messages fetched at once, at the most.
const FETCH_MAX: usize = 256;
/// Bytes after which no more messages are fetched at once.
const FETCH_BYTES_MAX: usize = 1 << 20;

#[derive(Default)]
pub(super) struct DiskQueue {
    /// Asked for and not here yet.
    fetching: VecDeque<Stored>,
    /// The number of that question; 0 if nothing is asked for.
    question: u64,
    stored: Waiting,
    fresh: VecDeque<Fresh>,
    /// The kernel looks after it when a batch is written.
    watched: bool,
    /// What [`stored_cost`] says of all in `fetching` and `stored`.
    bytes: usize,
    /// Where those of `fetching` and `stored` are booked by address, if anybody keeps such books. What an earlier run left
    /// is not booked yet and has no place here, so this belongs to the last of them.
    places: VecDeque<AccountPlace>,
}

/// In memory until it is written.
struct Fresh {
    entry: Entry,
    spot: Spot,
}

/// Memory that an entry on disk takes, for byte bounds.
fn stored_cost(stored: &Stored) -> usize {
    size_of::<Stored>() + stored.len as usize
}

impl DiskQueue {
    /// What is left of an earlier run.
    pub(super) fn restored(waiting: Waiting) -> Self {
        let bytes = waiting.iter().map(|stored| stored_cost(&stored)).sum();
        DiskQueue {
            stored: waiting,
            bytes,
            ..DiskQueue::default()
        }
    }

    pub(super) fn len(&self) -> usize {
        self.fetching.len() + self.stored.len() + self.fresh.len()
    }

    /// Bytes on disk, as the queue's byte bound counts them.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn memory(&self) -> usize {
        (self.fetching.len() + self.stored.len()) * size_of::<Stored>()
    }

    /// The same and the bytes of messages that are not written yet, and what [`DiskQueue::bytes`] says with those: both
    /// counted anew.
    pub(super) fn recount(&self) -> (usize, usize) {
        let on_disk: usize = self.fetching.iter().map(stored_cost).sum::<usize>()
            + self
                .stored
                .iter()
                .map(|stored| stored_cost(&stored))
                .sum::<usize>();
        let fresh = self.fresh.iter().map(|fresh| fresh.entry.message.bytes());
        let fresh: usize = fresh.sum();
        (self.memory() + fresh, on_disk + fresh)
    }

    /// Takes a newcomer; [`DiskQueue::found_spot`] must follow. True if it is to be looked after from now on when a batch is
    /// written.
    pub(super) fn push(&mut self, entry: Entry) -> bool {
        self.fresh.push_back(Fresh {
            entry,
            spot: Spot::default(),
        });
        !std::mem::replace(&mut self.watched, true)
    }

    /// The newcomer has been persisted.
    pub(super) fn found_spot(&mut self, serial: u64, spot: Spot) {
        if let Some(fresh) = self
            .fresh
            .back_mut()
            .filter(|fresh| fresh.entry.serial == serial)
        {
            fresh.spot = spot;
        }
    }

    /// Takes out of memory the next message that was written in this frame, whose bytes begin at `place`: the bytes it took
    /// there, and those that the queue's byte bound counts for it from now on.
    pub(super) fn unload(
        &mut self,
        frame: u64,
        place: u64,
        account: impl Fn(&str) -> Option<AccountPlace>,
    ) -> Option<(usize, usize)> {
        let is_written = |fresh: &mut Fresh| fresh.spot.frame == frame;
        let Fresh { entry, spot } = self.fresh.pop_front_if(is_written)?;
        let in_memory = entry.message.bytes();
        self.places.extend(account(entry.message.address()));
        let stored = stored(entry, place + u64::from(spot.offset), spot.len);
        let on_disk = stored_cost(&stored);
        self.bytes += on_disk;
        // Serials rise, so it goes to the end.
        let _ = self.stored.insert(stored);
        Some((in_memory, on_disk))
    }

    /// Whether messages are not written yet; if not, it need not be looked after.
    pub(super) fn still_spills(&mut self) -> bool {
        self.watched = !self.fresh.is_empty();
        self.watched
    }

    pub(super) fn is_fetching(&self) -> bool {
        self.question != 0
    }

    /// Where the next messages are that can be fetched, under the number `question`; nothing if none is on disk.
    pub(super) fn fetch(&mut self, question: u64) -> Option<Vec<(u64, u32)>> {
        let (mut places, mut bytes) = (Vec::new(), 0);
        while places.len() < FETCH_MAX
            && bytes < FETCH_BYTES_MAX
            && let Some(stored) = self.stored.pop_front()
        {
            bytes += stored.len as usize;
            places.push((stored.place, stored.len));
            self.fetching.push_back(stored);
        }
        if places.is_empty() {
            return None;
        }
        self.question = question;
        Some(places)
    }

    /// What has not even been written, where nothing else is left.
    pub(super) fn into_fresh(self) -> impl Iterator<Item = Entry> {
        self.fresh.into_iter().map(|fresh| fresh.entry)
    }

    pub(super) fn take_answer(&mut self, question: u64) -> bool {
        let is_it = self.question == question;
        if is_it {
            self.question = 0;
        }
        is_it
    }

    /// The oldest that was asked for, where it is booked, and what the queue's byte bound counted for it.
    pub(super) fn pop_fetched(&mut self) -> Option<(Stored, Option<AccountPlace>, usize)> {
        if self.fetching.is_empty() {
            return None;
        }
        let place = self.take_place(0);
        let stored = self.fetching.pop_front()?;
        let cost = stored_cost(&stored);
        self.bytes -= cost;
        Some((stored, place, cost))
    }

    /// Takes the oldest out, to drop it. What is being fetched is left alone.
    pub(super) fn drop_front(&mut self) -> Option<Dropped> {
        if !self.stored.is_empty() {
            let place = self.take_place(self.fetching.len());
            let stored = self.stored.pop_front()?;
            let bytes = stored_cost(&stored);
            self.bytes -= bytes;
            return Some(Dropped {
                serial: stored.serial,
                bytes,
                memory: size_of::<Stored>(),
                place,
                message: None,
            });
        }
        let entry = self.fresh.pop_front()?.entry;
        let bytes = entry.message.bytes();
        Some(Dropped {
            serial: entry.serial,
            bytes,
            memory: bytes,
            place: None,
            message: Some(entry.message),
        })
    }

    /// Where the one at this place of `fetching` and `stored` is booked, which is about to be taken out.
    fn take_place(&mut self, at: usize) -> Option<AccountPlace> {
        let not_booked = self.fetching.len() + self.stored.len() - self.places.len();
        self.places.remove(at.checked_sub(not_booked)?)
    }

    /// Where all of those are booked that are, and the messages that are in memory still.
    pub(super) fn into_books(self) -> (VecDeque<AccountPlace>, Vec<Message>) {
        let fresh = self.fresh.into_iter().map(|fresh| fresh.entry.message);
        (self.places, fresh.collect())
    }
}

/// What was dropped from a disk queue.
pub(crate) struct Dropped {
    pub serial: u64,
    /// What the queue's byte bound counted.
    pub bytes: usize,
    /// What it held of the process's memory.
    pub memory: usize,
    /// Where it is booked by address, if it is.
    pub place: Option<AccountPlace>,
    /// Its message, if that is in memory still.
    pub message: Option<Message>,
}

/// An entry without its message.
fn stored(entry: Entry, place: u64, len: u32) -> Stored {
    let expires = entry.message.expires();
    let rare = match &entry.via {
        Via::Own(SubscriptionIds::Many(ids)) => Some(Box::new((0, ids.to_vec()))),
        _ => None,
    };
    Stored {
        serial: entry.serial,
        place,
        len,
        expires_secs: match expires {
            Time::NEVER => 0,
            at => at.nanos().div_ceil(1_000_000_000).min(u64::from(u32::MAX)) as u32,
        },
        subscription_id: match entry.via {
            Via::Own(SubscriptionIds::One(id)) => id,
            _ => 0,
        },
        reliability: entry.reliability,
        retain: entry.retain,
        deliveries: entry.deliveries,
        rare,
    }
}

/// An entry with its message again.
pub(crate) fn entry(stored: Stored, message: Message) -> Entry {
    let subscription_ids = match (stored.rare, stored.subscription_id) {
        (Some(rare), _) if !rare.1.is_empty() => SubscriptionIds::Many(Arc::new(rare.1)),
        (_, id) => SubscriptionIds::of(id),
    };
    Entry {
        message,
        via: Via::Own(subscription_ids),
        serial: stored.serial,
        of_group: false,
        reliability: stored.reliability,
        retain: stored.retain,
        deliveries: stored.deliveries,
    }
}
