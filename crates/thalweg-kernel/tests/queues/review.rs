//! Findings of a review of groups: nothing leaks from one group into another, no message waits for ever, and no member
//! makes the choice slow for all.

use crate::world::{Taking, Terms, Who, World, draft, firm, q};
use std::time::Instant;
use thalweg_kernel::access::{Access, Otherwise, Permission, Rule, Rules};
use thalweg_kernel::{GroupStrategy, Limits, LoadReport, OrderKey, Subscribed, WorkTerms};
use thalweg_model::{Reliability, Span};

const ONCE: Reliability = Reliability::AtLeastOnce;

fn world(strategy: GroupStrategy) -> World {
    World::without_prefixes(
        1,
        Limits {
            group_strategy: strategy,
            group_adaptive_eviction: true,
            ..Limits::default()
        },
    )
}

fn join(world: &mut World, name: &str, filter: &str, group: &str) -> Who {
    let who = world.connect(name);
    assert_eq!(
        world.subscribe(who, filter, Some(group), ONCE),
        Subscribed::Granted(ONCE)
    );
    who
}

#[test]
fn what_somebody_has_of_a_group_in_order_that_has_ended_does_not_go_into_the_next_group() {
    let mut world = world(GroupStrategy::Adaptive);
    let leaver = world.connect_with(0, "leaver", Access::ALL, Span::FOREVER);
    let wish = WorkTerms {
        ordered: Some(OrderKey::Publisher),
        ..WorkTerms::default()
    };
    world.run(0, |kernel, _, now| {
        kernel.set_work_terms(leaver.session, None, wish, now)
    });
    world.subscribe(leaver, "secret", Some("mine"), ONCE);
    let publisher = world.connect("p");
    world.publish(publisher, firm("secret", "of another group"));
    assert_eq!(world.texts(leaver), ["of another group"]);
    // The group ends with its only member, which has not settled.
    world.unsubscribe(leaver, "secret", Some("mine"));
    let other = join(&mut world, "other", "public", "theirs");
    world.lose(leaver);
    world.wait(Span::from_secs(1));
    assert_eq!(world.texts(other), Vec::<String>::new());
}

#[test]
fn a_consumer_that_joins_while_its_output_is_full_gets_its_part_when_there_is_room() {
    let mut world = world(GroupStrategy::Adaptive);
    let slow = world.connect("slow");
    world.queue(slow, "q", &Terms::default());
    world.consume(slow, "q", 1, Taking::default());
    world.set_room(slow, 0);
    world.put(slow, "q", "fills it");
    world
        .consume_from(slow, "$g/g/t", 2, Taking::default())
        .expect("may");
    let publisher = world.connect("p");
    world.publish(publisher, firm("t", "m"));
    world.make_room(slow, 10);
    world.wait(Span::from_secs(1));
    assert_eq!(world.texts(slow), ["fills it", "m"]);
}

#[test]
fn who_is_on_trial_is_not_kept_from_its_message_by_what_it_has_of_queues() {
    let mut world = world(GroupStrategy::Adaptive);
    let frozen = world.connect("frozen");
    world
        .consume_from(frozen, "$g/g/t", 1, Taking::on(1))
        .expect("may");
    let other = world.connect("other");
    world
        .consume_from(other, "$g/g/t", 1, Taking::on(1))
        .expect("may");
    let publisher = world.connect("p");
    for step in 0..300 {
        world.publish(publisher, firm("t", &step.to_string()));
        world.wait(Span::from_millis(10));
        for got in world.got(other) {
            world.ack(other, got.tag);
        }
        if world.closed(frozen).is_some() {
            break;
        }
    }
    assert!(world.closed(frozen).is_some());
    world.lose(other);
    // It comes back, and works at something else for long.
    let back = world.connect("frozen");
    world.queue(back, "q", &Terms::default());
    world.consume(back, "q", 7, Taking::on(2));
    world.put(publisher, "q", "long work");
    assert_eq!(world.texts(back), ["long work"]);
    world
        .consume_from(back, "$g/g/t", 1, Taking::on(1))
        .expect("may");
    world.publish(publisher, firm("t", "now"));
    world.wait(Span::from_secs(5));
    assert_eq!(world.texts(back).len(), 1, "one, on trial");
}

#[test]
fn what_did_not_fit_into_a_consumers_output_goes_to_another_at_once() {
    let mut world = world(GroupStrategy::RoundRobin);
    let full = world.connect("full");
    world
        .consume_from(full, "$g/g/t", 1, Taking::default())
        .expect("may");
    let free = world.connect("free");
    world
        .consume_from(free, "$g/g/t", 1, Taking::default())
        .expect("may");
    world.set_room(full, 0);
    let publisher = world.connect("p");
    world.publish(publisher, firm("t", "m"));
    world.wait(Span::from_millis(1));
    assert_eq!(world.texts(free), ["m"]);
}

