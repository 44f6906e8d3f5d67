//! Cells and statements of E3, with made-up measurements.

use super::*;
use crate::cell::{Cell, Row, Standing};
use crate::studies::plan::Budget;
use crate::studies::shape::{Found, Ruling, Shape};
use crate::studies::{Study, group};

fn trial(cell: Cell, more: &[(&str, f64)]) -> (Cell, Row) {
    let more = more
        .iter()
        .map(|(key, value)| ((*key).to_owned(), *value))
        .collect();
    (
        cell,
        Row {
            more,
            expected: 1,
            delivered: 1,
            seconds: 1.0,
            ..Row::blank(Standing::Valid)
        },
    )
}

fn of<'s>(shapes: &'s [Shape], id: &str) -> &'s Shape {
    shapes
        .iter()
        .find(|shape| shape.id == id)
        .expect("it is there")
}

#[test]
fn a_steady_flow_has_a_neighbour_for_a_part_of_the_time() {
    for budget in [Budget::Quick, Budget::Standard] {
        let cells = Study::E3.cells(budget, 3);
        let some: Vec<&Cell> = cells
            .iter()
            .filter(|cell| cell.experiment == "E3c")
            .collect();
        for system in ["mosquitto", "thalweg", "zmq-peers", "cyclonedds"] {
            assert!(some.iter().any(|cell| cell.system == system), "{system}");
        }
        for cell in some {
            let plan = crate::trial::Plan::of(cell).expect("a plan");
            let items: Vec<_> = plan.schedule().expect("times").collect();
            let burst: Vec<u64> = items
                .iter()
                .filter(|item| item.flow == 1)
                .map(|item| item.at)
                .collect();
            let (Some(first), Some(last)) = (burst.first(), burst.last()) else {
                panic!("no burst")
            };
            let end = cell.phases.warmup_ns + cell.phases.measure_ns;
            assert!(
                *first > end / 10 && *last < end * 7 / 10,
                "{first} {last} {end}"
            );
            let steady = items.len() - burst.len();
            let bits = steady as f64 * 8.0 * f64::from(group::payload(cell).expect("a size"))
                / end as f64
                * 1e9;
            assert!(bits < 1.02 * 25e6 && steady as f64 / end as f64 * 1e9 < 1.02 * 2000.0);
            assert!(
                items
                    .iter()
                    .all(|item| (item.size == 2 << 20) == (item.flow == 1))
            );
        }
    }
}

#[test]
fn policies_are_measured_on_a_bridge_beside_their_base() {
    let cells = Study::E3.cells(Budget::Standard, 3);
    for policy in [BASE, MULTICAST, BATCHES, SLOW] {
        let mut some = cells
            .iter()
            .filter(|cell| cell.system == CYCLONE)
            .filter(|cell| cell.axes.get("policy").is_some_and(|name| name == policy));
        assert!(
            some.all(|cell| cell.link.bridged && cell.link.rate == Some(LINK_BITS)),
            "{policy}"
        );
    }
    let cells = Study::E3.cells(Budget::Quick, 3);
    let rate = |policy: &str, fan_out: u32, size: u32, per_s: f64| {
        let is_it = |cell: &&Cell| {
            cell.experiment == "E3d"
                && cell.system == CYCLONE
                && cell.fan_out == fan_out
                && cell.axes["policy"] == policy
                && group::payload(cell) == Some(size)
        };
        trial(
            cells
                .iter()
                .find(is_it)
                .expect("it is in the quick run")
                .clone(),
            &[(group::ARRIVED, per_s)],
        )
    };
    let good = [
        rate(BASE, 1, 64, 1000.0),
        rate(BATCHES, 1, 64, 4000.0),
        rate(BASE, 7, 64, 7000.0),
        rate(MULTICAST, 7, 64, 28_000.0),
        rate(BASE, 7, 32_768, 300.0),
        rate(MULTICAST, 7, 32_768, 2000.0),
    ];
    let found = shapes(&group::groups(&good));
    for id in ["S3.4", "S3.5"] {
        let shape = of(&found, id);
        assert!(
            matches!(shape.baseline.ruling, Ruling::Reproduced),
            "{shape:?}"
        );
        assert!(shape.baseline.figures.contains("4.00 times"));
        assert_eq!(shape.ours, Found::nothing());
    }
    let bad = [rate(BASE, 7, 64, 7000.0), rate(MULTICAST, 7, 64, 8000.0)];
    let found = shapes(&group::groups(&bad));
    assert!(matches!(of(&found, "S3.4").baseline.ruling, Ruling::Not(_)));
    assert_eq!(of(&found, "S3.5").baseline, Found::nothing());
}

