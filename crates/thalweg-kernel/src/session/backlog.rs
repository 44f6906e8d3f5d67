//! What waits for a session: in memory by priority, and behind that on disk only, where it is in the order in which it
//! came.
//!
//! *Knows:* order, and the bytes of both. *Must never know:* a link, the journal, the books; callers book what they are given.

use super::held_back::{HeldBack, Records, Rest};
use super::lanes::{Lanes, Priorities};
use crate::effects::Spot;
use crate::entry::Entry;
use crate::ids::GroupId;
use crate::ledger::AccountPlace;
use crate::publish::pace::{Pace, SLOW_FROM, eighths};
use crate::recount::{Held, same};
use crate::spill::{Spill, stored_cost};
use std::collections::{BTreeMap, VecDeque};
use thalweg_model::{Message, Span, Time};
use thalweg_records::{Stored, Waiting};

/// Fewer in memory than this: the next are fetched.
const FETCH_BELOW: usize = 128;

#[derive(Default)]
pub(crate) struct Backlog {
    memory: Lanes,
    /// Of all that waits, in memory and on disk, without what is held back.
    bytes: usize,
    /// What waits behind those in `memory` of the same priority; nothing if all is there.
    disk: Option<Box<Disk>>,
    /// Once publishers have waited for it, or something was held back.
    slow: Option<Box<Slow>>,
}

/// What only sessions have that are slower than what comes for them.
#[derive(Default)]
struct Slow {
    pace: Pace,
    held: HeldBack,
}

/// What waits on disk.
struct Disk {
    spill: Spill<Entry>,
    /// Where those that are written are booked by address, if accounts by address are configured. What an earlier run
    /// left is not booked yet and has no place here, so this belongs to the last of them.
    places: Places,
    /// Those that some of them may have. What has another need not wait behind them.
    priorities: Priorities,
}

impl Default for Disk {
    fn default() -> Self {
        Disk {
            spill: Spill::default(),
            places: Places::default(),
            priorities: Priorities::NONE,
        }
    }
}

/// Where messages are booked by address, in their order.
#[derive(Default)]
struct Places {
    all: VecDeque<AccountPlace>,
    /// How many are booked at each.
    counts: BTreeMap<AccountPlace, usize>,
}

impl Places {
    fn push(&mut self, place: AccountPlace) {
        *self.counts.entry(place).or_default() += 1;
        self.all.push_back(place);
    }

    fn remove(&mut self, at: usize) -> Option<AccountPlace> {
        let place = self.all.remove(at)?;
        if let Some(count) = self.counts.get_mut(&place) {
            *count -= 1;
        }
        Some(place)
    }
}

/// What was dropped of what waits on disk.
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

impl Disk {
    /// Where the one at this place of those that are written is booked, which is about to be taken out.
    fn take_place(&mut self, at: usize) -> Option<AccountPlace> {
        let not_booked = self.spill.on_disk() - self.places.all.len();
        self.places.remove(at.checked_sub(not_booked)?)
    }

    /// Takes the oldest out, to drop it. What is being fetched is left alone.
    fn drop_front(&mut self) -> Option<Dropped> {
        let fetching = self.spill.fetching();
        if self.spill.on_disk() > fetching {
            let place = self.take_place(fetching);
            let stored = self.spill.pop_stored()?;
            return Some(Dropped {
                serial: stored.serial,
                bytes: stored_cost(&stored),
                memory: size_of::<Stored>(),
                place,
                message: None,
            });
        }
        let entry = self.spill.pop_fresh()?;
        let bytes = entry.message.bytes();
        Some(Dropped {
            serial: entry.serial,
            bytes,
            memory: bytes,
            place: None,
            message: Some(entry.message),
        })
    }
}

/// The oldest that waited, dropped.
pub(crate) enum Oldest {
    InMemory(Entry),
    OnDisk(Dropped),
}

/// What it takes to have more in memory.
pub(crate) enum Refill {
    /// Nothing can be done, or need be.
    Nothing,
    /// Messages at these places are to be fetched.
    Fetch(Vec<(u64, u32)>),
    /// All that was left has never been on disk, and is in memory now.
    Done,
}

/// What a batch that was written changes.
pub(crate) struct Unloaded {
    /// Bytes of messages that left memory.
    pub left: usize,
    /// Bytes of the places that they leave.
    pub entered: usize,
    /// Others are not written yet.
    pub spills: bool,
}

