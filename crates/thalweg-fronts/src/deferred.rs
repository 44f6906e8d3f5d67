//! Fronts that act on what the kernel says: it is noted while a kernel command runs, and the front is woken afterwards.
//!
//! While such a front's own code runs it is away from its link, so its methods have `&mut self` and may command the kernel
//! freely; what the kernel says to the link meanwhile is noted. [`DeferredFront`] can be an object: it is also how a front
//! outside this crate comes in ([`AnyFront::extension`](crate::AnyFront::extension)).

use crate::capabilities::{
    Capabilities, ContentTypeModel, CorrelationModel, ExpiryUnit, PropertyModel, Receives, Syntax,
};
use crate::front::{
    ConsumerFate, Cx, Datagram, Fate, Front, FrontSettings, Outbound, Step, Undelivered, Variant,
};
use crate::protocol::{Protocol, ShowCount};
use crate::service::{Filtering, Service};
use crate::{Datagrams, LoginAnswer};
use core::net::SocketAddr;
use std::collections::VecDeque;
use std::sync::Arc;
use thalweg_kernel::{
    Answer, CloseReason, ConsumerEnd, Content, Delivery, LinkId, Observed, Recipient, Refusal, Run,
    Subscribed, Tag, TakenId, Ticket, WatchEnd,
};
use thalweg_model::{Message, Reliability, RetainOp, Span, Time};

/// Bytes of deliveries that a front is given before it is woken.
const NOTED_MAX: usize = 256 << 10;
/// What a note takes beside its message.
const NOTE_BYTES: usize = 128;
/// Entries that a buffer keeps room for.
const BUFFER_KEPT: usize = 4096;

/// An effect of the kernel on one link, kept until its front may act on it.
#[derive(Debug)]
pub enum Effect {
    /// A message for one recipient.
    Delivered(Box<Delivered>),
    /// The second half of an exactly-once delivery.
    Released(Tag),
    /// One outcome per filter of a subscribe.
    Subscribed(Ticket, Box<[Subscribed]>),
    /// Whether each filter of an unsubscribe was there.
    Unsubscribed(Ticket, Box<[bool]>),
    /// A last value that was asked for.
    Value(Ticket, Option<Message>),
    /// Last values that were asked for, and whether these are all.
    Values(Ticket, Vec<Message>, bool),
    /// A message of a queue that was asked for.
    Taken(Ticket, Result<Option<(TakenId, Message)>, Refusal>),
    /// A queue that was to be made is there, or is not.
    QueueMade(Ticket, Result<(), Refusal>),
    /// A watch is in force, with the value of that moment.
    WatchReady(u64, Option<Message>),
    /// A watch has ended.
    WatchEnded(u64, WatchEnd),
    /// A consumer of a line has ended.
    ConsumerEnded(u16, ConsumerEnd),
    /// Batches up to this one are safe.
    Safe(u64),
    /// A batch was not kept, nor what waits for it.
    NotKept(u64),
    /// A publish that other shards were asked about is refused, or else accepted.
    Published { question: u64, is_refused: bool },
    /// A session's connection was ended.
    Disconnected(CloseReason),
    /// The output has room again.
    Room,
}

/// A [`Delivery`] and its [`Content`] that can wait.
#[derive(Debug)]
pub struct Delivered {
    pub message: Message,
    pub to: Recipient,
    /// The reliability granted to this recipient.
    pub reliability: Reliability,
    /// It is a last value, or the recipient asked to see that it became one.
    pub retain: bool,
    /// It is to be settled under `tag`.
    pub settles: bool,
    pub tag: u64,
    /// How often it was delivered before.
    pub deliveries: u32,
    /// Messages that wait behind it in its queue.
    pub left: u64,
    /// How long it was still worth delivering when it was noted, if it expires.
    pub expires_in: Option<Span>,
    /// The identifiers of the subscriptions that matched, where given.
    pub subscription_ids: Box<[u32]>,
}

