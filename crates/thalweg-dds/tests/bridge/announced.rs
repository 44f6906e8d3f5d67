//! Types that no file describes: Cyclone DDS announces them.

use crate::peer::{Stage, next, subscribe, value_of};
use serde_json::{Value, json};
use thalweg_client::{Options, Retain};

fn shape(name: &str) -> Value {
    json!({"name": name, "color": "BLUE", "size": 0.5,
        "parts": [{"at": [1, -2], "words": ["a", "bcd"]}, {"at": [3, 4], "words": []}]})
}

#[test]
fn values_of_announced_types_are_json_both_ways_from_the_first_sample_on() {
    let Some(mut stage) = Stage::set(140, &["dds.json=#"]) else {
        return;
    };
    let mqtt = stage.mqtt();
    let mut all = subscribe(&mqtt, "in/#");
    // All is written at once, before the bridge can know the type.
    let names: Vec<String> = (0..20).map(|number| format!("a/{number}")).collect();
    let qos = [
        "reliable",
        "transient-local",
        "keep-all",
        "xcdr2",
        "partition:in",
    ];
    for name in &names {
        stage.peer.does(
            json!({"do": "write", "topic": "Shape", "type": "Shape", "qos": qos, "value": shape(name)}),
        );
    }
    for (name, number) in names.iter().zip(0..) {
        let message = next(&mut all);
        assert_eq!(message.topic(), format!("in/Shape/a%2F{number}"));
        assert_eq!(value_of(&message), shape(name));
    }
    stage
        .peer
        .does(json!({"do": "dispose", "topic": "Shape", "type": "Shape", "value": shape("a/7")}));
    let clear = next(&mut all);
    assert_eq!(
        (clear.topic(), clear.payload()),
        ("in/Shape/a%2F7", &b""[..])
    );

    // And back.
    let kept = Options {
        retain: Retain::Set,
        ..Options::default()
    };
    mqtt.publish("out/Shape/b", shape("b").to_string().as_bytes(), &kept)
        .expect("published");
    let qos = ["reliable", "transient-local", "xcdr2", "partition:out"];
    stage
        .peer
        .does(json!({"do": "read", "topic": "Shape", "as": "out", "type": "Shape", "qos": qos}));
    let heard = stage.peer.hears();
    assert_eq!(heard, json!({"topic": "out", "value": shape("b")}));

    // Of two types of a name the first counts, and one with an enumeration of less than 32 bits is not supported.
    for (topic, kind, value) in [
        ("Second", "OtherShape", json!({"name": "c", "weight": 7})),
        ("Odd", "Odd", json!({"data": "ONE"})),
    ] {
        let qos = ["reliable", "transient-local", "partition:in"];
        stage
            .peer
            .does(json!({"do": "write", "topic": topic, "type": kind, "qos": qos, "value": value}));
        let message = next(&mut all);
        assert!(message.topic().starts_with(&format!("in/{topic}")));
        let content_type = message.content_type().expect("it has one");
        assert!(
            content_type.starts_with("application/x-cdr;"),
            "{content_type}"
        );
    }
}

/// With an order, or with nothing that it need not have.
fn plan(id: u32, has_order: bool) -> Value {
    let setting = json!({"name": "n", "step": -3, "tags": ["a", "bcd"], "bits": [0.25]});
    let mut plan = json!({"id": id, "setting": setting, "flag": true});
    if has_order {
        let limited = json!({"name": "m", "limit": 1.5, "step": 4, "tags": [], "bits": []});
        plan["order"] = json!({"id": 5, "weight": 2.5, "amount": {"$discriminator": "HIGH", "many": [1.0, 2.0]},
            "code": {"$discriminator": 7, "text": "hm"}, "settings": [setting, limited],
            "more": [{"$discriminator": "LOW", "count": 9}]});
    }
    plan
}

/// As the library's own type object has it, or a file; in XCDR1 or XCDR2.
fn plans_are_json_both_ways(domain: u32, encoding: &str, more: &[&str]) {
    let sets = [&["dds.json=#"], more].concat();
    let Some(mut stage) = Stage::set(domain, &sets) else {
        return;
    };
    let mqtt = stage.mqtt();
    let mut all = subscribe(&mqtt, "in/#");
    let qos = ["reliable", "transient-local", encoding, "partition:in"];
    // In XCDR1 the library refuses unions with numbers of eight bytes, also what its binding for Python writes.
    let has_unions = encoding == "xcdr2";
    for (id, has_order) in [(1, has_unions), (2, false)] {
        let value = plan(id, has_order);
        stage.peer.does(
            json!({"do": "write", "topic": "Plan", "type": "Plan", "qos": qos, "value": value}),
        );
        let message = next(&mut all);
        assert_eq!(message.topic(), format!("in/Plan/{id}"));
        assert_eq!(value_of(&message), value);
    }
    stage
        .peer
        .does(json!({"do": "dispose", "topic": "Plan", "type": "Plan", "value": plan(2, false)}));
    let clear = next(&mut all);
    assert_eq!((clear.topic(), clear.payload()), ("in/Plan/2", &b""[..]));

    let kept = Options {
        retain: Retain::Set,
        ..Options::default()
    };
    let qos = ["reliable", "transient-local", encoding, "partition:out"];
    for (id, has_order) in [(3, has_unions), (4, false)] {
        let value = plan(id, has_order);
        let (address, payload) = (format!("out/Plan/{id}"), value.to_string());
        mqtt.publish(&address, payload.as_bytes(), &kept)
            .expect("published");
    }
    stage
        .peer
        .does(json!({"do": "read", "topic": "Plan", "as": "out", "type": "Plan", "qos": qos}));
    let mut heard: Vec<Value> = (0..2).map(|_| stage.peer.hears()["value"].take()).collect();
    heard.sort_by_key(|it| it["id"].as_u64());
    assert_eq!(heard, [plan(3, has_unions), plan(4, false)]);
}

#[test]
fn announced_types_with_optional_members_unions_and_mutable_structures_are_json() {
    plans_are_json_both_ways(157, "xcdr2", &[]);
    plans_are_json_both_ways(158, "xcdr1", &[]);
}

#[test]
fn types_of_idl_with_optional_members_unions_and_mutable_structures_are_json() {
    let folder = concat!("dds.types=", env!("CARGO_MANIFEST_DIR"), "/tests/types");
    plans_are_json_both_ways(159, "xcdr2", &[folder]);
    plans_are_json_both_ways(160, "xcdr1", &[folder]);
}

#[test]
fn types_are_asked_for_only_where_values_are_json() {
    let Some(mut stage) = Stage::set(141, &["dds.json=other/#"]) else {
        return;
    };
    let mqtt = stage.mqtt();
    let mut all = subscribe(&mqtt, "in/#");
    let qos = ["reliable", "transient-local", "partition:in"];
    let value = json!({"id": 7, "value": 1.5});
    stage.peer.does(
        json!({"do": "write", "topic": "Reading", "type": "Reading", "qos": qos, "value": value}),
    );
    let message = next(&mut all);
    assert_eq!(
        message.topic(),
        "in/Reading/00000007000000000000000000000000"
    );
    assert_eq!(message.payload()[..2], [0, 1]);
}
