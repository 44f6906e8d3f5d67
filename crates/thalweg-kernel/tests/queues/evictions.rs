//! Members that fall silent: their links end first, then what they had goes to the others, and coming back is on trial.

use crate::world::{Got, Taking, Who, World, draft, firm};
use thalweg_kernel::access::{Access, Otherwise, Rules};
use thalweg_kernel::{CloseReason, Draft, GroupStrategy, Limits, Settled, Subscribed, Verdict};
use thalweg_model::{Reliability, Span};

const MOMENT: Span = Span::from_millis(10);

fn join(world: &mut World, name: &str, expiry: Span, reliability: Reliability) -> Who {
    let who = world.connect_with(0, name, Access::ALL, expiry);
    assert_eq!(
        world.subscribe(who, "t", Some("g"), reliability),
        Subscribed::Granted(reliability)
    );
    who
}

fn number(text: &str) -> u32 {
    text.parse().expect("a number")
}

fn world(strategy: GroupStrategy) -> World {
    let limits = Limits {
        group_strategy: strategy,
        group_adaptive_eviction: true,
        ..Limits::default()
    };
    World::without_prefixes(1, limits)
}

/// Members take turns and have three seconds to settle.
fn in_turn_with_three_seconds() -> World {
    let limits = Limits {
        group_strategy: GroupStrategy::RoundRobin,
        group_settle_timeout: Span::from_secs(3),
        ..Limits::default()
    };
    World::without_prefixes(1, limits)
}

/// Publishes one message every 10 ms; every member but the frozen one settles within those. Returns the others'
/// settlements, and when the frozen one's link ended.
fn work(
    world: &mut World,
    frozen: Who,
    others: &[Who],
    steps: std::ops::Range<u32>,
) -> (Vec<Got>, Option<u32>) {
    let publisher = world.connect("publisher");
    let (mut settled, mut ended) = (Vec::new(), None);
    for step in steps {
        world.publish(publisher, firm("t", &step.to_string()));
        let came: Vec<(Who, Vec<Got>)> = others.iter().map(|who| (*who, world.got(*who))).collect();
        world.wait(MOMENT);
        for (who, came) in came {
            for got in came {
                world.settle_delivery(who, got.tag);
                settled.push(got);
            }
        }
        if ended.is_none() && world.closed(frozen).is_some() {
            ended = Some(step);
        }
    }
    (settled, ended)
}

#[test]
fn a_silent_members_link_ends_first_and_then_others_get_what_it_had_flagged_and_in_order() {
    let mut world = world(GroupStrategy::Adaptive);
    let frozen = join(
        &mut world,
        "frozen",
        Span::FOREVER,
        Reliability::AtLeastOnce,
    );
    let others =
        ["a", "b"].map(|name| join(&mut world, name, Span::FOREVER, Reliability::AtLeastOnce));
    let (settled, ended) = work(&mut world, frozen, &others, 0..230);
    assert_eq!(world.closed(frozen), Some(CloseReason::Stalled));
    assert!(
        ended.is_some_and(|step| (200..220).contains(&step)),
        "{ended:?}: within 2.2 s"
    );
    let held = world.got(frozen);
    assert!((1..=2).contains(&held.len()), "{held:?}");
    let again: Vec<&str> = settled
        .iter()
        .filter(|got| got.deliveries > 0)
        .map(|got| got.text.as_str())
        .collect();
    assert_eq!(
        again,
        held.iter().map(|got| got.text.as_str()).collect::<Vec<_>>()
    );
    // Nobody had a second copy while the first receiver was there.
    let at = |text: &str| {
        settled
            .iter()
            .position(|got| got.text == text)
            .expect("it came")
    };
    assert!(at(&held[0].text) > at("190"), "not before the link ended");
    let late = world.settle_delivery(frozen, held[0].tag);
    assert_eq!(late, Settled::Unknown, "its word counts no more");
}

