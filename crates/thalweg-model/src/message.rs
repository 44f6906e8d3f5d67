//! What is sent.

use crate::{Properties, Time};
use std::sync::Arc;

/// How surely a message arrives, as asked for by whoever publishes or subscribes. The end-to-end guarantee is the
/// minimum over the hops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Reliability {
    /// May be lost, never repeated.
    #[default]
    AtMostOnce = 0,
    /// Not lost once acknowledged, may be repeated.
    AtLeastOnce = 1,
    /// Neither lost nor repeated.
    ExactlyOnce = 2,
}

/// What publishing does to the address's last value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RetainOp {
    /// Nothing.
    #[default]
    None,
    /// This message becomes the last value.
    Set,
    /// The last value is forgotten.
    Clear,
}

/// A message that somebody keeps: in a queue, an in-flight window or as a last value. Immutable and shared; one
/// allocation holds address and payload.
#[derive(Clone, Debug)]
pub struct Message(Arc<Kept>);

#[derive(Debug)]
struct Kept {
    /// Address, then payload.
    bytes: Box<[u8]>,
    address_len: u32,
    reliability: Reliability,
    retain: RetainOp,
    priority: u8,
    expires: Time,
    ingress: Time,
    publisher: u64,
    properties: Option<Box<Properties>>,
}

/// Bytes a kept message costs beside its address and payload (allocation headers included).
const KEPT_OVERHEAD: usize = 112;

impl Message {
    /// Copies a message out of buffers that will be reused.
    #[allow(clippy::too_many_arguments)] // One constructor, called from one place; a builder would cost a copy.
    pub fn new(
        address: &str,
        payload: &[u8],
        reliability: Reliability,
        retain: RetainOp,
        expires: Time,
        ingress: Time,
        publisher: u64,
        properties: Option<Box<Properties>>,
    ) -> Self {
        let mut bytes = Vec::with_capacity(address.len() + payload.len());
        bytes.extend_from_slice(address.as_bytes());
        bytes.extend_from_slice(payload);
        Message(Arc::new(Kept {
            bytes: bytes.into_boxed_slice(),
            address_len: address.len() as u32,
            reliability,
            retain,
            priority: 0,
            expires,
            ingress,
            publisher,
            properties,
        }))
    }

    /// The canonical address.
    pub fn address(&self) -> &str {
        // Only `new` writes these bytes, from a &str; from_utf8 cannot fail.
        std::str::from_utf8(&self.0.bytes[..self.0.address_len as usize]).unwrap_or("")
    }

    /// The payload, as it was sent.
    pub fn payload(&self) -> &[u8] {
        &self.0.bytes[self.0.address_len as usize..]
    }

    /// What the publisher asked for.
    pub fn reliability(&self) -> Reliability {
        self.0.reliability
    }

    /// What publishing it did to the last value.
    pub fn retain(&self) -> RetainOp {
        self.0.retain
    }

    /// 0 (default) to 255; higher goes first where a queue orders by priority.
    pub fn priority(&self) -> u8 {
        self.0.priority
    }

    /// When it is no longer worth delivering; [`Time::NEVER`] if it always is.
    pub fn expires(&self) -> Time {
        self.0.expires
    }

    /// When the broker received it.
    pub fn ingress(&self) -> Time {
        self.0.ingress
    }

    /// Who published it: the publisher's session id, 0 for the broker itself.
    pub fn publisher(&self) -> u64 {
        self.0.publisher
    }

    /// The metadata, if it has any.
    pub fn properties(&self) -> Option<&Properties> {
        self.0.properties.as_deref()
    }

    /// Bytes of memory it holds, for byte-bounded queues.
    pub fn bytes(&self) -> usize {
        KEPT_OVERHEAD + self.0.bytes.len() + self.0.properties.as_ref().map_or(0, |p| p.bytes())
    }
}
