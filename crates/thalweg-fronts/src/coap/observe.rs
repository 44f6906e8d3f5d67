//! Observations: the kernel watches, the machine numbers and repeats, and this is between them. RFC 7641
//!
//! ```text
//!  GET, Observe 0 --> Registering --watch is in force--> Idle <--told--> Busy
//!                        (2.05 without Observe, 4.xx)      `--cleared, rights gone, RST, silence, deregistered--> gone
//! ```
//!
//! Notifications are pulled: only when the machine can send one is the newest value taken from the watch, so a burst of
//! publishes costs a slow observer nothing but the values in between.

use super::answer::{Answer, SHORT_SECS, no_value, other_format, session_ended};
use super::data::forbidden;
use super::desk::Desk;
use super::handler::{Done, Handler, Request};
use super::identity::IdentityId;
use super::relations::{NO_FORMAT, Relation, State};
use super::representation::{OPTIONS_MAX, Representation};
use super::resource::Wishes;
use super::settings::{CoapSettings, Notify};
use super::side::Side;
use super::topics::{Seat, Topic, TopicId};
use super::waiting::Ask;
use crate::front::{Cx, Variant};
use std::sync::Arc;
use thalweg_coap::{Code, Delivery, ExchangeId, Notified, Response, SharedBody, Value, option};
use thalweg_kernel::{Change, LinkId, WatchEnd, WatchRefused, WatchSpec};
use thalweg_model::{Message, Reliability, Span, Time};

/// What became of a value on its way to an observer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NotifyOutcome {
    Sent,
    Busy,
    /// There is no such observation any more.
    Ended,
}

impl<S: Side> Handler<S> {
    /// A GET with Observe.
    pub(super) fn register(
        &mut self,
        address: &str,
        wishes: &Wishes<'_>,
        request: &Request<'_>,
        cx: &mut Cx<'_>,
    ) -> Done {
        let condition = wishes.content_filter()?;
        if let Some(cookie) = request.relation {
            // The same token again: a registration anew, maybe of something else. RFC 7641 §3.1
            if self.renew(cookie, address, wishes, request, cx) {
                return Ok(());
            }
            self.forget_relation(cookie, cx);
        }
        if self.relations.len() >= self.settings.observers_max {
            return self.get_once(address, wishes, request, cx);
        }
        let Ok(seat) = self.take_seat(address, cx) else {
            return self.get_once(address, wishes, request, cx);
        };
        let depth = wishes
            .queue
            .unwrap_or(self.settings.queue)
            .clamp(1, self.settings.queue_max.max(1));
        let notify = match wishes.qos {
            None => self.settings.notify,
            Some(0) => Notify::NonConfirmable,
            Some(_) => Notify::Confirmable,
        };
        let cookie = self
            .relations
            .insert(request.identity.0, depth == 1, notify);
        let ask = Ask::read(&request.options, self.topic_format(address, cx));
        self.registrations.insert(cookie, (request.exchange, ask));
        let Cx {
            now, kernel, links, ..
        } = cx;
        match kernel.watch(
            request.session,
            WatchSpec {
                link: self.link,
                cookie,
                address,
                depth,
                condition: condition.as_ref(),
                reliability: notify.reliability(),
            },
            *now,
            *links,
        ) {
            Ok(watch) => {
                if let Some(relation) = self.relations.get_mut(cookie) {
                    relation.watch = watch;
                    relation.seat = seat;
                }
                self.identities.hold(request.identity);
                Ok(())
            }
            Err(refused) => {
                self.relations.remove(cookie);
                self.registrations.remove(&cookie);
                self.give_seat_back(seat, cx);
                match refused {
                    WatchRefused::Denied => Err(forbidden()),
                    WatchRefused::BadAddress => Err(Answer::words(
                        Code::BAD_REQUEST,
                        "the path is longer or deeper than an address may be",
                    )),
                    WatchRefused::TooMany | WatchRefused::Overloaded => {
                        self.get_once(address, wishes, request, cx)
                    }
                }
            }
        }
    }

