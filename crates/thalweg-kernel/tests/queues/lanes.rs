//! What waits for a session leaves by priority.

use crate::dice::Dice;
use crate::world::{Who, World, firm};
use std::collections::BTreeMap;
use thalweg_kernel::access::Access;
use thalweg_kernel::{Draft, DropReason, Limits, Overflow, Policy};
use thalweg_model::{Filter, Reliability, Span};

const ONCE: Reliability = Reliability::AtLeastOnce;
const HOUR: Span = Span::from_secs(3600);
const EACH: [Reliability; 3] = [Reliability::AtMostOnce, ONCE, Reliability::ExactlyOnce];

fn ranked<'a>(
    address: &'a str,
    text: &'a str,
    priority: u8,
    reliability: Reliability,
) -> Draft<'a> {
    Draft {
        priority,
        reliability,
        ..firm(address, text)
    }
}

/// Takes all that has arrived, and settles it; what it was.
fn take(world: &mut World, who: Who) -> Vec<(u8, String)> {
    let got = world.got(who);
    for got in got.iter().filter(|got| got.settles) {
        world.run(who.shard, |kernel, out, now| {
            kernel.receive(who.session, got.tag as u16, now, out)
        });
        world.settle_delivery(who, got.tag);
    }
    got.into_iter()
        .map(|got| (got.priority, got.text))
        .collect()
}

/// Publishes, and releases what is published exactly once.
fn publish(world: &mut World, who: Who, draft: Draft<'_>) {
    world.publish(who, Draft { ticket: 1, ..draft });
    world.run(who.shard, |kernel, out, _| {
        kernel.release(who.session, 1, out)
    });
}

fn texts(got: &[(u8, String)]) -> Vec<&str> {
    got.iter().map(|(_, text)| text.as_str()).collect()
}

/// A receiver takes four messages in each of 400 turns. Messages of priority 9 come in every third, beside so many of others;
/// how many others are sent before each of priority 9.
fn others_before_nines(reliability: Reliability, shards: u16, flood: &[u8]) -> Vec<usize> {
    let mut world = World::without_prefixes(shards, Limits::default());
    let names = [0, usize::from(shards) - 1].map(|shard| (shard, world.name_on(shard)));
    let [slow, publisher] =
        names.map(|(shard, name)| world.connect_with(shard, &name, Access::ALL, Span::ZERO));
    world.subscribe(slow, "t/#", None, reliability);
    world.set_room(slow, 4);
    let (mut before, mut since) = (Vec::new(), 0);
    for turn in 0..400 {
        for priority in flood {
            publish(
                &mut world,
                publisher,
                ranked("t/flood", "", *priority, reliability),
            );
        }
        if turn % 3 == 0 {
            publish(&mut world, publisher, ranked("t/alarm", "", 9, reliability));
            since = 0;
        }
        world.make_room(slow, 4);
        for (priority, _) in take(&mut world, slow) {
            match priority {
                9 => before.push(since),
                _ => since += 1,
            }
        }
    }
    before.sort_unstable();
    before
}

#[test]
fn the_highest_priority_waits_under_a_flood_hardly_longer_than_alone() {
    for (reliability, shards) in EACH.into_iter().flat_map(|it| [(it, 1), (it, 2)]) {
        for flood in [&[4; 12][..], &[0; 12], &[0, 4, 8, 8, 8, 8, 8, 8, 8, 8]] {
            // What is counted is a message and those before it.
            let p99 = |before: &[usize]| before[before.len() * 99 / 100] + 1;
            let alone = p99(&others_before_nines(reliability, shards, &[]));
            let before = others_before_nines(reliability, shards, flood);
            assert_eq!(before.len(), 134, "all arrive: {reliability:?}");
            // Four may be in the output when it comes.
            let flooded = p99(&before).saturating_sub(4);
            assert!(
                flooded <= 3 * alone,
                "{flooded} with others, {alone} alone: {reliability:?}, {shards} shards"
            );
        }
    }
}

