//! Repeats of one cell together: means over them, with their intervals.

use hdrhistogram::Histogram;

use crate::cell::{Cell, Driver, Leg, Protocol, Row, Workload, valid};
use crate::report::stat::Stat;

/// The repeats of one cell that count.
#[derive(Clone, Debug)]
pub struct Group {
    /// The first of them.
    pub cell: Cell,
    /// What came of them.
    pub rows: Vec<Row>,
    /// Response times of all repeats in nanoseconds, where they were kept.
    pub response: Option<Histogram<u64>>,
}

/// Puts the trials that count into groups, in the order in which cells first appear.
pub fn groups(trials: &[(Cell, Row)]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut places: std::collections::HashMap<String, usize> = std::collections::HashMap::new();
    for (cell, row) in valid(trials) {
        let name = name_of(cell);
        match places.get(&name).and_then(|at| groups.get_mut(*at)) {
            Some(group) => group.rows.push(row.clone()),
            None => {
                places.insert(name, groups.len());
                groups.push(Group {
                    cell: cell.clone(),
                    rows: vec![row.clone()],
                    response: None,
                });
            }
        }
    }
    groups
}

/// Whether a cell has all of these words: of its experiment, or on its axes.
pub fn has(cell: &Cell, words: &str) -> bool {
    let is_there = |word| cell.experiment == word || cell.axes.values().any(|it| it == word);
    words.split(' ').all(is_there)
}

/// The first group whose cell has all of these words.
pub fn find<'g>(groups: &'g [Group], words: &str) -> Option<&'g Group> {
    groups.iter().find(|group| has(&group.cell, words))
}

/// What repeats of a cell have in common.
pub fn name_of(cell: &Cell) -> String {
    let key = cell.key();
    key.rsplit_once("-r")
        .map_or(key.clone(), |(name, _)| name.to_owned())
}

impl Group {
    /// The mean of something over the repeats that have it.
    pub fn stat(&self, of: impl Fn(&Row) -> Option<f64>) -> Option<Stat> {
        let values = self.rows.iter().filter_map(of);
        Stat::of(&values.filter(|it| it.is_finite()).collect::<Vec<f64>>())
    }

    /// Messages that reached a subscriber in each second of the measured phase, whenever they were sent: a broker that is
    /// offered too much delivers in it what was sent before it.
    pub fn delivered_per_s(&self) -> Option<Stat> {
        self.stat(delivered_per_s)
    }

    /// Messages that were to be published in each second of the measured phase.
    pub fn offered_per_s(&self) -> Option<Stat> {
        self.stat(|row| ratio(row.intended as f64, row.seconds))
    }

    /// Part of what was expected that came, in percent.
    pub fn delivered_percent(&self) -> Option<Stat> {
        self.stat(|row| ratio(100.0 * row.delivered as f64, row.expected as f64))
    }

    /// Ethernet bytes on both legs for each delivered message.
    pub fn wire_bytes(&self) -> Option<Stat> {
        self.stat(|row| ratio(row.wire_bytes? as f64, row.delivered as f64))
    }

    /// Frames for each delivered message.
    pub fn wire_frames(&self) -> Option<Stat> {
        self.stat(|row| ratio(row.wire_frames? as f64, row.delivered as f64))
    }

    /// Mean response time in milliseconds.
    pub fn mean_ms(&self) -> Option<Stat> {
        self.stat(|row| (row.response.count > 0).then_some(row.response.mean * 1e-3))
    }

    /// Payload bits that each subscriber got in a second, in Mbit/s.
    pub fn mbit(&self) -> Option<Stat> {
        let fan_out = f64::from(self.cell.fan_out.max(1));
        let size = self.payload().map(f64::from);
        self.stat(|row| match (row.more.get(ARRIVED), size) {
            (Some(arrived), Some(size)) => Some(arrived * size * 8e-6 / fan_out),
            _ => ratio(row.payload_bytes as f64 * 8e-6 / fan_out, row.seconds),
        })
    }

