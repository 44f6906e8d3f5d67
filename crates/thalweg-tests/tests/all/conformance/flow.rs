//! Flow control and sizes, both ways: Receive Maximum, Maximum Packet Size, Topic Alias.

use super::packet::Version::*;
use super::packet::*;
use super::peer::*;

/// A client that grants `maximum` and is subscribed to `topic`.
fn receiver(maximum: u16, topic: &str, qos: u8) -> Peer {
    let connect =
        Connect::new(V5, unique("c")).with(property::two(property::RECEIVE_MAXIMUM, maximum));
    let (mut peer, _) = Peer::connect(&connect);
    peer.subscribe(topic, qos);
    peer
}

/// [MQTT-3.3.4-9] [MQTT-4.9.0-1] [MQTT-4.9.0-2]
#[test]
fn the_broker_keeps_within_the_clients_receive_maximum() {
    if oracle_deviates("sends more once the first was acknowledged") {
        return;
    }
    for qos in [1, 2] {
        for maximum in [1, 3] {
            let topic = unique("t");
            let mut peer = receiver(maximum, &topic, qos);
            let mut publisher = Peer::new(V5);
            for number in 1..=8 {
                publisher.publish(&Publish::new(&topic, number.to_string()).qos(qos, number));
            }
            let mut open: Vec<Message> = (0..maximum).map(|_| peer.message()).collect();
            assert_eq!(peer.until_pong(), [], "no more than {maximum}");
            let mut seen = open
                .iter()
                .map(|message| message.text().to_owned())
                .collect::<Vec<_>>();
            while !open.is_empty() {
                peer.settle(&open.remove(0));
                if seen.len() < 8 {
                    open.push(peer.message());
                    seen.push(open[open.len() - 1].text().to_owned());
                }
                assert_eq!(peer.until_pong(), []);
            }
            assert_eq!(
                seen,
                (1..=8).map(|number| number.to_string()).collect::<Vec<_>>()
            );
        }
    }
}

/// PUBREC alone does not free a place, unless it refuses. [MQTT-3.3.4-9] [MQTT-4.9.0-2]
#[test]
fn the_quota_grows_at_pubcomp_or_a_refusing_pubrec() {
    let topic = unique("t");
    let mut peer = receiver(1, &topic, 2);
    let mut publisher = Peer::new(V5);
    for number in 1..=3 {
        publisher.publish(&Publish::new(&topic, number.to_string()).qos(2, number));
    }
    let first = peer.message();
    peer.send(&ack(PUBREC, first.id));
    assert_eq!(peer.ack(PUBREL, first.id), 0);
    assert_eq!(peer.until_pong(), [], "PUBREC is no end");
    peer.send(&ack(PUBCOMP, first.id));
    let second = peer.message();
    assert_eq!(second.text(), "2");
    peer.send(&ack_with(PUBREC, second.id, 0x83));
    assert_eq!(peer.message().text(), "3");
}

/// [MQTT-3.3.4-10] [MQTT-4.9.0-3]
#[test]
fn an_exhausted_quota_holds_up_nothing_but_qos_1_and_2() {
    let topic = unique("t");
    let mut peer = receiver(1, &topic, 2);
    let mut publisher = Peer::new(V5);
    publisher.publish(&Publish::new(&topic, "held").qos(1, 1));
    let open = peer.message();
    publisher.publish(&Publish::new(&topic, "waits").qos(1, 2));
    // Everything else goes on: SUBACK, UNSUBACK, PINGRESP, QoS 0, and the peer's own publishing.
    assert_eq!(peer.subscribe(&unique("t"), 1), 1);
    assert_eq!(peer.unsubscribe(&["x"]), [0x11]);
    let own = unique("t");
    peer.subscribe(&own, 0);
    peer.publish(&Publish::new(&own, "zero"));
    assert_eq!(peer.message().text(), "zero");
    peer.publish(&Publish::new("nowhere", "x").qos(1, 7));
    peer.publish(&Publish::new("nowhere", "x").qos(2, 8));
    assert_eq!(peer.until_pong(), []);
    peer.settle(&open);
    assert_eq!(peer.message().text(), "waits");
}

