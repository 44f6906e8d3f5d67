//! Load reports of workers: an extension of MQTT, and its effects on standard behaviour. The bytes are those that the
//! thesis's clients send; docs/protocols/mqtt.md has the rules.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use super::packet::Version::*;
use super::packet::*;
use super::peer::*;
use crate::broker::{Broker, BrokerProgram};

const LISTING: &str = r#"{"numberOfMsgsInQueue":3,"processingTimerPerMsg":25.0}"#;
const FIGURE: &str = r#"{"msgsInQueue":3,"processingTimePerMsg":25.0}"#;

/// A PINGREQ with a report behind these properties.
fn report(all: &[u8], json: &str) -> Vec<u8> {
    packet(0xC0, &[properties(all), json.into()].concat())
}

/// A broker with one shard, so that a group has one home.
fn alone() -> Arc<Broker> {
    static ALONE: Kept = OnceLock::new();
    kept(&ALONE, || Broker::with().set("shards", "1"))
}

/// Number of CONNACK properties that announce load reports. (Other properties of this kind have other purposes.)
fn announced(connack: &Connack) -> usize {
    connack
        .properties
        .all(property::USER_PROPERTY)
        .iter()
        .filter(|said| **said == b"x-lb-report=1")
        .count()
}

/// Nobody else has this extension.
fn is_foreign() -> bool {
    shared_broker().kind() != BrokerProgram::Thalweg
}

#[test]
fn connack_tells_mqtt_5_clients_that_their_reports_are_taken_and_no_one_else() {
    if is_foreign() {
        return;
    }
    assert_eq!(
        announced(&Peer::connect(&Connect::new(V5, unique("c"))).1),
        1
    );
    // Problem information has nothing to do with it. [MQTT-3.1.2-29]
    let unasked = Connect::new(V5, unique("c")).with(property::byte(property::REQUEST_PROBLEM, 0));
    assert_eq!(announced(&Peer::connect(&unasked).1), 1);
    // Where it would not fit it is left out. [MQTT-3.2.2-20]
    let tiny =
        Connect::new(V5, unique("c")).with(property::four(property::MAXIMUM_PACKET_SIZE, 25));
    let (mut peer, connack) = Peer::open(V5).taking_at_most(25).accepted(&tiny);
    assert_eq!(announced(&connack), 0);
    peer.send(&report(&[], LISTING));
    assert_eq!(
        peer.next(),
        Packet::Pingresp,
        "who was not told may know all the same"
    );
    assert_eq!(
        announced(&Peer::connect(&Connect::new(V311, unique("c"))).1),
        0
    );
}

#[test]
fn the_pings_of_the_thesis_are_answered_like_those_of_stock_clients() {
    if is_foreign() {
        return;
    }
    assert_eq!(report(&[], LISTING)[..4], [0xC0, 0x37, 0x00, 0x7B]);
    assert_eq!(report(&[], FIGURE).len(), 48);
    let unit = property::user("unit", "ms");
    assert_eq!(
        report(&unit, FIGURE)[..14],
        *b"\xC0\x39\x0B\x26\x00\x04unit\x00\x02ms"
    );
    let mut peer = Peer::new(V5);
    for ping in [
        pingreq(),
        report(&[], LISTING),
        report(&[], FIGURE),
        report(&unit, FIGURE),
        packet(0xC0, FIGURE.as_bytes()),
        packet(0xC0, &[0]),
        pingreq(),
    ] {
        peer.send(&ping);
        assert_eq!(peer.next(), Packet::Pingresp, "{ping:02x?}");
    }
    assert_eq!(peer.until_pong(), [], "one PINGRESP for each");
}

/// §3.12: PINGREQ has no variable header and no payload. [MQTT-4.13.1-1]
#[test]
fn a_ping_with_a_body_is_malformed_in_mqtt_3_and_in_mqtt_5_where_reports_are_switched_off() {
    for ping in [
        report(&[], LISTING),
        packet(0xC0, FIGURE.as_bytes()),
        packet(0xC0, &[0]),
    ] {
        for version in [V31, V311] {
            let mut peer = Peer::new(version);
            peer.send(&ping);
            assert_eq!(peer.ending(), Ending::Silent, "{version:?}");
        }
    }
    if is_foreign() {
        return;
    }
    let broker = Arc::new(Broker::with().set("mqtt.load_reports", "off").start());
    let (mut peer, connack) = Peer::open_to(broker, V5).accepted(&Connect::new(V5, unique("c")));
    assert_eq!(announced(&connack), 0);
    peer.send(&report(&[], LISTING));
    assert_eq!(peer.ending(), Ending::Disconnect(0x81));
}

