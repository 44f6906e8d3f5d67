//! Rates that policies give to publishers and addresses.

use crate::world::{Terms, Who, World, draft, firm, q, x};
use thalweg_kernel::access::{Access, Otherwise, Rules};
use thalweg_kernel::{
    Committed, DropReason, Exceed, ExchangeKind, Grants, Ledger, Limits, OpenSession, Outcome,
    Policy, RatePer, Will,
};
use thalweg_kernel::{Draft, Published};
use thalweg_model::{Filter, Reliability, RetainOp, Span, Stamp};

const ONCE: Reliability = Reliability::AtLeastOnce;
/// Messages per second, of which four times as many are offered.
const RATE: u64 = 50;

fn rate(filter: &str, per: RatePer, exceed: Exceed) -> Policy {
    Policy {
        rate: Some(RATE),
        rate_burst: Some(Span::from_millis(100)),
        rate_per: Some(per),
        rate_exceed: Some(exceed),
        ..Policy::new(Filter::new(filter).expect("a filter"))
    }
}

/// So few that the second message is beyond it.
fn one(filter: &str, exceed: Exceed) -> Policy {
    Policy {
        rate: Some(1),
        ..rate(filter, RatePer::Publisher, exceed)
    }
}

fn limits(policies: &[Policy]) -> Limits {
    Limits {
        policies: policies.into(),
        ..Limits::default()
    }
}

fn somebody(world: &mut World, shard: usize) -> Who {
    let name = world.name_on(shard);
    world.connect_with(shard, &name, Access::ALL, Span::ZERO)
}

fn publish(world: &mut World, who: Who, draft: Draft<'_>) -> Published {
    world.run(who.shard, |kernel, out, now| {
        kernel.publish(who.session, draft, now, out)
    })
}

fn is_over(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::OverRate(_))
}

fn ledger(world: &World, count: impl Fn(&Ledger) -> u64) -> u64 {
    let kernels = world.kernels.iter();
    kernels.map(|kernel| count(kernel.ledger())).sum()
}

/// Everybody offers four times the rate for ten seconds, as far as they are let; how many messages arrive.
fn arrive_in_ten_seconds(
    world: &mut World,
    publishers: &[Who],
    receiver: Who,
    body: &str,
) -> usize {
    const EACH: Span = Span::from_millis(5);
    let mut goes_on = vec![world.now; publishers.len()];
    let end = world.now + Span::from_secs(10);
    while world.now < end {
        for (who, goes_on) in publishers.iter().zip(&mut goes_on) {
            if *goes_on <= world.now {
                let published = publish(world, *who, draft("t/a", body));
                *goes_on = published.pause_until.unwrap_or(world.now);
            }
        }
        world.wait(EACH);
    }
    world.got(receiver).len()
}

fn is_within_two_percent(count: usize, of: usize) -> bool {
    count.abs_diff(of) * 50 <= of
}

#[test]
fn a_rate_holds_within_two_percent_over_ten_seconds_on_any_number_of_shards() {
    for shards in [1, 2, 3] {
        for exceed in [Exceed::Throttle, Exceed::Drop, Exceed::Reject] {
            for per in [RatePer::Publisher, RatePer::Address] {
                let mut world = World::with(shards, limits(&[rate("t/#", per, exceed)]));
                let receiver = somebody(&mut world, 0);
                world.subscribe(receiver, "t/#", None, Reliability::AtMostOnce);
                let publishers = [0, usize::from(shards) - 1].map(|at| somebody(&mut world, at));
                let got = arrive_in_ten_seconds(&mut world, &publishers, receiver, "m");
                let of = 10 * RATE as usize * if per == RatePer::Publisher { 2 } else { 1 };
                let what = format!("{got} of {of}: {shards} shards, {exceed:?}, {per:?}");
                assert!(is_within_two_percent(got, of), "{what}");
                let counts = [
                    ledger(&world, |it| it.throttled),
                    ledger(&world, |it| it.dropped[DropReason::OverRate as usize]),
                    ledger(&world, |it| it.refused_over_rate),
                ];
                let counted =
                    [Exceed::Throttle, Exceed::Drop, Exceed::Reject].map(|it| it == exceed);
                assert_eq!(counts.map(|count| count > 0), counted, "{what}");
                assert_eq!(
                    ledger(&world, |it| it.received),
                    ledger(&world, |it| it.matched + it.refused),
                    "{what}"
                );
            }
        }
    }
}

