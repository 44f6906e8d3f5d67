//! CoAP over UDP and DTLS: [`Coap`].
//!
//! ```text
//!  open --GET /.well-known/core?rt=x-stamps--> Asking --any answer--> Up
//!
//!  publish, at most once    PUT, non-confirmable, nothing comes back; a ping now and then shows whether anybody is there
//!  publish, at least once   PUT, confirmable; the acknowledgement settles it
//!  subscribe                GET with Observe; registered again when nothing was heard for Max-Age
//! ```

mod publish;

use std::net::SocketAddr;
use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use thalweg_coap::{
    Cancel, ClientEvent, ClientNotice, ClientSettings, ClientSide, Code, Datagrams, Failure,
    RequestOut, RequestRefused, ResponseIn, Transmission, option,
};
use thalweg_model::{Reliability, STAMPS_ANNOUNCEMENT, Span, Time};

use self::publish::Window;
use super::CoapSettings;
use super::observations::{End, Observation};
use super::words::{self, Resource, StampBytes, Wording};
use crate::transport::{
    Capabilities, Counters, DeliveryId, Departure, Endpoint, Events, LinkFault, MessageId, Opening,
    Outbound, Output, Refusal, RequestId, Settled, SubscribeWish, SubscriptionId, Transport,
    Welcome,
};

/// A lane that speaks CoAP in datagrams.
#[derive(Debug)]
pub struct Coap {
    endpoint: Endpoint,
    settings: CoapSettings,
    side: ClientSide,
    peer: SocketAddr,
    state: State,
    /// The server recognizes repetitions by stamps.
    stamps: bool,
    /// What requests are for.
    asked: HashMap<thalweg_coap::RequestId, Purpose, FixedState>,
    observations: Vec<Observation<thalweg_coap::RequestId>>,
    /// The server takes messages in the order that we name.
    keeps_order: bool,
    /// The last message of each topic, by hash, that is under way.
    last: HashMap<u64, thalweg_coap::RequestId, FixedState>,
    /// Publishes under way, and how many there may be.
    in_flight: usize,
    /// Bytes of their payloads.
    bytes: usize,
    window: Window,
    /// A publish was refused because as many were under way as there may be, or the server wants to be left alone.
    was_full: bool,
    /// Until when the server wants to be left alone.
    pause_until: Time,
    /// When it was heard last.
    heard: Time,
    /// Messages that were given up since then.
    unheard: u32,
    /// The ping under way, and when it left.
    ping: Option<(thalweg_coap::RequestId, Time)>,
    wants_ping: bool,
    /// Counts of the machines of earlier connections.
    before: Counters,
    wording: Wording,
    scratch: Datagrams,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Closed,
    /// Whether anybody is there, and what it can do.
    Asking,
    Up,
}

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Hello,
    Publish {
        id: MessageId,
        sent_at: Time,
        topic: u64,
        bytes: usize,
    },
    /// A publish of which nothing is to be told.
    Unawaited {
        topic: u64,
        bytes: usize,
    },
    Observe(SubscriptionId),
    Question(RequestId),
    Read(RequestId),
}

/// The least first wait when it follows the round trip: what a server may take that writes to a disk before it answers.
const LEAST_WAIT: Span = Span::from_millis(100);

/// The first wait while nothing is known: RFC 6298 §2.1, and as little as RFC 7252 §4.8.1 allows.
const FIRST_WAIT: Span = Span::from_secs(1);

/// With that first wait, as many repetitions as take RFC 7252's time until a message is given up: 45 s.
const REPETITIONS: u8 = 5;

/// As many messages may be given up in a row, with nothing heard in between, before the peer is thought to be gone.
const GIVEN_UP_MAX: u32 = 2;

/// Bytes that may go without a sign of life. At half of it a ping asks for one.
const UNANSWERED_MAX: u32 = 64 << 10;

/// The largest body: what block-wise transfer can number with blocks of 1,024 bytes. RFC 7959 §2.2
const BODY_BYTES_MAX: usize = 1 << 20 << 10;

