//! Content filters of bindings and of consumers.

use crate::publish::publish;
use crate::world::{ServerMethod, World};
use thalweg_amqp::methods::{basic, queue};
use thalweg_amqp::{BasicProperties, FieldValue, Method, TableWriter};

#[test]
fn a_binding_may_filter_what_messages_say() {
    let mut world = World::new();
    let who = world.connect();
    world.declare(who, "hot");
    let bind = |world: &mut World, filter: &str| {
        let mut buffer = Vec::new();
        let mut writer = TableWriter::new(&mut buffer);
        writer.str("x-filter", filter);
        let bind = queue::Bind {
            queue: "hot",
            exchange: "amq.topic",
            routing_key: "a.*",
            arguments: writer.finish(),
            ..Default::default()
        };
        world.call(who, &Method::QueueBind(bind))
    };
    let filter = "n > 1 AND s = 'x' AND payload.temp > 20 AND $priority = 3";
    assert_eq!(
        bind(&mut world, filter),
        [ServerMethod::Done("queue.bind-ok")]
    );
    for (n, s, payload, is_taken) in [
        (2, "x", r#"{"temp": 21}"#, true),
        (1, "x", r#"{"temp": 21}"#, false),
        (2, "y", r#"{"temp": 21}"#, false),
        (2, "x", r#"{"temp": 20}"#, false),
        (2, "x", "hot", false),
    ] {
        let mut buffer = Vec::new();
        let mut writer = TableWriter::new(&mut buffer);
        writer.value("n", FieldValue::U8(n)).str("s", s);
        let properties = BasicProperties {
            headers: Some(writer.finish()),
            priority: Some(3),
            ..BasicProperties::default()
        };
        world.publish_with(who, &publish("amq.topic", "a.b"), &properties, payload);
        assert_eq!(
            world.get(who, "hot").is_some(),
            is_taken,
            "{n} {s} {payload}"
        );
    }
    let refused = bind(&mut world, "n > ");
    assert!(
        matches!(&refused[..], [ServerMethod::ChannelClosed { code: 406, text, .. }] if text.contains("byte 4")),
        "{refused:?}"
    );
}

#[test]
fn a_consumer_may_filter_what_it_takes() {
    let mut world = World::new();
    let who = world.connect();
    world.declare(who, "q");
    // The second name is that of Qpid's clients.
    for (name, filter) in [("x-filter", "n > 1"), ("x-filter-jms-selector", "n = 0")] {
        let mut buffer = Vec::new();
        let mut writer = TableWriter::new(&mut buffer);
        writer.str(name, filter);
        let consume = basic::Consume {
            queue: "q",
            no_ack: true,
            arguments: writer.finish(),
            ..Default::default()
        };
        world.consume_with(who, &consume);
    }
    for n in [1, 2, 0] {
        let mut buffer = Vec::new();
        let mut writer = TableWriter::new(&mut buffer);
        writer.value("n", FieldValue::U8(n));
        let properties = BasicProperties {
            headers: Some(writer.finish()),
            ..BasicProperties::default()
        };
        world.publish_with(who, &publish("", "q"), &properties, &n.to_string());
    }
    let got: Vec<_> = world.got(who).into_iter().map(|got| got.body).collect();
    assert_eq!(got, [b"2".to_vec(), b"0".to_vec()]);
    assert!(world.get(who, "q").is_some(), "the third waits");
    let who = world.connect();
    let mut buffer = Vec::new();
    let mut writer = TableWriter::new(&mut buffer);
    writer.str("x-filter", "n > ");
    let wrong = basic::Consume {
        queue: "q",
        arguments: writer.finish(),
        ..Default::default()
    };
    let refused = world.call(who, &Method::BasicConsume(wrong));
    assert!(
        matches!(&refused[..], [ServerMethod::ChannelClosed { code: 406, text, .. }] if text.contains("byte 4")),
        "{refused:?}"
    );
}

#[test]
fn members_of_a_group_may_filter_what_they_take() {
    let mut world = World::new();
    let (large, none) = (world.connect(), world.connect());
    for (who, filter) in [(large, "n > 1"), (none, "n = 0")] {
        let mut buffer = Vec::new();
        let mut writer = TableWriter::new(&mut buffer);
        writer.str("x-filter", filter);
        let consume = basic::Consume {
            queue: "$g/g/a",
            no_ack: true,
            arguments: writer.finish(),
            ..Default::default()
        };
        world.consume_with(who, &consume);
    }
    for n in [1, 2, 0, 3] {
        let mut buffer = Vec::new();
        let mut writer = TableWriter::new(&mut buffer);
        writer.value("n", FieldValue::U8(n));
        let properties = BasicProperties {
            headers: Some(writer.finish()),
            ..BasicProperties::default()
        };
        world.publish_with(
            large,
            &publish("amq.topic", "a"),
            &properties,
            &n.to_string(),
        );
    }
    let bodies = |world: &mut World, who| -> Vec<_> {
        world.got(who).into_iter().map(|got| got.body).collect()
    };
    assert_eq!(bodies(&mut world, large), [b"2".to_vec(), b"3".to_vec()]);
    assert_eq!(bodies(&mut world, none), [b"0".to_vec()]);
}
