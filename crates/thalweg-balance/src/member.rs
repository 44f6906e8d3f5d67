//! One member of an adaptive group: when would a message sent now begin there?

use super::handshake::Handshake;
use super::parallel::Parallel;
use super::reporting::{Law, Reporting};
use super::residual::Residual;
use super::service::Service;
use super::{Signal, Terms, length};
use std::collections::VecDeque;
use thalweg_model::Span;

/// Acknowledgements that say whether they come after the work.
const RECENT: usize = 20;
/// Every so often they are looked at.
const JUDGED_EVERY: usize = 4;
/// And not before there are so many.
const JUDGED_FIRST: usize = 12;
/// Time of a peer that acknowledges on receipt, in seconds: at least, usually, and when it is slow. A member that works
/// in less than that is served in turn, fewest unsettled first, which suits quick work.
const RECEIPT: f64 = 5e-5;
const ANSWERS: f64 = 5e-4;
const ANSWERS_LATE: f64 = 1e-3;
/// Turnaround of a peer between two messages, in seconds: enough to keep one more message there under load.
const WAKES: f64 = 2e-4;
/// Beside slow work, no member is assumed to need less than this part of the typical time unless it reports so.
const UNUSUAL: f64 = 0.05;
/// Samples of a new member that are taken one at a time.
const FIRST_SAMPLES: u32 = 4;

/// A delivery that is not acknowledged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Out {
    pub(super) tag: u64,
    pub(super) sent: f64,
    pub(super) factor: f64,
    pub(super) size: u32,
    /// Nothing else was at the member when it was sent.
    pub(super) alone: bool,
    /// Another member had it before.
    pub(super) again: bool,
    /// Exactly once: when it was recorded, and the seconds of work until then.
    pub(super) recorded: Option<(f64, f64)>,
}

pub(super) struct Member {
    pub(super) signal: Signal,
    pub(super) terms: Terms,
    /// One way through the network, and how much that varies.
    pub(super) way: f64,
    pub(super) jitter: f64,
    pub(super) out: VecDeque<Out>,
    /// Sum of the factors in `out`.
    pub(super) ahead: f64,
    /// When it completed something last, in its own time.
    pub(super) last: f64,
    pub(super) knowledge: Service,
    /// Seconds a message takes there; worked out anew when something is learnt.
    pub(super) service: f64,
    pub(super) reporting: Reporting,
    pub(super) parallel: Parallel,
    pub(super) handshake: Handshake,
    recent: [f32; RECENT],
    recent_count: usize,
    /// Window without backlog, and its largest growth.
    pub(super) base: u32,
    pub(super) extra: u32,
    pub(super) rank: u32,
    pub(super) turn: u64,
    /// Its output takes no more.
    pub(super) blocked: bool,
    /// One message at a time, until one is acknowledged.
    pub(super) probation: bool,
    /// It gets nothing before.
    pub(super) until: f64,
    /// Messages of the group's last ones that it was sent.
    pub(super) share: u32,
    /// The last choice in which it might not have the message.
    pub(super) refused: u64,
}

impl Member {
    pub(super) fn new(terms: Terms, turn: u64, typical: f64, now: f64) -> Self {
        let mut member = Member {
            signal: first_signal(&terms),
            terms,
            way: length(terms.round_trip) / 2.0,
            jitter: length(terms.jitter),
            out: VecDeque::new(),
            ahead: 0.0,
            last: now,
            knowledge: Service::new(now),
            service: typical,
            reporting: Reporting::new(now, length(terms.report_every).max(0.001)),
            parallel: Parallel::default(),
            handshake: Handshake::default(),
            recent: [0.0; RECENT],
            recent_count: 0,
            base: 1,
            extra: 0,
            rank: u32::MAX,
            turn,
            blocked: false,
            probation: false,
            until: 0.0,
            share: 0,
            refused: 0,
        };
        member.parallel.declare(terms.concurrency);
        member.set_window(1.0);
        member
    }

    /// Its terms are others now; how it is to be seen then.
    pub(super) fn retune(&mut self, terms: Terms, now: f64) -> Signal {
        let old = self.terms;
        self.terms = terms;
        if terms.round_trip > Span::ZERO {
            (self.way, self.jitter) = (length(terms.round_trip) / 2.0, length(terms.jitter));
        }
        if old.report_every != terms.report_every && self.reporting.last.is_none() {
            self.reporting = Reporting::new(now, length(terms.report_every).max(0.001));
        }
        if (old.settles, old.when_done) == (terms.settles, terms.when_done) {
            return self.signal;
        }
        match first_signal(&terms) {
            Signal::Silent if self.reporting.last.is_some() => Signal::Reports,
            signal => signal,
        }
    }

