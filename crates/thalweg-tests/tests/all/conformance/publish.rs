//! PUBLISH both ways: the three qualities of service, DUP, order, topic names, and the properties that travel along.

use super::BOTH;
use super::packet::Version::*;
use super::packet::*;
use super::peer::*;

/// [MQTT-4.3.1-1] [MQTT-3.3.1-2] [MQTT-2.2.1-2] [MQTT3-4.3.1-1] [MQTT3-3.3.1-2] [MQTT3-2.3.1-5]
#[test]
fn a_qos_0_message_arrives_without_identifier_or_dup() {
    for version in [V31, V311, V5] {
        let topic = unique("t");
        let mut peer = Peer::new(version);
        peer.subscribe(&topic, 2);
        peer.publish(&Publish::new(&topic, "zero"));
        let message = peer.message();
        assert_eq!(
            (message.qos, message.dup, message.text()),
            (0, false, "zero")
        );
        assert_eq!(message.topic, topic);
    }
}

/// [MQTT-4.3.2-1] [MQTT-4.3.2-2] [MQTT-4.3.2-4] [MQTT-3.3.4-1] [MQTT-3.4.2-1] [MQTT-2.2.1-4] [MQTT-2.2.1-5]
/// [MQTT3-4.3.2-1] [MQTT3-4.3.2-2] [MQTT3-3.3.4-1] [MQTT3-2.3.1-1] [MQTT3-2.3.1-4] [MQTT3-2.3.1-6]
#[test]
fn a_qos_1_message_is_acknowledged_and_delivered_with_an_identifier() {
    for version in [V31, V311, V5] {
        let topic = unique("t");
        let (mut publisher, mut peer) = (Peer::new(version), Peer::new(version));
        peer.subscribe(&topic, 1);
        for id in [1, 65_535, 77] {
            publisher.send(&Publish::new(&topic, "one").qos(1, id).bytes(version));
            assert_eq!(publisher.ack(PUBACK, id), 0);
            let message = peer.message();
            assert_eq!(
                (message.qos, message.dup, message.text()),
                (1, false, "one")
            );
            assert_ne!(message.id, 0);
            peer.settle(&message);
        }
    }
}

/// [MQTT-4.3.3-1] [MQTT-4.3.3-2] [MQTT-4.3.3-4] [MQTT-4.3.3-8] [MQTT-4.3.3-11] [MQTT-3.3.4-1] [MQTT-2.2.1-4] [MQTT-2.2.1-5]
/// [MQTT-3.5.2-1] [MQTT-3.6.2-1] [MQTT-3.7.2-1] [MQTT-3.6.1-1] [MQTT-2.1.3-1]
/// [MQTT3-4.3.3-1] [MQTT3-4.3.3-2] [MQTT3-3.3.4-1] [MQTT3-2.3.1-6] [MQTT3-3.6.1-1] [MQTT3-2.2.2-1]
#[test]
fn a_qos_2_message_goes_through_both_handshakes() {
    for version in [V31, V311, V5] {
        let topic = unique("t");
        let (mut publisher, mut peer) = (Peer::new(version), Peer::new(version));
        peer.subscribe(&topic, 2);
        publisher.send(&Publish::new(&topic, "two").qos(2, 11).bytes(version));
        assert_eq!(publisher.ack(PUBREC, 11), 0);
        publisher.send(&ack(PUBREL, 11));
        assert_eq!(publisher.ack(PUBCOMP, 11), 0);
        let message = peer.message();
        assert_eq!(
            (message.qos, message.dup, message.text()),
            (2, false, "two")
        );
        peer.send(&ack(PUBREC, message.id));
        assert_eq!(peer.ack(PUBREL, message.id), 0);
        peer.send(&ack(PUBCOMP, message.id));
        assert_eq!(peer.until_pong(), []);
    }
}

