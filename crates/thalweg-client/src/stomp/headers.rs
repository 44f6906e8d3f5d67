//! Properties of a message in the headers of SEND and MESSAGE.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use thalweg_model::{Reliability, STAMP_PROPERTY, Span, Stamp};
use thalweg_stomp::{HeaderWriter, Headers};

use crate::message::Retain;
use crate::queues::{MILLIS_MAX, PRIORITY_USUAL};
use crate::transport::{Outbound, Properties, Refusal};

/// Names that mean something to the protocol or a broker, so that no property of a user can have one.
const RESERVED: [&str; 31] = [
    "ack",
    "amqp-message-id",
    "app-id",
    "content-encoding",
    "content-length",
    "content-type",
    "correlation-id",
    "correlation-id-encoding",
    "destination",
    "expiration",
    "expires",
    "id",
    "message",
    "message-id",
    "persistent",
    "priority",
    "receipt",
    "receipt-id",
    "redelivered",
    "reply-to",
    "retain",
    "selector",
    "subscription",
    "timestamp",
    "transaction",
    "type",
    "user-id",
    "x-delivery-count",
    "x-last-value",
    "x-reply-to-topic",
    STAMP_PROPERTY,
];

/// Where an answer is wanted, instead of where the message says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question<'q> {
    pub(super) reply_to: &'q str,
    pub(super) correlation: &'q [u8],
}

/// Whether headers can say what a message has. Nothing that it says is left out in silence.
#[inline]
pub(super) fn check(message: &Outbound<'_>) -> Result<(), Refusal> {
    let is_sayable = |text: &str| !text.contains('\0');
    if !message.content_type.is_none_or(is_sayable) {
        return Err(Refusal::Unsupported("STOMP headers cannot hold NUL"));
    }
    for (name, value) in message.properties.iter() {
        if RESERVED.binary_search(&name).is_ok() {
            return Err(Refusal::Unsupported(
                "a property has a name that means something in STOMP",
            ));
        }
        if name.is_empty() || !is_sayable(name) || !is_sayable(value) {
            return Err(Refusal::Unsupported(
                "STOMP headers have names, and cannot hold NUL",
            ));
        }
    }
    Ok(())
}

/// Writes what beside destination, receipt and content type is to be said. `reply_to`: as a destination.
#[inline]
pub(super) fn write(
    message: &Outbound<'_>,
    reply_to: &str,
    correlation: Option<&[u8]>,
    w: &mut HeaderWriter<'_>,
) {
    if message.reliability != Reliability::AtMostOnce {
        w.put("persistent", "true");
    }
    if let Some(stamp) = message.stamp {
        w.put(
            STAMP_PROPERTY,
            stamp.write_text(&mut [0; Stamp::TEXT_BYTES_MAX]),
        );
    }
    if message.priority > PRIORITY_USUAL {
        w.put_display("priority", message.priority);
    }
    if message.lifespan != Span::FOREVER {
        // Rounded up: a message with some lifespan left is worth delivering. A lifespan above the field's range means
        // no expiry.
        let millis = message.lifespan.nanos().div_ceil(1_000_000);
        if millis <= MILLIS_MAX {
            w.put_display("expiration", millis);
        }
    }
    match message.retain {
        Retain::No => {}
        Retain::Set => _ = w.put("retain", "set"),
        Retain::Clear => _ = w.put("retain", "clear"),
    }
    if !reply_to.is_empty() {
        w.put("reply-to", reply_to);
    }
    if let Some(correlation) = correlation {
        match std::str::from_utf8(correlation) {
            Ok(text) if !text.contains('\0') => _ = w.put("correlation-id", text),
            _ => {
                w.put("correlation-id", &BASE64.encode(correlation));
                w.put("correlation-id-encoding", "base64");
            }
        }
    }
    w.extend(message.properties.iter());
}

/// Headers of a MESSAGE besides the user's properties.
#[derive(Debug)]
pub(super) struct MessageFields {
    /// Remaining lifespan when the broker wrote the message, if it says so.
    pub(super) lifespan: Span,
    pub(super) stamp: Option<Stamp>,
    pub(super) has_reply_to: bool,
    pub(super) has_correlation: bool,
}

/// Reused memory into which the headers of a MESSAGE are decoded.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// Encoded as [`Properties`].
    pub(super) properties: Vec<u8>,
    pub(super) reply_to: String,
    pub(super) correlation: Vec<u8>,
}

impl Scratch {
    /// Reads headers: of each name the first counts. [1.2#Repeated_Header_Entries]
    pub(super) fn read(&mut self, headers: &Headers<'_>) -> MessageFields {
        self.properties.clear();
        self.reply_to.clear();
        self.correlation.clear();
        let mut said = MessageFields {
            lifespan: Span::FOREVER,
            stamp: None,
            has_reply_to: false,
            has_correlation: false,
        };
        let mut is_base64 = false;
        for (name, value) in headers.iter() {
            match &*name {
                STAMP_PROPERTY => said.stamp = said.stamp.or_else(|| value.parse().ok()),
                "expiration" if said.lifespan == Span::FOREVER => {
                    said.lifespan = value
                        .trim()
                        .parse()
                        .map_or(Span::FOREVER, Span::from_millis);
                }
                "reply-to" if !said.has_reply_to => {
                    self.reply_to.push_str(&value);
                    said.has_reply_to = true;
                }
                "correlation-id" if !said.has_correlation => {
                    self.correlation.extend_from_slice(value.as_bytes());
                    said.has_correlation = true;
                }
                "correlation-id-encoding" => is_base64 = value == "base64",
                name if RESERVED.binary_search(&name).is_ok() => {}
                name => {
                    if !Properties(&self.properties)
                        .iter()
                        .any(|(known, _)| known == name)
                    {
                        Properties::push(name, &value, &mut self.properties);
                    }
                }
            }
        }
        if is_base64 && let Ok(bytes) = BASE64.decode(&self.correlation) {
            self.correlation = bytes;
        }
        said
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_names_are_in_order() {
        assert!(RESERVED.is_sorted());
    }
}
