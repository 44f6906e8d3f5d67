//! A reliable reader that does not acknowledge, beside one that does.

use crate::peer::{Stage, tried};
use serde_json::json;
use std::collections::BTreeSet;
use thalweg_client::Options;
use thalweg_dds::counts::Counts;

/// A `Blob` of so many bytes, in CDR.
fn blob(size: u32) -> Vec<u8> {
    let length = size.to_le_bytes();
    [&[0, 1, 0, 0][..], &length, &vec![7; size as usize]].concat()
}

#[test]
fn a_reader_that_does_not_acknowledge_costs_the_others_nothing() {
    let Some(mut stage) = Stage::set(68, &[]) else {
        return;
    };
    let mut slow = stage.peer_in(68);
    let mqtt = stage.mqtt();
    let qos = ["reliable", "keep-all"];
    let reads = json!({"do": "read", "topic": "Flow", "type": "Blob", "qos": qos});
    stage.peer.matched(reads.clone());
    slow.matched(reads);
    // Each has a size of its own. One arrives with both before anything is held up.
    let publish = |size: u32| {
        let sent = mqtt.publish("Flow", &blob(size), &Options::default());
        sent.expect("published");
    };
    tried("the slow reader hears", || {
        publish(8000);
        slow.hears_soon()
    });
    let first = stage.peer.hears();
    assert_eq!(first["value"]["size"], 8000);
    slow.pause(true);
    let sizes: BTreeSet<u64> = (8001..8401).collect();
    for size in &sizes {
        publish(*size as u32);
    }
    // Much more than a writer keeps that is not acknowledged, and all of it in order.
    let mut last = 8000;
    while last < 8400 {
        let size = stage.peer.hears()["value"]["size"]
            .as_u64()
            .expect("a size");
        assert!(size == 8000 || size == last + 1, "{size} after {last}");
        last = size.max(last);
    }
    assert_eq!(Counts::get(&stage.bridge.counts().slow), 0);
    // It was only slow, and gets everything, too; not in order, as it comes by two ways.
    slow.pause(false);
    let mut left = sizes;
    while !left.is_empty() {
        left.remove(&slow.hears()["value"]["size"].as_u64().expect("a size"));
    }
    publish(9000);
    assert_eq!(slow.hears()["value"]["size"], 9000);
    assert_eq!(stage.peer.hears()["value"]["size"], 9000);
    assert_eq!(Counts::get(&stage.bridge.counts().slow), 0);
}
