//! Members of a group with content filters: each message goes to one whose filter it passes.

use crate::world::{Dice, Taking, Who, World, firm, headers};
use thalweg_kernel::access::{Access, Otherwise, Permission, Permissions, Rule, Rules};
use thalweg_kernel::{Draft, DropReason, GroupStrategy, Limits, Outcome, Subscribed};
use thalweg_model::{Reliability, Span};

const ONCE: Reliability = Reliability::AtLeastOnce;
const HOUR: Span = Span::from_secs(3600);
const RED: &str = "colour = 'r'";
const BLUE: &str = "colour = 'b'";

/// The first letter of a message is its colour.
fn publish(world: &mut World, who: Who, texts: &[&str]) {
    for text in texts {
        publish_as(world, who, text, ONCE);
    }
}

fn publish_as(world: &mut World, who: Who, text: &str, reliability: Reliability) {
    let properties = headers(&[("colour", &text[..1])]);
    let draft = Draft {
        properties: Some(&properties),
        reliability,
        ..firm("t", text)
    };
    let outcome = world.publish(who, draft);
    let is_for_nobody = outcome == Outcome::NoMatch && text.starts_with('x');
    assert!(
        outcome == Outcome::Accepted || is_for_nobody,
        "{text}: {outcome:?}"
    );
}

fn join(world: &mut World, who: Who, filter: Option<&str>) {
    let joined = world.subscribe_if(who, ("t", Some("g")), ONCE, filter);
    assert_eq!(joined, Subscribed::Granted(ONCE));
}

/// A session on that shard, in the group with that filter.
fn member(world: &mut World, shard: usize, expiry: Span, filter: Option<&str>) -> Who {
    let name = world.name_on(shard);
    let who = world.connect_with(shard, &name, Access::ALL, expiry);
    join(world, who, filter);
    who
}

/// The same again after a restart or a loss, without subscribing.
fn again(world: &mut World, shard: usize, name: &str) -> Who {
    world.connect_with(shard, name, Access::ALL, HOUR)
}

/// Texts of what came, which is settled.
fn work(world: &mut World, who: Who) -> Vec<String> {
    let mut texts = Vec::new();
    loop {
        let got = world.got(who);
        if got.is_empty() {
            return texts;
        }
        for got in got {
            world.settle_delivery(who, got.tag);
            texts.push(got.text);
        }
        world.wait(Span::from_millis(1));
    }
}

#[test]
fn each_goes_to_a_member_that_it_passes_and_none_is_kept_that_passes_nobody() {
    for shards in [1, 2, 3] {
        for (red_on, blue_on) in [(0, 0), (0, 1), (1, 0)] {
            let mut world = World::in_turns(shards);
            let last = usize::from(shards) - 1;
            let red = member(&mut world, red_on.min(last), Span::ZERO, Some(RED));
            let blue = member(&mut world, blue_on.min(last), Span::ZERO, Some(BLUE));
            let publisher = world.connect("p");
            publish(&mut world, publisher, &["r1", "b1", "x1", "r2", "b2", "x2"]);
            assert_eq!(work(&mut world, red), ["r1", "r2"], "{shards} shards");
            assert_eq!(work(&mut world, blue), ["b1", "b2"], "{shards} shards");
            assert_eq!(world.waiting_in_groups(), 0);
            for reason in [DropReason::NoMember, DropReason::AccessDenied] {
                assert_eq!(world.dropped(reason), 0);
            }
            // Another may have all, in turns with the others.
            let any = member(&mut world, last, Span::ZERO, None);
            publish(&mut world, publisher, &["r3", "x3", "r4", "b3", "b4", "r5"]);
            let (reds, blues) = (work(&mut world, red), work(&mut world, blue));
            let anys = work(&mut world, any);
            assert_eq!(reds.len() + blues.len() + anys.len(), 6, "{shards} shards");
            assert!(
                anys.contains(&"x3".to_owned()) && !reds.is_empty(),
                "{anys:?}"
            );
            assert!(reds.iter().all(|text| text.starts_with('r')), "{reds:?}");
        }
    }
}

