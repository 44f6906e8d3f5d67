//! E3: flood, periodic and sporadic traffic over a link of 95 Mbit/s, and policies of DDS (study C): brokers, libzmq and
//! Cyclone DDS without one, and Cyclone DDS through our bridge. What our broker does not have is said in the table of statements.

use super::group::{Group, name, way};
use super::plan::{by, cell, mqtt, of, phases};
use super::shape::{Found, Shape};
use crate::cell::{Cell, Driver, Leg, Link, Load, Protocol, Row, Workload};
use crate::e5::plan::Budget;
use crate::report::groups::{Stat, short};

/// Bits a second of the study's network.
pub const LINK_BITS: u64 = 95_000_000;

/// Links of the study's small computers: so many bits a second in each direction.
const RPI95: Link = Link {
    namespaces: true,
    rate: Some(LINK_BITS),
    ..Link::LOOPBACK
};

/// The cells of E3a to E3d.
pub fn cells(budget: Budget, seed: u64) -> Vec<Cell> {
    let one = Leg {
        window: 1,
        ..mqtt(2)
    };
    let mut systems: Vec<(&str, Leg)> = vec![
        ("zmq-peers", of(Protocol::Zmtp, 0)),
        ("mosquitto", one),
        ("mosquitto", mqtt(0)),
        ("thalweg", one),
        ("thalweg", mqtt(0)),
        ("cyclonedds", of(Protocol::Dds, 1)),
        ("thalweg", of(Protocol::Dds, 1)),
    ];
    if budget != Budget::Quick {
        // The study's ZeroMQ had no broker, and its DDS was reliable.
        systems.push(("zmq-proxy", of(Protocol::Zmtp, 0)));
        systems.push(("cyclonedds", of(Protocol::Dds, 0)));
        systems.push(("thalweg", of(Protocol::Dds, 0)));
    }
    systems.extend((budget == Budget::Paper).then_some(("thalweg", of(Protocol::Zmtp, 0))));
    let sizes: &[u32] = match budget {
        Budget::Quick => &[64, 2048, 32_768],
        Budget::Standard => &[64, 256, 1024, 2048, 4096, 16_384, 32_768],
        Budget::Paper => &[
            64, 128, 256, 512, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536,
        ],
    };
    let mut cells = Vec::new();
    for (system, leg) in &systems {
        for size in sizes {
            for fan_out in [1, 7] {
                // Of seven subscribers the statements want the smallest and the largest payloads, of open loops.
                if budget == Budget::Quick && fan_out == 7 && (*size == 2048 || leg.window == 1) {
                    continue;
                }
                flood(budget, seed, system, *leg, *size, fan_out, &mut cells);
            }
            periodic(budget, seed, system, *leg, *size, &mut cells);
        }
        for size in by(
            budget,
            &[64, 32_768][..],
            &[64, 512, 2048, 32_768],
            &[64, 512, 1024, 2048, 16_384, 32_768],
        ) {
            sporadic(budget, seed, system, *leg, *size, &mut cells);
        }
    }
    policies(budget, seed, &mut cells);
    cells
}

fn driver(leg: Leg) -> Driver {
    match leg.protocol {
        // Exactly once with one message under way is the study's own client; the bare one has no such dialogue to spare.
        Protocol::Mqtt if leg.qos == 0 => Driver::Bare,
        Protocol::Zmtp | Protocol::Dds => Driver::Stock,
        _ => Driver::Common,
    }
}

fn flood(
    budget: Budget,
    seed: u64,
    system: &str,
    leg: Leg,
    size: u32,
    fan_out: u32,
    cells: &mut Vec<Cell>,
) {
    let (warmup, measure, repeats) = by(budget, (0.5, 1.5, 1), (0.5, 4.0, 3), (1.0, 90.0, 5));
    let draft = cell("E3a", system, leg)
        .at("topology", format!("1-{fan_out}"))
        .payload(size)
        .with(|cell| {
            // One at a time is a closed loop; its rate is that of round trips.
            cell.load = match leg.window {
                1 => Load::Closed {
                    think_ns: 0,
                    flows: 1,
                },
                _ => Load::Flood { flows: 1 },
            };
            cell.link = RPI95;
            cell.fan_out = fan_out;
            cell.driver = driver(leg);
            cell.phases = phases(0.3, warmup, measure, 3.0);
        });
    draft.repeats(repeats, seed, cells);
}

