//! Expected latency, bytes and energy of a message on the publisher's leg, from loss, round trip, size and rate.
//!
//! Analytical, from the protocols' rules, with what was measured on a kernel (docs/adaptive.md has the comparison). Where
//! the calibration's table has cells around a situation, the ratio of measured to computed is interpolated between them
//! and applied; outside of what was measured the computation stands alone.

use thalweg_model::Reliability;

use super::Candidate;
use super::calibration::{Calibration, Datagrams, EnergyProfile, Protocol, Row};
use crate::transport::Medium;

/// Conditions of the network, and size and rate of the user's messages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Situation {
    pub(super) payload_bytes: f64,
    /// Bytes by which the user's topics and options exceed the calibration's.
    pub(super) extra_bytes: f64,
    /// Shares of at most once, at least once, exactly once; their sum is 1.
    pub(super) shares: [f64; 3],
    /// Probability that a packet is lost, each way.
    pub(super) loss: f64,
    pub(super) round_trip_ms: f64,
    pub(super) rate_per_s: f64,
    /// Topics among which they are spread: CoAP has one message per topic under way.
    pub(super) topics: f64,
    /// Messages carry stamps, exactly once goes as at least once.
    pub(super) stamps: bool,
    /// Messages a second that come to us as a subscriber over the same lane.
    pub(super) received_per_s: f64,
}

/// Expected latency, bytes and energy of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Expectation {
    /// From publishing until the peer has it.
    pub(super) latency_mean_ms: f64,
    pub(super) latency_p99_ms: f64,
    /// From giving it to the transport until its acknowledgement came.
    pub(super) settle_mean_ms: f64,
    /// The part that arrives at all.
    pub(super) delivered: f64,
    /// Ethernet frames and their bytes.
    pub(super) frames_up: f64,
    pub(super) frames_down: f64,
    pub(super) bytes_up: f64,
    pub(super) bytes_down: f64,
    /// Expected number of transmissions after a silence.
    pub(super) wakes: f64,
    /// Measured cells of the calibration that corrected it.
    pub(super) cells: usize,
}

impl Expectation {
    pub(super) fn bytes(&self) -> f64 {
        self.bytes_up + self.bytes_down
    }

    pub(super) fn energy_uj(&self, profile: &EnergyProfile) -> f64 {
        self.frames_up * profile.sent_frame_uj
            + self.bytes_up * profile.sent_byte_uj
            + self.frames_down * profile.received_frame_uj
            + self.bytes_down * profile.received_byte_uj
            + self.wakes * profile.wake_uj
    }

    /// Multiplies the expectation by the factors of live measurement.
    pub(super) fn correct(&mut self, latency: f64, bytes: f64) {
        for part in [
            &mut self.latency_mean_ms,
            &mut self.latency_p99_ms,
            &mut self.settle_mean_ms,
        ] {
            *part *= latency;
        }
        for part in [
            &mut self.bytes_up,
            &mut self.bytes_down,
            &mut self.frames_up,
            &mut self.frames_down,
        ] {
            *part *= bytes;
        }
    }

    fn scaled_bytes(mut self, by: f64) -> Self {
        self.bytes_up *= by;
        self.bytes_down *= by;
        self.frames_up *= by;
        self.frames_down *= by;
        self
    }

    fn add(&mut self, it: &Expectation, share: f64) {
        self.latency_mean_ms += share * it.latency_mean_ms;
        self.latency_p99_ms = self.latency_p99_ms.max(it.latency_p99_ms);
        self.settle_mean_ms += share * it.settle_mean_ms;
        self.delivered += share * it.delivered;
        self.frames_up += share * it.frames_up;
        self.frames_down += share * it.frames_down;
        self.bytes_up += share * it.bytes_up;
        self.bytes_down += share * it.bytes_down;
        self.wakes += share * it.wakes;
        self.cells = self.cells.max(it.cells);
    }
}

