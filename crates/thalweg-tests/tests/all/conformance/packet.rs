//! MQTT packets written and read by hand: the specification's tables, and nothing of our codec, so that a mistake there
//! cannot hide behind the same mistake here. Builders write malformed packets as willingly as good ones.

/// MQTT version of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// MQTT 3.1, protocol level 3.
    V31,
    /// MQTT 3.1.1, protocol level 4.
    V311,
    /// MQTT 5.0, protocol level 5.
    V5,
}

use Version::*;

/// A packet: its first byte, the length of `body` as a variable byte integer, and `body`.
pub fn packet(first: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![first];
    bytes.extend(varint(body.len()));
    bytes.extend(body);
    bytes
}

/// A variable byte integer.
pub fn varint(mut value: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = (value % 128) as u8;
        value /= 128;
        bytes.push(if value > 0 { low | 0x80 } else { low });
        if value == 0 {
            return bytes;
        }
    }
}

/// A field with a two-byte length in front: a string, or binary data.
pub fn field(content: impl AsRef<[u8]>) -> Vec<u8> {
    let content = content.as_ref();
    let length = u16::try_from(content.len()).expect("a field is at most 65,535 bytes");
    [&length.to_be_bytes(), content].concat()
}

/// A properties block: the length of all properties, then the properties.
pub fn properties(all: &[u8]) -> Vec<u8> {
    [varint(all.len()), all.to_vec()].concat()
}

/// One property each, as bytes, under the name the specification gives it.
pub mod property {
    use super::field;

    pub const PAYLOAD_FORMAT: u8 = 0x01;
    pub const MESSAGE_EXPIRY: u8 = 0x02;
    pub const CONTENT_TYPE: u8 = 0x03;
    pub const RESPONSE_TOPIC: u8 = 0x08;
    pub const CORRELATION_DATA: u8 = 0x09;
    pub const SUBSCRIPTION_ID: u8 = 0x0B;
    pub const SESSION_EXPIRY: u8 = 0x11;
    pub const ASSIGNED_CLIENT_ID: u8 = 0x12;
    pub const SERVER_KEEP_ALIVE: u8 = 0x13;
    pub const AUTH_METHOD: u8 = 0x15;
    pub const AUTH_DATA: u8 = 0x16;
    pub const REQUEST_PROBLEM: u8 = 0x17;
    pub const WILL_DELAY: u8 = 0x18;
    pub const REQUEST_RESPONSE: u8 = 0x19;
    pub const RESPONSE_INFORMATION: u8 = 0x1A;
    pub const SERVER_REFERENCE: u8 = 0x1C;
    pub const REASON_STRING: u8 = 0x1F;
    pub const RECEIVE_MAXIMUM: u8 = 0x21;
    pub const TOPIC_ALIAS_MAXIMUM: u8 = 0x22;
    pub const TOPIC_ALIAS: u8 = 0x23;
    pub const MAXIMUM_QOS: u8 = 0x24;
    pub const RETAIN_AVAILABLE: u8 = 0x25;
    pub const USER_PROPERTY: u8 = 0x26;
    pub const MAXIMUM_PACKET_SIZE: u8 = 0x27;
    pub const WILDCARD_AVAILABLE: u8 = 0x28;
    pub const SUBSCRIPTION_ID_AVAILABLE: u8 = 0x29;
    pub const SHARED_AVAILABLE: u8 = 0x2A;

    pub fn byte(id: u8, value: u8) -> Vec<u8> {
        vec![id, value]
    }

    pub fn two(id: u8, value: u16) -> Vec<u8> {
        [&[id], &value.to_be_bytes()[..]].concat()
    }

    pub fn four(id: u8, value: u32) -> Vec<u8> {
        [&[id], &value.to_be_bytes()[..]].concat()
    }

    pub fn varint(id: u8, value: usize) -> Vec<u8> {
        [vec![id], super::varint(value)].concat()
    }

    pub fn text(id: u8, value: impl AsRef<[u8]>) -> Vec<u8> {
        [vec![id], field(value)].concat()
    }

    pub fn user(name: &str, value: &str) -> Vec<u8> {
        [vec![USER_PROPERTY], field(name), field(value)].concat()
    }
}

