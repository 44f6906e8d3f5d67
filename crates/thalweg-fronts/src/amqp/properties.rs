//! The properties of messages: what publishers said in our words, and ours in AMQP's.

use super::address;
use crate::address::{Place, place};
use crate::native;
use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt::Write;
use thalweg_amqp::{
    Array, ArrayWriter, BasicProperties, ContentHeader, FieldValue, Table, TableWriter,
};
use thalweg_kernel::Content;
use thalweg_model::{
    Death, DeathReason, Details, Properties, PropertyValue, Reliability, Span, Time,
};

/// Correlations that are no text, or too long for a short string.
const CORRELATION_HEADER: &str = "x-correlation-id";
/// Where other protocols would send the reply.
const REPLY_TOPIC_HEADER: &str = "x-reply-to-topic";
/// The whole address, where the routing key is only its beginning.
const ADDRESS_HEADER: &str = "x-address";
/// How often a quorum queue has delivered the message before.
const DELIVERIES_HEADER: &str = "x-delivery-count";
const DEATH_HEADER: &str = "x-death";
const FIRST_DEATH_HEADERS: [&str; 3] = [
    "x-first-death-exchange",
    "x-first-death-queue",
    "x-first-death-reason",
];
const LAST_DEATH_HEADERS: [&str; 3] = [
    "x-last-death-exchange",
    "x-last-death-queue",
    "x-last-death-reason",
];

/// The content header that says nothing but delivery mode 2, with a body size that is written anew.
const PERSISTENT: [u8; 15] = [0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, 2];

/// What a content header says, in our words. What has no words here is left out: tables, arrays, nothing.
pub(crate) fn decode(header: &[u8]) -> Properties {
    // It was checked when it came; what is broken all the same says nothing.
    let basic = BasicProperties::of_header(header).unwrap_or_default();
    let text = |text: Option<&str>| text.map(Box::from);
    let mut correlation: Option<Box<[u8]>> = basic.correlation_id.map(Into::into);
    let mut user = Vec::new();
    for (name, value) in basic.headers.iter().flat_map(Table::iter) {
        match (name, value) {
            (CORRELATION_HEADER, FieldValue::LongStr(bytes) | FieldValue::Bytes(bytes))
                if correlation.is_none() =>
            {
                correlation = Some(bytes.into());
            }
            (name, value) => user.extend(neutral_value(value).map(|value| (name.into(), value))),
        }
    }
    let details = Details {
        message_id: text(basic.message_id),
        content_encoding: text(basic.content_encoding),
        kind: text(basic.kind),
        app_id: text(basic.app_id),
        user_id: text(basic.user_id),
        timestamp_secs: basic.timestamp,
        ..Details::default()
    };
    Properties {
        content_type: text(basic.content_type),
        reply_to: basic
            .reply_to
            .map(|key| address::reply_address("", key).into()),
        correlation,
        user,
        details: (!details.is_empty()).then(|| Box::new(details)),
        ..Properties::default()
    }
}

/// A header's value in other protocols' properties (docs/interop.md).
pub(super) fn neutral_value(value: FieldValue<'_>) -> Option<PropertyValue> {
    Some(match value {
        FieldValue::Bool(value) => PropertyValue::Bool(value),
        FieldValue::LongStr(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => PropertyValue::Text(text.into()),
            Err(_) => PropertyValue::Bytes(bytes.into()),
        },
        FieldValue::Bytes(bytes) => PropertyValue::Bytes(bytes.into()),
        FieldValue::F32(value) => PropertyValue::Float(value.into()),
        FieldValue::F64(value) => PropertyValue::Float(value),
        FieldValue::Timestamp(secs) => {
            PropertyValue::Integer(i64::try_from(secs).ok()?.checked_mul(1000)?)
        }
        FieldValue::Decimal { scale, value } => PropertyValue::Text(decimal(scale, value).into()),
        FieldValue::U64(value) => match i64::try_from(value) {
            Ok(value) => PropertyValue::Integer(value),
            Err(_) => PropertyValue::Text(value.to_string().into()),
        },
        FieldValue::Void => PropertyValue::Nothing,
        FieldValue::Table(_) | FieldValue::Array(_) => return None,
        whole => PropertyValue::Integer(whole.as_i64()?),
    })
}

