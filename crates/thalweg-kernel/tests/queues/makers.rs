//! Bindings and redirections have their maker's current rights, and no more.

use crate::world::{Terms, Who, World, exchange_spec, firm, headers, text, to_queue, x};
use thalweg_kernel::access::Permission::{Configure, Publish, Receive, Subscribe};
use thalweg_kernel::access::{Access, Otherwise, Permissions, Rule, Rules};
use thalweg_kernel::{DeadLetter, Draft, ExchangeKind, ExchangeSpec, Outcome, Refusal};
use thalweg_model::{Reliability, Span};
use thalweg_records::Record;

/// Objects made by a client called `maker` that lead from `from/…` to the queue `end`, which another user owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Made {
    Binding,
    ComparingBinding,
    BindingBetweenExchanges,
    ComparingBindingBetweenExchanges,
    Alternate,
    ComparedAlternate,
    DeadLetterExchange,
    DeadLetterQueue,
    DeadLetterOfNewcomers,
}

const ALL: [Made; 9] = [
    Made::Binding,
    Made::ComparingBinding,
    Made::BindingBetweenExchanges,
    Made::ComparingBindingBetweenExchanges,
    Made::Alternate,
    Made::ComparedAlternate,
    Made::DeadLetterExchange,
    Made::DeadLetterQueue,
    Made::DeadLetterOfNewcomers,
];

fn compile(rules: &[Rule], otherwise: Otherwise) -> Access {
    Rules::new(rules.to_vec(), otherwise)
        .expect("legal")
        .compile("maker", None)
}

/// The maker may do this, and others everything.
fn unless_maker(client: &str, rules: &[Rule]) -> Access {
    if client == "maker" {
        compile(rules, Otherwise::Allow)
    } else {
        Access::ALL
    }
}

fn no_publish(client: &str, _: Option<&str>) -> Access {
    let targets = ["$x/end/#", "$q/end"].map(|target| Rule::deny(Publish, target));
    unless_maker(client, &targets)
}

fn no_publish_of_part(client: &str, _: Option<&str>) -> Access {
    unless_maker(client, &[Rule::deny(Publish, "$x/end/secret")])
}

fn no_subscribe(client: &str, _: Option<&str>) -> Access {
    unless_maker(client, &[Rule::deny(Subscribe, "$x/from/#")])
}

fn no_receive_of_part(client: &str, _: Option<&str>) -> Access {
    unless_maker(client, &[Rule::deny(Receive, "$x/from/secret")])
}

fn everything(_: &str, _: Option<&str>) -> Access {
    Access::ALL
}

/// Lays what leads from exchange `from` to exchange `end`, behind which is queue `end`.
fn lay(world: &mut World, made: Made) {
    let admin = world.connect("admin");
    world.queue(admin, "end", &Terms::durable());
    world.exchange(admin, "end", ExchangeKind::Topic);
    world.bind(admin, "end", "end", "#");
    let maker = world.connect("maker");
    let end = x("end");
    let compared = [text("k", "v")];
    match made {
        Made::Binding | Made::BindingBetweenExchanges => {
            world.exchange(admin, "from", ExchangeKind::Topic)
        }
        Made::ComparingBinding | Made::ComparingBindingBetweenExchanges => {
            world.exchange(admin, "from", ExchangeKind::Headers);
        }
        Made::Alternate | Made::ComparedAlternate => {
            let kind = if made == Made::Alternate {
                ExchangeKind::Direct
            } else {
                ExchangeKind::Headers
            };
            let spec = ExchangeSpec {
                alternate: Some(&end),
                ..exchange_spec(kind)
            };
            world
                .declare_exchange(maker, "from", &spec)
                .expect("it may");
            if made == Made::ComparedAlternate {
                world.queue(admin, "other", &Terms::durable());
                world
                    .bind_with(admin, "from", "other", "", &[text("k", "other")])
                    .expect("it may");
            }
        }
        Made::DeadLetterExchange | Made::DeadLetterQueue | Made::DeadLetterOfNewcomers => {
            let terms = Terms::durable().with(|limits| {
                limits.dead_letter = match made {
                    Made::DeadLetterQueue => to_queue("end"),
                    _ => Some(DeadLetter {
                        exchange: end.into(),
                        key: None,
                    }),
                };
                limits.message_ttl =
                    (made != Made::DeadLetterOfNewcomers).then_some(Span::from_millis(5));
                limits.messages_max = (made == Made::DeadLetterOfNewcomers).then_some(0);
            });
            world.queue(maker, "tmp", &terms);
            world.exchange(admin, "from", ExchangeKind::Topic);
            world.bind(admin, "from", "tmp", "#");
        }
    }
    match made {
        Made::Binding => world.bind(maker, "from", "end", "#"),
        Made::ComparingBinding => world
            .bind_with(maker, "from", "end", "", &compared)
            .expect("it may"),
        Made::BindingBetweenExchanges => {
            world.lead(maker, "from", "end", "#", &[]).expect("it may")
        }
        Made::ComparingBindingBetweenExchanges => {
            world
                .lead(maker, "from", "end", "", &compared)
                .expect("it may");
        }
        _ => {}
    }
    world.lose(maker);
}

