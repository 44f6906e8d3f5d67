//! Loss, round trip and traffic, from the counters of the transports. This module sends nothing.
//!
//! What was counted enters in turns of about a second. Two memories are kept of losses: a long one, which is exact, and a
//! short one, which is fresh. When the short one contradicts the long one, the network has changed, and the long one
//! begins anew from the short one.

use thalweg_model::{Span, Time};

use super::{NetworkReading, Sent};
use crate::transport::Counters;

/// A count that forgets: after `memory` seconds a count weighs 1/e.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fading {
    value: f64,
}

impl Fading {
    pub(super) fn fade(&mut self, seconds: f64, memory: f64) {
        self.value *= (-seconds / memory).exp();
    }

    pub(super) fn add(&mut self, count: f64) {
        self.value += count;
    }

    pub(super) fn get(self) -> f64 {
        self.value
    }
}

/// Packets that were sent, and the share of them that was lost.
#[derive(Clone, Copy, Debug, Default)]
struct Losses {
    tried: Fading,
    lost: Fading,
}

impl Losses {
    fn share(self) -> f64 {
        (self.lost.get() + 0.5 * PRIOR_LOSS) / (self.tried.get() + 0.5)
    }

    fn fade(&mut self, seconds: f64, memory: f64) {
        self.tried.fade(seconds, memory);
        self.lost.fade(seconds, memory);
    }

    fn add(&mut self, tried: f64, lost: f64) {
        self.tried.add(tried);
        self.lost.add(lost.clamp(0.0, tried));
    }
}

/// An estimate and how much it rests on.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Known {
    pub(super) value: f64,
    /// About so many observations count.
    pub(super) samples: f64,
}

/// Measurements of a network path, from one lane or from all lanes to a host.
#[derive(Clone, Debug, Default)]
pub(super) struct Path {
    long: Losses,
    short: Losses,
    fresh: RoundTrips,
    seen: Option<Time>,
    /// How often the network has changed, and for how many seconds it has been stable.
    pub(super) changes: u32,
    /// When its losses were found to be others.
    pub(super) changed_at: Option<Time>,
    steady_seconds: f64,
    reference_ms: f64,
}

impl Path {
    /// Packets that were tried since the last call, and how many were lost.
    pub(super) fn losses(&mut self, tried: f64, lost: f64, now: Time) {
        if tried <= 0.0 {
            return;
        }
        self.seen = Some(now);
        self.long.add(tried, lost);
        self.short.add(tried, lost);
        if self.is_contradicted() {
            self.long = self.short;
            self.steady_seconds = 0.0;
            self.changed_at = Some(now);
            self.changes = self.changes.wrapping_add(1);
        }
    }

    /// Forgets the losses: the earlier counts belong to another network.
    pub(super) fn forget_losses(&mut self) {
        (self.long, self.short) = (Losses::default(), Losses::default());
    }

    /// Adds a round trip without a repetition, or one that cannot be told from such.
    pub(super) fn round_trip(&mut self, ms: f64, now: Time) {
        self.fresh.add(ms, now);
        self.seen = Some(now);
    }

    pub(super) fn fade(&mut self, seconds: f64, now: Time) {
        // Rare messages: the memory reaches further back, so that there is something in it.
        let stretch = (SAMPLES_WANTED / self.long.tried.get().max(1.0)).clamp(1.0, 5.0);
        self.steady_seconds += seconds;
        // The short memory held something of the time before the change: the long one grows with its age.
        let long = if self.changes == 0 {
            LONG_SECONDS
        } else {
            self.steady_seconds.clamp(SHORT_SECONDS, LONG_SECONDS)
        };
        self.long.fade(seconds, long * stretch);
        self.short.fade(seconds, SHORT_SECONDS * stretch);
        if let Some(ms) = self
            .fresh
            .estimate(now)
            .filter(|_| self.fresh.count(now) >= ROUND_TRIPS_FEW)
        {
            let moved = (ms + 5.0) / (self.reference_ms + 5.0);
            if self.reference_ms > 0.0 && !(0.5..=2.0).contains(&moved) {
                self.changes = self.changes.wrapping_add(1);
                self.reference_ms = ms;
            } else if self.reference_ms == 0.0 {
                self.reference_ms = ms;
            }
        }
    }

