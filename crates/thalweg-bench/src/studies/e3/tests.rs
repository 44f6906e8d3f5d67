//! Cells and statements of E3, with made-up measurements.

use super::*;
use crate::cell::{Cell, Row, Standing};
use crate::studies::Study;
use crate::studies::group::{ARRIVED, groups, payload};
use crate::studies::plan::Budget;
use crate::studies::shape::{Found, Ruling, Shape};

fn quick() -> Vec<Cell> {
    Study::E3.cells(Budget::Quick, 3)
}

/// What came of the first cell of the quick run that is so.
fn trial(is_it: impl Fn(&Cell) -> bool, more: &[(&str, f64)]) -> (Cell, Row) {
    let cell = quick().into_iter().find(is_it);
    let more = more.iter().map(|(key, value)| ((*key).to_owned(), *value));
    let row = Row {
        more: more.collect(),
        expected: 1,
        delivered: 1,
        seconds: 1.0,
        ..Row::blank(Standing::Valid)
    };
    (cell.expect("it is in the quick run"), row)
}

/// The same of a policy of E3d on one Ethernet, by what arrived in a second.
fn policy(system: &str, (policy, fan_out, size): (&str, u32, u32), per_s: f64) -> (Cell, Row) {
    let is_it = |cell: &Cell| {
        (cell.system.as_str(), cell.fan_out, payload(cell)) == (system, fan_out, Some(size))
            && is_policy(cell, policy)
    };
    trial(is_it, &[(ARRIVED, per_s)])
}

fn is_policy(cell: &Cell, policy: &str) -> bool {
    cell.axes.get("policy").is_some_and(|it| it == policy)
}

fn judged(trials: &[(Cell, Row)], id: &str) -> Shape {
    let shapes = shapes(&groups(trials));
    let shape = shapes.into_iter().find(|shape| shape.id == id);
    shape.expect("it is there")
}

#[test]
fn a_steady_flow_has_a_neighbour_for_a_part_of_the_time() {
    for budget in [Budget::Quick, Budget::Standard] {
        let mut cells = Study::E3.cells(budget, 3);
        cells.retain(|cell| cell.experiment == "E3c");
        for system in ["mosquitto", "thalweg", "zmq-peers", "cyclonedds"] {
            assert!(cells.iter().any(|cell| cell.system == system), "{system}");
        }
        for cell in &cells {
            let plan = crate::trial::Plan::of(cell).expect("a plan");
            let items: Vec<_> = plan.schedule().expect("times").collect();
            let burst = items.iter().filter(|item| item.flow == 1);
            let burst: Vec<u64> = burst.map(|item| item.at).collect();
            let (Some(first), Some(last)) = (burst.first(), burst.last()) else {
                panic!("no burst")
            };
            let end = cell.phases.warmup_ns + cell.phases.measure_ns;
            let is_within = *first > end / 10 && *last < end * 7 / 10;
            assert!(is_within, "{first} {last} {end}");
            let rate = (items.len() - burst.len()) as f64 / end as f64 * 1e9;
            let bits = rate * 8.0 * f64::from(payload(cell).expect("a size"));
            assert!(bits < 1.02 * 25e6 && rate < 1.02 * 2000.0, "{bits} {rate}");
            let is_large = |item: &crate::load::Item| item.size == 2 << 20;
            assert!(items.iter().all(|item| is_large(item) == (item.flow == 1)));
        }
    }
}

