//! Queues and exchanges begin, are declared again, and end.

use crate::world::{Taking, Terms, World, exchange_spec, firm, q, to_queue, x};
use thalweg_kernel::access::Access;
use thalweg_kernel::{
    DeadLetter, Deleted, DropReason, ExchangeKind, ExchangeSpec, Limits, Outcome, QueueLimits,
    QueueOverflow, QueueStatus, Refusal, Subscribed,
};
use thalweg_model::{Reliability, Span};

#[test]
fn a_queue_is_declared_again_just_so() {
    let mut world = World::new();
    let client = world.connect("c");
    let terms = Terms::durable().with(|limits| limits.messages_max = Some(7));
    world.queue(client, "q", &terms);
    world.put(client, "q", "m");
    assert_eq!(
        world.declare(client, "q", &terms),
        Ok(QueueStatus {
            existed: true,
            messages: 1,
            consumers: 0
        })
    );
    world.consume(client, "q", 1, Taking::default());
    assert_eq!(
        world.inspect(client, "q"),
        Ok(QueueStatus {
            existed: true,
            messages: 0,
            consumers: 1
        })
    );
    assert_eq!(world.inspect(client, "other"), Err(Refusal::NoQueue));
}

#[test]
fn a_queue_is_not_declared_again_otherwise() {
    type Change = fn(&mut QueueLimits);
    let changes: [(&str, Change); 11] = [
        ("message_ttl", |limits| {
            limits.message_ttl = Some(Span::from_secs(1))
        }),
        ("idle_expiry", |limits| {
            limits.idle_expiry = Some(Span::from_secs(1))
        }),
        ("messages_max", |limits| limits.messages_max = Some(1)),
        ("bytes_max", |limits| limits.bytes_max = Some(1)),
        ("overflow", |limits| {
            limits.overflow = QueueOverflow::RejectPublish
        }),
        ("dead_letter", |limits| {
            limits.dead_letter = Some(DeadLetter {
                exchange: x("e").into(),
                key: None,
            })
        }),
        ("priority_max", |limits| limits.priority_max = 1),
        ("single_active", |limits| limits.single_active = true),
        ("deliveries_max", |limits| limits.deliveries_max = Some(1)),
        ("label", |limits| limits.label = "quorum".into()),
        ("dead_letter", |limits| {
            limits.dead_letter = to_queue("dead")
        }),
    ];
    let mut world = World::new();
    let client = world.connect("c");
    world.queue(client, "q", &Terms::durable());
    world.put(client, "q", "m");
    for (what, change) in changes {
        let terms = Terms::durable().with(change);
        assert_eq!(
            world.declare(client, "q", &terms),
            Err(Refusal::Differs(what))
        );
    }
    assert_eq!(
        world.declare(client, "q", &Terms::default()),
        Err(Refusal::Differs("durable"))
    );
    let auto_delete = Terms {
        auto_delete: true,
        ..Terms::durable()
    };
    assert_eq!(
        world.declare(client, "q", &auto_delete),
        Err(Refusal::Differs("auto_delete"))
    );
    let exclusive = Terms {
        exclusive: true,
        ..Terms::durable()
    };
    assert_eq!(
        world.declare(client, "q", &exclusive),
        Err(Refusal::Differs("exclusive"))
    );
    let keyed = |key: &str| Terms::durable().with(|limits| limits.dead_letter = to_queue(key));
    world.queue(client, "keyed", &keyed("a"));
    assert_eq!(
        world.declare(client, "keyed", &keyed("b")),
        Err(Refusal::Differs("dead_letter_key"))
    );
    assert_eq!(world.waits("q"), 1);
}

