//! What waits for a session in memory, by priority.
//!
//! Priorities take [`Turns`]; within a priority the order is that in which they came.
//!
//! *Knows:* order. *Must never know:* a link, the journal, the books.

use crate::entry::Entry;
use crate::turns::{LANES, STRICT, Turns};
use std::collections::{VecDeque, vec_deque};
use thalweg_model::Message;

/// Entries in the order in which they leave. As long as all have one priority this is a queue like any other.
pub(super) enum Lanes {
    Alike(VecDeque<Entry>),
    Several(Box<Several>),
}

#[derive(Default)]
pub(super) struct Several {
    lanes: [Lane; LANES],
    len: usize,
    turns: Turns,
}

#[derive(Default)]
struct Lane {
    entries: VecDeque<Entry>,
    bytes: usize,
}

/// Priorities, one bit each.
#[derive(Clone, Copy)]
pub(super) struct Priorities(u16);

impl Priorities {
    pub(super) const NONE: Priorities = Priorities(0);
    pub(super) const ALL: Priorities = Priorities(u16::MAX);

    pub(super) fn add(&mut self, message: &Message) {
        self.0 |= 1 << lane_of(message);
    }

    pub(super) fn has(self, message: &Message) -> bool {
        self.has_lane(lane_of(message))
    }

    fn has_lane(self, lane: usize) -> bool {
        self.0 & 1 << lane != 0
    }
}

fn lane_of(message: &Message) -> usize {
    usize::from(message.priority()).min(STRICT)
}

impl Default for Lanes {
    fn default() -> Self {
        Lanes::Alike(VecDeque::new())
    }
}

impl Lanes {
    pub(super) fn len(&self) -> usize {
        match self {
            Lanes::Alike(entries) => entries.len(),
            Lanes::Several(several) => several.len,
        }
    }

    /// Whether one is above the lowest.
    pub(super) fn has_priorities(&self) -> bool {
        match self {
            Lanes::Alike(entries) => {
                let first = entries.front();
                first.is_some_and(|first| first.message.priority() > 0)
            }
            Lanes::Several(several) => several.len > 0,
        }
    }

    /// How many there are of some priorities.
    pub(super) fn count_of(&self, priorities: Priorities) -> usize {
        match self {
            Lanes::Alike(entries) => match entries.front() {
                Some(first) if priorities.has(&first.message) => entries.len(),
                _ => 0,
            },
            Lanes::Several(several) => {
                let lanes = several.lanes.iter().enumerate();
                lanes
                    .filter(|(at, _)| priorities.has_lane(*at))
                    .map(|(_, lane)| lane.entries.len())
                    .sum()
            }
        }
    }

    /// Bytes of those that have a message's priority, of `all` that there are.
    pub(super) fn bytes_beside(&self, message: &Message, all: usize) -> usize {
        match self {
            Lanes::Alike(entries) => match entries.front() {
                Some(first) if lane_of(&first.message) != lane_of(message) => 0,
                _ => all,
            },
            Lanes::Several(several) => several.lanes[lane_of(message)].bytes,
        }
    }

    /// The next to leave.
    #[inline]
    pub(super) fn front(&self) -> Option<&Entry> {
        match self {
            Lanes::Alike(entries) => entries.front(),
            Lanes::Several(several) => several.lanes[several.next()?].entries.front(),
        }
    }

    #[inline]
    pub(super) fn pop_front(&mut self) -> Option<Entry> {
        match self {
            Lanes::Alike(entries) => entries.pop_front(),
            Lanes::Several(several) => several.pop_front(),
        }
    }

    #[inline]
    pub(super) fn push_back(&mut self, entry: Entry) {
        match self {
            Lanes::Alike(entries) if is_like_all(entries, &entry) => entries.push_back(entry),
            Lanes::Alike(entries) => {
                let mut several = Several::of(std::mem::take(entries));
                several.push_back(entry);
                *self = Lanes::Several(several);
            }
            Lanes::Several(several) => several.push_back(entry),
        }
    }

    /// What has left as the next, and comes back.
    #[inline]
    pub(super) fn push_front(&mut self, entry: Entry) {
        match self {
            Lanes::Alike(entries) if is_like_all(entries, &entry) => entries.push_front(entry),
            Lanes::Alike(entries) => {
                let mut several = Several::of(std::mem::take(entries));
                several.push_front(entry);
                *self = Lanes::Several(several);
            }
            Lanes::Several(several) => several.push_front(entry),
        }
    }

    /// Takes out the oldest of the lowest priority, unless that is above a message's.
    pub(super) fn pop_lowest(&mut self, newcomer: &Message) -> Option<Entry> {
        let most = lane_of(newcomer);
        match self {
            Lanes::Alike(entries) => {
                let is_below = |first: &mut Entry| lane_of(&first.message) <= most;
                entries.pop_front_if(is_below)
            }
            Lanes::Several(several) => {
                let lanes = &mut several.lanes[..=most];
                let lane = lanes.iter_mut().find(|lane| !lane.entries.is_empty())?;
                several.len -= 1;
                lane.pop_front()
            }
        }
    }

