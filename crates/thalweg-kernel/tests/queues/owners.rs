//! A group has one owner, wherever its members are: receivers, returned messages, and the state after a crash.

use crate::world::{Dice, Got, Taking, Who, World, draft, firm};
use std::collections::BTreeMap;
use thalweg_kernel::access::{Access, Otherwise, Permission, Rule, Rules};
use thalweg_kernel::{
    CloseReason, Closing, Draft, DropReason, GroupPolicy, GroupStrategy, Limits, LoadReport,
    OrderKey, Settled, Subscribed, home,
};
use thalweg_model::{Filter, Reliability, Span};

const HOUR: Span = Span::from_secs(3600);

fn adaptive() -> Limits {
    Limits {
        group_strategy: GroupStrategy::Adaptive,
        group_adaptive_eviction: true,
        ..Limits::default()
    }
}

fn in_turns() -> Limits {
    Limits {
        group_strategy: GroupStrategy::RoundRobin,
        ..Limits::default()
    }
}

/// The shard that owns `$share/g/t`, and the two others.
fn places() -> (usize, usize, usize) {
    let owner = usize::from(home("g/t", 3).0);
    (owner, (owner + 1) % 3, (owner + 2) % 3)
}

/// A member of `$share/g/t` on that shard.
fn member(world: &mut World, shard: usize, expiry: Span, reliability: Reliability) -> Who {
    let name = world.name_on(shard);
    let who = world.connect_with(shard, &name, Access::ALL, expiry);
    assert_eq!(
        world.subscribe(who, "t", Some("g"), reliability),
        Subscribed::Granted(reliability)
    );
    who
}

fn publisher(world: &mut World, shard: usize) -> Who {
    let name = world.name_on(shard);
    world.connect_with(shard, &name, Access::ALL, Span::ZERO)
}

