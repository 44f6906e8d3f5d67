//! Groups choose members by their state: the share of each member, and the fate of messages when a member falls silent.

use crate::world::{Taking, Who, World, draft, firm, q};
use std::sync::Arc;
use thalweg_kernel::{
    Draft, GroupPolicy, GroupStrategy, Limits, LoadReport, Settled, SettlesWhen, Subscribed,
    WorkTerms,
};
use thalweg_model::{Filter, Reliability, Span};

fn adaptive() -> Limits {
    Limits {
        group_strategy: GroupStrategy::Adaptive,
        group_adaptive_eviction: true,
        ..Limits::default()
    }
}

fn members<const N: usize>(world: &mut World, reliability: Reliability) -> [Who; N] {
    std::array::from_fn(|number| {
        let who = world.connect(&format!("m{number}"));
        assert_eq!(
            world.subscribe(who, "t", Some("g"), reliability),
            Subscribed::Granted(reliability)
        );
        who
    })
}

/// Publishes every `every` ms for so many ms; each member works one at a time with its own duration. Returns each
/// member's deliveries.
fn work<const N: usize>(
    world: &mut World,
    members: [Who; N],
    takes: [u32; N],
    every: u32,
    lasts: u32,
    of: impl Fn(&str) -> Draft<'_>,
) -> [usize; N] {
    let publisher = world.connect("publisher");
    let mut queues: [Vec<u64>; N] = std::array::from_fn(|_| Vec::new());
    let (mut got, mut left) = ([0; N], [0; N]);
    for step in 0..lasts {
        if step % every == 0 {
            world.publish(publisher, of("m"));
        }
        world.wait(Span::from_millis(1));
        for (at, who) in members.iter().enumerate() {
            let came = world.got(*who);
            got[at] += came.len();
            queues[at].extend(came.iter().map(|got| got.tag));
            if left[at] > 0 {
                left[at] -= 1;
                if left[at] == 0 {
                    let tag = queues[at].remove(0);
                    // A member through a subscription, or a consumer of line 1.
                    if world.settle_delivery(*who, tag) == Settled::Unknown {
                        world.ack(*who, tag);
                    }
                }
            }
            if left[at] == 0 && !queues[at].is_empty() {
                left[at] = takes[at];
            }
        }
    }
    got
}

#[test]
fn who_is_faster_gets_more() {
    let mut world = World::without_prefixes(1, adaptive());
    let members = members::<3>(&mut world, Reliability::AtLeastOnce);
    let got = work(&mut world, members, [10, 10, 40], 5, 4_000, |text| {
        firm("t", text)
    });
    assert!(
        got[0] > 3 * got[2] && got[1] > 3 * got[2] && got[2] > 20,
        "{got:?}"
    );
    assert!(got.iter().sum::<usize>() >= 795, "{got:?}");
}

#[test]
fn messages_wait_in_the_group_and_whoever_joins_has_work_at_once() {
    let mut world = World::without_prefixes(1, adaptive());
    let [first] = members::<1>(&mut world, Reliability::AtLeastOnce);
    let publisher = world.connect("p");
    for number in 0..10 {
        world.publish(publisher, firm("t", &number.to_string()));
    }
    assert_eq!(world.texts(first), ["0"]);
    let second = world.connect("second");
    world.subscribe(second, "t", Some("g"), Reliability::AtLeastOnce);
    world.publish(publisher, firm("t", "10"));
    assert_eq!(world.texts(second), ["1"]);
}

#[test]
fn what_a_silent_member_holds_goes_to_the_others_in_time_and_flagged() {
    let mut world = World::without_prefixes(1, adaptive());
    let members = members::<3>(&mut world, Reliability::AtLeastOnce);
    let publisher = world.connect("p");
    let (mut held, mut again) = (Vec::new(), Vec::new());
    for step in 0..330 {
        world.publish(publisher, firm("t", &step.to_string()));
        // Deliveries of the last step are settled now.
        let came = members.map(|who| world.got(who));
        world.wait(Span::from_millis(10));
        for (who, came) in members.into_iter().zip(came) {
            for got in came {
                // After a second the first member freezes with its messages.
                if who == members[0] && step >= 100 {
                    held.push(got);
                    continue;
                }
                world.settle_delivery(who, got.tag);
                again.extend((got.deliveries > 0).then_some(got.text));
            }
        }
    }
    assert!(!held.is_empty() && held.len() <= 2, "{held:?}");
    assert_eq!(
        again,
        held.iter().map(|got| got.text.clone()).collect::<Vec<_>>()
    );
    assert!(
        world.closed(members[0]).is_some(),
        "nobody else may have it while the link lives"
    );
    for got in &held {
        assert_eq!(
            world.settle_delivery(members[0], got.tag),
            Settled::Unknown,
            "a late word harms nobody"
        );
    }
}