    /// Probability that a packet is lost.
    pub(super) fn loss(&self) -> Known {
        Known {
            value: self.long.share(),
            samples: self.long.tried.get(),
        }
    }

    /// Round trip in milliseconds; `None` without a measurement.
    pub(super) fn round_trip_ms(&self, now: Time) -> Option<Known> {
        let samples = self.fresh.count(now) as f64;
        self.fresh
            .estimate(now)
            .map(|value| Known { value, samples })
    }

    /// Deviation of the round trip from its mean, in milliseconds.
    pub(super) fn deviation_ms(&self) -> f64 {
        self.fresh.deviation_ms
    }

    /// Time of the last measurement.
    pub(super) fn seen(&self) -> Option<Time> {
        self.seen
    }

    /// Whether the recent losses cannot be a sample of the long-term rate.
    fn is_contradicted(&self) -> bool {
        let (n, old) = (
            self.short.tried.get(),
            self.long.tried.get() - self.short.tried.get(),
        );
        if n < SHORT_SAMPLES_MIN || old < SHORT_SAMPLES_MIN {
            return false;
        }
        let before = ((self.long.lost.get() - self.short.lost.get()) / old).clamp(0.0, 1.0);
        let now = (self.short.lost.get() / n).clamp(0.0, 1.0);
        // Rule of succession, so that no loss in few packets is not taken for certain.
        let pooled =
            ((self.long.lost.get() + 1.0) / (self.long.tried.get() + 2.0)).clamp(0.001, 0.999);
        let deviation = (pooled * (1.0 - pooled) * (1.0 / n + 1.0 / old)).sqrt();
        (now - before).abs() > CHANGE_DEVIATIONS * deviation && (now - before).abs() > CHANGE_LEAST
    }
}

/// The last round trips. A low quantile of them is the round trip of the path: what is above holds repetitions, queues and
/// delayed acknowledgements.
#[derive(Clone, Debug, Default)]
struct RoundTrips {
    ring: Vec<(Time, f64)>,
    next: usize,
    smoothed_ms: f64,
    deviation_ms: f64,
}

impl RoundTrips {
    fn add(&mut self, ms: f64, now: Time) {
        if self.ring.is_empty() {
            self.smoothed_ms = ms;
            self.deviation_ms = ms / 2.0;
        } else {
            // RFC 6298 §2.3
            self.deviation_ms += ((self.smoothed_ms - ms).abs() - self.deviation_ms) / 4.0;
            self.smoothed_ms += (ms - self.smoothed_ms) / 8.0;
        }
        match self.ring.get_mut(self.next) {
            Some(place) => *place = (now, ms),
            None => self.ring.push((now, ms)),
        }
        self.next = (self.next + 1) % RING;
    }

    fn estimate(&self, now: Time) -> Option<f64> {
        let mut fresh: Vec<f64> = self.fresh(now).collect();
        if fresh.is_empty() {
            fresh = self.ring.iter().map(|&(_, ms)| ms).collect();
        }
        fresh.sort_by(f64::total_cmp);
        fresh.get(fresh.len() / 4).copied()
    }

    fn count(&self, now: Time) -> usize {
        self.fresh(now).count()
    }

    fn fresh(&self, now: Time) -> impl Iterator<Item = f64> + '_ {
        self.ring
            .iter()
            .filter(move |(at, _)| now.since(*at) <= ROUND_TRIP_MEMORY)
            .map(|&(_, ms)| ms)
    }
}

