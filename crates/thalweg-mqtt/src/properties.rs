//! The 27 properties of MQTT 5.0 (§2.2.2): one enum, one table of where each is legal, blocks validated once and read lazily.
//!
//! ```text
//!  +--------------------+----+-------+----+-------+ ...
//!  | length, varint     | id | value | id | value |
//!  +--------------------+----+-------+----+-------+ ...
//! ```

use thalweg_wire::Reader;

use crate::text::{self, fits16, put16};
use crate::{PeerFault, TextPairs, varint};

/// One property with its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Property<'a> {
    /// 0x01: 0 unspecified bytes, 1 UTF-8 text.
    PayloadFormat(u8),
    /// 0x02: seconds that a message may wait.
    MessageExpiry(u32),
    /// 0x03: media type of the payload.
    ContentType(&'a str),
    /// 0x08: where an answer goes.
    ResponseTopic(&'a str),
    /// 0x09: ties an answer to its request.
    CorrelationData(&'a [u8]),
    /// 0x0B: 1 to 268,435,455.
    SubscriptionId(u32),
    /// 0x11: seconds; 0xFFFF_FFFF never expires.
    SessionExpiry(u32),
    /// 0x12: the name the server gave a client that had none.
    AssignedClientId(&'a str),
    /// 0x13: seconds; replaces the client's own.
    ServerKeepAlive(u16),
    /// 0x15: name of the enhanced authentication method.
    AuthMethod(&'a str),
    /// 0x16: data of the authentication method.
    AuthData(&'a [u8]),
    /// 0x17: whether reason strings and user properties may be sent with anything but PUBLISH, CONNACK, DISCONNECT.
    RequestProblemInfo(bool),
    /// 0x18: seconds between the end of the connection and the will.
    WillDelay(u32),
    /// 0x19: whether the client asks for Response Information.
    RequestResponseInfo(bool),
    /// 0x1A: basis for response topics.
    ResponseInformation(&'a str),
    /// 0x1C: another server to use.
    ServerReference(&'a str),
    /// 0x1F: for people.
    ReasonString(&'a str),
    /// 0x21: unacknowledged QoS 1 and 2 publishes; not 0.
    ReceiveMaximum(u16),
    /// 0x22: highest topic alias.
    TopicAliasMaximum(u16),
    /// 0x23: not 0.
    TopicAlias(u16),
    /// 0x24: 0 or 1.
    MaximumQos(u8),
    /// 0x25: whether the server keeps retained messages.
    RetainAvailable(bool),
    /// 0x26: a name and a value; may repeat.
    User(&'a str, &'a str),
    /// 0x27: bytes; not 0.
    MaximumPacketSize(u32),
    /// 0x28: whether wildcard subscriptions work.
    WildcardAvailable(bool),
    /// 0x29: whether subscription identifiers work.
    SubscriptionIdsAvailable(bool),
    /// 0x2A: whether shared subscriptions work.
    SharedAvailable(bool),
}

/// A validated property block as received: every property legal in its packet, none twice. Read lazily.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Properties<'a> {
    bytes: &'a [u8],
    /// Bit n: the property with identifier n occurs.
    seen: u64,
}

impl<'a> Properties<'a> {
    /// No properties at all.
    pub const EMPTY: Properties<'static> = Properties {
        bytes: &[],
        seen: 0,
    };

    /// Whether there are none.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// All properties in the order received.
    pub fn iter(&self) -> PropertyIter<'a> {
        PropertyIter { bytes: self.bytes }
    }

    /// The user properties in the order received. [MQTT-3.3.2-18]
    pub fn user_properties(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        self.those(id::USER).filter_map(|p| {
            if let Property::User(k, v) = p {
                Some((k, v))
            } else {
                None
            }
        })
    }

    /// 0x0B: the subscriptions that this delivery answers (server to client only).
    pub fn subscription_ids(&self) -> impl Iterator<Item = u32> + use<'a> {
        self.those(id::SUBSCRIPTION_ID).filter_map(|p| {
            if let Property::SubscriptionId(v) = p {
                Some(v)
            } else {
                None
            }
        })
    }

    /// 0x01: `Some(1)` says that the payload is UTF-8 text.
    pub fn payload_format(&self) -> Option<u8> {
        self.those(id::PAYLOAD_FORMAT).find_map(|p| {
            if let Property::PayloadFormat(v) = p {
                Some(v)
            } else {
                None
            }
        })
    }

    /// 0x02: seconds that the message may wait.
    pub fn message_expiry(&self) -> Option<u32> {
        self.those(id::MESSAGE_EXPIRY).find_map(|p| {
            if let Property::MessageExpiry(v) = p {
                Some(v)
            } else {
                None
            }
        })
    }

    /// 0x03: media type of the payload.
    pub fn content_type(&self) -> Option<&'a str> {
        self.those(id::CONTENT_TYPE).find_map(|p| {
            if let Property::ContentType(v) = p {
                Some(v)
            } else {
                None
            }
        })
    }

    /// 0x08: where an answer goes.
    pub fn response_topic(&self) -> Option<&'a str> {
        self.those(id::RESPONSE_TOPIC).find_map(|p| {
            if let Property::ResponseTopic(v) = p {
                Some(v)
            } else {
                None
            }
        })
    }

    /// 0x09: ties an answer to its request.
    pub fn correlation_data(&self) -> Option<&'a [u8]> {
        self.those(id::CORRELATION_DATA).find_map(|p| {
            if let Property::CorrelationData(v) = p {
                Some(v)
            } else {
                None
            }
        })
    }

    /// 0x1F: a reason for people.
    pub fn reason_string(&self) -> Option<&'a str> {
        self.those(id::REASON_STRING).find_map(|p| {
            if let Property::ReasonString(v) = p {
                Some(v)
            } else {
                None
            }
        })
    }

    /// 0x23: stands for the topic.
    pub(crate) fn topic_alias(&self) -> Option<u16> {
        self.those(id::TOPIC_ALIAS).find_map(|p| {
            if let Property::TopicAlias(v) = p {
                Some(v)
            } else {
                None
            }
        })
    }

    /// 0x0B: the first subscription identifier.
    pub(crate) fn subscription_id(&self) -> Option<u32> {
        self.those(id::SUBSCRIPTION_ID).find_map(|p| {
            if let Property::SubscriptionId(v) = p {
                Some(v)
            } else {
                None
            }
        })
    }

    /// 0x11: seconds that the session outlives the connection.
    pub(crate) fn session_expiry(&self) -> Option<u32> {
        self.those(id::SESSION_EXPIRY).find_map(|p| {
            if let Property::SessionExpiry(v) = p {
                Some(v)
            } else {
                None
            }
        })
    }

    /// 0x18: seconds.
    pub(crate) fn will_delay(&self) -> Option<u32> {
        self.those(id::WILL_DELAY).find_map(|p| {
            if let Property::WillDelay(v) = p {
                Some(v)
            } else {
                None
            }
        })
    }

    /// 0x15: name of the authentication method.
    pub(crate) fn auth_method(&self) -> Option<&'a str> {
        self.those(id::AUTH_METHOD).find_map(|p| {
            if let Property::AuthMethod(v) = p {
                Some(v)
            } else {
                None
            }
        })
    }

    /// 0x16: its data.
    pub(crate) fn auth_data(&self) -> Option<&'a [u8]> {
        self.those(id::AUTH_DATA).find_map(|p| {
            if let Property::AuthData(v) = p {
                Some(v)
            } else {
                None
            }
        })
    }

    /// 0x1C: another server to use.
    pub(crate) fn server_reference(&self) -> Option<&'a str> {
        self.those(id::SERVER_REFERENCE).find_map(|p| {
            if let Property::ServerReference(v) = p {
                Some(v)
            } else {
                None
            }
        })
    }

    /// Whether any of the properties in this set occurs.
    #[inline]
    pub(crate) const fn has_any(&self, set: u64) -> bool {
        self.seen & set != 0
    }

    /// All properties if the one with this identifier is among them, else none: most lookups end here.
    #[inline]
    fn those(&self, id: u8) -> PropertyIter<'a> {
        PropertyIter {
            bytes: if self.seen & bit(id) != 0 {
                self.bytes
            } else {
                &[]
            },
        }
    }

    /// Reads and validates the block of a packet.
    #[inline]
    pub(crate) fn decode(r: &mut Reader<'a>, place: Place) -> Result<Properties<'a>, PeerFault> {
        if r.rest().first() == Some(&0) {
            let _ = r.u8();
            return Ok(Properties::EMPTY);
        }
        Self::decode_some(r, place)
    }

    fn decode_some(r: &mut Reader<'a>, place: Place) -> Result<Properties<'a>, PeerFault> {
        let len = varint::read(r)?;
        let bytes = r.take(len as usize).ok_or(PeerFault::TRUNCATED)?;
        let mut seen = 0;
        let mut block = Reader::new(bytes);
        while let Some(&id) = block.rest().first() {
            let property = Property::decode(&mut block)?;
            let bit = bit(id);
            if bit & place.legal() == 0 {
                return Err(place.misplaced(id));
            }
            if seen & bit & !place.repeatable() != 0 {
                return Err(PeerFault::PROPERTY_TWICE);
            }
            property.validate()?;
            seen |= bit;
        }
        Ok(Properties { bytes, seen })
    }
}

/// Iterator over a validated block.
#[derive(Clone, Debug)]
pub struct PropertyIter<'a> {
    bytes: &'a [u8],
}

