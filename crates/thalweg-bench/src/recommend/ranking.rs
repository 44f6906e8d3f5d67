//! Candidates in their order, with ties.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::RecommendArgs;
use super::axes::{Axis, Point, short};
use super::capability;
use super::choice::Choice;
use super::field::{Field, Figure};
use super::measure::{Metric, time};
use super::refusal::{Gap, Lack, Refusal};
use super::sources::{About, Source, SourceKind};
use super::turn::{self, Turn};
use crate::cell::valid;
use crate::stats::normal_cdf;
use clap::ValueEnum;
use serde::Serialize;

/// A choice, and what it is expected to take.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// What would be chosen, and its place in the field.
    pub choice: Choice,
    at: usize,
    /// All that is known of it at the point.
    pub figures: Figures,
    /// The logarithm of what it costs by the objective, and half of its 95 % interval.
    pub cost: (f64, f64),
    /// Against the best one.
    pub standing: Standing,
}

/// What is known of a choice at a point.
pub type Figures = BTreeMap<Metric, Figure>;

/// How a candidate compares with the best one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// It is the best.
    Best,
    /// Shown to differ by less than 10 % (two one-sided tests at 5 %).
    Equal,
    /// The intervals overlap: neither better nor equal is shown.
    NotToldApart,
    Worse,
}

/// Candidates, the best first.
#[derive(Clone, Debug)]
pub struct Ranking {
    pub source: About,
    /// How many trials of it count, and how many do not.
    pub valid: (usize, usize),
    pub point: Point,
    /// What of it was not asked for.
    pub assumed: Vec<(Axis, f64)>,
    /// What was weighed, and how much.
    pub goals: Vec<(Metric, f64)>,
    /// What was not weighed, because it is not known of all.
    pub not_weighed: Vec<String>,
    pub candidates: Vec<Candidate>,
    /// What was measured and left out, and why.
    pub left_out: Vec<(String, String)>,
    /// What was measured, but not around this point.
    pub outside: Vec<String>,
    /// How sure it is that the best is better than the next; none for a tie or one candidate.
    pub confidence: Option<Confidence>,
    /// The nearest change that turns the order.
    pub turn: Option<Turn>,
    /// Along which axes, and how far, a turn was looked for.
    pub searched: Vec<(Axis, f64, f64)>,
    /// Other data that could have answered, by name.
    pub others: Vec<String>,
}

/// How sure it is that one candidate is better than another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Confidence {
    /// By the spread of repeats alone; none where too few are there to have a spread.
    pub probability: Option<f64>,
    pub level: Level,
    /// Trials at the point with the fewest of them, of both candidates.
    pub repeats_least: usize,
}

/// A confidence in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Level {
    /// Below 80 %, or not enough is known to say a number.
    Low,
    Medium,
    /// From 95 % on, with three repeats at least everywhere and nothing assumed.
    High,
}

/// Differences below are none.
pub const MARGIN: f64 = 0.10;

/// Ranks what can be estimated, in the field in which most can.
pub fn rank(
    query: &RecommendArgs,
    fields: &[Field],
    sources: &[Source],
) -> Result<Ranking, Refusal> {
    let mut rankings: Vec<Ranking> = Vec::new();
    let mut gaps = Vec::new();
    // Who wants to know how much is carried does not look at loads that were offered as long as there were floods.
    let wants_flood = query.wants(Metric::Throughput);
    for field in fields.iter().filter(|it| wants_flood || !it.is_flood) {
        match rank_in(query, field, &sources[field.source]) {
            Ok(ranking) => rankings.push(ranking),
            Err(more) => gaps.extend(more),
        }
    }
    let weight = |it: &Ranking| {
        let measured = it.source.kind == SourceKind::Measured;
        let flood = wants_flood && it.point.on(Axis::Rate) == 0.0;
        let count = it.candidates.len();
        (
            flood,
            count.min(2),
            measured,
            count,
            it.source.finished_unix_s,
        )
    };
    // The first of equals stays first: sources are in the order in which they were given.
    rankings.sort_by_key(|it| Reverse(weight(it)));
    let mut rankings = rankings.into_iter();
    let Some(mut best) = rankings.next() else {
        return Err(Refusal::new(query, gaps, fields.is_empty()));
    };
    let others = rankings.map(|it| it.source.name);
    best.others = others.filter(|name| *name != best.source.name).collect();
    best.others.dedup();
    Ok(best)
}

