//! E2d: whether the client that chooses its protocol does as well as who knows beforehand which one is better: this project's
//! bars, for each payload and delay that was run.

use super::group::{Group, name};
use super::shape::{Evidence, Found, Shape};
use crate::cell::{Cell, Row};
use crate::e2d::plan::{ADAPTIVE, step_of};
use crate::report::stat::{Stat, short};

/// What a message of a step cost, by what a client may be after; and its unit.
pub const COSTS: [(&str, &str, Cost); 2] = [
    ("bytes", "Ethernet B / published message", bytes),
    ("latency", "mean latency, ms", latency),
];

type Cost = fn(&Row) -> Option<f64>;

fn bytes(row: &Row) -> Option<f64> {
    Some(row.wire_bytes? as f64 / row.intended as f64)
}

fn latency(row: &Row) -> Option<f64> {
    (row.response.count > 0).then_some(row.response.mean * 1e-3)
}

/// How messages find their protocol, in words.
pub fn who(cell: &Cell) -> String {
    match cell.axes.get(ADAPTIVE) {
        Some(goal) => format!("adaptive, {goal}"),
        None => name(cell.publish.protocol).to_owned(),
    }
}

/// All steps of courses that differ in nothing but who chooses the protocol.
#[derive(Clone, Debug)]
pub struct Condition<'g> {
    /// Size, delay and whatever else tells them apart.
    pub name: String,
    /// The steps, in their order.
    pub groups: Vec<&'g Group>,
}

/// The conditions there are, the first first.
pub fn conditions(groups: &[Group]) -> Vec<Condition<'_>> {
    let mut all: Vec<Condition<'_>> = Vec::new();
    for group in groups.iter().filter(|it| it.cell.experiment == "E2d") {
        let name = format!(
            "{} B, {}",
            group.payload().unwrap_or(0),
            group.axis("delay")
        );
        match all.iter_mut().find(|condition| condition.name == name) {
            Some(condition) => condition.groups.push(group),
            None => all.push(Condition {
                name,
                groups: vec![group],
            }),
        }
    }
    for condition in &mut all {
        condition.groups.sort_by_key(|group| step_of(&group.cell));
    }
    all.sort_by(|one, other| one.name.cmp(&other.name));
    all
}

impl Condition<'_> {
    /// The steps of one way.
    pub fn of(&self, way: &str) -> Vec<&Group> {
        let all = self.groups.iter().copied();
        all.filter(|group| who(&group.cell) == way).collect()
    }

    fn of_adaptive(&self) -> impl Iterator<Item = &Group> {
        let all = self.groups.iter().copied();
        all.filter(|group| group.cell.axes.contains_key(ADAPTIVE))
    }

    /// By how much the costs of an adaptive course, summed over its steps, are above those of the better fixed protocol of
    /// each step, which is not known beforehand; as a part of these, over the repeats.
    fn regret(&self, goal: &str, cost: Cost) -> Option<Stat> {
        let means = |way: &str| -> Vec<f64> {
            let steps = self.of(way).into_iter();
            steps
                .filter_map(|step| Some(step.stat(cost)?.mean))
                .collect()
        };
        let (mqtt, coap) = (means("MQTT"), means("CoAP"));
        let adaptive = self.of(&format!("adaptive, {goal}"));
        if mqtt.len() != adaptive.len() || coap.len() != adaptive.len() {
            return None;
        }
        let both = mqtt.iter().zip(&coap);
        let best: f64 = both.map(|(one, other)| one.min(*other)).sum();
        // The steps of a course are written together, so the n-th rows of all steps are of one course.
        let repeats = adaptive.iter().map(|step| step.rows.len()).min()?;
        let of_repeat = |repeat: usize| {
            let costs = adaptive.iter().map(|step| cost(step.rows.get(repeat)?));
            Some(costs.sum::<Option<f64>>()? / best - 1.0)
        };
        Stat::of(&(0..repeats).filter_map(of_repeat).collect::<Vec<f64>>())
    }
}

