//! A message comes into a queue.

use super::dead_letter::Dead;
use super::{Item, Queue};
use crate::Kernel;
use crate::books::Delta;
use crate::effects::{Effects, Holder};
use crate::ids::QueueId;
use crate::journal::durable::Pending;
use crate::ledger::DropReason;
use crate::{QueueOverflow, SessionId};
use thalweg_model::{DeathReason, Message, Reliability, Time};

impl Kernel {
    /// Puts a message into a queue, or straight into the hands of a consumer; whether it was refused.
    pub(crate) fn accept<E: Effects>(
        &mut self,
        queue_id: QueueId,
        message: &Message,
        now: Time,
        fx: &mut E,
    ) -> bool {
        let address = self.books.address_of(message);
        self.book_routed(None, address);
        let journal = self.env.limits().journal && message.reliability() > Reliability::AtMostOnce;
        let is_kept = journal && self.queues.get(queue_id).is_some_and(Queue::is_durable);
        let serial = self.journal.serial_if(is_kept);
        let Some(queue) = self.queues.get_mut(queue_id) else {
            self.book_drop(None, message.address(), DropReason::QueueEnded);
            return false;
        };
        let number = queue.journal_number();
        let mut item = queue.newest(message.clone(), serial, now);
        let expires = item.expires;
        if queue.backlog.is_empty() && !queue.takers.consumers().is_empty() {
            match self.hand_to_somebody(queue_id, item, true, now, fx) {
                Ok(unsettled) => {
                    if unsettled && serial != 0 {
                        let pending = Pending::new(number, serial, message.reliability(), 0);
                        self.journal.refer(pending.that_left());
                    }
                    return false;
                }
                Err(back) => item = back,
            }
        }
        let to_disk = self.env.drops_waiting() && self.goes_deep(queue_id, message);
        if self.env.drops_what_waits(message, to_disk) {
            self.book_drop(None, message.address(), DropReason::Memory);
            return message.reliability() > Reliability::AtMostOnce;
        }
        match self.make_room(queue_id, message, now) {
            Room::Made => {}
            Room::NotForThis => return false,
            Room::Refused => {
                self.note_waiting_in_queue(queue_id, now);
                return true;
            }
        }
        self.tell_groups_of_arrival(queue_id, now);
        if self.goes_deep(queue_id, message) {
            self.accept_deep(queue_id, item);
            self.note_waiting_in_queue(queue_id, now);
            return false;
        }
        if serial != 0 {
            self.journal
                .refer(Pending::new(number, serial, message.reliability(), 0));
        }
        let Some(queue) = self.queues.get_mut(queue_id) else {
            return false;
        };
        let delta = queue.backlog.insert(item);
        let has_groups = !queue.takers.groups().is_empty();
        let has_consumers = !queue.takers.consumers().is_empty();
        let is_behind = queue.backlog.len() > 1 && has_consumers;
        self.books.entered(delta);
        self.note_waiting_in_queue(queue_id, now);
        let is_rated = has_consumers && self.env.rates_subscribers();
        if has_groups || is_rated || (is_behind && self.has_choosy_consumer(queue_id)) {
            // Groups take it when it is written down.
            self.agenda.pump(queue_id);
        }
        if expires != Time::NEVER {
            self.watch_expiry(queue_id);
        }
        false
    }

    /// Whether a message that comes now would wait in memory.
    pub(crate) fn queue_must_wait(
        &self,
        queue_id: QueueId,
        address: &str,
        may_go_to_disk: bool,
    ) -> bool {
        let Some(queue) = self.queues.get(queue_id) else {
            return false;
        };
        let to_disk = may_go_to_disk && (queue.backlog.is_deep() || self.may_go_deep(queue));
        !to_disk && (!queue.backlog.is_empty() || !self.has_taker_now(queue_id, address))
    }

    /// Whether some consumer may have to be passed over, so that others are not kept waiting by what it may not have.
    fn has_choosy_consumer(&self, queue_id: QueueId) -> bool {
        let judged = |id: SessionId| {
            self.sessions
                .get(id)
                .is_some_and(|session| !session.access().is_allow_all())
        };
        self.queues.get(queue_id).is_some_and(|queue| {
            let mut consumers = queue.takers.consumers().iter();
            queue.selectors.is_some() || consumers.any(|consumer| judged(consumer.session))
        })
    }

    /// Puts a message behind those on disk; it is refused never.
    fn accept_deep(&mut self, queue_id: QueueId, mut item: Item) {
        if item.serial == 0 {
            // In its place in line it can only be as safe as its neighbours.
            item.serial = self.journal.next_serial();
        }
        let number = self.queue_number(queue_id);
        let pending = Pending::new(number, item.serial, item.message.reliability(), 0);
        self.journal.refer(Pending {
            to_disk: Some(Holder::Queue(queue_id)),
            ..pending
        });
        let queue = self.queues.get(queue_id);
        let is_asked = queue
            .is_some_and(|queue| !queue.takers.groups().is_empty() || queue.selectors.is_some());
        self.push_deep(Holder::Queue(queue_id), item);
        if is_asked {
            self.agenda.pump(queue_id);
        }
    }

    /// Makes room for one more.
    fn make_room(&mut self, queue_id: QueueId, message: &Message, now: Time) -> Room {
        let (messages_max, bytes_max) = (
            self.env.limits().named_queue_messages_max,
            self.env.limits().named_queue_bytes_max,
        );
        let len = message.payload().len() as u64;
        loop {
            let Some(queue) = self.queues.get(queue_id) else {
                return Room::NotForThis;
            };
            if queue.backlog.len() as u64 >= messages_max
                || queue.backlog.payload_bytes() + len > bytes_max
            {
                // The broker's own bound: what waits was accepted, so the newcomer is refused.
                self.book_drop(None, message.address(), DropReason::QueueFull);
                return Room::Refused;
            }
            if !queue.exceeds(1, len) {
                return Room::Made;
            }
            let overflow = queue.terms.limits.overflow;
            let fits_alone = queue.terms.limits.messages_max != Some(0)
                && queue.terms.limits.bytes_max.is_none_or(|max| len <= max);
            if overflow == QueueOverflow::DropHead
                && fits_alone
                && self.drop_head(queue_id, now).is_some()
            {
                continue;
            }
            if overflow != QueueOverflow::RejectPublish {
                let dead = Dead::new(message.clone(), DeathReason::Overflow);
                self.note_dead_letter(queue_id, dead, now);
            }
            self.book_drop(None, message.address(), DropReason::QueueFull);
            return if overflow == QueueOverflow::DropHead {
                Room::NotForThis
            } else {
                Room::Refused
            };
        }
    }

    /// What came back may have filled a queue that gives its oldest up.
    pub(super) fn trim(&mut self, queue_id: QueueId, now: Time) {
        while let Some(queue) = self.queues.get(queue_id)
            && queue.terms.limits.overflow == QueueOverflow::DropHead
            && queue.exceeds(0, 0)
            && self.drop_head(queue_id, now).is_some()
        {}
    }

    fn drop_head(&mut self, queue_id: QueueId, now: Time) -> Option<()> {
        let oldest = self.queues.get_mut(queue_id)?.backlog.pop_least()?;
        self.books.left(Delta::copy(oldest.message.bytes()));
        self.give_up(queue_id, oldest, DeathReason::Overflow, now);
        Some(())
    }
}

/// Whether there is room for a newcomer.
enum Room {
    Made,
    /// The oldest must go, and this one is too large to take its place: its publisher need not know.
    NotForThis,
    Refused,
}
