//! What cells of all studies are made of, and how many repeats they get.

use std::time::Duration;

use crate::cell::{Cell, Leg, Load, Phases, Protocol, Workload};
use crate::scenario;
use crate::sim::random::Random;

/// How much is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Budget {
    /// A run of some minutes
    Quick,
    /// A run of some hours
    Standard,
    /// As the studies did
    Paper,
}

/// Which parts are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    /// The scenarios of the study itself.
    Core,
    /// What becomes of them when something is different.
    Sweeps,
    /// Rows with bars against the work-conserving limit.
    Bars,
}

/// A cell that is being described.
#[derive(Clone, Debug)]
pub struct Draft(Cell);

/// What every cell begins as: one flow over the loopback.
pub fn cell(experiment: &str, system: &str, leg: Leg) -> Draft {
    Draft(Cell {
        experiment: experiment.to_owned(),
        axes: [
            ("system".to_owned(), system.to_owned()),
            ("way".to_owned(), short_way(&leg)),
        ]
        .into(),
        system: system.to_owned(),
        publish: leg,
        subscribe: leg,
        workload: Workload::Fixed { bytes: 60 },
        load: Load::Closed {
            think_ns: 0,
            flows: 1,
        },
        phases: phases(0.3, 0.5, 3.0, 3.0),
        ..Cell::blank()
    })
}

impl Draft {
    /// Says where it is on an axis.
    pub fn at(mut self, axis: &str, value: impl ToString) -> Draft {
        self.0.axes.insert(axis.to_owned(), value.to_string());
        self
    }

    /// Says what is different about it.
    pub fn with(mut self, change: impl FnOnce(&mut Cell)) -> Draft {
        change(&mut self.0);
        self
    }

    /// Payloads of this size.
    pub fn payload(self, bytes: u32) -> Draft {
        self.at("payload", bytes)
            .with(|cell| cell.workload = Workload::Fixed { bytes })
    }

    /// Open loop: so many flows, so many messages a second of each.
    pub fn open(self, rate: f64, flows: u32) -> Draft {
        self.with(|cell| cell.load = Load::open(rate, flows))
    }

    /// It as it is, the first repeat.
    pub fn into_cell(self) -> Cell {
        self.0
    }
}

/// So many repeats of a cell, each with a seed of its own.
pub fn repeats(cell: &Cell, count: u32, seed: u64) -> impl Iterator<Item = Cell> {
    (0..count).map(move |repeat| Cell {
        repeat,
        seed: seed + u64::from(repeat),
        ..cell.clone()
    })
}

/// Settle, warm-up, measure and drain in seconds.
pub fn phases(settle: f64, warmup: f64, measure: f64, drain: f64) -> Phases {
    let ns = |seconds: f64| Duration::from_secs_f64(seconds).as_nanos() as u64;
    Phases {
        settle_ns: ns(settle),
        warmup_ns: ns(warmup),
        measure_ns: ns(measure),
        drain_ns: ns(drain),
    }
}

/// MQTT 5 with the window that is usual.
pub fn mqtt(qos: u8) -> Leg {
    Leg::of(Protocol::Mqtt, qos)
}

/// CoAP, confirmable or not.
pub fn coap(is_confirmable: bool) -> Leg {
    Leg::of(Protocol::Coap, u8::from(is_confirmable))
}

/// One of three, by the budget.
pub fn by<T>(budget: Budget, quick: T, standard: T, paper: T) -> T {
    match budget {
        Budget::Quick => quick,
        Budget::Standard => standard,
        Budget::Paper => paper,
    }
}

/// Puts cells into an order drawn from the seed, all first repeats before all second ones.
pub fn shuffle(cells: &mut [Cell], seed: u64) {
    scenario::shuffle(cells, &mut Random::new(seed));
    cells.sort_by_key(|cell| cell.repeat);
}

/// A leg in the letters of a file name.
fn short_way(leg: &Leg) -> String {
    match (leg.protocol, leg.qos) {
        (Protocol::Mqtt, qos) if leg.window == 1 => format!("mqtt-q{qos}-w1"),
        (Protocol::Mqtt, qos) => format!("mqtt-q{qos}"),
        (Protocol::Coap, 0) => "coap-non".to_owned(),
        (Protocol::Coap, _) => "coap-con".to_owned(),
        (protocol, qos) => format!("{}-q{qos}", super::group::name(protocol).to_lowercase()),
    }
}
