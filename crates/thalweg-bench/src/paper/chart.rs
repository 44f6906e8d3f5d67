//! Charts in SVG that live in a page: colours come from the page's style, so that they are right in light and in dark, and
//! letters are so large that they can still be read where a phone shows the drawing at three quarters of its size.
//!
//! *Knows:* how to draw. Numbers come ready from elsewhere.

use std::collections::HashSet;
use std::fmt::Write as _;

use super::axis::{Axis, Ticks, shown};
use crate::report::document::escaped;
use crate::results::quoted;

/// A chart of lines or dots.
#[derive(Clone, Debug)]
pub struct Chart {
    /// What it is called.
    pub title: String,
    pub x: Axis,
    pub y: Axis,
    pub series: Vec<Series>,
    /// Lines that something must not or cannot cross: their value on the y axis, and words.
    pub limits: Vec<(f64, String)>,
}

/// Points that belong together.
#[derive(Clone, Debug)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// What it looks like.
    pub look: Look,
    /// Its points, by x.
    pub points: Vec<Point>,
}

/// A point, and the ends of its 95 % interval where there is one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    pub x: f64,
    pub y: f64,
    /// The interval around y.
    pub interval: Option<(f64, f64)>,
}

/// What a series looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// A line with a mark at each point.
    Line,
    /// A line without marks: many points.
    Curve,
    /// Marks without a line.
    Marks,
    /// A dot for each of very many points.
    Dots,
    /// A thin line without marks: something beside what is shown.
    Beside,
}

impl Point {
    /// A point without an interval.
    pub fn at(x: f64, y: f64) -> Point {
        Point {
            x,
            y,
            interval: None,
        }
    }

    /// A point with half of its interval, if that is a number.
    pub fn with_half(x: f64, y: f64, half: f64) -> Point {
        Point {
            x,
            y,
            interval: half.is_finite().then_some((y - half, y + half)),
        }
    }
}

/// So wide is every drawing, in its own units; letters have 12 to 14 of them.
pub const WIDTH: f64 = 480.0;
pub(super) const LEFT: f64 = 62.0;
pub(super) const RIGHT: f64 = 12.0;
pub(super) const TOP: f64 = 30.0;
const PLOT: f64 = 220.0;
/// Looks that can be told apart without colours.
pub const LOOKS: usize = 8;

impl Chart {
    /// A chart whose y axis has no limits to be drawn.
    pub fn of(title: impl Into<String>, x: Axis, y: Axis, series: Vec<Series>) -> Chart {
        Chart {
            title: title.into(),
            x,
            y,
            series,
            limits: Vec::new(),
        }
    }

