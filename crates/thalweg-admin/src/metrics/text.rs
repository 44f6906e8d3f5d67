//! Prometheus' text format, version 0.0.4.

use super::gathered::Gathered;
use super::table::{METRICS, Metric, MetricKind, Read};
use std::fmt::Write;
use thalweg_kernel::Waits;
use thalweg_server::stages::{BOUNDS_NANOS, Histogram, SPANS};
use thalweg_server::{FrontCounts, FrontMetric, protocols};

/// All metrics as text.
pub fn render(gathered: &Gathered) -> String {
    let mut out = String::with_capacity(16 << 10);
    for metric in METRICS {
        describe(&mut out, metric.name, metric.help, metric.kind);
        values(&mut out, metric, gathered);
    }
    // Declared metrics are shown from the start, an extension's once it has counted.
    let mut counts = FrontCounts::default();
    for metric in protocols().flat_map(|protocol| protocol.metrics) {
        metric
            .values
            .iter()
            .for_each(|value| counts.add(metric, value, 0));
    }
    counts.merge(&gathered.fronts);
    let mut described = "";
    for (metric, value, count) in counts.iter() {
        if described != metric.name {
            described = metric.name;
            describe(&mut out, metric.name, metric.help, front_kind(metric));
        }
        let labelled = |label| format!("{{{label}=\"{}\"}}", escaped(value));
        let label = metric.label.map_or(String::new(), labelled);
        let _ = writeln!(out, "{}{label} {count}", metric.name);
    }
    out
}

pub(super) fn front_kind(metric: &FrontMetric) -> MetricKind {
    match metric.is_counter() {
        true => MetricKind::Counter,
        false => MetricKind::Gauge,
    }
}

fn describe(out: &mut String, name: &str, help: &str, kind: MetricKind) {
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {}", kind.name());
}

fn values(out: &mut String, metric: &Metric, gathered: &Gathered) {
    let (name, label) = (metric.name, metric.label.unwrap_or("label"));
    match metric.read {
        Read::One(read) => {
            let _ = writeln!(out, "{name} {}", read(gathered));
        }
        Read::Real(read) => {
            let _ = writeln!(out, "{name} {}", read(gathered));
        }
        Read::Each(read) => read(gathered, &mut |value, number| {
            let _ = writeln!(out, "{name}{{{label}=\"{}\"}} {number}", escaped(value));
        }),
        Read::EachReal(read) => read(gathered, &mut |value, number| {
            let _ = writeln!(out, "{name}{{{label}=\"{}\"}} {number}", escaped(value));
        }),
        Read::Waits => waits_of(out, name, &gathered.groups.counters.wait),
        Read::Stages => {
            for (stage, histogram) in SPANS.iter().zip(&gathered.stages.histograms) {
                histogram_of(out, name, &format!("{label}=\"{stage}\""), histogram);
            }
        }
    }
}

fn histogram_of(out: &mut String, name: &str, label: &str, histogram: &Histogram) {
    let mut seen = 0;
    for (bound, count) in BOUNDS_NANOS.iter().zip(&histogram.buckets) {
        seen += count;
        let _ = writeln!(
            out,
            "{name}_bucket{{{label},le=\"{}\"}} {seen}",
            seconds(*bound)
        );
    }
    let _ = writeln!(
        out,
        "{name}_bucket{{{label},le=\"+Inf\"}} {}",
        histogram.count
    );
    let _ = writeln!(
        out,
        "{name}_sum{{{label}}} {}",
        seconds(histogram.sum_nanos)
    );
    let _ = writeln!(out, "{name}_count{{{label}}} {}", histogram.count);
}

fn waits_of(out: &mut String, name: &str, waits: &Waits) {
    let mut seen = 0;
    for (bound, count) in Waits::BOUNDS_MS.iter().zip(&waits.counts) {
        seen += count;
        let _ = writeln!(
            out,
            "{name}_bucket{{le=\"{}\"}} {seen}",
            seconds(bound * 1_000_000)
        );
    }
    let count = waits.count();
    let _ = writeln!(out, "{name}_bucket{{le=\"+Inf\"}} {count}");
    let _ = writeln!(
        out,
        "{name}_sum {}\n{name}_count {count}",
        seconds(waits.sum.nanos())
    );
}

