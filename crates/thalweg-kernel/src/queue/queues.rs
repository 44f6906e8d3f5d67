//! The queues with names of a shard, by identifier and by address.
//!
//! *Knows:* which queues there are. *Must never know:* a session, a group, the route table.

use super::Queue;
use crate::ids::QueueId;
use crate::kernel::Map;
use crate::slots::Slots;
use std::sync::Arc;

/// The queues with names of a shard.
#[derive(Default)]
pub(crate) struct Queues {
    slots: Slots<QueueId, Box<Queue>>,
    by_address: Map<Arc<str>, QueueId>,
}

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
        let address = queue.address.clone();
        let id = self.slots.insert(Box::new(queue));
        self.by_address.insert(address, id);
        id
    }

    pub(super) fn remove(&mut self, id: QueueId) -> Option<Box<Queue>> {
        let queue = self.slots.remove(id)?;
        self.by_address.remove(&queue.address);
        Some(queue)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Queue> {
        self.slots.iter().map(|(_, queue)| &**queue)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (QueueId, &mut Queue)> {
        self.slots.iter_mut().map(|(id, queue)| (id, &mut **queue))
    }
}
