//! Reading a folder.

use std::fs;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

use flate2::read::GzDecoder;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::writer::named;
use crate::cell::{Cell, Row};
use crate::load::verdict;

/// A folder of results.
#[derive(Clone, Debug)]
pub struct Results {
    /// `run.json`
    pub about: Value,
    /// Cells and what came of them, in the order they were measured.
    pub trials: Vec<(Cell, Row)>,
}

/// Reads a folder. A last line that a killed run left unfinished is passed over; any other that is no trial is an error.
pub fn read(folder: &Path) -> io::Result<Results> {
    let about = text(folder, "run.json")?;
    let about = serde_json::from_str(&about)
        .map_err(|error| io::Error::other(format!("{}/run.json: {error}", folder.display())))?;
    Ok(Results {
        about,
        trials: trials(folder)?,
    })
}

/// A line of `cells.jsonl`.
#[derive(Debug, Serialize, Deserialize)]
pub struct TrialRecord {
    pub cell: Cell,
    /// What came of it.
    pub row: Row,
}

/// Whether a folder has `cells.jsonl`, compressed or not.
pub fn has_trials(folder: &Path) -> bool {
    ["cells.jsonl", "cells.jsonl.gz"]
        .iter()
        .any(|name| folder.join(name).exists())
}

/// What `cells.jsonl` has.
pub fn trials(folder: &Path) -> io::Result<Vec<(Cell, Row)>> {
    let text = text(folder, "cells.jsonl")?;
    let mut trials = Vec::new();
    for (number, line) in whole_lines(&text).enumerate() {
        let line: TrialRecord = serde_json::from_str(line).map_err(|error| {
            io::Error::other(format!(
                "{}/cells.jsonl: line {}: {error}",
                folder.display(),
                number + 1
            ))
        })?;
        let standing = verdict::of_stored(&line.cell, &line.row);
        trials.push((
            line.cell,
            Row {
                standing,
                ..line.row
            },
        ));
    }
    Ok(trials)
}

pub fn whole_lines(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive('\n')
        .filter_map(|line| line.strip_suffix('\n'))
}

fn text(folder: &Path, name: &str) -> io::Result<String> {
    let compressed = || {
        let file = fs::File::open(folder.join(format!("{name}.gz"))).ok()?;
        let mut bytes = Vec::new();
        Some(GzDecoder::new(file).read_to_end(&mut bytes).map(|_| bytes))
    };
    let bytes = match fs::read(folder.join(name)) {
        Err(error) if error.kind() == ErrorKind::NotFound => compressed().unwrap_or(Err(error)),
        read => read,
    };
    let bytes = bytes.map_err(named(&folder.join(name)))?;
    // A torn line may end within a character.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
