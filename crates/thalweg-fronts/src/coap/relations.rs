//! Observations. There may be very many, so a record is small, and holds no address: the kernel's watch does.

use super::settings::Notify;
use super::topics::TopicId;
use std::collections::VecDeque;
use thalweg_kernel::WatchId;
use thalweg_model::Message;

pub(super) struct Relation {
    /// The machine's number of it; nothing while it is being registered.
    pub(super) number: u64,
    /// A value that the machine was too busy to take.
    pub(super) parked: Option<Message>,
    pub(super) watch: WatchId,
    pub(super) identity: u32,
    generation: u32,
    /// Rises from one to the next.
    serial: u32,
    /// The Content-Format that all notifications must have, once one had it; [`NO_FORMAT`] before.
    pub(super) format: u16,
    pub(super) state: State,
    /// It is in [`Relations::ready`].
    is_ready: bool,
    /// Which notifications are confirmable.
    pub(super) notify: Notify,
    /// It is to be answered without Observe: its seat was taken back before it was answered at all.
    pub(super) is_refused: bool,
    /// Only the newest value matters.
    pub(super) conflates: bool,
    /// The topic at which it has a seat.
    pub(super) seat: Option<TopicId>,
}

/// No Content-Format is fixed yet; the registry keeps this one free.
pub(super) const NO_FORMAT: u16 = u16::MAX;

/// What an observation waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// For the kernel, and the first response.
    Registering,
    Idle,
    Busy,
}

/// All observations of a link.
#[derive(Default)]
pub(super) struct Relations {
    slots: Vec<Slot>,
    free: Vec<u32>,
    len: usize,
    serial_last: u32,
    /// Those in whose watches something waits.
    ready: VecDeque<u32>,
}

struct Slot {
    generation: u32,
    relation: Option<Relation>,
}

impl Relations {
    /// Adds one that is being registered; its cookie.
    pub(super) fn insert(&mut self, identity: u32, conflates: bool, notify: Notify) -> u64 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot {
                generation: 0,
                relation: None,
            });
            self.slots.len() as u32 - 1
        });
        let Some(slot) = self.slots.get_mut(index as usize) else {
            return u64::MAX;
        };
        slot.generation = slot.generation.wrapping_add(1);
        let generation = slot.generation;
        self.serial_last = self.serial_last.wrapping_add(1);
        slot.relation = Some(Relation {
            number: 0,
            parked: None,
            watch: WatchId(0),
            identity,
            generation,
            serial: self.serial_last,
            format: NO_FORMAT,
            state: State::Registering,
            is_ready: false,
            notify,
            is_refused: false,
            conflates,
            seat: None,
        });
        self.len += 1;
        u64::from(generation) << 32 | u64::from(index)
    }

    pub(super) fn get_mut(&mut self, cookie: u64) -> Option<&mut Relation> {
        let relation = self
            .slots
            .get_mut(cookie as u32 as usize)?
            .relation
            .as_mut()?;
        (u64::from(relation.generation) == cookie >> 32).then_some(relation)
    }

    pub(super) fn remove(&mut self, cookie: u64) -> Option<Relation> {
        self.get_mut(cookie)?;
        let relation = self.slots.get_mut(cookie as u32 as usize)?.relation.take();
        self.free.push(cookie as u32);
        self.len -= 1;
        relation
    }

    /// Something waits for an observer.
    pub(super) fn mark_ready(&mut self, cookie: u64) {
        if let Some(relation) = self.get_mut(cookie)
            && !std::mem::replace(&mut relation.is_ready, true)
        {
            self.ready.push_back(cookie as u32);
        }
    }

    /// The cookie of one for whom something waits.
    pub(super) fn take_ready(&mut self) -> Option<u64> {
        while let Some(index) = self.ready.pop_front() {
            let slot = self.slots.get_mut(index as usize);
            if let Some(relation) = slot.and_then(|slot| slot.relation.as_mut())
                && std::mem::take(&mut relation.is_ready)
            {
                return Some(u64::from(relation.generation) << 32 | u64::from(index));
            }
        }
        // After a burst the buffer need not stay.
        if self.ready.capacity() > READY_KEPT {
            self.ready = VecDeque::new();
        }
        None
    }

    pub(super) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>()
            + (self.ready.capacity() + self.free.capacity()) * size_of::<u32>()
    }

    /// The cookies of all that `wanted` picks, the oldest first.
    pub(super) fn cookies(&self, wanted: impl Fn(&Relation) -> bool) -> Vec<u64> {
        let cookie = |(index, slot): (usize, &Slot)| {
            let relation = slot.relation.as_ref().filter(|relation| wanted(relation))?;
            // How long ago, should the numbers have begun anew.
            let age = self.serial_last.wrapping_sub(relation.serial);
            Some((age, u64::from(relation.generation) << 32 | index as u64))
        };
        let mut found: Vec<(u32, u64)> = self.slots.iter().enumerate().filter_map(cookie).collect();
        found.sort_unstable_by_key(|(age, _)| std::cmp::Reverse(*age));
        found.into_iter().map(|(_, cookie)| cookie).collect()
    }
}

/// Entries that the list of those who are ready keeps room for.
const READY_KEPT: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_observation_is_small() {
        assert!(size_of::<Slot>() <= 64, "{} bytes", size_of::<Slot>());
    }

    #[test]
    fn a_cookie_names_one_observation_and_never_another() {
        let mut relations = Relations::default();
        let first = relations.insert(0, true, Notify::Auto);
        assert!(relations.get_mut(first).is_some());
        relations.mark_ready(first);
        relations.mark_ready(first);
        assert!(relations.remove(first).is_some() && relations.remove(first).is_none());
        let second = relations.insert(0, true, Notify::Auto);
        assert_eq!(first as u32, second as u32, "the place is used again");
        assert!(relations.get_mut(first).is_none());
        assert_eq!(
            relations.take_ready(),
            None,
            "what waited for the first is not the second's"
        );
        relations.mark_ready(second);
        assert_eq!(
            (
                relations.take_ready(),
                relations.take_ready(),
                relations.len()
            ),
            (Some(second), None, 1)
        );
        assert_eq!(relations.cookies(|relation| relation.conflates), [second]);
        let third = relations.insert(0, true, Notify::Auto);
        relations.remove(second);
        let fourth = relations.insert(0, true, Notify::Auto);
        assert!((fourth as u32) < third as u32, "the place is used again");
        assert_eq!(
            relations.cookies(|_| true),
            [third, fourth],
            "the oldest first"
        );
    }
}