#[test]
fn bytes_are_counted_as_messages_are_and_the_tighter_of_the_two_counts() {
    let bytes = Policy {
        rate_bytes: Some(RATE * 50),
        ..rate("t/#", RatePer::Publisher, Exceed::Throttle)
    };
    for (len, of) in [(10, 500), (100, 250)] {
        let mut world = World::with(1, limits(std::slice::from_ref(&bytes)));
        let receiver = world.connect("r");
        world.subscribe(receiver, "t/#", None, Reliability::AtMostOnce);
        let publisher = world.connect("p");
        let got = arrive_in_ten_seconds(&mut world, &[publisher], receiver, &"x".repeat(len));
        assert!(is_within_two_percent(got, of), "{got} of {of}");
    }
}

#[test]
fn a_publisher_has_one_count_for_all_addresses_of_a_record_and_an_address_one_for_itself() {
    let exempt = Policy {
        rate: Some(u64::MAX),
        ..rate("t/free", RatePer::Publisher, Exceed::Reject)
    };
    let per_address = Policy {
        rate_per: Some(RatePer::Address),
        ..one("u/#", Exceed::Reject)
    };
    let records = [one("t/#", Exceed::Reject), exempt, per_address];
    let mut world = World::with(1, limits(&records));
    let [a, b] = ["a", "b"].map(|name| world.connect(name));
    let outcomes = [
        (a, "t/1"),
        (a, "t/2"),
        (b, "t/2"),
        (a, "t/free"),
        (a, "t/free"),
        (a, "u/1"),
        (b, "u/1"),
        (a, "u/2"),
    ]
    .map(|(who, address)| publish(&mut world, who, firm(address, "m")).outcome);
    let over = Outcome::OverRate(1);
    let free = Outcome::NoMatch;
    assert_eq!(outcomes, [free, over, free, free, free, free, over, free]);
}

#[test]
fn a_refused_message_is_told_when_it_may_come_again_and_leaves_nothing_behind() {
    let mut world = World::with(1, limits(&[one("t/#", Exceed::Reject)]));
    let client = world.connect("c");
    world.subscribe(client, "t/#", None, Reliability::ExactlyOnce);
    let retained = |ticket| Draft {
        retain: RetainOp::Set,
        ticket,
        reliability: Reliability::ExactlyOnce,
        ..draft("t/a", "v")
    };
    world.run(0, |kernel, out, now| {
        let first = kernel.publish(client.session, retained(1), now, out);
        assert_eq!(
            (first.outcome, first.pause_until),
            (Outcome::Accepted, None)
        );
        let mut again = retained(2);
        (again.address, again.payload) = ("t/b", b"w");
        let second = kernel.publish(client.session, again, now, out);
        assert_eq!(second.outcome, Outcome::OverRate(1));
        assert_eq!(second.pause_until, None);
        // Its ticket is free: a repetition is a new message, and refused again.
        let again = kernel.publish(
            client.session,
            Draft {
                ticket: 2,
                ..retained(2)
            },
            now,
            out,
        );
        assert!(is_over(again.outcome));
    });
    let reader = world.connect("r");
    assert_eq!(world.read(reader, "t/b"), Some(None), "it is no last value");
    world.wait(Span::from_secs(1));
    let again = publish(
        &mut world,
        client,
        Draft {
            ticket: 2,
            ..retained(2)
        },
    );
    assert_eq!(again.outcome, Outcome::Accepted);
    assert_eq!(ledger(&world, |it| it.refused_over_rate), 2);
}

