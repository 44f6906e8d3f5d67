//! The choice between lanes: constraints first, then utility, and reluctance.

use thalweg_model::{Reliability, Span, Time};

use super::conditions::{Fading, Known, LaneReport, Path, Traffic, millis};
use super::correction::Correction;
use super::model::{Expectation, Situation, expect};
use super::{
    Calibration, Candidate, Constraints, Decision, Demand, Explanation, NetworkReading, Objective,
    Sent,
};
use crate::transport::{Capabilities, Counters, Medium, Settled};

/// Chooses the lane that publishes, from what the engine reports of every lane.
#[derive(Debug)]
pub struct Chooser {
    pub(super) objective: Objective,
    pub(super) constraints: Constraints,
    pub(super) calibration: Calibration,
    pub(super) lanes: Vec<Lane>,
    /// Of all lanes to one host, as they share its path.
    hosts: Vec<(String, Path)>,
    pub(super) traffic: Traffic,
    demand: Demand,
    /// Index of the lane that publishes.
    pub(super) current: Option<usize>,
    pub(super) switched_at: Option<Time>,
    /// Switches that may still be made before the network changes again.
    pub(super) switches_left: f64,
    changes_seen: u32,
    changed_at: Option<Time>,
    /// The lane that was left since then.
    left: Option<usize>,
    decide_at: Time,
    turn_at: Time,
    turned: Time,
    budget_bytes: f64,
    random: u64,
    pub(super) why: Why,
}

/// Reason for the last decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Why {
    /// Nothing was decided yet.
    #[default]
    Undecided,
    /// It is the best.
    Best,
    /// Another is better, but not by enough.
    Hysteresis,
    /// Another is better, but the last switch is too recent.
    Dwell,
    /// Another is better, but there were two switches since the network changed.
    Budget,
    /// The better one went down lately and has to prove itself.
    Quarantine,
    /// The one before went down.
    Down,
    /// The one before cannot do what is asked for, or broke a constraint.
    Unfit,
    /// No other can be used.
    Only,
}

/// A candidate lane and the measurements of it.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) candidate: Candidate,
    pub(super) state: State,
    host: usize,
    pub(super) path: Path,
    told: LaneReport,
    /// Its transport measures each exchange.
    tells_round_trips: bool,
    /// Measured and predicted, fading: their ratio corrects the model.
    settle: Correction,
    bytes: Correction,
    predicted: Expectation,
    /// Measured bytes of a message above its payload.
    overhead: Fading,
    overhead_of: Fading,
    pub(super) goodput: f64,
    downs: Fading,
    trusted_at: Time,
    try_at: Time,
    asked: Option<Time>,
    tie: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Not connected, but nothing speaks against it.
    Idle,
    Up,
    Down,
}

/// A lane as it is judged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Judged {
    pub(super) index: usize,
    pub(super) expectation: Expectation,
    pub(super) energy_uj: f64,
    /// Value of the objective; the smallest wins.
    pub(super) cost: f64,
    /// 0 if all constraints hold; by how much they are exceeded in sum.
    pub(super) excess: f64,
}

impl Chooser {
    /// A chooser between `candidates`, of which there is at least one; without any it always decides for lane 0.
    pub fn new(
        objective: Objective,
        constraints: Constraints,
        calibration: Calibration,
        candidates: &[Candidate],
        seed: u64,
        now: Time,
    ) -> Self {
        let mut random = seed;
        let mut hosts: Vec<(String, Path)> = Vec::new();
        let mut lanes = Vec::with_capacity(candidates.len());
        for candidate in candidates {
            let host = hosts
                .iter()
                .position(|(name, _)| *name == candidate.host)
                .unwrap_or_else(|| {
                    hosts.push((candidate.host.clone(), Path::default()));
                    hosts.len() - 1
                });
            lanes.push(Lane::new(candidate.clone(), host, throw(&mut random)));
        }
        Chooser {
            objective,
            constraints,
            calibration,
            lanes,
            hosts,
            traffic: Traffic::default(),
            demand: Demand::default(),
            current: None,
            switched_at: None,
            switches_left: SWITCHES_PER_CHANGE,
            changes_seen: 0,
            changed_at: None,
            left: None,
            decide_at: now,
            turn_at: now + TURN,
            turned: now,
            budget_bytes: 0.0,
            random,
            why: Why::Undecided,
        }
    }

