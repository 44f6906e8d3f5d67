//! Publishing: destinations of messages and answers to publishers.

use crate::world::{ServerMethod, World};
use thalweg_amqp::methods::{basic, exchange, queue};
use thalweg_amqp::{BasicProperties, ContentHeader, FieldValue, Method, TableWriter};
use thalweg_kernel::Limits;
use thalweg_model::Span;

pub(crate) fn publish<'a>(exchange: &'a str, routing_key: &'a str) -> basic::Publish<'a> {
    basic::Publish {
        exchange,
        routing_key,
        ..Default::default()
    }
}

#[test]
fn confirms_of_one_input_are_one() {
    let mut world = World::new();
    let who = world.connect();
    world.declare(who, "q");
    world.confirm(who);
    world.says(who, |machine, up| {
        for body in ["1", "2", "3"] {
            let header = ContentHeader::Properties(&BasicProperties::default());
            machine
                .publish(1, &publish("", "q"), header, body.as_bytes(), up)
                .expect("small");
        }
    });
    assert_eq!(
        world.said(who),
        [ServerMethod::Ack {
            tag: 3,
            multiple: true
        }]
    );
    world.publish(who, "", "nobody's", "4");
    assert_eq!(
        world.said(who),
        [ServerMethod::Ack {
            tag: 4,
            multiple: false
        }]
    );
}

#[test]
fn what_a_full_queue_refuses_is_told_between_the_confirms() {
    let mut world = World::new();
    let who = world.connect();
    world.declare_args(who, "q", |table| {
        table
            .i64("x-max-length", 2)
            .str("x-overflow", "reject-publish");
    });
    world.confirm(who);
    world.says(who, |machine, up| {
        for key in ["q", "q", "q", "other"] {
            let header = ContentHeader::Properties(&BasicProperties::default());
            machine
                .publish(1, &publish("", key), header, b"m", up)
                .expect("small");
        }
    });
    let expected = [
        ServerMethod::Ack {
            tag: 2,
            multiple: true,
        },
        ServerMethod::Nack { tag: 3 },
        ServerMethod::Ack {
            tag: 4,
            multiple: false,
        },
    ];
    assert_eq!(world.said(who), expected);
}

#[test]
fn a_confirm_waits_for_the_disk_if_the_message_is_to_be_kept() {
    let mut world = World::with(
        Limits {
            journal: true,
            ..Limits::default()
        },
        Default::default(),
    );
    let who = world.connect();
    world.declare_with(
        who,
        &queue::Declare {
            queue: "q",
            durable: true,
            ..Default::default()
        },
    );
    world.confirm(who);
    world.bed.is_disk_manual = true;
    let persistent = BasicProperties {
        delivery_mode: Some(2),
        ..BasicProperties::default()
    };
    world.publish_with(who, &publish("", "q"), &persistent, "kept");
    assert_eq!(world.said(who), []);
    world.bed.is_disk_manual = false;
    world.rest();
    assert_eq!(
        world.said(who),
        [ServerMethod::Ack {
            tag: 1,
            multiple: false
        }]
    );
}

#[test]
fn a_mandatory_message_that_nobody_wants_comes_back_before_its_confirm() {
    let mut world = World::new();
    let who = world.connect();
    world.confirm(who);
    let mandatory = basic::Publish {
        mandatory: true,
        ..publish("", "nobody")
    };
    let properties = BasicProperties {
        message_id: Some("7"),
        ..BasicProperties::default()
    };
    world.publish_with(who, &mandatory, &properties, "m");
    let got = world.got(who);
    assert_eq!(
        (got[0].returned, got[0].key.as_str(), got[0].text()),
        (Some(312), "nobody", "m")
    );
    assert_eq!(got[0].properties().message_id, Some("7"));
    assert_eq!(
        world.said(who),
        [ServerMethod::Ack {
            tag: 1,
            multiple: false
        }]
    );
}

#[test]
fn immediate_is_not_implemented() {
    let mut world = World::new();
    let who = world.connect();
    let immediate = basic::Publish {
        immediate: true,
        ..publish("", "q")
    };
    world.publish_with(who, &immediate, &BasicProperties::default(), "m");
    assert_eq!(
        world.said(who),
        [ServerMethod::Closed {
            code: 540,
            text: "NOT_IMPLEMENTED - immediate=true".into()
        }]
    );
}

