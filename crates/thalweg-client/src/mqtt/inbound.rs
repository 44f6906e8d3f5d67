//! Handles the server's packets.

use thalweg_model::{Reliability, Span};
use thalweg_mqtt::{
    Ack, ClientConnAck, ClientEvent, Publish, QoS, ReasonCode, ReportRules, SubAck, Version,
};

use super::flights::Purpose;
use super::questions::{Read, WayBack};
use super::subscriptions::OWN_IDENTIFIERS;
use super::{Awaited, Mqtt, VALUE_WITHIN, mapping};
use crate::plugin::{Cx, Step};
use crate::transport::{DeliveryId, Events, Inbound, LinkFault, Refusal, Settled, Welcome};

/// A delivery's name: connection, QoS and packet identifier.
fn delivery(connection: u32, qos: QoS, id: u16) -> DeliveryId {
    DeliveryId(u64::from(connection) << 24 | (qos as u64) << 16 | u64::from(id))
}

/// Splits a delivery id into the parts that [`delivery`] put together.
pub(super) fn parts(delivery: DeliveryId) -> Option<(u32, QoS, u16)> {
    let qos = QoS::from_bits((delivery.0 >> 16) as u8)?;
    Some(((delivery.0 >> 24) as u32, qos, delivery.0 as u16))
}

/// What a PUBLISH says; its user properties are put into `scratch`.
pub(super) fn message_of<'p>(publish: &'p Publish<'_>, scratch: &'p mut Vec<u8>) -> Inbound<'p> {
    let properties = &publish.properties;
    let stamp = mapping::sort(properties.user_properties(), scratch);
    let lifespan = properties.message_expiry().map(u64::from);
    Inbound {
        reliability: mapping::reliability(publish.qos),
        is_last_value: publish.retain,
        repeated: publish.dup,
        content_type: properties.content_type(),
        properties: crate::transport::Properties(scratch),
        reply_to: properties.response_topic(),
        correlation: properties.correlation_data(),
        stamp,
        lifespan: lifespan.map_or(Span::FOREVER, Span::from_secs),
        ..Inbound::new(publish.topic.as_str(), publish.payload)
    }
}

impl Mqtt {
    pub(super) fn on_event(&mut self, event: ClientEvent<'_>, cx: &mut Cx<'_>) -> Step {
        match event {
            ClientEvent::ConnAck(connack) => return self.on_connack(&connack, cx),
            ClientEvent::Publish(publish) => self.on_publish(&publish, cx),
            ClientEvent::PubAck(ack) => self.on_end(&ack, cx.events),
            ClientEvent::PubRec(ack) if ack.reason.is_error() => self.on_end(&ack, cx.events),
            ClientEvent::PubRec(ack) => self.on_pubrec(&ack, cx),
            ClientEvent::PubComp(ack) => {
                // 0x92: it had forgotten the message, which it had taken. [MQTT-4.3.3-7]
                let ack = Ack {
                    reason: ReasonCode::Success,
                    ..ack
                };
                self.on_end(&ack, cx.events);
            }
            ClientEvent::PubRel(ack) => {
                let reason = match self.incoming.remove(&ack.id) {
                    Some(_) => ReasonCode::Success,
                    None => ReasonCode::PacketIdNotFound,
                };
                self.side.pubcomp(ack.id, reason, cx.out);
            }
            ClientEvent::SubAck(ack) => self.on_suback(&ack, cx),
            ClientEvent::UnsubAck(_) => {}
            ClientEvent::PingResp => {
                if let Some(span) = self.conn.answered(cx.events) {
                    self.round_trip = span;
                }
            }
            ClientEvent::Disconnect(disconnect) => {
                if matches!(
                    disconnect.reason,
                    ReasonCode::QuotaExceeded
                        | ReasonCode::MessageRateTooHigh
                        | ReasonCode::ReceiveMaximumExceeded
                ) {
                    cx.events.pressed();
                }
                return Err(mapping::link_fault(
                    "the server ends the connection",
                    disconnect.reason,
                    disconnect.properties.reason_string(),
                    disconnect.server_reference,
                ));
            }
            ClientEvent::Auth(_) => {
                return Err(LinkFault::permanent(
                    "the server wants enhanced authentication, which was not asked for",
                ));
            }
        }
        Ok(())
    }