/// The user's publishes, on all lanes.
#[derive(Clone, Debug, Default)]
pub(super) struct Traffic {
    messages: Fading,
    received: Fading,
    received_bytes: Fading,
    age_seconds: f64,
    payload_bytes: Fading,
    shares: [Fading; 3],
    /// Since the last turn.
    pending: Pending,
    topics: [u64; 4],
    topics_before: f64,
    topics_age: f64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Pending {
    messages: u64,
    received: u64,
    received_bytes: u64,
    payload_bytes: u64,
    shares: [u64; 3],
}

impl Traffic {
    pub(super) fn sent(&mut self, sent: &Sent) {
        self.pending.messages += 1;
        self.pending.payload_bytes += sent.payload_bytes as u64;
        if let Some(share) = self.pending.shares.get_mut(sent.reliability as usize) {
            *share += 1;
        }
        let bit = sent.topic_hash & 255;
        if let Some(word) = self.topics.get_mut((bit >> 6) as usize) {
            *word |= 1 << (bit & 63);
        }
    }

    pub(super) fn turn(&mut self, seconds: f64) {
        let pending = std::mem::take(&mut self.pending);
        self.age_seconds = (self.age_seconds + seconds).min(1e6);
        self.messages.fade(seconds, TRAFFIC_SECONDS);
        self.messages.add(pending.messages as f64);
        self.received.fade(seconds, TRAFFIC_SECONDS);
        self.received.add(pending.received as f64);
        self.received_bytes.fade(seconds, TRAFFIC_SECONDS);
        self.received_bytes.add(pending.received_bytes as f64);
        // Sizes and shares are forgotten as messages come, not as time passes: silence changes nothing.
        let weight = (-(pending.messages as f64) / 50.0)
            .exp()
            .max((-seconds / TRAFFIC_SECONDS).exp());
        let known = self.shares.iter().map(|it| it.get()).sum::<f64>();
        let keep = if pending.messages == 0 || known < 20.0 {
            1.0
        } else {
            weight
        };
        self.payload_bytes.value = self.payload_bytes.value * keep + pending.payload_bytes as f64;
        for (share, count) in self.shares.iter_mut().zip(pending.shares) {
            share.value = share.value * keep + count as f64;
        }
        self.topics_age += seconds;
        if self.topics_age > 60.0 {
            self.topics_before = self.topics_now();
            self.topics = [0; 4];
            self.topics_age = 0.0;
        }
    }

    /// A message came to us.
    pub(super) fn received(&mut self, payload_bytes: usize) {
        self.pending.received += 1;
        self.pending.received_bytes += payload_bytes as u64;
    }

    /// Messages a second that we publish.
    pub(super) fn rate_per_s(&self) -> f64 {
        self.per_second(self.messages)
    }

    /// Messages a second that come to us.
    pub(super) fn received_per_s(&self) -> f64 {
        self.per_second(self.received)
    }

    fn per_second(&self, count: Fading) -> f64 {
        let memory = TRAFFIC_SECONDS * (1.0 - (-self.age_seconds / TRAFFIC_SECONDS).exp());
        if memory > 0.0 {
            count.get() / memory
        } else {
            0.0
        }
    }

    /// Mean payload in bytes: of published messages, or else of received ones; `None` without either.
    pub(super) fn payload_bytes(&self) -> Option<f64> {
        let messages = self.shares.iter().map(|it| it.get()).sum::<f64>();
        let of = |bytes: f64, messages: f64| (messages > 1e-9).then(|| bytes / messages);
        of(self.payload_bytes.get(), messages)
            .or_else(|| of(self.received_bytes.get(), self.received.get()))
    }

    pub(super) fn shares(&self) -> Option<[f64; 3]> {
        let messages = self.shares.iter().map(|it| it.get()).sum::<f64>();
        (messages > 0.0).then(|| self.shares.map(|it| it.get() / messages))
    }

    /// About so many topics were published to in the last minute; at least 1, and about 1,000 at most.
    pub(super) fn topics(&self) -> f64 {
        self.topics_now().max(self.topics_before).max(1.0)
    }

