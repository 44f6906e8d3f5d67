//! Shared subscriptions, for MQTT 5 and for MQTT 3.1.1 clients alike.

use std::time::{Duration, Instant};

use super::BOTH;
use super::packet::Version::*;
use super::packet::*;
use super::peer::*;

/// Messages of a group's members, each settled, `count` of them in all and not one more.
///
/// Messages wait in the group until a member is about to be free, so members are asked in turns. A mark that each gets
/// on its own shows that there are no more.
fn collect(members: &mut [Peer], publisher: &mut Peer, count: usize) -> Vec<Vec<Message>> {
    let begun = Instant::now();
    let mut got: Vec<Vec<Message>> = members.iter().map(|_| Vec::new()).collect();
    while got.iter().map(Vec::len).sum::<usize>() < count {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "{got:?} after {:?}, not {count}",
            begun.elapsed()
        );
        for (member, got) in members.iter_mut().zip(&mut got) {
            for packet in member.until_pong() {
                let Packet::Publish(message) = packet else {
                    panic!("{packet:?} instead of PUBLISH")
                };
                member.settle(&message);
                got.push(message);
            }
        }
    }
    for (member, got) in members.iter_mut().zip(&mut got) {
        got.extend(member.messages_until_mark(publisher));
    }
    assert_eq!(got.iter().map(Vec::len).sum::<usize>(), count, "{got:?}");
    got
}

fn texts(got: &[Vec<Message>]) -> Vec<Vec<String>> {
    got.iter()
        .map(|got| {
            got.iter()
                .map(|message| message.text().to_owned())
                .collect()
        })
        .collect()
}

/// [MQTT-4.8.2-1] [MQTT-4.8.2-2] [MQTT-4.5.0-1]
#[test]
fn each_message_goes_to_exactly_one_member() {
    for version in BOTH {
        for qos in 0..=2 {
            let topic = unique("t");
            let filter = format!("$share/{}/{topic}", unique("g"));
            let mut members: Vec<Peer> = (0..3).map(|_| Peer::new(version)).collect();
            for member in &mut members {
                assert_eq!(member.subscribe(&filter, qos), qos);
            }
            let mut publisher = Peer::new(version);
            for number in 1..=12_u16 {
                publisher.publish(&Publish::new(&topic, format!("{number:02}")).qos(qos, number));
            }
            let mut all = texts(&collect(&mut members, &mut publisher, 12)).concat();
            all.sort();
            let expected: Vec<String> = (1..=12).map(|number| format!("{number:02}")).collect();
            assert_eq!(all, expected);
        }
    }
}

/// [MQTT-4.8.2-1]
#[test]
fn groups_and_plain_subscriptions_get_their_own_copies() {
    let (topic, group) = (unique("t"), unique("g"));
    let mut publisher = Peer::new(V5);
    let mut members: Vec<Peer> = (0..3).map(|_| Peer::new(V5)).collect();
    members[0].subscribe(&format!("$share/{group}/{topic}"), 1);
    members[1].subscribe(&format!("$share/{group}x/{topic}"), 1);
    members[2].subscribe(&topic, 1);
    publisher.publish(&Publish::new(&topic, "x").qos(1, 1));
    assert_eq!(
        texts(&collect(&mut members, &mut publisher, 3)),
        vec![vec!["x".to_owned()]; 3]
    );
}

/// The same name on two filters is two groups, and one client may be in both and have a plain subscription too.
/// [MQTT-4.8.2-1] [MQTT-4.8.2-2]
#[test]
fn a_group_is_known_by_its_name_and_its_filter() {
    let (stem, group) = (unique("t"), unique("g"));
    let mut publisher = Peer::new(V5);
    let mut members: Vec<Peer> = (0..2).map(|_| Peer::new(V5)).collect();
    members[0].subscribe(&format!("$share/{group}/{stem}/#"), 1);
    members[1].subscribe(&format!("$share/{group}/{stem}/+"), 1);
    publisher.publish(&Publish::new(format!("{stem}/a"), "x").qos(1, 1));
    assert_eq!(
        texts(&collect(&mut members, &mut publisher, 2)),
        vec![vec!["x".to_owned()]; 2]
    );
}

/// [MQTT-4.8.2-3]
#[test]
fn each_member_gets_messages_with_the_qos_granted_to_it() {
    let topic = unique("t");
    let filter = format!("$share/{}/{topic}", unique("g"));
    let mut publisher = Peer::new(V5);
    let mut members: Vec<Peer> = (0..3).map(|_| Peer::new(V5)).collect();
    for (member, qos) in members.iter_mut().zip(0..) {
        assert_eq!(member.subscribe(&filter, qos), qos);
    }
    for number in 1..=12 {
        publisher.publish(&Publish::new(&topic, "x").qos(2, number));
    }
    for (received, granted) in collect(&mut members, &mut publisher, 12).iter().zip(0..) {
        assert!(
            received.iter().all(|message| message.qos == granted),
            "granted {granted}"
        );
    }
}

/// [MQTT-4.8.2-1] [MQTT-4.8.2-2]
#[test]
fn a_share_name_must_be_a_share_name() {
    if oracle_deviates("takes most of them") {
        return;
    }
    for version in BOTH {
        for filter in [
            "$share/",
            "$share//a",
            "$share/g",
            "$share/g/",
            "$share/g+/a",
            "$share/g#/a",
            "$share/+/a",
            "$share/#",
        ] {
            let mut peer = Peer::new(version);
            peer.send(&subscribe(version, 1, &[], &[(filter, 0)]));
            if let Some(codes) = peer.until_close_or_suback() {
                assert_eq!(
                    codes,
                    if version == V5 { [0x8F] } else { [0x80] },
                    "{filter}"
                );
            }
        }
    }
}

