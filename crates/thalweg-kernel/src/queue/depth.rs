//! The part of a long queue whose messages are on disk only.
//!
//! Like that of a session (see `session::spill`): a newcomer waits in memory until it is written, then only its place is kept;
//! what consumers have taken out of memory is fetched back, some at a time. Only queues do that whose messages leave in
//! the order in which they came and from the front alone: those without priorities, bounds and lifetimes of their own.

use super::apart::Claim;
use super::backlog::FETCH_BELOW;
use super::{Backlog, Item, Queue};
use crate::Kernel;
use crate::books::Delta;
use crate::effects::{ConsumerEnd, Effects, Fetch, Holder, Spot};
use crate::ids::{QueueId, SessionId, ShardId};
use crate::ledger::DropReason;
use crate::remote::shards::Asker;
use crate::{QueueLimits, Safety};
use std::collections::VecDeque;
use thalweg_model::{Message, Reliability, Time};
use thalweg_records::{Stored, Waiting};

/// The requester of one message.
#[derive(Clone)]
pub(super) enum Asked {
    /// A line of a session, and whether it will settle the message.
    Line(SessionId, u16, bool),
    /// A reader on that shard that takes single messages.
    Apart(ShardId, Asker, Claim),
}

impl QueueLimits {
    /// Whether messages leave only from the front, for consumers.
    fn is_plain(&self) -> bool {
        self.priority_max == 0
            && self.messages_max.is_none()
            && self.bytes_max.is_none()
            && self.message_ttl.is_none()
    }
}

impl Kernel {
    /// Whether what comes now goes behind what is in memory. It must be written down then.
    pub(super) fn goes_deep(&self, queue_id: QueueId, message: &Message) -> bool {
        let queue = self.queues.get(queue_id);
        queue.is_some_and(|queue| {
            queue.backlog.is_deep()
                || self.exceeds_memory(&queue.backlog, message) && self.may_go_deep(queue)
        })
    }

    /// Whether a message that must not be lost finds no room in the memory of a backlog.
    pub(crate) fn exceeds_memory(&self, backlog: &Backlog, message: &Message) -> bool {
        let most = self.env.limits().named_queue_memory_bytes_max;
        message.reliability() > Reliability::AtMostOnce
            && (self.env.drops_waiting() || backlog.memory() + message.bytes() > most)
    }

    /// Whether what waits in a queue may wait on disk.
    pub(super) fn may_go_deep(&self, queue: &Queue) -> bool {
        queue.terms.durable && queue.terms.limits.is_plain() && !self.books.has_accounts()
    }

    /// The backlog of a queue or group, and the number under which it is in the journal.
    fn backlog_mut(&mut self, holder: Holder) -> Option<(&mut Backlog, u64)> {
        match holder {
            Holder::Session(_) => None,
            Holder::Queue(id) => {
                let queue = self.queues.get_mut(id)?;
                let journal = queue.journal_number();
                Some((&mut queue.backlog, journal))
            }
            Holder::Group(id) => {
                let group = self.groups.get_mut(id)?;
                let journal = group.number();
                Some((&mut group.waiting, journal))
            }
        }
    }

    /// Puts a newcomer behind all that waits.
    pub(crate) fn push_deep(&mut self, holder: Holder, item: Item) {
        let bytes = item.message.bytes();
        let Some((backlog, _)) = self.backlog_mut(holder) else {
            return;
        };
        if backlog.push_deep(item) {
            self.journal.spills(holder);
        }
        self.books.entered(Delta::copy(bytes));
    }

    /// The newcomer has been persisted.
    pub(crate) fn found_backlog_spot(&mut self, holder: Holder, serial: u64, spot: Spot) {
        if let Some((backlog, _)) = self.backlog_mut(holder) {
            backlog.found_spot(serial, spot);
        }
    }

    /// A frame has been written, and its bytes begin at `place`; whether others of the backlog are not written yet.
    pub(crate) fn on_backlog_written(&mut self, holder: Holder, frame: u64, place: u64) -> bool {
        let Some((backlog, _)) = self.backlog_mut(holder) else {
            return false;
        };
        let (released, is_watched) = backlog.on_written(frame, place);
        self.books.left(Delta::memory(released));
        is_watched
    }

    /// Brings more of a backlog into memory if there is room.
    pub(crate) fn refill_backlog(&mut self, holder: Holder) {
        self.refill_backlog_by(holder, FETCH_BELOW);
    }

    /// The same if fewer than `below` are there.
    fn refill_backlog_by(&mut self, holder: Holder, below: usize) {
        let question = u64::from(self.remote.next_question());
        let Some((backlog, _)) = self.backlog_mut(holder) else {
            return;
        };
        if let Some(places) = backlog.refill(question, below) {
            self.journal.fetch(Fetch {
                holder,
                question,
                places,
            });
        }
    }

