//! Encoding of records to bytes.

use super::codec::{
    fill_number, put_bytes, put_deadline, put_moment, put_number, put_span, put_text, retain_bits,
    width,
};
use super::record::{
    BodyRecord, KeptAs, Message, Record, Reference, SessionRecord, SubscriptionRecord, WillRecord,
};
use thalweg_model::{Death, Details, Properties, PropertyValue};

/// The first byte. A message's kind is more than one bit from every other, so that a flipped bit is
/// always found.
pub(super) mod kind {
    pub const SESSION: u8 = 1;
    pub const SESSION_ENDED: u8 = 2;
    pub const SUBSCRIBED: u8 = 3;
    pub const UNSUBSCRIBED: u8 = 4;
    pub const GROUP: u8 = 5;
    pub const GROUP_ENDED: u8 = 6;
    pub const HELD: u8 = 7;
    pub const RELEASED: u8 = 8;
    pub const SENT: u8 = 9;
    pub const RECEIVED: u8 = 10;
    pub const SETTLED: u8 = 11;
    pub const REMOVED: u8 = 12;
    pub const MOVED: u8 = 13;
    pub const CLEARED: u8 = 14;
    pub const ENTRY: u8 = 15;
    pub const LAST_VALUE: u8 = 16;
    pub const NUMBERS: u8 = 17;
    pub const STAMPED: u8 = 18;
    pub const PUBLISHER: u8 = 19;
    pub const PUBLISHER_FORGOTTEN: u8 = 20;
    pub const DELIVERED: u8 = 21;
    pub const RETURNED: u8 = 22;
    pub const FORGOTTEN: u8 = 23;
    pub const KEPT: u8 = 24;
    pub const MESSAGE: u8 = 0xE0;
}

/// Beside reliability (bits 0 and 1) and retain operation (bits 2 and 3) of a body. Both bits of the latter are set in a message
/// that is retained by an address that keeps several.
pub(super) mod body_flag {
    pub const PROPERTIES: u8 = 1 << 4;
    pub const EXPIRES: u8 = 1 << 5;
    pub const LAST_VALUE: u8 = 1 << 6;
    pub const HELD: u8 = 1 << 7;
    pub const KEPT: u8 = 0b11 << 2;
}

/// Beside reliability (bits 0 and 1) of a reference.
pub(super) mod reference_flag {
    pub const RETAIN: u8 = 1 << 2;
    pub const REDELIVERED: u8 = 1 << 3;
    pub const TAG: u8 = 1 << 4;
    pub const GROUP: u8 = 1 << 5;
    pub const IDS: u8 = 1 << 6;
    pub const RECEIVED: u8 = 1 << 7;
}

/// Of an entry that moved; the grant's reliability is bits 2 and 3.
pub(super) mod moved_flag {
    pub const REDELIVERED: u8 = 1 << 0;
    pub const GRANT: u8 = 1 << 1;
}

/// Beside reliability (bits 0 and 1) of a subscription.
pub(super) mod subscription_flag {
    pub const NO_LOCAL: u8 = 1 << 2;
    pub const RETAIN_AS_PUBLISHED: u8 = 1 << 3;
    pub const GROUP: u8 = 1 << 4;
    pub const ID: u8 = 1 << 5;
    pub const CONDITION: u8 = 1 << 6;
}

pub(super) mod session_flag {
    pub const USER: u8 = 1;
    pub const WILL: u8 = 1 << 1;
    pub const WILL_EXPIRES: u8 = 1 << 2;
}

pub(super) mod property_flag {
    pub const CONTENT_TYPE: u8 = 1;
    pub const TEXT_KNOWN: u8 = 1 << 1;
    pub const IS_TEXT: u8 = 1 << 2;
    pub const REPLY_TO: u8 = 1 << 3;
    pub const CORRELATION: u8 = 1 << 4;
    pub const DETAILS: u8 = 1 << 5;
    pub const NATIVE: u8 = 1 << 6;
    pub const PRIORITY: u8 = 1 << 7;
}

pub(super) mod detail_flag {
    pub const MESSAGE_ID: u8 = 1;
    pub const CONTENT_ENCODING: u8 = 1 << 1;
    pub const KIND: u8 = 1 << 2;
    pub const APP_ID: u8 = 1 << 3;
    pub const USER_ID: u8 = 1 << 4;
    pub const TIMESTAMP: u8 = 1 << 5;
    pub const ORIGINS: u8 = 1 << 6;
    pub const KEEPS: u8 = 1 << 7;
}

