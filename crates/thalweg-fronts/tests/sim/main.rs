//! A whole broker in memory: one to four shards, clients that come, go, stall and lie about nothing, and every choice
//! made by a seed. `THALWEG_SIM_SEED=7 cargo test -p thalweg-fronts --test sim` repeats one run, `THALWEG_SIM_RUNS=10000`
//! does more of them (`THALWEG_SIM_FIRST` says from which on), `THALWEG_SIM_TRACE=1` prints what the server sends.
//!
//! Half of the runs have a journal: writes and syncs are steps like others, and so are crashes, after which a new
//! broker recovers the remaining journal and the clients come back with their own state.

mod book;
mod client;
mod net;

use book::{Book, RETAINED_TOPICS, Serial};
use client::{Client, Opening, PERSISTENT};
use net::{Net, Packet, Pipe};
use std::collections::HashMap;
use thalweg_fronts::LinksLimits;
use thalweg_fronts::mqtt::MqttSettings;
use thalweg_kernel::{DropReason, GroupStrategy, Limits, Overflow, Safety};
use thalweg_model::{Span, Time};
use thalweg_mqtt::{QoS, ServerLimits, Version};
use thalweg_records::State;
use thalweg_testbed::disk::Loss;
use thalweg_testbed::{Random, Shard};

const RUNS: u64 = 400;
const JOURNAL_RUNS: u64 = 450;
const STEPS: usize = 700;

const TOPICS: [&str; 14] = [
    "n/a", "n/a/b", "n/b", "n/b/c", "n/c/b", "n/a/b/c", "g/a/1", "g/a/2", "g/b/1", "r/a", "r/b",
    "r/c/d", "n/e/1", "n/e/2",
];

/// Filters of clients, with their QoS.
const FILTERS: [(&str, QoS); 12] = [
    ("n/a", QoS::ExactlyOnce),
    ("n/a/b", QoS::AtLeastOnce),
    ("n/+/b", QoS::ExactlyOnce),
    ("n/#", QoS::AtLeastOnce),
    ("n/b/#", QoS::ExactlyOnce),
    ("+/b", QoS::AtMostOnce),
    ("n/+", QoS::ExactlyOnce),
    ("n/e/+", QoS::AtLeastOnce),
    ("$share/s/g/a/#", QoS::ExactlyOnce),
    ("$share/s/g/b/#", QoS::ExactlyOnce),
    ("r/#", QoS::AtLeastOnce),
    ("r/+", QoS::ExactlyOnce),
];

/// Filters of groups, by their place in [`FILTERS`].
const GROUPS: [usize; 2] = [8, 9];

/// Whether a run has a journal, and whether it is used as it should be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum JournalMode {
    InMemory,
    Journal,
    /// Answers do not wait for the journal: something must be found to be lost.
    Careless,
}

#[test]
fn whatever_happens_nothing_promised_is_lost_repeated_or_reordered() {
    run_all(JournalMode::InMemory, RUNS);
}

#[test]
fn nor_when_the_broker_dies_or_the_power_fails() {
    run_all(JournalMode::Journal, JOURNAL_RUNS);
}

#[test]
fn a_broker_that_does_not_wait_for_its_journal_is_found_out() {
    let found = (1..=30)
        .filter(|seed| std::panic::catch_unwind(|| run(JournalMode::Careless, *seed)).is_err())
        .count();
    println!("{found} of 30");
    assert!(
        found >= 5,
        "only {found} of 30 runs noticed that what was acknowledged is lost"
    );
}

