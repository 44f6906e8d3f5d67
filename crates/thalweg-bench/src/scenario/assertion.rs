//! What has to come out: `bytes_per_msg[mqtt,qos2] > bytes_per_msg[mqtt,qos1] where loss<=5%`.
//!
//! ```text
//!   assertion = side cmp side ["where" cond {("," | "and") cond}]
//!   side      = [NUMBER "*"] METRIC ["[" word {"," word} "]"]  |  QUANTITY          cmp = < <= > >= == !=
//!   cond      = AXIS cmp VALUE
//! ```
//!
//! A metric is one of `results::metric`. Words in brackets choose points: protocol of the publisher, `qos1`, `con`, `non`, the
//! system, the driver, or a value of an axis, alone (`mqtt`) or with its name (`size=60B`). A point's value is the median over
//! its valid repeats. Two metrics are compared at every point that both sides have: points that agree in all axes except
//! those by which the brackets tell the sides apart. All must hold, and there must be one.

use std::collections::{BTreeMap, BTreeSet};

use super::values::{bytes, part, time};
use crate::cell::{Cell, Load, Protocol, Row, Standing, Workload, word};
use crate::net::units;
use crate::results::metric::{METRICS, Metric, Unit, metric};
use crate::scenario::section::nearest;
use crate::stats::median;

#[derive(Clone, Debug)]
pub struct Assertion {
    text: String,
    left: Side,
    compare: Compare,
    right: Side,
    conditions: Vec<Condition>,
}

/// What became of an assertion.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// As the scenario has it.
    pub text: String,
    /// Comparisons that were made.
    pub compared: usize,
    /// Those that did not hold, in words.
    pub failed: Vec<String>,
}

impl Judged {
    /// Whether it holds: somewhere, and nowhere not.
    pub fn holds(&self) -> bool {
        self.compared > 0 && self.failed.is_empty()
    }
}

impl Assertion {
    pub fn parse(text: &str) -> Result<Assertion, String> {
        parse(text).map_err(|why| format!("assert: {text}: {why}"))
    }

    /// As the scenario has it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it holds for these rows; only valid ones count.
    pub fn judge(&self, trials: &[(Cell, Row)]) -> Judged {
        let points = points(trials, &self.conditions);
        let (left, right) = (values(&self.left, &points), values(&self.right, &points));
        let apart = apart(&left, &right);
        let mut judged = Judged {
            text: self.text.clone(),
            compared: 0,
            failed: Vec::new(),
        };
        for one in &left {
            for other in &right {
                if !one.agrees(other, &apart) {
                    continue;
                }
                judged.compared += 1;
                if !self.compare.holds(one.value, other.value) {
                    let unit = self
                        .left
                        .unit()
                        .or(self.right.unit())
                        .unwrap_or(Unit::Number);
                    let written = |value| unit.written(value);
                    let at = one.name().or(other.name()).unwrap_or_default();
                    judged.failed.push(format!(
                        "{at}: {} {} {}",
                        written(one.value),
                        self.compare.not(),
                        written(other.value)
                    ));
                }
            }
        }
        judged
    }
}

/// A side of a comparison.
#[derive(Clone, Debug)]
enum Side {
    Constant(f64),
    Figure {
        factor: f64,
        metric: &'static Metric,
        words: Vec<String>,
    },
}

