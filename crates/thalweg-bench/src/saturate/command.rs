//! The command: a search for each point, its trials written as they end.

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use serde_json::{Value, json};

use super::{Found, Goal, Search, Shown, Step, cell_at, is_lower_bound, name_of, shown, shown_by};
use crate::cell::{Cell, Load, Row};
use crate::command::Outcome;
use crate::net::nest;
use crate::net::units::frequency;
use crate::report::document::{Column, Table};
use crate::results::{self, Writer};
use crate::runner::{Trial, stopper};
use crate::scenario::command::{Changes, ResultArgs};
use crate::scenario::{part, time};
use crate::{paper, trial};

/// `thalweg bench saturate …`
#[derive(Args, Clone, Debug)]
pub struct SaturateArgs {
    /// The scenario; its rate is where the search begins
    #[arg(value_name = "SCENARIO")]
    pub scenario: PathBuf,
    #[command(flatten)]
    pub changes: Changes,
    /// Losses that pass, such as 0 or 0.1%. Default: 0 at least and exactly once, 0.1% at most once
    #[arg(long, value_name = "PERCENT", value_parser = loss)]
    pub loss: Option<f64>,
    /// Longest 99th percentile that passes, such as 5ms
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub p99: Option<u64>,
    /// How exactly, 0.5% to 50%
    #[arg(long, value_name = "PERCENT", default_value = "3%", value_parser = tolerance)]
    pub tol: f64,
    /// How long a trial of ramp and bisection takes; those that confirm take what the scenario says
    #[arg(long, value_name = "TIME", default_value = "4s", value_parser = time)]
    pub short: u64,
    /// Never offer more, messages a second
    #[arg(long, value_name = "RATE", default_value = "1000000/s", value_parser = frequency)]
    pub most: f64,
    #[command(flatten)]
    pub results: ResultArgs,
}

pub fn run(args: &SaturateArgs, out: &mut dyn Write) -> io::Result<Outcome> {
    nest::enter_for(&args.changes.of(&args.scenario)?.cells)?;
    run_with(args, out, &stopper(), &trial::run)
}

/// The same with something else that measures.
pub fn run_with(
    args: &SaturateArgs,
    out: &mut dyn Write,
    stop: &AtomicBool,
    trial: &Trial<'_>,
) -> io::Result<Outcome> {
    let scenario = args.changes.of(&args.scenario)?;
    let mut points = scenario.cells;
    // A search has its own repeats.
    points.retain(|cell| cell.repeat == 0);
    let folder = args.results.folder(&scenario.name);
    let mut about = results::about(&scenario.name, &points);
    let asked = json!({
        "loss": args.loss, "p99_us": args.p99.map(|nanos| nanos as f64 / 1e3), "tolerance": args.tol,
        "short_s": args.short as f64 / 1e9, "most": args.most,
    });
    about["scenario_hash"] = json!(format!("{} {asked}", results::hash(&points)));
    about["saturate"] = asked;
    let mut writer = Writer::open(&folder, &about, args.results.resume)?;
    let before = results::read(&folder)?.trials.into_iter();
    let before: HashMap<String, Row> = before.map(|(cell, row)| (cell.key(), row)).collect();
    let mut found = Vec::new();
    let all = |found: &[(String, Found)]| -> Value {
        found
            .iter()
            .map(|(name, found)| told(name, found))
            .collect()
    };
    for point in &points {
        let Some(ended) = search(args, point, &before, &mut writer, stop, trial)? else {
            break;
        };
        found.push((name_of(point), ended));
        writer.set("saturation", all(&found))?;
    }
    let is_interrupted = found.len() < points.len();
    writer.finish(is_interrupted)?;
    paper::render(&folder)?;
    match args.results.json {
        true => writeln!(out, "{:#}", json!({ "saturation": all(&found) }))?,
        false => out.write_all(Table::of(&found, &COLUMNS).markdown().as_bytes())?,
    }
    if !args.results.quiet {
        eprintln!("written: {}", folder.display());
    }
    Ok(match () {
        () if is_interrupted => Outcome::Interrupted,
        () if found.iter().all(|(_, found)| found.sustained.is_none()) => Outcome::Invalid,
        () => Outcome::Done,
    })
}