/// Beside the number of messages that an address keeps: the source follows.
pub(super) const HAS_SOURCE: u64 = 1 << 16;

pub(super) mod value_kind {
    pub const TEXT: u8 = 0;
    pub const FALSE: u8 = 1;
    pub const TRUE: u8 = 2;
    pub const INTEGER: u8 = 3;
    pub const FLOAT: u8 = 4;
    pub const BYTES: u8 = 5;
    pub const NOTHING: u8 = 6;
}

impl Message<'_> {
    /// Writes it as [`Record::encode`] does, without a record around it.
    #[inline]
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_message(out, self);
    }
}

impl Record<'_> {
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Record::Message(message) => put_message(out, message),
            Record::Sent { queue, serial, tag } => {
                put_numbers(out, kind::SENT, [*queue, *serial, u64::from(*tag)]);
            }
            Record::Settled { queue, tag } => {
                put_numbers(out, kind::SETTLED, [*queue, u64::from(*tag)])
            }
            Record::Removed { queue, serial } => put_numbers(out, kind::REMOVED, [*queue, *serial]),
            Record::Delivered { queue, serial } => {
                put_numbers(out, kind::DELIVERED, [*queue, *serial])
            }
            Record::Returned {
                queue,
                serial,
                deliveries,
            } => put_numbers(
                out,
                kind::RETURNED,
                [*queue, *serial, u64::from(*deliveries)],
            ),
            Record::Received { queue, tag } => {
                put_numbers(out, kind::RECEIVED, [*queue, u64::from(*tag)])
            }
            Record::Held { queue, ticket } => {
                put_numbers(out, kind::HELD, [*queue, u64::from(*ticket)])
            }
            Record::Released { queue, ticket } => {
                put_numbers(out, kind::RELEASED, [*queue, u64::from(*ticket)])
            }
            Record::Moved {
                from,
                serial,
                to,
                tag,
                redelivered,
                grant,
            } => {
                let flags = u8::from(*redelivered) * moved_flag::REDELIVERED;
                let (from, serial, to, tag) = (*from, *serial, *to, u64::from(*tag));
                match *grant {
                    None => {
                        put_numbers(out, kind::MOVED, [from, serial, to, tag, u64::from(flags)])
                    }
                    Some((reliability, id)) => {
                        let flags = u64::from(flags | moved_flag::GRANT | (reliability as u8) << 2);
                        put_numbers(
                            out,
                            kind::MOVED,
                            [from, serial, to, tag, flags, u64::from(id)],
                        );
                    }
                }
            }
            Record::SessionEnded { queue } => put_numbers(out, kind::SESSION_ENDED, [*queue]),
            Record::GroupEnded { queue } => put_numbers(out, kind::GROUP_ENDED, [*queue]),
            Record::Numbers { queue, serial } => put_numbers(out, kind::NUMBERS, [*queue, *serial]),
            Record::Session(session) => framed(out, kind::SESSION, |out| put_session(out, session)),
            Record::Subscribed(subscription) => {
                framed(out, kind::SUBSCRIBED, |out| {
                    put_subscription(out, subscription)
                });
            }
            Record::Unsubscribed {
                queue,
                filter,
                group,
            } => framed(out, kind::UNSUBSCRIBED, |out| {
                put_number(out, *queue);
                put_text(out, filter);
                out.push(u8::from(group.is_some()));
                if let Some(group) = group {
                    put_text(out, group);
                }
            }),
            Record::Group {
                queue,
                name,
                filter,
            } => framed(out, kind::GROUP, |out| {
                put_number(out, *queue);
                put_text(out, name);
                put_text(out, filter);
            }),
            Record::Cleared { address } => framed(out, kind::CLEARED, |out| put_text(out, address)),
            Record::Entry {
                reference,
                place,
                len,
                expires,
                received,
            } => framed(out, kind::ENTRY, |out| {
                put_reference(out, reference, *received);
                put_number(out, *place);
                put_number(out, u64::from(*len));
                put_deadline(out, *expires);
            }),
            Record::Stamped {
                user,
                publisher,
                sequence,
            } => framed(out, kind::STAMPED, |out| {
                put_number(out, *publisher);
                put_number(out, *sequence);
                put_text(out, user);
            }),
            Record::PublisherForgotten { user, publisher } => {
                framed(out, kind::PUBLISHER_FORGOTTEN, |out| {
                    put_number(out, *publisher);
                    put_text(out, user);
                })
            }
            Record::Publisher {
                user,
                publisher,
                highest,
                runs,
            } => framed(out, kind::PUBLISHER, |out| {
                put_number(out, *publisher);
                put_text(out, user);
                put_number(out, *highest);
                put_number(out, runs.len() as u64);
                runs.iter().for_each(|run| put_number(out, *run));
            }),
            Record::Forgotten {
                address,
                first,
                last,
                and_last,
            } => framed(out, kind::FORGOTTEN, |out| {
                put_number(out, *first);
                put_number(out, *last);
                out.push(u8::from(*and_last));
                put_text(out, address);
            }),
            Record::Kept {
                address,
                number,
                place,
                len,
            } => framed(out, kind::KEPT, |out| {
                put_number(out, *number);
                put_number(out, *place);
                put_number(out, u64::from(*len));
                put_text(out, address);
            }),
            Record::LastValue {
                address,
                place,
                len,
            } => framed(out, kind::LAST_VALUE, |out| {
                put_number(out, *place);
                put_number(out, u64::from(*len));
                put_text(out, address);
            }),
        }
    }
}

