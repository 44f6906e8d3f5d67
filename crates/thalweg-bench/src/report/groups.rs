//! Trials of one cell together: means over repeats, with their intervals.

use std::collections::BTreeMap;
use std::fmt;

use super::trial::{Trial, Verdict, half_interval, mean};

/// The trials that count, by part, scenario, point and variant.
#[derive(Debug, Default)]
pub struct Groups<'a> {
    groups: BTreeMap<(String, String, String, String), Vec<&'a Trial>>,
}

/// The trials of one cell that count.
#[derive(Clone, Copy, Debug)]
pub struct Group<'g> {
    trials: &'g [&'g Trial],
}

/// A mean over repeats.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stat {
    pub mean: f64,
    /// Half of its 95 % interval; not a number for less than two.
    pub half: f64,
    pub range: (f64, f64),
    pub count: usize,
}

impl<'a> Groups<'a> {
    /// Groups of the trials that count.
    pub fn of(trials: &'a [Trial]) -> Groups<'a> {
        let mut groups: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for trial in trials
            .iter()
            .filter(|trial| trial.verdict == Verdict::Valid)
        {
            groups.entry(trial.cell()).or_default().push(trial);
        }
        Groups { groups }
    }

    /// The group of a cell, if any of its trials counts.
    pub fn get(&self, part: &str, scenario: &str, point: &str, variant: &str) -> Option<Group<'_>> {
        let key = (
            part.to_owned(),
            scenario.to_owned(),
            point.to_owned(),
            variant.to_owned(),
        );
        self.groups.get(&key).map(|trials| Group { trials })
    }

    /// All groups of a part: scenario, point, variant.
    pub fn part(&self, part: &str) -> impl Iterator<Item = (&str, &str, &str, Group<'_>)> {
        let is_of = part.to_owned();
        self.groups
            .iter()
            .filter(move |((part, ..), _)| *part == is_of)
            .map(|((_, scenario, point, variant), trials)| {
                (&**scenario, &**point, &**variant, Group { trials })
            })
    }

    /// The names of all parts.
    pub fn parts(&self) -> Vec<&str> {
        let mut parts: Vec<&str> = self.groups.keys().map(|(part, ..)| &**part).collect();
        parts.dedup();
        parts
    }
}

impl<'g> Group<'g> {
    /// The mean of something over the repeats.
    pub fn stat(&self, of: impl Fn(&Trial) -> f64) -> Stat {
        let values: Vec<f64> = self.trials.iter().map(|trial| of(trial)).collect();
        Stat {
            mean: mean(values.iter().copied()),
            half: half_interval(&values),
            range: (
                values.iter().copied().fold(f64::INFINITY, f64::min),
                values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            ),
            count: values.len(),
        }
    }

    pub fn trials(&self) -> impl Iterator<Item = &'g Trial> + use<'g> {
        self.trials.iter().copied()
    }

    /// The trial whose mean wait is in the middle: the one to draw.
    pub fn typical(&self) -> Option<&'g Trial> {
        let mut trials: Vec<&Trial> = self.trials().collect();
        trials.sort_by(|a, b| a.wait_mean().total_cmp(&b.wait_mean()));
        trials.get(trials.len() / 2).copied()
    }
}

impl Stat {
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

#[cfg(test)]
mod tests {
    use super::super::raw::tests::trial;
    use super::*;

    #[test]
    fn only_what_counts_is_counted() {
        let mut trials = [trial(0), trial(1), trial(2)];
        for trial in trials.iter_mut().skip(1) {
            trial.verdict = Verdict::Valid;
        }
        trials[2].messages[0].taken = 2_300_000;
        let groups = Groups::of(&trials);
        let group = groups
            .get("core", "S2", "d=10.44ms", "score")
            .expect("two count");
        let stat = group.stat(Trial::wait_mean);
        assert_eq!((stat.count, stat.mean, stat.range), (2, 0.8, (0.3, 1.3)));
        assert!(groups.get("core", "S1", "d=10.44ms", "score").is_none());
        assert_eq!(groups.parts(), ["core"]);
    }

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
}
