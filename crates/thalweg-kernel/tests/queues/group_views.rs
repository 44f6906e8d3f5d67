//! Groups as operators see them: every message is counted, and the statistics of members are true.

use crate::world::{Taking, Who, World, draft, firm};
use std::sync::Arc;
use thalweg_kernel::access::{Access, Otherwise, Rules};
use thalweg_kernel::{
    Draft, GroupCounters, GroupMemberView, GroupPolicy, GroupStrategy, GroupView, Limits,
    LoadReport, OrderKey, Signal, Subscribed, Verdict, Waits,
};
use thalweg_model::{Filter, Reliability, Span};

fn world(strategy: GroupStrategy) -> World {
    World::without_prefixes(
        1,
        Limits {
            group_strategy: strategy,
            ..Limits::default()
        },
    )
}

fn join(world: &mut World, name: &str, reliability: Reliability) -> Who {
    let who = world.connect_with(0, name, Access::ALL, Span::FOREVER);
    assert_eq!(
        world.subscribe(who, "t", Some("g"), reliability),
        Subscribed::Granted(reliability)
    );
    who
}

fn view(world: &World) -> GroupView {
    let mut views = Vec::new();
    world.kernels[0].for_each_group(world.now, |view| views.push(view));
    assert_eq!(views.len(), 1);
    views.remove(0)
}

fn member<'a>(view: &'a GroupView, name: &str) -> &'a GroupMemberView {
    view.seats
        .iter()
        .find(|member| *member.client == *name)
        .expect("it is a member")
}

#[test]
fn what_waits_and_for_how_long_is_seen() {
    let mut world = world(GroupStrategy::Adaptive);
    let who = join(&mut world, "m", Reliability::AtLeastOnce);
    let publisher = world.connect("p");
    assert_eq!(view(&world).oldest, None);
    for _ in 0..3 {
        world.publish(publisher, firm("t", "m"));
        world.wait(Span::from_millis(100));
    }
    let seen = view(&world);
    assert_eq!(
        (seen.waiting, seen.oldest),
        (2, Some(Span::from_millis(200)))
    );
    assert_eq!((&*seen.name, &*seen.filter, seen.members), ("g", "t", 1));
    assert_eq!(seen.strategy, GroupStrategy::Adaptive);
    let tag = world.got(who)[0].tag;
    world.settle_delivery(who, tag);
    let seen = view(&world);
    assert_eq!(
        (seen.waiting, seen.oldest),
        (1, Some(Span::from_millis(100)))
    );
    let GroupCounters {
        arrived,
        chosen,
        held,
        settled,
        wait,
        ..
    } = seen.counters;
    assert_eq!((arrived, chosen, held, settled), (3, 2, 2, 1));
    assert_eq!((wait.count(), wait.sum), (1, Span::from_millis(200)));
}

#[test]
fn members_are_seen_with_what_they_have_and_had() {
    let mut world = world(GroupStrategy::Adaptive);
    let (quick, slow) = (
        join(&mut world, "quick", Reliability::AtLeastOnce),
        join(&mut world, "slow", Reliability::AtLeastOnce),
    );
    let (far, jitter) = (Span::from_millis(4), Span::ZERO);
    world.run(0, |kernel, _, _| {
        kernel.round_trip_measured(quick.session, far, jitter)
    });
    let publisher = world.connect("p");
    for _ in 0..60 {
        world.publish(publisher, firm("t", "m"));
        world.wait(Span::from_millis(20));
        for got in world.got(quick) {
            world.settle_delivery(quick, got.tag);
        }
    }
    let seen = view(&world);
    let (first, second) = (member(&seen, "quick"), member(&seen, "slow"));
    assert_eq!(
        (first.online, first.signal, first.round_trip),
        (true, Some(Signal::Acknowledges), Some(far))
    );
    let service = first.service.expect("it is known").nanos();
    assert!((16_000_000..=20_000_000).contains(&service), "{service}");
    assert_eq!(
        (first.settled, first.chosen, first.unsettled),
        (59, 59, 0),
        "{first:?}"
    );
    assert_eq!(
        (
            second.settled,
            second.chosen,
            second.unsettled,
            second.round_trip
        ),
        (0, 1, 1, None)
    );
    assert_eq!(seen.counters.chosen, 60);
    world.lose(slow);
    let seen = view(&world);
    let second = member(&seen, "slow");
    assert_eq!(
        (
            second.online,
            second.chosen,
            second.unsettled,
            second.signal
        ),
        (false, 1, 0, None)
    );
    assert_eq!((seen.counters.returned, seen.counters.chosen), (1, 61));
}

