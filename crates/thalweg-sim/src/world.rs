//! A broker, its workers and the network between them, in virtual time. What the broker does is the kernel's; what
//! workers do is in `work`.
//!
//! ```text
//!  publish ──> broker ──deliver──> network ──> worker: queue ──> handlers
//!                 ^                                 |
//!                 └── settle, report <── network <──┘
//! ```

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use thalweg_kernel::{
    CloseReason, Closing, GroupStrategy, LinkId, LoadReport, SessionId, Settled, Tag, Verdict,
    WorkTerms,
};
use thalweg_model::{Reliability, Span, Time};

use super::broker::{Asked, Broker};
use super::outcome::Outcome;
use super::random::Random;
use super::scenario::{Acks, Incident, Job, Reports, Scenario, What};
use super::work::{Client, Word};
use super::worker::Acknowledgement;

/// The clock does not start at zero, which could mean "never".
const EPOCH: u64 = 1_000_000_000_000;
/// When a broker gives up a connection that says nothing.
const KEEP_ALIVE: f64 = 15.0;
/// How often the broker looks at the network of its connections.
const MEASURES_EVERY: f64 = 1.0;
/// What a process takes to wake up, on average; how often the processor is taken, and for how long. It matters where an
/// acknowledgement does not wait for work.
const WAKES: f64 = 0.0003;
const BUSY: f64 = 0.02;
const BUSY_FOR: f64 = 0.004;
/// How long after the last publish the run ends whatever is left.
const LINGERS: f64 = 60.0;

/// Implausible values of backlog and service time.
const WILD: [(f64, f64); 8] = [
    (f64::NAN, 10.0),
    (0.0, f64::INFINITY),
    (-5.0, -1.0),
    (1e300, 1e300),
    (0.0, 1e-9),
    (0.0, 10_000_000.0),
    (1e6, 3.6e6),
    (0.0, 0.0),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    Incident(usize),
    IncidentEnds(usize),
    Quits(usize),
    Connects(usize),
    Publish(usize),
    Kernel,
    Measure,
    KeepAlive(usize, u32),
    /// Something from the broker is at a worker: its number, its connection and what it is.
    Arrives(usize, u32, Word),
    /// Something from a worker is at the broker.
    Said(usize, u32, Word),
    /// A handler is done.
    Done(usize, u64),
    /// What the journal held leaves for a worker.
    Leaves(usize, u32, Word),
    /// The kernel is told that a batch of the journal is safe, and what was held for it has left.
    Safe(u64),
    /// A worker looks whether it should report.
    ReportDue(usize),
}

/// A worker as the broker sees it, and the network to it.
struct Seat {
    session: Option<SessionId>,
    /// Rises with each connection.
    connection: u32,
    /// Messages that it was sent and has not settled.
    unsettled: usize,
    /// Since it has nothing unsettled.
    idle_since: Time,
    /// When the last word in each direction arrives.
    to: Time,
    from: Time,
    /// What is sent before then waits for the journal.
    held_until: Time,
}

pub(super) struct World<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) jobs: Vec<Job>,
    pub(super) now: Time,
    pub(super) clients: Vec<Client>,
    pub(super) outcome: Outcome,
    pub(super) done: Vec<f64>,
    pub(super) started: Vec<f64>,
    /// By key: the message that was begun last, and with whom.
    pub(super) begun: BTreeMap<u64, (usize, usize)>,
    broker: Broker,
    seats: Vec<Seat>,
    events: BinaryHeap<Reverse<(Time, u64, Event)>>,
    sequence: u64,
    random: Random,
    timer: Time,
    waiting_since: Option<Time>,
    first_sent: Vec<f64>,
    owner: Vec<u32>,
    pub(super) undone: usize,
    asked: Vec<(usize, Asked)>,
    /// The write of the journal that began last, or will as soon as the one before it ends: when it begins and ends.
    write: (Time, Time),
}

