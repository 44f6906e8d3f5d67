//! One message of a queue is taken by itself, from any shard.

use crate::world::{Dice, Terms, Who, World, draft, firm, headers, q, to_queue};
use thalweg_kernel::access::{Access, Otherwise, Permission, Permissions, Rule, Rules};
use thalweg_kernel::{Draft, DropReason, Limits, Outcome, Refusal, Verdict};
use thalweg_model::Span;

/// A world of so many shards with the queue `q`, one session on the queue's shard and one as far from it as possible.
fn world(shards: u16) -> (World, Who, Who) {
    world_with(shards, Limits::default(), Access::ALL)
}

fn world_with(shards: u16, limits: Limits, access: Access) -> (World, Who, Who) {
    let mut world = World::with(shards, limits);
    let here = world.connect("here");
    world.queue(here, "q", &Terms::durable());
    let taker = (world.home() + usize::from(shards) - 1) % usize::from(shards);
    let name = world.name_on(taker);
    let taker = world.connect_with(taker, &name, access, Span::ZERO);
    (world, here, taker)
}

#[test]
fn messages_are_taken_in_their_order_and_settled_in_any() {
    for shards in 1..4 {
        let (mut world, here, taker) = world(shards);
        for number in 0..3 {
            assert_eq!(world.put(here, "q", &number.to_string()), Outcome::Accepted);
        }
        let mut taken = Vec::new();
        while let Some(one) = world.take_apart(taker, "q").expect("it may") {
            taken.push(one);
        }
        let shown: Vec<_> = taken
            .iter()
            .map(|one| (one.text.as_str(), one.deliveries, one.left))
            .collect();
        assert_eq!(shown, [("0", 0, 2), ("1", 0, 1), ("2", 0, 0)]);
        assert_eq!(world.entries_written(), 3);
        world.settle_taken(taker, &taken[1], Verdict::Accept);
        world.settle_taken(taker, &taken[0], Verdict::Requeue);
        world.settle_taken(taker, &taken[2], Verdict::Accept);
        // Twice is once.
        world.settle_taken(taker, &taken[2], Verdict::Requeue);
        assert_eq!(world.entries_written(), 1);
        let again = world
            .take_apart(taker, "q")
            .expect("it may")
            .expect("one came back");
        assert_eq!(
            (again.text.as_str(), again.deliveries, again.left),
            ("0", 1, 0)
        );
        world.settle_taken(taker, &again, Verdict::Accept);
        assert_eq!(world.entries_written(), 0);
        assert_eq!(world.take_apart(taker, "q"), Ok(None));
    }
}

#[test]
fn what_is_not_settled_in_time_goes_back_to_its_place() {
    for shards in 1..3 {
        let (mut world, here, taker) = world(shards);
        for number in 0..3 {
            world.put(here, "q", &number.to_string());
        }
        let first = world
            .take_apart(taker, "q")
            .expect("it may")
            .expect("a message");
        world.wait(Span::from_secs(20));
        let second = world
            .take_apart(taker, "q")
            .expect("it may")
            .expect("a message");
        world.wait(Span::from_secs(10));
        assert_eq!(world.waits("q"), 2);
        // It is another's now.
        world.settle_taken(taker, &first, Verdict::Accept);
        assert_eq!(world.waits("q"), 2);
        world.wait(Span::from_secs(20));
        world.settle_taken(taker, &second, Verdict::Accept);
        let all: Vec<_> = world
            .drain("q")
            .into_iter()
            .map(|got| (got.text, got.deliveries))
            .collect();
        assert_eq!(all, [("0".into(), 1), ("1".into(), 1), ("2".into(), 0)]);
    }
}

#[test]
fn what_comes_back_goes_to_a_consumer_that_waits() {
    let (mut world, here, taker) = world(2);
    world.put(here, "q", "0");
    let taken = world
        .take_apart(taker, "q")
        .expect("it may")
        .expect("a message");
    world.consume(here, "q", 1, crate::world::Taking::default());
    world.settle_taken(taker, &taken, Verdict::Requeue);
    let got = world.got(here);
    assert_eq!((got.len(), got[0].deliveries), (1, 1));
}

