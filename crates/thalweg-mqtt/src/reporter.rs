//! A worker's statistics of itself: waiting messages, time per message, and the time of the next report.
//!
//! A broker that balances a group keeps a prediction of each member: what the member said last, one message's time more for
//! each that was sent since, and the time that has passed less. A reporter keeps the same prediction beside the truth, so
//! that it can speak up as soon as they part, instead of letting the broker be wrong until the next regular report.
//!
//! ```text
//!                 received()      started()         finished()
//!  from broker ──> waiting ──────> in process ─────> processed
//!
//!  is_due(): an interval has passed                                      (regular), or
//!            more than one message between prediction and truth          (an event; events keep
//!            nothing left to do, and the broker believes there is         a distance of 20 ms)
//!            the first message ever has been processed
//! ```
//!
//! Knows numbers and times; how a report travels is in [`crate::load`]. A time is a [`Duration`] since any moment that
//! the caller chose, the same for all calls.

use std::time::Duration;

use crate::load::Report;

/// When a [`Reporter`] speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportRules {
    /// Time between regular reports; `None`: on events only. A broker takes a member that falls silent for half as long
    /// again for one that is stuck, so who reports at all does so regularly.
    pub every: Option<Duration>,
    /// Whether to report when the broker's prediction is wrong.
    pub on_events: bool,
    /// Least time between two reports; not below [`ReportRules::GAP_MIN`].
    pub gap: Duration,
    /// Messages that are processed side by side.
    pub concurrency: u16,
}

impl ReportRules {
    /// Twenty milliseconds: fifty reports a second are the most.
    pub const GAP_MIN: Duration = Duration::from_millis(20);

    /// Regular reports only, as the thesis has them.
    pub const fn every(every: Duration) -> ReportRules {
        ReportRules {
            every: Some(every),
            on_events: false,
            gap: Self::GAP_MIN,
            concurrency: 1,
        }
    }
}

impl Default for ReportRules {
    /// Every second, and on events.
    fn default() -> Self {
        ReportRules {
            on_events: true,
            ..ReportRules::every(Duration::from_secs(1))
        }
    }
}

/// A worker's load at a point in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkLoad {
    /// Messages that were received and not begun.
    pub waiting: u64,
    /// Mean time for one message since the last report; zero if none was processed, and only then.
    pub each: Duration,
    /// Messages that are being processed.
    pub in_process: u64,
    /// Messages that came, ever.
    pub received: u64,
    /// Messages that were processed, ever.
    pub processed: u64,
}

impl WorkLoad {
    /// The report that the thesis's clients send: what waits, and the time for one.
    pub fn brief(&self) -> Report {
        let waiting = u32::try_from(self.waiting).unwrap_or(u32::MAX);
        // To the microsecond: fewer digits are shorter reports.
        Report::new(waiting, self.each.as_micros() as f64 / 1e3)
    }

    /// The same with the counters, which show the broker the messages in flight.
    pub fn full(&self) -> Report {
        Report {
            in_process: Some(u32::try_from(self.in_process).unwrap_or(u32::MAX)),
            received: Some(self.received),
            processed: Some(self.processed),
            ..self.brief()
        }
    }
}

/// Counts what a worker does on one connection, and says when to report it. Make a new one for each connection.
#[derive(Clone, Debug)]
pub struct Reporter {
    rules: ReportRules,
    waiting: u64,
    in_process: u64,
    received: u64,
    processed: u64,
    /// Since the last report: messages processed, and the time they took.
    done: u64,
    spent: Duration,
    /// When the last report left; nothing before the first.
    reported: Option<Duration>,
    regular: Option<Duration>,
    /// The last mean that was reported and was not zero: what the broker reckons with.
    each: Duration,
    /// The broker's estimate of the remaining work, as a duration, and the time of that estimate.
    predicted: (Duration, Duration),
}

