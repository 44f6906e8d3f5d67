//! Deliveries that have left and are not settled yet, by tag.
//!
//! Tags are given in rising order, so settlement mostly removes at the front; the window is a ring from the oldest
//! unsettled tag to the newest. A receiver that never settles one delivery must not stop tag numbers from moving on:
//! beyond [`SPAN_MAX`] the oldest are set aside in a small map.

use crate::entry::{Entry, Via};
use crate::ids::{GroupId, Tag};
use crate::recount::same;
use std::collections::{BTreeMap, VecDeque};
use thalweg_model::{Message, Reliability, Time};

/// Widest distance between the oldest and the newest tag in the ring.
const SPAN_MAX: usize = 8192;

#[derive(Debug)]
pub(crate) struct Slot {
    pub state: SlotState,
    pub sent_at: Time,
}

impl Slot {
    /// The copy, unless its receiver has it and only its release is to be confirmed.
    #[inline]
    pub(crate) fn entry(&self) -> Option<&Entry> {
        match &self.state {
            SlotState::ExpectSettle(entry) => Some(entry),
            SlotState::ExpectReleased { .. } => None,
        }
    }

    /// The same, taken out.
    #[inline]
    pub(crate) fn into_entry(self) -> Option<Entry> {
        match self.state {
            SlotState::ExpectSettle(entry) => Some(entry),
            SlotState::ExpectReleased { .. } => None,
        }
    }

    /// The group it came through, and its message.
    #[inline]
    pub(crate) fn of_group(&self) -> Option<(GroupId, &Message)> {
        match &self.state {
            SlotState::ExpectSettle(entry) => entry.group().map(|group| (group, &entry.message)),
            SlotState::ExpectReleased { of_group, .. } => {
                of_group.as_ref().map(|(group, message)| (*group, message))
            }
        }
    }

    #[inline]
    fn is_of_group(&self) -> bool {
        match &self.state {
            SlotState::ExpectSettle(entry) => entry.group().is_some(),
            SlotState::ExpectReleased { of_group, .. } => of_group.is_some(),
        }
    }
}

/// What a slot waits for.
#[derive(Debug)]
pub(crate) enum SlotState {
    /// For the receiver to settle, or to confirm receipt of an exactly-once delivery.
    ExpectSettle(Entry),
    /// For the receiver to confirm the release of an exactly-once delivery; the message itself is done with.
    ExpectReleased {
        /// Whether the journal knows of it.
        durable: bool,
        /// The group it came through, if any, and the message: its member may be at work until then.
        of_group: Option<(GroupId, Message)>,
    },
}

#[derive(Debug, Default)]
pub(crate) struct Window {
    ring: VecDeque<Option<Slot>>,
    /// Tag of the ring's front.
    front: Tag,
    aside: BTreeMap<Tag, Slot>,
    unsettled: u32,
    /// Of those, how many came through groups.
    of_groups: u32,
    /// Deliveries of an earlier link that this link's receiver has no credit for yet.
    repeats: VecDeque<Tag>,
    /// Its session's rights may have changed since those were given: they are judged before they are repeated.
    judges_repeats: bool,
}

/// What the window made of a receipt of an exactly-once delivery.
pub(crate) enum Received {
    /// There is no such delivery, or it is none that is settled in two steps.
    Unknown,
    /// It was received before.
    Again,
    /// The copy is done with; its release is to be confirmed.
    Now(Entry),
}

