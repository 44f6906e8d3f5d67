//! What a page is made from: the trials of a folder, those that count in groups, the others with their reasons.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::Path;

use hdrhistogram::Histogram;
use serde_json::Value;

use crate::cell::{Cell, Row, Standing};
use crate::results;
use crate::studies::group::{Group, groups, name_of};

/// A folder that was read.
#[derive(Clone, Debug)]
pub struct Input {
    /// `run.json`
    pub about: Value,
    pub trials: Vec<(Cell, Row)>,
    /// Those that count, repeats together.
    pub groups: Vec<Group>,
    /// Seconds of trials, by key.
    pub seconds: HashMap<String, Vec<Moment>>,
    /// Tables of an earlier page's drawings, by their names, where the distributions that they were drawn from are gone.
    pub drawn: HashMap<String, String>,
}

/// A second of a trial, as `timeseries.csv` has it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moment {
    /// From the beginning of the warm-up.
    pub second: f64,
    pub sent: f64,
    pub received: f64,
    /// 99th percentile of the response, microseconds.
    pub p99_us: f64,
}

/// Reads a folder. Histograms and seconds may be missing; whatever is drawn from them is missing then, too.
pub fn read(folder: &Path) -> io::Result<Input> {
    let found = results::read(folder)?;
    let mut groups = groups(&found.trials);
    for (cell, _) in found
        .trials
        .iter()
        .filter(|(_, row)| row.standing == Standing::Valid)
    {
        let name = name_of(cell);
        let Some(group) = groups.iter_mut().find(|group| name_of(&group.cell) == name) else {
            continue;
        };
        let Ok(latency) = results::histogram(folder, &cell.key()) else {
            continue;
        };
        match &mut group.response {
            Some(all) => all
                .add(&latency.response)
                .map_err(|error| io::Error::other(error.to_string()))?,
            None => group.response = Some(latency.response),
        }
    }
    let seconds = fs::read_to_string(folder.join("timeseries.csv"))
        .map_or_else(|_| HashMap::new(), |text| moments(&text));
    let drawn = if folder.join("latency").exists() {
        HashMap::new()
    } else {
        tables(&folder.join("figures"))?
    };
    Ok(Input {
        about: found.about,
        trials: found.trials,
        groups,
        seconds,
        drawn,
    })
}

fn tables(folder: &Path) -> io::Result<HashMap<String, String>> {
    let mut all = HashMap::new();
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry?.path();
        if let Some(name) = path
            .file_stem()
            .filter(|_| path.extension().is_some_and(|it| it == "csv"))
        {
            all.insert(
                name.to_string_lossy().into_owned(),
                fs::read_to_string(&path)?,
            );
        }
    }
    Ok(all)
}

/// The seconds of all trials.
fn moments(text: &str) -> HashMap<String, Vec<Moment>> {
    let mut lines = text.lines();
    let head: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let at = |name: &str| head.iter().position(|column| *column == name);
    let columns = [
        at("key"),
        at("second"),
        at("sent"),
        at("received"),
        at("response_p99_us"),
    ];
    let [
        Some(key),
        Some(second),
        Some(sent),
        Some(received),
        Some(p99),
    ] = columns
    else {
        return HashMap::new();
    };
    let mut all: HashMap<String, Vec<Moment>> = HashMap::new();
    for line in lines {
        let fields: Vec<&str> = line.split(',').collect();
        let number = |at: usize| {
            fields
                .get(at)
                .and_then(|text| text.parse().ok())
                .unwrap_or(0.0)
        };
        let Some(name) = fields.get(key) else {
            continue;
        };
        let moment = Moment {
            second: number(second),
            sent: number(sent),
            received: number(received),
            p99_us: number(p99),
        };
        all.entry((*name).to_owned()).or_default().push(moment);
    }
    all
}

impl Input {
    /// Groups of an experiment.
    pub fn of<'a>(&'a self, experiment: &'a str) -> impl Iterator<Item = &'a Group> {
        self.groups
            .iter()
            .filter(move |group| group.cell.experiment == experiment)
    }

    /// The experiments there are, in the order of their names.
    pub fn experiments(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self
            .trials
            .iter()
            .map(|(cell, _)| cell.experiment.as_str())
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Trials that do not count.
    pub fn excluded(&self) -> impl Iterator<Item = &(Cell, Row)> {
        self.trials
            .iter()
            .filter(|(_, row)| row.standing != Standing::Valid)
    }

    /// A word of `run.json`.
    pub fn word(&self, key: &str) -> String {
        match &self.about[key] {
            Value::String(text) => text.clone(),
            Value::Null => "?".to_owned(),
            other => other.to_string(),
        }
    }
}

/// A distribution as points to draw: microseconds, percent. Between 10 us and the longest, some 200 of them.
pub fn steps(histogram: &Histogram<u64>) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> = Vec::new();
    let all = histogram.len() as f64;
    let mut below = 0;
    for value in histogram.iter_recorded() {
        below += value.count_since_last_iteration();
        let point = (
            value.value_iterated_to() as f64 * 1e-3,
            100.0 * below as f64 / all,
        );
        // Differences too small to be seen are not drawn: half a percent upwards, or 3 % to the right.
        let is_seen = points
            .last()
            .is_none_or(|last| point.1 - last.1 >= 0.5 || point.0 > last.0 * 1.03);
        if is_seen || below == histogram.len() {
            points.push(point);
        }
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distribution_ends_at_all_of_it_with_few_points() {
        let mut histogram = Histogram::<u64>::new(3).expect("three digits");
        for value in 1..=100_000_u64 {
            histogram.record(value * 1000).expect("it grows");
        }
        let points = steps(&histogram);
        assert!(points.len() < 450, "{}", points.len());
        assert_eq!(points.last().map(|point| point.1), Some(100.0));
        assert!(points.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1));
    }

    #[test]
    fn seconds_are_found_by_the_names_of_their_columns() {
        let text = "key,second,sent,received,response_p50_us,response_p99_us,wire_bytes\na,0,5,4,10,90,7\na,1,6,6,11,91,8\n";
        let all = moments(text);
        assert_eq!(
            all["a"][1],
            Moment {
                second: 1.0,
                sent: 6.0,
                received: 6.0,
                p99_us: 91.0
            }
        );
        assert!(moments("other,columns\n1,2\n").is_empty());
    }
}