/// Publishes every `every` ms for so many ms, in turns on all shards; each member works one at a time and takes so long.
fn work(world: &mut World, members: &[Who], takes: &[u32], every: u32, lasts: u32) -> Vec<usize> {
    let publishers: Vec<Who> = (0..3).map(|shard| publisher(world, shard)).collect();
    let mut queues: Vec<Vec<u64>> = vec![Vec::new(); members.len()];
    let (mut got, mut left) = (vec![0; members.len()], vec![0; members.len()]);
    for step in 0..lasts {
        if step % every == 0 {
            let publisher = publishers[(step / every) as usize % 3];
            world.publish(publisher, firm("t", "m"));
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
                    world.settle_delivery(*who, tag);
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
fn who_is_faster_gets_more_on_whichever_shard_it_is() {
    for turn in 0..3 {
        let mut world = World::without_prefixes(3, adaptive());
        let members: Vec<Who> = (0..3)
            .map(|at| {
                member(
                    &mut world,
                    (at + turn) % 3,
                    Span::ZERO,
                    Reliability::AtLeastOnce,
                )
            })
            .collect();
        let got = work(&mut world, &members, &[10, 10, 40], 5, 4_000);
        assert!(
            got[0] > 3 * got[2] && got[1] > 3 * got[2] && got[2] > 20,
            "{got:?}"
        );
        assert!(got.iter().sum::<usize>() >= 790, "{got:?}");
    }
}

#[test]
fn shards_with_few_members_and_with_many_are_not_told_apart() {
    let mut world = World::without_prefixes(3, adaptive());
    let (_, next, last) = places();
    let shards = [next, last, last, last, last];
    let members: Vec<Who> = shards
        .iter()
        .map(|shard| member(&mut world, *shard, Span::ZERO, Reliability::AtLeastOnce))
        .collect();
    // The one that is alone on its shard is as fast as all others together.
    let got = work(&mut world, &members, &[4, 16, 16, 16, 16], 3, 3_000);
    let rest: usize = got[1..].iter().sum();
    assert!(got[0] >= 400 && (300..=600).contains(&rest), "{got:?}");
}

#[test]
fn messages_wait_at_the_owner_and_whoever_joins_elsewhere_has_work_at_once() {
    let mut world = World::without_prefixes(3, adaptive());
    let (owner, next, last) = places();
    let first = member(&mut world, next, Span::ZERO, Reliability::AtLeastOnce);
    let publisher = publisher(&mut world, last);
    for number in 0..10 {
        world.publish(publisher, firm("t", &number.to_string()));
    }
    assert_eq!(world.texts(first), ["0"]);
    let mut waiting = [0; 3];
    for (shard, waiting) in waiting.iter_mut().enumerate() {
        let now = world.now;
        world.kernels[shard].for_each_group(now, |group| *waiting += group.waiting);
    }
    assert_eq!((waiting[owner], waiting[next], waiting[last]), (9, 0, 0));
    let second = member(&mut world, last, Span::ZERO, Reliability::AtLeastOnce);
    world.publish(publisher, firm("t", "10"));
    assert_eq!(world.texts(second), ["1"]);
}

#[test]
fn turns_go_round_all_shards() {
    let mut world = World::with(3, in_turns());
    let members =
        [0, 0, 1, 2].map(|shard| member(&mut world, shard, Span::ZERO, Reliability::AtMostOnce));
    let publishers = [0, 1, 2].map(|shard| publisher(&mut world, shard));
    for number in 0..40 {
        world.publish(publishers[number % 3], draft("t", "m"));
    }
    assert_eq!(members.map(|who| world.got(who).len()), [10, 10, 10, 10]);
}

#[test]
fn a_strategy_that_binds_finds_the_same_member_from_every_shard() {
    let mut world = World::with(
        3,
        Limits {
            group_strategy: GroupStrategy::HashAddress,
            ..Limits::default()
        },
    );
    let members: Vec<Who> = (0..6)
        .map(|at| {
            let who = {
                let name = world.name_on(at % 3);
                world.connect_with(at % 3, &name, Access::ALL, Span::ZERO)
            };
            world.subscribe(who, "t/+", Some("g"), Reliability::AtLeastOnce);
            who
        })
        .collect();
    let publishers = [0, 1, 2].map(|shard| publisher(&mut world, shard));
    for address in ["t/1", "t/2", "t/3", "t/4"] {
        for publisher in publishers {
            world.publish(publisher, firm(address, "m"));
        }
        let got: Vec<usize> = members
            .iter()
            .map(|who| world.got(*who).len())
            .filter(|count| *count > 0)
            .collect();
        assert_eq!(got, [3], "{address}");
    }
}

#[test]
fn what_a_link_leaves_goes_to_others_in_order_and_flagged() {
    for expiry in [Span::ZERO, HOUR] {
        let mut world = World::with(3, in_turns());
        let (_, next, last) = places();
        let first = member(&mut world, next, expiry, Reliability::AtLeastOnce);
        let publisher = publisher(&mut world, next);
        for number in 0..5 {
            world.publish(publisher, firm("t", &number.to_string()));
        }
        let tags: Vec<u64> = world.got(first).iter().map(|got| got.tag).collect();
        world.settle_delivery(first, tags[1]);
        let second = member(&mut world, last, expiry, Reliability::AtLeastOnce);
        world.lose(first);
        let got = world.got(second);
        let shown: Vec<_> = got
            .iter()
            .map(|got| (got.text.as_str(), got.deliveries))
            .collect();
        assert_eq!(
            shown,
            [("0", 1), ("2", 1), ("3", 1), ("4", 1)],
            "{expiry:?}"
        );
        for got in got {
            assert_eq!(world.settle_delivery(second, got.tag), Settled::Known);
        }
        assert_eq!(world.entries_written(), 0, "{expiry:?}");
    }
}

#[test]
fn an_exactly_once_copy_stays_with_its_member() {
    let mut world = World::with(3, in_turns());
    let (_, next, last) = places();
    let first = member(&mut world, next, HOUR, Reliability::ExactlyOnce);
    let publisher = publisher(&mut world, last);
    world.publish(
        publisher,
        Draft {
            reliability: Reliability::ExactlyOnce,
            ticket: 1,
            ..firm("t", "0")
        },
    );
    assert_eq!(world.texts(first), ["0"]);
    let second = member(&mut world, last, HOUR, Reliability::ExactlyOnce);
    world.lose(first);
    assert!(world.got(second).is_empty());
    assert_eq!(world.entries_written(), 1);
}

#[test]
fn a_member_whose_output_is_full_is_passed_over_until_there_is_room() {
    let mut world = World::with(3, in_turns());
    let (_, next, last) = places();
    let first = member(&mut world, next, Span::ZERO, Reliability::AtLeastOnce);
    let second = member(&mut world, last, Span::ZERO, Reliability::AtLeastOnce);
    let publisher = publisher(&mut world, next);
    world.set_room(first, 0);
    for number in 0..6 {
        world.publish(publisher, firm("t", &number.to_string()));
    }
    assert_eq!(world.texts(second), ["0", "1", "2", "3", "4", "5"]);
    world.make_room(first, 100);
    for number in 6..12 {
        world.publish(publisher, firm("t", &number.to_string()));
    }
    assert_eq!((world.got(first).len(), world.got(second).len()), (3, 3));
}

#[test]
fn rights_of_members_elsewhere_count_and_may_change() {
    let mut world = World::with(3, in_turns());
    let (_, next, last) = places();
    let first = member(&mut world, next, Span::ZERO, Reliability::AtLeastOnce);
    let second = member(&mut world, last, Span::ZERO, Reliability::AtLeastOnce);
    let publisher = publisher(&mut world, next);
    let blind = || {
        let rules = Rules::new(vec![Rule::deny(Permission::Receive, "t")], Otherwise::Allow)
            .expect("legal");
        rules.compile("", None)
    };
    world.run(next, |kernel, _, _| {
        kernel.set_access(first.session, blind())
    });
    for number in 0..4 {
        world.publish(publisher, firm("t", &number.to_string()));
    }
    assert_eq!((world.got(first).len(), world.got(second).len()), (0, 4));
    world.run(last, |kernel, _, _| {
        kernel.set_access(second.session, blind())
    });
    world.publish(publisher, firm("t", "4"));
    assert_eq!(
        world.dropped(DropReason::AccessDenied),
        1,
        "nobody may have it"
    );
    world.run(next, |kernel, _, _| {
        kernel.set_access(first.session, Access::ALL)
    });
    world.publish(publisher, firm("t", "5"));
    assert_eq!(world.texts(first), ["5"]);
}

#[test]
fn a_report_reaches_the_owner() {
    let mut world = World::without_prefixes(3, adaptive());
    let (_, next, last) = places();
    let members =
        [next, last].map(|shard| member(&mut world, shard, Span::ZERO, Reliability::AtMostOnce));
    let publisher = publisher(&mut world, next);
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
                assert!(world.run(who.shard, |kernel, out, now| kernel.report_load(
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
    assert!(got[0] > 2 * got[1], "{got:?}");
}

#[test]
fn a_consumer_of_a_line_is_a_member_of_a_group_that_is_owned_elsewhere() {
    let mut world = World::with(3, in_turns());
    let queues = world.home();
    // A name whose group is owned by another shard than that of lines.
    let name = (0..)
        .map(|n| format!("g{n}"))
        .find(|name| usize::from(home(&format!("{name}/t"), 3).0) != queues);
    let name = name.expect("some name");
    let here = world.connect("here");
    world
        .consume_from(here, &format!("$g/{name}/t"), 1, Taking::credit(2))
        .expect("it may");
    let away = {
        let client = world.name_on((queues + 1) % 3);
        world.connect_with((queues + 1) % 3, &client, Access::ALL, HOUR)
    };
    world.subscribe(away, "t", Some(&name), Reliability::AtLeastOnce);
    let publisher = publisher(&mut world, (queues + 2) % 3);
    for number in 0..8 {
        world.publish(publisher, firm("t", &number.to_string()));
    }
    let (line, session) = (world.got(here), world.got(away));
    assert_eq!((line.len(), session.len()), (2, 6), "credit counts");
    // A returned message belongs to another member.
    world.requeue(here, line[0].tag);
    let again: Vec<Got> = [world.got(here), world.got(away)].concat();
    assert_eq!(
        again
            .iter()
            .map(|got| (got.text.as_str(), got.deliveries))
            .collect::<Vec<_>>(),
        [("0", 1)]
    );
    world.lose(here);
    world.lose(away);
    world.restart();
    let waiting: usize = (0..3)
        .map(|shard| {
            let mut waiting = 0;
            let now = world.now;
            world.kernels[shard].for_each_group(now, |group| waiting += group.waiting);
            waiting
        })
        .sum();
    assert_eq!(waiting, 8, "nothing was settled");
}

#[test]
fn a_group_ends_with_its_last_member_wherever_that_is() {
    let mut world = World::with(3, in_turns());
    let (_, next, last) = places();
    let first = member(&mut world, next, HOUR, Reliability::AtLeastOnce);
    let second = member(&mut world, last, HOUR, Reliability::AtLeastOnce);
    let publisher = publisher(&mut world, next);
    for number in 0..4 {
        world.publish(publisher, firm("t", &number.to_string()));
    }
    world.unsubscribe(first, "t", Some("g"));
    for who in [first, second] {
        for got in world.got(who) {
            assert_eq!(world.settle_delivery(who, got.tag), Settled::Known);
        }
    }
    world.unsubscribe(second, "t", Some("g"));
    assert_eq!((world.entries_written(), world.groups_written()), (0, 0));
    assert_eq!(
        world
            .kernels
            .iter()
            .map(|kernel| kernel.totals().groups)
            .sum::<usize>(),
        0
    );
}

#[test]
fn a_member_that_freezes_loses_its_link_and_what_it_has_goes_to_another_shard() {
    let mut world = World::without_prefixes(3, adaptive());
    let (_, next, last) = places();
    let members =
        [next, last, last].map(|shard| member(&mut world, shard, HOUR, Reliability::AtLeastOnce));
    let publisher = publisher(&mut world, next);
    let (mut held, mut again) = (Vec::new(), Vec::new());
    for step in 0..500 {
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
    assert!(!held.is_empty() && held.len() <= 3, "{held:?}");
    assert_eq!(world.closed(members[0]), Some(CloseReason::Stalled));
    assert_eq!(
        again,
        held.iter().map(|got| got.text.clone()).collect::<Vec<_>>()
    );
    let evicted: Vec<_> = world.kernels[next].take_evicted().collect();
    assert_eq!(evicted.len(), 1);
    assert_eq!((evicted[0].returned, &*evicted[0].group), (held.len(), "g"));
    // It comes back on trial: one message, however many there are.
    let back = world.connect_with(next, &evicted[0].client, Access::ALL, HOUR);
    for who in &members[1..] {
        world.lose(*who);
    }
    for number in 0..3 {
        world.publish(publisher, firm("t", &number.to_string()));
    }
    let got = world.got(back);
    assert_eq!(got.len(), 1);
    world.settle_delivery(back, got[0].tag);
    assert!(!world.got(back).is_empty());
}

#[test]
fn whoever_does_not_settle_in_time_loses_its_link_whatever_the_strategy() {
    let limits = Limits {
        group_settle_timeout: Span::from_secs(5),
        ..in_turns()
    };
    let mut world = World::without_prefixes(3, limits);
    let (_, next, last) = places();
    let first = member(&mut world, next, HOUR, Reliability::AtLeastOnce);
    let publisher = publisher(&mut world, next);
    world.publish(publisher, firm("t", "0"));
    assert_eq!(world.texts(first), ["0"]);
    for _ in 0..20 {
        world.wait(Span::from_secs(1));
    }
    assert_eq!(world.closed(first), None, "nobody else is there");
    let second = member(&mut world, last, HOUR, Reliability::AtLeastOnce);
    for _ in 0..20 {
        world.wait(Span::from_secs(1));
    }
    assert_eq!(world.closed(first), Some(CloseReason::Stalled));
    assert_eq!(world.texts(second), ["0"]);
}

#[test]
fn what_was_under_way_to_a_full_member_does_not_overtake_what_it_sent_back() {
    let mut world = World::with(3, in_turns());
    let (owner, next, _) = places();
    let first = member(&mut world, next, Span::ZERO, Reliability::AtLeastOnce);
    let publisher = publisher(&mut world, owner);
    world.is_slow = true;
    world.set_room(first, 0);
    world.publish(publisher, firm("t", "0"));
    world.publish(publisher, firm("t", "1"));
    world.carry(owner, next);
    world.make_room(first, 100);
    // It has room again before the owner knows that it had none.
    world.carry(owner, next);
    assert!(world.got(first).is_empty());
    // The owner is notified of credit while a message is still on its way back.
    for _ in 0..2 {
        world.carry(next, owner);
    }
    world.publish(publisher, firm("t", "2"));
    world.is_slow = false;
    world.run(owner, |_, _, _| ());
    assert_eq!(world.texts(first), ["0", "1", "2"]);
}

#[test]
fn what_is_under_way_to_a_member_is_in_the_journal_until_it_has_arrived_though_nobody_else_stays() {
    let mut world = World::with(3, in_turns());
    let (owner, next, last) = places();
    let first = member(&mut world, next, HOUR, Reliability::AtLeastOnce);
    let second = member(&mut world, last, Span::ZERO, Reliability::AtLeastOnce);
    let publisher = publisher(&mut world, owner);
    world.is_slow = true;
    world.publish(publisher, firm("t", "0"));
    world.publish(publisher, firm("t", "1"));
    // The only member that outlives the broker leaves, and the owner is notified first.
    world.unsubscribe(first, "t", Some("g"));
    for _ in 0..4 {
        world.carry(next, owner);
    }
    // The journal is checked at every step.
    for _ in 0..4 {
        world.carry(owner, last);
    }
    world.is_slow = false;
    world.run(owner, |_, _, _| ());
    for got in world.got(second) {
        assert_eq!(world.settle_delivery(second, got.tag), Settled::Known);
    }
    world.lose(second);
    assert_eq!((world.entries_written(), world.groups_written()), (0, 0));
}

#[test]
fn whatever_the_order_in_which_shards_hear_of_each_other_nothing_is_lost_or_had_twice() {
    let runs = std::env::var("RUNS")
        .ok()
        .and_then(|runs| runs.parse().ok())
        .unwrap_or(250);
    let seed = std::env::var("SEED")
        .ok()
        .and_then(|seed| seed.parse::<u64>().ok());
    for seed in seed.map_or(1..runs + 1, |seed| seed..seed + 1) {
        println!("SEED={seed}");
        Run::new(seed).play();
    }
}

/// One of the members.
struct Worker {
    name: String,
    shard: usize,
    durable: bool,
    who: Option<Who>,
    /// Delivered and not settled.
    has: Vec<Got>,
}

/// Members that come and go, mail that takes its time, and crashes.
struct Run {
    dice: Dice,
    world: World,
    workers: Vec<Worker>,
    published: usize,
    /// Accepted and written: a member must settle them.
    promised: Vec<String>,
    /// By text: how often it was settled, and whether it ever came without the flag after it had come before.
    settled: BTreeMap<String, usize>,
    seen: BTreeMap<String, usize>,
    crashed: bool,
    /// Messages of one address are in order.
    is_ordered: bool,
}

impl Run {
    fn new(seed: u64) -> Run {
        let mut dice = Dice(seed);
        let strategies = [
            GroupStrategy::RoundRobin,
            GroupStrategy::Adaptive,
            GroupStrategy::LeastOutstanding,
            GroupStrategy::Random,
        ];
        let group_strategy = strategies[dice.roll(strategies.len())];
        let is_ordered = dice.roll(3) == 0;
        let order = is_ordered.then_some(OrderKey::Address);
        let filter = Filter::new("t/#").expect("legal");
        let policy = GroupPolicy {
            order,
            ..GroupPolicy::new(filter)
        };
        let limits = Limits {
            group_strategy,
            in_flight_max: [1, 3, 100][dice.roll(3)],
            group_policies: [policy].into(),
            named_queue_memory_bytes_max: [200, 16 << 20][dice.roll(2)],
            ..Limits::default()
        };
        let mut world = World::without_prefixes(2 + dice.roll(3) as u16, limits);
        let workers = (0..2 + dice.roll(4)).map(|number| {
            let shard = dice.roll(world.kernels.len());
            // One is always there to say what is promised.
            let durable = number == 0 || dice.roll(2) == 0;
            Worker {
                name: world.name_on(shard),
                shard,
                durable,
                who: None,
                has: Vec::new(),
            }
        });
        let workers: Vec<Worker> = workers.collect();
        let mut run = Run {
            dice,
            world,
            workers,
            published: 0,
            promised: Vec::new(),
            settled: BTreeMap::new(),
            seen: BTreeMap::new(),
            crashed: false,
            is_ordered,
        };
        run.come(0);
        run.world.is_slow = true;
        run
    }

    fn come(&mut self, at: usize) {
        let worker = &mut self.workers[at];
        if worker.who.is_some() {
            return;
        }
        let expiry = if worker.durable { HOUR } else { Span::ZERO };
        let who = self
            .world
            .connect_with(worker.shard, &worker.name.clone(), Access::ALL, expiry);
        worker.who = Some(who);
        self.world
            .ask_to_join(who, "t/#", "g", Reliability::AtLeastOnce);
    }

    fn go(&mut self, at: usize) {
        self.look(at);
        if let Some(who) = self.workers[at].who.take() {
            self.workers[at].has.clear();
            self.world.run(who.shard, |kernel, out, now| {
                kernel.close_link(who.session, who.link, Closing::Lost, None, now, out);
            });
        }
    }

    fn look(&mut self, at: usize) {
        let Some(who) = self.workers[at].who else {
            return;
        };
        for got in self.world.got(who) {
            let seen = self.seen.entry(got.text.clone()).or_default();
            assert!(
                *seen == 0 || got.deliveries > 0 || self.crashed,
                "{} comes again as if it were new",
                got.text
            );
            *seen += 1;
            self.workers[at].has.push(got);
        }
        if self.world.closed(who).is_some() {
            // It was silent for too long.
            self.workers[at].who = None;
            self.workers[at].has.clear();
        }
    }

    fn settle(&mut self, at: usize) {
        self.look(at);
        let Some(who) = self.workers[at].who else {
            return;
        };
        if self.workers[at].has.is_empty() {
            return;
        }
        let got = self.workers[at].has.remove(0);
        if self.world.settle_delivery(who, got.tag) == Settled::Known {
            *self.settled.entry(got.text).or_default() += 1;
        }
    }

    fn publish(&mut self) {
        let text = self.published.to_string();
        self.published += 1;
        let key = self.dice.roll(3);
        // Those of one address come from one place.
        let shard = if self.is_ordered {
            key
        } else {
            self.dice.roll(9)
        } % self.world.kernels.len();
        let publisher = publisher(&mut self.world, shard);
        self.world
            .publish(publisher, firm(&format!("t/{key}"), &text));
        self.world.lose(publisher);
        // It is promised when what is under way has been written.
        let mails = self.world.mails_sent();
        self.promised.push(text);
        self.world.slow.promises.push(mails);
    }

    /// Nobody has a message of an address of which another has one.
    fn check_order(&mut self) {
        let mut holders: BTreeMap<String, usize> = BTreeMap::new();
        for at in 0..self.workers.len() {
            self.look(at);
            for got in &self.workers[at].has {
                let holder = *holders.entry(got.address.clone()).or_insert(at);
                assert_eq!(holder, at, "two have messages of {}", got.address);
            }
            let numbers = |address: &str| -> Vec<usize> {
                let of = self.workers[at]
                    .has
                    .iter()
                    .filter(|got| *got.address == *address && got.deliveries == 0);
                of.filter_map(|got| got.text.parse().ok()).collect()
            };
            for address in ["t/0", "t/1", "t/2"] {
                assert!(
                    numbers(address).is_sorted(),
                    "{address}: {:?}",
                    numbers(address)
                );
            }
        }
    }

    fn crash(&mut self) {
        self.crashed = true;
        let kept = self.world.promises_kept();
        let lost: Vec<String> = self.promised.split_off(kept.min(self.promised.len()));
        drop(lost);
        for at in 0..self.workers.len() {
            self.look(at);
            self.workers[at].who = None;
            self.workers[at].has.clear();
        }
        self.world.is_slow = false;
        let shards = if self.dice.roll(2) == 0 {
            self.world.kernels.len()
        } else {
            1 + self.dice.roll(4)
        };
        self.world.restart_as(shards as u16);
        self.world.slow.promises = vec![0; self.promised.len()];
        for worker in &mut self.workers {
            worker.shard = usize::from(home(&worker.name, shards as u16).0);
        }
        self.world.is_slow = true;
    }

    fn play(mut self) {
        for _ in 0..300 {
            let at = self.dice.roll(self.workers.len());
            match self.dice.roll(24) {
                0..=5 => self.publish(),
                6..=8 => self.come(at),
                9 => self.go(at),
                10..=14 => self.settle(at),
                15..=20 => {
                    for _ in 0..1 + self.dice.roll(4) {
                        let shards = self.world.kernels.len();
                        let (from, to) = (self.dice.roll(shards), self.dice.roll(shards));
                        self.world.carry(from, to);
                    }
                }
                21 => {
                    let span = Span::from_millis(1 + self.dice.roll(30) as u64);
                    self.world.wait(span);
                }
                22 if self.dice.roll(6) == 0 => self.crash(),
                _ => self.look(at),
            }
            if self.is_ordered {
                self.check_order();
            }
        }
        // Everybody comes, reads and settles.
        self.world.is_slow = false;
        for at in 0..self.workers.len() {
            self.come(at);
        }
        for _ in 0..self.published * 4 + 50 {
            self.world.wait(Span::from_millis(5));
            for at in 0..self.workers.len() {
                self.look(at);
                self.come(at);
                while !self.workers[at].has.is_empty() {
                    self.settle(at);
                }
            }
        }
        for text in &self.promised {
            let times = self.settled.get(text).copied().unwrap_or(0);
            assert!(times >= 1, "{text} was promised and nobody has had it");
        }
        if !self.crashed {
            let twice: Vec<_> = self
                .settled
                .iter()
                .filter(|(_, times)| **times > 1)
                .collect();
            assert!(twice.is_empty(), "settled twice: {twice:?}");
        }
        assert_eq!(self.world.entries_written(), 0, "all is settled");
        for kernel in &self.world.kernels {
            let totals = kernel.totals();
            assert_eq!((totals.waiting, totals.in_flight), (0, 0));
        }
    }
}
