//! Errors for clients: reply codes and texts that they, and their tests, look for.

use crate::world::{Hello, ServerMethod, World};
use thalweg_amqp::methods::{basic, exchange, queue};
use thalweg_amqp::{BasicProperties, Method};
use thalweg_kernel::access::{Otherwise, Rules};

fn is_told(method: Method<'_>, code: u16, text: &str) {
    let mut world = World::new();
    let (other, who) = (world.connect(), world.connect());
    // Something to be at odds with.
    world.declare(other, "q");
    world.exchange(other, "x", "direct");
    let exclusive = queue::Declare {
        queue: "locked",
        exclusive: true,
        ..Default::default()
    };
    world.declare_with(other, &exclusive);
    world.declare(other, "used");
    world.consume(other, "used", true);
    world.publish(other, "", "q", "m");
    let said = world.call(who, &method);
    let (told, reply) = match &said[..] {
        [ServerMethod::ChannelClosed { ch: 1, code, text }]
        | [ServerMethod::Closed { code, text }] => (*code, text.as_str()),
        other => panic!("{other:?} to {method:?}"),
    };
    assert_eq!((told, reply), (code, text), "{method:?}");
}

#[test]
fn what_is_not_there_is_not_found() {
    let text = "NOT_FOUND - no queue 'none' in vhost '/'";
    is_told(
        Method::QueueDeclare(queue::Declare {
            queue: "none",
            passive: true,
            ..Default::default()
        }),
        404,
        text,
    );
    is_told(
        Method::BasicConsume(basic::Consume {
            queue: "none",
            ..Default::default()
        }),
        404,
        text,
    );
    is_told(
        Method::BasicGet(basic::Get {
            queue: "none",
            no_ack: true,
        }),
        404,
        text,
    );
    is_told(
        Method::QueuePurge(queue::Purge {
            queue: "none",
            ..Default::default()
        }),
        404,
        text,
    );
    is_told(
        Method::QueueBind(queue::Bind {
            queue: "none",
            exchange: "x",
            ..Default::default()
        }),
        404,
        text,
    );
    let text = "NOT_FOUND - no exchange 'none' in vhost '/'";
    is_told(
        Method::QueueBind(queue::Bind {
            queue: "q",
            exchange: "none",
            ..Default::default()
        }),
        404,
        text,
    );
    let passive = exchange::Declare {
        exchange: "none",
        passive: true,
        ..Default::default()
    };
    is_told(Method::ExchangeDeclare(passive), 404, text);
    is_told(
        Method::ExchangeBind(exchange::Bind {
            source: "none",
            destination: "x",
            ..Default::default()
        }),
        404,
        text,
    );
    is_told(
        Method::ExchangeBind(exchange::Bind {
            source: "x",
            destination: "none",
            ..Default::default()
        }),
        404,
        text,
    );
}

#[test]
fn what_differs_from_what_exists_fails_its_precondition() {
    is_told(
        Method::QueueDeclare(queue::Declare {
            queue: "q",
            durable: true,
            ..Default::default()
        }),
        406,
        "PRECONDITION_FAILED - inequivalent arg 'durable' for queue 'q' in vhost '/': received 'true' but current is 'false'",
    );
    is_told(
        Method::ExchangeDeclare(exchange::Declare {
            exchange: "x",
            kind: "topic",
            ..Default::default()
        }),
        406,
        "PRECONDITION_FAILED - inequivalent arg 'type' for exchange 'x' in vhost '/': received 'topic' but current is 'direct'",
    );
}

#[test]
fn a_queue_that_is_not_exclusive_cannot_be_declared_so() {
    let text = "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'q' in vhost '/'. It could be \
                originally declared on another connection or the exclusive property value does not match that of the \
                original declaration.";
    for durable in [false, true] {
        let declare = queue::Declare {
            queue: "q",
            exclusive: true,
            durable,
            ..Default::default()
        };
        is_told(Method::QueueDeclare(declare), 405, text);
    }
}

#[test]
fn what_is_in_use_stays() {
    is_told(
        Method::QueueDelete(queue::Delete {
            queue: "used",
            if_unused: true,
            ..Default::default()
        }),
        406,
        "PRECONDITION_FAILED - queue 'used' in vhost '/' in use",
    );
    is_told(
        Method::QueueDelete(queue::Delete {
            queue: "q",
            if_empty: true,
            ..Default::default()
        }),
        406,
        "PRECONDITION_FAILED - queue 'q' in vhost '/' not empty",
    );
}

