//! Journalled state is restored.

use crate::world::{
    Taking, Terms, World, draft, exchange_spec, firm, headers, q, text, to_queue, x,
};
use thalweg_kernel::access::Access;
use thalweg_kernel::{
    DeadLetter, Draft, ExchangeKind, ExchangeSpec, Limits, Outcome, QueueOverflow, Verdict,
};
use thalweg_model::{PropertyValue, Reliability, Span};

#[test]
fn durable_queues_come_back_with_their_terms_and_others_do_not() {
    let mut world = World::new();
    let client = world.connect("c");
    let terms = Terms {
        auto_delete: true,
        ..Terms::durable()
    }
    .with(|limits| {
        limits.message_ttl = Some(Span::from_secs(60));
        limits.idle_expiry = Some(Span::from_secs(90));
        limits.messages_max = Some(10);
        limits.bytes_max = Some(1000);
        limits.overflow = QueueOverflow::RejectPublishDeadLetter;
        limits.dead_letter = Some(DeadLetter {
            exchange: x("dlx").into(),
            key: Some("a\nkey=\u{0}%0A".into()),
        });
        limits.priority_max = 9;
        limits.priority_shares = true;
        limits.single_active = true;
        limits.deliveries_max = Some(5);
        limits.label = "quorum".into();
    });
    world.queue(client, "full of terms", &terms);
    world.queue(client, "plain/with\nodd=name", &Terms::durable());
    world.queue(client, "transient", &Terms::default());
    world.queue(
        client,
        "exclusive",
        &Terms {
            durable: true,
            ..Terms::exclusive()
        },
    );
    world.restart();
    let client = world.connect("c");
    for (name, terms) in [
        ("full of terms", &terms),
        ("plain/with\nodd=name", &Terms::durable()),
    ] {
        assert_eq!(
            world
                .declare(client, name, terms)
                .map(|status| status.existed),
            Ok(true),
            "{name}"
        );
    }
    assert!(world.view("transient").is_none());
    assert!(world.view("exclusive").is_none());
    assert_eq!(world.groups_written(), 2);
}

#[test]
fn each_overflow_and_each_kind_comes_back_as_it_was() {
    let mut world = World::new();
    let client = world.connect("c");
    let overflows = [
        QueueOverflow::DropHead,
        QueueOverflow::RejectPublish,
        QueueOverflow::RejectPublishDeadLetter,
    ];
    let kinds = [
        ExchangeKind::Direct,
        ExchangeKind::Fanout,
        ExchangeKind::Topic,
        ExchangeKind::Headers,
    ];
    let of = |overflow| Terms::durable().with(|limits| limits.overflow = overflow);
    let alternate = x("elsewhere");
    let spec_of = |kind| ExchangeSpec {
        alternate: (kind == ExchangeKind::Topic).then_some(&alternate),
        internal: kind == ExchangeKind::Fanout,
        auto_delete: kind == ExchangeKind::Direct,
        ..exchange_spec(kind)
    };
    for round in 0..2 {
        for (at, overflow) in overflows.into_iter().enumerate() {
            let declared = world.declare(client, &format!("q{at}"), &of(overflow));
            assert_eq!(declared.map(|status| status.existed), Ok(round == 1));
        }
        for (at, kind) in kinds.into_iter().enumerate() {
            assert_eq!(
                world.declare_exchange(client, &format!("e{at}"), &spec_of(kind)),
                Ok(()),
                "round {round}"
            );
        }
        if round == 0 {
            world.restart();
            world.connect("c");
        }
    }
    assert_eq!(world.groups_written(), 7);
}