#[test]
fn a_refused_message_becomes_a_dead_letter() {
    for shards in 1..3 {
        let (mut world, here, taker) = world(shards);
        world.queue(here, "dead", &Terms::durable());
        world.queue(
            here,
            "live",
            &Terms::durable().with(|limits| limits.dead_letter = to_queue("dead")),
        );
        world.put(here, "live", "0");
        let taken = world
            .take_apart(taker, "live")
            .expect("it may")
            .expect("a message");
        world.settle_taken(taker, &taken, Verdict::Reject);
        assert_eq!(world.drain_texts("dead"), ["0"]);
    }
}

#[test]
fn what_was_taken_too_often_is_given_up() {
    let (mut world, here, taker) = world(2);
    world.queue(
        here,
        "few",
        &Terms::durable().with(|limits| limits.deliveries_max = Some(1)),
    );
    world.put(here, "few", "0");
    for _ in 0..2 {
        let taken = world
            .take_apart(taker, "few")
            .expect("it may")
            .expect("a message");
        world.settle_taken(taker, &taken, Verdict::Requeue);
    }
    assert_eq!(world.take_apart(taker, "few"), Ok(None));
    assert_eq!(world.dropped(DropReason::DeliveryLimit), 1);
}

#[test]
fn only_who_may_take_from_a_queue_is_given_anything() {
    for shards in 1..3 {
        let rules = vec![
            Rule::allow(Permission::Publish, &q("q")),
            Rule::allow(Permissions::ALL, &q("none")),
        ];
        let access = Rules::new(rules, Otherwise::Deny)
            .expect("patterns")
            .compile("taker", None);
        let (mut world, here, taker) = world_with(shards, Limits::default(), access);
        world.put(here, "q", "0");
        assert_eq!(world.take_apart(taker, "q"), Err(Refusal::Denied));
        assert_eq!(world.take_apart(taker, "none"), Err(Refusal::NoQueue));
        world.queue(here, "own", &Terms::exclusive());
        assert_eq!(world.take_apart(here, "own"), Ok(None));
    }
    let (mut world, here, taker) = world(2);
    world.queue(here, "own", &Terms::exclusive());
    assert_eq!(world.take_apart(taker, "own"), Err(Refusal::Locked));
    let alone = crate::world::Taking {
        exclusive: true,
        ..Default::default()
    };
    world.consume(here, "q", 1, alone);
    assert_eq!(world.take_apart(taker, "q"), Err(Refusal::InUse));
}

#[test]
fn what_a_taker_may_not_receive_waits_and_the_next_one_comes() {
    for shards in 1..3 {
        let rules = vec![
            Rule::allow(Permission::Take, &q("q")),
            Rule::allow(Permission::Receive, "a/open"),
        ];
        let access = Rules::new(rules, Otherwise::Deny)
            .expect("patterns")
            .compile("taker", None);
        let (mut world, here, taker) = world_with(shards, Limits::default(), access);
        world.bind(here, "amq.topic", "q", "a.*");
        for (address, text) in [
            ("a/secret", "0"),
            ("a/secret", "1"),
            ("a/open", "2"),
            ("a/secret", "3"),
        ] {
            world.publish(here, firm(address, text));
        }
        let taken = world
            .take_apart(taker, "q")
            .expect("it may")
            .expect("a message");
        assert_eq!(taken.text, "2");
        world.settle_taken(taker, &taken, Verdict::Accept);
        assert_eq!(world.take_apart(taker, "q"), Ok(None));
        assert_eq!(world.dropped(DropReason::AccessDenied), 0);
        assert_eq!(world.drain_texts("q"), ["0", "1", "3"]);
    }
}

