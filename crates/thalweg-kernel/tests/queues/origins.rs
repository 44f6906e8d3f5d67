//! A message keeps its original address on every path, and no client gets it that may not receive from there.

use crate::world::{Taking, Terms, Who, World, exchange_spec, firm, headers, q, text, x};
use thalweg_kernel::access::{Access, Otherwise, Permissions, Rule, Rules};
use thalweg_kernel::{DeadLetter, Draft, ExchangeKind, ExchangeSpec, Limits, Outcome, Subscribed};
use thalweg_model::{Reliability, Span};

/// Paths of a message from `a/secret` to the exchange `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Binding,
    ComparingBinding,
    TwoBindings,
    Alternate,
    ComparedAlternate,
    DeadLetter,
    NewcomersDeadLetter,
}

const WAYS: [Way; 7] = [
    Way::Binding,
    Way::ComparingBinding,
    Way::TwoBindings,
    Way::Alternate,
    Way::ComparedAlternate,
    Way::DeadLetter,
    Way::NewcomersDeadLetter,
];

/// Receivers after the exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Behind {
    Subscription,
    Away,
    Group,
    GroupOfLines,
    Queue,
}

const BEHIND: [Behind; 5] = [
    Behind::Subscription,
    Behind::Away,
    Behind::Group,
    Behind::GroupOfLines,
    Behind::Queue,
];

/// May read from the exchange `to`, and public addresses.
fn narrow() -> Access {
    let mut rules: Vec<Rule> = ["$x/to/#", "a/public"]
        .map(|what| Rule::allow(Permissions::READ, what))
        .into();
    rules.push(Rule::allow(Permissions::ALL, "$q/out"));
    Rules::new(rules, Otherwise::Deny)
        .expect("legal")
        .compile("reader", None)
}

/// Whither a message goes first: the exchange and the key that are the address `a/<what>`, or that stand for it.
fn lay(world: &mut World, way: Way) -> Who {
    let admin = world.connect("admin");
    world.exchange(admin, "to", ExchangeKind::Topic);
    let to = x("to");
    match way {
        Way::Binding => world
            .lead(admin, "amq.topic", "to", "a.*", &[])
            .expect("it may"),
        Way::TwoBindings => {
            world.exchange(admin, "between", ExchangeKind::Topic);
            world
                .lead(admin, "amq.topic", "between", "a.*", &[])
                .expect("it may");
            world
                .lead(admin, "between", "to", "#", &[])
                .expect("it may");
        }
        Way::ComparingBinding => {
            world.exchange(admin, "a", ExchangeKind::Headers);
            world
                .lead(admin, "a", "to", "", &[text("k", "v")])
                .expect("it may");
        }
        Way::Alternate => {
            let spec = ExchangeSpec {
                alternate: Some(&to),
                ..exchange_spec(ExchangeKind::Direct)
            };
            world.declare_exchange(admin, "a", &spec).expect("it may");
        }
        Way::ComparedAlternate => {
            let spec = ExchangeSpec {
                alternate: Some(&to),
                ..exchange_spec(ExchangeKind::Headers)
            };
            world.declare_exchange(admin, "a", &spec).expect("it may");
            world.queue(admin, "other", &Terms::default());
            world
                .bind_with(admin, "a", "other", "", &[text("k", "other")])
                .expect("it may");
        }
        Way::DeadLetter | Way::NewcomersDeadLetter => {
            let terms = Terms::durable().with(|limits| {
                limits.dead_letter = Some(DeadLetter {
                    exchange: to.into(),
                    key: None,
                });
                limits.messages_max = (way == Way::NewcomersDeadLetter).then_some(0);
                limits.message_ttl = (way == Way::DeadLetter).then_some(Span::from_millis(5));
            });
            world.queue(admin, "tmp", &terms);
            world.bind(admin, "amq.topic", "tmp", "a.*");
        }
    }
    admin
}

