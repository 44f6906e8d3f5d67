//! Quality of service, keys, limits and rules.

use crate::peer::{Library, Stage, next, subscribe, tried, value_of};
use serde_json::json;
use thalweg_client::{Options, Retain};
use thalweg_dds::counts::Counts;

#[test]
fn what_is_lasting_is_a_last_value_until_it_is_disposed_of() {
    let Some(mut stage) = Stage::set(42, &[]) else {
        return;
    };
    let mqtt = stage.mqtt();
    let mut all = subscribe(&mqtt, "plant/#");
    let qos = ["reliable", "transient-local", "partition:plant/1"];
    let reading = json!({"id": 7, "value": 1.5});
    // Written before the bridge is there, or after: it has it either way.
    stage.peer.does(
        json!({"do": "write", "topic": "Reading", "type": "Reading", "qos": qos, "value": reading}),
    );
    let message = next(&mut all);
    let own = "plant/1/Reading/00000007000000000000000000000000";
    assert_eq!(message.topic(), own);
    assert_eq!(
        message.content_type(),
        Some("application/x-cdr; type=Reading; enc=xcdr1")
    );
    let payload = [
        &[0, 1, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0][..],
        &1.5f64.to_le_bytes(),
    ]
    .concat();
    assert_eq!(message.payload(), payload);
    // Each instance has a last value, and its end takes no other along.
    let other = json!({"id": 8, "value": 2.5});
    stage
        .peer
        .does(json!({"do": "write", "topic": "Reading", "type": "Reading", "value": other}));
    let second = next(&mut all);
    let last = mqtt.last_value(own).expect("it can be read");
    assert_eq!(last.expect("there is one").payload(), payload);
    stage
        .peer
        .does(json!({"do": "dispose", "topic": "Reading", "type": "Reading", "value": reading}));
    let clear = next(&mut all);
    assert_eq!((clear.topic(), clear.payload()), (own, &b""[..]));
    assert!(mqtt.last_value(own).expect("it can be read").is_none());
    let last = mqtt.last_value(second.topic()).expect("it can be read");
    assert_eq!(last.expect("it stays").payload(), second.payload());
}

#[test]
fn instances_share_one_last_value_where_keys_are_left_out() {
    let Some(mut stage) = Stage::set(45, &["dds.keys=other/#"]) else {
        return;
    };
    let mqtt = stage.mqtt();
    let mut all = subscribe(&mqtt, "plant/#");
    let qos = ["reliable", "transient-local", "partition:plant/1"];
    let values = [7, 8].map(|id| json!({"id": id, "value": 1.5}));
    for value in &values {
        stage.peer.does(
            json!({"do": "write", "topic": "Reading", "type": "Reading", "qos": qos, "value": value}),
        );
        assert_eq!(next(&mut all).topic(), "plant/1/Reading");
    }
    // The end of the first does not take the last value along, its own end does.
    for value in &values {
        stage
            .peer
            .does(json!({"do": "dispose", "topic": "Reading", "type": "Reading", "value": value}));
    }
    let clear = next(&mut all);
    assert_eq!(
        (clear.topic(), clear.payload()),
        ("plant/1/Reading", &b""[..])
    );
    let last = mqtt.last_value("plant/1/Reading");
    assert!(last.expect("it can be read").is_none());
}

#[test]
fn a_lasting_reader_has_the_last_value_of_each_instance() {
    for library in Library::ALL {
        if let Some(stage) = Stage::set_with(library, library.domain(46), &[]) {
            assert_each_instance_is_heard(stage);
        }
    }
}

fn assert_each_instance_is_heard(mut stage: Stage) {
    let mqtt = stage.mqtt();
    let kept = Options {
        retain: Retain::Set,
        ..Options::default()
    };
    for id in [7u8, 8] {
        let address = format!("plant/1/Reading/000000{id:02x}{}", "0".repeat(24));
        let payload = [&[0, 1, 0, 0, id], &[0; 15][..]].concat();
        mqtt.publish(&address, &payload, &kept).expect("published");
    }
    let qos = [
        "reliable",
        "transient-local",
        "keep-all",
        "partition:plant/1",
    ];
    stage
        .peer
        .does(json!({"do": "read", "topic": "Reading", "type": "Reading", "qos": qos}));
    let mut ids = [(); 2].map(|()| stage.peer.hears()["value"]["id"].as_u64());
    ids.sort();
    assert_eq!(ids, [Some(7), Some(8)]);
}

#[test]
fn a_lasting_reader_has_the_last_value_and_a_large_sample_goes_both_ways() {
    for library in Library::ALL {
        if let Some(stage) = Stage::set_with(library, library.domain(43), &[]) {
            assert_large_samples_pass(stage);
        }
    }
}