impl Effect {
    pub(crate) fn delivered(content: &Content<'_>, delivery: &Delivery<'_>) -> Self {
        let passing = || {
            Message::new(
                content.address(),
                content.payload(),
                content.reliability(),
                RetainOp::None,
                content.expires(),
                Time::ZERO,
                0,
                content.properties().cloned().map(Box::new),
            )
        };
        Effect::Delivered(Box::new(Delivered {
            message: content.message().cloned().unwrap_or_else(passing),
            to: delivery.to,
            reliability: delivery.reliability,
            retain: delivery.retain,
            settles: delivery.settles,
            tag: delivery.tag,
            deliveries: delivery.deliveries,
            left: delivery.left,
            expires_in: delivery.expires_in,
            subscription_ids: delivery.subscription_ids.into(),
        }))
    }

    pub(crate) fn answer(ticket: Ticket, answer: Answer<'_>) -> Self {
        match answer {
            Answer::Subscribed(outcomes) => Effect::Subscribed(ticket, outcomes.into()),
            Answer::Unsubscribed(existed) => Effect::Unsubscribed(ticket, existed.into()),
            Answer::Value(value) => Effect::Value(ticket, value.cloned()),
            Answer::Values { values, complete } => Effect::Values(ticket, values, complete),
            Answer::Taken(taken) => {
                let taken = taken.map(|taken| taken.map(|taken| (taken.id, taken.message.clone())));
                Effect::Taken(ticket, taken)
            }
            Answer::QueueMade(made) => Effect::QueueMade(ticket, made),
            Answer::Published {
                question,
                is_refused,
            } => Effect::Published {
                question,
                is_refused,
            },
        }
    }
}

/// What a front did before it returned to its link.
#[derive(Clone, Copy, Debug, Default)]
pub struct Left {
    /// Bytes that it has put out elsewhere than into the link's output.
    pub bytes: usize,
    /// The link is flushed, also if nothing was written.
    pub flushes: bool,
    /// Nothing more is read; what is written still leaves.
    pub is_ended: bool,
}

/// A protocol whose output verbs have kernel commands as a consequence. Its methods run while it is away from its link.
pub trait DeferredFront: Send {
    /// The type of its notes. [`Effect`] for fronts of other crates.
    type Note: From<Effect> + Send;

    /// The protocol, in lower case.
    fn name(&self) -> &'static str;

    /// Handles the next packet of a byte stream.
    fn step(&mut self, _: &[u8], _: &mut Cx<'_>) -> Step {
        Step::Hold
    }

    /// Handles what a socket of datagrams received.
    fn on_datagrams(&mut self, _: &mut dyn Iterator<Item = Datagram<'_>>, _: &mut Cx<'_>) {}