/// Exactly, and without an exponent.
fn seconds(nanos: u64) -> String {
    let text = format!("{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A label's value: backslash, quote and line feed are escaped.
fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::gathered::GroupFigures;
    use thalweg_server::stages::Span;

    #[test]
    fn every_metric_is_described_before_its_values() {
        let mut gathered = Gathered {
            version: "1.2.3",
            ..Gathered::default()
        };
        gathered
            .connections
            .insert("a \"quoted\"\nname\\".into(), 7);
        gathered.ledger.dropped[0] = 5;
        let text = render(&gathered);
        assert!(text.contains("thalweg_build_info{version=\"1.2.3\"} 1\n"));
        assert!(text.contains("thalweg_connections{listener=\"a \\\"quoted\\\"\\nname\\\\\"} 7\n"));
        assert!(text.contains("thalweg_copies_dropped_total{reason=\"queue_full\"} 5\n"));
        let mut described = "";
        for line in text.lines() {
            match line.strip_prefix("# TYPE ") {
                Some(rest) => described = rest.split(' ').next().unwrap_or(""),
                None if line.starts_with('#') => {}
                None => assert!(
                    line.starts_with(described),
                    "{line} comes under {described}"
                ),
            }
        }
    }

    #[test]
    fn groups_are_shown_together_and_each() {
        let mut gathered = Gathered::default();
        let mut crew = GroupFigures {
            waiting: 3,
            oldest: thalweg_model::Span::from_millis(1500),
            ..Default::default()
        };
        for millis in [1, 30, 90_000] {
            crew.counters
                .wait
                .add(thalweg_model::Span::from_millis(millis));
        }
        crew.counters.held = 4;
        gathered.groups = crew;
        gathered
            .each_group
            .insert("$share/crew/road/#".into(), crew);
        let text = render(&gathered);
        for line in [
            "thalweg_groups_waiting 3",
            "thalweg_groups_oldest_wait_seconds 1.5",
            "thalweg_groups_choices_total{choice=\"held\"} 4",
            "thalweg_groups_wait_seconds_bucket{le=\"0.001\"} 1",
            "thalweg_groups_wait_seconds_bucket{le=\"0.05\"} 2",
            "thalweg_groups_wait_seconds_bucket{le=\"60\"} 2",
            "thalweg_groups_wait_seconds_bucket{le=\"+Inf\"} 3",
            "thalweg_groups_wait_seconds_sum 90.031",
            "thalweg_groups_wait_seconds_count 3",
            "thalweg_group_waiting{group=\"$share/crew/road/#\"} 3",
            "thalweg_group_oldest_wait_seconds{group=\"$share/crew/road/#\"} 1.5",
        ] {
            assert!(
                text.lines().any(|there| there == line),
                "{line} is not in\n{text}"
            );
        }
    }

    #[test]
    fn buckets_add_up() {
        let mut gathered = Gathered::default();
        for nanos in [40, 50, 90, 1_000_000_000] {
            gathered.stages.record(Span::NetRead, nanos);
        }
        let text = render(&gathered);
        let value = |rest: &str| {
            let line = text.lines().find_map(|line| {
                line.strip_prefix("thalweg_stage_seconds")?
                    .strip_prefix(rest)
            });
            line.map(str::trim).unwrap_or_default().to_owned()
        };
        assert_eq!(value("_bucket{stage=\"net.read\",le=\"0.00000005\"}"), "2");
        assert_eq!(value("_bucket{stage=\"net.read\",le=\"0.0000001\"}"), "3");
        assert_eq!(value("_bucket{stage=\"net.read\",le=\"0.0262144\"}"), "3");
        assert_eq!(value("_bucket{stage=\"net.read\",le=\"+Inf\"}"), "4");
        assert_eq!(value("_count{stage=\"net.read\"}"), "4");
        assert_eq!(value("_sum{stage=\"net.read\"}"), "1.00000018");
    }
}
