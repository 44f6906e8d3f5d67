//! Guarantees to those who subscribe, one test each.

use thalweg_model::Span;

use super::stories::{AT_LEAST, AT_MOST, EXACTLY, MINUTE, OFFLINE, offline};
use super::transport::LaneTraits;
use super::world::{World, settings};
use crate::engine::EngineSettings;
use crate::transport::{RequestId, SubscriptionId};

#[test]
fn a_handle_that_does_not_take_holds_the_peer_back() {
    let mut world = World::new(
        9,
        &[LaneTraits::STREAM],
        EngineSettings {
            receive_max: 5,
            receive_bytes_max: 1_250,
            ..settings()
        },
    );
    world.subscribe(1, "t/#", AT_LEAST);
    world.run(Span::from_secs(1));
    world.takes = false;
    for _ in 0..30 {
        world.publish("t/a", AT_LEAST, |_| ());
        world.publish("t/b", AT_MOST, |_| ());
    }
    world.run(Span::from_secs(5));
    let got = world.got[&SubscriptionId(1)].len();
    // The simulated broker lets ten be unsettled; of those sent at most once the first five fit.
    assert!((10..=15).contains(&got), "{got}");
    assert!(world.engine.counts().receive_dropped >= 25);
    assert!(!world.engine.wants_input(0));
    world.takes = true;
    world.take();
    world.run(Span::from_secs(30));
    let odd = world.got[&SubscriptionId(1)]
        .iter()
        .filter(|payload| payload.parse::<u64>().expect("a number") % 2 == 1);
    assert_eq!(odd.count(), 30);
    assert!(world.engine.wants_input(0));
}

#[test]
fn a_burst_at_most_once_waits_for_its_handle() {
    let mut world = World::new(
        11,
        &[LaneTraits::STREAM],
        EngineSettings {
            receive_bytes_max: 1 << 20,
            ..settings()
        },
    );
    world.subscribe(1, "t/#", AT_MOST);
    world.run(Span::from_secs(1));
    world.takes = false;
    for _ in 0..3_000 {
        world.publish("t/a", AT_MOST, |_| ());
        world.run(Span::from_millis(1));
    }
    world.run(Span::from_secs(1));
    assert_eq!(
        (
            world.got[&SubscriptionId(1)].len(),
            world.engine.counts().receive_dropped
        ),
        (3_000, 0)
    );
    // Only the handle waits for them: acknowledgements of publishes are still read.
    assert!(world.engine.wants_input(0));
    // Every one gives its room back.
    world.takes = true;
    world.take();
    world.takes = false;
    for _ in 0..20_000 {
        world.publish("t/a", AT_MOST, |_| ());
        world.run(Span::from_millis(1));
    }
    world.run(Span::from_secs(1));
    let kept = world.got[&SubscriptionId(1)].len() - 3_000;
    assert!(
        (5_000..20_000).contains(&kept),
        "{kept} small ones in 1 MiB"
    );
    assert_eq!(world.engine.counts().receive_dropped, 20_000 - kept as u64);
}

#[test]
fn what_a_client_publishes_finds_what_it_has_subscribed_to_before() {
    let mut world = offline(&[LaneTraits::STREAM], settings());
    world.subscribe(1, "t/#", AT_LEAST);
    for how in [AT_MOST, AT_LEAST, EXACTLY] {
        world.publish("t/a", how, |_| ());
    }
    world.heal();
    assert!(world.settle(MINUTE));
    world.run(Span::from_secs(1));
    assert_eq!(world.got[&SubscriptionId(1)], ["1", "2", "3"]);
    // So it does when the broker has forgotten the session meanwhile.
    world.chaos = OFFLINE;
    world.cut(0);
    world.broker.forget_session(0);
    world.publish("t/a", AT_LEAST, |_| ());
    world.heal();
    assert!(world.settle(MINUTE));
    world.run(Span::from_secs(1));
    assert_eq!(world.got[&SubscriptionId(1)], ["1", "2", "3", "4"]);
}

#[test]
fn who_unsubscribes_gets_nothing_more() {
    let mut world = World::new(10, &[LaneTraits::STREAM], settings());
    world.subscribe(1, "t/#", AT_LEAST);
    world.run(Span::from_secs(1));
    world.publish("t/a", AT_LEAST, |_| ());
    world.run(Span::from_secs(1));
    world.publish("t/a", AT_LEAST, |_| ());
    world.unsubscribe(1);
    world.run(Span::from_secs(1));
    world.publish("t/a", AT_LEAST, |_| ());
    world.run(Span::from_secs(1));
    assert_eq!(world.got[&SubscriptionId(1)], ["1"]);
}

#[test]
fn filters_that_no_lane_can_carry_are_refused_and_others_find_their_lane() {
    let mut world = World::new(11, &[LaneTraits::DATAGRAMS], settings());
    world.subscribe(1, "t/#", AT_LEAST);
    world.run(Span::from_secs(5));
    assert!(
        world
            .notices
            .iter()
            .any(|notice| notice.starts_with("subscribed 1 Err(Unsupported"))
    );

    let mut world = World::new(12, &[LaneTraits::DATAGRAMS, LaneTraits::STREAM], settings());
    world.subscribe(1, "t/#", AT_LEAST);
    world.run(Span::from_secs(20));
    assert!(
        world.is_open(0) && world.is_open(1),
        "one publishes, the other subscribes"
    );
    world.publish("t/a", AT_LEAST, |_| ());
    world.run(Span::from_secs(5));
    assert_eq!(world.got[&SubscriptionId(1)], ["1"]);
    assert_eq!(world.broker.log[0].lane, 0);
    assert_eq!(
        world
            .engine
            .lane_status(1)
            .map(|lane| (lane.publishes, lane.subscriptions)),
        Some((false, 1))
    );
}

#[test]
fn last_values_are_read_and_questions_end() {
    let mut world = World::new(13, &[LaneTraits::STREAM], settings());
    world.publish("t/a", AT_LEAST, |draft| draft.retain = crate::Retain::Set);
    world.run(Span::from_secs(1));
    let soon = world.now + Span::from_secs(5);
    for (number, address) in [(1, "t/a"), (2, "t/b")] {
        world
            .engine
            .read(RequestId(number), 0, address, soon, world.now);
    }
    world.drive();
    world.run(Span::from_secs(1));
    assert_eq!(world.answers, [(1, Some("1".to_owned())), (2, None)]);
    world.chaos = OFFLINE;
    world.cut(0);
    world.engine.read(RequestId(3), 0, "t/a", soon, world.now);
    world.drive();
    world.run(Span::from_secs(10));
    assert_eq!(world.answers.len(), 3);
    assert_eq!(world.answers[2], (3, None));
}
