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
    write_heard(stage, &qos, of, values, heard);
}

/// One after the other, as the bridge reads them.
fn write_heard(
    stage: &mut Stage,
    qos: &[&str],
    of: (&str, &str),
    values: &[Value],
    heard: &mut Subscription,
) {
    for value in values {
        write_as(&mut stage.peer, qos, of, std::slice::from_ref(value));
        assert_eq!(value_of(&next(heard)), *value);
    }
}

fn write_as(peer: &mut Peer, qos: &[&str], of: (&str, &str), values: &[Value]) {
    let (writer, topic) = of;
    let kind = if topic == "Reading" {
        "Reading"
    } else {
        "Text"
    };
    for value in values {
        peer.does(json!({
            "do": "write", "topic": topic, "type": kind, "as": writer, "qos": qos, "value": value
        }));
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

fn folder(of: &str) -> PathBuf {
    let name = format!("dds-history-{of}-{}", std::process::id());
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

#[test]
fn who_comes_late_gets_as_many_samples_as_a_writer_holds_also_after_a_restart() {
    let data = format!("data_dir={}", folder("one").display());
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
    let _ = std::fs::remove_dir_all(folder("one"));
}

/// A new reader of all instances hears these, in any order.
fn assert_sorted(peer: &mut Peer, expected: &[Value]) {
    let qos = ["reliable", "transient-local", "keep-all"];
    peer.does(json!({"do": "read", "topic": "Reading", "type": "Reading", "qos": qos}));
    let mut heard: Vec<Value> = expected
        .iter()
        .map(|_| peer.hears()["value"].clone())
        .collect();
    heard.sort_by_key(|it| (it["id"].as_u64(), it["value"].to_string()));
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
fn who_comes_late_gets_what_each_writer_of_an_instance_holds_also_after_a_restart() {
    let data = format!("data_dir={}", folder("each").display());
    let sets = [
        "journal.enabled=true",
        &*data,
        "dds.second_domain=145",
        "dds.json=#",
    ];
    let Some(mut stage) = Stage::set(144, &sets) else {
        return;
    };
    let mqtt = stage.mqtt();
    let mut all = subscribe(&mqtt, "#");
    let of = |id, values: &[u32]| -> Vec<Value> {
        values.iter().map(|value| reading(id, *value)).collect()
    };
    for (writer, held, values) in [
        ("one", 1, [of(7, &[1]), of(8, &[1])].concat()),
        ("two", 2, of(7, &[2, 3, 4])),
        ("one", 1, of(7, &[5])),
        ("two", 2, of(9, &[6])),
    ] {
        write(&mut stage, held, (writer, "Reading"), &values, &mut all);
    }
    let each = [of(7, &[3, 4, 5]), of(8, &[1]), of(9, &[6])].concat();
    let mut far = stage.peer_in(145);
    assert_sorted(&mut far, &each);
    drop((all, mqtt, far));
    let mut stage = stage.restarted();
    let mqtt = stage.mqtt();
    for value in [reading(8, 1), reading(9, 6)] {
        assert_last(&mqtt, &format!("Reading/{}", value["id"]), Some(value));
    }
    // Who asks before all writers were found hears of the others when they are.
    let mut far = stage.peer_in(145);
    assert_sorted(&mut far, &each);
    far.does(json!({"do": "stop", "topic": "Reading"}));
    // One goes, and takes along what it held itself: of one instance it was the only writer.
    let mut all = subscribe(&mqtt, "Reading/9");
    drop(next(&mut all));
    write(&mut stage, 2, ("two", "Reading"), &of(9, &[7]), &mut all);
    let stop = |writer| json!({"do": "stop", "topic": "Reading", "as": writer});
    stage.peer.does(stop("one"));
    assert_last(&mqtt, "Reading/8", None);
    assert_last(&mqtt, "Reading/7", Some(reading(7, 4)));
    let left = [of(7, &[3, 4]), of(9, &[6, 7])].concat();
    assert_sorted(&mut far, &left);
    drop((stage, mqtt));
    // It stays after a failure.
    let _ = std::fs::remove_dir_all(folder("each"));
}

#[test]
fn a_writer_that_goes_leaves_all_that_another_holds() {
    let Some(mut stage) = Stage::set(148, &["dds.second_domain=149"]) else {
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
    assert_last(&mqtt, "ros/held", Some(two[1].clone()));
    stage
        .peer
        .does(json!({"do": "stop", "topic": "rt/held", "as": "two"}));
    // Those who read one value are told which it is now; readers of DDS had heard it.
    assert_eq!(value_of(&next(&mut all)), one[1]);
    assert_last(&mqtt, "ros/held", Some(one[1].clone()));
    write(&mut stage, 5, ("one", "rt/held"), &more, &mut all);
    let held = [one, more].concat();
    let mut far = stage.peer_in(149);
    assert_late_hears(&mut far, "one", "rt/held", &held);
}

#[test]
fn who_comes_later_than_another_reader_gets_what_each_writer_holds_that_is_left() {
    let Some(mut stage) = Stage::set(152, &["dds.second_domain=153"]) else {
        return;
    };
    let mqtt = stage.mqtt();
    let mut all = subscribe(&mqtt, "ros/#");
    for writer in ["one", "two"] {
        write(
            &mut stage,
            1,
            (writer, "rt/held"),
            &[text(writer)],
            &mut all,
        );
    }
    let mut far = stage.peer_in(153);
    assert_late_hears(&mut far, "one", "rt/held", &[text("one"), text("two")]);
    // Much of one writer pushes nothing of the other out for who comes later.
    let texts: Vec<Value> = (0..120).map(|it| text(&it.to_string())).collect();
    write(&mut stage, 1, ("two", "rt/held"), &texts, &mut all);
    for text in &texts {
        assert_eq!(far.hears()["value"], *text);
    }
    let qos = ["reliable", "transient-local", "keep-all"];
    far.does(json!({"do": "read", "topic": "rt/held", "type": "Text", "as": "two", "qos": qos}));
    assert_eq!(far.hears()["value"], text("one"));
    while far.hears_soon().is_some() {}
    stage
        .peer
        .does(json!({"do": "stop", "topic": "rt/held", "as": "two"}));
    assert_eq!(value_of(&next(&mut all)), text("one"));
    assert_eq!(far.hears_soon(), None);
    assert_late_hears(&mut far, "three", "rt/held", &[text("one")]);
}

#[test]
fn a_writer_without_durability_service_has_its_history_again_after_a_restart() {
    let data = format!("data_dir={}", folder("alone").display());
    let sets = ["journal.enabled=true", &*data, "dds.second_domain=151"];
    let Some(mut stage) = Stage::set(150, &sets) else {
        return;
    };
    let mqtt = stage.mqtt();
    let mut all = subscribe(&mqtt, "ros/#");
    let texts: Vec<Value> = ["1", "2", "3", "4", "5"].map(text).into();
    let qos = ["reliable", "transient-local", "depth:3"];
    let (stays, writes) = (("stays", "rt/stays"), ("writes", "rt/writes"));
    for of in [stays, writes] {
        write_heard(&mut stage, &qos, of, &texts, &mut all);
    }
    drop((all, mqtt));
    let stage = stage.restarted_after(|peer| write_as(peer, &qos, writes, &[text("6")]));
    let mqtt = stage.mqtt();
    assert_last(&mqtt, "ros/stays", Some(text("5")));
    assert_last(&mqtt, "ros/writes", Some(text("6")));
    let mut far = stage.peer_in(151);
    assert_late_hears(&mut far, "stays", "rt/stays", &texts[2..]);
    let of_writes = ["4", "5", "6"].map(text);
    assert_late_hears(&mut far, "writes", "rt/writes", &of_writes);
    drop((stage, mqtt));
    // It stays after a failure.
    let _ = std::fs::remove_dir_all(folder("alone"));
}
