//! An answer as text, as JSON, and as lines for our client.

use std::fmt::Write;

use serde_json::{Value, json};
use thalweg_model::calendar;

use super::axes::{AXES, Axis, short};
use super::choice::Choice;
use super::field::{ASSUMED, Figure};
use super::measure::Metric;
use super::order::Stated;
use super::ranking::{Candidate, Confidence, REPEATS_MIN, Ranking, Standing};
use super::sources::{About, SourceKind};
use super::{Advice, Need, Objective, Outcome, RecommendArgs};
use crate::cell::Protocol;
use crate::energy;
use crate::studies::group;

/// Candidates that are explained one by one.
const TOP: usize = 3;

/// The answer for people.
pub fn text(advice: &Advice, query: &RecommendArgs, now_unix_s: u64) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write_text(&mut out, advice, query, now_unix_s);
    out
}

fn write_text(
    out: &mut String,
    advice: &Advice,
    query: &RecommendArgs,
    now: u64,
) -> std::fmt::Result {
    writeln!(out, "Asked: {}.", advice.asked)?;
    match &advice.outcome {
        Outcome::Ranked(ranking) => write_ranking(out, ranking, query, now)?,
        Outcome::Stated(stated) => write_stated(out, stated)?,
        Outcome::Refused(refusal) if refusal.is_broken => {
            let head = "Nothing that was measured keeps the bounds.";
            write_list(out, head, "", refusal.reasons.iter())?;
            if refusal.is_partial {
                writeln!(
                    out,
                    "\nThis would measure the rest (then add --data point):\n\n  {}",
                    refusal.command
                )?;
            }
        }
        Outcome::Refused(refusal) => {
            let head = "No answer: this lies outside of what was measured, and a guess is none.";
            write_list(out, head, "", refusal.reasons.iter())?;
            writeln!(
                out,
                "\nThis would measure it (then add --data point):\n\n  {}\n",
                refusal.command
            )?;
            if !query.extrapolate {
                writeln!(out, "--extrapolate answers all the same, and says so.")?;
            }
        }
        Outcome::Nothing => writeln!(out, "\nNothing that is known here can do that.")?,
    }
    let told = |(name, words): &(String, Vec<String>)| format!("{name}: {}", words.join("; "));
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
    if let Some(snippet) = snippet(advice, query) {
        writeln!(out, "\n{}:\n", snippet.0)?;
        for line in snippet.1.lines() {
            writeln!(out, "    {line}")?;
        }
    }
    Ok(())
}

