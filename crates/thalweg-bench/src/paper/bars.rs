//! Bars: parts one above the other, or beside each other, for each of some names.

use std::fmt::Write as _;

use super::axis::{Axis, shown};
use super::chart::LOOKS;
use super::figures::Drawing;
use super::svg::{CUT, FOOT, LEFT, PLOT, RIGHT, Svg, TOP, small_width};
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

    /// How high a bar is.
    fn top(&self, parts: &[f64]) -> f64 {
        let finite = parts.iter().copied().filter(|value| value.is_finite());
        match self.abreast {
            true => finite.fold(0.0, f64::max),
            false => finite.sum(),
        }
    }

    /// Half of the interval of a part of a bar, if there is one: of the last part it is that of the bar.
    fn half(&self, bar: usize, part: usize) -> Option<f64> {
        let own = self.halves.get(bar).and_then(|halves| halves.get(part));
        let (_, parts, half) = self.bars.get(bar)?;
        own.copied().or(half.filter(|_| part + 1 == parts.len()))
    }
}

impl Drawing for Bars {
    fn is_empty(&self) -> bool {
        self.svg().is_none()
    }

    fn svg(&self) -> Option<String> {
        let tops = || self.bars.iter().map(|bar| self.top(&bar.1));
        // An interval of two repeats may be longer than every bar: it is cut where it would hide them.
        let highest = tops().fold(0.0, f64::max) * CUT;
        if highest <= 0.0 {
            return None;
        }
        let end = |all: f64, half: Option<f64>| {
            (all + half.filter(|it| it.is_finite()).unwrap_or(0.0)).min(highest)
        };
        let is_told = !self.abreast && self.y.to.is_none();
        let room_above = if is_told { 1.07 } else { 1.0 };
        let ends = tops()
            .zip(&self.bars)
            .map(|(top, bar)| end(top, bar.2) * room_above);
        // A logarithmic axis begins below the lowest bar.
        let all = self.bars.iter().flat_map(|bar| bar.1.iter().copied());
        let lowest = all
            .filter(|value| value.is_finite() && *value > 0.0)
            .fold(highest, f64::min);
        let y = self
            .y
            .ticks(ends.chain(self.y.log.then_some(lowest / 2.0)))?;
        let bottom = TOP + PLOT;
        let to_y = |value: f64| y.place(value, bottom, TOP);
        let whisker = |svg: &mut Svg, x: f64, value: f64, half: f64| {
            let (from, to) = (to_y((value - half).max(0.0)), to_y(value + half));
            svg.path("whisker ink", format_args!("M{x:.1} {from:.1}V{to:.1}"));
        };
        let mut svg = Svg::default();
        svg.rows(&y);
        let room = (RIGHT - LEFT) / self.bars.len() as f64;
        let names = Names::of(self.bars.iter().map(|bar| bar.0.as_str()), room);
        for (at, (name, parts, half)) in self.bars.iter().enumerate() {
            let (left, wide) = (LEFT + room * at as f64 + room * 0.12, room * 0.76);
            let (middle, top) = (left + wide / 2.0, self.top(parts));
            let mut floor = 0.0;
            let drawn = |(_, value): &(usize, &f64)| value.is_finite() && **value > 0.0;
            for (part, value) in parts.iter().enumerate().filter(drawn) {
                let w = if self.abreast {
                    wide / parts.len() as f64
                } else {
                    wide
                };
                let (x, base) = match self.abreast {
                    true => (left + wide * part as f64 / parts.len() as f64, 0.0),
                    false => (left, floor),
                };
                let (from, to) = (to_y(base), to_y(base + value));
                let class = format!("bar c{}", part % LOOKS);
                svg.path(
                    &class,
                    format_args!("M{x:.1} {from:.1}V{to:.1}h{w:.1}V{from:.1}z"),
                );
                floor += value;
                let half = self
                    .half(at, part)
                    .filter(|half| self.abreast && half.is_finite());
                half.into_iter()
                    .for_each(|half| whisker(&mut svg, x + w / 2.0, *value, half));
            }
            if let Some(half) = half.filter(|half| half.is_finite() && *half > 0.0) {
                whisker(&mut svg, middle, top, half);
            }
            // Beside a bar of ten millions one of a hundred thousand is not seen: its number says how high it is.
            let words = shown(rounded(top));
            if is_told && small_width(&words) < room {
                let (x, anchor) = match to_y(end(top, *half)) < to_y(top) - 1.0 {
                    true => (middle + 4.0, "start"),
                    false => (middle, "middle"),
                };
                svg.text("small over", (x, to_y(top) - 4.0), anchor, &words);
            }
            names.write(&mut svg, at, name, LEFT + room * (at as f64 + 0.5));
        }
        let at = bottom + names.height + FOOT - 22.0;
        svg.names_of_axes(&self.x, at, &self.y.label);
        let mut height = at + 8.0;
        if self.parts.len() > 1 {
            // A part that no bar has takes no place; its colour stays free, so that two charts of a kind agree.
            let is_there = |part: usize| {
                self.bars
                    .iter()
                    .any(|bar| bar.1.get(part).is_some_and(|it| *it > 0.0))
            };
            let parts = self
                .parts
                .iter()
                .enumerate()
                .filter(|(part, _)| is_there(*part));
            let samples = parts.map(|(part, name)| {
                let sample = move |svg: &mut Svg, x: f64, y: f64| {
                    let class = format!("bar c{}", part % LOOKS);
                    svg.path(&class, format_args!("M{x:.1} {:.1}h14v11h-14z", y - 10.0));
                };
                (name.as_str(), sample)
            });
            height = svg.legend(at + 22.0, 22.0, samples);
        }
        Some(svg.framed(&self.title, height))
    }

