//! Messages between kernels. Every pair of shards has a channel that keeps order.

use crate::effects::{Effects, Safety};
use crate::groups::group::Peer;
use crate::ids::{LinkId, QueueId, SessionId, ShardId, TakenId, Ticket};
use crate::journal::numbers::shard_of;
use crate::memory::{Kept, route_cost};
use crate::publish::asked::{AskingShard, Unkept};
use crate::publish::cause::Cause;
use crate::publish::pipeline::Draft;
use crate::publish::stamped::StampedPublish;
use crate::publish::subject::Subject;
use crate::queue::Claim;
use crate::remote::group_mail::GroupMail;
use crate::routes::cached::{NO_LOCAL, Route, Sink, SinkKind};
use crate::session::Session;
use crate::session::presence::PresenceNews;
use crate::values::last_value::ScanCursor;
use crate::values::read::ListCursor;
use crate::values::recall::Wanted;
use crate::verdict::{Refusal, Verdict};
use crate::{Kernel, home};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use thalweg_filter::Predicate;
use thalweg_model::{Message, Reliability, Time};

/// A message from one kernel to another.
#[derive(Debug)]
pub enum ShardMessage {
    /// The sender has, or no longer has, sessions that want a filter. Answered if `question` is not 0.
    Interest {
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
        filter: Box<str>,
        /// Members, with or without a link.
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
        message: Message,
        /// How safe it must be before its publisher's acknowledgement leaves.
        safety: Safety,
        /// The entry that it is in a queue of the sender's, if it was written down there: number and serial.
        from: (u64, u64),
        /// If given, only for sessions whose home is each of these shards, when there are so many.
        only: Option<Arc<[(u16, u16)]>>,
        /// The sender's number for its question whether anything keeps it; 0 if it does not ask.
        question: u64,
    },
    /// For a group that you own.
    PublishToGroup {
        /// The group's name and filter.
        key: Arc<str>,
        message: Message,
        /// How safe it must be before its publisher's acknowledgement leaves.
        safety: Safety,
        /// The entry that it was in the sender's queue, if it was written down there: number and serial.
        from: (u64, u64),
        /// The sender's number for its question whether the group keeps it; 0 if it does not ask.
        question: u64,
    },
    /// Nothing here keeps the message of that question. It comes before the mail that brought the message is confirmed.
    Unkept {
        /// The number of the question.
        number: u64,
        why: Unkept,
    },
    /// A receiver that one of your sessions publishes to is filling: that session waits.
    Pace {
        publisher: u64,
        until: Time,
    },
    /// A message was published to an address whose rate counts all that publish there.
    Spent {
        address: Box<str>,
        /// Bytes of the payload alone, which is what rates count.
        bytes: usize,
    },
    /// A publish with a stamp, for the shard that deduplicates its publisher's stamps.
    PublishStamped(Box<StampedPublish>),
    /// A session's peer came or left; for the home of the address at which its presence is published.
    Presence(Box<PresenceNews>),
    /// Between a group's owner and a shard that has members of it.
    Group(GroupMail),
    /// Becomes, or clears, the last value of its address, whose home you are.
    Retain {
        /// The message; its retain operation says which.
        message: Message,
        /// How safe it must be before its publisher's acknowledgement leaves.
        safety: Safety,
        /// The entry that it is in a queue of the sender's, if it was written down there: number and serial.
        from: (u64, u64),
    },
    /// An exchange of the sender's is internal from now on, or no more: peers do not publish to it.
    Internal {
        exchange: Box<str>,
        is_internal: bool,
    },
    /// The sender has readers who watch an address. Answered by `Done`, and over the address's home, unless that is the
    /// sender, by `Vouched`.
    Watch {
        address: Box<str>,
        /// The sender's number for its question.
        question: u32,
    },
    /// The sender knows that `to` watches an address whose home you are, and has sent you whatever came before: say so.
    Vouch {
        to: ShardId,
        address: Box<str>,
        /// That shard's number for its question.
        question: u32,
    },
    /// One more shard knows what you watch.
    Vouched {
        by: ShardId,
        /// The number of the question.
        question: u32,
        /// The last value of the address, whose home the sender is.
        value: Option<Message>,
    },
    /// To be kept as the last value of its address, whose home is the receiving shard, although it is not retained.
    Keep {
        message: Message,
    },
    /// What an address keeps of a source ends: to its home, and to shards with subscribers there.
    Withdraw {
        address: Box<str>,
        source: Box<str>,
    },
    /// Whether every publish to an address is remembered from now on.
    KeepLast {
        address: Box<str>,
        keep: bool,
    },
    /// What is the last value of an address whose home you are?
    Read {
        asker: Asker,
        address: Box<str>,
    },
    ReadDone {
        asker: Asker,
        value: Option<Message>,
    },
    /// What does an address keep whose home you are?
    ReadKept {
        asker: Asker,
        address: Box<str>,
    },
    ReadKeptDone {
        asker: Asker,
        kept: Vec<Message>,
    },
    /// Which last values do you have, beginning there? Answered once.
    List {
        /// The sender's number for its question.
        question: u32,
        filter: Box<str>,
        at: Box<ListCursor>,
    },
    Listed {
        /// The number of the question.
        question: u32,
        /// Those that were remembered, then those that were retained.
        found: [Vec<Message>; 2],
        /// Where to go on.
        at: Box<ListCursor>,
    },
    /// A request for the first message of a queue, without a consumer.
    TakeApart {
        asker: Asker,
        /// The address of the queue.
        queue: Box<str>,
        /// Checked against the queue by its shard.
        claim: Claim,
    },
    /// The answer to that: the message, how often it was delivered before, and how many are left; or why there is none.
    TakenApart {
        asker: Asker,
        /// The address of the queue.
        queue: Box<str>,
        /// The requester's content filter.
        filter: Option<Arc<Predicate>>,
        taken: Result<Option<(TakenId, Message, u32, u64)>, Refusal>,
    },
    /// A request to create a queue, if there is none of that address.
    MakeQueue {
        asker: Asker,
        /// The address of the queue.
        queue: Box<str>,
        /// Messages that may wait in it.
        messages_max: Option<u64>,
    },
    /// It is there, or cannot be.
    QueueMade {
        asker: Asker,
        made: Result<(), Refusal>,
    },
    /// What became of a message that was taken apart.
    SettleTaken {
        taken: TakenId,
        /// Nothing if it was gone before it could be given the message.
        end: Option<Verdict>,
    },
    /// Which of your last values are for a queue of mine? Answered as often as it takes.
    Recall {
        queue: QueueId,
        wanted: Wanted,
        /// Where to go on.
        cursor: ScanCursor,
    },
    Recalled {
        queue: QueueId,
        messages: Vec<Message>,
        /// What to ask next, if there are more.
        more: Option<Box<ShardMessage>>,
    },
    /// Which of your last values match?
    Scan {
        session: SessionId,
        /// Which of its scans.
        serial: u32,
        filter: Box<str>,
        /// With what addresses keep beside them.
        wants_all: bool,
        /// Where to go on.
        cursor: ScanCursor,
    },
    Found {
        session: SessionId,
        /// Which of its scans.
        serial: u32,
        messages: Vec<Message>,
        /// Where to go on; nothing when there are no more.
        cursor: Option<ScanCursor>,
    },
}