    pub(super) fn handlers(&self) -> f64 {
        f64::from(self.terms.concurrency.max(1))
    }

    pub(super) fn law(&self, variation: f64) -> Law {
        Law {
            service: self.service,
            variation,
            handlers: self.handlers(),
            way: self.way,
        }
    }

    /// Works the window out anew.
    pub(super) fn set_window(&mut self, deviation: f64) {
        let handlers = self.handlers();
        let ratio =
            ((2.0 * self.way + self.handshake.journal()) * handlers / self.service).min(1e5);
        let first = if handlers > 1.0 {
            (2.5 * handlers).ceil()
        } else {
            1.0
        };
        let network = (ratio + 0.5).floor();
        // Where the network was not measured, it takes its time all the same.
        let ratio = if self.way == 0.0 {
            ratio.max(0.04)
        } else {
            ratio
        };
        // And a peer has to wake up between two messages, which no network shows.
        let ratio = ratio.max(WAKES * handlers / self.service);
        let extra = if ratio < 0.01 {
            0.0
        } else {
            (ratio + 2.0 * deviation * ratio.sqrt()).ceil() - network
        };
        self.base = ((first + network) as u32).min(self.terms.window_max).max(1);
        self.extra = extra.max(0.0) as u32;
        if self.knowledge.samples() < FIRST_SAMPLES && handlers <= 1.0 {
            (self.base, self.extra) = (1, 0);
        }
    }

    /// Its window while the backlog exceeds the usual one by so much.
    #[inline(always)]
    pub(super) fn window(&self, level: u32, pressing: u32) -> u32 {
        if self.probation {
            return 1;
        }
        if self.parallel.is_sampling() {
            return 1;
        }
        if self.parallel.found {
            return ((2.5 * self.parallel.handlers()).ceil() as u32 + pressing)
                .min(self.terms.window_max);
        }
        if self.knowledge.samples() < FIRST_SAMPLES {
            return self.base.min(self.terms.window_max);
        }
        (self.base + level.min(self.extra) + pressing).min(self.terms.window_max)
    }

    /// Seconds from when a message begins until it is done.
    pub(super) fn takes(&self) -> f64 {
        if self.parallel.found {
            self.parallel.alone_mean
        } else {
            self.service
        }
    }

    /// Whether it is thought to do nothing at this moment.
    pub(super) fn is_idle(&self) -> bool {
        (self.out.len() as f64) < self.handlers() && (self.out.len() as u32) < self.terms.window_max
    }

    /// Seconds from now until a message sent now would begin there.
    pub(super) fn start(&self, residual: &Residual, now: f64) -> f64 {
        if self.signal != Signal::Acknowledges {
            return self.way + self.reporting.work.drained(now + self.way).mean;
        }
        let count = self.out.len();
        if self.probation {
            return if count > 0 {
                f64::INFINITY
            } else {
                (self.until - now).max(0.0) + self.way
            };
        }
        if self.parallel.found {
            return self.way
                + self.service * (count as f64 + 1.0 - self.parallel.handlers()).max(0.0);
        }
        let Some(first) = self.out.front() else {
            return self.way;
        };
        let handlers = self.handlers();
        if (count as f64) < handlers {
            return self.way;
        }
        let whole = self.service * first.factor;
        let age = (now - self.way) - self.last.max(first.sent + self.way);
        let free = if age <= 0.0 {
            -self.way - age + residual.left(0.0) * whole
        } else {
            -self.way + residual.left(age / whole) * whole
        };
        let rest = self.service * (self.ahead - first.factor).max(0.0);
        let start = if handlers > 1.0 {
            // Those beyond the first of each handler wait.
            let waiting = rest * (count as f64 - handlers) / (count as f64 - 1.0).max(1.0);
            free / handlers + waiting / handlers
        } else {
            free + rest
        };
        start.max(self.way)
    }

    /// Whether it stopped showing signs of work.
    pub(super) fn is_suspended(&self, variation: f64, now: f64) -> bool {
        self.signal == Signal::Reports && self.reporting.is_suspended(&self.law(variation), now)
    }

    /// Whether it says that it acknowledges when it is done.
    fn says_done(&self) -> bool {
        self.terms.when_done == Some(true)
    }

