//! Watchers and publishers on different shards.

use super::world::{Event, World, address_at, clear, retained};

#[test]
fn a_watch_is_ready_when_every_shard_knows_of_it() {
    let mut world = World::watched(3);
    let reader = world.connect_on(0);
    for home in 0..3 {
        let address = address_at(home, 3);
        world.is_slow = true;
        let watch = world.watch(reader, &address, 1);
        assert_eq!(world.events(reader), []);
        world.deliver_mails();
        assert_eq!(world.events(reader), [Event::Ready(watch.cookie, None)]);
        world.is_slow = false;
        for shard in 0..3 {
            let writer = world.connect_on(shard);
            world.say(writer, &address, &shard.to_string());
            assert_eq!(world.take_all(watch), [shard.to_string()], "home {home}");
        }
        world.events(reader);
    }
}

#[test]
fn what_was_published_on_its_way_home_is_not_missed() {
    // The publisher, the watcher and the home are three shards, and the publisher's mail to the home is slow.
    let mut world = World::watched(3);
    let (reader, writer, address) = (world.connect_on(0), world.connect_on(1), address_at(2, 3));
    world.is_slow = true;
    world.publish(writer, retained(&address, "1"));
    let watch = world.watch(reader, &address, 1);
    while let Some(way) = world.ways().into_iter().find(|way| *way != (1, 2)) {
        world.carry(way.0, way.1);
    }
    assert_eq!(world.events(reader), []);
    world.deliver_mails();
    assert_eq!(
        world.events(reader),
        [Event::Ready(watch.cookie, Some("1".into()))]
    );
}