#[test]
fn every_kind_of_exchange_routes_its_own_way() {
    let mut world = World::new();
    let who = world.connect();
    for (kind, bound, taken, left) in [
        ("direct", "a.b", "a.b", "a.c"),
        ("fanout", "whatever", "x", ""),
        ("topic", "a.*.#", "a.b.c.d", "b.a"),
        ("topic", "#", "", ""),
    ] {
        let (exchange, queue) = (format!("x-{kind}"), format!("q-{kind}-{bound}"));
        world.exchange(who, &exchange, kind);
        world.declare(who, &queue);
        world.bind(who, &queue, &exchange, bound);
        world.publish(who, &exchange, taken, "taken");
        let got = world
            .get(who, &queue)
            .unwrap_or_else(|| panic!("{kind} {bound} did not take {taken}"));
        assert_eq!(
            (got.exchange.as_str(), got.key.as_str()),
            (exchange.as_str(), taken)
        );
        if !left.is_empty() {
            world.publish(who, &exchange, left, "left");
            assert_eq!(world.get(who, &queue), None, "{kind} {bound} took {left}");
        }
    }
}

#[test]
fn a_headers_exchange_compares_what_the_publisher_said() {
    let mut world = World::new();
    let who = world.connect();
    world.exchange(who, "h", "headers");
    world.declare(who, "all");
    let mut buffer = Vec::new();
    let mut writer = TableWriter::new(&mut buffer);
    writer
        .str("x-match", "all")
        .value("n", FieldValue::I32(1))
        .str("s", "x");
    let bind = queue::Bind {
        queue: "all",
        exchange: "h",
        arguments: writer.finish(),
        ..Default::default()
    };
    assert_eq!(
        world.call(who, &Method::QueueBind(bind)),
        [ServerMethod::Done("queue.bind-ok")]
    );
    for (n, s, is_taken) in [(1, "x", true), (1, "y", false), (2, "x", false)] {
        let mut buffer = Vec::new();
        let mut writer = TableWriter::new(&mut buffer);
        writer
            .value("n", FieldValue::U8(n))
            .str("s", s)
            .table("nested", |table| _ = table.bool("deep", true));
        let properties = BasicProperties {
            headers: Some(writer.finish()),
            ..BasicProperties::default()
        };
        world.publish_with(who, &publish("h", ""), &properties, "m");
        assert_eq!(world.get(who, "all").is_some(), is_taken, "{n} {s}");
    }
}

#[test]
fn an_alternate_exchange_gets_what_nobody_wants() {
    let mut world = World::new();
    let who = world.connect();
    world.exchange(who, "rest", "fanout");
    let mut buffer = Vec::new();
    let mut writer = TableWriter::new(&mut buffer);
    writer.str("alternate-exchange", "rest");
    let arguments = writer.finish();
    let declare = exchange::Declare {
        exchange: "first",
        kind: "direct",
        arguments,
        ..Default::default()
    };
    assert_eq!(
        world.call(who, &Method::ExchangeDeclare(declare)),
        [ServerMethod::Done("exchange.declare-ok")]
    );
    world.declare(who, "q");
    world.bind(who, "q", "rest", "");
    world.publish(who, "first", "k", "m");
    let got = world.get(who, "q").expect("the alternate took it");
    assert_eq!((got.exchange.as_str(), got.key.as_str()), ("first", "k"));
}

#[test]
fn an_exchange_that_changes_behind_a_publishers_back_is_noticed() {
    let mut world = World::new();
    let (who, other) = (world.connect(), world.connect());
    world.exchange(other, "x", "direct");
    world.declare(other, "q");
    world.bind(other, "q", "x", "a.b");
    world.publish(who, "x", "a.b", "1");
    let delete = exchange::Delete {
        exchange: "x",
        ..Default::default()
    };
    assert_eq!(
        world.call(other, &Method::ExchangeDelete(delete)),
        [ServerMethod::Done("exchange.delete-ok")]
    );
    world.exchange(other, "x", "topic");
    world.bind(other, "q", "x", "a.*");
    world.publish(who, "x", "a.b", "2");
    let texts: Vec<_> = std::iter::from_fn(|| world.get(other, "q"))
        .map(|got| got.text().to_owned())
        .collect();
    assert_eq!(texts, ["1", "2"]);
    world.call(other, &Method::ExchangeDelete(delete));
    world.publish(who, "x", "a.b", "3");
    let text = "NOT_FOUND - no exchange 'x' in vhost '/'".into();
    assert_eq!(
        world.said(who),
        [ServerMethod::ChannelClosed {
            ch: 1,
            code: 404,
            text
        }]
    );
}

