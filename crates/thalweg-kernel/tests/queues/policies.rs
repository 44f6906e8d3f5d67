//! The operator's policies for messages by address.

use crate::world::{Terms, World, draft, firm, q, to_queue};
use std::sync::Arc;
use thalweg_kernel::access::{Access, Otherwise, Rules};
use thalweg_kernel::{
    Draft, DropReason, GroupStrategy, LastValueRule, LastValueWish, Limits, Outcome, Policy,
    Pressure, Safety, Subscribed, Will, Wish,
};
use thalweg_model::{Filter, Reliability, RetainOp, Span};

const ONCE: Reliability = Reliability::AtLeastOnce;
const HOUR: Span = Span::from_secs(3600);

fn policy(filter: &str) -> Policy {
    Policy::new(Filter::new(filter).expect("a filter"))
}

fn lifespan(filter: &str, secs: u64) -> Policy {
    Policy {
        lifespan_max: Some(Span::from_secs(secs)),
        ..policy(filter)
    }
}

fn limits(policies: &[Policy]) -> Limits {
    Limits {
        policies: policies.into(),
        ..Limits::default()
    }
}

#[test]
fn a_lifespan_is_a_ceiling_for_receivers_of_every_shard_and_survives_a_restart() {
    for shards in [1, 3] {
        for (asked, left) in [(None, 30), (Some(HOUR), 30), (Some(Span::from_secs(5)), 5)] {
            let mut world = World::with(shards, limits(&[lifespan("t/#", 30)]));
            let publisher = world.connect("p");
            let name = world.name_on(usize::from(shards) - 1);
            let away = world.connect_with(usize::from(shards) - 1, &name, Access::ALL, HOUR);
            world.subscribe(away, "t/a", None, ONCE);
            world.lose(away);
            world.publish(
                publisher,
                Draft {
                    expires_in: asked,
                    ..firm("t/a", "m")
                },
            );
            world.restart();
            world.wait(Span::from_secs(left - 1));
            let back = world.connect_with(usize::from(shards) - 1, &name, Access::ALL, HOUR);
            let got = world.got(back);
            assert_eq!(got.len(), 1, "{shards} shards, {asked:?}");
            let rest = got[0].expires_in.expect("it has a lifespan");
            assert!(rest <= Span::from_secs(1), "{rest:?}");
        }
    }
}

#[test]
fn what_waits_in_queues_and_for_groups_expires_and_its_dead_letter_has_a_lifespan_of_its_own() {
    let mut world = World::with(
        1,
        limits(&[
            lifespan("$q/+", 30),
            lifespan("$q/dead", 60),
            lifespan("t/#", 5),
        ]),
    );
    let client = world.connect("c");
    world.queue(client, "dead", &Terms::durable());
    let dead_letter = to_queue("dead");
    world.queue(
        client,
        "q",
        &Terms::durable().with(|limits| limits.dead_letter = dead_letter),
    );
    world.put(client, "q", "m");
    world.wait(Span::from_secs(31));
    assert_eq!((world.waits("q"), world.waits("dead")), (0, 1));
    world.wait(Span::from_secs(59));
    assert_eq!(world.waits("dead"), 1);
    world.wait(Span::from_secs(2));
    assert_eq!(world.waits("dead"), 0);
    let member = world.connect_with(0, "member", Access::ALL, HOUR);
    world.subscribe(member, "t/#", Some("g"), ONCE);
    world.lose(member);
    world.publish(client, firm("t/a", "m"));
    assert_eq!(world.waiting_in_groups(), 1);
    world.wait(Span::from_secs(6));
    let member = world.connect_with(0, "member", Access::ALL, HOUR);
    assert_eq!(world.texts(member), [""; 0]);
}