impl<'a> Iterator for PropertyIter<'a> {
    type Item = Property<'a>;
    fn next(&mut self) -> Option<Property<'a>> {
        let mut r = Reader::new(self.bytes);
        let property = Property::decode(&mut r).ok()?;
        self.bytes = r.rest();
        Some(property)
    }
}

/// The properties of a PUBLISH or a will.
pub type PublishProperties<'a> = Properties<'a>;

impl TextPairs for Properties<'_> {
    fn for_each(&self, each: &mut dyn FnMut(&str, &str)) {
        for (name, value) in self.user_properties() {
            each(name, value);
        }
    }
}

/// The identifiers of §2.2.2.2.
pub(crate) mod id {
    pub(crate) const PAYLOAD_FORMAT: u8 = 0x01;
    pub(crate) const MESSAGE_EXPIRY: u8 = 0x02;
    pub(crate) const CONTENT_TYPE: u8 = 0x03;
    pub(crate) const RESPONSE_TOPIC: u8 = 0x08;
    pub(crate) const CORRELATION_DATA: u8 = 0x09;
    pub(crate) const SUBSCRIPTION_ID: u8 = 0x0B;
    pub(crate) const SESSION_EXPIRY: u8 = 0x11;
    pub(crate) const ASSIGNED_CLIENT_ID: u8 = 0x12;
    pub(crate) const SERVER_KEEP_ALIVE: u8 = 0x13;
    pub(crate) const AUTH_METHOD: u8 = 0x15;
    pub(crate) const AUTH_DATA: u8 = 0x16;
    pub(crate) const REQUEST_PROBLEM_INFO: u8 = 0x17;
    pub(crate) const WILL_DELAY: u8 = 0x18;
    pub(crate) const REQUEST_RESPONSE_INFO: u8 = 0x19;
    pub(crate) const RESPONSE_INFORMATION: u8 = 0x1A;
    pub(crate) const SERVER_REFERENCE: u8 = 0x1C;
    pub(crate) const REASON_STRING: u8 = 0x1F;
    pub(crate) const RECEIVE_MAXIMUM: u8 = 0x21;
    pub(crate) const TOPIC_ALIAS_MAXIMUM: u8 = 0x22;
    pub(crate) const TOPIC_ALIAS: u8 = 0x23;
    pub(crate) const MAXIMUM_QOS: u8 = 0x24;
    pub(crate) const RETAIN_AVAILABLE: u8 = 0x25;
    pub(crate) const USER: u8 = 0x26;
    pub(crate) const MAXIMUM_PACKET_SIZE: u8 = 0x27;
    pub(crate) const WILDCARD_AVAILABLE: u8 = 0x28;
    pub(crate) const SUBSCRIPTION_IDS_AVAILABLE: u8 = 0x29;
    pub(crate) const SHARED_AVAILABLE: u8 = 0x2A;
}