    fn on_connack(&mut self, connack: &ClientConnAck<'_>, cx: &mut Cx<'_>) -> Step {
        let values = &connack.values;
        if values.reason.is_error() {
            if values.reason == ReasonCode::UnsupportedProtocolVersion && self.version.is_v5() {
                self.version = Version::V311;
                return Err(LinkFault::temporary(
                    "the server does not speak MQTT 5; 3.1.1 is next",
                ));
            }
            return Err(mapping::link_fault(
                "the server refuses the connection",
                values.reason,
                values.reason_string,
                values.server_reference,
            ));
        }
        if let Some(name) = values.assigned_client_id {
            name.clone_into(&mut self.client_id);
        }
        let said: Vec<(&str, &str)> = connack.properties.user_properties().collect();
        self.announces_stamps = said.contains(&(thalweg_model::STAMPS_ANNOUNCEMENT, "1"));
        let offer = *self.side.offer();
        let keep_alive = Span::from_secs(u64::from(offer.keep_alive));
        self.conn.liveness().set_keep_alive(keep_alive);
        self.aliasing
            .begin(offer.topic_alias_max.min(self.settings.aliases_max));
        self.questions
            .begin(self.way_back(values.response_information));
        let mut taken = Vec::new();
        if values.session_present {
            self.subscriptions.is_inherited |= !self.was_up;
            for id in self.flights.go_on() {
                self.side.pubrel(id, ReasonCode::Success, cx.out);
            }
            for filter in self.subscriptions.take_unwanted() {
                self.leave(&filter, cx.out);
            }
        } else {
            taken = self.flights.forget();
            self.incoming.clear();
            self.subscriptions.forget_session();
        }
        self.was_up = true;
        self.last_up = self.connection;
        let welcome = Welcome {
            session_present: values.session_present,
            client_id: values.assigned_client_id.map(str::to_owned),
        };
        self.conn.be_up(&welcome, cx.events);
        for id in taken {
            // The session is gone, but PUBREC had said that the message is the server's. §4.3.3
            cx.events.settled(id, Settled::Acknowledged);
        }
        Ok(())
    }

    /// The topic where answers come: below what the server says, or our own choice, and named after us. §4.10
    fn way_back(&self, response_information: Option<&str>) -> String {
        let base = response_information
            .filter(|base| !base.is_empty())
            .unwrap_or(&self.settings.reply_base);
        let name = self.client_id.replace(['/', '+', '#'], "-");
        let name = if name.is_empty() { "client" } else { &name };
        format!("{}/{name}", base.trim_end_matches('/'))
    }

    fn on_publish(&mut self, publish: &Publish<'_>, cx: &mut Cx<'_>) {
        if publish.qos == QoS::ExactlyOnce && self.incoming.contains_key(&publish.id) {
            // Told already; it is asked for again because our answer, or the connection, was lost. [MQTT-4.3.3-10]
            self.incoming.insert(publish.id, true);
            self.side.pubrec(publish.id, ReasonCode::Success, cx.out);
            return;
        }
        if publish.qos == QoS::ExactlyOnce {
            self.incoming.insert(publish.id, false);
        }
        let topic = publish.topic.as_str();
        let mut scratch = std::mem::take(&mut self.scratch);
        let connection = self.connection;
        let mut inbound = message_of(publish, &mut scratch);
        let identifiers = Identifiers::of(publish);
        let is_told = if topic == self.questions.topic()
            && self.questions.way_back != WayBack::default()
        {
            let asked = &mut self.questions.asked;
            if let Some(request) = inbound.correlation.and_then(|it| asked.take(it)) {
                cx.events.answered(request, Ok(Some(&inbound)));
            }
            false
        } else if publish.retain && self.answer_reads(&inbound, cx) {
            false
        } else {
            let unwanted =
                publish.retain && !self.version.is_v5() && !self.subscriptions.want_last_values();
            !identifiers.is_own_only && !unwanted
        };
        if is_told {
            inbound.subscription = identifiers
                .only
                .and_then(|identifier| self.subscriptions.owner(identifier));
            if publish.qos != QoS::AtMostOnce {
                let delivery = delivery(connection, publish.qos, publish.id);
                inbound.delivery = Some(delivery);
                if self.load.is_on() && self.subscriptions.is_shared(inbound.subscription) {
                    self.load.received(delivery, self.conn.now());
                }
            }
            cx.events.received(&inbound);
        } else {
            match publish.qos {
                QoS::AtMostOnce => {}
                QoS::AtLeastOnce => self.side.puback(publish.id, ReasonCode::Success, cx.out),
                QoS::ExactlyOnce => {
                    self.incoming.insert(publish.id, true);
                    self.side.pubrec(publish.id, ReasonCode::Success, cx.out);
                }
            }
        }
        self.scratch = scratch;
    }

    /// Passes a last value to the reads that wait for it. Returns whether there was one.
    fn answer_reads(&mut self, value: &Inbound<'_>, cx: &mut Cx<'_>) -> bool {
        let mut is_answer = false;
        let is_it = |read: &Read| read.address == value.address;
        while let Some(at) = self.questions.reads.iter().position(is_it) {
            let read = self.questions.reads.swap_remove(at);
            self.finish_read(&read, cx.out);
            cx.events.answered(read.request, Ok(Some(value)));
            is_answer = true;
        }
        is_answer
    }

