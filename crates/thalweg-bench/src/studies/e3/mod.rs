//! E3: flood, periodic and sporadic traffic over a link of 95 Mbit/s, and policies (study C): brokers, libzmq and Cyclone DDS
//! without one, and Cyclone DDS through our bridge. What a system does not have is said in the table of statements.

mod statements;
#[cfg(test)]
mod tests;

pub use statements::shapes;

use std::collections::BTreeMap;

use super::plan::{Plan, cell, mqtt, phases};
use crate::cell::{Cell, Driver, Leg, Link, Load, Protocol, Workload};
use crate::studies::plan::{Budget, Draft};

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
    let mut plan = Plan::new(budget, seed);
    for (system, leg) in &systems {
        // A short run shows that samples pass through the bridge, and how many.
        let is_bridge = (*system, leg.protocol) == (OURS, Protocol::Dds);
        let few = |size: &u32| is_bridge && ![64, 4096, 32_768].contains(size);
        for size in sizes {
            // One at a time is in the statement about less than 1 KB only.
            let is_for_paper = few(size) || (leg.window == 1 && *size >= 1024);
            if budget != Budget::Paper && is_for_paper {
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
                flood(&mut plan, system, *leg, *size, fan_out);
            }
            if budget != Budget::Quick || !is_bridge {
                periodic(&mut plan, system, *leg, *size);
            }
        }
        for size in plan.by(
            &[64, 32_768][..],
            &[64, 512, 2048, 32_768],
            &[64, 512, 1024, 2048, 16_384, 32_768],
        ) {
            if is_bridge && (budget == Budget::Quick || (budget != Budget::Paper && few(size))) {
                continue;
            }
            sporadic(&mut plan, system, *leg, *size);
        }
    }
    policies(&mut plan);
    multicasts(&mut plan);
    paced(&mut plan);
    lifespans(&mut plan);
    rates(&mut plan);
    priorities(&mut plan);
    plan.cells
}

/// A policy of E3d: by the common client, in as much time as floods of the study have.
fn e3d(plan: &Plan, system: &str, leg: Leg, policy: &str, fan_out: u32) -> Draft {
    let (warmup, measure) = plan.by((0.5, 1.5), (0.5, 4.0), (1.0, 90.0));
    cell("E3d", system, leg)
        .at("policy", policy)
        .at("topology", format!("1-{fan_out}"))
        .with(|cell| {
            cell.link = RPI95;
            cell.fan_out = fan_out;
            cell.phases = phases(0.3, warmup, measure, 3.0);
        })
}

/// Keys of a broker's configuration with their values.
fn told(settings: &[(&str, &str)]) -> BTreeMap<String, String> {
    let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    settings.iter().map(owned).collect()
}

fn driver(leg: Leg) -> Driver {
    match leg.protocol {
        // Exactly once with one message under way is the study's own client; the bare one has no such dialogue to spare.
        Protocol::Mqtt if leg.qos == 0 => Driver::Bare,
        Protocol::Zmtp | Protocol::Dds => Driver::Stock,
        _ => Driver::Common,
    }
}

fn flood(plan: &mut Plan, system: &str, leg: Leg, size: u32, fan_out: u32) {
    let (warmup, measure, repeats) = plan.by((0.5, 1.5, 1), (0.5, 4.0, 3), (1.0, 90.0, 5));
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
    draft.repeats(repeats, plan);
}

fn periodic(plan: &mut Plan, system: &str, leg: Leg, size: u32) {
    if ![64, 2048, 16_384, 32_768].contains(&size)
        || (leg.protocol == Protocol::Mqtt && leg.qos == 2)
    {
        return;
    }
    if plan.budget == Budget::Quick && size == 2048 {
        return;
    }
    let rates: &[u32] = plan.by(
        &[200, 600],
        &[200, 400, 600, 1000],
        &[200, 400, 600, 800, 1000],
    );
    let (measure, repeats) = plan.by((1.5, 1), (4.0, 2), (90.0, 5));
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
            .repeats(repeats, plan);
    }
}

