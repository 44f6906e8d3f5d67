//! Requirements on queues with every library of AMQP and of STOMP: written once, run through each.

use std::time::Duration;

use serde_json::{Value, json};

use super::agent::Agent;
use super::puppet::Library;
use super::speaker::broker;
use crate::broker::Broker;

/// A module per library, in it a test per check.
macro_rules! libraries {
    ($($library:ident as $module:ident: $($check:ident)*;)*) => {
        $(mod $module {
            use super::Library;

            $(#[test]
            #[ignore = "needs foreign clients: cargo xtask interop"]
            fn $check() {
                super::$check(Library::$library);
            })*
        })*
    };
}

libraries! {
    Pika as pika:
        queues_are_declared_and_errors_have_their_codes unroutable_messages_come_back unsettled_messages_come_again
        prefetch_bounds_what_comes consumers_hear_of_their_queues_end heartbeats_keep_idle_connections headers_of_every_type;
    Amqp091Go as amqp091_go:
        queues_are_declared_and_errors_have_their_codes unroutable_messages_come_back unsettled_messages_come_again
        prefetch_bounds_what_comes consumers_hear_of_their_queues_end heartbeats_keep_idle_connections headers_of_every_type;
    Amqplib as amqplib:
        queues_are_declared_and_errors_have_their_codes unroutable_messages_come_back unsettled_messages_come_again
        prefetch_bounds_what_comes consumers_hear_of_their_queues_end heartbeats_keep_idle_connections headers_of_every_type
        close_is_answered_behind_publishes;
    Lapin as lapin:
        queues_are_declared_and_errors_have_their_codes unroutable_messages_come_back unsettled_messages_come_again
        prefetch_bounds_what_comes consumers_hear_of_their_queues_end heartbeats_keep_idle_connections headers_of_every_type;
    StompPy as stomp_py:
        frames_are_acknowledged_and_errors_told transactions_commit_and_abort temporary_subscriptions_end
        heartbeats_keep_idle_sessions;
    Stompjs as stompjs:
        frames_are_acknowledged_and_errors_told transactions_commit_and_abort temporary_subscriptions_end
        heartbeats_keep_idle_sessions;
}

fn amqp(broker: &Broker, library: Library) -> Agent {
    Agent::open(library, broker.amqp(), json!({}))
}

fn put(agent: &Agent, queue: &str, payload: &str) -> Value {
    agent.tell(
        "publish",
        json!({ "exchange": "", "key": queue, "payload": payload, "mandatory": true }),
    )["outcome"]
        .clone()
}

fn payload(event: &Value) -> &str {
    event["payload"].as_str().expect("a message has a payload")
}

fn queues_are_declared_and_errors_have_their_codes(library: Library) {
    let Some(broker) = broker() else { return };
    let agent = amqp(&broker, library);
    let answer = agent.tell(
        "declare",
        json!({ "queue": "q", "arguments": [["x-max-length", ["int", 5]]] }),
    );
    assert_eq!(
        (answer["messages"].as_u64(), answer["consumers"].as_u64()),
        (Some(0), Some(0))
    );
    assert_eq!(put(&agent, "q", "61"), "confirmed");
    let again = amqp(&broker, library);
    assert_eq!(
        again.tell("declare", json!({ "queue": "q", "passive": true }))["messages"],
        1
    );
    let named = again.tell("declare", json!({ "queue": "", "exclusive": true }));
    assert!(
        named["queue"]
            .as_str()
            .is_some_and(|name| name.starts_with("amq.gen-")),
        "{named}"
    );
    for (verb, command, code) in [
        (
            "declare",
            json!({ "queue": "q", "durable": true }),
            "PRECONDITION_FAILED",
        ),
        (
            "declare",
            json!({ "queue": "nowhere", "passive": true }),
            "NOT_FOUND",
        ),
        (
            "consume",
            json!({ "queue": "nowhere", "tag": "c" }),
            "NOT_FOUND",
        ),
        (
            "declare",
            json!({ "queue": named["queue"], "passive": true }),
            "RESOURCE_LOCKED",
        ),
        ("declare", json!({ "queue": "amq.mine" }), "ACCESS_REFUSED"),
    ] {
        // An error closes the channel, so each has a connection of its own.
        let error = amqp(&broker, library)
            .ask(verb, command.clone())
            .expect_err("this must fail");
        assert!(
            error.replace([' ', '-'], "_").to_uppercase().contains(code),
            "{command}: {error}"
        );
    }
}

