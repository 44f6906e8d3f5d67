//! What endpoints promise and request, and what becomes of it: deadlines, signs of life, owners, history, separation, and endpoints
//! that have no opposite.

use crate::peer::{Library, PATIENCE, Peer, Stage, next, subscribe, tried, value_of};
use serde_json::{Value, json};
use std::time::Instant;
use thalweg_client::blocking::Subscription;
use thalweg_client::{Options, Retain};
use thalweg_dds::counts::Counts;
use thalweg_dds::remarks::Unmatched;

fn write(peer: &mut Peer, name: &str, text: &str) {
    let value = json!({"data": text});
    let topic = "rt/promised";
    peer.does(json!({"do": "write", "topic": topic, "as": name, "type": "Text", "value": value}));
}

/// Waits until the presence of the topic is so; what comes before may be what it was.
fn await_presence(told: &mut Subscription, state: &str, why: Option<&str>) {
    loop {
        let message = next(told);
        assert_eq!(message.topic(), "$presence/dds/ros%2Fpromised");
        let value = value_of(&message);
        assert_eq!(value["protocol"], "DDS");
        if value["state"] == state && value["why"].as_str() == why {
            return;
        }
    }
}

#[test]
fn topics_whose_writers_make_promises_have_a_presence() {
    let Some(mut stage) = Stage::set(59, &["presence.enabled=true"]) else {
        return;
    };
    let mqtt = stage.mqtt();
    let mut told = subscribe(&mqtt, "$presence/dds/#");
    let topic = "rt/promised";
    for quality in ["deadline:200", "by-topic:200"] {
        let qos = ["reliable", quality];
        stage.peer.matched(
            json!({"do": "offer", "topic": topic, "as": quality, "type": "Text", "qos": qos}),
        );
        write(&mut stage.peer, quality, "once");
        await_presence(&mut told, "online", None);
        // Nothing is written for longer than was promised.
        await_presence(&mut told, "offline", Some("silent"));
        write(&mut stage.peer, quality, "again");
        await_presence(&mut told, "online", None);
        await_presence(&mut told, "offline", Some("silent"));
        let stop = json!({"do": "stop", "topic": topic, "as": quality});
        stage.peer.does(stop);
    }
    let counts = stage.bridge.counts();
    assert!(Counts::get(&counts.deadlines_missed) > 0 && Counts::get(&counts.silent) > 0);
    let qos = ["deadline:3600000"];
    stage
        .peer
        .matched(json!({"do": "offer", "topic": topic, "as": "third", "type": "Text", "qos": qos}));
    await_presence(&mut told, "online", None);
    stage
        .peer
        .does(json!({"do": "stop", "topic": topic, "as": "third"}));
    await_presence(&mut told, "offline", Some("goodbye"));
}

#[test]
fn of_exclusive_writers_the_strongest_is_heard_until_it_goes() {
    let Some(mut stage) = Stage::set(60, &[]) else {
        return;
    };
    let mqtt = stage.mqtt();
    let mut all = subscribe(&mqtt, "ros/#");
    for (name, strength) in [("weak", "strength:1"), ("strong", "strength:5")] {
        let qos = ["reliable", "exclusive", strength];
        let topic = "rt/promised";
        stage.peer.matched(
            json!({"do": "offer", "topic": topic, "as": name, "type": "Text", "qos": qos}),
        );
    }
    // Samples of two writers may overtake each other: the strong one owns the instance when its first was heard.
    write(&mut stage.peer, "strong", "one");
    assert_eq!(value_of(&next(&mut all))["data"], "one");
    write(&mut stage.peer, "weak", "not this");
    write(&mut stage.peer, "strong", "two");
    assert_eq!(value_of(&next(&mut all))["data"], "two");
    stage
        .peer
        .does(json!({"do": "stop", "topic": "rt/promised", "as": "strong"}));
    // It has gone when the bridge knows it.
    let deadline = Instant::now() + PATIENCE;
    loop {
        assert!(Instant::now() < deadline, "the weak one is never heard");
        write(&mut stage.peer, "weak", "now this");
        if let Ok(Some(message)) = all.next_timeout(std::time::Duration::from_millis(100)) {
            break assert_eq!(value_of(&message)["data"], "now this");
        }
    }
}

