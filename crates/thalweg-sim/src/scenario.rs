//! What is simulated: workers, work, arrivals, and what happens to them. Times are seconds.

use serde::Deserialize;
use thalweg_kernel::{OrderKey, SettlesWhen};
use thalweg_model::Reliability;

use super::random::Random;

/// A law of service times; the mean is 1.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Law {
    Deterministic,
    /// Evenly off by this part at the most.
    Nearly(f64),
    Exponential,
    /// With this coefficient of variation.
    LogNormal(f64),
    /// With this shape, above 1; cut at so many means.
    Pareto(f64, f64),
    /// This part of the messages takes that many times as long as the others.
    Bimodal(f64, f64),
    /// In proportion to a size that is exponential, and a fifth off that.
    Size,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arrivals {
    /// Independently of each other.
    Poisson,
    Periodic,
    /// At intervals that are this part off, evenly.
    Publisher(f64),
    /// For 2 s in 5 s two and a half times as fast, else not at all.
    Bursts,
    /// So many at once.
    Batches(u32),
}

/// When a worker acknowledges; what is said at most once is never acknowledged.
///
/// An exactly-once message has two steps: PUBREC, and PUBCOMP after the broker's PUBREL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Acks {
    /// When it is done with the message. Exactly once: it records the message on receipt, works on it when it is
    /// released, and completes when it is done, as paho does.
    Processed,
    /// When a handler takes it.
    Started,
    /// As soon as it has it, in both steps.
    Receipt,
    /// Exactly once only: it records the message when it is done with it.
    Recorded,
}

/// What a worker says of its load.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reports {
    Never,
    /// What waits and what a message took, every so many seconds: the thesis's client.
    Every(f64),
    /// And when the broker's idea of it is wrong.
    Events(f64),
    /// Lies: says every so often that it is idle and fast.
    Idle(f64),
    /// Talks nonsense every so often: what is no number, less than nothing, beyond measure, in another unit.
    Wild(f64),
}

impl Reports {
    /// Seconds between two reports, if there are any.
    pub fn every(self) -> Option<f64> {
        match self {
            Reports::Never => None,
            Reports::Every(every)
            | Reports::Events(every)
            | Reports::Idle(every)
            | Reports::Wild(every) => Some(every),
        }
    }
}

/// A member of the group.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Worker {
    /// Mean time that one message takes.
    pub mean: f64,
    /// Messages that it works on side by side.
    pub handlers: u32,
    /// Whether it says so.
    pub declares: bool,
    pub acks: Acks,
    /// As reliably it subscribes.
    #[serde(skip)]
    pub reliability: Reliability,
    /// What it says of its load.
    pub reports: Reports,
    /// Shortest round trip of its network.
    pub rtt: f64,
    /// Each way takes an exponential time of this part of it more, in order.
    pub jitter: f64,
    /// What it takes to wake up, on average, beyond the network's time: no network shows that.
    pub wakes: f64,
    /// Its weight, if it names one.
    pub weight: Option<u16>,
    /// When it acknowledges, as it says.
    #[serde(skip)]
    pub says: Option<SettlesWhen>,
}

impl Worker {
    /// How many handlers it says that it has, if it says so.
    pub fn declared(&self) -> Option<u16> {
        (self.declares && self.handlers > 1).then_some(self.handlers as u16)
    }
}

/// Something that happens to a worker.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Incident {
    pub what: What,
    pub worker: usize,
    pub at: f64,
    /// For how long, where that means anything.
    pub lasts: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// Its process does nothing and says nothing for a while.
    Freeze,
    /// Its handlers do nothing for a while; the rest of it lives.
    Stuck,
    /// It is gone, which is noticed only after the keep-alive's 15 s.
    Death,
    /// Its process ends and its connection is reset.
    Crash,
    /// Its connection is reset; the process goes on with what it has, and connects again after a while.
    Cut,
    /// It takes so many times as long for a while.
    Slow(f64),
    /// It is not there before.
    Join,
    /// So many messages come at once; no worker has to do with it.
    Burst(usize),
}

/// Members leave, each in its turn, and come back: what they have not done they drop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Churn {
    /// How many leave each second; as many come back.
    pub rate: f64,
    /// How long each is away.
    pub away: f64,
}

#[derive(Clone, Debug)]
pub struct Scenario {
    pub workers: Vec<Worker>,
    /// The law of service times.
    pub law: Law,
    /// The law of arrivals.
    pub arrivals: Arrivals,
    pub rate: f64,
    pub messages: usize,
    /// How reliably they are published.
    pub reliability: Reliability,
    /// What happens to whom.
    pub incidents: Vec<Incident>,
    /// Members that come and go.
    pub churn: Option<Churn>,
    /// Time before the first message.
    pub quiet: f64,
    /// Messages have one of so many keys (each an address and a publisher); 0 for one address and one publisher.
    pub keys: u64,
    /// What stays in order.
    pub ordered: Option<OrderKey>,
    /// Only messages that came in this time count, if given; else all but the first tenth.
    pub counted: Option<(f64, f64)>,
    /// What the journal takes to write down what came meanwhile; 0 for sessions that it does not keep.
    pub sync: f64,
    /// Names the arrivals and service demands.
    pub seed: u64,
}

#[derive(Clone, Copy, Debug)]
pub struct Job {
    /// When it is published.
    pub at: f64,
    /// What it takes, in terms of a worker's mean.
    pub work: f64,
    pub size: u32,
    /// Below the number of keys.
    pub key: u64,
}

