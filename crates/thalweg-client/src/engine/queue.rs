//! Order of sending to the brokers of one way: by priority, then in the order of publishing; a message may have to wait
//! for an earlier one of its topic.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

use thalweg_model::Reliability;

use super::outbox::{Key, Outbox, Place};

/// Priorities 0 to 9.
pub(super) const CLASSES: usize = 10;

/// Where messages of a way wait.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// One queue per priority, each sorted. Entries that are settled meanwhile are skipped.
    lines: [VecDeque<Key>; CLASSES],
    /// Topics with a message under way or parked; kept only while `is_serial`.
    topics: HashMap<u64, Topic, TopicHash>,
    /// One message of a topic at a time.
    is_serial: bool,
    /// At-most-once messages have to wait: earlier ones may still be in flight on another lane.
    holds_gone: bool,
    /// Those that wait for it, in order.
    held: VecDeque<Key>,
    /// Upper bound of the entries to skip.
    stale: usize,
}

/// State of a topic.
#[derive(Debug, Default)]
struct Topic {
    /// Its messages that are awaited.
    under_way: u32,
    /// Stands in its line and goes before those that are parked.
    released: Option<Key>,
    /// Have to wait, in order.
    parked: VecDeque<Key>,
}

impl Queue {
    /// A message that waits: it stands before those that were published after it.
    pub fn push(&mut self, key: Key, outbox: &Outbox) {
        let Some(line) = outbox
            .get(key)
            .and_then(|slot| self.lines.get_mut(usize::from(slot.class)))
        else {
            return;
        };
        if line.back().is_none_or(|back| *back < key) {
            line.push_back(key);
        } else if line.front().is_some_and(|front| key < *front) {
            line.push_front(key);
        } else {
            let at = line.partition_point(|other| *other < key);
            line.insert(at, key);
        }
    }

    /// The next message, with the line that it stands in; [`Queue::pop`] takes it.
    pub fn next(&mut self, outbox: &Outbox) -> Option<(Key, usize)> {
        (0..CLASSES)
            .rev()
            .find_map(|class| self.next_of(class, outbox))
    }

    /// As [`Queue::next`], of one line.
    pub fn next_of(&mut self, class: usize, outbox: &Outbox) -> Option<(Key, usize)> {
        let line = self.lines.get_mut(class)?;
        while let Some(&key) = line.front() {
            match outbox.get(key).filter(|slot| slot.place == Place::Waiting) {
                None => {
                    line.pop_front();
                    self.stale = self.stale.saturating_sub(1);
                }
                Some(slot) if self.holds_gone && slot.reliability == Reliability::AtMostOnce => {
                    line.pop_front();
                    self.held.push_back(key);
                }
                Some(slot) => match self.topics.get_mut(&slot.topic) {
                    Some(topic) if topic.under_way > 0 || topic.released != Some(key) => {
                        line.pop_front();
                        topic.parked.push_back(key);
                    }
                    _ => return Some((key, class)),
                },
            }
        }
        None
    }

    /// Takes what [`Queue::next`] gave: it has left, and is awaited or not.
    pub fn pop(&mut self, class: usize, topic: u64, is_awaited: bool, outbox: &Outbox) {
        let Some(key) = self.lines.get_mut(class).and_then(VecDeque::pop_front) else {
            return;
        };
        if self.is_serial && is_awaited {
            let topic = self.topics.entry(topic).or_default();
            topic.under_way += 1;
            topic.released = None;
        } else {
            self.passed_over(key, topic, outbox);
        }
    }

    /// Whether a message sent at most once may go at once: nothing that waits has to go before it.
    pub fn lets_pass(&mut self, topic: u64, class: usize, outbox: &Outbox) -> bool {
        !self.holds_gone
            && (class..CLASSES).all(|class| self.next_of(class, outbox).is_none())
            && !self.topics.contains_key(&topic)
    }

    /// Returns a message in flight to the queue. Messages that waited for it may be sent.
    pub fn returned(&mut self, topic: u64, outbox: &Outbox) {
        if let Some(known) = self.topics.get_mut(&topic) {
            known.under_way = known.under_way.saturating_sub(1);
            self.release(topic, outbox);
        }
    }