#[test]
fn a_late_reader_has_as_much_history_as_it_requests_and_a_separated_one_less() {
    let Some(mut stage) = Stage::set(61, &[]) else {
        return;
    };
    let mqtt = stage.mqtt();
    let topic = "rt/promised";
    let lasting = ["reliable", "transient-local", "depth:3"];
    let separated = ["reliable", "separation:3600000"];
    for (name, qos) in [("early", &lasting[..]), ("separated", &separated)] {
        let wish = json!({"do": "read", "topic": topic, "as": name, "type": "Text", "qos": qos});
        stage.peer.matched(wish);
    }
    let publish = |text: &str| {
        let payload = json!({"data": text}).to_string();
        mqtt.publish("ros/promised", payload.as_bytes(), &Options::default())
            .expect("published");
    };
    // Until both hear, since a subscription may come after the match.
    let mut heard = Vec::new();
    let by = |heard: &[Value], name: &str| heard.iter().filter(|it| it["topic"] == name).count();
    tried("both readers hear", || {
        publish("first");
        heard.extend(stage.peer.hears_soon());
        (by(&heard, "early") > 0 && by(&heard, "separated") > 0).then_some(())
    });
    while let Some(more) = stage.peer.hears_soon() {
        heard.push(more);
    }
    for text in ["1", "2", "3", "4", "5"] {
        publish(text);
    }
    while by(&heard, "early") < 5 || heard.last().is_some_and(|it| it["value"]["data"] != "5") {
        heard.push(stage.peer.hears());
    }
    assert_eq!(by(&heard, "separated"), 1, "{heard:?}");
    let wish = json!({"do": "read", "topic": topic, "as": "late", "type": "Text", "qos": lasting});
    stage.peer.matched(wish);
    for text in ["3", "4", "5"] {
        assert_eq!(
            stage.peer.hears(),
            json!({"topic": "late", "value": {"data": text}})
        );
    }
    assert_eq!(stage.peer.hears_soon(), None);
}

#[test]
fn each_late_reader_gets_a_last_value_once() {
    let Some(mut stage) = Stage::set(73, &[]) else {
        return;
    };
    let mqtt = stage.mqtt();
    let publish = |text: &str, retain| {
        let payload = json!({"data": text}).to_string();
        let options = Options {
            retain,
            ..Options::default()
        };
        mqtt.publish("ros/promised", payload.as_bytes(), &options)
            .expect("published");
    };
    publish("kept", Retain::Set);
    let said = |name: &str, text: &str| json!({"topic": name, "value": {"data": text}});
    for name in ["one", "two", "three"] {
        stage.peer.matched(json!({
            "do": "read", "topic": "rt/promised", "as": name, "type": "Text",
            "qos": ["reliable", "transient-local"]
        }));
        assert_eq!(stage.peer.hears(), said(name, "kept"));
    }
    publish("now", Retain::No);
    let mut heard = [(); 3].map(|()| stage.peer.hears());
    heard.sort_by_key(|it| it["topic"].to_string());
    assert_eq!(heard, ["one", "three", "two"].map(|name| said(name, "now")));
}

