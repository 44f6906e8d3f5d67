//! The level texts that wildcard filters use, each kept once.

use super::split_table::SplitTable;
use super::{allocation_bytes, text_hash};
use foldhash::fast::FixedState;

/// Gives each level text in use a number, so that the trie's edges are numbers.
///
/// A text is kept while its reference count is above 0; its number is then used again.
#[derive(Debug)]
pub(super) struct Levels {
    by_text: SplitTable<Level>,
    free: Vec<u32>,
    hasher: FixedState,
    text_bytes: usize,
}

#[derive(Debug)]
struct Level {
    text: Box<str>,
    id: u32,
    holders: u32,
}

impl Levels {
    pub(super) fn new(hasher: FixedState) -> Self {
        Levels {
            by_text: SplitTable::new(),
            free: Vec::new(),
            hasher,
            text_bytes: 0,
        }
    }

    /// The number of `text`, if it is in use.
    pub(super) fn find(&self, text: &str) -> Option<u32> {
        self.by_text
            .find(text_hash(&self.hasher, text), |level| *level.text == *text)
            .map(|level| level.id)
    }

    /// The number of `text`, which the caller now holds and must [`release`](Levels::release).
    pub(super) fn hold(&mut self, text: &str) -> u32 {
        let hash = text_hash(&self.hasher, text);
        if let Some(level) = self.by_text.find_mut(hash, |level| *level.text == *text) {
            level.holders += 1;
            return level.id;
        }
        let id = self.free.pop().unwrap_or(self.by_text.len() as u32);
        self.text_bytes += allocation_bytes(text.len());
        let hasher = &self.hasher;
        self.by_text.insert(
            hash,
            Level {
                text: text.into(),
                id,
                holders: 1,
            },
            |level| text_hash(hasher, &level.text),
        );
        id
    }

    /// Gives up one hold.
    pub(super) fn release(&mut self, text: &str) {
        let hash = text_hash(&self.hasher, text);
        let Some(level) = self.by_text.find_mut(hash, |level| *level.text == *text) else {
            return;
        };
        level.holders -= 1;
        if level.holders > 0 {
            return;
        }
        let id = level.id;
        let hasher = &self.hasher;
        self.by_text.remove(
            hash,
            |level| level.id == id,
            |level| text_hash(hasher, &level.text),
        );
        self.text_bytes -= allocation_bytes(text.len());
        match self.by_text.len() {
            // With no number in use they can start over, and the list of free ones need not be kept.
            0 => self.free = Vec::new(),
            _ => self.free.push(id),
        }
    }

    /// The texts by number, for walks over everything; it takes time and memory in proportion to all levels.
    pub(super) fn by_id(&self) -> Vec<&str> {
        let mut texts = Vec::new();
        for level in self.by_text.iter() {
            let at = level.id as usize;
            if texts.len() <= at {
                texts.resize(at + 1, "");
            }
            texts[at] = &*level.text;
        }
        texts
    }

    pub(super) fn bytes(&self) -> usize {
        self.by_text.bytes() + self.free.capacity() * size_of::<u32>() + self.text_bytes
    }
}