fn periodic(budget: Budget, seed: u64, system: &str, leg: Leg, size: u32, cells: &mut Vec<Cell>) {
    if ![64, 2048, 16_384, 32_768].contains(&size)
        || (leg.protocol == Protocol::Mqtt && leg.qos == 2)
    {
        return;
    }
    if budget == Budget::Quick && size == 2048 {
        return;
    }
    let rates: &[u32] = by(
        budget,
        &[200, 600],
        &[200, 400, 600, 1000],
        &[200, 400, 600, 800, 1000],
    );
    let (measure, repeats) = by(budget, (1.5, 1), (4.0, 2), (90.0, 5));
    for rate in rates {
        cell("E3b", system, leg)
            .at("rate", format!("{rate}/s"))
            .payload(size)
            .open(f64::from(*rate), 1)
            .with(|cell| {
                cell.link = RPI95;
                cell.driver = driver(leg);
                cell.phases = phases(0.3, 0.5, measure, 3.0);
            })
            .repeats(repeats, seed, cells);
    }
}

/// E3c: 25 Mbit/s of one flow, and beside it for some time messages of 2 MiB, together more than the link carries.
fn sporadic(budget: Budget, seed: u64, system: &str, leg: Leg, size: u32, cells: &mut Vec<Cell>) {
    if leg.window == 1 {
        // A closed loop has no rate that a neighbour could disturb.
        return;
    }
    // A ninth of the time, as in the study, would be three messages of a quick run: there it is a third.
    let (measure, from, lasts, repeats) = by(
        budget,
        (4.5, 1.0, 1.5, 1),
        (18.0, 6.0, 2.0, 2),
        (90.0, 30.0, 10.0, 5),
    );
    let rate = (STEADY_BITS / f64::from(8 * size)).min(STEADY_RATE_MAX);
    let ns = |seconds: f64| (seconds * 1e9) as u64;
    cell("E3c", system, leg)
        .payload(size)
        .open(rate, 2)
        .with(|cell| {
            cell.workload = Workload::Beside {
                bytes: size,
                burst_bytes: 2 << 20,
                burst_rate: BURST_RATE,
                from_ns: ns(from),
                for_ns: ns(lasts),
            };
            cell.link = RPI95;
            // Each flow has a client with a thread of its own; the bare one has a thread for all, and 2 MiB keep it busy.
            cell.driver = if leg.protocol == Protocol::Mqtt {
                Driver::Common
            } else {
                driver(leg)
            };
            cell.phases = phases(0.3, 0.5, measure, 5.0);
        })
        .repeats(repeats, seed, cells);
}

/// Of the periodic flow.
const STEADY_BITS: f64 = 25e6;
/// Small messages are fewer than that would be: 64 B would be 48,828 a second, which no scheduler of this machine keeps.
const STEADY_RATE_MAX: f64 = 2000.0;
/// 2 MiB so many times a second are 84 Mbit/s: the next is there before the link has carried the last.
const BURST_RATE: f64 = 5.0;

