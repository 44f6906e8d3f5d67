//! Sessions by number.

use crate::ids::SessionId;

/// A growing list with holes that are filled again. Boxed, so that growing it moves pointers and not sessions.
pub(crate) struct Slab<T> {
    items: Vec<Option<Box<T>>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab {
            items: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Slab<T> {
    pub(crate) fn insert(&mut self, item: T) -> SessionId {
        let item = Some(Box::new(item));
        match self.free.pop() {
            Some(free) => {
                self.items[free as usize] = item;
                SessionId(free)
            }
            None => {
                self.items.push(item);
                SessionId(self.items.len() as u32 - 1)
            }
        }
    }

    #[inline]
    pub(crate) fn get(&self, id: SessionId) -> Option<&T> {
        self.items.get(id.0 as usize)?.as_deref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: SessionId) -> Option<&mut T> {
        self.items.get_mut(id.0 as usize)?.as_deref_mut()
    }

    pub(crate) fn remove(&mut self, id: SessionId) -> Option<T> {
        let item = self.items.get_mut(id.0 as usize)?.take()?;
        self.free.push(id.0);
        Some(*item)
    }

    pub(crate) fn len(&self) -> usize {
        self.items.len() - self.free.len()
    }

    /// Numbers ever used at the same time.
    pub(crate) fn capacity(&self) -> usize {
        self.items.len()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (SessionId, &mut T)> {
        let numbered = self.items.iter_mut().enumerate();
        numbered.filter_map(|(number, item)| {
            item.as_deref_mut()
                .map(|item| (SessionId(number as u32), item))
        })
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (SessionId, &T)> {
        let numbered = self.items.iter().enumerate();
        numbered.filter_map(|(number, item)| {
            item.as_deref().map(|item| (SessionId(number as u32), item))
        })
    }
}
