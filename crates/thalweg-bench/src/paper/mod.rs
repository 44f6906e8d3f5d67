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
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::cell::Standing;
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
    let cases = part.cases();
    let json = json!({ "about": part.input.about, "shapes": part.shapes_json() });
    write(folder, &document, &cases, &json)?;
    part.write_figures(folder)?;
    Ok(Found {
        summary: document.brief(),
        json,
        outcome: outcome(&[&part]),
    })
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
        let shapes = studies
            .iter()
            .flat_map(|study| {
                study
                    .shapes(&input.groups, &input.trials)
                    .into_iter()
                    .map(move |shape| (*study, shape))
            })
            .collect();
        let figures = figures::all(&input);
        Part {
            input,
            studies,
            shapes,
            figures,
        }
    }

    fn title(&self) -> String {
        match self.studies.as_slice() {
            [one] => one.title().to_owned(),
            _ => match self.input.about["name"].as_str() {
                Some(name) => format!("{name}: what was measured"),
                None => "What was measured".to_owned(),
            },
        }
    }

    pub(crate) fn cases(&self) -> Vec<Case> {
        let mut cases = Vec::new();
        for (study, shape) in &self.shapes {
            for (column, found) in [("ours", &shape.ours), ("baseline", &shape.baseline)] {
                cases.push(Case::of_ruling(
                    &format!("{} shapes", study.name()),
                    format!("{} {column}", shape.id),
                    &found.ruling,
                ));
            }
        }
        for (cell, row) in &self.input.trials {
            cases.push(Case::of_trial(
                &format!("{} trials", cell.experiment),
                cell,
                row,
            ));
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
            fs::write(
                folder.join(format!("{}.csv", figure.file)),
                figure.drawing.csv(),
            )?;
        }
        Ok(())
    }
}

fn write(folder: &Path, document: &Document, cases: &[Case], json: &Value) -> io::Result<()> {
    let file = |name: &str| -> PathBuf { folder.join(name) };
    fs::write(file("summary.md"), document.markdown())?;
    fs::write(file("report.html"), document.html())?;
    fs::write(file("junit.xml"), junit::xml(cases))?;
    fs::write(
        file("shapes.json"),
        format!("{}\n", serde_json::to_string_pretty(json)?),
    )
}

/// Nothing counts: invalid; a statement about ours did not come out: that; else done.
pub(crate) fn outcome(parts: &[&Part]) -> Outcome {
    let counts = |part: &&Part| {
        part.input
            .trials
            .iter()
            .any(|(_, row)| row.standing == Standing::Valid)
    };
    let fails = |part: &&Part| part.shapes.iter().any(|(_, shape)| shape.failed());
    match (parts.iter().any(counts), parts.iter().any(fails)) {
        (false, _) => Outcome::Invalid,
        (true, true) => Outcome::ShapeFailed,
        (true, false) => Outcome::Done,
    }
}

#[cfg(test)]
mod tests;
