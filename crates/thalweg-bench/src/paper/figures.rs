//! The drawings of each study, as `figures.toml` has them, and what all studies have beside them.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

use super::axis::Axis;
use super::bars::Bars;
use super::chart::{Chart, Look, Point, Series, again};
use super::input::{Input, Moment, steps};
use super::swept::{number, swept};
use super::{courses, members};
use crate::cell::{Cell, Load, Row, Workload};
use crate::report::stat::Stat;
use crate::studies::group::{Group, client_of, name_of, payload, way};

/// A drawing and what belongs to it.
#[derive(Clone, Debug)]
pub struct Figure {
    /// The name of its table: `figures/NAME.csv`.
    pub file: String,
    /// None where nothing has a place on its axes.
    pub svg: Option<String>,
    /// Exactly what is drawn.
    pub csv: String,
    /// What it shows and what is to be known.
    pub caption: String,
    /// Which cells it comes from: what `--like` takes.
    pub like: String,
}

/// What can be drawn.
pub trait Drawing {
    fn is_empty(&self) -> bool;
    fn svg(&self) -> Option<String>;
    fn csv(&self) -> String;
}

/// Drawings of some experiments.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Set {
    of: Vec<String>,
    /// Axes with the values that have a drawing of their own.
    #[serde(default)]
    each: Vec<(String, Vec<String>)>,
    figures: Vec<Draft>,
}

/// What a drawing shows.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Draft {
    #[serde(default)]
    kind: DrawingKind,
    file: String,
    title: String,
    /// How lines are called; else by system, way and client.
    #[serde(default)]
    name: String,
    #[serde(default)]
    x: Scale,
    #[serde(default)]
    y: Scale,
    #[serde(default)]
    only: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    limits: Vec<(f64, String)>,
    /// A line of what was offered.
    #[serde(default)]
    offered: bool,
    #[serde(default)]
    beside: Vec<Beside>,
    caption: String,
    like: String,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum DrawingKind {
    #[default]
    Lines,
    Bars,
    Distribution,
    Causes,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Scale {
    #[serde(default)]
    of: String,
    label: String,
    #[serde(default)]
    log: bool,
}

/// A line of figures that were not measured.
#[derive(Deserialize)]
struct Beside {
    name: String,
    points: Vec<(f64, f64)>,
}

static SETS: LazyLock<Vec<Set>> = LazyLock::new(|| {
    let mut file: BTreeMap<String, Vec<Set>> =
        toml::from_str(include_str!("figures.toml")).expect("a test reads it");
    file.remove("set").unwrap_or_default()
});

/// All drawings of a folder.
pub fn all(input: &Input) -> Vec<Figure> {
    let mut figures = Vec::new();
    SETS.iter().for_each(|set| set.draw(input, &mut figures));
    courses::figures(input, &mut figures);
    members::figures(input, &mut figures);
    let is_drawn = |experiment: &str| {
        SETS.iter()
            .any(|set| set.of.iter().any(|of| of == experiment))
    };
    for experiment in input.experiments() {
        if !is_drawn(experiment) && !["E2d", "E5"].contains(&experiment) {
            swept(input, experiment, &mut figures);
        }
    }
    pareto(input, &mut figures);
    timeline(input, &mut figures);
    figures
}

/// Whether a group has one of these values on each of these axes.
fn is_of<'a>(group: &Group, mut axes: impl Iterator<Item = (&'a String, &'a [String])>) -> bool {
    axes.all(|(axis, values)| {
        group
            .cell
            .axes
            .get(axis)
            .is_some_and(|it| values.contains(it))
    })
}

impl Set {
    fn draw(&self, input: &Input, figures: &mut Vec<Figure>) {
        let mut choices: Vec<Vec<(&String, &[String])>> = vec![Vec::new()];
        for (axis, values) in &self.each {
            let with = |choice: Vec<(_, _)>| {
                let one =
                    move |value| [&choice[..], &[(axis, std::slice::from_ref(value))]].concat();
                values.iter().map(one)
            };
            choices = choices.into_iter().flat_map(with).collect();
        }
        for choice in choices {
            let of = |experiment| {
                input
                    .of(experiment)
                    .filter(|group| is_of(group, choice.iter().copied()))
            };
            let groups: Vec<&Group> = self
                .of
                .iter()
                .flat_map(|experiment| of(experiment))
                .collect();
            let first = self.of.first().and_then(|experiment| of(experiment).next());
            for draft in first.iter().flat_map(|_| &self.figures) {
                let only = || {
                    draft
                        .only
                        .iter()
                        .map(|(axis, values)| (axis, values.as_slice()))
                };
                let groups = groups.iter().copied().filter(|group| is_of(group, only()));
                draft.draw(input, &choice, groups.collect(), figures);
            }
        }
    }
}

