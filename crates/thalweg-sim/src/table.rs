//! Everything that is asked of shared groups, measured in virtual time, as data.

use std::fmt;

use serde::Deserialize;
use thalweg_balance::GroupStrategy::{self, Adaptive, Random, RoundRobin, Score};
use thalweg_model::Reliability;

use super::outcome::Outcome;
use super::rows::{Condition, Measured, churn, exactly_once};
use super::scenario::{Acks, Arrivals, Law, Reports, Scenario, What};
use super::thesis::{self, PERIOD, PERIOD_OF_TABLE_7, Steady, one, steady, two};
use super::world::run;

/// One figure beside what it should be.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Row {
    /// What it is called here; empty for those of conditions.
    id: String,
    /// The algorithm's design asked for it, beyond the bars of this project (ADR 0019).
    pub is_beyond: bool,
    pub condition: String,
    pub figure: String,
    /// The unit of `ours`, `paper` and `limit`.
    pub unit: String,
    /// What the thesis had.
    pub paper: Option<f64>,
    /// What we have: the mean over seeds, or the worst of them where a bar holds for each.
    pub ours: f64,
    /// The bound that no strategy can beat.
    pub limit: Option<f64>,
    /// `ours` in terms of `limit`; the mean over seeds of each seed's.
    pub ratio: Option<f64>,
    pub bar: Bar,
}

/// What must hold of a figure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bar {
    /// Of `ratio`.
    RatioAtMost(f64),
    /// Of `ours`.
    AtMost(f64),
    /// Of `ours`.
    AtLeast(f64),
    /// Of `ours`.
    Between(f64, f64),
    /// Nothing; it is there to be seen.
    #[default]
    Nothing,
}

impl fmt::Display for Bar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Bar::RatioAtMost(most) => format!("≤ {most} × limit"),
            Bar::AtMost(most) => format!("≤ {most}"),
            Bar::AtLeast(least) => format!("≥ {least}"),
            Bar::Between(least, most) => format!("{least} to {most}"),
            Bar::Nothing => String::new(),
        };
        f.pad(&text)
    }
}