fn rank_in(query: &RecommendArgs, field: &Field, source: &Source) -> Result<Ranking, Vec<Gap>> {
    let mut left_out = Vec::new();
    let mut open = Vec::new();
    for (at, choice) in field.choices.iter().enumerate() {
        // What a protocol cannot do is said once for all of its choices.
        let mut legs = [choice.publish, choice.subscribe].into_iter();
        if !legs.all(|leg| capability::obstacles(capability::spoken(&leg), query).is_empty()) {
            continue;
        }
        match obstacle(query, choice) {
            Some(why) => left_out.push((choice.name(), why)),
            None => open.push(at),
        }
    }
    let goals = goals(query, field, &open);
    let Some((leading, (point, assumed))) = goals.first().and_then(|(leading, _)| {
        let point = field.point(|axis| query.on(axis), *leading)?;
        Some((*leading, point))
    }) else {
        return Err(Vec::new());
    };
    let mut candidates = Vec::new();
    let mut gaps = Vec::new();
    for at in open {
        let choice = field.choices[at].clone();
        let Some(cost) = cost(field, at, &point, &goals, query.extrapolate) else {
            gaps.push(Gap::outside(query, source, field, at, &point, leading));
            continue;
        };
        let figure = |it: &Metric| Some((*it, field.figure(at, *it, &point, query.extrapolate)?));
        let figures = Metric::value_variants().iter().filter_map(figure).collect();
        match breach(query, &figures, &point) {
            Some((lack, why)) => gaps.push(Gap {
                source: source.about.name.clone(),
                choice: choice.name(),
                lack,
                why,
            }),
            None => candidates.push(Candidate {
                choice,
                at,
                figures,
                cost,
                standing: Standing::Best,
            }),
        }
    }
    if candidates.is_empty() {
        return Err(gaps);
    }
    candidates.sort_by(|a, b| {
        let by_cost = a.cost.0.total_cmp(&b.cost.0);
        by_cost.then_with(|| a.choice.key().cmp(&b.choice.key()))
    });
    let best = candidates[0].cost;
    for candidate in &mut candidates[1..] {
        candidate.standing = standing(best, candidate.cost);
    }
    let next = candidates.get(1);
    let confidence = next
        .filter(|next| next.standing == Standing::Worse)
        .map(|next| {
            let both = [&candidates[0].figures, &next.figures].into_iter();
            let weighed = both.flat_map(|of| goals.iter().filter_map(|(goal, _)| of.get(goal)));
            Confidence::new(best, next.cost, weighed)
        });
    let places: Vec<usize> = candidates.iter().map(|it| it.at).collect();
    let (turn, searched) = turn::find(field, &point, &places, &goals);
    let mut not_weighed = query.goals();
    not_weighed.retain(|(metric, _)| !goals.iter().any(|(goal, _)| goal == metric));
    let (outside, breaches): (Vec<Gap>, Vec<Gap>) =
        gaps.into_iter().partition(|gap| gap.lack.is_outside());
    left_out.extend(breaches.into_iter().map(|gap| (gap.choice, gap.why)));
    let count = valid(&source.trials).count();
    Ok(Ranking {
        source: source.about.clone(),
        valid: (count, source.trials.len() - count),
        point,
        assumed,
        goals,
        not_weighed: not_weighed
            .iter()
            .map(|(metric, _)| metric.name())
            .collect(),
        candidates,
        left_out,
        outside: outside.iter().map(Gap::words).collect(),
        confidence,
        turn,
        searched,
        others: Vec::new(),
    })
}

