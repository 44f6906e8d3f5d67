//! Remaining work of a member without completion reports: a mean and a variance that shrink with time.

use std::f64::consts::{PI, SQRT_2};
use std::sync::LazyLock;

/// Work left, in seconds, as seen from one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Work {
    pub(crate) mean: f64,
    pub(crate) variance: f64,
    /// The moment, in the member's own time.
    pub(crate) at: f64,
}

/// Steps per unit of the table of the normal distribution, and its half width.
const STEPS: f64 = 16.0;
const WIDTH: f64 = 6.0;

/// E[X⁺] and E[X⁺²] of a normal variable of mean z and variance 1, for z from -6 to 6.
static RECTIFIED: LazyLock<Vec<(f64, f64)>> = LazyLock::new(|| {
    let steps = (2.0 * WIDTH * STEPS) as usize;
    (0..=steps + 1)
        .map(|step| {
            let z = step as f64 / STEPS - WIDTH;
            let density = (-z * z / 2.0).exp() / (2.0 * PI).sqrt();
            let below = 0.5 * (1.0 + erf(z / SQRT_2));
            (z * below + density, (1.0 + z * z) * below + z * density)
        })
        .collect()
});

/// The error function; Abramowitz and Stegun 7.1.26, off by 1.5e-7 at the most.
fn erf(x: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.327_591_1 * x.abs());
    let series = ((((1.061_405_429 * t - 1.453_152_027) * t) + 1.421_413_741) * t - 0.284_496_736)
        * t
        + 0.254_829_592;
    (1.0 - series * t * (-x * x).exp()).copysign(x)
}

fn rectified(z: f64) -> (f64, f64) {
    if z <= -WIDTH {
        return (0.0, 0.0);
    }
    if z >= WIDTH {
        return (z, 1.0 + z * z);
    }
    let place = (z + WIDTH) * STEPS;
    let (at, part) = (place as usize, place.fract());
    let (Some(low), Some(high)) = (RECTIFIED.get(at), RECTIFIED.get(at + 1)) else {
        return (z.max(0.0), 1.0);
    };
    (
        (low.0 + (high.0 - low.0) * part).max(0.0),
        (low.1 + (high.1 - low.1) * part).max(0.0),
    )
}

impl Work {
    /// None, at a moment.
    pub(crate) fn none(at: f64) -> Self {
        Work {
            mean: 0.0,
            variance: 0.0,
            at,
        }
    }

    /// Remaining work at `at`: work is done, but never more than there is.
    pub(crate) fn drained(&self, at: f64) -> Work {
        let passed = at - self.at;
        if passed <= 0.0 {
            return *self;
        }
        let deviation = self.variance.sqrt();
        if deviation < 1e-9 {
            return Work {
                mean: (self.mean - passed).max(0.0),
                variance: 0.0,
                at,
            };
        }
        let (first, second) = rectified((self.mean - passed) / deviation);
        let mean = deviation * first;
        Work {
            mean,
            variance: (self.variance * second - mean * mean).max(0.0),
            at,
        }
    }

    /// A message more, that arrives at `at`.
    pub(crate) fn add(&mut self, mean: f64, variance: f64, at: f64) {
        let left = self.drained(at);
        *self = Work {
            mean: left.mean + mean,
            variance: left.variance + variance,
            at: left.at,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certain_work_shrinks_with_time_and_never_below_nothing() {
        let work = Work {
            mean: 0.5,
            variance: 0.0,
            at: 10.0,
        };
        assert!((work.drained(10.2).mean - 0.3).abs() < 1e-12);
        assert_eq!(work.drained(11.0).mean, 0.0);
        assert_eq!(work.drained(9.0).mean, 0.5);
    }

    #[test]
    fn uncertain_work_may_still_be_there_after_its_mean() {
        let work = Work {
            mean: 0.1,
            variance: 0.01,
            at: 0.0,
        };
        let left = work.drained(0.1);
        // A normal variable of mean 0 has E[X+] = sigma / sqrt(2 pi) and E[X+^2] = sigma^2 / 2.
        assert!((left.mean - 0.1 * 0.398_942).abs() < 1e-4, "{left:?}");
        assert!(
            (left.variance - 0.01 * (0.5 - 0.159_155)).abs() < 1e-5,
            "{left:?}"
        );
        assert!(work.drained(5.0).mean < 1e-6);
    }

    #[test]
    fn the_table_is_continuous_at_its_ends() {
        assert!(rectified(-5.999).0 < 1e-8);
        let (first, second) = rectified(5.999);
        assert!((first - 5.999).abs() < 1e-3 && (second - 1.0 - 5.999 * 5.999).abs() < 0.01);
    }
}
