//! Members of groups that take from a queue, with content filters: each message goes to one whose filter it passes, and what passes
//! none waits for others.

use crate::world::{Dice, Taking, Terms, Who, World, firm, headers, q, to_queue};
use thalweg_kernel::access::{Access, Otherwise, Permission, Permissions, Rule, Rules};
use thalweg_kernel::{Closing, Draft, GroupPolicy, GroupStrategy, Limits, OrderKey, Subscribed};
use thalweg_model::{Filter, Reliability, Span};

const ONCE: Reliability = Reliability::AtLeastOnce;
const HOUR: Span = Span::from_secs(3600);
const RED: &str = "colour = 'r'";
const BLUE: &str = "colour = 'b'";

/// Puts messages into queue `q`; the first letter of each is its colour.
fn put(world: &mut World, who: Who, texts: &[&str]) {
    for text in texts {
        put_with(world, who, text, |_| ());
    }
}

fn put_with(world: &mut World, who: Who, text: &str, change: impl FnOnce(&mut Draft<'_>)) {
    let (address, properties) = (q("q"), headers(&[("colour", &text[..1])]));
    let mut draft = Draft {
        properties: Some(&properties),
        ..firm(&address, text)
    };
    change(&mut draft);
    world.publish(who, draft);
}

fn join(world: &mut World, who: Who, group: &str, filter: Option<&str>) {
    let joined = world.subscribe_if(who, (&q("q"), Some(group)), ONCE, filter);
    assert_eq!(joined, Subscribed::Granted(ONCE));
}

/// A session on that shard, in group `g` with that filter.
fn member(world: &mut World, shard: usize, expiry: Span, filter: Option<&str>) -> Who {
    let name = world.name_on(shard);
    let who = world.connect_with(shard, &name, Access::ALL, expiry);
    join(world, who, "g", filter);
    who
}

/// Worlds of some shards, each with a queue, its declarer, and shards for two members.
fn worlds(limits: &Limits) -> impl Iterator<Item = (World, Who, [usize; 2])> {
    let places = [(1, [0, 0]), (2, [0, 1]), (2, [1, 0]), (3, [1, 2])];
    places.into_iter().map(|(shards, places)| {
        let mut world = World::with(shards, limits.clone());
        let any = world.connect("any");
        world.queue(any, "q", &Terms::durable());
        (world, any, places)
    })
}

fn in_turns() -> Limits {
    Limits {
        group_strategy: GroupStrategy::RoundRobin,
        ..Limits::default()
    }
}

#[test]
fn each_gets_what_passes_its_filter_and_the_rest_waits_for_others() {
    for (mut world, any, places) in worlds(&in_turns()) {
        put(&mut world, any, &["r1", "b1", "x1"]);
        let red = member(&mut world, places[0], Span::ZERO, Some(RED));
        let blue = member(&mut world, places[1], Span::ZERO, Some(BLUE));
        put(&mut world, any, &["x2", "b2", "r2", "r3"]);
        assert_eq!(world.works(red), ["r1", "r2", "r3"]);
        assert_eq!(world.works(blue), ["b1", "b2"]);
        assert_eq!((world.waits("q"), world.waiting_in_groups()), (2, 0));
        // A consumer has what it selects of the rest; one without a filter has what is left.
        world.consume(any, "q", 1, Taking::selected("colour = 'x'"));
        assert_eq!(world.works(any), ["x1", "x2"]);
        world.cancel(any, 1, 1);
        put(&mut world, any, &["x3", "r4"]);
        world.consume(any, "q", 2, Taking::default());
        assert_eq!(world.works(any), ["x3"]);
        assert_eq!(world.works(red), ["r4"]);
        assert_eq!((world.waits("q"), world.entries_written()), (0, 0));
    }
}

#[test]
fn one_without_room_holds_up_no_other_and_its_own_order_stays() {
    for strategy in [GroupStrategy::Adaptive, GroupStrategy::RoundRobin] {
        let limits = Limits {
            group_strategy: strategy,
            in_flight_max: 2,
            ..Limits::default()
        };
        for (mut world, any, places) in worlds(&limits) {
            let red = member(&mut world, places[0], Span::ZERO, Some(RED));
            let blue = member(&mut world, places[1], Span::ZERO, Some(BLUE));
            let reds: Vec<String> = (0..300).map(|number| format!("r{number}")).collect();
            for text in &reds {
                put(&mut world, any, &[text]);
            }
            put(&mut world, any, &["b1", "x", "b2"]);
            world.wait(Span::from_millis(1));
            assert_eq!(world.works(blue), ["b1", "b2"], "{strategy:?}");
            assert!(world.waits("q") > 290, "{strategy:?}");
            assert_eq!(world.works(red), reds, "{strategy:?}");
            assert_eq!(world.waits("q"), 1, "{strategy:?}");
        }
    }
}

#[test]
fn a_session_in_two_groups_has_a_filter_in_each() {
    let mut world = World::in_turns(1);
    let who = world.connect("any");
    join(&mut world, who, "one", Some(RED));
    join(&mut world, who, "two", Some(BLUE));
    put(&mut world, who, &["x1", "r1", "b1"]);
    assert_eq!(world.works(who), ["r1", "b1"]);
    world.unsubscribe(who, &q("q"), Some("one"));
    put(&mut world, who, &["r2", "b2"]);
    assert_eq!(world.works(who), ["b2"]);
    world.unsubscribe(who, &q("q"), Some("two"));
    put(&mut world, who, &["b3"]);
    let left: Vec<String> = world.drain_texts("q");
    assert_eq!(left, ["x1", "r2", "b3"]);
}

#[test]
fn another_filter_holds_for_what_waits() {
    for (mut world, any, [place, _]) in worlds(&in_turns()) {
        let who = member(&mut world, place, Span::ZERO, Some(RED));
        put(&mut world, any, &["b1", "x1", "r1"]);
        assert_eq!(world.works(who), ["r1"]);
        join(&mut world, who, "g", Some(BLUE));
        assert_eq!(world.works(who), ["b1"]);
        put(&mut world, any, &["r2", "b2"]);
        assert_eq!(world.works(who), ["b2"]);
        join(&mut world, who, "g", None);
        assert_eq!(world.works(who), ["x1", "r2"]);
        join(&mut world, who, "g", Some(BLUE));
        world.unsubscribe(who, &q("q"), Some("g"));
        put(&mut world, any, &["b3"]);
        world.consume(any, "q", 1, Taking::default());
        assert_eq!(world.works(any), ["b3"]);
    }
}

#[test]
fn what_a_member_leaves_goes_to_another_whom_it_passes_flagged_and_first() {
    for (mut world, any, places) in worlds(&in_turns()) {
        let first = member(&mut world, places[0], Span::ZERO, Some(RED));
        put(&mut world, any, &["r1", "x1", "r2"]);
        let blue = member(&mut world, places[0], Span::ZERO, Some(BLUE));
        let other = member(&mut world, places[1], Span::ZERO, Some(RED));
        world.lose(first);
        put(&mut world, any, &["r3"]);
        let got = world.got(other);
        let shown: Vec<_> = got
            .iter()
            .map(|it| (&*it.text, it.deliveries > 0))
            .collect();
        assert_eq!(shown, [("r1", true), ("r2", true), ("r3", false)]);
        assert!(world.got(blue).is_empty());
        assert_eq!(world.waits("q"), 1);
    }
}

#[test]
fn filters_of_sessions_that_wait_are_there_after_a_restart() {
    for shards in [1, 2] {
        let mut world = World::in_turns(shards);
        let any = world.connect("any");
        world.queue(any, "q", &Terms::durable());
        let shard = usize::from(shards) - 1;
        let name = world.name_on(shard);
        let red = world.connect_with(shard, &name, Access::ALL, HOUR);
        join(&mut world, red, "g", Some(RED));
        put(&mut world, any, &["x1", "r1"]);
        world.lose(red);
        put(&mut world, any, &["b1", "r2"]);
        world.restart();
        let any = world.connect("any");
        put(&mut world, any, &["x2", "r3"]);
        let red = world.connect_with(shard, &name, Access::ALL, HOUR);
        assert_eq!(world.works(red), ["r1", "r2", "r3"], "{shards} shards");
        assert_eq!(world.drain_texts("q"), ["x1", "b1", "x2"]);
    }
}

#[test]
fn a_queue_that_ends_and_comes_again_is_looked_at_anew() {
    let mut world = World::in_turns(1);
    let any = world.connect("any");
    world.queue(any, "q", &Terms::durable());
    let red = member(&mut world, 0, Span::ZERO, Some(RED));
    put(&mut world, any, &["x1", "x2", "x3", "r1"]);
    assert_eq!(world.works(red), ["r1"]);
    assert_eq!(world.delete_queue(any, "q"), Ok(3));
    let terms = Terms::durable().with(|limits| limits.priority_max = 3);
    world.queue(any, "q", &terms);
    put(&mut world, any, &["r2", "x4"]);
    put_with(&mut world, any, "r3", |draft| draft.priority = 3);
    assert_eq!(world.works(red), ["r2", "r3"]);
}

#[test]
fn the_queues_priorities_and_its_dead_letters_stay_as_they_are() {
    let limits = Limits {
        in_flight_max: 1,
        ..in_turns()
    };
    let mut world = World::with(1, limits);
    let any = world.connect("any");
    world.queue(any, "dead", &Terms::durable());
    let terms = Terms::durable().with(|limits| {
        limits.priority_max = 3;
        limits.dead_letter = to_queue("dead");
    });
    world.queue(any, "q", &terms);
    let red = member(&mut world, 0, Span::ZERO, Some(RED));
    for (text, priority) in [("r0", 0), ("r1", 1), ("x3", 3), ("r3", 3), ("r2", 2)] {
        put_with(&mut world, any, text, |draft| {
            draft.priority = priority;
            draft.expires_in = Some(Span::from_secs(5));
        });
    }
    assert_eq!(world.works(red), ["r0", "r3", "r2", "r1"]);
    world.wait(Span::from_secs(6));
    assert_eq!(world.drain_texts("dead"), ["x3"]);
}

#[test]
fn much_that_nobody_takes_is_passed_once_also_on_disk() {
    let limits = Limits {
        named_queue_memory_bytes_max: 40_000,
        ..in_turns()
    };
    let mut world = World::without_prefixes(1, limits);
    let any = world.connect("any");
    world.queue(any, "q", &Terms::durable());
    for number in 0..1000 {
        let colour = if number % 100 == 99 { "r" } else { "x" };
        put(&mut world, any, &[&format!("{colour}{number}")]);
    }
    let red = member(&mut world, 0, Span::ZERO, Some(RED));
    let first = world.works(red);
    assert!(first.starts_with(&["r99".to_owned()]), "{first:?}");
    // What is not wanted is in memory by now, as much as may be; when it is taken, more is read.
    world.consume(any, "q", 1, Taking::selected("colour = 'x'"));
    let (mut reds, mut others) = (first, Vec::new());
    for _ in 0..1000 {
        others.extend(world.works(any));
        reds.extend(world.works(red));
    }
    let expected: Vec<String> = (0..10).map(|it| format!("r{}", it * 100 + 99)).collect();
    assert_eq!((reds, others.len()), (expected, 990));
    assert_eq!((world.waits("q"), world.entries_written()), (0, 0));
}

#[test]
fn a_filter_shows_nothing_that_its_member_has_no_right_to() {
    let mut world = World::in_turns(1);
    let any = world.connect("any");
    world.queue(any, "q", &Terms::durable());
    let red = member(&mut world, 0, Span::ZERO, Some(RED));
    world.renew(|client, _| {
        let rule = match client {
            "any" => Rule::allow(Permissions::ALL, "$q/q"),
            _ => Rule::allow(Permission::Take, "$q/q"),
        };
        let rules = Rules::new(vec![rule], Otherwise::Deny).expect("legal");
        rules.compile(client, None)
    });
    put(&mut world, any, &["r1", "x1"]);
    assert_eq!((world.works(red).len(), world.waits("q")), (0, 2));
    world.renew(|_, _| Access::ALL);
    assert_eq!((world.works(red).len(), world.waits("q")), (1, 1));
}

#[test]
fn a_group_in_order_takes_in_the_queues_order() {
    let policy = GroupPolicy {
        order: Some(OrderKey::Publisher),
        ..GroupPolicy::new(Filter::new("$q/#").expect("legal"))
    };
    let limits = Limits {
        in_flight_max: 1,
        group_policies: [policy].into(),
        ..in_turns()
    };
    for (mut world, any, places) in worlds(&limits) {
        let red = member(&mut world, places[0], Span::ZERO, Some(RED));
        let blue = member(&mut world, places[1], Span::ZERO, Some(BLUE));
        put(&mut world, any, &["x1", "r1", "r2", "b1", "x2", "b2", "r3"]);
        let mut came = Vec::new();
        for _ in 0..20 {
            for who in [red, blue] {
                for got in world.got(who) {
                    came.push(got.text);
                    world.settle_delivery(who, got.tag);
                }
            }
            world.wait(Span::from_millis(100));
        }
        assert_eq!(came, ["r1", "r2", "b1", "b2", "r3"]);
        assert_eq!(world.waits("q"), 2);
    }
}

#[test]
fn they_count_as_memory_and_operators_see_them() {
    let mut world = World::in_turns(1);
    let any = world.connect("any");
    world.queue(any, "q", &Terms::durable());
    let who = world.connect("c");
    let kept = |world: &World| world.kernels[0].memory_held();
    join(&mut world, who, "g", None);
    let without = kept(&world);
    join(&mut world, who, "g", Some(RED));
    assert!(kept(&world) > without);
    let said = world.kernels[0].explain(&q("q"), None, world.now);
    let of_queue = &said.queues[0].1;
    assert!(
        of_queue.ends_with(&format!("c takes what passes the filter {RED}")),
        "{of_queue}"
    );
    let view = world.view("q").expect("it is there");
    assert_eq!((view.filters.len(), view.filters[0].1.text()), (1, RED));
    join(&mut world, who, "g", None);
    assert_eq!(kept(&world), without);
}

/// Members and consumers come and go, change their filters, and take or leave what they have; a plain list says what must come.
#[test]
fn whatever_happens_each_comes_to_one_that_takes_it_and_nobody_waits_for_what_it_could_have() {
    const FILTERS: [(Option<&str>, &str); 4] = [
        (Some(RED), "r"),
        (Some(BLUE), "b"),
        (Some("colour <> 'x'"), "rb"),
        (None, "rbx"),
    ];
    struct Receiver {
        who: Who,
        colours: &'static str,
        is_member: bool,
        name: String,
    }
    for seed in 0..24 {
        let limits = Limits {
            group_strategy: [GroupStrategy::Adaptive, GroupStrategy::RoundRobin][seed as usize % 2],
            in_flight_max: 3,
            ..Limits::default()
        };
        let shards = 1 + (seed as usize / 2) % 3;
        let mut world = World::with(shards as u16, limits);
        let mut dice = Dice(seed);
        let publisher = world.connect("p");
        let terms =
            Terms::durable().with(|limits| limits.priority_max = [0, 2][seed as usize / 6 % 2]);
        world.queue(publisher, "q", &terms);
        let mut receivers: Vec<Receiver> = Vec::new();
        let (mut sent, mut came) = (Vec::<String>::new(), Vec::<String>::new());
        let settle = |world: &mut World, receiver: &Receiver, came: &mut Vec<String>| {
            for got in world.got(receiver.who) {
                assert!(
                    receiver.colours.contains(&got.text[..1]),
                    "seed {seed}: {} to {}",
                    got.text,
                    receiver.colours
                );
                match got.is_delivery {
                    true => drop(world.settle_delivery(receiver.who, got.tag)),
                    false => world.ack(receiver.who, got.tag),
                }
                came.push(got.text);
            }
        };
        for number in 0..300 {
            match dice.roll(12) {
                0 if receivers.len() < 6 => {
                    let (filter, colours) = FILTERS[dice.roll(4)];
                    let is_member = dice.roll(3) > 0;
                    let shard = if is_member {
                        dice.roll(shards)
                    } else {
                        world.home()
                    };
                    let name = world.name_on(shard);
                    let expiry = [Span::ZERO, HOUR][dice.roll(2)];
                    let who = world.connect_with(shard, &name, Access::ALL, expiry);
                    match is_member {
                        true => join(&mut world, who, ["g", "h"][dice.roll(2)], filter),
                        false => {
                            let taking = Taking {
                                filter,
                                ..Taking::credit(2)
                            };
                            world.consume(who, "q", 1, taking);
                        }
                    }
                    receivers.push(Receiver {
                        who,
                        colours,
                        is_member,
                        name,
                    });
                }
                1 if !receivers.is_empty() => {
                    let receiver = receivers.remove(dice.roll(receivers.len()));
                    settle(&mut world, &receiver, &mut came);
                    world.lose(receiver.who);
                    // It comes again without what it was.
                    let who = world.connect_with(
                        receiver.who.shard,
                        &receiver.name,
                        Access::ALL,
                        Span::ZERO,
                    );
                    for group in ["g", "h"] {
                        if receiver.is_member {
                            world.unsubscribe(who, &q("q"), Some(group));
                        }
                    }
                    came.extend(world.texts(who));
                    world.lose(who);
                }
                2 if !receivers.is_empty() => {
                    let at = dice.roll(receivers.len());
                    if receivers[at].is_member {
                        settle(&mut world, &receivers[at], &mut came);
                        let (filter, colours) = FILTERS[dice.roll(4)];
                        for group in ["g", "h"] {
                            world.unsubscribe(receivers[at].who, &q("q"), Some(group));
                        }
                        settle(&mut world, &receivers[at], &mut came);
                        receivers[at].colours = colours;
                        join(&mut world, receivers[at].who, "g", filter);
                    }
                }
                3..=5 if !receivers.is_empty() => {
                    settle(
                        &mut world,
                        &receivers[dice.roll(receivers.len())],
                        &mut came,
                    );
                }
                _ => {
                    let text = format!("{}{number}", ["r", "b", "x"][dice.roll(3)]);
                    let priority = dice.roll(3) as u8;
                    put_with(&mut world, publisher, &text, |draft| {
                        draft.priority = priority
                    });
                    sent.push(text);
                }
            }
            world.wait(Span::from_millis(1));
        }
        for _ in 0..300 {
            for receiver in &receivers {
                settle(&mut world, receiver, &mut came);
            }
            world.wait(Span::from_millis(2));
        }
        let wanted: String = receivers.iter().map(|it| it.colours).collect();
        let left = sent.iter().filter(|text| !came.contains(text));
        let mut left: Vec<&String> = left.collect();
        assert!(
            left.iter().all(|text| !wanted.contains(&text[..1])),
            "seed {seed}: {left:?} for {wanted}"
        );
        assert_eq!(world.waits("q"), left.len(), "seed {seed}");
        for receiver in receivers {
            world.close(receiver.who, Closing::Lost);
        }
        let mut drained = world.drain_texts("q");
        drained.sort();
        left.sort();
        assert!(left.into_iter().eq(&drained), "seed {seed}");
        came.extend(drained);
        came.sort();
        came.dedup();
        sent.sort();
        assert_eq!(came, sent, "seed {seed}");
    }
}