/// E3c: 25 Mbit/s of one flow, and beside it for some time messages of 2 MiB, together more than the link carries.
fn sporadic(plan: &mut Plan, system: &str, leg: Leg, size: u32) {
    if leg.window == 1 {
        // A closed loop has no rate that a neighbour could disturb.
        return;
    }
    // A ninth of the time, as in the study, would be three messages of a quick run: there it is a third.
    let (measure, from, lasts, repeats) = plan.by(
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
        .repeats(repeats, plan);
}

/// Of the periodic flow.
const STEADY_BITS: f64 = 25e6;
/// Small messages are fewer than that would be: 64 B would be 48,828 a second, which no scheduler of this machine keeps.
const STEADY_RATE_MAX: f64 = 2000.0;
/// 2 MiB so many times a second are 84 Mbit/s: the next is there before the link has carried the last.
const BURST_RATE: f64 = 5.0;

/// E3d: policies of DDS, as far as Cyclone has them, on one Ethernet: a router would stop multicasts.
fn policies(plan: &mut Plan) {
    let repeats = plan.by(1, 3, 5);
    let all: [&[u32]; 2] = plan.by(
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
            if !is_quick && (plan.budget == Budget::Quick || policy.starts_with(MULTICAST)) {
                // One subscriber is reached by unicast all the same.
                continue;
            }
            for size in sizes {
                e3d(plan, CYCLONE, Leg::of(Protocol::Dds, 1), policy, fan_out)
                    .payload(*size)
                    .with(|cell| {
                        cell.load = Load::Flood { flows: 1 };
                        cell.broker_settings = told(settings);
                        cell.link.bridged = true;
                        cell.driver = Driver::Stock;
                    })
                    .repeats(repeats, plan);
            }
        }
    }
}

const BASE: &str = "base";
const MULTICAST: &str = "Multicast";
const BATCHES: &str = "Turbo";
const REPAIRED: &str = "Multicast+Repair";
const BOTH: &str = "Multicast+Turbo";
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
    (BOTH, &[("multicast", "true"), ("batch", "true")], &[]),
];

/// E3d with seven of our clients on one Ethernet, by a multicast group of our broker and by a copy for each. Their publisher does
/// not wait for confirmations: it is as far ahead of them as any flood.
fn multicasts(plan: &mut Plan) {
    let is_paper = plan.budget == Budget::Paper;
    let all: &[u32] = plan.by(
        &[64, 1024, 32_768],
        &[64, 512, 1024, 32_768],
        &[64, 128, 256, 512, 1024, 2048, 4096, 8192, 32_768],
    );
    for (policy, [is_multicast, is_repaired, turbo], quick) in GROUPS {
        let is_asked = |size: &&u32| is_paper || quick.is_none_or(|it| it == **size);
        for size in all.iter().filter(is_asked) {
            e3d(plan, OURS, mqtt(0), policy, 7)
                .payload(*size)
                .with(|cell| {
                    cell.load = Load::Flood { flows: 1 };
                    cell.link.bridged = true;
                    cell.extras.multicast = is_multicast;
                    cell.extras.turbo = turbo;
                    cell.subscribe.qos = u8::from(is_repaired);
                })
                .repeats(plan.by(1, 3, 5), plan);
        }
    }
}