/// Where a message is published that is to come to `to`; `what` is its last level.
fn start(way: Way, what: &str) -> String {
    match way {
        Way::ComparingBinding | Way::Alternate | Way::ComparedAlternate => {
            format!("{}/{what}", x("a"))
        }
        _ => format!("a/{what}"),
    }
}

fn wait_behind(world: &mut World, behind: Behind, shard: usize, name: &str, access: Access) -> Who {
    let expiry = if behind == Behind::Away {
        Span::from_secs(60)
    } else {
        Span::ZERO
    };
    let who = world.connect_with(shard, name, access, expiry);
    let once = Reliability::AtLeastOnce;
    let filter = format!("{}/#", x("to"));
    match behind {
        Behind::Subscription | Behind::Away => {
            assert_eq!(
                world.subscribe(who, &filter, None, once),
                Subscribed::Granted(once)
            );
        }
        Behind::Group => assert_eq!(
            world.subscribe(who, &filter, Some("g"), once),
            Subscribed::Granted(once)
        ),
        Behind::GroupOfLines => {
            world
                .consume_from(who, &format!("$g/g/{filter}"), 1, Taking::default())
                .expect("it may");
        }
        Behind::Queue => {
            world.consume(who, "out", 1, Taking::default());
        }
    }
    who
}

/// Messages at a reader with these rights: one from an address that it may not read and one from an address that it
/// may.
fn comes(way: Way, behind: Behind, shards: u16, access: Access) -> Vec<String> {
    let mut world = World::with(shards, Limits::default());
    let home = world.home();
    let admin = lay(&mut world, way);
    if behind == Behind::Queue {
        world.queue(admin, "out", &Terms::durable());
        world.bind(admin, "to", "out", "#");
    }
    let uses_lines = matches!(behind, Behind::GroupOfLines | Behind::Queue);
    let shard = if uses_lines {
        home
    } else {
        shards as usize - 1 - home
    };
    let name = world.name_on(shard);
    let reader = wait_behind(&mut world, behind, shard, &name, access.clone());
    if behind == Behind::Away {
        world.lose(reader);
    }
    let publisher_name = world.name_on(0);
    let publisher = world.connect_with(0, &publisher_name, Access::ALL, Span::ZERO);
    let properties = headers(&[("k", "v")]);
    for what in ["secret", "public"] {
        let address = start(way, what);
        let matching = if way == Way::ComparedAlternate {
            None
        } else {
            Some(&properties)
        };
        let outcome = world.publish(
            publisher,
            Draft {
                properties: matching,
                ..firm(&address, what)
            },
        );
        assert_eq!(outcome, Outcome::Accepted, "{way:?} {behind:?}");
    }
    world.wait(Span::from_millis(10));
    let reader = match behind {
        Behind::Away => world.connect_with(shard, &name, access, Span::from_secs(60)),
        _ => reader,
    };
    let mut texts = Vec::new();
    loop {
        let got = world.got(reader);
        if got.is_empty() {
            return texts;
        }
        for got in got {
            match got.is_delivery {
                true => drop(world.settle_delivery(reader, got.tag)),
                false => world.ack(reader, got.tag),
            }
            texts.push(got.text);
        }
    }
}

#[test]
fn whichever_way_a_message_goes_only_those_get_it_who_may_receive_from_where_it_began() {
    for way in WAYS {
        for behind in BEHIND {
            for shards in [1, 2] {
                // With addresses in an exchange, that exchange's public key is what may be read.
                let mut rules = vec![Rule::allow(Permissions::READ, "$x/a/public")];
                rules.extend([
                    Rule::allow(Permissions::READ, "$x/to/#"),
                    Rule::allow(Permissions::READ, "a/public"),
                ]);
                rules.push(Rule::allow(Permissions::ALL, "$q/out"));
                let access = Rules::new(rules, Otherwise::Deny)
                    .expect("legal")
                    .compile("reader", None);
                assert_eq!(
                    comes(way, behind, shards, access),
                    ["public"],
                    "{way:?} {behind:?} {shards}"
                );
                let all = comes(way, behind, shards, Access::ALL);
                assert_eq!(all, ["secret", "public"], "{way:?} {behind:?} {shards}");
            }
        }
    }
}

