//! The choice in words: the measurements, the chosen lane, the cost of the next best, the confidence, and the change of
//! conditions that would reverse it.

use std::fmt;
use std::fmt::Write;

use thalweg_model::Time;

use super::Objective;
use super::choice::{Chooser, DECIDE, Judged, State, Why};
use super::model::Situation;
use crate::transport::Medium;

/// The chooser's measurements, its choice and the reason. [`fmt::Display`] writes it as text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Explanation {
    /// The lane that publishes, by its number at the engine.
    pub lane: usize,
    /// Each lane's estimate, the best first.
    pub estimates: Vec<Estimate>,
    /// 0 to 1: how much the estimates of loss and round trip rest on.
    pub confidence: f64,
    /// The nearest change of one condition that would change the choice, in words; empty if none is near.
    pub crossover: String,
    /// All of it in words.
    pub words: String,
}

/// Expected cost of a message on a lane, for the publisher's leg.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Estimate {
    /// The lane, by its number at the engine.
    pub lane: usize,
    /// The lane's protocol, as `--via` names it.
    pub protocol: String,
    /// Whether the lane is connected now.
    pub is_up: bool,
    /// Why it cannot be chosen; empty if it can.
    pub obstacle: String,
    /// Mean time until the peer has it.
    pub latency_mean_ms: f64,
    /// 99 of 100 have arrived after so long.
    pub latency_p99_ms: f64,
    /// Ethernet-frame bytes, both directions.
    pub bytes_per_message: f64,
    /// Modelled, of the radio.
    pub energy_uj_per_message: f64,
    /// The part that arrives.
    pub delivered: f64,
    /// Packets lost, each way, 0 to 1.
    pub loss: f64,
    /// Round trip without losses.
    pub round_trip_ms: f64,
    /// Mean deviation of the round trips seen, repetitions included.
    pub round_trip_deviation_ms: f64,
    /// Packets that the estimate of the loss rests on.
    pub samples: f64,
    /// Bytes a second that the peer took of late; 0 where the system does not tell.
    pub goodput_bytes_per_s: f64,
    /// Factor of live measurement on the model's latency.
    pub latency_correction: f64,
    /// Factor of live measurement on the model's bytes.
    pub bytes_correction: f64,
    /// Measured cells of the calibration that the model was corrected by; 0 where it computes alone.
    pub measured_cells: usize,
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

pub(super) fn explain(chooser: &Chooser, now: Time) -> Explanation {
    let situations = chooser.situations(now);
    let mut judged = chooser.judge(now, &situations);
    judged.sort_by(|a, b| {
        a.excess
            .total_cmp(&b.excess)
            .then(a.cost.total_cmp(&b.cost))
    });
    let mut explanation = Explanation {
        lane: chooser.number(),
        ..Explanation::default()
    };
    for it in &judged {
        explanation.estimates.extend(estimate(chooser, it, now));
    }
    for (index, lane) in chooser.lanes.iter().enumerate() {
        if judged.iter().all(|it| it.index != index) {
            let (candidate, obstacle) = (&lane.candidate, obstacle(chooser, index));
            let protocol = candidate.protocol.to_owned();
            explanation.estimates.push(Estimate {
                lane: candidate.lane,
                protocol,
                obstacle,
                ..Estimate::default()
            });
        }
    }
    let chosen = chooser.current.and_then(|index| chooser.lanes.get(index));
    let samples = chosen.map_or(0.0, |lane| chooser.loss(lane).samples);
    let heard = chosen
        .and_then(|lane| lane.path.seen())
        .map_or(1e9, |at| now.since(at).nanos() as f64 / 1e9);
    explanation.confidence = samples / (samples + 30.0) * (-heard / 300.0).exp();
    explanation.crossover = crossover(chooser, &situations, now);
    explanation.words = words(chooser, &explanation, &judged, &situations, now).unwrap_or_default();
    explanation
}

