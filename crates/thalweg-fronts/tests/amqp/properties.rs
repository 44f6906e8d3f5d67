//! Message properties: unchanged to the same protocol, translated for others.

use crate::world::{Received, ServerMethod, World};
use thalweg_amqp::methods::{basic, queue};
use thalweg_amqp::{BasicProperties, ContentHeader, FieldValue, Method, TableWriter};
use thalweg_fronts::amqp::AmqpSettings;
use thalweg_kernel::{GroupStrategy, Limits};
use thalweg_model::Span;
use thalweg_mqtt::{PublishOut, QoS, TextPairs};

/// User properties of an MQTT client.
struct Pairs(&'static [(&'static str, &'static str)]);

impl TextPairs for Pairs {
    fn for_each(&self, each: &mut dyn FnMut(&str, &str)) {
        self.0.iter().for_each(|(name, value)| each(name, value));
    }
}

fn to_topics(routing_key: &str) -> basic::Publish<'_> {
    basic::Publish {
        exchange: "amq.topic",
        routing_key,
        ..Default::default()
    }
}

#[test]
fn a_content_header_comes_back_byte_for_byte() {
    let mut world = World::new();
    let who = world.connect();
    world.declare(who, "q");
    let mut buffer = Vec::new();
    let mut writer = TableWriter::new(&mut buffer);
    writer
        .value(
            "decimal",
            FieldValue::Decimal {
                scale: 2,
                value: 12_345,
            },
        )
        .array("list", |array| {
            _ = array.value(FieldValue::U64(u64::MAX)).str("é")
        })
        .table("table", |table| {
            _ = table.value("nothing", FieldValue::Void)
        })
        .value("bytes", FieldValue::Bytes(&[0, 255]));
    let full = BasicProperties {
        content_type: Some("text/plain"),
        content_encoding: Some("gzip"),
        headers: Some(writer.finish()),
        delivery_mode: Some(1),
        priority: Some(4),
        correlation_id: Some(&[0xFF, 0]),
        reply_to: Some("replies"),
        expiration: Some("60000"),
        message_id: Some("id"),
        timestamp: Some(1_700_000_000),
        kind: Some("kind"),
        user_id: Some("guest"),
        app_id: Some("app"),
        cluster_id: Some("cluster"),
    };
    let publish = basic::Publish {
        routing_key: "q",
        ..Default::default()
    };
    for properties in [
        full,
        BasicProperties::default(),
        BasicProperties {
            delivery_mode: Some(2),
            ..Default::default()
        },
        BasicProperties {
            delivery_mode: Some(1),
            ..Default::default()
        },
        BasicProperties {
            headers: Some(Default::default()),
            ..Default::default()
        },
    ] {
        world.publish_with(who, &publish, &properties, "m");
        assert_eq!(
            world
                .get(who, "q")
                .expect("it was just published")
                .properties(),
            properties
        );
    }
    // In a channel with confirms the reliability says nothing about the delivery mode.
    world.confirm(who);
    world.publish_with(who, &publish, &BasicProperties::default(), "m");
    assert_eq!(
        world.said(who),
        [ServerMethod::Ack {
            tag: 1,
            multiple: false
        }]
    );
    assert_eq!(
        world
            .get(who, "q")
            .expect("it was just published")
            .properties(),
        BasicProperties::default()
    );
}

#[test]
fn mqtt_sees_what_it_has_words_for() {
    let mut world = World::new();
    let (who, device) = (world.connect(), world.device("d"));
    world.device_subscribes(device, "a/#");
    let mut buffer = Vec::new();
    let mut writer = TableWriter::new(&mut buffer);
    writer
        .str("text", "é")
        .value("number", FieldValue::I16(-7))
        .bool("truth", true)
        .value(
            "money",
            FieldValue::Decimal {
                scale: 2,
                value: -5,
            },
        )
        .value("bytes", FieldValue::Bytes(b"dropped"))
        .array("list", |array| _ = array.str("dropped"));
    let properties = BasicProperties {
        content_type: Some("application/json"),
        headers: Some(writer.finish()),
        correlation_id: Some(b"7"),
        reply_to: Some("replies"),
        expiration: Some("90000"),
        ..BasicProperties::default()
    };
    world.publish_with(who, &to_topics("a.b%2Ec"), &properties, "m");
    let pairs = [
        ("text", "é"),
        ("number", "-7"),
        ("truth", "true"),
        ("money", "-0.05"),
    ];
    let expected = Received {
        topic: "a/b.c".into(),
        payload: b"m".to_vec(),
        content_type: Some("application/json".into()),
        response_topic: Some("$q/replies".into()),
        correlation: Some(b"7".to_vec()),
        user: pairs
            .map(|(name, value)| (name.into(), value.into()))
            .to_vec(),
        expiry_secs: Some(90),
        ..Default::default()
    };
    assert_eq!(world.device_got(device), [expected]);
}