#[test]
fn an_address_to_which_a_message_was_published_as_well_is_judged_alone() {
    let mut world = World::new();
    let (admin, reader) = (
        world.connect("admin"),
        world.connect_with(0, "reader", narrow(), Span::ZERO),
    );
    world.exchange(admin, "to", ExchangeKind::Topic);
    world.queue(admin, "q", &Terms::default());
    world.subscribe(
        reader,
        &format!("{}/k", x("to")),
        None,
        Reliability::AtLeastOnce,
    );
    let (first, others) = (q("q"), [format!("{}/k", x("to"))]);
    world.run(0, |kernel, out, now| {
        kernel.publish_to_all(admin.session, firm(&first, "m"), &others, now, out)
    });
    assert_eq!(
        world.texts(reader),
        ["m"],
        "its publisher meant it for both"
    );
}

#[test]
fn an_address_to_which_a_message_was_published_as_well_and_is_led_gets_one_copy() {
    let mut world = World::new();
    let (admin, reader) = (world.connect("admin"), world.connect("reader"));
    world.exchange(admin, "compares", ExchangeKind::Headers);
    world.exchange(admin, "back", ExchangeKind::Fanout);
    world
        .lead(admin, "compares", "back", "", &[text("k", "v")])
        .expect("it may");
    world
        .lead(admin, "back", "compares", "", &[])
        .expect("it may");
    let [first, second] = ["first", "second"].map(|key| format!("{}/{key}", x("compares")));
    world.subscribe(reader, &second, None, Reliability::ExactlyOnce);
    let properties = headers(&[("k", "v")]);
    let draft = Draft {
        properties: Some(&properties),
        ..firm(&first, "m")
    };
    let others = [second.clone()];
    world.run(0, |kernel, out, now| {
        kernel.publish_to_all(admin.session, draft, &others, now, out)
    });
    assert_eq!(world.texts(reader), ["m"]);
}

#[test]
fn what_was_redirected_keeps_its_origin_over_a_restart() {
    for access in [
        (|_, _| narrow()) as fn(&str, Option<&str>) -> Access,
        |_, _| Access::ALL,
    ] {
        let mut world = World::new();
        let admin = world.connect("admin");
        world.exchange(admin, "to", ExchangeKind::Topic);
        world
            .lead(admin, "amq.topic", "to", "a.*", &[])
            .expect("it may");
        let reader = world.connect_with(0, "reader", Access::ALL, Span::from_secs(60));
        world.subscribe(
            reader,
            &format!("{}/#", x("to")),
            None,
            Reliability::AtLeastOnce,
        );
        world.lose(reader);
        world.publish(admin, firm("a/secret", "secret"));
        world.renew(access);
        world.restart();
        let rights = access("reader", None);
        let expected = if rights.is_allow_all() {
            &["secret"][..]
        } else {
            &[]
        };
        let reader = world.connect_with(0, "reader", rights, Span::from_secs(60));
        assert_eq!(world.texts(reader), expected);
    }
}

#[test]
fn who_wants_none_of_its_own_gets_none_by_a_detour() {
    let mut world = World::new();
    let (admin, other) = (world.connect("admin"), world.connect("other"));
    world.exchange(admin, "to", ExchangeKind::Topic);
    world
        .lead(admin, "amq.topic", "to", "a.*", &[])
        .expect("it may");
    let taking = Taking {
        no_local: true,
        ..Taking::default()
    };
    world
        .consume_from(admin, &format!("$g/g/{}/#", x("to")), 1, taking)
        .expect("it may");
    world.publish(admin, firm("a/b", "its own"));
    world.publish(other, firm("a/b", "another's"));
    assert_eq!(world.texts(admin), ["another's"]);
}