impl Row {
    /// Whether its bar does not hold.
    pub fn is_missed(&self) -> bool {
        !match self.bar {
            Bar::RatioAtMost(most) => self.ratio.is_some_and(|ratio| ratio <= most),
            Bar::AtMost(most) => self.ours <= most,
            Bar::AtLeast(least) => self.ours >= least,
            Bar::Between(least, most) => (least..=most).contains(&self.ours),
            Bar::Nothing => true,
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = |it: Option<f64>| it.map_or(String::new(), |it| format!("{it:.2}"));
        let [paper, limit, ratio] = [self.paper, self.limit, self.ratio].map(number);
        let verdict = match self.bar {
            Bar::Nothing => "",
            _ if self.is_missed() => "missed",
            _ => "holds",
        };
        let (condition, figure, ours) = (&self.condition, &self.figure, self.ours);
        write!(
            f,
            "{condition:<66} {figure:<48} {paper:>8} {ours:>9.2} {limit:>8} "
        )?;
        write!(f, "{:<8} {ratio:>6}  {:<16} {verdict}", self.unit, self.bar)
    }
}

/// The rows of one condition.
pub fn of_condition(condition: &Condition, measured: &Measured) -> Vec<Row> {
    let row = |figure: &str, unit: &str, ours: f64, bar: Bar| Row {
        is_beyond: !condition.is_asked,
        condition: condition.name.to_owned(),
        figure: figure.to_owned(),
        unit: unit.to_owned(),
        ours,
        bar,
        ..Row::default()
    };
    let ratio = |figure: &str, of: fn(&Outcome) -> f64, limit: f64, ratio: f64, most: f64| Row {
        limit: Some(limit * 1e3),
        ratio: Some(ratio),
        ..row(
            figure,
            "ms",
            1e3 * mean(&each(&measured.runs, of)),
            Bar::RatioAtMost(most),
        )
    };
    let (limit, ratios, bar) = (measured.limit, measured.ratio, condition.bar);
    let mut rows = vec![
        ratio("mean", |run| run.mean, limit.0, ratios.0, bar.0),
        ratio("99th percentile", |run| run.p99, limit.1, ratios.1, bar.1),
    ];
    let mut worst = |figure: &str, unit: &str, of: fn(&Outcome) -> f64, most: f64| {
        let worst = each(&measured.runs, of).into_iter().fold(0.0, f64::max);
        rows.push(row(figure, unit, worst, Bar::AtMost(most)));
    };
    let scenario = condition.scenario();
    let incidents = &scenario.incidents;
    let is_any = |of: fn(&What) -> bool| incidents.iter().any(|it| of(&it.what));
    if is_any(|it| matches!(it, What::Freeze | What::Death | What::Stuck)) {
        // One that is stuck comes back at once, and may be given something, and evicted, again.
        let exposed = |run: &Outcome| run.moved.div_ceil(run.stalls.max(1)) as f64;
        worst("exposed", "messages", exposed, 2.0);
        worst("resent after", "s", |run| run.moved_after, 2.2);
    }
    if is_any(|it| matches!(it, What::Crash | What::Cut)) {
        let twice = |run: &Outcome| run.processed_twice as f64;
        worst("duplicates", "messages", twice, 2.0);
        let unflagged = |run: &Outcome| run.unflagged as f64;
        worst("duplicates not flagged", "messages", unflagged, 0.0);
    }
    if !incidents.is_empty() {
        worst("lost", "messages", |run| run.lost as f64, 0.0);
    }
    if scenario.ordered.is_some() {
        let inversions = |run: &Outcome| run.inversions as f64;
        worst("inversions", "messages", inversions, 0.0);
    }
    rows
}

/// `figures.toml`.
#[derive(Deserialize)]
struct Figures {
    rule: Vec<Row>,
    study: Vec<Row>,
}

fn figures() -> Figures {
    toml::from_str(include_str!("figures.toml")).expect("it is read by the tests")
}

/// Enters what we have; not a number where a figure is not one of these, which misses every bar.
fn enter(mut rows: Vec<Row>, ours: &[(String, f64)]) -> Vec<Row> {
    for row in &mut rows {
        let mut found = ours.iter().filter(|(id, _)| *id == row.id);
        row.ours = found.next().map_or(f64::NAN, |(_, ours)| *ours);
    }
    rows
}

/// What is not a ratio to the limit.
pub fn rules(messages: usize) -> Vec<Row> {
    let mut ours = Vec::new();
    let mut put = |id: &str, value: f64| ours.push((id.to_owned(), value));
    for (when, acks) in [("pubcomp", Acks::Processed), ("pubrec", Acks::Recorded)] {
        let got = run(&exactly_once(acks), Adaptive);
        put(&format!("{when} moved"), got.moved as f64);
        put(&format!("{when} exposed"), got.exposed as f64);
    }
    let idle = Reports::Idle(0.1);
    for (id, liars, reports) in [
        ("one idle", 1, idle),
        ("two idle", 2, idle),
        ("one wild", 1, Reports::Wild(0.1)),
    ] {
        let mut scenario = Scenario::base(0.6, 10, 2.0).at_most_once(Reports::Every(1.0));
        let members = scenario.workers.iter_mut().take(liars);
        members.for_each(|liar| liar.reports = reports);
        let shares = run(&scenario, Adaptive).shares;
        let fair = shares.iter().sum::<usize>() as f64 / shares.len() as f64;
        let most = shares.iter().take(liars).max();
        put(id, most.copied().unwrap_or_default() as f64 / fair);
    }
    for (id, load, ratio) in [("silent equal", 0.8, 1.0), ("silent uneven", 0.5, 2.0)] {
        let scenario = Scenario::base(load, 10, ratio).at_most_once(Reports::Never);
        let [turn, ours] = [RoundRobin, Adaptive].map(|it| run(&scenario, it).mean);
        put(id, ours / turn);
    }
    let seconds = if messages >= 100_000 { 600.0 } else { 10.0 };
    let got = run(&churn(1000.0, seconds), Adaptive);
    put("churn idle", 1e3 * got.idle_while_waiting);
    put("churn lost", got.lost as f64);
    let mut rows = enter(figures().rule, &ours);
    for row in &mut rows {
        row.condition = row.condition.replace("{}", &seconds.to_string());
    }
    rows
}

/// The study's shapes, with so many runs each.
pub fn study(runs: u64) -> Vec<Row> {
    let mut ours = Vec::new();
    let mut put = |id: &str, value: f64| ours.push((id.to_owned(), value));
    let runs_of = |strategy: GroupStrategy, scenario: &dyn Fn(u64) -> Scenario| {
        let seeds = 101..101 + runs;
        let runs = seeds.map(|seed| run(&scenario(seed), strategy));
        runs.collect::<Vec<Outcome>>()
    };
    let waits = |runs: &[Outcome]| each(runs, |run| run.wait_mean * 1e3);

    let one_waits = |strategy| {
        waits(&runs_of(strategy, &|seed| {
            one(PERIOD, thesis::REPORTS, seed)
        }))
    };
    let [turn, score, adaptive, random] = [RoundRobin, Score, Adaptive, Random].map(one_waits);
    put("one score", furthest(&score, &turn));
    put("one adaptive", furthest(&adaptive, &turn));
    put("one random", -most(&differences(&turn, &random)));

    let two_runs = |strategy, seen, period| runs_of(strategy, &|seed| two(period, seen, seed));
    let [turn, score, random, adaptive] = [RoundRobin, Score, Random, Adaptive]
        .map(|strategy| two_runs(strategy, thesis::REPORTS, PERIOD));
    let (turn_waits, score_waits) = (waits(&turn), waits(&score));
    let pairs = score_waits.iter().zip(&turn_waits);
    let parts: Vec<f64> = pairs.map(|(score, turn)| score / turn).collect();
    put("two turn", mean(&turn_waits));
    put("two below", 100.0 * (1.0 - most(&parts)));
    put("two score", mean(&score_waits));
    put("two random", mean(&waits(&random)));
    let of_member = |runs: &[Outcome], member, of: fn(Steady) -> f64| {
        let of = runs.iter().map(|run| of(steady(run, member)));
        of.collect::<Vec<f64>>()
    };
    put("two turn slow", mean(&of_member(&turn, 2, |it| it.mean)));

    for (member, middle) in [40.0, 40.0, 20.0].into_iter().enumerate() {
        let shares = of_member(&score, member, |it| it.messages as f64 / 5.0);
        let off = |it: &f64| (it - middle).abs();
        let worst = shares.into_iter().max_by(|a, b| off(a).total_cmp(&off(b)));
        put(&format!("share {member}"), worst.unwrap_or(f64::NAN));
        let waits = of_member(&score, member, |it| it.mean);
        put(&format!("wait {member}"), most(&waits));
    }
    let longest = of_member(&score, 2, |it| it.longest);
    put("longest", most(&longest));
    let within = longest.iter().filter(|it| **it <= 120.0).count();
    let part = within as f64 / longest.len() as f64;
    put("longest within", 100.0 * part);

    put("closed form", closed_form());

    for (id, strategy) in [("pings score", Score), ("pings adaptive", Adaptive)] {
        let all = PINGS.map(|every| {
            mean(&waits(&two_runs(
                strategy,
                (Reliability::AtMostOnce, Reports::Every(every)),
                PERIOD,
            )))
        });
        put(id, most(&differences(&all, &all[1..])));
    }
    let [first, second] = [0, 1].map(|member| of_member(&adaptive, member, |it| it.mean));
    put("equal speed", furthest(&first, &second));
    let gain = |of: &dyn Fn(u64) -> Scenario| {
        let [adaptive, score] = [Adaptive, Score].map(|it| waits(&runs_of(it, of)));
        -most(&differences(&adaptive, &score))
    };
    let burst = |seed| two(CELL, thesis::REPORTS, seed).with(What::Burst(100), 0, 7.3, 0.0);
    put("burst", gain(&burst));
    let slowed = |seed| one(CELL, thesis::REPORTS, seed).with(What::Slow(4.0), 1, 5.0, 5.0);
    put("slowed", gain(&slowed));

    let silent = two(PERIOD, thesis::SILENT, 101);
    let order = |strategy| {
        let taken = run(&silent, strategy).taken.into_iter();
        taken.map(|(at, _)| at).collect::<Vec<_>>()
    };
    let expected = order(RoundRobin);
    for (id, strategy) in [("order score", Score), ("order adaptive", Adaptive)] {
        let taken = order(strategy);
        let off = taken.iter().zip(&expected).filter(|(a, b)| a != b).count();
        put(id, off as f64);
    }

    for period in [PERIOD, PERIOD_OF_TABLE_7] {
        for (seen, name) in [
            (thesis::REPORTS, "reports"),
            (thesis::EVENTS, "events"),
            (thesis::ACKNOWLEDGES, "acknowledges"),
        ] {
            let waits = waits(&two_runs(Adaptive, seen, period));
            put(&format!("{:.2} {name}", period * 1e3), mean(&waits));
        }
    }
    enter(figures().study, &ours)
}

fn each(runs: &[Outcome], of: impl Fn(&Outcome) -> f64) -> Vec<f64> {
    runs.iter().map(of).collect()
}

fn mean(all: &[f64]) -> f64 {
    all.iter().sum::<f64>() / all.len().max(1) as f64
}

fn most(all: &[f64]) -> f64 {
    all.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

fn differences(first: &[f64], second: &[f64]) -> Vec<f64> {
    first.iter().zip(second).map(|(a, b)| a - b).collect()
}

/// How far two of a pair are apart at the most.
fn furthest(first: &[f64], second: &[f64]) -> f64 {
    let differences = differences(first, second);
    differences.iter().map(|it| it.abs()).fold(0.0, f64::max)
}

/// Intervals of reports, in seconds.
const PINGS: [f64; 8] = [0.1, 0.2, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0];
/// The period of the burst and slow-down cells: what a group that is not full can show.
const CELL: f64 = 0.0125;

/// How far the waits of the slow member's messages are from k(50 - 3d) under round robin, in milliseconds.
pub fn closed_form() -> f64 {
    let mut scenario = two(PERIOD, thesis::REPORTS, 101);
    (scenario.arrivals, scenario.law) = (Arrivals::Periodic, Law::Deterministic);
    if let Some(slow) = scenario.workers.last_mut() {
        slow.mean = 0.050;
    }
    let taken = run(&scenario, RoundRobin).taken.into_iter();
    let waits = taken.filter(|(at, wait)| *at == 2 && wait.is_finite());
    let off = waits
        .enumerate()
        .map(|(k, (_, wait))| (wait - k as f64 * (0.050 - 3.0 * PERIOD)).abs());
    off.fold(0.0, f64::max) * 1e3
}