/// [MQTT-4.3.3-10] [MQTT-4.3.3-12] [MQTT3-4.3.3-2]
#[test]
fn a_repeated_qos_2_publish_is_delivered_once_until_pubrel_and_anew_after_pubcomp() {
    for version in BOTH {
        let topic = unique("t");
        let (mut publisher, mut peer) = (Peer::new(version), Peer::new(version));
        peer.subscribe(&topic, 0);
        for round in ["first", "second"] {
            for dup in [false, true, true] {
                if dup && oracle_deviates("closes the connection") {
                    continue;
                }
                let mut publish = Publish::new(&topic, round).qos(2, 5);
                publish.dup = dup;
                publisher.send(&publish.bytes(version));
                assert!(publisher.ack(PUBREC, 5) < 0x80);
            }
            publisher.send(&ack(PUBREL, 5));
            assert_eq!(publisher.ack(PUBCOMP, 5), 0);
        }
        let received: Vec<_> = peer
            .messages_until_mark(&mut publisher)
            .iter()
            .map(|m| m.text().to_owned())
            .collect();
        assert_eq!(received, ["first", "second"]);
    }
}

/// [MQTT-4.3.2-5] [MQTT3-4.3.2-2]
#[test]
fn a_qos_1_identifier_means_a_new_message_after_puback_whatever_dup_says() {
    for version in BOTH {
        let topic = unique("t");
        let (mut publisher, mut peer) = (Peer::new(version), Peer::new(version));
        peer.subscribe(&topic, 0);
        publisher.publish(&Publish::new(&topic, "a").qos(1, 4));
        publisher.publish(&Publish::new(&topic, "b").qos(1, 4));
        publisher.publish(&Publish::new(&topic, "c").qos(1, 4).dup());
        let received: String = peer
            .messages_until_mark(&mut publisher)
            .iter()
            .map(|m| m.text().to_owned())
            .collect();
        assert_eq!(received, "abc");
    }
}

/// [MQTT-3.3.1-3] [MQTT3-3.3.1-3]
#[test]
fn dup_of_the_publisher_is_not_passed_on() {
    for version in BOTH {
        let topic = unique("t");
        let (mut publisher, mut peer) = (Peer::new(version), Peer::new(version));
        peer.subscribe(&topic, 2);
        publisher.publish(&Publish::new(&topic, "1").qos(1, 1).dup());
        publisher.publish(&Publish::new(&topic, "2").qos(2, 2).dup());
        for _ in 0..2 {
            let message = peer.message();
            assert!(!message.dup);
            peer.settle(&message);
        }
    }
}

/// [MQTT-3.3.1-2] [MQTT-4.13.1-1] [MQTT3-3.3.1-2]
#[test]
fn dup_on_qos_0_is_malformed() {
    if oracle_deviates("takes DUP on QoS 0") {
        return;
    }
    for version in BOTH {
        let mut peer = Peer::new(version);
        peer.send(&Publish::new("a", "b").dup().bytes(version));
        peer.expect_end(&[0x81, 0x82]);
    }
}

/// [MQTT-3.3.1-4] [MQTT-4.13.1-1] [MQTT3-3.3.1-4]
#[test]
fn qos_3_is_malformed() {
    for version in BOTH {
        let mut peer = Peer::new(version);
        peer.send(&Publish::new("a", "b").qos(3, 1).bytes(version));
        peer.expect_end(&[0x81]);
    }
}

/// [MQTT-2.2.1-3] [MQTT-4.13.1-1] [MQTT3-2.3.1-1]
#[test]
fn packet_identifier_0_is_refused() {
    for version in BOTH {
        for qos in [1, 2] {
            let mut peer = Peer::new(version);
            peer.send(&Publish::new("a", "b").qos(qos, 0).bytes(version));
            peer.expect_end(&[0x81, 0x82]);
        }
    }
}

