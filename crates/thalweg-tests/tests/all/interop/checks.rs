//! Requirements on every external client through the broker: written once, run through each library.
//!
//! Each check starts a broker of its own. Where a message must *not* arrive, a later one on the same path is waited for first;
//! nothing here waits for time to pass except the check of message expiry, which is about time.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use serde_json::json;

use super::puppet::{Connect, Library, Message, PATIENCE, Peer};
use crate::broker::{Broker, BrokerProgram};

/// Two clients, `+` and `#`, and topics that must not match.
pub fn wildcards_match_what_they_should(library: Library, version: u8) {
    let broker = Broker::start();
    let subscriber = connect(&broker, library, version);
    let publisher = connect(&broker, library, version);
    assert_eq!(
        subscriber.subscribe(&["plant/+/temperature", "car/#", "+/+/+/deep"], 1),
        [1, 1, 1]
    );
    let topics = [
        ("plant/1/temperature", true),
        ("plant//temperature", true),
        ("plant/1/humidity", false),
        ("plant/1/temperature/raw", false),
        ("car", true),
        ("car/7/door/left", true),
        ("cart", false),
        ("a/b/c/deep", true),
        ("a/b/deep", false),
        ("car/end", true),
    ];
    for (topic, _) in topics {
        publisher.publish(&Message::new(topic, topic, 1));
    }
    for (topic, _) in topics.into_iter().filter(|(_, matches)| *matches) {
        assert_eq!(subscriber.receive(), Message::new(topic, topic, 1));
    }
    subscriber.unsubscribe(&["car/#"]);
    publisher.publish(&Message::new("car/after", "", 1));
    publisher.publish(&Message::new("plant/end/temperature", "", 1));
    assert_eq!(subscriber.receive().topic, "plant/end/temperature");
    publisher.disconnect();
    subscriber.disconnect();
}

/// Every byte value, nothing at all, and a hundred kilobytes, at each QoS, out of and into the library.
pub fn payloads_arrive_exactly_at_each_qos(library: Library, version: u8) {
    let broker = Broker::start();
    exchange_payloads(
        &connect(&broker, library, version),
        &connect(&broker, library, version),
    );
}

/// The lower of the publisher's and the subscriber's QoS holds.
pub fn the_lower_qos_wins(library: Library, version: u8) {
    let broker = Broker::start();
    let publisher = connect(&broker, library, version);
    for granted in 0..=2 {
        let subscriber = connect(&broker, library, version);
        assert_eq!(
            subscriber.subscribe(&["q/#"], granted),
            [u64::from(granted)]
        );
        for sent in 0..=2 {
            publisher.publish(&Message::new(format!("q/{sent}"), "x", sent));
            assert_eq!(
                subscriber.receive(),
                Message::new(format!("q/{sent}"), "x", sent.min(granted))
            );
        }
        subscriber.disconnect();
    }
}

/// Set, seen by those who come later with the flag, by those already there without it, and cleared by an empty payload.
pub fn retained_messages_are_kept_given_and_cleared(library: Library, version: u8) {
    let broker = Broker::start();
    let publisher = connect(&broker, library, version);
    let present = connect(&broker, library, version);
    // Kept messages may follow SUBACK at leisure: those of the second filter tell that the first has none.
    publisher.publish(&Message::new("mark", "x", 1).retained());
    present.subscribe(&["state/+", "mark"], 1);
    assert_eq!(present.receive(), Message::new("mark", "x", 1).retained());
    publisher.publish(&Message::new("state/a", "first", 1).retained());
    publisher.publish(&Message::new("state/a", "second", 1).retained());
    publisher.publish(&Message::new("state/b", "other", 1).retained());
    for (topic, payload) in [
        ("state/a", "first"),
        ("state/a", "second"),
        ("state/b", "other"),
    ] {
        assert_eq!(
            present.receive(),
            Message::new(topic, payload, 1),
            "live messages have no RETAIN flag"
        );
    }

    let late = connect(&broker, library, version);
    late.subscribe(&["state/#"], 1);
    let mut given = [late.receive(), late.receive()];
    given.sort_by(|a, b| a.topic.cmp(&b.topic));
    let kept = [("state/a", "second"), ("state/b", "other")];
    assert_eq!(
        given,
        kept.map(|(topic, payload)| Message::new(topic, payload, 1).retained())
    );

    publisher.publish(&Message::new("state/a", "", 1).retained());
    assert_eq!(present.receive(), Message::new("state/a", "", 1));
    let later = connect(&broker, library, version);
    later.subscribe(&["state/#"], 1);
    assert_eq!(
        later.receive(),
        Message::new("state/b", "other", 1).retained()
    );
    publisher.publish(&Message::new("state/end", "", 1));
    assert_eq!(later.receive().topic, "state/end");
}