impl Window {
    /// What an earlier run left, in the order in which it was sent.
    pub(crate) fn restored(slots: Vec<(Tag, SlotState)>, now: Time) -> Self {
        let mut window = Window {
            unsettled: slots.len() as u32,
            ..Window::default()
        };
        let Some(&(newest, _)) = slots.last() else {
            return window;
        };
        let behind = |tag: Tag| {
            (usize::from(newest) + usize::from(Tag::MAX) - usize::from(tag)) % usize::from(Tag::MAX)
        };
        let span = slots
            .iter()
            .map(|(tag, _)| behind(*tag))
            .filter(|behind| *behind < SPAN_MAX)
            .max()
            .unwrap_or(0);
        window.front = nth(newest, usize::from(Tag::MAX) - span);
        window.ring.resize_with(span + 1, || None);
        for (tag, state) in slots {
            let slot = Slot {
                state,
                sent_at: now,
            };
            match window.ring.get_mut(span.wrapping_sub(behind(tag))) {
                Some(place) => *place = Some(slot),
                None => {
                    window.aside.insert(tag, slot);
                }
            }
        }
        window
    }

    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.unsettled
    }

    /// How many came through groups that are not done with.
    #[inline]
    pub(crate) fn of_groups(&self) -> u32 {
        self.of_groups
    }

    /// Adds a delivery and names it.
    pub(crate) fn push(&mut self, entry: Entry, now: Time) -> Tag {
        if self.ring.is_empty() {
            // Going on from the last tag keeps every tag unused for as long as possible.
            if self.front == 0 {
                self.front = 1;
            }
            while !self.aside.is_empty() && self.aside.contains_key(&self.front) {
                self.front = next(self.front);
            }
        } else if self.ring.len() >= SPAN_MAX {
            self.set_front_aside();
        }
        self.of_groups += u32::from(entry.group().is_some());
        let mut tag = nth(self.front, self.ring.len());
        while !self.aside.is_empty() && self.aside.contains_key(&tag) {
            self.ring.push_back(None);
            tag = nth(self.front, self.ring.len());
        }
        self.ring.push_back(Some(Slot {
            state: SlotState::ExpectSettle(entry),
            sent_at: now,
        }));
        self.unsettled += 1;
        tag
    }

    fn set_front_aside(&mut self) {
        if let Some(Some(slot)) = self.ring.pop_front() {
            self.aside.insert(self.front, slot);
        }
        self.front = next(self.front);
        self.trim();
    }

    fn index(&self, tag: Tag) -> Option<usize> {
        if tag == 0 || self.ring.is_empty() {
            return None;
        }
        let distance = if tag >= self.front {
            tag - self.front
        } else {
            tag + (Tag::MAX - self.front)
        };
        ((distance as usize) < self.ring.len()).then_some(distance as usize)
    }

    pub(crate) fn get(&self, tag: Tag) -> Option<&Slot> {
        if !self.aside.is_empty()
            && let Some(slot) = self.aside.get(&tag)
        {
            return Some(slot);
        }
        self.ring.get(self.index(tag)?)?.as_ref()
    }

    #[inline]
    fn get_mut(&mut self, tag: Tag) -> Option<&mut Slot> {
        // The ring may have a hole where a tag is that was set aside.
        if !self.aside.is_empty() && self.aside.contains_key(&tag) {
            return self.aside.get_mut(&tag);
        }
        self.ring.get_mut(self.index(tag)?)?.as_mut()
    }

    /// The delivery that was pushed last, if it is there still.
    pub(crate) fn newest(&self) -> Option<&Slot> {
        self.ring.back()?.as_ref()
    }

    /// Takes a delivery out; its tag may be given again.
    pub(crate) fn remove(&mut self, tag: Tag) -> Option<Slot> {
        self.remove_if(tag, |_| true)
    }

    /// The same if it is as it should be.
    #[inline]
    pub(crate) fn remove_if(
        &mut self,
        tag: Tag,
        is_right: impl FnOnce(&SlotState) -> bool,
    ) -> Option<Slot> {
        if !self.aside.is_empty()
            && let Some(slot) = self.aside.get(&tag)
        {
            if !is_right(&slot.state) {
                return None;
            }
            let slot = self.aside.remove(&tag)?;
            self.left(&slot);
            return Some(slot);
        }
        let at = self.index(tag)?;
        let slot = self
            .ring
            .get_mut(at)?
            .take_if(|slot| is_right(&slot.state))?;
        if at == 0 {
            self.trim();
        }
        self.left(&slot);
        Some(slot)
    }

    /// Takes back the delivery that was pushed last, because it did not leave after all.
    pub(crate) fn undo(&mut self, tag: Tag) -> Option<Entry> {
        debug_assert_eq!(self.index(tag), Some(self.ring.len().wrapping_sub(1)));
        let slot = self.ring.pop_back()??;
        self.left(&slot);
        slot.into_entry()
    }

    #[inline]
    fn left(&mut self, slot: &Slot) {
        self.unsettled -= 1;
        self.of_groups -= u32::from(slot.is_of_group());
    }

    /// The receiver of an exactly-once delivery has it; it is `durable` if the journal knows of it.
    pub(crate) fn receive(&mut self, tag: Tag, durable: impl FnOnce(&Entry) -> bool) -> Received {
        let Some(slot) = self.get_mut(tag) else {
            return Received::Unknown;
        };
        let released = match &slot.state {
            SlotState::ExpectReleased { .. } => return Received::Again,
            SlotState::ExpectSettle(entry) if entry.reliability != Reliability::ExactlyOnce => {
                return Received::Unknown;
            }
            SlotState::ExpectSettle(entry) => SlotState::ExpectReleased {
                durable: durable(entry),
                of_group: entry.group().map(|group| (group, entry.message.clone())),
            },
        };
        match std::mem::replace(&mut slot.state, released) {
            SlotState::ExpectSettle(entry) => Received::Now(entry),
            SlotState::ExpectReleased { .. } => Received::Again,
        }
    }

    // --- groups

    /// A copy that an earlier run left came through this group.
    pub(crate) fn restore_group(&mut self, tag: Tag, group: GroupId) {
        if let Some(Slot {
            state: SlotState::ExpectSettle(entry),
            ..
        }) = self.get_mut(tag)
        {
            let was_own = entry.group().is_none();
            let id = entry.via.subscription_ids().first().copied();
            entry.via = Via::Group(group, id.unwrap_or(0));
            self.of_groups += u32::from(was_own);
        }
    }

    /// What came through a group is the session's own from now on: names in the journal's queue of the group.
    pub(crate) fn detach_from_group(&mut self, group: GroupId) -> Vec<u64> {
        let mut serials = Vec::new();
        let mut detached = 0;
        for slot in self.slots_mut() {
            match &mut slot.state {
                SlotState::ExpectSettle(entry) if entry.group() == Some(group) => {
                    entry.leave_group();
                    detached += 1;
                    if std::mem::take(&mut entry.of_group) {
                        serials.push(std::mem::take(&mut entry.serial));
                    }
                }
                SlotState::ExpectSettle(_) => {}
                SlotState::ExpectReleased { of_group, .. } => {
                    let taken = of_group.take_if(|(of, _)| *of == group);
                    detached += u32::from(taken.is_some());
                }
            }
        }
        self.of_groups -= detached;
        serials
    }

    /// The journal knows nothing of a delivery from now on.
    pub(crate) fn forget_serial(&mut self, tag: Tag) {
        if let Some(Slot {
            state: SlotState::ExpectSettle(entry),
            ..
        }) = self.get_mut(tag)
        {
            (entry.serial, entry.of_group) = (0, false);
        }
    }

    /// The group's queue in the journal has ended.
    pub(crate) fn forget_serials_of_group(&mut self, group: GroupId) {
        for slot in self.slots_mut() {
            if let SlotState::ExpectSettle(entry) = &mut slot.state
                && entry.group() == Some(group)
                && entry.of_group
            {
                (entry.serial, entry.of_group) = (0, false);
            }
        }
    }

    // --- repeats

    /// All that expects to be settled is sent again over a new link, as far as its receiver allows.
    pub(crate) fn begin_repeats(&mut self) {
        let mut repeats = std::mem::take(&mut self.repeats);
        let unsettled = self.iter().filter(|(_, slot)| slot.entry().is_some());
        repeats.extend(unsettled.map(|(tag, _)| tag));
        self.repeats = repeats;
    }

    pub(super) fn judge_repeats(&mut self, judges: bool) {
        self.judges_repeats = judges;
    }

    /// Whether what is to be repeated has to be judged first; it is now.
    #[inline]
    pub(crate) fn take_judges_repeats(&mut self) -> bool {
        std::mem::take(&mut self.judges_repeats)
    }

    #[inline]
    pub(crate) fn has_repeats(&self) -> bool {
        !self.repeats.is_empty()
    }

    /// The next to be sent again, to a receiver that allows `max` unsettled.
    pub(crate) fn next_repeat(&mut self, max: u16) -> Option<Tag> {
        let sent = (self.unsettled as usize).saturating_sub(self.repeats.len());
        if sent >= usize::from(max) {
            return None;
        }
        self.repeats.pop_front()
    }

    /// A delivery is sent again; nothing if it is known to have arrived.
    pub(crate) fn repeat(&mut self, tag: Tag, now: Time) -> Option<&Entry> {
        let slot = self.get_mut(tag)?;
        let SlotState::ExpectSettle(entry) = &mut slot.state else {
            return None;
        };
        slot.sent_at = now;
        entry.deliveries = entry.deliveries.saturating_add(1);
        Some(entry)
    }

    /// To look at them; [`Window::set_repeats`] must follow with those that remain.
    pub(crate) fn take_repeats(&mut self) -> VecDeque<Tag> {
        std::mem::take(&mut self.repeats)
    }

    pub(crate) fn set_repeats(&mut self, repeats: VecDeque<Tag>) {
        self.repeats = repeats;
    }

    /// The link has ended.
    pub(crate) fn forget_repeats(&mut self) {
        self.repeats.clear();
    }

    fn trim(&mut self) {
        while let Some(None) = self.ring.front() {
            self.ring.pop_front();
            self.front = next(self.front);
        }
        if self.ring.is_empty() && self.ring.capacity() > 64 {
            self.ring.shrink_to(16);
        }
    }

    /// All unsettled deliveries, oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Tag, &Slot)> {
        let front = self.front;
        let ring = self.ring.iter().enumerate();
        let ring =
            ring.filter_map(move |(at, slot)| slot.as_ref().map(|slot| (nth(front, at), slot)));
        self.aside
            .iter()
            .map(|(tag, slot)| (*tag, slot))
            .chain(ring)
    }

    fn slots_mut(&mut self) -> impl Iterator<Item = &mut Slot> {
        self.aside
            .values_mut()
            .chain(self.ring.iter_mut().flatten())
    }

    /// How many came through groups, counted anew.
    pub(crate) fn recount(&self) -> Result<(), String> {
        let of_groups = self.iter().filter(|(_, slot)| slot.is_of_group());
        same(
            "copies of groups",
            self.of_groups as usize,
            of_groups.count(),
        )?;
        same("unsettled", self.unsettled as usize, self.iter().count())
    }
}