fn unroutable_messages_come_back(library: Library) {
    let Some(broker) = broker() else { return };
    let agent = amqp(&broker, library);
    assert_eq!(put(&agent, "nowhere", "61"), "returned");
    agent.tell("declare", json!({ "queue": "q", "arguments": [["x-max-length", ["int", 1]], ["x-overflow", ["text", "reject-publish"]]] }));
    assert_eq!(put(&agent, "q", "61"), "confirmed");
    assert_eq!(put(&agent, "q", "62"), "refused");
}

fn unsettled_messages_come_again(library: Library) {
    let Some(broker) = broker() else { return };
    let (first, second) = (amqp(&broker, library), amqp(&broker, library));
    first.tell("declare", json!({ "queue": "q" }));
    for number in 0..6 {
        put(&first, "q", &format!("0{number}"));
    }
    first.tell("consume", json!({ "queue": "q", "tag": "c" }));
    let took: Vec<Value> = (0..6).map(|_| first.message()).collect();
    assert!(
        took.iter().all(|event| event["redelivered"] == false),
        "{took:?}"
    );
    first.tell(
        "ack",
        json!({ "delivery": took[1]["delivery"], "multiple": true }),
    );
    first.tell(
        "nack",
        json!({ "delivery": took[2]["delivery"], "requeue": false }),
    );
    first.tell(
        "nack",
        json!({ "delivery": took[3]["delivery"], "requeue": true }),
    );
    let again = first.message();
    assert_eq!(
        (payload(&again), &again["redelivered"]),
        ("03", &json!(true))
    );
    first.cut();
    second.tell("consume", json!({ "queue": "q", "tag": "c" }));
    for wanted in ["03", "04", "05"] {
        let event = second.message();
        assert_eq!(
            (payload(&event), &event["redelivered"]),
            (wanted, &json!(true))
        );
        second.tell("ack", json!({ "delivery": event["delivery"] }));
    }
}

fn close_is_answered_behind_publishes(library: Library) {
    let Some(broker) = broker() else { return };
    for _ in 0..20 {
        let agent = amqp(&broker, library);
        agent.tell("declare", json!({ "queue": "q" }));
        agent.tell(
            "publish_and_close",
            json!({ "queue": "q", "payload": "61", "count": 2 }),
        );
        let closed = agent.event("closed");
        assert!(
            closed["text"].is_null(),
            "an error came instead of close-ok: {closed}"
        );
    }
}

fn prefetch_bounds_what_comes(library: Library) {
    let Some(broker) = broker() else { return };
    let agent = amqp(&broker, library);
    agent.tell("declare", json!({ "queue": "q" }));
    for number in 0..5 {
        put(&agent, "q", &format!("0{number}"));
    }
    agent.tell(
        "consume",
        json!({ "queue": "q", "tag": "c", "prefetch": 2 }),
    );
    let (one, two) = (agent.message(), agent.message());
    assert_eq!((payload(&one), payload(&two)), ("00", "01"));
    // A round trip on the same channel: whatever was to come had come before its answer.
    assert_eq!(
        agent.tell("declare", json!({ "queue": "q", "passive": true }))["messages"],
        3
    );
    assert!(
        agent.message_within(Duration::from_millis(50)).is_none(),
        "two are unsettled, so no third comes"
    );
    agent.tell("ack", json!({ "delivery": one["delivery"] }));
    assert_eq!(payload(&agent.message()), "02");
}

fn consumers_hear_of_their_queues_end(library: Library) {
    let Some(broker) = broker() else { return };
    let (consumer, other) = (amqp(&broker, library), amqp(&broker, library));
    consumer.tell("declare", json!({ "queue": "q" }));
    consumer.tell("consume", json!({ "queue": "q", "tag": "c" }));
    other.tell("delete", json!({ "queue": "q" }));
    consumer.event("cancelled");
}

