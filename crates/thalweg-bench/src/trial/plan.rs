//! What a cell's workload and load come to: sizes, times, layout.

use std::path::Path;
use std::sync::Arc;

use crate::cell::{Cell, Load, Workload};
use crate::load::got::Beside;
use crate::load::header::Layout;
use crate::load::schedule::Sizes;
use crate::load::{Pacer, Schedule, Times};
use crate::traces::{Body, Trace, known, replay};

/// What is sent and when, relative to the beginning.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// How large messages are.
    pub sizes: Sizes,
    /// How their headers are written.
    pub layout: Layout,
    /// What payloads have behind the header, where a file says so.
    pub body: Option<Arc<[u8]>>,
    load: Load,
    seed: u64,
    played: Played,
    /// Nothing is due from here on.
    end: u64,
    /// When flow 1 begins to send, since the measured phase did, and how long it does.
    burst: Option<(u64, u64)>,
}

/// What a replay plays.
#[derive(Clone, Debug, PartialEq)]
enum Played {
    Nothing,
    Messages(Vec<(u64, u32, u32)>),
    /// Distributions, drawn from while it plays.
    Drawn(Arc<Trace>),
}

impl Plan {
    /// Of a cell; reads its trace.
    pub fn of(cell: &Cell) -> Result<Plan, String> {
        let layout = match cell.workload {
            Workload::Json { .. } => Layout::Json,
            _ => Layout::Binary,
        };
        let end = cell.phases.warmup_ns.saturating_add(cell.phases.measure_ns);
        let (sizes, played) = match &cell.workload {
            Workload::Fixed { bytes } | Workload::Json { bytes } => match cell.load {
                Load::Replay { .. } => {
                    return Err(format!(
                        "a replay needs a trace; the workload says {bytes} B"
                    ));
                }
                _ => (Sizes::Fixed(*bytes), Played::Nothing),
            },
            Workload::Beside {
                bytes, burst_bytes, ..
            } => {
                let sizes = Sizes::Listed(vec![*bytes, *burst_bytes]);
                (sizes, Played::Messages(beside(cell, end)?))
            }
            Workload::Trace { file } => {
                of_trace(cell, file, Trace::open(Path::new(file))?.into(), end)?
            }
            Workload::Class { name, seed } => {
                of_trace(cell, name, known::day_of(name, *seed)?, end)?
            }
        };
        let least = match &sizes {
            Sizes::Fixed(bytes) => *bytes,
            Sizes::Listed(sizes) => sizes.iter().copied().min().unwrap_or_default(),
        };
        if (least as usize) < layout.bytes_min() {
            let least = layout.bytes_min();
            return Err(format!("a message has at least {least} bytes: its number"));
        }
        if let Load::Open { rate, .. } = cell.load
            && !is_some(rate)
        {
            return Err("a rate is more than nothing".to_owned());
        }
        let burst = match cell.workload {
            Workload::Beside {
                from_ns, for_ns, ..
            } => Some((from_ns, for_ns)),
            _ => None,
        };
        let read = |file: &String| std::fs::read(file).map_err(|error| format!("{file}: {error}"));
        let body = cell.extras.payload.as_ref().map(read).transpose()?;
        let plan = Plan {
            sizes,
            layout,
            body: body.map(Arc::from),
            load: cell.load.clone(),
            seed: cell.seed,
            played,
            end,
            burst,
        };
        let first = plan.schedule().map(|schedule| schedule.next_at());
        match (first, &cell.workload) {
            (Some(None), Workload::Trace { file: named } | Workload::Class { name: named, .. })
                if plan.played != Played::Nothing =>
            {
                Err(format!("{named}: it has no message in so short a time"))
            }
            _ => Ok(plan),
        }
    }

    /// The size of a message of a program that has no schedule: flows begin at places of their own of one list.
    pub fn size_without_time(&self, flow: u32, seq: u32) -> u32 {
        self.sizes.of(flow.wrapping_mul(STRIDE), seq)
    }

    /// When each message is due; none for a closed loop or a flood.
    pub fn schedule(&self) -> Option<Schedule> {
        match (&self.played, &self.load) {
            (Played::Messages(messages), _) => Some(Schedule::replay(messages.clone(), self.end)),
            (
                Played::Drawn(trace),
                Load::Replay {
                    flows,
                    speed,
                    rate_scale,
                },
            ) => Some(Schedule::drawn(
                trace.clone(),
                *flows,
                *speed,
                *rate_scale,
                self.seed,
                self.end,
            )),
            (
                _,
                Load::Open {
                    rate,
                    flows,
                    arrivals,
                },
            ) => Some(Schedule::open(
                *rate,
                (*flows).max(1),
                *arrivals,
                self.sizes.clone(),
                self.seed,
                self.end,
            )),
            _ => None,
        }
    }