    /// Shows the value of an address that cannot be observed now. RFC 7641 §4.1
    fn get_once(
        &mut self,
        address: &str,
        wishes: &Wishes<'_>,
        request: &Request<'_>,
        cx: &mut Cx<'_>,
    ) -> Done {
        match wishes.filter {
            None => self.get(address, request, cx),
            // It may not pass the filter.
            Some(_) => Err(Answer::later(
                Code::SERVICE_UNAVAILABLE,
                SHORT_SECS,
                "there is no room for another observer",
            )),
        }
    }

    /// Goes on with an observation that wants every change and is registered again as it was: what waits for it stays.
    /// Answers with the value of this moment. False if it is none, or another one.
    fn renew(
        &mut self,
        cookie: u64,
        address: &str,
        wishes: &Wishes<'_>,
        request: &Request<'_>,
        cx: &mut Cx<'_>,
    ) -> bool {
        let depth = wishes.queue.unwrap_or(self.settings.queue);
        let Some(relation) = self.relations.get_mut(cookie) else {
            return false;
        };
        let is_it = relation.state != State::Registering
            && !relation.conflates
            && depth > 1
            && relation.identity == request.identity.0
            && cx.kernel.watched_address(relation.watch) == Some(address)
            && cx.kernel.watched_filter(relation.watch) == wishes.filter;
        if !is_it {
            return false;
        }
        let (watch, seat) = (relation.watch, relation.seat);
        let check = Some(self.settings.observer_check);
        let Some(number) = self.side.observe(request.exchange, cookie, check, cx.now) else {
            return false;
        };
        if let Some(relation) = self.relations.get_mut(cookie) {
            // Over a stream it is another one.
            (relation.number, relation.state) = (number, State::Idle);
        }
        let value = cx.kernel.watched_value(watch, cx.now).cloned();
        let ask = Ask::read(&request.options, seat_format(self.desk, seat, cx));
        self.accept(cookie, request.exchange, &ask, value.as_ref(), cx);
        self.relations.mark_ready(cookie);
        true
    }

    /// Takes a seat at the topic of an address, if there is one; an error if all are taken. Draft §3.2.2
    fn take_seat(&mut self, address: &str, cx: &mut Cx<'_>) -> Result<Option<TopicId>, ()> {
        let Some(desk) = self.desk.and_then(|desk| Desk::of(cx.links, desk)) else {
            return Ok(None);
        };
        let Some(id) = desk.topics.id_at(address) else {
            return Ok(None);
        };
        match desk.topics.take_seat(address) {
            Seat::Taken => {
                Desk::announce(cx.links, self.desk.ok_or(())?, cx.now, cx.kernel);
                Ok(Some(id))
            }
            Seat::None => Err(()),
        }
    }

    fn give_seat_back(&mut self, seat: Option<TopicId>, cx: &mut Cx<'_>) {
        let (Some(seat), Some(desk_id)) = (seat, self.desk) else {
            return;
        };
        let Some(desk) = Desk::of(cx.links, desk_id) else {
            return;
        };
        if let Some(address) = desk
            .topics
            .get(seat)
            .and_then(|topic| topic.address.clone())
        {
            desk.topics.give_seat_back(&address);
            Desk::announce(cx.links, desk_id, cx.now, cx.kernel);
        }
    }

