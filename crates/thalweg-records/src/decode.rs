//! Decoding of records. Whatever the bytes, the result is a record or a fault.

use super::codec::Input;
use super::encode::{
    HAS_SOURCE, body_flag, detail_flag, kind, moved_flag, property_flag, reference_flag,
    session_flag, subscription_flag, value_kind,
};
use super::record::{
    BodyRecord, KeptAs, Message, Record, RecordFault, Reference, SessionRecord, SubscriptionRecord,
    WillRecord,
};
use std::borrow::Cow;
use thalweg_model::{
    Death, DeathReason, Details, NativeProperties, Properties, PropertyValue, Reliability,
    RetainOp, Time,
};

impl<'a> Record<'a> {
    /// Reads the record that `bytes` begin with and says how many bytes it has.
    pub fn decode(bytes: &'a [u8]) -> Result<(usize, Record<'a>), RecordFault> {
        let mut input = Input::new(bytes);
        let (kind, mut fields) = open(&mut input)?;
        let record = if kind == kind::MESSAGE {
            check(&mut fields)?;
            Record::Message(message(&mut fields)?)
        } else {
            other(kind, &mut fields)?
        };
        Ok((input.at(), record))
    }
}

/// Reads a message record that was fetched alone, and checks it.
pub fn message_at(record: &[u8]) -> Result<thalweg_model::Message, RecordFault> {
    let mut input = Input::new(record);
    let (kind, mut fields) = open(&mut input)?;
    if kind != kind::MESSAGE {
        return Err(RecordFault {
            at: 0,
            what: "it is no message",
        });
    }
    input.finish()?;
    check(&mut fields)?;
    let head = MessageHead::read(&mut fields)?;
    for _ in 0..head.references {
        reference(&mut fields)?;
    }
    let (properties, priority) = head.properties(&mut fields)?;
    let message = thalweg_model::Message::new(
        head.address,
        fields.rest(),
        head.reliability,
        head.retain,
        head.expires,
        head.ingress,
        head.publisher,
        properties.map(Box::new),
    );
    Ok(message.with_priority(priority))
}

/// The record's kind and its fields, behind which `input` goes on.
pub(super) fn open<'a>(input: &mut Input<'a>) -> Result<(u8, Input<'a>), RecordFault> {
    let kind = input.byte()?;
    let len = input.small()?;
    Ok((kind, input.within(len)?))
}

/// Checks and skips a message's checksum.
fn check(fields: &mut Input<'_>) -> Result<(), RecordFault> {
    let crc = u32::from_le_bytes(fields.array()?);
    if crc32c::crc32c(fields.rest()) == crc {
        Ok(())
    } else {
        Err(fields.fault("the checksum differs"))
    }
}

/// Skips a message's checksum, which its frame's has already vouched for.
pub(super) fn skip_check(fields: &mut Input<'_>) -> Result<(), RecordFault> {
    fields.array::<4>().map(drop)
}

/// A message up to its references.
pub(super) struct MessageHead<'a> {
    flags: u8,
    pub(super) reliability: Reliability,
    pub(super) retain: RetainOp,
    pub(super) ingress: Time,
    pub(super) expires: Time,
    pub(super) publisher: u64,
    pub(super) held: Option<(u64, u16)>,
    pub(super) kept: Option<KeptAs>,
    pub(super) address: &'a str,
    pub(super) references: usize,
}

impl<'a> MessageHead<'a> {
    pub(super) fn read(fields: &mut Input<'a>) -> Result<Self, RecordFault> {
        let flags = fields.byte()?;
        let is_kept = flags & body_flag::KEPT == body_flag::KEPT;
        Ok(MessageHead {
            flags,
            reliability: fields.reliability(flags)?,
            retain: match is_kept {
                true => RetainOp::Set,
                false => fields.retain(flags >> 2)?,
            },
            ingress: fields.moment()?,
            expires: if flags & body_flag::EXPIRES != 0 {
                fields.moment()?
            } else {
                Time::NEVER
            },
            publisher: fields.number()?,
            held: if flags & body_flag::HELD != 0 {
                Some((fields.number()?, fields.small()?))
            } else {
                None
            },
            kept: if is_kept {
                let (number, oldest) = (fields.number()?, fields.number()?);
                Some(KeptAs { number, oldest })
            } else {
                None
            },
            address: fields.text()?,
            references: fields.count(3)?,
        })
    }

    pub(super) fn is_last_value(&self) -> bool {
        self.flags & body_flag::LAST_VALUE != 0
    }

