//! A broker that offers less than everything says so, and refuses the rest with the codes for it.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use super::BOTH;
use super::packet::Version::*;
use super::packet::*;
use super::peer::*;
use crate::broker::Broker;

/// A broker with most features switched off and every limit low; the oracle has no such settings.
fn narrow() -> Option<Arc<Broker>> {
    static NARROW: Kept = OnceLock::new();
    if oracle_deviates("is not configured so") {
        return None;
    }
    Some(kept(&NARROW, || {
        Broker::with()
            .set("mqtt.maximum_qos", "0")
            .set("mqtt.wildcard_subscriptions", "false")
            .set("mqtt.shared_subscriptions", "false")
            .set("mqtt.subscription_identifiers", "false")
            .set("mqtt.topic_alias_maximum", "0")
            .set("mqtt.keep_alive_max", "1s")
            .set("mqtt.response_information", "answers/")
            .set("retained.enabled", "false")
            .set("limits.packet_bytes_max", "500")
            .set("limits.client_id_bytes_max", "30")
    }))
}

/// A client of the broker with low limits; keep-alive is short there, so no client stays silent for long.
fn client(broker: &Arc<Broker>, version: Version) -> Peer {
    Peer::open_to(Arc::clone(broker), version)
        .accepted(&Connect::new(version, unique("n")))
        .0
}

/// Sends `bytes` as a connected client and expects the end.
fn ends(broker: &Arc<Broker>, version: Version, bytes: &[u8], codes: &[u8]) {
    let mut peer = client(broker, version);
    peer.send(bytes);
    peer.expect_end(codes);
}

/// Sends CONNECT and expects this refusal.
fn refused(broker: &Arc<Broker>, connect: &Connect, code: u8) {
    let mut peer = Peer::open_to(Arc::clone(broker), connect.version);
    peer.send(&connect.bytes());
    assert_eq!(peer.ending(), Ending::Connack(code), "{connect:?}");
}

/// [MQTT-3.2.2-9] [MQTT-3.2.2-8]
#[test]
fn connack_tells_everything_that_is_missing() {
    let Some(broker) = narrow() else { return };
    let ask = property::byte(property::REQUEST_RESPONSE, 1);
    let connect = Connect::new(V5, unique("n")).keep_alive(60).with(ask);
    let (_peer, connack) = Peer::open_to(broker, V5).accepted(&connect);
    let properties = connack.properties;
    for (id, value) in [
        (property::MAXIMUM_QOS, 0),
        (property::RETAIN_AVAILABLE, 0),
        (property::WILDCARD_AVAILABLE, 0),
        (property::SHARED_AVAILABLE, 0),
        (property::SUBSCRIPTION_ID_AVAILABLE, 0),
        (property::SERVER_KEEP_ALIVE, 1),
        (property::MAXIMUM_PACKET_SIZE, 500),
    ] {
        assert_eq!(
            properties.number(id),
            Some(value),
            "{id:#04x} in {properties:?}"
        );
    }
    assert_eq!(
        properties
            .number(property::TOPIC_ALIAS_MAXIMUM)
            .unwrap_or(0),
        0
    );
    assert_eq!(
        properties.text(property::RESPONSE_INFORMATION),
        Some("answers/")
    );
}

/// [MQTT-3.2.2-10] [MQTT-3.8.4-7] [MQTT3-3.8.4-5]
#[test]
fn subscriptions_ask_for_any_qos_and_are_granted_what_there_is() {
    let Some(broker) = narrow() else { return };
    for version in BOTH {
        let mut peer = client(&broker, version);
        assert_eq!(
            peer.subscribe_all(&[], &[("a", 0), ("b", 1), ("c", 2)]),
            [0, 0, 0]
        );
    }
}

/// [MQTT-3.2.2-11]
#[test]
fn a_publish_above_the_maximum_qos_is_refused() {
    let Some(broker) = narrow() else { return };
    for qos in [1, 2] {
        ends(
            &broker,
            V5,
            &Publish::new("a", "b").qos(qos, 1).bytes(V5),
            &[0x9B],
        );
    }
}

/// [MQTT-3.2.2-12] [MQTT-3.2.2-13]
#[test]
fn a_will_that_cannot_be_kept_refuses_the_connection() {
    let Some(broker) = narrow() else { return };
    for qos in [1, 2] {
        refused(
            &broker,
            &Connect::new(V5, unique("n")).will("a", "b", qos, false),
            0x9B,
        );
    }
    refused(
        &broker,
        &Connect::new(V5, unique("n")).will("a", "b", 0, true),
        0x9A,
    );
}

/// [MQTT-3.2.2-14]
#[test]
fn a_retained_publish_where_nothing_is_retained_is_refused() {
    let Some(broker) = narrow() else { return };
    ends(
        &broker,
        V5,
        &Publish::new("a", "b").retain().bytes(V5),
        &[0x9A],
    );
}