    /// All of them, the highest priority first, and the oldest first in each.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry> {
        let (alike, lanes): (vec_deque::Iter<'_, Entry>, &[Lane]) = match self {
            Lanes::Alike(entries) => (entries.iter(), &[]),
            Lanes::Several(several) => (vec_deque::Iter::default(), &several.lanes),
        };
        alike.chain(lanes.iter().rev().flat_map(|lane| &lane.entries))
    }

    /// The same, to be changed; their messages stay.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        let (alike, lanes): (vec_deque::IterMut<'_, Entry>, &mut [Lane]) = match self {
            Lanes::Alike(entries) => (entries.iter_mut(), &mut []),
            Lanes::Several(several) => (vec_deque::IterMut::default(), &mut several.lanes),
        };
        alike.chain(lanes.iter_mut().rev().flat_map(|lane| &mut lane.entries))
    }

    /// Takes out all that it is asked of and told to, in the order of [`Lanes::iter`].
    pub(super) fn extract(&mut self, mut is: impl FnMut(&Entry) -> bool) -> Vec<Entry> {
        let mut found = Vec::new();
        let mut sift = |entries: &mut VecDeque<Entry>| {
            let mut bytes = 0;
            for entry in std::mem::take(entries) {
                if is(&entry) {
                    bytes += entry.message.bytes();
                    found.push(entry);
                } else {
                    entries.push_back(entry);
                }
            }
            bytes
        };
        match self {
            Lanes::Alike(entries) => _ = sift(entries),
            Lanes::Several(several) => {
                for lane in several.lanes.iter_mut().rev() {
                    lane.bytes -= sift(&mut lane.entries);
                }
                several.len -= found.len();
            }
        }
        found
    }

    /// Gives memory back after a long queue.
    #[inline]
    pub(super) fn shrink(&mut self) {
        match self {
            Lanes::Alike(entries) if entries.capacity() > 1024 => entries.shrink_to(64),
            Lanes::Several(several) if several.len == 0 => *self = Lanes::default(),
            _ => {}
        }
    }

    pub(super) fn into_entries(self) -> VecDeque<Entry> {
        match self {
            Lanes::Alike(entries) => entries,
            Lanes::Several(several) => {
                let lanes = several.lanes.into_iter().rev();
                lanes.flat_map(|lane| lane.entries).collect()
            }
        }
    }
}

impl Several {
    #[cold]
    fn of(entries: VecDeque<Entry>) -> Box<Self> {
        let mut several = Box::<Several>::default();
        for entry in entries {
            several.push_back(entry);
        }
        several
    }

    fn next(&self) -> Option<usize> {
        let waits = |lane: &usize| !self.lanes[*lane].entries.is_empty();
        self.turns.next(waits)
    }

    fn push_back(&mut self, entry: Entry) {
        let at = lane_of(&entry.message);
        let lane = &mut self.lanes[at];
        if lane.entries.is_empty() {
            self.turns.begin(at);
        }
        lane.bytes += entry.message.bytes();
        lane.entries.push_back(entry);
        self.len += 1;
    }

    fn push_front(&mut self, entry: Entry) {
        let at = lane_of(&entry.message);
        self.turns.give_back(at);
        let lane = &mut self.lanes[at];
        lane.bytes += entry.message.bytes();
        lane.entries.push_front(entry);
        self.len += 1;
    }

    fn pop_front(&mut self) -> Option<Entry> {
        let at = self.next()?;
        self.turns.take(at);
        self.len -= 1;
        self.lanes[at].pop_front()
    }
}

impl Lane {
    fn pop_front(&mut self) -> Option<Entry> {
        let entry = self.entries.pop_front()?;
        self.bytes -= entry.message.bytes();
        Some(entry)
    }
}