    /// A message that was awaited waits again: before all that came after it.
    pub fn put_back(&mut self, key: Key, topic: u64, outbox: &Outbox) {
        match self.topics.get_mut(&topic) {
            Some(known) => {
                known.under_way = known.under_way.saturating_sub(1);
                let at = known.parked.partition_point(|other| *other < key);
                known.parked.insert(at, key);
                self.release(topic, outbox);
            }
            None => self.push(key, outbox),
        }
    }

    /// A message that waited does not any more.
    fn passed_over(&mut self, key: Key, topic: u64, outbox: &Outbox) {
        if let Some(known) = self.topics.get_mut(&topic)
            && known.released == Some(key)
        {
            known.released = None;
            self.release(topic, outbox);
        }
    }

    /// A message that waited was settled: its entry is passed over when its turn comes, or when there are too many such.
    pub fn settled(&mut self, key: Key, topic: u64, outbox: &Outbox) {
        self.passed_over(key, topic, outbox);
        self.stale += 1;
        if self.stale > outbox.len() + STALE_MAX {
            self.stale = 0;
            self.lines
                .iter_mut()
                .for_each(|line| line.retain(|&key| outbox.is_waiting(key)));
            self.topics
                .values_mut()
                .for_each(|topic| topic.parked.retain(|&key| outbox.is_waiting(key)));
            self.held.retain(|&key| outbox.is_waiting(key));
        }
    }

    /// If none of a topic is under way, the next one that is parked may go. The others stay where they are, so that nothing
    /// is moved twice.
    fn release(&mut self, topic: u64, outbox: &Outbox) {
        let Some(known) = self.topics.get_mut(&topic) else {
            return;
        };
        if known.under_way > 0 || known.released.is_some() {
            return;
        }
        known.released =
            std::iter::from_fn(|| known.parked.pop_front()).find(|key| outbox.is_waiting(*key));
        match known.released {
            Some(key) => self.push(key, outbox),
            None => {
                self.topics.remove(&topic);
            }
        }
    }

    /// From now on one message of a topic at a time, or not; `under_way`: the topics of those that are awaited. All that is
    /// parked goes back into the lines first.
    pub fn set_serial(
        &mut self,
        is_serial: bool,
        under_way: impl Iterator<Item = u64>,
        outbox: &Outbox,
    ) {
        self.is_serial = is_serial;
        for topic in std::mem::take(&mut self.topics).into_values() {
            topic
                .parked
                .into_iter()
                .for_each(|key| self.push(key, outbox));
        }
        if is_serial {
            under_way.for_each(|topic| self.topics.entry(topic).or_default().under_way += 1);
        }
    }

    /// Whether messages sent at most once have to wait.
    pub fn set_hold(&mut self, holds_gone: bool, outbox: &Outbox) {
        self.holds_gone = holds_gone;
        if !holds_gone {
            std::mem::take(&mut self.held)
                .into_iter()
                .for_each(|key| self.push(key, outbox));
        }
    }

    /// The oldest waiting message of the lowest priority, which is dropped when the buffer is full. None of a priority
    /// above `class_max`.
    pub fn oldest(&self, class_max: usize, outbox: &Outbox) -> Option<(usize, Key)> {
        let class_of = |key: &Key| {
            outbox
                .get(*key)
                .filter(|slot| slot.place == Place::Waiting)
                .map(|slot| slot.class)
        };
        let parked = self.topics.values().map(|topic| &topic.parked);
        let all = self.lines.iter().chain(parked).chain([&self.held]);
        let first = |line: &VecDeque<Key>| {
            line.iter()
                .find_map(|key| Some((usize::from(class_of(key)?), *key)))
        };
        all.filter_map(first)
            .filter(|(class, _)| *class <= class_max)
            .min()
    }

    /// Whether anything waits; or waited not long ago.
    pub fn is_waiting(&self) -> bool {
        self.lines
            .iter()
            .chain([&self.held])
            .any(|line| !line.is_empty())
            || !self.topics.is_empty()
    }

    /// All that wait, in no order; settled ones among them.
    pub fn iter(&self) -> impl Iterator<Item = Key> {
        let parked = self.topics.values().map(|topic| &topic.parked);
        self.lines
            .iter()
            .chain(parked)
            .chain([&self.held])
            .flatten()
            .copied()
    }
}

/// Settled entries that may lie about, beside as many as there are messages.
const STALE_MAX: usize = 1_024;