#[test]
fn an_empty_key_reaches_through_amq_topic_who_binds_everything() {
    let mut world = World::new();
    let who = world.connect();
    let bindings = [
        ("all", "#"),
        ("twice", "#.#"),
        ("empty", ""),
        ("word", "*"),
        ("some", "a.#"),
    ];
    for (queue, key) in bindings {
        world.declare(who, queue);
        // An empty key with an empty queue would be the queue's name.
        world.bind(who, queue, "amq.topic", key);
    }
    world.publish(who, "amq.topic", "", "m");
    for (queue, _) in bindings {
        let got = world.get(who, queue).map(|got| (got.exchange, got.key));
        let expected = matches!(queue, "all" | "twice" | "empty")
            .then(|| ("amq.topic".to_owned(), String::new()));
        assert_eq!(got, expected, "{queue}");
    }
    let unbind = queue::Unbind {
        queue: "all",
        exchange: "amq.topic",
        routing_key: "#",
        ..Default::default()
    };
    world.call(who, &Method::QueueUnbind(unbind));
    world.publish(who, "amq.topic", "", "m");
    assert!(world.get(who, "all").is_none() && world.get(who, "twice").is_some());
}

/// RabbitMQ's sender-selected distribution: every exchange on the way looks at all keys, not only at that which led there.
#[test]
fn further_keys_count_at_every_exchange_on_the_way() {
    let mut world = World::new();
    let who = world.connect();
    for (name, kind) in [("second", "direct"), ("third", "topic"), ("rest", "fanout")] {
        world.exchange(who, name, kind);
    }
    let mut buffer = Vec::new();
    let mut writer = TableWriter::new(&mut buffer);
    writer.str("alternate-exchange", "rest");
    let arguments = writer.finish();
    let first = exchange::Declare {
        exchange: "first",
        kind: "direct",
        arguments,
        ..Default::default()
    };
    world.call(who, &Method::ExchangeDeclare(first));
    for (source, destination, key) in [("first", "second", "own"), ("second", "third", "copy")] {
        let bind = exchange::Bind {
            source,
            destination,
            routing_key: key,
            ..Default::default()
        };
        world.call(who, &Method::ExchangeBind(bind));
    }
    for (queue, exchange, key) in [
        ("own", "third", "own"),
        ("copy", "second", "copy"),
        ("blind", "third", "blind.#"),
        ("rest", "rest", ""),
    ] {
        world.declare(who, queue);
        world.bind(who, queue, exchange, key);
    }
    let mut buffer = Vec::new();
    let mut writer = TableWriter::new(&mut buffer);
    writer
        .array("CC", |array| _ = array.str("copy"))
        .array("BCC", |array| _ = array.str("blind.x"));
    let properties = BasicProperties {
        headers: Some(writer.finish()),
        ..BasicProperties::default()
    };
    world.publish_with(who, &publish("first", "own"), &properties, "m");
    for queue in ["own", "copy", "blind"] {
        let got = world.get(who, queue).expect(queue);
        assert_eq!((got.exchange.as_str(), got.key.as_str()), ("first", "own"));
        assert!(world.get(who, queue).is_none(), "{queue} has one copy");
    }
    // One of the keys was wanted, so the alternate gets nothing; of none that is, one copy.
    assert!(world.get(who, "rest").is_none());
    world.publish_with(who, &publish("first", "other"), &properties, "m");
    assert!(world.get(who, "rest").is_some() && world.get(who, "rest").is_none());
}

