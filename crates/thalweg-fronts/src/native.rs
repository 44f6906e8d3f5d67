//! Metadata as its publisher encoded it. A front of the same protocol writes it unchanged; all others translate it here
//! into neutral metadata.
//!
//! *Must never know:* a link, the kernel.

use crate::amqp;
/// A queue's terms are a table of arguments as AMQP writes it; another protocol that takes terms writes one and has it read.
pub(crate) use crate::amqp::queue_limits as queue_terms;
use std::borrow::Cow;
pub(crate) use thalweg_amqp::{FieldValue as Term, TableWriter as TermWriter};
use thalweg_model::{NativeProperties, Properties};

/// The number of AMQP's encoding: the payload of a content header frame, whose body size says nothing.
pub(crate) const AMQP: u8 = 91;

/// The number of ZMTP's: where a message was cut into frames. What it says is of no use to other protocols.
pub(crate) const ZMTP: u8 = 37;

/// The number of ZMTP's for a message of a PUSH as it came: no frame of it is an address.
pub(crate) const ZMTP_PUSHED: u8 = 38;

/// The number of the frames of the bridge into DDS.
pub const DDS: u8 = 39;

/// The content header, if this is AMQP's encoding.
#[inline]
pub(crate) fn amqp_header(native: &NativeProperties) -> Option<&[u8]> {
    match native.dialect {
        AMQP => Some(&native.bytes),
        _ => None,
    }
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
        let said = properties.details.get_or_insert_default();
        (said.deaths, said.origins) = (details.deaths.clone(), details.origins.clone());
    }
    properties
}