#[test]
fn the_last_record_that_sets_a_field_counts_and_a_reload_applies_at_once() {
    let raised = Policy {
        priority_min: Some(7),
        ..policy("t/+")
    };
    let mut world = World::without_prefixes(
        1,
        limits(&[lifespan("t/#", 30), raised.clone(), lifespan("t/b", 9)]),
    );
    let client = world.connect("c");
    world.subscribe(client, "#", None, ONCE);
    let seen = |world: &mut World, address: &str, priority| {
        world.publish(
            client,
            Draft {
                priority,
                ..firm(address, "m")
            },
        );
        let got = world.got(client).pop().expect("a copy");
        world.settle_delivery(client, got.tag);
        (got.expires_in.map(Span::secs), got.priority)
    };
    assert_eq!(seen(&mut world, "t/a", 0), (Some(30), 7));
    assert_eq!(seen(&mut world, "t/b", 8), (Some(9), 8));
    assert_eq!(seen(&mut world, "t/b/c", 0), (Some(30), 0));
    assert_eq!(seen(&mut world, "u", 1), (None, 1));
    world.kernels[0].set_limits(limits(&[Policy {
        lifespan_max: Some(Span::FOREVER),
        ..raised
    }]));
    assert_eq!(seen(&mut world, "t/b", 0), (None, 7));
    world.kernels[0].set_limits(limits(&[]));
    assert_eq!(seen(&mut world, "t/b", 0), (None, 0));
}

#[test]
fn messages_become_last_values_or_do_not_whatever_their_publisher_says() {
    let rule = |filter: &str, rule| Policy {
        last_value: Some(rule),
        ..policy(filter)
    };
    let policies = [
        rule("a/#", LastValueRule::Off),
        rule("a/kept", LastValueRule::Keep),
    ];
    let mut world = World::with(
        2,
        Limits {
            kept_filters: Arc::new([Filter::new("a/#").expect("a filter")]),
            ..limits(&policies)
        },
    );
    let publisher = world.connect("p");
    let retained = |address| Draft {
        retain: RetainOp::Set,
        ..draft(address, "v")
    };
    world.publish(publisher, retained("a/x"));
    world.publish(publisher, retained("b"));
    let reader = world.connect("r");
    world.ask_for(
        reader,
        &Wish {
            last_values: LastValueWish::Always,
            ..crate::world::wish("#", None, ONCE)
        },
    );
    assert_eq!(
        world
            .got(reader)
            .iter()
            .map(|got| &*got.address)
            .collect::<Vec<_>>(),
        ["b"]
    );
    let refused: u64 = world
        .kernels
        .iter()
        .map(|kernel| kernel.ledger().retain_refused)
        .sum();
    assert_eq!(refused, 1);
    world.publish(publisher, draft("a/kept", "1"));
    let reader = world.connect("other");
    for (address, value) in [("a/kept", Some("1")), ("a/x", None)] {
        assert_eq!(
            world.read(reader, address),
            Some(value.map(Into::into)),
            "{address}"
        );
    }
}

#[test]
fn a_record_says_how_safe_an_acknowledgement_is_whatever_filters_say() {
    let safe = |filter: &str, safety| Policy {
        safety: Some(safety),
        ..policy(filter)
    };
    let limits = Limits {
        safety_filters: [(Filter::new("t/#").expect("a filter"), Safety::Durable)].into(),
        ..limits(&[safe("t/fast", Safety::Written), safe("u", Safety::Durable)])
    };
    assert_eq!(limits.safety_at("t/fast"), Some(Safety::Written));
    assert_eq!(limits.safety_at("t/other"), Some(Safety::Durable));
    assert_eq!(
        (limits.safety_at("u"), limits.safety_at("v")),
        (Some(Safety::Durable), None)
    );
}

#[test]
fn rules_hold_whatever_policies_say() {
    let keep = Policy {
        last_value: Some(LastValueRule::Keep),
        ..lifespan("t/#", 30)
    };
    let mut world = World::with(1, limits(&[keep]));
    let nothing = Rules::new(Vec::new(), Otherwise::Deny).expect("no rules");
    let outsider = world.connect_with(0, "c", nothing.compile("c", None), Span::ZERO);
    assert_eq!(world.publish(outsider, firm("t/a", "m")), Outcome::Denied);
    assert_eq!(
        world.subscribe(outsider, "t/a", None, ONCE),
        Subscribed::Denied
    );
    let reader = world.connect("r");
    assert_eq!(
        world.read(reader, "t/a"),
        Some(None),
        "nothing was remembered"
    );
}