#[test]
fn copies_go_to_further_keys_and_blind_ones_are_not_told() {
    let mut world = World::new();
    let who = world.connect();
    for queue in ["one", "two", "three"] {
        world.declare(who, queue);
    }
    let mut buffer = Vec::new();
    let mut writer = TableWriter::new(&mut buffer);
    writer
        .array("CC", |array| _ = array.str("two"))
        .array("BCC", |array| _ = array.str("three"))
        .str("k", "v");
    let properties = BasicProperties {
        headers: Some(writer.finish()),
        ..BasicProperties::default()
    };
    world.publish_with(who, &publish("", "one"), &properties, "m");
    for queue in ["one", "two", "three"] {
        let got = world.get(who, queue).expect(queue);
        assert_eq!(got.header_text("k").as_deref(), Some("v"));
        assert!(got.headers().get("CC").is_some() && got.headers().get("BCC").is_none());
    }
    // Every copy says what its publisher said, as long as it is where it was sent to.
    world.publish_with(who, &publish("", "one"), &properties, "m");
    let keys = ["one", "two", "three"].map(|queue| world.get(who, queue).expect(queue).key);
    assert_eq!(keys, ["one", "one", "one"]);
    // A queue that several of the keys lead to gets one.
    for key in ["one", "two", "three"] {
        world.bind(who, "one", "amq.direct", key);
    }
    world.publish_with(who, &publish("amq.direct", "one"), &properties, "m");
    assert!(world.get(who, "one").is_some() && world.get(who, "one").is_none());
    let device = world.device("d");
    world.device_subscribes(device, "two");
    world.publish_with(who, &publish("amq.topic", "one"), &properties, "m");
    let got = world.device_got(device);
    assert_eq!(
        (got[0].topic.as_str(), &got[0].user[..]),
        ("two", &[("k".to_owned(), "v".to_owned())][..])
    );
}

#[test]
fn an_expiration_is_kept_to_and_given_back_as_it_was_said() {
    let mut world = World::new();
    let who = world.connect();
    world.declare(who, "q");
    let short = BasicProperties {
        expiration: Some("1000"),
        ..BasicProperties::default()
    };
    world.publish_with(who, &publish("", "q"), &short, "first");
    world.wait(Span::from_millis(400));
    assert_eq!(
        world
            .get(who, "q")
            .expect("it lives")
            .properties()
            .expiration,
        Some("1000")
    );
    world.publish_with(who, &publish("", "q"), &short, "second");
    world.wait(Span::from_millis(1100));
    assert_eq!(world.get(who, "q"), None);
}

#[test]
fn a_message_larger_than_a_frame_goes_in_pieces_both_ways() {
    let mut world = World::new();
    let who = world.connect();
    world.declare(who, "q");
    let body = "0123456789".repeat(50_000);
    world.publish(who, "", "q", &body);
    world.publish(who, "", "q", "");
    assert_eq!(world.get(who, "q").expect("large").text(), body);
    assert_eq!(world.get(who, "q").expect("empty").text(), "");
}

#[test]
fn direct_reply_to_needs_no_queue_of_ones_own() {
    let mut world = World::new();
    let (caller, server) = (world.connect(), world.connect());
    world.declare(server, "rpc");
    let passive = queue::Declare {
        queue: "amq.rabbitmq.reply-to",
        passive: true,
        ..Default::default()
    };
    let said = world.declare_with(caller, &passive);
    assert!(
        matches!(&said[..], [ServerMethod::Declared { queue, .. }] if queue == "amq.rabbitmq.reply-to"),
        "{said:?}"
    );
    world.consume(caller, "amq.rabbitmq.reply-to", true);
    let request = BasicProperties {
        reply_to: Some("amq.rabbitmq.reply-to"),
        correlation_id: Some(b"7"),
        ..BasicProperties::default()
    };
    world.publish_with(caller, &publish("", "rpc"), &request, "ping");
    let got = world.get(server, "rpc").expect("the request");
    let reply_to = got
        .properties()
        .reply_to
        .expect("it says where to")
        .to_owned();
    assert!(reply_to.starts_with("amq.rabbitmq.reply-to."), "{reply_to}");
    let reply = BasicProperties {
        correlation_id: Some(b"7"),
        ..BasicProperties::default()
    };
    world.publish_with(server, &publish("", &reply_to), &reply, "pong");
    let got = world.got(caller);
    assert_eq!(
        (got[0].text(), got[0].properties().correlation_id),
        ("pong", Some(&b"7"[..]))
    );
    // Without a consumer the reply would have no receiver.
    world.publish_with(server, &publish("", "rpc"), &request, "ping");
    assert!(matches!(
        &world.said(server)[..],
        [ServerMethod::ChannelClosed { code: 406, .. }]
    ));
}