/// Searches for one point; nothing if it was interrupted.
fn search(
    args: &SaturateArgs,
    point: &Cell,
    before: &HashMap<String, Row>,
    writer: &mut Writer,
    stop: &AtomicBool,
    trial: &Trial<'_>,
) -> io::Result<Option<Found>> {
    let rate = match point.load {
        Load::Open { rate, .. } => rate,
        _ => START,
    };
    let lossless = if point.publish.qos == 0 {
        BEST_EFFORT
    } else {
        0.0
    };
    let mut search = Search::new(Goal {
        start: rate * f64::from(point.load.flows()),
        most: args.most,
        tolerance: args.tol,
        loss: args.loss.unwrap_or(lossless),
        p99_us: args.p99.map(|nanos| nanos as f64 / 1e3),
    });
    for number in 0.. {
        let (rate, is_long) = match search.next_step() {
            Step::Measure { rate, is_long } => (rate, is_long),
            Step::End(found) => return Ok(Some(found)),
        };
        let cell = cell_at(point, number, rate, is_long, args.short).ok_or_else(|| {
            io::Error::other("load.model: only open and flood have a rate to search for")
        })?;
        let seen = match before.get(&cell.key()) {
            Some(row) => shown_by(rate, row),
            None => {
                let mut measured = trial(&cell, stop);
                let seen = shown(&cell, rate, &mut measured);
                if stop.load(Ordering::Relaxed) {
                    return Ok(None);
                }
                writer.write(&cell, &measured)?;
                seen
            }
        };
        search.show(seen);
        if !args.results.quiet {
            say(point, number, is_long, &seen);
        }
    }
    Ok(None)
}

fn say(point: &Cell, number: usize, is_long: bool, seen: &Shown) {
    let kind = if is_long { "long" } else { "short" };
    let invalid = match (seen.is_valid, seen.is_taken) {
        (false, _) => ", does not count",
        (true, false) => ", the rest held back",
        (true, true) => "",
    };
    eprintln!(
        "{} {number} ({kind}): {:.0}/s offered, {:.0}/s delivered, {:.2} % lost, backlog {:+.2} %, p99 {:.2} ms{invalid}",
        name_of(point),
        seen.rate,
        seen.delivered,
        100.0 * seen.loss,
        100.0 * seen.slope,
        seen.p99_us / 1e3,
    );
}

const COLUMNS: [Column<(String, Found)>; 6] = [
    ("point", |(name, _)| name.clone()),
    ("sustained /s", |(_, found)| {
        let at_least = if is_lower_bound(found.limit) {
            "at least "
        } else {
            ""
        };
        format!("{at_least}{}", maybe(found.sustained))
    }),
    ("up to 0.5 % lost /s", |(_, found)| {
        maybe(found.partial_drop)
    }),
    ("peak delivered /s", |(_, it)| {
        format!("{:.0}", it.peak_delivered)
    }),
    ("stopped by", |(_, found)| found.limit.to_owned()),
    ("trials", |(_, found)| found.trials.to_string()),
];

fn maybe(rate: Option<f64>) -> String {
    rate.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.0}"))
}

fn told(name: &str, found: &Found) -> Value {
    let mut told = json!(found);
    told["point"] = json!(name);
    told
}

fn loss(text: &str) -> Result<f64, String> {
    if text == "0" { Ok(0.0) } else { part(text) }
}

fn tolerance(text: &str) -> Result<f64, String> {
    match part(text)? {
        part if (0.005..=0.5).contains(&part) => Ok(part),
        _ => Err(format!("{text}: between 0.5% and 50%")),
    }
}