#[test]
fn an_exchange_is_declared_again_only_just_so() {
    let mut world = World::new();
    let client = world.connect("c");
    let spec = exchange_spec(ExchangeKind::Topic);
    for _ in 0..2 {
        assert_eq!(world.declare_exchange(client, "e", &spec), Ok(()));
    }
    let other = x("other");
    for (what, spec) in [
        ("kind", exchange_spec(ExchangeKind::Direct)),
        (
            "durable",
            ExchangeSpec {
                durable: false,
                ..spec.clone()
            },
        ),
        (
            "auto_delete",
            ExchangeSpec {
                auto_delete: true,
                ..spec.clone()
            },
        ),
        (
            "internal",
            ExchangeSpec {
                internal: true,
                ..spec.clone()
            },
        ),
        (
            "alternate",
            ExchangeSpec {
                alternate: Some(&other),
                ..spec.clone()
            },
        ),
    ] {
        assert_eq!(
            world.declare_exchange(client, "e", &spec),
            Err(Refusal::Differs(what))
        );
    }
    assert_eq!(
        world.declare_exchange(client, "amq.fanout", &exchange_spec(ExchangeKind::Fanout)),
        Ok(())
    );
    let differs = world.declare_exchange(client, "amq.fanout", &exchange_spec(ExchangeKind::Topic));
    assert_eq!(differs, Err(Refusal::Differs("kind")));
    assert_eq!(
        world.declare_exchange(client, "amq.mine", &spec),
        Err(Refusal::Reserved)
    );
    let kernel = &world.kernels[0];
    assert_eq!(
        kernel.inspect_exchange(client.session, &x("e")),
        Ok(ExchangeKind::Topic)
    );
    assert_eq!(
        kernel.inspect_exchange(client.session, &x("amq.match")),
        Ok(ExchangeKind::Headers)
    );
    assert_eq!(
        kernel.inspect_exchange(client.session, &x("none")),
        Err(Refusal::NoExchange)
    );
}

#[test]
fn an_exclusive_queue_is_its_sessions_alone_and_ends_with_it() {
    let mut world = World::new();
    let (owner, other) = (world.connect("owner"), world.connect("other"));
    world.queue(owner, "q", &Terms::exclusive());
    world.bind(owner, "amq.fanout", "q", "");
    assert_eq!(
        world.declare(other, "q", &Terms::exclusive()),
        Err(Refusal::Locked)
    );
    assert_eq!(world.inspect(other, "q"), Err(Refusal::Locked));
    assert_eq!(
        world.consume_from(other, &q("q"), 1, Taking::default()),
        Err(Refusal::Locked)
    );
    assert_eq!(world.take(other, "q", true), Err(Refusal::Locked));
    assert_eq!(
        world.bind_with(other, "amq.direct", "q", "k", &[]),
        Err(Refusal::Locked)
    );
    assert_eq!(world.delete_queue(other, "q"), Err(Refusal::Locked));
    let purged = world.purge(other, "q");
    assert_eq!(purged, Err(Refusal::Locked));
    assert_eq!(
        world.put(other, "q", "m"),
        Outcome::Accepted,
        "whoever may publish may publish there"
    );
    assert_eq!(
        world
            .declare(owner, "q", &Terms::exclusive())
            .map(|status| status.messages),
        Ok(1)
    );
    world.lose(owner);
    assert!(world.view("q").is_none());
    assert_eq!(world.dropped(DropReason::QueueEnded), 1);
    assert_eq!(
        world.send(other, "amq.fanout", "", "m"),
        Outcome::NoMatch,
        "its binding is gone, too"
    );
    assert_eq!(world.groups_written(), 0);
}

#[test]
fn an_exclusive_queue_with_unsettled_messages_ends_with_its_session() {
    let mut world = World::new();
    let owner = world.connect("owner");
    world.queue(
        owner,
        "q",
        &Terms {
            durable: true,
            ..Terms::exclusive()
        },
    );
    world.consume(owner, "q", 1, Taking::credit(1));
    world.put(owner, "q", "0");
    world.put(owner, "q", "1");
    world.lose(owner);
    assert!(world.view("q").is_none());
    assert_eq!((world.groups_written(), world.entries_written()), (0, 0));
    assert_eq!(world.kernels[0].totals().in_flight, 0);
}

#[test]
fn a_queue_deletes_itself_with_its_last_consumer() {
    let mut world = World::new();
    let (a, b) = (world.connect("a"), world.connect("b"));
    world.queue(
        a,
        "q",
        &Terms {
            durable: true,
            ..Terms::auto_delete()
        },
    );
    world.put(a, "q", "m");
    assert!(world.view("q").is_some(), "not before it had one");
    world.consume(a, "q", 1, Taking::default());
    world.consume(b, "q", 1, Taking::default());
    assert!(world.cancel(a, 1, 1));
    assert!(world.view("q").is_some());
    world.lose(b);
    assert!(world.view("q").is_none());
    world.ack(a, 1);
    assert_eq!((world.groups_written(), world.entries_written()), (0, 0));
}