#[test]
fn a_member_without_room_holds_up_no_other_and_its_order_stays() {
    for strategy in [GroupStrategy::Adaptive, GroupStrategy::RoundRobin] {
        let limits = Limits {
            group_strategy: strategy,
            in_flight_max: 2,
            ..Limits::default()
        };
        let mut world = World::with(2, limits);
        let red = member(&mut world, 1, Span::ZERO, Some(RED));
        let blue = member(&mut world, 0, Span::ZERO, Some(BLUE));
        let publisher = world.connect("p");
        let reds: Vec<String> = (0..400).map(|number| format!("r{number}")).collect();
        for text in &reds {
            publish(&mut world, publisher, &[text]);
        }
        publish(&mut world, publisher, &["b1", "b2", "x"]);
        world.wait(Span::from_millis(1));
        let blues = work(&mut world, blue);
        assert_eq!(blues, ["b1", "b2"], "{strategy:?}");
        assert!(world.waiting_in_groups() >= 398, "{strategy:?}");
        assert_eq!(work(&mut world, red), reds, "{strategy:?}");
    }
}

#[test]
fn consumers_of_lines_have_filters_in_a_group() {
    let mut world = World::in_turns(1);
    let [red, blue] = ["red", "blue"].map(|name| world.connect(name));
    let kept = |world: &World| world.kernels[0].memory_held();
    let before = kept(&world);
    let credit = |filter| Taking {
        credit: 1,
        ..Taking::selected(filter)
    };
    assert_eq!(world.consume_from(red, "$g/g/t", 1, credit(RED)), Ok(()));
    assert_eq!(world.consume_from(blue, "$g/g/t", 1, credit(BLUE)), Ok(()));
    publish(&mut world, blue, &["r1", "r2", "b1", "x", "b2"]);
    assert_eq!(
        (world.texts(red), world.texts(blue)),
        (vec!["r1".into()], vec!["b1".into()])
    );
    // It comes back to its place, is flagged, and goes to nobody else.
    world.requeue(red, 1);
    world.wait(Span::from_secs(1));
    let got = world.got(red);
    assert_eq!((&*got[0].text, got[0].deliveries), ("r1", 1));
    world.ack(red, got[0].tag);
    world.ack(blue, 1);
    for (who, text) in [(red, "r2"), (blue, "b2")] {
        let got = world.got(who);
        assert_eq!(got[0].text, text);
        world.ack(who, got[0].tag);
    }
    world.cancel(red, 1, 1);
    world.cancel(blue, 1, 1);
    assert_eq!(kept(&world), before);
}

#[test]
fn what_a_member_leaves_goes_to_another_that_it_passes() {
    for shards in [1, 2] {
        let mut world = World::in_turns(shards);
        let last = usize::from(shards) - 1;
        let first = member(&mut world, 0, Span::ZERO, Some(RED));
        let publisher = world.connect("p");
        publish(&mut world, publisher, &["r1", "r2"]);
        let blue = member(&mut world, 0, Span::ZERO, Some(BLUE));
        let other = member(&mut world, last, Span::ZERO, Some(RED));
        world.lose(first);
        let got = world.got(other);
        let shown: Vec<_> = got
            .iter()
            .map(|it| (&*it.text, it.deliveries > 0))
            .collect();
        assert_eq!(shown, [("r1", true), ("r2", true)], "{shards} shards");
        assert!(world.got(blue).is_empty());
    }
}

#[test]
fn what_was_taken_in_waits_for_a_member_that_takes_it() {
    let mut world = World::in_turns(1);
    let red = member(&mut world, 0, HOUR, Some(RED));
    let blue = member(&mut world, 0, Span::ZERO, Some(BLUE));
    world.lose(red);
    publish(&mut world, blue, &["r1", "b1", "r2"]);
    assert_eq!(world.texts(blue), ["b1"]);
    assert_eq!(world.waiting_in_groups(), 2);
    // It comes to one who asks for it now.
    join(
        &mut world,
        blue,
        Some("colour IN ('b', 'r') AND NOT colour = 'x'"),
    );
    assert_eq!(world.texts(blue), ["r1", "r2"]);
    join(&mut world, blue, Some(BLUE));
    publish(&mut world, blue, &["r3"]);
    assert_eq!(world.texts(blue), [""; 0]);
    join(&mut world, blue, None);
    assert_eq!(world.texts(blue), ["r3"]);
}