/// The set that holds one identifier.
#[inline]
pub(crate) const fn bit(id: u8) -> u64 {
    if id < 64 { 1 << id } else { 0 }
}

const fn set(ids: &[u8]) -> u64 {
    let mut bits = 0;
    let mut at = 0;
    while at < ids.len() {
        bits |= bit(ids[at]);
        at += 1;
    }
    bits
}

/// Where a property block stands: the columns of table 2-4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Connect,
    Will,
    ConnAck,
    PublishToServer,
    PublishToClient,
    /// PUBACK, PUBREC, PUBREL, PUBCOMP, SUBACK, UNSUBACK.
    Ack,
    Subscribe,
    Unsubscribe,
    /// Not in the table: an extension (`codec/ping.rs`).
    PingReq,
    DisconnectToServer,
    DisconnectToClient,
    Auth,
}

impl Place {
    /// Properties that are allowed here.
    const fn legal(self) -> u64 {
        use id::*;
        const MESSAGE: u64 = set(&[
            PAYLOAD_FORMAT,
            MESSAGE_EXPIRY,
            CONTENT_TYPE,
            RESPONSE_TOPIC,
            CORRELATION_DATA,
            USER,
        ]);
        const CONNECT: u64 = set(&[
            SESSION_EXPIRY,
            AUTH_METHOD,
            AUTH_DATA,
            REQUEST_PROBLEM_INFO,
            REQUEST_RESPONSE_INFO,
            RECEIVE_MAXIMUM,
            TOPIC_ALIAS_MAXIMUM,
            USER,
            MAXIMUM_PACKET_SIZE,
        ]);
        const CONNACK: u64 = set(&[
            SESSION_EXPIRY,
            ASSIGNED_CLIENT_ID,
            SERVER_KEEP_ALIVE,
            AUTH_METHOD,
            AUTH_DATA,
            RESPONSE_INFORMATION,
            SERVER_REFERENCE,
            REASON_STRING,
            RECEIVE_MAXIMUM,
            TOPIC_ALIAS_MAXIMUM,
            MAXIMUM_QOS,
            RETAIN_AVAILABLE,
            USER,
            MAXIMUM_PACKET_SIZE,
            WILDCARD_AVAILABLE,
            SUBSCRIPTION_IDS_AVAILABLE,
            SHARED_AVAILABLE,
        ]);
        match self {
            Place::Connect => CONNECT,
            Place::Will => MESSAGE | bit(WILL_DELAY),
            Place::ConnAck => CONNACK,
            Place::PublishToServer => MESSAGE | bit(TOPIC_ALIAS),
            Place::PublishToClient => MESSAGE | bit(TOPIC_ALIAS) | bit(SUBSCRIPTION_ID),
            Place::Ack => set(&[REASON_STRING, USER]),
            Place::Subscribe => set(&[SUBSCRIPTION_ID, USER]),
            Place::Unsubscribe | Place::PingReq => bit(USER),
            Place::DisconnectToServer => set(&[SESSION_EXPIRY, REASON_STRING, USER]),
            Place::DisconnectToClient => set(&[SERVER_REFERENCE, REASON_STRING, USER]),
            Place::Auth => set(&[AUTH_METHOD, AUTH_DATA, REASON_STRING, USER]),
        }
    }

