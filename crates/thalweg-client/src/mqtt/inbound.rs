//! What a server says, in our words.

use thalweg_model::{Span, Time};
use thalweg_mqtt::{
    Ack, ClientConnAck, ClientEvent, Properties, Publish, QoS, ReasonCode, ReportRules, SubAck,
    Version,
};

use super::flights::Purpose;
use super::questions::WayBack;
use super::subscriptions::OWN_IDENTIFIERS;
use super::{Awaited, Mqtt, VALUE_WITHIN, words};
use crate::transport::{DeliveryId, Events, Inbound, LinkFault, Output, Refusal, Settled, Welcome};

/// A delivery's name: connection, QoS and packet identifier.
fn delivery(connection: u32, qos: QoS, id: u16) -> DeliveryId {
    DeliveryId(u64::from(connection) << 24 | (qos as u64) << 16 | u64::from(id))
}

/// What [`delivery`] put together.
pub(super) fn parts(delivery: DeliveryId) -> Option<(u32, QoS, u16)> {
    let qos = QoS::from_bits((delivery.0 >> 16) as u8)?;
    Some(((delivery.0 >> 24) as u32, qos, delivery.0 as u16))
}

/// The words that came with a reason code.
fn reason_string<'b>(properties: &Properties<'b>) -> Option<&'b str> {
    properties.reason_string()
}

impl Mqtt {
    pub(super) fn on_event(
        &mut self,
        event: ClientEvent<'_>,
        now: Time,
        out: &mut Output,
        events: &mut dyn Events,
    ) -> Result<(), LinkFault> {
        match event {
            ClientEvent::ConnAck(connack) => return self.on_connack(&connack, now, out, events),
            ClientEvent::Publish(publish) => self.on_publish(&publish, now, out, events),
            ClientEvent::PubAck(ack) => self.on_end(&ack, now, events),
            ClientEvent::PubRec(ack) if ack.reason.is_error() => self.on_end(&ack, now, events),
            ClientEvent::PubRec(ack) => self.on_pubrec(&ack, now, out, events),
            ClientEvent::PubComp(ack) => {
                // 0x92: it had forgotten the message, which it had taken. [MQTT-4.3.3-7]
                let ack = Ack {
                    reason: ReasonCode::Success,
                    ..ack
                };
                self.on_end(&ack, now, events);
            }
            ClientEvent::PubRel(ack) => {
                let known = self.incoming.remove(&ack.id).is_some();
                let reason = if known {
                    ReasonCode::Success
                } else {
                    ReasonCode::PacketIdNotFound
                };
                self.side.pubcomp(ack.id, reason, &mut out.bytes);
                self.liveness.sent(now);
            }
            ClientEvent::SubAck(ack) => self.on_suback(&ack, now, out, events),
            ClientEvent::UnsubAck(_) => {}
            ClientEvent::PingResp => {
                if let Some(at) = self.liveness.answered() {
                    self.round_trip(now.since(at), events);
                }
            }
            ClientEvent::Disconnect(disconnect) => {
                if matches!(
                    disconnect.reason,
                    ReasonCode::QuotaExceeded
                        | ReasonCode::MessageRateTooHigh
                        | ReasonCode::ReceiveMaximumExceeded
                ) {
                    events.pressed();
                }
                let words = reason_string(&disconnect.properties);
                let server = disconnect.server_reference;
                return Err(words::link_fault(
                    "the server ends the connection",
                    disconnect.reason,
                    words,
                    server,
                ));
            }
            ClientEvent::Auth(_) => {
                let words =
                    "the server wants enhanced authentication, which was not asked for".to_owned();
                return Err(LinkFault {
                    words,
                    is_final: true,
                });
            }
        }
        if self.was_full && self.has_room_for(QoS::ExactlyOnce) {
            self.was_full = false;
            // As much was under way as the server takes: more would only wait. In MQTT 3 it has not said so.
            if self.version.is_v5() {
                events.pressed();
            }
            events.room();
            self.ask_held(now, out, events);
        }
        Ok(())
    }