#[test]
fn what_is_anothers_is_locked() {
    let text = "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'locked' in vhost '/'. It could be \
                originally declared on another connection or the exclusive property value does not match that of the \
                original declaration.";
    is_told(
        Method::QueueDeclare(queue::Declare {
            queue: "locked",
            ..Default::default()
        }),
        405,
        text,
    );
    is_told(
        Method::BasicConsume(basic::Consume {
            queue: "locked",
            ..Default::default()
        }),
        405,
        text,
    );
    is_told(
        Method::QueueDelete(queue::Delete {
            queue: "locked",
            ..Default::default()
        }),
        405,
        text,
    );
}

#[test]
fn reserved_names_and_the_default_exchange_are_the_brokers() {
    let text = "ACCESS_REFUSED - queue name 'amq.mine' contains reserved prefix 'amq.*'";
    is_told(
        Method::QueueDeclare(queue::Declare {
            queue: "amq.mine",
            ..Default::default()
        }),
        403,
        text,
    );
    let text = "ACCESS_REFUSED - exchange name 'amq.mine' contains reserved prefix 'amq.*'";
    is_told(
        Method::ExchangeDeclare(exchange::Declare {
            exchange: "amq.mine",
            kind: "direct",
            ..Default::default()
        }),
        403,
        text,
    );
    let text = "ACCESS_REFUSED - operation not permitted on the default exchange";
    is_told(
        Method::QueueBind(queue::Bind {
            queue: "q",
            exchange: "",
            ..Default::default()
        }),
        403,
        text,
    );
    is_told(
        Method::ExchangeDelete(exchange::Delete {
            exchange: "",
            ..Default::default()
        }),
        403,
        text,
    );
}

#[test]
fn what_we_have_not_is_said_so() {
    let kind = exchange::Declare {
        exchange: "y",
        kind: "odd",
        ..Default::default()
    };
    is_told(
        Method::ExchangeDeclare(kind),
        406,
        "PRECONDITION_FAILED - unknown exchange type 'odd'",
    );
    let qos = basic::Qos {
        prefetch_size: 1000,
        prefetch_count: 0,
        global: false,
    };
    is_told(
        Method::BasicQos(qos),
        540,
        "NOT_IMPLEMENTED - prefetch_size!=0 (1000)",
    );
    is_told(
        Method::BasicRecover(basic::Recover { requeue: false }),
        540,
        "NOT_IMPLEMENTED - requeue=false",
    );
    is_told(
        Method::TxCommit(thalweg_amqp::methods::tx::Commit),
        406,
        "PRECONDITION_FAILED - channel is not transactional",
    );
}

#[test]
fn deleting_what_is_not_there_is_no_error() {
    let mut world = World::new();
    let who = world.connect();
    let queue = queue::Delete {
        queue: "none",
        ..Default::default()
    };
    assert_eq!(
        world.call(who, &Method::QueueDelete(queue)),
        [ServerMethod::Count(0)]
    );
    let exchange = exchange::Delete {
        exchange: "none",
        ..Default::default()
    };
    assert_eq!(
        world.call(who, &Method::ExchangeDelete(exchange)),
        [ServerMethod::Done("exchange.delete-ok")]
    );
}

#[test]
fn nobody_publishes_in_anothers_name() {
    let mut world = World::new();
    let who = world.connect();
    let properties = BasicProperties {
        user_id: Some("zorro"),
        ..BasicProperties::default()
    };
    world.publish_with(
        who,
        &basic::Publish {
            routing_key: "q",
            ..Default::default()
        },
        &properties,
        "m",
    );
    let text =
        "PRECONDITION_FAILED - user_id property set to 'zorro' but authenticated user was 'guest'"
            .into();
    assert_eq!(
        world.said(who),
        [ServerMethod::ChannelClosed {
            ch: 1,
            code: 406,
            text
        }]
    );
}

#[test]
fn confirms_that_were_owed_come_before_the_channel_ends() {
    let mut world = World::new();
    let who = world.connect();
    world.confirm(who);
    world.says(who, |machine, up| {
        for exchange in ["", "", "none"] {
            let publish = basic::Publish {
                exchange,
                routing_key: "q",
                ..Default::default()
            };
            let header = thalweg_amqp::ContentHeader::Properties(&BasicProperties::default());
            machine
                .publish(1, &publish, header, b"m", up)
                .expect("small");
        }
    });
    let said = world.said(who);
    assert!(
        matches!(
            &said[..],
            [
                ServerMethod::Ack {
                    tag: 2,
                    multiple: true
                },
                ServerMethod::ChannelClosed { code: 404, .. }
            ]
        ),
        "{said:?}"
    );
}

