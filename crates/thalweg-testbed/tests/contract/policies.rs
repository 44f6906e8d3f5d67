//! The operator's policies hold whatever protocol a message was published with.

use crate::peer::{Place, Protocol, Stage};
use thalweg_kernel::access::Access;
use thalweg_kernel::{Limits, Policy};
use thalweg_model::{Filter, Span};
use thalweg_mqtt::{ConnectOut, PublishOut, QoS, SubscribeOptions};
use thalweg_testbed::Settings;
use thalweg_testbed::disk::Loss;

#[test]
fn a_lifespan_holds_for_every_protocol_on_every_shard_and_after_a_kill() {
    let policy = Policy {
        lifespan_max: Some(Span::from_secs(30)),
        ..Policy::new(Filter::new("$q/short").expect("a filter"))
    };
    for (protocol, shards) in Protocol::ALL.into_iter().flat_map(|it| [(it, 1), (it, 2)]) {
        let what = format!("{protocol:?}, {shards} shards");
        let mut stage = Stage::with(Settings {
            shards,
            limits: Limits {
                journal: true,
                policies: [policy.clone()].into(),
                ..Limits::default()
            },
            ..Settings::default()
        });
        stage.declare("short");
        stage.declare("long");
        let name = stage.bed.name_on("publisher", usize::from(shards) - 1);
        let publisher = stage.connect_as(protocol, "publisher", &name, 9);
        for queue in ["short", "long"] {
            stage.publish(publisher, Place::Queue(queue), "m");
        }
        stage.bed.run_for(Span::from_secs(20));
        // A PUSH sends at most once, and in memory only.
        if protocol.settles() {
            stage.bed.crash(Loss::Process, shards, |_| ());
        }
        let read = |stage: &mut Stage, queue| {
            let reader = stage.connect(Protocol::Amqp, "reader");
            stage.ask(reader, Place::Queue(queue));
            let bodies = stage.bodies(reader);
            stage.lose(reader);
            bodies
        };
        // It is not settled, and so it is there again.
        assert_eq!(read(&mut stage, "short"), ["m"], "{what}");
        stage.bed.run_for(Span::from_secs(11));
        assert_eq!(read(&mut stage, "short"), [""; 0], "{what}");
        assert_eq!(read(&mut stage, "long"), ["m"], "{what}");
        stage.bed.check();
    }
}

/// Bytes that a slow receiver of MQTT takes in a turn.
const TURN: usize = 500;
const BODY: usize = 100;

/// In each of 200 turns there are so many messages of priority 4 for a slow receiver, and in every tenth an alarm, as the
/// policies say. How many bytes are sent before each alarm has arrived, from when it was published.
fn bytes_before_alarms(qos: QoS, flood: usize, policies: &[(&str, u8)]) -> Vec<usize> {
    let policies = policies.iter().map(|(filter, priority)| Policy {
        priority_min: Some(*priority),
        ..Policy::new(Filter::new(filter).expect("a filter"))
    });
    let mut stage = Stage::with(Settings {
        limits: Limits {
            policies: policies.collect(),
            ..Limits::default()
        },
        ..Settings::default()
    });
    let bed = &mut stage.bed;
    bed.skips_checks = true;
    let [slow, publisher] = ["slow", "publisher"].map(|client_id| {
        let connect = ConnectOut {
            client_id,
            ..ConnectOut::default()
        };
        let who = bed.open_mqtt(&connect, Some(Access::ALL));
        bed.rest();
        who
    });
    let options = SubscribeOptions {
        qos,
        ..SubscribeOptions::default()
    };
    bed.mqtt_subscribe(slow, "t/#", options);
    bed.set_reading(slow, false);
    let (mut sent, mut published, mut before) = (0, Vec::new(), Vec::new());
    for turn in 0..200 {
        let is_alarm = turn % 10 == 0;
        let alarm = is_alarm.then_some("t/alarm");
        for topic in std::iter::repeat_n("t/flood", flood).chain(alarm) {
            let publish = PublishOut {
                topic,
                payload: &[0; BODY],
                qos,
                ..PublishOut::default()
            };
            bed.says(publisher, |client, up| client.publish(&publish, up));
        }
        if is_alarm {
            published.push(sent);
        }
        bed.set_stalled(slow, false);
        bed.flush(slow, TURN);
        bed.set_stalled(slow, true);
        sent += TURN;
        bed.read(slow);
        bed.rest();
        for got in bed.mqtt_got(slow) {
            if got.topic == "t/alarm" {
                before.push(sent - published[before.len()]);
            }
        }
    }
    bed.check();
    before.sort_unstable();
    before
}

#[test]
fn an_alarm_waits_behind_a_few_kilobytes_however_much_there_is_for_a_slow_receiver() {
    for qos in [QoS::AtMostOnce, QoS::AtLeastOnce] {
        let priorities = [("t/alarm", 9), ("t/flood", 4)];
        let flooded = bytes_before_alarms(qos, 12, &priorities);
        assert!(flooded.len() >= 19, "the last may be on its way");
        let longest = flooded.last().copied().unwrap_or(0);
        let most = (4 << 10) + 3 * BODY + TURN;
        assert!(longest <= most, "{longest} of {most} bytes, {qos:?}");
        // The same without priorities: the test would notice.
        let plain = bytes_before_alarms(qos, 12, &[]);
        assert!(plain.last().is_none_or(|longest| *longest > 5 * most));
    }
}
