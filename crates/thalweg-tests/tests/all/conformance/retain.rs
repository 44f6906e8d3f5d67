//! Retained messages: stored, replaced, removed, and sent to new subscriptions as these ask.

use super::BOTH;
use super::packet::Version::*;
use super::packet::*;
use super::peer::*;

const RETAIN_AS_PUBLISHED: u8 = 0x08;
const SEND_IF_NEW: u8 = 0x10;
const DO_NOT_SEND: u8 = 0x20;

/// Payloads that a new subscription to `filter` finds.
fn found(version: Version, filter: &str) -> Vec<String> {
    let mut peer = Peer::new(version);
    peer.subscribe(filter, 2);
    let messages = peer.messages_until_retained_marks();
    assert!(
        messages.iter().all(|message| message.retain),
        "sent because the subscription is new"
    );
    messages
        .iter()
        .map(|message| message.text().to_owned())
        .collect()
}

/// [MQTT-3.3.1-5] [MQTT-3.3.1-9] [MQTT3-3.3.1-5] [MQTT3-3.3.1-6] [MQTT3-3.3.1-7] [MQTT3-3.3.1-8]
#[test]
fn a_new_subscription_gets_the_last_retained_message() {
    for version in [V31, V311, V5] {
        for qos in 0..=2 {
            let topic = unique("retained");
            let mut publisher = Peer::new(version);
            assert_eq!(found(version, &topic), [""; 0]);
            publisher.publish(&Publish::new(&topic, "old").qos(2, 1).retain());
            publisher.publish(&Publish::new(&topic, "new").qos(qos, 2).retain());
            publisher.until_pong();
            let mut peer = Peer::new(version);
            peer.subscribe(&topic, 2);
            let message = peer.message();
            assert_eq!(
                (message.text(), message.qos, message.retain, message.dup),
                ("new", qos, true, false)
            );
            peer.settle(&message);
            publisher.publish(&Publish::new(&topic, "").retain());
        }
    }
}

/// [MQTT-3.3.1-6] [MQTT-3.3.1-7] [MQTT3-3.3.1-10] [MQTT3-3.3.1-11]
#[test]
fn an_empty_retained_message_removes_and_is_delivered_but_not_stored() {
    for version in BOTH {
        let topic = unique("removed");
        let (mut publisher, mut peer) = (Peer::new(version), Peer::new(version));
        publisher.publish(&Publish::new(&topic, "there").qos(1, 1).retain());
        assert_eq!(found(version, &topic), ["there"]);
        peer.subscribe(&topic, 0);
        assert_eq!(peer.message().text(), "there");
        publisher.publish(&Publish::new(&topic, "").qos(1, 2).retain());
        let message = peer.message();
        assert_eq!(
            (message.text(), message.retain),
            ("", false),
            "a normal message for standing subscriptions"
        );
        assert_eq!(found(version, &topic), [""; 0]);
    }
}

/// [MQTT-3.3.1-8] [MQTT3-3.3.1-12]
#[test]
fn a_message_without_retain_leaves_the_retained_one_alone() {
    for version in BOTH {
        let topic = unique("alone");
        let mut publisher = Peer::new(version);
        publisher.publish(&Publish::new(&topic, "passing").qos(1, 1));
        assert_eq!(found(version, &topic), [""; 0]);
        publisher.publish(&Publish::new(&topic, "kept").qos(1, 2).retain());
        publisher.publish(&Publish::new(&topic, "passing").qos(1, 3));
        publisher.publish(&Publish::new(&topic, "").qos(1, 4));
        assert_eq!(found(version, &topic), ["kept"]);
        publisher.publish(&Publish::new(&topic, "").qos(1, 5).retain());
    }
}

/// [MQTT-3.3.1-12] [MQTT3-3.3.1-9]
#[test]
fn a_standing_subscription_sees_retain_0() {
    for version in BOTH {
        let topic = unique("standing");
        let mut peer = Peer::new(version);
        peer.subscribe(&topic, 0);
        peer.publish(&Publish::new(&topic, "x").retain());
        assert!(!peer.message().retain);
        peer.publish(&Publish::new(&topic, "").retain());
    }
}

/// [MQTT-3.3.1-13]
#[test]
fn retain_as_published_keeps_the_flag_of_the_publisher() {
    let topic = unique("rap");
    let mut peer = Peer::new(V5);
    peer.subscribe(&topic, RETAIN_AS_PUBLISHED);
    peer.publish(&Publish::new(&topic, "x").retain());
    peer.publish(&Publish::new(&topic, "y"));
    peer.publish(&Publish::new(&topic, "").retain());
    let flags: Vec<bool> = (0..3).map(|_| peer.message().retain).collect();
    assert_eq!(flags, [true, false, true]);
}

