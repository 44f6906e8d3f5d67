//! Expiry, length and priorities.

use crate::world::{Taking, Terms, World, draft, firm, q, to_queue};
use thalweg_kernel::{Draft, DropReason, Limits, Outcome, Pressure, QueueOverflow};
use thalweg_model::Span;

fn expiring(world: &mut World, text: &str, secs: u64) {
    let client = world.connect("expiring");
    world.publish(
        client,
        Draft {
            expires_in: Some(Span::from_secs(secs)),
            ..firm(&q("q"), text)
        },
    );
    world.lose(client);
}

#[test]
fn what_waits_longer_than_its_queue_allows_is_gone_at_its_time() {
    let mut world = World::new();
    let client = world.connect("c");
    world.queue(
        client,
        "q",
        &Terms::durable().with(|limits| limits.message_ttl = Some(Span::from_secs(5))),
    );
    world.put(client, "q", "0");
    world.wait(Span::from_secs(3));
    world.put(client, "q", "1");
    assert!(world.kernels[0].poll_timeout() <= world.now + Span::from_secs(2));
    world.wait(Span::from_secs(2));
    assert_eq!((world.waits("q"), world.entries_written()), (1, 1));
    assert!(world.kernels[0].poll_timeout() <= world.now + Span::from_secs(3));
    world.wait(Span::from_secs(3));
    assert_eq!((world.waits("q"), world.entries_written()), (0, 0));
    assert_eq!(world.kernels[0].ledger().expired, 2);
}

#[test]
fn the_earlier_of_the_queues_and_the_messages_times_counts() {
    let mut world = World::new();
    let client = world.connect("c");
    world.queue(
        client,
        "q",
        &Terms::durable().with(|limits| limits.message_ttl = Some(Span::from_secs(5))),
    );
    expiring(&mut world, "short", 2);
    expiring(&mut world, "long", 50);
    world.consume(client, "q", 1, Taking::default());
    let left: Vec<_> = world.got(client).iter().map(|got| got.expires_in).collect();
    assert_eq!(left, [Some(Span::from_secs(2)), Some(Span::from_secs(5))]);
}

#[test]
fn what_expired_behind_the_head_is_not_given_to_anybody() {
    let mut world = World::new();
    let client = world.connect("c");
    world.queue(
        client,
        "q",
        &Terms::durable().with(|limits| limits.dead_letter = to_queue("dead")),
    );
    world.queue(client, "dead", &Terms::durable());
    world.put(client, "q", "stays");
    expiring(&mut world, "goes", 2);
    world.wait(Span::from_secs(3));
    world.consume(client, "q", 1, Taking::default());
    assert_eq!(world.texts(client), ["stays"]);
    assert_eq!(world.drain_texts("dead"), ["goes"]);
}

#[test]
fn what_expired_is_passed_over_by_those_who_take_one() {
    let mut world = World::new();
    let client = world.connect("c");
    world.queue(client, "q", &Terms::durable());
    expiring(&mut world, "goes", 2);
    world.put(client, "q", "stays");
    world.now += Span::from_secs(3);
    assert_eq!(world.take(client, "q", false), Ok(Some(0)));
    assert_eq!(world.texts(client), ["stays"]);
    assert_eq!(world.kernels[0].ledger().expired, 1);
}

#[test]
fn a_life_of_no_time_is_enough_for_a_consumer_that_is_there() {
    let mut world = World::new();
    let client = world.connect("c");
    world.queue(
        client,
        "q",
        &Terms::durable().with(|limits| limits.message_ttl = Some(Span::ZERO)),
    );
    world.put(client, "q", "nobody");
    world.wait(Span::ZERO);
    assert_eq!(world.waits("q"), 0);
    world.consume(client, "q", 1, Taking::default());
    world.put(client, "q", "somebody");
    assert_eq!(world.texts(client), ["somebody"]);
}

