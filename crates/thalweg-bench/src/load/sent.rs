//! The sender's books.

use hdrhistogram::Histogram;
use thalweg_stats::histograms::up_to;

use super::Times;

/// What was to be sent, and was.
#[derive(Clone, Debug)]
pub struct Sent {
    times: Times,
    /// Messages that were due in the measured phase.
    pub intended: u64,
    /// Of those, handed over to the driver.
    pub sent: u64,
    /// Of those that were due in the measured phase, not taken at once: the broker held the driver back.
    pub held_back: u64,
    /// Handed over in all phases.
    pub all: u64,
    /// How late a message was first tried, nanoseconds; measured phase, by a schedule only.
    pub lag: Histogram<u64>,
    /// Handed over in each second since the warm-up began.
    pub seconds: Vec<u64>,
}

impl Sent {
    pub fn new(times: Times) -> Sent {
        Sent {
            times,
            intended: 0,
            sent: 0,
            held_back: 0,
            all: 0,
            lag: histogram(),
            seconds: Vec::new(),
        }
    }

    /// A message was due then, and is tried now.
    pub fn tried(&mut self, intended: u64, now: u64) {
        if self.times.counts(intended) {
            self.intended += 1;
            self.lag.saturating_record(now.saturating_sub(intended));
        }
    }

    /// One that is sent whenever that is possible: there is no lag.
    pub fn tried_without_time(&mut self, now: u64) {
        self.intended += u64::from(self.times.counts(now));
    }

    /// It was not taken at once.
    pub fn held_back(&mut self, intended: u64) {
        self.held_back += u64::from(self.times.counts(intended));
    }

    /// It was handed over.
    #[inline]
    pub fn sent(&mut self, intended: u64, now: u64) {
        self.all += 1;
        self.sent += u64::from(self.times.counts(intended));
        if let Some(second) = self.times.second(now) {
            if self.seconds.len() <= second {
                self.seconds.resize(second + 1, 0);
            }
            if let Some(count) = self.seconds.get_mut(second) {
                *count += 1;
            }
        }
    }
}

/// Nanoseconds up to an hour, 3 significant digits.
pub fn histogram() -> Histogram<u64> {
    with_digits(3)
}

/// The same, with so many significant digits.
pub fn with_digits(digits: u8) -> Histogram<u64> {
    up_to(LONGEST, digits)
}

/// An hour, in nanoseconds: what takes longer is counted as that.
const LONGEST: u64 = 3_600_000_000_000;
