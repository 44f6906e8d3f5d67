//! PUBACK, PUBREC, PUBREL and PUBCOMP.

use super::MqttFront;
use crate::front::{Cx, Variant};
use crate::probe::Mark;
use crate::registry::AnyFront;
use thalweg_kernel::{Settled, Verdict};
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
        // An acknowledgement of nothing is not an error: after a resume it may cross our repetition.
        cx.kernel
            .settle(session, tag, verdict(reason), cx.now, cx.links);
        cx.links.mark(Mark::KernelSettle);
    }

    pub(super) fn on_pubrec(cx: &mut Cx<'_>, tag: u16, reason: ReasonCode) {
        let Some(session) = cx.session() else {
            return;
        };
        if verdict(reason) == Verdict::Reject {
            cx.kernel
                .settle(session, tag, Verdict::Reject, cx.now, cx.links);
        } else if cx.kernel.receive(session, tag, cx.now, cx.links) == Settled::Unknown {
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
            .settle(session, tag, Verdict::Accept, cx.now, cx.links);
    }
}

/// A reason code from 0x80 on says that the receiver will not have the message.
fn verdict(reason: ReasonCode) -> Verdict {
    if reason as u8 >= 0x80 {
        Verdict::Reject
    } else {
        Verdict::Accept
    }
}
