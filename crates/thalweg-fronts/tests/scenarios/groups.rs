//! Groups: one message, one member.

use crate::world::Packet;
use crate::world::{Hello, Who, World, staying};
use thalweg_fronts::LinksLimits;
use thalweg_kernel::access::{Otherwise, Permission, Permissions, Rule, Rules};
use thalweg_kernel::{DropReason, GroupStrategy, Limits};
use thalweg_model::Span;
use thalweg_mqtt::{PublishOut, QoS, ReasonCode};

const SHARED: &str = "$share/g/t/#";

fn member(world: &mut World, name: &str, hello: &Hello<'_>) -> Who {
    let (who, present) = world.connect_with(name, hello);
    if !present {
        world.subscribe(who, SHARED, QoS::ExactlyOnce);
    }
    who
}

#[test]
fn each_message_goes_to_one_member_and_all_members_on_all_shards_get_some() {
    let mut world = World::new(3);
    let members: Vec<Who> = (0..3)
        .map(|shard| {
            let name = world.name_on(shard, "m");
            member(&mut world, &name, &staying())
        })
        .collect();
    let publisher = world.connect("p");
    for number in 0..30 {
        world.publish(publisher, "t/1", &number.to_string(), QoS::ExactlyOnce);
    }
    let mut all: Vec<u32> = Vec::new();
    for member in members {
        let got = world.texts(member);
        assert!(got.len() >= 5, "a fair share is ten, not {}", got.len());
        all.extend(
            got.iter()
                .map(|text| text.parse::<u32>().expect("a number")),
        );
    }
    all.sort_unstable();
    assert_eq!(all, (0..30).collect::<Vec<_>>());
}

#[test]
fn a_group_whose_members_are_all_away_keeps_its_messages_for_the_first_that_returns() {
    let mut world = World::new(2);
    let names = (world.name_on(0, "a"), world.name_on(1, "b"));
    for name in [&names.0, &names.1] {
        let who = member(&mut world, name, &staying());
        world.lose(who);
    }
    let publisher = world.connect("p");
    for number in 0..10 {
        world.publish(publisher, "t/1", &number.to_string(), QoS::AtLeastOnce);
    }
    let back = member(&mut world, &names.1, &staying());
    let mut got = world.texts(back);
    got.sort();
    assert_eq!(got, ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]);
}

#[test]
fn what_a_member_does_not_settle_in_time_goes_to_another() {
    let limits = Limits {
        group_settle_timeout: Span::from_secs(30),
        ..Limits::default()
    };
    let mut world = World::with(1, limits, LinksLimits::default());
    let lazy = member(&mut world, "lazy", &staying());
    world.answer(lazy, false);
    let publisher = world.connect("p");
    world.publish(publisher, "t/1", "m", QoS::AtLeastOnce);
    let late = world.messages(lazy);
    assert_eq!(late.len(), 1);
    let eager = member(&mut world, "eager", &staying());
    world.wait(Span::from_secs(29));
    assert_eq!(world.texts(eager), [""; 0]);
    world.wait(Span::from_secs(2));
    // First its connection has ended, as MQTT 5 §4.8.2 requires, with a reason code.
    assert_eq!(
        world.heard(lazy),
        Some(Packet::Disconnect(ReasonCode::QuotaExceeded))
    );
    let got = world.messages(eager);
    assert_eq!(
        got.iter()
            .map(|got| (&*got.payload, got.dup))
            .collect::<Vec<_>>(),
        [(&b"m"[..], true)]
    );
    let (lazy, present) = world.connect_with("lazy", &staying());
    assert!(present && late.len() == 1);
    assert_eq!(world.texts(lazy), [""; 0], "it is not its any more");
    assert_eq!(world.bed.total(|totals| totals.in_flight), 0);
}

#[test]
fn credit_that_moved_messages_held_is_back_after_a_reconnect() {
    let limits = Limits {
        group_settle_timeout: Span::from_secs(1),
        ..Limits::default()
    };
    let mut world = World::with(1, limits, LinksLimits::default());
    let hello = Hello {
        receive_max: 1,
        ..staying()
    };
    let lazy = member(&mut world, "lazy", &hello);
    world.answer(lazy, false);
    let publisher = world.connect("p");
    world.publish(publisher, "t/1", "moves", QoS::AtLeastOnce);
    assert_eq!(world.texts(lazy), ["moves"]);
    let eager = member(&mut world, "eager", &staying());
    world.wait(Span::from_secs(2));
    assert_eq!(world.texts(eager), ["moves"]);
    world.leave(eager);
    world.lose(lazy);
    let lazy = member(&mut world, "lazy", &hello);
    world.publish(publisher, "t/1", "next", QoS::AtLeastOnce);
    assert_eq!(world.texts(lazy), ["next"]);
}

#[test]
fn a_returning_member_gets_what_waited_for_the_group_once() {
    let mut world = World::new(1);
    let who = member(&mut world, "m", &staying());
    world.lose(who);
    let publisher = world.connect("p");
    world.publish(publisher, "t/1", "m", QoS::ExactlyOnce);
    let who = member(&mut world, "m", &staying());
    let got = world.messages(who);
    assert_eq!(got.len(), 1);
    assert!(!got[0].dup, "it was never sent before [MQTT-3.3.1-3]");
}

