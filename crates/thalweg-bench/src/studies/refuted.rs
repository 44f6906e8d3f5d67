//! No verdict without data for which it says no: every statement of a study has, in each column that is judged, trials that
//! refute it. A statement without such data fails the test here, and so does a refuted one that does not say so.

use std::collections::BTreeSet;

use super::Study;
use super::group::{ARRIVED, groups, has, payload};
use super::shape::Found;
use crate::cell::{Cell, Protocol, Quantiles, Row, Standing};
use crate::e2d::plan::ADAPTIVE;
use crate::studies::e2d::who;
use crate::studies::plan::Budget;
use crate::studies::shape::Ruling;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Column {
    Baseline,
    Ours,
}

use Column::{Baseline, Ours};

/// What a statement says of data that are made for it.
type Data = fn(&Cell) -> Option<Row>;

macro_rules! refuted {
    ($($id:literal, [$($column:ident),*], $data:expr, $words:literal;)*) => {
        &[$(($id, &[$($column),*], $data, $words)),*]
    };
}

/// Statement, columns, trials that refute it, words of the verdict. The trials are cells of the study's standard budget, as far
/// as the function has a row for them.
const REFUTED: &[(&str, &[Column], Data, &str)] = refuted! {
    "S1.1", [Baseline], |it| e1b(it, |who| if who == "zmq-proxy" { 1e3 } else { 5e4 }), "ZMTP is below MQTT";
    "S1.1", [Ours], |it| e1b(it, |who| if who == "thalweg" { 1e3 } else { 5e4 }), "MQTT is below mosquitto";
    "S1.2", [Baseline], |it| e1b(it, |who| if who == "zmq-proxy" { 9e4 } else { 1e4 }), "images still differ";
    "S1.2", [Ours], |it| of(it, "E1b", |row| more(row, ARRIVED, if is_mqtt(it) { 9e4 } else { 1e4 })), "images still differ";
    "S1.3", [Baseline], |it| e1b(it, |_| 1e4), "less than 10 times";
    "S1.4", [Baseline], |it| of(it, "E1c", |row| row.response = flat(if it.system == "thalweg" { 1.0 } else { 2e6 })), "within 1 ms";
    "S1.4", [Ours], |it| of(it, "E1c", |row| row.response = flat(if it.system == "thalweg" { 2e6 } else { 1.0 })), "within 1 ms";
    "S1.5", [Baseline, Ours], falling, "falls by 60 %";
    "S2.0", [Baseline, Ours], |it| of(it, "E2", |row| row.delivered = 900), "90.00 %";
    "S2.1", [Baseline, Ours], |it| of(it, "E2", |row| row.response = flat(100.0 / (1.0 + it.link.loss))), "is quicker at";
    "S2.2", [Baseline, Ours], |it| of(it, "E2", |row| row.response = flat(if is_mqtt(it) { 1.0 } else { 100.0 })), "CoAP is never quicker";
    "S2.3", [Baseline, Ours], |it| bytes(it, 60, 400.0), "another order at 0 %";
    "S2.4", [Baseline, Ours], |it| bytes(it, 60, if is_con(it) { 900.0 } else { 500.0 }), "CON takes as many or more";
    "S2.5", [Baseline, Ours], |it| bytes(it, 2000, if is_con(it) { 5e3 } else { 9e3 }), "QoS 1 takes more";
    "S2.6", [Baseline, Ours], |it| payload(it).and_then(|size| bytes(it, size, 5.0 * f64::from(size))), "does not fall";
    "S2d.1", [Ours], |it| e2d(it, false, |row| row.delivered = 999), "messages are missing";
    "S2d.2", [Ours], |it| e2d(it, true, |row| row.wire_bytes = Some(2000)), "above 15 %";
    "S2d.3", [Ours], |it| e2d(it, true, |row| row.response = flat(2.0)), "above 15 %";
    "S2d.4", [Ours], |it| e2d(it, true, |row| more(row, "subscriber_switches", 3.0)), "more than 2";
    "S2d.5", [Ours], |it| e2d(it, true, |row| row.duplicates = 1), "repeated";
    "S3.1", [Baseline, Ours], |it| arrived(it, "E3a", 100.0), "less than 5 times";
    "S3.2", [Baseline, Ours], |it| arrived(it, "E3a", 100.0), "DDS 4096 B";
    "S3.3", [Baseline, Ours], |it| arrived(it, "E3a", 1.0), "16384 B";
    "S3.4", [Baseline, Ours], |it| arrived(it, "E3d", 100.0), "1.00 times";
    "S3.5", [Baseline, Ours], |it| arrived(it, "E3d", 100.0), "1.00 times";
    "S3.6", [Ours], |it| arrived(it, "E3d", 100.0), "against";
    "S3.7", [Baseline, Ours], |it| of(it, "E3b", |row| row.response = flat(if has(it, "200/s") { 1.0 } else { 5.0 })), "5.00 times";
    "S3.8", [Baseline, Ours], |it| of(it, "E3c", |row| more(row, "during_burst_sd_us", if is_mqtt(it) { 10.0 } else { 500.0 })), "is not above";
    "C, heartbeat", [Baseline], |it| arrived(it, "E3d", 100.0), "against";
    "C, rate limit", [Ours], |it| arrived(it, "E3d", 511.0), "of 500 a second";
    "C, lifespan", [Baseline, Ours], |it| of(it, "E3d", |row| row.response = flat(1600.0)), "the oldest after 1600 ms";
    "C, priority", [Ours], held_up, "4.00 times";
    "S4.1", [Baseline, Ours], |it| e4(it, |size| size, 1.0), "grows by 400 %";
    "S4.2", [Baseline, Ours], |it| e4(it, |_| 1.0, if is_mqtt(it) { 2.0 } else { 1.0 }), "MQTT 2000 B";
    "S5.1", [Ours], |it| e5(it, &[]), "chance is not 10 ms worse";
    "S5.2", [Ours], |it| e5(it, &[]), "score is not 95 %";
    "S5.3", [Ours], |it| e5(it, &[]), "more than 3 points off";
    "S5.4", [Ours], |it| e5(it, &[("arithmetic_p99_ms", 3.0)]), "more than 2 ms";
    "S5.5a", [Ours], |it| e5(it, &[("wait_mean_ms", if has(it, "every=5s") { 1.0 } else { 90.0 })]), "every 3 s is worse";
    "S5.5b", [Ours], |it| e5(it, &[("apart_ms", 3.0)]), "more than 2 ms apart";
    "S5.5c", [Ours], |it| slow_with(it, "adaptive"), "score is better: burst";
    "S5.6", [Ours], |it| e5(it, &[("in_turn", 0.0)]), "not that of turns";
    "bar, reports", [Ours], |it| slow_with(it, "adaptive"), "above 20 ms";
    "bar, events", [Ours], |it| slow_with(it, "adaptive+events"), "above 10 ms";
    "bar, QoS 1", [Ours], |it| slow_with(it, "adaptive+qos1"), "above 4 ms";
    "bar, silent", [Ours], |it| slow_with(it, "adaptive+silent"), "above 1.02";
};

