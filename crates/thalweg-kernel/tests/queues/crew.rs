//! Workers in a group: they take what comes one by one, each at its own speed; they come, go, freeze and come back.

use crate::world::{Dice, Got, Taking, Who, World, firm};
use std::collections::{BTreeMap, VecDeque};
use thalweg_kernel::access::Access;
use thalweg_kernel::{Draft, Settled};
use thalweg_model::{Reliability, Span};

const STAYS: Span = Span::from_secs(600);

/// Properties of a worker as a member.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Membership {
    /// By a subscription of a session that stays.
    Stays,
    /// By a subscription of a session that ends with its link.
    Goes,
    /// As a consumer of a line.
    Consumes,
}

pub struct Worker {
    pub name: String,
    pub kind: Membership,
    pub who: Option<Who>,
    /// Milliseconds a message takes.
    pub takes: u32,
    pub queue: VecDeque<Got>,
    left: u32,
    /// When it comes back, or works again.
    back_at: u32,
    pub frozen: bool,
    /// Since when it has had nothing to do although something waited.
    pub idle_since: u32,
    /// It has been frozen, so that it is on probation perhaps.
    pub was_frozen: bool,
}

/// A group of workers and the messages sent to it.
pub struct Crew {
    pub world: World,
    pub workers: Vec<Worker>,
    pub dice: Dice,
    pub seed: u64,
    filter: String,
    /// Milliseconds since the start.
    pub now: u32,
    pub sent: usize,
    /// Texts in the order in which they were done first, and how often each was.
    pub order: Vec<String>,
    pub done: BTreeMap<String, u32>,
    /// Lost links, and the time that members were idle while messages waited.
    pub losses: usize,
    pub idle_longest: u32,
    /// Messages of one key must be with one member at a time.
    pub is_ordered: bool,
    publishers: Vec<Who>,
    numbers: Vec<u32>,
}

impl Crew {
    pub fn new(world: World, seed: u64, filter: &str, kinds: &[(Membership, u32)]) -> Crew {
        let workers = kinds
            .iter()
            .enumerate()
            .map(|(number, (kind, takes))| Worker {
                name: format!("w{number}"),
                kind: *kind,
                who: None,
                takes: *takes,
                queue: VecDeque::new(),
                left: 0,
                back_at: 0,
                frozen: false,
                idle_since: 0,
                was_frozen: false,
            });
        let mut crew = Crew {
            world,
            workers: workers.collect(),
            dice: Dice(seed),
            seed,
            filter: filter.into(),
            now: 0,
            sent: 0,
            order: Vec::new(),
            done: BTreeMap::new(),
            losses: 0,
            idle_longest: 0,
            is_ordered: false,
            publishers: Vec::new(),
            numbers: Vec::new(),
        };
        for at in 0..crew.workers.len() {
            crew.come(at);
        }
        crew
    }

    pub fn come(&mut self, at: usize) {
        let worker = &mut self.workers[at];
        let expiry = if worker.kind == Membership::Stays {
            STAYS
        } else {
            Span::ZERO
        };
        let home = self.world.home();
        let who = self
            .world
            .connect_with(home, &worker.name, Access::ALL, expiry);
        match worker.kind {
            Membership::Consumes => {
                let source = format!("$g/g/{}", self.filter);
                self.world
                    .consume_from(who, &source, 1, Taking::credit(20))
                    .expect("it may");
            }
            _ => {
                self.world
                    .subscribe(who, &self.filter, Some("g"), Reliability::AtLeastOnce);
            }
        }
        worker.who = Some(who);
        (worker.left, worker.frozen, worker.idle_since) = (0, false, self.now);
    }

    /// A worker's link is lost with all that it had.
    pub fn go(&mut self, at: usize, for_ms: u32) {
        let worker = &mut self.workers[at];
        let Some(who) = worker.who.take() else { return };
        worker.queue.clear();
        worker.back_at = self.now + for_ms;
        self.losses += 1;
        self.world.lose(who);
    }

    /// A worker leaves the group and joins it again; it continues with its messages.
    pub fn leave_and_join(&mut self, at: usize) {
        let worker = &mut self.workers[at];
        let Some(who) = worker.who else { return };
        if worker.kind == Membership::Consumes {
            assert!(self.world.cancel(who, 1, 1));
            let source = format!("$g/g/{}", self.filter);
            self.world
                .consume_from(who, &source, 1, Taking::credit(20))
                .expect("it may");
        } else {
            self.world.unsubscribe(who, &self.filter, Some("g"));
            self.world
                .subscribe(who, &self.filter, Some("g"), Reliability::AtLeastOnce);
        }
    }

