//! Outside of what was measured: what is missing, and the command that would measure it.

use super::RecommendArgs;
use super::axes::{AXES, Axis, Point, short};
use super::field::Field;
use super::measure::Metric;
use super::query::size_flag;
use super::ranking::Missing;
use super::sources::{Source, SourceKind};

/// Why there is no answer.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// What was asked for and what was measured, each in a line.
    pub reasons: Vec<String>,
    /// What would measure it.
    pub command: String,
    /// What was measured at this point breaks the constraints, or is not known to keep them.
    pub is_broken: bool,
    /// Some choices were not measured at this point.
    pub is_partial: bool,
}

/// A choice that was not measured around a point.
#[derive(Clone, Debug)]
pub struct Outside {
    source: String,
    is_measured: bool,
    choice: String,
    metric: Metric,
    /// Axes on which the point is beyond what was measured: from, to.
    pub axes: Vec<(Axis, f64, f64, f64)>,
    /// On each axis it is between, but not all together.
    pub is_hole: bool,
}

impl Outside {
    /// What is missing of a choice.
    pub fn new(
        source: &Source,
        field: &Field,
        choice: usize,
        point: &Point,
        metric: Metric,
        asked: impl Fn(Axis) -> Option<f64>,
    ) -> Outside {
        let beyond = |axis: Axis| {
            let (from, to) = field.range(axis, &[choice], metric)?;
            let value = point.on(axis);
            let is_inside = (from <= value && value <= to)
                || axis.is_near(from, value)
                || axis.is_near(to, value);
            (!is_inside && asked(axis).is_some()).then_some((axis, value, from, to))
        };
        let axes: Vec<_> = AXES.into_iter().filter_map(beyond).collect();
        Outside {
            source: source.name.clone(),
            is_measured: source.kind == SourceKind::Measured,
            choice: field
                .choices
                .get(choice)
                .map_or_else(String::new, super::Choice::name),
            metric,
            is_hole: axes.is_empty() && field.has(choice, metric),
            axes,
        }
    }

    pub fn words(&self) -> String {
        let verb = if self.is_measured {
            "was measured"
        } else {
            "is known"
        };
        if self.is_hole {
            return format!(
                "{}: {} {verb}, but not all around this point",
                self.choice,
                self.metric.name()
            );
        }
        if self.axes.is_empty() {
            return format!("{}: {} not known", self.choice, self.metric.name());
        }
        let ranges: Vec<String> = self.axes.iter().map(|it| range(*it)).collect();
        format!("{}: {}", self.choice, ranges.join("; "))
    }
}

fn range((axis, value, from, to): (Axis, f64, f64, f64)) -> String {
    let measured = if axis.is_near(from, to) {
        format!("only at {}", axis.words(from))
    } else {
        format!("from {} to {}", axis.words(from), axis.words(to))
    };
    format!("{} is asked for, known {measured}", axis.words(value))
}

impl Refusal {
    /// From what was found missing.
    pub fn new(query: &RecommendArgs, missing: Missing, fields: &[Field]) -> Refusal {
        let Missing { outside, broken } = missing;
        // What is not known to keep them is no candidate; that something breaks them has to be known.
        let is_broken = broken.iter().any(|(_, breach)| breach.is_known);
        let is_partial = !outside.is_empty();
        let mut reasons: Vec<String> = broken
            .into_iter()
            .map(|(name, breach)| format!("{name}: {}", breach.words))
            .collect();
        for it in &outside {
            let words = match it.axes.as_slice() {
                [] => it.words(),
                axes => axes
                    .iter()
                    .map(|it| range(*it))
                    .collect::<Vec<_>>()
                    .join("; "),
            };
            let line = format!("{}: {words}", it.source);
            if !reasons.contains(&line) {
                reasons.push(line);
            }
        }
        if fields.is_empty() {
            reasons.push("the data have nothing of this kind that counts".to_owned());
        } else if reasons.is_empty() {
            let goals: Vec<&str> = query
                .goals()
                .iter()
                .map(|(metric, _)| metric.name())
                .collect();
            reasons.push(format!(
                "the data have no {} of what is not left out",
                goals.join(" or ")
            ));
        }
        reasons.truncate(MOST_REASONS);
        Refusal {
            reasons,
            command: command(query),
            is_broken,
            is_partial,
        }
    }
}

/// What measures the point that is asked for, with all protocols of the common API.
pub fn command(query: &RecommendArgs) -> String {
    if let Some(members) = &query.members {
        let times: Vec<String> = members
            .0
            .iter()
            .map(|time| format!("{}ms", short(*time)))
            .collect();
        return format!(
            "thalweg bench sim share --members {} --service deterministic --arrivals periodic",
            times.join(",")
        );
    }
    let on = |axis: Axis, otherwise: f64| query.on(axis).unwrap_or(otherwise);
    let mut sets = vec![
        format!("workload.size={}", size_flag(on(Axis::Payload, 60.0))),
        format!("load.rate={}/s", plain(on(Axis::Rate, 1.0))),
        format!("load.flows={}", plain(on(Axis::Pairs, 10.0))),
        format!("topology.link.loss={}%", plain(100.0 * on(Axis::Loss, 0.0))),
        format!(
            "topology.link.delay={}ms",
            plain(on(Axis::RoundTrip, 0.0) / 2.0)
        ),
    ];
    if let Some(fan_out) = query.on(Axis::FanOut) {
        sets.push(format!("load.fan_out={}", plain(fan_out)));
    }
    if let Some(bandwidth) = query.bandwidth {
        sets.push(format!(
            "topology.link.rate={}kbit",
            plain(bandwidth as f64 / 1000.0)
        ));
    }
    if let Some(system) = &query.system {
        sets.push(format!("system.name={system}"));
    }
    let sets: Vec<String> = sets.into_iter().map(|set| format!("--set {set}")).collect();
    // How much is carried is not found at one rate: there the rate is where the search begins.
    let wants_ceiling = query
        .goals()
        .iter()
        .all(|(metric, _)| *metric == Metric::Throughput);
    let verb = if wants_ceiling { "saturate" } else { "run" };
    format!(
        "thalweg bench {verb} {SCENARIO} {} --out point",
        sets.join(" ")
    )
}

/// A number without an exponent and without zeros behind.
fn plain(number: f64) -> String {
    let text = format!("{number:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Ships with the repository.
pub const SCENARIO: &str = "examples/scenarios/point.yaml";

const MOST_REASONS: usize = 12;
