//! What the pages of E5 draw: latency per message, shares in time, means by member, lines of a sweep.
//!
//! *Knows:* what of a trial is shown. How it is drawn is `paper`'s.

use super::trial::{NOBODY, Trial};
use crate::paper::axis::Axis;
use crate::paper::bars::Bars;
use crate::paper::chart::{Chart, LOOKS, Look, Point, Series};

/// Nothing where there is nothing to draw.
pub(crate) type Drawn = Option<String>;

const AFTER: &str = "published after, s";

/// Latency of each message over the time at which it was published, members in colours: figures of chapter 5 of the
/// thesis.
pub fn latencies(trial: &Trial, title: &str) -> Drawn {
    let of = |member: usize| {
        let mine = trial
            .messages
            .iter()
            .filter(move |message| usize::from(message.member) == member);
        mine.filter_map(|message| {
            Some(Point::at(
                message.intended as f64 * 1e-9,
                message.wait_ms()?,
            ))
        })
    };
    let dots = |(member, takes): (usize, &f64)| Series {
        name: format!("member {member}, {takes} ms"),
        look: Look::Dots,
        points: of(member).collect(),
    };
    let chart = Chart {
        title: title.to_owned(),
        x: Axis::linear(AFTER),
        y: Axis::linear("wait, ms"),
        series: match trial.service_ms.len() {
            0..=LOOKS => trial.service_ms.iter().enumerate().map(dots).collect(),
            // So many cannot be told apart.
            count => {
                let points = (0..count).flat_map(of).collect();
                vec![Series {
                    name: format!("{count} members"),
                    look: Look::Dots,
                    points,
                }]
            }
        },
        limits: Vec::new(),
    };
    chart.svg()
}

/// How many messages published in each second went to each member, one above the other.
pub fn shares(trial: &Trial, title: &str) -> Drawn {
    let members = trial.service_ms.len();
    let end = trial
        .messages
        .iter()
        .map(|message| message.intended / SECOND)
        .max()? as usize;
    let mut counts = vec![vec![0.0; members]; end + 1];
    for message in trial
        .messages
        .iter()
        .filter(|message| message.member != NOBODY)
    {
        *counts
            .get_mut((message.intended / SECOND) as usize)?
            .get_mut(usize::from(message.member))? += 1.0;
    }
    let bars = Bars {
        title: title.to_owned(),
        x: AFTER.to_owned(),
        y: Axis::linear("messages/s in that second"),
        parts: (0..members)
            .map(|member| format!("member {member}"))
            .collect(),
        bars: counts
            .into_iter()
            .enumerate()
            .map(|(second, parts)| (second.to_string(), parts, None))
            .collect(),
        abreast: false,
        halves: Vec::new(),
    };
    bars.svg()
}

/// Bars in groups, on a logarithmic scale: a name, and a value with its half interval for each of `series`.
pub fn bars(
    title: &str,
    (x, y): (&str, &str),
    series: &[String],
    groups: &[(String, Vec<(f64, f64)>)],
) -> Drawn {
    let bars = Bars {
        title: title.to_owned(),
        x: x.to_owned(),
        y: Axis::log(y),
        parts: series.to_vec(),
        bars: groups
            .iter()
            .map(|(name, of)| (name.clone(), of.iter().map(|it| it.0).collect(), None))
            .collect(),
        abreast: true,
        halves: groups
            .iter()
            .map(|(_, of)| of.iter().map(|it| it.1).collect())
            .collect(),
    };
    bars.svg()
}

/// Lines over logarithmic axes: a name and its points (x, y).
pub fn lines(title: &str, names: (&str, &str), series: &[(String, Vec<(f64, f64)>)]) -> Drawn {
    let line = |(name, points): &(String, Vec<(f64, f64)>)| Series {
        name: name.clone(),
        look: Look::Line,
        points: points.iter().map(|(x, y)| Point::at(*x, *y)).collect(),
    };
    let chart = Chart {
        title: title.to_owned(),
        x: Axis::log(names.0),
        y: Axis::log(names.1),
        series: series.iter().map(line).collect(),
        limits: Vec::new(),
    };
    chart.svg()
}

const SECOND: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::super::raw::tests::trial;
    use super::*;

    #[test]
    fn drawings_are_svg_without_scripts() {
        let drawn = [
            latencies(&trial(0), "latency & more"),
            shares(&trial(0), "shares"),
            bars(
                "means",
                ("strategy", "wait, ms"),
                &["member 0".to_owned()],
                &[("score".to_owned(), vec![(3.0, 0.5)])],
            ),
            lines(
                "sweep",
                ("interval, s", "wait, ms"),
                &[("score".to_owned(), vec![(0.1, 3.0), (1.0, 30.0)])],
            ),
        ];
        for svg in drawn {
            let svg = svg.expect("there is something to draw");
            assert!(
                svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"),
                "{svg}"
            );
            assert!(!svg.contains("<script") && !svg.contains("NaN"));
        }
    }

    #[test]
    fn nothing_to_draw_is_no_drawing() {
        let mut empty = trial(0);
        empty.messages.clear();
        assert!(shares(&empty, "nothing").is_none() && latencies(&empty, "nothing").is_none());
        assert!(lines("nothing", ("s", "ms"), &[("score".to_owned(), Vec::new())]).is_none());
    }
}