#[test]
fn each_channel_has_replies_of_its_own_as_long_as_it_listens() {
    let mut world = World::new();
    let (caller, server) = (world.connect(), world.connect());
    world.declare(server, "rpc");
    world.channel(caller, 2);
    let listen = basic::Consume {
        queue: "amq.rabbitmq.reply-to",
        no_ack: true,
        consumer_tag: "r",
        ..Default::default()
    };
    for ch in [1, 2] {
        world.says(caller, |machine, up| {
            machine.method(ch, &Method::BasicConsume(listen), up)
        });
    }
    assert_eq!(
        world.said(caller),
        [
            ServerMethod::Consuming("r".into()),
            ServerMethod::Consuming("r".into())
        ]
    );
    let request = BasicProperties {
        reply_to: Some("amq.rabbitmq.reply-to"),
        ..BasicProperties::default()
    };
    world.says(caller, |machine, up| {
        machine
            .publish(
                2,
                &publish("", "rpc"),
                ContentHeader::Properties(&request),
                b"ping",
                up,
            )
            .expect("small")
    });
    let got = world.get(server, "rpc").expect("the request");
    let reply_to = got
        .properties()
        .reply_to
        .expect("it says where to")
        .to_owned();
    world.publish(server, "", &reply_to, "pong");
    assert_eq!(
        world
            .got(caller)
            .iter()
            .map(|got| (got.ch, got.text()))
            .collect::<Vec<_>>(),
        [(2, "pong")]
    );
    // A second consumer is refused; after a cancel there may be another.
    let cancel = basic::Cancel {
        consumer_tag: "r",
        no_wait: false,
    };
    assert_eq!(
        world.call(caller, &Method::BasicCancel(cancel)),
        [ServerMethod::Cancelled("r".into())]
    );
    assert_eq!(
        world.consume_with(caller, &listen),
        [ServerMethod::Consuming("r".into())]
    );
    let again = basic::Consume {
        consumer_tag: "s",
        ..listen
    };
    let text = "PRECONDITION_FAILED - reply consumer already set".into();
    assert_eq!(
        world.consume_with(caller, &again),
        [ServerMethod::ChannelClosed {
            ch: 1,
            code: 406,
            text
        }]
    );
}

#[test]
fn who_cannot_be_refused_waits_while_the_disk_is_full_however_its_message_came() {
    for pieces in [false, true] {
        let mut world = World::with(
            Limits {
                journal: true,
                ..Limits::default()
            },
            Default::default(),
        );
        let (who, other) = (world.connect(), world.connect());
        world.declare_with(
            who,
            &queue::Declare {
                queue: "q",
                durable: true,
                ..Default::default()
            },
        );
        world.kernel().set_journal_full(true);
        let persistent = BasicProperties {
            delivery_mode: Some(2),
            ..BasicProperties::default()
        };
        let mut bytes = Vec::new();
        world.says(who, |machine, _| {
            for body in ["1", "2"] {
                let header = ContentHeader::Properties(&persistent);
                machine
                    .publish(1, &publish("", "q"), header, body.as_bytes(), &mut bytes)
                    .expect("small");
            }
        });
        let (first, second) = bytes.split_at(if pieces { 30 } else { 0 });
        world.says(who, |_, up| up.extend_from_slice(first));
        world.says(who, |_, up| up.extend_from_slice(second));
        world.wait(Span::from_millis(500));
        assert_eq!(world.get(other, "q"), None);
        world.kernel().set_journal_full(false);
        world.wait(Span::from_millis(500));
        let texts: Vec<_> = std::iter::from_fn(|| world.get(other, "q"))
            .map(|got| got.text().to_owned())
            .collect();
        assert_eq!(texts, ["1", "2"], "in pieces: {pieces}");
    }
}
