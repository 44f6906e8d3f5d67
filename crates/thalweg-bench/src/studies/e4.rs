//! E4: one device that publishes and receives its own messages, over MQTT, AMQP and STOMP (study D).

use std::collections::BTreeSet;

use super::group::{Group, client, name};
use super::shape::{Evidence, Found, Shape};
use crate::cell::{Driver, Protocol, Row};
use crate::report::stat::{Stat, short};

const PROTOCOLS: [Protocol; 3] = [Protocol::Mqtt, Protocol::Amqp, Protocol::Stomp];

/// What became of S4.1 to S4.4.
pub fn shapes(groups: &[Group]) -> Vec<Shape> {
    let both = |id, judge: fn(&[Group], &str) -> Found| {
        Shape::of(id, judge(groups, "rabbitmq"), judge(groups, "thalweg"))
    };
    vec![
        both("S4.1", flat),
        both("S4.2", frugal),
        both("S4.3", processor),
        both("S4.4", memory),
    ]
}

fn of_size<'g>(
    groups: &'g [Group],
    system: &str,
    protocol: Protocol,
    driver: Driver,
    size: u32,
) -> Option<&'g Group> {
    groups.iter().find(|group| {
        group.cell.experiment == "E4a"
            && group.cell.system == system
            && group.cell.publish.protocol == protocol
            && group.cell.driver == driver
            && group.payload() == Some(size)
    })
}

fn flat(groups: &[Group], system: &str) -> Found {
    let mut all = Evidence::default();
    for driver in [Driver::Common, Driver::Stock] {
        let median = |protocol, size| {
            of_size(groups, system, protocol, driver, size)?.stat(|row| Some(row.response.p50))
        };
        let driven_by = client(driver);
        let mut order = Vec::new();
        for protocol in PROTOCOLS {
            let (Some(shorter), Some(longer)) = (median(protocol, 200), median(protocol, 1000))
            else {
                continue;
            };
            let (who, slope) = (name(protocol), 100.0 * (longer.mean / shorter.mean - 1.0));
            // Where repeats differ by that much, neither a small nor a large difference says anything.
            let grows = longer.exceeds(&shorter.times(1.0 + SLOPE_MAX));
            let words = format!("{who} with the {driven_by} grows by {slope:.0} %");
            all.weighed(grows.map(|grows| !grows), &words);
            order.push((shorter.mean, format!("{who} {shorter} us ({slope:+.0} %)")));
        }
        if !order.is_empty() {
            all.figure(format!("{driven_by}: {}", ascending(order)));
        }
        let (mut sizes, mut held, mut against) = (0, 0, 0);
        for size in sizes_of(groups, system, driver) {
            let medians: Vec<Stat> = ORDER
                .iter()
                .filter_map(|protocol| median(*protocol, size))
                .collect();
            if medians.len() < ORDER.len() {
                continue;
            }
            sizes += 1;
            held += usize::from(medians.is_sorted_by(|a, b| a.mean < b.mean));
            against += usize::from(medians.windows(2).any(|pair| match pair {
                [quicker, slower] => quicker.exceeds(slower) == Some(true),
                _ => false,
            }));
        }
        if sizes > 0 {
            let words =
                format!("the study's order at {held} of {sizes} sizes with the {driven_by}");
            all.figure(words.clone());
            let holds = match (against, sizes - held) {
                (0, 0) => Some(true),
                (0, _) => None,
                (_, _) => Some(false),
            };
            all.compared(
                holds,
                format!("{words}; another one beyond the intervals at {against}"),
                format!("{words}, within the intervals"),
            );
        }
    }
    all.found("; ")
}

/// Quickest first, as the study has it.
const ORDER: [Protocol; 3] = [Protocol::Stomp, Protocol::Mqtt, Protocol::Amqp];
/// From the shortest payload to the longest.
const SLOPE_MAX: f64 = 0.10;

fn sizes_of(groups: &[Group], system: &str, driver: Driver) -> BTreeSet<u32> {
    let is_of = |group: &&Group| {
        let cell = &group.cell;
        (cell.experiment.as_str(), cell.system.as_str(), cell.driver) == ("E4a", system, driver)
    };
    groups
        .iter()
        .filter(is_of)
        .filter_map(Group::payload)
        .collect()
}