#[test]
fn amqp_sees_what_mqtt_says() {
    let mut world = World::new();
    let (who, device) = (world.connect(), world.device("d"));
    world.declare(who, "q");
    world.bind(who, "q", "amq.topic", "sensors.#");
    let pairs = Pairs(&[("k", "first"), ("k", "second"), ("l", "x")]);
    let publish = PublishOut {
        qos: QoS::AtLeastOnce,
        topic: "sensors/1.5",
        payload: b"m",
        content_type: Some("text/plain"),
        correlation_data: Some(b"7"),
        response_topic: Some("replies/d"),
        expiry_secs: Some(60),
        user: Some(&pairs),
        ..PublishOut::default()
    };
    world.device_publishes(device, &publish);
    world.wait(Span::from_secs(10));
    let got = world.get(who, "q").expect("it is bound");
    assert_eq!(
        (got.exchange.as_str(), got.key.as_str()),
        ("amq.topic", "sensors.1%2E5")
    );
    let properties = got.properties();
    assert_eq!(properties.content_type, Some("text/plain"));
    assert_eq!(properties.correlation_id, Some(&b"7"[..]));
    assert_eq!(properties.reply_to, Some("$a/replies/d"));
    assert_eq!(properties.expiration, Some("50000"), "what is left of it");
    assert_eq!(properties.delivery_mode, Some(2));
    assert_eq!(
        got.header_text("k").as_deref(),
        Some("first"),
        "of those with one name the first"
    );
    assert_eq!(got.header_text("l").as_deref(), Some("x"));
    assert_eq!(
        got.header_text("x-reply-to-topic").as_deref(),
        Some("replies/d")
    );
}

#[test]
fn an_amqp_server_answers_an_mqtt_requester() {
    let mut world = World::new();
    let (server, device) = (world.connect(), world.device("d"));
    world.declare(server, "rpc");
    world.device_subscribes(device, "replies/d.1");
    let request = PublishOut {
        topic: "$q/rpc",
        payload: b"ping",
        response_topic: Some("replies/d.1"),
        correlation_data: Some(&[0xFF, 1]),
        ..PublishOut::default()
    };
    world.device_publishes(device, &request);
    let got = world.get(server, "rpc").expect("the request");
    let properties = got.properties();
    let reply_to = properties.reply_to.expect("it says where to");
    // No text, so it cannot be a short string.
    let correlation = got.headers().get("x-correlation-id");
    assert_eq!(
        (properties.correlation_id, correlation),
        (None, Some(FieldValue::Bytes(&[0xFF, 1])))
    );
    let reply = basic::Publish {
        routing_key: reply_to,
        ..Default::default()
    };
    let properties = BasicProperties {
        correlation_id: Some(b"x"),
        ..BasicProperties::default()
    };
    world.publish_with(server, &reply, &properties, "pong");
    let got = world.device_got(device);
    assert_eq!(
        (got[0].topic.as_str(), &got[0].payload[..]),
        ("replies/d.1", &b"pong"[..])
    );
}

#[test]
fn an_mqtt_client_answers_an_amqp_requester() {
    let mut world = World::new();
    let (who, device) = (world.connect(), world.device("d"));
    world.device_subscribes(device, "requests");
    world.consume(who, "amq.rabbitmq.reply-to", true);
    let request = BasicProperties {
        reply_to: Some("amq.rabbitmq.reply-to"),
        ..BasicProperties::default()
    };
    world.publish_with(who, &to_topics("requests"), &request, "ping");
    let topic = world.device_got(device)[0]
        .response_topic
        .clone()
        .expect("it says where to");
    world.device_publishes(
        device,
        &PublishOut {
            topic: &topic,
            payload: b"pong",
            ..PublishOut::default()
        },
    );
    assert_eq!(world.texts(who), ["pong"]);
}

