//! Last values that are set, replaced or cleared.

use super::{LOSSES, all, at_each_step, bed, everything, kill};
use thalweg_model::Span;
use thalweg_mqtt::{ConnectOut, PublishOut, QoS, SubscribeOptions, Version};
use thalweg_testbed::mqtt::{Mqtt, Packet};
use thalweg_testbed::{Testbed, Who};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Set,
    Replace,
    Clear,
}

fn connect(bed: &mut Testbed, stem: &str, shard: usize, version: Version) -> Who<Mqtt> {
    let connect = ConnectOut {
        version,
        client_id: &bed.name_on(stem, shard),
        clean_start: true,
        ..ConnectOut::default()
    };
    let who = bed.open_mqtt(&connect, everything());
    bed.rest();
    who
}

fn publish<'a>(topic: &'a str, payload: &'a str, qos: QoS) -> PublishOut<'a> {
    PublishOut {
        topic,
        payload: payload.as_bytes(),
        qos,
        retain: true,
        ..PublishOut::default()
    }
}

/// The last value as a newcomer on each shard gets it: the same.
fn value(bed: &mut Testbed, address: &str, what: &str) -> Option<String> {
    let of = |bed: &mut Testbed, shard| {
        let who = connect(bed, "newcomer", shard, Version::V5);
        bed.mqtt_subscribe(who, address, SubscribeOptions::default());
        let got = bed.mqtt_got(who);
        bed.lose(who);
        assert!(
            got.len() < 2 && got.iter().all(|got| got.retain),
            "{what}: {got:?}"
        );
        let got = got.into_iter().next();
        got.map(|got| String::from_utf8(got.payload).expect("text"))
    };
    let value = of(bed, 0);
    assert_eq!(of(bed, 1), value, "{what}: shards differ");
    value
}

/// Whether the kill came too late.
fn story(
    change: Change,
    version: Version,
    qos: QoS,
    shards: [usize; 2],
    after: usize,
    loss: usize,
) -> bool {
    let [publisher, home] = shards;
    let what = format!("{change:?} {version:?} {qos:?} {shards:?}, killed after {after}, {loss}");
    let mut bed = bed(2);
    let address = bed.name_on("value", home);
    let who = connect(&mut bed, "publisher", publisher, version);
    let before = (change != Change::Set).then_some("old");
    if let Some(before) = before {
        bed.mqtt_publish(who, &publish(&address, before, QoS::AtLeastOnce));
    }
    bed.client(who).said.clear();
    let text = if change == Change::Clear { "" } else { "new" };
    bed.write(who, |client, up| {
        client.publish(&publish(&address, text, qos), up);
    });
    let was_late = kill(&mut bed, &[all(who)], after, LOSSES[loss]);
    let is_acknowledged = bed
        .client(who)
        .said
        .iter()
        .any(|packet| matches!(packet, Packet::PubAck { .. } | Packet::PubRec { .. }));
    assert!(is_acknowledged || !was_late, "{what}");
    let value_now = value(&mut bed, &address, &what);
    let wanted = (!text.is_empty()).then_some(text);
    let is_old = value_now.as_deref() == before && !is_acknowledged;
    assert!(
        value_now.as_deref() == wanted || is_old,
        "{what}: {value_now:?}"
    );
    bed.restart();
    bed.run_for(Span::ZERO);
    assert_eq!(
        value(&mut bed, &address, &what),
        value_now,
        "{what}: after another restart"
    );
    was_late
}

#[test]
fn a_last_value_is_the_acknowledged_one_whenever_the_broker_is_killed() {
    for change in [Change::Set, Change::Replace, Change::Clear] {
        for (version, qos) in [
            (Version::V311, QoS::AtLeastOnce),
            (Version::V5, QoS::AtLeastOnce),
            (Version::V5, QoS::ExactlyOnce),
        ] {
            for shards in [[0, 0], [0, 1], [1, 0], [1, 1]] {
                for loss in 0..2 {
                    at_each_step(|after| story(change, version, qos, shards, after, loss));
                }
            }
        }
    }
}
