//! The groups of a shard, by index and by key.
//!
//! *Knows:* which groups there are, and what those that ended have counted. *Must never know:* a session, a queue, the
//! route table.

use crate::eviction::Stalls;
use crate::group::Group;
use crate::group_view::GroupCounters;
use crate::kernel::Map;
use std::sync::Arc;

/// The groups of a shard.
#[derive(Default)]
pub(crate) struct Groups {
    slots: Vec<Option<Group>>,
    by_key: Map<Arc<str>, u32>,
    /// What groups have counted that have ended.
    ended: GroupCounters,
    /// Members whose connections were closed because they had stalled.
    pub stalls: Stalls,
}

impl Groups {
    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&Group> {
        self.slots.get(index as usize)?.as_ref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut Group> {
        self.slots.get_mut(index as usize)?.as_mut()
    }

    /// The group of a key, as [`group_key`](crate::group::group_key) makes it.
    pub(crate) fn find(&self, key: &str) -> Option<u32> {
        self.by_key.get(key).copied()
    }

    pub(crate) fn count(&self) -> usize {
        self.by_key.len()
    }

    pub(crate) fn insert(&mut self, group: Group) -> u32 {
        let key = group.key.clone();
        let index = self.slots.iter().position(Option::is_none);
        let index = index.unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.slots[index] = Some(group);
        self.by_key.insert(key, index as u32);
        index as u32
    }

    /// Removes a group; what it has counted stays in the sums.
    pub(crate) fn remove(&mut self, index: u32) {
        let Some(group) = self.slots.get_mut(index as usize).and_then(Option::take) else {
            return;
        };
        self.by_key.remove(&group.key);
        self.ended += group.counters;
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Group> {
        self.slots.iter().flatten()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Group> {
        self.slots.iter_mut().flatten()
    }

    /// The groups there are, in the order in which they are iterated over.
    pub(crate) fn ids(&self) -> Vec<u32> {
        let slots = self.slots.iter().enumerate();
        let used = slots.filter(|(_, slot)| slot.is_some());
        used.map(|(index, _)| index as u32).collect()
    }

    /// What became of the messages of all groups together, of those among them that have ended.
    pub(crate) fn sums(&self) -> GroupCounters {
        let mut sums = self.ended;
        self.iter().for_each(|group| sums += group.counters);
        sums
    }
}
