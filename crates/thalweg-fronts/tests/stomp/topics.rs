//! `/topic/` and `/exchange/`: every subscriber gets each message.

use crate::world::{Hello, Who, World};
use thalweg_fronts::stomp::{Dialect, StompSettings};
use thalweg_kernel::{GroupStrategy, Limits};
use thalweg_mqtt::{PublishOut, QoS};
use thalweg_stomp::{AckMode, ConnectOut, SubscribeOut};

fn speaking(dialect: Dialect) -> World {
    World::with(
        1,
        Limits::default(),
        StompSettings {
            dialect,
            ..StompSettings::default()
        },
    )
}

#[test]
fn each_subscription_that_matches_gets_its_copy_under_its_own_name() {
    let mut world = World::new();
    let (here, there) = (world.connect(), world.connect());
    world.listen(here, "exact", "/topic/a.b");
    world.listen(here, "one", "/topic/a.*");
    world.listen(here, "many", "/topic/#");
    world.listen(there, "other", "/topic/a.c");
    world.send(there, "/topic/a.b", "x");
    let mut got: Vec<_> = world
        .messages(here)
        .into_iter()
        .map(|got| (got.subscription, got.destination))
        .collect();
    got.sort();
    let expected =
        ["exact", "many", "one"].map(|id| (Some(id.to_owned()), "/topic/a.b".to_owned()));
    assert_eq!(got, expected, "a wildcard subscriber sees the topic itself");
    assert_eq!(world.texts(there), [""; 0]);
}

#[test]
fn wildcards_are_written_in_the_dialect_and_topics_come_back_in_it() {
    for (dialect, filter, topic, other) in [
        (
            Dialect::RabbitMq,
            "/topic/a.*.#",
            "/topic/a.b.c%2Ed",
            "/topic/b",
        ),
        (
            Dialect::ActiveMq,
            "/topic/a.*.>",
            "/topic/a.b.c",
            "/topic/a",
        ),
        (Dialect::Slash, "/topic/a/+/#", "/topic/a/b.c/d", "/topic/a"),
    ] {
        let mut world = speaking(dialect);
        let who = world.connect();
        world.listen(who, "1", filter);
        world.send(who, other, "no");
        world.send(who, topic, "yes");
        let got = world.message(who);
        assert_eq!((got.text(), &*got.destination), ("yes", topic));
    }
}

#[test]
fn topics_are_one_with_those_of_mqtt() {
    let mut world = World::with(3, Limits::default(), StompSettings::default());
    let (who, sensor) = (world.connect(), world.mqtt("sensor"));
    world.listen(who, "1", "/topic/plant.*.temperature");
    world.mqtt_subscribe(sensor, "plant/#");
    for topic in ["plant/1.5/temperature", "plant//temperature"] {
        world.mqtt_publish(
            sensor,
            &PublishOut {
                qos: QoS::AtLeastOnce,
                topic,
                payload: b"21",
                ..PublishOut::default()
            },
        );
    }
    let destinations: Vec<_> = world
        .messages(who)
        .into_iter()
        .map(|got| got.destination)
        .collect();
    assert_eq!(
        destinations,
        [
            "/topic/plant.1%2E5.temperature",
            "/topic/plant..temperature"
        ]
    );
    world.mqtt_messages(sensor);
    world.send(who, "/topic/plant.2.state", "on");
    assert_eq!(
        world.mqtt_messages(sensor),
        [("plant/2/state".to_owned(), b"on".to_vec())]
    );
}

#[test]
fn a_subscription_ends_and_nothing_more_comes() {
    let mut world = World::new();
    let who = world.connect();
    world.listen(who, "1", "/topic/a");
    world.unsubscribe(who, "1", &[]);
    world.send(who, "/topic/a", "x");
    assert_eq!(world.texts(who), [""; 0]);
    world.listen(who, "1", "/topic/a");
    world.send(who, "/topic/a", "y");
    assert_eq!(world.texts(who), ["y"], "the id is free again");
}

#[test]
fn a_durable_subscription_collects_while_nobody_is_there_and_is_shared_by_its_id() {
    let mut world = World::new();
    let durable = SubscribeOut {
        id: Some("orders"),
        destination: "/topic/orders.#",
        headers: &[("durable", "true"), ("auto-delete", "false")],
        ..SubscribeOut::default()
    };
    let (publisher, one) = (world.connect(), world.connect());
    world.subscribe(one, &durable);
    world.lose(one);
    world.send_headers(
        publisher,
        "/topic/orders.1",
        "kept",
        &[("persistent", "true")],
    );
    let (two, three) = (world.connect(), world.connect());
    world.subscribe(two, &durable);
    let got = world.message(two);
    assert_eq!((got.text(), &*got.destination), ("kept", "/topic/orders.1"));
    world.subscribe(three, &durable);
    for number in 0..4 {
        world.send(publisher, "/topic/orders.1", &number.to_string());
    }
    let (got, rest) = (world.texts(two), world.texts(three));
    assert_eq!((got.len(), rest.len()), (2, 2), "{got:?} and {rest:?}");
    world.lose(three);
    world.unsubscribe(two, "orders", &[("durable", "true")]);
    world.send(publisher, "/topic/orders.1", "nobody wants it");
    world.subscribe(two, &durable);
    assert_eq!(
        world.texts(two),
        [""; 0],
        "UNSUBSCRIBE has ended it for good"
    );
}

