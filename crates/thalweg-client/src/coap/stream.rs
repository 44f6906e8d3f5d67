//! CoAP over TCP, TLS and WebSocket: [`CoapStream`]. RFC 8323
//!
//! The transport repeats and keeps order, so many publishes may be under way, and each is answered under its token.

use std::net::SocketAddr;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use thalweg_coap::stream::{ClientEvent, ClientSide, NotSent, StreamMessage, StreamSettings};
use thalweg_coap::{Code, Encoder, Observe, OptionOut, Token, Value, option};
use thalweg_model::{Reliability, STAMPS_ANNOUNCEMENT, Span, Time};

use super::CoapSettings;
use super::observations::{End, Observation};
use super::words::{self, OptionList, Resource, StampBytes, Wording};
use crate::liveness::Liveness;
use crate::message::Retain;
use crate::transport::{
    Capabilities, Counters, DeliveryId, Departure, Endpoint, Events, LinkFault, MessageId, Opening,
    Outbound, Output, Refusal, RequestId, SubscribeWish, SubscriptionId, Transport, Welcome,
};

/// A lane that speaks CoAP over a stream.
#[derive(Debug)]
pub struct CoapStream {
    endpoint: Endpoint,
    settings: CoapSettings,
    side: ClientSide,
    state: State,
    stamps: bool,
    asked: HashMap<Token, Asked, FixedState>,
    observations: Vec<Observation<Token>>,
    in_flight: usize,
    was_full: bool,
    pause_until: Time,
    liveness: Liveness,
    wording: Wording,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Closed,
    Asking,
    Up,
}

/// A request that waits for its response.
#[derive(Clone, Copy, Debug)]
struct Asked {
    purpose: Purpose,
    sent_at: Time,
    /// An observation's first response has come.
    has_state: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Hello,
    Publish(MessageId),
    Observe(SubscriptionId),
    Question(RequestId),
    Read(RequestId),
}

/// Publishes under way at a time.
const WINDOW: usize = 1024;

impl CoapStream {
    /// A lane to this endpoint, not connected yet.
    pub fn new(endpoint: Endpoint, settings: CoapSettings) -> Self {
        let side = machine(&settings);
        CoapStream {
            endpoint,
            settings,
            side,
            state: State::Closed,
            stamps: false,
            asked: HashMap::with_hasher(FixedState::default()),
            observations: Vec::new(),
            in_flight: 0,
            was_full: false,
            pause_until: Time::ZERO,
            liveness: Liveness::default(),
            wording: Wording::default(),
        }
    }

    /// The settings in force.
    pub fn settings(&self) -> &CoapSettings {
        &self.settings
    }

    fn ask(
        &mut self,
        code: Code,
        options: &[OptionOut<'_>],
        payload: &[u8],
        purpose: Purpose,
        now: Time,
        out: &mut Output,
    ) -> Result<Token, Refusal> {
        let observes = matches!(purpose, Purpose::Observe(_));
        let write = |encoder: &mut Encoder<'_>| {
            if observes {
                encoder.uint(option::OBSERVE, Observe::Register.encode());
            }
            put(options, encoder);
        };
        let token = self
            .side
            .request(code, observes, write, payload, &mut out.bytes)
            .map_err(not_sent)?;
        self.asked.insert(
            token,
            Asked {
                purpose,
                sent_at: now,
                has_state: false,
            },
        );
        self.liveness.sent(now);
        Ok(token)
    }

    fn observe(
        &mut self,
        subscription: SubscriptionId,
        address: &str,
        reliability: Reliability,
        now: Time,
        out: &mut Output,
    ) -> Result<Token, Refusal> {
        let mut wording = std::mem::take(&mut self.wording);
        let queue = self.settings.queue;
        let queries = [format_args!("queue={queue}"), format_args!("qos=1")];
        let wanted = if reliability == Reliability::AtMostOnce {
            &[][..]
        } else {
            &queries[..]
        };
        let settings = self.settings.clone();
        let token = wording.get(address, wanted, &settings).and_then(|options| {
            self.ask(
                Code::GET,
                options.as_slice(),
                &[],
                Purpose::Observe(subscription),
                now,
                out,
            )
        });
        self.wording = wording;
        token
    }

