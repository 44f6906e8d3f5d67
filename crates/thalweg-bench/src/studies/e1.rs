//! E1: three classes of traffic through brokers of four protocols (study A).

use std::collections::BTreeMap;

use super::group::{Group, delivered_per_s, name, stat};
use super::shape::{Evidence, Found, Shape};
use crate::cell::{Cell, Driver, Protocol, Row, Standing};
use crate::report::stat::{Stat, short};

const CLASSES: [&str; 3] = ["simple", "complex", "multimedia"];

/// Brokers and the protocol each is measured with; the first four stand for the study's.
const SYSTEMS: [(&str, Protocol); 10] = [
    ("zmq-proxy", Protocol::Zmtp),
    ("mosquitto", Protocol::Mqtt),
    ("rabbitmq", Protocol::Amqp),
    ("ejabberd", Protocol::Xmpp),
    ("thalweg", Protocol::Mqtt),
    ("thalweg", Protocol::Amqp),
    ("thalweg", Protocol::Stomp),
    ("thalweg", Protocol::Coap),
    ("thalweg", Protocol::Zmtp),
    ("thalweg", Protocol::Xmpp),
];

/// Who speaks first: as fast as it goes where we have such a client, else a stock library, else the common one.
fn driver(protocol: Protocol) -> Driver {
    match protocol {
        Protocol::Mqtt => Driver::Bare,
        Protocol::Zmtp | Protocol::Dds => Driver::Stock,
        Protocol::Coap | Protocol::Amqp | Protocol::Stomp | Protocol::Xmpp => Driver::Common,
    }
}

/// What became of S1.1 to S1.5.
pub fn shapes(groups: &[Group], trials: &[(Cell, Row)]) -> Vec<Shape> {
    let all = &Peaks(groups);
    let latencies = |systems, as_mqtt| latencies(groups, trials, systems, as_mqtt);
    vec![
        Shape::of("S1.1", order_of_peaks(all), against_baselines(all)),
        Shape::of("S1.2", shrinking(all, &BASELINES), shrinking(all, &OURS)),
        Shape::of("S1.3", beside_xmpp(all), beside_ejabberd(all)),
        Shape::of("S1.4", latencies(&BASELINES, false), latencies(&OURS, true)),
        Shape::of("S1.5", plateau(trials, &BASELINES), plateau(trials, &OURS)),
    ]
}

const BASELINES: [(&str, Protocol); 4] = [SYSTEMS[0], SYSTEMS[1], SYSTEMS[2], SYSTEMS[3]];
const OURS: [(&str, Protocol); 3] = [SYSTEMS[4], SYSTEMS[5], SYSTEMS[6]];

/// The most that each system delivered of each class: by its floods that arrived, never by what another experiment offered.
struct Peaks<'g>(&'g [Group]);

impl Peaks<'_> {
    fn of(&self, class: &str, (system, protocol): (&str, Protocol)) -> Option<Stat> {
        let is_it = |group: &&Group| is_of(&group.cell, "E1b", (system, protocol), class);
        self.0
            .iter()
            .find(is_it)?
            .delivered_per_s()
            .filter(|stat| stat.mean > 0.0)
    }
}

fn order_of_peaks(peaks: &Peaks<'_>) -> Found {
    let known: Vec<(&str, Stat)> = BASELINES
        .iter()
        .filter_map(|system| Some((name(system.1), peaks.of("simple", *system)?)))
        .collect();
    if known.len() < 2 {
        return Found::nothing();
    }
    let mut all = Evidence::default();
    for (protocol, stat) in &known {
        all.figure(format!("{protocol} {stat}"));
    }
    for pair in known.windows(2) {
        let [(upper, more), (lower, less)] = pair else {
            continue;
        };
        all.compared(
            more.is_above(less),
            format!("{upper} is below {lower}"),
            format!("the intervals of {upper} and {lower} overlap"),
        );
    }
    for protocol in BASELINES.map(|system| name(system.1)) {
        if known.iter().all(|(other, _)| *other != protocol) {
            all.missing(format!("{protocol}: no flood arrived"));
        }
    }
    all.found_as(|figures| format!("{}/s", figures.join(", ")))
}

fn against_baselines(peaks: &Peaks<'_>) -> Found {
    let (mut all, mut missing) = (Evidence::default(), Vec::new());
    for (ours, theirs) in [
        (SYSTEMS[4], SYSTEMS[1]),
        (SYSTEMS[5], SYSTEMS[2]),
        (SYSTEMS[8], SYSTEMS[0]),
    ] {
        let both = (peaks.of("simple", ours), peaks.of("simple", theirs));
        let (ours, theirs) = (name(ours.1), theirs.0);
        let (Some(mine), Some(other)) = both else {
            missing.push(format!(
                "{ours} beside {theirs}: no flood of one of them arrived"
            ));
            continue;
        };
        all.figure(format!("{ours} {mine}, {theirs} {other}"));
        all.compared(
            mine.is_above(&other),
            format!("{ours} is below {theirs}"),
            format!("the intervals of {ours} and {theirs} overlap"),
        );
    }
    if missing.len() == 3 {
        return Found::not_asked(&missing.join("; "));
    }
    missing.into_iter().for_each(|words| all.missing(words));
    all.found_as(|figures| format!("{}/s", figures.join("; ")))
}