    /// Linear counting: Whang, Vander-Zanden, Taylor 1990.
    fn topics_now(&self) -> f64 {
        let set: u32 = self.topics.iter().map(|word| word.count_ones()).sum();
        let free = f64::from(256 - set.min(255)) / 256.0;
        -256.0 * free.ln()
    }
}

/// Counts and prediction errors of one lane since its last report.
#[derive(Clone, Debug, Default)]
pub(super) struct LaneReport {
    counters: Counters,
    reading: NetworkReading,
    /// When the lane last told which messages are unsettled.
    unsettled_at: Time,
    /// Since the last turn; messages that are overdue count when they become so.
    pub(super) settled: u64,
    pub(super) settled_ms: f64,
    pub(super) sent: u64,
    pub(super) wire_bytes: u64,
    pub(super) payload_bytes: u64,
    pub(super) received: u64,
    pub(super) frame_bytes: f64,
    pub(super) delivered_bytes: f64,
    sampled: u32,
}

impl LaneReport {
    /// The lane's connection is a new one: the system counts from zero again.
    pub(super) fn reconnected(&mut self) {
        self.reading = NetworkReading::default();
    }

    /// Returns the transport's packets sent and lost since the last call.
    pub(super) fn counters(&mut self, counters: Counters) -> (f64, f64) {
        let first = counters
            .confirmable
            .saturating_sub(self.counters.confirmable) as f64;
        let repeated = counters
            .retransmissions
            .saturating_sub(self.counters.retransmissions) as f64;
        self.counters = counters;
        // An exchange fails when message or acknowledgement is lost: 1-(1-p)^2. A success has tried two packets; a failure
        // 1 or 2, on average (3-2p)/(2-p), which is within 2 % of 1.45 for all losses up to 30 %. So p = failed / tried.
        let succeeded = (first - repeated).max(0.0) + repeated.min(first);
        let failed = repeated;
        (2.0 * succeeded + 1.45 * failed, failed)
    }

    /// Returns the system's packets sent and lost since the last call. `loss` is the current estimate.
    pub(super) fn network(
        &mut self,
        reading: &NetworkReading,
        loss: f64,
        headers: f64,
    ) -> (f64, f64) {
        let before = std::mem::replace(&mut self.reading, *reading);
        let grown = |now: u64, before: u64| now.saturating_sub(before) as f64;
        self.frame_bytes += grown(reading.frames_sent, before.frames_sent) * headers
            + grown(reading.frames_received, before.frames_received) * headers
            + grown(reading.bytes_sent, before.bytes_sent)
            + grown(reading.bytes_received, before.bytes_received);
        self.delivered_bytes += grown(reading.bytes_delivered, before.bytes_delivered);
        let tried = grown(reading.sent_segments, before.sent_segments);
        let repeated = grown(
            reading.retransmitted_segments,
            before.retransmitted_segments,
        );
        let needless = grown(reading.duplicate_segments, before.duplicate_segments);
        // Only the peer reports a needless repetition, unless that report is lost as well. Not cut at zero here: the
        // report often arrives one turn after the repetition.
        (tried, repeated - needless / (1.0 - loss).max(0.3))
    }

    /// The system's smoothed round trip of a connection, in milliseconds; None if it has measured none.
    pub(super) fn smoothed_ms(&self) -> Option<f64> {
        Some(millis(self.reading.round_trip)).filter(|ms| *ms > 0.0)
    }

    /// Whether one more round trip may enter in this turn: a busy lane must not push all older ones out at once.
    pub(super) fn may_sample(&mut self) -> bool {
        self.sampled += 1;
        self.sampled <= SAMPLES_PER_TURN
    }

    /// Messages that were sent then are not settled: counts the time of those that are overdue.
    pub(super) fn unsettled(&mut self, sent: impl Iterator<Item = Time>, now: Time) {
        for sent in sent {
            if !self.count_wait(sent, now) && sent + OVERDUE <= now {
                self.settled += 1;
                self.settled_ms += millis(now.since(sent));
            }
        }
        self.unsettled_at = now;
    }

    /// Counts the time of a message since the last call of [`LaneReport::unsettled`] if it was overdue then, and so counts as a
    /// message already; false if it does not.
    pub(super) fn count_wait(&mut self, sent: Time, now: Time) -> bool {
        let was_overdue = sent + OVERDUE <= self.unsettled_at;
        if was_overdue {
            self.settled_ms += millis(now.since(self.unsettled_at));
        }
        was_overdue
    }