#[test]
fn a_publisher_that_cannot_be_told_waits_unless_it_asks_for_no_answer() {
    let mut world = World::with(1, limits(&[one("t", Exceed::Reject)]));
    let link = world.new_link();
    let open = OpenSession {
        grants: Grants {
            hears_refusals: false,
            ..Grants::default()
        },
        ..OpenSession::of_link("p", link, Access::ALL, "none")
    };
    let publisher = world.start(0, open).expect("there is room");
    world.subscribe(publisher, "t", None, ONCE);
    publish(&mut world, publisher, firm("t", "1"));
    let second = publish(&mut world, publisher, firm("t", "2"));
    assert_eq!(second.outcome, Outcome::Accepted);
    assert!(second.pause_until.is_some_and(|until| until > world.now));
    assert!(is_over(
        publish(&mut world, publisher, draft("t", "3")).outcome
    ));
    assert_eq!(world.texts(publisher), ["1", "2"]);
}

#[test]
fn a_stamped_message_that_was_refused_is_taken_when_it_comes_again() {
    for shards in [1, 3] {
        let mut world = World::with(shards, limits(&[one("t", Exceed::Reject)]));
        let publisher = somebody(&mut world, usize::from(shards) - 1);
        world.subscribe(publisher, "t", None, ONCE);
        let stamped = |text, sequence| Draft {
            stamp: Some(Stamp {
                publisher: 7,
                sequence,
            }),
            ..firm("t", text)
        };
        assert_eq!(world.publish(publisher, stamped("1", 1)), Outcome::Accepted);
        assert!(is_over(world.publish(publisher, stamped("2", 2))));
        world.wait(Span::from_secs(1));
        assert_eq!(world.publish(publisher, stamped("2", 2)), Outcome::Accepted);
        assert_eq!(world.texts(publisher), ["1", "2"], "{shards} shards");
    }
}

#[test]
fn a_transaction_is_done_as_a_whole_and_its_publisher_waits() {
    for exceed in [Exceed::Throttle, Exceed::Drop, Exceed::Reject] {
        let mut world = World::with(1, limits(&[one("$q/+", exceed)]));
        let client = world.connect("c");
        world.queue(client, "q", &Terms::durable());
        world.has_transaction = true;
        world.run(0, |kernel, out, now| {
            kernel.begin(client.session, 1);
            for text in ["1", "2", "3"] {
                kernel.publish_in(client.session, 1, &firm(&q("q"), text), &[], 0, now);
            }
            let committed = kernel.commit(client.session, 1, now, out);
            let Some(Committed {
                outcomes,
                pause_until,
            }) = committed
            else {
                panic!("there is a transaction")
            };
            assert_eq!(outcomes, [Outcome::Accepted; 3]);
            assert_eq!(pause_until, Some(now + Span::from_secs(2)), "{exceed:?}");
        });
        world.has_transaction = false;
        assert_eq!(world.waits("q"), 3);
        // What comes alone is judged again.
        let alone = publish(&mut world, client, firm(&q("q"), "4"));
        assert_eq!(is_over(alone.outcome), exceed == Exceed::Reject);
    }
}

#[test]
fn a_will_is_published_though_its_rate_is_used_up_and_counts_in_it() {
    let per_address = Policy {
        rate_per: Some(RatePer::Address),
        ..one("t", Exceed::Reject)
    };
    for shards in [1, 2] {
        let mut world = World::with(shards, limits(std::slice::from_ref(&per_address)));
        let reader = somebody(&mut world, 0);
        world.subscribe(reader, "t", None, ONCE);
        let will = Will {
            address: "t".into(),
            payload: b"gone".as_slice().into(),
            reliability: ONCE,
            retain: RetainOp::None,
            delay: Span::ZERO,
            expires_in: None,
            properties: None,
        };
        let shard = usize::from(shards) - 1;
        let name = world.name_on(shard);
        let leaves = world.connect_with_will(shard, &name, will);
        publish(&mut world, leaves, firm("t", "1"));
        world.lose(leaves);
        assert_eq!(world.texts(reader), ["1", "gone"], "{shards} shards");
        world.wait(Span::from_millis(1500));
        let next = publish(&mut world, reader, firm("t", "2"));
        assert!(is_over(next.outcome), "two were spent, one is earned");
        world.wait(Span::from_millis(500));
        assert!(!is_over(
            publish(&mut world, reader, firm("t", "2")).outcome
        ));
    }
}

