//! `/ps/data/…`: publish, read, clear, list.

use crate::world::World;
use thalweg_coap::{Type, option};
use thalweg_fronts::coap::CoapSettings;
use thalweg_kernel::Limits;
use thalweg_kernel::access::{Access, Otherwise, Permission, Rule, Rules};
use thalweg_model::{STAMP_OPTION, Span, Stamp};
use thalweg_mqtt::{PublishOut, QoS};

#[test]
fn the_first_put_creates_the_next_changes_and_get_shows_the_last() {
    for shards in [1, 3] {
        let mut world = World::shards(shards);
        let (one, two) = (world.peer(), world.peer());
        assert_eq!(world.asks(one, "CON GET /ps/data/a/b"), "ACK 4.04");
        assert_eq!(
            world.asks(one, "CON PUT /ps/data/a/b : 21"),
            "ACK 2.01",
            "{shards} shards"
        );
        assert_eq!(world.asks(one, "CON PUT /ps/data/a/b : 22"), "ACK 2.04");
        assert_eq!(
            world.asks(two, "CON PUT /ps/data/a/b : 23"),
            "ACK 2.04",
            "{shards} shards"
        );
        assert_eq!(world.asks(one, "CON GET /ps/data/a/b"), "ACK 2.05 : 23");
        assert_eq!(world.asks(two, "NON GET /ps/data/a/b"), "NON 2.05 : 23");
        assert_eq!(world.asks(two, "CON DELETE /ps/data/a/b"), "ACK 2.02");
        assert_eq!(world.asks(two, "CON GET /ps/data/a/b"), "ACK 4.04");
    }
}

#[test]
fn what_is_put_reaches_mqtt_as_reliable_as_it_was_sent() {
    let mut world = World::shards(2);
    let (sensor, app) = (world.peer(), world.mqtt("app"));
    world.mqtt_subscribe(app, "plant/#");
    for (line, qos, retain) in [
        ("CON PUT /ps/data/plant/1.5/t : 21", 1, true),
        ("NON PUT /ps/data/plant/1.5/t : 21", 0, true),
        ("CON PUT /ps/data/plant/1.5/t?qos=0 : 21", 0, true),
        (
            "NON POST /ps/data/plant/1.5/t?qos=1&retain=false : 21",
            1,
            false,
        ),
        (
            "CON POST /ps/data/plant/1.5/t?qos=2&retain=0 : 21",
            2,
            false,
        ),
    ] {
        world.says(sensor, line);
        let got = world.mqtt_message(app);
        assert_eq!(
            (&*got.line(), got.qos as u8, got.retain),
            ("plant/1.5/t : 21", qos, retain),
            "{line}"
        );
    }
}

#[test]
fn an_unretained_publish_leaves_the_last_value_alone() {
    let mut world = World::new();
    let who = world.peer();
    assert_eq!(world.asks(who, "CON PUT /ps/data/a : kept"), "ACK 2.01");
    assert_eq!(
        world.asks(who, "CON PUT /ps/data/a?retain=false : passing"),
        "ACK 2.04"
    );
    assert_eq!(world.asks(who, "CON GET /ps/data/a"), "ACK 2.05 : kept");
    assert_eq!(
        world.asks(who, "CON PUT /ps/data/b?retain=false : passing"),
        "ACK 2.04"
    );
    assert_eq!(world.asks(who, "CON GET /ps/data/b"), "ACK 4.04");
}