/// Messages at the end, published with the keys `secret` and `open`.
fn comes(world: &mut World) -> Vec<String> {
    let publisher = world.connect("publisher");
    let properties = headers(&[("k", "v")]);
    for key in ["secret", "open"] {
        let address = format!("{}/{key}", x("from"));
        world.publish(
            publisher,
            Draft {
                properties: Some(&properties),
                ..firm(&address, key)
            },
        );
    }
    world.lose(publisher);
    world.wait(Span::from_millis(10));
    world.drain_texts("end")
}

const BOTH: [&str; 2] = ["secret", "open"];

/// Whether rights to publish where it leads are what it needs.
fn leads(made: Made) -> bool {
    !matches!(made, Made::Binding | Made::ComparingBinding)
}

/// Whether it receives: a place for dead letters or an alternate gets what is its own already.
fn receives(made: Made) -> bool {
    use Made::{
        Binding, BindingBetweenExchanges, ComparingBinding, ComparingBindingBetweenExchanges,
    };
    matches!(
        made,
        Binding | BindingBetweenExchanges | ComparingBinding | ComparingBindingBetweenExchanges
    )
}

#[test]
fn rules_that_change_stop_what_stands_and_let_it_go_on() {
    for made in ALL {
        for is_restarted in [false, true] {
            let mut world = World::new();
            lay(&mut world, made);
            assert_eq!(comes(&mut world), BOTH, "{made:?}");
            let none: &[&str] = &[];
            for (access, expected) in [
                (
                    no_publish as fn(&str, Option<&str>) -> Access,
                    if leads(made) { none } else { &BOTH },
                ),
                (everything, &BOTH),
                (no_subscribe, if receives(made) { none } else { &BOTH }),
                (
                    no_receive_of_part,
                    if receives(made) { &["open"] } else { &BOTH },
                ),
                (
                    no_publish_of_part,
                    match made {
                        // The only key of these is the queue's name.
                        Made::DeadLetterQueue => &BOTH,
                        _ if leads(made) => &["open"],
                        _ => &BOTH,
                    },
                ),
            ] {
                world.renew(access);
                if is_restarted {
                    world.restart();
                }
                assert_eq!(
                    comes(&mut world),
                    expected,
                    "{made:?}, restarted: {is_restarted}"
                );
            }
        }
    }
}

#[test]
fn a_dead_letter_that_may_not_go_where_it_should_is_a_publish_refused() {
    for made in [
        Made::DeadLetterExchange,
        Made::DeadLetterQueue,
        Made::DeadLetterOfNewcomers,
    ] {
        let mut world = World::new();
        lay(&mut world, made);
        world.renew(no_publish);
        assert_eq!(comes(&mut world), [""; 0]);
        let ledger = world.kernels[0].ledger();
        assert_eq!((ledger.own, ledger.refused), (2, 2), "{made:?}");
        assert_eq!(
            world.entries_written(),
            0,
            "it is forgotten in the journal, too"
        );
    }
}

#[test]
fn what_a_revoked_binding_wanted_goes_to_the_alternate() {
    let mut world = World::new();
    let (admin, maker) = (world.connect("admin"), world.connect("maker"));
    for queue in ["bound", "alternate"] {
        world.queue(admin, queue, &Terms::durable());
    }
    world.exchange(admin, "else", ExchangeKind::Fanout);
    world.bind(admin, "else", "alternate", "");
    let alternate = x("else");
    let spec = ExchangeSpec {
        alternate: Some(&alternate),
        ..exchange_spec(ExchangeKind::Topic)
    };
    world
        .declare_exchange(admin, "from", &spec)
        .expect("it may");
    world.bind(maker, "from", "bound", "#");
    world.send(admin, "from", "secret", "1");
    world.renew(no_subscribe);
    world.send(admin, "from", "secret", "2");
    assert_eq!(
        (world.drain_texts("bound"), world.drain_texts("alternate")),
        (vec!["1".into()], vec!["2".into()])
    );
}

