//! Wills: stored with the connection, published when it fails, forgotten when the client says so.

use super::BOTH;
use super::packet::Version::*;
use super::packet::*;
use super::peer::*;

/// [MQTT-3.1.2-7] [MQTT-3.1.2-8] [MQTT-3.1.2-14] [MQTT3-3.1.2-8] [MQTT3-3.1.2-9] [MQTT3-3.1.2-16]
#[test]
fn a_connection_that_fails_publishes_its_will() {
    for version in BOTH {
        for qos in 0..=2 {
            let topic = unique("will");
            let mut watcher = Peer::new(version);
            watcher.subscribe(&topic, 2);
            let (peer, _) =
                Peer::connect(&Connect::new(version, unique("w")).will(&topic, "gone", qos, false));
            peer.vanish();
            let message = watcher.message();
            assert_eq!(
                (message.text(), message.qos, message.retain),
                ("gone", qos, false)
            );
            watcher.settle(&message);
            let mut late = Peer::new(version);
            late.subscribe(&topic, 0);
            assert_eq!(late.messages_until_retained_marks(), [], "not retained");
        }
    }
}

/// [MQTT-3.14.4-3] [MQTT-3.1.2-8] [MQTT-3.1.2-10] [MQTT3-3.14.4-3] [MQTT3-3.1.2-10]
#[test]
fn a_normal_disconnect_discards_the_will() {
    for version in BOTH {
        let topic = unique("will");
        let mut watcher = Peer::new(version);
        watcher.subscribe(&topic, 0);
        Peer::connect(&Connect::new(version, unique("w")).will(&topic, "gone", 0, false))
            .0
            .leave();
        if version == V5 {
            let (mut peer, _) =
                Peer::connect(&Connect::new(version, unique("w")).will(&topic, "gone", 0, false));
            peer.send(&disconnect_with(0, &[]));
            peer.wait_for_close();
        }
        assert_eq!(watcher.messages_until_mark(&mut Peer::new(version)), []);
    }
}

/// [MQTT-3.1.2-8] [MQTT-3.14.2-1]
#[test]
fn disconnect_with_any_other_reason_publishes_the_will() {
    for reason in [
        0x04, 0x80, 0x81, 0x82, 0x83, 0x90, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99,
    ] {
        if reason != 0x04 && oracle_deviates("publishes for 0x04 only") {
            continue;
        }
        let topic = unique("will");
        let mut watcher = Peer::new(V5);
        watcher.subscribe(&topic, 0);
        let (mut peer, _) =
            Peer::connect(&Connect::new(V5, unique("w")).will(&topic, "gone", 0, false));
        peer.send(&disconnect_with(reason, &[]));
        peer.wait_for_close();
        assert_eq!(watcher.message().text(), "gone", "reason {reason:#04x}");
    }
}

/// [MQTT-3.1.2-15] [MQTT3-3.1.2-17] [MQTT3-3.1.2-7]
#[test]
fn a_retained_will_is_retained() {
    for version in BOTH {
        let topic = unique("will");
        Peer::connect(&Connect::new(version, unique("w")).will(&topic, "gone", 1, true))
            .0
            .vanish();
        let mut late = Peer::new(version);
        late.subscribe(&topic, 1);
        let message = late.message();
        assert_eq!((message.text(), message.retain), ("gone", true));
        late.publish(&Publish::new(&topic, "").retain());
    }
}

/// [MQTT-3.1.2-10] [MQTT3-3.1.2-10] [MQTT3-3.1.2-12]
#[test]
fn a_published_will_is_not_published_again_by_a_later_connection() {
    for version in BOTH {
        let (name, topic) = (unique("w"), unique("will"));
        let mut watcher = Peer::new(version);
        watcher.subscribe(&topic, 0);
        Peer::connect(&Connect::lasting(version, &name).will(&topic, "gone", 0, false))
            .0
            .vanish();
        assert_eq!(watcher.message().text(), "gone");
        Peer::connect(&Connect::lasting(version, &name)).0.vanish();
        assert_eq!(watcher.messages_until_mark(&mut Peer::new(version)), []);
    }
}

/// [MQTT-3.1.2-8] [MQTT3-3.1.2-8]
#[test]
fn a_protocol_error_publishes_the_will() {
    for version in BOTH {
        let topic = unique("will");
        let mut watcher = Peer::new(version);
        watcher.subscribe(&topic, 0);
        let (mut peer, _) =
            Peer::connect(&Connect::new(version, unique("w")).will(&topic, "gone", 0, false));
        peer.send(&[0x00, 0x00]);
        peer.expect_end(&[0x81, 0x82]);
        assert_eq!(watcher.message().text(), "gone");
    }
}

/// [MQTT-3.1.2-8] [MQTT-3.1.4-3] [MQTT3-3.1.2-8]
#[test]
fn a_takeover_publishes_the_will_of_the_older_connection() {
    for version in BOTH {
        let (name, topic) = (unique("w"), unique("will"));
        let mut watcher = Peer::new(version);
        watcher.subscribe(&topic, 0);
        let (first, _) =
            Peer::connect(&Connect::new(version, &name).will(&topic, "gone", 0, false));
        let (_second, _) = Peer::connect(&Connect::new(version, &name));
        assert_eq!(watcher.message().text(), "gone");
        first.expect_end(&[0x8E]);
    }
}

