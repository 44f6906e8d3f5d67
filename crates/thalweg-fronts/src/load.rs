//! What peers say of their load, on its way to the kernel; and how often that was of no use.
//!
//! A report is advice. Whatever is wrong with it, the peer is served as before: it is counted and forgotten.

use crate::link::Links;
use std::ops::AddAssign;
use thalweg_kernel::{Kernel, LoadReport, SessionId};
use thalweg_model::Time;
use thalweg_mqtt::Load;

/// What was said of load since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadCounts {
    /// Reports that may be true.
    pub taken: u64,
    /// Reports that could not be read, or cannot be true.
    pub refused: u64,
    /// Terms of work (`lb-…`) with an unknown value.
    pub terms_ignored: u64,
}

impl AddAssign for LoadCounts {
    fn add_assign(&mut self, other: Self) {
        let LoadCounts {
            taken,
            refused,
            terms_ignored,
        } = other;
        self.taken += taken;
        self.refused += refused;
        self.terms_ignored += terms_ignored;
    }
}

/// What stands for a report that could not be read, so that the kernel counts it with its sender.
const UNREADABLE: LoadReport = LoadReport {
    waiting: f64::NAN,
    each_ms: f64::NAN,
    concurrency: None,
};

impl Links {
    /// What was said of load since the start.
    pub fn load_counts(&self) -> LoadCounts {
        self.load
    }

    /// A peer reports its load.
    pub(crate) fn report_load(
        &mut self,
        session: SessionId,
        said: Load,
        now: Time,
        kernel: &mut Kernel,
    ) {
        let report = said.map_or(UNREADABLE, |said| LoadReport {
            waiting: f64::from(said.waiting),
            each_ms: said.each_ms,
            concurrency: said.concurrency,
        });
        let count = if kernel.report_load(session, &report, now, self) {
            &mut self.load.taken
        } else {
            &mut self.load.refused
        };
        *count += 1;
    }
}
