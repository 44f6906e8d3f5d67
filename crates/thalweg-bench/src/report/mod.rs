//! What a run leaves behind: raw files first, then everything that can be rendered from them again.
//!
//! *Knows:* files, statistics, tables, drawings. *Must never know:* how anything was measured.
//!
//! ```text
//!  run.json, trials.csv, messages.csv ──> findings ──> document ──> summary.md, report.html, findings.json
//! ```

use std::fs;
use std::io;
use std::path::Path;

use serde_json::Value;

use crate::command::Outcome;
use trial::Verdict;

pub mod document;
pub(crate) mod drawings;
pub mod groups;
mod page;
pub mod raw;
pub mod study;
pub mod trial;

/// What a report says.
#[derive(Clone, Debug)]
pub struct Found {
    /// `summary.md`
    pub summary: String,
    /// The same for programs.
    pub json: Value,
    /// What the exit code should be.
    pub outcome: Outcome,
}

/// Whether a folder is of that suite, as far as can be seen.
pub fn is_of(folder: &Path, suite: &str) -> bool {
    let about = fs::read_to_string(folder.join("run.json"))
        .ok()
        .and_then(|text| serde_json::from_str::<Value>(&text).ok());
    about.is_some_and(|about| about["suite"] == suite)
}

/// What was found in a folder whose messages were not kept: its files stay as they are.
fn kept(folder: &Path) -> io::Result<Option<Value>> {
    if folder.join("messages.csv").exists() || !folder.join("findings.json").exists() {
        return Ok(None);
    }
    let text = fs::read_to_string(folder.join("findings.json"))?;
    serde_json::from_str(&text)
        .map(Some)
        .map_err(io::Error::other)
}

/// The verdicts of a folder, and the trials that they rest on, if those were kept.
pub fn checks(folder: &Path) -> io::Result<(Vec<study::Check>, Option<raw::Run>)> {
    match kept(folder)? {
        Some(found) => Ok((study::stored(&found), None)),
        None => {
            let run = raw::read(folder)?;
            Ok((study::checks(&groups::Groups::of(&run.trials)), Some(run)))
        }
    }
}

/// Renders a folder anew from its raw files.
pub fn render(folder: &Path) -> io::Result<Found> {
    if let Some(json) = kept(folder)? {
        let failed = study::stored(&json)
            .iter()
            .any(|check| matches!(check.ruling, study::Ruling::Not(_)));
        let outcome = if failed {
            Outcome::ShapeFailed
        } else {
            Outcome::Done
        };
        return Ok(Found {
            summary: fs::read_to_string(folder.join("summary.md"))?,
            json,
            outcome,
        });
    }
    let run = raw::read(folder)?;
    let found = page::findings(&run);
    let summary = found.document.markdown();
    fs::write(folder.join("summary.md"), &summary)?;
    fs::write(folder.join("report.html"), found.document.html())?;
    fs::write(
        folder.join("findings.json"),
        format!("{}\n", serde_json::to_string_pretty(&found.json)?),
    )?;
    let failed = found
        .checks
        .iter()
        .any(|check| matches!(check.ruling, study::Ruling::Not(_)))
        || found.rows.iter().any(|row| !row.is_held());
    let outcome = match (
        run.trials
            .iter()
            .any(|trial| trial.verdict == Verdict::Valid),
        failed,
    ) {
        (false, _) => Outcome::Invalid,
        (true, true) => Outcome::ShapeFailed,
        (true, false) => Outcome::Done,
    };
    Ok(Found {
        summary,
        json: found.json,
        outcome,
    })
}
