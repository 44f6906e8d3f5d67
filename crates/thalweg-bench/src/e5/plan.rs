//! What is run: the thesis's two scenarios, the sweeps around them, and the conditions of ADR 0019.

use std::collections::HashMap;

use thalweg_balance::GroupStrategy;
use thalweg_model::Reliability;

use super::cell::{Cell, longest_interval};
use crate::sim::limit::limit;
use crate::sim::random::Random;
use crate::sim::scenario::{Arrivals, Law, Reports, Scenario, What, Worker, worker};
use crate::sim::{rows, run};

/// How much is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Budget {
    /// A few minutes: three repeats, two periods.
    Quick,
    /// Ten repeats of the scenarios, three of everything else.
    Standard,
    /// Ten repeats of everything.
    Paper,
}

/// Which parts are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    /// The scenarios of the study itself.
    Core,
    /// What becomes of them when something is different.
    Sweeps,
    /// Rows with bars against the work-conserving limit.
    Bars,
}

/// Strategy, and how the broker is told.
#[derive(Clone, Copy, Debug)]
struct Variant {
    name: &'static str,
    strategy: &'static str,
    /// Whether there are events besides the regular reports.
    events: bool,
    /// Whether messages are acknowledged when they are processed, and nothing is reported.
    acks: bool,
    /// Whether nothing is reported at all.
    silent: bool,
}

const fn variant(name: &'static str, strategy: &'static str) -> Variant {
    Variant {
        name,
        strategy,
        events: false,
        acks: false,
        silent: false,
    }
}

const RANDOM: Variant = variant("random", "random");
const ROUND_ROBIN: Variant = variant("round-robin", "round-robin");
const WEIGHTED: Variant = variant("weighted", "weighted");
const SCORE: Variant = variant("score", "score");
const LEAST: Variant = Variant {
    acks: true,
    ..variant("least-outstanding+qos1", "least-outstanding")
};
const ADAPTIVE: Variant = variant("adaptive", "adaptive");
const ADAPTIVE_EVENTS: Variant = Variant {
    events: true,
    ..variant("adaptive+events", "adaptive")
};
const ADAPTIVE_ACKS: Variant = Variant {
    acks: true,
    ..variant("adaptive+qos1", "adaptive")
};
const SCORE_SILENT: Variant = Variant {
    silent: true,
    ..variant("score+silent", "score")
};
const ADAPTIVE_SILENT: Variant = Variant {
    silent: true,
    ..variant("adaptive+silent", "adaptive")
};

/// The strategy under test where the scenario itself says how the broker is told.
const NAMED: Variant = variant("adaptive", "adaptive");

/// What the thesis measures, and what stands beside it.
const CORE: [Variant; 7] = [
    RANDOM,
    ROUND_ROBIN,
    SCORE,
    LEAST,
    ADAPTIVE,
    ADAPTIVE_EVENTS,
    ADAPTIVE_ACKS,
];
/// What is worth a sweep.
const SWEPT: [Variant; 5] = [ROUND_ROBIN, SCORE, ADAPTIVE, ADAPTIVE_EVENTS, ADAPTIVE_ACKS];

/// How long a publisher of the thesis publishes.
const LASTS: f64 = 15.0;
/// The thesis slept 10 ms after each message; this is the period that came of it (errata 10).
pub const PERIOD: f64 = 0.010_44;

/// The cells to run, in the order of a shuffled deck.
///
/// Only those are planned in whose part, scenario, point and strategy one of the words of `like` is, if there are any.
pub fn cells(
    budget: Budget,
    parts: &[Part],
    repeats: Option<u32>,
    seed: u64,
    like: &[String],
) -> Vec<Cell> {
    let core = repeats.unwrap_or(if budget == Budget::Quick { 3 } else { 10 });
    let other = repeats.unwrap_or(if budget == Budget::Paper { 10 } else { 3 });
    let mut plan = Plan {
        cells: Vec::new(),
        limits: HashMap::new(),
        seed,
        like,
    };
    for part in parts {
        match part {
            Part::Core => plan.core(budget, core),
            Part::Sweeps => plan.sweeps(budget, other),
            Part::Bars => plan.bars(budget, other.min(3)),
        }
    }
    plan.shuffled()
}

