//! The page of `suite all`: what came of every study on one page, and its drawings. Each study keeps its own folder.

use std::fs;
use std::io;
use std::path::Path;

use serde_json::Value;

use super::junit::Case;
use super::{Part, input, lead, page, write};
use crate::report::document::Document;
use crate::report::{self, Found};
use crate::results::has_trials;
use crate::studies::Study;

/// Whether a folder has a folder for each study.
pub fn is_of(folder: &Path) -> bool {
    report::is_of(folder, "all")
}

/// Renders all of it anew.
pub fn render(folder: &Path) -> io::Result<Found> {
    let about: Value = serde_json::from_str(&fs::read_to_string(folder.join("run.json"))?)
        .map_err(io::Error::other)?;
    let mut parts = Vec::new();
    for study in Study::ALL {
        let there = folder.join(study.name());
        if has_trials(&there) {
            super::render(&there)?;
            parts.push((study, Part::read(&there)?));
        }
    }
    let word = |key: &str| input::word(&about, key);
    let borrowed: Vec<&Part> = parts.iter().map(|(_, part)| part).collect();
    let mut cases: Vec<Case> = borrowed.iter().flat_map(|part| part.cases()).collect();
    let mut document = Document {
        title: "The studies, again".to_owned(),
        ..Document::default()
    };
    document.tiles(lead::tiles(&parts));
    if let Some((figure, svg)) = lead::drawing(&parts) {
        document.chart(svg, figure.caption.clone(), "");
    }
    document.contents();
    let studies = Study::ALL.map(Study::name).into_iter();
    let studies = studies.filter(|study| folder.join(study).is_dir());
    let links = studies.map(|study| (study, format!("{study}/summary.md")));
    let others = [
        ("verdicts for programs", "shapes.json"),
        ("JUnit", "junit.xml"),
        ("plain text", "summary.md"),
    ];
    document.links(links.chain(others.map(|(words, place)| (words, place.to_owned()))));
    document.text(format!(
        "{}; {} with {} cores, kernel {}. All together took {} s.",
        page::program(&about),
        word("cpu"),
        word("cores"),
        word("kernel"),
        about["lasted_s"]
            .as_f64()
            .map_or("?".to_owned(), |seconds| format!("{seconds:.0}")),
    ));
    page::verdicts(&mut document);
    page::shapes(&borrowed, &mut document);
    for study in about["failed"].as_array().into_iter().flatten() {
        let (name, why) = (
            study["suite"].as_str().unwrap_or("?"),
            study["why"].as_str().unwrap_or("?"),
        );
        document.text(format!("{name} could not be run: {why}"));
        cases.push(Case {
            suite: "suites".to_owned(),
            name: name.to_owned(),
            seconds: 0.0,
            end: Some(("error", why.to_owned())),
        });
    }
    for (study, part) in &parts {
        document.heading(study.title());
        page::about(&part.input, &mut document);
        page::body(part, &mut document);
        page::provenance(part, &folder.join(study.name()), &mut document);
    }
    document.heading("Again");
    document.text("Folders E1 to E5 and E2d beside this page have the raw files.");
    document.code(
        match about["budget"]
            .as_str()
            .is_some_and(|budget| budget.contains(' '))
        {
            false => format!(
                "thalweg bench suite all --budget {} --seed {}",
                word("budget"),
                word("seed")
            ),
            // Put together from runs of several budgets.
            true => {
                let of = |(study, part): &(Study, Part)| {
                    command_of(study.name(), &part.input.about, &about)
                };
                parts.iter().map(of).collect::<Vec<_>>().join("\n")
            }
        },
    );
    write(folder, &document, &about, &borrowed, cases)
}

/// How a study is measured again: by its own budget, since a page may be put together from runs of several.
fn command_of(study: &str, about: &Value, whole: &Value) -> String {
    let word = |key: &str| match about[key].is_null() {
        true => input::word(whole, key),
        false => input::word(about, key),
    };
    format!(
        "thalweg bench suite {study} --budget {} --seed {}",
        word("budget"),
        word("seed")
    )
}