    /// Percent of the messages that came within so many microseconds: at least, and at most. Both are equal where the
    /// distribution was kept; else they are what the quantiles of the rows leave possible.
    pub fn percent_within(&self, us: f64) -> Option<(f64, f64)> {
        if let Some(histogram) = self.response.as_ref().filter(|it| !it.is_empty()) {
            let percent = histogram.percentile_below((us * 1e3) as u64);
            return Some((percent, percent));
        }
        let (mut least, mut most, mut all) = (0.0, 0.0, 0.0);
        let rows = self.rows.iter().map(|row| row.response);
        for of in rows.filter(|it| it.count > 0) {
            let percents = [0.0, 50.0, 90.0, 99.0, 99.9, 100.0];
            let times = [of.p50, of.p90, of.p99, of.p999, of.max];
            let at = times.partition_point(|time| *time <= us);
            let count = of.count as f64;
            least += count * percents[at];
            most += count * percents[(at + 1).min(5)];
            all += count;
        }
        (all > 0.0).then(|| (least / all, most / all))
    }

    /// Which protocol with which reliability, as [`way`] names it.
    pub fn way(&self) -> String {
        way(&self.cell.publish)
    }

    /// The value of an axis; empty where it has none.
    pub fn axis(&self, axis: &str) -> &str {
        self.cell.axes.get(axis).map_or("", String::as_str)
    }

    /// Bytes of a payload, where all have the same size.
    pub fn payload(&self) -> Option<u32> {
        payload(&self.cell)
    }

    /// The loss of its link in percent.
    pub fn loss_percent(&self) -> f64 {
        (self.cell.link.loss * 1000.0).round() / 10.0
    }
}

/// Bytes of a payload, where all have the same size.
pub fn payload(cell: &Cell) -> Option<u32> {
    match cell.workload {
        Workload::Fixed { bytes } | Workload::Json { bytes } | Workload::Beside { bytes, .. } => {
            Some(bytes)
        }
        Workload::Trace { .. } | Workload::Class { .. } => None,
    }
}

/// A protocol and its reliability: `MQTT QoS 1`, `CoAP CON`, `AMQP`.
pub fn way(leg: &Leg) -> String {
    match (leg.protocol, leg.qos) {
        (Protocol::Mqtt, 2) if leg.window == 1 => "MQTT QoS 2 window 1".to_owned(),
        (Protocol::Mqtt, qos) => format!("MQTT QoS {qos}"),
        (Protocol::Coap, 0) => "CoAP NON".to_owned(),
        (Protocol::Coap, _) => "CoAP CON".to_owned(),
        (protocol, 0) => name(protocol).to_owned(),
        (protocol, _) => format!("{} confirmed", name(protocol)),
    }
}

/// A protocol as it is written.
pub fn name(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Mqtt => "MQTT",
        Protocol::Coap => "CoAP",
        Protocol::Amqp => "AMQP",
        Protocol::Stomp => "STOMP",
        Protocol::Zmtp => "ZMTP",
        Protocol::Dds => "DDS",
        Protocol::Xmpp => "XMPP",
    }
}

/// A client as it is written.
pub fn client(driver: Driver) -> &'static str {
    match driver {
        Driver::Common => "common client",
        Driver::Bare => "bare client",
        Driver::Stock => "stock client",
    }
}

/// The client of a cell behind its name, where a study has several.
pub fn client_of(cell: &Cell) -> String {
    let driver = cell.axes.get("driver");
    driver.map_or(String::new(), |driver| {
        format!(", {}", driver.replace('-', " "))
    })
}

/// In a row's `more`: messages that arrived in each whole second of the measured phase, on average.
pub const ARRIVED: &str = "arrived_per_s";

/// Messages that arrived in each second of a trial's measured phase.
pub fn delivered_per_s(row: &Row) -> Option<f64> {
    match row.more.get(ARRIVED) {
        Some(arrived) => Some(*arrived),
        None => ratio(row.delivered.saturating_sub(row.late) as f64, row.seconds),
    }
}

fn ratio(above: f64, below: f64) -> Option<f64> {
    (below > 0.0).then(|| above / below)
}