fn heartbeats_keep_idle_connections(library: Library) {
    let Some(broker) = broker() else { return };
    let agent = Agent::open(library, broker.amqp(), json!({ "heartbeat": 1 }));
    agent.tell("declare", json!({ "queue": "q" }));
    agent.wait_for_signs_of_life();
    assert_eq!(put(&agent, "q", "61"), "confirmed");
}

fn headers_of_every_type(library: Library) {
    let Some(broker) = broker() else { return };
    let agent = amqp(&broker, library);
    agent.tell("declare", json!({ "queue": "q" }));
    let mut headers = json!([
        ["bool", ["bool", true]],
        ["bytes", ["bytes", "00ff"]],
        ["int", ["int", 1_099_511_627_776_i64]],
        [
            "list",
            [
                "list",
                [["int", 1], ["text", "two"], ["list", [["bool", false]]]]
            ]
        ],
        ["map", ["map", [["inner", ["text", "x"]]]]],
        ["negative", ["int", -3]],
        ["nothing", ["null", null]],
        ["text", ["text", "ünï"]],
        ["time", ["time", 1_700_000_000]],
    ]);
    let mut properties = json!({
        "content_type": "text/plain", "content_encoding": "gzip", "delivery_mode": 2, "priority": 3,
        "correlation_id": "c", "reply_to": "r", "expiration": "60000", "message_id": "m", "timestamp": 1_700_000_000,
        "type": "t", "app_id": "a",
    });
    properties["headers"] = headers.clone();
    agent.tell(
        "publish",
        json!({ "exchange": "", "key": "q", "payload": "61", "properties": properties }),
    );
    agent.tell(
        "consume",
        json!({ "queue": "q", "tag": "c", "no_ack": true }),
    );
    let mut seen = agent.message()["properties"].clone();
    for list in [&mut headers, &mut seen["headers"]] {
        list.as_array_mut()
            .expect("headers are a list")
            .sort_by_key(|pair| pair[0].to_string());
    }
    properties["headers"] = headers;
    assert_eq!(seen, properties);
}

/// Input over TLS is forwarded in the clear, and back.
#[test]
#[ignore = "needs foreign clients: cargo xtask interop"]
fn libraries_speak_over_tls() {
    let Some(broker) = Broker::with().queues().encrypted().start_for_queues() else {
        return;
    };
    let [amqps, stomps, secure_websocket] = broker.encrypted_queues();
    let ca = json!({ "ca": broker.authority() });
    let clear = amqp(&broker, Library::Pika);
    for library in [Library::Pika, Library::Amqp091Go, Library::Amqplib] {
        let queue = format!("of {library:?}");
        let agent = Agent::open(library, amqps, ca.clone());
        agent.tell("declare", json!({ "queue": queue }));
        agent.tell(
            "consume",
            json!({ "queue": queue, "tag": "c", "no_ack": true }),
        );
        for size in [1, 300_000] {
            let large = "61".repeat(size);
            assert_eq!(put(&clear, &queue, &large), "confirmed");
            assert!(
                payload(&agent.message()) == large,
                "{library:?}: {size} bytes"
            );
            assert_eq!(put(&agent, &queue, &large), "confirmed");
            assert!(
                payload(&agent.message()) == large,
                "{library:?}: its own {size} bytes"
            );
        }
    }
    for (library, address) in [
        (Library::StompPy, stomps),
        (Library::Stompjs, secure_websocket),
    ] {
        let agent = Agent::open(library, address, ca.clone());
        let destination = format!("/queue/{library:?}");
        frame(
            &agent,
            "SUBSCRIBE",
            &[("id", "s"), ("destination", &destination)],
            "",
        );
        let large = "61".repeat(300_000);
        frame(&agent, "SEND", &[("destination", &destination)], &large);
        assert!(payload(&agent.message()) == large, "{library:?}");
    }
}

fn stomp(broker: &Broker, library: Library) -> Agent {
    Agent::open(library, stomp_port(broker, library), json!({}))
}

fn stomp_port(broker: &Broker, library: Library) -> std::net::SocketAddr {
    if library == Library::Stompjs {
        broker.stomp_websocket()
    } else {
        broker.stomp()
    }
}

