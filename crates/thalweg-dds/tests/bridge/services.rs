//! Services of ROS 2 as rmw_cyclonedds speaks them, and requests of other protocols.

use crate::peer::{PATIENCE, Stage, next, subscribe, tried, value_of};
use serde_json::json;
use std::time::Duration;
use thalweg_client::Options;
use thalweg_client::blocking::Client;
use thalweg_dds::counts::Counts;

/// How long one of several attempts may take.
const SOON: Duration = Duration::from_millis(300);

#[test]
fn a_service_of_ros_answers_clients_of_other_protocols() {
    let Some(mut stage) = Stage::set(47, &[]) else {
        return;
    };
    stage
        .peer
        .does(json!({"do": "serve", "topic": "add_two_ints", "type": "Sum"}));
    let request = br#"{"a": 40, "b": 2}"#;
    let ask = |client: &Client, patience| {
        let options = Options::default();
        client.request("ros/add_two_ints", request, &options, patience)
    };
    let mqtt = stage.mqtt();
    // The service is there before the subscription that feeds it, so it is tried until it comes through.
    tried("the service answers", || ask(&mqtt, SOON).ok());
    for client in [&mqtt, &stage.coap()] {
        let answer = ask(client, PATIENCE).expect("answered");
        assert_eq!(value_of(&answer), json!({"sum": 42}));
        assert_eq!(answer.content_type(), Some("application/json"));
    }
    // What asks for no answer is no request.
    let written = |stage: &Stage| Counts::get(&stage.bridge.counts().written);
    let before = written(&stage);
    mqtt.publish("ros/add_two_ints", request, &Options::default())
        .expect("published");
    ask(&mqtt, PATIENCE).expect("answered");
    assert_eq!(written(&stage), before + 1);
    // Other clients of the service hear all answers, and so does the bridge: it passes on its own.
    let other = json!({"client": 77, "number": 5, "a": 1, "b": 2});
    stage.peer.does(
        json!({"do": "read", "topic": "rr/add_two_intsReply", "type": "SumAnswer", "qos": ["reliable"]}),
    );
    stage.peer.does(
        json!({"do": "write", "topic": "rq/add_two_intsRequest", "type": "Sum", "qos": ["reliable"], "value": other}),
    );
    let heard = stage.peer.hears();
    assert_eq!(heard["value"], json!({"client": 77, "number": 5, "sum": 3}));
}

#[test]
fn a_service_of_the_broker_answers_clients_of_ros() {
    let Some(mut stage) = Stage::set(48, &["dds.services=ros/add_two_ints"]) else {
        return;
    };
    let mqtt = stage.mqtt();
    let mut requests = subscribe(&mqtt, "ros/add_two_ints");
    // Which services there are is said by the setting: a client of any other waits for one.
    stage.peer.does(
        json!({"do": "offer", "topic": "rq/otherRequest", "type": "Sum", "qos": ["reliable"]}),
    );
    stage.peer.does(
        json!({"do": "read", "topic": "rr/add_two_intsReply", "type": "SumAnswer", "qos": ["reliable"]}),
    );
    stage.peer.matched(
        json!({"do": "offer", "topic": "rq/add_two_intsRequest", "type": "Sum", "qos": ["reliable"]}),
    );
    assert_eq!(
        stage
            .peer
            .does(json!({"do": "matched", "topic": "rq/otherRequest"})),
        0
    );
    let value = json!({"client": 77, "number": 5, "a": 1, "b": 2});
    stage.peer.does(
        json!({"do": "write", "topic": "rq/add_two_intsRequest", "type": "Sum", "value": value}),
    );
    let request = next(&mut requests);
    assert_eq!(value_of(&request), json!({"a": 1, "b": 2}));
    let answer = Options {
        correlation: request.correlation().map(<[u8]>::to_vec),
        ..Options::default()
    };
    let reply_to = request.reply_to().expect("an answer is awaited");
    mqtt.publish(reply_to, br#"{"sum": 3}"#, &answer)
        .expect("published");
    let heard = stage.peer.hears();
    assert_eq!(heard["value"], json!({"client": 77, "number": 5, "sum": 3}));
}

#[test]
fn a_service_in_one_domain_answers_clients_in_another() {
    let sets = ["dds.second_domain=65", "dds.services=ros/add_two_ints"];
    let Some(mut stage) = Stage::set(64, &sets) else {
        return;
    };
    let mut other = stage.peer_in(65);
    other.does(json!({"do": "serve", "topic": "add_two_ints", "type": "Sum"}));
    // The service is there before the subscription that feeds it, so it is tried until it comes through.
    let mqtt = stage.mqtt();
    let request = br#"{"a": 1, "b": 1}"#;
    tried("the service answers", || {
        let options = Options::default();
        let answer = mqtt.request("ros/add_two_ints", request, &options, SOON);
        answer.ok()
    });
    stage.peer.does(
        json!({"do": "read", "topic": "rr/add_two_intsReply", "type": "SumAnswer", "qos": ["reliable"]}),
    );
    stage.peer.matched(
        json!({"do": "offer", "topic": "rq/add_two_intsRequest", "type": "Sum", "qos": ["reliable"]}),
    );
    let value = json!({"client": 77, "number": 5, "a": 40, "b": 2});
    stage.peer.does(
        json!({"do": "write", "topic": "rq/add_two_intsRequest", "type": "Sum", "value": value}),
    );
    let heard = stage.peer.hears();
    assert_eq!(
        heard["value"],
        json!({"client": 77, "number": 5, "sum": 42})
    );
}
