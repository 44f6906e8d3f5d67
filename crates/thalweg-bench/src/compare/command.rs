//! `thalweg bench compare`.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use super::history::{RUNS_MIN, runs};
use super::{Change, Comparison, Verdict, circumstances, compare};
use crate::cell::word;
use crate::command::Outcome;
use crate::report::document::{Column, Table};
use crate::results::metric::{METRICS, Metric, metric};
use crate::results::{Results, read};
use crate::stats::Interval;

/// `thalweg bench compare …`
#[derive(Args, Clone, Debug)]
pub struct CompareArgs {
    /// The folder of before
    #[arg(value_name = "BASE")]
    pub base: PathBuf,
    /// The folder of now
    #[arg(value_name = "NEW")]
    pub new: PathBuf,
    /// Folder of runs before: with five that have a point, it is judged by what runs differ by instead of repeats, and since
    /// when it is another is told
    #[arg(long, value_name = "DIR")]
    pub history: Option<PathBuf>,
    /// Only these figures, such as p99,bytes_per_msg. Default: what says how well it went
    #[arg(long, value_name = "FIGURES", value_delimiter = ',', value_parser = known)]
    pub only: Vec<String>,
    /// Within it figures may be called equal, percent
    #[arg(long, value_name = "PERCENT", default_value = "10%", value_parser = crate::scenario::part)]
    pub margin: f64,
    /// Print what is equal or unclear, too
    #[arg(long)]
    pub all: bool,
    /// Exit with 3 if something is worse
    #[arg(long)]
    pub fail: bool,
    /// Print the comparison as JSON
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &CompareArgs, out: &mut dyn Write) -> io::Result<Outcome> {
    let (base, new) = (read(&args.base)?, read(&args.new)?);
    let names: Vec<&str> = if args.only.is_empty() {
        USUAL.to_vec()
    } else {
        args.only.iter().map(String::as_str).collect()
    };
    let metrics: Vec<&'static Metric> = names.into_iter().filter_map(metric).collect();
    let past = match &args.history {
        Some(folder) => runs(folder, [&args.base, &args.new])?,
        None => Vec::new(),
    };
    let found = compare(
        &base.trials,
        &new.trials,
        &past,
        &metrics,
        args.margin,
        SEED,
    );
    match args.json {
        true => writeln!(
            out,
            "{}",
            serde_json::to_string_pretty(&told(&found, &base, &new))?
        )?,
        false => out.write_all(words(&found, &base, &new, args.all).as_bytes())?,
    }
    if args.history.is_some() && past.len() < RUNS_MIN && !args.json {
        writeln!(
            out,
            "{} runs before, fewer than {RUNS_MIN}: judged by repeats.",
            past.len()
        )?;
    }
    Ok(match () {
        () if found.changes.is_empty() => Outcome::Invalid,
        () if args.fail
            && found
                .changes
                .iter()
                .any(|change| change.verdict == Verdict::Worse) =>
        {
            Outcome::ShapeFailed
        }
        () => Outcome::Done,
    })
}

const COLUMNS: [Column<Change>; 8] = [
    ("point", |it| it.point.clone()),
    ("figure", |it| it.metric.name.to_owned()),
    ("base", |it| side(it, it.base)),
    ("new", |it| side(it, it.new)),
    ("change", |it| {
        maybe(it.ratio, |it| format!("{:+.1} %", 100.0 * (it - 1.0)))
    }),
    ("p", |it| maybe(it.p, |it| format!("{it:.4}"))),
    ("g", |it| maybe(it.effect, |it| format!("{it:.1}"))),
    ("verdict", |it| {
        let since = it.since.as_ref().map(|run| format!(", since {run}"));
        word(it.verdict) + &since.unwrap_or_default()
    }),
];

fn side(change: &Change, (middle, interval): (f64, Option<Interval>)) -> String {
    let written = |value| change.metric.unit.written(value);
    let ends = interval.map(|it| format!(" ({} to {})", written(it.low), written(it.high)));
    written(middle) + &ends.unwrap_or_default()
}

fn maybe(value: Option<f64>, written: fn(f64) -> String) -> String {
    value.map_or_else(|| "-".to_owned(), written)
}

