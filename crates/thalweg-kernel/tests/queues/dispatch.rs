//! Choice of receivers, and how many messages each gets.

use crate::world::{Dice, Taking, Terms, Who, World, draft, firm, q};
use std::collections::BTreeMap;
use thalweg_kernel::{GroupStrategy, Limits, Outcome, Verdict};

fn fill(world: &mut World, queue: &str, count: usize) {
    let publisher = world.connect("fill");
    for number in 0..count {
        assert_eq!(
            world.put(publisher, queue, &format!("{number}")),
            Outcome::Accepted
        );
    }
    world.lose(publisher);
}

#[test]
fn what_waits_comes_in_order_to_the_first_consumer() {
    let mut world = World::new();
    let client = world.connect("c");
    world.queue(client, "q", &Terms::durable());
    fill(&mut world, "q", 5);
    assert_eq!(world.waits("q"), 5);
    world.consume(client, "q", 9, Taking::default());
    let got = world.got(client);
    let shown: Vec<_> = got
        .iter()
        .map(|got| (got.text.as_str(), got.tag, got.left, got.consumer, got.line))
        .collect();
    assert_eq!(
        shown,
        [
            ("0", 1, 4, 9, 1),
            ("1", 2, 3, 9, 1),
            ("2", 3, 2, 9, 1),
            ("3", 4, 1, 9, 1),
            ("4", 5, 0, 9, 1)
        ]
    );
    assert!(
        got.iter()
            .all(|got| got.settles && got.deliveries == 0 && got.address == q("q"))
    );
}

#[test]
fn consumers_take_turns() {
    let mut world = World::new();
    let clients: Vec<_> = ["a", "b", "c"]
        .iter()
        .map(|name| world.connect(name))
        .collect();
    world.queue(clients[0], "q", &Terms::default());
    for client in &clients {
        world.consume(*client, "q", 1, Taking::default());
    }
    fill(&mut world, "q", 9);
    for (at, client) in clients.iter().enumerate() {
        let expected: Vec<_> = (0..3).map(|round| format!("{}", round * 3 + at)).collect();
        assert_eq!(world.texts(*client), expected);
    }
}

#[test]
fn turns_go_on_without_one_who_has_no_credit() {
    let mut world = World::new();
    let (slow, fast) = (world.connect("slow"), world.connect("fast"));
    world.queue(slow, "q", &Terms::default());
    world.consume(slow, "q", 1, Taking::credit(1));
    world.consume(fast, "q", 1, Taking::default());
    fill(&mut world, "q", 6);
    assert_eq!(world.texts(slow), ["0"]);
    assert_eq!(world.texts(fast), ["1", "2", "3", "4", "5"]);
}

#[test]
fn higher_priorities_are_served_while_they_have_credit() {
    let mut world = World::new();
    let (low, high) = (world.connect("low"), world.connect("high"));
    world.queue(low, "q", &Terms::default());
    world.consume(
        low,
        "q",
        1,
        Taking {
            credit: 2,
            ..Taking::priority(-3)
        },
    );
    world.consume(
        high,
        "q",
        1,
        Taking {
            credit: 2,
            ..Taking::priority(5)
        },
    );
    fill(&mut world, "q", 5);
    assert_eq!(world.texts(high), ["0", "1"]);
    assert_eq!(world.texts(low), ["2", "3"]);
    world.ack(low, 1);
    assert_eq!(world.texts(low), ["4"]);
    world.ack(high, 1);
    fill(&mut world, "q", 1);
    assert_eq!(world.texts(high), ["0"]);
}

#[test]
fn equals_of_the_highest_priority_take_turns() {
    let mut world = World::new();
    let clients: Vec<_> = ["a", "b", "c"]
        .iter()
        .map(|name| world.connect(name))
        .collect();
    world.queue(clients[0], "q", &Terms::default());
    for (client, priority) in clients.iter().zip([1, 0, 1]) {
        world.consume(*client, "q", 1, Taking::priority(priority));
    }
    fill(&mut world, "q", 6);
    assert_eq!(world.texts(clients[0]).len(), 3);
    assert_eq!(world.texts(clients[1]).len(), 0);
    assert_eq!(world.texts(clients[2]).len(), 3);
}

