//! Measurements that may be compared with each other, and estimates between them: only between, never beyond, unless
//! asked to.

use std::collections::{BTreeMap, BTreeSet};

use clap::ValueEnum;
use serde::Serialize;

use super::axes::{AXES, Axis, Point};
use super::choice::Choice;
use super::measure::Metric;
use crate::cell::{Cell, Load, Row, Workload, valid};
use crate::energy;
use crate::report::stat::Stat;

/// Measurements of one machine under like circumstances: the same kind of load, link and neighbours.
#[derive(Clone, Debug)]
pub struct Field {
    /// Which of the sources it is of.
    pub source: usize,
    /// Publishers sent as fast as they could.
    pub is_flood: bool,
    /// Other traffic on the network sent bursts.
    pub has_neighbour: bool,
    /// What is chosen is the strategy of a group.
    pub is_group: bool,
    pub choices: Vec<Choice>,
    samples: Vec<Sample>,
}

/// All repeats of a choice at a point.
#[derive(Clone, Debug)]
struct Sample {
    choice: usize,
    point: Point,
    values: BTreeMap<Metric, Sum>,
}

/// A measurement, or a weighted sum of several, on the scale on which the metric is interpolated.
#[derive(Clone, Copy, Debug)]
struct Sum {
    middle: f64,
    /// Of half of the 95 % interval.
    square: f64,
    /// Some part of the interval was not given, and was assumed.
    is_assumed: bool,
    points: usize,
    trials: usize,
    /// Trials that have the metric, at the point with the fewest of them.
    repeats_least: usize,
}

/// What a choice is expected to take at a point.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// In the unit of the metric.
    pub value: f64,
    /// Half of the 95 % interval as a part of the value.
    #[serde(rename = "half_interval")]
    pub half: f64,
    /// Some part of the interval was assumed, because there was one repeat only, or the study published none.
    #[serde(rename = "assumed")]
    pub is_assumed: bool,
    /// It lies outside of what was measured.
    #[serde(rename = "extrapolated")]
    pub is_stretched: bool,
    /// Measurement points that it was made of.
    pub points: usize,
    pub trials: usize,
    /// Trials at the one of these that has fewest.
    pub repeats_least: usize,
}

/// Half of a 95 % interval where it is unknown.
pub const ASSUMED: f64 = 0.10;

/// Trials of one choice at one point.
type Repeats<'a> = (usize, Point, Vec<&'a (Cell, Row)>);

/// Fields of the trials of a source that count.
pub fn fields(source: usize, trials: &[(Cell, Row)], profile: &energy::Profile) -> Vec<Field> {
    let mut fields: BTreeMap<String, (Field, Vec<Repeats<'_>>)> = BTreeMap::new();
    for trial in valid(trials) {
        let (cell, row) = trial;
        let Some(point) = Point::of(cell, row) else {
            continue;
        };
        let (key, empty) = field(source, cell);
        let (field, repeats) = fields.entry(key).or_insert((empty, Vec::new()));
        let choice = Choice::of(cell);
        let known = field.choices.iter().position(|it| *it == choice);
        let at = known.unwrap_or_else(|| {
            field.choices.push(choice);
            field.choices.len() - 1
        });
        match repeats.iter_mut().find(|it| (it.0, it.1) == (at, point)) {
            Some((_, _, trials)) => trials.push(trial),
            None => repeats.push((at, point, vec![trial])),
        }
    }
    let filled = |(mut field, repeats): (Field, Vec<Repeats<'_>>)| {
        let sample = |(choice, point, trials): Repeats<'_>| {
            let of = |it: &Metric| Some((*it, sum(*it, &trials, profile)?));
            let values = Metric::value_variants().iter().filter_map(of).collect();
            Sample {
                choice,
                point,
                values,
            }
        };
        field.samples = repeats.into_iter().map(sample).collect();
        field
    };
    fields.into_values().map(filled).collect()
}