#[test]
fn a_queue_nobody_uses_ends_after_its_time() {
    let mut world = World::new();
    let client = world.connect("c");
    let terms = Terms::durable().with(|limits| limits.idle_expiry = Some(Span::from_secs(10)));
    world.queue(client, "q", &terms);
    world.wait(Span::from_secs(9));
    world.declare(client, "q", &terms).expect("it is there");
    world.wait(Span::from_secs(9));
    world.take(client, "q", false).expect("it is there");
    world.wait(Span::from_secs(9));
    world.consume(client, "q", 1, Taking::default());
    world.wait(Span::from_secs(99));
    assert!(world.view("q").is_some(), "somebody uses it");
    world.cancel(client, 1, 1);
    world.put(client, "q", "a message is no use");
    world.wait(Span::from_secs(9));
    assert!(world.view("q").is_some());
    assert!(world.kernels[0].poll_timeout() <= world.now + Span::from_secs(1));
    world.wait(Span::from_secs(1));
    assert!(world.view("q").is_none());
    assert_eq!((world.groups_written(), world.entries_written()), (0, 0));
}

#[test]
fn what_is_purged_is_gone_and_what_is_unsettled_stays() {
    let mut world = World::new();
    let client = world.connect("c");
    world.queue(client, "q", &Terms::durable());
    for number in 0..5 {
        world.put(client, "q", &number.to_string());
    }
    world.take(client, "q", true).expect("it may");
    world.was_held(client);
    let purged = world.purge(client, "q");
    assert_eq!(purged, Ok(4));
    assert!(world.was_held(client), "the answer waits for the journal");
    assert_eq!((world.waits("q"), world.entries_written()), (0, 1));
    assert_eq!(world.dropped(DropReason::Purged), 4);
    world.requeue(client, 1);
    assert_eq!(world.drain_texts("q"), ["0"]);
}

#[test]
fn whoever_consumes_from_a_deleted_queue_is_told_once() {
    let mut world = World::new();
    let (a, b) = (world.connect("a"), world.connect("b"));
    world.queue(a, "q", &Terms::durable());
    world.queue(a, "p", &Terms::durable());
    world.consume(a, "q", 7, Taking::on(3));
    world.consume(a, "p", 8, Taking::on(3));
    world.consume(b, "q", 1, Taking::credit(1));
    for number in 0..3 {
        world.put(a, "q", &number.to_string());
    }
    assert_eq!(world.delete_queue(a, "q"), Ok(0), "all are with consumers");
    assert_eq!(
        (world.ended(a), world.ended(b)),
        (vec![(3, 7)], vec![(1, 1)])
    );
    assert!(!world.cancel(b, 1, 1));
    assert_eq!(world.delete_queue(a, "q"), Err(Refusal::NoQueue));
    world.lose(b);
    world.put(a, "p", "m");
    assert_eq!(
        world.texts(a).last().map(String::as_str),
        Some("m"),
        "the other consumer of the line goes on"
    );
}

#[test]
fn a_queue_is_deleted_only_if_unused_or_empty_when_that_was_said() {
    let mut world = World::new();
    let client = world.connect("c");
    world.queue(client, "q", &Terms::durable());
    world.put(client, "q", "m");
    let mut delete = |unused, empty| {
        world.run(0, |kernel, out, now| {
            kernel.delete_queue(client.session, &q("q"), unused, empty, now, out)
        })
    };
    assert_eq!(delete(false, true), Err(Refusal::NotEmpty));
    assert_eq!(delete(true, false), Ok(Deleted::Gone(1)));
    world.queue(client, "q", &Terms::durable());
    world.consume(client, "q", 1, Taking::default());
    let mut delete = |unused, empty| {
        world.run(0, |kernel, out, now| {
            kernel.delete_queue(client.session, &q("q"), unused, empty, now, out)
        })
    };
    assert_eq!(delete(true, false), Err(Refusal::InUse));
    assert_eq!(delete(false, true), Ok(Deleted::Gone(0)));
}

