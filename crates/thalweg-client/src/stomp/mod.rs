//! STOMP 1.2 as a lane: [`Stomp`].
//!
//! What `thalweg-stomp` leaves to its users is here: which publish a receipt belongs to, whose fault an ERROR is, heart-beats,
//! and how our words are said in destinations and headers. Start reading at the implementation of `Transport`.

mod deliveries;
mod destination;
mod headers;
mod settings;
mod subscriptions;
#[cfg(test)]
mod tests;

use std::io::Write as _;
use std::net::SocketAddr;

use thalweg_model::{Reliability, STAMPS_ANNOUNCEMENT, Span, Time};
use thalweg_stomp::{
    AckMode, AckOut, ClientEvent, ClientSide, ConnectOut, ConnectedFrame, ErrorFrame, FrameLimits,
    MessageFrame, SendOut, SubscribeOut, Version, heart_beats,
};

use self::deliveries::Deliveries;
use self::destination::Idiom;
use self::headers::{Question, Scratch};
pub use self::settings::StompSettings;
use self::subscriptions::{Common, Subscriptions};
use crate::liveness::Beats;
use crate::presence;
use crate::queues::session_prefix;
use crate::transport::{
    Capabilities, Counters, DeliveryId, Departure, Endpoint, Events, Inbound, LinkFault, Opening,
    Outbound, Output, Properties, Refusal, RequestId, Settled, SubscribeWish, SubscriptionId,
    Transport, Welcome,
};
use crate::unconfirmed::{Blame, Unconfirmed};

/// Where answers come: a queue of the connection's own, and the name of the subscription to it.
const ANSWERS: &str = "/temp-queue/answers";
/// The transaction, and the receipt, of a probe.
const PROBE: &str = "p";
/// How many of its intervals a peer may be silent.
const PATIENCE: u64 = 3;

/// A lane that speaks STOMP 1.2.
pub struct Stomp {
    endpoint: Endpoint,
    settings: StompSettings,
    machine: ClientSide,
    is_up: bool,
    idiom: Idiom,
    stamps: bool,
    /// The peer has said what it is.
    is_known: bool,
    common: Common,
    beats: Beats,
    opened: Time,
    /// How often we like to hear something, in milliseconds.
    keep_alive: u32,
    /// Publishes that wait for their receipts, which are their numbers.
    unconfirmed: Unconfirmed,
    /// The last connection ended with an ERROR for one of several things: on this one they are done one at a time.
    is_careful: bool,
    was_ambiguous: bool,
    /// Something was sent without a receipt behind this number of receipts, and may be at fault, too.
    loose_since: Option<u64>,
    subscriptions: Subscriptions,
    deliveries: Deliveries,
    questions: Vec<RequestId>,
    /// Last values that were asked for.
    reads: Vec<RequestId>,
    /// When a probe left that is not answered yet.
    probed: Option<Time>,
    target: Target,
    origin: Origin,
    scratch: Scratch,
    /// A reply address on its way in or out.
    reply_to: String,
}

/// Where the last message went.
#[derive(Debug, Default)]
struct Target {
    address: String,
    destination: String,
}

/// Where the last message came from.
#[derive(Debug, Default)]
struct Origin {
    destination: String,
    address: String,
}

impl Stomp {
    /// A lane that has not connected yet.
    pub fn new(endpoint: Endpoint, settings: StompSettings) -> Self {
        let machine = new_machine(&settings);
        let unconfirmed = Unconfirmed::new(settings.unconfirmed_max);
        let idiom = Idiom {
            dialect: settings.dialect,
            is_thalweg: false,
        };
        Stomp {
            endpoint,
            settings,
            machine,
            is_up: false,
            idiom,
            stamps: false,
            is_known: false,
            common: Common::default(),
            beats: Beats::default(),
            opened: Time::ZERO,
            keep_alive: 0,
            unconfirmed,
            is_careful: false,
            was_ambiguous: false,
            loose_since: None,
            subscriptions: Subscriptions::default(),
            deliveries: Deliveries::default(),
            questions: Vec::new(),
            reads: Vec::new(),
            probed: None,
            target: Target::default(),
            origin: Origin::default(),
            scratch: Scratch::default(),
            reply_to: String::new(),
        }
    }
}

fn new_machine(settings: &StompSettings) -> ClientSide {
    let body_bytes_max = u32::try_from(settings.payload_bytes_max).unwrap_or(u32::MAX);
    ClientSide::new(FrameLimits {
        body_bytes_max,
        ..FrameLimits::default()
    })
}

