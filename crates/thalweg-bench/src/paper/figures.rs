//! The drawings of each study, and those of whatever else was swept.

use std::collections::BTreeMap;

use super::axis::Axis;
use super::bars::Bars;
use super::chart::{Chart, LOOKS, Look, Point, Series, again};
use super::input::{Input, steps};
use super::{courses, members};
use crate::cell::{Cell, Load, Row, Workload};
use crate::report::stat::Stat;
use crate::studies::group::{Group, client_of, name_of, payload, way};
use crate::studies::{e2, e3};

/// A drawing and what belongs to it.
#[derive(Clone, Debug)]
pub struct Figure {
    /// The name of its table: `figures/NAME.csv`.
    pub file: String,
    pub drawing: Drawing,
    /// What it shows and what is to be known.
    pub caption: String,
    /// Which cells it comes from: what `--like` takes.
    pub like: String,
}

/// One of two kinds.
#[derive(Clone, Debug)]
pub enum Drawing {
    Chart(Chart),
    Bars(Bars),
}

impl Drawing {
    pub fn svg(&self) -> Option<String> {
        match self {
            Drawing::Chart(chart) => chart.svg(),
            Drawing::Bars(bars) => bars.svg(),
        }
    }

    pub fn csv(&self) -> String {
        match self {
            Drawing::Chart(chart) => chart.csv(),
            Drawing::Bars(bars) => bars.csv(),
        }
    }
}

impl From<Chart> for Drawing {
    fn from(chart: Chart) -> Drawing {
        Drawing::Chart(chart)
    }
}

impl From<Bars> for Drawing {
    fn from(bars: Bars) -> Drawing {
        Drawing::Bars(bars)
    }
}

/// All drawings of a folder.
pub fn all(input: &Input) -> Vec<Figure> {
    let mut figures = Vec::new();
    for experiment in input.experiments() {
        match experiment {
            "E1a" => throughput(input, &mut figures),
            "E1b" => ceilings(input, &mut figures),
            "E1c" => by_class(input, &mut figures),
            "E2a" => {}
            "E2b" => lossy(input, &mut figures),
            "E2c" => overhead(input, &mut figures),
            "E2d" => courses::figures(input, &mut figures),
            "E3a" => floods(input, &mut figures),
            "E3b" => periodic(input, &mut figures),
            "E4a" => device(input, "E4a", "payload", "payload, characters", &mut figures),
            "E4b" => device(
                input,
                "E4b",
                "interval",
                "pause between messages, ms",
                &mut figures,
            ),
            "E5" => members::figures(input, &mut figures),
            other => swept(input, other, &mut figures),
        }
    }
    pareto(input, &mut figures);
    timeline(input, &mut figures);
    figures
}

/// A figure of a group.
type Of = fn(&Group) -> Option<Stat>;

/// System and way, as a legend has them.
fn who(cell: &Cell) -> String {
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
        Series {
            name,
            look: Look::Line,
            points,
        }
    };
    by_name.into_iter().map(line).collect()
}

/// Adds a drawing, if there is something to draw.
pub(super) fn push(
    figures: &mut Vec<Figure>,
    file: &str,
    drawing: impl Into<Drawing>,
    caption: impl Into<String>,
    like: &str,
) {
    let drawing = drawing.into();
    let is_there = match &drawing {
        Drawing::Chart(chart) => chart.series.iter().any(|it| !it.points.is_empty()),
        Drawing::Bars(bars) => bars.svg().is_some(),
    };
    if is_there {
        figures.push(Figure {
            file: file.to_owned(),
            drawing,
            caption: caption.into(),
            like: like.to_owned(),
        });
    }
}

fn axis_is(group: &Group, axis: &str, value: &str) -> bool {
    group.cell.axes.get(axis).is_some_and(|is| is == value)
}

const CLASSES: [&str; 3] = ["simple", "complex", "multimedia"];