#[test]
fn what_the_access_rules_do_not_allow_is_refused_on_every_verb() {
    let verbs: [(&str, Method<'_>); 8] = [
        (
            "declare a queue",
            Method::QueueDeclare(queue::Declare {
                queue: "mine",
                ..Default::default()
            }),
        ),
        ("declare an exchange", {
            Method::ExchangeDeclare(exchange::Declare {
                exchange: "mine",
                kind: "direct",
                ..Default::default()
            })
        }),
        (
            "bind",
            Method::QueueBind(queue::Bind {
                queue: "q",
                exchange: "x",
                ..Default::default()
            }),
        ),
        (
            "consume",
            Method::BasicConsume(basic::Consume {
                queue: "q",
                ..Default::default()
            }),
        ),
        (
            "get",
            Method::BasicGet(basic::Get {
                queue: "q",
                no_ack: true,
            }),
        ),
        (
            "purge",
            Method::QueuePurge(queue::Purge {
                queue: "q",
                ..Default::default()
            }),
        ),
        (
            "delete a queue",
            Method::QueueDelete(queue::Delete {
                queue: "q",
                ..Default::default()
            }),
        ),
        (
            "delete an exchange",
            Method::ExchangeDelete(exchange::Delete {
                exchange: "x",
                ..Default::default()
            }),
        ),
    ];
    let nothing = Rules::new(Vec::new(), Otherwise::Deny)
        .expect("no rule is wrong")
        .compile("c", None);
    for (verb, method) in verbs {
        let mut world = World::new();
        let other = world.connect();
        world.declare(other, "q");
        world.exchange(other, "x", "direct");
        let who = world.connect_with(&Hello {
            anonymous: Some(nothing.clone()),
            ..Hello::default()
        });
        world.channel(who, 1);
        let said = world.call(who, &method);
        let is_refused = matches!(&said[..], [ServerMethod::ChannelClosed { code: 403, text, .. }]
            if text.starts_with("ACCESS_REFUSED - ") && text.ends_with(" refused for user 'guest'"));
        assert!(is_refused, "{verb}: {said:?}");
    }
    for (exchange, routing_key) in [("", "q"), ("x", "k"), ("amq.topic", "a.b")] {
        let mut world = World::new();
        let other = world.connect();
        world.declare(other, "q");
        world.exchange(other, "x", "direct");
        let who = world.connect_with(&Hello {
            anonymous: Some(nothing.clone()),
            ..Hello::default()
        });
        world.channel(who, 1);
        world.publish(who, exchange, routing_key, "m");
        assert!(
            matches!(
                &world.said(who)[..],
                [ServerMethod::ChannelClosed { code: 403, .. }]
            ),
            "publish to {exchange}"
        );
    }
}

#[test]
fn names_have_no_line_ends() {
    let mut world = World::new();
    let who = world.connect();
    let said = world.declare_with(
        who,
        &queue::Declare {
            queue: "a\r\nb",
            ..Default::default()
        },
    );
    assert_eq!(
        said,
        [ServerMethod::Declared {
            queue: "ab".into(),
            messages: 0,
            consumers: 0
        }]
    );
    world.exchange(who, "x\n", "direct");
    world.bind(who, "a\nb", "\rx", "k\n");
    world.publish(who, "x", "k\n", "keys may have some");
    assert_eq!(world.get(who, "ab").expect("bound").key, "k\n");
    let said = world.call(
        who,
        &Method::QueueDelete(queue::Delete {
            queue: "a\rb",
            ..Default::default()
        }),
    );
    assert!(!said.is_empty());
    let said = world.call(
        who,
        &Method::ExchangeDelete(exchange::Delete {
            exchange: "x\r",
            ..Default::default()
        }),
    );
    assert!(!said.is_empty());
    let passive = queue::Declare {
        queue: "ab",
        passive: true,
        ..Default::default()
    };
    assert!(matches!(
        world.declare_with(who, &passive)[..],
        [ServerMethod::ChannelClosed { code: 404, .. }]
    ));
    world.channel(who, 1);
    let passive = exchange::Declare {
        exchange: "x",
        passive: true,
        ..Default::default()
    };
    let said = world.call(who, &Method::ExchangeDeclare(passive));
    assert!(
        matches!(said[..], [ServerMethod::ChannelClosed { code: 404, .. }]),
        "{said:?}"
    );
}