/// The network fails: the will is published. A DISCONNECT: it is not.
pub fn wills_follow_a_lost_connection_only(library: Library, version: u8) {
    let broker = Broker::start();
    let observer = connect(&broker, library, version);
    observer.subscribe(&["will/#"], 2);
    let mut will = Message::new("will/lost", vec![0, 255, 13, 10], 1);
    if version == 5 {
        will = will.property("user", json!([["why", "lost"]]));
    }
    // paho.golang 0.23 leaves a will's content type out of its CONNECT.
    if version == 5 && library != Library::PahoGo5 {
        will = will.property("content_type", json!("application/octet-stream"));
    }
    let mortal = with(&broker, library, version)
        .with("will", json!(will.to_fields()))
        .open();
    mortal.cut();
    assert_eq!(observer.receive(), will);

    let mut unwanted = will.clone();
    unwanted.topic = "will/unwanted".to_owned();
    let polite = with(&broker, library, version)
        .with("will", json!(unwanted.to_fields()))
        .open();
    polite.disconnect();
    observer.publish(&Message::new("will/end", "", 1));
    assert_eq!(observer.receive().topic, "will/end");

    // A will may be retained like any message.
    will.topic = "will/kept".to_owned();
    let mortal = with(&broker, library, version)
        .with("will", json!(will.clone().retained().to_fields()))
        .open();
    mortal.cut();
    assert_eq!(observer.receive(), will);
    let late = connect(&broker, library, version);
    late.subscribe(&["will/kept"], 2);
    assert_eq!(late.receive(), will.retained());
}

/// Messages published at QoS 1 and 2 while a session had no connection wait for it, in order.
pub fn sessions_resume_with_what_was_queued(library: Library, version: u8) {
    let broker = Broker::start();
    let publisher = connect(&broker, library, version);
    let session = || with(&broker, library, version).persistent("sleeper");
    let sleeper = session().open();
    assert!(!sleeper.session_present, "the session is new");
    sleeper.subscribe(&["queue/#"], 2);
    sleeper.disconnect();
    let sent: Vec<_> = (0..10)
        .map(|n| Message::new(format!("queue/{n}"), vec![n; 100], 1 + n % 2))
        .collect();
    for message in &sent {
        publisher.publish(message);
    }
    let awake = session().open();
    // MQTT 3.1 had no Session Present flag yet.
    assert!(
        awake.session_present || version == 3,
        "the session was kept"
    );
    let received: Vec<_> = sent.iter().map(|_| awake.receive()).collect();
    // Some libraries show a QoS 2 message when it arrives, others at its PUBREL: order holds within a QoS.
    for qos in 1..=2 {
        let of = |list: &[Message]| {
            list.iter()
                .filter(|message| message.qos == qos)
                .cloned()
                .collect::<Vec<_>>()
        };
        assert_eq!(of(&received), of(&sent));
    }

    // The same after the network failed rather than the client said good-bye.
    awake.cut();
    awake.closed();
    let after = Message::new("queue/after", "the cut", 1);
    publisher.publish(&after);
    let again = session().open();
    assert!(again.session_present || version == 3);
    loop {
        // Before it saw the end the broker may have sent it into the cut: then it comes as a repetition. [MQTT-3.3.1-1]
        let message = Message {
            dup: false,
            ..again.receive()
        };
        if message == after {
            break;
        }
        // An acknowledgement may have been lost with the connection; then the broker must send again.
        assert!(sent.contains(&message), "{message:?} was never sent");
    }
    again.disconnect();

    let fresh = with(&broker, library, version)
        .with("client_id", json!("sleeper"))
        .open();
    assert!(!fresh.session_present, "a clean start forgets");
}