fn words(
    chooser: &Chooser,
    it: &Explanation,
    judged: &[Judged],
    situations: &[Situation],
    now: Time,
) -> Result<String, fmt::Error> {
    let mut out = String::new();
    let index = chooser.current.unwrap_or(0);
    let (Some(lane), Some(at)) = (chooser.lanes.get(index), situations.get(index)) else {
        return Ok("There is no lane to choose from.".to_owned());
    };
    let of = |state| {
        if state == State::Up {
            ""
        } else {
            ", which is not connected"
        }
    };
    write!(
        out,
        "Publishing over {}{}",
        name(chooser, index),
        of(lane.state)
    )?;
    writeln!(out, ", wanted: {}.", objective(chooser.objective))?;
    write!(out, "Known: ")?;
    if it.confidence < 0.05 {
        write!(out, "next to nothing of the network; assumed")?;
    }
    write!(
        out,
        " loss {:.1} % (from {:.0} packets), ",
        at.loss * 100.0,
        chooser.loss(lane).samples
    )?;
    write!(out, "round trip {:.1} ms", at.round_trip_ms)?;
    match lane.path.seen() {
        Some(seen) => write!(out, ", last heard {} s ago; ", now.since(seen).secs())?,
        None => write!(out, ", nothing heard yet; ")?,
    }
    writeln!(
        out,
        "{:.0} B a message, {:.2} messages a second, about {:.0} topics.",
        at.payload_bytes, at.rate_per_s, at.topics
    )?;
    for estimate in &it.estimates {
        if !estimate.obstacle.is_empty() {
            writeln!(
                out,
                "- {} (lane {}): not possible: {}.",
                estimate.protocol, estimate.lane, estimate.obstacle
            )?;
            continue;
        }
        write!(
            out,
            "- {} (lane {}): {:.0} ms on average, 99 % within {:.0} ms; {:.0} B; {:.0} uJ (modelled)",
            estimate.protocol,
            estimate.lane,
            estimate.latency_mean_ms,
            estimate.latency_p99_ms,
            estimate.bytes_per_message,
            estimate.energy_uj_per_message
        )?;
        match estimate.measured_cells {
            0 => {}
            1 => write!(out, "; by 1 measured cell")?,
            cells => write!(out, "; by {cells} measured cells")?,
        }
        if estimate.delivered < 0.995 {
            write!(out, "; {:.0} % arrive", estimate.delivered * 100.0)?;
        }
        if (estimate.latency_correction - 1.0).abs() > 0.1
            || (estimate.bytes_correction - 1.0).abs() > 0.05
        {
            let (latency, bytes) = (estimate.latency_correction, estimate.bytes_correction);
            write!(
                out,
                " (measured here: {latency:.2} times the model's latency, {bytes:.2} times its bytes)"
            )?;
        }
        writeln!(out, ".")?;
    }
    if it
        .estimates
        .iter()
        .any(|estimate| estimate.measured_cells > 0)
    {
        writeln!(
            out,
            "Measured cells are of: {}.",
            chooser.calibration.source
        )?;
    }
    let mine = judged.iter().find(|it| it.index == index);
    let next = judged.iter().find(|it| it.index != index);
    if let (Some(mine), Some(next)) = (mine, next) {
        let percent = (next.cost / mine.cost.max(1e-9) - 1.0) * 100.0;
        let more = if percent >= 0.0 { "more" } else { "less" };
        writeln!(
            out,
            "The next, {}, would cost {:.0} % {more}.",
            name(chooser, next.index),
            percent.abs()
        )?;
        if mine.excess > 0.0 {
            writeln!(
                out,
                "No lane that can be used meets all constraints; this one comes nearest."
            )?;
        }
    }
    writeln!(out, "{}", reason(chooser.why))?;
    writeln!(out, "Confidence {:.0} %.", it.confidence * 100.0)?;
    if it.crossover.is_empty() {
        write!(
            out,
            "No change of loss up to 40 %, of size or of round trip alone would change this."
        )?;
    } else {
        write!(out, "{}", it.crossover)?;
    }
    Ok(out)
}

fn reason(why: Why) -> String {
    let seconds = DECIDE.secs();
    match why {
        Why::Undecided => "Nothing was decided yet.".to_owned(),
        Why::Best => format!("It is the best; decided every {seconds} s."),
        Why::Hysteresis => {
            "Another would be better, but by less than 15 %: not worth a switch.".to_owned()
        }
        Why::Dwell => {
            "Another would be better, but the last switch is less than 30 s ago.".to_owned()
        }
        Why::Budget => {
            "Another would be better, but there were two switches since the network changed."
                .to_owned()
        }
        Why::Quarantine => {
            "Another would be better, but it failed lately and has to stay up first.".to_owned()
        }
        Why::Down => "The one before was lost.".to_owned(),
        Why::Unfit => {
            "The one before could not do what is asked for, or broke a constraint.".to_owned()
        }
        Why::Only => "No other can be used.".to_owned(),
    }
}