/// E3d: policies of DDS, as far as Cyclone has them, on one Ethernet: a router would stop multicasts.
fn policies(budget: Budget, seed: u64, cells: &mut Vec<Cell>) {
    let (warmup, measure, repeats) = by(budget, (0.5, 1.5, 1), (0.5, 4.0, 3), (1.0, 90.0, 5));
    let all: [&[u32]; 2] = by(
        budget,
        [&[64, 8192], &[64, 32_768]],
        [
            &[64, 256, 512, 1024, 4096, 32_768],
            &[64, 256, 1024, 4096, 32_768],
        ],
        [
            &[64, 128, 256, 512, 1024, 2048, 4096, 8192, 32_768],
            &[64, 128, 256, 512, 1024, 2048, 4096, 8192, 32_768],
        ],
    );
    for (policy, settings, topologies) in POLICIES {
        for (fan_out, sizes) in [1, 7].into_iter().zip(all) {
            let is_quick = topologies.contains(&fan_out);
            if !is_quick && (budget == Budget::Quick || policy.starts_with(MULTICAST)) {
                // One subscriber is reached by unicast all the same.
                continue;
            }
            for size in sizes {
                cell("E3d", "cyclonedds", of(Protocol::Dds, 1))
                    .at("policy", policy)
                    .at("topology", format!("1-{fan_out}"))
                    .payload(*size)
                    .with(|cell| {
                        cell.load = Load::Flood { flows: 1 };
                        cell.broker_settings = settings
                            .iter()
                            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                            .collect();
                        cell.link = Link {
                            bridged: true,
                            ..RPI95
                        };
                        cell.fan_out = fan_out;
                        cell.driver = Driver::Stock;
                        cell.phases = phases(0.3, warmup, measure, 3.0);
                    })
                    .repeats(repeats, seed, cells);
            }
        }
    }
}

const BASE: &str = "base";
const MULTICAST: &str = "Multicast";
const BATCHES: &str = "Turbo";
const SLOW: &str = "SlowHeartbeat";

/// A policy of the study, what Cyclone is told (`brokers/peers.rs`), and the subscribers that the quick run has.
type Policy = (
    &'static str,
    &'static [(&'static str, &'static str)],
    &'static [u32],
);
const POLICIES: [Policy; 5] = [
    (BASE, &[], &[1, 7]),
    (MULTICAST, &[("multicast", "true")], &[7]),
    // Cyclone gathers what fits into a datagram, and does not reckon how much that should be, as RTI's TurboMode does.
    (BATCHES, &[("batch", "true")], &[1]),
    (SLOW, &[("heartbeat", "1 s")], &[]),
    (
        "Multicast+Turbo",
        &[("multicast", "true"), ("batch", "true")],
        &[],
    ),
];

/// What became of S3.1 to S3.8, and of the policies that are in no statement.
pub fn shapes(groups: &[Group]) -> Vec<Shape> {
    let not_built = |why: &str| Found::not_asked(&format!("not built: {why}"));
    let shape = |id, what, paper, baseline, ours| Shape {
        id,
        what,
        paper,
        baseline,
        ours,
    };
    vec![
        shape(
            "S3.1",
            "1-1 below 1 KB: ZMTP above DDS, DDS above MQTT (QoS 2, one at a time), ZMTP at least 5 times MQTT",
            "18 to 32 times",
            small_floods(groups, "mosquitto"),
            small_floods(groups, "thalweg"),
        ),
        shape(
            "S3.2",
            "1-1 from 4 KB: a peer reaches 90 % of the link",
            "92 to 95 Mbit/s",
            whole_link(groups, &["cyclonedds", "zmq-peers"]),
            whole_link(groups, &["thalweg"]),
        ),
        shape(
            "S3.3",
            "1-7, large payloads: each subscriber gets a seventh of the link (13.6 Mbit/s ± 10 %)",
            "12.0 to 14.9 Mbit/s",
            sevenths(groups, false),
            sevenths(groups, true),
        ),
        shape(
            "S3.4",
            "1-7 by multicast: at least 3 times unicast up to 1 KB, at least half of the link for large payloads",
            "+273 to 542 %; 50 to 87 Mbit/s",
            multicast(groups),
            not_built("no listener of ours sends multicasts"),
        ),
        shape(
            "S3.5",
            "batches: at least 1.2 times without below 1 KB, the same ± 5 % from 4 KB",
            "+24 to 848 %",
            batches(groups),
            not_built(
                "it gathers whatever waits into one write, always; there is nothing to compare that with",
            ),
        ),
        shape(
            "S3.6",
            "throttled by itself: lower latency than without, at most 25 % less throughput",
            "-18 %, -3.6 %",
            not_built("Cyclone DDS has no AutoThrottle"),
            not_built("our clients do not throttle themselves by what is under way"),
        ),
        shape(
            "S3.7",
            "periodic, 64 B and 2 KB: the 90 % latency does not depend on the rate (greatest / least at most 1.5); 32 KB: it \
             does once rate times size is above the link",
            "flat; knee at 400/s of 32 KB",
            periodic_p90(groups, false),
            periodic_p90(groups, true),
        ),
        shape(
            "S3.8",
            "sporadic beside periodic: MQTT's deviation while large messages come is above that of both kinds of peers",
            "64 B: 7284 us against 125 (DDS) and 1799 (ZeroMQ)",
            neighbours(groups, "mosquitto"),
            neighbours(groups, "thalweg"),
        ),
        shape(
            "C, heartbeat",
            "1-7: with rarer heartbeats latency falls, and throughput does not",
            "latency -49 %",
            slow_heartbeat(groups),
            not_built("MQTT has no heartbeats for data"),
        ),
        shape(
            "C, rate limit",
            "each subscriber gets at most so much a second",
            "a table of features",
            not_built("Cyclone DDS has no flow controller that is told a rate"),
            not_built("the broker has no limit of a rate on what it sends"),
        ),
        shape(
            "C, lifespan",
            "what is too old is not delivered",
            "a table of features",
            Found::not_asked("no cell publishes with a lifespan"),
            Found::not_asked(
                "the broker expires messages (MQTT 5); no cell publishes with an expiry",
            ),
        ),
        shape(
            "C, priority",
            "a peer with a priority lane keeps its 90 % latency within 3 times of what it was beside large messages",
            "a table of features",
            not_built(
                "Cyclone DDS hands Transport_Priority to the network, which has one queue here",
            ),
            not_built("the broker has no priorities for what it sends"),
        ),
    ]
}