/// [MQTT-3.3.2-1] [MQTT-3.3.2-2] [MQTT-4.7.0-1] [MQTT-4.7.3-1] [MQTT-4.7.3-2] [MQTT-1.5.4-1] [MQTT-1.5.4-2]
/// [MQTT3-3.3.2-1] [MQTT3-3.3.2-2] [MQTT3-4.7.1-1] [MQTT3-4.7.3-1] [MQTT3-4.7.3-2] [MQTT3-1.5.3-1] [MQTT3-1.5.3-2]
#[test]
fn a_topic_name_must_be_a_topic_name() {
    let bad: [&[u8]; 12] = [
        b"a/+",
        b"a/#",
        b"+",
        b"#",
        b"a+b",
        b"",
        b"a\0b",
        b"\xFF",
        b"\xC3",
        b"\xED\xA0\x80",
        b"\xE0\x80\xAF",
        b"\xF8\x88\x80\x80\x80",
    ];
    for version in BOTH {
        for topic in bad {
            let mut peer = Peer::new(version);
            peer.send(&Publish::new(topic, "x").bytes(version));
            peer.expect_end(&[0x81, 0x82, 0x90]);
        }
    }
}

/// [MQTT-1.5.4-3] [MQTT-4.7.3-4] [MQTT-3.3.2-3] [MQTT3-1.5.3-3] [MQTT3-4.7.3-4] [MQTT3-3.3.2-3]
#[test]
fn topics_are_compared_and_passed_on_byte_by_byte() {
    for version in BOTH {
        let stem = unique("t");
        // A byte order mark, both forms of é, case, empty levels, spaces, private use and the last plane.
        let topics = [
            "\u{feff}x",
            "x\u{feff}",
            "x",
            "é",
            "e\u{301}",
            "E",
            "/",
            "//",
            " ",
            "\u{e000}",
            "\u{10ffff}",
            "\u{ffff}",
        ];
        for topic in topics {
            let topic = format!("{stem}{topic}");
            if oracle_deviates("refuses non-characters")
                && topic.contains(['\u{10ffff}', '\u{ffff}'])
            {
                continue;
            }
            let mut peer = Peer::new(version);
            assert_eq!(peer.subscribe(&topic, 0), 0);
            for other in topics.map(|other| format!("{stem}{other}")) {
                if !(oracle_deviates("refuses non-characters")
                    && other.contains(['\u{10ffff}', '\u{ffff}']))
                {
                    peer.publish(&Publish::new(&other, "x"));
                }
            }
            let received: Vec<_> = peer
                .messages_until_own_mark()
                .into_iter()
                .map(|message| message.topic)
                .collect();
            assert_eq!(received, [topic]);
        }
    }
}

/// [MQTT-4.6.0-5] [MQTT-4.6.0-6] [MQTT3-4.6.0-5] [MQTT3-4.6.0-6]
#[test]
fn messages_of_one_publisher_arrive_in_order() {
    for version in BOTH {
        for qos in 0..=2 {
            let topic = unique("t");
            let (mut publisher, mut peer) = (Peer::new(version), Peer::new(version));
            peer.subscribe(&topic, qos);
            for number in 1..=15_u16 {
                publisher.publish(&Publish::new(&topic, number.to_string()).qos(qos, number));
            }
            for number in 1..=15 {
                let message = peer.message();
                assert_eq!(message.text(), number.to_string());
                peer.settle(&message);
            }
        }
    }
}