fn assert_large_samples_pass(mut stage: Stage) {
    let mqtt = stage.mqtt();
    let kept = Options {
        retain: Retain::Set,
        ..Options::default()
    };
    let text = br#"{"data": "kept"}"#;
    mqtt.publish("ros/notice", text, &kept).expect("published");
    let qos = ["reliable", "transient-local"];
    stage
        .peer
        .does(json!({"do": "read", "topic": "rt/notice", "type": "Text", "qos": qos}));
    assert_eq!(
        stage.peer.hears(),
        json!({"topic": "rt/notice", "value": {"data": "kept"}})
    );

    let mut blobs = subscribe(&mqtt, "Picture");
    stage
        .peer
        .matched(json!({"do": "offer", "topic": "Picture", "type": "Blob", "qos": ["reliable"]}));
    stage.peer.does(
        json!({"do": "write", "topic": "Picture", "type": "Blob", "value": {"size": 1_000_000}}),
    );
    let picture = next(&mut blobs);
    assert_eq!(picture.payload().len(), 1_000_000 + 8);
    let expected = (0..1_000_000u32).map(|at| (at * 7 % 256) as u8);
    assert!(picture.payload()[8..].iter().copied().eq(expected));
    stage
        .peer
        .does(json!({"do": "read", "topic": "Copy", "type": "Blob", "qos": qos}));
    mqtt.publish("Copy", picture.payload(), &kept)
        .expect("published");
    let heard = stage.peer.hears();
    assert_eq!(heard["value"]["size"], 1_000_000);
    assert_eq!(heard["value"]["first"], "AAcOFRwjKjE4P0ZNVFtiaQ==");
}

#[test]
fn instances_come_and_go_both_ways_whether_or_not_a_hash_of_their_key_is_sent() {
    let folder = concat!("dds.types=", env!("CARGO_MANIFEST_DIR"), "/tests/types");
    // Fast DDS sends it when an instance ends, and not before. Of a text it is the MD5.
    let Some(mut stage) = Stage::set_with(Library::Fast, 99, &["dds.json=#", folder]) else {
        return;
    };
    let mqtt = stage.mqtt();
    let mut all = subscribe(&mqtt, "in/#");
    let kept = Options {
        retain: Retain::Set,
        ..Options::default()
    };
    let tags = ["a/b", "c"].map(|name| json!({"name": name, "size": 0.5}));
    let readings = [7, -8].map(|id| json!({"id": id, "value": 1.5}));
    for (kind, values, levels) in [
        ("Tag", tags, ["a%2Fb", "c"]),
        ("Reading", readings, ["7", "-8"]),
    ] {
        let qos = ["reliable", "transient-local", "keep-all", "partition:in"];
        for (value, level) in values.iter().zip(levels) {
            stage.peer.does(
                json!({"do": "write", "topic": kind, "type": kind, "qos": qos, "value": value}),
            );
            let message = next(&mut all);
            assert_eq!(message.topic(), format!("in/{kind}/{level}"));
            assert_eq!(&value_of(&message), value);
        }
        let (own, other) = (
            format!("in/{kind}/{}", levels[0]),
            format!("in/{kind}/{}", levels[1]),
        );
        stage
            .peer
            .does(json!({"do": "dispose", "topic": kind, "type": kind, "value": values[0]}));
        let clear = next(&mut all);
        assert_eq!((clear.topic(), clear.payload()), (&*own, &b""[..]));
        assert!(mqtt.last_value(&own).expect("it can be read").is_none());
        let last = mqtt.last_value(&other).expect("it can be read");
        assert_eq!(value_of(&last.expect("it stays")), values[1]);

        // And back: a value, and the end of its instance.
        let (topic, address) = (format!("{kind}s"), format!("out/{kind}s/{}", levels[0]));
        mqtt.publish(&address, values[0].to_string().as_bytes(), &kept)
            .expect("published");
        let qos = ["reliable", "transient-local", "keep-all", "partition:out"];
        stage
            .peer
            .does(json!({"do": "read", "topic": topic, "type": kind, "qos": qos}));
        assert_eq!(
            stage.peer.hears(),
            json!({"topic": topic, "value": values[0]})
        );
        mqtt.publish(&address, b"", &kept).expect("published");
        assert_eq!(stage.peer.hears(), json!({"topic": topic, "state": "gone"}));
    }
}

