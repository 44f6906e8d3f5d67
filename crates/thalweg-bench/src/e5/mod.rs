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

mod lab;
mod line;
pub mod plan;
mod stage;
mod task;
mod trial;

use std::fs;
use std::io;
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc;
use std::thread;

use serde_json::{Value, json};

use crate::brokers::{self, Running};
use crate::cell::{Cell, Measured, Protocol};
use crate::studies;
use crate::studies::args::SuiteArgs;
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
            let broker = start(args.broker.as_deref())?;
            let address = broker.address(Protocol::Mqtt);
            let address = address.ok_or_else(|| io::Error::other("the broker has no MQTT"))?;
            let theirs = || broker.is_metered().then(|| broker.usage().cpu_s);
            let before = (own_cpu_s(), theirs());
            Lab::new(address)?.run(tasks, args.rate_max, stop, &tell)?;
            let spent = |before: Option<f64>, after: Option<f64>| Some(after? - before?);
            let (clients, broker) = (spent(before.0, own_cpu_s()), spent(before.1, theirs()));
            Ok(json!({ "broker": broker, "clients": clients }))
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

/// Processor seconds of this process, in ticks of a hundredth (proc(5), fields 14 and 15).
fn own_cpu_s() -> Option<f64> {
    let text = fs::read_to_string("/proc/self/stat").ok()?;
    // The name in parentheses may hold anything; what follows it are fields 3 and on.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?;
    Some(ticks / 100.0)
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

/// The strategies that cells ask for.
const STRATEGIES: [&str; 8] = [
    "random",
    "round-robin",
    "sticky",
    "hash-topic",
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