/// [MQTT-3.1.3-9] [MQTT-3.1.2-8]
#[test]
fn a_return_within_the_will_delay_cancels_the_will() {
    let (name, topic) = (unique("w"), unique("will"));
    let mut watcher = Peer::new(V5);
    watcher.subscribe(&topic, 0);
    let delayed = Connect::lasting(V5, &name).will(&topic, "gone", 0, false);
    let delayed = delayed.will_with(property::four(property::WILL_DELAY, 1));
    Peer::connect(&delayed).0.vanish();
    let (peer, connack) = Peer::connect(&Connect::lasting(V5, &name));
    assert!(connack.session_present);
    // Another client's will with the same delay, begun later, tells that the time is over.
    let clock = Connect::lasting(V5, unique("w")).will(&topic, "clock", 0, false);
    Peer::connect(&clock.will_with(property::four(property::WILL_DELAY, 2)))
        .0
        .vanish();
    assert_eq!(watcher.message().text(), "clock");
    peer.leave();
}

/// [MQTT-3.1.2-8]
#[test]
fn a_will_delay_holds_the_will_back_for_its_time() {
    let topic = unique("will");
    let mut watcher = Peer::new(V5);
    watcher.subscribe(&topic, 0);
    let delayed = Connect::lasting(V5, unique("w")).will(&topic, "late", 0, false);
    let begun = std::time::Instant::now();
    Peer::connect(&delayed.will_with(property::four(property::WILL_DELAY, 1)))
        .0
        .vanish();
    Peer::connect(&Connect::new(V5, unique("w")).will(&topic, "at once", 0, false))
        .0
        .vanish();
    assert_eq!(watcher.message().text(), "at once");
    assert_eq!(watcher.message().text(), "late");
    if oracle_deviates(
        "counts in whole seconds of the clock, so that a delay of 1 may pass in less",
    ) {
        return;
    }
    assert!(
        begun.elapsed().as_millis() >= 950,
        "after {:?}",
        begun.elapsed()
    );
}

/// [MQTT-3.1.2-8] [MQTT-4.1.0-2]
#[test]
fn a_session_that_ends_publishes_its_will_before_the_delay_is_over() {
    if oracle_deviates("waits for the delay even so") {
        return;
    }
    let topic = unique("will");
    let mut watcher = Peer::new(V5);
    watcher.subscribe(&topic, 0);
    // Without expiry the session ends with the connection, and the delay with it.
    let connect = Connect::new(V5, unique("w")).will(&topic, "gone", 0, false);
    Peer::connect(&connect.will_with(property::four(property::WILL_DELAY, 600)))
        .0
        .vanish();
    assert_eq!(watcher.message().text(), "gone");
}

/// [MQTT-3.1.2-8] [MQTT-3.1.2-4]
#[test]
fn a_clean_start_ends_the_old_session_and_publishes_its_delayed_will() {
    if oracle_deviates("drops the delayed will of a session that a clean start ends") {
        return;
    }
    let (name, topic) = (unique("w"), unique("will"));
    let mut watcher = Peer::new(V5);
    watcher.subscribe(&topic, 0);
    let delayed = Connect::lasting(V5, &name).will(&topic, "gone", 0, false);
    Peer::connect(&delayed.will_with(property::four(property::WILL_DELAY, 600)))
        .0
        .vanish();
    let (_peer, _) = Peer::connect(&Connect::new(V5, &name));
    assert_eq!(watcher.message().text(), "gone");
}

/// [MQTT-3.1.3-10] [MQTT-3.3.2-4] [MQTT-3.3.2-15] [MQTT-3.3.2-16] [MQTT-3.3.2-17] [MQTT-3.3.2-18] [MQTT-3.3.2-20]
#[test]
fn the_properties_of_a_will_are_those_of_the_message() {
    let topic = unique("will");
    let mut watcher = Peer::new(V5);
    watcher.subscribe(&topic, 1);
    let connect = Connect::new(V5, unique("w"))
        .will(&topic, "gone", 1, false)
        .will_with(property::byte(property::PAYLOAD_FORMAT, 1))
        .will_with(property::four(property::MESSAGE_EXPIRY, 100))
        .will_with(property::text(property::CONTENT_TYPE, "text/plain"))
        .will_with(property::text(property::RESPONSE_TOPIC, "answer/here"))
        .will_with(property::text(property::CORRELATION_DATA, [0, 255, 7]))
        .will_with(property::user("b", "1"))
        .will_with(property::user("a", "2"))
        .will_with(property::user("b", "3"));
    Peer::connect(&connect).0.vanish();
    let properties = watcher.message().properties;
    assert_eq!(properties.number(property::PAYLOAD_FORMAT), Some(1));
    let left = properties.number(property::MESSAGE_EXPIRY);
    assert!(
        left.is_some_and(|left| (95..=100).contains(&left)),
        "{left:?}"
    );
    assert_eq!(properties.text(property::CONTENT_TYPE), Some("text/plain"));
    assert_eq!(
        properties.text(property::RESPONSE_TOPIC),
        Some("answer/here")
    );
    assert_eq!(properties.all(property::CORRELATION_DATA), [[0, 255, 7]]);
    assert_eq!(
        properties.all(property::USER_PROPERTY),
        [b"b=1", b"a=2", b"b=3"]
    );
    assert!(
        !properties.has(property::WILL_DELAY),
        "the delay is for the broker"
    );
}

/// [MQTT-3.1.2-7] [MQTT3-3.1.2-8]
#[test]
fn an_empty_will_is_a_message_too() {
    for version in BOTH {
        let topic = unique("will");
        let mut watcher = Peer::new(version);
        watcher.subscribe(&topic, 0);
        Peer::connect(&Connect::new(version, unique("w")).will(&topic, "", 0, false))
            .0
            .vanish();
        assert_eq!(watcher.message().text(), "");
    }
}
