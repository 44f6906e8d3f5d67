//! Subscriptions: when they are in force, and their options.

use crate::world::Packet;
use crate::world::{Hello, World, staying};
use thalweg_fronts::LinksLimits;
use thalweg_kernel::{Limits, Policy};
use thalweg_model::{Filter, Reliability};
use thalweg_mqtt::{PublishOut, QoS, ReasonCode, SubscribeOptions};

const AT_LEAST_ONCE: SubscribeOptions = SubscribeOptions {
    qos: QoS::AtLeastOnce,
    no_local: false,
    retain_as_published: false,
    retain_handling: thalweg_mqtt::RetainHandling::Send,
};

#[test]
fn suback_comes_only_when_publishers_on_every_shard_reach_the_subscriber() {
    let mut world = World::new(3);
    let subscriber = world.name_on(0, "s");
    let subscriber = world.connect(&subscriber);
    let publisher = world.name_on(1, "p");
    let publisher = world.connect(&publisher);
    world.ask(subscriber, "t", AT_LEAST_ONCE);
    let pipe = subscriber;
    world.bed.feed(pipe, usize::MAX);
    world.bed.carry(0, 2);
    world.bed.carry(2, 0);
    world.bed.flush(pipe, usize::MAX);
    world.bed.read(pipe);
    assert!(
        world.bed.client(pipe).said.is_empty(),
        "shard 1 does not know yet"
    );
    world.bed.carry(0, 1);
    world.bed.carry(1, 0);
    world.bed.flush(pipe, usize::MAX);
    world.bed.read(pipe);
    assert!(matches!(
        world.bed.client(pipe).said[0],
        Packet::SubAck { .. }
    ));
    world.publish(publisher, "t", "m", QoS::AtLeastOnce);
    assert_eq!(world.texts(subscriber), ["m"]);
}

#[test]
fn the_second_subscriber_of_a_filter_waits_for_the_other_shards_too() {
    let mut world = World::new(2);
    let names = (world.name_on(0, "first"), world.name_on(0, "second"));
    let (first, second) = (world.connect(&names.0), world.connect(&names.1));
    for who in [first, second] {
        world.ask(who, "t", AT_LEAST_ONCE);
        let pipe = who;
        world.bed.feed(pipe, usize::MAX);
        world.bed.flush(pipe, usize::MAX);
        world.bed.read(pipe);
        assert!(
            world.bed.client(pipe).said.is_empty(),
            "shard 1 knows nothing yet"
        );
    }
    world.rest();
    for who in [first, second] {
        assert!(matches!(world.heard(who), Some(Packet::SubAck { .. })));
    }
}

#[test]
fn no_local_leaves_out_what_the_subscriber_publishes_itself() {
    let mut world = World::new(1);
    let (own, other) = (world.connect("own"), world.connect("other"));
    world.subscribe_with(
        own,
        "t",
        SubscribeOptions {
            no_local: true,
            ..AT_LEAST_ONCE
        },
    );
    world.publish(own, "t", "own", QoS::AtLeastOnce);
    world.publish(other, "t", "other", QoS::AtLeastOnce);
    assert_eq!(world.texts(own), ["other"]);
    // Another subscription that asks for them gets them. [MQTT-3.8.3-3]
    world.subscribe(own, "#", QoS::AtMostOnce);
    world.publish(own, "t", "own", QoS::AtLeastOnce);
    let got = world.messages(own);
    assert_eq!((got.len(), got[0].qos), (1, QoS::AtMostOnce));
}

#[test]
fn no_local_leaves_out_last_values_of_the_subscriber_itself() {
    let mut world = World::new(2);
    let names = (world.name_on(0, "own"), world.name_on(1, "other"));
    let (own, other) = (world.connect(&names.0), world.connect(&names.1));
    world.retain(own, "t/a", "own");
    world.retain(own, "t/b", "own");
    world.retain(other, "t/b", "other");
    world.retain(other, "t/c", "other");
    let no_local = SubscribeOptions {
        no_local: true,
        ..AT_LEAST_ONCE
    };
    // Homes of the addresses are on both shards. [MQTT-3.8.3-3]
    world.subscribe_with(own, "t/+", no_local);
    assert_eq!(world.texts(own), ["other", "other"]);
    world.subscribe(own, "t/a", QoS::AtLeastOnce);
    assert_eq!(world.texts(own), ["own"]);
}

#[test]
fn retain_as_published_keeps_the_flag_and_its_absence_clears_it() {
    let mut world = World::new(2);
    let names = (world.name_on(0, "plain"), world.name_on(1, "flagged"));
    let (plain, flagged) = (world.connect(&names.0), world.connect(&names.1));
    world.subscribe(plain, "t", QoS::AtLeastOnce);
    world.subscribe_with(
        flagged,
        "t",
        SubscribeOptions {
            retain_as_published: true,
            ..AT_LEAST_ONCE
        },
    );
    let publisher = world.connect("p");
    world.retain(publisher, "t", "m");
    world.publish(publisher, "t", "n", QoS::AtLeastOnce);
    let flags = |got: Vec<crate::world::Got>| got.iter().map(|got| got.retain).collect::<Vec<_>>();
    assert_eq!(flags(world.messages(plain)), [false, false]);
    assert_eq!(flags(world.messages(flagged)), [true, false]);
}

