//! Groups that keep messages of one key in order.

use crate::crew::{Crew, Membership};
use crate::world::{Who, World, draft, firm};
use std::sync::Arc;
use thalweg_kernel::access::Access;
use thalweg_kernel::{
    Draft, GroupPolicy, GroupStrategy, Limits, OrderKey, Settled, Verdict, WorkTerms,
};
use thalweg_model::{Filter, Reliability, Span};

const ONCE: Reliability = Reliability::AtLeastOnce;

fn ordered(strategy: GroupStrategy, by: OrderKey) -> World {
    let filter = Filter::new("t/#").expect("legal");
    let policy = GroupPolicy {
        order: Some(by),
        strategy: Some(strategy),
        ..GroupPolicy::new(filter)
    };
    World::without_prefixes(
        1,
        Limits {
            group_policies: Arc::new([policy]),
            ..Limits::default()
        },
    )
}

fn members<const N: usize>(world: &mut World) -> [Who; N] {
    std::array::from_fn(|number| {
        let who = world.connect(&format!("m{number}"));
        world.subscribe(who, "t/+", Some("g"), ONCE);
        who
    })
}

/// Receivers of messages published to these addresses, by number; 9 for none.
fn give<const N: usize>(
    world: &mut World,
    publisher: Who,
    members: [Who; N],
    addresses: &[&str],
) -> Vec<usize> {
    let mut given = Vec::new();
    for address in addresses {
        world.publish(publisher, firm(address, address));
        given.push(
            members
                .iter()
                .position(|who| !world.got(*who).is_empty())
                .unwrap_or(9),
        );
    }
    given
}

#[test]
fn a_key_stays_with_its_member_and_others_pass() {
    let mut world = ordered(GroupStrategy::RoundRobin, OrderKey::Address);
    let members = members::<2>(&mut world);
    let publisher = world.connect("p");
    assert_eq!(
        give(
            &mut world,
            publisher,
            members,
            &["t/a", "t/a", "t/b", "t/a", "t/b"]
        ),
        [0, 0, 1, 0, 1]
    );
    // Two of a are still there, then one, then none: now it may go elsewhere.
    world.settle_delivery(members[0], 1);
    world.settle_delivery(members[0], 2);
    assert_eq!(
        give(&mut world, publisher, members, &["t/c", "t/a"]),
        [0, 0]
    );
    for tag in [3, 4, 5] {
        world.settle_delivery(members[0], tag);
    }
    assert_eq!(give(&mut world, publisher, members, &["t/a"]), [1]);
}

#[test]
fn what_waits_for_its_member_does_not_hold_others_up() {
    let mut world = ordered(GroupStrategy::Adaptive, OrderKey::Address);
    let members = members::<2>(&mut world);
    let publisher = world.connect("p");
    // One each; then a waits for its member only.
    assert_eq!(
        give(
            &mut world,
            publisher,
            members,
            &["t/a", "t/b", "t/a", "t/c"]
        ),
        [0, 1, 9, 9]
    );
    world.wait(Span::from_millis(10));
    world.settle_delivery(members[1], 1);
    assert_eq!(
        (world.texts(members[0]), world.texts(members[1])),
        (vec![], vec!["t/c".to_owned()])
    );
    world.settle_delivery(members[0], 1);
    assert_eq!(world.texts(members[0]), ["t/a"]);
}

#[test]
fn what_comes_behind_one_that_waits_stays_behind_it() {
    let mut world = ordered(GroupStrategy::RoundRobin, OrderKey::Publisher);
    let members = members::<2>(&mut world);
    let (p, o) = (world.connect("p"), world.connect("o"));
    assert_eq!(give(&mut world, p, members, &["t/1"]), [0]);
    world.set_room(members[0], 0);
    assert_eq!(give(&mut world, p, members, &["t/2", "t/3"]), [9, 9]);
    assert_eq!(give(&mut world, o, members, &["t/4"]), [1]);
    world.make_room(members[0], 10);
    assert_eq!(world.texts(members[0]), ["t/2", "t/3"]);
}

