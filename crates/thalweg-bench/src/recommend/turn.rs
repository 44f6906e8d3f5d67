//! By what change of payload or loss the order turns: searched for inside the hull only.

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
        let better = self.metric.map_or("be better", Metric::better);
        let doubt = match self.is_sure {
            true => "",
            false => ", but nowhere there by more than the intervals",
        };
        let then = self.then.name();
        format!("{side} about {place}, all else equal, {then} would {better}{doubt}.")
    }
}

/// Looks along payload and loss, both ways, as far as was measured. Returns the nearest turn (by distance as a part of
/// what was measured of the axis), and how far it was looked.
pub fn find(
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
        if high - low < 1e-9 {
            continue;
        }
        let here = axis.scaled(point.on(axis)).clamp(low, high);
        searched.push((axis, from, to));
        // Only the hull: extrapolated turns would be inventions.
        let cost_at = |choice: usize, place: f64| {
            let there = point.with(axis, axis.unscaled(place));
            cost(field, choice, &there, goals, false)
        };
        let best = |place: f64| {
            // Where the present best was not measured nothing can be said of it.
            let (own, _) = cost_at(first, place)?;
            let others = choices
                .iter()
                .filter_map(|at| Some((*at, cost_at(*at, place)?.0)))
                .filter(|(_, it)| *it < own - LEAST);
            Some(others.min_by(|(_, a), (_, b)| a.total_cmp(b)))
        };
        for end in [low, high] {
            let Some((place, then)) = along(here, end, |place| Some(best(place)?.map(|it| it.0)))
            else {
                continue;
            };
            let is_better = |place: f64| {
                let (Some(one), Some(other)) = (cost_at(then, place), cost_at(first, place)) else {
                    return false;
                };
                one.0 < other.0 && standing(one, other) == Standing::Worse
            };
            let step = |step: u32| place + (end - place) * f64::from(step) / f64::from(LOOKS);
            let is_sure = (1..=LOOKS).map(step).any(is_better);
            // One that is sure before one that may be chance; of like ones the nearest.
            let rank = (!is_sure, (place - here).abs() / (high - low));
            if nearest.as_ref().is_none_or(|(known, _)| rank < *known) {
                let turn = Turn {
                    axis,
                    at: axis.unscaled(place),
                    is_below: end < here,
                    is_sure,
                    then: field.choices[then].clone(),
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
