//! CONNECT (§3.1).
//!
//! ```text
//!  protocol name, protocol level
//!  connect flags: user name | password | will retain | will QoS (2 bits) | will | clean start | reserved
//!  keep alive, 2 bytes
//!  MQTT 5: properties
//!  client identifier, [MQTT 5: will properties], [will topic, will payload], [user name], [password]
//! ```

use thalweg_wire::Reader;

use super::frame::{Frame, frame_len, packet_size, put_header};
use crate::packet::PacketType;
use crate::properties::{Place, Property, PropertySource, block_size, each_user, put_block};
use crate::text::{self, fits16, put16};
use crate::varint::{self, Varint};
use crate::{PeerFault, Properties, PublishProperties, QoS, TextPairs, TooLarge, Version};

/// A CONNECT as received; borrows from the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connect<'b> {
    /// The version spoken from here on.
    pub version: Version,
    /// Whether the protocol level had the bridge bit (0x80) set, as mosquitto's bridges do.
    pub bridge: bool,
    /// May be empty: the server assigns one, or answers 0x85 / return code 2 for a 3.1.1 client with `clean_start` unset.
    pub client_id: &'b str,
    /// Clean Start (MQTT 5), Clean Session (MQTT 3).
    pub clean_start: bool,
    /// Seconds; 0 switches it off.
    pub keep_alive: u16,
    /// Message to publish when the client is lost.
    pub will: Option<Will<'b>>,
    /// User name; MQTT 3.1.1 requires it with a password.
    pub username: Option<&'b str>,
    /// Password: any bytes, also a token.
    pub password: Option<&'b [u8]>,
    /// Seconds; 0xFFFF_FFFF never. MQTT 3: 0 with clean session, else 0xFFFF_FFFF.
    pub session_expiry: u32,
    /// Unacknowledged QoS 1 and 2 publishes the client takes; 65,535 if it did not say.
    pub receive_max: u16,
    /// Largest packet the client takes, in bytes.
    pub packet_bytes_max: Option<u32>,
    /// Highest topic alias the server may use; 0 none.
    pub topic_alias_max: u16,
    /// Whether the client asks for Response Information.
    pub request_response_info: bool,
    /// Whether the client accepts reason strings.
    pub request_problem_info: bool,
    /// Name of an enhanced authentication method; MQTT 5 only.
    pub auth_method: Option<&'b str>,
    /// First data of the authentication method, in the form that it defines.
    pub auth_data: Option<&'b [u8]>,
    /// All properties, for the user properties.
    pub properties: Properties<'b>,
}

/// The will of a CONNECT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Will<'b> {
    /// A valid topic name.
    pub topic: &'b str,
    /// Payload of the will message.
    pub payload: &'b [u8],
    /// QoS at which the will is published.
    pub qos: QoS,
    /// Whether it is retained.
    pub retain: bool,
    /// Seconds to wait before it is published.
    pub delay_secs: u32,
    /// Properties of the will message; empty before MQTT 5.
    pub properties: PublishProperties<'b>,
}

/// CONNECT as sent by a client.
#[derive(Clone, Copy, Debug)]
pub struct ConnectOut<'a> {
    /// The version to speak.
    pub version: Version,
    /// May be empty to get one assigned.
    pub client_id: &'a str,
    /// Clean Start, or Clean Session.
    pub clean_start: bool,
    /// Seconds; 0 switches it off.
    pub keep_alive: u16,
    /// Message that the server publishes when the client is lost.
    pub will: Option<WillOut<'a>>,
    /// User name; MQTT 3.1.1 requires it with a password.
    pub username: Option<&'a str>,
    /// Password: any bytes, also a token.
    pub password: Option<&'a [u8]>,
    /// Seconds (MQTT 5).
    pub session_expiry: u32,
    /// Unacknowledged QoS 1 and 2 publishes the client takes (MQTT 5); not 0.
    pub receive_max: u16,
    /// Largest packet the client takes, in bytes (MQTT 5).
    pub packet_bytes_max: Option<u32>,
    /// Highest topic alias the server may use (MQTT 5).
    pub topic_alias_max: u16,
    /// Ask for Response Information (MQTT 5).
    pub request_response_info: bool,
    /// Ask for reasons in words (MQTT 5).
    pub request_problem_info: bool,
    /// User properties (MQTT 5).
    pub user: Option<&'a dyn TextPairs>,
    /// Enhanced authentication method (MQTT 5).
    pub auth_method: Option<&'a str>,
    /// First data of the authentication method, in the form that it defines.
    pub auth_data: Option<&'a [u8]>,
}

