//! Received messages in the client's terms.

use super::*;
use thalweg_model::Stamp;

fn deliver<'d>(exchange: &'d str, routing_key: &'d str, redelivered: bool) -> basic::Deliver<'d> {
    basic::Deliver {
        consumer_tag: "s",
        delivery_tag: 1,
        redelivered,
        exchange,
        routing_key,
    }
}

#[test]
fn everything_that_a_message_said_is_there_again() {
    let mut pair = Pair::up(settings());
    pair.subscribed(7, "a/+");
    let mut properties = Vec::new();
    Properties::push("room", "12", &mut properties);
    let sent = Outbound {
        content_type: Some("text/plain"),
        properties: Properties(&properties),
        reply_to: Some("answers/here.now"),
        correlation: Some(b"\xFF\x00"),
        stamp: Some(Stamp {
            publisher: 0xAB,
            sequence: 0x10,
        }),
        ..message(1, "a/b.c", b"21.5")
    };
    pair.must_publish(&sent);
    let got = pair.received_one();
    let expected = Got {
        subscription: Some(SubscriptionId(7)),
        delivery: got.delivery,
        address: "a/b.c".to_owned(),
        payload: b"21.5".to_vec(),
        reliability: Reliability::AtLeastOnce,
        is_last_value: false,
        repeated: false,
        content_type: Some("text/plain".to_owned()),
        properties: vec![("room".to_owned(), "12".to_owned())],
        reply_to: Some("answers/here.now".to_owned()),
        correlation: Some(b"\xFF\x00".to_vec()),
        stamp: Some(Stamp {
            publisher: 0xAB,
            sequence: 0x10,
        }),
    };
    assert_eq!(got, expected);
    assert!(got.delivery.is_some());
}

#[test]
fn what_others_say_is_read_as_far_as_it_is_text_or_numbers() {
    let mut pair = Pair::up(settings());
    pair.subscribed(1, "#");
    let mut buffer = Vec::new();
    let mut table = TableWriter::new(&mut buffer);
    table
        .value("i", FieldValue::I32(-5))
        .value("u", FieldValue::U64(u64::MAX))
        .bool("t", true)
        .value("d", FieldValue::F64(0.5))
        .value("T", FieldValue::Timestamp(1_700_000_000))
        .value("x", FieldValue::Bytes(b"bytes"))
        .value("S", FieldValue::LongStr(b"\xFF"))
        .value("V", FieldValue::Void)
        .table("F", |_| {})
        .str("x-stamp", "no stamp")
        .str("x-address", "the/whole/address")
        .i64("x-delivery-count", 1);
    let headers = Some(table.finish());
    let properties = BasicProperties {
        headers,
        reply_to: Some("answers"),
        ..BasicProperties::default()
    };
    pair.server.deliver_with(
        3,
        &properties,
        deliver("amq.topic", "the.whole~0123", false),
    );
    let got = pair.received_one();
    let text = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let expected = [
        text("i", "-5"),
        text("u", "18446744073709551615"),
        text("t", "true"),
        text("d", "0.5"),
        text("T", "1700000000000"),
    ];
    assert_eq!(got.properties, expected);
    assert_eq!(
        (got.address.as_str(), got.reply_to.as_deref()),
        ("the/whole/address", Some("$q/answers"))
    );
    assert_eq!((got.stamp, got.repeated), (None, true));
}

#[test]
fn an_address_tells_queue_exchange_and_topic_apart() {
    let mut pair = Pair::up(settings());
    pair.subscribed(1, "#");
    for (exchange, key, address) in [
        ("amq.topic", "a.b", "a/b"),
        ("amq.topic", "a.b", "a/b"),
        ("", "work", "$q/work"),
        ("logs", "a.b", "$x/logs/a/b"),
        ("amq.direct", "a.b", "$x/amq.direct/a.b"),
        ("amq.topic", "a%2Eb/c", "a.b%2Fc"),
    ] {
        pair.server
            .deliver_with(3, &BasicProperties::default(), deliver(exchange, key, true));
        let got = pair.received();
        assert_eq!((got[0].address.as_str(), got[0].repeated), (address, true));
    }
}

#[test]
fn who_does_not_settle_has_nothing_to_settle() {
    let mut pair = Pair::up(settings());
    pair.must_subscribe(1, "a", Reliability::AtMostOnce);
    pair.exchange();
    pair.must_publish(&message(1, "a", b""));
    let got = pair.received();
    assert_eq!(
        (got[0].delivery, got[0].reliability),
        (None, Reliability::AtMostOnce)
    );
}

#[test]
fn what_is_larger_than_we_take_ends_its_subscription_only() {
    let mut pair = Pair::up(AmqpSettings {
        payload_bytes_max: 1000,
        ..settings()
    });
    pair.subscribed(1, "large");
    pair.subscribed(2, "small");
    let deliver = deliver("amq.topic", "large", false);
    let header = ContentHeader::Raw(&[]);
    pair.server
        .side
        .deliver(3, &deliver, header, &[0; 1001], &mut pair.server.out)
        .expect("it fits");
    pair.exchange();
    assert!(matches!(
        &pair.witness.take()[..],
        [EventCall::Unsubscribed(SubscriptionId(1), Refusal::Busy(_))]
    ));
    pair.must_publish(&at_most_once(1, "small", b"x"));
    assert_eq!(pair.received().len(), 1);
    pair.subscribed(1, "large");
}

#[test]
fn what_is_left_of_a_life_is_read() {
    for (expiration, lifespan) in [
        (None, Span::FOREVER),
        (Some("1500"), Span::from_millis(1500)),
        (Some("0"), Span::ZERO),
        (Some("soon"), Span::FOREVER),
    ] {
        let properties = BasicProperties {
            expiration,
            ..BasicProperties::default()
        };
        assert_eq!(
            properties::read(&properties, &mut Vec::new()).lifespan,
            lifespan
        );
    }
}
