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

use thalweg_model::{Reliability, STAMPS_ANNOUNCEMENT, Span};
use thalweg_stomp::{
    AckMode, AckOut, ClientEvent, ClientSide, ConnectOut, ConnectedFrame, ErrorFrame, FrameLimits,
    HeaderWriter, MessageFrame, SendOut, SubscribeOut, Version, heart_beats,
};

use self::deliveries::Deliveries;
use self::destination::Idiom;
use self::headers::{Question, Scratch};
pub use self::settings::StompSettings;
use self::subscriptions::{Common, Subscriptions};
use crate::plugin::{
    Asked, Blame, Connection, Cx, Pending, Plugin, PluginSettings, Step, Window, has_connection,
};
use crate::presence;
use crate::queues::{Session, correlation_of};
use crate::transport::{
    Capabilities, DeliveryId, Departure, Endpoint, Events, Inbound, LinkFault, Opening, Outbound,
    Properties, Refusal, RequestId, Settled, SubscribeWish, SubscriptionId, Transport, Welcome,
};
use crate::url::BrokerUrl;

/// Where answers come: a queue of the connection's own, and the name of the subscription to it.
const ANSWERS: &str = "/temp-queue/answers";
/// The transaction, and the receipt, of a probe.
const PROBE: &str = "p";
/// Number of its heart-beat intervals that a peer may be silent.
const PATIENCE: u64 = 3;

/// The lane to a broker.
pub(crate) fn lanes(url: &BrokerUrl, settings: &PluginSettings) -> Vec<Box<dyn Transport>> {
    let mut settings: StompSettings = settings.get();
    if let Some(vhost) = &url.virtual_host {
        settings.vhost.clone_from(vhost);
    }
    vec![Box::new(Stomp::new(url.endpoint(), settings))]
}