/// Statements whose figures are shown and never judged.
const TOLD: [&str; 2] = ["S4.3", "S4.4"];

#[test]
fn every_verdict_says_no_to_data_that_refute_it() {
    let all = REFUTED.iter();
    let all = all
        .flat_map(|(id, columns, data, words)| columns.iter().map(move |it| (id, it, data, words)));
    for (id, column, data, words) in all {
        let ruling = found(id, *column, *data).ruling;
        assert!(
            matches!(&ruling, Ruling::Not(why) if why.contains(words)),
            "{id} {column:?}: {ruling:?}"
        );
    }
}

#[test]
fn no_statement_that_is_judged_lacks_data_that_refute_it() {
    let refuted: BTreeSet<(&str, Column)> = REFUTED
        .iter()
        .flat_map(|(id, columns, ..)| columns.iter().map(move |column| (*id, *column)))
        .collect();
    for study in Study::ALL {
        for shape in study.shapes(&[], &[]) {
            for (column, empty) in [(Baseline, &shape.baseline), (Ours, &shape.ours)] {
                let who = format!("{} {column:?}", shape.id);
                assert!(!shape.what.is_empty(), "{who} has no words");
                assert_eq!(empty.ruling, Ruling::NotMeasured, "{who}");
                let is_refuted = refuted.contains(&(shape.id, column));
                // What is not built, and what is only told, can come out no more than it can fail.
                let can_say_yes = empty.is_asked() && !TOLD.contains(&shape.id);
                assert!(
                    is_refuted || !can_say_yes,
                    "{who} has no data that refute it"
                );
            }
        }
    }
}

