//! The drawing of a course: loss, protocol, latency and bytes, one above the other over the same time.

use std::time::Duration;

use super::trial::Trial;
use crate::paper::axis::Axis;
use crate::paper::bands::Bands;
use crate::paper::chart::{Chart, Look, Point, Series};
use crate::paper::plate::Plate;

/// Colours are those of protocols.
const PROTOCOLS: [&str; 2] = ["mqtt", "coap"];
/// Bytes are shown over so many samples, which are a second each.
const WINDOW: usize = 10;
const AFTER: &str = "since the course began, s";

/// Draws an adaptive course, with the bytes of the fixed ones beside its own.
pub fn course(trial: &Trial, fixed: &[&Trial], title: &str) -> Option<Plate> {
    let end = trial.step.as_secs_f64() * trial.steps.len() as f64;
    let after = || Axis {
        to: Some(end),
        ..Axis::linear(AFTER)
    };
    let chart = |title: &str, y: Axis, series: Vec<Series>| {
        Chart {
            title: title.to_owned(),
            x: after(),
            y,
            series,
            limits: Vec::new(),
        }
        .plate()
    };
    let stairs = trial.steps.iter().enumerate().flat_map(|(step, loss)| {
        let from = trial.step.as_secs_f64() * step as f64;
        [
            Point::at(from, loss.as_percent()),
            Point::at(from + trial.step.as_secs_f64(), loss.as_percent()),
        ]
    });
    let stairs = Series {
        name: "loss of the link".to_owned(),
        look: Look::Curve,
        points: stairs.collect(),
    };
    let dots = |protocol: &&str| Series {
        name: format!("published over {protocol}"),
        look: Look::Dots,
        points: waits(trial, protocol),
    };
    let line = |(name, look, points): (String, Look, Vec<(f64, f64)>)| Series {
        name,
        look,
        // The last sample may be taken a little later, and would lengthen the axis.
        points: points
            .into_iter()
            .map(|(x, y)| Point::at(x.min(end), y))
            .collect(),
    };
    // A fixed course has the colour of its protocol, so the adaptive one comes behind both.
    let of = |protocol: &&str| fixed.iter().find(|trial| trial.way.name() == *protocol);
    let mut lines: Vec<Series> = PROTOCOLS
        .iter()
        .filter_map(|protocol| {
            Some(line((
                format!("{protocol} all along"),
                Look::Beside,
                bytes(of(protocol)?),
            )))
        })
        .collect();
    lines.push(line((
        trial.way.name().to_owned(),
        Look::Curve,
        bytes(trial),
    )));
    let plates = [
        chart(
            &format!("{title}: loss"),
            Axis::linear("loss, %"),
            vec![stairs],
        ),
        protocols(trial, after(), end).plate(),
        chart(
            "Latency of each message",
            Axis::log("latency, ms"),
            PROTOCOLS.iter().map(dots).collect(),
        ),
        chart(
            "Bytes on the wire over ten seconds",
            Axis::linear("Ethernet B / published message"),
            lines,
        ),
    ];
    Plate::stacked(title, plates.into_iter().flatten())
}

/// Which protocol each side spoke, from when until when.
fn protocols(trial: &Trial, x: Axis, end: f64) -> Bands {
    let row = |of: fn(&super::trial::Sample) -> &str| {
        let mut bands: Vec<(f64, f64, usize)> = Vec::new();
        for pair in trial.samples.windows(2) {
            let [from, to] = pair else { continue };
            let Some(which) = PROTOCOLS.iter().position(|name| *name == of(from)) else {
                continue;
            };
            let (from, to) = (from.at.as_secs_f64().min(end), to.at.as_secs_f64().min(end));
            match bands.last_mut() {
                Some(last) if last.2 == which && last.1 >= from => last.1 = to,
                _ => bands.push((from, to, which)),
            }
        }
        bands
    };
    Bands {
        title: "Protocol of each side".to_owned(),
        x,
        y: "protocol".to_owned(),
        things: PROTOCOLS.map(str::to_owned).to_vec(),
        rows: vec![
            ("publisher".to_owned(), row(|sample| &sample.publishes)),
            ("subscriber".to_owned(), row(|sample| &sample.subscribes)),
        ],
    }
}

fn waits(trial: &Trial, protocol: &str) -> Vec<Point> {
    let mine = trial
        .messages
        .iter()
        .filter(|message| message.protocol == protocol);
    mine.filter_map(|message| {
        Some(Point::at(
            message.intended.as_secs_f64(),
            message.response_ms()?.max(0.05),
        ))
    })
    .collect()
}

/// Bytes on the wire for each message that was to be published, over the last seconds.
fn bytes(trial: &Trial) -> Vec<(f64, f64)> {
    // A course may be shorter than that.
    let window = WINDOW.min(trial.samples.len().saturating_sub(1)).max(1);
    trial
        .samples
        .windows(window + 1)
        .filter_map(|window| {
            let (first, last) = (window.first()?, window.last()?);
            let count = published(trial, first.at, last.at);
            let bytes = last.bytes.saturating_sub(first.bytes) as f64;
            (count > 0).then(|| (last.at.as_secs_f64(), bytes / count as f64))
        })
        .collect()
}

fn published(trial: &Trial, from: Duration, to: Duration) -> usize {
    trial
        .messages
        .iter()
        .filter(|message| message.intended >= from && message.intended < to)
        .count()
}

#[cfg(test)]
mod tests {
    use super::super::plan::{Goal, Way};
    use super::super::trial::tests::trial;
    use super::*;

    #[test]
    fn a_course_is_drawn() {
        let one = trial(Way::Adaptive(Goal::Bytes), 5, 400);
        let plate = course(&one, &[&trial(Way::Mqtt, 5, 554)], "60 B & more")
            .expect("there is something to draw");
        let svg = plate.svg();
        assert!(
            svg.starts_with("<svg") && svg.contains("mqtt all along") && !svg.contains("<script")
        );
    }
}
