//! Many values are listed.

use super::world::{Event, World, retained};
use thalweg_kernel::{Limits, ListSpec};
use thalweg_model::Filter;

#[test]
fn a_list_comes_from_all_shards_in_the_order_of_addresses() {
    for shards in 1..4 {
        let mut world = World::watched(shards);
        let writer = world.connect_on(0);
        for number in (0..50).rev() {
            world.publish(writer, retained(&format!("a/{number:02}/x"), "1"));
            world.publish(writer, retained(&format!("b/{number:02}"), "1"));
        }
        for shard in 0..usize::from(shards) {
            let reader = world.connect_on(shard);
            let (values, complete) = world.list(reader, "a/+/x", 1000).expect("it may");
            let expected: Vec<String> =
                (0..50).map(|number| format!("a/{number:02}/x=1")).collect();
            assert_eq!((values, complete), (expected, true), "{shards} shards");
        }
    }
}

#[test]
fn a_bounded_list_holds_the_first() {
    for shards in 1..4 {
        let mut world = World::watched_with(
            shards,
            Limits {
                list_max: 20,
                ..Limits::default()
            },
        );
        let (writer, reader) = (world.connect_on(0), world.connect_on(0));
        for number in 0..30 {
            world.publish(writer, retained(&format!("a/{number:02}"), "1"));
        }
        for (asked, expected) in [(0, 0), (1, 1), (7, 7), (20, 20), (25, 20)] {
            let (values, complete) = world.list(reader, "a/#", asked).expect("it may");
            let first: Vec<String> = (0..expected)
                .map(|number| format!("a/{number:02}=1"))
                .collect();
            assert_eq!(
                (values, complete),
                (first, false),
                "{asked} on {shards} shards"
            );
        }
        let (values, complete) = world.list(reader, "a/+", 20).expect("it may");
        assert_eq!((values.len(), complete), (20, false));
        let (values, complete) = world.list(reader, "a/07", 1).expect("it may");
        assert_eq!((values.len(), complete), (1, true));
    }
}

#[test]
fn a_list_that_is_exactly_full_is_complete() {
    for shards in 1..4 {
        let mut world = World::watched(shards);
        let (writer, reader) = (world.connect_on(0), world.connect_on(0));
        for number in 0..10 {
            world.publish(writer, retained(&format!("a/{number}"), "1"));
        }
        let (values, complete) = world.list(reader, "#", 10).expect("it may");
        assert_eq!((values.len(), complete), (10, true));
        let (values, complete) = world.list(reader, "#", 9).expect("it may");
        assert_eq!((values.len(), complete), (9, false));
    }
}

#[test]
fn a_long_list_is_put_together_over_several_turns() {
    let kept_filters = [Filter::new("a/#").expect("a filter")].into();
    let mut world = World::watched_with(
        2,
        Limits {
            kept_filters,
            ..Limits::default()
        },
    );
    let (writer, reader) = (world.connect_on(0), world.connect_on(0));
    for number in 0..6_000 {
        let address = format!("a/{number:04}/{}", number % 3);
        match number % 2 {
            0 => world.say(writer, &address, "kept"),
            _ => world.publish(writer, retained(&address, "retained")),
        };
    }
    let (values, complete) = world.list(reader, "a/+/1", 5_000).expect("it may");
    assert_eq!((values.len(), complete), (2_000, true));
    assert!(values.is_sorted());
    assert_eq!(values[0], "a/0001/1=retained");
    assert_eq!(values[1], "a/0004/1=kept");
}

#[test]
fn wildcards_list_no_address_of_the_brokers_own() {
    let mut world = World::watched(2);
    let (writer, reader) = (world.connect_on(0), world.connect_on(1));
    world.publish(writer, retained("$own/a", "1"));
    world.publish(writer, retained("a", "1"));
    assert_eq!(world.list(reader, "#", 9), Some((vec!["a=1".into()], true)));
    assert_eq!(world.list(reader, "+/a", 9), Some((vec![], true)));
    assert_eq!(
        world.list(reader, "$own/#", 9),
        Some((vec!["$own/a=1".into()], true))
    );
}

#[test]
fn too_many_lists_at_once_are_answered_with_nothing() {
    let mut world = World::watched(2);
    let reader = world.connect_on(0);
    world.is_slow = true;
    for ticket in 0..300 {
        world.run(0, |kernel, out, now| {
            kernel.list_last_values(
                reader.session,
                reader.link,
                ticket,
                ListSpec {
                    filter: "#",
                    max: 9,
                },
                now,
                out,
            )
        });
    }
    let incomplete = |events: Vec<Event>| {
        events
            .iter()
            .filter(|event| matches!(event, Event::Listed(_, _, false)))
            .count()
    };
    assert_eq!(incomplete(world.events(reader)), 44);
    world.deliver_mails();
    assert_eq!(world.events(reader).len(), 256);
}

#[test]
fn a_list_is_forgotten_when_its_reader_leaves() {
    let mut world = World::watched(2);
    let (writer, reader) = (world.connect_on(0), world.connect_on(0));
    for number in 0..5_000 {
        world.publish(writer, retained(&format!("a/{number}"), "1"));
    }
    world.is_slow = true;
    world.run(0, |kernel, out, now| {
        kernel.list_last_values(
            reader.session,
            reader.link,
            1,
            ListSpec {
                filter: "#",
                max: 9_000,
            },
            now,
            out,
        )
    });
    world.leave(reader);
    world.deliver_mails();
    for _ in 0..10 {
        world.run(0, |kernel, out, now| kernel.work(now, out));
        world.deliver_mails();
    }
    assert!(!world.kernels[0].has_work());
    assert_eq!(world.events(reader), []);
}