fn field(source: usize, cell: &Cell) -> (String, Field) {
    let kind = match &cell.load {
        Load::Open { .. } => "open",
        Load::Closed { .. } => "closed",
        Load::Replay { .. } => "replay",
        Load::Flood { .. } => "flood",
    };
    let trace = match &cell.workload {
        Workload::Trace { file } => file.as_str(),
        Workload::Beside { .. } => "beside",
        // Classes differ in what the axes say.
        Workload::Class { .. } => "class",
        _ => "",
    };
    let neighbour = cell.axes.get("neighbour").map_or("", String::as_str);
    let is_group = cell.axes.contains_key("strategy");
    let link = &cell.link;
    // Studies had machines of their own: their names begin the experiment. Our runs have one machine each.
    let study = super::sources::study_of(cell);
    let key = format!(
        "{kind} {trace} {neighbour} {is_group} {study} {} {} {:?} {} {}",
        link.namespaces, link.bridged, link.rate, link.reorder, link.duplicate
    );
    let field = Field {
        source,
        is_flood: kind == "flood",
        has_neighbour: !neighbour.is_empty(),
        is_group,
        choices: Vec::new(),
        samples: Vec::new(),
    };
    (key, field)
}

fn sum(metric: Metric, trials: &[&(Cell, Row)], profile: &energy::Profile) -> Option<Sum> {
    let known = trials
        .iter()
        .filter_map(|(cell, row)| metric.of(cell, row, profile));
    let values: Vec<f64> = known.map(|it| metric.scaled(it)).collect();
    let Stat { mean, half, .. } = Stat::of(&values)?;
    let is_assumed = half.is_nan();
    let half = match is_assumed {
        true => alone(metric, metric.unscaled(mean), trials),
        false => half,
    };
    Some(Sum {
        middle: mean,
        square: half * half,
        is_assumed,
        points: 1,
        trials: trials.len(),
        repeats_least: values.len(),
    })
}

/// Half of an interval where there was one repeat only: assumed; for a mean at least what its messages' spread makes of it.
fn alone(metric: Metric, value: f64, trials: &[&(Cell, Row)]) -> f64 {
    let assumed = metric.part(value, ASSUMED);
    let first = trials.first().filter(|_| metric == Metric::Latency);
    let of_messages = first
        .map(|(_, row)| 1.96 * row.response.sd / (row.response.count as f64).sqrt())
        .filter(|it| it.is_finite());
    of_messages.map_or(assumed, |it| it.max(assumed))
}

impl Field {
    /// What a choice takes at a point; none outside of what was measured, or, with `stretch`, where nothing was.
    pub fn figure(
        &self,
        choice: usize,
        metric: Metric,
        point: &Point,
        stretch: bool,
    ) -> Option<Figure> {
        let samples: Vec<&Sample> = self.with(metric).filter(|it| it.choice == choice).collect();
        let inside = between(&samples, metric, point, &AXES, false);
        let is_stretched = inside.is_none() && stretch;
        let sum = match is_stretched {
            true => between(&samples, metric, point, &AXES, true)?,
            false => inside?,
        };
        let value = metric.unscaled(sum.middle);
        Some(Figure {
            value,
            half: metric.relative(value, sum.square.sqrt()),
            is_assumed: sum.is_assumed,
            is_stretched,
            points: sum.points,
            trials: sum.trials,
            repeats_least: sum.repeats_least,
        })
    }

    /// Where the metric was measured.
    fn with(&self, metric: Metric) -> impl Iterator<Item = &Sample> {
        let has = move |it: &&Sample| it.values.contains_key(&metric);
        self.samples.iter().filter(has)
    }

    /// Choices of which the metric was measured anywhere.
    pub fn has(&self, choice: usize, metric: Metric) -> bool {
        self.with(metric).any(|it| it.choice == choice)
    }

    /// From where to where the metric was measured for these choices.
    pub fn range(&self, axis: Axis, choices: &[usize], metric: Metric) -> Option<(f64, f64)> {
        let of = self.with(metric).filter(|it| choices.contains(&it.choice));
        of.map(|it| it.point.on(axis)).fold(None, |range, it| {
            let (least, most) = range.unwrap_or((it, it));
            Some((least.min(it), most.max(it)))
        })
    }