fn e3d<'g>(groups: &'g [Group], policy: &'g str, fan_out: u32) -> impl Iterator<Item = &'g Group> {
    groups.iter().filter(move |group| {
        group.cell.experiment == "E3d"
            && group.cell.fan_out == fan_out
            && group
                .cell
                .axes
                .get("policy")
                .is_some_and(|name| name == policy)
    })
}

/// Pairs of what a policy and the base gave at a size.
fn beside_base<'g>(
    groups: &'g [Group],
    policy: &'g str,
    fan_out: u32,
) -> Vec<(u32, &'g Group, &'g Group)> {
    let pair = |with: &'g Group| {
        let size = with.payload()?;
        let base = e3d(groups, BASE, fan_out).find(|group| group.payload() == Some(size))?;
        Some((size, with, base))
    };
    let mut pairs: Vec<_> = e3d(groups, policy, fan_out).filter_map(pair).collect();
    pairs.sort_by_key(|(size, ..)| *size);
    pairs
}

fn told(figures: Vec<String>, faults: &[String]) -> Found {
    match figures.is_empty() {
        true => Found::nothing(),
        false => Found::judged(figures.join("; "), faults),
    }
}

const LINK_MBIT: f64 = LINK_BITS as f64 * 1e-6;

/// Of protocols that need no broker, between these systems' clients.
fn whole_link(groups: &[Group], systems: &[&str]) -> Found {
    let (mut figures, mut faults) = (Vec::new(), Vec::new());
    for group in floods(groups, "1-1") {
        let (protocol, qos) = (group.cell.publish.protocol, group.cell.publish.qos);
        let is_one = systems.contains(&group.cell.system.as_str())
            && matches!((protocol, qos), (Protocol::Zmtp, _) | (Protocol::Dds, 1..));
        let (Some(size), Some(rate), true) = (group.payload(), group.mbit(), is_one) else {
            continue;
        };
        if size < 4096 {
            continue;
        }
        let words = format!("{} {size} B {rate} Mbit/s", name(protocol));
        // The statement is about DDS; ZeroMQ did not reach it in the study.
        if rate.mean < 0.9 * LINK_MBIT && protocol == Protocol::Dds {
            faults.push(words.clone());
        }
        figures.push(words);
    }
    told(figures, &faults)
}