/// Name; whether the broker sends to a group, receivers ask for what they missed, and the publisher gathers; and the only
/// size that all but the longest run have.
type Reception = (&'static str, [bool; 3], Option<u32>);
const GROUPS: [Reception; 4] = [
    (BASE, [false, false, false], None),
    (MULTICAST, [true, false, false], None),
    (REPAIRED, [true, true, false], Some(1024)),
    (BOTH, [true, false, true], Some(64)),
];

/// E3d with our client: how it paces what is confirmed, over the link of the study and a round trip of 2 ms, where a batch saves
/// what loopback does not have. So much is under way that what is not throttled waits in queues.
fn paced(plan: &mut Plan) {
    let repeats = plan.by(1, 3, 5);
    let leg = Leg {
        window: 4096,
        ..mqtt(1)
    };
    for (policy, turbo, throttle) in PACES {
        if plan.budget != Budget::Paper && turbo && throttle {
            continue;
        }
        for size in plan.by(
            &[64][..],
            &[64, 512, 4096],
            &[64, 256, 512, 1024, 4096, 32_768],
        ) {
            e3d(plan, OURS, leg, policy, 1)
                .payload(*size)
                .with(|cell| {
                    cell.load = Load::Flood { flows: 1 };
                    cell.link.delay_ns = 1_000_000;
                    (cell.extras.turbo, cell.extras.throttle) = (turbo, throttle);
                    cell.phases.drain_ns = 5_000_000_000;
                })
                .repeats(repeats, plan);
        }
    }
}

/// Seven subscribers are to get four times what their link carries, so that messages wait in the broker: for ever, or at most for
/// their lifespan.
fn lifespans(plan: &mut Plan) {
    // Its publisher is to be as quick as those of others.
    let unpaced = &[
        ("queue.publisher_pace_max", "0s"),
        ("queue.output_pace_max", "0s"),
    ];
    for (system, settings, policy, ms) in [
        ("mosquitto", &[][..], LIFESPAN, LIFESPAN_MS),
        (OURS, unpaced, BASE, 0),
        (OURS, unpaced, LIFESPAN, LIFESPAN_MS),
    ] {
        let leg = Leg {
            window: 4096,
            ..mqtt(1)
        };
        e3d(plan, system, leg, policy, 7)
            .payload(8192)
            .open(830.0, 1)
            .with(|cell| {
                cell.broker_settings = told(settings);
                cell.extras.lifespan_ms = ms;
                // Until the first of them are too old, and a while longer.
                cell.phases.measure_ns = cell.phases.measure_ns.max(4_000_000_000);
                cell.phases.drain_ns = 2_000_000_000;
            })
            .repeats(plan.by(1, 3, 5), plan);
    }
}

/// A subscriber is offered four times what it may be sent.
fn rates(plan: &mut Plan) {
    let limit = format!(
        "[{{filter=\"lab/#\",rate=\"{RATE_MAX}/s\",rate_per=\"subscriber\",rate_burst=\"100ms\",rate_exceed=\"drop\"}}]"
    );
    e3d(plan, OURS, mqtt(1), RATE, 1)
        .payload(64)
        .open(f64::from(4 * RATE_MAX), 1)
        .with(|cell| {
            cell.broker_settings = told(&[("policy", &limit)]);
            cell.phases.measure_ns = cell.phases.measure_ns.max(4_000_000_000);
            cell.phases.drain_ns = 200_000_000;
        })
        .repeats(plan.by(1, 3, 5), plan);
}

/// E3c in one connection of each of two subscribers: together they are to get more than their link carries, and the
/// publishers' link has room. Each message of 64 B has priority 9, or the same as those beside it, and what is under way may be
/// bounded. Or the messages of 64 B have connections of their own, of a class that both links let go first.
fn priorities(plan: &mut Plan) {
    let by_topic = "[{filter=\"lab/0\",priority_min=9},{filter=\"lab/1\",priority_min=4}]";
    for (burst_bytes, burst_rate) in [(8192, 900.0), (2 << 20, 3.6)] {
        let bounded = ("listeners.mqtt.send_buffer", "32KiB");
        for (policy, settings) in [
            (BASE, &[][..]),
            (PRIORITY, &[("policy", by_topic)]),
            (BOUNDED, &[("policy", by_topic), bounded]),
            (CLASSED, &[("policy", by_topic)]),
        ] {
            let has_class = policy == CLASSED;
            e3d(plan, OURS, mqtt(1), policy, 2)
                .payload(64)
                .at("beside", format!("{burst_bytes}B"))
                .open(1000.0, 2)
                .with(|cell| {
                    cell.workload = Workload::Beside {
                        bytes: 64,
                        burst_bytes,
                        burst_rate,
                        from_ns: 1_000_000_000,
                        for_ns: 1_500_000_000,
                    };
                    cell.broker_settings = told(settings);
                    cell.extras.wildcard = !has_class;
                    (cell.extras.alarms, cell.link.classes) = (has_class, has_class);
                    cell.publish.window = 1000;
                    cell.phases = phases(0.3, 0.5, 3.0, 5.0);
                })
                .repeats(plan.by(1, 3, 5), plan);
        }
    }
}

const LIFESPAN: &str = "Lifespan";
/// MQTT counts in seconds.
const LIFESPAN_MS: u32 = 1000;
const RATE: &str = "RateLimit";
/// So many messages a subscriber is sent in a second, at most.
const RATE_MAX: u32 = 500;
const PRIORITY: &str = "Priority";
/// And what is under way to a client is bounded, too.
const BOUNDED: &str = "Priority+SendBuffer";
/// And what has the priority has a class of service, too.
const CLASSED: &str = "Priority+DSCP";
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