    /// A message was given to a lane's transport.
    pub fn sent(&mut self, lane: usize, sent: &Sent, _now: Time) {
        self.traffic.sent(sent);
        if let Some(it) = self.lane(lane) {
            it.told.sent += 1;
            it.told.wire_bytes += sent.wire_bytes as u64;
            it.told.payload_bytes += if sent.wire_bytes > 0 {
                sent.payload_bytes as u64
            } else {
                0
            };
        }
    }

    /// It was settled, `latency` after it was given to the transport.
    pub fn settled(&mut self, lane: usize, latency: Span, outcome: &Settled, now: Time) {
        let Some(it) = self.lane(lane) else { return };
        let sent = Time::from_nanos(now.nanos().saturating_sub(latency.nanos()));
        let is_counted = it.told.count_wait(sent, now);
        // One that was given up tells nothing of a round trip; that it was lost, the transport has counted.
        if *outcome == Settled::Unknown {
            return;
        }
        if !is_counted {
            it.told.settled += 1;
            it.told.settled_ms += millis(latency);
        }
        // Of datagrams it holds repetitions, blocks and waits for the message before; the transport tells of single exchanges.
        if it.tells_round_trips || !it.told.may_sample() {
            return;
        }
        // Of a stream it holds what other messages lost; the system measures single packets.
        let ms = millis(latency);
        it.path
            .round_trip(it.told.smoothed_ms().map_or(ms, |most| ms.min(most)), now);
    }

    /// When the messages that a lane's transport has and that are not settled were given to it: about every second. Those
    /// that take ten seconds or longer count from then on, so that a lane on which nothing arrives looks as slow as it is.
    pub fn unsettled(&mut self, lane: usize, sent: impl Iterator<Item = Time>, now: Time) {
        if let Some(it) = self.lane(lane) {
            it.told.unsettled(sent, now);
        }
    }

    /// [`crate::Events::received`]: the lane also carries messages to us, with so many bytes of payload.
    pub fn received(&mut self, lane: usize, payload_bytes: usize, _now: Time) {
        self.traffic.received(payload_bytes);
        if let Some(it) = self.lane(lane) {
            it.told.received += 1;
        }
    }

    /// [`crate::Events::round_trip`].
    pub fn round_trip(&mut self, lane: usize, span: Span, now: Time) {
        if let Some(it) = self.lane(lane) {
            it.tells_round_trips |= it.candidate.medium == Medium::Datagrams;
            if it.told.may_sample() {
                it.path.round_trip(millis(span), now);
            }
        }
    }

    /// [`Transport::counters`](crate::Transport::counters), now and then: about every second, and before a decision.
    pub fn counters(&mut self, lane: usize, counters: Counters, now: Time) {
        let Some((it, host)) = self.lane_and_host(lane) else {
            return;
        };
        let (tried, lost) = it.told.counters(counters);
        it.path.losses(tried, lost, now);
        host.losses(tried, lost, now);
    }

    /// Takes in the readings of system and driver for a lane's connection; called about every second.
    pub fn network(&mut self, lane: usize, reading: &NetworkReading, now: Time) {
        let header = match self
            .lane(lane)
            .map(|it| it.candidate.medium == Medium::Datagrams)
        {
            Some(true) => self.calibration.datagrams.header_bytes,
            _ => self.calibration.tcp.header_bytes,
        };
        let Some((it, host)) = self.lane_and_host(lane) else {
            return;
        };
        let (tried, lost) = it.told.network(reading, it.path.loss().value, header);
        it.path.losses(tried, lost, now);
        host.losses(tried, lost, now);
        // The system's shortest is over minutes; it helps where nothing else tells, as for at-most-once messages.
        if reading.round_trip_min > Span::ZERO
            && it
                .path
                .round_trip_ms(now)
                .is_none_or(|known| known.samples < 4.0)
        {
            it.path.round_trip(millis(reading.round_trip_min), now);
        }
    }

