//! Messages that wait in a group beyond its share of memory are on disk.

use crate::world::{Taking, Who, World, firm};
use std::sync::Arc;
use thalweg_kernel::access::Access;
use thalweg_kernel::{DropReason, GroupPolicy, GroupStrategy, Limits, OrderKey, Outcome, Pressure};
use thalweg_model::{Filter, Reliability, Span};

const ONCE: Reliability = Reliability::AtLeastOnce;
const HOUR: Span = Span::from_secs(3600);
const MEMORY: usize = 2000;

fn world(shards: u16, order: Option<OrderKey>) -> World {
    let policy = GroupPolicy {
        order,
        ..GroupPolicy::new(Filter::new("t/#").expect("legal"))
    };
    let limits = Limits {
        group_strategy: GroupStrategy::RoundRobin,
        group_policies: Arc::new([policy]),
        named_queue_memory_bytes_max: MEMORY,
        in_flight_max: 7,
        ..Limits::default()
    };
    World::without_prefixes(shards, limits)
}

/// A member of the group `g` on `t/#`.
fn member(world: &mut World, shard: usize, name: &str, expiry: Span) -> Who {
    let who = world.connect_with(shard, name, Access::ALL, expiry);
    world.subscribe(who, "t/#", Some("g"), ONCE);
    who
}

fn publish(world: &mut World, count: usize) {
    let publisher = world.connect("p");
    for number in 0..count {
        let text = number.to_string();
        let outcome = world.publish(publisher, firm("t/a", &text));
        assert_eq!(outcome, Outcome::Accepted, "{text}");
    }
    world.lose(publisher);
}

/// Settles whatever members are given, until nothing comes: numbers in the order in which they came.
fn work(world: &mut World, members: &[Who]) -> Vec<usize> {
    let mut numbers = Vec::new();
    loop {
        let before = numbers.len();
        for who in members {
            for got in world.got(*who) {
                numbers.push(got.text.parse().expect("a number"));
                world.settle_delivery(*who, got.tag);
            }
        }
        world.wait(Span::from_millis(1));
        if numbers.len() == before {
            return numbers;
        }
    }
}

fn held(world: &World) -> usize {
    world
        .kernels
        .iter()
        .map(|kernel| kernel.totals().queued_bytes)
        .sum()
}

#[test]
fn a_long_queue_of_a_group_is_on_disk_and_comes_in_its_order() {
    for order in [None, Some(OrderKey::Address)] {
        for restarts in [false, true] {
            let mut world = world(1, order);
            let first = member(&mut world, 0, "m", HOUR);
            world.lose(first);
            publish(&mut world, 1500);
            if restarts {
                world.restart();
            }
            assert_eq!(
                (world.waiting_in_groups(), world.entries_written()),
                (1500, 1500)
            );
            let held = held(&world);
            assert!(held < 2 * MEMORY + 1500 * 40, "{held} bytes in memory");
            let member = member(&mut world, 0, "m", HOUR);
            let numbers = work(&mut world, &[member]);
            assert_eq!(
                numbers,
                (0..1500).collect::<Vec<_>>(),
                "{order:?}, {restarts}"
            );
            assert_eq!((world.waiting_in_groups(), world.entries_written()), (0, 0));
        }
    }
}

#[test]
fn members_of_other_shards_get_what_is_on_disk() {
    let mut world = world(3, None);
    let names: Vec<String> = (0..3).map(|shard| world.name_on(shard)).collect();
    let stays = member(&mut world, 0, &names[0], HOUR);
    world.lose(stays);
    publish(&mut world, 400);
    let members: Vec<Who> = (0..3)
        .map(|shard| member(&mut world, shard, &names[shard], HOUR))
        .collect();
    // Messages of a lost member are delivered before those on disk.
    let held: Vec<usize> = world
        .got(members[1])
        .iter()
        .map(|got| got.text.parse().expect("a number"))
        .collect();
    world.lose(members[1]);
    let mut numbers = work(&mut world, &[members[0], members[2]]);
    assert!(!held.is_empty() && held.iter().all(|held| numbers.contains(held)));
    numbers.sort_unstable();
    assert_eq!(numbers, (0..400).collect::<Vec<_>>());
    assert_eq!((world.waiting_in_groups(), world.entries_written()), (0, 0));
}

#[test]
fn what_is_on_disk_stays_written_when_the_last_durable_member_leaves() {
    let mut world = world(1, None);
    let durable = member(&mut world, 0, "m", HOUR);
    world.lose(durable);
    let client = world.connect("c");
    world
        .consume_from(client, "$g/g/t/#", 1, Taking::credit(1))
        .expect("it may");
    publish(&mut world, 300);
    let durable = world.connect_with(0, "m", Access::ALL, HOUR);
    world.unsubscribe(durable, "t/#", Some("g"));
    let mut texts: Vec<usize> = Vec::new();
    for _ in 0..400 {
        for got in world.got(durable) {
            world.settle_delivery(durable, got.tag);
            texts.push(got.text.parse().expect("a number"));
        }
        for got in world.got(client) {
            world.ack(client, got.tag);
            texts.push(got.text.parse().expect("a number"));
        }
    }
    texts.sort_unstable();
    assert_eq!(texts, (0..300).collect::<Vec<_>>());
    assert_eq!((world.waiting_in_groups(), world.entries_written()), (0, 0));
    assert_eq!(
        world.groups_written(),
        0,
        "nothing of the group is written any more"
    );
}

#[test]
fn what_is_on_disk_ends_with_its_group() {
    let mut world = world(1, None);
    let durable = member(&mut world, 0, "m", HOUR);
    world.lose(durable);
    publish(&mut world, 300);
    let durable = world.connect_with(0, "m", Access::ALL, Span::ZERO);
    let given = world.got(durable).len() as u64;
    world.lose(durable);
    assert_eq!((world.waiting_in_groups(), world.entries_written()), (0, 0));
    assert!(world.dropped(DropReason::GroupEnded) + given >= 300);
    assert_eq!(held(&world), 0);
    world.restart();
    assert_eq!(world.groups_written(), 0);
}

#[test]
fn short_of_memory_a_written_group_goes_on_taking() {
    let mut world = world(1, None);
    let durable = member(&mut world, 0, "m", HOUR);
    world.lose(durable);
    let view = thalweg_kernel::MemoryView {
        pressure: Pressure::DropWaiting,
        ..thalweg_kernel::MemoryView::default()
    };
    world.kernels[0].set_memory(view);
    publish(&mut world, 20);
    assert_eq!(world.waiting_in_groups(), 20);
    world.kernels[0].set_memory(thalweg_kernel::MemoryView::default());
    let member = member(&mut world, 0, "m", HOUR);
    assert_eq!(work(&mut world, &[member]), (0..20).collect::<Vec<_>>());
}
