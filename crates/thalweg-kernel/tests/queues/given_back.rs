//! A message that a group's consumer returns goes to another first, and comes back to it with pauses.

use crate::world::{Dice, Got, Taking, Terms, Who, World, firm};
use std::collections::BTreeMap;
use std::sync::Arc;
use thalweg_kernel::{GroupPolicy, GroupStrategy, Limits, OrderKey, Subscribed, Verdict};
use thalweg_model::{Filter, Reliability, Span};

const ONCE: Reliability = Reliability::AtLeastOnce;
const MILLI: Span = Span::from_millis(1);
const STRATEGIES: [GroupStrategy; 9] = [
    GroupStrategy::Adaptive,
    GroupStrategy::RoundRobin,
    GroupStrategy::LeastOutstanding,
    GroupStrategy::Sticky,
    GroupStrategy::Random,
    GroupStrategy::HashPublisher,
    GroupStrategy::HashAddress,
    GroupStrategy::Weighted,
    GroupStrategy::Score,
];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Habit {
    /// Gives everything back, one by one or all at once.
    Refuses,
    /// Gives back whatever has this number modulo the number of members.
    Picky(usize),
    /// A consumer that settles, each after so many ms.
    Consumes(u32),
    /// A subscription that does.
    Subscribes(u32),
}

struct Hand {
    who: Who,
    habit: Habit,
    holds: Vec<(Got, u32)>,
}

/// A group, and the receivers of each of its messages.
struct Crew {
    world: World,
    hands: Vec<Hand>,
    dice: Dice,
    credit: u32,
    /// Members that gave a message back, in their order.
    refused: BTreeMap<String, Vec<usize>>,
    deliveries: BTreeMap<String, usize>,
    done: BTreeMap<String, usize>,
    hint: String,
}

fn world(shards: u16, strategy: GroupStrategy, order: Option<OrderKey>) -> World {
    let filter = Filter::new("t/#").expect("legal");
    let policy = GroupPolicy {
        order,
        strategy: Some(strategy),
        ..GroupPolicy::new(filter)
    };
    World::without_prefixes(
        shards,
        Limits {
            group_policies: Arc::new([policy]),
            ..Limits::default()
        },
    )
}

impl Crew {
    fn new(mut world: World, seed: u64, filter: &str, credit: u32, habits: &[Habit]) -> Crew {
        let mut dice = Dice(seed);
        let mut hands = Vec::new();
        for habit in habits {
            let who = match habit {
                Habit::Subscribes(_) => {
                    let shard = dice.roll(world.kernels.len());
                    let name = world.name_on(shard);
                    let who = world.connect_with(
                        shard,
                        &name,
                        thalweg_kernel::access::Access::ALL,
                        Span::ZERO,
                    );
                    assert_eq!(
                        world.subscribe(who, filter, Some("g"), ONCE),
                        Subscribed::Granted(ONCE)
                    );
                    who
                }
                _ => {
                    let who = world.connect(&format!("c{}", hands.len()));
                    world
                        .consume_from(who, &format!("$g/g/{filter}"), 1, Taking::credit(credit))
                        .expect("it may");
                    who
                }
            };
            hands.push(Hand {
                who,
                habit: *habit,
                holds: Vec::new(),
            });
        }
        let hint = format!("seed {seed}, {filter}, credit {credit}, {habits:?}");
        let (refused, deliveries, done) = Default::default();
        Crew {
            world,
            hands,
            dice,
            credit,
            refused,
            deliveries,
            done,
            hint,
        }
    }

    /// A member takes what came to it; `strictly`: none of it may have been with it while others had room.
    fn look(&mut self, at: usize, strictly: bool) {
        for got in self.world.got(self.hands[at].who) {
            let count = self.deliveries.entry(got.text.clone()).or_default();
            assert_eq!(
                *count > 0,
                got.deliveries > 0,
                "{}: {} is flagged wrongly",
                self.hint,
                got.text
            );
            *count += 1;
            let refused = self
                .refused
                .get(&got.text)
                .map_or(&[][..], |refused| refused);
            if strictly && refused.contains(&at) {
                let has_room = |other: &usize| {
                    let hand = &self.hands[*other];
                    let is_bounded = !matches!(hand.habit, Habit::Subscribes(_));
                    *other != at && (!is_bounded || (hand.holds.len() as u32) < self.credit)
                };
                let other = (0..self.hands.len())
                    .filter(|other| !refused.contains(other))
                    .find(has_room);
                assert_eq!(
                    other, None,
                    "{}: {} came again to {at}",
                    self.hint, got.text
                );
            }
            let takes = match self.hands[at].habit {
                Habit::Consumes(takes) | Habit::Subscribes(takes) => takes,
                _ => 0,
            };
            self.hands[at].holds.push((got, takes));
        }
    }

