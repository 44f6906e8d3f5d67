//! Subscribers on all shards and consumers share a queue, come and go, and the process may end: nothing is lost, and
//! only delivered messages are delivered again.

use crate::world::{Dice, Taking, Terms, Who, World, q};
use std::collections::{BTreeMap, BTreeSet};
use thalweg_kernel::access::Access;
use thalweg_kernel::{Limits, Verdict};
use thalweg_model::{Reliability, Span};

/// The first is a consumer of a line, the others are members of a group; the last two stay when their links end.
fn connect(world: &mut World, at: usize, shards: u16) -> Who {
    if at == 0 {
        let who = world.connect("consumer");
        world.declare(who, "q", &Terms::durable()).expect("it may");
        world.consume(who, "q", 1, Taking::credit(3));
        return who;
    }
    let expiry = if at > 3 {
        Span::from_secs(3600)
    } else {
        Span::ZERO
    };
    let name = (0..)
        .map(|number| format!("member-{at}-{number}"))
        .find(|name| usize::from(thalweg_kernel::home(name, shards).0) == at % usize::from(shards))
        .expect("some name has that home");
    let who = world.connect_with(at % usize::from(shards), &name, Access::ALL, expiry);
    world.subscribe(who, &q("q"), Some("q"), Reliability::AtLeastOnce);
    who
}

fn play(seed: u64, shards: u16) {
    let mut dice = Dice(seed);
    let mut world = World::with(shards, Limits::default());
    let mut clients: Vec<Who> = (0..6).map(|at| connect(&mut world, at, shards)).collect();
    let mut alive: BTreeSet<u32> = BTreeSet::new();
    // Deliveries by receiver and tag, and messages delivered at least once.
    let mut with: Vec<BTreeMap<u64, u32>> = vec![BTreeMap::new(); 6];
    let mut seen: BTreeSet<u32> = BTreeSet::new();
    // Messages that existed when the process ended: even some undelivered ones are flagged.
    let mut maybe: BTreeSet<u32> = BTreeSet::new();
    // Publisher of each message, and the consumer's last unflagged message of each publisher.
    let mut publisher: BTreeMap<u32, usize> = BTreeMap::new();
    let mut newest: BTreeMap<usize, u32> = BTreeMap::new();
    let mut last = 0;
    for _ in 0..250 {
        let at = dice.roll(6);
        match dice.roll(12) {
            0..=4 => {
                last += 1;
                alive.insert(last);
                publisher.insert(last, at);
                world.put(clients[at], "q", &last.to_string());
            }
            5 => {
                world.lose(clients[at]);
                with[at].clear();
                if at == 0 {
                    newest.clear();
                }
                clients[at] = connect(&mut world, at, shards);
            }
            6 if dice.roll(5) == 0 => {
                world.restart();
                with.iter_mut().for_each(BTreeMap::clear);
                maybe.extend(&alive);
                clients = (0..6).map(|at| connect(&mut world, at, shards)).collect();
                newest.clear();
            }
            7 => world.make_room(clients[at], 1 + dice.roll(5)),
            _ => {
                let Some((tag, number)) = with[at].pop_first() else {
                    continue;
                };
                match at {
                    0 if dice.roll(3) == 0 => world.requeue(clients[0], tag),
                    0 => {
                        world.settle(clients[0], 1, tag, false, Verdict::Accept);
                        alive.remove(&number);
                    }
                    _ => {
                        world.settle_delivery(clients[at], tag);
                        alive.remove(&number);
                    }
                }
            }
        }
        let mut all = Vec::new();
        for (at, who) in clients.iter().enumerate() {
            all.extend(world.got(*who).into_iter().map(|got| (at, got)));
        }
        all.sort_unstable_by_key(|(_, got)| got.order);
        for (at, got) in all {
            let number: u32 = got.text.parse().expect("a number");
            assert!(alive.contains(&number), "seed {seed}: {number} was settled");
            assert!(
                !with
                    .iter()
                    .any(|with| with.values().any(|it| *it == number)),
                "seed {seed}: {number} is with two"
            );
            let (is_marked, is_new) = (got.deliveries > 0, seen.insert(number));
            assert!(is_marked || is_new, "seed {seed}: {number} came again");
            // On its way to a member that had gone it may have been overtaken, and then it is marked, too.
            let may_be_marked = shards > 1 || !is_new || maybe.contains(&number);
            assert!(may_be_marked || !is_marked, "seed {seed}: {number} is new");
            if at == 0 && !is_marked {
                let before = newest.insert(publisher[&number], number);
                assert!(
                    before < Some(number),
                    "seed {seed}: {number} came after {before:?}"
                );
            }
            with[at].insert(got.tag, number);
        }
    }
    for who in clients {
        world.lose(who);
    }
    let left: BTreeSet<u32> = world
        .drain_texts("q")
        .iter()
        .map(|text| text.parse().expect("a number"))
        .collect();
    assert_eq!(left, alive, "seed {seed}");
    assert_eq!(world.entries_written(), 0, "seed {seed}");
}

#[test]
fn on_one_shard() {
    (0..60).for_each(|seed| play(seed, 1));
}

#[test]
fn on_several_shards() {
    (0..60).for_each(|seed| play(seed, 3));
}
