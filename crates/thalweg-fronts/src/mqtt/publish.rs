//! PUBLISH and its acknowledgements, both ways.

use super::MqttFront;
use crate::front::Variant;
use crate::link::Links;
use crate::probe::Mark;
use crate::registry::AnyFront;
use crate::stamp;
use thalweg_kernel::{Draft, Kernel, LinkId, Native, Outcome, Settled, Settlement};
use thalweg_model::{Properties, PropertyValue, Reliability, RetainOp, Span, Time};
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

/// How long a publisher that cannot be refused waits while the journal is full or memory is short.
const FULL_PAUSE: Span = Span::from_millis(200);

impl MqttFront {
    #[inline]
    pub(super) fn on_publish(
        links: &mut Links,
        id: LinkId,
        publish: &Publish<'_>,
        now: Time,
        kernel: &mut Kernel,
    ) -> Handled {
        let Some(link) = links.get_mut(id) else {
            return Handled::Done;
        };
        let Some(session) = link.session else {
            return Handled::Done;
        };
        let AnyFront::Mqtt(front) = &mut link.front else {
            return Handled::Done;
        };
        if publish.qos > front.settings.maximum_qos {
            MqttFront::fail(links, id, QOS_TOO_HIGH, now, kernel);
            return Handled::Done;
        }
        if publish.retain && !front.settings.retain_available {
            MqttFront::fail(links, id, RETAIN_OFF, now, kernel);
            return Handled::Done;
        }
        if publish.topic.as_str() == load::ADDRESS {
            return MqttFront::on_load_publish(links, id, publish, now, kernel);
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
                .and_then(|properties| stamp::take(properties, session, kernel));
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
        links.mark(Mark::FrontIn);
        let published = kernel.publish(session, draft, now, links);
        links.mark(Mark::KernelPublish);
        if published.outcome == Outcome::Full
            && let Some(link) = links.get_mut(id)
            && let AnyFront::Mqtt(front) = &link.front
            && (front.machine.version() != Version::V5 || publish.qos == QoS::AtMostOnce)
        {
            // Neither MQTT 3 nor QoS 0 can refuse a message. It is asked again after a while, and nothing behind it is read meanwhile.
            link.pause_until = Some(now + FULL_PAUSE);
            return Handled::Later;
        }
        // What MQTT 3 cannot refuse is not acknowledged: its client has it still, and sends it again when it comes back.
        let is_acknowledged = publish.qos != QoS::AtMostOnce
            && (published.outcome != Outcome::Refused
                || MqttFront::of(links, id)
                    .is_some_and(|front| front.machine.version() == Version::V5));
        if is_acknowledged {
            let (ticket, qos) = (publish.id, publish.qos);
            MqttFront::write(links, id, |front, out| {
                front.acknowledge(ticket, qos, published.outcome, out)
            });
            links.mark(Mark::FrontAck);
        }
        if let Some(until) = published.pause_until
            && let Some(link) = links.get_mut(id)
        {
            link.pause_until = Some(until);
        }
        Handled::Done
    }

    fn acknowledge(&mut self, ticket: u16, qos: QoS, outcome: Outcome, out: &mut Vec<u8>) {
        let reason = match outcome {
            Outcome::Accepted => ReasonCode::Success,
            Outcome::NoMatch => ReasonCode::NoMatchingSubscribers,
            Outcome::Denied => ReasonCode::NotAuthorized,
            Outcome::BadAddress => ReasonCode::TopicNameInvalid,
            // Only MQTT 5 can say so; see `on_publish`.
            Outcome::Full | Outcome::Refused => ReasonCode::QuotaExceeded,
        };
        match qos {
            QoS::AtMostOnce => {}
            QoS::AtLeastOnce => self.machine.puback(ticket, reason, out),
            QoS::ExactlyOnce => self.machine.pubrec(ticket, reason, out),
        }
    }

    pub(super) fn on_pubrel(links: &mut Links, id: LinkId, ticket: u16, kernel: &mut Kernel) {
        let Some(link) = links.get_mut(id) else {
            return;
        };
        let Some(session) = link.session else { return };
        let AnyFront::Mqtt(front) = &mut link.front else {
            return;
        };
        let is_report = front.release_report(ticket);
        let known = is_report || kernel.release(session, ticket, links);
        let reason = if known {
            ReasonCode::Success
        } else {
            ReasonCode::PacketIdNotFound
        };
        MqttFront::write(links, id, |front, out| {
            front.machine.pubcomp(ticket, reason, out)
        });
    }

    #[inline]
    pub(super) fn on_puback(
        links: &mut Links,
        id: LinkId,
        tag: u16,
        reason: ReasonCode,
        now: Time,
        kernel: &mut Kernel,
    ) {
        let Some(session) = links.get(id).and_then(|link| link.session) else {
            return;
        };
        // An acknowledgement nobody waits for is not an error: after a resume it may cross our repetition.
        kernel.settle(
            session,
            tag,
            settlement(reason, Settlement::Settled),
            now,
            links,
        );
        links.mark(Mark::KernelSettle);
    }

    pub(super) fn on_pubrec(
        links: &mut Links,
        id: LinkId,
        tag: u16,
        reason: ReasonCode,
        now: Time,
        kernel: &mut Kernel,
    ) {
        let Some(session) = links.get(id).and_then(|link| link.session) else {
            return;
        };
        let said = settlement(reason, Settlement::Received);
        if kernel.settle(session, tag, said, now, links) == Settled::Unknown
            && said == Settlement::Received
        {
            // [MQTT-4.3.3-3] asks for a PUBREL; the client may have state that we have not.
            MqttFront::write(links, id, |front, out| {
                front.machine.pubrel(tag, ReasonCode::PacketIdNotFound, out);
            });
        }
    }

    pub(super) fn on_pubcomp(
        links: &mut Links,
        id: LinkId,
        tag: u16,
        now: Time,
        kernel: &mut Kernel,
    ) {
        let Some(session) = links.get(id).and_then(|link| link.session) else {
            return;
        };
        kernel.settle(session, tag, Settlement::Settled, now, links);
    }
}

/// A reason code from 0x80 on says that the receiver will not have the message.
fn settlement(reason: ReasonCode, good: Settlement) -> Settlement {
    if reason as u8 >= 0x80 {
        Settlement::Rejected
    } else {
        good
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
