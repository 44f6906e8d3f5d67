//! Topic aliases (§3.3.2.3.4): the table of the receiver, and the least-recently-used table of the sender.

use std::hash::BuildHasher;
use std::sync::Arc;

use hashbrown::HashTable;

use crate::PeerFault;

/// Aliases that the peer defines. Bounded by the Topic Alias Maximum we announced. [MQTT-3.3.2-7] They die with the
/// machine, that is, with the connection.
#[derive(Debug, Default)]
pub(crate) struct InboundAliases {
    max: u16,
    topics: Vec<Option<Arc<str>>>,
    bytes: usize,
}

impl InboundAliases {
    /// Aliases up to `max` are accepted from now on.
    pub(crate) fn set_max(&mut self, max: u16) {
        self.max = max;
    }

    fn slot(&self, alias: u16) -> Result<usize, PeerFault> {
        match alias {
            0 => Err(PeerFault::TOPIC_ALIAS_ZERO),
            _ if alias > self.max => Err(PeerFault::TOPIC_ALIAS_TOO_HIGH),
            _ => Ok(usize::from(alias) - 1),
        }
    }

    /// The peer says what `alias` means from now on.
    pub(crate) fn define(&mut self, alias: u16, topic: &str) -> Result<(), PeerFault> {
        let slot = self.slot(alias)?;
        if slot >= self.topics.len() {
            self.topics.resize(slot + 1, None);
        }
        if let Some(known) = self.topics.get_mut(slot)
            && known.as_deref() != Some(topic)
        {
            self.bytes = self.bytes + topic.len() - known.as_deref().map_or(0, str::len);
            *known = Some(Arc::from(topic));
        }
        Ok(())
    }

    /// Bytes of the topics that the peer has defined.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Topic of the alias `alias`.
    pub(crate) fn topic(&self, alias: u16) -> Result<Arc<str>, PeerFault> {
        let slot = self.slot(alias)?;
        self.topics
            .get(slot)
            .and_then(Option::clone)
            .ok_or(PeerFault::TOPIC_ALIAS_UNKNOWN)
    }
}

/// Aliases that we define: the least recently used gives way. Bounded by the peer's Topic Alias Maximum and our cap.
#[derive(Debug, Default)]
pub(crate) struct OutboundAliases {
    max: u16,
    index: HashTable<u16>,
    slots: Vec<Slot>,
    newest: u16,
    oldest: u16,
}

/// A doubly linked list threaded through the slots; a slot's alias is its position plus one.
#[derive(Debug)]
struct Slot {
    topic: Box<str>,
    hash: u64,
    newer: u16,
    older: u16,
}

/// Shorter topics gain nothing: an alias property takes three bytes.
const TOPIC_BYTES_MIN: usize = 4;
/// Longer ones would have us keep more for each connection than they save.
const TOPIC_BYTES_MAX: usize = 1024;

// The table is bounded and belongs to one connection, so a fixed seed endangers no other connection.
const SEED: foldhash::fast::FixedState =
    foldhash::fast::FixedState::with_seed(0x7468_616c_7765_6721);

impl OutboundAliases {
    /// Aliases up to `max` may be used from now on. [MQTT-3.1.2-26]
    pub(crate) fn set_max(&mut self, max: u16) {
        self.max = max;
    }

    /// Whether `topic` is worth an alias here.
    #[inline]
    pub(crate) fn wants(&self, topic: &str) -> bool {
        self.max != 0 && (TOPIC_BYTES_MIN..=TOPIC_BYTES_MAX).contains(&topic.len())
    }

    /// The alias of a topic that was sent to the peer already; it becomes the most recently used.
    pub(crate) fn find(&mut self, topic: &str) -> Option<u16> {
        let at = *self.index.find(SEED.hash_one(topic), |at| {
            self.slots
                .get(usize::from(*at))
                .is_some_and(|slot| &*slot.topic == topic)
        })?;
        if at != self.newest {
            self.unlink(at);
            self.link_newest(at);
        }
        Some(at + 1)
    }

    /// Gives `topic`, which [`Self::find`] does not know, an alias.
    pub(crate) fn assign(&mut self, topic: &str) -> u16 {
        let hash = SEED.hash_one(topic);
        let slot = Slot {
            topic: topic.into(),
            hash,
            newer: 0,
            older: 0,
        };
        let at = if self.slots.len() < usize::from(self.max) {
            self.slots.push(slot);
            (self.slots.len() - 1) as u16
        } else {
            let at = self.oldest;
            self.unlink(at);
            if let Some(old) = self.slots.get_mut(usize::from(at)) {
                if let Ok(entry) = self
                    .index
                    .find_entry(old.hash, |candidate| *candidate == at)
                {
                    entry.remove();
                }
                *old = slot;
            }
            at
        };
        let slots = &self.slots;
        self.index.insert_unique(hash, at, |at| {
            slots.get(usize::from(*at)).map_or(0, |slot| slot.hash)
        });
        self.link_newest(at);
        at + 1
    }

