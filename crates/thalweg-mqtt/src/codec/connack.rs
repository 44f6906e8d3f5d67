//! CONNACK (§3.2).
//!
//! ```text
//!  acknowledge flags: 0 0 0 0 0 0 0 session-present
//!  reason code (MQTT 3: return code)
//!  MQTT 5: properties
//! ```

use thalweg_wire::Reader;

use super::ack::{Info, fitting};
use super::frame::{packet_size, put_header};
use crate::packet::{PacketType, Sender};
use crate::properties::{Place, Property, PropertySource, block_size, put_block};
use crate::{PeerFault, Properties, QoS, ReasonCode, TextPairs, varint};

/// CONNACK, as sent and as received. Fields of MQTT 5 are left out on the wire when they hold their default.
///
/// `ServerSide::connack` announces its own limits: it overwrites `receive_max`, `packet_bytes_max` and
/// `topic_alias_max` with those of its `ServerLimits`.
#[derive(Clone, Copy, Debug)]
pub struct ConnAck<'a> {
    /// Whether the server resumes a session. [MQTT-3.2.2-2]
    pub session_present: bool,
    /// The outcome; mapped to a return code for MQTT 3.
    pub reason: ReasonCode,
    /// Seconds, if not what the client asked for. [MQTT-3.2.2-21]
    pub session_expiry: Option<u32>,
    /// Unacknowledged QoS 1 and 2 publishes the server takes; 65,535 is the default and says nothing.
    pub receive_max: u16,
    /// The highest QoS a client may publish with.
    pub maximum_qos: QoS,
    /// Whether retained messages are kept.
    pub retain_available: bool,
    /// Largest packet the server takes, in bytes.
    pub packet_bytes_max: Option<u32>,
    /// The name given to a client that had none. [MQTT-3.1.3-7]
    pub assigned_client_id: Option<&'a str>,
    /// Highest topic alias a client may use; 0 none.
    pub topic_alias_max: u16,
    /// A reason in words.
    pub reason_string: Option<&'a str>,
    /// User properties, in their order; MQTT 5 only.
    pub user: Option<&'a dyn TextPairs>,
    /// Whether wildcard subscriptions work.
    pub wildcard_available: bool,
    /// Whether subscription identifiers work.
    pub subscription_ids_available: bool,
    /// Whether shared subscriptions work.
    pub shared_available: bool,
    /// Seconds; replaces the client's keep alive. [MQTT-3.1.2-21]
    pub server_keep_alive: Option<u16>,
    /// Basis for response topics.
    pub response_information: Option<&'a str>,
    /// Another server to use.
    pub server_reference: Option<&'a str>,
    /// Enhanced authentication method, the one of CONNECT.
    pub auth_method: Option<&'a str>,
    /// Data of the authentication method, in the form that it defines.
    pub auth_data: Option<&'a [u8]>,
}

impl Default for ConnAck<'_> {
    fn default() -> Self {
        ConnAck {
            session_present: false,
            reason: ReasonCode::Success,
            session_expiry: None,
            receive_max: u16::MAX,
            maximum_qos: QoS::ExactlyOnce,
            retain_available: true,
            packet_bytes_max: None,
            assigned_client_id: None,
            topic_alias_max: 0,
            reason_string: None,
            user: None,
            wildcard_available: true,
            subscription_ids_available: true,
            shared_available: true,
            server_keep_alive: None,
            response_information: None,
            server_reference: None,
            auth_method: None,
            auth_data: None,
        }
    }
}

impl PropertySource for ConnAck<'_> {
    fn each(&self, sink: &mut dyn FnMut(Property<'_>)) {
        let mut some = |property: Option<Property<'_>>| {
            if let Some(property) = property {
                sink(property);
            }
        };
        some(self.session_expiry.map(Property::SessionExpiry));
        some(self.assigned_client_id.map(Property::AssignedClientId));
        some(self.server_keep_alive.map(Property::ServerKeepAlive));
        some(self.auth_method.map(Property::AuthMethod));
        some(self.auth_data.map(Property::AuthData));
        some(self.response_information.map(Property::ResponseInformation));
        some(self.server_reference.map(Property::ServerReference));
        some((self.receive_max != u16::MAX).then_some(Property::ReceiveMaximum(self.receive_max)));
        some(
            (self.topic_alias_max != 0)
                .then_some(Property::TopicAliasMaximum(self.topic_alias_max)),
        );
        some(
            (self.maximum_qos != QoS::ExactlyOnce)
                .then_some(Property::MaximumQos(self.maximum_qos as u8)),
        );
        some((!self.retain_available).then_some(Property::RetainAvailable(false)));
        some(self.packet_bytes_max.map(Property::MaximumPacketSize));
        some((!self.wildcard_available).then_some(Property::WildcardAvailable(false)));
        some(
            (!self.subscription_ids_available).then_some(Property::SubscriptionIdsAvailable(false)),
        );
        some((!self.shared_available).then_some(Property::SharedAvailable(false)));
        Info {
            reason_string: self.reason_string,
            user: self.user,
        }
        .each(sink);
    }
}

