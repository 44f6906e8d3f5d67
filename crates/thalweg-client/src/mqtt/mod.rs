//! MQTT 3.1.1 and 5 as a lane: [`Mqtt`].
//!
//! What `thalweg-mqtt` leaves to its users is here: which publish a packet identifier belongs to, also when a session goes
//! on after a lost connection; QoS 2 in both directions; keep alive; and requests and last values, which MQTT has no packets
//! for. Start reading at the implementation of `Transport`.

mod aliasing;
mod flights;
mod inbound;
mod load;
mod mapping;
#[cfg(feature = "multicast")]
pub(crate) mod multicast;
mod questions;
mod settings;
mod subscriptions;
#[cfg(test)]
mod tests;

use std::hash::{BuildHasher, Hasher};

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use thalweg_model::{Reliability, Span, Stamp, Time};
use thalweg_mqtt::{
    ClientSide, ConnectOut, DisconnectProps, PublishOut, QoS, ReasonCode, RetainHandling,
    ServerOffer, SubscribeOptions, SubscribeOut, UnsubscribeOut, Version, WillOut, topic,
};

use self::aliasing::Aliasing;
use self::flights::{Flights, Purpose};
use self::load::LoadBook;
use self::mapping::Pairs;
use self::questions::{Held, Questions, Read, WayBack};
pub use self::settings::MqttSettings;
use self::subscriptions::{Entry, OWN_IDENTIFIERS, Subscriptions};
use crate::builder::ClientBuilder;
use crate::message::Retain;
use crate::plugin::{Asked, Connection, Cx, Plugin, PluginSettings, Step, has_connection};
use crate::presence;
use crate::transport::{
    Capabilities, DeliveryId, Departure, Endpoint, LinkFault, Opening, Outbound, Refusal,
    RequestId, SubscribeWish, SubscriptionId, Transport,
};
use crate::url::BrokerUrl;

/// The lane to a broker.
pub(crate) fn lanes(url: &BrokerUrl, settings: &PluginSettings) -> Vec<Box<dyn Transport>> {
    vec![Box::new(Mqtt::new(url.endpoint(), settings.get()))]
}

impl ClientBuilder {
    /// 5 (default), or 4 for MQTT 3.1.1.
    #[must_use]
    pub fn mqtt_version(mut self, version: u8) -> Self {
        self.fault = (!matches!(version, 4 | 5))
            .then(|| format!("there is no MQTT version {version}: 5, or 4 for MQTT 3.1.1"));
        let settings = self.plugins.get();
        self.plugins.set(MqttSettings {
            version,
            ..settings
        });
        self
    }
}

/// A lane that speaks MQTT.
#[derive(Debug)]
pub struct Mqtt {
    conn: Connection,
    settings: MqttSettings,
    /// Protocol version: that of the settings, or an older one if the server supports no other.
    version: Version,
    side: ClientSide,
    /// Number of the connection, from 1.
    connection: u32,
    /// Whether CONNECT asked for a session that outlives its connection.
    wants_session: bool,
    /// Whether a connection of this machine was ever up.
    was_up: bool,
    /// The last one that was.
    last_up: u32,
    /// Our name, as far as it is known.
    client_id: String,
    announces_stamps: bool,
    flights: Flights,
    /// An identifier whose packet was not written.
    spare_id: Option<u16>,
    /// QoS 2 messages that came: true once PUBREC has left. [MQTT-4.3.3-10]
    incoming: HashMap<u16, bool, FixedState>,
    subscriptions: Subscriptions,
    /// Purpose of each awaited SUBACK, by packet identifier.
    awaited: Vec<(u16, Awaited)>,
    questions: Questions,
    /// Counts identifiers of our own subscriptions.
    own_identifier: u32,
    aliasing: Aliasing,
    load: LoadBook,
    /// The last one that was measured.
    round_trip: Span,
    /// The user's properties of the message that is being told.
    scratch: Vec<u8>,
}

/// Purpose of an awaited SUBACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Awaited {
    Subscription(SubscriptionId),
    Read(RequestId),
    WayBack,
}

