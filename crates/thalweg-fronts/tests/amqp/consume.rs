//! Taking from queues: credit, settlement, redelivery, ends.

use crate::world::{ServerMethod, World};
use thalweg_amqp::methods::{basic, channel, queue};
use thalweg_amqp::{BasicProperties, Method, MethodId, ReplyCode, TableWriter};
use thalweg_kernel::Limits;
use thalweg_model::Span;
use thalweg_mqtt::{PublishOut, QoS};

fn fill(world: &mut World, who: crate::world::Who, queue: &str, count: usize) {
    world.declare(who, queue);
    for number in 0..count {
        world.publish(who, "", queue, &number.to_string());
    }
}

fn qos(world: &mut World, who: crate::world::Who, prefetch_count: u16, global: bool) {
    let qos = basic::Qos {
        prefetch_size: 0,
        prefetch_count,
        global,
    };
    assert_eq!(
        world.call(who, &Method::BasicQos(qos)),
        [ServerMethod::Done("basic.qos-ok")]
    );
}

#[test]
fn a_consumer_is_told_of_itself_before_its_first_message() {
    let mut world = World::new();
    let who = world.connect();
    fill(&mut world, who, "q", 2);
    let said = world.consume_with(
        who,
        &basic::Consume {
            queue: "q",
            ..Default::default()
        },
    );
    let [ServerMethod::Consuming(tag)] = &said[..] else {
        panic!("{said:?}")
    };
    assert!(tag.starts_with("amq.ctag-"), "{tag}");
    let got = world.got(who);
    assert_eq!(
        got.iter()
            .map(|got| (got.tag, got.consumer.as_ref()))
            .collect::<Vec<_>>(),
        [(1, Some(tag)), (2, Some(tag))]
    );
}

#[test]
fn prefetch_bounds_each_consumer_or_the_whole_channel() {
    for (global, expected) in [(false, 4), (true, 2)] {
        let mut world = World::new();
        let who = world.connect();
        fill(&mut world, who, "q", 10);
        qos(&mut world, who, 2, global);
        for consumer_tag in ["a", "b"] {
            world.consume_with(
                who,
                &basic::Consume {
                    queue: "q",
                    consumer_tag,
                    ..Default::default()
                },
            );
        }
        let got = world.got(who);
        assert_eq!(got.len(), expected, "global: {global}");
        world.ack(who, got[0].tag, false);
        assert_eq!(world.got(who).len(), 1, "one settled makes room for one");
        world.ack(who, 0, true);
        assert_eq!(
            world.got(who).len(),
            expected.min(10 - expected - 1),
            "all settled"
        );
    }
}

#[test]
fn every_delivery_of_a_channel_has_its_own_tag() {
    let mut world = World::new();
    let who = world.connect();
    fill(&mut world, who, "q", 1);
    fill(&mut world, who, "p", 1);
    world.consume_with(
        who,
        &basic::Consume {
            queue: "q",
            no_ack: true,
            ..Default::default()
        },
    );
    world.consume_with(
        who,
        &basic::Consume {
            queue: "p",
            ..Default::default()
        },
    );
    world.publish(who, "", "q", "x");
    let tags: Vec<u64> = world.got(who).iter().map(|got| got.tag).collect();
    assert_eq!(tags, [1, 2, 3]);
    world.ack(who, 2, false);
    assert_eq!(world.said(who), []);
}

#[test]
fn a_tag_that_is_not_known_ends_the_channel_and_only_that() {
    let mut world = World::new();
    let who = world.connect();
    world.ack(who, 7, false);
    let text = "PRECONDITION_FAILED - unknown delivery tag 7".to_owned();
    assert_eq!(
        world.said(who),
        [ServerMethod::ChannelClosed {
            ch: 1,
            code: 406,
            text
        }]
    );
    world.channel(who, 1);
    world.declare(who, "q");
}

