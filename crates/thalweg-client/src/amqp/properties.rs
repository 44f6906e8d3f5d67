//! Properties of a message in its content header. [§4.2.6.1]

use std::io::Write as _;

use thalweg_amqp::{BasicProperties, ContentHeader, FieldValue, TableWriter};
use thalweg_model::{Address, Reliability, STAMP_PROPERTY, Span, Stamp};

use super::names::reply_key;
use crate::message::Retain;
use crate::queues::{MILLIS_MAX, PRIORITY_USUAL};
use crate::transport::{Outbound, Properties, Refusal};

/// Correlations that are no text, or too long for a short string. A convention of our broker.
const CORRELATION_HEADER: &str = "x-correlation-id";
/// Header for the effect of a publish on the last value of its address. Thalweg's convention.
const RETAIN_HEADER: &str = "x-retain";
/// The whole address, where the routing key is only its beginning. A convention of our broker.
const ADDRESS_HEADER: &str = "x-address";
/// Header with the number of earlier deliveries. RabbitMQ's.
const DELIVERIES_HEADER: &str = "x-delivery-count";

/// Names that mean something to a broker, so that no property of a user can have one.
const RESERVED: [&str; 8] = [
    "BCC",
    "CC",
    ADDRESS_HEADER,
    CORRELATION_HEADER,
    DELIVERIES_HEADER,
    "x-reply-to-topic",
    RETAIN_HEADER,
    STAMP_PROPERTY,
];

/// Bytes of a short string. [§4.2.5.3]
const SHORT_BYTES_MAX: usize = 255;
/// Delivery mode 2 and nothing else, as a content header whose body size is written anew.
const PERSISTENT: [u8; 15] = [0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, 2];

/// Where an answer is wanted, instead of where the message says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question<'q> {
    pub(super) reply_to: &'q str,
    pub(super) correlation: &'q [u8],
}

/// Writes content headers; keeps its memory.
#[derive(Debug, Default)]
pub(super) struct Writer {
    table: Vec<u8>,
}