#[test]
fn a_strategy_that_does_not_look_counts_all_the_same() {
    let mut world = world(GroupStrategy::RoundRobin);
    let members = ["a", "b"].map(|name| join(&mut world, name, Reliability::AtLeastOnce));
    let publisher = world.connect("p");
    for _ in 0..6 {
        world.publish(publisher, firm("t", "m"));
    }
    let tag = world.got(members[0])[0].tag;
    world.settle_delivery(members[0], tag);
    let seen = view(&world);
    let first = member(&seen, "a");
    assert_eq!(
        (
            first.chosen,
            first.settled,
            first.unsettled,
            first.signal,
            first.service
        ),
        (3, 1, 2, None, None)
    );
}

#[test]
fn a_consumer_of_a_line_is_seen_like_everybody() {
    let mut world = world(GroupStrategy::Adaptive);
    let who = world.connect("c");
    world
        .consume_from(who, "$g/g/t", 1, Taking::credit(1))
        .expect("it may");
    let publisher = world.connect("p");
    for _ in 0..3 {
        world.publish(publisher, firm("t", "m"));
    }
    let tag = world.got(who)[0].tag;
    world.ack(who, tag);
    let seen = view(&world);
    let only = member(&seen, "c");
    assert_eq!((only.chosen, only.settled, only.unsettled), (2, 1, 1));
    assert_eq!(only.signal, Some(Signal::Acknowledges));
}

#[test]
fn reports_are_counted_and_those_that_cannot_be_true_apart() {
    let mut world = world(GroupStrategy::Adaptive);
    let who = join(&mut world, "m", Reliability::AtMostOnce);
    let credible = LoadReport {
        waiting: 3.0,
        each_ms: 10.0,
        concurrency: None,
    };
    let hostile = [
        LoadReport {
            waiting: f64::NAN,
            ..credible
        },
        LoadReport {
            waiting: -1.0,
            ..credible
        },
        LoadReport {
            waiting: 1e300,
            ..credible
        },
        LoadReport {
            each_ms: f64::INFINITY,
            ..credible
        },
        LoadReport {
            each_ms: f64::NAN,
            ..credible
        },
        LoadReport {
            each_ms: -0.5,
            ..credible
        },
    ];
    for report in &hostile {
        assert!(
            !world.run(0, |kernel, out, now| kernel.report_load(
                who.session,
                report,
                now,
                out
            )),
            "{report:?}"
        );
    }
    for _ in 0..2 {
        assert!(world.run(0, |kernel, out, now| kernel.report_load(
            who.session,
            &credible,
            now,
            out
        )));
    }
    let seen = view(&world);
    let only = member(&seen, "m");
    assert_eq!(
        (only.reports, only.reports_refused, only.signal),
        (2, 6, Some(Signal::Reports))
    );
    assert_eq!(
        (seen.counters.reports, seen.counters.reports_refused),
        (2, 6)
    );
}