fn decimal(scale: u8, value: i32) -> String {
    let digits = value.unsigned_abs().to_string();
    let scale = usize::from(scale);
    let digits = format!("{digits:0>width$}", width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    let sign = if value < 0 { "-" } else { "" };
    if fraction.is_empty() {
        format!("{sign}{whole}")
    } else {
        format!("{sign}{whole}.{fraction}")
    }
}

/// A message's metadata, as much as deciding how to write it needs.
pub(super) struct Outgoing<'a> {
    pub(super) content: &'a Content<'a>,
    pub(super) expires_in: Option<Span>,
    /// Earlier deliveries, if they are to be sent along; else 0.
    pub(super) deliveries: u32,
    /// The whole address, if the routing key is not.
    pub(super) cut_address: Option<&'a str>,
}

impl Outgoing<'_> {
    /// Lets `write` have the content header.
    #[inline]
    pub(super) fn with_header<R>(&self, write: impl FnOnce(ContentHeader<'_>) -> R) -> R {
        if self.cut_address.is_none() && self.deliveries == 0 {
            match self.content.properties() {
                None if self.content.priority() == 0 && self.content.expires() == Time::NEVER => {
                    let is_persistent = self.content.reliability() != Reliability::AtMostOnce;
                    return write(ContentHeader::Raw(if is_persistent {
                        &PERSISTENT
                    } else {
                        &[]
                    }));
                }
                None => return write(ContentHeader::Properties(&self.bare(&mut String::new()))),
                Some(Properties {
                    native: Some(native),
                    details: None,
                    reply_to: None,
                    ..
                }) => {
                    if let Some(header) = native::amqp_header(native) {
                        return write(ContentHeader::Raw(header));
                    }
                }
                Some(_) => {}
            }
        }
        self.with_rendered(write)
    }

    /// What is said of messages that say nothing themselves.
    #[inline]
    fn bare<'b>(&self, expiration: &'b mut String) -> BasicProperties<'b> {
        BasicProperties {
            delivery_mode: (self.content.reliability() != Reliability::AtMostOnce).then_some(2),
            priority: (self.content.priority() > 0).then_some(self.content.priority()),
            expiration: self.expiration(expiration),
            ..BasicProperties::default()
        }
    }

    fn expiration<'b>(&self, text: &'b mut String) -> Option<&'b str> {
        // What its queue adds to when the message itself expires is the queue's business.
        let expires = self.content.expires() != Time::NEVER;
        let span = self.expires_in.filter(|_| expires)?;
        // Rounded up: what is delivered has some life left.
        let _ = write!(text, "{}", span.nanos().div_ceil(1_000_000));
        Some(text)
    }

    #[cold]
    fn with_rendered<R>(&self, write: impl FnOnce(ContentHeader<'_>) -> R) -> R {
        let nothing = Properties::default();
        let properties = self.content.properties().unwrap_or(&nothing);
        let deaths = properties
            .details
            .as_deref()
            .map_or(&[][..], |details| &details.deaths);
        let mut headers = Vec::new();
        let mut writer = TableWriter::new(&mut headers);
        if let Some(header) = properties.native.as_ref().and_then(native::amqp_header) {
            let mut basic = BasicProperties::of_header(header).unwrap_or_default();
            if let Some(table) = basic.headers {
                let is_ours = |name: &str| match name {
                    DELIVERIES_HEADER => self.deliveries > 0,
                    name => !deaths.is_empty() && is_about_death(name),
                };
                writer.copy(table, |name| !is_ours(name));
            }
            let copies = match basic.headers.and_then(|table| table.get("CC")) {
                Some(FieldValue::Array(keys)) => keys,
                _ => Array::default(),
            };
            self.write_ours(deaths, copies, &mut writer);
            let table = writer.finish();
            basic.headers = basic
                .headers
                .map(|_| table)
                .or_else(|| (!table.is_empty()).then_some(table));
            if !deaths.is_empty() {
                // It has died of it, or must not die of it again.
                basic.expiration = None;
            }
            return write(ContentHeader::Properties(&basic));
        }
        let details = properties.details.as_deref();
        let text = |of: fn(&Details) -> &Option<Box<str>>| {
            details.and_then(|details| of(details).as_deref())
        };
        let mut expiration = String::new();
        let correlation = properties.correlation.as_deref();
        let short =
            correlation.filter(|bytes| bytes.len() <= 255 && std::str::from_utf8(bytes).is_ok());
        let reply_to: Option<Cow<'_, str>> = properties.reply_to.as_deref().map(address::reply_key);
        if let (Some(bytes), None) = (correlation, short) {
            writer.value(CORRELATION_HEADER, FieldValue::Bytes(bytes));
        }
        if let Some(Place::Plain { address, .. }) = properties.reply_to.as_deref().map(place) {
            writer.str(REPLY_TOPIC_HEADER, address);
        }
        write_user(properties, &mut writer);
        self.write_ours(deaths, Array::default(), &mut writer);
        let table = writer.finish();
        let basic = BasicProperties {
            content_type: properties
                .content_type
                .as_deref()
                .filter(|text| text.len() <= 255),
            content_encoding: text(|details| &details.content_encoding),
            headers: (!table.is_empty()).then_some(table),
            correlation_id: short,
            reply_to: reply_to.as_deref().filter(|text| text.len() <= 255),
            message_id: text(|details| &details.message_id),
            timestamp: details.and_then(|details| details.timestamp_secs),
            kind: text(|details| &details.kind),
            user_id: text(|details| &details.user_id),
            app_id: text(|details| &details.app_id),
            ..self.bare(&mut expiration)
        };
        write(ContentHeader::Properties(&basic))
    }

    /// What the broker itself says. `copies` are the further keys of the publish.
    fn write_ours(&self, deaths: &[Death], copies: Array<'_>, writer: &mut TableWriter<'_>) {
        if let Some(address) = self.cut_address {
            writer.str(ADDRESS_HEADER, address);
        }
        if self.deliveries > 0 {
            writer.i64(DELIVERIES_HEADER, self.deliveries.into());
        }
        let (Some(last), Some(first)) = (deaths.first(), deaths.last()) else {
            return;
        };
        writer.array(DEATH_HEADER, |array| {
            for (number, death) in deaths.iter().enumerate() {
                // Only when it first died it had the keys that it was published with.
                let copies = if number + 1 == deaths.len() {
                    copies
                } else {
                    Array::default()
                };
                write_death(death, copies, array);
            }
        });
        for (names, death) in [(FIRST_DEATH_HEADERS, first), (LAST_DEATH_HEADERS, last)] {
            let mut origin = address::Origin::default();
            origin.set(&death.address);
            let [exchange, queue, reason] = names;
            writer
                .str(exchange, &origin.exchange)
                .str(queue, &queue_name(death))
                .str(reason, reason_of(death.reason));
        }
    }
}

