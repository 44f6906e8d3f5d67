//! What is run: the thesis's two scenarios, the sweeps around them, and the conditions of ADR 0019.

use std::collections::HashMap;

use thalweg_balance::GroupStrategy;
use thalweg_model::Reliability;
use thalweg_mqtt::QoS;
use thalweg_mqtt::load::{CONCURRENCY_PROPERTY, ORDER_PROPERTY, SETTLES_PROPERTY, WEIGHT_PROPERTY};

use crate::cell::{Cell, Driver, Workload};
use crate::sim::limit::limit;
use crate::sim::random::Random;
use crate::sim::scenario::{Acks, Arrivals, Law, Reports, Scenario, What, Worker, worker};
use crate::sim::{rows, run};
use crate::studies::plan::{self, Budget, Part};

/// What the thesis measures, and what stands beside it: strategies as the broker's settings name them, and behind a `+` how
/// the broker is told ([`told`]), where that is not as the scenario says.
const CORE: [&str; 7] = [
    "random",
    "round-robin",
    "score",
    "least-outstanding+qos1",
    "adaptive",
    "adaptive+events",
    "adaptive+qos1",
];
/// What is worth a sweep.
const SWEPT: [&str; 5] = [
    "round-robin",
    "score",
    "adaptive",
    "adaptive+events",
    "adaptive+qos1",
];

/// How long a publisher of the thesis publishes.
const LASTS: f64 = 15.0;
/// The thesis slept 10 ms after each message; this is the period that came of it (errata 10).
pub const PERIOD: f64 = 0.010_44;

/// What all repeats of a cell have in common.
#[derive(Clone, Debug)]
pub struct Recipe {
    /// The first of them.
    pub cell: Cell,
    repeats: u32,
    scenario: Scenario,
    bars: Option<(f64, f64)>,
}

/// Everything that a budget has.
pub fn recipes(budget: Budget) -> Vec<Recipe> {
    let (core, other) = plan::by(budget, (3, 3), (10, 3), (10, 10));
    let mut plan = Plan {
        repeats: core,
        ..Plan::default()
    };
    plan.core(budget);
    plan.repeats = other;
    plan.sweeps(budget);
    plan.repeats = other.min(3);
    plan.bars(budget);
    plan.recipes
}

/// The smallest ones, for a test of the whole: two seconds of scenario 2 for two strategies.
pub fn smoke() -> Vec<Recipe> {
    let mut plan = Plan {
        repeats: 1,
        ..Plan::default()
    };
    let scenario = Scenario {
        messages: 200,
        ..two(PERIOD)
    };
    let place = ("core", "S2", "d=10.44ms");
    plan.every(place, &["round-robin", "adaptive+qos1"], &scenario);
    plan.recipes
}

/// The cells of these recipes, each repeat with a seed of its own.
pub fn cells(recipes: &[Recipe], seed: u64) -> Vec<Cell> {
    let of = |recipe: &Recipe| -> Vec<Cell> {
        plan::repeats(&recipe.cell, recipe.repeats, seed).collect()
    };
    recipes.iter().flat_map(of).collect()
}

/// Whether a cell is of a part.
pub fn is_of(cell: &Cell, part: Part) -> bool {
    let named = cell.axes.get("part").map(String::as_str);
    match part {
        Part::Core => named == Some("core"),
        Part::Bars => named == Some("bars"),
        Part::Sweeps => !matches!(named, Some("core" | "bars")),
    }
}

/// A cell and all that it takes to run it, which follows from the plan and the cell's seed.
#[derive(Clone, Debug)]
pub struct Task {
    pub cell: Cell,
    /// Its number in the run: in topics, names of clients and payloads.
    pub number: u32,
    pub scenario: Scenario,
    /// The limit for the same arrivals and demands: mean, 99th percentile, mean wait, in milliseconds.
    pub limit_ms: (f64, f64, f64),
    /// Bars for mean and 99th percentile as multiples of the limit, and what they are in virtual time for the same arrivals
    /// and demands, in milliseconds.
    pub bars: Option<[(f64, f64); 2]>,
}