    /// What gives messages when they are due; of a schedule only so many, if there is a count.
    pub fn pacer(&self, times: Times, count: Option<u64>) -> Pacer {
        let flows = self.load.flows().max(1);
        let schedule = self.schedule().map(|schedule| match count {
            Some(count) => schedule.at_most(count),
            None => schedule,
        });
        match (&self.load, schedule) {
            (_, Some(schedule)) => Pacer::open(schedule, flows, times),
            (Load::Closed { think_ns, .. }, None) => {
                Pacer::closed(*think_ns, flows, self.sizes.clone(), self.seed, times)
            }
            (_, None) => Pacer::flood(flows, self.sizes.clone(), self.seed, times),
        }
    }

    /// What is kept apart of a flow that has another one beside it.
    pub fn beside(&self, times: Times) -> Option<Beside> {
        let (from, lasts) = self.burst?;
        Some(Beside::new(
            times.measure + from,
            times.measure + from + lasts,
        ))
    }

    /// Messages a second, if there is a schedule.
    pub fn rate(&self) -> Option<f64> {
        match (&self.load, &self.played) {
            (Load::Open { rate, flows, .. }, _) => Some(rate * f64::from(*flows)),
            (_, Played::Messages(messages)) => {
                Some(messages.len() as f64 / (self.end.max(1) as f64 / 1e9))
            }
            (
                Load::Replay {
                    flows, rate_scale, ..
                },
                Played::Drawn(trace),
            ) => Some(known::mean_rate(trace) * rate_scale * f64::from(*flows)),
            _ => None,
        }
    }
}

/// What a cell plays of a trace.
fn of_trace(
    cell: &Cell,
    named: &str,
    trace: Arc<Trace>,
    end: u64,
) -> Result<(Sizes, Played), String> {
    let listed = || Sizes::Listed(replay::sizes(&trace, cell.seed));
    let Load::Replay {
        speed,
        flows,
        rate_scale,
    } = cell.load
    else {
        return Ok((listed(), Played::Nothing));
    };
    if !is_some(speed) || !is_some(rate_scale) {
        let why = "a trace is played at a speed above 0, with more than none of its messages";
        return Err(why.to_owned());
    }
    match trace.body {
        Body::Bins(_) => Ok((listed(), Played::Drawn(trace))),
        Body::Messages(_) if rate_scale != 1.0 => Err(format!(
            "{named}: only distributions can be played with fewer messages or more"
        )),
        Body::Messages(_) => {
            let replayed = replay::messages(&trace, flows, speed, end)?;
            let mut sizes: Vec<u32> = replayed.iter().map(|(_, _, size)| *size).collect();
            sizes.sort_unstable();
            sizes.dedup();
            Ok((Sizes::Listed(sizes), Played::Messages(replayed)))
        }
    }
}

fn is_some(factor: f64) -> bool {
    factor.is_finite() && factor > 0.0
}

/// A flow by the cell's rate, and beside it one that sends for some time only.
fn beside(cell: &Cell, end: u64) -> Result<Vec<(u64, u32, u32)>, String> {
    let (
        Workload::Beside {
            bytes,
            burst_bytes,
            burst_rate,
            from_ns,
            for_ns,
        },
        Load::Open {
            rate,
            flows: 2,
            arrivals,
        },
    ) = (&cell.workload, &cell.load)
    else {
        return Err("a flow beside another are two, by an open loop".to_owned());
    };
    if !is_some(*burst_rate) {
        return Err("a rate is more than nothing".to_owned());
    }
    let sizes = Sizes::Fixed(*bytes);
    let steady = Schedule::open(*rate, 1, *arrivals, sizes, cell.seed, end);
    let from = cell.phases.warmup_ns + from_ns;
    let count = (burst_rate * *for_ns as f64 / 1e9).ceil() as u64;
    let burst = (0..count).map(|number| {
        (
            from + (number as f64 / burst_rate * 1e9) as u64,
            1,
            *burst_bytes,
        )
    });
    Ok(steady
        .map(|item| (item.at, 0, item.size))
        .chain(burst.filter(|(at, ..)| *at < end))
        .collect())
}

/// Between the places of neighbours: prime to the length of any list.
const STRIDE: u32 = 7919;
