//! What reports are made of: documents of text, tables and drawings, and means with their intervals.
//!
//! *Knows:* tables, HTML, Markdown. *Must never know:* what is reported.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use serde_json::Value;

use crate::command::Outcome;

pub mod document;
pub mod stat;

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

impl Found {
    /// Prints it, as text or as JSON.
    pub fn print(&self, as_json: bool, out: &mut dyn Write) -> io::Result<()> {
        match as_json {
            true => writeln!(out, "{}", serde_json::to_string_pretty(&self.json)?),
            false => out.write_all(self.summary.as_bytes()),
        }
    }
}

/// Whether a folder is of that suite, as far as can be seen.
pub fn is_of(folder: &Path, suite: &str) -> bool {
    let about = fs::read_to_string(folder.join("run.json"))
        .ok()
        .and_then(|text| serde_json::from_str::<Value>(&text).ok());
    about.is_some_and(|about| about["suite"] == suite)
}