impl Transport for Stomp {
    fn protocol(&self) -> &'static str {
        "stomp"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            stamps: self.stamps,
            requests: true,
            last_values: self.idiom.is_thalweg || !self.is_known,
            payload_bytes_max: self.settings.payload_bytes_max,
            ..crate::queues::CAPABILITIES
        }
    }

    fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    fn open(&mut self, opening: &Opening, _peer: SocketAddr, now: Time, out: &mut Output) {
        self.closed();
        self.machine = new_machine(&self.settings);
        self.is_careful = std::mem::take(&mut self.was_ambiguous);
        self.common = Common {
            prefetch: self.settings.prefetch.max(1),
            prefix: match opening.client_id.as_str() {
                "" => String::new(),
                client => session_prefix(self.protocol(), &self.endpoint, client),
            },
            session: opening.session,
            is_careful: self.is_careful,
        };
        let keep_alive = u32::try_from(opening.keep_alive.millis()).unwrap_or(u32::MAX);
        self.beats = Beats::begin(now);
        (self.opened, self.keep_alive) = (now, keep_alive);
        // Who was told nothing is `guest`, as everywhere.
        let password = opening.password.as_deref().map(String::from_utf8_lossy);
        let credentials = match (&opening.user, &password) {
            (None, None) => (Some("guest"), Some("guest")),
            (user, password) => (user.as_deref(), password.as_deref()),
        };
        let client = [("client-id", opening.client_id.as_str())];
        let host = if self.settings.vhost.is_empty() {
            &self.endpoint.host
        } else {
            &self.settings.vhost
        };
        let connect = ConnectOut {
            lowest: Version::V12,
            highest: Version::V12,
            host,
            login: credentials.0,
            passcode: credentials.1,
            heart_beat: (keep_alive, keep_alive),
            headers: if opening.client_id.is_empty() {
                &[]
            } else {
                &client
            },
        };
        self.machine.connect(&connect, &mut out.bytes);
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
            let rest = input.get(consumed..).unwrap_or_default();
            match self.machine.handle_input(rest) {
                Ok(Some((len, event))) => {
                    self.beats.heard(now);
                    consumed += len;
                    self.on_event(event, now, out, events)?;
                }
                Ok(None) => break,
                Err(fault) => {
                    return Err(LinkFault {
                        words: fault.to_string(),
                        is_final: false,
                    });
                }
            }
        }
        self.subscriptions.pump(
            self.unconfirmed.len(),
            &self.common,
            &self.machine,
            &mut out.bytes,
        );
        let may_publish = self.is_up && !(self.is_careful && self.subscriptions.are_any_asked());
        if may_publish && self.unconfirmed.has_room_again() {
            events.room();
        }
        Ok(consumed)
    }

    fn poll_timeout(&self) -> Time {
        // How long the handshake may take is the engine's affair.
        match self.is_up {
            true => self.beats.due(),
            false => Time::NEVER,
        }
    }

    fn handle_timeout(
        &mut self,
        now: Time,
        out: &mut Output,
        _events: &mut dyn Events,
    ) -> Result<(), LinkFault> {
        if self.is_up && self.beats.check(now)? {
            self.machine.heart_beat(&mut out.bytes);
            self.beats.said(now);
        }
        Ok(())
    }

    #[inline]
    fn publish(
        &mut self,
        message: &Outbound<'_>,
        now: Time,
        out: &mut Output,
    ) -> Result<Departure, Refusal> {
        if message.reliability == Reliability::ExactlyOnce {
            return Err(Refusal::Unsupported(
                "STOMP delivers exactly once only where the broker knows stamps",
            ));
        }
        self.check_room(message)?;
        if message.reliability == Reliability::AtLeastOnce {
            self.send(message, None, true, now, out)?;
            self.unconfirmed.push(message.id);
            return Ok(Departure::Awaited);
        }
        // While a culprit is looked for, it must be known of everything whether it was the culprit.
        if self.unconfirmed.is_careful() {
            self.send(message, None, true, now, out)?;
            self.unconfirmed.push_anonymous();
        } else {
            self.send(message, None, false, now, out)?;
            self.loose_since = Some(self.unconfirmed.next_number());
        }
        Ok(Departure::Gone)
    }

    fn subscribe(
        &mut self,
        wish: &SubscribeWish<'_>,
        now: Time,
        out: &mut Output,
    ) -> Result<(), Refusal> {
        if !self.is_up {
            return Err(Refusal::NotConnected);
        }
        if let Some(refusal) = presence::refusal(wish.filter, self.stamps) {
            return Err(refusal);
        }
        self.beats.said(now);
        self.subscriptions.begin(wish, self.idiom, &self.common)?;
        self.subscriptions.pump(
            self.unconfirmed.len(),
            &self.common,
            &self.machine,
            &mut out.bytes,
        );
        Ok(())
    }

    fn unsubscribe(&mut self, subscription: SubscriptionId, now: Time, out: &mut Output) {
        self.beats.said(now);
        self.subscriptions
            .end(subscription, &self.machine, &mut out.bytes);
    }

    #[inline]
    fn settle(&mut self, delivery: DeliveryId, now: Time, out: &mut Output) {
        if let Some(ack) = self.deliveries.take(delivery) {
            self.machine.ack(
                &AckOut {
                    ack,
                    ..AckOut::default()
                },
                &mut out.bytes,
            );
            self.beats.said(now);
        }
    }

    fn request(
        &mut self,
        request: RequestId,
        message: &Outbound<'_>,
        now: Time,
        out: &mut Output,
    ) -> Result<(), Refusal> {
        self.check_room(message)?;
        let correlation = format!("{:x}", request.0);
        let question = Question {
            reply_to: ANSWERS,
            correlation: correlation.as_bytes(),
        };
        self.send(message, Some(question), false, now, out)?;
        self.loose_since = Some(self.unconfirmed.next_number());
        self.questions.push(request);
        Ok(())
    }

    fn read(
        &mut self,
        request: RequestId,
        address: &str,
        now: Time,
        out: &mut Output,
    ) -> Result<(), Refusal> {
        if !self.is_up {
            return Err(Refusal::NotConnected);
        }
        if !self.idiom.is_thalweg {
            return Err(Refusal::Unsupported("the broker keeps no last values"));
        }
        if self.is_careful && (self.unconfirmed.len() > 0 || self.subscriptions.are_any_asked()) {
            return Err(Refusal::Window);
        }
        let mut destination = String::new();
        self.idiom.write(address, &mut destination)?;
        if !destination.starts_with("/topic/") {
            return Err(Refusal::Unsupported(
                "queues and exchanges have no last values",
            ));
        }
        let name = read_name(request);
        let subscribe = SubscribeOut {
            id: Some(&name),
            destination: &destination,
            ack: AckMode::Auto,
            receipt: Some(&name),
            headers: &[("x-last-value", "only")],
        };
        self.machine.subscribe(&subscribe, &mut out.bytes);
        self.reads.push(request);
        self.beats.said(now);
        Ok(())
    }

    fn forget(&mut self, request: RequestId) {
        self.questions.retain(|waiting| *waiting != request);
        self.reads.retain(|waiting| *waiting != request);
    }

    fn probe(&mut self, now: Time, out: &mut Output) -> usize {
        if !self.is_up || self.probed.is_some() {
            return 0;
        }
        // A transaction of nothing.
        let before = out.bytes.len();
        self.machine.begin(PROBE, None, &mut out.bytes);
        self.machine.abort(PROBE, Some(PROBE), &mut out.bytes);
        self.probed = Some(now);
        self.beats.said(now);
        out.bytes.len() - before
    }

    fn close(&mut self, _now: Time, out: &mut Output) {
        self.machine.disconnect(None, &mut out.bytes);
    }

    fn closed(&mut self) {
        self.is_up = false;
        self.unconfirmed.restart(1);
        self.loose_since = None;
        self.subscriptions.clear();
        self.deliveries.clear();
        self.questions.clear();
        self.reads.clear();
        self.probed = None;
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }
}

