//! Which messages of a durable queue may have been delivered, as a start finds it in the journal.
//!
//! A message that is handed over as it comes is written down as delivered. Of those that waited, the queue's own record
//! names the highest serial that may have left; it is raised ahead of what leaves, further each time, so that a long queue
//! costs a record in a thousand messages. When the last consumer leaves, or a message returns to a queue without one, it is
//! set back to what did leave. So it is exact after consumers have gone in good order; otherwise it covers at most as many
//! again as were delivered, and no more than [`AHEAD_MAX`].

use crate::Kernel;
use crate::effects::{Effects, Safety};
use crate::ids::{GroupId, QueueId, SessionId};
use thalweg_records::Record;

/// Messages for which it is raised at once, at the most.
const AHEAD_MAX: u64 = 1024;

/// What of a group may have been delivered to members that end with their links.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Delivered {
    /// The highest serial of it, and how far that is raised ahead.
    to: u64,
    ahead: u64,
}

impl Delivered {
    /// What an earlier run may have delivered.
    pub(crate) fn up_to(serial: u64) -> Self {
        Delivered {
            to: serial,
            ahead: 0,
        }
    }

    /// A message is about to be delivered; the highest serial that may have been from now on, if that is raised. Serials
    /// of a shard are `step` apart.
    pub(crate) fn raise(&mut self, serial: u64, step: u64) -> Option<u64> {
        if serial <= self.to {
            return None;
        }
        self.to = serial + self.ahead * step;
        self.ahead = (self.ahead * 2 + 1).min(AHEAD_MAX);
        Some(self.to)
    }
}

impl Kernel {
    /// A message that waited is about to be delivered; what its receiver is sent waits until that is written down. A receiver
    /// on another shard, and one that is not a session, cannot be made to wait: for them all of the queue's messages may have
    /// been delivered from now on.
    #[inline]
    pub(super) fn note_delivery<E: Effects>(
        &mut self,
        queue_id: QueueId,
        serial: u64,
        to: Option<SessionId>,
        fx: &mut E,
    ) {
        let Some(queue) = self.queues.get_mut(queue_id).filter(|queue| queue.durable) else {
            return;
        };
        queue.left = queue.left.max(serial);
        if serial > queue.delivered_to {
            self.raise_delivered(queue_id, serial, to, fx);
        }
    }

    #[cold]
    fn raise_delivered<E: Effects>(
        &mut self,
        queue_id: QueueId,
        serial: u64,
        to: Option<SessionId>,
        fx: &mut E,
    ) {
        let (step, safety) = (u64::from(self.env.shards()), self.env.limits().safety);
        let Some(queue) = self.queues.get_mut(queue_id) else {
            return;
        };
        queue.delivered_to = match to {
            Some(_) => serial + queue.delivered_ahead * step,
            None => u64::MAX,
        };
        queue.delivered_ahead = (queue.delivered_ahead * 2 + 1).min(AHEAD_MAX);
        self.persist_queue(queue_id, safety);
        if let Some(link) = to
            .and_then(|id| self.sessions.get(id))
            .and_then(|session| session.link())
        {
            fx.hold(link, self.journal.awaited());
        }
    }

    /// The same of a message that waited in a group without a queue, for a member that ends with its link: the message stays
    /// the group's, as it is written down.
    #[inline]
    pub(crate) fn note_group_delivery<E: Effects>(
        &mut self,
        group_id: GroupId,
        serial: u64,
        to: SessionId,
        fx: &mut E,
    ) {
        let (step, safety) = (u64::from(self.env.shards()), self.env.limits().safety);
        let group = self.groups.get_mut(group_id);
        let raised = group.and_then(|group| group.note_delivered(serial, step));
        let Some((queue, serial)) = raised else {
            return;
        };
        self.journal
            .persist(&Record::Delivered { queue, serial }, safety);
        if let Some(link) = self.sessions.get(to).and_then(|session| session.link()) {
            fx.hold(link, self.journal.awaited());
        }
    }

    /// If a queue has no consumer and no unsettled delivery, what is written down of its deliveries becomes exact.
    pub(super) fn settle_deliveries(&mut self, queue_id: QueueId) {
        let Some(queue) = self.queues.get(queue_id) else {
            return;
        };
        let is_taken_from =
            queue.unsettled > 0 || !queue.consumers.is_empty() || !queue.groups.is_empty();
        // Nothing was raised since the last time; or what was given up is not where it goes yet, and may wait here again.
        if queue.delivered_ahead == 0 || is_taken_from || self.agenda.kept().next().is_some() {
            return;
        }
        let (delivered, first_of_others) = queue.backlog.delivered(queue.left);
        let last = delivered.iter().copied().max().unwrap_or(0);
        let is_exact = last < first_of_others;
        let (number, to) = (queue.number, if is_exact { last } else { 0 });
        if !is_exact {
            // Not in their order: by priority, or past what a consumer may not have.
            for serial in delivered {
                let (from, to) = (number, number);
                let moved = Record::Moved {
                    from,
                    serial,
                    to,
                    tag: 0,
                    redelivered: true,
                    grant: None,
                };
                self.journal.persist(&moved, Safety::Lazy);
            }
        }
        if let Some(queue) = self.queues.get_mut(queue_id) {
            (queue.delivered_to, queue.delivered_ahead, queue.left) = (to, 0, last);
        }
        self.persist_queue(queue_id, Safety::Lazy);
    }
}