#[test]
fn a_single_active_consumer_has_them_all_until_it_leaves() {
    let mut world = World::new();
    let (first, second) = (world.connect("first"), world.connect("second"));
    world.queue(
        first,
        "q",
        &Terms::default().with(|limits| limits.single_active = true),
    );
    world.consume(first, "q", 1, Taking::credit(2));
    world.consume(second, "q", 1, Taking::default());
    fill(&mut world, "q", 3);
    assert_eq!(world.texts(first), ["0", "1"]);
    assert_eq!(
        world.texts(second),
        [""; 0],
        "also when the active one has no credit"
    );
    assert!(world.cancel(first, 1, 1));
    assert_eq!(world.texts(second), ["2"]);
    world.lose(first);
    assert_eq!(world.texts(second), ["0", "1"]);
}

#[test]
fn a_newcomer_of_higher_priority_does_not_replace_the_active_one() {
    let mut world = World::new();
    let (first, second) = (world.connect("first"), world.connect("second"));
    world.queue(
        first,
        "q",
        &Terms::default().with(|limits| limits.single_active = true),
    );
    world.consume(first, "q", 1, Taking::default());
    world.consume(second, "q", 1, Taking::priority(10));
    fill(&mut world, "q", 2);
    assert_eq!(world.texts(first), ["0", "1"]);
    assert_eq!(world.texts(second), [""; 0]);
}

#[test]
fn tags_of_a_line_rise_by_one_whoever_is_given_the_message() {
    let mut world = World::new();
    let client = world.connect("c");
    world.queue(client, "a", &Terms::default());
    world.queue(client, "b", &Terms::default());
    world.consume(client, "a", 1, Taking::default());
    world.consume(client, "b", 2, Taking::blindly());
    world.queue(client, "c", &Terms::default());
    world.consume(client, "c", 3, Taking::on(2));
    for queue in ["a", "b", "a", "c", "b", "c"] {
        world.put(client, queue, queue);
    }
    let shown: Vec<_> = world
        .got(client)
        .iter()
        .map(|got| (got.line, got.consumer, got.tag, got.settles))
        .collect();
    assert_eq!(
        shown,
        [
            (1, 1, 1, true),
            (1, 2, 2, false),
            (1, 1, 3, true),
            (2, 3, 1, true),
            (1, 2, 4, false),
            (2, 3, 2, true)
        ]
    );
    assert_eq!(
        world.settle(client, 1, 4, true, Verdict::Accept),
        thalweg_kernel::Settled::Unknown,
        "it is no message"
    );
    assert_eq!(
        world.settle(client, 1, 3, true, Verdict::Accept),
        thalweg_kernel::Settled::Known
    );
    assert_eq!(world.kernels[0].totals().in_flight, 2);
}

#[test]
fn what_is_settled_when_sent_is_gone() {
    let mut world = World::new();
    let client = world.connect("c");
    world.queue(client, "q", &Terms::durable());
    fill(&mut world, "q", 2);
    world.consume(client, "q", 1, Taking::blindly());
    fill(&mut world, "q", 2);
    assert_eq!(world.texts(client), ["0", "1", "0", "1"]);
    assert_eq!(world.entries_written(), 0);
    world.lose(client);
    assert_eq!(world.waits("q"), 0);
}

#[test]
fn a_cancelled_consumer_is_given_nothing_more_and_keeps_what_it_has() {
    let mut world = World::new();
    let client = world.connect("c");
    world.queue(client, "q", &Terms::default());
    world.consume(client, "q", 1, Taking::credit(1));
    fill(&mut world, "q", 2);
    assert!(world.cancel(client, 1, 1));
    assert!(!world.cancel(client, 1, 1), "there is none any more");
    world.ack(client, 1);
    assert_eq!(world.texts(client), ["0"]);
    assert_eq!(world.waits("q"), 1);
}

#[test]
fn no_local_passes_over_what_the_session_itself_published() {
    let mut world = World::new();
    let (own, other) = (world.connect("own"), world.connect("other"));
    world.queue(own, "q", &Terms::default());
    world.consume(
        own,
        "q",
        1,
        Taking {
            no_local: true,
            ..Taking::default()
        },
    );
    world.put(own, "q", "mine");
    world.put(other, "q", "yours");
    assert_eq!(world.texts(own), ["yours"]);
}

