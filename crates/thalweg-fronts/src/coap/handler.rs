//! Requests in, responses out, the same over datagrams and over streams.

use super::answer::{Answer, SHORT_SECS};
use super::collection::not_yet;
use super::desk::Desk;
use super::identity::{Identities, IdentityId};
use super::note::Note;
use super::observe::Bodies;
use super::rates::Rates;
use super::relations::Relations;
use super::resource::{Resource, Style};
use super::rpc::Calls;
use super::settings::{CoapCounts, CoapSettings};
use super::side::Side;
use super::topics::TopicId;
use super::waiting::{Ask, Asked, Hold, WAITING_MAX, Waiting, Waitings};
use crate::deferred::Effect;
use crate::front::{Cx, Variant};
use core::net::SocketAddr;
use hashbrown::{HashMap, HashSet};
use std::collections::VecDeque;
use std::sync::Arc;
use thalweg_coap::{Code, ExchangeId, Options};
use thalweg_kernel::access::Access;
use thalweg_kernel::{LinkId, Outcome, SessionId, TakenId, Ticket};
use thalweg_model::{Properties, Time};

/// A request, and whose it is.
#[derive(Clone, Copy)]
pub(super) struct Request<'r> {
    pub(super) exchange: ExchangeId,
    pub(super) identity: IdentityId,
    pub(super) session: SessionId,
    /// Where it came from, if its sender is anonymous.
    pub(super) source: Option<SocketAddr>,
    pub(super) code: Code,
    pub(super) confirmable: bool,
    pub(super) options: Options<'r>,
    pub(super) payload: &'r [u8],
    /// It asks to be notified of changes.
    pub(super) observes: bool,
    /// The observation that its sender has with its token.
    pub(super) relation: Option<u64>,
    /// It was sent to a group that the socket is in.
    pub(super) is_multicast: bool,
}

/// What became of a request: nothing that is left to do, or an answer to give at once.
pub(super) type Done = Result<(), Answer>;

/// All that a front is beside its protocol machine.
pub(super) struct Handler<S: Side> {
    pub(super) side: S,
    pub(super) settings: Arc<CoapSettings>,
    pub(super) link: LinkId,
    /// Where topics are known and answers come in.
    pub(super) desk: Option<LinkId>,
    pub(super) identities: Identities,
    pub(super) waiting: Waitings,
    /// Answers that wait for the journal, by rising batch.
    held: VecDeque<(u64, ExchangeId, Answer)>,
    /// Publishes that other shards are asked about, by question, and since when.
    pub(super) asked: HashMap<u64, (Time, Asked), foldhash::fast::RandomState>,
    pub(super) relations: Relations,
    /// Observations that wait for the kernel, by cookie.
    pub(super) registrations: HashMap<u64, (ExchangeId, Ask), foldhash::fast::RandomState>,
    pub(super) bodies: Bodies,
    pub(super) calls: Calls<ExchangeId>,
    /// Messages of queues that were taken and are not acknowledged, and by whom.
    pub(super) takes: HashMap<u64, (TakenId, u32), foldhash::fast::RandomState>,
    pub(super) take_last: u64,
    /// Addresses that are known to have a value: keys of [`Handler::known_key`].
    pub(super) known: HashSet<u64, foldhash::fast::RandomState>,
    /// Properties of the last message that had nothing but a Content-Format, and that.
    pub(super) memo: (Option<u16>, Properties),
    /// A number for each message that is exactly once.
    pub(super) ticket_last: u16,
    rates: Rates,
    pub(super) counts: CoapCounts,
    /// The output was full, and there is more to say.
    pub(super) stalled: bool,
    /// A buffer for addresses.
    address: String,
    nonce: u64,
    /// Makes keys of addresses.
    keys: foldhash::quality::FixedState,
}