/// A CONNECT under construction.
#[derive(Clone, Debug)]
pub struct Connect {
    pub version: Version,
    pub client_id: Vec<u8>,
    pub clean: bool,
    pub keep_alive: u16,
    pub properties: Vec<u8>,
    pub will: Option<Will>,
    pub user_name: Option<Vec<u8>>,
    pub password: Option<Vec<u8>>,
    /// Bits turned over in the connect flags that the other fields ask for: a way to contradict them.
    pub flags_flipped: u8,
    /// Protocol name and level to write instead of the version's own.
    pub protocol: Option<(&'static str, u8)>,
}

/// The will of a CONNECT.
#[derive(Clone, Debug)]
pub struct Will {
    pub topic: Vec<u8>,
    pub payload: Vec<u8>,
    pub qos: u8,
    pub retain: bool,
    pub properties: Vec<u8>,
}

impl Connect {
    /// Clean, without keep-alive, properties, will or credentials.
    pub fn new(version: Version, client_id: impl AsRef<[u8]>) -> Self {
        Self {
            version,
            client_id: client_id.as_ref().to_vec(),
            clean: true,
            keep_alive: 0,
            properties: Vec::new(),
            will: None,
            user_name: None,
            password: None,
            flags_flipped: 0,
            protocol: None,
        }
    }

    /// A session that outlives its connection: Clean Start 0 and, for MQTT 5, an expiry of a minute.
    pub fn lasting(version: Version, client_id: impl AsRef<[u8]>) -> Self {
        let connect = Self::new(version, client_id).clean(false);
        if version == V5 {
            connect.with(property::four(property::SESSION_EXPIRY, 60))
        } else {
            connect
        }
    }

    pub fn clean(mut self, clean: bool) -> Self {
        self.clean = clean;
        self
    }

    pub fn keep_alive(mut self, seconds: u16) -> Self {
        self.keep_alive = seconds;
        self
    }

    pub fn with(mut self, property: Vec<u8>) -> Self {
        self.properties.extend(property);
        self
    }

    pub fn will(
        mut self,
        topic: impl AsRef<[u8]>,
        payload: impl AsRef<[u8]>,
        qos: u8,
        retain: bool,
    ) -> Self {
        let (topic, payload) = (topic.as_ref().to_vec(), payload.as_ref().to_vec());
        self.will = Some(Will {
            topic,
            payload,
            qos,
            retain,
            properties: Vec::new(),
        });
        self
    }

    /// Adds one property to the will.
    pub fn will_with(mut self, property: Vec<u8>) -> Self {
        self.will
            .as_mut()
            .expect("a will comes before its properties")
            .properties
            .extend(property);
        self
    }

    pub fn user_name(mut self, name: impl AsRef<[u8]>) -> Self {
        self.user_name = Some(name.as_ref().to_vec());
        self
    }

    pub fn password(mut self, password: impl AsRef<[u8]>) -> Self {
        self.password = Some(password.as_ref().to_vec());
        self
    }

    pub fn flip_flags(mut self, bits: u8) -> Self {
        self.flags_flipped = bits;
        self
    }

    pub fn protocol(mut self, name: &'static str, level: u8) -> Self {
        self.protocol = Some((name, level));
        self
    }

    pub fn bytes(&self) -> Vec<u8> {
        packet(0x10, &self.body())
    }