    fn look_all(&mut self, strictly: bool) {
        (0..self.hands.len()).for_each(|at| self.look(at, strictly));
    }

    fn publish(&mut self, from: Who, address: &str, number: usize) {
        self.world.publish(from, firm(address, &number.to_string()));
    }

    /// A millisecond: each member handles its messages.
    fn step(&mut self, strictly: bool) {
        self.world.wait(MILLI);
        self.look_all(strictly);
        let first = self.dice.roll(self.hands.len());
        let count = self.hands.len();
        for at in (0..count).map(|at| (at + first) % count) {
            let (who, habit) = (self.hands[at].who, self.hands[at].habit);
            let is_wanted = |got: &Got| match habit {
                Habit::Refuses => false,
                Habit::Picky(kind) => got.text.parse::<usize>().expect("a number") % count != kind,
                _ => true,
            };
            if habit == Habit::Refuses && self.dice.roll(3) == 0 && self.hands[at].holds.len() > 1 {
                for (got, _) in std::mem::take(&mut self.hands[at].holds) {
                    self.refused.entry(got.text).or_default().push(at);
                }
                self.world.settle(who, 1, 0, true, Verdict::Requeue);
                self.look_all(strictly);
                continue;
            }
            // A working member settles one by one; a refusing one returns all.
            let mut left = match habit {
                Habit::Consumes(_) | Habit::Subscribes(_) => 1,
                _ => self.hands[at].holds.len(),
            };
            while left > 0 && !self.hands[at].holds.is_empty() {
                left -= 1;
                let first = &mut self.hands[at].holds[0];
                if first.1 > 0 {
                    first.1 -= 1;
                    break;
                }
                let (got, _) = self.hands[at].holds.remove(0);
                if is_wanted(&got) {
                    *self.done.entry(got.text).or_default() += 1;
                    match got.is_delivery {
                        true => {
                            self.world.settle_delivery(who, got.tag);
                        }
                        false => self.world.ack(who, got.tag),
                    }
                } else {
                    self.refused.entry(got.text).or_default().push(at);
                    self.world.requeue(who, got.tag);
                }
                self.look_all(strictly);
            }
        }
    }

    /// Publishes so many on a few addresses and waits until all are done; how often one was delivered at the most.
    fn run(&mut self, messages: usize, steps: usize, strictly: bool) -> usize {
        let from = self.world.connect("publisher");
        for number in 0..messages {
            let address = format!("t/{}", self.dice.roll(3));
            self.publish(from, &address, number);
            self.look_all(strictly);
            if self.dice.roll(2) == 0 {
                self.step(strictly);
            }
        }
        for _ in 0..steps {
            if self.done.len() == messages {
                break;
            }
            self.step(strictly);
        }
        assert_eq!(
            self.done.len(),
            messages,
            "{}: {:?}",
            self.hint,
            self.deliveries
        );
        assert!(self.done.values().all(|count| *count == 1), "{}", self.hint);
        assert_eq!(
            self.world
                .kernels
                .iter()
                .map(|kernel| kernel.totals().in_flight)
                .sum::<usize>(),
            0
        );
        self.deliveries.values().copied().max().unwrap_or(0)
    }
}

/// A group with these members, whatever its strategy; how often a message was delivered at the most.
fn everywhere(habits: &[Habit], credit: u32, order: Option<OrderKey>, bound: usize) {
    for strategy in STRATEGIES {
        for shards in [1, 3] {
            for seed in 0..2 {
                let mut crew =
                    Crew::new(world(shards, strategy, order), seed, "t/+", credit, habits);
                crew.hint = format!("{strategy:?}, {shards} shards, {order:?}, {}", crew.hint);
                let most = crew.run(24, 20_000, false);
                assert!(
                    most <= bound,
                    "{}: {most} deliveries, {:?}",
                    crew.hint,
                    crew.deliveries
                );
            }
        }
    }
}

