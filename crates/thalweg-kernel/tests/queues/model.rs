//! Random commands against a naive model: order, nothing lost, nothing twice, and the process may end at any time.

use crate::world::{Dice, Taking, Terms, Who, World, draft, firm, q, to_queue};
use std::collections::{BTreeMap, BTreeSet};
use thalweg_kernel::Verdict;
use thalweg_model::Span;

/// Expected state of a message, by its text.
#[derive(Clone, Debug)]
struct Known {
    queue: &'static str,
    firm: bool,
    /// Number of deliveries since the process began.
    given: u32,
    /// It was delivered and unsettled.
    flagged: bool,
    /// It existed when the process ended; of those, some undelivered ones are flagged.
    survived: bool,
}

const QUEUES: [(&str, bool); 3] = [("kept", true), ("lost", false), ("dead", true)];

/// Expected state of the broker.
#[derive(Default)]
struct Model {
    alive: BTreeMap<u32, Known>,
    /// By client and line: what it has, by tag.
    with: BTreeMap<(usize, u16), BTreeMap<u64, u32>>,
    last: u32,
}

impl Model {
    fn publish(&mut self, queue: &'static str, firm: bool) -> String {
        self.last += 1;
        self.alive.insert(
            self.last,
            Known {
                queue,
                firm,
                given: 0,
                flagged: false,
                survived: false,
            },
        );
        self.last.to_string()
    }

    /// Messages that arrived at the clients.
    fn take(&mut self, clients: &[Who], world: &mut World, seed: u64) {
        let mut all = Vec::new();
        for (at, who) in clients.iter().enumerate() {
            all.extend(world.got(*who).into_iter().map(|got| (at, got)));
        }
        all.sort_unstable_by_key(|(_, got)| got.order);
        for (at, got) in all {
            let number: u32 = got.text.parse().expect("a number");
            let held = self
                .with
                .values()
                .any(|with| with.values().any(|known| *known == number));
            assert!(!held, "seed {seed}: {number} is with somebody else");
            let known = self
                .alive
                .get_mut(&number)
                .unwrap_or_else(|| panic!("seed {seed}: {number} is gone"));
            let is_flagged = got.deliveries > 0;
            assert!(
                is_flagged || !known.flagged,
                "seed {seed}: {number} is not flagged"
            );
            assert!(
                !is_flagged || known.flagged || known.survived,
                "seed {seed}: {number} is flagged"
            );
            known.given += 1;
            // Earlier messages of its queue would have been delivered first.
            let earlier = self.alive.iter().find(|(other, it)| {
                **other < number
                    && it.queue == self.alive[&number].queue
                    && it.queue != "dead"
                    && !self
                        .with
                        .values()
                        .any(|with| with.values().any(|held| held == *other))
            });
            assert!(
                earlier.is_none(),
                "seed {seed}: {number} overtook {earlier:?}"
            );
            if got.settles {
                self.with
                    .entry((at, got.line))
                    .or_default()
                    .insert(got.tag, number);
                self.alive.get_mut(&number).expect("it is there").flagged = true;
            } else {
                self.alive.remove(&number);
            }
        }
    }

    fn settle(&mut self, number: u32, verdict: Verdict) {
        let Some(known) = self.alive.get_mut(&number) else {
            return;
        };
        match verdict {
            Verdict::Requeue => {}
            Verdict::Reject if known.queue == "kept" => {
                known.queue = "dead";
                known.flagged = false;
            }
            Verdict::Accept | Verdict::Reject => drop(self.alive.remove(&number)),
        }
    }

    fn leave(&mut self, at: usize, line: Option<u16>) {
        self.with
            .retain(|(client, of), _| *client != at || line.is_some_and(|line| line != *of));
    }
}

fn declare(world: &mut World, who: Who) {
    for (name, durable) in QUEUES {
        let dead_letter = if name == "kept" {
            to_queue("dead")
        } else {
            None
        };
        let terms = Terms {
            durable,
            ..Terms::default()
        }
        .with(|limits| limits.dead_letter = dead_letter);
        world.declare(who, name, &terms).expect("it may");
    }
}