#[test]
fn rejected_messages_come_again_or_die() {
    let mut world = World::new();
    let who = world.connect();
    world.declare(who, "dead");
    world.declare_args(who, "q", |table| {
        table
            .str("x-dead-letter-exchange", "")
            .str("x-dead-letter-routing-key", "dead");
    });
    world.publish(who, "", "q", "m");
    world.consume(who, "q", false);
    world.call(
        who,
        &Method::BasicReject(basic::Reject {
            delivery_tag: 1,
            requeue: true,
        }),
    );
    world.call(
        who,
        &Method::BasicNack(basic::Nack {
            delivery_tag: 2,
            multiple: false,
            requeue: false,
        }),
    );
    let got = world.got(who);
    assert_eq!(
        got.iter()
            .map(|got| (got.tag, got.redelivered))
            .collect::<Vec<_>>(),
        [(1, false), (2, true)]
    );
    let dead = world.get(who, "dead").expect("it is dead");
    assert_eq!((dead.key.as_str(), dead.text()), ("dead", "m"));
    assert_eq!(
        dead.header_text("x-first-death-queue").as_deref(),
        Some("q")
    );
    assert_eq!(
        dead.header_text("x-first-death-reason").as_deref(),
        Some("rejected")
    );
}

#[test]
fn recover_gives_everything_unsettled_again() {
    let mut world = World::new();
    let who = world.connect();
    fill(&mut world, who, "q", 3);
    world.consume(who, "q", false);
    world.got(who);
    assert_eq!(
        world.call(who, &Method::BasicRecover(basic::Recover { requeue: true })),
        [ServerMethod::Done("basic.recover-ok")]
    );
    let got = world.got(who);
    assert_eq!(
        got.iter()
            .map(|got| (got.text(), got.redelivered))
            .collect::<Vec<_>>(),
        [("0", true), ("1", true), ("2", true)]
    );
}

#[test]
fn what_a_lost_consumer_had_comes_back_flagged_and_in_order() {
    let mut world = World::new();
    let (one, two) = (world.connect(), world.connect());
    fill(&mut world, one, "q", 1000);
    qos(&mut world, two, 500, false);
    world.consume(two, "q", false);
    assert_eq!(world.got(two).len(), 500);
    world.lose(two);
    world.consume(one, "q", false);
    let got = world.got(one);
    let numbers: Vec<usize> = got
        .iter()
        .map(|got| got.text().parse().expect("a number"))
        .collect();
    assert_eq!(numbers, (0..1000).collect::<Vec<_>>());
    assert_eq!(got.iter().filter(|got| got.redelivered).count(), 500);
}

#[test]
fn a_cancelled_consumer_gets_nothing_more_and_may_still_settle() {
    let mut world = World::new();
    let who = world.connect();
    fill(&mut world, who, "q", 1);
    world.consume(who, "q", false);
    let cancel = basic::Cancel {
        consumer_tag: "c",
        no_wait: false,
    };
    assert_eq!(
        world.call(who, &Method::BasicCancel(cancel)),
        [ServerMethod::Cancelled("c".into())]
    );
    world.publish(who, "", "q", "later");
    assert_eq!(world.texts(who), ["0"]);
    world.ack(who, 1, false);
    assert_eq!(world.said(who), []);
}

#[test]
fn consumers_hear_that_their_queue_is_gone() {
    let mut world = World::new();
    let (one, two) = (world.connect(), world.connect());
    world.declare(one, "q");
    world.consume(two, "q", false);
    assert_eq!(
        world.call(
            one,
            &Method::QueueDelete(queue::Delete {
                queue: "q",
                ..Default::default()
            })
        ),
        [ServerMethod::Count(0)]
    );
    assert_eq!(world.said(two), [ServerMethod::Cancelled("c".into())]);
}

#[test]
fn an_exclusive_consumer_keeps_others_out_and_they_hear_no_more_than_that() {
    let mut world = World::new();
    let (one, two) = (world.connect(), world.connect());
    fill(&mut world, one, "q", 1);
    world.consume_with(
        one,
        &basic::Consume {
            queue: "q",
            exclusive: true,
            ..Default::default()
        },
    );
    let said = world.consume_with(
        two,
        &basic::Consume {
            queue: "q",
            ..Default::default()
        },
    );
    let text = "ACCESS_REFUSED - queue 'q' in vhost '/' in exclusive use".into();
    assert_eq!(
        said,
        [ServerMethod::ChannelClosed {
            ch: 1,
            code: 403,
            text
        }]
    );
}

