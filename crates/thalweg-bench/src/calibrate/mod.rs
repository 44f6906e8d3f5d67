//! Calibration: the laboratory measures what is known, before anything that it says of others counts.
//!
//! *Knows:* every part of the laboratory, and what each of them has to say of something whose answer is known. *Must
//! never know:* a broker that is in use.
//!
//! ```text
//!  1 ceiling   null sinks: what a driver could send at most
//!  2 stall     a broker that stalls: response times have the wait in them
//!  3 queueing  servers of which theory says how long one waits
//!  4 link      losses, rates, delays of the networks
//!  5 frames    bytes on the wire against those of the frames
//!  6 counting  gaps, repetitions and reordering that were put in are counted
//! ```

mod ceiling;
pub mod command;
mod counting;
pub mod fake;
pub(crate) mod frames;
pub mod link;
mod queueing;
mod stall;

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::AtomicBool;

use serde::Serialize;

use self::fake::{Fake, Service};
use crate::cell::{Leg, Measured, Protocol};
use crate::studies::plan::{self, Draft};
use crate::trial;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wishes {
    /// What everything random is drawn from.
    pub seed: u64,
    /// Shorter, in proportion; intervals are wider then.
    pub quick: bool,
}

/// Whether a finding is as it has to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    Held,
    Missed,
    /// Nothing is expected of it: it is good to know.
    Told,
    /// It could not be done here; why.
    Skipped(String),
}

/// One thing that was measured although it was known.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    pub what: String,
    /// What it has to be, in words.
    pub expected: String,
    /// What it is, in words.
    pub measured: String,
    /// Whether that is right.
    pub verdict: Verdict,
    /// Its numbers, by name with unit.
    pub figures: BTreeMap<String, f64>,
}

impl Finding {
    /// One that has to be so.
    pub fn new(
        what: impl Into<String>,
        expected: impl Into<String>,
        measured: impl Into<String>,
        holds: bool,
    ) -> Finding {
        let verdict = if holds {
            Verdict::Held
        } else {
            Verdict::Missed
        };
        Finding {
            what: what.into(),
            expected: expected.into(),
            measured: measured.into(),
            verdict,
            figures: BTreeMap::new(),
        }
    }

    /// One that is good to know.
    pub fn told(what: impl Into<String>, measured: impl Into<String>) -> Finding {
        Finding {
            verdict: Verdict::Told,
            ..Finding::new(what, "", measured, true)
        }
    }

    /// One that could not be looked at here.
    pub fn skipped(what: impl Into<String>, why: impl Into<String>) -> Finding {
        Finding {
            verdict: Verdict::Skipped(why.into()),
            ..Finding::new(what, "", "", true)
        }
    }

    /// Where that is so it is only good to know.
    #[must_use]
    pub fn told_if(mut self, is_so: bool) -> Finding {
        if is_so {
            self.verdict = Verdict::Told;
        }
        self
    }

    #[must_use]
    pub fn with(mut self, name: &str, value: f64) -> Finding {
        self.figures.insert(name.to_owned(), value);
        self
    }
}

/// A self-test of E0: its name, what it is about, and what runs it; that ends early when told to stop. Its number is its place
/// among the calibration's items, from 1.
pub type Check = (
    &'static str,
    &'static str,
    fn(&Wishes, &AtomicBool) -> Vec<Finding>,
);

pub const CHECKS: [Check; 6] = [
    (
        "ceiling",
        "what each driver can send into a null sink",
        ceiling::run,
    ),
    (
        "stall",
        "a broker that stalls shows in the response times",
        stall::run,
    ),
    (
        "queueing",
        "waits at servers of which theory knows them",
        queueing::run,
    ),
    ("link", "losses, rates and delays of networks", link::run),
    ("frames", "bytes on the wire, frame by frame", frames::run),
    ("counting", "gaps, repetitions, reordering", counting::run),
];

/// What was found; what is merely absent here says so itself, and anything else should have worked.
fn or_missed(name: &str, found: io::Result<Vec<Finding>>) -> Vec<Finding> {
    found.unwrap_or_else(|error| {
        let error = error.to_string();
        vec![Finding::new(name, "it can be measured", error, false)]
    })
}

/// MQTT 5, messages of 60 bytes: so many a second of each of so many flows, nothing before they are measured.
fn cell(qos: u8, window: u32, rate: f64, flows: u32) -> Draft {
    let leg = Leg {
        window,
        ..Leg::of(Protocol::Mqtt, qos)
    };
    plan::cell("E0", "", leg).open(rate, flows)
}

/// Measures a cell at a broker of ours on the loopback.
fn measure(cell: Draft, service: Service, stop: &AtomicBool) -> io::Result<Measured> {
    let fake = Fake::start(service)?;
    let cell = cell.with(|cell| cell.system = fake.address().to_string());
    Ok(trial::run(&cell.into_cell(), stop))
}