fn run_all(kind: JournalMode, runs: u64) {
    if let Some(seed) = number("THALWEG_SIM_SEED") {
        println!("THALWEG_SIM_SEED={seed}");
        return run(kind, seed);
    }
    let first = number("THALWEG_SIM_FIRST").unwrap_or(1);
    for seed in first..first + number("THALWEG_SIM_RUNS").unwrap_or(runs) {
        if let Err(panic) = std::panic::catch_unwind(|| run(kind, seed)) {
            println!("THALWEG_SIM_SEED={seed}");
            if std::env::var_os("THALWEG_SIM_ALL").is_none() {
                std::panic::resume_unwind(panic);
            }
        }
    }
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

fn run(kind: JournalMode, seed: u64) {
    let mut simulation = Simulation::new(kind, seed);
    for _ in 0..STEPS {
        simulation.step();
    }
    simulation.come_to_rest();
    simulation.check_promises();
    simulation.check_last_values();
    simulation.end();
}

struct Simulation {
    random: Random,
    net: Net,
    book: Book,
    clients: Vec<Client>,
    /// The session each pipe belongs to.
    session_of: HashMap<usize, usize>,
    /// Queues are short: messages may be dropped, and only the books are checked.
    lossy: bool,
    /// No message expires, and no session of a group ends, in most runs.
    calm: bool,
    kind: JournalMode,
    disk_slowness: usize,
    /// Durability that acknowledgements wait for.
    safety: Safety,
}

impl Simulation {
    fn new(kind: JournalMode, seed: u64) -> Self {
        let mut random = Random(seed);
        let shards = 1 + random.below(4) as u16;
        let lossy = random.one_in(5);
        let strategies = [
            GroupStrategy::RoundRobin,
            GroupStrategy::LeastOutstanding,
            GroupStrategy::Sticky,
            GroupStrategy::Random,
            GroupStrategy::HashPublisher,
            GroupStrategy::HashAddress,
            GroupStrategy::Weighted,
            GroupStrategy::Score,
            GroupStrategy::Adaptive,
        ];
        let mut limits = Limits {
            group_strategy: *random.pick(&strategies),
            in_flight_max: *random.pick(&[1, 2, 5, 1000]),
            group_settle_timeout: *random.pick(&[Span::from_secs(2), Span::FOREVER]),
            group_adaptive_eviction: true,
            queue_at_most_once_offline: random.one_in(3),
            route_cache_max: *random.pick(&[1, 4, 1000]),
            ..Limits::default()
        };
        if lossy {
            limits.queue_messages_max = 1 + random.below(6);
            // Queues this short are always half full; how long publishers wait then is shown with the kernel's tests.
            limits.queue_pace_max = Span::ZERO;
            limits.group_messages_max = 1 + random.below(6);
            limits.overflow = *random.pick(&[
                Overflow::DropNewest,
                Overflow::DropOldest,
                Overflow::Disconnect,
            ]);
        }
        if kind != JournalMode::InMemory {
            limits.journal = true;
            limits.queue_memory_bytes_max = *random.pick(&[0, 300, 2000, 1 << 20]);
            limits.safety = *random.pick(&[
                Safety::Durable,
                Safety::Durable,
                Safety::Durable,
                Safety::Written,
            ]);
            limits.group_redispatch = !random.one_in(4);
            limits.ledger_prefixes = std::sync::Arc::new(["n".into(), "n/a".into(), "r".into()]);
        }
        let safety = limits.safety;
        let disk_slowness = *random.pick(&[1, 2, 5]);
        let output_high = *random.pick(&[100, 400, 100_000]);
        let outputs = LinksLimits {
            output_high,
            output_max: output_high * *random.pick(&[1, 4]),
            unflushed_max: *random.pick(&[64, 1 << 20]),
        };
        let receive_max = *random.pick(&[1, 4, 20]);
        let topic_alias_max = *random.pick(&[0, 2, 10]);
        let server = ServerLimits {
            receive_max,
            topic_alias_max,
            ..ServerLimits::default()
        };
        let settings = MqttSettings {
            limits: server,
            ..MqttSettings::default()
        };
        let mut net = Net::new(shards, &limits, outputs, settings, seed);
        net.is_careless = kind == JournalMode::Careless;
        net.batch_ends = (!random.one_in(2)).then_some(Random(seed));
        let mut book = Book::default();
        book.is_journaled = kind != JournalMode::InMemory;
        let mut clients: Vec<Client> = Vec::new();
        for number in 0..3 + random.below(6) {
            let version = *random.pick(&[Version::V311, Version::V5, Version::V5]);
            // The dummy session is replaced when the client first connects.
            let session = book.new_session(number, false);
            let mut client = Client::new(number, format!("client-{number}"), version, session);
            client.anchor = number < 2;
            clients.push(client);
        }
        let calm = random.one_in(2);
        let session_of = HashMap::new();
        let mut simulation = Simulation {
            random,
            net,
            book,
            clients,
            session_of,
            lossy,
            calm,
            kind,
            disk_slowness,
            safety,
        };
        simulation.begin();
        simulation
    }

    /// Two clients stay in both groups for good.
    fn begin(&mut self) {
        for number in 0..2 {
            self.connect(number, true);
            self.rest();
            let groups: Vec<_> = GROUPS
                .iter()
                .map(|at| (FILTERS[*at].0.to_owned(), FILTERS[*at].1))
                .collect();
            self.clients[number].subscribe(&groups, false, &mut self.net, &mut self.book);
            self.rest();
        }
    }

    fn step(&mut self) {
        self.net.now += Span::from_nanos(self.random.next() % 20_000_000);
        if self.random.one_in(60) {
            self.net.now += Span::from_millis(1500);
        }
        let (count, shards) = (self.clients.len(), self.net.shards.len());
        let steps = if self.kind == JournalMode::InMemory {
            16
        } else {
            20
        };
        match self.random.below(steps) {
            16 if self.random.one_in(self.disk_slowness) => {
                let batches = 1 + self.random.below(6);
                self.net.write_batches(batches);
            }
            17 if self.random.one_in(self.disk_slowness) => {
                self.net.sync();
            }
            16 | 17 => {}
            18 => {
                let shard = self.random.below(shards);
                self.net.fetch(shard);
            }
            19 => match self.random.below(48) {
                0..=3 => self.crash(),
                4 => self.fill_journal(true),
                5..=9 => self.fill_journal(false),
                _ => {}
            },
            0..=3 => {
                let number = self.random.below(count);
                self.act(number);
            }
            4..=6 => {
                let pipe = self.some_pipe();
                let bytes = 1 + self.random.below(120);
                self.net.feed(pipe, bytes);
            }
            7..=9 => {
                let pipe = self.some_pipe();
                let bytes = 1 + self.random.below(300);
                self.net.arrive(pipe, bytes);
            }
            10..=11 => {
                for _ in 0..1 + self.random.below(4) {
                    let (from, to) = (self.random.below(shards), self.random.below(shards));
                    self.net.carry(from, to);
                }
            }
            12 => {
                let pipe = self.some_pipe();
                self.net.notice(pipe);
            }
            13 => {
                let shard = self.random.below(shards);
                self.net.tick(shard);
            }
            _ => {
                let (number, packets) = (self.random.below(count), 1 + self.random.below(5));
                self.clients[number].look(packets, &mut self.net, &mut self.book);
            }
        }
        self.watch();
        self.net.check();
    }

    /// The journal is too full for messages, or has room again.
    fn fill_journal(&mut self, is_full: bool) {
        self.book.was_full |= is_full;
        for shard in &mut self.net.shards {
            shard.kernel.set_journal_full(is_full);
        }
    }

    /// The broker ends in the middle of everything, and begins anew.
    fn crash(&mut self) {
        let before = self.random.below(4);
        if before < 2 {
            // Whatever does not wait for the journal has happened.
            self.net.is_disk_manual = true;
            self.rest();
            self.net.is_disk_manual = false;
        } else if before == 2 {
            // Everything that could leave has left, and has arrived.
            for number in 0..self.clients.len() {
                if let Some(pipe) = self.clients[number].pipe {
                    self.net.feed(pipe, usize::MAX);
                    self.net.arrive(pipe, usize::MAX);
                }
                self.clients[number].look(1000, &mut self.net, &mut self.book);
            }
        }
        self.watch();
        let (handed_over, written, durable) = self.net.disk.counts();
        let loss = match self.random.one_in(2) {
            true => Loss::Process,
            false => Loss::Power(durable + self.random.below(handed_over - durable + 1)),
        };
        // Written but unsynced frames may be lost with the power, if the operator has chosen that.
        let (kept, vague) = match loss {
            Loss::Power(left) if self.safety < Safety::Durable && left < written => (left, true),
            _ => (usize::MAX, false),
        };
        let shards = if self.random.one_in(4) {
            1 + self.random.below(4)
        } else {
            self.net.shards.len()
        };
        if book::is_traced() {
            println!(
                "{} crash: {loss:?} of {:?}, now {shards} shards",
                self.net.now.nanos(),
                self.net.disk.counts()
            );
        }
        self.net.now += Span::from_millis(*self.random.pick(&[1, 2000]));
        let now = self.net.now;
        let mut overdue = 0;
        self.net
            .crash(loss, shards as u16, |state| overdue = wills_due(state, now));
        let published = self.net.sum(|kernel| kernel.ledger().own);
        assert_eq!(
            published, overdue,
            "wills of lost sessions that are due are published"
        );
        self.book.crash(kept, vague);
        for client in &mut self.clients {
            client.crash(kept);
        }
        self.check_books();
        self.watch();
        if self.random.one_in(4) {
            // While it was beginning.
            let batches = self.random.below(4);
            self.net.write_batches(batches);
            self.crash();
        }
    }

    /// Mostly one that is in use.
    fn some_pipe(&mut self) -> Pipe {
        let number = self.random.below(self.clients.len());
        let any = self.random.below(self.net.pipes.len());
        self.clients[number]
            .pipe
            .filter(|_| !self.random.one_in(4))
            .unwrap_or(self.net.pipes[any])
    }

    /// A client does something of its own accord.
    fn act(&mut self, number: usize) {
        let Some(pipe) = self.clients[number].pipe else {
            let persistent = self.clients[number].anchor || self.random.one_in(2);
            return self.connect(number, persistent);
        };
        let Self {
            random, net, book, ..
        } = self;
        let client = &mut self.clients[number];
        match random.below(20) {
            0..=11 => {
                let topic = *random.pick(&TOPICS);
                let qos = *random.pick(&[QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce]);
                let retain = topic.starts_with(RETAINED_TOPICS);
                let expiry = topic
                    .starts_with("n/e/")
                    .then(|| 1 + random.below(3) as u32);
                for _ in 0..1 + random.below(5) {
                    client.publish(topic, qos, retain, expiry, net, book);
                }
            }
            12..=13 => {
                let mut filters = Vec::new();
                for _ in 0..1 + random.below(2) {
                    let (filter, qos) = *random.pick(&FILTERS);
                    filters.push((filter.to_owned(), qos));
                }
                let last_values = random.one_in(2);
                client.subscribe(&filters, last_values, net, book);
            }
            14 => {
                let (mut filter, _) = *random.pick(&FILTERS);
                if !random.one_in(3) {
                    // Rather one that it has.
                    let held = |filter: &str| book.sessions[client.session].is_subscribed(filter);
                    filter = FILTERS
                        .iter()
                        .map(|(filter, _)| *filter)
                        .find(|filter| held(filter))
                        .unwrap_or(filter);
                }
                let stays = client.anchor || (self.calm && filter.starts_with('$'));
                if !stays {
                    client.unsubscribe(filter, net, book);
                }
            }
            15 => net.turn(pipe),
            16 => {
                let arriving = random.below(net.unread(pipe) + 1);
                client.drop_pipe(net, arriving);
                if random.one_in(2) {
                    net.notice(pipe);
                }
            }
            17 if client.connected => client.disconnect(random.one_in(2), net),
            18 => {
                // Takes its own session over.
                let persistent = client.persistent;
                self.connect(number, persistent);
            }
            _ => {}
        }
    }

    fn connect(&mut self, number: usize, persistent: bool) {
        self.watch();
        let client = &mut self.clients[number];
        let member = self.calm && self.book.sessions[client.session].is_in_group();
        let opening = Opening {
            clean: !client.anchor && !member && self.random.one_in(4),
            persistent: persistent || member,
            receive_max: *self.random.pick(&[1, 2, 3, 10, 65_535]),
            topic_alias_max: *self.random.pick(&[0, 0, 1, 5]),
            will_delay: *self.random.pick(&[None, Some(0), Some(1)]),
            expiry_secs: match client.anchor || member || !self.random.one_in(4) {
                true => PERSISTENT,
                false => 1 + self.random.below(4) as u32,
            },
        };
        client.connect(&opening, &mut self.net, &mut self.book);
        self.session_of
            .extend(client.pipe.map(|pipe| (pipe.number(), client.session)));
        self.watch();
    }

    /// Looks at everything the servers have written.
    fn watch(&mut self) {
        self.book.written = self.net.disk.counts().1;
        for pipe in self.net.pipes.clone() {
            let end = self.net.client(pipe);
            if let Some(fault) = &end.fault {
                panic!("the server breaks the protocol: {fault}");
            }
            let Some(&session) = self.session_of.get(&pipe.number()) else {
                continue;
            };
            for packet in std::mem::take(&mut end.tap) {
                self.book.on_wire(session, &packet, self.net.now);
            }
        }
    }

    /// Moves everything until nothing moves.
    fn rest(&mut self) {
        loop {
            let mut happened = self.net.rest();
            self.watch();
            for client in &mut self.clients {
                happened |= client.look(1000, &mut self.net, &mut self.book);
            }
            self.watch();
            if !happened {
                return;
            }
        }
    }

    /// Everybody comes back, reads and answers.
    fn come_to_rest(&mut self) {
        self.fill_journal(false);
        self.net.now += Span::from_secs(1);
        for pipe in self.net.pipes.clone() {
            self.net.set_stalled(pipe, false);
            self.net.notice(pipe);
        }
        self.rest();
        for number in 0..self.clients.len() {
            if self.clients[number].pipe.is_none() {
                let client = &mut self.clients[number];
                let opening = Opening {
                    clean: false,
                    persistent: true,
                    receive_max: *self.random.pick(&[1, 3, 65_535]),
                    topic_alias_max: 0,
                    will_delay: None,
                    expiry_secs: PERSISTENT,
                };
                client.connect(&opening, &mut self.net, &mut self.book);
                self.session_of
                    .extend(client.pipe.map(|pipe| (pipe.number(), client.session)));
            }
            self.rest();
        }
        // A message that a group holds for a member that is gone is returned after the time limit.
        self.net.now += Span::from_secs(3);
        self.rest();
        for client in &self.clients {
            assert!(
                client.pipe.is_some() || self.lossy,
                "{} was thrown out",
                client.name
            );
            // A message that only full queues would get is not acknowledged to MQTT 3.
            let may_wait = self.lossy && client.version == Version::V311;
            assert!(
                client.is_idle() || client.pipe.is_none() || may_wait,
                "{} waits for an answer",
                client.name
            );
        }
    }

    /// Every copy is accounted for: by shard and by session.
    fn check_books(&self) {
        self.net.check();
        for shard in &self.net.shards {
            let totals = shard.kernel.totals();
            let (mut waiting, mut sessions_waiting) = (0, 0);
            shard.kernel.for_each_session(|session| {
                sessions_waiting += session.waiting;
                let (least, most) = (
                    session.waiting as u64,
                    session.waiting as u64 + u64::from(session.in_flight),
                );
                let account = &session.account;
                let dropped: u64 = account.dropped.iter().sum();
                let left = (account.routed + account.restored)
                    .wrapping_sub(account.delivered + account.expired + dropped);
                let client = &session.client;
                assert!(
                    (least..=most).contains(&left),
                    "{client}: {account:?}, {least} wait, {most} with those sent"
                );
            });
            shard
                .kernel
                .for_each_group(Time::ZERO, |group| waiting += group.waiting);
            waiting += sessions_waiting;
            assert_eq!(waiting, totals.waiting, "what waits is counted wrongly");
        }
    }

    /// The books by address, when nothing is left.
    fn check_accounts(&self) {
        for shard in &self.net.shards {
            for (prefix, account) in shard.kernel.accounts() {
                let done =
                    account.delivered + account.expired + account.dropped.iter().sum::<u64>();
                assert_eq!(
                    account.routed + account.restored,
                    done,
                    "the books of {prefix} do not balance: {account:?}"
                );
            }
        }
    }

    fn check_promises(&self) {
        self.check_books();
        if self.lossy {
            return;
        }
        let waiting = self.net.copies_waiting();
        let in_flight = self.net.total(|totals| totals.in_flight) as u64;
        self.check_accounts();
        assert!(
            !self.net.is_anything_unsafe(),
            "everything is written, and still something waits for the journal"
        );
        let pipes = self.net.pipes.iter();
        let unread: usize = pipes.map(|pipe| self.net.waiting(*pipe)).sum();
        assert_eq!(unread, 0, "everybody reads, and output is left");
        if (waiting, in_flight) != (0, 0) {
            for Shard { kernel, .. } in &self.net.shards {
                kernel.for_each_session(|session| println!("{session:?}"));
                kernel.for_each_group(Time::ZERO, |group| println!("{group:?}"));
            }
        }
        assert_eq!(
            (waiting, in_flight),
            (0, 0),
            "everybody is here and has answered, and still something waits"
        );
        for reason in [
            DropReason::QueueFull,
            DropReason::Memory,
            DropReason::AccessDenied,
            DropReason::TooLarge,
            DropReason::Unreadable,
        ] {
            let dropped = self
                .net
                .sum(|kernel| kernel.ledger().dropped[reason as usize]);
            assert_eq!(dropped, 0, "dropped for {reason:?}");
        }
        for client in &self.clients {
            self.book.check_promises(client.session);
        }
        let anchors: Vec<_> = self
            .clients
            .iter()
            .filter(|c| c.anchor)
            .map(|client| client.session)
            .collect();
        for group in GROUPS {
            self.book.check_group(FILTERS[group].0, &anchors);
        }
    }

    /// A newcomer on each shard finds the same last values.
    fn check_last_values(&mut self) {
        let mut before: Option<HashMap<String, Serial>> = None;
        for shard in 0..self.net.shards.len() {
            let number = self.clients.len();
            let mut names = (0..).map(|n| format!("newcomer-{n}"));
            let name = names
                .find(|name| self.net.home_of(name) == shard)
                .expect("some name has that home");
            let session = self.book.new_session(number, false);
            self.clients
                .push(Client::new(number, name, Version::V5, session));
            let opening = Opening {
                clean: true,
                persistent: false,
                receive_max: 2,
                topic_alias_max: 0,
                will_delay: None,
                expiry_secs: PERSISTENT,
            };
            self.clients[number].connect(&opening, &mut self.net, &mut self.book);
            let pipe = self.clients[number].pipe.expect("just connected");
            self.session_of
                .insert(pipe.number(), self.clients[number].session);
            self.rest();
            self.clients[number].subscribe(
                &[("r/#".into(), QoS::ExactlyOnce)],
                true,
                &mut self.net,
                &mut self.book,
            );
            self.net.rest();
            let mut found = HashMap::new();
            loop {
                for packet in self.net.client(pipe).inbox.iter() {
                    if let Packet::Publish(got) = packet {
                        assert!(
                            got.retain,
                            "a last value is sent with RETAIN [MQTT-3.3.1-8]"
                        );
                        let twice = found.insert(
                            got.topic.clone(),
                            Serial::of(&got.payload).unwrap_or_default(),
                        );
                        assert_eq!(twice, None, "{} has two last values", got.topic);
                    }
                }
                self.watch();
                if !self.clients[number].look(1000, &mut self.net, &mut self.book) {
                    break;
                }
                self.net.rest();
            }
            self.book.check_last_values(&found);
            if let Some(before) = &before {
                assert_eq!(&found, before, "shards disagree about last values");
            }
            before = Some(found);
        }
    }

    /// Everybody leaves for good, last values are cleared: nothing must be held any more.
    fn end(&mut self) {
        self.rest();
        for number in 0..self.clients.len() {
            let opening = Opening {
                clean: true,
                persistent: false,
                receive_max: 100,
                topic_alias_max: 0,
                will_delay: None,
                expiry_secs: PERSISTENT,
            };
            self.clients[number].connect(&opening, &mut self.net, &mut self.book);
            self.session_of.extend(
                self.clients[number]
                    .pipe
                    .map(|pipe| (pipe.number(), self.clients[number].session)),
            );
            self.rest();
            self.clients[number].disconnect(false, &mut self.net);
            for pipe in self.net.pipes.clone() {
                self.net.notice(pipe);
            }
            self.rest();
        }
        self.net.clear_last_values();
        self.net.now += Span::from_secs(10);
        self.rest();
        assert!(!self.net.is_anything_between_shards());
        let (routed, done) = self.net.copies();
        assert_eq!(routed, done, "the books do not balance at the end");
        self.check_accounts();
        for what in [
            self.net.total(|t| t.sessions),
            self.net.total(|t| t.groups),
            self.net.total(|t| t.retained),
        ] {
            assert_eq!(what, 0, "sessions, groups or last values are left");
        }
        assert_eq!(
            self.net.sum(|kernel| kernel.bytes_held() as u64),
            0,
            "bytes are held for nobody"
        );
        assert!(
            self.net.shards.iter().all(|shard| shard.links.is_empty()),
            "links are left"
        );
        let published = self.net.sum(|kernel| kernel.ledger().received);
        let sorted = self.net.sum(|kernel| {
            let ledger = kernel.ledger();
            ledger.matched + ledger.unmatched + ledger.refused + ledger.repeated
        });
        assert!(
            sorted >= published,
            "{published} received, {sorted} sorted (with wills)"
        );
    }
}

/// Sessions whose wills are overdue: they had a link, or had lost it, when the broker ended.
fn wills_due(state: &State, now: Time) -> u64 {
    let is_due = |session: &&thalweg_records::StoredSession| {
        session.will.as_ref().is_some_and(|will| {
            let had_link = session.expires_at == Time::NEVER;
            let end = if had_link {
                now + session.expiry
            } else {
                session.expires_at
            };
            let due = if will.due == Time::NEVER {
                now + will.delay
            } else {
                will.due
            };
            due.min(end) <= now
        })
    };
    state.sessions.values().filter(is_due).count() as u64
}
