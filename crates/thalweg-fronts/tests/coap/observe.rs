//! Observe: an observer of an address is notified of its changes. RFC 7641

use crate::world::ReceivedMessage;
use crate::world::{Manner, World};
use thalweg_coap::{Type, option};
use thalweg_fronts::coap::{CoapSettings, Notify};
use thalweg_model::Span;
use thalweg_mqtt::QoS;

fn texts(heard: &[ReceivedMessage]) -> Vec<String> {
    heard
        .iter()
        .map(|heard| String::from_utf8_lossy(&heard.payload).into_owned())
        .collect()
}

#[test]
fn an_observer_gets_the_value_and_then_each_change() {
    for shards in [1, 3] {
        let mut world = World::shards(shards);
        let (observer, publisher) = (world.peer(), world.peer());
        world.asks(publisher, "CON PUT /ps/data/a ct=0 : 1");
        assert_eq!(
            world.asks(observer, "CON GET /ps/data/a observe=0"),
            "ACK 2.05 observe ct=0 : 1"
        );
        assert_eq!(
            world.asks(publisher, "CON PUT /ps/data/a ct=0 : 2"),
            "ACK 2.04"
        );
        assert_eq!(
            world.lines(observer),
            ["CON 2.05 observe ct=0 : 2"],
            "{shards} shards"
        );
        assert_eq!(
            world.asks(publisher, "NON PUT /ps/data/a ct=0 : 3"),
            "NON 2.04"
        );
        assert_eq!(world.lines(observer), ["NON 2.05 observe ct=0 : 3"]);
        assert_eq!(world.counts().observers, 1);
    }
}

#[test]
fn the_numbers_of_observe_rise_and_the_token_is_the_requests() {
    let mut world = World::new();
    let (observer, publisher) = (world.peer(), world.peer());
    world.says_with(observer, "CON GET /ps/data/a observe=0", 7, b"tok");
    let mut last = world.one(observer).uint(option::OBSERVE).expect("Observe");
    for text in 0..5 {
        world.asks(publisher, &format!("CON PUT /ps/data/a : {text}"));
        let heard = world.one(observer);
        let number = heard.uint(option::OBSERVE).expect("Observe");
        assert!(number > last, "{number} behind {last}");
        assert_eq!(heard.token, b"tok");
        last = number;
    }
}

#[test]
fn a_token_may_be_empty() {
    let mut world = World::new();
    let (observer, publisher) = (world.peer(), world.peer());
    world.says_with(observer, "CON GET /ps/data/a", 6, b"");
    assert_eq!(world.lines(observer), ["ACK 4.04"]);
    world.says_with(observer, "CON GET /ps/data/a observe=0", 7, b"");
    assert_eq!(
        world.lines(observer),
        ["ACK 2.05 observe"],
        "nothing has been published yet"
    );
    world.asks(publisher, "CON PUT /ps/data/a : x");
    assert_eq!(world.lines(observer), ["CON 2.05 observe : x"]);
    world.says_with(observer, "CON GET /ps/data/a observe=1", 8, b"");
    assert_eq!(world.lines(observer), ["ACK 2.05 : x"]);
    world.asks(publisher, "CON PUT /ps/data/a : y");
    assert_eq!(world.lines(observer), [""; 0]);
}

#[test]
fn publishes_of_mqtt_are_observed_retained_or_not() {
    let mut world = World::shards(3);
    let (observer, app) = (world.peer(), world.mqtt("app"));
    world.asks(observer, "CON GET /ps/data/a/b observe=0");
    world.mqtt_says(app, "a/b", "0", QoS::AtMostOnce, false);
    assert_eq!(
        world.lines(observer),
        ["CON 2.05 observe : 0"],
        "the first shows whether the peer is there at all"
    );
    world.mqtt_says(app, "a/b", "1", QoS::AtMostOnce, false);
    assert_eq!(world.lines(observer), ["NON 2.05 observe : 1"]);
    world.mqtt_says(app, "a/b", "2", QoS::AtLeastOnce, true);
    assert_eq!(world.lines(observer), ["CON 2.05 observe : 2"]);
    world.mqtt_says(app, "a/b", "3", QoS::AtLeastOnce, false);
    assert_eq!(world.lines(observer), ["CON 2.05 observe : 3"]);
    world.mqtt_says(app, "a/c", "4", QoS::AtLeastOnce, false);
    assert_eq!(world.lines(observer), [""; 0]);
    // An empty retained message clears.
    world.mqtt_says(app, "a/b", "", QoS::AtLeastOnce, true);
    assert_eq!(world.lines(observer), ["CON 4.04"]);
    assert_eq!(world.counts().observers, 0);
}

