//! Where messages go that a queue gives up.

use crate::world::{Taking, Terms, World, draft, firm, headers, q, to_queue, x};
use thalweg_kernel::{DeadLetter, Draft, DropReason, ExchangeKind, Outcome, QueueOverflow};
use thalweg_model::{DeathReason, Span};

#[test]
fn what_is_rejected_becomes_a_dead_letter_that_tells_its_death() {
    let mut world = World::new();
    let client = world.connect("c");
    world.queue(client, "dead", &Terms::durable());
    world.queue(
        client,
        "q",
        &Terms::durable().with(|limits| limits.dead_letter = to_queue("dead")),
    );
    let properties = headers(&[("a", "1")]);
    world.publish(
        client,
        Draft {
            properties: Some(&properties),
            priority: 4,
            ..firm(&q("q"), "m")
        },
    );
    world.consume(client, "q", 1, Taking::default());
    world.reject(client, 1);
    world.got(client);
    let got = world.drain("dead");
    assert_eq!(
        (
            got.len(),
            got[0].text.as_str(),
            got[0].deliveries,
            got[0].priority
        ),
        (1, "m", 0, 4)
    );
    assert_eq!(got[0].address, q("dead"));
    let death = &got[0].deaths[..];
    assert_eq!(death.len(), 1);
    assert_eq!(
        (&*death[0].queue, death[0].reason, death[0].count),
        (&*q("q"), DeathReason::Rejected, 1)
    );
    assert_eq!((&*death[0].address, death[0].first_secs), (&*q("q"), 1_000));
    assert_eq!(world.entries_written(), 0);
}

#[test]
fn without_a_place_for_dead_letters_what_is_rejected_is_gone() {
    let mut world = World::new();
    let client = world.connect("c");
    world.queue(client, "q", &Terms::durable());
    world.put(client, "q", "m");
    world.consume(client, "q", 1, Taking::default());
    world.reject(client, 1);
    assert_eq!((world.waits("q"), world.entries_written()), (0, 0));
    assert_eq!(world.kernels[0].ledger().delivered, 1);
}

#[test]
fn dead_letters_go_through_an_exchange_with_their_key_or_another() {
    let mut world = World::new();
    let client = world.connect("c");
    world.exchange(client, "in", ExchangeKind::Direct);
    world.exchange(client, "dlx", ExchangeKind::Direct);
    for (queue, key) in [("own", "the.key"), ("other", "graveyard")] {
        world.queue(client, queue, &Terms::durable());
        world.bind(client, "dlx", queue, key);
    }
    for (queue, key) in [("q1", None), ("q2", Some("graveyard".into()))] {
        let dead_letter = Some(DeadLetter {
            exchange: x("dlx").into(),
            key,
        });
        world.queue(
            client,
            queue,
            &Terms::durable().with(|limits| limits.dead_letter = dead_letter),
        );
        world.bind(client, "in", queue, "the.key");
    }
    world.send(client, "in", "the.key", "m");
    for (number, queue) in ["q1", "q2"].iter().enumerate() {
        world.consume(client, queue, number as u32 + 1, Taking::default());
        world.reject(client, number as u64 + 1);
    }
    let own = world.drain("own");
    assert_eq!(
        (own.len(), own[0].address.as_str(), &*own[0].deaths[0].queue),
        (1, "$x/dlx/the.key", &*q("q1"))
    );
    assert_eq!(&*own[0].deaths[0].address, "$x/in/the.key");
    let other = world.drain("other");
    assert_eq!(
        (other.len(), other[0].address.as_str()),
        (1, "$x/dlx/graveyard")
    );
}

#[test]
fn an_exchange_for_dead_letters_that_is_not_there_loses_them() {
    let mut world = World::new();
    let client = world.connect("c");
    let dead_letter = Some(DeadLetter {
        exchange: x("nowhere").into(),
        key: None,
    });
    world.queue(
        client,
        "q",
        &Terms::durable().with(|limits| limits.dead_letter = dead_letter),
    );
    world.put(client, "q", "m");
    world.consume(client, "q", 1, Taking::default());
    world.reject(client, 1);
    assert_eq!(world.entries_written(), 0);
}

