//! CONNECT: from the first packet to an open session.

use super::{MqttFront, State};
use crate::front::{Cx, Variant};
use crate::{LoginAsk, mqtt::publish::properties_of, stamp};
use thalweg_kernel::access::Access;
use thalweg_kernel::{Closing, Grants, Kernel, KnownAs, OpenRefusal, OpenSession, Will, home};
use thalweg_model::{RetainOp, STAMPS_ANNOUNCEMENT, Span};
use thalweg_mqtt::{
    ConnAck, Connect, Peek, PeerFault, ReasonCode, ServerSide, Version, peek_connect,
};

/// What is remembered of a CONNECT while its sender is being checked.
pub(super) struct Opening {
    pub(super) client: Box<str>,
    pub(super) assigned: bool,
    fresh: bool,
    expiry: Span,
    expiry_asked: u32,
    receive_max: u16,
    keep_alive: u16,
    will: Option<Box<Will>>,
    wants_response_information: bool,
}

/// The routing key of a connection's first bytes: a hash of the client identifier, the same for the same identifier;
/// 0 when it has none. `None` if more bytes are needed: a peer that has not sent all of CONNECT is a stranger. `Err` if this is
/// no CONNECT.
pub fn home_key(bytes: &[u8], limit: usize) -> Result<Option<u64>, &'static str> {
    match peek_connect(bytes, limit) {
        Peek::ClientId(_)
            if ServerSide::frame_len(bytes).is_some_and(|whole| whole > bytes.len()) =>
        {
            Ok(None)
        }
        Peek::NeedMore { .. } => Ok(None),
        Peek::NotMqtt => Err("the first packet is not an MQTT CONNECT"),
        Peek::Broken => Err("the CONNECT packet is malformed"),
        Peek::TooLarge => Err("the CONNECT packet is too large"),
        Peek::ClientId("") => Ok(Some(0)),
        Peek::ClientId(client) => Ok(Some(u64::from(home(client, u16::MAX).0) + 1)),
    }
}

impl super::MqttSettings {
    /// Another keep-alive than the client asked for, if it must have another.
    fn keep_alive_for(&self, asked: u16) -> Option<u16> {
        match (asked, self.keep_alive_default, self.keep_alive_max) {
            (0, 0, 0) => None,
            (0, 0, max) => Some(max),
            (0, default, _) => Some(default),
            (asked, _, max) => (max != 0 && asked > max).then_some(max),
        }
    }

    /// The limits announced to a peer; they hold for its connection even if the settings change meanwhile.
    fn grants(&self) -> Grants {
        Grants {
            reliability_max: super::publish::reliability(self.maximum_qos),
            wildcards: self.wildcard_available,
            groups: self.shared_available,
            publish_rate: self.publish_rate,
            safety: self.safety,
            ..Grants::default()
        }
    }
}

const NO_ROOM_FOR_CONNACK: PeerFault = PeerFault {
    reason: ReasonCode::PacketTooLarge,
    clause: "MQTT-3.1.2-24",
    what: "the client's Maximum Packet Size has no room for CONNACK",
};

/// User properties of CONNACK that announce what the specification has no property for.
const ANNOUNCED: [(&str, &str); 1] = [(STAMPS_ANNOUNCEMENT, "1")];

