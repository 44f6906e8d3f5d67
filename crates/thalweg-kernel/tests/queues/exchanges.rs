//! Routing of messages to queues.

use crate::world::{Taking, Terms, Who, World, draft, exchange_spec, firm, headers, q, text, x};
use thalweg_kernel::{
    BindSpec, BindTo, DeadLetter, Deleted, Draft, ExchangeKind, ExchangeSpec, Limits, Outcome,
    Refusal, Subscribed,
};
use thalweg_model::{PropertyValue, Reliability, RetainOp};

/// A world with an exchange `e` of a kind and queues bound with these keys and named by them.
fn with_bindings(kind: ExchangeKind, keys: &[&str]) -> (World, Who) {
    let mut world = World::new();
    let client = world.connect("c");
    world.exchange(client, "e", kind);
    for key in keys {
        world.queue(client, &format!("q{key}"), &Terms::durable());
        world.bind(client, "e", &format!("q{key}"), key);
    }
    (world, client)
}

/// Queues that have the message.
fn arrived(world: &mut World, keys: &[&str]) -> Vec<String> {
    let has = |key: &&&str| !world.drain(&format!("q{key}")).is_empty();
    keys.iter().filter(has).map(|key| key.to_string()).collect()
}

#[test]
fn a_direct_exchange_compares_the_whole_key() {
    let keys = ["a", "a.b", "*", "#", ""];
    let (mut world, client) = with_bindings(ExchangeKind::Direct, &keys);
    for key in keys {
        assert_eq!(world.send(client, "e", key, "m"), Outcome::Accepted);
        assert_eq!(arrived(&mut world, &keys), [key]);
    }
    assert_eq!(world.send(client, "e", "a.", "m"), Outcome::NoMatch);
}

#[test]
fn a_fanout_exchange_compares_nothing() {
    let (mut world, client) = with_bindings(ExchangeKind::Fanout, &["a", "b"]);
    for key in ["", "a", "x.y", "/", "#"] {
        world.send(client, "e", key, "m");
        assert_eq!(arrived(&mut world, &["a", "b"]), ["a", "b"], "{key}");
    }
}

#[test]
fn a_topic_exchange_compares_word_by_word_and_many_words_may_stand_anywhere() {
    let keys = [
        "#", "*", "a.*", "a.#", "#.b", "a.#.b", "*.*", "a.b.c", "#.x.#", "", "*.#", "a..b",
    ];
    let (mut world, client) = with_bindings(ExchangeKind::Topic, &keys);
    for (key, expected) in [
        ("", &["#", "*", "", "*.#"][..]),
        ("a", &["#", "*", "a.#", "*.#"]),
        ("b", &["#", "*", "#.b", "*.#"]),
        ("a.b", &["#", "a.*", "a.#", "#.b", "a.#.b", "*.*", "*.#"]),
        ("a.b.c", &["#", "a.#", "a.b.c", "*.#"]),
        ("a.x.y.b", &["#", "a.#", "#.b", "a.#.b", "#.x.#", "*.#"]),
        ("x", &["#", "*", "#.x.#", "*.#"]),
        ("a..b", &["#", "a.#", "#.b", "a.#.b", "*.#", "a..b"]),
    ] {
        assert_eq!(world.send(client, "e", key, "m"), Outcome::Accepted);
        assert_eq!(arrived(&mut world, &keys), expected, "{key}");
    }
}

#[test]
fn a_queue_that_several_bindings_lead_to_gets_one_copy() {
    let mut world = World::new();
    let client = world.connect("c");
    world.exchange(client, "e", ExchangeKind::Topic);
    world.queue(client, "q", &Terms::durable());
    for key in ["a.*", "#", "a.b", "*.b", "#.b.#"] {
        world.bind(client, "e", "q", key);
    }
    world.send(client, "e", "a.b", "m");
    assert_eq!((world.waits("q"), world.entries_written()), (1, 1));
}