impl Draft {
    fn draw(
        &self,
        input: &Input,
        choice: &[(&String, &[String])],
        groups: Vec<&Group>,
        figures: &mut Vec<Figure>,
    ) {
        let words = |text: &str| told(text, choice, groups.first().copied());
        let (file, title) = (words(&self.file), words(&self.title));
        let y = of(&self.y.of);
        let drawing: Box<dyn Drawing> = match self.kind {
            DrawingKind::Lines => Box::new(self.lines(title, &groups)),
            DrawingKind::Distribution => {
                let named = groups.iter().map(|group| (self.name_of(group), *group));
                let drawn = input.drawn.get(&file);
                Box::new(ecdf(title, &named.collect::<Vec<_>>(), drawn))
            }
            DrawingKind::Bars => {
                let bar = |group: &&Group| {
                    let stat = y(group)?;
                    Some((self.name_of(group), vec![stat.mean], Some(stat.half)))
                };
                let bars = sorted(groups.iter().filter_map(bar).collect());
                let (x, y) = (&self.x.label, self.y.axis());
                Box::new(Bars::of(title, x, y, &["delivered"], bars))
            }
            DrawingKind::Causes => {
                let (parts, bars) = causes(&groups);
                let (x, y) = (&self.x.label, self.y.axis());
                Box::new(Bars::of(title, x, y, &parts, sorted(bars)))
            }
        };
        push(figures, &file, &*drawing, words(&self.caption), &self.like);
    }

    fn lines(&self, title: String, groups: &[&Group]) -> Chart {
        let x = |group: &Group| number(group.cell.axes.get(&self.x.of)?);
        let all = groups.iter().copied();
        let mut lines = series(all, |group| self.name_of(group), x, of(&self.y.of));
        if self.offered {
            let point = |group: &&Group| Some(Point::at(x(group)?, group.offered_per_s()?.mean));
            let mut offered: Vec<Point> = groups.iter().filter_map(point).collect();
            offered.sort_by(|a, b| a.x.total_cmp(&b.x));
            // All systems are offered the same.
            offered.dedup_by_key(|point| point.x);
            lines.push(Series::of("offered", Look::Beside, offered));
        }
        lines.extend(self.beside.iter().map(|line| {
            let points = line.points.iter().map(|(x, y)| Point::at(*x, *y));
            Series::of(&line.name, Look::Beside, points)
        }));
        Chart {
            limits: self.limits.clone(),
            ..Chart::of(title, self.x.axis(), self.y.axis(), lines)
        }
    }

    fn name_of(&self, group: &Group) -> String {
        let way = way(&group.cell.publish);
        match (group.cell.axes.get("rate"), group.cell.axes.get("timer")) {
            _ if self.name == "way" => way,
            (Some(rate), _) if group.cell.experiment == "E2a" => {
                format!("{way}, one flow of {rate}")
            }
            (_, Some(_)) => format!("{way}, waits of RFC 7252"),
            _ => who(&group.cell) + &client_of(&group.cell),
        }
    }
}

impl Scale {
    fn axis(&self) -> Axis {
        match self.log {
            true => Axis::log(&self.label),
            false => Axis::linear(&self.label),
        }
    }
}

/// A figure of a group.
pub(super) type Of = fn(&Group) -> Option<Stat>;

fn of(name: &str) -> Of {
    match name {
        "delivered_per_s" => Group::delivered_per_s,
        "mean_ms" => Group::mean_ms,
        "mbit" => Group::mbit,
        "wire_bytes" => Group::wire_bytes,
        "wire_ratio" => |group| {
            let bytes = f64::from(group.payload()?);
            group.stat(|row| Some(row.wire_bytes? as f64 / row.delivered.max(1) as f64 / bytes))
        },
        "p50_us" => |group| group.stat(|row| Some(row.response.p50)),
        "p90_us" => |group| group.stat(|row| Some(row.response.p90)),
        "client_us" => {
            |group| group.stat(|row| Some(row.cpu_client_s * 1e6 / row.delivered.max(1) as f64))
        }
        _ => |_| None,
    }
}

/// Words with what is in braces said of a choice, and of the first group.
fn told(text: &str, choice: &[(&String, &[String])], first: Option<&Group>) -> String {
    let mut text = text.to_owned();
    for (axis, values) in choice {
        let value = values.first().map_or("", String::as_str);
        text = text.replace(&format!("{{{axis}}}"), value.trim_end_matches('%'));
        if *axis == "driver" {
            text = text.replace("{client}", &value.replace('-', " "));
        }
    }
    let Some(group) = first else { return text };
    let rate = group.offered_per_s().map_or(0.0, |rate| rate.mean);
    text.replace("{rate}", &format!("{rate:.0}"))
        .replace("{flows}", &group.cell.load.flows().to_string())
        .replace("{offered}", &offered_words(group))
}