#[test]
fn filters_of_sessions_that_wait_are_there_after_a_restart() {
    for shards in [1, 2] {
        let mut world = World::in_turns(shards);
        let name = world.name_on(usize::from(shards) - 1);
        let red = world.connect_with(usize::from(shards) - 1, &name, Access::ALL, HOUR);
        join(&mut world, red, Some(RED));
        let publisher = world.connect("p");
        world.lose(red);
        publish(&mut world, publisher, &["r1", "b1"]);
        assert_eq!(world.entries_written(), 1, "{shards} shards");
        world.restart();
        let publisher = world.connect("p");
        publish(&mut world, publisher, &["b2", "r2", "x1"]);
        let red = again(&mut world, usize::from(shards) - 1, &name);
        assert_eq!(work(&mut world, red), ["r1", "r2"], "{shards} shards");
        assert_eq!((world.entries_written(), world.waiting_in_groups()), (0, 0));
    }
}

#[test]
fn a_long_queue_of_a_group_comes_from_disk_for_those_that_have_room() {
    let limits = Limits {
        group_strategy: GroupStrategy::RoundRobin,
        named_queue_memory_bytes_max: 40_000,
        in_flight_max: 3,
        ..Limits::default()
    };
    let mut world = World::without_prefixes(1, limits);
    let name = world.name_on(0);
    let red = world.connect_with(0, &name, Access::ALL, HOUR);
    join(&mut world, red, Some(RED));
    let publisher = world.connect("p");
    let other = world.name_on(0);
    let blue = world.connect_with(0, &other, Access::ALL, HOUR);
    join(&mut world, blue, Some(BLUE));
    world.lose(red);
    world.lose(blue);
    for number in 0..1000 {
        let colour = if number % 100 == 99 { "b" } else { "r" };
        publish(&mut world, publisher, &[&format!("{colour}{number}")]);
    }
    assert!(world.kernels[0].bytes_held() < 100_000, "most is on disk");
    let blue = again(&mut world, 0, &other);
    let first = work(&mut world, blue);
    assert!(first.starts_with(&["b99".to_owned()]), "{first:?}");
    let held = world.kernels[0].bytes_held();
    assert!(held < 260_000, "{held}: much is on disk still");
    let red = again(&mut world, 0, &name);
    let (mut reds, mut blues) = (Vec::new(), first);
    for _ in 0..1000 {
        reds.extend(work(&mut world, red));
        blues.extend(work(&mut world, blue));
    }
    assert_eq!((reds.len(), blues.len()), (990, 10));
    assert_eq!(world.entries_written(), 0);
}

#[test]
fn a_filter_shows_nothing_that_its_member_has_no_right_to() {
    let mut world = World::in_turns(1);
    let rules = vec![Rule::allow(Permission::Subscribe, "t")];
    let rules = Rules::new(rules, Otherwise::Deny).expect("legal");
    let red = world.connect_with(0, "red", rules.compile("red", None), Span::ZERO);
    join(&mut world, red, Some(RED));
    let blue = member(&mut world, 0, Span::ZERO, Some(BLUE));
    publish(&mut world, blue, &["r1", "b1"]);
    assert_eq!(
        (world.texts(red), world.texts(blue)),
        (vec![], vec!["b1".to_owned()])
    );
    world.renew(|client, _| {
        let what = if client == "red" {
            Permissions::READ
        } else {
            Permissions::ALL
        };
        let rules = Rules::new(vec![Rule::allow(what, "t")], Otherwise::Deny).expect("legal");
        rules.compile(client, None)
    });
    publish(&mut world, blue, &["r2"]);
    assert!(world.texts(red).contains(&"r2".to_owned()));
}

#[test]
fn filters_of_members_cost_memory() {
    let mut world = World::in_turns(1);
    let who = world.connect("c");
    let kept = |world: &World| world.kernels[0].memory_held();
    let before = kept(&world);
    join(&mut world, who, None);
    let without = kept(&world);
    join(&mut world, who, Some(RED));
    assert!(kept(&world) > without);
    join(&mut world, who, None);
    assert_eq!(kept(&world), without);
    join(&mut world, who, Some(BLUE));
    world.unsubscribe(who, "t", Some("g"));
    assert_eq!(kept(&world), before);
}