#[test]
fn what_comes_back_expires_at_its_old_time() {
    let mut world = World::new();
    let client = world.connect("c");
    world.queue(
        client,
        "q",
        &Terms::durable().with(|limits| limits.message_ttl = Some(Span::from_secs(5))),
    );
    world.put(client, "q", "m");
    world.consume(client, "q", 1, Taking::default());
    world.cancel(client, 1, 1);
    world.wait(Span::from_secs(3));
    world.requeue(client, 1);
    assert_eq!(world.waits("q"), 1);
    world.wait(Span::from_secs(2));
    assert_eq!(world.waits("q"), 0);
}

#[test]
fn what_is_unsettled_does_not_expire_before_it_comes_back() {
    let mut world = World::new();
    let client = world.connect("c");
    world.queue(
        client,
        "q",
        &Terms::durable().with(|limits| limits.message_ttl = Some(Span::from_secs(5))),
    );
    world.put(client, "q", "m");
    world.consume(client, "q", 1, Taking::default());
    world.wait(Span::from_secs(30));
    world.ack(client, 1);
    assert_eq!(world.kernels[0].ledger().expired, 0);
}

#[test]
fn the_oldest_makes_room_for_the_newest() {
    let mut world = World::new();
    let client = world.connect("c");
    world.queue(
        client,
        "q",
        &Terms::durable().with(|limits| limits.messages_max = Some(3)),
    );
    for number in 0..5 {
        assert_eq!(
            world.put(client, "q", &number.to_string()),
            Outcome::Accepted
        );
    }
    assert_eq!(world.entries_written(), 3);
    assert_eq!(world.drain_texts("q"), ["2", "3", "4"]);
    assert_eq!(world.dropped(DropReason::QueueFull), 2);
}

#[test]
fn a_full_queue_refuses_if_it_was_told_to() {
    let mut world = World::new();
    let client = world.connect("c");
    world.queue(
        client,
        "q",
        &Terms::durable().with(|limits| {
            limits.messages_max = Some(1);
            limits.overflow = QueueOverflow::RejectPublish;
        }),
    );
    assert_eq!(world.put(client, "q", "0"), Outcome::Accepted);
    assert_eq!(world.put(client, "q", "1"), Outcome::Refused);
    world.consume(client, "q", 1, Taking::default());
    assert_eq!(world.texts(client), ["0"]);
    assert_eq!(
        world.put(client, "q", "2"),
        Outcome::Accepted,
        "what is with a consumer takes no room"
    );
    assert_eq!(world.texts(client), ["2"]);
}

#[test]
fn bytes_are_bounded_too_and_a_large_newcomer_takes_the_place_of_several() {
    let mut world = World::new();
    let client = world.connect("c");
    world.queue(
        client,
        "q",
        &Terms::durable().with(|limits| limits.bytes_max = Some(10)),
    );
    for text in ["aaa", "bbb", "ccc"] {
        world.put(client, "q", text);
    }
    assert_eq!(world.view("q").expect("it is there").bytes, 9);
    world.put(client, "q", "ddddd");
    assert_eq!(world.view("q").expect("it is there").bytes, 8);
    assert_eq!(
        world.put(client, "q", "longer than all there may be"),
        Outcome::Accepted,
        "its publisher need not know"
    );
    assert_eq!(world.drain_texts("q"), ["ccc", "ddddd"]);
}

#[test]
fn a_queue_without_room_keeps_nothing_and_still_hands_over() {
    let mut world = World::new();
    let client = world.connect("c");
    world.queue(
        client,
        "q",
        &Terms::durable().with(|limits| limits.messages_max = Some(0)),
    );
    world.put(client, "q", "0");
    assert_eq!((world.waits("q"), world.entries_written()), (0, 0));
    world.consume(client, "q", 1, Taking::default());
    world.put(client, "q", "1");
    assert_eq!(world.texts(client), ["1"]);
}