#[test]
fn the_lowest_priority_is_served_though_all_others_have_more_than_fits() {
    let mut world = World::without_prefixes(1, Limits::default());
    let (slow, publisher) = (world.connect("slow"), world.connect("publisher"));
    world.subscribe(slow, "t/#", None, ONCE);
    world.set_room(slow, 0);
    for priority in 0..9 {
        for _ in 0..600 {
            publish(&mut world, publisher, ranked("t", "", priority, ONCE));
        }
    }
    let mut counts = [0; 9];
    for _ in 0..2 * 511 {
        world.make_room(slow, 1);
        for (priority, _) in take(&mut world, slow) {
            counts[usize::from(priority)] += 1;
        }
    }
    assert_eq!(counts, [2, 4, 8, 16, 32, 64, 128, 256, 512]);
}

#[test]
fn a_policy_gives_the_priorities_and_one_address_keeps_its_order() {
    let policy = |filter, priority| Policy {
        priority_min: Some(priority),
        ..Policy::new(Filter::new(filter).expect("a filter"))
    };
    let mut world = World::with(
        1,
        Limits {
            policies: [policy("t/alarm", 9), policy("t/log", 2)].into(),
            ..Limits::default()
        },
    );
    let (slow, publisher) = (world.connect("slow"), world.connect("publisher"));
    for filter in ["t/#", "a"] {
        world.subscribe(slow, filter, None, ONCE);
    }
    world.set_room(slow, 1);
    for (address, text) in [
        ("a", "sent"),
        ("a", "1"),
        ("t/log", "2"),
        ("t/alarm", "3"),
        ("t/log", "4"),
        ("t/alarm", "5"),
        ("a", "6"),
    ] {
        publish(&mut world, publisher, firm(address, text));
    }
    world.make_room(slow, 10);
    assert_eq!(
        texts(&take(&mut world, slow)),
        ["sent", "3", "5", "2", "4", "1", "6"]
    );
}

#[test]
fn what_waited_for_a_session_that_was_away_leaves_by_priority_also_in_the_next_process() {
    for restarts in [false, true] {
        let mut world = World::without_prefixes(
            1,
            Limits {
                journal: true,
                ..Limits::default()
            },
        );
        let publisher = world.connect("publisher");
        let away = world.connect_with(0, "away", Access::ALL, HOUR);
        world.subscribe(away, "t", None, ONCE);
        world.lose(away);
        for (number, priority) in [0, 4, 9, 4, 0, 9].into_iter().enumerate() {
            publish(
                &mut world,
                publisher,
                ranked("t", &number.to_string(), priority, ONCE),
            );
        }
        if restarts {
            world.restart();
        }
        let back = world.connect_with(0, "away", Access::ALL, HOUR);
        let got = take(&mut world, back);
        assert_eq!(texts(&got), ["2", "5", "1", "3", "0", "4"], "{restarts}");
        assert_eq!(world.entries_written(), 0, "all is settled");
    }
}

#[test]
fn what_waits_on_disk_does_not_hold_up_another_priority() {
    let mut world = World::without_prefixes(
        1,
        Limits {
            journal: true,
            queue_memory_bytes_max: 4 << 10,
            ..Limits::default()
        },
    );
    let publisher = world.connect("publisher");
    let slow = world.connect_with(0, "slow", Access::ALL, HOUR);
    world.subscribe(slow, "t", None, ONCE);
    world.set_room(slow, 0);
    let body = "x".repeat(100);
    for _ in 0..2000 {
        publish(&mut world, publisher, ranked("t", &body, 4, ONCE));
    }
    publish(&mut world, publisher, ranked("t", "first", 9, ONCE));
    publish(&mut world, publisher, ranked("t", "last", 4, ONCE));
    world.make_room(slow, 1);
    assert_eq!(texts(&take(&mut world, slow)), ["first"]);
    let mut got = Vec::new();
    for _ in 0..30 {
        world.make_room(slow, 100);
        got.extend(take(&mut world, slow));
    }
    assert_eq!((got.len(), got[2000].1.as_str()), (2001, "last"));
}

#[test]
fn a_receiver_that_may_have_one_unsettled_gets_the_highest_next() {
    let mut world = World::without_prefixes(
        1,
        Limits {
            in_flight_max: 1,
            ..Limits::default()
        },
    );
    let (one, publisher) = (world.connect("one"), world.connect("publisher"));
    world.subscribe(one, "t", None, Reliability::ExactlyOnce);
    for (text, priority) in [("a", 4), ("b", 4), ("c", 9), ("d", 5)] {
        publish(
            &mut world,
            publisher,
            ranked("t", text, priority, Reliability::ExactlyOnce),
        );
    }
    for expected in ["a", "c", "d", "b"] {
        assert_eq!(texts(&take(&mut world, one)), [expected]);
    }
}