/// One run. A scenario and a strategy say all: it is the same every time.
pub fn run(scenario: &Scenario, strategy: GroupStrategy) -> Outcome {
    World::new(scenario, strategy).run()
}

/// The moment so many seconds after the start.
fn time(at: f64) -> Time {
    Time::from_nanos(EPOCH + (at.max(0.0) * 1e9).round() as u64)
}

pub(super) fn span(length: f64) -> Span {
    Span::from_nanos((length.max(0.0) * 1e9).round() as u64)
}

/// Seconds since the start.
pub(super) fn seconds(time: Time) -> f64 {
    (time.nanos() as f64 - EPOCH as f64) * 1e-9
}

impl<'a> World<'a> {
    fn new(scenario: &'a Scenario, strategy: GroupStrategy) -> Self {
        let jobs = scenario.jobs();
        let (count, now) = (jobs.len(), time(0.0));
        let workers = scenario.workers.len();
        let seat = |_| Seat {
            session: None,
            connection: 0,
            unsettled: 0,
            idle_since: now,
            to: now,
            from: now,
            held_until: now,
        };
        World {
            scenario,
            jobs,
            now,
            clients: scenario.workers.iter().map(Client::new).collect(),
            outcome: Outcome {
                shares: vec![0; workers],
                ..Outcome::default()
            },
            done: vec![f64::NAN; count],
            started: vec![f64::NAN; count],
            begun: BTreeMap::new(),
            broker: Broker::new(strategy, scenario, now),
            seats: (0..workers).map(seat).collect(),
            events: BinaryHeap::new(),
            sequence: 0,
            random: Random::new(scenario.seed + 7),
            timer: Time::NEVER,
            waiting_since: None,
            first_sent: vec![f64::NAN; count],
            owner: vec![u32::MAX; count],
            undone: count,
            asked: Vec::new(),
            write: (now, now),
        }
    }

    pub(super) fn at(&mut self, when: Time, event: Event) {
        self.sequence += 1;
        self.events
            .push(Reverse((when.max(self.now), self.sequence, event)));
    }

    pub(super) fn after(&mut self, length: f64, event: Event) {
        self.at(self.now + span(length), event);
    }

