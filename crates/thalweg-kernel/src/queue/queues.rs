//! The queues with names of a shard, by identifier and by address.
//!
//! *Knows:* which queues there are. *Must never know:* a session, a group, the route table.

use super::Queue;
use crate::ids::QueueId;
use crate::kernel::Map;
use std::num::NonZeroU32;
use std::sync::Arc;

/// The queues with names of a shard.
#[derive(Default)]
pub(crate) struct Queues {
    slots: Vec<Slot>,
    /// Indices of slots without a queue.
    free: Vec<u32>,
    by_address: Map<Arc<str>, QueueId>,
}

/// A place for one queue at a time.
struct Slot {
    /// The generation of the queue that is here, or of the next one.
    generation: NonZeroU32,
    queue: Option<Box<Queue>>,
}

impl Queues {
    #[inline]
    pub(crate) fn get(&self, id: QueueId) -> Option<&Queue> {
        match self.slots.get(id.index() as usize)? {
            Slot {
                generation,
                queue: Some(queue),
            } if *generation == id.generation() => Some(queue),
            _ => None,
        }
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: QueueId) -> Option<&mut Queue> {
        match self.slots.get_mut(id.index() as usize)? {
            Slot {
                generation,
                queue: Some(queue),
            } if *generation == id.generation() => Some(queue),
            _ => None,
        }
    }

    /// The queue of an address.
    pub(crate) fn find(&self, address: &str) -> Option<QueueId> {
        self.by_address.get(address).copied()
    }

    /// The queue that is at an index now.
    pub(crate) fn at(&self, index: u32) -> Option<QueueId> {
        let slot = self.slots.get(index as usize)?;
        slot.queue.as_ref()?;
        Some(QueueId::new(index, slot.generation))
    }

    pub(crate) fn count(&self) -> usize {
        self.by_address.len()
    }

    pub(super) fn insert(&mut self, queue: Queue) -> QueueId {
        let address = queue.address.clone();
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot {
                generation: NonZeroU32::MIN,
                queue: None,
            });
            self.slots.len() as u32 - 1
        });
        let slot = &mut self.slots[index as usize];
        slot.queue = Some(Box::new(queue));
        let id = QueueId::new(index, slot.generation);
        self.by_address.insert(address, id);
        id
    }

    pub(super) fn remove(&mut self, id: QueueId) -> Option<Box<Queue>> {
        let slot = self.slots.get_mut(id.index() as usize)?;
        if slot.generation != id.generation() {
            return None;
        }
        let queue = slot.queue.take()?;
        // A slot that has had all generations is not used again.
        if let Some(next) = slot.generation.checked_add(1) {
            slot.generation = next;
            self.free.push(id.index());
        }
        self.by_address.remove(&queue.address);
        Some(queue)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Queue> {
        self.slots.iter().filter_map(|slot| slot.queue.as_deref())
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (QueueId, &mut Queue)> {
        self.slots.iter_mut().enumerate().filter_map(|(at, slot)| {
            let id = QueueId::new(at as u32, slot.generation);
            Some((id, slot.queue.as_deref_mut()?))
        })
    }
}