    fn on_event(
        &mut self,
        event: ClientEvent<'_>,
        now: Time,
        out: &mut Output,
        events: &mut dyn Events,
    ) -> Result<(), LinkFault> {
        match event {
            ClientEvent::Csm(_) | ClientEvent::Ignored => {}
            ClientEvent::Response { message, is_last } => {
                self.on_response(&message, is_last, now, events)
            }
            // We are no server. RFC 7252 §5.9.3.2
            ClientEvent::Request(message) => {
                let _ = self.side.respond(
                    message.token,
                    Code::NOT_IMPLEMENTED,
                    |_| {},
                    &[],
                    &mut out.bytes,
                );
            }
            ClientEvent::Ping { token, custody } => self.side.pong(token, custody, &mut out.bytes),
            ClientEvent::Pong { .. } => {
                if let Some(at) = self.liveness.answered() {
                    events.round_trip(now.since(at));
                }
            }
            ClientEvent::Release(_) => {
                let words = "the server wants the connection to end".to_owned();
                return Err(LinkFault {
                    words,
                    is_final: false,
                });
            }
            ClientEvent::Abort(abort) => {
                let words = String::from_utf8_lossy(abort.diagnostic);
                return Err(LinkFault {
                    words: format!("the server ends the connection: {words}"),
                    is_final: false,
                });
            }
        }
        Ok(())
    }

    fn on_response(
        &mut self,
        message: &StreamMessage<'_>,
        is_last: bool,
        now: Time,
        events: &mut dyn Events,
    ) {
        let StreamMessage {
            code,
            token,
            options,
            payload,
        } = *message;
        let Some(asked) = self.asked.get_mut(&token) else {
            return;
        };
        let Asked {
            purpose,
            sent_at,
            has_state,
        } = *asked;
        asked.has_state = true;
        if is_last {
            self.asked.remove(&token);
        }
        if let Some(pause) = words::pause(code, &options) {
            self.pause_until = self.pause_until.max(now + pause);
            self.was_full = true;
            events.pressed();
        }
        match purpose {
            Purpose::Hello => {
                self.stamps = words::announces(STAMPS_ANNOUNCEMENT, code, payload);
                events.round_trip(now.since(sent_at));
                self.state = State::Up;
                events.up(&Welcome::default());
            }
            Purpose::Publish(id) => {
                self.in_flight = self.in_flight.saturating_sub(1);
                events.round_trip(now.since(sent_at));
                events.settled(id, words::outcome(code, &options, payload));
            }
            Purpose::Observe(subscription) => {
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
                let reliability = found.reliability.min(Reliability::AtLeastOnce);
                if !is_last {
                    found.notified(!has_state, reliability, &options, payload, events);
                } else if found.ended(Some((code, &options, payload)), now, events) == End::Over {
                    self.observations.swap_remove(at);
                }
            }
            Purpose::Question(request) => words::answer(request, code, &options, payload, events),
            Purpose::Read(request) => words::value(request, code, &options, payload, events),
        }
    }

    fn make_room(&mut self, now: Time, events: &mut dyn Events) {
        if self.was_full
            && self.in_flight < WINDOW
            && self.pause_until <= now
            && self.state == State::Up
        {
            self.was_full = false;
            events.room();
        }
    }

    /// Registers observations again that have ended and are due.
    fn register_due(&mut self, now: Time, out: &mut Output) {
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
            let token = self.observe(subscription, &address, reliability, now, out);
            if let Some(found) = self.observations.get_mut(at) {
                found.address = address;
                match token {
                    Ok(token) => found.request = Some(token),
                    Err(_) => found.retry_at = now + Span::from_secs(1),
                }
            }
        }
    }

    fn may_ask(&self) -> Result<(), Refusal> {
        if self.state == State::Up {
            Ok(())
        } else {
            Err(Refusal::NotConnected)
        }
    }
}

