//! Which messages of a durable queue may have been delivered, as a start finds it in the journal.
//!
//! A message that is handed over as it comes is written down as delivered. Of those that waited, the queue's own record
//! names the highest serial that may have left, the mark; it is raised ahead of what leaves, further each time, so that a
//! long queue costs a record in a thousand messages. When the last consumer leaves, or a message returns to a queue without
//! one, it is set back to what did leave. So it is exact after consumers have gone in good order; otherwise it covers at most
//! as many again as were delivered, and no more than [`AHEAD_MAX`].
//!
//! No message that waited reaches its receiver before a mark that covers it is safe. A session of this shard is sent it, and
//! its output is held; what another shard, or a receiver without a line, is to have stays in the queue (decision 0055). All of
//! this is so in a group without a queue, but that its mark is a record of its own and never set back.

use super::depth::Asked;
use crate::Kernel;
use crate::effects::{Effects, Holder, Safety};
use crate::ids::{QueueId, SessionId};
use std::collections::VecDeque;
use thalweg_model::Time;
use thalweg_records::Record;

/// Messages for which the mark is raised at once, at the most.
const AHEAD_MAX: u64 = 1024;

/// Up to which serial messages of a durable queue may have been delivered, as far as the journal has it. A group that takes
/// from no queue has one, too.
#[derive(Default)]
pub(crate) struct Mark {
    /// What was written down last.
    to: u64,
    /// No higher than that, and as safe as was asked for.
    safe: u64,
    /// How many serials further it is raised next.
    ahead: u64,
    /// The highest serial of those that waited and left.
    left: u64,
    /// Receivers that may have what they asked for when it is safe, or when what has expired before that is gone.
    awaited_by: VecDeque<Asked>,
}

impl Mark {
    /// What an earlier run may have delivered.
    pub(crate) fn restored(to: u64) -> Self {
        Mark {
            to,
            safe: to,
            left: to,
            ..Mark::default()
        }
    }

    pub(super) fn serial(&self) -> u64 {
        self.to
    }

    pub(super) fn await_safety(&mut self, asked: Asked) {
        self.awaited_by.push_back(asked);
    }

    pub(super) fn take_awaiting(&mut self) -> VecDeque<Asked> {
        std::mem::take(&mut self.awaited_by)
    }

    /// Raises it for a message that is about to leave; to which serial. Serials of a shard are `step` apart.
    fn raise(&mut self, serial: u64, step: u64) -> u64 {
        self.to = serial + self.ahead * step;
        self.ahead = (self.ahead * 2 + 1).min(AHEAD_MAX);
        self.to
    }
}

impl Kernel {
    fn mark_mut(&mut self, holder: Holder) -> Option<&mut Mark> {
        match holder {
            Holder::Queue(queue_id) => {
                let queue = self.queues.get_mut(queue_id)?;
                queue.is_durable().then_some(&mut queue.mark)
            }
            Holder::Group(group_id) => self.groups.get_mut(group_id)?.mark_mut(),
            Holder::Session(_) => None,
        }
    }

    /// A message that waited is about to be delivered to a session of this shard; what that is sent waits until the mark is
    /// safe.
    #[inline]
    pub(crate) fn note_delivery<E: Effects>(
        &mut self,
        holder: Holder,
        serial: u64,
        to: SessionId,
        fx: &mut E,
    ) {
        let Some(mark) = self.mark_mut(holder) else {
            return;
        };
        mark.left = mark.left.max(serial);
        if serial > mark.safe {
            self.hold_for_mark(holder, serial, to, fx);
        }
    }

    #[cold]
    fn hold_for_mark<E: Effects>(
        &mut self,
        holder: Holder,
        serial: u64,
        to: SessionId,
        fx: &mut E,
    ) {
        if self.mark_mut(holder).is_some_and(|mark| serial > mark.to) {
            self.raise_mark(holder, serial);
        }
        self.hold(to, fx);
    }