fn estimate(chooser: &Chooser, judged: &Judged, now: Time) -> Option<Estimate> {
    let lane = chooser.lanes.get(judged.index)?;
    let (loss, round_trip) = (chooser.loss(lane), chooser.round_trip_ms(lane, now));
    let (latency_correction, bytes_correction) = chooser.corrections(lane);
    Some(Estimate {
        lane: lane.candidate.lane,
        protocol: lane.candidate.protocol.to_owned(),
        is_up: lane.state == State::Up,
        obstacle: String::new(),
        latency_mean_ms: judged.expectation.latency_mean_ms,
        latency_p99_ms: judged.expectation.latency_p99_ms,
        bytes_per_message: judged.expectation.bytes(),
        energy_uj_per_message: judged.energy_uj,
        delivered: judged.expectation.delivered,
        loss: loss.value,
        round_trip_ms: round_trip.value,
        round_trip_deviation_ms: lane.path.deviation_ms(),
        samples: loss.samples,
        goodput_bytes_per_s: lane.goodput,
        latency_correction,
        bytes_correction,
        measured_cells: judged.expectation.cells,
    })
}

fn obstacle(chooser: &Chooser, index: usize) -> String {
    let Some(lane) = chooser.lanes.get(index) else {
        return String::new();
    };
    if lane.state == State::Down {
        return "it is down".to_owned();
    }
    match chooser.misses(lane) {
        Some(what) => format!("it lacks {what}"),
        None => "the constraints allow other protocols only".to_owned(),
    }
}

/// Finds the smallest change of one condition that reverses the choice. Each condition is moved step by step.
fn crossover(chooser: &Chooser, situations: &[Situation], now: Time) -> String {
    let Some(current) = chooser.current else {
        return String::new();
    };
    let Some(at) = situations.get(current) else {
        return String::new();
    };
    let best = |change: &dyn Fn(&mut Situation)| {
        let mut changed = situations.to_vec();
        changed.iter_mut().for_each(change);
        let judged = chooser.judge(now, &changed);
        let mine = judged.iter().find(|it| it.index == current)?;
        let other = judged
            .iter()
            .filter(|it| it.index != current)
            .min_by(|a, b| {
                a.excess
                    .total_cmp(&b.excess)
                    .then(a.cost.total_cmp(&b.cost))
            })?;
        let is_better = other.excess <= mine.excess && other.cost * 1.15 <= mine.cost;
        (is_better || other.excess + 1e-9 < mine.excess && other.excess <= 0.0)
            .then_some(other.index)
    };
    for step in 1..=40 {
        let distance = f64::from(step) / 100.0;
        for loss in [at.loss + distance, at.loss - distance] {
            if (0.0..=0.4).contains(&loss)
                && let Some(other) = best(&|it| it.loss = loss)
            {
                let way = if loss > at.loss { "above" } else { "below" };
                return format!(
                    "At {way} about {:.0} % loss it would be {}.",
                    loss * 100.0,
                    name(chooser, other)
                );
            }
        }
    }
    for step in 1..=6 {
        for factor in [2f64.powi(step), 2f64.powi(-step)] {
            let (bytes, trip) = (at.payload_bytes * factor, (at.round_trip_ms + 1.0) * factor);
            let way = if factor > 1.0 { "above" } else { "below" };
            if let Some(other) = best(&|it| it.payload_bytes = bytes) {
                return format!(
                    "With messages {way} about {bytes:.0} B it would be {}.",
                    name(chooser, other)
                );
            }
            if let Some(other) = best(&|it| it.round_trip_ms = trip) {
                return format!(
                    "With a round trip {way} about {trip:.0} ms it would be {}.",
                    name(chooser, other)
                );
            }
        }
    }
    String::new()
}

fn name(chooser: &Chooser, index: usize) -> String {
    let Some(lane) = chooser.lanes.get(index) else {
        return String::new();
    };
    let candidate = &lane.candidate;
    let cover = match (&candidate.medium, candidate.encrypted, candidate.websocket) {
        (Medium::Datagrams, true, _) => " over DTLS",
        (Medium::Datagrams, false, _) => " over UDP",
        (_, _, true) => " over WebSocket",
        (_, true, false) => " over TLS",
        _ => "",
    };
    format!("{}{cover} (lane {})", candidate.protocol, candidate.lane)
}

fn objective(objective: Objective) -> String {
    match objective {
        Objective::Latency => "short latency".to_owned(),
        Objective::Bytes => "few bytes".to_owned(),
        Objective::Energy => "little energy".to_owned(),
        Objective::Weights {
            latency,
            bytes,
            energy,
        } => {
            format!("latency, bytes and energy weighed {latency} : {bytes} : {energy}")
        }
    }
}
