//! The figures of a folder in a table, for a terminal.

use std::io;
use std::path::Path;

use serde_json::{Value, json};

use super::metric::{Metric, metric};
use super::{calls, read};
use crate::cell::{Cell, Row, Standing};
use crate::report::document::Table;
use crate::stats::median;

/// Medians over the repeats of each point, in Markdown, and the same for programs.
pub fn render(folder: &Path) -> io::Result<(String, Value)> {
    let found = read(folder)?;
    let name = found.about["name"].as_str().unwrap_or("results").to_owned();
    let (points, others) = points(&found.trials);
    let is_asked = found.trials.iter().any(|(cell, _)| cell.calls.is_some());
    let names = COLUMNS.iter().chain(is_asked.then_some(&CALLS));
    let columns: Vec<&Metric> = names.filter_map(|name| metric(name)).collect();
    let heads = columns.iter().map(|metric| metric.name);
    let mut table = Table::new(&["point", "n"].into_iter().chain(heads).collect::<Vec<_>>());
    let mut json = json!({ "name": name, "points": [] });
    for (point, cell, rows) in &points {
        let value = |metric: &Metric| {
            let values = rows.iter().filter_map(|row| (metric.of)(cell, row));
            median(&values.collect::<Vec<f64>>())
        };
        let written = |metric: &&Metric| {
            value(metric).map_or_else(|| "-".to_owned(), |value| metric.unit.written(value))
        };
        let lead = [point.clone(), rows.len().to_string()].into_iter();
        table.row(lead.chain(columns.iter().map(written)));
        let figures: Value = columns
            .iter()
            .map(|metric| (metric.name.to_owned(), json!(value(metric))))
            .collect();
        if let Some(list) = json["points"].as_array_mut() {
            list.push(json!({ "axes": cell.axes, "system": cell.system, "trials": rows.len(), "median": figures }));
        }
    }
    let mut text = format!("# {name}\n\n{}", table.markdown());
    let said = calls::said(found.trials.iter().map(|(cell, row)| (cell, row)));
    text.extend(said.iter().map(|words| format!("\n{words}\n")));
    if !others.is_empty() {
        text += "\nThese do not count:\n\n";
        for (cell, row) in &others {
            let (word, why) = (row.standing.word(), row.standing.why());
            text += &format!("- {}: {word}: {why}\n", cell.key());
        }
    }
    Ok((text, json))
}

/// A point: its name, a cell of it, its rows.
type Point<'a> = (String, &'a Cell, Vec<&'a Row>);

/// Points in the order of their names, and trials that do not count.
fn points(trials: &[(Cell, Row)]) -> (Vec<Point<'_>>, Vec<&(Cell, Row)>) {
    let mut points: Vec<Point<'_>> = Vec::new();
    let mut others = Vec::new();
    for trial in trials {
        let (cell, row) = trial;
        if row.standing != Standing::Valid {
            others.push(trial);
            continue;
        }
        let name = match cell.point() {
            axes if axes.is_empty() => "all".to_owned(),
            axes => axes,
        };
        match points.iter_mut().find(|(other, ..)| *other == name) {
            Some((.., rows)) => rows.push(row),
            None => points.push((name, cell, vec![row])),
        }
    }
    points.sort_by(|one, other| one.0.cmp(&other.0));
    (points, others)
}

/// If they were to be counted.
const CALLS: &str = "calls_per_msg";
/// What fits on a line.
const COLUMNS: [&str; 9] = [
    "achieved",
    "delivered",
    "delivery",
    "p50",
    "p99",
    "bytes_per_msg",
    "cpu_broker",
    "rss",
    "lost",
];
