//! An answer as text, and as JSON.

use std::fmt::{self, Display, Write};

use serde_json::{Map, Value, json};
use thalweg_model::calendar;

use super::axes::{AXES, Axis, count, short};
use super::field::{ASSUMED, Figure};
use super::measure::Metric;
use super::order::Stated;
use super::ranking::{Candidate, Confidence, REPEATS_MIN, Ranking, Standing};
use super::refusal::{self, Refusal};
use super::snippet::snippet;
use super::sources::SourceKind;
use super::{Advice, Outcome, RecommendArgs};
use crate::cell::word;
use crate::energy;

/// Candidates that are explained one by one.
const TOP: usize = 3;

/// The answer for people.
pub fn text(advice: &Advice, query: &RecommendArgs, now_unix_s: u64) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write_text(&mut out, advice, query, now_unix_s);
    out
}

fn write_text(out: &mut String, advice: &Advice, query: &RecommendArgs, now: u64) -> fmt::Result {
    writeln!(out, "Asked: {}.", advice.asked)?;
    match &advice.outcome {
        Outcome::Ranked(ranking) => write_ranking(out, ranking, query, now)?,
        Outcome::Stated(stated) => write_stated(out, stated)?,
        Outcome::Refused(refusal) => write_refusal(out, refusal, query)?,
        Outcome::Nothing => writeln!(out, "\nNothing that is known here can do that.")?,
    }
    let told =
        |(name, words): &(&'static str, Vec<String>)| format!("{name}: {}", words.join("; "));
    let left_out = advice.left_out.iter().map(told);
    write_list(out, "Left out by what they can:", ".", left_out)?;
    for extension in &advice.extensions {
        writeln!(out, "{extension}.")?;
    }
    let conditions = advice.conditions.iter().map(told);
    write_list(out, "To be known:", ".", conditions)?;
    for note in &advice.notes {
        writeln!(out, "\n{note}")?;
    }
    if let Some((head, lines)) = snippet(advice, query) {
        writeln!(out, "\n{head}:\n\n    {}", lines.replace('\n', "\n    "))?;
    }
    Ok(())
}

fn write_refusal(out: &mut String, refusal: &Refusal, query: &RecommendArgs) -> fmt::Result {
    let head = match refusal.is_broken {
        true => "Nothing that was measured keeps the bounds.",
        false => "No answer: this lies outside of what was measured, and a guess is none.",
    };
    write_list(out, head, "", refusal.reasons.iter())?;
    let then = "(then add --data point):\n\n ";
    let command = &refusal.command;
    match (refusal.is_broken, refusal.is_partial) {
        (true, true) => writeln!(out, "\nThis would measure the rest {then} {command}")?,
        (true, false) => {}
        (false, _) => writeln!(out, "\nThis would measure it {then} {command}\n")?,
    }
    if !refusal.is_broken && !query.extrapolate {
        writeln!(out, "--extrapolate answers all the same, and says so.")?;
    }
    Ok(())
}

fn write_ranking(
    out: &mut String,
    ranking: &Ranking,
    query: &RecommendArgs,
    now: u64,
) -> fmt::Result {
    let is_worth_saying = |(axis, value): &&(Axis, f64)| {
        !(matches!(axis, Axis::Members | Axis::Unevenness | Axis::FanOut) && *value == 1.0)
    };
    let assumed = ranking.assumed.iter().filter(is_worth_saying);
    let assumed = joined(assumed.map(|(axis, value)| axis.words(*value)), ", ");
    if !assumed.is_empty() {
        writeln!(out, "Not asked for, so taken as measured: {assumed}.")?;
    }
    writeln!(out, "{}", source_words(ranking, now))?;
    for note in &ranking.source.notes {
        writeln!(out, "- {note}.")?;
    }
    if ranking.goals.len() > 1 || !ranking.not_weighed.is_empty() {
        let weighed = joined(ranking.goals.iter().map(|(it, _)| it.name()), ", ");
        let not = ranking.not_weighed.join(", ");
        let not_known = if not.is_empty() {
            ""
        } else {
            "; not known of all: "
        };
        writeln!(out, "Weighed: {weighed}{not_known}{not}.")?;
    }
    writeln!(out)?;
    let (top, rest) = ranking
        .candidates
        .split_at(TOP.min(ranking.candidates.len()));
    for (candidate, place) in top.iter().zip(1..) {
        writeln!(out, "{place}. {}", candidate_words(ranking, candidate))?;
    }
    if !rest.is_empty() {
        let words = |it: &Candidate| format!("{} ({})", it.choice.name(), against(ranking, it));
        writeln!(out, "Then: {}.", joined(rest.iter().map(words), "; "))?;
    }
    writeln!(out, "\n{}", verdict(ranking))?;
    let is_goal = |metric: &Metric| ranking.goals.iter().any(|(goal, _)| goal == metric);
    let figures = ranking.candidates.iter().flat_map(|it| &it.figures);
    let shown: Vec<&Figure> = figures
        .filter(|(metric, _)| is_goal(metric))
        .map(|(_, figure)| figure)
        .collect();
    if shown.iter().any(|figure| figure.is_assumed) {
        let assumed = short(100.0 * ASSUMED);
        let place = match ranking.source.kind {
            SourceKind::Measured => {
                "there was one repeat only (means: more, if their messages differ so much)"
            }
            _ => "none was published",
        };
        writeln!(
            out,
            "Intervals marked with ~ rest on {assumed} %, assumed where {place}."
        )?;
    }
    if shown.iter().any(|figure| figure.is_stretched) {
        let command = refusal::command(query);
        let head = "Figures marked with ! lie outside of what was measured: they are extrapolated";
        writeln!(out, "{head}. To measure:\n  {command}")?;
    }
    let range = |(axis, from, to): &(Axis, f64, f64)| {
        format!("{} to {}", axis.words(*from), axis.words(*to))
    };
    match &ranking.turn {
        Some(turn) => writeln!(out, "Nearest turn: {}", turn.words())?,
        None if ranking.candidates.len() > 1 && !ranking.searched.is_empty() => {
            let ranges = joined(ranking.searched.iter().map(range), ", ");
            writeln!(
                out,
                "The order does not turn inside of what was measured ({ranges})."
            )?;
        }
        None => {}
    }
    let left_out = ranking.left_out.iter();
    let left_out = left_out.map(|(name, why)| format!("{name}: {why}"));
    write_list(out, "Measured and left out:", ".", left_out)?;
    let outside = ranking.outside.iter();
    write_list(out, "Not known at this point:", ".", outside)?;
    if !ranking.others.is_empty() {
        let head = "Also with an answer, of another machine and so not mixed in";
        writeln!(out, "\n{head}: {}.", ranking.others.join(", "))?;
    }
    Ok(())
}

/// Whether the first is better than the others, and how sure that is.
fn verdict(ranking: &Ranking) -> String {
    let is_tied = |it: &&Candidate| matches!(it.standing, Standing::Equal | Standing::NotToldApart);
    let tied = ranking.candidates.iter().filter(is_tied);
    let tied = joined(tied.map(|it| it.choice.name()), ", ");
    match (ranking.confidence, tied.is_empty()) {
        (Some(confidence), true) => confidence_words(confidence, ranking.source.kind),
        (None, true) => "There is nothing to compare it with.".to_owned(),
        (_, false) => format!(
            "A tie: {} and {tied}. Equal means shown to differ by less than 10 %; not told apart, that the 95 % intervals \
             overlap.",
            ranking.candidates[0].choice.name()
        ),
    }
}

fn confidence_words(confidence: Confidence, kind: SourceKind) -> String {
    let level = word(confidence.level);
    let because = match (confidence.probability, confidence.repeats_least) {
        (Some(probability), _) => format!(" ({} %)", percent(probability)),
        (None, _) if kind != SourceKind::Measured => ", as no spread was published".to_owned(),
        (None, repeats) if repeats < REPEATS_MIN => format!(
            ", as some point has {} only; {REPEATS_MIN} at each would tell (`repeats: {REPEATS_MIN}`)",
            count(repeats as f64, "repeat")
        ),
        (None, _) => ", as some interval was not measured".to_owned(),
    };
    format!("Confidence that the first is better than the second: {level}{because}.")
}

fn candidate_words(ranking: &Ranking, candidate: &Candidate) -> String {
    let figure = |metric: Metric| candidate.figures.get(&metric);
    let goals = ranking.goals.iter().map(|(metric, _)| *metric);
    let is_goal = |metric| goals.clone().any(|goal| goal == metric);
    let goal_words = |metric| Some(figure_words(metric, figure(metric)?));
    let mut parts: Vec<String> = goals.clone().filter_map(goal_words).collect();
    let is_open = ranking.point.on(Axis::Rate) > 0.0;
    for metric in [
        Metric::Latency,
        Metric::LatencyP99,
        Metric::Bytes,
        Metric::Throughput,
    ] {
        // What was offered in an open loop is no throughput.
        let is_none = metric == Metric::Throughput && is_open;
        if !is_none && !is_goal(metric) {
            parts.extend(figure(metric).map(|it| metric.words(it.value)));
        }
    }
    let delivered = figure(Metric::Delivered).map(|it| it.value);
    let incomplete = delivered.filter(|it| *it < 0.9995);
    parts.extend(incomplete.map(|it| Metric::Delivered.words(it)));
    if is_goal(Metric::Throughput) && is_open && delivered.is_some_and(|it| it > 0.99) {
        let finds = "`thalweg bench saturate` finds the ceiling";
        parts.push(format!("all that was offered, so at least this ({finds})"));
    }
    let trials = goals.filter_map(figure).map(|it| (it.points, it.trials));
    let from = match (trials.max(), ranking.source.kind) {
        (Some((points, trials)), SourceKind::Measured) => {
            let (trials, points) = (count(trials as f64, "trial"), count(points as f64, "point"));
            format!(" [{trials} at {points}]")
        }
        _ => String::new(),
    };
    let (name, against) = (candidate.choice.name(), against(ranking, candidate));
    format!("{name}: {}; {against}{from}", parts.join(", "))
}

fn figure_words(metric: Metric, figure: &Figure) -> String {
    let mark = if figure.is_assumed { "~" } else { "" };
    let beyond = if figure.is_stretched { " !" } else { "" };
    let (words, half) = (metric.words(figure.value), rough(figure.half));
    format!("{words} (± {mark}{half} %{beyond})")
}

fn against(ranking: &Ranking, candidate: &Candidate) -> String {
    let worse = (candidate.cost.0 - ranking.candidates[0].cost.0).exp();
    let times = match worse {
        ..1.995 => format!("{:.0} % worse", 100.0 * (worse - 1.0)),
        ..WORSE_MAX => format!("{} times worse", short(worse)),
        _ => format!("more than {WORSE_MAX} times worse"),
    };
    match candidate.standing {
        Standing::Best => "the best".to_owned(),
        Standing::Equal => format!("equal ({times})"),
        Standing::NotToldApart => format!("not told apart ({times})"),
        Standing::Worse => times,
    }
}

/// Beyond that the figure says no more than that.
const WORSE_MAX: f64 = 1000.0;

fn source_words(ranking: &Ranking, now: u64) -> String {
    let source = &ranking.source;
    let age = source.finished_unix_s.map_or_else(String::new, |then| {
        let days = now.saturating_sub(then) / 86_400;
        format!(", {} ({} old)", date(then), count(days as f64, "day"))
    });
    let counts = match ranking.valid {
        (1, _) => "1 trial counts".to_owned(),
        (valid, _) => format!("{valid} trials count"),
    };
    let not = match ranking.valid {
        (_, 0) => String::new(),
        (_, other) => format!(", {other} do not"),
    };
    let (name, kind, machine) = (&source.name, source.kind.words(), &source.machine);
    format!("Data: {name} ({kind}{age}; {machine}). {counts}{not}.")
}

fn write_stated(out: &mut String, stated: &Stated) -> fmt::Result {
    let study = stated.study();
    let no_numbers = "it states an order and publishes no numbers, so there is no size of a difference and no confidence";
    writeln!(out, "Data: paper (study {study}: {no_numbers}).\n")?;
    for (names, place) in stated.places.iter().zip(1..) {
        writeln!(out, "{place}. {}", names.join(" and "))?;
    }
    match stated.orders.len() {
        1 => writeln!(out, "\nIt rests on:")?,
        count => writeln!(out, "\nBy the mean of the ranks in {count} orders:")?,
    }
    for order in &stated.orders {
        let (says, section, study) = (&order.says, &order.section, &order.study);
        writeln!(out, "- {says} ({section}, study {study}).")?;
    }
    if stated.places.iter().any(|place| place.len() > 1) {
        let shared = "Those in one place are equal, or the study does not tell them apart.";
        writeln!(out, "{shared}")?;
    }
    for (name, why) in &stated.left_out {
        writeln!(out, "Left out: {name}: {why}.")?;
    }
    if !stated.elsewhere.is_empty() {
        let elsewhere = stated.elsewhere.join("; ");
        writeln!(out, "The same study elsewhere: {elsewhere}.")?;
    }
    Ok(())
}

/// A heading and what follows under it, if anything does.
fn write_list(
    out: &mut String,
    head: &str,
    end: &str,
    items: impl ExactSizeIterator<Item = impl Display>,
) -> fmt::Result {
    if items.len() > 0 {
        writeln!(out, "\n{head}")?;
    }
    for item in items {
        writeln!(out, "- {item}{end}")?;
    }
    Ok(())
}

fn joined(parts: impl Iterator<Item = String>, between: &str) -> String {
    parts.collect::<Vec<_>>().join(between)
}

/// An interval in percent, rounded.
fn rough(half: f64) -> String {
    match 100.0 * half {
        it if it < 0.05 => "0".to_owned(),
        it if it < 9.95 => format!("{it:.1}"),
        it => format!("{:.0}", it.min(999.0)),
    }
}

/// A probability in percent: nothing is certain.
fn percent(part: f64) -> String {
    match part > 0.999 {
        true => "more than 99.9".to_owned(),
        false => short(100.0 * part),
    }
}

/// The day of a time, UTC.
fn date(unix_s: u64) -> String {
    let (year, month, day) = calendar::date_of(unix_s / 86_400);
    format!("{year:04}-{month:02}-{day:02}")
}

/// The answer for programs.
pub fn json(advice: &Advice, query: &RecommendArgs, now_unix_s: u64) -> Value {
    let pairs = |list: &[(&'static str, Vec<String>)]| -> Value {
        let pair = |(name, words)| json!({ "protocol": name, "words": words });
        list.iter()
            .map(|(name, words)| pair((name, words)))
            .collect()
    };
    let snippet = snippet(advice, query);
    let mut all = match &advice.outcome {
        Outcome::Ranked(ranking) => ranking_json(ranking, query, now_unix_s),
        Outcome::Stated(stated) => json!({
            "outcome": "stated",
            "study": stated.study(),
            "places": stated.places,
            "by_mean_rank": stated.orders.len() > 1,
            "rests_on": stated.orders.iter().map(|order| &order.says).collect::<Vec<_>>(),
            "elsewhere": stated.elsewhere,
            "left_out": stated.left_out,
        }),
        Outcome::Refused(refusal) => json!({
            "outcome": "refused",
            "reasons": refusal.reasons,
            "bounds_broken": refusal.is_broken,
            "command": (!refusal.is_broken).then_some(&refusal.command),
        }),
        Outcome::Nothing => json!({ "outcome": "nothing" }),
    };
    for (name, value) in [
        ("asked", json!(advice.asked)),
        ("conditions", pairs(&advice.conditions)),
        ("extensions", json!(advice.extensions)),
        ("notes", json!(advice.notes)),
        (
            "configuration",
            json!(snippet.map(|(head, lines)| json!({ "for": head, "lines": lines }))),
        ),
    ] {
        all[name] = value;
    }
    // What a study's order left out stays that.
    if all["left_out"].is_null() {
        all["left_out"] = pairs(&advice.left_out);
    }
    all
}

fn ranking_json(ranking: &Ranking, query: &RecommendArgs, now: u64) -> Value {
    let source = &ranking.source;
    let candidate = |it: &Candidate| {
        let figures = it.figures.iter();
        let figures: Map<_, _> = figures
            .map(|(metric, figure)| (metric.name(), json!(figure)))
            .collect();
        json!({ "choice": it.choice.json(), "standing": it.standing, "figures": figures })
    };
    let point = AXES.map(|axis| (axis.name().to_owned(), json!(ranking.point.on(axis))));
    let weighed =
        |(metric, weight): &(Metric, f64)| json!({ "metric": metric.name(), "weight": weight });
    let profile = energy::named(&query.energy_profile);
    json!({
        "outcome": "ranked",
        "candidates": ranking.candidates.iter().map(candidate).collect::<Vec<_>>(),
        "confidence": ranking.confidence.map(|it| json!({ "level": word(it.level), "probability": it.probability,
            "repeats_least": it.repeats_least, "repeats_min": REPEATS_MIN })),
        "crossover": ranking.turn.as_ref().map(|turn| json!({ "axis": turn.axis.name(), "at": turn.at,
            "side": if turn.is_below { "below" } else { "above" }, "beyond_intervals": turn.is_sure, "then": turn.then.json(), "words": turn.words() })),
        "point": Map::from_iter(point),
        "assumed": ranking.assumed.iter().map(|(axis, _)| axis.name()).collect::<Vec<_>>(),
        "weighed": ranking.goals.iter().map(weighed).collect::<Vec<_>>(),
        "measured_and_left_out": ranking.left_out,
        "not_known_here": ranking.outside,
        "data": { "name": source.name, "kind": source.kind.words(), "machine": source.machine,
            "finished_unix_s": source.finished_unix_s,
            "age_s": source.finished_unix_s.map(|then| now.saturating_sub(then)), "valid": ranking.valid.0, "not_valid": ranking.valid.1,
            "notes": source.notes },
        "energy": profile.map(|it| json!({ "modelled": true, "profile": it.name, "source": it.source, "assumed": it.assumed })),
        "units": { "latency": "us", "bytes": "Ethernet-frame bytes per message, both legs", "throughput": "messages/s",
            "cpu": "us per message", "memory": "KiB", "energy": "uJ per message, modelled", "half_interval": "95 %, part of the value" },
    })
}