/// A second connection with the same client id ends the first; MQTT 5 says why.
pub fn a_second_connection_takes_over(library: Library, version: u8) {
    let broker = Broker::start();
    let first = with(&broker, library, version)
        .with("client_id", json!("twin"))
        .open();
    let second = with(&broker, library, version)
        .with("client_id", json!("twin"))
        .open();
    let reason = first.closed();
    // [MQTT-3.1.4-3]; mosquitto 2.0 just closes.
    if version == 5 && broker.kind() == BrokerProgram::Thalweg {
        assert_eq!(reason, Some(0x8E), "Session taken over");
    }
    second.subscribe(&["t"], 0);
    second.publish(&Message::new("t", "alive", 0));
    assert_eq!(second.receive().payload, b"alive");
}

/// Each message of a group goes to exactly one member, and none is left out.
pub fn shared_subscriptions_balance(library: Library, version: u8) {
    // By default a message goes to the member that will finish first, and for idle members that may always be the same
    // one: a JVM's first acknowledgements take longer than all of another's. In turns each has half.
    let broker = Broker::with().set("groups.policies", POLICIES).start();
    let publisher = connect(&broker, library, version);
    let members = [
        connect(&broker, library, version),
        connect(&broker, library, version),
    ];
    for topic in ["work", "turns"] {
        for member in &members {
            assert_eq!(
                member.subscribe(&[&format!("$share/group/{topic}/+")], 1),
                [1]
            );
        }
        for n in 0..40u8 {
            publisher.publish(&Message::new(format!("{topic}/item"), vec![n], 1));
        }
        let mut shares = [const { Vec::new() }; 2];
        let deadline = Instant::now() + PATIENCE;
        while shares.iter().map(Vec::len).sum::<usize>() < 40 && Instant::now() < deadline {
            for (share, member) in shares.iter_mut().zip(&members) {
                share.extend(
                    member
                        .receive_within(Duration::from_millis(20))
                        .map(|message| message.payload[0]),
                );
            }
        }
        let all: HashSet<u8> = shares.iter().flatten().copied().collect();
        assert_eq!(
            all.len(),
            40,
            "every message reached one member: {shares:?}"
        );
        assert_eq!(
            shares.iter().map(Vec::len).sum::<usize>(),
            40,
            "no message reached both: {shares:?}"
        );
        match (topic, broker.kind()) {
            ("turns", BrokerProgram::Thalweg) => assert!(
                shares.iter().all(|share| share.len() == 20),
                "in turns: {shares:?}"
            ),
            (_, BrokerProgram::Thalweg) => {}
            _ => assert!(
                shares.iter().all(|share| share.len() >= 5),
                "both members got a share: {shares:?}"
            ),
        }
    }
}

const POLICIES: &str = r#"[{ filter = "turns/#", strategy = "round-robin" }]"#;

/// MQTT 5: every property of PUBLISH that travels from end to end, user properties in order with repeated names.
pub fn properties_travel_unchanged(library: Library, version: u8) {
    let broker = Broker::start();
    let requester = connect(&broker, library, version);
    let responder = connect(&broker, library, version);
    // MQTT.js keeps user properties grouped by name, so for it equal names stand together.
    let user = match library {
        Library::Mqttjs => json!([["z", "1"], ["z", "2"], ["a", "3"], ["ümlaut", "€"]]),
        _ => json!([["z", "1"], ["a", "3"], ["z", "2"], ["ümlaut", "€"]]),
    };
    responder.subscribe(&["request/#"], 2);
    requester.subscribe(&["response/here"], 2);
    for qos in 0..=2 {
        let request = Message::new("request/now", "ünï", qos)
            .property("user", user.clone())
            .property("content_type", json!("text/plain; charset=utf-8"))
            .property("response_topic", json!("response/here"))
            .property("correlation", json!("00ff10"))
            .property("format", json!(1));
        requester.publish(&request);
        let received = responder.receive();
        assert_eq!(received, request);
        let target = received.properties["response_topic"]
            .as_str()
            .expect("it was just compared");
        let response = Message::new(target, "done", qos)
            .property("correlation", received.properties["correlation"].clone());
        responder.publish(&response);
        assert_eq!(requester.receive(), response);
    }
    // Retained messages keep theirs too.
    let kept = Message::new("kept", "x", 1)
        .retained()
        .property("user", user)
        .property("content_type", json!("t"));
    requester.publish(&kept);
    responder.subscribe(&["kept"], 1);
    assert_eq!(responder.receive(), kept);
}