/// QoS 2 publishes under way at a time in MQTT 3.
const EXACTLY_ONCE_MAX_V3: usize = 20;

/// Longest time from SUBACK to the last value, besides four round trips: the specification sets no time.
const VALUE_WITHIN: Span = Span::from_millis(250);

/// Bytes of a PUBLISH reserved for properties when the largest payload is computed.
const ROOM_FOR_HEADERS: usize = 256;

impl Mqtt {
    /// A lane to this endpoint, not connected yet.
    pub fn new(endpoint: Endpoint, settings: MqttSettings) -> Self {
        let version = match settings.version {
            ..=3 => Version::V31,
            4 => Version::V311,
            _ => Version::V5,
        };
        let nonce = settings
            .seed
            .unwrap_or_else(|| std::hash::RandomState::new().build_hasher().finish());
        Mqtt {
            conn: Connection::new(endpoint, usize::MAX),
            version,
            side: ClientSide::new(settings.packet_bytes_max),
            connection: 0,
            wants_session: false,
            was_up: false,
            last_up: 0,
            client_id: String::new(),
            announces_stamps: false,
            flights: Flights::new(),
            spare_id: None,
            incoming: HashMap::with_hasher(FixedState::default()),
            subscriptions: Subscriptions::new(),
            awaited: Vec::new(),
            questions: Questions::new(nonce),
            own_identifier: 0,
            aliasing: Aliasing::new(),
            load: LoadBook::default(),
            round_trip: Span::ZERO,
            scratch: Vec::new(),
            settings,
        }
    }

    /// The settings in force.
    pub fn settings(&self) -> &MqttSettings {
        &self.settings
    }

    /// Features that the server has announced; before that, the defaults of the specification.
    pub fn offer(&self) -> &ServerOffer {
        self.side.offer()
    }

    fn write(
        &mut self,
        message: &Outbound<'_>,
        purpose: Purpose,
        out: &mut Vec<u8>,
    ) -> Asked<Departure> {
        topic::validate_name(message.address).map_err(|_| Refusal::Address)?;
        if message
            .reply_to
            .is_some_and(|reply_to| topic::validate_name(reply_to).is_err())
        {
            return Err(Refusal::Address);
        }
        let qos = mapping::qos(message.reliability);
        let is_counted = qos != QoS::AtMostOnce;
        let id = match is_counted {
            true => self.id_for(message, purpose, qos)?,
            false => Some((0, false)),
        };
        // It was taken on an earlier connection, and PUBREL has left again: PUBCOMP will come.
        let Some((id, is_old)) = id else {
            return Ok(Departure::Awaited);
        };
        let is_clear = message.retain == Retain::Clear;
        let mut buffer = [0; Stamp::TEXT_BYTES_MAX];
        let pairs = Pairs {
            properties: message.properties,
            stamp: message.stamp.map(|stamp| stamp.write_text(&mut buffer)),
        };
        let has_pairs =
            self.version.is_v5() && (pairs.stamp.is_some() || !message.properties.is_empty());
        let packet = PublishOut {
            // Under a new identifier it is another packet. [MQTT-3.3.1-3]
            dup: is_old,
            qos,
            retain: message.retain != Retain::No,
            topic: message.address,
            id,
            payload: if is_clear { &[] } else { message.payload },
            expiry_secs: mapping::expiry(message.lifespan),
            payload_format: message.is_text.then_some(1),
            content_type: message.content_type,
            response_topic: message.reply_to,
            correlation_data: message.correlation,
            user: if has_pairs { Some(&pairs) } else { None },
            subscription_ids: &[],
            allow_alias: self.aliasing.wants(message.address),
        };
        if let Err(error) = self.side.publish(&packet, out) {
            if is_counted && !is_old {
                self.spare_id = Some(id);
            }
            let overhead = message.address.len() + ROOM_FOR_HEADERS;
            return Err(mapping::not_sent(error, overhead));
        }
        if !is_counted {
            return Ok(Departure::Gone);
        }
        let now = self.conn.now();
        self.flights.begin(id, purpose, qos, self.connection, now);
        Ok(Departure::Awaited)
    }

