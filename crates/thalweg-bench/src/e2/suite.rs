//! `thalweg bench suite E2d`: courses side by side, files, report.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::{Value, json};

use super::plan::{self, Course, Goal, Wishes};
use super::raw::Writer;
use super::trial::Trial;
use super::{report, stage};
use crate::command::Outcome;
use crate::net::command::stopper;
use crate::net::units;
use crate::net::{Loss, nest, network};
use crate::results::{machine, unix_seconds, write_about};
use crate::studies::args::SuiteArgs;

/// What only E2d takes.
#[derive(Args, Clone, Debug)]
pub struct CourseArgs {
    /// E2d: how long each loss lasts
    #[arg(long, value_name = "TIME", value_parser = units::span, default_value = "120s")]
    pub step: Duration,
    /// E2d: losses, one after the other
    #[arg(long, value_name = "LOSSES", value_parser = units::loss, value_delimiter = ',', default_value = "0%,20%,5%,25%,0%")]
    pub losses: Vec<Loss>,
    /// E2d: sizes of messages, such as 60B,600B
    #[arg(long, value_name = "SIZES", value_parser = units::size, value_delimiter = ',', default_value = "60B")]
    pub payload: Vec<usize>,
    /// E2d: what adaptive clients are after
    #[arg(
        long,
        value_name = "WHAT",
        value_enum,
        value_delimiter = ',',
        default_value = "bytes,latency"
    )]
    pub objective: Vec<Goal>,
    /// E2d: one-way delays of the link, such as 0,50ms; anything but 0 is emulated
    #[arg(long, value_name = "TIMES", value_parser = units::span, value_delimiter = ',', default_value = "0")]
    pub delay: Vec<Duration>,
    /// E2d: messages, over all topics
    #[arg(long, value_name = "RATE", value_parser = units::frequency, default_value = "5/s")]
    pub rate: f64,
    /// E2d: topics, each of which gets every so-manieth message; CoAP needs some 10 s between two of one topic
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000), default_value_t = 50)]
    pub topics: u32,
    /// E2d: no adaptive client, only MQTT and CoAP all along
    #[arg(long)]
    pub fixed_only: bool,
    /// E2d: publisher and subscriber are one client
    #[arg(long)]
    pub one_client: bool,
    /// E2d: courses that run at the same time
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=200), default_value_t = 24)]
    pub abreast: u32,
}

/// Runs the suite; the summary goes to `out`, progress to standard error.
pub fn run(args: &SuiteArgs, out: &mut dyn Write) -> io::Result<Outcome> {
    let folder = args
        .out
        .clone()
        .unwrap_or_else(|| PathBuf::from(format!("E2d-{}", unix_seconds())));
    if folder
        .read_dir()
        .is_ok_and(|mut entries| entries.next().is_some())
    {
        return Err(io::Error::other(format!(
            "{} is not empty",
            folder.display()
        )));
    }
    let wishes = wishes(args)?;
    nest::enter().map_err(|why| io::Error::other(nest::told(&why)))?;
    network::is_possible().map_err(io::Error::other)?;
    network::sweep();
    let courses = plan::courses(&wishes);
    let mut about = about(args, &wishes, courses.len());
    let writer = Mutex::new(Writer::create(&folder)?);
    write_about(&folder, &about)?;
    let stop = stopper();
    let begun = Instant::now();
    let valid = drive(&courses, args, &stop, &writer)?;
    about["finished_unix_s"] = json!(unix_seconds());
    about["lasted_s"] = json!(begun.elapsed().as_secs_f64());
    about["interrupted"] = json!(stop.load(Ordering::Relaxed));
    write_about(&folder, &about)?;
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

/// Runs all courses, some abreast; returns how many count.
fn drive(
    courses: &[Course],
    args: &SuiteArgs,
    stop: &AtomicBool,
    writer: &Mutex<Writer>,
) -> io::Result<usize> {
    let (next, over, valid) = (
        AtomicUsize::new(0),
        AtomicUsize::new(0),
        AtomicUsize::new(0),
    );
    let failure: Mutex<Option<io::Error>> = Mutex::new(None);
    let run_some = || {
        while let Some(course) = courses.get(next.fetch_add(1, Ordering::Relaxed)) {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            let result = stage::run(course, stop);
            let over = over.fetch_add(1, Ordering::Relaxed) + 1;
            if let Err(error) = &result {
                eprintln!("{}: {error}", course.words());
            } else if !args.quiet {
                eprintln!("{over}/{} courses over: {}", courses.len(), course.words());
            }
            let trial = result.unwrap_or_else(|error| failed(course, &error));
            valid.fetch_add(usize::from(trial.counts()), Ordering::Relaxed);
            let written = writer
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .write(&trial);
            if let Err(error) = written {
                *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                return;
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..(args.course.abreast as usize).min(courses.len()) {
            scope.spawn(run_some);
            // Twenty brokers that start at once are slow starters.
            thread::sleep(STAGGER);
        }
    });
    match failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => Ok(valid.into_inner()),
    }
}

/// A course that could not be run.
fn failed(course: &Course, error: &io::Error) -> Trial {
    Trial {
        number: course.number,
        way: course.way,
        payload: course.payload,
        delay: course.delay,
        repeat: course.repeat,
        seed: course.seed,
        steps: course.steps.clone(),
        step: course.step,
        trouble: error.to_string(),
        messages: Vec::new(),
        samples: Vec::new(),
        events: Vec::new(),
    }
}

fn wishes(args: &SuiteArgs) -> io::Result<Wishes> {
    let course = &args.course;
    if course.step < STEP_MIN {
        return Err(io::Error::other("a step is at least 1 s"));
    }
    if course.payload.iter().any(|size| *size < PAYLOAD_MIN) {
        return Err(io::Error::other(
            "a message has at least 4 bytes: its number",
        ));
    }
    Ok(Wishes {
        goals: if course.fixed_only {
            Vec::new()
        } else {
            course.objective.clone()
        },
        payloads: course.payload.clone(),
        delays: course.delay.clone(),
        steps: course.losses.clone(),
        step: course.step,
        rate: course.rate,
        flows: course.topics,
        repeats: args.repeats.unwrap_or(1),
        seed: args.seed,
        one_client: course.one_client,
    })
}

fn about(args: &SuiteArgs, wishes: &Wishes, courses: usize) -> Value {
    let mut about = machine();
    about["suite"] = json!("E2d");
    about["seed"] = json!(args.seed);
    about["courses"] = json!(courses);
    about["repeats"] = json!(wishes.repeats);
    about["losses"] = json!(
        wishes
            .steps
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    );
    about["step_s"] = json!(wishes.step.as_secs_f64());
    about["rate_per_s"] = json!(wishes.rate);
    about["flows"] = json!(wishes.flows);
    about["one_client"] = json!(wishes.one_client);
    about["abreast"] = json!(args.course.abreast);
    about
}

const STEP_MIN: Duration = Duration::from_secs(1);
const PAYLOAD_MIN: usize = 4;
const STAGGER: Duration = Duration::from_millis(200);
