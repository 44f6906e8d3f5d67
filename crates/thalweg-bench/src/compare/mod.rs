//! Two folders of results side by side: what changed, and whether it is more than noise.
//!
//! *Knows:* figures by name, statistics. *Must never know:* how anything was measured.
//!
//! ```text
//!  base, new ──> points that both have ──> figures ──> Welch on logarithms, Holm over all of them ──> verdict
//!                                                 └──> counts: exactly
//! ```
//!
//! A figure is **better** or **worse** if all three hold: the difference is no chance (p below 0.05 after Holm's correction for
//! everything that is compared), it is large beside the spread (Hedges' g of at least 1), and the two are not equal within the
//! margin. **Equal** is said only if two one-sided tests show it within the margin (10 %). What is neither is **unclear**: more
//! repeats would tell. Counts (losses, repetitions …) have no noise to hide in: they are equal if all repeats of both sides
//! have the same count; better or worse if the ranges do not meet, or if there were none at all before; else unclear.
//!
//! Where five runs before are given ([`history`]), p and the distance are beside what runs differ by, not repeats.

pub mod command;
pub mod history;

use std::collections::BTreeMap;

use clap::ValueEnum;
use history::Run;
use serde::Serialize;
use serde_json::Value;

use crate::cell::{Cell, Row, valid};
use crate::results::metric::{Better, Metric, Unit};
use crate::stats::{Interval, hedges_g, holm, logs, median, median_interval, tost_ratio, welch};

/// What became of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Worse, and not by chance.
    Worse,
    /// Better, and not by chance.
    Better,
    /// Different, where neither direction is better.
    Changed,
    /// It cannot be said.
    Unclear,
    /// Shown to be equal within the margin.
    Equal,
}

/// A figure of a point in both folders.
#[derive(Clone, Debug)]
pub struct Change {
    pub point: String,
    pub metric: &'static Metric,
    /// Median with its interval (95 %, bootstrap) where there are two repeats, before.
    pub base: (f64, Option<Interval>),
    pub new: (f64, Option<Interval>),
    pub counts: (usize, usize),
    pub ratio: Option<f64>,
    /// How likely it is chance, after Holm.
    pub p: Option<f64>,
    /// Hedges' g; with a history, the distance from the runs before in their standard deviations.
    pub effect: Option<f64>,
    /// With a history: since which run it is as it is now, if it is another.
    pub since: Option<String>,
    /// What became of it.
    pub verdict: Verdict,
}

#[derive(Clone, Debug, Default)]
pub struct Comparison {
    /// Figures of points that both have.
    pub changes: Vec<Change>,
    /// Points with valid trials in the base only.
    pub gone: Vec<String>,
    /// In the new one only.
    pub added: Vec<String>,
}

