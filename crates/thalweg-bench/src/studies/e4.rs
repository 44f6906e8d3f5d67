//! E4: one device that publishes and receives its own messages, over MQTT, AMQP and STOMP (study D).

use std::collections::{BTreeMap, BTreeSet};

use super::group::{Group, client, find, has, name};
use super::shape::{Evidence, Found, Shape};
use crate::cell::{Protocol, Row};
use crate::report::stat::{Stat, short};

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

const CLIENTS: [&str; 2] = ["common-client", "stock-client"];
const PROTOCOLS: [&str; 3] = ["mqtt", "amqp", "stomp"];
/// Quickest first, as the study has it.
const ORDER: [&str; 3] = ["stomp", "mqtt", "amqp"];

/// A figure of a system with a client, by protocol and size.
fn e4a<'g>(
    groups: &'g [Group],
    system: &'g str,
    client: &'g str,
    of: fn(&Row) -> Option<f64>,
) -> impl Fn(&str, u32) -> Option<Stat> + 'g {
    move |protocol, size| {
        let words = format!("E4a {system} {client} {protocol}-q1 {size}");
        find(groups, &words)?.stat(of)
    }
}

fn flat(groups: &[Group], system: &str) -> Found {
    let mut all = Evidence::default();
    for client in CLIENTS {
        let median = e4a(groups, system, client, |row| Some(row.response.p50));
        let driven_by = client.replace('-', " ");
        let mut order = Vec::new();
        for protocol in PROTOCOLS {
            let (Some(shorter), Some(longer)) = (median(protocol, 200), median(protocol, 1000))
            else {
                continue;
            };
            let (who, slope) = (
                protocol.to_uppercase(),
                100.0 * (longer.mean / shorter.mean - 1.0),
            );
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
        for size in sizes_of(groups, &format!("E4a {system} {client}")) {
            let Some([first, second, third]) = each(|protocol| median(protocol, size)) else {
                continue;
            };
            sizes += 1;
            held += usize::from(first.mean < second.mean && second.mean < third.mean);
            let is_against = |quicker: &Stat, slower| quicker.exceeds(slower) == Some(true);
            against += usize::from(is_against(&first, &second) || is_against(&second, &third));
        }
        if sizes > 0 {
            let words =
                format!("the study's order at {held} of {sizes} sizes with the {driven_by}");
            all.figure(words.clone());
            let is_known = against > 0 || held == sizes;
            all.compared(
                is_known.then_some(against == 0),
                format!("{words}; another one beyond the intervals at {against}"),
                format!("{words}, within the intervals"),
            );
        }
    }
    all.found("; ")
}

/// From the shortest payload to the longest.
const SLOPE_MAX: f64 = 0.10;

/// Of each protocol in the study's order; nothing if one lacks it.
fn each(of: impl Fn(&str) -> Option<Stat>) -> Option<[Stat; 3]> {
    let [first, second, third] = ORDER.map(of);
    Some([first?, second?, third?])
}

fn sizes_of(groups: &[Group], words: &str) -> BTreeSet<u32> {
    let groups = groups.iter().filter(|group| has(&group.cell, words));
    groups.filter_map(Group::payload).collect()
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
    // What was measured of each protocol at each point, by experiment and client.
    let mut points: BTreeMap<(&str, &str, String), BTreeMap<Protocol, &Group>> = BTreeMap::new();
    for group in groups {
        let cell = &group.cell;
        if cell.experiment.starts_with("E4") && cell.system == system {
            let point = (cell.experiment.as_str(), client(cell.driver), point(group));
            let of = points.entry(point).or_default();
            of.entry(cell.publish.protocol).or_insert(group);
        }
    }
    let (mut all, mut figures) = (Evidence::default(), Vec::new());
    let (mut held, mut seen) = (0, 0);
    for ((experiment, client, at), of) in &points {
        for (unit, cost) in COSTS {
            let stat = |protocol| of.get(&protocol)?.stat(cost);
            let Some(mqtt) = stat(Protocol::Mqtt) else {
                continue;
            };
            let mut others = Vec::new();
            for other in [Protocol::Amqp, Protocol::Stomp] {
                let Some(stat) = stat(other) else { continue };
                seen += 1;
                let theirs = format!("{} {}", name(other), short(stat.mean));
                let ours = short(mqtt.mean);
                let words = format!("{at}, {client}: MQTT {ours} {unit}, {theirs}");
                let is_held = mqtt.mean <= stat.mean * (1.0 + MARGIN);
                held += usize::from(is_held);
                let is_above = mqtt.exceeds(&stat) == Some(true);
                all.weighed((is_held || is_above).then_some(is_held), &words);
                others.push(theirs);
            }
            if (*experiment, *client, at.as_str()) == ("E4a", "common client", "1000 B") {
                let (mqtt, others) = (short(mqtt.mean), others.join(", "));
                figures.push(format!("1000 B: MQTT {mqtt}, {others} {unit}"));
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
        "E4b" => group.axis("interval").to_owned(),
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
    for client in CLIENTS {
        let of = e4a(groups, system, client, of);
        for size in [200, 1000] {
            let stat = |protocol: &str| {
                let stat = of(protocol, size)?;
                Some((stat.mean, format!("{} {stat}", protocol.to_uppercase())))
            };
            let order: Vec<_> = PROTOCOLS.into_iter().filter_map(stat).collect();
            if order.len() > 1 {
                let (client, order) = (client.replace('-', " "), ascending(order));
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