    /// Everything after the fixed header.
    pub fn body(&self) -> Vec<u8> {
        let (name, level) = self.protocol.unwrap_or(match self.version {
            V31 => ("MQIsdp", 3),
            V311 => ("MQTT", 4),
            V5 => ("MQTT", 5),
        });
        let mut flags = u8::from(self.clean) << 1;
        if let Some(will) = &self.will {
            flags |= 0x04 | will.qos << 3 | u8::from(will.retain) << 5;
        }
        flags |= u8::from(self.password.is_some()) << 6 | u8::from(self.user_name.is_some()) << 7;
        let mut body = field(name);
        body.extend([level, flags ^ self.flags_flipped]);
        body.extend(self.keep_alive.to_be_bytes());
        if self.version == V5 {
            body.extend(properties(&self.properties));
        }
        body.extend(field(&self.client_id));
        if let Some(will) = &self.will {
            if self.version == V5 {
                body.extend(properties(&will.properties));
            }
            body.extend(field(&will.topic));
            body.extend(field(&will.payload));
        }
        body.extend(self.user_name.iter().chain(&self.password).flat_map(field));
        body
    }
}

/// A PUBLISH under construction.
#[derive(Clone, Debug)]
pub struct Publish {
    pub topic: Vec<u8>,
    pub payload: Vec<u8>,
    pub qos: u8,
    pub id: u16,
    pub dup: bool,
    pub retain: bool,
    pub properties: Vec<u8>,
}

impl Publish {
    /// QoS 0.
    pub fn new(topic: impl AsRef<[u8]>, payload: impl AsRef<[u8]>) -> Self {
        let (topic, payload) = (topic.as_ref().to_vec(), payload.as_ref().to_vec());
        Self {
            topic,
            payload,
            qos: 0,
            id: 0,
            dup: false,
            retain: false,
            properties: Vec::new(),
        }
    }

    /// QoS 1 or 2 with this packet identifier.
    pub fn qos(mut self, qos: u8, id: u16) -> Self {
        (self.qos, self.id) = (qos, id);
        self
    }

    pub fn retain(mut self) -> Self {
        self.retain = true;
        self
    }

    pub fn dup(mut self) -> Self {
        self.dup = true;
        self
    }

    pub fn with(mut self, property: Vec<u8>) -> Self {
        self.properties.extend(property);
        self
    }

    pub fn bytes(&self, version: Version) -> Vec<u8> {
        let mut body = field(&self.topic);
        if self.qos > 0 {
            body.extend(self.id.to_be_bytes());
        }
        if version == V5 {
            body.extend(properties(&self.properties));
        }
        body.extend(&self.payload);
        packet(
            0x30 | u8::from(self.dup) << 3 | self.qos << 1 | u8::from(self.retain),
            &body,
        )
    }
}

/// SUBSCRIBE with each filter and its options byte.
pub fn subscribe(version: Version, id: u16, all: &[u8], filters: &[(&str, u8)]) -> Vec<u8> {
    let mut body = id.to_be_bytes().to_vec();
    if version == V5 {
        body.extend(properties(all));
    }
    for (filter, options) in filters {
        body.extend(field(filter));
        body.push(*options);
    }
    packet(0x82, &body)
}

pub fn unsubscribe(version: Version, id: u16, filters: &[&str]) -> Vec<u8> {
    let mut body = id.to_be_bytes().to_vec();
    if version == V5 {
        body.extend(properties(&[]));
    }
    body.extend(filters.iter().flat_map(field));
    packet(0xA2, &body)
}

pub const PUBACK: u8 = 0x40;
pub const PUBREC: u8 = 0x50;
pub const PUBREL: u8 = 0x62;
pub const PUBCOMP: u8 = 0x70;

/// PUBACK, PUBREC, PUBREL or PUBCOMP by its first byte; success is written in the two-byte form all versions share.
pub fn ack(first: u8, id: u16) -> Vec<u8> {
    packet(first, &id.to_be_bytes())
}

/// The same with an MQTT 5 reason code.
pub fn ack_with(first: u8, id: u16, reason: u8) -> Vec<u8> {
    packet(first, &[&id.to_be_bytes(), &[reason][..]].concat())
}

pub fn pingreq() -> Vec<u8> {
    packet(0xC0, &[])
}

/// DISCONNECT of MQTT 3, and MQTT 5's short form of reason code 0x00.
pub fn disconnect() -> Vec<u8> {
    packet(0xE0, &[])
}

/// DISCONNECT of MQTT 5.
pub fn disconnect_with(reason: u8, all: &[u8]) -> Vec<u8> {
    packet(0xE0, &[vec![reason], properties(all)].concat())
}

pub fn auth(reason: u8, all: &[u8]) -> Vec<u8> {
    packet(0xF0, &[vec![reason], properties(all)].concat())
}

/// A packet from the broker. Fields that a version does not have are zero or empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Packet {
    Connack {
        flags: u8,
        code: u8,
        properties: Properties,
    },
    Publish(Message),
    /// PUBACK, PUBREC, PUBREL or PUBCOMP; `kind` is the whole first byte.
    Ack {
        kind: u8,
        id: u16,
        reason: u8,
        properties: Properties,
    },
    Suback {
        id: u16,
        codes: Vec<u8>,
        properties: Properties,
    },
    Unsuback {
        id: u16,
        codes: Vec<u8>,
        properties: Properties,
    },
    Pingresp,
    Disconnect {
        reason: u8,
        properties: Properties,
    },
    Auth {
        reason: u8,
        properties: Properties,
    },
}