fn is_like_all(entries: &VecDeque<Entry>, entry: &Entry) -> bool {
    let last = entries.back();
    last.is_none_or(|last| lane_of(&last.message) == lane_of(&entry.message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(priority: u8, serial: u64) -> Entry {
        let entry = Entry::for_test();
        Entry {
            message: entry.message.with_priority(priority),
            serial,
            ..entry
        }
    }

    fn flood(priorities: impl Iterator<Item = u8> + Clone, each: u64) -> Lanes {
        let mut lanes = Lanes::default();
        for serial in 0..each {
            for priority in priorities.clone() {
                lanes.push_back(entry(priority, serial));
            }
        }
        lanes
    }

    fn next(lanes: &mut Lanes) -> Option<u8> {
        let expected = lanes.front().map(|entry| entry.serial);
        let entry = lanes.pop_front();
        assert_eq!(entry.as_ref().map(|entry| entry.serial), expected);
        entry.map(|entry| entry.message.priority())
    }

    #[test]
    fn of_one_priority_there_is_one_queue() {
        let mut lanes = flood(4..=4, 3);
        assert!(matches!(&lanes, Lanes::Alike(entries) if entries.len() == 3));
        lanes.push_back(entry(5, 0));
        assert!(matches!(&lanes, Lanes::Several(several) if several.len == 4));
        while lanes.pop_front().is_some() {}
        lanes.shrink();
        assert!(matches!(&lanes, Lanes::Alike(entries) if entries.is_empty()));
    }

    #[test]
    fn the_highest_priority_goes_first_and_what_is_above_it_is_like_it() {
        let mut lanes = flood([9, 0, 8, 200].into_iter(), 20);
        let first: Vec<_> = (0..40).map(|_| next(&mut lanes).unwrap_or(0)).collect();
        assert_eq!(
            first,
            [9, 200].repeat(20),
            "in the order in which they came"
        );
        assert_eq!(next(&mut lanes), Some(8));
    }

    #[test]
    fn each_priority_has_twice_the_share_of_the_one_below_and_none_starves() {
        const ROUND: usize = (1 << STRICT) - 1;
        let mut lanes = flood(0..STRICT as u8, 600);
        for round in 0..2 {
            let mut counts = [0; STRICT];
            for _ in 0..ROUND {
                counts[usize::from(next(&mut lanes).expect("all are there"))] += 1;
            }
            let shares: Vec<_> = (0..STRICT).map(|lane| 1 << lane).collect();
            assert_eq!(counts[..], shares, "round {round}");
        }
    }

    #[test]
    fn what_comes_while_lower_ones_wait_has_one_of_them_before_it_at_the_most() {
        for (flood_of, higher) in (0..8).flat_map(|low| (low + 1..=9).map(move |high| (low, high)))
        {
            let mut lanes = flood(flood_of..=flood_of, 1000);
            for count in 0..100 {
                (0..count % 7).for_each(|_| _ = lanes.pop_front());
                lanes.push_back(entry(higher, 0));
                let before = (0..).take_while(|_| next(&mut lanes) != Some(higher));
                assert!(before.count() <= 1, "{higher} above {flood_of}");
            }
        }
    }

    #[test]
    fn what_did_not_leave_is_the_next_again() {
        let mut lanes = flood(0..=9, 3);
        while let Some(entry) = lanes.pop_front() {
            let (priority, serial) = (entry.message.priority(), entry.serial);
            lanes.push_front(entry);
            let again = lanes.pop_front().expect("it is there");
            assert_eq!((again.message.priority(), again.serial), (priority, serial));
        }
    }

    #[test]
    fn room_is_made_from_below_and_never_above_the_newcomer() {
        let mut lanes = flood([3, 7].into_iter(), 2);
        let dropped = |lanes: &mut Lanes, newcomer: u8| {
            let dropped = lanes.pop_lowest(&entry(newcomer, 0).message)?;
            Some((dropped.message.priority(), dropped.serial))
        };
        assert_eq!(dropped(&mut lanes, 2), None);
        assert_eq!(dropped(&mut lanes, 9), Some((3, 0)));
        assert_eq!(dropped(&mut lanes, 3), Some((3, 1)));
        assert_eq!(dropped(&mut lanes, 6), None);
        assert_eq!(dropped(&mut lanes, 7), Some((7, 0)));
        assert_eq!(lanes.len(), 1);
        let mut alike = flood(5..=5, 1);
        assert_eq!(dropped(&mut alike, 4), None);
        assert_eq!(dropped(&mut alike, 5), Some((5, 0)));
    }

    #[test]
    fn whatever_happens_the_order_within_a_priority_stays_and_the_counts_are_right() {
        for seed in 0..50u64 {
            let (mut lanes, mut there) = (Lanes::default(), Vec::<(u8, u64)>::new());
            let mut random = seed;
            for serial in 0..400 {
                random = random.wrapping_mul(6364136223846793005).wrapping_add(1);
                let (what, priority) = (random >> 60, (random >> 40) as u8 % 12);
                match what {
                    0..9 => {
                        lanes.push_back(entry(priority, serial));
                        there.push((priority, serial));
                    }
                    9..15 => {
                        let Some(first) = lanes.pop_front() else {
                            assert!(there.is_empty());
                            continue;
                        };
                        let lane = lane_of(&first.message);
                        let oldest = there
                            .iter()
                            .position(|(priority, _)| usize::from(*priority).min(STRICT) == lane)
                            .expect("it is there");
                        assert_eq!(there.remove(oldest).1, first.serial, "seed {seed}");
                    }
                    _ => {
                        let taken = lanes.extract(|entry| entry.serial % 5 == 0);
                        let before = there.len();
                        there.retain(|(_, serial)| serial % 5 != 0);
                        assert_eq!(taken.len(), before - there.len());
                        lanes.shrink();
                    }
                }
                assert_eq!(
                    (lanes.len(), lanes.iter().count()),
                    (there.len(), there.len())
                );
                assert_eq!(lanes.count_of(Priorities::ALL), there.len());
                if let Lanes::Several(several) = &lanes {
                    for lane in &several.lanes {
                        let bytes = lane.entries.iter().map(|entry| entry.message.bytes());
                        assert_eq!(lane.bytes, bytes.sum::<usize>(), "seed {seed}");
                    }
                }
            }
        }
    }
}
