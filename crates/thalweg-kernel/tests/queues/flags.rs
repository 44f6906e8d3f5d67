//! Redelivery flags after a start: set for messages that had been delivered, and for no others.

use crate::world::{Taking, Terms, Who, World, firm, q};
use thalweg_kernel::access::Access;
use thalweg_kernel::{Draft, GroupStrategy, Limits, home};
use thalweg_model::{Reliability, Span};

/// Contents of a queue after a start: texts, and whether each is flagged.
fn flags(world: &mut World, queue: &str) -> Vec<(String, bool)> {
    let client = world.connect("reader");
    world.consume(client, queue, 1, Taking::default());
    let got = world
        .got(client)
        .into_iter()
        .map(|got| (got.text, got.deliveries > 0))
        .collect();
    world.lose(client);
    got
}

fn expected(texts: std::ops::Range<u32>, flagged: &[u32]) -> Vec<(String, bool)> {
    texts
        .map(|number| (number.to_string(), flagged.contains(&number)))
        .collect()
}

#[test]
fn a_start_flags_what_was_delivered_and_nothing_else() {
    for (credit, orderly) in [(2, true), (40, true), (3, false), (40, false)] {
        let mut world = World::new();
        let client = world.connect("c");
        world.queue(client, "q", &Terms::durable());
        for number in 0..100 {
            world.put(client, "q", &number.to_string());
        }
        let consumer = world.connect("consumer");
        world.was_held(consumer);
        world.consume(consumer, "q", 1, Taking::credit(credit));
        assert_eq!(world.got(consumer).len(), credit as usize);
        assert!(
            world.was_held(consumer),
            "it has nothing before that is written down"
        );
        if orderly {
            world.lose(consumer);
        }
        // Twice, so that what was known is not forgotten.
        world.restart();
        world.restart();
        let got = flags(&mut world, "q");
        let flagged: Vec<u32> = (0..100).filter(|at| got[*at as usize].1).collect();
        assert_eq!(got, expected(0..100, &flagged), "all of them, in order");
        let most = if orderly { credit } else { 2 * credit };
        assert!(
            flagged.starts_with(&(0..credit).collect::<Vec<_>>()),
            "{credit} were delivered: {flagged:?}"
        );
        assert!(
            flagged.len() <= most as usize,
            "{credit} were delivered, orderly {orderly}: {flagged:?}"
        );
    }
}

#[test]
fn a_message_that_was_delivered_as_it_came_is_flagged_and_what_waits_behind_it_is_not() {
    for orderly in [true, false] {
        let mut world = World::new();
        let client = world.connect("c");
        world.queue(client, "q", &Terms::durable());
        let consumer = world.connect("consumer");
        world.consume(consumer, "q", 1, Taking::credit(1));
        world.was_held(consumer);
        for number in 0..3 {
            world.put(client, "q", &number.to_string());
        }
        assert!(
            !world.was_held(consumer),
            "nothing is written down before it leaves"
        );
        if orderly {
            world.lose(consumer);
        }
        world.restart();
        assert_eq!(flags(&mut world, "q"), expected(0..3, &[0]));
    }
}

#[test]
fn flags_are_exact_where_messages_do_not_leave_in_their_order() {
    let mut world = World::new();
    let client = world.connect("c");
    world.queue(
        client,
        "q",
        &Terms::durable().with(|limits| limits.priority_max = 9),
    );
    for number in 0..6_u32 {
        let address = q("q");
        let priority = u8::from(number % 2 == 1);
        world.publish(
            client,
            Draft {
                priority,
                ..firm(&address, &number.to_string())
            },
        );
    }
    let consumer = world.connect("consumer");
    world.consume(consumer, "q", 1, Taking::credit(2));
    assert_eq!(world.texts(consumer), ["1", "3"]);
    world.lose(consumer);
    world.restart();
    let mut got = flags(&mut world, "q");
    got.sort();
    assert_eq!(got, expected(0..6, &[1, 3]));
    world.restart();
    assert!(
        flags(&mut world, "q").iter().all(|(_, flagged)| *flagged),
        "all have been delivered now"
    );
}

