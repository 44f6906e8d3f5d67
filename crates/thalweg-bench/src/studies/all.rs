//! `thalweg bench suite all`: every study in a folder of its own, and one page of what came out.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Study;
use super::plan::by;
use crate::brokers::guard::Guard;
use crate::command::Outcome;
use crate::e2;
use crate::e5::plan::{Budget, Part};
use crate::e5::suite::{self as e5, SuiteArgs, machine, unix_seconds};
use crate::net::command::stopper;
use crate::net::nest;
use crate::paper;
use crate::report::raw::write_about;
use crate::results::command_line;

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
    if !args.resume
        && folder
            .read_dir()
            .is_ok_and(|mut entries| entries.next().is_some())
    {
        return Err(io::Error::other(format!(
            "{} is not empty; --resume goes on with it",
            folder.display()
        )));
    }
    fs::create_dir_all(&folder)?;
    let mut about = machine();
    about["suite"] = json!("all");
    about["budget"] = json!(format!("{:?}", args.budget).to_lowercase());
    about["seed"] = json!(args.seed);
    about["command_line"] = command_line();
    write_about(&folder, &about)?;
    let (stop, begun) = (stopper(), Instant::now());
    let failed: Mutex<Vec<Value>> = Mutex::new(Vec::new());
    let begin = |name: &str, run: &mut dyn FnMut(&Path) -> io::Result<()>| {
        let there = folder.join(name);
        if stop.load(Ordering::Relaxed) {
            return;
        }
        if !args.quiet {
            eprintln!("{name} begins after {:.0} s", begun.elapsed().as_secs_f64());
        }
        if let Err(error) = run(&there) {
            eprintln!("{name}: {error}");
            let why = json!({ "suite": name, "why": error.to_string() });
            failed
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(why);
        }
    };
    // What waits most of the time waits together; what wants the machine has it alone.
    thread::scope(|scope| {
        scope.spawn(|| {
            begin("E2d", &mut |there| {
                once(there, |there| {
                    e2::suite::run(&course(args, there), &mut io::sink())
                })
            })
        });
        // One message at a time, and a pause after each.
        scope.spawn(|| {
            begin("E4", &mut |there| {
                super::suite::measure(Study::E4, args, there, &stop)
            })
        });
        begin("E2", &mut |there| {
            super::suite::measure(Study::E2, args, there, &stop)
        });
    });
    begin("E5", &mut |there| {
        once(there, |there| punctual(&members(args, there)))
    });
    for study in [Study::E1, Study::E3] {
        begin(study.name(), &mut |there| {
            super::suite::measure(study, args, there, &stop)
        });
    }
    about["failed"] = json!(failed.into_inner().unwrap_or_else(PoisonError::into_inner));
    about["finished_unix_s"] = json!(unix_seconds());
    about["lasted_s"] = json!(begun.elapsed().as_secs_f64());
    about["interrupted"] = json!(stop.load(Ordering::Relaxed));
    write_about(&folder, &about)?;
    let found = paper::render(&folder)?;
    match args.json {
        true => writeln!(out, "{}", serde_json::to_string_pretty(&found.json)?)?,
        false => out.write_all(found.summary.as_bytes())?,
    }
    if !args.quiet {
        eprintln!("written: {}", folder.join("report.html").display());
    }
    let any_failed = about["failed"]
        .as_array()
        .is_some_and(|failed| !failed.is_empty());
    Ok(match (stop.load(Ordering::Relaxed), any_failed) {
        (true, _) => Outcome::Interrupted,
        (false, true) => Outcome::Failed,
        (false, false) => found.outcome,
    })
}

/// Pipelines that cannot be resumed: whole, or again.
fn once(there: &Path, run: impl FnOnce(&Path) -> io::Result<Outcome>) -> io::Result<()> {
    let about = fs::read_to_string(there.join("run.json")).unwrap_or_default();
    let is_whole = serde_json::from_str::<Value>(&about).is_ok_and(|about| {
        about["finished_unix_s"].is_u64() && about["interrupted"] == json!(false)
    });
    if is_whole {
        return Ok(());
    }
    if there.exists() {
        fs::remove_dir_all(there)?;
    }
    run(there).map(drop)
}