/// Appends a record of nothing but numbers: never longer than one length byte can say.
fn put_numbers<const N: usize>(out: &mut Vec<u8>, kind: u8, numbers: [u64; N]) {
    const { assert!(N * width(u64::MAX) < 0x80) };
    let start = out.len();
    out.extend_from_slice(&[kind, 0]);
    for number in numbers {
        put_number(out, number);
    }
    out[start + 1] = (out.len() - start - 2) as u8;
}

/// Appends a record whose length is not known beforehand and usually small.
fn framed(out: &mut Vec<u8>, kind: u8, fields: impl FnOnce(&mut Vec<u8>)) {
    out.extend_from_slice(&[kind, 0]);
    let start = out.len();
    fields(out);
    let end = out.len();
    let more = width((end - start) as u64) - 1;
    if more > 0 {
        out.resize(end + more, 0);
        out.copy_within(start..end, start + more);
    }
    fill_number(&mut out[start - 1..start + more], (end - start) as u64);
}

/// One pass: the length takes as many bytes as the longest that the message could become, and is filled in at the end
/// together with the checksum.
fn put_message(out: &mut Vec<u8>, message: &Message<'_>) {
    let Message {
        body,
        expires,
        ingress,
        publisher,
        is_last_value,
        kept,
        held,
        references,
    } = message;
    let properties = body.properties.as_deref();
    let len_max = 80
        + if kept.is_some() { 20 } else { 0 }
        + body.address.len()
        + body.payload.len()
        + references
            .iter()
            .map(|reference| 50 + 5 * reference.subscription_ids.len())
            .sum::<usize>()
        + properties.map_or(0, properties_len_max);
    let len_width = width(len_max as u64);
    out.reserve(1 + len_width + len_max);

    out.push(kind::MESSAGE);
    let len_at = out.len();
    let crc_at = len_at + len_width;
    out.resize(crc_at + 4, 0);
    let mut flags = body_bits(body);
    if *expires != thalweg_model::Time::NEVER {
        flags |= body_flag::EXPIRES;
    }
    if *is_last_value {
        flags |= body_flag::LAST_VALUE;
    }
    if held.is_some() {
        flags |= body_flag::HELD;
    }
    if kept.is_some() {
        flags |= body_flag::KEPT;
    }
    out.push(flags);
    put_moment(out, *ingress);
    if flags & body_flag::EXPIRES != 0 {
        put_deadline(out, *expires);
    }
    put_number(out, *publisher);
    if let Some((queue, ticket)) = held {
        put_number(out, *queue);
        put_number(out, u64::from(*ticket));
    }
    if let Some(KeptAs { number, oldest }) = kept {
        put_number(out, *number);
        put_number(out, *oldest);
    }
    put_text(out, body.address);
    put_number(out, references.len() as u64);
    for reference in references.iter() {
        put_reference(out, reference, false);
    }
    if properties.is_some() || body.priority > 0 {
        put_properties(
            out,
            properties.unwrap_or(&Properties::default()),
            body.priority,
        );
    }
    // The payload is what is left.
    out.extend_from_slice(body.payload);

    let crc = crc32c::crc32c(&out[crc_at + 4..]);
    out[crc_at..crc_at + 4].copy_from_slice(&crc.to_le_bytes());
    let len = out.len() - crc_at;
    debug_assert!(len <= len_max);
    fill_number(&mut out[len_at..crc_at], len as u64);
}