fn multicast(groups: &[Group]) -> Found {
    let (mut figures, mut faults) = (Vec::new(), Vec::new());
    for (size, with, base) in beside_base(groups, MULTICAST, 7) {
        let (Some(with), Some(base)) = (with.mbit(), base.mbit()) else {
            continue;
        };
        let times = with.mean / base.mean;
        let words = format!(
            "{size} B: {with} against {base} Mbit/s, {} times",
            short(times)
        );
        if (size <= 1024 && times < 3.0) || (size >= 4096 && with.mean < 0.5 * LINK_MBIT) {
            faults.push(words.clone());
        }
        figures.push(words);
    }
    told(figures, &faults)
}

fn batches(groups: &[Group]) -> Found {
    let (mut figures, mut faults) = (Vec::new(), Vec::new());
    for (size, with, base) in beside_base(groups, BATCHES, 1) {
        let (Some(with), Some(base)) = (with.mbit(), base.mbit()) else {
            continue;
        };
        let times = with.mean / base.mean;
        let words = format!(
            "{size} B: {with} against {base} Mbit/s, {} times",
            short(times)
        );
        if (size < 1024 && times < 1.2) || (size >= 4096 && (times - 1.0).abs() > 0.05) {
            faults.push(words.clone());
        }
        figures.push(words);
    }
    told(figures, &faults)
}

fn slow_heartbeat(groups: &[Group]) -> Found {
    let (mut figures, mut faults) = (Vec::new(), Vec::new());
    for (size, with, base) in beside_base(groups, SLOW, 7) {
        let latency = |group: &Group| Some(group.mean_ms()?.mean);
        let (Some(slow), Some(usual), Some(rate), Some(usual_rate)) =
            (latency(with), latency(base), with.mbit(), base.mbit())
        else {
            continue;
        };
        let words = format!(
            "{size} B: {} against {} ms, {rate} against {usual_rate} Mbit/s",
            short(slow),
            short(usual)
        );
        if slow >= usual || rate.mean < 0.9 * usual_rate.mean {
            faults.push(words.clone());
        }
        figures.push(words);
    }
    told(figures, &faults)
}

/// What a broker's steady flow feels of a neighbour, beside what peers' does.
fn neighbours(groups: &[Group], broker: &str) -> Found {
    let of = |system: &str, protocol: Protocol, size: u32, what: &str| {
        let group = groups.iter().find(|group| {
            group.cell.experiment == "E3c"
                && group.cell.system == system
                && group.cell.publish.protocol == protocol
                // The study's DDS was reliable; the other protocols have one quality here.
                && group.cell.publish.qos == u8::from(protocol == Protocol::Dds)
                && group.payload() == Some(size)
        })?;
        group.stat(|row: &Row| row.more.get(what).copied())
    };
    let (mut figures, mut faults, mut open, mut missing) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for size in [64, 512, 1024, 2048, 16_384, 32_768] {
        let known: Vec<(&str, Stat, String)> = [
            (broker, Protocol::Mqtt),
            ("cyclonedds", Protocol::Dds),
            ("zmq-peers", Protocol::Zmtp),
        ]
        .into_iter()
        .filter_map(|(system, protocol)| {
            let sd = of(system, protocol, size, "during_burst_sd_us")?;
            let before = of(system, protocol, size, "before_burst_sd_us");
            let recovery = of(system, protocol, size, "recovery_ms");
            let recovery = recovery.map_or("not within the trial".to_owned(), |ms| {
                format!("{} ms", short(ms.mean))
            });
            let words = format!(
                "{} sd {} us (before {}; as before after {recovery})",
                name(protocol),
                short(sd.mean),
                before.map_or("-".to_owned(), |before| short(before.mean))
            );
            Some((name(protocol), sd, words))
        })
        .collect();
        let words: Vec<&str> = known.iter().map(|(.., words)| words.as_str()).collect();
        let [(_, mqtt, _), peers @ ..] = known.as_slice() else {
            continue;
        };
        if known
            .first()
            .is_none_or(|(who, ..)| *who != name(Protocol::Mqtt))
            || peers.is_empty()
        {
            continue;
        }
        for (who, sd, _) in peers {
            let words = format!(
                "{size} B: MQTT's {} is not above {who}'s {}",
                short(mqtt.mean),
                short(sd.mean)
            );
            match mqtt.exceeds(sd) {
                Some(true) => {}
                Some(false) => faults.push(words),
                None => open.push(format!("{words} beyond the intervals")),
            }
        }
        for protocol in [Protocol::Dds, Protocol::Zmtp].map(name) {
            if known.iter().all(|(who, ..)| *who != protocol) {
                missing.push(format!("without {protocol} at {size} B"));
            }
        }
        figures.push(format!("{size} B: {}", words.join(", ")));
    }
    let found = Found::weighed(figures.join("; "), &faults, &open);
    if missing.is_empty() {
        found
    } else {
        found.under(missing.join(", "))
    }
}

