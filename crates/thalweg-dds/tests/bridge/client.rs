//! `dds://` of clients: no broker, a participant of another library in the same domain.

use crate::peer::{PATIENCE, Peer, config_of, next, subscribe, value_of};
use serde_json::json;
use thalweg_client::Options;
use thalweg_client::blocking::Client;
use thalweg_dds::client::DdsLane;
use thalweg_dds::settings::DdsSettings;

pub fn settings(domain: u32) -> DdsSettings {
    let sets = [format!("dds.domain={domain}"), "dds.json=#".to_owned()];
    DdsSettings::of(&config_of(&sets).protocols.dds).expect("they can be used")
}

fn client(settings: DdsSettings) -> Client {
    let lane = DdsLane::join(settings).expect("it joins");
    let builder = Client::builder().transport(Box::new(lane));
    builder.connect_blocking().expect("it connects")
}

#[test]
fn a_client_hears_speaks_and_asks_without_a_broker() {
    let Some(mut peer) = Peer::in_domain(54, &settings(54)) else {
        return;
    };
    let client = client(settings(54));
    let mut chatter = subscribe(&client, "ros/chatter");
    let value = json!({"data": "Hello World: 1"});
    peer.matched(
        json!({"do": "offer", "topic": "rt/chatter", "type": "Text", "qos": ["reliable"]}),
    );
    peer.does(json!({"do": "write", "topic": "rt/chatter", "type": "Text", "value": value}));
    assert_eq!(value_of(&next(&mut chatter)), value);

    // It waits for a reader, and then for what the reader's participant needs to know the writer.
    let qos = ["reliable", "volatile"];
    peer.does(json!({"do": "read", "topic": "rt/cmd", "type": "Text", "qos": qos}));
    let text = br#"{"data": "go"}"#;
    let written = client.publish("ros/cmd", text, &Options::default());
    written.expect("it is written");
    assert_eq!(
        peer.hears(),
        json!({"topic": "rt/cmd", "value": {"data": "go"}})
    );

    peer.does(json!({"do": "serve", "topic": "add_two_ints"}));
    let question = br#"{"a": 40, "b": 2}"#;
    let options = Options::default();
    let answer = client.request("ros/add_two_ints", question, &options, PATIENCE);
    assert_eq!(value_of(&answer.expect("answered")), json!({"sum": 42}));
}

#[test]
fn a_client_of_one_topic_makes_endpoints_for_no_other() {
    let Some(mut peer) = Peer::in_domain(55, &settings(55)) else {
        return;
    };
    peer.does(json!({"do": "offer", "topic": "rt/other", "type": "Text"}));
    let client = client(settings(55).only("ros/chatter"));
    let mut all = subscribe(&client, "#");
    peer.matched(
        json!({"do": "offer", "topic": "rt/chatter", "type": "Text", "qos": ["reliable"]}),
    );
    assert_eq!(peer.does(json!({"do": "matched", "topic": "rt/other"})), 0);
    let value = json!({"data": "one"});
    peer.does(json!({"do": "write", "topic": "rt/chatter", "type": "Text", "value": value}));
    assert_eq!(next(&mut all).topic(), "ros/chatter");
}
