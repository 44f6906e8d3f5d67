//! A message, or a run of them, goes straight through its queue: nothing waits there, and its only consumer can take it.

use super::takers::Consumer;
use super::{Item, Queue};
use crate::Kernel;
use crate::books::Delta;
use crate::effects::{Content, Delivery, Effects, Recipient, Sent};
use crate::ids::{LinkId, QueueId};
use crate::journal::durable::Pending;
use crate::lines::{Channel, Source, Turn, Unsettled};
use crate::publish::pipeline::Draft;
use crate::publish::run::Run;
use crate::session::{Connection, Counts, Sessions};
use thalweg_model::{Reliability, Time};

/// The only consumer of a queue, which may have any message right now, and what changes when it gets one.
struct Receiver<'k> {
    consumer: Consumer,
    turn: Turn,
    line: &'k mut Channel,
    link: LinkId,
    connection: &'k mut Connection,
    counts: &'k mut Counts,
}

impl<'k> Receiver<'k> {
    /// None if anything waits in the queue, or needs a closer look.
    #[inline(always)]
    fn of(queue: &Queue, priority: u8, sessions: &'k mut Sessions) -> Option<Self> {
        let ([to], []) = (queue.takers.consumers(), queue.takers.groups()) else {
            return None;
        };
        let session = sessions.get_mut(to.session)?;
        let link = session.link()?;
        if session.connection.is_congested()
            || !queue.backlog.is_empty()
            // The first goes the long way, which sees to it that little is ahead of the next.
            || (queue.backlog.tells_apart(priority) && !session.connection.is_prioritized())
            || !session.access().is_allow_all()
        {
            return None;
        }
        let line = session.lines.as_deref_mut()?.get_mut(to.line)?;
        let turn = line.turn_of(to.number).filter(|turn| !turn.is_choosy)?;
        Some(Receiver {
            consumer: *to,
            turn,
            line,
            link,
            connection: &mut session.connection,
            counts: &mut session.counts,
        })
    }
}

impl Kernel {
    /// Hands a message that has just come, from the session of that number, to the only consumer of a queue. If that settles
    /// nothing, the message need not even be kept. What is not handed over goes the long way (`accept`), which comes to the same.
    pub(crate) fn pass<E: Effects>(
        &mut self,
        queue_id: QueueId,
        made_by: u64,
        draft: &Draft<'_>,
        now: Time,
        fx: &mut E,
    ) -> bool {
        let Some(queue) = self.queues.get_mut(queue_id) else {
            return false;
        };
        let is_sure = draft.reliability > Reliability::AtMostOnce;
        let is_written = queue.is_durable() && is_sure && self.env.limits().journal;
        let serial = self.journal.serial_if(is_written);
        let Some(to) = Receiver::of(queue, draft.priority, &mut self.sessions) else {
            return false;
        };
        if self.books.has_accounts() {
            return false;
        }
        let expires = draft.expires_in.map_or(Time::NEVER, |span| now + span);
        let until = queue.terms.expiry(expires, now);
        let Turn { tag, settles, .. } = to.turn;
        let kept = settles.then(|| draft.keep(made_by, now));
        let content = match &kept {
            Some(message) => Content::Kept(message, Some(draft.address)),
            None => Content::Passing(draft, now),
        };
        let recipient = Recipient::Consumer {
            line: to.consumer.line,
            number: to.consumer.number,
        };
        let delivery = Delivery {
            settles,
            tag,
            expires_in: (until != Time::NEVER).then(|| until.since(now)),
            ..Delivery::unsettled(recipient, draft.reliability)
        };
        match fx.deliver(to.link, &content, &delivery) {
            Sent::Room => {}
            Sent::Congested => to.connection.congest(),
            Sent::Full | Sent::Gone => {
                to.connection.congest();
                return false;
            }
            // The long way finds the same and knows what to do then.
            Sent::TooLarge => return false,
        }
        queue.came += 1;
        to.counts.note_routed();
        self.books.routed_without_account();
        let Some(message) = kept else {
            to.line.sent(tag);
            queue.went += 1;
            to.counts.note_delivered();
            self.books.delivered_without_account(draft.payload.len());
            return true;
        };
        queue.unsettled += 1;
        self.books.sent(Delta::copy(message.bytes()));
        let source = Source::Queue(queue_id);
        let item = Item {
            order: queue.backlog.next_order(),
            expires: until,
            ..Item::new(message, serial, 0)
        };
        to.line.sent_unsettled(Unsettled {
            tag,
            consumer: to.consumer.number,
            source,
            item,
        });
        if serial != 0 {
            let number = queue.journal_number();
            let pending = Pending::new(number, serial, draft.reliability, 0);
            self.journal.refer(pending.that_left());
        }
        true
    }

    /// Hands a run to the only consumer of a queue, as [`Kernel::pass`] does with each message, if that settles nothing. False,
    /// and nothing has happened, if it cannot take all of it.
    pub(crate) fn pass_run<E: Effects>(
        &mut self,
        queue_id: QueueId,
        run: &Run<'_>,
        now: Time,
        fx: &mut E,
    ) -> bool {
        let Some(queue) = self.queues.get_mut(queue_id) else {
            return false;
        };
        let to = Receiver::of(queue, run.like.priority, &mut self.sessions);
        let Some(to) = to.filter(|to| !to.turn.settles) else {
            return false;
        };
        match fx.deliver_run(to.link, run) {
            Sent::Room => {}
            Sent::Congested => to.connection.congest(),
            Sent::Full | Sent::TooLarge | Sent::Gone => return false,
        }
        let count = run.count();
        // The turn's tag is that of the first.
        to.line.sent(to.turn.tag + count as u64 - 1);
        queue.came += count as u64;
        queue.went += count as u64;
        to.counts.run_delivered(count);
        self.books.run_delivered(count, run.payload_bytes());
        self.end_command(now, fx);
        true
    }
}
