//! Each policy that an endpoint may have, both ways: it has its opposite, and samples go through as they should.

use crate::peer::{Library, Stage, next, subscribe, tried, value_of};
use serde_json::json;
use thalweg_client::{Options, Reliability, Retain};

/// Policies of which two at a time are combined, and those that stand alone.
const RELIABILITIES: [&str; 2] = ["reliable", "best-effort"];
const DURABILITIES: [&str; 2] = ["volatile", "transient-local"];
const OTHERS: [&str; 9] = [
    "exclusive",
    "deadline",
    "budget",
    "by-topic",
    "by-participant",
    "source-order",
    "ordered",
    "xcdr2",
    "lifespan",
];

fn cells(library: Library) -> impl Iterator<Item = [&'static str; 3]> {
    let two = RELIABILITIES
        .into_iter()
        .flat_map(|one| DURABILITIES.map(|other| [one, other]));
    let three = two.flat_map(|[one, other]| OTHERS.map(|third| [one, other, third]));
    three.filter(move |[.., third]| library.has(third))
}

#[test]
fn writers_of_every_quality_are_read() {
    for library in Library::ALL {
        if let Some(stage) = Stage::set_with(library, library.domain(49), &[]) {
            assert_all_are_read(library, stage);
        }
    }
}

fn assert_all_are_read(library: Library, mut stage: Stage) {
    let mqtt = stage.mqtt();
    let mut all = subscribe(&mqtt, "ros/#");
    for (at, cell) in cells(library).enumerate() {
        let topic = format!("rt/w{at}");
        let value = json!({"data": topic});
        stage
            .peer
            .matched(json!({"do": "offer", "topic": topic, "type": "Text", "qos": cell}));
        stage
            .peer
            .does(json!({"do": "write", "topic": topic, "type": "Text", "value": value}));
        let message = next(&mut all);
        assert_eq!(value_of(&message), value, "{cell:?}");
        let reliability = match cell[0] {
            "reliable" => Reliability::AtLeastOnce,
            _ => Reliability::AtMostOnce,
        };
        assert_eq!(message.reliability(), reliability, "{cell:?}");
        assert_eq!(
            message.lifespan().is_some(),
            cell[2] == "lifespan",
            "{cell:?}"
        );
        let last = mqtt.last_value(message.topic()).expect("it can be read");
        assert_eq!(last.is_some(), cell[1] == "transient-local", "{cell:?}");
    }
    assert!(stage.bridge.counts().remarks.unmatched().is_empty());
}

#[test]
fn readers_of_every_quality_are_served() {
    for library in Library::ALL {
        if let Some(stage) = Stage::set_with(library, library.domain(50), &[]) {
            assert_all_are_served(library, stage);
        }
    }
}

fn assert_all_are_served(library: Library, mut stage: Stage) {
    let mqtt = stage.mqtt();
    let kept = Options {
        retain: Retain::Set,
        ..Options::default()
    };
    for (at, cell) in cells(library).enumerate() {
        let topic = format!("rt/r{at}");
        let value = json!({"data": topic});
        let (address, text) = (format!("ros/r{at}"), value.to_string());
        if cell[1] == "transient-local" {
            mqtt.publish(&address, text.as_bytes(), &kept)
                .expect("published");
        }
        stage
            .peer
            .matched(json!({"do": "read", "topic": topic, "type": "Text", "qos": cell}));
        mqtt.publish(&address, text.as_bytes(), &Options::default())
            .expect("published");
        // Best effort is no promise, and a subscription may come after the match: so it is tried until it comes through.
        let heard = tried("the reader hears", || {
            let heard = stage.peer.hears_soon();
            if heard.is_none() {
                mqtt.publish(&address, text.as_bytes(), &Options::default())
                    .expect("published");
            }
            // What was published once more for the one before comes, too.
            heard.filter(|it| it["topic"] == topic)
        });
        assert_eq!(heard["value"], value, "{cell:?}");
    }
    assert!(stage.bridge.counts().remarks.unmatched().is_empty());
}

#[test]
fn types_of_idl_are_json_and_their_keys_levels() {
    let folder = concat!("dds.types=", env!("CARGO_MANIFEST_DIR"), "/tests/types");
    let Some(mut stage) = Stage::set(51, &["dds.json=#", folder]) else {
        return;
    };
    let mqtt = stage.mqtt();
    let mut all = subscribe(&mqtt, "in/#");
    let parts = json!([{"at": [1, -2], "words": ["a", "bcd"]}, {"at": [3, 4], "words": []}]);
    // Cyclone DDS for Python writes appendable structures in XCDR2 only.
    let value = json!({"name": "two/three", "color": "BLUE", "parts": parts, "size": 0.5});
    let level = "two%2Fthree";
    let qos = ["reliable", "transient-local", "xcdr2", "partition:in"];
    stage.peer.does(
        json!({"do": "write", "topic": "Shape", "type": "Shape", "qos": qos, "value": value}),
    );
    let message = next(&mut all);
    assert_eq!(message.topic(), format!("in/Shape/{level}"));
    assert_eq!(value_of(&message), value);
    stage
        .peer
        .does(json!({"do": "dispose", "topic": "Shape", "type": "Shape", "value": value}));
    let clear = next(&mut all);
    assert_eq!(
        (clear.topic(), clear.payload()),
        (message.topic(), &b""[..])
    );

    // And back: a value, and the end of its instance.
    let kept = Options {
        retain: Retain::Set,
        ..Options::default()
    };
    let address = format!("out/Copy/{level}");
    mqtt.publish(&address, value.to_string().as_bytes(), &kept)
        .expect("published");
    let qos = ["reliable", "transient-local", "xcdr2", "partition:out"];
    stage
        .peer
        .does(json!({"do": "read", "topic": "Copy", "type": "Shape", "qos": qos}));
    assert_eq!(stage.peer.hears()["value"], value);
    mqtt.publish(&address, b"", &kept).expect("published");
    assert_eq!(
        stage.peer.hears(),
        json!({"topic": "Copy", "state": "gone"})
    );
}
