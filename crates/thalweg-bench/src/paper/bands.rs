//! Bands over time: for each of some rows, which of a few things held from when until when.

use std::fmt::Write as _;

use super::axis::{Axis, shown};
use super::chart::{LEFT, RIGHT, TOP, WIDTH, escaped, key, names_of_axes};
use super::plate::Plate;

#[derive(Clone, Debug)]
pub struct Bands {
    /// What it is called.
    pub title: String,
    pub x: Axis,
    /// What the colours are: names of things.
    pub y: String,
    pub things: Vec<String>,
    /// A row: its name and its bands, from, to and which thing.
    pub rows: Vec<(String, Vec<Band>)>,
}

/// From when, until when, and which thing.
pub type Band = (f64, f64, usize);

const ROW: f64 = 42.0;

impl Bands {
    /// Nothing if there is nothing to draw.
    pub fn plate(&self) -> Option<Plate> {
        let ends = self
            .rows
            .iter()
            .flat_map(|row| &row.1)
            .flat_map(|band| [band.0, band.1]);
        let x = self.x.ticks(ends)?;
        let plot = ROW * self.rows.len() as f64;
        let (right, bottom) = (WIDTH - RIGHT, TOP + plot);
        let to_x = |value: f64| x.place(value, LEFT, right);
        let mut body = String::new();
        for value in &x.major {
            let _ = write!(
                body,
                "<path class=\"grid\" d=\"M{:.1} {TOP}V{bottom}\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                to_x(*value),
                to_x(*value),
                bottom + 17.0,
                shown(*value)
            );
        }
        for (at, (name, bands)) in self.rows.iter().enumerate() {
            let top = TOP + ROW * at as f64;
            let name = escaped(name);
            let _ = write!(
                body,
                "<text class=\"small\" x=\"{:.1}\" y=\"{:.1}\">{name}</text>",
                LEFT + 4.0,
                top + 13.0
            );
            for (from, to, thing) in bands {
                let (from, to) = (to_x(*from), to_x(*to));
                let (low, high) = (top + ROW - 4.0, top + 17.0);
                let _ = write!(
                    body,
                    "<path class=\"bar c{thing}\" d=\"M{from:.1} {low:.1}V{high:.1}H{to:.1}V{low:.1}z\"/>"
                );
            }
        }
        names_of_axes(&mut body, (&self.x.label, bottom + 35.0), &self.y, plot);
        let at = key(
            &mut body,
            self.things.iter().map(String::as_str).enumerate(),
            bottom + 57.0,
        );
        Some(Plate::new(&self.title, at + 8.0, &body))
    }
}