/// Compares these figures of all points that have valid trials on both sides; `margin` is what counts as equal (0.1), `past` are
/// runs before the base, oldest first.
pub fn compare(
    base: &[(Cell, Row)],
    new: &[(Cell, Row)],
    past: &[Run],
    metrics: &[&'static Metric],
    margin: f64,
    seed: u64,
) -> Comparison {
    let (base, new) = (points(base), points(new));
    let lacking = |here: &Points<'_>, there: &Points<'_>| {
        let names = here.keys().filter(|name| !there.contains_key(*name));
        names.cloned().collect()
    };
    let mut found = Comparison {
        gone: lacking(&base, &new),
        added: lacking(&new, &base),
        ..Comparison::default()
    };
    let mut drafts = Vec::new();
    for (name, before) in &base {
        let Some(after) = new.get(name) else { continue };
        for metric in metrics {
            let of = |trials: &[&(Cell, Row)]| -> Vec<f64> {
                trials
                    .iter()
                    .filter_map(|(cell, row)| (metric.of)(cell, row))
                    .collect()
            };
            let (before, after) = (of(before), of(after));
            if !before.is_empty() && !after.is_empty() {
                let past = history::series(past, name, metric);
                drafts.push(Draft {
                    point: name.clone(),
                    metric,
                    before,
                    after,
                    past,
                });
            }
        }
    }
    // Of counts nothing is tested; they must not cost the others anything.
    let tested: Vec<Option<f64>> = drafts.iter().map(Draft::p).collect();
    let adjusted = holm(&tested.iter().flatten().copied().collect::<Vec<_>>());
    let mut adjusted = adjusted.into_iter();
    for (draft, tested) in drafts.into_iter().zip(tested) {
        let p = tested.and_then(|_| adjusted.next());
        found.changes.push(draft.judged(p, margin, seed));
    }
    found
}

/// Keys of `run.json` in which the runs differ besides: those who compare must know.
pub fn circumstances(base: &Value, new: &Value) -> Vec<(String, String, String)> {
    let keys = [
        "version",
        "commit",
        "program_hash",
        "broker_hash",
        "is_optimised",
        "systems",
        "scenario_hash",
        "kernel",
        "cpu",
        "cores",
        "governor",
        "virtual_machine",
        "sysctls",
    ];
    let differing = keys.into_iter().filter(|key| base[*key] != new[*key]);
    let told = |key| {
        (
            String::from(key),
            base[key].to_string(),
            new[key].to_string(),
        )
    };
    differing.map(told).collect()
}

struct Draft {
    point: String,
    metric: &'static Metric,
    before: Vec<f64>,
    after: Vec<f64>,
    /// Runs before the base.
    past: Vec<(String, f64)>,
}

impl Draft {
    /// How far it is from all runs before, where there are enough: p and standard deviations of runs.
    fn further(&self) -> Option<(f64, f64)> {
        let runs: Vec<f64> = self
            .past
            .iter()
            .map(|(_, value)| *value)
            .chain(median(&self.before))
            .collect();
        (self.past.len() >= history::RUNS_MIN)
            .then(|| history::further(&runs, median(&self.after)?))?
    }

    /// Chance of such a difference; none for counts and single trials.
    fn p(&self) -> Option<f64> {
        if self.metric.unit == Unit::Count {
            return None;
        }
        if let Some((p, _)) = self.further() {
            return Some(p);
        }
        match (logs(&self.before), logs(&self.after)) {
            (Some(before), Some(after)) => welch(&before, &after),
            _ => welch(&self.before, &self.after),
        }
        .map(|found| found.p)
    }

    fn judged(self, p: Option<f64>, margin: f64, seed: u64) -> Change {
        let further = self.further();
        let Draft {
            point,
            metric,
            before,
            after,
            past,
        } = self;
        let middle = |numbers: &[f64]| {
            (
                median(numbers).unwrap_or_default(),
                median_interval(numbers, 0.95, seed),
            )
        };
        let (base, new) = (middle(&before), middle(&after));
        let effect = further
            .map(|(_, far)| far)
            .or_else(|| hedges_g(&before, &after));
        let verdict = match metric.unit {
            Unit::Count => exactly(metric, &before, &after),
            _ => {
                let is_equal = before == after && before.len() > 1
                    || tost_ratio(&before, &after, margin).is_some_and(|p| p < 0.05);
                // No spread at all and a difference: nothing is larger beside it.
                let is_large = effect.map_or(p.is_some_and(|p| p < 1e-9), |effect| {
                    effect.abs() >= EFFECT_MIN
                });
                match () {
                    () if is_equal => Verdict::Equal,
                    () if p.is_some_and(|p| p < 0.05) && is_large => {
                        direction(metric, new.0 - base.0)
                    }
                    () => Verdict::Unclear,
                }
            }
        };
        let ratio = (base.0 != 0.0).then(|| new.0 / base.0);
        let is_other = further.is_some() && verdict < Verdict::Unclear;
        let series: Vec<_> = past
            .into_iter()
            .chain([
                ("the base".to_owned(), base.0),
                ("the new one".to_owned(), new.0),
            ])
            .collect();
        let since = is_other
            .then(|| history::since(&series).map(str::to_owned))
            .flatten();
        Change {
            point,
            metric,
            base,
            new,
            counts: (before.len(), after.len()),
            ratio,
            p,
            effect,
            since,
            verdict,
        }
    }
}

fn direction(metric: &Metric, difference: f64) -> Verdict {
    match (metric.better, difference > 0.0) {
        (Better::Neither, _) => Verdict::Changed,
        (Better::Higher, true) | (Better::Lower, false) => Verdict::Better,
        (Better::Higher, false) | (Better::Lower, true) => Verdict::Worse,
    }
}

/// Counts as they are.
fn exactly(metric: &Metric, before: &[f64], after: &[f64]) -> Verdict {
    let range = |numbers: &[f64]| {
        (
            numbers.iter().copied().fold(f64::INFINITY, f64::min),
            numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        )
    };
    let (old, new) = (range(before), range(after));
    match () {
        () if old == new && old.0 == old.1 => Verdict::Equal,
        () if new.0 > old.1 || (old == (0.0, 0.0) && new.1 > 0.0) => direction(metric, 1.0),
        () if new.1 < old.0 || (new == (0.0, 0.0) && old.1 > 0.0) => direction(metric, -1.0),
        () => Verdict::Unclear,
    }
}

/// Valid trials by point.
type Points<'t> = BTreeMap<String, Vec<&'t (Cell, Row)>>;

fn points(trials: &[(Cell, Row)]) -> Points<'_> {
    let mut points = Points::new();
    for trial in valid(trials) {
        let name = format!("{} {}", trial.0.experiment, trial.0.point());
        let name = name.trim().to_owned();
        points.entry(name).or_default().push(trial);
    }
    points
}

