//! By what change of payload or loss the order turns: searched for inside the hull only.

use super::RecommendArgs;
use super::axes::{Axis, Point, bytes, short};
use super::choice::Choice;
use super::field::Field;
use super::measure::Metric;
use super::ranking::{Standing, cost, standing};

/// The nearest change of the situation after which something else is best.
#[derive(Clone, Debug)]
pub struct Turn {
    pub axis: Axis,
    pub at: f64,
    pub is_below: bool,
    /// What is best beyond.
    pub then: Choice,
    /// Somewhere beyond it is better by more than the intervals.
    pub is_sure: bool,
    /// By what; none if several are weighed.
    pub metric: Option<Metric>,
}

impl Turn {
    pub fn words(&self) -> String {
        let place = match self.axis {
            Axis::Loss => format!("{} % of loss", short(100.0 * self.at)),
            Axis::Payload => bytes(self.at),
            axis => axis.words(self.at),
        };
        let side = if self.is_below { "Below" } else { "Above" };
        let doubt = if self.is_sure {
            ""
        } else {
            ", but nowhere there by more than the intervals"
        };
        format!(
            "{side} about {place}, all else equal, {} would {}{doubt}.",
            self.then.name(),
            self.metric.map_or("be better", Metric::better)
        )
    }
}

/// Looks along payload and loss, both ways, as far as was measured. Returns the nearest turn (by distance as a part of
/// what was measured of the axis), and how far it was looked.
pub fn find(
    query: &RecommendArgs,
    field: &Field,
    point: &Point,
    choices: &[usize],
    goals: &[(Metric, f64)],
) -> (Option<Turn>, Vec<(Axis, f64, f64)>) {
    let (Some(&first), Some(&(metric, _))) = (choices.first(), goals.first()) else {
        return (None, Vec::new());
    };
    let mut nearest: Option<((bool, f64), Turn)> = None;
    let mut searched = Vec::new();
    for axis in [Axis::Payload, Axis::Loss] {
        let Some((from, to)) = field.range(axis, choices, metric) else {
            continue;
        };
        let (low, high) = (axis.scaled(from), axis.scaled(to));
        let here = axis.scaled(point.on(axis)).clamp(low, high);
        if high - low < 1e-9 {
            continue;
        }
        searched.push((axis, from, to));
        // Only the hull: extrapolated turns would be inventions.
        let inside = RecommendArgs {
            extrapolate: false,
            ..query.clone()
        };
        let best = |place: f64| {
            let there = point.with(axis, axis.unscaled(place));
            let costs = choices
                .iter()
                .filter_map(|at| Some((*at, cost(&inside, field, *at, &there, goals)?.0)));
            let costs: Vec<(usize, f64)> = costs.collect();
            // Where the present best was not measured nothing can be said of it.
            let own = costs.iter().find(|(at, _)| *at == first)?.1;
            let other = costs
                .iter()
                .filter(|(_, it)| *it < own - LEAST)
                .min_by(|(_, a), (_, b)| a.total_cmp(b));
            Some(other.map(|(at, _)| *at))
        };
        for end in [low, high] {
            let Some((place, then)) = along(here, end, best) else {
                continue;
            };
            let distance = (place - here).abs() / (high - low);
            let beyond =
                (1..=LOOKS).map(|step| place + (end - place) * f64::from(step) / f64::from(LOOKS));
            let is_sure = beyond.map(|place| point.with(axis, axis.unscaled(place))).any(|there| {
                let of = |choice| cost(&inside, field, choice, &there, goals);
                matches!((of(then), of(first)), (Some(one), Some(other)) if one.0 < other.0 && standing(one, other) == Standing::Worse)
            });
            // One that is sure before one that may be chance; of like ones the nearest.
            let rank = (!is_sure, distance);
            let is_nearer = nearest.as_ref().is_none_or(|(known, _)| rank < *known);
            if let Some(choice) = field.choices.get(then).filter(|_| is_nearer) {
                let turn = Turn {
                    axis,
                    at: axis.unscaled(place),
                    is_below: end < here,
                    is_sure,
                    then: choice.clone(),
                    metric: (goals.len() == 1).then_some(metric),
                };
                nearest = Some((rank, turn));
            }
        }
    }
    (nearest.map(|(_, turn)| turn), searched)
}

/// The first place from `here` to `end` beyond which another is best: in steps, then by bisection.
fn along(here: f64, end: f64, best: impl Fn(f64) -> Option<Option<usize>>) -> Option<(f64, usize)> {
    let mut last = here;
    for step in 1..=STEPS {
        let place = here + (end - here) * f64::from(step) / f64::from(STEPS);
        if (place - here).abs() < 1e-12 {
            return None;
        }
        match best(place)? {
            None => last = place,
            Some(mut other) => {
                let (mut same, mut turned) = (last, place);
                for _ in 0..HALVINGS {
                    let middle = f64::midpoint(same, turned);
                    match best(middle)? {
                        None => same = middle,
                        Some(it) => (turned, other) = (middle, it),
                    }
                }
                return Some((turned, other));
            }
        }
    }
    None
}

/// A turn between two steps and back would be missed.
const STEPS: u32 = 64;

const HALVINGS: u32 = 30;

/// Where it is looked whether a turn is more than chance.
const LOOKS: u32 = 8;

/// Costs that differ by less are the same.
const LEAST: f64 = 1e-9;