#[test]
fn our_groups_are_measured_on_the_same_bridge_as_a_copy_for_each() {
    let cells = Study::E3.cells(Budget::Quick, 3);
    let ours: Vec<&Cell> = cells
        .iter()
        .filter(|cell| cell.system == OURS && cell.link.bridged)
        .collect();
    let cell_of = |policy: &str, size: u32| {
        let is_it =
            |cell: &&&Cell| cell.axes["policy"] == policy && group::payload(cell) == Some(size);
        let cell: &Cell = ours.iter().find(is_it).expect("it is in the quick run");
        assert_eq!((cell.fan_out, cell.link.rate), (7, Some(LINK_BITS)));
        assert_eq!(cell.extras.multicast, policy != BASE);
        cell.clone()
    };
    // It has a base of its own, with the same receivers.
    let other = cells
        .iter()
        .find(|cell| cell.system == OURS && cell.fan_out == 7 && cell.extras.lifespan_ms > 0);
    assert_ne!(
        other.expect("it is there").publish,
        cell_of(BASE, 64).publish
    );
    let ruling = |small: f64, repaired: f64, large: f64| {
        let found = shapes(&group::groups(&[
            trial(cell_of(BASE, 64), &[(group::ARRIVED, 10_000.0)]),
            trial(cell_of(MULTICAST, 64), &[(group::ARRIVED, small)]),
            trial(cell_of(BOTH, 64), &[(group::ARRIVED, 40_000.0)]),
            trial(cell_of(BASE, 1024), &[(group::ARRIVED, 10_000.0)]),
            trial(cell_of(REPAIRED, 1024), &[(group::ARRIVED, repaired)]),
            trial(cell_of(BASE, 32_768), &[(group::ARRIVED, 350.0)]),
            trial(cell_of(MULTICAST, 32_768), &[(group::ARRIVED, large)]),
        ]));
        of(&found, "S3.4").ours.clone()
    };
    let good = ruling(30_000.0, 31_000.0, 1300.0);
    assert_eq!(good.ruling, Ruling::Reproduced, "{}", good.figures);
    assert!(good.figures.contains("Multicast+Repair, 1024 B"));
    let of_large = [
        trial(cell_of(BASE, 32_768), &[(group::ARRIVED, 350.0)]),
        trial(cell_of(MULTICAST, 32_768), &[(group::ARRIVED, 1300.0)]),
    ];
    let found = shapes(&group::groups(&of_large));
    let part = &of(&found, "S3.4").ours.ruling;
    assert_eq!(*part, Ruling::Under("without 64 B".to_owned()));
    for bad in [
        ruling(29_000.0, 31_000.0, 1300.0),
        ruling(30_000.0, 29_000.0, 1300.0),
        ruling(30_000.0, 31_000.0, 1200.0),
    ] {
        assert!(matches!(bad.ruling, Ruling::Not(_)), "{}", bad.figures);
    }
}

#[test]
fn our_client_is_measured_with_its_paces_beside_none() {
    let cells = Study::E3.cells(Budget::Quick, 3);
    let trial_of = |policy: &str, per_s: f64, mean_us: f64| {
        let is_it = |cell: &&Cell| {
            cell.experiment == "E3d"
                && (cell.system.as_str(), cell.fan_out) == (OURS, 1)
                && cell.axes["policy"] == policy
                && group::payload(cell) == Some(64)
        };
        let cell = cells.iter().find(is_it).expect("it is in the quick run");
        let (cell, mut row) = trial(cell.clone(), &[(group::ARRIVED, per_s)]);
        (row.response.count, row.response.mean) = (100, mean_us);
        (cell, row)
    };
    for (policy, turbo, throttle) in [
        (BASE, false, false),
        (BATCHES, true, false),
        (THROTTLE, false, true),
    ] {
        let (cell, _) = trial_of(policy, 1.0, 1.0);
        assert_eq!((cell.extras.turbo, cell.extras.throttle), (turbo, throttle));
    }
    let ruling = |turbo: f64, throttled: (f64, f64), id: &str| {
        let found = shapes(&group::groups(&[
            trial_of(BASE, 1000.0, 900.0),
            trial_of(BATCHES, turbo, 900.0),
            trial_of(THROTTLE, throttled.0, throttled.1),
        ]));
        matches!(of(&found, id).ours.ruling, Ruling::Reproduced)
    };
    assert!(ruling(1300.0, (800.0, 700.0), "S3.5"));
    assert!(ruling(1300.0, (800.0, 700.0), "S3.6"));
    assert!(!ruling(1100.0, (800.0, 700.0), "S3.5"));
    assert!(!ruling(1300.0, (700.0, 700.0), "S3.6"), "too slow");
    assert!(!ruling(1300.0, (800.0, 950.0), "S3.6"), "later");
}

