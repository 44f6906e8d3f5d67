//! AMQP 0-9-1 as a lane: [`Amqp`].
//!
//! What `thalweg-amqp` leaves to its users is here: which channels there are and what for, which publish a confirm belongs
//! to, what a channel that the peer closes means for whom, heartbeats, and how our words are said in exchanges, routing
//! keys, queues and content headers. Start reading at the implementation of `Transport`.
//!
//! ```text
//!  channel 1   publishes that nobody confirms; questions and their answers (direct reply-to); probes
//!  channel 2   publishes with confirms
//!  channel 3 … one for each subscription
//! ```

mod names;
mod properties;
mod settings;
mod subscriptions;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::net::SocketAddr;

use thalweg_amqp::methods::{basic, channel, connection};
use thalweg_amqp::{
    BasicProperties, ClientEvent, ClientSide, FieldValue, Gathered, Method, MethodId, ReplyCode,
    Scope, ServerOffer, Table, TableWriter,
};
use thalweg_model::{Reliability, STAMPS_ANNOUNCEMENT, Span, Time};

use self::names::{Origin, Target};
use self::properties::{Question, Writer};
pub use self::settings::AmqpSettings;
use self::subscriptions::{Common, Subscriptions};
use crate::liveness::Beats;
use crate::presence;
use crate::queues::{NAME_BYTES_MAX, TOPICS, session_prefix, write_reply};
use crate::transport::{
    Capabilities, Counters, DeliveryId, Departure, Endpoint, Events, Inbound, LinkFault, Opening,
    Outbound, Output, Properties, Refusal, RequestId, Settled, SubscribeWish, SubscriptionId,
    Transport, Welcome,
};
use crate::unconfirmed::{Blame, Unconfirmed};

/// The channel whose publishes nobody confirms.
const PLAIN: u16 = 1;
/// The channel with confirms.
const CONFIRMED: u16 = 2;
/// The queue that does not exist: who consumes from it gets the answers to what the channel publishes. RabbitMQ's.
const DIRECT_REPLY: &str = "amq.rabbitmq.reply-to";

/// A lane that speaks AMQP 0-9-1.
pub struct Amqp {
    endpoint: Endpoint,
    settings: AmqpSettings,
    machine: ClientSide,
    opening: Option<Opening>,
    is_up: bool,
    peer: Peer,
    common: Common,
    beats: Beats,
    /// When the last question of the handshake left.
    asked: Time,
    /// Publishes on [`CONFIRMED`].
    unconfirmed: Unconfirmed,
    /// Publishing is held back: by `connection.blocked`, by `channel.flow` of either channel.
    is_blocked: bool,
    is_stopped: [bool; 2],
    subscriptions: Subscriptions,
    questions: Questions,
    /// When a probe left that is not answered yet.
    probed: Option<Time>,
    target: Target,
    origin: Origin,
    writer: Writer,
    /// Properties and reply addresses of what comes.
    scratch: Scratch,
}

/// What the peer has said of itself.
#[derive(Clone, Copy, Debug, Default)]
struct Peer {
    is_known: bool,
    stamps: bool,
    direct_reply: bool,
}

/// Questions that wait for their answers.
#[derive(Debug, Default)]
struct Questions {
    waiting: Vec<RequestId>,
    /// The consumer of answers was asked for on this channel.
    has_consumer: bool,
    /// Last values that are wanted, and what they are asked for as; without a request if nobody waits any more. The first was
    /// asked for: answers could overtake each other, and "there is none" does not say of what.
    reads: VecDeque<(Option<RequestId>, String)>,
}

/// Begins what our broker takes for the last value of a key, in place of a queue's name.
const LAST_VALUES: &str = "$last/";

#[derive(Debug, Default)]
struct Scratch {
    properties: Vec<u8>,
    reply_to: String,
}

impl Amqp {
    /// A lane that has not connected yet.
    pub fn new(endpoint: Endpoint, settings: AmqpSettings) -> Self {
        let machine = new_machine(&settings);
        let unconfirmed = Unconfirmed::new(settings.unconfirmed_max);
        Amqp {
            endpoint,
            settings,
            machine,
            opening: None,
            is_up: false,
            peer: Peer::default(),
            common: Common::default(),
            beats: Beats::default(),
            asked: Time::ZERO,
            unconfirmed,
            is_blocked: false,
            is_stopped: [false; 2],
            subscriptions: Subscriptions::default(),
            questions: Questions::default(),
            probed: None,
            target: Target::default(),
            origin: Origin::default(),
            writer: Writer::default(),
            scratch: Scratch::default(),
        }
    }
}

