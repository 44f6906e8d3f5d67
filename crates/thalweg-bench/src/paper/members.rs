//! What the page of E5 has beside what all pages have: the thesis's tables, how each cell is beside the limit, and who got
//! what.

use std::collections::BTreeMap;

use super::axis::Axis;
use super::bars::Bars;
use super::chart::{Chart, Look, Point, Series, again};
use super::figures::{Drawing, Figure, push};
use super::input::{Input, Message};
use super::page::tell;
use crate::cell::Standing;
use crate::e5::{MEMBERS, of_member};
use crate::report::document::{Column, Document, Table};
use crate::report::stat::{Stat, quantile, short};
use crate::studies::e5::{OVERALL, POINT, STEADY, core};
use crate::studies::group::{Group, has, name_of};

/// What is drawn, in this order.
const DRAWN: [&str; 6] = [
    "random",
    "round-robin",
    "score",
    "adaptive",
    "adaptive+events",
    "adaptive+qos1",
];
const NAMES: [&str; 3] = ["member 0, 25 ms", "member 1, 25 ms", "member 2, 50 ms"];
const AFTER: &str = "published after, s";

fn mean(stat: Option<Stat>) -> String {
    stat.map_or("-".to_owned(), |stat| short(stat.mean))
}

/// Adds the thesis's tables with our figures beside them, and one of every cell.
pub fn tables(input: &Input, document: &mut Document) {
    if input.of("E5").next().is_none() {
        return;
    }
    document.text(
        "E5. Wait is the latency of the thesis, and the response of the tables below: from when a message should have been \
         published until a worker takes it from its queue. Processed is until the worker is done with it. The limit is one queue \
         before all workers that knows who is idle and how fast everybody is, with the same arrivals and service demands and no \
         network (BALANCING 3). Lost is what nobody had processed 20 s after the last message was published: lost, or in \
         the backlog of a slow member.",
    );
    document.part("E5 beside the thesis: scenario 2, 25, 25 and 50 ms");
    document.table(overall(input));
    document.text(
        "Messages 500 to 1000 (tables 7 and 8 of the thesis), by member; ours is the mean over repeats of each figure.",
    );
    document.table(steady(input));
    document.folded("E5: every cell beside the limit", beside_the_limit(input));
    document.text(punctuality(input));
}

const OVERALL_COLUMNS: [Column<Group>; 9] = [
    ("strategy", |it| it.axis("strategy").to_owned()),
    ("thesis, mean wait ms", |it| {
        thesis(it).map_or("-".to_owned(), |(mean, _)| mean.to_string())
    }),
    ("reckoned for exact times", |it| {
        thesis(it).map_or("-", |(_, reckoned)| reckoned).to_owned()
    }),
    ("ours", |it| tell(it.wait())),
    ("least to greatest", |it| {
        let range = |wait: Stat| format!("{} to {}", short(wait.range.0), short(wait.range.1));
        it.wait().map_or(String::new(), range)
    }),
    ("limit", |it| mean(it.more("limit_wait_ms"))),
    ("processed / limit, mean", |it| mean(it.more("ratio_mean"))),
    ("99 %", |it| mean(it.more("ratio_p99"))),
    ("repeats", |it| {
        it.wait().map_or(0, |wait| wait.count).to_string()
    }),
];

/// What the study has of a strategy.
fn thesis(group: &Group) -> Option<(f64, &'static str)> {
    let (_, mean, reckoned) = OVERALL
        .iter()
        .find(|(name, ..)| *name == group.axis("strategy"))?;
    Some((*mean, reckoned))
}

fn overall(input: &Input) -> Table {
    let words = format!("core S2 {POINT}");
    let mut groups: Vec<&Group> = input.of("E5").collect();
    groups.retain(|group| has(&group.cell, &words) && group.wait().is_some());
    groups.sort_by_key(|group| group.axis("strategy"));
    Table::of(groups, &OVERALL_COLUMNS)
}

fn steady(input: &Input) -> Table {
    let mut table = Table::new(&[
        "strategy",
        "member",
        "",
        "messages",
        "least",
        "greatest",
        "mean",
        "standard deviation",
    ]);
    for strategy in DRAWN.into_iter().skip(1) {
        let Some(group) = core(&input.groups, "S2", strategy) else {
            continue;
        };
        let theirs = STEADY.iter().find(|(name, _)| *name == strategy);
        for (member, names) in (0..MEMBERS).map(of_member).enumerate() {
            let lead = |who: &str| [strategy.to_owned(), member.to_string(), who.to_owned()];
            if let Some(theirs) = theirs.and_then(|(_, all)| all.get(member)) {
                table.row(
                    lead("thesis")
                        .into_iter()
                        .chain(theirs.map(|it| it.to_string())),
                );
            }
            let ours = names.iter().skip(2).map(|name| mean(group.more(name)));
            table.row(lead("ours").into_iter().chain(ours));
        }
    }
    table
}

