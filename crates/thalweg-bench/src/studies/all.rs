//! `thalweg bench suite all`: every study in a folder of its own, and one page of what came out.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use serde_json::{Value, json};

use super::Study;
use super::args::SuiteArgs;
use super::plan::{Budget, Part};
use crate::cell::word;
use crate::command::Outcome;
use crate::net::nest;
use crate::paper;
use crate::results::{command_line, machine, unix_seconds, write_about};
use crate::runner::stopper;

/// Runs all studies; the summary goes to `out`, progress to standard error.
pub fn run(args: &SuiteArgs, out: &mut dyn Write) -> io::Result<Outcome> {
    // What needs networks says why there are none; the rest runs.
    if let Err(why) = nest::enter() {
        eprintln!("E2, E2d, E3 and E4: {}", nest::told(&why));
    }
    let folder = args
        .out
        .clone()
        .unwrap_or_else(|| PathBuf::from(format!("all-{}", unix_seconds())));
    let mut there = folder.read_dir().into_iter().flatten();
    if !args.resume && there.next().is_some() {
        return Err(io::Error::other(format!(
            "{} is not empty; --resume goes on with it",
            folder.display()
        )));
    }
    fs::create_dir_all(&folder)?;
    let mut about = machine();
    about["suite"] = json!("all");
    about["budget"] = json!(word(args.budget));
    about["seed"] = json!(args.seed);
    about["command_line"] = command_line();
    write_about(&folder, &about)?;
    let (stop, begun) = (stopper(), Instant::now());
    let failed: Mutex<Vec<Value>> = Mutex::new(Vec::new());
    let measure = |study: Study, args: &SuiteArgs| {
        let name = study.name();
        if stop.load(Ordering::Relaxed) {
            return;
        }
        if !args.quiet {
            eprintln!("{name} begins after {:.0} s", begun.elapsed().as_secs_f64());
        }
        if let Err(error) = super::suite::measure(study, args, &folder.join(name), &stop) {
            eprintln!("{name}: {error}");
            let why = json!({ "suite": name, "why": error.to_string() });
            let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
            failed.push(why);
        }
    };
    // What waits most of the time waits together; what wants the machine has it alone.
    thread::scope(|scope| {
        scope.spawn(|| measure(Study::E2d, &own(args)));
        // One message at a time, and a pause after each.
        scope.spawn(|| measure(Study::E4, args));
        measure(Study::E2, args);
    });
    measure(Study::E5, &members(args));
    measure(Study::E1, args);
    measure(Study::E3, args);
    about["failed"] = json!(failed.into_inner().unwrap_or_else(PoisonError::into_inner));
    about["finished_unix_s"] = json!(unix_seconds());
    about["lasted_s"] = json!(begun.elapsed().as_secs_f64());
    about["interrupted"] = json!(stop.load(Ordering::Relaxed));
    write_about(&folder, &about)?;
    let found = paper::render(&folder)?;
    found.print(args.json, out)?;
    if !args.quiet {
        eprintln!("written: {}", folder.join("report.html").display());
    }
    let all_ran = about["failed"] == json!([]);
    Ok(match (stop.load(Ordering::Relaxed), all_ran) {
        (true, _) => Outcome::Interrupted,
        (false, false) => Outcome::Failed,
        (false, true) => found.outcome,
    })
}

/// E5 as it fits into the budget: what its statements need.
fn members(args: &SuiteArgs) -> SuiteArgs {
    let mut args = own(args);
    if args.budget == Budget::Quick {
        args.only = vec![Part::Core, Part::Sweeps];
        args.like = ["d=10.44ms", "report interval", "burst", "slow-down"]
            .map(str::to_owned)
            .to_vec();
    }
    args
}

fn own(args: &SuiteArgs) -> SuiteArgs {
    SuiteArgs {
        like: Vec::new(),
        broker: None,
        ..args.clone()
    }
}
