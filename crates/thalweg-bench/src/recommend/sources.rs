//! Where measurements come from: folders of results, of E5, of E2d and of a search for saturation, and the two files of
//! published and computed numbers.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use serde_json::Value;

use super::published::{self, Order, blank_cell};
use super::{ceilings, courses};
use crate::cell::{Cell, Leg, Load, Protocol, Quantiles, Row, Standing, Workload};
use crate::{report, results};

#[derive(Clone, Debug)]
pub struct Source {
    /// The folder, or `paper`, `expected`.
    pub name: String,
    /// What kind of numbers these are.
    pub kind: SourceKind,
    /// Machine and kernel in a line.
    pub machine: String,
    /// When it was finished, in seconds since 1970.
    pub finished_unix_s: Option<u64>,
    /// Trials, those that do not count as well.
    pub trials: Vec<(Cell, Row)>,
    pub orders: Vec<Order>,
    /// What has to be known of it.
    pub notes: Vec<String>,
}

/// Trials, and what has to be known of them.
pub type TrialsAndNotes = (Vec<(Cell, Row)>, Vec<String>);

/// A source without its trials.
#[derive(Clone, Debug, PartialEq)]
pub struct About {
    pub name: String,
    /// What kind of numbers these are.
    pub kind: SourceKind,
    /// Machine and kernel in a line.
    pub machine: String,
    /// When it was finished, in seconds since 1970.
    pub finished_unix_s: Option<u64>,
    pub valid: usize,
    /// Trials that do not.
    pub not_valid: usize,
    /// What has to be known of it.
    pub notes: Vec<String>,
}

/// What kind of numbers a source has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceKind {
    /// Measured on a machine of the user's.
    Measured,
    /// Published by a study.
    Published,
    /// Computed from the protocols' rules, not measured.
    Computed,
}

impl SourceKind {
    /// As it is printed beside figures.
    pub fn words(self) -> &'static str {
        match self {
            SourceKind::Measured => "measured",
            SourceKind::Published => "paper data: published by the studies, not measured here",
            SourceKind::Computed => "computed from the protocols' rules, not measured",
        }
    }
}

impl Source {
    /// Opens one, or each study of a folder that `suite all` has written: every study is a source of its own, since they may be
    /// of several machines.
    pub fn open_all(path: &Path) -> io::Result<Vec<Source>> {
        if !report::is_of(path, "all") {
            return Source::open(path).map(|source| vec![source]);
        }
        let folders = STUDIES
            .iter()
            .map(|study| path.join(study))
            .filter(|folder| folder.join("run.json").exists());
        let sources: Vec<Source> = folders
            .map(|folder| Source::open(&folder))
            .collect::<io::Result<_>>()?;
        match sources.is_empty() {
            true => Err(io::Error::other(format!(
                "{}: it has none of {}",
                path.display(),
                STUDIES.join(", ")
            ))),
            false => Ok(sources),
        }
    }

    pub fn open(path: &Path) -> io::Result<Source> {
        if !path.exists() {
            match path.to_str() {
                Some("paper") => return Source::paper(),
                Some("expected") => return Source::expected(),
                _ => {}
            }
        }
        let about = fs::read(path.join("run.json"))
            .ok()
            .and_then(|it| serde_json::from_slice::<Value>(&it).ok());
        let of = |suite: &str| about.as_ref().filter(|it| it["suite"] == suite);
        if let Some(about) = of("E5") {
            let text = fs::read_to_string(path.join("trials.csv")).map_err(|error| {
                io::Error::new(
                    error.kind(),
                    format!("{}/trials.csv: {error}", path.display()),
                )
            })?;
            return Ok(Source::measured(path, about, e5(&text)));
        }
        if let Some(about) = of("E2d") {
            let (trials, notes) = courses::trials(path, about)?;
            return Ok(Source {
                notes,
                ..Source::measured(path, about, trials)
            });
        }
        let results = results::read(path).map_err(|error| {
            io::Error::new(error.kind(), format!("{}: {error}", path.display()))
        })?;
        let (trials, notes) = match ceilings::is_of(&results.about) {
            true => ceilings::trials(&results.about, results.trials),
            false => (results.trials, Vec::new()),
        };
        Ok(Source {
            notes,
            ..Source::measured(path, &results.about, trials)
        })
    }

    /// The studies' numbers and orders.
    pub fn paper() -> io::Result<Source> {
        let trials = published::paper().map_err(io::Error::other)?;
        let orders = published::orders().map_err(io::Error::other)?;
        Ok(Source {
            orders,
            ..Source::committed(
                "paper",
                SourceKind::Published,
                "the studies' machines, one per study",
                trials,
            )
        })
    }

    pub fn expected() -> io::Result<Source> {
        let trials = published::expected().map_err(io::Error::other)?;
        Ok(Source::committed(
            "expected",
            SourceKind::Computed,
            "none: arithmetic",
            trials,
        ))
    }

    fn committed(name: &str, kind: SourceKind, machine: &str, trials: Vec<(Cell, Row)>) -> Source {
        Source {
            name: name.to_owned(),
            kind,
            machine: machine.to_owned(),
            finished_unix_s: None,
            trials,
            orders: Vec::new(),
            notes: Vec::new(),
        }
    }