#[test]
fn overlapping_subscriptions_bring_one_copy_at_the_highest_qos() {
    let mut world = World::new(1);
    let client = world.connect("c");
    world.subscribe(client, "a/#", QoS::AtMostOnce);
    world.subscribe(client, "a/+", QoS::ExactlyOnce);
    world.subscribe(client, "a/b", QoS::AtLeastOnce);
    let publisher = world.connect("p");
    world.publish(publisher, "a/b", "m", QoS::ExactlyOnce);
    let got = world.messages(client);
    assert_eq!((got.len(), got[0].qos), (1, QoS::ExactlyOnce)); // [MQTT-3.3.4-2]
}

#[test]
fn what_waited_at_qos_0_for_an_offline_session_is_not_overtaken() {
    let limits = Limits {
        queue_at_most_once_offline: true,
        ..Limits::default()
    };
    let outputs = LinksLimits {
        output_high: 30,
        output_max: 60,
        ..LinksLimits::default()
    };
    let mut world = World::with(1, limits, outputs);
    let (client, _) = world.connect_with("c", &staying());
    world.subscribe(client, "t", QoS::AtMostOnce);
    world.lose(client);
    let publisher = world.connect("p");
    for number in 0..6 {
        world.publish(
            publisher,
            "t",
            &format!("{number}{}", "x".repeat(20)),
            QoS::AtMostOnce,
        );
    }
    // It comes back and does not read: only some of the waiting messages fit its output.
    let client = world.try_connect(
        "c",
        &Hello {
            reads: false,
            ..staying()
        },
    );
    world.publish(publisher, "t", "9", QoS::AtMostOnce);
    world.read(client, true);
    let first: Vec<u8> = world
        .messages(client)
        .iter()
        .map(|got| got.payload[0])
        .collect();
    assert_eq!(first, *b"0123459");
}

#[test]
fn an_expired_message_is_not_delivered_and_the_rest_of_its_life_is_told() {
    let mut world = World::new(1);
    let (client, _) = world.connect_with("c", &staying());
    world.subscribe(client, "t", QoS::AtLeastOnce);
    world.lose(client);
    let publisher = world.connect("p");
    for (topic, expiry_secs) in [("t", Some(5)), ("t", Some(60))] {
        let publish = PublishOut {
            qos: QoS::AtLeastOnce,
            topic,
            expiry_secs,
            ..PublishOut::default()
        };
        world.publish_with(publisher, &publish);
    }
    world.wait(thalweg_model::Span::from_secs(20));
    let (client, _) = world.connect_with("c", &staying());
    let left: Vec<_> = world
        .messages(client)
        .iter()
        .map(|got| got.expiry_secs)
        .collect();
    assert_eq!(left, [Some(40)]); // [MQTT-3.3.2-6]
    assert_eq!(world.sum(|kernel| kernel.ledger().expired), 1);
}

#[test]
fn packets_of_every_type_are_counted_in_both_directions() {
    let mut world = World::new(1);
    let (publisher, subscriber) = (world.connect("publisher"), world.connect("subscriber"));
    world.subscribe(subscriber, "t", QoS::ExactlyOnce);
    let packets = |world: &World| {
        let mut counts = world.bed.shards[0].links.packets();
        let mqtt = counts.find(|(protocol, _)| *protocol == "mqtt");
        mqtt.map(|(_, counts)| (counts.received, counts.sent))
    };
    // CONNECT and CONNACK twice, SUBSCRIBE and SUBACK.
    assert_eq!(packets(&world), Some((3, 3)));
    // PUBLISH, PUBREC, PUBREL and PUBCOMP each way.
    world.publish(publisher, "t", "m", QoS::ExactlyOnce);
    assert_eq!(packets(&world), Some((7, 7)));
    world.publish(publisher, "t", "m", QoS::AtMostOnce);
    world.leave(publisher);
    assert_eq!(packets(&world), Some((9, 8)));
}

#[test]
fn suback_says_what_a_policy_leaves_of_the_qos_that_was_asked_for() {
    let policy = Policy {
        reliability_max: Some(Reliability::AtLeastOnce),
        ..Policy::new(Filter::new("a/#").expect("a filter"))
    };
    let limits = Limits {
        policies: [policy].into(),
        ..Limits::default()
    };
    let mut world = World::with(1, limits, LinksLimits::default());
    let [publisher, reader] = ["p", "r"].map(|name| world.connect(name));
    let twice = SubscribeOptions {
        qos: QoS::ExactlyOnce,
        ..SubscribeOptions::default()
    };
    for (filter, told) in [
        ("a/b", ReasonCode::GrantedQos1),
        ("$share/g/a/c", ReasonCode::GrantedQos1),
        ("b", ReasonCode::GrantedQos2),
        ("#", ReasonCode::GrantedQos2),
    ] {
        assert_eq!(
            world.subscribe_with(reader, filter, twice),
            told,
            "{filter}"
        );
    }
    for (topic, qos) in [
        ("a/b", vec![QoS::AtLeastOnce]),
        ("a/c", vec![QoS::AtLeastOnce; 2]),
        ("b", vec![QoS::ExactlyOnce]),
    ] {
        world.publish(publisher, topic, "m", QoS::ExactlyOnce);
        let got = world.messages(reader);
        assert_eq!(
            got.iter().map(|it| it.qos).collect::<Vec<_>>(),
            qos,
            "{topic}"
        );
    }
}