    /// A lane's peer let us in; what it can do now.
    pub fn up(&mut self, lane: usize, capabilities: &Capabilities, now: Time) {
        let current = self.current;
        let Some(index) = self.index(lane) else {
            return;
        };
        let Some(it) = self.lanes.get_mut(index) else {
            return;
        };
        it.state = State::Up;
        it.candidate.capabilities = *capabilities;
        it.told.reconnected();
        let is_current_up = current
            .and_then(|at| self.lanes.get(at))
            .is_some_and(|it| it.state == State::Up);
        if !is_current_up {
            self.decide_at = now;
        }
    }

    /// A lane's connection was lost, or could not be made: it is not chosen until it is up again.
    pub fn down(&mut self, lane: usize, now: Time) {
        let jitter = 0.75 + 0.5 * (throw(&mut self.random) >> 11) as f64 / (1u64 << 53) as f64;
        let Some(index) = self.index(lane) else {
            return;
        };
        let Some(it) = self.lanes.get_mut(index) else {
            return;
        };
        let was_up = it.state == State::Up;
        it.state = State::Down;
        it.downs.add(1.0);
        // The more often it went down lately, the longer it has to be up before a working lane is left for it.
        let wait = QUARANTINE_SECONDS * 2f64.powf((it.downs.get() - 1.0).clamp(0.0, 5.0));
        it.trusted_at = now + seconds(wait);
        it.try_at = now + seconds(wait * jitter);
        if self.current == Some(index) || self.current.is_none() {
            self.decide_at = now;
            if was_up {
                self.changed();
            }
        }
    }

    /// We closed a lane's connection because nothing needs it. It can be chosen, and is then connected again.
    pub fn idle(&mut self, lane: usize, _now: Time) {
        if let Some(it) = self.lane(lane) {
            it.state = State::Idle;
        }
    }

    /// Sets the requirements of the user's messages and subscriptions.
    pub fn demand(&mut self, demand: &Demand) {
        if self.demand != *demand {
            self.demand = *demand;
            let fits = self
                .current
                .and_then(|at| self.lanes.get(at))
                .is_none_or(|it| self.misses(it).is_none());
            if !fits {
                self.decide_at = self.turned;
            }
        }
    }

    /// When [`Chooser::decide`] has something new to say at the earliest: every 10 s, and at once after the chosen lane
    /// went down or up.
    pub fn poll_timeout(&self) -> Time {
        self.decide_at
    }

    /// Returns the lane that publishes. May be called at any time; the answer changes only when
    /// [`Chooser::poll_timeout`] has come.
    pub fn decide(&mut self, now: Time) -> Decision {
        self.turn(now);
        if now < self.decide_at {
            return Decision {
                lane: self.number(),
                switched: false,
            };
        }
        self.decide_at = now + DECIDE;
        let judged = self.judge(now, &self.situations(now));
        let best = self.best(&judged, |_| true);
        let Some(current) = self.current else {
            self.current = best.map(|it| it.index);
            self.why = Why::Best;
            return Decision {
                lane: self.number(),
                switched: false,
            };
        };
        let (next, why) = self.weigh(current, &judged, now);
        self.why = why;
        let switched = next != current;
        if switched {
            self.left = (why == Why::Best).then_some(current);
            self.current = Some(next);
            self.switched_at = Some(now);
            if !matches!(why, Why::Down) {
                self.switches_left -= 1.0;
            }
        }
        Decision {
            lane: self.number(),
            switched,
        }
    }

    /// The lane that is worth a question now: nothing else measures, and the budget allows. A lane that is up is asked by
    /// [`Transport::probe`](crate::Transport::probe); one that is down is connected. Tell what it cost by
    /// [`Chooser::probed`].
    pub fn wants_probe(&mut self, now: Time) -> Option<usize> {
        self.turn(now);
        if self.budget_bytes < PROBE_BYTES {
            return None;
        }
        let is_stale =
            |path: &Path, after: Span| path.seen().is_none_or(|at| now.since(at) >= after);
        let mut found = None;
        for (index, it) in self.lanes.iter().enumerate() {
            let is_current = self.current == Some(index);
            let is_idle_path = self
                .hosts
                .get(it.host)
                .is_none_or(|(_, path)| is_stale(path, PROBE_AFTER));
            let was_asked = it.asked.is_some_and(|at| now.since(at) < PROBE_AFTER);
            let wanted = match it.state {
                State::Up => {
                    !was_asked
                        && is_idle_path
                        && (is_current || is_stale(&it.path, PROBE_AFTER_OTHERS))
                }
                // While nothing works the engine tries all lanes by itself.
                State::Down => now >= it.try_at && !is_current && self.is_up(self.current),
                State::Idle => false,
            };
            if wanted && found.is_none_or(|_| is_current) {
                found = Some(index);
            }
        }
        let it = self.lanes.get_mut(found?)?;
        if it.state == State::Down {
            it.try_at = now + TRY_AGAIN;
        }
        it.asked = Some(now);
        self.budget_bytes -= PROBE_BYTES;
        Some(it.candidate.lane)
    }

