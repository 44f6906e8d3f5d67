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

use super::section;
use super::values::{bytes, part, time};
use crate::cell::{Cell, Load, Protocol, Row, Standing, Workload, word};
use crate::net::units;
use crate::results::metric::{METRICS, Metric, Unit, metric};
use crate::stats::median;

#[derive(Clone, Debug)]
pub struct Assertion {
    text: String,
    left: Side,
    compare: &'static Compare,
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
        let unit = self
            .left
            .unit()
            .or(self.right.unit())
            .unwrap_or(Unit::Number);
        for one in &left {
            for other in right.iter().filter(|other| one.agrees(other, &apart)) {
                judged.compared += 1;
                if !(self.compare.holds)(&one.value, &other.value) {
                    let at = one.cell.or(other.cell).map(Cell::point).unwrap_or_default();
                    let [ours, theirs] = [one, other].map(|it| unit.written(it.value));
                    let words = format!("{at}: {ours} {} {theirs}", self.compare.not);
                    judged.failed.push(words);
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
    Figure(Figure),
}

#[derive(Clone, Debug)]
struct Figure {
    factor: f64,
    metric: &'static Metric,
    words: Vec<String>,
}

impl Side {
    fn unit(&self) -> Option<Unit> {
        match self {
            Side::Constant(_) => None,
            Side::Figure(figure) => Some(figure.metric.unit),
        }
    }
}

/// How two figures are compared.
#[derive(Debug)]
struct Compare {
    sign: &'static str,
    holds: fn(&f64, &f64) -> bool,
    /// What was found instead.
    not: &'static str,
}

const fn compare(sign: &'static str, holds: fn(&f64, &f64) -> bool, not: &'static str) -> Compare {
    Compare { sign, holds, not }
}

/// A sign that begins with another one comes first.
static COMPARISONS: [Compare; 6] = [
    compare("<=", f64::le, "is more than"),
    compare(">=", f64::ge, "is less than"),
    compare("==", f64::eq, "is not"),
    compare("!=", f64::ne, "is"),
    compare("<", f64::lt, "is not less than"),
    compare(">", f64::gt, "is not more than"),
];

#[derive(Clone, Debug)]
struct Condition {
    name: String,
    compare: &'static Compare,
    value: String,
}

impl Condition {
    /// Unknown names hold nowhere: no point is compared then, and the assertion fails.
    fn holds(&self, cell: &Cell) -> bool {
        let asked = quantity(&self.value);
        if let Some((ours, asked)) = field(cell, &self.name).zip(asked) {
            return (self.compare.holds)(&ours, &asked);
        }
        let ours = match self.name.as_str() {
            "system" => Some(&cell.system),
            name => cell.axes.get(name),
        };
        ours.is_some_and(|ours| match self.compare.sign {
            "==" => *ours == self.value,
            "!=" => *ours != self.value,
            _ => quantity(ours)
                .zip(asked)
                .is_some_and(|(ours, asked)| (self.compare.holds)(&ours, &asked)),
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
}

fn points<'a>(trials: &'a [(Cell, Row)], conditions: &[Condition]) -> Vec<Point<'a>> {
    let mut points: BTreeMap<&BTreeMap<String, String>, Point<'a>> = BTreeMap::new();
    for (cell, row) in trials {
        if row.standing == Standing::Valid
            && conditions.iter().all(|condition| condition.holds(cell))
        {
            let rows = Vec::new();
            let point = points.entry(&cell.axes);
            point.or_insert(Point { cell, rows }).rows.push(row);
        }
    }
    points.into_values().collect()
}

fn values<'a>(side: &Side, points: &[Point<'a>]) -> Vec<Valued<'a>> {
    let figure = match side {
        Side::Constant(value) => {
            let (cell, value) = (None, *value);
            return vec![Valued { cell, value }];
        }
        Side::Figure(figure) => figure,
    };
    let chosen = points.iter().filter(|point| {
        let labels = labels(point.cell);
        figure
            .words
            .iter()
            .all(|word| labels.contains(word.as_str()))
    });
    let value = |point: &Point<'a>| {
        let of = |row: &&Row| (figure.metric.of)(point.cell, row);
        let figures: Vec<f64> = point.rows.iter().filter_map(of).collect();
        Some(Valued {
            cell: Some(point.cell),
            value: figure.factor * median(&figures)?,
        })
    };
    chosen.filter_map(value).collect()
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
    let (claim, conditions) = text.split_once(" where ").unwrap_or((text, ""));
    let (left, compare, right) = split(claim)?;
    let (left, right) = match (figure(left)?, figure(right)?) {
        (Some(one), Some(two)) if one.metric.unit != two.metric.unit => {
            return Err("the sides have different units".to_owned());
        }
        (Some(one), Some(two)) => (Side::Figure(one), Side::Figure(two)),
        (Some(figure), None) => {
            let constant = constant(right, figure.metric.unit)?;
            (Side::Figure(figure), Side::Constant(constant))
        }
        (None, Some(figure)) => {
            let constant = constant(left, figure.metric.unit)?;
            (Side::Constant(constant), Side::Figure(figure))
        }
        (None, None) => {
            let name = left.split('[').next().unwrap_or_default();
            return Err(format!("no figure is compared: {}", hint(name.trim())));
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
fn split(text: &str) -> Result<(&str, &'static Compare, &str), String> {
    let mut depth = 0_i32;
    for (at, c) in text.char_indices() {
        depth += i32::from(c == '[') - i32::from(c == ']');
        let (left, rest) = text.split_at(at);
        let mut known = COMPARISONS.iter().filter(|_| depth == 0);
        if let Some(compare) = known.find(|it| rest.starts_with(it.sign)) {
            let right = rest.strip_prefix(compare.sign).unwrap_or_default();
            return Ok((left.trim(), compare, right.trim()));
        }
    }
    Err("there is no <, <=, >, >=, == or !=".to_owned())
}

/// What may have been meant.
fn hint(name: &str) -> String {
    let names: Vec<&str> = METRICS.iter().map(|metric| metric.name).collect();
    section::hint(name, &names)
}

/// A figure, or none if it is something else.
fn figure(text: &str) -> Result<Option<Figure>, String> {
    let (factor, rest) = match text.split_once('*') {
        Some((factor, rest)) => {
            let factor = factor.trim();
            let number = factor.parse::<f64>();
            let wrong = |_| format!("{factor}: a number is expected before *");
            (number.map_err(wrong)?, rest.trim())
        }
        None => (1.0, text),
    };
    let (name, words) = match rest.split_once('[') {
        Some((name, words)) => {
            let words = words.strip_suffix(']');
            let words = words.ok_or_else(|| format!("{rest}: ] is missing"))?;
            let words = words.split(',').map(|word| word.trim().to_owned());
            (name.trim(), words.collect())
        }
        None => (rest, Vec::new()),
    };
    match metric(name) {
        Some(metric) => Ok(Some(Figure {
            factor,
            metric,
            words,
        })),
        None if rest.contains('[') => {
            Err(format!("{name}: there is no such figure; {}", hint(name)))
        }
        None => Ok(None),
    }
}
