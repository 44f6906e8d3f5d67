//! What a situation is made of: the axes along which measurements are interpolated.

use crate::cell::{Cell, Load, Row, Workload};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Axis {
    /// Bytes of a message.
    Payload,
    /// Messages a second of one flow; 0 where it goes as fast as it can.
    Rate,
    /// Flows: publisher, topic, and its subscribers.
    Pairs,
    /// Subscribers of each topic.
    FanOut,
    /// Of the link without its losses, in milliseconds.
    RoundTrip,
    /// Members of a group.
    Members,
    /// The slowest member's time for a message in terms of the fastest one's.
    Unevenness,
    /// Packets lost each way, a part of one.
    Loss,
}

/// From the outermost to the innermost of a nested interpolation: the axis that is swept most finely goes last.
pub const AXES: [Axis; 8] = [
    Axis::Payload,
    Axis::Rate,
    Axis::Pairs,
    Axis::FanOut,
    Axis::RoundTrip,
    Axis::Members,
    Axis::Unevenness,
    Axis::Loss,
];

impl Axis {
    /// Where a value lies on the scale on which this axis is interpolated.
    pub fn scaled(self, value: f64) -> f64 {
        match self {
            Axis::Loss | Axis::RoundTrip => value,
            // Empty messages exist.
            Axis::Payload => (value + 1.0).ln(),
            _ => value.max(1e-9).ln(),
        }
    }

    /// The value at a place of the scale.
    pub fn unscaled(self, place: f64) -> f64 {
        match self {
            Axis::Loss | Axis::RoundTrip => place,
            Axis::Payload => place.exp() - 1.0,
            _ => place.exp(),
        }
    }

    /// Two values are the same measurement point: 5 %, half a point of loss, a millisecond or 10 % of round trip.
    pub fn is_near(self, one: f64, other: f64) -> bool {
        match self {
            Axis::Loss => (one - other).abs() <= 0.005 + 1e-9,
            Axis::RoundTrip => {
                (one - other).abs() <= 1.0_f64.max(0.1 * one.abs().max(other.abs())) + 1e-9
            }
            _ => (self.scaled(one) - self.scaled(other)).abs() <= 0.05,
        }
    }

    /// A value in words.
    pub fn words(self, value: f64) -> String {
        match self {
            Axis::Payload => bytes(value),
            Axis::Rate if value == 0.0 => "at whatever rate it went".to_owned(),
            Axis::Rate => format!("{} a second per pair", count(value, "message")),
            Axis::Pairs => count(value, "pair"),
            Axis::FanOut => format!("fan-out {}", short(value)),
            Axis::RoundTrip => format!("{} ms round trip", short(value)),
            Axis::Members => format!("{} members", short(value)),
            Axis::Unevenness if value <= 1.0 => "even members".to_owned(),
            Axis::Unevenness => {
                let times = short(value);
                format!("the slowest member {times} times as slow as the fastest")
            }
            Axis::Loss => format!("{} % loss", short(100.0 * value)),
        }
    }

    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        NAMES[self as usize]
    }
}

const NAMES: [&str; AXES.len()] = [
    "payload_bytes",
    "rate_per_s",
    "pairs",
    "fan_out",
    "round_trip_ms",
    "members",
    "unevenness",
    "loss",
];

/// A place in all axes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point([f64; AXES.len()]);

impl Point {
    /// The same value may be asked for on each axis.
    pub fn new(value: impl FnMut(Axis) -> f64) -> Point {
        Point(AXES.map(value))
    }

    /// Where a trial was measured. None for what has no size: nothing of a trace was delivered.
    pub fn of(cell: &Cell, row: &Row) -> Option<Point> {
        let payload = match &cell.workload {
            Workload::Fixed { bytes }
            | Workload::Json { bytes }
            | Workload::Beside { bytes, .. } => f64::from(*bytes),
            Workload::Trace { .. } | Workload::Class { .. } if row.delivered > 0 => {
                row.payload_bytes as f64 / row.delivered as f64
            }
            Workload::Trace { .. } | Workload::Class { .. } => return None,
        };
        let rate = match &cell.load {
            Load::Open { rate, .. } => *rate,
            Load::Replay { flows, .. } if row.seconds > 0.0 => {
                row.intended as f64 / row.seconds / f64::from((*flows).max(1))
            }
            _ => 0.0,
        };
        let members = members(cell).unwrap_or_else(|| vec![1.0]);
        Some(Point::new(|axis| match axis {
            Axis::Payload => payload,
            Axis::Rate => rate,
            Axis::Pairs => f64::from(cell.load.flows()),
            Axis::FanOut => f64::from(cell.fan_out),
            Axis::RoundTrip => (2 * cell.link.delay_ns + cell.link.jitter_ns) as f64 * 1e-6,
            Axis::Members => members.len() as f64,
            Axis::Unevenness => unevenness(&members),
            Axis::Loss => cell.link.loss,
        }))
    }

    pub fn on(&self, axis: Axis) -> f64 {
        self.0[axis as usize]
    }

    /// The same, but for one axis.
    pub fn with(mut self, axis: Axis, value: f64) -> Point {
        self.0[axis as usize] = value;
        self
    }
}

/// What a message takes each member of the group, in milliseconds: the axis `members` of a cell, such as `25/25/50ms`.
pub fn members(cell: &Cell) -> Option<Vec<f64>> {
    let text = cell.axes.get("members")?.trim_end_matches("ms");
    let members: Option<Vec<f64>> = text
        .split('/')
        .map(|it| it.trim().parse().ok().filter(|it| *it > 0.0))
        .collect();
    members.filter(|members| !members.is_empty())
}

/// The slowest member's time in terms of the fastest one's.
pub fn unevenness(members: &[f64]) -> f64 {
    let least = members.iter().copied().fold(f64::INFINITY, f64::min);
    members.iter().copied().fold(0.0, f64::max) / least
}

/// So many of something.
pub fn count(number: f64, what: &str) -> String {
    let s = if number == 1.0 { "" } else { "s" };
    format!("{} {what}{s}", short(number))
}

/// A number with three digits that count.
pub fn short(number: f64) -> String {
    let size = number.abs();
    let digits = if size == 0.0 || size >= 100.0 {
        0
    } else if size >= 10.0 {
        1
    } else {
        ((2.0 - size.log10().floor()) as usize).min(6)
    };
    let text = format!("{number:.digits$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

pub fn bytes(count: f64) -> String {
    if count >= 10_000.0 {
        format!("{} kB", short(count / 1000.0))
    } else {
        format!("{count:.0} B")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits() {
        let table = [
            (0.0, "0"),
            (0.05, "0.05"),
            (1.0, "1"),
            (2.345, "2.35"),
            (15.0, "15"),
            (554.4, "554"),
            (12.34, "12.3"),
        ];
        for (number, text) in table {
            assert_eq!(short(number), text);
        }
        assert_eq!(bytes(60_000.0), "60 kB");
    }

    #[test]
    fn nearness_is_that_of_the_axis() {
        assert!(Axis::Payload.is_near(60.0, 62.0) && !Axis::Payload.is_near(60.0, 80.0));
        assert!(Axis::Loss.is_near(0.15, 0.154) && !Axis::Loss.is_near(0.15, 0.17));
        assert!(Axis::RoundTrip.is_near(0.0, 0.9) && !Axis::RoundTrip.is_near(0.0, 20.0));
        assert_eq!(Axis::Rate.scaled(0.0), Axis::Rate.scaled(0.0));
    }
}
