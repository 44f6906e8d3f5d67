//! Nodes of ROS 2: the other participant writes and reads `ros_discovery_info` as ROS 2 does, in the layouts of both its ages.

use crate::peer::{PATIENCE, Stage};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Interval at which the rows and ids of the other side are asked for.
const PAUSE: Duration = Duration::from_millis(20);

impl Stage {
    /// What the bridge's connection says, as soon as there is a row of this name and its text ends so; or, without a text, as soon as
    /// there is none.
    pub(crate) fn row(&self, name: &str, end: Option<&str>) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let rows = self.properties();
            let row = rows.iter().find(|(row, _)| row.starts_with(name));
            match (row, end) {
                (None, None) => return,
                (Some((_, text)), Some(end)) if text.ends_with(end) => return,
                _ => assert!(Instant::now() < deadline, "{name} is not {end:?}: {rows:?}"),
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// The bridge as a node, as soon as the other participant has heard that it has these readers and writers.
    fn hears_node(&mut self, readers: &[&Value], writers: &[&Value], bytes: usize) {
        loop {
            let heard = self.peer.hears();
            let ids = |of: &[&Value]| {
                let id = |it: &&Value| {
                    let id = it.as_str().expect("an id").to_owned();
                    id + &"00".repeat(bytes - 16)
                };
                let mut ids: Vec<String> = of.iter().map(id).collect();
                ids.sort_unstable();
                ids
            };
            let is_it = heard["node"] == "bridge"
                && heard["namespace"] == "/robots"
                && heard["readers"] == json!(ids(readers))
                && heard["writers"] == json!(ids(writers));
            if is_it {
                let participant = heard["participant"].as_str().expect("an id");
                let one = ids(&[readers, writers].concat()).remove(0);
                // They are of one participant, whose own id has the number that all have (DDSI-RTPS 2.5 §9.3.1.3).
                assert_eq!(participant[..24], one[..24]);
                assert_eq!(participant[24..32], *"000001c1");
                return;
            }
        }
    }

    /// The id of the bridge's endpoint for a topic, as soon as there is one that is not this.
    fn opposite(&mut self, topic: &str, before: &Value) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let ids = self.peer.answers(json!({"do": "opposite", "topic": topic}));
            match ids.as_array().map(Vec::as_slice) {
                Some([one]) if one != before => return one.clone(),
                _ => assert!(Instant::now() < deadline, "{topic} has {ids}"),
            }
            std::thread::sleep(PAUSE);
        }
    }
}

fn nodes_know_each_other(domain: u32, bytes: usize) {
    let Some(mut stage) = Stage::set(domain, &["dds.ros_node=/robots/bridge"]) else {
        return;
    };
    stage.peer.matched(
        json!({"do": "offer", "topic": "rt/chatter", "type": "Text", "qos": ["reliable"]}),
    );
    stage
        .peer
        .matched(json!({"do": "read", "topic": "rt/cmd", "type": "Text", "qos": ["reliable"]}));
    // No topic of ROS 2's, so no node has it.
    stage
        .peer
        .matched(json!({"do": "offer", "topic": "Square", "type": "Blob"}));
    let none = Value::Null;
    let reader = stage.opposite("rt/chatter", &none);
    let writer = stage.opposite("rt/cmd", &none);
    // Without an opposite; that is known before the node that it is of.
    let qos = ["reliable", "transient"];
    stage
        .peer
        .does(json!({"do": "read", "topic": "rt/map", "type": "Text", "qos": qos}));
    stage.row("unmatched reader", Some("rt/map: durability"));

    stage
        .peer
        .does(json!({"do": "nodes", "topic": "", "bytes": bytes}));
    let node = json!({"do": "node", "topic": "/arm/driver", "bytes": bytes});
    stage.peer.does(node);
    stage.row(
        "unmatched reader",
        Some("rt/map: durability, of /arm/driver"),
    );
    let rows = stage.properties();
    let (_, text) = rows
        .iter()
        .find(|(row, _)| &**row == "node /arm/driver")
        .expect("there");
    // With that of its own discovery.
    assert!(
        text.starts_with("readers: 2, writers: 3, participant: "),
        "{text}"
    );
    stage.hears_node(&[&reader], &[&writer], bytes);

    // What comes later is said later, and again after a restart, when ids are others.
    stage
        .peer
        .matched(json!({"do": "offer", "topic": "rt/later", "type": "Text"}));
    let later = stage.opposite("rt/later", &none);
    stage.hears_node(&[&reader, &later], &[&writer], bytes);
    let mut stage = stage.restarted();
    stage.row("node /arm/driver", Some(""));
    let reader = stage.opposite("rt/chatter", &reader);
    let writer = stage.opposite("rt/cmd", &writer);
    let later = stage.opposite("rt/later", &later);
    stage.hears_node(&[&reader, &later], &[&writer], bytes);

    stage
        .peer
        .does(json!({"do": "stop", "topic": "/arm/driver"}));
    stage.row("node", None);
    stage.row("unmatched reader", Some("rt/map: durability"));
}

#[test]
fn nodes_know_each_other_as_since_iron() {
    nodes_know_each_other(64, 16);
}

#[test]
fn nodes_know_each_other_as_up_to_humble() {
    nodes_know_each_other(65, 24);
}