    /// Whether it may be that its acknowledgements come on receipt: most of the first took no longer than an answer takes.
    /// Until that is judged they say nothing of how long it works.
    pub(super) fn is_doubtful(&self) -> bool {
        let judged_first = if self.says_done() {
            RECENT
        } else {
            JUDGED_FIRST
        };
        if self.recent_count >= judged_first || self.signal != Signal::Acknowledges {
            return false;
        }
        let late = if self.says_done() {
            ANSWERS
        } else {
            ANSWERS_LATE
        };
        let seen = self.recent.get(..self.recent_count).unwrap_or_default();
        2 * seen.iter().filter(|took| f64::from(**took) < late).count() > seen.len()
    }

    /// An acknowledgement took so long beyond the network's time, where a message takes `typical` in the group. Whether
    /// that says how the member is to be seen.
    pub(super) fn judge(&mut self, sojourn: f64, typical: f64) -> Signal {
        if let Some(slot) = self.recent.get_mut(self.recent_count % RECENT) {
            *slot = sojourn as f32;
        }
        self.recent_count += 1;
        if self.terms.when_done == Some(false) {
            return if self.reporting.last.is_some() {
                Signal::Reports
            } else {
                Signal::Silent
            };
        }
        // A word is believed for longer, and against what is merely unusual, but not against what an answer takes.
        let says_done = self.says_done();
        if self.recent_count < (if says_done { RECENT } else { JUDGED_FIRST })
            || !self.recent_count.is_multiple_of(JUDGED_EVERY)
        {
            return self.signal;
        }
        let mut seen = self.recent;
        let seen = seen
            .get_mut(..self.recent_count.min(RECENT))
            .unwrap_or_default();
        seen.sort_unstable_by(f32::total_cmp);
        let quantile = |tenths: usize| {
            seen.get(seen.len() * tenths / 10)
                .map_or(0.0, |it| f64::from(*it))
        };
        // It comes on receipt if half of them are within one bound and nearly all within another: now and then a peer is
        // late for reasons of its own. It does not if half are beyond a third.
        // A network alone is off by little more than its usual jitter, and at times by a multiple. A peer takes up to a
        // millisecond to answer; that it works twenty times as fast as is usual, it can only claim.
        let off = |times: f64| RECEIPT + times * self.jitter;
        let slow = if says_done {
            ANSWERS
        } else {
            (UNUSUAL * typical).clamp(ANSWERS, ANSWERS_LATE)
        };
        let silent = (
            off(1.5).max(slow),
            off(4.0).max(2.0 * slow),
            off(3.0).max(3.0 * slow),
        );
        let reported = self.reporting.each;
        let (half, most, back, instead) = if reported > 0.0 && self.reporting.last.is_some() {
            // A member with such a claim is bounded like all members without measurements.
            let bound = 0.3 * reported;
            let claimed = bound < silent.0;
            let (half, most, back) = if claimed {
                silent
            } else {
                (bound, bound, bound)
            };
            (half, most, back, Signal::Reports)
        } else {
            (silent.0, silent.1, silent.2, Signal::Silent)
        };
        match self.signal {
            Signal::Acknowledges if quantile(5) < half && quantile(8) < most => instead,
            Signal::Acknowledges => Signal::Acknowledges,
            _ if quantile(5) > back => Signal::Acknowledges,
            _ => instead,
        }
    }

    /// An exactly-once delivery has left: what it waited for was no work.
    pub(super) fn left(&mut self, tag: u64, now: f64) {
        let Some(out) = self.out.iter_mut().find(|out| out.tag == tag) else {
            return;
        };
        self.handshake.was_held((now - out.sent).max(0.0));
        out.sent = now;
    }

    /// An exactly-once delivery is recorded. The way back and forth that follows is no work: it is as if the message had
    /// been sent later. Returns the seconds of work until then.
    pub(super) fn recorded(&mut self, tag: u64, now: f64) -> Option<f64> {
        let (way, last) = (self.way, self.last);
        let out = self
            .out
            .iter_mut()
            .find(|out| out.tag == tag && out.recorded.is_none())?;
        let before = (now - way - (out.sent + way).max(last)).max(0.0);
        out.recorded = Some((now, before));
        if !self.handshake.works_first() {
            out.sent += 2.0 * way;
        }
        Some(before)
    }

    /// The release of an exactly-once delivery has left.
    pub(super) fn released(&mut self, tag: u64, now: f64) {
        if self.handshake.released(tag, now) {
            return;
        }
        if let Some(out) = self.out.iter_mut().find(|out| out.tag == tag)
            && let Some((recorded, _)) = out.recorded
        {
            out.sent += (now - recorded).max(0.0);
        }
    }

