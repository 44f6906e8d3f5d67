//! Whether a member works on several messages at once, as it said or although it did not say so.
//!
//! With a message ahead, a member with one handler leaves a whole service time between two acknowledgements; one with
//! several often leaves none, because acknowledgements come in order.

/// Samples of messages that were alone at the member, and of gaps, before anything is said.
const ALONE: usize = 32;
const ALONE_MIN: usize = 4;
/// A member under suspicion gets one message at a time until there are so many samples of single messages.
const ALONE_SURE: usize = 16;
const GAPS_FIRST: u32 = 32;
/// The same again before it is believed.
const GAPS_SECOND: u32 = 48;
/// Share of gaps that may be short: below half of the shortest tenth of single-message times. Half, because a constant
/// service has gaps as long as messages.
const SHORT_MAX: f64 = 0.3;

#[derive(Clone, Debug, Default)]
pub(super) struct Parallel {
    alone: Vec<f32>,
    count: usize,
    gaps: u32,
    short: u32,
    suspected: bool,
    pub(super) found: bool,
    /// Mean time of a message processed alone.
    pub(super) alone_mean: f64,
    gap_mean: f64,
    /// Handlers, if the member has said how many.
    declared: Option<u16>,
}

/// Deviations of the mean of a memoryless law.
const UNSURE: f64 = 2.0;

/// Handlers that a member is assumed to have at most, unless it declares more.
const HANDLERS_MAX: f64 = 64.0;

impl Parallel {
    /// A member has said how many handlers it has.
    pub(super) fn declare(&mut self, handlers: u16) {
        self.declared = (handlers > 1).then_some(handlers);
        self.found = handlers > 1;
    }

    /// Whether it should have one message at a time, so that it is learnt what one takes.
    pub(super) fn is_sampling(&self) -> bool {
        (self.found || self.suspected) && self.declared.is_none() && self.count < ALONE_SURE
    }

    /// A message that had the member for itself took this long.
    pub(super) fn alone(&mut self, took: f64) {
        self.alone_mean += (took - self.alone_mean) / (self.count.min(63) + 1) as f64;
        let at = self.count % ALONE;
        match self.alone.get_mut(at) {
            Some(old) => *old = took as f32,
            None => self.alone.push(took as f32),
        }
        self.count += 1;
    }

    /// Estimated number of handlers: the time of a message alone divided by the gap under load. Rather too many than
    /// too few: a member with too few messages shows too long gaps, so an estimate that is too low would confirm
    /// itself.
    pub(super) fn handlers(&self) -> f64 {
        if let Some(declared) = self.declared {
            return f64::from(declared);
        }
        let unsure = 1.0 + UNSURE / (self.count.clamp(1, 64) as f64).sqrt();
        (unsure * self.alone_mean / self.gap_mean.max(1e-9)).clamp(1.0, HANDLERS_MAX)
    }

    /// Time between acknowledgements, where the second message had waited at the member; and by how much that may be off.
    pub(super) fn gap(&mut self, gap: f64, jitter: f64) {
        self.gap_mean += (gap - self.gap_mean) / if self.gap_mean == 0.0 { 1.0 } else { 64.0 };
        let gap = gap + jitter;
        if self.found || self.declared.is_some() || self.alone.len() < ALONE_MIN {
            return;
        }
        self.gaps += 1;
        let shorter = self
            .alone
            .iter()
            .filter(|alone| f64::from(**alone) < 2.0 * gap)
            .count();
        self.short += u32::from(shorter <= self.alone.len() / 10);
        let enough = if self.suspected {
            GAPS_SECOND
        } else {
            GAPS_FIRST
        };
        if self.gaps < enough {
            return;
        }
        let is_short = f64::from(self.short) > SHORT_MAX * f64::from(self.gaps);
        self.found = is_short && self.suspected;
        self.suspected = is_short;
        (self.gaps, self.short) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_suspected_is_sampled_before_it_is_believed() {
        let mut parallel = Parallel::default();
        (0..ALONE_MIN).for_each(|_| parallel.alone(0.010));
        (0..GAPS_FIRST).for_each(|_| parallel.gap(0.002, 0.0));
        assert!(parallel.is_sampling() && !parallel.found);
        (0..ALONE_SURE).for_each(|_| parallel.alone(0.010));
        assert!(!parallel.is_sampling());
        (0..GAPS_SECOND).for_each(|_| parallel.gap(0.002, 0.0));
        assert!(
            parallel.found && parallel.handlers() >= 4.9,
            "{}",
            parallel.handlers()
        );
    }

    #[test]
    fn one_handler_is_not_suspected() {
        let mut parallel = Parallel::default();
        (0..ALONE_SURE).for_each(|_| parallel.alone(0.010));
        (0..1_000).for_each(|_| parallel.gap(0.010, 0.0));
        assert!(!parallel.found && !parallel.is_sampling());
    }

    #[test]
    fn who_says_how_many_is_believed_at_once() {
        let mut parallel = Parallel::default();
        parallel.declare(4);
        assert!(parallel.found && !parallel.is_sampling());
        assert_eq!(parallel.handlers(), 4.0);
        parallel.declare(1);
        assert!(!parallel.found);
    }
}