/// Why a choice does not come into question, though its protocol does, whatever was measured.
fn obstacle(query: &RecommendArgs, choice: &Choice) -> Option<String> {
    match &query.system {
        Some(system) if *system != choice.system => Some(format!("only {system} is wanted")),
        _ => capability::obstacle(choice, &query.needs).map(str::to_owned),
    }
}

/// What can be weighed: of a mean of several what is known of all, of a latency the mean or else a percentile.
fn goals(query: &RecommendArgs, field: &Field, open: &[usize]) -> Vec<(Metric, f64)> {
    let known = |metric| open.iter().filter(|at| field.has(**at, metric)).count();
    let mut goals = query.goals();
    if query.is_balanced() {
        let most = goals.iter().map(|(metric, _)| known(*metric)).max();
        goals.retain(|(metric, _)| known(*metric) > 0 && Some(known(*metric)) == most);
        return goals;
    }
    for (metric, _) in &mut goals {
        if *metric == Metric::Latency && known(*metric) == 0 {
            let percentiles = [Metric::LatencyP90, Metric::LatencyP99];
            let instead = percentiles.into_iter().find(|it| known(*it) > 0);
            *metric = instead.unwrap_or(*metric);
        }
    }
    goals
}

/// The weighted logarithm of what a choice takes at a point, and half of its interval.
pub fn cost(
    field: &Field,
    choice: usize,
    point: &Point,
    goals: &[(Metric, f64)],
    stretch: bool,
) -> Option<(f64, f64)> {
    let (mut sum, mut square, mut weights) = (0.0, 0.0, 0.0);
    for (metric, weight) in goals {
        let figure = field.figure(choice, *metric, point, stretch)?;
        sum += weight * metric.cost(figure.value);
        square += (weight * figure.half).powi(2);
        weights += weight;
    }
    (weights > 0.0).then(|| (sum / weights, square.sqrt() / weights))
}

/// The constraint that a candidate breaks, or cannot be shown to keep.
fn breach(query: &RecommendArgs, figures: &Figures, point: &Point) -> Option<(Lack, String)> {
    let unknown = |words: &str| Some((Lack::Unproven, words.to_owned()));
    let of = |metric: Metric| figures.get(&metric).map(|figure| figure.value);
    if let Some(most) = query.p99_max {
        let wanted = most.as_secs_f64() * 1e6;
        match of(Metric::LatencyP99) {
            Some(value) if value <= wanted => {}
            Some(value) => {
                let (value, wanted) = (time(value), time(wanted));
                let words = format!("99 % arrive within {value}, wanted {wanted}");
                return Some((Lack::Broken, words));
            }
            None => {
                return unknown(
                    "its 99th percentile is not known, so that the bound cannot be shown to hold",
                );
            }
        }
    }
    let bandwidth = query.bandwidth? as f64;
    let (rate, pairs) = (point.on(Axis::Rate), point.on(Axis::Pairs));
    if rate == 0.0 {
        return unknown("how much it takes at a rate is not known");
    }
    let copies = point.on(Axis::FanOut).max(1.0);
    let (bytes, least) = match of(Metric::Bytes) {
        Some(bytes) => (bytes, ""),
        None => (2.0 * point.on(Axis::Payload), "at least "),
    };
    let needed = 8.0 * bytes * rate * pairs * copies;
    if needed > bandwidth {
        let (needed, bandwidth) = (short(needed / 1e3), short(bandwidth / 1e3));
        let words = format!("it needs {least}{needed} kbit/s of {bandwidth}");
        return Some((Lack::Broken, words));
    }
    match of(Metric::Bytes) {
        Some(_) => None,
        None => unknown("its bytes are not known, so that the bandwidth cannot be shown to do"),
    }
}

/// How a cost compares with the best one; both are logarithms with half of their intervals.
pub fn standing(best: (f64, f64), other: (f64, f64)) -> Standing {
    let difference = (other.0 - best.0).abs();
    let half = best.1.hypot(other.1);
    // Two one-sided tests at 5 % are an interval of 90 %.
    if difference + half * ONE_SIDED < (1.0 + MARGIN).ln() {
        Standing::Equal
    } else if difference <= half {
        Standing::NotToldApart
    } else {
        Standing::Worse
    }
}

