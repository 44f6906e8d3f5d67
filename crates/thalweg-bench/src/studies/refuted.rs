//! No verdict without data for which it says no: every statement of a study has, in each column that is judged, trials that
//! refute it. A statement without such data fails the test here, and so does a refuted one that does not say so.

use std::collections::BTreeSet;

use super::Study;
use super::group::{ARRIVED, groups, payload};
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
    "S1.2", [Ours], |it| e1b(it, |_| 1e4).map(|row| skewed(it, row)), "images still differ";
    "S1.3", [Baseline], |it| e1b(it, |_| 1e4), "less than 10 times";
    "S1.4", [Baseline], |it| e1c(it, it.system != "thalweg"), "within 1 ms";
    "S1.4", [Ours], |it| e1c(it, it.system == "thalweg"), "within 1 ms";
    "S1.5", [Baseline, Ours], falling, "falls by 60 %";
    "S2.0", [Baseline, Ours], |it| e2(it).map(lost), "90.00 %";
    "S2.1", [Baseline, Ours], quicker_with_loss, "is quicker at";
    "S2.2", [Baseline, Ours], slow_coap, "CoAP is never quicker";
    "S2.3", [Baseline, Ours], |it| bytes(it, 60, 400.0), "another order at 0 %";
    "S2.4", [Baseline, Ours], |it| bytes(it, 60, if is_con(it) { 900.0 } else { 500.0 }), "CON takes as many or more";
    "S2.5", [Baseline, Ours], |it| bytes(it, 2000, if is_con(it) { 5e3 } else { 9e3 }), "QoS 1 takes more";
    "S2.6", [Baseline, Ours], |it| payload(it).and_then(|size| bytes(it, size, 5.0 * f64::from(size))), "does not fall";
    "S2d.1", [Ours], |it| e2d(it, false, |row| row.delivered = 999), "messages are missing";
    "S2d.2", [Ours], |it| e2d(it, true, |row| row.wire_bytes = Some(2000)), "above 15 %";
    "S2d.3", [Ours], |it| e2d(it, true, |row| row.response = flat(2.0)), "above 15 %";
    "S2d.4", [Ours], |it| e2d(it, true, |row| row.more.extend([("subscriber_switches".to_owned(), 3.0)])), "more than 2";
    "S2d.5", [Ours], |it| e2d(it, true, |row| row.duplicates = 1), "repeated";
    "S3.1", [Baseline, Ours], |it| arrived(it, "E3a", 100.0), "less than 5 times";
    "S3.2", [Baseline, Ours], |it| arrived(it, "E3a", 100.0), "DDS 4096 B";
    "S3.3", [Baseline, Ours], |it| arrived(it, "E3a", 1.0), "16384 B";
    "S3.4", [Baseline, Ours], |it| arrived(it, "E3d", 100.0), "1.00 times";
    "S3.5", [Baseline, Ours], |it| arrived(it, "E3d", 100.0), "1.00 times";
    "S3.6", [Ours], |it| arrived(it, "E3d", 100.0), "against";
    "S3.7", [Baseline, Ours], slower_when_quick, "5.00 times";
    "S3.8", [Baseline, Ours], calm_mqtt, "is not above";
    "C, heartbeat", [Baseline], |it| arrived(it, "E3d", 100.0), "against";
    "C, rate limit", [Ours], |it| arrived(it, "E3d", 511.0), "of 500 a second";
    "C, lifespan", [Baseline, Ours], too_old, "the oldest after 1600 ms";
    "C, priority", [Ours], held_up, "4.00 times";
    "S4.1", [Baseline, Ours], |it| e4(it, |size| size, 1.0), "grows by 400 %";
    "S4.2", [Baseline, Ours], |it| e4(it, |_| 1.0, if is_mqtt(it) { 2.0 } else { 1.0 }), "MQTT 2000 B";
    "S5.1", [Ours], |it| e5(it, &[]), "chance is not 10 ms worse";
    "S5.2", [Ours], |it| e5(it, &[]), "score is not 95 %";
    "S5.3", [Ours], |it| e5(it, &[]), "more than 3 points off";
    "S5.4", [Ours], |it| e5(it, &[("arithmetic_p99_ms", 3.0)]), "more than 2 ms";
    "S5.5a", [Ours], |it| e5(it, &[("wait_mean_ms", if is_at(it, "point", "every=5s") { 1.0 } else { 90.0 })]), "every 3 s is worse";
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
            "E1a" => Some(Row {
                delivered: 9000,
                seconds: 1.0,
                ..full()
            }),
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
            e5(it, &more).filter(|_| is_at(it, "scenario", "80 %"))
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

/// A thousand messages that all came.
fn full() -> Row {
    Row {
        intended: 1000,
        sent: 1000,
        expected: 1000,
        delivered: 1000,
        seconds: 1.0,
        ..Row::blank(Standing::Valid)
    }
}

fn more(name: &str, value: f64, row: Row) -> Row {
    Row {
        more: [(name.to_owned(), value)].into(),
        ..row
    }
}

fn e1b(cell: &Cell, rate: fn(&str) -> f64) -> Option<Row> {
    let rate = rate(&cell.system);
    (cell.experiment == "E1b")
        .then(|| more(ARRIVED, rate, full()))
        .filter(|_| rate > 0.0)
}