    /// The identifier for this publish, and whether it had it before: a session goes on with it. Nothing: there is nothing
    /// to publish, the server has it. [MQTT-4.4.0-1]
    fn id_for(
        &mut self,
        message: &Outbound<'_>,
        purpose: Purpose,
        qos: QoS,
    ) -> Asked<Option<(u16, bool)>> {
        let mut old = None;
        if message.repeated
            && let Purpose::Message(name) = purpose
            && let Some(id) = self.flights.resumed(name)
            && let Some(flight) = self.flights.get_mut(id)
        {
            if flight.is_released {
                (flight.connection, flight.sent_at) = (self.connection, self.conn.now());
                return Ok(None);
            }
            old = Some(id).filter(|_| flight.qos == qos);
        }
        if !self.has_room_for(qos) {
            return Err(Refusal::Window);
        }
        if let Some(id) = old {
            return Ok(Some((id, true)));
        }
        self.take_id().map(|id| Some((id, false)))
    }

    fn take_id(&mut self) -> Asked<u16> {
        let id = self.spare_id.take().or_else(|| self.side.next_id());
        id.ok_or(Refusal::Window)
    }

    /// Whether the server takes one more. MQTT 3 has no words for how many that are; mosquitto 2.0 loses QoS 2 publishes
    /// beyond its `max_inflight_messages`, 20, and acknowledges them all the same.
    fn has_room_for(&self, qos: QoS) -> bool {
        let is_bounded = !self.version.is_v5() && qos == QoS::ExactlyOnce;
        self.side.send_quota() > 0
            && !(is_bounded && self.flights.exactly_once() >= EXACTLY_ONCE_MAX_V3)
    }

    /// Sends SUBSCRIBE, and remembers what its answer is for.
    fn subscribe(
        &mut self,
        filter: (&str, SubscribeOptions),
        identifier: u32,
        awaited: Awaited,
        out: &mut Vec<u8>,
    ) -> Asked {
        let id = self.take_id()?;
        let packet = SubscribeOut {
            id,
            filters: &[filter],
            subscription_id: Some(identifier).filter(|id| *id != 0),
            user: None,
        };
        if let Err(error) = self.side.subscribe(&packet, out) {
            self.spare_id = Some(id);
            return Err(Refusal::TooLarge {
                limit: error.packet_bytes_max as usize,
            });
        }
        self.awaited.push((id, awaited));
        Ok(())
    }

    fn leave(&mut self, filter: &str, out: &mut Vec<u8>) {
        let Ok(id) = self.take_id() else { return };
        let packet = UnsubscribeOut {
            id,
            filters: &[filter],
            user: None,
        };
        if self.side.unsubscribe(&packet, out).is_err() {
            self.spare_id = Some(id);
        }
    }

    /// Whether the server supports subscription identifiers.
    fn has_identifiers(&self) -> bool {
        self.version.is_v5() && self.side.offer().subscription_ids_available
    }

    fn fresh_identifier(&mut self) -> u32 {
        if !self.has_identifiers() {
            return 0;
        }
        self.own_identifier = (self.own_identifier + 1) % OWN_IDENTIFIERS;
        OWN_IDENTIFIERS + self.own_identifier
    }

    /// Lets questions go that waited for the way back, or for room.
    fn ask_held(&mut self, cx: &mut Cx<'_>) {
        let WayBack::Open { topic } = &self.questions.way_back else {
            return;
        };
        let topic = topic.clone();
        let mut held = std::mem::take(&mut self.questions.held);
        held.retain(|question| {
            let message = question.message(&topic);
            match self.write(&message, Purpose::Question(question.request), cx.out) {
                Ok(_) => {
                    let correlation = message.correlation.unwrap_or_default().to_vec();
                    self.questions.asked.add(correlation, question.request);
                    return false;
                }
                Err(Refusal::Window) => self.conn.hold(),
                Err(refusal) => {
                    cx.events.answered(question.request, Err(refusal));
                    return false;
                }
            }
            true
        });
        self.questions.held = held;
    }