impl Reporter {
    /// A reporter of a connection that was made at `now`.
    pub fn new(rules: ReportRules, now: Duration) -> Reporter {
        let rules = ReportRules {
            gap: rules.gap.max(ReportRules::GAP_MIN),
            every: rules.every.map(|every| every.max(ReportRules::GAP_MIN)),
            concurrency: rules.concurrency.max(1),
            ..rules
        };
        Reporter {
            rules,
            waiting: 0,
            in_process: 0,
            received: 0,
            processed: 0,
            done: 0,
            spent: Duration::ZERO,
            reported: None,
            regular: rules.every.map(|every| now + every),
            each: Duration::ZERO,
            predicted: (Duration::ZERO, now),
        }
    }

    /// A message has come.
    pub fn received(&mut self, now: Duration) {
        self.received += 1;
        self.waiting += 1;
        let (left, since) = self.predicted;
        self.predicted = (
            left.saturating_sub(now.saturating_sub(since)) + self.share(),
            now,
        );
    }

    /// A message that waited is being processed.
    pub fn started(&mut self) {
        if self.waiting > 0 {
            self.waiting -= 1;
            self.in_process += 1;
        }
    }

    /// So many messages were processed, each in its own time; `spent` is the sum of these times. Messages that were not
    /// [`started`](Self::started) count as begun and finished at once.
    pub fn finished(&mut self, messages: u64, spent: Duration) {
        let begun = messages.min(self.in_process);
        self.in_process -= begun;
        self.waiting = self.waiting.saturating_sub(messages - begun);
        self.processed += messages;
        self.done += messages;
        self.spent += spent;
    }

    /// A waiting message will not be processed here: it was returned, or has expired.
    pub fn given_up(&mut self) {
        self.waiting = self.waiting.saturating_sub(1);
    }

    /// Values of a report at this time.
    pub fn load(&self) -> WorkLoad {
        WorkLoad {
            waiting: self.waiting,
            each: self.mean(),
            in_process: self.in_process,
            received: self.received,
            processed: self.processed,
        }
    }

    /// Whether a report should leave now.
    pub fn is_due(&self, now: Duration) -> bool {
        self.regular.is_some_and(|at| at <= now) || (self.earliest() <= now && self.is_wrong(now))
    }

    /// When to ask [`is_due`](Self::is_due) again if nothing happens until then; a moment that has passed says: at once.
    pub fn poll_timeout(&self, now: Duration) -> Option<Duration> {
        let event = self.is_wrong(now).then(|| self.earliest());
        [self.regular, event].into_iter().flatten().min()
    }

    /// The report that leaves now, due or not. The means begin anew.
    pub fn report(&mut self, now: Duration) -> WorkLoad {
        let load = self.load();
        if !load.each.is_zero() {
            self.each = load.each;
        }
        (self.done, self.spent) = (0, Duration::ZERO);
        self.reported = Some(now);
        self.regular = self.rules.every.map(|every| now + every);
        self.predicted = (self.left(), now);
        load
    }

    /// Thesis, E-21: zero means that no message was processed. A processed one never takes so little.
    fn mean(&self) -> Duration {
        match self.done {
            0 => Duration::ZERO,
            done => {
                let nanos = self.spent.as_nanos() / u128::from(done);
                Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)).max(LEAST)
            }
        }
    }

    /// Increase of the remaining time by one message.
    fn share(&self) -> Duration {
        self.each / u32::from(self.rules.concurrency)
    }

    /// Time until all messages here are processed, by the broker's knowledge of our speed. Of those being processed,
    /// half is over on average.
    fn left(&self) -> Duration {
        let messages = self.waiting as f64 + 0.5 * self.in_process as f64;
        Duration::try_from_secs_f64(self.share().as_secs_f64() * messages).unwrap_or(Duration::MAX)
    }

    /// Allowed distance of prediction and truth: one message. Of several being processed, each is half a message
    /// unsure.
    fn tolerance(&self) -> Duration {
        self.share() * (u32::from(self.rules.concurrency) + 1) / 2
    }

    fn is_wrong(&self, now: Duration) -> bool {
        if !self.rules.on_events {
            return false;
        }
        if self.each.is_zero() {
            // Until the first report of a time the broker guesses; there is nothing to compare with.
            return self.done > 0;
        }
        let (left, since) = self.predicted;
        let predicted = left.saturating_sub(now.saturating_sub(since));
        let is_idle = self.waiting == 0 && self.in_process == 0;
        predicted.abs_diff(self.left()) > self.tolerance()
            || (is_idle && predicted > self.share() / 4)
    }

    fn earliest(&self) -> Duration {
        self.reported
            .map_or(Duration::ZERO, |reported| reported + self.rules.gap)
    }
}

