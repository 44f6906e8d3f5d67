//! Which sinks want a message: filters on one side, an address on the other.

pub(crate) mod arena;
pub(crate) mod cached;
mod exact;
pub(crate) mod filtered;
mod levels;
mod prefixes;
pub(crate) mod rates;
mod sinks;
mod split_table;
pub(crate) mod store;
mod trie;

use exact::Exact;
use foldhash::fast::FixedState;
use prefixes::Prefixes;
use std::hash::{BuildHasher, Hasher};
use thalweg_model::filter::{kind_of, prefix_of};
use thalweg_model::{FilterKind, first_level};
use trie::Trie;

/// Filters and, for each, its sinks. `S` is the caller's word for a sink: small and copied.
///
/// Filters are canonical, as `thalweg_model::Filter` checks them; the caller has checked. Text that is no filter is
/// kept and returned, and matches no address.
///
/// Filters without wildcards are one look-up in a hash table; the others are a trie, by levels or, for prefixes, by bytes. At a million filters of some 30
/// bytes with one sink of 8 bytes a subscription costs about 105 bytes (120 just after growing), and a match looks at no
/// more nodes than at a thousand.
#[derive(Debug)]
pub struct RouteTable<S> {
    exact: Exact<S>,
    wild: Trie<S>,
    prefixes: Prefixes<S>,
    hasher: FixedState,
    stamps: Stamps,
    len: usize,
}

