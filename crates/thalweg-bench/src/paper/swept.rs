//! The drawings of whatever a scenario sweeps.

use std::collections::{BTreeMap, BTreeSet};

use super::axis::Axis;
use super::chart::{Chart, LOOKS};
use super::figures::{Figure, Of, ecdf, push, series, who};
use super::input::Input;
use crate::studies::group::Group;

/// Whatever a scenario sweeps: its numeric axes to the right, everything else a line.
pub(super) fn swept(input: &Input, experiment: &str, figures: &mut Vec<Figure>) {
    let groups: Vec<&Group> = input.of(experiment).collect();
    let mut axes: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (axis, value) in groups.iter().flat_map(|group| &group.cell.axes) {
        axes.entry(axis).or_default().insert(value);
    }
    axes.retain(|_, values| values.len() > 1);
    for (axis, values) in &axes {
        let Some(unit) = unit_of(values.iter().copied()) else {
            continue;
        };
        let words = with_unit(axis, unit);
        let named = |group: &Group| {
            let others = axes.keys().filter(|other| *other != axis);
            let others = others.filter_map(|other| {
                let value = group.cell.axes.get(*other)?;
                // Words say of themselves what they are.
                Some(match number(value) {
                    Some(_) => format!("{other} {value}"),
                    None => value.clone(),
                })
            });
            or_who(group, others.collect::<Vec<_>>().join(", "))
        };
        let x = |group: &Group| number(group.cell.axes.get(*axis)?);
        let charts: [(&str, &str, Of); 4] = [
            ("delivered", "delivered, messages/s", Group::delivered_per_s),
            ("p50", "median of the response, us", |group| {
                group.stat(|row| Some(row.response.p50))
            }),
            ("p99", "99 % of responses within, us", |group| {
                group.stat(|row| Some(row.response.p99))
            }),
            ("bytes", "Ethernet B / delivered message", Group::wire_bytes),
        ];
        for (file, unit, of) in charts {
            let lines = series(groups.iter().copied(), named, x, of);
            for (at, some) in lines.chunks(LOOKS).enumerate() {
                let more = match at {
                    0 => String::new(),
                    _ => format!("-{}", at + 1),
                };
                let title = format!("{experiment}: {}", unit.split(',').next().unwrap_or(unit));
                let x = Axis {
                    from: None,
                    ..Axis::linear(&words)
                };
                let chart = Chart::of(title, x, Axis::linear(unit), some.to_vec());
                let name = format!("{}-{}-{file}{more}", plain(experiment), plain(axis));
                let caption = "Whiskers: 95 % intervals over repeats.";
                push(figures, &name, &chart, caption, experiment);
            }
        }
    }
    for (at, some) in groups.chunks(LOOKS).enumerate() {
        let named = |group: &&Group| {
            let values = axes.keys().filter_map(|axis| group.cell.axes.get(*axis));
            let values: Vec<&str> = values.map(String::as_str).collect();
            or_who(group, values.join(" "))
        };
        let named: Vec<(String, &Group)> =
            some.iter().map(|group| (named(group), *group)).collect();
        let file = format!("{}-ecdf-{}", plain(experiment), at + 1);
        let title = format!("{experiment}: response times");
        let chart = ecdf(title, &named, input.drawn.get(&file));
        let caption = "From when a message was to be sent.";
        push(figures, &file, &chart, caption, experiment);
    }
}

/// Words that tell a group from others; where there are none, its system and way.
fn or_who(group: &Group, words: String) -> String {
    match words.is_empty() {
        true => who(&group.cell),
        false => words,
    }
}

/// The number that a value begins with, if what follows is a unit.
pub(super) fn number(value: &str) -> Option<f64> {
    split(value).map(|(number, _)| number)
}

fn split(value: &str) -> Option<(f64, &str)> {
    let end = value
        .find(|c: char| !c.is_ascii_digit() && c != '.' && c != '-')
        .unwrap_or(value.len());
    let (digits, unit) = value.split_at(end);
    let is_unit = unit.len() <= 5
        && unit
            .chars()
            .all(|c| c.is_ascii_alphabetic() || "%/".contains(c));
    digits
        .parse()
        .ok()
        .filter(|_| is_unit)
        .map(|number| (number, unit))
}

/// The unit that all of these numbers have: 500 ms and 1 s have no place on one axis.
fn unit_of<'a>(values: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let mut units = values.map(|value| split(value).map(|(_, unit)| unit));
    let first = units.next()??;
    units.all(|unit| unit == Some(first)).then_some(first)
}

/// The name of an axis with its unit; one that counts has none.
fn with_unit(axis: &str, unit: &str) -> String {
    match (axis, unit) {
        ("payload" | "size", "") => format!("{axis}, B"),
        ("loss", "") => format!("{axis}, %"),
        (_, "") => axis.to_owned(),
        _ => format!("{axis}, {unit}"),
    }
}

fn plain(name: &str) -> String {
    let name = name.to_ascii_lowercase();
    name.replace(|c: char| !c.is_ascii_alphanumeric(), "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_swept_has_the_unit_of_its_values() {
        let words = |axis: &str, values: &[&str]| {
            unit_of(values.iter().copied()).map(|unit| with_unit(axis, unit))
        };
        for (axis, values, expected) in [
            ("payload", ["60", "2000"], Some("payload, B")),
            ("loss", ["0%", "2.5%"], Some("loss, %")),
            ("delay", ["5ms", "50ms"], Some("delay, ms")),
            ("flows", ["1", "10"], Some("flows")),
            // Their numbers cannot be compared.
            ("delay", ["500ms", "1s"], None),
            ("way", ["mqtt-q0", "mqtt-q1"], None),
        ] {
            assert_eq!(words(axis, &values).as_deref(), expected, "{axis}");
        }
    }
}