#[test]
fn what_waits_for_a_durable_subscription_leaves_by_priority_unless_its_queue_has_a_name() {
    let named: &[_] = &[("durable", "true"), ("x-queue-name", "orders")];
    for (headers, order) in [
        (&[("durable", "true")][..], ["alarm", "0", "1"]),
        (named, ["0", "1", "alarm"]),
    ] {
        let mut world = World::new();
        let durable = SubscribeOut {
            id: Some("orders"),
            destination: "/topic/orders",
            headers,
            ..SubscribeOut::default()
        };
        let (publisher, one) = (world.connect(), world.connect());
        world.subscribe(one, &durable);
        world.lose(one);
        for (text, priority) in [("0", "4"), ("1", "4"), ("alarm", "9")] {
            let headers = [("persistent", "true"), ("priority", priority)];
            world.send_headers(publisher, "/topic/orders", text, &headers);
        }
        let two = world.connect();
        world.subscribe(two, &durable);
        assert_eq!(world.texts(two), order);
    }
}

#[test]
fn activemq_names_durable_subscriptions_by_client_and_name() {
    let mut world = speaking(Dialect::ActiveMq);
    let hello = Hello {
        connect: ConnectOut {
            headers: &[("client-id", "till-7")],
            ..ConnectOut::default()
        },
        ..Hello::default()
    };
    let durable = SubscribeOut {
        id: Some("1"),
        destination: "/topic/prices",
        headers: &[("activemq.subscriptionName", "prices")],
        ..SubscribeOut::default()
    };
    let publisher = world.connect();
    let till = world.connect_with(&hello);
    world.subscribe(till, &durable);
    world.unsubscribe(till, "1", &[]);
    world.lose(till);
    world.send(publisher, "/topic/prices", "up");
    let till = world.connect_with(&hello);
    world.subscribe(
        till,
        &SubscribeOut {
            id: Some("another"),
            ..durable
        },
    );
    assert_eq!(world.texts(till), ["up"]);
    world.unsubscribe(till, "another", &[("activemq.subscriptionName", "prices")]);
    world.send(publisher, "/topic/prices", "down");
    world.subscribe(till, &durable);
    assert_eq!(world.texts(till), [""; 0]);
}

#[test]
fn exchanges_are_reached_by_name_and_key() {
    let mut world = World::new();
    let who = world.connect();
    world.listen(who, "direct", "/exchange/amq.direct/red");
    world.listen(who, "fanout", "/exchange/amq.fanout");
    world.listen(who, "topic", "/exchange/amq.topic/a.*");
    world.send(who, "/exchange/amq.direct/red", "1");
    world.send(who, "/exchange/amq.direct/blue", "no");
    world.send(who, "/exchange/amq.fanout/whatever", "2");
    world.send(who, "/topic/a.b", "3");
    let got: Vec<_> = world
        .messages(who)
        .into_iter()
        .map(|got| (got.body, got.destination))
        .collect();
    let expected = [
        ("1", "/exchange/amq.direct/red"),
        ("2", "/exchange/amq.fanout/whatever"),
        ("3", "/exchange/amq.topic/a.b"),
    ];
    assert_eq!(
        got,
        expected.map(|(body, destination)| (body.into(), destination.to_owned()))
    );
    world.send_headers(who, "/exchange/nothing/red", "x", &[("receipt", "r")]);
    let (message, body) = world.hears_error(who, Some("r"));
    assert_eq!(message, "not_found");
    assert!(body.contains("no such exchange"), "{body}");
}

#[test]
fn a_member_of_a_group_shares_with_mqtt() {
    // The device settles in no time at all: by that it would have everything.
    let limits = Limits {
        group_strategy: GroupStrategy::RoundRobin,
        ..Limits::default()
    };
    let mut world = World::with(1, limits, StompSettings::default());
    let (who, device) = (world.connect(), world.mqtt("device"));
    world.mqtt_subscribe(device, "$share/workers/jobs/+");
    let group = "/amq/queue/$g/workers/jobs/+";
    let ack = AckMode::ClientIndividual;
    world.subscribe(
        who,
        &SubscribeOut {
            id: Some("1"),
            destination: group,
            ack,
            ..SubscribeOut::default()
        },
    );
    for _ in 0..6 {
        world.send_headers(who, "/topic/jobs.1", "x", &[("persistent", "true")]);
    }
    let (ours, theirs) = (world.messages(who), world.mqtt_messages(device));
    assert_eq!(
        (
            ours.len() + theirs.len(),
            ours.is_empty(),
            theirs.is_empty()
        ),
        (6, false, false)
    );
    assert_eq!(ours[0].destination, "/topic/jobs.1");
    for got in &ours {
        world.ack(who, got);
    }
}

