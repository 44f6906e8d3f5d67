//! Every library publishes, every library receives: what one encodes, each other decodes.

use serde_json::json;

use super::command_line::{self, Subscriber};
use super::puppet::{Connect, Library, Message, Peer};
use crate::broker::Broker;

#[test]
#[ignore = "needs foreign clients: cargo xtask interop"]
fn what_any_library_publishes_every_library_receives() {
    let broker = Broker::start();
    let open = |library: Library| Connect::new(library, library.newest(), broker.mqtt()).open();
    let peers: Vec<(Library, Peer)> = Library::OF_MQTT
        .into_iter()
        .map(|library| (library, open(library)))
        .collect();
    for (_, peer) in &peers {
        assert_eq!(peer.subscribe(&["matrix/+/#"], 2), [2]);
    }
    let tool = Subscriber::start(&broker, &["-V", "mqttv5", "-q", "2", "-t", "matrix/+/#"]);

    for (from, publisher) in &peers {
        for qos in 0..=2 {
            let topic = format!("matrix/{from:?}/{qos}");
            let mut message = Message::new(topic, (0..=255).collect::<Vec<u8>>(), qos);
            if from.newest() == 5 {
                message = message
                    .property("user", json!([["from", "x"]]))
                    .property("content_type", json!("a/b"));
            }
            publisher.publish(&message);
            for (to, subscriber) in &peers {
                let received = subscriber.receive();
                let expected = if to.newest() == 5 {
                    message.clone()
                } else {
                    without_properties(&message)
                };
                assert_eq!(received, expected, "{from:?} to {to:?}");
            }
            let printed = tool.receive();
            assert_eq!(
                without_properties(&printed),
                without_properties(&message),
                "{from:?} to mosquitto_sub"
            );
            assert_eq!(
                printed.properties.contains_key("user"),
                from.newest() == 5,
                "{from:?} to mosquitto_sub"
            );
        }
    }

    for qos in 0..=2u8 {
        command_line::publish(
            &broker,
            &[
                "-q",
                &qos.to_string(),
                "-t",
                "matrix/tool/x",
                "-m",
                "from a shell",
            ],
        );
        for (to, subscriber) in &peers {
            assert_eq!(
                subscriber.receive(),
                Message::new("matrix/tool/x", "from a shell", qos),
                "the tool to {to:?}"
            );
        }
    }
}

fn without_properties(message: &Message) -> Message {
    let mut bare = message.clone();
    bare.properties.clear();
    bare
}
