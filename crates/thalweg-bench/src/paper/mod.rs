//! The page of a folder of results: one file that needs nothing else, and beside it the same for people who read plain
//! text, for spreadsheets and for programs.
//!
//! *Knows:* files of results, statements of studies, how to draw. *Must never know:* how anything was measured.
//!
//! ```text
//!  run.json, cells.jsonl, latency/ ──> input ──> figures (chart, bars) ──┐
//!                                        └────> statements ────────────┴─> page ──> report.html, summary.md
//!                                                                                   figures/*.csv, junit.xml, shapes.json
//! ```

use std::fs;
use std::io;
use std::path::Path;

use serde_json::{Value, json};

use crate::cell::valid;
use crate::command::Outcome;
use crate::report::Found;
use crate::report::document::Document;
use crate::studies::Study;
use crate::studies::shape::Shape;
use figures::Figure;
use input::Input;
use junit::Case;

pub mod axis;
pub mod bars;
pub mod chart;
mod courses;
mod energies;
mod figures;
pub mod input;
mod junit;
mod lead;
mod members;
mod page;
pub mod svg;
mod swept;
mod whole;

/// Renders a folder anew from its raw files.
pub fn render(folder: &Path) -> io::Result<Found> {
    if whole::is_of(folder) {
        return whole::render(folder);
    }
    let part = Part::read(folder)?;
    let mut document = Document {
        title: part.title(),
        ..Document::default()
    };
    document.contents();
    page::about(&part.input, &mut document);
    if !part.shapes.is_empty() {
        page::verdicts(&mut document);
        page::shapes(&[&part], &mut document);
    }
    page::promises(&part.input, &mut document);
    page::body(&part, &mut document);
    page::provenance(&part, folder, &mut document);
    part.write_figures(folder)?;
    write(folder, &document, &part.input.about, &[&part], part.cases())
}

/// A folder of measured cells, read and judged.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) input: Input,
    /// The studies that its cells belong to; none for a scenario.
    pub(crate) studies: Vec<Study>,
    pub(crate) shapes: Vec<(Study, Shape)>,
    pub(crate) figures: Vec<Figure>,
}

impl Part {
    pub(crate) fn read(folder: &Path) -> io::Result<Part> {
        Ok(Part::of(input::read(folder)?))
    }

    pub(crate) fn of(input: Input) -> Part {
        let mut studies: Vec<Study> = Vec::new();
        for study in input.experiments().into_iter().filter_map(Study::of) {
            if !studies.contains(&study) {
                studies.push(study);
            }
        }
        let of = |study: &Study| {
            let shapes = study.shapes(&input.groups, &input.trials);
            let study = *study;
            shapes.into_iter().map(move |shape| (study, shape))
        };
        let shapes = studies.iter().flat_map(of).collect();
        let figures = figures::all(&input);
        Part {
            input,
            studies,
            shapes,
            figures,
        }
    }

    fn title(&self) -> String {
        match (self.studies.as_slice(), self.input.about["name"].as_str()) {
            ([one], _) => one.title().to_owned(),
            (_, Some(name)) => format!("{name}: what was measured"),
            (_, None) => "What was measured".to_owned(),
        }
    }

    pub(crate) fn cases(&self) -> Vec<Case> {
        let mut cases = Vec::new();
        for (study, shape) in &self.shapes {
            for (column, found) in [("ours", &shape.ours), ("baseline", &shape.baseline)] {
                let (suite, name) = (study.name(), format!("{} {column}", shape.id));
                cases.push(Case::of_ruling(suite, name, &found.ruling));
            }
        }
        for (cell, row) in &self.input.trials {
            cases.push(Case::of_trial(cell, row));
        }
        cases
    }

    pub(crate) fn shapes_json(&self) -> Vec<Value> {
        let found = |found: &crate::studies::shape::Found| json!({ "figures": found.figures, "verdict": found.ruling.name(), "words": found.ruling.words() });
        let shape = |(study, shape): &(Study, Shape)| {
            json!({
                "study": study.name(), "id": shape.id, "statement": shape.what, "paper": shape.paper,
                "baseline": found(&shape.baseline), "ours": found(&shape.ours),
            })
        };
        self.shapes.iter().map(shape).collect()
    }

    /// Exactly what is drawn, as tables. Those of an earlier page are removed, unless they are all that is left of it.
    pub(crate) fn write_figures(&self, folder: &Path) -> io::Result<()> {
        let folder = folder.join("figures");
        if self.input.drawn.is_empty() {
            match fs::remove_dir_all(&folder) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        fs::create_dir_all(&folder)?;
        for figure in &self.figures {
            let file = folder.join(format!("{}.csv", figure.file));
            fs::write(file, &figure.csv)?;
        }
        Ok(())
    }
}

/// Writes the page of these parts and what is beside it.
fn write(
    folder: &Path,
    document: &Document,
    about: &Value,
    parts: &[&Part],
    cases: Vec<Case>,
) -> io::Result<Found> {
    let shapes: Vec<Value> = parts.iter().flat_map(|part| part.shapes_json()).collect();
    let json = json!({ "about": about, "shapes": shapes });
    let shapes = format!("{}\n", serde_json::to_string_pretty(&json)?);
    for (name, text) in [
        ("summary.md", document.markdown()),
        ("report.html", document.html()),
        ("junit.xml", junit::xml(&cases)),
        ("shapes.json", shapes),
    ] {
        fs::write(folder.join(name), text)?;
    }
    Ok(Found {
        summary: document.brief(),
        json,
        outcome: outcome(parts),
    })
}

/// Nothing counts: invalid; a statement about ours did not come out: that; else done.
fn outcome(parts: &[&Part]) -> Outcome {
    let counts = |part: &&Part| valid(&part.input.trials).next().is_some();
    let fails = |part: &&Part| part.shapes.iter().any(|(_, shape)| shape.failed());
    let is_empty = parts.is_empty();
    match (
        is_empty || parts.iter().any(counts),
        parts.iter().any(fails),
    ) {
        (false, _) => Outcome::Invalid,
        (true, true) => Outcome::ShapeFailed,
        (true, false) => Outcome::Done,
    }
}

#[cfg(test)]
mod tests;
