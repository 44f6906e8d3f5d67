//! `thalweg bench suite` of one study: cells, trials, a folder, a page.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use super::args::SuiteArgs;
use super::{Study, fragments, group, plan};
use crate::cell::{Cell, Measured, Protocol, named, word};
use crate::command::Outcome;
use crate::load::SECOND;
use crate::net::nest;
use crate::results::{self, Writer, unix_seconds};
use crate::runner::pool::{self, Room};
use crate::runner::{Run, stopper};
use crate::{e2d, e5, paper, trial};

/// Runs a study; the summary goes to `out`, progress to standard error.
pub fn run(study: Study, args: &SuiteArgs, out: &mut dyn Write) -> io::Result<Outcome> {
    let folder = args
        .out
        .clone()
        .unwrap_or_else(|| PathBuf::from(format!("{}-{}", study.name(), unix_seconds())));
    nest::enter_for(&cells(study, args))?;
    let stop = stopper();
    measure(study, args, &folder, &stop)?;
    let found = paper::render(&folder)?;
    found.print(args.json, out)?;
    if !args.quiet {
        eprintln!("written: {}", folder.join("report.html").display());
    }
    Ok(if stop.load(Ordering::Relaxed) {
        Outcome::Interrupted
    } else {
        found.outcome
    })
}

/// The cells of a study as the command line wants them.
pub fn cells(study: Study, args: &SuiteArgs) -> Vec<Cell> {
    let mut cells = match (study, args.smoke) {
        (Study::E5, true) => e5::plan::cells(&e5::plan::smoke(), args.seed),
        _ => study.cells_of(&args.course, args.budget, args.seed),
    };
    if study == Study::E5 && !args.only.is_empty() {
        cells.retain(|cell| args.only.iter().any(|part| e5::plan::is_of(cell, *part)));
    }
    if let Some(repeats) = args.repeats {
        cells.retain(|cell| cell.repeat == 0);
        let again = |cell: &Cell| plan::repeats(cell, repeats, args.seed).collect::<Vec<_>>();
        cells = cells.iter().flat_map(again).collect();
        cells.sort_by_key(|cell| cell.repeat);
    }
    args.counting.apply(&mut cells);
    if !args.like.is_empty() {
        cells.retain(|cell| {
            let key = cell.key();
            args.like.iter().any(|like| key.contains(&named(like)))
        });
    }
    cells
}

/// Measures whatever a folder does not have yet.
pub fn measure(study: Study, args: &SuiteArgs, folder: &Path, stop: &AtomicBool) -> io::Result<()> {
    let cells = cells(study, args);
    if cells.is_empty() {
        return Err(io::Error::other("no cell is like that"));
    }
    let mut about = results::about(study.name(), &cells);
    about["suite"] = json!(study.name());
    about["budget"] = json!(word(args.budget));
    about["seed"] = json!(args.seed);
    if study == Study::E5 {
        about["rate_max_per_s"] = json!(args.rate_max);
        about["broker"] = json!(args.broker.as_deref().unwrap_or(E5_BROKER));
    }
    let mut writer = Writer::open(folder, &about, args.resume)?;
    let room = match study {
        Study::E2d => Room::beside(args.course.abreast as usize),
        _ => Room::beside(study.abreast()),
    };
    let (mut run, due) = Run::of(study.name(), &cells, &mut writer, room, args.quiet, stop);
    let mut take = |cell: &Cell, measured: Measured| run.take(cell, &measured);
    let mut spent = None;
    match study {
        Study::E5 => spent = Some(e5::drive(&due, args, stop, &mut take)?),
        Study::E2d => e2d::drive(&due, args, stop, &mut take),
        _ => pool::drive(&due, room, stop, &|cell| attempt(cell, stop), &mut take),
    }
    let is_interrupted = run.end()?;
    if let Some(spent) = spent {
        writer.set("cpu_s", spent)?;
    }
    writer.finish(is_interrupted)
}

fn attempt(cell: &Cell, stop: &AtomicBool) -> Measured {
    match cell.publish.protocol {
        Protocol::Coap if cell.system == fragments::SYSTEM => fragments::run(cell, stop),
        _ => counted(cell, trial::run(cell, stop)),
    }
}

/// Adds what arrived in the whole seconds of the measured phase.
fn counted(cell: &Cell, mut measured: Measured) -> Measured {
    let (from, to) = (
        cell.phases.warmup_ns,
        cell.phases.warmup_ns + cell.phases.measure_ns,
    );
    let (first, end) = (from.div_ceil(SECOND) as usize, (to / SECOND) as usize);
    if let Some(seconds) = measured
        .seconds
        .get(first..end.min(measured.seconds.len()))
        .filter(|some| !some.is_empty())
    {
        let arrived =
            seconds.iter().map(|second| second.received).sum::<u64>() as f64 / seconds.len() as f64;
        measured.row.more.insert(group::ARRIVED.to_owned(), arrived);
    }
    measured
}

/// What E5 measures unless it is told another.
const E5_BROKER: &str = "child process, loopback, one shard, no journal";

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::studies::plan::Budget;

    #[test]
    fn no_two_cells_of_a_study_have_one_key() {
        for study in Study::ALL {
            for budget in [Budget::Quick, Budget::Standard, Budget::Paper] {
                let cells = study.cells(budget, 3);
                let keys: HashSet<String> = cells.iter().map(Cell::key).collect();
                assert_eq!(keys.len(), cells.len(), "{} {budget:?}", study.name());
            }
        }
    }

    #[test]
    fn a_seed_is_an_order() {
        for study in Study::ALL {
            let keys = |seed| {
                study
                    .cells(Budget::Quick, seed)
                    .iter()
                    .map(Cell::key)
                    .collect::<Vec<_>>()
            };
            assert_eq!(keys(3), keys(3));
            assert_ne!(keys(3), keys(4));
        }
    }

    /// Seconds of a study's cells, as many side by side as may be.
    fn seconds(study: Study, budget: Budget, there: impl Fn(&Cell) -> bool) -> f64 {
        let of = |cell: &Cell| {
            let phases = cell.phases;
            let starts = if cell.system == "rabbitmq" { 8.0 } else { 1.0 };
            (phases.settle_ns + phases.warmup_ns + phases.measure_ns) as f64 * 1e-9 + starts
        };
        study
            .cells(budget, 1)
            .iter()
            .filter(|cell| there(cell))
            .map(of)
            .sum::<f64>()
            / study.abreast() as f64
    }

    #[test]
    fn a_quick_run_of_what_runs_alone_ends_in_minutes() {
        let there = |cell: &Cell| cell.publish.protocol != Protocol::Xmpp;
        let both = [Study::E1, Study::E3]
            .map(|study| seconds(study, Budget::Quick, there))
            .iter()
            .sum::<f64>();
        assert!(both < 660.0, "{both} s of the 20 minutes");
    }

    #[test]
    fn a_standard_run_ends_in_hours() {
        let minutes = |study| seconds(study, Budget::Standard, |_| true) / 60.0;
        // E4 waits beside E2; E5 and E2d take half an hour.
        let all = minutes(Study::E1)
            + minutes(Study::E3)
            + minutes(Study::E2).max(minutes(Study::E4))
            + 30.0;
        assert!(
            all < 232.0,
            "{all} minutes of four hours (EXPERIMENTS 4), and something for slow ends"
        );
    }
}