#[test]
fn messages_that_nobody_settles_do_not_push_others_out_of_a_group_whose_members_are_away() {
    let limits = Limits {
        group_messages_max: 10,
        ..Limits::default()
    };
    let mut world = World::without_prefixes(1, limits);
    let away = world.connect_with(0, "away", Access::ALL, Span::FOREVER);
    world.subscribe(away, "t", Some("g"), ONCE);
    world.lose(away);
    let publisher = world.connect("p");
    world.publish(publisher, firm("t", "first"));
    for _ in 0..20 {
        world.publish(publisher, draft("t", "flood"));
    }
    world.publish(publisher, firm("t", "second"));
    let back = world.connect_with(0, "away", Access::ALL, Span::FOREVER);
    world.settle_delivery(back, 1);
    assert_eq!(world.texts(back), ["first", "second"]);
}

#[test]
fn who_may_have_what_waits_behind_has_it_though_nobody_is_there_for_the_first() {
    let mut world = world(GroupStrategy::Adaptive);
    let only = |name: &str, filter: &str| {
        let rules = vec![
            Rule::allow(Permission::Receive, filter),
            Rule::allow(Permission::Subscribe, "#"),
        ];
        Rules::new(rules, Otherwise::Deny)
            .expect("legal")
            .compile(name, None)
    };
    let away = world.connect_with(0, "away", only("away", "t/x"), Span::FOREVER);
    world.subscribe(away, "t/+", Some("g"), ONCE);
    world.lose(away);
    let here = world.connect_with(0, "here", only("here", "t/y"), Span::ZERO);
    world.subscribe(here, "t/+", Some("g"), ONCE);
    let publisher = world.connect("p");
    for (address, text) in [("t/x", "for who is away"), ("t/y", "1"), ("t/y", "2")] {
        world.publish(publisher, firm(address, text));
    }
    world.wait(Span::from_secs(1));
    assert_eq!(world.texts(here), ["1"]);
    world.settle_delivery(here, 1);
    assert_eq!(world.texts(here), ["2"]);
}

#[test]
fn members_that_may_not_have_a_message_do_not_make_the_choice_slow() {
    let mut world = world(GroupStrategy::Adaptive);
    let crowd = world.connect("crowd");
    // So that estimates count.
    let quick = join(&mut world, "quick", "t", "g");
    let publisher = world.connect("p");
    for _ in 0..20 {
        world.publish(publisher, firm("t", "m"));
        world.wait(Span::from_millis(5));
        for got in world.got(quick) {
            world.settle_delivery(quick, got.tag);
        }
    }
    for number in 1..=1_000 {
        world
            .consume_from(crowd, "$g/g/t", number, Taking::credit(1))
            .expect("may");
    }
    world.set_room(crowd, 0);
    // One finds that it is full.
    for _ in 0..3 {
        world.publish(publisher, firm("t", "m"));
    }
    let took = (0..20).map(|_| {
        let start = Instant::now();
        world.publish(publisher, firm("t", "m"));
        start.elapsed()
    });
    // A busy machine makes some of them slow, a slow choice all.
    let quickest = took.min().expect("20 messages");
    assert!(quickest.as_millis() < 50, "{quickest:?} for a message");
}

#[test]
fn who_leaves_a_group_that_takes_from_a_queue_and_comes_back_begins_anew() {
    let mut world = world(GroupStrategy::Adaptive);
    let owner = world.connect("owner");
    world.queue(owner, "q", &Terms::durable());
    let [first, second] = ["first", "second"].map(|name| join(&mut world, name, &q("q"), "g"));
    for text in ["0", "1"] {
        world.put(owner, "q", text);
    }
    assert_eq!(
        (world.texts(first).len(), world.texts(second).len()),
        (1, 1)
    );
    world.unsubscribe(first, &q("q"), Some("g"));
    world.subscribe(first, &q("q"), Some("g"), ONCE);
    world.settle_delivery(first, 1);
    world.put(owner, "q", "2");
    world.wait(Span::from_secs(1));
    assert_eq!(world.texts(first), ["2"]);
}

