//! The page of `suite all`: what came of every study on one page, and its drawings. Each study keeps its own folder.

use std::fs;
use std::io;
use std::path::Path;

use serde_json::{Value, json};

use super::axis::Axis;
use super::bars::Bars;
use super::chart::{Chart, Look, Point, Series};
use super::figures::{Drawing, Figure, again};
use super::junit::{Case, End};
use super::{Part, lead, outcome, page, write};
use crate::command::Outcome;
use crate::report::document::{Document, Table};
use crate::report::groups::Groups;
use crate::report::study::{POINT, Ruling};
use crate::report::trial::{NOBODY, Trial};
use crate::report::{self, Found};
use crate::results::has_trials;
use crate::studies::Study;

/// Whether a folder has a folder for each study.
pub fn is_of(folder: &Path) -> bool {
    report::is_of(folder, "all")
}

/// Renders all of it anew.
pub fn render(folder: &Path) -> io::Result<Found> {
    let about: Value = serde_json::from_str(&fs::read_to_string(folder.join("run.json"))?)
        .map_err(io::Error::other)?;
    let mut parts = Vec::new();
    for study in Study::ALL {
        let there = folder.join(study.name());
        if has_trials(&there) {
            super::render(&there)?;
            parts.push((study, Part::read(&there)?));
        }
    }
    let word = |key: &str| {
        about[key]
            .as_str()
            .map_or_else(|| about[key].to_string(), str::to_owned)
    };
    let borrowed: Vec<&Part> = parts.iter().map(|(_, part)| part).collect();
    let mut cases: Vec<Case> = borrowed.iter().flat_map(|part| part.cases()).collect();
    let mut outcomes = vec![if borrowed.is_empty() {
        Outcome::Done
    } else {
        outcome(&borrowed)
    }];
    let mut shapes: Vec<Value> = borrowed
        .iter()
        .flat_map(|part| part.shapes_json())
        .collect();
    let mut rulings: Vec<Ruling> = borrowed
        .iter()
        .flat_map(|part| {
            part.shapes
                .iter()
                .map(|(_, shape)| shape.ours.ruling.clone())
        })
        .collect();
    // Verdicts of the studies that are not made of cells: words and a table.
    let mut others: Vec<(String, Table)> = Vec::new();
    let e5 = folder.join("E5");
    let mut again_e5 = String::new();
    let mut checks_e5 = Vec::new();
    let mut shares_e5 = Vec::new();
    if e5.join("trials.csv").exists() {
        let found = report::render(&e5)?;
        outcomes.push(found.outcome);
        let (checks, run) = report::checks(&e5)?;
        let mut table = page::shape_table();
        for check in &checks {
            cases.push(Case::of_ruling(
                "E5 shapes",
                format!("{} {}", check.id, check.what),
                &check.ruling,
            ));
            shapes.push(json!({
                "study": "E5", "id": check.id, "statement": check.what, "paper": check.study,
                "ours": { "figures": check.ours, "verdict": check.ruling.name(), "words": check.ruling.words() },
            }));
            let none = "the study's algorithms run in our broker".to_owned();
            let (id, what, study) = (check.id.to_owned(), check.what.clone(), check.study.clone());
            table.row([
                id,
                what,
                study,
                none,
                "-".to_owned(),
                check.ours.clone(),
                check.ruling.words(),
            ]);
        }
        let tally = page::tally(checks.iter().map(|check| &check.ruling));
        others.push((
            format!("E5: shared subscriptions that know the state of their members. Ours: {tally}"),
            table,
        ));
        let about_e5 = run.as_ref().map_or(&found.json["about"], |run| &run.about);
        again_e5 = format!("{} --only core", command_of("E5", about_e5, &about));
        shares_e5 = match &run {
            Some(run) => shares(&Groups::of(&run.trials)),
            None => shares_again(&folder.join("figures")),
        };
        rulings.extend(checks.iter().map(|check| check.ruling.clone()));
        checks_e5 = checks;
    }
    let e2d = folder.join("E2d");
    if e2d.join("trials.csv").exists() {
        let found = crate::e2::report::render(&e2d)?;
        outcomes.push(found.outcome);
        let mut table = page::shape_table();
        let (mut held, mut above) = (0, 0);
        for check in found.json["checks"].as_array().into_iter().flatten() {
            let text = |key: &str| check[key].as_str().unwrap_or("-").to_owned();
            let is_held = check["held"] == Value::Bool(true);
            let ruling = if is_held {
                Ruling::Reproduced
            } else {
                Ruling::Not("above the bar".to_owned())
            };
            cases.push(Case::of_ruling(
                "E2d bars",
                format!("{} {}", text("condition"), text("what")),
                &ruling,
            ));
            let none = "-".to_owned();
            let words = if is_held { "held" } else { "above the bar" };
            held += usize::from(is_held);
            above += usize::from(!is_held);
            let what = format!("{}: {}", text("condition"), text("what"));
            table.row([
                "E2d".to_owned(),
                what,
                text("bar"),
                none.clone(),
                none,
                text("ours"),
                words.to_owned(),
            ]);
        }
        others.push((
            format!(
                "E2d: the client that chooses its protocol. {held} held, {above} above the bar"
            ),
            table,
        ));
        shapes.push(json!({ "study": "E2d", "checks": found.json["checks"] }));
    }
    let mut document = Document {
        title: "The studies, again".to_owned(),
        ..Document::default()
    };
    document.tiles(lead::tiles(&parts, &checks_e5, &rulings));
    if let Some((figure, svg)) =
        lead::drawing(&parts).and_then(|figure| Some((figure, figure.drawing.svg()?)))
    {
        document.chart(svg, figure.caption.clone(), "");
    }
    document.contents();
    let beside: Vec<&str> = ["E1", "E2", "E2d", "E3", "E4", "E5"]
        .into_iter()
        .filter(|study| folder.join(study).is_dir())
        .collect();
    let places: Vec<String> = beside
        .iter()
        .map(|study| format!("{study}/summary.md"))
        .collect();
    let mut links: Vec<(&str, &str)> = beside
        .iter()
        .zip(&places)
        .map(|(study, place)| (*study, place.as_str()))
        .collect();
    links.extend([
        ("verdicts for programs", "shapes.json"),
        ("JUnit", "junit.xml"),
        ("plain text", "summary.md"),
    ]);
    document.links(&links);
    document.text(format!(
        "Thalweg {} ({}), budget {}, seed {}; {} with {} cores, kernel {}. All together took {} s.",
        word("version"),
        if about["is_optimised"] == Value::Bool(true) {
            "optimised build"
        } else {
            "debug build"
        },
        word("budget"),
        word("seed"),
        word("cpu"),
        word("cores"),
        word("kernel"),
        about["lasted_s"]
            .as_f64()
            .map_or("?".to_owned(), |seconds| format!("{seconds:.0}")),
    ));
    page::verdicts(&mut document);
    page::shapes(&borrowed, &mut document);
    for (words, table) in others {
        document.folded_on_pages(words, table);
    }
    for study in about["failed"].as_array().into_iter().flatten() {
        let (name, why) = (
            study["suite"].as_str().unwrap_or("?"),
            study["why"].as_str().unwrap_or("?"),
        );
        document.text(format!("{name} could not be run: {why}"));
        let end = End::Broken(why.to_owned());
        cases.push(Case {
            suite: "suites".to_owned(),
            name: name.to_owned(),
            seconds: 0.0,
            end,
        });
    }
    for (study, part) in &parts {
        document.heading(study.title());
        page::about(&part.input, &mut document);
        page::body(part, &mut document);
        page::provenance(part, &folder.join(study.name()), &mut document);
    }
    if !shares_e5.is_empty() {
        document.heading("E5: drawings");
    }
    for figure in &shares_e5 {
        if let Some(svg) = figure.drawing.svg() {
            document.chart(svg, figure.caption.clone(), again_e5.clone());
        }
    }
    document.heading("Again");
    document
        .text("Folders E1 to E5 and E2d beside this page have the raw files, and for E5 and E2d a page of their own.");
    document.code(
        match about["budget"]
            .as_str()
            .is_some_and(|budget| budget.contains(' '))
        {
            false => format!(
                "thalweg bench suite all --budget {} --seed {}",
                word("budget"),
                word("seed")
            ),
            // Put together from runs of several budgets.
            true => {
                let of = |(study, part): &(Study, Part)| {
                    command_of(study.name(), &part.input.about, &about)
                };
                parts
                    .iter()
                    .map(of)
                    .chain((!again_e5.is_empty()).then(|| again_e5.clone()))
                    .collect::<Vec<_>>()
                    .join("\n")
            }
        },
    );
    let json = json!({ "about": about, "shapes": shapes });
    write(folder, &document, &cases, &json)?;
    fs::create_dir_all(folder.join("figures"))?;
    for figure in &shares_e5 {
        fs::write(
            folder.join("figures").join(format!("{}.csv", figure.file)),
            figure.drawing.csv(),
        )?;
    }
    Ok(Found {
        summary: document.brief(),
        json,
        outcome: worst(&outcomes),
    })
}