#[test]
fn policies_are_measured_on_a_bridge_beside_their_base() {
    for cell in Study::E3.cells(Budget::Standard, 3) {
        let is_it = cell.system == CYCLONE && cell.experiment == "E3d";
        let is_bridge = cell.link.bridged && cell.link.rate == Some(LINK_BITS);
        assert!(!is_it || is_bridge, "{}", cell.key());
    }
    let rate = |it, per_s| policy(CYCLONE, it, per_s);
    let good = [
        rate((BASE, 1, 64), 1000.0),
        rate((BATCHES, 1, 64), 4000.0),
        rate((BASE, 7, 64), 7000.0),
        rate((MULTICAST, 7, 64), 28_000.0),
        rate((BASE, 7, 32_768), 300.0),
        rate((MULTICAST, 7, 32_768), 2000.0),
    ];
    for id in ["S3.4", "S3.5"] {
        let shape = judged(&good, id);
        assert_eq!(shape.baseline.ruling, Ruling::Reproduced, "{shape:?}");
        assert!(shape.baseline.figures.contains("4.00 times"));
        assert_eq!(shape.ours, Found::nothing());
    }
    let bad = [
        rate((BASE, 7, 64), 7000.0),
        rate((MULTICAST, 7, 64), 8000.0),
    ];
    let ruling = judged(&bad, "S3.4").baseline.ruling;
    assert!(matches!(ruling, Ruling::Not(_)), "{ruling:?}");
    assert_eq!(judged(&bad, "S3.5").baseline, Found::nothing());
}

#[test]
fn our_groups_are_measured_on_the_same_bridge_as_a_copy_for_each() {
    let rate = |policy: &str, size: u32, per_s: f64| {
        let is_it = |cell: &Cell| {
            cell.system == OURS
                && cell.link.bridged
                && is_policy(cell, policy)
                && payload(cell) == Some(size)
        };
        let trial = trial(is_it, &[(ARRIVED, per_s)]);
        assert_eq!((trial.0.fan_out, trial.0.link.rate), (7, Some(LINK_BITS)));
        assert_eq!(trial.0.extras.multicast, policy != BASE);
        trial
    };
    // It has a base of its own, with the same receivers.
    let (other, _) = trial(
        |cell| cell.system == OURS && cell.extras.lifespan_ms > 0,
        &[],
    );
    assert_ne!(other.publish, rate(BASE, 64, 1.0).0.publish);
    let found = |small: f64, repaired: f64, large: f64| {
        let trials = [
            rate(BASE, 64, 10_000.0),
            rate(MULTICAST, 64, small),
            rate(BOTH, 64, 40_000.0),
            rate(BASE, 1024, 10_000.0),
            rate(REPAIRED, 1024, repaired),
            rate(BASE, 32_768, 350.0),
            rate(MULTICAST, 32_768, large),
        ];
        judged(&trials, "S3.4").ours
    };
    let good = found(30_000.0, 31_000.0, 1300.0);
    assert_eq!(good.ruling, Ruling::Reproduced, "{}", good.figures);
    assert!(good.figures.contains("Multicast+Repair, 1024 B"));
    for (small, repaired, large) in [
        (29_000.0, 31_000.0, 1300.0),
        (30_000.0, 29_000.0, 1300.0),
        (30_000.0, 31_000.0, 1200.0),
    ] {
        let bad = found(small, repaired, large);
        assert!(matches!(bad.ruling, Ruling::Not(_)), "{}", bad.figures);
    }
    let of_large = [rate(BASE, 32_768, 350.0), rate(MULTICAST, 32_768, 1300.0)];
    let part = judged(&of_large, "S3.4").ours.ruling;
    assert_eq!(part, Ruling::Under("without 64 B".to_owned()));
}

#[test]
fn our_client_is_measured_with_its_paces_beside_none() {
    let paced = |name: &str, paces: (bool, bool), per_s: f64, mean_us: f64| {
        let (cell, mut row) = policy(OURS, (name, 1, 64), per_s);
        assert_eq!((cell.extras.turbo, cell.extras.throttle), paces, "{name}");
        (row.response.count, row.response.mean) = (100, mean_us);
        (cell, row)
    };
    for (turbo, throttled, latency, id, holds) in [
        (1300.0, 800.0, 700.0, "S3.5", true),
        (1300.0, 800.0, 700.0, "S3.6", true),
        (1100.0, 800.0, 700.0, "S3.5", false),
        (1300.0, 700.0, 700.0, "S3.6", false),
        (1300.0, 800.0, 950.0, "S3.6", false),
    ] {
        let trials = [
            paced(BASE, (false, false), 1000.0, 900.0),
            paced(BATCHES, (true, false), turbo, 900.0),
            paced(THROTTLE, (false, true), throttled, latency),
        ];
        let ruling = judged(&trials, id).ours.ruling;
        assert_eq!(ruling == Ruling::Reproduced, holds, "{id}: {ruling:?}");
    }
}