/// A cell of the smallest kind, for a test of the whole: three seconds of scenario 2 for two strategies.
pub fn smoke(seed: u64) -> Vec<Cell> {
    let mut plan = Plan {
        cells: Vec::new(),
        limits: HashMap::new(),
        seed,
        like: &[],
    };
    for variant in [ROUND_ROBIN, ADAPTIVE_ACKS] {
        let scenario = Scenario {
            messages: 200,
            ..two(PERIOD)
        };
        plan.add(
            ("core", "S2", "d=10.44ms".to_owned()),
            variant,
            scenario,
            1,
            None,
        );
    }
    plan.shuffled()
}

struct Plan<'a> {
    cells: Vec<Cell>,
    /// Limits by what they depend on: strategies and ways to report have the same.
    limits: HashMap<String, (f64, f64, f64)>,
    seed: u64,
    like: &'a [String],
}

impl Plan<'_> {
    fn core(&mut self, budget: Budget, repeats: u32) {
        let periods: &[f64] = if budget == Budget::Quick {
            &[PERIOD, 0.010]
        } else {
            &[PERIOD, 0.010, 0.011, 0.0125]
        };
        for period in periods {
            for variant in CORE {
                let point = format!("d={}ms", period * 1e3);
                self.repeat(
                    ("core", "S1", point.clone()),
                    variant,
                    &one(*period),
                    repeats,
                );
                self.repeat(("core", "S2", point), variant, &two(*period), repeats);
            }
        }
        for variant in [SCORE_SILENT, ADAPTIVE_SILENT] {
            self.repeat(
                ("core", "S2", format!("d={}ms", PERIOD * 1e3)),
                variant,
                &two(PERIOD),
                repeats,
            );
        }
        let weights =
            two(PERIOD).each(|worker| worker.weight = Some((0.050 / worker.mean).round() as u16));
        self.repeat(
            ("core", "S2", format!("d={}ms", PERIOD * 1e3)),
            WEIGHTED,
            &weights,
            repeats,
        );
    }

    fn sweeps(&mut self, budget: Budget, repeats: u32) {
        let relaxed = 0.0125;
        for seconds in [0.1, 0.3, 1.0, 3.0, 5.0] {
            let scenario = two(PERIOD).each(|worker| worker.reports = Reports::Every(seconds));
            for variant in [SCORE, ADAPTIVE, ADAPTIVE_EVENTS] {
                self.repeat(
                    ("report interval", "S2", format!("every={seconds}s")),
                    variant,
                    &scenario,
                    repeats,
                );
            }
        }
        for ratio in [1.0, 2.0, 4.0, 8.0] {
            let scenario = thesis(&[0.025, 0.025, 0.025 * ratio], 1.0).at_load(0.95);
            let scenario = Scenario {
                messages: (LASTS * scenario.rate) as usize,
                ..scenario
            };
            self.swept(
                "heterogeneity",
                "0.95",
                format!("1:{ratio}"),
                &scenario,
                repeats,
            );
        }
        let slow = one(relaxed).with(What::Slow(4.0), 1, 5.0, 5.0);
        self.swept(
            "slow-down",
            "S1",
            "25 to 100 ms for 5 s".to_owned(),
            &slow,
            repeats,
        );
        self.swept(
            "burst",
            "S2",
            "100 at once".to_owned(),
            &two(relaxed).with_burst(7.3, 100),
            repeats,
        );
        let exponential = Scenario {
            law: Law::Exponential,
            ..two(relaxed)
        };
        self.swept(
            "service",
            "S2",
            "exponential".to_owned(),
            &exponential,
            repeats,
        );
        let away = two(0.025).with(What::Cut, 1, 5.0, 5.0);
        self.swept(
            "leave and join",
            "S2",
            "one away for 5 s".to_owned(),
            &away,
            repeats,
        );
        let mut distant = two(relaxed);
        if let Some(worker) = distant.workers.get_mut(1) {
            worker.rtt = 0.100;
        }
        self.swept("link", "S2", "50 ms to one".to_owned(), &distant, repeats);
        let sizes: &[usize] = if budget == Budget::Quick {
            &[3, 10]
        } else {
            &[3, 10, 30, 100]
        };
        for count in sizes {
            // The more members, the longer each message, so that one machine can do it.
            let unit = 0.025 * (*count as f64 / 10.0).max(1.0);
            let means: Vec<f64> = (0..*count)
                .map(|at| {
                    if at < count.div_ceil(2) {
                        unit
                    } else {
                        2.0 * unit
                    }
                })
                .collect();
            let scenario = Scenario {
                law: Law::Exponential,
                arrivals: Arrivals::Poisson,
                ..thesis(&means, 1.0)
            };
            let scenario = scenario.at_load(0.8);
            let scenario = Scenario {
                messages: (LASTS * scenario.rate) as usize,
                ..scenario
            };
            self.swept(
                "group",
                "0.8",
                format!("members={count}"),
                &scenario,
                repeats,
            );
        }
    }

    fn bars(&mut self, budget: Budget, repeats: u32) {
        for condition in rows::conditions() {
            if condition
                .scenario
                .workers
                .iter()
                .any(|worker| worker.rtt > LOOPBACK_MAX)
            {
                // Delays that are made above TCP are not what the row is about.
                continue;
            }
            let Some(scenario) = affordable(condition.scenario.clone(), budget) else {
                continue;
            };
            for repeat in 1..=repeats {
                let place = ("bars", condition.name, String::new());
                self.add(place, NAMED, scenario.clone(), repeat, Some(condition.bar));
            }
        }
    }

    fn swept(
        &mut self,
        part: &'static str,
        name: &str,
        point: String,
        scenario: &Scenario,
        repeats: u32,
    ) {
        for variant in SWEPT {
            self.repeat((part, name, point.clone()), variant, scenario, repeats);
        }
    }

    fn repeat(
        &mut self,
        place: (&'static str, &str, String),
        variant: Variant,
        scenario: &Scenario,
        repeats: u32,
    ) {
        for repeat in 1..=repeats {
            self.add(place.clone(), variant, scenario.clone(), repeat, None);
        }
    }

    fn add(
        &mut self,
        (part, name, point): (&'static str, &str, String),
        variant: Variant,
        scenario: Scenario,
        repeat: u32,
        bars: Option<(f64, f64)>,
    ) {
        let words = format!("{part} {name} {point} {}", variant.name);
        if !self.like.is_empty() && !self.like.iter().any(|like| words.contains(like.as_str())) {
            return;
        }
        let seed = self.seed + u64::from(repeat) - 1;
        let told = |worker: &mut Worker| match (variant.acks, variant.events, worker.reports) {
            (true, _, _) => {
                (worker.reports, worker.reliability) = (Reports::Never, Reliability::AtLeastOnce);
            }
            (false, true, Reports::Every(seconds)) => worker.reports = Reports::Events(seconds),
            _ if variant.silent => worker.reports = Reports::Never,
            _ => {}
        };
        // Reports and messages must not be in step, and not the same way each time; and everybody has reported before the
        // first message comes.
        let quiet =
            scenario.quiet + longest_interval(&scenario.workers) + 0.5 * Random::new(seed).unit();
        let mut scenario = Scenario {
            quiet,
            seed,
            ..scenario
        }
        .each(told);
        if variant.acks {
            scenario.reliability = Reliability::AtLeastOnce;
        }
        let key = format!(
            "{:?} {:?} {:?} {} {} {:?} {quiet} {seed} {:?}",
            scenario
                .workers
                .iter()
                .map(|worker| (worker.mean, worker.handlers, worker.rtt))
                .collect::<Vec<_>>(),
            scenario.law,
            scenario.arrivals,
            scenario.rate,
            scenario.messages,
            scenario.incidents,
            scenario.counted,
        );
        let virtual_ms = bars.map(|_| {
            let outcome = run(&scenario, GroupStrategy::Adaptive);
            (outcome.mean * 1e3, outcome.p99 * 1e3)
        });
        let limit_ms = *self.limits.entry(key).or_insert_with(|| {
            let best = limit(&scenario);
            (best.mean * 1e3, best.p99 * 1e3, best.wait_mean * 1e3)
        });
        let scenario_name = name.to_owned();
        let (name, strategy) = (variant.name, variant.strategy);
        let number = self.cells.len() as u32;
        let cell = Cell {
            number,
            part,
            scenario_name,
            point,
            variant: name,
            strategy,
            scenario,
            repeat,
            bars,
            limit_ms,
            virtual_ms,
        };
        self.cells.push(cell);
    }

    fn shuffled(mut self) -> Vec<Cell> {
        let mut random = Random::new(self.seed);
        for last in (1..self.cells.len()).rev() {
            self.cells
                .swap(last, (random.draw() % (last as u64 + 1)) as usize);
        }
        for (number, cell) in self.cells.iter_mut().enumerate() {
            cell.number = number as u32;
        }
        self.cells
    }
}

/// A scenario of the simulator as one machine can run it in real time: where there are more messages a second than
/// [`RATE_MAX`], each takes longer, so that the load is the same. Nothing if there is no time for it.
fn affordable(scenario: Scenario, budget: Budget) -> Option<Scenario> {
    let longer = (scenario.rate / RATE_MAX).max(1.0);
    let scenario = scenario.each(|worker| worker.mean *= longer);
    let rate = scenario.rate / longer;
    let every = |worker: &Worker| {
        if let Reports::Every(seconds) = worker.reports {
            seconds
        } else {
            0.0
        }
    };
    let every = scenario.workers.iter().map(every).fold(0.0, f64::max);
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
const LOOPBACK_MAX: f64 = 0.001;
/// Messages a second of one row.
const RATE_MAX: f64 = 700.0;

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

    #[test]
    fn a_plan_is_the_same_for_the_same_seed_and_in_another_order_for_another() {
        let names = |seed| {
            let cells = cells(Budget::Quick, &[Part::Core], Some(1), seed, &[]);
            cells
                .iter()
                .map(|cell| (cell.number, cell.variant, cell.point.clone()))
                .collect::<Vec<_>>()
        };
        assert_eq!(names(1), names(1));
        assert_ne!(names(1), names(2));
    }

    #[test]
    fn workers_start_somewhere_in_their_interval_and_have_reported_before_the_first_message() {
        let cells = cells(
            Budget::Standard,
            &[Part::Core],
            Some(12),
            101,
            &["10.44ms score".to_owned()],
        );
        let mut phases: Vec<f64> = Vec::new();
        for cell in cells
            .iter()
            .filter(|cell| cell.scenario_name == "S2" && cell.variant == "score")
        {
            let starts = cell.starts();
            assert_eq!(starts, cell.starts(), "the seed says all");
            assert!(
                starts.iter().all(|start| (0.0..1.0).contains(start)),
                "{starts:?}"
            );
            // Time begins when the last one has joined; each reports within its interval after that.
            assert!(
                cell.scenario.jobs()[0].at >= cell.report_every(),
                "{}",
                cell.scenario.jobs()[0].at
            );
            phases.push((starts[0] - starts[1]).rem_euclid(1.0));
        }
        assert_eq!(phases.len(), 12);
        let below_half = phases.iter().filter(|phase| **phase < 0.5).count();
        assert!((2..=10).contains(&below_half), "{phases:?}");
        // Who does not report has nothing to be in step with.
        let silent = cells_like("score+silent");
        assert!(
            silent
                .iter()
                .all(|cell| cell.starts() == [0.0, 0.001, 0.002])
        );
    }

    fn cells_like(word: &str) -> Vec<Cell> {
        cells(
            Budget::Quick,
            &[Part::Core],
            Some(1),
            101,
            &[word.to_owned()],
        )
    }

    #[test]
    fn the_core_of_a_standard_run_is_ten_of_each() {
        let cells = cells(Budget::Standard, &[Part::Core], None, 1, &[]);
        let kinds: HashSet<_> = cells
            .iter()
            .map(|cell| (cell.scenario_name.clone(), cell.point.clone(), cell.variant))
            .collect();
        assert_eq!(
            (cells.len(), kinds.len()),
            (10 * kinds.len(), 2 * 4 * CORE.len() + 3)
        );
        assert!(cells.iter().all(|cell| cell.limit_ms.0 > 0.0));
    }

    #[test]
    fn only_what_was_asked_for_is_planned() {
        let cells = cells(
            Budget::Quick,
            &[Part::Sweeps],
            Some(1),
            7,
            &["burst".to_owned(), "group".to_owned()],
        );
        assert!(
            cells.iter().any(|cell| cell.part == "burst")
                && cells.iter().any(|cell| cell.part == "group")
        );
        assert!(
            cells
                .iter()
                .all(|cell| ["burst", "group"].contains(&cell.part))
        );
    }

    #[test]
    fn strategies_of_one_repeat_get_the_same_messages() {
        let cells = cells(Budget::Quick, &[Part::Sweeps], Some(1), 7, &[]);
        let times = |variant: &str| {
            let cell = cells
                .iter()
                .find(|cell| cell.part == "service" && cell.variant == variant)
                .expect("planned");
            cell.scenario
                .jobs()
                .iter()
                .map(|job| (job.at, job.work))
                .collect::<Vec<_>>()
        };
        assert_eq!(times("score"), times("adaptive+qos1"));
    }
}