    /// A topic counts its observers, and is new: those who watch its address already have seats.
    pub(super) fn count_observers(&mut self, topic: TopicId, cx: &mut Cx<'_>) {
        let Some(desk) = self.desk.and_then(|desk| Desk::at(cx.links, desk)) else {
            return;
        };
        let Some(address) = desk
            .topics
            .get(topic)
            .and_then(|topic| topic.address.clone())
        else {
            return;
        };
        let kernel = &cx.kernel;
        let watches =
            |relation: &Relation| kernel.watched_address(relation.watch) == Some(&*address);
        let cookies = self
            .relations
            .cookies(|relation| relation.seat.is_none() && watches(relation));
        for cookie in &cookies {
            if let Some(relation) = self.relations.get_mut(*cookie) {
                relation.seat = Some(topic);
            }
        }
        if let Some(desk) = self.desk.and_then(|desk| Desk::of(cx.links, desk)) {
            let before = desk.topics.get(topic).map_or(0, Topic::observers);
            desk.topics
                .set_observers(&address, before + cookies.len() as u32);
        }
        self.end_surplus(topic, cx);
    }

    /// A topic has more observers on this shard than it allows: some of ours end. Draft §2.5.3
    pub(super) fn end_surplus(&mut self, topic: TopicId, cx: &mut Cx<'_>) {
        for cookie in self
            .relations
            .cookies(|relation| relation.seat == Some(topic))
            .into_iter()
            .rev()
        {
            let desk = self.desk.and_then(|desk| Desk::at(cx.links, desk));
            if desk.is_none_or(|desk| desk.topics.surplus(topic) == 0) {
                return;
            }
            if let Some(relation) = self.relations.get_mut(cookie)
                && relation.state == State::Registering
            {
                // Not answered yet: it will be as if there had been no seat.
                relation.is_refused = true;
                let seat = relation.seat.take();
                self.give_seat_back(seat, cx);
                continue;
            }
            self.end(cookie, &no_value(), cx);
        }
    }

    /// The kernel watches: the registration is answered with the value of this moment.
    pub(super) fn on_watch_ready(&mut self, cookie: u64, value: Option<Message>, cx: &mut Cx<'_>) {
        let Some((exchange, ask)) = self.registrations.remove(&cookie) else {
            return;
        };
        let now = cx.now;
        let show = |value| {
            Representation::of(value, self.settings.max_age_secs, now).or_format(ask.format)
        };
        let shown = value.as_ref().map(show);
        let relation = self.relations.get_mut(cookie);
        let (seat, is_refused) = relation.map_or((None, true), |relation| {
            (relation.seat, relation.is_refused)
        });
        let topic = seat.and_then(|seat| Desk::at(cx.links, self.desk?)?.topics.get(seat));
        let is_observable = match shown {
            Some(shown) => ask.accepts(shown.content_format),
            // A topic that is half created has no data yet. Draft §3.2.2
            None => self.settings.observe_empty && topic.is_none(),
        };
        let is_observable = is_observable && !is_refused;
        let check = topic
            .map(|topic| Span::from_secs(u64::from(topic.configuration.observer_check_secs())));
        let check = Some(check.map_or(self.settings.observer_check, |check| {
            check.min(self.settings.observer_check)
        }));
        let number = if is_observable {
            self.side.observe(exchange, cookie, check, now)
        } else {
            None
        };
        let Some(number) = number else {
            self.forget_relation(cookie, cx);
            return self.respond_with(exchange, &ask, value.as_ref(), None, now);
        };
        if let Some(relation) = self.relations.get_mut(cookie) {
            relation.number = number;
            relation.state = State::Idle;
            relation.format = shown
                .and_then(|shown| shown.content_format)
                .unwrap_or(NO_FORMAT);
        }
        self.accept(cookie, exchange, &ask, value.as_ref(), cx);
        // Something may have happened since.
        self.relations.mark_ready(cookie);
    }

    /// Answers a registration, and says so if notifications come less surely than it asked for.
    fn accept(
        &mut self,
        cookie: u64,
        exchange: ExchangeId,
        ask: &Ask,
        value: Option<&Message>,
        cx: &Cx<'_>,
    ) {
        let limits = cx.kernel.limits();
        let offered = self.relations.get_mut(cookie).and_then(|relation| {
            let asked = relation.notify.reliability();
            let address = cx.kernel.watched_address(relation.watch)?;
            let offered = limits.reliability_at(address, asked);
            (offered < asked).then_some(offered)
        });
        if value.is_some() {
            return self.respond_with(exchange, ask, value, offered, cx.now);
        }
        // Nothing has been published yet.
        let options = offered.map(|offered| (option::OFFERED, Value::Uint(offered as u32)));
        let response = Response {
            options: options.as_slice(),
            ..Response::of(Code::CONTENT)
        };
        self.side.respond(exchange, &response, cx.now);
    }