    /// The point that is meant: what is not asked for is where most choices were measured, and told.
    pub fn point(
        &self,
        asked: impl Fn(Axis) -> Option<f64>,
        metric: Metric,
    ) -> Option<(Point, Vec<(Axis, f64)>)> {
        let mut samples: Vec<&Sample> = self.with(metric).collect();
        if samples.is_empty() {
            return None;
        }
        for axis in AXES {
            let Some(value) = asked(axis) else { continue };
            let is_near = |it: &&Sample| axis.is_near(it.point.on(axis), value);
            if samples.iter().any(is_near) {
                samples.retain(is_near);
            }
        }
        let mut told = Vec::new();
        let point = Point::new(|axis| match asked(axis) {
            // Who floods has no rate.
            Some(_) if axis == Axis::Rate && self.is_flood => 0.0,
            Some(value) => value,
            None => {
                let value = self.usual(axis, &samples, metric);
                samples.retain(|it| axis.is_near(it.point.on(axis), value));
                told.push((axis, value));
                value
            }
        });
        Some((point, told))
    }

    /// One subscriber, no loss, the shortest way; else where most choices were measured, and of these the least.
    fn usual(&self, axis: Axis, samples: &[&Sample], metric: Metric) -> f64 {
        let mut places: Vec<f64> = Vec::new();
        for sample in samples {
            let value = sample.point.on(axis);
            if !places.iter().any(|known| axis.is_near(*known, value)) {
                places.push(value);
            }
        }
        places.sort_by(f64::total_cmp);
        if matches!(axis, Axis::FanOut | Axis::Loss | Axis::RoundTrip) {
            return places.first().copied().unwrap_or_default();
        }
        // How much is carried is asked of the heaviest load.
        if metric == Metric::Throughput && matches!(axis, Axis::Pairs | Axis::Rate) {
            places.reverse();
        }
        let count = |place: &f64| {
            let near = samples
                .iter()
                .filter(|it| axis.is_near(it.point.on(axis), *place));
            near.map(|it| it.choice).collect::<BTreeSet<usize>>().len()
        };
        // Of equal ones the first.
        let most = places.iter().rev().max_by_key(|it| count(it));
        most.copied().unwrap_or_default()
    }
}

/// Axis by axis: on the first one, what lies below and above (each a sum along the other axes) is weighed by distance on
/// the axis' scale. What cannot be answered along the other axes is no neighbour; so holes of a grid are bridged, and
/// nothing leaves the hull of what was measured.
fn between(
    samples: &[&Sample],
    metric: Metric,
    point: &Point,
    axes: &[Axis],
    stretch: bool,
) -> Option<Sum> {
    let Some((&axis, others)) = axes.split_first() else {
        return samples.first()?.values.get(&metric).copied();
    };
    let wanted = point.on(axis);
    let places = places(samples, axis);
    let along = |place: f64, stretch: bool| {
        let there: Vec<&Sample> = samples
            .iter()
            .copied()
            .filter(|it| it.point.on(axis) == place)
            .collect();
        between(&there, metric, point, others, stretch).map(|sum| (place, sum))
    };
    let distance = |place: f64| (axis.scaled(place) - axis.scaled(wanted)).abs();
    let here = places.iter().find(|place| distance(**place) < 1e-9);
    if let Some((_, sum)) = here.and_then(|place| along(*place, false)) {
        return Some(sum);
    }
    let mut below = places.clone();
    below.retain(|place| *place < wanted);
    below.reverse();
    let mut above = places.clone();
    above.retain(|place| *place > wanted);
    let nearest = |of: &[f64]| of.iter().find_map(|place| along(*place, false));
    match (nearest(&below), nearest(&above)) {
        (Some(low), Some(high)) => Some(mixed(axis, wanted, low, high)),
        // At the edge the measurement next to it is the same point. Not inside: the estimate would jump there.
        (Some((place, sum)), None) | (None, Some((place, sum))) if axis.is_near(place, wanted) => {
            Some(sum)
        }
        (low, high) if stretch => match low.or(high) {
            // The line through the two outermost goes on; a single one holds for everywhere.
            Some(edge) => {
                let of = if low.is_some() { &below } else { &above };
                let mut known = of.iter().filter_map(|place| along(*place, false));
                match known.nth(1) {
                    Some(next) => Some(mixed(axis, wanted, edge, next)),
                    None => Some(edge.1),
                }
            }
            // Along the other axes nothing is known inside, either.
            None => {
                let mut places = above.iter().chain(&places);
                let found = places.find_map(|place| along(*place, true));
                found.map(|(_, sum)| sum)
            }
        },
        _ => None,
    }
}