fn new_machine(settings: &AmqpSettings) -> ClientSide {
    ClientSide::new(settings.frame_bytes_max, settings.payload_bytes_max as u64)
}

impl Transport for Amqp {
    fn protocol(&self) -> &'static str {
        "amqp"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            stamps: self.peer.stamps,
            requests: self.peer.direct_reply || !self.peer.is_known,
            last_values: self.common.is_thalweg || !self.peer.is_known,
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
        self.opening = Some(opening.clone());
        self.beats = Beats::begin(now);
        self.asked = now;
        self.machine.connect(&mut out.bytes);
    }

    fn handle_input(
        &mut self,
        input: &[u8],
        now: Time,
        out: &mut Output,
        events: &mut dyn Events,
    ) -> Result<usize, LinkFault> {
        let mut consumed = 0;
        let mut gathered = Gathered::default();
        loop {
            let rest = input.get(consumed..).unwrap_or_default();
            match self.machine.handle_input(rest, &mut gathered) {
                Ok(Some((len, event))) => {
                    self.beats.heard(now);
                    consumed += len;
                    self.on_event(event, now, out, events)?;
                }
                Ok(None) => break,
                Err(fault) => {
                    self.machine.fault(&fault, &mut out.bytes);
                    return Err(LinkFault {
                        words: fault.to_string(),
                        is_final: false,
                    });
                }
            }
        }
        if self.is_up && self.may_publish() && self.unconfirmed.has_room_again() {
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
            self.machine.heartbeat(&mut out.bytes);
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
        let (ch, departure) = match message.reliability {
            Reliability::AtMostOnce => (PLAIN, Departure::Gone),
            Reliability::AtLeastOnce => (CONFIRMED, Departure::Awaited),
            Reliability::ExactlyOnce => {
                return Err(Refusal::Unsupported(
                    "AMQP delivers exactly once only where the broker knows stamps",
                ));
            }
        };
        self.check_room(ch, message.payload.len())?;
        self.send(ch, message, None, now, out)?;
        if departure == Departure::Awaited {
            self.unconfirmed.push(message.id);
        }
        Ok(departure)
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
        if let Some(refusal) = presence::refusal(wish.filter, self.peer.stamps) {
            return Err(refusal);
        }
        self.beats.said(now);
        self.subscriptions
            .begin(wish, &self.common, &mut self.machine, &mut out.bytes)
    }

    fn unsubscribe(&mut self, subscription: SubscriptionId, now: Time, out: &mut Output) {
        self.beats.said(now);
        self.subscriptions
            .end(subscription, &mut self.machine, &mut out.bytes);
    }

    #[inline]
    fn settle(&mut self, delivery: DeliveryId, now: Time, out: &mut Output) {
        self.beats.said(now);
        self.subscriptions
            .settle(delivery, &mut self.machine, &mut out.bytes);
    }

    fn request(
        &mut self,
        request: RequestId,
        message: &Outbound<'_>,
        now: Time,
        out: &mut Output,
    ) -> Result<(), Refusal> {
        if self.is_up && !self.peer.direct_reply {
            return Err(Refusal::Unsupported(
                "this AMQP broker has no direct reply-to",
            ));
        }
        self.check_room(PLAIN, message.payload.len())?;
        if !self.questions.has_consumer {
            let consume = basic::Consume {
                queue: DIRECT_REPLY,
                no_ack: true,
                no_wait: true,
                ..Default::default()
            };
            let consume = basic::Consume {
                consumer_tag: "answers",
                ..consume
            };
            self.machine
                .method(PLAIN, &Method::BasicConsume(consume), &mut out.bytes);
            self.questions.has_consumer = true;
        }
        let correlation = format!("{:x}", request.0);
        let question = Question {
            reply_to: DIRECT_REPLY,
            correlation: correlation.as_bytes(),
        };
        self.send(PLAIN, message, Some(question), now, out)?;
        self.questions.waiting.push(request);
        Ok(())
    }

    fn read(
        &mut self,
        request: RequestId,
        address: &str,
        now: Time,
        out: &mut Output,
    ) -> Result<(), Refusal> {
        if !self.is_up || !self.machine.is_channel_open(PLAIN) {
            return Err(Refusal::NotConnected);
        }
        if !self.common.is_thalweg {
            return Err(Refusal::Unsupported("the broker keeps no last values"));
        }
        self.target.set(address)?;
        if self.target.exchange != TOPICS {
            return Err(Refusal::Unsupported(
                "queues and exchanges have no last values",
            ));
        }
        let queue = format!("{LAST_VALUES}{}", self.target.key);
        if queue.len() > NAME_BYTES_MAX {
            return Err(Refusal::Address);
        }
        self.questions.reads.push_back((Some(request), queue));
        if self.questions.reads.len() == 1 {
            self.ask_for_value(now, out);
        }
        Ok(())
    }

    fn forget(&mut self, request: RequestId) {
        // What was asked is answered all the same.
        if let Some((waiting, _)) = self
            .questions
            .reads
            .iter_mut()
            .find(|(waiting, _)| *waiting == Some(request))
        {
            *waiting = None;
        }
        self.questions.waiting.retain(|waiting| *waiting != request);
    }

    fn probe(&mut self, now: Time, out: &mut Output) -> usize {
        if !self.is_up || self.probed.is_some() || !self.machine.is_channel_open(PLAIN) {
            return 0;
        }
        // "The peer may ask the other to continue the flow", which it does anyway; and it is answered. [§1.5.2.3]
        let before = out.bytes.len();
        self.machine.method(
            PLAIN,
            &Method::ChannelFlow(channel::Flow { active: true }),
            &mut out.bytes,
        );
        self.probed = Some(now);
        self.beats.said(now);
        out.bytes.len() - before
    }

    fn close(&mut self, _now: Time, out: &mut Output) {
        self.machine.close(
            ReplyCode::ReplySuccess,
            "goodbye",
            MethodId::NONE,
            &mut out.bytes,
        );
    }

    fn closed(&mut self) {
        self.is_up = false;
        self.opening = None;
        self.unconfirmed.restart(1);
        (self.is_blocked, self.is_stopped) = (false, [false; 2]);
        self.subscriptions.clear();
        self.questions = Questions::default();
        self.probed = None;
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }
}

