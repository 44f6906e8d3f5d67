//! Encoded records are decoded to the same.

use super::{encoded, message, reference};
use crate::{
    BodyRecord, KeptAs, MessageRecord, Record, Reference, SessionRecord, SubscriptionRecord,
    WillRecord,
};
use crate::{State, message_at};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use std::borrow::Cow;
use thalweg_model::{
    Death, DeathReason, Details, NativeProperties, Properties, PropertyValue, Reliability,
    RetainOp, Span, Time,
};

/// Records borrow; tests let what they borrow live for ever.
fn text() -> impl Strategy<Value = &'static str> {
    "\\PC{0,40}".prop_map(|text| &*Box::leak(text.into_boxed_str()))
}

fn bytes(len_max: usize) -> impl Strategy<Value = &'static [u8]> {
    vec(any::<u8>(), 0..len_max).prop_map(|bytes| &*Box::leak(bytes.into_boxed_slice()))
}

fn reliability() -> impl Strategy<Value = Reliability> {
    prop_oneof![
        Just(Reliability::AtMostOnce),
        Just(Reliability::AtLeastOnce),
        Just(Reliability::ExactlyOnce)
    ]
}

fn retain() -> impl Strategy<Value = RetainOp> {
    prop_oneof![
        Just(RetainOp::None),
        Just(RetainOp::Set),
        Just(RetainOp::Clear)
    ]
}

/// Numbers of every width.
fn number() -> impl Strategy<Value = u64> {
    (any::<u64>(), 0..64u32).prop_map(|(number, shift)| number >> shift)
}

fn moment() -> impl Strategy<Value = Time> {
    option::of(1..1u64 << 42)
        .prop_map(|millis| millis.map_or(Time::NEVER, |ms| Time::from_nanos(ms * 1_000_000)))
}

fn span() -> impl Strategy<Value = Span> {
    prop_oneof![
        Just(Span::FOREVER),
        Just(Span::ZERO),
        (0..1u64 << 42).prop_map(Span::from_millis)
    ]
}

fn properties() -> impl Strategy<Value = Properties> {
    let value = prop_oneof![
        text().prop_map(|text| PropertyValue::Text(text.into())),
        any::<bool>().prop_map(PropertyValue::Bool),
        any::<i64>().prop_map(PropertyValue::Integer),
        any::<i64>().prop_map(|bits| PropertyValue::Float(bits as f64 / 3.0)),
        bytes(30).prop_map(|bytes| PropertyValue::Bytes(bytes.into())),
        Just(PropertyValue::Nothing),
    ];
    let user = vec((text().prop_map(Box::from), value), 0..5);
    let native = (any::<u8>(), bytes(30)).prop_map(|(dialect, bytes)| NativeProperties {
        dialect,
        bytes: bytes.into(),
    });
    let rare = (option::of(details()), option::of(native));
    (
        option::of(text()),
        option::of(any::<bool>()),
        option::of(text()),
        option::of(bytes(30)),
        user,
        rare,
    )
        .prop_map(
            |(content_type, payload_is_text, reply_to, correlation, user, (details, native))| {
                Properties {
                    content_type: content_type.map(Box::from),
                    payload_is_text,
                    reply_to: reply_to.map(Box::from),
                    correlation: correlation.map(Box::from),
                    user,
                    details: details.map(Box::new),
                    native,
                }
            },
        )
}

fn details() -> impl Strategy<Value = Details> {
    let death = (
        text(),
        0..4u8,
        number(),
        text(),
        number(),
        option::of(any::<u32>()),
    )
        .prop_map(
            |(queue, reason, count, address, first_secs, lifetime)| Death {
                queue: queue.into(),
                reason: DeathReason::from_number(reason).expect("one of four"),
                count,
                address: address.into(),
                first_secs,
                lifetime_ms: lifetime.map(u64::from),
            },
        );
    let texts = (
        option::of(text()),
        option::of(text()),
        option::of(text()),
        option::of(text()),
        option::of(text()),
    );
    let origins = vec(text().prop_map(Box::from), 0..3);
    let parts = (
        texts,
        option::of(number()),
        vec(death, 0..3),
        (origins, any::<u16>(), option::of(text())),
    );
    parts.prop_map(
        |((a, b, c, d, e), timestamp_secs, deaths, (origins, keeps, source))| Details {
            message_id: a.map(Box::from),
            content_encoding: b.map(Box::from),
            kind: c.map(Box::from),
            app_id: d.map(Box::from),
            user_id: e.map(Box::from),
            timestamp_secs,
            deaths,
            origins,
            keeps,
            source: source.map(Box::from),
        },
    )
}

fn body() -> impl Strategy<Value = BodyRecord<'static>> {
    (
        text(),
        bytes(400),
        reliability(),
        retain(),
        0..3u8,
        option::of(properties()),
    )
        .prop_map(
            |(address, payload, reliability, retain, priority, properties)| BodyRecord {
                address,
                payload,
                reliability,
                retain,
                priority,
                // Where there is a priority, properties that say nothing are none.
                properties: properties
                    .filter(|of| priority == 0 || !of.is_empty())
                    .map(Cow::Owned),
            },
        )
}