    /// A watch has ended by itself.
    pub(super) fn on_watch_ended(&mut self, cookie: u64, why: WatchEnd, cx: &mut Cx<'_>) {
        let answer = match why {
            WatchEnd::NotAuthorized => forbidden(),
            WatchEnd::SessionEnded => session_ended(),
        };
        if let Some((exchange, _)) = self.registrations.remove(&cookie) {
            self.respond(exchange, &answer, cx.now);
        }
        let Some(relation) = self.relations.remove(cookie) else {
            return;
        };
        self.give_seat_back(relation.seat, cx);
        self.identities.let_go(IdentityId(relation.identity));
        if relation.state != State::Registering {
            let last = answer.with_response(|response| {
                SharedBody::new(response.code, response.options, response.payload)
            });
            self.side
                .end_observation(relation.number, Some(&Arc::new(last)), cx.now);
        }
    }

    /// Ends a watch whose observation the machine has ended, or goes on with otherwise.
    /// Whose it was.
    pub(super) fn forget_relation(&mut self, cookie: u64, cx: &mut Cx<'_>) -> Option<IdentityId> {
        self.registrations.remove(&cookie);
        let relation = self.relations.remove(cookie)?;
        self.give_seat_back(relation.seat, cx);
        let identity = IdentityId(relation.identity);
        self.identities.let_go(identity);
        cx.kernel.unwatch(relation.watch, cx.now);
        Some(identity)
    }

    /// The machine can tell an observer more; whether there is anything to tell, as far as is known here.
    pub(super) fn on_ready(&mut self, cookie: u64) -> bool {
        let Some(relation) = self
            .relations
            .get_mut(cookie)
            .filter(|relation| relation.state == State::Busy)
        else {
            return false;
        };
        relation.state = State::Idle;
        self.relations.mark_ready(cookie);
        true
    }

    /// An observer is checked by a confirmable notification of the present state. RFC 7641 §4.5
    pub(super) fn on_check_due(&mut self, cookie: u64, cx: &mut Cx<'_>) {
        let Some(relation) = self.relations.get_mut(cookie) else {
            return;
        };
        if relation.state != State::Idle {
            // What waits for it asks as well.
            return;
        }
        let format = seat_format(self.desk, relation.seat, cx);
        let value = cx.kernel.watched_value(relation.watch, cx.now).cloned();
        let body = match &value {
            Some(value) => self.bodies.of(value, format, &self.settings, cx.now),
            None => Arc::new(SharedBody::new(Code::CONTENT, &[], &[])),
        };
        match self
            .side
            .notify(relation.number, &body, Delivery::Confirmable, cx.now)
        {
            Notified::Sent { .. } => self.counts.notifications += 1,
            Notified::Busy => {
                relation.state = State::Busy;
                relation.parked = value;
            }
            Notified::Gone => {
                self.forget_relation(cookie, cx);
            }
        }
    }

    /// Tells observers what has changed, as long as there is room for it.
    pub(super) fn notify_all(&mut self, cx: &mut Cx<'_>) {
        self.stalled = false;
        while self.relations.has_ready() {
            if !self.side.has_room() {
                self.stalled = true;
                return;
            }
            let Some(cookie) = self.relations.take_ready() else {
                return;
            };
            self.notify_one(cookie, cx);
        }
    }