/// What became of all statements.
pub fn shapes(groups: &[Group]) -> Vec<Shape> {
    let conditions = conditions(groups);
    let shape = |id, ours| {
        let baseline = Found::not_asked("no study: the client and the bars are this project's");
        Shape::of(id, baseline, ours)
    };
    let [bytes, latency] = COSTS;
    vec![
        shape("S2d.1", delivered(&conditions)),
        shape("S2d.2", regretted(&conditions, bytes)),
        shape("S2d.3", regretted(&conditions, latency)),
        shape("S2d.4", switches(&conditions)),
        shape("S2d.5", kept(&conditions)),
    ]
}

/// What is found of a condition: figures, whether they are as the bar has them, and words for no and for not known.
type Findings = (String, Option<bool>, String);

fn judged<'c>(
    conditions: &'c [Condition<'_>],
    of: impl Fn(&'c Condition<'_>) -> Option<Findings>,
) -> Found {
    let mut all = Evidence::default();
    for condition in conditions {
        if let Some((figures, holds, words)) = of(condition) {
            let words = format!("{}: {words}", condition.name);
            all.figure(format!("{}: {figures}", condition.name));
            all.compared(holds, words.clone(), words);
        }
    }
    all.found("; ")
}

fn sum<'g>(groups: impl Iterator<Item = &'g Group>, of: fn(&Row) -> u64) -> u64 {
    groups.flat_map(|group| &group.rows).map(of).sum()
}

fn delivered(conditions: &[Condition<'_>]) -> Found {
    judged(conditions, |condition| {
        let (mut figures, mut are_all) = (Vec::new(), true);
        for way in ["MQTT", "CoAP"] {
            let of = |of| sum(condition.of(way).into_iter(), of);
            let (came, all) = (of(|row| row.delivered), of(|row| row.intended));
            if all > 0 {
                figures.push(format!("{way} {came} of {all}"));
                are_all &= came >= all;
            }
        }
        let missing = "messages are missing".to_owned();
        (!figures.is_empty()).then(|| (figures.join(", "), Some(are_all), missing))
    })
}

fn regretted(conditions: &[Condition<'_>], (goal, _, cost): (&str, &str, Cost)) -> Found {
    judged(conditions, |condition| {
        let regret = condition.regret(goal, cost)?.times(100.0);
        let figures = format!("{} %", regret.spread());
        let reaches = regret.mean + regret.half;
        Some(match (regret.mean > REGRET_MAX, reaches > REGRET_MAX) {
            (true, _) => (figures, Some(false), format!("above {REGRET_MAX} %")),
            (false, false) => (figures, Some(true), String::new()),
            (false, true) => {
                let words = "the interval of the repeats reaches";
                (figures, None, format!("{words} {} %", short(reaches)))
            }
        })
    })
}

fn switches(conditions: &[Condition<'_>]) -> Found {
    judged(conditions, |condition| {
        let most = |who: &str| {
            let of = |group: &Group| Some(group.more(who)?.range.1);
            condition.of_adaptive().filter_map(of).reduce(f64::max)
        };
        let (publisher, subscriber) = (most("publisher_switches")?, most("subscriber_switches")?);
        Some((
            format!("publisher {publisher}, subscriber {subscriber}"),
            Some(publisher.max(subscriber) <= SWITCHES_MAX),
            format!("more than {SWITCHES_MAX} in a step"),
        ))
    })
}

fn kept(conditions: &[Condition<'_>]) -> Found {
    judged(conditions, |condition| {
        let of = |of| sum(condition.of_adaptive(), of);
        let all = of(|row| row.intended);
        let (lost, again) = (of(|row| row.lost), of(|row| row.duplicates));
        let overtaken = of(|row| row.reordered);
        let words = format!("{lost} lost, {again} repeated, {overtaken} out of order");
        let is_kept = lost + again + overtaken == 0;
        (all > 0).then(|| (format!("of {all}, {words}"), Some(is_kept), words))
    })
}

/// Percent that an adaptive course may take above the best.
const REGRET_MAX: f64 = 15.0;
/// In a step, of publisher and of subscriber.
const SWITCHES_MAX: f64 = 2.0;