fn body_bits(body: &BodyRecord<'_>) -> u8 {
    let properties = if body.properties.is_some() || body.priority > 0 {
        body_flag::PROPERTIES
    } else {
        0
    };
    body.reliability as u8 | retain_bits(body.retain) << 2 | properties
}

fn put_reference(out: &mut Vec<u8>, reference: &Reference<'_>, received: bool) {
    let Reference {
        queue,
        serial,
        tag,
        reliability,
        retain,
        redelivered,
        group,
        subscription_ids,
    } = reference;
    let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
    let flags = *reliability as u8
        | flag(*retain, reference_flag::RETAIN)
        | flag(*redelivered, reference_flag::REDELIVERED)
        | flag(*tag != 0, reference_flag::TAG)
        | flag(*group != 0, reference_flag::GROUP)
        | flag(!subscription_ids.is_empty(), reference_flag::IDS)
        | flag(received, reference_flag::RECEIVED);
    out.push(flags);
    put_number(out, *queue);
    put_number(out, *serial);
    if *tag != 0 {
        put_number(out, u64::from(*tag));
    }
    if *group != 0 {
        put_number(out, *group);
    }
    if !subscription_ids.is_empty() {
        put_number(out, subscription_ids.len() as u64);
        for id in subscription_ids.iter() {
            put_number(out, u64::from(*id));
        }
    }
}

fn put_session(out: &mut Vec<u8>, session: &SessionRecord<'_>) {
    let SessionRecord {
        queue,
        client,
        user,
        expiry,
        expires_at,
        in_flight_max,
        access,
        will,
    } = session;
    put_number(out, *queue);
    let mut flags = 0;
    if user.is_some() {
        flags |= session_flag::USER;
    }
    if let Some(will) = will {
        flags |= session_flag::WILL;
        if will.expires_in.is_some() {
            flags |= session_flag::WILL_EXPIRES;
        }
    }
    out.push(flags);
    put_text(out, client);
    if let Some(user) = user {
        put_text(out, user);
    }
    put_span(out, *expiry);
    put_deadline(out, *expires_at);
    put_number(out, u64::from(*in_flight_max));
    put_bytes(out, access);
    if let Some(WillRecord {
        body,
        delay,
        due,
        expires_in,
    }) = will
    {
        out.push(body_bits(body));
        put_text(out, body.address);
        put_bytes(out, body.payload);
        if body.properties.is_some() || body.priority > 0 {
            put_properties(
                out,
                body.properties.as_deref().unwrap_or(&Properties::default()),
                body.priority,
            );
        }
        put_span(out, *delay);
        put_deadline(out, *due);
        if let Some(expires_in) = expires_in {
            put_span(out, *expires_in);
        }
    }
}

fn put_subscription(out: &mut Vec<u8>, subscription: &SubscriptionRecord<'_>) {
    let SubscriptionRecord {
        queue,
        filter,
        group,
        reliability,
        no_local,
        retain_as_published,
        id,
        condition,
    } = subscription;
    let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
    put_number(out, *queue);
    out.push(
        *reliability as u8
            | flag(*no_local, subscription_flag::NO_LOCAL)
            | flag(*retain_as_published, subscription_flag::RETAIN_AS_PUBLISHED)
            | flag(group.is_some(), subscription_flag::GROUP)
            | flag(*id != 0, subscription_flag::ID)
            | flag(condition.is_some(), subscription_flag::CONDITION),
    );
    put_text(out, filter);
    if let Some(group) = group {
        put_text(out, group);
    }
    if *id != 0 {
        put_number(out, u64::from(*id));
    }
    if let Some(condition) = condition {
        put_text(out, condition);
    }
}

/// No encoding of these properties is longer.
fn properties_len_max(properties: &Properties) -> usize {
    let text = |text: &Option<Box<str>>| text.as_ref().map_or(0, |text| 10 + text.len());
    let value = |value: &PropertyValue| match value {
        PropertyValue::Text(text) => text.len(),
        PropertyValue::Bytes(bytes) => bytes.len(),
        _ => 0,
    };
    16 + text(&properties.content_type)
        + text(&properties.reply_to)
        + properties.correlation.as_ref().map_or(0, |bytes| 10 + bytes.len())
        + properties.user.iter().map(|(name, of)| 24 + name.len() + value(of)).sum::<usize>()
        // Eleven bytes at the most before each of its texts; its memory is counted with 40 a field.
        + properties.details.as_ref().map_or(0, |details| 80 + details.bytes() * 2)
        + properties.native.as_ref().map_or(0, |native| 12 + native.bytes.len())
}

