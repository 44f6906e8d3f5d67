//! Means over repeats, with their intervals, and how numbers are written.

use std::fmt;

use crate::stats::mean_interval;

/// A mean over repeats.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stat {
    pub mean: f64,
    /// Half of its 95 % interval; not a number for less than two.
    pub half: f64,
    pub range: (f64, f64),
    pub count: usize,
}

impl Stat {
    /// Of figures; none of none.
    pub fn of(values: &[f64]) -> Option<Stat> {
        let least = values.iter().copied().reduce(f64::min)?;
        let greatest = values.iter().copied().reduce(f64::max)?;
        let interval = mean_interval(values, 0.95);
        Some(Stat {
            mean: mean(values.iter().copied()),
            half: interval.map_or(f64::NAN, |it| it.high - it.middle),
            range: (least, greatest),
            count: values.len(),
        })
    }

    /// Whether this mean is above (`Some(true)`) or below another beyond both intervals; none where the intervals overlap or
    /// one of them is not known.
    pub fn is_above(&self, other: &Stat) -> Option<bool> {
        let apart = (self.mean - other.mean).abs() > self.half + other.half;
        apart.then_some(self.mean > other.mean)
    }

    /// The same, but by the means alone where one of them is of a single repeat.
    pub fn exceeds(&self, other: &Stat) -> Option<bool> {
        match self.count.min(other.count) {
            0 | 1 => Some(self.mean > other.mean),
            _ => self.is_above(other),
        }
    }

    /// The same mean and interval, multiplied.
    pub fn times(&self, factor: f64) -> Stat {
        let range = (self.range.0 * factor, self.range.1 * factor);
        Stat {
            mean: self.mean * factor,
            half: self.half * factor,
            range,
            count: self.count,
        }
    }
}

impl fmt::Display for Stat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.half.is_nan() {
            true => f.write_str(&short(self.mean)),
            false => write!(f, "{} ± {}", short(self.mean), short(self.half)),
        }
    }
}

impl Stat {
    /// The mean with its interval, and the least and greatest of the repeats: start-ups differ, and one says little.
    pub fn spread(&self) -> String {
        match self.count {
            0 | 1 => self.to_string(),
            _ => format!(
                "{self} ({} to {})",
                short(self.range.0),
                short(self.range.1)
            ),
        }
    }
}

/// A number with three significant digits.
pub fn short(number: f64) -> String {
    match number.abs() {
        _ if number.is_nan() => "-".to_owned(),
        size if size >= 100.0 => format!("{number:.0}"),
        size if size >= 10.0 => format!("{number:.1}"),
        _ => format!("{number:.2}"),
    }
}

/// A whole number with its thousands apart: 134,000.
pub fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The mean; not a number for nothing.
pub fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0_u64), |(sum, count), value| (sum + value, count + 1));
    if count == 0 {
        f64::NAN
    } else {
        sum / count as f64
    }
}

/// The value that so large a part is not above; sorts.
pub fn quantile(values: &mut [f64], part: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = (values.len() as f64 * part) as usize;
    values
        .get(at.min(values.len().saturating_sub(1)))
        .copied()
        .unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_apart_only_beyond_both_intervals() {
        let stat = |mean, half| Stat {
            mean,
            half,
            range: (mean, mean),
            count: 3,
        };
        assert_eq!(stat(10.0, 2.0).is_above(&stat(5.0, 2.0)), Some(true));
        assert_eq!(stat(5.0, 2.0).is_above(&stat(10.0, 2.0)), Some(false));
        assert_eq!(stat(10.0, 3.0).is_above(&stat(5.0, 2.0)), None);
        assert_eq!(
            stat(10.0, f64::NAN).is_above(&stat(5.0, 2.0)),
            None,
            "one repeat has no interval"
        );
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            [1492.34, 27.44, 3.456, f64::NAN].map(short),
            ["1492", "27.4", "3.46", "-"]
        );
    }

    #[test]
    fn a_quantile_is_a_value_that_was_measured() {
        let mut values: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        assert_eq!(quantile(&mut values, 0.99), 199.0);
        assert_eq!(quantile(&mut values, 0.0), 1.0);
        assert!(quantile(&mut [], 0.5).is_nan());
    }

    #[test]
    fn the_interval_of_eight_repeats_uses_the_t_of_seven() {
        let values = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0];
        let half = Stat::of(&values).expect("eight").half;
        assert!((half - 2.364_624 * (6.0_f64 / 8.0).sqrt()).abs() < 1e-6);
    }
}
