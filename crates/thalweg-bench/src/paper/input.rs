//! What a page is made from: the trials of a folder, those that count in groups, the others with their reasons.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::Path;

use hdrhistogram::Histogram;
use serde_json::Value;
use thalweg_stats::histograms::recorded;

use super::chart::{Look, Series, again};
use crate::cell::{Cell, Row, Standing, valid};
use crate::e2d::WAYS;
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
    /// Messages of trials, by key, of studies that keep them.
    pub messages: HashMap<String, Vec<Message>>,
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

/// A message of E2d or E5, as `messages.csv` has it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Message {
    /// When it should have been published, since the trial began.
    pub intended_s: f64,
    /// From then until it was received, or until a worker took it.
    pub wait_ms: f64,
    /// Which of [`WAYS`] it went, or the worker that was done with it first.
    pub by: Option<usize>,
}

/// Reads a folder. Histograms and seconds may be missing; whatever is drawn from them is missing then, too.
pub fn read(folder: &Path) -> io::Result<Input> {
    let found = results::read(folder)?;
    let mut groups = groups(&found.trials);
    for (cell, _) in valid(&found.trials) {
        let name = name_of(cell);
        let Some(group) = groups.iter_mut().find(|group| name_of(&group.cell) == name) else {
            continue;
        };
        let Ok([response, _]) = results::histograms(folder, &cell.key()) else {
            continue;
        };
        match &mut group.response {
            Some(all) => all.add(&response).map_err(io::Error::other)?,
            None => group.response = Some(response),
        }
    }
    let text = |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_default();
    let drawn = match folder.join("latency").exists() {
        true => HashMap::new(),
        false => tables(&folder.join("figures"))?,
    };
    Ok(Input {
        about: found.about,
        trials: found.trials,
        groups,
        seconds: moments(&text("timeseries.csv")),
        messages: messages(&text("messages.csv")),
        drawn,
    })
}

fn tables(folder: &Path) -> io::Result<HashMap<String, String>> {
    let mut all = HashMap::new();
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry?.path();
        let is_table = path.extension().is_some_and(|it| it == "csv");
        if let Some(name) = path.file_stem().filter(|_| is_table) {
            let name = name.to_string_lossy().into_owned();
            all.insert(name, fs::read_to_string(&path)?);
        }
    }
    Ok(all)
}

/// These columns of each line of a table; nothing where one of them is missing.
fn columns<'t, const N: usize>(
    text: &'t str,
    names: [&str; N],
) -> impl Iterator<Item = [&'t str; N]> + use<'t, N> {
    let mut lines = text.lines();
    let head: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let at = names.map(|name| head.iter().position(|column| *column == name));
    let is_whole = at.iter().all(Option::is_some);
    lines.filter(move |_| is_whole).map(move |line| {
        let fields: Vec<&str> = line.split(',').collect();
        at.map(|at| {
            at.and_then(|at| fields.get(at).copied())
                .unwrap_or_default()
        })
    })
}

/// The seconds of all trials.
fn moments(text: &str) -> HashMap<String, Vec<Moment>> {
    let names = ["key", "second", "sent", "received", "response_p99_us"];
    let mut all: HashMap<String, Vec<Moment>> = HashMap::new();
    for [key, numbers @ ..] in columns(text, names) {
        let [second, sent, received, p99_us] = numbers.map(|text| text.parse().unwrap_or(0.0));
        let moment = Moment {
            second,
            sent,
            received,
            p99_us,
        };
        all.entry(key.to_owned()).or_default().push(moment);
    }
    all
}

/// The messages of all trials that came, of E5 those that a worker took.
fn messages(text: &str) -> HashMap<String, Vec<Message>> {
    let workers = columns(text, ["key", "t_intended_us", "t_taken_us", "member"]);
    let workers = workers.map(|[key, intended, taken, it]| (key, intended, taken, it.parse().ok()));
    let names = [
        "key",
        "t_intended_us",
        "t_received_us",
        "published_over",
        "received_over",
    ];
    let courses = columns(text, names).map(|[key, intended, received, ends @ ..]| {
        let way = WAYS.iter().position(|(way, _)| *way == ends);
        (key, intended, received, way)
    });
    let mut all: HashMap<String, Vec<Message>> = HashMap::new();
    // A table has the columns of one of them.
    for (key, intended, came, by) in workers.chain(courses) {
        let (Ok(intended), Ok(came)) = (intended.parse::<f64>(), came.parse::<f64>()) else {
            continue;
        };
        let message = Message {
            intended_s: intended * 1e-6,
            wait_ms: (came - intended) * 1e-3,
            by,
        };
        match all.get_mut(key) {
            Some(some) => some.push(message),
            None => drop(all.insert(key.to_owned(), vec![message])),
        }
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

    /// Dots; where there are no messages any more, those of the table that an earlier page has left.
    pub fn dotted(&self, file: &str, series: Vec<Series>) -> Vec<Series> {
        let mut series = match (series.is_empty(), self.drawn.get(file)) {
            (true, Some(table)) => again(table),
            _ => series,
        };
        series.iter_mut().for_each(|it| it.look = Look::Dots);
        series
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
        word(&self.about, key)
    }
}

/// A word of a `run.json`.
pub fn word(about: &Value, key: &str) -> String {
    match &about[key] {
        Value::String(text) => text.clone(),
        Value::Null => "?".to_owned(),
        other => other.to_string(),
    }
}

/// A distribution as points to draw: microseconds, percent. Between 10 us and the longest, some 200 of them.
pub fn steps(histogram: &Histogram<u64>) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> = Vec::new();
    let all = histogram.len() as f64;
    let mut below = 0;
    for (value, count) in recorded(histogram) {
        below += count;
        let point = (value as f64 * 1e-3, 100.0 * below as f64 / all);
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
        let values: Vec<u64> = (1..=100_000).map(|value| value * 1000).collect();
        let points = steps(&thalweg_stats::histograms::of(&values));
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