/// The tag after `tag`; 0 is never given.
fn next(tag: Tag) -> Tag {
    if tag == Tag::MAX { 1 } else { tag + 1 }
}

fn nth(front: Tag, distance: usize) -> Tag {
    // Tags live in 1..=65535: a ring of 65,535 numbers.
    (((front as usize - 1) + distance) % Tag::MAX as usize + 1) as Tag
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window_at(front: Tag) -> Window {
        Window {
            front,
            ..Window::default()
        }
    }

    #[test]
    fn tags_rise_wrap_and_skip_zero() {
        let mut window = window_at(65_534);
        let tags: Vec<_> = (0..4)
            .map(|_| window.push(Entry::for_test(), Time::ZERO))
            .collect();
        assert_eq!(tags, [65_534, 65_535, 1, 2]);
        assert!(window.remove(1).is_some());
        assert!(window.remove(1).is_none());
        assert!(window.get(2).is_some());
        assert_eq!(window.len(), 3);
        assert_eq!(
            window.iter().map(|(tag, _)| tag).collect::<Vec<_>>(),
            [65_534, 65_535, 2]
        );
    }

    #[test]
    fn one_delivery_that_is_never_settled_does_not_stop_the_others() {
        let mut window = Window::default();
        let stuck = window.push(Entry::for_test(), Time::ZERO);
        for _ in 0..200_000 {
            let tag = window.push(Entry::for_test(), Time::ZERO);
            assert_ne!(tag, stuck, "a tag in flight is never given again");
            assert_ne!(tag, 0);
            assert!(window.remove(tag).is_some());
        }
        assert_eq!(window.len(), 1);
        assert!(window.remove(stuck).is_some());
        assert_eq!(window.len(), 0);
    }

    #[test]
    fn a_restored_window_has_the_old_tags_in_the_old_order_and_goes_on_behind_them() {
        let slots = |tags: &[Tag]| {
            tags.iter()
                .map(|tag| (*tag, SlotState::ExpectSettle(Entry::for_test())))
                .collect()
        };
        for tags in [
            &[65_534, 65_535, 2, 3][..],
            &[7],
            &[2, 65_535],
            &[9, 20_000, 20_005],
            &[65_535, 1],
        ] {
            let mut window = Window::restored(slots(tags), Time::ZERO);
            assert_eq!(window.iter().map(|(tag, _)| tag).collect::<Vec<_>>(), tags);
            assert_eq!(window.len() as usize, tags.len());
            let tag = window.push(Entry::for_test(), Time::ZERO);
            assert_eq!(Some(tag), tags.last().map(|last| next(*last)));
            for tag in tags {
                assert!(window.remove(*tag).is_some());
            }
            assert_eq!(window.len(), 1);
        }
        assert_eq!(
            Window::restored(Vec::new(), Time::ZERO).push(Entry::for_test(), Time::ZERO),
            1
        );
    }

    #[test]
    fn a_delivery_set_aside_is_found_although_the_ring_has_come_round_to_its_tag() {
        let mut window = Window::default();
        let stuck = window.push(Entry::for_test(), Time::ZERO);
        let mut tags = VecDeque::new();
        // The ring lies around the old tag.
        for _ in 0..usize::from(Tag::MAX) + 5 {
            tags.push_back(window.push(Entry::for_test(), Time::ZERO));
            if tags.len() > 10 {
                assert!(
                    tags.pop_front()
                        .and_then(|tag| window.remove(tag))
                        .is_some()
                );
            }
        }
        assert!(window.get(stuck).is_some());
        assert!(window.remove(stuck).is_some());
        assert!(window.remove(stuck).is_none());
        assert!(tags.into_iter().all(|tag| window.remove(tag).is_some()));
        assert_eq!(window.len(), 0);
    }

    #[test]
    fn undo_gives_the_same_tag_again() {
        let mut window = Window::default();
        let tag = window.push(Entry::for_test(), Time::ZERO);
        assert!(window.undo(tag).is_some());
        assert_eq!(window.push(Entry::for_test(), Time::ZERO), tag);
    }
}