    /// Takes a delivery out of those that are not acknowledged: where it stood, and itself.
    pub(super) fn take(&mut self, tag: u64) -> Option<(usize, Out)> {
        let at = self.out.iter().position(|out| out.tag == tag)?;
        let out = self.out.remove(at)?;
        self.ahead = if self.out.is_empty() {
            0.0
        } else {
            self.ahead - out.factor
        };
        Some((at, out))
    }
}

/// Estimate of a member with only its terms.
fn first_signal(terms: &Terms) -> Signal {
    if terms.settles && terms.when_done != Some(false) {
        Signal::Acknowledges
    } else {
        Signal::Silent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Estimate of a member with these acknowledgement times, in microseconds, in a group where 10 ms is typical.
    fn seen(jitter: Span, sojourns: impl Iterator<Item = u64>) -> Signal {
        let mut member = Member::new(
            Terms {
                jitter,
                ..Terms::default()
            },
            1,
            0.010,
            0.0,
        );
        for sojourn in sojourns {
            member.signal = member.judge(sojourn as f64 * 1e-6, 0.010);
        }
        member.signal
    }

    const JITTER: Span = Span::from_nanos(10_000);

    #[test]
    fn who_acknowledges_on_receipt_is_late_now_and_then() {
        let sojourn = |at: u64| {
            if at.is_multiple_of(12) {
                6_000
            } else {
                120 + 17 * (at % 20)
            }
        };
        assert_eq!(seen(JITTER, (0..200).map(sojourn)), Signal::Silent);
        assert_eq!(
            seen(JITTER, (0..200).map(|at| 10 + at % 20)),
            Signal::Silent
        );
    }

    #[test]
    fn work_is_work_ten_times_as_fast_as_is_typical_and_beside_a_network_that_is_off_by_as_much() {
        // Evenly around the mean, and memoryless as a step function of it.
        let memoryless = |mean: u64| {
            move |at: u64| {
                mean * [5, 16, 29, 43, 60, 80, 105, 139, 190, 300][at as usize % 10] / 100
            }
        };
        assert_eq!(
            seen(JITTER, (0..200).map(memoryless(10_000))),
            Signal::Acknowledges
        );
        assert_eq!(
            seen(JITTER, (0..200).map(memoryless(1_000))),
            Signal::Acknowledges
        );
        assert_eq!(
            seen(
                Span::from_millis(2),
                (0..200).map(|at| 4_000 + memoryless(10_000)(at))
            ),
            Signal::Acknowledges
        );
    }

    #[test]
    fn answers_say_nothing_of_work_until_they_are_judged() {
        let mut member = Member::new(Terms::default(), 1, 0.010, 0.0);
        for at in 1..JUDGED_FIRST {
            member.signal = member.judge(0.0003, 0.010);
            assert!(member.is_doubtful(), "after {at}");
        }
        member.signal = member.judge(0.0003, 0.010);
        assert_eq!(member.signal, Signal::Silent);
        // A member that works is recognized at once, whatever is quick now and then.
        let mut member = Member::new(Terms::default(), 1, 0.010, 0.0);
        for took in [0.004, 0.0002, 0.012, 0.009] {
            member.judge(took, 0.010);
            assert!(!member.is_doubtful());
        }
    }

    #[test]
    fn a_word_counts_against_what_is_unusual_and_not_against_what_an_answer_takes() {
        let seen = |when_done, took| {
            let mut member = Member::new(
                Terms {
                    when_done,
                    ..Terms::default()
                },
                1,
                0.020,
                0.0,
            );
            for _ in 0..100 {
                member.signal = member.judge(took, 0.020);
            }
            member.signal
        };
        assert_eq!(seen(Some(true), 0.0003), Signal::Silent);
        assert_eq!(seen(Some(true), 0.0007), Signal::Acknowledges);
        assert_eq!(seen(None, 0.0007), Signal::Silent);
        assert_eq!(seen(None, 0.0020), Signal::Acknowledges);
        assert_eq!(seen(Some(false), 0.0020), Signal::Silent);
    }

    #[test]
    fn who_works_after_all_is_seen_to() {
        let sojourn = |at: u64| if at < 100 { 100 } else { 9_000 };
        assert_eq!(seen(JITTER, (0..100).map(sojourn)), Signal::Silent);
        assert_eq!(seen(JITTER, (0..150).map(sojourn)), Signal::Acknowledges);
    }
}