#[test]
fn what_subscribers_get_late_often_or_first_is_judged_by_what_was_allowed() {
    let cells = Study::E3.cells(Budget::Quick, 3);
    let trial_of = |policy: &str, more: &[(&str, f64)], oldest_us: f64| {
        let is_it = |cell: &&Cell| {
            cell.system == OURS && cell.axes.get("policy").is_some_and(|it| it == policy)
        };
        let cell = cells.iter().find(is_it).expect("it is in the quick run");
        let (cell, mut row) = trial(cell.clone(), more);
        (row.expected, row.response.max) = (4, oldest_us);
        (cell, row)
    };
    let is_reproduced = |rate: f64, oldest_us: f64, beside_us: f64| {
        let latencies = [
            ("before_burst_p99_us", 1000.0),
            ("during_burst_p99_us", beside_us),
        ];
        let found = shapes(&group::groups(&[
            trial_of(RATE, &[(group::ARRIVED, rate)], 0.0),
            trial_of(LIFESPAN, &[], oldest_us),
            trial_of(PRIORITY, &latencies, 0.0),
        ]));
        ["C, rate limit", "C, lifespan", "C, priority"]
            .map(|id| of(&found, id).ours.ruling == Ruling::Reproduced)
    };
    assert_eq!(is_reproduced(495.0, 1.4e6, 2900.0), [true; 3]);
    assert_eq!(is_reproduced(489.0, 1.6e6, 3100.0), [false; 3]);
    assert_eq!(is_reproduced(511.0, 1.4e6, 2900.0), [false, true, true]);
}

#[test]
fn alarms_of_a_class_have_connections_of_their_own_and_a_link_that_heeds_it() {
    let cells = Study::E3.cells(Budget::Quick, 3);
    let is_classed = |cell: &&Cell| cell.axes.get("policy").is_some_and(|it| it == CLASSED);
    let classed: Vec<&Cell> = cells.iter().filter(is_classed).collect();
    assert_eq!(classed.len(), 2);
    for cell in classed {
        assert!(cell.link.classes && cell.extras.alarms && !cell.extras.wildcard);
        assert_eq!(crate::drivers::connections(cell), 2);
        let latencies = |during: f64| {
            let latencies = [
                ("before_burst_p99_us", 200.0),
                ("during_burst_p99_us", during),
            ];
            let found = shapes(&group::groups(&[trial(cell.clone(), &latencies)]));
            of(&found, "C, priority").ours.ruling.clone()
        };
        assert_eq!(latencies(590.0), Ruling::Reproduced);
        assert!(matches!(latencies(610.0), Ruling::Not(_)));
    }
}

#[test]
fn what_a_neighbour_does_is_judged_by_the_deviation_meanwhile() {
    let cells = Study::E3.cells(Budget::Quick, 3);
    let sd = |system: &str, us: f64| {
        let is_it = |cell: &&Cell| {
            cell.experiment == "E3c" && cell.system == system && group::payload(cell) == Some(64)
        };
        let cell = cells.iter().find(is_it).expect("it is there").clone();
        trial(
            cell,
            &[
                ("during_burst_sd_us", us),
                ("before_burst_sd_us", 10.0),
                ("recovery_ms", 200.0),
            ],
        )
    };
    let found = shapes(&group::groups(&[
        sd("mosquitto", 7284.0),
        sd("cyclonedds", 125.0),
        sd("zmq-peers", 1799.0),
    ]));
    let shape = of(&found, "S3.8");
    assert!(
        matches!(shape.baseline.ruling, Ruling::Reproduced),
        "{shape:?}"
    );
    assert!(
        shape.baseline.figures.contains("as before after 200 ms"),
        "{}",
        shape.baseline.figures
    );
    assert_eq!(shape.ours, Found::nothing());
    let found = shapes(&group::groups(&[
        sd("mosquitto", 7284.0),
        sd("zmq-peers", 1799.0),
    ]));
    let ruling = &of(&found, "S3.8").baseline.ruling;
    assert!(
        matches!(ruling, Ruling::Under(what) if what == "without DDS at 64 B"),
        "{ruling:?}"
    );
    let found = shapes(&group::groups(&[
        sd("thalweg", 100.0),
        sd("cyclonedds", 125.0),
    ]));
    assert!(matches!(of(&found, "S3.8").ours.ruling, Ruling::Not(_)));
}