/// The requester of a question to another shard, so that the answer reaches this session and not a later one in its
/// place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asker {
    session: SessionId,
    uid: u64,
    openings: u32,
    link: LinkId,
    ticket: Ticket,
}

impl Asker {
    pub(crate) fn session(&self) -> SessionId {
        self.session
    }

    /// The session's number, which no other session has.
    pub(crate) fn uid(&self) -> u64 {
        self.uid
    }

    pub(crate) fn link(&self) -> LinkId {
        self.link
    }

    pub(crate) fn ticket(&self) -> Ticket {
        self.ticket
    }
}

impl ShardMessage {
    /// Whether an acknowledgement waits until the receiver has it as safe as it asks.
    pub fn is_reliable(&self) -> bool {
        match self {
            ShardMessage::Publish {
                safety, question, ..
            }
            | ShardMessage::PublishToGroup {
                safety, question, ..
            } => *safety > Safety::Lazy || *question != 0,
            ShardMessage::Retain { safety, .. } => *safety > Safety::Lazy,
            // What its repetition must not overtake is known when it has been handled.
            ShardMessage::PublishStamped(publish) => {
                publish.message().reliability() > Reliability::AtMostOnce
            }
            _ => false,
        }
    }

    /// Whether its publisher is not answered before the receiver has said whether anything keeps it.
    pub fn is_asking(&self) -> bool {
        match self {
            ShardMessage::Publish { question, .. }
            | ShardMessage::PublishToGroup { question, .. } => *question != 0,
            ShardMessage::PublishStamped(publish) => publish.question() != 0,
            _ => false,
        }
    }