type TopicHash = BuildHasherDefault<Already>;

/// Topics are hashes already.
#[derive(Clone, Copy, Debug, Default)]
struct Already(u64);

impl Hasher for Already {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes
            .iter()
            .for_each(|&byte| self.0 = (self.0 << 8) ^ u64::from(byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

#[cfg(test)]
mod tests {
    use super::super::draft::Draft;
    use super::*;

    fn insert(outbox: &mut Outbox, queue: &mut Queue, id: u64, address: &str, priority: u8) -> Key {
        let key = outbox
            .insert(
                &Draft {
                    priority,
                    ..Draft::new(id, address, b"")
                },
                None,
            )
            .expect("short");
        queue.push(key, outbox);
        key
    }

    /// Lets go all that may go; their numbers.
    fn go(outbox: &mut Outbox, queue: &mut Queue) -> Vec<u64> {
        let mut gone = Vec::new();
        while let Some((key, class)) = queue.next(outbox) {
            let slot = outbox.get_mut(key).expect("it waits");
            slot.place = Place::UnderWay(0);
            let topic = slot.topic;
            queue.pop(class, topic, true, outbox);
            gone.push(key.id);
        }
        gone
    }

    fn settle(outbox: &mut Outbox, queue: &mut Queue, key: Key) {
        let slot = outbox.get(key).expect("unsettled");
        let (topic, was_waiting) = (slot.topic, slot.place == Place::Waiting);
        outbox.remove(key);
        if was_waiting {
            queue.settled(key, topic, outbox);
        } else {
            queue.returned(topic, outbox);
        }
    }

    #[test]
    fn higher_priorities_go_first_and_others_in_order() {
        let (mut outbox, mut queue) = (Outbox::new(1), Queue::default());
        for (id, priority) in [(1, 4), (2, 0), (3, 9), (4, 4), (5, 9)] {
            insert(&mut outbox, &mut queue, id, "a", priority);
        }
        assert_eq!(go(&mut outbox, &mut queue), [3, 5, 1, 4, 2]);
    }

    #[test]
    fn one_of_a_topic_at_a_time_and_in_order_when_it_is_asked_for() {
        let (mut outbox, mut queue) = (Outbox::new(1), Queue::default());
        queue.set_serial(true, std::iter::empty(), &outbox);
        let keys: Vec<_> = [(1, "a"), (2, "a"), (3, "b"), (4, "a"), (5, "a"), (6, "b")]
            .map(|(id, address)| insert(&mut outbox, &mut queue, id, address, 4))
            .into();
        assert_eq!(go(&mut outbox, &mut queue), [1, 3]);
        settle(&mut outbox, &mut queue, keys[0]);
        // The one that would be next expires before it goes.
        settle(&mut outbox, &mut queue, keys[1]);
        assert_eq!(go(&mut outbox, &mut queue), [4]);
        let late = insert(&mut outbox, &mut queue, 7, "a", 9);
        assert!(go(&mut outbox, &mut queue).is_empty());
        // It comes back, and goes before all others of its topic.
        let key = keys[3];
        let slot = outbox.get_mut(key).expect("unsettled");
        slot.place = Place::Waiting;
        let topic = slot.topic;
        queue.put_back(key, topic, &outbox);
        assert_eq!(go(&mut outbox, &mut queue), [4]);
        settle(&mut outbox, &mut queue, key);
        assert_eq!(go(&mut outbox, &mut queue), [5]);
        settle(&mut outbox, &mut queue, keys[4]);
        assert_eq!(go(&mut outbox, &mut queue), [7]);
        settle(&mut outbox, &mut queue, late);
        assert!(queue.topics.len() == 1);
        queue.set_serial(false, std::iter::empty(), &outbox);
        assert_eq!(go(&mut outbox, &mut queue), [6]);
    }

    #[test]
    fn who_has_to_go_is_the_oldest_of_the_lowest_priority() {
        let (mut outbox, mut queue) = (Outbox::new(1), Queue::default());
        for (id, priority) in [(1, 4), (2, 2), (3, 2), (4, 9)] {
            insert(&mut outbox, &mut queue, id, "a", priority);
        }
        assert_eq!(queue.oldest(9, &outbox).map(|(_, key)| key.id), Some(2));
        assert_eq!(queue.oldest(1, &outbox), None);
    }
}
