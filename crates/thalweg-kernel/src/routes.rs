//! Which sinks want a message: filters on one side, an address on the other.

use foldhash::fast::FixedState;
use std::collections::BTreeMap;
use std::hash::BuildHasher;
use thalweg_model::{Filter, first_level};

/// Filters and, for each, the sinks that want what it matches. `S` is the caller's word for a sink: small and copied.
#[derive(Debug)]
pub struct RouteTable<S> {
    filters: BTreeMap<Box<str>, (Filter, Vec<S>)>,
    hasher: FixedState,
    stamps: Stamps,
    len: usize,
}

/// Counts changes, so that whoever keeps match results can tell when they are stale.
#[derive(Debug)]
struct Stamps {
    /// Changes of filters whose first level is a wildcard.
    everywhere: u64,
    /// Changes of all others, by the hash of their first level.
    by_bucket: Box<[u64; BUCKETS]>,
}

impl<S: Copy> RouteTable<S> {
    /// An empty table. `seed` should differ from one run to the next and be unknown to peers: it keeps them from
    /// choosing filters that collide.
    pub fn new(seed: u64) -> Self {
        RouteTable {
            filters: BTreeMap::new(),
            hasher: FixedState::with_seed(seed),
            stamps: Stamps { everywhere: 0, by_bucket: Box::new([0; BUCKETS]) },
            len: 0,
        }
    }

    /// Adds a sink to a filter and returns its position among the filter's sinks. The same sink may be added twice.
    pub fn insert(&mut self, filter: &str, sink: S) -> usize {
        let Ok(checked) = Filter::new(filter) else { return 0 };
        let sinks = &mut self.filters.entry(filter.into()).or_insert((checked, Vec::new())).1;
        sinks.push(sink);
        let position = sinks.len() - 1;
        self.len += 1;
        self.touch(filter);
        position
    }

    /// Removes the first sink of `filter` that `is` recognises, looking at them one after the other; the filter's last
    /// sink takes its position.
    pub fn remove(&mut self, filter: &str, is: impl FnMut(&S) -> bool) -> Option<S> {
        let position = self.sinks(filter).iter().position(is)?;
        self.remove_at(filter, position).map(|(sink, _)| sink)
    }

    /// Removes the sink at `position` in constant time. Returns it, and the sink that has moved to `position` from the
    /// end, if one has.
    pub fn remove_at(&mut self, filter: &str, position: usize) -> Option<(S, Option<S>)> {
        let sinks = &mut self.filters.get_mut(filter)?.1;
        if position >= sinks.len() {
            return None;
        }
        let sink = sinks.swap_remove(position);
        let moved = sinks.get(position).copied();
        if sinks.is_empty() {
            self.filters.remove(filter);
        }
        self.len -= 1;
        self.touch(filter);
        Some((sink, moved))
    }

    /// Changes sinks of `filter` in place: `change` is shown one after the other until it returns true. Returns
    /// whether it did.
    pub fn update(&mut self, filter: &str, change: impl FnMut(&mut S) -> bool) -> bool {
        let Some((_, sinks)) = self.filters.get_mut(filter) else { return false };
        let changed = sinks.iter_mut().any(change);
        self.touch(filter);
        changed
    }

    /// Shows `f` every sink of every filter that matches `address`.
    pub fn for_each_match(&self, address: &str, mut f: impl FnMut(&S)) {
        for (filter, sinks) in self.filters.values() {
            if filter.matches(address) {
                sinks.iter().for_each(&mut f);
            }
        }
    }

    /// The sinks of exactly this filter.
    pub fn sinks(&self, filter: &str) -> &[S] {
        self.filters.get(filter).map_or(&[], |(_, sinks)| sinks)
    }

    /// Shows `f` every filter with its sinks, in no particular order.
    pub fn for_each(&self, mut f: impl FnMut(&str, &[S])) {
        for (filter, (_, sinks)) in &self.filters {
            f(filter, sinks);
        }
    }

    /// Sinks on all filters together.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no filter has a sink.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Different filters.
    pub fn filters(&self) -> usize {
        self.filters.len()
    }

    /// Bytes of memory held (an estimate).
    pub fn bytes(&self) -> usize {
        self.filters.iter().map(|(filter, (_, sinks))| 2 * filter.len() + 64 + size_of::<S>() * sinks.capacity()).sum()
    }

    /// A number that changes whenever an insert, removal or update could change what `address` matches. The same
    /// number means the same match result.
    pub fn stamp(&self, address: &str) -> u64 {
        self.stamp_of(self.bucket_of(address))
    }

    /// Which of the stamps concerns `address`; does not change in the life of the table.
    pub fn bucket_of(&self, address: &str) -> u16 {
        (self.hasher.hash_one(first_level(address)) % BUCKETS as u64) as u16
    }

    /// [`stamp`](RouteTable::stamp) of the addresses of a bucket: two loads and an addition.
    pub fn stamp_of(&self, bucket: u16) -> u64 {
        // Both only grow, so their sum tells every change.
        self.stamps.everywhere + self.stamps.by_bucket[bucket as usize % BUCKETS]
    }

    fn touch(&mut self, filter: &str) {
        match first_level(filter) {
            "+" | "#" => self.stamps.everywhere += 1,
            _ => {
                let bucket = self.bucket_of(filter);
                self.stamps.by_bucket[bucket as usize % BUCKETS] += 1;
            }
        }
    }
}

/// How many first levels can be told apart by stamp.
const BUCKETS: usize = 256;