/// All that it takes to run these cells, which are of these recipes, with the limit that each is held against.
pub fn tasks(recipes: &[Recipe], cells: &[Cell]) -> Vec<Task> {
    // Strategies and ways to report have the same limit.
    let mut limits = HashMap::new();
    let mut tasks = Vec::new();
    for (cell, number) in cells.iter().zip(0..) {
        let Some(recipe) = recipes.iter().find(|it| it.cell.axes == cell.axes) else {
            continue;
        };
        let place = ["part", "scenario", "point"].map(|axis| cell.axes[axis].clone());
        let mut scenario = recipe.scenario.clone();
        scenario.seed = cell.seed;
        // Reports and messages must not be in step, and not the same way each time.
        scenario.quiet += 0.5 * Random::new(cell.seed).unit();
        let limit_ms = *limits.entry((place, cell.seed)).or_insert_with(|| {
            let best = limit(&scenario);
            (best.mean * 1e3, best.p99 * 1e3, best.wait_mean * 1e3)
        });
        let bars = recipe.bars.map(|bars| {
            let outcome = run(&scenario, GroupStrategy::Adaptive);
            [bars, (outcome.mean * 1e3, outcome.p99 * 1e3)]
        });
        tasks.push(Task {
            cell: cell.clone(),
            number,
            scenario,
            limit_ms,
            bars,
        });
    }
    tasks
}

impl Task {
    /// What publishes go to, and workers subscribe to.
    pub fn topic(&self) -> String {
        let variant = &self.cell.axes["strategy"];
        let strategy = variant.split('+').next().unwrap_or_default();
        format!("e5/{strategy}/{}", self.number)
    }

    pub fn filter(&self) -> String {
        format!("$share/e5/{}/#", self.topic())
    }

    /// Seconds after the first at which each worker connects. Workers that report are somewhere in their interval, which
    /// the seed draws: when they connect is when they count from. The others come a millisecond apart.
    pub fn starts(&self) -> Vec<f64> {
        let mut random = Random::new(self.scenario.seed ^ PHASES);
        let every = longest_interval(&self.scenario.workers);
        let start = |worker| match every > 0.0 {
            true => every * random.unit(),
            false => worker as f64 * CONNECT_GAP,
        };
        (0..self.scenario.workers.len()).map(start).collect()
    }

    /// The terms on which a worker works, as user properties.
    pub fn terms(&self, worker: usize) -> Vec<(&'static str, String)> {
        let worker = &self.scenario.workers[worker];
        let mut terms = Vec::new();
        if worker.declares {
            let settles = match worker.acks {
                Acks::Receipt => "received",
                _ => "processed",
            };
            terms.push((CONCURRENCY_PROPERTY, worker.handlers.to_string()));
            terms.push((SETTLES_PROPERTY, settles.to_owned()));
        }
        terms.extend(
            worker
                .weight
                .map(|weight| (WEIGHT_PROPERTY, weight.to_string())),
        );
        let order = self.scenario.ordered.map(|_| "topic".to_owned());
        terms.extend(order.map(|order| (ORDER_PROPERTY, order)));
        terms
    }
}

/// Makes the draw of phases another than that of arrivals.
const PHASES: u64 = 0x5048_4153_4553;
/// Seconds between the connections of two workers that do not report.
const CONNECT_GAP: f64 = 0.001;

/// The same thing in MQTT's words; nothing here is exactly once.
pub fn qos(reliability: Reliability) -> QoS {
    match reliability {
        Reliability::AtMostOnce => QoS::AtMostOnce,
        _ => QoS::AtLeastOnce,
    }
}

/// The longest interval between two reports, in seconds; 0 if no worker reports.
fn longest_interval(workers: &[Worker]) -> f64 {
    let every = workers.iter().filter_map(|it| it.reports.every());
    every.fold(0.0, f64::max)
}