impl Side {
    fn unit(&self) -> Option<Unit> {
        match self {
            Side::Constant(_) => None,
            Side::Figure { metric, .. } => Some(metric.unit),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Compare {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
    Unequal,
}

impl Compare {
    const ALL: [(&'static str, Compare); 6] = [
        ("<=", Compare::LessOrEqual),
        (">=", Compare::GreaterOrEqual),
        ("==", Compare::Equal),
        ("!=", Compare::Unequal),
        ("<", Compare::Less),
        (">", Compare::Greater),
    ];

    fn holds(self, left: f64, right: f64) -> bool {
        match self {
            Compare::Less => left < right,
            Compare::LessOrEqual => left <= right,
            Compare::Greater => left > right,
            Compare::GreaterOrEqual => left >= right,
            Compare::Equal => left == right,
            Compare::Unequal => left != right,
        }
    }

    /// What was found instead.
    fn not(self) -> &'static str {
        match self {
            Compare::Less => "is not less than",
            Compare::LessOrEqual => "is more than",
            Compare::Greater => "is not more than",
            Compare::GreaterOrEqual => "is less than",
            Compare::Equal => "is not",
            Compare::Unequal => "is",
        }
    }
}

#[derive(Clone, Debug)]
struct Condition {
    name: String,
    compare: Compare,
    value: String,
}

impl Condition {
    /// Unknown names hold nowhere: no point is compared then, and the assertion fails.
    fn holds(&self, cell: &Cell) -> bool {
        if let Some((ours, asked)) = field(cell, &self.name).zip(quantity(&self.value)) {
            return self.compare.holds(ours, asked);
        }
        let ours = match self.name.as_str() {
            "system" => Some(&cell.system),
            name => cell.axes.get(name),
        };
        ours.is_some_and(|ours| match self.compare {
            Compare::Equal => *ours == self.value,
            Compare::Unequal => *ours != self.value,
            compare => quantity(ours)
                .zip(quantity(&self.value))
                .is_some_and(|(ours, asked)| compare.holds(ours, asked)),
        })
    }
}

/// All repeats of a point.
struct Point<'a> {
    cell: &'a Cell,
    rows: Vec<&'a Row>,
}

/// A point's value; a constant has no cell.
struct Valued<'a> {
    cell: Option<&'a Cell>,
    value: f64,
}

impl Valued<'_> {
    fn agrees(&self, other: &Valued<'_>, apart: &BTreeSet<String>) -> bool {
        let (Some(ours), Some(theirs)) = (self.cell, other.cell) else {
            return true;
        };
        ours.axes
            .iter()
            .all(|(name, value)| apart.contains(name) || theirs.axes.get(name) == Some(value))
    }

    fn name(&self) -> Option<String> {
        self.cell.map(Cell::point)
    }
}

fn points<'a>(trials: &'a [(Cell, Row)], conditions: &[Condition]) -> Vec<Point<'a>> {
    let mut points: BTreeMap<&BTreeMap<String, String>, Point<'a>> = BTreeMap::new();
    for (cell, row) in trials {
        if row.standing == Standing::Valid
            && conditions.iter().all(|condition| condition.holds(cell))
        {
            points
                .entry(&cell.axes)
                .or_insert_with(|| Point {
                    cell,
                    rows: Vec::new(),
                })
                .rows
                .push(row);
        }
    }
    points.into_values().collect()
}

fn values<'a>(side: &Side, points: &[Point<'a>]) -> Vec<Valued<'a>> {
    match side {
        Side::Constant(value) => vec![Valued {
            cell: None,
            value: *value,
        }],
        Side::Figure {
            factor,
            metric,
            words,
        } => {
            let chosen = points.iter().filter(|point| {
                let labels = labels(point.cell);
                words.iter().all(|word| labels.contains(word.as_str()))
            });
            let value = |point: &Point<'a>| {
                let figures: Vec<f64> = point
                    .rows
                    .iter()
                    .filter_map(|row| (metric.of)(point.cell, row))
                    .collect();
                Some(Valued {
                    cell: Some(point.cell),
                    value: factor * median(&figures)?,
                })
            };
            chosen.filter_map(value).collect()
        }
    }
}

