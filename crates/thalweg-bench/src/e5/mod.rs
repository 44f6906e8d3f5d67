//! E5: state-aware shared subscriptions, with real connections and workers that sleep.
//!
//! Study E put three subscribers of unequal speed into one group and told the broker how they were.
//! This repeats it: a publisher that keeps to absolute times, workers with a queue and a time that each message takes, a
//! clock for all of them, a broker in its own process.
//!
//! ```text
//!  plan ──> cells ──> tasks ──> lab: stage per task ─┬─ publisher ──> broker ──> workers ─┐
//!                                                    └── trial <── what happened when ────┘
//! ```
//!
//! Which cells there are is the study's ([`crate::studies`]), and so is the folder they go to; only how a cell is run is
//! here. Start reading at [`plan`], then [`stage`].

mod broker;
mod lab;
mod line;
pub mod plan;
mod stage;
mod task;
mod trial;
mod worker;

use std::io;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc;
use std::thread;

use serde_json::{Value, json};

use crate::brokers::System;
use crate::cell::{Cell, Measured};
use crate::studies::args::SuiteArgs;
use broker::{Broker, cpu_of};
use lab::Lab;
pub use trial::{MEMBERS, of_member};

/// Runs cells side by side at one broker and passes what was measured to the consumer, which says whether to go on. Returns
/// the processor time of broker and clients in seconds.
pub fn drive(
    cells: &[Cell],
    args: &SuiteArgs,
    stop: &AtomicBool,
    take: &mut dyn FnMut(&Cell, Measured) -> bool,
) -> io::Result<Value> {
    let recipes = match args.smoke {
        true => plan::smoke(),
        false => plan::recipes(args.budget),
    };
    let tasks = plan::tasks(&recipes, cells);
    let (tell, told) = mpsc::channel();
    thread::scope(|scope| {
        let lab = scope.spawn(move || {
            hurry();
            let broker = match (&args.broker, &args.program) {
                (Some(url), _) => Broker::at(url)?,
                (None, Some(program)) => Broker::start(program)?,
                (None, None) => Broker::start(&System::Thalweg.program()?)?,
            };
            let (own, theirs) = (cpu_of("self"), broker.cpu());
            Lab::new(broker.address())?.run(tasks, args.rate_max, stop, &tell)?;
            let spent = |before: Option<f64>, after: Option<f64>| Some(after? - before?);
            Ok(
                json!({ "broker": spent(theirs, broker.cpu()), "clients": spent(own, cpu_of("self")) }),
            )
        });
        // Sums and files are made beside the loop: what sleeps must not wait for a disk.
        for stage in told {
            let trial = stage::Stage::trial(stage);
            if !take(&trial.task.cell, trial.measured()) {
                break;
            }
        }
        let panicked = |_| Err(io::Error::other("the loop of E5 panicked"));
        lab.join().unwrap_or_else(panicked)
    })
}

/// Puts this thread, and the broker that it starts, before everything else that the machine does, if it may: what sleeps for
/// milliseconds has to wake up in time.
fn hurry() {
    let thread = rustix::thread::gettid().as_raw_nonzero().to_string();
    let _ = Command::new("chrt")
        .args(["--fifo", "--pid", "5", &thread])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
}
