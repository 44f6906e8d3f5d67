//! Remaining work of a member that reports: its last report, and the messages sent since.

use super::report::{Credible, Unit};
use super::work::Work;
use std::collections::VecDeque;

/// Most messages that are remembered while no member reports.
const UNHEARD_MAX: usize = 256;

/// The law of a group that a report is judged by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Law {
    /// Seconds a message takes there.
    pub(super) service: f64,
    /// Squared coefficient of variation.
    pub(super) variation: f64,
    pub(super) handlers: f64,
    /// One way through the network.
    pub(super) way: f64,
}

/// Measurements gained from a report.
#[derive(Clone, Copy, Debug)]
pub(super) struct Learnt {
    /// Messages processed since the report before, and the time of each.
    pub(super) processed: f64,
    pub(super) each: f64,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Reporting {
    /// Work left, everything sent among it.
    pub(super) work: Work,
    /// The same without what may not have arrived yet.
    settled: Work,
    /// Messages in flight: time of arrival, mean and variance of the work.
    under_way: VecDeque<(f64, f64, f64)>,
    /// The last messages sent while no member reported: when, and how large.
    unheard: VecDeque<(f64, f64)>,
    /// Messages that arrived since the last report.
    arrived: f64,
    waiting: f64,
    backlog: f64,
    /// When it last reported; nothing if never.
    pub(super) last: Option<f64>,
    gap_max: f64,
    gap_max_before: f64,
    gaps: u32,
    epoch: f64,
    unit: Unit,
    /// Mean time per message as reported.
    pub(super) each: f64,
    /// Nothing was processed although something waits.
    stuck: bool,
}

impl Reporting {
    pub(super) fn new(now: f64, every: f64) -> Self {
        Reporting {
            work: Work::none(now),
            settled: Work::none(now),
            gap_max_before: every,
            epoch: now,
            ..Reporting::default()
        }
    }

    /// A message was sent while no member of the group reports: what is left does not matter yet.
    #[inline]
    pub(super) fn sent_unheard(&mut self, factor: f64, now: f64) {
        if self.unheard.len() >= UNHEARD_MAX {
            self.unheard.pop_front();
            self.arrived += 1.0;
        }
        self.unheard.push_back((now, factor));
    }

    /// From now on it matters.
    pub(super) fn catch_up(&mut self, law: &Law) {
        for (sent, factor) in std::mem::take(&mut self.unheard) {
            self.sent(factor, law, sent);
        }
    }

    /// A message was sent.
    pub(super) fn sent(&mut self, factor: f64, law: &Law, now: f64) {
        let mean = law.service * factor / law.handlers;
        let variance = law.variation * law.service * law.service * factor * factor / law.handlers;
        self.work.add(mean, variance, now + law.way);
        self.under_way.push_back((now + law.way, mean, variance));
        self.settle_until(now - law.way);
    }

    /// Messages that had arrived by `at` are included in a report of that time.
    fn settle_until(&mut self, at: f64) {
        while let Some((arrival, mean, variance)) = self.under_way.front().copied() {
            if arrival > at {
                break;
            }
            self.under_way.pop_front();
            self.settled.add(mean, variance, arrival);
            self.arrived += 1.0;
        }
    }

    /// Longest usual time between reports.
    pub(super) fn usual_gap(&self) -> f64 {
        self.gap_max.max(self.gap_max_before)
    }

    /// Whether it does not work, or has not said for too long that it does.
    pub(super) fn is_suspended(&self, law: &Law, now: f64) -> bool {
        let Some(last) = self.last else { return false };
        self.stuck || now - last > 1.5 * self.usual_gap() + 0.05 + 2.0 * law.way
    }

    /// Whether it has said nothing for so long that its reports are over.
    pub(super) fn is_over(&self, now: f64) -> bool {
        self.last
            .is_some_and(|last| now - last > 60.0_f64.max(20.0 * self.usual_gap()))
    }

