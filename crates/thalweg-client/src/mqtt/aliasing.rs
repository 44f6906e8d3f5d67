//! Selection of the topics that get an alias. An alias costs three bytes in every packet, and the whole topic the first
//! time, so it goes to topics that come again. No topic loses its alias, since alternating topics would otherwise evict
//! each other.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use hashbrown::HashSet;

/// Topics that are remembered as seen once; a later one takes the place of an earlier one.
const SEEN: usize = 256;

#[derive(Debug)]
pub(super) struct Aliasing {
    most: u16,
    hasher: FixedState,
    seen: Vec<u32>,
    /// Hashes of topics that have an alias.
    given: HashSet<u64, FixedState>,
}

impl Aliasing {
    pub(super) fn new() -> Self {
        let hasher = FixedState::default();
        let given = HashSet::with_hasher(hasher.clone());
        Aliasing {
            most: 0,
            hasher,
            seen: Vec::new(),
            given,
        }
    }

    /// A connection on which so many aliases may be given.
    pub(super) fn begin(&mut self, most: u16) {
        self.most = most;
        self.given.clear();
        self.seen.clear();
        self.seen.resize(if most == 0 { 0 } else { SEEN }, 0);
    }

    /// Whether this topic is to go by an alias.
    #[inline]
    pub(super) fn wants(&mut self, topic: &str) -> bool {
        if self.most == 0 {
            return false;
        }
        let hash = self.hasher.hash_one(topic);
        if self.given.contains(&hash) {
            return true;
        }
        if self.given.len() >= usize::from(self.most) {
            return false;
        }
        let tag = (hash >> 32) as u32 | 1;
        let Some(place) = self.seen.get_mut(hash as usize % SEEN) else {
            return false;
        };
        if std::mem::replace(place, tag) != tag {
            return false;
        }
        self.given.insert(hash)
    }
}