impl Confidence {
    /// That the first cost is below the second, which rest on these figures.
    fn new<'a>(
        best: (f64, f64),
        next: (f64, f64),
        figures: impl Iterator<Item = &'a Figure>,
    ) -> Confidence {
        let (mut repeats_least, mut is_assumed) = (usize::MAX, false);
        for figure in figures {
            repeats_least = repeats_least.min(figure.repeats_least);
            is_assumed |= figure.is_assumed || figure.is_stretched;
        }
        // One repeat has no spread, and two that agree by chance have next to none: no number comes of that.
        let is_told = repeats_least >= REPEATS_MIN && !is_assumed;
        let probability = is_told.then(|| probability(best, next));
        let level = match probability {
            Some(HIGH..) => Level::High,
            Some(MEDIUM..) => Level::Medium,
            _ => Level::Low,
        };
        Confidence {
            probability,
            level,
            repeats_least,
        }
    }
}

/// The probability that a difference of this size is one, from normal errors.
fn probability(best: (f64, f64), next: (f64, f64)) -> f64 {
    let deviation = best.1.hypot(next.1) / 1.96;
    if deviation <= 0.0 {
        return 1.0;
    }
    normal_cdf((next.0 - best.0) / deviation)
}

/// Fewer repeats at any point give no confidence.
pub const REPEATS_MIN: usize = 3;
/// Probabilities from which a confidence is medium, and high.
const MEDIUM: f64 = 0.80;
const HIGH: f64 = 0.95;
/// A 90 % interval in terms of a 95 % one.
const ONE_SIDED: f64 = 1.645 / 1.96;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_is_what_is_shown_to_be_and_a_wide_interval_is_no_proof() {
        for (best, other, expected) in [
            ((0.0, 0.01), (0.02, 0.01), Standing::Equal),
            // Significantly different, but by less than matters.
            ((0.0, 0.001), (0.05, 0.001), Standing::Equal),
            ((0.0, 0.1), (0.126, 0.1), Standing::NotToldApart),
            ((0.0, 0.1), (0.05, 0.1), Standing::NotToldApart),
            ((0.0, 0.05), (0.3, 0.05), Standing::Worse),
            ((0.0, 0.0), (0.0, 0.0), Standing::Equal),
        ] {
            assert_eq!(standing(best, other), expected, "{best:?} {other:?}");
        }
    }

    #[test]
    fn probabilities_are_those_of_a_normal_distribution() {
        assert!((probability((0.0, 0.196), (0.1, 0.0)) - 0.841_344_7).abs() < 1e-6);
        assert_eq!(probability((0.0, 0.0), (0.1, 0.0)), 1.0);
    }

    /// However far apart, and however well two repeats agree.
    #[test]
    fn one_or_two_repeats_are_never_high_confidence() {
        let figure = |repeats_least, is_assumed, is_stretched| Figure {
            value: 1.0,
            half: 0.0,
            is_assumed,
            is_stretched,
            points: 1,
            trials: 9,
            repeats_least,
        };
        let sure = figure(9, false, false);
        let (far, near) = ((3.0, 0.01), |distance| (distance, 0.196));
        for (next, figure, level, probability) in [
            (far, figure(1, false, false), Level::Low, None),
            (far, figure(2, false, false), Level::Low, None),
            (far, figure(3, false, false), Level::High, Some(1.0)),
            (far, figure(9, true, false), Level::Low, None),
            (far, figure(9, false, true), Level::Low, None),
            (near(0.05), sure, Level::Low, Some(0.69)),
            (near(0.1), sure, Level::Medium, Some(0.84)),
            (near(0.2), sure, Level::High, Some(0.98)),
        ] {
            let found = Confidence::new((0.0, 0.0), next, [sure, figure].iter());
            let rounded = found.probability.map(|it| (it * 100.0).round() / 100.0);
            assert_eq!(
                (found.level, rounded, found.repeats_least),
                (level, probability, figure.repeats_least),
                "{next:?}"
            );
        }
    }
}
