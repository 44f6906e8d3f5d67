//! E3: flood, periodic and sporadic traffic over a link of 95 Mbit/s, and policies of DDS (study C): brokers, libzmq and
//! Cyclone DDS without one, and Cyclone DDS through our bridge. What our broker does not have is said in the table of statements.

mod statements;
#[cfg(test)]
mod tests;

pub use statements::shapes;

use super::plan::{by, cell, mqtt, phases};
use crate::cell::{Cell, Driver, Extras, Leg, Link, Load, Protocol, Workload};
use crate::studies::plan::Budget;

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
        ("zmq-peers", Leg::of(Protocol::Zmtp, 0)),
        ("mosquitto", one),
        ("mosquitto", mqtt(0)),
        ("thalweg", one),
        ("thalweg", mqtt(0)),
        ("cyclonedds", Leg::of(Protocol::Dds, 1)),
        ("thalweg", Leg::of(Protocol::Dds, 1)),
    ];
    if budget != Budget::Quick {
        // The study's ZeroMQ had no broker, and its DDS was reliable.
        systems.push(("zmq-proxy", Leg::of(Protocol::Zmtp, 0)));
        systems.push(("cyclonedds", Leg::of(Protocol::Dds, 0)));
    }
    if budget == Budget::Paper {
        systems.push((OURS, Leg::of(Protocol::Zmtp, 0)));
        systems.push((OURS, Leg::of(Protocol::Dds, 0)));
    }
    let sizes: &[u32] = match budget {
        Budget::Quick => &[64, 2048, 32_768],
        Budget::Standard => &[64, 256, 1024, 2048, 4096, 16_384, 32_768],
        Budget::Paper => &[
            64, 128, 256, 512, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536,
        ],
    };
    let mut cells = Vec::new();
    for (system, leg) in &systems {
        // A short run shows that samples pass through the bridge, and how many.
        let is_bridge = (*system, leg.protocol) == (OURS, Protocol::Dds);
        let few = |size: &u32| is_bridge && ![64, 4096, 32_768].contains(size);
        for size in sizes {
            if budget != Budget::Paper && few(size) {
                continue;
            }
            for fan_out in [1, 7] {
                if budget == Budget::Quick && is_bridge && fan_out == 7 {
                    continue;
                }
                // Of seven subscribers the statements want the smallest and the largest payloads, of open loops.
                if budget == Budget::Quick && fan_out == 7 && (*size == 2048 || leg.window == 1) {
                    continue;
                }
                flood(budget, seed, system, *leg, *size, fan_out, &mut cells);
            }
            if budget != Budget::Quick || !is_bridge {
                periodic(budget, seed, system, *leg, *size, &mut cells);
            }
        }
        for size in by(
            budget,
            &[64, 32_768][..],
            &[64, 512, 2048, 32_768],
            &[64, 512, 1024, 2048, 16_384, 32_768],
        ) {
            if is_bridge && (budget == Budget::Quick || (budget != Budget::Paper && few(size))) {
                continue;
            }
            sporadic(budget, seed, system, *leg, *size, &mut cells);
        }
    }
    policies(budget, seed, &mut cells);
    paced(budget, seed, &mut cells);
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
                cell("E3d", "cyclonedds", Leg::of(Protocol::Dds, 1))
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

/// E3d with our client: how it paces what is confirmed, over the link of the study and a round trip of 2 ms, where a batch saves
/// what loopback does not have. So much is under way that what is not throttled waits in queues.
fn paced(budget: Budget, seed: u64, cells: &mut Vec<Cell>) {
    let (warmup, measure, repeats) = by(budget, (0.5, 1.5, 1), (0.5, 4.0, 3), (1.0, 90.0, 5));
    let leg = Leg {
        window: 4096,
        ..mqtt(1)
    };
    for (policy, turbo, throttle) in PACES {
        if budget != Budget::Paper && turbo && throttle {
            continue;
        }
        for size in by(
            budget,
            &[64][..],
            &[64, 512, 4096],
            &[64, 256, 512, 1024, 4096, 32_768],
        ) {
            cell("E3d", OURS, leg)
                .at("policy", policy)
                .at("topology", "1-1")
                .payload(*size)
                .with(|cell| {
                    cell.load = Load::Flood { flows: 1 };
                    cell.link = Link {
                        delay_ns: 1_000_000,
                        ..RPI95
                    };
                    cell.extras = Extras {
                        turbo,
                        throttle,
                        ..Extras::default()
                    };
                    cell.driver = Driver::Common;
                    cell.phases = phases(0.3, warmup, measure, 5.0);
                })
                .repeats(repeats, seed, cells);
        }
    }
}

const OURS: &str = "thalweg";
const CYCLONE: &str = "cyclonedds";
const THROTTLE: &str = "AutoThrottle";
/// Name, whether messages are gathered, whether the client adapts to what is confirmed.
const PACES: [(&str, bool, bool); 4] = [
    (BASE, false, false),
    (BATCHES, true, false),
    (THROTTLE, false, true),
    ("Turbo+AutoThrottle", true, true),
];
