//! What the report of E5 says, in which order: verdicts, the thesis's tables beside ours, drawings, sweeps, bars, and what
//! did not count.

use serde_json::{Value, json};

use super::document::{Document, Table};
use super::drawings;
use super::groups::{Group, Groups, Stat, short};
use super::raw::Run;
use super::study::{self, Check, OVERALL, POINT, STEADY};
use super::trial::{NEVER, Trial, Verdict, mean, quantile};

/// A row against the limit and what became of it.
#[derive(Clone, Debug)]
pub struct Row {
    name: String,
    ratio: (Stat, Stat),
    bar: (f64, f64),
    limit: (f64, f64),
    /// The same messages in virtual time.
    simulated: (f64, f64),
    trials: usize,
    lost: usize,
    exposed: usize,
    resent_ms: f64,
    unmarked: usize,
    twice: usize,
}

impl Row {
    /// Whether both bars hold.
    pub fn is_held(&self) -> bool {
        self.ratio.0.mean <= self.bar.0 && self.ratio.1.mean <= self.bar.1
    }

    fn of(name: &str, group: &Group<'_>) -> Option<Row> {
        let sum = |of: fn(&Trial) -> usize| group.trials().map(of).max().unwrap_or(0);
        Some(Row {
            name: name.to_owned(),
            ratio: (
                group.stat(|trial| trial.ratio().0),
                group.stat(|trial| trial.ratio().1),
            ),
            bar: group.trials().find_map(|trial| trial.bars)?,
            limit: (
                group.stat(|trial| trial.limit_ms.0).mean,
                group.stat(|trial| trial.limit_ms.1).mean,
            ),
            simulated: (
                group
                    .stat(|trial| {
                        trial
                            .virtual_ms
                            .map_or(f64::NAN, |it| it.0 / trial.limit_ms.0)
                    })
                    .mean,
                group
                    .stat(|trial| {
                        trial
                            .virtual_ms
                            .map_or(f64::NAN, |it| it.1 / trial.limit_ms.1)
                    })
                    .mean,
            ),
            trials: group.trials().count(),
            lost: sum(Trial::lost),
            exposed: sum(|trial| trial.exposed().count()),
            resent_ms: group
                .trials()
                .filter(|trial| trial.incident != NEVER)
                .map(Trial::resent_after_ms)
                .fold(0.0, f64::max),
            unmarked: sum(Trial::unmarked),
            twice: sum(Trial::processed_twice),
        })
    }

    fn verdict(&self) -> String {
        if self.is_held() {
            "held".to_owned()
        } else {
            "above the bar".to_owned()
        }
    }
}

/// What was found in a run.
#[derive(Debug)]
pub struct Findings {
    /// Statements of the study, and bars of scenario 2.
    pub checks: Vec<Check>,
    /// Rows against the limit.
    pub rows: Vec<Row>,
    pub document: Document,
    /// The same figures for programs.
    pub json: Value,
}

pub fn findings(run: &Run) -> Findings {
    let groups = Groups::of(&run.trials);
    let checks = study::checks(&groups);
    let rows: Vec<Row> = groups
        .part("bars")
        .filter_map(|(name, _, _, group)| Row::of(name, &group))
        .collect();
    let mut document = Document {
        title: "E5: state-aware shared subscriptions".to_owned(),
        ..Document::default()
    };
    about(run, &mut document);
    verdicts(&checks, &mut document);
    beside_the_thesis(&groups, &mut document);
    core(&groups, &mut document);
    figures(&groups, &mut document);
    sweeps(&groups, &mut document);
    against_the_limit(&rows, &mut document);
    what_does_not_count(run, &mut document);
    let json = json!({
        "about": run.about,
        "checks": checks.iter().map(check_json).collect::<Vec<_>>(),
        "cells": cells_json(&groups),
        "rows": rows.iter().map(row_json).collect::<Vec<_>>(),
    });
    Findings {
        checks,
        rows,
        document,
        json,
    }
}