#[test]
fn one_message_is_taken_at_a_time() {
    let mut world = World::new();
    let client = world.connect("c");
    world.queue(client, "q", &Terms::durable());
    assert_eq!(world.take(client, "q", true), Ok(None));
    fill(&mut world, "q", 3);
    assert_eq!(world.take(client, "q", true), Ok(Some(2)));
    assert_eq!(world.take(client, "q", false), Ok(Some(1)));
    let got = world.got(client);
    let shown: Vec<_> = got
        .iter()
        .map(|got| (got.text.as_str(), got.consumer, got.tag, got.settles))
        .collect();
    assert_eq!(shown, [("0", 0, 1, true), ("1", 0, 2, false)]);
    assert_eq!(
        world.settle(client, 1, 2, false, Verdict::Accept),
        thalweg_kernel::Settled::Unknown
    );
    world.requeue(client, 1);
    assert_eq!(world.drain_texts("q"), ["0", "2"]);
    assert_eq!(world.entries_written(), 0);
}

#[test]
fn one_message_may_be_taken_whatever_the_credit_of_the_line() {
    let mut world = World::new();
    let client = world.connect("c");
    world.queue(client, "q", &Terms::default());
    world.run(client.shard, |kernel, out, now| {
        kernel.set_line_credit(client.session, 1, 1, now, out)
    });
    fill(&mut world, "q", 3);
    world.take(client, "q", true).expect("it may");
    world.take(client, "q", true).expect("it may");
    assert_eq!(world.texts(client), ["0", "1"]);
    world.consume(client, "q", 1, Taking::default());
    assert_eq!(
        world.texts(client),
        ["2"],
        "what was asked for one by one takes no credit"
    );
}

#[test]
fn a_line_that_is_paused_is_passed_over_and_may_settle_and_ask() {
    // A queue's consumers, some with filters, and members of a group, whatever chooses among them.
    let ways = [
        (None, "$q/q"),
        (Some("1 = 1"), "$q/q"),
        (None, "$g/g/t"),
        (Some("1 = 1"), "$g/g/t"),
    ];
    for ((filter, source), strategy) in ways.into_iter().flat_map(|way| {
        [GroupStrategy::RoundRobin, GroupStrategy::Adaptive].map(|strategy| (way, strategy))
    }) {
        let mut world = World::with(
            1,
            Limits {
                group_strategy: strategy,
                ..Limits::default()
            },
        );
        let (one, other) = (world.connect("one"), world.connect("other"));
        world.queue(one, "q", &Terms::durable());
        for who in [one, other] {
            let taking = Taking {
                filter,
                ..Taking::blindly()
            };
            world
                .consume_from(who, source, 1, taking)
                .expect("it may consume");
        }
        let address = if source == "$q/q" { source } else { "t" };
        let pause = |world: &mut World, who: Who, is_paused| {
            world.run(who.shard, |kernel, out, now| {
                kernel.pause_line(who.session, 1, is_paused, now, out)
            });
        };
        pause(&mut world, one, true);
        for text in ["1", "2", "3"] {
            world.publish(other, firm(address, text));
        }
        let what = format!("{source} {filter:?} {strategy:?}");
        assert_eq!(world.texts(one), [""; 0], "{what}");
        assert_eq!(world.texts(other), ["1", "2", "3"], "{what}");
        pause(&mut world, other, true);
        for text in ["4", "5"] {
            world.publish(other, firm(address, text));
        }
        assert_eq!(world.texts(other), [""; 0], "{what}");
        if source == "$q/q" {
            world.take(other, "q", false).expect("it may");
            assert_eq!(world.texts(other), ["4"], "{what}");
        }
        pause(&mut world, one, false);
        let rest: &[&str] = if source == "$q/q" {
            &["5"]
        } else {
            &["4", "5"]
        };
        assert_eq!(world.texts(one), rest, "{what}");
    }
}

#[test]
fn a_message_that_is_too_large_for_one_does_not_cost_it_another() {
    let mut world = World::new();
    let client = world.connect("c");
    world.queue(client, "q", &Terms::durable());
    world.put(client, "q", "small");
    world.put(client, "q", "too large for this peer");
    world.set_bytes_max(client, 10);
    assert_eq!(world.take(client, "q", true), Ok(Some(1)));
    // This one is given up; the one before is still unsettled.
    let _ = world.take(client, "q", false);
    assert_eq!(world.texts(client), ["small"]);
    assert_eq!(world.kernels[0].totals().in_flight, 1);
    world.requeue(client, 1);
    assert_eq!(world.drain_texts("q"), ["small"]);
}