    /// Bytes of memory it holds, roughly; for the bound on mail under way.
    pub fn bytes(&self) -> usize {
        match self {
            ShardMessage::Publish { message, .. }
            | ShardMessage::PublishToGroup { message, .. }
            | ShardMessage::Retain { message, .. }
            | ShardMessage::Keep { message } => message.bytes(),
            ShardMessage::Group(mail) => mail.bytes(),
            ShardMessage::PublishStamped(publish) => publish.bytes(),
            ShardMessage::Presence(news) => news.bytes(),
            ShardMessage::Spent { address, .. } => size_of::<ShardMessage>() + address.len(),
            ShardMessage::Vouched { value, .. } | ShardMessage::ReadDone { value, .. } => {
                size_of::<ShardMessage>() + value.as_ref().map_or(0, Message::bytes)
            }
            ShardMessage::TakenApart {
                taken: Ok(Some((_, message, ..))),
                ..
            } => message.bytes(),
            ShardMessage::Listed { found, .. } => found.iter().flatten().map(Message::bytes).sum(),
            ShardMessage::Found { messages, .. } | ShardMessage::Recalled { messages, .. } => {
                messages.iter().map(Message::bytes).sum()
            }
            _ => size_of::<ShardMessage>(),
        }
    }
}

impl Kernel {
    /// Takes a message from another shard's kernel.
    pub fn on_shard<E: Effects>(
        &mut self,
        from: ShardId,
        message: ShardMessage,
        now: Time,
        fx: &mut E,
    ) {
        match message {
            ShardMessage::Publish {
                message,
                safety,
                from: entry,
                only,
                question,
            } => {
                let (asker, only) = (
                    AskingShard::new(from, question),
                    only.as_deref().unwrap_or_default(),
                );
                self.on_publish(asker, &message, safety, only, now, fx);
                if self.sessions.crowd.is_some() {
                    self.after_crowd_elsewhere(from, &message);
                }
                self.took_over(entry);
            }
            ShardMessage::PublishToGroup {
                key,
                message,
                safety,
                from: entry,
                question,
            } => {
                self.books.arrived();
                self.sessions.crowd.begin(0);
                let unkept = match self.on_publish_to_group(&key, &message, now, fx) {
                    false => Some(Unkept::Unwanted),
                    true => self
                        .sessions
                        .crowd
                        .has_left_out()
                        .then_some(Unkept::LeftOut),
                };
                let asker = AskingShard::new(from, question);
                self.answer_question(asker, unkept);
                if self.sessions.crowd.is_some() {
                    self.after_crowd_elsewhere(from, &message);
                }
                if self.journal.has_references() {
                    self.persist_kept(&message, safety);
                }
                // In the same batch, so that it is never in both queues nor in none.
                self.took_over(entry);
            }
            ShardMessage::Unkept { number, why } => self.on_unkept(number, why),
            ShardMessage::Pace { publisher, until } => self.on_pace(publisher, until, now),
            ShardMessage::Spent { address, bytes } => self.on_spent(&address, bytes, now),
            ShardMessage::PublishStamped(publish) => {
                self.on_stamped(from, &publish, now, fx);
                if self.sessions.crowd.is_some() {
                    self.after_crowd_elsewhere(from, publish.message());
                }
            }
            ShardMessage::Presence(news) => self.on_presence(*news, now, fx),
            ShardMessage::Group(mail) => self.on_group_mail(from, mail, now, fx),
            ShardMessage::Retain {
                message,
                safety,
                from,
            } => self.on_retain(message, safety, from),
            ShardMessage::Interest {
                filter,
                wanted,
                question,
            } => {
                self.on_interest(from, &filter, wanted);
                self.answer_shard(from, question);
            }
            ShardMessage::Membership {
                key,
                filter,
                all,
                durable,
                question,
            } => {
                let peer = Peer {
                    shard: from,
                    all,
                    durable,
                };
                self.on_membership(peer, &key, &filter, now, fx);
                self.answer_shard(from, question);
            }
            ShardMessage::Done { question } => self.on_done(from, question, now, fx),
            ShardMessage::Internal {
                exchange,
                is_internal,
            } => self.on_internal(&exchange, is_internal),
            ShardMessage::Watch { address, question } => {
                self.on_watch(from, address, question, now)
            }
            ShardMessage::Vouch {
                to,
                address,
                question,
            } => self.on_vouch(from, to, &address, question, now),
            ShardMessage::Vouched {
                by,
                question,
                value,
            } => self.on_vouched(by, question, value, now, fx),
            ShardMessage::Keep { message } => self.remember_here(message),
            ShardMessage::Withdraw { address, source } => {
                self.on_withdraw(None, &address, &source, now, fx);
            }
            ShardMessage::KeepLast { address, keep } => {
                self.on_keep_last(&address, keep);
            }
            ShardMessage::Read { asker, address } => {
                let value = self.values.latest(&address, now).cloned();
                self.remote
                    .send(from, ShardMessage::ReadDone { asker, value });
            }
            ShardMessage::ReadDone { asker, value } => self.on_read(asker, value.as_ref(), fx),
            ShardMessage::ReadKept { asker, address } => {
                let kept = self.values.kept(&address, now);
                self.remote
                    .send(from, ShardMessage::ReadKeptDone { asker, kept });
            }
            ShardMessage::ReadKeptDone { asker, kept } => self.on_read_kept(asker, kept, fx),
            ShardMessage::List {
                question,
                filter,
                mut at,
            } => {
                let found = self.list_some(&filter, &mut at, now);
                self.remote.send(
                    from,
                    ShardMessage::Listed {
                        question,
                        found,
                        at,
                    },
                );
            }
            ShardMessage::Listed {
                question,
                found,
                at,
            } => self.on_listed(from, question, found, at, fx),
            ShardMessage::TakeApart {
                asker,
                queue,
                claim,
            } => {
                self.answer_taker(from, asker, claim, &queue, now, fx);
            }
            ShardMessage::TakenApart {
                asker,
                queue,
                filter,
                taken,
            } => self.on_taken_apart(asker, queue, filter, taken, now, fx),
            ShardMessage::MakeQueue {
                asker,
                queue,
                messages_max,
            } => {
                let made = self.make_queue_for(from, asker, (&queue, messages_max), now);
                // Behind the message that announces the queue to that shard.
                self.remote
                    .send(from, ShardMessage::QueueMade { asker, made });
            }
            ShardMessage::QueueMade { asker, made } => self.on_queue_made(asker, made, fx),
            ShardMessage::SettleTaken { taken, end } => self.end_taken(taken, end, now, fx),
            ShardMessage::Recall {
                queue,
                wanted,
                cursor,
            } => self.on_recall(from, queue, wanted, cursor, now),
            ShardMessage::Recalled {
                queue,
                messages,
                more,
            } => self.on_recalled(from, queue, messages, more, now, fx),
            ShardMessage::Scan {
                session,
                serial,
                filter,
                wants_all,
                mut cursor,
            } => {
                let mut found = VecDeque::new();
                let done = match wants_all {
                    true => self.look_for_kept(&filter, &mut cursor, now, &mut found),
                    false => self.look(&filter, &mut cursor, now, &mut found),
                };
                let cursor = (!done).then_some(cursor);
                self.remote.send(
                    from,
                    ShardMessage::Found {
                        session,
                        serial,
                        messages: found.into(),
                        cursor,
                    },
                );
            }
            ShardMessage::Found {
                session,
                serial,
                messages,
                cursor,
            } => {
                self.on_found(session, serial, messages, cursor, now, fx);
            }
        }
        self.end_command(now, fx);
    }