#[test]
fn formats_expiry_and_user_properties_travel() {
    let mut world = World::new();
    let (sensor, app) = (world.peer(), world.mqtt("app"));
    world.mqtt_subscribe(app, "#");
    world.says(
        sensor,
        "CON PUT /ps/data/a?expiry=90&h.unit=C&h.unit=K&priority=3 ct=50 : {}",
    );
    let got = world.mqtt_message(app);
    assert_eq!(
        (got.content_type.as_deref(), got.expiry_secs),
        (Some("application/json"), Some(90))
    );
    assert_eq!(
        got.user,
        [
            ("unit".to_owned(), "C".to_owned()),
            ("unit".to_owned(), "K".to_owned())
        ]
    );
    world.lines(sensor);
    assert_eq!(
        world.asks(sensor, "CON GET /ps/data/a"),
        "ACK 2.05 ct=50 max-age=89 : {}"
    );
    world.wait(Span::from_millis(30_500));
    assert_eq!(
        world.asks(sensor, "CON GET /ps/data/a"),
        "ACK 2.05 ct=50 max-age=59 : {}"
    );
    world.wait(Span::from_secs(60));
    assert_eq!(
        world.asks(sensor, "CON GET /ps/data/a"),
        "ACK 4.04",
        "it has expired"
    );
    assert_eq!(
        world.asks(sensor, "CON PUT /ps/data/a max-age=7 : x"),
        "ACK 2.04",
        "what is known of values may be old"
    );
    assert_eq!(world.mqtt_message(app).expiry_secs, Some(7));
    assert_eq!(
        world.asks(sensor, "CON PUT /ps/data/n ct=65001 : x"),
        "ACK 2.01"
    );
    assert_eq!(
        world.asks(sensor, "CON GET /ps/data/n"),
        "ACK 2.05 ct=65001 : x"
    );
}

#[test]
fn mqtt_values_have_formats_of_coap() {
    let mut world = World::shards(2);
    let (client, app) = (world.peer(), world.mqtt("app"));
    let publish = |topic, content_type| PublishOut {
        topic,
        content_type,
        retain: true,
        qos: QoS::AtLeastOnce,
        payload: b"x",
        ..PublishOut::default()
    };
    world.mqtt_publish(app, &publish("a//b/", None));
    world.mqtt_publish(app, &publish("cbor", Some("application/cbor")));
    world.mqtt_publish(app, &publish("video", Some("video/mp4")));
    assert_eq!(world.asks(client, "CON GET /ps/data/a//b/"), "ACK 2.05 : x");
    assert_eq!(
        world.asks(client, "CON GET /ps/data/cbor"),
        "ACK 2.05 ct=60 : x"
    );
    assert_eq!(
        world.asks(client, "CON GET /ps/data/cbor accept=60"),
        "ACK 2.05 ct=60 : x"
    );
    assert_eq!(
        world.asks(client, "CON GET /ps/data/cbor accept=50"),
        "ACK 4.06"
    );
    assert_eq!(
        world.asks(client, "CON GET /ps/data/video"),
        "ACK 2.05 ct=42 : x"
    );
    assert_eq!(
        world.asks(client, "CON GET /ps/data/a//b/ accept=50"),
        "ACK 2.05 : x",
        "nobody said what it is"
    );
}

#[test]
fn who_has_the_value_is_told_that_it_is_valid() {
    let mut world = World::new();
    let who = world.peer();
    world.asks(who, "CON PUT /ps/data/a ct=0 : 21");
    let etag = world
        .asks_raw(who, "CON GET /ps/data/a")
        .option(option::ETAG)
        .expect("an ETag")
        .to_vec();
    let etag: String = etag.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(
        world.asks(who, &format!("CON GET /ps/data/a etag=0102 etag={etag}")),
        "ACK 2.03"
    );
    world.asks(who, "CON PUT /ps/data/a ct=0 : 22");
    assert_eq!(
        world.asks(who, &format!("CON GET /ps/data/a etag={etag}")),
        "ACK 2.05 ct=0 : 22"
    );
    world.asks(who, "CON PUT /ps/data/a ct=50 : 21");
    assert_eq!(
        world.asks(who, &format!("CON GET /ps/data/a etag={etag}")),
        "ACK 2.05 ct=50 : 21",
        "another format"
    );
}

