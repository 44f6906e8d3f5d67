//! Messages that groups drop: delivered too often, expired, refused. They go to the operator's dead-letter address.

use crate::world::{Taking, Terms, Who, World, firm, q, to_queue};
use std::sync::Arc;
use thalweg_kernel::access::Access;
use thalweg_kernel::{
    Draft, DropReason, GroupPolicy, GroupStrategy, Limits, OrderKey, Tag, Verdict,
};
use thalweg_model::{DeathReason, Filter, Reliability, Span};

const ONCE: Reliability = Reliability::AtLeastOnce;
const HOUR: Span = Span::from_secs(3600);

/// Groups on `t/#` give messages up after two deliveries, and these go to `dead`.
fn world(shards: u16, dead: Option<&str>, order: Option<OrderKey>) -> World {
    let policy = GroupPolicy {
        order,
        deliveries_max: Some(2),
        dead_letter: dead.map(Into::into),
        ..GroupPolicy::new(Filter::new("t/#").expect("legal"))
    };
    let limits = Limits {
        group_strategy: GroupStrategy::RoundRobin,
        group_policies: Arc::new([policy]),
        ..Limits::default()
    };
    World::with(shards, limits)
}

/// A member of the group `g` on `t/#`.
fn member(world: &mut World, shard: usize, expiry: Span) -> Who {
    let name = world.name_on(shard);
    let who = world.connect_with(shard, &name, Access::ALL, expiry);
    world.subscribe(who, "t/#", Some("g"), ONCE);
    who
}

/// Somebody who reads dead letters at `dead`, and has the same number as a publisher.
fn reader(world: &mut World) -> Who {
    let who = world.connect("reader");
    world.subscribe(who, "x/dead", None, ONCE);
    who
}

#[test]
fn what_members_keep_losing_is_given_up_at_the_limit() {
    for (shards, expiry) in [(1, Span::ZERO), (1, HOUR), (2, Span::ZERO), (2, HOUR)] {
        let hint = format!("{shards} shards, {expiry:?}");
        let mut world = world(shards, Some("x/dead"), None);
        let reader = reader(&mut world);
        // There is a group for as long as it has a member.
        let waits = world.connect_with(0, "waits", Access::ALL, HOUR);
        world.subscribe(waits, "t/#", Some("g"), ONCE);
        world.lose(waits);
        world.publish(reader, firm("t/a", "poison"));
        for round in 1..=3 {
            let shard = round % usize::from(shards);
            let member = member(&mut world, shard, expiry);
            let got = world.got(member);
            let shown: Vec<_> = got
                .iter()
                .map(|got| (&*got.text, got.deliveries > 0))
                .collect();
            assert_eq!(shown, [("poison", round > 1)], "{hint}, round {round}");
            world.lose(member);
        }
        let got = world.got(reader);
        let [dead] = &got[..] else {
            panic!("{hint}: {got:?}")
        };
        assert_eq!(
            (&*dead.text, &*dead.address),
            ("poison", "x/dead"),
            "{hint}"
        );
        let death = &dead.deaths[0];
        assert_eq!(
            (&*death.queue, death.reason, &*death.address),
            ("$g/g/t/#", DeathReason::DeliveryLimit, "t/a"),
            "{hint}"
        );
        assert_eq!(world.waiting_in_groups(), 0, "{hint}");
        assert_eq!(world.dropped(DropReason::DeliveryLimit), 1, "{hint}");
        assert_eq!(world.entries_written(), 0, "{hint}");
    }
}

#[test]
fn without_an_address_for_dead_letters_it_is_dropped() {
    let mut world = world(1, None, None);
    let (publisher, stays) = (world.connect("p"), member(&mut world, 0, HOUR));
    world.lose(stays);
    world.publish(publisher, firm("t/a", "poison"));
    for _ in 0..3 {
        let member = member(&mut world, 0, HOUR);
        assert_eq!(world.texts(member), ["poison"]);
        world.lose(member);
    }
    assert_eq!((world.waiting_in_groups(), world.entries_written()), (0, 0));
    assert_eq!(world.dropped(DropReason::DeliveryLimit), 1);
}

#[test]
fn what_consumers_requeue_is_counted() {
    let mut world = world(1, Some("$q/dead"), None);
    let client = world.connect("c");
    world.queue(client, "dead", &Terms::durable());
    world
        .consume_from(client, "$g/g/t/#", 1, Taking::default())
        .expect("it may");
    world.publish(client, firm("t/a", "poison"));
    for tag in 1..=3 {
        world.wait(Span::from_millis(10));
        assert_eq!(world.texts(client), ["poison"], "{tag}");
        world.requeue(client, tag);
    }
    world.wait(Span::from_secs(1));
    assert_eq!(world.texts(client), [""; 0]);
    let got = world.drain("dead");
    assert_eq!((got.len(), &*got[0].text), (1, "poison"));
    assert_eq!(got[0].deaths[0].reason, DeathReason::DeliveryLimit);
}

#[test]
fn the_count_outlives_the_broker() {
    for shards in [1, 2] {
        let mut world = world(shards, Some("$q/dead"), None);
        let client = world.connect("c");
        world.queue(client, "dead", &Terms::durable());
        for shard in 0..usize::from(shards) {
            let member = member(&mut world, shard, HOUR);
            world.lose(member);
        }
        world.publish(client, firm("t/a", "poison"));
        for round in 1..=3 {
            let member = member(&mut world, round % usize::from(shards), HOUR);
            assert_eq!(world.texts(member), ["poison"], "{round} of {shards}");
            // A member is lost before the broker in one round, and with it in the others.
            if round == 2 {
                world.lose(member);
            }
            world.restart();
        }
        assert_eq!(world.waiting_in_groups(), 0, "{shards}");
        assert_eq!(world.drain_texts("dead"), ["poison"], "{shards}");
    }
}