#[test]
fn what_an_observer_says_itself_comes_back_like_others_words() {
    let mut world = World::new();
    let who = world.peer();
    world.asks(who, "CON GET /ps/data/a observe=0");
    world.says(who, "CON PUT /ps/data/a : x");
    let mut lines = world.lines(who);
    lines.sort();
    assert_eq!(lines, ["ACK 2.01", "CON 2.05 observe : x"]);
}

#[test]
fn a_burst_leaves_a_silent_observer_with_the_last_value_and_its_observation() {
    for shards in [1, 2] {
        let mut world = World::shards(shards);
        let (observer, publisher, app) = (world.peer(), world.peer(), world.mqtt("app"));
        world.mqtt_subscribe(app, "#");
        world.asks(observer, "CON GET /ps/data/a observe=0");
        world.set_manner(observer, Manner::Silent);
        for text in 1..=200 {
            world.says(publisher, &format!("CON PUT /ps/data/a : {text}"));
        }
        assert_eq!(world.lines(publisher).len(), 200);
        assert_eq!(world.mqtt_messages(app).len(), 200);
        let heard = world.heard(observer);
        assert!(!heard.is_empty() && heard.len() < 10, "{:?}", texts(&heard));
        assert_eq!(world.counts().observers, 1, "it is waited for");
        // It wakes up and acknowledges what it has seen last.
        let id = heard.last().expect("one").id;
        world.set_manner(observer, Manner::Polite);
        world.replies(observer, Type::Acknowledgement, id);
        world.wait(Span::from_secs(10));
        let rest = world.heard(observer);
        assert_eq!(
            texts(&rest).last().map(String::as_str),
            Some("200"),
            "the last value is right: {:?}",
            texts(&rest)
        );
        assert_eq!(world.counts().observers, 1);
        assert!(world.counts().conflated + u64::from(shards) * 1000 > 0);
    }
}

#[test]
fn a_queue_brings_each_value_in_its_order() {
    for (query, expected) in [("?queue=10", 5), ("", 3)] {
        let mut world = World::new();
        let (observer, app) = (world.peer(), world.mqtt("app"));
        world.asks(observer, &format!("CON GET /ps/data/a{query} observe=0"));
        world.set_manner(observer, Manner::Silent);
        world.mqtt_says(app, "a", "1", QoS::AtLeastOnce, false);
        let first = world.one(observer);
        for text in ["2", "3", "4", "5"] {
            world.mqtt_says(app, "a", text, QoS::AtLeastOnce, false);
        }
        world.set_manner(observer, Manner::Polite);
        world.replies(observer, Type::Acknowledgement, first.id);
        world.wait(Span::from_secs(60));
        let mut got = vec![String::from_utf8_lossy(&first.payload).into_owned()];
        got.extend(texts(&world.heard(observer)));
        got.dedup();
        assert!(got.len() <= expected, "{query}: {got:?}");
        assert_eq!(
            got.last().map(String::as_str),
            Some("5"),
            "{query}: {got:?}"
        );
        if !query.is_empty() {
            assert_eq!(got, ["1", "2", "3", "4", "5"]);
        }
    }
}