#[test]
fn one_of_two_gives_everything_back() {
    for other in [
        Habit::Consumes(0),
        Habit::Consumes(4),
        Habit::Subscribes(0),
        Habit::Subscribes(4),
    ] {
        everywhere(&[Habit::Refuses, other], 20, None, 14);
        everywhere(&[other, Habit::Refuses], 1, None, 14);
    }
}

#[test]
fn two_of_three_give_everything_back() {
    for third in [Habit::Consumes(2), Habit::Subscribes(2)] {
        everywhere(&[Habit::Refuses, Habit::Refuses, third], 5, None, 16);
        everywhere(&[Habit::Refuses, third, Habit::Refuses], 20, None, 16);
    }
}

#[test]
fn everybody_wants_other_messages() {
    let habits: Vec<Habit> = (0..5).map(Habit::Picky).collect();
    everywhere(&habits, 3, None, 40);
}

#[test]
fn order_is_kept_and_still_somebody_else_has_it_in_the_end() {
    for order in [OrderKey::Publisher, OrderKey::Address] {
        everywhere(&[Habit::Refuses, Habit::Consumes(1)], 5, Some(order), 40);
        everywhere(
            &[Habit::Refuses, Habit::Subscribes(1), Habit::Refuses],
            5,
            Some(order),
            40,
        );
    }
}

#[test]
fn whoever_has_room_and_has_not_refused_it_comes_first() {
    let at_once = [
        GroupStrategy::RoundRobin,
        GroupStrategy::LeastOutstanding,
        GroupStrategy::Sticky,
        GroupStrategy::Random,
        GroupStrategy::Weighted,
    ];
    for strategy in at_once {
        for seed in 0..20 {
            let mut dice = Dice(seed);
            let habit = |dice: &mut Dice| match dice.roll(4) {
                0 => Habit::Refuses,
                1 => Habit::Picky(dice.roll(4)),
                2 => Habit::Consumes(dice.roll(5) as u32),
                _ => Habit::Subscribes(dice.roll(5) as u32),
            };
            let mut habits: Vec<Habit> = (0..1 + dice.roll(5)).map(|_| habit(&mut dice)).collect();
            // Somebody who takes everything.
            habits.insert(dice.roll(habits.len()), Habit::Consumes(1));
            let credit = 1 + dice.roll(8) as u32;
            let mut crew = Crew::new(world(1, strategy, None), seed, "t/+", credit, &habits);
            crew.hint = format!("{strategy:?}, {}", crew.hint);
            crew.run(60, 20_000, true);
        }
    }
}

#[test]
fn who_is_alone_is_asked_again_ever_more_slowly() {
    for strategy in STRATEGIES {
        for shards in [1, 3] {
            let mut crew = Crew::new(
                world(shards, strategy, None),
                1,
                "t/+",
                10,
                &[Habit::Refuses],
            );
            let from = crew.world.connect("p");
            crew.publish(from, "t/0", 0);
            let after = [10, 1000, 10_000].map(|until| {
                while crew.world.now
                    < thalweg_model::Time::from_secs(1000) + Span::from_millis(until)
                {
                    crew.step(false);
                }
                crew.deliveries["0"]
            });
            let hint = format!("{strategy:?}, {shards}: {after:?}");
            // At once, and after 1, 2, 4 … ms; each refusal takes one more.
            assert!(after[0] >= 4 && after[0] <= 6, "{hint}");
            assert!(after[1] >= 9 && after[1] <= 12, "{hint}");
            assert!(after[2] >= 18 && after[2] <= 22, "{hint}");
            // Whoever comes gets it at once.
            let other = crew.world.connect("other");
            crew.world
                .consume_from(other, "$g/g/t/+", 1, Taking::default())
                .expect("it may");
            if crew.world.texts(other).is_empty() {
                // The other has it just now.
                crew.step(false);
                assert_eq!(crew.world.texts(other), ["0"], "{hint}");
            }
            assert_eq!(crew.world.waiting_in_groups(), 0);
        }
    }
}

