//! Where measurements come from: folders of results and of a search for saturation, and the two files of
//! published and computed numbers.

use std::collections::HashSet;
use std::io;
use std::path::Path;

use serde_json::Value;

use super::ceilings;
use super::published::{self, Order};
use crate::cell::{Cell, Quantiles, Row};
use crate::e2d::plan::{ADAPTIVE, STEP, step_of};
use crate::e5::plan::is_of;
use crate::studies::Study;
use crate::studies::plan::Part;
use crate::{report, results};

#[derive(Clone, Debug)]
pub struct Source {
    pub about: About,
    /// Trials, those that do not count as well.
    pub trials: Vec<(Cell, Row)>,
    pub orders: Vec<Order>,
}

/// A source without its trials.
#[derive(Clone, Debug, PartialEq)]
pub struct About {
    /// The folder, or `paper`, `expected`.
    pub name: String,
    /// What kind of numbers these are.
    pub kind: SourceKind,
    /// Machine and kernel in a line.
    pub machine: String,
    /// When it was finished, in seconds since 1970.
    pub finished_unix_s: Option<u64>,
    /// What has to be known of it.
    pub notes: Vec<String>,
}

/// Trials, and what has to be known of them.
pub type TrialsAndNotes = (Vec<(Cell, Row)>, Vec<String>);

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
        let studies = Study::ALL.map(Study::name);
        let folders = studies.iter().map(|study| path.join(study));
        let sources: Vec<Source> = folders
            .filter(|folder| folder.join("run.json").exists())
            .map(|folder| Source::open(&folder))
            .collect::<io::Result<_>>()?;
        if sources.is_empty() {
            let why = format!("{}: it has none of {}", path.display(), studies.join(", "));
            return Err(io::Error::other(why));
        }
        Ok(sources)
    }

    pub fn open(path: &Path) -> io::Result<Source> {
        match path.to_str().filter(|_| !path.exists()) {
            Some("paper") => return Ok(Source::paper()),
            Some("expected") => return Ok(Source::expected()),
            _ => {}
        }
        let results = results::read(path).map_err(|error| {
            io::Error::new(error.kind(), format!("{}: {error}", path.display()))
        })?;
        let about = &results.about;
        let (trials, notes) = match ceilings::is_of(about) {
            true => ceilings::trials(about, results.trials),
            false => (courses(strategies(results.trials)), Vec::new()),
        };
        let name = path.display().to_string();
        let mut source = Source::new(&name, SourceKind::Measured, &machine(about), trials);
        let finished = about["finished_unix_s"].as_u64();
        source.about.finished_unix_s = finished.or(about["started_unix_s"].as_u64());
        source.about.notes = notes;
        Ok(source)
    }

    /// The studies' numbers and orders.
    pub fn paper() -> Source {
        let machine = "the studies' machines, one per study";
        let source = Source::new("paper", SourceKind::Published, machine, published::paper());
        let orders = published::orders();
        Source { orders, ..source }
    }

    pub fn expected() -> Source {
        let (kind, machine) = (SourceKind::Computed, "none: arithmetic");
        Source::new("expected", kind, machine, published::expected())
    }

    /// One of which nothing but its trials is known.
    pub fn new(name: &str, kind: SourceKind, machine: &str, trials: Vec<(Cell, Row)>) -> Source {
        Source {
            about: About {
                name: name.to_owned(),
                kind,
                machine: machine.to_owned(),
                finished_unix_s: None,
                notes: Vec::new(),
            },
            trials,
            orders: Vec::new(),
        }
    }
}

/// The letter of the study that a published cell is of; empty for ours.
pub fn study_of(cell: &Cell) -> &str {
    match cell.experiment.split_once(' ') {
        Some((study, "stated" | "recovered" | "derived")) => study,
        _ => "",
    }
}

fn machine(about: &Value) -> String {
    let machine = Some(&about["machine"]).filter(|it| it.is_object());
    let about = machine.unwrap_or(about);
    let cores = about["cores"].as_u64().map(|it| format!("{it} cores"));
    let words = |key: &str| about[key].as_str().map(str::to_owned);
    let parts = [words("cpu"), cores, words("kernel")];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    match parts.is_empty() {
        true => "a machine that is not told".to_owned(),
        false => parts.join(", "),
    }
}