fn throughput(input: &Input, figures: &mut Vec<Figure>) {
    for class in CLASSES {
        let of_class = || {
            input
                .of("E1a")
                .filter(|group| axis_is(group, "class", class))
        };
        let Some(first) = of_class().next() else {
            continue;
        };
        let pairs = |group: &Group| Some(f64::from(group.cell.load.flows()));
        let mut lines = series(
            of_class(),
            |group| who(&group.cell),
            pairs,
            Group::delivered_per_s,
        );
        let mut offered: Vec<Point> = of_class()
            .filter_map(|group| Some(Point::at(pairs(group)?, group.offered_per_s()?.mean)))
            .collect();
        offered.sort_by(|a, b| a.x.total_cmp(&b.x));
        // All systems are offered the same.
        offered.dedup_by_key(|point| point.x);
        lines.push(Series {
            name: "offered".to_owned(),
            look: Look::Beside,
            points: offered,
        });
        let chart = Chart::of(
            format!("E1a {class}: throughput against pairs"),
            Axis::log("pairs of publisher and subscriber"),
            Axis::log("delivered, messages/s"),
            lines,
        );
        let caption = format!(
            "{} Who keeps up lies on the line of what was offered. Whiskers: 95 % intervals over repeats.",
            offered_words(first)
        );
        push(figures, &format!("e1a-{class}"), chart, caption, "E1a");
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

fn ceilings(input: &Input, figures: &mut Vec<Figure>) {
    for class in CLASSES {
        let bars = input
            .of("E1b")
            .filter(|group| axis_is(group, "class", class))
            .filter_map(|group| {
                let rate = group.delivered_per_s()?;
                let name = who(&group.cell) + &client_of(&group.cell);
                Some((name, vec![rate.mean], Some(rate.half)))
            });
        let drawing = Bars::of(
            format!("E1b {class}: as fast as it goes"),
            "system and protocol",
            Axis::linear("delivered, messages/s"),
            &["delivered"],
            sorted(bars.collect()),
        );
        let caption = "40 pairs that publish as fast as the broker takes it. Broker and clients share the machine, and the \
                       clients differ: what is compared is a broker with its client.";
        push(figures, &format!("e1b-{class}"), drawing, caption, "E1b");
    }
}

fn sorted(mut bars: Vec<(String, Vec<f64>, Option<f64>)>) -> Vec<(String, Vec<f64>, Option<f64>)> {
    bars.sort_by(|a, b| a.0.cmp(&b.0));
    bars
}

fn ecdf(title: String, groups: &[(String, &Group)], drawn: Option<&String>) -> Chart {
    let curve = |(name, group): &(String, &Group)| {
        let histogram = group
            .response
            .as_ref()
            .filter(|histogram| !histogram.is_empty())?;
        // Losses make seconds of microseconds: milliseconds are between them.
        let points = steps(histogram)
            .into_iter()
            .map(|(us, y)| Point::at(us * 1e-3, y))
            .collect();
        Some(Series {
            name: name.clone(),
            look: Look::Curve,
            points,
        })
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

fn by_class(input: &Input, figures: &mut Vec<Figure>) {
    for class in CLASSES {
        let groups: Vec<(String, &Group)> = input
            .of("E1c")
            .filter(|group| axis_is(group, "class", class))
            .map(|group| (who(&group.cell) + &client_of(&group.cell), group))
            .collect();
        let Some((_, first)) = groups.first() else {
            continue;
        };
        let rate = first.offered_per_s().map_or(0.0, |rate| rate.mean);
        let file = format!("e1c-{class}");
        let chart = ecdf(
            format!("E1c {class}: latency"),
            &groups,
            input.drawn.get(&file),
        );
        let caption = format!(
            "Response times at {rate:.0} messages/s over {} publishers; from when a message was to be sent.",
            first.cell.load.flows()
        );
        push(figures, &file, chart, caption, "E1c");
    }
}

fn lossy(input: &Input, figures: &mut Vec<Figure>) {
    let loss = |group: &Group| Some(group.loss_percent());
    let of = |bytes: u32| {
        input
            .of("E2b")
            .filter(move |group| group.payload() == Some(bytes))
    };
    let named = |group: &Group| who(&group.cell);
    let is_sure = |group: &&Group| group.cell.publish.qos > 0;
    let delay = Chart::of(
        "E2a: delay against loss, 60 B",
        Axis::linear("packets lost in each direction, %"),
        Axis::log("mean response, ms"),
        series(of(60).filter(is_sure), named, loss, Group::mean_ms),
    );
    let caption = "Mean time from when a message was to be published until the subscriber had it; both legs lose packets, \
                   acknowledgements too.";
    push(figures, "e2a-delay", delay, caption, "E2b");
    let variants: Vec<Series> = series(
        input.of("E2a"),
        |group| match (
            group.cell.axes.get("rate"),
            group.cell.axes.contains_key("timer"),
        ) {
            (Some(rate), _) => format!("{}, one flow of {rate}", way(&group.cell.publish)),
            (_, true) => format!("{}, waits of RFC 7252", way(&group.cell.publish)),
            _ => who(&group.cell),
        },
        loss,
        Group::mean_ms,
    );
    let chart = Chart::of(
        "E2a: delay where something is different, 60 B",
        Axis::linear("packets lost in each direction, %"),
        Axis::log("mean response, ms"),
        variants,
    );
    push(
        figures,
        "e2a-variants",
        chart,
        "thalweg, 60 B: one quick flow, and CoAP whose broker does not go by round trips.",
        "E2a",
    );
    for at in [0.0, 25.0] {
        let groups: Vec<(String, &Group)> = of(60)
            .filter(|group| group.loss_percent() == at && group.cell.publish.qos > 0)
            .map(|group| (who(&group.cell), group))
            .collect();
        let file = format!("e2a-ecdf-{at}");
        let chart = ecdf(
            format!("E2a: response times at {at} % loss, 60 B"),
            &groups,
            input.drawn.get(&file),
        );
        push(
            figures,
            &file,
            chart,
            "What came; what never came is in the table below.",
            "E2b",
        );
    }
    for bytes in [60, 600, 2000] {
        let chart = Chart::of(
            format!("E2b: bytes on the wire against loss, {bytes} B"),
            Axis::linear("packets lost in each direction, %"),
            Axis::linear("Ethernet B / delivered message"),
            series(
                of(bytes).filter(|group| is_ours(group)),
                named,
                loss,
                Group::wire_bytes,
            ),
        );
        let caption = "Frames of both legs and both directions, lost ones included; what set connections up is not in it. CoAP \
                       sends more than 1,024 bytes block by block.";
        push(
            figures,
            &format!("e2b-bytes-{bytes}"),
            chart,
            caption,
            "E2b",
        );
        let others = series(
            of(bytes).filter(|group| !is_ours(group)),
            named,
            loss,
            Group::wire_bytes,
        );
        let chart = Chart::of(
            format!("E2b: the same with other brokers, {bytes} B"),
            Axis::linear("packets lost in each direction, %"),
            Axis::linear("Ethernet B / delivered message"),
            others,
        );
        push(
            figures,
            &format!("e2b-bytes-{bytes}-baselines"),
            chart,
            "The brokers that the study used.",
            "E2b",
        );
    }
    for at in [0.0, 20.0] {
        causes(input, at, figures);
    }
}

fn is_ours(group: &Group) -> bool {
    group.cell.system == "thalweg"
}

/// Bytes by what they were for. Where no capture told causes apart, payload and the rest.
fn causes(input: &Input, loss: f64, figures: &mut Vec<Figure>) {
    let groups: Vec<&Group> = input
        .of("E2b")
        .filter(|group| {
            group.payload() == Some(60) && group.loss_percent() == loss && is_ours(group)
        })
        .collect();
    let is_told = groups.iter().any(|group| {
        group
            .rows
            .iter()
            .any(|row| row.more.contains_key(CAUSES[0].0))
    });
    let parts: Vec<&str> = match is_told {
        true => CAUSES.iter().map(|(_, words)| *words).collect(),
        false => vec![
            "payload, both legs",
            "headers, acknowledgements, repetitions",
        ],
    };
    let bars = groups
        .iter()
        .filter_map(|group| {
            let whole = group.wire_bytes()?;
            let values: Vec<f64> = if !is_told {
                let payload = 2.0 * f64::from(group.payload()?);
                vec![payload, (whole.mean - payload).max(0.0)]
            } else {
                let cause = |name: &str| {
                    let per_message =
                        |row: &Row| Some(row.more.get(name)? / row.delivered.max(1) as f64);
                    group.stat(per_message).map_or(0.0, |stat| stat.mean)
                };
                CAUSES.iter().map(|(name, _)| cause(name)).collect()
            };
            Some((way(&group.cell.publish), values, Some(whole.half)))
        })
        .collect();
    let drawing = Bars::of(
        format!("E2b: what the bytes are for, 60 B, {loss} % loss"),
        "way",
        Axis::linear("Ethernet B / delivered message"),
        &parts,
        sorted(bars),
    );
    let caption = "thalweg; both legs and both directions.";
    push(
        figures,
        &format!("e2b-causes-{loss}"),
        drawing,
        caption,
        "E2b",
    );
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

fn overhead(input: &Input, figures: &mut Vec<Figure>) {
    let all = || input.of("E2c").chain(input.of("E2b"));
    let mut losses: Vec<f64> = input.of("E2c").map(Group::loss_percent).collect();
    losses.sort_by(f64::total_cmp);
    losses.dedup();
    for at in losses {
        let size = |group: &Group| group.payload().map(f64::from);
        let ratio = |group: &Group| {
            let bytes = f64::from(group.payload()?);
            group.stat(|row| Some(row.wire_bytes? as f64 / row.delivered.max(1) as f64 / bytes))
        };
        let is_of = |group: &&Group| group.loss_percent() == at && group.cell.publish.qos == 1;
        let mut lines = series(all().filter(is_of), |group| who(&group.cell), size, ratio);
        if at == 0.0 {
            for (name, reckoned) in [
                ("reckoned QoS 1", e2::RECKONED_QOS1),
                ("reckoned CON in fragments", e2::RECKONED_CON),
            ] {
                let points = e2::SIZES
                    .iter()
                    .zip(reckoned)
                    .map(|(size, bytes)| Point::at(f64::from(*size), bytes / f64::from(*size)));
                lines.push(Series {
                    name: name.to_owned(),
                    look: Look::Beside,
                    points: points.collect(),
                });
            }
        }
        let chart = Chart {
            title: format!("E2c: bytes per byte of payload, {at} % loss"),
            x: Axis::log("payload, B"),
            y: Axis::log("Ethernet bytes / payload bytes"),
            series: lines,
            limits: vec![(2.0, "nothing but payload, twice".to_owned())],
        };
        let caption = "Both legs, at least once. CON above 1,024 bytes goes block by block.";
        push(figures, &format!("e2c-ratio-{at}"), chart, caption, "E2");
    }
}

fn floods(input: &Input, figures: &mut Vec<Figure>) {
    for topology in ["1-1", "1-7"] {
        let groups = || {
            input
                .of("E3a")
                .filter(|group| axis_is(group, "topology", topology))
        };
        let link = e3::LINK_BITS as f64 * 1e-6;
        let limits = match topology {
            "1-7" => vec![(link / 7.0, "a seventh of the link".to_owned())],
            _ => vec![(link, "link".to_owned())],
        };
        let size = |group: &Group| group.payload().map(f64::from);
        let chart = Chart {
            title: format!("E3a {topology}: throughput against payload"),
            x: Axis::log("payload, B"),
            y: Axis::log("payload / subscriber, Mbit/s"),
            series: series(groups(), |group| who(&group.cell), size, Group::mbit),
            limits,
        };
        let caption = "As fast as it goes over 95 Mbit/s; window 1 is one message at a time, as in the study.";
        push(figures, &format!("e3a-{topology}"), chart, caption, "E3a");
    }
}

fn periodic(input: &Input, figures: &mut Vec<Figure>) {
    let rate = |group: &Group| {
        if let Load::Open { rate, .. } = group.cell.load {
            Some(rate)
        } else {
            None
        }
    };
    let mut sizes: Vec<u32> = input.of("E3b").filter_map(Group::payload).collect();
    sizes.sort_unstable();
    sizes.dedup();
    for size in sizes {
        let groups = || {
            input
                .of("E3b")
                .filter(|group| group.payload() == Some(size))
        };
        let named = |group: &Group| who(&group.cell);
        let chart = Chart::of(
            format!("E3b: 90 % latency against rate, {size} B"),
            Axis::linear("offered, messages/s"),
            Axis::log("90 % of responses within, us"),
            series(groups(), named, rate, |group| {
                group.stat(|row| Some(row.response.p90))
            }),
        );
        push(
            figures,
            &format!("e3b-p90-{size}"),
            chart,
            "Beside it: what was really delivered.",
            "E3b",
        );
        let chart = Chart::of(
            format!("E3b: achieved rate, {size} B"),
            Axis::linear("offered, messages/s"),
            Axis::linear("delivered, messages/s"),
            series(groups(), named, rate, Group::delivered_per_s),
        );
        push(
            figures,
            &format!("e3b-rate-{size}"),
            chart,
            "A latency counts only where the load was carried.",
            "E3b",
        );
    }
}

fn device(input: &Input, experiment: &str, axis: &str, label: &str, figures: &mut Vec<Figure>) {
    let x = |group: &Group| number(group.cell.axes.get(axis)?);
    let mut kinds: Vec<(String, String)> = input
        .of(experiment)
        .map(|group| {
            (
                group.cell.system.clone(),
                group.cell.axes.get("driver").cloned().unwrap_or_default(),
            )
        })
        .collect();
    kinds.sort();
    kinds.dedup();
    for (system, driver) in kinds {
        let groups = || {
            input
                .of(experiment)
                .filter(|group| group.cell.system == system && axis_is(group, "driver", &driver))
        };
        let named = |group: &Group| way(&group.cell.publish);
        let words = format!("{system}, {}", driver.replace('-', " "));
        let name = format!("{}-{system}-{driver}", experiment.to_lowercase());
        let charts: [(&str, &str, &str, Of); 3] = [
            (
                "rtt",
                "median round trip",
                "median round trip, us",
                |group| group.stat(|row| Some(row.response.p50)),
            ),
            (
                "cpu",
                "processor of the client",
                "client processor, us/message",
                |group| {
                    group.stat(|row| Some(row.cpu_client_s * 1e6 / row.delivered.max(1) as f64))
                },
            ),
            (
                "bytes",
                "bytes on the wire",
                "Ethernet B / message",
                Group::wire_bytes,
            ),
        ];
        for (file, what, unit, of) in charts {
            let chart = Chart::of(
                format!("{experiment}: {what} ({words})"),
                Axis::linear(label),
                Axis::linear(unit),
                series(groups(), named, x, of),
            );
            let caption =
                "One client publishes and hears itself; whiskers are 95 % intervals over repeats.";
            push(
                figures,
                &format!("{name}-{file}"),
                chart,
                caption,
                experiment,
            );
        }
    }
}

/// Latency and bytes of everything at one loss, and what nothing else beats in both.
fn pareto(input: &Input, figures: &mut Vec<Figure>) {
    for at in [0.0, 20.0] {
        let mut lines = Vec::new();
        let mut all = Vec::new();
        let groups = input
            .of("E2b")
            .filter(|group| group.loss_percent() == at && group.payload() == Some(60));
        for group in groups.filter(|group| is_ours(group)) {
            let (Some(bytes), Some(ms)) = (group.wire_bytes(), group.mean_ms()) else {
                continue;
            };
            all.push((bytes.mean, ms.mean));
            let points = vec![Point::with_half(bytes.mean, ms.mean, ms.half)];
            lines.push(Series {
                name: way(&group.cell.publish),
                look: Look::Marks,
                points,
            });
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
        lines.push(Series {
            name: "nothing is below in both".to_owned(),
            look: Look::Beside,
            points: front,
        });
        let chart = Chart::of(
            format!("Latency against bytes, 60 B, {at} % loss"),
            Axis::linear("Ethernet B / delivered message"),
            Axis::log("mean response, ms"),
            lines,
        );
        let caption =
            "thalweg. QoS 0 and NON promise nothing: what they deliver is in the table of loss.";
        push(figures, &format!("pareto-{at}"), chart, caption, "E2b");
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
        let line = |name: &str, of: fn(&super::input::Moment) -> f64| Series {
            name: name.to_owned(),
            look: if seconds.len() > 30 {
                Look::Curve
            } else {
                Look::Line
            },
            points: seconds
                .iter()
                .map(|moment| Point::at(moment.second, of(moment)))
                .collect(),
        };
        let name = format!("The longest trial: {}.", name_of(&group.cell));
        let chart = Chart::of(
            format!("{experiment}: a trial, second by second"),
            Axis::linear("since the warm-up began, s"),
            Axis::linear("messages/s in that second"),
            vec![
                line("published", |moment| moment.sent),
                line("received", |moment| moment.received),
            ],
        );
        push(
            figures,
            &format!("{}-timeline", experiment.to_lowercase()),
            chart,
            name.clone(),
            experiment,
        );
        let chart = Chart::of(
            format!("{experiment}: its latency, second by second"),
            Axis::linear("since the warm-up began, s"),
            Axis::log("99 % of responses within, ms"),
            vec![line("99 %", |moment| moment.p99_us * 1e-3)],
        );
        push(
            figures,
            &format!("{}-timeline-p99", experiment.to_lowercase()),
            chart,
            name,
            experiment,
        );
    }
}

fn uneven(seconds: &[super::input::Moment]) -> f64 {
    let most = seconds
        .iter()
        .map(|moment| moment.received)
        .fold(0.0, f64::max);
    let least = seconds
        .iter()
        .map(|moment| moment.received)
        .fold(f64::MAX, f64::min);
    most - least
}

/// Whatever a scenario sweeps: its numeric axes to the right, everything else a line.
fn swept(input: &Input, experiment: &str, figures: &mut Vec<Figure>) {
    let groups: Vec<&Group> = input.of(experiment).collect();
    let mut axes: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for group in &groups {
        for (axis, value) in &group.cell.axes {
            let values = axes.entry(axis).or_default();
            if !values.contains(&value.as_str()) {
                values.push(value);
            }
        }
    }
    let varied: Vec<&str> = axes
        .iter()
        .filter(|(_, values)| values.len() > 1)
        .map(|(axis, _)| *axis)
        .collect();
    let numeric: Vec<(&str, String)> = varied
        .iter()
        .filter_map(|axis| Some((*axis, with_unit(axis, unit_of(&axes[axis])?))))
        .collect();
    for (axis, words) in numeric {
        let named = |group: &Group| {
            let others: Vec<String> = varied
                .iter()
                .filter(|other| **other != axis)
                .filter_map(|other| {
                    let value = group.cell.axes.get(*other)?;
                    // Words say of themselves what they are.
                    Some(match number(value) {
                        Some(_) => format!("{other} {value}"),
                        None => value.clone(),
                    })
                })
                .collect();
            if others.is_empty() {
                who(&group.cell)
            } else {
                others.join(", ")
            }
        };
        let x = |group: &Group| number(group.cell.axes.get(axis)?);
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
                let more = if at == 0 {
                    String::new()
                } else {
                    format!("-{}", at + 1)
                };
                let chart = Chart::of(
                    format!("{experiment}: {}", unit.split(',').next().unwrap_or(unit)),
                    Axis {
                        from: None,
                        ..Axis::linear(&words)
                    },
                    Axis::linear(unit),
                    some.to_vec(),
                );
                let name = format!("{}-{}-{file}{more}", plain(experiment), plain(axis));
                push(
                    figures,
                    &name,
                    chart,
                    "Whiskers: 95 % intervals over repeats.",
                    experiment,
                );
            }
        }
    }
    for (at, some) in groups.chunks(LOOKS).enumerate() {
        let named: Vec<(String, &Group)> = some
            .iter()
            .map(|group| {
                let values: Vec<&str> = varied
                    .iter()
                    .filter_map(|axis| group.cell.axes.get(*axis).map(String::as_str))
                    .collect();
                (
                    if values.is_empty() {
                        who(&group.cell)
                    } else {
                        values.join(" ")
                    },
                    *group,
                )
            })
            .collect();
        let file = format!("{}-ecdf-{}", plain(experiment), at + 1);
        let chart = ecdf(
            format!("{experiment}: response times"),
            &named,
            input.drawn.get(&file),
        );
        push(
            figures,
            &file,
            chart,
            "From when a message was to be sent.",
            experiment,
        );
    }
}

/// The number that a value begins with, if what follows is a unit.
fn number(value: &str) -> Option<f64> {
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
fn unit_of<'a>(values: &[&'a str]) -> Option<&'a str> {
    let mut units = values
        .iter()
        .map(|value| split(value).map(|(_, unit)| unit));
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
    name.chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() {
                c.to_ascii_lowercase()
            } else {
                '-'
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_swept_has_the_unit_of_its_values() {
        let words = |axis: &str, values: &[&str]| unit_of(values).map(|unit| with_unit(axis, unit));
        assert_eq!(
            words("payload", &["60", "2000"]).as_deref(),
            Some("payload, B")
        );
        assert_eq!(words("loss", &["0%", "2.5%"]).as_deref(), Some("loss, %"));
        assert_eq!(
            words("delay", &["5ms", "50ms"]).as_deref(),
            Some("delay, ms")
        );
        assert_eq!(words("flows", &["1", "10"]).as_deref(), Some("flows"));
        assert_eq!(
            words("delay", &["500ms", "1s"]),
            None,
            "their numbers cannot be compared"
        );
        assert_eq!(words("way", &["mqtt-q0", "mqtt-q1"]), None);
    }
}