fn mixed(axis: Axis, wanted: f64, low: (f64, Sum), high: (f64, Sum)) -> Sum {
    let (from, to) = (axis.scaled(low.0), axis.scaled(high.0));
    let part = (axis.scaled(wanted) - from) / (to - from);
    let (low, high) = (low.1, high.1);
    Sum {
        middle: (1.0 - part) * low.middle + part * high.middle,
        square: (1.0 - part).powi(2) * low.square + part.powi(2) * high.square,
        is_assumed: low.is_assumed || high.is_assumed,
        points: low.points + high.points,
        trials: low.trials + high.trials,
        repeats_least: low.repeats_least.min(high.repeats_least),
    }
}

fn places(samples: &[&Sample], axis: Axis) -> Vec<f64> {
    let mut places: Vec<f64> = samples.iter().map(|it| it.point.on(axis)).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    places
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::published::blank_cell;
    use super::*;
    use crate::cell::Standing;

    /// A trial of MQTT at QoS 1 that took so many bytes a message.
    pub(crate) fn trial(payload: u32, loss: f64, repeat: u32, bytes: f64) -> (Cell, Row) {
        let mut cell = blank_cell();
        (cell.publish.qos, cell.subscribe.qos) = (1, 1);
        (cell.repeat, cell.link.loss) = (repeat, loss);
        cell.workload = Workload::Fixed { bytes: payload };
        cell.load = Load::open(1.0, 10);
        let row = Row {
            delivered: 1000,
            wire_bytes: Some((bytes * 1000.0) as u64),
            ..Row::blank(Standing::Valid)
        };
        (cell, row)
    }

    pub(crate) fn only(trials: &[(Cell, Row)]) -> Field {
        let mut fields = fields(0, trials, &energy::PROFILES[0]);
        assert_eq!(fields.len(), 1, "{fields:?}");
        fields.remove(0)
    }

    fn at(field: &Field, payload: f64, loss: f64, stretch: bool) -> Option<Figure> {
        let asked = |axis| match axis {
            Axis::Payload => Some(payload),
            Axis::Loss => Some(loss),
            _ => None,
        };
        let (point, _) = field.point(asked, Metric::Bytes)?;
        field.figure(0, Metric::Bytes, &point, stretch)
    }

    /// What is expected of a figure: value and half of the interval, and how far they may be off.
    fn is_near(figure: Figure, value: (f64, f64), half: (f64, f64)) {
        let is_it = |found: f64, (wanted, off): (f64, f64)| (found - wanted).abs() < off;
        assert!(
            is_it(figure.value, value) && is_it(figure.half, half),
            "{figure:?}"
        );
    }

    #[test]
    fn repeats_make_a_mean_with_students_interval() {
        let repeats = [(0, 500.0), (1, 520.0), (2, 510.0)];
        let field = only(&repeats.map(|(repeat, bytes)| trial(60, 0.0, repeat, bytes)));
        let figure = at(&field, 60.0, 0.0, false).expect("it was measured");
        assert_eq!((figure.is_assumed, figure.trials), (false, 3));
        // 4.303 * 0.0196 / sqrt(3)
        is_near(figure, (509.9, 0.2), (0.0487, 0.001));
        let single = only(&[trial(60, 0.0, 0, 500.0)]);
        let figure = at(&single, 60.0, 0.0, false).expect("it was measured");
        assert!(figure.is_assumed);
        is_near(figure, (500.0, 0.2), (0.0953, 1e-3));
    }

    #[test]
    fn between_two_sizes_it_goes_by_logarithms_and_the_interval_of_a_mixture_is_smaller() {
        let field = only(&[trial(100, 0.0, 0, 300.0), trial(1000, 0.0, 0, 1200.0)]);
        let middle = (101.0_f64 * 1001.0).sqrt() - 1.0;
        let figure = at(&field, middle, 0.0, false).expect("it lies between");
        assert_eq!(figure.points, 2);
        is_near(figure, (600.0, 0.5), (0.0953 / 2.0_f64.sqrt(), 1e-3));
    }

    #[test]
    fn outside_there_is_nothing_unless_asked_for() {
        let field = only(&[
            trial(100, 0.0, 0, 300.0),
            trial(1000, 0.0, 0, 1200.0),
            trial(100, 0.2, 0, 400.0),
        ]);
        for (payload, loss) in [(50.0, 0.0), (2000.0, 0.0), (100.0, 0.25), (1000.0, 0.2)] {
            assert_eq!(at(&field, payload, loss, false), None, "{payload} {loss}");
            let stretched = at(&field, payload, loss, true);
            assert!(
                stretched.is_some_and(|it| it.is_stretched),
                "{payload} {loss}"
            );
        }
        // Further out it is less sure.
        let figure = at(&field, 10_009.0, 0.0, true).expect("it was asked for");
        is_near(figure, (4800.0, 30.0), (0.2, 0.05));
    }

    /// Nine sizes at three losses and one size at six: E2b beside E2c.
    #[test]
    fn a_hole_of_the_grid_is_bridged_by_what_is_around_it() {
        let mut trials: Vec<(Cell, Row)> = [0.0, 0.1, 0.2]
            .map(|loss| trial(60, loss, 0, 500.0 + 1000.0 * loss))
            .to_vec();
        trials.extend([0.0, 0.2].map(|loss| trial(600, loss, 0, 1600.0 * (1.0 + loss))));
        let field = only(&trials);
        let figure = at(&field, 200.0, 0.1, false).expect("it lies inside");
        let is_between = (600.0..1760.0).contains(&figure.value);
        assert!(is_between && figure.points == 3, "{figure:?}");
    }

    #[test]
    fn a_mean_of_few_messages_that_differ_much_is_no_certain_one() {
        let (cell, row) = trial(60, 0.2, 0, 500.0);
        let response = crate::cell::Quantiles {
            count: 100,
            mean: 100_000.0,
            sd: 300_000.0,
            ..Default::default()
        };
        let field = only(&[(cell, Row { response, ..row })]);
        let point = field
            .point(|_| None, Metric::Latency)
            .map(|(point, _)| point);
        let figure = point.and_then(|point| field.figure(0, Metric::Latency, &point, false));
        let figure = figure.expect("it was measured");
        assert!(figure.is_assumed);
        is_near(figure, (100_000.0, 0.1), (0.588, 1e-3));
    }

    #[test]
    fn what_does_not_count_is_not_there() {
        let (cell, row) = trial(60, 0.0, 0, 500.0);
        let late = Row {
            standing: Standing::GeneratorLimited("late".to_owned()),
            ..row
        };
        let profile = &energy::PROFILES[0];
        assert!(fields(0, &[(cell, late)], profile).is_empty());
    }

    #[test]
    fn what_is_not_asked_for_is_where_most_was_measured() {
        let trials = [
            trial(60, 0.0, 0, 500.0),
            trial(60, 0.1, 0, 600.0),
            trial(600, 0.0, 0, 1600.0),
        ];
        let field = only(&trials);
        let (point, told) = field
            .point(|_| None, Metric::Bytes)
            .expect("there is something");
        let on = [Axis::Payload, Axis::Loss, Axis::Rate].map(|axis| point.on(axis));
        assert_eq!(on, [60.0, 0.0, 1.0]);
        assert_eq!(told.len(), AXES.len());
    }
}