/// Computes the expected cost of a message on a lane.
pub(super) fn expect(
    calibration: &Calibration,
    lane: &Candidate,
    situation: &Situation,
) -> Expectation {
    let is_stream = lane.medium != Medium::Datagrams;
    let unknown = unknown_protocol(is_stream);
    let protocol = calibration
        .protocol(lane.protocol, is_stream)
        .unwrap_or(&unknown);
    let mut sum = Expectation::default();
    for (reliability, share) in RELIABILITIES.into_iter().zip(situation.shares) {
        if share <= 0.0 {
            continue;
        }
        let cost = wire_cost(protocol, lane, situation, reliability);
        let computed = if is_stream {
            over_stream(calibration, situation, &cost)
        } else {
            over_datagrams(&calibration.datagrams, situation, &cost)
        };
        let measured = measured(calibration, protocol, situation, reliability, computed);
        // Lost messages are published again, so the cost is divided by the share that arrives.
        let arrived = measured.delivered.max(0.01);
        let mut fair = measured.scaled_bytes(1.0 / arrived);
        fair.latency_mean_ms /= arrived;
        sum.add(&fair, share);
    }
    let all = situation.rate_per_s + situation.received_per_s;
    if situation.received_per_s > RECEIVED_LEAST {
        let (mean_ms, p99_ms) = receiving(calibration, protocol, situation);
        let share = situation.received_per_s / all;
        sum.latency_mean_ms = sum.latency_mean_ms * (1.0 - share) + mean_ms * share;
        sum.latency_p99_ms = if share > 0.99 {
            p99_ms
        } else {
            sum.latency_p99_ms.max(p99_ms)
        };
    }
    sum
}

/// Latency from the broker to this client: mean and 99th percentile. A receiver of datagrams cannot see losses on the
/// way to it, so some loss is assumed; the timers are the broker's.
fn receiving(calibration: &Calibration, protocol: &Protocol, at: &Situation) -> (f64, f64) {
    let blind = Situation {
        loss: at.loss.max(UNSEEN_LOSS),
        rate_per_s: at.received_per_s,
        topics: 1.0,
        ..*at
    };
    let cost = WireCost {
        message_bytes: at.payload_bytes + 40.0,
        answer_bytes: 4.0,
        second_bytes: 0.0,
        is_confirmed: true,
    };
    let it = if protocol.is_stream {
        // Both directions of TCP are alike: what was measured of one holds for the other.
        let computed = over_stream(calibration, &blind, &cost);
        measured(
            calibration,
            protocol,
            &blind,
            Reliability::AtLeastOnce,
            computed,
        )
    } else {
        let datagrams = &calibration.datagrams;
        let blind = Situation {
            topics: datagrams.notify_at_once,
            ..blind
        };
        over_datagrams(
            &Datagrams {
                repeat_min_ms: datagrams.notify_min_ms,
                repeat_max_ms: datagrams.notify_max_ms,
                repeat_round_trips: 0.0,
                ..datagrams.clone()
            },
            &blind,
            &cost,
        )
    };
    (it.latency_mean_ms, it.latency_p99_ms)
}

/// Bytes that both sides send for one message, above TCP or UDP.
struct WireCost {
    message_bytes: f64,
    /// 0: no answer.
    answer_bytes: f64,
    /// A second exchange, each side; 0: none.
    second_bytes: f64,
    is_confirmed: bool,
}

fn wire_cost(
    protocol: &Protocol,
    lane: &Candidate,
    situation: &Situation,
    reliability: Reliability,
) -> WireCost {
    let is_stream = lane.medium != Medium::Datagrams;
    // TLS 1.3: header, type, tag. DTLS 1.2 with CCM_8: header, nonce, tag. WebSocket: head and mask; the answer has no mask.
    let cover = if !lane.encrypted {
        0.0
    } else {
        [29.0, 22.0][usize::from(is_stream)]
    };
    let (mask, head) = if lane.websocket {
        (
            if situation.payload_bytes < 100.0 {
                6.0
            } else {
                8.0
            },
            2.0,
        )
    } else {
        (0.0, 0.0)
    };
    let stamped = situation.stamps && reliability != Reliability::AtMostOnce;
    let stamp = if stamped { protocol.stamp_bytes } else { 0.0 };
    let answer = match reliability {
        Reliability::AtMostOnce => protocol.answer_at_most_once_bytes,
        _ => protocol.answer_bytes,
    };
    let has_second = reliability == Reliability::ExactlyOnce
        && !situation.stamps
        && protocol.second_exchange_bytes > 0.0;
    WireCost {
        message_bytes: (situation.payload_bytes
            + protocol.overhead_bytes
            + stamp
            + situation.extra_bytes)
            .max(1.0)
            + cover
            + mask,
        answer_bytes: if answer > 0.0 {
            answer + cover + head
        } else {
            0.0
        },
        second_bytes: if has_second {
            protocol.second_exchange_bytes + cover + mask
        } else {
            0.0
        },
        is_confirmed: reliability != Reliability::AtMostOnce,
    }
}