#[test]
fn what_has_expired_is_not_taken() {
    let (mut world, here, taker) = world(2);
    world.publish(
        here,
        Draft {
            expires_in: Some(Span::from_secs(1)),
            ..draft(&q("q"), "0")
        },
    );
    world.put(here, "q", "1");
    world.now += Span::from_secs(2);
    assert_eq!(
        world
            .take_apart(taker, "q")
            .expect("it may")
            .expect("a message")
            .text,
        "1"
    );
}

#[test]
fn an_answer_that_finds_nobody_puts_the_message_back_as_it_was() {
    let (mut world, here, taker) = world(2);
    world.put(here, "q", "0");
    // The taker leaves while the message is on its way to it.
    world.run(taker.shard, |kernel, out, now| {
        kernel
            .take_apart(taker.session, taker.link, 7, (&q("q"), None), now, out)
            .expect("it may");
        let closing = thalweg_kernel::Closing::Lost;
        kernel.close_link(taker.session, taker.link, closing, None, now, out);
    });
    assert_eq!(world.taken(taker), None);
    let all: Vec<_> = world
        .drain("q")
        .into_iter()
        .map(|got| (got.text, got.deliveries))
        .collect();
    assert_eq!(all, [("0".into(), 0)]);
}

#[test]
fn what_is_taken_when_the_process_ends_is_still_in_the_queue() {
    let (mut world, here, taker) = world(2);
    world.put(here, "q", "0");
    assert!(world.take_apart(taker, "q").expect("it may").is_some());
    world.restart();
    assert_eq!(world.drain_texts("q"), ["0"]);
}

#[test]
fn a_queue_may_end_while_somebody_has_its_message() {
    for verdict in [Verdict::Accept, Verdict::Requeue, Verdict::Reject] {
        let (mut world, here, taker) = world(2);
        world.put(here, "q", "0");
        let taken = world
            .take_apart(taker, "q")
            .expect("it may")
            .expect("a message");
        world.delete_queue(here, "q").expect("it may");
        world.queue(here, "q", &Terms::durable());
        world.settle_taken(taker, &taken, verdict);
        assert_eq!(world.waits("q"), 0);
    }
}

#[test]
fn what_is_on_disk_is_fetched_for_whoever_asks() {
    for shards in 1..3 {
        let mut world = World::without_prefixes(
            shards,
            Limits {
                named_queue_memory_bytes_max: 1_000,
                ..Limits::default()
            },
        );
        let here = world.connect("here");
        world.queue(here, "q", &Terms::durable());
        let shard = (world.home() + usize::from(shards) - 1) % usize::from(shards);
        let name = world.name_on(shard);
        let taker = world.connect_with(shard, &name, Access::ALL, Span::ZERO);
        for number in 0..2_000 {
            world.put(here, "q", &number.to_string());
        }
        for number in 0..2_000 {
            let taken = world
                .take_apart(taker, "q")
                .expect("it may")
                .expect("a message");
            assert_eq!(taken.text, number.to_string());
            world.settle_taken(taker, &taken, Verdict::Accept);
        }
        assert_eq!(world.take_apart(taker, "q"), Ok(None));
        assert_eq!(world.entries_written(), 0);
    }
}

#[test]
fn many_who_ask_at_once_for_what_is_on_disk_each_get_one() {
    let mut world = World::without_prefixes(
        2,
        Limits {
            named_queue_memory_bytes_max: 0,
            ..Limits::default()
        },
    );
    let here = world.connect("here");
    world.queue(here, "q", &Terms::durable());
    let shard = (world.home() + 1) % 2;
    let name = world.name_on(shard);
    let taker = world.connect_with(shard, &name, Access::ALL, Span::ZERO);
    for number in 0..700 {
        world.put(here, "q", &number.to_string());
    }
    // More than are fetched at once, and more than there are.
    world.run(shard, |kernel, out, now| {
        for ticket in 0..720 {
            kernel
                .take_apart(taker.session, taker.link, ticket, (&q("q"), None), now, out)
                .expect("it may");
        }
    });
    let (mut texts, mut empty) = (Vec::new(), 0);
    while let Some((_, taken)) = world.taken(taker) {
        match taken.expect("it may") {
            Some(taken) => texts.push(taken.text),
            None => empty += 1,
        }
    }
    let expected: Vec<String> = (0..700).map(|number| number.to_string()).collect();
    assert_eq!((texts, empty), (expected, 20));
}