#[test]
fn a_will_and_what_a_transaction_publishes_are_under_the_policies_of_then() {
    let raised = |priority| Policy {
        priority_min: Some(priority),
        ..lifespan("$q/q", 30)
    };
    for shards in [1, 2] {
        let mut world = World::with(shards, limits(&[raised(3)]));
        let client = world.connect("c");
        world.queue(client, "q", &Terms::durable());
        let will = Will {
            address: q("q").into(),
            payload: b"will".as_slice().into(),
            reliability: ONCE,
            retain: RetainOp::None,
            delay: Span::ZERO,
            expires_in: None,
            properties: None,
        };
        let shard = usize::from(shards) - 1;
        let name = world.name_on(shard);
        let leaves = world.connect_with_will(shard, &name, will);
        world.has_transaction = true;
        world.run(client.shard, |kernel, _, now| {
            kernel.begin(client.session, 1);
            kernel.publish_in(client.session, 1, &firm(&q("q"), "tx"), &[], 0, now)
        });
        world.wait(Span::from_secs(20));
        for kernel in &mut world.kernels {
            kernel.set_limits(limits(&[raised(7)]));
        }
        world.lose(leaves);
        world.run(client.shard, |kernel, out, now| {
            kernel.commit(client.session, 1, now, out)
        });
        world.has_transaction = false;
        world.wait(Span::from_secs(29));
        assert_eq!(world.waits("q"), 2, "{shards} shards");
        let got = world.drain("q");
        let said: Vec<_> = got
            .iter()
            .map(|got| (&*got.text, got.priority, got.expires_in.is_some()))
            .collect();
        assert_eq!(said, [("will", 7, true), ("tx", 7, true)]);
    }
}

const AT_MOST: Reliability = Reliability::AtMostOnce;
const EXACTLY: Reliability = Reliability::ExactlyOnce;

fn at_most(filter: &str, reliability: Reliability) -> Policy {
    Policy {
        reliability_max: Some(reliability),
        ..policy(filter)
    }
}

fn floor(filter: &str) -> Policy {
    Policy {
        reliability_min: Some(ONCE),
        ..policy(filter)
    }
}

fn reload(world: &mut World, records: &[Policy]) {
    for shard in 0..world.kernels.len() {
        world.run(shard, |kernel, _, _| {
            kernel.set_limits(Limits {
                policies: records.into(),
                ..kernel.limits().clone()
            });
        });
    }
}

#[test]
fn subscribers_are_sent_messages_no_more_reliably_than_the_ceiling_and_are_told_so() {
    for shards in [1, 2] {
        let records = [at_most("t/#", AT_MOST), at_most("t/b", ONCE)];
        let mut world = World::with(shards, limits(&records));
        let publisher = world.connect("p");
        let last = usize::from(shards) - 1;
        let [plain, choosy] = [0; 2].map(|_| {
            let name = world.name_on(last);
            world.connect_with(last, &name, Access::ALL, Span::ZERO)
        });
        for (filter, told) in [
            ("t/a", AT_MOST),
            ("t/b", ONCE),
            // It may be sent what the second record allows.
            ("t/+", ONCE),
            ("#", EXACTLY),
            ("b", EXACTLY),
        ] {
            let granted = world.subscribe(plain, filter, None, EXACTLY);
            assert_eq!(granted, Subscribed::Granted(told), "{filter}");
        }
        world.subscribe_if(choosy, ("t/+", None), EXACTLY, Some("$address LIKE 't/%'"));
        let downgraded = world.kernels.iter().map(|it| it.ledger());
        let downgraded: u64 = downgraded.map(|it| it.subscriptions_downgraded).sum();
        assert_eq!(downgraded, 4);
        let mut listed = Vec::new();
        world.kernels[last].for_each_subscription(None, |it| {
            listed.push((it.filter, it.reliability, it.offered));
        });
        assert!(listed.contains(&("t/a".into(), EXACTLY, AT_MOST)));
        assert!(listed.contains(&("b".into(), EXACTLY, EXACTLY)));
        // Who watches an address is listed with the ceiling there.
        let watches = ["t/a", "t/b"].map(|address| world.watch(plain, address, 1));
        let downgraded = world.kernels[last].ledger().subscriptions_downgraded;
        assert_eq!(downgraded, 5, "that of t/a");
        let name = world.kernels[last].client_of(plain.session).cloned();
        let mut watched = Vec::new();
        for client in [None, name.as_deref(), Some("somebody else")] {
            world.kernels[last].for_each_watch(client, |it| {
                watched.push((it.filter, it.reliability, it.offered));
            });
        }
        watched.sort();
        let [a, b] =
            [("t/a", AT_MOST), ("t/b", ONCE)].map(|(at, most)| (Box::from(at), ONCE, most));
        assert_eq!(watched, [a.clone(), a, b.clone(), b]);
        for watch in watches {
            world.unwatch(watch);
        }
        let settles = |world: &mut World, address: &str| {
            let draft = Draft {
                reliability: EXACTLY,
                ticket: 1,
                ..firm(address, "m")
            };
            world.publish(publisher, draft);
            world.run(publisher.shard, |kernel, out, _| {
                kernel.release(publisher.session, 1, out)
            });
            [plain, choosy].map(|who| {
                let got = world.got(who);
                got.iter().map(|got| got.settles).collect::<Vec<_>>()
            })
        };
        assert_eq!(settles(&mut world, "t/a"), [[false], [false]]);
        assert_eq!(settles(&mut world, "t/b"), [[true], [true]]);
        assert_eq!(settles(&mut world, "b"), [vec![true], vec![]]);
        // The subscription still asks for what it asked for.
        reload(&mut world, &[]);
        assert_eq!(settles(&mut world, "t/a"), [[true], [true]]);
    }
}