fn half(span: Span) -> Span {
    Span::from_nanos(span.nanos() / 2)
}

fn patience(span: Span) -> Span {
    Span::from_nanos(span.nanos().saturating_mul(PATIENCE))
}

impl Stomp {
    #[inline]
    fn check_room(&mut self, message: &Outbound<'_>) -> Result<(), Refusal> {
        if !self.is_up {
            return Err(Refusal::NotConnected);
        }
        if message.payload.len() > self.settings.payload_bytes_max {
            return Err(Refusal::TooLarge {
                limit: self.settings.payload_bytes_max,
            });
        }
        headers::check(message)?;
        if self.is_careful && self.subscriptions.are_any_asked() {
            self.unconfirmed.hold();
            return Err(Refusal::Window);
        }
        let is_counted =
            message.reliability != Reliability::AtMostOnce || self.unconfirmed.is_careful();
        if is_counted && !self.unconfirmed.has_room() {
            return Err(Refusal::Window);
        }
        Ok(())
    }

    #[inline]
    fn send(
        &mut self,
        message: &Outbound<'_>,
        question: Option<Question<'_>>,
        has_receipt: bool,
        now: Time,
        out: &mut Output,
    ) -> Result<(), Refusal> {
        // No address is empty; without one nothing is remembered.
        if self.target.address != message.address || message.address.is_empty() {
            self.aim(message.address)?;
        }
        self.reply_to.clear();
        match (question, message.reply_to) {
            (Some(question), _) => self.reply_to.push_str(question.reply_to),
            (None, Some(address)) => self.idiom.write(address, &mut self.reply_to)?,
            (None, None) => {}
        }
        let correlation = question
            .map(|question| question.correlation)
            .or(message.correlation);
        let mut buffer = [0; 20];
        let send = SendOut {
            destination: &self.target.destination,
            transaction: None,
            receipt: has_receipt.then(|| digits(self.unconfirmed.next_number(), &mut buffer)),
            content_type: message.content_type,
            body: message.payload,
        };
        let reply_to = &self.reply_to;
        self.machine.send(
            &send,
            |w| headers::write(message, reply_to, correlation, w),
            &mut out.bytes,
        );
        self.beats.said(now);
        Ok(())
    }

