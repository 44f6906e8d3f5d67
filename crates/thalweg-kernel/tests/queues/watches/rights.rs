//! Rights to watch and read.

use super::world::{Event, World, address_at, retained};
use thalweg_kernel::access::{Access, Otherwise, Permission, Permissions, Rule, Rules};
use thalweg_kernel::{
    BindSpec, BindTo, DeadLetter, DropReason, ExchangeKind, ExchangeSpec, Kernel, ListSpec,
    QueueLimits, QueueSpec, WatchEnd, WatchRefused,
};

fn access(rules: Vec<Rule>) -> Access {
    Rules::new(rules, Otherwise::Deny)
        .expect("patterns")
        .compile("client", None)
}

#[test]
fn watching_and_reading_need_the_right_to_subscribe_and_to_receive() {
    let see = Permissions::NONE
        .with(Permission::Subscribe)
        .with(Permission::Receive);
    for (permissions, may) in [
        (see, true),
        (Permission::Subscribe.into(), false),
        (Permission::Receive.into(), false),
    ] {
        let mut world = World::watched(1);
        let reader = world.connect_as(0, access(vec![Rule::allow(permissions, "a")]));
        let writer = world.connect_on(0);
        world.publish(writer, retained("a", "1"));
        assert_eq!(world.read(reader, "a").is_some(), may, "{permissions:?}");
        match world.try_watch(reader, "a", 1) {
            Ok(_) => assert!(may, "{permissions:?}"),
            Err(why) => assert!(!may && why == WatchRefused::Denied, "{permissions:?}"),
        }
        assert_eq!(
            world.try_watch(reader, "b", 1).unwrap_err(),
            WatchRefused::Denied
        );
    }
}

#[test]
fn a_watch_ends_when_its_session_may_not_see_the_address_any_more() {
    let mut world = World::watched(1);
    let (reader, writer) = (world.connect_on(0), world.connect_on(0));
    let (denied, _) = world.begin(reader, "a", 1);
    let (allowed, _) = world.begin(reader, "b", 1);
    world.publish(writer, retained("a", "1"));
    world.publish(writer, retained("b", "1"));
    world.events(reader);
    let rules = access(vec![Rule::allow(Permissions::ALL, "b")]);
    world.run(0, |kernel, _, _| {
        kernel.renew_access(|client, _| {
            if client == "client-0" {
                rules.clone()
            } else {
                Access::ALL
            }
        })
    });
    // Even before the kernel has checked them again, no message is delivered.
    assert_eq!(world.take_all(denied), [""; 0]);
    assert!(world.kernels[0].has_work());
    world.run(0, |kernel, out, now| kernel.work(now, out));
    assert_eq!(
        world.events(reader),
        [Event::Ended(denied.cookie, WatchEnd::NotAuthorized)]
    );
    assert_eq!(world.dropped(DropReason::AccessDenied), 1);
    assert_eq!(world.take_all(allowed), ["1"]);
    assert_eq!(world.kernels[0].totals().watches, 1);
}

#[test]
fn nothing_comes_to_a_watch_whose_session_has_just_lost_the_right() {
    let mut world = World::watched(1);
    let (reader, writer) = (world.connect_on(0), world.connect_on(0));
    let (watch, _) = world.begin(reader, "a", 1);
    world.run(0, |kernel, _, _| {
        kernel.set_access(reader.session, access(Vec::new()))
    });
    world.publish(writer, retained("a", "1"));
    assert_eq!(
        world.events(reader),
        [Event::Ended(watch.cookie, WatchEnd::NotAuthorized)]
    );
}

#[test]
fn a_list_is_full_of_what_its_reader_may_receive() {
    let mut world = World::watched(2);
    let rules = vec![
        Rule::allow(Permission::Subscribe, "a/#"),
        Rule::allow(Permission::Receive, "a/+/open"),
    ];
    let reader = world.connect_as(0, access(rules));
    let writer = world.connect_on(1);
    for number in 0..60 {
        let kind = if number < 40 { "secret" } else { "open" };
        world.publish(writer, retained(&format!("a/{number}/{kind}"), "x"));
    }
    for (max, complete) in [(3, false), (19, false), (20, true), (21, true)] {
        let (values, is_complete) = world.list(reader, "a/#", max).expect("it may");
        assert_eq!(
            (values.len(), is_complete),
            (max.min(20), complete),
            "{max}"
        );
        assert_eq!(values[0], "a/40/open=x");
    }
}

#[test]
fn a_list_holds_only_what_its_reader_may_receive() {
    let mut world = World::watched(2);
    let rules = vec![
        Rule::allow(Permission::Subscribe, "a/#"),
        Rule::allow(Permission::Receive, "a/+/open"),
    ];
    let reader = world.connect_as(0, access(rules));
    let writer = world.connect_on(1);
    for address in ["a/1/open", "a/2/secret", "a/3/open"] {
        world.publish(writer, retained(address, "x"));
    }
    let expected = vec!["a/1/open=x".to_owned(), "a/3/open=x".to_owned()];
    assert_eq!(world.list(reader, "a/#", 100), Some((expected, true)));
    let first = vec!["a/1/open=x".to_owned()];
    assert_eq!(world.list(reader, "a/#", 1), Some((first, false)));
    assert_eq!(world.list(reader, "b/#", 100), None);
    assert_eq!(world.list(reader, "a/#/b", 100), None);
}