/// MQTT 5: a receiver sees the remaining expiry, and an expired message is not delivered.
pub fn message_expiry_counts_down(library: Library, version: u8) {
    let broker = Broker::start();
    let publisher = connect(&broker, library, version);
    let session = || with(&broker, library, version).persistent("late");
    let late = session().open();
    late.subscribe(&["e/#"], 1);
    late.disconnect();
    publisher.publish(&Message::new("e/long", "", 1).property("expiry", json!(3600)));
    publisher.publish(&Message::new("e/short", "", 1).property("expiry", json!(1)));
    publisher.publish(&Message::new("e/end", "", 1));
    // Not synchronisation: this check is about time that passes, and a session does not tell that it has dropped a message.
    std::thread::sleep(Duration::from_millis(2200));
    let late = session().open();
    let long = late.receive();
    assert_eq!(long.topic, "e/long");
    let left = long.properties["expiry"]
        .as_u64()
        .expect("what has an expiry keeps one");
    assert!(
        (1..3600).contains(&left),
        "two seconds of an hour or more have passed, {left} are left"
    );
    assert_eq!(late.receive().topic, "e/end", "the short one has expired");
    late.disconnect();
}

/// MQTT 5: a message carries the identifier of the subscription that matched; of each, when several did.
pub fn subscription_identifiers_come_back(library: Library, version: u8) {
    let broker = Broker::start();
    let peer = connect(&broker, library, version);
    peer.subscribe_with(json!([{"filter": "id/+", "qos": 1}]), Some(7));
    // Four bytes long as a variable byte integer.
    peer.subscribe_with(json!([{"filter": "big/#", "qos": 1}]), Some(268_435_455));
    peer.publish(&Message::new("id/a", "", 1));
    assert_eq!(peer.receive().properties["identifiers"], json!([7]));
    peer.publish(&Message::new("big/a/b", "", 1));
    assert_eq!(
        peer.receive().properties["identifiers"],
        json!([268_435_455])
    );
    if library == Library::PahoGo5 {
        return; // This library keeps only the last identifier of a message.
    }
    peer.subscribe_with(json!([{"filter": "id/#", "qos": 1}]), Some(9));
    peer.publish(&Message::new("id/b", "", 1));
    // [MQTT-3.3.4-3..5]: one copy with both identifiers, or one copy for each subscription.
    let mut identifiers = HashSet::new();
    while identifiers.len() < 2 {
        let message = peer.receive();
        identifiers.extend(
            message.properties["identifiers"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|i| i.as_u64()),
        );
    }
    assert_eq!(identifiers, HashSet::from([7, 9]));
}

/// MQTT 5: a topic is named once and then by its alias; receivers see the topic.
pub fn topic_aliases_stand_for_topics(library: Library, version: u8) {
    let broker = Broker::start();
    let subscriber = connect(&broker, library, version);
    let publisher = connect(&broker, library, version);
    subscriber.subscribe(&["alias/#"], 1);
    for (named, alias, means) in [
        ("alias/one", 1, "alias/one"),
        ("alias/two", 2, "alias/two"),
        ("", 1, "alias/one"),
        ("", 2, "alias/two"),
        ("alias/three", 1, "alias/three"),
        ("", 1, "alias/three"),
    ] {
        publisher.publish(&Message::new(named, "x", 1).property("alias", json!(alias)));
        assert_eq!(subscriber.receive(), Message::new(means, "x", 1));
    }
}

/// MQTT 5: a receiver that allows aliases understands what the broker sends, over more topics than it has aliases.
pub fn aliases_from_the_broker_are_understood(library: Library, version: u8) {
    let broker = Broker::start();
    let subscriber = with(&broker, library, version)
        .with("topic_alias_maximum", json!(3))
        .open();
    let publisher = connect(&broker, library, version);
    subscriber.subscribe(&["many/#"], 1);
    for n in (0..5).cycle().take(20) {
        let message = Message::new(format!("many/topic/{n}"), format!("{n}"), n % 2);
        publisher.publish(&message);
        assert_eq!(subscriber.receive(), message);
    }
}