#[test]
fn what_is_only_told_is_never_reproduced() {
    for id in TOLD {
        for column in [Baseline, Ours] {
            let found = found(id, column, |it| e4(it, |_| 1.0, 1.0));
            assert!(
                matches!(found.ruling, Ruling::NotJudged(_)) && found.figures.contains("1000 B"),
                "{id} {found:?}"
            );
        }
    }
}

/// The floods of 23 November 2026: sent, lost, `valid`, and beside them loads that were offered to the same broker.
#[test]
fn a_flood_that_did_not_arrive_is_not_replaced_by_what_another_experiment_offered() {
    let of = |id, column| {
        found(id, column, |it| match it.experiment.as_str() {
            "E1a" => of(it, "E1a", |row| row.delivered = 9000),
            _ => e1b(it, |who| if who == "thalweg" { 1e6 } else { 0.0 }),
        })
    };
    assert_eq!(of("S1.1", Baseline), Found::nothing());
    let ours = of("S1.1", Ours);
    assert!(
        ours.ruling == Ruling::NotMeasured
            && ours.figures.contains("no flood of one of them arrived"),
        "{ours:?}"
    );
}

#[test]
fn a_point_at_which_the_broker_broke_down_is_a_part_of_the_curve() {
    fn at_600(cell: &Cell, standing: Standing) -> Option<Row> {
        falling(cell).map(|row| match cell.load.flows() {
            600 => Row { standing, ..row },
            _ => row,
        })
    }
    let held_back: Data = |it| at_600(it, Standing::HeldBack("it took 40 of 100".to_owned()));
    assert!(matches!(
        found("S1.5", Ours, held_back).ruling,
        Ruling::Not(_)
    ));
    // A point that the laboratory spoiled leaves the statement open.
    let spoiled: Data = |it| at_600(it, Standing::GeneratorLimited("late".to_owned()));
    let ruling = found("S1.5", Ours, spoiled).ruling;
    assert!(
        matches!(&ruling, Ruling::NotJudged(why) if why.contains("points count")),
        "{ruling:?}"
    );
}

#[test]
fn intervals_that_overlap_leave_a_statement_open() {
    // Means 20 % apart, repeats by more than that.
    let noisy: Data = |it| {
        let row = e4(it, |_| 1.0, if is_mqtt(it) { 1.2 } else { 1.0 })?;
        let factor = 1.0 + 0.5 * f64::from(it.repeat);
        let more = |count: Option<u64>| count.map(|count| (count as f64 * factor) as u64);
        let (wire_bytes, wire_frames) = (more(row.wire_bytes), more(row.wire_frames));
        Some(Row {
            wire_bytes,
            wire_frames,
            cpu_client_s: row.cpu_client_s * factor,
            ..row
        })
    };
    let ruling = found("S4.2", Ours, noisy).ruling;
    assert!(
        matches!(&ruling, Ruling::NotJudged(why) if why.contains("within the intervals")),
        "{ruling:?}"
    );
}

#[test]
fn the_studys_order_has_to_appear() {
    let another: Data = |it| {
        e4(it, |_| 1.0, 1.0).map(|row| Row {
            response: flat(if is_mqtt(it) { 1.0 } else { 2.0 }),
            ..row
        })
    };
    let found = found("S4.1", Ours, another);
    assert!(
        found.figures.contains("the study's order at 0 of 9 sizes"),
        "{}",
        found.figures
    );
    assert!(
        matches!(&found.ruling, Ruling::Not(why) if why.contains("0 of 9 sizes")),
        "{:?}",
        found.ruling
    );
}

