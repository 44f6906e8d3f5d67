//! Published and received messages, independent of the protocol.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use thalweg_model::{Reliability, Span, Stamp};

use crate::engine::DeliveryToken;
use crate::transport::{Inbound, Properties};

/// Options of a publish. Everything has a default, so that `Options::default()` is a plain at-least-once message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Delivery guarantee of the message.
    pub reliability: Reliability,
    /// Effect on the topic's last value.
    pub retain: Retain,
    /// Lifespan from now on, including the wait in this client. `None`: no expiry.
    pub lifespan: Option<Duration>,
    /// 0 to 9, higher goes first; 4 is usual, 9 is never batched.
    pub priority: u8,
    /// Media type of the payload, e.g. `application/json`.
    pub content_type: Option<String>,
    /// The payload is UTF-8 text. Default: nothing is said about that.
    pub is_text: bool,
    /// The user's own properties: ordered, names may repeat.
    pub properties: Vec<(String, String)>,
    /// The topic where an answer goes.
    pub reply_to: Option<String>,
    /// Correlation data of the reply.
    pub correlation: Option<Vec<u8>>,
}

/// Effect of a publish on the topic's last value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Retain {
    /// Whatever the protocol that carries it does with a plain publish.
    #[default]
    No,
    /// The message becomes the last value.
    Set,
    /// The last value is forgotten.
    Clear,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            reliability: Reliability::AtLeastOnce,
            retain: Retain::No,
            lifespan: None,
            priority: 4,
            content_type: None,
            is_text: false,
            properties: Vec::new(),
            reply_to: None,
            correlation: None,
        }
    }
}

/// A message that came: one piece of memory, cheap to clone.
#[derive(Clone, PartialEq, Eq)]
pub struct Message {
    /// Address, content type, reply address, correlation, properties, payload.
    bytes: Arc<[u8]>,
    /// Where each of them ends, but the last.
    ends: [u32; 5],
    reliability: Reliability,
    is_last_value: bool,
    repeated: bool,
    has: u8,
    stamp: Option<Stamp>,
    lifespan: Span,
}

const HAS_CONTENT_TYPE: u8 = 1;
const HAS_REPLY_TO: u8 = 2;
const HAS_CORRELATION: u8 = 4;

impl Message {
    /// Approximate memory of the message and its places in lists.
    pub(crate) fn memory_bytes(&self) -> u32 {
        (size_of::<Message>() + size_of::<DeliveryToken>() + self.bytes.len())
            .try_into()
            .unwrap_or(u32::MAX)
    }

    /// Copies what came out of buffers that will be reused.
    pub fn new(inbound: &Inbound<'_>) -> Message {
        let parts = [
            inbound.address.as_bytes(),
            inbound.content_type.unwrap_or_default().as_bytes(),
            inbound.reply_to.unwrap_or_default().as_bytes(),
            inbound.correlation.unwrap_or_default(),
            inbound.properties.0,
        ];
        let mut bytes = Vec::with_capacity(
            parts.iter().map(|part| part.len()).sum::<usize>() + inbound.payload.len(),
        );
        let ends = parts.map(|part| {
            bytes.extend_from_slice(part);
            bytes.len() as u32
        });
        bytes.extend_from_slice(inbound.payload);
        let has = |is: bool, flag: u8| if is { flag } else { 0 };
        Message {
            bytes: bytes.into(),
            ends,
            reliability: inbound.reliability,
            is_last_value: inbound.is_last_value,
            repeated: inbound.repeated,
            has: has(inbound.content_type.is_some(), HAS_CONTENT_TYPE)
                | has(inbound.reply_to.is_some(), HAS_REPLY_TO)
                | has(inbound.correlation.is_some(), HAS_CORRELATION),
            stamp: inbound.stamp,
            lifespan: inbound.lifespan,
        }
    }

    fn part(&self, index: usize) -> &[u8] {
        let start = index
            .checked_sub(1)
            .and_then(|before| self.ends.get(before))
            .copied()
            .unwrap_or(0);
        let end = self
            .ends
            .get(index)
            .map_or(self.bytes.len(), |&end| end as usize);
        self.bytes.get(start as usize..end).unwrap_or_default()
    }

    fn text(&self, index: usize) -> &str {
        std::str::from_utf8(self.part(index)).unwrap_or_default()
    }

    /// The topic it was published to: levels joined by `/`.
    pub fn topic(&self) -> &str {
        self.text(0)
    }

    /// The payload, as it was published.
    pub fn payload(&self) -> &[u8] {
        self.part(5)
    }

    /// Media type of the payload.
    pub fn content_type(&self) -> Option<&str> {
        (self.has & HAS_CONTENT_TYPE != 0).then(|| self.text(1))
    }

    /// Where an answer goes.
    pub fn reply_to(&self) -> Option<&str> {
        (self.has & HAS_REPLY_TO != 0).then(|| self.text(2))
    }

    /// Correlation data of the request.
    pub fn correlation(&self) -> Option<&[u8]> {
        (self.has & HAS_CORRELATION != 0).then(|| self.part(3))
    }

    /// The user's properties, in order; names may repeat.
    pub fn properties(&self) -> impl Iterator<Item = (&str, &str)> {
        Properties(self.part(4)).iter()
    }

    /// Delivery guarantee of this delivery.
    pub fn reliability(&self) -> Reliability {
        self.reliability
    }

    /// It is a last value from before the subscription.
    pub fn is_last_value(&self) -> bool {
        self.is_last_value
    }

    /// It may have come before.
    pub fn is_repeated(&self) -> bool {
        self.repeated
    }

    /// Publisher and sequence number, if the publisher sends them.
    pub fn stamp(&self) -> Option<Stamp> {
        self.stamp
    }

    /// Remaining lifespan on arrival, as far as the protocol reports it.
    pub fn lifespan(&self) -> Option<Span> {
        (self.lifespan != Span::FOREVER).then_some(self.lifespan)
    }

    /// Bytes of memory that it holds.
    pub fn bytes(&self) -> usize {
        self.bytes.len() + size_of::<Message>()
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message")
            .field("topic", &self.topic())
            .field(
                "payload",
                &format_args!("{}", self.payload().escape_ascii()),
            )
            .field("reliability", &self.reliability)
            .field("is_last_value", &self.is_last_value)
            .field("stamp", &self.stamp)
            .finish_non_exhaustive()
    }
}
