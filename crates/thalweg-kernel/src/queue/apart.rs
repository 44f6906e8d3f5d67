//! A single message of a queue is taken without a consumer, from any shard.
//!
//! A consumer's messages belong to a line of its session, on the shard of queues. A reader that takes single messages,
//! from any shard, has no line: what it received is noted here, with the queue, until it settles it or its time is
//! over.

use super::declare::may_use;
use super::depth::Asked;
use super::dispatch::EXPIRED_PER_CALL;
use super::{Item, is_queue_address};
use crate::Kernel;
use crate::access::{Access, Permission};
use crate::books::Delta;
use crate::effects::{Answer, Effects, Holder, Taken};
use crate::env::Neutral;
use crate::ids::{LinkId, QueueId, SessionId, ShardId, TakenId, Ticket};
use crate::publish::subject::Subject;
use crate::remote::shards::{Asker, ShardMessage};
use crate::timers::TimerKey;
use crate::verdict::{Refusal, Verdict};
use std::sync::Arc;
use thalweg_filter::Predicate;
use thalweg_model::{Address, Message, Time};

/// A message that was taken by itself and is not settled.
pub(super) struct TakenApart {
    pub item: Item,
    pub queue: QueueId,
    pub due: Time,
}

impl TakenApart {
    pub(super) fn bytes(&self) -> usize {
        self.item.message.bytes()
    }
}

/// What a reader of single messages may have, and which of that it wants.
#[derive(Clone, Debug)]
pub struct Claim {
    pub(crate) access: Access,
    pub(super) filter: Option<Arc<Predicate>>,
}

impl Claim {
    pub(super) fn takes(&self, message: &Message, neutral: Neutral) -> bool {
        let passes =
            |filter: &Arc<Predicate>| filter.matches(&Subject::of_message(message, neutral));
        self.access.may_receive(message) && self.filter.as_ref().is_none_or(passes)
    }
}

/// What was asked for.
type Found = Result<Option<(TakenId, Message, u32, u64)>, Refusal>;

/// No session of this shard: what was taken apart is booked with its queue only.
const NOBODY: SessionId = SessionId(u32::MAX);

impl Kernel {
    /// Asks for the first message of the queue of that address, wherever it is, that passes the content filter. The answer
    /// is [`Answer::Taken`], maybe before this returns. An error here is the answer, too.
    ///
    /// What is taken is to be settled by [`Kernel::settle_taken`]; after
    /// [`Limits::take_settle_timeout`](crate::Limits::take_settle_timeout) it goes back into its queue, flagged.
    pub fn take_apart<E: Effects>(
        &mut self,
        id: SessionId,
        link: LinkId,
        ticket: Ticket,
        (queue, filter): (&str, Option<Arc<Predicate>>),
        now: Time,
        fx: &mut E,
    ) -> Result<(), Refusal> {
        let asker = self.asker(id, link, ticket).ok_or(Refusal::Denied)?;
        let asked = self.take_apart_for(asker, queue, filter, now, fx);
        self.end_command(now, fx);
        asked
    }

    fn take_apart_for<E: Effects>(
        &mut self,
        asker: Asker,
        queue: &str,
        filter: Option<Arc<Predicate>>,
        now: Time,
        fx: &mut E,
    ) -> Result<(), Refusal> {
        let id = asker.session();
        if !is_queue_address(queue) {
            return Err(Refusal::NoQueue);
        }
        if !self.has_queues() {
            match self.sessions.get(id) {
                Some(session) if session.access().allows(Permission::Take, queue) => {
                    let (queue, access) = (queue.into(), session.access().clone());
                    self.send_to_queues(ShardMessage::TakeApart {
                        asker,
                        queue,
                        claim: Claim { access, filter },
                    });
                }
                _ => return Err(Refusal::Denied),
            }
            return Ok(());
        }
        let queue_id = self.queues.find(queue).ok_or(Refusal::NoQueue)?;
        self.may_take_from(id, queue_id)?;
        let session = self.sessions.get(id);
        let access = session.map_or(Access::ALL, |it| it.access().clone());
        let claim = Claim { access, filter };
        let shard = self.env.shard();
        match self.serve_taker(shard, asker, &claim, queue, now) {
            Some(Err(refusal)) => return Err(refusal),
            Some(taken) => self.on_taken_apart(asker, queue.into(), claim.filter, taken, now, fx),
            None => {}
        }
        Ok(())
    }

