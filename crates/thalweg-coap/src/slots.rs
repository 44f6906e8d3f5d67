//! Records with numbers that stay theirs. Chunks instead of one growing array: a hundred thousand records cost what a
//! hundred thousand records take, and growing copies nothing.

/// Number of records per chunk.
const CHUNK: usize = 256;

/// Chunks that are kept while there is no record.
const CHUNKS_KEPT: usize = 16;

pub(crate) const NONE: u32 = u32::MAX;

/// Records by number. A number is used again after its record went, under another generation.
#[derive(Debug)]
pub(crate) struct Slots<T> {
    chunks: Vec<Vec<Slot<T>>>,
    free: Vec<u32>,
    len: usize,
    /// First generation of new slots: above all earlier ones, because a number may have been reused.
    generation: u32,
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    record: Option<T>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Slots {
            chunks: Vec::new(),
            free: Vec::new(),
            len: 0,
            generation: 0,
        }
    }
}

impl<T> Slots<T> {
    /// Number of records in use.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Puts a record somewhere and returns its number.
    pub fn insert(&mut self, record: T) -> u32 {
        self.len += 1;
        if let Some(index) = self.free.pop() {
            if let Some(slot) = self.slot_mut(index) {
                slot.record = Some(record);
            }
            return index;
        }
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK) {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        let before = (self.chunks.len() - 1) * CHUNK;
        let Some(chunk) = self.chunks.last_mut() else {
            return NONE;
        };
        chunk.push(Slot {
            generation: self.generation,
            record: Some(record),
        });
        (before + chunk.len() - 1) as u32
    }

    /// Takes a record away.
    pub fn remove(&mut self, index: u32) -> Option<T> {
        let slot = self.slot_mut(index)?;
        let record = slot.record.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        let generation = slot.generation;
        self.generation = self.generation.max(generation);
        self.free.push(index);
        self.len -= 1;
        if self.len == 0 && self.chunks.len() > CHUNKS_KEPT {
            self.give_back();
        }
        Some(record)
    }

    /// After a burst its memory is not needed any more.
    #[cold]
    fn give_back(&mut self) {
        self.chunks.truncate(CHUNKS_KEPT);
        self.chunks.shrink_to_fit();
        self.free
            .retain(|index| (*index as usize) < CHUNKS_KEPT * CHUNK);
        self.free.shrink_to_fit();
    }

    #[inline]
    pub fn get(&self, index: u32) -> Option<&T> {
        self.chunks
            .get(index as usize / CHUNK)?
            .get(index as usize % CHUNK)?
            .record
            .as_ref()
    }

    #[inline]
    pub fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        self.slot_mut(index)?.record.as_mut()
    }

    /// The record of this number if it is still of this generation.
    #[inline]
    pub fn get_of(&self, index: u32, generation: u32) -> Option<&T> {
        self.get(index)
            .filter(|_| self.generation(index) == generation)
    }

    /// How often the number was used before.
    #[inline]
    pub fn generation(&self, index: u32) -> u32 {
        let slot = self
            .chunks
            .get(index as usize / CHUNK)
            .and_then(|chunk| chunk.get(index as usize % CHUNK));
        slot.map_or(0, |slot| slot.generation)
    }

    pub fn bytes(&self) -> usize {
        let slots: usize = self.chunks.iter().map(Vec::capacity).sum();
        slots * size_of::<Slot<T>>()
            + self.free.capacity() * 4
            + self.chunks.capacity() * size_of::<Vec<Slot<T>>>()
    }

    #[inline]
    fn slot_mut(&mut self, index: u32) -> Option<&mut Slot<T>> {
        self.chunks
            .get_mut(index as usize / CHUNK)?
            .get_mut(index as usize % CHUNK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_used_again_under_another_generation() {
        let mut slots = Slots::default();
        let first: Vec<u32> = (0..600).map(|n| slots.insert(n)).collect();
        assert_eq!((slots.len(), slots.get(first[599])), (600, Some(&599)));
        let generation = slots.generation(first[300]);
        assert_eq!(slots.remove(first[300]), Some(300));
        assert_eq!(
            (slots.remove(first[300]), slots.get(first[300])),
            (None, None)
        );
        assert_eq!(slots.insert(7), first[300]);
        assert_eq!(slots.get_of(first[300], generation), None);
        assert_eq!(slots.get_of(first[300], generation + 1), Some(&7));
        assert_eq!(slots.get(NONE), None);
    }

    #[test]
    fn memory_of_a_burst_is_given_back_and_names_stay_unique() {
        let mut slots = Slots::default();
        let mut seen = std::collections::HashSet::new();
        let small = (0..100).map(|n| slots.insert(n)).collect::<Vec<_>>();
        let least = slots.bytes();
        for index in small {
            slots.remove(index);
        }
        for round in 0..3 {
            let all: Vec<u32> = (0..20_000).map(|n| slots.insert(n)).collect();
            assert!(slots.bytes() > 50 * least);
            for index in all {
                assert!(
                    seen.insert((index, slots.generation(index))),
                    "round {round}"
                );
                slots.remove(index);
            }
            assert!(slots.bytes() < 50 * least, "{} bytes", slots.bytes());
        }
        let all: std::collections::HashSet<u32> = (0..10_000).map(|n| slots.insert(n)).collect();
        assert_eq!((all.len(), slots.len()), (10_000, 10_000));
    }
}