impl Coap {
    /// A lane to this endpoint, not connected yet.
    pub fn new(endpoint: Endpoint, settings: CoapSettings) -> Self {
        let side = machine(&endpoint, &settings);
        let peer = SocketAddr::from(([0, 0, 0, 0], 0));
        let window = Window::new(settings.nstart);
        Coap {
            endpoint,
            settings,
            side,
            peer,
            state: State::Closed,
            stamps: false,
            asked: HashMap::with_hasher(FixedState::default()),
            observations: Vec::new(),
            keeps_order: false,
            last: HashMap::with_hasher(FixedState::default()),
            in_flight: 0,
            bytes: 0,
            window,
            was_full: false,
            pause_until: Time::ZERO,
            heard: Time::ZERO,
            unheard: 0,
            ping: None,
            wants_ping: false,
            before: Counters::default(),
            wording: Wording::default(),
            scratch: Datagrams::new(),
        }
    }

    /// The settings in force.
    pub fn settings(&self) -> &CoapSettings {
        &self.settings
    }

    fn request(
        &mut self,
        request: &RequestOut<'_>,
        purpose: Purpose,
        now: Time,
    ) -> Result<thalweg_coap::RequestId, Refusal> {
        let before = match purpose {
            Purpose::Publish { topic, .. } | Purpose::Unawaited { topic, .. }
                if self.keeps_order =>
            {
                self.last.get(&topic).copied()
            }
            _ => None,
        };
        let id = self
            .side
            .request_after(self.peer, request, before, now, &mut self.scratch)
            .map_err(|refused| match refused {
                RequestRefused::TooMany | RequestRefused::Probing => Refusal::Window,
                RequestRefused::TooLarge => Refusal::TooLarge {
                    limit: BODY_BYTES_MAX,
                },
            })?;
        self.asked.insert(id, purpose);
        Ok(id)
    }

    /// What the machine has written goes to the socket.
    fn flush(&mut self, out: &mut Output) {
        for (_, bytes) in self.scratch.iter() {
            out.bytes.extend_from_slice(bytes);
            out.end_datagram();
        }
        self.scratch.clear();
    }

    /// Everything that may follow from a datagram or a timeout.
    fn finish(
        &mut self,
        now: Time,
        out: &mut Output,
        events: &mut dyn Events,
    ) -> Result<(), LinkFault> {
        let mut fault = None;
        while let Some(notice) = self.side.poll_event() {
            if let Err(found) = self.on_notice(notice, now, events) {
                fault = Some(found);
            }
        }
        self.register_due(now);
        if std::mem::take(&mut self.wants_ping) && fault.is_none() && self.ping.is_none() {
            self.ask_whether_there(now, out);
        }
        if let Some(span) = self.side.take_round_trip() {
            events.round_trip(span);
        }
        self.flush(out);
        self.adapt_window(now);
        self.make_room(now, events);
        fault.map_or(Ok(()), Err)
    }

    fn make_room(&mut self, now: Time, events: &mut dyn Events) {
        let is_room = self.in_flight < self.window.size()
            && self.pause_until <= now
            && self.side.unanswered(self.peer) < UNANSWERED_MAX / 2;
        if self.was_full && is_room && self.state == State::Up {
            self.was_full = false;
            events.room();
        }
    }

    fn on_notice(
        &mut self,
        notice: ClientNotice,
        now: Time,
        events: &mut dyn Events,
    ) -> Result<(), LinkFault> {
        match notice {
            ClientNotice::Acknowledged { .. } => Ok(()),
            ClientNotice::Pong { request } => {
                self.ping = self.ping.filter(|(ping, _)| *ping != request);
                Ok(())
            }
            ClientNotice::Failed { request, why } => {
                if let Some((_, sent_at)) = self.ping.filter(|(ping, _)| *ping == request) {
                    self.ping = None;
                    self.gave_up(sent_at)?;
                    self.wants_ping |= self.was_full;
                    return Ok(());
                }
                match self.asked.remove(&request) {
                    Some(purpose) => {
                        self.has_ended(request, purpose);
                        self.on_failure(purpose, why, now, events)
                    }
                    None => Ok(()),
                }
            }
        }
    }

