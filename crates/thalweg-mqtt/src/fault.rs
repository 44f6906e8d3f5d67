//! Protocol errors of a peer: one constant per broken clause, in one table.

use crate::ReasonCode;

/// A peer broke the protocol. The connection cannot go on; `ServerSide::fault` writes the goodbye.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PeerFault {
    /// Reason code for CONNACK or DISCONNECT (MQTT 5), or the source of the CONNACK return code (MQTT 3).
    pub reason: ReasonCode,
    /// The statement that was broken, without brackets: `MQTT-…` of MQTT 5.0, `MQTT3-…` of 3.1.1, or a section (`§2.1.4`).
    pub clause: &'static str,
    /// The error, as half a sentence.
    pub what: &'static str,
}

impl std::fmt::Display for PeerFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "the peer is at fault: {} [{}]; {}; the connection is closed, correct the peer or raise the limit it met",
            self.what, self.clause, self.reason
        )
    }
}

impl std::error::Error for PeerFault {}

impl PeerFault {
    /// Whether a CONNACK of MQTT 3 can report it. After a malformed packet the connection is closed without an answer.
    /// [MQTT3-3.1.4-1]
    pub(crate) const fn has_return_code(&self) -> bool {
        use ReasonCode::*;
        !matches!(
            self.reason,
            MalformedPacket | ProtocolError | PacketTooLarge | TopicNameInvalid
        )
    }
}

macro_rules! faults {
    ($($name:ident: $reason:ident $clause:literal $what:literal;)*) => {
        /// The table of everything a peer can do wrong.
        impl PeerFault {
            $(#[doc = concat!($what, " [", $clause, "].")]
            pub const $name: PeerFault =
                PeerFault { reason: ReasonCode::$reason, clause: $clause, what: $what };)*

            /// Every fault that this crate can report, for documents and tests.
            pub const ALL: &'static [PeerFault] = &[$(PeerFault::$name),*];
        }
    };
}