#[test]
fn a_member_may_wish_for_order() {
    let mut world = World::without_prefixes(1, Limits::default());
    let members = members::<2>(&mut world);
    let (publisher, first) = (world.connect("p"), members[0].session);
    let terms = WorkTerms {
        ordered: Some(OrderKey::Publisher),
        ..WorkTerms::default()
    };
    world.run(0, |kernel, _, now| {
        kernel.set_work_terms(first, Some(("g", "t/+")), terms, now)
    });
    assert_eq!(
        give(&mut world, publisher, members, &["t/1", "t/2", "t/3"]),
        [0, 9, 9]
    );
}

#[test]
fn what_nobody_settles_goes_by_a_hash_of_its_key() {
    let mut world = ordered(GroupStrategy::Adaptive, OrderKey::Address);
    let members = members::<3>(&mut world);
    let publisher = world.connect("p");
    let mut used = [0; 3];
    for key in 0..20 {
        let address = format!("t/{key}");
        let before: Vec<usize> = members.iter().map(|who| world.got(*who).len()).collect();
        assert_eq!(before, [0; 3]);
        for _ in 0..5 {
            world.publish(publisher, draft(&address, "m"));
        }
        let got: Vec<usize> = members.iter().map(|who| world.got(*who).len()).collect();
        let with = got
            .iter()
            .position(|count| *count == 5)
            .unwrap_or_else(|| panic!("{address}: {got:?}"));
        used[with] += 1;
    }
    assert!(used.iter().all(|count| *count > 0), "{used:?}");
}

#[test]
fn a_hash_waits_for_its_member_and_drains_before_it_moves() {
    let limits = Limits {
        group_strategy: GroupStrategy::HashAddress,
        ..Limits::default()
    };
    let mut world = World::without_prefixes(1, limits);
    let members = members::<2>(&mut world);
    let publisher = world.connect("p");
    // An address of the first, and one that a third member would take over from it.
    let address = (0..).map(|number| format!("t/{number}"));
    let mut of_first =
        address.filter(|address| give(&mut world, publisher, members, &[address]) == [0]);
    let addresses: Vec<String> = of_first.by_ref().take(12).collect();
    drop(of_first);
    world.set_room(members[0], 0);
    assert_eq!(
        give(&mut world, publisher, members, &[&addresses[0]]),
        [9],
        "nobody else has it"
    );
    world.make_room(members[0], 100);
    assert_eq!(world.texts(members[0]), [addresses[0].as_str()]);
    let third = world.connect("third");
    world.subscribe(third, "t/+", Some("g"), ONCE);
    for address in &addresses {
        world.publish(publisher, firm(address, address));
    }
    assert_eq!(
        world.texts(third),
        [""; 0],
        "the first has not settled what it has of them"
    );
    world.got(members[0]);
    for tag in 1..60 {
        world.settle_delivery(members[0], tag);
    }
    for address in &addresses {
        world.publish(publisher, firm(address, address));
    }
    let (stays, moves) = (world.texts(members[0]).len(), world.texts(third).len());
    assert!(
        stays > 0 && moves > 0 && stays + moves == 12,
        "{stays} {moves}"
    );
}

#[test]
fn what_a_session_has_not_settled_when_it_leaves_the_group_holds_its_key() {
    let mut world = ordered(GroupStrategy::RoundRobin, OrderKey::Address);
    let members = members::<2>(&mut world);
    let publisher = world.connect("p");
    assert_eq!(give(&mut world, publisher, members, &["t/a"]), [0]);
    world.unsubscribe(members[0], "t/+", Some("g"));
    assert_eq!(
        give(&mut world, publisher, members, &["t/a", "t/b"]),
        [9, 1]
    );
    world.settle_delivery(members[0], 1);
    world.wait(Span::from_millis(100));
    assert_eq!(world.texts(members[1]), ["t/a"]);
}