/// Where a flood begins, messages a second of each flow.
const START: f64 = 10.0;
/// Losses of at most once that pass.
const BEST_EFFORT: f64 = 0.001;

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::atomic::AtomicUsize;

    use super::super::search::CONFIRMATIONS;
    use super::*;
    use crate::cell::{Measured, Second};
    use crate::results::tests::{Folder, measured};

    /// A broker that passes on so many a second.
    fn broker(cell: &Cell, capacity: f64) -> Measured {
        let Load::Open { rate, flows, .. } = cell.load else {
            panic!("an open loop")
        };
        let (rate, seconds) = (rate * f64::from(flows), cell.phases.measure_ns as f64 / 1e9);
        let passed = rate.min(capacity);
        let mut found = measured(1);
        let second = Second {
            sent: rate.round() as u64,
            received: passed.round() as u64,
            ..Second::default()
        };
        found.seconds = vec![second; (seconds + cell.phases.warmup_ns as f64 / 1e9) as usize];
        found.row.seconds = seconds;
        found.row.expected = (rate * seconds) as u64;
        found.row.delivered = (passed * seconds) as u64;
        // What is late is not lost: it is in the backlog.
        found.row.lost = 0;
        found
    }

    #[test]
    fn a_search_is_written_interrupted_and_resumed() {
        let folder = Folder::new("saturate");
        fs::create_dir_all(&folder.0).expect("writable");
        let file = folder.0.join("s.yaml");
        let text = "name: s\nprotocol: {publish: mqtt, qos: 1}\nworkload: {size: 60B}\nload: {rate: 10/s, flows: 10}\n\
                    sweep: {system.name: [own, mosquitto]}\n";
        fs::write(&file, text).expect("writable");
        let mut args = SaturateArgs {
            scenario: file,
            changes: Changes::default(),
            loss: None,
            p99: None,
            tol: 0.03,
            short: 4_000_000_000,
            most: 1e6,
            results: ResultArgs {
                out: Some(folder.0.join("out")),
                resume: false,
                json: true,
                quiet: true,
            },
        };
        let (stop, count) = (AtomicBool::new(false), AtomicUsize::new(0));
        let capacity = |name: &str| {
            if name.ends_with("mosquitto") {
                3000.0
            } else {
                5000.0
            }
        };
        let stopping = |cell: &Cell, stop: &AtomicBool| {
            stop.store(count.fetch_add(1, Ordering::SeqCst) == 6, Ordering::SeqCst);
            broker(cell, capacity(&cell.system))
        };
        let outcome = run_with(&args, &mut Vec::new(), &stop, &stopping);
        assert_eq!(outcome.expect("it ran"), Outcome::Interrupted);
        stop.store(false, Ordering::SeqCst);
        args.results.resume = true;
        let (again, mut out) = (AtomicUsize::new(0), Vec::new());
        let going_on = |cell: &Cell, _: &AtomicBool| {
            again.fetch_add(1, Ordering::SeqCst);
            broker(cell, capacity(&cell.system))
        };
        let outcome = run_with(&args, &mut out, &stop, &going_on);
        assert_eq!(outcome.expect("it ran"), Outcome::Done);
        let found: Value = serde_json::from_slice(&out).expect("JSON");
        let mut trials = 0;
        for point in found["saturation"].as_array().expect("a list") {
            let capacity = capacity(point["point"].as_str().expect("a name"));
            let sustained = point["sustained_per_s"].as_f64().expect("found") / capacity;
            assert!(sustained > 0.965 && sustained < 1.006, "{point}");
            assert_eq!(point["limit"], "backlog");
            trials += point["trials"].as_u64().expect("a count");
        }
        assert_eq!(trials as usize, 6 + again.into_inner(), "six were there");
        let written = results::read(&folder.0.join("out")).expect("written");
        assert_eq!(written.trials.len() as u64, trials);
        // Of these, `recommend` takes the three of each point that confirmed.
        let source = crate::recommend::Source::open(&folder.0.join("out"));
        let taken = source.expect("it reads searches").trials;
        assert_eq!(taken.len(), 2 * CONFIRMATIONS as usize);
        let mut loads = taken.iter().map(|(cell, _)| &cell.load);
        assert!(loads.all(|load| matches!(load, Load::Flood { flows: 10 })));
    }

    #[test]
    fn growth_is_the_slope_of_what_is_under_way() {
        let slope = super::super::slope;
        assert!((slope(&[1.0, 3.0, 5.0, 7.0]) - 2.0).abs() < 1e-12);
        assert_eq!((slope(&[5.0]), slope(&[])), (0.0, 0.0));
    }
}
