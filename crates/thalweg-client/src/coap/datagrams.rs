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

use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use thalweg_coap::{
    Cancel, ClientEvent, ClientNotice, ClientSettings, ClientSide, Code, Datagrams, Failure,
    OptionOut, RequestOut, RequestRefused, ResponseIn, Transmission, option,
};
use thalweg_model::{Reliability, STAMPS_ANNOUNCEMENT, Span, Time};

use self::publish::Congestion;
use super::CoapSettings;
use super::observations::Observations;
use super::wording::{self, Answer, Wording};
use crate::plugin::{Asked, Connection, Cx, Plugin, Step, has_connection};
use crate::transport::{
    Capabilities, Counters, Departure, Endpoint, Events, LinkFault, MessageId, Opening, Outbound,
    Output, Refusal, RequestId, Settled, SubscribeWish, SubscriptionId, Welcome,
};

/// A lane that speaks CoAP in datagrams.
#[derive(Debug)]
pub struct Coap {
    conn: Connection,
    requests: Requests,
    observations: Observations<thalweg_coap::RequestId>,
    /// Publishes under way, and how many there may be.
    in_flight: usize,
    /// Bytes of their payloads.
    bytes: usize,
    window: Congestion,
    /// Until then the server has asked for a pause.
    pause_until: Time,
    /// Time of the last datagram from the peer.
    heard: Time,
    /// Messages that were given up since then.
    unheard: u32,
    /// The ping under way, and when it left.
    ping: Option<(thalweg_coap::RequestId, Time)>,
    wants_ping: bool,
    /// Counts of the machines of earlier connections.
    before: Counters,
    wording: Wording,
}

/// Requests that wait for their response.
#[derive(Debug)]
struct Requests {
    side: ClientSide,
    /// The purpose of each request.
    asked: HashMap<thalweg_coap::RequestId, Purpose, FixedState>,
    /// The server takes messages in the order that we name.
    keeps_order: bool,
    /// The last message of each topic, by hash, that is under way.
    last: HashMap<u64, thalweg_coap::RequestId, FixedState>,
    /// Datagrams that were not sent yet.
    scratch: Datagrams,
}

/// Purpose of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Hello,
    Publish {
        id: MessageId,
        sent_at: Time,
        topic: u64,
        bytes: usize,
    },
    /// A publish without a reported outcome.
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

/// So many messages in a row may fail without a datagram from the peer before the connection counts as lost.
const GIVEN_UP_MAX: u32 = 2;

/// Bytes that may go without a sign of life. At half of it a ping asks for one.
const UNANSWERED_MAX: u32 = 64 << 10;

/// The largest body: what block-wise transfer can number with blocks of 1,024 bytes. RFC 7959 §2.2
const BODY_BYTES_MAX: usize = 1 << 20 << 10;

