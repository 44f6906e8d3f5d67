//! `/rpc/<address>`: asked over CoAP, answered in any protocol.

use crate::world::World;
use thalweg_fronts::coap::CoapSettings;
use thalweg_model::Span;
use thalweg_mqtt::{PublishOut, QoS};

#[test]
fn an_mqtt_client_answers_where_it_is_asked_to() {
    for shards in [1, 3] {
        let mut world = World::shards(shards);
        let (asker, server) = (world.peer(), world.mqtt("server"));
        world.mqtt_subscribe(server, "calc/#");
        world.says(asker, "CON POST /rpc/calc/add?h.k=v ct=0 : 1 2");
        let got = world.mqtt_message(server);
        assert_eq!(
            (&*got.line(), got.qos as u8, got.content_type.as_deref()),
            ("calc/add : 1 2", 1, Some("text/plain;charset=utf-8"))
        );
        assert_eq!(got.user, [("k".to_owned(), "v".to_owned())]);
        assert_eq!(
            got.expiry_secs,
            Some(30),
            "nobody needs to work on what nobody waits for"
        );
        let topic = got.response_topic.expect("where to");
        assert!(topic.starts_with("$reply/"), "{topic}");
        assert_eq!(world.lines(asker), ["ACK"], "the answer comes separately");
        let publish = PublishOut {
            topic: &topic,
            payload: b"3",
            qos: QoS::AtLeastOnce,
            content_type: Some("application/json"),
            correlation_data: got.correlation.as_deref(),
            ..PublishOut::default()
        };
        world.mqtt_publish(server, &publish);
        assert_eq!(
            world.lines(asker),
            ["CON 2.05 ct=50 : 3"],
            "{shards} shards"
        );
        world.mqtt_publish(server, &publish);
        assert_eq!(world.lines(asker), [""; 0], "it is answered once");
        assert_eq!(
            (world.counts().calls, world.counts().calls_unanswered),
            (1, 0)
        );
    }
}

#[test]
fn answers_find_those_who_asked() {
    let mut world = World::shards(2);
    let (one, two, server) = (world.peer(), world.peer(), world.mqtt("server"));
    world.mqtt_subscribe(server, "s");
    world.says(one, "CON POST /rpc/s : one");
    world.says(two, "NON POST /rpc/s : two");
    world.says(one, "CON POST /rpc/s : three");
    let mut got = world.mqtt_messages(server);
    world.lines(one);
    got.reverse();
    for got in got {
        let topic = got.response_topic.expect("where to");
        let answer = [&got.payload[..], b"!"].concat();
        world.mqtt_publish(
            server,
            &PublishOut {
                topic: &topic,
                payload: &answer,
                ..PublishOut::default()
            },
        );
    }
    assert_eq!(world.lines(one), ["CON 2.05 : three!", "CON 2.05 : one!"]);
    assert_eq!(world.lines(two), ["NON 2.05 : two!"]);
}

#[test]
fn nobody_there_is_said_at_once_and_silence_after_a_while() {
    let mut world = World::of(CoapSettings {
        rpc_timeout: Span::from_secs(10),
        ..CoapSettings::default()
    });
    let (asker, server) = (world.peer(), world.mqtt("server"));
    assert_eq!(world.asks(asker, "CON POST /rpc/s : x"), "ACK 4.04");
    world.mqtt_subscribe(server, "s");
    world.says(asker, "CON POST /rpc/s : x");
    world.wait(Span::from_secs(9));
    assert_eq!(world.lines(asker), ["ACK"]);
    world.wait(Span::from_secs(2));
    assert_eq!(world.lines(asker), ["CON 5.04"]);
    let topic = world.mqtt_message(server).response_topic.expect("where to");
    world.mqtt_says(server, &topic, "late", QoS::AtLeastOnce, false);
    assert_eq!(world.lines(asker), [""; 0]);
    assert_eq!(world.counts().calls_unanswered, 1);
}

