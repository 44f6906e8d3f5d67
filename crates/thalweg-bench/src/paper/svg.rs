//! Drawings in SVG that live in a page: colours come from the page's style, so that they are right in light and in dark, and
//! letters are so large that they can still be read where a phone shows the drawing at three quarters of its size. Why not by a
//! library: ADR 0108.
//!
//! *Knows:* how to draw. Numbers come ready from elsewhere.

use std::fmt::{Display, Write as _};

use super::axis::{Ticks, shown};
use crate::report::document::escaped;

/// So wide is every drawing, in its own units; letters have 12 to 14 of them.
pub const WIDTH: f64 = 480.0;
/// Both ends of the plot, where it begins and how high it is.
pub(super) const LEFT: f64 = 62.0;
pub(super) const RIGHT: f64 = WIDTH - 12.0;
pub(super) const TOP: f64 = 30.0;
pub(super) const PLOT: f64 = 220.0;
/// Room below the plot for the numbers and the name of the x axis.
pub(super) const FOOT: f64 = 44.0;
/// No whisker reaches beyond so many times the highest point.
pub(super) const CUT: f64 = 1.6;

/// A drawing that is being written.
#[derive(Debug, Default)]
pub(super) struct Svg(String);

impl Svg {
    pub(super) fn path(&mut self, class: &str, path: impl Display) {
        let _ = write!(self.0, "<path class=\"{class}\" d=\"{path}\"/>");
    }

    /// Words of a class, if they have one, where they begin or where `anchor` says.
    pub(super) fn text(&mut self, class: &str, (x, y): (f64, f64), anchor: &str, words: &str) {
        self.words(
            class,
            format_args!("x=\"{x:.1}\" y=\"{y:.1}\""),
            anchor,
            words,
        );
    }

    /// The same, on end.
    pub(super) fn upright(&mut self, class: &str, place: impl Display, anchor: &str, words: &str) {
        let place = format_args!("transform=\"translate({place}) rotate(-90)\"").to_string();
        self.words(class, place, anchor, words);
    }

    fn words(&mut self, class: &str, place: impl Display, anchor: &str, words: &str) {
        let attribute = |name: &str, value: &str| match value {
            "" => String::new(),
            _ => format!("{name}=\"{value}\""),
        };
        let (class, anchor) = (attribute("class", class), attribute("text-anchor", anchor));
        let place = place.to_string();
        let all: Vec<&str> = [class.as_str(), &place, &anchor]
            .into_iter()
            .filter(|it| !it.is_empty())
            .collect();
        let _ = write!(self.0, "<text {}>{}</text>", all.join(" "), escaped(words));
    }

    /// Lines and numbers of a y axis.
    pub(super) fn rows(&mut self, y: &Ticks) {
        for value in &y.major {
            let at = y.place(*value, TOP + PLOT, TOP);
            self.path("grid", format_args!("M{LEFT} {at:.1}H{RIGHT}"));
            self.text("", (LEFT - 6.0, at + 4.5), "end", &shown(*value));
        }
    }

    /// Lines and numbers of an x axis.
    pub(super) fn columns(&mut self, x: &Ticks, to_x: impl Fn(f64) -> f64) {
        let bottom = TOP + PLOT;
        for value in &x.major {
            let (at, words) = (to_x(*value), shown(*value));
            self.path("grid", format_args!("M{at:.1} {TOP}V{bottom}"));
            // The last one must not reach beyond the drawing.
            let middle = at.min(WIDTH - 1.0 - width(&words) * 0.55);
            self.text("", (middle, bottom + 17.0), "middle", &words);
        }
    }

    /// The names of both axes, that of x at its height, and the frame.
    pub(super) fn names_of_axes(&mut self, x: &str, height: f64, y: &str) {
        self.path(
            "frame",
            format_args!("M{LEFT} {TOP}V{}H{RIGHT}", TOP + PLOT),
        );
        self.text("name", ((LEFT + RIGHT) / 2.0, height), "middle", x);
        self.upright(
            "name",
            format_args!("14 {:.1}", TOP + PLOT / 2.0),
            "middle",
            y,
        );
    }

    /// Names below the plot from a height on, as many in a row as there is room for, each behind a sample; returns the height
    /// of the whole drawing.
    pub(super) fn legend<'n, F: Fn(&mut Svg, f64, f64)>(
        &mut self,
        mut y: f64,
        indent: f64,
        samples: impl Iterator<Item = (&'n str, F)>,
    ) -> f64 {
        let mut x = 8.0;
        for (name, draw) in samples {
            let room = indent + width(name) + 14.0;
            if x + room > WIDTH && x > 8.0 {
                (x, y) = (8.0, y + 18.0);
            }
            draw(self, x, y);
            self.text("", (x + indent, y), "", name);
            x += room;
        }
        y + 8.0
    }

    /// A drawing for a page that has the style, with its title above it.
    pub(super) fn framed(self, title: &str, height: f64) -> String {
        let (title, body) = (escaped(title), self.0);
        format!(
            "<svg class=\"chart\" viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\"><title>{title}</title>\
             <text class=\"title\" x=\"8\" y=\"17\">{title}</text>{body}</svg>"
        )
    }
}

/// About how wide words are.
pub(super) fn width(words: &str) -> f64 {
    words.chars().count() as f64 * 6.9
}

/// The same of small ones.
pub(super) fn small_width(words: &str) -> f64 {
    width(words) * 0.92
}