    /// A read of a last value has ended: its subscription ends, unless it has another user.
    fn finish_read(&mut self, read: &Read, out: &mut Vec<u8>) {
        let mut reads = self.questions.reads.iter();
        let is_shared = self.subscriptions.of_filter(&read.address).is_some()
            || reads.any(|other| other.address == read.address);
        if !is_shared {
            self.leave(&read.address, out);
        }
    }
}

impl Plugin for Mqtt {
    const PROTOCOL: &'static str = "mqtt";
    const PUBLISHES: Reliability = Reliability::ExactlyOnce;
    const QUESTION: &'static str = "PINGREQ";
    type Scratch = ();

    has_connection!();

    fn offers(&self) -> Capabilities {
        let (offer, v5) = (self.side.offer(), self.version.is_v5());
        Capabilities {
            reliability_max: mapping::reliability(offer.maximum_qos),
            stamps: self.announces_stamps && v5,
            carries_stamps: v5,
            wildcards: offer.wildcard_available,
            properties: v5,
            lifespan: v5,
            requests: v5,
            last_values: offer.retain_available,
            payload_bytes_max: (offer.packet_bytes_max as usize)
                .min(1 << 28)
                .saturating_sub(ROOM_FOR_HEADERS),
            ..mapping::CAPABILITIES
        }
    }

    fn connect(&mut self, opening: &Opening, out: &mut Vec<u8>) -> Step {
        self.connection = self.connection.wrapping_add(1);
        self.side = ClientSide::new(self.settings.packet_bytes_max);
        self.spare_id = None;
        self.awaited.clear();
        self.load.begin(None, self.conn.now());
        let v5 = self.version.is_v5();
        // MQTT 3.1.1 keeps no session for a client without an identifier. [MQTT3-3.1.3-7]
        self.wants_session = opening.session > Span::ZERO && (v5 || !opening.client_id.is_empty());
        self.client_id.clone_from(&opening.client_id);
        if self.wants_session {
            for id in self.flights.ids() {
                self.side.reserve_id(id);
            }
        }
        let clean_start = match self.settings.clean_start {
            // Without clean start the server looks for a session of an earlier process, even if it keeps none of ours.
            Some(clean_start) if !self.was_up => clean_start,
            _ => !self.wants_session,
        };
        let keep_alive = u16::try_from(opening.keep_alive.secs_ceil()).unwrap_or(u16::MAX);
        let will = opening.will.as_ref().map(|will| WillOut {
            message: PublishOut {
                topic: &will.address,
                payload: &will.payload,
                qos: mapping::qos(will.reliability),
                retain: will.retain,
                ..PublishOut::default()
            },
            delay_secs: self.settings.will_delay_secs,
        });
        // A password needs a user name in MQTT 3. [MQTT3-3.1.2-22]
        let nobody = opening.password.as_ref().filter(|_| !v5).map(|_| "");
        let connect = ConnectOut {
            version: self.version,
            client_id: &opening.client_id,
            clean_start,
            keep_alive,
            will,
            username: opening.user.as_deref().or(nobody),
            password: opening.password.as_deref(),
            session_expiry: mapping::session_expiry(opening.session),
            receive_max: self.settings.receive_max.max(1),
            packet_bytes_max: Some(self.settings.packet_bytes_max),
            topic_alias_max: self.settings.aliases_max,
            request_response_info: true,
            request_problem_info: true,
            user: None,
            auth_method: None,
            auth_data: None,
        };
        let is_said = self.side.connect(&connect, out);
        // Not all servers keep to it, and there is room.
        self.side.tolerate_excess();
        self.round_trip = Span::ZERO;
        is_said.map_err(|_| {
            LinkFault::temporary("user name, password or will do not fit into CONNECT")
        })
    }