    /// Whether a message that waited may go to a receiver whose output is not held here. Otherwise its queue or group is
    /// looked at again when a mark that covers it is safe.
    pub(crate) fn is_marked(&mut self, holder: Holder, serial: u64) -> bool {
        let step = u64::from(self.env.shards());
        let Some(mark) = self.mark_mut(holder) else {
            return true;
        };
        let is_safe = serial <= mark.safe;
        // Where many leave it is raised before it is reached, and nothing waits for it.
        let is_near = mark.ahead == AHEAD_MAX && serial + AHEAD_MAX / 2 * step > mark.to;
        if serial > mark.to || (serial != 0 && is_near) {
            self.raise_mark(holder, serial);
        }
        is_safe
    }

    /// A queue's message goes to a receiver whose output is not held here.
    pub(crate) fn note_unheld_delivery(&mut self, queue_id: QueueId, serial: u64) {
        if let Some(mark) = self.mark_mut(Holder::Queue(queue_id)) {
            mark.left = mark.left.max(serial);
        }
    }

    fn raise_mark(&mut self, holder: Holder, serial: u64) {
        let (step, safety) = (u64::from(self.env.shards()), self.env.limits().safety);
        let Some(mark) = self.mark_mut(holder) else {
            return;
        };
        let to = mark.raise(serial, step);
        if let Holder::Queue(queue_id) = holder {
            self.persist_queue(queue_id, safety);
        } else if let Holder::Group(group_id) = holder {
            let (queue, serial) = (self.group_number(group_id), to);
            self.journal
                .persist(&Record::Delivered { queue, serial }, safety);
        }
        self.journal.tell_when_marked(holder, to);
    }

    /// A mark is written down, as safe as was asked for.
    pub(crate) fn mark_is_safe(&mut self, holder: Holder, to: u64) {
        let Some(mark) = self.mark_mut(holder) else {
            return;
        };
        mark.safe = mark.safe.max(to);
        let is_awaited = !mark.awaited_by.is_empty();
        match holder {
            Holder::Queue(queue_id) => {
                let queue = self.queues.get(queue_id);
                if is_awaited || queue.is_some_and(|queue| !queue.takers.groups().is_empty()) {
                    self.agenda.pump(queue_id);
                }
            }
            Holder::Group(group_id) => {
                let group = self.groups.get(group_id);
                if group.is_some_and(|group| !group.waiting.is_empty()) {
                    self.agenda.pump_group(group_id);
                }
            }
            Holder::Session(_) => {}
        }
    }

    /// Receivers that asked for one message each, and waited for the mark or for what had expired.
    pub(crate) fn serve_marked<E: Effects>(&mut self, queue_id: QueueId, now: Time, fx: &mut E) {
        let queue = self.queues.get_mut(queue_id);
        let asked = queue.map(|queue| queue.mark.take_awaiting());
        self.serve_again(queue_id, asked.unwrap_or_default(), now, fx);
    }

    /// If a queue has no consumer and no unsettled delivery, what is written down of its deliveries becomes exact.
    pub(super) fn settle_deliveries(&mut self, queue_id: QueueId) {
        let Some(queue) = self.queues.get(queue_id) else {
            return;
        };
        let is_taken_from =
            queue.unsettled > 0 || !queue.takers.is_empty() || !queue.mark.awaited_by.is_empty();
        // Nothing was raised since the last time; or what was given up is not where it goes yet, and may wait here again.
        if queue.mark.ahead == 0 || is_taken_from || self.agenda.kept().next().is_some() {
            return;
        }
        let (delivered, first_of_others) = queue.backlog.delivered(queue.mark.left);
        let last = delivered.iter().copied().max().unwrap_or(0);
        let is_exact = last < first_of_others;
        let (number, to) = (queue.journal_number(), if is_exact { last } else { 0 });
        if !is_exact {
            // Not in their order: by priority, or past what a consumer may not have.
            for serial in delivered {
                self.journal.move_entry(number, serial, number, true);
            }
        }
        if let Some(queue) = self.queues.get_mut(queue_id) {
            let left = last;
            queue.mark = Mark {
                left,
                ..Mark::restored(to)
            };
        }
        self.journal.forget_marks(Holder::Queue(queue_id));
        self.persist_queue(queue_id, Safety::Lazy);
    }
}
