//! Sessions: state that outlives a connection, its lifetime, and repeated packets when the client returns.

use super::BOTH;
use super::packet::Version::*;
use super::packet::*;
use super::peer::*;

/// [MQTT-3.1.2-5] [MQTT-3.1.2-6] [MQTT-3.1.2-23] [MQTT-3.2.2-2] [MQTT-3.2.2-3] [MQTT-3.1.4-4]
/// [MQTT3-3.1.2-4] [MQTT3-3.1.4-3] [MQTT3-3.2.2-1] [MQTT3-3.2.2-2] [MQTT3-3.2.2-3] [MQTT3-4.1.0-1]
#[test]
fn session_present_tells_whether_there_was_a_session() {
    for version in BOTH {
        let name = unique("present");
        let lasting = Connect::lasting(version, &name);
        let (peer, connack) = Peer::connect(&lasting);
        assert!(!connack.session_present, "a first session is new");
        peer.leave();
        let (peer, connack) = Peer::connect(&lasting);
        assert!(
            connack.session_present,
            "the session outlived its connection"
        );
        peer.leave();
        let (peer, connack) = Peer::connect(&lasting.clone().clean(true));
        assert!(!connack.session_present, "a clean start has no past");
        peer.leave();
    }
}

/// [MQTT-3.1.2-4] [MQTT3-3.1.2-6] [MQTT-3.1.4-4]
#[test]
fn a_clean_start_discards_subscriptions_and_queued_messages() {
    for version in BOTH {
        let (name, topic) = (unique("clean"), unique("t"));
        let (mut peer, _) = Peer::connect(&Connect::lasting(version, &name));
        peer.subscribe(&topic, 1);
        peer.leave();
        let mut publisher = Peer::new(version);
        publisher.publish(&Publish::new(&topic, "while away").qos(1, 1));
        let (mut peer, connack) = Peer::connect(&Connect::new(version, &name));
        assert!(!connack.session_present);
        publisher.publish(&Publish::new(&topic, "after").qos(1, 2));
        assert_eq!(peer.messages_until_mark(&mut publisher), []);
    }
}

/// MQTT 3.1.1 calls a clean session's state unusable for any later session. [MQTT3-3.1.2-6] [MQTT-4.1.0-2]
#[test]
fn a_clean_session_leaves_nothing_behind() {
    for version in BOTH {
        let name = unique("gone");
        let (mut peer, _) = Peer::connect(&Connect::new(version, &name));
        peer.subscribe(&name, 1);
        peer.leave();
        let (peer, connack) = Peer::connect(&Connect::lasting(version, &name));
        assert!(!connack.session_present);
        peer.leave();
    }
}

/// [MQTT-4.5.0-1] [MQTT-3.1.2-5] [MQTT-3.1.2-23] [MQTT3-3.1.2-5] [MQTT3-4.5.0-1] [MQTT-4.6.0-5] [MQTT3-4.6.0-6]
#[test]
fn messages_for_a_session_that_is_away_wait_for_it_in_order() {
    for version in BOTH {
        let (name, topic) = (unique("away"), unique("t"));
        let (mut peer, _) = Peer::connect(&Connect::lasting(version, &name));
        peer.subscribe(&topic, 2);
        peer.vanish();
        let mut publisher = Peer::new(version);
        for number in 1..=6 {
            let qos = 1 + (number % 2) as u8;
            publisher.publish(&Publish::new(&topic, number.to_string()).qos(qos, number));
        }
        let (mut peer, connack) = Peer::connect(&Connect::lasting(version, &name));
        assert!(connack.session_present);
        for number in 1..=6 {
            let message = peer.message();
            assert_eq!(message.text(), number.to_string());
            assert_eq!(message.qos, 1 + (number % 2) as u8);
            assert!(!message.dup, "a first delivery is no repetition");
            peer.settle(&message);
        }
        peer.leave();
    }
}

/// [MQTT-4.4.0-1] [MQTT-3.3.1-1] [MQTT-4.3.2-3] [MQTT3-4.4.0-1] [MQTT3-3.3.1-1] [MQTT3-4.3.2-1] [MQTT3-2.3.1-3]
#[test]
fn an_unacknowledged_qos_1_message_is_sent_again_with_its_identifier_and_dup() {
    for version in BOTH {
        let (name, topic) = (unique("again"), unique("t"));
        let (mut peer, _) = Peer::connect(&Connect::lasting(version, &name));
        peer.subscribe(&topic, 1);
        let mut publisher = Peer::new(version);
        publisher.publish(&Publish::new(&topic, "one").qos(1, 1));
        let first = peer.message();
        assert!(!first.dup);
        assert_eq!(
            peer.until_pong(),
            [],
            "not sent again while the connection lasts"
        );
        peer.vanish();
        let (mut peer, _) = Peer::connect(&Connect::lasting(version, &name));
        let again = peer.message();
        assert_eq!((again.id, again.dup, again.text()), (first.id, true, "one"));
        peer.settle(&again);
        assert_eq!(peer.until_pong(), []);
        peer.vanish();
        let (mut peer, _) = Peer::connect(&Connect::lasting(version, &name));
        assert_eq!(peer.until_pong(), [], "settled means forgotten");
        peer.leave();
    }
}

