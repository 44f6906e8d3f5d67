//! Groups take from a queue, here or for members on other shards.

use super::Item;
use crate::Kernel;
use crate::effects::Effects;
use crate::ids::{GroupId, QueueId};
use crate::journal::durable::Pending;
use thalweg_model::{Message, Reliability, Time};
use thalweg_records::StoredGroup;

impl Kernel {
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
}