impl Amqp {
    /// Whether nothing but a window holds publishing back.
    fn may_publish(&self) -> bool {
        !self.is_blocked
            && self.is_stopped == [false; 2]
            && self.machine.is_channel_open(PLAIN)
            && self.machine.is_channel_open(CONFIRMED)
    }

    #[inline]
    fn check_room(&mut self, ch: u16, payload_bytes: usize) -> Result<(), Refusal> {
        if !self.is_up {
            return Err(Refusal::NotConnected);
        }
        if payload_bytes > self.settings.payload_bytes_max {
            return Err(Refusal::TooLarge {
                limit: self.settings.payload_bytes_max,
            });
        }
        let is_held =
            self.is_blocked || self.is_stopped != [false; 2] || !self.machine.is_channel_open(ch);
        if is_held {
            self.unconfirmed.hold();
        }
        if is_held || (ch == CONFIRMED && !self.unconfirmed.has_room()) {
            return Err(Refusal::Window);
        }
        Ok(())
    }

    #[inline]
    fn send(
        &mut self,
        ch: u16,
        message: &Outbound<'_>,
        question: Option<Question<'_>>,
        now: Time,
        out: &mut Output,
    ) -> Result<(), Refusal> {
        let Amqp {
            target,
            writer,
            machine,
            ..
        } = self;
        target.set(message.address)?;
        let publish = basic::Publish {
            exchange: &target.exchange,
            routing_key: &target.key,
            ..Default::default()
        };
        let written = writer.with_header(message, question, |header| {
            machine.publish(ch, &publish, header, message.payload, &mut out.bytes)
        })?;
        self.beats.said(now);
        written.map(drop).map_err(|too_large| Refusal::TooLarge {
            limit: too_large.frame_bytes_max as usize,
        })
    }