#[test]
fn a_tag_names_one_consumer_of_a_channel() {
    let mut world = World::new();
    let who = world.connect();
    world.declare(who, "q");
    world.consume(who, "q", false);
    let said = world.consume_with(
        who,
        &basic::Consume {
            queue: "q",
            consumer_tag: "c",
            ..Default::default()
        },
    );
    let text = "NOT_ALLOWED - attempt to reuse consumer tag 'c'".into();
    assert_eq!(said, [ServerMethod::Closed { code: 530, text }]);
}

#[test]
fn an_empty_name_is_the_queue_that_was_declared_last() {
    let mut world = World::new();
    let who = world.connect();
    let said = world.declare_with(
        who,
        &queue::Declare {
            exclusive: true,
            ..Default::default()
        },
    );
    let [ServerMethod::Declared { queue, .. }] = &said[..] else {
        panic!("{said:?}")
    };
    assert!(queue.starts_with("amq.gen-"), "{queue}");
    world.bind(who, "", "amq.direct", "");
    world.publish(who, "amq.direct", queue, "by its own name");
    assert_eq!(
        world.get(who, "").expect("it is there").text(),
        "by its own name"
    );
    let fresh = world.connect();
    let said = world.call(
        fresh,
        &Method::BasicGet(basic::Get {
            queue: "",
            no_ack: true,
        }),
    );
    let text = "NOT_FOUND - no previously declared queue".into();
    assert_eq!(
        said,
        [ServerMethod::ChannelClosed {
            ch: 1,
            code: 404,
            text
        }]
    );
}

#[test]
fn a_channel_that_closes_gives_back_what_it_had() {
    let mut world = World::new();
    let who = world.connect();
    fill(&mut world, who, "q", 1);
    world.channel(who, 2);
    let consume = basic::Consume {
        queue: "q",
        ..Default::default()
    };
    world.says(who, |machine, up| {
        machine.method(2, &Method::BasicConsume(consume), up)
    });
    assert_eq!(world.texts(who), ["0"]);
    world.said(who);
    world.says(who, |machine, up| {
        machine.channel_close(2, ReplyCode::ReplySuccess, "", MethodId::NONE, up)
    });
    assert_eq!(world.said(who), [ServerMethod::ChannelCloseConfirmed(2)]);
    assert!(world.get(who, "q").expect("it is back").redelivered);
}

#[test]
fn who_does_not_read_is_not_written_to_without_bound_and_gets_the_rest_later() {
    let mut world = World::new();
    let (one, two) = (world.connect(), world.connect());
    world.declare(one, "q");
    world.consume(two, "q", true);
    world.read(two, false);
    let body = "x".repeat(10_000);
    for _ in 0..100 {
        world.publish(one, "", "q", &body);
    }
    let waiting = world.bed.waiting(two);
    assert!(waiting < 100_000, "{waiting}");
    world.read(two, true);
    assert_eq!(world.got(two).len(), 100);
}

#[test]
fn a_channel_that_is_paused_is_given_nothing_until_it_goes_on() {
    let mut world = World::new();
    let (who, other) = (world.connect(), world.connect());
    let flow = |active| Method::ChannelFlow(channel::Flow { active });
    let done = [ServerMethod::Done("channel.flow-ok")];
    // A channel may be paused before it has a consumer.
    assert_eq!(world.call(who, &flow(false)), done);
    world.declare(who, "q");
    world.consume(who, "q", true);
    for text in ["0", "1"] {
        world.publish(other, "", "q", text);
    }
    assert_eq!(world.texts(who), [""; 0]);
    assert_eq!(world.call(who, &flow(true)), done);
    assert_eq!(world.texts(who), ["0", "1"]);
    assert_eq!(world.call(who, &flow(true)), done, "it goes on already");
    assert_eq!(world.call(who, &flow(false)), done);
    for text in ["2", "3", "4"] {
        world.publish(other, "", "q", text);
    }
    assert_eq!(world.texts(who), [""; 0]);
    // Who asks for one message has it, and another consumer the rest.
    assert!(world.get(who, "q").is_some());
    world.consume(other, "q", true);
    assert_eq!(world.texts(other), ["3", "4"]);
}