#[test]
fn conditions_are_judged_by_the_value_that_is_there() {
    let mut world = World::shards(2);
    let (who, app) = (world.peer(), world.mqtt("app"));
    world.mqtt_subscribe(app, "#");
    assert_eq!(
        world.asks(who, "CON PUT /ps/data/a if-match= : x"),
        "ACK 4.12",
        "there is none"
    );
    assert_eq!(
        world.asks(who, "CON PUT /ps/data/a if-none-match ct=0 : 1"),
        "ACK 2.01"
    );
    assert_eq!(
        world.asks(who, "CON PUT /ps/data/a if-none-match : 2"),
        "ACK 4.12"
    );
    assert_eq!(
        world.asks(who, "CON PUT /ps/data/a if-match= ct=0 : 3"),
        "ACK 2.04"
    );
    let etag = world
        .asks_raw(who, "CON GET /ps/data/a")
        .option(option::ETAG)
        .expect("an ETag")
        .to_vec();
    let etag: String = etag.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(
        world.asks(who, "CON DELETE /ps/data/a if-match=01020304"),
        "ACK 4.12"
    );
    assert_eq!(
        world.asks(
            who,
            &format!("CON PUT /ps/data/a if-match=0102 if-match={etag} ct=0 : 4")
        ),
        "ACK 2.04"
    );
    assert_eq!(
        world.asks(who, "CON DELETE /ps/data/a if-match="),
        "ACK 2.02"
    );
    let texts: Vec<_> = world.mqtt_lines(app);
    assert_eq!(
        texts,
        ["a : 1", "a : 3", "a : 4", "a : "],
        "what was refused was not published"
    );
}

#[test]
fn addresses_are_what_their_levels_say() {
    let mut world = World::new();
    let (who, app) = (world.peer(), world.mqtt("app"));
    world.mqtt_subscribe(app, "#");
    for (path, topic) in [
        ("/ps/data//a//", "/a//"),
        ("/ps/data/a%2Fb", "a%2Fb"),
        ("/ps/data/a%252Fb", "a%252Fb"),
        ("/ps/data/%2B/%23", "%2B/%23"),
        ("/ps/data/100%25", "100%"),
        ("/ps/data/%C3%A9", "é"),
    ] {
        assert_eq!(
            world.asks(who, &format!("CON PUT {path} : x")),
            "ACK 2.01",
            "{path}"
        );
        assert_eq!(world.mqtt_message(app).topic, topic);
        assert_eq!(
            world.asks(who, &format!("CON GET {path}")),
            "ACK 2.05 : x",
            "{path}"
        );
    }
    for path in ["/ps/data/%FF", "/ps/data/"] {
        assert_eq!(
            world.asks(who, &format!("CON PUT {path} : x")),
            "ACK 4.00",
            "{path}"
        );
    }
    for path in [
        "/ps/data/$SYS/x",
        "/ps/data/$ps/x",
        "/ps/data/$reply/x",
        "/ps/data/$share/g/x",
    ] {
        assert_eq!(
            world.asks(who, &format!("CON PUT {path} : x")),
            "ACK 4.03",
            "{path}"
        );
        assert_eq!(
            world.asks(who, &format!("CON DELETE {path}")),
            "ACK 4.03",
            "{path}"
        );
    }
    let deep = "/x".repeat(200);
    assert_eq!(
        world.asks(who, &format!("CON PUT /ps/data{deep} : x")),
        "ACK 4.00",
        "too deep"
    );
    assert_eq!(world.mqtt_messages(app), []);
}

#[test]
fn methods_and_paths_that_are_none_are_refused() {
    let mut world = World::new();
    let who = world.peer();
    for (line, answer) in [
        ("CON GET /", "ACK 4.04"),
        ("CON GET /other", "ACK 4.04"),
        ("CON PUT /ps/data : x", "ACK 4.05"),
        ("CON DELETE /ps/data", "ACK 4.05"),
        ("CON PATCH /ps/data/a : x", "ACK 4.05"),
        ("CON IPATCH /ps/data/a : x", "ACK 4.05"),
        ("CON GET /ps/data/a?qos=5", "ACK 4.00"),
        ("CON GET /ps/data/a proxy=coap://x", "ACK 5.05"),
        ("CON GET /ps/data/a host=broker port=5684", "ACK 4.04"),
        ("CON GET /ps/data/a?filter=a/%23/b", "ACK 4.00"),
    ] {
        assert_eq!(world.asks(who, line), answer, "{line}");
    }
}

