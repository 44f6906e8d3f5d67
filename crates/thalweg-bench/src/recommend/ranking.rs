//! Candidates in their order, with ties.

use super::RecommendArgs;
use super::axes::{Axis, Point, short};
use super::capability::{self, Spoken};
use super::choice::Choice;
use super::field::{Field, Figure};
use super::measure::{METRICS, Metric, time};
use super::refusal::{Outside, Refusal};
use super::sources::{About, Source, SourceKind};
use super::turn::{self, Turn};
use crate::cell::Leg;
use crate::stats::normal_cdf;

/// A choice, and what it is expected to take.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// What would be chosen.
    pub choice: Choice,
    /// All that is known of it at the point.
    pub figures: Vec<(Metric, Figure)>,
    /// The logarithm of what it costs by the objective, and half of its 95 % interval.
    pub cost: (f64, f64),
    /// Against the best one.
    pub standing: Standing,
}

/// How a candidate compares with the best one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    pub point: Point,
    /// What of it was not asked for.
    pub assumed: Vec<(Axis, f64)>,
    /// What was weighed, and how much.
    pub goals: Vec<(Metric, f64)>,
    /// What was not weighed, because it is not known of all.
    pub not_weighed: Vec<Metric>,
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
    /// Some interval was assumed, or lies outside of what was measured.
    pub is_assumed: bool,
}

/// A confidence in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Below 80 %, or not enough is known to say a number.
    Low,
    Medium,
    /// From 95 % on, with three repeats at least everywhere and nothing assumed.
    High,
}

impl Level {
    /// As it is printed.
    pub fn name(self) -> &'static str {
        match self {
            Level::Low => "low",
            Level::Medium => "medium",
            Level::High => "high",
        }
    }
}

/// Why nothing could be ranked.
#[derive(Clone, Debug, Default)]
pub struct Missing {
    /// Choices that were not measured around the point.
    pub outside: Vec<Outside>,
    /// Choices that were, and do not keep the constraints.
    pub broken: Vec<(String, Breach)>,
}

/// A constraint that is not kept.
#[derive(Clone, Debug)]
pub struct Breach {
    /// Which, and by how much.
    pub words: String,
    /// It is broken, not just unknown.
    pub is_known: bool,
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
    let mut missing = Missing::default();
    // Who wants to know how much is carried does not look at loads that were offered as long as there were floods.
    let wants_flood = query
        .goals()
        .iter()
        .any(|(metric, _)| *metric == Metric::Throughput);
    let is_fit = |field: &&Field| if wants_flood { true } else { !field.is_flood };
    for field in fields.iter().filter(is_fit) {
        let Some(source) = sources.get(field.source) else {
            continue;
        };
        match rank_in(query, field, source) {
            Ok(ranking) => rankings.push(ranking),
            Err(more) => {
                missing.outside.extend(more.outside);
                missing.broken.extend(more.broken);
            }
        }
    }
    let weight = |it: &Ranking| {
        let measured = it.source.kind == SourceKind::Measured;
        let flood = wants_flood && it.point.on(Axis::Rate) == 0.0;
        (
            flood,
            it.candidates.len().min(2),
            measured,
            it.candidates.len(),
            it.source.finished_unix_s,
        )
    };
    // The first of equals stays first: sources are in the order in which they were given.
    rankings.sort_by_key(|it| std::cmp::Reverse(weight(it)));
    let others: Vec<String> = rankings
        .iter()
        .skip(1)
        .map(|it| it.source.name.clone())
        .collect();
    match rankings.into_iter().next() {
        Some(best) => {
            let mut others: Vec<String> = others
                .into_iter()
                .filter(|name| *name != best.source.name)
                .collect();
            others.dedup();
            Ok(Ranking { others, ..best })
        }
        None => Err(Refusal::new(query, missing, fields)),
    }
}