/// A PUBLISH from the broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub topic: String,
    pub payload: Vec<u8>,
    pub qos: u8,
    /// 0 for QoS 0.
    pub id: u16,
    pub dup: bool,
    pub retain: bool,
    pub properties: Properties,
    /// Bytes of the whole packet.
    pub size: usize,
}

impl Message {
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.payload).expect("the tests send text")
    }
}

/// Properties in their order: identifier and the bytes of the value, without the length field of strings and binary data.
/// A user property is `name=value`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Properties(pub Vec<(u8, Vec<u8>)>);

impl Properties {
    pub fn all(&self, id: u8) -> Vec<&[u8]> {
        self.0
            .iter()
            .filter(|(each, _)| *each == id)
            .map(|(_, value)| value.as_slice())
            .collect()
    }

    pub fn has(&self, id: u8) -> bool {
        !self.all(id).is_empty()
    }

    pub fn text(&self, id: u8) -> Option<&str> {
        self.all(id)
            .first()
            .map(|value| std::str::from_utf8(value).expect("the broker sends UTF-8"))
    }

    /// A one, two or four byte value, or a variable byte integer.
    pub fn number(&self, id: u8) -> Option<u32> {
        self.numbers(id).first().copied()
    }

    pub fn numbers(&self, id: u8) -> Vec<u32> {
        let big_endian = |value: &[u8]| {
            value
                .iter()
                .fold(0, |sum, byte| sum << 8 | u32::from(*byte))
        };
        let little = |value: &[u8]| {
            value
                .iter()
                .rev()
                .fold(0, |sum, byte| sum << 7 | u32::from(*byte & 0x7F))
        };
        self.all(id)
            .into_iter()
            .map(|v| {
                if id == property::SUBSCRIPTION_ID {
                    little(v)
                } else {
                    big_endian(v)
                }
            })
            .collect()
    }
}

/// Takes one whole packet off the front of `bytes`; `None` while it is incomplete.
pub fn read(version: Version, bytes: &mut Vec<u8>) -> Option<Packet> {
    let mut length = 0;
    let mut head = 1;
    loop {
        let byte = *bytes.get(head)?;
        length |= usize::from(byte & 0x7F) << (7 * (head - 1));
        head += 1;
        if byte & 0x80 == 0 {
            break;
        }
        assert!(
            head < 5,
            "the broker sent a packet length of more than four bytes"
        );
    }
    assert!(
        head == 2 || bytes[head - 1] != 0,
        "[MQTT-1.5.5-1]: the broker sent a packet length with bytes to spare"
    );
    if bytes.len() < head + length {
        return None;
    }
    let rest = bytes.split_off(head + length);
    let whole = std::mem::replace(bytes, rest);
    Some(parse(version, &whole, head))
}

