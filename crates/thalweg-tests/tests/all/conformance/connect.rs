//! CONNECT and CONNACK where they are well-formed: versions, client ids, credentials, takeover.

use super::BOTH;
use super::packet::Version::*;
use super::packet::*;
use super::peer::*;

/// The client here was written from the specification alone, and nothing beyond it is needed. [MQTT3-7.0.0-2]
///
/// [MQTT-3.1.4-5] [MQTT-3.2.0-1] [MQTT-3.2.0-2] [MQTT-3.2.2-1] [MQTT-3.2.2-8] [MQTT3-3.1.4-4] [MQTT3-3.2.0-1]
#[test]
fn a_good_connect_is_answered_by_exactly_one_connack() {
    for version in [V31, V311, V5] {
        let (mut peer, connack) = Peer::connect(&Connect::new(version, unique("ok")));
        assert!(!connack.session_present);
        assert_eq!(peer.until_pong(), []);
    }
}

/// [MQTT-3.1.0-1] [MQTT-3.14.0-1] [MQTT3-3.1.0-1]
#[test]
fn any_first_packet_but_connect_closes_the_connection_without_a_word() {
    for version in BOTH {
        let id = 1;
        for first in [
            Publish::new("a", "b").bytes(version),
            Publish::new("a", "b").qos(1, id).bytes(version),
            subscribe(version, id, &[], &[("a", 0)]),
            unsubscribe(version, id, &["a"]),
            pingreq(),
            disconnect(),
            ack(PUBREL, id),
        ] {
            let mut peer = Peer::open(version);
            peer.send(&first);
            peer.expect_silent_end();
        }
    }
}

/// [MQTT-3.1.0-2] [MQTT3-3.1.0-2] [MQTT3-4.8.0-1]
#[test]
fn a_second_connect_is_a_protocol_error() {
    for version in BOTH {
        let connect = Connect::new(version, unique("twice"));
        let (mut peer, _) = Peer::connect(&connect);
        peer.send(&connect.bytes());
        peer.expect_end(&[0x82]);
    }
}

/// [MQTT-3.1.2-1] [MQTT3-3.1.2-1]
#[test]
fn a_wrong_protocol_name_is_refused() {
    for (version, name, level) in [
        (V5, "MQTZ", 5),
        (V5, "mqtt", 5),
        (V5, "MQIsdp", 5),
        (V311, "MQTZ", 4),
        (V311, "", 4),
    ] {
        // Whoever cannot tell the version may write CONNACK in either form; its first two bytes are the same in both.
        let mut peer = Peer::open(V311);
        peer.send(
            &Connect::new(version, unique("name"))
                .protocol(name, level)
                .bytes(),
        );
        match peer.ending() {
            Ending::Silent => {}
            Ending::Connack(code) => {
                assert!([0x01, 0x84].contains(&code), "{name} {level}: {code:#04x}")
            }
            other => panic!("{name} {level}: {other:?}"),
        }
    }
}

/// [MQTT-3.1.2-2] [MQTT3-3.1.2-2] [MQTT3-3.2.2-5] [MQTT3-3.2.2-4]
#[test]
fn an_unknown_protocol_level_is_refused_with_the_code_for_it() {
    for level in [0, 1, 2, 6, 127] {
        // The body is of MQTT 3.1.1's form; a broker that does not know the level cannot read on anyway.
        let mut peer = Peer::open(V311);
        peer.send(
            &Connect::new(V311, unique("level"))
                .protocol("MQTT", level)
                .bytes(),
        );
        match peer.ending() {
            Ending::Connack(code) => {
                assert!([0x01, 0x84].contains(&code), "level {level}: {code:#04x}")
            }
            other => assert!(
                oracle_deviates("closes at once for some levels"),
                "level {level}: {other:?}"
            ),
        }
    }
}