#[test]
fn an_exactly_once_message_is_with_one_member_and_nothing_is_behind_it() {
    let mut world = World::without_prefixes(1, adaptive());
    let members = members::<2>(&mut world, Reliability::ExactlyOnce);
    let publisher = world.connect("p");
    let once = |text| Draft {
        reliability: Reliability::ExactlyOnce,
        ticket: 1,
        ..firm("t", text)
    };
    for number in 0..200_u16 {
        world.publish(
            publisher,
            Draft {
                ticket: number + 1,
                ..once("m")
            },
        );
    }
    let got: Vec<usize> = members.iter().map(|who| world.got(*who).len()).collect();
    assert_eq!(got, [1, 1], "what is sent can never go elsewhere");
    world.wait(Span::from_secs(5));
    let got: Vec<usize> = members.iter().map(|who| world.got(*who).len()).collect();
    assert_eq!(got, [0, 0]);
}

#[test]
fn a_member_that_reports_a_backlog_gets_less() {
    let mut world = World::without_prefixes(1, adaptive());
    let members = members::<2>(&mut world, Reliability::AtMostOnce);
    let publisher = world.connect("p");
    let mut got = [0; 2];
    for step in 0..4_000_u32 {
        if step % 10 == 0 {
            world.publish(publisher, draft("t", "m"));
        }
        if step % 500 == 0 {
            for (at, who) in members.into_iter().enumerate() {
                let waiting = if at == 0 { 0.0 } else { 50.0 };
                let report = LoadReport {
                    waiting,
                    each_ms: 8.0,
                    concurrency: None,
                };
                assert!(world.run(0, |kernel, out, now| kernel.report_load(
                    who.session,
                    &report,
                    now,
                    out
                )));
            }
        }
        world.wait(Span::from_millis(1));
        for (at, who) in members.iter().enumerate() {
            got[at] += world.got(*who).len();
        }
    }
    assert!(got[0] > 3 * got[1], "{got:?}");
    let hostile = LoadReport {
        waiting: f64::NAN,
        each_ms: -1.0,
        concurrency: Some(0),
    };
    let first = members[0].session;
    assert!(!world.run(0, |kernel, out, now| {
        kernel.report_load(first, &hostile, now, out)
    }));
}

#[test]
fn without_a_sign_from_anybody_members_take_turns() {
    let mut world = World::without_prefixes(1, adaptive());
    let members = members::<3>(&mut world, Reliability::AtMostOnce);
    let publisher = world.connect("p");
    for number in 0..9 {
        world.publish(publisher, draft("t", &number.to_string()));
    }
    assert_eq!(
        members.map(|who| world.texts(who).join(" ")),
        ["0 3 6", "1 4 7", "2 5 8"]
    );
}

#[test]
fn a_filter_may_have_a_strategy_of_its_own() {
    let filter = Filter::new("t").expect("legal");
    let policy = GroupPolicy {
        strategy: Some(GroupStrategy::Sticky),
        ..GroupPolicy::new(filter)
    };
    let limits = Limits {
        group_policies: Arc::new([policy]),
        ..adaptive()
    };
    let mut world = World::without_prefixes(1, limits);
    let members = members::<2>(&mut world, Reliability::AtLeastOnce);
    let publisher = world.connect("p");
    for number in 0..4 {
        world.publish(publisher, firm("t", &number.to_string()));
    }
    assert_eq!(members.map(|who| world.texts(who).len()), [4, 0]);
}

