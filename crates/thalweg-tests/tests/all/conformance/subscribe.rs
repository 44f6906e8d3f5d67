//! SUBSCRIBE and UNSUBSCRIBE: their answers, options, overlaps, and the matches of filters.

use super::BOTH;
use super::packet::Version::*;
use super::packet::*;
use super::peer::*;

const NO_LOCAL: u8 = 0x04;

/// [MQTT-3.8.4-1] [MQTT-3.8.4-2] [MQTT-3.8.4-5] [MQTT-3.8.4-6] [MQTT-3.8.4-7] [MQTT-3.9.3-1] [MQTT-3.9.3-2] [MQTT-2.2.1-6]
/// [MQTT3-3.8.4-1] [MQTT3-3.8.4-2] [MQTT3-3.8.4-4] [MQTT3-3.8.4-5] [MQTT3-3.9.3-1] [MQTT3-3.9.3-2] [MQTT3-2.3.1-7]
#[test]
fn suback_repeats_the_identifier_and_answers_each_filter_in_order() {
    for version in [V31, V311, V5] {
        let stem = unique("t");
        let filters = [
            format!("{stem}/a"),
            format!("{stem}/+"),
            format!("{stem}/#"),
            format!("{stem}/b"),
        ];
        let asked: Vec<(&str, u8)> = filters
            .iter()
            .map(String::as_str)
            .zip([2, 0, 1, 2])
            .collect();
        let mut peer = Peer::new(version);
        peer.send(&subscribe(version, 40_000, &[], &asked));
        let answer = peer.next();
        assert!(
            matches!(&answer, Packet::Suback { id: 40_000, codes, .. } if codes == &[2, 0, 1, 2]),
            "{answer:?}"
        );
        assert_eq!(peer.until_pong(), [], "one SUBACK");
    }
}

/// [MQTT-3.8.4-8] [MQTT3-3.8.4-6]
#[test]
fn messages_come_with_the_lower_of_published_and_granted_qos() {
    for version in BOTH {
        let mut publisher = Peer::new(version);
        for granted in 0..=2 {
            let topic = unique("t");
            let mut peer = Peer::new(version);
            assert_eq!(peer.subscribe(&topic, granted), granted);
            for published in 0..=2 {
                publisher.publish(&Publish::new(&topic, "x").qos(published, 1));
                let message = peer.message();
                assert_eq!(message.qos, published.min(granted));
                peer.settle(&message);
            }
        }
    }
}

/// [MQTT-3.8.4-3] [MQTT3-3.8.4-3]
#[test]
fn subscribing_again_replaces_the_subscription() {
    for version in BOTH {
        let topic = unique("t");
        let (mut publisher, mut peer) = (Peer::new(version), Peer::new(version));
        assert_eq!(peer.subscribe(&topic, 2), 2);
        assert_eq!(peer.subscribe(&topic, 0), 0);
        publisher.publish(&Publish::new(&topic, "x").qos(2, 1));
        let received = peer.messages_until_mark(&mut publisher);
        assert_eq!(
            received.len(),
            1,
            "one subscription, one message: {received:?}"
        );
        assert_eq!(received[0].qos, 0, "with the new QoS");
        assert_eq!(peer.subscribe(&topic, 1), 1);
        publisher.publish(&Publish::new(&topic, "x").qos(2, 2));
        assert_eq!(peer.message().qos, 1);
    }
}

/// [MQTT-3.8.4-4] [MQTT3-3.8.4-3]
#[test]
fn replacing_a_subscription_loses_no_message() {
    for version in BOTH {
        let topic = unique("t");
        let (mut publisher, mut peer) = (Peer::new(version), Peer::new(version));
        peer.subscribe(&topic, 1);
        let feeder = std::thread::spawn({
            let topic = topic.clone();
            move || {
                for number in 1..=60_u16 {
                    publisher.publish(&Publish::new(&topic, number.to_string()).qos(1, number));
                }
            }
        });
        let mut subscribes = 0;
        for number in 1..=60 {
            if number % 3 == 0 {
                peer.subscribe(&topic, 1);
                subscribes += 1;
            }
            let message = peer.message();
            assert_eq!(message.text(), number.to_string());
            peer.settle(&message);
        }
        feeder.join().expect("all was acknowledged");
        assert_eq!(subscribes, 20);
    }
}