    /// Another shard's message for sessions and queues of this one, and what these lead it on to.
    pub(crate) fn on_publish<E: Effects>(
        &mut self,
        asker: AskingShard,
        message: &Message,
        safety: Safety,
        only: &[(u16, u16)],
        now: Time,
        fx: &mut E,
    ) {
        self.books.arrived();
        let before = self.journal.promises();
        let mut route = self.route(message.address());
        if !only.is_empty() {
            let is_meant = |client: &str| {
                only.iter()
                    .all(|(shard, shards)| home(client, *shards).0 == *shard)
            };
            route = Rc::new(self.work_out_for(message.address(), is_meant));
        }
        // Only the shard of queues leads on.
        let asks_on = asker.question != 0 && route.has_queues();
        let next = self.remote.questions.next();
        self.sessions.crowd.begin(if asks_on { next } else { 0 });
        let cause = Cause {
            question: self.sessions.crowd.question(),
            ..self.cause_elsewhere(message, safety)
        };
        let draft = Draft::again(message, now);
        let own = self.own_receiver(message.publisher(), &route);
        let subject = route
            .is_conditional()
            .then(|| Subject::of_message(message, self.env.neutral()));
        let (said, kept) = ((&draft, subject.as_ref()), &mut Some(message.clone()));
        self.spread_to_all(own, &route, said, kept, now, fx);
        if let Some(cell) = route.cell() {
            self.offer_to_cell(cell, message, Some(asker.shard), fx);
        }
        let mut is_rejected = false;
        if route.has_queues() {
            let queued = self.spread_to_queues(&route, message, subject.as_ref(), &cause, now, fx);
            is_rejected = queued.refused;
        }
        if self.journal.has_references() {
            self.persist_kept(message, safety);
        }
        for address in &route.onward().redirects {
            self.spread_redirected(address, message, &cause, now, fx);
        }
        if asker.question != 0 {
            let fate = self.fate(&route, own, message.retain(), 0);
            self.answer_or_ask(asker, is_rejected, fate);
        }
        self.end_command(now, fx);
        self.await_all(&cause, message.reliability(), before, fx);
    }