pub(crate) fn decode(body: &[u8], v5: bool) -> Result<(ConnAck<'_>, Properties<'_>), PeerFault> {
    let mut r = Reader::new(body);
    let flags = r.u8().ok_or(PeerFault::TRUNCATED)?;
    if flags & !1 != 0 {
        return Err(PeerFault::CONNACK_FLAGS);
    }
    let code = r.u8().ok_or(PeerFault::TRUNCATED)?;
    let reason = if v5 {
        // A server that does not speak MQTT 5 answers with return code 1 and no properties.
        if code == 1 && r.is_empty() {
            ReasonCode::UnsupportedProtocolVersion
        } else {
            ReasonCode::received(code, PacketType::ConnAck, Sender::Server)?
        }
    } else {
        ReasonCode::from_v3_return_code(code).ok_or(PeerFault::CONNACK_REASON)?
    };
    if flags == 1 && reason.is_error() {
        return Err(PeerFault::SESSION_PRESENT_WITH_ERROR);
    }
    let mut a = ConnAck {
        session_present: flags == 1,
        reason,
        ..ConnAck::default()
    };
    let properties = match v5 && !(code == 1 && r.is_empty()) {
        true => Properties::decode(&mut r, Place::ConnAck)?,
        false => Properties::EMPTY,
    };
    if !r.is_empty() {
        return Err(PeerFault::TRAILING);
    }
    for property in properties.iter() {
        match property {
            Property::SessionExpiry(v) => a.session_expiry = Some(v),
            Property::AssignedClientId(v) => a.assigned_client_id = Some(v),
            Property::ServerKeepAlive(v) => a.server_keep_alive = Some(v),
            Property::AuthMethod(v) => a.auth_method = Some(v),
            Property::AuthData(v) => a.auth_data = Some(v),
            Property::ResponseInformation(v) => a.response_information = Some(v),
            Property::ServerReference(v) => a.server_reference = Some(v),
            Property::ReasonString(v) => a.reason_string = Some(v),
            Property::ReceiveMaximum(v) => a.receive_max = v,
            Property::TopicAliasMaximum(v) => a.topic_alias_max = v,
            Property::MaximumQos(v) => a.maximum_qos = QoS::from_bits(v).unwrap_or_default(),
            Property::RetainAvailable(v) => a.retain_available = v,
            Property::MaximumPacketSize(v) => a.packet_bytes_max = Some(v),
            Property::WildcardAvailable(v) => a.wildcard_available = v,
            Property::SubscriptionIdsAvailable(v) => a.subscription_ids_available = v,
            Property::SharedAvailable(v) => a.shared_available = v,
            _ => {}
        }
    }
    Ok((a, properties))
}

/// Appends CONNACK; reason string and user properties give way to `bytes_max`. [MQTT-3.2.2-19] [MQTT-3.2.2-20]
pub(crate) fn encode(
    a: &ConnAck<'_>,
    v5: bool,
    session_present: bool,
    bytes_max: u32,
    out: &mut Vec<u8>,
) {
    if !v5 {
        out.extend_from_slice(&[
            0x20,
            2,
            u8::from(session_present),
            a.reason.v3_return_code(),
        ]);
        return;
    }
    let with = |info: &Info<'_>| {
        let a = ConnAck {
            reason_string: info.reason_string,
            user: info.user,
            ..*a
        };
        let block = block_size(&a)?;
        let body = 2 + varint::size(block as u32) + block;
        (packet_size(body) <= bytes_max as usize).then_some((body, block))
    };
    let info = fitting(
        &Info {
            reason_string: a.reason_string,
            user: a.user,
        },
        |info| with(info).is_some(),
    );
    let Some((body, block)) = with(&info) else {
        return;
    };
    put_header(PacketType::ConnAck.first_byte(), body, out);
    out.push(u8::from(session_present));
    out.push(
        a.reason
            .fitted_to(PacketType::ConnAck, Sender::Server)
            .byte(),
    );
    put_block(
        &ConnAck {
            reason_string: info.reason_string,
            user: info.user,
            ..*a
        },
        block,
        out,
    );
}