    /// Says what became of a message that was taken by itself. If its time is over already, nothing happens.
    pub fn settle_taken<E: Effects>(
        &mut self,
        taken: TakenId,
        verdict: Verdict,
        now: Time,
        fx: &mut E,
    ) {
        self.end_taken(taken, Some(verdict), now, fx);
        self.end_command(now, fx);
    }

    /// Has a queue made, wherever queues are, if there is none of that address: one that outlives the broker and has no
    /// terms but how many messages may wait in it, if it is bounded; it refuses more. The answer is
    /// [`Answer::QueueMade`], maybe before this returns. An error here is the answer, too.
    pub fn make_queue<E: Effects>(
        &mut self,
        id: SessionId,
        link: LinkId,
        ticket: Ticket,
        (queue, messages_max): (&str, Option<u64>),
        now: Time,
        fx: &mut E,
    ) -> Result<(), Refusal> {
        let asker = self.asker(id, link, ticket).ok_or(Refusal::Denied)?;
        if !is_queue_address(queue)
            || Address::check(queue).is_err()
            || !self.is_address_within_limits(queue)
        {
            return Err(Refusal::Invalid("no queue can have this name"));
        }
        // With no other terms it is no more than what using it asks for.
        let session = self.sessions.get(id);
        if !session.is_some_and(|it| may_use(it, queue)) {
            return Err(Refusal::Denied);
        }
        if self.has_queues() {
            self.make_queue_for(self.env.shard(), asker, (queue, messages_max), now)?;
            fx.answer(link, ticket, Answer::QueueMade(Ok(())));
        } else {
            let queue = queue.into();
            self.send_to_queues(ShardMessage::MakeQueue {
                asker,
                queue,
                messages_max,
            });
        }
        Ok(())
    }

    pub(crate) fn make_queue_for(
        &mut self,
        from: ShardId,
        asker: Asker,
        (queue, messages_max): (&str, Option<u64>),
        now: Time,
    ) -> Result<(), Refusal> {
        let Some(queue_id) = self.queues.find(queue) else {
            return self.add_plain_queue(queue, messages_max);
        };
        let asker = (from == self.env.shard()).then(|| asker.session());
        let Some(known) = self.queues.get_mut(queue_id) else {
            return Err(Refusal::NoQueue);
        };
        if known.terms.is_locked_for(asker) {
            return Err(Refusal::Locked);
        }
        known.use_again(now);
        Ok(())
    }

    /// A queue is there that another shard asked for, or cannot be.
    pub(crate) fn on_queue_made<E: Effects>(
        &mut self,
        asker: Asker,
        made: Result<(), Refusal>,
        fx: &mut E,
    ) {
        if self.is_there(&asker) {
            fx.answer(asker.link(), asker.ticket(), Answer::QueueMade(made));
        }
    }

    /// Takes the first message out of a queue that `claim` is for; nothing if it has to be fetched first, or marked as
    /// delivered.
    fn serve_taker(
        &mut self,
        from: ShardId,
        asker: Asker,
        claim: &Claim,
        address: &str,
        now: Time,
    ) -> Option<Found> {
        let Some(queue_id) = self.queues.find(address) else {
            return Some(Err(Refusal::NoQueue));
        };
        let queue = self.queues.get(queue_id)?;
        let here = (from == self.env.shard()).then(|| asker.session());
        if queue.terms.is_locked_for(here) {
            return Some(Err(Refusal::Locked));
        }
        if queue.takers.is_exclusive() {
            return Some(Err(Refusal::InUse));
        }
        let asked = Asked::Apart(from, asker, claim.clone());
        let mut may_expire = EXPIRED_PER_CALL;
        match self.next_for_one(queue_id, &asked, &mut may_expire, now) {
            Ok((item, _)) if !self.is_marked(Holder::Queue(queue_id), item.serial) => {
                self.put_back(queue_id, item);
                self.queues.get_mut(queue_id)?.mark.await_safety(asked);
                None
            }
            Ok((item, left)) => Some(Ok(Some(self.set_apart(queue_id, item, left, now)))),
            Err(Some(_)) => None,
            Err(None) => Some(Ok(None)),
        }
    }

