//! HISTORY of lasting writers: who comes late in another domain gets as many samples as the writer holds.

use crate::peer::{PATIENCE, Peer, Stage, next, subscribe, value_of};
use serde_json::{Value, json};
use std::path::PathBuf;
use thalweg_client::blocking::Subscription;

fn text(of: &str) -> Value {
    json!({"data": of})
}

fn reading(id: u32, value: u32) -> Value {
    json!({"id": id, "value": f64::from(value)})
}

/// A writer that holds so many samples of each instance writes these, and the subscriber gets them.
fn write(
    stage: &mut Stage,
    held: u32,
    of: (&str, &str),
    values: &[Value],
    heard: &mut Subscription,
) {
    let (depth, held) = (format!("depth:{held}"), format!("held:{held}"));
    let qos = ["reliable", "transient-local", &*depth, &*held];
    let (writer, topic) = of;
    let kind = if topic == "Reading" {
        "Reading"
    } else {
        "Text"
    };
    for value in values {
        stage.peer.does(json!({
            "do": "write", "topic": topic, "type": kind, "as": writer, "qos": qos, "value": value
        }));
        assert_eq!(value_of(&next(heard)), *value);
    }
}

/// What a new reader hears, and nothing else.
fn assert_late_hears(peer: &mut Peer, name: &str, topic: &str, expected: &[Value]) {
    let qos = ["reliable", "transient-local", "keep-all"];
    let kind = if topic == "Reading" {
        "Reading"
    } else {
        "Text"
    };
    peer.does(json!({"do": "read", "topic": topic, "type": kind, "as": name, "qos": qos}));
    let heard: Vec<Value> = expected
        .iter()
        .map(|_| peer.hears()["value"].clone())
        .collect();
    assert_eq!(heard, expected, "{topic}");
    assert_eq!(peer.hears_soon(), None, "{topic}");
}

fn folder() -> PathBuf {
    let name = format!("dds-history-{}", std::process::id());
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

#[test]
fn who_comes_late_gets_as_many_samples_as_a_writer_holds_also_after_a_restart() {
    let data = format!("data_dir={}", folder().display());
    let sets = [
        "journal.enabled=true",
        &*data,
        "dds.second_domain=143",
        "dds.json=#",
    ];
    let Some(mut stage) = Stage::set(142, &sets) else {
        return;
    };
    let mqtt = stage.mqtt();
    let mut all = subscribe(&mqtt, "#");
    let texts: Vec<Value> = ["1", "2", "3", "4", "5"].map(text).into();
    write(&mut stage, 3, ("deep", "rt/deep"), &texts, &mut all);
    let readings: Vec<Value> = (1..=3).map(|value| reading(7, value)).collect();
    write(&mut stage, 2, ("of 7", "Reading"), &readings, &mut all);
    let others: Vec<Value> = (1..=3).map(|value| reading(8, value)).collect();
    write(&mut stage, 2, ("of 8", "Reading"), &others, &mut all);
    drop((all, mqtt));
    let of_both = [&readings[1..], &others[1..]].concat();
    let mut far = stage.peer_in(143);
    assert_late_hears(&mut far, "late", "rt/deep", &texts[2..]);
    // Once more, beside the first.
    assert_late_hears(&mut far, "later", "rt/deep", &texts[2..]);
    assert_sorted(&mut far, &of_both);
    drop(far);
    // The broker reads again what the writers hold.
    let mut stage = stage.restarted();
    let mqtt = stage.mqtt();
    assert_last(&mqtt, "ros/deep", Some(text("5")));
    assert_last(&mqtt, "Reading/8", Some(others[2].clone()));
    let mut far = stage.peer_in(143);
    assert_late_hears(&mut far, "late", "rt/deep", &texts[2..]);
    assert_sorted(&mut far, &of_both);
    for reader in ["late", "Reading"] {
        far.does(json!({"do": "stop", "topic": reader}));
    }
    // All of an instance ends at once, whether it is disposed of or its writer goes.
    let sample = json!({"do": "dispose", "topic": "Reading", "type": "Reading", "as": "of 7", "value": readings[2]});
    stage.peer.does(sample);
    stage
        .peer
        .does(json!({"do": "stop", "topic": "rt/deep", "as": "deep"}));
    assert_last(&mqtt, "Reading/7", None);
    assert_last(&mqtt, "ros/deep", None);
    assert_late_hears(&mut far, "last", "rt/deep", &[]);
    assert_sorted(&mut far, &others[1..]);
    drop((stage, mqtt));
    // It stays after a failure.
    let _ = std::fs::remove_dir_all(folder());
}

/// A new reader of both instances hears these, in order within each.
fn assert_sorted(peer: &mut Peer, expected: &[Value]) {
    let qos = ["reliable", "transient-local", "keep-all"];
    peer.does(json!({"do": "read", "topic": "Reading", "type": "Reading", "qos": qos}));
    let mut heard: Vec<Value> = expected
        .iter()
        .map(|_| peer.hears()["value"].clone())
        .collect();
    heard.sort_by_key(|it| it["id"].as_u64());
    assert_eq!(heard, expected);
    assert_eq!(peer.hears_soon(), None);
}

/// The last value is this one, or will be soon.
fn assert_last(mqtt: &thalweg_client::blocking::Client, address: &str, expected: Option<Value>) {
    let deadline = std::time::Instant::now() + PATIENCE;
    loop {
        let found = mqtt.last_value(address).expect("it can be read");
        let found = found.map(|it| value_of(&it));
        if found == expected {
            return;
        }
        assert!(std::time::Instant::now() < deadline, "{address}: {found:?}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn of_several_writers_of_an_instance_who_comes_late_gets_nothing_of_one_that_has_gone() {
    let Some(mut stage) = Stage::set(144, &["dds.second_domain=145"]) else {
        return;
    };
    let mqtt = stage.mqtt();
    let mut all = subscribe(&mqtt, "ros/#");
    let of = |name: &str| -> Vec<Value> {
        ["1", "2"]
            .iter()
            .map(|it| text(&format!("{name} {it}")))
            .collect()
    };
    let (one, two, more) = (of("one"), of("two"), of("more"));
    write(&mut stage, 5, ("one", "rt/held"), &one, &mut all);
    write(&mut stage, 5, ("two", "rt/held"), &two, &mut all);
    // They share an address, so it keeps the latest. No reader looks now: what is written for one is kept for others until
    // the bridge notices that it has gone.
    assert_last(&mqtt, "ros/held", Some(two[1].clone()));
    stage
        .peer
        .does(json!({"do": "stop", "topic": "rt/held", "as": "two"}));
    assert_eq!(value_of(&next(&mut all)), one[1]);
    write(&mut stage, 5, ("one", "rt/held"), &more, &mut all);
    let held = [&one[1..], &more].concat();
    let mut far = stage.peer_in(145);
    assert_late_hears(&mut far, "one", "rt/held", &held);
}