    /// The peer at an address is gone.
    fn on_peer_gone(&mut self, _: SocketAddr, _: &mut Cx<'_>) {}

    /// The answer to a [`LoginAsk`](crate::LoginAsk).
    fn on_login(&mut self, identity: &str, answer: LoginAnswer, cx: &mut Cx<'_>);

    /// What was noted since the last time, oldest first, and the cookies of watches in which something waits. What stays in
    /// `notes` comes again with what is noted next.
    fn on_notes(
        &mut self,
        notes: &mut VecDeque<Self::Note>,
        changed: &mut Vec<u64>,
        cx: &mut Cx<'_>,
    );

    /// See [`Outbound::deliver_run`]. Nothing that was noted before waits.
    fn deliver_run(&mut self, _: &Run<'_>, _: &mut Vec<u8>) -> bool {
        false
    }

    /// [`next_timer`](DeferredFront::next_timer) has come.
    fn on_timer(&mut self, _: &mut Cx<'_>) {}

    /// The link ends; its session, if it has one, is closed right after.
    fn on_close(&mut self, _: &mut VecDeque<Self::Note>, _: &mut Cx<'_>) {}

    /// A session's connection was ended while the front is on its link. If the link stays, that is noted, too.
    fn disconnect(&mut self, why: CloseReason, out: &mut Vec<u8>) -> Fate;

    /// The peer was silent for too long; the link ends.
    fn on_silence(&mut self, _: &mut Vec<u8>) {}

    /// Nothing was sent for [`idle_write`](DeferredFront::idle_write).
    fn on_idle(&mut self, _: &mut Vec<u8>) {}

    /// Swaps the datagrams that may leave now with `spare`; true if there is more to say.
    fn take_datagrams(&mut self, _: &mut Datagrams) -> bool {
        false
    }

    /// It leaves its link, in whose output so many bytes wait.
    fn enter(&mut self, _: LinkId, _waiting: usize) {}

    /// It returns to its link.
    fn leave(&mut self, _: &mut Vec<u8>) -> Left {
        Left::default()
    }

    /// Whether something must be begun, and what it causes be done, before any input is handled.
    fn needs_start(&self) -> bool {
        false
    }

    fn start(&mut self, _: &mut Cx<'_>) {}

    /// Whether it gets a note ([`Effect::Room`]) when only so many bytes wait in its output.
    fn wants_room(&self, _is_all_noted: bool, _waiting: usize) -> bool {
        false
    }

    /// Whether messages are delivered to it at all. Asked once.
    fn takes_deliveries(&self) -> bool {
        false
    }

    /// Whether answers wait for the journal one by one. Asked once.
    fn holds_each(&self) -> bool {
        false
    }

    /// See [`Front::kept_bytes`].
    fn kept_bytes(&self) -> Option<usize> {
        None
    }

    /// See [`Front::is_connected`].
    fn is_connected(&self) -> bool {
        true
    }

    /// See [`Front::holds_input`].
    fn holds_input(&self) -> bool {
        false
    }

    /// See [`Front::fault`].
    fn fault(&self) -> Option<String> {
        None
    }

    /// See [`Front::client_properties`].
    fn client_properties(&self) -> &[(Box<str>, Box<str>)] {
        &[]
    }

    /// See [`Front::silence_max`].
    fn silence_max(&self) -> Option<Span> {
        None
    }

    /// See [`Front::idle_write`].
    fn idle_write(&self) -> Option<Span> {
        None
    }

    /// See [`Front::has_timers`].
    fn has_timers(&self) -> bool {
        false
    }

    /// See [`Front::next_timer`].
    fn next_timer(&self) -> Time {
        Time::NEVER
    }

    /// See [`Front::counts`]. An extension declares its metrics by showing them.
    fn counts(&self, _: &mut ShowCount<'_>) {}

    /// See [`Front::set_settings`].
    fn set_settings(&mut self, _: Arc<dyn FrontSettings>) {}
}

/// What is declared of fronts of other crates; each says its own name and counts.
pub(crate) static EXTENSION: Protocol = Protocol {
    name: "extension",
    carries: &[DDS],
    services: &[SERVICE],
    metrics: &[],
};

/// The bridge into DDS, which is the one extension there is. Between DDS and itself it goes from one domain to a second.
pub(crate) const DDS: Capabilities = Capabilities {
    name: "DDS",
    reliability: "at least once",
    syntax: Syntax {
        example: "topic `b` in partition `a`",
        separator: '/',
        wildcards: None,
        escaped: "`/` in a topic",
    },
    address_bytes_max: None,
    level_bytes_max: None,
    receives: Receives::Samples,
    content_type: ContentTypeModel::No,
    properties: PropertyModel::No,
    correlation: CorrelationModel::No,
    reply_to: Some("a service of ROS 2 is called, and answers"),
    request: Some("call of a service of ROS 2 that `dds.services` names"),
    expiry: Some(ExpiryUnit::Untold("LIFESPAN of a writer")),
    priority_max: None,
    last_value_in: Some(
        "TRANSIENT_LOCAL of a writer, as long as it lives; everything at addresses of `dds.retain`",
    ),
    last_value_out: "TRANSIENT_LOCAL of a reader",
    redelivered: None,
    queue: None,
    group: None,
};

const SERVICE: Service = Service {
    name: DDS.name,
    lifespan: None,
    priority: None,
    last_value: "as for the address",
    history: "a late reader gets all of each instance, oldest first, as its HISTORY takes",
    acknowledgement: None,
    at_most_once: "best-effort samples",
    downgraded: "readers that request RELIABLE: the log and the connection's properties say that BEST_EFFORT is offered. Writers stay RELIABLE, as DDS has no match for less than is requested",
    throttle: "the bridge is not read",
    reject: "reliable samples wait, others in silence",
    subscriber_rate: "the bridge, which is one subscriber",
    filter: Ok(Filtering {
        place: "the content-filtered topic of a reader, which evaluates it itself",
        refused: "none from here, as it is not told",
    }),
    consumer_filter: Err("the bridge takes from no queue"),
};

/// A front of another crate.
pub type Extension = Deferred<dyn DeferredFront<Note = Effect>>;

/// A front and what was noted for it.
pub struct Deferred<T: DeferredFront + ?Sized> {
    notes: VecDeque<T::Note>,
    changed: Vec<u64>,
    /// Bytes of deliveries among the notes.
    noted: usize,
    takes_deliveries: bool,
    holds_each: bool,
    name: &'static str,
    /// It was woken while it was away.
    was_away: bool,
    /// Nothing while its own code runs.
    front: Option<Box<T>>,
}

impl<T: DeferredFront + ?Sized> Deferred<T> {
    pub(crate) fn boxed(front: Box<T>) -> Self {
        Deferred {
            notes: VecDeque::new(),
            changed: Vec::new(),
            noted: 0,
            takes_deliveries: front.takes_deliveries(),
            holds_each: front.holds_each(),
            name: front.name(),
            was_away: false,
            front: Some(front),
        }
    }

    /// The front, unless its own code runs.
    pub(crate) fn front(&self) -> Option<&T> {
        self.front.as_deref()
    }

    /// Notes something. Its link must be woken.
    pub(crate) fn note(&mut self, note: T::Note) {
        self.notes.push_back(note);
    }

    fn note_effect(&mut self, effect: Effect) {
        self.note(effect.into());
    }

    fn has_room(&mut self, more: usize) -> bool {
        let has_room = self.noted == 0 || self.noted + more <= NOTED_MAX;
        self.noted += if has_room { more } else { 0 };
        has_room
    }
}

impl<T: DeferredFront + ?Sized> Deferred<T>
where
    Deferred<T>: Variant,
{
    /// Lets the front of a link do something; it is away from its link meanwhile.
    #[inline]
    fn with<R>(cx: &mut Cx<'_>, what: impl FnOnce(&mut T, &mut Cx<'_>) -> R) -> Option<R> {
        let link = cx.links.get_mut(cx.id)?;
        let waiting = link.waiting();
        let mut front = Self::from_any_mut(&mut link.front)?.front.take()?;
        front.enter(cx.id, waiting);
        let result = what(&mut front, cx);
        let was_away = cx.links.put_back(cx.id, |any, out| {
            let left = front.leave(out);
            let was_away = Self::from_any_mut(any).is_some_and(|deferred| {
                deferred.front = Some(front);
                std::mem::take(&mut deferred.was_away)
            });
            (left, was_away)
        });
        if was_away == Some(true) {
            cx.links.wake(cx.id);
        }
        Some(result)
    }

    fn start(cx: &mut Cx<'_>) {
        let needs_start = |deferred: &Self| deferred.front().is_some_and(T::needs_start);
        if Self::at(cx.links, cx.id).is_some_and(needs_start) {
            Self::with(cx, T::start);
            cx.links.work(cx.now, cx.kernel);
        }
    }
}

impl<T: DeferredFront + ?Sized> Outbound for Deferred<T> {
    fn deliver(
        &mut self,
        content: &Content<'_>,
        delivery: &Delivery<'_>,
        _: &mut Vec<u8>,
    ) -> Result<(), Undelivered> {
        if !self.takes_deliveries {
            return Err(Undelivered::NoConsumer);
        }
        if !self.has_room(content.address_len() + content.payload().len() + NOTE_BYTES) {
            return Err(Undelivered::Full);
        }
        self.note_effect(Effect::delivered(content, delivery));
        Ok(())
    }

    fn deliver_run(&mut self, run: &Run<'_>, out: &mut Vec<u8>) -> bool {
        let takes_now = self.takes_deliveries && self.notes.is_empty();
        let front = self.front.as_mut().filter(|_| takes_now);
        front.is_some_and(|front| front.deliver_run(run, out))
    }

    fn release(&mut self, tag: Tag, _: &mut Vec<u8>) {
        self.note_effect(Effect::Released(tag));
    }

    fn answer(&mut self, ticket: Ticket, answer: Answer<'_>, _: &mut Vec<u8>) {
        self.note_effect(Effect::answer(ticket, answer));
    }

    #[inline]
    fn observe(&mut self, cookie: u64, observed: Observed<'_>, _: &mut Vec<u8>) {
        match observed {
            Observed::Changed => self.changed.push(cookie),
            Observed::Ready(value) => self.note_effect(Effect::WatchReady(cookie, value.cloned())),
            Observed::Ended(why) => self.note_effect(Effect::WatchEnded(cookie, why)),
        }
    }

    fn consumer_ended(&mut self, line: u16, ended: ConsumerEnd, _: &mut Vec<u8>) -> ConsumerFate {
        if !self.takes_deliveries {
            return ConsumerFate::Unsaid;
        }
        self.note_effect(Effect::ConsumerEnded(line, ended));
        ConsumerFate::Said
    }

    fn disconnect(&mut self, why: CloseReason, out: &mut Vec<u8>) -> Fate {
        let fate = match &mut self.front {
            Some(front) => front.disconnect(why, out),
            // Its own code caused it, and finds out by the note. A link whose session takes deliveries is that session's.
            None if self.takes_deliveries => {
                self.note_effect(Effect::Disconnected(why));
                Fate::LinkEnds
            }
            None => Fate::LinkStays,
        };
        if fate == Fate::LinkStays {
            self.note_effect(Effect::Disconnected(why));
        }
        fate
    }

    fn on_silence(&mut self, out: &mut Vec<u8>) {
        if let Some(front) = &mut self.front {
            front.on_silence(out);
        }
    }

    fn on_idle(&mut self, out: &mut Vec<u8>) {
        if let Some(front) = &mut self.front {
            front.on_idle(out);
        }
    }

    fn safe(&mut self, batch: u64) {
        self.note_effect(Effect::Safe(batch));
    }

    fn not_kept(&mut self, batch: u64) {
        self.note_effect(Effect::NotKept(batch));
    }

    fn take_datagrams(&mut self, spare: &mut Datagrams) -> bool {
        let Some(front) = &mut self.front else {
            return false;
        };
        let has_more = front.take_datagrams(spare);
        if has_more {
            self.note_effect(Effect::Room);
        }
        has_more
    }
}

impl<T: DeferredFront + ?Sized> Front for Deferred<T>
where
    Deferred<T>: Variant,
{
    #[inline]
    fn step(cx: &mut Cx<'_>, input: &[u8]) -> Step {
        if input.is_empty() {
            return Step::NeedMore;
        }
        Self::start(cx);
        Self::with(cx, |front, cx| front.step(input, cx)).unwrap_or(Step::Hold)
    }

    fn after_input(cx: &mut Cx<'_>) {
        cx.links.work(cx.now, cx.kernel);
    }

    #[inline]
    fn on_datagrams(cx: &mut Cx<'_>, batch: &mut dyn Iterator<Item = Datagram<'_>>) {
        Self::start(cx);
        Self::with(cx, |front, cx| front.on_datagrams(batch, cx));
    }

    fn kept_bytes(&self) -> Option<usize> {
        self.front.as_ref()?.kept_bytes()
    }

    fn on_peer_gone(cx: &mut Cx<'_>, from: SocketAddr) {
        Self::with(cx, |front, cx| front.on_peer_gone(from, cx));
    }

    fn on_login(cx: &mut Cx<'_>, identity: &str, answer: LoginAnswer) {
        Self::with(cx, |front, cx| front.on_login(identity, answer, cx));
    }

    fn on_wake(cx: &mut Cx<'_>) {
        let Some(deferred) = Self::of(cx.links, cx.id) else {
            return;
        };
        if deferred.front.is_none() {
            deferred.was_away = true;
            return;
        }
        deferred.noted = 0;
        let mut notes = std::mem::take(&mut deferred.notes);
        let mut changed = std::mem::take(&mut deferred.changed);
        Self::with(cx, |front, cx| front.on_notes(&mut notes, &mut changed, cx));
        let Some(deferred) = Self::of(cx.links, cx.id) else {
            return;
        };
        // What was not looked at comes first; empty buffers are used again, unless a burst has made them large.
        if !notes.is_empty() || (deferred.notes.is_empty() && notes.capacity() <= BUFFER_KEPT) {
            notes.append(&mut deferred.notes);
            deferred.notes = notes;
        }
        if deferred.changed.is_empty() && changed.capacity() <= BUFFER_KEPT {
            changed.clear();
            deferred.changed = changed;
        }
    }

    fn on_published(cx: &mut Cx<'_>, question: u64, is_refused: bool) {
        if let Some(deferred) = Self::of(cx.links, cx.id) {
            deferred.note_effect(Effect::Published {
                question,
                is_refused,
            });
        }
    }

    fn on_timer(cx: &mut Cx<'_>) {
        Self::with(cx, T::on_timer);
    }

    fn on_drained(cx: &mut Cx<'_>) {
        let waiting = cx.links.get(cx.id).map_or(0, |link| link.waiting());
        let Some(deferred) = Self::of(cx.links, cx.id) else {
            return;
        };
        let is_all_noted = deferred.notes.is_empty();
        let front = deferred.front.as_ref();
        if front.is_some_and(|front| front.wants_room(is_all_noted, waiting)) {
            deferred.note_effect(Effect::Room);
            cx.links.wake(cx.id);
        }
    }

    fn on_close(cx: &mut Cx<'_>) {
        let Some(deferred) = Self::of(cx.links, cx.id) else {
            return;
        };
        let mut notes = std::mem::take(&mut deferred.notes);
        Self::with(cx, |front, cx| front.on_close(&mut notes, cx));
    }

    fn name(&self) -> &'static str {
        self.name
    }

    fn is_connected(&self) -> bool {
        self.front().is_some_and(T::is_connected)
    }

    fn holds_input(&self) -> bool {
        self.front().is_some_and(T::holds_input)
    }

    fn fault(&self) -> Option<String> {
        self.front()?.fault()
    }

    fn client_properties(&self) -> &[(Box<str>, Box<str>)] {
        self.front().map_or(&[], T::client_properties)
    }

    fn silence_max(&self) -> Option<Span> {
        self.front()?.silence_max()
    }

    fn idle_write(&self) -> Option<Span> {
        self.front()?.idle_write()
    }

    fn has_timers(&self) -> bool {
        self.front().is_some_and(T::has_timers)
    }

    fn next_timer(&self) -> Time {
        self.front().map_or(Time::NEVER, T::next_timer)
    }

    #[inline]
    fn defers(&self) -> bool {
        true
    }

    #[inline]
    fn holds_each(&self) -> bool {
        self.holds_each
    }

    fn counts(&self, show: &mut ShowCount<'_>) {
        if let Some(front) = self.front() {
            front.counts(show);
        }
    }

    fn set_settings(&mut self, settings: Arc<dyn FrontSettings>) {
        if let Some(front) = &mut self.front {
            front.set_settings(settings);
        }
    }
}
