//! E1: three classes of traffic through brokers of four protocols (study A).

use std::collections::BTreeMap;

use super::group::{Group, delivered_per_s, has};
use super::shape::{Evidence, Found, Shape};
use crate::cell::{Cell, Driver, Protocol, Row, Standing};
use crate::report::stat::{Stat, short};

const CLASSES: [&str; 3] = ["simple", "complex", "multimedia"];
/// Brokers that stand for the study's, each with its protocol.
const BASELINES: [&str; 4] = [
    "zmq-proxy zmtp-q0",
    "mosquitto mqtt-q0",
    "rabbitmq amqp-q0",
    "ejabberd xmpp-q0",
];
const OURS: [&str; 3] = ["thalweg mqtt-q0", "thalweg amqp-q0", "thalweg stomp-q0"];

/// Its protocol as it is written.
fn protocol(system: &str) -> String {
    let (_, way) = system.split_once(' ').unwrap_or_default();
    way.trim_end_matches("-q0").to_uppercase()
}

/// XMPP is so much slower that statements about all leave it out.
fn quick<'s>(systems: &'s [&str]) -> impl Iterator<Item = &'s str> {
    let all = systems.iter().copied();
    all.filter(|system| !system.ends_with("xmpp-q0"))
}

/// What became of S1.1 to S1.5.
pub fn shapes(groups: &[Group], trials: &[(Cell, Row)]) -> Vec<Shape> {
    let latencies = |systems, as_mqtt| latencies(groups, trials, systems, as_mqtt);
    let plateau = |systems| plateau(trials, systems);
    vec![
        Shape::of("S1.1", order_of_peaks(groups), against_baselines(groups)),
        Shape::of(
            "S1.2",
            shrinking(groups, &BASELINES),
            shrinking(groups, &OURS),
        ),
        Shape::of("S1.3", beside_xmpp(groups), beside_ejabberd(groups)),
        Shape::of("S1.4", latencies(&BASELINES, false), latencies(&OURS, true)),
        Shape::of("S1.5", plateau(&BASELINES), plateau(&OURS)),
    ]
}

/// The most that a system delivered of a class: by its flood if it arrived, never by what another experiment offered.
fn peak(groups: &[Group], system: &str, class: &str) -> Option<Stat> {
    let is_it = |group: &&Group| is_of(&group.cell, "E1b", system, class);
    let peak = groups.iter().find(is_it)?.delivered_per_s();
    peak.filter(|stat| stat.mean > 0.0)
}

fn compare(all: &mut Evidence, (upper, more): (&str, &Stat), (lower, less): (&str, &Stat)) {
    all.compared(
        more.is_above(less),
        format!("{upper} is below {lower}"),
        format!("the intervals of {upper} and {lower} overlap"),
    );
}

fn order_of_peaks(groups: &[Group]) -> Found {
    let mut all = Evidence::default();
    let mut known: Vec<(String, Stat)> = Vec::new();
    for system in BASELINES {
        let who = protocol(system);
        let Some(peak) = peak(groups, system, "simple") else {
            all.missing(format!("{who}: no flood arrived"));
            continue;
        };
        if let Some((upper, more)) = known.last() {
            compare(&mut all, (upper, more), (&who, &peak));
        }
        all.figure(format!("{who} {peak}"));
        known.push((who, peak));
    }
    match known.len() {
        0 | 1 => Found::nothing(),
        _ => all.found_as(|figures| format!("{}/s", figures.join(", "))),
    }
}

fn against_baselines(groups: &[Group]) -> Found {
    let (mut all, mut missing) = (Evidence::default(), Vec::new());
    for (ours, theirs) in [
        ("thalweg mqtt-q0", "mosquitto mqtt-q0"),
        ("thalweg amqp-q0", "rabbitmq amqp-q0"),
        ("thalweg zmtp-q0", "zmq-proxy zmtp-q0"),
    ] {
        let peak = |system| peak(groups, system, "simple");
        let (mine, other) = (peak(ours), peak(theirs));
        let (ours, theirs) = (protocol(ours), theirs.split(' ').next().unwrap_or_default());
        let (Some(mine), Some(other)) = (mine, other) else {
            let words = "no flood of one of them arrived";
            missing.push(format!("{ours} beside {theirs}: {words}"));
            continue;
        };
        all.figure(format!("{ours} {mine}, {theirs} {other}"));
        compare(&mut all, (&ours, &mine), (theirs, &other));
    }
    if missing.len() == 3 {
        return Found::not_asked(&missing.join("; "));
    }
    missing.into_iter().for_each(|words| all.missing(words));
    all.found_as(|figures| format!("{}/s", figures.join("; ")))
}

