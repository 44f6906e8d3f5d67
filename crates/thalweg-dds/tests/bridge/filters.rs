//! Content filters between DDS and the other protocols.

use crate::peer::{Library, Stage, tried};
use serde_json::{Value, json};
use std::process::Command;
use thalweg_client::Options;

const TYPES: &str = concat!("dds.types=", env!("CARGO_MANIFEST_DIR"), "/tests/types");

fn room(name: &str, temp: i32, site: &str) -> Value {
    json!({"name": name, "temp": temp, "at": {"site": site}})
}

#[test]
fn a_content_filtered_reader_hears_what_its_filter_says_and_no_more() {
    let sets = ["dds.json=#", TYPES];
    let Some(mut stage) = Stage::set_with(Library::Fast, 102, &sets) else {
        return;
    };
    let mqtt = stage.mqtt();
    let reader = json!({
        "do": "read", "topic": "rooms", "type": "Room", "qos": ["reliable", "keep-all"],
        "filter": "(temp > 20 OR name = 'any') AND at.site <> 'south'"
    });
    stage.peer.matched(reader);
    let publish = |it: &Value| {
        mqtt.publish("rooms", it.to_string().as_bytes(), &Options::default())
            .expect("published");
    };
    // The bridge subscribes when it has found the reader.
    let first = room("any", 0, "north");
    tried("the reader hears", || {
        publish(&first);
        stage.peer.hears_soon()
    });
    let mut expected = Vec::new();
    for temp in 0..40 {
        for site in ["north", "south"] {
            let it = room("one", temp, site);
            publish(&it);
            expected.extend((temp > 20 && site == "north").then_some(it));
        }
    }
    let last = room("any", -1, "east");
    publish(&last);
    expected.push(last.clone());
    let mut heard = Vec::new();
    while heard.last() != Some(&last) {
        let value = stage.peer.hears()["value"].take();
        if value != first {
            heard.push(value);
        }
    }
    assert_eq!(heard, expected);
    // The bridge has written all of them: which ones the reader takes is the reader's own.
    let counts = stage.bridge.counts();
    assert!(thalweg_dds::counts::Counts::get(&counts.written) > 81);
}

/// The clients of the six other protocols are those of `thalweg-tests`; Fast DDS is the seventh, and both publishes and subscribes.
#[test]
fn one_predicate_selects_the_same_of_what_clients_of_seven_protocols_publish() {
    let names = ["amqp", "stomp", "coap-tcp", "zmtp", "xmpp"];
    let (Some(python), Some(peer)) = (
        std::env::var_os("THALWEG_DDS_PYTHON"),
        std::env::var_os("THALWEG_DDS_FAST"),
    ) else {
        eprintln!("THALWEG_DDS_PYTHON or THALWEG_DDS_FAST is not set: not tested");
        return;
    };
    let listeners = names.map(|it| format!("listeners.{it}.bind=127.0.0.1:0"));
    let enabled = names.map(|it| format!("listeners.{it}.enabled=true"));
    let more = [
        "dds.json=f/#",
        TYPES,
        "coap.observe_empty=true",
        "zmtp.filters=true",
    ];
    let sets = listeners.iter().chain(&enabled).map(String::as_str);
    let sets: Vec<&str> = sets.chain(more).collect();
    let Some(stage) = Stage::set(103, &sets) else {
        return;
    };
    let port = |listener: &str| {
        let address = stage.address(listener);
        address.rsplit(':').next().expect("a port").to_owned()
    };
    let script = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../thalweg-tests/interop/python/filter_patterns.py"
    );
    let output = Command::new(python)
        .args(["-B", script])
        .args([&["mqtt"], &names[..]].concat().into_iter().map(port))
        .arg("103")
        .arg(peer)
        .output()
        .expect("Python runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
    assert_eq!(out.lines().count(), 7 * 13, "{out}");
    print!("{out}");
}