/// Of the groups of E5 only the thesis's scenarios, each a choice of a strategy: sweeps have something else that is
/// different, which a query does not ask for.
fn strategies(mut trials: Vec<(Cell, Row)>) -> Vec<(Cell, Row)> {
    trials.retain(|(cell, _)| cell.experiment != "E5" || is_of(cell, Part::Core));
    for (cell, row) in trials.iter_mut().filter(|it| it.0.experiment == "E5") {
        cell.axes
            .retain(|name, _| ["members", "strategy"].contains(&name.as_str()));
        // Folders of before have the mean and no distribution.
        if let (0, Some(wait)) = (row.response.count, row.more.get("wait_mean_ms")) {
            row.response = Quantiles {
                count: row.delivered,
                mean: wait * 1e3,
                ..Quantiles::UNKNOWN
            };
        }
    }
    trials
}

/// Of the steps of E2d the first with each loss: what comes twice in a course, as 0 % at its beginning and its end, is not
/// independent. Each is a choice of a protocol, or of a client that chooses by itself.
fn courses(mut trials: Vec<(Cell, Row)>) -> Vec<(Cell, Row)> {
    let mut seen = HashSet::new();
    trials.sort_by_key(|(cell, _)| step_of(cell));
    trials.retain_mut(|(cell, _)| {
        if cell.experiment != "E2d" {
            return true;
        }
        cell.axes.remove(STEP);
        let is_first = seen.insert(cell.key());
        cell.axes.retain(|name, _| name == ADAPTIVE);
        is_first
    });
    trials
}

#[cfg(test)]
mod tests {
    use super::super::axes::{Axis, Point};
    use super::super::choice::Choice;
    use super::*;
    use crate::cell::{Standing, valid};
    use crate::studies::plan::Budget;

    #[test]
    fn a_trial_of_e5_is_a_choice_of_a_strategy() {
        let row = Row {
            delivered: 1436,
            more: [("wait_mean_ms".to_owned(), 7.059)].into(),
            ..Row::blank(Standing::Valid)
        };
        let cells = Study::E5.cells(Budget::Quick, 1);
        let trials = strategies(cells.into_iter().map(|cell| (cell, row.clone())).collect());
        let is_it = |cell: &Cell| Choice::of(cell).strategy() == Some("adaptive+qos1");
        let found = trials
            .iter()
            .find(|(cell, _)| is_it(cell) && cell.axes["members"] == "25/25/50");
        let (cell, row) = found.expect("it is one of the thesis's");
        assert_eq!(Choice::of(cell).variant.len(), 1, "sweeps are left out");
        let point = Point::of(cell, row).expect("it has a place");
        assert_eq!(
            (
                point.on(Axis::Unevenness),
                point.on(Axis::Members),
                row.response.mean
            ),
            (2.0, 3.0, 7059.0)
        );
    }

    #[test]
    fn a_step_of_e2d_is_a_choice_of_a_protocol_at_its_loss() {
        let row = Row::blank(Standing::Valid);
        let cells = Study::E2d.cells(Budget::Quick, 1);
        let trials = courses(cells.into_iter().map(|cell| (cell, row.clone())).collect());
        let of = |name: &str| {
            let mine = trials.iter().filter(|it| Choice::of(&it.0).name() == name);
            let mut losses: Vec<f64> = mine.map(|it| it.0.link.loss).collect();
            losses.sort_by(f64::total_cmp);
            losses
        };
        // 0 % comes twice in a course.
        for name in [
            "MQTT QoS 1 (thalweg)",
            "CoAP CON (thalweg)",
            "our client, choosing MQTT or CoAP for bytes (thalweg)",
            "our client, choosing MQTT or CoAP for latency (thalweg)",
        ] {
            assert_eq!(of(name), [0.0, 0.05, 0.2, 0.25], "{name}");
        }
    }

    #[test]
    fn committed_numbers_can_be_read() {
        let paper = Source::paper();
        assert!(
            paper.trials.len() > 150 && paper.orders.len() == 12,
            "{} {}",
            paper.trials.len(),
            paper.orders.len()
        );
        // Erratum 7: a publisher that stopped offering the load has no latency at it.
        let count = valid(&paper.trials).count();
        assert_eq!(paper.trials.len() - count, 6);
        let expected = Source::expected();
        assert_eq!(expected.trials.len(), 45 + 10 + 8 + 24);
    }
}