/// System and way, as a legend has them.
pub(super) fn who(cell: &Cell) -> String {
    let there = match cell.publish == cell.subscribe {
        true => way(&cell.publish),
        false => format!("{} to {}", way(&cell.publish), way(&cell.subscribe)),
    };
    format!("{} {there}", cell.system)
}

/// Series from groups: a name, a place on the x axis, a value.
pub(super) fn series<'g>(
    groups: impl Iterator<Item = &'g Group>,
    name: impl Fn(&Group) -> String,
    x: impl Fn(&Group) -> Option<f64>,
    y: impl Fn(&Group) -> Option<Stat>,
) -> Vec<Series> {
    let mut by_name: BTreeMap<String, Vec<Point>> = BTreeMap::new();
    for group in groups {
        let (Some(x), Some(y)) = (x(group), y(group)) else {
            continue;
        };
        by_name
            .entry(name(group))
            .or_default()
            .push(Point::with_half(x, y.mean, y.half));
    }
    let line = |(name, mut points): (String, Vec<Point>)| {
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        Series::of(name, Look::Line, points)
    };
    by_name.into_iter().map(line).collect()
}

/// Adds a drawing, if there is something to draw.
pub(super) fn push(
    figures: &mut Vec<Figure>,
    file: &str,
    drawing: &dyn Drawing,
    caption: impl Into<String>,
    like: &str,
) {
    if !drawing.is_empty() {
        figures.push(Figure {
            file: file.to_owned(),
            svg: drawing.svg(),
            csv: drawing.csv(),
            caption: caption.into(),
            like: like.to_owned(),
        });
    }
}

/// What messages of a class are like, and how many of them the study's publisher would send.
fn offered_words(group: &Group) -> String {
    match (&group.cell.workload, &group.cell.load) {
        (Workload::Class { name, seed }, Load::Replay { rate_scale, .. }) => format!(
            "Sizes and distances of `thalweg bench gen {name} --seed {seed}`, each publisher from a place of the day of its \
             own; {rate_scale} times as many messages as one of the study's.",
        ),
        // Before classes had distributions, messages had one size.
        (_, Load::Open { rate, .. }) => {
            format!(
                "{} B a message, {rate:.1} messages/s offered by each publisher.",
                payload(&group.cell).unwrap_or_default()
            )
        }
        _ => String::new(),
    }
}

/// Its name, its parts, half of the interval of its end.
type Bar = (String, Vec<f64>, Option<f64>);

fn sorted(mut bars: Vec<Bar>) -> Vec<Bar> {
    bars.sort_by(|a, b| a.0.cmp(&b.0));
    bars
}

pub(super) fn ecdf(title: String, groups: &[(String, &Group)], drawn: Option<&String>) -> Chart {
    let curve = |(name, group): &(String, &Group)| {
        let histogram = group.response.as_ref().filter(|it| !it.is_empty())?;
        // Losses make seconds of microseconds: milliseconds are between them.
        let points = steps(histogram).into_iter();
        let points = points.map(|(us, y)| Point::at(us * 1e-3, y));
        Some(Series::of(name, Look::Curve, points))
    };
    let mut series: Vec<Series> = groups.iter().filter_map(curve).collect();
    if series.is_empty() {
        series = drawn.map_or_else(Vec::new, |table| again(table));
    }
    series.sort_by(|a, b| a.name.cmp(&b.name));
    Chart::of(
        title,
        Axis::log("response time, ms"),
        Axis::percent("came within it, %"),
        series,
    )
}

/// Bytes by what they were for: the parts, and a bar for each way. Where no capture told causes apart, payload and the rest.
fn causes(groups: &[&Group]) -> (Vec<&'static str>, Vec<Bar>) {
    let mut rows = groups.iter().flat_map(|group| &group.rows);
    let is_told = rows.any(|row| row.more.contains_key(CAUSES[0].0));
    let parts = match is_told {
        true => CAUSES.iter().map(|(_, words)| *words).collect(),
        false => vec![
            "payload, both legs",
            "headers, acknowledgements, repetitions",
        ],
    };
    let bar = |group: &&Group| {
        let whole = group.wire_bytes()?;
        let cause = |name: &str| {
            let per_message = |row: &Row| Some(row.more.get(name)? / row.delivered.max(1) as f64);
            group.stat(per_message).map_or(0.0, |stat| stat.mean)
        };
        let payload = 2.0 * f64::from(group.payload()?);
        let values = match is_told {
            true => CAUSES.iter().map(|(name, _)| cause(name)).collect(),
            false => vec![payload, (whole.mean - payload).max(0.0)],
        };
        Some((way(&group.cell.publish), values, Some(whole.half)))
    };
    (parts, groups.iter().filter_map(bar).collect())
}

