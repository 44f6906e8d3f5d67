//! How a connection ends.

use super::MqttFront;
use crate::front::{Cx, Variant};

use thalweg_kernel::Closing;
use thalweg_model::Span;
use thalweg_mqtt::{Disconnect, PeerFault, ReasonCode};

const EXPIRY_RAISED: PeerFault = PeerFault {
    reason: ReasonCode::ProtocolError,
    clause: "MQTT-3.14.2-2",
    what: "DISCONNECT sets a Session Expiry Interval although CONNECT had none",
};

impl MqttFront {
    pub(super) fn on_disconnect(cx: &mut Cx<'_>, disconnect: &Disconnect<'_>) {
        let Some(front) = MqttFront::of(cx.links, cx.id) else {
            return;
        };
        if front.expiry_was_zero && disconnect.session_expiry.is_some_and(|secs| secs > 0) {
            return MqttFront::fail(cx, EXPIRY_RAISED);
        }
        let expiry = disconnect.session_expiry.map(|secs| match secs {
            u32::MAX => Span::FOREVER,
            secs => Span::from_secs(u64::from(secs)),
        });
        // Only reason code 0 takes the will back. [MQTT-3.14.4-3]
        let how = match disconnect.reason {
            ReasonCode::Success => Closing::Clean,
            _ => Closing::CleanWithWill,
        };
        MqttFront::end(cx, how, expiry);
    }
}