#[test]
fn made_up_answers_reach_nobody() {
    let mut world = World::new();
    let (asker, server) = (world.peer(), world.mqtt("server"));
    world.mqtt_subscribe(server, "s");
    world.says(asker, "CON POST /rpc/s : x");
    let topic = world.mqtt_message(server).response_topic.expect("where to");
    world.lines(asker);
    let (desk, call) = topic.rsplit_once('/').expect("levels");
    for call in [
        "",
        "x",
        "-",
        "0-0",
        "0-ffffffffffffffff",
        "ffffffffff-1",
        &format!("9{call}"),
        &format!("{call}0"),
    ] {
        world.mqtt_says(
            server,
            &format!("{desk}/{call}"),
            "no",
            QoS::AtLeastOnce,
            false,
        );
    }
    world.mqtt_says(
        server,
        "$reply/0000000000000000/0-100000000",
        "no",
        QoS::AtLeastOnce,
        false,
    );
    assert_eq!(world.lines(asker), [""; 0]);
    world.mqtt_says(server, &topic, "yes", QoS::AtLeastOnce, false);
    assert_eq!(world.lines(asker), ["CON 2.05 : yes"]);
}

#[test]
fn who_answers_one_call_cannot_answer_another() {
    let mut world = World::shards(1);
    let (asker, server, other) = (world.peer(), world.mqtt("server"), world.mqtt("other"));
    world.mqtt_subscribe(server, "s");
    world.mqtt_subscribe(other, "t");
    world.says(asker, "CON POST /rpc/s : one");
    world.says(asker, "CON POST /rpc/t : two");
    world.lines(asker);
    let own = world.mqtt_message(server).response_topic.expect("where to");
    let theirs = world.mqtt_message(other).response_topic.expect("where to");
    let calls_of = |topic: &str| topic.rsplit('/').next().map(|it| it.replace('-', " "));
    let (own_call, call) = (calls_of(&own), calls_of(&theirs));
    let number = |call: &Option<String>, at: usize| {
        let call = call.as_deref().expect("a call");
        call.split(' ').nth(at).map(str::to_owned)
    };
    let (one, two) = (number(&own_call, 1).expect("a number"), number(&call, 1));
    assert_eq!(two, {
        let next = u64::from_str_radix(&one, 16).expect("hexadecimal") + 1;
        Some(format!("{next:x}"))
    });
    let guessed = own.replacen(&one, &two.expect("a number"), 1);
    world.mqtt_says(server, &guessed, "no", QoS::AtLeastOnce, false);
    assert_eq!(world.lines(asker), [""; 0]);
    world.mqtt_says(other, &theirs, "yes", QoS::AtLeastOnce, false);
    assert_eq!(world.lines(asker), ["CON 2.05 : yes"]);
}

#[test]
fn what_is_no_request_is_refused_and_so_is_one_too_many() {
    let mut world = World::of(CoapSettings {
        rpc_waiting_max: 1,
        ..CoapSettings::default()
    });
    let (asker, server) = (world.peer(), world.mqtt("server"));
    world.mqtt_subscribe(server, "s");
    for (line, answer) in [
        ("CON GET /rpc/s", "ACK 4.05"),
        ("CON PUT /rpc/s : x", "ACK 4.05"),
        ("CON POST /rpc : x", "ACK 4.04"),
        ("CON POST /rpc/ : x", "ACK 4.03"),
        ("CON POST /rpc/$SYS/x : x", "ACK 4.03"),
        ("CON POST /rpc/s?qos=9 : x", "ACK 4.00"),
    ] {
        assert_eq!(world.asks(asker, line), answer, "{line}");
    }
    world.says(asker, "CON POST /rpc/s : x");
    world.lines(asker);
    assert_eq!(
        world.asks(asker, "CON POST /rpc/s : y"),
        "ACK 5.03 max-age=5"
    );
}