#[test]
fn emqx_writes_topics_below_ps_and_keeps_only_what_says_so() {
    let mut world = World::new();
    let (who, app) = (world.peer(), world.mqtt("app"));
    world.mqtt_subscribe(app, "#");
    assert_eq!(
        world.asks(who, "CON PUT /ps/coap/test?c=client1&t=token&qos=1 : hi"),
        "ACK 2.04"
    );
    let got = world.mqtt_message(app);
    assert_eq!((&*got.line(), got.retain), ("coap/test : hi", false));
    assert_eq!(world.asks(who, "CON GET /ps/coap/test"), "ACK 4.04");
    assert_eq!(
        world.asks(who, "CON POST /ps/one?retain=true&expiry=30 : hi"),
        "ACK 2.01"
    );
    assert_eq!(
        world.asks(who, "CON GET /ps/one"),
        "ACK 2.05 max-age=29 : hi"
    );
    assert_eq!(
        world.asks(who, "CON GET /ps/data/one"),
        "ACK 2.05 max-age=29 : hi"
    );
    assert_eq!(
        world.asks(who, "CON GET /ps/coap/test observe=0"),
        "ACK 2.05 observe"
    );
    world.mqtt_says(app, "coap/test", "1", QoS::AtLeastOnce, false);
    assert_eq!(world.lines(who), ["CON 2.05 observe : 1"]);
    let mut world = World::of(CoapSettings {
        emqx_paths: false,
        ..CoapSettings::default()
    });
    let who = world.peer();
    assert_eq!(world.asks(who, "CON PUT /ps/coap/test : hi"), "ACK 4.04");
}

#[test]
fn values_can_be_listed_by_filter_and_by_prefix() {
    let mut world = World::shards(3);
    let who = world.peer();
    for (path, format) in [
        ("a/b", " ct=50"),
        ("a/b/c", ""),
        ("a/d%20e", " ct=0"),
        ("b", ""),
    ] {
        world.says(who, &format!("CON PUT /ps/data/{path}{format} : x"));
    }
    world.lines(who);
    for (line, links) in [
        (
            "CON FETCH /ps/data",
            "</ps/data/a/b>;ct=50,</ps/data/a/b/c>,</ps/data/a/d%20e>;ct=0,</ps/data/b>",
        ),
        (
            "CON FETCH /ps/data/a/b",
            "</ps/data/a/b>;ct=50,</ps/data/a/b/c>",
        ),
        (
            "CON FETCH /ps/data?filter=a/%2B",
            "</ps/data/a/b>;ct=50,</ps/data/a/d%20e>;ct=0",
        ),
        (
            "CON GET /ps/data?filter=+/d%20e accept=40",
            "</ps/data/a/d%20e>;ct=0",
        ),
    ] {
        assert_eq!(
            world.asks(who, line),
            format!("ACK 2.05 ct=40 : {links}"),
            "{line}"
        );
    }
    assert_eq!(world.asks(who, "CON FETCH /ps/data/none"), "ACK 2.05 ct=40");
    let cbor = world
        .asks_raw(who, "CON FETCH /ps/data/a/b accept=60")
        .payload;
    let expected: Vec<u8> = [
        &[0x82, 0x83, 0x63][..],
        b"a/b",
        &[0x41],
        b"x",
        &[0x18, 50, 0x83, 0x65],
        b"a/b/c",
        &[0x41],
    ]
    .concat()
    .into_iter()
    .chain([b'x', 0xF6])
    .collect();
    assert_eq!(cbor, expected);
    assert_eq!(world.asks(who, "CON FETCH /ps/data accept=50"), "ACK 4.06");
}

