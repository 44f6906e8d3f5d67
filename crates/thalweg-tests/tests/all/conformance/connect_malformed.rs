//! CONNECT in every malformed form: MQTT 3.1.1 closes without a word, MQTT 5 may say why in CONNACK first.

use super::BOTH;
use super::packet::Version::*;
use super::packet::*;
use super::peer::*;

/// Sends `bytes` as the first thing on a connection and expects a refusal with one of `codes`.
fn refuses(version: Version, what: &str, bytes: &[u8], codes: &[u8]) {
    let mut peer = Peer::open(version);
    peer.send(bytes);
    match (version, peer.ending()) {
        (_, Ending::Silent) => {}
        (V5, Ending::Connack(code)) => {
            assert!(
                codes.contains(&code),
                "{what}: refused with {code:#04x}, not {codes:02x?}"
            )
        }
        (_, ending) => panic!("{what}: {ending:?}"),
    }
}

const MALFORMED: &[u8] = &[0x81, 0x82];

/// [MQTT-3.1.2-3] [MQTT-3.1.4-1] [MQTT3-3.1.2-3] [MQTT3-3.1.4-1]
#[test]
fn the_reserved_connect_flag_must_be_0() {
    for version in BOTH {
        refuses(
            version,
            "reserved flag",
            &Connect::new(version, unique("r")).flip_flags(0x01).bytes(),
            MALFORMED,
        );
    }
}

/// [MQTT-2.1.3-1] [MQTT3-2.2.2-1] [MQTT3-2.2.2-2]
#[test]
fn the_flag_bits_of_connect_must_be_0() {
    for version in BOTH {
        for bits in [1, 2, 4, 8] {
            refuses(
                version,
                "flags",
                &packet(0x10 | bits, &Connect::new(version, unique("f")).body()),
                MALFORMED,
            );
        }
    }
}

/// [MQTT-3.1.2-11] [MQTT-3.1.2-13] [MQTT3-3.1.2-11] [MQTT3-3.1.2-13] [MQTT3-3.1.2-15] [MQTT3-3.2.2-6]
#[test]
fn will_qos_and_will_retain_must_be_0_without_a_will() {
    for version in BOTH {
        for (what, bits) in [
            ("QoS 1", 0x08),
            ("QoS 2", 0x10),
            ("retain", 0x20),
            ("both", 0x28),
        ] {
            refuses(
                version,
                what,
                &Connect::new(version, unique("w")).flip_flags(bits).bytes(),
                MALFORMED,
            );
        }
    }
}

/// [MQTT-3.1.2-12] [MQTT3-3.1.2-14]
#[test]
fn will_qos_3_does_not_exist() {
    for version in BOTH {
        refuses(
            version,
            "will QoS 3",
            &Connect::new(version, unique("q"))
                .will("a", "b", 3, false)
                .bytes(),
            MALFORMED,
        );
    }
}

/// [MQTT-3.1.2-9] [MQTT3-3.1.2-9] [MQTT-3.1.2-17] [MQTT-3.1.2-19] [MQTT3-3.1.2-19] [MQTT3-3.1.2-21]
#[test]
fn what_the_flags_promise_must_be_in_the_payload() {
    for version in BOTH {
        let named = Connect::new(version, unique("p")).user_name("name");
        refuses(
            version,
            "no will",
            &Connect::new(version, unique("p")).flip_flags(0x04).bytes(),
            MALFORMED,
        );
        refuses(
            version,
            "no user name",
            &Connect::new(version, unique("p")).flip_flags(0x80).bytes(),
            MALFORMED,
        );
        refuses(
            version,
            "no password",
            &named.flip_flags(0x40).bytes(),
            MALFORMED,
        );
    }
}

/// [MQTT-3.1.2-16] [MQTT-3.1.2-18] [MQTT3-3.1.2-18] [MQTT3-3.1.2-20]
#[test]
fn what_the_flags_deny_must_not_be_in_the_payload() {
    if oracle_deviates("reads the fields it expects and leaves the rest") {
        return;
    }
    for version in BOTH {
        let named = Connect::new(version, unique("p")).user_name("name");
        refuses(
            version,
            "a user name",
            &named.clone().flip_flags(0x80).bytes(),
            MALFORMED,
        );
        refuses(
            version,
            "a password",
            &named.password("secret").flip_flags(0x40).bytes(),
            MALFORMED,
        );
        let will = Connect::new(version, unique("p")).will("a", "b", 0, false);
        refuses(version, "a will", &will.flip_flags(0x04).bytes(), MALFORMED);
        let trailing = [Connect::new(version, unique("p")).body(), b"rest".to_vec()].concat();
        refuses(
            version,
            "bytes behind the payload",
            &packet(0x10, &trailing),
            MALFORMED,
        );
    }
}