/// Bytes by cause as a capture may tell them, and their words.
const CAUSES: [(&str, &str); 7] = [
    ("payload_wire_bytes", "payload"),
    ("protocol_bytes", "protocol"),
    ("transport_bytes", "transport, IP and Ethernet"),
    ("retransmitted_bytes", "sent again"),
    ("ack_bytes", "pure acknowledgements"),
    ("keep_alive_bytes", "keep-alive"),
    ("connection_bytes", "connections"),
];

/// Latency and bytes of everything at one loss, and what nothing else beats in both.
fn pareto(input: &Input, figures: &mut Vec<Figure>) {
    for at in [0.0, 20.0] {
        let (mut lines, mut all) = (Vec::new(), Vec::new());
        let is_it = |group: &&Group| {
            let place = (group.loss_percent(), group.payload());
            place == (at, Some(60)) && group.cell.system == "thalweg"
        };
        for group in input.of("E2b").filter(is_it) {
            let (Some(bytes), Some(ms)) = (group.wire_bytes(), group.mean_ms()) else {
                continue;
            };
            all.push((bytes.mean, ms.mean));
            let point = Point::with_half(bytes.mean, ms.mean, ms.half);
            lines.push(Series::of(group.way(), Look::Marks, [point]));
        }
        if lines.len() < 2 {
            continue;
        }
        // The same way has the same look in every drawing of this kind.
        lines.sort_by(|a: &Series, b| a.name.cmp(&b.name));
        all.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
        let mut front: Vec<Point> = Vec::new();
        for (bytes, ms) in all {
            if front.last().is_none_or(|last| ms < last.y) {
                front.push(Point::at(bytes, ms));
            }
        }
        lines.push(Series::of("nothing is below in both", Look::Beside, front));
        let chart = Chart::of(
            format!("Latency against bytes, 60 B, {at} % loss"),
            Axis::linear("Ethernet B / delivered message"),
            Axis::log("mean response, ms"),
            lines,
        );
        let caption =
            "thalweg. QoS 0 and NON promise nothing: what they deliver is in the table of loss.";
        push(figures, &format!("pareto-{at}"), &chart, caption, "E2b");
    }
}

/// Seconds of the longest trial of each experiment.
fn timeline(input: &Input, figures: &mut Vec<Figure>) {
    for experiment in input.experiments() {
        let longest = input
            .of(experiment)
            .filter_map(|group| Some((group, input.seconds.get(&group.cell.key())?)))
            .filter(|(_, seconds)| seconds.len() > 4)
            .max_by(|a, b| {
                (a.1.len(), uneven(a.1))
                    .partial_cmp(&(b.1.len(), uneven(b.1)))
                    .unwrap_or(std::cmp::Ordering::Equal)
            });
        let Some((group, seconds)) = longest else {
            continue;
        };
        let look = match seconds.len() {
            0..=30 => Look::Line,
            _ => Look::Curve,
        };
        let line = |name: &str, of: fn(&Moment) -> f64| {
            let points = seconds.iter().map(|it| Point::at(it.second, of(it)));
            Series::of(name, look, points)
        };
        let rates = vec![
            line("published", |it| it.sent),
            line("received", |it| it.received),
        ];
        let latency = vec![line("99 %", |it| it.p99_us * 1e-3)];
        let per_second = Axis::linear("messages/s in that second");
        let within = Axis::log("99 % of responses within, ms");
        for (file, what, y, lines) in [
            ("", "a trial", per_second, rates),
            ("-p99", "its latency", within, latency),
        ] {
            let x = Axis::linear("since the warm-up began, s");
            let title = format!("{experiment}: {what}, second by second");
            let file = format!("{}-timeline{file}", experiment.to_lowercase());
            let caption = format!("The longest trial: {}.", name_of(&group.cell));
            let chart = Chart::of(title, x, y, lines);
            push(figures, &file, &chart, caption, experiment);
        }
    }
}

fn uneven(seconds: &[Moment]) -> f64 {
    let received = || seconds.iter().map(|moment| moment.received);
    received().fold(0.0, f64::max) - received().fold(f64::MAX, f64::min)
}