impl Transport for CoapStream {
    fn protocol(&self) -> &'static str {
        "coap"
    }

    fn capabilities(&self) -> Capabilities {
        let is_ours = !self.settings.is_plain();
        let message_bytes_max = self.side.peer().message_bytes_max as usize;
        Capabilities {
            receive_max: if is_ours {
                Reliability::AtLeastOnce
            } else {
                Reliability::AtMostOnce
            },
            stamps: self.stamps,
            carries_stamps: self.stamps,
            keeps_all: self.stamps && is_ours,
            properties: is_ours,
            lifespan: is_ours,
            priority: is_ours,
            // Room for the path and other options.
            payload_bytes_max: message_bytes_max.saturating_sub(512),
            ..super::CAPABILITIES
        }
    }

    fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    fn open(&mut self, opening: &Opening, _peer: SocketAddr, now: Time, out: &mut Output) {
        self.closed();
        self.state = State::Asking;
        self.liveness = Liveness::begin(opening.keep_alive, now);
        self.side.open(&mut out.bytes);
        // It is smaller than what every server takes. §5.3.1
        let _ = self.ask(Code::GET, &words::hello(), &[], Purpose::Hello, now, out);
    }

    fn handle_input(
        &mut self,
        input: &[u8],
        now: Time,
        out: &mut Output,
        events: &mut dyn Events,
    ) -> Result<usize, LinkFault> {
        let mut consumed = 0;
        loop {
            match self
                .side
                .handle_input(input.get(consumed..).unwrap_or_default())
            {
                Ok(None) => break,
                Ok(Some((bytes, event))) => {
                    consumed += bytes;
                    self.liveness.heard(now);
                    self.on_event(event, now, out, events)?;
                }
                Err(fault) => {
                    self.side.fault(&fault, &mut out.bytes);
                    return Err(LinkFault {
                        words: fault.to_string(),
                        is_final: false,
                    });
                }
            }
        }
        self.register_due(now, out);
        self.make_room(now, events);
        Ok(consumed)
    }

    fn poll_timeout(&self) -> Time {
        match self.state {
            // How long the first answer may take is the engine's affair.
            State::Closed | State::Asking => Time::NEVER,
            State::Up => {
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
                self.liveness.due().min(retry).min(pause)
            }
        }
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
        if self.state == State::Up
            && self
                .liveness
                .check("the server has not answered Ping", now)?
        {
            self.probe(now, out);
        }
        self.register_due(now, out);
        self.make_room(now, events);
        Ok(())
    }

    fn publish(
        &mut self,
        message: &Outbound<'_>,
        now: Time,
        out: &mut Output,
    ) -> Result<Departure, Refusal> {
        self.may_ask()?;
        let is_unanswered = message.reliability == Reliability::AtMostOnce;
        if message.reliability == Reliability::ExactlyOnce {
            return Err(Refusal::Unsupported("CoAP knows no exactly once"));
        }
        if self.pause_until > now || (!is_unanswered && self.in_flight >= WINDOW) {
            self.was_full = true;
            return Err(Refusal::Window);
        }
        let stamp = message.stamp.filter(|_| self.stamps).map(StampBytes::new);
        let payload = if message.retain == Retain::Clear {
            &[][..]
        } else {
            message.payload
        };
        let mut wording = std::mem::take(&mut self.wording);
        let said = wording.publish(
            message,
            Resource::Data,
            is_unanswered,
            true,
            &stamp,
            &self.settings,
        );
        let result = said.and_then(|(code, options): (Code, OptionList<'_>)| {
            let options = options.as_slice();
            if is_unanswered {
                self.liveness.sent(now);
                let write = |encoder: &mut Encoder<'_>| put(options, encoder);
                self.side
                    .tell(code, write, payload, &mut out.bytes)
                    .map_err(not_sent)?;
                return Ok(Departure::Gone);
            }
            self.ask(
                code,
                options,
                payload,
                Purpose::Publish(message.id),
                now,
                out,
            )?;
            self.in_flight += 1;
            Ok(Departure::Awaited)
        });
        self.wording = wording;
        self.was_full |= result == Err(Refusal::Window);
        result
    }

    fn subscribe(
        &mut self,
        wish: &SubscribeWish<'_>,
        now: Time,
        out: &mut Output,
    ) -> Result<(), Refusal> {
        self.may_ask()?;
        if let Some(refusal) = super::unobservable(wish.filter, self.stamps) {
            return Err(refusal);
        }
        self.unsubscribe(wish.subscription, now, out);
        let token = self.observe(wish.subscription, wish.filter, wish.reliability, now, out)?;
        let (name, last_values) = (wish.subscription, wish.last_values);
        self.observations.push(Observation::new(
            name,
            wish.filter,
            wish.reliability,
            last_values,
            token,
        ));
        Ok(())
    }

    fn unsubscribe(&mut self, subscription: SubscriptionId, now: Time, out: &mut Output) {
        let Some(at) = self
            .observations
            .iter()
            .position(|one| one.subscription == subscription)
        else {
            return;
        };
        let gone = self.observations.swap_remove(at);
        let Some(token) = gone.request else { return };
        self.asked.remove(&token);
        self.side.forget(token);
        let mut wording = std::mem::take(&mut self.wording);
        if let Ok(options) = wording.get(&gone.address, &[], &self.settings) {
            let write = |encoder: &mut Encoder<'_>| {
                encoder.uint(option::OBSERVE, Observe::Deregister.encode());
                put(options.as_slice(), encoder);
            };
            // The answer is one more that nobody waits for.
            let _ = self
                .side
                .request_again(token, Code::GET, write, &[], &mut out.bytes);
            self.liveness.sent(now);
        }
        self.wording = wording;
    }

    fn settle(&mut self, _delivery: DeliveryId, _now: Time, _out: &mut Output) {
        // What has come over a stream has come.
    }

    fn request(
        &mut self,
        request: RequestId,
        message: &Outbound<'_>,
        now: Time,
        out: &mut Output,
    ) -> Result<(), Refusal> {
        self.may_ask()?;
        let stamp = message.stamp.filter(|_| self.stamps).map(StampBytes::new);
        let question = Outbound {
            reliability: Reliability::AtLeastOnce,
            retain: Retain::No,
            ..*message
        };
        let mut wording = std::mem::take(&mut self.wording);
        let said = wording.publish(
            &question,
            Resource::Rpc,
            false,
            false,
            &stamp,
            &self.settings,
        );
        let result = said.and_then(|(code, options)| {
            self.ask(
                code,
                options.as_slice(),
                message.payload,
                Purpose::Question(request),
                now,
                out,
            )
        });
        self.wording = wording;
        result.map(|_| ())
    }

    fn read(
        &mut self,
        request: RequestId,
        address: &str,
        now: Time,
        out: &mut Output,
    ) -> Result<(), Refusal> {
        self.may_ask()?;
        let mut wording = std::mem::take(&mut self.wording);
        let result = wording.get(address, &[], &self.settings).map(|options| {
            self.ask(
                Code::GET,
                options.as_slice(),
                &[],
                Purpose::Read(request),
                now,
                out,
            )
        });
        self.wording = wording;
        result?.map(|_| ())
    }

    fn forget(&mut self, request: RequestId) {
        let is_it = |purpose: &Purpose| matches!(purpose, Purpose::Question(asked) | Purpose::Read(asked) if *asked == request);
        if let Some(token) = self
            .asked
            .iter()
            .find(|(_, asked)| is_it(&asked.purpose))
            .map(|(token, _)| *token)
        {
            // What still comes is ignored.
            self.asked.remove(&token);
            self.side.forget(token);
        }
    }

    fn probe(&mut self, now: Time, out: &mut Output) -> usize {
        if self.state != State::Up || self.liveness.is_asking() {
            return 0;
        }
        let before = out.bytes.len();
        self.side.ping(Token::EMPTY, false, &mut out.bytes);
        self.liveness.asked(now);
        out.bytes.len() - before
    }

    fn close(&mut self, _now: Time, out: &mut Output) {
        if self.state != State::Closed {
            self.side.release(&mut out.bytes);
        }
    }

    fn closed(&mut self) {
        self.side = machine(&self.settings);
        self.state = State::Closed;
        self.asked.clear();
        self.observations.clear();
        (self.in_flight, self.was_full) = (0, false);
        self.pause_until = Time::ZERO;
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }
}

fn machine(settings: &CoapSettings) -> ClientSide {
    let message_bytes_max =
        u32::try_from(settings.body_bytes_max.saturating_add(1024)).unwrap_or(u32::MAX);
    // Without blocks a server sends what there is as one message, or says that it is too large.
    ClientSide::new(StreamSettings {
        message_bytes_max,
        blockwise: false,
    })
}

fn put(options: &[OptionOut<'_>], encoder: &mut Encoder<'_>) {
    for (number, value) in options {
        match *value {
            Value::Uint(value) => encoder.uint(*number, value),
            Value::Opaque(value) => encoder.option(*number, value),
        };
    }
}

fn not_sent(why: NotSent) -> Refusal {
    match why {
        NotSent::TooLarge { message_bytes_max } => Refusal::TooLarge {
            limit: (message_bytes_max as usize).saturating_sub(512),
        },
        NotSent::TooManyRequests => Refusal::Window,
        NotSent::Closed => Refusal::NotConnected,
    }
}
