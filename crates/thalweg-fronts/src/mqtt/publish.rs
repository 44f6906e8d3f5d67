//! PUBLISH and its acknowledgements, both ways.

use super::MqttFront;
use crate::front::{Cx, Variant};

use crate::probe::Mark;
use crate::registry::AnyFront;
use crate::stamp;
use core::hint::cold_path;
use thalweg_kernel::{Draft, Native, Outcome};
use thalweg_model::{Properties, PropertyValue, Reliability, RetainOp, Span};
use thalweg_mqtt::{
    PeerFault, Property, Publish, PublishProperties, QoS, ReasonCode, Version, load,
};

const QOS_TOO_HIGH: PeerFault = PeerFault {
    reason: ReasonCode::QosNotSupported,
    clause: "MQTT-3.2.2-11",
    what: "the QoS is above the Maximum QoS of CONNACK",
};

const RETAIN_OFF: PeerFault = PeerFault {
    reason: ReasonCode::RetainNotSupported,
    clause: "MQTT-3.2.2-14",
    what: "the retain flag is set although CONNACK said that retained messages are not kept",
};

/// Whether a PUBLISH is done with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Handled {
    Done,
    /// It must be handed in again later.
    Later,
}

/// An acknowledgement that waits.
pub(super) struct Late {
    /// The number of the question about the publish; 0 if it waits only for those before it.
    question: u64,
    ticket: u16,
    qos: QoS,
    outcome: Outcome,
}

/// How long a publisher that cannot be refused waits while the journal is full or memory is short.
const FULL_PAUSE: Span = Span::from_millis(200);

impl MqttFront {
    #[inline]
    pub(super) fn on_publish(cx: &mut Cx<'_>, publish: &Publish<'_>) -> Handled {
        let Some(link) = cx.links.get_mut(cx.id) else {
            return Handled::Done;
        };
        let Some(session) = link.session else {
            return Handled::Done;
        };
        let AnyFront::Mqtt(front) = &mut link.front else {
            return Handled::Done;
        };
        if publish.qos > front.settings.maximum_qos {
            MqttFront::fail(cx, QOS_TOO_HIGH);
            return Handled::Done;
        }
        if publish.retain && !front.settings.retain_available {
            MqttFront::fail(cx, RETAIN_OFF);
            return Handled::Done;
        }
        if publish.topic.as_str() == load::ADDRESS {
            return MqttFront::on_load_publish(cx, publish);
        }
        let dialect = front.dialect();
        let mut of_few;
        let (properties, expires_in, stamp) = if publish.properties.is_empty() {
            (None, None, None)
        } else {
            of_few = properties_of(&publish.properties);
            let expires_in = publish
                .properties
                .message_expiry()
                .map(|secs| Span::from_secs(u64::from(secs)));
            let stamp = of_few
                .as_mut()
                .and_then(|properties| stamp::take(properties, session, cx.kernel));
            (
                of_few.as_ref().filter(|properties| !properties.is_empty()),
                expires_in,
                stamp,
            )
        };
        let draft = Draft {
            address: publish.topic.as_str(),
            payload: publish.payload,
            reliability: reliability(publish.qos),
            retain: match (publish.retain, publish.payload.is_empty()) {
                (false, _) => RetainOp::None,
                (true, true) => RetainOp::Clear, // [MQTT-3.3.1-6]
                (true, false) => RetainOp::Set,
            },
            priority: 0,
            expires_in,
            properties,
            ticket: publish.id,
            native: publish.plain.then_some(Native {
                dialect,
                frame: publish.frame,
            }),
            stamp,
        };
        cx.links.mark(Mark::FrontIn);
        let published = cx.kernel.publish(session, draft, cx.now, cx.links);
        cx.links.mark(Mark::KernelPublish);
        if published.outcome == Outcome::Full
            && let Some(link) = cx.links.get_mut(cx.id)
            && let AnyFront::Mqtt(front) = &link.front
            && (front.machine.version() != Version::V5 || publish.qos == QoS::AtMostOnce)
        {
            // Neither MQTT 3 nor QoS 0 can refuse a message. It is asked again after a while, and nothing behind it is read meanwhile.
            link.pause_until = Some(cx.now + FULL_PAUSE);
            return Handled::Later;
        }
        // What MQTT 3 cannot refuse is not acknowledged: its client has it still, and sends it again when it comes back.
        let is_acknowledged = publish.qos != QoS::AtMostOnce
            && (published.outcome != Outcome::Refused
                || MqttFront::of(cx.links, cx.id)
                    .is_some_and(|front| front.machine.version() == Version::V5));
        if is_acknowledged {
            let (ticket, qos, outcome) = (publish.id, publish.qos, published.outcome);
            let kernel = &cx.kernel;
            MqttFront::write(cx.links, cx.id, |front, out| {
                if outcome == Outcome::Asked || !front.late.is_empty() {
                    cold_path();
                    return front.acknowledge_later(ticket, qos, outcome, kernel.question());
                }
                front.acknowledge(ticket, qos, outcome, out)
            });
            cx.links.mark(Mark::FrontAck);
        }
        if let Some(until) = published.pause_until
            && let Some(link) = cx.links.get_mut(cx.id)
        {
            link.pause_until = Some(until);
        }
        Handled::Done
    }