    pub fn freeze(&mut self, at: usize, for_ms: u32) {
        let worker = &mut self.workers[at];
        if worker.who.is_some() {
            (worker.frozen, worker.was_frozen, worker.back_at) = (true, true, self.now + for_ms);
        }
    }

    /// One of these keys is published to: each has a publisher and an address of its own.
    pub fn publish(&mut self, key: usize) {
        while self.publishers.len() <= key {
            let name = format!("p{}", self.publishers.len());
            let who = self.world.connect(&name);
            self.publishers.push(who);
            self.numbers.push(0);
        }
        let text = format!("{key}-{}", self.numbers[key]);
        self.numbers[key] += 1;
        self.sent += 1;
        let address = format!("t/{key}");
        let draft: Draft<'_> = firm(&address, &text);
        self.world.publish(self.publishers[key], draft);
    }

    /// A millisecond goes by.
    pub fn step(&mut self) {
        self.now += 1;
        self.world.wait(Span::from_millis(1));
        for at in 0..self.workers.len() {
            let Some(who) = self.workers[at].who else {
                if self.workers[at].back_at <= self.now {
                    self.come(at);
                }
                continue;
            };
            if self.world.closed(who).is_some() {
                let worker = &mut self.workers[at];
                worker.queue.clear();
                (worker.who, worker.back_at) = (None, self.now + 50);
                self.losses += 1;
                continue;
            }
            let came = self.world.got(who);
            for got in came {
                self.check_alone(at, &got);
                self.workers[at].queue.push_back(got);
            }
            self.work(at, who);
        }
        let waits = self.waiting() > 0;
        for worker in &mut self.workers {
            let idle =
                waits && worker.who.is_some() && worker.queue.is_empty() && !worker.was_frozen;
            if idle {
                self.idle_longest = self.idle_longest.max(self.now - worker.idle_since);
            } else {
                worker.idle_since = self.now;
            }
        }
    }

    fn work(&mut self, at: usize, who: Who) {
        let worker = &mut self.workers[at];
        if worker.frozen {
            worker.frozen = worker.back_at > self.now;
            return;
        }
        if worker.left > 0 {
            worker.left -= 1;
            if worker.left == 0
                && let Some(got) = worker.queue.pop_front()
            {
                self.finish(who, got);
            }
        }
        let worker = &mut self.workers[at];
        if worker.left == 0 && !worker.queue.is_empty() {
            worker.left = worker.takes;
        }
    }

    fn finish(&mut self, who: Who, got: Got) {
        if got.is_delivery {
            assert_eq!(
                self.world.settle_delivery(who, got.tag),
                Settled::Known,
                "seed {}",
                self.seed
            );
        } else {
            self.world.ack(who, got.tag);
        }
        let times = self.done.entry(got.text.clone()).or_insert(0);
        *times += 1;
        if *times == 1 {
            self.order.push(got.text);
        }
    }

    /// Nobody else who is here has something of that key.
    fn check_alone(&self, at: usize, got: &Got) {
        if !self.is_ordered {
            return;
        }
        for (other, worker) in self.workers.iter().enumerate() {
            let has = worker
                .queue
                .iter()
                .find(|it| key_of(&it.text).0 == key_of(&got.text).0);
            let (Some(has), true) = (has, other != at) else {
                continue;
            };
            panic!(
                "seed {}, {} ms: {} came to {at} while {other} has {}",
                self.seed, self.now, got.text, has.text
            );
        }
    }

    pub fn waiting(&self) -> usize {
        let mut waiting = 0;
        for kernel in &self.world.kernels {
            kernel.for_each_group(self.world.now, |group| waiting += group.waiting);
        }
        waiting
    }

    /// Everybody comes back and works until nothing is left.
    pub fn finish_all(&mut self) {
        for worker in &mut self.workers {
            worker.back_at = worker.back_at.min(self.now + 100);
        }
        let end = self.now + 120_000;
        while self.done.len() < self.sent {
            assert!(
                self.now < end,
                "seed {}: {} of {} are done",
                self.seed,
                self.done.len(),
                self.sent
            );
            self.step();
        }
    }

    /// Each key's messages were done in their order.
    pub fn assert_in_order(&self) {
        let mut next: BTreeMap<usize, u32> = BTreeMap::new();
        for text in &self.order {
            let (key, number) = key_of(text);
            let expected = next.entry(key).or_insert(0);
            assert_eq!(number, *expected, "seed {}: key {key}", self.seed);
            *expected += 1;
        }
    }
}

fn key_of(text: &str) -> (usize, u32) {
    let (key, number) = text.split_once('-').expect("key and number");
    (
        key.parse().expect("a key"),
        number.parse().expect("a number"),
    )
}
