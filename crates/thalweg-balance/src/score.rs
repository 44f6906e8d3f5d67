//! The thesis's choice, exactly: a table per member, a score, and its rules for the start. In whole nanoseconds.
//!
//! Per member it keeps m_q (messages waiting there, as reported), t_p (mean of the last five reported times per
//! message, those of intervals without a message as 0 among them), t_r (time of the report), t_s (time of the last
//! delivery) and m_s (deliveries since that report). The highest score wins:
//!
//! score = t1 - max((m_q + m_s) * t_p - t2, 0), where t1 = now - t_s and t2 = now - t_r.
//!
//! A member whose t_p is 0 is thought to be like the group's mean. Where no member has reported or none has a backlog,
//! the second term is 0 for all, and that is round robin: the member that was given a message longest ago.

use super::report::Credible;
use super::{Choice, Place};
use thalweg_model::Time;

/// Reports whose mean is t_p.
const REPORTS: usize = 5;

#[derive(Default)]
pub(super) struct Score {
    members: Vec<Option<Row>>,
    free: Vec<Place>,
    /// Breaks ties between members that were given something at the same moment.
    sequence: u64,
}

struct Row {
    waiting: i64,
    each: i64,
    reported: Time,
    last_sent: Time,
    sent_since: i64,
    reports: [i64; REPORTS],
    count: usize,
    turn: u64,
    blocked: bool,
}

impl Row {
    fn score(&self, now: Time, typical: i64) -> i64 {
        let each = if self.each == 0 { typical } else { self.each };
        let t1 = nanos(now, self.last_sent);
        let t2 = nanos(now, self.reported);
        let backlog = self
            .waiting
            .saturating_add(self.sent_since)
            .saturating_mul(each)
            .saturating_sub(t2);
        t1.saturating_sub(backlog.max(0))
    }
}

fn nanos(now: Time, then: Time) -> i64 {
    i64::try_from(now.since(then).nanos()).unwrap_or(i64::MAX)
}

impl Score {
    pub(super) fn join(&mut self, now: Time) -> Place {
        self.sequence += 1;
        let row = Row {
            waiting: 0,
            each: 0,
            reported: now,
            last_sent: now,
            sent_since: 0,
            reports: [0; REPORTS],
            count: 0,
            turn: self.sequence,
            blocked: false,
        };
        let place = self.free.pop().unwrap_or(self.members.len() as Place);
        match self.members.get_mut(place as usize) {
            Some(member) => *member = Some(row),
            None => self.members.push(Some(row)),
        }
        place
    }

    pub(super) fn leave(&mut self, place: Place) {
        if self
            .members
            .get_mut(place as usize)
            .and_then(Option::take)
            .is_some()
        {
            self.free.push(place);
        }
    }

    fn get_mut(&mut self, place: Place) -> Option<&mut Row> {
        self.members.get_mut(place as usize)?.as_mut()
    }

    pub(super) fn blocked(&mut self, place: Place, blocked: bool) {
        if let Some(row) = self.get_mut(place) {
            row.blocked = blocked;
        }
    }

    pub(super) fn sent(&mut self, place: Place, now: Time) {
        self.sequence += 1;
        let turn = self.sequence;
        if let Some(row) = self.get_mut(place) {
            (row.sent_since, row.last_sent, row.turn) = (row.sent_since + 1, now, turn);
        }
    }

    pub(super) fn reported(&mut self, place: Place, report: Credible, now: Time) -> bool {
        let Some(row) = self.get_mut(place) else {
            return false;
        };
        if report.each > 3600.0 {
            return false;
        }
        if let Some(oldest) = row.reports.get_mut(row.count % REPORTS) {
            *oldest = (report.each * 1e9) as i64;
        }
        row.count += 1;
        let kept = row.count.min(REPORTS) as i64;
        row.each = row.reports.iter().sum::<i64>() / kept;
        row.waiting = report.waiting as i64;
        row.sent_since = 0;
        row.reported = now;
        true
    }

    pub(super) fn choose(&mut self, now: Time, may: &mut dyn FnMut(Place) -> bool) -> Choice {
        let known = self.members.iter().flatten().filter(|row| row.each > 0);
        let (sum, count) = known.fold((0_i64, 0), |(sum, count), row| {
            (sum.saturating_add(row.each), count + 1)
        });
        let typical = sum / i64::max(count, 1);
        let open = self
            .members
            .iter()
            .enumerate()
            .filter_map(|(place, row)| Some((place as Place, row.as_ref()?)));
        let open = open.filter(|(place, row)| !row.blocked && may(*place));
        let best =
            open.max_by_key(|(_, row)| (row.score(now, typical), std::cmp::Reverse(row.turn)));
        best.map_or(Choice::Nobody, |(place, _)| Choice::Send(place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_model::Span;

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    fn report(waiting: f64, each_ms: f64) -> Credible {
        Credible {
            waiting,
            each: each_ms / 1e3,
            concurrency: None,
        }
    }

    #[test]
    fn without_reports_it_is_round_robin() {
        let mut score = Score::default();
        (0..3).for_each(|_| {
            score.join(at(0));
        });
        let mut chosen = Vec::new();
        for number in 0..7 {
            // Also at one and the same moment.
            let now = at(1 + number / 2);
            let Choice::Send(place) = score.choose(now, &mut |_| true) else {
                panic!("somebody may")
            };
            score.sent(place, now);
            chosen.push(place);
        }
        assert_eq!(chosen, [0, 1, 2, 0, 1, 2, 0]);
    }

    #[test]
    fn the_formula_is_the_thesis_s() {
        let mut score = Score::default();
        let (a, b) = (score.join(at(0)), score.join(at(0)));
        score.sent(a, at(900));
        score.sent(b, at(940));
        score.reported(a, report(4.0, 50.0), at(1000));
        score.reported(b, report(0.0, 25.0), at(1000));
        // a: 110 - max(4*50 - 10, 0) = -80; b: 70 - 0.
        assert_eq!(
            score.members[0].as_ref().expect("there").score(at(1010), 0),
            -80_000_000
        );
        assert_eq!(
            score.members[1].as_ref().expect("there").score(at(1010), 0),
            70_000_000
        );
        assert_eq!(score.choose(at(1010), &mut |_| true), Choice::Send(b));
        // A report without a message counts as zero in the mean.
        score.reported(a, report(4.0, 0.0), at(2000));
        assert_eq!(score.members[0].as_ref().expect("there").each, 25_000_000);
        for _ in 0..5 {
            score.reported(a, report(0.0, 0.0), at(3000));
        }
        assert_eq!(
            score.members[0].as_ref().expect("there").each,
            0,
            "only five are remembered"
        );
    }

    #[test]
    fn a_member_that_has_reported_no_time_is_thought_to_be_typical() {
        let mut score = Score::default();
        let (a, b) = (score.join(at(0)), score.join(at(0)));
        score.reported(a, report(0.0, 20.0), at(1000));
        score.reported(b, report(0.0, 0.0), at(1000));
        for _ in 0..3 {
            score.sent(b, at(1000));
        }
        score.sent(a, at(1001));
        // b was given nothing for longer, but has 3 * 20 ms to do.
        assert_eq!(score.choose(at(1002), &mut |_| true), Choice::Send(a));
    }
}