    fn on_event(
        &mut self,
        event: ClientEvent<'_>,
        now: Time,
        out: &mut Output,
        events: &mut dyn Events,
    ) -> Result<(), LinkFault> {
        match event {
            ClientEvent::Content {
                ch,
                method: Method::BasicDeliver(deliver),
                properties,
                payload,
                ..
            } => {
                self.on_deliver(ch, &deliver, &properties, payload, events);
            }
            ClientEvent::Content {
                method: Method::BasicGetOk(got),
                properties,
                payload,
                ..
            } => {
                self.on_got(&got, &properties, payload, now, out, events);
            }
            ClientEvent::Method { ch, method } => self.on_method(ch, method, now, out, events),
            ClientEvent::WrongProtocol(header) => {
                let words = format!(
                    "the peer does not speak AMQP 0-9-1 but {:?}",
                    header.escape_ascii().to_string()
                );
                return Err(LinkFault {
                    words,
                    is_final: true,
                });
            }
            ClientEvent::Start(start) => self.on_start(&start, out)?,
            ClientEvent::Secure { .. } => {
                let words = "the broker asks for another step of authentication, and neither PLAIN nor EXTERNAL has one";
                return Err(LinkFault {
                    words: words.to_owned(),
                    is_final: true,
                });
            }
            ClientEvent::Tune(offer) => self.on_tune(offer, now, out),
            ClientEvent::OpenOk => {
                self.asked = now;
                self.machine.channel_open(PLAIN, &mut out.bytes);
                self.machine.channel_open(CONFIRMED, &mut out.bytes);
            }
            ClientEvent::ChannelOpenOk(ch) => self.on_channel_open(ch, now, out, events),
            ClientEvent::ChannelClose {
                ch,
                code,
                text,
                cause,
            } => {
                self.machine.channel_close_ok(ch, &mut out.bytes);
                self.on_channel_closed(ch, (code, text, cause), out, events);
            }
            ClientEvent::ChannelCloseOk(ch @ (PLAIN | CONFIRMED)) => {
                self.machine.channel_open(ch, &mut out.bytes)
            }
            ClientEvent::ChannelCloseOk(ch) => self.subscriptions.on_close_ok(ch),
            ClientEvent::ChannelFault(fault) => {
                self.machine.fault(&fault, &mut out.bytes);
                let words = fault.to_string();
                match fault.scope {
                    Scope::Channel(CONFIRMED) => {
                        self.on_publishes_lost(&Refusal::Busy(words), events)
                    }
                    Scope::Channel(PLAIN) => self.on_questions_lost(&Refusal::Busy(words), events),
                    Scope::Channel(ch) => self.subscriptions.on_fault(ch, &words, events),
                    Scope::Connection | Scope::ProtocolHeader => {}
                }
            }
            ClientEvent::CloseConnection { code, text, .. } => {
                self.machine.close_ok(&mut out.bytes);
                return Err(self.farewell(code, text));
            }
            ClientEvent::Blocked { .. } => {
                self.is_blocked = true;
                events.pressed();
            }
            ClientEvent::Unblocked => self.is_blocked = false,
            // What was published without `mandatory` never comes back, and nothing is fetched one by one.
            ClientEvent::Content { .. }
            | ClientEvent::CloseConnectionOk
            | ClientEvent::UpdateSecretOk
            | ClientEvent::Heartbeat
            | ClientEvent::Consumed => {}
        }
        Ok(())
    }

    fn on_start(
        &mut self,
        start: &connection::Start<'_>,
        out: &mut Output,
    ) -> Result<(), LinkFault> {
        self.peer = peer_of(start.server_properties);
        let Some(opening) = &self.opening else {
            return Ok(());
        };
        self.common = Common {
            prefetch: self.settings.prefetch,
            prefix: match opening.client_id.as_str() {
                "" => String::new(),
                client => session_prefix(self.protocol(), &self.endpoint, client),
            },
            session: opening.session,
            is_thalweg: is_text(start.server_properties.get("product"), "Thalweg"),
        };
        let mechanism = if self.settings.external {
            "EXTERNAL"
        } else {
            "PLAIN"
        };
        let is_offered = start
            .mechanisms
            .split(|byte| *byte == b' ')
            .any(|offered| offered == mechanism.as_bytes());
        if !is_offered {
            let offered = String::from_utf8_lossy(start.mechanisms);
            let words =
                format!("the broker does not take the login {mechanism}, only these: {offered}");
            return Err(LinkFault {
                words,
                is_final: true,
            });
        }
        let mut response = Vec::new();
        if !self.settings.external {
            // RFC 4616. Who was told nothing is `guest`, as everywhere.
            let user = opening.user.as_deref().unwrap_or("guest");
            let password = match (&opening.user, &opening.password) {
                (None, None) => b"guest",
                (_, password) => password.as_deref().unwrap_or_default(),
            };
            response = [b"\0", user.as_bytes(), b"\0", password].concat();
        }
        let mut buffer = Vec::new();
        let mut properties = TableWriter::new(&mut buffer);
        properties
            .table("capabilities", |capabilities| {
                for capability in [
                    "publisher_confirms",
                    "basic.nack",
                    "consumer_cancel_notify",
                    "connection.blocked",
                    "authentication_failure_close",
                ] {
                    capabilities.bool(capability, true);
                }
            })
            .str("product", "thalweg-client")
            .str("version", env!("CARGO_PKG_VERSION"));
        if !opening.client_id.is_empty() {
            properties.str("connection_name", &opening.client_id);
        }
        self.machine
            .start_ok(properties.finish(), mechanism, &response, &mut out.bytes);
        Ok(())
    }