#[test]
fn a_consumer_may_have_a_queue_alone() {
    let mut world = World::new();
    let (a, b) = (world.connect("a"), world.connect("b"));
    world.queue(a, "q", &Terms::default());
    let alone = Taking {
        exclusive: true,
        ..Taking::default()
    };
    world.consume(a, "q", 1, Taking::default());
    assert_eq!(
        world.consume_from(b, &q("q"), 1, alone),
        Err(Refusal::InUse)
    );
    world.cancel(a, 1, 1);
    assert_eq!(world.consume_from(b, &q("q"), 1, alone), Ok(()));
    assert_eq!(
        world.consume_from(a, &q("q"), 1, Taking::default()),
        Err(Refusal::InUse)
    );
    world.lose(b);
    assert_eq!(world.consume_from(a, &q("q"), 1, Taking::default()), Ok(()));
}

#[test]
fn a_line_has_one_consumer_of_a_number() {
    let mut world = World::new();
    let client = world.connect("c");
    world.queue(client, "q", &Terms::default());
    world.consume(client, "q", 1, Taking::default());
    assert!(matches!(
        world.consume_from(client, &q("q"), 1, Taking::default()),
        Err(Refusal::Invalid(_))
    ));
    assert!(matches!(
        world.consume_from(client, &q("q"), 0, Taking::default()),
        Err(Refusal::Invalid(_))
    ));
    assert_eq!(
        world.consume_from(client, &q("q"), 1, Taking::on(2)),
        Ok(())
    );
    assert_eq!(
        world.consume_from(client, &q("none"), 2, Taking::default()),
        Err(Refusal::NoQueue)
    );
}

#[test]
fn there_are_only_so_many_of_each() {
    let limits = Limits {
        queues_max: 2,
        exchanges_max: 1,
        bindings_max: 2,
        ..Limits::default()
    };
    let mut world = World::with(1, limits);
    let client = world.connect("c");
    world.exchange(client, "e", ExchangeKind::Direct);
    let second = world.declare_exchange(client, "f", &exchange_spec(ExchangeKind::Direct));
    assert_eq!(second, Err(Refusal::TooMany));
    world.queue(client, "a", &Terms::default());
    world.queue(client, "b", &Terms::default());
    assert_eq!(
        world.declare(client, "c", &Terms::default()),
        Err(Refusal::TooMany)
    );
    world.bind(client, "e", "a", "1");
    world.bind(client, "e", "a", "2");
    assert_eq!(
        world.bind_with(client, "e", "a", "3", &[]),
        Err(Refusal::TooMany)
    );
    assert_eq!(
        world.bind_with(client, "e", "a", "2", &[]),
        Ok(()),
        "it is there already"
    );
    world.delete_queue(client, "a").expect("it may");
    world.queue(client, "c", &Terms::default());
    world.bind(client, "e", "c", "3");
}

#[test]
fn nothing_that_must_be_kept_begins_while_the_journal_is_full() {
    let mut world = World::new();
    let client = world.connect("c");
    world.queue(client, "q", &Terms::durable());
    world.put(client, "q", "m");
    world.kernels[0].set_journal_full(true);
    assert_eq!(
        world.declare(client, "p", &Terms::durable()),
        Err(Refusal::Full)
    );
    assert_eq!(
        world
            .declare(client, "r", &Terms::default())
            .map(|status| status.existed),
        Ok(false)
    );
    let spec = exchange_spec(ExchangeKind::Direct);
    assert_eq!(
        world.declare_exchange(client, "e", &spec),
        Err(Refusal::Full)
    );
    assert_eq!(
        world.bind_with(client, "amq.direct", "q", "k", &[]),
        Err(Refusal::Full)
    );
    assert_eq!(world.put(client, "q", "n"), Outcome::Full);
    assert_eq!(
        world.put(client, "r", "n"),
        Outcome::Accepted,
        "that queue is not written down"
    );
    world.consume(client, "q", 1, Taking::default());
    world.ack(client, 1);
    assert_eq!(
        world.entries_written(),
        0,
        "what is settled is still written down"
    );
}

#[test]
fn a_publish_to_a_queue_that_is_not_there_meets_nobody() {
    let mut world = World::new();
    let client = world.connect("c");
    assert_eq!(
        world.publish(client, firm(&q("none"), "m")),
        Outcome::NoMatch
    );
    assert_eq!(world.kernels[0].ledger().unmatched, 1);
}

