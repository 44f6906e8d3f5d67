//! Values that are cached without being retained.

use super::world::{Event, World, address_at, clear, draft, retained};
use thalweg_kernel::{Draft, Limits, Outcome};
use thalweg_model::{Filter, Span};

fn keeping(filters: &[&str]) -> Limits {
    let kept_filters = filters
        .iter()
        .map(|filter| Filter::new(filter).expect("a filter"))
        .collect();
    Limits {
        kept_filters,
        ..Limits::default()
    }
}

#[test]
fn every_publish_to_a_kept_address_is_remembered() {
    let mut world = World::watched_with(3, keeping(&["a/#"]));
    for home in 0..3 {
        let address = address_at(home, 3);
        for shard in 0..3 {
            let (reader, writer) = (world.connect_on((shard + 1) % 3), world.connect_on(shard));
            assert_eq!(
                world.say(writer, &address, &shard.to_string()),
                Outcome::NoMatch
            );
            assert_eq!(world.read(reader, &address), Some(Some(shard.to_string())));
        }
    }
    let (reader, writer) = (world.connect_on(0), world.connect_on(1));
    world.say(writer, "b", "1");
    assert_eq!(world.read(reader, "b"), Some(None));
}

#[test]
fn the_newest_is_read_whether_it_was_retained_or_not() {
    for home in 0..2 {
        let mut world = World::watched_with(2, keeping(&["a/#"]));
        let (reader, writer) = (world.connect_on(1), world.connect_on(0));
        let address = address_at(home, 2);
        let read = |world: &mut World| world.read(reader, &address).expect("it may");
        world.publish(writer, retained(&address, "1"));
        assert_eq!(read(&mut world), Some("1".into()));
        world.say(writer, &address, "2");
        assert_eq!(read(&mut world), Some("2".into()));
        assert_eq!(
            world.list(reader, "a/#", 9),
            Some((vec![format!("{address}=2")], true))
        );
        world.publish(writer, retained(&address, "3"));
        assert_eq!(read(&mut world), Some("3".into()));
        world.say(writer, &address, "4");
        world.publish(writer, clear(&address));
        assert_eq!(read(&mut world), None);
        assert_eq!(world.list(reader, "a/#", 9), Some((vec![], true)));
        assert!(
            world
                .kernels
                .iter()
                .all(|kernel| kernel.totals().kept_values == 0)
        );
    }
}

#[test]
fn subscribers_are_not_given_what_is_only_remembered() {
    let mut world = World::watched_with(2, keeping(&["#"]));
    let (reader, writer) = (world.connect_on(0), world.connect_on(1));
    world.publish(writer, retained("a/1", "retained"));
    world.say(writer, "a/1", "remembered");
    world.say(writer, "a/2", "remembered");
    world.listen(reader, "a/#");
    assert_eq!(
        world.events(reader),
        [Event::Delivered("retained".into(), true)]
    );
}

#[test]
fn a_watch_begins_with_what_is_remembered() {
    let mut world = World::watched_with(3, keeping(&["a/#"]));
    for home in 0..3 {
        let address = address_at(home, 3);
        let (reader, writer) = (world.connect_on(0), world.connect_on(1));
        world.say(writer, &address, "1");
        assert_eq!(world.begin(reader, &address, 1).1, Some("1".into()));
    }
}

#[test]
fn one_address_is_kept_as_long_as_somebody_says_so() {
    let mut world = World::watched(3);
    let (reader, writer) = (world.connect_on(0), world.connect_on(1));
    for home in 0..3 {
        let address = address_at(home, 3);
        world.say(writer, &address, "1");
        assert_eq!(world.read(reader, &address), Some(None));
        assert!(world.keep_last(2, &address, true));
        // The route that was remembered for the address is not used any more.
        world.say(writer, &address, "2");
        assert_eq!(world.read(reader, &address), Some(Some("2".into())));
        assert!(world.keep_last(0, &address, false));
        assert_eq!(world.read(reader, &address), Some(None));
        world.say(writer, &address, "3");
        assert_eq!(world.read(reader, &address), Some(None));
    }
    assert!(world.kernels.iter().all(|kernel| kernel.bytes_held() == 0));
}

#[test]
fn a_wildcard_keeps_no_address_of_the_brokers_own() {
    let mut world = World::watched_with(1, keeping(&["#"]));
    let (reader, writer) = (world.connect_on(0), world.connect_on(0));
    world.say(writer, "$own/a", "1");
    world.say(writer, "a", "1");
    assert_eq!(world.read(reader, "$own/a"), Some(None));
    assert_eq!(world.read(reader, "a"), Some(Some("1".into())));
}

#[test]
fn what_is_remembered_is_bounded_and_refusals_are_counted() {
    let mut world = World::watched_with(
        1,
        Limits {
            kept_messages_max: 2,
            kept_addresses_max: 2,
            ..keeping(&["#"])
        },
    );
    let (reader, writer) = (world.connect_on(0), world.connect_on(0));
    for address in ["a/1", "a/2", "a/3", "a/1"] {
        world.say(writer, address, "1");
    }
    assert_eq!(world.kernels[0].totals().kept_values, 2);
    assert_eq!(world.kernels[0].ledger().retain_refused, 1);
    assert_eq!(world.read(reader, "a/3"), Some(None));
    for number in 0..2 {
        assert!(world.keep_last(0, &format!("b/{number}"), true));
    }
    assert!(!world.keep_last(0, "b/2", true));
}

#[test]
fn the_store_of_retained_messages_may_be_full_or_closed() {
    for limits in [
        Limits {
            retained_messages_max: 0,
            ..keeping(&["a/#"])
        },
        Limits {
            retain_enabled: false,
            ..keeping(&["a/#"])
        },
    ] {
        for home in 0..2 {
            let mut world = World::watched_with(2, limits.clone());
            let (reader, writer) = (world.connect_on(0), world.connect_on(1));
            let address = address_at(home, 2);
            world.publish(writer, retained(&address, "1"));
            assert_eq!(world.read(reader, &address), Some(Some("1".into())));
            world.publish(writer, clear(&address));
            assert_eq!(world.read(reader, &address), Some(None));
        }
    }
}

#[test]
fn what_is_remembered_expires() {
    let mut world = World::watched_with(1, keeping(&["a"]));
    let (reader, writer) = (world.connect_on(0), world.connect_on(0));
    world.publish(
        writer,
        Draft {
            expires_in: Some(Span::from_secs(10)),
            ..draft("a", "1")
        },
    );
    assert!(world.kernels[0].poll_timeout() < world.now + Span::from_secs(60));
    world.now += Span::from_secs(11);
    assert_eq!(world.read(reader, "a"), Some(None));
    world.wait(Span::from_secs(10));
    assert_eq!(world.kernels[0].totals().kept_values, 0);
}

#[test]
fn settings_that_keep_less_forget_the_rest() {
    let mut world = World::watched_with(1, keeping(&["a/#", "b/#"]));
    let (reader, writer) = (world.connect_on(0), world.connect_on(0));
    world.say(writer, "a/1", "1");
    world.say(writer, "b/1", "1");
    world.kernels[0].set_limits(keeping(&["b/#"]));
    world.say(writer, "a/1", "2");
    assert_eq!(
        world.list(reader, "#", 9),
        Some((vec!["b/1=1".into()], true))
    );
}