/// [MQTT-3.8.3-4] [MQTT-4.13.1-1]
#[test]
fn no_local_on_a_shared_subscription_is_a_protocol_error() {
    if oracle_deviates("grants it") {
        return;
    }
    let mut peer = Peer::new(V5);
    peer.send(&subscribe(V5, 1, &[], &[("$share/g/a", 0x04)]));
    peer.expect_end(&[0x82]);
}

/// MQTT 5 §3.3.1.3 says so without a number.
#[test]
fn a_shared_subscription_gets_no_retained_messages() {
    for version in BOTH {
        if oracle_deviates("sends them") {
            continue;
        }
        let topic = unique("t");
        let mut publisher = Peer::new(version);
        publisher.publish(&Publish::new(&topic, "kept").qos(1, 1).retain());
        let mut member = Peer::new(version);
        member.subscribe(&format!("$share/{}/{topic}", unique("g")), 0);
        assert_eq!(member.messages_until_retained_marks(), []);
        publisher.publish(&Publish::new(&topic, "").qos(1, 2).retain());
    }
}

/// [MQTT-3.3.4-3]
#[test]
fn a_shared_subscription_has_its_identifier() {
    let topic = unique("t");
    let mut peer = Peer::new(V5);
    let filter = format!("$share/{}/{topic}", unique("g"));
    peer.subscribe_all(
        &property::varint(property::SUBSCRIPTION_ID, 9),
        &[(&filter, 0)],
    );
    peer.publish(&Publish::new(&topic, "x"));
    assert_eq!(
        peer.message().properties.numbers(property::SUBSCRIPTION_ID),
        [9]
    );
}

/// [MQTT-3.10.4-1] [MQTT-3.10.4-2] [MQTT-3.11.3-2]
#[test]
fn leaving_a_group_is_unsubscribing_from_the_whole_filter() {
    for version in BOTH {
        let topic = unique("t");
        let filter = format!("$share/{}/{topic}", unique("g"));
        let mut members: Vec<Peer> = (0..2).map(|_| Peer::new(version)).collect();
        for member in &mut members {
            member.subscribe(&filter, 1);
        }
        let codes = members[0].unsubscribe(&[&topic, &filter]);
        assert_eq!(
            codes,
            if version == V5 {
                vec![0x11, 0x00]
            } else {
                vec![]
            }
        );
        let mut publisher = Peer::new(version);
        for number in 1..=4 {
            publisher.publish(&Publish::new(&topic, "x").qos(1, number));
        }
        let counts: Vec<usize> = collect(&mut members, &mut publisher, 4)
            .iter()
            .map(Vec::len)
            .collect();
        assert_eq!(counts, [0, 4]);
    }
}

/// [MQTT-4.8.2-4]
#[test]
fn a_broken_off_qos_2_delivery_is_completed_to_the_same_member() {
    for version in BOTH {
        let (name, topic) = (unique("c"), unique("t"));
        let filter = format!("$share/{}/{topic}", unique("g"));
        let lasting = Connect::lasting(version, &name);
        let (mut member, _) = Peer::connect(&lasting);
        member.subscribe(&filter, 2);
        let mut publisher = Peer::new(version);
        publisher.publish(&Publish::new(&topic, "two").qos(2, 1));
        let first = member.message();
        member.send(&ack(PUBREC, first.id));
        assert_eq!(member.ack(PUBREL, first.id), 0);
        let mut other = Peer::new(version);
        other.subscribe(&filter, 2);
        member.vanish();
        assert_eq!(other.messages_until_mark(&mut publisher), []);
        let (mut member, _) = Peer::connect(&lasting);
        assert_eq!(member.ack(PUBREL, first.id), 0);
        member.send(&ack(PUBCOMP, first.id));
        assert_eq!(member.until_pong(), []);
        member.leave();
    }
}

/// [MQTT-4.8.2-5]
#[test]
fn a_qos_2_delivery_dies_with_the_session_of_its_member() {
    let (name, topic) = (unique("c"), unique("t"));
    let filter = format!("$share/{}/{topic}", unique("g"));
    let (mut member, _) = Peer::connect(&Connect::lasting(V5, &name));
    member.subscribe(&filter, 2);
    let mut publisher = Peer::new(V5);
    publisher.publish(&Publish::new(&topic, "two").qos(2, 1));
    let first = member.message();
    member.send(&ack(PUBREC, first.id));
    assert_eq!(member.ack(PUBREL, first.id), 0);
    let mut other = Peer::new(V5);
    other.subscribe(&filter, 2);
    member.send(&disconnect_with(
        0,
        &property::four(property::SESSION_EXPIRY, 0),
    ));
    member.wait_for_close();
    assert_eq!(other.messages_until_mark(&mut publisher), []);
}

/// [MQTT-4.8.2-6] [MQTT-4.4.0-2]
#[test]
fn a_message_that_one_member_refuses_goes_to_no_other() {
    for (qos, packet, reason) in [(1, PUBACK, 0x97), (2, PUBREC, 0x83)] {
        let topic = unique("t");
        let filter = format!("$share/{}/{topic}", unique("g"));
        let mut publisher = Peer::new(V5);
        let mut first = Peer::new(V5);
        first.subscribe(&filter, 2);
        publisher.publish(&Publish::new(&topic, "refused").qos(qos, 1));
        let message = first.message();
        let mut second = Peer::new(V5);
        second.subscribe(&filter, 2);
        first.send(&ack_with(packet, message.id, reason));
        assert_eq!(first.until_pong(), []);
        first.leave();
        assert_eq!(second.messages_until_mark(&mut publisher), []);
    }
}