/// Axes of which the sides have no value in common.
fn apart(left: &[Valued<'_>], right: &[Valued<'_>]) -> BTreeSet<String> {
    let of = |side: &[Valued<'_>], name: &str| {
        side.iter()
            .filter_map(|valued| valued.cell?.axes.get(name).cloned())
            .collect::<BTreeSet<_>>()
    };
    let names = left
        .iter()
        .filter_map(|valued| valued.cell)
        .flat_map(|cell| cell.axes.keys());
    names
        .filter(|name| of(left, name).is_disjoint(&of(right, name)))
        .cloned()
        .collect()
}

/// Words that choose a point.
pub fn labels(cell: &Cell) -> BTreeSet<String> {
    let mut labels = BTreeSet::from([
        cell.system.clone(),
        word(cell.publish.protocol),
        format!("qos{}", cell.publish.qos),
        format!("publish={}", word(cell.publish.protocol)),
        format!("subscribe={}", word(cell.subscribe.protocol)),
        word(cell.driver),
    ]);
    if cell.system == "thalweg" {
        labels.insert("own".to_owned());
    }
    if cell.publish.protocol == Protocol::Coap {
        labels.insert(if cell.publish.qos > 0 { "con" } else { "non" }.to_owned());
    }
    for (name, value) in &cell.axes {
        labels.insert(format!("{name}={value}"));
        labels.extend(value.split(',').map(str::to_owned));
    }
    labels
}

/// What a condition may ask for, in units of the cell.
fn field(cell: &Cell, name: &str) -> Option<f64> {
    Some(match name {
        "loss" => cell.link.loss,
        "delay" => cell.link.delay_ns as f64,
        "jitter" => cell.link.jitter_ns as f64,
        "link_rate" => cell.link.rate? as f64,
        "reorder" => cell.link.reorder,
        "duplicate" => cell.link.duplicate,
        "size" => match cell.workload {
            Workload::Fixed { bytes }
            | Workload::Json { bytes }
            | Workload::Beside { bytes, .. } => f64::from(bytes),
            Workload::Trace { .. } | Workload::Class { .. } => return None,
        },
        "rate" => match cell.load {
            Load::Open { rate, .. } => rate,
            _ => return None,
        },
        "flows" => f64::from(cell.load.flows()),
        "fan_out" => f64::from(cell.fan_out),
        "qos" => f64::from(cell.publish.qos),
        "window" => f64::from(cell.publish.window),
        _ => return None,
    })
}

/// A quantity in units of a cell: parts of one, nanoseconds, bytes, bits a second, times a second; or a bare number.
fn quantity(text: &str) -> Option<f64> {
    let read = [
        part(text).ok(),
        time(text).ok().map(|nanos| nanos as f64),
        units::frequency(text).ok(),
        units::rate(text).ok().map(|bits| bits as f64),
        bytes(text).ok().map(f64::from),
        text.parse().ok(),
    ];
    read.into_iter().flatten().next()
}

/// A quantity in the unit of a metric.
fn constant(text: &str, unit: Unit) -> Result<f64, String> {
    match unit {
        Unit::Micros => Ok(time(text)? as f64 / 1e3),
        Unit::Seconds => Ok(time(text)? as f64 / 1e9),
        Unit::Part => part(text),
        Unit::Bytes => bytes(text).map(f64::from),
        Unit::Kibibytes => Ok(f64::from(bytes(text)?) / 1024.0),
        Unit::PerSecond if text.trim_start_matches('0') == "/s" => Ok(0.0),
        Unit::PerSecond => units::frequency(text),
        Unit::Count | Unit::Number => text
            .parse()
            .map_err(|_| format!("{text}: a bare number is expected")),
    }
}