    /// All that is in memory was looked at and passed over: what is on disk comes, too, while there is room. True if there
    /// is more at once.
    pub(crate) fn reads_on(&mut self, holder: Holder) -> bool {
        let most = self.env.limits().named_queue_memory_bytes_max;
        let Some((backlog, _)) = self.backlog_mut(holder).filter(|it| it.0.is_deep()) else {
            return false;
        };
        let below = if backlog.memory() < most {
            usize::MAX
        } else {
            FETCH_BELOW
        };
        self.refill_backlog_by(holder, below);
        self.backlog_mut(holder).is_some_and(|it| !it.0.is_deep())
    }

    /// What was asked for has come; nothing where a message could not be read.
    pub(crate) fn on_backlog_fetched<E: Effects>(
        &mut self,
        holder: Holder,
        question: u64,
        messages: Vec<Option<Message>>,
        now: Time,
        fx: &mut E,
    ) {
        let backlog = self.backlog_mut(holder);
        if !backlog.is_some_and(|(backlog, _)| backlog.is_answered(question)) {
            return;
        }
        for message in messages {
            let Some((backlog, journal)) = self.backlog_mut(holder) else {
                return;
            };
            let Some((stored, order)) = backlog.pop_fetched() else {
                break;
            };
            self.books.left(Delta::copy(size_of::<Stored>()));
            let Some(message) = message else {
                self.book_drop(None, "", DropReason::Unreadable);
                self.journal.remove(journal, stored.serial, Safety::Lazy);
                continue;
            };
            let item = Item::new(message, stored.serial, stored.deliveries);
            if let Some((backlog, _)) = self.backlog_mut(holder) {
                let delta = backlog.insert(Item { order, ..item });
                self.books.entered(delta);
            }
        }
        match holder {
            Holder::Session(_) => {}
            Holder::Queue(queue_id) => {
                // Requests that have to wait again are in the next list, whatever becomes of this one's owner.
                let queue = self.queues.get_mut(queue_id);
                let asked = queue.map(|queue| queue.backlog.take_asked());
                self.serve_again(queue_id, asked.unwrap_or_default(), now, fx);
                self.pump_queue(queue_id, now, fx);
            }
            Holder::Group(group_id) => {
                self.hand_over_waiting(group_id, now, fx);
                self.end_group_if_due(group_id, now, fx);
            }
        }
    }

    // --- one message at a time

    /// Tries again for receivers that have waited for a queue's messages.
    pub(super) fn serve_again<E: Effects>(
        &mut self,
        queue_id: QueueId,
        asked: VecDeque<Asked>,
        now: Time,
        fx: &mut E,
    ) {
        if let (false, Some(queue)) = (asked.is_empty(), self.queues.get(queue_id)) {
            let address = queue.terms.address.clone();
            self.serve(&address, asked, now, fx);
        }
    }

    /// Tries again for those who asked for one message each.
    pub(super) fn serve<E: Effects>(
        &mut self,
        address: &str,
        asked: VecDeque<Asked>,
        now: Time,
        fx: &mut E,
    ) {
        for asked in asked {
            let (id, line, settles) = match asked {
                Asked::Line(id, line, settles) => (id, line, settles),
                Asked::Apart(from, asker, claim) => {
                    self.answer_taker(from, asker, claim, address, now, fx);
                    continue;
                }
            };
            let taken = self.take_one_now(id, line, address, settles, now, fx);
            if !matches!(taken, Ok(Some(_)))
                && let Some(link) = self.sessions.link_of(id)
            {
                // It has expired meanwhile.
                fx.consumer_ended(link, line, ConsumerEnd::NothingCame);
            }
        }
    }

    // --- the end of a queue, and of all that waits

    /// Drops of what is on disk, the first first, `most` messages or few more; how many. Requests for one message that
    /// will not get any of these are served again.
    pub(super) fn drop_from_depth<E: Effects>(
        &mut self,
        queue_id: QueueId,
        most: usize,
        reason: DropReason,
        now: Time,
        fx: &mut E,
    ) -> usize {
        let Some(queue) = self.queues.get_mut(queue_id) else {
            return 0;
        };
        let Some(lost) = queue.backlog.drop_deep(most) else {
            return 0;
        };
        let (journal, address) = (queue.journal_number(), queue.terms.address.clone());
        let count = lost.serials.len();
        self.books.left(Delta::copies(count, lost.memory));
        self.books.dropped_many(reason, count);
        for serial in lost.serials {
            self.journal.forget(journal, serial, 0);
        }
        self.serve(&address, lost.asked, now, fx);
        count
    }

    /// What an earlier run left in a queue stays on disk, if the queue is one of those.
    pub(super) fn restore_deep(
        &mut self,
        queue_id: QueueId,
        waiting: Waiting,
    ) -> Result<(), Waiting> {
        if self.books.has_accounts()
            || !self
                .queues
                .get(queue_id)
                .is_some_and(|queue| queue.terms.limits.is_plain())
        {
            return Err(waiting);
        }
        let Some(queue) = self.queues.get_mut(queue_id) else {
            return Err(waiting);
        };
        self.books.entered(queue.backlog.restore_deep(waiting));
        Ok(())
    }
}