const LIMIT_COLUMNS: [Column<Group>; 18] = [
    ("part", |it| it.axis("part").to_owned()),
    ("scenario", |it| it.axis("scenario").to_owned()),
    ("point", |it| it.axis("point").to_owned()),
    ("strategy", |it| it.axis("strategy").to_owned()),
    ("mean wait ms", |it| tell(it.wait())),
    ("99 %", |it| mean(it.more("wait_p99_ms"))),
    ("limit", |it| mean(it.more("limit_wait_ms"))),
    ("processed / limit, mean", |it| tell(it.more("ratio_mean"))),
    ("99 %", |it| tell(it.more("ratio_p99"))),
    ("in virtual time, mean", |it| {
        mean(it.more("virtual_ratio_mean"))
    }),
    ("99 %", |it| mean(it.more("virtual_ratio_p99"))),
    ("reports/s", |it| {
        mean(it.stat(|row| Some(row.more.get("reports")? / row.seconds)))
    }),
    ("lost", |it| {
        it.rows.iter().map(|row| row.lost).sum::<u64>().to_string()
    }),
    ("repeated", |it| most(it, "repeated")),
    ("last after ms", |it| most(it, "repeated_after_ms")),
    ("unmarked", |it| most(it, "unmarked")),
    ("processed twice", |it| most(it, "processed_twice")),
    ("repeats", |it| it.rows.len().to_string()),
];

fn most(group: &Group, name: &str) -> String {
    let most = group.more(name).map(|it| short(it.range.1));
    most.unwrap_or("-".to_owned())
}

fn beside_the_limit(input: &Input) -> Table {
    let mut groups: Vec<&Group> = input.of("E5").collect();
    let names = ["part", "scenario", "point", "strategy"];
    groups.sort_by_key(|group| names.map(|name| group.axis(name)));
    Table::of(groups, &LIMIT_COLUMNS)
}

/// How well the machine kept time, and what was asked of it.
fn punctuality(input: &Input) -> String {
    let of = |of: &dyn Fn(&crate::cell::Row) -> Option<f64>| {
        let trials = input.trials.iter().filter(|(it, _)| it.experiment == "E5");
        let mut values: Vec<f64> = trials.filter_map(|(_, row)| of(row)).collect();
        let (middle, most) = (quantile(&mut values, 0.5), quantile(&mut values, 0.99));
        format!("{} and {}", short(middle), short(most))
    };
    let more = |name: &'static str| of(&|row| row.more.get(name).copied());
    format!(
        "A trial of E5 counts if at least 99 % of the intended rate was sent, 99 % of the messages left at most 1 ms or a tenth of \
         the period late, and workers woke late by at most 2 % of the shortest service time on average and 10 % in 99 of 100 \
         cases. Over all trials (median, 99 %): messages left {} us late (99 % of a trial's messages), workers woke {} us late on \
         average, {} us in 99 of 100 cases.",
        of(&|row| Some(row.lag_p99_us)),
        more("wake_mean_us"),
        more("wake_p99_us"),
    )
}

/// Adds the drawings of scenario 2, and that of intervals between reports.
pub fn figures(input: &Input, figures: &mut Vec<Figure>) {
    let mut push = |file: &str, drawing: &dyn Drawing, caption: &str| {
        push(figures, file, drawing, caption, "E5");
    };
    let mut shares = bars(
        input,
        "E5 scenario 2: who got how much",
        Axis::percent("messages, %"),
        0,
    );
    shares.halves.clear();
    let caption = "All repeats of d = 10.44 ms. 40, 40 and 20 % is what the members can do.";
    push("e5-shares", &shares, caption);
    let title = "E5 scenario 2: mean wait by member";
    let mut members = bars(input, title, Axis::log("mean wait, ms"), 1);
    members.abreast = true;
    let caption = "All repeats. The lines are 95 % intervals over repeats.";
    push("e5-members", &members, caption);
    let intervals = Chart::of(
        "E5: mean wait by report interval",
        Axis::log("report interval, s"),
        Axis::log("mean wait, ms"),
        ["score", "adaptive", "adaptive+events"]
            .map(|strategy| by_interval(input, strategy))
            .to_vec(),
    );
    push(
        "e5-intervals",
        &intervals,
        "Scenario 2, d = 10.44 ms, QoS 0.",
    );
    let messages = |strategy: &str| typical(input, core(&input.groups, "S2", strategy)?);
    let wait = |strategy: &str| {
        let points = by_second(messages(strategy)?);
        Some(Series::of(strategy, Look::Curve, points))
    };
    let mut waits: Vec<Series> = DRAWN.into_iter().filter_map(wait).collect();
    if let (true, Some(table)) = (waits.is_empty(), input.drawn.get("e5-waits")) {
        waits = again(table);
    }
    let waits = Chart::of(
        "E5 scenario 2: mean wait, second by second",
        Axis::linear(AFTER),
        Axis::log("mean wait in that second, ms"),
        waits,
    );
    push("e5-waits", &waits, "The repeat in the middle.");
    for strategy in DRAWN {
        let file = format!("e5-latency-{}", strategy.replace('+', "-"));
        let series = messages(strategy).map_or_else(Vec::new, |it| dots(it).to_vec());
        let latency = Chart::of(
            format!("E5 scenario 2, {strategy}: each message"),
            Axis::linear(AFTER),
            Axis::linear("wait, ms"),
            input.dotted(&file, series),
        );
        push(&file, &latency, in_thesis(strategy));
    }
}