#[test]
fn others_take_what_is_behind_while_it_waits() {
    for strategy in [GroupStrategy::RoundRobin, GroupStrategy::Adaptive] {
        let mut world = world(1, strategy, None);
        let (refuser, full, from) = (world.connect("r"), world.connect("f"), world.connect("p"));
        world
            .consume_from(full, "$g/g/t/+", 1, Taking::credit(1))
            .expect("it may");
        world.publish(from, firm("t/0", "full"));
        assert_eq!(world.texts(full), ["full"]);
        world
            .consume_from(refuser, "$g/g/t/+", 1, Taking::credit(1))
            .expect("it may");
        world.publish(from, firm("t/0", "no"));
        // Nobody else has room: once at once, then after a pause.
        for tag in [1, 2] {
            assert_eq!(world.texts(refuser), ["no"], "{strategy:?}");
            world.requeue(refuser, tag);
        }
        assert_eq!(world.texts(refuser), [""; 0], "{strategy:?}");
        world.publish(from, firm("t/0", "yes"));
        world.wait(Span::ZERO);
        assert_eq!(world.texts(refuser), ["yes"], "{strategy:?}");
        // As soon as another member has credit, it gets the message.
        world.ack(full, 1);
        assert_eq!(world.texts(full), ["no"], "{strategy:?}");
        world.ack(full, 2);
        world.ack(refuser, 3);
        assert_eq!((world.waiting_in_groups(), world.entries_written()), (0, 0));
    }
}

#[test]
fn who_leaves_has_refused_nothing() {
    let mut world = world(1, GroupStrategy::RoundRobin, None);
    let (one, other, from) = (world.connect("1"), world.connect("2"), world.connect("p"));
    world
        .consume_from(one, "$g/g/t/+", 1, Taking::default())
        .expect("it may");
    world.publish(from, firm("t/0", "m"));
    assert_eq!(world.texts(one), ["m"]);
    world
        .consume_from(other, "$g/g/t/+", 1, Taking::default())
        .expect("it may");
    world.lose(one);
    let back = world.connect("1");
    world
        .consume_from(back, "$g/g/t/+", 1, Taking::default())
        .expect("it may");
    assert_eq!(world.texts(other), ["m"]);
    world.requeue(other, 1);
    assert_eq!(world.texts(back), ["m"]);
}

#[test]
fn a_queue_offers_what_one_consumer_gave_back_to_the_next_and_to_groups() {
    for seed in 0..20 {
        for credit in [1, 3, 10] {
            let mut world = World::in_turns(1);
            let mut dice = Dice(seed);
            let (refuser, worker, member) =
                (world.connect("r"), world.connect("w"), world.connect("m"));
            world.queue(worker, "q", &Terms::durable());
            world.consume(refuser, "q", 1, Taking::credit(credit));
            let has_consumer = dice.roll(2) == 0;
            match has_consumer {
                true => world.consume(worker, "q", 1, Taking::credit(credit)),
                false => assert_eq!(
                    world.subscribe(member, "$q/q", Some("q"), ONCE),
                    Subscribed::Granted(ONCE)
                ),
            }
            let (mut sent, mut done, mut refused) = (0, 0, 0);
            for _ in 0..600 {
                if sent < 60 && dice.roll(3) == 0 {
                    world.put(member, "q", &sent.to_string());
                    sent += 1;
                }
                match dice.roll(2) {
                    0 => {
                        for got in world.got(refuser) {
                            refused += 1;
                            world.requeue(refuser, got.tag);
                        }
                    }
                    _ if has_consumer => {
                        for got in world.got(worker) {
                            done += 1;
                            world.ack(worker, got.tag);
                        }
                    }
                    _ => {
                        for got in world.got(member) {
                            done += 1;
                            world.settle_delivery(member, got.tag);
                        }
                    }
                }
                world.wait(MILLI);
            }
            let hint = format!("seed {seed}, credit {credit}, {has_consumer}: {refused} refused");
            assert_eq!(
                (done, world.waits("q"), world.entries_written()),
                (60, 0, 0),
                "{hint}"
            );
            assert!(refused > 0, "{hint}");
            // In turns: about as many as were done.
            assert!(refused < 400, "{hint}");
        }
    }
}