#[test]
fn a_hostile_report_is_answered_and_forgotten_and_nobody_else_notices() {
    if is_foreign() {
        return;
    }
    let (topic, group) = (unique("t"), unique("g"));
    let filter = format!("$share/{group}/{topic}");
    let (mut liar, mut worker, mut publisher) = (Peer::new(V5), Peer::new(V5), Peer::new(V5));
    liar.subscribe(&filter, 1);
    worker.subscribe(&filter, 1);
    let mut pings: Vec<Vec<u8>> = [
        r#"{"msgsInQueue":NaN,"processingTimePerMsg":NaN}"#,
        r#"{"msgsInQueue":-3,"processingTimePerMsg":-25.0}"#,
        r#"{"msgsInQueue":1e300,"processingTimePerMsg":1e300}"#,
        r#"{"msgsInQueue":3,"processingTimePerMsg":1e999}"#,
        r#"{"msgsInQueue":"3"}"#,
        r#"{"msgsInQueue":3,"processingTimePerMsg":25.0"#,
        "[",
        "{}",
        "",
    ]
    .iter()
    .map(|json| report(&[], json))
    .collect();
    pings.push(report(&property::user("unit", "fortnight"), FIGURE));
    pings.push(report(&property::byte(property::PAYLOAD_FORMAT, 1), FIGURE));
    // Property lengths that lie: beyond the body, endless, cut inside a string.
    pings.extend(
        [
            &[0x7F][..],
            &[0x80],
            &[0xFF, 0xFF, 0xFF, 0xFF],
            &[0x05, 0x26, 0x00, 0x04, 0x75],
            b"\xFF{}",
        ]
        .map(|body| packet(0xC0, body)),
    );
    pings.push(report(&[], &format!(r#"{{"x":"{}"}}"#, "y".repeat(1100))));
    let count = pings.len();
    for ping in pings {
        liar.send(&ping);
    }
    for number in 0..count {
        assert_eq!(liar.next(), Packet::Pingresp, "{number}");
    }
    for id in 1..=8 {
        publisher.publish(&Publish::new(&topic, format!("{id}")).qos(1, id));
    }
    // Whoever settles may get the next, so both are asked in turns.
    let mut texts: Vec<String> = Vec::new();
    let begun = Instant::now();
    while texts.len() < 8 {
        assert!(begun.elapsed() < Duration::from_secs(60), "{texts:?}");
        for peer in [&mut liar, &mut worker] {
            for packet in peer.until_pong() {
                let Packet::Publish(message) = packet else {
                    panic!("{packet:?}")
                };
                peer.settle(&message);
                texts.push(message.text().to_owned());
            }
        }
    }
    texts.sort();
    assert_eq!(texts, ["1", "2", "3", "4", "5", "6", "7", "8"]);
}

/// Above the Maximum Packet Size of CONNACK, which is 1 MiB.
#[test]
fn two_megabytes_in_a_ping_are_answered_and_passed_over() {
    if is_foreign() {
        return;
    }
    let mut peer = Peer::new(V5);
    let body = vec![b'{'; 2_000_000];
    peer.send(&packet(0xC0, &body));
    assert_eq!(peer.next(), Packet::Pingresp);
    let topic = unique("t");
    assert_eq!(peer.subscribe(&topic, 1), 1);
    let id = peer.id();
    assert_eq!(peer.publish(&Publish::new(&topic, "as ever").qos(1, id)), 0);
    assert_eq!(peer.message().text(), "as ever");
}

#[test]
fn a_publish_to_the_reports_address_is_acknowledged_and_goes_nowhere() {
    if is_foreign() {
        return;
    }
    for version in [V31, V311, V5] {
        let (mut watcher, mut peer, mut publisher) =
            (Peer::new(version), Peer::new(version), Peer::new(version));
        for filter in ["#", "$load/#", "$load/report"] {
            watcher.subscribe(filter, 1);
        }
        for json in [
            LISTING,
            FIGURE,
            "",
            "{",
            r#"{"msgsInQueue":NaN,"processingTimePerMsg":-1}"#,
        ] {
            let report = || Publish::new("$load/report", json);
            for publish in [
                report(),
                report().retain(),
                report().qos(1, 7),
                report().qos(2, 8),
                report().qos(1, 9).retain(),
            ] {
                assert_eq!(peer.publish(&publish), 0, "{version:?} {json}");
            }
        }
        assert_eq!(peer.until_pong(), []);
        let seen = watcher.messages_until_mark(&mut publisher);
        assert!(
            seen.iter().all(|message| message.topic != "$load/report"),
            "{seen:?}"
        );
        assert_eq!(watcher.subscribe("$load/report", 1), 1);
        assert!(
            watcher
                .messages_until_mark(&mut publisher)
                .iter()
                .all(|message| message.topic != "$load/report")
        );
    }
}

/// [MQTT-4.3.3-10]
#[test]
fn a_report_of_qos_2_may_be_repeated_until_it_is_released() {
    if is_foreign() {
        return;
    }
    let mut peer = Peer::new(V5);
    let publish = Publish::new("$load/report", LISTING).qos(2, 5);
    for bytes in [
        publish.bytes(V5),
        Publish::new("$load/report", LISTING)
            .qos(2, 5)
            .dup()
            .bytes(V5),
    ] {
        peer.send(&bytes);
        assert_eq!(peer.ack(PUBREC, 5), 0);
    }
    for reason in [0, 0x92] {
        peer.send(&ack(PUBREL, 5));
        assert_eq!(peer.ack(PUBCOMP, 5), reason);
    }
}

#[test]
fn messages_go_to_the_member_that_has_less_to_do_by_its_own_report() {
    if is_foreign() {
        return;
    }
    for version in [V5, V311] {
        let topic = unique("t");
        let filter = format!("$share/{}/{topic}", unique("g"));
        let join = || {
            let (mut peer, _) =
                Peer::open_to(alone(), version).accepted(&Connect::new(version, unique("c")));
            peer.subscribe(&filter, 0);
            peer
        };
        let (mut busy, mut idle) = (join(), join());
        let say = |peer: &mut Peer, json: &str| match version {
            V5 => {
                peer.send(&report(&[], json));
                assert_eq!(peer.next(), Packet::Pingresp);
            }
            _ => {
                peer.send(&Publish::new("$load/report", json).qos(1, 9).bytes(version));
                assert_eq!(peer.ack(PUBACK, 9), 0);
            }
        };
        say(
            &mut busy,
            r#"{"numberOfMsgsInQueue":1000,"processingTimerPerMsg":100.0}"#,
        );
        say(
            &mut idle,
            r#"{"numberOfMsgsInQueue":0,"processingTimerPerMsg":1.0}"#,
        );
        let (mut publisher, _) =
            Peer::open_to(alone(), version).accepted(&Connect::new(version, unique("c")));
        for number in 0..10 {
            publisher.publish(&Publish::new(&topic, format!("{number}")));
        }
        for number in 0..10 {
            assert_eq!(idle.message().text(), format!("{number}"), "{version:?}");
        }
        assert_eq!(
            busy.messages_until_mark(&mut publisher).len(),
            0,
            "{version:?}"
        );
    }
}

#[test]
fn terms_of_work_are_read_where_they_are_known_and_harmless_where_they_are_not() {
    let terms = [
        ("lb-concurrency", "4"),
        ("lb-ack", "processed"),
        ("lb-order", "key"),
        ("lb-weight", "3"),
    ];
    let odd = [
        ("lb-concurrency", "-1"),
        ("lb-ack", "perhaps"),
        ("lb-order", ""),
        ("lb-weight", "65536"),
        ("lb-", "x"),
    ];
    let mut connect = Connect::new(V5, unique("c"));
    for (name, value) in terms.iter().chain(&odd) {
        connect = connect.with(property::user(name, value));
    }
    let (mut peer, _) = Peer::connect(&connect);
    let (topic, group) = (unique("t"), unique("g"));
    let all: Vec<u8> = terms
        .iter()
        .chain(&odd)
        .flat_map(|(name, value)| property::user(name, value))
        .collect();
    let filters = [(&*format!("$share/{group}/{topic}"), 1), (&*topic, 1)];
    assert_eq!(peer.subscribe_all(&all, &filters), [1, 1]);
    let id = peer.id();
    peer.publish(&Publish::new(&topic, "twice").qos(1, id));
    for _ in 0..2 {
        let message = peer.message();
        assert_eq!(message.text(), "twice");
        peer.settle(&message);
    }
}
