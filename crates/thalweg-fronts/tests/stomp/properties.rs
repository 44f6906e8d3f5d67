//! Message properties in headers of frames.

use crate::world::World;
use thalweg_fronts::stomp::{Dialect, StompSettings};
use thalweg_kernel::Limits;
use thalweg_mqtt::{PublishOut, QoS, TextPairs};
use thalweg_stomp::{SendOut, SubscribeOut};

struct Pairs(&'static [(&'static str, &'static str)]);

impl TextPairs for Pairs {
    fn for_each(&self, f: &mut dyn FnMut(&str, &str)) {
        for (name, value) in self.0 {
            f(name, value);
        }
    }
}

#[test]
fn headers_come_back_as_they_were_sent() {
    let mut world = World::new();
    let who = world.connect();
    world.listen(who, "1", "/queue/q");
    let sent = [
        ("priority", "7"),
        ("correlation-id", "c:1"),
        ("amqp-message-id", "m1"),
        ("type", "order"),
        ("app-id", "till"),
        ("timestamp", "1700000000"),
        ("content-encoding", "gzip"),
        ("colour", "red\nor: blue\\"),
        ("number", "42"),
    ];
    let send = SendOut {
        destination: "/queue/q",
        content_type: Some("text/x"),
        body: b"\0\xFF",
        ..SendOut::default()
    };
    world.send_with(who, &send, |w| {
        for (name, value) in sent {
            assert!(w.put(name, value));
        }
    });
    let got = world.message(who);
    assert_eq!(
        (&*got.body, got.header("content-type")),
        (&b"\0\xFF"[..], Some("text/x"))
    );
    for (name, value) in sent {
        assert_eq!(got.header(name), Some(value), "{name}");
    }
}

#[test]
fn of_headers_with_the_same_name_the_first_counts() {
    let mut world = World::new();
    let who = world.connect();
    world.listen(who, "1", "/queue/q");
    world.writes(
        who,
        b"SEND\ndestination:/queue/q\npriority:3\npriority:4\nx:1\nx:2\ntype:a\ntype:b\n\n\0",
    );
    let got = world.message(who);
    for (name, value) in [("priority", "3"), ("x", "1"), ("type", "a")] {
        assert_eq!(got.header(name), Some(value));
        assert_eq!(
            got.headers
                .iter()
                .filter(|(known, _)| known == name)
                .count(),
            1
        );
    }
}

#[test]
fn names_with_a_meaning_are_nobodys_property() {
    let mut world = World::new();
    let (who, device) = (world.connect(), world.mqtt("device"));
    world.listen(who, "1", "/topic/a");
    let pairs = Pairs(&[
        ("ack", "forged"),
        ("subscription", "2"),
        ("receipt", "r"),
        ("colour", "red"),
    ]);
    world.mqtt_publish(
        device,
        &PublishOut {
            qos: QoS::AtLeastOnce,
            topic: "a",
            payload: b"x",
            content_type: Some("text/x"),
            user: Some(&pairs),
            expiry_secs: Some(60),
            ..PublishOut::default()
        },
    );
    let got = world.message(who);
    assert_eq!(
        (got.ack.as_deref(), got.subscription.as_deref()),
        (None, Some("1"))
    );
    let seen = ["content-type", "colour", "receipt", "expiration"].map(|name| got.header(name));
    assert_eq!(seen, [Some("text/x"), Some("red"), None, Some("60000")]);
    world.mqtt_subscribe(device, "b");
    world.send_headers(
        who,
        "/topic/b",
        "y",
        &[
            ("colour", "blue"),
            ("receipt", "r"),
            ("ack", "x"),
            ("id", "y"),
        ],
    );
    let properties = world.mqtt_last(device).user;
    assert_eq!(properties, [("colour".to_owned(), "blue".to_owned())]);
}

#[test]
fn a_last_value_is_set_and_cleared_by_a_header() {
    let mut world = World::new();
    let (who, early) = (world.connect(), world.mqtt("early"));
    world.send_headers(who, "/topic/state", "on", &[("retain", "set")]);
    world.mqtt_subscribe(early, "state");
    assert_eq!(
        world.mqtt_messages(early),
        [("state".to_owned(), b"on".to_vec())]
    );
    world.send_headers(who, "/topic/state", "", &[("retain", "clear")]);
    let late = world.mqtt("late");
    world.mqtt_subscribe(late, "state");
    assert_eq!(world.mqtt_messages(late), []);
    world.writes(
        who,
        b"SEND\ndestination:/topic/state\nretain:maybe\nreceipt:r\n\n\0",
    );
    assert_eq!(world.hears_error(who, Some("r")).0, "precondition_failed");
}

#[test]
fn last_values_come_first_if_the_subscriber_wants_them() {
    let mut world = World::with(3, Limits::default(), StompSettings::default());
    let (who, device) = (world.connect(), world.mqtt("device"));
    for (topic, payload) in [
        ("plant/1/state", b"on"),
        ("plant/2/state", b"no"),
        ("other/1/state", b"xx"),
    ] {
        let retained = PublishOut {
            qos: QoS::AtLeastOnce,
            retain: true,
            topic,
            payload,
            ..PublishOut::default()
        };
        world.mqtt_publish(device, &retained);
    }
    let wants = SubscribeOut {
        id: Some("1"),
        destination: "/topic/plant.*.state",
        headers: &[("x-last-value", "true")],
        ..SubscribeOut::default()
    };
    world.subscribe(who, &wants);
    let mut got: Vec<_> = world
        .messages(who)
        .into_iter()
        .map(|got| (got.destination, got.body))
        .collect();
    got.sort();
    let expected = [
        ("/topic/plant.1.state", b"on"),
        ("/topic/plant.2.state", b"no"),
    ];
    assert_eq!(
        got,
        expected.map(|(destination, body)| (destination.to_owned(), body.to_vec()))
    );
    world.listen(who, "2", "/topic/plant.#");
    assert_eq!(world.texts(who), [""; 0], "nobody asked");
    let durable = [("x-last-value", "true"), ("durable", "true")];
    world.subscribe(
        who,
        &SubscribeOut {
            id: Some("3"),
            headers: &durable,
            ..wants
        },
    );
    assert_eq!(world.texts(who).len(), 2);
    world.unsubscribe(who, "3", &[]);
    world.subscribe(
        who,
        &SubscribeOut {
            id: Some("3"),
            headers: &durable,
            ..wants
        },
    );
    assert_eq!(world.texts(who), [""; 0], "whoever comes back has had them");
}

#[test]
fn activemq_has_its_own_names_for_times() {
    let settings = StompSettings {
        dialect: Dialect::ActiveMq,
        ..StompSettings::default()
    };
    let mut world = World::with(1, Limits::default(), settings);
    let who = world.connect();
    world.listen(who, "1", "/queue/q");
    let at = (world.bed.now.nanos() / 1_000_000 + 5000).to_string();
    world.send_headers(
        who,
        "/queue/q",
        "x",
        &[("expires", &at), ("timestamp", "1700000000123")],
    );
    let got = world.message(who);
    let seen = ["expires", "expiration", "timestamp"].map(|name| got.header(name));
    assert_eq!(seen, [Some(&*at), Some("5000"), Some("1700000000000")]);
}

#[test]
fn nobody_speaks_in_anothers_name() {
    let mut world = World::new();
    let who = world.connect();
    world.writes(
        who,
        b"SEND\ndestination:/queue/q\nuser-id:anna\nreceipt:r\n\n\0",
    );
    let (message, body) = world.hears_error(who, Some("r"));
    assert_eq!(message, "precondition_failed");
    assert!(body.contains("user_id property set to 'anna'"), "{body}");
}

#[test]
fn what_receivers_see_of_a_stamp_is_of_no_use_to_publish_under() {
    let mut world = World::new();
    let (victim, reader, device) = (world.connect(), world.connect(), world.mqtt("device"));
    world.listen(reader, "1", "/topic/a");
    world.mqtt_subscribe(device, "a");
    let says = |world: &mut World, text: &str, stamp: &str| {
        world.send_headers(victim, "/topic/a", text, &[("x-stamp", stamp)]);
        let of_device = world.mqtt_last(device).user;
        (
            world
                .messages(reader)
                .iter()
                .map(|got| got.header("x-stamp").map(str::to_owned))
                .next(),
            of_device,
        )
    };
    let (Some(Some(seen)), of_device) = says(&mut world, "1", "abc-1") else {
        panic!("it is shown")
    };
    assert_eq!(
        of_device,
        [("x-stamp".to_owned(), seen.clone())],
        "MQTT sees what STOMP sees"
    );
    let (number, sequence) = seen.split_once('-').expect("it is a stamp");
    assert_eq!((number == "abc", sequence), (false, "1"));
    // The reader has the same user: it uses up what it takes for the publisher's sequences.
    world.send_headers(
        reader,
        "/topic/a",
        "forged",
        &[("x-stamp", &format!("{number}-ffffffff"))],
    );
    let forged = world.message(reader);
    assert!(
        !forged
            .header("x-stamp")
            .expect("it is shown")
            .starts_with(number),
        "nor can it speak as the publisher"
    );
    let again = format!("{number}-2");
    assert_eq!(
        says(&mut world, "2", "abc-2").0,
        Some(Some(again)),
        "the publisher's next message arrives"
    );
    assert_eq!(
        says(&mut world, "2", "abc-2").0,
        None,
        "and is still taken once"
    );
}

#[test]
fn what_is_no_stamp_is_not_passed_on_as_one() {
    let mut world = World::new();
    let (who, device) = (world.connect(), world.mqtt("device"));
    world.listen(who, "1", "/topic/a");
    let pairs = Pairs(&[
        ("x-stamp", "damaged"),
        ("colour", "red"),
        ("x-stamp", "abc-5"),
    ]);
    let publish = PublishOut {
        topic: "a",
        payload: b"x",
        user: Some(&pairs),
        ..PublishOut::default()
    };
    world.mqtt_publish(device, &publish);
    let got = world.message(who);
    assert_eq!(
        (got.header("x-stamp"), got.header("colour")),
        (None, Some("red"))
    );
}
