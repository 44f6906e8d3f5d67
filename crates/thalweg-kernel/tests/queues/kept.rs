//! Addresses that keep several messages because the newest of them says so.

use crate::world::{Who, World, draft, firm, wish};
use thalweg_kernel::access::{Access, Otherwise, Permission, Rule, Rules};
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

/// Retains one of a source, which is to have so many.
fn say(world: &mut World, who: Who, of: (&str, &str), text: &str, keeps: u16) {
    say_for(world, who, of, text, (keeps, None));
}

fn say_for(
    world: &mut World,
    who: Who,
    (address, source): (&str, &str),
    text: &str,
    (keeps, expires_in): (u16, Option<Span>),
) {
    let mut properties = keeping(keeps);
    properties.details.get_or_insert_default().source = Some(source.into());
    let draft = Draft {
        retain: RetainOp::Set,
        properties: Some(&properties),
        expires_in,
        ..firm(address, text)
    };
    world.publish(who, draft);
}

fn withdraw(world: &mut World, who: Who, address: &str, source: &str) -> bool {
    world.run(who.shard, |kernel, out, now| {
        kernel.withdraw(who.session, address, source, now, out)
    })
}

#[test]
fn sources_of_an_address_have_messages_apart_and_end_apart() {
    for shards in [1, 3] {
        let mut world = World::with(shards, Limits::default());
        let who = guest(&mut world, usize::from(shards) - 1);
        let (a, b) = (("a/b", "a"), ("a/b", "b"));
        for (of, text, keeps) in [
            (a, "a1", 1),
            (b, "b1", 2),
            (a, "a2", 1),
            (b, "b2", 2),
            (b, "b3", 2),
            (a, "a3", 1),
            (("a/b", "c"), "c1", 0),
        ] {
            say(&mut world, who, of, text, keeps);
        }
        for _ in 0..2 {
            assert_eq!(all(&mut world, "a/b"), ["b2", "b3", "a3", "c1"], "{shards}");
            assert_eq!(late(&mut world, "a/b", LastValueWish::Always), ["c1"]);
            world.restart();
        }
        // The latest of the others is the last value when the one that was goes, and stays when another goes.
        let who = guest(&mut world, usize::from(shards) - 1);
        for (source, left) in [
            ("c", &["b2", "b3", "a3"][..]),
            ("unknown", &["b2", "b3", "a3"]),
            ("b", &["a3"]),
        ] {
            assert!(withdraw(&mut world, who, "a/b", source));
            assert_eq!(all(&mut world, "a/b"), left, "{shards}: {source}");
            assert_eq!(late(&mut world, "a/b", LastValueWish::Always), ["a3"]);
        }
        say(&mut world, who, b, "b4", 2);
        world.restart();
        assert_eq!(all(&mut world, "a/b"), ["a3", "b4"]);
        let who = guest(&mut world, 0);
        for source in ["b", "a"] {
            assert!(withdraw(&mut world, who, "a/b", source));
        }
        assert_eq!(all(&mut world, "a/b"), [""; 0]);
        world.restart();
        assert_eq!(all(&mut world, "a/b"), [""; 0]);
    }
}

#[test]
fn what_has_no_source_ends_sources_and_gives_way_to_any() {
    let mut world = World::with(1, Limits::default());
    let who = guest(&mut world, 0);
    retain(&mut world, who, "a/b", "1", 0);
    for (source, text) in [("a", "a1"), ("b", "b1")] {
        say(&mut world, who, ("a/b", source), text, 1);
    }
    assert_eq!(all(&mut world, "a/b"), ["a1", "b1"]);
    retain(&mut world, who, "a/b", "2", 0);
    assert_eq!(all(&mut world, "a/b"), ["2"]);
    say(&mut world, who, ("a/b", "a"), "a2", 1);
    assert_eq!(all(&mut world, "a/b"), ["a2"]);
    // One that is alone needs no place beside the last value, and goes with it.
    assert!(withdraw(&mut world, who, "a/b", "a"));
    assert_eq!(all(&mut world, "a/b"), [""; 0]);
}

