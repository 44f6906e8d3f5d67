//! The scenarios of the thesis: 15 s, a message every 10.44 ms, three members that take 25 ms each, or 25, 25 and 50.

use thalweg_model::Reliability;

use super::outcome::Outcome;
use super::scenario::{Acks, Arrivals, Law, Reports, Scenario, Worker, worker};

/// The publisher slept for 10 ms after each message: that was an effective 10.44 ms.
pub const PERIOD: f64 = 0.01044;
/// The period that fits the slope of the thesis's table 7: 97 % load.
pub const PERIOD_OF_TABLE_7: f64 = 0.01033;
/// The members' fast and slow service, as its handlers took.
pub const FAST: f64 = 0.02515;
/// See [`FAST`].
pub const SLOW: f64 = 0.05015;

/// How the members of the study are seen: as reliably they subscribe, and what they report.
pub type Seen = (Reliability, Reports);

/// Its client: a report each second, nothing acknowledged.
pub const REPORTS: Seen = (Reliability::AtMostOnce, Reports::Every(1.0));
/// With reports on events, too.
pub const EVENTS: Seen = (Reliability::AtMostOnce, Reports::Events(1.0));
/// Acknowledged when done, no report.
pub const ACKNOWLEDGES: Seen = (Reliability::AtLeastOnce, Reports::Never);
pub const SILENT: Seen = (Reliability::AtMostOnce, Reports::Never);

/// Scenario 1: equal members.
pub fn one(period: f64, seen: Seen, seed: u64) -> Scenario {
    scenario(FAST, period, seen, seed)
}

/// Scenario 2: one takes twice as long.
pub fn two(period: f64, seen: Seen, seed: u64) -> Scenario {
    scenario(SLOW, period, seen, seed)
}

fn scenario(third: f64, period: f64, seen: Seen, seed: u64) -> Scenario {
    let (reliability, reports) = seen;
    let see = |worker: Worker| Worker {
        rtt: 0.0014,
        acks: Acks::Processed,
        reliability,
        reports,
        ..worker
    };
    let mut scenario = Scenario::of([FAST, FAST, third].map(worker).map(see).to_vec())
        .with_law(Law::Nearly(0.003));
    scenario.arrivals = Arrivals::Publisher(0.03);
    scenario.rate = 1.0 / period;
    scenario.messages = (14.5 / period) as usize;
    scenario.quiet = 0.3 + 0.5 * (seed % 10) as f64 / 10.0;
    scenario.seed = seed;
    scenario
}

/// What a member got of messages 500 to 1000.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Steady {
    pub messages: usize,
    /// Mean wait until taken, in milliseconds.
    pub mean: f64,
    /// The longest, in milliseconds.
    pub longest: f64,
}

/// Tables 7 and 8 of the thesis: messages 500 to 1000, by member.
pub fn steady(outcome: &Outcome, member: usize) -> Steady {
    let own = outcome
        .taken
        .iter()
        .skip(500)
        .take(500)
        .filter(|(at, _)| *at == member);
    let waits: Vec<f64> = own.map(|(_, wait)| *wait * 1e3).collect();
    let messages = waits.len();
    Steady {
        messages,
        mean: waits.iter().sum::<f64>() / messages.max(1) as f64,
        longest: waits.iter().copied().fold(0.0, f64::max),
    }
}