#[test]
fn the_brokers_own_bound_refuses_whatever_was_declared() {
    let mut world = World::with(
        1,
        Limits {
            named_queue_messages_max: 2,
            ..Limits::default()
        },
    );
    let client = world.connect("c");
    world.queue(client, "q", &Terms::durable());
    let outcomes: Vec<_> = (0..3)
        .map(|number| world.put(client, "q", &number.to_string()))
        .collect();
    assert_eq!(
        outcomes,
        [Outcome::Accepted, Outcome::Accepted, Outcome::Refused]
    );
    assert_eq!(world.drain_texts("q"), ["0", "1"]);
}

#[test]
fn under_pressure_what_would_wait_is_refused_and_what_can_leave_leaves() {
    let mut world = World::new();
    let client = world.connect("c");
    world.queue(client, "q", &Terms::durable());
    world.kernels[0].set_pressure(Pressure::DropWaiting);
    assert_eq!(
        world.put(client, "q", "0"),
        Outcome::Full,
        "nothing has happened to it"
    );
    assert_eq!(
        world.publish(client, draft(&q("q"), "0")),
        Outcome::Full,
        "nor to one that nobody confirms"
    );
    world.consume(client, "q", 1, Taking::default());
    assert_eq!(world.put(client, "q", "1"), Outcome::Accepted);
    assert_eq!(world.texts(client), ["1"]);
    assert_eq!(world.dropped(DropReason::Memory), 0);
}

#[test]
fn higher_priorities_go_first_and_equals_in_order() {
    let mut world = World::new();
    let client = world.connect("c");
    world.queue(
        client,
        "q",
        &Terms::durable().with(|limits| limits.priority_max = 5),
    );
    for (text, priority) in [
        ("a1", 1),
        ("b5", 5),
        ("c1", 1),
        ("d9", 9),
        ("e0", 0),
        ("f3", 3),
    ] {
        world.publish(
            client,
            Draft {
                priority,
                ..firm(&q("q"), text)
            },
        );
    }
    let order = ["b5", "d9", "f3", "a1", "c1", "e0"];
    world.consume(client, "q", 1, Taking::default());
    assert_eq!(
        world.texts(client),
        order,
        "9 counts as the highest there is"
    );
    world.lose(client);
    assert_eq!(world.drain_texts("q"), order, "also when they come back");
}

#[test]
fn without_priorities_they_change_nothing() {
    let mut world = World::new();
    let client = world.connect("c");
    world.queue(client, "q", &Terms::durable());
    for (text, priority) in [("0", 1), ("1", 5)] {
        world.publish(
            client,
            Draft {
                priority,
                ..draft(&q("q"), text)
            },
        );
    }
    let got = world.drain("q");
    assert_eq!(
        got.iter()
            .map(|got| (got.text.as_str(), got.priority))
            .collect::<Vec<_>>(),
        [("0", 1), ("1", 5)]
    );
}

#[test]
fn the_lowest_priority_makes_room() {
    let mut world = World::new();
    let client = world.connect("c");
    world.queue(
        client,
        "q",
        &Terms::durable().with(|limits| {
            limits.priority_max = 5;
            limits.messages_max = Some(2);
        }),
    );
    for (text, priority) in [("high", 5), ("low", 0), ("next", 1)] {
        world.publish(
            client,
            Draft {
                priority,
                ..firm(&q("q"), text)
            },
        );
    }
    assert_eq!(world.drain_texts("q"), ["high", "next"]);
}

#[test]
fn an_expired_message_of_a_low_priority_goes_by_the_timer_too() {
    let mut world = World::new();
    let client = world.connect("c");
    world.queue(
        client,
        "q",
        &Terms::durable().with(|limits| limits.priority_max = 5),
    );
    world.publish(
        client,
        Draft {
            priority: 5,
            ..firm(&q("q"), "stays")
        },
    );
    expiring(&mut world, "goes", 2);
    world.wait(Span::from_secs(2));
    assert_eq!(world.drain_texts("q"), ["stays"]);
}