/// MQTT 5: No Local, Retain As Published and Retain Handling.
pub fn subscription_options_hold(library: Library, version: u8) {
    let broker = Broker::start();
    let peer = connect(&broker, library, version);
    let other = connect(&broker, library, version);
    peer.subscribe_with(
        json!([{"filter": "echo", "qos": 1, "no_local": true}]),
        None,
    );
    peer.publish(&Message::new("echo", "mine", 1));
    other.publish(&Message::new("echo", "theirs", 1));
    assert_eq!(peer.receive().payload, b"theirs");

    other.publish(&Message::new("kept", "old", 1).retained());
    let filter = |handling: u8| json!([{"filter": "kept", "qos": 1, "retain_as_published": true, "retain_handling": handling}]);
    let kept = Message::new("kept", "old", 1).retained();
    peer.subscribe_with(filter(2), None);
    peer.subscribe_with(filter(1), None);
    peer.publish(&Message::new("echo-end", "", 0));
    other.publish(&Message::new("kept", "new", 1).retained());
    let mut live = kept.clone();
    live.payload = b"new".to_vec();
    assert_eq!(
        peer.receive(),
        live,
        "handling 2 and 1 gave nothing old; as published keeps the flag"
    );
    peer.subscribe_with(filter(0), None);
    assert_eq!(peer.receive(), live);
    peer.unsubscribe(&["kept"]);
    peer.subscribe_with(filter(1), None);
    assert_eq!(
        peer.receive(),
        live,
        "handling 1 gives to a subscription that is new"
    );
}

/// MQTT 5: the reason codes that are not 0.
pub fn reason_codes_tell(library: Library, version: u8) {
    let broker = Broker::start();
    let peer = connect(&broker, library, version);
    for qos in 1..=2 {
        let reason = peer.publish(&Message::new("nobody/listens", "", qos));
        // "No matching subscribers" is allowed, not required (5.0 §3.4.2.1).
        assert!(
            [0, 0x10].contains(&reason),
            "PUBACK or PUBREC says {reason:#x}"
        );
    }
    peer.subscribe(&["some"], 1);
    assert_eq!(
        peer.unsubscribe(&["some", "never"]),
        [0, 0x11],
        "No subscription existed"
    );
}

/// The same payloads over TLS, WebSocket or both.
pub fn other_transports_carry_the_same(library: Library, version: u8, transport: &'static str) {
    let broker = Broker::with().encrypted().start();
    let open = || {
        let connect = with(&broker, library, version);
        let authority = broker.authority();
        match transport {
            "tls" => connect.over("tls", broker.tls(), Some(&authority)),
            "ws" => connect.over("ws", broker.websocket(), None),
            "wss" => connect.over("wss", broker.secure_websocket(), Some(&authority)),
            other => panic!("no listener for {other}"),
        }
        .open()
    };
    exchange_payloads(&open(), &open());
    exchange_payloads(&open(), &connect(&broker, library, version));
}

fn exchange_payloads(publisher: &Peer, subscriber: &Peer) {
    let every_byte: Vec<u8> = (0..=255).collect();
    let long: Vec<u8> = every_byte.iter().copied().cycle().take(100_000).collect();
    assert_eq!(subscriber.subscribe(&["payload/#"], 2), [2]);
    for qos in 0..=2 {
        for payload in [every_byte.clone(), Vec::new(), long.clone()] {
            let message = Message::new(format!("payload/{qos}"), payload, qos);
            publisher.publish(&message);
            assert!(
                subscriber.receive() == message,
                "QoS {qos}, {} bytes arrive as they left",
                message.payload.len()
            );
        }
    }
    subscriber.unsubscribe(&["payload/#"]);
}

fn connect(broker: &Broker, library: Library, version: u8) -> Peer {
    with(broker, library, version).open()
}

fn with(broker: &Broker, library: Library, version: u8) -> Connect {
    Connect::new(library, version, broker.mqtt())
}