/// TCP. The system repeats what is lost: after a silence the wait is the least RTO plus the round trip, doubled each time;
/// with later segments behind, their acknowledgements tell sooner (RACK). Everything behind a hole waits for it.
fn over_stream(calibration: &Calibration, at: &Situation, cost: &WireCost) -> Expectation {
    let tcp = &calibration.tcp;
    let p = at.loss;
    // Message or acknowledgement lost: the sender cannot tell which.
    let q = 1.0 - (1.0 - p) * (1.0 - p);
    let timer_ms = tcp.repeat_min_ms + 1.5 * at.round_trip_ms;
    let told_ms = 1000.0 / at.rate_per_s.max(1e-6) / (1.0 - q) + 1.25 * at.round_trip_ms;
    let wait = |lost: i32| {
        if told_ms < timer_ms {
            told_ms * f64::from(lost)
        } else {
            timer_ms * (2f64.powi(lost) - 1.0)
        }
    };
    let segments = (cost.message_bytes / tcp.segment_bytes).ceil().max(1.0);
    // The last segment reveals a hole before it; as measured, each further segment adds 0.4 of the first one's risk.
    let spread = 1.0 + 0.4 * (segments - 1.0).min(20.0);
    let own = geometric(p, p, wait, STREAM_REPEATS);
    // The peer repeats its answer by itself, so an acknowledgement that was lost is found by either side: what follows
    // fails again only if the message was lost (p of q), or if both sides' repetitions are.
    let again = if cost.answer_bytes > 0.0 {
        p + (q - p) * p
    } else {
        q
    };
    let hole = geometric(q, again, wait, STREAM_REPEATS);
    let rate_per_ms = at.rate_per_s / 1000.0;
    // A message that comes while a hole is open waits for the rest of it.
    let behind_ms = rate_per_ms * hole.mean_square / (2.0 * (1.0 + rate_per_ms * hole.mean));
    let one_way_ms = at.round_trip_ms / 2.0
        + (segments / INITIAL_WINDOW).log2().max(0.0).ceil() * at.round_trip_ms;
    let latency_mean_ms = one_way_ms + (own.mean + behind_ms) * spread;
    let latency_p99_ms = one_way_ms
        + quantile(1.0 - (1.0 - p).powf(segments), wait, STREAM_REPEATS, 0.99)
        + 4.0 * behind_ms;

    // Lost segments are retransmitted. The end of a message is also retransmitted when its acknowledgement was lost,
    // unless a later message's acknowledgement comes before the timer.
    let alone = (-1.2 * at.rate_per_s * timer_ms / 1000.0 / (1.0 - q).max(0.1)).exp();
    let times = 1.0 / (1.0 - p);
    let times_last = times.powf(1.0 + alone);
    let last_bytes = cost.message_bytes - (segments - 1.0) * tcp.segment_bytes;
    let frame = |bytes: f64| bytes + tcp.header_bytes;
    let mut it = Expectation {
        latency_mean_ms,
        latency_p99_ms,
        settle_mean_ms: latency_mean_ms + at.round_trip_ms / 2.0 + own.mean,
        delivered: 1.0,
        bytes_up: (segments - 1.0) * frame(tcp.segment_bytes) * times
            + frame(last_bytes) * times_last,
        frames_up: (segments - 1.0) * times + times_last,
        wakes: times_last,
        ..Expectation::default()
    };
    // The peer acknowledges every second segment, and with its answer; a repetition that was none brings one more.
    let acknowledgements = (segments / 2.0).floor() + (times_last - 1.0) * (1.0 - p);
    it.frames_down = acknowledgements;
    it.bytes_down = acknowledgements * tcp.header_bytes;
    let pairs = [
        (cost.answer_bytes, true),
        (cost.second_bytes, cost.second_bytes > 0.0),
    ];
    for (bytes, _) in pairs.into_iter().filter(|&(_, is_said)| is_said) {
        // Without an answer a pure acknowledgement; with one our acknowledgement of it.
        it.frames_down += times;
        it.bytes_down += frame(bytes) * times;
        if bytes > 0.0 {
            it.frames_up += times;
            it.bytes_up += tcp.header_bytes * times;
        }
    }
    if cost.second_bytes > 0.0 {
        // PUBREL carries the acknowledgement of PUBREC.
        it.bytes_up += cost.second_bytes * times;
        it.settle_mean_ms += at.round_trip_ms + hole.mean;
    }
    it
}