fn write_ranking(
    out: &mut String,
    ranking: &Ranking,
    query: &RecommendArgs,
    now: u64,
) -> std::fmt::Result {
    if !ranking.assumed.is_empty() {
        let parts: Vec<String> = ranking
            .assumed
            .iter()
            .filter(|(axis, value)| is_worth_saying(*axis, *value))
            .map(|(axis, value)| axis.words(*value))
            .collect();
        if !parts.is_empty() {
            writeln!(
                out,
                "Not asked for, so taken as measured: {}.",
                parts.join(", ")
            )?;
        }
    }
    writeln!(out, "{}", source_words(&ranking.source, now))?;
    for note in &ranking.source.notes {
        writeln!(out, "- {note}.")?;
    }
    let weighed: Vec<String> = ranking
        .goals
        .iter()
        .map(|(metric, _)| metric.name().to_owned())
        .collect();
    if ranking.goals.len() > 1 || !ranking.not_weighed.is_empty() {
        let not: Vec<&str> = ranking.not_weighed.iter().map(|it| it.name()).collect();
        let not = if not.is_empty() {
            String::new()
        } else {
            format!("; not known of all: {}", not.join(", "))
        };
        writeln!(out, "Weighed: {}{not}.", weighed.join(", "))?;
    }
    writeln!(out)?;
    for (place, candidate) in ranking.candidates.iter().enumerate().take(TOP) {
        writeln!(
            out,
            "{}. {}",
            place + 1,
            candidate_words(ranking, candidate)
        )?;
    }
    let rest: Vec<String> = ranking
        .candidates
        .iter()
        .skip(TOP)
        .map(|it| format!("{} ({})", it.choice.name(), against(ranking, it)))
        .collect();
    if !rest.is_empty() {
        writeln!(out, "Then: {}.", rest.join("; "))?;
    }
    writeln!(out)?;
    let tied: Vec<&Candidate> = ranking
        .candidates
        .iter()
        .filter(|it| matches!(it.standing, Standing::Equal | Standing::NotToldApart))
        .collect();
    match (tied.first(), ranking.confidence) {
        (Some(_), _) => {
            let names: Vec<String> = tied.iter().map(|it| it.choice.name()).collect();
            let best = ranking
                .candidates
                .first()
                .map_or_else(String::new, |it| it.choice.name());
            writeln!(
                out,
                "A tie: {best} and {}. Equal means shown to differ by less than 10 %; not told apart, that the 95 % \
                intervals overlap.",
                names.join(", ")
            )?;
        }
        (None, Some(confidence)) => writeln!(
            out,
            "{}",
            confidence_words(&confidence, ranking.source.kind)
        )?,
        (None, None) => writeln!(out, "There is nothing to compare it with.")?,
    }
    let figures = ranking.candidates.iter().flat_map(|it| &it.figures);
    let goal = |metric: &Metric| ranking.goals.iter().any(|(of, _)| of == metric);
    let shown: Vec<&(Metric, Figure)> = figures.filter(|(metric, _)| goal(metric)).collect();
    if shown.iter().any(|(_, figure)| figure.is_assumed) {
        writeln!(
            out,
            "Intervals marked with ~ rest on {} %, assumed where {}.",
            short(100.0 * ASSUMED),
            match ranking.source.kind {
                SourceKind::Measured =>
                    "there was one repeat only (means: more, if their messages differ so much)",
                _ => "none was published",
            }
        )?;
    }
    if shown.iter().any(|(_, figure)| figure.is_stretched) {
        writeln!(
            out,
            "Figures marked with ! lie outside of what was measured: they are extrapolated. To measure:\n  {}",
            super::refusal::command(query)
        )?;
    }
    match &ranking.turn {
        Some(turn) => writeln!(out, "Nearest turn: {}", turn.words())?,
        None if ranking.candidates.len() > 1 && !ranking.searched.is_empty() => {
            let ranges: Vec<String> = ranking
                .searched
                .iter()
                .map(|(axis, from, to)| format!("{} to {}", axis.words(*from), axis.words(*to)))
                .collect();
            writeln!(
                out,
                "The order does not turn inside of what was measured ({}).",
                ranges.join(", ")
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
        writeln!(
            out,
            "\nAlso with an answer, of another machine and so not mixed in: {}.",
            ranking.others.join(", ")
        )?;
    }
    Ok(())
}

/// A heading and what follows under it, if anything does.
fn write_list(
    out: &mut String,
    head: &str,
    end: &str,
    items: impl ExactSizeIterator<Item = impl std::fmt::Display>,
) -> std::fmt::Result {
    if items.len() > 0 {
        writeln!(out, "\n{head}")?;
    }
    for item in items {
        writeln!(out, "- {item}{end}")?;
    }
    Ok(())
}

fn confidence_words(confidence: &Confidence, kind: SourceKind) -> String {
    let level = confidence.level.name();
    let head = "Confidence that the first is better than the second:";
    let repeats = confidence.repeats_least;
    match confidence.probability {
        Some(probability) => format!("{head} {level} ({} %).", percent(probability)),
        None if kind != SourceKind::Measured => {
            format!("{head} {level}, as no spread was published.")
        }
        None if repeats < REPEATS_MIN => format!(
            "{head} {level}, as some point has {repeats} repeat{} only; {REPEATS_MIN} at each would tell (`repeats: {REPEATS_MIN}`).",
            if repeats == 1 { "" } else { "s" }
        ),
        None => format!("{head} {level}, as some interval was not measured."),
    }
}

fn is_worth_saying(axis: Axis, value: f64) -> bool {
    !(matches!(axis, Axis::Members | Axis::Unevenness | Axis::FanOut) && value == 1.0)
}

fn candidate_words(ranking: &Ranking, candidate: &Candidate) -> String {
    let goals: Vec<Metric> = ranking.goals.iter().map(|(metric, _)| *metric).collect();
    let figure = |metric: &Metric| {
        candidate
            .figures
            .iter()
            .find(|(of, _)| of == metric)
            .map(|(_, figure)| figure)
    };
    let mut parts: Vec<String> = goals
        .iter()
        .filter_map(|metric| Some(figure_words(*metric, figure(metric)?)))
        .collect();
    for metric in [
        Metric::Latency,
        Metric::LatencyP99,
        Metric::Bytes,
        Metric::Throughput,
    ] {
        if !goals.contains(&metric)
            && let Some(it) = figure(&metric)
            // What was offered in an open loop is no throughput.
            && (metric != Metric::Throughput || ranking.point.on(Axis::Rate) == 0.0)
        {
            parts.push(metric.words(it.value));
        }
    }
    if let Some(delivered) = figure(&Metric::Delivered).filter(|it| it.value < 0.9995) {
        parts.push(Metric::Delivered.words(delivered.value));
    }
    let is_offered = goals.contains(&Metric::Throughput) && ranking.point.on(Axis::Rate) > 0.0;
    if is_offered && figure(&Metric::Delivered).is_some_and(|it| it.value > 0.99) {
        parts.push(
            "all that was offered, so at least this (`thalweg bench saturate` finds the ceiling)"
                .to_owned(),
        );
    }
    let trials = goals
        .iter()
        .filter_map(figure)
        .map(|it| (it.points, it.trials))
        .max();
    let from = match (trials, ranking.source.kind) {
        (Some((points, trials)), SourceKind::Measured) => {
            let s = |count: usize| if count == 1 { "" } else { "s" };
            format!(
                " [{trials} trial{} at {points} point{}]",
                s(trials),
                s(points)
            )
        }
        _ => String::new(),
    };
    format!(
        "{}: {}; {}{from}",
        candidate.choice.name(),
        parts.join(", "),
        against(ranking, candidate)
    )
}

fn figure_words(metric: Metric, figure: &Figure) -> String {
    let mark = if figure.is_assumed { "~" } else { "" };
    let beyond = if figure.is_stretched { " !" } else { "" };
    format!(
        "{} (± {mark}{} %{beyond})",
        metric.words(figure.value),
        rough(figure.half)
    )
}

fn against(ranking: &Ranking, candidate: &Candidate) -> String {
    let best = ranking.candidates.first().map_or(0.0, |it| it.cost.0);
    let worse = (candidate.cost.0 - best).exp();
    let times = if worse < 1.995 {
        format!("{:.0} % worse", 100.0 * (worse - 1.0))
    } else if worse < WORSE_MAX {
        format!("{} times worse", short(worse))
    } else {
        format!("more than {WORSE_MAX} times worse")
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

fn source_words(source: &About, now: u64) -> String {
    let (valid, other) = (source.valid, source.not_valid);
    let age = source.finished_unix_s.map_or_else(String::new, |then| {
        let days = now.saturating_sub(then) / 86_400;
        format!(
            ", {} ({days} day{} old)",
            date(then),
            if days == 1 { "" } else { "s" }
        )
    });
    let not = if other == 0 {
        String::new()
    } else {
        format!(", {other} do not")
    };
    let counts = if valid == 1 {
        "1 trial counts".to_owned()
    } else {
        format!("{valid} trials count")
    };
    format!(
        "Data: {} ({}{age}; {}). {counts}{not}.",
        source.name,
        source.kind.words(),
        source.machine
    )
}

fn write_stated(out: &mut String, stated: &Stated) -> std::fmt::Result {
    let study = stated
        .orders
        .first()
        .map_or("", |order| order.study.as_str());
    writeln!(
        out,
        "Data: paper (study {study}: it states an order and publishes no numbers, so there is no size of a difference and no confidence).\n"
    )?;
    for (place, names) in stated.places.iter().enumerate() {
        writeln!(out, "{}. {}", place + 1, names.join(" and "))?;
    }
    if stated.is_mean {
        writeln!(
            out,
            "\nBy the mean of the ranks in {} orders:",
            stated.orders.len()
        )?;
    } else {
        writeln!(out, "\nIt rests on:")?;
    }
    for order in &stated.orders {
        writeln!(
            out,
            "- {} ({}, study {}).",
            order.says, order.section, order.study
        )?;
    }
    if stated.places.iter().any(|place| place.len() > 1) {
        writeln!(
            out,
            "Those in one place are equal, or the study does not tell them apart."
        )?;
    }
    for (name, why) in &stated.left_out {
        writeln!(out, "Left out: {name}: {why}.")?;
    }
    if !stated.elsewhere.is_empty() {
        writeln!(
            out,
            "The same study elsewhere: {}.",
            stated.elsewhere.join("; ")
        )?;
    }
    Ok(())
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
    if part > 0.999 {
        "more than 99.9".to_owned()
    } else {
        short(100.0 * part)
    }
}

/// The day of a time, UTC.
fn date(unix_s: u64) -> String {
    let (year, month, day) = calendar::date_of(unix_s / 86_400);
    format!("{year:04}-{month:02}-{day:02}")
}

/// What to write into a program or a configuration: a heading, and lines.
fn snippet(advice: &Advice, query: &RecommendArgs) -> Option<(String, String)> {
    let Outcome::Ranked(ranking) = &advice.outcome else {
        return None;
    };
    let best = &ranking.candidates.first()?.choice;
    if let Some(strategy) = best.strategy() {
        return Some(group_snippet(strategy));
    }
    let objective = |goal: &str| match goal {
        "bytes" => "Objective::Bytes",
        "energy" => "Objective::Energy",
        _ => "Objective::Latency",
    };
    if let Some(goal) = best.adaptive() {
        let lines = format!(
            "let client = Client::builder()\n    .broker(\"mqtt://broker\")?\n    .broker(\"coap://broker\")?\n    .objective({})\n    \
             .connect_blocking()?;\nlet options = Options {{ reliability: Reliability::AtLeastOnce, ..Options::default() }};",
            objective(goal)
        );
        return Some(("For our client".to_owned(), lines));
    }
    let scheme = |choice: &Choice| match (choice.publish.protocol, choice.subscribe.protocol) {
        (one, other) if one != other => None,
        (Protocol::Mqtt, _) => Some("mqtt"),
        (Protocol::Coap, _) => Some("coap"),
        (Protocol::Amqp, _) => Some("amqp"),
        (Protocol::Stomp, _) => Some("stomp"),
        _ => None,
    };
    let Some(first) = scheme(best) else {
        let name = group::name(best.publish.protocol);
        return Some((
            format!("Our client does not speak {name}"),
            "nothing to configure here; a library of it is needed".to_owned(),
        ));
    };
    // The network may change: the client can follow, if the other side of the turn is a protocol of its own.
    let second = ranking
        .turn
        .as_ref()
        .and_then(|turn| scheme(&turn.then))
        .filter(|it| *it != first);
    let mut lines = vec![
        "let client = Client::builder()".to_owned(),
        format!("    .broker(\"{first}://broker\")?"),
    ];
    if let Some(second) = second {
        lines.push(format!("    .broker(\"{second}://broker\")?      // the client chooses while the network changes"));
        let goal = match query.objective {
            Objective::Bytes => "bytes",
            Objective::Energy => "energy",
            _ => "latency",
        };
        lines.push(format!("    .objective({})", objective(goal)));
    }
    lines.push("    .connect_blocking()?;".to_owned());
    let reliability = match best.publish.qos {
        _ if query.needs.contains(&Need::ExactlyOnce) => "ExactlyOnce",
        0 => "AtMostOnce",
        1 => "AtLeastOnce",
        _ => "ExactlyOnce",
    };
    lines.push(format!(
        "let options = Options {{ reliability: Reliability::{reliability}, ..Options::default() }};"
    ));
    Some(("For our client".to_owned(), lines.join("\n")))
}

fn group_snippet(strategy: &str) -> (String, String) {
    let (name, told) = strategy.split_once('+').unwrap_or((strategy, ""));
    let how = match (name, told) {
        (_, "qos1") => {
            "# members subscribe with QoS 1 and acknowledge what they have processed: `thalweg sub --work`"
        }
        ("score" | "adaptive", _) => {
            "# members report their load: `thalweg sub --work --report pingreq --report-every 1s`"
        }
        ("weighted", _) => {
            "# members have to name their weights, and the weights have to be right: docs/workers.md"
        }
        _ => "# members need to tell nothing",
    };
    let lines = format!("{how}\n[[groups.policies]]\nfilter = \"#\"\nstrategy = \"{name}\"");
    ("For our broker".to_owned(), lines)
}

/// The answer for programs.
pub fn json(advice: &Advice, query: &RecommendArgs, now_unix_s: u64) -> Value {
    let pairs = |list: &[(String, Vec<String>)]| -> Value {
        list.iter()
            .map(|(name, words)| json!({ "protocol": name, "words": words }))
            .collect()
    };
    let outcome = match &advice.outcome {
        Outcome::Ranked(ranking) => ranking_json(ranking, query, now_unix_s),
        Outcome::Stated(stated) => json!({
            "outcome": "stated",
            "study": stated.orders.first().map(|order| &order.study),
            "places": stated.places,
            "by_mean_rank": stated.is_mean,
            "rests_on": stated.orders.iter().map(|order| &order.says).collect::<Vec<_>>(),
            "elsewhere": stated.elsewhere,
            "left_out": stated.left_out,
        }),
        Outcome::Refused(refusal) => {
            json!({ "outcome": "refused", "reasons": refusal.reasons, "bounds_broken": refusal.is_broken,
                "command": (!refusal.is_broken).then_some(&refusal.command) })
        }
        Outcome::Nothing => json!({ "outcome": "nothing" }),
    };
    let mut all = json!({
        "asked": advice.asked,
        "left_out": pairs(&advice.left_out),
        "conditions": pairs(&advice.conditions),
        "extensions": advice.extensions,
        "notes": advice.notes,
        "configuration": snippet(advice, query).map(|(head, lines)| json!({ "for": head, "lines": lines })),
    });
    if let (Some(all), Value::Object(outcome)) = (all.as_object_mut(), outcome) {
        all.extend(outcome);
    }
    all
}

fn ranking_json(ranking: &Ranking, query: &RecommendArgs, now: u64) -> Value {
    let source = &ranking.source;
    let candidate = |it: &Candidate| {
        let figures: serde_json::Map<String, Value> = it
            .figures
            .iter()
            .map(|(metric, figure)| {
                let figure = json!({ "value": figure.value, "half_interval": figure.half, "assumed": figure.is_assumed,
                    "extrapolated": figure.is_stretched, "points": figure.points, "trials": figure.trials,
                    "repeats_least": figure.repeats_least });
                (metric.name().to_owned(), figure)
            })
            .collect();
        let standing = match it.standing {
            Standing::Best => "best",
            Standing::Equal => "equal",
            Standing::NotToldApart => "not-told-apart",
            Standing::Worse => "worse",
        };
        json!({ "choice": it.choice.json(), "standing": standing, "figures": figures })
    };
    let point: serde_json::Map<String, Value> = AXES
        .into_iter()
        .map(|axis| (axis.name().to_owned(), json!(ranking.point.on(axis))))
        .collect();
    let profile = energy::named(&query.energy_profile);
    json!({
        "outcome": "ranked",
        "candidates": ranking.candidates.iter().map(candidate).collect::<Vec<_>>(),
        "confidence": ranking.confidence.map(|it| json!({ "level": it.level.name(), "probability": it.probability,
            "repeats_least": it.repeats_least, "repeats_min": REPEATS_MIN })),
        "crossover": ranking.turn.as_ref().map(|turn| json!({ "axis": turn.axis.name(), "at": turn.at,
            "side": if turn.is_below { "below" } else { "above" }, "beyond_intervals": turn.is_sure, "then": turn.then.json(), "words": turn.words() })),
        "point": point,
        "assumed": ranking.assumed.iter().map(|(axis, _)| axis.name()).collect::<Vec<_>>(),
        "weighed": ranking.goals.iter().map(|(metric, weight)| json!({ "metric": metric.name(), "weight": weight })).collect::<Vec<_>>(),
        "measured_and_left_out": ranking.left_out,
        "not_known_here": ranking.outside,
        "data": { "name": source.name, "kind": source.kind.words(), "machine": source.machine,
            "finished_unix_s": source.finished_unix_s,
            "age_s": source.finished_unix_s.map(|then| now.saturating_sub(then)), "valid": source.valid, "not_valid": source.not_valid,
            "notes": source.notes },
        "energy": profile.map(|it| json!({ "modelled": true, "profile": it.name, "source": it.source, "assumed": it.assumed })),
        "units": { "latency": "us", "bytes": "Ethernet-frame bytes per message, both legs", "throughput": "messages/s",
            "cpu": "us per message", "memory": "KiB", "energy": "uJ per message, modelled", "half_interval": "95 %, part of the value" },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        for (unix_s, day) in [
            (0, "1970-01-01"),
            (951_782_400, "2000-02-29"),
            (1_795_339_420, "2026-11-22"),
        ] {
            assert_eq!(date(unix_s), day);
        }
    }
}