fn rank_in(query: &RecommendArgs, field: &Field, source: &Source) -> Result<Ranking, Missing> {
    let mut left_out = Vec::new();
    let mut open = Vec::new();
    for (at, choice) in field.choices.iter().enumerate() {
        match obstacle(query, choice) {
            // What a protocol cannot do is said once for all of its choices.
            Some(Obstacle::Protocol) => {}
            Some(Obstacle::Choice(why)) => left_out.push((choice.name(), why)),
            None => open.push(at),
        }
    }
    let goals = goals(query, field, &open);
    let Some(&(leading, _)) = goals.first() else {
        return Err(Missing::default());
    };
    let Some((point, assumed)) = field.point(|axis| query.on(axis), leading) else {
        return Err(Missing::default());
    };
    let mut candidates = Vec::new();
    let mut outside = Vec::new();
    let mut broken: Vec<(String, Breach)> = Vec::new();
    for at in open {
        let Some(choice) = field.choices.get(at) else {
            continue;
        };
        match cost(query, field, at, &point, &goals) {
            Some(cost) => {
                let figure =
                    |metric| Some((metric, field.figure(at, metric, &point, query.extrapolate)?));
                let figures: Vec<(Metric, Figure)> =
                    METRICS.into_iter().filter_map(figure).collect();
                match breach(query, &figures, &point) {
                    Some(why) => broken.push((choice.name(), why)),
                    None => candidates.push((
                        at,
                        Candidate {
                            choice: choice.clone(),
                            figures,
                            cost,
                            standing: Standing::Worse,
                        },
                    )),
                }
            }
            None => outside.push(Outside::new(source, field, at, &point, leading, |axis| {
                query.on(axis)
            })),
        }
    }
    candidates.sort_by(|(_, a), (_, b)| {
        a.cost
            .0
            .total_cmp(&b.cost.0)
            .then_with(|| a.choice.key().cmp(&b.choice.key()))
    });
    if candidates.is_empty() {
        outside.retain(|it| !it.axes.is_empty() || it.is_hole);
        return Err(Missing { outside, broken });
    }
    left_out.extend(
        broken
            .into_iter()
            .map(|(name, breach)| (name, breach.words)),
    );
    let best = candidates.first().map_or((0.0, 0.0), |(_, it)| it.cost);
    for (place, (_, candidate)) in candidates.iter_mut().enumerate() {
        candidate.standing = if place == 0 {
            Standing::Best
        } else {
            standing(best, candidate.cost)
        };
    }
    let confidence = match candidates.get(1) {
        Some((_, next)) if next.standing == Standing::Worse => {
            let both = candidates.iter().take(2).flat_map(|(_, it)| &it.figures);
            let weighed = both
                .filter(|(metric, _)| goals.iter().any(|(of, _)| of == metric))
                .map(|(_, figure)| figure);
            Some(Confidence::new(best, next.cost, weighed))
        }
        _ => None,
    };
    let places: Vec<usize> = candidates.iter().map(|(at, _)| *at).collect();
    let (turn, searched) = turn::find(query, field, &point, &places, &goals);
    let not_weighed: Vec<Metric> = query
        .goals()
        .into_iter()
        .map(|(metric, _)| metric)
        .filter(|it| !goals.iter().any(|(of, _)| of == it))
        .collect();
    Ok(Ranking {
        source: source.about(),
        point,
        assumed,
        goals,
        not_weighed,
        candidates: candidates
            .into_iter()
            .map(|(_, candidate)| candidate)
            .collect(),
        left_out,
        outside: outside.into_iter().map(|it| it.words()).collect(),
        confidence,
        turn,
        searched,
        others: Vec::new(),
    })
}

/// Why a choice does not come into question, whatever was measured.
enum Obstacle {
    /// Its protocol cannot do what is needed.
    Protocol,
    /// It cannot, though its protocol can.
    Choice(String),
}

fn obstacle(query: &RecommendArgs, choice: &Choice) -> Option<Obstacle> {
    let is_able = |leg: &Leg| {
        capability::obstacles(
            Spoken::of(leg),
            &query.needs,
            query.no_broker,
            query.custom_ok,
        )
        .is_empty()
    };
    if !choice.protocols().iter().all(is_able) {
        return Some(Obstacle::Protocol);
    }
    if let Some(system) = &query.system
        && *system != choice.system
    {
        return Some(Obstacle::Choice(format!("only {system} is wanted")));
    }
    capability::obstacle(choice, &query.needs).map(|why| Obstacle::Choice(why.to_owned()))
}

/// What can be weighed: of a mean of several what is known of all, of a latency the mean or else a percentile.
fn goals(query: &RecommendArgs, field: &Field, open: &[usize]) -> Vec<(Metric, f64)> {
    let known = |metric| open.iter().filter(|at| field.has(**at, metric)).count();
    let goals = query.goals();
    if query.is_balanced() {
        let most = goals
            .iter()
            .map(|(metric, _)| known(*metric))
            .max()
            .unwrap_or_default();
        return goals
            .into_iter()
            .filter(|(metric, _)| most > 0 && known(*metric) == most)
            .collect();
    }
    let instead = |metric| match metric {
        Metric::Latency if known(Metric::Latency) == 0 => [Metric::LatencyP90, Metric::LatencyP99]
            .into_iter()
            .find(|it| known(*it) > 0)
            .unwrap_or(metric),
        _ => metric,
    };
    goals
        .into_iter()
        .map(|(metric, weight)| (instead(metric), weight))
        .collect()
}

