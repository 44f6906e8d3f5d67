//! Notifications of a watcher, on one shard.

use super::world::{Event, Watch, Who, World, clear, draft, retained};
use thalweg_kernel::{DropReason, Limits, Outcome, Pressure, WatchEnd, WatchRefused};
use thalweg_model::{Span, Time};

fn one() -> (World, Who, Who) {
    let mut world = World::watched(1);
    let reader = world.connect_on(0);
    let writer = world.connect_on(0);
    (world, reader, writer)
}

#[test]
fn a_watch_begins_with_the_value_that_is_there() {
    let (mut world, reader, writer) = one();
    assert_eq!(world.begin(reader, "a", 1).1, None);
    world.publish(writer, retained("b", "1"));
    assert_eq!(world.begin(reader, "b", 1).1, Some("1".into()));
}

#[test]
fn a_watch_begins_with_what_others_have_seen_although_nobody_retained_it() {
    let (mut world, reader, writer) = one();
    let (first, _) = world.begin(reader, "a", 1);
    assert_eq!(world.say(writer, "a", "1"), Outcome::Accepted);
    let other = world.connect_on(0);
    assert_eq!(world.begin(other, "a", 1).1, Some("1".into()));
    assert_eq!(world.take_all(first), ["1"]);
}

#[test]
fn a_reader_is_told_once_until_it_has_taken_what_waits() {
    let (mut world, reader, writer) = one();
    let (watch, _) = world.begin(reader, "a", 1);
    world.say(writer, "a", "1");
    world.say(writer, "a", "2");
    assert_eq!(world.events(reader), [Event::Changed(watch.cookie)]);
    assert_eq!(world.take_all(watch), ["2"]);
    assert_eq!(world.dropped(DropReason::Conflated), 1);
    world.say(writer, "a", "3");
    assert_eq!(world.events(reader), [Event::Changed(watch.cookie)]);
    assert_eq!(world.take_all(watch), ["3"]);
    assert_eq!(world.take_all(watch), [""; 0]);
}

#[test]
fn a_deep_watch_keeps_the_newest_in_their_order() {
    let (mut world, reader, writer) = one();
    let (watch, _) = world.begin(reader, "a", 3);
    for number in 0..5 {
        world.say(writer, "a", &number.to_string());
    }
    assert_eq!(world.events(reader), [Event::Changed(watch.cookie)]);
    assert_eq!(world.take_all(watch), ["2", "3", "4"]);
    assert_eq!(world.dropped(DropReason::QueueFull), 2);
    world.say(writer, "a", "5");
    world.say(writer, "a", "6");
    assert_eq!(world.events(reader), [Event::Changed(watch.cookie)]);
    assert!(world.take_watched(watch).is_some());
    world.say(writer, "a", "7");
    // It has not taken all that waited.
    assert_eq!(world.events(reader), []);
    assert_eq!(world.take_all(watch), ["6", "7"]);
}

#[test]
fn each_watcher_takes_at_its_own_pace() {
    let (mut world, reader, writer) = one();
    let (slow, _) = world.begin(reader, "a", 1);
    let (fast, _) = world.begin(reader, "a", 1);
    let (deep, _) = world.begin(reader, "a", 10);
    let mut seen = Vec::new();
    for number in 0..4 {
        world.say(writer, "a", &number.to_string());
        seen.extend(world.take_all(fast));
    }
    assert_eq!(seen, ["0", "1", "2", "3"]);
    assert_eq!(world.take_all(slow), ["3"]);
    assert_eq!(world.take_all(deep), ["0", "1", "2", "3"]);
}

#[test]
fn a_cleared_value_is_gone() {
    let (mut world, reader, writer) = one();
    world.publish(writer, retained("a", "1"));
    let (watch, value) = world.begin(reader, "a", 1);
    let (deep, _) = world.begin(reader, "a", 9);
    assert_eq!(value, Some("1".into()));
    world.publish(writer, retained("a", "2"));
    world.publish(writer, clear("a"));
    assert_eq!(world.take_all(watch), ["-"]);
    assert_eq!(world.take_all(deep), ["2", "-"]);
    assert_eq!(world.begin(reader, "a", 1).1, None);
    world.say(writer, "a", "3");
    assert_eq!(world.take_all(watch), ["3"]);
}

