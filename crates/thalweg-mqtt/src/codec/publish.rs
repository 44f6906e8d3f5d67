//! PUBLISH (§3.3): the packet that must be fast.
//!
//! ```text
//!  bit 7 6 5 4 | 3   | 2 1 | 0
//!  0 0 1 1     | DUP | QoS | RETAIN
//!  topic name, 16-bit length
//!  QoS 1 and 2: packet identifier, 2 bytes
//!  MQTT 5: properties
//!  payload: the rest
//! ```

use std::sync::Arc;

use thalweg_wire::Reader;

use super::frame::{Frame, packet_size};
use crate::alias::{InboundAliases, OutboundAliases};
use crate::properties::{
    Place, Property, PropertySource, bit, block_size, each_user, id, put_block,
};
use crate::text::{self, fits16};
use crate::{PacketType, PeerFault, PublishProperties, QoS, TextPairs, TooLarge, varint};

/// A PUBLISH as received; borrows from the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publish<'b> {
    /// The sender may have sent it before; never set at QoS 0.
    pub dup: bool,
    /// QoS of this hop.
    pub qos: QoS,
    /// Keep as last value (to the server); was kept (to the client).
    pub retain: bool,
    /// A valid topic name, never empty.
    pub topic: TopicRef<'b>,
    /// Packet identifier; 0 for QoS 0.
    pub id: u16,
    /// Properties; empty for MQTT 3.
    pub properties: PublishProperties<'b>,
    /// Payload; may be empty.
    pub payload: &'b [u8],
    /// The whole packet as received.
    pub frame: &'b [u8],
    /// `frame` may be sent verbatim to a QoS 0 subscriber of the same encoding family: QoS 0, no retain, no dup, no
    /// topic alias, no message expiry.
    pub plain: bool,
}

impl<'b> Publish<'b> {
    /// The MQTT 5 PUBLISH at the start of `bytes`, with its length, outside of any connection: no topic alias is known.
    /// `Ok(None)`: incomplete. A packet of more than `bytes_max` bytes is a fault as soon as its header is seen.
    pub fn decode(
        bytes: &'b [u8],
        bytes_max: u32,
    ) -> Result<Option<(usize, Publish<'b>)>, PeerFault> {
        let Some(frame) = Frame::split(bytes, bytes_max, true)? else {
            return Ok(None);
        };
        if frame.first >> 4 != PacketType::Publish as u8 {
            return Err(PeerFault::DIRECTION);
        }
        let aliases = &mut InboundAliases::default();
        let fields = Fields::decode(&frame, true, Place::PublishToClient, aliases)?;
        Ok(Some((frame.whole.len(), fields.publish(&frame))))
    }
}

/// The topic of a received PUBLISH.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopicRef<'b> {
    /// Written in the packet.
    Borrowed(&'b str),
    /// Looked up by topic alias.
    Alias(Arc<str>),
}

impl TopicRef<'_> {
    /// The topic name, also where an alias stood for it.
    #[inline]
    pub fn as_str(&self) -> &str {
        match self {
            TopicRef::Borrowed(topic) => topic,
            TopicRef::Alias(topic) => topic,
        }
    }
}

/// Fields of a PUBLISH to be encoded.
#[derive(Clone, Copy, Debug, Default)]
pub struct PublishOut<'a> {
    /// The sender may have sent it before; never set at QoS 0.
    pub dup: bool,
    /// QoS of this hop.
    pub qos: QoS,
    /// Whether the server keeps it for later subscribers.
    pub retain: bool,
    /// A valid topic name.
    pub topic: &'a str,
    /// Packet identifier; ignored for QoS 0, not 0 otherwise.
    pub id: u16,
    /// Payload; may be empty.
    pub payload: &'a [u8],
    /// Message expiry in seconds, what is left of it.
    pub expiry_secs: Option<u32>,
    /// 0 bytes, 1 UTF-8 text.
    pub payload_format: Option<u8>,
    /// Media type of the payload; MQTT 5 only.
    pub content_type: Option<&'a str>,
    /// Where an answer goes.
    pub response_topic: Option<&'a str>,
    /// Ties an answer to its request.
    pub correlation_data: Option<&'a [u8]>,
    /// User properties, in their order; MQTT 5 only.
    pub user: Option<&'a dyn TextPairs>,
    /// The subscriptions this delivery answers; empty from a client. [MQTT-3.3.4-6]
    pub subscription_ids: &'a [u32],
    /// Whether the topic may be shortened to an alias.
    pub allow_alias: bool,
}

