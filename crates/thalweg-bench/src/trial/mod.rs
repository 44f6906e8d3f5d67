//! A trial: one cell measured.
//!
//! *Knows:* a broker, a network, drivers, a schedule. *Must never know:* what a study wants of it.
//!
//! ```text
//!  run ──> network ──> broker ──> connect, settle ──> [ warm-up ][ measure ][ drain ] ──> Measured
//!                                   sender thread: Pacer ──> Publisher      receiver thread: Subscriber ──> Got
//!                                   this thread: meters each second, looks when all has come
//! ```
//!
//! Several trials may run side by side in one process if each has namespaces of its own.

mod before;
mod inside;
mod meters;
mod outside;
mod plan;
pub mod pump;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

use rustix::thread::{CpuSet, sched_setaffinity};

pub use plan::Plan;

use crate::brokers::calls::Counting;
use crate::brokers::{self, NoBroker, Running, System};
use crate::cell::{Cell, Driver, Load, Measured, Row, Standing, Workload};
use crate::drivers::{Job, speaks};
use crate::load::verdict::{Evidence, judge};
use crate::load::{Books, Times};
use crate::net::Network;
use crate::net::capture::Capture;
use crate::net::network::{self, name_of_ours};
use meters::Metered;

/// Measures a cell. What went wrong is in the row's standing; but a panic ends a release (ADR 0110), and `--resume` measures the
/// rest. `stop` ends it early: what there is by then is handed over as `invalid("interrupted")`.
///
/// Wire bytes are those from the end of the warm-up to the end of the drain; what is under way at the border is counted as
/// it falls. Where each byte matters, a cell has no warm-up.
pub fn run(cell: &Cell, stop: &AtomicBool) -> Measured {
    attempt(cell, stop).unwrap_or_else(Measured::nothing)
}

/// What a trial gave, before it is judged.
#[derive(Debug)]
struct Played {
    books: Books,
    times: Times,
    metered: Metered,
    unacknowledged: u64,
    /// Received and thrown away.
    overflow: u64,
    counts: Vec<(&'static str, f64)>,
    events: Vec<(u64, String)>,
    trouble: Option<String>,
    /// When it was stopped.
    interrupted: Option<u64>,
}

fn attempt(cell: &Cell, stop: &AtomicBool) -> Result<Measured, Standing> {
    let invalid = |why: String| Standing::Invalid(why);
    for leg in [&cell.publish, &cell.subscribe] {
        speaks(cell.driver, leg.protocol).map_err(invalid)?;
    }
    let plan = Plan::of(cell).map_err(invalid)?;
    let run = number();
    let network = match cell.link.namespaces {
        true => Some(network(cell, &format!("t{run}")).map_err(invalid)?),
        false => None,
    };
    // Before anything talks; and before the broker's threads and ours are there, of which it is none.
    let capture = network
        .as_ref()
        .filter(|_| is_captured(cell))
        .and_then(|network| Capture::start(network).ok());
    let started = brokers::start(cell, network.as_ref().map(Network::broker));
    let broker = started.map_err(|error| match error {
        NoBroker::Absent(install) => Standing::Absent(install),
        NoBroker::Failed(error) => invalid(format!("the broker: {error}")),
    })?;
    let (Some(publish_at), Some(subscribe_at)) = (
        broker.address(cell.publish.protocol),
        broker.subscribe_address(cell.subscribe.protocol),
    ) else {
        return Err(invalid(
            "the broker does not speak these protocols".to_owned(),
        ));
    };
    let mut job = Job::of(cell, run, publish_at, subscribe_at);
    job.ca = broker.certificate.clone().or(job.ca);
    let (network, capture) = (network.as_ref(), capture.as_ref());
    let calls = cell.calls.map(|by| Counting::of(&broker, by));
    let stage = Stage {
        cell,
        plan: &plan,
        job: &job,
        broker: &broker,
        network,
        capture,
        calls: calls.as_ref(),
        stop,
    };
    let mut played = stage.play()?;
    played.metered.calls = calls.map(Counting::total);
    Ok(measured(cell, &broker, played))
}

/// The network that a cell asks for.
fn network(cell: &Cell, word: &str) -> Result<Network, String> {
    network::is_possible()?;
    network::sweep();
    let network = Network::up(&name_of_ours(word), &cell.link, cell.seed);
    network.map_err(|error| format!("the network: {error}"))
}

/// Everything that a trial is played with.
#[derive(Clone, Copy)]
struct Stage<'a> {
    cell: &'a Cell,
    plan: &'a Plan,
    job: &'a Job,
    broker: &'a Running,
    network: Option<&'a Network>,
    capture: Option<&'a Capture>,
    calls: Option<&'a Counting>,
    stop: &'a AtomicBool,
}