#[test]
fn persistent_messages_come_back_in_order_and_what_was_settled_does_not() {
    let mut world = World::new();
    let client = world.connect("c");
    world.queue(client, "q", &Terms::durable());
    for number in 0..6 {
        let address = q("q");
        let text = number.to_string();
        let draft = if number == 3 {
            draft(&address, &text)
        } else {
            firm(&address, &text)
        };
        assert_eq!(world.publish(client, draft), Outcome::Accepted);
    }
    world.consume(client, "q", 1, Taking::credit(3));
    world.ack(client, 2);
    world.restart();
    let client = world.connect("c");
    world.consume(client, "q", 1, Taking::default());
    let got = world.got(client);
    let texts: Vec<_> = got.iter().map(|got| got.text.as_str()).collect();
    assert_eq!(texts, ["0", "2", "4", "5"]);
    let flagged: Vec<_> = got.iter().map(|got| got.deliveries > 0).collect();
    assert_eq!(
        flagged,
        [true, true, true, false],
        "three had left, of which one was settled, and the next might have"
    );
    assert_eq!(world.kernels[0].ledger().restored, 4);
    world.settle(client, 1, 0, true, Verdict::Accept);
    world.restart();
    assert_eq!(world.waits("q"), 0);
    assert_eq!(world.entries_written(), 0);
}

#[test]
fn a_publish_is_held_back_until_it_is_written_down() {
    let mut world = World::new();
    let client = world.connect("c");
    world.was_held(client);
    world.queue(client, "q", &Terms::durable());
    assert!(world.was_held(client));
    world.queue(client, "transient", &Terms::default());
    assert!(!world.was_held(client));
    world.put(client, "q", "m");
    assert!(world.was_held(client));
    world.put(client, "transient", "m");
    world.publish(client, draft(&q("q"), "m"));
    assert!(!world.was_held(client));
    world.bind(client, "amq.direct", "q", "k");
    assert!(world.was_held(client));
    world
        .unbind(client, "amq.direct", "q", "k")
        .expect("it may");
    assert!(world.was_held(client));
    world.delete_queue(client, "q").expect("it may");
    assert!(world.was_held(client));
}

#[test]
fn bindings_and_exchanges_come_back() {
    let mut world = World::new();
    let client = world.connect("c");
    world.exchange(client, "first", ExchangeKind::Topic);
    world.exchange(client, "second", ExchangeKind::Headers);
    let transient = ExchangeSpec {
        durable: false,
        ..exchange_spec(ExchangeKind::Fanout)
    };
    world
        .declare_exchange(client, "transient", &transient)
        .expect("it may");
    for name in ["a", "b", "c"] {
        world.queue(client, name, &Terms::durable());
    }
    world.bind(client, "first", "a", "x.#.y");
    world
        .lead(client, "first", "second", "#", &[])
        .expect("it may");
    let arguments = [
        text("x-match", "any"),
        text("t", "text"),
        ("n".into(), PropertyValue::Integer(-7)),
        ("f".into(), PropertyValue::Float(0.5)),
        ("o".into(), PropertyValue::Bool(true)),
        ("e".into(), PropertyValue::Bytes([0, 255, 10].into())),
        ("v".into(), PropertyValue::Nothing),
    ];
    world
        .bind_with(client, "second", "b", "", &arguments)
        .expect("it may");
    world.bind(client, "transient", "c", "");
    world.bind(client, "amq.topic", "c", "a.*");
    world.restart();
    let client = world.connect("c");
    world.send(client, "first", "x.1.y", "m");
    assert_eq!(world.drain_texts("a"), ["m"]);
    for (name, value) in &arguments[1..] {
        let value = if *value == PropertyValue::Nothing {
            PropertyValue::Integer(1)
        } else {
            value.clone()
        };
        let mut properties = headers(&[]);
        properties.user.push((name.clone(), value));
        let outcome = world.send_with(client, "first", "k", name, Some(&properties));
        assert_eq!(outcome, Outcome::Accepted, "{name}");
    }
    assert_eq!(world.drain_texts("b").len(), 6);
    world.publish(client, firm("a/b", "plain"));
    assert_eq!(world.drain_texts("c"), ["plain"]);
    let gone = world.kernels[0].inspect_exchange(client.session, &x("transient"));
    assert_eq!(gone, Err(thalweg_kernel::Refusal::NoExchange));
}