impl Default for ConnectOut<'_> {
    fn default() -> Self {
        ConnectOut {
            version: Version::V5,
            client_id: "",
            clean_start: true,
            keep_alive: 60,
            will: None,
            username: None,
            password: None,
            session_expiry: 0,
            receive_max: u16::MAX,
            packet_bytes_max: None,
            topic_alias_max: 0,
            request_response_info: false,
            request_problem_info: true,
            user: None,
            auth_method: None,
            auth_data: None,
        }
    }
}

/// The will of a CONNECT as sent by a client.
#[derive(Clone, Copy, Debug, Default)]
pub struct WillOut<'a> {
    /// The will as a publish: topic, payload, QoS, retain and properties count; `dup`, `id`, `subscription_ids` and
    /// `allow_alias` do not.
    pub message: crate::PublishOut<'a>,
    /// Seconds to wait before it is published (MQTT 5).
    pub delay_secs: u32,
}

const USER_NAME: u8 = 0x80;
const PASSWORD: u8 = 0x40;
const WILL_RETAIN: u8 = 0x20;
const WILL: u8 = 0x04;
const CLEAN_START: u8 = 0x02;
const RESERVED: u8 = 0x01;
const BRIDGE: u8 = 0x80;

/// Why a CONNECT was refused, and the version in which to say so; `None` if the level is not known here, and then
/// `level` decides how to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) fault: PeerFault,
    pub(crate) version: Option<Version>,
    pub(crate) level: u8,
}

pub(crate) fn decode(frame: Frame<'_>) -> Result<Connect<'_>, Refused> {
    let mut r = Reader::new(frame.body);
    let unversioned = |fault| Refused {
        fault,
        version: None,
        level: 0,
    };
    let name = r.bytes16().ok_or(unversioned(PeerFault::TRUNCATED))?;
    if name != b"MQTT" && name != b"MQIsdp" {
        return Err(unversioned(PeerFault::PROTOCOL_NAME));
    }
    let level = r.u8().ok_or(unversioned(PeerFault::TRUNCATED))?;
    let (version, bridge) = match (name, level) {
        (b"MQIsdp", 3) => (Version::V31, false),
        (b"MQTT", 4) => (Version::V311, false),
        (b"MQTT", 5) => (Version::V5, false),
        // Bridges of mosquitto and others mark themselves by the top bit in MQTT 3.
        (b"MQIsdp", l) if l == BRIDGE | 3 => (Version::V31, true),
        (b"MQTT", l) if l == BRIDGE | 4 => (Version::V311, true),
        _ => {
            return Err(Refused {
                fault: PeerFault::PROTOCOL_LEVEL,
                version: None,
                level,
            });
        }
    };
    decode_rest(&frame, r, version, bridge).map_err(|fault| Refused {
        fault,
        version: Some(version),
        level,
    })
}

fn decode_rest<'b>(
    frame: &Frame<'b>,
    mut r: Reader<'b>,
    version: Version,
    bridge: bool,
) -> Result<Connect<'b>, PeerFault> {
    let v5 = version.is_v5();
    if v5 && !frame.length_is_shortest() {
        return Err(PeerFault::LENGTH_MALFORMED);
    }
    let flags = r.u8().ok_or(PeerFault::TRUNCATED)?;
    check_flags(flags, version)?;
    let clean_start = flags & CLEAN_START != 0;
    let mut c = Connect {
        version,
        bridge,
        client_id: "",
        clean_start,
        keep_alive: r.u16().ok_or(PeerFault::TRUNCATED)?,
        will: None,
        username: None,
        password: None,
        session_expiry: if v5 || clean_start { 0 } else { u32::MAX },
        receive_max: u16::MAX,
        packet_bytes_max: None,
        topic_alias_max: 0,
        request_response_info: false,
        request_problem_info: true,
        auth_method: None,
        auth_data: None,
        properties: Properties::EMPTY,
    };
    if v5 {
        c.read_properties(Properties::decode(&mut r, Place::Connect)?)?;
    }
    c.client_id = text::string(&mut r)?;
    // MQTT 3.1 allows no empty identifier, 3.1.1 only one without a session. [MQTT3-3.1.3-7] [MQTT3-3.1.3-8]
    if c.client_id.is_empty()
        && (version == Version::V31 || (version == Version::V311 && !clean_start))
    {
        return Err(PeerFault::CLIENT_ID_EMPTY);
    }
    if flags & WILL != 0 {
        let properties = if v5 {
            Properties::decode(&mut r, Place::Will)?
        } else {
            Properties::EMPTY
        };
        let topic = text::string(&mut r)?;
        if topic.is_empty() || text::contains_nul_or_wildcard(topic.as_bytes()) {
            return Err(PeerFault::WILL_TOPIC_INVALID);
        }
        c.will = Some(Will {
            topic,
            payload: text::binary(&mut r)?,
            qos: QoS::from_bits(flags >> 3 & 0b11).ok_or(PeerFault::WILL_QOS_3)?,
            retain: flags & WILL_RETAIN != 0,
            delay_secs: properties.will_delay().unwrap_or(0),
            properties,
        });
    }
    // MQTT 3.1 lets a client set the flags and leave the fields out (its §3.1, for old clients).
    let may_lack = version == Version::V31;
    if flags & USER_NAME != 0 && !(may_lack && r.is_empty()) {
        c.username = Some(text::string(&mut r)?);
    }
    if flags & PASSWORD != 0 && !(may_lack && r.is_empty()) {
        c.password = Some(text::binary(&mut r)?);
    }
    if r.is_empty() {
        Ok(c)
    } else {
        Err(PeerFault::TRAILING)
    }
}