/// [MQTT-4.4.0-1] [MQTT-4.3.3-3] [MQTT-4.3.3-5] [MQTT-4.3.3-6] [MQTT3-4.4.0-1] [MQTT3-4.3.3-1]
#[test]
fn a_broken_off_qos_2_delivery_goes_on_where_it_stopped() {
    for version in BOTH {
        let (name, topic) = (unique("owed"), unique("t"));
        let lasting = Connect::lasting(version, &name);
        let (mut peer, _) = Peer::connect(&lasting);
        peer.subscribe(&topic, 2);
        Peer::new(version).publish(&Publish::new(&topic, "two").qos(2, 1));
        let first = peer.message();
        peer.vanish();

        // Before PUBREC: the PUBLISH comes again.
        let (mut peer, _) = Peer::connect(&lasting);
        let again = peer.message();
        assert_eq!((again.id, again.dup, again.qos), (first.id, true, 2));
        peer.send(&ack(PUBREC, again.id));
        assert!(peer.ack(PUBREL, again.id) < 0x80);
        peer.vanish();

        // After PUBREC: the PUBREL comes again, the PUBLISH never more.
        let (mut peer, _) = Peer::connect(&lasting);
        assert!(peer.ack(PUBREL, again.id) < 0x80);
        peer.send(&ack(PUBCOMP, again.id));
        assert_eq!(peer.until_pong(), []);
        peer.vanish();

        let (mut peer, _) = Peer::connect(&lasting);
        assert_eq!(peer.until_pong(), []);
        peer.leave();
    }
}

/// [MQTT-4.4.0-1] [MQTT-4.6.0-5] [MQTT3-4.6.0-6]
#[test]
fn several_unacknowledged_messages_come_again_in_their_order() {
    for version in BOTH {
        let (name, topic) = (unique("several"), unique("t"));
        let (mut peer, _) = Peer::connect(&Connect::lasting(version, &name));
        peer.subscribe(&topic, 1);
        let mut publisher = Peer::new(version);
        for number in 1..=5 {
            publisher.publish(&Publish::new(&topic, number.to_string()).qos(1, number));
        }
        let first: Vec<Message> = (0..5).map(|_| peer.message()).collect();
        peer.vanish();
        let (mut peer, _) = Peer::connect(&Connect::lasting(version, &name));
        for sent in first {
            let again = peer.message();
            assert_eq!((again.id, again.payload), (sent.id, sent.payload));
            assert!(again.dup);
        }
        peer.leave();
    }
}

/// [MQTT-4.4.0-1] [MQTT-4.3.3-10] [MQTT-2.2.1-5] [MQTT3-4.3.3-2]
#[test]
fn what_a_client_began_to_publish_with_qos_2_is_finished_after_its_return() {
    for version in BOTH {
        let (name, topic) = (unique("mine"), unique("t"));
        let mut watcher = Peer::new(version);
        watcher.subscribe(&topic, 2);
        let lasting = Connect::lasting(version, &name);
        let (mut peer, _) = Peer::connect(&lasting);
        peer.send(&Publish::new(&topic, "half").qos(2, 9).bytes(version));
        assert!(peer.ack(PUBREC, 9) < 0x80);
        peer.vanish();
        let (mut peer, connack) = Peer::connect(&lasting);
        assert!(connack.session_present);
        peer.send(&Publish::new(&topic, "half").qos(2, 9).dup().bytes(version));
        assert!(peer.ack(PUBREC, 9) < 0x80);
        peer.send(&ack(PUBREL, 9));
        assert_eq!(peer.ack(PUBCOMP, 9), 0);
        let received = watcher.messages_until_mark(&mut peer);
        assert_eq!(
            received.len(),
            1,
            "once, although it was published twice: {received:?}"
        );
        peer.leave();
    }
}

/// [MQTT-3.1.4-3] [MQTT-4.4.0-1] [MQTT-3.1.2-5] [MQTT3-3.1.4-2]
#[test]
fn a_takeover_hands_the_session_to_the_new_connection() {
    for version in BOTH {
        let (name, topic) = (unique("heir"), unique("t"));
        let lasting = Connect::lasting(version, &name);
        let (mut first, _) = Peer::connect(&lasting);
        first.subscribe(&topic, 1);
        Peer::new(version).publish(&Publish::new(&topic, "inherited").qos(1, 1));
        let sent = first.message();
        let (mut second, connack) = Peer::connect(&lasting);
        assert!(connack.session_present);
        let again = second.message();
        assert_eq!(
            (again.id, again.dup, again.text()),
            (sent.id, true, "inherited")
        );
        second.settle(&again);
        first.expect_end(&[0x8E]);
        Peer::new(version).publish(&Publish::new(&topic, "next").qos(1, 1));
        assert_eq!(
            second.message().text(),
            "next",
            "the subscription came along"
        );
        second.leave();
    }
}