/// A queue with the messages 0 to 9, and a client as far from it as there are shards: a member of a group, or one who takes
/// messages by themselves.
fn far_taker(shards: u16) -> (World, Who) {
    let mut world = World::with(shards, Limits::default());
    let client = world.connect("c");
    world.queue(client, "q", &Terms::durable());
    for number in 0..10 {
        world.put(client, "q", &number.to_string());
    }
    let shard = (world.home() + usize::from(shards) - 1) % usize::from(shards);
    let name = world.name_on(shard);
    let taker = world.connect_with(shard, &name, Access::ALL, Span::ZERO);
    (world, taker)
}

fn ask(world: &mut World, taker: Who, is_member: bool) {
    if is_member {
        world.subscribe(taker, &q("q"), Some("g"), Reliability::AtLeastOnce);
    } else {
        world.ask_apart(taker, "q").expect("it may");
    }
}

fn came(world: &mut World, taker: Who) -> usize {
    let apart = std::iter::from_fn(|| world.taken(taker)).count();
    world.got(taker).len() + apart
}

#[test]
fn nothing_reaches_another_shard_or_one_who_takes_apart_before_it_is_marked() {
    for (shards, is_member) in [(1, false), (2, false), (2, true)] {
        let (mut world, taker) = far_taker(shards);
        world.is_disk_slow = true;
        let before = world.disk.frames();
        ask(&mut world, taker, is_member);
        assert_eq!(came(&mut world, taker), 0, "{shards} shards, {is_member}");
        world.disk.cut(before);
        world.restart();
        world.is_disk_slow = false;
        assert_eq!(flags(&mut world, "q"), expected(0..10, &[]));
        let (mut world, taker) = far_taker(shards);
        world.is_disk_slow = true;
        ask(&mut world, taker, is_member);
        world.sync();
        assert_eq!(came(&mut world, taker), 1, "{shards} shards, {is_member}");
        world.restart();
        let got = flags(&mut world, "q");
        let flagged: &[u32] = if got[1].1 { &[0, 1] } else { &[0] };
        assert_eq!(
            got,
            expected(0..10, flagged),
            "{shards} shards, {is_member}"
        );
    }
}

#[test]
fn a_start_flags_of_what_far_receivers_take_as_many_again_at_most() {
    for (shards, is_member) in [(1, false), (2, false), (2, true)] {
        for most in [2, 5] {
            let (mut world, taker) = far_taker(shards);
            let mut had = 0;
            if is_member {
                ask(&mut world, taker, true);
                had = take_some(&mut world, taker, false, most).len();
                world.wait(Span::from_millis(10));
                had += world.got(taker).len();
            }
            while had < most {
                ask(&mut world, taker, false);
                had += came(&mut world, taker);
            }
            world.restart();
            world.restart();
            let got = flags(&mut world, "q");
            let what = format!("{shards} shards, {is_member}, {had} had left: {got:?}");
            let settled = 10 - got.len();
            assert!(settled == 0 || is_member, "{what}");
            let flagged = got.iter().take_while(|(_, flagged)| *flagged).count();
            assert!(flagged + settled >= had, "{what}");
            assert!(flagged + settled <= 2 * had, "{what}");
            assert!(got[flagged..].iter().all(|(_, flagged)| !flagged), "{what}");
        }
    }
}

#[test]
fn a_long_queue_that_leaves_for_another_shard_is_seldom_marked() {
    let mut world = World::without_prefixes(2, Limits::default());
    let client = world.connect("c");
    world.queue(client, "q", &Terms::durable());
    for number in 0..8_000 {
        world.put(client, "q", &number.to_string());
    }
    let shard = 1 - world.home();
    let name = world.name_on(shard);
    let taker = world.connect_with(shard, &name, Access::ALL, Span::ZERO);
    let mut waited = 0;
    for _ in 0..8_000 {
        world.is_disk_slow = true;
        world.ask_apart(taker, "q").expect("it may");
        if came(&mut world, taker) == 0 {
            waited += 1;
            world.sync();
            assert_eq!(came(&mut world, taker), 1);
        }
        world.sync();
    }
    assert!(waited <= 11, "{waited} waited for the disk");
}