fn shrinking(peaks: &Peaks<'_>, systems: &[(&str, Protocol)]) -> Found {
    let mut ratios = Vec::new();
    for class in CLASSES {
        let mut means = Vec::new();
        for system in systems.iter().filter(|system| system.1 != Protocol::Xmpp) {
            match peaks.of(class, *system) {
                Some(peak) => means.push(peak.mean),
                // A quotient of other systems would be another figure.
                None => {
                    return Found::not_asked(&format!(
                        "{} {}: no flood arrived",
                        name(system.1),
                        class
                    ));
                }
            }
        }
        let (most, least) = (
            means.iter().copied().fold(0.0, f64::max),
            means.iter().copied().fold(f64::MAX, f64::min),
        );
        ratios.push(most / least);
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

fn beside_xmpp(peaks: &Peaks<'_>) -> Found {
    let ratio = |class| Some(peaks.of(class, SYSTEMS[1])?.mean / peaks.of(class, SYSTEMS[3])?.mean);
    let (Some(small), Some(image)) = (ratio("simple"), ratio("multimedia")) else {
        return Found::not_asked("no flood of XMPP arrived, or of MQTT beside it");
    };
    let mut all = Evidence::default();
    all.figure(format!("{}, {}", short(small), short(image)));
    all.fault(small < 10.0, "less than 10 times for small messages");
    all.fault(image > 2.5, "more than 2.5 times for images");
    all.found("")
}

fn beside_ejabberd(peaks: &Peaks<'_>) -> Found {
    let mut all = Evidence::default();
    for class in ["simple", "multimedia"] {
        let both = (peaks.of(class, SYSTEMS[9]), peaks.of(class, SYSTEMS[3]));
        let (Some(ours), Some(theirs)) = both else {
            return Found::not_asked(&format!(
                "{class}: no flood of one of ours and ejabberd arrived"
            ));
        };
        all.fault(
            ours.mean < theirs.mean,
            format!("{class} messages are below ejabberd's"),
        );
        all.figure(format!("{class} {ours}, ejabberd {theirs}"));
    }
    all.found_as(|figures| format!("{}/s", figures.join("; ")))
}

fn latencies(
    groups: &[Group],
    trials: &[(Cell, Row)],
    systems: &[(&str, Protocol)],
    all_as_mqtt: bool,
) -> Found {
    let mut all = Evidence::default();
    for (system, protocol) in systems.iter().filter(|system| system.1 != Protocol::Xmpp) {
        for class in CLASSES {
            let is_it = |cell: &Cell| is_of(cell, "E1c", (system, *protocol), class);
            let who = format!("{} {}", name(*protocol), class);
            let mut trials = trials.iter();
            if let Some((_, row)) = trials.find(|(cell, row)| is_it(cell) && is_held_back(row)) {
                let (sent, intended) = (row.sent, row.intended);
                all.fault(
                    true,
                    format!("{who}: the broker took {sent} of {intended} messages"),
                );
            }
            let bars: &[(f64, f64)] = match (class, protocol) {
                ("multimedia", _) => &[(90.0, 100e3)],
                (_, Protocol::Amqp) if !all_as_mqtt => &[(65.0, 1e3), (90.0, 3e3)],
                _ => &[(90.0, 1e3)],
            };
            let group = groups.iter().find(|group| is_it(&group.cell));
            for (percent, us) in bars {
                let Some((least, most)) = group.and_then(|group| group.percent_within(*us)) else {
                    all.missing(who.clone());
                    break;
                };
                let within = if least == most {
                    format!("{least:.1} %")
                } else {
                    format!("{least:.1} to {most:.1} %")
                };
                let words = format!("{who} {within} within {} ms", us * 1e-3);
                let holds = match (least >= *percent, most < *percent) {
                    (true, _) => Some(true),
                    (_, true) => Some(false),
                    _ => None,
                };
                all.compared(holds, words.clone(), words.clone());
                all.figure(words);
            }
        }
    }
    all.found(", ")
}

fn plateau(trials: &[(Cell, Row)], systems: &[(&str, Protocol)]) -> Found {
    let mut evidence = Evidence::default();
    for (system, protocol) in systems {
        for class in CLASSES {
            let who = format!("{system} {} {}", name(*protocol), class);
            let mut rates: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
            for (cell, row) in trials
                .iter()
                .filter(|(cell, _)| is_of(cell, "E1a", (system, *protocol), class))
            {
                let rates = rates.entry(cell.load.flows()).or_default();
                if row.standing == Standing::Valid || is_held_back(row) {
                    rates.extend(delivered_per_s(row));
                }
            }
            let points: Vec<Stat> = rates.values().filter_map(|of| stat(of)).collect();
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
    }
    evidence.found(", ")
}

/// Part of the best throughput that more pairs may cost.
const FALL_MAX: f64 = 0.2;

fn is_of(cell: &Cell, experiment: &str, (system, protocol): (&str, Protocol), class: &str) -> bool {
    cell.experiment == experiment
        && (cell.system.as_str(), cell.publish.protocol) == (system, protocol)
        && cell.axes.get("class").is_some_and(|name| name == class)
        && cell.driver == driver(protocol)
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