fn check_flags(flags: u8, version: Version) -> Result<(), PeerFault> {
    // MQTT 3.1 left the reserved bit open.
    if flags & RESERVED != 0 && version != Version::V31 {
        return Err(PeerFault::CONNECT_RESERVED_FLAG);
    }
    let will_qos = flags >> 3 & 0b11;
    if flags & WILL != 0 {
        if will_qos == 3 {
            return Err(PeerFault::WILL_QOS_3);
        }
    } else if version != Version::V31 {
        if will_qos != 0 {
            return Err(PeerFault::WILL_QOS_WITHOUT_WILL);
        }
        if flags & WILL_RETAIN != 0 {
            return Err(PeerFault::WILL_RETAIN_WITHOUT_WILL);
        }
    }
    // MQTT 5 allows a password alone (§3.1.2.9), for tokens.
    if version != Version::V5 && flags & PASSWORD != 0 && flags & USER_NAME == 0 {
        return Err(PeerFault::PASSWORD_WITHOUT_USERNAME);
    }
    Ok(())
}

impl<'b> Connect<'b> {
    fn read_properties(&mut self, properties: Properties<'b>) -> Result<(), PeerFault> {
        self.properties = properties;
        for property in properties.iter() {
            match property {
                Property::SessionExpiry(v) => self.session_expiry = v,
                Property::ReceiveMaximum(v) => self.receive_max = v,
                Property::MaximumPacketSize(v) => self.packet_bytes_max = Some(v),
                Property::TopicAliasMaximum(v) => self.topic_alias_max = v,
                Property::RequestResponseInfo(v) => self.request_response_info = v,
                Property::RequestProblemInfo(v) => self.request_problem_info = v,
                Property::AuthMethod(v) => self.auth_method = Some(v),
                Property::AuthData(v) => self.auth_data = Some(v),
                _ => {}
            }
        }
        match (self.auth_method, self.auth_data) {
            (None, Some(_)) => Err(PeerFault::AUTH_DATA_WITHOUT_METHOD),
            _ => Ok(()),
        }
    }
}