/// [MQTT-3.3.4-9] [MQTT-4.4.0-1]
#[test]
fn the_quota_begins_anew_with_each_connection() {
    let (name, topic) = (unique("c"), unique("t"));
    let connect = Connect::lasting(V5, &name).with(property::two(property::RECEIVE_MAXIMUM, 2));
    let (mut peer, _) = Peer::connect(&connect);
    peer.subscribe(&topic, 1);
    let mut publisher = Peer::new(V5);
    for number in 1..=4 {
        publisher.publish(&Publish::new(&topic, number.to_string()).qos(1, number));
    }
    let first: Vec<u16> = (0..2).map(|_| peer.message().id).collect();
    peer.vanish();
    let (mut peer, _) = Peer::connect(&connect);
    let again: Vec<Message> = (0..2).map(|_| peer.message()).collect();
    assert_eq!(
        again.iter().map(|message| message.id).collect::<Vec<_>>(),
        first
    );
    assert_eq!(peer.until_pong(), [], "repetitions count");
    for message in &again {
        peer.settle(message);
    }
    assert_eq!([peer.message().text(), peer.message().text()], ["3", "4"]);
    peer.leave();
}

/// [MQTT-3.3.4-7] [MQTT-4.13.1-1]
#[test]
fn a_client_that_exceeds_the_brokers_receive_maximum_is_disconnected() {
    if oracle_deviates("answers PUBREC 0x97 and goes on") {
        return;
    }
    let (mut peer, connack) = Peer::connect(&Connect::new(V5, unique("c")));
    let maximum = connack
        .properties
        .number(property::RECEIVE_MAXIMUM)
        .unwrap_or(65_535);
    // QoS 2 without PUBREL keeps its place.
    for number in 1..=maximum.min(65_534) {
        let id = u16::try_from(number).expect("at most 65,535");
        peer.send(&Publish::new("flood", "").qos(2, id).bytes(V5));
        assert!(peer.ack(PUBREC, id) < 0x80, "{number} of {maximum}");
    }
    if maximum >= 65_535 {
        return;
    }
    peer.send(&Publish::new("flood", "").qos(2, 65_535).bytes(V5));
    peer.expect_end(&[0x93]);
}

/// [MQTT-3.1.2-24] [MQTT-3.1.2-25]
#[test]
fn what_is_too_large_for_a_client_is_dropped_as_if_it_were_sent() {
    if oracle_deviates("never gives the place of a dropped message back") {
        return;
    }
    for qos in 0..=2 {
        let topic = unique("t");
        let connect =
            Connect::new(V5, unique("c")).with(property::four(property::MAXIMUM_PACKET_SIZE, 100));
        let connect = connect.with(property::two(property::RECEIVE_MAXIMUM, 1));
        let (mut peer, _) = Peer::connect(&connect);
        peer.subscribe(&topic, qos);
        let mut publisher = Peer::new(V5);
        for (id, length) in (1..).zip([10, 200, 20, 101, 100_000, 30]) {
            publisher.publish(&Publish::new(&topic, vec![b'x'; length]).qos(qos, id));
        }
        let received = peer.messages_until_mark(&mut publisher);
        assert_eq!(
            received
                .iter()
                .map(|message| message.payload.len())
                .collect::<Vec<_>>(),
            [10, 20, 30]
        );
        assert!(received.iter().all(|message| message.size <= 100));
    }
}

/// The limit is of the whole packet, to the byte. [MQTT-3.1.2-24] [MQTT-3.1.2-25]
#[test]
fn a_packet_of_exactly_the_maximum_size_is_sent() {
    if oracle_deviates("is off by a byte") {
        return;
    }
    let topic = unique("t");
    let connect =
        Connect::new(V5, unique("c")).with(property::four(property::MAXIMUM_PACKET_SIZE, 100));
    let (mut peer, _) = Peer::connect(&connect);
    peer.subscribe(&topic, 0);
    // Fixed header 2, topic length 2, property length 1.
    let most = 100 - 5 - topic.len();
    peer.publish(&Publish::new(&topic, vec![b'x'; most]));
    peer.publish(&Publish::new(&topic, vec![b'x'; most + 1]));
    let sizes: Vec<usize> = peer
        .messages_until_own_mark()
        .iter()
        .map(|message| message.size)
        .collect();
    assert_eq!(sizes, [100]);
}