/// Those of a queue with `x-max-priority` only, as of RabbitMQ, whether a client gave it its name or the broker.
#[test]
fn priorities_order_what_waits_where_they_were_asked_for() {
    for (name, priority_max, order) in [
        ("q", Some(9), ["5", "5", "3", "1"]),
        ("", Some(9), ["5", "5", "3", "1"]),
        ("q", None, ["1", "5", "3", "5"]),
        ("", None, ["1", "5", "3", "5"]),
    ] {
        let mut world = World::new();
        let who = world.connect();
        let mut buffer = Vec::new();
        let mut table = TableWriter::new(&mut buffer);
        if let Some(max) = priority_max {
            table.i64("x-max-priority", max);
        }
        let said = world.declare_with(
            who,
            &queue::Declare {
                queue: name,
                arguments: table.finish(),
                ..Default::default()
            },
        );
        let [ServerMethod::Declared { queue: name, .. }] = &said[..] else {
            panic!("{said:?}")
        };
        for priority in [1, 5, 3, 5] {
            let properties = BasicProperties {
                priority: Some(priority),
                ..BasicProperties::default()
            };
            let publish = basic::Publish {
                routing_key: name,
                ..Default::default()
            };
            world.publish_with(who, &publish, &properties, &priority.to_string());
        }
        let got: Vec<_> = std::iter::from_fn(|| world.get(who, name)).collect();
        let texts: Vec<_> = got.iter().map(|got| got.text()).collect();
        assert_eq!(texts, order, "'{name}' {priority_max:?}");
        let first = order[0].parse().ok();
        assert_eq!(got[0].properties().priority, first);
    }
}

#[test]
fn an_idle_queue_ends() {
    let mut world = World::new();
    let who = world.connect();
    world.declare_args(who, "q", |table| {
        table.i64("x-expires", 1000);
    });
    world.wait(Span::from_millis(2500));
    let said = world.declare_with(
        who,
        &queue::Declare {
            queue: "q",
            passive: true,
            ..Default::default()
        },
    );
    assert!(
        matches!(&said[..], [ServerMethod::ChannelClosed { code: 404, .. }]),
        "{said:?}"
    );
}

#[test]
fn who_asks_for_one_message_gets_it_although_much_waits_for_it() {
    let mut world = World::new();
    let (one, two) = (world.connect(), world.connect());
    fill(&mut world, one, "q", 1);
    world.declare(one, "busy");
    world.consume(two, "busy", true);
    world.read(two, false);
    for _ in 0..20 {
        world.publish(one, "", "busy", &"x".repeat(10_000));
    }
    world.says(two, |machine, up| {
        machine.method(
            1,
            &Method::BasicGet(basic::Get {
                queue: "q",
                no_ack: true,
            }),
            up,
        )
    });
    world.read(two, true);
    assert_eq!(world.said(two), []);
    assert!(world.got(two).iter().any(|got| got.text() == "0"));
}

#[test]
fn a_consumer_that_falls_silent_in_a_group_loses_its_channel_and_nothing_else() {
    let limits = Limits {
        group_adaptive_eviction: true,
        ..Limits::default()
    };
    let mut world = World::with(limits, Default::default());
    let (frozen, device, publisher) = (world.connect(), world.device("d"), world.device("p"));
    world.device_subscribes(device, "$share/g/jobs/#");
    qos(&mut world, frozen, 5, false);
    world.consume(frozen, "$share/g/jobs/#", false);
    let mut said = Vec::new();
    for _ in 0..300 {
        let publish = PublishOut {
            qos: QoS::AtLeastOnce,
            topic: "jobs/1",
            payload: b"m",
            ..PublishOut::default()
        };
        world.device_publishes(publisher, &publish);
        world.wait(Span::from_millis(10));
        said.extend(world.said(frozen));
    }
    let text =
        "PRECONDITION_FAILED - deliveries were not acknowledged in time and go to other consumers"
            .into();
    assert_eq!(
        said,
        [ServerMethod::ChannelClosed {
            ch: 1,
            code: 406,
            text
        }]
    );
    let held = world.got(frozen).len();
    assert!((1..=2).contains(&held), "{held}");
    assert_eq!(world.device_got(device).len(), 300, "all of them");
    world.channel(frozen, 2);
}