    /// Fields after the references.
    fn properties(&self, fields: &mut Input<'_>) -> Result<(Option<Properties>, u8), RecordFault> {
        if self.flags & body_flag::PROPERTIES != 0 {
            properties(fields)
        } else {
            Ok((None, 0))
        }
    }
}

fn message<'a>(fields: &mut Input<'a>) -> Result<Message<'a>, RecordFault> {
    let head = MessageHead::read(fields)?;
    let mut references = Vec::with_capacity(head.references);
    for _ in 0..head.references {
        let (reference, is_received) = reference(fields)?;
        if is_received {
            return Err(fields.fault("a message that was received before it was sent"));
        }
        references.push(reference);
    }
    let (properties, priority) = head.properties(fields)?;
    Ok(Message {
        body: BodyRecord {
            address: head.address,
            payload: fields.rest(),
            reliability: head.reliability,
            retain: head.retain,
            priority,
            properties: properties.map(Cow::Owned),
        },
        expires: head.expires,
        ingress: head.ingress,
        publisher: head.publisher,
        is_last_value: head.is_last_value(),
        kept: head.kept,
        held: head.held,
        references: Cow::Owned(references),
    })
}

pub(super) fn other<'a>(kind: u8, fields: &mut Input<'a>) -> Result<Record<'a>, RecordFault> {
    let record = match kind {
        kind::SESSION => Record::Session(session(fields)?),
        kind::SESSION_ENDED => Record::SessionEnded {
            queue: fields.number()?,
        },
        kind::SUBSCRIBED => Record::Subscribed(subscription(fields)?),
        kind::UNSUBSCRIBED => Record::Unsubscribed {
            queue: fields.number()?,
            filter: fields.text()?,
            group: if truth(fields)? {
                Some(fields.text()?)
            } else {
                None
            },
        },
        kind::GROUP => Record::Group {
            queue: fields.number()?,
            name: fields.text()?,
            filter: fields.text()?,
        },
        kind::GROUP_ENDED => Record::GroupEnded {
            queue: fields.number()?,
        },
        kind::HELD => Record::Held {
            queue: fields.number()?,
            ticket: fields.small()?,
        },
        kind::RELEASED => Record::Released {
            queue: fields.number()?,
            ticket: fields.small()?,
        },
        kind::SENT => Record::Sent {
            queue: fields.number()?,
            serial: fields.number()?,
            tag: fields.small()?,
        },
        kind::RECEIVED => Record::Received {
            queue: fields.number()?,
            tag: fields.small()?,
        },
        kind::SETTLED => Record::Settled {
            queue: fields.number()?,
            tag: fields.small()?,
        },
        kind::REMOVED => Record::Removed {
            queue: fields.number()?,
            serial: fields.number()?,
        },
        kind::MOVED => {
            let (from, serial, to, tag) = (
                fields.number()?,
                fields.number()?,
                fields.number()?,
                fields.small()?,
            );
            let flags = fields.byte()?;
            let redelivered = flags & moved_flag::REDELIVERED != 0;
            let grant = match flags & moved_flag::GRANT {
                0 => None,
                _ => Some((fields.reliability(flags >> 2)?, fields.small()?)),
            };
            if flags >> 4 != 0 || (grant.is_none() && flags >> 1 != 0) {
                return Err(fields.fault("unknown flags"));
            }
            Record::Moved {
                from,
                serial,
                to,
                tag,
                redelivered,
                grant,
            }
        }
        kind::DELIVERED => Record::Delivered {
            queue: fields.number()?,
            serial: fields.number()?,
        },
        kind::RETURNED => Record::Returned {
            queue: fields.number()?,
            serial: fields.number()?,
            deliveries: fields.small()?,
        },
        kind::CLEARED => Record::Cleared {
            address: fields.text()?,
        },
        kind::ENTRY => {
            let (reference, received) = reference(fields)?;
            Record::Entry {
                reference,
                place: fields.number()?,
                len: fields.small()?,
                expires: fields.moment()?,
                received,
            }
        }
        kind::FORGOTTEN => {
            let (first, last) = (fields.number()?, fields.number()?);
            let and_last = fields.byte()? != 0;
            Record::Forgotten {
                address: fields.text()?,
                first,
                last,
                and_last,
            }
        }
        kind::KEPT => {
            let (number, place, len) = (fields.number()?, fields.number()?, fields.small()?);
            Record::Kept {
                address: fields.text()?,
                number,
                place,
                len,
            }
        }
        kind::LAST_VALUE => {
            let (place, len) = (fields.number()?, fields.small()?);
            Record::LastValue {
                address: fields.text()?,
                place,
                len,
            }
        }
        kind::NUMBERS => Record::Numbers {
            queue: fields.number()?,
            serial: fields.number()?,
        },
        kind::STAMPED => {
            let (publisher, sequence) = (fields.number()?, fields.number()?);
            Record::Stamped {
                user: fields.text()?,
                publisher,
                sequence,
            }
        }
        kind::PUBLISHER_FORGOTTEN => {
            let publisher = fields.number()?;
            Record::PublisherForgotten {
                user: fields.text()?,
                publisher,
            }
        }
        kind::PUBLISHER => {
            let (publisher, user, highest) = (fields.number()?, fields.text()?, fields.number()?);
            let count = fields.count(1)?;
            let runs = (0..count)
                .map(|_| fields.number())
                .collect::<Result<Vec<u64>, _>>()?;
            Record::Publisher {
                user,
                publisher,
                highest,
                runs: Cow::Owned(runs),
            }
        }
        _ => return Err(fields.fault("an unknown kind")),
    };
    fields.finish()?;
    Ok(record)
}

