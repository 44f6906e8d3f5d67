use std::sync::Arc;

use crate::{PublishProperties, QoS, TextPairs};

/// PUBLISH as received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publish<'b> {
    /// Sent before, perhaps.
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
    /// The application's bytes.
    pub payload: &'b [u8],
    /// The whole packet as received.
    pub frame: &'b [u8],
    /// `frame` may be sent verbatim to a QoS 0 subscriber of the same encoding family: QoS 0, no retain, no dup, no
    /// topic alias, no message expiry.
    pub plain: bool,
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
    /// The topic name.
    #[inline]
    pub fn as_str(&self) -> &str {
        match self {
            TopicRef::Borrowed(topic) => topic,
            TopicRef::Alias(topic) => topic,
        }
    }
}

/// PUBLISH as sent.
#[derive(Clone, Copy, Default)]
pub struct PublishOut<'a> {
    /// Sent before, perhaps.
    pub dup: bool,
    /// QoS of this hop.
    pub qos: QoS,
    /// Retain flag.
    pub retain: bool,
    /// A valid topic name.
    pub topic: &'a str,
    /// Packet identifier; ignored for QoS 0, not 0 otherwise.
    pub id: u16,
    /// The application's bytes.
    pub payload: &'a [u8],
    /// Message expiry in seconds, what is left of it.
    pub expiry_secs: Option<u32>,
    /// 0 bytes, 1 UTF-8 text.
    pub payload_format: Option<u8>,
    /// Media type.
    pub content_type: Option<&'a str>,
    /// Where an answer goes.
    pub response_topic: Option<&'a str>,
    /// Ties an answer to its request.
    pub correlation_data: Option<&'a [u8]>,
    /// User properties.
    pub user: Option<&'a dyn TextPairs>,
    /// The subscriptions this delivery answers; empty from a client. [MQTT-3.3.4-6]
    pub subscription_ids: &'a [u32],
    /// Whether the topic may be shortened to an alias.
    pub allow_alias: bool,
}