#[test]
fn a_key_that_does_not_fit_is_cut_and_the_whole_address_is_told() {
    let mut world = World::new();
    let (who, device) = (world.connect(), world.device("d"));
    world.declare(who, "q");
    world.bind(who, "q", "amq.topic", "#");
    let topic = format!("a/{}", "b".repeat(300));
    world.device_publishes(
        device,
        &PublishOut {
            topic: &topic,
            payload: b"m",
            ..PublishOut::default()
        },
    );
    let got = world.get(who, "q").expect("it is bound");
    assert!(
        got.key.len() <= 255 && got.key.starts_with("a.bbb"),
        "{}",
        got.key
    );
    assert_eq!(got.header_text("x-address"), Some(topic));
}

/// The device settles at once, in no time at all: by that it would have everything.
fn in_turns() -> Limits {
    Limits {
        group_strategy: GroupStrategy::RoundRobin,
        ..Limits::default()
    }
}

#[test]
fn a_group_has_members_of_both_protocols() {
    let mut world = World::with(in_turns(), AmqpSettings::default());
    let (who, device, publisher) = (world.connect(), world.device("d"), world.device("p"));
    world.device_subscribes(device, "$share/g/jobs/#");
    world.consume(who, "$share/g/jobs/#", true);
    for number in 0..10 {
        let payload = [b'0' + number];
        let publish = PublishOut {
            qos: QoS::AtLeastOnce,
            topic: "jobs/1",
            payload: &payload,
            ..PublishOut::default()
        };
        world.device_publishes(publisher, &publish);
    }
    let (here, there) = (world.got(who).len(), world.device_got(device).len());
    assert!(
        here > 0 && there > 0 && here + there == 10,
        "{here} {there}"
    );
}

#[test]
fn what_died_says_where_and_how_often_and_lives_on_without_its_expiration() {
    let mut world = World::new();
    let who = world.connect();
    world.declare_args(who, "dead", |table| {
        table
            .str("x-dead-letter-exchange", "")
            .str("x-dead-letter-routing-key", "short")
            .i64("x-message-ttl", 100);
    });
    world.declare_args(who, "short", |table| {
        table
            .str("x-dead-letter-exchange", "")
            .str("x-dead-letter-routing-key", "dead");
    });
    let mut buffer = Vec::new();
    let mut writer = TableWriter::new(&mut buffer);
    writer.str("k", "v");
    let properties = BasicProperties {
        headers: Some(writer.finish()),
        expiration: Some("50"),
        ..BasicProperties::default()
    };
    world.publish_with(
        who,
        &basic::Publish {
            routing_key: "short",
            ..Default::default()
        },
        &properties,
        "m",
    );
    world.wait(Span::from_millis(60));
    world.wait(Span::from_millis(110));
    let got = world.get(who, "short").expect("it came round");
    assert_eq!(
        (got.properties().expiration, got.header_text("k").as_deref()),
        (None, Some("v"))
    );
    let Some(FieldValue::Array(deaths)) = got.headers().get("x-death") else {
        panic!("{:?}", got.headers())
    };
    let deaths: Vec<String> = deaths
        .iter()
        .map(|death| {
            let FieldValue::Table(death) = death else {
                panic!("{death:?}")
            };
            let text = |name| {
                death
                    .get(name)
                    .and_then(|value| value.as_str())
                    .unwrap_or("-")
                    .to_owned()
            };
            let count = death
                .get("count")
                .and_then(|value| value.as_i64())
                .expect("a count");
            format!(
                "{} {} {count} {}",
                text("queue"),
                text("reason"),
                text("original-expiration")
            )
        })
        .collect();
    assert_eq!(deaths, ["dead expired 1 -", "short expired 1 50"]);
    assert_eq!(
        got.header_text("x-first-death-queue").as_deref(),
        Some("short")
    );
}

#[test]
fn a_header_that_does_not_fit_the_peers_frames_ends_nothing() {
    let mut world = World::new();
    let (who, device) = (world.connect(), world.device("d"));
    world.declare(who, "q");
    world.bind(who, "q", "amq.topic", "#");
    let text: &'static str = Box::leak("x".repeat(60_000).into_boxed_str());
    let pairs: &'static [(&'static str, &'static str)] =
        Box::leak(Box::new([("a", text), ("b", text), ("c", text)]));
    let pairs = Pairs(pairs);
    world.device_publishes(
        device,
        &PublishOut {
            topic: "t",
            payload: b"large",
            user: Some(&pairs),
            ..PublishOut::default()
        },
    );
    world.device_publishes(
        device,
        &PublishOut {
            topic: "t",
            payload: b"small",
            ..PublishOut::default()
        },
    );
    world.consume(who, "q", false);
    assert_eq!(world.texts(who), ["small"]);
    assert_eq!(
        world.call(
            who,
            &Method::BasicGet(basic::Get {
                queue: "q",
                no_ack: true
            })
        ),
        [ServerMethod::Empty]
    );
}