    fn aim(&mut self, address: &str) -> Result<(), Refusal> {
        self.target.address.clear();
        self.target.destination.clear();
        self.idiom.write(address, &mut self.target.destination)?;
        self.target.address.push_str(address);
        Ok(())
    }

    fn on_event(
        &mut self,
        event: ClientEvent<'_>,
        now: Time,
        out: &mut Output,
        events: &mut dyn Events,
    ) -> Result<(), LinkFault> {
        match event {
            ClientEvent::Message(message) => self.on_message(&message, out, events),
            ClientEvent::Receipt(id) => self.on_receipt(&id, now, events),
            ClientEvent::Connected(connected) => self.on_connected(&connected, now, events),
            ClientEvent::Error(error) => return Err(self.on_error(&error, events)),
            ClientEvent::HeartBeat => {}
        }
        Ok(())
    }

    fn on_connected(&mut self, connected: &ConnectedFrame<'_>, now: Time, events: &mut dyn Events) {
        let is_thalweg = connected
            .server
            .as_deref()
            .is_some_and(|server| server.starts_with("Thalweg/"));
        let idiom = Idiom {
            dialect: self.settings.dialect,
            is_thalweg,
        };
        if idiom != self.idiom {
            // What was worked out before was said to somebody else.
            (self.target, self.origin) = Default::default();
        }
        self.idiom = idiom;
        self.is_known = true;
        self.stamps = connected.headers.get(STAMPS_ANNOUNCEMENT).as_deref() == Some("1");
        let keep_alive = self.keep_alive;
        let (gives, wants) = heart_beats((keep_alive, keep_alive), connected.heart_beat);
        let wants = Span::from_millis(wants.into());
        self.beats
            .agree(half(Span::from_millis(gives.into())), patience(wants));
        self.is_up = true;
        events.up(&Welcome::default());
        events.round_trip(now.since(self.opened));
    }

    fn on_receipt(&mut self, id: &str, now: Time, events: &mut dyn Events) {
        if let Ok(number) = id.parse() {
            if let Some(id) = self.unconfirmed.take(number) {
                events.settled(id, Settled::Acknowledged);
            }
            // Frames are dealt with in order, so whatever went before it was none that ends the connection.
            self.loose_since = self.loose_since.filter(|loose| number < *loose);
        } else if id == PROBE {
            if let Some(probed) = self.probed.take() {
                events.round_trip(now.since(probed));
            }
        } else {
            self.subscriptions.on_receipt(id, events);
        }
    }

    /// The peer ends the connection, for something that we said or for something else.
    fn on_error(&mut self, error: &ErrorFrame<'_>, events: &mut dyn Events) -> LinkFault {
        let message = error.message.as_deref().unwrap_or("ERROR");
        let body = String::from_utf8_lossy(error.body);
        let words = format!("{message}: {}", body.trim());
        let is_shortage = message.contains("resource_error") || message.contains("resource_locked");
        let why = if is_shortage {
            Refusal::Busy(words.clone())
        } else {
            Refusal::Denied(words.clone())
        };
        if is_shortage {
            events.pressed();
        }
        match error.receipt_id.as_deref() {
            Some(id) => match id.parse() {
                Ok(number) => {
                    if let Some(id) = self.unconfirmed.take(number) {
                        events.settled(id, Settled::Refused(why));
                    }
                }
                Err(_) => match self.take_read(id) {
                    Some(request) => events.answered(request, Err(why)),
                    None => self.subscriptions.on_refused(id, why, events),
                },
            },
            None if self.is_up => self.blame(&why, events),
            None => {}
        }
        // Before we are in it is about who we are and where we want to; afterwards about what we did.
        LinkFault {
            words: format!("the broker ends the connection: {words}"),
            is_final: !self.is_up,
        }
    }