/// [MQTT-3.3.4-2] [MQTT-3.3.4-3] [MQTT-3.3.4-4] [MQTT3-3.3.5-1]
#[test]
fn overlapping_subscriptions_bring_one_copy_with_the_highest_qos_and_all_identifiers() {
    for version in BOTH {
        let stem = unique("overlap");
        let mut peer = Peer::new(version);
        let with = |id| {
            if version == V5 {
                property::varint(property::SUBSCRIPTION_ID, id)
            } else {
                vec![]
            }
        };
        let topic = format!("{stem}/a/b");
        peer.subscribe_all(&with(1), &[(&format!("{stem}/#"), 0)]);
        peer.subscribe_all(&with(268_435_455), &[(&format!("{stem}/+/b"), 2)]);
        peer.subscribe_all(&[], &[(&topic, 1)]);
        peer.subscribe_all(&with(128), &[(&format!("{stem}/+/+"), 1)]);
        let mut publisher = Peer::new(version);
        publisher.publish(&Publish::new(&topic, "x").qos(2, 1));
        let received = peer.messages_until_mark(&mut publisher);
        let highest = received.iter().map(|message| message.qos).max();
        assert!(
            highest == Some(2) || oracle_deviates("takes the first subscription it finds"),
            "{received:?}"
        );
        let mut ids: Vec<u32> = received
            .iter()
            .flat_map(|message| message.properties.numbers(property::SUBSCRIPTION_ID))
            .collect();
        ids.sort_unstable();
        let expected = [1, 128, 268_435_455];
        assert_eq!(ids, if version == V5 { &expected[..] } else { &[] });
        assert!(
            received.len() == 1 || oracle_deviates("may send a copy for each"),
            "{received:?}"
        );
    }
}

/// [MQTT-3.3.4-3] [MQTT-3.8.4-3]
#[test]
fn a_replaced_subscription_has_the_new_identifier() {
    let topic = unique("t");
    let mut peer = Peer::new(V5);
    peer.subscribe_all(
        &property::varint(property::SUBSCRIPTION_ID, 5),
        &[(&topic, 0)],
    );
    peer.publish(&Publish::new(&topic, "x"));
    assert_eq!(
        peer.message().properties.numbers(property::SUBSCRIPTION_ID),
        [5]
    );
    peer.subscribe_all(
        &property::varint(property::SUBSCRIPTION_ID, 6),
        &[(&topic, 0)],
    );
    peer.publish(&Publish::new(&topic, "x"));
    assert_eq!(
        peer.message().properties.numbers(property::SUBSCRIPTION_ID),
        [6]
    );
    peer.subscribe(&topic, 0);
    peer.publish(&Publish::new(&topic, "x"));
    assert_eq!(
        peer.message().properties.numbers(property::SUBSCRIPTION_ID),
        [0; 0]
    );
}

/// [MQTT-4.13.1-1]
#[test]
fn a_subscription_identifier_of_0_or_two_of_them_are_protocol_errors() {
    let id = |value| property::varint(property::SUBSCRIPTION_ID, value);
    for properties in [id(0), [id(1), id(2)].concat()] {
        if properties.len() > 2 && oracle_deviates("takes two") {
            continue;
        }
        let mut peer = Peer::new(V5);
        peer.send(&subscribe(V5, 1, &properties, &[("a", 0)]));
        peer.expect_end(&[0x81, 0x82]);
    }
}

/// [MQTT-3.8.3-3]
#[test]
fn no_local_keeps_a_clients_own_messages_from_it() {
    let topic = unique("local");
    let (mut peer, mut other) = (Peer::new(V5), Peer::new(V5));
    peer.subscribe(&topic, 1 | NO_LOCAL);
    for qos in 0..=2 {
        peer.publish(&Publish::new(&topic, "mine").qos(qos, 1));
        other.publish(&Publish::new(&topic, "yours").qos(qos, 1));
    }
    let received: Vec<_> = peer
        .messages_until_mark(&mut other)
        .iter()
        .map(|m| m.text().to_owned())
        .collect();
    assert_eq!(received, ["yours"; 3]);
}

/// The publisher is known by its client id, not by its connection. [MQTT-3.8.3-3]
#[test]
fn no_local_still_knows_its_publisher_after_a_reconnect() {
    let (name, topic) = (unique("local"), unique("t"));
    let (mut peer, _) = Peer::connect(&Connect::lasting(V5, &name));
    peer.subscribe(&topic, 1 | NO_LOCAL);
    peer.vanish();
    let (mut peer, _) = Peer::connect(&Connect::lasting(V5, &name));
    peer.publish(&Publish::new(&topic, "mine").qos(1, 1));
    assert_eq!(peer.messages_until_own_mark(), []);
    peer.leave();
}