fn shrinking(groups: &[Group], systems: &[&str]) -> Found {
    let mut ratios = Vec::new();
    for class in CLASSES {
        let mut means = Vec::new();
        for system in quick(systems) {
            let Some(peak) = peak(groups, system, class) else {
                // A quotient of other systems would be another figure.
                let who = protocol(system);
                return Found::not_asked(&format!("{who} {class}: no flood arrived"));
            };
            means.push(peak.mean);
        }
        ratios.extend(Stat::of(&means).map(|it| it.range.1 / it.range.0));
    }
    let mut all = Evidence::default();
    all.fault(
        !ratios.is_sorted_by(|a, b| a > b),
        "it does not shrink from class to class",
    );
    all.fault(
        ratios.last().is_some_and(|last| *last > 1.5),
        "images still differ by more than 1.5; here nobody is limited by what cameras offer",
    );
    ratios.into_iter().map(short).for_each(|it| all.figure(it));
    all.found(", ")
}

fn beside_xmpp(groups: &[Group]) -> Found {
    let ratio = |class| {
        let mean = |system| Some(peak(groups, system, class)?.mean);
        Some(mean("mosquitto mqtt-q0")? / mean("ejabberd xmpp-q0")?)
    };
    let (Some(small), Some(image)) = (ratio("simple"), ratio("multimedia")) else {
        return Found::not_asked("no flood of XMPP arrived, or of MQTT beside it");
    };
    let mut all = Evidence::default();
    all.figure(format!("{}, {}", short(small), short(image)));
    all.fault(small < 10.0, "less than 10 times for small messages");
    all.fault(image > 2.5, "more than 2.5 times for images");
    all.found("")
}

fn beside_ejabberd(groups: &[Group]) -> Found {
    let mut all = Evidence::default();
    for class in ["simple", "multimedia"] {
        let peak = |system| peak(groups, system, class);
        let (Some(ours), Some(theirs)) = (peak("thalweg xmpp-q0"), peak("ejabberd xmpp-q0")) else {
            let words = "no flood of one of ours and ejabberd arrived";
            return Found::not_asked(&format!("{class}: {words}"));
        };
        let words = format!("{class} messages are below ejabberd's");
        all.fault(ours.mean < theirs.mean, words);
        all.figure(format!("{class} {ours}, ejabberd {theirs}"));
    }
    all.found_as(|figures| format!("{}/s", figures.join("; ")))
}

fn latencies(
    groups: &[Group],
    trials: &[(Cell, Row)],
    systems: &[&str],
    all_as_mqtt: bool,
) -> Found {
    let mut all = Evidence::default();
    for (system, class) in each_class(quick(systems)) {
        let is_it = |cell: &Cell| is_of(cell, "E1c", system, class);
        let who = format!("{} {class}", protocol(system));
        let mut trials = trials.iter();
        if let Some((_, row)) = trials.find(|(cell, row)| is_it(cell) && is_held_back(row)) {
            let (sent, intended) = (row.sent, row.intended);
            all.fault(
                true,
                format!("{who}: the broker took {sent} of {intended} messages"),
            );
        }
        let bars: &[(f64, f64)] = match class {
            "multimedia" => &[(90.0, 100e3)],
            _ if !all_as_mqtt && system.ends_with("amqp-q0") => &[(65.0, 1e3), (90.0, 3e3)],
            _ => &[(90.0, 1e3)],
        };
        let group = groups.iter().find(|group| is_it(&group.cell));
        for (percent, us) in bars {
            let Some((least, most)) = group.and_then(|group| group.percent_within(*us)) else {
                all.missing(who.clone());
                break;
            };
            let within = match least == most {
                true => format!("{least:.1} %"),
                false => format!("{least:.1} to {most:.1} %"),
            };
            let words = format!("{who} {within} within {} ms", us * 1e-3);
            let is_known = least >= *percent || most < *percent;
            let holds = is_known.then_some(least >= *percent);
            all.compared(holds, words.clone(), words.clone());
            all.figure(words);
        }
    }
    all.found(", ")
}