    /// Something that we said was wrong, and the peer does not say what. If only one thing can be meant it is that; if not,
    /// everything goes one at a time on the next connection.
    fn blame(&mut self, why: &Refusal, events: &mut dyn Events) {
        let asked = self.subscriptions.asked_count();
        let suspects = self.unconfirmed.len() + asked;
        if suspects == 0 {
            return;
        }
        self.was_ambiguous = suspects > 1 || self.loose_since.is_some();
        if self.was_ambiguous {
            self.unconfirmed.be_careful();
        } else if asked == 1 {
            self.subscriptions.on_last_refused(why, events);
        } else {
            self.unconfirmed.take_culprit(|id, blame| {
                if blame == Blame::Culprit {
                    events.settled(id, Settled::Refused(why.clone()));
                }
            });
        }
    }

    /// The question for a last value that has this name on the wire, if somebody still waits for its answer.
    fn take_read(&mut self, name: &str) -> Option<RequestId> {
        let place = self
            .reads
            .iter()
            .position(|request| read_name(*request) == name)?;
        Some(self.reads.swap_remove(place))
    }

    fn on_message(
        &mut self,
        message: &MessageFrame<'_>,
        out: &mut Output,
        events: &mut dyn Events,
    ) {
        let Some(name) = message.subscription.as_deref() else {
            return;
        };
        let receiver = self.subscriptions.receiver(name);
        let read = if receiver.is_none() {
            self.take_read(name)
        } else {
            None
        };
        if receiver.is_none() && read.is_none() && name != ANSWERS {
            // It crossed our UNSUBSCRIBE, and goes back.
            if let Some(ack) = &message.ack {
                self.machine.nack(
                    &AckOut {
                        ack,
                        ..AckOut::default()
                    },
                    &mut out.bytes,
                );
            }
            return;
        }
        let said = self.scratch.read(&message.headers);
        self.reply_to.clear();
        if said.has_reply_to {
            self.idiom
                .read_reply(&self.scratch.reply_to, &mut self.reply_to);
        }
        if self.origin.address.is_empty() || self.origin.destination != message.destination {
            self.origin.destination.clear();
            self.origin.destination.push_str(&message.destination);
            self.origin.address.clear();
            self.idiom
                .read(&message.destination, &mut self.origin.address);
        }
        let delivery = message
            .ack
            .as_deref()
            .and_then(|ack| self.deliveries.add(ack));
        let inbound = Inbound {
            subscription: receiver,
            delivery,
            address: &self.origin.address,
            payload: message.body,
            reliability: if delivery.is_some() {
                Reliability::AtLeastOnce
            } else {
                Reliability::AtMostOnce
            },
            is_last_value: read.is_some(),
            repeated: message.redelivered,
            content_type: message.content_type.as_deref(),
            properties: Properties(&self.scratch.properties),
            reply_to: said.has_reply_to.then_some(&self.reply_to),
            correlation: said.has_correlation.then_some(&self.scratch.correlation),
            stamp: said.stamp,
            lifespan: said.lifespan,
        };
        if receiver.is_some() {
            return events.received(&inbound);
        }
        if let Some(request) = read {
            let is_there = message.headers.get("x-last-value").as_deref() != Some("none");
            return events.answered(request, Ok(is_there.then_some(&inbound)));
        }
        let request = inbound
            .correlation
            .and_then(|bytes| std::str::from_utf8(bytes).ok());
        let request = request
            .and_then(|digits| u64::from_str_radix(digits, 16).ok())
            .map(RequestId);
        if let Some(place) = self
            .questions
            .iter()
            .position(|waiting| Some(*waiting) == request)
        {
            let request = self.questions.swap_remove(place);
            events.answered(request, Ok(Some(&inbound)));
        }
    }
}

/// A question for a last value on the wire: subscriptions are numbers, and so are receipts of messages.
fn read_name(RequestId(number): RequestId) -> String {
    format!("r{number}")
}

/// A number as text.
fn digits(number: u64, buffer: &mut [u8; 20]) -> &str {
    let size = buffer.len();
    let mut rest = &mut buffer[..];
    let left = if write!(rest, "{number}").is_ok() {
        rest.len()
    } else {
        size
    };
    let written = buffer.get(..size - left).unwrap_or_default();
    std::str::from_utf8(written).unwrap_or_default()
}