/// [MQTT-4.7.1-1] [MQTT-4.7.1-2] [MQTT-4.7.3-4] [MQTT-3.3.2-3] [MQTT3-4.7.1-2] [MQTT3-4.7.1-3] [MQTT3-4.7.3-4] [MQTT3-3.3.2-3]
#[test]
fn wildcards_match_whole_levels() {
    let cases = [
        ("s/#", "s", true),
        ("s/#", "s/", true),
        ("s/#", "s/a/b/c", true),
        ("s/+", "s", false),
        ("s/+", "s/", true),
        ("s/+", "s/a", true),
        ("s/+", "s/a/b", false),
        ("s/+/b", "s/a/b", true),
        ("s/+/b", "s//b", true),
        ("s/+/b", "s/b", false),
        ("s/+/+/#", "s/a/b", true),
        ("s/+/+/#", "s/a", false),
        ("s/a", "s/A", false),
        ("s/a", "s/a/", false),
        ("s/a/", "s/a", false),
        ("s//a", "s/a", false),
        ("s/+/", "s/a/", true),
        ("+/a", "s/a", true),
        ("+", "s", true),
    ];
    for version in BOTH {
        for (filter, topic, matches) in cases {
            let stem = unique("m");
            // The stem takes the place of the first level; a wildcard there is left as it is.
            let filter = if filter.starts_with('+') {
                filter.to_owned()
            } else {
                filter.replacen('s', &stem, 1)
            };
            let topic = topic.replacen('s', &stem, 1);
            let mut peer = Peer::new(version);
            assert_eq!(peer.subscribe(&filter, 0), 0);
            peer.publish(&Publish::new(&topic, "x"));
            let received = peer.messages_until_own_mark();
            let count = received
                .iter()
                .filter(|message| message.topic == topic)
                .count();
            assert_eq!(count, usize::from(matches), "{filter} and {topic}");
        }
    }
}

/// [MQTT-4.7.2-1] [MQTT3-4.7.2-1]
#[test]
fn leading_wildcards_do_not_see_dollar_topics() {
    for version in BOTH {
        let level = unique("dollar");
        let topics = [
            format!("${level}"),
            format!("${level}/a"),
            format!("{level}/$a"),
        ];
        let mut peer = Peer::new(version);
        for filter in ["#", "+", "+/a", &format!("{level}/+")] {
            assert_eq!(
                peer.subscribe(filter, if version == V5 { 0x20 } else { 0 }),
                0
            );
        }
        let mut named = Peer::new(version);
        named.subscribe(&format!("${level}/#"), 0);
        for topic in &topics {
            peer.publish(&Publish::new(topic, "x"));
        }
        let received = peer.messages_until_own_mark();
        let seen: Vec<&str> = received
            .iter()
            .map(|m| m.topic.as_str())
            .filter(|topic| topic.contains(&level))
            .collect();
        assert!(
            seen.contains(&topics[2].as_str()),
            "a $ further back is nothing special"
        );
        assert!(
            !received
                .iter()
                .any(|message| message.topic.starts_with('$')),
            "{seen:?}"
        );
        let received: Vec<_> = named
            .messages_until_mark(&mut peer)
            .into_iter()
            .map(|message| message.topic)
            .collect();
        assert_eq!(received, topics[..2], "who names the $ level sees it");
    }
}

/// [MQTT-4.7.1-1] [MQTT-4.7.1-2] [MQTT-4.7.3-1] [MQTT-4.7.3-2] [MQTT-3.8.3-1] [MQTT-1.5.4-1] [MQTT-1.5.4-2] [MQTT-3.9.3-2]
/// [MQTT3-4.7.1-2] [MQTT3-4.7.1-3] [MQTT3-4.7.3-1] [MQTT3-4.7.3-2] [MQTT3-3.8.3-1] [MQTT3-3.10.3-1] [MQTT-3.10.3-1]
#[test]
fn a_filter_must_be_a_filter() {
    let bad: [&[u8]; 11] = [
        b"",
        b"a#",
        b"#/a",
        b"a/#/b",
        b"a+",
        b"+a",
        b"a/b+/c",
        b"##",
        b"a\0",
        b"\xFF",
        b"\xED\xA0\x80",
    ];
    for version in BOTH {
        for filter in bad {
            let mut body = 9_u16.to_be_bytes().to_vec();
            if version == V5 {
                body.push(0);
            }
            body.extend(field(filter));
            // In UNSUBSCRIBE a string that is no filter can match none; only what is no string at all is malformed there.
            let is_text = std::str::from_utf8(filter).is_ok_and(|text| !text.contains('\0'));
            let mut peer = Peer::new(version);
            if !is_text {
                peer.send(&packet(0xA2, &body));
                peer.expect_end(&[0x81, 0x82, 0x8F]);
                peer = Peer::new(version);
            }
            body.push(0);
            peer.send(&packet(0x82, &body));
            // Either this one filter is refused or the connection closes.
            if let Some(codes) = peer.until_close_or_suback() {
                assert_eq!(
                    codes,
                    if version == V5 { [0x8F] } else { [0x80] },
                    "{filter:?}"
                );
            }
        }
    }
}

