//! E0.3: servers of which theory says how long one waits. With a fixed service time S and a load of ρ, messages that come
//! at equal distances (D/D/1) do not wait at all, and those that come without memory (M/D/1) wait ρS / (2(1 − ρ)) in the
//! mean. What the tool itself adds is in both, so that the difference of both means is the wait.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use super::fake::Fate;
use super::{Finding, Wishes, cell};
use crate::cell::{Driver, Load, Row, Standing, word};
use crate::load::schedule::Arrivals;
use crate::stats::{mean, mean_interval};
use crate::studies::plan::phases;

/// Servers, one for each topic, that take [`SERVICE`] for each message, one after the other: when each is free.
#[derive(Debug, Default)]
struct Servers(BTreeMap<String, u64>);

impl Servers {
    /// When a message that comes now is done.
    fn serve(&mut self, topic: &str, now: u64) -> u64 {
        let free = self.0.entry(topic.to_owned()).or_default();
        *free = now.max(*free) + SERVICE;
        *free
    }
}

pub fn run(wishes: &Wishes, stop: &AtomicBool) -> Vec<Finding> {
    let lasts = if wishes.quick { 2_000 * MS } else { 4_000 * MS };
    let (mut regular, mut random) = (Vec::new(), Vec::new());
    let mut notes = Vec::new();
    for (arrivals, means) in [
        (Arrivals::Periodic, &mut regular),
        (Arrivals::Poisson, &mut random),
    ] {
        // What a busy machine made invalid says nothing of the tool, and is measured again.
        for seed in wishes.seed..wishes.seed.saturating_add(TRIES) {
            if means.len() >= REPEATS || stop.load(Ordering::Relaxed) {
                break;
            }
            match measure(arrivals, lasts, seed, stop) {
                Ok(row) => match &row.standing {
                    Standing::Valid => means.push(row.response.mean / 1e3),
                    standing => notes.push(format!("{}: {standing:?}", word(arrivals))),
                },
                Err(error) => return vec![Finding::skipped("queueing", error.to_string())],
            }
        }
    }
    let told = notes
        .into_iter()
        .map(|note| Finding::told("a run did not count and was repeated", note));
    if regular.len() < REPEATS || random.len() < REPEATS {
        let wanted = format!("{REPEATS} runs of each that count");
        let found = format!("{} and {}", regular.len(), random.len());
        let what = "D/D/1 and M/D/1: this machine was too busy";
        let missed = Finding::new(what, wanted, found, false);
        return std::iter::once(missed).chain(told).collect();
    }
    let base = mean(&regular);
    let service = SERVICE as f64 / 1e6;
    let wait = LOAD * service / (2.0 * (1.0 - LOAD));
    let waits: Vec<f64> = random.iter().map(|mean| mean - base).collect();
    let interval = mean_interval(&waits, 0.95);
    let (low, high) = interval.map_or((f64::NAN, f64::NAN), |it| (it.low, it.high));
    let waited = mean(&waits);
    let close = |measured: f64, theory: f64| (measured / theory - 1.0).abs() <= TOLERANCE;
    let mut findings = vec![
        Finding::new(
            format!("D/D/1, S = {service:.0} ms, load {LOAD}: mean response"),
            format!("{service:.3} ms ± 5 %"),
            format!("{base:.3} ms ({:+.1} %)", (base / service - 1.0) * 100.0),
            close(base, service),
        )
        .with("response_mean_ms", base),
        Finding::new(
            format!(
                "M/D/1, S = {service:.0} ms, load {LOAD}: mean wait, response less that of D/D/1"
            ),
            format!("{wait:.3} ms ± 5 %"),
            format!(
                "{waited:.3} ms ({:+.1} %), 95 % {low:.3} to {high:.3} ms",
                (waited / wait - 1.0) * 100.0
            ),
            close(waited, wait),
        )
        .with("wait_mean_ms", waited)
        .with("wait_low_ms", low)
        .with("wait_high_ms", high),
    ];
    findings.extend(told);
    findings
}

/// One run of all servers.
fn measure(arrivals: Arrivals, lasts: u64, seed: u64, stop: &AtomicBool) -> std::io::Result<Row> {
    let mut servers = Servers::default();
    let service = move |topic: &str, _: u64, now: u64| Fate::At(servers.serve(topic, now));
    let (service_s, lasts_s) = (SERVICE as f64 / 1e9, lasts as f64 / 1e9);
    let phases = phases(0.0, 40.0 * service_s, lasts_s, 10.0);
    let (rate, flows) = (LOAD / service_s, SERVERS);
    let load = Load::Open {
        rate,
        flows,
        arrivals,
    };
    let cell = cell(0, 1, rate, flows).with(|cell| {
        (cell.driver, cell.phases, cell.seed) = (Driver::Bare, phases, seed);
        cell.load = load;
    });
    Ok(super::measure(cell, Box::new(service), stop)?.row)
}

/// How long a server takes, nanoseconds.
const SERVICE: u64 = 10 * MS;
const LOAD: f64 = 0.5;
/// Servers side by side: more messages in the same time.
const SERVERS: u32 = 64;
const REPEATS: usize = 7;
/// So many runs at most, until enough of them count.
const TRIES: u64 = 21;
const TOLERANCE: f64 = 0.05;
const MS: u64 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::schedule::{Schedule, Sizes};

    /// The same schedule and the same servers in virtual time; returns the mean response after the first ones.
    fn virtual_mean(arrivals: Arrivals, load: f64, seconds: u64) -> f64 {
        let (seed, end) = (1, seconds * 1_000 * MS);
        let rate = load / (SERVICE as f64 / 1e9);
        let (mut servers, mut responses) = (Servers::default(), Vec::new());
        for item in Schedule::open(rate, SERVERS, arrivals, Sizes::Fixed(60), seed, end) {
            let at = servers.serve(&item.flow.to_string(), item.at);
            if item.at >= 40 * SERVICE {
                responses.push((at - item.at) as f64);
            }
        }
        mean(&responses)
    }

    #[test]
    fn in_virtual_time_waits_are_what_theory_says() {
        let takes = SERVICE as f64;
        // The standard error is below 1 %: waits at a higher load depend on each other for longer. Without chance a run tells
        // all in a few seconds.
        for (load, seconds) in [(0.3, 250), (0.5, 250), (0.8, 500)] {
            let regular = virtual_mean(Arrivals::Periodic, load, 20);
            assert!((regular - takes).abs() < 2.0, "{regular}");
            let wait = virtual_mean(Arrivals::Poisson, load, seconds) - takes;
            let theory = load * takes / (2.0 * (1.0 - load));
            assert!(
                (wait / theory - 1.0).abs() < 0.03,
                "load {load}: {wait} for {theory}"
            );
        }
    }

    #[test]
    fn a_server_takes_one_after_the_other_and_each_topic_has_its_own() {
        let mut servers = Servers::default();
        let came = [("a", 0), ("a", 3), ("b", 4), ("a", 50)];
        let done = came.map(|(topic, now)| servers.serve(topic, now * MS));
        assert_eq!(done, [10, 20, 14, 60].map(|at| at * MS));
    }
}