impl<S: Side> Handler<S> {
    pub(super) fn new(
        side: S,
        settings: Arc<CoapSettings>,
        nonce: u64,
        anonymous: Option<Access>,
    ) -> Self {
        Handler {
            side,
            settings,
            // Before anything is handled the front is given its own.
            link: LinkId(u32::MAX),
            desk: None,
            identities: Identities::new(anonymous, nonce),
            waiting: Waitings::default(),
            held: VecDeque::new(),
            asked: HashMap::default(),
            relations: Relations::default(),
            registrations: HashMap::default(),
            bodies: Bodies::default(),
            calls: Calls::new(nonce as u32),
            takes: HashMap::default(),
            take_last: 0,
            known: HashSet::default(),
            memo: (None, Properties::default()),
            ticket_last: 0,
            rates: Rates::default(),
            counts: CoapCounts::default(),
            stalled: false,
            address: String::new(),
            nonce,
            keys: foldhash::quality::FixedState::with_seed(nonce),
        }
    }

    /// Handles a request of an admitted peer.
    pub(super) fn handle(&mut self, request: &Request<'_>, cx: &mut Cx<'_>) {
        *match request.code {
            Code::GET => &mut self.counts.gets,
            Code::POST => &mut self.counts.posts,
            Code::PUT => &mut self.counts.puts,
            Code::DELETE => &mut self.counts.deletes,
            Code::FETCH => &mut self.counts.fetches,
            _ => &mut self.counts.others,
        } += 1;
        let mut address = std::mem::take(&mut self.address);
        let done = match Resource::read(&request.options, &self.settings.tenant, &mut address) {
            Ok(_) if self.is_full() => {
                self.counts.dropped_waiting += 1;
                Err(Answer::later(
                    Code::SERVICE_UNAVAILABLE,
                    SHORT_SECS,
                    "too many requests wait",
                ))
            }
            Ok(resource) => self.dispatch(resource, &address, request, cx),
            Err(unreadable) => Err(unreadable.into()),
        };
        self.address = address;
        if let Err(answer) = done {
            self.respond(request.exchange, &answer, cx.now);
        }
    }

    fn dispatch(
        &mut self,
        resource: Resource<'_>,
        address: &str,
        request: &Request<'_>,
        cx: &mut Cx<'_>,
    ) -> Done {
        if request.is_multicast && !matches!(resource, Resource::WellKnownCore) {
            return Err(Answer::words(
                Code::FORBIDDEN,
                "a group may be asked for /.well-known/core",
            ));
        }
        match resource {
            Resource::AllData => self.on_data(None, Style::Data, request, cx),
            Resource::Data(style) => self.on_data(Some(address), style, request, cx),
            Resource::Topic(id) => {
                let desk = self.desk.and_then(|desk| Desk::at(cx.links, desk));
                match desk.and_then(|desk| desk.topics.find(id)).map(|(id, _)| id) {
                    Some(id) => self.on_topic(id, request, cx),
                    None if TopicId::parse(id).is_some()
                        && desk.is_none_or(|desk| !desk.is_known) =>
                    {
                        Err(not_yet())
                    }
                    None => self.on_no_topic(address, request, cx),
                }
            }
            Resource::WellKnownCore => self.on_well_known(request, cx),
            Resource::Collection => self.on_collection(request, cx),
            Resource::Queue(name) => self.on_queue(name, request, cx),
            Resource::Rpc => self.on_rpc(address, request, cx),
            Resource::Unknown => Err(Answer::words(
                Code::NOT_FOUND,
                "there is no such resource; /.well-known/core lists what there is",
            )),
        }
    }

    /// A request to `/ps/<id>` where no topic is called so: an address in EMQX's way, unless it is clearly meant for a topic.
    fn on_no_topic(&mut self, address: &str, request: &Request<'_>, cx: &mut Cx<'_>) -> Done {
        let is_for_topic = matches!(request.code, Code::FETCH | Code::IPATCH)
            || super::data::content_format(request) == Some(thalweg_coap::pubsub::CONTENT_FORMAT);
        match is_for_topic {
            true => Err(Answer::words(Code::NOT_FOUND, "there is no such topic")),
            false => self.on_data(Some(address), Style::Emqx, request, cx),
        }
    }

    /// Whether a publisher may publish now. Each identity has a session, which has a rate; strangers share one, so that
    /// each address of theirs has a rate of its own here.
    pub(super) fn check_rate(&mut self, request: &Request<'_>, now: Time) -> Done {
        let until = match (request.source, self.settings.publish_rate) {
            (Some(source), Some(rate @ 1..)) => self.rates.take(source, rate, now),
            _ => self.identities.busy_until(request.identity, now),
        };
        until.map_or(Ok(()), |until| Err(Answer::too_many(until, now)))
    }