    fn measured(path: &Path, about: &Value, trials: Vec<(Cell, Row)>) -> Source {
        Source {
            name: path.display().to_string(),
            kind: SourceKind::Measured,
            machine: machine(about),
            finished_unix_s: ["finished_unix_s", "started_unix_s"]
                .into_iter()
                .find_map(|key| about[key].as_u64()),
            trials,
            orders: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// The same without its trials.
    pub fn about(&self) -> About {
        let valid = self
            .trials
            .iter()
            .filter(|(_, row)| row.standing == Standing::Valid)
            .count();
        About {
            name: self.name.clone(),
            kind: self.kind,
            machine: self.machine.clone(),
            finished_unix_s: self.finished_unix_s,
            valid,
            not_valid: self.trials.len() - valid,
            notes: self.notes.clone(),
        }
    }
}

/// The folders that `suite all` writes.
const STUDIES: [&str; 6] = ["E1", "E2", "E2d", "E3", "E4", "E5"];

/// The letter of the study that a published cell is of; empty for ours.
pub fn study_of(cell: &Cell) -> &str {
    match cell.experiment.split_once(' ') {
        Some((study, "stated" | "recovered" | "derived")) => study,
        _ => "",
    }
}

fn machine(about: &Value) -> String {
    let about = if about["machine"].is_object() {
        &about["machine"]
    } else {
        about
    };
    let cores = about["cores"].as_u64().map(|it| format!("{it} cores"));
    let words = |key: &str| about[key].as_str().map(str::to_owned);
    let parts: Vec<String> = [words("cpu"), cores, words("kernel")]
        .into_iter()
        .flatten()
        .collect();
    if parts.is_empty() {
        "a machine that is not told".to_owned()
    } else {
        parts.join(", ")
    }
}

/// The thesis's scenarios and how uneven members may be: groups of E5, as `trials.csv` has them. Waits are latencies.
fn e5(text: &str) -> Vec<(Cell, Row)> {
    let mut lines = text.lines();
    let head: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    lines
        .filter_map(|line| e5_trial(&head.iter().copied().zip(line.split(',')).collect()))
        .collect()
}

fn e5_trial(fields: &BTreeMap<&str, &str>) -> Option<(Cell, Row)> {
    let text = |name: &str| fields.get(name).copied();
    let number = |name: &str| text(name)?.parse::<f64>().ok();
    // Sweeps have something else that is different, which a query does not ask for.
    if text("part")? != "core" {
        return None;
    }
    let period_ms = number("period_ms").filter(|it| *it > 0.0)?;
    let leg = Leg {
        protocol: Protocol::Mqtt,
        qos: number("qos")? as u8,
        version: 5,
        window: 20,
    };
    let axes = [
        ("members", text("service_ms")?.replace(';', "/")),
        ("strategy", text("variant")?.to_owned()),
    ];
    let cell = Cell {
        experiment: "E5".to_owned(),
        axes: axes
            .map(|(name, value)| (name.to_owned(), value))
            .into_iter()
            .collect(),
        repeat: number("repeat")? as u32,
        seed: number("seed")? as u64,
        system: "thalweg".to_owned(),
        publish: leg,
        subscribe: leg,
        workload: Workload::Fixed { bytes: 100 },
        load: Load::Open {
            rate: 1000.0 / period_ms,
            flows: 1,
            arrivals: "periodic".to_owned(),
        },
        ..blank_cell()
    };
    let (delivered, lost) = (number("delivered")? as u64, number("lost")? as u64);
    let wait = number("wait_mean_ms")? * 1e3;
    let standing = match text("verdict")? {
        "valid" => Standing::Valid,
        verdict => Standing::Invalid(format!("{verdict}: {}", text("why").unwrap_or_default())),
    };
    let unknown = f64::NAN;
    let response = Quantiles {
        count: delivered,
        mean: wait,
        sd: unknown,
        p50: unknown,
        p90: unknown,
        p99: unknown,
        p999: unknown,
        max: unknown,
    };
    Some((
        cell,
        Row {
            standing,
            delivered,
            lost,
            expected: delivered + lost,
            response,
            ..Row::blank(Standing::Valid)
        },
    ))
}

#[cfg(test)]
mod tests {
    use super::super::axes::{Axis, Point};
    use super::super::choice::Choice;
    use super::*;

    #[test]
    fn a_trial_of_e5_is_a_choice_of_a_strategy() {
        let text = "trial,part,scenario,variant,repeat,seed,qos,period_ms,service_ms,verdict,why,delivered,lost,wait_mean_ms\n\
            7,core,S2,adaptive+qos1,7,107,1,10.44,25;25;50,valid,,1436,0,7.059\n\
            8,core,S2,random,7,107,0,10.44,25;25;50,generator-limited,late,1436,0,1400\n\
            9,sweeps,S2,random,7,107,0,10.44,25;25;50,valid,,1436,0,1400\n";
        let trials = e5(text);
        assert_eq!(trials.len(), 2);
        let (cell, row) = &trials[0];
        assert_eq!(Choice::of(cell).strategy(), Some("adaptive+qos1"));
        let point = Point::of(cell, row).expect("it has a place");
        assert_eq!(
            (
                point.on(Axis::Unevenness),
                point.on(Axis::Members),
                row.response.mean
            ),
            (2.0, 3.0, 7059.0)
        );
        assert!(matches!(&trials[1].1.standing, Standing::Invalid(why) if why.contains("late")));
    }

    #[test]
    fn committed_numbers_can_be_read() {
        let paper = Source::paper().expect("it is in the program");
        assert!(
            paper.trials.len() > 150 && paper.orders.len() == 12,
            "{} {}",
            paper.trials.len(),
            paper.orders.len()
        );
        // Erratum 7: a publisher that stopped offering the load has no latency at it.
        assert_eq!(paper.about().not_valid, 6);
        assert_eq!(
            Source::expected()
                .expect("it is in the program")
                .trials
                .len(),
            45 + 10 + 8 + 24
        );
    }
}