impl Writer {
    /// Lets `write` have the content header of a message.
    #[inline]
    pub(super) fn with_header<R>(
        &mut self,
        message: &Outbound<'_>,
        question: Option<Question<'_>>,
        write: impl FnOnce(ContentHeader<'_>) -> R,
    ) -> Result<R, Refusal> {
        let says_little = message.stamp.is_none()
            && message.properties.is_empty()
            && message.lifespan == Span::FOREVER
            && message.priority <= PRIORITY_USUAL
            && message.retain == Retain::No
            && message.content_type.is_none()
            && message.reply_to.is_none()
            && message.correlation.is_none()
            && question.is_none();
        if says_little {
            let is_persistent = message.reliability != Reliability::AtMostOnce;
            return Ok(write(ContentHeader::Raw(if is_persistent {
                &PERSISTENT
            } else {
                &[]
            })));
        }
        self.with_properties(message, question, write)
    }

    fn with_properties<R>(
        &mut self,
        message: &Outbound<'_>,
        question: Option<Question<'_>>,
        write: impl FnOnce(ContentHeader<'_>) -> R,
    ) -> Result<R, Refusal> {
        let is_short = |text: &str| text.len() <= SHORT_BYTES_MAX;
        if !message.content_type.is_none_or(is_short) {
            return Err(Refusal::Unsupported(
                "AMQP has content types of at most 255 bytes",
            ));
        }
        let reply_to = match (question, message.reply_to) {
            (Some(question), _) => Some(question.reply_to.into()),
            (None, Some(address)) => Some(reply_key(address)?),
            (None, None) => None,
        };
        let correlation = question
            .map(|question| question.correlation)
            .or(message.correlation);
        let is_sayable =
            |bytes: &&[u8]| bytes.len() <= SHORT_BYTES_MAX && std::str::from_utf8(bytes).is_ok();
        let correlation_id = correlation.filter(is_sayable);

        self.table.clear();
        let mut headers = TableWriter::new(&mut self.table);
        if let Some(stamp) = message.stamp {
            headers.str(
                STAMP_PROPERTY,
                stamp.write_text(&mut [0; Stamp::TEXT_BYTES_MAX]),
            );
        }
        if let (Some(bytes), None) = (correlation, correlation_id) {
            headers.value(CORRELATION_HEADER, FieldValue::Bytes(bytes));
        }
        match message.retain {
            Retain::No => {}
            Retain::Set => _ = headers.str(RETAIN_HEADER, "set"),
            Retain::Clear => _ = headers.str(RETAIN_HEADER, "clear"),
        }
        for (name, value) in message.properties.iter() {
            if RESERVED.contains(&name) {
                return Err(Refusal::Unsupported(
                    "a property has a name that means something to AMQP brokers",
                ));
            }
            if !is_short(name) {
                return Err(Refusal::Unsupported(
                    "AMQP has property names of at most 255 bytes",
                ));
            }
            headers.str(name, value);
        }
        let headers = headers.finish();

        let mut buffer = [0; 20];
        // Rounded up: a message with some lifespan left is worth delivering. A lifespan above the field's range means
        // no expiry.
        let millis = message.lifespan.nanos().div_ceil(1_000_000);
        let expiration =
            (millis <= MILLIS_MAX).then(|| written(format_args!("{millis}"), &mut buffer));
        let properties = BasicProperties {
            content_type: message.content_type,
            headers: (!headers.is_empty()).then_some(headers),
            delivery_mode: (message.reliability != Reliability::AtMostOnce).then_some(2),
            priority: (message.priority > PRIORITY_USUAL).then_some(message.priority),
            correlation_id,
            reply_to: reply_to.as_deref(),
            expiration,
            ..BasicProperties::default()
        };
        Ok(write(ContentHeader::Properties(&properties)))
    }
}

/// Formats `text` into a buffer that is large enough.
fn written<'b>(text: std::fmt::Arguments<'_>, buffer: &'b mut [u8]) -> &'b str {
    let size = buffer.len();
    let mut rest = &mut *buffer;
    let left = match rest.write_fmt(text) {
        Ok(()) => rest.len(),
        Err(_) => size,
    };
    let written = buffer.get(..size - left).unwrap_or_default();
    std::str::from_utf8(written).unwrap_or_default()
}

/// Headers of a delivery besides the user's properties.
#[derive(Clone, Copy, Debug)]
pub(super) struct DeliveryFields<'b> {
    /// Remaining lifespan when the broker wrote the message, if it says so.
    pub(super) lifespan: Span,
    pub(super) stamp: Option<Stamp>,
    pub(super) correlation: Option<&'b [u8]>,
    /// The whole address, where the routing key is not.
    pub(super) address: Option<&'b str>,
    /// It was delivered before, says its queue.
    pub(super) was_delivered: bool,
}

/// Reads the headers of a delivery and appends the user's properties, encoded as [`Properties`]. Text stays what it is,
/// numbers and truths become text, moments milliseconds since 1970; bytes, tables and arrays are left out.
pub(super) fn read<'b>(basic: &BasicProperties<'b>, out: &mut Vec<u8>) -> DeliveryFields<'b> {
    let millis = basic.expiration.and_then(|text| text.parse().ok());
    let lifespan = millis.map_or(Span::FOREVER, Span::from_millis);
    let correlation = basic.correlation_id;
    let mut said = DeliveryFields {
        lifespan,
        stamp: None,
        correlation,
        address: None,
        was_delivered: false,
    };
    let Some(table) = basic.headers else {
        return said;
    };
    for (name, value) in table.iter() {
        match (name, value) {
            (STAMP_PROPERTY, value) => {
                said.stamp = value.as_str().and_then(|text| text.parse().ok())
            }
            (CORRELATION_HEADER, FieldValue::LongStr(bytes) | FieldValue::Bytes(bytes)) => {
                said.correlation = said.correlation.or(Some(bytes));
            }
            (ADDRESS_HEADER, value) => {
                said.address = value.as_str().filter(|text| Address::check(text).is_ok())
            }
            (DELIVERIES_HEADER, value) => {
                said.was_delivered = value.as_i64().is_some_and(|count| count > 0)
            }
            (name, _) if RESERVED.contains(&name) => {}
            (name, value) => push(name, value, out),
        }
    }
    said
}

fn push(name: &str, value: FieldValue<'_>, out: &mut Vec<u8>) {
    let text = match value {
        FieldValue::LongStr(bytes) => {
            if let Ok(text) = std::str::from_utf8(bytes) {
                Properties::push(name, text, out);
            }
            return;
        }
        FieldValue::Bool(value) => value.to_string(),
        FieldValue::F32(value) => value.to_string(),
        FieldValue::F64(value) => value.to_string(),
        FieldValue::U64(value) => value.to_string(),
        FieldValue::Timestamp(seconds) => seconds.saturating_mul(1000).to_string(),
        other => match other.as_i64() {
            Some(value) => value.to_string(),
            None => return,
        },
    };
    Properties::push(name, &text, out);
}
