//! A message, or a run of them, goes straight through its queue: nothing waits there, and its only consumer can take it.

use super::Item;
use crate::Kernel;
use crate::books::Delta;
use crate::effects::{Content, Delivery, Effects, Recipient, Sent};
use crate::ids::QueueId;
use crate::journal::durable::Pending;
use crate::lines::{Source, Turn, Unsettled};
use crate::publish::pipeline::Draft;
use crate::publish::run::Run;
use thalweg_model::{Reliability, Time};

impl Kernel {
    /// Hands a message that has just come, from the session of that number, to the only consumer of a queue. If that settles nothing, the
    /// message need not even be kept. What is not handed over goes the long way (`accept`), which comes to the same.
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
        let ([to], []) = (queue.takers.consumers(), queue.takers.groups()) else {
            return false;
        };
        let Some(session) = self.sessions.get_mut(to.session) else {
            return false;
        };
        let Some(link) = session
            .link()
            .filter(|_| !session.connection.is_congested() && queue.backlog.is_empty())
        else {
            return false;
        };
        let may_all = session.access().is_allow_all();
        let Some(line) = session
            .lines
            .as_deref_mut()
            .and_then(|lines| lines.get_mut(to.line))
        else {
            return false;
        };
        let Some(Turn {
            tag,
            settles,
            no_local,
        }) = line.turn_of(to.number)
        else {
            return false;
        };
        // Whatever needs a closer look at the message.
        if no_local || !may_all || self.books.has_accounts() {
            return false;
        }
        let expires = draft.expires_in.map_or(Time::NEVER, |span| now + span);
        let until = queue.terms.expiry(expires, now);
        let kept = settles.then(|| draft.keep(made_by, now));
        let content = match &kept {
            Some(message) => Content::Kept(message, Some(draft.address)),
            None => Content::Passing(draft, now),
        };
        let recipient = Recipient::Consumer {
            line: to.line,
            number: to.number,
        };
        let delivery = Delivery {
            settles,
            tag,
            expires_in: (until != Time::NEVER).then(|| until.since(now)),
            ..Delivery::unsettled(recipient, draft.reliability)
        };
        match fx.deliver(link, &content, &delivery) {
            Sent::Room => {}
            Sent::Congested => session.connection.congest(),
            Sent::Full | Sent::Gone => {
                session.connection.congest();
                return false;
            }
            // The long way finds the same and knows what to do then.
            Sent::TooLarge => return false,
        }
        queue.came += 1;
        session.counts.note_routed();
        self.books.routed_without_account();
        let Some(message) = kept else {
            line.sent(tag);
            queue.went += 1;
            session.counts.note_delivered();
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
        line.sent_unsettled(Unsettled {
            tag,
            consumer: to.number,
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
        let ([to], []) = (queue.takers.consumers(), queue.takers.groups()) else {
            return false;
        };
        let Some(session) = self.sessions.get_mut(to.session) else {
            return false;
        };
        let Some(link) = session
            .link()
            .filter(|_| !session.connection.is_congested() && queue.backlog.is_empty())
        else {
            return false;
        };
        let may_all = session.access().is_allow_all();
        let lines = session.lines.as_deref_mut();
        let Some(line) = lines.and_then(|lines| lines.get_mut(to.line)) else {
            return false;
        };
        let Some(turn) = line.turn_of(to.number) else {
            return false;
        };
        if turn.settles || turn.no_local || !may_all {
            return false;
        }
        match fx.deliver_run(link, run) {
            Sent::Room => {}
            Sent::Congested => session.connection.congest(),
            Sent::Full | Sent::TooLarge | Sent::Gone => return false,
        }
        let count = run.count();
        // The turn's tag is that of the first.
        line.sent(turn.tag + count as u64 - 1);
        queue.came += count as u64;
        queue.went += count as u64;
        session.counts.run_delivered(count);
        self.books.run_delivered(count, run.payload_bytes());
        self.end_command(now, fx);
        true
    }
}