    fn run(mut self) -> Outcome {
        let scenario = self.scenario;
        for worker in 0..self.clients.len() {
            let joins = |it: &Incident| it.what == What::Join && it.worker == worker;
            if !scenario.incidents.iter().any(joins) {
                self.connect(worker);
            }
        }
        for (index, incident) in scenario.incidents.iter().enumerate() {
            self.at(time(incident.at), Event::Incident(index));
            if incident.lasts > 0.0 {
                let ends = time(incident.at + incident.lasts);
                self.at(ends, Event::IncidentEnds(index));
            }
        }
        if scenario.churn.is_some() {
            self.at(time(scenario.quiet), Event::Quits(0));
        }
        if let Some(first) = self.jobs.first() {
            self.at(time(first.at), Event::Publish(0));
        }
        self.at(time(0.0), Event::Measure);
        let end = time(self.jobs.last().map_or(0.0, |job| job.at) + LINGERS);
        while self.undone > 0
            && let Some(Reverse((at, _, event))) = self.events.pop()
            && at <= end
        {
            self.now = at;
            self.handle(event);
        }
        self.waits(0);
        let waits = self.started.iter().zip(&self.jobs);
        let waits = waits.map(|(started, job)| started - job.at);
        let owners = self.owner.iter().map(|owner| *owner as usize);
        self.outcome.taken = owners.zip(waits).collect();
        self.outcome
            .with_times(scenario, &self.jobs, &self.done, &self.started)
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Publish(number) => {
                let Some(job) = self.jobs.get(number).copied() else {
                    return;
                };
                if let Some(next) = self.jobs.get(number + 1) {
                    self.at(time(next.at), Event::Publish(number + 1));
                }
                self.broker
                    .publish(number, &job, self.scenario.reliability, self.now);
                self.heed();
            }
            Event::Kernel => {
                if self.timer == self.now {
                    self.timer = Time::NEVER;
                    self.broker.fire(self.now);
                    self.heed();
                }
            }
            Event::Arrives(worker, connection, word) => self.arrives(worker, connection, word),
            Event::Said(worker, connection, word) => self.said(worker, connection, word),
            Event::Leaves(worker, connection, word) => {
                if self.seats[worker].connection == connection {
                    let at = self.arrival(worker, true);
                    self.at(at, Event::Arrives(worker, connection, word));
                }
            }
            Event::Safe(batch) => {
                let Broker { kernel, outbox, .. } = &mut self.broker;
                kernel.batch_is_safe(batch, self.now, outbox);
            }
            Event::Done(worker, number) => self.handler_done(worker, number),
            Event::ReportDue(worker) => self.report_due(worker),
            Event::Measure => {
                for worker in 0..self.seats.len() {
                    self.measure(worker);
                }
                self.after(MEASURES_EVERY, Event::Measure);
            }
            Event::KeepAlive(worker, connection) => {
                if self.seats[worker].connection == connection {
                    self.lose(worker, Closing::Lost);
                }
            }
            Event::Connects(worker) => {
                if self.seats[worker].session.is_none() && self.clients[worker].alive {
                    self.connect(worker);
                }
            }
            Event::Quits(number) => self.churn(number),
            Event::Incident(index) => self.incident(index),
            Event::IncidentEnds(index) => {
                let Incident { what, worker, .. } = self.scenario.incidents[index];
                match what {
                    What::Freeze | What::Stuck => self.thaw(worker),
                    What::Slow(_) => self.clients[worker].work.slow = 1.0,
                    What::Cut => self.connect(worker),
                    _ => {}
                }
            }
        }
    }

    fn incident(&mut self, index: usize) {
        let Incident { what, worker, .. } = self.scenario.incidents[index];
        match what {
            What::Freeze => self.freeze(worker),
            What::Stuck => self.stick(worker),
            What::Death => {
                self.end(worker);
                let connection = self.seats[worker].connection;
                self.after(KEEP_ALIVE, Event::KeepAlive(worker, connection));
            }
            What::Crash => {
                self.end(worker);
                self.lose(worker, Closing::Lost);
            }
            What::Cut => {
                self.clients[worker].work.connection = None;
                self.lose(worker, Closing::Lost);
            }
            What::Slow(factor) => self.clients[worker].work.slow = factor,
            What::Join => self.connect(worker),
            What::Burst(_) => {}
        }
    }

    /// The next in turn leaves, and comes back later.
    fn churn(&mut self, number: usize) {
        let Some(churn) = self.scenario.churn else {
            return;
        };
        let worker = number % self.clients.len();
        if self.seats[worker].session.is_some() {
            self.end(worker);
            self.lose(worker, Closing::Clean);
            self.clients[worker].alive = true;
            self.after(churn.away, Event::Connects(worker));
        }
        let next = self.scenario.quiet + (number + 1) as f64 / churn.rate;
        self.at(time(next), Event::Quits(number + 1));
    }

    /// A worker is at the broker.
    fn connect(&mut self, worker: usize) {
        let spec = self.scenario.workers[worker];
        let terms = WorkTerms {
            weight: spec.weight,
            concurrency: spec.declared(),
            report_every: spec.reports.every().map(span),
            settles: spec.says,
            ..WorkTerms::default()
        };
        let seat = &mut self.seats[worker];
        seat.connection += 1;
        (seat.unsettled, seat.idle_since) = (0, self.now);
        let connection = seat.connection;
        self.seats[worker].session =
            Some(self.broker.join(worker, spec.reliability, terms, self.now));
        let phase = self.random.unit();
        self.client_connected(worker, connection, phase);
        self.measure(worker);
        self.heed();
    }

    /// What TCP knows of a connection: the shortest of some round trips, and how far they are off on average.
    fn measure(&mut self, worker: usize) {
        let spec = self.scenario.workers[worker];
        let Some(session) = self.seats[worker].session else {
            return;
        };
        let (least, jitter) = (span(spec.rtt), span(spec.rtt * spec.jitter * 0.75));
        self.broker
            .kernel
            .round_trip_measured(session, least, jitter);
    }

    /// The broker is notified that a worker's connection has ended.
    fn lose(&mut self, worker: usize, how: Closing) {
        let Some(session) = self.unseat(worker) else {
            return;
        };
        let Broker { kernel, outbox, .. } = &mut self.broker;
        kernel.close_link(session, LinkId(worker as u32), how, None, self.now, outbox);
        self.heed();
    }

    fn unseat(&mut self, worker: usize) -> Option<SessionId> {
        self.was_idle(worker);
        let seat = &mut self.seats[worker];
        seat.connection += 1;
        seat.unsettled = 0;
        seat.session.take()
    }

    /// When something that is said now arrives: nothing overtakes on a connection.
    fn arrival(&mut self, worker: usize, to_worker: bool) -> Time {
        let spec = &self.scenario.workers[worker];
        let mut delay = spec.rtt / 2.0 * (1.0 + spec.jitter * self.random.exponential());
        if !to_worker && spec.wakes > 0.0 {
            delay += spec.wakes * self.random.exponential();
        }
        if !to_worker && spec.acks == Acks::Receipt {
            // A process has to wake up first, and now and then another one is before it.
            let is_busy = self.random.unit() < BUSY;
            let busy = if is_busy { BUSY_FOR } else { 0.0 };
            delay += WAKES * self.random.exponential() + busy;
        }
        let seat = &mut self.seats[worker];
        let last = match to_worker {
            true => &mut seat.to,
            false => &mut seat.from,
        };
        *last = (self.now + span(delay)).max(*last);
        *last
    }

    fn send(&mut self, worker: usize, word: Word) {
        let Seat {
            connection,
            held_until,
            ..
        } = self.seats[worker];
        if held_until > self.now {
            return self.at(held_until, Event::Leaves(worker, connection, word));
        }
        let at = self.arrival(worker, true);
        self.at(at, Event::Arrives(worker, connection, word));
    }

    /// When what is written down now is safe: one write at a time, and what comes meanwhile is in the next.
    fn is_safe_at(&mut self) -> Time {
        let (begins, ends) = self.write;
        let sync = span(self.scenario.sync);
        if self.now >= ends {
            self.write = (self.now, self.now + sync);
        } else if self.now >= begins {
            self.write = (ends, ends + sync);
        }
        self.write.1
    }

    /// A worker says something on a connection that may be gone.
    pub(super) fn say(&mut self, worker: usize, connection: u32, word: Word) {
        let at = self.arrival(worker, false);
        self.at(at, Event::Said(worker, connection, word));
    }

    fn said(&mut self, worker: usize, connection: u32, word: Word) {
        let seat = &self.seats[worker];
        let Some(session) = seat.session.filter(|_| seat.connection == connection) else {
            return;
        };
        let Broker { kernel, outbox, .. } = &mut self.broker;
        match word {
            Word::Said(Acknowledgement::Settled(tag, _)) => {
                let settled = kernel.settle(session, tag, Verdict::Accept, self.now, outbox);
                if settled == Settled::Known {
                    let seat = &mut self.seats[worker];
                    seat.unsettled = seat.unsettled.saturating_sub(1);
                    if seat.unsettled == 0 {
                        seat.idle_since = self.now;
                    }
                }
            }
            Word::Said(Acknowledgement::Recorded(tag)) => {
                kernel.receive(session, tag, self.now, outbox);
            }
            Word::Report { waiting, each } => {
                let spec = &self.scenario.workers[worker];
                let concurrency = spec.declared();
                let (waiting, each_ms) = match spec.reports {
                    Reports::Wild(_) => WILD[self.outcome.reports % WILD.len()],
                    _ => (waiting as f64, each as f64 * 1e-6),
                };
                let report = LoadReport {
                    waiting,
                    each_ms,
                    concurrency,
                };
                self.outcome.reports += 1;
                kernel.report_load(session, &report, self.now, outbox);
            }
            Word::Message { .. } | Word::Released(_) | Word::Closed => {}
        }
        self.heed();
    }

    /// Carries out what the kernel has asked for.
    fn heed(&mut self) {
        let mut asked = std::mem::take(&mut self.asked);
        let batch = self.broker.asked(&mut asked);
        let is_hold = |(_, asked): &(usize, Asked)| matches!(asked, Asked::Hold);
        let holds = asked.iter().any(is_hold);
        let safe_at = match holds && self.scenario.sync > 0.0 {
            true => self.is_safe_at(),
            false => self.now,
        };
        for &(worker, what) in &asked {
            match what {
                Asked::Deliver {
                    job,
                    tag,
                    redelivered,
                } => self.deliver(worker, job, tag, redelivered),
                Asked::Release(tag) => self.send(worker, Word::Released(tag)),
                Asked::Hold => self.seats[worker].held_until = safe_at,
                Asked::Close(why) => {
                    self.outcome.stalls += usize::from(why == CloseReason::Stalled);
                    self.send(worker, Word::Closed);
                    self.unseat(worker);
                }
            }
        }
        if holds {
            self.at(safe_at, Event::Safe(batch));
        }
        self.asked = asked;
        let due = self.broker.kernel.poll_timeout().max(self.now);
        if due < self.timer {
            self.timer = due;
            self.at(due, Event::Kernel);
        }
        let waiting = self.broker.kernel.totals().waiting;
        self.waits(waiting);
    }

    fn deliver(&mut self, worker: usize, job: usize, tag: Tag, redelivered: bool) {
        let now = seconds(self.now);
        match self.first_sent.get_mut(job) {
            Some(first) if first.is_finite() => {
                self.outcome.moved += 1;
                self.outcome.moved_after = self.outcome.moved_after.max(now - *first);
                self.outcome.unflagged += usize::from(!redelivered);
            }
            Some(first) => *first = now,
            None => return,
        }
        self.owner[job] = worker as u32;
        self.outcome.shares[worker] += 1;
        self.clients[worker].unprocessed += 1;
        self.outcome.exposed = self.outcome.exposed.max(self.clients[worker].unprocessed);
        if tag != 0 {
            if self.seats[worker].unsettled == 0 {
                self.was_idle(worker);
            }
            self.seats[worker].unsettled += 1;
        }
        self.send(worker, Word::Message { job, tag });
    }

    // Workers that have nothing to do while something waits.

    fn waits(&mut self, waiting: usize) {
        match (waiting > 0, self.waiting_since) {
            (true, None) => self.waiting_since = Some(self.now),
            (false, Some(_)) => {
                for worker in 0..self.seats.len() {
                    if self.seats[worker].unsettled == 0 {
                        self.was_idle(worker);
                    }
                }
                self.waiting_since = None;
            }
            _ => {}
        }
    }

    /// A worker has had nothing unsettled until now.
    fn was_idle(&mut self, worker: usize) {
        let (seat, client) = (&self.seats[worker], &self.clients[worker]);
        if seat.unsettled > 0 || seat.session.is_none() || !client.is_active() {
            return;
        }
        if self.scenario.workers[worker].reliability == Reliability::AtMostOnce {
            return;
        }
        if let Some(since) = self.waiting_since {
            let idle = seconds(self.now) - seconds(since.max(seat.idle_since));
            self.outcome.idle_while_waiting = self.outcome.idle_while_waiting.max(idle);
        }
    }
}
