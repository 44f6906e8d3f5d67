//! Reason codes of MQTT 5.0 (§2.4) and their CONNACK return codes of MQTT 3.
//!
//! The enum, [`ReasonCode::from_byte`] and [`ReasonCode::name`] come from one table, [`reason_codes!`].

macro_rules! reason_codes {
    ($($(#[$doc:meta])* $byte:literal $variant:ident $name:literal;)*) => {
        /// A reason code; below 0x80 it is a success, from 0x80 on a failure.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum ReasonCode {
            $($(#[$doc])* $variant = $byte,)*
        }

        impl ReasonCode {
            /// Every reason code, in the order of their numbers.
            pub const ALL: &'static [ReasonCode] = &[$(ReasonCode::$variant),*];

            /// The reason code with this number, if the specification defines one.
            #[inline]
            pub const fn from_byte(byte: u8) -> Option<ReasonCode> {
                match byte {
                    $($byte => Some(ReasonCode::$variant),)*
                    _ => None,
                }
            }

            /// The name of the specification, in lower case.
            pub const fn name(self) -> &'static str {
                match self {
                    $(ReasonCode::$variant => $name,)*
                }
            }
        }
    };
}

reason_codes! {
    /// The request was carried out; in DISCONNECT: normal disconnection; in SUBACK: granted QoS 0.
    #[default]
    0x00 Success "success";
    /// The subscription was made with at most QoS 1.
    0x01 GrantedQos1 "granted QoS 1";
    /// The subscription was made with at most QoS 2.
    0x02 GrantedQos2 "granted QoS 2";
    /// The client disconnects and asks for its will to be published.
    0x04 DisconnectWithWill "disconnect with will message";
    /// The message was accepted; no subscription matches.
    0x10 NoMatchingSubscribers "no matching subscribers";
    /// There was nothing to unsubscribe from.
    0x11 NoSubscriptionExisted "no subscription existed";
    /// Another step of the authentication exchange follows.
    0x18 ContinueAuthentication "continue authentication";
    /// The client starts authentication anew.
    0x19 ReAuthenticate "re-authenticate";
    /// The sender does not say why.
    0x80 Unspecified "unspecified error";
    /// The bytes do not parse.
    0x81 MalformedPacket "malformed packet";
    /// A well-formed packet that is not allowed here.
    0x82 ProtocolError "protocol error";
    /// Valid, but not accepted by this implementation.
    0x83 ImplementationSpecific "implementation specific error";
    /// The protocol level is not spoken here.
    0x84 UnsupportedProtocolVersion "unsupported protocol version";
    /// Well-formed, but not allowed.
    0x85 ClientIdentifierNotValid "client identifier not valid";
    /// The credentials were not accepted.
    0x86 BadUserNameOrPassword "bad user name or password";
    /// Access control forbids it.
    0x87 NotAuthorized "not authorized";
    /// The server cannot serve now.
    0x88 ServerUnavailable "server unavailable";
    /// The server cannot serve this now; the client may retry later.
    0x89 ServerBusy "server busy";
    /// An administrator has banned this client.
    0x8a Banned "banned";
    /// The server is going down.
    0x8b ServerShuttingDown "server shutting down";
    /// Not supported, or not the one in use.
    0x8c BadAuthenticationMethod "bad authentication method";
    /// Nothing was received for 1.5 times the keep alive.
    0x8d KeepAliveTimeout "keep alive timeout";
    /// Another connection uses the same client identifier.
    0x8e SessionTakenOver "session taken over";
    /// Well-formed, but not accepted.
    0x8f TopicFilterInvalid "topic filter invalid";
    /// Well-formed, but not accepted.
    0x90 TopicNameInvalid "topic name invalid";
    /// The identifier is taken by an unfinished exchange.
    0x91 PacketIdInUse "packet identifier in use";
    /// No exchange has this identifier.
    0x92 PacketIdNotFound "packet identifier not found";
    /// More unacknowledged publishes than agreed.
    0x93 ReceiveMaximumExceeded "receive maximum exceeded";
    /// Zero, above the maximum, or unknown.
    0x94 TopicAliasInvalid "topic alias invalid";
    /// Above the Maximum Packet Size.
    0x95 PacketTooLarge "packet too large";
    /// The peer publishes too fast.
    0x96 MessageRateTooHigh "message rate too high";
    /// A limit of the implementation or the administrator is reached.
    0x97 QuotaExceeded "quota exceeded";
    /// Closed by an administrator.
    0x98 AdministrativeAction "administrative action";
    /// The payload is not what its format indicator says.
    0x99 PayloadFormatInvalid "payload format invalid";
    /// The server keeps no retained messages.
    0x9a RetainNotSupported "retain not supported";
    /// Above the server's Maximum QoS.
    0x9b QosNotSupported "QoS not supported";
    /// For the time being.
    0x9c UseAnotherServer "use another server";
    /// The client should use another server permanently.
    0x9d ServerMoved "server moved";
    /// The server offers none.
    0x9e SharedSubscriptionsNotSupported "shared subscriptions not supported";
    /// Too many connections in a short time.
    0x9f ConnectionRateExceeded "connection rate exceeded";
    /// The connection has lived as long as it may.
    0xa0 MaximumConnectTime "maximum connect time";
    /// The server offers none.
    0xa1 SubscriptionIdsNotSupported "subscription identifiers not supported";
    /// The server offers none.
    0xa2 WildcardSubscriptionsNotSupported "wildcard subscriptions not supported";
}

impl ReasonCode {
    /// Normal disconnection: the meaning of 0x00 in DISCONNECT.
    pub const NORMAL_DISCONNECTION: ReasonCode = ReasonCode::Success;
    /// Granted QoS 0: the meaning of 0x00 in SUBACK.
    pub const GRANTED_QOS_0: ReasonCode = ReasonCode::Success;

    /// The number on the wire.
    #[inline]
    pub const fn byte(self) -> u8 {
        self as u8
    }

    /// Whether the code reports a failure (0x80 and above).
    #[inline]
    pub const fn is_error(self) -> bool {
        self as u8 >= 0x80
    }

    /// The SUBACK code that grants this QoS.
    pub const fn granted(qos: crate::QoS) -> ReasonCode {
        match qos {
            crate::QoS::AtMostOnce => ReasonCode::Success,
            crate::QoS::AtLeastOnce => ReasonCode::GrantedQos1,
            crate::QoS::ExactlyOnce => ReasonCode::GrantedQos2,
        }
    }

    /// The CONNACK return code of MQTT 3.1 and 3.1.1 (table 3.1) that comes nearest.
    pub const fn v3_return_code(self) -> u8 {
        use ReasonCode::*;
        match self {
            Success => 0x00,
            UnsupportedProtocolVersion => 0x01,
            ClientIdentifierNotValid => 0x02,
            BadUserNameOrPassword | BadAuthenticationMethod => 0x04,
            NotAuthorized | Banned => 0x05,
            _ => 0x03,
        }
    }

    /// The reason code that says the same as a CONNACK return code of MQTT 3; `None` for reserved numbers.
    pub const fn from_v3_return_code(code: u8) -> Option<ReasonCode> {
        use ReasonCode::*;
        Some(match code {
            0x00 => Success,
            0x01 => UnsupportedProtocolVersion,
            0x02 => ClientIdentifierNotValid,
            0x03 => ServerUnavailable,
            0x04 => BadUserNameOrPassword,
            0x05 => NotAuthorized,
            _ => return None,
        })
    }
}

impl std::fmt::Display for ReasonCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (0x{:02x})", self.name(), self.byte())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PacketType, Sender};

    #[test]
    fn every_reason_code_has_its_number_a_name_and_a_packet() {
        assert_eq!(ReasonCode::ALL.len(), 43);
        for code in ReasonCode::ALL {
            assert_eq!(ReasonCode::from_byte(code.byte()), Some(*code));
            assert!(!code.name().is_empty());
            let homes = [
                PacketType::ConnAck,
                PacketType::PubAck,
                PacketType::PubRel,
                PacketType::SubAck,
                PacketType::UnsubAck,
                PacketType::Disconnect,
                PacketType::Auth,
            ];
            let belongs = |sender| homes.iter().any(|packet| code.belongs_to(*packet, sender));
            assert!(belongs(Sender::Client) || belongs(Sender::Server), "{code}");
        }
        assert_eq!((0..=255).filter_map(ReasonCode::from_byte).count(), 43);
    }

    /// [MQTT3-3.2.2-6]
    #[test]
    fn every_return_code_of_mqtt3_comes_back() {
        for code in 0..=5 {
            assert_eq!(
                ReasonCode::from_v3_return_code(code).map(ReasonCode::v3_return_code),
                Some(code)
            );
        }
        assert_eq!(ReasonCode::from_v3_return_code(6), None);
    }
}
