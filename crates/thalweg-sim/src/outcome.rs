//! What came of a run.

use super::scenario::{Job, Scenario};

/// The figures of a run; times are seconds.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// From publish until processed, of the messages that count: the mean.
    pub mean: f64,
    /// The median of that.
    pub p50: f64,
    /// The 99th percentile of that.
    pub p99: f64,
    /// From publish until a handler took it, of all messages: the mean.
    pub wait_mean: f64,
    /// Messages that were not processed.
    pub lost: usize,
    /// Messages that were redelivered to another member, because the first one did not settle them.
    pub moved: usize,
    /// The longest time between the first and the second send of such a message.
    pub moved_after: f64,
    /// Messages that were sent again without a flag that says so.
    pub unflagged: usize,
    /// Messages that were processed again.
    pub processed_twice: usize,
    /// Messages of one key that were begun before, or while, an earlier one was.
    pub inversions: usize,
    /// Messages sent to each worker.
    pub shares: Vec<usize>,
    /// The most messages that a worker had unprocessed at once.
    pub exposed: usize,
    /// Longest time that a worker that lives had nothing unsettled while something waited in the group.
    pub idle_while_waiting: f64,
    /// Connections that the broker closed because their workers stalled.
    pub stalls: usize,
    /// Reports that workers sent.
    pub reports: usize,
    /// By message: who got it last, and how long it waited until a handler took it (not a number: never).
    pub taken: Vec<(usize, f64)>,
}

impl Outcome {
    /// With the figures that follow from when each message was begun and done; not a number: never.
    pub fn with_times(
        self,
        scenario: &Scenario,
        jobs: &[Job],
        done: &[f64],
        started: &[f64],
    ) -> Self {
        let skipped = jobs.len() / 10;
        let counts = |at: usize, job: &Job| match scenario.counted {
            Some((from, to)) => (from..to).contains(&job.at),
            None => at >= skipped,
        };
        let mut took: Vec<f64> = jobs
            .iter()
            .zip(done)
            .enumerate()
            .filter(|(at, (job, done))| counts(*at, job) && done.is_finite())
            .map(|(_, (job, done))| done - job.at)
            .collect();
        took.sort_by(f64::total_cmp);
        let waits = jobs.iter().zip(started);
        let waits = waits.map(|(job, started)| started - job.at);
        let waits: Vec<f64> = waits.filter(|wait| wait.is_finite()).collect();
        let quantile = |part: usize| {
            let found = took.get(took.len() * part / 100).or(took.last());
            found.copied().unwrap_or(f64::NAN)
        };
        let mean = |all: &[f64]| all.iter().sum::<f64>() / all.len().max(1) as f64;
        Outcome {
            mean: mean(&took),
            p50: quantile(50),
            p99: quantile(99),
            wait_mean: mean(&waits),
            lost: done.iter().filter(|at| !at.is_finite()).count(),
            ..self
        }
    }
}