    fn on_connack(
        &mut self,
        connack: &ClientConnAck<'_>,
        now: Time,
        out: &mut Output,
        events: &mut dyn Events,
    ) -> Result<(), LinkFault> {
        let values = &connack.values;
        if values.reason.is_error() {
            if values.reason == ReasonCode::UnsupportedProtocolVersion && self.version.is_v5() {
                self.version = Version::V311;
                let words = "the server does not speak MQTT 5; 3.1.1 is next".to_owned();
                return Err(LinkFault {
                    words,
                    is_final: false,
                });
            }
            let what = "the server refuses the connection";
            return Err(words::link_fault(
                what,
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
        self.liveness
            .set_keep_alive(Span::from_secs(u64::from(offer.keep_alive)));
        self.aliasing
            .begin(offer.topic_alias_max.min(self.settings.aliases_max));
        self.questions
            .begin(self.way_back(values.response_information));
        let mut taken = Vec::new();
        if values.session_present {
            self.subscriptions.is_inherited |= !self.was_up;
            for id in self.flights.go_on() {
                self.side.pubrel(id, ReasonCode::Success, &mut out.bytes);
            }
            for filter in self.subscriptions.take_unwanted() {
                self.leave(&filter, now, out);
            }
        } else {
            taken = self.flights.forget();
            self.incoming.clear();
            self.subscriptions.forget_session();
        }
        self.was_up = true;
        self.last_up = self.connection;
        let client_id = values.assigned_client_id.map(str::to_owned);
        events.up(&Welcome {
            session_present: values.session_present,
            client_id,
        });
        for id in taken {
            // The session is gone, but PUBREC had said that the message is the server's. §4.3.3
            events.settled(id, Settled::Acknowledged);
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

    fn on_publish(
        &mut self,
        publish: &Publish<'_>,
        now: Time,
        out: &mut Output,
        events: &mut dyn Events,
    ) {
        let is_resent = publish.qos == QoS::ExactlyOnce && self.incoming.contains_key(&publish.id);
        if is_resent {
            // Told already; it is asked for again because our answer, or the connection, was lost. [MQTT-4.3.3-10]
            self.incoming.insert(publish.id, true);
            self.side
                .pubrec(publish.id, ReasonCode::Success, &mut out.bytes);
            self.liveness.sent(now);
            return;
        }
        if publish.qos == QoS::ExactlyOnce {
            self.incoming.insert(publish.id, false);
        }
        let topic = publish.topic.as_str();
        let mut scratch = std::mem::take(&mut self.scratch);
        let stamp = words::sort(publish.properties.user_properties(), &mut scratch);
        let connection = self.connection;
        let mut inbound = Inbound {
            subscription: None,
            delivery: None,
            address: topic,
            payload: publish.payload,
            reliability: words::reliability(publish.qos),
            is_last_value: publish.retain,
            repeated: publish.dup,
            content_type: publish.properties.content_type(),
            properties: crate::transport::Properties(&scratch),
            reply_to: publish.properties.response_topic(),
            correlation: publish.properties.correlation_data(),
            stamp,
            lifespan: publish
                .properties
                .message_expiry()
                .map_or(Span::FOREVER, |left| Span::from_secs(u64::from(left))),
        };
        let identifiers = Identifiers::of(publish);
        let is_told = if topic == self.questions.topic()
            && self.questions.way_back != WayBack::default()
        {
            if let Some(request) = self.questions.answered(inbound.correlation) {
                events.answered(request, Ok(Some(&inbound)));
            }
            false
        } else if publish.retain && self.answer_reads(&inbound, now, out, events) {
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
                    self.load.received(delivery, now);
                }
            }
            events.received(&inbound);
        } else {
            match publish.qos {
                QoS::AtMostOnce => {}
                QoS::AtLeastOnce => {
                    self.side
                        .puback(publish.id, ReasonCode::Success, &mut out.bytes)
                }
                QoS::ExactlyOnce => {
                    self.incoming.insert(publish.id, true);
                    self.side
                        .pubrec(publish.id, ReasonCode::Success, &mut out.bytes);
                }
            }
        }
        self.scratch = scratch;
    }

    /// Gives a last value to who asked for it. Says whether somebody did.
    fn answer_reads(
        &mut self,
        value: &Inbound<'_>,
        now: Time,
        out: &mut Output,
        events: &mut dyn Events,
    ) -> bool {
        let mut is_answer = false;
        while let Some(at) = self
            .questions
            .reads
            .iter()
            .position(|read| read.address == value.address)
        {
            let read = self.questions.reads.swap_remove(at);
            self.finish_read(&read, now, out);
            events.answered(read.request, Ok(Some(value)));
            is_answer = true;
        }
        is_answer
    }

    fn on_pubrec(&mut self, ack: &Ack<'_>, now: Time, out: &mut Output, events: &mut dyn Events) {
        let flight = self
            .flights
            .get_mut(ack.id)
            .filter(|flight| flight.qos == QoS::ExactlyOnce);
        let reason = match &flight {
            Some(_) => ReasonCode::Success,
            None => ReasonCode::PacketIdNotFound,
        };
        self.side.pubrel(ack.id, reason, &mut out.bytes);
        self.liveness.sent(now);
        if let Some(flight) = flight
            && !std::mem::replace(&mut flight.is_released, true)
        {
            let span = now.since(flight.sent_at);
            self.round_trip(span, events);
        }
    }

    /// PUBACK, PUBCOMP, or a PUBREC that refuses.
    fn on_end(&mut self, ack: &Ack<'_>, now: Time, events: &mut dyn Events) {
        let Some(flight) = self.flights.end(ack.id) else {
            return;
        };
        if !flight.is_released {
            self.round_trip(now.since(flight.sent_at), events);
        }
        let outcome = match ack.reason.is_error() {
            false => Settled::Acknowledged,
            true => Settled::Refused(words::refusal(ack.reason, reason_string(&ack.properties))),
        };
        if matches!(outcome, Settled::Refused(Refusal::Busy(_))) {
            events.pressed();
        }
        match (flight.purpose, outcome) {
            (Purpose::Message(id), outcome) => events.settled(id, outcome),
            (Purpose::Question(request), Settled::Refused(refusal)) => {
                if self.questions.waits(request) {
                    self.questions.forget(request);
                    events.answered(request, Err(refusal));
                }
            }
            (Purpose::Question(request), _) => {
                if ack.reason == ReasonCode::NoMatchingSubscribers && self.questions.waits(request)
                {
                    self.questions.forget(request);
                    events.answered(
                        request,
                        Err(Refusal::Denied("nobody listens there".to_owned())),
                    );
                }
            }
        }
    }

    fn on_suback(
        &mut self,
        ack: &SubAck<'_>,
        now: Time,
        out: &mut Output,
        events: &mut dyn Events,
    ) {
        let Some(at) = self.awaited.iter().position(|(id, _)| *id == ack.id) else {
            return;
        };
        let (_, awaited) = self.awaited.swap_remove(at);
        let reason = ack.codes().next().unwrap_or(ReasonCode::Unspecified);
        let refusal = reason
            .is_error()
            .then(|| words::refusal(reason, reason_string(&ack.properties)));
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
                    0 => thalweg_model::Reliability::AtMostOnce,
                    1 => thalweg_model::Reliability::AtLeastOnce,
                    _ => thalweg_model::Reliability::ExactlyOnce,
                };
                events.subscribed(subscription, refusal.map_or(Ok(granted), Err));
            }
            Awaited::Read(request) => {
                let Some(at) = self
                    .questions
                    .reads
                    .iter()
                    .position(|read| read.request == request)
                else {
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
                        self.ask_held(now, out, events);
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

    fn round_trip(&mut self, span: Span, events: &mut dyn Events) {
        self.round_trip = span;
        events.round_trip(span);
    }
}

/// What the subscription identifiers of a message say.
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
