//! The floor and the ceiling of reliability between foreign clients: what each is granted, how surely messages arrive, and what is
//! there after a broken connection.

use serde_json::{Value, json};

use super::agent::Agent;
use super::protocol::{ONE_EACH, Protocol, SOCKETS};
use super::puppet::{Connect, Library, Message, Peer};
use super::speaker::{Place, Post, Speaker, hex, options, unhex, word};
use crate::abuse::figure;
use crate::broker::Broker;

/// Publishers, and subscribers: one of each protocol.
fn one_of_each() -> Vec<(Protocol, Library)> {
    [&ONE_EACH[..], &SOCKETS[..1]].concat()
}

fn broker(policy: &str) -> Option<Broker> {
    options().set("policy", policy).start_for_queues()
}

/// A session of MQTT 5 that outlives its connection; it acknowledges nothing if it is `unsettled`.
fn lasting(broker: &Broker, unsettled: bool) -> Peer {
    Connect::new(Library::PahoPython, 5, broker.mqtt())
        .persistent("lasting")
        .with("unsettled", json!(unsettled))
        .open()
}

/// Publishes without asking for an answer, where the protocol has that.
fn publish_unconfirmed(speaker: &Speaker, place: &Place, payload: &str) {
    let digits = hex(payload.as_bytes());
    match speaker.protocol {
        Protocol::Mqtt3 | Protocol::Mqtt5 => {
            let message = Message::new(&*place.mqtt, payload, 0);
            assert_eq!(speaker.peer().publish(&message), 0);
        }
        Protocol::Amqp => drop(speaker.agent().tell(
            "publish",
            json!({ "exchange": "amq.topic", "key": place.amqp, "payload": digits, "same_channel": true }),
        )),
        Protocol::Stomp => {
            let headers = [("destination", &place.stomp)];
            let frame =
                json!({ "command": "SEND", "headers": headers, "payload": digits, "fire": true });
            speaker.agent().tell("frame", frame);
        }
        Protocol::Coap => {
            let command = json!({ "payload": digits, "confirmable": false });
            let answer = speaker.endpoint().request("PUT", &place.coap, command);
            assert!(word(&answer["code"]).starts_with("2."), "{answer}");
        }
        Protocol::Zmtp | Protocol::Xmpp => speaker.publish(place, &Post::new(payload)),
    }
}

/// Whether a publisher that asks for no answer is at least once all the same.
fn always_confirms(protocol: Protocol) -> bool {
    protocol == Protocol::Xmpp
}

/// Observers of CoAP at some addresses, all of whose notifications are asked to be confirmable if `all`.
fn observer(broker: &Broker, addresses: &[&str], all: bool) -> Agent {
    let udp = json!({ "transport": "udp" });
    let agent = Agent::open_endpoint(Library::Aiocoap, broker.coap(), udp);
    for address in addresses {
        let path: Vec<&str> = ["ps", "data"]
            .into_iter()
            .chain(address.split('/'))
            .collect();
        let query: &[&str] = if all { &["qos=1"] } else { &[] };
        let observe = json!({ "observation": address, "path": path, "query": query });
        let first = agent.tell("observe", observe);
        assert!(first["sequence"].is_u64(), "it is observed: {first}");
    }
    agent
}

/// What an observer is notified of next, and whether it is to confirm that.
fn notified(observer: &Agent) -> (Vec<u8>, Value) {
    let event = observer.message();
    (
        unhex(&word(&event["payload"])),
        event["confirmable"].clone(),
    )
}

