//! Outside of what was measured: what is missing, and the command that would measure it.

use super::RecommendArgs;
use super::axes::{AXES, Axis, Point, short};
use super::field::Field;
use super::measure::Metric;
use super::query::size_flag;
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

/// Why a choice is no candidate at a point.
#[derive(Clone, Debug)]
pub struct Gap {
    pub source: String,
    pub choice: String,
    pub lack: Lack,
    pub why: String,
}

/// What a choice lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// It was measured, and breaks a constraint.
    Broken,
    /// It was measured, and is not known to keep a constraint.
    Unproven,
    /// The point is beyond what was measured of it, on some axis.
    Beyond,
    /// On each axis the point is between, but not on all together.
    Hole,
    /// It was not measured anywhere.
    Unknown,
}

impl Lack {
    /// Whether nothing is known of it at the point.
    pub fn is_outside(self) -> bool {
        matches!(self, Lack::Beyond | Lack::Hole | Lack::Unknown)
    }
}

impl Gap {
    /// One that was not measured around a point.
    pub fn outside(
        query: &RecommendArgs,
        source: &Source,
        field: &Field,
        choice: usize,
        point: &Point,
        metric: Metric,
    ) -> Gap {
        let beyond = |axis: Axis| {
            let (from, to) = field.range(axis, &[choice], metric)?;
            let value = query.on(axis).map(|_| point.on(axis))?;
            let is_near = |edge| axis.is_near(edge, value);
            if (from <= value && value <= to) || is_near(from) || is_near(to) {
                return None;
            }
            let known = match axis.is_near(from, to) {
                true => format!("only at {}", axis.words(from)),
                false => format!("from {} to {}", axis.words(from), axis.words(to)),
            };
            Some(format!("{} is asked for, known {known}", axis.words(value)))
        };
        let ranges: Vec<String> = AXES.into_iter().filter_map(beyond).collect();
        let name = metric.name();
        let (lack, why) = match (field.has(choice, metric), source.about.kind) {
            _ if !ranges.is_empty() => (Lack::Beyond, ranges.join("; ")),
            (false, _) => (Lack::Unknown, format!("{name} not known")),
            (true, kind) => {
                let measured = kind == SourceKind::Measured;
                let verb = if measured { "was measured" } else { "is known" };
                let why = format!("{name} {verb}, but not all around this point");
                (Lack::Hole, why)
            }
        };
        Gap {
            source: source.about.name.clone(),
            choice: field.choices[choice].name(),
            lack,
            why,
        }
    }

    pub fn words(&self) -> String {
        format!("{}: {}", self.choice, self.why)
    }
}

impl Refusal {
    /// From what was found missing.
    pub fn new(query: &RecommendArgs, gaps: Vec<Gap>, is_empty: bool) -> Refusal {
        let (outside, breaches): (Vec<Gap>, Vec<Gap>) =
            gaps.into_iter().partition(|gap| gap.lack.is_outside());
        let mut reasons: Vec<String> = breaches.iter().map(Gap::words).collect();
        for gap in &outside {
            let line = match gap.lack {
                Lack::Unknown => continue,
                Lack::Beyond => format!("{}: {}", gap.source, gap.why),
                _ => format!("{}: {}", gap.source, gap.words()),
            };
            if !reasons.contains(&line) {
                reasons.push(line);
            }
        }
        if is_empty {
            reasons.push("the data have nothing of this kind that counts".to_owned());
        } else if reasons.is_empty() {
            let goals: Vec<String> = query.goals().iter().map(|(it, _)| it.name()).collect();
            let goals = goals.join(" or ");
            reasons.push(format!("the data have no {goals} of what is not left out"));
        }
        reasons.truncate(MOST_REASONS);
        Refusal {
            reasons,
            command: command(query),
            // What is not known to keep them is no candidate; that something breaks them has to be known.
            is_broken: breaches.iter().any(|gap| gap.lack == Lack::Broken),
            is_partial: outside.iter().any(|gap| gap.lack != Lack::Unknown),
        }
    }
}

/// What measures the point that is asked for, with all protocols of the common API.
pub fn command(query: &RecommendArgs) -> String {
    if let Some(members) = &query.members {
        let times = members
            .0
            .iter()
            .map(|time| format!("{}ms", short(1e3 * time)));
        return format!(
            "thalweg bench sim share --members {} --service deterministic --arrivals periodic",
            times.collect::<Vec<_>>().join(",")
        );
    }
    let on = |axis: Axis, otherwise: f64| query.on(axis).unwrap_or(otherwise);
    let size = size_flag(on(Axis::Payload, 60.0));
    let delay = plain(on(Axis::RoundTrip, 0.0) / 2.0);
    let mut sets = vec![
        format!("workload.size={size}"),
        format!("load.rate={}/s", plain(on(Axis::Rate, 1.0))),
        format!("load.flows={}", plain(on(Axis::Pairs, 10.0))),
        format!("topology.link.loss={}%", plain(100.0 * on(Axis::Loss, 0.0))),
        format!("topology.link.delay={delay}ms"),
    ];
    let fan_out = query.on(Axis::FanOut).map(plain);
    sets.extend(fan_out.map(|it| format!("load.fan_out={it}")));
    let rate = query.bandwidth.map(|it| plain(it as f64 / 1000.0));
    sets.extend(rate.map(|it| format!("topology.link.rate={it}kbit")));
    let system = query.system.as_ref();
    sets.extend(system.map(|it| format!("system.name={it}")));
    // How much is carried is not found at one rate: there the rate is where the search begins.
    let goals = query.goals();
    let wants_ceiling = goals.iter().all(|(it, _)| *it == Metric::Throughput);
    let verb = if wants_ceiling { "saturate" } else { "run" };
    let sets = sets.join(" --set ");
    format!("thalweg bench {verb} {SCENARIO} --set {sets} --out point")
}

/// A number without an exponent and without zeros behind.
fn plain(number: f64) -> String {
    let text = format!("{number:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Ships with the repository.
pub const SCENARIO: &str = "examples/scenarios/point.yaml";

const MOST_REASONS: usize = 12;