const DUP: u8 = 0b1000;
const QOS: u8 = 0b0110;
const RETAIN: u8 = 0b0001;

/// The fields of a PUBLISH, checked. It is turned into a [`Publish`] in the place where that is returned: the flags of
/// a [`Publish`] are single bytes, and each copy of them on the way out would wait for the stores to finish.
pub(crate) struct Fields<'b> {
    topic: TopicRef<'b>,
    /// A packet identifier, as wide as a register for the same reason.
    id: u64,
    properties: PublishProperties<'b>,
    payload: &'b [u8],
}

impl<'b> Fields<'b> {
    /// Decodes a PUBLISH; learns and resolves topic aliases.
    #[inline]
    pub(crate) fn decode(
        frame: &Frame<'b>,
        v5: bool,
        place: Place,
        aliases: &mut InboundAliases,
    ) -> Result<Fields<'b>, PeerFault> {
        let qos_bits = frame.first & QOS;
        let mut r = Reader::new(frame.body);
        let name = text::topic_name(r.bytes16().ok_or(PeerFault::TRUNCATED)?)?;
        let mut packet_id = 0;
        if qos_bits != 0 {
            if qos_bits == QOS {
                return Err(PeerFault::PUBLISH_QOS_3);
            }
            packet_id = u64::from(r.u16().ok_or(PeerFault::TRUNCATED)?);
            if packet_id == 0 {
                return Err(PeerFault::PACKET_ID_ZERO);
            }
        } else if frame.first & DUP != 0 {
            return Err(PeerFault::DUP_WITH_QOS_0);
        }
        let properties = if v5 {
            PublishProperties::decode(&mut r, place)?
        } else {
            PublishProperties::EMPTY
        };
        let topic = if name.is_empty() || properties.has_any(bit(id::TOPIC_ALIAS)) {
            resolve(name, &properties, aliases)?
        } else {
            TopicRef::Borrowed(name)
        };
        Ok(Fields {
            topic,
            id: packet_id,
            properties,
            payload: r.rest(),
        })
    }

    #[inline]
    pub(crate) fn publish(self, frame: &Frame<'b>) -> Publish<'b> {
        // The alias belongs to one connection, and the expiry shrinks while the message waits. [MQTT-3.3.2-6]
        let bound = bit(id::TOPIC_ALIAS) | bit(id::MESSAGE_EXPIRY) | bit(id::SUBSCRIPTION_ID);
        Publish {
            dup: frame.first & DUP != 0,
            qos: match frame.first & QOS {
                0 => QoS::AtMostOnce,
                0b0010 => QoS::AtLeastOnce,
                _ => QoS::ExactlyOnce,
            },
            retain: frame.first & RETAIN != 0,
            topic: self.topic,
            id: self.id as u16,
            properties: self.properties,
            payload: self.payload,
            frame: frame.whole,
            plain: frame.first & (DUP | QOS | RETAIN) == 0 && !self.properties.has_any(bound),
        }
    }
}

/// Action for a topic alias, or for an empty topic.
#[inline(never)]
fn resolve<'b>(
    name: &'b str,
    properties: &PublishProperties<'_>,
    aliases: &mut InboundAliases,
) -> Result<TopicRef<'b>, PeerFault> {
    match properties.topic_alias() {
        None => Err(PeerFault::TOPIC_EMPTY),
        Some(alias) if name.is_empty() => Ok(TopicRef::Alias(aliases.topic(alias)?)),
        Some(alias) => {
            aliases.define(alias, name)?;
            Ok(TopicRef::Borrowed(name))
        }
    }
}