/// CoAP over datagrams. RFC 7252 §4.2: repeated until acknowledged, the wait doubled each time; block by block if large.
fn over_datagrams(over: &Datagrams, at: &Situation, cost: &WireCost) -> Expectation {
    let p = at.loss;
    let first_ms = (over.repeat_min_ms + over.repeat_max_ms) / 2.0;
    let measured_ms = (over.repeat_round_trips * at.round_trip_ms).max(over.repeat_floor_ms);
    let first_ms = if over.repeat_round_trips > 0.0 {
        measured_ms
    } else {
        first_ms
    };
    let wait = |lost: i32| first_ms * (2f64.powi(lost) - 1.0);
    let blocks = if at.payload_bytes > over.block_bytes {
        (at.payload_bytes / over.block_bytes).ceil()
    } else {
        1.0
    };
    let head_bytes = cost.message_bytes - at.payload_bytes
        + if blocks > 1.0 {
            BLOCK_OPTION_BYTES
        } else {
            0.0
        };
    let request_bytes = at.payload_bytes + blocks * (head_bytes + over.header_bytes);
    let answer_bytes = cost.answer_bytes
        + if blocks > 1.0 {
            BLOCK_OPTION_BYTES
        } else {
            0.0
        }
        + over.header_bytes;
    if !cost.is_confirmed && blocks <= 1.0 {
        let has_answer = cost.answer_bytes > 0.0;
        return Expectation {
            latency_mean_ms: at.round_trip_ms / 2.0,
            latency_p99_ms: at.round_trip_ms / 2.0,
            settle_mean_ms: at.round_trip_ms / 2.0,
            delivered: 1.0 - p,
            frames_up: 1.0,
            bytes_up: request_bytes,
            frames_down: if has_answer { 1.0 - p } else { 0.0 },
            bytes_down: if has_answer {
                (1.0 - p) * answer_bytes
            } else {
                0.0
            },
            wakes: 1.0,
            cells: 0,
        };
    }
    let repeats = over.repeats_max as i32;
    let q = 1.0 - (1.0 - p) * (1.0 - p);
    let own = geometric(p, p, wait, repeats);
    let exchange = geometric(q, q, wait, repeats);
    let before = blocks - 1.0;
    let service_ms = blocks * (exchange.mean + at.round_trip_ms);
    // The random part of the first wait, of half its width.
    let spread = 1.0
        + ((over.repeat_max_ms - over.repeat_min_ms) / (over.repeat_max_ms + over.repeat_min_ms))
            .powi(2)
            / 3.0;
    let variance =
        blocks * (exchange.mean_square * spread - exchange.mean * exchange.mean).max(0.0);
    // One message per topic is under way. Kingman's formula, for arrivals that are fairly regular.
    let load = (at.rate_per_s / at.topics.max(1.0) * service_ms / 1000.0).max(0.0);
    let held = load.min(0.95);
    let relative = if service_ms > 0.0 {
        variance / (service_ms * service_ms)
    } else {
        0.0
    };
    let queue_ms =
        held / (1.0 - held) * (0.3 + relative) / 2.0 * service_ms + (load - held) * OVERLOAD_MS;
    let ahead_ms = before * (exchange.mean + at.round_trip_ms);
    let latency_mean_ms = queue_ms + ahead_ms + own.mean + at.round_trip_ms / 2.0;
    let whole = 1.0 - (1.0 - p) * (1.0 - q).powf(before);
    let times = (1.0 - q.powi(repeats + 1)) / (1.0 - q);
    Expectation {
        latency_mean_ms,
        latency_p99_ms: 3.0 * queue_ms
            + before * at.round_trip_ms
            + quantile(whole, wait, repeats, 0.99)
            + at.round_trip_ms / 2.0,
        settle_mean_ms: service_ms,
        delivered: (1.0 - p.powi(repeats + 1)) * (1.0 - q.powi(repeats + 1)).powf(before),
        frames_up: blocks * times,
        bytes_up: request_bytes * times,
        frames_down: blocks * times * (1.0 - p),
        bytes_down: blocks * answer_bytes * times * (1.0 - p),
        wakes: blocks * times,
        cells: 0,
    }
}

