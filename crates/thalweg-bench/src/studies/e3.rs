//! E3: flood, periodic and sporadic traffic over a link of 95 Mbit/s, and policies (study C): brokers, libzmq and Cyclone DDS
//! without one, and Cyclone DDS through our bridge. What became of its statements S3.1 to S3.8, and of policies that are in
//! none.

#[cfg(test)]
mod tests;

use std::ops::Range;

use crate::cell::{Protocol, Row};
use crate::report::stat::{Stat, short};
use crate::studies::group::{Group, name, way};
use crate::studies::shape::{Evidence, Found, Shape};

/// Bits a second of the study's network.
pub const LINK_BITS: u64 = 95_000_000;
const LINK_MBIT: f64 = LINK_BITS as f64 * 1e-6;

// Policies of E3d.
const BASE: &str = "base";
const MULTICAST: &str = "Multicast";
const BATCHES: &str = "Turbo";
const REPAIRED: &str = "Multicast+Repair";
const BOTH: &str = "Multicast+Turbo";
const SLOW: &str = "SlowHeartbeat";
const THROTTLE: &str = "AutoThrottle";
const LIFESPAN: &str = "Lifespan";
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

/// What became of S3.1 to S3.8, and of the policies that are in no statement.
pub fn shapes(groups: &[Group]) -> Vec<Shape> {
    let not_built = |why: &str| Found::not_asked(&format!("not built: {why}"));
    let both = |id, judge: fn(&[Group], &str) -> Found, baseline| {
        Shape::of(id, judge(groups, baseline), judge(groups, OURS))
    };
    vec![
        both("S3.1", small_floods, "mosquitto"),
        both("S3.2", whole_link, PEERS),
        both("S3.3", sevenths, OTHERS),
        both("S3.4", multicast, CYCLONE),
        both("S3.5", batches, CYCLONE),
        Shape::of(
            "S3.6",
            not_built("Cyclone DDS has no AutoThrottle"),
            quicker_than_the_base(groups, (OURS, THROTTLE, 1), 0.25),
        ),
        both("S3.7", periodic_p90, OTHERS),
        both("S3.8", neighbours, "mosquitto"),
        Shape::of(
            "C, heartbeat",
            quicker_than_the_base(groups, (CYCLONE, SLOW, 7), 0.1),
            not_built("MQTT has no heartbeats for data"),
        ),
        Shape::of(
            "C, rate limit",
            not_built("Cyclone DDS 0.10 takes TIME_BASED_FILTER and delivers every sample"),
            limited(groups),
        ),
        both("C, lifespan", never_older, "mosquitto"),
        Shape::of(
            "C, priority",
            not_built(
                "Cyclone DDS hands Transport_Priority to the network, which has one queue here",
            ),
            first_beside_others(groups),
        ),
    ]
}

/// Columns that are of several systems.
const PEERS: &str = "cyclonedds or zmq-peers";
const OTHERS: &str = "all but thalweg";

fn is_in(column: &str, group: &Group) -> bool {
    let system = group.cell.system.as_str();
    match column {
        OTHERS => system != OURS,
        PEERS => ["cyclonedds", "zmq-peers"].contains(&system),
        _ => system == column,
    }
}

fn e3d<'g>(
    groups: &'g [Group],
    system: &'g str,
    policy: &'g str,
    fan_out: u32,
) -> impl Iterator<Item = &'g Group> {
    groups.iter().filter(move |group| {
        (group.cell.experiment.as_str(), group.cell.fan_out) == ("E3d", fan_out)
            && group.is_at(&[("system", system), ("policy", policy)])
    })
}

/// Pairs of what a policy and the base gave at a size.
fn beside_base<'g>(
    groups: &'g [Group],
    system: &'g str,
    policy: &'g str,
    fan_out: u32,
) -> Vec<(u32, &'g Group, &'g Group)> {
    // Ours has several bases, which are published in different ways.
    let pair = |with: &'g Group| {
        let same = |base: &&Group| {
            (base.payload(), base.cell.publish) == (with.payload(), with.cell.publish)
        };
        let base = e3d(groups, system, BASE, fan_out).find(same)?;
        Some((with.payload()?, with, base))
    };
    let mut pairs: Vec<_> = e3d(groups, system, policy, fan_out)
        .filter_map(pair)
        .collect();
    pairs.sort_by_key(|(size, ..)| *size);
    pairs
}

/// Figures in words, and whether they speak against the statement.
type Comparison = (String, bool);

/// A statement that each line has to hold for.
fn told(lines: impl Iterator<Item = Comparison>, between: &str) -> Found {
    held(Evidence::default(), lines, between)
}

fn held(mut all: Evidence, lines: impl Iterator<Item = Comparison>, between: &str) -> Found {
    for (words, is_fault) in lines {
        all.fault(is_fault, words.clone());
        all.figure(words);
    }
    all.found(between)
}

