//! A member's load report, and the checks of its plausibility.

/// A member's report, as it came: nothing in it is trusted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LoadReport {
    /// Messages that wait at the member.
    pub waiting: f64,
    /// Milliseconds it took for one message, on average since its last report; 0 if it processed none. Some peers say it
    /// in smaller units.
    pub each_ms: f64,
    /// Handlers that work side by side, if it says so.
    pub concurrency: Option<u16>,
}

/// Waiting messages that a report can claim at most; more are clamped.
const WAITING_MAX: f64 = 1e6;
/// No message takes longer than an hour.
const EACH_MAX: f64 = 3600.0;
/// Nanoseconds in a millisecond: the smallest unit that is understood.
const SMALLEST: f64 = 1e6;

/// A report that may be true: both numbers are finite and not negative.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Credible {
    pub(crate) waiting: f64,
    pub(crate) each: f64,
    pub(crate) concurrency: Option<u16>,
}

/// The unit in which a member counts its time: milliseconds until its numbers show otherwise.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unit(f64);

impl Default for Unit {
    fn default() -> Self {
        Unit(1.0)
    }
}

impl LoadReport {
    /// Whether it can be true in some unit; a balancer ignores it otherwise.
    pub fn is_credible(&self) -> bool {
        self.credible().is_some()
    }

    /// `None` if it cannot be true in any unit.
    pub(crate) fn credible(&self) -> Option<Credible> {
        let plausible = |value: f64, max: f64| value.is_finite() && (0.0..=max).contains(&value);
        if !plausible(self.waiting, WAITING_MAX)
            || !plausible(self.each_ms, EACH_MAX * 1e3 * SMALLEST)
        {
            return None;
        }
        let concurrency = self.concurrency.filter(|count| (1..=4096).contains(count));
        Some(Credible {
            waiting: self.waiting,
            each: self.each_ms / 1e3,
            concurrency,
        })
    }
}

impl Unit {
    /// Brings a report to seconds. `busy` is how long `processed` messages can have taken at the most.
    pub(crate) fn apply(
        &mut self,
        report: Credible,
        processed: f64,
        busy: f64,
    ) -> Option<Credible> {
        let mut each = report.each * self.0;
        // A member that claims a hundred times the elapsed time does not count in milliseconds.
        if processed >= 1.0 && busy > 1e-3 && each * processed > 100.0 * busy {
            while self.0 > 1.0 / SMALLEST && each * processed > 3.0 * busy {
                self.0 /= 1e3;
                each /= 1e3;
            }
        }
        (each <= EACH_MAX).then_some(Credible { each, ..report })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(waiting: f64, each_ms: f64) -> LoadReport {
        LoadReport {
            waiting,
            each_ms,
            concurrency: None,
        }
    }

    #[test]
    fn what_no_member_can_mean_is_not_believed() {
        for (waiting, each) in [
            (f64::NAN, 1.0),
            (1.0, f64::NAN),
            (-1.0, 1.0),
            (1.0, -0.1),
            (f64::INFINITY, 1.0),
            (1.0, 1e300),
            (1e7, 1.0),
        ] {
            assert_eq!(of(waiting, each).credible(), None, "{waiting} {each}");
        }
        assert!(of(0.0, 0.0).credible().is_some());
    }

    #[test]
    fn microseconds_and_nanoseconds_are_recognised_by_work_that_cannot_have_been_done() {
        for (scale, each) in [(1.0, 25.0), (1e3, 25.0), (1e6, 25.0), (1e6, 0.2)] {
            let mut unit = Unit::default();
            let report = of(3.0, each * scale).credible().expect("credible");
            let read = unit.apply(report, 30.0, 1.0).expect("believed");
            assert!(
                (read.each * 1e3 / each - 1.0).abs() < 1e-9,
                "{scale} {each}: {}",
                read.each
            );
        }
    }

    #[test]
    fn a_time_per_message_of_hours_is_not_believed() {
        let report = of(0.0, 4e6).credible().expect("perhaps another unit");
        assert_eq!(Unit::default().apply(report, 0.0, 1.0), None);
    }
}