#[test]
fn an_eviction_is_told_with_what_it_was_about() {
    let mut world = world(GroupStrategy::Adaptive);
    let frozen = join(
        &mut world,
        "frozen",
        Span::FOREVER,
        Reliability::AtLeastOnce,
    );
    let other = join(&mut world, "other", Span::FOREVER, Reliability::AtLeastOnce);
    let (_, ended) = work(&mut world, frozen, &[other], 0..230);
    assert!(ended.is_some());
    let told: Vec<_> = world.run(0, |kernel, _, _| kernel.take_evicted().collect());
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(
        (&*told[0].client, &*told[0].group, &*told[0].filter),
        ("frozen", "g", "t")
    );
    assert_eq!((told[0].returned, told[0].strikes), (1, 1));
    assert_eq!(
        world.run(0, |kernel, _, _| kernel.take_evicted().count()),
        0,
        "once"
    );
}

#[test]
fn who_is_alone_keeps_what_it_has() {
    let mut world = world(GroupStrategy::Adaptive);
    let alone = join(&mut world, "alone", Span::FOREVER, Reliability::AtLeastOnce);
    let away = join(&mut world, "away", Span::FOREVER, Reliability::AtLeastOnce);
    world.lose(away);
    work(&mut world, alone, &[], 0..6_000);
    assert_eq!(world.closed(alone), None);
    let held = world.got(alone);
    assert_eq!(world.settle_delivery(alone, held[0].tag), Settled::Known);
}

#[test]
fn nobody_is_evicted_where_all_are_silent() {
    for strategy in [GroupStrategy::Adaptive, GroupStrategy::RoundRobin] {
        let mut world = world(strategy);
        let members = ["a", "b", "c"]
            .map(|name| join(&mut world, name, Span::FOREVER, Reliability::AtLeastOnce));
        work(&mut world, members[0], &[], 0..100);
        for _ in 0..100 {
            world.wait(Span::from_secs(1));
        }
        assert_eq!(
            members.map(|who| world.closed(who)),
            [None; 3],
            "{strategy:?}"
        );
    }
}

#[test]
fn a_fixed_limit_holds_whatever_the_strategy() {
    let mut world = in_turn_with_three_seconds();
    let frozen = join(&mut world, "frozen", Span::ZERO, Reliability::AtLeastOnce);
    let other = join(&mut world, "other", Span::ZERO, Reliability::AtLeastOnce);
    let (settled, ended) = work(&mut world, frozen, &[other], 0..320);
    assert_eq!(world.closed(frozen), Some(CloseReason::Stalled));
    assert_eq!(ended, Some(299));
    assert_eq!(
        settled.iter().filter(|got| got.deliveries > 0).count(),
        150,
        "what it had been given in turn"
    );
    let again: Vec<u32> = settled
        .iter()
        .filter(|got| got.deliveries > 0)
        .map(|got| number(&got.text))
        .collect();
    assert!(again.is_sorted(), "{again:?}");
}

#[test]
fn a_slow_member_that_goes_on_is_not_silent() {
    let mut world = in_turn_with_three_seconds();
    let slow = join(&mut world, "slow", Span::ZERO, Reliability::AtLeastOnce);
    let other = join(&mut world, "other", Span::ZERO, Reliability::AtLeastOnce);
    let publisher = world.connect("p");
    for number in 0..20 {
        world.publish(publisher, firm("t", &number.to_string()));
    }
    let (mine, theirs) = (world.got(slow), world.got(other));
    theirs
        .iter()
        .for_each(|got| assert_eq!(world.settle_delivery(other, got.tag), Settled::Known));
    // Two seconds each, one after the other: the last one is settled after twenty.
    for got in mine {
        world.wait(Span::from_secs(2));
        assert_eq!(world.settle_delivery(slow, got.tag), Settled::Known);
    }
    assert_eq!(world.closed(slow), None);
}

#[test]
fn one_delivery_that_is_never_settled_is_silence_though_others_are_settled() {
    let mut world = in_turn_with_three_seconds();
    let stuck = join(&mut world, "stuck", Span::ZERO, Reliability::AtLeastOnce);
    let other = join(&mut world, "other", Span::ZERO, Reliability::AtLeastOnce);
    let publisher = world.connect("p");
    for number in 0..50 {
        world.publish(publisher, firm("t", &number.to_string()));
        for who in [stuck, other] {
            for got in world.got(who) {
                if got.text != "0" || who == other {
                    world.settle_delivery(who, got.tag);
                }
            }
        }
        world.wait(Span::from_millis(100));
    }
    assert_eq!(world.closed(stuck), Some(CloseReason::Stalled));
}

