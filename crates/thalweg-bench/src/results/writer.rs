//! Writing a folder.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use super::columns;
use super::latency;
use super::reader::{self, TrialRecord, whole_lines};
use super::unix_seconds;
use crate::cell::{Cell, Measured, Messages, Second};

/// A folder of results that is being written.
#[derive(Debug)]
pub struct Writer {
    folder: PathBuf,
    about: Value,
    measured: BTreeSet<String>,
    cells: Table,
    trials: Table,
    seconds: Table,
    resources: Table,
    events: Table,
}

/// A table that grows.
#[derive(Debug)]
struct Table {
    path: PathBuf,
    file: File,
}

impl Table {
    fn of(path: PathBuf) -> io::Result<Table> {
        let open = OpenOptions::new().append(true).open(&path);
        let file = open.map_err(named(&path))?;
        Ok(Table { path, file })
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes).map_err(named(&self.path))
    }
}

/// What went wrong with a file, with its path: `No space left on device` alone says nothing of which.
pub fn named(path: &Path) -> impl Fn(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

impl Writer {
    /// Begins a folder, or goes on in one (`resume`) in which an interrupted run has left something. `about` is best made by
    /// [`super::about()`]: its `scenario_hash` says what may be resumed.
    ///
    /// A folder that has results already is refused without `resume`, and one of another scenario always.
    pub fn open(folder: &Path, about: &Value, resume: bool) -> io::Result<Writer> {
        fs::create_dir_all(folder)?;
        let run_file = folder.join("run.json");
        let mut about = about.clone();
        let mut trials = Vec::new();
        if run_file.exists() {
            let before = fs::read_to_string(&run_file)?;
            let before: Value = serde_json::from_str(&before)
                .map_err(|error| io::Error::other(format!("{}: {error}", run_file.display())))?;
            if !resume {
                return Err(io::Error::other(format!(
                    "{} has results already: --resume goes on with them, or choose another folder",
                    folder.display()
                )));
            }
            if before["scenario_hash"] != about["scenario_hash"] {
                return Err(io::Error::other(format!(
                    "{} is of another scenario ({}, this one is {}): choose another folder",
                    folder.display(),
                    before["scenario_hash"],
                    about["scenario_hash"],
                )));
            }
            if reader::has_trials(folder) {
                trials = reader::trials(folder)?;
            }
            let mut earlier = before["resumed"].as_array().cloned().unwrap_or_default();
            earlier.push(json!({
                "resumed_unix_s": unix_seconds(), "trials_before": trials.len(),
                "version": about["version"], "commit": about["commit"], "command_line": about["command_line"],
            }));
            // What it began with stands; a later program of another version is told.
            about = before;
            about["resumed"] = json!(earlier);
        } else if folder.read_dir()?.next().is_some() {
            return Err(io::Error::other(format!(
                "{} is not empty and has no results",
                folder.display()
            )));
        }
        let measured: BTreeSet<String> = trials.iter().map(|(cell, _)| cell.key()).collect();
        let lines = trials.iter().map(|(cell, row)| line_of(cell, row));
        let lines = lines.collect::<io::Result<Vec<_>>>()?;
        let table = trials.iter().map(|(cell, row)| columns::line(cell, row));
        let table = table.collect::<Vec<_>>();
        // All tables are written anew: whatever belongs to a trial that did not end is dropped.
        let cells = begin(folder, "cells.jsonl", None, lines)?;
        let trials = begin(folder, "trials.csv", Some(&columns::head()), table)?;
        let is_known = |line: &str| {
            let key = line.split(',').next();
            key.is_some_and(|key| measured.contains(key))
        };
        let known = |name: &str| kept(folder, name, is_known);
        let again = |name, head| begin(folder, name, Some(head), known(name)?);
        let seconds = again("timeseries.csv", SECONDS_HEAD)?;
        let resources = again("resources.csv", RESOURCES_HEAD)?;
        let events = kept(folder, "events.jsonl", |line| {
            let event = serde_json::from_str::<Value>(line).unwrap_or_default();
            // Those without a key are of the run.
            let key = event["key"].as_str();
            event["what"].is_string() && key.is_none_or(|key| measured.contains(key))
        })?;
        let events = begin(folder, "events.jsonl", None, events)?;
        // Only some studies have it.
        if folder.join(MESSAGES).exists() {
            let head = fs::read_to_string(folder.join(MESSAGES))?;
            again(MESSAGES, head.lines().next().unwrap_or_default())?;
        }
        fs::create_dir_all(folder.join("latency"))?;
        replace(&folder.join("columns.md"), columns::described().as_bytes())?;
        let folder = folder.to_owned();
        let mut writer = Writer {
            folder,
            about,
            measured,
            cells,
            trials,
            seconds,
            resources,
            events,
        };
        writer.write_about()?;
        Ok(writer)
    }

    /// Whether this cell has been measured already.
    pub fn has(&self, cell: &Cell) -> bool {
        self.measured.contains(&cell.key())
    }

    /// Writes a trial: when this returns, a process that is killed leaves it whole.
    pub fn write(&mut self, cell: &Cell, measured: &Measured) -> io::Result<()> {
        let key = cell.key();
        if self.measured.contains(&key) {
            return Err(io::Error::other(format!(
                "{key} has been written already: two cells differ in nothing but settings"
            )));
        }
        let lasted = Duration::try_from_secs_f64(measured.row.seconds).unwrap_or_default();
        let latencies = [&measured.response, &measured.service];
        latency::write(&self.folder, &key, lasted, latencies)
            .map_err(named(&self.folder.join("latency")))?;
        self.seconds
            .append(seconds(&key, &measured.seconds).as_bytes())?;
        self.resources
            .append(resources(&key, &measured.seconds).as_bytes())?;
        self.write_messages(&key, &measured.messages)?;
        let mut events = String::new();
        let mut systems = false;
        for (at, what) in &measured.events {
            events += &format!(
                "{}\n",
                json!({ "key": key, "at_s": *at as f64 / 1e9, "what": what })
            );
            if let Some((name, version)) = what
                .strip_prefix("broker ")
                .and_then(|rest| rest.split_once(": "))
            {
                systems |= self.about["systems"][name] != version;
                self.about["systems"][name] = json!(version);
            }
        }
        self.events.append(events.as_bytes())?;
        self.trials
            .append(format!("{}\n", columns::line(cell, &measured.row)).as_bytes())?;
        self.cells
            .append(format!("{}\n", line_of(cell, &measured.row)?).as_bytes())?;
        self.measured.insert(key);
        if systems { self.write_about() } else { Ok(()) }
    }

    fn write_messages(&self, key: &str, messages: &Messages) -> io::Result<()> {
        if messages.lines.is_empty() {
            return Ok(());
        }
        let mut table = match self.folder.join(MESSAGES) {
            path if path.exists() => Table::of(path)?,
            _ => {
                let head = format!("key,seq,{}", messages.head);
                begin(&self.folder, MESSAGES, Some(&head), Vec::new())?
            }
        };
        let mut text = String::new();
        for (number, line) in messages.lines.iter().enumerate() {
            text += &format!("{key},{number},{line}\n");
        }
        table.append(text.as_bytes())
    }

    /// Notes what is of no trial: a warning, an interruption.
    pub fn note(&mut self, what: &str) -> io::Result<()> {
        let line = json!({ "key": null, "at_unix_s": unix_seconds(), "what": what });
        self.events.append(format!("{line}\n").as_bytes())
    }

    /// Adds to `run.json`; the end of a run is written by [`Writer::finish`].
    pub fn set(&mut self, key: &str, value: Value) -> io::Result<()> {
        self.about[key] = value;
        self.write_about()
    }

    /// Writes when it ended, and whether it was interrupted.
    pub fn finish(&mut self, interrupted: bool) -> io::Result<()> {
        self.about["finished_unix_s"] = json!(unix_seconds());
        self.about["interrupted"] = json!(interrupted);
        self.about["trials"] = json!(self.measured.len());
        self.write_about()
    }

    fn write_about(&mut self) -> io::Result<()> {
        let text = format!("{}\n", serde_json::to_string_pretty(&self.about)?);
        replace(&self.folder.join("run.json"), text.as_bytes())
    }
}

/// Writes a file beside the one that is there and renames it: a reader sees one or the other.
pub fn replace(file: &Path, text: &[u8]) -> io::Result<()> {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let beside = file.with_file_name(name);
    fs::write(&beside, text).map_err(named(&beside))?;
    fs::rename(&beside, file).map_err(named(file))
}

fn line_of(cell: &Cell, row: &crate::cell::Row) -> io::Result<String> {
    Ok(serde_json::to_string(&TrialRecord {
        cell: cell.clone(),
        row: row.clone(),
    })?)
}

/// Writes a table with these lines and opens it to go on.
fn begin(folder: &Path, name: &str, head: Option<&str>, lines: Vec<String>) -> io::Result<Table> {
    let file = folder.join(name);
    let mut text = head.map_or_else(String::new, |head| format!("{head}\n"));
    for line in &lines {
        text += line;
        text.push('\n');
    }
    replace(&file, text.as_bytes())?;
    Table::of(file)
}

/// The lines of a table that may stay.
fn kept(folder: &Path, name: &str, stays: impl Fn(&str) -> bool) -> io::Result<Vec<String>> {
    match fs::read(folder.join(name)) {
        Ok(bytes) => {
            let text = String::from_utf8_lossy(&bytes);
            Ok(whole_lines(&text)
                .filter(|line| stays(line))
                .map(str::to_owned)
                .collect())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn seconds(key: &str, seconds: &[Second]) -> String {
    let mut text = String::new();
    for (number, second) in seconds.iter().enumerate() {
        let Second {
            sent,
            received,
            wire_bytes,
            ..
        } = second;
        let (p50, p99) = (second.response_p50_us, second.response_p99_us);
        text += &format!("{key},{number},{sent},{received},{p50:.1},{p99:.1},{wire_bytes}\n");
    }
    text
}

fn resources(key: &str, seconds: &[Second]) -> String {
    let mut text = String::new();
    // What shares its processor with others is not metered.
    let is_metered = |second: &Second| {
        second.rss_broker_kib > 0 || second.cpu_broker_s + second.cpu_client_s > 0.0
    };
    let metered = seconds.iter().enumerate().filter(|(_, it)| is_metered(it));
    for (number, second) in metered {
        text += &format!(
            "{key},{number},broker,{:.6},{}\n",
            second.cpu_broker_s, second.rss_broker_kib
        );
        text += &format!("{key},{number},client,{:.6},\n", second.cpu_client_s);
    }
    text
}

const MESSAGES: &str = "messages.csv";
const SECONDS_HEAD: &str = "key,second,sent,received,response_p50_us,response_p99_us,wire_bytes";
const RESOURCES_HEAD: &str = "key,second,process,cpu_s,rss_kib";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_told_with_the_path() {
        // A device that is always full (full(4)).
        let path = PathBuf::from("/dev/full");
        let file = OpenOptions::new()
            .write(true)
            .open(&path)
            .expect("Linux has it");
        let error = Table { path, file }
            .append(b"x")
            .expect_err("it is full")
            .to_string();
        assert!(
            error.starts_with("/dev/full: No space left on device"),
            "{error}"
        );
    }
}
