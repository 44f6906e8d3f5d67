//! The route table of a shard, the routes worked out of it, and when those are out of date.
//!
//! *Knows:* filters, sinks, routes. *Must never know:* how a route is worked out, and what its sinks are.

use crate::routes::RouteTable;
use crate::routes::arena::Arena;
use crate::routes::cached::{FILTERED, Route, Sink};
use crate::routes::filtered::Condition;
use crate::routes::rates::Rates;
use hashbrown::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use thalweg_filter::Predicate;

/// The state that a computed route depends on: the part of the table it came from, and the rights and limits then.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AsOf {
    /// The table's stamp for the bucket.
    stamp: u64,
    epoch: u64,
    bucket: u16,
}

/// The routes of a shard.
pub(crate) struct Routes {
    table: RouteTable<Sink>,
    /// Of sinks that are filtered.
    conditions: Arena<Condition>,
    cache: RouteCache,
    /// Rises when rights to receive, limits or what exchanges lead to change; routes of an older epoch are out of date.
    epoch: u64,
    rates: Rates,
}

impl Routes {
    /// An empty table; peers must not know `seed`.
    pub(crate) fn new(seed: u64) -> Self {
        Routes {
            table: RouteTable::new(seed),
            conditions: Arena::new(),
            cache: RouteCache::default(),
            epoch: 0,
            rates: Rates::default(),
        }
    }

    /// What is left of rates that policies give to routes.
    pub(crate) fn rates(&mut self) -> &mut Rates {
        &mut self.rates
    }

    /// The same, to look at.
    pub(crate) fn rates_left(&self) -> &Rates {
        &self.rates
    }

    // --- the table

    pub(crate) fn insert(&mut self, filter: &str, sink: Sink) {
        self.table.insert(filter, sink);
    }

    /// Removes the first sink of a filter that `is` recognizes, with its condition.
    pub(crate) fn remove(&mut self, filter: &str, is: impl FnMut(&Sink) -> bool) {
        if let Some(sink) = self.table.remove(filter, is) {
            self.drop_condition(&sink);
        }
    }

    /// Makes a session's sink want only what passes a content filter.
    pub(crate) fn filter(&mut self, sink: &mut Sink, predicate: Arc<Predicate>) {
        let id = sink.id;
        sink.id = self.conditions.add(Condition { predicate, id });
        sink.flags |= FILTERED;
    }

    /// What a sink asks for, if it is filtered.
    pub(crate) fn condition(&self, sink: &Sink) -> Option<&Condition> {
        match sink.flags & FILTERED {
            0 => None,
            _ => self.conditions.get(sink.id),
        }
    }

    /// A sink is not in the table any more.
    pub(crate) fn drop_condition(&mut self, sink: &Sink) {
        if sink.flags & FILTERED != 0 {
            self.conditions.remove(sink.id);
        }
    }

    /// Changes the first sink of a filter for which `change` returns true.
    pub(crate) fn update(&mut self, filter: &str, change: impl FnMut(&mut Sink) -> bool) {
        self.table.update(filter, change);
    }

    /// The sinks of exactly this filter.
    pub(crate) fn sinks(&self, filter: &str) -> &[Sink] {
        self.table.sinks(filter)
    }

    #[inline(always)]
    pub(crate) fn for_each_match(&self, address: &str, f: impl FnMut(&Sink)) {
        self.table.for_each_match(address, f);
    }

    /// Bytes of memory that the table takes.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.table.bytes()
    }

    // --- routes that were worked out

    /// What a route of an address is worked out of now.
    #[inline(always)]
    pub(crate) fn as_of_now(&self, address: &str) -> AsOf {
        let bucket = self.table.bucket_of(address);
        AsOf {
            stamp: self.table.stamp_of(bucket),
            epoch: self.epoch,
            bucket,
        }
    }

    /// Whether nothing has changed since.
    #[inline(always)]
    pub(crate) fn is_current(&self, as_of: &AsOf) -> bool {
        as_of.stamp == self.table.stamp_of(as_of.bucket) && as_of.epoch == self.epoch
    }

    /// The route of an address that was remembered, out of date or not.
    #[inline]
    pub(crate) fn remembered(&mut self, address: &str) -> Option<Rc<Route>> {
        self.cache.get(address)
    }

    /// Remembers a route; of more than `max`, those that were not asked for lately are forgotten.
    pub(crate) fn remember(&mut self, address: &str, route: Rc<Route>, max: usize) {
        self.cache.insert(address, route, max);
    }

    /// All routes are out of date.
    pub(crate) fn all_have_changed(&mut self) {
        self.epoch += 1;
    }

    /// The routes of what `filter` matches are out of date.
    pub(crate) fn have_changed(&mut self, filter: &str) {
        self.table.touch(filter);
    }
}

/// Two generations of routes: the old one is forgotten when the young one is full. Bounded, and what is in use stays.
#[derive(Default)]
struct RouteCache {
    young: HashMap<Box<str>, Rc<Route>, foldhash::fast::RandomState>,
    old: HashMap<Box<str>, Rc<Route>, foldhash::fast::RandomState>,
}

impl RouteCache {
    fn get(&mut self, address: &str) -> Option<Rc<Route>> {
        if let Some(route) = self.young.get(address) {
            return Some(route.clone());
        }
        let (key, route) = self.old.remove_entry(address)?;
        self.young.insert(key, route.clone());
        Some(route)
    }

    fn insert(&mut self, address: &str, route: Rc<Route>, max: usize) {
        if self.young.len() >= max {
            std::mem::swap(&mut self.young, &mut self.old);
            self.young.clear();
        }
        self.young.insert(address.into(), route);
    }
}