/// [MQTT-3.8.3-5] [MQTT-4.13.1-1] [MQTT3-3.8.3-4]
#[test]
fn reserved_option_bits_are_malformed() {
    for version in BOTH {
        let bad: &[u8] = match version {
            V5 => &[0x40, 0x80, 0xC0, 0x03, 0x30],
            _ => &[0x03, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80],
        };
        for options in bad {
            let mut peer = Peer::new(version);
            peer.send(&subscribe(version, 1, &[], &[("a", *options)]));
            peer.expect_end(&[0x81, 0x82]);
        }
    }
}

/// [MQTT-3.8.3-2] [MQTT-3.10.3-2] [MQTT-4.13.1-1] [MQTT3-3.8.3-3] [MQTT3-3.10.3-2] [MQTT3-4.8.0-1]
#[test]
fn subscribe_and_unsubscribe_need_at_least_one_filter() {
    for version in BOTH {
        for bytes in [
            subscribe(version, 1, &[], &[]),
            unsubscribe(version, 1, &[]),
        ] {
            let mut peer = Peer::new(version);
            peer.send(&bytes);
            peer.expect_end(&[0x81, 0x82]);
        }
    }
}

/// [MQTT-2.2.1-3] [MQTT3-2.3.1-1]
#[test]
fn subscribe_and_unsubscribe_need_an_identifier() {
    for version in BOTH {
        for bytes in [
            subscribe(version, 0, &[], &[("a", 0)]),
            unsubscribe(version, 0, &["a"]),
        ] {
            let mut peer = Peer::new(version);
            peer.send(&bytes);
            peer.expect_end(&[0x81, 0x82]);
        }
    }
}

/// [MQTT-3.10.4-1] [MQTT-3.10.4-2] [MQTT-3.10.4-4] [MQTT-3.10.4-5] [MQTT-3.10.4-6] [MQTT-3.11.3-1] [MQTT-3.11.3-2] [MQTT-2.2.1-6]
/// [MQTT3-3.10.4-1] [MQTT3-3.10.4-2] [MQTT3-3.10.4-4] [MQTT3-3.10.4-5] [MQTT3-3.10.4-6] [MQTT3-2.3.1-7]
#[test]
fn unsubscribe_ends_exactly_the_named_subscriptions() {
    for version in BOTH {
        let stem = unique("un");
        let (a, plus, hash) = (
            format!("{stem}/a"),
            format!("{stem}/+"),
            format!("{stem}/#"),
        );
        let mut peer = Peer::new(version);
        for filter in [&a, &plus, &hash] {
            peer.subscribe(filter, 0);
        }
        peer.send(&unsubscribe(
            version,
            50_001,
            &[&plus, "never/subscribed", &hash],
        ));
        let answer = peer.next();
        let expected: &[u8] = if version == V5 {
            &[0x00, 0x11, 0x00]
        } else {
            &[]
        };
        assert!(
            matches!(&answer, Packet::Unsuback { id: 50_001, codes, .. } if codes == expected),
            "{answer:?}"
        );
        peer.publish(&Publish::new(&a, "still"));
        peer.publish(&Publish::new(format!("{stem}/b"), "no more"));
        let received: Vec<_> = peer
            .messages_until_own_mark()
            .into_iter()
            .map(|message| message.topic)
            .collect();
        assert_eq!(received, [a.as_str()]);
        peer.send(&unsubscribe(version, 50_002, &["never/subscribed"]));
        let answer = peer.next();
        assert!(
            matches!(&answer, Packet::Unsuback { id: 50_002, .. }),
            "{answer:?}"
        );
    }
}

/// [MQTT-3.10.4-3] [MQTT3-3.10.4-3]
#[test]
fn deliveries_that_began_are_completed_after_unsubscribe() {
    for version in BOTH {
        let topic = unique("t");
        let (name, mut publisher) = (unique("c"), Peer::new(version));
        let (mut peer, _) = Peer::connect(&Connect::lasting(version, &name));
        peer.subscribe(&topic, 2);
        publisher.publish(&Publish::new(&topic, "one").qos(1, 1));
        publisher.publish(&Publish::new(&topic, "two").qos(2, 2));
        let (one, two) = (peer.message(), peer.message());
        peer.unsubscribe(&[&topic]);
        publisher.publish(&Publish::new(&topic, "three").qos(1, 3));
        peer.vanish();
        let (mut peer, _) = Peer::connect(&Connect::lasting(version, &name));
        for sent in [one, two] {
            let again = peer.message();
            assert_eq!(
                (again.id, again.dup, &again.payload),
                (sent.id, true, &sent.payload)
            );
            peer.settle(&again);
        }
        assert_eq!(peer.messages_until_own_mark(), []);
        peer.leave();
    }
}
