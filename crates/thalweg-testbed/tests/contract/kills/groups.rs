//! Messages that wait in a group, and are marked before they leave for a member on another shard.

use super::{LOSSES, all, at_each_step, bed, everything, kill};
use std::collections::BTreeSet;
use thalweg_model::Span;
use thalweg_mqtt::{ConnectOut, PublishOut, QoS, SubscribeOptions};
use thalweg_testbed::mqtt::Mqtt;
use thalweg_testbed::{Testbed, Who};

const COUNT: usize = 6;
/// Unsettled messages that a member may have.
const WINDOW: u16 = 2;

fn connect(bed: &mut Testbed, stem: &str, shard: usize, expiry: u32, window: u16) -> Who<Mqtt> {
    let connect = ConnectOut {
        client_id: &bed.name_on(stem, shard),
        clean_start: false,
        session_expiry: expiry,
        receive_max: window,
        ..ConnectOut::default()
    };
    let who = bed.open_mqtt(&connect, everything());
    bed.rest();
    who
}

fn shared(qos: QoS) -> (&'static str, SubscribeOptions) {
    let options = SubscribeOptions {
        qos,
        ..SubscribeOptions::default()
    };
    ("$share/g/a/b", options)
}

/// A member takes some, settles one and is killed with the broker; another takes the rest. Whether the kill came too late.
fn story(stays: usize, goes: usize, qos: QoS, after: usize, loss: usize) -> bool {
    let what = format!("{stays} stays, {goes} goes, {qos:?}, killed after {after}, {loss}");
    let (filter, options) = shared(qos);
    let mut bed = bed(2);
    let durable = connect(&mut bed, "stays", stays, 3600, u16::MAX);
    bed.mqtt_subscribe(durable, filter, options);
    bed.lose(durable);
    let publisher = bed.mqtt("publisher");
    for number in 0..COUNT {
        let body = number.to_string();
        let publish = PublishOut {
            topic: "a/b",
            payload: body.as_bytes(),
            qos,
            ..PublishOut::default()
        };
        bed.mqtt_publish(publisher, &publish);
    }
    // Its session ends with its connection, and with the broker.
    let member = connect(&mut bed, "goes", goes, 0, WINDOW);
    bed.client(member).acknowledges = false;
    bed.write(member, |client, up| {
        client.subscribe(filter, options, up);
    });
    let was_late = kill(&mut bed, &[all(member)], after, LOSSES[loss]);
    let text = |payload: &[u8]| String::from_utf8(payload.to_vec()).expect("text");
    let had = bed.mqtt_got(member).into_iter();
    let had: BTreeSet<String> = had.map(|got| text(&got.payload)).collect();
    assert!(!was_late || !had.is_empty(), "{what}: nothing had left");
    let durable = connect(&mut bed, "stays", stays, 3600, u16::MAX);
    bed.run_for(Span::from_secs(60));
    let got = bed.mqtt_got(durable);
    let all: BTreeSet<String> = got.iter().map(|got| text(&got.payload)).collect();
    let flagged = got.iter().filter(|got| got.dup);
    let flagged: BTreeSet<String> = flagged.map(|got| text(&got.payload)).collect();
    let what = format!("{what}: {had:?} had left, {all:?} came, {flagged:?} flagged");
    assert_eq!(got.len(), all.len(), "{what}: twice");
    match qos {
        // A copy that may have left for one receiver goes to no other.
        QoS::ExactlyOnce => {
            assert!(all.is_disjoint(&had), "{what}");
            assert!(all.len() + usize::from(WINDOW) >= COUNT, "{what}");
        }
        _ => {
            assert_eq!(all.len(), COUNT, "{what}");
            assert!(had.is_subset(&flagged), "{what}");
            assert!(flagged.len() <= 2 * usize::from(WINDOW), "{what}");
        }
    }
    was_late
}

#[test]
fn what_waits_in_a_group_is_flagged_if_it_had_left_whenever_the_broker_is_killed() {
    for qos in [QoS::AtLeastOnce, QoS::ExactlyOnce] {
        for (stays, goes) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            for loss in 0..2 {
                at_each_step(|after| story(stays, goes, qos, after, loss));
            }
        }
    }
}
