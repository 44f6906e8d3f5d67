//! PUBACK, PUBREC, PUBREL and PUBCOMP.

use super::MqttFront;
use crate::front::{Cx, Variant};
use crate::probe::Mark;
use crate::registry::AnyFront;
use thalweg_kernel::{Settled, Settlement};
use thalweg_mqtt::ReasonCode;

impl MqttFront {
    pub(super) fn on_pubrel(cx: &mut Cx<'_>, ticket: u16) {
        let Some(link) = cx.links.get_mut(cx.id) else {
            return;
        };
        let Some(session) = link.session else { return };
        let AnyFront::Mqtt(front) = &mut link.front else {
            return;
        };
        let is_report = front.release_report(ticket);
        let known = is_report || cx.kernel.release(session, ticket, cx.links);
        let reason = if known {
            ReasonCode::Success
        } else {
            ReasonCode::PacketIdNotFound
        };
        MqttFront::write(cx.links, cx.id, |front, out| {
            front.machine.pubcomp(ticket, reason, out)
        });
    }

    #[inline]
    pub(super) fn on_puback(cx: &mut Cx<'_>, tag: u16, reason: ReasonCode) {
        let Some(session) = cx.session() else {
            return;
        };
        // An acknowledgement nobody waits for is not an error: after a resume it may cross our repetition.
        cx.kernel.settle(
            session,
            tag,
            settlement(reason, Settlement::Settled),
            cx.now,
            cx.links,
        );
        cx.links.mark(Mark::KernelSettle);
    }

    pub(super) fn on_pubrec(cx: &mut Cx<'_>, tag: u16, reason: ReasonCode) {
        let Some(session) = cx.session() else {
            return;
        };
        let said = settlement(reason, Settlement::Received);
        if cx.kernel.settle(session, tag, said, cx.now, cx.links) == Settled::Unknown
            && said == Settlement::Received
        {
            // [MQTT-4.3.3-3] asks for a PUBREL; the client may have state that we have not.
            MqttFront::write(cx.links, cx.id, |front, out| {
                front.machine.pubrel(tag, ReasonCode::PacketIdNotFound, out);
            });
        }
    }

    pub(super) fn on_pubcomp(cx: &mut Cx<'_>, tag: u16) {
        let Some(session) = cx.session() else {
            return;
        };
        cx.kernel
            .settle(session, tag, Settlement::Settled, cx.now, cx.links);
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