/// A scenario whose workers tell the broker in the way of a variant.
fn told(variant: &str, mut scenario: Scenario) -> Scenario {
    match variant.split_once('+').map_or("", |(_, way)| way) {
        // Messages are acknowledged when they are processed, and nothing is reported.
        "qos1" => {
            let reliability = Reliability::AtLeastOnce;
            scenario.reliability = reliability;
            scenario.each(|it| (it.reports, it.reliability) = (Reports::Never, reliability))
        }
        // Besides the regular reports.
        "events" => scenario.each(|it| {
            if let Reports::Every(seconds) = it.reports {
                it.reports = Reports::Events(seconds);
            }
        }),
        "silent" => scenario.each(|it| it.reports = Reports::Never),
        _ => scenario,
    }
}

#[derive(Default)]
struct Plan {
    recipes: Vec<Recipe>,
    /// Of each of those that follow.
    repeats: u32,
}

/// Part, scenario and point.
type Place<'a> = (&'static str, &'a str, &'a str);

impl Plan {
    fn core(&mut self, budget: Budget) {
        let more: &[f64] = match budget {
            Budget::Quick => &[],
            _ => &[0.011, 0.0125],
        };
        for period in [PERIOD, 0.010].iter().chain(more) {
            let point = format!("d={}ms", period * 1e3);
            for variant in CORE {
                self.every(("core", "S1", &point), &[variant], &one(*period));
                self.every(("core", "S2", &point), &[variant], &two(*period));
            }
        }
        let point = format!("d={}ms", PERIOD * 1e3);
        let place = ("core", "S2", point.as_str());
        self.every(place, &["score+silent", "adaptive+silent"], &two(PERIOD));
        let weights =
            two(PERIOD).each(|worker| worker.weight = Some((0.050 / worker.mean).round() as u16));
        self.every(place, &["weighted"], &weights);
    }

    fn sweeps(&mut self, budget: Budget) {
        let relaxed = 0.0125;
        for seconds in [0.1, 0.3, 1.0, 3.0, 5.0] {
            let scenario = two(PERIOD).each(|worker| worker.reports = Reports::Every(seconds));
            let point = format!("every={seconds}s");
            let place = ("report interval", "S2", point.as_str());
            self.every(place, &["score", "adaptive", "adaptive+events"], &scenario);
        }
        for ratio in [1.0, 2.0, 4.0, 8.0] {
            let scenario = thesis(&[0.025, 0.025, 0.025 * ratio], 1.0).at_load(0.95);
            let point = format!("1:{ratio}");
            self.every(
                ("heterogeneity", "0.95", &point),
                &SWEPT,
                &lasting(scenario),
            );
        }
        let slow = one(relaxed).with(What::Slow(4.0), 1, 5.0, 5.0);
        self.every(("slow-down", "S1", "25 to 100 ms for 5 s"), &SWEPT, &slow);
        let burst = two(relaxed).with(What::Burst(100), 0, 7.3, 0.0);
        self.every(("burst", "S2", "100 at once"), &SWEPT, &burst);
        let exponential = two(relaxed).with_law(Law::Exponential);
        self.every(("service", "S2", "exponential"), &SWEPT, &exponential);
        let away = two(0.025).with(What::Cut, 1, 5.0, 5.0);
        self.every(("leave and join", "S2", "one away for 5 s"), &SWEPT, &away);
        let mut distant = two(relaxed);
        if let Some(worker) = distant.workers.get_mut(1) {
            worker.rtt = 0.100;
        }
        self.every(("link", "S2", "50 ms to one"), &SWEPT, &distant);
        let sizes: &[usize] = match budget {
            Budget::Quick => &[3, 10],
            _ => &[3, 10, 30, 100],
        };
        for count in sizes {
            // The more members, the longer each message, so that one machine can do it.
            let unit = 0.025 * (*count as f64 / 10.0).max(1.0);
            let mean = |at| unit * if at < count.div_ceil(2) { 1.0 } else { 2.0 };
            let scenario = Scenario {
                law: Law::Exponential,
                arrivals: Arrivals::Poisson,
                ..thesis(&(0..*count).map(mean).collect::<Vec<f64>>(), 1.0)
            };
            let point = format!("members={count}");
            let scenario = lasting(scenario.at_load(0.8));
            self.every(("group", "0.8", &point), &SWEPT, &scenario);
        }
    }