/// [MQTT-3.2.2-19] [MQTT-3.2.2-20] [MQTT-3.4.2-2] [MQTT-3.4.2-3] [MQTT-3.5.2-2] [MQTT-3.5.2-3] [MQTT-3.7.2-2] [MQTT-3.7.2-3]
/// [MQTT-3.9.2-1] [MQTT-3.9.2-2] [MQTT-3.11.2-1] [MQTT-3.11.2-2] [MQTT-3.14.2-3] [MQTT-3.14.2-4] [MQTT-3.6.2-2] [MQTT-3.6.2-3]
#[test]
fn answers_leave_out_what_would_make_them_too_large() {
    if oracle_deviates("does not look at the size of its CONNACK") {
        return;
    }
    // CONNACK with the limits it must tell fits, and every answer without explanations, but no sentence does.
    let connect = Connect::new(V5, unique("c"))
        .keep_alive(60)
        .with(property::four(property::MAXIMUM_PACKET_SIZE, 32));
    let connected = || Peer::open(V5).taking_at_most(32).accepted(&connect).0;
    let mut peer = connected();
    for (bytes, kind) in [
        (unsubscribe(V5, 2, &["never"]), None),
        (
            Publish::new("nobody/here", "").qos(1, 3).bytes(V5),
            Some(PUBACK),
        ),
        (
            Publish::new("nobody/here", "").qos(2, 4).bytes(V5),
            Some(PUBREC),
        ),
        (ack(PUBREL, 999), Some(PUBCOMP)),
        (ack(PUBREC, 998), Some(PUBREL)),
    ] {
        peer.send(&bytes);
        match peer.next() {
            Packet::Ack { kind: answered, .. } => assert_eq!(Some(answered), kind),
            other => assert!(
                matches!(other, Packet::Unsuback { .. }) && kind.is_none(),
                "{other:?}"
            ),
        }
    }
    peer.send(&subscribe(V5, 1, &[], &[("$share//bad", 0), ("fine", 0)]));
    let _ = peer.until_close_or_suback();
    let mut peer = connected();
    peer.send(&[0x00, 0x00]);
    peer.expect_end(&[0x81, 0x82]);
}

/// [MQTT-3.1.2-29]
#[test]
fn request_problem_information_0_keeps_explanations_out_of_answers() {
    let connect = Connect::new(V5, unique("c")).with(property::byte(property::REQUEST_PROBLEM, 0));
    let (mut peer, _) = Peer::connect(&connect);
    for bytes in [
        subscribe(V5, 1, &[], &[("a/#/b", 0), ("fine", 0)]),
        unsubscribe(V5, 2, &["never"]),
        Publish::new(unique("nobody"), "").qos(1, 3).bytes(V5),
        Publish::new(unique("nobody"), "").qos(2, 4).bytes(V5),
        ack(PUBREL, 999),
    ] {
        peer.send(&bytes);
        let properties = match peer.next() {
            Packet::Ack { properties, .. }
            | Packet::Suback { properties, .. }
            | Packet::Unsuback { properties, .. } => properties,
            Packet::Disconnect { .. } => {
                // A bad filter may also end the connection; then there is nothing more to ask on it.
                peer = Peer::connect(&connect).0;
                continue;
            }
            other => panic!("{other:?}"),
        };
        assert!(
            !properties.has(property::REASON_STRING) && !properties.has(property::USER_PROPERTY),
            "{properties:?}"
        );
    }
}

/// [MQTT-3.3.2-12] [MQTT-3.2.2-17]
#[test]
fn the_broker_takes_every_alias_it_allowed() {
    let (mut publisher, connack) = Peer::connect(&Connect::new(V5, unique("c")));
    let maximum = connack
        .properties
        .number(property::TOPIC_ALIAS_MAXIMUM)
        .unwrap_or(0) as u16;
    assert!(maximum > 0, "the default allows aliases");
    let stem = unique("alias");
    let mut peer = Peer::new(V5);
    peer.subscribe(&format!("{stem}/#"), 0);
    let alias = |number| property::two(property::TOPIC_ALIAS, number);
    for number in [1, maximum] {
        publisher.publish(&Publish::new(format!("{stem}/{number}"), "set").with(alias(number)));
        publisher.publish(&Publish::new("", "used").with(alias(number)));
        for text in ["set", "used"] {
            let message = peer.message();
            assert_eq!(
                (message.topic, message.payload),
                (format!("{stem}/{number}"), text.as_bytes().to_vec())
            );
            assert!(
                !message.properties.has(property::TOPIC_ALIAS),
                "the publisher's alias is not the subscriber's"
            );
        }
    }
    // An alias may be given to another topic.
    publisher.publish(&Publish::new(format!("{stem}/other"), "set").with(alias(1)));
    publisher.publish(&Publish::new("", "used").with(alias(1)).qos(1, 5));
    assert_eq!(peer.message().topic, format!("{stem}/other"));
    assert_eq!(peer.message().topic, format!("{stem}/other"));
}