fn a_reference() -> impl Strategy<Value = Reference<'static>> {
    let group = prop_oneof![Just(0), number()];
    let flags = (any::<bool>(), any::<bool>());
    (
        number(),
        number(),
        any::<u16>(),
        reliability(),
        flags,
        group,
        vec(any::<u32>(), 0..4),
    )
        .prop_map(
            |(queue, serial, tag, reliability, (retain, redelivered), group, ids)| Reference {
                queue,
                serial,
                tag,
                reliability,
                retain,
                redelivered,
                group,
                subscription_ids: Cow::Owned(ids),
            },
        )
}

fn a_message() -> impl Strategy<Value = MessageRecord<'static>> {
    let held = option::of((number(), any::<u16>()));
    (
        body(),
        moment(),
        moment(),
        number(),
        any::<bool>(),
        (option::of((number(), number())), held),
        vec(a_reference(), 0..20),
    )
        .prop_map(
            |(body, expires, ingress, publisher, is_last_value, (kept, held), references)| {
                MessageRecord {
                    kept: kept
                        .filter(|_| body.retain == RetainOp::Set)
                        .map(|(number, oldest)| KeptAs { number, oldest }),
                    body,
                    expires,
                    ingress,
                    publisher,
                    is_last_value,
                    held,
                    references: Cow::Owned(references),
                }
            },
        )
}

fn session() -> impl Strategy<Value = SessionRecord<'static>> {
    let will = (body(), span(), moment(), option::of(span())).prop_map(
        |(body, delay, due, expires_in)| WillRecord {
            body,
            delay,
            due,
            expires_in,
        },
    );
    (
        number(),
        text(),
        option::of(text()),
        span(),
        moment(),
        any::<u16>(),
        bytes(200),
        option::of(will),
    )
        .prop_map(
            |(queue, client, user, expiry, expires_at, in_flight_max, access, will)| {
                SessionRecord {
                    queue,
                    client,
                    user,
                    expiry,
                    expires_at,
                    in_flight_max,
                    access,
                    will,
                }
            },
        )
}

fn subscription() -> impl Strategy<Value = SubscriptionRecord<'static>> {
    let flags = (any::<bool>(), any::<bool>());
    (
        number(),
        text(),
        option::of(text()),
        reliability(),
        flags,
        any::<u32>(),
        option::of(text()),
    )
        .prop_map(
            |(
                queue,
                filter,
                group,
                reliability,
                (no_local, retain_as_published),
                id,
                condition,
            )| {
                SubscriptionRecord {
                    queue,
                    filter,
                    group,
                    reliability,
                    no_local,
                    retain_as_published,
                    id,
                    condition,
                }
            },
        )
}

pub(super) fn record() -> impl Strategy<Value = Record<'static>> {
    let tagged = || (number(), any::<u16>());
    prop_oneof![
        session().prop_map(Record::Session),
        number().prop_map(|queue| Record::SessionEnded { queue }),
        subscription().prop_map(Record::Subscribed),
        (number(), text(), option::of(text())).prop_map(|(queue, filter, group)| {
            Record::Unsubscribed {
                queue,
                filter,
                group,
            }
        }),
        (number(), text(), text()).prop_map(|(queue, name, filter)| Record::Group {
            queue,
            name,
            filter
        }),
        number().prop_map(|queue| Record::GroupEnded { queue }),
        (number(), number()).prop_map(|(queue, serial)| Record::Delivered { queue, serial }),
        (number(), number(), any::<u16>()).prop_map(|(queue, serial, deliveries)| {
            Record::Returned {
                queue,
                serial,
                deliveries,
            }
        }),
        a_message().prop_map(Record::Message),
        tagged().prop_map(|(queue, ticket)| Record::Held { queue, ticket }),
        tagged().prop_map(|(queue, ticket)| Record::Released { queue, ticket }),
        (number(), number(), any::<u16>()).prop_map(|(queue, serial, tag)| Record::Sent {
            queue,
            serial,
            tag
        }),
        tagged().prop_map(|(queue, tag)| Record::Received { queue, tag }),
        tagged().prop_map(|(queue, tag)| Record::Settled { queue, tag }),
        (number(), number()).prop_map(|(queue, serial)| Record::Removed { queue, serial }),
        (
            number(),
            number(),
            number(),
            any::<u16>(),
            any::<bool>(),
            option::of((reliability(), any::<u32>()))
        )
            .prop_map(
                |(from, serial, to, tag, redelivered, grant)| Record::Moved {
                    from,
                    serial,
                    to,
                    tag,
                    redelivered,
                    grant
                }
            ),
        text().prop_map(|address| Record::Cleared { address }),
        (
            a_reference(),
            number(),
            any::<u32>(),
            moment(),
            any::<bool>()
        )
            .prop_map(|(reference, place, len, expires, received)| Record::Entry {
                reference,
                place,
                len,
                expires,
                received
            }),
        (text(), number(), any::<u32>()).prop_map(|(address, place, len)| Record::LastValue {
            address,
            place,
            len
        }),
        (text(), number(), number(), any::<bool>()).prop_map(|(address, first, last, and_last)| {
            Record::Forgotten {
                address,
                first,
                last,
                and_last,
            }
        }),
        (text(), number(), number(), any::<u32>()).prop_map(|(address, number, place, len)| {
            Record::Kept {
                address,
                number,
                place,
                len,
            }
        }),
        (number(), number()).prop_map(|(queue, serial)| Record::Numbers { queue, serial }),
    ]
}