#[test]
fn members_of_a_group_have_the_ceiling_of_its_filter_wherever_the_group_is() {
    for (shards, at) in [(1, 0), (2, 0), (2, 1)] {
        let mut world = World::with(shards, limits(&[at_most("t/#", AT_MOST)]));
        let publisher = world.connect("p");
        let name = world.name_on(at);
        let member = world.connect_with(at, &name, Access::ALL, HOUR);
        let granted = world.subscribe(member, "t/+", Some("g"), ONCE);
        assert_eq!(granted, Subscribed::Granted(AT_MOST));
        world.publish(publisher, firm("t/a", "m"));
        let got = world.got(member);
        assert_eq!(got.iter().map(|it| it.settles).collect::<Vec<_>>(), [false]);
        assert_eq!(world.waiting_in_groups(), 0);
        // A reload applies to what is chosen from then on, and to what is listed.
        for (records, most) in [
            (vec![], ONCE),
            (vec![at_most("t/+", AT_MOST)], AT_MOST),
            (vec![], ONCE),
        ] {
            reload(&mut world, &records);
            let mut listed = Vec::new();
            world.kernels[at].for_each_subscription(None, |it| {
                listed.push((it.reliability, it.offered));
            });
            assert_eq!(listed, [(ONCE, most)]);
            world.publish(publisher, firm("t/a", "m"));
            let got = world.got(member);
            let settles: Vec<_> = got.iter().map(|it| it.settles).collect();
            assert_eq!(settles, [most == ONCE]);
            for got in got.iter().filter(|it| it.settles) {
                world.settle_delivery(member, got.tag);
            }
        }
        // What it asked for is written down.
        world.lose(member);
        world.restart();
        reload(&mut world, &[]);
        let member = world.connect_with(at, &name, Access::ALL, HOUR);
        let publisher = world.connect("p");
        world.publish(publisher, firm("t/a", "m"));
        let got = world.got(member);
        assert_eq!(got.iter().map(|it| it.settles).collect::<Vec<_>>(), [true]);
    }
}