#[test]
fn the_access_rules_hold_for_each_verb() {
    let rules = vec![
        Rule::allow(Permission::Publish, "in/#"),
        Rule::allow(Permission::Subscribe, "out/#"),
        Rule::allow(Permission::Receive, "out/#"),
    ];
    let access = Rules::new(rules, Otherwise::Deny)
        .expect("filters")
        .compile("", None);
    let mut world = World::with(1, Limits::default(), CoapSettings::default(), Some(access));
    let (who, app) = (world.peer(), world.mqtt("app"));
    world.mqtt_says(app, "out/a", "1", QoS::AtLeastOnce, true);
    for (line, answer) in [
        ("CON PUT /ps/data/in/a : x", "ACK 2.04"),
        ("CON PUT /ps/data/out/a : x", "ACK 4.03"),
        ("CON GET /ps/data/in/a", "ACK 4.03"),
        ("CON GET /ps/data/out/a", "ACK 2.05 : 1"),
        ("CON GET /ps/data/in/a observe=0", "ACK 4.03"),
        ("CON DELETE /ps/data/out/a", "ACK 4.03"),
        ("CON DELETE /ps/data/in/a", "ACK 2.02"),
        ("CON FETCH /ps/data/in", "ACK 4.03"),
        (
            "CON FETCH /ps/data/out",
            "ACK 2.05 ct=40 : </ps/data/out/a>",
        ),
        ("CON PUT /ps/data/in/b if-none-match : x", "ACK 4.03"),
    ] {
        assert_eq!(world.asks(who, line), answer, "{line}");
    }
}

#[test]
fn a_confirmable_put_is_answered_when_the_journal_says_so() {
    for shards in [1, 3] {
        let limits = Limits {
            journal: true,
            ..Limits::default()
        };
        let anonymous = Some(Access::ALL);
        let mut world = World::with(shards, limits, CoapSettings::default(), anonymous);
        let (who, other) = (world.peer_on(0), world.peer_on(0));
        assert_eq!(world.asks(who, "CON PUT /ps/data/warm : x"), "ACK 2.01");
        assert_eq!(world.asks(who, "CON PUT /ps/data/a : 0"), "ACK 2.01");
        world.bed.is_disk_manual = true;
        let id = world.says(who, "CON PUT /ps/data/a : 1");
        assert_eq!(world.lines(who), [""; 0], "nothing is safe yet");
        world.says_with(
            who,
            "CON PUT /ps/data/a : 1",
            id,
            &[0, (id >> 8) as u8, id as u8],
        );
        assert_eq!(
            world.lines(who),
            [""; 0],
            "a repetition is not answered earlier"
        );
        assert_eq!(
            world.asks(other, "CON GET /ps/data/a"),
            "ACK 2.05 : 1",
            "others' answers do not wait"
        );
        assert_eq!(
            world.asks(who, "NON PUT /ps/data/a : 2"),
            "NON 2.04",
            "nor do those of messages that may be lost"
        );
        world.sync();
        world.rest();
        assert_eq!(world.lines(who), ["ACK 2.04"]);
        world.says_with(
            who,
            "CON PUT /ps/data/a : 1",
            id,
            &[0, (id >> 8) as u8, id as u8],
        );
        assert_eq!(
            world.lines(who),
            ["ACK 2.04"],
            "a late repetition is answered, and not done again"
        );
        assert_eq!(world.asks(other, "CON GET /ps/data/a"), "ACK 2.05 : 2");
    }
}

#[test]
fn an_answer_that_takes_too_long_is_acknowledged_and_comes_by_itself() {
    let limits = Limits {
        journal: true,
        ..Limits::default()
    };
    let mut world = World::with(1, limits, CoapSettings::default(), Some(Access::ALL));
    let who = world.peer();
    world.bed.is_disk_manual = true;
    world.says(who, "CON PUT /ps/data/a : 1");
    world.wait(Span::from_secs(2));
    assert_eq!(world.lines(who), ["ACK"]);
    world.sync();
    world.rest();
    assert_eq!(world.lines(who), ["CON 2.01"]);
}

