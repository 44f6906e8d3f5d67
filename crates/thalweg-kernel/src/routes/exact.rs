//! Filters without wildcards: one hash table.

use super::sinks::Sinks;
use super::split_table::SplitTable;
use super::{allocation_bytes, text_hash};
use foldhash::fast::FixedState;

/// Literal filters by text. A match is one look-up, whatever the number of filters.
#[derive(Debug)]
pub(super) struct Exact<S> {
    by_filter: SplitTable<Entry<S>>,
    hasher: FixedState,
    /// Bytes of filter texts and long sink lists.
    heap_bytes: usize,
}

#[derive(Debug)]
struct Entry<S> {
    filter: Box<str>,
    sinks: Sinks<S>,
}

impl<S: Copy> Exact<S> {
    pub(super) fn new(hasher: FixedState) -> Self {
        Exact {
            by_filter: SplitTable::new(),
            hasher,
            heap_bytes: 0,
        }
    }

    /// Adds a sink and returns its position on its filter.
    pub(super) fn insert(&mut self, filter: &str, sink: S) -> usize {
        let hash = text_hash(&self.hasher, filter);
        match self
            .by_filter
            .find_mut(hash, |entry| *entry.filter == *filter)
        {
            Some(entry) => {
                let before = entry.sinks.heap_bytes();
                let position = entry.sinks.push(sink);
                self.heap_bytes = self.heap_bytes - before + entry.sinks.heap_bytes();
                position
            }
            None => {
                let entry = Entry {
                    filter: filter.into(),
                    sinks: Sinks::One(sink),
                };
                let hasher = &self.hasher;
                self.by_filter
                    .insert(hash, entry, |entry| text_hash(hasher, &entry.filter));
                self.heap_bytes += allocation_bytes(filter.len());
                0
            }
        }
    }

    /// Removes the sink at `position` of `filter`, and the filter with its last sink.
    pub(super) fn remove_at(&mut self, filter: &str, position: usize) -> Option<(S, Option<S>)> {
        let hash = text_hash(&self.hasher, filter);
        let entry = self
            .by_filter
            .find_mut(hash, |entry| *entry.filter == *filter)?;
        let before = entry.sinks.heap_bytes();
        let removed = entry.sinks.swap_remove(position)?;
        self.heap_bytes = self.heap_bytes - before + entry.sinks.heap_bytes();
        if entry.sinks.is_empty() {
            let hasher = &self.hasher;
            let is = |entry: &Entry<S>| *entry.filter == *filter;
            self.by_filter
                .remove(hash, is, |entry| text_hash(hasher, &entry.filter));
            self.heap_bytes -= allocation_bytes(filter.len());
        }
        Some(removed)
    }

    /// The sinks of a filter, which are also those of the address spelled the same.
    pub(super) fn sinks(&self, filter: &str) -> &[S] {
        let hash = text_hash(&self.hasher, filter);
        let entry = self.by_filter.find(hash, |entry| *entry.filter == *filter);
        entry.map_or(&[], |entry| entry.sinks.as_slice())
    }

    pub(super) fn sinks_mut(&mut self, filter: &str) -> &mut [S] {
        let hash = text_hash(&self.hasher, filter);
        let entry = self
            .by_filter
            .find_mut(hash, |entry| *entry.filter == *filter);
        entry.map_or(&mut [], |entry| entry.sinks.as_mut_slice())
    }

    /// Shows `f` every filter with its sinks.
    pub(super) fn for_each(&self, f: &mut impl FnMut(&str, &[S])) {
        for entry in self.by_filter.iter() {
            f(&entry.filter, entry.sinks.as_slice());
        }
    }

    pub(super) fn filters(&self) -> usize {
        self.by_filter.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.by_filter.bytes() + self.heap_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_with_small_sinks_fits_in_32_bytes() {
        assert_eq!(size_of::<Entry<u64>>(), 32);
    }
}