    /// Answers the shard that asks if nothing here keeps its message.
    #[inline]
    pub(crate) fn answer_question(&mut self, asker: AskingShard, unkept: Option<Unkept>) {
        let number = asker.question;
        if let (Some(why), 1..) = (unkept, number) {
            let answer = ShardMessage::Unkept { number, why };
            self.remote.send(asker.shard, answer);
        }
    }

    /// The publisher of a message that comes back from another shard, if it is among those who want none of their own.
    pub(crate) fn own_receiver(&self, publisher: u64, route: &Route) -> Option<SessionId> {
        if publisher == 0 || shard_of(publisher) != self.env.shard().0 {
            return None;
        }
        let not_own = route
            .any_receivers()
            .filter(|receiver| receiver.flags & NO_LOCAL != 0);
        let mut sessions = not_own.map(|receiver| receiver.session);
        sessions.find(|id| {
            self.sessions
                .get(*id)
                .is_some_and(|session| session.uid() == publisher)
        })
    }

    pub(crate) fn on_interest(&mut self, from: ShardId, filter: &str, wanted: bool) {
        let target = u32::from(from.0);
        let is = |sink: &Sink| sink.kind == SinkKind::Shard && sink.target == target;
        let known = self.routes.sinks(filter).iter().any(is);
        if wanted && !known {
            let reliability = Reliability::ExactlyOnce;
            self.routes.insert(
                filter,
                Sink {
                    target,
                    id: 0,
                    kind: SinkKind::Shard,
                    reliability,
                    flags: 0,
                },
            );
            self.env.entered(Kept::Interest, route_cost(filter));
        } else if !wanted && known {
            self.routes.remove(filter, is);
            self.env.left(Kept::Interest, route_cost(filter));
        }
    }

    fn answer_shard(&mut self, to: ShardId, question: u32) {
        if question != 0 {
            self.remote.send(to, ShardMessage::Done { question });
        }
    }

    fn on_done<E: Effects>(&mut self, from: ShardId, question: u32, now: Time, fx: &mut E) {
        if !self.remote.is_pending(question) {
            return self.on_watch_known(from, question, now, fx);
        }
        if let Some(pending) = self.remote.answered(question) {
            self.finish_subscribe(pending, now, fx);
        }
    }

    /// Announces a filter to every other shard. Returns how many there are; each answers `question` unless it is 0.
    pub(crate) fn tell_interest(&mut self, filter: &str, question: u32) -> usize {
        self.tell_shards(|_| ShardMessage::Interest {
            filter: filter.into(),
            wanted: true,
            question,
        })
    }

    /// Withdraws a filter at every other shard if no subscription here has it any more. Nothing waits for the answer.
    pub(crate) fn withdraw_interest(&mut self, filter: &str) {
        if !self.is_wanted_here(filter) {
            self.tell_shards(|_| ShardMessage::Interest {
                filter: filter.into(),
                wanted: false,
                question: 0,
            });
        }
    }

    /// Sends a message to every other shard. Returns how many there are.
    pub(crate) fn tell_shards(&mut self, message: impl Fn(ShardId) -> ShardMessage) -> usize {
        for shard in (0..self.env.shards())
            .map(ShardId)
            .filter(|shard| *shard != self.env.shard())
        {
            self.remote.send(shard, message(shard));
        }
        usize::from(self.env.shards()) - 1
    }

    /// The requester of a question whose answer may come later.
    pub(crate) fn asker(&self, id: SessionId, link: LinkId, ticket: Ticket) -> Option<Asker> {
        let session = self
            .sessions
            .get(id)
            .filter(|session| session.link().is_some())?;
        Some(Asker {
            session: id,
            uid: session.uid(),
            openings: session.connection.opening(),
            link,
            ticket,
        })
    }

    /// Whether the requester is still connected.
    pub(crate) fn is_there(&self, asker: &Asker) -> bool {
        let is = |session: &Session| {
            (session.uid(), session.connection.opening()) == (asker.uid, asker.openings)
        };
        self.sessions
            .get(asker.session)
            .is_some_and(|session| session.link().is_some() && is(session))
    }
}