impl MqttFront {
    pub(super) fn on_connect(cx: &mut Cx<'_>, connect: Connect<'_>) {
        let Some(front) = MqttFront::of(cx.links, cx.id) else {
            return;
        };
        let settings = front.settings.clone();
        if !settings.server_reference.is_empty() {
            let reference = Some(&*settings.server_reference);
            let ack = ConnAck {
                reason: ReasonCode::UseAnotherServer,
                server_reference: reference,
                ..ConnAck::default()
            };
            return MqttFront::refuse(cx, &ack);
        }
        if connect.client_id.is_empty() && !connect.clean_start && connect.version != Version::V5 {
            // [MQTT3-3.1.3-8]: no name and no clean session; there would be nothing to find it by.
            let ack = ConnAck {
                reason: ReasonCode::ClientIdentifierNotValid,
                ..ConnAck::default()
            };
            return MqttFront::refuse(cx, &ack);
        }
        if let Some(reason) = front.will_refusal(&connect) {
            return MqttFront::refuse(
                cx,
                &ConnAck {
                    reason,
                    ..ConnAck::default()
                },
            );
        }
        let opening = front.opening(&connect, cx.kernel);
        let (client, chosen) = (opening.client.clone(), !opening.assigned);
        front.is_bridge = connect.bridge;
        front.expiry_was_zero = connect.version == Version::V5 && connect.session_expiry == 0;
        MqttFront::hear_terms(cx, &connect.properties);
        let Some(front) = MqttFront::of(cx.links, cx.id) else {
            return;
        };
        if let Some(method) = connect.auth_method {
            front.auth_method = Some(method.into());
            front.state = State::ExpectVerdict(Box::new(opening));
            let data = connect.auth_data.unwrap_or_default().into();
            let ask = LoginAsk::Exchange {
                client,
                chosen,
                method: method.into(),
                data,
                first: true,
            };
            return cx.ask_login(ask);
        }
        let no_credentials = connect.username.is_none() && connect.password.is_none();
        if no_credentials && let Some(access) = front.anonymous.clone() {
            return MqttFront::open(cx, opening, None, access, None);
        }
        front.state = State::ExpectVerdict(Box::new(opening));
        let user = connect.username.map(Into::into);
        let password = connect.password.map(Into::into);
        cx.ask_login(LoginAsk::Password {
            client,
            chosen,
            user,
            password,
        });
    }

    /// A will we could not publish as asked. [MQTT-3.2.2-12], [MQTT-3.2.2-13]
    fn will_refusal(&self, connect: &Connect<'_>) -> Option<ReasonCode> {
        let will = connect.will.as_ref()?;
        if will.topic.len() > self.settings.topic_bytes_max {
            return Some(ReasonCode::TopicNameInvalid);
        }
        if will.qos > self.settings.maximum_qos {
            return Some(ReasonCode::QosNotSupported);
        }
        (will.retain && !self.settings.retain_available).then_some(ReasonCode::RetainNotSupported)
    }

    fn opening(&self, connect: &Connect<'_>, kernel: &Kernel) -> Opening {
        let expiry = match connect.version {
            Version::V5 if connect.session_expiry == u32::MAX => Span::FOREVER,
            Version::V5 => Span::from_secs(u64::from(connect.session_expiry)),
            _ if connect.clean_start => Span::ZERO,
            _ => self.settings.v3_expiry,
        };
        let assigned = connect.client_id.is_empty();
        // No client may come back under it, so nothing is to be found there.
        let expiry = if assigned && !self.settings.assigned_may_return {
            Span::ZERO
        } else {
            expiry
        };
        Opening {
            client: if assigned {
                kernel.unused_client_id(self.nonce)
            } else {
                connect.client_id.into()
            },
            assigned,
            fresh: connect.clean_start,
            expiry,
            expiry_asked: connect.session_expiry,
            receive_max: connect.receive_max,
            keep_alive: connect.keep_alive,
            will: connect.will.as_ref().map(|will| {
                Box::new(Will {
                    address: will.topic.into(),
                    payload: will.payload.into(),
                    reliability: super::publish::reliability(will.qos),
                    retain: match (will.retain, will.payload.is_empty()) {
                        (false, _) => RetainOp::None,
                        (true, true) => RetainOp::Clear,
                        (true, false) => RetainOp::Set,
                    },
                    delay: Span::from_secs(u64::from(will.delay_secs)),
                    expires_in: will
                        .properties
                        .message_expiry()
                        .map(|secs| Span::from_secs(u64::from(secs))),
                    properties: properties_of(&will.properties)
                        .and_then(stamp::remove)
                        .map(Box::new),
                })
            }),
            wants_response_information: connect.request_response_info,
        }
    }

