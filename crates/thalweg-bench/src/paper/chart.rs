//! Charts of lines and dots.

use std::collections::HashSet;
use std::fmt::Write as _;

use super::axis::{Axis, Ticks};
use super::figures::Drawing;
use super::svg::{CUT, FOOT, LEFT, PLOT, RIGHT, Svg, TOP};
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

impl Series {
    pub fn of(
        name: impl Into<String>,
        look: Look,
        points: impl IntoIterator<Item = Point>,
    ) -> Series {
        Series {
            name: name.into(),
            look,
            points: points.into_iter().collect(),
        }
    }
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
}

impl Drawing for Chart {
    fn is_empty(&self) -> bool {
        self.series.iter().all(|series| series.points.is_empty())
    }

    fn svg(&self) -> Option<String> {
        let (x, y) = self.ticks()?;
        let (shifts, reach) = self.aside();
        let to_x = |value: f64| x.place(value, LEFT + reach, RIGHT - reach);
        let to_y = |value: f64| y.place(value, TOP + PLOT, TOP);
        let mut svg = Svg::default();
        svg.rows(&y);
        svg.columns(&x, to_x);
        svg.names_of_axes(&self.x.label, TOP + PLOT + 35.0, &self.y.label);
        for (value, _) in &self.limits {
            svg.path("limit", format_args!("M{LEFT} {:.1}H{RIGHT}", to_y(*value)));
        }
        for ((index, series), shift) in self.series.iter().enumerate().zip(shifts) {
            let look = index % LOOKS;
            let shown = || series.points.iter().filter(|it| self.shows(it));
            let points: Vec<(f64, f64)> =
                shown().map(|it| (to_x(it.x) + shift, to_y(it.y))).collect();
            if series.look == Look::Dots {
                dots(&mut svg, look, &points);
                continue;
            }
            if series.look != Look::Marks && points.len() > 1 {
                let path = points.iter().map(|(x, y)| format!("{x:.1} {y:.1}"));
                let path = path.collect::<Vec<_>>().join("L");
                svg.path(&series.look.line(look), format_args!("M{path}"));
            }
            for (point, (at, _)) in shown().zip(&points) {
                let Some((low, high)) = point.interval else {
                    continue;
                };
                let (from, to) = (to_y(low.max(y.least)), to_y(high));
                let left = at - 2.0;
                svg.path(
                    &format!("whisker c{look}"),
                    format_args!(
                        "M{at:.1} {from:.1}V{to:.1}M{left:.1} {from:.1}h4M{left:.1} {to:.1}h4"
                    ),
                );
            }
            if series.look.has_marks() || points.len() == 1 {
                points.iter().for_each(|at| mark(&mut svg, look, *at, look));
            }
        }
        // Words lie above lines.
        for (value, words) in &self.limits {
            svg.text("small over", (LEFT + 6.0, to_y(*value) - 4.0), "", words);
        }
        let samples = self.series.iter().enumerate().map(|(index, it)| {
            let (class, look) = (index % LOOKS, it.look);
            let sample = move |svg: &mut Svg, x: f64, y: f64| {
                let (middle, height) = (x + 14.0, y - 4.0);
                if look == Look::Dots {
                    mark(svg, 0, (middle, height), class);
                } else if look != Look::Marks {
                    svg.path(&look.line(class), format_args!("M{x:.1} {height:.1}h28"));
                }
                if look.has_marks() {
                    mark(svg, class, (middle, height), class);
                }
            };
            (it.name.as_str(), sample)
        });
        let height = svg.legend(TOP + PLOT + FOOT + 10.0, 34.0, samples);
        Some(svg.framed(&self.title, height))
    }

    /// A line for each point.
    fn csv(&self) -> String {
        let (x, y) = (quoted(&self.x.label), quoted(&self.y.label));
        let mut text = format!("series,{x},{y},low,high\n");
        for series in &self.series {
            for Point { x, y, interval } in series.points.iter().filter(|it| self.shows(it)) {
                let ends = interval.map_or(",".to_owned(), |(low, high)| format!("{low},{high}"));
                let _ = writeln!(text, "{},{x},{y},{ends}", quoted(&series.name));
            }
        }
        text
    }
}

impl Chart {
    /// Both axes with what they have to reach.
    fn ticks(&self) -> Option<(Ticks, Ticks)> {
        let all = || {
            let all = self.series.iter().flat_map(|series| &series.points);
            all.filter(|point| self.shows(point))
        };
        // An interval of two repeats may be longer than everything else: it is cut where it would hide the rest.
        let highest = all().map(|point| point.y).fold(0.0, f64::max) * CUT;
        // Downwards a logarithmic axis has no end: an interval that reaches to nothing would press all else to its top.
        let lowest = match self.y.log {
            true => all().map(|point| point.y).fold(f64::INFINITY, f64::min) / CUT,
            false => self.y.from.unwrap_or(f64::NEG_INFINITY),
        };
        let ends = all().flat_map(|point| {
            let (low, high) = point.interval.unwrap_or((point.y, point.y));
            [low.max(lowest).min(point.y), high.min(highest).max(point.y)]
        });
        let limits = self.limits.iter().map(|(value, _)| *value);
        let fits = |value: &f64| value.is_finite() && (!self.y.log || *value > 0.0);
        let x = self.x.ticks(all().map(|point| point.x))?;
        let y = self.y.ticks(ends.chain(limits).filter(fits))?;
        Some((x, y))
    }