fn parse(text: &str) -> Result<Assertion, String> {
    let (claim, conditions) = match text.split_once(" where ") {
        Some((claim, conditions)) => (claim, conditions),
        None => (text, ""),
    };
    let (left, compare, right) = split(claim)?;
    let (figure, other) = (figure(left)?, figure(right)?);
    let (left, right) = match (figure, other) {
        (Some(one), Some(two)) if one.unit() != two.unit() => {
            return Err("the sides have different units".to_owned());
        }
        (Some(one), Some(two)) => (one, two),
        (
            Some(Side::Figure {
                factor,
                metric,
                words,
            }),
            None,
        ) => (
            Side::Figure {
                factor,
                metric,
                words,
            },
            Side::Constant(constant(right, metric.unit)?),
        ),
        (
            None,
            Some(Side::Figure {
                factor,
                metric,
                words,
            }),
        ) => (
            Side::Constant(constant(left, metric.unit)?),
            Side::Figure {
                factor,
                metric,
                words,
            },
        ),
        _ => {
            let names: Vec<&str> = METRICS.iter().map(|metric| metric.name).collect();
            let hint = nearest(left.split('[').next().unwrap_or_default().trim(), &names);
            let hint = hint.map_or_else(
                || format!("there are {}", names.join(", ")),
                |name| format!("did you mean {name}?"),
            );
            return Err(format!("no figure is compared: {hint}"));
        }
    };
    let conditions = conditions.replace(" and ", ",");
    let mut pieces: Vec<String> = Vec::new();
    for piece in conditions
        .split(',')
        .map(str::trim)
        .filter(|piece| !piece.is_empty())
    {
        match pieces.last_mut() {
            // A value of an axis may have commas: `protocol==coap,con`.
            Some(last) if split(piece).is_err() => *last += &format!(",{piece}"),
            _ => pieces.push(piece.to_owned()),
        }
    }
    let conditions = pieces.iter();
    let conditions = conditions.map(|condition| {
        let (name, compare, value) = split(condition)?;
        Ok(Condition {
            name: name.to_owned(),
            compare,
            value: value.to_owned(),
        })
    });
    Ok(Assertion {
        text: text.to_owned(),
        left,
        compare,
        right,
        conditions: conditions.collect::<Result<_, String>>()?,
    })
}

/// Cuts at the comparison outside of brackets, in which `=` may stand.
fn split(text: &str) -> Result<(&str, Compare, &str), String> {
    let mut depth = 0_i32;
    for (at, c) in text.char_indices() {
        depth += i32::from(c == '[') - i32::from(c == ']');
        let rest = text.get(at..).unwrap_or_default();
        if depth == 0
            && let Some((sign, compare)) =
                Compare::ALL.iter().find(|(sign, _)| rest.starts_with(sign))
        {
            let (left, right) = (
                text.get(..at).unwrap_or_default(),
                rest.get(sign.len()..).unwrap_or_default(),
            );
            return Ok((left.trim(), *compare, right.trim()));
        }
    }
    Err("there is no <, <=, >, >=, == or !=".to_owned())
}

/// A figure, or none if it is something else.
fn figure(text: &str) -> Result<Option<Side>, String> {
    let (factor, rest) = match text.split_once('*') {
        Some((factor, rest)) => {
            let factor = factor.trim();
            (
                factor
                    .parse::<f64>()
                    .map_err(|_| format!("{factor}: a number is expected before *"))?,
                rest.trim(),
            )
        }
        None => (1.0, text),
    };
    let (name, words) = match rest.split_once('[') {
        Some((name, words)) => {
            let words = words
                .strip_suffix(']')
                .ok_or_else(|| format!("{rest}: ] is missing"))?;
            (
                name.trim(),
                words
                    .split(',')
                    .map(|word| word.trim().to_owned())
                    .collect(),
            )
        }
        None => (rest, Vec::new()),
    };
    match metric(name) {
        Some(metric) => Ok(Some(Side::Figure {
            factor,
            metric,
            words,
        })),
        None if rest.contains('[') => {
            let names: Vec<&str> = METRICS.iter().map(|metric| metric.name).collect();
            let hint = nearest(name, &names)
                .map_or_else(String::new, |name| format!("; did you mean {name}?"));
            Err(format!("{name}: there is no such figure{hint}"))
        }
        None => Ok(None),
    }
}