/// [MQTT-3.3.2-4] [MQTT-3.3.2-13] [MQTT-3.3.2-15] [MQTT-3.3.2-16] [MQTT-3.3.2-17] [MQTT-3.3.2-18] [MQTT-3.3.2-19] [MQTT-3.3.2-20]
#[test]
fn properties_reach_the_subscriber_unchanged() {
    let topic = unique("t");
    let (mut publisher, mut peer) = (Peer::new(V5), Peer::new(V5));
    peer.subscribe(&topic, 2);
    for qos in 0..=2 {
        let publish = Publish::new(&topic, "x")
            .qos(qos, 1)
            .with(property::user("z", "1"))
            .with(property::byte(property::PAYLOAD_FORMAT, 1))
            .with(property::text(property::RESPONSE_TOPIC, "answer/to/é"))
            .with(property::user("a", "2"))
            .with(property::text(property::CORRELATION_DATA, [0, 1, 0xFF]))
            .with(property::text(property::CONTENT_TYPE, "text/plain"))
            .with(property::user("z", "1"))
            .with(property::user("", ""));
        publisher.publish(&publish);
        let message = peer.message();
        let properties = &message.properties;
        assert_eq!(properties.number(property::PAYLOAD_FORMAT), Some(1));
        assert_eq!(
            properties.text(property::RESPONSE_TOPIC),
            Some("answer/to/é")
        );
        assert_eq!(properties.all(property::CORRELATION_DATA), [[0, 1, 0xFF]]);
        assert_eq!(properties.text(property::CONTENT_TYPE), Some("text/plain"));
        assert_eq!(
            properties.all(property::USER_PROPERTY),
            [&b"z=1"[..], b"a=2", b"z=1", b"="]
        );
        assert!(!properties.has(property::MESSAGE_EXPIRY));
        peer.settle(&message);
    }
}

/// [MQTT-3.3.2-14]
#[test]
fn a_response_topic_with_wildcards_is_refused() {
    if oracle_deviates("passes response topics on unread") {
        return;
    }
    for topic in ["a/+", "#"] {
        let mut peer = Peer::new(V5);
        peer.send(
            &Publish::new("a", "x")
                .with(property::text(property::RESPONSE_TOPIC, topic))
                .bytes(V5),
        );
        peer.expect_end(&[0x81, 0x82, 0x90]);
    }
}

/// [MQTT-3.3.2-13] [MQTT-3.3.2-19] [MQTT-1.5.7-1]
#[test]
fn strings_in_publish_properties_must_be_utf_8() {
    for property in [
        property::text(property::RESPONSE_TOPIC, b"\xFF"),
        property::text(property::CONTENT_TYPE, b"\xED\xA0\x80"),
        [
            vec![property::USER_PROPERTY],
            field(b"\xC0\x80"),
            field("a"),
        ]
        .concat(),
    ] {
        let mut peer = Peer::new(V5);
        peer.send(&Publish::new("a", "x").with(property).bytes(V5));
        peer.expect_end(&[0x81, 0x90]);
    }
}

/// [MQTT-3.3.2-6]
#[test]
fn the_expiry_interval_counts_down_while_a_message_waits() {
    let (name, topic) = (unique("c"), unique("t"));
    let (mut peer, _) = Peer::connect(&Connect::lasting(V5, &name));
    peer.subscribe(&topic, 1);
    let mut publisher = Peer::new(V5);
    let publish = |text: &str, seconds| {
        Publish::new(&topic, text)
            .with(property::four(property::MESSAGE_EXPIRY, seconds))
            .qos(1, 3)
    };
    publisher.publish(&publish("fresh", 1000));
    let fresh = peer.message();
    assert!(
        (999..=1000).contains(
            &fresh
                .properties
                .number(property::MESSAGE_EXPIRY)
                .expect("still there")
        )
    );
    peer.settle(&fresh);
    assert_eq!(peer.until_pong(), []);
    peer.vanish();
    publisher.publish(&publish("waiting", 1000));
    wait_for_a_delayed_will(2);
    let (mut peer, _) = Peer::connect(&Connect::lasting(V5, &name));
    let waited = peer.message();
    assert!(
        (990..=999).contains(
            &waited
                .properties
                .number(property::MESSAGE_EXPIRY)
                .expect("still there")
        )
    );
    peer.settle(&waited);
    peer.leave();
}

