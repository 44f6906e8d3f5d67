//! Receivers say what became of a queue's messages.

use super::Item;
use crate::Kernel;
use crate::ids::{QueueId, SessionId};
use crate::ledger::DropReason;
use crate::verdict::Verdict;
use thalweg_model::{DeathReason, Time};

impl Kernel {
    /// One of a queue, which may have ended.
    pub(crate) fn judge_of_queue(
        &mut self,
        id: SessionId,
        queue_id: QueueId,
        item: Item,
        verdict: Verdict,
        now: Time,
    ) {
        let Some(queue) = self.queues.get_mut(queue_id) else {
            if verdict != Verdict::Requeue {
                return self.book_had(id, &item.message);
            }
            self.hand_back(Some(id));
            return self.book_drop(None, item.message.address(), DropReason::QueueEnded);
        };
        if verdict == Verdict::Requeue {
            if let Some(item) = self.take_back(id, queue_id, item, now) {
                self.put_back(queue_id, item);
                self.trim(queue_id, now);
            }
            return self.settle_deliveries(queue_id);
        }
        queue.unsettled -= 1;
        queue.went += 1;
        let journal = queue.journal_number();
        self.book_had(id, &item.message);
        match verdict {
            Verdict::Reject => self.leave_to_die(queue_id, &item, DeathReason::Rejected, now),
            Verdict::Accept | Verdict::Requeue => self.forget_item(journal, &item, false),
        }
    }

    /// A message of a queue comes back undone; nothing if it was delivered too often and is given up.
    pub(crate) fn take_back(
        &mut self,
        id: SessionId,
        queue_id: QueueId,
        mut item: Item,
        now: Time,
    ) -> Option<Item> {
        let queue = self.queues.get_mut(queue_id)?;
        queue.unsettled -= 1;
        item.deliveries = item.deliveries.saturating_add(1);
        self.hand_back(Some(id));
        self.judge_deliveries(queue_id, item, now)
    }

    /// Whether a message that has come back may wait again, which is written down where deliveries are limited; nothing if it
    /// was delivered too often and is given up.
    fn judge_deliveries(&mut self, queue_id: QueueId, item: Item, now: Time) -> Option<Item> {
        let queue = self.queues.get(queue_id)?;
        if queue.terms.is_too_often(item.deliveries) {
            self.give_up(queue_id, item, DeathReason::DeliveryLimit, now);
            return None;
        }
        if queue.terms.limits.deliveries_max.is_some() && item.deliveries > 0 {
            let journal = queue.journal_number();
            self.persist_returned(journal, item.serial, item.deliveries);
        }
        Some(item)
    }

    /// Messages that have come back wait again.
    pub(crate) fn take_all_back(&mut self, queue_id: QueueId, items: Vec<Item>, now: Time) {
        self.put_all_back(queue_id, items);
        self.trim(queue_id, now);
        self.settle_deliveries(queue_id);
    }

    // --- through groups

    /// A copy that a group was given returns to the head of its queue, or has been delivered too often.
    pub(crate) fn return_to_queue(&mut self, queue_id: QueueId, item: Item, now: Time) {
        let item = self.take_back_item(queue_id, item);
        if let Some(item) = item.and_then(|item| self.judge_deliveries(queue_id, item, now)) {
            self.put_back(queue_id, item);
            self.agenda.pump(queue_id);
        }
    }

    /// The same of what may not be judged: how often it was delivered is not known.
    pub(super) fn let_wait_again(&mut self, queue_id: QueueId, item: Item) {
        if let Some(item) = self.take_back_item(queue_id, item) {
            self.put_back(queue_id, item);
            self.agenda.pump(queue_id);
        }
    }

    fn take_back_item(&mut self, queue_id: QueueId, item: Item) -> Option<Item> {
        let Some(queue) = self.queues.get_mut(queue_id) else {
            self.book_drop(None, item.message.address(), DropReason::QueueEnded);
            return None;
        };
        queue.went = queue.went.saturating_sub(1);
        Some(Item {
            order: queue.backlog.order_before(&item.message),
            expires: queue.terms.expiry_of(&item.message),
            ..item
        })
    }
}