    fn on_tune(&mut self, offer: ServerOffer, now: Time, out: &mut Output) {
        let wanted = self
            .opening
            .as_ref()
            .map_or(Span::ZERO, |opening| opening.keep_alive);
        let wanted = u16::try_from(wanted.secs_ceil()).unwrap_or(u16::MAX);
        // The shorter of both; who says 0 leaves it to the other, but if we say so there are none. [§1.4.2.6]
        let heartbeat = if offer.heartbeat == 0 {
            wanted
        } else {
            offer.heartbeat.min(wanted)
        };
        // "If a peer detects no incoming traffic for two heartbeat intervals or longer, it should close the connection".
        // [§4.2.7]
        let millis = u64::from(heartbeat) * 1000;
        self.beats
            .agree(Span::from_millis(millis / 2), Span::from_millis(millis * 2));
        self.beats.said(now);
        self.machine
            .tune_ok(ServerOffer { heartbeat, ..offer }, &mut out.bytes);
        self.machine.open(&self.settings.vhost, &mut out.bytes);
    }

    fn on_channel_open(&mut self, ch: u16, now: Time, out: &mut Output, events: &mut dyn Events) {
        match ch {
            PLAIN => self.questions.has_consumer = false,
            CONFIRMED => {
                self.machine.confirm_select(CONFIRMED, true, &mut out.bytes);
                self.unconfirmed.restart(1);
                if self.is_up {
                    // Whoever was told to wait meanwhile hears of it.
                    self.unconfirmed.hold();
                }
            }
            ch => {
                return self.subscriptions.on_open(
                    ch,
                    &self.common,
                    &mut self.machine,
                    &mut out.bytes,
                );
            }
        }
        if !self.is_up
            && self.machine.is_channel_open(PLAIN)
            && self.machine.is_channel_open(CONFIRMED)
        {
            self.is_up = true;
            self.opening = None;
            events.up(&Welcome::default());
            events.round_trip(now.since(self.asked));
        }
    }

    fn on_channel_closed(
        &mut self,
        ch: u16,
        (code, text, cause): (u16, &str, MethodId),
        out: &mut Output,
        events: &mut dyn Events,
    ) {
        match ch {
            PLAIN => {
                self.on_questions_lost(&refusal_of(code, text), events);
                self.probed = None;
                (self.is_stopped[0], self.is_stopped[1]) = (false, self.is_stopped[1]);
                self.machine.channel_open(PLAIN, &mut out.bytes);
            }
            CONFIRMED => {
                self.on_publishes_lost(&refusal_of(code, text), events);
                (self.is_stopped[0], self.is_stopped[1]) = (self.is_stopped[0], false);
                self.machine.channel_open(CONFIRMED, &mut out.bytes);
            }
            ch => {
                let why = (code, text, cause);
                self.subscriptions.on_closed_by_peer(
                    ch,
                    why,
                    &mut self.machine,
                    &mut out.bytes,
                    events,
                );
            }
        }
    }

    /// The channel with confirms has ended for one of the messages on it, and the peer does not say for which: what came
    /// behind it was thrown away, and of what came before it the confirms may be missing.
    fn on_publishes_lost(&mut self, why: &Refusal, events: &mut dyn Events) {
        self.unconfirmed.take_culprit(|id, blame| {
            let why = match blame {
                Blame::Culprit => why.clone(),
                Blame::Suspect => Refusal::Busy(format!(
                    "the channel was closed for one of several messages: {why}"
                )),
            };
            events.settled(id, Settled::Refused(why));
        });
    }