#[test]
fn asking_for_a_queue_keeps_it_from_ending() {
    let mut world = World::new();
    let who = world.connect();
    world.declare_args(who, "q", |table| {
        table.i64("x-expires", 1000);
    });
    let ask = queue::Declare {
        queue: "q",
        passive: true,
        ..Default::default()
    };
    for _ in 0..3 {
        world.wait(Span::from_millis(700));
        let said = world.declare_with(who, &ask);
        assert!(
            matches!(&said[..], [ServerMethod::Declared { .. }]),
            "{said:?}"
        );
    }
    world.wait(Span::from_millis(2500));
    let said = world.declare_with(who, &ask);
    assert!(
        matches!(&said[..], [ServerMethod::ChannelClosed { code: 404, .. }]),
        "{said:?}"
    );
}

#[test]
fn queues_that_share_the_credit_of_a_channel_take_turns() {
    let mut world = World::new();
    let who = world.connect();
    for queue in ["a", "b", "c"] {
        world.declare(who, queue);
        for _ in 0..10 {
            world.publish(who, "", queue, queue);
        }
    }
    qos(&mut world, who, 1, true);
    for queue in ["a", "b", "c"] {
        world.consume_with(
            who,
            &basic::Consume {
                queue,
                consumer_tag: queue,
                ..Default::default()
            },
        );
    }
    let mut order = String::new();
    loop {
        let got = world.got(who);
        let [only] = &got[..] else {
            assert_eq!(got, []);
            break;
        };
        order.push_str(only.text());
        world.ack(who, only.tag, false);
    }
    assert_eq!(order, "abc".repeat(10));
}

#[test]
fn a_limit_of_the_channel_neither_counts_nor_stops_what_is_not_acknowledged() {
    let mut world = World::new();
    let who = world.connect();
    for queue in ["acked", "blind", "asked"] {
        world.declare(who, queue);
        for number in ["1", "2", "3"] {
            world.publish(who, "", queue, &format!("{queue} {number}"));
        }
    }
    qos(&mut world, who, 2, true);
    for (queue, no_ack) in [("blind", true), ("acked", false)] {
        world.consume_with(
            who,
            &basic::Consume {
                queue,
                no_ack,
                consumer_tag: queue,
                ..Default::default()
            },
        );
    }
    let expected = ["blind 1", "blind 2", "blind 3", "acked 1", "acked 2"];
    assert_eq!(
        world.texts(who),
        expected,
        "more than the limit, and none of it counted"
    );
    world.publish(who, "", "blind", "blind 4");
    assert_eq!(
        world.texts(who),
        ["blind 4"],
        "the limit is reached, and not for this one"
    );
    assert_eq!(
        world.get(who, "asked").expect("asked for").text(),
        "asked 1"
    );
    world.ack(who, 4, false);
    assert_eq!(world.texts(who), ["acked 3"]);
}

#[test]
fn a_queue_that_another_protocol_made_is_declared_as_it_is() {
    let mut world = World::new();
    let (who, device) = (world.connect(), world.device("d"));
    // A group that takes from a queue has it made.
    world.device_subscribes(device, "$share/g/$q/work");
    let said = world.declare_with(
        who,
        &queue::Declare {
            queue: "work",
            durable: true,
            ..Default::default()
        },
    );
    assert_eq!(
        said,
        [ServerMethod::Declared {
            queue: "work".into(),
            messages: 0,
            consumers: 1
        }]
    );
}

#[test]
fn what_one_call_cannot_do_is_answered_when_all_of_it_is_done() {
    let mut world = World::new();
    let who = world.connect();
    fill(&mut world, who, "q", 3_000);
    // Methods sent after it are handled after it.
    world.says(who, |machine, up| {
        for queue in ["q", "q"] {
            let purge = queue::Purge {
                queue,
                ..Default::default()
            };
            machine.method(1, &Method::QueuePurge(purge), up);
        }
    });
    assert_eq!(
        world.said(who),
        [ServerMethod::Count(3_000), ServerMethod::Count(0)]
    );
    fill(&mut world, who, "q", 3_000);
    world.consume(who, "q", false);
    assert_eq!(world.got(who).len(), 3_000);
    world.ack(who, 0, true);
    assert_eq!(world.kernel().totals().in_flight, 0);
    fill(&mut world, who, "q", 3_000);
    assert_eq!(world.got(who).len(), 3_000);
    world.ack(who, 6_000, true);
    assert_eq!(world.kernel().totals().in_flight, 0);
    assert_eq!(world.said(who), []);
}
