//! What kernels tell each other. Every pair of shards has a channel that keeps order.

use crate::effects::{Effects, Safety};
use crate::group::Peer;
use crate::ids::{SessionId, ShardId};
use crate::last_value::ScanCursor;
use crate::publish::Draft;
use crate::route_cache::{Sink, SinkKind};
use crate::{Kernel, home};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use thalweg_model::{Message, Reliability, Time};

/// A message from one kernel to another.
#[derive(Debug)]
pub enum ShardMessage {
    /// The sender has, or no longer has, sessions that want a filter. Answered if `question` is not 0.
    Interest {
        /// The canonical filter.
        filter: Box<str>,
        /// Whether it is wanted from now on.
        wanted: bool,
        /// The sender's number for its question.
        question: u32,
    },
    /// How many members of a group the sender has. Answered if `question` is not 0.
    Membership {
        /// The group's name and filter.
        key: Arc<str>,
        /// The group's filter.
        filter: Box<str>,
        /// Members with a link.
        online: u32,
        /// All members.
        all: u32,
        /// Whether a session that outlives the broker is among them.
        durable: bool,
        /// The sender's number for its question.
        question: u32,
    },
    /// Your question is answered: what you said is in force here.
    Done {
        /// The number of the question.
        question: u32,
    },
    /// For your sessions that want its address.
    Publish {
        /// The message.
        message: Message,
        /// How safe it must be before its publisher's acknowledgement leaves.
        safety: Safety,
        /// The entry that it is in a queue of the sender's, if it was written down there: number and serial.
        from: (u64, u64),
        /// If given, only for sessions whose home is each of these shards, when there are so many.
        only: Option<Arc<[(u16, u16)]>>,
    },
    /// For a member of the group that is yours.
    PublishToGroup {
        /// The group's name and filter.
        key: Arc<str>,
        /// The message.
        message: Message,
        /// How safe it must be before its publisher's acknowledgement leaves.
        safety: Safety,
        /// The entry that it was in the sender's queue, if it was written down there: number and serial.
        from: (u64, u64),
        /// It may have been delivered before.
        redelivered: bool,
    },
    /// Becomes, or clears, the last value of its address, whose home you are.
    Retain {
        /// The message; its retain operation says which.
        message: Message,
        /// How safe it must be before its publisher's acknowledgement leaves.
        safety: Safety,
        /// The entry that it is in a queue of the sender's, if it was written down there: number and serial.
        from: (u64, u64),
    },
    /// Which of your last values are for a queue of mine? Answered as often as it takes.
    Recall {
        /// The queue's index and number.
        queue: (u32, u64),
        /// The canonical filter, and what is really wanted if that is less.
        wanted: (Box<str>, Option<Box<str>>),
        /// Where to go on.
        cursor: ScanCursor,
    },
    /// Some that are.
    Recalled {
        /// The queue's index and number.
        queue: (u32, u64),
        /// The values.
        messages: Vec<Message>,
        /// What to ask next, if there are more.
        more: Option<Box<ShardMessage>>,
    },
    /// Which of your last values match?
    Scan {
        /// Whose scan.
        session: SessionId,
        /// Which of its scans.
        serial: u32,
        /// The canonical filter.
        filter: Box<str>,
        /// Where to go on.
        cursor: ScanCursor,
    },
    /// Some that match.
    Found {
        /// Whose scan.
        session: SessionId,
        /// Which of its scans.
        serial: u32,
        /// The values.
        messages: Vec<Message>,
        /// Where to go on; nothing when there are no more.
        cursor: Option<ScanCursor>,
    },
}

impl ShardMessage {
    /// Whether an acknowledgement waits until the receiver has it as safe as it asks.
    pub fn is_reliable(&self) -> bool {
        match self {
            ShardMessage::Publish { safety, .. }
            | ShardMessage::PublishToGroup { safety, .. }
            | ShardMessage::Retain { safety, .. } => *safety > Safety::Lazy,
            _ => false,
        }
    }

    /// Bytes of memory it holds, roughly, for whoever bounds what is under way.
    pub fn bytes(&self) -> usize {
        match self {
            ShardMessage::Publish { message, .. }
            | ShardMessage::PublishToGroup { message, .. }
            | ShardMessage::Retain { message, .. } => message.bytes(),
            ShardMessage::Found { messages, .. } | ShardMessage::Recalled { messages, .. } => {
                messages.iter().map(Message::bytes).sum()
            }
            _ => size_of::<ShardMessage>(),
        }
    }
}

