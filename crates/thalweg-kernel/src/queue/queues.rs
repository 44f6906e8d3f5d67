//! The queues with names of a shard, by identifier and by address, and what goes on with them beside dispatch.
//!
//! *Knows:* which queues there are, and which have ended or get last values; what was taken out of them by itself.
//! *Must never know:* a session, a group, the route table.

use super::apart::TakenApart;
use super::ending::DROPPED_PER_CALL;
use super::{Item, Queue};
use crate::ids::QueueId;
use crate::kernel::Map;
use crate::slots::Slots;
use crate::topology::MadeBy;
use crate::values::recall::{Recalling, Wanted};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use thalweg_model::Time;

/// The queues with names of a shard.
#[derive(Default)]
pub(crate) struct Queues {
    slots: Slots<QueueId, Box<Queue>>,
    by_address: Map<Arc<str>, QueueId>,
    /// Queues that have ended and whose messages are still in memory.
    ended: VecDeque<Box<Queue>>,
    /// Queues that are still to be given last values.
    recalls: VecDeque<Recalling>,
    /// What was taken out of queues by itself and is not settled, by number.
    apart: BTreeMap<u64, TakenApart>,
    apart_last: u64,
}

/// How many queues may be on their way through the last values at the same time.
const RECALLS_MAX: usize = 1024;

impl Queues {
    #[inline]
    pub(crate) fn get(&self, id: QueueId) -> Option<&Queue> {
        self.slots.get(id).map(|queue| &**queue)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: QueueId) -> Option<&mut Queue> {
        self.slots.get_mut(id).map(|queue| &mut **queue)
    }

    /// The queue of an address.
    pub(crate) fn find(&self, address: &str) -> Option<QueueId> {
        self.by_address.get(address).copied()
    }

    /// The queue that is at an index now.
    pub(crate) fn at(&self, index: u32) -> Option<QueueId> {
        self.slots.at(index)
    }

    pub(crate) fn count(&self) -> usize {
        self.by_address.len()
    }

    pub(super) fn insert(&mut self, queue: Queue) -> QueueId {
        let address = queue.terms.address.clone();
        let id = self.slots.insert(Box::new(queue));
        self.by_address.insert(address, id);
        id
    }

    pub(super) fn remove(&mut self, id: QueueId) -> Option<Box<Queue>> {
        let queue = self.slots.remove(id)?;
        self.by_address.remove(&queue.terms.address);
        Some(queue)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Queue> {
        self.slots.iter().map(|(_, queue)| &**queue)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (QueueId, &mut Queue)> {
        self.slots.iter_mut().map(|(id, queue)| (id, &mut **queue))
    }

    /// Whose rights decide where dead letters go, of each queue.
    pub(crate) fn makers_mut(&mut self) -> impl Iterator<Item = &mut MadeBy> {
        self.iter_mut().map(|(_, queue)| &mut queue.terms.made_by)
    }

    /// Whether there is something to do that [`Kernel::work`](crate::Kernel::work) goes on with.
    pub(crate) fn has_work(&self) -> bool {
        !self.ended.is_empty() || !self.recalls.is_empty()
    }

    // --- ended queues

    /// Keeps a queue that has ended until its messages' memory is freed.
    pub(super) fn add_ended(&mut self, queue: Box<Queue>) {
        if !queue.backlog.is_empty() {
            self.ended.push_back(queue);
        }
    }

    /// Frees the memory of some messages of queues that have ended.
    pub(crate) fn clear_ended(&mut self) {
        let mut left = DROPPED_PER_CALL;
        while let Some(queue) = self.ended.front_mut() {
            left = queue.backlog.clear_some(left);
            if left == 0 {
                return;
            }
            self.ended.pop_front();
        }
        self.ended = VecDeque::new();
    }

    // --- last values for queues

    /// Begins to give a queue last values, or begins again: what came already may have been taken. Returns how many queues
    /// are given some; nothing if there are too many.
    pub(crate) fn add_recall(&mut self, queue: QueueId, wanted: &Wanted) -> Option<usize> {
        let mut all = self.recalls.iter_mut();
        if let Some(known) = all.find(|it| it.is_of(queue, wanted)) {
            known.begin_again();
        } else if self.recalls.len() >= RECALLS_MAX {
            return None;
        } else {
            self.put_off_recall(Recalling::new(queue, wanted.clone()));
        }
        Some(self.recalls.len())
    }

    /// The others go on first.
    pub(crate) fn put_off_recall(&mut self, recalling: Recalling) {
        self.recalls.push_back(recalling);
    }

    pub(crate) fn next_recall(&mut self) -> Option<Recalling> {
        self.recalls.pop_front()
    }

    // --- messages taken by themselves

    /// Notes a message that was taken out of a queue by itself, and names it.
    pub(super) fn set_apart(&mut self, queue: QueueId, item: Item, due: Time) -> u64 {
        self.apart_last += 1;
        let taken = TakenApart { item, queue, due };
        self.apart.insert(self.apart_last, taken);
        self.apart_last
    }

    pub(super) fn end_apart(&mut self, number: u64) -> Option<TakenApart> {
        self.apart.remove(&number)
    }

    /// The first that was to be settled by now. They are in the order in which they were taken, which is that of their times
    /// unless the limit was changed meanwhile.
    pub(super) fn apart_due(&self, now: Time) -> Option<u64> {
        let (number, first) = self.apart.first_key_value()?;
        (first.due <= now).then_some(*number)
    }

    pub(super) fn all_apart(&self) -> impl Iterator<Item = &TakenApart> {
        self.apart.values()
    }
}