impl Backlog {
    /// Until when publishers wait for it, which has room for so many messages and bytes and of which so many were `taken`.
    pub(super) fn pause(
        &mut self,
        taken: u64,
        (messages_max, bytes_max): (usize, usize),
        patience: Span,
        now: Time,
    ) -> Option<Time> {
        let eighths = eighths(self.len(), messages_max).max(eighths(self.bytes(), bytes_max));
        if eighths < SLOW_FROM {
            return None;
        }
        let slow = self.slow.get_or_insert_default();
        slow.pace.pause(taken, eighths, patience, now)
    }

    /// What an earlier run left on disk.
    pub(super) fn restored(waiting: Waiting) -> Self {
        let spill = Spill::restored(waiting);
        let (bytes, places) = (spill.cost(), Places::default());
        let disk = Disk {
            spill,
            places,
            priorities: Priorities::ALL,
        };
        Backlog {
            bytes,
            disk: (bytes > 0).then(|| Box::new(disk)),
            ..Backlog::default()
        }
    }

    /// Whether nothing waits for its turn, though something may be held back.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        // Each takes some.
        self.bytes == 0
    }

    /// How many copies wait, in memory and on disk.
    pub(crate) fn len(&self) -> usize {
        let held = self.held().map_or(0, HeldBack::len);
        held + self.memory.len() + self.disk.as_ref().map_or(0, |disk| disk.spill.len())
    }

    /// Bytes of all that waits, in memory and on disk, as its bound counts them.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes + self.held_bytes()
    }

    /// Memory that what waits takes.
    pub(crate) fn memory_held(&self) -> usize {
        let disk = self.disk.as_deref();
        let (cost, places) = disk.map_or((0, 0), |Disk { spill, .. }| {
            (spill.cost(), spill.on_disk() * size_of::<Stored>())
        });
        self.bytes() - cost + places
    }

    /// Whether something waits behind what is in memory.
    #[inline]
    pub(crate) fn is_on_disk(&self) -> bool {
        self.disk.is_some()
    }

    /// Whether anything in memory has a priority.
    pub(crate) fn has_priorities(&self) -> bool {
        self.memory.has_priorities()
    }

    /// Whether a newcomer has to wait on disk, behind others of its priority.
    pub(crate) fn is_behind_disk(&self, newcomer: &Message) -> bool {
        let disk = self.disk.as_deref();
        disk.is_some_and(|disk| disk.priorities.has(newcomer))
    }

    /// Bytes in memory of what waits before a newcomer, whatever goes first.
    pub(crate) fn memory_before(&self, newcomer: &Message) -> usize {
        let disk = self.disk.as_deref();
        let on_disk = disk.map_or(0, |disk| disk.spill.bytes());
        self.held_bytes() + self.memory.bytes_beside(newcomer, self.bytes - on_disk)
    }

    /// What waits in memory, the highest priority first, and the oldest first in each; then what is held back.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Entry> {
        let held = self.held().into_iter();
        self.memory.iter().chain(held.flat_map(HeldBack::iter))
    }

    /// What came through a group is the session's own from now on: names in the journal's queue of the group.
    pub(super) fn detach_from_group(&mut self, group: GroupId) -> Vec<u64> {
        let mut serials = Vec::new();
        let of_group = |entry: &&mut Entry| entry.group() == Some(group);
        for entry in self.memory.iter_mut().filter(of_group) {
            entry.leave_group();
            if std::mem::take(&mut entry.of_group) {
                serials.push(std::mem::take(&mut entry.serial));
            }
        }
        serials
    }

    /// The group's queue in the journal has ended.
    pub(super) fn forget_serials_of_group(&mut self, group: GroupId) {
        let of_group = |entry: &&mut Entry| entry.group() == Some(group) && entry.of_group;
        for entry in self.memory.iter_mut().filter(of_group) {
            (entry.serial, entry.of_group) = (0, false);
        }
    }

    #[inline]
    pub(crate) fn front(&self) -> Option<&Entry> {
        self.memory.front()
    }

    #[inline]
    pub(crate) fn push_back(&mut self, entry: Entry) {
        self.bytes += entry.message.bytes();
        self.memory.push_back(entry);
    }

    /// What did not leave after all.
    pub(crate) fn push_front(&mut self, entry: Entry) {
        self.bytes += entry.message.bytes();
        self.memory.push_front(entry);
    }

    #[inline]
    pub(crate) fn pop_front(&mut self) -> Option<Entry> {
        let entry = self.memory.pop_front()?;
        self.bytes -= entry.message.bytes();
        Some(entry)
    }

    /// Takes out the oldest of the lowest priority, to drop it for a newcomer; nothing if all in memory have a higher one
    /// than that, and all that is left is being fetched.
    pub(crate) fn drop_oldest(&mut self, newcomer: &Message) -> Option<Oldest> {
        if let Some(entry) = self.held_mut().and_then(|it| it.pop_lowest(newcomer)) {
            return Some(Oldest::InMemory(entry));
        }
        if let Some(entry) = self.memory.pop_lowest(newcomer) {
            self.bytes -= entry.message.bytes();
            return Some(Oldest::InMemory(entry));
        }
        let dropped = self.disk.as_deref_mut()?.drop_front()?;
        self.bytes -= dropped.bytes;
        Some(Oldest::OnDisk(dropped))
    }

    /// Takes out of memory what `is`, in order.
    pub(crate) fn extract(&mut self, is: impl Fn(&Entry) -> bool) -> Vec<Entry> {
        self.extract_while(is, || true)
    }

    /// The same as long as it `may`, which is asked before each.
    pub(crate) fn extract_while(
        &mut self,
        is: impl Fn(&Entry) -> bool,
        mut may: impl FnMut() -> bool,
    ) -> Vec<Entry> {
        if !self.iter().any(&is) {
            return Vec::new();
        }
        let mut may_still = true;
        let mut takes = |entry: &Entry| {
            let is_one = is(entry);
            may_still = may_still && (!is_one || may());
            may_still && is_one
        };
        let mut found = self.memory.extract(&mut takes);
        let bytes = found.iter().map(|entry| entry.message.bytes());
        self.bytes -= bytes.sum::<usize>();
        if let Some(held) = self.held_mut() {
            found.extend(held.extract(takes));
        }
        found
    }

    /// Gives memory back after a long queue.
    #[inline]
    pub(crate) fn shrink(&mut self) {
        self.memory.shrink();
    }

    // --- held back

    fn held(&self) -> Option<&HeldBack> {
        self.slow.as_deref().map(|slow| &slow.held)
    }

    fn held_mut(&mut self) -> Option<&mut HeldBack> {
        self.slow.as_deref_mut().map(|slow| &mut slow.held)
    }

    pub(crate) fn held_bytes(&self) -> usize {
        self.held().map_or(0, HeldBack::bytes)
    }

    pub(crate) fn holds_back(&self) -> bool {
        self.held().is_some_and(|held| !held.is_empty())
    }

    /// Until when what is held back for a rate waits; `None` if that is nothing.
    pub(crate) fn held_until(&self, records: Records) -> Option<Time> {
        self.held()?.until(records)
    }

    /// Holds back a copy: behind the others, or before them if it was the first of them.
    pub(crate) fn hold_back(&mut self, rest: Rest, entry: Entry, is_first: bool) {
        let slow = self.slow.get_or_insert_default();
        slow.held.add(rest, entry, is_first);
    }

    /// When a timer is to be set for what is held back, unless one is.
    pub(crate) fn next_timer(&mut self, now: Time) -> Option<Time> {
        self.held_mut()?.next_timer(now)
    }

    /// The place of what was held back and may leave now.
    #[inline]
    pub(crate) fn due(&self, now: Time) -> Option<usize> {
        match &self.slow {
            None => None,
            Some(slow) => slow.held.due(now),
        }
    }

    /// The next to leave: of what was held back at this place, or of all else.
    #[inline]
    pub(crate) fn next(&self, due: Option<usize>) -> Option<&Entry> {
        match due {
            None => self.front(),
            Some(at) => self.held()?.front(at),
        }
    }

    #[inline]
    pub(crate) fn pop_next(&mut self, due: Option<usize>) -> Option<Entry> {
        match due {
            None => self.pop_front(),
            Some(at) => self.held_mut()?.pop_front(at),
        }
    }

    /// What is held back waits before all else from now on; false if that is nothing.
    pub(crate) fn let_go(&mut self) -> bool {
        let held = self.held_mut().map(std::mem::take).unwrap_or_default();
        let entries: Vec<Entry> = held.into_entries().collect();
        let is_some = !entries.is_empty();
        entries.into_iter().rev().for_each(|it| self.push_front(it));
        is_some
    }

    // --- on disk

    /// Puts a newcomer behind all that waits; true if the queue is to be looked after from now on when a batch is written.
    pub(crate) fn push_to_disk(&mut self, entry: Entry) -> bool {
        self.bytes += entry.message.bytes();
        let disk = self.disk.get_or_insert_default();
        disk.priorities.add(&entry.message);
        disk.spill.push(entry)
    }

    /// The newcomer has been persisted.
    pub(crate) fn found_spot(&mut self, serial: u64, spot: Spot) {
        if let Some(disk) = self.disk.as_deref_mut() {
            disk.spill.found_spot(serial, spot);
        }
    }

    /// A frame has been written whose bytes begin at `place`: what of it waits on disk leaves memory. `account` says where an
    /// address is booked, if there are such books.
    pub(crate) fn on_written(
        &mut self,
        frame: u64,
        place: u64,
        account: impl Fn(&str) -> Option<AccountPlace>,
    ) -> Unloaded {
        let (mut left, mut entered) = (0, 0);
        let Some(Disk { spill, places, .. }) = self.disk.as_deref_mut() else {
            let spills = false;
            return Unloaded {
                left,
                entered,
                spills,
            };
        };
        let spills = spill.on_written(frame, place, |message, len| {
            account(message.address())
                .into_iter()
                .for_each(|place| places.push(place));
            left += message.bytes();
            entered += size_of::<Stored>();
            self.bytes = self.bytes - message.bytes() + size_of::<Stored>() + len as usize;
        });
        Unloaded {
            left,
            entered,
            spills,
        }
    }

    /// What to fetch under the number `question`, so that more is in memory. What was never on disk comes at once.
    pub(crate) fn refill(&mut self, question: u64) -> Refill {
        let Some(disk) = self.disk.as_deref_mut() else {
            return Refill::Nothing;
        };
        // What goes before all of it does not keep it there.
        let before = self.memory.count_of(disk.priorities);
        if disk.spill.is_fetching() || before >= FETCH_BELOW {
            return Refill::Nothing;
        }
        if let Some(places) = disk.spill.fetch(question) {
            return Refill::Fetch(places);
        }
        let before = self.memory.len();
        if let Some(disk) = self.disk.take() {
            for entry in disk.spill.into_fresh() {
                self.memory.push_back(entry);
            }
        }
        match self.memory.len() > before {
            true => Refill::Done,
            false => Refill::Nothing,
        }
    }

    /// Whether this is the question that was asked last; it is answered now.
    pub(crate) fn take_answer(&mut self, question: u64) -> bool {
        self.disk
            .as_deref_mut()
            .is_some_and(|disk| disk.spill.take_answer(question))
    }

    /// Takes out the oldest that was asked for, which is not on disk from now on, and where it is booked.
    pub(crate) fn pop_fetched(&mut self) -> Option<(Stored, Option<AccountPlace>)> {
        let disk = self.disk.as_deref_mut()?;
        if disk.spill.fetching() == 0 {
            return None;
        }
        let place = disk.take_place(0);
        let stored = disk.spill.pop_fetched()?;
        self.bytes -= stored_cost(&stored);
        Some((stored, place))
    }

    // --- the end

    /// What waits in memory; on disk, how many are booked where, and how many nowhere; and messages that were to go there.
    pub(super) fn into_parts(self) -> Parts {
        let mut entries = self.memory.into_entries();
        let held = self.slow.into_iter();
        entries.extend(held.flat_map(|slow| slow.held.into_entries()));
        let mut parts = Parts {
            entries,
            places: BTreeMap::new(),
            unbooked: 0,
            fresh: Vec::new(),
        };
        if let Some(disk) = self.disk {
            parts.unbooked = disk.spill.on_disk() - disk.places.all.len();
            parts.places = disk.places.counts;
            let fresh = disk.spill.into_fresh();
            parts.fresh = fresh.map(|entry| entry.message).collect();
        }
        parts
    }

    /// Copies and the memory they take, counted anew.
    pub(crate) fn recount(&self) -> Result<Held, String> {
        let held = self.held().into_iter().flat_map(HeldBack::iter);
        let held: usize = held.map(|entry| entry.message.bytes()).sum();
        same("bytes that are held back", self.held_bytes(), held)?;
        let in_memory: usize = self.iter().map(|entry| entry.message.bytes()).sum();
        let spill = self.disk.as_deref().map(|disk| &disk.spill);
        spill.map_or(Ok(()), Spill::recount)?;
        let memory = spill.map_or(0, Spill::memory);
        let places = spill.map_or(0, |spill| spill.on_disk() * size_of::<Stored>());
        let bytes = spill.map_or(0, |spill| spill.cost() + memory - places);
        same("bytes that wait", self.bytes(), in_memory + bytes)?;
        same("memory", self.memory_held(), in_memory + memory)?;
        Ok(Held {
            waiting: self.len(),
            in_flight: 0,
            bytes: in_memory + memory,
        })
    }
}

/// What is left of a backlog whose session ends.
pub(super) struct Parts {
    pub entries: VecDeque<Entry>,
    pub places: BTreeMap<AccountPlace, usize>,
    pub unbooked: usize,
    pub fresh: Vec<Message>,
}