#[test]
fn a_bar_is_held_by_the_whole_interval_of_the_repeats() {
    let of = |waits: &[f64]| {
        found("bar, reports", Ours, |it| {
            e5(it, &[("wait_mean_ms", *waits.get(it.repeat as usize)?)])
        })
    };
    let held = of(&[9.0, 10.0, 11.0]);
    assert_eq!(
        (held.figures.as_str(), held.ruling),
        ("10.0 ± 2.48 (9.00 to 11.0) ms", Ruling::Reproduced)
    );
    // One start-up in three is far above it: the mean is not, and is not known so well.
    let open = of(&[8.0, 9.0, 40.0]);
    assert!(
        open.figures.ends_with("(8.00 to 40.0) ms") && matches!(open.ruling, Ruling::NotJudged(_)),
        "{open:?}"
    );
    let above = of(&[18.0, 19.0, 43.0]).ruling;
    assert_eq!(above, Ruling::Not("above 20 ms".to_owned()));
}

#[test]
fn a_row_is_held_against_both_of_its_bars() {
    let of = |p99| {
        let more = [
            ("ratio_mean", 1.05),
            ("ratio_p99", p99),
            ("bar_mean", 1.10),
            ("bar_p99", 1.12),
        ];
        let found = found("80 %", Ours, |it| {
            e5(it, &more).filter(|_| it.axes["scenario"] == "80 %")
        });
        found.ruling
    };
    assert_eq!(of(1.11), Ruling::Reproduced);
    assert!(matches!(of(1.13), Ruling::Not(why) if why.contains("99th")));
}

#[test]
fn regret_is_against_the_better_protocol_of_each_step_and_held_by_the_whole_interval() {
    // The adaptive client takes so many bytes in each repeat.
    let of = |bytes: &[u64]| {
        found("S2d.2", Ours, |it| {
            let each = match who(it).as_str() {
                "MQTT" => 554,
                "CoAP" => 334,
                _ => *bytes.get(it.repeat as usize)?,
            };
            let row = e2d(it, true, |_| {})?;
            let wire_bytes = Some(row.intended * each);
            Some(Row { wire_bytes, ..row })
        })
    };
    let held = of(&[351, 354, 357]);
    assert_eq!(
        (held.figures.as_str(), held.ruling),
        (
            "60 B, 0 ms: 5.99 ± 2.23 (5.09 to 6.89) %",
            Ruling::Reproduced
        )
    );
    let open = of(&[340, 345, 400]).ruling;
    assert!(
        matches!(&open, Ruling::NotJudged(why) if why.contains("interval of the repeats reaches")),
        "{open:?}"
    );
    let above = of(&[400, 401, 402]).ruling;
    assert_eq!(above, Ruling::Not("60 B, 0 ms: above 15 %".to_owned()));
    assert_eq!(of(&[]), Found::nothing(), "no course of it counts");
}

/// What a study says of trials.
fn found(id: &str, column: Column, data: impl Fn(&Cell) -> Option<Row>) -> Found {
    let has_it = |study: &Study| study.shapes(&[], &[]).iter().any(|shape| shape.id == id);
    // E5 has a row for each bar that was measured.
    let study = Study::ALL.into_iter().find(has_it).unwrap_or(Study::E5);
    let cells = study.cells(Budget::Standard, 1).into_iter();
    let trials: Vec<(Cell, Row)> = cells
        .filter_map(|cell| data(&cell).map(|row| (cell, row)))
        .collect();
    let mut shapes = study.shapes(&groups(&trials), &trials).into_iter();
    let shape = shapes.find(|shape| shape.id == id);
    let shape = shape.expect("there is such a statement");
    match column {
        Ours => shape.ours,
        Baseline => shape.baseline,
    }
}

