//! Things that come and go, named by identifiers that are never used twice.
//!
//! An identifier is the index of a slot and the slot's generation, which rises whenever what was there is removed.

use std::marker::PhantomData;
use std::num::NonZeroU32;

/// What names the things in [`Slots`].
pub(crate) trait SlotId: Copy + PartialEq {
    fn new(index: u32, generation: NonZeroU32) -> Self;
    fn index(self) -> u32;
    fn generation(self) -> NonZeroU32;
}

pub(crate) struct Slots<I, T> {
    slots: Vec<Slot<T>>,
    /// Indices of empty slots that may be used again.
    free: Vec<u32>,
    id: PhantomData<I>,
}

struct Slot<T> {
    /// The generation of what is here, or of what will be here next.
    generation: NonZeroU32,
    content: Option<T>,
}

impl<I, T> Default for Slots<I, T> {
    fn default() -> Self {
        Slots {
            slots: Vec::new(),
            free: Vec::new(),
            id: PhantomData,
        }
    }
}

impl<I: SlotId, T> Slots<I, T> {
    #[inline]
    pub(crate) fn get(&self, id: I) -> Option<&T> {
        let slot = self.slots.get(id.index() as usize)?;
        slot.content
            .as_ref()
            .filter(|_| slot.generation == id.generation())
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: I) -> Option<&mut T> {
        let slot = self.slots.get_mut(id.index() as usize)?;
        let generation = slot.generation;
        slot.content
            .as_mut()
            .filter(|_| generation == id.generation())
    }

    /// Names what is at an index now.
    pub(crate) fn at(&self, index: u32) -> Option<I> {
        let slot = self.slots.get(index as usize)?;
        slot.content.as_ref()?;
        Some(I::new(index, slot.generation))
    }

    pub(crate) fn insert(&mut self, content: T) -> I {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot {
                generation: NonZeroU32::MIN,
                content: None,
            });
            self.slots.len() as u32 - 1
        });
        let slot = &mut self.slots[index as usize];
        slot.content = Some(content);
        I::new(index, slot.generation)
    }

    pub(crate) fn remove(&mut self, id: I) -> Option<T> {
        let slot = self.slots.get_mut(id.index() as usize)?;
        if slot.generation != id.generation() {
            return None;
        }
        let content = slot.content.take()?;
        // A slot that has had all generations is not used again.
        if let Some(next) = slot.generation.checked_add(1) {
            slot.generation = next;
            self.free.push(id.index());
        }
        Some(content)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (I, &T)> {
        let slots = self.slots.iter().enumerate();
        slots.filter_map(|(at, slot)| {
            let content = slot.content.as_ref()?;
            Some((I::new(at as u32, slot.generation), content))
        })
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (I, &mut T)> {
        let slots = self.slots.iter_mut().enumerate();
        slots.filter_map(|(at, slot)| {
            let content = slot.content.as_mut()?;
            Some((I::new(at as u32, slot.generation), content))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::GroupId;

    #[test]
    fn what_is_removed_is_found_by_nobody_though_its_slot_is_used_again() {
        let mut slots: Slots<GroupId, &str> = Slots::default();
        let (first, second) = (slots.insert("first"), slots.insert("second"));
        assert_eq!(slots.remove(first), Some("first"));
        assert_eq!((slots.get(first), slots.at(0)), (None, None));
        let third = slots.insert("third");
        assert_eq!((third.index(), third != first), (0, true));
        assert_eq!(slots.get(first), None);
        assert_eq!(slots.get_mut(first), None);
        assert_eq!((slots.remove(first), slots.at(0)), (None, Some(third)));
        assert_eq!(
            (slots.get(third), slots.get(second)),
            (Some(&"third"), Some(&"second"))
        );
        let all: Vec<(GroupId, &&str)> = slots.iter().collect();
        assert_eq!(all, [(third, &"third"), (second, &"second")]);
    }
}