    /// A probe has cost so many bytes, 0 if it could not be sent.
    pub fn probed(&mut self, lane: usize, bytes: usize, _now: Time) {
        let header = self.calibration.tcp.header_bytes;
        let frames = if bytes == 0 {
            0.0
        } else {
            2.0 * header + 2.0 * bytes as f64
        };
        self.budget_bytes += PROBE_BYTES - frames;
        if let Some(it) = self.lane(lane) {
            // Frames of a probe are none of messages.
            it.told.frame_bytes -= frames;
        }
    }

    /// Explains the current choice and the measurements behind it.
    pub fn explain(&self, now: Time) -> Explanation {
        super::explain::explain(self, now)
    }

    /// Returns the lane to use and the reason for it.
    fn weigh(&self, current: usize, judged: &[Judged], now: Time) -> (usize, Why) {
        let is_up = self.is_up(Some(current));
        let mine = judged.iter().find(|it| it.index == current);
        let is_trusted = |it: &Judged| {
            let Some(lane) = self.lanes.get(it.index) else {
                return false;
            };
            it.index == current || !is_up || lane.trusted_at <= now
        };
        let Some(best) = self.best(judged, is_trusted) else {
            return (current, Why::Only);
        };
        let Some(mine) = mine else {
            // It is down, or cannot do what is asked for.
            return (best.index, if is_up { Why::Unfit } else { Why::Down });
        };
        if best.index == current {
            let first = self.best(judged, |_| true);
            return (
                current,
                if first.is_some_and(|it| it.index != current) {
                    Why::Quarantine
                } else {
                    Why::Best
                },
            );
        }
        if !is_up && self.is_up(Some(best.index)) {
            return (best.index, Why::Down);
        }
        // A broken constraint is a reason to change only if the best lane meets it, or breaks it clearly less.
        let breaks = mine.excess > 0.0 && best.excess < mine.excess / (1.0 + HYSTERESIS) - 1e-9;
        // Back to where we were in this same network: what was measured there spoke against it.
        let margin = match self.left == Some(best.index) {
            true => MARGIN_BACK,
            false => HYSTERESIS,
        };
        let is_better = best.excess <= mine.excess && best.cost * (1.0 + margin) <= mine.cost;
        if !breaks && !is_better {
            return (current, Why::Hysteresis);
        }
        let escapes = mine.excess > 0.0 && best.excess <= 0.0;
        if !escapes && self.switched_at.is_some_and(|at| now.since(at) < DWELL) {
            return (current, Why::Dwell);
        }
        if self.switches_left < 1.0 {
            return (current, Why::Budget);
        }
        (best.index, if breaks { Why::Unfit } else { Why::Best })
    }

    /// All lanes that may be used, as judged in a situation of each.
    pub(super) fn judge(&self, now: Time, situations: &[Situation]) -> Vec<Judged> {
        let judge = |index: usize, it: &Lane, situation: &Situation| {
            let mut expectation = expect(&self.calibration, &it.candidate, situation);
            let (latency, bytes) = self.corrections(it);
            expectation.correct(latency, bytes);
            let energy_uj = self
                .calibration
                .energy()
                .map_or(0.0, |profile| expectation.energy_uj(profile));
            let cost = self.cost(&expectation, energy_uj);
            Judged {
                index,
                expectation,
                energy_uj,
                cost,
                excess: self.excess(&expectation),
            }
        };
        let _ = now;
        let all = || self.lanes.iter().enumerate().zip(situations);
        let usable = |it: &Lane| it.state != State::Down && self.is_allowed(it);
        let fit: Vec<_> = all()
            .filter(|((_, it), _)| usable(it) && self.misses(it).is_none())
            .map(|((index, it), situation)| judge(index, it, situation))
            .collect();
        if !fit.is_empty() {
            return fit;
        }
        // If no lane meets the requirements, or all are down, the best of the existing ones is taken.
        let usable: Vec<_> = all()
            .filter(|((_, it), _)| usable(it))
            .map(|((index, it), at)| judge(index, it, at))
            .collect();
        if !usable.is_empty() {
            return usable;
        }
        all()
            .map(|((index, it), situation)| judge(index, it, situation))
            .collect()
    }