#[test]
fn who_may_not_have_the_message_is_no_reason_to_take_it_away() {
    let limits = Limits {
        group_settle_timeout: Span::from_secs(3),
        ..Limits::default()
    };
    let mut world = World::without_prefixes(1, limits);
    let holder = join(&mut world, "holder", Span::ZERO, Reliability::AtLeastOnce);
    let other = join(&mut world, "other", Span::ZERO, Reliability::AtLeastOnce);
    world.run(0, |kernel, _, _| {
        kernel.set_access(
            other.session,
            Rules::new(Vec::new(), Otherwise::Deny)
                .expect("legal")
                .compile("other", None),
        )
    });
    let publisher = world.connect("p");
    world.publish(publisher, firm("t", "m"));
    for _ in 0..10 {
        world.wait(Span::from_secs(1));
    }
    assert_eq!((world.texts(holder).len(), world.closed(holder)), (1, None));
}

#[test]
fn who_comes_back_has_one_message_until_it_settles_it() {
    for strategy in [
        GroupStrategy::Adaptive,
        GroupStrategy::RoundRobin,
        GroupStrategy::Sticky,
    ] {
        let limits = Limits {
            group_strategy: strategy,
            group_settle_timeout: Span::from_secs(2),
            ..Limits::default()
        };
        let mut world = World::without_prefixes(1, limits);
        let frozen = join(
            &mut world,
            "frozen",
            Span::FOREVER,
            Reliability::AtLeastOnce,
        );
        let other = join(&mut world, "other", Span::FOREVER, Reliability::AtLeastOnce);
        let (_, ended) = work(&mut world, frozen, &[other], 0..230);
        assert!(ended.is_some(), "{strategy:?}");
        // The other member stops working: all messages are for the one that came back.
        world.lose(other);
        let back = join(
            &mut world,
            "frozen",
            Span::FOREVER,
            Reliability::AtLeastOnce,
        );
        let publisher = world.connect("p");
        for _ in 0..5 {
            world.publish(publisher, firm("t", "m"));
        }
        let got = world.got(back);
        assert_eq!(got.len(), 1, "{strategy:?}");
        world.settle_delivery(back, got[0].tag);
        let got = world.got(back);
        assert!(
            !got.is_empty() && got.iter().all(|got| got.settles),
            "{strategy:?}: trusted again"
        );
        if strategy != GroupStrategy::Adaptive {
            assert!(got.len() >= 4, "{strategy:?}");
        }
    }
}

#[test]
fn from_the_second_time_on_it_waits_before_its_first_message_twice_as_long_each_time() {
    let mut world = world(GroupStrategy::Adaptive);
    let other = join(&mut world, "other", Span::FOREVER, Reliability::AtLeastOnce);
    for pause in [0, 0, 1_000, 2_000, 4_000] {
        let frozen = join(
            &mut world,
            "frozen",
            Span::FOREVER,
            Reliability::AtLeastOnce,
        );
        let (_, _) = work(&mut world, frozen, &[other], 0..pause / 10);
        assert_eq!(world.got(frozen).len(), 0, "after {pause} ms");
        let publisher = world.connect("p");
        // More than the other member accepts, so that each gets some.
        for _ in 0..5 {
            world.publish(publisher, firm("t", "m"));
        }
        let (_, ended) = work(&mut world, frozen, &[other], 0..600);
        assert!(ended.is_some(), "{pause} ms");
        assert_eq!(world.got(frozen).len(), 1, "{pause} ms");
    }
}