/// A thousand messages that all came within a millisecond, but for a change; of an experiment.
fn of(cell: &Cell, experiment: &str, change: impl FnOnce(&mut Row)) -> Option<Row> {
    let mut row = Row {
        intended: 1000,
        sent: 1000,
        expected: 1000,
        delivered: 1000,
        seconds: 1.0,
        response: flat(1.0),
        ..Row::blank(Standing::Valid)
    };
    change(&mut row);
    cell.experiment.starts_with(experiment).then_some(row)
}

fn more(row: &mut Row, name: &str, value: f64) {
    row.more.insert(name.to_owned(), value);
}

fn arrived(cell: &Cell, experiment: &str, rate: f64) -> Option<Row> {
    of(cell, experiment, |row| more(row, ARRIVED, rate))
}

fn e1b(cell: &Cell, rate: fn(&str) -> f64) -> Option<Row> {
    let rate = rate(&cell.system);
    arrived(cell, "E1b", rate).filter(|_| rate > 0.0)
}

fn falling(cell: &Cell) -> Option<Row> {
    let is_much = cell.load.flows() >= 600;
    arrived(cell, "E1a", if is_much { 4e3 } else { 1e4 })
}

fn bytes(cell: &Cell, size: u32, each: f64) -> Option<Row> {
    let wire = |row: &mut Row| row.wire_bytes = Some((each * row.delivered as f64) as u64);
    of(cell, "E2", wire).filter(|_| payload(cell) == Some(size))
}

/// A step of E2d in which all ways cost the same; what is different about adaptive ones, or about the others.
fn e2d(cell: &Cell, is_adaptive: bool, change: impl FnOnce(&mut Row)) -> Option<Row> {
    of(cell, "E2d", |row| {
        row.wire_bytes = Some(1000);
        more(row, "publisher_switches", 0.0);
        more(row, "subscriber_switches", 0.0);
        if cell.axes.contains_key(ADAPTIVE) == is_adaptive {
            change(row);
        }
    })
}

fn held_up(cell: &Cell) -> Option<Row> {
    of(cell, "E3d", |row| {
        more(row, "before_burst_p99_us", 500.0);
        more(row, "during_burst_p99_us", 2000.0);
    })
}

/// Round trips that depend on the size, and what each message costs.
fn e4(cell: &Cell, ms: fn(f64) -> f64, cost: f64) -> Option<Row> {
    let size = f64::from(payload(cell)?);
    of(cell, "E4", |row| {
        row.response = flat(ms(size));
        row.wire_bytes = Some((cost * 1e6) as u64);
        row.wire_frames = Some((cost * 6e3) as u64);
        row.cpu_client_s = cost;
        more(row, "rss_client_kib", 1e4);
    })
}

/// A trial of E5 with these figures in place of those of members that all wait for a millisecond.
fn e5(cell: &Cell, other: &[(&str, f64)]) -> Option<Row> {
    let same = [
        "wait_mean_ms",
        "apart_ms",
        "in_turn",
        "member_0_steady_count",
        "member_1_steady_count",
        "member_2_steady_count",
        "member_0_steady_mean_ms",
        "member_1_steady_mean_ms",
        "member_2_steady_mean_ms",
        "member_2_steady_greatest_ms",
        "reports",
    ];
    of(cell, "E5", |row| {
        same.into_iter().for_each(|name| more(row, name, 1.0));
        for (name, value) in other {
            more(row, name, *value);
        }
    })
}

/// One strategy with which members wait for 30 ms.
fn slow_with(cell: &Cell, strategy: &str) -> Option<Row> {
    let is_slow = has(cell, strategy);
    e5(cell, &[("wait_mean_ms", if is_slow { 30.0 } else { 1.0 })])
}

fn is_con(cell: &Cell) -> bool {
    has(cell, "coap-con")
}

fn is_mqtt(cell: &Cell) -> bool {
    cell.publish.protocol == Protocol::Mqtt
}

/// A distribution of one value, in milliseconds.
fn flat(ms: f64) -> Quantiles {
    let us = ms * 1e3;
    Quantiles {
        count: 1000,
        mean: us,
        sd: 0.0,
        p50: us,
        p90: us,
        p99: us,
        p999: us,
        max: us,
    }
}