#[test]
fn what_was_deleted_stays_so() {
    let mut world = World::new();
    let client = world.connect("c");
    for name in ["a", "b"] {
        world.queue(client, name, &Terms::durable());
        world.exchange(client, name, ExchangeKind::Fanout);
    }
    for name in ["a", "b"] {
        world.bind(client, name, "b", "");
    }
    world.put(client, "a", "m");
    world.put(client, "b", "m");
    world.delete_queue(client, "a").expect("it may");
    world.unbind(client, "b", "b", "").expect("it may");
    world
        .run(0, |kernel, out, _| {
            kernel.delete_exchange(client.session, &x("a"), false, out)
        })
        .expect("it may");
    world.purge(client, "b").expect("it may");
    world.restart();
    let client = world.connect("c");
    assert!(world.view("a").is_none());
    assert_eq!(world.waits("b"), 0);
    assert_eq!(world.send(client, "b", "", "m"), Outcome::NoMatch);
    assert_eq!(world.groups_written(), 2);
    // New things do not take old numbers.
    world.queue(client, "a", &Terms::durable());
    world.put(client, "a", "new");
    world.restart();
    assert_eq!(world.drain_texts("a"), ["new"]);
}

#[test]
fn what_a_message_says_of_itself_comes_back() {
    let mut world = World::new();
    let client = world.connect("c");
    world.queue(client, "dead", &Terms::durable());
    world.queue(
        client,
        "q",
        &Terms::durable().with(|limits| limits.dead_letter = to_queue("dead")),
    );
    let properties = headers(&[("a", "1")]);
    let expires_in = Some(Span::from_secs(50));
    world.publish(
        client,
        Draft {
            properties: Some(&properties),
            priority: 7,
            expires_in,
            ..firm(&q("q"), "m")
        },
    );
    world.consume(client, "q", 1, Taking::default());
    world.reject(client, 1);
    let before = world.now;
    world.wait(Span::from_secs(10));
    world.restart();
    let got = world.drain("dead");
    assert_eq!(
        (got.len(), got[0].priority, got[0].address.as_str()),
        (1, 7, "$q/dead")
    );
    assert_eq!(
        (
            got[0].deaths.len(),
            &*got[0].deaths[0].queue,
            got[0].deaths[0].count
        ),
        (1, &*q("q"), 1)
    );
    let left = got[0].expires_in.expect("it expires").secs_ceil();
    assert_eq!(left, 50 - world.now.since(before).secs());
}

#[test]
fn expiry_goes_on_over_a_restart() {
    let mut world = World::new();
    let client = world.connect("c");
    world.queue(
        client,
        "q",
        &Terms::durable().with(|limits| limits.message_ttl = Some(Span::from_secs(10))),
    );
    world.put(client, "q", "0");
    world.wait(Span::from_secs(6));
    world.put(client, "q", "1");
    world.restart();
    assert_eq!(world.waits("q"), 2);
    world.wait(Span::from_secs(5));
    assert_eq!(world.waits("q"), 1);
    world.now += Span::from_secs(20);
    world.restart();
    assert_eq!((world.waits("q"), world.entries_written()), (0, 0));
}

#[test]
fn priorities_and_places_come_back() {
    let mut world = World::new();
    let client = world.connect("c");
    world.queue(
        client,
        "q",
        &Terms::durable().with(|limits| limits.priority_max = 9),
    );
    for (text, priority) in [("0", 0), ("1", 9), ("2", 4), ("3", 9), ("4", 0)] {
        world.publish(
            client,
            Draft {
                priority,
                ..firm(&q("q"), text)
            },
        );
    }
    world.consume(client, "q", 1, Taking::credit(2));
    world.restart();
    assert_eq!(world.drain_texts("q"), ["1", "3", "2", "0", "4"]);
}

