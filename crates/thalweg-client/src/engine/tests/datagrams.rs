//! Losses of datagram lanes, and their repair.

use thalweg_model::{Reliability, Span};

use super::seeds::number;
use super::transport::LaneTraits;
use super::world::{World, settings};
use crate::engine::Success;
use crate::transport::SubscriptionId;

const AT_LEAST: Reliability = Reliability::AtLeastOnce;

#[test]
fn a_peer_that_never_lets_us_in_is_given_up() {
    let mut world = World::new(8, &[LaneTraits::DATAGRAMS], settings());
    world.chaos.loss = 100;
    world.run(settings().connect_timeout);
    world.run(Span::from_secs(1));
    assert!(
        world
            .notices
            .iter()
            .any(|notice| notice.contains("did not let us in in time")),
        "{:?}",
        world.notices
    );
    world.heal();
    world.publish("t", AT_LEAST, |_| ());
    assert!(world.settle(Span::from_secs(60)));
}

/// What waits behind a message that is abandoned must not leave: another lane has it already.
#[test]
fn a_lane_that_keeps_an_order_is_left_from_the_newest_message_on() {
    let ordered = LaneTraits {
        orders: true,
        ..LaneTraits::DATAGRAMS
    };
    let mut world = World::new(9, &[ordered, LaneTraits::STREAM], settings());
    world.run(Span::from_secs(1));
    world.chaos.loss = 100;
    for _ in 0..ordered.window {
        world.publish("t", AT_LEAST, |_| ());
    }
    world.run(Span::from_millis(100));
    world.prefer(1);
    assert!(world.settle(Span::from_secs(60)));
    assert!(world.broker.log.iter().all(|taken| taken.lane == 1));
    assert_eq!(world.broker.log.len(), ordered.window);
    assert_eq!(world.engine.counts().switches, 1);
}

/// A quarter of all datagrams is lost while subscriptions move to a stream and back: what the broker repeats when an
/// observation ends is not repeated any more.
#[test]
fn a_subscriber_that_leaves_a_lane_of_datagrams_misses_nothing() {
    let datagrams = LaneTraits {
        keeps_all: true,
        window: 100,
        ..LaneTraits::DATAGRAMS
    };
    // Behind the first fifty are those in which something was missed once. Five lost a message six times in a row, and with it
    // for good; in 1614 the simulated broker kept what waited although places had become free.
    let seeds: Vec<u64> = match (number("THALWEG_SEED"), number("THALWEG_SEEDS")) {
        (Some(seed), _) => vec![seed],
        (None, Some(count)) => (1..=count).collect(),
        (None, None) => (1..=50).chain([143, 468, 816, 1242, 1614, 1654]).collect(),
    };
    for seed in seeds {
        let mut world = World::new(seed, &[datagrams, LaneTraits::STREAM], settings());
        for (name, filter) in [(1, "t/a"), (2, "t/b"), (3, "t/c")] {
            world.subscribe(name, filter, AT_LEAST);
        }
        world.run(Span::from_secs(2));
        world.chaos.loss = 25;
        for second in 0..120_u64 {
            if second % 20 == 10 {
                world.prefer(usize::from(second % 40 == 10));
            }
            for topic in ["t/a", "t/b", "t/c"] {
                world.publish(topic, AT_LEAST, |_| ());
                world.run(Span::from_millis(333));
            }
            world.repeat(0);
        }
        world.heal();
        for _ in 0..30 {
            world.run(Span::from_secs(1));
            world.repeat(0);
        }
        for (name, topic) in [(1, "t/a"), (2, "t/b"), (3, "t/c")] {
            let sent: Vec<String> = world
                .tickets
                .iter()
                .filter(|(_, ticket)| {
                    ticket.address == topic && ticket.outcome == Success::Acknowledged
                })
                .map(|(id, _)| id.to_string())
                .collect();
            let mut got = world.got[&SubscriptionId(name)].clone();
            got.sort_by_key(|payload| payload.parse::<u64>().expect("a number"));
            assert_eq!(got, sent, "seed {seed}, {topic}");
        }
        assert!(
            world.engine.counts().switches >= 5,
            "{:?}",
            world.engine.counts()
        );
    }
}