/// [MQTT-3.1.3-5] [MQTT3-3.1.3-5]
#[test]
fn client_ids_of_1_to_23_letters_and_digits_are_accepted() {
    let alphabet = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    for version in [V31, V311, V5] {
        let one = match version {
            V31 => "x",
            V311 => "y",
            V5 => "z",
        };
        Peer::connect(&Connect::new(version, one)).0.leave();
        for start in [0, 20, 39] {
            Peer::connect(&Connect::new(version, &alphabet[start..start + 23]))
                .0
                .leave();
        }
    }
}

/// [MQTT-3.1.3-6] [MQTT-3.1.3-7] [MQTT-3.2.2-16]
#[test]
fn an_empty_client_id_gets_a_unique_one_that_works() {
    let (mut first, connack) = Peer::connect(&Connect::new(V5, ""));
    let (_second, other) = Peer::connect(&Connect::new(V5, ""));
    let assigned = connack
        .properties
        .text(property::ASSIGNED_CLIENT_ID)
        .expect("CONNACK tells the client id")
        .to_owned();
    let other = other
        .properties
        .text(property::ASSIGNED_CLIENT_ID)
        .expect("CONNACK tells the client id")
        .to_owned();
    assert!(!assigned.is_empty());
    assert_ne!(assigned, other);
    assert_eq!(
        first.until_pong(),
        [],
        "the second connection is another client, no takeover"
    );
    // The id is the client's from now on: using it again takes the first connection over.
    let (_third, connack) = Peer::connect(&Connect::new(V5, &assigned));
    assert!(
        !connack.properties.has(property::ASSIGNED_CLIENT_ID),
        "a client that knows its id is not told"
    );
    first.expect_end(&[0x8E]);
}

/// MQTT 5 allows an empty client id with Clean Start 0 as well. [MQTT-3.1.3-6] [MQTT-3.2.2-16]
#[test]
fn an_assigned_client_id_can_own_a_session_that_lasts() {
    let (peer, connack) = Peer::connect(&Connect::lasting(V5, ""));
    let assigned = connack
        .properties
        .text(property::ASSIGNED_CLIENT_ID)
        .expect("CONNACK tells the client id")
        .to_owned();
    peer.vanish();
    let (_peer, connack) = Peer::connect(&Connect::lasting(V5, &assigned));
    assert!(connack.session_present);
}

/// [MQTT3-3.1.3-6] [MQTT3-3.1.3-7]
#[test]
fn empty_client_ids_of_clean_mqtt_311_clients_do_not_take_each_other_over() {
    let (mut first, _) = Peer::connect(&Connect::new(V311, ""));
    let (mut second, _) = Peer::connect(&Connect::new(V311, ""));
    assert_eq!(first.until_pong(), []);
    assert_eq!(second.until_pong(), []);
}

/// [MQTT3-3.1.3-8] [MQTT3-3.1.3-9] [MQTT3-3.2.2-4] [MQTT3-3.2.2-5]
#[test]
fn an_empty_client_id_with_clean_session_0_is_refused_in_mqtt_311() {
    let mut peer = Peer::open(V311);
    peer.send(&Connect::new(V311, "").clean(false).bytes());
    assert_eq!(peer.ending(), Ending::Connack(2));
}

/// [MQTT-3.1.4-3] [MQTT-3.1.3-2] [MQTT-3.14.4-1] [MQTT-3.14.4-2] [MQTT-3.14.2-1] [MQTT-3.14.2-2] [MQTT-4.13.2-1] [MQTT3-3.1.4-2] [MQTT3-3.1.3-2]
#[test]
fn a_client_id_that_connects_again_ends_the_older_connection() {
    for older in [V31, V311, V5] {
        for newer in [V311, V5] {
            let name = unique("takeover");
            let (first, _) = Peer::connect(&Connect::new(older, &name));
            let (mut second, _) = Peer::connect(&Connect::new(newer, &name));
            first.expect_end(&[0x8E]);
            assert_eq!(second.until_pong(), []);
        }
    }
}

