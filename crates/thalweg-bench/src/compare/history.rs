//! Runs before: how much a figure differs from run to run, and since when it is another.
//!
//! Repeats of one run share a minute and a boot of the machine; runs of two days differ by more than their repeats say. So a gate
//! that rests on the repeats of two runs raises a false alarm about one time in eight. With five runs before, a new one
//! is judged by what runs differ by: it is another if it lies outside what a sixth run of the same would be expected in.

use std::fs;
use std::io;
use std::path::Path;

use super::points;
use crate::results::metric::Metric;
use crate::results::{Results, read};
use crate::stats::{mean, median, sd, t_cdf};

/// Fewer runs than this say nothing about what runs differ by.
pub const RUNS_MIN: usize = 5;

#[derive(Clone, Debug)]
pub struct Run {
    pub name: String,
    pub results: Results,
}

/// Runs in the folders below this one, oldest first. The two that are compared are left out.
pub fn runs(folder: &Path, compared: [&Path; 2]) -> io::Result<Vec<Run>> {
    let compared = compared.map(|path| path.canonicalize().ok());
    let mut runs = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if !path.join("run.json").is_file() || compared.contains(&path.canonicalize().ok()) {
            continue;
        }
        let name = path
            .file_name()
            .map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        runs.push(Run {
            name,
            results: read(&path)?,
        });
    }
    let begun = |run: &Run| {
        run.results.about["started_unix_s"]
            .as_u64()
            .unwrap_or_default()
    };
    runs.sort_by(|a, b| (begun(a), &a.name).cmp(&(begun(b), &b.name)));
    Ok(runs)
}

/// A figure's medians of the runs that have the point, oldest first.
pub fn series(runs: &[Run], point: &str, metric: &Metric) -> Vec<(String, f64)> {
    let of = |run: &Run| {
        let points = points(&run.results.trials);
        let values: Vec<f64> = points
            .get(point)?
            .iter()
            .filter_map(|(cell, row)| (metric.of)(cell, row))
            .collect();
        Some((run.name.clone(), median(&values)?))
    };
    runs.iter().filter_map(of).collect()
}

/// How likely one more run of the same is as far away as this (two-sided, Student, of logarithms where all are above zero), and
/// how far that is in standard deviations of runs. Nothing where there are too few, or where they do not differ at all.
pub fn further(before: &[f64], new: f64) -> Option<(f64, f64)> {
    if before.len() < RUNS_MIN {
        return None;
    }
    let is_log = new > 0.0 && before.iter().all(|value| *value > 0.0);
    let scaled = |value: f64| if is_log { value.ln() } else { value };
    let before: Vec<f64> = before.iter().map(|value| scaled(*value)).collect();
    let (middle, spread, count) = (mean(&before), sd(&before), before.len() as f64);
    let distance = scaled(new) - middle;
    let t = distance / (spread * (1.0 + 1.0 / count).sqrt());
    (spread > 0.0).then(|| (2.0 * t_cdf(-t.abs(), count - 1.0), distance / spread))
}

/// The first of the runs that are alike and unlike those before: where two levels fit a series best.
pub fn since(series: &[(String, f64)]) -> Option<&str> {
    let error = |part: &[(String, f64)]| {
        let values: Vec<f64> = part.iter().map(|(_, value)| *value).collect();
        let middle = mean(&values);
        values
            .iter()
            .map(|value| (value - middle).powi(2))
            .sum::<f64>()
    };
    let both = |at: &usize| {
        series
            .split_at_checked(*at)
            .map_or(f64::INFINITY, |(old, new)| error(old) + error(new))
    };
    let at = (1..series.len()).min_by(|a, b| both(a).total_cmp(&both(b)))?;
    series.get(at).map(|(name, _)| name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::random::Random;

    #[test]
    fn a_run_like_those_before_is_rarely_called_another() {
        let mut random = Random::new(7);
        let mut run = |middle: f64| middle * (1.0 + 0.1 * random.normal());
        let mut alarms = |middle: f64| {
            let one = |_: &u32| {
                let before: Vec<f64> = (0..6).map(|_| run(100.0)).collect();
                further(&before, run(middle)).is_some_and(|(p, _)| p < 0.05)
            };
            (0..1000).filter(one).count()
        };
        let (same, other) = (alarms(100.0), alarms(200.0));
        assert!(
            (25..=80).contains(&same),
            "{same} of 1,000, 50 are to be expected"
        );
        assert!(other > 980, "{other} of 1,000 that are twice as much");
    }

    #[test]
    fn five_runs_are_needed_and_zeros_are_numbers() {
        assert_eq!(further(&[1.0, 1.1, 0.9, 1.0], 9.0), None);
        assert_eq!(further(&[1.0; 5], 9.0), None, "no spread");
        assert!(
            further(&[0.0, 1.0, 0.0, 1.0, 0.5], 30.0)
                .is_some_and(|(p, far)| p < 0.001 && far > 10.0)
        );
    }

    #[test]
    fn a_level_begins_where_it_fits_best() {
        let series = |values: &[f64]| -> Vec<(String, f64)> {
            values
                .iter()
                .enumerate()
                .map(|(number, value)| (format!("run {number}"), *value))
                .collect()
        };
        assert_eq!(
            since(&series(&[10.0, 11.0, 10.5, 20.0, 21.0, 19.5])),
            Some("run 3")
        );
        assert_eq!(
            since(&series(&[10.0, 11.0, 10.5, 10.2, 21.0])),
            Some("run 4")
        );
        assert_eq!(since(&series(&[10.0])), None);
    }
}