/// [MQTT-3.3.1-9] [MQTT-3.3.1-10] [MQTT-3.3.1-11] [MQTT-3.8.4-4]
#[test]
fn retain_handling_decides_when_retained_messages_are_sent() {
    let topic = unique("handling");
    let mut publisher = Peer::new(V5);
    publisher.publish(&Publish::new(&topic, "kept").qos(1, 1).retain());
    let mut peer = Peer::new(V5);
    let mut count_after = |options: u8| {
        peer.subscribe(&topic, options);
        peer.messages_until_retained_marks().len()
    };
    assert_eq!(count_after(DO_NOT_SEND), 0, "2: never");
    assert_eq!(
        count_after(SEND_IF_NEW),
        0,
        "1: not for a subscription that exists"
    );
    assert_eq!(count_after(0), 1, "0: always");
    assert_eq!(count_after(0), 1, "0: always, again");
    peer.unsubscribe(&[&topic]);
    let mut count_after = |options: u8| {
        peer.subscribe(&topic, options);
        peer.messages_until_retained_marks().len()
    };
    assert_eq!(count_after(SEND_IF_NEW), 1, "1: for a new one");
    assert_eq!(
        count_after(SEND_IF_NEW | 1),
        0,
        "1: another QoS does not make it new"
    );
    publisher.publish(&Publish::new(&topic, "").qos(1, 2).retain());
}

/// [MQTT3-3.8.4-3] [MQTT3-3.3.1-6]
#[test]
fn subscribing_again_sends_retained_messages_again_in_mqtt_311() {
    let topic = unique("again");
    let mut peer = Peer::new(V311);
    peer.publish(&Publish::new(&topic, "kept").qos(1, 1).retain());
    for _ in 0..3 {
        peer.subscribe(&topic, 0);
        let message = peer.message();
        assert_eq!((message.text(), message.retain), ("kept", true));
    }
    peer.publish(&Publish::new(&topic, "").qos(1, 2).retain());
}

/// [MQTT-3.3.1-9] [MQTT-3.8.4-8] [MQTT3-3.3.1-6] [MQTT3-3.8.4-6]
#[test]
fn a_wildcard_finds_every_retained_message_below_it_with_the_lower_qos() {
    for version in BOTH {
        let stem = unique("many");
        let mut publisher = Peer::new(version);
        let topics = ["a", "a/b", "a/c", "b/c", ""].map(|end| format!("{stem}/{end}"));
        for (topic, id) in topics.iter().zip(1..) {
            publisher.publish(&Publish::new(topic, topic).qos(2, id).retain());
        }
        let seen = |filter: &str| {
            let mut seen = found(version, &format!("{stem}/{filter}"));
            seen.sort();
            seen.iter()
                .map(|topic| topic[stem.len() + 1..].to_owned())
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(seen("#"), " a a/b a/c b/c");
        assert_eq!(seen("+"), " a");
        assert_eq!(seen("+/c"), "a/c b/c");
        assert_eq!(seen("a/#"), "a a/b a/c");
        let mut peer = Peer::new(version);
        peer.subscribe(&topics[0], 1);
        assert_eq!(peer.message().qos, 1);
        for (topic, id) in topics.iter().zip(1..) {
            publisher.publish(&Publish::new(topic, "").qos(1, id).retain());
        }
    }
}

/// [MQTT3-3.1.2-7] [MQTT-3.3.1-5]
#[test]
fn a_retained_message_outlives_the_session_of_its_publisher() {
    for version in BOTH {
        let topic = unique("outlives");
        let mut publisher = Peer::new(version);
        publisher.publish(&Publish::new(&topic, "kept").qos(1, 1).retain());
        publisher.leave();
        assert_eq!(found(version, &topic), ["kept"]);
        Peer::new(version).publish(&Publish::new(&topic, "").qos(1, 1).retain());
    }
}

/// [MQTT-3.3.2-4] [MQTT-3.3.2-6] [MQTT-3.3.2-17] [MQTT-3.3.2-20]
#[test]
fn a_retained_message_keeps_its_properties() {
    let topic = unique("properties");
    let mut publisher = Peer::new(V5);
    let publish = Publish::new(&topic, "kept")
        .with(property::byte(property::PAYLOAD_FORMAT, 1))
        .with(property::four(property::MESSAGE_EXPIRY, 60))
        .with(property::text(property::CONTENT_TYPE, "text/plain"))
        .with(property::user("a", "b"));
    publisher.publish(&publish.qos(1, 1).retain());
    let mut peer = Peer::new(V5);
    peer.subscribe_all(
        &property::varint(property::SUBSCRIPTION_ID, 77),
        &[(&topic, 0)],
    );
    let properties = peer.message().properties;
    assert_eq!(properties.number(property::PAYLOAD_FORMAT), Some(1));
    let left = properties.number(property::MESSAGE_EXPIRY);
    assert!(
        left.is_some_and(|left| (50..=60).contains(&left)),
        "{left:?}"
    );
    assert_eq!(properties.text(property::CONTENT_TYPE), Some("text/plain"));
    assert_eq!(properties.all(property::USER_PROPERTY), [b"a=b"]);
    assert_eq!(properties.numbers(property::SUBSCRIPTION_ID), [77]);
    publisher.publish(&Publish::new(&topic, "").qos(1, 2).retain());
}

/// [MQTT-3.3.2-5]
#[test]
fn a_retained_message_expires() {
    let (topic, clock) = (unique("expires"), unique("clock"));
    let mut publisher = Peer::new(V5);
    let brief = Publish::new(&topic, "brief").with(property::four(property::MESSAGE_EXPIRY, 1));
    publisher.publish(&brief.qos(1, 1).retain());
    publisher.subscribe(&clock, 0);
    let connect = Connect::lasting(V5, unique("c")).will(&clock, "", 0, false);
    Peer::connect(&connect.will_with(property::four(property::WILL_DELAY, 2)))
        .0
        .vanish();
    publisher.message();
    assert_eq!(found(V5, &topic), [""; 0]);
}
