//! E2d in virtual time: loss 0, 20, 5, 25, 0 %, 120 s each.

use thalweg_model::{Reliability, Span, Time};

use super::super::{Calibration, Candidate, Chooser, Constraints, NetworkReading, Objective, Sent};
use super::network::{CoapTimers, Micros, Network, SECOND};
use crate::transport::{Counters, Settled};

const LOSSES: [f64; 5] = [0.0, 0.2, 0.05, 0.25, 0.0];
const A_FIFTH: [f64; 5] = [0.2; 5];
const STEP: Micros = 120 * SECOND;

#[derive(Clone, Copy)]
pub(super) enum Policy {
    Fixed(usize),
    Adaptive(Objective),
}

/// Results of one run, per step of loss.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) latency_ms: [f64; 5],
    pub(super) bytes: [f64; 5],
    pub(super) energy_uj: [f64; 5],
    pub(super) switches: [u32; 5],
    pub(super) lost: usize,
    pub(super) words: String,
}

pub(super) struct Course {
    pub(super) payload: usize,
    pub(super) delay: Micros,
    pub(super) rate_per_s: u64,
    pub(super) topics: u32,
    pub(super) timers: CoapTimers,
    pub(super) losses: [f64; 5],
}

pub(super) fn time(at: Micros) -> Time {
    Time::from_nanos(at * 1000)
}

pub(super) fn candidates() -> Vec<Candidate> {
    let mut lanes = vec![
        Candidate::plain(0, "mqtt", true),
        Candidate::plain(1, "coap", false),
    ];
    for lane in &mut lanes {
        lane.capabilities.stamps = true;
    }
    lanes
}

/// Tells a chooser what the network's transports know.
pub(super) fn report(chooser: &mut Chooser, network: &mut Network) {
    let now = time(network.now);
    for message in std::mem::take(&mut network.settled) {
        let fate = network.fates[message];
        let latency = fate.settled.unwrap_or(network.now) - fate.given;
        chooser.settled(
            fate.lane,
            Span::from_nanos(latency * 1000),
            &Settled::Acknowledged,
            now,
        );
    }
    for span in std::mem::take(&mut network.round_trips) {
        chooser.round_trip(1, Span::from_nanos(span * 1000), now);
    }
    let counters = Counters {
        confirmable: network.confirmable,
        retransmissions: network.retransmissions,
    };
    chooser.counters(1, counters, now);
    for lane in 0..2 {
        let fates = network.fates.iter().rev().take(UNSETTLED_MAX);
        let unsettled =
            fates.filter(|fate| fate.lane == lane && fate.settled.is_none() && !fate.gave_up);
        chooser.unsettled(lane, unsettled.map(|fate| time(fate.given)), now);
    }
    chooser.network(0, &network.tcp(), now);
    let wire = network.wire[1];
    let reading = NetworkReading {
        frames_sent: wire.frames_up,
        frames_received: wire.frames_down,
        bytes_sent: wire.bytes_up - wire.frames_up * 42,
        bytes_received: wire.bytes_down - wire.frames_down * 42,
        ..NetworkReading::default()
    };
    chooser.network(1, &reading, now);
}

