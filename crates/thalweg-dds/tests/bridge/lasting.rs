//! Several lasting writers of one topic: each holds its own samples, and what one held ends with it alone.

use crate::peer::{Library, PATIENCE, Stage, next, subscribe, value_of};
use serde_json::{Value, json};
use thalweg_client::Message;
use thalweg_client::blocking::{Client, Subscription};

const LASTING: [&str; 2] = ["reliable", "transient-local"];

fn text(of: &str) -> Value {
    json!({"data": of})
}

/// A writer writes a text, and the subscriber gets it.
fn write(stage: &mut Stage, writer: &str, topic: &str, of: &str, heard: &mut Subscription) {
    let value = text(of);
    stage.peer.does(json!({
        "do": "write", "topic": topic, "type": "Text", "as": writer, "qos": LASTING, "value": value
    }));
    assert_eq!(value_of(&next(heard)), text(of));
}

fn stop(stage: &mut Stage, writer: &str, topic: &str) {
    stage
        .peer
        .does(json!({"do": "stop", "topic": topic, "as": writer}));
}

fn last(mqtt: &Client, address: &str) -> Option<Message> {
    mqtt.last_value(address).expect("it can be read")
}

/// The last value is this one, or will be soon.
fn assert_last(mqtt: &Client, address: &str, expected: Option<&str>) {
    let deadline = std::time::Instant::now() + PATIENCE;
    loop {
        let found = last(mqtt, address).map(|it| value_of(&it));
        if found == expected.map(text) {
            return;
        }
        assert!(std::time::Instant::now() < deadline, "{address}: {found:?}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn what_a_writer_held_ends_with_it_and_takes_no_other_ones_value_along() {
    for library in Library::ALL {
        if let Some(stage) = Stage::set_with(library, library.domain(66), &[]) {
            assert_ends_apart(stage);
        }
    }
}

fn assert_ends_apart(mut stage: Stage) {
    let mqtt = stage.mqtt();
    let mut all = subscribe(&mqtt, "ros/#");
    // The one that wrote last goes: the value of the other is the last again, and its subscribers are told.
    write(&mut stage, "one", "rt/held", "of one", &mut all);
    write(&mut stage, "two", "rt/held", "of two", &mut all);
    stop(&mut stage, "two", "rt/held");
    assert_eq!(value_of(&next(&mut all)), text("of one"));
    assert_last(&mqtt, "ros/held", Some("of one"));
    // The one that wrote first goes: nothing is told. What comes next comes after that.
    write(&mut stage, "three", "rt/held", "of three", &mut all);
    stop(&mut stage, "one", "rt/held");
    write(&mut stage, "three", "rt/held", "more of three", &mut all);
    assert_last(&mqtt, "ros/held", Some("more of three"));
    // With the last one it ends.
    stop(&mut stage, "three", "rt/held");
    let clear = next(&mut all);
    assert_eq!((clear.topic(), clear.payload()), ("ros/held", &b""[..]));
    assert_last(&mqtt, "ros/held", None);
}

#[test]
fn instances_end_with_their_last_writer_or_when_any_writer_disposes_of_them() {
    let types = concat!("dds.types=", env!("CARGO_MANIFEST_DIR"), "/tests/types");
    for library in Library::ALL {
        if let Some(stage) = Stage::set_with(library, library.domain(67), &["dds.json=#", types]) {
            assert_instances_end_apart(stage);
        }
    }
}

fn assert_instances_end_apart(mut stage: Stage) {
    let mqtt = stage.mqtt();
    let mut all = subscribe(&mqtt, "Reading/#");
    let reading = |id: u32, value: f64| json!({"id": id, "value": value});
    let sample = |what: &str, writer: &str, value: &Value| {
        json!({
            "do": what, "topic": "Reading", "type": "Reading", "as": writer, "qos": LASTING,
            "value": value
        })
    };
    for (writer, id, value) in [
        ("one", 6, 0.5),
        ("one", 7, 1.5),
        ("two", 7, 2.5),
        ("one", 8, 3.5),
        ("two", 8, 4.5),
        ("two", 9, 5.5),
    ] {
        stage
            .peer
            .does(sample("write", writer, &reading(id, value)));
        let message = next(&mut all);
        assert_eq!(message.topic(), format!("Reading/{id}"));
        assert_eq!(value_of(&message), reading(id, value));
    }
    // As of all writers, whether or not it was the one that wrote last.
    stage.peer.does(sample("dispose", "one", &reading(7, 1.5)));
    let clear = next(&mut all);
    assert_eq!((clear.topic(), clear.payload()), ("Reading/7", &b""[..]));
    // Of two instances that it wrote last one is held by another writer.
    stop(&mut stage, "two", "Reading");
    assert_eq!(value_of(&next(&mut all)), reading(8, 3.5));
    let clear = next(&mut all);
    assert_eq!((clear.topic(), clear.payload()), ("Reading/9", &b""[..]));
    let kept = [6, 7, 8, 9]
        .map(|id| last(&mqtt, &format!("Reading/{id}")).map(|message| value_of(&message)));
    let expected = [Some(reading(6, 0.5)), None, Some(reading(8, 3.5)), None];
    assert_eq!(kept, expected);
}

#[test]
fn a_late_reader_in_another_domain_gets_what_a_living_writer_holds() {
    let Some(mut stage) = Stage::set(70, &["dds.second_domain=71"]) else {
        return;
    };
    let mqtt = stage.mqtt();
    let mut all = subscribe(&mqtt, "ros/#");
    write(&mut stage, "one", "rt/held", "of one", &mut all);
    write(&mut stage, "two", "rt/held", "of two", &mut all);
    stop(&mut stage, "two", "rt/held");
    assert_eq!(value_of(&next(&mut all)), text("of one"));
    assert_last(&mqtt, "ros/held", Some("of one"));
    let mut other = stage.peer_in(71);
    let qos = ["reliable", "transient-local", "keep-all"];
    other.does(json!({"do": "read", "topic": "rt/held", "type": "Text", "qos": qos}));
    let heard = json!({"topic": "rt/held", "value": text("of one")});
    assert_eq!(other.hears(), heard);
    assert_eq!(other.hears_soon(), None);
}

#[test]
fn what_a_writer_held_ends_when_its_process_dies() {
    let Some(mut stage) = Stage::set(72, &[]) else {
        return;
    };
    let mqtt = stage.mqtt();
    let mut all = subscribe(&mqtt, "ros/#");
    write(&mut stage, "one", "rt/held", "of one", &mut all);
    let mut other = stage.peer_in(72);
    let value = text("of another");
    other.does(
        json!({"do": "write", "topic": "rt/held", "type": "Text", "qos": LASTING, "value": value}),
    );
    assert_eq!(value_of(&next(&mut all)), value);
    // It is killed, so that it says nothing: its lease of 10 s ends.
    drop(other);
    assert_eq!(value_of(&next(&mut all)), text("of one"));
    assert_last(&mqtt, "ros/held", Some("of one"));
}