/// The user's properties; of those with one name the first (docs/interop.md).
fn write_user(properties: &Properties, writer: &mut TableWriter<'_>) {
    let mut seen: HashSet<&str> = HashSet::new();
    for (name, value) in &properties.user {
        if !seen.insert(name) {
            continue;
        }
        let value = match value {
            PropertyValue::Text(text) => FieldValue::LongStr(text.as_bytes()),
            PropertyValue::Bool(value) => FieldValue::Bool(*value),
            PropertyValue::Integer(value) => FieldValue::I64(*value),
            PropertyValue::Float(value) => FieldValue::F64(*value),
            PropertyValue::Bytes(bytes) => FieldValue::Bytes(bytes),
            PropertyValue::Nothing => FieldValue::Void,
        };
        writer.value(name, value);
    }
}

fn is_about_death(name: &str) -> bool {
    name == DEATH_HEADER
        || FIRST_DEATH_HEADERS.contains(&name)
        || LAST_DEATH_HEADERS.contains(&name)
}

fn write_death(death: &Death, copies: Array<'_>, array: &mut ArrayWriter<'_>) {
    let mut origin = address::Origin::default();
    origin.set(&death.address);
    array.table(|table| {
        table
            .i64("count", i64::try_from(death.count).unwrap_or(i64::MAX))
            .str("exchange", &origin.exchange)
            .str("queue", &queue_name(death))
            .str("reason", reason_of(death.reason))
            .array("routing-keys", |keys| {
                keys.str(&origin.key);
                for key in copies.iter() {
                    keys.value(key);
                }
            })
            .value("time", FieldValue::Timestamp(death.first_secs));
        if let Some(ms) = death.lifetime_ms {
            table.str("original-expiration", &ms.to_string());
        }
    });
}

fn queue_name(death: &Death) -> Cow<'_, str> {
    match place(&death.queue) {
        Place::Queue { name, .. } => name,
        _ => Cow::Borrowed(&*death.queue),
    }
}

fn reason_of(reason: DeathReason) -> &'static str {
    match reason {
        DeathReason::Rejected => "rejected",
        DeathReason::Expired => "expired",
        DeathReason::Overflow => "maxlen",
        DeathReason::DeliveryLimit => "delivery_limit",
    }
}