    fn notify_one(&mut self, cookie: u64, cx: &mut Cx<'_>) {
        let Some(relation) = self.relations.get_mut(cookie) else {
            return;
        };
        // While it is busy what comes waits with the kernel, where newer takes the place of older.
        if relation.state != State::Idle {
            return;
        }
        let (watch, conflates) = (relation.watch, relation.conflates);
        let mut parked = relation.parked.take();
        let mut has_sent = false;
        loop {
            // What was parked came before what waits with the kernel.
            if !conflates && let Some(first) = parked.take() {
                if self.tell(cookie, first, cx) != NotifyOutcome::Sent {
                    return;
                }
                has_sent = true;
            }
            let change = match cx.kernel.take_watched(watch, cx.now) {
                Some(change) => {
                    self.counts.conflated += u64::from(parked.take().is_some());
                    change
                }
                None => match parked.take() {
                    Some(parked) => Change::Value(parked),
                    None if has_sent => return,
                    None => {
                        let number = self.number_of(cookie);
                        return self.side.nothing_to_notify(number);
                    }
                },
            };
            let told = match change {
                Change::Value(value) => self.tell(cookie, value, cx),
                Change::Gone => {
                    self.end(cookie, &no_value(), cx);
                    NotifyOutcome::Ended
                }
            };
            // An observer of the newest value has it now; the next value is notified again.
            if told != NotifyOutcome::Sent || conflates {
                return;
            }
            has_sent = true;
        }
    }

    fn number_of(&mut self, cookie: u64) -> u64 {
        self.relations
            .get_mut(cookie)
            .map_or(0, |relation| relation.number)
    }

    /// Tells an observer of a value.
    fn tell(&mut self, cookie: u64, value: Message, cx: &mut Cx<'_>) -> NotifyOutcome {
        let Some(relation) = self.relations.get_mut(cookie) else {
            return NotifyOutcome::Ended;
        };
        let format = seat_format(self.desk, relation.seat, cx);
        let body = self.bodies.of(&value, format, &self.settings, cx.now);
        let format = self.bodies.last_format();
        match format {
            Some(format) if relation.format == NO_FORMAT => relation.format = format,
            // RFC 7641 §4.2: an observation keeps its format or ends.
            Some(format) if relation.format != format => {
                self.end(cookie, &other_format(), cx);
                return NotifyOutcome::Ended;
            }
            _ => {}
        }
        let (mut notify, mut reliability) = (relation.notify, value.reliability());
        if cx.kernel.limits().bounds_reliability() {
            bound_by_policy(&mut notify, &mut reliability, value.address(), cx);
        }
        let delivery = match (notify, reliability) {
            (Notify::Auto, Reliability::AtMostOnce) => Delivery::Auto,
            (Notify::Auto, _) | (Notify::Confirmable, _) if !relation.conflates => {
                Delivery::Insistent
            }
            (Notify::Auto, _) | (Notify::Confirmable, _) => Delivery::Confirmable,
            (Notify::NonConfirmable, _) => Delivery::NonConfirmable,
        };
        match self.side.notify(relation.number, &body, delivery, cx.now) {
            Notified::Sent { .. } => {
                self.counts.notifications += 1;
                NotifyOutcome::Sent
            }
            Notified::Busy => {
                relation.state = State::Busy;
                relation.parked = Some(value);
                NotifyOutcome::Busy
            }
            Notified::Gone => {
                self.forget_relation(cookie, cx);
                NotifyOutcome::Ended
            }
        }
    }

    /// Ends an observation, and says why.
    pub(super) fn end(&mut self, cookie: u64, why: &Answer, cx: &mut Cx<'_>) {
        let number = self.number_of(cookie);
        if let Some((exchange, _)) = self.registrations.remove(&cookie) {
            // The machine does not know it yet.
            self.forget_relation(cookie, cx);
            return self.respond(exchange, why, cx.now);
        }
        let last = why.with_response(|response| {
            SharedBody::new(response.code, response.options, response.payload)
        });
        self.forget_relation(cookie, cx);
        self.side
            .end_observation(number, Some(&Arc::new(last)), cx.now);
    }
}

