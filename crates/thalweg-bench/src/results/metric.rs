//! What can be asked of a trial by name: for assertions, comparisons and exports.

use crate::cell::{Cell, Quantiles, Row};

/// A figure of a trial.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    pub name: &'static str,
    pub unit: Unit,
    /// Which way is better.
    pub better: Better,
    pub meaning: &'static str,
    /// Its value; none where it was not measured.
    pub of: fn(&Cell, &Row) -> Option<f64>,
}

/// What a figure is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Micros,
    Bytes,
    Kibibytes,
    /// 1/s
    PerSecond,
    /// Part of one, written in percent.
    Part,
    Count,
    /// A number of things that is no whole one.
    Number,
}

impl Unit {
    /// As it is written behind a number.
    pub fn word(self) -> &'static str {
        match self {
            Unit::Micros => "µs",
            Unit::Bytes => "B",
            Unit::Kibibytes => "KiB",
            Unit::PerSecond => "/s",
            Unit::Part => "%",
            Unit::Count | Unit::Number => "",
        }
    }

    /// A value as it is written.
    pub fn written(self, value: f64) -> String {
        let number = if self == Unit::Part {
            value * 100.0
        } else {
            value
        };
        let digits = match number.abs() {
            _ if number == number.trunc() && number.abs() < 1e15 => 0,
            size if size >= 1000.0 => 0,
            size if size >= 10.0 => 1,
            size if size >= 0.1 => 3,
            _ => 6,
        };
        match self {
            Unit::Part => format!("{number:.digits$} %"),
            Unit::Count | Unit::Number => format!("{number:.digits$}"),
            Unit::PerSecond => format!("{number:.digits$}/s"),
            unit => format!("{number:.digits$} {}", unit.word()),
        }
    }
}

/// Which way is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    Lower,
    Higher,
    /// It says what was done, not how well.
    Neither,
}

/// The figure of that name.
pub fn metric(name: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|metric| metric.name == name)
}

fn received(quantiles: &Quantiles, value: f64) -> Option<f64> {
    (quantiles.count > 0).then_some(value)
}

fn per(amount: f64, count: u64) -> Option<f64> {
    (count > 0).then(|| amount / count as f64)
}

fn per_second(count: u64, row: &Row) -> Option<f64> {
    (row.seconds > 0.0).then(|| count as f64 / row.seconds)
}

macro_rules! metrics {
    ($($name:literal, $unit:ident, $better:ident, $meaning:literal, $of:expr;)*) => {
        &[$(Metric { name: $name, unit: Unit::$unit, better: Better::$better, meaning: $meaning, of: $of }),*]
    };
}

pub const METRICS: &[Metric] = metrics! {
    "mean", Micros, Lower, "response, mean", |_, r| received(&r.response, r.response.mean);
    "p50", Micros, Lower, "response, median", |_, r| received(&r.response, r.response.p50);
    "p90", Micros, Lower, "response, 90th percentile", |_, r| received(&r.response, r.response.p90);
    "p99", Micros, Lower, "response, 99th percentile", |_, r| received(&r.response, r.response.p99);
    "p999", Micros, Lower, "response, 99.9th percentile", |_, r| received(&r.response, r.response.p999);
    "max", Micros, Lower, "response, longest", |_, r| received(&r.response, r.response.max);
    "svc_mean", Micros, Lower, "service, mean", |_, r| received(&r.service, r.service.mean);
    "svc_p50", Micros, Lower, "service, median", |_, r| received(&r.service, r.service.p50);
    "svc_p90", Micros, Lower, "service, 90th percentile", |_, r| received(&r.service, r.service.p90);
    "svc_p99", Micros, Lower, "service, 99th percentile", |_, r| received(&r.service, r.service.p99);
    "offered", PerSecond, Neither, "messages that were to be published", |_, r| per_second(r.intended, r);
    "achieved", PerSecond, Higher, "messages published", |_, r| per_second(r.sent, r);
    "delivered", PerSecond, Higher, "copies delivered", |_, r| per_second(r.delivered, r);
    "goodput", PerSecond, Higher, "payload bytes delivered", |_, r| per_second(r.payload_bytes, r);
    "delivery", Part, Higher, "copies delivered of those expected", |_, r| per(r.delivered as f64, r.expected);
    "lost", Count, Lower, "copies not received", |_, r| Some(r.lost as f64);
    "dup", Count, Lower, "copies received again", |_, r| Some(r.duplicates as f64);
    "reordered", Count, Lower, "copies behind a later one", |_, r| Some(r.reordered as f64);
    "late", Count, Lower, "copies received in the drain", |_, r| Some(r.late as f64);
    "unacknowledged", Count, Lower, "messages never confirmed", |_, r| Some(r.unacknowledged as f64);
    "bytes_per_msg", Bytes, Lower, "Ethernet-frame bytes of both legs per copy delivered", |_, r| per(r.wire_bytes? as f64, r.delivered);
    "frames_per_msg", Number, Lower, "frames of both legs per copy delivered", |_, r| per(r.wire_frames? as f64, r.delivered);
    "cpu_broker", Micros, Lower, "processor time of the broker per copy delivered", |_, r| per(r.cpu_broker_s * 1e6, r.delivered);
    "cpu_client", Micros, Lower, "processor time of what sends and receives per copy delivered", |_, r| per(r.cpu_client_s * 1e6, r.delivered);
    "rss", Kibibytes, Lower, "resident memory of the broker at most", |_, r| Some(r.rss_broker_kib as f64);
    "switches_per_msg", Number, Lower, "context switches of the broker per copy delivered", |_, r| per(r.switches_broker as f64, r.delivered);
    "calls_per_msg", Number, Lower, "system calls of the broker per copy delivered", |_, r| per(r.calls_broker.as_ref()?.count()? as f64, r.delivered);
    "lag_p99", Micros, Neither, "how late messages were sent, 99th percentile", |_, r| Some(r.lag_p99_us);
};
