//! What members of groups have not settled comes back: to the head of the group's queue, in order.
//!
//! Copies that may have been sent go to no other member while their receiver's link is open, and exactly-once copies
//! never do: they stay with the session, which may have begun to process them.

use crate::Kernel;
use crate::books::Delta;
use crate::effects::{Effects, Holder, Safety};
use crate::entry::{Entry, Via};
use crate::groups::group::Group;
use crate::ids::{GroupId, SessionId};
use crate::ledger::DropReason;
use crate::queue::Item;
use thalweg_model::{DeathReason, Time};

impl Kernel {
    /// A member's link has ended: its unsettled at-least-once copies return to their groups, in order. Exactly-once
    /// copies stay with the member, which may have begun to process them.
    pub(crate) fn return_group_copies<E: Effects>(&mut self, id: SessionId, now: Time, fx: &mut E) {
        let Some(number) = self.sessions.get(id).map(|session| session.uid()) else {
            return;
        };
        let entries = self.take_group_copies(id);
        self.return_to_groups(number, entries, now, fx);
    }

    /// Takes from a session what another member of a group may have: copies that never left, and unsettled
    /// at-least-once copies.
    pub(crate) fn take_group_copies(&mut self, id: SessionId) -> Vec<Entry> {
        let Some(session) = self.sessions.get_mut(id) else {
            return Vec::new();
        };
        if session.membership.groups().is_empty() && session.window.of_groups() == 0 {
            return Vec::new();
        }
        let tags: Vec<u16> = session.movable().map(|(tag, ..)| tag).collect();
        let mut entries = Vec::with_capacity(tags.len());
        for tag in tags {
            let Some(slot) = session.window.remove(tag) else {
                continue;
            };
            self.remote
                .seats
                .give_back((id, u16::MAX, 0), u64::from(tag));
            if let Some(mut entry) = slot.into_entry() {
                entry.deliveries = entry.deliveries.saturating_add(1);
                self.books.settled(Delta::copy(entry.message.bytes()));
                session.counts.note_taken_back();
                entries.push(entry);
            }
        }
        entries.extend(self.take_unsent_copies(id));
        entries
    }

    /// Takes from a session what groups gave it and has not left.
    fn take_unsent_copies(&mut self, id: SessionId) -> Vec<Entry> {
        let Some(session) = self.sessions.get_mut(id) else {
            return Vec::new();
        };
        let entries = session.backlog.extract(|entry| entry.group().is_some());
        for entry in &entries {
            session.counts.note_taken_back();
            self.books.left(Delta::copy(entry.message.bytes()));
        }
        entries
    }

    /// What a session was given by groups and did not fit into its output goes back to them: others may have room.
    pub(crate) fn return_unsent<E: Effects>(&mut self, id: SessionId, now: Time, fx: &mut E) {
        let Some(number) = self.sessions.get(id).map(|session| session.uid()) else {
            return;
        };
        let entries = self.take_unsent_copies(id);
        self.return_to_groups(number, entries, now, fx);
    }

    /// A session ends: what it was given exactly once ends with it.
    pub(crate) fn count_lost_to_groups(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get(id) else {
            return;
        };
        for (_, slot) in session.window.iter() {
            if let Some(group) = slot.entry().and_then(Entry::group)
                && let Some(group) = self.groups.get_mut(group)
            {
                group.counters.dropped += 1;
            }
        }
    }

    /// Whether a message that came back undone to a group without a queue has been delivered too often. How often it was is
    /// written down if that is limited. The owner alone judges.
    pub(crate) fn is_too_often(&mut self, group_id: GroupId, serial: u64, deliveries: u16) -> bool {
        let group = self.groups.get(group_id);
        let Some((max, queue)) = group
            .filter(|group| group.owner() == self.env.shard() && deliveries > 0)
            .and_then(|group| Some((group.policy().deliveries_max?, group.number())))
        else {
            return false;
        };
        let is_too_often = u32::from(deliveries) > max;
        if !is_too_often {
            self.persist_returned(queue, serial, deliveries);
        }
        is_too_often
    }

    /// Drops expired messages at the heads of groups whose members take none: they would block later ones, and would be
    /// counted as waiting. A group's dead letters wait for the end of the command.
    pub(crate) fn expire_waiting_of_groups(&mut self, now: Time) {
        for group_id in self.groups.with_expired(now) {
            self.expire_heads(group_id, now);
        }
    }

    /// Gives up expired messages at the head of a group, as far as this call may.
    pub(crate) fn expire_heads(&mut self, group_id: GroupId, now: Time) {
        let is_expired = |group: &Group| group.waiting.is_head_expired(now);
        while self.groups.get(group_id).is_some_and(is_expired)
            && self.agenda.may_expire(Holder::Group(group_id))
            && let Some(group) = self.groups.get_mut(group_id)
            && let Some(item) = group.waiting.pop_expired(now)
        {
            self.books.left(Delta::copy(item.message.bytes()));
            self.give_up_of_group(group_id, item, DeathReason::Expired, now);
        }
    }

    /// A group does not keep a message any longer.
    pub(crate) fn give_up_of_group(
        &mut self,
        group_id: GroupId,
        item: Item,
        why: DeathReason,
        now: Time,
    ) {
        self.forget_given_back(group_id, item.back);
        let message = item.message;
        match why {
            DeathReason::Expired => {
                if let Some(group) = self.groups.get_mut(group_id) {
                    group.counters.expired += 1;
                }
                self.book_expired(None, message.address());
            }
            DeathReason::DeliveryLimit => {
                self.drop_of_group(group_id, &message, DropReason::DeliveryLimit)
            }
            DeathReason::Overflow | DeathReason::Rejected => {
                self.drop_of_group(group_id, &message, DropReason::QueueFull)
            }
        }
        self.leave_group_to_die(group_id, message, item.serial, why, now);
    }

    /// Puts copies of session `number` back at the head of their groups' queues and offers them to other members.
    pub(crate) fn return_to_groups<E: Effects>(
        &mut self,
        number: u64,
        entries: Vec<Entry>,
        now: Time,
        fx: &mut E,
    ) {
        let mut touched: Vec<GroupId> = Vec::new();
        for entry in entries.into_iter().rev() {
            let Entry {
                message,
                via,
                mut serial,
                of_group,
                deliveries,
                ..
            } = entry;
            let Via::Group(group_id, _) = via else {
                continue;
            };
            let redelivered = deliveries > 0;
            self.order_changed(group_id);
            let to = self.group_number(group_id);
            if to == 0 {
                if serial != 0 && !of_group {
                    self.journal.remove(number, serial, Safety::Lazy);
                }
                serial = 0;
            } else if serial != 0 && !of_group {
                self.journal.move_entry(number, serial, to, redelivered);
            }
            let Some(group) = self.groups.get_mut(group_id) else {
                self.book_drop(None, message.address(), DropReason::GroupEnded);
                continue;
            };
            let item = Item::new(message, serial, deliveries);
            if let Some(queue) = group.feed() {
                self.return_to_queue(queue, item, now);
                continue;
            }
            group.counters.returned += u64::from(redelivered);
            if self.is_too_often(group_id, serial, deliveries) {
                self.give_up_of_group(group_id, item, DeathReason::DeliveryLimit, now);
                continue;
            }
            let Some(group) = self.groups.get_mut(group_id) else {
                continue;
            };
            self.books.entered(group.comes_back_first(item));
            if !touched.contains(&group_id) {
                touched.push(group_id);
            }
        }
        for group_id in touched {
            self.hand_over_waiting(group_id, now, fx);
        }
    }
}
