//! The search for the highest rate that lasts. No clock, no sockets: it asks for trials and is told what came of them.
//!
//! ```text
//!  ramp (x 2 until it fails, or / 2 until it passes) ──> bisect (on the log of the rate, to the tolerance)
//!       ──> confirm (3 long trials; one fails: down by the tolerance, 3 again) ──> end
//! ```
//! A short trial that fails is tried once more before it counts: one hiccup must not end a ramp. So is a long one that is not
//! valid: that says something of the machine and nothing of the broker. What must not pass by chance is decided by long ones.

use serde::Serialize;

/// What the search is for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Goal {
    /// Where it begins, messages a second in all.
    pub start: f64,
    pub most: f64,
    /// Ratio of neighbours at the end, less one: 0.03.
    pub tolerance: f64,
    /// Losses that pass, a part of one.
    pub loss: f64,
    /// 99th percentile that passes, microseconds.
    pub p99_us: Option<f64>,
}

/// What a trial at a rate showed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shown {
    /// Messages a second that were asked for.
    pub rate: f64,
    /// Copies delivered a second.
    pub delivered: f64,
    /// Copies lost, a part of one.
    pub loss: f64,
    /// Growth of what is under way, a part of the rate.
    pub slope: f64,
    /// 99th percentile of the response, microseconds.
    pub p99_us: f64,
    /// Whether what sends kept its times and the trial came to its end.
    pub is_valid: bool,
    /// Whether the broker took what was to be sent. Where it does not, nothing grows on its side: a backlog would not show.
    pub is_taken: bool,
}

