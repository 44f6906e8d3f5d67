//! A hash table that never stops the world to grow.

use hashbrown::HashTable;

/// A [`HashTable`] in [`PARTS`] pieces, chosen by hash.
///
/// One table of a million entries doubles by touching all of them at once, some tens of milliseconds during which a
/// shard serves no connection; a piece doubles in well under a millisecond. Pieces shrink as entries leave.
#[derive(Debug)]
pub(super) struct SplitTable<T> {
    parts: Box<[HashTable<T>]>,
    len: usize,
}

impl<T> SplitTable<T> {
    pub(super) fn new() -> Self {
        SplitTable {
            parts: (0..PARTS).map(|_| HashTable::new()).collect(),
            len: 0,
        }
    }

    pub(super) fn find(&self, hash: u64, is: impl FnMut(&T) -> bool) -> Option<&T> {
        self.parts[part_of(hash)].find(hash, is)
    }

    pub(super) fn find_mut(&mut self, hash: u64, is: impl FnMut(&T) -> bool) -> Option<&mut T> {
        self.parts[part_of(hash)].find_mut(hash, is)
    }

    /// Adds an entry that the caller knows to be new.
    pub(super) fn insert(&mut self, hash: u64, entry: T, rehash: impl Fn(&T) -> u64) -> &mut T {
        self.len += 1;
        self.parts[part_of(hash)]
            .insert_unique(hash, entry, rehash)
            .into_mut()
    }

    pub(super) fn remove(
        &mut self,
        hash: u64,
        is: impl FnMut(&T) -> bool,
        rehash: impl Fn(&T) -> u64,
    ) -> Option<T> {
        let part = &mut self.parts[part_of(hash)];
        let (entry, _) = part.find_entry(hash, is).ok()?.remove();
        if part.len() < part.capacity() / 8 {
            part.shrink_to(part.len() * 2, rehash);
        }
        self.len -= 1;
        Some(entry)
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.parts.iter().flatten()
    }

    /// Bytes of the pieces, not of what entries point to.
    pub(super) fn bytes(&self) -> usize {
        self.parts
            .iter()
            .map(|part| size_of_val(part) + part.allocation_size())
            .sum()
    }
}

/// hashbrown picks buckets by the low bits of a hash and tags entries with its top seven; these lie between.
fn part_of(hash: u64) -> usize {
    (hash >> 48) as usize % PARTS
}

const PARTS: usize = 64;