/// [MQTT-3.1.2-16] [MQTT-3.1.2-17] [MQTT-3.1.2-18] [MQTT-3.1.2-19] [MQTT-3.1.3-1] [MQTT-3.1.3-3]
/// [MQTT3-3.1.2-18] [MQTT3-3.1.2-19] [MQTT3-3.1.2-20] [MQTT3-3.1.2-21] [MQTT3-3.1.3-1] [MQTT3-3.1.3-3]
#[test]
fn every_combination_of_will_and_credentials_is_read_in_its_order() {
    for version in BOTH {
        for (with_will, with_name, with_password) in [
            (true, true, true),
            (true, true, false),
            (false, true, true),
            (true, false, false),
            (false, true, false),
        ] {
            let mut connect = Connect::new(version, unique("order"));
            if with_will {
                connect = connect.will("will/topic", "will payload", 1, false);
            }
            if with_name {
                connect = connect.user_name("name");
            }
            if with_password {
                connect = connect.password("secret");
            }
            let (mut peer, _) = Peer::connect(&connect);
            assert_eq!(peer.until_pong(), [], "{connect:?}");
            peer.leave();
        }
    }
}

/// MQTT 5 lets a client send a password without a user name; MQTT 3.1.1 forbids it. [MQTT-3.1.2-19] [MQTT3-3.1.2-22]
#[test]
fn a_password_without_a_user_name_is_for_mqtt_5_only() {
    Peer::connect(&Connect::new(V5, unique("token")).password("only"))
        .0
        .leave();
    let mut peer = Peer::open(V311);
    peer.send(&Connect::new(V311, unique("token")).password("only").bytes());
    peer.expect_silent_end();
}

/// [MQTT-3.1.2-28]
#[test]
fn response_information_is_not_told_unless_asked_for() {
    for ask in [vec![], property::byte(property::REQUEST_RESPONSE, 0)] {
        let (_, connack) = Peer::connect(&Connect::new(V5, unique("info")).with(ask));
        assert!(!connack.properties.has(property::RESPONSE_INFORMATION));
    }
}

/// [MQTT-2.2.2-1] [MQTT-3.2.2-9]
#[test]
fn connack_tells_no_limit_that_is_none() {
    let (_, connack) = Peer::connect(&Connect::new(V5, unique("limits")));
    let properties = connack.properties;
    assert_eq!(
        properties.number(property::MAXIMUM_QOS),
        None,
        "Maximum QoS 2 is told by silence"
    );
    assert_ne!(properties.number(property::RETAIN_AVAILABLE), Some(0));
    assert_ne!(properties.number(property::WILDCARD_AVAILABLE), Some(0));
    assert_ne!(properties.number(property::SHARED_AVAILABLE), Some(0));
    assert_ne!(
        properties.number(property::SUBSCRIPTION_ID_AVAILABLE),
        Some(0)
    );
    assert_ne!(properties.number(property::RECEIVE_MAXIMUM), Some(0));
    assert_ne!(properties.number(property::MAXIMUM_PACKET_SIZE), Some(0));
    let mut ids: Vec<u8> = properties
        .0
        .iter()
        .map(|(id, _)| *id)
        .filter(|id| *id != property::USER_PROPERTY)
        .collect();
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), all, "no property twice");
}

/// A packet above the client's Maximum Packet Size is not sent, and no other instead of it. [MQTT-3.1.2-24]
/// [MQTT-3.2.0-1]
#[test]
fn a_client_that_has_no_room_for_connack_is_closed_without_a_word() {
    let mut peer = Peer::open(V5);
    peer.send(b"\x10\x13\x00\x04MQTT\x05\x02\x00\x0a\x05\x27\x00\x00\x00\x02\x00\x01p");
    peer.send(&pingreq());
    peer.expect_silent_end();
}