/// A lane that speaks STOMP 1.2.
pub struct Stomp {
    conn: Connection,
    settings: StompSettings,
    machine: ClientSide,
    idiom: Idiom,
    stamps: bool,
    /// The peer has said what it is.
    is_known: bool,
    common: Common,
    /// Desired interval of the peer's heart-beats, in milliseconds.
    keep_alive: u32,
    /// Publishes that wait for their receipts, which are their numbers.
    window: Window,
    /// The last connection ended with an ERROR for one of several things: on this one they are done one at a time.
    is_careful: bool,
    was_ambiguous: bool,
    /// Number of receipts requested before the last message without one, which may be the cause of an ERROR, too.
    loose_since: Option<u64>,
    subscriptions: Subscriptions,
    deliveries: Deliveries,
    /// Questions, by their correlations.
    questions: Pending<Vec<u8>>,
    /// Last values that were asked for, by the names of their subscriptions.
    reads: Pending<String>,
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
        let idiom = Idiom {
            dialect: settings.dialect,
            is_thalweg: false,
        };
        Stomp {
            conn: Connection::new(endpoint, settings.payload_bytes_max),
            window: Window::new(settings.unconfirmed_max),
            settings,
            machine,
            idiom,
            stamps: false,
            is_known: false,
            common: Common::default(),
            keep_alive: 0,
            is_careful: false,
            was_ambiguous: false,
            loose_since: None,
            subscriptions: Subscriptions::default(),
            deliveries: Deliveries::default(),
            questions: Pending::default(),
            reads: Pending::default(),
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

impl Plugin for Stomp {
    const PROTOCOL: &'static str = "stomp";
    const SUBSCRIBES: Reliability = Reliability::AtLeastOnce;
    type Scratch = ();

    has_connection!();

    fn offers(&self) -> Capabilities {
        Capabilities {
            stamps: self.stamps,
            requests: true,
            last_values: self.idiom.is_thalweg || !self.is_known,
            ..crate::queues::CAPABILITIES
        }
    }

    fn connect(&mut self, opening: &Opening, out: &mut Vec<u8>) -> Step {
        self.machine = new_machine(&self.settings);
        self.is_careful = std::mem::take(&mut self.was_ambiguous);
        self.common = Common {
            prefetch: self.settings.prefetch.max(1),
            session: Session::of(Self::PROTOCOL, self.conn.endpoint(), opening),
            is_careful: self.is_careful,
        };
        let keep_alive = u32::try_from(opening.keep_alive.millis()).unwrap_or(u32::MAX);
        self.keep_alive = keep_alive;
        // Without credentials the login is `guest`, the default of STOMP brokers.
        let password = opening.password.as_deref().map(String::from_utf8_lossy);
        let credentials = match (&opening.user, &password) {
            (None, None) => (Some("guest"), Some("guest")),
            (user, password) => (user.as_deref(), password.as_deref()),
        };
        let client = [("client-id", opening.client_id.as_str())];
        let host = match self.settings.vhost.as_str() {
            "" => &self.conn.endpoint().host,
            vhost => vhost,
        };
        let connect = ConnectOut {
            lowest: Version::V12,
            highest: Version::V12,
            host,
            login: credentials.0,
            passcode: credentials.1,
            heart_beat: (keep_alive, keep_alive),
            headers: &client[..usize::from(!opening.client_id.is_empty())],
        };
        self.machine.connect(&connect, out);
        Ok(())
    }

    fn step(&mut self, input: &[u8], _: &mut (), cx: &mut Cx<'_>) -> Step<Option<usize>> {
        match self.machine.handle_input(input) {
            Ok(Some((len, event))) => self.on_event(event, cx).map(|()| Some(len)),
            Ok(None) => Ok(None),
            Err(fault) => Err(LinkFault::temporary(fault)),
        }
    }

    fn after_input(&mut self, cx: &mut Cx<'_>) {
        self.pump(cx.out);
    }

    fn has_room(&self) -> bool {
        !(self.is_careful && self.subscriptions.are_any_asked()) && self.window.has_room_again()
    }

    #[inline]
    fn send(&mut self, message: &Outbound<'_>, out: &mut Vec<u8>) -> Asked<Departure> {
        self.check_room(message)?;
        if message.reliability == Reliability::AtLeastOnce {
            self.write(message, None, true, out)?;
            self.window.push(message.id);
            return Ok(Departure::Awaited);
        }
        // While a culprit is looked for, it must be known of everything whether it was the culprit.
        if self.window.is_careful() {
            self.write(message, None, true, out)?;
            self.window.push_anonymous();
        } else {
            self.write(message, None, false, out)?;
            self.loose_since = Some(self.window.next_number());
        }
        Ok(Departure::Gone)
    }

    fn begin_subscription(&mut self, wish: &SubscribeWish<'_>, out: &mut Vec<u8>) -> Asked {
        if let Some(refusal) = presence::refusal(wish.filter, self.stamps) {
            return Err(refusal);
        }
        self.subscriptions.begin(wish, self.idiom, &self.common)?;
        self.pump(out);
        Ok(())
    }

    fn end_subscription(&mut self, id: SubscriptionId, out: &mut Vec<u8>) {
        self.subscriptions.end(id, &self.machine, out);
    }

    #[inline]
    fn acknowledge(&mut self, delivery: DeliveryId, out: &mut Vec<u8>) {
        if let Some(ack) = self.deliveries.take(delivery) {
            self.machine.ack(&ack_out(ack), out);
        }
    }

    fn ask(&mut self, id: RequestId, message: &Outbound<'_>, out: &mut Vec<u8>) -> Asked {
        self.check_room(message)?;
        let correlation = correlation_of(id);
        let question = Question {
            reply_to: ANSWERS,
            correlation: &correlation,
        };
        self.write(message, Some(question), false, out)?;
        self.loose_since = Some(self.window.next_number());
        self.questions.add(correlation, id);
        Ok(())
    }

    fn ask_value(&mut self, id: RequestId, address: &str, out: &mut Vec<u8>) -> Asked {
        if !self.idiom.is_thalweg {
            return Err(Refusal::Unsupported("the broker keeps no last values"));
        }
        if self.is_careful && (self.window.len() > 0 || self.subscriptions.are_any_asked()) {
            return Err(Refusal::Window);
        }
        let mut destination = String::new();
        self.idiom.write(address, &mut destination)?;
        if !destination.starts_with("/topic/") {
            return Err(Refusal::Unsupported(
                "queues and exchanges have no last values",
            ));
        }
        // Subscriptions are numbers, and so are receipts of messages.
        let name = format!("r{}", id.0);
        let subscribe = SubscribeOut {
            id: Some(&name),
            destination: &destination,
            ack: AckMode::Auto,
            receipt: Some(&name),
            headers: &[("x-last-value", "only")],
        };
        self.machine.subscribe(&subscribe, out);
        self.reads.add(name, id);
        Ok(())
    }

    fn drop_question(&mut self, id: RequestId) {
        self.questions.forget(id);
        self.reads.forget(id);
    }

    fn ping(&mut self, out: &mut Vec<u8>) {
        // A transaction of nothing.
        self.machine.begin(PROBE, None, out);
        self.machine.abort(PROBE, Some(PROBE), out);
    }

    fn heartbeat(&mut self, out: &mut Vec<u8>) {
        self.machine.heart_beat(out);
    }

    fn say_goodbye(&mut self, out: &mut Vec<u8>) {
        self.machine.disconnect(None, out);
    }

    fn reset(&mut self) {
        self.window.restart(1);
        self.loose_since = None;
        self.subscriptions.clear();
        self.deliveries.clear();
        self.questions.clear();
        self.reads.clear();
    }
}

fn ack_out(ack: &str) -> AckOut<'_> {
    AckOut {
        ack,
        ..AckOut::default()
    }
}

impl Stomp {
    #[inline]
    fn check_room(&self, message: &Outbound<'_>) -> Asked {
        headers::check(message)?;
        let is_counted = message.reliability != Reliability::AtMostOnce || self.window.is_careful();
        if (self.is_careful && self.subscriptions.are_any_asked())
            || (is_counted && !self.window.has_room())
        {
            return Err(Refusal::Window);
        }
        Ok(())
    }