    /// The expected network situation of each lane.
    pub(super) fn situations(&self, now: Time) -> Vec<Situation> {
        let situation = |it: &Lane| Situation {
            payload_bytes: self.traffic.payload_bytes().unwrap_or(PRIOR_PAYLOAD_BYTES),
            extra_bytes: self.extra_bytes(it),
            shares: self
                .traffic
                .shares()
                .unwrap_or_else(|| shares_of(self.demand.reliability)),
            loss: self.loss(it).value.clamp(0.0, LOSS_MAX),
            round_trip_ms: self.round_trip_ms(it, now).value,
            rate_per_s: self.traffic.rate_per_s(),
            topics: self.traffic.topics(),
            stamps: self.has_stamps(it),
            received_per_s: self.traffic.received_per_s(),
        };
        self.lanes.iter().map(situation).collect()
    }

    /// A lane's loss: its own measurements, and with less weight those of other lanes to the same host.
    pub(super) fn loss(&self, lane: &Lane) -> Known {
        let own = lane.path.loss();
        let Some((_, path)) = self.hosts.get(lane.host) else {
            return own;
        };
        let all = path.loss();
        // Of what all have seen, the part that is not this lane's. Its own memory may be that of another time.
        let others = (all.samples - own.samples).max(0.0) * OTHERS_WEIGHT;
        let samples = own.samples + others;
        if samples < 1.0 {
            return all;
        }
        Known {
            value: (own.value * own.samples + all.value * others) / samples,
            samples,
        }
    }

    /// A lane's round trip, or that of another lane to the same host.
    pub(super) fn round_trip_ms(&self, lane: &Lane, now: Time) -> Known {
        let of = |it: &Lane| it.path.round_trip_ms(now);
        let same = self.lanes.iter().filter(|it| it.host == lane.host);
        // A few of its own may all have been unlucky ones.
        let own = of(lane).filter(|known| known.samples >= ROUND_TRIPS_FEW);
        let known = own.or_else(|| {
            same.filter_map(of)
                .max_by(|a, b| a.samples.total_cmp(&b.samples))
        });
        known.unwrap_or(Known {
            value: PRIOR_ROUND_TRIP_MS,
            samples: 0.0,
        })
    }

    /// Factors by which live measurement corrects a lane's latency and bytes. Where the model was wrong about a lane, half of
    /// that (of the logarithm) is taken to be the network's fault, and holds for lanes to the same host that were not
    /// measured: otherwise each surprise would make the unknown look better.
    pub(super) fn corrections(&self, lane: &Lane) -> (f64, f64) {
        let of = |which: fn(&Lane) -> &Correction| {
            let own = which(lane);
            let others = self
                .lanes
                .iter()
                .filter(|it| it.host == lane.host && !std::ptr::eq(*it, lane))
                .map(which);
            let known = others
                .max_by(|a, b| a.weight().total_cmp(&b.weight()))
                .map_or(1.0, Correction::ratio);
            own.ratio() * known.powf(0.5 * (1.0 - own.weight()))
        };
        (of(|it| &it.settle), of(|it| &it.bytes))
    }

    fn best(&self, judged: &[Judged], may: impl Fn(&Judged) -> bool) -> Option<Judged> {
        let tie = |it: &Judged| self.lanes.get(it.index).map_or(0, |lane| lane.tie);
        let order = |a: &&Judged, b: &&Judged| {
            a.excess
                .total_cmp(&b.excess)
                .then(a.cost.total_cmp(&b.cost))
                .then(tie(a).cmp(&tie(b)))
        };
        judged.iter().filter(|it| may(it)).min_by(order).copied()
    }

