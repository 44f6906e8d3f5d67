//! Messages and their properties.

use crate::{Properties, Time};
use std::sync::Arc;

/// Delivery guarantee that the publisher or subscriber requests. The end-to-end guarantee is the minimum over the hops.
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

/// Effect of a publish on the address's last value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RetainOp {
    /// The last value stays as it is.
    #[default]
    None,
    /// This message becomes the last value.
    Set,
    /// The last value is forgotten.
    Clear,
}

/// A message that is kept: in a queue, an in-flight window or as a last value. Immutable and shared; one
/// allocation holds address and payload.
#[derive(Clone, Debug)]
pub struct Message(Arc<Kept>);

#[derive(Debug)]
struct Kept {
    body: Body,
    address_len: u16,
    reliability: Reliability,
    retain: RetainOp,
    priority: u8,
    expires: Time,
    ingress: Time,
    publisher: u64,
    properties: Option<Box<Properties>>,
}

/// Small messages need no allocation of their own.
#[derive(Debug)]
enum Body {
    Inline(u8, [u8; INLINE_BYTES]),
    Heap(Box<[u8]>),
}

/// Address and payload of most sensor readings fit; with this size a kept message is 128 bytes in all.
const INLINE_BYTES: usize = 70;

/// Bytes a kept message costs beside a body that has its own allocation (allocation headers included).
const KEPT_OVERHEAD: usize = 144;

impl Message {
    /// Copies a message out of buffers that will be reused.
    #[allow(clippy::too_many_arguments)] // One constructor, called from one place; a builder would cost a copy.
    #[inline(always)]
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
        Message(Arc::new(Kept {
            body: Body::new(address.as_bytes(), payload),
            // An address holds at most 65,535 bytes; `Address::check` and every codec see to it.
            address_len: address.len() as u16,
            reliability,
            retain,
            priority: 0,
            expires,
            ingress,
            publisher,
            properties,
        }))
    }

    /// The same message with a priority. To be called on a message that is not shared yet; otherwise it stays as it is.
    pub fn with_priority(mut self, priority: u8) -> Self {
        if let Some(kept) = Arc::get_mut(&mut self.0) {
            kept.priority = priority;
        }
        self
    }

    /// Whether both are the same message, not just equal ones.
    pub fn is_same(&self, other: &Message) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The address's canonical rendering.
    pub fn address(&self) -> &str {
        // Only `new` writes these bytes, from a &str; from_utf8 cannot fail.
        std::str::from_utf8(&self.0.body.bytes()[..self.0.address_len as usize]).unwrap_or("")
    }

    /// Bytes of its address.
    #[inline]
    pub fn address_len(&self) -> usize {
        usize::from(self.0.address_len)
    }

    /// Whether its address is this one. Costs a comparison; [`Message::address`] has to check first that it is text.
    #[inline]
    pub fn is_at(&self, address: &str) -> bool {
        self.0.body.bytes()[..self.address_len()] == *address.as_bytes()
    }

    /// The payload, as it was sent.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.0.body.bytes()[self.0.address_len as usize..]
    }

    /// Reliability requested by the publisher.
    pub fn reliability(&self) -> Reliability {
        self.0.reliability
    }

    /// Effect of its publish on the last value.
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

    /// Publisher: its session id, 0 for the broker itself.
    pub fn publisher(&self) -> u64 {
        self.0.publisher
    }

    /// The metadata, if it has any.
    pub fn properties(&self) -> Option<&Properties> {
        self.0.properties.as_deref()
    }

    /// The addresses under which it was published before its present one; nearly always none.
    pub fn origins(&self) -> &[Box<str>] {
        let details = self
            .properties()
            .and_then(|properties| properties.details.as_deref());
        details.map_or(&[], |details| &details.origins)
    }

    /// Bytes of memory it holds, for byte-bounded queues.
    #[inline]
    pub fn bytes(&self) -> usize {
        KEPT_OVERHEAD
            + self.0.body.heap_bytes()
            + self.0.properties.as_ref().map_or(0, |p| p.bytes())
    }
}

impl Body {
    #[inline]
    fn new(address: &[u8], payload: &[u8]) -> Self {
        let len = address.len() + payload.len();
        if len <= INLINE_BYTES {
            let mut bytes = [0; INLINE_BYTES];
            bytes[..address.len()].copy_from_slice(address);
            bytes[address.len()..len].copy_from_slice(payload);
            return Body::Inline(len as u8, bytes);
        }
        let mut bytes = Vec::with_capacity(len);
        bytes.extend_from_slice(address);
        bytes.extend_from_slice(payload);
        Body::Heap(bytes.into_boxed_slice())
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        match self {
            Body::Inline(len, bytes) => &bytes[..*len as usize],
            Body::Heap(bytes) => bytes,
        }
    }

    #[inline]
    fn heap_bytes(&self) -> usize {
        match self {
            Body::Inline(..) => 0,
            Body::Heap(bytes) => bytes.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(address: &str, payload: &[u8]) -> Message {
        Message::new(
            address,
            payload,
            Reliability::AtMostOnce,
            RetainOp::None,
            Time::NEVER,
            Time::ZERO,
            0,
            None,
        )
    }

    #[test]
    fn address_and_payload_come_back_at_every_size() {
        for address_len in [1, 11, 69, 70, 71, 300] {
            for payload_len in [0, 1, 59, 60, 5000] {
                let (address, payload) = ("a".repeat(address_len), vec![7; payload_len]);
                let message = message(&address, &payload);
                assert_eq!(message.address(), address);
                assert_eq!(message.payload(), payload);
            }
        }
    }

    #[test]
    fn a_small_message_is_one_small_allocation() {
        assert!(size_of::<Kept>() <= 112, "{}", size_of::<Kept>());
    }
}
