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
use crate::plugin::{
    Asked, Blame, Connection, Cx, Pending, Plugin, PluginSettings, Step, Window, has_connection,
};
use crate::presence;
use crate::queues::{NAME_BYTES_MAX, Session, TOPICS, correlation_of, write_reply};
use crate::transport::{
    Capabilities, DeliveryId, Departure, Endpoint, Events, Inbound, LinkFault, MessageId, Opening,
    Outbound, Properties, Refusal, RequestId, Settled, SubscribeWish, SubscriptionId, Transport,
    Welcome,
};
use crate::url::BrokerUrl;

/// The channel for publishes without confirms.
const PLAIN: u16 = 1;
/// The channel with confirms.
const CONFIRMED: u16 = 2;
/// RabbitMQ's direct reply-to: a pseudo-queue. Its consumer gets the replies to the requests published on the same
/// channel.
const DIRECT_REPLY: &str = "amq.rabbitmq.reply-to";

/// The lane to a broker.
pub(crate) fn lanes(url: &BrokerUrl, settings: &PluginSettings) -> Vec<Box<dyn Transport>> {
    let mut settings: AmqpSettings = settings.get();
    if let Some(vhost) = &url.virtual_host {
        settings.vhost.clone_from(vhost);
    }
    vec![Box::new(Amqp::new(url.endpoint(), settings))]
}

/// A lane that speaks AMQP 0-9-1.
pub struct Amqp {
    conn: Connection,
    settings: AmqpSettings,
    machine: ClientSide,
    opening: Option<Opening>,
    peer: Peer,
    common: Common,
    /// When the last question of the handshake left.
    asked: Time,
    /// Publishes on [`CONFIRMED`].
    window: Window,
    /// Publishing is held back: by `connection.blocked`, by `channel.flow` of either channel.
    is_blocked: bool,
    is_stopped: [bool; 2],
    subscriptions: Subscriptions,
    questions: Questions,
    target: Target,
    origin: Origin,
    writer: Writer,
    /// Buffers for properties and reply addresses of received messages.
    scratch: Scratch,
}

/// The peer's properties from its `start` method.
#[derive(Clone, Copy, Debug, Default)]
struct Peer {
    is_known: bool,
    stamps: bool,
    direct_reply: bool,
}