    fn cost(&self, it: &Expectation, energy_uj: f64) -> f64 {
        // A millisecond more or less decides nothing: without this a local network's noise would.
        let latency = it.latency_mean_ms + LATENCY_GRAIN_MS;
        match self.objective {
            Objective::Latency => latency,
            Objective::Bytes => it.bytes(),
            Objective::Energy => energy_uj,
            Objective::Weights {
                latency: of_latency,
                bytes,
                energy,
            } => {
                let weigh = |weight: f64| {
                    if weight > 0.0 && weight.is_finite() {
                        weight
                    } else {
                        0.0
                    }
                };
                let (a, b, c) = (weigh(of_latency), weigh(bytes), weigh(energy));
                let sum = (a + b + c).max(1e-9);
                let logarithms =
                    a * latency.ln() + b * it.bytes().max(1.0).ln() + c * energy_uj.max(1e-3).ln();
                (logarithms / sum).exp()
            }
        }
    }

    /// By how much constraints are exceeded, relatively.
    fn excess(&self, it: &Expectation) -> f64 {
        let over = |value: f64, limit: f64| {
            if value > limit {
                value / limit.max(1e-6) - 1.0
            } else {
                0.0
            }
        };
        self.constraints
            .latency_p99_max
            .map_or(0.0, |limit| over(it.latency_p99_ms, millis(limit)))
            + self
                .constraints
                .bytes_per_message_max
                .map_or(0.0, |limit| over(it.bytes(), f64::from(limit)))
            + self
                .constraints
                .delivered_percent_min
                .map_or(0.0, |limit| over(f64::from(limit), it.delivered * 100.0))
    }

    fn is_allowed(&self, it: &Lane) -> bool {
        let protocols = &self.constraints.protocols;
        protocols.is_empty() || protocols.iter().any(|name| name == it.candidate.protocol)
    }