/// A bridge's loop would otherwise begin with its own messages; what mosquitto does for such clients.
#[test]
fn a_bridge_of_mqtt_3_hears_nothing_of_its_own_and_sees_the_retain_flag() {
    let (topic, other) = (unique("bridged"), Peer::new(V311));
    let connect = Connect::new(V311, unique("bridge")).protocol("MQTT", 0x84);
    let (mut bridge, _) = Peer::connect(&connect);
    bridge.subscribe(&topic, 0);
    bridge.send(&Publish::new(&topic, "own").bytes(V311));
    let mut other = other;
    other.send(&Publish::new(&topic, "theirs").retain().bytes(V311));
    other.until_pong();
    let got = bridge.until_pong();
    let [Packet::Publish(message)] = &got[..] else {
        panic!("{got:?}")
    };
    assert_eq!((message.text(), message.retain), ("theirs", true));
    other.send(&Publish::new(&topic, "").retain().bytes(V311));
    other.until_pong();
}

/// Clients need not wait for CONNACK. [MQTT-3.2.0-1] [MQTT3-3.2.0-1]
#[test]
fn packets_that_follow_connect_at_once_are_answered_after_connack() {
    for version in BOTH {
        let topic = unique("eager");
        let mut peer = Peer::open(version);
        let mut all = Connect::new(version, unique("eager")).bytes();
        all.extend(subscribe(version, 7, &[], &[(&topic, 0)]));
        all.extend(Publish::new(&topic, "early").bytes(version));
        all.extend(pingreq());
        peer.send(&all);
        assert_eq!(peer.connack().code, 0);
        let answers: Vec<Packet> = (0..3).map(|_| peer.next()).collect();
        let has = |wanted: fn(&Packet) -> bool| answers.iter().any(wanted);
        assert!(
            has(|p| matches!(p, Packet::Suback { id: 7, .. })),
            "{answers:?}"
        );
        assert!(
            has(|p| matches!(p, Packet::Publish(message) if message.text() == "early")),
            "{answers:?}"
        );
        assert!(has(|p| *p == Packet::Pingresp), "{answers:?}");
    }
}

/// [MQTT-3.1.4-6] [MQTT-3.2.2-6] [MQTT-3.2.2-7] [MQTT3-3.1.4-5] [MQTT3-3.2.2-5]
#[test]
fn nothing_behind_a_refused_connect_is_processed() {
    let topic = unique("refused");
    let mut watcher = Peer::new(V5);
    watcher.subscribe(&topic, 0);
    // MQTT 3.1.1: an empty client id with a session. MQTT 5: an unknown authentication method.
    let refused = [
        Connect::new(V311, "").clean(false),
        Connect::new(V5, unique("refused"))
            .with(property::text(property::AUTH_METHOD, "no-such-method")),
    ];
    for connect in refused {
        let mut peer = Peer::open(connect.version);
        let mut all = connect.bytes();
        all.extend(Publish::new(&topic, "smuggled").bytes(connect.version));
        peer.send(&all);
        assert!(matches!(peer.ending(), Ending::Connack(_) | Ending::Silent));
    }
    let mut publisher = Peer::new(V5);
    assert_eq!(watcher.messages_until_mark(&mut publisher), []);
}

/// [MQTT-4.12.0-1] [MQTT-3.2.2-7] [MQTT-4.13.2-1]
#[test]
fn an_unknown_authentication_method_is_refused_with_its_code() {
    for data in [None, Some("data")] {
        let mut connect = Connect::new(V5, unique("auth"))
            .with(property::text(property::AUTH_METHOD, "no-such-method"));
        if let Some(data) = data {
            connect = connect.with(property::text(property::AUTH_DATA, data));
        }
        let mut peer = Peer::open(V5);
        peer.send(&connect.bytes());
        assert_eq!(peer.ending(), Ending::Connack(0x8C));
    }
}

/// [MQTT-4.12.0-6] [MQTT-4.12.0-7]
#[test]
fn without_an_authentication_method_there_is_no_auth() {
    let (mut peer, connack) = Peer::connect(&Connect::new(V5, unique("auth")));
    assert!(!connack.properties.has(property::AUTH_METHOD));
    assert!(!connack.properties.has(property::AUTH_DATA));
    peer.send(&auth(
        0x19,
        &property::text(property::AUTH_METHOD, "SCRAM-SHA-256"),
    ));
    peer.expect_end(&[0x82, 0x8C]);
}