struct Waits {
    mean: f64,
    mean_square: f64,
}

/// Moments of the wait when the first attempt fails with probability `first`, each further one with `again`, and there are
/// `repeats` of them.
fn geometric(first: f64, again: f64, wait: impl Fn(i32) -> f64, repeats: i32) -> Waits {
    let (mut mean, mut mean_square, mut failed) = (0.0, 0.0, first);
    for lost in 1..=repeats {
        let arrives = failed * (1.0 - again);
        mean += arrives * wait(lost);
        mean_square += arrives * wait(lost) * wait(lost);
        failed *= again;
    }
    let arrived = 1.0 - failed;
    Waits {
        mean: mean / arrived,
        mean_square: mean_square / arrived,
    }
}

/// The wait that `part` of all stay below. Between two steps it is interpolated on the logarithm of the probability, as
/// timers vary: a step would make a constraint flutter.
fn quantile(p: f64, wait: impl Fn(i32) -> f64, repeats: i32, part: f64) -> f64 {
    let beyond = 1.0 - part;
    if p <= 0.0 {
        return 0.0;
    }
    let lost = beyond.ln() / p.min(0.999).ln();
    let lost = lost.clamp(0.0, f64::from(repeats));
    // p to the power of `lost` is `beyond`: one of more than `lost` losses has that probability.
    let most = wait(lost.floor() as i32 + 1);
    let least = wait(lost.floor() as i32);
    least + (most - least) * (lost - lost.floor())
}

