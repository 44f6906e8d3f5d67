//! Bars: parts one above the other, or beside each other, for each of some names.

use std::fmt::Write as _;

use super::axis::{Axis, shown};
use super::chart::{
    CUT, FOOT, LEFT, LOOKS, RIGHT, TOP, WIDTH, framed, key, names_of_axes, rows, small_width,
};
use crate::report::document::escaped;
use crate::results::quoted;

/// A chart of bars.
#[derive(Clone, Debug)]
pub struct Bars {
    /// What it is called.
    pub title: String,
    /// What the names below are.
    pub x: String,
    /// Upwards, from 0.
    pub y: Axis,
    /// What each bar is made of.
    pub parts: Vec<String>,
    /// A bar: its name and its parts, with half of the interval of the last one's upper end.
    pub bars: Vec<(String, Vec<f64>, Option<f64>)>,
    /// Beside each other instead of one above the other.
    pub abreast: bool,
    /// Of bars abreast, for each its half intervals; empty if there are none.
    pub halves: Vec<Vec<f64>>,
}

const PLOT: f64 = 220.0;

impl Bars {
    /// Parts one above the other.
    pub fn of(
        title: impl Into<String>,
        x: &str,
        y: Axis,
        parts: &[&str],
        bars: Vec<(String, Vec<f64>, Option<f64>)>,
    ) -> Bars {
        Bars {
            title: title.into(),
            x: x.to_owned(),
            y,
            parts: parts.iter().map(|part| (*part).to_owned()).collect(),
            bars,
            abreast: false,
            halves: Vec::new(),
        }
    }

    /// Nothing if there is nothing to draw.
    pub fn svg(&self) -> Option<String> {
        if self.bars.is_empty() {
            return None;
        }
        let top = |parts: &[f64]| match self.abreast {
            true => parts
                .iter()
                .copied()
                .filter(|value| value.is_finite())
                .fold(0.0, f64::max),
            false => parts
                .iter()
                .copied()
                .filter(|value| value.is_finite())
                .sum(),
        };
        // An interval of two repeats may be longer than every bar: it is cut where it would hide them.
        let highest = self.bars.iter().map(|bar| top(&bar.1)).fold(0.0, f64::max) * CUT;
        let end = |all: f64, half: Option<f64>| {
            (all + half.filter(|it| it.is_finite()).unwrap_or(0.0)).min(highest)
        };
        let is_told = !self.abreast && self.y.to.is_none();
        let room_above = if is_told { 1.07 } else { 1.0 };
        let tops = self
            .bars
            .iter()
            .map(|(_, parts, half)| end(top(parts), *half) * room_above);
        // A logarithmic axis begins below the lowest bar.
        let all = self
            .bars
            .iter()
            .flat_map(|bar| &bar.1)
            .filter(|value| value.is_finite() && **value > 0.0);
        let floor = self
            .y
            .log
            .then(|| all.copied().fold(highest, f64::min) / 2.0);
        let y = self
            .y
            .ticks(tops.chain(floor))
            .filter(|_| self.bars.iter().any(|bar| top(&bar.1) > 0.0))?;
        let (right, bottom) = (WIDTH - RIGHT, TOP + PLOT);
        let to_y = |value: f64| y.place(value, bottom, TOP);
        let mut body = String::new();
        rows(&mut body, &y, PLOT);
        let room = (right - LEFT) / self.bars.len().max(1) as f64;
        // Names that do not fit beside each other are cut into lines; if that does not do, they stand on end.
        let names: Vec<Vec<&str>> = self
            .bars
            .iter()
            .map(|bar| lines(&bar.0, room - 4.0))
            .collect();
        let is_long = names
            .iter()
            .flatten()
            .any(|line| small_width(line) > room - 4.0);
        // Numbers need not all be told.
        let is_number = self.bars.iter().all(|bar| bar.0.parse::<f64>().is_ok());
        let each = if is_long && is_number {
            LINE.max(26.0).div_euclid(room) as usize + 1
        } else {
            1
        };
        let upright = is_long && !is_number;
        let longest = self
            .bars
            .iter()
            .map(|bar| small_width(&bar.0))
            .fold(0.0, f64::max);
        let rows = names.iter().map(Vec::len).max().unwrap_or(1);
        let below = if upright { longest } else { LINE * rows as f64 };
        for (at, (name, parts, half)) in self.bars.iter().enumerate() {
            let left = LEFT + room * at as f64 + room * 0.12;
            let wide = room * 0.76;
            let mut floor = 0.0;
            for (part, value) in parts
                .iter()
                .enumerate()
                .filter(|(_, value)| value.is_finite() && **value > 0.0)
            {
                let (x, w, base) = match self.abreast {
                    true => (
                        left + wide * part as f64 / parts.len() as f64,
                        wide / parts.len() as f64,
                        0.0,
                    ),
                    false => (left, wide, floor),
                };
                let (from, to) = (to_y(base), to_y(base + value));
                let _ = write!(
                    body,
                    "<path class=\"bar c{}\" d=\"M{x:.1} {from:.1}V{to:.1}h{w:.1}V{from:.1}z\"/>",
                    part % LOOKS
                );
                floor += value;
                let half = self
                    .halves
                    .get(at)
                    .and_then(|halves| halves.get(part))
                    .filter(|half| half.is_finite());
                if let Some(half) = half.filter(|_| self.abreast) {
                    let (x, from, to) = (
                        x + w / 2.0,
                        to_y((value - half).max(0.0)),
                        to_y(value + half),
                    );
                    let _ = write!(
                        body,
                        "<path class=\"whisker ink\" d=\"M{x:.1} {from:.1}V{to:.1}\"/>"
                    );
                }
            }
            if let Some(half) = half.filter(|half| half.is_finite() && *half > 0.0) {
                let (x, all) = (left + wide / 2.0, top(parts));
                let (from, to) = (to_y((all - half).max(0.0)), to_y(all + half));
                let _ = write!(
                    body,
                    "<path class=\"whisker ink\" d=\"M{x:.1} {from:.1}V{to:.1}\"/>"
                );
            }
            // Beside a bar of ten millions one of a hundred thousand is not seen: its number says how high it is.
            let words = shown(rounded(top(parts)));
            if is_told && small_width(&words) < room {
                let (x, y, reaches) = (
                    left + wide / 2.0,
                    to_y(top(parts)) - 4.0,
                    to_y(end(top(parts), *half)) < to_y(top(parts)) - 1.0,
                );
                let (x, anchor) = if reaches {
                    (x + 4.0, "start")
                } else {
                    (x, "middle")
                };
                let _ = write!(
                    body,
                    "<text class=\"small over\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{words}</text>"
                );
            }
            if at % each != 0 {
                continue;
            }
            let x = LEFT + room * (at as f64 + 0.5);
            if upright {
                let _ = write!(
                    body,
                    "<text class=\"small\" transform=\"translate({:.1} {:.1}) rotate(-90)\" text-anchor=\"end\">{}</text>",
                    x + 4.0,
                    bottom + 6.0,
                    escaped(name)
                );
                continue;
            }
            for (row, line) in names.get(at).into_iter().flatten().enumerate() {
                let _ = write!(
                    body,
                    "<text class=\"small\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                    bottom + 15.0 + LINE * row as f64,
                    escaped(line)
                );
            }
        }
        let mut at = bottom + below + FOOT - 22.0;
        names_of_axes(&mut body, (&self.x, at), &self.y.label, PLOT);
        if self.parts.len() > 1 {
            // A part that no bar has takes no place; its colour stays free, so that two charts of a kind agree.
            let is_there = |part: usize| {
                self.bars
                    .iter()
                    .any(|bar| bar.1.get(part).is_some_and(|value| *value > 0.0))
            };
            let parts = self
                .parts
                .iter()
                .map(String::as_str)
                .enumerate()
                .filter(|(part, _)| is_there(*part));
            at = key(&mut body, parts, at + 22.0);
        }
        Some(framed(&self.title, at + 8.0, &body))
    }