/// The weighted logarithm of what a choice takes at a point, and half of its interval.
pub fn cost(
    query: &RecommendArgs,
    field: &Field,
    choice: usize,
    point: &Point,
    goals: &[(Metric, f64)],
) -> Option<(f64, f64)> {
    let (mut sum, mut square, mut weights) = (0.0, 0.0, 0.0);
    for (metric, weight) in goals {
        let figure = field.figure(choice, *metric, point, query.extrapolate)?;
        sum += weight * metric.cost(figure.value);
        square += (weight * figure.half).powi(2);
        weights += weight;
    }
    (weights > 0.0).then(|| (sum / weights, square.sqrt() / weights))
}

/// Constraints that a candidate breaks, or cannot be shown to keep.
fn breach(query: &RecommendArgs, figures: &[(Metric, Figure)], point: &Point) -> Option<Breach> {
    let broken = |words: String| {
        Some(Breach {
            words,
            is_known: true,
        })
    };
    let unknown = |words: &str| {
        Some(Breach {
            words: words.to_owned(),
            is_known: false,
        })
    };
    let of = |metric: Metric| {
        figures
            .iter()
            .find(|(it, _)| *it == metric)
            .map(|(_, figure)| figure.value)
    };
    if let Some(most) = query.p99_max {
        let wanted = most.as_secs_f64() * 1e6;
        match of(Metric::LatencyP99) {
            Some(value) if value <= wanted => {}
            Some(value) => {
                return broken(format!(
                    "99 % arrive within {}, wanted {}",
                    time(value),
                    time(wanted)
                ));
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
        return broken(format!(
            "it needs {least}{} kbit/s of {}",
            short(needed / 1e3),
            short(bandwidth / 1e3)
        ));
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
        let probability = probability(best, next);
        // One repeat has no spread, and two that agree by chance have next to none: no number comes of that.
        let is_told = repeats_least >= REPEATS_MIN && !is_assumed;
        let level = match probability {
            _ if !is_told => Level::Low,
            it if it < MEDIUM => Level::Low,
            it if it < HIGH => Level::Medium,
            _ => Level::High,
        };
        Confidence {
            probability: is_told.then_some(probability),
            level,
            repeats_least,
            is_assumed,
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
        assert_eq!(standing((0.0, 0.01), (0.02, 0.01)), Standing::Equal);
        // Significantly different, but by less than matters.
        assert_eq!(standing((0.0, 0.001), (0.05, 0.001)), Standing::Equal);
        assert_eq!(standing((0.0, 0.1), (0.126, 0.1)), Standing::NotToldApart);
        assert_eq!(standing((0.0, 0.1), (0.05, 0.1)), Standing::NotToldApart);
        assert_eq!(standing((0.0, 0.05), (0.3, 0.05)), Standing::Worse);
        assert_eq!(standing((0.0, 0.0), (0.0, 0.0)), Standing::Equal);
    }

    #[test]
    fn probabilities_are_those_of_a_normal_distribution() {
        assert!((probability((0.0, 0.196), (0.1, 0.0)) - 0.841_344_7).abs() < 1e-6);
        assert_eq!(probability((0.0, 0.0), (0.1, 0.0)), 1.0);
    }

    /// However far apart, and however well two repeats agree.
    #[test]
    fn one_or_two_repeats_are_never_high_confidence() {
        let figure = |repeats_least| Figure {
            value: 1.0,
            half: 0.0,
            is_assumed: false,
            is_stretched: false,
            points: 1,
            trials: 9,
            repeats_least,
        };
        let of = |figures: &[Figure]| Confidence::new((0.0, 0.01), (3.0, 0.01), figures.iter());
        for few in [1, 2] {
            let found = of(&[figure(9), figure(few)]);
            assert_eq!(
                (found.level, found.probability, found.repeats_least),
                (Level::Low, None, few)
            );
        }
        let found = of(&[figure(9), figure(3)]);
        assert_eq!((found.level, found.probability), (Level::High, Some(1.0)));
        for doubtful in [
            Figure {
                is_assumed: true,
                ..figure(9)
            },
            Figure {
                is_stretched: true,
                ..figure(9)
            },
        ] {
            assert_eq!(of(&[figure(9), doubtful]).level, Level::Low);
        }
        let near =
            |distance| Confidence::new((0.0, 0.196), (distance, 0.0), [figure(9)].iter()).level;
        assert_eq!(
            [near(0.05), near(0.1), near(0.2)],
            [Level::Low, Level::Medium, Level::High]
        );
    }
}
