//! Packet types (§2.1.2) and which reason codes belong to which (§2.4).

use crate::{PeerFault, ReasonCode};

/// The fifteen packet types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum PacketType {
    /// Client to server: open.
    Connect = 1,
    /// Server to client: outcome of CONNECT.
    ConnAck = 2,
    /// Both ways: a message.
    Publish = 3,
    /// Both ways: QoS 1 done.
    PubAck = 4,
    /// Both ways: QoS 2 received.
    PubRec = 5,
    /// Both ways: QoS 2 released.
    PubRel = 6,
    /// Both ways: QoS 2 done.
    PubComp = 7,
    /// Sent by the client only.
    Subscribe = 8,
    /// Sent by the server only.
    SubAck = 9,
    /// Sent by the client only.
    Unsubscribe = 10,
    /// Sent by the server only.
    UnsubAck = 11,
    /// Sent by the client only.
    PingReq = 12,
    /// Sent by the server only.
    PingResp = 13,
    /// Client to server; both ways in MQTT 5.
    Disconnect = 14,
    /// Both ways; MQTT 5 only.
    Auth = 15,
}

/// Sender of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sender {
    /// The end that sends CONNECT.
    Client,
    /// The end that answers with CONNACK.
    Server,
}

impl PacketType {
    /// The first byte of a packet of this type with the flags of table 2-2 (PUBLISH: none set).
    #[inline]
    pub const fn first_byte(self) -> u8 {
        let flags = match self {
            PacketType::PubRel | PacketType::Subscribe | PacketType::Unsubscribe => 0b0010,
            _ => 0,
        };
        (self as u8) << 4 | flags
    }

    /// The fault of a reason code that does not belong to this packet.
    pub(crate) const fn reason_fault(self) -> PeerFault {
        match self {
            PacketType::PubAck => PeerFault::PUBACK_REASON,
            PacketType::PubRec => PeerFault::PUBREC_REASON,
            PacketType::PubRel => PeerFault::PUBREL_REASON,
            PacketType::PubComp => PeerFault::PUBCOMP_REASON,
            PacketType::SubAck => PeerFault::SUBACK_REASON,
            PacketType::UnsubAck => PeerFault::UNSUBACK_REASON,
            PacketType::Disconnect => PeerFault::DISCONNECT_REASON,
            PacketType::Auth => PeerFault::AUTH_REASON,
            _ => PeerFault::CONNACK_REASON,
        }
    }
}

impl ReasonCode {
    /// Whether the specification lets `sender` put this code into this packet (tables 3-1, 3-4 to 3-11).
    pub const fn belongs_to(self, packet: PacketType, sender: Sender) -> bool {
        use ReasonCode::*;
        match packet {
            PacketType::ConnAck => matches!(
                self,
                Success
                    | Unspecified
                    | MalformedPacket
                    | ProtocolError
                    | ImplementationSpecific
                    | UnsupportedProtocolVersion
                    | ClientIdentifierNotValid
                    | BadUserNameOrPassword
                    | NotAuthorized
                    | ServerUnavailable
                    | ServerBusy
                    | Banned
                    | BadAuthenticationMethod
                    | TopicNameInvalid
                    | PacketTooLarge
                    | QuotaExceeded
                    | PayloadFormatInvalid
                    | RetainNotSupported
                    | QosNotSupported
                    | UseAnotherServer
                    | ServerMoved
                    | ConnectionRateExceeded
            ),
            PacketType::PubAck | PacketType::PubRec => matches!(
                self,
                Success
                    | NoMatchingSubscribers
                    | Unspecified
                    | ImplementationSpecific
                    | NotAuthorized
                    | TopicNameInvalid
                    | PacketIdInUse
                    | QuotaExceeded
                    | PayloadFormatInvalid
            ),
            PacketType::PubRel | PacketType::PubComp => matches!(self, Success | PacketIdNotFound),
            PacketType::SubAck => matches!(
                self,
                Success
                    | GrantedQos1
                    | GrantedQos2
                    | Unspecified
                    | ImplementationSpecific
                    | NotAuthorized
                    | TopicFilterInvalid
                    | PacketIdInUse
                    | QuotaExceeded
                    | SharedSubscriptionsNotSupported
                    | SubscriptionIdsNotSupported
                    | WildcardSubscriptionsNotSupported
            ),
            PacketType::UnsubAck => matches!(
                self,
                Success
                    | NoSubscriptionExisted
                    | Unspecified
                    | ImplementationSpecific
                    | NotAuthorized
                    | TopicFilterInvalid
                    | PacketIdInUse
            ),
            PacketType::Disconnect => match self {
                Success
                | Unspecified
                | MalformedPacket
                | ProtocolError
                | ImplementationSpecific
                | BadAuthenticationMethod
                | TopicNameInvalid
                | ReceiveMaximumExceeded
                | TopicAliasInvalid
                | PacketTooLarge
                | MessageRateTooHigh
                | QuotaExceeded
                | AdministrativeAction
                | PayloadFormatInvalid => true,
                DisconnectWithWill => matches!(sender, Sender::Client),
                NotAuthorized
                | ServerBusy
                | ServerShuttingDown
                | KeepAliveTimeout
                | SessionTakenOver
                | TopicFilterInvalid
                | RetainNotSupported
                | QosNotSupported
                | UseAnotherServer
                | ServerMoved
                | SharedSubscriptionsNotSupported
                | ConnectionRateExceeded
                | MaximumConnectTime
                | SubscriptionIdsNotSupported
                | WildcardSubscriptionsNotSupported => matches!(sender, Sender::Server),
                _ => false,
            },
            PacketType::Auth => match self {
                Success => matches!(sender, Sender::Server),
                ContinueAuthentication => true,
                ReAuthenticate => matches!(sender, Sender::Client),
                _ => false,
            },
            _ => false,
        }
    }

    /// This code if it belongs to the packet, else the nearest that does: nothing else may be sent.
    pub(crate) const fn fitted_to(self, packet: PacketType, sender: Sender) -> ReasonCode {
        if self.belongs_to(packet, sender) {
            self
        } else if self.is_error() {
            match packet {
                PacketType::PubRel | PacketType::PubComp => ReasonCode::PacketIdNotFound,
                _ => ReasonCode::Unspecified,
            }
        } else {
            ReasonCode::Success
        }
    }

    /// Reads a code out of a received packet.
    pub(crate) const fn received(
        byte: u8,
        packet: PacketType,
        sender: Sender,
    ) -> Result<ReasonCode, PeerFault> {
        match ReasonCode::from_byte(byte) {
            None => Err(PeerFault::REASON_UNKNOWN),
            Some(code) if code.belongs_to(packet, sender) => Ok(code),
            Some(_) => Err(packet.reason_fault()),
        }
    }
}
