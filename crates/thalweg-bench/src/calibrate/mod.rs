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
mod link;
mod queueing;
mod stall;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use serde::Serialize;

use crate::cell::{Cell, Driver, Leg, Load, Phases, Protocol, Workload};
use crate::net::check;

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

    #[must_use]
    pub fn with(mut self, name: &str, value: f64) -> Finding {
        self.figures.insert(name.to_owned(), value);
        self
    }
}

/// A self-test of E0.
#[derive(Clone, Copy, Debug)]
pub struct Check {
    /// Its number among the calibration's items, from 1.
    pub number: u8,
    pub name: &'static str,
    pub about: &'static str,
    /// Runs it; it ends early when told to stop.
    pub run: fn(&Wishes, &AtomicBool) -> Vec<Finding>,
}

pub const CHECKS: [Check; 6] = [
    Check {
        number: 1,
        name: "ceiling",
        about: "what each driver can send into a null sink",
        run: ceiling::run,
    },
    Check {
        number: 2,
        name: "stall",
        about: "a broker that stalls shows in the response times",
        run: stall::run,
    },
    Check {
        number: 3,
        name: "queueing",
        about: "waits at servers of which theory knows them",
        run: queueing::run,
    },
    Check {
        number: 4,
        name: "link",
        about: "losses, rates and delays of networks",
        run: links,
    },
    Check {
        number: 5,
        name: "frames",
        about: "bytes on the wire, frame by frame",
        run: frames,
    },
    Check {
        number: 6,
        name: "counting",
        about: "gaps, repetitions, reordering",
        run: counting::run,
    },
];

fn links(wishes: &Wishes, stop: &AtomicBool) -> Vec<Finding> {
    all(
        "links",
        link::everything(if wishes.quick { 10_000 } else { 100_000 }, stop),
    )
}

fn frames(_: &Wishes, _: &AtomicBool) -> Vec<Finding> {
    all("frames", frames::everything("thalweg"))
}

/// What the network's own tests say.
fn all(name: &str, found: std::io::Result<Vec<check::Finding>>) -> Vec<Finding> {
    let found = match found {
        Ok(found) => found,
        // What is merely absent here has said so itself; this should have worked.
        Err(error) => {
            return vec![Finding::new(
                name,
                "it can be measured",
                error.to_string(),
                false,
            )];
        }
    };
    let ours = |found: check::Finding| match (found.is_right, found.found.strip_prefix("skipped: "))
    {
        (Some(holds), _) => Finding::new(found.what, found.wanted, found.found, holds),
        (None, Some(why)) => Finding::skipped(found.what, why),
        (None, None) => Finding {
            expected: found.wanted,
            ..Finding::told(found.what, found.found)
        },
    };
    found.into_iter().map(ours).collect()
}

/// A cell at a broker of ours on the loopback: MQTT 5, 60 bytes, no settling, no warm-up.
fn cell(
    address: std::net::SocketAddr,
    driver: Driver,
    qos: u8,
    window: u32,
    load: Load,
    phases: Phases,
    seed: u64,
) -> Cell {
    let leg = Leg {
        protocol: Protocol::Mqtt,
        qos,
        version: 5,
        window,
    };
    Cell {
        experiment: "E0".to_owned(),
        seed,
        system: address.to_string(),
        driver,
        publish: leg,
        subscribe: leg,
        workload: Workload::Fixed { bytes: 60 },
        load,
        phases,
        ..Cell::blank()
    }
}