    fn csv(&self) -> String {
        let (x, y) = (quoted(&self.x), quoted(&self.y.label));
        let mut text = format!("{x},part,{y},half_interval\n");
        for (bar, (name, values, _)) in self.bars.iter().enumerate() {
            for (part, value) in values.iter().enumerate() {
                let of = self.parts.get(part).map_or("", String::as_str);
                let half = self
                    .half(bar, part)
                    .map_or(String::new(), |half| half.to_string());
                let _ = writeln!(text, "{},{},{value},{half}", quoted(name), quoted(of));
            }
        }
        text
    }
}

/// How the names of bars stand below them: those that do not fit beside each other are cut into lines; if that does not do,
/// they stand on end. Numbers need not all be told.
struct Names {
    room: f64,
    is_upright: bool,
    each: usize,
    height: f64,
}

impl Names {
    fn of<'n>(names: impl Iterator<Item = &'n str> + Clone, room: f64) -> Names {
        let room = room - 4.0;
        let cut = || names.clone().map(|name| lines(name, room));
        let is_long = cut().flatten().any(|line| small_width(line) > room);
        let is_number = names.clone().all(|name| name.parse::<f64>().is_ok());
        let is_upright = is_long && !is_number;
        Names {
            room,
            is_upright,
            each: match is_long && is_number {
                true => 26.0_f64.div_euclid(room + 4.0) as usize + 1,
                false => 1,
            },
            height: match is_upright {
                true => names.map(small_width).fold(0.0, f64::max),
                false => LINE * cut().map(|lines| lines.len()).max().unwrap_or(1) as f64,
            },
        }
    }

    fn write(&self, svg: &mut Svg, at: usize, name: &str, x: f64) {
        let bottom = TOP + PLOT;
        if !at.is_multiple_of(self.each) {
            return;
        }
        if self.is_upright {
            let place = format_args!("{:.1} {:.1}", x + 4.0, bottom + 6.0).to_string();
            return svg.upright("small", place, "end", name);
        }
        for (row, line) in lines(name, self.room).into_iter().enumerate() {
            svg.text(
                "small",
                (x, bottom + 15.0 + LINE * row as f64),
                "middle",
                line,
            );
        }
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