    /// Nothing if there is nothing to draw.
    pub fn svg(&self) -> Option<String> {
        let all = || {
            self.series
                .iter()
                .flat_map(|series| &series.points)
                .filter(|point| self.shows(point))
        };
        // An interval of two repeats may be longer than everything else: it is cut where it would hide the rest.
        let highest = all().map(|point| point.y).fold(0.0, f64::max) * CUT;
        // Downwards a logarithmic axis has no end: an interval that reaches to nothing would press all else to its top.
        let lowest = match self.y.log {
            true => all().map(|point| point.y).fold(f64::INFINITY, f64::min) / CUT,
            false => self.y.from.unwrap_or(f64::NEG_INFINITY),
        };
        let ends = all().flat_map(|point| match point.interval {
            Some((low, high)) => [low.max(lowest).min(point.y), high.min(highest).max(point.y)],
            None => [point.y, point.y],
        });
        let limits = self.limits.iter().map(|(value, _)| *value);
        let x = self.x.ticks(all().map(|point| point.x))?;
        let y = self.y.ticks(
            ends.chain(limits)
                .filter(|value| value.is_finite() && (!self.y.log || *value > 0.0)),
        )?;
        let right = WIDTH - RIGHT;
        let aside = Aside::of(self);
        let (to_x, to_y) = (
            |value: f64| aside.place(&x, value),
            |value: f64| y.place(value, TOP + PLOT, TOP),
        );
        let mut body = String::new();
        grid(&mut body, (&x, &self.x, &to_x), (&y, &self.y), PLOT);
        for (value, _) in &self.limits {
            let _ = write!(
                body,
                "<path class=\"limit\" d=\"M{LEFT} {:.1}H{right}\"/>",
                to_y(*value)
            );
        }
        for (index, series) in self.series.iter().enumerate() {
            let shift = aside.shift(index);
            let points: Vec<(f64, f64)> = series
                .points
                .iter()
                .filter(|it| self.shows(it))
                .map(|it| (to_x(it.x) + shift, to_y(it.y)))
                .collect();
            let look = index % LOOKS;
            if series.look == Look::Dots {
                dots(&mut body, look, &points);
                continue;
            }
            if series.look != Look::Marks && points.len() > 1 {
                let path: Vec<String> = points
                    .iter()
                    .map(|(x, y)| format!("{x:.1} {y:.1}"))
                    .collect();
                let thin = if series.look == Look::Beside {
                    " thin"
                } else {
                    ""
                };
                let _ = write!(
                    body,
                    "<path class=\"line c{look}{thin}\" d=\"M{}\"/>",
                    path.join("L")
                );
            }
            for point in series.points.iter().filter(|point| self.shows(point)) {
                let Some((low, high)) = point.interval else {
                    continue;
                };
                let low = if self.y.log && low <= 0.0 {
                    y.least
                } else {
                    low.max(y.least)
                };
                let at = to_x(point.x) + shift;
                let (from, to) = (to_y(low), to_y(high));
                let _ = write!(
                    body,
                    "<path class=\"whisker c{look}\" d=\"M{at:.1} {from:.1}V{to:.1}M{:.1} {from:.1}h4M{:.1} {to:.1}h4\"/>",
                    at - 2.0,
                    at - 2.0
                );
            }
            if matches!(series.look, Look::Line | Look::Marks) || points.len() == 1 {
                for (x, y) in points {
                    mark(&mut body, look, x, y, look);
                }
            }
        }
        // Words lie above lines.
        for (value, words) in &self.limits {
            let (x, y) = (LEFT + 6.0, to_y(*value) - 4.0);
            let words = escaped(words);
            let _ = write!(
                body,
                "<text class=\"small over\" x=\"{x:.1}\" y=\"{y:.1}\">{words}</text>"
            );
        }
        let names: Vec<(usize, &str, Look)> = self
            .series
            .iter()
            .enumerate()
            .map(|(index, it)| (index, it.name.as_str(), it.look))
            .collect();
        let height = legend(&mut body, &names, TOP + PLOT + FOOT);
        Some(framed(&self.title, height, &body))
    }

    /// Whether a point has a place on the axes.
    fn shows(&self, point: &Point) -> bool {
        let fits = |value: f64, axis: &Axis| value.is_finite() && (!axis.log || value > 0.0);
        fits(point.x, &self.x) && fits(point.y, &self.y)
    }

    /// Exactly what is drawn, a line for each point.
    pub fn csv(&self) -> String {
        let mut text = format!(
            "series,{},{},low,high\n",
            quoted(&self.x.label),
            quoted(&self.y.label)
        );
        for series in &self.series {
            for point in series.points.iter().filter(|point| self.shows(point)) {
                let (low, high) = point
                    .interval
                    .map_or((String::new(), String::new()), |(low, high)| {
                        (low.to_string(), high.to_string())
                    });
                let _ = writeln!(
                    text,
                    "{},{},{},{low},{high}",
                    quoted(&series.name),
                    point.x,
                    point.y
                );
            }
        }
        text
    }
}

/// No whisker reaches beyond so many times the highest point.
pub(super) const CUT: f64 = 1.6;

/// Marks at the same place would hide each other, and their intervals still more: they stand side by side.
struct Aside {
    /// For each series, how far to the right; negative: to the left.
    shifts: Vec<f64>,
    /// Room at both ends of the axis, so that no mark leaves the plot.
    reach: f64,
}

impl Aside {
    fn of(chart: &Chart) -> Aside {
        let has_marks =
            |series: &Series| matches!(series.look, Look::Line) && !series.points.is_empty();
        let count = chart
            .series
            .iter()
            .filter(|series| has_marks(series))
            .count();
        let step = if count > 1 {
            ASIDE.min(ASIDE_ALL / (count - 1) as f64)
        } else {
            0.0
        };
        let first = -step * count.saturating_sub(1) as f64 / 2.0;
        let mut before = 0.0;
        let mut shift = |series: &Series| {
            if !has_marks(series) {
                return 0.0;
            }
            before += 1.0;
            first + step * (before - 1.0)
        };
        let shifts = chart.series.iter().map(&mut shift).collect();
        let is_marked = chart
            .series
            .iter()
            .any(|series| matches!(series.look, Look::Line | Look::Marks));
        Aside {
            shifts,
            reach: if is_marked { 6.0 - first } else { 0.0 },
        }
    }

    fn shift(&self, series: usize) -> f64 {
        self.shifts.get(series).copied().unwrap_or(0.0)
    }