    /// Returns a required capability that the lane does not have.
    pub(super) fn misses(&self, it: &Lane) -> Option<&'static str> {
        let (can, wish) = (&it.candidate.capabilities, &self.demand);
        // Before it was up a lane does not know about stamps: it gets the benefit of the doubt.
        let is_sure = can.reliability_max >= wish.reliability
            || can.reliability_max >= Reliability::AtLeastOnce
                && (can.stamps || it.state != State::Up);
        let is_large = wish.payload_bytes_max > can.payload_bytes_max;
        let misses = [
            (!is_sure, "reliability"),
            (wish.wildcards && !can.wildcards, "wildcards"),
            (wish.properties && !can.properties, "properties"),
            (wish.priority && !can.priority, "priorities"),
            (wish.requests && !can.requests, "requests"),
            (wish.last_values && !can.last_values, "last values"),
            (
                wish.keeps_all && !can.keeps_all,
                "every message rather than the newest",
            ),
            (wish.settles && !can.settles, "settling by hand"),
            (is_large, "payloads of this size"),
        ];
        misses
            .into_iter()
            .find(|(is_missing, _)| *is_missing)
            .map(|(_, what)| what)
    }

    /// Bytes by which the user's topics and options exceed the calibration's, as measured on this lane or else on
    /// others.
    fn extra_bytes(&self, lane: &Lane) -> f64 {
        let of = |it: &Lane| {
            let is_stream = it.candidate.medium != Medium::Datagrams;
            let protocol = self
                .calibration
                .protocol(it.candidate.protocol, is_stream)?;
            let messages = it.overhead_of.get();
            let stamp = if self.has_stamps(it) {
                protocol.stamp_bytes
            } else {
                0.0
            };
            (messages >= 1.0).then(|| {
                (
                    it.overhead.get() - messages * (protocol.overhead_bytes + stamp),
                    messages,
                )
            })
        };
        let (sum, messages) = of(lane).unwrap_or_else(|| {
            let others = self.lanes.iter().filter_map(of);
            others.fold((0.0, 0.0), |(sum, count), (more, messages)| {
                (sum + more, count + messages)
            })
        });
        if messages > 0.0 {
            (sum / messages).clamp(-EXTRA_BYTES_LESS, EXTRA_BYTES_MAX)
        } else {
            0.0
        }
    }

    /// Stamps are sent where there is more than one lane and the peer knows them.
    fn has_stamps(&self, lane: &Lane) -> bool {
        lane.candidate.capabilities.stamps && self.lanes.len() > 1
    }

    /// Takes in the counts since the last turn.
    fn turn(&mut self, now: Time) {
        if now < self.turn_at {
            return;
        }
        let seconds = now.since(self.turned).nanos() as f64 / 1e9;
        self.turned = now;
        self.turn_at = now + TURN;
        self.traffic.turn(seconds);
        for (_, path) in &mut self.hosts {
            path.fade(seconds, now);
        }
        self.budget_bytes =
            (self.budget_bytes + seconds * PROBE_BYTES_PER_MINUTE / 60.0).min(BUDGET_BYTES_MAX);
        self.switches_left =
            (self.switches_left + seconds / SWITCH_AGAIN_SECONDS).min(SWITCHES_PER_CHANGE);
        self.forget_what_is_over();
        let situations = self.situations(now);
        for (it, situation) in self.lanes.iter_mut().zip(&situations) {
            it.path.fade(seconds, now);
            if it.told.sent > 0 || it.told.settled > 0 || it.predicted == Expectation::default() {
                it.predicted = expect(&self.calibration, &it.candidate, situation);
            }
            self.budget_bytes += it.learn(seconds) * PROBE_SHARE;
        }
        let changes = self
            .hosts
            .iter()
            .fold(0u32, |sum, (_, path)| sum.wrapping_add(path.changes));
        if changes != self.changes_seen {
            self.changes_seen = changes;
            // One change may be noticed several times, by loss and by round trip.
            if self
                .changed_at
                .is_none_or(|at| now.since(at) >= CHANGE_LASTS)
            {
                self.changed_at = Some(now);
                self.changed();
            }
            for it in &mut self.lanes {
                // The old deviation may not hold for the new network, so it counts less. Its variance stays: a lane
                // whose latencies deviated before is likely to do so again.
                it.settle.changed(1.0);
                it.bytes.changed(3.0);
            }
            if self.is_broken(now) {
                self.decide_at = now;
            }
        }
    }

    /// Lanes to one host share its network: when one finds it changed, what the others counted before is over. A lane that
    /// was not in use would look as good as it was, and be chosen for that.
    fn forget_what_is_over(&mut self) {
        for host in 0..self.hosts.len() {
            let of_lanes = self
                .lanes
                .iter()
                .filter(|it| it.host == host)
                .filter_map(|it| it.path.changed_at);
            let of_all = self.hosts.get(host).and_then(|(_, path)| path.changed_at);
            let Some(changed_at) = of_lanes.chain(of_all).max() else {
                continue;
            };
            for it in self.lanes.iter_mut().filter(|it| it.host == host) {
                if it.path.seen().is_some_and(|seen| seen < changed_at)
                    && it.path.loss().samples > 0.0
                {
                    it.path.forget_losses();
                }
            }
        }
    }

    /// The network is another one: switches may be made again.
    fn changed(&mut self) {
        self.switches_left = SWITCHES_PER_CHANGE;
        self.left = None;
    }

    /// The chosen lane breaks a constraint.
    fn is_broken(&self, now: Time) -> bool {
        let judged = self.judge(now, &self.situations(now));
        judged
            .iter()
            .any(|it| self.current == Some(it.index) && it.excess > 0.0)
    }

    fn lane(&mut self, lane: usize) -> Option<&mut Lane> {
        self.lanes.iter_mut().find(|it| it.candidate.lane == lane)
    }

    fn lane_and_host(&mut self, lane: usize) -> Option<(&mut Lane, &mut Path)> {
        let it = self.lanes.iter_mut().find(|it| it.candidate.lane == lane)?;
        let (_, path) = self.hosts.get_mut(it.host)?;
        Some((it, path))
    }

    fn index(&self, lane: usize) -> Option<usize> {
        self.lanes.iter().position(|it| it.candidate.lane == lane)
    }

    fn is_up(&self, index: Option<usize>) -> bool {
        index
            .and_then(|index| self.lanes.get(index))
            .is_some_and(|it| it.state == State::Up)
    }

    /// The engine's number of the chosen lane.
    pub(super) fn number(&self) -> usize {
        self.current
            .and_then(|index| self.lanes.get(index))
            .map_or(0, |it| it.candidate.lane)
    }
}

