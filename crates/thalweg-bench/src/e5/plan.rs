//! What is run: the thesis's two scenarios, the sweeps around them, and the conditions of ADR 0019.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::{Value, json};
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

/// How long a publisher of the thesis publishes, in seconds.
const LASTS: f64 = 15.0;

/// What all repeats of a cell have in common.
#[derive(Clone, Debug)]
pub struct Recipe {
    /// The first of them.
    pub cell: Cell,
    repeats: u32,
    scenario: Scenario,
    bars: Option<(f64, f64)>,
}

/// Cells of `e5.toml`: a scenario of the thesis and what is different about it. Times are seconds.
#[derive(Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Draft {
    part: String,
    scenario: String,
    point: String,
    /// As the broker's settings name them; behind a `+` is how the broker is told ([`told`]), if not as the scenario says.
    strategies: Vec<String>,
    /// Whether a quick run leaves it out.
    long: bool,
    /// What each member takes for a message; or how many there are, and how many times 25 ms the quicker half of them takes.
    means: Vec<f64>,
    members: Option<(usize, f64)>,
    /// Between two messages; or what part of what the members can do comes.
    period: f64,
    load: Option<f64>,
    law: Option<Law>,
    arrivals: Option<Arrivals>,
    /// Between two reports of a member.
    reports: Option<f64>,
    /// What happens to which member, when, and for how long.
    incident: Option<(What, usize, f64, f64)>,
    /// The round trip of the second member.
    rtt: f64,
    /// Members name their weights.
    weights: bool,
}

/// What `e5.toml` has, each point of a list on its own.
fn drafts() -> impl Iterator<Item = Draft> {
    let file: Value = toml::from_str(include_str!("e5.toml")).expect("a test reads it");
    let all = file["cells"].as_array().cloned().unwrap_or_default();
    let each = all.into_iter().flat_map(|mut cell| {
        let points = cell.as_object_mut().and_then(|it| it.remove("points"));
        let points = points.unwrap_or_else(|| json!([{}]));
        let points = points.as_array().cloned().unwrap_or_default();
        points.into_iter().map(move |point| {
            let mut cell = cell.clone();
            let more = point.as_object().cloned().unwrap_or_default();
            more.into_iter().for_each(|(key, value)| cell[key] = value);
            cell
        })
    });
    each.map(|it| serde_json::from_value(it).expect("a test reads it"))
}

impl Draft {
    /// Members of the thesis: QoS 0, a report each second, a time that is always the same.
    fn scenario(&self) -> Scenario {
        let half = |(count, quick): (usize, f64)| {
            (0..count).map(move |at| 0.025 * quick * if at < count.div_ceil(2) { 1.0 } else { 2.0 })
        };
        let means = self.members.into_iter().flat_map(half);
        let worker = |mean: f64| Worker {
            rtt: 0.0,
            jitter: 0.0,
            weight: self.weights.then(|| (0.050 / mean).round() as u16),
            ..worker(mean)
        };
        let workers = self.means.iter().copied().chain(means).map(worker);
        let mut scenario = Scenario {
            law: self.law.unwrap_or(Law::Deterministic),
            arrivals: self.arrivals.unwrap_or(Arrivals::Periodic),
            rate: 1.0 / self.period,
            quiet: 0.3,
            ..Scenario::of(workers.collect())
        }
        .at_most_once(Reports::Every(self.reports.unwrap_or(1.0)));
        if let Some(load) = self.load {
            scenario = scenario.at_load(load);
        }
        scenario.messages = (LASTS * scenario.rate) as usize;
        if let Some(second) = scenario.workers.get_mut(1) {
            second.rtt = self.rtt;
        }
        match self.incident {
            Some((what, worker, at, lasts)) => scenario.with(what, worker, at, lasts),
            None => scenario,
        }
    }
}

/// Everything that a budget has.
pub fn recipes(budget: Budget) -> Vec<Recipe> {
    let (core, other) = plan::by(budget, (3, 3), (10, 3), (10, 10));
    let mut recipes = Vec::new();
    for draft in drafts().filter(|it| !it.long || budget != Budget::Quick) {
        let place = [&draft.part, &draft.scenario, &draft.point];
        let repeats = if draft.part == "core" { core } else { other };
        let of = |strategy: &String| recipe(place, strategy, draft.scenario(), repeats);
        recipes.extend(draft.strategies.iter().map(of));
    }
    for condition in rows::CONDITIONS.iter() {
        let is_far = |worker: &Worker| worker.rtt > LOOPBACK_MAX;
        let scenario = condition.scenario();
        if scenario.workers.iter().any(is_far) {
            // Delays that are made above TCP are not what the row is about.
            continue;
        }
        if let Some(scenario) = affordable(scenario, budget) {
            let place = ["bars", &condition.name, ""];
            recipes.push(Recipe {
                bars: Some(condition.bar),
                ..recipe(place, "adaptive", scenario, other.min(3))
            });
        }
    }
    recipes
}

/// The smallest ones, for a test of the whole: two seconds of scenario 2 for two strategies.
pub fn smoke() -> Vec<Recipe> {
    let draft = drafts().find(|it| it.part == "core" && it.scenario == "S2");
    let draft = draft.expect("a test reads it");
    let place = [&draft.part, &draft.scenario, &draft.point];
    ["round-robin", "adaptive+qos1"]
        .map(|strategy| {
            let scenario = Scenario {
                messages: 200,
                ..draft.scenario()
            };
            recipe(place, strategy, scenario, 1)
        })
        .to_vec()
}

/// A cell of a part, scenario and point, with a strategy.
fn recipe<P: AsRef<str>>(
    place: [P; 3],
    strategy: &str,
    scenario: Scenario,
    repeats: u32,
) -> Recipe {
    // Everybody has reported before the first message comes, in every variant: all get it at the same time.
    let quiet = scenario.quiet + longest_interval(&scenario.workers);
    let told = told(strategy, scenario.clone());
    let leg = plan::mqtt(qos(told.reliability) as u8);
    let lasts = scenario.messages as f64 / scenario.rate;
    let mut draft = plan::cell("E5", "thalweg", leg)
        .at("strategy", strategy)
        .open(scenario.rate, 1)
        .with(|cell| {
            cell.driver = Driver::Bare;
            cell.workload = Workload::Fixed { bytes: 100 };
            cell.phases = plan::phases(scenario.quiet, 0.0, lasts, 20.0);
        });
    for (axis, value) in ["part", "scenario", "point"].into_iter().zip(&place) {
        draft = draft.at(axis, value.as_ref());
    }
    if place[0].as_ref() == "core" {
        let means = scenario.workers.iter();
        let means = means.map(|it| (it.mean * 1e3).to_string());
        draft = draft.at("members", means.collect::<Vec<_>>().join("/"));
    }
    Recipe {
        cell: draft.into_cell(),
        repeats,
        scenario: Scenario { quiet, ..told },
        bars: None,
    }
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
            (10 * recipes.len(), 2 * 4 * 7 + 3)
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