    fn place(&self, ticks: &Ticks, value: f64) -> f64 {
        ticks.place(value, LEFT + self.reach, WIDTH - RIGHT - self.reach)
    }
}

/// From mark to mark of one place, and of all of them at most.
const ASIDE: f64 = 5.0;
const ASIDE_ALL: f64 = 26.0;

/// Room below the plot for the numbers and the name of the x axis.
pub(super) const FOOT: f64 = 44.0;

/// Frame, lines and numbers of both axes.
pub(super) fn grid(
    body: &mut String,
    (x, x_axis, to_x): (&Ticks, &Axis, &dyn Fn(f64) -> f64),
    (y, y_axis): (&Ticks, &Axis),
    plot: f64,
) {
    let bottom = TOP + plot;
    rows(body, y, plot);
    for value in &x.major {
        let (at, words) = (to_x(*value), shown(*value));
        let _ = write!(
            body,
            "<path class=\"grid\" d=\"M{at:.1} {TOP}V{bottom}\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{words}</text>",
            // The last one must not reach beyond the drawing.
            at.min(WIDTH - 1.0 - width(&words) * 0.55),
            bottom + 17.0
        );
    }
    names_of_axes(body, (&x_axis.label, bottom + 35.0), &y_axis.label, plot);
}

/// Lines and numbers of a y axis.
pub(super) fn rows(body: &mut String, y: &Ticks, plot: f64) {
    let (right, bottom) = (WIDTH - RIGHT, TOP + plot);
    for value in &y.major {
        let at = y.place(*value, bottom, TOP);
        let _ = write!(
            body,
            "<path class=\"grid\" d=\"M{LEFT} {at:.1}H{right}\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 6.0,
            at + 4.5,
            shown(*value)
        );
    }
}

/// The curves of a table that [`Chart::csv`] has written.
pub(super) fn again(table: &str) -> Vec<Series> {
    let mut all: Vec<Series> = Vec::new();
    for line in table.lines().skip(1) {
        let mut fields = line.rsplitn(5, ',').skip(2);
        let (y, x) = (
            fields.next().and_then(|y| y.parse().ok()),
            fields.next().and_then(|x| x.parse().ok()),
        );
        let (Some(y), Some(x), Some(name)) = (y, x, fields.next()) else {
            continue;
        };
        let point = Point::at(x, y);
        match all.last_mut().filter(|series| series.name == name) {
            Some(series) => series.points.push(point),
            None => all.push(Series {
                name: name.to_owned(),
                look: Look::Curve,
                points: vec![point],
            }),
        }
    }
    all
}

/// A drawing for a page that has the style, with its title above it.
pub(super) fn framed(title: &str, height: f64, body: &str) -> String {
    let title = escaped(title);
    format!(
        "<svg class=\"chart\" viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\"><title>{title}</title>\
         <text class=\"title\" x=\"8\" y=\"17\">{title}</text>{body}</svg>"
    )
}

/// The names of both axes, that of x at its height, and the frame.
pub(super) fn names_of_axes(body: &mut String, (x, height): (&str, f64), y: &str, plot: f64) {
    let (right, bottom) = (WIDTH - RIGHT, TOP + plot);
    let (middle, centre) = ((LEFT + right) / 2.0, TOP + plot / 2.0);
    let _ = write!(
        body,
        "<path class=\"frame\" d=\"M{LEFT} {TOP}V{bottom}H{right}\"/><text class=\"name\" x=\"{middle:.1}\" y=\"{height:.1}\" \
         text-anchor=\"middle\">{}</text><text class=\"name\" transform=\"translate(14 {centre:.1}) rotate(-90)\" \
         text-anchor=\"middle\">{}</text>",
        escaped(x),
        escaped(y)
    );
}

/// All of them in one path, and none where there is one already: a message each is many.
fn dots(body: &mut String, look: usize, points: &[(f64, f64)]) {
    let mut there: HashSet<(i64, i64)> = HashSet::new();
    let mut path = String::new();
    for (x, y) in points {
        if there.insert(((x * 2.0).round() as i64, (y * 2.0).round() as i64)) {
            let _ = write!(path, "M{x:.1} {y:.1}h0");
        }
    }
    let _ = write!(body, "<path class=\"dots c{look}\" d=\"{path}\"/>");
}

