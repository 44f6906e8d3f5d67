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

/// What came of the first cell of the quick run that has these words.
fn trial(words: &str, more: &[(&str, f64)]) -> (Cell, Row) {
    let cell = quick().into_iter().find(|cell| has(cell, words));
    (cell.expect("it is in the quick run"), row(more))
}

fn row(more: &[(&str, f64)]) -> Row {
    let more = more.iter().map(|(key, value)| ((*key).to_owned(), *value));
    Row {
        more: more.collect(),
        expected: 1,
        delivered: 1,
        seconds: 1.0,
        ..Row::blank(Standing::Valid)
    }
}

/// The same of a policy, by what arrived in a second.
fn rate(words: &str, per_s: f64) -> (Cell, Row) {
    trial(&format!("E3d {words}"), &[(ARRIVED, per_s)])
}

fn beside_a_burst(before: f64, during: f64) -> [(&'static str, f64); 2] {
    [
        ("before_burst_p99_us", before),
        ("during_burst_p99_us", during),
    ]
}

fn judged(trials: &[(Cell, Row)], id: &str) -> Shape {
    let shapes = shapes(&groups(trials));
    let shape = shapes.into_iter().find(|shape| shape.id == id);
    shape.expect("it is there")
}

/// Whether a statement holds for ours.
fn holds(trials: &[(Cell, Row)], id: &str) -> bool {
    judged(trials, id).ours.ruling == Ruling::Reproduced
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
        let is_bridge = cell.link.bridged && cell.link.rate == Some(LINK_BITS);
        assert!(!has(&cell, "E3d cyclonedds") || is_bridge, "{}", cell.key());
    }
    let good = [
        rate("cyclonedds base 1-1 64", 1000.0),
        rate("cyclonedds Turbo 1-1 64", 4000.0),
        rate("cyclonedds base 1-7 64", 7000.0),
        rate("cyclonedds Multicast 1-7 64", 28_000.0),
        rate("cyclonedds base 1-7 32768", 300.0),
        rate("cyclonedds Multicast 1-7 32768", 2000.0),
    ];
    for id in ["S3.4", "S3.5"] {
        let shape = judged(&good, id);
        assert_eq!(shape.baseline.ruling, Ruling::Reproduced, "{shape:?}");
        assert!(shape.baseline.figures.contains("4.00 times"));
        assert_eq!(shape.ours, Found::nothing());
    }
    let bad = [
        rate("cyclonedds base 1-7 64", 7000.0),
        rate("cyclonedds Multicast 1-7 64", 8000.0),
    ];
    let ruling = judged(&bad, "S3.4").baseline.ruling;
    assert!(matches!(ruling, Ruling::Not(_)), "{ruling:?}");
    assert_eq!(judged(&bad, "S3.5").baseline, Found::nothing());
}

#[test]
fn our_groups_are_measured_on_the_same_bridge_as_a_copy_for_each() {
    let rate = |words: &str, per_s: f64| {
        let trial = rate(&format!("thalweg 1-7 {words}"), per_s);
        let Cell { link, extras, .. } = &trial.0;
        assert_eq!((link.bridged, link.rate), (true, Some(LINK_BITS)));
        assert_eq!(extras.multicast, !words.starts_with(BASE));
        trial
    };
    // It has a base of its own, with the same receivers.
    let (other, _) = trial("thalweg Lifespan", &[]);
    assert_ne!(other.publish, rate("base 64", 1.0).0.publish);
    let found = |small: f64, repaired: f64, large: f64| {
        let trials = [
            rate("base 64", 10_000.0),
            rate("Multicast 64", small),
            rate("Multicast+Turbo 64", 40_000.0),
            rate("base 1024", 10_000.0),
            rate("Multicast+Repair 1024", repaired),
            rate("base 32768", 350.0),
            rate("Multicast 32768", large),
        ];
        judged(&trials, "S3.4").ours
    };
    let good = found(30_000.0, 31_000.0, 1300.0);
    assert_eq!(good.ruling, Ruling::Reproduced, "{}", good.figures);
    assert!(good.figures.contains("Multicast+Repair, 1024 B"));
    for bad in [
        found(29_000.0, 31_000.0, 1300.0),
        found(30_000.0, 29_000.0, 1300.0),
        found(30_000.0, 31_000.0, 1200.0),
    ] {
        assert!(matches!(bad.ruling, Ruling::Not(_)), "{}", bad.figures);
    }
    let of_large = [rate("base 32768", 350.0), rate("Multicast 32768", 1300.0)];
    let part = judged(&of_large, "S3.4").ours.ruling;
    assert_eq!(part, Ruling::Under("without 64 B".to_owned()));
}