    fn bars(&mut self, budget: Budget) {
        for condition in rows::CONDITIONS.iter() {
            let is_far = |worker: &Worker| worker.rtt > LOOPBACK_MAX;
            let scenario = condition.scenario();
            if scenario.workers.iter().any(is_far) {
                // Delays that are made above TCP are not what the row is about.
                continue;
            }
            if let Some(scenario) = affordable(scenario, budget) {
                let place = ("bars", condition.name.as_str(), "");
                self.add(place, "adaptive", scenario, Some(condition.bar));
            }
        }
    }

    fn every(&mut self, place: Place<'_>, variants: &[&str], scenario: &Scenario) {
        for variant in variants {
            self.add(place, variant, scenario.clone(), None);
        }
    }

    fn add(
        &mut self,
        (part, name, point): Place<'_>,
        variant: &str,
        scenario: Scenario,
        bars: Option<(f64, f64)>,
    ) {
        // Everybody has reported before the first message comes, whoever reports: all variants get it at the same time.
        let quiet = scenario.quiet + longest_interval(&scenario.workers);
        let told = told(variant, scenario.clone());
        let leg = plan::mqtt(qos(told.reliability) as u8);
        let lasts = scenario.messages as f64 / scenario.rate;
        let mut draft = plan::cell("E5", "thalweg", leg)
            .at("part", part)
            .at("scenario", name)
            .at("point", point)
            .at("strategy", variant)
            .open(scenario.rate, 1)
            .with(|cell| {
                cell.driver = Driver::Bare;
                cell.workload = Workload::Fixed { bytes: 100 };
                cell.phases = plan::phases(scenario.quiet, 0.0, lasts, 20.0);
            });
        if part == "core" {
            let means = scenario
                .workers
                .iter()
                .map(|it| (it.mean * 1e3).to_string());
            draft = draft.at("members", means.collect::<Vec<_>>().join("/"));
        }
        self.recipes.push(Recipe {
            cell: draft.into_cell(),
            repeats: self.repeats,
            scenario: Scenario { quiet, ..told },
            bars,
        });
    }
}

/// A scenario of the simulator as one machine can run it in real time: where there are more messages a second than
/// [`RATE_MAX`], each takes longer, so that the load is the same. Nothing if there is no time for it.
fn affordable(scenario: Scenario, budget: Budget) -> Option<Scenario> {
    let longer = (scenario.rate / RATE_MAX).max(1.0);
    let scenario = scenario.each(|worker| worker.mean *= longer);
    let rate = scenario.rate / longer;
    let interval = |worker: &Worker| match worker.reports {
        Reports::Every(seconds) => seconds,
        _ => 0.0,
    };
    let every = scenario.workers.iter().map(interval).fold(0.0, f64::max);
    let lasts = match budget {
        Budget::Quick if every > 2.0 => return None,
        Budget::Quick => 15.0,
        // A few intervals at least, so that the phases that were drawn are not all that counts.
        _ if every > 2.0 => 165.0,
        _ if every > 0.5 => 60.0,
        _ => 30.0,
    };
    let messages = match scenario.counted {
        // Something happens at a certain time.
        Some(_) => (scenario.messages as f64 / longer) as usize,
        None => (rate * lasts) as usize,
    };
    Some(Scenario {
        rate,
        messages,
        ..scenario
    })
}