/// [MQTT-3.9.3-2] [MQTT-4.13.1-1] [MQTT3-3.8.3-2] [MQTT3-3.9.3-2]
#[test]
fn filters_of_a_kind_that_is_missing_are_refused() {
    let Some(broker) = narrow() else { return };
    for version in BOTH {
        for (filter, code) in [("a/#", 0xA2), ("+", 0xA2), ("$share/g/a", 0x9E)] {
            let mut peer = client(&broker, version);
            peer.send(&subscribe(version, 1, &[], &[(filter, 0)]));
            let expected = if version == V5 { code } else { 0x80 };
            match peer.next() {
                Packet::Suback { codes, .. } => assert_eq!(codes, [expected], "{filter}"),
                Packet::Disconnect { reason, .. } => assert_eq!(reason, expected, "{filter}"),
                other => panic!("{other:?}"),
            }
        }
    }
    let id = property::varint(property::SUBSCRIPTION_ID, 1);
    let mut peer = client(&broker, V5);
    peer.send(&subscribe(V5, 1, &id, &[("a", 0)]));
    match peer.next() {
        Packet::Suback { codes, .. } => assert_eq!(codes, [0xA1]),
        Packet::Disconnect { reason, .. } => assert_eq!(reason, 0xA1),
        other => panic!("{other:?}"),
    }
}

/// [MQTT-3.2.2-15] [MQTT-4.13.1-1] [MQTT3-4.8.0-1]
#[test]
fn a_packet_above_the_maximum_size_ends_the_connection_before_it_is_read() {
    let Some(broker) = narrow() else { return };
    for version in BOTH {
        ends(
            &broker,
            version,
            &Publish::new("a", [b'x'; 600]).bytes(version),
            &[0x95],
        );
        // The length alone is enough: the rest of these 256 MB never comes.
        ends(&broker, version, &[0x30, 0xFF, 0xFF, 0xFF, 0x7F], &[0x95]);
    }
    let mut peer = client(&broker, V5);
    peer.publish(&Publish::new("a", [b'x'; 400]));
    assert_eq!(peer.until_pong(), []);
}

/// [MQTT-3.2.2-17] [MQTT-3.2.2-18] [MQTT-3.3.2-9]
#[test]
fn an_alias_where_none_are_allowed_is_refused() {
    let Some(broker) = narrow() else { return };
    ends(
        &broker,
        V5,
        &Publish::new("a", "b")
            .with(property::two(property::TOPIC_ALIAS, 1))
            .bytes(V5),
        &[0x94],
    );
}

/// [MQTT-3.1.3-8] [MQTT3-3.1.3-9] [MQTT3-3.2.2-5]
#[test]
fn a_client_id_that_is_too_long_is_refused() {
    let Some(broker) = narrow() else { return };
    refused(&broker, &Connect::new(V5, [b'x'; 31]), 0x85);
    refused(&broker, &Connect::new(V311, [b'x'; 31]), 0x02);
}

/// [MQTT-3.1.2-21] [MQTT-3.2.2-21] [MQTT-3.1.2-22]
#[test]
fn the_brokers_keep_alive_counts_instead_of_the_clients() {
    let Some(broker) = narrow() else { return };
    // Before the last packet that the broker reads.
    let begun = Instant::now();
    let (peer, _) =
        Peer::open_to(broker, V5).accepted(&Connect::new(V5, unique("n")).keep_alive(600));
    peer.expect_end(&[0x8D]);
    let silence = begun.elapsed();
    assert!(silence >= Duration::from_millis(1400), "{silence:?}");
}

/// [MQTT-3.1.2-28]
#[test]
fn response_information_is_told_only_to_those_who_ask() {
    let Some(broker) = narrow() else { return };
    for ask in [vec![], property::byte(property::REQUEST_RESPONSE, 0)] {
        let (_peer, connack) = Peer::open_to(Arc::clone(&broker), V5)
            .accepted(&Connect::new(V5, unique("n")).with(ask));
        assert!(!connack.properties.has(property::RESPONSE_INFORMATION));
    }
}

/// [MQTT-3.2.2-7] [MQTT-3.2.2-8] [MQTT3-3.2.2-5]
#[test]
fn a_broker_that_points_elsewhere_says_where_and_closes() {
    if oracle_deviates("points nowhere") {
        return;
    }
    let broker = Arc::new(
        Broker::with()
            .set("mqtt.server_reference", "elsewhere:1883")
            .start(),
    );
    let mut peer = Peer::open_to(Arc::clone(&broker), V5);
    peer.send(&Connect::new(V5, unique("n")).bytes());
    let connack = peer.connack();
    assert!(
        [0x9C, 0x9D].contains(&connack.code),
        "{:#04x}",
        connack.code
    );
    assert_eq!(
        connack.properties.text(property::SERVER_REFERENCE),
        Some("elsewhere:1883")
    );
    peer.expect_silent_end();
    let mut peer = Peer::open_to(broker, V311);
    peer.send(&Connect::new(V311, unique("n")).bytes());
    assert!(matches!(peer.ending(), Ending::Connack(_) | Ending::Silent));
}