fn skewed(cell: &Cell, row: Row) -> Row {
    if cell.publish.protocol == Protocol::Mqtt {
        more(ARRIVED, 9e4, row)
    } else {
        row
    }
}

fn e1c(cell: &Cell, is_slow: bool) -> Option<Row> {
    (cell.experiment == "E1c").then(|| Row {
        response: flat(if is_slow { 2e6 } else { 1.0 }),
        ..full()
    })
}

fn falling(cell: &Cell) -> Option<Row> {
    let rate = if cell.load.flows() >= 600 { 4e3 } else { 1e4 };
    (cell.experiment == "E1a").then(|| more(ARRIVED, rate, full()))
}

fn e2(cell: &Cell) -> Option<Row> {
    cell.experiment.starts_with("E2").then(|| Row {
        response: flat(1.0),
        ..full()
    })
}

/// A step of E2d in which all ways cost the same; what is different about adaptive ones, or about the others.
fn e2d(cell: &Cell, is_adaptive: bool, change: impl FnOnce(&mut Row)) -> Option<Row> {
    let mut row = Row {
        response: flat(1.0),
        wire_bytes: Some(1000),
        ..full()
    };
    row.more = ["publisher_switches", "subscriber_switches"]
        .map(|name| (name.to_owned(), 0.0))
        .into();
    if cell.axes.contains_key(ADAPTIVE) == is_adaptive {
        change(&mut row);
    }
    (cell.experiment == "E2d").then_some(row)
}

fn lost(row: Row) -> Row {
    Row {
        delivered: 900,
        ..row
    }
}

fn quicker_with_loss(cell: &Cell) -> Option<Row> {
    let response = flat(100.0 / (1.0 + cell.link.loss));
    e2(cell).map(|row| Row { response, ..row })
}

fn is_at(cell: &Cell, axis: &str, value: &str) -> bool {
    cell.axes.get(axis).is_some_and(|it| it == value)
}

fn slow_coap(cell: &Cell) -> Option<Row> {
    let ms = if cell.publish.protocol == Protocol::Coap {
        100.0
    } else {
        1.0
    };
    e2(cell).map(|row| Row {
        response: flat(ms),
        ..row
    })
}

fn is_con(cell: &Cell) -> bool {
    (cell.publish.protocol, cell.publish.qos) == (Protocol::Coap, 1)
}

fn is_mqtt(cell: &Cell) -> bool {
    cell.publish.protocol == Protocol::Mqtt
}

fn bytes(cell: &Cell, size: u32, each: f64) -> Option<Row> {
    let row = e2(cell).filter(|_| payload(cell) == Some(size))?;
    Some(Row {
        wire_bytes: Some((each * row.delivered as f64) as u64),
        ..row
    })
}

fn arrived(cell: &Cell, experiment: &str, rate: f64) -> Option<Row> {
    (cell.experiment == experiment).then(|| {
        more(
            ARRIVED,
            rate,
            Row {
                response: flat(1.0),
                ..full()
            },
        )
    })
}

fn slower_when_quick(cell: &Cell) -> Option<Row> {
    let response = flat(if is_at(cell, "rate", "200/s") {
        1.0
    } else {
        5.0
    });
    (cell.experiment == "E3b").then(|| Row { response, ..full() })
}

fn calm_mqtt(cell: &Cell) -> Option<Row> {
    let sd = if is_mqtt(cell) { 10.0 } else { 500.0 };
    (cell.experiment == "E3c").then(|| more("during_burst_sd_us", sd, full()))
}

fn too_old(cell: &Cell) -> Option<Row> {
    (cell.experiment == "E3d").then(|| Row {
        response: flat(1600.0),
        ..full()
    })
}

fn held_up(cell: &Cell) -> Option<Row> {
    let mut row = more("before_burst_p99_us", 500.0, full());
    row.more.insert("during_burst_p99_us".to_owned(), 2000.0);
    (cell.experiment == "E3d").then_some(row)
}

/// Round trips that depend on the size, and what each message costs.
fn e4(cell: &Cell, ms: fn(f64) -> f64, cost: f64) -> Option<Row> {
    let size = f64::from(payload(cell)?);
    let row = Row {
        response: flat(ms(size)),
        wire_bytes: Some((cost * 1e6) as u64),
        wire_frames: Some((cost * 6e3) as u64),
        cpu_client_s: cost,
        ..more("rss_client_kib", 1e4, full())
    };
    cell.experiment.starts_with("E4").then_some(row)
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
    let figures = same.map(|name| (name, 1.0));
    let figures = figures.iter().chain(other);
    (cell.experiment == "E5").then(|| Row {
        more: figures
            .map(|(name, value)| ((*name).to_owned(), *value))
            .collect(),
        ..full()
    })
}

/// One strategy with which members wait for 30 ms.
fn slow_with(cell: &Cell, strategy: &str) -> Option<Row> {
    let wait = if is_at(cell, "strategy", strategy) {
        30.0
    } else {
        1.0
    };
    e5(cell, &[("wait_mean_ms", wait)])
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