    /// Opens the session of an admitted peer, and writes CONNACK.
    #[allow(clippy::too_many_arguments)] // The end of a chain that gathers exactly these.
    pub(super) fn open(
        cx: &mut Cx<'_>,
        opening: Opening,
        user: Option<Box<str>>,
        access: Access,
        auth_data: Option<&[u8]>,
    ) {
        let Some(front) = MqttFront::of(cx.links, cx.id) else {
            return;
        };
        let version = front.machine.version();
        let open = OpenSession {
            client: &opening.client,
            link: cx.id,
            fresh: opening.fresh,
            expiry: opening.expiry,
            in_flight_max: (version == Version::V5)
                .then(|| opening.receive_max.min(cx.kernel.limits().in_flight_max)),
            will: opening.will,
            tenant: "",
            access,
            user: user.map(Into::into),
            dialect: match version {
                Version::V31 => "MQTT 3.1",
                Version::V311 => "MQTT 3.1.1",
                Version::V5 => "MQTT 5.0",
            },
            // A name that the broker made up is of no use in presence, unless the peer comes back under it.
            known_as: (!opening.assigned || opening.expiry > Span::ZERO).then_some(KnownAs {
                tenant: "",
                name: &opening.client,
                claimed_in: None,
            }),
            grants: Grants {
                hears_refusals: front.machine.version() == Version::V5,
                ..front.settings.grants()
            },
        };
        let opened = match cx.open_session(open) {
            Ok(opened) => opened,
            Err(refusal) => {
                let reason = match refusal {
                    OpenRefusal::TooManySessions => ReasonCode::QuotaExceeded,
                    OpenRefusal::Overloaded | OpenRefusal::Outdated => ReasonCode::ServerBusy,
                    OpenRefusal::OtherUser | OpenRefusal::Denied => ReasonCode::NotAuthorized,
                };
                return MqttFront::refuse(
                    cx,
                    &ConnAck {
                        reason,
                        ..ConnAck::default()
                    },
                );
            }
        };
        let granted = opened.expiry.secs().min(u64::from(u32::MAX)) as u32;
        MqttFront::write(cx.links, cx.id, |front, out| {
            let settings = front.settings.clone();
            // Only MQTT 5 clients can be notified; for others their own value counts.
            let server_keep_alive = settings
                .keep_alive_for(opening.keep_alive)
                .filter(|_| version == Version::V5);
            front.keep_alive = server_keep_alive.unwrap_or(opening.keep_alive);
            let information = Some(&*settings.response_information).filter(|text| !text.is_empty());
            let method = front.auth_method.clone();
            front.state = State::Connected;
            let ack = ConnAck {
                session_present: opened.resumed,
                reason: ReasonCode::Success,
                session_expiry: (granted != opening.expiry_asked).then_some(granted),
                receive_max: settings.limits.receive_max,
                maximum_qos: settings.maximum_qos,
                retain_available: settings.retain_available,
                packet_bytes_max: Some(settings.limits.packet_bytes_max),
                assigned_client_id: opening.assigned.then_some(&*opening.client),
                topic_alias_max: settings.limits.topic_alias_max,
                wildcard_available: settings.wildcard_available,
                subscription_ids_available: settings.subscription_ids_available,
                shared_available: settings.shared_available,
                server_keep_alive,
                response_information: information.filter(|_| opening.wants_response_information),
                auth_method: method.as_deref(),
                auth_data,
                // Only MQTT 5 has room for it.
                user: Some(&ANNOUNCED),
                ..ConnAck::default()
            };
            front.machine.connack(&ack, out);
        });
        if MqttFront::of(cx.links, cx.id).is_some_and(|front| front.machine.is_closed()) {
            return MqttFront::fail(cx, NO_ROOM_FOR_CONNACK);
        }
        MqttFront::tell_terms_of_connect(cx);
        cx.start(opened.session);
    }

    /// Answers CONNECT with a failure and ends the link.
    pub(super) fn refuse(cx: &mut Cx<'_>, ack: &ConnAck<'_>) {
        MqttFront::write(cx.links, cx.id, |front, out| {
            front.machine.connack(ack, out)
        });
        MqttFront::end(cx, Closing::Lost, None);
    }
}