    fn set_apart(
        &mut self,
        queue_id: QueueId,
        item: Item,
        left: u64,
        now: Time,
    ) -> (TakenId, Message, u32, u64) {
        self.note_unheld_delivery(queue_id, item.serial);
        let (message, deliveries) = (item.message.clone(), u32::from(item.deliveries));
        self.books.sent(Delta::copy(message.bytes()));
        self.books.redelivered(deliveries > 0);
        if let Some(queue) = self.queues.get_mut(queue_id) {
            queue.unsettled += 1;
        }
        let due = now + self.env.limits().take_settle_timeout;
        if due != Time::NEVER {
            self.agenda.set_timer(due, TimerKey::TakenSettle);
        }
        let taken = self.queues.set_apart(queue_id, item, due);
        (TakenId(taken), message, deliveries, left)
    }

    /// Serves a taker on another shard, or one that had to wait for what is on disk or for the mark.
    pub(crate) fn answer_taker<E: Effects>(
        &mut self,
        from: ShardId,
        asker: Asker,
        claim: Claim,
        address: &str,
        now: Time,
        fx: &mut E,
    ) {
        let Some(taken) = self.serve_taker(from, asker, &claim, address, now) else {
            return;
        };
        let filter = claim.filter;
        if from == self.env.shard() {
            self.on_taken_apart(asker, address.into(), filter, taken, now, fx);
        } else {
            self.remote.send(
                from,
                ShardMessage::TakenApart {
                    asker,
                    queue: address.into(),
                    filter,
                    taken,
                },
            );
        }
    }

    /// Whether a session may be given a message of a queue that may be on another shard.
    fn may_have_of(&self, id: SessionId, queue: &str, message: &Message) -> bool {
        match self.queues.find(queue) {
            Some(queue_id) => self.may_have(id, queue_id, message),
            None => self.sessions.get(id).is_some_and(|session| {
                session.access().allows(Permission::Take, queue)
                    && session.access().may_receive(message)
            }),
        }
    }

    /// The answer has reached the requester.
    pub(crate) fn on_taken_apart<E: Effects>(
        &mut self,
        asker: Asker,
        queue: Box<str>,
        filter: Option<Arc<Predicate>>,
        taken: Found,
        now: Time,
        fx: &mut E,
    ) {
        let is_there = self.is_there(&asker);
        let (link, ticket) = (asker.link(), asker.ticket());
        match taken {
            Ok(Some((id, ..))) if !is_there => self.end_taken(id, None, now, fx),
            Ok(Some((id, message, ..))) if !self.may_have_of(asker.session(), &queue, &message) => {
                // Its rights have changed meanwhile: it is judged by those of now.
                self.end_taken(id, None, now, fx);
                if let Err(refusal) = self.take_apart_for(asker, &queue, filter, now, fx) {
                    fx.answer(link, ticket, Answer::Taken(Err(refusal)));
                }
            }
            Ok(Some((id, message, deliveries, left))) => {
                let taken = Taken {
                    id,
                    message: &message,
                    deliveries,
                    left,
                };
                fx.answer(link, ticket, Answer::Taken(Ok(Some(taken))));
            }
            Ok(None) if is_there => fx.answer(link, ticket, Answer::Taken(Ok(None))),
            Err(refusal) if is_there => fx.answer(link, ticket, Answer::Taken(Err(refusal))),
            Ok(None) | Err(_) => {}
        }
    }

    /// Settles a message that was taken, or returns it to its queue.
    pub(crate) fn end_taken<E: Effects>(
        &mut self,
        taken: TakenId,
        end: Option<Verdict>,
        now: Time,
        fx: &mut E,
    ) {
        if !self.has_queues() {
            return self.send_to_queues(ShardMessage::SettleTaken { taken, end });
        }
        let Some(TakenApart {
            item,
            queue: queue_id,
            ..
        }) = self.queues.end_apart(taken.0)
        else {
            return;
        };
        self.books.settled(Delta::copy(item.message.bytes()));
        if let (None, Some(queue)) = (end, self.queues.get_mut(queue_id)) {
            queue.unsettled -= 1;
            self.put_back(queue_id, item);
        } else {
            let verdict = end.unwrap_or(Verdict::Requeue);
            self.judge_of_queue(NOBODY, queue_id, item, verdict, now);
        }
        self.pump_queue(queue_id, now, fx);
    }

    /// Some have had their time.
    pub(crate) fn on_taken_settle_due<E: Effects>(&mut self, now: Time, fx: &mut E) {
        while let Some(id) = self.queues.apart_due(now) {
            self.end_taken(TakenId(id), Some(Verdict::Requeue), now, fx);
        }
    }
}