#[test]
fn an_empty_value_is_a_value() {
    let (mut world, reader, writer) = one();
    let (watch, _) = world.begin(reader, "a", 1);
    world.say(writer, "a", "");
    assert_eq!(world.take_all(watch), [""]);
}

#[test]
fn what_has_expired_is_not_taken() {
    let (mut world, reader, writer) = one();
    let (watch, _) = world.begin(reader, "a", 1);
    let (deep, _) = world.begin(reader, "a", 5);
    let expires_in = Some(Span::from_secs(10));
    for text in ["1", "2"] {
        world.publish(
            writer,
            thalweg_kernel::Draft {
                expires_in,
                ..draft("a", text)
            },
        );
    }
    world.wait(Span::from_secs(9));
    assert_eq!(world.take_all(watch), ["2"]);
    world.publish(
        writer,
        thalweg_kernel::Draft {
            expires_in,
            ..draft("a", "3")
        },
    );
    world.wait(Span::from_secs(5));
    assert_eq!(world.take_all(deep), ["3"]);
    world.wait(Span::from_secs(5));
    assert_eq!(world.take_all(watch), [""; 0]);
    assert_eq!(world.kernels[0].ledger().expired, 3);
    assert_eq!(world.begin(reader, "a", 1).1, None);
}

#[test]
fn a_watch_that_ends_takes_what_waits_along() {
    let (mut world, reader, writer) = one();
    let (watch, _) = world.begin(reader, "a", 1);
    let (deep, _) = world.begin(reader, "a", 5);
    world.say(writer, "a", "1");
    world.say(writer, "a", "2");
    world.events(reader);
    world.unwatch(watch);
    world.unwatch(deep);
    assert_eq!(world.dropped(DropReason::Unwatched), 3);
    assert_eq!(world.say(writer, "a", "3"), Outcome::NoMatch);
    assert_eq!(world.events(reader), []);
    assert_eq!(world.kernels[0].bytes_held(), 0);
    assert_eq!(world.kernels[0].totals().watches, 0);
}

#[test]
fn watches_end_with_their_link() {
    let (mut world, reader, writer) = one();
    let other = world.connect_on(0);
    let (watch, _) = world.begin(reader, "a", 1);
    let (deep, _) = world.begin(reader, "b", 3);
    let (stays, _) = world.begin(other, "a", 1);
    world.say(writer, "a", "1");
    world.say(writer, "b", "1");
    world.leave(reader);
    let events = world.events(reader);
    for cookie in [watch.cookie, deep.cookie] {
        assert!(
            events.contains(&Event::Ended(cookie, WatchEnd::SessionEnded)),
            "{events:?}"
        );
    }
    assert_eq!(world.dropped(DropReason::SessionEnded), 2);
    assert_eq!(world.kernels[0].totals().watches, 1);
    assert_eq!(world.take_all(stays), ["1"]);
    assert_eq!(world.say(writer, "b", "2"), Outcome::NoMatch);
}

#[test]
fn watches_end_with_their_link_though_the_session_goes_on() {
    let mut world = World::watched(1);
    let reader = world.connect_for(
        0,
        thalweg_kernel::access::Access::ALL,
        Span::from_secs(3600),
    );
    let (watch, _) = world.begin(reader, "a", 1);
    world.leave(reader);
    assert_eq!(
        world.events(reader),
        [Event::Ended(watch.cookie, WatchEnd::SessionEnded)]
    );
    assert_eq!(world.kernels[0].totals().watches, 0);
}

#[test]
fn the_number_of_watches_is_bounded() {
    let mut world = World::watched_with(
        1,
        Limits {
            watches_max: 2,
            ..Limits::default()
        },
    );
    let reader = world.connect_on(0);
    let first = world.watch(reader, "a", 1);
    world.watch(reader, "b", 1);
    assert_eq!(
        world.try_watch(reader, "a", 1).unwrap_err(),
        WatchRefused::TooMany
    );
    world.unwatch(first);
    world.watch(reader, "a", 1);
}