fn put_properties(out: &mut Vec<u8>, properties: &Properties, priority: u8) {
    let Properties {
        content_type,
        payload_is_text,
        reply_to,
        correlation,
        user,
        details,
        native,
    } = properties;
    let mut flags = 0;
    if content_type.is_some() {
        flags |= property_flag::CONTENT_TYPE;
    }
    if let Some(is_text) = payload_is_text {
        flags |= property_flag::TEXT_KNOWN | if *is_text { property_flag::IS_TEXT } else { 0 };
    }
    if reply_to.is_some() {
        flags |= property_flag::REPLY_TO;
    }
    if correlation.is_some() {
        flags |= property_flag::CORRELATION;
    }
    if details.is_some() {
        flags |= property_flag::DETAILS;
    }
    if native.is_some() {
        flags |= property_flag::NATIVE;
    }
    if priority > 0 {
        flags |= property_flag::PRIORITY;
    }
    out.push(flags);
    if priority > 0 {
        out.push(priority);
    }
    for text in [content_type, reply_to].into_iter().flatten() {
        put_text(out, text);
    }
    if let Some(correlation) = correlation {
        put_bytes(out, correlation);
    }
    put_number(out, user.len() as u64);
    for (name, value) in user {
        put_text(out, name);
        match value {
            PropertyValue::Text(text) => {
                out.push(value_kind::TEXT);
                put_text(out, text);
            }
            PropertyValue::Bool(value) => out.push(if *value {
                value_kind::TRUE
            } else {
                value_kind::FALSE
            }),
            PropertyValue::Integer(value) => {
                out.push(value_kind::INTEGER);
                // Small numbers of either sign become small: 0, -1, 1, -2, …
                put_number(out, (value << 1 ^ value >> 63) as u64);
            }
            PropertyValue::Float(value) => {
                out.push(value_kind::FLOAT);
                out.extend_from_slice(&value.to_bits().to_le_bytes());
            }
            PropertyValue::Bytes(bytes) => {
                out.push(value_kind::BYTES);
                put_bytes(out, bytes);
            }
            PropertyValue::Nothing => out.push(value_kind::NOTHING),
        }
    }
    if let Some(details) = details {
        put_details(out, details);
    }
    if let Some(native) = native {
        out.push(native.dialect);
        put_bytes(out, &native.bytes);
    }
}

fn put_details(out: &mut Vec<u8>, details: &Details) {
    let Details {
        message_id,
        content_encoding,
        kind,
        app_id,
        user_id,
        timestamp_secs,
        deaths,
        origins,
        keeps,
        source,
    } = details;
    let texts = [
        (message_id, detail_flag::MESSAGE_ID),
        (content_encoding, detail_flag::CONTENT_ENCODING),
        (kind, detail_flag::KIND),
        (app_id, detail_flag::APP_ID),
        (user_id, detail_flag::USER_ID),
    ];
    let said = texts
        .iter()
        .filter(|(text, _)| text.is_some())
        .fold(0, |flags, (_, flag)| flags | flag);
    let others = [
        (timestamp_secs.is_some(), detail_flag::TIMESTAMP),
        (!origins.is_empty(), detail_flag::ORIGINS),
        (*keeps > 0 || source.is_some(), detail_flag::KEEPS),
    ];
    let others = others.iter().filter(|(is_there, _)| *is_there);
    out.push(others.fold(said, |flags, (_, flag)| flags | flag));
    for text in texts.iter().filter_map(|(text, _)| text.as_ref()) {
        put_text(out, text);
    }
    if let Some(secs) = timestamp_secs {
        put_number(out, *secs);
    }
    put_number(out, deaths.len() as u64);
    for Death {
        queue,
        reason,
        count,
        address,
        first_secs,
        lifetime_ms,
    } in deaths
    {
        put_text(out, queue);
        out.push(*reason as u8);
        put_number(out, *count);
        put_text(out, address);
        put_number(out, *first_secs);
        // One more than the lifetime; 0 for none.
        put_number(out, lifetime_ms.map_or(0, |ms| ms.saturating_add(1)));
    }
    if !origins.is_empty() {
        put_number(out, origins.len() as u64);
        origins.iter().for_each(|origin| put_text(out, origin));
    }
    if *keeps > 0 || source.is_some() {
        let has_source = u64::from(source.is_some()) * HAS_SOURCE;
        put_number(out, u64::from(*keeps) | has_source);
    }
    if let Some(source) = source {
        put_text(out, source);
    }
}
