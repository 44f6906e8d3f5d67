//! `thalweg bench run` and `sweep`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use clap::Args;
use serde_json::{Value, json};

use super::{Judged, Scenario};
use crate::cell::{self, CallCounter, Cell, Row, Standing, word};
use crate::command::Outcome;
use crate::net::nest;
use crate::results::unix_seconds;
use crate::results::{self, Writer};
use crate::runner::{self, Manner, Trial, stopper};
use crate::saturate::name_of;
use crate::studies::plan::Budget;
use crate::{paper, trial};

/// `thalweg bench run …`
#[derive(Args, Clone, Debug)]
pub struct RunArgs {
    /// Path of the scenario file
    #[arg(value_name = "SCENARIO")]
    pub scenario: PathBuf,
    #[command(flatten)]
    pub changes: Changes,
    /// Cells of little load at once
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub side_by_side: usize,
    #[command(flatten)]
    pub results: ResultArgs,
}

/// Where results go, and what is said.
#[derive(Args, Clone, Debug, Default)]
pub struct ResultArgs {
    /// Folder for the results; must be new or empty. Default: the scenario's name and the time
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Go on with what an interrupted run has left in --out
    #[arg(long, requires = "out")]
    pub resume: bool,
    /// Print the summary as JSON
    #[arg(long)]
    pub json: bool,
    /// Say nothing while it runs
    #[arg(long)]
    pub quiet: bool,
}

impl ResultArgs {
    /// The folder, where none was named one of that name and this time.
    pub fn folder(&self, name: &str) -> PathBuf {
        let unnamed = || PathBuf::from(format!("{name}-{}", unix_seconds()));
        self.out.clone().unwrap_or_else(unnamed)
    }
}

/// What a command line changes of a scenario.
#[derive(Args, Clone, Debug, Default)]
pub struct Changes {
    /// Something else in it, such as load.rate=20/s or sweep.workload.size=[60B,2kB]; a swept path is swept no longer
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    pub set: Vec<(String, String)>,
    /// What its `budgets` says of one
    #[arg(long, value_name = "BUDGET", value_enum)]
    pub budget: Option<Budget>,
    /// Count the broker's system calls
    #[command(flatten)]
    pub counting: CountingArgs,
}

/// Whether system calls are counted.
#[derive(Args, Clone, Debug, Default)]
pub struct CountingArgs {
    /// Count the broker's system calls, as system.count_system_calls does: by perf, which costs it little, or by strace
    /// (`=strace`), which slows it down so much that only the count is of use
    #[arg(long, value_name = "BY", value_enum, num_args = 0..=1, require_equals = true, default_missing_value = "perf")]
    pub count_system_calls: Option<CallCounter>,
}

impl CountingArgs {
    /// Makes cells of it.
    pub fn apply(&self, cells: &mut [Cell]) {
        if let Some(by) = self.count_system_calls {
            cells.iter_mut().for_each(|cell| cell.count_calls(by));
        }
    }
}

impl Changes {
    /// The scenario with them.
    pub fn of(&self, file: &Path) -> io::Result<Scenario> {
        let budget = self.budget.map(word);
        let mut scenario =
            super::read(file, &self.set, budget.as_deref()).map_err(io::Error::other)?;
        self.counting.apply(&mut scenario.cells);
        Ok(scenario)
    }
}

/// Runs a scenario; `must_sweep` refuses one that has a single point.
pub fn run(args: &RunArgs, must_sweep: bool, out: &mut dyn Write) -> io::Result<Outcome> {
    nest::enter_for(&args.changes.of(&args.scenario)?.cells)?;
    run_with(args, must_sweep, out, &stopper(), &trial::run)
}

/// The same with something else that measures.
pub fn run_with(
    args: &RunArgs,
    must_sweep: bool,
    out: &mut dyn Write,
    stop: &AtomicBool,
    trial: &Trial<'_>,
) -> io::Result<Outcome> {
    let scenario = args.changes.of(&args.scenario)?;
    if must_sweep && scenario.axes.is_empty() {
        return Err(io::Error::other(format!(
            "{}: nothing is swept; use run",
            args.scenario.display()
        )));
    }
    measure(&scenario, args, out, stop, trial)
}