#[test]
fn a_session_that_ends_with_its_link_is_remembered_by_its_name() {
    let mut world = world(GroupStrategy::Adaptive);
    let other = join(&mut world, "other", Span::FOREVER, Reliability::AtLeastOnce);
    for pause in [0, 0, 1_000] {
        let frozen = join(&mut world, "frozen", Span::ZERO, Reliability::AtLeastOnce);
        work(&mut world, frozen, &[other], 0..pause / 10);
        assert_eq!(world.got(frozen).len(), 0, "after {pause} ms");
        let publisher = world.connect("p");
        for _ in 0..5 {
            world.publish(publisher, firm("t", "m"));
        }
        let (_, ended) = work(&mut world, frozen, &[other], 0..600);
        assert!(ended.is_some(), "{pause} ms");
    }
}

#[test]
fn a_consumer_of_a_line_that_falls_silent_loses_its_link_and_what_it_had() {
    let mut world = world(GroupStrategy::Adaptive);
    let frozen = world.connect("frozen");
    world
        .consume_from(frozen, "$g/g/t", 1, Taking::credit(10))
        .expect("it may");
    let other = join(&mut world, "other", Span::FOREVER, Reliability::AtLeastOnce);
    let (settled, ended) = work(&mut world, frozen, &[other], 0..230);
    assert!(ended.is_some_and(|step| step < 220), "{ended:?}");
    let held = world.got(frozen);
    assert!((1..=2).contains(&held.len()), "{held:?}");
    let again: Vec<&str> = settled
        .iter()
        .filter(|got| got.deliveries > 0)
        .map(|got| got.text.as_str())
        .collect();
    assert_eq!(
        again,
        held.iter().map(|got| got.text.as_str()).collect::<Vec<_>>()
    );
}

#[test]
fn where_a_line_can_be_ended_alone_the_link_and_its_other_lines_go_on() {
    let mut world = world(GroupStrategy::Adaptive);
    let frozen = world.connect("frozen");
    world.let_lines_end(frozen);
    world
        .consume_from(frozen, "$g/g/t", 1, Taking::credit(10))
        .expect("it may");
    world
        .consume_from(frozen, "$g/g/other", 2, Taking::on(2))
        .expect("it may");
    let other = join(&mut world, "other", Span::FOREVER, Reliability::AtLeastOnce);
    let (settled, _) = work(&mut world, frozen, &[other], 0..230);
    assert_eq!(
        (world.lines_ended(frozen), world.closed(frozen)),
        (vec![1], None)
    );
    let held = world.got(frozen);
    let again: Vec<&str> = settled
        .iter()
        .filter(|got| got.deliveries > 0)
        .map(|got| got.text.as_str())
        .collect();
    assert_eq!(
        again,
        held.iter().map(|got| got.text.as_str()).collect::<Vec<_>>()
    );
    // Its other line goes on, and a new one has one message until it settles that.
    let publisher = world.connect("p");
    world.publish(publisher, firm("other", "m"));
    let got = world.got(frozen);
    assert_eq!((got.len(), got[0].line), (1, 2));
    assert_eq!(
        world.settle(frozen, 2, got[0].tag, false, Verdict::Accept),
        Settled::Known
    );
}

#[test]
fn a_lost_link_gives_its_copies_to_others_at_once_before_what_waits() {
    for expiry in [Span::FOREVER, Span::ZERO] {
        let mut world = world(GroupStrategy::Adaptive);
        let lost = join(&mut world, "lost", expiry, Reliability::AtLeastOnce);
        let other = join(&mut world, "other", expiry, Reliability::AtLeastOnce);
        let publisher = world.connect("p");
        for number in 0..6 {
            world.publish(publisher, firm("t", &number.to_string()));
        }
        let held = world.texts(lost);
        assert_eq!(held.len(), 1, "no more than two copies are doubled");
        let first = world.got(other);
        world.settle_delivery(other, first[0].tag);
        let second = world.got(other);
        assert_eq!(second[0].text, "2");
        world.lose(lost);
        world.settle_delivery(other, second[0].tag);
        let third = world.got(other);
        assert_eq!(
            (third[0].text.as_str(), third[0].deliveries),
            (held[0].as_str(), 1),
            "before 3, 4 and 5"
        );
    }
}