/// [MQTT-3.3.2-5]
#[test]
fn a_message_that_expires_before_its_delivery_is_not_delivered() {
    let (name, topic) = (unique("c"), unique("t"));
    let (mut peer, _) = Peer::connect(&Connect::lasting(V5, &name));
    peer.subscribe(&topic, 2);
    peer.vanish();
    let mut publisher = Peer::new(V5);
    for qos in [1, 2] {
        let brief = Publish::new(&topic, "brief").with(property::four(property::MESSAGE_EXPIRY, 1));
        publisher.publish(&brief.qos(qos, 3));
    }
    publisher.publish(&Publish::new(&topic, "lasting").qos(1, 4));
    wait_for_a_delayed_will(2);
    let (mut peer, _) = Peer::connect(&Connect::lasting(V5, &name));
    let received: Vec<_> = peer
        .messages_until_mark(&mut publisher)
        .iter()
        .map(|m| m.text().to_owned())
        .collect();
    assert_eq!(received, ["lasting"]);
    peer.leave();
}

/// [MQTT-4.3.3-7] [MQTT-4.3.3-13]
#[test]
fn an_exchange_that_began_is_finished_although_the_message_expires() {
    let topic = unique("t");
    let (mut publisher, mut peer) = (Peer::new(V5), Peer::new(V5));
    peer.subscribe(&topic, 2);
    let brief = Publish::new(&topic, "brief")
        .with(property::four(property::MESSAGE_EXPIRY, 1))
        .qos(2, 3);
    publisher.send(&brief.bytes(V5));
    assert_eq!(publisher.ack(PUBREC, 3), 0);
    let half = brief.clone().qos(2, 4);
    publisher.send(&half.bytes(V5));
    assert_eq!(publisher.ack(PUBREC, 4), 0);
    publisher.send(&ack(PUBREL, 3));
    assert_eq!(publisher.ack(PUBCOMP, 3), 0);
    let message = peer.message();
    wait_for_a_delayed_will(2);
    // Towards the subscriber, and from the publisher.
    peer.send(&ack(PUBREC, message.id));
    let answered = peer.until_pong();
    let finished = |p: &Packet| matches!(p, Packet::Ack { kind: PUBREL, id, reason: 0, .. } if *id == message.id);
    assert!(answered.iter().any(finished), "{answered:?}");
    publisher.send(&ack(PUBREL, 4));
    assert_eq!(publisher.ack(PUBCOMP, 4), 0);
}

/// Time passes as the broker counts it: until it publishes a will that was delayed by so many seconds.
fn wait_for_a_delayed_will(seconds: u32) {
    let topic = unique("clock");
    let mut watcher = Peer::new(V5);
    watcher.subscribe(&topic, 0);
    let connect = Connect::lasting(V5, unique("clock")).will(&topic, "", 0, false);
    Peer::connect(&connect.will_with(property::four(property::WILL_DELAY, seconds)))
        .0
        .vanish();
    watcher.message();
}

/// [MQTT-3.4.2-1] [MQTT-3.5.2-1]
#[test]
fn publishing_to_nobody_succeeds_and_may_say_so() {
    let mut peer = Peer::new(V5);
    for qos in [1, 2] {
        let topic = unique("nobody");
        let code = {
            peer.send(&Publish::new(&topic, "x").qos(qos, 8).bytes(V5));
            peer.ack(if qos == 1 { PUBACK } else { PUBREC }, 8)
        };
        assert!(
            code == 0x10 || oracle_deviates("says success"),
            "no matching subscribers: {code:#04x}"
        );
        if qos == 2 {
            peer.send(&ack(PUBREL, 8));
            assert_eq!(peer.ack(PUBCOMP, 8), 0);
        }
    }
}