    /// Keeps an acknowledgement until other shards have answered about this publish, or one before it.
    fn acknowledge_later(&mut self, ticket: u16, qos: QoS, outcome: Outcome, question: u64) {
        let question = match outcome {
            Outcome::Asked => question,
            _ => 0,
        };
        self.late.push_back(Late {
            question,
            ticket,
            qos,
            outcome,
        });
    }

    /// Acknowledges publishes up to a question that is decided now. Questions are decided in their order.
    pub(super) fn acknowledge_late(&mut self, question: u64, is_refused: bool, out: &mut Vec<u8>) {
        if is_refused {
            // More than one if the client has repeated it meanwhile.
            let refused = self.late.iter_mut().filter(|it| it.question == question);
            refused.for_each(|late| late.outcome = Outcome::Refused);
        }
        while let Some(late) = self.late.pop_front_if(|late| late.question <= question) {
            if late.outcome != Outcome::Refused || self.machine.version() == Version::V5 {
                self.acknowledge(late.ticket, late.qos, late.outcome, out);
            }
        }
    }

    #[inline]
    fn acknowledge(&mut self, ticket: u16, qos: QoS, outcome: Outcome, out: &mut Vec<u8>) {
        let reason = match outcome {
            Outcome::Accepted | Outcome::Asked => ReasonCode::Success,
            Outcome::NoMatch => ReasonCode::NoMatchingSubscribers,
            Outcome::Denied => ReasonCode::NotAuthorized,
            Outcome::BadAddress => ReasonCode::TopicNameInvalid,
            // Only MQTT 5 can say so; see `on_publish`.
            Outcome::Full | Outcome::Refused | Outcome::OverRate(_) => ReasonCode::QuotaExceeded,
        };
        match qos {
            QoS::AtMostOnce => {}
            QoS::AtLeastOnce => self.machine.puback(ticket, reason, out),
            QoS::ExactlyOnce => self.machine.pubrec(ticket, reason, out),
        }
    }
}

pub(super) fn reliability(qos: QoS) -> Reliability {
    match qos {
        QoS::AtMostOnce => Reliability::AtMostOnce,
        QoS::AtLeastOnce => Reliability::AtLeastOnce,
        QoS::ExactlyOnce => Reliability::ExactlyOnce,
    }
}

/// The properties that travel with a message, in our words. What belongs to one hop (topic alias) or to the kernel
/// (expiry) is left out.
pub(super) fn properties_of(block: &PublishProperties<'_>) -> Option<Properties> {
    let mut properties = Properties::default();
    for property in block.iter() {
        match property {
            Property::PayloadFormat(format) => properties.payload_is_text = Some(format == 1),
            Property::ContentType(text) => properties.content_type = Some(text.into()),
            Property::ResponseTopic(topic) => properties.reply_to = Some(topic.into()),
            Property::CorrelationData(data) => properties.correlation = Some(data.into()),
            Property::User(name, value) => properties
                .user
                .push((name.into(), PropertyValue::Text(value.into()))),
            _ => {}
        }
    }
    (!properties.is_empty()).then_some(properties)
}
