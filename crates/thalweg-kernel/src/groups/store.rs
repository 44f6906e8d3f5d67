//! The groups of a shard, by identifier and by key.
//!
//! *Knows:* which groups there are, and what those that ended have counted. *Must never know:* a session, a queue, the
//! route table.

use crate::groups::eviction::Stalls;
use crate::groups::group::Group;
use crate::groups::view::GroupCounters;
use crate::ids::GroupId;
use crate::kernel::Map;
use crate::slots::Slots;
use std::sync::Arc;
use thalweg_model::Time;

/// The groups of a shard.
#[derive(Default)]
pub(crate) struct Groups {
    slots: Slots<GroupId, Group>,
    by_key: Map<Arc<str>, GroupId>,
    /// What groups have counted that have ended.
    ended: GroupCounters,
    /// Members whose connections were closed because they had stalled.
    pub stalls: Stalls,
}

impl Groups {
    #[inline]
    pub(crate) fn get(&self, id: GroupId) -> Option<&Group> {
        self.slots.get(id)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: GroupId) -> Option<&mut Group> {
        self.slots.get_mut(id)
    }

    /// The group of a key, as [`group_key`](crate::groups::group::group_key) makes it.
    pub(crate) fn find(&self, key: &str) -> Option<GroupId> {
        self.by_key.get(key).copied()
    }

    /// The group that is at an index now.
    pub(crate) fn at(&self, index: u32) -> Option<GroupId> {
        self.slots.at(index)
    }

    pub(crate) fn count(&self) -> usize {
        self.by_key.len()
    }

    pub(crate) fn insert(&mut self, group: Group) -> GroupId {
        let key = group.key().clone();
        let id = self.slots.insert(group);
        self.by_key.insert(key, id);
        id
    }

    /// Removes a group; what it has counted stays in the sums.
    pub(crate) fn remove(&mut self, id: GroupId) {
        if let Some(group) = self.slots.remove(id) {
            self.by_key.remove(group.key());
            self.ended += group.counters;
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Group> {
        self.slots.iter().map(|(_, group)| group)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Group> {
        self.slots.iter_mut().map(|(_, group)| group)
    }

    /// Those at whose head an expired message waits.
    pub(crate) fn with_expired(&self, now: Time) -> Vec<GroupId> {
        let groups = self.slots.iter();
        let expired = groups.filter(|(_, group)| group.waiting.is_head_expired(now));
        expired.map(|(id, _)| id).collect()
    }

    pub(crate) fn ids(&self) -> Vec<GroupId> {
        self.slots.iter().map(|(id, _)| id).collect()
    }

    /// What became of the messages of all groups together, of those among them that have ended.
    pub(crate) fn sums(&self) -> GroupCounters {
        let mut sums = self.ended;
        self.iter().for_each(|group| sums += group.counters);
        sums
    }
}
