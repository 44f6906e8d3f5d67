use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use super::{advise, ask, blank, made, measured, query, render};
use crate::cell::{Cell, Leg, Load, Protocol, Quantiles, Row, Workload};
use crate::recommend::axes::{AXES, Point};
use crate::recommend::choice::Choice;
use crate::recommend::measure::Metric;
use crate::recommend::published::blank_cell;
use crate::recommend::{Outcome, Source};

#[derive(Deserialize)]
struct Questions {
    question: Vec<Question>,
}

/// The head of `questions.toml` says what its parts mean.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
    ask: String,
    data: Vec<String>,
    outcome: Option<String>,
    tied: Option<Vec<String>>,
    turn: Option<(String, String, f64, f64)>,
    #[serde(default)]
    best: Vec<String>,
    #[serde(default)]
    places: Vec<String>,
    #[serde(default)]
    level: Vec<String>,
    #[serde(default)]
    worse: Vec<String>,
    #[serde(default)]
    extrapolated: bool,
    #[serde(default)]
    text: Vec<String>,
    #[serde(default)]
    without: Vec<String>,
}

fn source(name: &str) -> Source {
    let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench-results");
    let source = match name {
        "paper" => Ok(Source::paper()),
        "expected" => Ok(Source::expected()),
        "own" => Source::open(&results.join("2026-11-22-point")),
        "e2d" => Source::open(&results.join("2026-11-22-standard/E2d")),
        "made" => Ok(made()),
        "flood" => Ok(flood()),
        _ => panic!("there are no data {name}"),
    };
    source.unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn flood() -> Source {
    let leg = Leg::of(Protocol::Mqtt, 0);
    let cell = Cell {
        publish: leg,
        subscribe: leg,
        workload: Workload::Fixed { bytes: 60 },
        load: Load::Flood { flows: 4 },
        ..blank_cell()
    };
    let response = Quantiles {
        count: 10,
        mean: 100.0,
        ..Quantiles::default()
    };
    let row = Row {
        seconds: 1.0,
        response,
        ..blank(10)
    };
    measured("flood", vec![(cell, row)])
}

/// Each of them begins as it should, in order.
fn begins(found: &[String], expected: &[String]) -> bool {
    let mut pairs = found.iter().zip(expected);
    found.len() >= expected.len() && pairs.all(|(found, begin)| found.starts_with(begin))
}

#[test]
fn questions_have_the_answers_that_are_known() {
    let Questions { question } = toml::from_str(include_str!("questions.toml")).expect("questions");
    for asked in question {
        let sources: Vec<Source> = asked.data.iter().map(|name| source(name)).collect();
        let (advice, text) = ask(&asked.ask, &sources);
        let json = render::json(&advice, &query(&asked.ask), 0);
        let list = |of: &Value| of.as_array().cloned().unwrap_or_default();
        let word = |of: &Value| of.as_str().unwrap_or_default().to_owned();
        let case = format!("{} {:?}\n{text}", asked.ask, asked.data);
        let candidates = list(&json["candidates"]);
        let named = |is_worse: bool| -> Vec<String> {
            let of = candidates
                .iter()
                .filter(|it| (it["standing"] == "worse") == is_worse);
            of.map(|it| word(&it["choice"]["name"])).collect()
        };
        let (level, worse) = (named(false), named(true));
        let names = [level.clone(), worse.clone()].concat();
        assert!(begins(&names, &asked.best), "{case}");
        if let Some(tied) = &asked.tied {
            let found = &level[1..];
            assert!(begins(found, tied) && found.len() == tied.len(), "{case}");
        }
        for (of, begin) in [(&level, &asked.level), (&worse, &asked.worse)] {
            let is_there = |begin: &String| of.iter().any(|name| name.starts_with(begin));
            assert!(begin.iter().all(is_there), "{case}");
        }
        let place = |place: &Value| list(place).iter().map(word).collect::<Vec<_>>().join("=");
        let places: Vec<String> = list(&json["places"]).iter().map(place).collect();
        assert!(begins(&places, &asked.places), "{case}");
        if let Some((side, then, from, to)) = &asked.turn {
            let turn = &json["crossover"];
            let (at, name) = (turn["at"].as_f64(), word(&turn["then"]["name"]));
            assert!(
                turn["side"] == **side && name.starts_with(then),
                "{turn}, {case}"
            );
            assert!(
                at.is_some_and(|at| (*from..*to).contains(&at)),
                "{turn}, {case}"
            );
        }
        if let Some(outcome) = &asked.outcome {
            assert_eq!(json["outcome"], **outcome, "{case}");
        }
        if asked.extrapolated {
            let figures = candidates.iter().flat_map(|it| it["figures"].as_object());
            let mut figures = figures.flat_map(|it| it.values());
            assert!(figures.all(|it| it["extrapolated"] == true), "{case}");
        }
        for words in &asked.text {
            assert!(text.contains(words), "{words}: {case}");
        }
        for words in &asked.without {
            assert!(!text.contains(words), "{words}: {case}");
        }
    }
}

#[test]
fn nothing_that_keeps_the_bound_is_an_answer_even_where_some_choices_were_not_measured() {
    // A third protocol, measured elsewhere only.
    let mut source = made();
    let (mut cell, row) = source.trials[0].clone();
    (cell.publish.protocol, cell.subscribe.protocol) = (Protocol::Amqp, Protocol::Amqp);
    cell.workload = Workload::Fixed { bytes: 16_000 };
    source.trials.push((cell, row));
    // One of which nothing but the mean is known, as of a course of E2d.
    for (mut cell, mut row) in source.trials.clone() {
        (cell.publish.qos, cell.subscribe.qos) = (2, 2);
        row.response.p99 = f64::NAN;
        source.trials.push((cell, row));
    }
    let flags = "--payload 60B --loss 0% --objective bytes --p99-max 1us";
    let (advice, text) = ask(flags, &[source]);
    assert!(matches!(&advice.outcome, Outcome::Refused(it) if it.is_broken));
    let head = "Nothing that was measured keeps the bounds";
    assert!(text.contains(head), "{text}");
}

#[test]
fn a_trial_in_which_nothing_came_in_time_has_no_rate() {
    let (cell, row) = made().trials[0].clone();
    for (delivered, late, rate) in [(1000, 0, Some(10.0)), (0, 0, None), (1000, 1000, None)] {
        let row = Row {
            delivered,
            late,
            ..row.clone()
        };
        let profile = &crate::energy::PROFILES[0];
        assert_eq!(Metric::Throughput.of(&cell, &row, profile), rate);
    }
}

#[test]
fn the_answer_is_the_same_whatever_the_order_of_the_data() {
    let query = query("--payload 600B --loss 0% --need at-least-once --objective bytes");
    let json = |source: Source| render::json(&advise(&query, &[source]), &query, 0);
    assert_eq!(json(made()), json(made()));
    let mut turned = made();
    turned.trials.reverse();
    let order = |json: Value| -> Vec<(String, String)> {
        let candidates = json["candidates"].as_array().cloned().unwrap_or_default();
        let of = |it: &Value| (it["choice"]["name"].to_string(), it["standing"].to_string());
        candidates.iter().map(of).collect()
    };
    assert_eq!(order(json(made())), order(json(turned)));
}

/// The scenario that ships gives the very cell that is asked for.
#[test]
fn the_command_of_a_refusal_can_be_run_and_measures_the_point() {
    let flags = "--payload 64kB --loss 40% --rate 0.5/s --pairs 12 --fanout 3 --rtt 25ms --bandwidth 2mbit --system mosquitto --objective bytes";
    let (advice, text) = ask(flags, &[source("expected")]);
    let Outcome::Refused(refusal) = &advice.outcome else {
        panic!("{text}")
    };
    let words: Vec<&str> = refusal.command.split(' ').collect();
    assert_eq!(words[..3], ["thalweg", "bench", "run"]);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let sets = words[4..].chunks(2).filter(|pair| pair[0] == "--set");
    let sets: Vec<(String, String)> = sets
        .filter_map(|pair| pair[1].split_once('='))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    let scenario = crate::scenario::read(&root.join(words[3]), &sets, None);
    let cells = scenario.expect("it is a scenario").cells;
    assert_eq!(cells.len(), 3 * 7, "three repeats of seven ways");
    let query = query(flags);
    for cell in &cells {
        let point = Point::of(cell, &blank(1)).expect("it has a size");
        for axis in AXES {
            let found = point.on(axis);
            let asked = query.on(axis).unwrap_or(found);
            assert!(
                axis.is_near(found, asked),
                "{axis:?}: {found} instead of {asked}"
            );
        }
        let (rate, system) = (cell.link.rate, cell.system.as_str());
        assert_eq!((rate, system), (Some(2_000_000), "mosquitto"));
        let variant = Choice::of(cell).variant;
        assert!(variant.is_empty(), "{variant:?}");
    }
}