/// Counts changes, so that kept match results can be recognized as stale.
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
        let hasher = FixedState::with_seed(seed);
        RouteTable {
            exact: Exact::new(hasher.clone()),
            wild: Trie::new(hasher.clone()),
            prefixes: Prefixes::new(hasher.clone()),
            hasher,
            stamps: Stamps {
                everywhere: 0,
                by_bucket: Box::new([0; BUCKETS]),
            },
            len: 0,
        }
    }

    /// Adds a sink to a filter and returns its position among the filter's sinks, for [`remove_at`]. The same sink may
    /// be added twice, and then counts twice.
    ///
    /// [`remove_at`]: RouteTable::remove_at
    pub fn insert(&mut self, filter: &str, sink: S) -> usize {
        self.len += 1;
        self.touch(filter);
        match Place::of(filter) {
            Place::Exact(text) => self.exact.insert(text, sink),
            Place::Wild(filter) => self.wild.insert(filter, sink),
            Place::Prefix(prefix) => self.prefixes.insert(prefix, sink),
        }
    }

    /// Removes the first sink of `filter` that `is` recognises. It looks at the filter's sinks one after the other;
    /// where a hundred thousand share a filter, keep positions and use [`remove_at`](RouteTable::remove_at).
    ///
    /// The filter's last sink takes the place of the removed one.
    pub fn remove(&mut self, filter: &str, is: impl FnMut(&S) -> bool) -> Option<S> {
        let position = self.sinks(filter).iter().position(is)?;
        self.remove_at(filter, position).map(|(sink, _)| sink)
    }

    /// Removes the sink at `position` in constant time. Returns it, and the sink that has moved to `position` from the
    /// end, if one has: a caller that keeps positions must update that one.
    pub fn remove_at(&mut self, filter: &str, position: usize) -> Option<(S, Option<S>)> {
        let removed = match Place::of(filter) {
            Place::Exact(text) => self.exact.remove_at(text, position),
            Place::Wild(filter) => self.wild.remove_at(filter, position),
            Place::Prefix(prefix) => self.prefixes.remove_at(prefix, position),
        }?;
        self.len -= 1;
        self.touch(filter);
        Some(removed)
    }

    /// Changes a sink of `filter` in place: `change` is shown one after the other until it returns true. Returns
    /// whether it did. Counts as a change for [`stamp`](RouteTable::stamp), because match results hold copies.
    pub fn update(&mut self, filter: &str, change: impl FnMut(&mut S) -> bool) -> bool {
        let sinks = match Place::of(filter) {
            Place::Exact(text) => self.exact.sinks_mut(text),
            Place::Wild(filter) => self.wild.sinks_mut(filter),
            Place::Prefix(prefix) => self.prefixes.sinks_mut(prefix),
        };
        let changed = sinks.iter_mut().any(change);
        if changed {
            self.touch(filter);
        }
        changed
    }

    /// Shows `f` every sink of every filter that matches `address`, in no particular order.
    pub fn for_each_match(&self, address: &str, mut f: impl FnMut(&S)) {
        self.walk(address, &mut f);
    }

    /// What [`for_each_match`](RouteTable::for_each_match) costs, as the number of table entries and trie nodes that it
    /// looks at: the same on every machine, for tests and benches.
    pub fn visits(&self, address: &str) -> usize {
        self.walk(address, &mut |_| {})
    }

    /// The sinks of exactly this filter; none if it was not inserted.
    pub fn sinks(&self, filter: &str) -> &[S] {
        match Place::of(filter) {
            Place::Exact(text) => self.exact.sinks(text),
            Place::Wild(filter) => self.wild.sinks(filter),
            Place::Prefix(prefix) => self.prefixes.sinks(prefix),
        }
    }

    /// Shows `f` every filter with its sinks, in no particular order. It takes time in proportion to the table.
    pub fn for_each(&self, mut f: impl FnMut(&str, &[S])) {
        self.exact.for_each(&mut f);
        self.wild.for_each(&mut f);
        self.prefixes.for_each(&mut f);
    }

    /// Sinks on all filters together.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no filter has a sink.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn filters(&self) -> usize {
        self.exact.filters() + self.wild.filters() + self.prefixes.filters()
    }

    /// Bytes of memory held, what the allocator rounds up included (an estimate, on the high side). Cheap enough for
    /// a metric, not for every message.
    pub fn bytes(&self) -> usize {
        size_of::<Self>()
            + size_of_val(&*self.stamps.by_bucket)
            + self.exact.bytes()
            + self.wild.bytes()
            + self.prefixes.bytes()
    }

    /// A number that changes whenever an insert, removal or update could change what `address` matches. The same
    /// number means the same match result.
    pub fn stamp(&self, address: &str) -> u64 {
        self.stamp_of(self.bucket_of(address))
    }

    /// Which of the stamps concerns `address`; does not change in the life of the table.
    pub fn bucket_of(&self, address: &str) -> u16 {
        (text_hash(&self.hasher, first_level(address)) % BUCKETS as u64) as u16
    }

    /// [`stamp`](RouteTable::stamp) of the addresses of a bucket: two loads and an addition.
    pub fn stamp_of(&self, bucket: u16) -> u64 {
        // Both only grow, so their sum tells every change.
        self.stamps.everywhere + self.stamps.by_bucket[bucket as usize % BUCKETS]
    }

    fn walk(&self, address: &str, f: &mut impl FnMut(&S)) -> usize {
        self.exact.sinks(address).iter().for_each(&mut *f);
        1 + self.wild.for_each_match(address, f) + self.prefixes.for_each_match(address, f)
    }

    /// Makes what was remembered of whatever `filter` matches stale, for reasons of the caller's.
    pub fn touch(&mut self, filter: &str) {
        match first_level(filter) {
            "+" | "#" => self.stamps.everywhere += 1,
            // A prefix that ends within the first level.
            level if prefix_of(level).is_some() => self.stamps.everywhere += 1,
            _ => {
                let bucket = self.bucket_of(filter);
                self.stamps.by_bucket[bucket as usize % BUCKETS] += 1;
            }
        }
    }
}

/// Which table a filter stands in, and under what text.
enum Place<'a> {
    Exact(&'a str),
    Wild(&'a str),
    Prefix(&'a str),
}

impl<'a> Place<'a> {
    fn of(filter: &'a str) -> Self {
        match kind_of(filter) {
            FilterKind::Exact => Place::Exact(filter),
            FilterKind::Wild => Place::Wild(filter),
            FilterKind::Prefix => Place::Prefix(prefix_of(filter).unwrap_or(filter)),
        }
    }
}

/// Hashes text alone; `str`'s own `Hash` adds a terminator that only matters between fields.
fn text_hash(hasher: &FixedState, text: &str) -> u64 {
    let mut hasher = hasher.build_hasher();
    hasher.write(text.as_bytes());
    hasher.finish()
}

/// What the allocator holds for `len` bytes: a header and rounding to 16.
fn allocation_bytes(len: usize) -> usize {
    match len {
        0 => 0,
        len => (len + 8).next_multiple_of(16).max(32),
    }
}

/// Buckets of first levels, each with a stamp of its own.
const BUCKETS: usize = 256;