#[test]
fn our_client_is_measured_with_its_paces_beside_none() {
    let paced = |name: &str, paces: (bool, bool), per_s: f64, mean_us: f64| {
        let (cell, mut row) = rate(&format!("thalweg {name} 1-1 64"), per_s);
        assert_eq!((cell.extras.turbo, cell.extras.throttle), paces, "{name}");
        (row.response.count, row.response.mean) = (100, mean_us);
        (cell, row)
    };
    for (turbo, throttled, latency, id, expected) in [
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
        let words = format!("{id} {turbo} {throttled} {latency}");
        assert_eq!(holds(&trials, id), expected, "{words}");
    }
}

#[test]
fn what_subscribers_get_late_often_or_first_is_judged_by_what_was_allowed() {
    for (per_s, oldest_us, beside_us, expected) in [
        (495.0, 1.4e6, 2900.0, [true; 3]),
        (489.0, 1.6e6, 3100.0, [false; 3]),
        (511.0, 1.4e6, 2900.0, [false, true, true]),
    ] {
        let mut old = trial("thalweg Lifespan", &[]);
        old.1.response.max = oldest_us;
        let trials = [
            rate("thalweg RateLimit", per_s),
            old,
            trial("thalweg Priority", &beside_a_burst(1000.0, beside_us)),
        ];
        let found = ["C, rate limit", "C, lifespan", "C, priority"].map(|id| holds(&trials, id));
        assert_eq!(found, expected, "{per_s} {oldest_us} {beside_us}");
    }
}

#[test]
fn alarms_of_a_class_have_connections_of_their_own_and_a_link_that_heeds_it() {
    let mut cells = quick();
    cells.retain(|cell| has(cell, CLASSED));
    assert_eq!(cells.len(), 2);
    for cell in cells {
        assert!(cell.link.classes && cell.extras.alarms && !cell.extras.wildcard);
        assert_eq!(crate::drivers::connections(&cell), 2);
        for (during, expected) in [(590.0, true), (610.0, false)] {
            let trials = [(cell.clone(), row(&beside_a_burst(200.0, during)))];
            assert_eq!(holds(&trials, "C, priority"), expected, "{during}");
        }
    }
}

#[test]
fn what_a_neighbour_does_is_judged_by_the_deviation_meanwhile() {
    let sd = |system: &str, us: f64| {
        let more = [
            ("during_burst_sd_us", us),
            ("before_burst_sd_us", 10.0),
            ("recovery_ms", 200.0),
        ];
        trial(&format!("E3c {system} 64"), &more)
    };
    let mosquitto = || sd("mosquitto", 7284.0);
    let (cyclone, zeromq) = (|| sd("cyclonedds", 125.0), || sd("zmq-peers", 1799.0));
    let shape = judged(&[mosquitto(), cyclone(), zeromq()], "S3.8");
    assert_eq!(shape.baseline.ruling, Ruling::Reproduced, "{shape:?}");
    assert!(shape.baseline.figures.contains("as before after 200 ms"));
    assert_eq!(shape.ours, Found::nothing());
    let ruling = judged(&[mosquitto(), zeromq()], "S3.8").baseline.ruling;
    assert_eq!(ruling, Ruling::Under("without DDS at 64 B".to_owned()));
    let ruling = judged(&[sd("thalweg", 100.0), cyclone()], "S3.8")
        .ours
        .ruling;
    assert!(matches!(ruling, Ruling::Not(_)), "{ruling:?}");
}