/// A difference of less than the spread is not worth an alarm.
const EFFECT_MIN: f64 = 1.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::Standing;
    use crate::results::metric::metric;
    use crate::results::tests::{cell, measured};
    use crate::sim::random::Random;

    /// Repeats of a point with medians about `middle`, some percent apart.
    fn trials(axis: &str, middle: f64, spread: f64, seed: u64, repeats: u32) -> Vec<(Cell, Row)> {
        let mut random = Random::new(seed);
        let mut row = |_| {
            let mut row = measured(1).row;
            row.response.p50 = middle * (1.0 + spread * random.normal());
            row
        };
        (0..repeats)
            .map(|repeat| (cell(axis, repeat), row(repeat)))
            .collect()
    }

    fn of(base: &[(Cell, Row)], new: &[(Cell, Row)], past: &[Run], name: &str) -> Comparison {
        compare(base, new, past, &[metric(name).expect("a figure")], 0.1, 1)
    }

    fn verdict(base: &[(Cell, Row)], new: &[(Cell, Row)], name: &str) -> Verdict {
        let found = of(base, new, &[], name);
        assert_eq!(found.changes.len(), 1);
        found.changes[0].verdict
    }

    #[test]
    fn a_change_is_told_from_noise() {
        let base = trials("60B", 100.0, 0.02, 1, 5);
        for (middle, spread, repeats, expected) in [
            (130.0, 0.02, 5, Verdict::Worse),
            (70.0, 0.02, 5, Verdict::Better),
            (100.5, 0.02, 5, Verdict::Equal),
            // Too much noise, and one repeat.
            (104.0, 0.3, 5, Verdict::Unclear),
            (130.0, 0.02, 1, Verdict::Unclear),
        ] {
            let new = trials("60B", middle, spread, 5, repeats);
            let found = verdict(&base, &new, "p50");
            assert_eq!(found, expected, "{middle} {spread} {repeats}");
        }
        assert_eq!(verdict(&base, &base.clone(), "p50"), Verdict::Equal);
    }

    #[test]
    fn equal_runs_are_hardly_ever_called_worse() {
        let mut alarms = 0;
        for seed in 0..100 {
            let side = |seed: u64| -> Vec<(Cell, Row)> {
                (0..10)
                    .flat_map(|point| trials(&point.to_string(), 100.0, 0.2, seed * 31 + point, 5))
                    .collect()
            };
            let found = of(&side(seed), &side(seed + 1000), &[], "p50");
            assert_eq!(found.changes.len(), 10);
            alarms += usize::from(
                found
                    .changes
                    .iter()
                    .any(|change| matches!(change.verdict, Verdict::Worse | Verdict::Better)),
            );
        }
        assert!(
            alarms <= 11,
            "{alarms} of 100 comparisons of ten points: 5 are to be expected"
        );
    }

    #[test]
    fn counts_are_compared_exactly() {
        let with = |lost: [u64; 3]| -> Vec<(Cell, Row)> {
            let row = |(repeat, lost): (usize, &u64)| {
                let mut row = measured(1).row;
                row.lost = *lost;
                (cell("60B", repeat as u32), row)
            };
            lost.iter().enumerate().map(row).collect()
        };
        for (base, new, expected) in [
            ([0, 0, 0], [0, 0, 0], Verdict::Equal),
            // One of what must not be.
            ([0, 0, 0], [0, 1, 0], Verdict::Worse),
            ([3, 1, 2], [0, 0, 0], Verdict::Better),
            ([3, 1, 2], [2, 4, 1], Verdict::Unclear),
            ([3, 1, 2], [5, 4, 9], Verdict::Worse),
        ] {
            let found = verdict(&with(base), &with(new), "lost");
            assert_eq!(found, expected, "{base:?} {new:?}");
        }
    }

    #[test]
    fn points_that_one_side_has_not_are_told_and_bytes_without_noise_are_exact() {
        let mut base = trials("60B", 100.0, 0.02, 1, 3);
        base.extend(trials("2kB", 100.0, 0.02, 2, 3));
        let mut new = trials("60B", 100.0, 0.02, 3, 3);
        new.extend(trials("4kB", 100.0, 0.02, 4, 3));
        new[0].1.standing = Standing::Invalid("late".to_owned());
        for (_, row) in &mut new {
            row.wire_bytes = row.wire_bytes.map(|bytes| bytes + bytes / 5);
        }
        let found = of(&base, &new, &[], "bytes_per_msg");
        assert_eq!(
            (found.gone, found.added),
            (
                vec!["test size=2kB".to_owned()],
                vec!["test size=4kB".to_owned()]
            )
        );
        let change = &found.changes[0];
        assert_eq!((change.counts, change.verdict), ((3, 2), Verdict::Worse));
        assert!(change.ratio.is_some_and(|ratio| (ratio - 1.2).abs() < 1e-3));
    }

    #[test]
    fn what_runs_differ_by_decides_where_there_are_runs_before() {
        let run = |name: &str, middle: f64, seed: u64| Run {
            name: name.to_owned(),
            results: crate::results::Results {
                about: Value::Null,
                trials: trials("60B", middle, 0.01, seed, 3),
            },
        };
        // Days differ by some 20 %, repeats of a day by 1 %.
        let past = [100.0, 118.0, 91.0, 109.0, 83.0, 104.0]
            .map(|middle| run("before", middle, middle as u64));
        let base = trials("60B", 100.0, 0.01, 1, 3);
        let judged = |past: &[Run], middle: f64| {
            let new = trials("60B", middle, 0.01, 2, 3);
            let found = of(&base, &new, past, "p50");
            (found.changes[0].verdict, found.changes[0].since.clone())
        };
        let since = || Some("the new one".to_owned());
        for (runs, middle, expected) in [
            // By its repeats.
            (0, 120.0, (Verdict::Worse, None)),
            // There were days like that.
            (6, 120.0, (Verdict::Unclear, None)),
            (6, 200.0, (Verdict::Worse, since())),
            // Four runs tell nothing about runs.
            (4, 120.0, (Verdict::Worse, None)),
        ] {
            let found = judged(&past[..runs], middle);
            assert_eq!(found, expected, "{runs} runs, {middle}");
        }
    }
}