    /// A request has ended without an answer.
    fn on_failure(
        &mut self,
        purpose: Purpose,
        why: Failure,
        now: Time,
        events: &mut dyn Events,
    ) -> Result<(), LinkFault> {
        let is_rejected = why == Failure::Reset;
        match purpose {
            // It is there, and knows nothing of resources. RFC 7252 §4.2
            Purpose::Hello if is_rejected || why == Failure::Body => self.come_up(events),
            Purpose::Hello => return Err(nobody()),
            Purpose::Publish { id, sent_at, .. } => {
                let outcome = match why {
                    Failure::Reset => Settled::Refused(Refusal::Denied(
                        "the server rejects the message".to_owned(),
                    )),
                    Failure::Order => Settled::Refused(Refusal::Busy(
                        "an earlier message of the topic was not taken".to_owned(),
                    )),
                    _ => Settled::Unknown,
                };
                events.settled(id, outcome);
                if why == Failure::Unacknowledged {
                    return self.gave_up(sent_at);
                }
            }
            Purpose::Unawaited { .. } => {}
            Purpose::Observe(subscription) => {
                self.on_observation_ended(subscription, None, now, events)
            }
            Purpose::Question(request) | Purpose::Read(request) => {
                events.answered(request, Err(Refusal::NoAnswer))
            }
        }
        Ok(())
    }

    /// Something was given up. Where much is lost that happens; twice in a row, with nothing heard in between, it means that
    /// nobody is there.
    fn gave_up(&mut self, since: Time) -> Result<(), LinkFault> {
        if self.heard > since {
            return Ok(());
        }
        self.unheard += 1;
        if self.unheard < GIVEN_UP_MAX {
            Ok(())
        } else {
            Err(nobody())
        }
    }

    fn come_up(&mut self, events: &mut dyn Events) {
        if self.state == State::Asking {
            self.state = State::Up;
            events.up(&Welcome::default());
        }
    }

    fn on_event(&mut self, event: ClientEvent<'_>, now: Time, events: &mut dyn Events) {
        match event {
            ClientEvent::Notification(response) => {
                let Some(Purpose::Observe(subscription)) = self.asked.get(&response.request) else {
                    return;
                };
                let Some(found) = self
                    .observations
                    .iter_mut()
                    .find(|one| one.subscription == *subscription)
                else {
                    return;
                };
                let reliability = found.reliability.min(Reliability::AtLeastOnce);
                let (options, payload) = (&response.options, &response.payload);
                found.notified(
                    response.is_piggybacked,
                    reliability,
                    options,
                    payload,
                    events,
                );
                if found.is_leaving {
                    let subscription = found.subscription;
                    self.end_observation(subscription, now);
                }
            }
            ClientEvent::Response(response) => {
                if let Some(purpose) = self.asked.remove(&response.request) {
                    self.has_ended(response.request, purpose);
                    self.on_response(purpose, &response, now, events);
                }
            }
        }
    }

    fn on_response(
        &mut self,
        purpose: Purpose,
        response: &ResponseIn<'_>,
        now: Time,
        events: &mut dyn Events,
    ) {
        let ResponseIn {
            code,
            options,
            payload,
            ..
        } = response;
        let code = *code;
        if let Some(pause) = words::pause(code, options) {
            self.pause_until = self.pause_until.max(now + pause);
            self.was_full = true;
            events.pressed();
        }
        match purpose {
            Purpose::Hello => {
                self.stamps = words::announces(STAMPS_ANNOUNCEMENT, code, payload);
                self.keeps_order = words::announces(option::AFTER_ANNOUNCEMENT, code, payload)
                    && self.settings.adaptive_timeout;
                self.open_window(now);
                self.come_up(events);
            }
            Purpose::Publish { id, .. } => {
                events.settled(id, words::outcome(code, options, payload));
            }
            Purpose::Unawaited { .. } => {}
            Purpose::Observe(subscription) => {
                self.on_observation_ended(
                    subscription,
                    Some((code, options, &**payload)),
                    now,
                    events,
                );
            }
            Purpose::Question(request) => words::answer(request, code, options, payload, events),
            Purpose::Read(request) => words::value(request, code, options, payload, events),
        }
    }