fn about(run: &Run, document: &mut Document) {
    let word = |key: &str| match &run.about[key] {
        Value::String(text) => text.clone(),
        Value::Null => "?".to_owned(),
        other => other.to_string(),
    };
    let valid = run
        .trials
        .iter()
        .filter(|trial| trial.verdict == Verdict::Valid)
        .count();
    let cpu = |who: &str| {
        run.about["cpu_s"][who]
            .as_f64()
            .map_or("?".to_owned(), |seconds| format!("{seconds:.0}"))
    };
    document.text(format!(
        "Thalweg {} ({}), {} of {} trials count, seed {}, budget {}. {} with {} cores, kernel {}; load before: {}. It took \
         {} s; processor time {} s in the broker, {} s in its clients. Broker: {}.",
        word("version"),
        if run.about["is_optimised"] == json!(true) { "optimised build" } else { "debug build" },
        valid,
        run.trials.len(),
        word("seed"),
        word("budget"),
        word("cpu"),
        word("cores"),
        word("kernel"),
        word("load_average_at_start"),
        run.about["lasted_s"].as_f64().map_or("?".to_owned(), |seconds| format!("{seconds:.0}")),
        cpu("broker"),
        cpu("clients"),
        word("broker"),
    ));
    document.text(
        "Wait is the latency of the thesis: from when a message should have been published until a worker takes it from its \
         queue. Response goes on until it is processed. The limit is one queue before all workers that knows who is idle \
         and how fast everybody is, with the same arrivals and service demands and no network (BALANCING 3). After ± stands \
         half of the 95 % interval over repeats. Not done is what nobody had processed 20 s after the last message was \
         published: lost, or in the backlog of a slow member.",
    );
}

fn verdicts(checks: &[Check], document: &mut Document) {
    document.heading("What came out");
    let mut table = Table::new(&["shape", "statement", "study, or bar", "ours", "verdict"]);
    for check in checks {
        table.row([
            check.id.to_owned(),
            check.what.clone(),
            check.study.clone(),
            check.ours.clone(),
            check.ruling.words(),
        ]);
    }
    document.table(table);
}

fn beside_the_thesis(groups: &Groups<'_>, document: &mut Document) {
    if groups.part("core").next().is_none() {
        return;
    }
    document.heading("Beside the thesis: scenario 2, 25, 25 and 50 ms");
    let mut table = Table::new(&[
        "strategy",
        "thesis, mean wait ms",
        "reckoned for exact times",
        "ours",
        "least to greatest",
        "limit",
        "response / limit, mean",
        "99 %",
        "repeats",
    ]);
    let core: Vec<_> = groups
        .part("core")
        .filter(|(scenario, point, ..)| (*scenario, *point) == ("S2", POINT))
        .collect();
    for (_, _, variant, group) in &core {
        let (thesis, reckoned) = OVERALL
            .iter()
            .find(|(name, ..)| name == variant)
            .map_or(("-".to_owned(), "-"), |(_, mean, reckoned)| {
                (mean.to_string(), *reckoned)
            });
        let wait = group.stat(Trial::wait_mean);
        table.row([
            (*variant).to_owned(),
            thesis,
            reckoned.to_owned(),
            wait.to_string(),
            format!("{} to {}", short(wait.range.0), short(wait.range.1)),
            short(group.stat(|trial| trial.limit_wait_ms.max(0.0)).mean),
            short(group.stat(|trial| trial.ratio().0).mean),
            short(group.stat(|trial| trial.ratio().1).mean),
            wait.count.to_string(),
        ]);
    }
    document.table(table);
    document.text(
        "Messages 500 to 1000 (tables 7 and 8 of the thesis), by member; ours is the mean over repeats of each figure.",
    );
    let head = [
        "strategy",
        "member",
        "",
        "messages",
        "least",
        "greatest",
        "mean",
        "standard deviation",
    ];
    let mut table = Table::new(&head);
    for (variant, theirs) in STEADY {
        let Some(group) = groups.get("core", "S2", POINT, variant) else {
            continue;
        };
        for (member, theirs) in theirs.iter().enumerate() {
            let names = [variant.to_owned(), member.to_string()];
            table.row(
                names
                    .clone()
                    .into_iter()
                    .chain(["thesis".to_owned()])
                    .chain(theirs.iter().map(|it| it.to_string())),
            );
            let ours = (0..5).map(|at| {
                group
                    .stat(|trial| study::steady(trial, member as u16)[at])
                    .mean
            });
            table.row(
                names
                    .into_iter()
                    .chain(["ours".to_owned()])
                    .chain(ours.map(short)),
            );
        }
    }
    for variant in ["adaptive", "adaptive+events", "adaptive+qos1"] {
        let Some(group) = groups.get("core", "S2", POINT, variant) else {
            continue;
        };
        for member in 0..3 {
            let names = [variant.to_owned(), member.to_string(), "ours".to_owned()];
            let ours = (0..5).map(|at| group.stat(|trial| study::steady(trial, member)[at]).mean);
            table.row(names.into_iter().chain(ours.map(short)));
        }
    }
    document.table(table);
}

