//! E3: flood, periodic and sporadic traffic over a link of 95 Mbit/s, and policies (study C): brokers, libzmq and Cyclone DDS
//! without one, and Cyclone DDS through our bridge. What became of its statements S3.1 to S3.8, and of policies that are in
//! none.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::cell::Protocol;
use crate::report::stat::{Stat, short};
use crate::studies::group::{Group, find, has, name, way};
use crate::studies::shape::{Evidence, Found, Shape};

/// Bits a second of the study's network.
const LINK_BITS: u64 = 95_000_000;
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
    let throttled = quicker_than_the_base(groups, (OURS, THROTTLE, 1), 0.25);
    let seldom = quicker_than_the_base(groups, (CYCLONE, SLOW, 7), 0.1);
    let no_throttle = not_built("Cyclone DDS has no AutoThrottle");
    let no_heartbeat = not_built("MQTT has no heartbeats for data");
    let no_limit = not_built("Cyclone DDS 0.10 takes TIME_BASED_FILTER and delivers every sample");
    let no_priority =
        not_built("Cyclone DDS hands Transport_Priority to the network, which has one queue here");
    vec![
        both("S3.1", small_floods, "mosquitto"),
        both("S3.2", whole_link, PEERS),
        both("S3.3", sevenths, OTHERS),
        both("S3.4", multicast, CYCLONE),
        both("S3.5", batches, CYCLONE),
        Shape::of("S3.6", no_throttle, throttled),
        both("S3.7", periodic_p90, OTHERS),
        both("S3.8", neighbours, "mosquitto"),
        Shape::of("C, heartbeat", seldom, no_heartbeat),
        Shape::of("C, rate limit", no_limit, limited(groups)),
        both("C, lifespan", never_older, "mosquitto"),
        Shape::of("C, priority", no_priority, first_beside_others(groups)),
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

fn all(groups: &[Group], words: String) -> impl Iterator<Item = &Group> {
    groups.iter().filter(move |it| has(&it.cell, &words))
}

/// Cells of a policy with so many subscribers.
fn e3d<'g>(
    groups: &'g [Group],
    system: &str,
    policy: &str,
    fan_out: u32,
) -> impl Iterator<Item = &'g Group> {
    all(groups, format!("E3d {system} {policy} 1-{fan_out}"))
}

/// Pairs of what a policy and the base gave at a size.
fn beside_base<'g>(
    groups: &'g [Group],
    (system, policy, fan_out): (&str, &str, u32),
) -> Vec<(u32, &'g Group, &'g Group)> {
    // Ours has several bases, which are published in different ways.
    let pair = |with: &'g Group| {
        let of = |it: &Group| (it.payload(), it.cell.publish);
        let mut bases = e3d(groups, system, BASE, fan_out);
        let base = bases.find(|base| of(base) == of(with))?;
        Some((with.payload()?, with, base))
    };
    let with = e3d(groups, system, policy, fan_out);
    let mut pairs: Vec<_> = with.filter_map(pair).collect();
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
        let is_fault = protocol == Protocol::Dds && rate.mean < 0.9 * LINK_MBIT;
        Some((words, is_fault))
    };
    told(all(groups, "E3a 1-1".to_owned()).filter_map(line), "; ")
}

/// A copy for all beside a copy for each. Where it is not enough, how busy the machine was says whether the link was the limit.
fn multicast(groups: &[Group], system: &str) -> Found {
    let mut lines = Vec::new();
    for policy in [MULTICAST, REPAIRED, BOTH] {
        for (size, with, base) in beside_base(groups, (system, policy, 7)) {
            let busy = with.stat(|row| Some((row.cpu_broker_s + row.cpu_client_s) / row.seconds));
            let all = (with.mbit(), base.mbit(), with.delivered_percent(), busy);
            let (Some(rate), Some(usual), Some(came), Some(busy)) = all else {
                continue;
            };
            let times = rate.mean / usual.mean;
            let words = format!(
                "{policy}, {size} B: {rate} against {usual} Mbit/s, {} times, {came} % came, {busy} cores busy",
                short(times)
            );
            let is_slow = size >= 4096 && rate.mean < 0.5 * LINK_MBIT;
            lines.push((words, is_slow || (size <= 1024 && times < 3.0)));
        }
    }
    let known = beside_base(groups, (system, MULTICAST, 7));
    let mut all = Evidence::default();
    for (name, sizes) in [("64 B", 64..65), ("a large payload", 4096..u32::MAX)] {
        if !known.iter().any(|(size, ..)| sizes.contains(size)) {
            all.missing(name);
        }
    }
    held(all, lines.into_iter(), "; ")
}