/// A cost of a message; its name and unit.
type Cost = (&'static str, fn(&Row) -> Option<f64>);

const COSTS: [Cost; 3] = [
    ("B", |row| {
        Some(row.wire_bytes? as f64 / row.delivered.max(1) as f64)
    }),
    ("frames", |row| {
        Some(row.wire_frames? as f64 / row.delivered.max(1) as f64)
    }),
    ("us of processor", |row| {
        Some(row.cpu_client_s * 1e6 / row.delivered.max(1) as f64)
    }),
];

fn frugal(groups: &[Group], system: &str) -> Found {
    let (mut all, mut figures) = (Evidence::default(), Vec::new());
    let is_it =
        |group: &&Group| group.cell.experiment.starts_with("E4") && group.cell.system == system;
    let place = |group: &Group| {
        (
            group.cell.experiment.clone(),
            group.cell.driver,
            point(group),
        )
    };
    let mut points: Vec<(String, Driver, String)> =
        groups.iter().filter(is_it).map(place).collect();
    points.sort_by(|a, b| (&a.0, client(a.1), &a.2).cmp(&(&b.0, client(b.1), &b.2)));
    points.dedup();
    let (mut held, mut seen) = (0, 0);
    for (experiment, driver, at) in &points {
        let of = |protocol: Protocol, cost: fn(&Row) -> Option<f64>| -> Option<Stat> {
            let mut groups = groups.iter().filter(is_it);
            let there = (experiment.clone(), *driver, at.clone());
            let is_of =
                |group: &&Group| group.cell.publish.protocol == protocol && place(group) == there;
            groups.find(is_of)?.stat(cost)
        };
        for (unit, cost) in COSTS {
            let Some(mqtt) = of(Protocol::Mqtt, cost) else {
                continue;
            };
            let others: Vec<(Protocol, Stat)> = [Protocol::Amqp, Protocol::Stomp]
                .into_iter()
                .filter_map(|it| Some((it, of(it, cost)?)))
                .collect();
            for (other, stat) in &others {
                seen += 1;
                let words = format!(
                    "{at}, {}: MQTT {} {unit}, {} {}",
                    client(*driver),
                    short(mqtt.mean),
                    name(*other),
                    short(stat.mean)
                );
                let is_held = mqtt.mean <= stat.mean * (1.0 + MARGIN);
                held += usize::from(is_held);
                let holds = match mqtt.exceeds(stat) {
                    _ if is_held => Some(true),
                    Some(true) => Some(false),
                    _ => None,
                };
                all.weighed(holds, &words);
            }
            if (at.as_str(), *driver, experiment.as_str()) == ("1000 B", Driver::Common, "E4a") {
                let words: Vec<String> = others
                    .iter()
                    .map(|(other, stat)| format!("{} {}", name(*other), short(stat.mean)))
                    .collect();
                figures.push(format!(
                    "1000 B: MQTT {}, {} {unit}",
                    short(mqtt.mean),
                    words.join(", ")
                ));
            }
        }
    }
    if seen > 0 {
        all.figure(format!("{held} of {seen} comparisons"));
    }
    figures.into_iter().for_each(|words| all.figure(words));
    all.found("; ")
}

/// "Not above": within this part.
const MARGIN: f64 = 0.05;

fn point(group: &Group) -> String {
    match group.cell.experiment.as_str() {
        "E4b" => group.cell.axes.get("interval").cloned().unwrap_or_default(),
        _ => format!("{} B", group.payload().unwrap_or_default()),
    }
}

fn processor(groups: &[Group], system: &str) -> Found {
    told(groups, system, "us a message", COSTS[2].1)
}

fn memory(groups: &[Group], system: &str) -> Found {
    told(groups, system, "KiB", |row| {
        let of = |name| row.more.get(name).copied();
        of("pss_client_kib").or(of("rss_client_kib"))
    })
}

/// An order that is reported and not checked.
fn told(groups: &[Group], system: &str, unit: &str, of: fn(&Row) -> Option<f64>) -> Found {
    let mut figures = Vec::new();
    for driver in [Driver::Common, Driver::Stock] {
        for size in [200, 1000] {
            let stat = |protocol| {
                let stat = of_size(groups, system, protocol, driver, size)?.stat(of)?;
                Some((stat.mean, format!("{} {stat}", name(protocol))))
            };
            let order: Vec<_> = PROTOCOLS.into_iter().filter_map(stat).collect();
            if order.len() > 1 {
                let (client, order) = (client(driver), ascending(order));
                figures.push(format!("{client}, {size} B: {order} {unit}"));
            }
        }
    }
    match figures.is_empty() {
        true => Found::nothing(),
        false => Found::told(
            figures.join("; "),
            "it belongs to the client, not to the protocol",
        ),
    }
}

/// Words in the order of what they are about, the least first.
fn ascending(mut all: Vec<(f64, String)>) -> String {
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let words: Vec<String> = all.into_iter().map(|(_, words)| words).collect();
    words.join(" < ")
}