#[test]
fn who_always_says_that_it_is_idle_gets_at_most_three_times_its_share() {
    let mut world = world(GroupStrategy::Adaptive);
    let names = ["liar", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
    let members = names.map(|name| join(&mut world, name, Reliability::AtMostOnce));
    let publisher = world.connect("p");
    let mut last = [0; 10];
    for step in 0..6_000_u32 {
        world.publish(publisher, draft("t", "m"));
        for (at, who) in members.into_iter().enumerate() {
            last[at] += world.got(who).len();
        }
        if step % 20 == 0 {
            for (at, who) in members.into_iter().enumerate() {
                // The others have some to do, as they truly say; the liar has nothing and took no time.
                let (waiting, each_ms) = if at == 0 { (0.0, 0.001) } else { (2.0, 8.0) };
                let report = LoadReport {
                    waiting,
                    each_ms,
                    concurrency: None,
                };
                world.run(0, |kernel, out, now| {
                    kernel.report_load(who.session, &report, now, out)
                });
            }
        }
        world.wait(Span::from_millis(1));
    }
    let seen = view(&world);
    let all: u64 = seen.seats.iter().map(|member| member.chosen).sum();
    let liar = member(&seen, "liar").chosen;
    assert!(all > 3_000, "{all} of 6000");
    assert!(liar as f64 <= 3.0 * all as f64 / 10.0, "{liar} of {all}");
}

#[test]
fn counters_survive_members_and_the_group_itself() {
    let mut world = world(GroupStrategy::RoundRobin);
    let who = join(&mut world, "m", Reliability::AtLeastOnce);
    let publisher = world.connect("p");
    for _ in 0..4 {
        world.publish(publisher, firm("t", "m"));
    }
    world.unsubscribe(who, "t", Some("g"));
    let mut left = 0;
    world.kernels[0].for_each_group(world.now, |_| left += 1);
    let sums = world.kernels[0].group_sums();
    assert_eq!((left, sums.arrived, sums.chosen), (0, 4, 4));
    join(&mut world, "m", Reliability::AtLeastOnce);
    world.publish(publisher, firm("t", "m"));
    assert_eq!(world.kernels[0].group_sums().arrived, 5);
    assert_eq!(view(&world).counters.arrived, 1, "a new group");
}

#[test]
fn a_member_is_at_work_at_an_exactly_once_message_until_it_says_so_for_the_second_time() {
    let mut world = world(GroupStrategy::Adaptive);
    let who = join(&mut world, "m", Reliability::ExactlyOnce);
    let publisher = world.connect("p");
    for ticket in 1..4 {
        world.publish(
            publisher,
            Draft {
                reliability: Reliability::ExactlyOnce,
                ticket,
                ..firm("t", "m")
            },
        );
    }
    let got = world.got(who);
    assert_eq!(got.len(), 1);
    let (id, tag) = (who.session, got[0].tag as u16);
    world.run(0, |kernel, out, now| kernel.receive(id, tag, now, out));
    assert_eq!(world.got(who).len(), 0, "it may begin only now");
    assert_eq!(member(&view(&world), "m").unsettled, 1);
    // Also when its link was new in between.
    world.lose(who);
    let who = world.connect_with(0, "m", Access::ALL, Span::FOREVER);
    assert_eq!(world.got(who).len(), 0);
    world.run(0, |kernel, out, now| {
        kernel.settle(id, tag, Verdict::Accept, now, out)
    });
    assert_eq!(world.got(who).len(), 1);
    assert_eq!(member(&view(&world), "m").settled, 1);
}

#[test]
fn an_exactly_once_message_of_an_earlier_link_leaves_no_room_for_another() {
    let mut world = world(GroupStrategy::Adaptive);
    let who = join(&mut world, "m", Reliability::ExactlyOnce);
    let publisher = world.connect("p");
    for ticket in 1..4 {
        world.publish(
            publisher,
            Draft {
                reliability: Reliability::ExactlyOnce,
                ticket,
                ..firm("t", "m")
            },
        );
    }
    assert_eq!(world.got(who).len(), 1);
    world.lose(who);
    let who = world.connect_with(0, "m", Access::ALL, Span::FOREVER);
    let got = world.got(who);
    assert_eq!((got.len(), got[0].deliveries), (1, 1));
}

#[test]
fn waits_are_sorted_into_their_buckets() {
    let mut waits = Waits::default();
    for millis in [0, 1, 2, 3, 5, 1_000, 59_999, 60_000, 60_001, 10_000_000] {
        waits.add(Span::from_millis(millis));
    }
    waits.add(Span::from_nanos(1_000_001));
    assert_eq!(waits.counts, [2, 2, 2, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 2]);
    assert_eq!(waits.count(), 11);
    assert_eq!(Waits::BOUNDS_MS.len() + 1, waits.counts.len());
}

fn explained(world: &mut World, publisher: Option<&str>) -> String {
    let now = world.now;
    let groups = world.kernels[0].explain("t", publisher, now).groups;
    assert_eq!(groups.len(), 1);
    groups[0].1.clone()
}

#[test]
fn it_is_explained_whom_a_message_would_go_to_or_why_it_waits() {
    let mut world = world(GroupStrategy::Adaptive);
    let members = ["a", "b"].map(|name| join(&mut world, name, Reliability::AtLeastOnce));
    let publisher = world.connect("p");
    let says = explained(&mut world, None);
    assert!(
        says.starts_with("it goes to a: ")
            && says.ends_with("adaptive, 2 members here, 2 with a link, 0 waiting"),
        "{says}"
    );
    // It was not done, only said.
    assert_eq!(
        (world.texts(members[0]).len(), view(&world).counters.chosen),
        (0, 0)
    );
    world.publish(publisher, firm("t", "1"));
    assert_eq!(world.texts(members[0]), ["1"]);
    let says = explained(&mut world, None);
    assert!(says.starts_with("it goes to b: "), "{says}");
    world.publish(publisher, firm("t", "2"));
    let says = explained(&mut world, None);
    assert!(
        says.starts_with("it waits: the members are at work"),
        "{says}"
    );
    world.publish(publisher, firm("t", "3"));
    world.wait(Span::from_millis(50));
    let says = explained(&mut world, None);
    assert!(
        says.starts_with("it waits behind 1 others, the first of them for 50 ms"),
        "{says}"
    );
    members.iter().for_each(|who| world.lose(*who));
    let says = explained(&mut world, None);
    assert!(says.contains("no member has a link"), "{says}");
}

#[test]
fn what_keeps_everybody_from_a_message_is_explained() {
    let mut world = world(GroupStrategy::RoundRobin);
    let who = join(&mut world, "a", Reliability::AtLeastOnce);
    let publisher = world.connect("p");
    world.set_room(who, 1);
    world.publish(publisher, firm("t", "1"));
    let says = explained(&mut world, Some("p"));
    assert!(
        says.starts_with("it waits: the members' outputs are full"),
        "{says}"
    );
    let nothing = Rules::new(Vec::new(), Otherwise::Deny)
        .expect("legal")
        .compile("a", None);
    world.run(0, |kernel, _, _| kernel.set_access(who.session, nothing));
    let says = explained(&mut world, Some("p"));
    assert!(
        says.starts_with("it is dropped: no member may receive it"),
        "{says}"
    );
}

#[test]
fn an_explanation_binds_no_key() {
    let policy = GroupPolicy {
        order: Some(OrderKey::Address),
        ..GroupPolicy::new(Filter::new("t").expect("legal"))
    };
    let mut world = World::without_prefixes(
        1,
        Limits {
            group_policies: Arc::new([policy]),
            ..Limits::default()
        },
    );
    let members = ["a", "b"].map(|name| join(&mut world, name, Reliability::AtLeastOnce));
    let publisher = world.connect("p");
    let says = explained(&mut world, None);
    assert!(says.starts_with("it goes to a: "), "{says}");
    world.lose(members[0]);
    world.publish(publisher, firm("t", "1"));
    assert_eq!(world.texts(members[1]), ["1"]);
    assert_eq!(view(&world).ordered, Some(OrderKey::Address));
}