fn parse(version: Version, whole: &[u8], head: usize) -> Packet {
    let first = whole[0];
    let mut body = Reader {
        rest: &whole[head..],
        version,
    };
    let reserved = |packet: Packet, bits: u8| {
        assert_eq!(
            first & 0x0F,
            bits,
            "[MQTT-2.1.3-1]: reserved bits of {packet:?}"
        );
        packet
    };
    match first >> 4 {
        2 => {
            let (flags, code) = (body.byte(), body.byte());
            reserved(
                Packet::Connack {
                    flags,
                    code,
                    properties: body.properties(),
                },
                0,
            )
        }
        3 => {
            let (dup, qos, retain) = (first & 8 != 0, first >> 1 & 3, first & 1 != 0);
            let topic = String::from_utf8(body.field()).expect("the broker sends UTF-8 topics");
            let id = if qos > 0 { body.two() } else { 0 };
            assert!(
                qos == 0 || id != 0,
                "[MQTT-2.2.1-4]: the broker sent packet identifier 0"
            );
            let properties = body.properties();
            Packet::Publish(Message {
                topic,
                payload: body.rest.to_vec(),
                qos,
                id,
                dup,
                retain,
                properties,
                size: whole.len(),
            })
        }
        4..=7 => {
            let id = body.two();
            let reason = if body.rest.is_empty() { 0 } else { body.byte() };
            let bits = if first >> 4 == 6 { 2 } else { 0 };
            reserved(
                Packet::Ack {
                    kind: first,
                    id,
                    reason,
                    properties: body.properties_or_none(),
                },
                bits,
            )
        }
        9 => {
            let (id, properties) = (body.two(), body.properties());
            reserved(
                Packet::Suback {
                    id,
                    codes: body.rest.to_vec(),
                    properties,
                },
                0,
            )
        }
        11 => {
            let (id, properties) = (body.two(), body.properties());
            reserved(
                Packet::Unsuback {
                    id,
                    codes: body.rest.to_vec(),
                    properties,
                },
                0,
            )
        }
        13 => reserved(Packet::Pingresp, 0),
        14 => {
            assert_eq!(version, V5, "only MQTT 5 lets the broker send DISCONNECT");
            let reason = if body.rest.is_empty() { 0 } else { body.byte() };
            reserved(
                Packet::Disconnect {
                    reason,
                    properties: body.properties_or_none(),
                },
                0,
            )
        }
        15 => {
            assert_eq!(version, V5, "only MQTT 5 has AUTH");
            let reason = if body.rest.is_empty() { 0 } else { body.byte() };
            reserved(
                Packet::Auth {
                    reason,
                    properties: body.properties_or_none(),
                },
                0,
            )
        }
        _ => panic!("the broker sent a packet of type {}", first >> 4),
    }
}

struct Reader<'a> {
    rest: &'a [u8],
    version: Version,
}

impl Reader<'_> {
    fn take(&mut self, count: usize) -> &[u8] {
        let (taken, rest) = self
            .rest
            .split_at_checked(count)
            .expect("the broker's packet ends too early");
        self.rest = rest;
        taken
    }

    fn byte(&mut self) -> u8 {
        self.take(1)[0]
    }

    fn two(&mut self) -> u16 {
        u16::from(self.byte()) << 8 | u16::from(self.byte())
    }

    fn field(&mut self) -> Vec<u8> {
        let length = usize::from(self.two());
        self.take(length).to_vec()
    }

    fn varint(&mut self) -> Vec<u8> {
        let length = 1 + self
            .rest
            .iter()
            .take_while(|byte| **byte & 0x80 != 0)
            .count();
        self.take(length).to_vec()
    }

    fn properties_or_none(&mut self) -> Properties {
        if self.rest.is_empty() {
            Properties::default()
        } else {
            self.properties()
        }
    }

    fn properties(&mut self) -> Properties {
        if self.version != V5 {
            return Properties::default();
        }
        let length = self
            .varint()
            .iter()
            .rev()
            .fold(0, |sum, byte| sum << 7 | usize::from(*byte & 0x7F));
        let block = self.take(length).to_vec();
        let mut block = Reader {
            rest: &block,
            version: V5,
        };
        let mut all = Vec::new();
        while !block.rest.is_empty() {
            let id = block.byte();
            let value = match id {
                0x01 | 0x17 | 0x19 | 0x24 | 0x25 | 0x28..=0x2A => block.take(1).to_vec(),
                0x13 | 0x21..=0x23 => block.take(2).to_vec(),
                0x02 | 0x11 | 0x18 | 0x27 => block.take(4).to_vec(),
                0x0B => block.varint(),
                0x26 => [block.field(), b"=".to_vec(), block.field()].concat(),
                0x03 | 0x08 | 0x09 | 0x12 | 0x15 | 0x16 | 0x1A | 0x1C | 0x1F => block.field(),
                _ => panic!("the broker sent property {id:#04x}, which no table lists"),
            };
            all.push((id, value));
        }
        Properties(all)
    }
}