fn batches(groups: &[Group], system: &str) -> Found {
    let line = |(size, with, base): (u32, &Group, &Group)| {
        let (with, base) = (with.mbit()?, base.mbit()?);
        let times = with.mean / base.mean;
        let words = format!(
            "{size} B: {with} against {base} Mbit/s, {} times",
            short(times)
        );
        let is_other = size >= 4096 && (times - 1.0).abs() > 0.05;
        Some((words, is_other || (size < 1024 && times < 1.2)))
    };
    let pairs = beside_base(groups, (system, BATCHES, 1));
    told(pairs.into_iter().filter_map(line), "; ")
}

/// A policy that has to make latencies shorter, and may cost so large a part of the throughput.
fn quicker_than_the_base(groups: &[Group], policy: (&str, &str, u32), cost_max: f64) -> Found {
    let line = |(size, with, base): (u32, &Group, &Group)| {
        let (latency, usual) = (with.mean_ms()?, base.mean_ms()?);
        let (rate, usual_rate) = (with.mbit()?, base.mbit()?);
        let words =
            format!("{size} B: {latency} against {usual} ms, {rate} against {usual_rate} Mbit/s");
        let is_dear = rate.mean < (1.0 - cost_max) * usual_rate.mean;
        Some((words, latency.mean >= usual.mean || is_dear))
    };
    let pairs = beside_base(groups, policy);
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
        let oldest = group.stat(|row| Some(row.response.max * 1e-3))?.mean;
        let came = group.delivered_percent()?;
        let words = format!("{came} % came, the oldest after {} ms", short(oldest));
        Some((words, oldest > f64::from(LIFESPAN_MS) + QUEUES_MS))
    };
    let pairs = beside_base(groups, (system, LIFESPAN, 7));
    let base = pairs.iter().find_map(|(.., base)| words(base));
    let with = e3d(groups, system, LIFESPAN, 7).filter_map(words);
    let mut found = told(with, "; ");
    if let Some((base, _)) = base.filter(|_| found != Found::nothing()) {
        found.figures += &format!("; without: {base}");
    }
    found
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
        let (policy, size, more) = (group.axis("policy"), group.axis("beside"), short(times));
        let words = format!("{policy} beside {size}: {beside} against {alone} ms, {more} times");
        Some((words, policy != BASE && times > 3.0))
    };
    let of = |policy| e3d(groups, OURS, policy, 2);
    let all = [CLASSED, BOUNDED, PRIORITY, BASE].into_iter().flat_map(of);
    told(all.filter_map(line), "; ")
}

/// What a broker's steady flow feels of a neighbour, beside what peers' does. The study's DDS was reliable; the other protocols
/// have one quality here.
fn neighbours(groups: &[Group], broker: &str) -> Found {
    let (mut all, mut missing) = (Evidence::default(), Vec::new());
    for size in [64, 512, 1024, 2048, 16_384, 32_768] {
        let of = |who: &str| -> Option<(Stat, String)> {
            let group = find(groups, &format!("E3c {who} {size}"))?;
            let sd = group.more("during_burst_sd_us")?;
            let before = group.more("before_burst_sd_us");
            let before = before.map_or("-".to_owned(), |before| short(before.mean));
            let recovery = group.more("recovery_ms").map_or_else(
                || "not within the trial".to_owned(),
                |ms| format!("{} ms", short(ms.mean)),
            );
            let (protocol, us) = (name(group.cell.publish.protocol), short(sd.mean));
            let words =
                format!("{protocol} sd {us} us (before {before}; as before after {recovery})");
            Some((sd, words))
        };
        let peers = [("DDS", "cyclonedds dds-q1"), ("ZMTP", "zmq-peers zmtp-q0")]
            .map(|(protocol, who)| (protocol, of(who)));
        let Some((mqtt, words)) = of(&format!("{broker} mqtt-q0")) else {
            continue;
        };
        if peers.iter().all(|(_, found)| found.is_none()) {
            continue;
        }
        let mut figures = vec![words];
        for (who, found) in peers {
            let Some((sd, words)) = found else {
                missing.push(format!("without {who} at {size} B"));
                continue;
            };
            figures.push(words);
            let (us, least) = (short(mqtt.mean), short(sd.mean));
            let words = format!("{size} B: MQTT's {us} is not above {who}'s {least}");
            let open = format!("{words} beyond the intervals");
            all.compared(mqtt.exceeds(&sd), words, open);
        }
        all.figure(format!("{size} B: {}", figures.join(", ")));
    }
    let found = all.found("; ");
    match missing.is_empty() {
        true => found,
        false => found.under(missing.join(", ")),
    }
}