fn floods<'g>(groups: &'g [Group], topology: &'g str) -> impl Iterator<Item = &'g Group> {
    groups.iter().filter(move |group| {
        group.cell.experiment == "E3a"
            && group
                .cell
                .axes
                .get("topology")
                .is_some_and(|name| name == topology)
    })
}

fn small_floods(groups: &[Group], system: &str) -> Found {
    let rate = |system: &str, protocol: Protocol, qos: u8, size: u32| {
        let group = floods(groups, "1-1").find(|group| {
            group.cell.system == system
                && (group.cell.publish.protocol, group.cell.publish.qos) == (protocol, qos)
                && group.payload() == Some(size)
        })?;
        Some(group.mbit()?.mean)
    };
    let (mut figures, mut faults) = (Vec::new(), Vec::new());
    let mut is_proxied = false;
    for size in [64, 128, 256, 512] {
        // Results from before there were peers have the proxy only.
        let proxied = rate("zmq-proxy", Protocol::Zmtp, 0, size);
        let peers = rate("zmq-peers", Protocol::Zmtp, 0, size);
        is_proxied |= peers.is_none() && proxied.is_some();
        let (Some(zmtp), Some(mqtt)) = (peers.or(proxied), rate(system, Protocol::Mqtt, 2, size))
        else {
            continue;
        };
        let ratio = zmtp / mqtt;
        let mut words = format!(
            "{size} B: ZMTP {}, MQTT {} Mbit/s: {} times",
            short(zmtp),
            short(mqtt),
            short(ratio)
        );
        if let Some(qos0) = rate(system, Protocol::Mqtt, 0, size) {
            words.push_str(&format!(" ({} times MQTT QoS 0)", short(zmtp / qos0)));
        }
        if let Some(dds) = rate("cyclonedds", Protocol::Dds, 1, size) {
            words.push_str(&format!(", DDS {} Mbit/s", short(dds)));
            if !(zmtp > dds && dds > mqtt) {
                faults.push(format!("the order is another one at {size} B"));
            }
        }
        if ratio < 5.0 {
            faults.push(format!("less than 5 times at {size} B"));
        }
        figures.push(words);
    }
    match figures.is_empty() {
        true => Found::nothing(),
        false if is_proxied => Found::judged(figures.join("; "), &faults)
            .under("without peers; ZMTP goes through libzmq's proxy"),
        false => Found::judged(figures.join("; "), &faults),
    }
}

fn sevenths(groups: &[Group], is_ours: bool) -> Found {
    let (mut figures, mut faults) = (Vec::new(), Vec::new());
    for group in floods(groups, "1-7").filter(|group| (group.cell.system == "thalweg") == is_ours) {
        if group.payload() < Some(16_384) || group.cell.publish.window == 1 {
            continue;
        }
        let Some(rate) = group.mbit() else { continue };
        let words = format!(
            "{} {} {} B: {rate} Mbit/s",
            group.cell.system,
            way(&group.cell.publish),
            group.payload().unwrap_or_default()
        );
        if (rate.mean / (LINK_BITS as f64 * 1e-6 / 7.0) - 1.0).abs() > 0.1 {
            faults.push(words.clone());
        }
        figures.push(words);
    }
    match figures.is_empty() {
        true => Found::nothing(),
        false => Found::judged(figures.join(", "), &faults)
            .under("where there is a broker, all subscribers share its link, as they shared the publisher's"),
    }
}