/// Measures a scenario that has been read; of `args`, where to and how.
pub fn measure(
    scenario: &Scenario,
    args: &RunArgs,
    out: &mut dyn Write,
    stop: &AtomicBool,
    trial: &Trial<'_>,
) -> io::Result<Outcome> {
    let folder = args.results.folder(&scenario.name);
    let mut about = results::about(&scenario.name, &scenario.cells);
    about["scenario"] = json!(args.scenario.display().to_string());
    about["metrics"] = json!(scenario.metrics);
    about["axes"] = json!(scenario.axes);
    let mut writer = Writer::open(&folder, &about, args.results.resume)?;
    let manner = Manner {
        side_by_side: args.side_by_side,
        is_quiet: args.results.quiet,
    };
    let is_interrupted = runner::run(&scenario.cells, &mut writer, manner, stop, trial)?;
    let measured = results::read(&folder)?.trials;
    let judged: Vec<Judged> = scenario
        .assertions
        .iter()
        .map(|assertion| assertion.judge(&measured))
        .collect();
    writer.set("assertions", judged.iter().map(told).collect())?;
    writer.finish(is_interrupted)?;
    let valid = cell::valid(&measured).count();
    let lacking = lacking(scenario, &measured);
    // A terminal gets the table, the folder the page.
    let (summary, mut json) = results::summary::render(&folder)?;
    paper::render(&folder)?;
    match args.results.json {
        true => {
            json["assertions"] = judged.iter().map(told).collect();
            json["not_measured"] = lacking
                .iter()
                .map(|(point, why)| json!({ "point": point, "why": why }))
                .collect::<Vec<_>>()
                .into();
            json["trials"] = json!({ "planned": scenario.cells.len(), "measured": measured.len(), "valid": valid });
            writeln!(out, "{}", serde_json::to_string_pretty(&json)?)?;
        }
        false => {
            out.write_all(summary.as_bytes())?;
            write!(out, "{}", words(&judged))?;
            if !lacking.is_empty() {
                writeln!(out, "\n## Not measured\n")?;
            }
            for (point, why) in &lacking {
                writeln!(out, "- {point}: {why}")?;
            }
        }
    }
    if !args.results.quiet {
        eprintln!(
            "{} of {} trials count; written: {}",
            valid,
            scenario.cells.len(),
            folder.display()
        );
    }
    Ok(match () {
        () if is_interrupted => Outcome::Interrupted,
        () if valid == 0 => Outcome::Invalid,
        () if judged.iter().any(|judged| !judged.holds()) => Outcome::ShapeFailed,
        () if !lacking.is_empty() => Outcome::Invalid,
        () => Outcome::Done,
    })
}

/// Points of the plan of which no trial counts, and why. What the broker did not take is a result of its own, unless
/// something is asserted: an assertion is not compared there.
fn lacking(scenario: &Scenario, measured: &[(Cell, Row)]) -> Vec<(String, String)> {
    let mut points: Vec<(String, Vec<&Row>)> = Vec::new();
    for planned in &scenario.cells {
        let rows = measured
            .iter()
            .filter(|(cell, _)| cell.key() == planned.key())
            .map(|(_, row)| row);
        let name = name_of(planned);
        match points.iter_mut().find(|(other, _)| *other == name) {
            Some((_, all)) => all.extend(rows),
            None => points.push((name, rows.collect())),
        }
    }
    let counts = |row: &&&Row| match row.standing {
        Standing::Valid => true,
        Standing::HeldBack(_) => scenario.assertions.is_empty(),
        Standing::GeneratorLimited(_) | Standing::Invalid(_) | Standing::Absent(_) => false,
    };
    points.retain(|(_, rows)| !rows.iter().any(|row| counts(&row)));
    let why = |rows: &[&Row]| match rows.first() {
        Some(row) => format!("{}: {}", row.standing.word(), row.standing.why()),
        None => "no trial ended".to_owned(),
    };
    points
        .iter()
        .map(|(name, rows)| (name.clone(), why(rows)))
        .collect()
}

fn told(judged: &Judged) -> Value {
    json!({ "text": judged.text, "holds": judged.holds(), "compared": judged.compared, "failed": judged.failed })
}

fn words(judged: &[Judged]) -> String {
    if judged.is_empty() {
        return String::new();
    }
    let mut text = "\n## Assertions\n\n".to_owned();
    for judged in judged {
        let found = match (judged.compared, judged.failed.len()) {
            (0, _) => "**not shown**: there is nothing to compare".to_owned(),
            (compared, 0) => format!("holds at {compared} of {compared}"),
            (compared, failed) => format!(
                "**does not hold** at {failed} of {compared}: {}",
                judged.failed.join("; ")
            ),
        };
        text += &format!("- `{}`: {found}\n", judged.text);
    }
    text
}

/// `KEY=VALUE`
pub fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text
        .split_once('=')
        .ok_or_else(|| format!("{text}: KEY=VALUE is expected"))?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}