#[test]
fn a_member_that_comes_back_starts_anew_and_loses_nothing() {
    let mut world = World::without_prefixes(1, adaptive());
    let members = members::<2>(&mut world, Reliability::AtLeastOnce);
    let publisher = world.connect("p");
    for number in 0..6 {
        world.publish(publisher, firm("t", &number.to_string()));
    }
    let lost = world.got(members[0]);
    world.lose(members[0]);
    let mut all: Vec<String> = Vec::new();
    for _ in 0..20 {
        for got in world.got(members[1]) {
            world.settle_delivery(members[1], got.tag);
            all.push(got.text);
        }
    }
    assert_eq!(lost.len(), 1);
    all.sort();
    assert_eq!(all, ["0", "1", "2", "3", "4", "5"]);
}

#[test]
fn a_pause_of_seconds_costs_the_link_only_where_that_was_chosen_and_no_longer_time_was_named() {
    let long = Some(Span::from_secs(8));
    for (named, is_chosen, ends) in [
        (None, false, false),
        (None, true, true),
        (long, true, false),
    ] {
        let filter = Filter::new("t").expect("legal");
        let policy = GroupPolicy {
            settle_timeout: named,
            ..GroupPolicy::new(filter)
        };
        let limits = Limits {
            group_policies: Arc::new([policy]),
            group_adaptive_eviction: is_chosen,
            ..adaptive()
        };
        let mut world = World::without_prefixes(1, limits);
        let [slow, fast] = members::<2>(&mut world, Reliability::AtLeastOnce);
        let got = work(&mut world, [slow, fast], [6_000, 10], 15, 5_500, |text| {
            firm("t", text)
        });
        assert_eq!(
            world.closed(slow).is_some(),
            ends,
            "{named:?} {is_chosen} {got:?}"
        );
    }
}

fn consumers<const N: usize>(world: &mut World, taking: Taking) -> [Who; N] {
    std::array::from_fn(|number| {
        let who = world.connect(&format!("c{number}"));
        world
            .consume_from(who, "$g/g/t", 1, taking)
            .expect("it may");
        who
    })
}

#[test]
fn members_of_both_kinds_share_by_speed() {
    let mut world = World::without_prefixes(1, adaptive());
    let [a, b] = members::<2>(&mut world, Reliability::AtLeastOnce);
    let [c, d] = consumers::<2>(&mut world, Taking::credit(50));
    let got = work(
        &mut world,
        [a, b, c, d],
        [10, 40, 10, 40],
        5,
        4_000,
        |text| firm("t", text),
    );
    assert!(
        got[0].abs_diff(got[2]) < 40 && got[1].abs_diff(got[3]) < 40,
        "{got:?}"
    );
    assert!(
        got[0] > 2 * got[1] && got[2] > 2 * got[3] && got[1] > 20 && got[3] > 20,
        "{got:?}"
    );
    assert!(got.iter().sum::<usize>() >= 790, "{got:?}");
}

#[test]
fn a_consumer_with_much_credit_is_given_no_more_than_it_can_do_soon() {
    let mut world = World::without_prefixes(1, adaptive());
    let [first] = consumers::<1>(&mut world, Taking::credit(1_000));
    let publisher = world.connect("p");
    for number in 0..10 {
        world.publish(publisher, firm("t", &number.to_string()));
    }
    assert_eq!(world.texts(first), ["0"]);
    world.requeue(first, 1);
    let again = world.got(first);
    assert_eq!(
        again
            .iter()
            .map(|got| (got.text.as_str(), got.deliveries))
            .collect::<Vec<_>>(),
        [("0", 1)]
    );
    world.reject(first, 2);
    assert_eq!(
        world.texts(first),
        ["1"],
        "what it gave back or refused counts no more"
    );
}

#[test]
fn credit_that_changes_is_kept_to() {
    let mut world = World::without_prefixes(1, adaptive());
    let [first] = consumers::<1>(&mut world, Taking::default());
    let (publisher, id) = (world.connect("p"), first.session);
    let handlers = WorkTerms {
        concurrency: Some(8),
        ..WorkTerms::default()
    };
    world.run(0, |kernel, _, now| {
        kernel.set_work_terms(id, None, handlers, now)
    });
    world.run(0, |kernel, out, now| {
        kernel.set_line_credit(id, 1, 2, now, out)
    });
    for number in 0..30 {
        world.publish(publisher, firm("t", &number.to_string()));
    }
    assert_eq!(world.texts(first).len(), 2);
    world.run(0, |kernel, out, now| {
        kernel.set_line_credit(id, 1, 5, now, out)
    });
    assert_eq!(world.texts(first).len(), 3);
    world.run(0, |kernel, out, now| {
        kernel.set_line_credit(id, 1, 0, now, out)
    });
    let more = world.texts(first).len();
    assert!(
        (8..=25).contains(&more),
        "as many as eight handlers want: {more}"
    );
}

