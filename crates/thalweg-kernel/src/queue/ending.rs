//! A queue loses all its messages: it is purged, or ends. They are dropped in portions, so that the shard's other work
//! does not wait long.

use super::Queue;
use crate::Kernel;
use crate::books::Delta;
use crate::effects::{ConsumerEnd, Effects};
use crate::ids::{QueueId, SessionId};
use crate::ledger::DropReason;
use crate::lines::Source;
use crate::memory::{Kept, queue_cost};
use crate::routes::cached::SinkKind;
use crate::timers::TimerKey;
use crate::verdict::Refusal;
use thalweg_model::Time;

/// How many messages one call drops, or gives the memory back of.
pub(super) const DROPPED_PER_CALL: usize = 1024;

/// How far a purge has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Purged {
    /// How many messages this call has dropped.
    pub count: u64,
    /// Messages left to drop; the operation is confirmed when it is 0.
    pub left: u64,
}

/// How far the deletion of a queue has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deleted {
    /// It is gone, with so many messages.
    Gone(u64),
    /// So many of its dead letters wait that some go their way first: it is to be deleted again.
    InPart,
}

impl Kernel {
    /// Drops what waits in a queue, or so much of it that others need not wait long. `left` is what an earlier call had to
    /// leave of the same purge, if there was one.
    pub fn purge_queue<E: Effects>(
        &mut self,
        id: SessionId,
        address: &str,
        left: Option<u64>,
        now: Time,
        fx: &mut E,
    ) -> Result<Purged, Refusal> {
        let queue_id = self.queues.find(address).ok_or(Refusal::NoQueue)?;
        self.may_configure_queue(id, queue_id)?;
        let queue = self.queues.get(queue_id).ok_or(Refusal::NoQueue)?;
        let journal = queue.journal_number();
        // What comes while it goes on need not be dropped, or it might go on for ever.
        let all = left.unwrap_or(u64::MAX).min(queue.backlog.len() as u64);
        let most = (DROPPED_PER_CALL as u64).min(all) as usize;
        let mut count = 0;
        while count < most
            && let Some(item) = self.take_next(queue_id)
        {
            count += 1;
            self.book_drop(None, item.message.address(), DropReason::Purged);
            self.forget_item(journal, &item, false);
        }
        if count < most {
            count += self.drop_from_depth(queue_id, most - count, DropReason::Purged, now, fx);
        }
        let dropped_some = count > 0 || left.is_some();
        let left = all.saturating_sub(count as u64);
        if left == 0 && self.sessions.link_of(id).is_some() {
            // What was purged must not be there again after the answer.
            if dropped_some {
                self.journal.demand(self.session_safety(id));
            }
            self.hold(id, fx);
        }
        Ok(Purged {
            count: count as u64,
            left,
        })
    }

    /// Ends a queue, or has its timer do that if more of its dead letters wait than one command buries.
    pub(crate) fn end_queue_soon<E: Effects>(&mut self, queue_id: QueueId, now: Time, fx: &mut E) {
        let Some(queue) = self.queues.get_mut(queue_id) else {
            return;
        };
        if self.agenda.can_end(queue.journal_number()) {
            return self.end_queue(queue_id, now, fx);
        }
        queue.is_ending = true;
        self.agenda
            .set_timer_soon(now, TimerKey::QueueIdle(queue_id));
    }

    /// Ends a queue: its messages, its bindings, and its consumers, which are notified.
    pub(super) fn end_queue<E: Effects>(&mut self, queue_id: QueueId, now: Time, fx: &mut E) {
        let Some(mut queue) = self.queues.remove(queue_id) else {
            return;
        };
        self.env.left(
            Kept::Topology,
            queue_cost(&queue.terms.address) + queue.terms.made_by.bytes() + queue.filters_cost(),
        );
        self.remove_sink(&queue.terms.address, SinkKind::Queue, queue_id.index());
        for binding in std::mem::take(&mut queue.bindings) {
            self.end_binding(binding, fx);
        }
        self.bury_soon(queue.journal_number());
        self.book_ended(&queue);
        self.persist_ended(queue.journal_number());
        let takers = std::mem::take(&mut queue.takers);
        for group in takers.groups() {
            self.group_lost_queue(*group);
        }
        for consumer in takers.consumers() {
            let source = Source::Queue(queue_id);
            if let Some(line) = self.line_mut(consumer.session, consumer.line) {
                line.lose_source(consumer.number, source);
            }
            if let Some(link) = self.sessions.link_of(consumer.session) {
                let ended = ConsumerEnd::QueueGone(consumer.number);
                fx.consumer_ended(link, consumer.line, ended);
            }
        }
        if let Some(owner) = queue.terms.owner
            && let Some(lines) = self.lines_of(owner)
        {
            lines.disown(queue_id);
        }
        let mut asked = queue.backlog.take_asked();
        asked.append(&mut queue.mark.take_awaiting());
        self.serve(&queue.terms.address, asked, now, fx);
        self.queues.add_ended(queue);
        self.routes.all_have_changed();
    }

    /// Books the messages of a queue that ends as dropped; their memory is freed later.
    fn book_ended(&mut self, queue: &Queue) {
        self.books.left(Delta::copies(
            queue.backlog.len(),
            queue.backlog.memory_held(),
        ));
        if self.books.has_accounts() {
            for item in queue.backlog.items() {
                self.book_drop(None, item.message.address(), DropReason::QueueEnded);
            }
        } else {
            self.books
                .dropped_many(DropReason::QueueEnded, queue.backlog.len());
        }
    }
}