    /// Properties that may occur here more than once.
    const fn repeatable(self) -> u64 {
        match self {
            Place::PublishToClient => bit(id::USER) | bit(id::SUBSCRIPTION_ID),
            _ => bit(id::USER),
        }
    }

    /// The fault of a property that may not stand here.
    fn misplaced(self, id: u8) -> PeerFault {
        match (self, id) {
            (Place::PublishToServer, id::SUBSCRIPTION_ID) => PeerFault::SUBSCRIPTION_ID_FROM_CLIENT,
            (Place::DisconnectToClient, id::SESSION_EXPIRY) => {
                PeerFault::SESSION_EXPIRY_FROM_SERVER
            }
            _ => PeerFault::PROPERTY_MISPLACED,
        }
    }
}

fn boolean(r: &mut Reader<'_>) -> Result<bool, PeerFault> {
    match r.u8() {
        Some(0) => Ok(false),
        Some(1) => Ok(true),
        Some(_) => Err(PeerFault::PROPERTY_NOT_BOOLEAN),
        None => Err(PeerFault::TRUNCATED),
    }
}

impl<'a> Property<'a> {
    /// The identifier on the wire.
    pub const fn id(&self) -> u8 {
        match self {
            Property::PayloadFormat(..) => id::PAYLOAD_FORMAT,
            Property::MessageExpiry(..) => id::MESSAGE_EXPIRY,
            Property::ContentType(..) => id::CONTENT_TYPE,
            Property::ResponseTopic(..) => id::RESPONSE_TOPIC,
            Property::CorrelationData(..) => id::CORRELATION_DATA,
            Property::SubscriptionId(..) => id::SUBSCRIPTION_ID,
            Property::SessionExpiry(..) => id::SESSION_EXPIRY,
            Property::AssignedClientId(..) => id::ASSIGNED_CLIENT_ID,
            Property::ServerKeepAlive(..) => id::SERVER_KEEP_ALIVE,
            Property::AuthMethod(..) => id::AUTH_METHOD,
            Property::AuthData(..) => id::AUTH_DATA,
            Property::RequestProblemInfo(..) => id::REQUEST_PROBLEM_INFO,
            Property::WillDelay(..) => id::WILL_DELAY,
            Property::RequestResponseInfo(..) => id::REQUEST_RESPONSE_INFO,
            Property::ResponseInformation(..) => id::RESPONSE_INFORMATION,
            Property::ServerReference(..) => id::SERVER_REFERENCE,
            Property::ReasonString(..) => id::REASON_STRING,
            Property::ReceiveMaximum(..) => id::RECEIVE_MAXIMUM,
            Property::TopicAliasMaximum(..) => id::TOPIC_ALIAS_MAXIMUM,
            Property::TopicAlias(..) => id::TOPIC_ALIAS,
            Property::MaximumQos(..) => id::MAXIMUM_QOS,
            Property::RetainAvailable(..) => id::RETAIN_AVAILABLE,
            Property::User(..) => id::USER,
            Property::MaximumPacketSize(..) => id::MAXIMUM_PACKET_SIZE,
            Property::WildcardAvailable(..) => id::WILDCARD_AVAILABLE,
            Property::SubscriptionIdsAvailable(..) => id::SUBSCRIPTION_IDS_AVAILABLE,
            Property::SharedAvailable(..) => id::SHARED_AVAILABLE,
        }
    }

