//! `/ps`, `/ps/<id>` and `/.well-known/core`: topics of the pubsub draft.

use crate::world::ReceivedMessage;
use crate::world::{Who, World};
use thalweg_coap::Code;
use thalweg_coap::pubsub::{CONTENT_FORMAT, Configuration};
use thalweg_fronts::coap::CoapSettings;
use thalweg_kernel::Limits;
use thalweg_kernel::access::{Access, Otherwise, Permission, Rule, Rules};
use thalweg_model::Span;
use thalweg_mqtt::QoS;

/// Some of a map of CBOR: labels below 24, texts and byte strings below 24 bytes, numbers.
enum Field<'a> {
    Text(&'a str),
    Number(u64),
    Bytes(&'a [u8]),
    /// Seconds since 1970.
    Date(u64),
}

fn head(major: u8, number: u64, out: &mut Vec<u8>) {
    match number {
        0..24 => out.push(major << 5 | number as u8),
        24..0x100 => out.extend([major << 5 | 24, number as u8]),
        0x100..0x1_0000 => {
            out.push(major << 5 | 25);
            out.extend((number as u16).to_be_bytes());
        }
        _ => {
            out.push(major << 5 | 26);
            out.extend((number as u32).to_be_bytes());
        }
    }
}

fn map(fields: &[(u8, Field<'_>)]) -> Vec<u8> {
    let mut out = Vec::new();
    head(5, fields.len() as u64, &mut out);
    for (label, field) in fields {
        head(0, u64::from(*label), &mut out);
        match field {
            Field::Text(text) => {
                head(3, text.len() as u64, &mut out);
                out.extend(text.as_bytes());
            }
            Field::Number(number) => head(0, *number, &mut out),
            Field::Bytes(bytes) => {
                head(2, bytes.len() as u64, &mut out);
                out.extend(*bytes);
            }
            Field::Date(secs) => {
                head(6, 1, &mut out);
                head(0, *secs, &mut out);
            }
        }
    }
    out
}

fn topic<'a>(name: &'a str, more: impl IntoIterator<Item = (u8, Field<'a>)>) -> Vec<u8> {
    let always = [(0, Field::Text(name)), (2, Field::Text("core.ps.data"))];
    let fields: Vec<_> = always.into_iter().chain(more).collect();
    map(&fields)
}

/// Makes a topic; its path.
#[track_caller]
fn make(world: &mut World, who: Who, map: &[u8]) -> String {
    let heard = world.asks_bytes(who, &format!("CON POST /ps ct={CONTENT_FORMAT}"), map);
    let line = heard.line();
    let path = line
        .strip_prefix("ACK 2.01 at ")
        .and_then(|rest| rest.split(' ').next());
    path.unwrap_or_else(|| panic!("{line}")).to_owned()
}

fn configuration(heard: &ReceivedMessage) -> Configuration {
    assert_eq!(
        heard.uint(thalweg_coap::option::CONTENT_FORMAT),
        Some(u32::from(CONTENT_FORMAT))
    );
    Configuration::decode(&heard.payload).expect("a configuration")
}

#[test]
fn a_topic_is_made_filled_read_and_deleted_on_every_shard() {
    for shards in [1, 3] {
        let mut world = World::shards(shards);
        let (maker, user) = (world.peer(), world.peer());
        let heard = world.asks_bytes(
            maker,
            "CON POST /ps ct=606",
            &topic("room2/temp", [(3, Field::Number(50))]),
        );
        let made = configuration(&heard);
        assert_eq!(
            (&*made.name, &*made.data),
            ("room2/temp", "/ps/data/room2/temp")
        );
        let path = heard
            .line()
            .split(' ')
            .nth(3)
            .expect("a location")
            .to_owned();
        assert_eq!(
            configuration(&world.asks_raw(user, &format!("CON GET {path}"))),
            made,
            "{shards} shards"
        );
        assert_eq!(
            world.asks(user, "CON GET /ps"),
            format!("ACK 2.05 ct=40 : <{path}>")
        );
        assert_eq!(
            world.asks(user, "CON GET /ps?rt=core.ps.data"),
            "ACK 2.05 ct=40 : </ps/data/room2/temp>"
        );
        assert_eq!(
            world.asks(user, "CON GET /ps/data/room2/temp"),
            "ACK 4.04",
            "it is half created"
        );
        assert_eq!(
            world.asks(user, "CON GET /ps/data/room2/temp observe=0"),
            "ACK 4.04"
        );
        assert_eq!(
            world.asks(user, "CON PUT /ps/data/room2/temp : 21"),
            "ACK 4.15"
        );
        assert_eq!(
            world.asks(user, "CON PUT /ps/data/room2/temp ct=60 : 21"),
            "ACK 4.15"
        );
        assert_eq!(
            world.asks(user, "CON PUT /ps/data/room2/temp ct=50 : 21"),
            "ACK 2.01"
        );
        assert_eq!(
            world.asks(maker, "CON PUT /ps/data/room2/temp ct=50 : 22"),
            "ACK 2.04"
        );
        assert_eq!(
            world.asks(user, "CON GET /ps/data/room2/temp observe=0"),
            "ACK 2.05 observe ct=50 : 22"
        );
        assert_eq!(
            world.asks(maker, "CON DELETE /ps/data/room2/temp"),
            "ACK 2.02"
        );
        assert_eq!(world.lines(user), ["CON 4.04"]);
        assert_eq!(world.asks(user, "CON GET /ps/data/room2/temp"), "ACK 4.04");
        assert_eq!(
            configuration(&world.asks_raw(user, &format!("CON GET {path}"))),
            made,
            "the topic is still there"
        );
        assert_eq!(
            world.asks(maker, "CON PUT /ps/data/room2/temp ct=50 : 23"),
            "ACK 2.01",
            "{shards} shards"
        );
        assert_eq!(
            world.asks(user, "CON GET /ps/data/room2/temp observe=0"),
            "ACK 2.05 observe ct=50 : 23"
        );
        assert_eq!(world.asks(maker, &format!("CON DELETE {path}")), "ACK 2.02");
        assert_eq!(world.lines(user), ["CON 4.04"]);
        assert_eq!(world.asks(user, &format!("CON GET {path}")), "ACK 4.04");
        assert_eq!(world.asks(user, "CON GET /ps/data/room2/temp"), "ACK 4.04");
        assert_eq!(world.asks(user, "CON GET /ps"), "ACK 2.05 ct=40");
        assert_eq!(world.counts().observers, 0);
    }
}

#[test]
fn nobody_hears_that_a_topic_is_missing_before_all_topics_are_known() {
    let settings = CoapSettings {
        auto_create: false,
        ..CoapSettings::default()
    };
    let mut world = World::beginning(3, Limits::default(), settings, Some(Access::ALL));
    let app = world.mqtt("app");
    let kept = topic(
        "room2/temp",
        [
            (1, Field::Text("/ps/data/room2/temp")),
            (3, Field::Number(50)),
        ],
    );
    let publish = thalweg_mqtt::PublishOut {
        topic: "$ps/d9nbzjfk",
        payload: &kept,
        qos: QoS::AtLeastOnce,
        retain: true,
        ..thalweg_mqtt::PublishOut::default()
    };
    world.mqtt_publish(app, &publish);
    for shard in 0..3 {
        let who = world.peer_on(shard);
        for line in [
            "CON GET /ps/d9nbzjfk",
            "CON GET /ps",
            "CON PUT /ps/data/room2/temp ct=50 : 1",
            "CON GET /ps/zzzzzzzz",
        ] {
            world.says_without_rest(who, line);
        }
        world.rest();
        let early = world.lines(who);
        assert!(
            early.len() == 4 && early.iter().all(|line| line.starts_with("ACK 5.03")),
            "{early:?}"
        );
        assert!(
            world
                .asks(who, "CON GET /ps/d9nbzjfk")
                .starts_with("ACK 2.05")
        );
        assert_eq!(
            world.asks(who, "CON GET /ps"),
            "ACK 2.05 ct=40 : </ps/d9nbzjfk>"
        );
        assert!(
            world
                .asks(who, "CON PUT /ps/data/room2/temp ct=50 : 1")
                .starts_with("ACK 2.0")
        );
        assert!(
            world
                .asks(who, "CON GET /ps/zzzzzzzz")
                .starts_with("ACK 4.04")
        );
    }
}

#[test]
fn whatever_is_published_to_a_topic_can_be_read_retained_or_not() {
    let mut world = World::shards(3);
    let (who, app) = (world.peer(), world.mqtt("app"));
    make(&mut world, who, &topic("a", [(3, Field::Number(50))]));
    world.mqtt_says(app, "a", "1", QoS::AtLeastOnce, false);
    assert_eq!(
        world.asks(who, "CON GET /ps/data/a"),
        "ACK 2.05 ct=50 : 1",
        "the topic says what it is"
    );
    assert_eq!(world.asks(who, "CON GET /ps/data/a accept=60"), "ACK 4.06");
    assert_eq!(
        world.asks(who, "CON GET /ps/data/a observe=0"),
        "ACK 2.05 observe ct=50 : 1"
    );
    world.mqtt_says(app, "a", "2", QoS::AtLeastOnce, false);
    assert_eq!(world.lines(who), ["CON 2.05 observe ct=50 : 2"]);
}

#[test]
fn a_topic_may_come_with_its_first_value() {
    let mut world = World::shards(2);
    let who = world.peer();
    let first = topic("a", [(3, Field::Number(0)), (8, Field::Bytes(b"21"))]);
    make(&mut world, who, &first);
    assert_eq!(world.asks(who, "CON GET /ps/data/a"), "ACK 2.05 ct=0 : 21");
    assert_eq!(world.asks(who, "CON PUT /ps/data/a ct=0 : 22"), "ACK 2.04");
}

#[test]
fn what_cannot_be_a_topic_is_refused_and_says_why() {
    let mut world = World::new();
    let who = world.peer();
    make(&mut world, who, &topic("a", []));
    for (line, map, code) in [
        ("CON POST /ps ct=606", topic("a", []), "4.09"),
        (
            "CON POST /ps ct=606",
            topic("b", [(1, Field::Text("/ps/data/a"))]),
            "4.09",
        ),
        (
            "CON POST /ps ct=606",
            topic("b", [(1, Field::Text("/other"))]),
            "4.00",
        ),
        ("CON POST /ps ct=606", map(&[(0, Field::Text("b"))]), "4.00"),
        (
            "CON POST /ps ct=606",
            topic("b", [(17, Field::Number(1))]),
            "4.00",
        ),
        (
            "CON POST /ps ct=606",
            topic("b", [(8, Field::Bytes(b"x"))]),
            "4.00",
        ),
        (
            "CON POST /ps ct=606",
            topic("b", [(5, Field::Date(1))]),
            "4.00",
        ),
        ("CON POST /ps ct=606", b"nonsense".to_vec(), "4.00"),
        ("CON POST /ps ct=50", topic("b", []), "4.15"),
        ("CON PUT /ps ct=606", topic("b", []), "4.05"),
        ("CON DELETE /ps", Vec::new(), "4.05"),
        ("CON GET /ps accept=50", Vec::new(), "4.06"),
        ("CON FETCH /ps/unknown0 ct=606", map(&[]), "4.04"),
        ("CON PUT /ps/unknown0 ct=606", map(&[]), "4.04"),
    ] {
        let heard = world.asks_bytes(who, line, &map);
        assert_eq!(heard.line(), format!("ACK {code}"), "{line} {map:02x?}");
        assert!(
            !heard.payload.is_empty() || !["4.00", "4.09"].contains(&code),
            "words for {line} {map:02x?}"
        );
    }
    assert_eq!(
        world.asks(who, "CON GET /ps?rt=core.ps.data"),
        "ACK 2.05 ct=40 : </ps/data/a>"
    );
}

#[test]
fn a_topic_is_changed_and_shown_in_parts() {
    let mut world = World::shards(2);
    let (who, other) = (world.peer(), world.peer());
    let path = make(
        &mut world,
        who,
        &topic(
            "a",
            [(3, Field::Number(50)), (4, Field::Text("temperature"))],
        ),
    );
    let part = world.asks_bytes(
        other,
        &format!("CON FETCH {path} ct=606"),
        &[0xA1, 0x09, 0x82, 0x01, 0x03],
    );
    assert_eq!(
        part.payload,
        map(&[(1, Field::Text("/ps/data/a")), (3, Field::Number(50))])
    );
    let changed = world.asks_bytes(
        other,
        &format!("CON IPATCH {path} ct=606"),
        &map(&[(6, Field::Number(9))]),
    );
    assert!(
        changed.line().starts_with("ACK 2.04 ct=606"),
        "{}",
        changed.line()
    );
    assert_eq!(configuration(&changed).max_subscribers, Some(9));
    assert_eq!(
        configuration(&changed).topic_type.as_deref(),
        Some("temperature")
    );
    let replaced = world.asks_bytes(
        who,
        &format!("CON POST {path} ct=606"),
        &map(&[(3, Field::Number(0))]),
    );
    let becomes = configuration(&replaced);
    assert_eq!(
        (
            becomes.content_format,
            becomes.max_subscribers,
            &becomes.topic_type
        ),
        (Some(0), None, &None)
    );
    assert_eq!(
        configuration(&world.asks_raw(other, &format!("CON GET {path}"))),
        becomes
    );
    let immutable = world.asks_bytes(
        who,
        &format!("CON IPATCH {path} ct=606"),
        &map(&[(0, Field::Text("b"))]),
    );
    assert_eq!(immutable.line(), "ACK 4.00");
    assert_eq!(
        world.asks(who, &format!("CON GET {path} accept=50")),
        "ACK 4.06"
    );
    let wanted = map(&[(0, Field::Text("a"))]);
    assert_eq!(
        world
            .asks_bytes(who, "CON FETCH /ps ct=606", &wanted)
            .line(),
        format!("ACK 2.05 ct=40 : <{path}>")
    );
    let wanted = map(&[(0, Field::Text("b"))]);
    assert_eq!(
        world
            .asks_bytes(who, "CON FETCH /ps ct=606", &wanted)
            .line(),
        "ACK 2.05 ct=40"
    );
}

#[test]
fn a_topic_limits_its_observers_over_all_shards() {
    let mut world = World::shards(2);
    let (maker, one, two, three) = (world.peer(), world.peer(), world.peer(), world.peer());
    let path = make(&mut world, maker, &topic("a", [(6, Field::Number(2))]));
    world.asks(maker, "CON PUT /ps/data/a : 1");
    assert_eq!(
        world.asks(one, "CON GET /ps/data/a observe=0"),
        "ACK 2.05 observe : 1"
    );
    world.says_with(two, "CON GET /ps/data/a observe=0", 7, b"t");
    assert_eq!(world.lines(two), ["ACK 2.05 observe : 1"]);
    assert_eq!(
        world.asks(three, "CON GET /ps/data/a observe=0"),
        "ACK 2.05 : 1",
        "all seats are taken"
    );
    world.says_with(two, "CON GET /ps/data/a observe=1", 8, b"t");
    world.lines(two);
    assert_eq!(
        world.asks(three, "CON GET /ps/data/a observe=0"),
        "ACK 2.05 observe : 1"
    );
    let fewer = map(&[(6, Field::Number(1))]);
    assert!(
        world
            .asks_bytes(maker, &format!("CON IPATCH {path} ct=606"), &fewer)
            .line()
            .starts_with("ACK 2.04")
    );
    let ended = [world.lines(one), world.lines(three)].concat();
    assert_eq!(
        (ended, world.counts().observers),
        (vec!["CON 4.04".to_owned()], 1)
    );
}

#[test]
fn of_many_who_want_the_last_seat_at_once_one_gets_it_and_all_get_an_answer() {
    for shards in [1, 2, 3] {
        let mut world = World::shards(shards);
        let maker = world.peer();
        make(&mut world, maker, &topic("a", [(6, Field::Number(1))]));
        world.asks(maker, "CON PUT /ps/data/a : 1");
        let observers: Vec<_> = (0..9).map(|_| world.peer()).collect();
        // All are read before any shard is notified of the others.
        for observer in &observers {
            world.says_without_rest(*observer, "CON GET /ps/data/a observe=0");
        }
        world.rest();
        let mut told = 0;
        for observer in &observers {
            let lines = world.lines(*observer);
            assert!(
                lines
                    .first()
                    .is_some_and(|line| line.starts_with("ACK 2.05")),
                "{shards} shards: {lines:?}"
            );
            told += usize::from(lines.iter().any(|line| line.contains("observe")));
        }
        assert_eq!(
            world.counts().observers,
            1,
            "{shards} shards, {told} were told that they observe"
        );
    }
}

#[test]
fn who_observes_an_address_before_it_is_a_topic_is_counted() {
    let mut world = World::shards(2);
    let (one, two, three) = (world.peer(), world.peer(), world.peer());
    world.asks(one, "CON GET /ps/data/a observe=0");
    make(&mut world, two, &topic("a", [(6, Field::Number(1))]));
    world.asks(two, "CON PUT /ps/data/a : 1");
    world.lines(one);
    assert_eq!(
        world.asks(two, "CON GET /ps/data/a observe=0"),
        "ACK 2.05 : 1"
    );
    assert_eq!(
        world.asks(three, "CON GET /ps/data/a observe=0"),
        "ACK 2.05 : 1"
    );
}

#[test]
fn a_topic_ends_when_its_time_is_over() {
    let mut world = World::shards(2);
    let (who, observer) = (world.peer(), world.peer());
    let end = world.bed.now.nanos() / 1_000_000_000 + 60;
    let path = make(&mut world, who, &topic("a", [(5, Field::Date(end))]));
    world.asks(who, "CON PUT /ps/data/a : 1");
    world.asks(observer, "CON GET /ps/data/a observe=0");
    world.wait(Span::from_secs(55));
    assert!(
        world
            .asks(who, &format!("CON GET {path}"))
            .starts_with("ACK 2.05")
    );
    world.wait(Span::from_secs(10));
    assert_eq!(world.asks(who, &format!("CON GET {path}")), "ACK 4.04");
    assert_eq!(world.asks(who, "CON GET /ps/data/a"), "ACK 4.04");
    assert_eq!(world.lines(observer), ["CON 4.04"]);
}

#[test]
fn a_half_created_topic_that_is_deleted_and_one_elsewhere_are_just_gone() {
    let mut world = World::new();
    let who = world.peer();
    let here = make(&mut world, who, &topic("a", []));
    let there = make(
        &mut world,
        who,
        &topic("b", [(1, Field::Text("coap://other/x"))]),
    );
    assert_eq!(
        world.asks(who, "CON GET /ps?rt=core.ps.data"),
        "ACK 2.05 ct=40 : </ps/data/a>"
    );
    assert_eq!(world.asks(who, &format!("CON DELETE {here}")), "ACK 2.02");
    assert_eq!(world.asks(who, &format!("CON DELETE {there}")), "ACK 2.02");
    assert_eq!(
        world.asks(who, &format!("CON DELETE {there}")),
        "ACK 2.02",
        "as RFC 7252 has it"
    );
}

#[test]
fn the_broker_says_what_it_has() {
    let mut world = World::shards(2);
    let who = world.peer();
    let all = "</ps>;rt=\"core.ps core.ps.coll\";ct=40,</ps/data>;rt=\"thalweg.data x-stamps x-after\";ct=40,</q>;rt=\"thalweg.queues\",\
        </rpc>;rt=\"thalweg.rpc\"";
    let path = make(&mut world, who, &topic("a", [(3, Field::Number(50))]));
    for (query, links) in [
        ("", all.to_owned()),
        (
            "?rt=core.ps",
            "</ps>;rt=\"core.ps core.ps.coll\";ct=40".to_owned(),
        ),
        (
            "?rt=core.ps.coll",
            "</ps>;rt=\"core.ps core.ps.coll\";ct=40".to_owned(),
        ),
        (
            "?rt=core.ps.conf",
            format!("<{path}>;rt=\"core.ps.conf\";ct=606"),
        ),
        (
            "?rt=core.ps.data",
            "</ps/data/a>;rt=\"core.ps.data\";ct=50;obs".to_owned(),
        ),
        (
            "?rt=thalweg*&href=/q*",
            "</q>;rt=\"thalweg.queues\"".to_owned(),
        ),
        ("?href=/rpc", "</rpc>;rt=\"thalweg.rpc\"".to_owned()),
    ] {
        let heard = world.asks(who, &format!("CON GET /.well-known/core{query}"));
        let heard = heard.strip_prefix("ACK 2.05 ct=40 : ").unwrap_or(&heard);
        assert_eq!(heard, links, "{query}");
    }
    assert_eq!(
        world.asks(who, "CON GET /.well-known/core?rt=other"),
        "ACK 2.05 ct=40"
    );
    assert_eq!(
        world.asks(who, "CON POST /.well-known/core : x"),
        "ACK 4.05"
    );
    assert_eq!(
        world.asks(who, "CON GET /.well-known/core accept=50"),
        "ACK 4.06"
    );
}

#[test]
fn who_may_not_publish_makes_no_topic_and_who_may_not_read_sees_none() {
    let rules = vec![
        Rule::allow(Permission::Publish, "mine/#"),
        Rule::allow(Permission::Publish, "$ps/#"),
        Rule::allow(Permission::Subscribe, "open/#"),
        Rule::allow(Permission::Receive, "open/#"),
    ];
    let access = Rules::new(rules, Otherwise::Deny)
        .expect("filters")
        .compile("", None);
    let mut world = World::with(1, Limits::default(), CoapSettings::default(), Some(access));
    let (who, app) = (world.peer(), world.mqtt("app"));
    assert_eq!(
        world
            .asks_bytes(who, "CON POST /ps ct=606", &topic("theirs/a", []))
            .line(),
        "ACK 4.03"
    );
    let path = make(&mut world, who, &topic("mine/a", []));
    assert_eq!(world.asks(who, "CON GET /ps"), "ACK 2.05 ct=40");
    assert_eq!(world.asks(who, &format!("CON GET {path}")), "ACK 4.03");
    // Whoever may publish to $ps makes topics, in whatever protocol.
    let mut map = Vec::new();
    let made = topic("open/b", [(1, Field::Text("/ps/data/open/b"))]);
    Configuration::decode(&made)
        .expect("a configuration")
        .encode(&mut map);
    let publish = thalweg_mqtt::PublishOut {
        topic: "$ps/abcdefgh",
        payload: &map,
        qos: QoS::AtLeastOnce,
        retain: true,
        ..thalweg_mqtt::PublishOut::default()
    };
    world.mqtt_publish(app, &publish);
    assert_eq!(
        world.asks(who, "CON GET /ps"),
        "ACK 2.05 ct=40 : </ps/abcdefgh>"
    );
    assert_eq!(
        world.asks_raw(who, "CON DELETE /ps/abcdefgh").code,
        Code::FORBIDDEN
    );
    world.mqtt_says(app, "$ps/nonsense", "x", QoS::AtLeastOnce, true);
    assert_eq!(
        world.asks(who, "CON GET /ps"),
        "ACK 2.05 ct=40 : </ps/abcdefgh>"
    );
}

#[test]
fn topics_are_known_again_to_a_front_that_opens_later() {
    let mut world = World::shards(2);
    let early = world.peer_on(0);
    let path = make(&mut world, early, &topic("a", [(3, Field::Number(50))]));
    // Nobody has spoken to the other shard's socket before.
    let late = world.peer_on(1);
    assert!(
        world
            .asks(late, &format!("CON GET {path}"))
            .starts_with("ACK 2.05 ct=606")
    );
    assert_eq!(world.asks(late, "CON PUT /ps/data/a : x"), "ACK 4.15");
}

#[test]
fn without_auto_create_only_topics_are_published_to() {
    let mut world = World::of(CoapSettings {
        auto_create: false,
        ..CoapSettings::default()
    });
    let who = world.peer();
    assert_eq!(world.asks(who, "CON PUT /ps/data/a : x"), "ACK 4.04");
    make(&mut world, who, &topic("a", []));
    assert_eq!(world.asks(who, "CON PUT /ps/data/a : x"), "ACK 2.01");
}

#[test]
fn the_desk_survives_new_rules_and_operators() {
    let mut world = World::shards(2);
    let who = world.peer_on(0);
    let nothing = Rules::new(Vec::new(), Otherwise::Deny).expect("no filters");
    let now = world.bed.now;
    for shard in &mut world.bed.shards {
        shard
            .kernel
            .renew_access(|client, user| nothing.compile(client, user));
        let mut desks = Vec::new();
        shard.kernel.for_each_session(|session| {
            if session.dialect.starts_with("CoAP (") {
                desks.push(session.client.clone());
            }
        });
        assert_eq!(desks.len(), 1);
        shard.kernel.kick(
            &desks[0],
            thalweg_kernel::CloseReason::Kicked,
            false,
            now,
            &mut shard.links,
        );
    }
    world.rest();
    for shard in &mut world.bed.shards {
        shard.kernel.renew_access(|_, _| Access::ALL);
    }
    let path = make(&mut world, who, &topic("a", [(3, Field::Number(50))]));
    let other = world.peer_on(1);
    assert!(
        world
            .asks(other, &format!("CON GET {path}"))
            .starts_with("ACK 2.05 ct=606")
    );
}