    fn on_observation_ended(
        &mut self,
        subscription: SubscriptionId,
        response: Option<(Code, &thalweg_coap::Options<'_>, &[u8])>,
        now: Time,
        events: &mut dyn Events,
    ) {
        let Some(at) = self
            .observations
            .iter()
            .position(|one| one.subscription == subscription)
        else {
            return;
        };
        let Some(found) = self.observations.get_mut(at) else {
            return;
        };
        if found.is_leaving || found.ended(response, now, events) == End::Over {
            self.observations.swap_remove(at);
        }
    }

    /// Ends an observation at once.
    fn end_observation(&mut self, subscription: SubscriptionId, now: Time) {
        let Some(at) = self
            .observations
            .iter()
            .position(|one| one.subscription == subscription)
        else {
            return;
        };
        let gone = self.observations.swap_remove(at);
        if let Some(request) = gone.request {
            self.asked.remove(&request);
            self.side
                .cancel(request, Cancel::Deregister, now, &mut self.scratch);
        }
    }

    /// Registers observations again that have ended and are due.
    fn register_due(&mut self, now: Time) {
        for at in 0..self.observations.len() {
            let Some(found) = self
                .observations
                .get_mut(at)
                .filter(|one| one.retry_at <= now)
            else {
                continue;
            };
            found.retry_at = Time::NEVER;
            let (subscription, reliability) = (found.subscription, found.reliability);
            let address = std::mem::take(&mut found.address);
            let request = self.observe(subscription, &address, reliability, now);
            if let Some(found) = self.observations.get_mut(at) {
                found.address = address;
                match request {
                    Ok(request) => found.request = Some(request),
                    Err(_) => found.retry_at = now + Span::from_secs(1),
                }
            }
        }
    }

    fn observe(
        &mut self,
        subscription: SubscriptionId,
        address: &str,
        reliability: Reliability,
        now: Time,
    ) -> Result<thalweg_coap::RequestId, Refusal> {
        let keeps_all = reliability != Reliability::AtMostOnce && !self.settings.is_plain();
        let mut wording = std::mem::take(&mut self.wording);
        let (queue, qos) = (self.settings.queue, u8::from(keeps_all));
        let queries = [format_args!("queue={queue}"), format_args!("qos={qos}")];
        let wanted = if keeps_all {
            &queries[..]
        } else {
            &queries[1..]
        };
        let request = wording
            .get(address, wanted, &self.settings.clone())
            .and_then(|options| {
                let options = options.as_slice();
                let request = RequestOut {
                    code: Code::GET,
                    confirmable: true,
                    options,
                    payload: &[],
                    observe: true,
                };
                self.request(&request, Purpose::Observe(subscription), now)
            });
        self.wording = wording;
        if let (Ok(request), true) = (&request, keeps_all) {
            self.side.keep_all(*request);
        }
        request
    }

    fn ask_whether_there(&mut self, now: Time, out: &mut Output) {
        self.ping = self
            .side
            .ping(self.peer, now, &mut self.scratch)
            .ok()
            .map(|ping| (ping, now));
        self.flush(out);
    }
}

impl Transport for Coap {
    fn protocol(&self) -> &'static str {
        "coap"
    }

    fn capabilities(&self) -> Capabilities {
        let is_ours = !self.settings.is_plain();
        Capabilities {
            receive_max: if is_ours {
                Reliability::AtLeastOnce
            } else {
                Reliability::AtMostOnce
            },
            stamps: self.stamps,
            carries_stamps: self.stamps,
            // A broker that knows stamps is one that insists on each notification.
            keeps_all: self.stamps && is_ours,
            keeps_order: false,
            publishes_in_order: self.keeps_order,
            properties: is_ours,
            lifespan: is_ours,
            priority: is_ours,
            payload_bytes_max: BODY_BYTES_MAX,
            ..super::CAPABILITIES
        }
    }

    fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    fn open(&mut self, _opening: &Opening, peer: SocketAddr, now: Time, out: &mut Output) {
        self.closed();
        self.peer = peer;
        (self.state, self.heard) = (State::Asking, now);
        let hello = words::hello();
        let request = RequestOut {
            code: Code::GET,
            confirmable: true,
            options: &hello,
            payload: &[],
            observe: false,
        };
        // A fresh machine has room for one request.
        let _ = self.request(&request, Purpose::Hello, now);
        self.flush(out);
    }