/// The calibration's table: the ratio of measured to computed, interpolated between the cells around.
fn measured(
    calibration: &Calibration,
    protocol: &Protocol,
    at: &Situation,
    reliability: Reliability,
    mut computed: Expectation,
) -> Expectation {
    let rows = calibration.table.iter().filter(|row| {
        row.protocol == protocol.protocol
            && row.is_stream == protocol.is_stream
            && row.reliability == f64::from(reliability as u8)
    });
    let rows: Vec<&Row> = rows.collect();
    if rows.is_empty() {
        return computed;
    }
    let compute = |row: &Row| {
        let shares = [0.0; 3];
        let cell = Situation {
            payload_bytes: row.payload_bytes,
            extra_bytes: row.overhead_bytes - protocol.overhead_bytes,
            shares,
            loss: row.loss_percent / 100.0,
            round_trip_ms: row.round_trip_ms,
            rate_per_s: row.rate_per_s,
            topics: 1.0,
            stamps: false,
            received_per_s: 0.0,
        };
        let lane = Candidate::plain(0, "", protocol.is_stream);
        let cost = wire_cost(protocol, &lane, &cell, reliability);
        if protocol.is_stream {
            over_stream(calibration, &cell, &cost)
        } else {
            over_datagrams(&calibration.datagrams, &cell, &cost)
        }
    };
    type Measured = fn(&Row) -> Option<f64>;
    let around = |grain: f64, measured: Measured, computed: fn(&Expectation) -> f64| {
        let cells = rows.iter().copied();
        let cells = cells.filter(|row| measured(row).is_some_and(|it| it + grain > 0.0));
        interpolate(&cells.collect::<Vec<_>>(), at, &|row| {
            let ratio = (measured(row)? + grain) / (computed(&compute(row)) + grain);
            (ratio > 0.0).then(|| ratio.clamp(0.1, 10.0).ln())
        })
    };
    let bytes = around(0.0, |row| row.bytes_per_message, Expectation::bytes);
    let mean = around(1.0, |row| row.latency_mean_ms, |it| it.latency_mean_ms);
    let p99 = around(1.0, |row| row.latency_p99_ms, |it| it.latency_p99_ms);
    let settle = around(1.0, |row| row.settle_mean_ms, |it| it.settle_mean_ms);
    let ratio = |found: Option<Found>| found.map_or(1.0, |it| it.logarithm.exp());
    computed = computed.scaled_bytes(ratio(bytes));
    computed.latency_mean_ms *= ratio(mean);
    computed.settle_mean_ms *= ratio(settle.or(mean));
    computed.latency_p99_ms *= ratio(p99);
    computed.cells = [bytes, mean, p99]
        .into_iter()
        .flatten()
        .map(|it| it.cells)
        .max()
        .unwrap_or(0);
    computed
}

/// A ratio between cells.
#[derive(Clone, Copy, Debug)]
struct Found {
    logarithm: f64,
    cells: usize,
}

/// An axis of the table: what a measured cell is on it, what is asked for, and how far outside of what was measured is
/// still the same: a live estimate never meets a measured point exactly, and a laboratory has often one rate and one round
/// trip only.
struct Axis {
    of: fn(&Row) -> f64,
    value: f64,
    margin: f64,
}

/// Interpolates linearly in the logarithms of size and rate, and in round trip and loss; the value is the logarithm of
/// the ratio of measured to computed. It goes axis by axis, so each size may have its own losses. `None` outside of the
/// measured range. `logarithm` is asked of the cells around alone: what it computes costs more than all the rest.
fn interpolate(
    cells: &[&Row],
    at: &Situation,
    logarithm: &dyn Fn(&Row) -> Option<f64>,
) -> Option<Found> {
    let axes = [
        Axis {
            of: |row| (row.payload_bytes + 1.0).ln(),
            value: (at.payload_bytes + 1.0).ln(),
            margin: SIZE_MARGIN,
        },
        Axis {
            of: |row| (row.rate_per_s + 0.001).ln(),
            value: (at.rate_per_s + 0.001).ln(),
            margin: RATE_MARGIN,
        },
        Axis {
            of: |row| row.round_trip_ms,
            value: at.round_trip_ms,
            margin: ROUND_TRIP_MARGIN_MS.max(0.1 * at.round_trip_ms),
        },
        Axis {
            of: |row| row.loss_percent,
            value: at.loss * 100.0,
            margin: LOSS_MARGIN_PERCENT,
        },
    ];
    between(cells, &axes, logarithm)
}

fn between(
    cells: &[&Row],
    axes: &[Axis],
    logarithm: &dyn Fn(&Row) -> Option<f64>,
) -> Option<Found> {
    let Some((axis, others)) = axes.split_first() else {
        let logarithm = logarithm(cells.first()?)?;
        return Some(Found {
            logarithm,
            cells: 1,
        });
    };
    let places: Vec<f64> = cells.iter().map(|row| (axis.of)(row)).collect();
    let least = places.iter().copied().fold(f64::INFINITY, f64::min);
    let most = places.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if cells.is_empty()
        || axis.value < least - axis.margin - NEAR
        || axis.value > most + axis.margin + NEAR
    {
        return None;
    }
    let value = axis.value.clamp(least, most);
    let (mut below, mut above) = (least, most);
    for &place in &places {
        if place <= value + NEAR {
            below = below.max(place);
        }
        if place >= value - NEAR {
            above = above.min(place);
        }
    }
    let along = |place: f64| {
        let there = cells.iter().zip(&places);
        let there = there.filter(|(_, it)| (*it - place).abs() <= NEAR);
        between(
            &there.map(|(row, _)| *row).collect::<Vec<_>>(),
            others,
            logarithm,
        )
    };
    let share = if above - below > NEAR {
        ((value - below) / (above - below)).clamp(0.0, 1.0)
    } else {
        0.0
    };
    if share <= 0.0 {
        return along(below);
    }
    if share >= 1.0 {
        return along(above);
    }
    let (low, high) = (along(below)?, along(above)?);
    Some(Found {
        logarithm: (1.0 - share) * low.logarithm + share * high.logarithm,
        cells: low.cells + high.cells,
    })
}