#[test]
fn who_publishes_too_fast_is_told_how_long_to_wait() {
    let settings = CoapSettings {
        publish_rate: Some(2),
        ..CoapSettings::default()
    };
    let mut world = World::of(settings);
    let who = world.peer();
    let mut answers = Vec::new();
    for text in 0..8 {
        answers.push(world.asks(who, &format!("CON PUT /ps/data/a?retain=false : {text}")));
    }
    let refused = answers
        .iter()
        .filter(|answer| answer.starts_with("ACK 4.29 max-age="))
        .count();
    assert!(
        answers.first().is_some_and(|answer| answer == "ACK 2.04") && refused >= 3,
        "{answers:?}"
    );
    assert_eq!(
        world.asks(who, "CON GET /ps/data/a"),
        "ACK 4.04",
        "reading is not limited"
    );
    world.wait(Span::from_secs(10));
    assert_eq!(world.asks(who, "CON PUT /ps/data/a : x"), "ACK 2.01");
}

#[test]
fn a_full_journal_is_said_with_a_time_to_come_back() {
    let limits = Limits {
        journal: true,
        ..Limits::default()
    };
    let mut world = World::with(1, limits, CoapSettings::default(), Some(Access::ALL));
    let who = world.peer();
    world.bed.shards[0].kernel.set_journal_full(true);
    assert_eq!(
        world.asks(who, "CON PUT /ps/data/a : x"),
        "ACK 5.03 max-age=5"
    );
    assert_eq!(
        world.asks(who, "NON PUT /ps/data/a?retain=false : x"),
        "NON 2.04",
        "what may be lost goes on"
    );
    world.bed.shards[0].kernel.set_journal_full(false);
    assert_eq!(world.asks(who, "CON PUT /ps/data/a : x"), "ACK 2.01");
}

#[test]
fn bodies_larger_than_a_block_go_in_blocks_both_ways() {
    let mut world = World::new();
    let (who, app) = (world.peer(), world.mqtt("app"));
    world.mqtt_subscribe(app, "#");
    let text: String = (0..100).map(|number| format!("{number:02} ")).collect();
    let parts: Vec<&str> = (0..5)
        .map(|at| &text[at * 64..(at * 64 + 64).min(text.len())])
        .collect();
    for (at, part) in parts.iter().enumerate().take(4) {
        let answer = world.asks(who, &format!("CON PUT /ps/data/a block1={at}+/64 : {part}"));
        assert_eq!(answer, format!("ACK 2.31 block1={at}+/64"));
    }
    assert_eq!(world.mqtt_messages(app), []);
    assert_eq!(
        world.asks(
            who,
            &format!("CON PUT /ps/data/a block1=4/64 : {}", parts[4])
        ),
        "ACK 2.01 block1=4/64"
    );
    assert_eq!(world.mqtt_message(app).payload, text.as_bytes());
    let mut whole = Vec::new();
    for at in 0..5 {
        let heard = world.asks_raw(who, &format!("CON GET /ps/data/a block2={at}/64"));
        assert_eq!(heard.kind, Type::Acknowledgement);
        whole.extend(heard.payload);
    }
    assert_eq!(whole, text.as_bytes());
}

#[test]
fn a_repeated_put_is_answered_again_and_done_once() {
    let mut world = World::new();
    let (who, app) = (world.peer(), world.mqtt("app"));
    world.mqtt_subscribe(app, "#");
    world.says_with(who, "CON PUT /ps/data/a : 1", 7, b"t");
    world.says_with(who, "CON PUT /ps/data/a : 1", 7, b"t");
    assert_eq!(world.lines(who), ["ACK 2.01", "ACK 2.01"]);
    world.says_with(who, "CON PUT /ps/data/a : 2", 8, b"t");
    world.says_with(who, "CON PUT /ps/data/a : 1", 7, b"t");
    world.says_with(who, "NON PUT /ps/data/a : 3", 9, b"t");
    world.says_with(who, "NON PUT /ps/data/a : 3", 9, b"t");
    assert_eq!(world.lines(who), ["ACK 2.04", "ACK 2.01", "NON 2.04"]);
    assert_eq!(world.mqtt_lines(app), ["a : 1", "a : 2", "a : 3"]);
    assert_eq!(world.counts().duplicates, 3);
}