/// A worker that settles what it has done, on a network next to the broker.
pub fn worker(mean: f64) -> Worker {
    Worker {
        mean,
        ..Worker::default()
    }
}

impl Default for Worker {
    fn default() -> Worker {
        Worker {
            mean: 0.0,
            handlers: 1,
            declares: false,
            acks: Acks::Processed,
            reliability: Reliability::AtLeastOnce,
            reports: Reports::Never,
            rtt: 0.0004,
            jitter: 0.25,
            wakes: 0.0,
            weight: None,
            says: None,
        }
    }
}

impl Scenario {
    /// `count` workers, half of them `ratio` times as slow as the others, at a part `load` of what they can do.
    pub fn base(load: f64, count: usize, ratio: f64) -> Self {
        let fast = count.div_ceil(2);
        let workers = (0..count)
            .map(|at| worker(if at < fast { 0.010 } else { 0.010 * ratio }))
            .collect();
        Scenario {
            quiet: 0.1,
            ..Scenario::of(workers)
        }
        .at_load(load)
    }

    /// Exponential work for these, as nothing else is said.
    pub fn of(workers: Vec<Worker>) -> Self {
        Scenario {
            workers,
            law: Law::Exponential,
            arrivals: Arrivals::Poisson,
            rate: 0.0,
            messages: 20_000,
            reliability: Reliability::AtLeastOnce,
            incidents: Vec::new(),
            churn: None,
            quiet: 0.0,
            keys: 0,
            ordered: None,
            counted: None,
            sync: 0.0,
            seed: 101,
        }
        .at_load(0.8)
    }

    /// Messages per second that the workers can do.
    pub fn capacity(&self) -> f64 {
        self.workers
            .iter()
            .map(|worker| f64::from(worker.handlers) / worker.mean)
            .sum()
    }

    /// At this part of what the workers can do.
    pub fn at_load(mut self, load: f64) -> Self {
        self.rate = load * self.capacity();
        self
    }

    /// With another law of service times.
    pub fn with_law(mut self, law: Law) -> Self {
        self.law = law;
        self
    }

    /// With each worker changed.
    pub fn each(mut self, change: impl Fn(&mut Worker)) -> Self {
        self.workers.iter_mut().for_each(change);
        self
    }

    /// With something that happens to a worker.
    pub fn with(mut self, what: What, worker: usize, at: f64, lasts: f64) -> Self {
        self.incidents.push(Incident {
            what,
            worker,
            at,
            lasts,
        });
        self
    }

    /// Everything at that reliability.
    pub fn at(mut self, reliability: Reliability) -> Self {
        self.reliability = reliability;
        self.each(|worker| worker.reliability = reliability)
    }

    /// Reports instead of acknowledgements.
    pub fn at_most_once(self, reports: Reports) -> Self {
        self.at(Reliability::AtMostOnce)
            .each(|worker| worker.reports = reports)
    }

    /// The messages, the same for every strategy.
    pub fn jobs(&self) -> Vec<Job> {
        let mut random = Random::new(self.seed);
        let mut at = self.quiet;
        let mut jobs = Vec::with_capacity(self.messages);
        while jobs.len() < self.messages {
            let (gap, count) = match self.arrivals {
                Arrivals::Poisson => (random.exponential() / self.rate, 1),
                Arrivals::Periodic => (1.0 / self.rate, 1),
                Arrivals::Publisher(part) => {
                    ((1.0 + part * (2.0 * random.unit() - 1.0)) / self.rate, 1)
                }
                Arrivals::Bursts => {
                    // 0.4 * 2.5 = 1: nothing comes outside of bursts.
                    let gap = random.exponential() / (2.5 * self.rate);
                    let place = (at + gap).rem_euclid(5.0);
                    let rest = if place < 2.0 { 0.0 } else { 5.0 - place };
                    (gap + rest, 1)
                }
                Arrivals::Batches(count) => {
                    (random.exponential() * f64::from(count) / self.rate, count)
                }
            };
            at += gap;
            for _ in 0..count {
                jobs.push(self.job(at, &mut random));
            }
        }
        for incident in &self.incidents {
            if let What::Burst(count) = incident.what {
                jobs.extend((0..count).map(|_| self.job(incident.at, &mut random)));
            }
        }
        jobs.sort_by(|a, b| a.at.total_cmp(&b.at));
        jobs
    }

    fn job(&self, at: f64, random: &mut Random) -> Job {
        let mut size = 100;
        let work = match self.law {
            Law::Deterministic => 1.0,
            Law::Nearly(part) => 1.0 + part * (2.0 * random.unit() - 1.0),
            Law::Exponential => random.exponential(),
            Law::LogNormal(variation) => {
                let variance = (1.0 + variation * variation).ln();
                (random.normal() * variance.sqrt() - variance / 2.0).exp()
            }
            Law::Pareto(shape, cut) => {
                (random.unit().powf(-1.0 / shape) * (shape - 1.0) / shape).min(cut)
            }
            Law::Bimodal(part, times) => {
                (if random.unit() < part { times } else { 1.0 }) / (1.0 - part + part * times)
            }
            Law::Size => {
                let big = 0.05 + random.exponential();
                size = (1000.0 * big) as u32;
                big / 1.05 * (0.8 + 0.4 * random.unit())
            }
        };
        let key = match self.keys {
            0 => 0,
            keys => random.draw() % keys,
        };
        Job {
            at,
            work,
            size,
            key,
        }
    }
}