impl Stage<'_> {
    /// Plays it on a thread of its own, in the clients' namespace and on the clients' core.
    fn play(&self) -> Result<Played, Standing> {
        let before = meters::Threads::of_all();
        thread::scope(|scope| {
            let playing = scope.spawn(|| {
                if let Some(network) = self.network {
                    network
                        .client()
                        .enter()
                        .map_err(|error| Standing::Invalid(error.to_string()))?;
                }
                if let Some(core) = self.cell.cpus.1 {
                    let mut cores = CpuSet::new();
                    cores.set(core);
                    sched_setaffinity(None, &cores).map_err(|error| {
                        Standing::Invalid(format!("core {core} for the clients: {error}"))
                    })?;
                }
                match self.cell.driver {
                    Driver::Stock => outside::play(self),
                    Driver::Common | Driver::Bare => {
                        inside::play(self, &before).map_err(Standing::Invalid)
                    }
                }
            });
            playing
                .join()
                .unwrap_or_else(|_| Err(Standing::Invalid("the trial panicked".to_owned())))
        })
    }
}

/// Whether every frame is looked at, to tell bytes by their cause: that costs time for each, so it is done for small loads
/// only.
fn is_captured(cell: &Cell) -> bool {
    if System::named(&cell.system).is_some_and(|system| system.is_peers) {
        // What they say is not read.
        return false;
    }
    match &cell.load {
        Load::Open { rate, flows, .. } => {
            rate * f64::from(*flows) * f64::from(1 + cell.fan_out) <= CAPTURED_MAX
        }
        Load::Closed { think_ns, flows } => {
            u64::from(*flows) * 1_000_000_000 <= think_ns * CAPTURED_MAX as u64
        }
        Load::Replay { .. } | Load::Flood { .. } => false,
    }
}

/// Messages a second, sent and received.
const CAPTURED_MAX: f64 = 400.0;

fn measured(cell: &Cell, broker: &Running, played: Played) -> Measured {
    let Played {
        books,
        times,
        metered,
        unacknowledged,
        overflow,
        counts,
        mut events,
        trouble,
        interrupted,
    } = played;
    let end = interrupted.unwrap_or(times.end).min(times.end);
    let seconds = end.saturating_sub(times.measure) as f64 / 1e9;
    let standing = match (interrupted, trouble) {
        (Some(_), _) => Standing::Invalid("interrupted".to_owned()),
        (None, Some(trouble)) => Standing::Invalid(trouble),
        (None, None) => judge(&evidence(cell, &books, &metered, seconds, overflow)),
    };
    let mut row = Row {
        unacknowledged,
        seconds,
        ..books.row(cell.copies(), standing)
    };
    metered.fill(&mut row);
    let counts = counts
        .into_iter()
        .map(|(name, count)| (name.to_owned(), count));
    row.more.extend(counts);
    row.more.extend(metered.causes.iter().cloned());
    row.more.insert("overflow".to_owned(), overflow as f64);
    let mut rows = books.seconds();
    metered.fill_seconds(&mut rows);
    events.push((0, format!("broker {}: {}", cell.system, broker.version)));
    if !broker.configuration.is_empty() {
        events.push((0, format!("configuration: {}", broker.configuration)));
    }
    if books.sent.held_back > 0 {
        let words = format!(
            "{} of {} messages were not taken when they were due: the broker held them back",
            books.sent.held_back, books.sent.intended
        );
        events.push((times.end - times.begin, words));
    }
    events.extend(metered.notes);
    events.sort();
    Measured {
        row,
        response: books.got.response,
        service: books.got.service,
        seconds: rows,
        events,
        messages: Default::default(),
    }
}

fn evidence(
    cell: &Cell,
    books: &Books,
    metered: &Metered,
    seconds: f64,
    overflow: u64,
) -> Evidence {
    let has_schedule = matches!(cell.load, Load::Open { .. } | Load::Replay { .. });
    let period = match &cell.load {
        Load::Open { rate, .. } if *rate > 0.0 => Some(1e9 / rate),
        // A class has no period, but a mean distance between two messages of a flow.
        Load::Replay { flows, .. } if matches!(cell.workload, Workload::Class { .. }) => {
            Some(seconds * 1e9 * f64::from(*flows) / books.sent.intended.max(1) as f64)
        }
        _ => None,
    };
    let (busiest, all) = metered.client_parts(seconds);
    Evidence {
        intended: books.sent.intended,
        sent: books.sent.sent,
        expected: books.sent.sent * u64::from(cell.copies()),
        delivered: books.got.delivered,
        beside: books.got.beside.as_ref().map(|beside| beside.bursts.0),
        is_flood: matches!(cell.load, Load::Flood { .. }),
        held_back: books.sent.held_back,
        lag_p99: (has_schedule && !books.sent.lag.is_empty())
            .then(|| books.sent.lag.value_at_quantile(0.99)),
        period,
        busiest,
        core: cell.cpus.1.map(|_| all),
        overflow,
        emulator_full: metered.emulator_lost > 0,
    }
}

/// A number that no other trial of this machine has at this time.
fn number() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    std::process::id().wrapping_shl(12) | NEXT.fetch_add(1, Ordering::Relaxed) & 0xFFF
}

#[cfg(test)]
mod tests;