/// A figure of each member, for each strategy that is drawn.
fn bars(input: &Input, title: &str, y: Axis, at: usize) -> Bars {
    let of = |strategy: &&'static str| {
        let group = core(&input.groups, "S2", strategy)?;
        let stat = |member| group.more(of_member(member).get(at)?);
        let stats: Option<Vec<Stat>> = (0..MEMBERS).map(stat).collect();
        Some((*strategy, stats?))
    };
    let (mut bars, mut halves) = (Vec::new(), Vec::new());
    for (strategy, stats) in DRAWN.iter().filter_map(of) {
        let means = stats.iter().map(|it| it.mean).collect();
        bars.push((strategy.to_owned(), means, None));
        halves.push(stats.iter().map(|it| it.half).collect());
    }
    Bars {
        halves,
        ..Bars::of(title, "strategy", y, &NAMES, bars)
    }
}

fn in_thesis(strategy: &str) -> &'static str {
    match strategy {
        "round-robin" => {
            "The repeat in the middle. In the thesis the slow member's latency rises along a straight line to 6250 ms at message \
             1000."
        }
        "score" => {
            "The repeat in the middle. In the thesis most messages wait for less than 13 ms, those of the slow member up to 71 ms."
        }
        "random" => "The repeat in the middle. In the thesis: 1400.7 ms on average.",
        _ => "The repeat in the middle. Not in the thesis.",
    }
}

fn by_interval(input: &Input, strategy: &str) -> Series {
    let is_it = |group: &&Group| has(&group.cell, strategy);
    let point = |group: &Group| {
        let every = group.axis("point").strip_prefix("every=")?;
        let (every, wait) = (every.strip_suffix('s')?, group.wait()?);
        Some(Point::with_half(every.parse().ok()?, wait.mean, wait.half))
    };
    let mut points: Vec<Point> = input.of("E5").filter(is_it).filter_map(point).collect();
    points.sort_by(|a, b| a.x.total_cmp(&b.x));
    Series::of(strategy, Look::Line, points)
}

/// The messages of the repeat whose mean wait is in the middle, if they were kept.
fn typical<'i>(input: &'i Input, group: &Group) -> Option<&'i [Message]> {
    let name = name_of(&group.cell);
    let mut repeats: Vec<(f64, String)> = input
        .trials
        .iter()
        .filter(|(cell, row)| row.standing == Standing::Valid && name_of(cell) == name)
        .filter_map(|(cell, row)| Some((*row.more.get("wait_mean_ms")?, cell.key())))
        .collect();
    repeats.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (_, key) = repeats.get(repeats.len() / 2)?;
    input.messages.get(key).map(Vec::as_slice)
}

/// Each message over the time at which it was published, members in colours: figures of chapter 5 of the thesis.
fn dots(messages: &[Message]) -> [Series; 3] {
    [0, 1, 2].map(|member: usize| {
        let mine = messages.iter().filter(|it| it.by == Some(member));
        let points = mine.map(|it| Point::at(it.intended_s, it.wait_ms));
        Series::of(NAMES[member], Look::Dots, points)
    })
}

fn by_second(messages: &[Message]) -> Vec<Point> {
    let mut seconds: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for message in messages {
        let second = message.intended_s as u64;
        seconds.entry(second).or_default().push(message.wait_ms);
    }
    let mean = |waits: &[f64]| waits.iter().sum::<f64>() / waits.len() as f64;
    seconds
        .iter()
        .map(|(at, waits)| Point::at(*at as f64 + 0.5, mean(waits).max(0.01)))
        .collect()
}