/// Makes the parts of `made` again, as another user.
fn make_again(world: &mut World, made: Made, who: Who) {
    let end = x("end");
    match made {
        Made::Binding => world.bind(who, "from", "end", "#"),
        Made::ComparingBinding => world
            .bind_with(who, "from", "end", "", &[text("k", "v")])
            .expect("it may"),
        Made::BindingBetweenExchanges => world.lead(who, "from", "end", "#", &[]).expect("it may"),
        Made::ComparingBindingBetweenExchanges => {
            world
                .lead(who, "from", "end", "", &[text("k", "v")])
                .expect("it may");
        }
        Made::Alternate | Made::ComparedAlternate => {
            let kind = if made == Made::Alternate {
                ExchangeKind::Direct
            } else {
                ExchangeKind::Headers
            };
            let spec = ExchangeSpec {
                alternate: Some(&end),
                ..exchange_spec(kind)
            };
            world.declare_exchange(who, "from", &spec).expect("it may");
        }
        Made::DeadLetterExchange | Made::DeadLetterQueue | Made::DeadLetterOfNewcomers => {
            let limits = world.view("tmp").expect("it is there").limits;
            world
                .declare(
                    who,
                    "tmp",
                    &Terms {
                        limits,
                        ..Terms::durable()
                    },
                )
                .expect("it may");
        }
    }
}

#[test]
fn who_may_makes_again_what_its_maker_may_not_any_more() {
    for made in ALL {
        let mut world = World::new();
        lay(&mut world, made);
        world.renew(|client, _| {
            let rules = ["$x/end/#", "$q/end"].map(|target| Rule::deny(Publish, target));
            let deaf = [Rule::deny(Receive, "$x/from/#")];
            unless_maker(client, &[&rules[..], &deaf].concat())
        });
        assert_eq!(comes(&mut world), [""; 0], "{made:?}");
        let other = world.connect("other");
        make_again(&mut world, made, other);
        assert_eq!(comes(&mut world), BOTH, "{made:?}");
        world.restart();
        assert_eq!(comes(&mut world), BOTH, "{made:?}");
        // A user with fewer rights does not remove it.
        let maker = world.connect("maker");
        world.renew(no_receive_of_part);
        let _ = world.declare(maker, "tmp", &Terms::durable());
        let spec = exchange_spec(ExchangeKind::Topic);
        let _ = world.declare_exchange(maker, "from", &spec);
        assert_eq!(comes(&mut world), BOTH, "{made:?}");
    }
}

#[test]
fn a_binding_to_a_queue_that_its_maker_may_not_bind_any_more_is_taken_over() {
    let mut world = World::new();
    lay(&mut world, Made::Binding);
    world.renew(|client, _| unless_maker(client, &[Rule::deny(Permissions::ALL, "$q/end")]));
    assert_eq!(comes(&mut world), [""; 0]);
    let other = world.connect("other");
    make_again(&mut world, Made::Binding, other);
    assert_eq!(comes(&mut world), BOTH);
}

#[test]
fn new_credentials_hold_for_what_was_made_before() {
    let mut world = World::new();
    let (admin, maker) = (world.connect("admin"), world.connect("maker"));
    world.queue(admin, "end", &Terms::durable());
    world.exchange(admin, "from", ExchangeKind::Topic);
    world.bind(maker, "from", "end", "#");
    world.run(0, |kernel, _, _| {
        kernel.set_access(maker.session, compile(&[], Otherwise::Deny))
    });
    assert_eq!(world.send(admin, "from", "k", "m"), Outcome::NoMatch);
    world.run(0, |kernel, _, _| {
        kernel.set_access(maker.session, Access::ALL)
    });
    assert_eq!(world.send(admin, "from", "k", "m"), Outcome::Accepted);
}