#[test]
fn topics_that_are_sampled_are_published_once_in_a_while() {
    let sets = ["dds.sampled=ros/promised", "dds.separation=1h"];
    let Some(mut stage) = Stage::set(63, &sets) else {
        return;
    };
    let mqtt = stage.mqtt();
    let mut all = subscribe(&mqtt, "ros/#");
    let qos = ["reliable"];
    for topic in ["rt/promised", "rt/every"] {
        stage
            .peer
            .matched(json!({"do": "offer", "topic": topic, "type": "Text", "qos": qos}));
    }
    let soon = std::time::Duration::from_millis(500);
    let mut heard: Vec<Value> = Vec::new();
    // What is written before the bridge has found the writer is lost, so both are written until both are heard.
    tried("both writers are heard", || {
        for (topic, text) in [("rt/promised", "sampled"), ("rt/every", "every")] {
            let value = json!({"data": text});
            stage
                .peer
                .does(json!({"do": "write", "topic": topic, "type": "Text", "value": value}));
        }
        while let Some(next) = all.next_timeout(soon).ok().flatten() {
            heard.push(value_of(&next)["data"].clone());
        }
        let is_heard = |text: &&str| heard.iter().any(|it| it == text);
        ["sampled", "every"].iter().all(is_heard).then_some(())
    });
    for _ in 0..3 {
        stage.peer.does(json!(
            {"do": "write", "topic": "rt/promised", "type": "Text", "value": {"data": "sampled"}}
        ));
    }
    while let Some(next) = all.next_timeout(soon).ok().flatten() {
        heard.push(value_of(&next)["data"].clone());
    }
    assert_eq!(heard.iter().filter(|it| *it == "sampled").count(), 1);
}

#[test]
fn endpoints_without_an_opposite_are_named_with_the_policy() {
    for library in Library::ALL {
        if let Some(stage) = Stage::set_with(library, library.domain(62), &[]) {
            assert_named(library, stage);
        }
    }
}

fn assert_named(library: Library, mut stage: Stage) {
    let endpoints = [
        ("read", "rt/kept", "kept", &["transient"][..]),
        ("read", "rt/two", "old", &["xcdr1"]),
        ("read", "rt/two", "new", &["xcdr2"]),
        (
            "offer",
            "rt/spread",
            "spread",
            &["partition:a", "partition:b"],
        ),
    ];
    for (does, topic, name, qos) in endpoints {
        let what = json!({"do": does, "topic": topic, "as": name, "type": "Text", "qos": qos});
        let is_made = stage.peer.does(what) == 0;
        assert_eq!(is_made, qos.iter().all(|word| library.has(word)), "{name}");
    }
    let said = |stage: &Stage| -> Vec<String> {
        let named = |(name, what): (Box<str>, Box<str>)| {
            let kind = name.split(' ').nth(1).unwrap_or_default();
            format!("{kind} of {what}")
        };
        let mut said: Vec<String> = stage.properties().into_iter().map(named).collect();
        said.sort();
        said
    };
    let await_said = |stage: &Stage, expected: &[&str]| {
        let deadline = Instant::now() + PATIENCE;
        while said(stage) != expected {
            assert!(Instant::now() < deadline, "{:?}", said(stage));
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    };
    let kept = ("transient", "reader of rt/kept: durability");
    let two = ("xcdr2", "reader of rt/two: data-representation");
    let spread = ("partition", "writer of rt/spread: partition");
    let had = |all: &[(&str, &'static str)]| -> Vec<&str> {
        let had = all.iter().filter(|(word, _)| library.has(word));
        had.map(|(_, said)| *said).collect()
    };
    await_said(&stage, &had(&[kept, two, spread]));
    // The one that has an opposite goes: the other has one then.
    stage
        .peer
        .does(json!({"do": "stop", "topic": "rt/two", "as": "old"}));
    await_said(&stage, &had(&[kept, spread]));
    stage
        .peer
        .does(json!({"do": "stop", "topic": "rt/kept", "as": "kept"}));
    stage
        .peer
        .does(json!({"do": "stop", "topic": "rt/spread", "as": "spread"}));
    await_said(&stage, &[]);
    let remarks = &stage.bridge.counts().remarks;
    let counts = [
        Unmatched::Partition,
        Unmatched::Durability,
        Unmatched::Representation,
    ];
    let expected = ["partition", "transient", "xcdr2"].map(|it| u64::from(library.has(it)));
    assert_eq!(counts.map(|why| remarks.count(why)), expected);
}