impl PropertySource for ConnectOut<'_> {
    fn each(&self, sink: &mut dyn FnMut(Property<'_>)) {
        let mut some = |property: Option<Property<'_>>| {
            if let Some(property) = property {
                sink(property);
            }
        };
        some((self.session_expiry != 0).then_some(Property::SessionExpiry(self.session_expiry)));
        some(self.auth_method.map(Property::AuthMethod));
        some(self.auth_data.map(Property::AuthData));
        some((!self.request_problem_info).then_some(Property::RequestProblemInfo(false)));
        some(
            self.request_response_info
                .then_some(Property::RequestResponseInfo(true)),
        );
        some(
            (self.receive_max != u16::MAX)
                .then_some(Property::ReceiveMaximum(self.receive_max.max(1))),
        );
        some(
            (self.topic_alias_max != 0)
                .then_some(Property::TopicAliasMaximum(self.topic_alias_max)),
        );
        some(
            self.packet_bytes_max
                .map(|max| Property::MaximumPacketSize(max.max(1))),
        );
        each_user(self.user, sink);
    }
}

impl PropertySource for WillOut<'_> {
    fn each(&self, sink: &mut dyn FnMut(Property<'_>)) {
        self.message_properties().each(sink);
        if self.delay_secs != 0 {
            sink(Property::WillDelay(self.delay_secs));
        }
    }
}

impl<'a> WillOut<'a> {
    fn message_properties(&self) -> crate::PublishOut<'a> {
        crate::PublishOut {
            subscription_ids: &[],
            ..self.message
        }
    }
}

/// Appends CONNECT. `Err`: a string is longer than 65,535 bytes.
pub(crate) fn encode(c: &ConnectOut<'_>, out: &mut Vec<u8>) -> Result<(), TooLarge> {
    let v5 = c.version.is_v5();
    let too_large = |packet_bytes| TooLarge {
        packet_bytes,
        packet_bytes_max: varint::VARINT_MAX,
    };
    let block_of = |source: &dyn PropertySource| {
        let block = if v5 { block_size(source) } else { Some(0) };
        block.ok_or(too_large(usize::MAX))
    };
    let prefixed = |block: usize| {
        if v5 {
            varint::size(block as u32) + block
        } else {
            0
        }
    };
    let strings = [
        Some(c.client_id.as_bytes()),
        c.will.map(|will| will.message.topic.as_bytes()),
        c.will.map(|will| will.message.payload),
        c.username.map(str::as_bytes),
        c.password,
    ];
    if let Some(long) = strings.iter().flatten().find(|s| !fits16(s.len())) {
        return Err(too_large(long.len()));
    }
    let block = block_of(c)?;
    let will_block = c.will.as_ref().map_or(Ok(0), |will| block_of(will))?;
    let name = c.version.protocol_name();
    let body = 2
        + name.len()
        + 4
        + prefixed(block)
        + c.will.map_or(0, |_| prefixed(will_block))
        + strings.iter().flatten().map(|s| 2 + s.len()).sum::<usize>();
    if packet_size(body) > varint::VARINT_MAX as usize {
        return Err(too_large(packet_size(body)));
    }
    put_header(PacketType::Connect.first_byte(), body, out);
    put16(name.as_bytes(), out);
    out.push(c.version.level());
    let mut flags = if c.clean_start { CLEAN_START } else { 0 };
    if let Some(will) = &c.will {
        flags |= WILL
            | (will.message.qos as u8) << 3
            | if will.message.retain { WILL_RETAIN } else { 0 };
    }
    flags |= if c.username.is_some() { USER_NAME } else { 0 }
        | if c.password.is_some() { PASSWORD } else { 0 };
    out.push(flags);
    out.extend_from_slice(&c.keep_alive.to_be_bytes());
    if v5 {
        put_block(c, block, out);
    }
    put16(c.client_id.as_bytes(), out);
    if let Some(will) = &c.will {
        if v5 {
            put_block(will, will_block, out);
        }
        put16(will.message.topic.as_bytes(), out);
        put16(will.message.payload, out);
    }
    for s in [c.username.map(str::as_bytes), c.password]
        .into_iter()
        .flatten()
    {
        put16(s, out);
    }
    Ok(())
}