#[test]
fn what_subscribers_get_late_often_or_first_is_judged_by_what_was_allowed() {
    let is_ours = |cell: &Cell, policy: &str| cell.system == OURS && is_policy(cell, policy);
    for (rate, oldest_us, beside_us, holds) in [
        (495.0, 1.4e6, 2900.0, [true; 3]),
        (489.0, 1.6e6, 3100.0, [false; 3]),
        (511.0, 1.4e6, 2900.0, [false, true, true]),
    ] {
        let latencies = [
            ("before_burst_p99_us", 1000.0),
            ("during_burst_p99_us", beside_us),
        ];
        let mut old = trial(|cell| is_ours(cell, LIFESPAN), &[]);
        old.1.response.max = oldest_us;
        let trials = [
            trial(|cell| is_ours(cell, RATE), &[(ARRIVED, rate)]),
            old,
            trial(|cell| is_ours(cell, PRIORITY), &latencies),
        ];
        let found = ["C, rate limit", "C, lifespan", "C, priority"]
            .map(|id| judged(&trials, id).ours.ruling == Ruling::Reproduced);
        assert_eq!(found, holds, "{rate} {oldest_us} {beside_us}");
    }
}

#[test]
fn alarms_of_a_class_have_connections_of_their_own_and_a_link_that_heeds_it() {
    let mut cells = quick();
    cells.retain(|cell| is_policy(cell, CLASSED));
    assert_eq!(cells.len(), 2);
    for cell in cells {
        assert!(cell.link.classes && cell.extras.alarms && !cell.extras.wildcard);
        assert_eq!(crate::drivers::connections(&cell), 2);
        for (during, holds) in [(590.0, true), (610.0, false)] {
            let latencies = [
                ("before_burst_p99_us", 200.0),
                ("during_burst_p99_us", during),
            ];
            let found = judged(&[trial(|it| *it == cell, &latencies)], "C, priority");
            assert_eq!(found.ours.ruling == Ruling::Reproduced, holds, "{found:?}");
        }
    }
}

#[test]
fn what_a_neighbour_does_is_judged_by_the_deviation_meanwhile() {
    let sd = |system: &str, us: f64| {
        let is_it = |cell: &Cell| {
            (cell.experiment.as_str(), cell.system.as_str()) == ("E3c", system)
                && payload(cell) == Some(64)
        };
        let more = [
            ("during_burst_sd_us", us),
            ("before_burst_sd_us", 10.0),
            ("recovery_ms", 200.0),
        ];
        trial(is_it, &more)
    };
    let [mosquitto, cyclone, zeromq] = [
        sd("mosquitto", 7284.0),
        sd("cyclonedds", 125.0),
        sd("zmq-peers", 1799.0),
    ];
    let shape = judged(
        &[mosquitto.clone(), cyclone.clone(), zeromq.clone()],
        "S3.8",
    );
    assert_eq!(shape.baseline.ruling, Ruling::Reproduced, "{shape:?}");
    assert!(shape.baseline.figures.contains("as before after 200 ms"));
    assert_eq!(shape.ours, Found::nothing());
    let ruling = judged(&[mosquitto, zeromq], "S3.8").baseline.ruling;
    assert_eq!(ruling, Ruling::Under("without DDS at 64 B".to_owned()));
    let ruling = judged(&[sd("thalweg", 100.0), cyclone], "S3.8").ours.ruling;
    assert!(matches!(ruling, Ruling::Not(_)), "{ruling:?}");
}