fn unknown_protocol(is_stream: bool) -> Protocol {
    Protocol {
        protocol: String::new(),
        is_stream,
        overhead_bytes: 40.0,
        stamp_bytes: 30.0,
        answer_at_most_once_bytes: 0.0,
        answer_bytes: 12.0,
        second_exchange_bytes: 0.0,
    }
}

const RELIABILITIES: [Reliability; 3] = [
    Reliability::AtMostOnce,
    Reliability::AtLeastOnce,
    Reliability::ExactlyOnce,
];

/// Waits of TCP beyond these are so rare that they would only make means jump.
const STREAM_REPEATS: i32 = 5;

/// Segments that leave before the first acknowledgement. RFC 6928
const INITIAL_WINDOW: f64 = 10.0;

/// Block1 or Block2 with its number. RFC 7959 §2.1
const BLOCK_OPTION_BYTES: f64 = 3.0;

/// Latency of a load above a lane's capacity: higher than any acceptable value.
const OVERLOAD_MS: f64 = 60_000.0;

/// Messages a second from which on receiving counts.
const RECEIVED_LEAST: f64 = 0.01;

/// Loss that a receiver does not see and reckons with.
const UNSEEN_LOSS: f64 = 0.05;

/// Two positions on an axis are the same.
const NEAR: f64 = 1e-6;

