//! What a page says, in which order.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use super::Part;
use super::energies::energies;
use super::figures::Figure;
use super::input::{self, Input};
use super::members;
use crate::cell::{Row, Standing};
use crate::report::document::{Column, Document, Table};
use crate::report::stat::{Stat, short};
use crate::results::calls;
use crate::studies::Study;
use crate::studies::group::{Group, client, name_of, way};
use crate::studies::shape::{Ruling, Shape};

/// Which program ran, and how much.
pub fn program(about: &Value) -> String {
    let word = |key: &str| input::word(about, key);
    let build = match about["is_optimised"] == Value::Bool(true) {
        true => "optimised build",
        false => "debug build",
    };
    let (version, budget, seed) = (word("version"), word("budget"), word("seed"));
    format!("Thalweg {version} ({build}), budget {budget}, seed {seed}")
}

/// What ran, where, and how much of it counts.
pub fn about(input: &Input, document: &mut Document) {
    let count = |is: fn(&Standing) -> bool| {
        let trials = input.trials.iter();
        trials.filter(|(_, row)| is(&row.standing)).count()
    };
    let [started, finished] =
        ["started_unix_s", "finished_unix_s"].map(|key| input.about[key].as_u64());
    let lasted = match (started, finished) {
        (Some(from), Some(to)) => format!("{} s", to.saturating_sub(from)),
        _ => "?".to_owned(),
    };
    document.text(format!(
        "{}. {} with {} cores, kernel {}; load before: {}. It took {lasted}. {} trials: {} count, {} were limited by what sent, \
         {} by what the broker took, {} are invalid, {} lack a program that is not installed.",
        program(&input.about),
        input.word("cpu"),
        input.word("cores"),
        input.word("kernel"),
        input.word("load_average_at_start"),
        input.trials.len(),
        count(|standing| *standing == Standing::Valid),
        count(|standing| matches!(standing, Standing::GeneratorLimited(_))),
        count(|standing| matches!(standing, Standing::HeldBack(_))),
        count(|standing| matches!(standing, Standing::Invalid(_))),
        count(|standing| matches!(standing, Standing::Absent(_))),
    ));
    document.text(
        "Response is from when a message was to be sent until it came; service from when it was sent. Only trials that count \
         are drawn; the others are listed with their reasons. After ± stands half of the 95 % interval over repeats; a whisker \
         that would hide what is drawn is cut. Marks of one place stand side by side. Loads are open loops unless it says closed.",
    );
}

/// What verdicts are, before the tables that have them.
pub fn verdicts(document: &mut Document) {
    document.heading(VERDICTS);
    document.text(
        "Each statement twice: with the systems that the study used or their stand-ins (it shows that this laboratory sees what \
         the study saw), and with ours. Not judged: the intervals of the repeats overlap, or points are missing. The tables open \
         when they are clicked.",
    );
}

/// The heading of the verdicts.
pub const VERDICTS: &str = "What came out";

/// Statements of studies, with both verdicts.
pub fn shapes(parts: &[&Part], document: &mut Document) {
    for part in parts {
        for study in &part.studies {
            let shapes = || part.shapes.iter().filter(|(of, _)| of == study);
            let table = Table::of(shapes().map(|(_, shape)| shape), &SHAPES).of_sentences();
            let ours = tally(shapes().map(|(_, shape)| &shape.ours.ruling));
            let baseline = tally(shapes().map(|(_, shape)| &shape.baseline.ruling));
            document.folded_on_pages(
                format!("{}. Ours: {ours}. Baselines: {baseline}", study.title()),
                table,
            );
        }
    }
}

/// How many of which verdict.
pub fn tally<'r>(rulings: impl Iterator<Item = &'r Ruling>) -> String {
    let names: Vec<&str> = rulings.map(Ruling::name).collect();
    let words = [
        ("reproduced", "reproduced"),
        ("under-condition", "under a condition"),
        ("not", "not reproduced"),
        ("not-judged", "not judged"),
        ("not-measured", "not measured"),
    ];
    let count = |name: &str| names.iter().filter(|other| **other == name).count();
    let some: Vec<String> = words
        .iter()
        .filter(|(name, _)| count(name) > 0)
        .map(|(name, words)| format!("{} {words}", count(name)))
        .collect();
    some.join(", ")
}