/// 9 first, and of the others some of each, before a restart as after it; in a queue without priorities in the order in which they
/// came.
#[test]
fn shares_of_priorities_come_back() {
    for (priority_shares, restarts) in [(true, false), (true, true), (false, false), (false, true)]
    {
        let mut world = World::new();
        let client = world.connect("c");
        let terms = Terms::durable().with(|limits| limits.priority_shares = priority_shares);
        world.queue(client, "q", &terms);
        let address = q("q");
        let flood = [("4", 4), ("5", 5)].map(|each| [each; 6]);
        for (text, priority) in flood.into_iter().flatten().chain([("alarm", 9)]) {
            let draft = Draft {
                priority,
                ..firm(&address, text)
            };
            world.publish(client, draft);
        }
        if restarts {
            world.restart();
        }
        let taker = world.connect("taker");
        world.consume(taker, "q", 1, Taking::blindly());
        let got = world.texts(taker).concat();
        match priority_shares {
            true => assert!(got.starts_with("alarm55") && got.contains("545"), "{got}"),
            false => assert_eq!(got, "444444555555alarm"),
        }
    }
}

#[test]
fn a_message_in_several_queues_is_settled_in_each() {
    let mut world = World::new();
    let client = world.connect("c");
    for name in ["a", "b", "c"] {
        let durable = name != "c";
        world.queue(
            client,
            name,
            &Terms {
                durable,
                ..Terms::default()
            },
        );
        world.bind(client, "amq.fanout", name, "");
    }
    world.send(client, "amq.fanout", "k", "m");
    assert_eq!(world.entries_written(), 2);
    world.consume(client, "a", 1, Taking::default());
    world.ack(client, 1);
    world.restart();
    assert_eq!((world.waits("a"), world.waits("b")), (0, 1));
    let got = world.drain("b");
    assert_eq!(got[0].address, "$x/amq.fanout/k");
}

#[test]
fn a_copy_that_is_led_elsewhere_does_not_change_the_one_in_the_queue() {
    let mut world = World::new();
    let client = world.connect("c");
    let stays = Span::from_secs(3600);
    let plain = world.connect_with(0, "plain", Access::ALL, stays);
    world.subscribe(plain, "#", None, Reliability::AtLeastOnce);
    world.lose(plain);
    world.exchange(client, "h", ExchangeKind::Headers);
    world.queue(client, "q", &Terms::durable());
    world
        .bind_with(client, "h", "q", "", &[text("a", "1")])
        .expect("it may");
    world
        .lead(client, "h", "amq.topic", "", &[text("a", "1")])
        .expect("it may");
    world.send_with(client, "h", "k", "m", Some(&headers(&[("a", "1")])));
    assert_eq!(world.entries_written(), 2);
    world.restart();
    let plain = world.connect_with(0, "plain", Access::ALL, stays);
    assert_eq!(
        world
            .got(plain)
            .iter()
            .map(|got| got.address.as_str())
            .collect::<Vec<_>>(),
        ["k"]
    );
    assert_eq!(
        world
            .drain("q")
            .iter()
            .map(|got| got.address.as_str())
            .collect::<Vec<_>>(),
        ["$x/h/k"]
    );
}

#[test]
fn what_a_member_that_stays_has_of_a_queue_goes_back_after_a_restart() {
    let mut world = World::in_turns(1);
    let stays = Span::from_secs(3600);
    let (member, client) = (
        world.connect_with(0, "m", Access::ALL, stays),
        world.connect("c"),
    );
    world.subscribe(member, &q("q"), Some("q"), Reliability::AtLeastOnce);
    for number in 0..4 {
        world.put(client, "q", &number.to_string());
    }
    let tags: Vec<_> = world.got(member).iter().map(|got| got.tag).collect();
    world.settle_delivery(member, tags[1]);
    world.restart();
    assert_eq!(world.waits("q"), 3, "its link is lost");
    let got = world.drain("q");
    assert_eq!(
        got.iter().map(|got| got.text.as_str()).collect::<Vec<_>>(),
        ["0", "2", "3"]
    );
    let client = world.connect("c");
    world.put(client, "q", "4");
    let member = world.connect_with(0, "m", Access::ALL, stays);
    assert_eq!(world.texts(member), ["4"]);
}

#[test]
fn what_a_passing_member_has_of_a_queue_is_there_after_a_restart() {
    let mut world = World::new();
    let (member, client) = (world.connect("m"), world.connect("c"));
    world.subscribe(member, &q("q"), Some("q"), Reliability::AtLeastOnce);
    for number in 0..3 {
        world.put(client, "q", &number.to_string());
    }
    let tags: Vec<_> = world.got(member).iter().map(|got| got.tag).collect();
    world.settle_delivery(member, tags[0]);
    world.restart();
    assert_eq!(world.drain_texts("q"), ["1", "2"]);
}

