//! Metadata as its publisher encoded it. A front that knows the encoding gives it back unchanged; all others ask here
//! what it says in our words.
//!
//! *Must never know:* a link, the kernel.

use crate::amqp;
use std::borrow::Cow;
use thalweg_model::{NativeProperties, Properties};

/// The number of AMQP's encoding: the payload of a content header frame, whose body size says nothing.
pub(crate) const AMQP: u8 = 91;

/// The number of AMQP's encoding of a copy, which is delivered as what it is a copy of: exchange and key that its publisher
/// named, each behind a byte with its length, and then what [`AMQP`] means.
pub(crate) const AMQP_COPY: u8 = 92;

/// The content header, if this is AMQP's encoding.
#[inline]
pub(crate) fn amqp_header(native: &NativeProperties) -> Option<&[u8]> {
    match native.dialect {
        AMQP => Some(&native.bytes),
        AMQP_COPY => copy(native).map(|(_, _, header)| header),
        _ => None,
    }
}

/// Exchange and key that the publisher of a copy named.
#[inline]
pub(crate) fn amqp_origin(native: &NativeProperties) -> Option<(&str, &str)> {
    match native.dialect {
        AMQP_COPY => copy(native).map(|(exchange, key, _)| (exchange, key)),
        _ => None,
    }
}

/// The encoding of a copy. Exchange and key came as short strings.
pub(crate) fn amqp_copy(exchange: &str, key: &str, header: &[u8]) -> NativeProperties {
    let mut bytes = Vec::with_capacity(exchange.len() + key.len() + header.len() + 2);
    for text in [exchange, key] {
        bytes.push(u8::try_from(text.len()).unwrap_or(0));
        bytes.extend_from_slice(text.as_bytes());
    }
    bytes.extend_from_slice(header);
    NativeProperties { dialect: AMQP_COPY, bytes: bytes.into() }
}

#[cold]
fn copy(native: &NativeProperties) -> Option<(&str, &str, &[u8])> {
    let (exchange, rest) = short(&native.bytes)?;
    let (key, header) = short(rest)?;
    Some((exchange, key, header))
}

fn short(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let (len, rest) = bytes.split_first()?;
    let (text, rest) = rest.split_at_checked(usize::from(*len))?;
    Some((std::str::from_utf8(text).ok()?, rest))
}

/// The metadata of a message in our words, however it was encoded.
pub fn neutral(properties: &Properties) -> Cow<'_, Properties> {
    match properties.native.as_ref().and_then(amqp_header) {
        Some(header) => Cow::Owned(decoded(header, properties)),
        None => Cow::Borrowed(properties),
    }
}

/// What the publisher said, and what was added to it since.
#[cold]
fn decoded(header: &[u8], added: &Properties) -> Properties {
    let mut properties = amqp::decode_properties(header);
    if let Some(reply_to) = &added.reply_to {
        properties.reply_to = Some(reply_to.clone());
    }
    if let Some(details) = &added.details {
        properties.details.get_or_insert_default().deaths = details.deaths.clone();
    }
    properties
}