#[test]
fn a_reset_ends_an_observation() {
    let mut world = World::new();
    let (observer, app) = (world.peer(), world.mqtt("app"));
    world.asks(observer, "CON GET /ps/data/a observe=0");
    world.set_manner(observer, Manner::Rejecting);
    world.mqtt_says(app, "a", "1", QoS::AtLeastOnce, false);
    assert_eq!(world.lines(observer), ["CON 2.05 observe : 1"]);
    assert_eq!(
        (world.counts().observers, world.counts().observers_lost),
        (0, 1)
    );
    world.mqtt_says(app, "a", "2", QoS::AtLeastOnce, false);
    assert_eq!(world.lines(observer), [""; 0]);
    // Of a message that is not confirmable, too.
    world.set_manner(observer, Manner::Polite);
    world.asks(observer, "CON GET /ps/data/a observe=0");
    world.set_manner(observer, Manner::Rejecting);
    world.mqtt_says(app, "a", "3", QoS::AtMostOnce, false);
    assert_eq!(world.lines(observer), ["NON 2.05 observe : 3"]);
    world.mqtt_says(app, "a", "4", QoS::AtMostOnce, false);
    assert_eq!(
        (world.lines(observer).len(), world.counts().observers),
        (0, 0)
    );
}

#[test]
fn an_observer_that_does_not_acknowledge_is_given_up_after_all_repetitions() {
    let mut world = World::new();
    let (observer, app) = (world.peer(), world.mqtt("app"));
    world.asks(observer, "CON GET /ps/data/a observe=0");
    world.set_manner(observer, Manner::Silent);
    world.mqtt_says(app, "a", "1", QoS::AtLeastOnce, false);
    world.wait(Span::from_secs(40));
    assert_eq!(
        world.counts().observers,
        1,
        "not before the last repetition was waited for"
    );
    world.wait(Span::from_secs(120));
    assert_eq!(world.counts().observers, 0);
    let lines = world.lines(observer);
    assert_eq!(lines.len(), 5, "{lines:?}");
    world.mqtt_says(app, "a", "2", QoS::AtLeastOnce, false);
    assert_eq!(world.lines(observer), [""; 0]);
}

/// A client that ends an observation and begins it again: the network lets the second overtake the first.
#[test]
fn a_deregistration_that_was_overtaken_leaves_the_new_observation() {
    let mut world = World::new();
    let (observer, app) = (world.peer(), world.mqtt("app"));
    world.says_with(observer, "CON GET /ps/data/a observe=0", 7, b"old");
    world.says_with(observer, "CON GET /ps/data/a observe=0", 8, b"new");
    world.says_with(observer, "CON GET /ps/data/a observe=1", 9, b"old");
    world.lines(observer);
    assert_eq!(world.counts().observers, 1);
    world.mqtt_says(app, "a", "1", QoS::AtLeastOnce, false);
    let heard = world.one(observer);
    assert_eq!(
        (heard.token.as_slice(), heard.payload.as_slice()),
        (&b"new"[..], &b"1"[..])
    );
}

#[test]
fn the_place_of_a_notification_that_a_deregistration_ends_goes_to_one_that_waits() {
    let mut world = World::new();
    let (observer, app) = (world.peer(), world.mqtt("app"));
    world.says_with(observer, "CON GET /ps/data/a observe=0", 7, b"a");
    world.says_with(observer, "CON GET /ps/data/b observe=0", 8, b"b");
    world.lines(observer);
    world.set_manner(observer, Manner::Silent);
    world.mqtt_says(app, "a", "1", QoS::AtLeastOnce, false);
    world.mqtt_says(app, "b", "2", QoS::AtLeastOnce, false);
    assert_eq!(
        world.lines(observer),
        ["CON 2.05 observe : 1"],
        "NSTART is 1"
    );
    world.says_with(observer, "CON GET /ps/data/a observe=1", 9, b"a");
    let lines = world.lines(observer);
    assert!(
        lines.contains(&"CON 2.05 observe : 2".to_owned()),
        "{lines:?}"
    );
}