#[test]
fn what_an_exchange_makes_of_a_message_and_its_members_of_a_group_do_not_count() {
    let exchange = x("e");
    let records = [one("$x/#", Exceed::Drop), one("$q/+", Exceed::Drop)];
    let mut world = World::with(1, limits(&records));
    let [client, other] = ["c", "other"].map(|name| world.connect(name));
    world.exchange(client, "e", ExchangeKind::Topic);
    for name in ["a", "b"] {
        world.queue(client, name, &Terms::durable());
        world.bind(client, "e", name, "#");
    }
    world.subscribe(other, &format!("{exchange}/#"), Some("g"), ONCE);
    for who in [client, other] {
        for text in ["1", "2"] {
            assert_eq!(world.send(who, "e", "k", text), Outcome::Accepted);
        }
    }
    assert_eq!((world.waits("a"), world.waits("b")), (2, 2));
    let for_the_group = world.texts(other).len() + world.waiting_in_groups();
    assert_eq!(for_the_group, 2);
    assert_eq!(world.dropped(DropReason::OverRate), 2);
}

#[test]
fn rules_are_judged_first_and_what_they_deny_costs_nothing() {
    let mut world = World::with(1, limits(&[one("t/#", Exceed::Reject)]));
    let nothing = Rules::new(Vec::new(), Otherwise::Deny).expect("no rules");
    let client = world.connect_with(0, "c", nothing.compile("c", None), Span::ZERO);
    for _ in 0..3 {
        let denied = publish(&mut world, client, firm("t/a", "m"));
        assert_eq!(denied.outcome, Outcome::Denied);
    }
    assert_eq!(ledger(&world, |it| it.refused_over_rate), 0);
}

#[test]
fn a_reload_applies_at_once_and_one_that_changes_no_policy_spends_nothing() {
    let mut world = World::with(1, limits(&[one("t", Exceed::Reject)]));
    let client = world.connect("c");
    let outcome = |world: &mut World| publish(world, client, firm("t", "m")).outcome;
    assert_eq!(outcome(&mut world), Outcome::NoMatch);
    assert!(is_over(outcome(&mut world)));
    world.kernels[0].set_limits(Limits {
        queues_max: 5,
        ..limits(&[one("t", Exceed::Reject)])
    });
    assert!(is_over(outcome(&mut world)));
    world.kernels[0].set_limits(limits(&[one("other", Exceed::Reject)]));
    assert_eq!(outcome(&mut world), Outcome::NoMatch);
    world.kernels[0].set_limits(limits(&[one("t", Exceed::Drop)]));
    assert_eq!(outcome(&mut world), Outcome::NoMatch);
    assert_eq!(
        outcome(&mut world),
        Outcome::Accepted,
        "it is dropped, and not told"
    );
    assert_eq!(world.dropped(DropReason::OverRate), 1);
}

#[test]
fn publishers_beyond_the_bound_share_a_count_until_others_are_full_again() {
    let mut world = World::with(
        1,
        Limits {
            rate_buckets_max: 2,
            ..limits(&[one("t", Exceed::Reject)])
        },
    );
    let clients = ["a", "b", "c", "d"].map(|name| world.connect(name));
    let all = |world: &mut World| {
        clients.map(|who| publish(world, who, firm("t", "m")).outcome == Outcome::NoMatch)
    };
    assert_eq!(all(&mut world), [true, true, true, false]);
    world.wait(Span::from_secs(3));
    assert_eq!(all(&mut world), [true, true, true, false]);
    world.wait(Span::from_secs(3));
    let last_first =
        [clients[3], clients[2]].map(|who| publish(&mut world, who, firm("t", "m")).outcome);
    assert_eq!(
        last_first,
        [Outcome::NoMatch; 2],
        "those of before are forgotten"
    );
}