/// Questions that wait for their answers.
#[derive(Debug, Default)]
struct Questions {
    /// By the correlation data that was sent.
    waiting: Pending<Vec<u8>>,
    /// The consumer of answers was asked for on this channel.
    has_consumer: bool,
    /// Pending reads of last values with the address asked for; `None` if the read was abandoned. Kept in order: a
    /// reply cannot overtake another, and an empty reply does not name its address.
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
        Amqp {
            conn: Connection::new(endpoint, settings.payload_bytes_max),
            window: Window::new(settings.unconfirmed_max),
            settings,
            machine,
            opening: None,
            peer: Peer::default(),
            common: Common::default(),
            asked: Time::ZERO,
            is_blocked: false,
            is_stopped: [false; 2],
            subscriptions: Subscriptions::default(),
            questions: Questions::default(),
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

impl Plugin for Amqp {
    const PROTOCOL: &'static str = "amqp";
    const SUBSCRIBES: Reliability = Reliability::AtLeastOnce;
    type Scratch = Gathered;

    has_connection!();

    fn offers(&self) -> Capabilities {
        Capabilities {
            stamps: self.peer.stamps,
            requests: self.peer.direct_reply || !self.peer.is_known,
            last_values: self.common.is_thalweg || !self.peer.is_known,
            ..crate::queues::CAPABILITIES
        }
    }

    fn connect(&mut self, opening: &Opening, out: &mut Vec<u8>) -> Step {
        self.machine = new_machine(&self.settings);
        self.opening = Some(opening.clone());
        self.machine.connect(out);
        Ok(())
    }

    fn step(
        &mut self,
        input: &[u8],
        gathered: &mut Gathered,
        cx: &mut Cx<'_>,
    ) -> Step<Option<usize>> {
        match self.machine.handle_input(input, gathered) {
            Ok(Some((len, event))) => self.on_event(event, cx).map(|()| Some(len)),
            Ok(None) => Ok(None),
            Err(fault) => {
                self.machine.fault(&fault, cx.out);
                Err(LinkFault::temporary(fault))
            }
        }
    }

    fn has_room(&self) -> bool {
        let are_open = [PLAIN, CONFIRMED].map(|ch| self.may_publish(ch));
        are_open == [true; 2] && self.window.has_room_again()
    }

    #[inline]
    fn send(&mut self, message: &Outbound<'_>, out: &mut Vec<u8>) -> Asked<Departure> {
        let (ch, departure) = match message.reliability {
            Reliability::AtMostOnce => (PLAIN, Departure::Gone),
            _ => (CONFIRMED, Departure::Awaited),
        };
        if !self.may_publish(ch) || (ch == CONFIRMED && !self.window.has_room()) {
            return Err(Refusal::Window);
        }
        self.write(ch, message, None, out)?;
        if departure == Departure::Awaited {
            self.window.push(message.id);
        }
        Ok(departure)
    }

    fn begin_subscription(&mut self, wish: &SubscribeWish<'_>, out: &mut Vec<u8>) -> Asked {
        if let Some(refusal) = presence::refusal(wish.filter, self.peer.stamps) {
            return Err(refusal);
        }
        self.subscriptions
            .begin(wish, &self.common, &mut self.machine, out)
    }

    fn end_subscription(&mut self, id: SubscriptionId, out: &mut Vec<u8>) {
        self.subscriptions.end(id, &mut self.machine, out);
    }

    #[inline]
    fn acknowledge(&mut self, delivery: DeliveryId, out: &mut Vec<u8>) {
        self.subscriptions.settle(delivery, &mut self.machine, out);
    }

    fn ask(&mut self, id: RequestId, message: &Outbound<'_>, out: &mut Vec<u8>) -> Asked {
        if !self.peer.direct_reply {
            return Err(Refusal::Unsupported(
                "this AMQP broker has no direct reply-to",
            ));
        }
        if !self.may_publish(PLAIN) {
            return Err(Refusal::Window);
        }
        if !self.questions.has_consumer {
            let consume = basic::Consume {
                queue: DIRECT_REPLY,
                consumer_tag: "answers",
                no_ack: true,
                no_wait: true,
                ..Default::default()
            };
            self.machine
                .method(PLAIN, &Method::BasicConsume(consume), out);
            self.questions.has_consumer = true;
        }
        let correlation = correlation_of(id);
        let question = Question {
            reply_to: DIRECT_REPLY,
            correlation: &correlation,
        };
        self.write(PLAIN, message, Some(question), out)?;
        self.questions.waiting.add(correlation, id);
        Ok(())
    }

    fn ask_value(&mut self, id: RequestId, address: &str, out: &mut Vec<u8>) -> Asked {
        if !self.machine.is_channel_open(PLAIN) {
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
        self.questions.reads.push_back((Some(id), queue));
        if self.questions.reads.len() == 1 {
            self.ask_for_value(out);
        }
        Ok(())
    }

    fn drop_question(&mut self, id: RequestId) {
        // The broker has replied to an abandoned read all the same.
        let mut reads = self.questions.reads.iter_mut();
        if let Some((waiting, _)) = reads.find(|(waiting, _)| *waiting == Some(id)) {
            *waiting = None;
        }
        self.questions.waiting.forget(id);
    }

    fn ping(&mut self, out: &mut Vec<u8>) {
        if self.machine.is_channel_open(PLAIN) {
            // "The peer may ask the other to continue the flow", which it does anyway; and it is answered. [§1.5.2.3]
            let flow = Method::ChannelFlow(channel::Flow { active: true });
            self.machine.method(PLAIN, &flow, out);
        }
    }

    fn heartbeat(&mut self, out: &mut Vec<u8>) {
        self.machine.heartbeat(out);
    }

    fn say_goodbye(&mut self, out: &mut Vec<u8>) {
        let success = ReplyCode::ReplySuccess;
        self.machine.close(success, "goodbye", MethodId::NONE, out);
    }

    fn reset(&mut self) {
        self.opening = None;
        self.window.restart(1);
        (self.is_blocked, self.is_stopped) = (false, [false; 2]);
        self.subscriptions.clear();
        self.questions = Questions::default();
    }
}

impl Amqp {
    /// Whether nothing but a window holds publishing on this channel back.
    #[inline]
    fn may_publish(&self, ch: u16) -> bool {
        !self.is_blocked && self.is_stopped == [false; 2] && self.machine.is_channel_open(ch)
    }

    #[inline]
    fn write(
        &mut self,
        ch: u16,
        message: &Outbound<'_>,
        question: Option<Question<'_>>,
        out: &mut Vec<u8>,
    ) -> Asked {
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
            machine.publish(ch, &publish, header, message.payload, out)
        })?;
        written.map(drop).map_err(|too_large| Refusal::TooLarge {
            limit: too_large.frame_bytes_max as usize,
        })
    }

    fn on_event(&mut self, event: ClientEvent<'_>, cx: &mut Cx<'_>) -> Step {
        match event {
            ClientEvent::Content {
                ch,
                method: Method::BasicDeliver(deliver),
                properties,
                payload,
                ..
            } => {
                self.on_deliver(ch, &deliver, &properties, payload, cx.events);
            }
            ClientEvent::Content {
                method: Method::BasicGetOk(got),
                properties,
                payload,
                ..
            } => {
                self.on_got(&got, &properties, payload, cx);
            }
            ClientEvent::Method { ch, method } => self.on_method(ch, method, cx),
            ClientEvent::WrongProtocol(header) => {
                let header = header.escape_ascii().to_string();
                let words = format!("the peer does not speak AMQP 0-9-1 but {header:?}");
                return Err(LinkFault::permanent(words));
            }
            ClientEvent::Start(start) => self.on_start(&start, cx.out)?,
            ClientEvent::Secure { .. } => {
                return Err(LinkFault::permanent(
                    "the broker asks for another step of authentication, and neither PLAIN nor EXTERNAL has one",
                ));
            }
            ClientEvent::Tune(offer) => self.on_tune(offer, cx.out),
            ClientEvent::OpenOk => {
                self.asked = self.conn.now();
                self.machine.channel_open(PLAIN, cx.out);
                self.machine.channel_open(CONFIRMED, cx.out);
            }
            ClientEvent::ChannelOpenOk(ch) => self.on_channel_open(ch, cx),
            ClientEvent::ChannelClose {
                ch,
                code,
                text,
                cause,
            } => {
                self.machine.channel_close_ok(ch, cx.out);
                self.on_channel_closed(ch, (code, text, cause), cx);
            }
            ClientEvent::ChannelCloseOk(ch @ (PLAIN | CONFIRMED)) => {
                self.machine.channel_open(ch, cx.out)
            }
            ClientEvent::ChannelCloseOk(ch) => self.subscriptions.on_close_ok(ch),
            ClientEvent::ChannelFault(fault) => {
                self.machine.fault(&fault, cx.out);
                let why = Refusal::Busy(fault.to_string());
                match fault.scope {
                    Scope::Channel(CONFIRMED) => self.on_publishes_lost(&why, cx.events),
                    Scope::Channel(PLAIN) => self.on_questions_lost(&why, cx.events),
                    Scope::Channel(ch) => self.subscriptions.on_fault(ch, &why, cx.events),
                    Scope::Connection | Scope::ProtocolHeader => {}
                }
            }
            ClientEvent::CloseConnection { code, text, .. } => {
                self.machine.close_ok(cx.out);
                return Err(self.farewell(code, text));
            }
            ClientEvent::Blocked { .. } => {
                self.is_blocked = true;
                cx.events.pressed();
            }
            ClientEvent::Unblocked => self.is_blocked = false,
            // Publishes without `mandatory` are never returned, and the client never polls with `basic.get`.
            ClientEvent::Content { .. }
            | ClientEvent::CloseConnectionOk
            | ClientEvent::UpdateSecretOk
            | ClientEvent::Heartbeat
            | ClientEvent::Consumed => {}
        }
        Ok(())
    }

    fn on_start(&mut self, start: &connection::Start<'_>, out: &mut Vec<u8>) -> Step {
        self.peer = peer_of(start.server_properties);
        let Some(opening) = &self.opening else {
            return Ok(());
        };
        self.common = Common {
            prefetch: self.settings.prefetch,
            session: Session::of(Self::PROTOCOL, self.conn.endpoint(), opening),
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
            return Err(LinkFault::permanent(words));
        }
        let mut response = Vec::new();
        if !self.settings.external {
            // RFC 4616. Without a user name the login is `guest`, the default of AMQP brokers.
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
            .start_ok(properties.finish(), mechanism, &response, out);
        Ok(())
    }

    fn on_tune(&mut self, offer: ServerOffer, out: &mut Vec<u8>) {
        let wanted = self
            .opening
            .as_ref()
            .map_or(Span::ZERO, |opening| opening.keep_alive);
        let wanted = u16::try_from(wanted.secs_ceil()).unwrap_or(u16::MAX);
        // The shorter of both; 0 means that the other side decides, but a 0 of ours disables heartbeats. [§1.4.2.6]
        let heartbeat = if offer.heartbeat == 0 {
            wanted
        } else {
            offer.heartbeat.min(wanted)
        };
        // "If a peer detects no incoming traffic for two heartbeat intervals or longer, it should close the connection".
        // [§4.2.7]
        let millis = u64::from(heartbeat) * 1000;
        let (say_after, hear_within) = (millis / 2, millis * 2);
        let [say_after, hear_within] = [say_after, hear_within].map(Span::from_millis);
        self.conn.liveness().agree(say_after, hear_within);
        self.machine
            .tune_ok(ServerOffer { heartbeat, ..offer }, out);
        self.machine.open(&self.settings.vhost, out);
    }

    fn on_channel_open(&mut self, ch: u16, cx: &mut Cx<'_>) {
        match ch {
            PLAIN => self.questions.has_consumer = false,
            CONFIRMED => {
                self.machine.confirm_select(CONFIRMED, true, cx.out);
                self.window.restart(1);
            }
            ch => {
                let (common, machine) = (&self.common, &mut self.machine);
                return self.subscriptions.on_open(ch, common, machine, cx.out);
            }
        }
        let are_open = [PLAIN, CONFIRMED].map(|ch| self.machine.is_channel_open(ch));
        if !self.conn.is_up() && are_open == [true; 2] {
            self.opening = None;
            self.conn.be_up(&Welcome::default(), cx.events);
            cx.events.round_trip(self.conn.now().since(self.asked));
        }
    }

    fn on_channel_closed(&mut self, ch: u16, why: (u16, &str, MethodId), cx: &mut Cx<'_>) {
        let refusal = refusal_of(why.0, why.1);
        match ch {
            PLAIN => {
                self.on_questions_lost(&refusal, cx.events);
                self.conn.liveness().answered();
                self.is_stopped[0] = false;
                self.machine.channel_open(PLAIN, cx.out);
            }
            CONFIRMED => {
                self.on_publishes_lost(&refusal, cx.events);
                self.is_stopped[1] = false;
                self.machine.channel_open(CONFIRMED, cx.out);
            }
            ch => {
                let machine = &mut self.machine;
                self.subscriptions.on_closed_by_peer(ch, why, machine, cx);
            }
        }
    }

    /// The channel with confirms was closed because of one message, and the peer does not say which: later messages
    /// were discarded, and confirms of earlier ones may be missing.
    fn on_publishes_lost(&mut self, why: &Refusal, events: &mut dyn Events) {
        self.window.take_culprit(|id, blame| {
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
        self.questions.waiting.fail(why, events);
    }

    fn farewell(&self, code: u16, text: &str) -> LinkFault {
        let refused = [
            ReplyCode::AccessRefused,
            ReplyCode::NotAllowed,
            ReplyCode::InvalidPath,
        ];
        LinkFault {
            words: format!("the broker ends the connection: {code} {text}"),
            // Before the connection is open an error concerns login or virtual host; afterwards a request.
            is_final: !self.conn.is_up() && refused.iter().any(|refused| refused.code() == code),
        }
    }

    /// Publishes up to this number, or only it, are settled.
    fn settle(&mut self, number: u64, multiple: bool, mut each: impl FnMut(MessageId)) {
        match multiple {
            true => self.window.take_through(number, each),
            false => self.window.take(number).into_iter().for_each(&mut each),
        }
    }

    fn on_method(&mut self, ch: u16, method: Method<'_>, cx: &mut Cx<'_>) {
        let events = &mut *cx.events;
        match method {
            Method::BasicAck(ack) if ch == CONFIRMED => {
                self.settle(ack.delivery_tag, ack.multiple, |id| {
                    events.settled(id, Settled::Acknowledged);
                });
            }
            Method::BasicNack(nack) if ch == CONFIRMED => {
                self.settle(nack.delivery_tag, nack.multiple, |id| {
                    let why = Refusal::Busy("the broker could not take the message".to_owned());
                    events.settled(id, Settled::Refused(why));
                });
            }
            Method::BasicGetEmpty(_) if ch == PLAIN => self.on_read(None, cx),
            Method::BasicConsumeOk(_) => self.subscriptions.on_consume_ok(ch, events),
            Method::BasicCancelOk(_) => {
                self.subscriptions
                    .on_cancel_ok(ch, &mut self.machine, cx.out)
            }
            Method::BasicCancel(_) if ch == PLAIN => {
                let why = Refusal::Busy("the queue of answers is gone".to_owned());
                self.on_questions_lost(&why, events);
            }
            Method::BasicCancel(_) => self.subscriptions.on_cancel(ch, &mut self.machine, cx),
            Method::ChannelFlow(channel::Flow { active }) => {
                let flow_ok = Method::ChannelFlowOk(channel::FlowOk { active });
                self.machine.method(ch, &flow_ok, cx.out);
                let place = usize::from(ch.saturating_sub(PLAIN));
                if let Some(is_stopped) = self.is_stopped.get_mut(place) {
                    *is_stopped = !active;
                    if !active {
                        events.pressed();
                    }
                }
            }
            Method::ChannelFlowOk(_) => _ = self.conn.answered(events),
            // Settles confirms whose messages were written together with a later confirmed one.
            _ => {}
        }
    }

    /// A last value that was asked for.
    fn on_got(
        &mut self,
        got: &basic::GetOk<'_>,
        basic: &BasicProperties<'_>,
        payload: &[u8],
        cx: &mut Cx<'_>,
    ) {
        let mut scratch = std::mem::take(&mut self.scratch);
        let mut origin = std::mem::take(&mut self.origin);
        origin.set(got.exchange, got.routing_key);
        let inbound = Inbound {
            is_last_value: true,
            ..scratch.inbound(&origin, basic, payload).0
        };
        self.on_read(Some(&inbound), cx);
        (self.scratch, self.origin) = (scratch, origin);
    }

    fn on_read(&mut self, value: Option<&Inbound<'_>>, cx: &mut Cx<'_>) {
        if let Some((Some(request), _)) = self.questions.reads.pop_front() {
            cx.events.answered(request, Ok(value));
        }
        while let Some((None, _)) = self.questions.reads.front() {
            self.questions.reads.pop_front();
        }
        self.ask_for_value(cx.out);
    }

    /// Asks for the first of the last values that are wanted.
    fn ask_for_value(&mut self, out: &mut Vec<u8>) {
        if let Some((_, queue)) = self.questions.reads.front() {
            let get = basic::Get {
                queue,
                no_ack: true,
            };
            self.machine.method(PLAIN, &Method::BasicGet(get), out);
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
        self.origin.set(deliver.exchange, deliver.routing_key);
        let receiver = match ch {
            PLAIN => None,
            ch => self.subscriptions.receiver(ch, deliver.delivery_tag),
        };
        let delivery = receiver.and_then(|receiver| receiver.delivery);
        let (inbound, was_delivered) = self.scratch.inbound(&self.origin, basic, payload);
        let inbound = Inbound {
            subscription: receiver.map(|receiver| receiver.id),
            delivery,
            reliability: match delivery {
                Some(_) => Reliability::AtLeastOnce,
                None => Reliability::AtMostOnce,
            },
            repeated: deliver.redelivered || was_delivered,
            ..inbound
        };
        if ch != PLAIN {
            // Of a channel that is none of ours nothing comes: the machine knows which are open.
            return if receiver.is_some() {
                events.received(&inbound)
            };
        }
        let waiting = &mut self.questions.waiting;
        if let Some(request) = inbound.correlation.and_then(|it| waiting.take(it)) {
            events.answered(request, Ok(Some(&inbound)));
        }
    }
}

impl Scratch {
    /// Decodes a delivery, and whether the queue marks it as redelivered.
    fn inbound<'m>(
        &'m mut self,
        origin: &'m Origin,
        basic: &BasicProperties<'m>,
        payload: &'m [u8],
    ) -> (Inbound<'m>, bool) {
        self.properties.clear();
        self.reply_to.clear();
        let said = properties::read(basic, &mut self.properties);
        if let Some(key) = basic.reply_to {
            write_reply(key, &mut self.reply_to);
        }
        let inbound = Inbound {
            content_type: basic.content_type,
            properties: Properties(&self.properties),
            reply_to: basic.reply_to.is_some().then_some(&self.reply_to),
            correlation: said.correlation,
            stamp: said.stamp,
            lifespan: said.lifespan,
            ..Inbound::new(said.address.unwrap_or(&origin.address), payload)
        };
        (inbound, said.was_delivered)
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

/// Maps the peer's reply code to a refusal.
fn refusal_of(code: u16, text: &str) -> Refusal {
    match ReplyCode::of(code) {
        Some(ReplyCode::ResourceLocked | ReplyCode::ResourceError | ReplyCode::InternalError) => {
            Refusal::Busy(text.to_owned())
        }
        _ => Refusal::Denied(text.to_owned()),
    }
}