#[test]
fn the_count_of_a_queue_outlives_the_broker() {
    for through_group in [false, true] {
        let mut world = World::in_turns(1);
        let client = world.connect("c");
        let terms = Terms::durable().with(|limits| {
            limits.deliveries_max = Some(2);
            limits.dead_letter = to_queue("dead");
        });
        world.queue(client, "q", &terms);
        world.queue(client, "dead", &Terms::durable());
        world.put(client, "q", "poison");
        for round in 1..=3 {
            let taker = world.connect("m");
            if through_group {
                world.subscribe(taker, &q("q"), Some("g"), ONCE);
                assert_eq!(world.texts(taker), ["poison"], "{round}");
                world.lose(taker);
            } else {
                world.consume(taker, "q", 1, Taking::credit(1));
                assert_eq!(world.got(taker)[0].deliveries, round - 1);
                world.cancel(taker, 1, 1);
                world.requeue(taker, 1);
            }
            world.restart();
        }
        assert_eq!(world.waits("q"), 0, "{through_group}");
        assert_eq!(world.drain_texts("dead"), ["poison"], "{through_group}");
    }
}

#[test]
fn what_a_member_refuses_is_a_dead_letter_at_once() {
    let refuse = |world: &mut World, who: Who| {
        let tag = world.got(who)[0].tag as Tag;
        world.run(who.shard, |kernel, out, now| {
            kernel.settle(who.session, tag, Verdict::Reject, now, out)
        });
    };
    for shards in [1, 2] {
        let mut world = world(shards, Some("$q/dead"), None);
        let client = world.connect("c");
        world.queue(client, "dead", &Terms::durable());
        let terms = Terms::durable().with(|limits| limits.dead_letter = to_queue("dead"));
        world.queue(client, "q", &terms);
        let member = member(&mut world, usize::from(shards) - 1, HOUR);
        world.publish(client, firm("t/a", "of a group"));
        refuse(&mut world, member);
        world
            .consume_from(client, "$g/h/t/#", 1, Taking::default())
            .expect("it may");
        world.publish(client, firm("t/a", "of a consumer"));
        world.reject(client, 1);
        refuse(&mut world, member);
        for expiry in [Span::ZERO, HOUR] {
            let away = (0..usize::from(shards)).find(|shard| *shard != world.home());
            let name = world.name_on(away.unwrap_or(0));
            let takes = world.connect_with(away.unwrap_or(0), &name, Access::ALL, expiry);
            world.subscribe(takes, &q("q"), Some("g"), ONCE);
            world.put(client, "q", "of a queue");
            refuse(&mut world, takes);
            world.unsubscribe(takes, &q("q"), Some("g"));
        }
        let mut texts = world.drain_texts("dead");
        texts.sort_unstable();
        let expected = [
            "of a consumer",
            "of a consumer",
            "of a group",
            "of a queue",
            "of a queue",
        ];
        assert_eq!(texts, expected, "{shards}");
        assert_eq!(world.entries_written(), 0, "{shards}");
    }
}

#[test]
fn what_expires_in_a_group_is_a_dead_letter() {
    for order in [None, Some(OrderKey::Address)] {
        let mut world = world(1, Some("x/dead"), order);
        let reader = reader(&mut world);
        let first = member(&mut world, 0, HOUR);
        world.lose(first);
        world.publish(
            reader,
            Draft {
                expires_in: Some(Span::from_secs(5)),
                ..firm("t/a", "old")
            },
        );
        world.publish(reader, firm("t/a", "new"));
        world.wait(Span::from_secs(6));
        let second = member(&mut world, 0, HOUR);
        assert_eq!(world.texts(second), ["new"], "{order:?}");
        let got = world.got(reader);
        assert_eq!((got.len(), &*got[0].text), (1, "old"), "{order:?}");
        assert_eq!(got[0].deaths[0].reason, DeathReason::Expired);
    }
}

#[test]
fn a_dead_letter_that_comes_back_to_its_group_goes_round_once() {
    let mut world = world(1, Some("t/dead"), None);
    let publisher = world.connect("p");
    let stays = member(&mut world, 0, HOUR);
    world.lose(stays);
    world.publish(publisher, firm("t/a", "poison"));
    let mut given = 0;
    for _ in 0..10 {
        let member = member(&mut world, 0, HOUR);
        given += world.texts(member).len();
        world.lose(member);
    }
    assert_eq!((given, world.waiting_in_groups()), (6, 0));
    assert_eq!(world.dropped(DropReason::DeliveryLimit), 2);
}

#[test]
fn an_ordered_group_goes_on_behind_what_it_gives_up() {
    let mut world = world(1, Some("x/dead"), Some(OrderKey::Address));
    let reader = reader(&mut world);
    let stays = member(&mut world, 0, HOUR);
    world.lose(stays);
    world.publish(reader, firm("t/a", "poison"));
    world.publish(reader, firm("t/a", "next"));
    for _ in 0..3 {
        let member = member(&mut world, 0, HOUR);
        let got = world.got(member);
        assert_eq!(got[0].text, "poison");
        // Whatever else it has is lost just as often.
        for other in got.iter().skip(1) {
            world.settle_delivery(member, other.tag);
        }
        world.lose(member);
    }
    assert_eq!(world.texts(reader), ["poison"]);
}