#[test]
fn only_a_name_of_one_level_names_a_queue() {
    let mut world = World::new();
    let client = world.connect("c");
    for address in ["q", "$q", "$q/a/b", "$x/q", "$quux/a", "$q/+", "$q/#"] {
        let spec = thalweg_kernel::QueueSpec {
            address,
            durable: false,
            exclusive: false,
            is_named_by_broker: false,
            auto_delete: false,
            limits: QueueLimits::default(),
        };
        let declared = world.run(0, |kernel, out, now| {
            kernel.declare_queue(client.session, &spec, now, out)
        });
        assert!(
            matches!(declared, Err(Refusal::Invalid(_))),
            "{address}: {declared:?}"
        );
    }
    // Any name can be written as one level.
    for name in [
        "a/b",
        "+",
        "#",
        "with space",
        "é",
        "%2F",
        "x".repeat(200).as_str(),
    ] {
        world.queue(client, name, &Terms::default());
        world.put(client, name, name);
        assert_eq!(world.drain_texts(name), [name]);
    }
}

#[test]
fn tenants_have_queues_of_their_own() {
    let mut world = World::new();
    let other = world.connect("o");
    world.queue(other, "q", &Terms::default());
    let client = world.connect_in("plant", "c");
    let address = thalweg_kernel::queue_address("plant", "q");
    let spec = thalweg_kernel::QueueSpec {
        address: &address,
        durable: false,
        exclusive: false,
        is_named_by_broker: false,
        auto_delete: false,
        limits: QueueLimits {
            dead_letter: to_queue("q"),
            ..QueueLimits::default()
        },
    };
    let status = world.run(0, |kernel, out, now| {
        kernel.declare_queue(client.session, &spec, now, out)
    });
    assert_eq!(status.map(|status| status.existed), Ok(false));
    assert_eq!(world.waits("q"), 0);
    assert_eq!(
        world.publish(client, firm(&address, "m")),
        Outcome::Accepted
    );
    assert_eq!(world.waits("q"), 0);
    // Without any rules a tenant is out of the others' reach.
    assert_eq!(world.publish(other, firm(&address, "m")), Outcome::Denied);
    assert_eq!(
        world.publish(other, firm("$t@plant/a", "m")),
        Outcome::Denied
    );
    assert_eq!(
        world.consume_from(other, &address, 1, Taking::default()),
        Err(Refusal::Denied)
    );
    for filter in ["$t@plant/#", "$presence@plant/+"] {
        assert_eq!(
            world.subscribe(other, filter, None, Reliability::AtMostOnce),
            Subscribed::Denied
        );
    }
    assert_eq!(world.publish(client, firm("a", "m")), Outcome::Denied);
    assert_eq!(world.publish(client, firm(&q("q"), "m")), Outcome::Denied);
    // A dead letter stays with its tenant.
    world
        .consume_from(client, &address, 1, Taking::default())
        .expect("it may");
    world.reject(client, 1);
    assert_eq!(world.waits("q"), 0);
}

/// Sessions of one client id on two shards, as older versions could leave them, are one after a restart: the one with
/// the longer remaining lifetime. The other ends, with its deliveries.
#[test]
fn two_sessions_of_one_client_id_are_one_after_a_restart() {
    for longer in [0, 1] {
        let mut w = World::with(
            2,
            Limits {
                journal: true,
                ..Limits::default()
            },
        );
        for shard in 0..2 {
            let expiry = Span::from_secs(if shard == longer { 2000 } else { 1000 });
            let who = w.connect_with(shard, "dup", Access::ALL, expiry);
            w.subscribe(who, &format!("t/{shard}"), None, Reliability::AtLeastOnce);
            w.lose(who);
        }
        w.restart();
        let clients = |w: &World| {
            let mut clients = 0;
            w.kernels
                .iter()
                .for_each(|kernel| kernel.for_each_session(|_| clients += 1));
            clients
        };
        assert_eq!(clients(&w), 1);
        w.restart();
        assert_eq!(clients(&w), 1, "the journal has forgotten the other, too");
        let home = usize::from(thalweg_kernel::home("dup", 2).0);
        let who = w.connect_with(home, "dup", Access::ALL, Span::from_secs(1000));
        let from = w.connect("publisher");
        for shard in 0..2 {
            w.publish(from, firm(&format!("t/{shard}"), "x"));
        }
        assert_eq!(w.got(who).len(), 1);
    }
}