/// Of protocols that need no broker, between these systems' clients.
fn whole_link(groups: &[Group], column: &str) -> Found {
    let line = |group: &Group| {
        let (protocol, qos) = (group.cell.publish.protocol, group.cell.publish.qos);
        let is_one = is_in(column, group)
            && matches!((protocol, qos), (Protocol::Zmtp, _) | (Protocol::Dds, 1..));
        let size = group.payload().filter(|size| is_one && *size >= 4096)?;
        let rate = group.mbit()?;
        let words = format!("{} {size} B {rate} Mbit/s", name(protocol));
        // The statement is about DDS; ZeroMQ did not reach it in the study.
        Some((
            words,
            rate.mean < 0.9 * LINK_MBIT && protocol == Protocol::Dds,
        ))
    };
    told(floods(groups, "1-1").filter_map(line), "; ")
}

/// A policy of a system beside its base: throughput with it, and how many times that of the base, have to be as `is_fault`
/// has it for a size.
fn times_the_base(
    groups: &[Group],
    (system, policy, fan_out): (&str, &str, u32),
    is_fault: fn(u32, f64, f64) -> bool,
) -> Found {
    let line = |(size, with, base): (u32, &Group, &Group)| {
        let (with, base) = (with.mbit()?, base.mbit()?);
        let times = with.mean / base.mean;
        let words = format!(
            "{size} B: {with} against {base} Mbit/s, {} times",
            short(times)
        );
        Some((words, is_fault(size, with.mean, times)))
    };
    let pairs = beside_base(groups, system, policy, fan_out);
    told(pairs.into_iter().filter_map(line), "; ")
}

/// A copy for all beside a copy for each. Where it is not enough, how busy the machine was says whether the link was the limit.
fn multicast(groups: &[Group], system: &str) -> Found {
    let of = |policy: &'static str| {
        let pairs = beside_base(groups, system, policy, 7);
        pairs.into_iter().map(move |pair| (policy, pair))
    };
    let line = |(policy, (size, with, base)): (&str, (u32, &Group, &Group))| {
        let (rate, usual) = (with.mbit()?, base.mbit()?);
        let times = rate.mean / usual.mean;
        let came = with.delivered_percent()?;
        let busy = with.stat(|row| Some((row.cpu_broker_s + row.cpu_client_s) / row.seconds))?;
        let words = format!(
            "{policy}, {size} B: {rate} against {usual} Mbit/s, {} times, {came} % came, {busy} cores busy",
            short(times)
        );
        let is_fault =
            (size <= 1024 && times < 3.0) || (size >= 4096 && rate.mean < 0.5 * LINK_MBIT);
        Some((words, is_fault))
    };
    let lines = [MULTICAST, REPAIRED, BOTH].into_iter().flat_map(of);
    let known: Vec<u32> = of(MULTICAST).map(|(_, (size, ..))| size).collect();
    let has = |sizes: Range<u32>| known.iter().any(|size| sizes.contains(size));
    let mut all = Evidence::default();
    for (name, sizes) in [("64 B", 64..65), ("a large payload", 4096..u32::MAX)] {
        if !has(sizes) {
            all.missing(name);
        }
    }
    held(all, lines.filter_map(line), "; ")
}

fn batches(groups: &[Group], system: &str) -> Found {
    times_the_base(groups, (system, BATCHES, 1), |size, _, times| {
        (size < 1024 && times < 1.2) || (size >= 4096 && (times - 1.0).abs() > 0.05)
    })
}

/// A policy that has to make latencies shorter, and may cost so large a part of the throughput.
fn quicker_than_the_base(
    groups: &[Group],
    (system, policy, fan_out): (&str, &str, u32),
    cost_max: f64,
) -> Found {
    let line = |(size, with, base): (u32, &Group, &Group)| {
        let (latency, usual) = (with.mean_ms()?, base.mean_ms()?);
        let (rate, usual_rate) = (with.mbit()?, base.mbit()?);
        let words =
            format!("{size} B: {latency} against {usual} ms, {rate} against {usual_rate} Mbit/s");
        let is_dear = rate.mean < (1.0 - cost_max) * usual_rate.mean;
        Some((words, latency.mean >= usual.mean || is_dear))
    };
    let pairs = beside_base(groups, system, policy, fan_out);
    told(pairs.into_iter().filter_map(line), "; ")
}

/// What subscribers got in a second who are limited to a rate.
fn limited(groups: &[Group]) -> Found {
    let line = |group: &Group| {
        let rate = group.delivered_per_s()?;
        let off = rate.mean / f64::from(RATE_MAX) - 1.0;
        Some((format!("{rate} of {RATE_MAX} a second"), off.abs() > 0.02))
    };
    told(e3d(groups, OURS, RATE, 1).filter_map(line), "; ")
}

