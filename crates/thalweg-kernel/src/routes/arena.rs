//! Values with small names.

/// Values named by `u32`, in chunks: growing moves nothing, and a chunk whose values have all gone is freed.
#[derive(Debug)]
pub(crate) struct Arena<T> {
    chunks: Vec<Chunk<T>>,
    /// The chunks that have room, each once.
    open: Vec<u32>,
}

#[derive(Debug)]
struct Chunk<T> {
    slots: Vec<Slot<T>>,
    /// Heads the list of this chunk's free slots.
    free: u32,
    live: u32,
    open: bool,
}

#[derive(Debug)]
enum Slot<T> {
    /// The next free slot of the chunk, or [`NONE`].
    Free(u32),
    Used(T),
}

impl<T> Arena<T> {
    pub(crate) fn new() -> Self {
        Arena {
            chunks: Vec::new(),
            open: Vec::new(),
        }
    }

    pub(crate) fn get(&self, id: u32) -> Option<&T> {
        match self
            .chunks
            .get((id / CHUNK) as usize)?
            .slots
            .get((id % CHUNK) as usize)?
        {
            Slot::Used(value) => Some(value),
            Slot::Free(_) => None,
        }
    }

    pub(crate) fn get_mut(&mut self, id: u32) -> Option<&mut T> {
        match self
            .chunks
            .get_mut((id / CHUNK) as usize)?
            .slots
            .get_mut((id % CHUNK) as usize)?
        {
            Slot::Used(value) => Some(value),
            Slot::Free(_) => None,
        }
    }

    /// Keeps a value and returns its name, which may have been another value's before.
    pub(crate) fn add(&mut self, value: T) -> u32 {
        let at = match self.open.last() {
            Some(&at) => at,
            None => {
                let at = self.chunks.len() as u32;
                self.chunks.push(Chunk {
                    slots: Vec::new(),
                    free: NONE,
                    live: 0,
                    open: true,
                });
                self.open.push(at);
                at
            }
        };
        let chunk = &mut self.chunks[at as usize];
        let slot = match chunk.free {
            NONE => {
                if chunk.slots.capacity() == 0 {
                    // The first chunk starts small: most tables hold few wildcards.
                    chunk
                        .slots
                        .reserve_exact(if at == 0 { 16 } else { CHUNK as usize });
                }
                chunk.slots.push(Slot::Used(value));
                chunk.slots.len() as u32 - 1
            }
            free => {
                if let Slot::Free(next) =
                    std::mem::replace(&mut chunk.slots[free as usize], Slot::Used(value))
                {
                    chunk.free = next;
                }
                free
            }
        };
        chunk.live += 1;
        if chunk.live == CHUNK {
            chunk.open = false;
            self.open.pop();
        }
        at * CHUNK + slot
    }

    pub(crate) fn remove(&mut self, id: u32) -> Option<T> {
        let at = id / CHUNK;
        let chunk = self.chunks.get_mut(at as usize)?;
        let slot = chunk.slots.get_mut((id % CHUNK) as usize)?;
        if matches!(slot, Slot::Free(_)) {
            return None;
        }
        let Slot::Used(value) = std::mem::replace(slot, Slot::Free(chunk.free)) else {
            return None;
        };
        chunk.free = id % CHUNK;
        chunk.live -= 1;
        if chunk.live == 0 {
            chunk.slots = Vec::new();
            chunk.free = NONE;
        }
        if !chunk.open {
            chunk.open = true;
            self.open.push(at);
        }
        Some(value)
    }

    /// All values with their names.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.chunks.iter().zip(0u32..).flat_map(|(chunk, at)| {
            chunk
                .slots
                .iter()
                .zip(at * CHUNK..)
                .filter_map(|(slot, id)| match slot {
                    Slot::Used(value) => Some((id, value)),
                    Slot::Free(_) => None,
                })
        })
    }

    /// Bytes of the chunks, not of what values point to.
    pub(crate) fn bytes(&self) -> usize {
        self.chunks.capacity() * size_of::<Chunk<T>>()
            + self.open.capacity() * size_of::<u32>()
            + self
                .chunks
                .iter()
                .map(|chunk| chunk.slots.capacity() * size_of::<Slot<T>>())
                .sum::<usize>()
    }
}

pub(crate) const NONE: u32 = u32::MAX;

const CHUNK: u32 = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_used_again_and_empty_chunks_are_freed() {
        let mut arena = Arena::new();
        let ids: Vec<u32> = (0..5000u64).map(|value| arena.add(value)).collect();
        assert_eq!(arena.get(ids[4321]), Some(&4321));
        let full = arena.bytes();
        for &id in &ids {
            assert!(arena.remove(id).is_some());
            assert!(arena.remove(id).is_none());
            assert!(arena.get(id).is_none());
        }
        assert!(arena.bytes() < full / 20);
        assert_eq!(arena.iter().count(), 0);
        for value in 0..5000 {
            assert!(arena.add(value) < 5 * CHUNK);
        }
        assert_eq!(arena.iter().count(), 5000);
        assert!(arena.bytes() <= full + 64);
        assert_eq!(arena.get(NONE), None);
    }
}