impl Requests {
    fn get(
        &mut self,
        options: &[OptionOut<'_>],
        purpose: Purpose,
        conn: &Connection,
    ) -> Asked<thalweg_coap::RequestId> {
        self.ask((Code::GET, options), &[], purpose, conn)
    }

    fn ask(
        &mut self,
        (code, options): (Code, &[OptionOut<'_>]),
        payload: &[u8],
        purpose: Purpose,
        conn: &Connection,
    ) -> Asked<thalweg_coap::RequestId> {
        let request = RequestOut {
            code,
            confirmable: true,
            options,
            payload,
            observe: matches!(purpose, Purpose::Observe(_)),
        };
        let before = match purpose.topic() {
            Some((topic, _)) if self.keeps_order => self.last.get(&topic).copied(),
            _ => None,
        };
        let (side, scratch) = (&mut self.side, &mut self.scratch);
        let id = side.request_after(conn.peer(), &request, before, conn.now(), scratch);
        let id = id.map_err(|refused| match refused {
            RequestRefused::TooMany | RequestRefused::Probing => Refusal::Window,
            RequestRefused::TooLarge => Refusal::TooLarge {
                limit: BODY_BYTES_MAX,
            },
        })?;
        self.asked.insert(id, purpose);
        Ok(id)
    }

    fn cancel(&mut self, id: thalweg_coap::RequestId, how: Cancel, now: Time) {
        self.asked.remove(&id);
        self.side.cancel(id, how, now, &mut self.scratch);
    }
}

impl Purpose {
    /// Of a publish: the hash of its topic, and the bytes of its payload.
    fn topic(self) -> Option<(u64, usize)> {
        match self {
            Purpose::Publish { topic, bytes, .. } | Purpose::Unawaited { topic, bytes } => {
                Some((topic, bytes))
            }
            _ => None,
        }
    }
}

impl Coap {
    /// A lane to this endpoint, not connected yet.
    pub fn new(endpoint: Endpoint, settings: CoapSettings) -> Self {
        Coap {
            requests: Requests {
                side: machine(&endpoint, &settings),
                asked: HashMap::with_hasher(FixedState::default()),
                keeps_order: false,
                last: HashMap::with_hasher(FixedState::default()),
                scratch: Datagrams::new(),
            },
            conn: Connection::new(endpoint, usize::MAX),
            observations: Observations::default(),
            in_flight: 0,
            bytes: 0,
            window: Congestion::new(settings.nstart),
            pause_until: Time::ZERO,
            heard: Time::ZERO,
            unheard: 0,
            ping: None,
            wants_ping: false,
            before: Counters::default(),
            wording: Wording::new(settings, false),
        }
    }

    /// The settings in force.
    pub fn settings(&self) -> &CoapSettings {
        self.wording.settings()
    }

    /// Everything that may follow from a datagram or a timeout.
    fn finish(&mut self, cx: &mut Cx<'_>) -> Step {
        let mut outcome = Ok(());
        while let Some(notice) = self.requests.side.poll_event() {
            if let Err(fault) = self.on_notice(notice, cx.events) {
                outcome = Err(fault);
            }
        }
        self.register_due();
        if std::mem::take(&mut self.wants_ping) && outcome.is_ok() {
            self.ask_whether_there();
        }
        if let Some(span) = self.requests.side.take_round_trip() {
            cx.events.round_trip(span);
        }
        self.adapt_window();
        outcome
    }

    fn on_notice(&mut self, notice: ClientNotice, events: &mut dyn Events) -> Step {
        match notice {
            ClientNotice::Acknowledged { .. } => {}
            ClientNotice::Pong { request } => _ = self.take_ping(request),
            ClientNotice::Failed { request, why } => {
                if let Some(sent_at) = self.take_ping(request) {
                    self.gave_up(sent_at)?;
                    self.wants_ping |= self.conn.was_full();
                } else if let Some(purpose) = self.requests.asked.remove(&request) {
                    self.has_ended(request, purpose);
                    return self.on_failure(purpose, why, events);
                }
            }
        }
        Ok(())
    }

    /// When the ping left that this request is; it is over.
    fn take_ping(&mut self, request: thalweg_coap::RequestId) -> Option<Time> {
        let (_, sent_at) = self.ping.filter(|(ping, _)| *ping == request)?;
        self.ping = None;
        self.conn.liveness().answered();
        Some(sent_at)
    }

    /// A request has ended without an answer.
    fn on_failure(&mut self, purpose: Purpose, why: Failure, events: &mut dyn Events) -> Step {
        match purpose {
            // The server is reachable and has no resource directory. RFC 7252 §4.2
            Purpose::Hello if matches!(why, Failure::Reset | Failure::Body) => {
                self.conn.be_up(&Welcome::default(), events);
            }
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
            Purpose::Observe(id) => {
                self.observations.ended(id, None, self.conn.now(), events);
            }
            Purpose::Question(request) | Purpose::Read(request) => {
                events.answered(request, Err(Refusal::NoAnswer))
            }
        }
        Ok(())
    }

    /// A message was given up. Under heavy loss that happens; twice in a row without any datagram from the peer means
    /// that the peer is gone.
    fn gave_up(&mut self, since: Time) -> Step {
        if self.heard <= since {
            self.unheard += 1;
            if self.unheard >= GIVEN_UP_MAX {
                return Err(nobody());
            }
        }
        Ok(())
    }

    fn on_event(&mut self, event: ClientEvent<'_>, events: &mut dyn Events) {
        match event {
            ClientEvent::Notification(response) => {
                let asked = self.requests.asked.get(&response.request);
                let Some(Purpose::Observe(id)) = asked.copied() else {
                    return;
                };
                let Some(found) = self.observations.get_mut(id) else {
                    return;
                };
                found.notified(response.is_piggybacked, &answer(&response), events);
                if found.is_leaving {
                    self.end_observation(id);
                }
            }
            ClientEvent::Response(response) => {
                if let Some(purpose) = self.requests.asked.remove(&response.request) {
                    self.has_ended(response.request, purpose);
                    self.on_response(purpose, &answer(&response), events);
                }
            }
        }
    }

    fn on_response(&mut self, purpose: Purpose, answer: &Answer<'_>, events: &mut dyn Events) {
        let now = self.conn.now();
        if let Some(pause) = answer.pause() {
            self.pause_until = self.pause_until.max(now + pause);
            self.conn.hold();
            events.pressed();
        }
        match purpose {
            Purpose::Hello => {
                self.wording.stamps = answer.announces(STAMPS_ANNOUNCEMENT);
                self.requests.keeps_order = answer.announces(option::AFTER_ANNOUNCEMENT)
                    && self.settings().adaptive_timeout;
                self.open_window();
                self.conn.be_up(&Welcome::default(), events);
            }
            Purpose::Publish { id, .. } => events.settled(id, answer.outcome()),
            Purpose::Unawaited { .. } => {}
            Purpose::Observe(id) => self.observations.ended(id, Some(answer), now, events),
            Purpose::Question(request) => answer.tell_answer(request, events),
            Purpose::Read(request) => answer.tell_value(request, events),
        }
    }

    /// Ends an observation at once.
    fn end_observation(&mut self, id: SubscriptionId) {
        let request = self.observations.remove(id).and_then(|gone| gone.request);
        if let Some(request) = request {
            let now = self.conn.now();
            self.requests.cancel(request, Cancel::Deregister, now);
        }
    }

    /// Registers observations again that have ended and are due.
    fn register_due(&mut self) {
        let mut observations = std::mem::take(&mut self.observations);
        observations.register_due(self.conn.now(), |id, address, reliability| {
            self.observe(id, address, reliability)
        });
        self.observations = observations;
    }

    fn observe(
        &mut self,
        id: SubscriptionId,
        address: &str,
        reliability: Reliability,
    ) -> Asked<thalweg_coap::RequestId> {
        let keeps_all = reliability != Reliability::AtMostOnce && !self.settings().is_plain();
        let (queue, qos) = (self.settings().queue, u8::from(keeps_all));
        let queries = [format_args!("queue={queue}"), format_args!("qos={qos}")];
        let wanted = match keeps_all {
            true => &queries[..],
            false => &queries[1..],
        };
        let options = self.wording.get(address, wanted)?;
        let (options, purpose) = (options.as_slice(), Purpose::Observe(id));
        let request = self.requests.get(options, purpose, &self.conn)?;
        if keeps_all {
            self.requests.side.keep_all(request);
        }
        Ok(request)
    }

    fn ask_whether_there(&mut self) {
        if self.ping.is_none() {
            let now = self.conn.now();
            let Requests { side, scratch, .. } = &mut self.requests;
            let ping = side.ping(self.conn.peer(), now, scratch);
            self.ping = ping.ok().map(|ping| (ping, now));
        }
    }
}

impl Plugin for Coap {
    const PROTOCOL: &'static str = "coap";
    type Scratch = ();

    has_connection!();

    fn offers(&self) -> Capabilities {
        Capabilities {
            keeps_order: false,
            publishes_in_order: self.requests.keeps_order,
            payload_bytes_max: BODY_BYTES_MAX,
            ..super::offers(&self.wording)
        }
    }

    fn connect(&mut self, _: &Opening, _: &mut Vec<u8>) -> Step {
        // It asks for signs of life in its own way.
        self.conn.liveness().set_keep_alive(Span::ZERO);
        self.heard = self.conn.now();
        // A fresh machine has room for one request.
        let _ = self
            .requests
            .get(&wording::hello(), Purpose::Hello, &self.conn);
        Ok(())
    }

    fn step(&mut self, input: &[u8], _: &mut (), cx: &mut Cx<'_>) -> Step<Option<usize>> {
        if input.is_empty() {
            return Ok(None);
        }
        let now = self.conn.now();
        (self.heard, self.unheard) = (now, 0);
        let mut scratch = std::mem::take(&mut self.requests.scratch);
        let side = &mut self.requests.side;
        let event = side.handle_datagram(self.conn.peer(), input, now, &mut scratch);
        self.requests.scratch = scratch;
        if let Some(event) = event {
            self.on_event(event, cx.events);
        }
        self.finish(cx)?;
        Ok(Some(input.len()))
    }

    fn next_timeout(&self) -> Time {
        let is_paused = self.conn.was_full() && self.pause_until > Time::ZERO;
        let pause = Some(self.pause_until).filter(|_| is_paused);
        let retry = self.observations.next_retry();
        let due = self.requests.side.poll_timeout().min(retry);
        due.min(pause.unwrap_or(Time::NEVER))
    }

    fn on_timeout(&mut self, cx: &mut Cx<'_>) -> Step {
        let now = self.conn.now();
        if self.pause_until <= now {
            self.pause_until = Time::ZERO;
        }
        let Requests { side, scratch, .. } = &mut self.requests;
        side.handle_timeout(now, scratch);
        self.finish(cx)
    }

    fn has_room(&self) -> bool {
        self.in_flight < self.window.size()
            && self.pause_until <= self.conn.now()
            && self.requests.side.unanswered(self.conn.peer()) < UNANSWERED_MAX / 2
    }

    fn send(&mut self, message: &Outbound<'_>, out: &mut Vec<u8>) -> Asked<Departure> {
        let sent_at = self.conn.now();
        if self.pause_until > sent_at {
            return Err(Refusal::Window);
        }
        let (topic, bytes) = (self.topic(message.address), message.payload.len());
        let unawaited = Purpose::Unawaited { topic, bytes };
        let (id, is_unanswered) = (message.id, message.reliability == Reliability::AtMostOnce);
        let publish = Purpose::Publish {
            id,
            sent_at,
            topic,
            bytes,
        };
        match is_unanswered {
            true => self.tell(message, unawaited, out),
            false => self.put(message, publish),
        }
    }

    fn give_up(&mut self, id: MessageId) {
        let is_it = |purpose: &Purpose| matches!(purpose, Purpose::Publish { id: known, .. } if *known == id);
        let mut asked = self.requests.asked.iter();
        let Some((&request, &purpose)) = asked.find(|(_, purpose)| is_it(purpose)) else {
            return;
        };
        self.has_ended(request, purpose);
        // Nothing is written by that but what waited behind it, which the next call sends.
        self.requests.cancel(request, Cancel::Forget, self.heard);
    }

    fn begin_subscription(&mut self, wish: &SubscribeWish<'_>, _: &mut Vec<u8>) -> Asked {
        if let Some(refusal) = super::unobservable(wish.filter, self.wording.stamps) {
            return Err(refusal);
        }
        self.end_observation(wish.subscription);
        let request = self.observe(wish.subscription, wish.filter, wish.reliability)?;
        self.observations.add(wish, request);
        Ok(())
    }

    fn end_subscription(&mut self, id: SubscriptionId, _: &mut Vec<u8>) {
        match self.observations.get_mut(id) {
            Some(one)
                if one
                    .request
                    .is_some_and(|it| self.requests.side.is_gathering(it)) =>
            {
                one.is_leaving = true;
            }
            _ => self.end_observation(id),
        }
    }

    fn ask(&mut self, id: RequestId, message: &Outbound<'_>, _: &mut Vec<u8>) -> Asked {
        let (code, options) = self.wording.question(message)?;
        let (said, purpose) = ((code, options.as_slice()), Purpose::Question(id));
        let request = self
            .requests
            .ask(said, message.payload, purpose, &self.conn);
        request.map(drop)
    }

    fn ask_value(&mut self, id: RequestId, address: &str, _: &mut Vec<u8>) -> Asked {
        let options = self.wording.get(address, &[])?;
        let (options, purpose) = (options.as_slice(), Purpose::Read(id));
        self.requests.get(options, purpose, &self.conn).map(drop)
    }

    fn drop_question(&mut self, id: RequestId) {
        // Later responses are acknowledged by the protocol machine and not reported.
        self.requests.asked.retain(
            |_, purpose| !matches!(purpose, Purpose::Question(asked) | Purpose::Read(asked) if *asked == id),
        );
    }

    fn ping(&mut self, _: &mut Vec<u8>) {
        // A reply to the question would claim that no more messages of ended observations come.
        if !self.observations.are_any_leaving() {
            self.ask_whether_there();
        }
    }

    fn say_goodbye(&mut self, _: &mut Vec<u8>) {
        let now = self.conn.now();
        for observation in self.observations.drain() {
            if let Some(request) = observation.request {
                self.requests.cancel(request, Cancel::Deregister, now);
            }
        }
    }

    fn reset(&mut self) {
        self.before = self.counts();
        let settings = self.wording.settings();
        self.requests.side = machine(self.conn.endpoint(), settings);
        self.window = Congestion::new(settings.nstart);
        self.requests.asked.clear();
        self.requests.last.clear();
        self.requests.scratch.clear();
        self.observations = Observations::default();
        (self.in_flight, self.bytes, self.ping) = (0, 0, None);
        (self.unheard, self.wants_ping) = (0, false);
        self.pause_until = Time::ZERO;
    }

    #[inline]
    fn flush(&mut self, out: &mut Output) {
        out.end_datagram();
        for (_, bytes) in self.requests.scratch.iter() {
            out.bytes.extend_from_slice(bytes);
            out.end_datagram();
        }
        self.requests.scratch.clear();
    }

    fn counts(&self) -> Counters {
        let side = &self.requests.side;
        Counters {
            confirmable: self.before.confirmable + side.confirmable(),
            retransmissions: self.before.retransmissions + side.retransmissions(),
        }
    }
}

fn answer<'a>(response: &'a ResponseIn<'_>) -> Answer<'a> {
    Answer {
        code: response.code,
        options: &response.options,
        payload: &response.payload,
    }
}

fn nobody() -> LinkFault {
    LinkFault::temporary("nobody answers at this address")
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