fn plateau(trials: &[(Cell, Row)], systems: &[&str]) -> Found {
    let mut evidence = Evidence::default();
    for (system, class) in each_class(systems.iter().copied()) {
        let (broker, _) = system.split_once(' ').unwrap_or_default();
        let who = format!("{broker} {} {class}", protocol(system));
        let mut rates: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for (cell, row) in trials {
            if is_of(cell, "E1a", system, class) {
                let rates = rates.entry(cell.load.flows()).or_default();
                let counts = row.standing == Standing::Valid || is_held_back(row);
                rates.extend(delivered_per_s(row).filter(|_| counts));
            }
        }
        let points: Vec<Stat> = rates.values().filter_map(|of| Stat::of(of)).collect();
        let all = rates.len();
        let few = format!("{who}: {} of {all} points count", points.len());
        if points.len() < 2 {
            if all > 0 {
                evidence.open(few);
            }
            continue;
        }
        let mut fall = (0.0_f64, None);
        for (at, best) in points.iter().enumerate() {
            for later in points.iter().skip(at + 1) {
                let part = 1.0 - later.mean / best.mean;
                if part > fall.0 {
                    fall = (part, best.exceeds(later));
                }
            }
        }
        let words = format!("{who}: falls by {:.0} % at most", 100.0 * fall.0);
        match fall {
            (part, is_sure) if part > FALL_MAX => {
                evidence.weighed(is_sure.filter(|it| *it).map(|_| false), &words);
            }
            _ if points.len() < all => evidence.open(few),
            _ => {}
        }
        evidence.figure(words);
    }
    evidence.found(", ")
}

/// Part of the best throughput that more pairs may cost.
const FALL_MAX: f64 = 0.2;

fn each_class<'s>(
    systems: impl Iterator<Item = &'s str>,
) -> impl Iterator<Item = (&'s str, &'static str)> {
    systems.flat_map(|system| CLASSES.map(|class| (system, class)))
}

/// By the client that speaks first: a stock library where we have none of our own.
fn is_of(cell: &Cell, experiment: &str, system: &str, class: &str) -> bool {
    let is_stock = cell.publish.protocol == Protocol::Zmtp;
    has(cell, &format!("{experiment} {system} {class}"))
        && (cell.driver == Driver::Stock) == is_stock
}

fn is_held_back(row: &Row) -> bool {
    matches!(row.standing, Standing::HeldBack(_))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::Workload;
    use crate::studies::Study;
    use crate::studies::plan::Budget;
    use crate::trial;

    #[test]
    fn every_class_has_its_sizes_and_its_distances() {
        let cells = Study::E1.cells(Budget::Quick, 7);
        assert!(
            cells
                .iter()
                .all(|cell| matches!(cell.workload, Workload::Class { .. }))
        );
        let of = |experiment: &str, class: &str| {
            let is_it = |cell: &&Cell| cell.experiment == experiment && cell.axes["class"] == class;
            cells.iter().find(is_it).expect("it is there")
        };
        let sent = |cell: &Cell| {
            trial::Plan::of(cell)
                .expect("a plan")
                .schedule()
                .expect("times")
                .collect::<Vec<_>>()
        };
        let mean = |items: &[crate::load::Item]| {
            items.iter().map(|item| f64::from(item.size)).sum::<f64>() / items.len() as f64
        };
        // A part of the day's mean of a thousand sensors that send on change; they differ by where they begin.
        let simple = sent(of("E1a", "simple"));
        assert!(simple.iter().all(|item| item.size == 36));
        let complex = sent(of("E1a", "complex"));
        assert!(
            (mean(&complex) / 727.0 - 1.0).abs() < 0.1,
            "{}",
            mean(&complex)
        );
        assert!(
            complex.iter().any(|item| item.size < 260)
                && complex.iter().any(|item| item.size > 1000)
        );
        let images = sent(of("E1a", "multimedia"));
        assert!(
            (mean(&images) / 54_000.0 - 1.0).abs() < 0.25,
            "{}",
            mean(&images)
        );
        // Two repeats of a cell have the same day and other places in it.
        let mut again = of("E1a", "simple").clone();
        again.seed += 1;
        assert_ne!(sent(&again), simple);
        // The whole day passes in a cell of E1c: few messages in its first hours, more at its noon.
        let calm = of("E1c", "simple");
        let items = sent(calm);
        let end = calm.phases.warmup_ns + calm.phases.measure_ns;
        let within = |from: f64, to: f64| {
            let is_in = |item: &&crate::load::Item| {
                (from..to).contains(&(item.at as f64 / end as f64 * 24.0))
            };
            items.iter().filter(is_in).count() as f64 / (to - from)
        };
        assert!(
            within(11.0, 14.0) > 1.8 * within(0.5, 4.5),
            "{} {}",
            within(11.0, 14.0),
            within(0.5, 4.5)
        );
    }
}
