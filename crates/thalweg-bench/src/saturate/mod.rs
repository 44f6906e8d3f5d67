//! `thalweg bench saturate`: the highest rate that lasts, for each point of a scenario.
//!
//! *Knows:* the search, how trials are judged. *Must never know:* how they are measured.

pub mod command;
mod search;

pub use search::{Found, Goal, Search, Shown, Step};

use crate::cell::{Cell, Load, Measured, Row, Second, Standing};

/// The cell of a step: its rate spread over its flows, and its name with the number of the step.
pub fn cell_at(base: &Cell, step: usize, rate: f64, is_long: bool, short_ns: u64) -> Option<Cell> {
    let (flows, arrivals) = match &base.load {
        Load::Open {
            flows, arrivals, ..
        } => (*flows, arrivals.clone()),
        Load::Flood { flows } => (*flows, "periodic".to_owned()),
        Load::Closed { .. } | Load::Replay { .. } => return None,
    };
    let mut cell = base.clone();
    cell.load = Load::Open {
        rate: rate / f64::from(flows.max(1)),
        flows,
        arrivals,
    };
    cell.repeat = step as u32;
    cell.seed = base.seed.wrapping_add(step as u64);
    cell.axes.insert(STEP.to_owned(), format!("{step:03}"));
    cell.axes.insert(OFFERED.to_owned(), format!("{rate:.1}/s"));
    if !is_long {
        cell.phases.warmup_ns = cell.phases.warmup_ns.min(WARMUP_NS);
        cell.phases.drain_ns = cell.phases.drain_ns.min(DRAIN_NS);
        cell.phases.measure_ns = short_ns;
    }
    Some(cell)
}

/// The point that a step of a search was for: without the step's number and rate among its axes.
pub fn point_of(step: &Cell) -> Cell {
    let mut cell = step.clone();
    cell.axes.retain(|name, _| name != STEP && name != OFFERED);
    cell
}

/// A point in words.
pub fn name_of(cell: &Cell) -> String {
    let axes = cell.point();
    if axes.is_empty() {
        cell.experiment.clone()
    } else {
        axes
    }
}

/// Whether a search that was stopped by this says only what lasts at least.
pub fn is_lower_bound(limit: &str) -> bool {
    ["not valid", "most"].contains(&limit)
}

/// What a trial shows; the growth of its backlog is put among its other figures, so that a resumed search finds it.
pub fn shown(cell: &Cell, rate: f64, measured: &mut Measured) -> Shown {
    let phases = cell.phases;
    let (from, lasts) = (
        phases.warmup_ns.div_ceil(SECOND),
        phases.measure_ns / SECOND,
    );
    let under_way = under_way(&measured.seconds, u64::from(cell.fan_out));
    let within: Vec<f64> = under_way
        .into_iter()
        .skip(from as usize)
        .take(lasts as usize)
        .collect();
    let growth = slope(&within) / (rate * f64::from(cell.fan_out.max(1)));
    measured.row.more.insert(SLOPE.to_owned(), growth);
    shown_by(rate, &measured.row)
}

/// The same from a row that was written.
pub fn shown_by(rate: f64, row: &Row) -> Shown {
    // What comes in the drain was not delivered at that rate.
    let in_time = row.delivered.saturating_sub(row.late);
    let loss = if row.expected > 0 {
        row.lost as f64 / row.expected as f64
    } else {
        1.0
    };
    Shown {
        rate,
        delivered: if row.seconds > 0.0 {
            in_time as f64 / row.seconds
        } else {
            0.0
        },
        loss,
        slope: row.more.get(SLOPE).copied().unwrap_or_default(),
        p99_us: row.response.p99,
        is_valid: matches!(row.standing, Standing::Valid | Standing::HeldBack(_)),
        is_taken: !matches!(row.standing, Standing::HeldBack(_)),
    }
}

/// Copies under way at the end of each second.
fn under_way(seconds: &[Second], fan_out: u64) -> Vec<f64> {
    let mut balance = 0.0;
    let mut under_way = Vec::new();
    for second in seconds {
        balance += (second.sent * fan_out) as f64 - second.received as f64;
        under_way.push(balance);
    }
    under_way
}

/// Growth a second: the line of least squares through one number a second. 0 for fewer than two.
pub fn slope(numbers: &[f64]) -> f64 {
    let n = numbers.len() as f64;
    let (middle, mean) = ((n - 1.0) / 2.0, numbers.iter().sum::<f64>() / n);
    let each = || {
        numbers
            .iter()
            .enumerate()
            .map(|(at, number)| (at as f64 - middle, number - mean))
    };
    let spread: f64 = each().map(|(x, _)| x * x).sum();
    if spread > 0.0 {
        each().map(|(x, y)| x * y).sum::<f64>() / spread
    } else {
        0.0
    }
}

/// Axes that a search adds to its point.
const STEP: &str = "step";
const OFFERED: &str = "offered";
/// Name of the growth of the backlog in [`Row::more`]: a part of the rate.
const SLOPE: &str = "backlog_slope";
/// Of a short trial.
const WARMUP_NS: u64 = SECOND;
const DRAIN_NS: u64 = 2 * SECOND;
const SECOND: u64 = 1_000_000_000;