/// How old the oldest message was that came, and how many did not.
fn never_older(groups: &[Group], system: &str) -> Found {
    let words = |group: &Group| {
        let oldest = group.stat(|row| Some(row.response.max * 1e-3))?;
        let came = group.delivered_percent()?;
        Some((
            format!("{came} % came, the oldest after {} ms", short(oldest.mean)),
            oldest.mean > f64::from(LIFESPAN_MS) + QUEUES_MS,
        ))
    };
    let mut pairs = beside_base(groups, system, LIFESPAN, 7).into_iter();
    let base = pairs.find_map(|(.., base)| words(base));
    let with = e3d(groups, system, LIFESPAN, 7).filter_map(words);
    let found = told(with, "; ");
    match base {
        Some((base, _)) if found != Found::nothing() => Found {
            figures: format!("{}; without: {base}", found.figures),
            ..found
        },
        _ => found,
    }
}

/// What has left the broker waits in buffers of TCP and of the link, at a seventh of its rate.
const QUEUES_MS: f64 = 500.0;

/// The latency of the first priority alone and beside another one, with and without priorities.
fn first_beside_others(groups: &[Group]) -> Found {
    let line = |group: &Group| {
        let ms = |part: &str| {
            let name = format!("{part}_burst_p99_us");
            group.stat(|row| row.more.get(&name).map(|us| us * 1e-3))
        };
        let (alone, beside) = (ms("before")?, ms("during")?);
        let times = beside.mean / alone.mean;
        let (policy, size) = (
            group.cell.axes.get("policy")?,
            group.cell.axes.get("beside")?,
        );
        let words = format!(
            "{policy} beside {size}: {beside} against {alone} ms, {} times",
            short(times)
        );
        Some((words, policy != BASE && times > 3.0))
    };
    let of = |policy| e3d(groups, OURS, policy, 2);
    let all = [CLASSED, BOUNDED, PRIORITY, BASE].into_iter().flat_map(of);
    told(all.filter_map(line), "; ")
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
    let (mut all, mut missing) = (Evidence::default(), Vec::new());
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
            let open = format!("{words} beyond the intervals");
            all.compared(mqtt.exceeds(sd), words, open);
        }
        for protocol in [Protocol::Dds, Protocol::Zmtp].map(name) {
            if known.iter().all(|(who, ..)| *who != protocol) {
                missing.push(format!("without {protocol} at {size} B"));
            }
        }
        all.figure(format!("{size} B: {}", words.join(", ")));
    }
    let found = all.found("; ");
    if missing.is_empty() {
        found
    } else {
        found.under(missing.join(", "))
    }
}

fn floods<'g>(groups: &'g [Group], topology: &'g str) -> impl Iterator<Item = &'g Group> {
    groups
        .iter()
        .filter(move |group| group.cell.experiment == "E3a" && group.axis("topology") == topology)
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
    let (mut all, mut is_proxied) = (Evidence::default(), false);
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
            let is_ordered = zmtp > dds && dds > mqtt;
            all.fault(!is_ordered, format!("the order is another one at {size} B"));
        }
        all.fault(ratio < 5.0, format!("less than 5 times at {size} B"));
        all.figure(words);
    }
    match is_proxied {
        true => all
            .found("; ")
            .under("without peers; ZMTP goes through libzmq's proxy"),
        false => all.found("; "),
    }
}

fn sevenths(groups: &[Group], column: &str) -> Found {
    let line = |group: &Group| {
        let is_it = is_in(column, group) && group.cell.publish.window != 1;
        let size = group.payload().filter(|size| is_it && *size >= 16_384)?;
        let rate = group.mbit()?;
        let words = format!(
            "{} {} {size} B: {rate} Mbit/s",
            group.cell.system,
            way(&group.cell.publish),
        );
        Some((words, (rate.mean / (LINK_MBIT / 7.0) - 1.0).abs() > 0.1))
    };
    told(floods(groups, "1-7").filter_map(line), ", ").under(
        "where there is a broker, all subscribers share its link, as they shared the publisher's",
    )
}

fn periodic_p90(groups: &[Group], column: &str) -> Found {
    let all: Vec<&Group> = groups
        .iter()
        .filter(|group| group.cell.experiment == "E3b" && is_in(column, group))
        .collect();
    let mut systems: Vec<(&str, Protocol)> = all
        .iter()
        .map(|group| (group.cell.system.as_str(), group.cell.publish.protocol))
        .collect();
    systems.sort_unstable();
    systems.dedup();
    let places = systems
        .into_iter()
        .flat_map(|who| [64, 2048].map(|size| (who, size)));
    let line = |((system, protocol), size): ((&str, Protocol), u32)| {
        let is_it = |group: &&&Group| {
            (group.cell.system.as_str(), group.cell.publish.protocol) == (system, protocol)
                && group.payload() == Some(size)
        };
        let p90 = |group: &&Group| Some(group.stat(|row| Some(row.response.p90))?.mean);
        let p90: Vec<f64> = all.iter().filter(is_it).filter_map(p90).collect();
        let spread =
            p90.iter().copied().fold(0.0, f64::max) / p90.iter().copied().fold(f64::MAX, f64::min);
        let words = format!(
            "{system} {} {size} B: {} times",
            name(protocol),
            short(spread)
        );
        (p90.len() > 1).then_some((words, spread > 1.5))
    };
    told(places.filter_map(line), ", ")
}