impl PublishOut<'_> {
    #[inline]
    fn has_properties(&self) -> bool {
        self.expiry_secs.is_some()
            || self.payload_format.is_some()
            || self.content_type.is_some()
            || self.response_topic.is_some()
            || self.correlation_data.is_some()
            || self.user.is_some()
            || !self.subscription_ids.is_empty()
    }

    #[inline]
    fn first_byte(&self) -> u8 {
        // DUP is never set with QoS 0. [MQTT-3.3.1-2]
        let dup = self.dup && self.qos != QoS::AtMostOnce;
        0x30 | u8::from(dup) << 3 | (self.qos as u8) << 1 | u8::from(self.retain)
    }

    /// Appends this message, if it fits `bytes_max`.
    #[inline]
    pub(crate) fn encode(
        &self,
        v5: bool,
        aliases: &mut OutboundAliases,
        bytes_max: u32,
        out: &mut Vec<u8>,
    ) -> Result<(), TooLarge> {
        if v5 && (self.has_properties() || (self.allow_alias && aliases.wants(self.topic))) {
            return self.encode_rich(aliases, bytes_max, out);
        }
        let id_len = if self.qos == QoS::AtMostOnce { 0 } else { 2 };
        let body = 2 + self.topic.len() + id_len + usize::from(v5) + self.payload.len();
        self.check(body, bytes_max)?;
        out.reserve(packet_size(body));
        self.put_start(body, self.topic, out);
        let [high, low] = self.id.to_be_bytes();
        // The property length of MQTT 5 is 0 here. [MQTT-2.2.2-1]
        match (id_len, v5) {
            (0, false) => {}
            (0, true) => out.push(0),
            (_, false) => out.extend_from_slice(&[high, low]),
            (_, true) => out.extend_from_slice(&[high, low, 0]),
        }
        out.extend_from_slice(self.payload);
        Ok(())
    }

    /// Fixed header and topic.
    #[inline]
    fn put_start(&self, body: usize, topic: &str, out: &mut Vec<u8>) {
        let [high, low] = (topic.len() as u16).to_be_bytes();
        if body < 0x80 {
            out.extend_from_slice(&[self.first_byte(), body as u8, high, low]);
        } else {
            out.push(self.first_byte());
            varint::put(body as u32, out);
            out.extend_from_slice(&[high, low]);
        }
        out.extend_from_slice(topic.as_bytes());
    }

    #[inline]
    fn check(&self, body: usize, bytes_max: u32) -> Result<(), TooLarge> {
        let packet_bytes = packet_size(body);
        if packet_bytes > bytes_max as usize
            || !fits16(self.topic.len())
            || body > varint::VARINT_MAX as usize
        {
            return Err(TooLarge {
                packet_bytes,
                packet_bytes_max: bytes_max,
            });
        }
        Ok(())
    }

    /// With properties or a topic alias (MQTT 5).
    fn encode_rich(
        &self,
        aliases: &mut OutboundAliases,
        bytes_max: u32,
        out: &mut Vec<u8>,
    ) -> Result<(), TooLarge> {
        let own = block_size(self).ok_or(TooLarge {
            packet_bytes: usize::MAX,
            packet_bytes_max: bytes_max,
        })?;
        let id_len = if self.qos == QoS::AtMostOnce { 0 } else { 2 };
        let body = |topic: usize, block: usize| {
            2 + topic + id_len + varint::size(block as u32) + block + self.payload.len()
        };
        let known = if self.allow_alias && aliases.wants(self.topic) {
            aliases.find(self.topic)
        } else {
            None
        };
        let (topic, alias, len) = if known.is_some() {
            ("", known, body(0, own + 3))
        } else {
            let with_new = body(self.topic.len(), own + 3);
            // An alias is only defined by a packet that is really sent.
            if self.allow_alias
                && aliases.wants(self.topic)
                && self.check(with_new, bytes_max).is_ok()
            {
                (self.topic, Some(aliases.assign(self.topic)), with_new)
            } else {
                (self.topic, None, body(self.topic.len(), own))
            }
        };
        self.check(len, bytes_max)?;
        out.reserve(packet_size(len));
        self.put_start(len, topic, out);
        if id_len != 0 {
            out.extend_from_slice(&self.id.to_be_bytes());
        }
        match alias {
            None => put_block(self, own, out),
            Some(alias) => put_block(
                &Aliased {
                    alias,
                    message: self,
                },
                own + 3,
                out,
            ),
        }
        out.extend_from_slice(self.payload);
        Ok(())
    }
}

impl PropertySource for PublishOut<'_> {
    fn each(&self, sink: &mut dyn FnMut(Property<'_>)) {
        if let Some(format) = self.payload_format {
            sink(Property::PayloadFormat(format));
        }
        if let Some(seconds) = self.expiry_secs {
            sink(Property::MessageExpiry(seconds));
        }
        if let Some(content_type) = self.content_type {
            sink(Property::ContentType(content_type));
        }
        if let Some(topic) = self.response_topic {
            sink(Property::ResponseTopic(topic));
        }
        if let Some(data) = self.correlation_data {
            sink(Property::CorrelationData(data));
        }
        for id in self.subscription_ids {
            sink(Property::SubscriptionId(*id));
        }
        each_user(self.user, sink);
    }
}

struct Aliased<'a> {
    alias: u16,
    message: &'a PublishOut<'a>,
}

impl PropertySource for Aliased<'_> {
    fn each(&self, sink: &mut dyn FnMut(Property<'_>)) {
        sink(Property::TopicAlias(self.alias));
        self.message.each(sink);
    }
}
