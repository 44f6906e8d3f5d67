//! What waits in a group goes to its members by priority.

use crate::world::{Dice, Taking, Who, World, firm, headers};
use thalweg_kernel::access::Access;
use thalweg_kernel::{Draft, GroupPolicy, GroupStrategy, Limits, OrderKey, Subscribed};
use thalweg_model::{Filter, Reliability, Span};

const ONCE: Reliability = Reliability::AtLeastOnce;
const HOUR: Span = Span::from_secs(3600);
const RED: &str = "colour = 'r'";
const BLUE: &str = "colour = 'b'";

fn limits(strategy: GroupStrategy) -> Limits {
    Limits {
        group_strategy: strategy,
        in_flight_max: 1,
        ..Limits::default()
    }
}

/// The first letter of a message is its colour.
fn publish(world: &mut World, who: Who, text: &str, priority: u8) {
    publish_with(world, who, text, priority, |_| ());
}

fn publish_with(
    world: &mut World,
    who: Who,
    text: &str,
    priority: u8,
    change: impl FnOnce(&mut Draft<'_>),
) {
    let properties = headers(&[("colour", &text[..1])]);
    let mut draft = Draft {
        properties: Some(&properties),
        priority,
        ..firm("t", text)
    };
    change(&mut draft);
    world.publish(who, draft);
}

fn join(world: &mut World, who: Who, filter: Option<&str>) {
    let joined = world.subscribe_if(who, ("t", Some("g")), ONCE, filter);
    assert_eq!(joined, Subscribed::Granted(ONCE));
}

fn member(world: &mut World, shard: usize, expiry: Span, filter: Option<&str>) -> (Who, String) {
    let name = world.name_on(shard);
    let who = world.connect_with(shard, &name, Access::ALL, expiry);
    join(world, who, filter);
    (who, name)
}

/// What a message of the property test says: its priority as it counts, and its number.
fn lane_and_number(text: &str) -> (u8, u32) {
    let (priority, number) = text.split_once(' ').expect("both");
    let priority: u8 = priority.parse().expect("one");
    (priority.min(9), number.parse().expect("one"))
}

fn worlds() -> impl Iterator<Item = (World, Who, usize)> {
    let strategies = [GroupStrategy::Adaptive, GroupStrategy::RoundRobin];
    let all = strategies.into_iter().flat_map(|it| [(it, 1), (it, 2)]);
    all.map(|(strategy, shards)| {
        let mut world = World::with(shards, limits(strategy));
        let publisher = world.connect("p");
        (world, publisher, usize::from(shards) - 1)
    })
}

#[test]
fn the_highest_goes_first_and_each_other_has_twice_the_share_of_the_one_below() {
    for (mut world, publisher, shard) in worlds() {
        let (who, _) = member(&mut world, shard, Span::ZERO, None);
        publish(&mut world, publisher, "first", 0);
        for number in 0..14 {
            for priority in [0, 1, 2, 9] {
                let text = format!("{priority} {number}");
                publish(&mut world, publisher, &text, priority);
            }
        }
        let came = world.works(who);
        assert_eq!(came[0], "first");
        let lane = |text: &String| text[..1].to_owned();
        assert!(came[1..15].iter().all(|it| lane(it) == "9"), "{came:?}");
        let count = |which: &str, of: &[String]| of.iter().filter(|it| lane(it) == which).count();
        let shares = ["0", "1", "2"].map(|which| count(which, &came[15..36]));
        assert_eq!(shares, [3, 6, 12], "{came:?}");
        for priority in ["0", "1", "2", "9"] {
            let of_it = came.iter().filter(|it| lane(it) == priority);
            let expected: Vec<String> = (0..14).map(|it| format!("{priority} {it}")).collect();
            assert!(of_it.eq(&expected), "the order within a priority stays");
        }
        assert_eq!((world.waiting_in_groups(), world.entries_written()), (0, 0));
    }
}

#[test]
fn what_comes_back_is_the_next_of_its_priority() {
    let mut world = World::with(1, limits(GroupStrategy::RoundRobin));
    let who = world.connect("c");
    let taking = Taking {
        credit: 1,
        ..Taking::default()
    };
    assert_eq!(world.consume_from(who, "$g/g/t", 1, taking), Ok(()));
    for (text, priority) in [("x", 0), ("low", 1), ("mid 1", 4), ("mid 2", 4)] {
        publish(&mut world, who, text, priority);
    }
    world.ack(who, 1);
    world.requeue(who, 2);
    publish(&mut world, who, "high", 9);
    let got = world.got(who);
    let shown: Vec<_> = got.iter().map(|it| (&*it.text, it.deliveries)).collect();
    assert_eq!(shown, [("x", 0), ("mid 1", 0), ("mid 1", 1)]);
    world.ack(who, got[2].tag);
    assert_eq!(world.works(who), ["high", "mid 2", "low"]);
}

#[test]
fn what_expires_goes_whatever_waits_before_it() {
    for (mut world, publisher, shard) in worlds() {
        let (who, _) = member(&mut world, shard, Span::ZERO, None);
        publish(&mut world, publisher, "first", 0);
        publish(&mut world, publisher, "stays", 5);
        publish_with(&mut world, publisher, "goes", 2, |draft| {
            draft.expires_in = Some(Span::from_secs(1));
        });
        world.wait(Span::from_secs(2));
        assert_eq!(world.waiting_in_groups(), 1);
        assert_eq!(world.works(who), ["first", "stays"]);
    }
}

#[test]
fn members_with_filters_have_what_they_select_by_priority() {
    for (mut world, publisher, shard) in worlds() {
        let (red, _) = member(&mut world, shard, Span::ZERO, Some(RED));
        let (blue, _) = member(&mut world, 0, Span::ZERO, Some(BLUE));
        for (text, priority) in [
            ("r", 0),
            ("b", 0),
            ("r low", 1),
            ("b low", 1),
            ("r high", 9),
            ("b mid", 4),
            ("r mid", 4),
        ] {
            publish(&mut world, publisher, text, priority);
        }
        assert_eq!(world.works(blue), ["b", "b mid", "b low"]);
        assert_eq!(world.works(red), ["r", "r high", "r mid", "r low"]);
    }
}

#[test]
fn a_group_in_order_keeps_it_whatever_the_priorities() {
    let policy = GroupPolicy {
        order: Some(OrderKey::Publisher),
        ..GroupPolicy::new(Filter::new("t").expect("legal"))
    };
    for shards in [1, 2] {
        let limits = Limits {
            group_policies: [policy.clone()].into(),
            ..limits(GroupStrategy::RoundRobin)
        };
        let mut world = World::with(shards, limits);
        let publisher = world.connect("p");
        let (who, _) = member(&mut world, 0, Span::ZERO, None);
        let mut all = Vec::new();
        for number in 0..20u8 {
            let text = format!("{number}");
            publish(&mut world, publisher, &text, number % 10);
            all.push(text);
        }
        assert_eq!(world.works(who), all);
    }
}

#[test]
fn what_waited_through_a_restart_and_on_disk_goes_by_priority_from_memory_on() {
    for (bytes, shards) in [(usize::MAX, 1), (usize::MAX, 2), (20_000, 1), (20_000, 2)] {
        let limits = Limits {
            named_queue_memory_bytes_max: bytes,
            ..limits(GroupStrategy::RoundRobin)
        };
        let mut world = World::without_prefixes(shards, limits);
        let shard = usize::from(shards) - 1;
        let publisher = world.connect("p");
        let (who, name) = member(&mut world, shard, HOUR, None);
        world.lose(who);
        for number in 0..600u16 {
            let priority = if number % 50 == 49 { 9 } else { 0 };
            publish(
                &mut world,
                publisher,
                &format!("{priority} {number}"),
                priority,
            );
        }
        world.restart();
        let who = world.connect_with(shard, &name, Access::ALL, HOUR);
        let came = world.works(who);
        assert_eq!(came.len(), 600);
        // Some hundreds are read at a time; of what is there the highest goes first.
        let highs = came[..200].iter().filter(|it| it.starts_with('9')).count();
        assert!(highs > 4, "{highs} of 200");
        for priority in ["9", "0"] {
            let numbers = came.iter().filter_map(|it| it.strip_prefix(priority));
            let numbers: Vec<u16> = numbers.map(|it| it.trim().parse().expect("one")).collect();
            assert!(numbers.is_sorted(), "{priority}");
        }
        assert_eq!((world.waiting_in_groups(), world.entries_written()), (0, 0));
    }
}

/// Against the plain rule, by chance: nothing is lost, within a priority the order stays, and 9 goes before all else.
#[test]
fn whatever_happens_the_order_within_a_priority_stays_and_the_highest_is_next() {
    for seed in 0..30 {
        let mut dice = Dice(seed);
        let strategy = [GroupStrategy::Adaptive, GroupStrategy::RoundRobin][dice.roll(2)];
        let shards = 1 + dice.roll(2);
        let mut world = World::with(shards as u16, limits(strategy));
        let publisher = world.connect("p");
        let shard = dice.roll(shards);
        let expiry = HOUR;
        let (mut who, name) = member(&mut world, shard, expiry, None);
        let (mut waiting, mut came) = (Vec::<(u8, u32)>::new(), 0);
        let mut sent = 0;
        // What is with the member, and what it is to have again.
        let mut held: Vec<(u64, (u8, u32))> = Vec::new();
        let mut again = Vec::new();
        for _ in 0..400 {
            match dice.roll(6) {
                0..=2 => {
                    let priority = dice.roll(11) as u8;
                    publish(
                        &mut world,
                        publisher,
                        &format!("{priority} {sent}"),
                        priority,
                    );
                    waiting.push((priority.min(9), sent));
                    sent += 1;
                }
                3 if dice.roll(8) == 0 => {
                    world.lose(who);
                    world.got(who);
                    for (_, it) in held.drain(..) {
                        again.push(it);
                        waiting.push(it);
                    }
                    who = world.connect_with(shard, &name, Access::ALL, expiry);
                }
                _ => {
                    if let Some((tag, _)) = held.pop() {
                        world.settle_delivery(who, tag);
                        came += 1;
                    }
                }
            }
            world.wait(Span::from_millis(1));
            for got in world.got(who) {
                let it = lane_and_number(&got.text);
                let at = waiting.iter().position(|other| *other == it);
                let at = at.unwrap_or_else(|| panic!("seed {seed}: {it:?} is not expected"));
                if !again.contains(&it) {
                    let oldest = waiting.iter().filter(|other| other.0 == it.0).min();
                    assert_eq!(oldest, Some(&it), "seed {seed}");
                    let has_highest = waiting.iter().any(|other| other.0 == 9);
                    assert!(it.0 == 9 || !has_highest, "seed {seed}: {it:?}");
                }
                waiting.remove(at);
                held.push((got.tag, it));
            }
        }
        while !waiting.is_empty() || !held.is_empty() {
            if let Some((tag, _)) = held.pop() {
                world.settle_delivery(who, tag);
                came += 1;
            }
            world.wait(Span::from_millis(1));
            for got in world.got(who) {
                let it = lane_and_number(&got.text);
                let before = waiting.len();
                waiting.retain(|other| *other != it);
                assert_eq!(waiting.len() + 1, before, "seed {seed}: {it:?}");
                held.push((got.tag, it));
            }
        }
        assert_eq!(came, sent, "seed {seed}");
        assert_eq!(world.waiting_in_groups(), 0, "seed {seed}");
    }
}