#[test]
fn it_ends_by_deregistration_whatever_the_path_says() {
    let mut world = World::new();
    let (observer, app) = (world.peer(), world.mqtt("app"));
    world.says_with(observer, "CON GET /ps/data/a/ observe=0", 7, b"t");
    world.lines(observer);
    // go-coap leaves empty levels out.
    world.says_with(observer, "CON GET /ps/data/a observe=1", 8, b"t");
    assert_eq!(world.lines(observer), ["ACK 4.04"]);
    world.mqtt_says(app, "a/", "1", QoS::AtLeastOnce, false);
    assert_eq!(
        (world.lines(observer).len(), world.counts().observers),
        (0, 0)
    );
}

#[test]
fn a_token_that_observes_again_observes_the_new_address_only() {
    let mut world = World::new();
    let (observer, app) = (world.peer(), world.mqtt("app"));
    world.says_with(observer, "CON GET /ps/data/a observe=0", 7, b"t");
    world.says_with(observer, "CON GET /ps/data/a observe=0", 8, b"t");
    world.says_with(observer, "CON GET /ps/data/b observe=0", 9, b"t");
    assert_eq!(world.lines(observer).len(), 3);
    assert_eq!(world.counts().observers, 1);
    world.mqtt_says(app, "a", "1", QoS::AtLeastOnce, false);
    assert_eq!(world.lines(observer), [""; 0]);
    world.mqtt_says(app, "b", "2", QoS::AtLeastOnce, false);
    assert_eq!(world.lines(observer), ["CON 2.05 observe : 2"]);
}

#[test]
fn many_observers_on_all_shards_get_each_change() {
    let mut world = World::shards(3);
    let observers: Vec<_> = (0..60).map(|_| world.peer()).collect();
    for observer in &observers {
        assert_eq!(
            world.asks(*observer, "CON GET /ps/data/a observe=0"),
            "ACK 2.05 observe"
        );
    }
    let app = world.mqtt("app");
    for (text, line) in [("1", "CON 2.05 observe : 1"), ("2", "NON 2.05 observe : 2")] {
        world.mqtt_says(app, "a", text, QoS::AtMostOnce, false);
        for observer in &observers {
            assert_eq!(world.lines(*observer), [line]);
        }
    }
    assert_eq!(world.counts().notifications, 120);
}

#[test]
fn the_operator_decides_whether_an_empty_address_can_be_observed_and_what_is_confirmable() {
    let mut world = World::of(CoapSettings {
        observe_empty: false,
        ..CoapSettings::default()
    });
    let observer = world.peer();
    assert_eq!(
        world.asks(observer, "CON GET /ps/data/a observe=0"),
        "ACK 4.04"
    );
    assert_eq!(world.counts().observers, 0);
    for (notify, expected) in [
        (Notify::Confirmable, "CON"),
        (Notify::NonConfirmable, "NON"),
    ] {
        let mut world = World::of(CoapSettings {
            notify,
            ..CoapSettings::default()
        });
        let (observer, app) = (world.peer(), world.mqtt("app"));
        world.asks(observer, "CON GET /ps/data/a observe=0");
        world.mqtt_says(app, "a", "0", QoS::AtMostOnce, false);
        assert_eq!(
            world.lines(observer),
            ["CON 2.05 observe : 0"],
            "the first shows whether the peer is there at all"
        );
        for (text, qos) in [("1", QoS::AtMostOnce), ("2", QoS::AtLeastOnce)] {
            world.mqtt_says(app, "a", text, qos, false);
            assert_eq!(
                world.lines(observer),
                [format!("{expected} 2.05 observe : {text}")]
            );
        }
    }
}

#[test]
fn beyond_the_limit_a_registration_is_answered_without_observe() {
    let mut world = World::of(CoapSettings {
        observers_max: 1,
        ..CoapSettings::default()
    });
    let (one, two) = (world.peer(), world.peer());
    world.asks(one, "CON PUT /ps/data/a : x");
    assert_eq!(
        world.asks(one, "CON GET /ps/data/a observe=0"),
        "ACK 2.05 observe : x"
    );
    assert_eq!(
        world.asks(two, "CON GET /ps/data/a observe=0"),
        "ACK 2.05 : x"
    );
}

