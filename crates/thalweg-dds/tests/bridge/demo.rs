//! What the documentation shows: a robot of ROS 2, and clients that know nothing of DDS.

use crate::peer::{Stage, next, subscribe, tried, value_of};
use serde_json::json;
use thalweg_client::Options;

#[test]
fn a_talker_is_heard_a_command_is_obeyed_and_the_last_pose_is_read() {
    let Some(mut stage) = Stage::set(41, &["dds.retain=ros/pose"]) else {
        return;
    };
    let mqtt = stage.mqtt();
    let mut all = subscribe(&mqtt, "ros/#");

    // A talker, as `ros2 run demo_nodes_cpp talker` is one.
    stage.peer.matched(
        json!({"do": "offer", "topic": "rt/chatter", "type": "Text", "qos": ["reliable"]}),
    );
    for count in 1..=3 {
        let text = format!("Hello World: {count}");
        stage.peer.does(
            json!({"do": "write", "topic": "rt/chatter", "type": "Text", "value": {"data": text}}),
        );
        let message = next(&mut all);
        assert_eq!(message.topic(), "ros/chatter");
        assert_eq!(message.content_type(), Some("application/json"));
        assert_eq!(value_of(&message), json!({"data": text}));
    }

    // A driver that obeys.
    stage.peer.matched(
        json!({"do": "read", "topic": "rt/cmd_vel", "type": "Twist", "qos": ["reliable"]}),
    );
    let command = br#"{"linear": {"x": 0.5}, "angular": {"z": -0.25}}"#;
    // The writer is there before the subscription that feeds it, so it is tried until it comes through.
    let heard = tried("the driver hears a command", || {
        mqtt.publish("ros/cmd_vel", command, &Options::default())
            .expect("published");
        stage.peer.hears_soon()
    });
    let twist = json!({"linear": {"x": 0.5, "y": 0.0, "z": 0.0}, "angular": {"x": 0.0, "y": 0.0, "z": -0.25}});
    assert_eq!(heard, json!({"topic": "rt/cmd_vel", "value": twist}));

    // Where it is, for a client that comes later.
    let pose = json!({"header": {"stamp": {"sec": 7, "nanosec": 1}, "frame_id": "map"},
        "pose": {"position": {"x": 1.0, "y": 2.5, "z": 0.0},
                 "orientation": {"x": 0.0, "y": 0.0, "z": 0.0, "w": 1.0}}});
    stage.peer.matched(
        json!({"do": "offer", "topic": "rt/pose", "type": "PoseStamped", "qos": ["reliable"]}),
    );
    stage
        .peer
        .does(json!({"do": "write", "topic": "rt/pose", "type": "PoseStamped", "value": pose}));
    while next(&mut all).topic() != "ros/pose" {}
    let last = stage.coap().last_value("ros/pose").expect("it can be read");
    assert_eq!(value_of(&last.expect("there is one")), pose);
}