impl Kernel {
    /// Takes a message from another shard's kernel.
    pub fn on_shard<E: Effects>(&mut self, from: ShardId, message: ShardMessage, now: Time, fx: &mut E) {
        match message {
            ShardMessage::Publish { message, safety, from, only } => {
                self.on_publish(&message, safety, only.as_deref().unwrap_or_default(), now, fx);
                self.took_over(from, fx);
            }
            ShardMessage::PublishToGroup { key, message, safety, from, redelivered } => {
                self.ledger.arrived += 1;
                if self.is_of_queue_and_left(&key) {
                    // The last member here has left while the message was on its way: it goes back into its queue.
                    self.ledger.forwarded += 1;
                    let to = home(crate::queue::HOME, self.shards);
                    return fx.send(to, ShardMessage::PublishToGroup { key, message, safety, from, redelivered });
                }
                self.on_publish_to_group(&key, &message, redelivered, now, fx);
                if !self.pending_references.is_empty() {
                    self.persist_kept(&message, false, safety, fx);
                }
                // In the same batch, so that it is never in both queues nor in none.
                self.took_over(from, fx);
            }
            ShardMessage::Retain { message, safety, from } => self.on_retain(message, safety, from, fx),
            ShardMessage::Interest { filter, wanted, question } => {
                self.on_interest(from, &filter, wanted);
                self.answer_shard(from, question, fx);
            }
            ShardMessage::Membership { key, filter, online, all, durable, question } => {
                let peer = Peer { shard: from, online, all, durable };
                self.on_membership(peer, &key, &filter, now, fx);
                self.answer_shard(from, question, fx);
            }
            ShardMessage::Done { question } => self.on_done(question, now, fx),
            ShardMessage::Recall { queue, wanted, cursor } => self.on_recall(from, queue, wanted, cursor, now, fx),
            ShardMessage::Recalled { queue, messages, more } => self.on_recalled(from, queue, messages, more, now, fx),
            ShardMessage::Scan { session, serial, filter, mut cursor } => {
                let mut found = VecDeque::new();
                let done = self.look(&filter, &mut cursor, now, &mut found);
                let cursor = (!done).then_some(cursor);
                fx.send(from, ShardMessage::Found { session, serial, messages: found.into(), cursor });
            }
            ShardMessage::Found { session, serial, messages, cursor } => {
                self.on_found(session, serial, messages, cursor, now, fx);
            }
        }
    }

    pub(crate) fn on_publish<E: Effects>(
        &mut self,
        message: &Message,
        safety: Safety,
        only: &[(u16, u16)],
        now: Time,
        fx: &mut E,
    ) {
        self.ledger.arrived += 1;
        let mut route = self.route(message.address());
        if !only.is_empty() {
            let is_meant = |client: &str| only.iter().all(|(shard, shards)| home(client, *shards).0 == *shard);
            route = Rc::new(self.work_out_for(message.address(), is_meant));
        }
        let expires = message.expires();
        let draft = Draft { expires_in: (expires != Time::NEVER).then(|| expires.since(now)), ..Draft::of(message) };
        self.spread_to_all(None, &route, &draft, &mut Some(message.clone()), now, fx);
        if route.has_queues() {
            self.spread_to_queues(&route, message, message.properties(), now, fx);
        }
        if !self.pending_references.is_empty() {
            self.persist_kept(message, false, safety, fx);
        }
        for address in &route.onward().redirects {
            self.spread_redirected(address, message, now, fx);
        }
        if self.has_queue_work() {
            self.after_queues(now, fx);
        }
    }

    fn on_interest(&mut self, from: ShardId, filter: &str, wanted: bool) {
        let target = u32::from(from.0);
        let is = |sink: &Sink| sink.kind == SinkKind::Shard && sink.target == target;
        let known = self.routes.sinks(filter).iter().any(is);
        if wanted && !known {
            let reliability = Reliability::ExactlyOnce;
            self.routes.insert(filter, Sink { target, id: 0, kind: SinkKind::Shard, reliability, flags: 0 });
        } else if !wanted && known {
            self.routes.remove(filter, is);
        }
    }

    fn answer_shard<E: Effects>(&mut self, to: ShardId, question: u32, fx: &mut E) {
        if question != 0 {
            fx.send(to, ShardMessage::Done { question });
        }
    }

    fn on_done<E: Effects>(&mut self, question: u32, now: Time, fx: &mut E) {
        let Some(pending) = self.pending.get_mut(&question) else { return };
        pending.answers_missing -= 1;
        if pending.answers_missing == 0
            && let Some(pending) = self.pending.remove(&question)
        {
            self.finish_subscribe(pending, now, fx);
        }
    }

    /// Tells every other shard; how many there are.
    pub(crate) fn tell_shards<E: Effects>(&mut self, fx: &mut E, message: impl Fn(ShardId) -> ShardMessage) -> usize {
        for shard in (0..self.shards).map(ShardId).filter(|shard| *shard != self.shard) {
            fx.send(shard, message(shard));
        }
        usize::from(self.shards) - 1
    }

    /// A number for a question to other shards; never 0.
    pub(crate) fn next_question(&mut self) -> u32 {
        self.question_last = self.question_last.wrapping_add(1).max(1);
        self.question_last
    }
}