#[test]
fn operators_see_members_filters_and_who_would_get_a_message() {
    let mut world = World::in_turns(1);
    let red = member(&mut world, 0, Span::ZERO, Some(RED));
    let now = world.now;
    let kernel = &mut world.kernels[0];
    let mut shown = Vec::new();
    kernel.for_each_group(now, |group| {
        shown.extend(group.seats.into_iter().filter_map(|it| it.condition));
    });
    kernel.for_each_subscription(None, |it| shown.extend(it.condition));
    assert_eq!(
        shown.iter().map(|it| it.text()).collect::<Vec<_>>(),
        [RED; 2]
    );
    let said = &kernel.explain("t", None, now).groups[0].1;
    assert!(
        said.ends_with(&format!("takes what passes the filter {RED}")),
        "{said}"
    );
    let mut told = |colour: &str| {
        let properties = headers(&[("colour", colour)]);
        kernel.explain_message("t", None, Some((b"", &properties)), now)
    };
    assert!(told("r").groups[0].1.starts_with("it goes to"));
    let other = told("b");
    assert_eq!((other.groups.len(), other.rejecting.len()), (0, 1));
    assert!(
        other.rejecting[0]
            .1
            .starts_with("it passes no member's filter")
    );
    assert_eq!(world.texts(red), [""; 0]);
}

/// Members of three kinds come and go and take or return what they have; a plain list of what was published says what must come.
#[test]
fn whatever_happens_each_comes_to_one_that_takes_it() {
    for seed in 0..12 {
        let strategies = [
            GroupStrategy::Adaptive,
            GroupStrategy::RoundRobin,
            GroupStrategy::HashPublisher,
        ];
        let limits = Limits {
            group_strategy: strategies[seed as usize % 3],
            in_flight_max: 3,
            ..Limits::default()
        };
        let shards = 1 + (seed as usize / 3) % 2;
        let mut world = World::with(shards as u16, limits);
        let mut dice = Dice(seed);
        let publisher = world.connect("p");
        let filters = [RED, BLUE, "colour <> 'x'"];
        // One of each stays away or not, but is a member all the time.
        let names: Vec<String> = (0..3).map(|at| world.name_on(at % shards)).collect();
        let mut members: Vec<Option<Who>> = Vec::new();
        for (at, filter) in filters.iter().enumerate() {
            let who = world.connect_with(at % shards, &names[at], Access::ALL, HOUR);
            join(&mut world, who, Some(filter));
            members.push(Some(who));
        }
        let (mut sent, mut came) = (Vec::new(), Vec::new());
        let mut settle = |world: &mut World, at: usize, who: Who, most: usize| {
            for got in world.got(who).into_iter().take(most) {
                let colour = &got.text[..1];
                assert!(
                    ["r", "b", "rb"][at].contains(colour),
                    "seed {seed}: {} to {at}",
                    got.text
                );
                world.settle_delivery(who, got.tag);
                came.push(got.text);
            }
        };
        for number in 0..300 {
            let at = dice.roll(3);
            match (dice.roll(8), members[at]) {
                (0, Some(who)) => {
                    world.lose(who);
                    world.got(who);
                    members[at] = None;
                }
                (0 | 1, None) => members[at] = Some(again(&mut world, at % shards, &names[at])),
                (2 | 3, Some(who)) => settle(&mut world, at, who, usize::MAX),
                _ => {
                    let colour = ["r", "b", "x"][dice.roll(3)];
                    let text = format!("{colour}{number}");
                    publish(&mut world, publisher, &[&text]);
                    if colour != "x" {
                        sent.push(text);
                    }
                }
            }
            world.wait(Span::from_millis(1));
        }
        for _ in 0..400 {
            for at in 0..3 {
                let who =
                    *members[at].get_or_insert_with(|| again(&mut world, at % shards, &names[at]));
                settle(&mut world, at, who, usize::MAX);
            }
            world.wait(Span::from_millis(5));
        }
        sent.sort();
        came.sort();
        came.dedup();
        assert_eq!(came, sent, "seed {seed}");
        assert_eq!(
            (world.waiting_in_groups(), world.entries_written()),
            (0, 0),
            "seed {seed}"
        );
    }
}