/// [MQTT-4.1.0-2] [MQTT-3.1.2-23]
#[test]
fn a_session_ends_when_its_expiry_has_passed() {
    let name = unique("expiry");
    let brief = Connect::new(V5, &name)
        .clean(false)
        .with(property::four(property::SESSION_EXPIRY, 1));
    let (peer, _) = Peer::connect(&brief);
    peer.vanish();
    let (peer, connack) = Peer::connect(&brief);
    assert!(
        connack.session_present,
        "within its second it is still there"
    );
    // The will of this connection tells when the session has ended: a will delay longer than the expiry ends with it.
    let watched = unique("expired");
    let mut watcher = Peer::new(V5);
    watcher.subscribe(&watched, 0);
    peer.leave();
    let will = brief
        .clone()
        .will(&watched, "ended", 0, false)
        .will_with(property::four(property::WILL_DELAY, 600));
    let (peer, connack) = Peer::connect(&will);
    assert!(connack.session_present);
    peer.vanish();
    assert_eq!(watcher.message().text(), "ended");
    let (_peer, connack) = Peer::connect(&brief);
    assert!(!connack.session_present);
}

/// [MQTT-4.1.0-2]
#[test]
fn a_session_without_expiry_ends_with_its_connection() {
    for extra in [vec![], property::four(property::SESSION_EXPIRY, 0)] {
        let connect = Connect::new(V5, unique("none")).clean(false).with(extra);
        Peer::connect(&connect).0.vanish();
        let (_peer, connack) = Peer::connect(&connect);
        assert!(!connack.session_present);
    }
}

/// [MQTT-3.1.2-23] [MQTT-4.1.0-2]
#[test]
fn disconnect_may_change_the_expiry_of_the_session() {
    let name = unique("change");
    let (mut peer, _) = Peer::connect(&Connect::lasting(V5, &name));
    peer.send(&disconnect_with(
        0,
        &property::four(property::SESSION_EXPIRY, 0),
    ));
    peer.wait_for_close();
    let (mut peer, connack) = Peer::connect(&Connect::lasting(V5, &name));
    assert!(!connack.session_present, "DISCONNECT set the expiry to 0");
    peer.send(&disconnect_with(
        0,
        &property::four(property::SESSION_EXPIRY, 30),
    ));
    peer.wait_for_close();
    let (_peer, connack) = Peer::connect(&Connect::lasting(V5, &name));
    assert!(connack.session_present);
}

/// [MQTT-4.13.1-1] [MQTT-3.14.4-1]
#[test]
fn disconnect_cannot_give_a_session_an_expiry_that_connect_did_not() {
    let name = unique("late");
    let (mut peer, _) = Peer::connect(&Connect::new(V5, &name));
    peer.send(&disconnect_with(
        0,
        &property::four(property::SESSION_EXPIRY, 30),
    ));
    match peer.ending() {
        Ending::Silent | Ending::Disconnect(0x82) => {}
        other => panic!("{other:?}"),
    }
    let (_peer, connack) = Peer::connect(&Connect::lasting(V5, &name));
    assert!(!connack.session_present);
}

/// [MQTT-4.1.0-1] [MQTT3-4.1.0-2]
#[test]
fn a_session_lasts_as_long_as_its_connection_whatever_its_expiry() {
    for version in BOTH {
        let name = unique("open");
        let (mut peer, _) = Peer::connect(&Connect::new(version, &name));
        peer.subscribe(&name, 0);
        // Another client's whole life passes in between.
        let mut publisher = Peer::new(version);
        publisher.until_pong();
        publisher.publish(&Publish::new(&name, "still here"));
        assert_eq!(peer.message().text(), "still here");
    }
}

/// A session does not care which version resumes it. [MQTT-3.1.2-5] [MQTT3-3.1.2-4]
#[test]
fn a_session_may_be_resumed_with_another_version() {
    let (name, topic) = (unique("version"), unique("t"));
    let (mut peer, _) = Peer::connect(&Connect::lasting(V311, &name));
    peer.subscribe(&topic, 1);
    peer.vanish();
    let mut publisher = Peer::new(V5);
    let with_type = Publish::new(&topic, "x").with(property::text(property::CONTENT_TYPE, "text"));
    publisher.publish(&with_type.qos(1, 1));
    let (mut peer, connack) = Peer::connect(&Connect::lasting(V5, &name));
    assert!(connack.session_present);
    let message = peer.message();
    assert_eq!(
        message.properties.text(property::CONTENT_TYPE),
        Some("text")
    );
    peer.settle(&message);
    peer.leave();
    let (peer, connack) = Peer::connect(&Connect::lasting(V31, &name));
    assert!(!connack.session_present, "MQTT 3.1 has no such flag");
    peer.leave();
}