#[test]
fn in_a_full_queue_the_lowest_priority_gives_way_and_never_a_higher_one() {
    let mut world = World::without_prefixes(
        1,
        Limits {
            queue_messages_max: 3,
            overflow: Overflow::DropOldest,
            ..Limits::default()
        },
    );
    let (slow, publisher) = (world.connect("slow"), world.connect("publisher"));
    world.subscribe(slow, "t", None, ONCE);
    world.set_room(slow, 0);
    for (text, priority) in [
        ("a", 4),
        ("b", 2),
        ("c", 9),
        ("d", 9),
        ("e", 3),
        ("f", 9),
        ("g", 9),
    ] {
        publish(&mut world, publisher, ranked("t", text, priority, ONCE));
    }
    assert_eq!(world.dropped(DropReason::QueueFull), 4);
    world.make_room(slow, 10);
    assert_eq!(texts(&take(&mut world, slow)), ["d", "f", "g"]);
}

#[test]
fn at_most_once_so_much_of_each_priority_waits_and_the_newest_is_dropped() {
    let mut world = World::without_prefixes(1, Limits::default());
    let (slow, publisher) = (world.connect("slow"), world.connect("publisher"));
    world.subscribe(slow, "t", None, Reliability::AtMostOnce);
    world.set_room(slow, 0);
    let large = "x".repeat(100_000);
    for (text, priority) in [(&*large, 4); 5].into_iter().chain([("alarm", 9)]) {
        publish(
            &mut world,
            publisher,
            ranked("t", text, priority, Reliability::AtMostOnce),
        );
    }
    assert_eq!(world.dropped(DropReason::SlowReceiver), 3);
    world.make_room(slow, 10);
    let got = take(&mut world, slow);
    let priorities: Vec<_> = got.iter().map(|(priority, _)| *priority).collect();
    assert_eq!(priorities, [9, 4, 4]);
}

/// Whatever rooms, restarts, spills and members of groups there are, nothing at least once is lost, and within a priority
/// nothing overtakes.
#[test]
fn any_run_keeps_the_order_within_a_priority_and_loses_nothing() {
    for seed in 0..12 {
        let mut dice = Dice(seed);
        let mut world = World::without_prefixes(
            1,
            Limits {
                journal: true,
                queue_memory_bytes_max: 1 << 10,
                in_flight_max: 3,
                ..Limits::default()
            },
        );
        let mut publisher = world.connect("publisher");
        let mut reader = world.connect_with(0, "reader", Access::ALL, HOUR);
        world.subscribe(reader, "t", None, ONCE);
        world.subscribe(reader, "g", Some("group"), ONCE);
        let (mut published, mut got) = (0, BTreeMap::<u8, Vec<usize>>::new());
        let mut note = |of: Vec<(u8, String)>| {
            for (priority, text) in of {
                let numbers = got.entry(priority).or_default();
                let number: usize = text.parse().expect("a number");
                // Of a group's, and what was sent before a connection was lost, some come again.
                if !numbers.contains(&number) {
                    numbers.push(number);
                }
            }
        };
        for _ in 0..400 {
            match dice.roll(20) {
                0..10 => {
                    let priority = [0, 1, 4, 8, 9][dice.roll(5)];
                    let text = published.to_string();
                    published += 1;
                    publish(&mut world, publisher, ranked("t", &text, priority, ONCE));
                }
                10 => publish(&mut world, publisher, ranked("g", "0", 5, ONCE)),
                11..18 => {
                    world.make_room(reader, dice.roll(4));
                    note(take(&mut world, reader));
                }
                18 => {
                    world.lose(reader);
                    reader = world.connect_with(0, "reader", Access::ALL, HOUR);
                }
                _ => {
                    world.restart();
                    publisher = world.connect("publisher");
                    reader = world.connect_with(0, "reader", Access::ALL, HOUR);
                }
            }
        }
        for _ in 0..published + 200 {
            world.make_room(reader, 4);
            note(take(&mut world, reader));
        }
        got.remove(&5);
        assert_eq!(
            got.values().map(Vec::len).sum::<usize>(),
            published,
            "seed {seed}"
        );
        for (priority, numbers) in &got {
            assert!(
                numbers.is_sorted(),
                "seed {seed}, priority {priority}: {numbers:?}"
            );
        }
    }
}