proptest! {
    #[test]
    fn every_record_comes_back_as_it_was_written(records in vec(record(), 1..4)) {
        let mut out = Vec::new();
        records.iter().for_each(|record| record.encode(&mut out));
        let mut rest: &'static [u8] = out.leak();
        for record in &records {
            let (consumed, decoded) = Record::decode(rest).expect("a record");
            prop_assert_eq!(&decoded, record);
            rest = &rest[consumed..];
        }
        prop_assert!(rest.is_empty());
    }

    #[test]
    fn a_message_that_is_read_back_alone_says_what_was_written(record in a_message()) {
        let message = message_at(&encoded(&Record::Message(record.clone()))).expect("a message");
        prop_assert_eq!(message.address(), record.body.address);
        prop_assert_eq!(message.payload(), record.body.payload);
        prop_assert_eq!(message.reliability(), record.body.reliability);
        prop_assert_eq!(message.retain(), record.body.retain);
        prop_assert_eq!(message.expires(), record.expires);
        prop_assert_eq!(message.ingress(), record.ingress);
        prop_assert_eq!(message.publisher(), record.publisher);
        prop_assert_eq!(message.properties(), record.body.properties.as_deref());
    }

    #[test]
    fn a_frame_and_its_records_one_by_one_lead_to_the_same_state(records in vec(record(), 1..20)) {
        let (mut frame, mut by_frame, mut one_by_one) = (Vec::new(), State::default(), State::default());
        let mut contradictions = 0;
        for record in &records {
            let start = frame.len();
            record.encode(&mut frame);
            let applied = one_by_one.apply(record, 5_000 + start as u64, (frame.len() - start) as u32);
            contradictions += u64::from(applied.is_err());
        }
        by_frame.apply_frame(&frame, 5_000).expect("records");
        prop_assert_eq!(&by_frame, &one_by_one);
        prop_assert_eq!(by_frame.contradiction_count, contradictions);
    }
}

#[test]
fn a_small_message_costs_little_more_than_what_it_says() {
    let one = [Reference {
        subscription_ids: Cow::Borrowed(&[]),
        ..reference(60_000, 3_000_000_000)
    }];
    let record = encoded(&Record::Message(message(&one)));
    assert!(record.len() < 310, "{}", record.len());
}

#[test]
fn marks_cost_a_few_bytes() {
    let (queue, serial, tag) = (60_000, 3_000_000_000, 20);
    for (record, len_max) in [
        (Record::Sent { queue, serial, tag }, 11),
        (Record::Settled { queue, tag }, 6),
        (Record::Removed { queue, serial }, 10),
    ] {
        let len = encoded(&record).len();
        assert!(len <= len_max, "{record:?} takes {len} bytes");
    }
}

#[test]
fn expiries_are_rounded_up_and_never_become_never() {
    let at = |expires| match Record::decode(&encoded(&Record::Message(MessageRecord {
        expires,
        ..message(&[])
    }))) {
        Ok((_, Record::Message(message))) => message.expires,
        other => panic!("{other:?}"),
    };
    assert_eq!(at(Time::from_nanos(1_000_001)), Time::from_nanos(2_000_000));
    assert_eq!(at(Time::from_nanos(2_000_000)), Time::from_nanos(2_000_000));
    assert_eq!(at(Time::ZERO), Time::from_nanos(1_000_000));
    assert_eq!(at(Time::NEVER), Time::NEVER);
}

#[test]
fn lengths_on_both_sides_of_each_width_come_back() {
    for len in [
        0, 1, 90, 100, 110, 120, 127, 128, 129, 16_200, 16_300, 16_383, 16_384, 70_000, 2_097_152,
    ] {
        let payload = vec![9; len].leak();
        let message = MessageRecord {
            body: super::body("a", payload),
            ..message(&[])
        };
        let name = "n".repeat(len).leak();
        for record in [
            Record::Message(message),
            Record::Group {
                queue: 1,
                name,
                filter: "",
            },
        ] {
            let bytes = encoded(&record).leak();
            assert_eq!(
                Record::decode(bytes),
                Ok((bytes.len(), record)),
                "length {len}"
            );
        }
    }
}
