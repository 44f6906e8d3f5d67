//! MQTT 3.1.1 and 5 as a lane: [`Mqtt`].
//!
//! What `thalweg-mqtt` leaves to its users is here: which publish a packet identifier belongs to, also when a session goes
//! on after a lost connection; QoS 2 in both directions; keep alive; and requests and last values, which MQTT has no packets
//! for. Start reading at the implementation of `Transport`.

mod aliasing;
mod flights;
mod inbound;
mod load;
mod questions;
mod settings;
mod subscriptions;
#[cfg(test)]
mod tests;
mod words;

use std::hash::{BuildHasher, Hasher};
use std::net::SocketAddr;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use thalweg_model::{Span, Time};
use thalweg_mqtt::{
    ClientSide, ConnectOut, DisconnectProps, PublishOut, QoS, ReasonCode, RetainHandling,
    ServerOffer, SubscribeOptions, SubscribeOut, UnsubscribeOut, Version, WillOut, topic,
};

use self::aliasing::Aliasing;
use self::flights::{Flights, Purpose};
use self::load::LoadBook;
use self::questions::{Held, Questions, Read, WayBack};
pub use self::settings::MqttSettings;
use self::subscriptions::{Entry, OWN_IDENTIFIERS, Subscriptions};
use self::words::{Pairs, StampText};
use crate::liveness::Liveness;
use crate::message::Retain;
use crate::presence;
use crate::transport::{
    Capabilities, Counters, DeliveryId, Departure, Endpoint, Events, LinkFault, Opening, Outbound,
    Output, Refusal, RequestId, SubscribeWish, SubscriptionId, Transport,
};

/// A lane that speaks MQTT.
#[derive(Debug)]
pub struct Mqtt {
    endpoint: Endpoint,
    settings: MqttSettings,
    /// The version that is spoken: that of the settings, or an older one if the server knows no other.
    version: Version,
    side: ClientSide,
    /// Counts connections.
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
    /// What an awaited SUBACK answers.
    awaited: Vec<(u16, Awaited)>,
    questions: Questions,
    /// Counts identifiers of our own subscriptions.
    own_identifier: u32,
    aliasing: Aliasing,
    load: LoadBook,
    /// Keep alive. §3.1.2.10
    liveness: Liveness,
    /// The last one that was measured.
    round_trip: Span,
    /// CONNECT cannot be written.
    is_mute: bool,
    /// A publish was refused because the server's Receive Maximum was used up.
    was_full: bool,
    /// The user's properties of the message that is being told.
    scratch: Vec<u8>,
}

/// What a SUBACK is awaited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Awaited {
    Subscription(SubscriptionId),
    Read(RequestId),
    WayBack,
}

/// QoS 2 publishes under way at a time in MQTT 3.
const EXACTLY_ONCE_MAX_V3: usize = 20;

/// How long after SUBACK a last value may take, beside four round trips: the specification does not say when it comes.
const VALUE_WITHIN: Span = Span::from_millis(250);