/// With `on_disk`, all that comes into the kept queue is to be written down: it is, behind what is on disk.
fn play(seed: u64, mut world: World, on_disk: bool) {
    let mut dice = Dice(seed);
    let mut model = Model::default();
    let mut clients: Vec<Who> = (0..3).map(|at| world.connect(&format!("c{at}"))).collect();
    let mut consumers: BTreeSet<(usize, u16, u32)> = BTreeSet::new();
    let mut number_last = 0;
    declare(&mut world, clients[0]);
    for _ in 0..400 {
        let at = dice.roll(3);
        let (who, line) = (clients[at], 1 + dice.roll(2) as u16);
        match dice.roll(24) {
            0..=6 => {
                let (queue, is_durable) = QUEUES[dice.roll(2)];
                let is_firm = dice.roll(4) > 0 || on_disk;
                let text = model.publish(queue, is_firm && is_durable);
                let address = q(queue);
                world.publish(
                    who,
                    if is_firm {
                        firm(&address, &text)
                    } else {
                        draft(&address, &text)
                    },
                );
            }
            7..=8 if consumers.len() < 6 => {
                number_last += 1;
                let settles = dice.roll(4) > 0;
                let taking = Taking {
                    line,
                    settles,
                    ..Taking::credit(1 + dice.roll(5) as u32)
                };
                consumers.insert((at, line, number_last));
                world.consume(who, QUEUES[dice.roll(3)].0, number_last, taking);
            }
            9 => {
                if let Some(of) = consumers.iter().find(|(client, ..)| *client == at).copied() {
                    consumers.remove(&of);
                    assert!(world.cancel(who, of.1, of.2), "seed {seed}");
                }
            }
            10 => {
                world.run(who.shard, |kernel, out, now| {
                    kernel.close_line(who.session, line, now, out)
                });
                consumers.retain(|(client, of, _)| *client != at || *of != line);
                model.leave(at, Some(line));
            }
            11 => {
                world.lose(who);
                // Its end may have passed its messages to others; that comes before the next command.
                consumers.retain(|(client, ..)| *client != at);
                model.leave(at, None);
                clients[at] = world.connect(&format!("c{at}"));
            }
            12 if dice.roll(4) == 0 => {
                world.restart();
                consumers.clear();
                model.with.clear();
                model.alive.retain(|_, known| known.firm);
                for known in model.alive.values_mut() {
                    (known.given, known.survived) = (0, true);
                }
                clients = (0..3).map(|at| world.connect(&format!("c{at}"))).collect();
                declare(&mut world, clients[0]);
            }
            13 => {
                let room = dice.roll(8);
                world.make_room(who, room);
            }
            14..=15 => {
                world
                    .take(who, QUEUES[dice.roll(3)].0, dice.roll(2) == 0)
                    .expect("it may");
            }
            16 => world.wait(Span::from_secs(1)),
            _ => {
                let with = model.with.entry((at, line)).or_default();
                let Some(&tag) = with.keys().nth(dice.roll(with.len().max(1))) else {
                    continue;
                };
                let multiple = dice.roll(2) == 0;
                let verdict = [Verdict::Accept, Verdict::Requeue, Verdict::Reject][dice.roll(3)];
                let tags: Vec<_> = with
                    .keys()
                    .copied()
                    .filter(|it| *it == tag || (multiple && *it < tag))
                    .collect();
                let numbers: Vec<_> = tags.iter().filter_map(|tag| with.remove(tag)).collect();
                for number in numbers {
                    model.settle(number, verdict);
                }
                world.settle(who, line, tag, multiple, verdict);
            }
        }
        model.take(&clients, &mut world, seed);
        let in_flight: usize = model.with.values().map(BTreeMap::len).sum();
        let totals = world.kernels[0].totals();
        assert_eq!(totals.in_flight, in_flight, "seed {seed}: unsettled");
        assert_eq!(
            totals.waiting,
            model.alive.len() - in_flight,
            "seed {seed}: {:?}",
            model.alive
        );
        let written = model.alive.values().filter(|known| known.firm).count();
        assert_eq!(world.entries_written(), written, "seed {seed}: written");
    }
    for (at, line, number) in consumers {
        world.cancel(clients[at], line, number);
    }
    for who in clients {
        world.lose(who);
    }
    for (queue, _) in QUEUES {
        let mut left: Vec<u32> = world
            .drain_texts(queue)
            .iter()
            .map(|text| text.parse().expect("a number"))
            .collect();
        let mut expected: Vec<u32> = model
            .alive
            .iter()
            .filter(|(_, known)| known.queue == queue)
            .map(|(number, _)| *number)
            .collect();
        if queue == "dead" {
            left.sort_unstable();
            expected.sort_unstable();
        }
        assert_eq!(left, expected, "seed {seed}: {queue}");
    }
}

#[test]
fn random_commands_lose_nothing_repeat_nothing_and_keep_the_order() {
    for seed in 0..150 {
        play(seed, World::new(), false);
    }
}

#[test]
fn so_they_do_where_queues_are_on_disk() {
    let limits = thalweg_kernel::Limits {
        named_queue_memory_bytes_max: 600,
        ..Default::default()
    };
    for seed in 1_000..1_100 {
        play(seed, World::without_prefixes(1, limits.clone()), true);
    }
}