/// E2d as it fits into the budget.
fn course(args: &SuiteArgs, there: &Path) -> SuiteArgs {
    let mut args = own(args, there);
    args.course.step = by(
        args.budget,
        Duration::from_secs(30),
        Duration::from_secs(120),
        Duration::from_secs(120),
    );
    args.repeats = args.repeats.or(by(args.budget, None, Some(3), Some(5)));
    args
}

/// E5 as it fits into the budget: what its statements need.
fn members(args: &SuiteArgs, there: &Path) -> SuiteArgs {
    let mut args = own(args, there);
    if args.budget == Budget::Quick {
        args.only = vec![Part::Core, Part::Sweeps];
        args.like = ["d=10.44ms", "report interval", "burst", "slow-down"]
            .map(str::to_owned)
            .to_vec();
    }
    args
}

/// E5 before everything else that this machine does: what sleeps for milliseconds has to wake up in time. Where that is not
/// allowed it runs as anything else.
fn punctual(args: &SuiteArgs) -> io::Result<Outcome> {
    let child = std::env::current_exe().and_then(|program| {
        let mut command = Command::new("chrt");
        command.args(["--fifo", "5"]).arg(program);
        command.args(words(args));
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn()?;
        // Killed with this process, it takes its broker with it by a guard of its own.
        let _guard = Guard::of_process(child.id())?;
        child.wait()
    });
    let ended = child.ok().and_then(|status| status.code());
    let outcomes = [
        Outcome::Done,
        Outcome::Invalid,
        Outcome::ShapeFailed,
        Outcome::Interrupted,
    ];
    match outcomes
        .into_iter()
        .find(|outcome| ended == Some(*outcome as i32))
    {
        Some(outcome) => Ok(outcome),
        None => {
            if let Some(there) = args.out.as_ref().filter(|there| there.exists()) {
                fs::remove_dir_all(there)?;
            }
            e5::run(args, &mut io::sink())
        }
    }
}

/// The command line that means these arguments of E5.
fn words(args: &SuiteArgs) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec!["suite".into(), "E5".into()];
    let mut pair = |flag: &str, value: OsString| words.extend([flag.into(), value]);
    pair(
        "--budget",
        format!("{:?}", args.budget).to_lowercase().into(),
    );
    pair("--seed", args.seed.to_string().into());
    pair("--rate-max", args.rate_max.to_string().into());
    for part in &args.only {
        pair("--only", format!("{part:?}").to_lowercase().into());
    }
    for like in &args.like {
        pair("--like", like.into());
    }
    if let Some(repeats) = args.repeats {
        pair("--repeats", repeats.to_string().into());
    }
    if let Some(out) = &args.out {
        pair("--out", out.into());
    }
    if let Some(program) = &args.program {
        pair("--program", program.into());
    }
    if args.quiet {
        words.push("--quiet".into());
    }
    words
}

fn own(args: &SuiteArgs, there: &Path) -> SuiteArgs {
    let program = args
        .program
        .clone()
        .or_else(|| std::env::var_os("THALWEG_BIN").map(PathBuf::from));
    SuiteArgs {
        out: Some(there.to_owned()),
        json: false,
        like: Vec::new(),
        broker: None,
        program,
        ..args.clone()
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::command::BenchCommand;

    #[derive(Parser)]
    struct CommandLine {
        #[command(subcommand)]
        command: BenchCommand,
    }

    fn read(words: &[OsString]) -> SuiteArgs {
        let line = std::iter::once(OsString::from("thalweg")).chain(words.iter().cloned());
        match CommandLine::try_parse_from(line)
            .expect("it is a command line")
            .command
        {
            BenchCommand::Suite(args) => args,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_command_line_of_e5_means_what_it_was_made_of() {
        let asked = [
            "suite",
            "all",
            "--budget",
            "quick",
            "--seed",
            "9",
            "--repeats",
            "2",
            "--quiet",
        ]
        .map(OsString::from);
        let args = members(&read(&asked), Path::new("/tmp/there"));
        let again = read(&words(&args));
        assert_eq!(
            format!("{again:?}"),
            format!(
                "{:?}",
                SuiteArgs {
                    suite: again.suite,
                    ..args
                }
            )
        );
        assert_eq!((again.like.len(), again.only.len(), again.seed), (4, 2, 9));
    }
}
