//! Deliveries and answers of the kernel, as packets.

use super::{MqttFront, State};
use crate::front::{Fate, Outbound, Undelivered};
use crate::native;
use thalweg_kernel::{Answer, CloseReason, Content, Delivery, Subscribed, Tag, Ticket};
use thalweg_model::{Properties, PropertyValue, Reliability};
use thalweg_mqtt::{DisconnectProps, PublishOut, QoS, ReasonCode, TextPairs, TooLarge};

impl Outbound for MqttFront {
    /// Inlined into the loop of a fan-out: the call cost a tenth of it.
    #[inline(always)]
    fn deliver(
        &mut self,
        content: &Content<'_>,
        delivery: &Delivery<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Undelivered> {
        if let Some(native) = content.native()
            && native.dialect == self.dialect()
            && !delivery.retain
            && delivery.subscription_ids.is_empty()
            && delivery.reliability == Reliability::AtMostOnce
            && self.machine.fits(native.frame.len())
        {
            // The publisher's bytes are already what this receiver should see.
            out.extend_from_slice(native.frame);
            return Ok(());
        }
        self.encode(content, delivery, out)
            .map_err(|_| Undelivered::TooLarge)
    }

    fn release(&mut self, tag: Tag, out: &mut Vec<u8>) {
        self.machine.pubrel(tag, ReasonCode::Success, out);
    }

    fn answer(&mut self, ticket: Ticket, answer: Answer<'_>, out: &mut Vec<u8>) {
        match answer {
            Answer::Subscribed(outcomes) => {
                let codes: Vec<ReasonCode> = outcomes
                    .iter()
                    .map(|outcome| subscribe_code(*outcome))
                    .collect();
                self.machine.suback(ticket, &codes, out);
            }
            Answer::Unsubscribed(existed) => {
                let code = |existed: &bool| match existed {
                    true => ReasonCode::Success,
                    false => ReasonCode::NoSubscriptionExisted,
                };
                let codes: Vec<ReasonCode> = existed.iter().map(code).collect();
                self.machine.unsuback(ticket, &codes, out);
            }
            // It asks for nothing else.
            Answer::Value(_)
            | Answer::Values { .. }
            | Answer::Taken(_)
            | Answer::QueueMade(_)
            | Answer::Published { .. } => {}
        }
    }

    fn disconnect(&mut self, why: CloseReason, out: &mut Vec<u8>) -> Fate {
        let reason = match why {
            CloseReason::TakenOver => ReasonCode::SessionTakenOver,
            CloseReason::Kicked => ReasonCode::AdministrativeAction,
            CloseReason::NotAuthorized => ReasonCode::NotAuthorized,
            CloseReason::ShuttingDown => ReasonCode::ServerShuttingDown,
            CloseReason::QueueFull => ReasonCode::QuotaExceeded,
            // "An implementation or administrative imposed limit": the time within which a group's message is to be
            // acknowledged. Nothing else of §3.14.2.1 fits: the peer broke no rule of the protocol.
            CloseReason::Stalled | CloseReason::Buffers => ReasonCode::QuotaExceeded,
        };
        let reason_string = (why == CloseReason::Stalled).then_some(STALLED);
        self.machine.disconnect(
            reason,
            &DisconnectProps {
                reason_string,
                ..DisconnectProps::default()
            },
            out,
        );
        Fate::LinkEnds
    }

    fn on_silence(&mut self, out: &mut Vec<u8>) {
        // [MQTT-3.1.2-22]
        self.state = State::Closed;
        self.machine.disconnect(
            ReasonCode::KeepAliveTimeout,
            &DisconnectProps::default(),
            out,
        );
    }
}

impl MqttFront {
    fn encode(
        &mut self,
        content: &Content<'_>,
        delivery: &Delivery<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), TooLarge> {
        let publish = PublishOut {
            // [MQTT-3.3.1-2]
            dup: delivery.deliveries > 0 && delivery.reliability != Reliability::AtMostOnce,
            qos: match delivery.reliability {
                Reliability::AtMostOnce => QoS::AtMostOnce,
                Reliability::AtLeastOnce => QoS::AtLeastOnce,
                Reliability::ExactlyOnce => QoS::ExactlyOnce,
            },
            retain: delivery.retain,
            topic: content.address(),
            id: delivery.tag as Tag,
            payload: content.payload(),
            expiry_secs: delivery.expires_in_secs(),
            subscription_ids: delivery.subscription_ids,
            allow_alias: true,
            ..PublishOut::default()
        };
        match content.properties() {
            None => self.machine.publish(&publish, out),
            Some(properties) => self.encode_properties(&publish, properties, out),
        }
    }

    #[inline(never)]
    fn encode_properties(
        &mut self,
        publish: &PublishOut<'_>,
        properties: &Properties,
        out: &mut Vec<u8>,
    ) -> Result<(), TooLarge> {
        let properties = native::neutral(properties);
        let user = UserProperties(&properties);
        let publish = PublishOut {
            payload_format: properties.payload_is_text.map(u8::from),
            content_type: properties
                .content_type
                .as_deref()
                .filter(|text| is_string(text)),
            response_topic: properties
                .reply_to
                .as_deref()
                .filter(|topic| is_string(topic)),
            correlation_data: properties.correlation.as_deref(),
            user: (!properties.user.is_empty()).then_some(&user as &dyn TextPairs),
            ..*publish
        };
        self.machine.publish(&publish, out)
    }
}

/// The reason sent to a member of a shared subscription that has not acknowledged for too long.
const STALLED: &str =
    "messages of a shared subscription were not acknowledged in time and go to other members";

fn subscribe_code(outcome: Subscribed) -> ReasonCode {
    match outcome {
        Subscribed::Granted(Reliability::AtMostOnce) => ReasonCode::Success,
        Subscribed::Granted(Reliability::AtLeastOnce) => ReasonCode::GrantedQos1,
        Subscribed::Granted(Reliability::ExactlyOnce) => ReasonCode::GrantedQos2,
        Subscribed::Denied => ReasonCode::NotAuthorized,
        Subscribed::TooMany => ReasonCode::QuotaExceeded,
        Subscribed::BadFilter => ReasonCode::TopicFilterInvalid,
        Subscribed::NoShared => ReasonCode::SharedSubscriptionsNotSupported,
        Subscribed::NoWildcards => ReasonCode::WildcardSubscriptionsNotSupported,
    }
}

/// User properties as text, the only kind MQTT has. Bytes are left out (docs/interop.md).
struct UserProperties<'a>(&'a Properties);

impl TextPairs for UserProperties<'_> {
    fn for_each(&self, each: &mut dyn FnMut(&str, &str)) {
        for (name, value) in self.0.user.iter().filter(|(name, _)| is_string(name)) {
            match value {
                PropertyValue::Text(text) if is_string(text) => each(name, text),
                PropertyValue::Bool(value) => each(name, if *value { "true" } else { "false" }),
                PropertyValue::Integer(value) => each(name, &value.to_string()),
                PropertyValue::Float(value) => each(name, &value.to_string()),
                PropertyValue::Nothing => each(name, ""),
                PropertyValue::Text(_) | PropertyValue::Bytes(_) => {}
            }
        }
    }
}

/// Whether other protocols' text can be a string here. [MQTT-1.5.4-2]
fn is_string(text: &str) -> bool {
    text.len() <= usize::from(u16::MAX) && !text.contains('\0')
}
