//! Last values.

use crate::world::{Hello, World};
use std::collections::BTreeSet;
use thalweg_fronts::LinksLimits;
use thalweg_kernel::Limits;
use thalweg_mqtt::{PublishOut, QoS, RetainHandling, SubscribeOptions};

#[test]
fn thousands_of_last_values_reach_a_slow_subscriber_one_page_after_the_other() {
    const COUNT: usize = 1500;
    let outputs = LinksLimits {
        output_high: 2000,
        output_max: 4000,
        ..LinksLimits::default()
    };
    for (shards, qos) in [
        (1, QoS::AtMostOnce),
        (3, QoS::AtMostOnce),
        (3, QoS::AtLeastOnce),
    ] {
        let mut world = World::with(shards, Limits::default(), outputs);
        let publisher = world.connect("p");
        for number in 0..COUNT {
            let topic = format!("r/{}/{number}", number % 7);
            let publish = PublishOut {
                retain: true,
                topic: &topic,
                payload: b"value",
                ..PublishOut::default()
            };
            world.publish_with(publisher, &PublishOut { qos, ..publish });
        }
        let (slow, _) = world.connect_with(
            "slow",
            &Hello {
                receive_max: 3,
                ..Hello::default()
            },
        );
        let asked = world.ask(
            slow,
            "r/#",
            SubscribeOptions {
                qos,
                ..SubscribeOptions::default()
            },
        );
        world.read(slow, false);
        let waiting = world.sum(|kernel| kernel.bytes_held() as u64);
        // It reads a little at a time; what does not fit its output stays where it is.
        let pipe = slow;
        for _ in 0..20 {
            world.bed.set_stalled(pipe, false);
            world.bed.flush(pipe, 100);
            world.bed.set_stalled(pipe, true);
            world.rest();
            let held = world.sum(|kernel| kernel.bytes_held() as u64);
            assert!(
                held <= waiting + 4000,
                "last values are not copied into the subscriber's queue"
            );
        }
        world.read(slow, true);
        assert!(
            matches!(world.heard(slow), Some(crate::world::Packet::SubAck { id, .. }) if id == asked)
        );
        let got = world.messages(slow);
        let topics: BTreeSet<&str> = got.iter().map(|got| got.topic.as_str()).collect();
        assert_eq!(
            (got.len(), topics.len()),
            (COUNT, COUNT),
            "{shards} shards, {qos:?}"
        );
        assert!(got.iter().all(|got| got.retain));
    }
}

#[test]
fn the_last_value_is_the_last_one_and_an_empty_payload_clears_it() {
    let mut world = World::new(4);
    let publisher = world.connect("p");
    world.retain(publisher, "a", "1");
    world.retain(publisher, "a", "2");
    world.retain(publisher, "b", "1");
    world.retain(publisher, "b", "");
    for shard in 0..4 {
        let name = world.name_on(shard, "s");
        let subscriber = world.connect(&name);
        world.subscribe(subscriber, "#", QoS::AtLeastOnce);
        assert_eq!(world.texts(subscriber), ["2"]);
    }
}

#[test]
fn retain_handling_says_when_last_values_are_wanted() {
    let mut world = World::new(1);
    let publisher = world.connect("p");
    world.retain(publisher, "a", "1");
    let subscriber = world.connect("s");
    let mut ask = |handling, expected: &[&str]| {
        let options = SubscribeOptions {
            retain_handling: handling,
            ..SubscribeOptions::default()
        };
        world.subscribe_with(subscriber, "a", options);
        assert_eq!(world.texts(subscriber), expected, "{handling:?}");
    };
    ask(RetainHandling::DoNotSend, &[]);
    ask(RetainHandling::SendIfNew, &[]);
    ask(RetainHandling::Send, &["1"]);
    world.unsubscribe(subscriber, "a");
    let options = SubscribeOptions {
        retain_handling: RetainHandling::SendIfNew,
        ..SubscribeOptions::default()
    };
    world.subscribe_with(subscriber, "a", options);
    assert_eq!(world.texts(subscriber), ["1"]);
}
