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
pub fn orders() -> Result<Vec<Order>, String> {
    serde_json::from_str(include_str!("data/orders.json"))
        .map_err(|error| format!("orders.json: {error}"))
}

pub fn paper() -> Result<Vec<(Cell, Row)>, String> {
    table("paper.csv", include_str!("data/paper.csv"))
}

/// What we computed from the protocols' rules.
pub fn expected() -> Result<Vec<(Cell, Row)>, String> {
    table("expected.csv", include_str!("data/expected.csv"))
}

fn table(file: &str, text: &str) -> Result<Vec<(Cell, Row)>, String> {
    let mut lines = text
        .lines()
        .filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    let head: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    lines
        .map(|line| {
            let fields = head.iter().copied().zip(line.split(',').map(str::trim));
            let fields = fields.collect();
            trial(&fields).ok_or_else(|| format!("{file}: this line is no line of it: {line}"))
        })
        .collect()
}

/// The columns are explained at the head of the files.
fn trial(fields: &BTreeMap<&str, &str>) -> Option<(Cell, Row)> {
    let text = |name: &str| fields.get(name).copied().unwrap_or_default();
    // Empty is none; else it has to be a number.
    let number = |name: &str| match text(name) {
        "" => Some(None),
        it => it.parse::<f64>().ok().map(Some),
    };
    let or = |name: &str, otherwise: f64| Some(number(name)?.unwrap_or(otherwise));
    let protocol: Protocol = serde_json::from_value(text("protocol").into()).ok()?;
    let leg = Leg {
        protocol,
        qos: or("qos", 0.0)? as u8,
        version: 3,
        window: or("window", 20.0)? as u32,
    };
    let flows = or("flows", 1.0)? as u32;
    let load = match text("load") {
        "flood" => Load::Flood { flows },
        "open" => Load::Open {
            rate: number("rate_per_s")??,
            flows,
            arrivals: "periodic".to_owned(),
        },
        _ => return None,
    };
    let axes = ["policy", "strategy", "timers", "members", "neighbour"];
    let axes = axes.map(|name| (name.to_owned(), text(name).to_owned()));
    let bytes = number("payload_bytes")?? as u32;
    let fan_out = or("fan_out", 1.0)? as u32;
    let cell = Cell {
        experiment: format!("{} {}", text("study"), text("origin")),
        axes: axes.into_iter().filter(|(_, it)| !it.is_empty()).collect(),
        system: text("system").to_owned(),
        publish: leg,
        subscribe: leg,
        link: Link {
            loss: or("loss_percent", 0.0)? / 100.0,
            rate: number("link_mbit")?.map(|it| (it * 1e6) as u64),
            ..cable()
        },
        workload: Workload::Fixed { bytes },
        load,
        fan_out,
        ..blank_cell()
    };
    // So many messages that what was published keeps its digits.
    const MESSAGES: u64 = 1_000_000;
    let per_s = number("per_s")?;
    let (mean, p90) = (number("mean_us")?, number("p90_us")?);
    let mut row = Row {
        delivered: MESSAGES,
        seconds: per_s.map_or(0.0, |rate| MESSAGES as f64 / rate),
        payload_bytes: MESSAGES * u64::from(bytes),
        wire_bytes: number("wire_bytes")?.map(|it| (it * MESSAGES as f64) as u64),
        ..Row::blank(Standing::Valid)
    };
    if mean.or(p90).is_some() {
        row.response = Quantiles {
            count: MESSAGES,
            mean: mean.unwrap_or(f64::NAN),
            sd: or("sd_us", f64::NAN)?,
            p90: p90.unwrap_or(f64::NAN),
            ..Quantiles::UNKNOWN
        };
    }
    if !text("not_valid").is_empty() {
        row.standing = Standing::GeneratorLimited(text("not_valid").to_owned());
    }
    Some((cell, row))
}

fn cable() -> Link {
    Link {
        namespaces: true,
        ..Link::LOOPBACK
    }
}

/// A cell of which nothing is said yet.
pub(crate) fn blank_cell() -> Cell {
    Cell {
        link: cable(),
        ..Cell::blank()
    }
}