    fn step(&mut self, input: &[u8], _: &mut (), cx: &mut Cx<'_>) -> Step<Option<usize>> {
        match self.side.handle_input(input) {
            Ok(Some((len, event))) => self.on_event(event, cx).map(|()| Some(len)),
            Ok(None) => Ok(None),
            Err(fault) => {
                self.side.fault(&fault, cx.out);
                Err(LinkFault::temporary(fault))
            }
        }
    }

    fn next_timeout(&self) -> Time {
        self.questions.next().min(self.load.next())
    }

    fn on_timeout(&mut self, cx: &mut Cx<'_>) -> Step {
        let now = self.conn.now();
        if self.load.next() <= now {
            self.ping(cx.out);
            self.conn.liveness().asked(now);
        }
        let is_over = |read: &Read| read.until <= now;
        while let Some(at) = self.questions.reads.iter().position(is_over) {
            let read = self.questions.reads.swap_remove(at);
            self.finish_read(&read, cx.out);
            cx.events.answered(read.request, Ok(None));
        }
        Ok(())
    }

    fn has_room(&self) -> bool {
        self.has_room_for(QoS::ExactlyOnce)
    }

    fn on_room(&mut self, cx: &mut Cx<'_>) {
        // As much was under way as the server takes: more would only wait. In MQTT 3 it has not said so.
        if self.version.is_v5() {
            cx.events.pressed();
        }
        cx.events.room();
        self.ask_held(cx);
    }

    fn send(&mut self, message: &Outbound<'_>, out: &mut Vec<u8>) -> Asked<Departure> {
        self.write(message, Purpose::Message(message.id), out)
    }

    fn begin_subscription(&mut self, wish: &SubscribeWish<'_>, out: &mut Vec<u8>) -> Asked {
        // MQTT 3.1.1 does not tell whose broker it is.
        let may_be_thalweg = self.announces_stamps || !self.version.is_v5();
        if let Some(refusal) = presence::refusal(wish.filter, may_be_thalweg) {
            return Err(refusal);
        }
        // A queue is taken from through a group; its name does not matter.
        let queue = wish
            .filter
            .strip_prefix("$q/")
            .map(|name| format!("$share/any/$q/{name}"));
        let filter = queue.as_deref().unwrap_or(wish.filter);
        topic::validate_filter(filter).map_err(|_| Refusal::Address)?;
        let share = topic::ShareFilter::parse(filter).map_err(|_| Refusal::Address)?;
        let offer = *self.side.offer();
        if share.is_some() && !offer.shared_available {
            return Err(Refusal::Unsupported(
                "the server knows no shared subscriptions",
            ));
        }
        if topic::has_wildcard(filter) && !offer.wildcard_available {
            return Err(Refusal::Unsupported("the server knows no wildcards"));
        }
        let known = self.subscriptions.get_mut(wish.subscription);
        let is_again = known.is_some_and(|entry| entry.is_confirmed && entry.filter == filter);
        let fits = self.has_identifiers() && wish.subscription.0 < OWN_IDENTIFIERS - 1;
        let identifier = if fits { wish.subscription.0 + 1 } else { 0 };
        let options = SubscribeOptions {
            qos: mapping::qos(wish.reliability),
            no_local: self.settings.no_local
                && self.version.is_v5()
                && !wish.filter.starts_with("$share/"),
            retain_as_published: false,
            retain_handling: match (wish.last_values, is_again) {
                (false, _) => RetainHandling::DoNotSend,
                (true, false) => RetainHandling::Send,
                // The session has gone on, and has brought them.
                (true, true) => RetainHandling::SendIfNew,
            },
        };
        let awaited = Awaited::Subscription(wish.subscription);
        self.subscribe((filter, options), identifier, awaited, out)?;
        self.subscriptions.insert(Entry {
            subscription: wish.subscription,
            filter: filter.to_owned(),
            reliability: wish.reliability,
            last_values: wish.last_values,
            is_shared: share.is_some(),
            identifier,
            is_confirmed: is_again,
        });
        Ok(())
    }

