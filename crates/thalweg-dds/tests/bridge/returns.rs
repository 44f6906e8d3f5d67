//! What ends in between, and participants that stay: the broker is restarted, or the bridge's session in it is closed.

use crate::peer::{PATIENCE, Stage, next, subscribe, tried, value_of};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;
use thalweg_client::{Options, Retain};

/// How long one of several attempts may take.
const SOON: Duration = Duration::from_millis(300);

fn text(of: &str) -> Value {
    json!({"data": of})
}

/// Gives the participant a writer and a reader that are lasting, a reader that is not, and a service. All have been used once.
fn populate(stage: &mut Stage) {
    let mqtt = stage.mqtt();
    let lasting = ["reliable", "transient-local"];
    let mut poses = subscribe(&mqtt, "ros/pose");
    stage.peer.does(
        json!({"do": "write", "topic": "rt/pose", "type": "Text", "qos": lasting, "value": text("here")}),
    );
    assert_eq!(value_of(&next(&mut poses)), text("here"));
    let kept = Options {
        retain: Retain::Set,
        ..Options::default()
    };
    mqtt.publish("ros/notice", text("kept").to_string().as_bytes(), &kept)
        .expect("published");
    stage
        .peer
        .does(json!({"do": "read", "topic": "rt/notice", "type": "Text", "qos": lasting}));
    assert_eq!(stage.peer.hears(), notice());
    stage
        .peer
        .matched(json!({"do": "read", "topic": "rt/orders", "type": "Text", "qos": ["reliable"]}));
    stage
        .peer
        .does(json!({"do": "serve", "topic": "add_two_ints", "type": "Sum"}));
    assert_goes_on(stage);
}

/// What the lasting reader hears once the bridge has subscribed.
fn notice() -> Value {
    json!({"topic": "rt/notice", "value": text("kept")})
}

/// All of that works both ways.
fn assert_goes_on(stage: &mut Stage) {
    let mqtt = stage.mqtt();
    let mut poses = subscribe(&mqtt, "ros/pose");
    stage
        .peer
        .does(json!({"do": "write", "topic": "rt/pose", "type": "Text", "value": text("moved")}));
    while value_of(&next(&mut poses)) != text("moved") {}
    let last = mqtt.last_value("ros/pose").expect("it can be read");
    assert_eq!(value_of(&last.expect("there is one")), text("moved"));

    // A reader that is not lasting hears nothing of before the bridge has subscribed, and then each message once, in order.
    let order = |order: &str| {
        let payload = text(order).to_string();
        mqtt.publish("ros/orders", payload.as_bytes(), &Options::default())
            .expect("published");
    };
    let mut sent = Vec::new();
    let first = tried("the reader hears an order", || {
        sent.push(sent.len().to_string());
        order(&sent[sent.len() - 1]);
        stage.peer.hears_soon()
    });
    let mut heard = vec![first];
    sent.push("last".into());
    order("last");
    while heard[heard.len() - 1]["value"] != text("last") {
        heard.push(stage.peer.hears());
    }
    let expected: Vec<Value> = sent[sent.len() - heard.len()..]
        .iter()
        .map(|order| json!({"topic": "rt/orders", "value": text(order)}))
        .collect();
    assert_eq!(heard, expected);

    let ask = |patience| {
        let options = Options::default();
        mqtt.request(
            "ros/add_two_ints",
            br#"{"a": 40, "b": 2}"#,
            &options,
            patience,
        )
    };
    tried("the service answers", || ask(SOON).ok());
    assert_eq!(
        value_of(&ask(PATIENCE).expect("answered")),
        json!({"sum": 42})
    );
}

#[test]
fn participants_that_stay_go_on_with_a_broker_that_was_restarted() {
    let name = format!("dds-restart-{}", std::process::id());
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let data = format!("data_dir={}", folder.display());
    let Some(mut stage) = Stage::set(52, &["journal.enabled=true", &data]) else {
        return;
    };
    populate(&mut stage);
    let mut stage = stage.restarted();
    // From the journal: who published it is gone.
    assert_eq!(stage.peer.hears(), notice());
    assert_goes_on(&mut stage);
    drop(stage);
    // It stays after a failure.
    let _ = std::fs::remove_dir_all(folder);
}

#[test]
fn a_bridge_whose_session_was_closed_comes_back() {
    let Some(mut stage) = Stage::set(53, &[]) else {
        return;
    };
    populate(&mut stage);
    stage.close_session();
    assert_eq!(stage.peer.hears(), notice());
    assert_goes_on(&mut stage);
}
