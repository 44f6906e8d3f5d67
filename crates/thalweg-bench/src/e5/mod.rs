//! E5: state-aware shared subscriptions, with real connections and workers that sleep.
//!
//! Study E put three subscribers of unequal speed into one group and told the broker how they were.
//! This repeats it: a publisher that keeps to absolute times, workers with a queue and a time that each message takes, a
//! clock for all of them, a broker in its own process.
//!
//! ```text
//!  plan ──> cells ──> tasks ──> a stage in a thread each ─┬─ publisher ──> broker ──> workers ─┐
//!                                                         └── trial <── what happened when ────┘
//! ```
//!
//! Which cells there are is the study's ([`crate::studies`]), and so is the folder they go to; only how a cell is run is
//! here. Start reading at [`plan`], then [`stage`].

pub mod plan;
mod stage;
mod trial;

use std::io;
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc;
use std::thread;

use serde_json::{Value, json};

use crate::brokers::{self, Running};
use crate::cell::{Cell, Measured, Protocol};
use crate::load::clock;
use crate::runner::pool::{self, Room};
use crate::studies;
use crate::studies::args::SuiteArgs;
use plan::Task;
pub use trial::{MEMBERS, of_member};

/// Runs cells side by side at one broker, so many that their rates are not above the one that the command line says, and
/// passes what was measured to the consumer, which says whether to go on. Returns the processor time of broker and clients
/// in seconds.
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
    let tasks = &plan::tasks(&recipes, cells);
    let (tell, told) = mpsc::channel();
    thread::scope(|scope| {
        let running = scope.spawn(move || {
            hurry();
            let broker = start(args.broker.as_deref())?;
            let address = broker.address(Protocol::Mqtt);
            let address = address.ok_or_else(|| io::Error::other("the broker has no MQTT"))?;
            let spent = || (broker.usage().cpu_s, clock::process_cpu() as f64 * 1e-9);
            let before = spent();
            let room = Room {
                abreast: args.rate_max as usize,
                busy_max: f64::INFINITY,
            };
            let rate = |task: &Task| task.scenario.rate.ceil() as usize;
            let measure = |task| stage::run(task, address, stop);
            pool::drive_by(tasks, room, &rate, stop, &measure, &mut |_, trial| {
                tell.send(trial).is_ok()
            });
            let after = spent();
            let broker = broker.is_metered().then_some(after.0 - before.0);
            Ok(json!({ "broker": broker, "clients": after.1 - before.1 }))
        });
        // Sums and files are made beside it: what sleeps must not wait for a disk.
        for trial in told {
            if !take(&trial.task.cell, trial.measured()) {
                break;
            }
        }
        let panicked = |_| Err(io::Error::other("what runs the cells of E5 panicked"));
        running.join().unwrap_or_else(panicked)
    })
}

/// One that runs, `mqtt://HOST[:PORT]`, or one of our own on the loopback.
fn start(url: Option<&str>) -> io::Result<Running> {
    let mut cell = studies::plan::cell("E5", "thalweg", studies::plan::mqtt(1)).into_cell();
    if let Some(url) = url {
        let rest = url.strip_prefix("mqtt://").unwrap_or(url);
        let rest = rest.trim_end_matches('/');
        cell.system = match rest.contains(':') {
            true => rest.to_owned(),
            false => format!("{rest}:1883"),
        };
        TcpStream::connect(&cell.system)
            .map_err(|error| io::Error::new(error.kind(), format!("{url}: {error}")))?;
    }
    // Each strategy has its own part of the address space.
    let policy = |name| format!("{{ filter = \"e5/{name}/#\", strategy = \"{name}\" }}");
    let policies = format!("[{}]", STRATEGIES.map(policy).join(", "));
    let settings = SETTINGS.map(|(key, value)| (key.to_owned(), value.to_owned()));
    cell.broker_settings = settings.into();
    (cell.broker_settings).insert("groups.policies".to_owned(), policies);
    Ok(brokers::start(&cell, None)?)
}

/// Puts this thread, and what it starts, before everything else that the machine does, if it may: what sleeps for
/// milliseconds has to wake up in time.
fn hurry() {
    let thread = rustix::thread::gettid().as_raw_nonzero().to_string();
    let _ = Command::new("chrt")
        .args(["--fifo", "--pid", "5", &thread])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
}

/// The strategies that cells ask for.
const STRATEGIES: [&str; 6] = [
    "random",
    "round-robin",
    "weighted",
    "least-outstanding",
    "score",
    "adaptive",
];
/// One shard, so that a group and its members are in one place; the protocol's limits are those of a broker that nobody has
/// configured.
const SETTINGS: [(&str, &str); 4] = [
    ("groups.adaptive_eviction", "true"),
    ("shards", "1"),
    ("mqtt.receive_maximum", "1024"),
    ("mqtt.inflight_max", "1024"),
];