    /// Whether as many requests wait as may.
    fn is_full(&self) -> bool {
        let waiting = self.waiting.len() + self.held.len() + self.asked.len();
        waiting + self.registrations.len() >= self.settings.waiting_max
    }

    /// Asks the kernel something, to do `waiting` with the answer.
    pub(super) fn wait(&mut self, waiting: Waiting, now: Time) -> Result<Ticket, Answer> {
        let full = || {
            Answer::later(
                Code::SERVICE_UNAVAILABLE,
                SHORT_SECS,
                "too many requests wait",
            )
        };
        self.waiting.insert(waiting, now).ok_or_else(full)
    }

    /// Answers a request when that batch is safe, if it must wait for one.
    pub(super) fn finish(
        &mut self,
        exchange: ExchangeId,
        answer: Answer,
        batch: Option<Hold>,
        cx: &mut Cx<'_>,
    ) {
        match batch {
            Some(Hold::Question(question)) => match self.asked.remove(&question) {
                Some((_, Asked::Decided(true))) => self.refuse(exchange, cx.now),
                Some((since, Asked::Publish)) => {
                    let asked = Asked::Answer(exchange, answer);
                    self.asked.insert(question, (since, asked));
                }
                _ => self.respond(exchange, &answer, cx.now),
            },
            None => self.respond(exchange, &answer, cx.now),
            Some(Hold::Batch(batch)) if batch <= cx.links.completed() => {
                self.respond(exchange, &answer, cx.now)
            }
            Some(Hold::Batch(batch)) => {
                let at = match self.held.back() {
                    Some((last, ..)) if *last > batch => {
                        self.held.partition_point(|(held, ..)| *held <= batch)
                    }
                    _ => self.held.len(),
                };
                self.held.insert(at, (batch, exchange, answer));
            }
        }
    }

    pub(super) fn respond(&mut self, exchange: ExchangeId, answer: &Answer, now: Time) {
        debug_assert!(
            answer.code.is_success() || !answer.payload.is_empty(),
            "{} without a word",
            answer.code
        );
        match answer.code.class() {
            4 => self.counts.refused += 1,
            5 => self.counts.failed += 1,
            _ => {}
        }
        answer.with_response(|response| self.side.respond(exchange, response, now));
    }

    /// Handles what it was told.
    pub(super) fn on_note(&mut self, note: Note, cx: &mut Cx<'_>) {
        match note {
            Note::Kernel(effect) => self.on_effect(effect, cx),
            Note::Reply { call, message } => self.on_reply(call, &message, cx),
            Note::Surplus(topic) => self.end_surplus(topic, cx),
            Note::Counts(topic) => self.count_observers(topic, cx),
        }
    }

    fn on_effect(&mut self, effect: Effect, cx: &mut Cx<'_>) {
        match effect {
            Effect::Value(ticket, value) => self.on_read(ticket, value, cx),
            Effect::Values(ticket, values, complete) => {
                self.on_listed(ticket, &values, complete, cx)
            }
            Effect::WatchReady(cookie, value) => self.on_watch_ready(cookie, value, cx),
            Effect::WatchEnded(cookie, why) => self.on_watch_ended(cookie, why, cx),
            Effect::Safe(_) => self.on_safe(cx),
            Effect::NotKept(batch) => self.on_not_kept(batch, cx),
            Effect::Published {
                question,
                is_refused,
            } => self.on_decided_elsewhere(question, is_refused, cx),
            Effect::Disconnected(_) => self.end_identities(cx),
            Effect::Taken(ticket, taken) => self.on_taken(ticket, taken, cx),
            Effect::QueueMade(ticket, made) => self.on_queue_made(ticket, made, cx),
            // It has neither subscriptions nor consumers.
            Effect::Delivered(_)
            | Effect::Released(_)
            | Effect::Subscribed(..)
            | Effect::Unsubscribed(..)
            | Effect::ConsumerEnded(..)
            | Effect::Room => {}
        }
    }