    fn unlink(&mut self, at: u16) {
        let Some(slot) = self.slots.get(usize::from(at)) else {
            return;
        };
        let (newer, older) = (slot.newer, slot.older);
        if at == self.newest {
            self.newest = older;
        } else if let Some(slot) = self.slots.get_mut(usize::from(newer)) {
            slot.older = older;
        }
        if at == self.oldest {
            self.oldest = newer;
        } else if let Some(slot) = self.slots.get_mut(usize::from(older)) {
            slot.newer = newer;
        }
    }

    fn link_newest(&mut self, at: u16) {
        let before = self.newest;
        let alone = self.index.len() <= 1;
        if let Some(slot) = self.slots.get_mut(usize::from(at)) {
            slot.older = before;
            slot.newer = at;
        }
        if alone {
            self.oldest = at;
        } else if let Some(slot) = self.slots.get_mut(usize::from(before)) {
            slot.newer = at;
        }
        self.newest = at;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn use_topic(aliases: &mut OutboundAliases, topic: &str) -> (u16, bool) {
        match aliases.find(topic) {
            Some(alias) => (alias, true),
            None => (aliases.assign(topic), false),
        }
    }

    #[test]
    fn the_least_recently_used_topic_loses_its_alias() {
        let mut a = OutboundAliases::default();
        a.set_max(3);
        assert_eq!(use_topic(&mut a, "one"), (1, false));
        assert_eq!(use_topic(&mut a, "two"), (2, false));
        assert_eq!(use_topic(&mut a, "three"), (3, false));
        assert_eq!(use_topic(&mut a, "one"), (1, true));
        assert_eq!(use_topic(&mut a, "four"), (2, false));
        assert_eq!(use_topic(&mut a, "three"), (3, true));
        assert_eq!(use_topic(&mut a, "one"), (1, true));
        assert_eq!(use_topic(&mut a, "two"), (2, false));
        assert_eq!(use_topic(&mut a, "four"), (3, false));
    }

    #[test]
    fn the_table_agrees_with_a_naive_one() {
        for max in [1u16, 2, 5, 16] {
            let mut a = OutboundAliases::default();
            a.set_max(max);
            let mut naive: Vec<(String, u16)> = Vec::new();
            let mut x = 88_172_645_463_325_252_u64;
            for _ in 0..5_000 {
                x ^= x << 13;
                x ^= x >> 7;
                x ^= x << 17;
                let topic = format!("topic/{}", x % 23);
                let got = use_topic(&mut a, &topic);
                let expected = match naive.iter().position(|(t, _)| *t == topic) {
                    Some(at) => {
                        let entry = naive.remove(at);
                        let alias = entry.1;
                        naive.push(entry);
                        (alias, true)
                    }
                    None => {
                        let alias = if naive.len() < usize::from(max) {
                            naive.len() as u16 + 1
                        } else {
                            naive.remove(0).1
                        };
                        naive.push((topic.clone(), alias));
                        (alias, false)
                    }
                };
                assert_eq!(got, expected, "max {max}");
            }
        }
    }

    /// [MQTT-3.3.2-8] [MQTT-3.3.2-9] [MQTT-3.3.2-12]
    #[test]
    fn inbound_aliases_are_bounded_and_redefinable() {
        let mut a = InboundAliases::default();
        assert_eq!(a.define(1, "x"), Err(PeerFault::TOPIC_ALIAS_TOO_HIGH));
        a.set_max(2);
        assert_eq!(a.define(0, "x"), Err(PeerFault::TOPIC_ALIAS_ZERO));
        assert_eq!(a.topic(2), Err(PeerFault::TOPIC_ALIAS_UNKNOWN));
        assert_eq!(a.define(2, "x"), Ok(()));
        assert_eq!(a.topic(2).as_deref(), Ok("x"));
        assert_eq!(a.define(2, "y"), Ok(()));
        assert_eq!(a.topic(2).as_deref(), Ok("y"));
        assert_eq!(a.topic(3), Err(PeerFault::TOPIC_ALIAS_TOO_HIGH));
    }
}