    /// Writes subscriptions that wait, as far as that may go.
    fn pump(&mut self, out: &mut Vec<u8>) {
        let unconfirmed = self.window.len();
        self.subscriptions
            .pump(unconfirmed, &self.common, &self.machine, out);
    }

    #[inline]
    fn write(
        &mut self,
        message: &Outbound<'_>,
        question: Option<Question<'_>>,
        has_receipt: bool,
        out: &mut Vec<u8>,
    ) -> Asked {
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
            receipt: has_receipt.then(|| digits(self.window.next_number(), &mut buffer)),
            content_type: message.content_type,
            body: message.payload,
        };
        let reply_to = &self.reply_to;
        let write = |w: &mut HeaderWriter<'_>| headers::write(message, reply_to, correlation, w);
        self.machine.send(&send, write, out);
        Ok(())
    }

    fn aim(&mut self, address: &str) -> Result<(), Refusal> {
        self.target.address.clear();
        self.target.destination.clear();
        self.idiom.write(address, &mut self.target.destination)?;
        self.target.address.push_str(address);
        Ok(())
    }

    fn on_event(&mut self, event: ClientEvent<'_>, cx: &mut Cx<'_>) -> Step {
        match event {
            ClientEvent::Message(message) => self.on_message(&message, cx),
            ClientEvent::Receipt(id) => self.on_receipt(&id, cx.events),
            ClientEvent::Connected(connected) => self.on_connected(&connected, cx.events),
            ClientEvent::Error(error) => return Err(self.on_error(&error, cx.events)),
            ClientEvent::HeartBeat => {}
        }
        Ok(())
    }