/// [MQTT-3.1.3-3] [MQTT-3.1.4-1] [MQTT3-3.1.3-3] [MQTT3-3.1.4-1]
#[test]
fn a_connect_that_ends_too_early_is_malformed() {
    for version in BOTH {
        let whole = Connect::new(version, "early")
            .will("topic", "payload", 1, false)
            .user_name("name")
            .password("pass")
            .body();
        for length in 0..whole.len() {
            refuses(
                version,
                "truncated",
                &packet(0x10, &whole[..length]),
                &[0x81, 0x82, 0x84],
            );
        }
    }
}

/// [MQTT-3.1.3-4] [MQTT-3.1.3-11] [MQTT-3.1.3-12] [MQTT-1.5.4-1] [MQTT-1.5.4-2]
/// [MQTT3-3.1.3-4] [MQTT3-3.1.3-10] [MQTT3-3.1.3-11] [MQTT3-1.5.3-1] [MQTT3-1.5.3-2]
#[test]
fn strings_in_connect_must_be_utf_8_without_nul() {
    let bad: [&[u8]; 6] = [
        b"\xED\xA0\x80",
        b"\xED\xBF\xBF",
        b"\xC0\xAF",
        b"\xFF",
        b"a\0b",
        b"\xF4\x90\x80\x80",
    ];
    for version in BOTH {
        for text in bad {
            refuses(
                version,
                "client id",
                &Connect::new(version, text).bytes(),
                &[0x81, 0x85],
            );
            let will = Connect::new(version, unique("u")).will(text, "", 0, false);
            refuses(version, "will topic", &will.bytes(), &[0x81, 0x90]);
            let named = Connect::new(version, unique("u")).user_name(text);
            if !oracle_deviates("accepts any bytes as a user name") {
                refuses(version, "user name", &named.bytes(), &[0x81, 0x86]);
            }
        }
    }
}

/// [MQTT-3.1.4-2] [MQTT-4.7.0-1] [MQTT-4.7.3-1] [MQTT3-4.7.1-1] [MQTT3-4.7.3-1]
#[test]
fn a_will_topic_is_a_topic_name() {
    for version in BOTH {
        for topic in ["a/+", "a/#", "#", ""] {
            let connect = Connect::new(version, unique("t")).will(topic, "x", 0, false);
            refuses(version, topic, &connect.bytes(), &[0x81, 0x82, 0x90]);
        }
    }
}

/// [MQTT-3.1.4-1] [MQTT-4.13.1-1]
#[test]
fn properties_that_do_not_belong_in_connect_are_refused() {
    let foreign = [
        property::byte(property::PAYLOAD_FORMAT, 1),
        property::four(property::MESSAGE_EXPIRY, 1),
        property::text(property::CONTENT_TYPE, "a"),
        property::text(property::RESPONSE_TOPIC, "a"),
        property::text(property::CORRELATION_DATA, "a"),
        property::varint(property::SUBSCRIPTION_ID, 1),
        property::text(property::ASSIGNED_CLIENT_ID, "a"),
        property::two(property::SERVER_KEEP_ALIVE, 1),
        property::four(property::WILL_DELAY, 1),
        property::text(property::RESPONSE_INFORMATION, "a"),
        property::text(property::SERVER_REFERENCE, "a"),
        property::text(property::REASON_STRING, "a"),
        property::two(property::TOPIC_ALIAS, 1),
        property::byte(property::MAXIMUM_QOS, 1),
        property::byte(property::RETAIN_AVAILABLE, 1),
        property::byte(property::WILDCARD_AVAILABLE, 1),
        property::byte(property::SUBSCRIPTION_ID_AVAILABLE, 1),
        property::byte(property::SHARED_AVAILABLE, 1),
        vec![0x00, 0x00],
        vec![0x7F, 0x00],
        vec![0xA6, 0x01, 0x00],
    ];
    for property in foreign {
        refuses(
            V5,
            &format!("{property:02x?}"),
            &Connect::new(V5, unique("x")).with(property).bytes(),
            MALFORMED,
        );
    }
}