/// A member of the group `g` of `t` that ends with its link: a session, or a consumer of a line.
fn passing_member(world: &mut World, name: &str, is_line: bool) -> Who {
    let member = world.connect(name);
    if is_line {
        world
            .consume_from(member, "$g/g/t", 1, Taking::credit(1))
            .expect("it may");
    } else {
        world.subscribe(member, "t", Some("g"), Reliability::AtLeastOnce);
    }
    member
}

/// Takes and settles what comes to such a member, `most` messages at the most: texts, and whether each came flagged.
fn take_some(world: &mut World, member: Who, is_line: bool, most: usize) -> Vec<(String, bool)> {
    let mut all = Vec::new();
    while all.len() < most {
        // Its work; the group may put the next one off until then.
        world.wait(Span::from_millis(10));
        let got = world.got(member);
        if got.is_empty() {
            break;
        }
        for got in got {
            all.push((got.text, got.deliveries > 0));
            if is_line {
                world.ack(member, got.tag);
            } else {
                world.settle_delivery(member, got.tag);
            }
        }
    }
    all
}

#[test]
fn a_start_flags_what_a_passing_member_of_a_group_had_and_nothing_else() {
    for is_line in [false, true] {
        for settled in [0, 1, 5, 20] {
            let mut world = World::new();
            let publisher = world.connect("publisher");
            // A group is kept for members that stay.
            let keeper = world.connect_with(0, "keeper", Access::ALL, Span::from_secs(3_600));
            world.subscribe(keeper, "t", Some("g"), Reliability::AtLeastOnce);
            world.lose(keeper);
            let member = passing_member(&mut world, "member", is_line);
            for number in 0..50 {
                world.publish(publisher, firm("t", &number.to_string()));
            }
            let done = take_some(&mut world, member, is_line, settled).len();
            world.wait(Span::from_millis(10));
            let had = world.texts(member);
            assert!(!had.is_empty(), "it has one that it has not settled");
            // Twice, so that what was known is not forgotten.
            world.restart();
            world.restart();
            let other = passing_member(&mut world, "other", is_line);
            let got = take_some(&mut world, other, is_line, usize::MAX);
            let what = format!("lines {is_line}, {done} settled: {got:?}");
            assert_eq!(got.len(), 50 - done, "{what}");
            let flagged: Vec<&String> = got.iter().filter(|it| it.1).map(|it| &it.0).collect();
            assert!(
                had.iter().all(|text| flagged.contains(&text)),
                "{had:?} had left; {what}"
            );
            // As many again as were delivered may have been, for all that is written down.
            let most = if done == 0 {
                had.len()
            } else {
                done + 2 * had.len()
            };
            assert!(flagged.len() <= most, "{had:?} had left; {what}");
        }
    }
}

/// The group `g` of `t`, kept for a member that stays, where the messages 0 to 9 wait.
fn waiting_group(shards: u16) -> World {
    let limits = Limits {
        group_strategy: GroupStrategy::RoundRobin,
        ..Limits::default()
    };
    let mut world = World::with(shards, limits);
    let shard = owner_of_group(shards);
    let (publisher, keeper) = (world.name_on(shard), world.name_on(shard));
    let publisher = world.connect_with(shard, &publisher, Access::ALL, Span::ZERO);
    let keeper = world.connect_with(shard, &keeper, Access::ALL, Span::from_secs(3_600));
    world.subscribe(keeper, "t", Some("g"), Reliability::AtLeastOnce);
    world.lose(keeper);
    for number in 0..10 {
        world.publish(publisher, firm("t", &number.to_string()));
    }
    assert_eq!(world.waiting_in_groups(), 10);
    world
}

fn owner_of_group(shards: u16) -> usize {
    usize::from(home("g/t", shards).0)
}

/// A member of that group on another shard than its owner.
fn far_member(world: &mut World) -> Who {
    let shard = 1 - owner_of_group(2);
    let name = world.name_on(shard);
    world.connect_with(shard, &name, Access::ALL, Span::ZERO)
}