#[test]
#[ignore = "needs foreign clients: cargo xtask interop"]
fn a_ceiling_is_told_to_each_subscriber_and_holds_whoever_publishes() {
    let ceiling = r#"[{ filter = "low/#", reliability_max = "at-most-once" }]"#;
    let Some(broker) = broker(ceiling) else {
        return;
    };
    let [low, high] = ["low/x", "high/x"].map(Place::plain);
    let publishers = Speaker::all(&broker, &one_of_each());
    // Those that are told: MQTT by SUBACK, XMPP by the options, CoAP by the notification itself.
    let mqtt = [(Library::PahoPython, 4), (Library::PahoPython, 5)]
        .map(|(library, version)| Connect::new(library, version, broker.mqtt()).open());
    for peer in &mqtt {
        assert_eq!(peer.subscribe(&["low/+"], 1), [0]);
        assert_eq!(peer.subscribe(&["low/x"], 2), [0]);
        peer.unsubscribe(&["low/x"]);
        assert_eq!(peer.subscribe(&["high/+"], 1), [1]);
    }
    let xmpp = Agent::open(Library::Slixmpp, broker.xmpp(), json!({}));
    let granted = |node: &str, asked: Value| {
        let answer = xmpp.tell("subscribe", json!({ "node": node, "reliability": asked }));
        answer["reliability"].clone()
    };
    assert_eq!(granted("low/x", Value::Null), "at-most-once");
    assert_eq!(granted("low/x", json!("at-least-once")), "at-most-once");
    assert_eq!(granted("low/x", json!("at-most-once")), Value::Null);
    assert_eq!(granted("high/x", Value::Null), Value::Null);
    let coap = observer(&broker, &["low/x", "high/x"], true);
    // Those that have nothing to lower.
    let others = [Protocol::Amqp, Protocol::Stomp, Protocol::Zmtp];
    let others = one_of_each()
        .into_iter()
        .filter(|it| others.contains(&it.0));
    let others: Vec<Speaker> = others.map(|who| Speaker::open(&broker, who)).collect();
    for speaker in &others {
        speaker.subscribe(&low, false);
        speaker.subscribe(&high, false);
    }
    // Two of each version of MQTT, two of XMPP, and the observation.
    let metric = "thalweg_subscriptions_downgraded_total";
    assert_eq!(figure(broker.admin(), metric), 7);
    let away = lasting(&broker, true);
    assert_eq!(away.subscribe(&["low/+"], 1), [0]);
    assert_eq!(away.subscribe(&["high/+"], 1), [1]);
    let rounds = publishers.iter().map(|publisher| (publisher, false));
    let rounds = rounds.chain(publishers.iter().map(|publisher| (publisher, true)));
    let mut waiting = Vec::new();
    for (publisher, is_away) in rounds {
        if is_away && waiting.is_empty() {
            away.cut();
        }
        for (place, most) in [(&low, 0), (&high, 1)] {
            let text = format!("{publisher:?} to {} {is_away}", place.mqtt);
            publisher.publish(place, &Post::new(&*text));
            let sure = publisher.protocol != Protocol::Zmtp;
            let qos = if sure { most } else { 0 };
            for peer in &mqtt {
                let message = peer.receive();
                let said = (message.payload.as_slice(), message.qos);
                assert_eq!(said, (text.as_bytes(), qos), "{text}");
            }
            let event = xmpp.message();
            assert_eq!(unhex(&word(&event["payload"])), text.as_bytes());
            // The observer asks for confirmable ones, whatever the publisher did.
            assert_eq!(
                notified(&coap),
                (text.clone().into_bytes(), json!(most == 1)),
                "{text}"
            );
            for speaker in &others {
                assert_eq!(speaker.receive().payload, text.as_bytes(), "{speaker:?}");
            }
            if !is_away {
                assert_eq!(away.receive().qos, qos);
            }
            if qos == 1 {
                waiting.push((text, is_away));
            }
        }
    }
    // It has acknowledged nothing: what was at least once comes again, or now; what was at most once is gone.
    let back = lasting(&broker, false);
    assert!(back.session_present);
    for (text, is_away) in waiting {
        let message = back.receive();
        let said = (message.payload.as_slice(), message.qos);
        assert_eq!(said, (text.as_bytes(), 1));
        assert!(message.dup || is_away, "{text}");
    }
}

#[test]
#[ignore = "needs foreign clients: cargo xtask interop"]
fn a_floor_holds_whoever_publishes_and_over_a_broken_connection() {
    let floor = r#"[{ filter = "sure/#", reliability_min = "at-least-once" }]"#;
    let Some(broker) = broker(floor) else { return };
    let [plain, sure] = ["plain/x", "sure/x"].map(Place::plain);
    let publishers = Speaker::all(&broker, &one_of_each());
    let subscribers = Speaker::all(&broker, &one_of_each());
    for subscriber in subscribers
        .iter()
        .filter(|it| it.protocol != Protocol::Coap)
    {
        subscriber.subscribe(&plain, false);
        subscriber.subscribe(&sure, false);
    }
    let coap = observer(&broker, &["plain/x", "sure/x"], false);
    let here = Connect::new(Library::PahoPython, 5, broker.mqtt()).open();
    assert_eq!(here.subscribe(&["plain/+", "sure/+"], 1), [1, 1]);
    let away = lasting(&broker, true);
    assert_eq!(away.subscribe(&["plain/+", "sure/+"], 1), [1, 1]);
    let mut waiting = Vec::new();
    for is_away in [false, true] {
        if is_away {
            away.cut();
        }
        for publisher in &publishers {
            for (place, floor) in [(&plain, false), (&sure, true)] {
                let text = format!("{publisher:?} to {} {is_away}", place.mqtt);
                publish_unconfirmed(publisher, place, &text);
                let is_sure = floor || always_confirms(publisher.protocol);
                let message = here.receive();
                let said = (message.payload.as_slice(), message.qos);
                assert_eq!(said, (text.as_bytes(), u8::from(is_sure)), "{text}");
                assert_eq!(
                    notified(&coap),
                    (text.clone().into_bytes(), json!(is_sure)),
                    "{text}"
                );
                for subscriber in subscribers
                    .iter()
                    .filter(|it| it.protocol != Protocol::Coap)
                {
                    assert_eq!(
                        subscriber.receive().payload,
                        text.as_bytes(),
                        "{subscriber:?}"
                    );
                }
                if !is_away {
                    assert_eq!(away.receive().qos, u8::from(is_sure));
                }
                if is_sure {
                    waiting.push((text, is_away));
                }
            }
        }
    }
    let back = lasting(&broker, false);
    assert!(back.session_present);
    for (text, is_away) in waiting {
        let message = back.receive();
        let said = (message.payload.as_slice(), message.qos);
        assert_eq!(said, (text.as_bytes(), 1));
        assert!(message.dup || is_away, "{text}");
    }
}