/// RFC 7252 §5.5.2: an error has a diagnostic text for people.
#[test]
fn errors_say_what_is_the_matter() {
    let mut world = World::new();
    let who = world.peer();
    let cases = [
        ("CON GET /ps/data/a", "4.04", "this address has no value"),
        (
            "CON GET /nowhere",
            "4.04",
            "there is no such resource; /.well-known/core lists what there is",
        ),
        (
            "CON IPATCH /ps/data/a : x",
            "4.05",
            "data knows GET, FETCH, PUT, POST and DELETE",
        ),
        (
            "CON POST /ps ct=0 : x",
            "4.15",
            "configurations are application/core-pubsub+cbor (606) or CBOR (60)",
        ),
        (
            "CON GET /.well-known/core accept=60",
            "4.06",
            "the list is application/link-format (40)",
        ),
    ];
    let ask = |world: &mut World, line: &str| {
        let heard = world.asks_raw(who, line);
        (
            heard.line(),
            String::from_utf8(heard.payload).expect("UTF-8"),
        )
    };
    for (line, code, words) in cases {
        assert_eq!(
            ask(&mut world, line),
            (format!("ACK {code}"), words.to_owned()),
            "{line}"
        );
    }
    world.asks(who, "CON PUT /ps/data/a ct=50 : {}");
    let words = ask(&mut world, "CON GET /ps/data/a accept=60").1;
    assert_eq!(words, "the value has another Content-Format");
    let words = ask(&mut world, "CON PUT /ps/data/a if-none-match : x").1;
    assert_eq!(
        words,
        "the value is not what If-Match or If-None-Match asks for"
    );
}

#[test]
fn what_receivers_see_of_a_stamp_is_of_no_use_to_publish_under() {
    let mut world = World::new();
    let (sensor, app) = (world.peer(), world.mqtt("app"));
    world.mqtt_subscribe(app, "#");
    let says = |world: &mut World, line: &str| {
        world.says(sensor, line);
        let shown: Vec<String> = world
            .mqtt_messages(app)
            .into_iter()
            .flat_map(|got| got.user)
            .map(|(_, value)| value)
            .collect();
        world.lines(sensor);
        shown
    };
    let stamp = |number: u64, sequence: &str| format!("stamp={number:016x}{sequence}");
    for way in ["PUT /ps/data/a", "POST /q/work", "POST /rpc/ask"] {
        let seen = says(&mut world, &format!("CON {way} {} : x", stamp(0xabc, "01")));
        let [seen] = &seen[..] else {
            // A subscription does not see messages that wait in a queue.
            assert_eq!((way, &seen[..]), ("POST /q/work", &[][..]));
            continue;
        };
        let (number, sequence) = seen.split_once('-').expect("it is a stamp");
        assert_eq!((number == "abc", sequence), (false, "1"), "{way}");
        let number = u64::from_str_radix(number, 16).expect("hexadecimal");
        let forged = says(
            &mut world,
            &format!("CON {way} {} : x", stamp(number, "ffffffff")),
        );
        assert!(
            !forged[0].starts_with(&format!("{number:x}")),
            "{way}: nobody can speak as the publisher"
        );
        let again = says(&mut world, &format!("CON {way} {} : x", stamp(0xabc, "02")));
        assert_eq!(again, [format!("{number:x}-2")], "{way}");
    }
    // Nor as a user property, which receivers of MQTT would take for a stamp.
    assert_eq!(
        says(
            &mut world,
            "CON PUT /ps/data/a?h.x-stamp=abc-7&h.unit=C : x"
        ),
        ["C"]
    );
    // An observer sees what others see.
    let of_app = says(
        &mut world,
        &format!("CON PUT /ps/data/a {} : x", stamp(0xabc, "03")),
    );
    world.says(sensor, "CON GET /ps/data/a");
    let shown = world
        .one(sensor)
        .options
        .iter()
        .find(|(number, _)| *number == STAMP_OPTION)
        .map(|(_, value)| value.clone());
    let shown = Stamp::from_bytes(&shown.expect("it is shown")).expect("it is a stamp");
    assert_eq!([shown.to_string()], of_app[..]);
}