/// Kind of a connection by its first bytes, without a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peek<'b> {
    /// Too few bytes to tell; `want` is how many there must be at least before asking again is worth it.
    NeedMore {
        /// Bytes from the start of the connection.
        want: usize,
    },
    /// Not a CONNECT of any MQTT version.
    NotMqtt,
    /// A CONNECT larger than the limit.
    TooLarge,
    /// Begins like MQTT, but is broken or of an unknown version: any `ServerSide` will say what is wrong with it.
    Broken,
    /// A CONNECT with this client identifier, which may be empty. The rest has not been checked.
    ClientId(&'b str),
}

/// Looks at the first packet of a connection far enough to learn the client identifier. `limit` bounds the whole
/// packet in bytes.
pub fn peek_connect(bytes: &[u8], limit: usize) -> Peek<'_> {
    match bytes.first() {
        None => return Peek::NeedMore { want: 2 },
        Some(0x10) => {}
        Some(_) => return Peek::NotMqtt,
    }
    let header = match varint::decode(bytes.get(1..).unwrap_or_default()) {
        Varint::Value(_, len) => 1 + len,
        Varint::Incomplete => {
            return Peek::NeedMore {
                want: bytes.len() + 1,
            };
        }
        Varint::Malformed => return Peek::NotMqtt,
    };
    let whole = frame_len(bytes).unwrap_or(usize::MAX);
    if whole > limit {
        return Peek::TooLarge;
    }
    let known = bytes
        .get(header..bytes.len().min(whole))
        .unwrap_or_default();
    if !plausible(known) {
        return Peek::NotMqtt;
    }
    match client_id(known) {
        Ok(id) => Peek::ClientId(id),
        Err(Missing::Bytes) if bytes.len() >= whole => Peek::Broken,
        Err(Missing::Bytes) => Peek::NeedMore { want: whole },
        Err(Missing::Sense) => Peek::Broken,
    }
}

/// The version of the CONNECT that begins with `bytes`; `None` if too few are there to tell.
pub(crate) fn version_of(bytes: &[u8]) -> Option<Result<Version, PeerFault>> {
    let Varint::Value(_, len) = varint::decode(bytes.get(1..)?) else {
        return None;
    };
    let body = bytes.get(1 + len..)?;
    if !plausible(body) {
        return Some(Err(PeerFault::PROTOCOL_NAME));
    }
    let mut r = Reader::new(body);
    r.bytes16()?;
    let level = r.u8()? & !BRIDGE;
    let known = [Version::V31, Version::V311, Version::V5]
        .into_iter()
        .find(|version| version.level() == level);
    Some(known.ok_or(PeerFault::PROTOCOL_LEVEL))
}

/// Whether these are the first bytes of a CONNECT body, as far as they go.
fn plausible(body: &[u8]) -> bool {
    [&b"\x00\x04MQTT"[..], &b"\x00\x06MQIsdp"[..]]
        .iter()
        .any(|name| {
            body.iter()
                .zip(name.iter())
                .all(|(got, expected)| got == expected)
        })
}

enum Missing {
    Bytes,
    Sense,
}

fn client_id(body: &[u8]) -> Result<&str, Missing> {
    let mut r = Reader::new(body);
    r.bytes16().ok_or(Missing::Bytes)?;
    let level = r.u8().ok_or(Missing::Bytes)?;
    if !matches!(level & !BRIDGE, 3..=5) {
        return Err(Missing::Sense);
    }
    // Flags and keep alive.
    r.take(3).ok_or(Missing::Bytes)?;
    if level == Version::V5.level() {
        let Varint::Value(len, prefix) = varint::decode(r.rest()) else {
            return Err(if r.remaining() < 4 {
                Missing::Bytes
            } else {
                Missing::Sense
            });
        };
        r.take(prefix + len as usize).ok_or(Missing::Bytes)?;
    }
    let id = r.bytes16().ok_or(Missing::Bytes)?;
    std::str::from_utf8(id).map_err(|_| Missing::Sense)
}