/// What colours mean, below a drawing, from a height on; returns that of the last line.
pub(super) fn key<'a>(
    body: &mut String,
    parts: impl Iterator<Item = (usize, &'a str)>,
    mut at: f64,
) -> f64 {
    let mut x = 8.0;
    for (part, name) in parts {
        let room = 22.0 + width(name) + 14.0;
        if x + room > WIDTH && x > 8.0 {
            (x, at) = (8.0, at + 18.0);
        }
        let _ = write!(
            body,
            "<path class=\"bar c{}\" d=\"M{x:.1} {:.1}h14v11h-14z\"/><text x=\"{:.1}\" y=\"{at:.1}\">{}</text>",
            part % LOOKS,
            at - 10.0,
            x + 20.0,
            escaped(name)
        );
        x += room;
    }
    at
}

/// A mark: eight shapes.
fn mark(body: &mut String, look: usize, x: f64, y: f64, colour: usize) {
    let path = match look {
        0 => "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0",
        1 => "m-3.5 -3.5h7v7h-7z",
        2 => "m0 -4.6l4.4 8h-8.8z",
        3 => "m0 -5l4.5 5l-4.5 5l-4.5 -5z",
        4 => "m0 4.6l4.4 -8h-8.8z",
        5 => "m-4 -4l8 8m0 -8l-8 8",
        6 => "m-5 0h10m-5 -5v10",
        _ => "m-5 -2.5h10v5h-10z",
    };
    let class = if [5, 6].contains(&look) {
        "cross"
    } else {
        "mark"
    };
    let _ = write!(
        body,
        "<path class=\"{class} c{colour}\" d=\"M{x:.1} {y:.1}{path}\"/>"
    );
}

/// Names below the plot, as many in a row as there is room for; returns the height of the whole drawing.
fn legend(body: &mut String, names: &[(usize, &str, Look)], top: f64) -> f64 {
    let (mut x, mut y) = (8.0, top + 10.0);
    for (index, name, look) in names {
        let room = 34.0 + width(name) + 14.0;
        if x + room > WIDTH && x > 8.0 {
            (x, y) = (8.0, y + 18.0);
        }
        let class = index % LOOKS;
        if *look == Look::Dots {
            mark(body, 0, x + 14.0, y - 4.0, class);
        } else if *look != Look::Marks {
            let thin = if *look == Look::Beside { " thin" } else { "" };
            let _ = write!(
                body,
                "<path class=\"line c{class}{thin}\" d=\"M{x:.1} {:.1}h28\"/>",
                y - 4.0
            );
        }
        if matches!(look, Look::Line | Look::Marks) {
            mark(body, class, x + 14.0, y - 4.0, class);
        }
        let _ = write!(
            body,
            "<text x=\"{:.1}\" y=\"{y:.1}\">{}</text>",
            x + 34.0,
            escaped(name)
        );
        x += room;
    }
    y + 8.0
}

/// About how wide words are.
pub(super) fn width(words: &str) -> f64 {
    words.chars().count() as f64 * 6.9
}

/// The same of small ones.
pub(super) fn small_width(words: &str) -> f64 {
    width(words) * 0.92
}

