//! A group may take from a queue.

use super::terms::Terms;
use super::{Item, QueueOverflow, Selectors, is_queue_address};
use crate::Kernel;
use crate::effects::{Effects, Holder};
use crate::groups::group::Member;
use crate::groups::ordered::LOOK_ANEW;
use crate::groups::seats::{Chosen, Key, key};
use crate::ids::{GroupId, QueueId, SessionId};
use crate::journal::durable::Pending;
use crate::memory::queue_cost;
use crate::remote::aways::is_away;
use crate::verdict::Refusal;
use thalweg_model::{Message, Reliability, Time};
use thalweg_records::StoredGroup;

impl Kernel {
    // --- a group takes from a queue

    /// Creates a durable queue if a consumer asks for one that has not been declared.
    pub(crate) fn ensure_queue(&mut self, address: &str) {
        if !self.has_queues() || !is_queue_address(address) || self.queues.find(address).is_some() {
            return;
        }
        // If it cannot be made, the consumer finds no queue.
        let _ = self.add_plain_queue(address, None);
    }

    /// Makes a queue that outlives the broker and has no terms, but for how many messages may wait; it refuses more.
    pub(super) fn add_plain_queue(
        &mut self,
        address: &str,
        messages_max: Option<u64>,
    ) -> Result<(), Refusal> {
        if self.queues.count() >= self.env.limits().queues_max {
            return Err(Refusal::TooMany);
        }
        if !self.may_keep(0, queue_cost(address)) {
            return Err(Refusal::Short);
        }
        if self.env.journal_full() {
            return Err(Refusal::Full);
        }
        let mut terms = Terms::plain(address, self.journal.next_number());
        if messages_max.is_some() {
            terms.limits.messages_max = messages_max;
            terms.limits.overflow = QueueOverflow::RejectPublish;
        }
        let queue_id = self.add_queue(terms, Time::ZERO);
        if self.env.limits().journal {
            self.persist_queue(queue_id, self.env.limits().safety);
        }
        self.routes.all_have_changed();
        Ok(())
    }

    /// A new group on a queue's address takes from that queue, if it is here. Its entries are the queue's, in the journal,
    /// too.
    pub(crate) fn link_group_to_queue(&mut self, group_id: GroupId, address: &str) {
        let Some(queue_id) = self.queues.find(address) else {
            return;
        };
        let Some(queue) = self.queues.get_mut(queue_id) else {
            return;
        };
        queue.takers.add_group(group_id);
        // One that ends with its owner ends.
        queue.is_ending &= queue.is_exclusive();
        let journal = queue.journal_number();
        if let Some(group) = self.groups.get_mut(group_id) {
            group.link(queue_id, journal);
        }
    }

    pub(crate) fn unlink_group_from_queue<E: Effects>(
        &mut self,
        group_id: GroupId,
        now: Time,
        fx: &mut E,
    ) {
        let Some(queue_id) = self
            .groups
            .get_mut(group_id)
            .and_then(|group| group.unlink())
        else {
            return;
        };
        if let Some(queue) = self.queues.get_mut(queue_id) {
            queue.takers.remove_group(group_id);
        }
        self.queue_lost_consumer(queue_id, now, fx);
    }

    /// Groups that took from a queue of that address before it ended take from the new one, too.
    pub(super) fn link_groups_again(&mut self, address: &str) {
        for group_id in self.groups.ids() {
            let group = self.groups.get_mut(group_id);
            if !group.is_some_and(|group| group.filter() == address && group.feed().is_none()) {
                continue;
            }
            let before = self.group_number(group_id);
            self.link_group_to_queue(group_id, address);
            self.persist_ended(before);
        }
    }

    /// Its queue is gone: what members have is theirs alone.
    pub(super) fn group_lost_queue(&mut self, group_id: GroupId) {
        let Some(group) = self.groups.get_mut(group_id) else {
            return;
        };
        group.lose_queue();
        self.end_leavers(group_id);
        let Some(group) = self.groups.get_mut(group_id) else {
            return;
        };
        let members: Vec<SessionId> = group
            .members()
            .iter()
            .map(|member| member.session)
            .collect();
        for member in members {
            if let Some(session) = self.sessions.get_mut(member) {
                session.detach_from_group(group_id);
            }
        }
    }

    pub(crate) fn is_fed(&self, group_id: GroupId) -> bool {
        self.groups
            .get(group_id)
            .is_some_and(|group| group.feed().is_some())
    }

    /// Whether a group takes from a queue, and this is not the shard of queues.
    pub(crate) fn is_of_queue_elsewhere(&self, group_id: GroupId) -> bool {
        let group = self.groups.get(group_id);
        !self.has_queues() && group.is_some_and(|group| is_queue_address(group.filter()))
    }

    /// Another shard returns what a member there has left; the caller must dispatch from the queue afterwards.
    pub(crate) fn return_from_elsewhere(
        &mut self,
        queue_id: QueueId,
        message: &Message,
        deliveries: u16,
        now: Time,
    ) {
        self.book_routed(None, message.address());
        let number = self.queue_number(queue_id);
        let is_kept = number != 0 && message.reliability() > Reliability::AtMostOnce;
        let serial = self.journal.serial_if(is_kept);
        if is_kept {
            let pending = Pending::new(number, serial, message.reliability(), 0);
            self.journal.refer(pending.that_left());
            self.persist_kept(message, self.env.limits().safety);
        }
        // Marked even if the member was gone before it was sent anything: what was behind it in the queue has gone to others
        // meanwhile, and a consumer relies on the order of what is not marked.
        let item = Item::new(message.clone(), serial, deliveries.max(1));
        match deliveries {
            0 => self.let_wait_again(queue_id, item),
            _ => self.return_to_queue(queue_id, item, now),
        }
    }