    /// Exactly what is drawn.
    pub fn csv(&self) -> String {
        let mut text = format!(
            "{},part,{},half_interval\n",
            quoted(&self.x),
            quoted(&self.y.label)
        );
        for (bar, (name, parts, half)) in self.bars.iter().enumerate() {
            for (at, value) in parts.iter().enumerate() {
                let part = self.parts.get(at).map_or("", String::as_str);
                let half = self
                    .halves
                    .get(bar)
                    .and_then(|halves| halves.get(at))
                    .copied()
                    .or(half.filter(|_| at + 1 == parts.len()));
                let half = half.map_or(String::new(), |half| half.to_string());
                let _ = writeln!(text, "{},{},{value},{half}", quoted(name), quoted(part));
            }
        }
        text
    }
}

/// From line to line of a name.
const LINE: f64 = 13.0;

/// A name in lines that fit, as far as it has places to cut it.
fn lines(name: &str, room: f64) -> Vec<&str> {
    let (mut all, mut from, mut cut) = (Vec::new(), 0, 0);
    let places = name.char_indices().filter_map(|(at, c)| match c {
        ' ' | '+' => Some(at),
        '-' => Some(at + 1),
        _ => None,
    });
    for at in places.chain([name.len()]) {
        let line = name.get(from..at).unwrap_or_default();
        if small_width(line.trim()) > room && cut > from {
            all.push(name.get(from..cut).unwrap_or_default().trim());
            from = cut;
        }
        cut = at;
    }
    all.push(name.get(from..).unwrap_or_default().trim());
    all
}

fn rounded(value: f64) -> f64 {
    let unit = 10_f64.powf(value.abs().max(1e-9).log10().floor() - 2.0);
    (value / unit).round() * unit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cut_where_words_end() {
        assert_eq!(
            lines("mosquitto MQTT QoS 0", 98.0),
            ["mosquitto MQTT", "QoS 0"]
        );
        assert_eq!(lines("adaptive+events", 63.0), ["adaptive", "+events"]);
        assert_eq!(lines("random", 63.0), ["random"]);
        assert_eq!(lines("round-robin", 63.0), ["round-", "robin"]);
        assert_eq!(lines("unbreakable", 30.0), ["unbreakable"]);
        assert_eq!(lines("", 30.0), [""]);
    }

    #[test]
    fn bars_are_drawn_and_told() {
        let bars = Bars::of(
            "bytes by cause",
            "loss",
            Axis::linear("B"),
            &["payload", "headers"],
            vec![
                ("0 %".to_owned(), vec![60.0, 494.0], Some(f64::NAN)),
                ("5 %".to_owned(), vec![60.0, 520.0], None),
            ],
        );
        let svg = bars.svg().expect("there is something");
        assert_eq!(
            svg.matches("class=\"bar").count(),
            4 + 2,
            "four parts and two of the legend"
        );
        assert!(!svg.contains("NaN"));
        assert_eq!(bars.csv().lines().count(), 5);
        assert!(
            Bars {
                bars: Vec::new(),
                ..bars
            }
            .svg()
            .is_none()
        );
    }
}