    fn end_subscription(&mut self, id: SubscriptionId, out: &mut Vec<u8>) {
        let Some(entry) = self.subscriptions.remove(id) else {
            return;
        };
        if self.side.is_connected() {
            self.leave(&entry.filter, out);
        } else if self.wants_session {
            self.subscriptions.leave_later(entry.filter);
        }
    }

    fn acknowledge(&mut self, delivery: DeliveryId, out: &mut Vec<u8>) {
        let Some((connection, qos, id)) = inbound::parts(delivery) else {
            return;
        };
        self.load.finished(delivery, self.conn.now());
        // Of an earlier connection: the server will ask again.
        if connection != self.connection || !self.side.is_connected() {
            return;
        }
        match (qos, self.incoming.get_mut(&id)) {
            (QoS::AtLeastOnce, _) => self.side.puback(id, ReasonCode::Success, out),
            (QoS::ExactlyOnce, Some(has_answer @ false)) => {
                *has_answer = true;
                self.side.pubrec(id, ReasonCode::Success, out);
            }
            _ => {}
        }
    }

    fn ask(&mut self, id: RequestId, message: &Outbound<'_>, out: &mut Vec<u8>) -> Asked {
        if !self.version.is_v5() {
            return Err(Refusal::Unsupported("requests need MQTT 5"));
        }
        let correlation = self.questions.correlation(id, message.correlation);
        match self.questions.way_back.clone() {
            WayBack::Open { topic } => {
                let question = Outbound {
                    reply_to: Some(&topic),
                    correlation: Some(&correlation),
                    ..*message
                };
                self.write(&question, Purpose::Question(id), out)?;
                self.questions.asked.add(correlation, id);
                return Ok(());
            }
            WayBack::Asked { .. } => {}
            WayBack::Closed { topic } => {
                topic::validate_name(message.address).map_err(|_| Refusal::Address)?;
                let options = SubscribeOptions {
                    qos: QoS::AtLeastOnce,
                    retain_handling: RetainHandling::DoNotSend,
                    ..SubscribeOptions::default()
                };
                self.subscribe((&topic, options), 0, Awaited::WayBack, out)?;
                self.questions.way_back = WayBack::Asked { topic };
            }
        }
        let held = Held::new(id, correlation, message);
        self.questions.held.push(held);
        Ok(())
    }

    fn ask_value(&mut self, id: RequestId, address: &str, out: &mut Vec<u8>) -> Asked {
        if !self.side.offer().retain_available {
            return Err(Refusal::Unsupported("the server keeps no last values"));
        }
        topic::validate_name(address).map_err(|_| Refusal::Address)?;
        // A SUBSCRIBE takes the place of one with the same filter: the user's goes on as it was. [MQTT-3.8.4-3]
        let (qos, identifier) = match self.subscriptions.of_filter(address) {
            Some(entry) => (mapping::qos(entry.reliability), entry.identifier),
            None => (QoS::AtMostOnce, self.fresh_identifier()),
        };
        let options = SubscribeOptions {
            qos,
            ..SubscribeOptions::default()
        };
        self.subscribe((address, options), identifier, Awaited::Read(id), out)?;
        self.questions.reads.push(Read {
            request: id,
            address: address.to_owned(),
            until: Time::NEVER,
        });
        Ok(())
    }

    fn drop_question(&mut self, id: RequestId) {
        // A read ends by itself, and its subscription with it.
        self.questions.forget(id);
    }

    fn ping(&mut self, out: &mut Vec<u8>) {
        match self.load.report(self.conn.now()) {
            Some(report) => _ = self.side.ping_with(&report, out),
            None => self.side.ping(out),
        }
    }

    fn say_goodbye(&mut self, out: &mut Vec<u8>) {
        let (normal, none) = (ReasonCode::NORMAL_DISCONNECTION, DisconnectProps::default());
        self.side.disconnect(normal, &none, out);
    }

    fn reset(&mut self) {
        self.side = ClientSide::new(self.settings.packet_bytes_max);
        self.flights.connection_ended(self.last_up);
        self.awaited.clear();
        self.questions.begin(String::new());
    }
}
