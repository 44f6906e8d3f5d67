//! Messages that handles settle themselves.

use thalweg_model::{Reliability, Span};

use super::transport::LaneTraits;
use super::world::{World, settings};
use crate::engine::Wish;
use crate::transport::SubscriptionId;

const BY_HAND: Wish<'_> = Wish {
    subscription: SubscriptionId(1),
    way: 0,
    filter: "t/a",
    reliability: Reliability::AtLeastOnce,
    last_values: false,
    keeps_all: true,
    settle_by_hand: true,
};

#[test]
fn what_the_handle_settles_itself_comes_only_over_lanes_that_wait_for_it() {
    let mut world = World::new(1, &[LaneTraits::DATAGRAMS], settings());
    world.wish(&BY_HAND);
    world.run(Span::from_secs(2));
    assert!(!world.standing[&SubscriptionId(1)]);
    let refused = world
        .notices
        .iter()
        .find(|words| words.starts_with("subscribed 1"));
    assert!(
        refused.is_some_and(|words| words.contains("the application settles")),
        "{refused:?}"
    );
    // A lane that can settle is chosen, whichever lane publishes.
    let mut world = World::new(1, &[LaneTraits::DATAGRAMS, LaneTraits::STREAM], settings());
    world.prefer(0);
    world.wish(&BY_HAND);
    world.run(Span::from_secs(5));
    assert!(world.standing[&SubscriptionId(1)]);
    let at = |lane: usize| {
        let status = world.engine.lane_status(lane).expect("a lane");
        (status.publishes, status.subscriptions)
    };
    assert_eq!((at(0), at(1)), ((true, 0), (false, 1)));
}
