//! Conditions of a group, with their bars as multiples of the work-conserving limit (ADR 0019).

use std::sync::LazyLock;

use serde::Deserialize;
use thalweg_balance::GroupStrategy;
use thalweg_kernel::OrderKey;
use thalweg_model::Reliability;

use super::limit::limit;
use super::outcome::Outcome;
use super::scenario::{Acks, Arrivals, Churn, Law, Scenario, What, Worker, worker};
use super::world::run;

/// A condition of `conditions.toml`, and what must hold there: mean and 99th percentile from publish until processed, in terms
/// of the limit.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Condition {
    /// What it is called.
    pub name: String,
    pub bar: (f64, f64),
    /// Whether the bar was set for this project; the others are of the algorithm's design.
    #[serde(default, rename = "asked")]
    pub is_asked: bool,
    /// Messages that bring the ratio within about 0.02 of what a hundred thousand give; 0 if fewer do not, or if what happens
    /// at a certain time says how many.
    #[serde(default)]
    pub quick: usize,
    load: Option<f64>,
    members: Option<usize>,
    /// How many times as slow as the others half of the members are.
    ratio: Option<f64>,
    law: Option<Law>,
    arrivals: Option<Arrivals>,
    /// What all members are like but for their speed.
    #[serde(default)]
    worker: Worker,
    /// What every fourth is like instead: three of ten.
    fourth: Option<Worker>,
    #[serde(default)]
    at_most_once: bool,
    /// By what a hundred keys keep their order.
    ordered: Option<OrderedBy>,
    /// What happens to the first worker after 15 s, and for how long; messages of the 20 s after that count.
    after: Option<(What, f64)>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum OrderedBy {
    Address,
    Publisher,
}

/// A condition, measured with some seeds.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Mean and 99th percentile in terms of the limit: the mean over seeds.
    pub ratio: (f64, f64),
    pub limit: (f64, f64),
    pub runs: Vec<Outcome>,
}

/// The limit of heavy tails: no service takes longer than this many times the mean.
pub const PARETO_CUT: f64 = 150.0;
/// When what happens happens.
const FROM: f64 = 15.0;

#[derive(Deserialize)]
struct Conditions {
    condition: Vec<Condition>,
}

/// All conditions with a ratio.
pub static CONDITIONS: LazyLock<Vec<Condition>> = LazyLock::new(|| {
    let all: Conditions =
        toml::from_str(include_str!("conditions.toml")).expect("it is read by the tests");
    all.condition
});

/// The condition of that name.
pub fn condition(name: &str) -> Option<&'static Condition> {
    CONDITIONS.iter().find(|condition| condition.name == name)
}

impl Condition {
    pub fn scenario(&self) -> Scenario {
        let load = self.load.unwrap_or(0.8);
        let (members, ratio) = (self.members.unwrap_or(10), self.ratio.unwrap_or(2.0));
        let mut scenario = Scenario::base(load, members, ratio);
        for (at, worker) in scenario.workers.iter_mut().enumerate() {
            let like = self.fourth.filter(|_| at % 4 == 0).unwrap_or(self.worker);
            let mean = worker.mean;
            *worker = Worker { mean, ..like };
        }
        if self.at_most_once {
            scenario = scenario.at(Reliability::AtMostOnce);
        }
        scenario.law = self.law.unwrap_or(scenario.law);
        scenario.arrivals = self.arrivals.unwrap_or(scenario.arrivals);
        scenario = scenario.at_load(load);
        if let Some(by) = self.ordered {
            scenario.ordered = Some(match by {
                OrderedBy::Address => OrderKey::Address,
                OrderedBy::Publisher => OrderKey::Publisher,
            });
            scenario.keys = 100;
        }
        if let Some((what, lasts)) = self.after {
            scenario = scenario.with(what, 0, FROM, lasts);
            scenario.counted = Some((FROM, FROM + 20.0));
            scenario.messages = (scenario.rate * 40.0) as usize;
        }
        scenario
    }

    /// Measures it with so many messages (where nothing happens at a certain time) and each of the seeds.
    pub fn measure(
        &self,
        strategy: GroupStrategy,
        messages: usize,
        seeds: impl IntoIterator<Item = u64>,
    ) -> Measured {
        let mut sums = [0.0; 4];
        let mut runs = Vec::new();
        for seed in seeds {
            let mut scenario = self.scenario();
            scenario.seed = seed;
            if scenario.counted.is_none() {
                scenario.messages = messages;
            }
            let (outcome, bound) = (run(&scenario, strategy), limit(&scenario));
            let ratios = (outcome.mean / bound.mean, outcome.p99 / bound.p99);
            let each = [ratios.0, ratios.1, bound.mean, bound.p99];
            sums.iter_mut().zip(each).for_each(|(sum, it)| *sum += it);
            runs.push(outcome);
        }
        let [mean, p99, limit_mean, limit_p99] = sums.map(|sum| sum / runs.len().max(1) as f64);
        Measured {
            ratio: (mean, p99),
            limit: (limit_mean, limit_p99),
            runs,
        }
    }
}

/// Fifty equal members of 20 ms (some messages take half of that, some half as long again), of which each is away for a
/// tenth of the time; as many leave and come back each second as `rate` says. Work that a leaving member has begun is
/// begun again by another.
pub fn churn(rate: f64, seconds: f64) -> Scenario {
    let count = 50.0;
    let mean = 0.020;
    let cycle = count / rate;
    let away = cycle / 10.0;
    let mut scenario =
        Scenario::of((0..50).map(|_| worker(mean)).collect()).with_law(Law::Nearly(0.5));
    scenario.churn = Some(Churn { rate, away });
    // Of each stay, half a message is lost at its end on average.
    let stay = cycle - away;
    let useful = (stay - mean / 2.0) / cycle;
    scenario.rate = 0.9 * useful * count / mean;
    scenario.messages = (scenario.rate * seconds) as usize;
    scenario.quiet = 0.5;
    scenario
}

/// Exactly once with sessions that a journal keeps, at 75 % of what six members of 10 and 20 ms can do.
pub fn journaled(acks: Acks, law: Law, sync: f64) -> Scenario {
    let members = [0.010, 0.010, 0.010, 0.020, 0.020, 0.020]
        .map(worker)
        .to_vec();
    // On one machine, as the figure that is to be kept was measured.
    let near = |worker: &mut Worker| (worker.acks, worker.rtt) = (acks, 0.000_1);
    let scenario = Scenario::of(members)
        .at(Reliability::ExactlyOnce)
        .each(near);
    Scenario {
        quiet: 0.1,
        sync,
        ..scenario.with_law(law)
    }
    .at_load(0.75)
}

/// Exactly once, with the first worker frozen for 10 s in the middle.
pub fn exactly_once(acks: Acks) -> Scenario {
    let mut scenario = Scenario::base(0.7, 10, 2.0)
        .at(Reliability::ExactlyOnce)
        .each(|worker| worker.acks = acks)
        .with(What::Freeze, 0, FROM, 10.0);
    scenario.messages = (scenario.rate * 30.0) as usize;
    scenario
}