impl Lane {
    fn new(candidate: Candidate, host: usize, tie: u64) -> Self {
        Lane {
            candidate,
            state: State::Idle,
            host,
            path: Path::default(),
            told: LaneReport::default(),
            tells_round_trips: false,
            settle: Correction::default(),
            bytes: Correction::default(),
            predicted: Expectation::default(),
            overhead: Fading::default(),
            overhead_of: Fading::default(),
            goodput: 0.0,
            downs: Fading::default(),
            trusted_at: Time::ZERO,
            try_at: Time::ZERO,
            asked: None,
            tie,
        }
    }

    /// Compares the measurements since the last turn with the predictions. Returns the bytes that the lane carried.
    fn learn(&mut self, seconds: f64) -> f64 {
        let told = &self.told;
        self.downs.fade(seconds, DOWN_SECONDS);
        let memory = |samples: u64| match samples {
            0 => FORGET_SECONDS,
            _ => CORRECTION_SECONDS,
        };
        self.settle.pass(seconds, memory(told.settled));
        self.bytes.pass(seconds, memory(told.sent));
        if told.settled > 0 || told.settled_ms > 0.0 {
            let count = told.settled as f64;
            self.settle.add(
                told.settled_ms + count,
                (self.predicted.settle_mean_ms + 1.0) * count,
                count,
            );
        }
        // Frames of received deliveries cannot be separated from those of published messages.
        if told.sent > 0 && told.received == 0 && told.frame_bytes > 0.0 {
            let count = told.sent as f64;
            self.bytes
                .add(told.frame_bytes, self.predicted.bytes() * count, count);
        }
        if told.wire_bytes > 0 {
            self.overhead.fade(told.sent as f64, 50.0);
            self.overhead_of.fade(told.sent as f64, 50.0);
            self.overhead
                .add(told.wire_bytes as f64 - told.payload_bytes as f64);
            self.overhead_of.add(told.sent as f64);
        }
        let per_second = told.delivered_bytes / seconds.max(1e-3);
        self.goodput += (per_second - self.goodput) * (1.0 - (-seconds / 10.0).exp());
        let carried = told.frame_bytes.max(told.wire_bytes as f64);
        self.told.turned();
        carried
    }
}

fn shares_of(reliability: Reliability) -> [f64; 3] {
    match reliability {
        Reliability::AtMostOnce | Reliability::AtLeastOnce => [0.0, 1.0, 0.0],
        Reliability::ExactlyOnce => [0.0, 0.0, 1.0],
    }
}

fn seconds(seconds: f64) -> Span {
    Span::from_nanos((seconds * 1e9) as u64)
}

/// SplitMix64.
fn throw(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Every 10 s, hysteresis 15 %, dwell 30 s.
pub(super) const DECIDE: Span = Span::from_secs(10);
const HYSTERESIS: f64 = 0.15;
const MARGIN_BACK: f64 = 0.5;
const DWELL: Span = Span::from_secs(30);
const TURN: Span = Span::from_secs(1);
const SWITCHES_PER_CHANGE: f64 = 2.0;
const CHANGE_LASTS: Span = Span::from_secs(90);
/// Without any change one more switch may be made after so long.
const SWITCH_AGAIN_SECONDS: f64 = 600.0;
const QUARANTINE_SECONDS: f64 = 30.0;
const DOWN_SECONDS: f64 = 300.0;
const TRY_AGAIN: Span = Span::from_secs(60);
const PROBE_AFTER: Span = Span::from_secs(30);
const PROBE_AFTER_OTHERS: Span = Span::from_secs(120);
/// Assumed bytes of a probe until [`Chooser::probed`] reports one.
const PROBE_BYTES: f64 = 160.0;
const PROBE_BYTES_PER_MINUTE: f64 = 320.0;
const PROBE_SHARE: f64 = 0.001;
const BUDGET_BYTES_MAX: f64 = 2000.0;
const CORRECTION_SECONDS: f64 = 60.0;
const FORGET_SECONDS: f64 = 1800.0;
const OTHERS_WEIGHT: f64 = 0.5;
const ROUND_TRIPS_FEW: f64 = 8.0;
const LATENCY_GRAIN_MS: f64 = 1.0;
const LOSS_MAX: f64 = 0.6;
const PRIOR_PAYLOAD_BYTES: f64 = 100.0;
const PRIOR_ROUND_TRIP_MS: f64 = 20.0;
/// Shorter topics, or MQTT's aliases.
const EXTRA_BYTES_LESS: f64 = 40.0;
const EXTRA_BYTES_MAX: f64 = 10_000.0;