#[test]
fn a_bindings_filter_outlives_the_broker() {
    let mut world = World::new();
    let client = world.connect("c");
    world.exchange(client, "e", ExchangeKind::Topic);
    world.queue(client, "q", &Terms::durable());
    let filter = [text("x-filter", "a = '1' OR a IS NULL AND payload.n > 1")];
    world
        .bind_with(client, "e", "q", "#", &filter)
        .expect("it may");
    let wrong = world.bind_with(client, "e", "q", "#", &[text("x-filter", "a =")]);
    assert!(matches!(wrong, Err(Refusal::Invalid(_))));
    let mut client = client;
    for _ in 0..2 {
        for (a, payload, is_wanted) in [
            (Some("1"), "m", true),
            (Some("2"), "m", false),
            (None, r#"{"n": 2}"#, true),
            (None, r#"{"n": 1}"#, false),
        ] {
            let said: Vec<_> = a.map(|a| ("a", a)).into_iter().collect();
            let outcome = world.send_with(client, "e", "k", payload, Some(&headers(&said)));
            assert_eq!(outcome == Outcome::Accepted, is_wanted, "{a:?} {payload}");
            assert_eq!(world.drain("q").len(), usize::from(is_wanted));
        }
        world.restart();
        client = world.connect("c");
    }
    assert!(world.kernels[0].compares_headers());
    world.delete_queue(client, "q").expect("it may");
    assert!(!world.kernels[0].compares_headers());
}

#[test]
fn a_headers_exchange_compares_properties() {
    let mut world = World::new();
    let client = world.connect("c");
    assert!(!world.kernels[0].compares_headers());
    for (queue, arguments) in [
        (
            "all",
            vec![text("a", "1"), text("b", "2"), text("x-match", "all")],
        ),
        (
            "any",
            vec![text("a", "1"), text("b", "2"), text("x-match", "any")],
        ),
        ("there", vec![("c".into(), PropertyValue::Nothing)]),
        ("default", vec![text("a", "1"), text("x-ignored", "yes")]),
    ] {
        world.queue(client, queue, &Terms::durable());
        world
            .bind_with(client, "amq.headers", queue, "", &arguments)
            .expect("it may");
    }
    assert!(world.kernels[0].compares_headers());
    for (said, expected) in [
        (
            &[("a", "1"), ("b", "2")][..],
            &["all", "any", "default"][..],
        ),
        (&[("a", "1")], &["any", "default"]),
        (&[("b", "2"), ("c", "whatever")], &["any", "there"]),
        (&[("a", "2")], &[]),
    ] {
        let outcome = world.send_with(client, "amq.headers", "key", "m", Some(&headers(said)));
        let arrived: Vec<_> = ["all", "any", "there", "default"]
            .into_iter()
            .filter(|queue| !world.drain(queue).is_empty())
            .collect();
        assert_eq!(arrived, expected, "{said:?}");
        assert_eq!(
            outcome == Outcome::Accepted,
            !expected.is_empty(),
            "{said:?}"
        );
    }
    assert_eq!(world.send(client, "amq.headers", "", "m"), Outcome::NoMatch);
    let wrong = world.bind_with(client, "amq.headers", "all", "", &[text("x-match", "some")]);
    assert!(matches!(wrong, Err(Refusal::Invalid(_))));
    for queue in ["all", "any", "there", "default"] {
        world.delete_queue(client, queue).expect("it may");
    }
    assert!(!world.kernels[0].compares_headers());
}

#[test]
fn the_plain_exchange_is_the_plain_addresses_both_ways() {
    let mut world = World::new();
    let (client, plain) = (world.connect("c"), world.connect("plain"));
    world.queue(client, "q", &Terms::durable());
    world.bind(client, "amq.topic", "q", "a.*");
    let granted = world.subscribe(plain, "a/+", None, Reliability::AtMostOnce);
    assert_eq!(granted, Subscribed::Granted(Reliability::AtMostOnce));
    assert_eq!(
        world.publish(plain, firm("a/b", "from outside")),
        Outcome::Accepted
    );
    assert_eq!(
        world.send(client, "amq.topic", "a.c", "from inside"),
        Outcome::Accepted
    );
    assert_eq!(
        world.send(client, "amq.topic", "b.c", "elsewhere"),
        Outcome::NoMatch
    );
    let shown: Vec<_> = world
        .got(plain)
        .into_iter()
        .map(|got| (got.address, got.text))
        .collect();
    let expected = [
        ("a/b".to_owned(), "from outside".to_owned()),
        ("a/c".to_owned(), "from inside".to_owned()),
    ];
    assert_eq!(shown, expected);
    let queued: Vec<_> = world
        .drain("q")
        .into_iter()
        .map(|got| (got.address, got.text))
        .collect();
    assert_eq!(queued, expected);
}

#[test]
fn a_word_with_a_slash_is_one_level_of_a_plain_address() {
    let mut world = World::new();
    let (client, plain) = (world.connect("c"), world.connect("plain"));
    world.subscribe(plain, "#", None, Reliability::AtMostOnce);
    world.send(client, "amq.topic", "a/b.c", "m");
    let address = world.got(plain)[0].address.clone();
    assert_eq!(address.split('/').count(), 2, "{address}");
    world.queue(client, "q", &Terms::default());
    world.bind(client, "amq.topic", "q", "a/b.*");
    world.publish(plain, draft(&address, "back"));
    assert_eq!(world.drain_texts("q"), ["back"]);
}

#[test]
fn what_is_reserved_does_not_come_through_wide_bindings_of_plain_addresses() {
    let mut world = World::new();
    let client = world.connect("c");
    world.queue(client, "all", &Terms::default());
    world.queue(client, "q", &Terms::default());
    world.bind(client, "amq.topic", "all", "#");
    world.put(client, "q", "m");
    world.send(client, "amq.fanout", "k", "m");
    assert_eq!(world.waits("all"), 0);
}

#[test]
fn a_subscription_to_an_exchange_gets_what_is_published_there() {
    let mut world = World::new();
    let (client, watcher) = (world.connect("c"), world.connect("w"));
    world.exchange(client, "e", ExchangeKind::Topic);
    world.subscribe(watcher, "$x/e/a/#", None, Reliability::AtMostOnce);
    assert_eq!(world.send(client, "e", "a.b", "m"), Outcome::Accepted);
    assert_eq!(world.send(client, "e", "b.a", "n"), Outcome::NoMatch);
    assert_eq!(world.texts(watcher), ["m"]);
}

#[test]
fn an_exchange_leads_to_another_with_the_same_key() {
    let mut world = World::new();
    let client = world.connect("c");
    world.exchange(client, "first", ExchangeKind::Topic);
    world.exchange(client, "second", ExchangeKind::Direct);
    world.queue(client, "q", &Terms::durable());
    world
        .lead(client, "first", "second", "a.#", &[])
        .expect("it may");
    world.bind(client, "second", "q", "a.b");
    assert_eq!(world.send(client, "first", "a.b", "m"), Outcome::Accepted);
    assert_eq!(world.send(client, "first", "a.c", "m"), Outcome::NoMatch);
    assert_eq!(world.send(client, "first", "b.b", "m"), Outcome::NoMatch);
    let got = world.drain("q");
    assert_eq!(
        (got.len(), got[0].address.as_str()),
        (1, "$x/first/a/b"),
        "it tells where it was published"
    );
}

#[test]
fn exchanges_may_lead_in_circles_and_each_queue_gets_one_copy() {
    let mut world = World::new();
    let client = world.connect("c");
    let names = ["e0", "e1", "e2"];
    for name in names {
        world.exchange(client, name, ExchangeKind::Fanout);
        world.queue(client, name, &Terms::durable());
        world.bind(client, name, name, "");
    }
    for (from, to) in [
        ("e0", "e1"),
        ("e1", "e2"),
        ("e2", "e0"),
        ("e0", "e2"),
        ("e1", "e1"),
    ] {
        world.lead(client, from, to, "", &[]).expect("it may");
    }
    world.send(client, "e1", "k", "m");
    for name in names {
        assert_eq!(world.waits(name), 1, "{name}");
    }
}

#[test]
fn an_exchange_may_lead_to_many() {
    let mut world = World::new();
    let client = world.connect("c");
    world.exchange(client, "e", ExchangeKind::Fanout);
    for number in 0..50 {
        let name = format!("n{number}");
        world.exchange(client, &name, ExchangeKind::Fanout);
        world.lead(client, "e", &name, "", &[]).expect("it may");
        world.queue(client, &name, &Terms::default());
        world.bind(client, &name, &name, "");
    }
    world.send(client, "e", "", "m");
    let missing: Vec<_> = (0..50)
        .filter(|number| world.waits(&format!("n{number}")) != 1)
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn a_circle_through_plain_addresses_gives_a_subscriber_one_copy() {
    let mut world = World::new();
    let (client, plain) = (world.connect("c"), world.connect("plain"));
    world.subscribe(plain, "a/b", None, Reliability::AtMostOnce);
    world.exchange(client, "e", ExchangeKind::Topic);
    world
        .lead(client, "amq.topic", "e", "#", &[])
        .expect("it may");
    world
        .lead(client, "e", "amq.topic", "#", &[])
        .expect("it may");
    world.publish(client, firm("a/b", "m"));
    assert_eq!(world.texts(plain), ["m"]);
    world.send(client, "e", "a.b", "n");
    assert_eq!(world.texts(plain), ["n"]);
}

#[test]
fn exchanges_that_compare_headers_may_lead_in_circles() {
    let mut world = World::new();
    let client = world.connect("c");
    world.exchange(client, "h0", ExchangeKind::Headers);
    world.exchange(client, "h1", ExchangeKind::Headers);
    world.queue(client, "q", &Terms::durable());
    world
        .bind_with(client, "h1", "q", "", &[text("a", "1")])
        .expect("it may");
    // Many ways from each to the other.
    for number in 0..12 {
        let arguments = [
            text("a", "1"),
            text("x-match", "any"),
            text(&format!("n{number}"), ""),
        ];
        world
            .lead(client, "h0", "h1", "", &arguments)
            .expect("it may");
        world
            .lead(client, "h1", "h0", "", &arguments)
            .expect("it may");
    }
    let properties = headers(&[("a", "1")]);
    assert_eq!(
        world.send_with(client, "h0", "", "m", Some(&properties)),
        Outcome::Accepted
    );
    assert_eq!(world.waits("q"), 1);
}

#[test]
fn what_nobody_wants_goes_to_the_alternate() {
    let mut world = World::new();
    let client = world.connect("c");
    world.exchange(client, "rest", ExchangeKind::Fanout);
    world.queue(client, "rest", &Terms::durable());
    world.bind(client, "rest", "rest", "");
    let rest = x("rest");
    let middle = ExchangeSpec {
        alternate: Some(&rest),
        ..exchange_spec(ExchangeKind::Direct)
    };
    world
        .declare_exchange(client, "middle", &middle)
        .expect("it may");
    let middle = x("middle");
    let first = ExchangeSpec {
        alternate: Some(&middle),
        ..exchange_spec(ExchangeKind::Topic)
    };
    world
        .declare_exchange(client, "first", &first)
        .expect("it may");
    for (queue, exchange) in [("a", "first"), ("b", "middle")] {
        world.queue(client, queue, &Terms::durable());
        world.bind(client, exchange, queue, queue);
    }
    for (key, expected) in [("a", "a"), ("b", "b"), ("c", "rest")] {
        assert_eq!(world.send(client, "first", key, key), Outcome::Accepted);
        assert_eq!(world.drain_texts(expected), [key]);
    }
    assert_eq!(world.kernels[0].totals().waiting, 0);
}

#[test]
fn what_no_headers_binding_wants_goes_to_the_alternate() {
    let mut world = World::new();
    let client = world.connect("c");
    world.exchange(client, "rest", ExchangeKind::Fanout);
    let rest = x("rest");
    let spec = ExchangeSpec {
        alternate: Some(&rest),
        ..exchange_spec(ExchangeKind::Headers)
    };
    world.declare_exchange(client, "h", &spec).expect("it may");
    for (queue, exchange) in [("rest", "rest"), ("a", "h")] {
        world.queue(client, queue, &Terms::durable());
        world
            .bind_with(client, exchange, queue, "", &[text("a", "1")])
            .expect("it may");
    }
    world.send_with(client, "h", "k", "one", Some(&headers(&[("a", "1")])));
    world.send_with(client, "h", "k", "two", Some(&headers(&[("a", "2")])));
    world.send(client, "h", "k", "none");
    assert_eq!(world.drain_texts("a"), ["one"]);
    assert_eq!(world.drain_texts("rest"), ["two", "none"]);
}

#[test]
fn an_alternate_that_is_not_there_is_no_fault() {
    let mut world = World::new();
    let client = world.connect("c");
    let nowhere = x("nowhere");
    let spec = ExchangeSpec {
        alternate: Some(&nowhere),
        ..exchange_spec(ExchangeKind::Direct)
    };
    world.declare_exchange(client, "e", &spec).expect("it may");
    assert_eq!(world.send(client, "e", "k", "m"), Outcome::NoMatch);
    // Once it is there, it is used.
    world.exchange(client, "nowhere", ExchangeKind::Fanout);
    world.queue(client, "q", &Terms::default());
    world.bind(client, "nowhere", "q", "");
    assert_eq!(world.send(client, "e", "k", "m"), Outcome::Accepted);
}

#[test]
fn alternates_may_lead_in_circles() {
    let mut world = World::new();
    let client = world.connect("c");
    for (name, alternate) in [("a", "b"), ("b", "a")] {
        let alternate = x(alternate);
        let spec = ExchangeSpec {
            alternate: Some(&alternate),
            ..exchange_spec(ExchangeKind::Direct)
        };
        world.declare_exchange(client, name, &spec).expect("it may");
    }
    assert_eq!(world.send(client, "a", "k", "m"), Outcome::NoMatch);
}

#[test]
fn an_internal_exchange_is_published_to_by_exchanges_only() {
    let mut world = World::new();
    let client = world.connect("c");
    let spec = ExchangeSpec {
        internal: true,
        ..exchange_spec(ExchangeKind::Fanout)
    };
    world
        .declare_exchange(client, "inner", &spec)
        .expect("it may");
    world.exchange(client, "outer", ExchangeKind::Fanout);
    world.queue(client, "q", &Terms::default());
    world.bind(client, "inner", "q", "");
    world
        .lead(client, "outer", "inner", "", &[])
        .expect("it may");
    let kernel = &world.kernels[0];
    let mut address = String::new();
    assert_eq!(
        kernel.address_in(&x("inner"), "k", &mut address),
        Err(Refusal::Denied)
    );
    assert_eq!(
        kernel.address_in(&x("none"), "k", &mut address),
        Err(Refusal::NoExchange)
    );
    assert!(matches!(
        kernel.address_in(&x("outer"), &"k".repeat(70_000), &mut address),
        Err(Refusal::Invalid(_))
    ));
    world.send(client, "outer", "", "m");
    assert_eq!(world.waits("q"), 1);
}

#[test]
fn what_is_unbound_comes_no_more() {
    let mut world = World::new();
    let client = world.connect("c");
    world.exchange(client, "e", ExchangeKind::Topic);
    world.queue(client, "q", &Terms::durable());
    world.bind(client, "e", "q", "a.#.b");
    world.bind(client, "e", "q", "x");
    world.send(client, "e", "a.b", "0");
    assert_eq!(world.unbind(client, "e", "q", "a.#.b"), Ok(()));
    assert_eq!(
        world.unbind(client, "e", "q", "a.#.b"),
        Ok(()),
        "it is no fault if there is none"
    );
    assert_eq!(world.send(client, "e", "a.b", "1"), Outcome::NoMatch);
    assert_eq!(world.send(client, "e", "x", "2"), Outcome::Accepted);
    assert_eq!(world.drain_texts("q"), ["0", "2"]);
    assert_eq!(
        world.unbind(client, "none", "q", ""),
        Err(Refusal::NoExchange)
    );
    assert_eq!(world.unbind(client, "e", "none", ""), Err(Refusal::NoQueue));
}

#[test]
fn an_exchange_deletes_itself_with_its_last_binding() {
    let mut world = World::new();
    let client = world.connect("c");
    let spec = ExchangeSpec {
        auto_delete: true,
        ..exchange_spec(ExchangeKind::Fanout)
    };
    for (round, exchange) in ["e0", "e1"].into_iter().enumerate() {
        world
            .declare_exchange(client, exchange, &spec)
            .expect("it may");
        world.queue(client, "q", &Terms::durable());
        world.bind(client, exchange, "q", "a");
        world.bind(client, exchange, "q", "b");
        world.unbind(client, exchange, "q", "a").expect("it may");
        assert!(
            world.kernels[0]
                .inspect_exchange(client.session, &x(exchange))
                .is_ok()
        );
        if round == 0 {
            world.unbind(client, exchange, "q", "b").expect("it may");
        }
        world.delete_queue(client, "q").expect("it may");
        let gone = world.kernels[0].inspect_exchange(client.session, &x(exchange));
        assert_eq!(gone, Err(Refusal::NoExchange));
    }
    assert_eq!(world.groups_written(), 0);
}

#[test]
fn a_deleted_exchange_takes_its_bindings_from_both_sides_along() {
    let mut world = World::new();
    let client = world.connect("c");
    for name in ["a", "b", "c"] {
        world.exchange(client, name, ExchangeKind::Fanout);
    }
    world.queue(client, "q", &Terms::durable());
    world.lead(client, "a", "b", "", &[]).expect("it may");
    world.lead(client, "b", "c", "", &[]).expect("it may");
    world.lead(client, "b", "b", "", &[]).expect("it may");
    world.bind(client, "c", "q", "");
    world.bind(client, "b", "q", "");
    let delete = |world: &mut World, name: &str, unused| {
        world.run(0, |kernel, out, _| {
            kernel.delete_exchange(client.session, &x(name), unused, out)
        })
    };
    assert_eq!(delete(&mut world, "b", true), Err(Refusal::InUse));
    assert_eq!(delete(&mut world, "b", false), Ok(()));
    assert_eq!(delete(&mut world, "b", false), Err(Refusal::NoExchange));
    assert_eq!(
        delete(&mut world, "amq.topic", false),
        Err(Refusal::Reserved)
    );
    assert_eq!(world.send(client, "a", "", "m"), Outcome::NoMatch);
    assert_eq!(world.send(client, "c", "", "m"), Outcome::Accepted);
    // Queue, two exchanges, one binding.
    assert_eq!(world.groups_written(), 4);
    // It may begin anew, without what it had.
    world.exchange(client, "b", ExchangeKind::Direct);
    assert_eq!(world.send(client, "b", "", "m"), Outcome::NoMatch);
}

#[test]
fn a_remembered_route_is_forgotten_when_a_binding_behind_it_changes() {
    let mut world = World::new();
    let client = world.connect("c");
    for name in ["a", "b", "c"] {
        world.exchange(client, name, ExchangeKind::Fanout);
        world.queue(client, name, &Terms::default());
    }
    world.lead(client, "a", "b", "", &[]).expect("it may");
    world.lead(client, "b", "c", "", &[]).expect("it may");
    assert_eq!(world.send(client, "a", "", "m"), Outcome::NoMatch);
    world.bind(client, "c", "c", "");
    assert_eq!(world.send(client, "a", "", "m"), Outcome::Accepted);
    world.unbind(client, "c", "c", "").expect("it may");
    assert_eq!(world.send(client, "a", "", "m"), Outcome::NoMatch);
    let plain = world.connect("plain");
    world
        .lead(client, "c", "amq.topic", "", &[])
        .expect("it may");
    assert_eq!(world.send(client, "a", "k", "m"), Outcome::NoMatch);
    world.subscribe(plain, "k", None, Reliability::AtMostOnce);
    assert_eq!(world.send(client, "a", "k", "m"), Outcome::Accepted);
    assert_eq!(world.texts(plain), ["m"]);
}

#[test]
fn queues_are_found_under_their_own_addresses() {
    let mut world = World::new();
    let client = world.connect("c");
    world.queue(client, "q", &Terms::default());
    world.consume(client, "q", 1, Taking::default());
    assert_eq!(
        world.publish(client, draft(&q("q"), "m")),
        Outcome::Accepted
    );
    assert_eq!(world.publish(client, draft(&q("Q"), "m")), Outcome::NoMatch);
    assert_eq!(world.texts(client), ["m"]);
}

#[test]
fn no_way_leads_to_where_the_broker_alone_publishes() {
    let mut world = World::with(
        1,
        Limits {
            presence: true,
            ..Limits::default()
        },
    );
    let client = world.connect("c");
    world.queue(client, "q", &Terms::durable());
    world.bind(client, "amq.topic", "q", "$presence.#");
    world.exchange(client, "in", ExchangeKind::Topic);
    world
        .lead(client, "in", "amq.topic", "#", &[])
        .expect("that is no address");
    world.exchange(client, "compares", ExchangeKind::Headers);
    world
        .lead(
            client,
            "compares",
            "amq.topic",
            "",
            &[text("x-match", "all")],
        )
        .expect("nor is that");
    let to = DeadLetter {
        exchange: x("amq.topic").into(),
        key: None,
    };
    world.queue(
        client,
        "dying",
        &Terms::durable().with(|limits| limits.dead_letter = Some(to)),
    );
    world.bind(client, "in", "dying", "$presence.pump");
    for exchange in ["in", "compares", "amq.topic"] {
        world.send(client, exchange, "$presence.pump", "online");
        assert_eq!(world.waits("q"), 0, "{exchange}");
    }
    world.consume(client, "dying", 1, Taking::default());
    world.reject(client, 1);
    assert_eq!((world.waits("q"), world.waits("dying")), (0, 0));
    // The way is there for others.
    world.send(client, "in", "elsewhere", "m");
    world.bind(client, "amq.topic", "q", "elsewhere");
    world.send(client, "in", "elsewhere", "m");
    assert_eq!(world.waits("q"), 1);
}

#[test]
fn many_keys_of_one_queue_are_bound_and_unbound_without_looking_at_all_of_them() {
    const KEYS: usize = 30_000;
    let (mut world, client) = with_bindings(ExchangeKind::Direct, &[]);
    world.queue(client, "q", &Terms::durable());
    let count = |world: &World| {
        let mut count = 0;
        world.kernels[0].for_each_exchange(|exchange| count += exchange.bindings.len());
        count
    };
    // Looked for one by one this takes 900 million comparisons, and so does the end of the queue.
    for key in (0..KEYS).chain(0..KEYS) {
        world.bind(client, "e", "q", &key.to_string());
    }
    assert_eq!(count(&world), KEYS);
    let address = q("q");
    let deleted = world.run(0, |kernel, out, now| {
        kernel.delete_queue(client.session, &address, false, false, now, out)
    });
    assert_eq!((deleted, count(&world)), (Ok(Deleted::Gone(0)), 0));
}

#[test]
fn last_values_come_into_a_queue_a_few_at_a_time() {
    const VALUES: usize = 1_000;
    let (mut world, client) = with_bindings(ExchangeKind::Topic, &[]);
    world.queue(client, "q", &Terms::durable());
    for number in 0..VALUES {
        let address = format!("{}/v/{number}", x("e"));
        let value = Draft {
            retain: RetainOp::Set,
            ..firm(&address, "m")
        };
        world.publish(client, value);
    }
    let (queue, exchange) = (q("q"), x("e"));
    // Straight to the kernel: the world has it work until nothing is left.
    let recall = |world: &mut World| {
        world.kernels[0]
            .recall(
                client.session,
                &BindSpec {
                    exchange: &exchange,
                    to: BindTo::Queue(&queue),
                    key: "#",
                    arguments: &[],
                },
                world.now,
                &mut world.out,
            )
            .expect("it may")
    };
    recall(&mut world);
    let mut came = vec![world.waits("q")];
    while world.kernels[0].has_work() {
        if came.len() == 2 {
            // Asked for again on its way, it begins anew and not beside.
            recall(&mut world);
        }
        world.kernels[0].work(world.now, &mut world.out);
        came.push(world.waits("q"));
    }
    let largest = came.windows(2).map(|pair| pair[1] - pair[0]).max();
    assert!(came[0] <= 64 && largest <= Some(5 * 64), "{came:?}");
    let all = came.last().copied().unwrap_or_default();
    assert!((VALUES..VALUES + 6 * 64).contains(&all), "{came:?}");
}
