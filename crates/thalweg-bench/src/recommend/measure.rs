//! What of a trial is compared.

use clap::ValueEnum;

use super::axes::{bytes, short};
use crate::cell::{Cell, Quantiles, Row, word};
use crate::energy;
use crate::report::stat::grouped;

/// A figure of a trial. Units: microseconds, bytes, messages a second, KiB, microjoules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum)]
pub enum Metric {
    Latency,
    /// 90th percentile of it.
    LatencyP90,
    /// 99th percentile of it.
    LatencyP99,
    /// Ethernet-frame bytes per message delivered, both legs.
    Bytes,
    /// Messages delivered a second.
    Throughput,
    /// Processor time per message delivered, clients and broker.
    Cpu,
    /// Resident memory of the broker.
    Memory,
    /// Modelled energy per message delivered.
    Energy,
    /// The part of all copies that arrived.
    Delivered,
}

impl Metric {
    /// Its name on the command line and in JSON.
    pub fn name(self) -> String {
        word(self)
    }

    /// The one that can be weighed.
    pub fn named(name: &str) -> Option<Metric> {
        let found = Metric::from_str(name, false).ok();
        found.filter(|it| *it != Metric::Delivered)
    }

    /// In microseconds and the like, from a trial; none where it was not measured.
    pub fn of(self, cell: &Cell, row: &Row, profile: &energy::Profile) -> Option<f64> {
        let messages = row.delivered as f64;
        let of_response =
            |part: fn(&Quantiles) -> f64| (row.response.count > 0).then(|| part(&row.response));
        let value = match self {
            Metric::Latency => of_response(|it| it.mean),
            Metric::LatencyP90 => of_response(|it| it.p90),
            Metric::LatencyP99 => of_response(|it| it.p99),
            Metric::Bytes if messages > 0.0 => row.wire_bytes.map(|it| it as f64 / messages),
            // What comes in the drain was carried after the seconds that are counted.
            // A trial in which nothing came in time has no rate: its logarithm would outweigh all others.
            Metric::Throughput if row.seconds > 0.0 && row.delivered > row.late => {
                Some((messages - row.late as f64) / row.seconds)
            }
            Metric::Cpu if messages > 0.0 => {
                let seconds = row.cpu_broker_s + row.cpu_client_s;
                (seconds > 0.0).then(|| 1e6 * seconds / messages)
            }
            Metric::Memory => (row.rss_broker_kib > 0).then_some(row.rss_broker_kib as f64),
            Metric::Energy => energy::total(profile, cell, row),
            Metric::Delivered if row.expected > 0 => Some(messages / row.expected as f64),
            _ => None,
        };
        value.filter(|it| it.is_finite())
    }

    /// What is interpolated instead of the value. Times follow losses evenly and may be zero; what spans decades goes by its
    /// logarithm.
    pub fn scaled(self, value: f64) -> f64 {
        if self.is_linear() {
            value
        } else {
            value.max(1e-9).ln()
        }
    }

    pub fn unscaled(self, place: f64) -> f64 {
        if self.is_linear() { place } else { place.exp() }
    }

    /// Half of an interval on that scale as a part of the value.
    pub fn relative(self, value: f64, half: f64) -> f64 {
        if self.is_linear() {
            half / value.abs().max(self.least())
        } else {
            half
        }
    }

    /// 10 % of a value on that scale.
    pub fn part(self, value: f64, part: f64) -> f64 {
        if self.is_linear() {
            value.abs() * part
        } else {
            (1.0 + part).ln()
        }
    }

    /// The logarithm of what it costs: less is better.
    pub fn cost(self, value: f64) -> f64 {
        let size = value.max(self.least()).ln();
        if self == Metric::Throughput {
            -size
        } else {
            size
        }
    }

    /// Values below are as good as none: a microsecond.
    fn least(self) -> f64 {
        if self == Metric::Delivered || !self.is_linear() {
            1e-9
        } else {
            1.0
        }
    }

    fn is_linear(self) -> bool {
        matches!(
            self,
            Metric::Latency | Metric::LatencyP90 | Metric::LatencyP99 | Metric::Delivered
        )
    }

    /// A value in words.
    pub fn words(self, value: f64) -> String {
        match self {
            Metric::Latency => format!("{} on average", time(value)),
            Metric::LatencyP90 => format!("90 % within {}", time(value)),
            Metric::LatencyP99 => format!("99 % within {}", time(value)),
            Metric::Bytes if value < 1e5 => format!("{value:.0} B a message"),
            Metric::Bytes => format!("{} a message", bytes(value)),
            Metric::Throughput if value < 1000.0 => format!("{} messages/s", short(value)),
            Metric::Throughput => format!("{} messages/s", grouped(value)),
            Metric::Cpu => format!("{} us of a processor a message", short(value)),
            Metric::Memory => format!("{} MiB", short(value / 1024.0)),
            Metric::Energy => format!("{} uJ a message (modelled)", short(value)),
            Metric::Delivered => format!("{} % delivered", short(100.0 * value)),
        }
    }

    /// What less of it is called.
    pub fn better(self) -> &'static str {
        match self {
            Metric::Latency | Metric::LatencyP90 | Metric::LatencyP99 => "be quicker",
            Metric::Bytes => "take fewer bytes",
            Metric::Throughput => "carry more",
            Metric::Cpu => "take less processor time",
            Metric::Memory => "take less memory",
            Metric::Energy => "take less energy (modelled)",
            Metric::Delivered => "deliver more",
        }
    }
}

pub fn time(micros: f64) -> String {
    match micros {
        it if it >= 1e6 => format!("{} s", short(it / 1e6)),
        it if it >= 1e3 => format!("{} ms", short(it / 1e3)),
        it => format!("{} us", short(it)),
    }
}
