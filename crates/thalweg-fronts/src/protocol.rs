//! What a front declares of its protocol: its name, what a message in it can carry, and what it counts.

use crate::capabilities::Capabilities;
use crate::service::Service;
use std::collections::BTreeMap;

/// A protocol. Each front's folder has one; the list of them is in `registry`.
#[derive(Debug)]
pub struct Protocol {
    pub name: &'static str,
    /// One record for each version that can carry other things; empty where interop is not tested.
    pub carries: &'static [Capabilities],
    /// What becomes of policies and content filters, for each version in which that differs.
    pub services: &'static [Service],
    pub metrics: &'static [FrontMetric],
}

/// A metric of one protocol. Counters end in `_total`; what does not says what is there now.
#[derive(Debug)]
pub struct FrontMetric {
    /// As Prometheus shows it; begins with `thalweg_<protocol>_`.
    pub name: &'static str,
    pub label: Option<&'static str>,
    /// All values of the label; one that is empty where there is no label.
    pub values: &'static [&'static str],
    pub unit: &'static str,
    pub help: &'static str,
}

impl FrontMetric {
    pub fn is_counter(&self) -> bool {
        self.name.ends_with("_total")
    }
}

/// Takes a metric, a value of its label, and what was counted.
pub type ShowCount<'a> = dyn FnMut(&'static FrontMetric, &'static str, u64) + 'a;

/// Counts of fronts, summed up by metric and label.
#[derive(Clone, Debug, Default)]
pub struct FrontCounts(BTreeMap<(&'static str, &'static str), (&'static FrontMetric, u64)>);

impl FrontCounts {
    pub fn add(&mut self, metric: &'static FrontMetric, value: &'static str, count: u64) {
        let sum = &mut self.0.entry((metric.name, value)).or_insert((metric, 0)).1;
        *sum += count;
    }

    pub fn merge(&mut self, other: &FrontCounts) {
        for (metric, value, count) in other.iter() {
            self.add(metric, value, count);
        }
    }

    /// Sorted by name and value of the label.
    pub fn iter(&self) -> impl Iterator<Item = (&'static FrontMetric, &'static str, u64)> + '_ {
        let shown = |(&(_, value), &(metric, count)): (&(_, _), &(_, _))| (metric, value, count);
        self.0.iter().map(shown)
    }
}
