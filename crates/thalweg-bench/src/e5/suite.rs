//! `thalweg bench suite E5`: plan, broker, loop, files, report.

use std::fs;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use clap::Args;
use serde_json::{Value, json};

use super::broker::{Broker, cpu_of};
use super::cell::Cell;
use super::lab::{Lab, Progress};
use super::plan::{self, Budget, Part};
use super::stage::Stage;
use crate::brokers::System;
use crate::command::Outcome;
use crate::e2::suite::CourseArgs;
use crate::report;
use crate::report::raw::{Writer, write_about};
use crate::report::trial::Verdict;
use crate::scenario::command::CountingArgs;

/// `thalweg bench suite …`
#[derive(Args, Clone, Debug)]
pub struct SuiteArgs {
    /// Study to run, or all
    #[arg(value_name = "SUITE", value_enum)]
    pub suite: Suite,
    /// How much: quick takes minutes (all of them together 20), standard hours, paper as long as the studies
    #[arg(long, value_name = "BUDGET", value_enum, default_value = "quick")]
    pub budget: Budget,
    /// E5: only these parts. Default: all of them
    #[arg(long, value_name = "PART", value_enum)]
    pub only: Vec<Part>,
    /// Only cells in whose part, scenario, point or strategy (E5), or in whose key (E1 to E4), one of these is, such as
    /// 'on receipt' or E2b
    #[arg(long, value_name = "WORDS")]
    pub like: Vec<String>,
    /// Repeats of every cell, instead of what the budget says; of every course of E2d, instead of one
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeats: Option<u32>,
    /// Folder for the results; must be new or empty. Default: the suite and the time, such as E5-1795400000
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Install first what is measured against and is not there, as `doctor --install` does: packages as root only, client
    /// libraries into a folder of their own
    #[arg(long)]
    pub install: bool,
    /// E1 to E4, all: go on in the folder of a run that was interrupted
    #[arg(long)]
    pub resume: bool,
    /// E5: a broker that runs, such as mqtt://127.0.0.1:1883, with the policies of docs/bench.md. Default: start one
    #[arg(long, value_name = "URL")]
    pub broker: Option<String>,
    /// What arrivals, service demands and the order of cells are drawn from
    #[arg(long, value_name = "N", default_value_t = 101)]
    pub seed: u64,
    /// E5: cells run side by side as long as they have no more messages a second than this together
    #[arg(long, value_name = "N", default_value_t = 1500.0)]
    pub rate_max: f64,
    /// E1 to E4, all: count system calls
    #[command(flatten)]
    pub counting: CountingArgs,
    /// What only E2d takes
    #[command(flatten)]
    pub course: CourseArgs,
    /// Print the summary as JSON
    #[arg(long)]
    pub json: bool,
    /// Say nothing while it runs
    #[arg(long)]
    pub quiet: bool,
    /// Two cells of two seconds: to see that everything works
    #[arg(long, hide = true)]
    pub smoke: bool,
    /// The program that is started as broker. Default: as for other studies
    #[arg(long, hide = true, value_name = "FILE")]
    pub program: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Suite {
    /// Three classes of traffic through brokers of several protocols: throughput, ceilings, latency
    #[value(name = "E1")]
    E1,
    /// Delay and bytes of MQTT and CoAP against loss; needs root or user namespaces
    #[value(name = "E2")]
    E2,
    /// Flood, periodic and sporadic traffic over a link of 95 Mbit/s, policies of DDS; needs root or user namespaces
    #[value(name = "E3")]
    E3,
    /// MQTT, AMQP and STOMP on one device; needs root or user namespaces
    #[value(name = "E4")]
    E4,
    /// All of them, each in a folder of its own, and one page; needs root or user namespaces
    #[value(name = "all")]
    All,
    /// The adaptive client through a link whose loss changes; needs root or user namespaces
    #[value(name = "E2d")]
    E2d,
    /// Shared subscriptions that follow the state of their members
    #[value(name = "E5")]
    E5,
}

/// Puts this program before everything else that the machine does, if it may: what sleeps for milliseconds has to wake up in
/// time. It becomes the same command below `chrt`, and comes back only where that cannot be.
pub fn hurry() {
    if fs::read_to_string("/proc/self/stat").is_ok_and(|stat| is_real_time(&stat)) {
        return;
    }
    let mut chrt = Command::new("chrt");
    chrt.args(["--fifo", "5"]);
    let may = Command::new("chrt")
        .args(["--fifo", "5", "true"])
        .stderr(Stdio::null())
        .status();
    if let (true, Ok(own)) = (
        may.is_ok_and(|status| status.success()),
        std::env::current_exe(),
    ) {
        // It returns only if it fails.
        let _ = chrt.arg(own).args(std::env::args_os().skip(1)).exec();
    }
}

/// Whether the process of a /proc/PID/stat is scheduled by SCHED_FIFO or SCHED_RR (proc(5), field 41).
fn is_real_time(stat: &str) -> bool {
    let policy = stat
        .rsplit_once(')')
        .and_then(|(_, rest)| rest.split_whitespace().nth(38)?.parse::<u32>().ok());
    matches!(policy, Some(1 | 2))
}

/// Runs E5; the summary goes to `out`, progress to standard error.
pub fn run(args: &SuiteArgs, out: &mut dyn Write) -> io::Result<Outcome> {
    let folder = args
        .out
        .clone()
        .unwrap_or_else(|| PathBuf::from(format!("E5-{}", unix_seconds())));
    if folder
        .read_dir()
        .is_ok_and(|mut entries| entries.next().is_some())
    {
        return Err(io::Error::other(format!(
            "{} is not empty",
            folder.display()
        )));
    }
    let parts = if args.only.is_empty() {
        vec![Part::Core, Part::Sweeps, Part::Bars]
    } else {
        args.only.clone()
    };
    let cells = match args.smoke {
        true => plan::smoke(args.seed),
        false => plan::cells(args.budget, &parts, args.repeats, args.seed, &args.like),
    };
    if cells.is_empty() {
        return Err(io::Error::other("no cell is like that"));
    }
    let broker = match &args.broker {
        Some(url) => Broker::at(url)?,
        None => Broker::start(
            &args
                .program
                .clone()
                .map_or_else(|| System::Thalweg.program(), Ok)?,
        )?,
    };
    let mut writer = Writer::create(&folder)?;
    let mut about = about(args, &parts, &cells);
    write_about(&folder, &about)?;
    let stop = Arc::new(AtomicBool::new(false));
    let signals = [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM]
        .map(|signal| signal_hook::flag::register(signal, Arc::clone(&stop)));
    let (begun, own, theirs) = (Instant::now(), cpu_of("self"), broker.cpu());
    // Sums and files are made beside the loop: what sleeps must not wait for a disk.
    let (tell, told) = mpsc::channel::<Stage>();
    let quiet = args.quiet;
    let scribe = thread::spawn(move || -> io::Result<(usize, usize)> {
        let (mut all, mut valid) = (0, 0);
        for stage in told {
            let trial = stage.trial();
            writer.write(&trial, &mut || thread::sleep(BREATH))?;
            all += 1;
            match trial.verdict {
                Verdict::Valid => valid += 1,
                _ if quiet || all - valid > COMPLAINTS_MAX => {}
                verdict => {
                    let (part, scenario, point, variant) = trial.cell();
                    eprintln!(
                        "{}: {part} {scenario} {point} {variant}: {}",
                        verdict.word(),
                        trial.why
                    );
                }
            }
        }
        Ok((all, valid))
    });
    let ran = drive(&broker, cells, args, &stop, tell);
    let (trials, valid) = scribe
        .join()
        .map_err(|_| io::Error::other("the results could not be written"))??;
    ran?;
    let spent = |before: Option<f64>, after: Option<f64>| Some(after? - before?);
    about["finished_unix_s"] = json!(unix_seconds());
    about["lasted_s"] = json!(begun.elapsed().as_secs_f64());
    about["cpu_s"] =
        json!({ "broker": spent(theirs, broker.cpu()), "clients": spent(own, cpu_of("self")) });
    about["trials"] = json!({ "run": trials, "valid": valid });
    about["interrupted"] = json!(stop.load(Ordering::Relaxed));
    write_about(&folder, &about)?;
    for id in signals.into_iter().flatten() {
        signal_hook::low_level::unregister(id);
    }
    drop(broker);
    let found = report::render(&folder)?;
    match args.json {
        true => writeln!(out, "{}", serde_json::to_string_pretty(&found.json)?)?,
        false => out.write_all(found.summary.as_bytes())?,
    }
    if !args.quiet {
        eprintln!("written: {}", folder.join("report.html").display());
    }
    Ok(match (stop.load(Ordering::Relaxed), valid) {
        (true, _) => Outcome::Interrupted,
        (false, 0) => Outcome::Invalid,
        (false, _) => found.outcome,
    })
}

fn drive(
    broker: &Broker,
    cells: Vec<Cell>,
    args: &SuiteArgs,
    stop: &AtomicBool,
    tell: Sender<Stage>,
) -> io::Result<()> {
    let mut say = |progress: Progress| {
        if !args.quiet {
            eprintln!(
                "{}/{} cells over, {} running",
                progress.over, progress.all, progress.running
            );
        }
    };
    // It fails only if the writer has ended, and the writer reports why.
    let mut on_end = |stage: Stage| drop(tell.send(stage));
    Lab::new(broker.address())?.run(cells, args.rate_max, stop, &mut on_end, &mut say)
}

fn about(args: &SuiteArgs, parts: &[Part], cells: &[Cell]) -> Value {
    let mut about = machine();
    about["suite"] = json!("E5");
    about["budget"] = json!(format!("{:?}", args.budget).to_lowercase());
    about["parts"] = json!(
        parts
            .iter()
            .map(|part| format!("{part:?}").to_lowercase())
            .collect::<Vec<_>>()
    );
    about["seed"] = json!(args.seed);
    about["cells"] = json!(cells.len());
    about["rate_max_per_s"] = json!(args.rate_max);
    about["broker"] = json!(
        args.broker
            .clone()
            .unwrap_or_else(|| "child process, loopback, one shard, no journal".to_owned())
    );
    about
}

/// What every run says of the program and the machine.
pub fn machine() -> Value {
    let line_of = |file: &str, key: &str| {
        let text = fs::read_to_string(file).ok()?;
        let line = text.lines().find(|line| line.starts_with(key))?;
        Some(line.rsplit(": ").next().unwrap_or(line).trim().to_owned())
    };
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "started_unix_s": unix_seconds(),
        "kernel": line_of("/proc/sys/kernel/osrelease", ""),
        "cpu": line_of("/proc/cpuinfo", "model name"),
        "cores": thread::available_parallelism().map_or(0, usize::from),
        "load_average_at_start": line_of("/proc/loadavg", ""),
        "is_optimised": !cfg!(debug_assertions),
    })
}

/// Now, for names and files.
pub fn unix_seconds() -> u64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

/// Trials that do not count are told one by one up to here; the report has all.
const COMPLAINTS_MAX: usize = 20;
/// How long who writes lets the others run after some lines.
const BREATH: Duration = Duration::from_millis(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_scheduled_in_real_time_is_not_started_again() {
        // Of `cat` and of `chrt --fifo 5 cat`.
        let stat = |policy: u32| {
            format!(
                "42 (a) b) R 7 42 7 0 -1 4194304 95 0 0 0 0 0 0 0 20 0 1 0 5 2600960 376 18446744073709551615 \
                 1 2 3 0 0 0 0 0 0 0 0 0 17 1 0 {policy} 0 0 0 1 2 3 4 5 6 7 0"
            )
        };
        assert!(!is_real_time(&stat(0)) && is_real_time(&stat(1)) && is_real_time(&stat(2)));
        assert!(!is_real_time(""));
    }
}