fn periodic_p90(groups: &[Group], is_ours: bool) -> Found {
    let (mut figures, mut faults) = (Vec::new(), Vec::new());
    let all: Vec<&Group> = groups
        .iter()
        .filter(|group| {
            group.cell.experiment == "E3b" && (group.cell.system == "thalweg") == is_ours
        })
        .collect();
    let mut systems: Vec<(&str, Protocol)> = all
        .iter()
        .map(|group| (group.cell.system.as_str(), group.cell.publish.protocol))
        .collect();
    systems.sort_unstable();
    systems.dedup();
    for (system, protocol) in systems {
        for size in [64, 2048] {
            let p90: Vec<f64> = all
                .iter()
                .filter(|group| {
                    group.cell.system == system && group.cell.publish.protocol == protocol
                })
                .filter(|group| group.payload() == Some(size))
                .filter_map(|group| Some(group.stat(|row| Some(row.response.p90))?.mean))
                .collect();
            if p90.len() < 2 {
                continue;
            }
            let spread = p90.iter().copied().fold(0.0, f64::max)
                / p90.iter().copied().fold(f64::MAX, f64::min);
            let words = format!(
                "{system} {} {size} B: {} times",
                name(protocol),
                short(spread)
            );
            if spread > 1.5 {
                faults.push(words.clone());
            }
            figures.push(words);
        }
    }
    match figures.is_empty() {
        true => Found::nothing(),
        false => Found::judged(figures.join(", "), &faults),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::Standing;
    use crate::studies::group;

    fn trial(cell: Cell, more: &[(&str, f64)]) -> (Cell, Row) {
        let more = more
            .iter()
            .map(|(key, value)| ((*key).to_owned(), *value))
            .collect();
        (
            cell,
            Row {
                more,
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
            let cells = cells(budget, 3);
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
                assert!(
                    bits < 1.02 * STEADY_BITS
                        && steady as f64 / end as f64 * 1e9 < 1.02 * STEADY_RATE_MAX
                );
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
        let cells = cells(Budget::Standard, 3);
        for (policy, ..) in POLICIES {
            let mut some = cells
                .iter()
                .filter(|cell| cell.axes.get("policy").is_some_and(|name| name == policy));
            assert!(
                some.all(|cell| cell.link.bridged && cell.link.rate == Some(LINK_BITS)),
                "{policy}"
            );
        }
        let cells = super::cells(Budget::Quick, 3);
        let rate = |policy: &str, fan_out: u32, size: u32, per_s: f64| {
            let is_it = |cell: &&Cell| {
                cell.experiment == "E3d"
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
        ];
        let found = shapes(&group::groups(&good));
        for id in ["S3.4", "S3.5"] {
            let shape = of(&found, id);
            assert!(
                matches!(
                    shape.baseline.ruling,
                    crate::report::study::Ruling::Reproduced
                ),
                "{shape:?}"
            );
            assert!(
                shape.baseline.figures.contains("4.00 times")
                    && shape.ours.figures.starts_with("not built: ")
            );
        }
        let bad = [rate(BASE, 7, 64, 7000.0), rate(MULTICAST, 7, 64, 8000.0)];
        let found = shapes(&group::groups(&bad));
        assert!(matches!(
            of(&found, "S3.4").baseline.ruling,
            crate::report::study::Ruling::Not(_)
        ));
        assert_eq!(of(&found, "S3.5").baseline, Found::nothing());
    }

    #[test]
    fn what_a_neighbour_does_is_judged_by_the_deviation_meanwhile() {
        let cells = cells(Budget::Quick, 3);
        let sd = |system: &str, us: f64| {
            let is_it = |cell: &&Cell| {
                cell.experiment == "E3c"
                    && cell.system == system
                    && group::payload(cell) == Some(64)
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
            matches!(
                shape.baseline.ruling,
                crate::report::study::Ruling::Reproduced
            ),
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
            matches!(ruling, crate::report::study::Ruling::Under(what) if what == "without DDS at 64 B"),
            "{ruling:?}"
        );
        let found = shapes(&group::groups(&[
            sd("thalweg", 100.0),
            sd("cyclonedds", 125.0),
        ]));
        assert!(matches!(
            of(&found, "S3.8").ours.ruling,
            crate::report::study::Ruling::Not(_)
        ));
    }
}