pub(super) fn run(policy: Policy, course: &Course, seed: u64) -> Outcome {
    let mut network = Network::new(course.delay, course.timers, seed);
    let objective = if let Policy::Adaptive(objective) = policy {
        objective
    } else {
        Objective::Latency
    };
    let calibration = calibration(course.timers);
    let lanes = candidates();
    let mut chooser = Chooser::new(
        objective,
        Constraints::default(),
        calibration,
        &lanes,
        seed,
        Time::ZERO,
    );
    for lane in &lanes {
        chooser.up(lane.lane, &lane.capabilities, Time::ZERO);
    }
    let mut outcome = Outcome::default();
    let mut wire_before = network.wire;
    let mut bounds = Vec::new();
    for (step, loss) in course.losses.into_iter().enumerate() {
        network.loss = loss;
        let begin = step as u64 * STEP;
        let first = network.fates.len();
        for tick in 0..STEP / SECOND * course.rate_per_s {
            network.run_until(begin + tick * SECOND / course.rate_per_s);
            let lane = match policy {
                Policy::Fixed(lane) => lane,
                Policy::Adaptive(_) => {
                    report(&mut chooser, &mut network);
                    let decision = chooser.decide(time(network.now));
                    outcome.switches[step] += u32::from(decision.switched);
                    decision.lane
                }
            };
            let topic = (tick % u64::from(course.topics)) as u32;
            let wire_bytes = network.publish(lane, course.payload as u64, topic) as usize;
            let sent = Sent {
                payload_bytes: course.payload,
                reliability: Reliability::AtLeastOnce,
                wire_bytes,
                topic_hash: topic.wrapping_mul(0x9E37_79B9) >> 7,
            };
            chooser.sent(lane, &sent, time(network.now));
        }
        network.run_until(begin + STEP);
        bounds.push(first..network.fates.len());
        let messages = (network.fates.len() - first) as f64;
        let profile = chooser
            .calibration
            .energy()
            .expect("the built-in one has a profile");
        for (now, before) in network.wire.iter().zip(&wire_before) {
            outcome.bytes[step] += (now.bytes() - before.bytes()) / messages;
            outcome.energy_uj[step] += ((now.frames_up - before.frames_up) as f64
                * profile.sent_frame_uj
                + (now.bytes_up - before.bytes_up) as f64 * profile.sent_byte_uj
                + (now.frames_down - before.frames_down) as f64 * profile.received_frame_uj
                + (now.bytes_down - before.bytes_down) as f64 * profile.received_byte_uj)
                / messages;
        }
        wire_before = network.wire;
    }
    if let Policy::Adaptive(_) = policy {
        outcome.words = chooser.explain(time(network.now)).words;
    }
    network.run_until(5 * STEP + 120 * SECOND);
    for (step, range) in bounds.into_iter().enumerate() {
        let fates = &network.fates[range];
        let arrived: Vec<f64> = fates
            .iter()
            .filter_map(|fate| Some((fate.arrived? - fate.published) as f64 / 1000.0))
            .collect();
        outcome.lost += fates.len() - arrived.len();
        outcome.latency_ms[step] = arrived.iter().sum::<f64>() / arrived.len() as f64;
    }
    outcome
}

/// Regret against an oracle that takes the better lane in each step, over many seeds.
fn check(objective: Objective, course: &Course) {
    let value = |outcome: &Outcome| match objective {
        Objective::Latency => outcome.latency_ms,
        Objective::Bytes => outcome.bytes,
        _ => outcome.energy_uj,
    };
    let (mut fixed, mut adaptive, mut switches) = ([[0.0; 5]; 2], [0.0; 5], Vec::new());
    for seed in 1..=SEEDS {
        for (lane, sums) in fixed.iter_mut().enumerate() {
            let outcome = run(Policy::Fixed(lane), course, seed);
            sums.iter_mut()
                .zip(value(&outcome))
                .for_each(|(sum, it)| *sum += it / SEEDS as f64);
        }
        let outcome = run(Policy::Adaptive(objective), course, seed);
        adaptive
            .iter_mut()
            .zip(value(&outcome))
            .for_each(|(sum, it)| *sum += it / SEEDS as f64);
        switches.push(outcome.switches);
        assert!(
            outcome.switches.iter().all(|&count| count <= 2),
            "seed {seed}: {:?}\n{}",
            outcome.switches,
            outcome.words
        );
    }
    let oracle: f64 = fixed[0].iter().zip(fixed[1]).map(|(a, b)| a.min(b)).sum();
    // A millisecond is none: without this 0.2 ms against 0.3 ms would count.
    let grain = if objective == Objective::Latency {
        5.0
    } else {
        0.0
    };
    let regret = (adaptive.iter().sum::<f64>() + grain) / (oracle + grain) - 1.0;
    let told = format!(
        "{objective:?} {} B {} ms: regret {:.1} %\n mqtt {:.1?}\n coap {:.1?}\n adaptive {:.1?}\n switches {switches:?}",
        course.payload,
        course.delay / 1000,
        regret * 100.0,
        fixed[0],
        fixed[1],
        adaptive
    );
    println!("{told}");
    assert!(regret <= 0.15, "{told}");
}