#[test]
fn a_message_that_is_too_large_for_a_consumer_becomes_a_dead_letter() {
    let mut world = World::new();
    let client = world.connect("c");
    world.queue(client, "dead", &Terms::durable());
    world.queue(
        client,
        "q",
        &Terms::durable().with(|limits| limits.dead_letter = crate::world::to_queue("dead")),
    );
    world.consume(client, "q", 1, Taking::default());
    world.set_bytes_max(client, 10);
    world.put(client, "q", "too large for this peer");
    world.put(client, "q", "small");
    let shown: Vec<_> = world
        .got(client)
        .iter()
        .map(|got| (got.text.clone(), got.tag))
        .collect();
    assert_eq!(
        shown,
        [("small".to_owned(), 1)],
        "a message that was not handed over has no tag"
    );
    assert_eq!(world.drain_texts("dead"), ["too large for this peer"]);
}

/// Consumers on several lines with credit of their own and of their lines, random settlements.
#[test]
fn credit_is_never_exceeded() {
    for seed in 0..40 {
        let mut dice = Dice(seed);
        let mut world = World::new();
        let clients: Vec<_> = (0..3)
            .map(|number| world.connect(&format!("c{number}")))
            .collect();
        world.queue(clients[0], "a", &Terms::default());
        world.queue(clients[0], "b", &Terms::default());
        // By client and line: credit, and by consumer its credit; what each has.
        let mut line_credit: BTreeMap<(usize, u16), u32> = BTreeMap::new();
        let mut credit: BTreeMap<(usize, u16, u32), u32> = BTreeMap::new();
        let mut has: BTreeMap<(usize, u16), Vec<(u64, u32)>> = BTreeMap::new();
        let (mut last, mut consumers) = (0, 0);
        for _ in 0..300 {
            let at = dice.roll(3);
            let (who, line) = (clients[at], 1 + dice.roll(2) as u16);
            match dice.roll(10) {
                0 => {
                    if credit.len() < 9 {
                        consumers += 1;
                        let (number, max) = (consumers, dice.roll(4) as u32);
                        credit.insert((at, line, number), max);
                        let queue = ["a", "b"][dice.roll(2)];
                        world.consume(
                            who,
                            queue,
                            number,
                            Taking {
                                line,
                                ..Taking::credit(max)
                            },
                        );
                    }
                }
                1 => {
                    // Never below what is out already, so that the bound can be checked at any time.
                    let out = has.get(&(at, line)).map_or(0, Vec::len) as u32;
                    let max = [0, out + dice.roll(4) as u32][dice.roll(2)];
                    line_credit.insert((at, line), max);
                    world.run(who.shard, |kernel, out, now| {
                        kernel.set_line_credit(who.session, line, max, now, out)
                    });
                }
                2 => {
                    let of = credit
                        .keys()
                        .find(|(a, l, _)| (*a, *l) == (at, line))
                        .copied();
                    if let Some(of @ (_, _, number)) = of {
                        credit.remove(&of);
                        assert!(world.cancel(who, line, number), "seed {seed}");
                    }
                }
                3..=6 => {
                    let known = has.entry((at, line)).or_default();
                    if !known.is_empty() {
                        let place = dice.roll(known.len());
                        let multiple = dice.roll(2) == 0;
                        let (tag, _) = known[place];
                        let first = if multiple { 0 } else { place };
                        known.drain(first..=place);
                        let verdict =
                            [Verdict::Accept, Verdict::Reject, Verdict::Requeue][dice.roll(3)];
                        world.settle(who, line, tag, multiple, verdict);
                    }
                }
                _ => {
                    last += 1;
                    world.publish(who, draft(&q(["a", "b"][dice.roll(2)]), &format!("{last}")));
                }
            }
            for (at, client) in clients.iter().enumerate() {
                for got in world.got(*client) {
                    has.entry((at, got.line))
                        .or_default()
                        .push((got.tag, got.consumer));
                }
            }
            for (&(at, line), known) in &has {
                let max = line_credit.get(&(at, line)).copied().unwrap_or(0);
                assert!(
                    max == 0 || known.len() <= max as usize,
                    "seed {seed}: line {line} of {at} has {known:?}, not {max}"
                );
                for (&(_, _, number), &max) in credit
                    .iter()
                    .filter(|((a, l, _), _)| (*a, *l) == (at, line))
                {
                    let count = known
                        .iter()
                        .filter(|(_, consumer)| *consumer == number)
                        .count();
                    assert!(
                        max == 0 || count <= max as usize,
                        "seed {seed}: consumer {number} has {count}, not {max}"
                    );
                }
            }
        }
    }
}