fn small_floods(groups: &[Group], system: &str) -> Found {
    let (mut all, mut is_proxied) = (Evidence::default(), false);
    for size in [64, 128, 256, 512] {
        let rate = |who: &str| Some(find(groups, &format!("E3a 1-1 {who} {size}"))?.mbit()?.mean);
        // Results from before there were peers have the proxy only.
        let (proxied, peers) = (rate("zmq-proxy zmtp-q0"), rate("zmq-peers zmtp-q0"));
        is_proxied |= peers.is_none() && proxied.is_some();
        let mqtt = rate(&format!("{system} mqtt-q2-w1"));
        let (Some(zmtp), Some(mqtt)) = (peers.or(proxied), mqtt) else {
            continue;
        };
        let ratio = zmtp / mqtt;
        let [rates, more] = [[zmtp, mqtt].map(short).join(", MQTT "), short(ratio)];
        let mut words = format!("{size} B: ZMTP {rates} Mbit/s: {more} times");
        if let Some(qos0) = rate(&format!("{system} mqtt-q0")) {
            words += &format!(" ({} times MQTT QoS 0)", short(zmtp / qos0));
        }
        if let Some(dds) = rate("cyclonedds dds-q1") {
            words += &format!(", DDS {} Mbit/s", short(dds));
            let is_ordered = zmtp > dds && dds > mqtt;
            all.fault(!is_ordered, format!("the order is another one at {size} B"));
        }
        all.fault(ratio < 5.0, format!("less than 5 times at {size} B"));
        all.figure(words);
    }
    let found = all.found("; ");
    match is_proxied {
        true => found.under("without peers; ZMTP goes through libzmq's proxy"),
        false => found,
    }
}

fn sevenths(groups: &[Group], column: &str) -> Found {
    let line = |group: &Group| {
        let is_it = is_in(column, group) && group.cell.publish.window != 1;
        let size = group.payload().filter(|size| is_it && *size >= 16_384)?;
        let (rate, system) = (group.mbit()?, &group.cell.system);
        let words = format!(
            "{system} {} {size} B: {rate} Mbit/s",
            way(&group.cell.publish)
        );
        Some((words, (rate.mean / (LINK_MBIT / 7.0) - 1.0).abs() > 0.1))
    };
    told(all(groups, "E3a 1-7".to_owned()).filter_map(line), ", ").under(
        "where there is a broker, all subscribers share its link, as they shared the publisher's",
    )
}

fn periodic_p90(groups: &[Group], column: &str) -> Found {
    let mut places: BTreeMap<(&str, Protocol, u32), Vec<f64>> = BTreeMap::new();
    for group in all(groups, "E3b".to_owned()).filter(|group| is_in(column, group)) {
        let (cell, size) = (&group.cell, group.payload().unwrap_or_default());
        let place = (cell.system.as_str(), cell.publish.protocol, size);
        let p90 = group.stat(|row| Some(row.response.p90));
        let p90 = p90.filter(|_| [64, 2048].contains(&size));
        places
            .entry(place)
            .or_default()
            .extend(p90.map(|it| it.mean));
    }
    let line = |((system, protocol, size), p90): (&(&str, Protocol, u32), &Vec<f64>)| {
        let range = Stat::of(p90).filter(|it| it.count > 1)?.range;
        let (protocol, times) = (name(*protocol), range.1 / range.0);
        let words = format!("{system} {protocol} {size} B: {} times", short(times));
        Some((words, times > 1.5))
    };
    told(places.iter().filter_map(line), ", ")
}