#[test]
fn a_last_value_can_be_set_by_a_header() {
    let mut world = World::new();
    let who = world.connect();
    let mut buffer = Vec::new();
    let mut writer = TableWriter::new(&mut buffer);
    writer.bool("x-retain", true);
    let properties = BasicProperties {
        headers: Some(writer.finish()),
        ..BasicProperties::default()
    };
    world.publish_with(who, &to_topics("a.b"), &properties, "kept");
    world.says(who, |machine, up| {
        // An empty payload is a payload.
        let header = ContentHeader::Properties(&BasicProperties::default());
        machine
            .publish(1, &to_topics("a.b"), header, b"", up)
            .expect("small")
    });
    let device = world.device("d");
    world.device_subscribes(device, "a/b");
    assert_eq!(
        world
            .device_got(device)
            .iter()
            .map(|got| got.payload.clone())
            .collect::<Vec<_>>(),
        [b"kept".to_vec()]
    );
}

#[test]
fn a_queue_that_is_bound_with_the_wish_for_them_gets_last_values_first() {
    let mut world = World::new();
    let (who, device) = (world.connect(), world.device("d"));
    let kept = PublishOut {
        retain: true,
        topic: "a/1",
        payload: b"kept",
        ..PublishOut::default()
    };
    world.device_publishes(device, &kept);
    for (queue, expected) in [("with", Some("kept")), ("without", None)] {
        world.declare(who, queue);
        let mut buffer = Vec::new();
        let mut writer = TableWriter::new(&mut buffer);
        writer.bool("x-last-value", expected.is_some());
        let arguments = writer.finish();
        let bind = queue::Bind {
            queue,
            exchange: "amq.topic",
            routing_key: "a.*",
            arguments,
            ..Default::default()
        };
        assert_eq!(
            world.call(who, &Method::QueueBind(bind)),
            [ServerMethod::Done("queue.bind-ok")]
        );
        assert_eq!(
            world.get(who, queue).as_ref().map(|got| got.text()),
            expected,
            "{queue}"
        );
    }
}

#[test]
fn what_receivers_see_of_a_stamp_is_of_no_use_to_publish_under() {
    let mut world = World::new();
    let (who, device) = (world.connect(), world.device("d"));
    world.declare(who, "q");
    world.bind(who, "q", "amq.topic", "a");
    world.device_subscribes(device, "a");
    let says = |world: &mut World, stamp: &str| {
        let mut buffer = Vec::new();
        let mut writer = TableWriter::new(&mut buffer);
        writer
            .str("first", "1")
            .str("x-stamp", stamp)
            .value("number", FieldValue::I16(-7));
        let properties = BasicProperties {
            headers: Some(writer.finish()),
            app_id: Some("app"),
            ..BasicProperties::default()
        };
        world.publish_with(who, &to_topics("a"), &properties, "m");
        let of_device = world.device_got(device).first().map(|got| {
            got.user
                .iter()
                .find(|(name, _)| name == "x-stamp")
                .expect("it is shown")
                .1
                .clone()
        });
        let got = world.get(who, "q");
        let of_queue = got.map(|got| {
            assert_eq!(
                (got.properties().app_id, got.header_text("first").as_deref()),
                (Some("app"), Some("1"))
            );
            assert_eq!(
                got.headers().get("number"),
                Some(FieldValue::I16(-7)),
                "what else was said stays as it was"
            );
            got.header_text("x-stamp").expect("it is shown")
        });
        assert_eq!(of_queue, of_device);
        of_queue
    };
    let seen = says(&mut world, "abc-1").expect("it arrives");
    let (number, sequence) = seen.split_once('-').expect("it is a stamp");
    assert_eq!((number == "abc", sequence), (false, "1"));
    let forged = says(&mut world, &format!("{number}-ffffffff")).expect("it arrives");
    assert!(
        !forged.starts_with(number),
        "nobody can speak as the publisher"
    );
    assert_eq!(
        says(&mut world, "abc-2"),
        Some(format!("{number}-2")),
        "the publisher's next message arrives"
    );
    assert_eq!(says(&mut world, "abc-2"), None, "and is still taken once");
    assert!(says(&mut world, "abc-3").is_some());
}