    /// Whether a point has a place on the axes.
    fn shows(&self, point: &Point) -> bool {
        let fits = |value: f64, axis: &Axis| value.is_finite() && (!axis.log || value > 0.0);
        fits(point.x, &self.x) && fits(point.y, &self.y)
    }

    /// Marks at the same place would hide each other, and their intervals still more: they stand side by side. For each series
    /// how far to the right it is moved; and the room at both ends of the axis, so that no mark leaves the plot.
    fn aside(&self) -> (Vec<f64>, f64) {
        let is_moved = |series: &&Series| series.look == Look::Line && !series.points.is_empty();
        let more = self
            .series
            .iter()
            .filter(is_moved)
            .count()
            .saturating_sub(1) as f64;
        let step = ASIDE.min(ASIDE_ALL / more.max(1.0));
        let first = -step * more / 2.0;
        let mut next = first;
        let shift = |series: &Series| {
            let at = next;
            next += if is_moved(&series) { step } else { 0.0 };
            if is_moved(&series) { at } else { 0.0 }
        };
        let shifts = self.series.iter().map(shift).collect();
        let has_marks = self.series.iter().any(|series| series.look.has_marks());
        (shifts, if has_marks { 6.0 - first } else { 0.0 })
    }
}

/// Looks that can be told apart without colours.
pub const LOOKS: usize = 8;

impl Look {
    fn has_marks(self) -> bool {
        matches!(self, Look::Line | Look::Marks)
    }

    /// The class of its line.
    fn line(self, look: usize) -> String {
        let thin = if self == Look::Beside { " thin" } else { "" };
        format!("line c{look}{thin}")
    }
}

/// From mark to mark of one place, and of all of them at most.
const ASIDE: f64 = 5.0;
const ASIDE_ALL: f64 = 26.0;

/// The curves of a table that [`Chart::csv`] has written.
pub(super) fn again(table: &str) -> Vec<Series> {
    let mut all: Vec<Series> = Vec::new();
    for line in table.lines().skip(1) {
        let fields: Vec<&str> = line.rsplitn(5, ',').collect();
        let [_, _, y, x, name] = fields.as_slice() else {
            continue;
        };
        let (Ok(x), Ok(y)) = (x.parse(), y.parse()) else {
            continue;
        };
        let point = Point::at(x, y);
        match all.last_mut().filter(|series| series.name == *name) {
            Some(series) => series.points.push(point),
            None => all.push(Series::of(*name, Look::Curve, [point])),
        }
    }
    all
}

/// All of them in one path, and none where there is one already: a message each is many.
fn dots(svg: &mut Svg, look: usize, points: &[(f64, f64)]) {
    let mut there: HashSet<(i64, i64)> = HashSet::new();
    let mut path = String::new();
    for (x, y) in points {
        if there.insert(((x * 2.0).round() as i64, (y * 2.0).round() as i64)) {
            let _ = write!(path, "M{x:.1} {y:.1}h0");
        }
    }
    svg.path(&format!("dots c{look}"), path);
}

/// A mark: eight shapes.
fn mark(svg: &mut Svg, shape: usize, (x, y): (f64, f64), colour: usize) {
    let (class, path) = match shape {
        0 => ("mark", "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0"),
        1 => ("mark", "m-3.5 -3.5h7v7h-7z"),
        2 => ("mark", "m0 -4.6l4.4 8h-8.8z"),
        3 => ("mark", "m0 -5l4.5 5l-4.5 5l-4.5 -5z"),
        4 => ("mark", "m0 4.6l4.4 -8h-8.8z"),
        5 => ("cross", "m-4 -4l8 8m0 -8l-8 8"),
        6 => ("cross", "m-5 0h10m-5 -5v10"),
        _ => ("mark", "m-5 -2.5h10v5h-10z"),
    };
    svg.path(
        &format!("{class} c{colour}"),
        format_args!("M{x:.1} {y:.1}{path}"),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn sample() -> Chart {
        Chart {
            title: "Throughput & pairs".to_owned(),
            x: Axis::log("pairs"),
            y: Axis::log("delivered, messages/s"),
            series: vec![
                Series::of(
                    "thalweg <MQTT>",
                    Look::Line,
                    [
                        Point::with_half(10.0, 2000.0, 100.0),
                        Point::with_half(80.0, 17_000.0, f64::NAN),
                    ],
                ),
                Series::of("nothing", Look::Line, [Point::at(0.0, -1.0)]),
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