/// Lowers what an observer is told by to what a policy allows.
#[cold]
#[inline(never)]
fn bound_by_policy(notify: &mut Notify, reliability: &mut Reliability, address: &str, cx: &Cx<'_>) {
    let limits = cx.kernel.limits();
    let most = limits.reliability_at(address, Reliability::ExactlyOnce);
    *reliability = most.min(*reliability);
    if (*notify, most) == (Notify::Confirmable, Reliability::AtMostOnce) {
        *notify = Notify::NonConfirmable;
    }
}

/// What the values of the topic are at which an observer has a seat.
fn seat_format(desk: Option<LinkId>, seat: Option<TopicId>, cx: &Cx<'_>) -> Option<u16> {
    let seat = seat?;
    Desk::at(cx.links, desk?)?
        .topics
        .get(seat)?
        .configuration
        .content_format
}

/// Notifications as they were encoded last: all observers of an address share them.
#[derive(Default)]
pub(super) struct Bodies {
    entries: Vec<Encoded>,
    /// Where the last one found is.
    last: usize,
    /// Where the next new one goes.
    next: usize,
}

struct Encoded {
    value: Message,
    /// Max-Age is as of this second, if it runs.
    second: u64,
    /// What it is if its publisher did not say.
    default: Option<u16>,
    format: Option<u16>,
    body: Arc<SharedBody>,
}

/// How many are kept: as many as there are addresses whose observers take turns.
const BODIES: usize = 16;

impl Bodies {
    /// A value as a notification.
    fn of(
        &mut self,
        value: &Message,
        default: Option<u16>,
        settings: &CoapSettings,
        now: Time,
    ) -> Arc<SharedBody> {
        let second = if value.expires() == Time::NEVER {
            0
        } else {
            now.nanos() / 1_000_000_000
        };
        let is_it = |entry: &Encoded| {
            entry.second == second && entry.default == default && entry.value.is_same(value)
        };
        if let Some(entry) = self.entries.get(self.last).filter(|entry| is_it(entry)) {
            return entry.body.clone();
        }
        if let Some(at) = self.entries.iter().position(is_it) {
            self.last = at;
            return self.entries.get(at).map_or_else(
                || encode(value, default, settings, now).1,
                |entry| entry.body.clone(),
            );
        }
        let (format, body) = encode(value, default, settings, now);
        let entry = Encoded {
            value: value.clone(),
            second,
            default,
            format,
            body: body.clone(),
        };
        match self.entries.get_mut(self.next) {
            Some(slot) => *slot = entry,
            None => self.entries.push(entry),
        }
        self.last = self.next;
        self.next = (self.next + 1) % BODIES;
        body
    }

    /// The Content-Format of the one that was asked for last.
    fn last_format(&self) -> Option<u16> {
        self.entries.get(self.last).and_then(|entry| entry.format)
    }

    /// Drops values that are not needed any more.
    pub(super) fn clear(&mut self) {
        *self = Bodies::default();
    }
}

fn encode(
    value: &Message,
    default: Option<u16>,
    settings: &CoapSettings,
    now: Time,
) -> (Option<u16>, Arc<SharedBody>) {
    let shown = Representation::of(value, settings.max_age_secs, now).or_format(default);
    let mut options = [(option::ETAG, Value::Opaque(&shown.etag)); OPTIONS_MAX];
    let count = shown.write(false, &mut options);
    // A body of one message needs no tag: the observer has it all, and who fetches it gets one. Five bytes of each
    // notification are more than what validation saves.
    let skip = usize::from(!settings.notify_etag && value.payload().len() <= ONE_BLOCK);
    let options = options.get(skip..count).unwrap_or_default();
    (
        shown.content_format,
        Arc::new(SharedBody::new(Code::CONTENT, options, value.payload())),
    )
}

/// The largest payload that is sure to go in one message.
const ONE_BLOCK: usize = 1024;