    fn on_questions_lost(&mut self, why: &Refusal, events: &mut dyn Events) {
        self.questions.has_consumer = false;
        for request in std::mem::take(&mut self.questions.reads)
            .into_iter()
            .filter_map(|(request, _)| request)
        {
            events.answered(request, Err(why.clone()));
        }
        for request in std::mem::take(&mut self.questions.waiting) {
            events.answered(request, Err(why.clone()));
        }
    }

    fn farewell(&self, code: u16, text: &str) -> LinkFault {
        let refused = [
            ReplyCode::AccessRefused,
            ReplyCode::NotAllowed,
            ReplyCode::InvalidPath,
        ];
        LinkFault {
            words: format!("the broker ends the connection: {code} {text}"),
            // Before we are in it is about who we are and where we want to; afterwards about what we did.
            is_final: !self.is_up && refused.iter().any(|refused| refused.code() == code),
        }
    }

    fn on_method(
        &mut self,
        ch: u16,
        method: Method<'_>,
        now: Time,
        out: &mut Output,
        events: &mut dyn Events,
    ) {
        match method {
            Method::BasicAck(ack) if ch == CONFIRMED => {
                let mut settled = |id| events.settled(id, Settled::Acknowledged);
                if ack.multiple {
                    self.unconfirmed.take_through(ack.delivery_tag, settled);
                } else if let Some(id) = self.unconfirmed.take(ack.delivery_tag) {
                    settled(id);
                }
            }
            Method::BasicNack(nack) if ch == CONFIRMED => {
                let why = || Refusal::Busy("the broker could not take the message".to_owned());
                let mut settled = |id| events.settled(id, Settled::Refused(why()));
                if nack.multiple {
                    self.unconfirmed.take_through(nack.delivery_tag, settled);
                } else if let Some(id) = self.unconfirmed.take(nack.delivery_tag) {
                    settled(id);
                }
            }
            Method::BasicGetEmpty(_) if ch == PLAIN => self.on_read(None, now, out, events),
            Method::BasicConsumeOk(_) => self.subscriptions.on_consume_ok(ch, events),
            Method::BasicCancelOk(_) => {
                self.subscriptions
                    .on_cancel_ok(ch, &mut self.machine, &mut out.bytes)
            }
            Method::BasicCancel(_) if ch == PLAIN => {
                self.on_questions_lost(
                    &Refusal::Busy("the queue of answers is gone".to_owned()),
                    events,
                );
            }
            Method::BasicCancel(_) => {
                self.subscriptions
                    .on_cancel(ch, &mut self.machine, &mut out.bytes, events)
            }
            Method::ChannelFlow(flow) => {
                self.machine.method(
                    ch,
                    &Method::ChannelFlowOk(channel::FlowOk {
                        active: flow.active,
                    }),
                    &mut out.bytes,
                );
                self.beats.said(now);
                if let Some(is_stopped) = self
                    .is_stopped
                    .get_mut(usize::from(ch.saturating_sub(PLAIN)))
                {
                    *is_stopped = !flow.active;
                    if !flow.active {
                        events.pressed();
                    }
                }
            }
            Method::ChannelFlowOk(_) => {
                if let Some(probed) = self.probed.take() {
                    events.round_trip(now.since(probed));
                }
            }
            // Confirmations of what was said in one go with something that is confirmed later.
            _ => {}
        }
    }

    /// A last value that was asked for.
    #[allow(clippy::too_many_arguments)] // What the machine says, and the usual.
    fn on_got(
        &mut self,
        got: &basic::GetOk<'_>,
        basic: &BasicProperties<'_>,
        payload: &[u8],
        now: Time,
        out: &mut Output,
        events: &mut dyn Events,
    ) {
        let mut properties = Vec::new();
        let said = properties::read(basic, &mut properties);
        let mut reply_to = String::new();
        if let Some(key) = basic.reply_to {
            write_reply(key, &mut reply_to);
        }
        self.origin.set(got.exchange, got.routing_key);
        let address = said.address.unwrap_or(&self.origin.address).to_owned();
        let inbound = Inbound {
            subscription: None,
            delivery: None,
            address: &address,
            payload,
            reliability: Reliability::AtMostOnce,
            is_last_value: true,
            repeated: false,
            content_type: basic.content_type,
            properties: Properties(&properties),
            reply_to: basic.reply_to.is_some().then_some(&reply_to),
            correlation: said.correlation,
            stamp: said.stamp,
            lifespan: said.lifespan,
        };
        self.on_read(Some(&inbound), now, out, events);
    }