fn words(found: &Comparison, base: &Results, new: &Results, all: bool) -> String {
    let mut shown: Vec<&Change> = found
        .changes
        .iter()
        .filter(|change| all || change.verdict < Verdict::Unclear)
        .collect();
    shown.sort_by_key(|change| change.verdict);
    let mut text = match shown.is_empty() {
        true => String::new(),
        false => Table::of(shown, &COLUMNS).markdown(),
    };
    let count = |verdict| {
        found
            .changes
            .iter()
            .filter(|change| change.verdict == verdict)
            .count()
    };
    text += &format!(
        "\n{} figures compared: {} worse, {} better, {} changed, {} equal, {} unclear.\n",
        found.changes.len(),
        count(Verdict::Worse),
        count(Verdict::Better),
        count(Verdict::Changed),
        count(Verdict::Equal),
        count(Verdict::Unclear),
    );
    let few = found
        .changes
        .iter()
        .map(|change| change.counts.0.min(change.counts.1))
        .min();
    if few.is_some_and(|few| few < REPEATS_FEW) {
        text += &format!(
            "Some points have fewer than {REPEATS_FEW} repeats: only large changes are seen.\n"
        );
    }
    for (what, points) in [
        ("Not measured any more", &found.gone),
        ("New", &found.added),
    ] {
        if !points.is_empty() {
            text += &format!("{what}: {}.\n", points.join("; "));
        }
    }
    let circumstances = circumstances(&base.about, &new.about);
    if !circumstances.is_empty() {
        text += "\nBesides, these differ:\n\n";
        for (key, before, after) in circumstances {
            text += &format!("- {key}: {before} -> {after}\n");
        }
    }
    text
}

fn told(found: &Comparison, base: &Results, new: &Results) -> Value {
    let changes: Vec<Value> = found
        .changes
        .iter()
        .map(|change| {
            let side = |side: &(f64, Option<Interval>)| {
                json!({ "median": side.0, "low": side.1.map(|found| found.low), "high": side.1.map(|found| found.high) })
            };
            json!({
                "point": change.point, "figure": change.metric.name, "unit": change.metric.unit.word(),
                "base": side(&change.base), "new": side(&change.new), "repeats": [change.counts.0, change.counts.1],
                "ratio": change.ratio, "p": change.p, "g": change.effect, "verdict": change.verdict, "since": change.since,
            })
        })
        .collect();
    let differ: Vec<Value> = circumstances(&base.about, &new.about)
        .into_iter()
        .map(|(key, before, after)| json!({ "key": key, "base": before, "new": after }))
        .collect();
    json!({ "changes": changes, "gone": found.gone, "added": found.added, "circumstances": differ })
}

fn known(text: &str) -> Result<String, String> {
    match metric(text) {
        Some(metric) => Ok(metric.name.to_owned()),
        None => Err(format!(
            "there are {}",
            METRICS
                .iter()
                .map(|metric| metric.name)
                .collect::<Vec<_>>()
                .join(", ")
        )),
    }
}

/// What says how well it went, without saying it twice.
const USUAL: [&str; 12] = [
    "p50",
    "p90",
    "p99",
    "delivered",
    "delivery",
    "lost",
    "dup",
    "unacknowledged",
    "bytes_per_msg",
    "frames_per_msg",
    "cpu_broker",
    "rss",
];
/// Of bootstraps: equal folders are compared equally.
const SEED: u64 = 20_260;
/// From here on a gate may rest on it.
const REPEATS_FEW: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::{Folder, cell, measured};
    use crate::results::{Writer, about};

    #[test]
    fn a_regression_decides_the_exit_code_if_asked_to() {
        let (base, new) = (Folder::new("compare-base"), Folder::new("compare-new"));
        for (folder, scale) in [(&base, 10), (&new, 20)] {
            let cells: Vec<_> = (0..5).map(|repeat| cell("60B", repeat)).collect();
            let mut writer =
                Writer::open(&folder.0, &about("test", &cells), false).expect("a new folder");
            for cell in &cells {
                writer
                    .write(cell, &measured(scale + u64::from(cell.repeat) / 4))
                    .expect("writable");
            }
        }
        let args = |base: &Folder, new: &Folder, fail| CompareArgs {
            base: base.0.clone(),
            new: new.0.clone(),
            history: None,
            only: vec!["p50".to_owned(), "lost".to_owned()],
            margin: 0.1,
            all: true,
            fail,
            json: false,
        };
        let compared = |args: &CompareArgs| {
            let mut out = Vec::new();
            let outcome = run(args, &mut out).expect("two folders");
            (outcome, String::from_utf8(out).expect("text"))
        };
        let (outcome, text) = compared(&args(&base, &new, true));
        assert_eq!(outcome, Outcome::ShapeFailed, "{text}");
        assert!(
            text.contains("| +100.0 % |")
                && text.contains("2 figures compared: 1 worse, 0 better, 0 changed, 1 equal"),
            "{text}"
        );
        assert_eq!(compared(&args(&base, &new, false)).0, Outcome::Done);
        let (outcome, text) = compared(&args(&new, &base, true));
        assert!(
            outcome == Outcome::Done && text.contains("1 better"),
            "{text}"
        );
        let json = CompareArgs {
            json: true,
            ..args(&base, &new, false)
        };
        let found: Value = serde_json::from_str(&compared(&json).1).expect("JSON");
        assert_eq!(
            (
                found["changes"][0]["verdict"].as_str(),
                found["changes"].as_array().map(Vec::len)
            ),
            (Some("worse"), Some(2))
        );
    }
}