/// Contents of that group after a start: the number of flagged messages, and whether these are the first.
fn flagged_of_group(world: &mut World) -> (usize, bool) {
    let reader = world.connect("reader");
    world.subscribe(reader, "t", Some("g"), Reliability::AtLeastOnce);
    let got = take_some(world, reader, false, usize::MAX);
    let flags: Vec<bool> = got.iter().map(|it| it.1).collect();
    let count = flags.iter().filter(|flag| **flag).count();
    (count, flags.iter().take(count).all(|flag| *flag))
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Member {
    Passing,
    Line,
    Staying,
}

/// A member that joins, and then has room for one message; whether that is held.
fn narrow_member(world: &mut World, name: &str, member: Member) -> bool {
    let expiry = Span::from_secs(if member == Member::Staying { 3_600 } else { 0 });
    let who = world.connect_with(0, name, Access::ALL, expiry);
    world.set_room(who, 0);
    if member == Member::Line {
        world
            .consume_from(who, "$g/g/t", 1, Taking::default())
            .expect("it may");
    } else {
        world.subscribe(who, "t", Some("g"), Reliability::AtLeastOnce);
    }
    // Its session and its subscription may have been.
    world.was_held(who);
    world.make_room(who, 1);
    assert_eq!(world.texts(who).len(), 1, "{member:?}");
    world.was_held(who)
}

#[test]
fn no_member_of_a_group_is_sent_what_waited_before_a_mark_that_covers_it_is_safe() {
    for member in [Member::Passing, Member::Line, Member::Staying] {
        let mut world = waiting_group(1);
        world.is_disk_slow = true;
        let held = ["a", "b", "c"].map(|name| narrow_member(&mut world, name, member));
        assert!(held[2], "the second mark covers the third: {member:?}");
        assert_eq!(held, [true; 3], "{member:?}");
        world.sync();
        let held = ["d", "e"].map(|name| narrow_member(&mut world, name, member));
        assert_eq!(held, [false; 2], "{member:?}");
    }
}

#[test]
fn nothing_that_waited_in_a_group_leaves_for_another_shard_before_it_is_marked() {
    let mut world = waiting_group(2);
    world.is_disk_slow = true;
    let before = world.disk.frames();
    let member = far_member(&mut world);
    world.subscribe(member, "t", Some("g"), Reliability::AtLeastOnce);
    assert_eq!(world.got(member), []);
    world.disk.cut(before);
    world.restart();
    world.is_disk_slow = false;
    assert_eq!(flagged_of_group(&mut world), (0, true));

    let mut world = waiting_group(2);
    world.is_disk_slow = true;
    let member = far_member(&mut world);
    world.subscribe(member, "t", Some("g"), Reliability::AtLeastOnce);
    world.sync();
    world.is_disk_slow = true;
    world.wait(Span::from_millis(10));
    let had = world.got(member).len();
    assert!(had > 0, "it is marked now");
    world.restart();
    world.is_disk_slow = false;
    let (flagged, are_first) = flagged_of_group(&mut world);
    // The one that waits for its mark may be marked as well.
    assert!(
        are_first && flagged >= had && flagged <= 2 * had + 1,
        "{flagged} of {had}"
    );
}

#[test]
fn what_comes_into_a_group_for_another_shard_is_written_down_as_delivered() {
    let mut world = World::with(2, Limits::default());
    let shard = owner_of_group(2);
    let names = [(); 2].map(|()| world.name_on(shard));
    let publisher = world.connect_with(shard, &names[0], Access::ALL, Span::ZERO);
    let keeper = world.connect_with(shard, &names[1], Access::ALL, Span::from_secs(3_600));
    world.subscribe(keeper, "t", Some("g"), Reliability::AtLeastOnce);
    world.lose(keeper);
    let member = far_member(&mut world);
    world.subscribe(member, "t", Some("g"), Reliability::AtLeastOnce);
    let before = world.disk.frames();
    world.publish(publisher, firm("t", "0"));
    assert_eq!(world.texts(member), ["0"]);
    // The owner's records are on disk, and none of the member's shard.
    world.disk.cut(before + 1);
    world.restart();
    assert_eq!(flagged_of_group(&mut world), (1, true));
}
