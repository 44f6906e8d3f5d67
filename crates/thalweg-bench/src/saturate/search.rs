//! The search for the highest rate that lasts. No clock, no sockets: it asks for trials and is told what came of them.
//!
//! ```text
//!  ramp (x 2 until it fails, or / 2 until it passes) ──> bisect (on the log of the rate, to the tolerance)
//!       ──> confirm (3 long trials; one fails: down by the tolerance, 3 again) ──> end
//! ```
//! A short trial that fails is tried once more before it counts: one hiccup must not end a ramp. So is a long one that is not
//! valid: that says something of the machine and nothing of the broker. What must not pass by chance is decided by long ones.

/// What the search is for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Goal {
    /// Where it begins, messages a second in all.
    pub start: f64,
    pub most: f64,
    /// Ratio of neighbours at the end, less one: 0.03.
    pub tolerance: f64,
    /// Long trials that have to pass.
    pub confirmations: u32,
    /// Losses that pass, a part of one.
    pub loss: f64,
    /// Growth of the backlog that passes, a part of the rate: 0.005.
    pub slope: f64,
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
        if shown.slope > self.slope {
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

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Found {
    /// Highest rate that passed all confirmations; none if nothing did.
    pub sustained: Option<f64>,
    /// Highest offered rate of a valid trial with at most 0.5 % lost, whatever else; none if all lost more.
    pub partial_drop: Option<f64>,
    /// Most that was delivered a second in any trial: also when far too much was offered.
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
    shown: Vec<Shown>,
    limit: &'static str,
    /// The last trial failed and is tried again.
    is_second: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    /// Rate to try, highest that passed, lowest that failed.
    Ramp {
        rate: f64,
        low: Option<f64>,
        high: Option<f64>,
    },
    Bisect {
        low: f64,
        high: f64,
    },
    /// Rate, passes so far, steps down so far.
    Confirm {
        rate: f64,
        passed: u32,
        steps: u32,
    },
    Over {
        sustained: Option<f64>,
    },
}

impl Search {
    /// A search that has not begun.
    pub fn new(goal: Goal) -> Search {
        let rate = goal.start.min(goal.most);
        let stage = Stage::Ramp {
            rate,
            low: None,
            high: None,
        };
        Search {
            goal,
            stage,
            shown: Vec::new(),
            limit: "most",
            is_second: false,
        }
    }

    /// What is next. The same until something is shown.
    pub fn next_step(&self) -> Step {
        match self.stage {
            Stage::Ramp { rate, .. } => Step::Measure {
                rate,
                is_long: false,
            },
            Stage::Bisect { low, high } => Step::Measure {
                rate: (low * high).sqrt(),
                is_long: false,
            },
            Stage::Confirm { rate, .. } => Step::Measure {
                rate,
                is_long: true,
            },
            Stage::Over { sustained } => Step::End(self.found(sustained)),
        }
    }

    /// A trial at the rate that was asked for is over.
    pub fn show(&mut self, shown: Shown) {
        self.shown.push(shown);
        let refused = self.goal.refuses(&shown);
        let may_be_chance = !matches!(self.stage, Stage::Confirm { .. }) || !shown.is_valid;
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

    fn after(&self, is_passed: bool) -> Stage {
        match (self.stage, is_passed) {
            (Stage::Ramp { rate, high, .. }, true) => match high {
                Some(high) => self.between(rate, high),
                None if rate >= self.goal.most => confirm(rate),
                None => Stage::Ramp {
                    rate: (2.0 * rate).min(self.goal.most),
                    low: Some(rate),
                    high,
                },
            },
            (Stage::Ramp { rate, low, .. }, false) => match low {
                Some(low) => self.between(low, rate),
                None if rate < RATE_MIN => Stage::Over { sustained: None },
                None => Stage::Ramp {
                    rate: rate / 2.0,
                    low,
                    high: Some(rate),
                },
            },
            (Stage::Bisect { low, high }, true) => self.between((low * high).sqrt(), high),
            (Stage::Bisect { low, high }, false) => self.between(low, (low * high).sqrt()),
            (
                Stage::Confirm {
                    rate,
                    passed,
                    steps,
                },
                true,
            ) => match passed + 1 >= self.goal.confirmations {
                true => Stage::Over {
                    sustained: Some(rate),
                },
                false => Stage::Confirm {
                    rate,
                    passed: passed + 1,
                    steps,
                },
            },
            (
                Stage::Confirm {
                    steps: STEPS_MAX, ..
                },
                false,
            ) => Stage::Over { sustained: None },
            (Stage::Confirm { rate, steps, .. }, false) => Stage::Confirm {
                rate: rate / (1.0 + self.goal.tolerance),
                passed: 0,
                steps: steps + 1,
            },
            (Stage::Over { sustained }, _) => Stage::Over { sustained },
        }
    }

    fn between(&self, low: f64, high: f64) -> Stage {
        if high / low <= 1.0 + self.goal.tolerance {
            confirm(low)
        } else {
            Stage::Bisect { low, high }
        }
    }

    fn found(&self, sustained: Option<f64>) -> Found {
        let partial = self
            .shown
            .iter()
            .filter(|shown| shown.is_valid && shown.is_taken && shown.loss <= PARTIAL_DROP);
        Found {
            sustained,
            partial_drop: partial.map(|shown| shown.rate).reduce(f64::max),
            peak_delivered: self
                .shown
                .iter()
                .map(|shown| shown.delivered)
                .fold(0.0, f64::max),
            limit: self.limit,
            trials: self.shown.len() as u32,
        }
    }
}

fn confirm(rate: f64) -> Stage {
    Stage::Confirm {
        rate,
        passed: 0,
        steps: 0,
    }
}

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

    const GOAL: Goal = Goal {
        start: 100.0,
        most: 1e7,
        tolerance: 0.03,
        confirmations: 3,
        loss: 0.001,
        slope: 0.005,
        p99_us: None,
    };

    /// One server of constant service time (M/D/1) with a queue for so many, at Poisson arrivals for some seconds.
    fn server(capacity: f64, room: usize, rate: f64, seconds: f64, random: &mut Random) -> Shown {
        let (mut now, mut free, mut waits, mut lost, mut count, mut done) =
            (0.0, 0.0_f64, Vec::new(), 0, 0, 0);
        let mut under_way = Vec::new();
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
        waits.sort_by(f64::total_cmp);
        Shown {
            rate,
            delivered: f64::from(done) / seconds,
            loss: f64::from(lost) / f64::from(count.max(1)),
            slope: super::super::slope(&under_way) / rate,
            p99_us: waits
                .get(waits.len() * 99 / 100)
                .copied()
                .unwrap_or_default(),
            is_valid: true,
            is_taken: true,
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
    fn the_capacity_of_a_server_is_found() {
        for seed in 0..8 {
            let mut random = Random::new(seed);
            let capacity = 500.0 * (1.0 + random.unit() * 20.0);
            let found = search(GOAL, |rate, is_long| {
                server(
                    capacity,
                    2000,
                    rate,
                    if is_long { 20.0 } else { 4.0 },
                    &mut random,
                )
            });
            let sustained = found.sustained.expect("it has a capacity");
            // At Poisson arrivals the backlog wanders: some percent below the capacity is what lasts.
            assert!(
                (0.90..=1.01).contains(&(sustained / capacity)),
                "seed {seed}: {found:?} of {capacity}"
            );
            assert!(
                (0.95..=1.05).contains(&(found.peak_delivered / capacity)),
                "seed {seed}: {found:?} of {capacity}"
            );
            assert!(
                found.trials < 60 && ["backlog", "loss"].contains(&found.limit),
                "seed {seed}: {found:?}"
            );
        }
    }

    #[test]
    fn a_bound_of_the_99th_percentile_ends_it_earlier() {
        // p99 of M/D/1 in units of the service time: about 1 + 4.6 ρ/(2(1-ρ)); at 10 it is ρ = 0.8.
        let goal = Goal {
            p99_us: Some(10.0 * 1e6 / 2000.0),
            ..GOAL
        };
        for seed in 0..4 {
            let mut random = Random::new(seed);
            let found = search(goal, |rate, is_long| {
                server(
                    2000.0,
                    100_000,
                    rate,
                    if is_long { 30.0 } else { 5.0 },
                    &mut random,
                )
            });
            let load = found.sustained.expect("it has one") / 2000.0;
            assert!(
                (0.70..=0.86).contains(&load) && found.limit == "p99",
                "seed {seed}: {load} {found:?}"
            );
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
            let sustained = found.sustained.expect("it has one");
            assert!(
                (777.0 / 1.031..=777.0 * 1.002).contains(&sustained),
                "{start}: {found:?}"
            );
            assert!(
                found
                    .partial_drop
                    .is_some_and(|rate| rate >= sustained && rate <= 777.0 * 1.006),
                "{found:?}"
            );
            assert_eq!((found.limit, found.peak_delivered), ("loss", 777.0));
        }
    }

    #[test]
    fn one_hiccup_does_not_end_a_ramp_and_a_confirmation_that_fails_goes_down() {
        let mut trials = 0;
        let found = search(GOAL, |rate, _| {
            trials += 1;
            if trials == 2 {
                Shown {
                    loss: 0.5,
                    ..sharp(777.0, rate)
                }
            } else {
                sharp(777.0, rate)
            }
        });
        assert!(
            found.sustained.is_some_and(|rate| rate > 750.0),
            "{found:?}"
        );
        // Long trials stand less than short ones.
        let found = search(GOAL, |rate, is_long| {
            sharp(if is_long { 700.0 } else { 777.0 }, rate)
        });
        assert!(
            found
                .sustained
                .is_some_and(|rate| rate <= 700.7 && rate > 675.0),
            "{found:?}"
        );
        let found = search(GOAL, |rate, is_long| {
            sharp(if is_long { 1.0 } else { 777.0 }, rate)
        });
        assert_eq!(found.sustained, None, "it never lasts");
    }

    #[test]
    fn the_generators_limit_is_told_and_the_highest_rate_is_kept() {
        // A window that is used up: all that was sent is delivered, and nothing grows.
        let found = search(GOAL, |rate, _| Shown {
            is_taken: rate < 5000.0,
            ..sharp(1e9, rate)
        });
        assert!(
            found.limit == HELD_BACK && found.sustained.is_some_and(|rate| rate < 5000.0),
            "{found:?}"
        );
        let found = search(GOAL, |rate, _| Shown {
            is_valid: rate < 5000.0,
            ..sharp(1e9, rate)
        });
        assert!(
            found.limit == NOT_VALID && found.sustained.is_some_and(|rate| rate < 5000.0),
            "{found:?}"
        );
        let mut trials = 0;
        let found = search(GOAL, |rate, is_long| {
            trials += 1;
            Shown {
                is_valid: !is_long || trials % 2 == 0,
                ..sharp(777.0, rate)
            }
        });
        assert!(
            found.sustained.is_some_and(|rate| rate > 750.0),
            "every other long trial does not count: {found:?}"
        );
        let found = search(
            Goal {
                most: 1000.0,
                ..GOAL
            },
            |rate, _| sharp(1e9, rate),
        );
        assert_eq!((found.sustained, found.limit), (Some(1000.0), "most"));
        let found = search(GOAL, |rate, _| sharp(1e-9, rate));
        assert_eq!(
            (found.sustained, found.partial_drop),
            (None, None),
            "nothing passes"
        );
    }
}
