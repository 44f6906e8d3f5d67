//! A cell as it is run: workers, arrivals, a strategy, and the limit that it is held against.

use thalweg_model::Reliability;
use thalweg_mqtt::QoS;
use thalweg_mqtt::load::{CONCURRENCY_PROPERTY, ORDER_PROPERTY, SETTLES_PROPERTY, WEIGHT_PROPERTY};

use crate::cell::Cell;
use crate::sim::random::Random;
use crate::sim::scenario::{Acks, Scenario, Worker};

/// A cell and all that it takes to run it, which follows from the plan and the cell's seed.
#[derive(Clone, Debug)]
pub struct Task {
    pub cell: Cell,
    /// Its number in the run: in topics, names of clients and payloads.
    pub number: u32,
    /// The strategy, as the broker's settings name it.
    pub strategy: &'static str,
    pub scenario: Scenario,
    /// Bars for mean and 99th percentile as multiples of the limit.
    pub bars: Option<(f64, f64)>,
    /// The limit for the same arrivals and demands: mean, 99th percentile, mean wait, in milliseconds.
    pub limit_ms: (f64, f64, f64),
    /// Mean and 99th percentile in virtual time for the same arrivals and demands, in milliseconds; of rows with bars.
    pub virtual_ms: Option<(f64, f64)>,
}

impl Task {
    /// What publishes go to, and workers subscribe to.
    pub fn topic(&self) -> String {
        format!("e5/{}/{}", self.strategy, self.number)
    }

    pub fn filter(&self) -> String {
        format!("$share/e5/{}/#", self.topic())
    }

    /// The longest interval between two reports of one worker, in seconds; 0 if none of them reports.
    pub fn report_every(&self) -> f64 {
        longest_interval(&self.scenario.workers)
    }

    /// Seconds after the first at which each worker connects. Workers that report are somewhere in their interval, which
    /// the seed draws: when they connect is when they count from. The others come a millisecond apart.
    pub fn starts(&self) -> Vec<f64> {
        let mut random = Random::new(self.scenario.seed ^ PHASES);
        let every = self.report_every();
        let workers = 0..self.scenario.workers.len();
        workers
            .map(|at| {
                if every > 0.0 {
                    every * random.unit()
                } else {
                    at as f64 * CONNECT_GAP
                }
            })
            .collect()
    }
}

/// The same thing in MQTT's words.
pub fn qos(reliability: Reliability) -> QoS {
    match reliability {
        Reliability::AtMostOnce => QoS::AtMostOnce,
        Reliability::AtLeastOnce => QoS::AtLeastOnce,
        Reliability::ExactlyOnce => QoS::ExactlyOnce,
    }
}

/// The longest interval between two reports, in seconds; 0 if no worker reports.
pub fn longest_interval(workers: &[Worker]) -> f64 {
    let every = workers.iter().filter_map(|it| it.reports.every());
    every.fold(0.0, f64::max)
}

/// Makes the draw of phases another than that of arrivals.
const PHASES: u64 = 0x5048_4153_4553;
/// Seconds between the connections of two workers that do not report.
const CONNECT_GAP: f64 = 0.001;

/// The terms on which such a worker works, as user properties.
pub fn words(worker: &Worker, scenario: &Scenario) -> Vec<(&'static str, String)> {
    let mut words = Vec::new();
    if worker.declares {
        words.push((CONCURRENCY_PROPERTY, worker.handlers.to_string()));
        let settles = if worker.acks == Acks::Receipt {
            "received"
        } else {
            "processed"
        };
        words.push((SETTLES_PROPERTY, settles.to_owned()));
    }
    if let Some(weight) = worker.weight {
        words.push((WEIGHT_PROPERTY, weight.to_string()));
    }
    if scenario.ordered.is_some() {
        words.push((ORDER_PROPERTY, "topic".to_owned()));
    }
    words
}