    fn on_read(
        &mut self,
        value: Option<&Inbound<'_>>,
        now: Time,
        out: &mut Output,
        events: &mut dyn Events,
    ) {
        if let Some((Some(request), _)) = self.questions.reads.pop_front() {
            events.answered(request, Ok(value));
        }
        while let Some((None, _)) = self.questions.reads.front() {
            self.questions.reads.pop_front();
        }
        self.ask_for_value(now, out);
    }

    /// Asks for the first of the last values that are wanted.
    fn ask_for_value(&mut self, now: Time, out: &mut Output) {
        if let Some((_, queue)) = self.questions.reads.front() {
            let get = basic::Get {
                queue,
                no_ack: true,
            };
            self.machine
                .method(PLAIN, &Method::BasicGet(get), &mut out.bytes);
            self.beats.said(now);
        }
    }

    fn on_deliver(
        &mut self,
        ch: u16,
        deliver: &basic::Deliver<'_>,
        basic: &BasicProperties<'_>,
        payload: &[u8],
        events: &mut dyn Events,
    ) {
        let Scratch {
            properties,
            reply_to,
        } = &mut self.scratch;
        properties.clear();
        reply_to.clear();
        let said = properties::read(basic, properties);
        if let Some(key) = basic.reply_to {
            write_reply(key, reply_to);
        }
        self.origin.set(deliver.exchange, deliver.routing_key);
        let receiver = if ch == PLAIN {
            None
        } else {
            self.subscriptions.receiver(ch, deliver.delivery_tag)
        };
        let inbound = Inbound {
            subscription: receiver.map(|receiver| receiver.id),
            delivery: receiver.and_then(|receiver| receiver.delivery),
            address: said.address.unwrap_or(&self.origin.address),
            payload,
            reliability: match receiver.and_then(|receiver| receiver.delivery) {
                Some(_) => Reliability::AtLeastOnce,
                None => Reliability::AtMostOnce,
            },
            is_last_value: false,
            repeated: deliver.redelivered || said.was_delivered,
            content_type: basic.content_type,
            properties: Properties(properties),
            reply_to: basic.reply_to.is_some().then_some(reply_to),
            correlation: said.correlation,
            stamp: said.stamp,
            lifespan: said.lifespan,
        };
        if ch != PLAIN {
            // Of a channel that is none of ours nothing comes: the machine knows which are open.
            return if receiver.is_some() {
                events.received(&inbound)
            };
        }
        let request = said
            .correlation
            .and_then(|bytes| std::str::from_utf8(bytes).ok());
        let request = request
            .and_then(|digits| u64::from_str_radix(digits, 16).ok())
            .map(RequestId);
        if let Some(place) = self
            .questions
            .waiting
            .iter()
            .position(|waiting| Some(*waiting) == request)
        {
            let request = self.questions.waiting.swap_remove(place);
            events.answered(request, Ok(Some(&inbound)));
        }
    }
}

fn peer_of(properties: Table<'_>) -> Peer {
    let stamps = properties.get(STAMPS_ANNOUNCEMENT);
    let has_capability = |name: &str| match properties.get("capabilities") {
        Some(FieldValue::Table(capabilities)) => {
            capabilities.get(name).and_then(|value| value.as_bool()) == Some(true)
        }
        _ => false,
    };
    Peer {
        is_known: true,
        stamps: is_text(stamps, "1") || stamps.and_then(|value| value.as_i64()) == Some(1),
        direct_reply: has_capability("direct_reply_to"),
    }
}

fn is_text(value: Option<FieldValue<'_>>, text: &str) -> bool {
    value.and_then(|value| value.as_str()) == Some(text)
}

/// What a code of the peer's means for whoever asked.
fn refusal_of(code: u16, text: &str) -> Refusal {
    match ReplyCode::of(code) {
        Some(ReplyCode::ResourceLocked | ReplyCode::ResourceError | ReplyCode::InternalError) => {
            Refusal::Busy(text.to_owned())
        }
        _ => Refusal::Denied(text.to_owned()),
    }
}