    fn decode(r: &mut Reader<'a>) -> Result<Property<'a>, PeerFault> {
        Ok(match r.u8().ok_or(PeerFault::TRUNCATED)? {
            id::PAYLOAD_FORMAT => Property::PayloadFormat(r.u8().ok_or(PeerFault::TRUNCATED)?),
            id::MESSAGE_EXPIRY => Property::MessageExpiry(r.u32().ok_or(PeerFault::TRUNCATED)?),
            id::CONTENT_TYPE => Property::ContentType(text::string(r)?),
            id::RESPONSE_TOPIC => Property::ResponseTopic(text::string(r)?),
            id::CORRELATION_DATA => Property::CorrelationData(text::binary(r)?),
            id::SUBSCRIPTION_ID => Property::SubscriptionId(varint::read(r)?),
            id::SESSION_EXPIRY => Property::SessionExpiry(r.u32().ok_or(PeerFault::TRUNCATED)?),
            id::ASSIGNED_CLIENT_ID => Property::AssignedClientId(text::string(r)?),
            id::SERVER_KEEP_ALIVE => {
                Property::ServerKeepAlive(r.u16().ok_or(PeerFault::TRUNCATED)?)
            }
            id::AUTH_METHOD => Property::AuthMethod(text::string(r)?),
            id::AUTH_DATA => Property::AuthData(text::binary(r)?),
            id::REQUEST_PROBLEM_INFO => Property::RequestProblemInfo(boolean(r)?),
            id::WILL_DELAY => Property::WillDelay(r.u32().ok_or(PeerFault::TRUNCATED)?),
            id::REQUEST_RESPONSE_INFO => Property::RequestResponseInfo(boolean(r)?),
            id::RESPONSE_INFORMATION => Property::ResponseInformation(text::string(r)?),
            id::SERVER_REFERENCE => Property::ServerReference(text::string(r)?),
            id::REASON_STRING => Property::ReasonString(text::string(r)?),
            id::RECEIVE_MAXIMUM => Property::ReceiveMaximum(r.u16().ok_or(PeerFault::TRUNCATED)?),
            id::TOPIC_ALIAS_MAXIMUM => {
                Property::TopicAliasMaximum(r.u16().ok_or(PeerFault::TRUNCATED)?)
            }
            id::TOPIC_ALIAS => Property::TopicAlias(r.u16().ok_or(PeerFault::TRUNCATED)?),
            id::MAXIMUM_QOS => Property::MaximumQos(r.u8().ok_or(PeerFault::TRUNCATED)?),
            id::RETAIN_AVAILABLE => Property::RetainAvailable(boolean(r)?),
            id::USER => Property::User(text::string(r)?, text::string(r)?),
            id::MAXIMUM_PACKET_SIZE => {
                Property::MaximumPacketSize(r.u32().ok_or(PeerFault::TRUNCATED)?)
            }
            id::WILDCARD_AVAILABLE => Property::WildcardAvailable(boolean(r)?),
            id::SUBSCRIPTION_IDS_AVAILABLE => Property::SubscriptionIdsAvailable(boolean(r)?),
            id::SHARED_AVAILABLE => Property::SharedAvailable(boolean(r)?),
            _ => return Err(PeerFault::PROPERTY_UNKNOWN),
        })
    }

    /// Checks the values that are not any number or any string.
    fn validate(&self) -> Result<(), PeerFault> {
        match self {
            Property::PayloadFormat(2..) | Property::MaximumQos(2..) => {
                Err(PeerFault::PROPERTY_NOT_BOOLEAN)
            }
            Property::ReceiveMaximum(0) => Err(PeerFault::RECEIVE_MAXIMUM_ZERO),
            Property::MaximumPacketSize(0) => Err(PeerFault::MAXIMUM_PACKET_SIZE_ZERO),
            Property::SubscriptionId(0) => Err(PeerFault::SUBSCRIPTION_ID_ZERO),
            Property::TopicAlias(0) => Err(PeerFault::TOPIC_ALIAS_ZERO),
            Property::ResponseTopic(topic)
                if topic.is_empty() || text::contains_nul_or_wildcard(topic.as_bytes()) =>
            {
                Err(PeerFault::RESPONSE_TOPIC_INVALID)
            }
            _ => Ok(()),
        }
    }

    /// Bytes on the wire; `None` if a string is too long for its 16-bit length.
    fn size(&self) -> Option<usize> {
        let value = match *self {
            Property::PayloadFormat(_)
            | Property::MaximumQos(_)
            | Property::RequestProblemInfo(_)
            | Property::RequestResponseInfo(_)
            | Property::RetainAvailable(_)
            | Property::WildcardAvailable(_)
            | Property::SubscriptionIdsAvailable(_)
            | Property::SharedAvailable(_) => 1,
            Property::ServerKeepAlive(_)
            | Property::ReceiveMaximum(_)
            | Property::TopicAliasMaximum(_)
            | Property::TopicAlias(_) => 2,
            Property::MessageExpiry(_)
            | Property::SessionExpiry(_)
            | Property::WillDelay(_)
            | Property::MaximumPacketSize(_) => 4,
            Property::SubscriptionId(v) => varint::size(v),
            Property::ContentType(v)
            | Property::ResponseTopic(v)
            | Property::AssignedClientId(v)
            | Property::AuthMethod(v)
            | Property::ResponseInformation(v)
            | Property::ServerReference(v)
            | Property::ReasonString(v)
                if fits16(v.len()) =>
            {
                2 + v.len()
            }
            Property::CorrelationData(v) | Property::AuthData(v) if fits16(v.len()) => 2 + v.len(),
            Property::User(k, v) if fits16(k.len()) && fits16(v.len()) => 4 + k.len() + v.len(),
            _ => return None,
        };
        Some(1 + value)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.id());
        match *self {
            Property::PayloadFormat(v) | Property::MaximumQos(v) => out.push(v),
            Property::RequestProblemInfo(v)
            | Property::RequestResponseInfo(v)
            | Property::RetainAvailable(v)
            | Property::WildcardAvailable(v)
            | Property::SubscriptionIdsAvailable(v)
            | Property::SharedAvailable(v) => out.push(u8::from(v)),
            Property::ServerKeepAlive(v)
            | Property::ReceiveMaximum(v)
            | Property::TopicAliasMaximum(v)
            | Property::TopicAlias(v) => out.extend_from_slice(&v.to_be_bytes()),
            Property::MessageExpiry(v)
            | Property::SessionExpiry(v)
            | Property::WillDelay(v)
            | Property::MaximumPacketSize(v) => out.extend_from_slice(&v.to_be_bytes()),
            Property::SubscriptionId(v) => varint::put(v, out),
            Property::ContentType(v)
            | Property::ResponseTopic(v)
            | Property::AssignedClientId(v)
            | Property::AuthMethod(v)
            | Property::ResponseInformation(v)
            | Property::ServerReference(v)
            | Property::ReasonString(v) => put16(v.as_bytes(), out),
            Property::CorrelationData(v) | Property::AuthData(v) => put16(v, out),
            Property::User(k, v) => {
                put16(k.as_bytes(), out);
                put16(v.as_bytes(), out);
            }
        }
    }
}

/// Something that has properties to send: calls back with each, in the same order every time it is asked.
pub(crate) trait PropertySource {
    fn each(&self, sink: &mut dyn FnMut(Property<'_>));
}

/// Bytes of a block without its length; `None` if a property cannot be written.
pub(crate) fn block_size(source: &dyn PropertySource) -> Option<usize> {
    let mut total = Some(0_usize);
    source.each(&mut |property| total = total.and_then(|total| Some(total + property.size()?)));
    total.filter(|total| *total <= varint::VARINT_MAX as usize)
}

/// Appends a block whose size is known.
pub(crate) fn put_block(source: &dyn PropertySource, size: usize, out: &mut Vec<u8>) {
    varint::put(size as u32, out);
    source.each(&mut |property| property.encode(out));
}

/// Calls `sink` with every user property.
pub(crate) fn each_user(user: Option<&dyn TextPairs>, sink: &mut dyn FnMut(Property<'_>)) {
    if let Some(user) = user {
        user.for_each(&mut |name, value| sink(Property::User(name, value)));
    }
}