    /// What an earlier run left with members of another shard is the queue's again. False if there is no such queue.
    pub(crate) fn restore_into_queue(
        &mut self,
        number: u64,
        stored: &StoredGroup,
        read: &mut dyn FnMut(u64, u32) -> Option<Message>,
    ) -> bool {
        let Some(queue_id) = self.queues.find(&stored.filter) else {
            return false;
        };
        let to = self.queue_number(queue_id);
        self.books.restored(stored.waiting.len());
        let items = self.read_restored(number, &stored.waiting, read);
        for item in items.into_iter().rev() {
            if to != 0 {
                self.journal.move_entry(number, item.serial, to, true);
            }
            let again = Item {
                serial: if to == 0 { 0 } else { item.serial },
                deliveries: item.deliveries.max(1),
                ..item
            };
            self.let_wait_again(queue_id, again);
        }
        self.persist_ended(number);
        true
    }

    /// The group through which a session takes from the queue of that number.
    pub(crate) fn group_of_queue(&self, id: SessionId, number: u64) -> Option<GroupId> {
        let session = self.sessions.get(id)?;
        let is_meant = |queue_id| {
            self.queues
                .get(queue_id)
                .is_some_and(|queue| queue.journal_number() == number)
        };
        let of = |group_id: &&GroupId| {
            let group = self.groups.get(**group_id);
            group.is_some_and(|group| group.feed().is_some_and(is_meant))
        };
        session.membership.groups().iter().find(of).copied()
    }

    /// A message came into a queue and waits: groups that take from it go by how many do.
    pub(super) fn tell_groups_of_arrival(&mut self, queue_id: QueueId, now: Time) {
        let mut at = 0;
        while let Some(group) = self
            .queues
            .get(queue_id)
            .and_then(|queue| queue.takers.groups().get(at).copied())
        {
            self.group_arrival(group, now);
            at += 1;
        }
    }

    /// Whether a member, here or elsewhere, could take a message.
    pub(crate) fn has_member_for(&self, group_id: GroupId, message: &Message) -> bool {
        let Some(group) = self.groups.get(group_id) else {
            return false;
        };
        let (upgrades, screen) = (
            group.policy().upgrade_reliability,
            self.screen(group, message),
        );
        group.everybody().any(|member| {
            self.member_can_take(member, message, upgrades) && screen.passes(key(member))
        })
    }

    /// Whether one of certain members, here or elsewhere, may have a message and could take it.
    pub(super) fn has_member_that(
        &self,
        group_id: GroupId,
        message: &Message,
        is: impl Fn(&Member, Option<&Selectors>) -> bool,
    ) -> bool {
        let upgrades = self.upgrades(group_id);
        self.groups.get(group_id).is_some_and(|group| {
            group.everybody().any(|member| {
                self.member_can_take(member, message, upgrades)
                    && self.member_may_have(member.session, group, message)
                    && is(member, group.selectors())
            })
        })
    }

    /// Whether a message stays in its queue until it is marked as delivered, because members of this group are on other
    /// shards.
    pub(super) fn waits_for_mark(
        &mut self,
        queue_id: QueueId,
        group_id: GroupId,
        serial: u64,
    ) -> bool {
        let group = self.groups.get(group_id);
        group.is_some_and(|group| !group.away().is_empty())
            && !self.is_marked(Holder::Queue(queue_id), serial)
    }

    /// Gives an item of a queue to a member of a group that is not excepted; it is returned if none can take it.
    pub(super) fn give_to_member<E: Effects>(
        &mut self,
        queue_id: QueueId,
        group_id: GroupId,
        item: Item,
        except: &[Key],
        now: Time,
        fx: &mut E,
    ) -> Option<Item> {
        let again = item.deliveries > 0;
        let chosen = self.choose_member(group_id, &item.message, again, except, now);
        if matches!(chosen, Chosen::Bound) {
            self.look_at_group(group_id, now + LOOK_ANEW);
        }
        let Chosen::Member(member) = chosen else {
            return Some(item);
        };
        if let Some(queue) = self.queues.get_mut(queue_id) {
            queue.went += 1;
        }
        let serial = item.serial;
        if is_away(member.session) {
            self.note_unheld_delivery(queue_id, serial);
            self.send_errand(group_id, member.session, item, now);
            return None;
        }
        self.note_delivery(Holder::Queue(queue_id), serial, member.session, fx);
        let (number, upgrades) = (self.group_number(group_id), self.upgrades(group_id));
        let entry = crate::entry::Entry {
            serial,
            ..member.entry(group_id, item.message, item.deliveries, upgrades)
        };
        self.hand_out(member.session);
        let from = if serial == 0 { 0 } else { number };
        self.move_to(member, entry, from, group_id, now, fx);
        None
    }
}