/// How a study is measured again: by its own budget, since a page may be put together from runs of several.
fn command_of(study: &str, about: &Value, whole: &Value) -> String {
    let word = |key: &str| match [&about[key], &whole[key]]
        .into_iter()
        .find(|value| !value.is_null())
    {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => "?".to_owned(),
    };
    format!(
        "thalweg bench suite {study} --budget {} --seed {}",
        word("budget"),
        word("seed")
    )
}

/// Of several, the one that says most.
pub fn worst(outcomes: &[Outcome]) -> Outcome {
    let order = [
        Outcome::Interrupted,
        Outcome::Failed,
        Outcome::ShapeFailed,
        Outcome::Invalid,
    ];
    order
        .into_iter()
        .find(|it| outcomes.contains(it))
        .unwrap_or(Outcome::Done)
}

/// Who got how much in scenario 2, and how the waits went on.
fn shares(groups: &Groups<'_>) -> Vec<Figure> {
    let strategies = [
        "random",
        "round-robin",
        "score",
        "adaptive",
        "adaptive+events",
        "adaptive+qos1",
    ];
    let mut bars = Vec::new();
    let mut lines = Vec::new();
    for strategy in strategies {
        let Some(group) = groups.get("core", "S2", POINT, strategy) else {
            continue;
        };
        let all = |trial: &Trial| {
            trial
                .messages
                .iter()
                .filter(|message| message.member != NOBODY)
                .count() as f64
        };
        let share = |member: u16| {
            let mine = move |trial: &Trial| {
                trial
                    .messages
                    .iter()
                    .filter(|it| it.member == member)
                    .count() as f64
            };
            group
                .stat(|trial| 100.0 * mine(trial) / all(trial).max(1.0))
                .mean
        };
        bars.push((strategy.to_owned(), (0..3).map(share).collect(), None));
        if let Some(trial) = group.typical() {
            lines.push(Series {
                name: strategy.to_owned(),
                look: Look::Curve,
                points: by_second(trial),
            });
        }
    }
    drawings_of(bars, lines)
}