#[test]
fn an_exactly_once_copy_of_a_session_that_is_away_holds_its_key() {
    let mut world = ordered(GroupStrategy::RoundRobin, OrderKey::Address);
    let (home, stays) = (world.home(), Span::from_secs(3600));
    let member = world.connect_with(home, "m", Access::ALL, stays);
    world.subscribe(member, "t/+", Some("g"), Reliability::ExactlyOnce);
    let publisher = world.connect("p");
    let exactly = |ticket| Draft {
        reliability: Reliability::ExactlyOnce,
        ticket,
        ..firm("t/a", "m")
    };
    world.publish(publisher, exactly(1));
    let other = world.connect("o");
    world.subscribe(other, "t/+", Some("g"), Reliability::ExactlyOnce);
    world.lose(member);
    world.publish(publisher, exactly(2));
    world.wait(Span::from_secs(10));
    assert_eq!(world.texts(other), [""; 0]);
    let member = world.connect_with(home, "m", Access::ALL, stays);
    let got = world.got(member);
    assert_eq!(
        got.iter().map(|got| got.deliveries).collect::<Vec<_>>(),
        [1, 0],
        "and the next one behind it"
    );
}

#[test]
fn an_exactly_once_copy_holds_its_key_until_its_second_step() {
    let mut world = ordered(GroupStrategy::RoundRobin, OrderKey::Address);
    let members = ["a", "b"].map(|name| world.connect(name));
    for who in members {
        world.subscribe(who, "t/+", Some("g"), Reliability::ExactlyOnce);
    }
    let publisher = world.connect("p");
    let exactly = |ticket| Draft {
        reliability: Reliability::ExactlyOnce,
        ticket,
        ..firm("t/a", "m")
    };
    world.publish(publisher, exactly(1));
    assert_eq!(world.texts(members[0]), ["m"]);
    let received = world.run(0, |kernel, out, now| {
        kernel.receive(members[0].session, 1, now, out)
    });
    assert_eq!(received, Settled::Known);
    world.publish(publisher, exactly(2));
    assert_eq!(
        (world.texts(members[0]).len(), world.texts(members[1]).len()),
        (1, 0),
        "it may be at work at the first"
    );
    let settled = world.run(0, |kernel, out, now| {
        kernel.settle(members[0].session, 1, Verdict::Accept, now, out)
    });
    assert_eq!(settled, Settled::Known);
    world.publish(publisher, exactly(3));
    assert_eq!(
        (world.texts(members[0]).len(), world.texts(members[1]).len()),
        (1, 0),
        "there is the second"
    );
}

/// Nine workers of all kinds, 40 keys; workers come, go, freeze, leave and join.
fn run(seed: u64, strategy: GroupStrategy, by: OrderKey) -> Crew {
    let kinds: Vec<(Membership, u32)> = (0..9)
        .map(|at| {
            (
                [Membership::Stays, Membership::Goes, Membership::Consumes][at % 3],
                4 + at as u32 % 5,
            )
        })
        .collect();
    let mut crew = Crew::new(ordered(strategy, by), seed, "t/#", &kinds);
    crew.is_ordered = true;
    for _ in 0..2_500 {
        if crew.dice.roll(10) < 8 {
            let key = crew.dice.roll(40);
            crew.publish(key);
        }
        let at = crew.dice.roll(9);
        match crew.dice.roll(600) {
            0..3 => {
                let away = 1 + crew.dice.roll(400) as u32;
                crew.go(at, away);
            }
            3 => crew.leave_and_join(at),
            4 if crew.dice.roll(3) == 0 => crew.freeze(at, 3_000),
            _ => {}
        }
        crew.step();
    }
    crew.finish_all();
    crew.assert_in_order();
    crew
}

#[test]
fn nothing_overtakes_whoever_comes_and_goes() {
    for seed in 0..6 {
        let by = if seed % 2 == 0 {
            OrderKey::Address
        } else {
            OrderKey::Publisher
        };
        let strategy = match seed % 3 {
            0 | 1 => GroupStrategy::Adaptive,
            _ => GroupStrategy::RoundRobin,
        };
        let crew = run(seed, strategy, by);
        assert!(crew.losses > 3, "seed {seed}");
    }
}

#[test]
fn nothing_overtakes_where_a_hash_decides() {
    for seed in 10..13 {
        run(seed, GroupStrategy::HashPublisher, OrderKey::Publisher);
    }
}