#[test]
fn sources_are_within_policies_limits_and_rights() {
    for (depth, kept) in [(1, &["b2"][..]), (2, &["a1", "a2", "b1", "b2"])] {
        let policy = Policy {
            last_value_depth: Some(depth),
            ..Policy::new(Filter::new("a/#").expect("a filter"))
        };
        let limits = Limits {
            policies: [policy].into(),
            ..Limits::default()
        };
        let mut world = World::with(1, limits);
        let who = guest(&mut world, 0);
        for (source, text) in [("a", "a1"), ("a", "a2"), ("b", "b1"), ("b", "b2")] {
            say(&mut world, who, ("a/b", source), text, 5);
        }
        assert_eq!(all(&mut world, "a/b"), kept);
        // With a lower depth those that it leaves no place for go.
        if depth > 1 {
            let policies = [Policy {
                last_value_depth: Some(1),
                ..Policy::new(Filter::new("a/#").expect("a filter"))
            }];
            let limits = Limits {
                policies: policies.into(),
                ..Limits::default()
            };
            world.run(0, |kernel, _, _| kernel.set_limits(limits));
            assert_eq!(all(&mut world, "a/b"), ["b2"]);
        }
    }
    // However many sources there are, an address keeps so many.
    let mut world = World::unwritten(1, Limits::default());
    let who = guest(&mut world, 0);
    for number in 0..1030 {
        let source = number.to_string();
        say(&mut world, who, ("a/b", &source), &source, 1);
    }
    let left = world.kernels[0].kept_at("a/b", world.now);
    assert_eq!((left.len(), left[0].payload()), (1024, &b"6"[..]));
    let limits = Limits {
        retained_messages_max: 4,
        ..Limits::default()
    };
    let mut world = World::with(1, limits);
    let who = guest(&mut world, 0);
    for number in 1..=9 {
        let source = number.to_string();
        say(&mut world, who, ("a/b", &source), &source, 1);
    }
    // The last value counts twice.
    assert_eq!(all(&mut world, "a/b"), ["7", "8", "9"]);
    let name = world.name_on(0);
    let rules = vec![Rule::deny(Permission::Publish, "a/#")];
    let rules = Rules::new(rules, Otherwise::Allow).expect("they are right");
    let reader = world.connect_with(0, &name, rules.compile(&name, None), Span::ZERO);
    assert!(!withdraw(&mut world, reader, "a/b", "9"));
    assert_eq!(all(&mut world, "a/b"), ["7", "8", "9"]);
}

#[test]
fn what_expires_of_a_source_leaves_the_last_value_to_another() {
    for shards in [1, 3] {
        let mut world = World::with(shards, Limits::default());
        let who = guest(&mut world, 0);
        for (source, text, secs) in [("a", "a1", 20), ("b", "b1", 2), ("c", "c1", 5)] {
            let terms = (1, Some(Span::from_secs(secs)));
            say_for(&mut world, who, ("a/b", source), text, terms);
        }
        world.wait(Span::from_secs(3));
        assert_eq!(all(&mut world, "a/b"), ["a1", "c1"]);
        // What has expired is looked for every 5 s.
        world.wait(Span::from_secs(6));
        for _ in 0..2 {
            assert_eq!(all(&mut world, "a/b"), ["a1"], "{shards}");
            assert_eq!(late(&mut world, "a/b", LastValueWish::Always), ["a1"]);
            world.restart();
        }
        world.wait(Span::from_secs(12));
        assert_eq!(all(&mut world, "a/b"), [""; 0]);
    }
}

#[test]
fn who_follows_what_an_address_keeps_is_told_that_a_source_has_ended_and_others_are_not() {
    for shards in [1, 3] {
        let mut world = World::with(shards, Limits::default());
        let (who, plain) = (guest(&mut world, 0), guest(&mut world, 0));
        let away = usize::from(shards) - 1;
        let follower = guest(&mut world, away);
        for (source, text) in [("a", "a1"), ("b", "b1")] {
            say(&mut world, who, ("a/b", source), text, 1);
        }
        for (who, last_values) in [
            (plain, LastValueWish::Always),
            (follower, LastValueWish::AllKept),
        ] {
            let wish = Wish {
                last_values,
                ..wish("a/+", None, Reliability::AtLeastOnce)
            };
            world.ask_for(who, &wish);
        }
        assert_eq!(world.texts(plain), ["b1"]);
        assert_eq!(world.texts(follower), ["a1", "b1"]);
        assert!(withdraw(&mut world, who, "a/b", "a"));
        assert_eq!(world.texts(plain), [""; 0], "{shards}");
        assert_eq!(world.texts(follower), [""], "{shards}");
    }
}
