//! A queue of entries by rising serial, in chunks: neither growing nor taking one out of the middle moves millions.

use super::state::Stored;
use std::collections::VecDeque;
use std::fmt;

/// Entries in a chunk, unless something is inserted into it.
const CHUNK: usize = 512;

/// Entries that wait, by rising serial.
#[derive(Clone, Default)]
pub struct Waiting {
    /// None is empty; serials rise within each and from each to the next.
    chunks: VecDeque<VecDeque<Stored>>,
    len: usize,
}

impl Waiting {
    /// How many wait.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The entries, by rising serial.
    pub fn iter(&self) -> impl Iterator<Item = Stored> {
        self.chunks.iter().flatten().cloned()
    }

    /// Takes the first out.
    pub fn pop_front(&mut self) -> Option<Stored> {
        let first = self.chunks.front_mut()?;
        let entry = first.pop_front();
        if first.is_empty() {
            self.chunks.pop_front();
        }
        self.len -= usize::from(entry.is_some());
        entry
    }

    /// Puts an entry where its serial belongs, usually at the end. One with the same serial is given back.
    pub fn insert(&mut self, entry: Stored) -> Result<(), Stored> {
        if self.chunks.back().and_then(VecDeque::back).is_none_or(|last| last.serial < entry.serial) {
            self.push_back(entry);
            return Ok(());
        }
        let at = self.chunk_of(entry.serial);
        let Some(chunk) = self.chunks.get_mut(at) else { return Err(entry) };
        let Err(within) = chunk.binary_search_by_key(&entry.serial, |entry| entry.serial) else { return Err(entry) };
        chunk.insert(within, entry);
        self.len += 1;
        if chunk.len() >= 2 * CHUNK {
            let second = chunk.split_off(CHUNK);
            self.chunks.insert(at + 1, second);
        }
        Ok(())
    }

    /// Takes the entry with this serial out, usually the first.
    pub fn remove(&mut self, serial: u64) -> Option<Stored> {
        if self.chunks.front()?.front()?.serial == serial {
            return self.pop_front();
        }
        let at = self.chunk_of(serial);
        let chunk = self.chunks.get_mut(at)?;
        let within = chunk.binary_search_by_key(&serial, |entry| entry.serial).ok()?;
        let entry = chunk.remove(within)?;
        self.len -= 1;
        if chunk.len() < CHUNK / 4 {
            self.merge(at);
        }
        Some(entry)
    }

    /// Keeps only what `keep` says.
    pub fn retain(&mut self, mut keep: impl FnMut(&Stored) -> bool) {
        self.chunks.iter_mut().for_each(|chunk| chunk.retain(&mut keep));
        self.chunks.retain(|chunk| !chunk.is_empty());
        self.len = self.chunks.iter().map(VecDeque::len).sum();
    }

    fn push_back(&mut self, entry: Stored) {
        self.len += 1;
        match self.chunks.back_mut() {
            Some(chunk) if chunk.len() < CHUNK => chunk.push_back(entry),
            // The first grows as it must, because most queues are short.
            None => self.chunks.push_back(VecDeque::from([entry])),
            Some(_) => {
                let mut chunk = VecDeque::with_capacity(CHUNK);
                chunk.push_back(entry);
                self.chunks.push_back(chunk);
            }
        }
    }

    /// The first chunk that ends at this serial or behind it.
    fn chunk_of(&self, serial: u64) -> usize {
        self.chunks.partition_point(|chunk| chunk.back().is_some_and(|last| last.serial < serial))
    }

    /// Puts a chunk that has become short together with its successor.
    fn merge(&mut self, at: usize) {
        if self.chunks.get(at).is_some_and(VecDeque::is_empty) {
            self.chunks.remove(at);
            return;
        }
        let both = self.chunks.get(at).map_or(0, VecDeque::len) + self.chunks.get(at + 1).map_or(CHUNK, VecDeque::len);
        if both <= CHUNK
            && let Some(mut second) = self.chunks.remove(at + 1)
            && let Some(first) = self.chunks.get_mut(at)
        {
            first.append(&mut second);
        }
    }
}

impl IntoIterator for Waiting {
    type Item = Stored;
    type IntoIter = std::iter::Flatten<std::collections::vec_deque::IntoIter<VecDeque<Stored>>>;

    fn into_iter(self) -> Self::IntoIter {
        self.chunks.into_iter().flatten()
    }
}

impl FromIterator<Stored> for Waiting {
    /// By rising serial; one whose serial was there before is left out.
    fn from_iter<I: IntoIterator<Item = Stored>>(entries: I) -> Self {
        let mut waiting = Waiting::default();
        for entry in entries {
            let _ = waiting.insert(entry);
        }
        waiting
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.iter().eq(other.iter())
    }
}

impl fmt::Debug for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
