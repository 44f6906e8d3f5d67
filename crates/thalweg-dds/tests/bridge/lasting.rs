//! Several lasting writers of one topic: each holds its own samples, and what one held ends with it alone.

use crate::peer::{Library, PATIENCE, Peer, Stage, next, subscribe, tried, value_of};
use serde_json::{Value, json};
use std::path::PathBuf;
use thalweg_client::blocking::{Client, Subscription};
use thalweg_client::{Message, Options};

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
fn a_late_reader_in_the_same_domain_has_it_from_the_writer_alone() {
    let Some(mut stage) = Stage::set(154, &[]) else {
        return;
    };
    let mqtt = stage.mqtt();
    let mut all = subscribe(&mqtt, "ros/#");
    write(&mut stage, "one", "rt/held", "of one", &mut all);
    let reader =
        json!({"do": "read", "topic": "rt/held", "as": "late", "type": "Text", "qos": LASTING});
    stage.peer.does(reader);
    let said = |of: &str| json!({"topic": "late", "value": text(of)});
    assert_eq!(stage.peer.hears(), said("of one"));
    let publish = |of: &str| {
        let payload = text(of).to_string();
        mqtt.publish("ros/held", payload.as_bytes(), &Options::default())
            .expect("published");
    };
    // Once the bridge serves it, what the bridge had to say of earlier comes before this.
    let heard = tried("the bridge serves the reader", || {
        publish("from here");
        stage.peer.hears_soon()
    });
    assert_eq!(heard, said("from here"));
    publish("at last");
    tried("the reader hears what comes last", || {
        let heard = stage.peer.hears();
        assert_ne!(heard, said("of one"));
        (heard == said("at last")).then_some(())
    });
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

/// A topic whose writers have addresses of their own.
const PARTS: &str = "rt/tf_static";

fn part(peer: &mut Peer, writer: &str, qos: &[&str], of: &str) {
    peer.does(json!({
        "do": "write", "topic": PARTS, "type": "Text", "as": writer, "qos": qos, "value": text(of)
    }));
}

/// A writer writes a part; the address that subscribers get it at.
fn told(peer: &mut Peer, writer: &str, of: &str, heard: &mut Subscription) -> String {
    part(peer, writer, &LASTING, of);
    let message = next(heard);
    assert_eq!(value_of(&message), text(of));
    let level = message.topic().strip_prefix("ros/tf_static/");
    assert_eq!(level.map(str::len), Some(47), "{}", message.topic());
    message.topic().to_owned()
}

/// Late readers of these names hear these parts once each, in any order, and nothing else.
fn assert_hears(peer: &mut Peer, names: &[&str], parts: &[&str]) {
    let mut heard: Vec<String> = (0..names.len() * parts.len())
        .map(|_| peer.hears().to_string())
        .collect();
    assert_eq!(peer.hears_soon(), None);
    let each = |name| {
        let said = move |part: &&str| json!({"topic": name, "value": text(part)}).to_string();
        parts.iter().map(said)
    };
    let mut expected: Vec<String> = names.iter().flat_map(each).collect();
    heard.sort();
    expected.sort();
    assert_eq!(heard, expected);
}

fn assert_late_reader_hears(peer: &mut Peer, name: &str, parts: &[&str]) {
    let qos = ["reliable", "transient-local", "keep-all"];
    peer.does(json!({"do": "read", "topic": PARTS, "type": "Text", "as": name, "qos": qos}));
    assert_hears(peer, &[name], parts);
}

/// What a late subscriber gets once that is right.
fn late(mqtt: &Client, is_right: impl Fn(&[(String, Value)]) -> bool) -> Vec<(String, Value)> {
    let deadline = std::time::Instant::now() + PATIENCE;
    loop {
        let mut subscription = subscribe(mqtt, "ros/tf_static/#");
        let mut found = Vec::<(String, Value)>::new();
        let moment = std::time::Duration::from_millis(200);
        while let Ok(Some(message)) = subscription.next_timeout(moment) {
            // One that clears is no JSON.
            let value = serde_json::from_slice(message.payload()).unwrap_or_default();
            found.push((message.topic().to_owned(), value));
        }
        found.sort_by_key(|it| (it.1.to_string(), it.0.clone()));
        if is_right(&found) {
            return found;
        }
        assert!(std::time::Instant::now() < deadline, "{found:?}");
    }
}

/// The parts are in the order of their texts.
fn assert_late(mqtt: &Client, expected: &[(&str, &str)]) {
    let expected = expected.iter();
    let expected = expected.map(|(address, of)| ((*address).to_owned(), text(of)));
    let expected: Vec<_> = expected.collect();
    late(mqtt, |found| *found == expected);
}

/// Writers in two participants of a domain, and readers in another.
fn assert_each_writer_is_served(mqtt: &Client, one: &mut Peer, two: &mut Peer, far: &mut Peer) {
    let mut all = subscribe(mqtt, "ros/#");
    let of_one = told(one, "one", "of one", &mut all);
    let of_two = told(two, "two", "of two", &mut all);
    assert_ne!(of_one, of_two);
    assert_late(mqtt, &[(&of_one, "of one"), (&of_two, "of two")]);
    assert_late_reader_hears(far, "early", &["of one", "of two"]);
    // What a writer says replaces what it has said, and nothing of the other one.
    assert_eq!(told(one, "one", "more of one", &mut all), of_one);
    assert_hears(far, &["early"], &["more of one"]);
    assert_late(mqtt, &[(&of_one, "more of one"), (&of_two, "of two")]);
    assert_late_reader_hears(far, "late", &["more of one", "of two"]);
    // One goes, and takes its own along; readers that have heard of it are told nothing.
    two.does(json!({"do": "stop", "topic": PARTS, "as": "two"}));
    let clear = next(&mut all);
    assert_eq!((clear.topic(), clear.payload()), (&*of_two, &b""[..]));
    assert_late(mqtt, &[(&of_one, "more of one")]);
    assert_hears(far, &["early", "late"], &[]);
    assert_late_reader_hears(far, "last", &["more of one"]);
    // A writer that is not lasting writes at the topic's address, and leaves nothing.
    two.matched(json!({
        "do": "offer", "topic": PARTS, "type": "Text", "as": "passing", "qos": ["reliable"]
    }));
    part(two, "passing", &["reliable"], "passing");
    let message = next(&mut all);
    assert_eq!(message.topic(), "ros/tf_static");
    assert_eq!(value_of(&message), text("passing"));
    assert_hears(far, &["early", "late", "last"], &["passing"]);
    assert_late(mqtt, &[(&of_one, "more of one")]);
}

#[test]
fn each_lasting_writer_of_a_topic_without_a_key_is_served_to_who_comes_late() {
    for library in Library::ALL {
        let (near, far) = (library.domain(74), library.domain(75));
        let second = format!("dds.second_domain={far}");
        let Some(mut stage) = Stage::set_with(library, near, &[&second]) else {
            continue;
        };
        let (mqtt, mut two, mut far) = (stage.mqtt(), stage.peer_in(near), stage.peer_in(far));
        assert_each_writer_is_served(&mqtt, &mut stage.peer, &mut two, &mut far);
    }
}

#[test]
fn a_reader_of_fast_dds_is_served_each_lasting_writer_too() {
    let Some(mut stage) = Stage::set_with(Library::Fast, 106, &["dds.second_domain=107"]) else {
        return;
    };
    let (mqtt, mut one, mut two) = (stage.mqtt(), stage.peer_in(107), stage.peer_in(107));
    assert_each_writer_is_served(&mqtt, &mut one, &mut two, &mut stage.peer);
}

#[test]
fn a_restarted_broker_has_what_the_lasting_writers_hold_that_are_left() {
    let name = format!("dds-lasting-{}", std::process::id());
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let data = format!("data_dir={}", folder.display());
    let sets = ["journal.enabled=true", &*data, "dds.second_domain=79"];
    let Some(mut stage) = Stage::set(78, &sets) else {
        return;
    };
    let (mqtt, mut two) = (stage.mqtt(), stage.peer_in(78));
    let mut all = subscribe(&mqtt, "ros/#");
    let stays = told(&mut stage.peer, "stays", "stays", &mut all);
    told(&mut stage.peer, "goes", "goes", &mut all);
    let of_two = told(&mut two, "two", "of two", &mut all);
    // What is no writer's stays, whichever writers are below.
    let kept = Options {
        retain: thalweg_client::Retain::Set,
        ..Options::default()
    };
    let payload = text("of MQTT").to_string();
    mqtt.publish("ros/tf_static/mqtt", payload.as_bytes(), &kept)
        .expect("published");
    drop(next(&mut all));
    // Elsewhere writers share an address.
    let write = |peer: &mut Peer, writer: &str, topic: &str| {
        peer.does(json!({
            "do": "write", "topic": topic, "type": "Text", "as": format!("{writer} {topic}"),
            "qos": LASTING, "value": text(writer)
        }));
    };
    for (writer, topic) in [
        ("one", "rt/shared"),
        ("two", "rt/shared"),
        ("two", "rt/alone"),
    ] {
        write(&mut stage.peer, writer, topic);
        assert_eq!(value_of(&next(&mut all)), text(writer));
    }
    drop((all, mqtt));
    let stage = stage.restarted_after(|peer| {
        for writer in ["goes", "two rt/shared", "two rt/alone"] {
            peer.does(json!({"do": "stop", "topic": PARTS, "as": writer}));
        }
        part(peer, "comes", &LASTING, "comes");
        part(peer, "stays", &LASTING, "stays on");
    });
    let (mqtt, mut far) = (stage.mqtt(), stage.peer_in(79));
    let parts = ["comes", "of MQTT", "of two", "stays on"];
    let found = late(&mqtt, |found| {
        found.iter().map(|it| &it.1).eq(&parts.map(text))
    });
    let addresses = [1, 2, 3].map(|at| found[at].0.as_str());
    assert_eq!(addresses, ["ros/tf_static/mqtt", &*of_two, &*stays]);
    assert_late_reader_hears(&mut far, "late", &parts);
    assert_last(&mqtt, "ros/shared", Some("one"));
    assert_last(&mqtt, "ros/alone", None);
    drop(stage);
    // It stays after a failure.
    let _ = std::fs::remove_dir_all(folder);
}