/// [MQTT-3.7.2-1] [MQTT-3.6.2-1] [MQTT3-4.3.3-2]
#[test]
fn acknowledgements_of_nothing_do_no_harm() {
    for version in BOTH {
        let mut peer = Peer::new(version);
        peer.send(&ack(PUBREL, 500));
        let reason = peer.ack(PUBCOMP, 500);
        let expected = if version == V5 { 0x92 } else { 0 };
        assert!(
            reason == expected || oracle_deviates("says success"),
            "{reason:#04x}"
        );
        peer.send(&ack(PUBREC, 501));
        match peer.until_pong().as_slice() {
            [] => assert!(version == V311 || oracle_deviates("ignores a PUBREC of nothing")),
            [
                Packet::Ack {
                    kind: PUBREL,
                    id: 501,
                    reason,
                    ..
                },
            ] => {
                assert!(
                    *reason == expected || oracle_deviates("says success"),
                    "{reason:#04x}"
                );
            }
            other => panic!("{other:?}"),
        }
        peer.send(&ack(PUBACK, 502));
        peer.send(&ack(PUBCOMP, 503));
        assert_eq!(peer.until_pong(), []);
    }
}

/// The identifier of an open QoS 2 exchange is in use: whatever else a client sends under it, that exchange is not disturbed.
/// [MQTT-2.2.1-3] [MQTT-4.3.3-10] [MQTT3-2.3.1-2]
#[test]
fn an_identifier_in_use_does_not_disturb_its_exchange() {
    if oracle_deviates("mixes them up") {
        return;
    }
    for version in BOTH {
        let topic = unique("t");
        let (mut publisher, mut peer) = (Peer::new(version), Peer::new(version));
        peer.subscribe(&topic, 0);
        publisher.send(&Publish::new(&topic, "two").qos(2, 5).bytes(version));
        assert_eq!(publisher.ack(PUBREC, 5), 0);
        publisher.send(&Publish::new(&topic, "one").qos(1, 5).bytes(version));
        match publisher.next() {
            // Taken as a message of its own, or refused.
            Packet::Ack {
                kind: PUBACK,
                id: 5,
                reason: 0 | 0x91,
                ..
            } => {}
            Packet::Disconnect { reason: 0x82, .. } => continue,
            other => panic!("{other:?}"),
        }
        publisher.send(&ack(PUBREL, 5));
        assert_eq!(publisher.ack(PUBCOMP, 5), 0);
        let received = peer.messages_until_mark(&mut publisher);
        assert_eq!(
            received
                .iter()
                .filter(|message| message.text() == "two")
                .count(),
            1
        );
    }
}

/// [MQTT-4.4.0-2] [MQTT-3.5.2-1] [MQTT-4.3.3-9]
#[test]
fn a_message_the_client_refuses_is_settled() {
    let (name, topic) = (unique("c"), unique("t"));
    let (mut peer, _) = Peer::connect(&Connect::lasting(V5, &name));
    peer.subscribe(&topic, 2);
    let mut publisher = Peer::new(V5);
    for (qos, kind) in [(1, PUBACK), (2, PUBREC)] {
        publisher.publish(&Publish::new(&topic, "no").qos(qos, 1));
        let message = peer.message();
        peer.send(&ack_with(kind, message.id, 0x80));
    }
    assert_eq!(
        peer.until_pong(),
        [],
        "no PUBREL after a PUBREC that refuses"
    );
    peer.vanish();
    let (mut peer, _) = Peer::connect(&Connect::lasting(V5, &name));
    assert_eq!(peer.messages_until_mark(&mut publisher), []);
    peer.leave();
}

/// [MQTT-3.3.4-6] [MQTT-4.13.1-1]
#[test]
fn a_subscription_identifier_from_a_client_is_a_protocol_error() {
    if oracle_deviates("takes subscription identifiers from clients") {
        return;
    }
    let mut peer = Peer::new(V5);
    peer.send(
        &Publish::new("a", "x")
            .with(property::varint(property::SUBSCRIPTION_ID, 1))
            .bytes(V5),
    );
    peer.expect_end(&[0x81, 0x82]);
}
