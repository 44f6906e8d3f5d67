//! Mean and 99th percentile in terms of the work-conserving limit.

use std::sync::Mutex;
use std::thread;

use thalweg_balance::GroupStrategy;
use thalweg_bench::sim::rows::{CONDITIONS, Condition, condition};
use thalweg_bench::sim::table::of_condition;
use thalweg_bench::sim::{Scenario, run};

/// At 95 and 99 % a hundred members need 100,000 messages to say anything, and there they are at the bar (1.15 to 1.16 of
/// 1.15) and beyond it (1.24): see `whole`.
#[test]
fn every_condition_is_near_the_limit() {
    let counts = |it: &&Condition| it.quick > 0 || it.scenario().counted.is_some();
    let all: Vec<&Condition> = CONDITIONS.iter().filter(counts).collect();
    assert!(all.len() > 45, "{}", all.len());
    let (all, missed) = (Mutex::new(all), Mutex::new(Vec::new()));
    let next = || all.lock().expect("no panic").pop();
    let measure = || {
        while let Some(condition) = next() {
            let strategy = GroupStrategy::Adaptive;
            let measured = condition.measure(strategy, condition.quick, 101..102);
            for row in of_condition(condition, &measured) {
                println!("{row}");
                if row.is_missed() {
                    missed.lock().expect("no panic").push(row.to_string());
                }
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(measure);
        }
    });
    let missed = missed.into_inner().expect("no panic");
    assert!(missed.is_empty(), "seed 101: {missed:#?}");
}

#[test]
fn the_first_seconds_of_members_that_acknowledge_on_receipt_are_stable() {
    // Fifteen seconds: what goes wrong before any acknowledgements are judged, and before the first reports, shows.
    let condition = condition("acknowledged on receipt, reports").expect("there is");
    let (mean, p99) = condition
        .measure(GroupStrategy::Adaptive, 7_875, 101..107)
        .ratio;
    assert!(
        mean <= 2.1 && p99 <= 2.1,
        "seeds 101 to 106: {mean:.2} and {p99:.2} of the limit"
    );
    let first = Scenario {
        messages: 500,
        ..condition.scenario()
    };
    let shares = run(&first, GroupStrategy::Adaptive).shares;
    assert!(
        shares.iter().all(|share| (25..=100).contains(share)),
        "nothing but turns is known yet: {shares:?}"
    );
}