#[test]
fn rules_that_a_maker_brought_itself_stay_over_reloads_and_restarts() {
    let mut world = World::new();
    let admin = world.connect("admin");
    world.queue(admin, "end", &Terms::durable());
    world.exchange(admin, "from", ExchangeKind::Topic);
    let rules = [
        Rule::allow(Permissions::from(Publish).with(Configure), "$q/end"),
        Rule::allow(Subscribe, "$x/from/#"),
        Rule::allow(Receive, "$x/from/open"),
    ];
    let own = Rules::new(rules.to_vec(), Otherwise::Deny)
        .expect("legal")
        .into_own()
        .compile("maker", None);
    let maker = world.connect_with(0, "maker", own, Span::ZERO);
    world.bind(maker, "from", "end", "#");
    for access in [everything as fn(&str, Option<&str>) -> Access, |_, _| {
        compile(&[], Otherwise::Deny)
    }] {
        world.renew(access);
        assert_eq!(comes(&mut world), ["open"]);
        world.restart();
        assert_eq!(comes(&mut world), ["open"]);
    }
}

#[test]
fn what_was_declared_before_makers_were_written_down_stands() {
    let mut world = World::new();
    let mut bytes = Vec::new();
    let number = |at: u64| at << 16;
    for (at, name, filter) in [
        (
            1,
            "/exchange",
            "address=$x/from\nkind=2\nauto-delete=0\ninternal=0\nalternate=$x/end",
        ),
        (
            2,
            "/exchange",
            "address=$x/end\nkind=2\nauto-delete=0\ninternal=0",
        ),
        (
            3,
            "/queue",
            "address=$q/tmp\nauto-delete=0\nmessages=0\ndead-letter=$x/end",
        ),
        (4, "/queue", "address=$q/end\nauto-delete=0"),
        (5, "/binding", "address=$x/from\nqueue=$q/tmp\nkey=#"),
        (6, "/binding", "address=$x/end\nqueue=$q/end\nkey=#"),
    ] {
        Record::Group {
            queue: number(at),
            name,
            filter,
        }
        .encode(&mut bytes);
    }
    world.disk.write(bytes);
    world.access = |_, _| compile(&[], Otherwise::Deny);
    world.restart();
    let publisher = world.connect("publisher");
    world.send(publisher, "from", "k", "m");
    assert_eq!(world.drain_texts("end"), ["m"]);
}

#[test]
fn a_binding_that_is_denied_in_part_brings_the_rest() {
    let mut world = World::new();
    let admin = world.connect("admin");
    world.exchange(admin, "mine", ExchangeKind::Topic);
    let rules = [
        Rule::allow(Permissions::ALL, "$x/#"),
        Rule::allow(Permissions::ALL, "$q/tmp"),
        Rule::allow(Publish, "#"),
        Rule::deny(Publish, "a/valve"),
    ];
    let alice = world.connect_with(0, "alice", compile(&rules, Otherwise::Deny), Span::ZERO);
    assert_eq!(world.publish(alice, firm("a/valve", "m")), Outcome::Denied);
    assert_eq!(world.lead(alice, "mine", "amq.topic", "#", &[]), Ok(()));
    let reader = world.connect("reader");
    world.subscribe(reader, "a/#", None, Reliability::AtLeastOnce);
    world.send(alice, "mine", "a.valve", "open it");
    world.send(alice, "mine", "a.lamp", "light it");
    // And not by the other ways either.
    let plain = x("amq.topic");
    let spec = ExchangeSpec {
        alternate: Some(&plain),
        ..exchange_spec(ExchangeKind::Topic)
    };
    assert_eq!(world.declare_exchange(alice, "unbound", &spec), Ok(()));
    world.send(alice, "unbound", "a.valve", "open it");
    world.send(alice, "unbound", "a.lamp", "light it again");
    let terms = |key: Option<&str>| {
        let dead_letter = Some(DeadLetter {
            exchange: x("amq.topic").into(),
            key: key.map(Into::into),
        });
        Terms::exclusive()
            .with(|limits| (limits.dead_letter, limits.messages_max) = (dead_letter, Some(0)))
    };
    assert_eq!(
        world.declare(alice, "tmp", &terms(Some("a.valve"))).err(),
        Some(Refusal::Denied)
    );
    assert!(world.declare(alice, "tmp", &terms(None)).is_ok());
    world.exchange(admin, "dies", ExchangeKind::Topic);
    world.bind(alice, "dies", "tmp", "#");
    world.send(alice, "dies", "a.valve", "open it");
    world.send(alice, "dies", "a.lamp", "put it out");
    assert_eq!(
        world.texts(reader),
        ["light it", "light it again", "put it out"]
    );
}