#[test]
fn nothing_is_lost_or_doubled_whoever_takes_and_settles() {
    for seed in 0..200 {
        let mut dice = Dice(seed);
        let (mut world, here, taker) = world(1 + dice.roll(3) as u16);
        let (mut put, mut done, mut held) = (0, Vec::new(), Vec::new());
        for _ in 0..100 {
            match dice.roll(6) {
                0 | 1 => {
                    world.put(
                        if dice.roll(2) == 0 { here } else { taker },
                        "q",
                        &put.to_string(),
                    );
                    put += 1;
                }
                2 | 3 => held.extend(world.take_apart(taker, "q").expect("it may")),
                4 if !held.is_empty() => {
                    let taken = held.swap_remove(dice.roll(held.len()));
                    let verdict = [Verdict::Accept, Verdict::Requeue][dice.roll(2)];
                    world.settle_taken(taker, &taken, verdict);
                    if verdict == Verdict::Accept {
                        done.push(taken.text);
                    }
                }
                5 if dice.roll(10) == 0 => {
                    world.wait(Span::from_secs(31));
                    held.clear();
                }
                _ => {}
            }
        }
        world.wait(Span::from_secs(31));
        done.extend(world.drain_texts("q"));
        let mut numbers: Vec<usize> = done
            .iter()
            .map(|text| text.parse().expect("a number"))
            .collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..put).collect::<Vec<usize>>(), "seed {seed}");
        assert_eq!(world.entries_written(), 0, "seed {seed}");
    }
}

#[test]
fn a_queue_is_made_from_any_shard_and_can_be_published_to_at_once() {
    for shards in 1..4 {
        let (mut world, _, taker) = world(shards);
        assert_eq!(world.put(taker, "new", "0"), Outcome::NoMatch);
        assert_eq!(world.make_queue(taker, "new"), Ok(()));
        assert_eq!(world.put(taker, "new", "1"), Outcome::Accepted);
        assert_eq!(world.make_queue(taker, "new"), Ok(()), "it is there");
        assert_eq!(
            world
                .take_apart(taker, "new")
                .expect("it may")
                .expect("a message")
                .text,
            "1"
        );
        world.restart();
        assert_eq!(world.drain_texts("new"), ["1"]);
    }
}

#[test]
fn a_queue_is_not_made_where_it_may_not_be() {
    for shards in 1..3 {
        let rules = vec![
            Rule::allow(Permission::Publish, &q("q")),
            Rule::allow(Permission::Publish, &q("new")),
        ];
        let access = Rules::new(rules, Otherwise::Deny)
            .expect("patterns")
            .compile("taker", None);
        let (mut world, here, taker) = world_with(
            shards,
            Limits {
                queues_max: 2,
                ..Limits::default()
            },
            access,
        );
        assert_eq!(world.make_queue(taker, "other"), Err(Refusal::Denied));
        assert_eq!(world.make_queue(taker, "q"), Ok(()));
        world.queue(here, "own", &Terms::exclusive());
        assert_eq!(world.make_queue(taker, "new"), Err(Refusal::TooMany));
        if shards > 1 {
            let refused = world.declare(taker, "new", &Terms::default());
            assert!(matches!(refused, Err(Refusal::Invalid(_))), "{refused:?}");
        }
    }
    let (mut world, here, taker) = world(2);
    world.queue(here, "own", &Terms::exclusive());
    assert_eq!(world.make_queue(taker, "own"), Err(Refusal::Locked));
}