#[test]
fn an_idle_member_gets_what_a_lost_one_had_in_the_same_turn() {
    let mut world = world(GroupStrategy::RoundRobin);
    let lost = join(&mut world, "lost", Span::FOREVER, Reliability::AtLeastOnce);
    let other = join(&mut world, "other", Span::FOREVER, Reliability::AtLeastOnce);
    let publisher = world.connect("p");
    for number in 0..6 {
        world.publish(publisher, firm("t", &number.to_string()));
    }
    let (held, _) = (world.texts(lost), world.texts(other));
    assert_eq!(held, ["0", "2", "4"]);
    world.lose(lost);
    let got = world.got(other);
    assert_eq!(
        got.iter()
            .map(|got| (got.text.as_str(), got.deliveries))
            .collect::<Vec<_>>(),
        [("0", 1), ("2", 1), ("4", 1)]
    );
}

fn once(text: &str, ticket: u16) -> Draft<'_> {
    Draft {
        reliability: Reliability::ExactlyOnce,
        ticket,
        ..firm("t", text)
    }
}

#[test]
fn of_exactly_once_messages_a_member_holds_one_at_a_time() {
    let mut world = world(GroupStrategy::Adaptive);
    let member = join(&mut world, "m", Span::FOREVER, Reliability::ExactlyOnce);
    let publisher = world.connect("p");
    // A far network and quick work: of others it would have several ahead.
    let far = (Span::from_millis(100), Span::ZERO);
    world.run(0, |kernel, _, _| {
        kernel.round_trip_measured(member.session, far.0, far.1)
    });
    let mut most = 0;
    for number in 1..400_u16 {
        world.publish(publisher, once("m", number));
        world.wait(MOMENT);
        let got = world.got(member);
        most = most.max(got.len());
        for got in got {
            let (id, tag) = (member.session, got.tag as u16);
            world.run(0, |kernel, out, now| kernel.receive(id, tag, now, out));
            world.run(0, |kernel, out, now| {
                kernel.settle(id, tag, Verdict::Accept, now, out)
            });
        }
    }
    assert_eq!(most, 1);
}

#[test]
fn an_exactly_once_message_stays_with_its_member_over_silence_and_a_new_link() {
    let limits = Limits {
        group_settle_timeout: Span::from_secs(2),
        ..Limits::default()
    };
    let mut world = World::without_prefixes(1, limits);
    let first = join(&mut world, "first", Span::FOREVER, Reliability::ExactlyOnce);
    let publisher = world.connect("p");
    world.publish(publisher, once("m", 1));
    assert_eq!(world.texts(first), ["m"]);
    let other = join(&mut world, "other", Span::FOREVER, Reliability::ExactlyOnce);
    for number in 2..500 {
        world.publish(publisher, once("x", number));
        for got in world.got(other) {
            assert_eq!(got.text, "x");
            let (id, tag) = (other.session, got.tag as u16);
            world.run(0, |kernel, out, now| kernel.receive(id, tag, now, out));
            world.run(0, |kernel, out, now| {
                kernel.settle(id, tag, Verdict::Accept, now, out)
            });
        }
        world.wait(MOMENT);
    }
    assert_eq!(
        world.closed(first),
        None,
        "nobody else would have anything of it"
    );
    world.lose(first);
    assert!(!world.texts(other).contains(&"m".into()));
    let back = world.connect_with(0, "first", Access::ALL, Span::FOREVER);
    assert_eq!(world.texts(back)[0], "m");
}

#[test]
fn an_exactly_once_message_ends_with_its_members_session_and_is_counted_so() {
    let mut world = world(GroupStrategy::Adaptive);
    let first = join(&mut world, "first", Span::ZERO, Reliability::ExactlyOnce);
    let publisher = world.connect("p");
    world.publish(publisher, once("m", 1));
    assert_eq!(world.texts(first), ["m"]);
    let other = join(&mut world, "other", Span::FOREVER, Reliability::ExactlyOnce);
    world.lose(first);
    world.wait(Span::from_secs(100));
    assert_eq!(world.texts(other), [""; 0]);
    assert_eq!(world.dropped(thalweg_kernel::DropReason::SessionEnded), 1);
    let mut dropped = 0;
    let now = world.now;
    world.kernels[0].for_each_group(now, |view| dropped += view.counters.dropped);
    assert_eq!(dropped, 1);
}