#[test]
fn what_is_denied_has_no_opposite_and_what_cannot_be_read_is_counted() {
    let Some(mut stage) = Stage::set(44, &["dds.deny=ros/secret/#"]) else {
        return;
    };
    let mqtt = stage.mqtt();
    for (topic, kind) in [("rt/secret/plan", "Text"), ("rq/addRequest", "Text")] {
        stage
            .peer
            .does(json!({"do": "offer", "topic": topic, "type": kind}));
    }
    stage
        .peer
        .matched(json!({"do": "read", "topic": "rt/open", "type": "Text", "qos": ["best-effort"]}));
    // What was there before has been seen by now.
    for topic in ["rt/secret/plan", "rq/addRequest"] {
        assert_eq!(stage.peer.does(json!({"do": "matched", "topic": topic})), 0);
    }
    // Neither CDR nor JSON of the type; then something to know when that was seen.
    let heard = tried("the reader hears", || {
        mqtt.publish("ros/open", b"{\"data\": 5}", &Options::default())
            .expect("published");
        mqtt.publish("ros/open", b"{\"data\": \"5\"}", &Options::default())
            .expect("published");
        stage.peer.hears_soon()
    });
    assert_eq!(heard["value"]["data"], "5");
    assert!(Counts::get(&stage.bridge.counts().unreadable) >= 1);
}

#[test]
fn two_domains_hear_each_other_once() {
    // A broker of DDS alone needs no listener.
    let sets = [
        "dds.second_domain=57",
        "listeners.mqtt.enabled=false",
        "listeners.coap.enabled=false",
    ];
    let Some(mut stage) = Stage::set(56, &sets) else {
        return;
    };
    let mut other = stage.peer_in(57);
    let qos = ["reliable", "transient-local"];
    // A reader here, a writer there, and the other way round.
    for (reader, writer, topic) in [(0, 1, "rt/away"), (1, 0, "rt/back")] {
        let peers = [&mut stage.peer, &mut other];
        peers[reader].matched(json!({"do": "read", "topic": topic, "type": "Text", "qos": qos}));
        peers[writer].matched(json!({"do": "offer", "topic": topic, "type": "Text", "qos": qos}));
        for turn in 0..3 {
            let value = json!({"data": format!("{topic} {turn}")});
            peers[writer]
                .does(json!({"do": "write", "topic": topic, "type": "Text", "value": value}));
            assert_eq!(
                peers[reader].hears(),
                json!({"topic": topic, "value": value})
            );
        }
        assert_eq!(peers[reader].hears_soon(), None);
        assert_eq!(peers[writer].hears_soon(), None);
    }
}

#[test]
fn a_reliable_reader_of_what_a_policy_has_at_most_once_is_shown_and_served() {
    let ceiling = "policy=[{ filter = \"ros/low/#\", reliability_max = \"at-most-once\" }]";
    let Some(mut stage) = Stage::set(40, &[ceiling]) else {
        return;
    };
    let mqtt = stage.mqtt();
    let topics = [
        ("rt/low/sure", "reliable"),
        ("rt/low/any", "best-effort"),
        ("rt/high", "reliable"),
    ];
    for (topic, reliability) in topics {
        stage
            .peer
            .matched(json!({"do": "read", "topic": topic, "type": "Text", "qos": [reliability]}));
    }
    let text = "rt/low/sure: reliability, RELIABLE requested, BEST_EFFORT offered";
    stage.row("lowered reader", Some(text));
    for topic in ["low/sure", "high"] {
        mqtt.publish(
            &format!("ros/{topic}"),
            br#"{"data": "1"}"#,
            &Options::default(),
        )
        .expect("published");
        let heard = json!({"topic": format!("rt/{topic}"), "value": {"data": "1"}});
        assert_eq!(stage.peer.hears(), heard);
    }
    let rows = stage.properties();
    let lowered = rows.iter().filter(|(name, _)| name.starts_with("lowered"));
    assert_eq!(lowered.count(), 1, "{rows:?}");
    assert_eq!(stage.bridge.counts().remarks.lowered_count(), 1);
}

#[test]
fn a_partition_with_what_an_address_cannot_hold_has_one_all_the_same() {
    let Some(mut stage) = Stage::set(146, &["dds.json=#"]) else {
        return;
    };
    let mqtt = stage.mqtt();
    let mut all = subscribe(&mqtt, "#");
    let qos = ["reliable", "transient-local", "partition:plant/+/a#b"];
    let endpoint = |what: &str, name: &str| {
        json!({
            "do": what, "topic": "Odd", "type": "Text", "as": name, "qos": qos, "value": {"data": name}
        })
    };
    stage.peer.does(endpoint("write", "out"));
    let message = next(&mut all);
    assert_eq!(message.topic(), "plant/%2B/a%23b/Odd");
    assert_eq!(value_of(&message), json!({"data": "out"}));
    stage.peer.does(endpoint("read", "in"));
    // Its own writer's, and then from here.
    assert_eq!(stage.peer.hears()["value"], json!({"data": "out"}));
    let kept = Options {
        retain: Retain::Set,
        ..Options::default()
    };
    let payload = br#"{"data": "from here"}"#;
    mqtt.publish("plant/%2B/a%23b/Odd", payload, &kept)
        .expect("published");
    assert_eq!(stage.peer.hears()["value"], json!({"data": "from here"}));
}