#[test]
fn only_addresses_are_watched() {
    let mut world = World::watched_with(
        1,
        Limits {
            levels_max: 3,
            address_bytes_max: 10,
            ..Limits::default()
        },
    );
    let reader = world.connect_on(0);
    for address in [
        "",
        "a/+",
        "#",
        "a/b/c/d",
        "///",
        "a-very-long-address",
        "a\0b",
    ] {
        assert_eq!(
            world.try_watch(reader, address, 1).unwrap_err(),
            WatchRefused::BadAddress,
            "{address}"
        );
    }
}

#[test]
fn short_memory_leaves_the_newest_only_and_then_refuses_new_watches() {
    let (mut world, reader, writer) = one();
    let (deep, _) = world.begin(reader, "a", 5);
    let (watch, _) = world.begin(reader, "a", 1);
    world.say(writer, "a", "1");
    world.say(writer, "a", "2");
    world.kernels[0].set_pressure(Pressure::DropWaiting);
    world.say(writer, "a", "3");
    assert_eq!(world.take_all(deep), ["3"]);
    assert_eq!(world.take_all(watch), ["3"]);
    assert_eq!(world.dropped(DropReason::Memory), 2);
    world.kernels[0].set_pressure(Pressure::RefuseSessions);
    assert_eq!(
        world.try_watch(reader, "b", 1).unwrap_err(),
        WatchRefused::Overloaded
    );
}

#[test]
fn what_waits_counts_as_held() {
    let (mut world, reader, writer) = one();
    let (deep, _) = world.begin(reader, "a", 9);
    let before = world.kernels[0].bytes_held();
    let long = "x".repeat(10_000);
    for _ in 0..3 {
        world.say(writer, "a", &long);
    }
    assert!(world.kernels[0].bytes_held() >= before + 30_000);
    assert_eq!(world.take_all(deep).len(), 3);
    // The latest value is still there for a new watcher.
    assert!(world.kernels[0].bytes_held() < before + 11_000);
}

#[test]
fn subscribers_and_watchers_of_an_address_both_get_it() {
    let (mut world, reader, writer) = one();
    world.listen(writer, "a/#");
    let (watch, _) = world.begin(reader, "a/b", 1);
    assert_eq!(world.say(writer, "a/b", "1"), Outcome::Accepted);
    assert_eq!(world.events(writer), [Event::Delivered("1".into(), false)]);
    assert_eq!(world.take_all(watch), ["1"]);
}

#[test]
fn operators_see_who_watches() {
    let (mut world, reader, _) = one();
    world.begin(reader, "a", 1);
    world.begin(reader, "a", 5);
    world.begin(reader, "b", 1);
    let explained = world.kernels[0].explain("a", None, Time::ZERO);
    assert_eq!(
        (
            explained.watches,
            explained.is_kept,
            explained.has_last_value
        ),
        (2, false, false)
    );
    assert_eq!(world.kernels[0].explain("c", None, Time::ZERO).watches, 0);
    assert_eq!(world.kernels[0].totals().watches, 3);
}

#[test]
fn watches_of_many_come_and_go_in_any_order() {
    let (mut world, _, writer) = one();
    let readers: Vec<Who> = (0..3).map(|_| world.connect_on(0)).collect();
    for seed in 0..30 {
        let mut dice = crate::world::Dice(seed);
        let mut watches: Vec<Watch> = Vec::new();
        for _ in 0..40 {
            if dice.roll(3) == 0 && !watches.is_empty() {
                let gone = watches.swap_remove(dice.roll(watches.len()));
                world.unwatch(gone);
            } else {
                let address = ["a", "b"][dice.roll(2)];
                let (watch, _) = world.begin(readers[dice.roll(3)], address, [1, 2][dice.roll(2)]);
                watches.push(watch);
            }
            world.say(writer, "a", "1");
            world.say(writer, "b", "1");
            for reader in &readers {
                world.events(*reader);
            }
            for watch in &watches {
                assert_eq!(world.take_all(*watch), ["1"], "seed {seed}");
            }
            assert_eq!(
                world.kernels[0].totals().watches,
                watches.len(),
                "seed {seed}"
            );
        }
        for watch in watches {
            world.unwatch(watch);
        }
    }
}