/// What the drawings of this module want of the page's style. Colours are Okabe and Ito's, darker or lighter where they
/// would be lost on their ground; dashes and marks say the same.
pub const STYLE: &str = ":root{--ground:#fff;--ink:#1d1f21;--faint:#e3e5e8;--quiet:#5b6066;--c0:#0072b2;--c1:#d55e00;\
--c2:#008f69;--c3:#b3568f;--c4:#b97a00;--c5:#2f8fce;--c6:#333;--c7:#7a5c99}\
@media(prefers-color-scheme:dark){:root{--ground:#15181b;--ink:#e6e8ea;--faint:#2f3439;--quiet:#a3a9b0;--c0:#5fb4ea;\
--c1:#f5844a;--c2:#2fc79b;--c3:#e79bc8;--c4:#f0b23e;--c5:#9ad0f5;--c6:#d0d3d6;--c7:#b9a0dd}}\
svg.chart{display:block;width:100%;max-width:100%;height:auto;font-family:system-ui,sans-serif}\
svg.chart text{fill:var(--ink);font-size:12.5px;stroke:none}svg.chart text.small{font-size:11.5px;fill:var(--quiet)}\
svg.chart text.over{fill:var(--ink);stroke:var(--ground);stroke-width:3px;stroke-linejoin:round;paint-order:stroke}\
svg.chart text.name{font-size:13px}svg.chart text.title{font-size:14px;font-weight:600}\
.chart .grid{stroke:var(--faint);fill:none}.chart .frame{stroke:var(--quiet);fill:none}\
.chart .limit{stroke:var(--quiet);stroke-dasharray:7 4;fill:none}\
.chart .line{fill:none;stroke-width:2.2;stroke-linejoin:round}.chart .thin{stroke-width:1.2}\
.chart .whisker{fill:none;stroke-width:1.2;stroke-dasharray:none}\
.chart .mark{stroke:var(--ground);stroke-width:.8}.chart .cross{fill:none;stroke-width:2}\
.chart .line.c1{stroke-dasharray:9 3}.chart .line.c2{stroke-dasharray:3 3}.chart .line.c3{stroke-dasharray:10 3 2 3}\
.chart .line.c4{stroke-dasharray:6 3 2 3 2 3}.chart .line.c5{stroke-dasharray:1.5 3}.chart .line.c6{stroke-dasharray:14 4}.chart .line.c7{stroke-dasharray:5 7}\
.chart .line.c0,.chart .whisker.c0{stroke:var(--c0)}.chart .line.c1,.chart .whisker.c1{stroke:var(--c1)}\
.chart .line.c2,.chart .whisker.c2{stroke:var(--c2)}.chart .line.c3,.chart .whisker.c3{stroke:var(--c3)}\
.chart .line.c4,.chart .whisker.c4{stroke:var(--c4)}.chart .line.c5,.chart .whisker.c5,.chart .cross.c5{stroke:var(--c5)}\
.chart .line.c6,.chart .whisker.c6,.chart .cross.c6{stroke:var(--c6)}\
.chart .mark.c0,.chart .bar.c0{fill:var(--c0)}.chart .mark.c1,.chart .bar.c1{fill:var(--c1)}\
.chart .mark.c2,.chart .bar.c2{fill:var(--c2)}.chart .mark.c3,.chart .bar.c3{fill:var(--c3)}\
.chart .mark.c4,.chart .bar.c4{fill:var(--c4)}.chart .bar.c5{fill:var(--c5)}.chart .bar.c6{fill:var(--c6)}\
.chart .mark.c7,.chart .bar.c7{fill:var(--c7)}.chart .line.c7,.chart .whisker.c7{stroke:var(--c7)}\
.chart .dots{fill:none;stroke-width:3;stroke-linecap:round}\
.chart .dots.c0{stroke:var(--c0)}.chart .dots.c1{stroke:var(--c1)}.chart .dots.c2{stroke:var(--c2)}.chart .dots.c3{stroke:var(--c3)}\
.chart .dots.c4{stroke:var(--c4)}.chart .dots.c5{stroke:var(--c5)}.chart .dots.c6{stroke:var(--c6)}.chart .dots.c7{stroke:var(--c7)}\
.chart .bar{stroke:var(--ground);stroke-width:.8}.chart .whisker.ink{stroke:var(--ink)}";

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn sample() -> Chart {
        Chart {
            title: "Throughput & pairs".to_owned(),
            x: Axis::log("pairs"),
            y: Axis::log("delivered, messages/s"),
            series: vec![
                Series {
                    name: "thalweg <MQTT>".to_owned(),
                    look: Look::Line,
                    points: vec![
                        Point::with_half(10.0, 2000.0, 100.0),
                        Point::with_half(80.0, 17_000.0, f64::NAN),
                    ],
                },
                Series {
                    name: "nothing".to_owned(),
                    look: Look::Line,
                    points: vec![Point::at(0.0, -1.0)],
                },
            ],
            limits: vec![(30_000.0, "link".to_owned())],
        }
    }

    #[test]
    fn a_chart_is_a_drawing_without_scripts_whose_words_are_escaped() {
        let svg = sample().svg().expect("there are two points");
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>"));
        assert!(svg.contains("thalweg &lt;MQTT&gt;") && svg.contains("pairs &amp;").eq(&false));
        assert!(
            !svg.contains("<script") && !svg.contains("NaN") && !svg.contains("inf"),
            "{svg}"
        );
    }

    #[test]
    fn its_table_has_exactly_the_points_that_are_drawn() {
        let csv = sample().csv();
        assert_eq!(
            csv.lines().count(),
            3,
            "what has no place on a logarithmic axis is not drawn: {csv}"
        );
        assert_eq!(csv.lines().nth(1), Some("thalweg <MQTT>,10,2000,1900,2100"));
        assert!(csv.starts_with("series,pairs,\"delivered, messages/s\",low,high\n"));
    }

    #[test]
    fn nothing_to_draw_is_no_drawing() {
        assert!(
            Chart {
                series: Vec::new(),
                limits: Vec::new(),
                ..sample()
            }
            .svg()
            .is_none()
        );
    }
}