/// May see the target of bindings, and of the messages routed there those from `a/public`.
fn narrow() -> Access {
    access(
        ["$x/to/#", "kept", "a/public"]
            .map(|filter| Rule::allow(Permissions::ALL, filter))
            .into(),
    )
}

/// Messages of `a/…` are led to the exchange `to`, and `b/…` die and come to the address `kept`.
fn lay(world: &mut World) {
    let home = world
        .kernels
        .iter()
        .position(Kernel::has_queues)
        .expect("one has them");
    let admin = world.connect_on(home).session;
    let exchange = ExchangeSpec {
        address: "$x/to",
        kind: ExchangeKind::Fanout,
        durable: false,
        auto_delete: false,
        internal: false,
        alternate: None,
    };
    let dead_letter = Some(DeadLetter {
        exchange: "$x/amq.topic".into(),
        key: Some("kept".into()),
    });
    let queue = QueueSpec {
        address: "$q/tmp",
        durable: false,
        exclusive: false,
        is_named_by_broker: false,
        auto_delete: false,
        limits: QueueLimits {
            dead_letter,
            messages_max: Some(0),
            ..QueueLimits::default()
        },
    };
    world.run(home, |kernel, out, now| {
        kernel
            .declare_exchange(admin, &exchange, out)
            .expect("it may");
        kernel
            .declare_queue(admin, &queue, now, out)
            .expect("it may");
        for (to, key) in [
            (BindTo::Exchange("$x/to"), "a.*"),
            (BindTo::Queue("$q/tmp"), "b.*"),
        ] {
            let spec = BindSpec {
                exchange: "$x/amq.topic",
                to,
                key,
                arguments: &[],
            };
            kernel.bind(admin, &spec, out).expect("it may");
        }
    });
}

#[test]
fn a_watcher_is_told_only_of_what_it_may_receive_from_where_that_began() {
    for (depth, expected) in [(1, &["2"][..]), (3, &["1", "2"])] {
        let mut world = World::watched(1);
        lay(&mut world);
        let (reader, writer) = (world.connect_as(0, narrow()), world.connect_on(0));
        let (watch, _) = world.begin(reader, "$x/to/b", depth);
        world.say(writer, "$x/to/b", "1");
        world.say(writer, "$x/to/b", "2");
        world.events(reader);
        assert_eq!(world.take_all(watch), expected);
        // All keys of a fanout exchange are one, but the address is the key's.
        let (watch, _) = world.begin(reader, "$x/to/a.secret", depth);
        world.say(writer, "a/secret", "hidden");
        assert_eq!(world.events(reader), []);
        assert_eq!(world.take_all(watch), [""; 0]);
        let (later, value) = world.begin(reader, "$x/to/a.secret", depth);
        assert_eq!(value, None);
        world.say(writer, "$x/to/a.secret", "open");
        world.say(writer, "a/secret", "hidden");
        let open = if depth == 1 { &[][..] } else { &["open"] };
        assert_eq!(world.take_all(later), open);
        assert_eq!(world.take_all(watch), open);
        let (_, value) = world.begin(writer, "$x/to/a.secret", depth);
        assert_eq!(value.as_deref(), Some("hidden"));
    }
}

#[test]
fn a_value_is_read_only_by_those_who_may_receive_from_where_it_began() {
    for shards in [1, 2] {
        let mut world = World::watched(shards);
        lay(&mut world);
        for shard in 0..usize::from(shards) {
            world.keep_last(shard, "kept", true);
        }
        let writer = world.connect_on(0);
        for shard in 0..usize::from(shards) {
            let (reader, other) = (world.connect_as(shard, narrow()), world.connect_on(shard));
            world.say(writer, "kept", "open");
            assert_eq!(world.read(reader, "kept"), Some(Some("open".into())));
            world.say(writer, "b/secret", "hidden");
            assert_eq!(
                world.read(reader, "kept"),
                Some(None),
                "{shard} of {shards}"
            );
            assert_eq!(world.read(other, "kept"), Some(Some("hidden".into())));
        }
    }
}

#[test]
fn an_answer_under_way_is_judged_by_the_rights_of_its_arrival() {
    let addresses = [1, 2].map(|shard| address_at(shard, 3));
    let mut world = World::watched(3);
    let (reader, writer) = (world.connect_on(0), world.connect_on(0));
    for address in &addresses {
        world.publish(writer, retained(address, "1"));
    }
    world.is_slow = true;
    world.run(0, |kernel, out, now| {
        assert!(kernel.list_last_values(
            reader.session,
            reader.link,
            8,
            ListSpec {
                filter: "a/+",
                max: 9
            },
            now,
            out
        ));
        assert!(kernel.read_last_value(reader.session, reader.link, 9, &addresses[0], now, out));
    });
    while let Some(shard) = world.kernels.iter().position(Kernel::has_work) {
        world.run(shard, |kernel, out, now| kernel.work(now, out));
    }
    // One shard has answered of the list; the other has been asked.
    for way in [(0, 1), (0, 1), (0, 2), (1, 0)] {
        world.carry(way.0, way.1);
    }
    assert_eq!(world.events(reader), []);
    let rules = access(vec![
        Rule::allow(Permissions::ALL, "a/+"),
        Rule::deny(Permission::Receive, &addresses[0]),
    ]);
    world.run(0, |kernel, _, _| {
        kernel.set_access(reader.session, rules);
    });
    world.deliver_mails();
    let listed = vec![format!("{}=1", addresses[1])];
    assert_eq!(
        world.events(reader),
        [Event::Read(9, None), Event::Listed(8, listed, true)]
    );
}