fn core(groups: &Groups<'_>, document: &mut Document) {
    if groups.part("core").next().is_none() {
        return;
    }
    document.heading("Both scenarios, by period of the publisher");
    document.text(
        "S1: three members of 25 ms. S2: 25, 25 and 50 ms. d = 10.44 ms is what the thesis's pause of 10 ms after each \
         message came to; at d = 10 ms scenario 2 has no reserve at all.",
    );
    let mut table = Table::new(&[
        "scenario",
        "period",
        "strategy",
        "mean wait ms",
        "limit",
        "response / limit, mean",
        "99 %",
        "repeats",
    ]);
    for (scenario, point, variant, group) in groups.part("core") {
        let wait = group.stat(Trial::wait_mean);
        table.row([
            scenario.to_owned(),
            point.to_owned(),
            variant.to_owned(),
            wait.to_string(),
            short(group.stat(|trial| trial.limit_wait_ms.max(0.0)).mean),
            short(group.stat(|trial| trial.ratio().0).mean),
            short(group.stat(|trial| trial.ratio().1).mean),
            wait.count.to_string(),
        ]);
    }
    document.table(table);
}

/// What is drawn, in this order.
const DRAWN: [&str; 6] = [
    "random",
    "round-robin",
    "score",
    "adaptive",
    "adaptive+events",
    "adaptive+qos1",
];

fn figures(groups: &Groups<'_>, document: &mut Document) {
    let typical: Vec<(&str, &Trial)> = DRAWN
        .into_iter()
        .filter_map(|variant| {
            Some((
                variant,
                groups.get("core", "S2", POINT, variant)?.typical()?,
            ))
        })
        .collect();
    if typical.is_empty() {
        return;
    }
    document.heading("Scenario 2, d = 10.44 ms: the repeat in the middle");
    for (variant, trial) in &typical {
        if let Some(svg) = drawings::latencies(trial, &format!("{variant}: latency per message")) {
            document.chart(svg, caption(variant), "");
        }
    }
    for (variant, trial) in &typical {
        if let Some(svg) = drawings::shares(trial, &format!("{variant}: share per second")) {
            document.chart(
                svg,
                "Messages by the second in which they were published, and by who got them.",
                "",
            );
        }
    }
    let means = |trial: &Trial, member: u16| {
        mean(
            trial
                .messages
                .iter()
                .filter(|message| message.member == member)
                .filter_map(|message| message.wait_ms()),
        )
    };
    let bars: Vec<(String, Vec<(f64, f64)>)> = DRAWN
        .into_iter()
        .filter_map(|variant| {
            let group = groups.get("core", "S2", POINT, variant)?;
            let stats = (0..3).map(|member| group.stat(move |trial| means(trial, member)));
            Some((
                variant.to_owned(),
                stats.map(|stat| (stat.mean, stat.half)).collect(),
            ))
        })
        .collect();
    let members = ["member 0, 25 ms", "member 1, 25 ms", "member 2, 50 ms"].map(str::to_owned);
    if let Some(svg) = drawings::bars(
        "Mean wait by member, all repeats",
        ("strategy", "mean wait, ms"),
        &members,
        &bars,
    ) {
        document.chart(
            svg,
            "Logarithmic. The lines are 95 % intervals over repeats.",
            "",
        );
    }
}

