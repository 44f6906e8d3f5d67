//! E0.6: gaps, repetitions and reordering that were put in are counted, each as often as it was put in and no other.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use super::fake::Fate;
use super::{Finding, Wishes, cell};
use crate::cell::{Driver, Row, Standing};
use crate::sim::random::Random;
use crate::studies::plan::phases;

/// What is put in: which message of which flow has which fate. So many of each kind among `messages` of each of `flows` flows,
/// where the seed says.
fn draw(seed: u64, flows: u32, messages: u64, of_each: usize) -> BTreeMap<(u32, u64), Fate> {
    let mut dice = Random::new(seed);
    let mut fates: BTreeMap<(u32, u64), Fate> = BTreeMap::new();
    for fate in [Fate::Never, Fate::Twice, Fate::BehindNext] {
        let mut left = of_each;
        while left > 0 {
            let flow = (dice.draw() % u64::from(flows)) as u32;
            // The last ones have no later message that could overtake them.
            let number = dice.draw() % (messages - 4);
            // Two messages between two incidents: a message that overtakes no other is not reordered.
            let mut near = number.saturating_sub(2)..=number + 2;
            if near.all(|near| !fates.contains_key(&(flow, near))) {
                fates.insert((flow, number), fate);
                left -= 1;
            }
        }
    }
    fates
}

pub fn run(wishes: &Wishes, stop: &AtomicBool) -> Vec<Finding> {
    let of_each = if wishes.quick { 20 } else { 100 };
    let mut findings = Vec::new();
    for (driver, qos) in [
        (Driver::Bare, 0),
        (Driver::Bare, 1),
        (Driver::Bare, 2),
        (Driver::Common, 0),
    ] {
        match measure(driver, qos, of_each, wishes.seed, stop) {
            Ok(row) => findings.push(judge(driver, qos, of_each, &row)),
            Err(error) => findings.push(Finding::skipped("counting", error.to_string())),
        }
    }
    findings
}

fn measure(
    driver: Driver,
    qos: u8,
    of_each: usize,
    seed: u64,
    stop: &AtomicBool,
) -> std::io::Result<Row> {
    // Twenty times as many messages as incidents of a kind.
    let messages = of_each as u64 * 20 / u64::from(FLOWS);
    let fates = draw(seed, FLOWS, messages, of_each);
    let service = move |topic: &str, number: u64, now: u64| {
        let flow = topic.rsplit('/').next().and_then(|flow| flow.parse().ok());
        let fate = flow.and_then(|flow| fates.get(&(flow, number)));
        fate.copied().unwrap_or(Fate::At(now))
    };
    // What was put in does not come any more: the drain ends by itself only where nothing is missing.
    let phases = phases(0.0, 0.0, messages as f64 / RATE, 1.0);
    let cell = cell(qos, 20, RATE, FLOWS)
        .with(|cell| (cell.driver, cell.phases, cell.seed) = (driver, phases, seed));
    Ok(super::measure(cell, Box::new(service), stop)?.row)
}

fn judge(driver: Driver, qos: u8, of_each: usize, row: &Row) -> Finding {
    if let Standing::Invalid(why) = &row.standing {
        return Finding::skipped(format!("{driver:?}, QoS {qos}"), why.clone());
    }
    let each = of_each as u64;
    let expected = [row.sent, row.sent - each, each, each, each];
    let (came, lost) = (row.delivered, row.lost);
    let measured = [row.intended, came, lost, row.duplicates, row.reordered];
    let words = |of: [u64; 5]| {
        let [sent, came, lost, twice, behind] = of;
        format!("{sent} sent, {came} came, {lost} lost, {twice} twice, {behind} behind a later one")
    };
    Finding::new(
        format!("{driver:?} driver, MQTT QoS {qos}: {of_each} messages left out, doubled, put behind the next")
            .to_lowercase(),
        words(expected),
        words(measured),
        expected == measured,
    )
}

const FLOWS: u32 = 4;
/// Messages a second of each flow.
const RATE: f64 = 200.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_in_is_counted() {
        for (driver, qos) in [(Driver::Bare, 0), (Driver::Bare, 1), (Driver::Common, 0)] {
            let row = measure(driver, qos, 10, 3, &AtomicBool::new(false)).expect("a port is free");
            let finding = judge(driver, qos, 10, &row);
            assert_eq!(finding.verdict, super::super::Verdict::Held, "{finding:?}");
        }
    }
}