#[test]
fn a_message_that_dies_again_in_the_same_queue_counts_its_deaths() {
    let mut world = World::new();
    let client = world.connect("c");
    world.queue(
        client,
        "retry",
        &Terms::durable().with(|limits| {
            limits.message_ttl = Some(Span::from_secs(1));
            limits.dead_letter = to_queue("work");
        }),
    );
    world.queue(
        client,
        "work",
        &Terms::durable().with(|limits| limits.dead_letter = to_queue("retry")),
    );
    world.put(client, "work", "m");
    world.consume(client, "work", 1, Taking::default());
    for round in 1..=5 {
        let got = world.got(client);
        assert_eq!(got.len(), 1, "round {round}");
        let counts: Vec<_> = got[0]
            .deaths
            .iter()
            .map(|death| (&*death.queue, death.reason, death.count))
            .collect();
        let before = round - 1;
        let (retry, work) = (q("retry"), q("work"));
        let expected = [
            (&*retry, DeathReason::Expired, before),
            (&*work, DeathReason::Rejected, before),
        ];
        assert_eq!(counts, expected[..if round == 1 { 0 } else { 2 }]);
        world.reject(client, got[0].tag);
        assert_eq!(world.waits("retry"), 1);
        world.wait(Span::from_millis(999));
        assert_eq!(world.waits("retry"), 1);
        world.wait(Span::from_millis(1));
    }
}

#[test]
fn a_cycle_that_nobody_decides_on_ends() {
    let mut world = World::new();
    let client = world.connect("c");
    for (queue, next) in [("a", "b"), ("b", "a")] {
        world.queue(
            client,
            queue,
            &Terms::durable().with(|limits| {
                limits.message_ttl = Some(Span::from_secs(1));
                limits.dead_letter = to_queue(next);
            }),
        );
    }
    world.put(client, "a", "m");
    world.wait(Span::from_secs(1));
    assert_eq!((world.waits("a"), world.waits("b")), (0, 1));
    world.wait(Span::from_secs(1));
    assert_eq!((world.waits("a"), world.waits("b")), (1, 0));
    world.wait(Span::from_secs(1));
    assert_eq!(
        (world.waits("a"), world.waits("b")),
        (0, 0),
        "it came back without anybody's decision"
    );
    assert_eq!(world.entries_written(), 0);
}

#[test]
fn a_cycle_ends_although_somebody_rejected_the_message_once_before_it_began() {
    let mut world = World::new();
    let client = world.connect("c");
    world.queue(
        client,
        "q",
        &Terms::durable().with(|limits| {
            limits.messages_max = Some(1);
            limits.dead_letter = to_queue("q");
        }),
    );
    // Two messages that were rejected, and room for one: each pushes the other out.
    let other = world.connect("other");
    world.consume(other, "q", 1, Taking::default());
    world.put(client, "q", "one");
    world.put(client, "q", "two");
    assert!(world.cancel(other, 1, 1));
    world.reject(other, 1);
    world.reject(other, 2);
    assert_eq!(world.waits("q"), 1);
}

#[test]
fn what_expires_goes_on_without_its_expiry() {
    let mut world = World::new();
    let client = world.connect("c");
    world.queue(client, "dead", &Terms::durable());
    world.queue(
        client,
        "q",
        &Terms::durable().with(|limits| limits.dead_letter = to_queue("dead")),
    );
    world.publish(
        client,
        Draft {
            expires_in: Some(Span::from_secs(2)),
            ..firm(&q("q"), "m")
        },
    );
    world.wait(Span::from_secs(2));
    world.wait(Span::from_secs(100));
    let got = world.drain("dead");
    assert_eq!((got.len(), got[0].expires_in), (1, None));
    assert_eq!(
        (got[0].deaths[0].reason, got[0].deaths[0].lifetime_ms),
        (DeathReason::Expired, Some(2_000))
    );
}

#[test]
fn what_is_rejected_keeps_its_expiry() {
    let mut world = World::new();
    let client = world.connect("c");
    world.queue(client, "dead", &Terms::durable());
    world.queue(
        client,
        "q",
        &Terms::durable().with(|limits| limits.dead_letter = to_queue("dead")),
    );
    world.publish(
        client,
        Draft {
            expires_in: Some(Span::from_secs(10)),
            ..firm(&q("q"), "m")
        },
    );
    world.consume(client, "q", 1, Taking::default());
    world.wait(Span::from_secs(4));
    world.reject(client, 1);
    world.wait(Span::from_secs(5));
    assert_eq!(world.waits("dead"), 1);
    world.wait(Span::from_secs(1));
    assert_eq!(world.waits("dead"), 0);
    assert_eq!(world.kernels[0].ledger().expired, 1);
}