#[test]
fn an_exactly_once_message_that_was_sent_reaches_nobody_else_after_a_restart() {
    for (expiry, waited) in [
        (Span::FOREVER, false),
        (Span::ZERO, false),
        (Span::FOREVER, true),
        (Span::ZERO, true),
    ] {
        let mut world = world(GroupStrategy::Adaptive);
        let other = join(&mut world, "other", Span::FOREVER, Reliability::ExactlyOnce);
        world.lose(other);
        let publisher = world.connect("p");
        if waited {
            world.publish(publisher, once("m", 1));
        }
        let first = join(&mut world, "first", expiry, Reliability::ExactlyOnce);
        if !waited {
            world.publish(publisher, once("m", 1));
        }
        assert_eq!(world.texts(first), ["m"]);
        world.restart();
        let other = world.connect_with(0, "other", Access::ALL, Span::FOREVER);
        assert_eq!(world.texts(other), [""; 0], "{expiry:?} {waited}");
        let first = world.connect_with(0, "first", Access::ALL, expiry);
        let expected: &[&str] = if expiry == Span::ZERO { &[] } else { &["m"] };
        assert_eq!(world.texts(first), expected, "{expiry:?} {waited}");
    }
}

#[test]
fn an_exactly_once_message_that_nobody_was_sent_survives_a_restart() {
    let mut world = world(GroupStrategy::Adaptive);
    let other = join(&mut world, "other", Span::FOREVER, Reliability::ExactlyOnce);
    world.lose(other);
    let full = join(&mut world, "full", Span::ZERO, Reliability::ExactlyOnce);
    world.set_room(full, 0);
    let publisher = world.connect("p");
    world.publish(publisher, once("m", 1));
    world.restart();
    let other = world.connect_with(0, "other", Access::ALL, Span::FOREVER);
    assert_eq!(world.texts(other), ["m"]);
}

#[test]
fn an_output_that_is_full_leaves_its_messages_to_others() {
    for reliability in [Reliability::AtMostOnce, Reliability::AtLeastOnce] {
        for strategy in [GroupStrategy::Adaptive, GroupStrategy::RoundRobin] {
            let mut world = world(strategy);
            let members =
                ["full", "free"].map(|name| join(&mut world, name, Span::ZERO, reliability));
            world.set_room(members[0], 0);
            let publisher = world.connect("p");
            for number in 0..8 {
                world.publish(
                    publisher,
                    Draft {
                        reliability,
                        ..draft("t", &number.to_string())
                    },
                );
                world.wait(Span::ZERO);
                if reliability > Reliability::AtMostOnce {
                    for got in world.got(members[1]) {
                        world.settle_delivery(members[1], got.tag);
                    }
                }
            }
            assert_eq!(world.waiting_in_groups(), 0, "{reliability:?} {strategy:?}");
            assert_eq!(world.texts(members[0]), [""; 0]);
            assert_eq!(world.kernels[0].ledger().dropped_total(), 0);
        }
    }
}

#[test]
fn an_at_most_once_message_waits_in_the_group_while_all_outputs_are_full_up_to_its_bound() {
    let limits = Limits {
        group_messages_max: 3,
        ..Limits::default()
    };
    let mut world = World::without_prefixes(1, limits);
    let members =
        ["a", "b"].map(|name| join(&mut world, name, Span::ZERO, Reliability::AtMostOnce));
    members.iter().for_each(|who| world.set_room(*who, 1));
    let publisher = world.connect("p");
    for number in 0..8 {
        world.publish(publisher, draft("t", &number.to_string()));
    }
    assert_eq!(members.map(|who| world.texts(who).len()), [1, 1]);
    assert_eq!(world.waiting_in_groups(), 3);
    assert_eq!(world.dropped(thalweg_kernel::DropReason::QueueFull), 3);
    world.make_room(members[1], 10);
    assert_eq!(world.texts(members[1]), ["2", "3", "4"]);
}