fn truth(fields: &mut Input<'_>) -> Result<bool, RecordFault> {
    match fields.byte()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(fields.fault("neither true nor false")),
    }
}

/// An entry, and whether its receiver has it.
pub(super) fn reference<'a>(fields: &mut Input<'a>) -> Result<(Reference<'a>, bool), RecordFault> {
    let flags = fields.byte()?;
    let is = |flag: u8| flags & flag != 0;
    let mut reference = Reference {
        queue: fields.number()?,
        serial: fields.number()?,
        tag: if is(reference_flag::TAG) {
            fields.small()?
        } else {
            0
        },
        reliability: fields.reliability(flags)?,
        retain: is(reference_flag::RETAIN),
        redelivered: is(reference_flag::REDELIVERED),
        group: if is(reference_flag::GROUP) {
            fields.number()?
        } else {
            0
        },
        subscription_ids: Cow::Borrowed(&[]),
    };
    if is(reference_flag::IDS) {
        let count = fields.count(1)?;
        let mut ids = Vec::with_capacity(count);
        for _ in 0..count {
            ids.push(fields.small()?);
        }
        reference.subscription_ids = Cow::Owned(ids);
    }
    Ok((reference, is(reference_flag::RECEIVED)))
}

fn session<'a>(fields: &mut Input<'a>) -> Result<SessionRecord<'a>, RecordFault> {
    let queue = fields.number()?;
    let flags = fields.byte()?;
    fields.no_flags(
        flags & !(session_flag::USER | session_flag::WILL | session_flag::WILL_EXPIRES),
    )?;
    Ok(SessionRecord {
        queue,
        client: fields.text()?,
        user: if flags & session_flag::USER != 0 {
            Some(fields.text()?)
        } else {
            None
        },
        expiry: fields.span()?,
        expires_at: fields.moment()?,
        in_flight_max: fields.small()?,
        access: fields.bytes()?,
        will: if flags & session_flag::WILL != 0 {
            Some(will(fields, flags)?)
        } else {
            None
        },
    })
}

fn will<'a>(fields: &mut Input<'a>, session_flags: u8) -> Result<WillRecord<'a>, RecordFault> {
    let flags = fields.byte()?;
    fields.no_flags(flags & !(0xF | body_flag::PROPERTIES))?;
    let (reliability, retain) = (fields.reliability(flags)?, fields.retain(flags >> 2)?);
    let (address, payload) = (fields.text()?, fields.bytes()?);
    let (properties, priority) = match flags & body_flag::PROPERTIES {
        0 => (None, 0),
        _ => properties(fields)?,
    };
    let properties = properties.map(Cow::Owned);
    Ok(WillRecord {
        body: BodyRecord {
            address,
            payload,
            reliability,
            retain,
            priority,
            properties,
        },
        delay: fields.span()?,
        due: fields.moment()?,
        expires_in: if session_flags & session_flag::WILL_EXPIRES != 0 {
            Some(fields.span()?)
        } else {
            None
        },
    })
}

fn subscription<'a>(fields: &mut Input<'a>) -> Result<SubscriptionRecord<'a>, RecordFault> {
    let queue = fields.number()?;
    let flags = fields.byte()?;
    fields.no_flags(flags >> 7)?;
    let is = |flag: u8| flags & flag != 0;
    Ok(SubscriptionRecord {
        queue,
        filter: fields.text()?,
        group: if is(subscription_flag::GROUP) {
            Some(fields.text()?)
        } else {
            None
        },
        reliability: fields.reliability(flags)?,
        no_local: is(subscription_flag::NO_LOCAL),
        retain_as_published: is(subscription_flag::RETAIN_AS_PUBLISHED),
        id: if is(subscription_flag::ID) {
            fields.small()?
        } else {
            0
        },
        condition: match is(subscription_flag::CONDITION) {
            true => Some(fields.text()?),
            false => None,
        },
    })
}