    fn handle_input(
        &mut self,
        input: &[u8],
        now: Time,
        out: &mut Output,
        events: &mut dyn Events,
    ) -> Result<usize, LinkFault> {
        if self.state == State::Closed {
            return Ok(input.len());
        }
        (self.heard, self.unheard) = (now, 0);
        let mut scratch = std::mem::take(&mut self.scratch);
        let event = self
            .side
            .handle_datagram(self.peer, input, now, &mut scratch);
        self.scratch = scratch;
        if let Some(event) = event {
            self.on_event(event, now, events);
        }
        self.finish(now, out, events)?;
        Ok(input.len())
    }

    fn poll_timeout(&self) -> Time {
        if self.state == State::Closed {
            return Time::NEVER;
        }
        let retry = self
            .observations
            .iter()
            .map(|one| one.retry_at)
            .min()
            .unwrap_or(Time::NEVER);
        let pause = if self.was_full && self.pause_until > Time::ZERO {
            self.pause_until
        } else {
            Time::NEVER
        };
        self.side.poll_timeout().min(retry).min(pause)
    }

    fn handle_timeout(
        &mut self,
        now: Time,
        out: &mut Output,
        events: &mut dyn Events,
    ) -> Result<(), LinkFault> {
        if self.pause_until <= now {
            self.pause_until = Time::ZERO;
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        self.side.handle_timeout(now, &mut scratch);
        self.scratch = scratch;
        self.finish(now, out, events)
    }

    fn publish(
        &mut self,
        message: &Outbound<'_>,
        now: Time,
        out: &mut Output,
    ) -> Result<Departure, Refusal> {
        if self.state != State::Up {
            return Err(Refusal::NotConnected);
        }
        if self.pause_until > now {
            self.was_full = true;
            return Err(Refusal::Window);
        }
        match message.reliability {
            Reliability::AtMostOnce => self.tell(message, now, out),
            Reliability::AtLeastOnce => self.put(
                message,
                Purpose::Publish {
                    id: message.id,
                    sent_at: now,
                    topic: self.topic(message.address),
                    bytes: message.payload.len(),
                },
                now,
                out,
            ),
            Reliability::ExactlyOnce => Err(Refusal::Unsupported("CoAP knows no exactly once")),
        }
    }

    fn abandon(&mut self, id: MessageId) {
        let is_it = |purpose: &Purpose| matches!(purpose, Purpose::Publish { id: known, .. } if *known == id);
        let Some((request, purpose)) = self
            .asked
            .iter()
            .find(|(_, purpose)| is_it(purpose))
            .map(|(request, purpose)| (*request, *purpose))
        else {
            return;
        };
        self.asked.remove(&request);
        self.has_ended(request, purpose);
        // Nothing is written by that but what waited behind it, which the next call sends.
        self.side
            .cancel(request, Cancel::Forget, self.heard, &mut self.scratch);
    }

    fn subscribe(
        &mut self,
        wish: &SubscribeWish<'_>,
        now: Time,
        out: &mut Output,
    ) -> Result<(), Refusal> {
        if self.state != State::Up {
            return Err(Refusal::NotConnected);
        }
        if let Some(refusal) = super::unobservable(wish.filter, self.stamps) {
            return Err(refusal);
        }
        self.end_observation(wish.subscription, now);
        let request = self.observe(wish.subscription, wish.filter, wish.reliability, now)?;
        let (name, last_values) = (wish.subscription, wish.last_values);
        self.observations.push(Observation::new(
            name,
            wish.filter,
            wish.reliability,
            last_values,
            request,
        ));
        self.flush(out);
        Ok(())
    }

    fn unsubscribe(&mut self, subscription: SubscriptionId, now: Time, out: &mut Output) {
        let found = self
            .observations
            .iter_mut()
            .find(|one| one.subscription == subscription);
        match found {
            Some(one)
                if one
                    .request
                    .is_some_and(|request| self.side.is_gathering(request)) =>
            {
                one.is_leaving = true
            }
            _ => {
                self.end_observation(subscription, now);
                self.flush(out);
            }
        }
    }

    fn settle(&mut self, _delivery: DeliveryId, _now: Time, _out: &mut Output) {
        // The machine has acknowledged what came.
    }

    fn request(
        &mut self,
        request: RequestId,
        message: &Outbound<'_>,
        now: Time,
        out: &mut Output,
    ) -> Result<(), Refusal> {
        if self.state != State::Up {
            return Err(Refusal::NotConnected);
        }
        let mut wording = std::mem::take(&mut self.wording);
        let stamp = message.stamp.filter(|_| self.stamps).map(StampBytes::new);
        let question = Outbound {
            reliability: Reliability::AtLeastOnce,
            retain: crate::Retain::No,
            ..*message
        };
        let result = wording
            .publish(
                &question,
                Resource::Rpc,
                false,
                false,
                &stamp,
                &self.settings,
            )
            .and_then(|(code, options)| {
                let (options, payload) = (options.as_slice(), message.payload);
                let question = RequestOut {
                    code,
                    confirmable: true,
                    options,
                    payload,
                    observe: false,
                };
                Coap::request(self, &question, Purpose::Question(request), now)
            });
        self.wording = wording;
        self.flush(out);
        result.map(|_| ())
    }

    fn read(
        &mut self,
        request: RequestId,
        address: &str,
        now: Time,
        out: &mut Output,
    ) -> Result<(), Refusal> {
        if self.state != State::Up {
            return Err(Refusal::NotConnected);
        }
        let mut wording = std::mem::take(&mut self.wording);
        let result = wording
            .get(address, &[], &self.settings)
            .and_then(|options| {
                let options = options.as_slice();
                let question = RequestOut {
                    code: Code::GET,
                    confirmable: true,
                    options,
                    payload: &[],
                    observe: false,
                };
                Coap::request(self, &question, Purpose::Read(request), now)
            });
        self.wording = wording;
        self.flush(out);
        result.map(|_| ())
    }

    fn forget(&mut self, request: RequestId) {
        // What still comes is answered by the machine and told to nobody.
        self.asked.retain(
            |_, purpose| !matches!(purpose, Purpose::Question(asked) | Purpose::Read(asked) if *asked == request),
        );
    }

    fn probe(&mut self, now: Time, out: &mut Output) -> usize {
        // An answer would say that nothing more comes of what has left.
        if self.state != State::Up
            || self.ping.is_some()
            || self.observations.iter().any(|one| one.is_leaving)
        {
            return 0;
        }
        let before = out.bytes.len();
        self.ask_whether_there(now, out);
        out.bytes.len() - before
    }

    fn close(&mut self, now: Time, out: &mut Output) {
        for observation in std::mem::take(&mut self.observations) {
            if let Some(request) = observation.request {
                self.side
                    .cancel(request, Cancel::Deregister, now, &mut self.scratch);
            }
        }
        self.flush(out);
    }

    fn closed(&mut self) {
        self.before = self.counters();
        self.side = machine(&self.endpoint, &self.settings);
        self.state = State::Closed;
        self.asked.clear();
        self.observations.clear();
        self.last.clear();
        self.bytes = 0;
        self.window = Window::new(self.settings.nstart);
        (self.in_flight, self.was_full, self.ping) = (0, false, None);
        (self.unheard, self.wants_ping) = (0, false);
        self.pause_until = Time::ZERO;
        self.scratch.clear();
    }

    fn counters(&self) -> Counters {
        Counters {
            confirmable: self.before.confirmable + self.side.confirmable(),
            retransmissions: self.before.retransmissions + self.side.retransmissions(),
        }
    }
}

fn nobody() -> LinkFault {
    LinkFault {
        words: "nobody answers at this address".to_owned(),
        is_final: false,
    }
}

fn machine(endpoint: &Endpoint, settings: &CoapSettings) -> ClientSide {
    let usual = Transmission {
        nstart: settings.nstart.max(1),
        ..Transmission::default()
    };
    let transmission = match settings.adaptive_timeout {
        true => Transmission {
            ack_timeout: FIRST_WAIT,
            max_retransmit: REPETITIONS,
            adaptive_least: Some(LEAST_WAIT),
            ..usual
        },
        false => usual,
    };
    let seed = settings.seed();
    let settings = ClientSettings {
        transmission,
        response_bytes_max: settings.body_bytes_max,
        understood_options: Vec::new(),
        token_bytes: if endpoint.is_encrypted {
            1
        } else {
            settings.token_bytes
        },
        probing_allowance: UNANSWERED_MAX,
        ..ClientSettings::default()
    };
    ClientSide::new(Arc::new(settings), seed)
}