#[test]
fn what_a_lost_member_has_not_acknowledged_goes_to_another_at_least_once_and_stays_at_exactly_once()
{
    let mut world = World::new(2);
    let names = (world.name_on(0, "lost"), world.name_on(1, "other"));
    let lost = member(&mut world, &names.0, &staying());
    world.answer(lost, false);
    let publisher = world.connect("p");
    world.publish(publisher, "t/1", "once", QoS::ExactlyOnce);
    world.publish(publisher, "t/1", "perhaps twice", QoS::AtLeastOnce);
    let other = member(&mut world, &names.1, &staying());
    world.lose(lost);
    assert_eq!(world.texts(other), ["perhaps twice"]);
    let lost = member(&mut world, &names.0, &staying());
    assert_eq!(world.texts(lost), ["once"]);
}

#[test]
fn a_message_for_a_shard_whose_members_have_just_left_goes_on_to_another() {
    let mut world = World::new(3);
    let names = (
        world.name_on(0, "stays"),
        world.name_on(1, "leaves"),
        world.name_on(2, "p"),
    );
    let stays = member(&mut world, &names.0, &staying());
    let leaves = member(&mut world, &names.1, &staying());
    let publisher = world.connect(&names.2);
    // Two messages, one for each shard; the second member is gone before its message arrives.
    for payload in [b"1", b"2"] {
        let publish = PublishOut {
            qos: QoS::AtLeastOnce,
            topic: "t/1",
            payload,
            ..PublishOut::default()
        };
        world.write(publisher, &publish);
    }
    let (from, leaving) = (publisher, leaves);
    world.bed.feed(from, usize::MAX);
    world.bed.cut(leaving, 0);
    world.bed.notice(leaving);
    world.rest();
    let mut got = world.texts(stays);
    got.sort();
    assert_eq!(got, ["1", "2"]);
}

#[test]
fn what_a_former_member_has_not_settled_never_goes_to_another_group() {
    let mut world = World::new(1);
    let former = member(&mut world, "former", &staying());
    world.answer(former, false);
    let publisher = world.connect("p");
    world.publish(publisher, "t/1", "secret", QoS::AtLeastOnce);
    world.unsubscribe(former, SHARED);
    // Another group takes the number of the one that has ended.
    let stranger = world.connect("stranger");
    world.subscribe(stranger, "$share/other/elsewhere", QoS::AtLeastOnce);
    world.subscribe(former, "$share/other/elsewhere", QoS::AtLeastOnce);
    world.lose(former);
    assert_eq!(world.texts(stranger), [""; 0]);
    let (former, _) = world.connect_with("former", &staying());
    assert_eq!(
        world.texts(former),
        ["secret"],
        "it was sent to this session and is its own [MQTT-3.10.4-3]"
    );
}

#[test]
fn a_message_no_member_may_receive_does_not_stop_the_others() {
    let rules = vec![
        Rule::allow(Permissions::ALL, "#"),
        Rule::deny(Permission::Receive, "t/secret"),
    ];
    let access = Rules::new(rules, Otherwise::Deny)
        .expect("legal")
        .compile("m", None);
    let mut world = World::new(1);
    let who = member(
        &mut world,
        "m",
        &Hello {
            access,
            ..staying()
        },
    );
    let publisher = world.connect("p");
    world.publish(publisher, "t/secret", "no", QoS::AtLeastOnce);
    world.publish(publisher, "t/open", "yes", QoS::AtLeastOnce);
    assert_eq!(world.texts(who), ["yes"]);
    // The same for a message that waited for a member.
    world.lose(who);
    world.publish(publisher, "t/secret", "no", QoS::AtLeastOnce);
    world.publish(publisher, "t/open", "yes", QoS::AtLeastOnce);
    let rules = vec![Rule::deny(Permission::Receive, "t/secret")];
    let access = Rules::new(rules, Otherwise::Allow)
        .expect("legal")
        .compile("m", None);
    let who = member(
        &mut world,
        "m",
        &Hello {
            access,
            ..staying()
        },
    );
    assert_eq!(world.texts(who), ["yes"]);
    assert_eq!(
        world.sum(|kernel| kernel.ledger().dropped[DropReason::AccessDenied as usize]),
        2
    );
}

#[test]
fn messages_of_one_address_stay_with_one_member_if_the_strategy_says_so() {
    let limits = Limits {
        group_strategy: GroupStrategy::HashAddress,
        ..Limits::default()
    };
    let mut world = World::with(3, limits, LinksLimits::default());
    let members: Vec<Who> = (0..6)
        .map(|number| {
            let name = world.name_on(number % 3, if number < 3 { "a" } else { "b" });
            member(&mut world, &name, &staying())
        })
        .collect();
    for shard in 0..3 {
        let name = world.name_on(shard, "p");
        let publisher = world.connect(&name);
        for _ in 0..5 {
            world.publish(publisher, "t/1", "m", QoS::AtLeastOnce);
        }
    }
    let counts: Vec<usize> = members
        .iter()
        .map(|member| world.texts(*member).len())
        .collect();
    assert_eq!(
        counts.iter().filter(|count| **count == 15).count(),
        1,
        "{counts:?}"
    );
}