/// The least time that a message takes.
const LEAST: Duration = Duration::from_micros(1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Spelling;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// A reporter on events only that has told the broker, at 1 s, that a message takes 10 ms and that nothing waits.
    fn known() -> Reporter {
        let mut reporter = Reporter::new(
            ReportRules {
                every: None,
                ..ReportRules::default()
            },
            ms(0),
        );
        reporter.received(ms(980));
        reporter.started();
        reporter.finished(1, ms(10));
        assert_eq!(reporter.report(ms(1000)).each, ms(10));
        reporter
    }

    #[test]
    fn what_waits_is_in_process_and_is_done() {
        let mut reporter = Reporter::new(ReportRules::default(), ms(0));
        for _ in 0..5 {
            reporter.received(ms(1));
        }
        reporter.started();
        reporter.started();
        reporter.finished(1, ms(30));
        let load = WorkLoad {
            waiting: 3,
            each: ms(30),
            in_process: 1,
            received: 5,
            processed: 1,
        };
        assert_eq!(reporter.load(), load);
        // Without a word before: one that was begun, two that were not.
        reporter.finished(3, ms(30));
        reporter.given_up();
        let load = WorkLoad {
            waiting: 0,
            each: ms(15),
            in_process: 0,
            received: 5,
            processed: 4,
        };
        assert_eq!(reporter.load(), load);
    }

    #[test]
    fn means_begin_anew_with_each_report_and_zero_says_that_nothing_was_processed() {
        let mut reporter = Reporter::new(ReportRules::default(), ms(0));
        reporter.received(ms(0));
        reporter.received(ms(0));
        reporter.finished(2, ms(50));
        assert_eq!(reporter.report(ms(100)).each, ms(25));
        assert_eq!(
            reporter.report(ms(200)),
            WorkLoad {
                received: 2,
                processed: 2,
                ..WorkLoad::default()
            }
        );
        reporter.received(ms(300));
        reporter.finished(1, Duration::ZERO);
        assert!(
            reporter.report(ms(400)).each > Duration::ZERO,
            "quick is not idle"
        );
    }

    #[test]
    fn a_report_says_what_the_books_say() {
        let mut reporter = Reporter::new(ReportRules::default(), ms(0));
        for _ in 0..5 {
            reporter.received(ms(1));
        }
        reporter.started();
        reporter.finished(1, Duration::from_nanos(25_000_400));
        reporter.started();
        let load = reporter.report(ms(50));
        assert_eq!(
            load.brief().json(Spelling::Listing),
            br#"{"numberOfMsgsInQueue":3,"processingTimerPerMsg":25.0}"#
        );
        let full = load.full();
        assert_eq!(
            (full.in_process, full.received, full.processed),
            (Some(1), Some(5), Some(1))
        );
    }

    #[test]
    fn regular_reports_leave_at_their_interval_and_at_nothing_else() {
        let mut reporter = Reporter::new(ReportRules::every(ms(1000)), ms(500));
        for _ in 0..100 {
            reporter.received(ms(600));
        }
        reporter.finished(10, ms(100));
        assert!(!reporter.is_due(ms(1499)));
        assert_eq!(reporter.poll_timeout(ms(600)), Some(ms(1500)));
        assert!(reporter.is_due(ms(1500)));
        reporter.report(ms(1510));
        assert!(!reporter.is_due(ms(2509)));
        assert_eq!(reporter.poll_timeout(ms(1510)), Some(ms(2510)));
    }

    #[test]
    fn the_first_message_ever_is_told_at_once() {
        let mut reporter = Reporter::new(ReportRules::default(), ms(0));
        reporter.received(ms(1));
        reporter.started();
        assert!(!reporter.is_due(ms(5)));
        reporter.finished(1, ms(4));
        assert!(reporter.is_due(ms(5)));
        reporter.report(ms(5));
        assert!(!reporter.is_due(ms(6)));
    }

    #[test]
    fn a_broker_that_is_right_is_left_alone() {
        let mut reporter = known();
        // One message each 20 ms that takes 10 ms, just as was said.
        for begin in (1100..2000).step_by(20) {
            reporter.received(ms(begin));
            assert!(!reporter.is_due(ms(begin)), "at {begin}");
            reporter.started();
            assert!(!reporter.is_due(ms(begin + 9)), "before {}", begin + 10);
            reporter.finished(1, ms(10));
            assert!(!reporter.is_due(ms(begin + 10)), "at {}", begin + 10);
        }
    }

    #[test]
    fn more_work_than_is_predicted_is_told() {
        let mut reporter = known();
        reporter.received(ms(1100));
        reporter.started();
        reporter.received(ms(1100));
        reporter.received(ms(1100));
        assert!(!reporter.is_due(ms(1100)), "30 ms predicted, 25 ms left");
        // The first takes longer than it should: nothing is left by prediction at 1130, two and a half messages are.
        assert!(!reporter.is_due(ms(1114)), "16 ms predicted, 25 ms left");
        assert!(reporter.is_due(ms(1116)), "14 ms predicted, 25 ms left");
    }

    #[test]
    fn idleness_is_told_when_the_broker_believes_in_work() {
        let mut reporter = known();
        reporter.received(ms(1100));
        reporter.started();
        reporter.finished(1, ms(2));
        assert!(reporter.is_due(ms(1102)), "8 ms predicted, nothing left");
        assert!(reporter.is_due(ms(1107)), "3 ms predicted");
        assert!(
            !reporter.is_due(ms(1108)),
            "2 ms predicted: a quarter of a message is nothing"
        );
    }

    #[test]
    fn events_keep_a_distance() {
        let mut reporter = known();
        for _ in 0..10 {
            reporter.received(ms(1001));
        }
        reporter.finished(10, ms(1));
        assert!(!reporter.is_due(ms(1019)));
        assert_eq!(reporter.poll_timeout(ms(1001)), Some(ms(1020)));
        assert!(reporter.is_due(ms(1020)));
        let rules = ReportRules {
            gap: ms(0),
            every: Some(ms(0)),
            ..ReportRules::default()
        };
        let mut hasty = Reporter::new(rules, ms(0));
        hasty.report(ms(0));
        assert!(
            !hasty.is_due(ms(19)),
            "nobody reports more often than fifty times a second"
        );
    }

    #[test]
    fn fifty_reports_a_second_are_the_most_whatever_happens() {
        let mut reporter = known();
        let mut reports = 0;
        for at in 1001..=2000 {
            reporter.received(ms(at));
            reporter.finished(1, ms(1 + at % 37));
            if reporter.is_due(ms(at)) {
                reporter.report(ms(at));
                reports += 1;
            }
        }
        assert!((10..=50).contains(&reports), "{reports}");
    }

    #[test]
    fn a_worker_with_many_hands_is_reckoned_with_many_hands() {
        let rules = ReportRules {
            every: None,
            concurrency: 4,
            ..ReportRules::default()
        };
        let mut reporter = Reporter::new(rules, ms(0));
        reporter.received(ms(0));
        reporter.finished(1, ms(40));
        reporter.report(ms(100));
        for _ in 0..4 {
            reporter.received(ms(200));
            reporter.started();
        }
        // Four side by side: 40 ms for all of them, by prediction and in truth.
        for at in 200..240 {
            assert!(!reporter.is_due(ms(at)), "at {at}");
        }
        reporter.finished(4, ms(160));
        assert!(!reporter.is_due(ms(240)));
        assert_eq!(reporter.load().each, ms(40));
        for _ in 0..4 {
            reporter.received(ms(300));
        }
        reporter.finished(4, ms(40));
        assert!(reporter.is_due(ms(330)), "idle, and 10 ms predicted");
    }
}