    /// What the answer to two publishes waits for.
    pub(super) fn later_of(&mut self, one: Option<Hold>, other: Option<Hold>) -> Option<Hold> {
        if let Some(Hold::Question(question)) = one.min(other) {
            self.asked.remove(&question);
        }
        one.max(other)
    }

    /// What other shards say of a publish is known.
    fn on_decided_elsewhere(&mut self, question: u64, is_refused: bool, cx: &mut Cx<'_>) {
        let Some((since, asked)) = self.asked.remove(&question) else {
            return;
        };
        match (asked, is_refused) {
            (Asked::Publish, _) => {
                let decided = Asked::Decided(is_refused);
                self.asked.insert(question, (since, decided));
            }
            (Asked::Answer(exchange, answer), false) => self.respond(exchange, &answer, cx.now),
            (Asked::Answer(exchange, _), true) => self.refuse(exchange, cx.now),
            (Asked::Call(call), true) => {
                if let Some(exchange) = self.calls.take(call) {
                    self.refuse(exchange, cx.now);
                }
            }
            (Asked::Call(_) | Asked::Decided(_), _) => {}
        }
    }

    /// Nothing has room for a publish.
    fn refuse(&mut self, exchange: ExchangeId, now: Time) {
        if let Some(answer) = Answer::of_outcome(Outcome::Refused) {
            self.respond(exchange, &answer, now);
        }
    }

    /// Batches have become safe.
    fn on_safe(&mut self, cx: &mut Cx<'_>) {
        let completed = cx.links.completed();
        while let Some((_, exchange, answer)) =
            self.held.pop_front_if(|(batch, ..)| *batch <= completed)
        {
            self.respond(exchange, &answer, cx.now);
        }
    }

    /// A record of that batch is too long for the journal: nothing of it is acknowledged.
    fn on_not_kept(&mut self, batch: u64, cx: &mut Cx<'_>) {
        let from = self.held.partition_point(|(held, ..)| *held < batch);
        let to = self.held.partition_point(|(held, ..)| *held <= batch);
        let answer = Answer::words(
            Code::INTERNAL_SERVER_ERROR,
            "not kept: too long for the journal, or it came together with what is",
        );
        for (_, exchange, _) in self.held.drain(from..to).collect::<Vec<_>>() {
            self.respond(exchange, &answer, cx.now);
        }
    }

    /// Some sessions may have been ended, or their time may be over. Their watches end with them.
    pub(super) fn end_identities(&mut self, cx: &mut Cx<'_>) {
        self.identities.take_ended(cx);
    }

    /// When [`Handler::on_timeout`] wants to be called.
    pub(super) fn next_timeout(&self) -> Time {
        self.calls.next_due()
    }

    /// Does what is due.
    pub(super) fn on_timeout(&mut self, cx: &mut Cx<'_>) {
        self.give_up_calls(cx);
    }

    /// Forgets what time has made worthless.
    pub(super) fn sweep(&mut self, cx: &mut Cx<'_>) {
        let Handler {
            identities,
            settings,
            ..
        } = self;
        identities.forget_unused(settings.session_idle, cx);
        self.bodies.clear();
        self.rates.sweep(cx.now);
        self.waiting.sweep(cx.now);
        self.asked
            .retain(|_, (since, _)| cx.now.since(*since) <= WAITING_MAX);
    }

    /// The desk is there before anything that needs it.
    #[inline]
    pub(super) fn see_to_desk(&mut self, cx: &mut Cx<'_>) {
        if self.desk.is_none() {
            self.desk = Desk::open(&self.settings.tenant, self.nonce, cx);
        }
    }

    /// The link ends: so do its sessions, and with them their watches.
    pub(super) fn close(&mut self, cx: &mut Cx<'_>) {
        self.identities.close_all(cx);
    }

    /// A name for an address that is short and hard to make another one have.
    pub(super) fn known_key(&self, address: &str) -> u64 {
        use std::hash::{BuildHasher, Hasher};
        let mut hasher = self.keys.build_hasher();
        hasher.write(address.as_bytes());
        hasher.finish()
    }
}