/// [MQTT-3.3.2-8] [MQTT-3.3.2-9] [MQTT-3.2.2-17] [MQTT-3.2.2-18] [MQTT-4.13.1-1]
#[test]
fn aliases_out_of_range_or_unknown_end_the_connection() {
    let (_, connack) = Peer::connect(&Connect::new(V5, unique("c")));
    let maximum = connack
        .properties
        .number(property::TOPIC_ALIAS_MAXIMUM)
        .unwrap_or(0) as u16;
    let alias = |number| property::two(property::TOPIC_ALIAS, number);
    let cases = [
        (Publish::new("a", "x").with(alias(0)), [0x94, 0x82]),
        (
            Publish::new("a", "x").with(alias(maximum + 1)),
            [0x94, 0x94],
        ),
        (Publish::new("", "x").with(alias(1)), [0x82, 0x94]),
        (Publish::new("", "x"), [0x82, 0x90]),
        (
            Publish::new("a", "x").with(alias(1)).with(alias(1)),
            [0x82, 0x81],
        ),
    ];
    for (publish, codes) in cases {
        if codes == [0x94, 0x82] && oracle_deviates("calls alias 0 malformed") {
            continue;
        }
        let mut peer = Peer::new(V5);
        peer.send(&publish.bytes(V5));
        peer.expect_end(&codes);
    }
}

/// [MQTT-3.3.2-7]
#[test]
fn aliases_end_with_the_connection() {
    let name = unique("c");
    let alias = property::two(property::TOPIC_ALIAS, 1);
    let (mut peer, _) = Peer::connect(&Connect::lasting(V5, &name));
    peer.publish(&Publish::new("a", "x").with(alias.clone()));
    peer.until_pong();
    peer.vanish();
    let (mut peer, connack) = Peer::connect(&Connect::lasting(V5, &name));
    assert!(connack.session_present);
    peer.send(&Publish::new("", "x").with(alias).bytes(V5));
    peer.expect_end(&[0x82, 0x94]);
}

/// [MQTT-3.1.2-26] [MQTT-3.1.2-27] [MQTT-3.3.2-11] [MQTT-3.3.2-7] [MQTT-3.3.2-8]
#[test]
fn the_brokers_aliases_keep_within_what_the_client_allows() {
    for maximum in [None, Some(0), Some(2)] {
        let stem = unique("alias");
        let mut connect = Connect::new(V5, unique("c"));
        if let Some(maximum) = maximum {
            connect = connect.with(property::two(property::TOPIC_ALIAS_MAXIMUM, maximum));
        }
        let (mut peer, _) = Peer::connect(&connect);
        peer.subscribe(&format!("{stem}/#"), 0);
        let mut known = std::collections::HashMap::new();
        let mut publisher = Peer::new(V5);
        for number in [1, 2, 3, 1, 2, 3, 1, 1, 4, 1] {
            let topic = format!("{stem}/{number}");
            publisher.publish(&Publish::new(&topic, "x"));
            let message = peer.message();
            let meant = match message.properties.number(property::TOPIC_ALIAS) {
                None => message.topic,
                Some(alias) => {
                    assert!(
                        alias >= 1 && alias <= u32::from(maximum.unwrap_or(0)),
                        "alias {alias} of {maximum:?}"
                    );
                    if !message.topic.is_empty() {
                        known.insert(alias, message.topic);
                    }
                    known
                        .get(&alias)
                        .expect("an alias is set before it is used")
                        .clone()
                }
            };
            assert_eq!(meant, topic);
        }
    }
}
