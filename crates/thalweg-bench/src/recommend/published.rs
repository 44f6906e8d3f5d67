//! Published numbers in the form of our own: facts and figures of the studies, and what we computed ourselves, in files
//! that can be read by eye (`data/*.csv`, `data/orders.json`). They are marked wherever they are used.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::axes::Axis;
use crate::cell::{Cell, Leg, Link, Load, Protocol, Quantiles, Row, Standing, Workload};

/// An order that a study states without numbers.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Order {
    /// The study's letter in the notes: `B`, `D`.
    pub study: String,
    /// Where it says so.
    pub section: String,
    /// What is small (throughput: large) for the first.
    pub metric: String,
    /// Where it holds, by axis ([`Axis::name`]): from, to.
    pub within: BTreeMap<String, (f64, f64)>,
    /// What the study did where it does not say.
    pub usually: BTreeMap<String, f64>,
    /// The best first; those in one place are equal, or nothing is said of them.
    pub order: Vec<Vec<String>>,
    pub says: String,
}

impl Order {
    /// Whether it holds where these values were asked for; what was not asked for is as the study usually did it.
    pub fn holds(&self, asked: impl Fn(Axis) -> Option<f64>) -> bool {
        super::axes::AXES.into_iter().all(|axis| {
            let range = self.within.get(axis.name());
            let usual = self.usually.get(axis.name()).copied();
            match (range, asked(axis).or(usual)) {
                (Some((from, to)), Some(value)) => *from - 1e-9 <= value && value <= *to + 1e-9,
                (Some(_), None) => true,
                // Outside of what the study varied nothing is known but where it stood still.
                (None, Some(value)) => usual.is_none_or(|usual| axis.is_near(value, usual)),
                (None, None) => true,
            }
        })
    }
}

/// The orders of the studies.
pub fn orders() -> Vec<Order> {
    serde_json::from_str(include_str!("data/orders.json")).expect("it is read by the tests")
}

pub fn paper() -> Vec<(Cell, Row)> {
    table(include_str!("data/paper.csv"))
}

/// What we computed from the protocols' rules.
pub fn expected() -> Vec<(Cell, Row)> {
    table(include_str!("data/expected.csv"))
}

fn table(text: &'static str) -> Vec<(Cell, Row)> {
    let is_line = |line: &&str| !line.starts_with('#') && !line.trim().is_empty();
    let mut lines = text.lines().filter(is_line);
    let head: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let fields = |line: &'static str| head.iter().copied().zip(line.split(',').map(str::trim));
    lines.map(|line| trial(&fields(line).collect())).collect()
}

/// The columns are explained at the head of the files.
fn trial(fields: &BTreeMap<&str, &str>) -> (Cell, Row) {
    let text = |name: &str| fields.get(name).copied().unwrap_or_default();
    // Empty is none; else it has to be a number.
    let number = |name: &str| {
        let it = Some(text(name)).filter(|it| !it.is_empty());
        it.map(|it| it.parse::<f64>().expect("it is read by the tests"))
    };
    let known = |name: &str| number(name).unwrap_or_else(|| panic!("{name} of {fields:?}"));
    let or = |name: &str, otherwise: f64| number(name).unwrap_or(otherwise);
    let protocol: Protocol = serde_json::from_value(text("protocol").into()).expect("a protocol");
    let leg = Leg {
        protocol,
        qos: or("qos", 0.0) as u8,
        version: 3,
        window: or("window", 20.0) as u32,
    };
    let flows = or("flows", 1.0) as u32;
    let load = match text("load") {
        "flood" => Load::Flood { flows },
        "open" => Load::open(known("rate_per_s"), flows),
        load => panic!("there is no load {load}"),
    };
    let axes = ["policy", "strategy", "timers", "members", "neighbour"];
    let axes = axes.map(|name| (name.to_owned(), text(name).to_owned()));
    let bytes = known("payload_bytes") as u32;
    let fan_out = or("fan_out", 1.0) as u32;
    let cell = Cell {
        experiment: format!("{} {}", text("study"), text("origin")),
        axes: axes.into_iter().filter(|(_, it)| !it.is_empty()).collect(),
        system: text("system").to_owned(),
        publish: leg,
        subscribe: leg,
        link: Link {
            loss: or("loss_percent", 0.0) / 100.0,
            rate: number("link_mbit").map(|it| (it * 1e6) as u64),
            ..Link::CABLE
        },
        workload: Workload::Fixed { bytes },
        load,
        fan_out,
        ..blank_cell()
    };
    // So many messages that what was published keeps its digits.
    const MESSAGES: u64 = 1_000_000;
    let per_s = number("per_s");
    let (mean, p90) = (number("mean_us"), number("p90_us"));
    let mut row = Row {
        delivered: MESSAGES,
        seconds: per_s.map_or(0.0, |rate| MESSAGES as f64 / rate),
        payload_bytes: MESSAGES * u64::from(bytes),
        wire_bytes: number("wire_bytes").map(|it| (it * MESSAGES as f64) as u64),
        ..Row::blank(Standing::Valid)
    };
    if mean.or(p90).is_some() {
        row.response = Quantiles {
            count: MESSAGES,
            mean: mean.unwrap_or(f64::NAN),
            sd: or("sd_us", f64::NAN),
            p90: p90.unwrap_or(f64::NAN),
            ..Quantiles::UNKNOWN
        };
    }
    if !text("not_valid").is_empty() {
        row.standing = Standing::GeneratorLimited(text("not_valid").to_owned());
    }
    (cell, row)
}

/// A cell of which nothing is said yet.
pub(crate) fn blank_cell() -> Cell {
    Cell {
        link: Link::CABLE,
        ..Cell::blank()
    }
}