/// RabbitMQ's "Invalid destination": a client that writes slashes uses another dialect, and would never get messages of
/// the topic `a/b`.
#[test]
fn a_slash_in_a_topic_is_an_error_where_dots_part_levels() {
    let mut world = World::with(2, Limits::default(), StompSettings::default());
    let durable = [("durable", "true")];
    for (destination, headers) in [("/topic/a/b", &[][..]), ("/topic/a/#", &durable)] {
        let who = world.connect();
        let subscribe = SubscribeOut {
            id: Some("1"),
            destination,
            headers,
            ..SubscribeOut::default()
        };
        assert_eq!(world.refused(who, &subscribe).0, "Invalid destination");
    }
    let who = world.connect();
    world.send(who, "/topic/a/b", "m");
    assert_eq!(world.hears_error(who, None).0, "Invalid destination");
    // A level of another protocol that holds a slash comes and goes by its code.
    let who = world.connect();
    world.listen(who, "1", "/topic/a.#");
    world.send(who, "/topic/a.b%2Fc", "m");
    assert_eq!(world.message(who).destination, "/topic/a.b%2Fc");
}

#[test]
fn selectors_divide_a_queue_among_its_subscriptions() {
    let mut world = World::new();
    let (who, other) = (world.connect(), world.connect());
    for (who, id, selector) in [(who, "red", "colour = 'red'"), (other, "big", "size > 3")] {
        let headers = [("selector", selector)];
        let subscribe = SubscribeOut {
            id: Some(id),
            destination: "/queue/work",
            headers: &headers,
            ..SubscribeOut::default()
        };
        world.subscribe(who, &subscribe);
    }
    for (text, headers) in [
        ("neither", [("colour", "blue"), ("size", "2")]),
        ("red", [("colour", "red"), ("size", "3")]),
        ("big", [("colour", "blue"), ("size", "5")]),
    ] {
        world.send_headers(who, "/queue/work", text, &headers);
    }
    assert_eq!(world.texts(who), ["red"]);
    assert_eq!(world.texts(other), ["big"]);
    let third = world.connect();
    world.listen(third, "all", "/queue/work");
    assert_eq!(world.texts(third), ["neither"]);
}

/// Subscribes with a selector and further headers.
fn select(world: &mut World, who: Who, id: &str, selector: &str, more: &[(&str, &str)]) {
    let mut headers = vec![("selector", selector)];
    headers.extend(more);
    let subscribe = SubscribeOut {
        id: Some(id),
        destination: "/topic/a",
        headers: &headers,
        ..SubscribeOut::default()
    };
    world.subscribe(who, &subscribe);
}

#[test]
fn a_selector_decides_what_a_subscription_gets() {
    let mut world = World::with(2, Limits::default(), StompSettings::default());
    let (who, sensor) = (world.connect(), world.mqtt("sensor"));
    select(&mut world, who, "red", "colour = 'red' AND size > 3", &[]);
    select(&mut world, who, "hot", "payload.temp > 20", &[]);
    world.send_headers(
        who,
        "/topic/a",
        "blue",
        &[("colour", "blue"), ("size", "5")],
    );
    world.send_headers(
        who,
        "/topic/a",
        "small",
        &[("colour", "red"), ("size", "3")],
    );
    world.send_headers(who, "/topic/a", "red", &[("colour", "red"), ("size", "5")]);
    for payload in [r#"{"temp": 19}"#, r#"{"temp": 21}"#, "hot"] {
        world.send(who, "/topic/a", payload);
    }
    let publish = PublishOut {
        topic: "a",
        payload: br#"{"temp": 22}"#,
        ..PublishOut::default()
    };
    world.mqtt_publish(sensor, &publish);
    assert_eq!(
        world.texts(who),
        ["red", r#"{"temp": 21}"#, r#"{"temp": 22}"#]
    );
}

#[test]
fn a_selector_decides_which_last_values_come() {
    let mut world = World::with(2, Limits::default(), StompSettings::default());
    let (who, sensor) = (world.connect(), world.mqtt("sensor"));
    let publish = PublishOut {
        topic: "a",
        payload: br#"{"temp": 21}"#,
        retain: true,
        ..PublishOut::default()
    };
    world.mqtt_publish(sensor, &publish);
    select(
        &mut world,
        who,
        "cold",
        "payload.temp < 20",
        &[("x-last-value", "true")],
    );
    assert_eq!(world.texts(who), [""; 0]);
    select(
        &mut world,
        who,
        "hot",
        "payload.temp > 20",
        &[("x-last-value", "true")],
    );
    assert_eq!(world.texts(who), [r#"{"temp": 21}"#]);
}

#[test]
fn a_durable_subscription_that_comes_back_has_its_new_selector() {
    let mut world = World::new();
    let publisher = world.connect();
    let durable = [("durable", "true"), ("auto-delete", "false")];
    for (selector, expected) in [("n < 2", &["1"][..]), ("n > 1", &["2", "3"])] {
        let who = world.connect();
        select(&mut world, who, "1", selector, &durable);
        for n in ["1", "2", "3"] {
            world.send_headers(publisher, "/topic/a", n, &[("n", n)]);
        }
        assert_eq!(world.texts(who), expected);
        world.lose(who);
    }
}
