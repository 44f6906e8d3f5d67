//! What a session is not sent yet because the operator gives its subscribers a rate. It stands beside what waits for the
//! session's output, so that messages of other addresses do not wait behind it.
//!
//! *Knows:* order, bytes, and until when. *Must never know:* a rate, a link, the books.

use super::lanes::Lanes;
use crate::entry::Entry;
use thalweg_model::{Message, Time};

/// The places of the records that give a rate in messages and in bytes: what has the same is counted together.
pub(crate) type Records = [Option<u32>; 2];

/// Until when a copy waits, and for which rate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rest {
    pub records: Records,
    pub until: Time,
}

#[derive(Default)]
pub(crate) struct HeldBack {
    /// None of them is empty. There are few: one for each rate that holds something back.
    resting: Vec<Resting>,
    bytes: usize,
    /// For when a timer was set last.
    timer: Time,
}

struct Resting {
    rest: Rest,
    entries: Lanes,
}

impl HeldBack {
    pub(super) fn is_empty(&self) -> bool {
        self.resting.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.resting.iter().map(|it| it.entries.len()).sum()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Until when what these records hold back waits; `None` if that is nothing.
    pub(super) fn until(&self, records: Records) -> Option<Time> {
        let of_records = self.resting.iter().find(|it| it.rest.records == records);
        of_records.map(|it| it.rest.until)
    }

    /// The place of those that have waited long enough.
    #[cold]
    pub(super) fn due(&self, now: Time) -> Option<usize> {
        let first = self.resting.iter().enumerate();
        let (at, first) = first.min_by_key(|(_, it)| it.rest.until)?;
        (first.rest.until <= now).then_some(at)
    }

    #[cold]
    pub(super) fn front(&self, at: usize) -> Option<&Entry> {
        self.resting.get(at)?.entries.front()
    }

    #[cold]
    pub(super) fn pop_front(&mut self, at: usize) -> Option<Entry> {
        let resting = self.resting.get_mut(at)?;
        let entry = resting.entries.pop_front()?;
        self.bytes -= entry.message.bytes();
        self.forget_empty();
        Some(entry)
    }

    /// Holds back a copy: behind the others, or before them if it was the first of them.
    pub(super) fn add(&mut self, rest: Rest, entry: Entry, is_first: bool) {
        self.bytes += entry.message.bytes();
        let known = self
            .resting
            .iter()
            .position(|it| it.rest.records == rest.records);
        let at = known.unwrap_or_else(|| {
            let entries = Lanes::default();
            self.resting.push(Resting { rest, entries });
            self.resting.len() - 1
        });
        let resting = &mut self.resting[at];
        resting.rest.until = rest.until;
        match is_first {
            true => resting.entries.push_front(entry),
            false => resting.entries.push_back(entry),
        }
    }

    /// When a timer is to be set, unless one is.
    pub(super) fn next_timer(&mut self, now: Time) -> Option<Time> {
        let next = self.resting.iter().map(|it| it.rest.until).min()?;
        let is_set = now < self.timer && self.timer <= next;
        (!is_set).then(|| {
            self.timer = next;
            next
        })
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.resting.iter().flat_map(|it| it.entries.iter())
    }

    pub(super) fn extract(&mut self, mut is: impl FnMut(&Entry) -> bool) -> Vec<Entry> {
        let each = self.resting.iter_mut();
        let found: Vec<Entry> = each.flat_map(|it| it.entries.extract(&mut is)).collect();
        let bytes = found.iter().map(|entry| entry.message.bytes());
        self.bytes -= bytes.sum::<usize>();
        self.forget_empty();
        found
    }

    /// Takes out the oldest of the lowest priority, unless that is above a newcomer's.
    pub(super) fn pop_lowest(&mut self, newcomer: &Message) -> Option<Entry> {
        let mut each = self.resting.iter_mut();
        let entry = each.find_map(|it| it.entries.pop_lowest(newcomer))?;
        self.bytes -= entry.message.bytes();
        self.forget_empty();
        Some(entry)
    }

    pub(super) fn into_entries(self) -> impl Iterator<Item = Entry> {
        let each = self.resting.into_iter();
        each.flat_map(|it| it.entries.into_entries())
    }

    fn forget_empty(&mut self) {
        self.resting.retain(|it| it.entries.len() > 0);
    }
}