fn caption(variant: &str) -> &'static str {
    match variant {
        "round-robin" => {
            "In the thesis the slow member's latency rises along a straight line to 6250 ms at message 1000."
        }
        "score" => {
            "In the thesis most messages wait for less than 13 ms, those of the slow member up to 71 ms."
        }
        "random" => "In the thesis: 1400.7 ms on average.",
        _ => "Not in the thesis.",
    }
}

fn sweeps(groups: &Groups<'_>, document: &mut Document) {
    for part in groups
        .parts()
        .into_iter()
        .filter(|part| !["core", "bars"].contains(part))
    {
        document.heading(format!("Sweep: {part}"));
        if let Some(note) = note(part) {
            document.text(note);
        }
        let mut table = Table::new(&[
            "scenario",
            "point",
            "strategy",
            "mean wait ms",
            "99 %",
            "limit",
            "response / limit, mean",
            "99 %",
            "reports/s",
            "not done",
            "repeats",
        ]);
        for (scenario, point, variant, group) in groups.part(part) {
            let wait = group.stat(Trial::wait_mean);
            let tail = group.stat(|trial| {
                let mut waits: Vec<f64> = trial
                    .messages
                    .iter()
                    .filter_map(|message| message.wait_ms())
                    .collect();
                quantile(&mut waits, 0.99)
            });
            table.row([
                scenario.to_owned(),
                point.to_owned(),
                variant.to_owned(),
                wait.to_string(),
                short(tail.mean),
                short(group.stat(|trial| trial.limit_wait_ms.max(0.0)).mean),
                short(group.stat(|trial| trial.ratio().0).mean),
                short(group.stat(|trial| trial.ratio().1).mean),
                short(
                    group
                        .stat(|trial| {
                            trial.reports as f64
                                / (trial.messages.len() as f64 * trial.period_ms * 1e-3)
                        })
                        .mean,
                ),
                group.trials().map(Trial::lost).sum::<usize>().to_string(),
                wait.count.to_string(),
            ]);
        }
        document.table(table);
        if part == "report interval" {
            let series: Vec<(String, Vec<(f64, f64)>)> = ["score", "adaptive", "adaptive+events"]
                .into_iter()
                .map(|variant| (variant.to_owned(), by_interval(groups, variant)))
                .collect();
            if let Some(svg) = drawings::lines(
                "Mean wait by report interval",
                ("report interval, s", "mean wait, ms"),
                &series,
            ) {
                document.chart(svg, "Scenario 2, d = 10.44 ms, QoS 0.", "");
            }
        }
    }
}

fn by_interval(groups: &Groups<'_>, variant: &str) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> = groups
        .part("report interval")
        .filter(|(_, _, name, _)| *name == variant)
        .filter_map(|(_, point, _, group)| {
            let every = point
                .strip_prefix("every=")?
                .strip_suffix('s')?
                .parse()
                .ok()?;
            Some((every, group.stat(Trial::wait_mean).mean))
        })
        .collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points
}

fn note(part: &str) -> Option<&'static str> {
    Some(match part {
        "link" => {
            "The delay is made by the client, in both directions, above TCP: what the broker's system measures of the network \
             does not show it, acknowledgements and reports do."
        }
        "leave and join" => {
            "One connection is reset after 5 s and comes back after 10 s; what it had and had not processed is lost with QoS 0 \
             and goes to the others with QoS 1."
        }
        "heterogeneity" => {
            "95 % of the capacity, two members of 25 ms and one that takes so many times as long."
        }
        "group" => {
            "80 % of the capacity, half of the members twice as fast, exponential service, Poisson arrivals."
        }
        _ => return None,
    })
}