    pub(super) fn turned(&mut self) {
        let (counters, reading, unsettled_at) = (self.counters, self.reading, self.unsettled_at);
        *self = LaneReport {
            counters,
            reading,
            unsettled_at,
            ..LaneReport::default()
        };
    }
}

/// A span in milliseconds.
pub(super) fn millis(span: Span) -> f64 {
    span.nanos() as f64 / 1e6
}

/// Assumed loss of an unknown network: close to none.
const PRIOR_LOSS: f64 = 0.005;
const LONG_SECONDS: f64 = 90.0;
const SHORT_SECONDS: f64 = 10.0;
/// So many packets tell a loss fairly.
const SAMPLES_WANTED: f64 = 60.0;
const SHORT_SAMPLES_MIN: f64 = 6.0;
/// A contradiction that chance brings once in some thousand turns.
const CHANGE_DEVIATIONS: f64 = 3.0;
/// Less is no change that matters.
const CHANGE_LEAST: f64 = 0.03;
const RING: usize = 64;
/// Of fewer round trips all may be unlucky ones.
const ROUND_TRIPS_FEW: usize = 8;
const SAMPLES_PER_TURN: u32 = 8;
/// From this age on an unsettled message counts while it waits. Longer than the delays that losses cause: those are
/// counted when the message is settled.
const OVERDUE: Span = Span::from_secs(10);
const ROUND_TRIP_MEMORY: Span = Span::from_secs(60);
const TRAFFIC_SECONDS: f64 = 30.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exchanges_that_fail_tell_the_loss_of_packets() {
        for loss in [0.01, 0.05, 0.1, 0.2, 0.25] {
            let mut told = LaneReport::default();
            let failed = 1.0 - (1.0f64 - loss) * (1.0 - loss);
            let repeated = 100_000.0 * failed / (1.0 - failed);
            let (tried, lost) = told.counters(Counters {
                confirmable: 100_000,
                retransmissions: repeated as u64,
            });
            assert!(
                (lost / tried / loss - 1.0).abs() < 0.04,
                "{loss}: {}",
                lost / tried
            );
        }
    }

    #[test]
    fn needless_repetitions_are_no_losses() {
        let mut told = LaneReport::default();
        // Measured at 20 % loss, one message a second: docs/adaptive.md.
        let reading = NetworkReading {
            sent_segments: 816,
            retransmitted_segments: 236,
            duplicate_segments: 44,
            ..NetworkReading::default()
        };
        let (tried, lost) = told.network(&reading, 0.2, 66.0);
        assert!((0.18..0.25).contains(&(lost / tried)), "{}", lost / tried);
    }

    #[test]
    fn a_change_is_noticed_within_seconds_and_an_accident_is_not() {
        let mut path = Path::default();
        let turn = |path: &mut Path, second: u64, lost: f64| {
            path.fade(1.0, Time::from_secs(second));
            path.losses(4.0, lost, Time::from_secs(second));
        };
        for second in 0..200 {
            turn(&mut path, second, if second % 25 == 0 { 1.0 } else { 0.0 });
        }
        assert_eq!(path.changes, 0);
        assert!(path.loss().value < 0.03);
        for second in 200..215 {
            turn(&mut path, second, 1.0);
        }
        assert_eq!(path.changes, 1);
        assert!(
            (0.15..0.3).contains(&path.loss().value),
            "{:?}",
            path.loss()
        );
    }

    #[test]
    fn topics_are_counted_about() {
        let mut traffic = Traffic::default();
        for topic in 0..100u32 {
            for _ in 0..3 {
                let topic_hash = topic.wrapping_mul(0x9E37_79B9) >> 8;
                traffic.sent(&Sent {
                    topic_hash,
                    payload_bytes: 60,
                    ..Sent::default()
                });
            }
        }
        traffic.turn(1.0);
        assert!(
            (70.0..140.0).contains(&traffic.topics()),
            "{}",
            traffic.topics()
        );
        assert_eq!(traffic.payload_bytes(), Some(60.0));
    }
}
