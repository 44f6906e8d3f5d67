//! Addresses that keep several messages because the newest of them says so.

use crate::world::{Who, World, draft, firm, wish};
use thalweg_kernel::access::Access;
use thalweg_kernel::{Draft, LastValueWish, Limits, Policy, Wish};
use thalweg_model::{Details, Filter, Properties, Reliability, RetainOp, Span};

fn keeping(keeps: u16) -> Properties {
    Properties {
        details: Some(Box::new(Details {
            keeps,
            ..Details::default()
        })),
        ..Properties::default()
    }
}

/// Retains one whose address is to keep so many.
fn retain(world: &mut World, who: Who, address: &str, text: &str, keeps: u16) {
    let properties = keeping(keeps);
    let draft = Draft {
        retain: RetainOp::Set,
        properties: Some(&properties),
        ..firm(address, text)
    };
    world.publish(who, draft);
}

fn guest(world: &mut World, shard: usize) -> Who {
    let name = world.name_on(shard);
    world.connect_with(shard, &name, Access::ALL, Span::ZERO)
}

/// What a new subscriber is sent, in order within each address.
fn late(world: &mut World, filter: &str, last_values: LastValueWish) -> Vec<String> {
    let who = guest(world, 0);
    let wish = Wish {
        last_values,
        ..wish(filter, None, Reliability::AtLeastOnce)
    };
    world.ask_for(who, &wish);
    let got = world.texts(who);
    world.lose(who);
    got
}

fn all(world: &mut World, filter: &str) -> Vec<String> {
    late(world, filter, LastValueWish::AllKept)
}

#[test]
fn who_asks_for_all_gets_as_many_as_the_newest_keeps() {
    for shards in [1, 3] {
        let mut world = World::with(shards, Limits::default());
        let who = guest(&mut world, usize::from(shards) - 1);
        for number in 1..=7 {
            retain(&mut world, who, "a/three", &number.to_string(), 3);
        }
        retain(&mut world, who, "a/one", "one", 0);
        assert_eq!(all(&mut world, "a/three"), ["5", "6", "7"], "{shards}");
        let mut of_both = all(&mut world, "a/+");
        of_both.sort();
        assert_eq!(of_both, ["5", "6", "7", "one"]);
        // Others get the last value, as of any address.
        let last = late(&mut world, "a/three", LastValueWish::Always);
        assert_eq!(last, ["7"]);
        for _ in 0..2 {
            assert_eq!(all(&mut world, "a/three"), ["5", "6", "7"], "{shards}");
            world.restart();
        }
        let who = guest(&mut world, 0);
        // What keeps fewer drops the others, and for good.
        retain(&mut world, who, "a/three", "8", 2);
        assert_eq!(all(&mut world, "a/three"), ["7", "8"]);
        retain(&mut world, who, "a/three", "9", 0);
        world.restart();
        assert_eq!(all(&mut world, "a/three"), ["9"]);
        let who = guest(&mut world, 0);
        retain(&mut world, who, "a/three", "10", 3);
        assert_eq!(all(&mut world, "a/three"), ["9", "10"]);
        let clear = Draft {
            retain: RetainOp::Clear,
            ..draft("a/three", "")
        };
        world.publish(who, clear);
        assert_eq!(all(&mut world, "a/three"), [""; 0]);
        world.restart();
        assert_eq!(all(&mut world, "a/three"), [""; 0]);
    }
}

#[test]
fn a_policy_and_the_limits_go_before_what_the_newest_keeps() {
    let policy = |depth| Policy {
        last_value_depth: Some(depth),
        ..Policy::new(Filter::new("a/#").expect("a filter"))
    };
    for (depth, kept) in [(1, &["4"][..]), (2, &["3", "4"])] {
        let limits = Limits {
            policies: [policy(depth)].into(),
            ..Limits::default()
        };
        let mut world = World::with(1, limits);
        let who = guest(&mut world, 0);
        for number in 1..=4 {
            retain(&mut world, who, "a/b", &number.to_string(), 3);
        }
        assert_eq!(all(&mut world, "a/b"), kept);
    }
    // The last value counts twice.
    let limits = Limits {
        retained_messages_max: 4,
        ..Limits::default()
    };
    let mut world = World::with(1, limits);
    let who = guest(&mut world, 0);
    for number in 1..=9 {
        retain(&mut world, who, "a/b", &number.to_string(), 100);
    }
    assert_eq!(all(&mut world, "a/b"), ["7", "8", "9"]);
}