#[test]
fn what_was_said_of_one_group_ends_with_the_membership() {
    let mut world = world(GroupStrategy::Weighted);
    let [heavy, light] = ["heavy", "light"].map(|name| join(&mut world, name, "t", "g"));
    let weight = WorkTerms {
        weight: Some(9),
        ..WorkTerms::default()
    };
    world.run(0, |kernel, _, now| {
        kernel.set_work_terms(heavy.session, Some(("g", "t")), weight, now)
    });
    world.unsubscribe(heavy, "t", Some("g"));
    world.subscribe(heavy, "t", Some("g"), ONCE);
    let publisher = world.connect("p");
    for _ in 0..20 {
        world.publish(publisher, firm("t", "m"));
    }
    assert_eq!((world.got(heavy).len(), world.got(light).len()), (10, 10));
}

#[test]
fn a_consumer_that_is_cancelled_and_comes_back_under_its_number_begins_anew() {
    let mut world = world(GroupStrategy::Adaptive);
    let [first, second] = ["first", "second"].map(|name| {
        let who = world.connect(name);
        world
            .consume_from(who, "$g/g/t", 1, Taking::default())
            .expect("may");
        who
    });
    let publisher = world.connect("p");
    for _ in 0..2 {
        world.publish(publisher, firm("t", "m"));
    }
    assert_eq!(
        (world.texts(first).len(), world.texts(second).len()),
        (1, 1)
    );
    world.cancel(first, 1, 1);
    world
        .consume_from(first, "$g/g/t", 1, Taking::default())
        .expect("may");
    world.publish(publisher, firm("t", "next"));
    world.wait(Span::from_secs(1));
    assert_eq!(world.texts(first), ["next"]);
}

/// Number of timer calls that a kernel asks for within a second.
fn calls_in_a_second(world: &mut World) -> u32 {
    let (start, mut calls) = (world.now, 0);
    loop {
        let next = world.run(0, |kernel, _, _| kernel.poll_timeout());
        if next > start + Span::from_secs(1) {
            return calls;
        }
        world.wait(next.since(world.now));
        calls += 1;
    }
}

#[test]
fn who_says_that_much_waits_is_not_looked_at_all_the_time() {
    let mut world = world(GroupStrategy::Adaptive);
    let busy = world.connect("busy");
    world.subscribe(busy, "t", Some("g"), Reliability::AtMostOnce);
    let report = LoadReport {
        waiting: 1e6,
        each_ms: 0.01,
        concurrency: None,
    };
    world.run(0, |kernel, out, now| {
        kernel.report_load(busy.session, &report, now, out)
    });
    let publisher = world.connect("p");
    for _ in 0..10 {
        world.publish(publisher, draft("t", "m"));
    }
    assert_eq!(world.texts(busy).len(), 0);
    let calls = calls_in_a_second(&mut world);
    assert!(calls <= 5, "{calls} calls");
}

#[test]
fn a_group_in_order_whose_members_are_away_is_not_looked_at_all_the_time() {
    let mut world = world(GroupStrategy::HashAddress);
    let away = world.connect_with(0, "away", Access::ALL, Span::FOREVER);
    world.subscribe(away, "t", Some("g"), ONCE);
    world.lose(away);
    let publisher = world.connect("p");
    for _ in 0..2 {
        world.publish(publisher, firm("t", "m"));
    }
    world.wait(Span::from_millis(500));
    let calls = calls_in_a_second(&mut world);
    assert!(calls <= 2, "{calls} calls");
}

#[test]
fn what_a_session_has_of_a_group_that_it_left_goes_to_others_when_its_link_ends() {
    for expiry in [Span::ZERO, Span::FOREVER] {
        let mut world = world(GroupStrategy::RoundRobin);
        let leaver = world.connect_with(0, "leaver", Access::ALL, expiry);
        world.subscribe(leaver, "t", Some("g"), ONCE);
        let publisher = world.connect("p");
        for text in ["0", "1", "2"] {
            world.publish(publisher, firm("t", text));
        }
        let other = join(&mut world, "other", "t", "g");
        world.unsubscribe(leaver, "t", Some("g"));
        assert_eq!(world.texts(leaver), ["0", "1", "2"]);
        // It may still settle.
        world.settle_delivery(leaver, 2);
        assert_eq!(world.texts(other), Vec::<String>::new());
        world.lose(leaver);
        let got: Vec<_> = world
            .got(other)
            .into_iter()
            .map(|got| (got.text, got.deliveries > 0, got.tag))
            .collect();
        assert_eq!(
            got.iter()
                .map(|(text, again, _)| (text.as_str(), *again))
                .collect::<Vec<_>>(),
            [("0", true), ("2", true)]
        );
        for (_, _, tag) in got {
            world.settle_delivery(other, tag);
        }
        assert_eq!(world.entries_written(), 0);
    }
}