#[test]
fn an_observation_keeps_its_format_or_ends() {
    let mut world = World::new();
    let (observer, publisher) = (world.peer(), world.peer());
    world.asks(publisher, "CON PUT /ps/data/a ct=50 : {}");
    assert_eq!(
        world.asks(observer, "CON GET /ps/data/a observe=0 accept=60"),
        "ACK 4.06"
    );
    assert_eq!(world.counts().observers, 0);
    assert_eq!(
        world.asks(observer, "CON GET /ps/data/a observe=0 accept=50"),
        "ACK 2.05 observe ct=50 : {}"
    );
    world.asks(publisher, "CON PUT /ps/data/a : []");
    assert_eq!(
        world.lines(observer),
        ["CON 2.05 observe : []"],
        "nobody said what it is"
    );
    world.asks(publisher, "CON PUT /ps/data/a ct=60 : x");
    assert_eq!(world.lines(observer), ["CON 4.06"]);
    assert_eq!(world.counts().observers, 0);
}

#[test]
fn a_large_value_is_notified_in_blocks_whether_it_is_kept_or_not() {
    for (shards, retain) in [(1, true), (1, false), (3, true), (3, false)] {
        let mut world = World::shards(shards);
        let (observer, app) = (world.peer_on(shards as usize - 1), world.mqtt("app"));
        let text = "0123456789abcdef".repeat(100);
        world.asks(observer, "CON GET /ps/data/a observe=0");
        world.mqtt_says(app, "a", &text, QoS::AtLeastOnce, retain);
        let heard = world.heard(observer);
        let [probe, first] = &heard[..] else {
            panic!("{heard:?} instead of a probe and a notification")
        };
        assert_eq!(
            probe.line(),
            "CON",
            "nothing large goes to a peer of whom nobody knows whether it is there"
        );
        assert!(
            first
                .line()
                .starts_with("CON 2.05 observe block2=0+/1024 size2=1600"),
            "{}",
            first.line()
        );
        assert!(
            first.option(option::ETAG).is_some(),
            "parts of two values must not be put together"
        );
        let rest = world.asks_raw(observer, "CON GET /ps/data/a block2=1/1024");
        assert!(
            rest.line().starts_with("ACK 2.05"),
            "{shards} shards, retain {retain}: {}",
            rest.line()
        );
        assert_eq!(rest.option(option::ETAG), first.option(option::ETAG));
        assert_eq!(
            [&first.payload[..], &rest.payload].concat(),
            text.as_bytes()
        );
        assert_eq!(world.counts().observers, 1);
    }
}

#[test]
fn an_observer_is_asked_once_a_day_whether_it_is_there() {
    let mut world = World::new();
    let (observer, app) = (world.peer(), world.mqtt("app"));
    world.mqtt_says(app, "a", "1", QoS::AtMostOnce, true);
    world.asks(observer, "CON GET /ps/data/a observe=0");
    for _ in 0..25 {
        world.wait(Span::from_secs(3600));
    }
    assert_eq!(world.lines(observer), ["CON 2.05 observe : 1"]);
    world.mqtt_says(app, "a", "2", QoS::AtMostOnce, false);
    assert_eq!(world.lines(observer), ["NON 2.05 observe : 2"]);
    for _ in 0..25 {
        world.wait(Span::from_secs(3600));
    }
    assert_eq!(
        world.lines(observer),
        ["CON 2.05 observe : 2"],
        "what it was told last, kept or not"
    );
    world.set_manner(observer, Manner::Silent);
    for _ in 0..26 {
        world.wait(Span::from_secs(3600));
    }
    assert_eq!(world.counts().observers, 0);
}

#[test]
fn a_peer_that_is_gone_observes_no_more() {
    let mut world = World::new();
    let observer = world.peer();
    world.asks(observer, "CON GET /ps/data/a observe=0");
    world.peer_gone(observer);
    assert_eq!(world.counts().observers, 0);
    let app = world.mqtt("app");
    world.mqtt_says(app, "a", "1", QoS::AtMostOnce, true);
    assert_eq!(world.lines(observer), [""; 0]);
}