faults! {
    // Framing and primitives.
    PACKET_TOO_LARGE: PacketTooLarge "MQTT-3.2.2-15" "the packet is larger than our Maximum Packet Size";
    CONNECT_TOO_LARGE: PacketTooLarge "§4.13.1" "the CONNECT packet is larger than we take before we know the client";
    LENGTH_MALFORMED: MalformedPacket "MQTT-1.5.5-1" "a Variable Byte Integer is longer than four bytes or than it needs to be";
    TYPE_RESERVED: MalformedPacket "§2.1.2" "the packet type is reserved in this version";
    DIRECTION: ProtocolError "§2.1.2" "this packet type is sent only by the other side";
    FLAGS: MalformedPacket "MQTT-2.1.3-1" "reserved flags in the fixed header are wrong";
    TRUNCATED: MalformedPacket "MQTT-4.13.1-1" "the packet ends inside a field";
    TRAILING: MalformedPacket "MQTT-4.13.1-1" "bytes follow the last field";
    UTF8: MalformedPacket "MQTT-1.5.4-1" "a string is not well-formed UTF-8";
    NUL: MalformedPacket "MQTT-1.5.4-2" "a string contains U+0000";
    PACKET_ID_ZERO: ProtocolError "MQTT-2.2.1-3" "the packet identifier is 0";

    // Properties.
    PROPERTY_UNKNOWN: MalformedPacket "§2.2.2.2" "a property identifier is not defined";
    PROPERTY_MISPLACED: MalformedPacket "§2.2.2.2" "a property is not allowed in this packet";
    PROPERTY_TWICE: ProtocolError "§2.2.2.2" "a property that may appear once appears twice";
    PROPERTY_NOT_BOOLEAN: ProtocolError "§2.2.2.2" "a property that can only be 0 or 1 is neither";
    RECEIVE_MAXIMUM_ZERO: ProtocolError "§3.1.2.11.3" "Receive Maximum is 0";
    MAXIMUM_PACKET_SIZE_ZERO: ProtocolError "§3.1.2.11.4" "Maximum Packet Size is 0";
    SUBSCRIPTION_ID_ZERO: ProtocolError "§3.8.2.1.2" "a Subscription Identifier is 0";
    RESPONSE_TOPIC_INVALID: ProtocolError "MQTT-3.3.2-14" "the Response Topic is empty or contains a wildcard";

    // CONNECT.
    EXPECTED_CONNECT: ProtocolError "MQTT-3.1.0-1" "the first packet is not CONNECT";
    SECOND_CONNECT: ProtocolError "MQTT-3.1.0-2" "CONNECT was sent a second time";
    PROTOCOL_NAME: UnsupportedProtocolVersion "MQTT-3.1.2-1" "the protocol name is not that of MQTT";
    PROTOCOL_LEVEL: UnsupportedProtocolVersion "MQTT-3.1.2-2" "the protocol level is not 3, 4 or 5, or does not go with the name";
    CONNECT_RESERVED_FLAG: MalformedPacket "MQTT-3.1.2-3" "the reserved flag of CONNECT is set";
    WILL_QOS_WITHOUT_WILL: MalformedPacket "MQTT-3.1.2-11" "Will QoS is set without a will";
    WILL_QOS_3: MalformedPacket "MQTT-3.1.2-12" "Will QoS is 3";
    WILL_RETAIN_WITHOUT_WILL: MalformedPacket "MQTT-3.1.2-13" "Will Retain is set without a will";
    WILL_TOPIC_INVALID: TopicNameInvalid "MQTT-4.7.0-1" "the will topic is empty or contains a wildcard";
    PASSWORD_WITHOUT_USERNAME: MalformedPacket "MQTT3-3.1.2-22" "a password comes without a user name";
    CLIENT_ID_EMPTY: ClientIdentifierNotValid "MQTT3-3.1.3-8" "an empty client identifier needs MQTT 3.1.1 with Clean Session, or MQTT 5";
    CLIENT_ID_TOO_LONG: ClientIdentifierNotValid "MQTT-3.1.3-8" "the client identifier is longer than this server allows";
    AUTH_DATA_WITHOUT_METHOD: ProtocolError "§3.1.2.11.10" "Authentication Data comes without an Authentication Method";
    BEFORE_CONNACK: ProtocolError "MQTT-3.1.2-30" "only AUTH and DISCONNECT may precede CONNACK in an authentication exchange";

    // CONNACK.
    EXPECTED_CONNACK: ProtocolError "MQTT-3.2.0-1" "the server sent something before CONNACK";
    SESSION_UNKNOWN: ProtocolError "MQTT-3.2.2-4" "CONNACK says that a session is present, but the client began a new one";
    SECOND_CONNACK: ProtocolError "MQTT-3.2.0-2" "CONNACK was sent a second time";
    CONNACK_FLAGS: MalformedPacket "MQTT-3.2.2-1" "reserved acknowledge flags of CONNACK are set";
    SESSION_PRESENT_WITH_ERROR: ProtocolError "MQTT-3.2.2-6" "CONNACK reports a failure and a session";
    CONNACK_REASON: ProtocolError "MQTT-3.2.2-8" "the reason code is not one of CONNACK";

    // PUBLISH.
    PUBLISH_QOS_3: MalformedPacket "MQTT-3.3.1-4" "both QoS bits are set";
    DUP_WITH_QOS_0: MalformedPacket "MQTT-3.3.1-2" "DUP is set with QoS 0";
    TOPIC_WILDCARD: TopicNameInvalid "MQTT-3.3.2-2" "the topic name contains a wildcard";
    TOPIC_EMPTY: ProtocolError "MQTT-4.7.3-1" "the topic name is empty and there is no topic alias";
    TOPIC_ALIAS_ZERO: TopicAliasInvalid "MQTT-3.3.2-8" "the topic alias is 0";
    TOPIC_ALIAS_TOO_HIGH: TopicAliasInvalid "MQTT-3.3.2-9" "the topic alias is above Topic Alias Maximum";
    TOPIC_ALIAS_UNKNOWN: ProtocolError "§3.3.2.3.4" "the topic alias has no topic on this connection";
    RECEIVE_MAXIMUM: ReceiveMaximumExceeded "MQTT-3.3.4-7" "more QoS 1 and 2 publishes are unacknowledged than Receive Maximum allows";
    SUBSCRIPTION_ID_FROM_CLIENT: ProtocolError "MQTT-3.3.4-6" "a client sent a Subscription Identifier with PUBLISH";
    QOS_NOT_SUPPORTED: QosNotSupported "MQTT-3.2.2-11" "the QoS is above the server's Maximum QoS";
    RETAIN_NOT_SUPPORTED: RetainNotSupported "MQTT-3.2.2-14" "RETAIN is set although the server keeps no retained messages";

    // Acknowledgements.
    REASON_UNKNOWN: MalformedPacket "§2.4" "a reason code is not defined";
    PUBACK_REASON: ProtocolError "MQTT-3.4.2-1" "the reason code is not one of PUBACK";
    PUBREC_REASON: ProtocolError "MQTT-3.5.2-1" "the reason code is not one of PUBREC";
    PUBREL_FLAGS: MalformedPacket "MQTT-3.6.1-1" "reserved flags of PUBREL are wrong";
    PUBREL_REASON: ProtocolError "MQTT-3.6.2-1" "the reason code is not one of PUBREL";
    PUBCOMP_REASON: ProtocolError "MQTT-3.7.2-1" "the reason code is not one of PUBCOMP";

    // SUBSCRIBE and UNSUBSCRIBE.
    SUBSCRIBE_FLAGS: MalformedPacket "MQTT-3.8.1-1" "reserved flags of SUBSCRIBE are wrong";
    SUBSCRIBE_EMPTY: ProtocolError "MQTT-3.8.3-2" "SUBSCRIBE has no topic filter";
    SUBSCRIBE_OPTIONS: MalformedPacket "MQTT-3.8.3-5" "reserved subscription options are set";
    SUBSCRIBE_QOS_3: ProtocolError "§3.8.3.1" "the QoS of a subscription is 3";
    RETAIN_HANDLING_3: ProtocolError "§3.8.3.1" "Retain Handling is 3";
    NO_LOCAL_SHARED: ProtocolError "MQTT-3.8.3-4" "No Local is set on a shared subscription";
    SUBACK_REASON: ProtocolError "MQTT-3.9.3-2" "the reason code is not one of SUBACK";
    UNSUBSCRIBE_FLAGS: MalformedPacket "MQTT-3.10.1-1" "reserved flags of UNSUBSCRIBE are wrong";
    UNSUBSCRIBE_EMPTY: ProtocolError "MQTT-3.10.3-2" "UNSUBSCRIBE has no topic filter";
    UNSUBACK_REASON: ProtocolError "MQTT-3.11.3-2" "the reason code is not one of UNSUBACK";

    // DISCONNECT and AUTH.
    DISCONNECT_FLAGS: MalformedPacket "MQTT-3.14.1-1" "reserved flags of DISCONNECT are wrong";
    DISCONNECT_REASON: ProtocolError "MQTT-3.14.2-1" "the reason code is not one of DISCONNECT from this side";
    SESSION_EXPIRY_FROM_SERVER: ProtocolError "MQTT-3.14.2-2" "a server sent Session Expiry Interval with DISCONNECT";
    SESSION_EXPIRY_RAISED: ProtocolError "§3.14.2.2.2" "Session Expiry Interval was 0 in CONNECT and is not in DISCONNECT";
    AUTH_FLAGS: MalformedPacket "MQTT-3.15.1-1" "reserved flags of AUTH are wrong";
    AUTH_REASON: ProtocolError "MQTT-3.15.2-1" "the reason code is not one of AUTH from this side";
    AUTH_UNASKED: ProtocolError "MQTT-4.12.0-7" "AUTH was sent although CONNECT named no Authentication Method";
    AUTH_METHOD_MISSING: ProtocolError "MQTT-4.12.0-5" "AUTH names no Authentication Method";
    AUTH_METHOD_CHANGED: BadAuthenticationMethod "MQTT-4.12.1-1" "the Authentication Method is not the one of CONNECT";
}