    fn on_pubrec(&mut self, ack: &Ack<'_>, cx: &mut Cx<'_>) {
        let flight = self
            .flights
            .get_mut(ack.id)
            .filter(|flight| flight.qos == QoS::ExactlyOnce);
        let reason = match &flight {
            Some(_) => ReasonCode::Success,
            None => ReasonCode::PacketIdNotFound,
        };
        self.side.pubrel(ack.id, reason, cx.out);
        if let Some(flight) = flight
            && !std::mem::replace(&mut flight.is_released, true)
        {
            self.round_trip = self.conn.now().since(flight.sent_at);
            cx.events.round_trip(self.round_trip);
        }
    }

    /// PUBACK, PUBCOMP, or a PUBREC that refuses.
    fn on_end(&mut self, ack: &Ack<'_>, events: &mut dyn Events) {
        let Some(flight) = self.flights.end(ack.id) else {
            return;
        };
        if !flight.is_released {
            self.round_trip = self.conn.now().since(flight.sent_at);
            events.round_trip(self.round_trip);
        }
        let refusal = ack.reason.is_error();
        let refusal = refusal.then(|| mapping::refusal(ack.reason, ack.properties.reason_string()));
        if let Some(Refusal::Busy(_)) = refusal {
            events.pressed();
        }
        match flight.purpose {
            Purpose::Message(id) => {
                events.settled(id, refusal.map_or(Settled::Acknowledged, Settled::Refused));
            }
            Purpose::Question(request) => {
                let is_alone = ack.reason == ReasonCode::NoMatchingSubscribers;
                let nobody = || Refusal::Denied("nobody listens there".to_owned());
                if let Some(refusal) = refusal.or_else(|| is_alone.then(nobody))
                    && self.questions.asked.forget(request)
                {
                    events.answered(request, Err(refusal));
                }
            }
        }
    }

    fn on_suback(&mut self, ack: &SubAck<'_>, cx: &mut Cx<'_>) {
        let (now, events) = (self.conn.now(), &mut *cx.events);
        let Some(at) = self.awaited.iter().position(|(id, _)| *id == ack.id) else {
            return;
        };
        let (_, awaited) = self.awaited.swap_remove(at);
        let reason = ack.codes().next().unwrap_or(ReasonCode::Unspecified);
        let refusal = reason
            .is_error()
            .then(|| mapping::refusal(reason, ack.properties.reason_string()));
        match awaited {
            Awaited::Subscription(subscription) => {
                if refusal.is_some() {
                    self.subscriptions.remove(subscription);
                } else if let Some(entry) = self.subscriptions.get_mut(subscription) {
                    entry.is_confirmed = true;
                    let wants_reports = entry.is_shared && self.settings.load_reports;
                    if wants_reports && self.side.offer().load_reports && !self.load.is_on() {
                        self.load.begin(Some(ReportRules::default()), now);
                    }
                }
                let granted = match reason as u8 {
                    0 => Reliability::AtMostOnce,
                    1 => Reliability::AtLeastOnce,
                    _ => Reliability::ExactlyOnce,
                };
                events.subscribed(subscription, refusal.map_or(Ok(granted), Err));
            }
            Awaited::Read(request) => {
                let is_it = |read: &Read| read.request == request;
                let Some(at) = self.questions.reads.iter().position(is_it) else {
                    return;
                };
                match refusal {
                    None => {
                        let wait = Span::from_nanos(self.round_trip.nanos().saturating_mul(4));
                        if let Some(read) = self.questions.reads.get_mut(at) {
                            read.until = now + wait + VALUE_WITHIN;
                        }
                    }
                    Some(refusal) => {
                        self.questions.reads.swap_remove(at);
                        events.answered(request, Err(refusal));
                    }
                }
            }
            Awaited::WayBack => {
                let topic = self.questions.topic().to_owned();
                match refusal {
                    None => {
                        self.questions.way_back = WayBack::Open { topic };
                        self.ask_held(cx);
                    }
                    Some(refusal) => {
                        self.questions.way_back = WayBack::Closed { topic };
                        for held in std::mem::take(&mut self.questions.held) {
                            events.answered(held.request, Err(refusal.clone()));
                        }
                    }
                }
            }
        }
    }
}

/// Subscription identifiers of a message.
struct Identifiers {
    /// The one identifier of the user's subscriptions.
    only: Option<u32>,
    /// It came only because a last value was asked for.
    is_own_only: bool,
}

impl Identifiers {
    fn of(publish: &Publish<'_>) -> Self {
        let (mut users, mut owns, mut first) = (0, 0, None);
        for identifier in publish.properties.subscription_ids() {
            match identifier >= OWN_IDENTIFIERS {
                true => owns += 1,
                false => {
                    users += 1;
                    first.get_or_insert(identifier);
                }
            }
        }
        Identifiers {
            only: first.filter(|_| users == 1),
            is_own_only: owns > 0 && users == 0,
        }
    }
}