#[test]
fn a_lower_ceiling_gives_members_what_waited_for_an_acknowledgement() {
    for (shards, at) in [(1, 0), (2, 0), (2, 1)] {
        let limits = Limits {
            in_flight_max: 1,
            group_strategy: GroupStrategy::RoundRobin,
            ..limits(&[])
        };
        let mut world = World::with(shards, limits);
        let publisher = world.connect("p");
        let name = world.name_on(at);
        let member = world.connect_with(at, &name, Access::ALL, HOUR);
        world.subscribe(member, "t/+", Some("g"), ONCE);
        for text in ["1", "2", "3"] {
            world.publish(publisher, firm("t/a", text));
        }
        assert_eq!(world.texts(member), ["1"]);
        reload(&mut world, &[at_most("t/+", AT_MOST)]);
        world.wait(Span::from_millis(1));
        assert_eq!(world.texts(member), ["2", "3"], "{shards} {at}");
        assert_eq!(world.waiting_in_groups(), 0);
        // The first is settled as it was sent.
        world.settle_delivery(member, 1);
        assert_eq!(world.entries_written(), 0);
    }
}

#[test]
fn a_last_value_is_sent_no_more_reliably_than_the_ceiling() {
    for (most, settles) in [(AT_MOST, false), (ONCE, true)] {
        let mut world = World::with(1, limits(&[at_most("t", most)]));
        let [publisher, reader] = ["p", "r"].map(|name| world.connect(name));
        let retained = Draft {
            retain: RetainOp::Set,
            ..firm("t", "v")
        };
        world.publish(publisher, retained);
        let wish = Wish {
            last_values: LastValueWish::Always,
            ..crate::world::wish("#", None, ONCE)
        };
        world.ask_for(reader, &wish);
        let got = world.got(reader);
        let said: Vec<_> = got.iter().map(|got| got.settles).collect();
        assert_eq!(said, [settles]);
    }
}

#[test]
fn what_is_published_at_most_once_is_kept_and_settled_where_the_floor_says_so() {
    for (shards, address) in [(1, "t/a"), (3, "t/a"), (1, "b"), (3, "b")] {
        let mut world = World::with(shards, limits(&[floor("t/#")]));
        let publisher = world.connect("p");
        let last = usize::from(shards) - 1;
        let [name, other] = [0; 2].map(|_| world.name_on(last));
        let away = world.connect_with(last, &name, Access::ALL, HOUR);
        world.subscribe(away, address, None, ONCE);
        world.lose(away);
        let here = world.connect_with(last, &other, Access::ALL, Span::ZERO);
        world.subscribe(here, address, None, AT_MOST);
        // What was asked about before is not what other shards answer for.
        world.publish(publisher, firm(address, "1"));
        let outcome = world.publish(publisher, draft(address, "2"));
        assert_eq!(outcome, Outcome::Accepted);
        world.publish(publisher, firm(address, "3"));
        assert_eq!(world.texts(here), ["1", "2", "3"], "as it asked");
        world.restart();
        let back = world.connect_with(last, &name, Access::ALL, HOUR);
        let kept = world.texts(back);
        let all: &[&str] = match address {
            "t/a" => &["1", "2", "3"],
            _ => &["1", "3"],
        };
        assert_eq!(kept, all, "{shards} shards, {address}");
    }
}

#[test]
fn the_floor_holds_for_wills_queues_groups_and_last_values_over_a_restart() {
    for shards in [1, 2] {
        let mut world = World::with(shards, limits(&[floor("t/#"), floor("$q/q")]));
        let client = world.connect("c");
        world.queue(client, "q", &Terms::durable());
        let last = usize::from(shards) - 1;
        let name = world.name_on(last);
        let member = world.connect_with(last, &name, Access::ALL, HOUR);
        world.subscribe(member, "t/a", Some("g"), ONCE);
        world.lose(member);
        let will = Will {
            address: q("q").into(),
            payload: b"will".as_slice().into(),
            reliability: AT_MOST,
            retain: RetainOp::None,
            delay: Span::ZERO,
            expires_in: None,
            properties: None,
        };
        let leaves = world.connect_with_will(0, "leaves", will);
        world.lose(leaves);
        world.publish(client, draft(&q("q"), "put"));
        let retained = Draft {
            retain: RetainOp::Set,
            ..draft("t/a", "v")
        };
        world.publish(client, retained);
        world.restart();
        let texts: Vec<_> = world.drain("q").into_iter().map(|got| got.text).collect();
        assert_eq!(texts, ["will", "put"], "{shards} shards");
        let member = world.connect_with(last, &name, Access::ALL, HOUR);
        let got = world.got(member);
        let said: Vec<_> = got.iter().map(|it| (&*it.text, it.settles)).collect();
        assert_eq!(said, [("v", true)], "{shards} shards");
        let reader = world.connect("r");
        world.ask_for(
            reader,
            &Wish {
                last_values: LastValueWish::Always,
                ..crate::world::wish("t/a", None, ONCE)
            },
        );
        let got = world.got(reader);
        let said: Vec<_> = got.iter().map(|it| (&*it.text, it.settles)).collect();
        assert_eq!(said, [("v", true)], "{shards} shards");
    }
}