#[test]
fn a_dead_letter_that_another_queue_gives_up_tells_both_deaths_the_latest_first() {
    let mut world = World::new();
    let client = world.connect("c");
    world.queue(client, "end", &Terms::durable());
    world.queue(
        client,
        "second",
        &Terms::durable().with(|limits| limits.dead_letter = to_queue("end")),
    );
    world.queue(
        client,
        "first",
        &Terms::durable().with(|limits| limits.dead_letter = to_queue("second")),
    );
    world.put(client, "first", "m");
    world.consume(client, "first", 1, Taking::default());
    world.consume(client, "second", 2, Taking::default());
    world.reject(client, 1);
    world.reject(client, 2);
    let got = world.drain("end");
    let queues: Vec<_> = got[0]
        .deaths
        .iter()
        .map(|death| death.queue.to_string())
        .collect();
    assert_eq!(queues, [q("second"), q("first")]);
}

#[test]
fn what_overflows_becomes_a_dead_letter() {
    for (overflow, waits, dead, outcome) in [
        (QueueOverflow::DropHead, "new", "old", Outcome::Accepted),
        (
            QueueOverflow::RejectPublishDeadLetter,
            "old",
            "new",
            Outcome::Refused,
        ),
    ] {
        let mut world = World::new();
        let client = world.connect("c");
        world.queue(client, "dead", &Terms::durable());
        world.queue(
            client,
            "q",
            &Terms::durable().with(|limits| {
                limits.messages_max = Some(1);
                limits.overflow = overflow;
                limits.dead_letter = to_queue("dead");
            }),
        );
        assert_eq!(world.put(client, "q", "old"), Outcome::Accepted);
        assert_eq!(world.put(client, "q", "new"), outcome, "{overflow:?}");
        assert_eq!(world.entries_written(), 2);
        assert_eq!(world.drain_texts("q"), [waits], "{overflow:?}");
        let got = world.drain("dead");
        assert_eq!(
            (got[0].text.as_str(), got[0].deaths[0].reason),
            (dead, DeathReason::Overflow),
            "{overflow:?}"
        );
        assert_eq!(world.dropped(DropReason::QueueFull), 1);
    }
}

#[test]
fn a_dead_letter_comes_to_a_waiting_consumer_at_once() {
    let mut world = World::new();
    let (client, undertaker) = (world.connect("c"), world.connect("u"));
    world.queue(client, "dead", &Terms::default());
    world.queue(
        client,
        "q",
        &Terms::default().with(|limits| limits.dead_letter = to_queue("dead")),
    );
    world.consume(undertaker, "dead", 1, Taking::default());
    world.consume(client, "q", 1, Taking::default());
    world.publish(client, draft(&q("q"), "m"));
    world.reject(client, 1);
    assert_eq!(world.texts(undertaker), ["m"]);
}

#[test]
fn many_that_are_rejected_become_dead_letters_in_their_order() {
    let mut world = World::new();
    let client = world.connect("c");
    world.queue(client, "dead", &Terms::durable());
    world.queue(
        client,
        "q",
        &Terms::durable().with(|limits| limits.dead_letter = to_queue("dead")),
    );
    world.consume(client, "q", 1, Taking::default());
    for number in 0..5 {
        world.put(client, "q", &number.to_string());
    }
    world.settle(client, 1, 0, true, thalweg_kernel::Verdict::Reject);
    assert_eq!(world.drain_texts("dead"), ["0", "1", "2", "3", "4"]);
}

#[test]
fn dead_letters_leave_when_all_queues_of_a_command_went_on() {
    let mut world = World::new();
    let client = world.connect("c");
    world.queue(client, "dead", &Terms::default());
    world.queue(
        client,
        "first",
        &Terms::default().with(|limits| limits.dead_letter = to_queue("dead")),
    );
    world.queue(client, "second", &Terms::default());
    for (number, queue) in ["first", "second"].into_iter().enumerate() {
        world.consume(client, queue, number as u32 + 1, Taking::credit(1));
        for text in ["one", "two"] {
            world.put(client, queue, &format!("{queue} {text}"));
        }
    }
    world.consume(client, "dead", 3, Taking::on(2));
    assert_eq!(world.texts(client), ["first one", "second one"]);
    world.settle(client, 1, 0, true, thalweg_kernel::Verdict::Reject);
    // Each queue goes on first, then what the first one gave up.
    assert_eq!(
        world.texts(client),
        ["first two", "second two", "first one"]
    );
}