    fn on_connected(&mut self, connected: &ConnectedFrame<'_>, events: &mut dyn Events) {
        let is_thalweg = connected
            .server
            .as_deref()
            .is_some_and(|server| server.starts_with("Thalweg/"));
        let idiom = Idiom {
            dialect: self.settings.dialect,
            is_thalweg,
        };
        if idiom != self.idiom {
            // The resolved destinations belong to an earlier connection.
            (self.target, self.origin) = Default::default();
        }
        self.idiom = idiom;
        self.is_known = true;
        self.stamps = connected.headers.get(STAMPS_ANNOUNCEMENT).as_deref() == Some("1");
        let keep_alive = self.keep_alive;
        let (gives, wants) = heart_beats((keep_alive, keep_alive), connected.heart_beat);
        // Twice as often as is promised; and some of the peer's may be late.
        let say_after = Span::from_nanos(Span::from_millis(gives.into()).nanos() / 2);
        let hear_within = Span::from_millis(u64::from(wants) * PATIENCE);
        self.conn.liveness().agree(say_after, hear_within);
        self.conn.be_up(&Welcome::default(), events);
        events.round_trip(self.conn.age());
    }

    fn on_receipt(&mut self, id: &str, events: &mut dyn Events) {
        if let Ok(number) = id.parse() {
            if let Some(id) = self.window.take(number) {
                events.settled(id, Settled::Acknowledged);
            }
            // Frames are dealt with in order, so whatever went before it was none that ends the connection.
            self.loose_since = self.loose_since.filter(|loose| number < *loose);
        } else if id == PROBE {
            self.conn.answered(events);
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
                    if let Some(id) = self.window.take(number) {
                        events.settled(id, Settled::Refused(why));
                    }
                }
                Err(_) => match self.reads.take(id) {
                    Some(request) => events.answered(request, Err(why)),
                    None => self.subscriptions.on_refused(id, why, events),
                },
            },
            None if self.conn.is_up() => self.blame(&why, events),
            None => {}
        }
        // Before CONNECTED an ERROR concerns login or host; afterwards a frame of ours.
        LinkFault {
            words: format!("the broker ends the connection: {words}"),
            is_final: !self.conn.is_up(),
        }
    }

    /// Something that we said was wrong, and the peer does not say what. If only one thing can be meant it is that; if not,
    /// everything goes one at a time on the next connection.
    fn blame(&mut self, why: &Refusal, events: &mut dyn Events) {
        let asked = self.subscriptions.asked_count();
        let suspects = self.window.len() + asked;
        if suspects == 0 {
            return;
        }
        self.was_ambiguous = suspects > 1 || self.loose_since.is_some();
        if self.was_ambiguous {
            self.window.be_careful();
        } else if asked == 1 {
            self.subscriptions.on_last_refused(why, events);
        } else {
            self.window.take_culprit(|id, blame| {
                if blame == Blame::Culprit {
                    events.settled(id, Settled::Refused(why.clone()));
                }
            });
        }
    }

    fn on_message(&mut self, message: &MessageFrame<'_>, cx: &mut Cx<'_>) {
        let events = &mut *cx.events;
        let Some(name) = message.subscription.as_deref() else {
            return;
        };
        let receiver = self.subscriptions.receiver(name);
        let read = match receiver {
            None => self.reads.take(name),
            Some(_) => None,
        };
        if receiver.is_none() && read.is_none() && name != ANSWERS {
            // It crossed our UNSUBSCRIBE, and goes back.
            if let Some(ack) = &message.ack {
                self.machine.nack(&ack_out(ack), cx.out);
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
        let request = inbound.correlation.and_then(|it| self.questions.take(it));
        if let Some(request) = request {
            events.answered(request, Ok(Some(&inbound)));
        }
    }
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