#[test]
fn in_a_full_journal_what_is_published_at_most_once_stays_so() {
    let mut world = World::with(1, limits(&[floor("t/#")]));
    let [publisher, here] = ["p", "h"].map(|name| world.connect(name));
    let away = world.connect_with(0, "away", Access::ALL, HOUR);
    for who in [here, away] {
        world.subscribe(who, "t/a", None, ONCE);
    }
    world.lose(away);
    world.kernels[0].set_journal_full(true);
    assert_eq!(world.publish(publisher, firm("t/a", "1")), Outcome::Full);
    let outcome = world.publish(publisher, draft("t/a", "2"));
    assert_eq!(outcome, Outcome::Accepted);
    let got = world.got(here);
    let said: Vec<_> = got.iter().map(|it| (&*it.text, it.settles)).collect();
    assert_eq!(said, [("2", false)]);
    world.kernels[0].set_journal_full(false);
    let away = world.connect_with(0, "away", Access::ALL, HOUR);
    assert_eq!(world.texts(away), [""; 0]);
}

#[test]
fn where_memory_is_short_what_the_floor_raises_goes_to_disk_and_keeps_no_receiver_from_it() {
    for shards in [1, 2] {
        let mut world = World::without_prefixes(shards, limits(&[floor("t/#"), floor("$q/q")]));
        let publisher = world.connect("p");
        let last = usize::from(shards) - 1;
        let [here, name] = [0; 2].map(|_| world.name_on(last));
        let here = world.connect_with(last, &here, Access::ALL, Span::ZERO);
        let away = world.connect_with(last, &name, Access::ALL, HOUR);
        for who in [here, away] {
            world.subscribe(who, "t/a", None, ONCE);
        }
        world.lose(away);
        for name in ["q", "plain"] {
            world.queue(publisher, name, &Terms::durable());
        }
        let published = |world: &mut World, text: &str, pressure: Pressure| {
            for kernel in &mut world.kernels {
                kernel.set_pressure(pressure);
            }
            let to = ["t/a".to_owned(), q("q"), q("plain")];
            let outcomes = to.map(|address| world.publish(publisher, draft(&address, text)));
            let got = world.got(here);
            let said: Vec<_> = got.iter().map(|it| (it.text.clone(), it.settles)).collect();
            assert_eq!(said, [(text.to_owned(), true)], "{pressure:?}");
            outcomes
        };
        let (taken, full) = (Outcome::Accepted, Outcome::Full);
        // What may wait on disk waits there, as what is published at least once does.
        let outcomes = published(&mut world, "1", Pressure::DropWaiting);
        assert_eq!(outcomes, [taken, taken, full], "{shards} shards");
        // Where nothing may wait, who can take it has it.
        let outcomes = published(&mut world, "2", Pressure::RefuseSessions);
        assert_eq!(outcomes, [taken, full, full], "{shards} shards");
        let outcomes = published(&mut world, "3", Pressure::None);
        assert_eq!(outcomes, [taken; 3], "{shards} shards");
        assert_eq!(
            world.dropped(DropReason::Memory),
            1,
            "the second copy for who is away"
        );
        world.restart();
        let away = world.connect_with(last, &name, Access::ALL, HOUR);
        assert_eq!(world.texts(away), ["1", "3"]);
        let texts: Vec<_> = world.drain("q").into_iter().map(|got| got.text).collect();
        assert_eq!(texts, ["1", "3"], "{shards} shards");
    }
}
