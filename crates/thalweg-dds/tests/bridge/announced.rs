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

    // Of two types of a name the first counts, and one with an optional member is not supported.
    for (topic, kind, value) in [
        ("Second", "OtherShape", json!({"name": "c", "weight": 7})),
        ("Odd", "Odd", json!({"data": 7})),
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