#[test]
fn what_a_member_says_of_itself_counts_from_then_on() {
    let mut world = World::without_prefixes(1, adaptive());
    let [first] = members::<1>(&mut world, Reliability::AtLeastOnce);
    let (publisher, id) = (world.connect("p"), first.session);
    let say = |world: &mut World, of, terms| {
        world.run(0, |kernel, _, now| {
            kernel.set_work_terms(id, of, terms, now)
        })
    };
    world.publish(publisher, firm("t", "m"));
    world.publish(publisher, firm("t", "m"));
    assert_eq!(world.got(first).len(), 1);
    let many = WorkTerms {
        concurrency: Some(4),
        ..WorkTerms::default()
    };
    say(&mut world, Some(("other", "t")), many);
    world.publish(publisher, firm("t", "m"));
    assert_eq!(world.got(first).len(), 0, "that was of another group");
    say(&mut world, Some(("g", "t")), many);
    world.publish(publisher, firm("t", "m"));
    assert_eq!(world.got(first).len(), 3);
    // An acknowledgement on receipt says nothing about the work: such a member is served by turns, up to its window.
    say(
        &mut world,
        None,
        WorkTerms {
            settles: Some(SettlesWhen::Received),
            ..WorkTerms::default()
        },
    );
    for _ in 0..40 {
        world.publish(publisher, firm("t", "m"));
    }
    assert_eq!(world.got(first).len(), 40);
}

#[test]
fn weights_that_members_name_are_kept_to() {
    let limits = Limits {
        group_strategy: GroupStrategy::Weighted,
        ..Limits::default()
    };
    let mut world = World::without_prefixes(1, limits);
    let members = members::<2>(&mut world, Reliability::AtMostOnce);
    let publisher = world.connect("p");
    let heavy = WorkTerms {
        weight: Some(3),
        ..WorkTerms::default()
    };
    let id = members[1].session;
    world.run(0, |kernel, _, now| {
        kernel.set_work_terms(id, None, heavy, now)
    });
    for _ in 0..80 {
        world.publish(publisher, draft("t", "m"));
    }
    assert_eq!(members.map(|who| world.got(who).len()), [20, 60]);
}

fn members_of_queue<const N: usize>(world: &mut World) -> [Who; N] {
    std::array::from_fn(|number| {
        let who = world.connect(&format!("q{number}"));
        world.subscribe(who, &q("q"), Some("g"), Reliability::AtLeastOnce);
        who
    })
}

#[test]
fn a_group_that_takes_from_a_queue_shares_by_speed_and_binds_late() {
    let mut world = World::without_prefixes(1, adaptive());
    let members = members_of_queue::<3>(&mut world);
    let got = work(&mut world, members, [10, 10, 40], 5, 4_000, |text| {
        firm("$q/q", text)
    });
    assert!(
        got[0] > 3 * got[2] && got[1] > 3 * got[2] && got[2] > 20,
        "{got:?}"
    );
    assert!(got.iter().sum::<usize>() >= 790, "{got:?}");
    let (first, client) = (world.connect("first"), world.connect("c"));
    world.subscribe(first, &q("late"), Some("g"), Reliability::AtLeastOnce);
    for number in 0..5 {
        world.put(client, "late", &number.to_string());
    }
    assert_eq!(
        (world.texts(first), world.waits("late")),
        (vec!["0".to_owned()], 4)
    );
    let second = world.connect("second");
    world.subscribe(second, &q("late"), Some("g"), Reliability::AtLeastOnce);
    assert_eq!(world.texts(second), ["1"]);
}