/// Round trips that a loopback can stand for.
pub const LOOPBACK_MAX: f64 = 0.001;
/// Messages a second of one row.
const RATE_MAX: f64 = 700.0;

/// A scenario that lasts as long as the thesis's.
fn lasting(scenario: Scenario) -> Scenario {
    let messages = (LASTS * scenario.rate) as usize;
    Scenario {
        messages,
        ..scenario
    }
}

/// Scenario 1: three equal members.
fn one(period: f64) -> Scenario {
    thesis(&[0.025, 0.025, 0.025], period)
}

/// Scenario 2: one of three is half as fast.
fn two(period: f64) -> Scenario {
    thesis(&[0.025, 0.025, 0.050], period)
}

/// Members of the thesis: QoS 0, a report each second, a time that is always the same.
fn thesis(means: &[f64], period: f64) -> Scenario {
    let workers = means
        .iter()
        .map(|mean| Worker {
            rtt: 0.0,
            jitter: 0.0,
            ..worker(*mean)
        })
        .collect();
    Scenario {
        law: Law::Deterministic,
        arrivals: Arrivals::Periodic,
        rate: 1.0 / period,
        messages: (LASTS / period) as usize,
        quiet: 0.3,
        ..Scenario::of(workers)
    }
    .at_most_once(Reports::Every(1.0))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// One repeat of what the words are in the key of.
    fn some(budget: Budget, words: &[&str], seed: u64) -> Vec<Task> {
        let mut recipes = recipes(budget);
        recipes.retain(|recipe| words.iter().all(|word| recipe.cell.key().contains(word)));
        let cells = cells(&recipes, seed);
        tasks(&recipes, &cells)
    }

    #[test]
    fn workers_start_somewhere_in_their_interval_and_have_reported_before_the_first_message() {
        let words = ["part_core", "scenario_S2", "10.44ms", "strategy_score-"];
        let tasks = some(Budget::Standard, &words, 101);
        let mut phases: Vec<f64> = Vec::new();
        for task in &tasks {
            let starts = task.starts();
            assert_eq!(starts, task.starts(), "the seed says all");
            assert!(
                starts.iter().all(|start| (0.0..1.0).contains(start)),
                "{starts:?}"
            );
            // Time begins when the last one has joined; each reports within its interval after that.
            assert!(
                task.scenario.jobs()[0].at >= longest_interval(&task.scenario.workers),
                "{}",
                task.scenario.jobs()[0].at
            );
            phases.push((starts[0] - starts[1]).rem_euclid(1.0));
        }
        assert_eq!(phases.len(), 10);
        let below_half = phases.iter().filter(|phase| **phase < 0.5).count();
        assert!((2..=8).contains(&below_half), "{phases:?}");
        // Who does not report has nothing to be in step with.
        let silent = some(Budget::Quick, &["strategy_score_silent"], 101);
        assert_eq!(silent.len(), 3);
        assert!(
            silent
                .iter()
                .all(|task| task.starts() == [0.0, 0.001, 0.002] && task.limit_ms.0 > 0.0)
        );
    }

    #[test]
    fn the_core_of_a_standard_run_is_ten_of_each() {
        let mut cells = cells(&recipes(Budget::Standard), 1);
        cells.retain(|cell| is_of(cell, Part::Core));
        let recipes: HashSet<_> = cells.iter().map(|cell| &cell.axes).collect();
        assert_eq!(
            (cells.len(), recipes.len()),
            (10 * recipes.len(), 2 * 4 * CORE.len() + 3)
        );
    }

    #[test]
    fn strategies_of_one_repeat_get_the_same_messages() {
        let times = |strategy: &str| {
            let task = some(Budget::Quick, &["part_service", strategy], 7).swap_remove(0);
            let jobs = task.scenario.jobs();
            jobs.iter()
                .map(|job| (job.at, job.work))
                .collect::<Vec<_>>()
        };
        assert_eq!(times("strategy_score"), times("strategy_adaptive_qos1"));
    }
}