/// The built-in one, for CoAP with timers of this kind.
pub(super) fn calibration(timers: CoapTimers) -> Calibration {
    let built_in = Calibration::built_in();
    if timers == CoapTimers::Measured {
        return built_in;
    }
    let (json, ours) = (
        built_in.to_json(),
        "\"repeat_min_ms\": 1000, \"repeat_max_ms\": 1500, \"repeat_round_trips\": 1.5",
    );
    assert!(json.contains(ours));
    let other = json.replace(
        ours,
        "\"repeat_min_ms\": 2000, \"repeat_max_ms\": 3000, \"repeat_round_trips\": 0",
    );
    Calibration::from_json(&other).expect("still a calibration")
}

const SEEDS: u64 = 5;
/// Of a fixed protocol at a fifth: a few waits of many seconds make TCP's mean, and five runs may have none or all of them.
const SEEDS_FIXED: u64 = 40;
/// Messages that are looked through for those that are not settled.
const UNSETTLED_MAX: usize = 500;

fn courses(timers: CoapTimers) -> impl Iterator<Item = Course> {
    let of = move |(payload, delay)| Course {
        payload,
        delay,
        rate_per_s: 2,
        topics: 40,
        timers,
        losses: LOSSES,
    };
    [2000, 600, 60]
        .into_iter()
        .flat_map(|payload| [(payload, 0), (payload, 25_000)])
        .map(of)
}

/// 20 % loss from the first message on: the median of five runs, each against the better fixed protocol. For large
/// messages over 150 ms the result is printed and not asserted: the simulated TCP takes 381 ms there, as its window never
/// becomes too small for the traffic, and the kernel's takes longer than CoAP (docs/adaptive.md).
#[test]
fn regret_is_small_at_a_loss_of_a_fifth() {
    for (payload, delay) in [(60, 25_000), (60, 75_000), (2000, 25_000), (2000, 75_000)] {
        let course = Course {
            payload,
            delay,
            rate_per_s: 2,
            topics: 40,
            timers: CoapTimers::Measured,
            losses: A_FIFTH,
        };
        let mean = |policy, seed| run(policy, &course, seed).latency_ms.iter().sum::<f64>() / 5.0;
        let mut fixed = [0.0, 0.0];
        for (lane, sum) in fixed.iter_mut().enumerate() {
            for seed in 1..=SEEDS_FIXED {
                *sum += mean(Policy::Fixed(lane), seed) / SEEDS_FIXED as f64;
            }
        }
        let adaptive = (1..=SEEDS).map(|seed| mean(Policy::Adaptive(Objective::Latency), seed));
        let mut adaptive: Vec<f64> = adaptive.collect();
        adaptive.sort_by(f64::total_cmp);
        let regret = adaptive[adaptive.len() / 2] / fixed[0].min(fixed[1]) - 1.0;
        let told = format!(
            "{payload} B, {} ms round trip: regret {:.1} %, mqtt and coap {fixed:.0?}, adaptive {adaptive:.0?}",
            delay / 500,
            regret * 100.0
        );
        println!("{told}");
        let is_judged = payload < 1000 || delay < 75_000;
        assert!(regret <= 0.15 || !is_judged, "{told}");
    }
}

#[test]
fn regret_is_small_when_bytes_count() {
    courses(CoapTimers::Measured).for_each(|course| check(Objective::Bytes, &course));
}

#[test]
fn regret_is_small_when_latency_counts() {
    courses(CoapTimers::Measured).for_each(|course| check(Objective::Latency, &course));
}

/// With the timers of RFC 7252 CoAP loses by so much that hardly any switch pays.
#[test]
fn regret_is_small_when_latency_counts_and_coap_is_slow() {
    courses(CoapTimers::Rfc7252).for_each(|course| check(Objective::Latency, &course));
}

#[test]
fn regret_is_small_when_energy_counts() {
    courses(CoapTimers::Measured).for_each(|course| check(Objective::Energy, &course));
}

#[test]
fn a_run_repeats_by_its_seed() {
    let course = Course {
        payload: 2000,
        delay: 25_000,
        rate_per_s: 2,
        topics: 40,
        timers: CoapTimers::Measured,
        losses: LOSSES,
    };
    let one = run(Policy::Adaptive(Objective::Bytes), &course, 7);
    let two = run(Policy::Adaptive(Objective::Bytes), &course, 7);
    assert_eq!(
        (one.bytes, one.switches, one.words),
        (two.bytes, two.switches, two.words)
    );
}