fn frame(agent: &Agent, command: &str, headers: &[(&str, &str)], payload: &str) {
    agent.tell(
        "frame",
        json!({ "command": command, "headers": headers, "payload": payload }),
    );
}

fn frames_are_acknowledged_and_errors_told(library: Library) {
    let Some(broker) = broker() else { return };
    let agent = stomp(&broker, library);
    frame(
        &agent,
        "SUBSCRIBE",
        &[
            ("id", "s"),
            ("destination", "/queue/q"),
            ("ack", "client-individual"),
        ],
        "",
    );
    for payload in ["61", "62"] {
        frame(&agent, "SEND", &[("destination", "/queue/q")], payload);
    }
    let (one, two) = (agent.message(), agent.message());
    assert_eq!((payload(&one), payload(&two)), ("61", "62"));
    frame(&agent, "ACK", &[("id", header(&two, "ack"))], "");
    agent.cut();
    let other = stomp(&broker, library);
    frame(
        &other,
        "SUBSCRIBE",
        &[("id", "s"), ("destination", "/queue/q")],
        "",
    );
    let again = other.message();
    assert_eq!(
        (payload(&again), header(&again, "redelivered")),
        ("61", "true")
    );
    let wrong =
        json!({ "command": "SEND", "headers": [["destination", "/nowhere/x"]], "payload": "61" });
    let error = other
        .ask("frame", wrong)
        .expect_err("there is no such destination");
    assert!(error.contains("ERROR Unknown destination"), "{error}");
}

fn header<'a>(event: &'a Value, name: &str) -> &'a str {
    let pairs = event["headers"].as_array().into_iter().flatten();
    let value = pairs
        .filter(|pair| pair[0] == name)
        .find_map(|pair| pair[1].as_str());
    value.unwrap_or_else(|| panic!("{event} has no header {name}"))
}

fn transactions_commit_and_abort(library: Library) {
    let Some(broker) = broker() else { return };
    let (agent, taker) = (stomp(&broker, library), stomp(&broker, library));
    frame(
        &taker,
        "SUBSCRIBE",
        &[("id", "s"), ("destination", "/queue/q")],
        "",
    );
    for (transaction, ending, payload) in [("one", "ABORT", "61"), ("two", "COMMIT", "62")] {
        frame(&agent, "BEGIN", &[("transaction", transaction)], "");
        frame(
            &agent,
            "SEND",
            &[("destination", "/queue/q"), ("transaction", transaction)],
            payload,
        );
        frame(&agent, ending, &[("transaction", transaction)], "");
    }
    assert_eq!(payload(&taker.message()), "62");
}

fn temporary_subscriptions_end(library: Library) {
    let Some(broker) = broker() else { return };
    let agent = stomp(&broker, library);
    frame(
        &agent,
        "SUBSCRIBE",
        &[("id", "s"), ("destination", "/topic/t")],
        "",
    );
    frame(&agent, "SEND", &[("destination", "/topic/t")], "61");
    assert_eq!(payload(&agent.message()), "61");
    frame(&agent, "UNSUBSCRIBE", &[("id", "s")], "");
    frame(&agent, "SEND", &[("destination", "/topic/t")], "62");
    frame(
        &agent,
        "SUBSCRIBE",
        &[("id", "s"), ("destination", "/topic/t")],
        "",
    );
    frame(&agent, "SEND", &[("destination", "/topic/t")], "63");
    assert_eq!(payload(&agent.message()), "63");
    agent.tell("disconnect", json!({}));
    agent.event("closed");
}

fn heartbeats_keep_idle_sessions(library: Library) {
    let Some(broker) = broker() else { return };
    let agent = Agent::open(
        library,
        stomp_port(&broker, library),
        json!({ "heartbeat": 1 }),
    );
    agent.wait_for_signs_of_life();
    frame(
        &agent,
        "SUBSCRIBE",
        &[("id", "s"), ("destination", "/queue/q")],
        "",
    );
    frame(&agent, "SEND", &[("destination", "/queue/q")], "61");
    assert_eq!(payload(&agent.message()), "61");
}