/// [MQTT-3.1.4-1] [MQTT-4.13.1-1]
#[test]
fn properties_that_do_not_belong_in_a_will_are_refused() {
    if oracle_deviates("has one list of properties for CONNECT and its will") {
        return;
    }
    for property in [
        property::four(property::SESSION_EXPIRY, 1),
        property::two(property::RECEIVE_MAXIMUM, 1),
        property::two(property::TOPIC_ALIAS, 1),
        property::varint(property::SUBSCRIPTION_ID, 1),
        property::text(property::AUTH_METHOD, "a"),
        property::text(property::REASON_STRING, "a"),
    ] {
        let connect = Connect::new(V5, unique("x"))
            .will("a", "b", 0, false)
            .will_with(property.clone());
        refuses(V5, &format!("{property:02x?}"), &connect.bytes(), MALFORMED);
    }
}

/// [MQTT-3.1.4-1] [MQTT-4.13.1-1]
#[test]
fn a_property_twice_is_a_protocol_error_except_for_user_properties() {
    let once = [
        property::four(property::SESSION_EXPIRY, 1),
        property::two(property::RECEIVE_MAXIMUM, 1),
        property::four(property::MAXIMUM_PACKET_SIZE, 100),
        property::two(property::TOPIC_ALIAS_MAXIMUM, 1),
        property::byte(property::REQUEST_RESPONSE, 1),
        property::byte(property::REQUEST_PROBLEM, 1),
        property::text(property::AUTH_METHOD, "a"),
    ];
    for property in once {
        let connect = Connect::new(V5, unique("d"))
            .with(property.clone())
            .with(property.clone());
        refuses(
            V5,
            &format!("{property:02x?} twice"),
            &connect.bytes(),
            &[0x81, 0x82, 0x8C],
        );
    }
    for property in [
        property::four(property::WILL_DELAY, 1),
        property::byte(property::PAYLOAD_FORMAT, 1),
    ] {
        let will = Connect::new(V5, unique("d")).will("a", "b", 0, false);
        let connect = will.will_with(property.clone()).will_with(property.clone());
        refuses(
            V5,
            &format!("{property:02x?} twice in a will"),
            &connect.bytes(),
            MALFORMED,
        );
    }
    let twice = Connect::new(V5, unique("d"))
        .with(property::user("a", "1"))
        .with(property::user("a", "1"));
    Peer::connect(&twice).0.leave();
}

/// [MQTT-3.1.4-1] [MQTT-4.13.1-1]
#[test]
fn property_values_out_of_range_are_protocol_errors() {
    for property in [
        property::two(property::RECEIVE_MAXIMUM, 0),
        property::four(property::MAXIMUM_PACKET_SIZE, 0),
        property::byte(property::REQUEST_RESPONSE, 2),
        property::byte(property::REQUEST_PROBLEM, 2),
        property::text(property::AUTH_DATA, "data without a method"),
    ] {
        if property[0] == property::AUTH_DATA
            && oracle_deviates("ignores authentication data without a method")
        {
            continue;
        }
        refuses(
            V5,
            &format!("{property:02x?}"),
            &Connect::new(V5, unique("v")).with(property).bytes(),
            MALFORMED,
        );
    }
}

/// [MQTT-1.5.5-1] [MQTT-3.1.4-1]
#[test]
fn lengths_that_do_not_fit_are_malformed() {
    let good = Connect::new(V5, "lengths").body();
    // The property length stands at byte 10; these claim more than there is, or never end.
    for length in [
        vec![0x05],
        vec![0xFF, 0xFF, 0xFF, 0x7F],
        vec![0x80, 0x80, 0x80, 0x80, 0x01],
    ] {
        let body = [&good[..10], &length, &good[11..]].concat();
        refuses(
            V5,
            &format!("property length {length:02x?}"),
            &packet(0x10, &body),
            MALFORMED,
        );
    }
    // A packet length of five bytes.
    for version in BOTH {
        refuses(
            version,
            "five bytes of length",
            &[0x10, 0xFF, 0xFF, 0xFF, 0xFF, 0x01, 0x00],
            MALFORMED,
        );
    }
    if oracle_deviates("takes a property length with bytes to spare") {
        return;
    }
    let padded = [&good[..10], &[0x80, 0x00], &good[11..]].concat();
    refuses(
        V5,
        "a property length with bytes to spare",
        &packet(0x10, &padded),
        MALFORMED,
    );
}

/// [MQTT-1.5.7-1]
#[test]
fn both_halves_of_a_user_property_must_be_utf_8() {
    for (name, value) in [
        (&b"\xFF"[..], &b"ok"[..]),
        (b"ok", b"\xFF"),
        (b"\0", b"ok"),
        (b"ok", b"\xED\xA0\x80"),
    ] {
        let property = [vec![property::USER_PROPERTY], field(name), field(value)].concat();
        refuses(
            V5,
            &format!("{property:02x?}"),
            &Connect::new(V5, unique("s")).with(property).bytes(),
            MALFORMED,
        );
    }
}