#[test]
fn what_is_published_meanwhile_is_what_a_watch_begins_with() {
    let mut world = World::watched(2);
    let (reader, writer) = (world.connect_on(0), world.connect_on(1));
    for home in 0..2 {
        let address = address_at(home, 2);
        world.publish(writer, retained(&address, "1"));
        world.is_slow = true;
        let (watch, deep) = (
            world.watch(reader, &address, 1),
            world.watch(reader, &address, 9),
        );
        world.carry(0, 1);
        world.publish(writer, retained(&address, "2"));
        world.publish(writer, retained(&address, "3"));
        world.deliver_mails();
        world.is_slow = false;
        let events = world.events(reader);
        let ready: Vec<_> = events
            .iter()
            .filter(|event| matches!(event, Event::Ready(..)))
            .collect();
        // As it is at the one moment, or as it is at the other.
        match (&ready[..], world.take_all(watch), world.take_all(deep)) {
            ([Event::Ready(_, Some(a)), Event::Ready(_, Some(b))], newest, all) => {
                let seen: Vec<&str> = [a.as_str()]
                    .into_iter()
                    .chain(newest.iter().map(String::as_str))
                    .collect();
                assert!(
                    seen.is_sorted() && seen.last() == Some(&"3"),
                    "home {home}: {seen:?}"
                );
                let seen: Vec<&str> = [b.as_str()]
                    .into_iter()
                    .chain(all.iter().map(String::as_str))
                    .collect();
                assert!(
                    [&["1", "2", "3"][..], &["2", "3"], &["3"]].contains(&&seen[..]),
                    "home {home}: {seen:?}"
                );
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn what_the_home_said_is_not_told_again_when_it_comes_by_itself() {
    let mut world = World::watched(3);
    let (reader, writer, address) = (world.connect_on(0), world.connect_on(1), address_at(2, 3));
    world.is_slow = true;
    let watch = world.watch(reader, &address, 9);
    world.carry(0, 1);
    // It knows of the watch, so it sends both ways; to the watcher's shard that takes longest.
    world.publish(writer, retained(&address, "1"));
    world.publish(writer, retained(&address, "2"));
    while let Some(way) = world.ways().into_iter().find(|way| *way != (1, 0)) {
        world.carry(way.0, way.1);
    }
    let events = world.events(reader);
    world.deliver_mails();
    world.publish(writer, retained(&address, "3"));
    world.deliver_mails();
    let all = [events, world.events(reader)].concat();
    let begins = all.iter().find_map(|event| match event {
        Event::Ready(_, value) => Some(value.clone().unwrap_or_default()),
        _ => None,
    });
    let mut seen: Vec<String> = begins
        .into_iter()
        .filter(|value| !value.is_empty())
        .collect();
    seen.extend(world.take_all(watch));
    assert_eq!(seen.last().map(String::as_str), Some("3"));
    assert!(seen.is_sorted_by(|a, b| a < b), "{seen:?}");
}

#[test]
fn what_was_published_in_the_same_moment_as_the_beginning_is_not_missed() {
    let mut world = World::watched(3);
    let (reader, writer, address) = (world.connect_on(0), world.connect_on(1), address_at(2, 3));
    world.is_slow = true;
    let watch = world.watch(reader, &address, 1);
    world.carry(0, 1);
    world.run(1, |kernel, out, now| {
        for text in ["1", "2"] {
            kernel.publish(writer.session, retained(&address, text), now, out);
        }
    });
    // The home shard has the first of both when the watch reaches it.
    for way in [(1, 2), (1, 2), (0, 2), (2, 0), (2, 0), (2, 0), (1, 0)] {
        world.carry(way.0, way.1);
    }
    assert_eq!(
        world.events(reader),
        [Event::Ready(watch.cookie, Some("1".into()))]
    );
    world.deliver_mails();
    assert_eq!(world.take_all(watch), ["2"]);
}

#[test]
fn what_comes_while_a_watch_begins_is_bounded() {
    let mut world = World::watched(2);
    let (reader, writer) = (world.connect_on(0), world.connect_on(0));
    let long = "x".repeat(10_000);
    for is_ended_early in [true, false] {
        world.is_slow = true;
        let watch = world.watch(reader, "b", 1000);
        for _ in 0..200 {
            world.say(writer, "b", &long);
        }
        let held = world.kernels[0].bytes_held();
        assert!((600_000..700_000).contains(&held), "{held}");
        if is_ended_early {
            world.unwatch(watch);
            assert_eq!(world.kernels[0].bytes_held(), 0);
        }
        world.deliver_mails();
        if !is_ended_early {
            // The first of them is what it begins with.
            assert_eq!(world.take_all(watch).len(), 63);
            world.unwatch(watch);
        }
        assert_eq!(world.kernels[0].bytes_held(), 0);
    }
}

#[test]
fn a_subscription_waits_for_shards_that_have_not_heard_of_the_watch_before_it() {
    let mut world = World::watched(2);
    let reader = world.connect_on(0);
    world.is_slow = true;
    world.watch(reader, "a", 1);
    world.listen(reader, "a");
    assert_eq!(world.answers(reader), 0);
    world.deliver_mails();
    assert_eq!(world.answers(reader), 1);
}

#[test]
fn a_value_that_was_cleared_meanwhile_is_gone() {
    let mut world = World::watched(2);
    let (reader, writer, address) = (world.connect_on(0), world.connect_on(1), address_at(0, 2));
    world.publish(writer, retained(&address, "1"));
    world.is_slow = true;
    let watch = world.watch(reader, &address, 1);
    world.carry(0, 1);
    world.publish(writer, clear(&address));
    world.deliver_mails();
    let events = world.events(reader);
    match &events[..] {
        [Event::Ready(cookie, None)] if *cookie == watch.cookie => {}
        [Event::Ready(..), Event::Changed(_)] => assert_eq!(world.take_all(watch), ["-"]),
        other => panic!("{other:?}"),
    }
}

#[test]
fn other_shards_forget_an_address_with_its_last_watcher() {
    let mut world = World::watched(2);
    let (reader, writer) = (world.connect_on(0), world.connect_on(1));
    let (first, _) = world.begin(reader, "a", 1);
    let (second, _) = world.begin(reader, "a", 1);
    let forwarded = |world: &World| world.kernels[1].ledger().forwarded;
    world.say(writer, "a", "1");
    world.unwatch(first);
    world.say(writer, "a", "2");
    assert_eq!(forwarded(&world), 2);
    world.unwatch(second);
    world.say(writer, "a", "3");
    assert_eq!(forwarded(&world), 2);
    // A subscription to the same filter is not forgotten with the watch.
    world.listen(reader, "a");
    let (third, _) = world.begin(reader, "a", 1);
    world.unwatch(third);
    world.say(writer, "a", "4");
    assert_eq!(
        world.events(reader).last(),
        Some(&Event::Delivered("4".into(), false))
    );
}

#[test]
fn a_watch_that_ends_before_it_is_ready_is_never_ready() {
    let mut world = World::watched(3);
    let reader = world.connect_on(0);
    world.is_slow = true;
    let watch = world.watch(reader, "a", 1);
    world.unwatch(watch);
    let again = world.watch(reader, "a", 1);
    world.deliver_mails();
    assert_eq!(world.events(reader), [Event::Ready(again.cookie, None)]);
    let writer = world.connect_on(1);
    world.say(writer, "a", "1");
    world.deliver_mails();
    assert_eq!(world.take_all(again), ["1"]);
}
