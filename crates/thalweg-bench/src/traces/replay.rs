//! A trace as messages of flows.
//!
//! A trace of messages is played as it is, faster by `speed`, again from its beginning where it ends; source `s` is flow `s`
//! modulo flows, and flows beyond the sources play a source again, from another place of it.
//!
//! A trace of distributions keeps its true rates and sizes: `speed` only makes the day shorter. At speed 1 every flow begins at
//! a place of the day drawn from the seed (A36); else all begin at its beginning.

use super::trace::{BIN_S, Bin, Body, Trace};
use crate::sim::random::Random;

/// Sizes in the trace's distribution, for a load that has times of its own.
pub fn sizes(trace: &Trace, seed: u64) -> Vec<u32> {
    match &trace.body {
        Body::Messages(messages) => messages.iter().take(SIZES).map(|it| it.bytes).collect(),
        Body::Bins(bins) => {
            let mut random = Random::new(seed);
            let all: Vec<&Bin> = bins.iter().flatten().collect();
            let mut draw = || {
                let place = random.draw() % all.len().max(1) as u64;
                Some(bytes(all.get(place as usize)?, &mut random))
            };
            (0..SIZES).filter_map(|_| draw()).collect()
        }
    }
}

/// Every message of a trace until `end_ns`: time in nanoseconds, flow, bytes; ascending.
pub fn messages(
    trace: &Trace,
    flows: u32,
    speed: f64,
    end_ns: u64,
) -> Result<Vec<(u64, u32, u32)>, String> {
    let Body::Messages(messages) = &trace.body else {
        return Ok(Vec::new());
    };
    let flows = flows.max(1);
    let (sources, length_us) = (trace.sources().max(1), length_us(trace));
    let mut found = Vec::new();
    for round in 0_u64.. {
        for message in messages {
            let at = ((round * length_us + message.at_us) as f64 * 1e3 / speed) as u64;
            if at >= end_ns {
                found.sort_unstable();
                return Ok(found);
            }
            push(&mut found, (at, message.source % flows, message.bytes))?;
            // Flows beyond the sources: the same source, later by a part of the trace that is theirs.
            let copies = (flows.saturating_sub(1 + message.source % flows)) / sources;
            for copy in 1..=if sources < flows { copies } else { 0 } {
                let shift = length_us / u64::from(copies + 1) * u64::from(copy);
                let at = (message.at_us + shift) % length_us + round * length_us;
                let at = (at as f64 * 1e3 / speed) as u64;
                if at < end_ns {
                    push(
                        &mut found,
                        (at, message.source + copy * sources, message.bytes),
                    )?;
                }
            }
        }
    }
    Ok(found)
}

fn length_us(trace: &Trace) -> u64 {
    let mut about = trace.about.iter();
    let hours = about.find(|(key, _)| key == "hours");
    let hours = hours.and_then(|(_, value)| value.parse::<f64>().ok());
    let last = match &trace.body {
        Body::Messages(messages) => messages.last().map_or(0, |message| message.at_us + 1),
        Body::Bins(bins) => bins.len() as u64 * BIN_S * 1_000_000,
    };
    hours
        .map_or(last, |hours| last.max((hours * 3.6e9) as u64))
        .max(1)
}

/// A flow that draws its messages from a trace of distributions, one after the other.
#[derive(Clone, Debug)]
pub struct Drawn {
    flow: u32,
    speed: f64,
    rate_scale: f64,
    random: Random,
    /// Where in the day it begins, a part of one.
    from: f64,
    /// Seconds since it began.
    now: f64,
    is_first: bool,
}

impl Drawn {
    /// One that has sent nothing yet.
    pub fn new(flow: u32, speed: f64, rate_scale: f64, seed: u64) -> Drawn {
        let mut random = Random::new(seed.wrapping_add(u64::from(flow).wrapping_mul(0x9E37_79B9)));
        let from = if speed == 1.0 { random.unit() } else { 0.0 };
        Drawn {
            flow,
            speed,
            rate_scale,
            random,
            from,
            now: 0.0,
            is_first: true,
        }
    }

    /// Its next message before `end_ns`: nanoseconds, bytes. The trace is the same each time.
    pub fn next(&mut self, trace: &Trace, end_ns: u64) -> Option<(u64, u32)> {
        let Body::Bins(bins) = &trace.body else {
            return None;
        };
        let day = bins.len() as f64 * BIN_S as f64;
        while self.now * 1e9 < end_ns as f64 {
            let place = (self.from * day + self.now * self.speed) % day;
            let kinds = bins.get((place / BIN_S as f64) as usize)?;
            let bin = kinds.get(self.flow as usize % kinds.len().max(1))?;
            let rate = bin.rate * self.rate_scale;
            if rate <= 0.0 {
                // On to the next bin.
                self.now += (BIN_S as f64 - place % BIN_S as f64 + 1e-3) / self.speed;
                continue;
            }
            let gap = bin.gaps.draw(&mut self.random) / rate;
            // A reader that starts at an arbitrary time sees a part of the gap.
            self.now += if self.is_first {
                gap * self.random.unit()
            } else {
                gap
            };
            self.is_first = false;
            // Gaps of nothing for ever would be a trace that is wrong.
            self.now = self.now.max(f64::MIN_POSITIVE);
            let at = (self.now * 1e9) as u64;
            return (at < end_ns).then(|| (at, bytes(bin, &mut self.random)));
        }
        None
    }
}

fn bytes(bin: &Bin, random: &mut Random) -> u32 {
    bin.sizes.draw(random).round() as u32
}

fn push(found: &mut Vec<(u64, u32, u32)>, message: (u64, u32, u32)) -> Result<(), String> {
    if found.len() >= MESSAGES_MAX {
        return Err(format!(
            "more than {MESSAGES_MAX} messages in one trial: fewer flows or less time"
        ));
    }
    found.push(message);
    Ok(())
}

/// Sizes that stand for all.
const SIZES: usize = 65_536;
/// 800 MB.
const MESSAGES_MAX: usize = 50_000_000;