fn against_the_limit(rows: &[Row], document: &mut Document) {
    if rows.is_empty() {
        return;
    }
    document.heading("Against the work-conserving limit");
    document.text(
        "Response as a multiple of the limit for the same arrivals and demands, adaptive strategy, mean of the repeats; beside it \
         the kernel in virtual time with the very same messages. Where \
         something happens to a member: messages that had to be repeated, how long after it the last of them was, and how many \
         were processed twice; the greatest of the repeats. Repetitions that were not marked as such are faults.",
    );
    let mut table = Table::new(&[
        "condition",
        "limit ms, mean / 99 %",
        "ours, mean",
        "99 %",
        "virtual time",
        "bar",
        "verdict",
        "not done",
        "repeated",
        "last after ms",
        "unmarked",
        "processed twice",
        "repeats",
    ]);
    for row in rows {
        table.row([
            row.name.clone(),
            format!("{} / {}", short(row.limit.0), short(row.limit.1)),
            row.ratio.0.to_string(),
            row.ratio.1.to_string(),
            format!("{} / {}", short(row.simulated.0), short(row.simulated.1)),
            format!("{} / {}", row.bar.0, row.bar.1),
            row.verdict(),
            row.lost.to_string(),
            row.exposed.to_string(),
            short(row.resent_ms),
            row.unmarked.to_string(),
            row.twice.to_string(),
            row.trials.to_string(),
        ]);
    }
    document.table(table);
}

fn what_does_not_count(run: &Run, document: &mut Document) {
    document.heading("What does not count, and how well this machine kept time");
    let of = |of: fn(&Trial) -> f64| {
        let mut values: Vec<f64> = run
            .trials
            .iter()
            .map(of)
            .filter(|value| value.is_finite())
            .collect();
        (quantile(&mut values, 0.5), quantile(&mut values, 0.99))
    };
    let (lag, wake, tail) = (
        of(|trial| trial.lag_p99_us),
        of(|trial| trial.wake_us.0),
        of(|trial| trial.wake_us.1),
    );
    document.text(format!(
        "A trial counts if at least 99 % of the intended rate was sent, 99 % of the messages left at most 1 ms or a tenth of \
         the period late, and workers woke late by at most 2 % of the shortest service time on average and 10 % in 99 of 100 \
         cases. Over all trials (median, 99 %): messages left {} and {} us late (99 % of a trial's messages), workers woke {} \
         and {} us late on average, {} and {} us in 99 of 100 cases.",
        short(lag.0),
        short(lag.1),
        short(wake.0),
        short(wake.1),
        short(tail.0),
        short(tail.1),
    ));
    let mut table = Table::new(&[
        "verdict", "part", "scenario", "point", "strategy", "repeat", "why",
    ]);
    for trial in run
        .trials
        .iter()
        .filter(|trial| trial.verdict != Verdict::Valid)
    {
        table.row([
            trial.verdict.word().to_owned(),
            trial.part.clone(),
            trial.scenario.clone(),
            trial.point.clone(),
            trial.variant.clone(),
            trial.repeat.to_string(),
            trial.why.clone(),
        ]);
    }
    document.table(table);
}

fn check_json(check: &Check) -> Value {
    json!({
        "id": check.id,
        "statement": check.what,
        "study": check.study,
        "ours": check.ours,
        "verdict": check.ruling.name(),
        "words": check.ruling.words(),
    })
}

fn row_json(row: &Row) -> Value {
    json!({
        "condition": row.name,
        "ratio_mean": row.ratio.0.mean,
        "ratio_p99": row.ratio.1.mean,
        "bar": [row.bar.0, row.bar.1],
        "limit_ms": [row.limit.0, row.limit.1],
        "virtual": [row.simulated.0, row.simulated.1],
        "held": row.is_held(),
        "lost": row.lost,
        "repeated": row.exposed,
        "processed_twice": row.twice,
        "trials": row.trials,
    })
}

fn cells_json(groups: &Groups<'_>) -> Vec<Value> {
    let mut cells = Vec::new();
    for part in groups.parts() {
        for (scenario, point, variant, group) in groups.part(part) {
            let wait = group.stat(Trial::wait_mean);
            cells.push(json!({
                "part": part,
                "scenario": scenario,
                "point": point,
                "variant": variant,
                "wait_mean_ms": wait.mean,
                "wait_half_interval_ms": if wait.half.is_finite() { json!(wait.half) } else { Value::Null },
                "ratio_mean": group.stat(|trial| trial.ratio().0).mean,
                "ratio_p99": group.stat(|trial| trial.ratio().1).mean,
                "trials": wait.count,
            }));
        }
    }
    cells
}