const SHAPES: [Column<Shape>; 7] = [
    ("shape", |it| it.id.to_owned()),
    ("statement", |it| it.what.to_owned()),
    ("study", |it| it.paper.to_owned()),
    ("baselines", |it| it.baseline.figures.clone()),
    ("verdict, baselines", |it| it.baseline.ruling.words()),
    ("ours", |it| it.ours.figures.clone()),
    ("verdict, ours", |it| it.ours.ruling.words()),
];

/// What a scenario asserts, and what a search for the limit found.
pub fn promises(input: &Input, document: &mut Document) {
    let table = |key: &str, columns| {
        let all = input.about[key].as_array().into_iter().flatten();
        Table::of(all, columns)
    };
    for (heading, table) in [
        (
            "Assertions",
            table("assertions", &ASSERTIONS).of_sentences(),
        ),
        ("How much it carries", table("saturation", &SATURATION)),
    ] {
        if !table.rows.is_empty() {
            document.heading(heading);
            document.table(table);
        }
    }
}

const ASSERTIONS: [Column<Value>; 4] = [
    ("assertion", |it| {
        it["text"].as_str().unwrap_or("?").to_owned()
    }),
    ("verdict", |it| {
        let is_compared = it["compared"].as_u64().unwrap_or(0) > 0;
        let verdict = match (is_compared, it["holds"] == Value::Bool(true)) {
            (false, _) => "not measured",
            (_, true) => "held",
            (_, false) => "not reproduced",
        };
        verdict.to_owned()
    }),
    ("compared", |it| {
        it["compared"].as_u64().unwrap_or(0).to_string()
    }),
    ("where not", |it| {
        let failed = it["failed"].as_array().into_iter().flatten();
        failed
            .filter_map(Value::as_str)
            .collect::<Vec<_>>()
            .join("; ")
    }),
];

const SATURATION: [Column<Value>; 6] = [
    ("point", |it| words(&it["point"])),
    ("sustained, messages/s", |it| rate(&it["sustained_per_s"])),
    ("some dropped at, messages/s", |it| {
        rate(&it["partial_drop_per_s"])
    }),
    ("most delivered, messages/s", |it| {
        rate(&it["peak_delivered_per_s"])
    }),
    ("limit", |it| words(&it["limit"])),
    ("trials", |it| words(&it["trials"])),
];

fn rate(value: &Value) -> String {
    value.as_f64().map_or("-".to_owned(), short)
}