/// Bytes of a PUBLISH beside address and payload that are kept free when the largest payload is told.
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
            endpoint,
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
            liveness: Liveness::default(),
            round_trip: Span::ZERO,
            is_mute: false,
            was_full: false,
            scratch: Vec::new(),
            settings,
        }
    }

    /// The settings in force.
    pub fn settings(&self) -> &MqttSettings {
        &self.settings
    }

    /// What the server said it offers; before that, the defaults of the specification.
    pub fn offer(&self) -> &ServerOffer {
        self.side.offer()
    }

    fn send(
        &mut self,
        message: &Outbound<'_>,
        purpose: Purpose,
        now: Time,
        out: &mut Output,
    ) -> Result<Departure, Refusal> {
        if !self.side.is_connected() {
            return Err(Refusal::NotConnected);
        }
        topic::validate_name(message.address).map_err(|_| Refusal::Address)?;
        if message
            .reply_to
            .is_some_and(|reply_to| topic::validate_name(reply_to).is_err())
        {
            return Err(Refusal::Address);
        }
        let qos = words::qos(message.reliability);
        let is_counted = qos != QoS::AtMostOnce;
        let id = if is_counted {
            self.id_for(message, purpose, qos, now)?
        } else {
            Some((0, false))
        };
        // It was taken on an earlier connection, and PUBREL has left again: PUBCOMP will come.
        let Some((id, is_old)) = id else {
            return Ok(Departure::Awaited);
        };
        let is_clear = message.retain == Retain::Clear;
        let stamp = message
            .stamp
            .filter(|_| self.version.is_v5())
            .map(StampText::new);
        let pairs = Pairs {
            properties: message.properties,
            stamp,
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
            expiry_secs: words::expiry(message.lifespan),
            payload_format: message.is_text.then_some(1),
            content_type: message.content_type,
            response_topic: message.reply_to,
            correlation_data: message.correlation,
            user: if has_pairs { Some(&pairs) } else { None },
            subscription_ids: &[],
            allow_alias: self.aliasing.wants(message.address),
        };
        if let Err(error) = self.side.publish(&packet, &mut out.bytes) {
            if is_counted && !is_old {
                self.spare_id = Some(id);
            }
            let refusal = words::not_sent(error, message.address.len() + ROOM_FOR_HEADERS);
            self.was_full |= refusal == Refusal::Window;
            return Err(refusal);
        }
        self.liveness.sent(now);
        if !is_counted {
            return Ok(Departure::Gone);
        }
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
        now: Time,
    ) -> Result<Option<(u16, bool)>, Refusal> {
        let mut old = None;
        if message.repeated
            && let Purpose::Message(name) = purpose
            && let Some(id) = self.flights.resumed(name)
            && let Some(flight) = self.flights.get_mut(id)
        {
            if flight.is_released {
                (flight.connection, flight.sent_at) = (self.connection, now);
                return Ok(None);
            }
            old = Some(id).filter(|_| flight.qos == qos);
        }
        if !self.has_room_for(qos) {
            self.was_full = true;
            return Err(Refusal::Window);
        }
        if let Some(id) = old {
            return Ok(Some((id, true)));
        }
        let id = self.spare_id.take().or_else(|| self.side.next_id());
        self.was_full |= id.is_none();
        id.map(|id| Some((id, false))).ok_or(Refusal::Window)
    }

    /// Whether the server takes one more. MQTT 3 has no words for how many that are; mosquitto 2.0 loses QoS 2 publishes
    /// beyond its `max_inflight_messages`, 20, and acknowledges them all the same.
    fn has_room_for(&self, qos: QoS) -> bool {
        let is_bounded = !self.version.is_v5() && qos == QoS::ExactlyOnce;
        self.side.send_quota() > 0
            && !(is_bounded && self.flights.exactly_once() >= EXACTLY_ONCE_MAX_V3)
    }

    /// Sends SUBSCRIBE, and remembers what its answer is for.
    fn ask(
        &mut self,
        filter: &str,
        options: SubscribeOptions,
        identifier: u32,
        awaited: Awaited,
        now: Time,
        out: &mut Output,
    ) -> Result<(), Refusal> {
        let id = self
            .spare_id
            .take()
            .or_else(|| self.side.next_id())
            .ok_or(Refusal::Window)?;
        let subscription_id = Some(identifier).filter(|id| *id != 0);
        let packet = SubscribeOut {
            id,
            filters: &[(filter, options)],
            subscription_id,
            user: None,
        };
        if let Err(error) = self.side.subscribe(&packet, &mut out.bytes) {
            self.spare_id = Some(id);
            return Err(Refusal::TooLarge {
                limit: error.packet_bytes_max as usize,
            });
        }
        self.awaited.push((id, awaited));
        self.liveness.sent(now);
        Ok(())
    }

    fn leave(&mut self, filter: &str, now: Time, out: &mut Output) {
        let Some(id) = self.spare_id.take().or_else(|| self.side.next_id()) else {
            return;
        };
        match self.side.unsubscribe(
            &UnsubscribeOut {
                id,
                filters: &[filter],
                user: None,
            },
            &mut out.bytes,
        ) {
            Ok(()) => self.liveness.sent(now),
            Err(_) => self.spare_id = Some(id),
        }
    }

    /// Whether the server wants identifiers of subscriptions.
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
    fn ask_held(&mut self, now: Time, out: &mut Output, events: &mut dyn Events) {
        let WayBack::Open { topic } = &self.questions.way_back else {
            return;
        };
        let topic = topic.clone();
        let mut held = std::mem::take(&mut self.questions.held);
        held.retain(|question| {
            let message = question.message(&topic);
            match self.send(&message, Purpose::Question(question.request), now, out) {
                Ok(_) => {
                    let correlation = message.correlation.unwrap_or_default().to_vec();
                    self.questions.asked(question.request, correlation);
                    false
                }
                Err(Refusal::Window) => true,
                Err(refusal) => {
                    events.answered(question.request, Err(refusal));
                    false
                }
            }
        });
        self.questions.held = held;
    }

    /// A last value is known, or nobody wants it any more: its subscription ends, if it is nobody else's.
    fn finish_read(&mut self, read: &Read, now: Time, out: &mut Output) {
        let is_shared = self.subscriptions.of_filter(&read.address).is_some()
            || self
                .questions
                .reads
                .iter()
                .any(|other| other.address == read.address);
        if !is_shared {
            self.leave(&read.address, now, out);
        }
    }

    fn ping(&mut self, now: Time, out: &mut Output) {
        match self.load.report(now) {
            Some(report) => {
                self.side.ping_with(&report, &mut out.bytes);
            }
            None => self.side.ping(&mut out.bytes),
        }
        self.liveness.asked(now);
    }
}

