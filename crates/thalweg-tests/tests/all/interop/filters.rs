//! One content filter by the clients of four protocols: the same messages pass. The filter asks the payload, which all publishers
//! can send.

use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::agent::Agent;
use super::command_line::{self, Subscriber};
use super::protocol::Protocol;
use super::puppet::{Library, PATIENCE, installed};
use super::speaker::{Speaker, broker, unhex, word};
use crate::broker::{Broker, free_port};

const FILTER: &str = "payload.temp > 20 AND payload.site = 'north'";

#[test]
#[ignore = "needs foreign clients: cargo xtask interop"]
fn one_filter_selects_the_same_for_clients_of_four_protocols() {
    let Some(broker) = broker() else { return };
    let of_mqtt = ["-V", "mqttv5", "-q", "1", "-t", "room/+"];
    let property = ["-D", "subscribe", "user-property", "filter", FILTER];
    let mosquitto = Subscriber::start(&broker, &[&of_mqtt[..], &property].concat());

    let transport = json!({ "transport": "udp" });
    let aiocoap = Agent::open_endpoint(Library::Aiocoap, broker.coap(), transport);
    let path = ["ps", "data", "room", "1"];
    let query = [format!("filter={FILTER}")];
    let observation = json!({ "observation": "room", "path": path, "query": query });
    let first = aiocoap.tell("observe", observation);
    assert!(first["sequence"].is_u64(), "it is observed: {first}");

    let stomp = Speaker::open(&broker, (Protocol::Stomp, Library::StompPy));
    let headers = [
        ("id", "1"),
        ("destination", "/topic/room.*"),
        ("selector", FILTER),
    ];
    let subscribe = json!({ "command": "SUBSCRIBE", "headers": headers });
    stomp.agent().tell("frame", subscribe);

    let amqp = Speaker::open(&broker, (Protocol::Amqp, Library::Pika));
    let declared = amqp
        .agent()
        .tell("declare", json!({ "queue": "", "exclusive": true }));
    let queue = declared["queue"].clone();
    let arguments = json!([["x-filter", ["text", FILTER]]]);
    let binding =
        json!({ "queue": queue, "exchange": "amq.topic", "key": "room.*", "arguments": arguments });
    amqp.agent().tell("bind", binding);
    amqp.agent().tell(
        "consume",
        json!({ "queue": queue, "no_ack": true, "tag": "1" }),
    );

    for temp in [21, 30, 25] {
        let passing = format!(r#"{{"temp": {temp}, "site": "north"}}"#);
        let cold = r#"{"temp": 20, "site": "north"}"#;
        let elsewhere = r#"{"temp": 40, "site": "south"}"#;
        // If the filter did not work, the subscriber would get one of the others first.
        for payload in [cold, elsewhere, "no map", &passing] {
            command_line::publish(&broker, &["-q", "1", "-t", "room/1", "-m", payload]);
        }
        let passing = passing.as_bytes();
        assert_eq!(mosquitto.receive().payload, passing, "mosquitto_sub");
        let notified = aiocoap.message_within(PATIENCE).expect("a notification");
        assert_eq!(unhex(&word(&notified["payload"])), passing, "aiocoap");
        assert_eq!(stomp.receive().payload, passing, "stomp.py");
        assert_eq!(amqp.receive().payload, passing, "pika");
    }
}

#[test]
#[ignore = "needs foreign clients: cargo xtask interop"]
fn what_is_no_filter_is_refused_where_it_is_wrong() {
    let Some(broker) = broker() else { return };
    let transport = json!({ "transport": "udp" });
    let aiocoap = Agent::open_endpoint(Library::Aiocoap, broker.coap(), transport);
    let wrong = json!({ "observation": "room", "path": ["ps", "data", "room", "1"], "query": ["filter=temp >"] });
    let answer = aiocoap.tell("observe", wrong);
    assert_eq!(answer["code"], "4.00", "{answer}");
}

/// paho, pika, stomp.py, aiocoap, pyzmq and slixmpp: each publishes twenty messages, and all ask one predicate about them, pika for
/// a binding and for a consumer, three for members of groups, and two for what takes from a queue as a group does.
#[test]
#[ignore = "needs foreign clients: cargo xtask interop"]
fn one_predicate_selects_the_same_of_what_clients_of_six_protocols_publish() {
    let (zmtp, xmpp) = (free_port(), free_port());
    let broker = Broker::with()
        .queues()
        .coap()
        .set("listeners.zmtp.bind", &zmtp.to_string())
        .set("listeners.xmpp.bind", &xmpp.to_string())
        .set("coap.observe_empty", "true")
        .set("zmtp.filters", "true")
        .start_for_queues();
    let Some(broker) = broker else { return };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("interop/python/filter_patterns.py");
    let ports = [
        broker.mqtt(),
        broker.amqp(),
        broker.stomp(),
        broker.coap(),
        zmtp,
        xmpp,
    ];
    let output = Command::new(installed().join("python/bin/python"))
        .arg("-B")
        .arg(script)
        .args(ports.map(|address| address.port().to_string()))
        .output()
        .expect("Python runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{out}{err}\n{}", broker.log());
    assert_eq!(out.lines().count(), 6 * 12, "{out}");
}
