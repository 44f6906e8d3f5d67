//! `thalweg bench saturate`: the highest rate that lasts, for each point of a scenario.
//!
//! *Knows:* the search, how trials are judged. *Must never know:* how they are measured.

pub mod command;
mod search;

pub use search::{Found, Goal, Search, Shown, Step};

use crate::cell::{Cell, Load, Measured, Row, Second, Standing};
use crate::load::SECOND;
use crate::load::schedule::Arrivals;

/// The cell of a step: its rate spread over its flows, and its name with the number of the step.
pub fn cell_at(base: &Cell, step: usize, rate: f64, is_long: bool, short_ns: u64) -> Option<Cell> {
    let flows = base.load.flows();
    let arrivals = match &base.load {
        Load::Open { arrivals, .. } => *arrivals,
        Load::Flood { .. } => Arrivals::Periodic,
        Load::Closed { .. } | Load::Replay { .. } => return None,
    };
    let mut cell = base.clone();
    let rate_of_flow = rate / f64::from(flows.max(1));
    cell.load = Load::Open {
        rate: rate_of_flow,
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
    match cell.point() {
        axes if axes.is_empty() => cell.experiment.clone(),
        axes => axes,
    }
}

/// Whether a search that was stopped by this says only what lasts at least.
pub fn is_lower_bound(limit: &str) -> bool {
    ["not valid", "most"].contains(&limit)
}

/// What a trial shows; the growth of its backlog is put among its other figures, so that a resumed search finds it.
pub fn shown(cell: &Cell, rate: f64, measured: &mut Measured) -> Shown {
    let from = cell.phases.warmup_ns.div_ceil(SECOND) as usize;
    let lasts = (cell.phases.measure_ns / SECOND) as usize;
    let under_way = under_way(&measured.seconds, u64::from(cell.fan_out)).into_iter();
    let within: Vec<f64> = under_way.skip(from).take(lasts).collect();
    let growth = slope(&within) / (rate * f64::from(cell.fan_out.max(1)));
    measured.row.more.insert(SLOPE.to_owned(), growth);
    shown_by(rate, &measured.row)
}

/// The same from a row that was written.
pub fn shown_by(rate: f64, row: &Row) -> Shown {
    // What comes in the drain was not delivered at that rate.
    let in_time = row.delivered.saturating_sub(row.late);
    let (delivered, loss) = (
        in_time as f64 / row.seconds,
        row.lost as f64 / row.expected as f64,
    );
    Shown {
        rate,
        delivered: if row.seconds > 0.0 { delivered } else { 0.0 },
        loss: if row.expected > 0 { loss } else { 1.0 },
        slope: row.more.get(SLOPE).copied().unwrap_or_default(),
        p99_us: row.response.p99,
        is_valid: matches!(row.standing, Standing::Valid | Standing::HeldBack(_)),
        is_taken: !matches!(row.standing, Standing::HeldBack(_)),
    }
}

/// Copies under way at the end of each second.
fn under_way(seconds: &[Second], fan_out: u64) -> Vec<f64> {
    let mut balance = 0.0;
    let add = |second: &Second| {
        balance += (second.sent * fan_out) as f64 - second.received as f64;
        balance
    };
    seconds.iter().map(add).collect()
}

/// Growth a second: the line of least squares through one number a second. 0 for fewer than two.
pub fn slope(numbers: &[f64]) -> f64 {
    let n = numbers.len() as f64;
    let (middle, mean) = ((n - 1.0) / 2.0, numbers.iter().sum::<f64>() / n);
    let mut sums = (0.0, 0.0);
    for (at, number) in numbers.iter().enumerate() {
        let x = at as f64 - middle;
        sums = (sums.0 + x * x, sums.1 + x * (number - mean));
    }
    if sums.0 > 0.0 { sums.1 / sums.0 } else { 0.0 }
}

/// Axes that a search adds to its point.
const STEP: &str = "step";
const OFFERED: &str = "offered";
/// Name of the growth of the backlog in [`Row::more`]: a part of the rate.
const SLOPE: &str = "backlog_slope";
/// Of a short trial.
const WARMUP_NS: u64 = SECOND;
const DRAIN_NS: u64 = 2 * SECOND;