impl Transport for Mqtt {
    fn protocol(&self) -> &'static str {
        "mqtt"
    }

    fn capabilities(&self) -> Capabilities {
        let (offer, v5) = (self.side.offer(), self.version.is_v5());
        Capabilities {
            reliability_max: words::reliability(offer.maximum_qos),
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
            ..words::CAPABILITIES
        }
    }

    fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    fn open(&mut self, opening: &Opening, _peer: SocketAddr, now: Time, out: &mut Output) {
        self.connection = self.connection.wrapping_add(1);
        self.side = ClientSide::new(self.settings.packet_bytes_max);
        (self.spare_id, self.was_full) = (None, false);
        self.awaited.clear();
        self.load.begin(None, now);
        let v5 = self.version.is_v5();
        // MQTT 3.1.1 keeps nothing for who has no name. [MQTT3-3.1.3-7]
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
                qos: words::qos(will.reliability),
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
            session_expiry: words::session_expiry(opening.session),
            receive_max: self.settings.receive_max.max(1),
            packet_bytes_max: Some(self.settings.packet_bytes_max),
            topic_alias_max: self.settings.aliases_max,
            request_response_info: true,
            request_problem_info: true,
            user: None,
            auth_method: None,
            auth_data: None,
        };
        self.is_mute = self.side.connect(&connect, &mut out.bytes).is_err();
        // Not all servers keep to it, and there is room.
        self.side.tolerate_excess();
        let keep_alive = Span::from_secs(u64::from(keep_alive));
        self.liveness = Liveness::begin(keep_alive, now);
        self.round_trip = Span::ZERO;
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
                Ok(None) => return Ok(consumed),
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
    }

    fn poll_timeout(&self) -> Time {
        if !self.side.is_connected() {
            // How long CONNACK may take is the engine's affair.
            return if self.is_mute {
                Time::ZERO
            } else {
                Time::NEVER
            };
        }
        self.liveness
            .due()
            .min(self.questions.next())
            .min(self.load.next())
    }

    fn handle_timeout(
        &mut self,
        now: Time,
        out: &mut Output,
        events: &mut dyn Events,
    ) -> Result<(), LinkFault> {
        if !self.side.is_connected() {
            return match self.is_mute {
                false => Ok(()),
                true => Err(LinkFault {
                    words: "user name, password or will do not fit into CONNECT".to_owned(),
                    is_final: false,
                }),
            };
        }
        if self
            .liveness
            .check("the server has not answered PINGREQ", now)?
            || self.load.next() <= now
        {
            self.ping(now, out);
        }
        while let Some(at) = self
            .questions
            .reads
            .iter()
            .position(|read| read.until <= now)
        {
            let read = self.questions.reads.swap_remove(at);
            self.finish_read(&read, now, out);
            events.answered(read.request, Ok(None));
        }
        Ok(())
    }

    fn publish(
        &mut self,
        message: &Outbound<'_>,
        now: Time,
        out: &mut Output,
    ) -> Result<Departure, Refusal> {
        self.send(message, Purpose::Message(message.id), now, out)
    }

    fn subscribe(
        &mut self,
        wish: &SubscribeWish<'_>,
        now: Time,
        out: &mut Output,
    ) -> Result<(), Refusal> {
        if !self.side.is_connected() {
            return Err(Refusal::NotConnected);
        }
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
            qos: words::qos(wish.reliability),
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
        self.ask(filter, options, identifier, awaited, now, out)?;
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

    fn unsubscribe(&mut self, subscription: SubscriptionId, now: Time, out: &mut Output) {
        let Some(entry) = self.subscriptions.remove(subscription) else {
            return;
        };
        if self.side.is_connected() {
            self.leave(&entry.filter, now, out);
        } else if self.wants_session {
            self.subscriptions.leave_later(entry.filter);
        }
    }

    fn settle(&mut self, delivery: DeliveryId, now: Time, out: &mut Output) {
        let Some((connection, qos, id)) = inbound::parts(delivery) else {
            return;
        };
        self.load.finished(delivery, now);
        // Of an earlier connection: the server will ask again.
        if connection != self.connection || !self.side.is_connected() {
            return;
        }
        match qos {
            QoS::AtMostOnce => return,
            QoS::AtLeastOnce => self.side.puback(id, ReasonCode::Success, &mut out.bytes),
            QoS::ExactlyOnce => match self.incoming.get_mut(&id) {
                Some(has_answer @ false) => {
                    *has_answer = true;
                    self.side.pubrec(id, ReasonCode::Success, &mut out.bytes);
                }
                _ => return,
            },
        }
        self.liveness.sent(now);
    }

    fn request(
        &mut self,
        request: RequestId,
        message: &Outbound<'_>,
        now: Time,
        out: &mut Output,
    ) -> Result<(), Refusal> {
        if !self.side.is_connected() {
            return Err(Refusal::NotConnected);
        }
        if !self.version.is_v5() {
            return Err(Refusal::Unsupported("requests need MQTT 5"));
        }
        let correlation = self.questions.correlation(request, message.correlation);
        match self.questions.way_back.clone() {
            WayBack::Open { topic } => {
                let question = Outbound {
                    reply_to: Some(&topic),
                    correlation: Some(&correlation),
                    ..*message
                };
                self.send(&question, Purpose::Question(request), now, out)?;
                self.questions.asked(request, correlation);
            }
            WayBack::Asked { .. } => {
                self.questions
                    .held
                    .push(Held::new(request, correlation, message))
            }
            WayBack::Closed { topic } => {
                topic::validate_name(message.address).map_err(|_| Refusal::Address)?;
                let options = SubscribeOptions {
                    qos: QoS::AtLeastOnce,
                    retain_handling: RetainHandling::DoNotSend,
                    ..SubscribeOptions::default()
                };
                self.ask(&topic, options, 0, Awaited::WayBack, now, out)?;
                self.questions.way_back = WayBack::Asked { topic };
                self.questions
                    .held
                    .push(Held::new(request, correlation, message));
            }
        }
        Ok(())
    }

    fn read(
        &mut self,
        request: RequestId,
        address: &str,
        now: Time,
        out: &mut Output,
    ) -> Result<(), Refusal> {
        if !self.side.is_connected() {
            return Err(Refusal::NotConnected);
        }
        if !self.side.offer().retain_available {
            return Err(Refusal::Unsupported("the server keeps no last values"));
        }
        topic::validate_name(address).map_err(|_| Refusal::Address)?;
        // A SUBSCRIBE takes the place of one with the same filter: the user's goes on as it was. [MQTT-3.8.4-3]
        let (qos, identifier) = match self.subscriptions.of_filter(address) {
            Some(entry) => (words::qos(entry.reliability), entry.identifier),
            None => (QoS::AtMostOnce, self.fresh_identifier()),
        };
        let options = SubscribeOptions {
            qos,
            ..SubscribeOptions::default()
        };
        self.ask(
            address,
            options,
            identifier,
            Awaited::Read(request),
            now,
            out,
        )?;
        self.questions.reads.push(Read {
            request,
            address: address.to_owned(),
            until: Time::NEVER,
        });
        Ok(())
    }

    fn forget(&mut self, request: RequestId) {
        // A read ends by itself, and its subscription with it.
        self.questions.forget(request);
    }

    fn probe(&mut self, now: Time, out: &mut Output) -> usize {
        if !self.side.is_connected() || self.liveness.is_asking() {
            return 0;
        }
        let before = out.bytes.len();
        self.ping(now, out);
        out.bytes.len() - before
    }

    fn close(&mut self, _now: Time, out: &mut Output) {
        self.side.disconnect(
            ReasonCode::NORMAL_DISCONNECTION,
            &DisconnectProps::default(),
            &mut out.bytes,
        );
    }

    fn closed(&mut self) {
        self.side = ClientSide::new(self.settings.packet_bytes_max);
        self.is_mute = false;
        self.flights.connection_ended(self.last_up);
        self.awaited.clear();
        self.questions.begin(String::new());
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }
}