/// The queue is long, so that most of it is on disk only.
fn long() -> World {
    World::without_prefixes(
        1,
        Limits {
            named_queue_memory_bytes_max: 3000,
            ..Limits::default()
        },
    )
}

#[test]
fn a_long_queue_comes_in_order_from_memory_and_disk() {
    let mut world = long();
    let client = world.connect("c");
    world.queue(client, "q", &Terms::durable());
    for number in 0..2_000 {
        world.put(client, "q", &number.to_string());
    }
    assert_eq!(world.waits("q"), 2_000);
    let held = world.kernels[0].totals().queued_bytes;
    assert!(held < 150_000, "{held} bytes are in memory");
    world.consume(client, "q", 1, Taking::credit(10));
    let mut seen = 0;
    loop {
        let got = world.got(client);
        let Some(last) = got.last() else { break };
        for got in &got {
            assert_eq!(got.text, seen.to_string());
            seen += 1;
        }
        world.settle(client, 1, last.tag, true, Verdict::Accept);
    }
    assert_eq!(seen, 2_000);
    assert_eq!(world.entries_written(), 0);
}

#[test]
fn a_long_queue_comes_back_and_gives_its_messages_one_by_one_too() {
    let mut world = long();
    let client = world.connect("c");
    world.queue(client, "q", &Terms::durable());
    for number in 0..300 {
        world.put(client, "q", &number.to_string());
    }
    world.consume(client, "q", 1, Taking::credit(5));
    world.ack(client, 3);
    world.restart();
    let client = world.connect("c");
    for number in 300..310 {
        world.put(client, "q", &number.to_string());
    }
    assert_eq!(world.waits("q"), 309);
    let expected: Vec<_> = (0..310)
        .filter(|number| *number != 2)
        .map(|number| number.to_string())
        .collect();
    assert_eq!(world.drain_texts("q"), expected);
    assert_eq!(world.entries_written(), 0);
}

#[test]
fn what_comes_back_into_a_long_queue_comes_first() {
    let mut world = long();
    let client = world.connect("c");
    world.queue(client, "q", &Terms::durable());
    for number in 0..300 {
        world.put(client, "q", &number.to_string());
    }
    let other = world.connect("other");
    world.consume(other, "q", 1, Taking::credit(100));
    assert_eq!(world.texts(other).len(), 100);
    world.ack(other, 50);
    world.lose(other);
    world.consume(client, "q", 1, Taking::default());
    let expected: Vec<_> = (0..300)
        .filter(|number| *number != 49)
        .map(|number| number.to_string())
        .collect();
    assert_eq!(world.texts(client), expected);
}

#[test]
fn a_long_queue_is_purged_and_deleted_whole() {
    let mut world = long();
    let client = world.connect("c");
    for round in 0..2 {
        world.queue(client, "q", &Terms::durable());
        for number in 0..300 {
            world.put(client, "q", &number.to_string());
        }
        match round {
            0 => {
                let purged = world.purge(client, "q");
                assert_eq!(purged, Ok(300));
                world.put(client, "q", "after");
                assert_eq!(world.drain_texts("q"), ["after"]);
                world.delete_queue(client, "q").expect("it may");
            }
            _ => assert_eq!(world.delete_queue(client, "q"), Ok(300)),
        }
        assert_eq!((world.entries_written(), world.groups_written()), (0, 0));
    }
}

#[test]
fn a_queue_that_was_written_down_as_classic_is_of_the_usual_kind() {
    let mut world = World::new();
    let client = world.connect("c");
    world.queue(
        client,
        "old",
        &Terms::durable().with(|limits| limits.label = "classic".into()),
    );
    world.restart();
    let client = world.connect("c");
    assert_eq!(
        world
            .declare(client, "old", &Terms::durable())
            .map(|status| status.existed),
        Ok(true)
    );
}