fn words(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

pub fn body(part: &Part, document: &mut Document) {
    let input = &part.input;
    if !part.figures.is_empty() {
        document.heading(match part.studies.as_slice() {
            [one] => format!("{}: drawings", one.name()),
            _ => "Drawings".to_owned(),
        });
    }
    for figure in &part.figures {
        if let Some(svg) = figure.svg.clone() {
            let caption = format!("{} Points: figures/{}.csv.", figure.caption, figure.file);
            document.chart(svg, caption, command(figure, input));
        }
    }
    members::tables(input, document);
    document.part("Figures of all cells that count");
    for experiment in input.experiments() {
        let [results, resources, wire] = tables(input, experiment);
        document.folded(format!("{experiment}: rates, latencies, losses"), results);
        document.folded(format!("{experiment}: resources"), resources);
        let trials = input.trials.iter();
        let trials = trials.filter(|(cell, _)| cell.experiment == *experiment);
        calls::said(trials.map(|(cell, row)| (cell, row)))
            .into_iter()
            .for_each(|words| document.text(words));
        document.folded(format!("{experiment}: bytes and frames"), wire);
    }
    energies(input, document);
    excluded(input, document);
}

/// How a figure is measured again.
fn command(figure: &Figure, input: &Input) -> String {
    match Study::of(&figure.like)
        .map(|study| study.name())
        .or_else(|| figure.like.get(..2).filter(|it| it.starts_with('E')))
    {
        Some(study) => format!(
            "thalweg bench suite {study} --budget {} --seed {} --like {}",
            input.word("budget"),
            input.word("seed"),
            figure.like
        ),
        None => command_line(&input.about).unwrap_or_default(),
    }
}

fn command_line(about: &Value) -> Option<String> {
    let words = about["command_line"]
        .as_array()?
        .iter()
        .filter_map(Value::as_str);
    let words: Vec<&str> = std::iter::once("thalweg").chain(words.skip(1)).collect();
    Some(words.join(" "))
}

pub fn tell(stat: Option<Stat>) -> String {
    stat.map_or("-".to_owned(), |stat| stat.to_string())
}

pub fn place(group: &Group) -> String {
    let axes = group.cell.axes.iter();
    let axes = axes.filter(|(axis, _)| !["system", "way", "driver"].contains(&axis.as_str()));
    let axes = axes.map(|(axis, value)| format!("{axis} {value}"));
    axes.collect::<Vec<_>>().join(", ")
}

fn sorted<'a>(input: &'a Input, experiment: &'a str) -> Vec<&'a Group> {
    let mut groups: Vec<&Group> = input.of(experiment).collect();
    groups.sort_by_key(|group| {
        let (system, size) = (group.cell.system.clone(), group.payload());
        let name = name_of(&group.cell);
        (system, group.way(), size.unwrap_or_default(), name)
    });
    groups
}

/// What a row of these tables is about.
const LEAD: [Column<Group>; 4] = [
    ("system", |it| it.cell.system.clone()),
    ("way", |it| it.way()),
    ("client", |it| {
        let client = client(it.cell.driver);
        client.trim_end_matches(" client").to_owned()
    }),
    ("point", place),
];

const RESULTS: [Column<Group>; 13] = [
    ("delivered/s", |it| tell(it.delivered_per_s())),
    ("delivered %", |it| tell(it.delivered_percent())),
    ("twice", |it| sum(it, |row| row.duplicates)),
    ("out of order", |it| sum(it, |row| row.reordered)),
    ("mean us", |it| came(it, |row| row.response.mean)),
    ("p50 us", |it| came(it, |row| row.response.p50)),
    ("p90 us", |it| came(it, |row| row.response.p90)),
    ("p99 us", |it| came(it, |row| row.response.p99)),
    ("p99.9 us", |it| came(it, |row| row.response.p999)),
    ("longest us", |it| came(it, |row| row.response.max)),
    ("service p99 us", |it| came(it, |row| row.service.p99)),
    ("sent late, p99 us", |it| came(it, |row| row.lag_p99_us)),
    ("repeats", |it| it.rows.len().to_string()),
];

const RESOURCES: [Column<Group>; 6] = [
    ("broker, us of processor a message", |it| {
        each(it, |row| Some(row.cpu_broker_s * 1e6))
    }),
    ("clients, us of processor a message", |it| {
        each(it, |row| Some(row.cpu_client_s * 1e6))
    }),
    ("broker, resident MiB", |it| {
        tell(it.stat(|row| Some(row.rss_broker_kib as f64 / 1024.0)))
    }),
    ("broker, context switches a message", |it| {
        each(it, |row| Some(row.switches_broker as f64))
    }),
    ("not acknowledged", |it| sum(it, |row| row.unacknowledged)),
    (CALLS, |it| {
        each(it, |row| Some(row.calls_broker.as_ref()?.count()? as f64))
    }),
];
const CALLS: &str = "broker, system calls a message";

const WIRE: [Column<Group>; 4] = [
    ("bytes a message", |it| tell(it.wire_bytes())),
    ("frames a message", |it| tell(it.wire_frames())),
    ("bytes / payload", |it| {
        let ratio = |bytes: Stat| Some(short(bytes.mean / f64::from(it.payload()?)));
        it.wire_bytes().and_then(ratio).unwrap_or("-".to_owned())
    }),
    ("packets lost by the link, %", |it| {
        tell(it.stat(|row| {
            let (lost, all) = row.link_lost?;
            (all > 0).then(|| 100.0 * lost as f64 / all as f64)
        }))
    }),
];

fn sum(group: &Group, of: fn(&Row) -> u64) -> String {
    group.rows.iter().map(of).sum::<u64>().to_string()
}

/// Of trials in which something arrived: else there is no latency.
fn came(group: &Group, of: fn(&Row) -> f64) -> String {
    tell(group.stat(|row| (row.response.count > 0).then(|| of(row))))
}

/// For each message that was delivered.
fn each(group: &Group, of: fn(&Row) -> Option<f64>) -> String {
    tell(group.stat(|row| Some(of(row)? / row.delivered.max(1) as f64)))
}

/// The tables of an experiment: what came, what it took, what was on the wire.
fn tables(input: &Input, experiment: &str) -> [Table; 3] {
    let groups = sorted(input, experiment);
    let of = |groups: &[&Group], columns: &[Column<Group>]| {
        Table::of(groups.iter().copied(), &[&LEAD, columns].concat())
    };
    // Cells side by side at one broker are not metered one by one.
    let is_metered =
        |row: &Row| row.rss_broker_kib > 0 || row.cpu_broker_s + row.cpu_client_s > 0.0;
    let mut metered = groups.clone();
    metered.retain(|group| group.rows.iter().any(is_metered));
    // A column that was not asked for is left out.
    let mut resources = RESOURCES.to_vec();
    let is_counted = metered.iter().any(|group| group.cell.calls.is_some());
    resources.retain(|column| is_counted || column.0 != CALLS);
    let mut wired = groups.clone();
    wired.retain(|group| group.wire_bytes().is_some());
    [
        of(&groups, &RESULTS),
        of(&metered, &resources),
        of(&wired, &WIRE),
    ]
}

fn excluded(input: &Input, document: &mut Document) {
    let mut table = Table::new(&["standing", "cell", "why"]).of_sentences();
    let mut absent: BTreeMap<(String, String), usize> = BTreeMap::new();
    for (cell, row) in input.excluded() {
        if let Standing::Absent(how) = &row.standing {
            let who = format!("{} {}", cell.system, way(&cell.publish));
            *absent.entry((who, how.clone())).or_default() += 1;
            continue;
        }
        let (word, why) = (row.standing.word(), row.standing.why());
        table.row([word.to_owned(), cell.key(), why.to_owned()]);
    }
    if table.rows.is_empty() && absent.is_empty() {
        return;
    }
    document.part("What does not count");
    let mut missing = Table::new(&["absent", "how to get it", "trials"]).of_sentences();
    for ((who, how), count) in absent {
        missing.row([who, how, count.to_string()]);
    }
    document.table(missing);
    let words = format!("{} trials that do not count, and why", table.rows.len());
    match table.rows.len() {
        0..=SHOWN_MAX => document.table(table),
        _ => document.folded(words, table),
    }
}

/// More than these are folded.
const SHOWN_MAX: usize = 12;

/// Where all of this comes from, and how to do it again.
pub fn provenance(part: &Part, folder: &Path, document: &mut Document) {
    let input = &part.input;
    document.part("Where this comes from");
    let mut table = Table::new(&["what", "value"]).of_sentences();
    for (name, value) in input.about.as_object().into_iter().flatten() {
        if !value.is_null() && !APART.contains(&name.as_str()) {
            table.row([name.clone(), input.word(name)]);
        }
    }
    for group in ["systems", "sysctls"] {
        for (name, value) in input.about[group].as_object().into_iter().flatten() {
            let value = value.as_str().map_or(value.to_string(), str::to_owned);
            table.row([format!("{group}: {name}"), value]);
        }
    }
    let seeds = input.about["seeds"].as_array().into_iter().flatten();
    let some: Vec<String> = seeds.take(16).map(Value::to_string).collect();
    if !some.is_empty() {
        table.row(["seeds".to_owned(), some.join(", ")]);
    }
    document.folded("Program, machine, settings, versions, seeds", table);
    let name = folder.file_name().map_or_else(
        || "DIR".to_owned(),
        |name| name.to_string_lossy().into_owned(),
    );
    let again = command_line(&input.about).unwrap_or_default();
    document.code(format!(
        "{again}\nthalweg bench report {name}   # this page again, from raw files only"
    ));
}

/// Words of `run.json` that are told in another way, or in another place.
const APART: [&str; 6] = [
    "cell_order",
    "sysctls",
    "systems",
    "seeds",
    "assertions",
    "saturation",
];