impl Goal {
    /// Why it does not pass, or nothing.
    pub fn refuses(&self, shown: &Shown) -> Option<&'static str> {
        if !shown.is_valid {
            return Some(NOT_VALID);
        }
        if !shown.is_taken {
            return Some(HELD_BACK);
        }
        if shown.loss > self.loss {
            return Some("loss");
        }
        if shown.slope > SLOPE_MAX {
            return Some("backlog");
        }
        self.p99_us
            .is_some_and(|bound| shown.p99_us > bound)
            .then_some("p99")
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step {
    /// A trial at this rate; a long one where it has to last.
    Measure {
        /// Messages a second in all.
        rate: f64,
        /// As long as the scenario says; else a few seconds.
        is_long: bool,
    },
    End(Found),
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Found {
    /// Highest rate that passed all confirmations; none if nothing did.
    #[serde(rename = "sustained_per_s")]
    pub sustained: Option<f64>,
    /// Highest offered rate of a valid trial with at most 0.5 % lost, whatever else; none if all lost more.
    #[serde(rename = "partial_drop_per_s")]
    pub partial_drop: Option<f64>,
    /// Most that was delivered a second in any trial: also when far too much was offered.
    #[serde(rename = "peak_delivered_per_s")]
    pub peak_delivered: f64,
    /// What stopped it: `loss`, `backlog`, `held back` (the broker did not take it), `p99`, `not valid` (the generator was the limit: the broker can do more) or `most`.
    pub limit: &'static str,
    /// Trials that it took.
    pub trials: u32,
}

#[derive(Clone, Debug)]
pub struct Search {
    goal: Goal,
    stage: Stage,
    /// The highest rate that passed a short trial, and the lowest that failed one.
    low: Option<f64>,
    high: Option<f64>,
    shown: Vec<Shown>,
    limit: &'static str,
    /// The last trial failed and is tried again.
    is_second: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    /// Ramp and bisection: until `low` and `high` are near enough.
    Seek,
    /// Rate, passes so far, steps down so far.
    Confirm(f64, u32, u32),
    Over(Option<f64>),
}

impl Search {
    /// A search that has not begun.
    pub fn new(goal: Goal) -> Search {
        Search {
            goal,
            stage: Stage::Seek,
            low: None,
            high: None,
            shown: Vec::new(),
            limit: "most",
            is_second: false,
        }
    }

    /// What is next. The same until something is shown.
    pub fn next_step(&self) -> Step {
        let (rate, is_long) = match self.stage {
            Stage::Seek => (self.sought(), false),
            Stage::Confirm(rate, ..) => (rate, true),
            Stage::Over(sustained) => return Step::End(self.found(sustained)),
        };
        Step::Measure { rate, is_long }
    }

    fn sought(&self) -> f64 {
        match (self.low, self.high) {
            (None, None) => self.goal.start.min(self.goal.most),
            (Some(low), None) => (2.0 * low).min(self.goal.most),
            (None, Some(high)) => high / 2.0,
            (Some(low), Some(high)) => (low * high).sqrt(),
        }
    }

    /// A trial at the rate that was asked for is over.
    pub fn show(&mut self, shown: Shown) {
        self.shown.push(shown);
        let refused = self.goal.refuses(&shown);
        let may_be_chance = !matches!(self.stage, Stage::Confirm(..)) || !shown.is_valid;
        if refused.is_some() && may_be_chance && !self.is_second {
            self.is_second = true;
            return;
        }
        self.is_second = false;
        if let Some(why) = refused {
            self.limit = why;
        }
        self.stage = self.after(refused.is_none());
    }

    fn after(&mut self, is_passed: bool) -> Stage {
        match (self.stage, is_passed) {
            (Stage::Seek, _) => {
                let rate = Some(self.sought());
                match is_passed {
                    true => self.low = rate,
                    false => self.high = rate,
                }
                match (self.low, self.high) {
                    (Some(low), None) if low >= self.goal.most => Stage::Confirm(low, 0, 0),
                    (Some(low), Some(high)) if high / low <= 1.0 + self.goal.tolerance => {
                        Stage::Confirm(low, 0, 0)
                    }
                    (None, Some(high)) if high < RATE_MIN => Stage::Over(None),
                    _ => Stage::Seek,
                }
            }
            (Stage::Confirm(rate, passed, _), true) if passed + 1 >= CONFIRMATIONS => {
                Stage::Over(Some(rate))
            }
            (Stage::Confirm(rate, passed, steps), true) => Stage::Confirm(rate, passed + 1, steps),
            (Stage::Confirm(_, _, STEPS_MAX), false) => Stage::Over(None),
            (Stage::Confirm(rate, _, steps), false) => {
                Stage::Confirm(rate / (1.0 + self.goal.tolerance), 0, steps + 1)
            }
            (over @ Stage::Over(_), _) => over,
        }
    }

    fn found(&self, sustained: Option<f64>) -> Found {
        let counts = |it: &&Shown| it.is_valid && it.is_taken && it.loss <= PARTIAL_DROP;
        let partial = self.shown.iter().filter(counts).map(|shown| shown.rate);
        let delivered = self.shown.iter().map(|shown| shown.delivered);
        Found {
            sustained,
            partial_drop: partial.reduce(f64::max),
            peak_delivered: delivered.fold(0.0, f64::max),
            limit: self.limit,
            trials: self.shown.len() as u32,
        }
    }
}

/// Long trials that have to pass.
pub const CONFIRMATIONS: u32 = 3;
/// Growth of the backlog that passes, a part of the rate.
const SLOPE_MAX: f64 = 0.005;
/// How a trial that does not count is called.
pub const NOT_VALID: &str = "not valid";
/// The broker did not take what was to be sent.
const HELD_BACK: &str = "held back";
/// Partial drop as RFC 2544's successors have it: half a percent.
const PARTIAL_DROP: f64 = 0.005;
/// Less is no load.
const RATE_MIN: f64 = 0.01;
/// Down to less than half: whatever it was that passed short trials, it does not last.
const STEPS_MAX: u32 = 30;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::random::Random;
    use crate::stats::ascend;

    const GOAL: Goal = Goal {
        start: 100.0,
        most: 1e7,
        tolerance: 0.03,
        loss: 0.001,
        p99_us: None,
    };

    /// One server of constant service time (M/D/1) with a queue for so many, at Poisson arrivals for some seconds.
    fn server(capacity: f64, room: usize, rate: f64, seconds: f64, random: &mut Random) -> Shown {
        let (mut now, mut free, mut lost, mut count, mut done) = (0.0, 0.0_f64, 0, 0, 0);
        let (mut waits, mut under_way) = (Vec::new(), Vec::new());
        let mut next_sample = 1.0;
        loop {
            now += random.exponential() / rate;
            while now > next_sample && next_sample <= seconds {
                under_way.push((free - next_sample).max(0.0) * capacity);
                next_sample += 1.0;
            }
            if now > seconds {
                break;
            }
            count += 1;
            if (free - now) * capacity > room as f64 {
                lost += 1;
                continue;
            }
            free = free.max(now) + 1.0 / capacity;
            done += u32::from(free <= seconds);
            waits.push((free - now) * 1e6);
        }
        ascend(&mut waits);
        let p99 = waits.get(waits.len() * 99 / 100);
        Shown {
            delivered: f64::from(done) / seconds,
            loss: f64::from(lost) / f64::from(count.max(1)),
            slope: super::super::slope(&under_way) / rate,
            p99_us: p99.copied().unwrap_or_default(),
            ..sharp(capacity, rate)
        }
    }

    fn search(goal: Goal, mut trial: impl FnMut(f64, bool) -> Shown) -> Found {
        let mut search = Search::new(goal);
        for _ in 0..200 {
            match search.next_step() {
                Step::Measure { rate, is_long } => search.show(trial(rate, is_long)),
                Step::End(found) => return found,
            }
        }
        panic!("no end: {search:?}");
    }

    #[test]
    fn the_capacity_of_a_server_is_found_or_where_its_99th_percentile_is_too_long() {
        // p99 of M/D/1 in units of the service time: about 1 + 4.6 ρ/(2(1-ρ)); at 10 it is ρ = 0.8.
        let p99_us = Some(10.0 * 1e6 / 2000.0);
        for seed in 0..12 {
            let mut random = Random::new(seed);
            // At Poisson arrivals the backlog wanders: some percent below the capacity is what lasts.
            let (p99_us, capacity, room, lasts, within, limits) = match seed {
                0..8 => {
                    let capacity = 500.0 * (1.0 + random.unit() * 20.0);
                    (None, capacity, 2000, 20.0, 0.90..=1.01, ["backlog", "loss"])
                }
                _ => (p99_us, 2000.0, 100_000, 30.0, 0.70..=0.86, ["p99"; 2]),
            };
            let found = search(Goal { p99_us, ..GOAL }, |rate, is_long| {
                let seconds = if is_long { lasts } else { lasts / 5.0 };
                server(capacity, room, rate, seconds, &mut random)
            });
            let words = format!("seed {seed}: {found:?} of {capacity}");
            let sustained = found.sustained.expect("it has a capacity") / capacity;
            let peak = found.peak_delivered / capacity;
            assert!(within.contains(&sustained), "{words}");
            assert!((0.95..=1.05).contains(&peak) || p99_us.is_some(), "{words}");
            assert!(found.trials < 60, "{words}");
            assert!(limits.contains(&found.limit), "{words}");
        }
    }

    /// Passes up to a rate, whatever happens.
    fn sharp(limit: f64, rate: f64) -> Shown {
        let loss = (1.0 - limit / rate).max(0.0);
        Shown {
            rate,
            delivered: rate.min(limit),
            loss,
            slope: 0.0,
            p99_us: 100.0,
            is_valid: true,
            is_taken: true,
        }
    }

    #[test]
    fn a_sharp_limit_is_found_to_the_tolerance_from_either_side() {
        for start in [1.0, 100.0, 777.0, 1e6] {
            let found = search(Goal { start, ..GOAL }, |rate, _| sharp(777.0, rate));
            let within = |rate: Option<f64>, least: f64, most: f64| {
                rate.is_some_and(|rate| (least..=most).contains(&rate))
            };
            let sustained = found.sustained.unwrap_or_default();
            let is_right = within(found.sustained, 777.0 / 1.031, 777.0 * 1.002)
                && within(found.partial_drop, sustained, 777.0 * 1.006);
            assert!(is_right, "{start}: {found:?}");
            assert_eq!((found.limit, found.peak_delivered), ("loss", 777.0));
        }
    }

    #[test]
    fn one_hiccup_does_not_end_a_ramp_and_a_confirmation_that_fails_goes_down() {
        let mut trials = 0;
        let with_hiccup = search(GOAL, |rate, _| {
            trials += 1;
            let sharp = sharp(777.0, rate);
            let loss = if trials == 2 { 0.5 } else { sharp.loss };
            Shown { loss, ..sharp }
        });
        let less_in_long_ones = |limit| {
            search(GOAL, move |rate, is_long| {
                sharp(if is_long { limit } else { 777.0 }, rate)
            })
        };
        for (found, least, most) in [
            (with_hiccup, 750.0, 778.0),
            (less_in_long_ones(700.0), 675.0, 700.7),
        ] {
            let sustained = found.sustained.unwrap_or_default();
            assert!(least < sustained && sustained <= most, "{found:?}");
        }
        assert_eq!(less_in_long_ones(1.0).sustained, None, "it never lasts");
    }

    #[test]
    fn the_generators_limit_is_told_and_the_highest_rate_is_kept() {
        // A window that is used up: all that was sent is delivered, and nothing grows.
        let not_taken = search(GOAL, |rate, _| Shown {
            is_taken: rate < 5000.0,
            ..sharp(1e9, rate)
        });
        let not_valid = search(GOAL, |rate, _| Shown {
            is_valid: rate < 5000.0,
            ..sharp(1e9, rate)
        });
        for (found, limit) in [(not_taken, HELD_BACK), (not_valid, NOT_VALID)] {
            let is_below = found.sustained.is_some_and(|rate| rate < 5000.0);
            assert!(found.limit == limit && is_below, "{found:?}");
        }
        let mut trials = 0;
        let every_other_long_one = search(GOAL, |rate, is_long| {
            trials += 1;
            let is_valid = !is_long || trials % 2 == 0;
            Shown {
                is_valid,
                ..sharp(777.0, rate)
            }
        });
        let sustained = every_other_long_one.sustained.unwrap_or_default();
        assert!(sustained > 750.0, "{every_other_long_one:?}");
        let goal = Goal {
            most: 1000.0,
            ..GOAL
        };
        let most = search(goal, |rate, _| sharp(1e9, rate));
        assert_eq!((most.sustained, most.limit), (Some(1000.0), "most"));
        let nothing = search(GOAL, |rate, _| sharp(1e-9, rate));
        assert_eq!((nothing.sustained, nothing.partial_drop), (None, None));
    }
}