#[test]
fn a_queue_is_not_held_up_for_consumers_by_a_group_that_waits_for_a_better_member() {
    let mut world = World::without_prefixes(1, adaptive());
    let [member] = members_of_queue::<1>(&mut world);
    let consumer = world.connect("c");
    world.consume(consumer, "q", 1, Taking::default());
    for number in 0..6 {
        world.put(consumer, "q", &number.to_string());
    }
    let (here, there) = (world.texts(consumer), world.texts(member));
    assert_eq!(
        (here.len(), there.len(), world.waits("q")),
        (5, 1, 0),
        "{here:?} {there:?}"
    );
}

#[test]
fn what_a_group_of_a_queue_holds_back_comes_when_its_time_has_come() {
    // The fast member is worth waiting for, and then it is gone.
    let mut world = World::without_prefixes(1, adaptive());
    let members = members_of_queue::<2>(&mut world);
    let got = work(&mut world, members, [2, 60], 4, 2_000, |text| {
        firm("$q/q", text)
    });
    assert!(got[0] > 10 * got[1], "{got:?}");
    world.lose(members[0]);
    let publisher = world.connect("last");
    world.publish(publisher, firm("$q/q", "last"));
    for _ in 0..300 {
        for got in world.got(members[1]) {
            world.settle_delivery(members[1], got.tag);
        }
        world.wait(Span::from_millis(1));
    }
    assert_eq!(world.waits("q"), 0);
    assert_eq!(world.kernels[0].totals().in_flight, 0);
}

#[test]
fn members_get_messages_as_surely_as_they_wanted_where_a_policy_says_so() {
    let filter = Filter::new("t/#").expect("legal");
    let policy = GroupPolicy {
        upgrade_reliability: Some(true),
        ..GroupPolicy::new(filter)
    };
    let mut world = World::without_prefixes(
        1,
        Limits {
            group_policies: Arc::new([policy]),
            ..adaptive()
        },
    );
    let members = ["a", "b", "c"].map(|name| world.connect(name));
    for (who, reliability) in members.iter().zip([Reliability::AtLeastOnce; 3]) {
        world.subscribe(*who, "t/+", Some("g"), reliability);
    }
    let publisher = world.connect("p");
    for number in 0..4 {
        world.publish(publisher, draft("t/1", &number.to_string()));
    }
    let got = members.map(|who| world.got(who));
    assert!(
        got.iter().flatten().all(|got| got.settles) && got.iter().all(|got| got.len() == 1),
        "{got:?}"
    );
    // Messages of a member that dies come back, and waiting ones follow.
    world.lose(members[0]);
    world.settle_delivery(members[1], got[1][0].tag);
    let next = world.got(members[1]);
    assert_eq!(
        next.iter()
            .map(|got| (got.text.as_str(), got.deliveries))
            .collect::<Vec<_>>(),
        [("0", 1)]
    );
    // Without a member it waits, like a message of higher QoS.
    world.lose(members[1]);
    world.wait(Span::from_millis(5));
    let waits: usize = world.kernels[0].totals().waiting;
    assert!(waits >= 1, "{waits}");
    assert_eq!(world.entries_written(), 0, "and is written down nowhere");
}

#[test]
fn of_quick_members_that_are_free_one_is_given_what_comes_at_once() {
    // So alike that they have turns, and yet one is several times as fast as another.
    let takes = [100_000, 450_000, 900_000].map(Span::from_nanos);
    let mut world = World::without_prefixes(1, adaptive());
    let members = members::<3>(&mut world, Reliability::AtLeastOnce);
    let honest = WorkTerms {
        settles: Some(SettlesWhen::Processed),
        ..WorkTerms::default()
    };
    for who in members {
        world.run(0, |kernel, _, now| {
            kernel.set_work_terms(who.session, None, honest, now)
        });
    }
    let publisher = world.connect("publisher");
    for number in 0..600 {
        world.publish(publisher, firm("t", &number.to_string()));
        let came = members.map(|who| world.got(who));
        assert_eq!(
            came.iter().map(Vec::len).sum::<usize>(),
            1,
            "message {number} waits, and all are free"
        );
        let at = came
            .iter()
            .position(|came| !came.is_empty())
            .expect("one of them");
        world.wait(takes[at]);
        world.settle_delivery(members[at], came[at][0].tag);
        world.wait(Span::from_millis(4));
    }
}