/// With the message's priority, which stands among them.
fn properties(fields: &mut Input<'_>) -> Result<(Option<Properties>, u8), RecordFault> {
    let flags = fields.byte()?;
    let is = |flag: u8| flags & flag != 0;
    let priority = if is(property_flag::PRIORITY) {
        fields.byte()?
    } else {
        0
    };
    let mut properties = Properties {
        content_type: if is(property_flag::CONTENT_TYPE) {
            Some(fields.text()?.into())
        } else {
            None
        },
        payload_is_text: is(property_flag::TEXT_KNOWN).then_some(is(property_flag::IS_TEXT)),
        reply_to: if is(property_flag::REPLY_TO) {
            Some(fields.text()?.into())
        } else {
            None
        },
        correlation: if is(property_flag::CORRELATION) {
            Some(fields.bytes()?.into())
        } else {
            None
        },
        user: Vec::new(),
        details: None,
        native: None,
    };
    let count = fields.count(2)?;
    for _ in 0..count {
        let name = fields.text()?.into();
        let value = match fields.byte()? {
            value_kind::TEXT => PropertyValue::Text(fields.text()?.into()),
            value_kind::FALSE => PropertyValue::Bool(false),
            value_kind::TRUE => PropertyValue::Bool(true),
            value_kind::INTEGER => {
                let number = fields.number()?;
                PropertyValue::Integer((number >> 1) as i64 ^ -((number & 1) as i64))
            }
            value_kind::FLOAT => {
                PropertyValue::Float(f64::from_bits(u64::from_le_bytes(fields.array()?)))
            }
            value_kind::BYTES => PropertyValue::Bytes(fields.bytes()?.into()),
            value_kind::NOTHING => PropertyValue::Nothing,
            _ => return Err(fields.fault("an unknown kind of property value")),
        };
        properties.user.push((name, value));
    }
    if is(property_flag::DETAILS) {
        properties.details = Some(Box::new(details(fields)?));
    }
    if is(property_flag::NATIVE) {
        properties.native = Some(NativeProperties {
            dialect: fields.byte()?,
            bytes: fields.bytes()?.into(),
        });
    }
    // A priority needs a place to stand, even where there is nothing else.
    Ok((
        (priority == 0 || !properties.is_empty()).then_some(properties),
        priority,
    ))
}

fn details(fields: &mut Input<'_>) -> Result<Details, RecordFault> {
    let flags = fields.byte()?;
    let mut text = |flag: u8| -> Result<_, RecordFault> {
        if flags & flag != 0 {
            Ok(Some(fields.text()?.into()))
        } else {
            Ok(None)
        }
    };
    let mut details = Details {
        message_id: text(detail_flag::MESSAGE_ID)?,
        content_encoding: text(detail_flag::CONTENT_ENCODING)?,
        kind: text(detail_flag::KIND)?,
        app_id: text(detail_flag::APP_ID)?,
        user_id: text(detail_flag::USER_ID)?,
        ..Details::default()
    };
    if flags & detail_flag::TIMESTAMP != 0 {
        details.timestamp_secs = Some(fields.number()?);
    }
    for _ in 0..fields.count(6)? {
        let queue = fields.text()?.into();
        let reason = DeathReason::from_number(fields.byte()?);
        details.deaths.push(Death {
            queue,
            reason: reason.ok_or_else(|| fields.fault("an unknown reason of a dead letter"))?,
            count: fields.number()?,
            address: fields.text()?.into(),
            first_secs: fields.number()?,
            lifetime_ms: fields.number()?.checked_sub(1),
        });
    }
    if flags & detail_flag::ORIGINS != 0 {
        for _ in 0..fields.count(1)? {
            details.origins.push(fields.text()?.into());
        }
    }
    if flags & detail_flag::KEEPS != 0 {
        let number = fields.number()?;
        let keeps = u16::try_from(number & !HAS_SOURCE);
        details.keeps = keeps.map_err(|_| fields.fault("more messages than an address keeps"))?;
        if number & HAS_SOURCE != 0 {
            details.source = Some(fields.text()?.into());
        }
    }
    Ok(details)
}