    /// Takes in a report. Returns the measurements gained from it, if any.
    pub(super) fn reported(&mut self, report: Credible, law: &Law, now: f64) -> Option<Learnt> {
        let then = now - law.way;
        self.settle_until(then);
        let interval = self.last.map_or(now - self.epoch, |last| now - last);
        let processed = (self.backlog + self.arrived - report.waiting).max(0.0);
        let busy = law.handlers * interval.max(1e-3);
        let report = self.unit.apply(report, processed.max(1.0), busy)?;
        let mut waiting = report.waiting;
        if self.last.is_some() {
            self.count_gap(interval, now);
        }
        let service = law.service;
        let each = if report.each > 0.0 {
            report.each
        } else {
            service
        };
        // A member that counts no further than its queue's end.
        let unseen = self.backlog + self.arrived - interval * law.handlers / each;
        let doubt = 3.0 + 2.0 * (law.variation * interval / each).sqrt();
        if waiting >= 8.0 && self.last.is_some() && unseen > waiting + doubt {
            waiting = unseen;
        }
        let prior = self.settled.drained(then);
        let is_busy = waiting > 0.0 || prior.mean > service / 2.0;
        let busy = if is_busy { 1.0 } else { 0.0 };
        let seen = (waiting + 0.5 * busy * (1.0 + law.variation)) * service / law.handlers;
        let noise = (1.0 / 12.0 + (waiting + busy / 2.0) * law.variation) * service * service
            / law.handlers;
        let (mut mean, mut variance) = (seen, noise);
        if law.variation < 0.25 && self.last.is_some() {
            let drift = 0.01 * processed * service;
            let before = prior.variance + drift * drift;
            let gain = before / (before + noise).max(1e-18);
            mean = prior.mean + gain * (seen - prior.mean);
            variance = (1.0 - gain) * before;
            mean = mean.clamp(
                waiting * service / law.handlers,
                (waiting + 1.0) * service / law.handlers,
            );
        }
        self.settled = Work {
            mean,
            variance,
            at: then,
        };
        self.work = self.settled;
        for (arrival, mean, variance) in &self.under_way {
            self.work.add(*mean, *variance, *arrival);
        }
        self.stuck = report.each == 0.0
            && report.waiting > 0.0
            && interval > 10.0 * service
            && self.last.is_some();
        self.waiting = waiting;
        self.backlog = waiting;
        self.arrived = 0.0;
        self.last = Some(now);
        if report.each == 0.0 || processed < 0.5 {
            return None;
        }
        self.each = if self.each == 0.0 {
            report.each
        } else {
            self.each + (report.each - self.each) / 5.0
        };
        Some(Learnt {
            processed,
            each: report.each,
        })
    }

    fn count_gap(&mut self, gap: f64, now: f64) {
        self.gaps += 1;
        self.gap_max = self.gap_max.max(gap);
        if self.gaps.is_multiple_of(16) && now - self.epoch > 10.0 {
            self.epoch = now;
            self.gap_max_before = std::mem::replace(&mut self.gap_max, 0.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAW: Law = Law {
        service: 0.025,
        variation: 0.0,
        handlers: 1.0,
        way: 0.0,
    };

    fn report(waiting: f64, each_ms: f64) -> Credible {
        Credible {
            waiting,
            each: each_ms / 1e3,
            concurrency: None,
        }
    }

    #[test]
    fn a_report_counts_what_was_processed_and_what_is_under_way_is_not_missed() {
        let law = Law { way: 0.010, ..LAW };
        let mut reporting = Reporting::new(0.0, 1.0);
        for number in 0..10 {
            reporting.sent(1.0, &law, 0.1 * f64::from(number));
        }
        // The tenth left 5 ms before the report came: the member had not seen it when it reported.
        let mut last = Reporting {
            ..reporting.clone()
        };
        last.sent(1.0, &law, 0.995);
        let learnt = last
            .reported(report(0.0, 25.0), &law, 1.0)
            .expect("something was processed");
        assert_eq!(learnt.processed, 10.0);
        assert!(last.work.mean > 0.020, "{:?}", last.work);
    }

    #[test]
    fn a_member_that_stops_reporting_is_suspended_after_one_and_a_half_of_its_usual_gaps() {
        let mut reporting = Reporting::new(0.0, 5.0);
        for second in 1..34 {
            reporting.reported(report(0.0, 25.0), &LAW, f64::from(second));
        }
        assert!(!reporting.is_suspended(&LAW, 34.5));
        assert!(reporting.is_suspended(&LAW, 34.6));
    }

    #[test]
    fn one_that_waits_and_does_nothing_is_suspended() {
        let mut reporting = Reporting::new(0.0, 1.0);
        reporting.reported(report(0.0, 25.0), &LAW, 1.0);
        reporting.reported(report(7.0, 0.0), &LAW, 2.0);
        assert!(reporting.is_suspended(&LAW, 2.1));
        reporting.reported(report(3.0, 25.0), &LAW, 3.0);
        assert!(!reporting.is_suspended(&LAW, 3.1));
    }

    #[test]
    fn a_queue_that_counts_to_ten_is_seen_through() {
        let mut reporting = Reporting::new(0.0, 1.0);
        reporting.reported(report(0.0, 25.0), &LAW, 1.0);
        for number in 0..100 {
            reporting.sent(1.0, &LAW, 1.0 + 0.01 * f64::from(number));
        }
        reporting.reported(report(10.0, 25.0), &LAW, 2.0);
        assert!(
            reporting.work.mean > 1.3,
            "sixty are left: {:?}",
            reporting.work
        );
    }
}
