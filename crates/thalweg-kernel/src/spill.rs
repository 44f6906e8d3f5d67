//! The part of a long queue whose messages are on disk only, behind all that is in memory.
//!
//! A newcomer waits in memory until it is written; then only its place is kept. When receivers have taken what is in
//! memory, messages are fetched back, some at a time. The order is: what is being fetched, then `stored`, then `fresh`.
//!
//! *Knows:* order and bytes. *Must never know:* whose it is, the journal, the books.

use crate::effects::Spot;
use crate::recount::same;
use std::collections::VecDeque;
use thalweg_model::Message;
use thalweg_records::{Stored, Waiting};

/// Messages fetched at once, at the most.
const FETCH_MAX: usize = 512;
/// Bytes after which no more messages are fetched at once.
const FETCH_BYTES_MAX: usize = 1 << 20;

/// An entry that can wait on disk.
pub(crate) trait Spilled {
    fn serial(&self) -> u64;
    fn message(&self) -> &Message;
    /// Drops the message, whose record begins at `place` and is `len` bytes long.
    fn stored(self, place: u64, len: u32) -> Stored;
}

pub(crate) struct Spill<T> {
    /// Asked for and not here yet.
    fetching: VecDeque<Stored>,
    /// The number of that question; 0 if nothing is asked for.
    question: u64,
    stored: Waiting,
    /// In memory until they are written.
    fresh: VecDeque<(T, Spot)>,
    /// It is looked after when a batch is written.
    is_watched: bool,
    /// What [`stored_cost`] says of all in `fetching` and `stored`.
    cost: usize,
    /// Memory of the messages in `fresh`.
    fresh_bytes: usize,
}

/// What bounds count for an entry on disk: the memory of its place, and its record.
pub(crate) fn stored_cost(stored: &Stored) -> usize {
    size_of::<Stored>() + stored.len as usize
}

impl<T> Default for Spill<T> {
    fn default() -> Self {
        Spill {
            fetching: VecDeque::new(),
            question: 0,
            stored: Waiting::default(),
            fresh: VecDeque::new(),
            is_watched: false,
            cost: 0,
            fresh_bytes: 0,
        }
    }
}

impl<T: Spilled> Spill<T> {
    /// What an earlier run left.
    pub(crate) fn restored(waiting: Waiting) -> Self {
        Spill {
            cost: waiting.iter().map(|stored| stored_cost(&stored)).sum(),
            stored: waiting,
            ..Spill::default()
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.on_disk() + self.fresh.len()
    }

    /// How many are on disk, asked for or not.
    pub(crate) fn on_disk(&self) -> usize {
        self.fetching.len() + self.stored.len()
    }

    /// What bounds count of those on disk.
    pub(crate) fn cost(&self) -> usize {
        self.cost
    }

    /// What bounds count of all of it.
    pub(crate) fn bytes(&self) -> usize {
        self.cost + self.fresh_bytes
    }

    /// Memory that all of it takes.
    pub(crate) fn memory(&self) -> usize {
        self.on_disk() * size_of::<Stored>() + self.fresh_bytes
    }

    /// Takes a newcomer; [`Spill::found_spot`] must follow. True if it is to be looked after from now on when a batch is
    /// written.
    pub(crate) fn push(&mut self, entry: T) -> bool {
        self.fresh_bytes += entry.message().bytes();
        self.fresh.push_back((entry, Spot::default()));
        !std::mem::replace(&mut self.is_watched, true)
    }

    /// The newcomer has been persisted.
    pub(crate) fn found_spot(&mut self, serial: u64, spot: Spot) {
        if let Some((_, known)) = self
            .fresh
            .back_mut()
            .filter(|(entry, _)| entry.serial() == serial)
        {
            *known = spot;
        }
    }

    /// A frame has been written whose bytes begin at `place`: its messages leave memory, and `each` is called with them and
    /// the lengths of their records. Returns whether others are not written yet.
    pub(crate) fn on_written(
        &mut self,
        frame: u64,
        place: u64,
        mut each: impl FnMut(&Message, u32),
    ) -> bool {
        let is_written = |(_, spot): &mut (T, Spot)| spot.frame == frame;
        while let Some((entry, spot)) = self.fresh.pop_front_if(is_written) {
            self.fresh_bytes -= entry.message().bytes();
            each(entry.message(), spot.len);
            // Serials rise, so it goes to the end.
            self.insert(entry.stored(place + u64::from(spot.offset), spot.len));
        }
        self.is_watched = !self.fresh.is_empty();
        self.is_watched
    }

    /// Adds an entry on disk, which goes by its serial.
    pub(crate) fn insert(&mut self, stored: Stored) {
        let cost = stored_cost(&stored);
        if self.stored.insert(stored).is_ok() {
            self.cost += cost;
        }
    }

    pub(crate) fn is_fetching(&self) -> bool {
        self.question != 0
    }

    /// Where the next messages are that can be fetched, under the number `question`; nothing if none is on disk.
    pub(crate) fn fetch(&mut self, question: u64) -> Option<Vec<(u64, u32)>> {
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

    /// Whether this is the question that is open; it is answered now.
    pub(crate) fn take_answer(&mut self, question: u64) -> bool {
        let is_it = self.question == question;
        if is_it {
            self.question = 0;
        }
        is_it
    }

    /// Takes out the first that was asked for.
    pub(crate) fn pop_fetched(&mut self) -> Option<Stored> {
        let stored = self.fetching.pop_front()?;
        self.cost -= stored_cost(&stored);
        Some(stored)
    }

    /// How many are being fetched.
    pub(crate) fn fetching(&self) -> usize {
        self.fetching.len()
    }

    /// What is being fetched is on disk again: what comes is not known any more.
    pub(crate) fn forget_question(&mut self) -> VecDeque<Stored> {
        self.question = 0;
        let fetching = std::mem::take(&mut self.fetching);
        self.cost -= fetching.iter().map(stored_cost).sum::<usize>();
        fetching
    }

    /// Takes out the first on disk that was not asked for yet.
    pub(crate) fn pop_stored(&mut self) -> Option<Stored> {
        let stored = self.stored.pop_front()?;
        self.cost -= stored_cost(&stored);
        Some(stored)
    }

    /// Takes out the first that is not written yet.
    pub(crate) fn pop_fresh(&mut self) -> Option<T> {
        let (entry, _) = self.fresh.pop_front()?;
        self.fresh_bytes -= entry.message().bytes();
        Some(entry)
    }

    /// What has not even been written, where nothing else is left.
    pub(crate) fn into_fresh(self) -> impl Iterator<Item = T> {
        self.fresh.into_iter().map(|(entry, _)| entry)
    }

    /// What is on disk, in order, and what is not yet.
    pub(crate) fn parts(&self) -> (impl Iterator<Item = Stored>, impl Iterator<Item = &T>) {
        (
            self.fetching.iter().cloned().chain(self.stored.iter()),
            self.fresh.iter().map(|(entry, _)| entry),
        )
    }

    /// Compares its own counts with what is there.
    pub(crate) fn recount(&self) -> Result<(), String> {
        let (on_disk, fresh) = self.parts();
        let cost = on_disk.map(|stored| stored_cost(&stored)).sum();
        same("bytes on disk", self.cost, cost)?;
        let bytes = fresh.map(|entry| entry.message().bytes()).sum();
        same("bytes to be written", self.fresh_bytes, bytes)
    }
}