/// How far beside the outermost measured cell is still that cell: 10 % of a size, 25 % of a rate (logarithms), a point of
/// loss, and this or 10 % of a round trip.
const SIZE_MARGIN: f64 = 0.095;
const RATE_MARGIN: f64 = 0.223;
const LOSS_MARGIN_PERCENT: f64 = 1.0;
const ROUND_TRIP_MARGIN_MS: f64 = 2.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(loss: f64, rate_per_s: f64, round_trip_ms: f64, shares: [f64; 3]) -> Situation {
        let (payload_bytes, extra_bytes, topics) = (60.0, 5.0, 100.0);
        Situation {
            payload_bytes,
            extra_bytes,
            shares,
            loss,
            round_trip_ms,
            rate_per_s,
            topics,
            stamps: false,
            received_per_s: 0.0,
        }
    }

    /// Means measured by `calibration/tcp.py` in runs in which the machine was idle (nothing repeated without loss).
    #[test]
    fn means_over_tcp_are_about_those_that_were_measured() {
        let (calibration, lane) = (Calibration::built_in(), Candidate::plain(0, "mqtt", true));
        let losses = [0.0, 0.05, 0.1, 0.15, 0.2, 0.25];
        let runs = [
            (
                1.0,
                0.0,
                [0.0, 0.0, 1.0],
                [0.7, 12.4, 31.1, 74.6, 121.1, 261.0],
            ),
            (
                0.2,
                50.0,
                [0.0, 1.0, 0.0],
                [26.9, 44.2, 64.2, 86.6, 120.1, 161.7],
            ),
            (
                1.0,
                50.0,
                [0.0, 0.0, 1.0],
                [26.5, 39.2, 81.1, 132.3, 235.7, 561.2],
            ),
            (
                1.0,
                0.0,
                [1.0, 0.0, 0.0],
                [0.8, 12.1, 22.1, 80.4, 258.4, 468.9],
            ),
        ];
        for (rate, round_trip, shares, measured) in runs {
            let computed = losses.map(|loss| {
                expect(&calibration, &lane, &at(loss, rate, round_trip, shares)).latency_mean_ms
            });
            for ((loss, it), truth) in losses.into_iter().zip(computed).zip(measured) {
                assert!(
                    (0.45..2.2).contains(&((it + 1.0) / (truth + 1.0))),
                    "{rate}/s {round_trip} ms {loss}: {computed:.0?}, measured {measured:?}"
                );
            }
            println!("{rate}/s {round_trip} ms: {computed:.0?}, measured {measured:?}");
        }
    }

    /// Computed by hand, two legs; the frames of MQTT at QoS 0, 1, 2 and of CoAP without loss.
    #[test]
    fn bytes_without_loss_are_those_of_the_frames() {
        let calibration = Calibration {
            table: Vec::new(),
            ..Calibration::built_in()
        };
        let lane = Candidate::plain(0, "mqtt", true);
        let bytes = |lane: &Candidate, shares| {
            let at = Situation {
                extra_bytes: 0.0,
                ..at(0.0, 0.01, 1.0, shares)
            };
            expect(&calibration, lane, &at).bytes()
        };
        let message = 66.0 + 60.0 + 19.0;
        assert_eq!(bytes(&lane, [1.0, 0.0, 0.0]), message + 66.0);
        assert_eq!(bytes(&lane, [0.0, 1.0, 0.0]), message + 70.0 + 66.0);
        assert_eq!(
            bytes(&lane, [0.0, 0.0, 1.0]),
            message + 70.0 + 70.0 + 70.0 + 66.0
        );
        let lane = Candidate::plain(0, "coap", false);
        assert_eq!(bytes(&lane, [0.0, 1.0, 0.0]), 42.0 + 60.0 + 28.0 + 48.0);
        assert_eq!(bytes(&lane, [1.0, 0.0, 0.0]), 42.0 + 60.0 + 28.0);
    }

    #[test]
    fn the_table_is_met_where_it_was_measured_and_not_stretched() {
        let (calibration, lane) = (Calibration::built_in(), Candidate::plain(0, "mqtt", true));
        let row = calibration
            .table
            .iter()
            .find(|row| row.loss_percent == 25.0 && row.bytes_per_message.is_some());
        let row = row.expect("it was measured");
        let here = Situation {
            payload_bytes: row.payload_bytes,
            ..at(0.25, row.rate_per_s, row.round_trip_ms, [0.0, 1.0, 0.0])
        };
        let met = expect(&calibration, &lane, &here).bytes();
        assert!(
            (met / row.bytes_per_message.expect("it has") - 1.0).abs() < 0.01,
            "{met} {row:?}"
        );
        let bare = Calibration {
            table: Vec::new(),
            ..calibration.clone()
        };
        let beyond = Situation { loss: 0.4, ..here };
        assert_eq!(
            expect(&calibration, &lane, &beyond),
            expect(&bare, &lane, &beyond)
        );
    }

    #[test]
    fn nothing_is_ever_infinite() {
        let calibration = Calibration::built_in();
        for (protocol, is_stream) in [
            ("mqtt", true),
            ("coap", false),
            ("own", true),
            ("own", false),
        ] {
            for loss in [0.0, 0.3, 0.6] {
                for rate in [0.0, 0.01, 10.0, 1e6] {
                    for round_trip in [0.0, 50.0, 1e5] {
                        let situation = Situation {
                            topics: 1.0,
                            payload_bytes: 1e6,
                            ..at(loss, rate, round_trip, [0.2, 0.3, 0.5])
                        };
                        let it = expect(
                            &calibration,
                            &Candidate::plain(0, protocol, is_stream),
                            &situation,
                        );
                        let all = [
                            it.latency_mean_ms,
                            it.latency_p99_ms,
                            it.settle_mean_ms,
                            it.bytes(),
                            it.delivered,
                            it.wakes,
                        ];
                        assert!(
                            all.iter().all(|it| it.is_finite() && *it >= 0.0),
                            "{situation:?}: {it:?}"
                        );
                    }
                }
            }
        }
    }
}