/// Puts messages into queue `q`; the first letter of each is its colour.
fn put_coloured(world: &mut World, who: Who, texts: &[&str]) {
    for text in texts {
        let properties = headers(&[("colour", &text[..1])]);
        let address = q("q");
        world.publish(
            who,
            Draft {
                properties: Some(&properties),
                ..firm(&address, text)
            },
        );
    }
}

/// The first message that passes is taken and accepted; nothing if there is none.
fn take_coloured(world: &mut World, taker: Who, colour: &str) -> Option<(String, u32, u64)> {
    let filter = format!("colour = '{colour}'");
    assert_eq!(world.ask_apart_if(taker, "q", Some(&filter)), Ok(()));
    let taken = world.taken(taker)?.1.expect("it may")?;
    world.settle_taken(taker, &taken, Verdict::Accept);
    Some((taken.text, taken.deliveries, taken.left))
}

#[test]
fn the_first_that_passes_is_taken_and_the_rest_keeps_its_order() {
    for shards in 1..4 {
        let (mut world, here, taker) = world(shards);
        put_coloured(&mut world, here, &["b1", "r1", "b2", "r2", "x"]);
        assert_eq!(
            take_coloured(&mut world, taker, "r"),
            Some(("r1".into(), 0, 3))
        );
        assert_eq!(take_coloured(&mut world, taker, "g"), None);
        assert_eq!(world.ask_apart_if(taker, "q", Some("colour = 'r'")), Ok(()));
        let taken = world.taken(taker).expect("an answer").1.expect("it may");
        world.settle_taken(taker, &taken.expect("r2"), Verdict::Requeue);
        assert_eq!(
            take_coloured(&mut world, taker, "r"),
            Some(("r2".into(), 1, 1))
        );
        world.restart();
        assert_eq!(world.drain_texts("q"), ["b1", "b2", "x"]);
    }
}

#[test]
fn a_filter_shows_nothing_that_its_reader_has_no_right_to() {
    let rules = vec![Rule::allow(Permission::Take, "$q/q")];
    let rules = Rules::new(rules, Otherwise::Deny).expect("legal");
    let (mut world, here, taker) = world_with(2, Limits::default(), rules.compile("c", None));
    put_coloured(&mut world, here, &["r1"]);
    assert_eq!(take_coloured(&mut world, taker, "r"), None);
    assert_eq!(world.drain_texts("q"), ["r1"]);
}

#[test]
fn what_passes_is_found_on_disk_while_memory_lasts() {
    let limits = Limits {
        named_queue_memory_bytes_max: 60_000,
        ..Limits::default()
    };
    let mut world = World::without_prefixes(1, limits);
    let (here, taker) = (world.connect("here"), world.connect("taker"));
    world.queue(here, "q", &Terms::durable());
    let blue: Vec<String> = (0..2000).map(|number| format!("b{number}")).collect();
    put_coloured(&mut world, here, &["b", "r1"]);
    for text in &blue[..300] {
        put_coloured(&mut world, here, &[text]);
    }
    put_coloured(&mut world, here, &["r2"]);
    for text in &blue[300..] {
        put_coloured(&mut world, here, &[text]);
    }
    put_coloured(&mut world, here, &["r3"]);
    assert!(world.kernels[0].bytes_held() < 200_000, "most is on disk");
    let text = |taken: Option<(String, u32, u64)>| taken.map(|it| it.0);
    assert_eq!(
        text(take_coloured(&mut world, taker, "r")),
        Some("r1".into())
    );
    assert_eq!(
        text(take_coloured(&mut world, taker, "r")),
        Some("r2".into())
    );
    // It is behind what memory holds, until some of that is taken.
    assert_eq!(take_coloured(&mut world, taker, "r"), None);
    assert!(world.kernels[0].bytes_held() < 300_000);
    for _ in 0..1800 {
        assert!(matches!(world.take_apart(taker, "q"), Ok(Some(_))));
    }
    assert_eq!(
        text(take_coloured(&mut world, taker, "r")),
        Some("r3".into())
    );
}