/// The same of the tables of an earlier page, where messages were not kept.
fn shares_again(folder: &Path) -> Vec<Figure> {
    let table =
        |file: &str| fs::read_to_string(folder.join(format!("{file}.csv"))).unwrap_or_default();
    let mut bars: Vec<(String, Vec<f64>, Option<f64>)> = Vec::new();
    for line in table(SHARES).lines().skip(1) {
        // The name of a part has a comma in it, the strategy has none.
        let Some((strategy, rest)) = line.split_once(',') else {
            continue;
        };
        let Some(share) = rest.rsplit(',').nth(1).and_then(|text| text.parse().ok()) else {
            continue;
        };
        match bars.last_mut().filter(|(name, ..)| name == strategy) {
            Some((_, parts, _)) => parts.push(share),
            None => bars.push((strategy.to_owned(), vec![share], None)),
        }
    }
    drawings_of(bars, again(&table(WAITS)))
}

fn drawings_of(bars: Vec<(String, Vec<f64>, Option<f64>)>, lines: Vec<Series>) -> Vec<Figure> {
    let figure = |file: &str, drawing, caption: &str| Figure {
        file: file.to_owned(),
        drawing,
        caption: caption.to_owned(),
        like: "E5".to_owned(),
    };
    let share = Drawing::Bars(Bars {
        title: "E5 scenario 2: who got how much".to_owned(),
        x: "strategy".to_owned(),
        y: Axis::percent("messages, %"),
        parts: ["member 0, 25 ms", "member 1, 25 ms", "member 2, 50 ms"]
            .map(str::to_owned)
            .to_vec(),
        bars,
        abreast: false,
        halves: Vec::new(),
    });
    let waits = Drawing::Chart(Chart {
        title: "E5 scenario 2: mean wait, second by second".to_owned(),
        x: Axis::linear("published after, s"),
        y: Axis::log("mean wait in that second, ms"),
        series: lines,
        limits: Vec::new(),
    });
    [
        figure(
            SHARES,
            share,
            "All repeats of d = 10.44 ms. 40, 40 and 20 % is what the members can do.",
        ),
        figure(WAITS, waits, "The repeat in the middle."),
    ]
    .into_iter()
    .filter(|figure| figure.drawing.svg().is_some())
    .collect()
}

const SHARES: &str = "e5-shares";
const WAITS: &str = "e5-waits";

fn by_second(trial: &Trial) -> Vec<Point> {
    let mut seconds: Vec<(f64, f64)> = Vec::new();
    for message in &trial.messages {
        let Some(wait) = message.wait_ms() else {
            continue;
        };
        let at = (message.intended / 1_000_000_000) as usize;
        if seconds.len() <= at {
            seconds.resize(at + 1, (0.0, 0.0));
        }
        if let Some((sum, count)) = seconds.get_mut(at) {
            *sum += wait;
            *count += 1.0;
        }
    }
    let points = seconds
        .iter()
        .enumerate()
        .filter(|(_, (_, count))| *count > 0.0);
    points
        .map(|(at, (sum, count))| Point::at(at as f64 + 0.5, (sum / count).max(0.01)))
        .collect()
}
