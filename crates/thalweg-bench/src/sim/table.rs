//! Everything that is asked of shared groups, measured in virtual time, as data.

use std::fmt;

use thalweg_balance::GroupStrategy;

use super::outcome::Outcome;
use super::rows::{Condition, Measured, churn, conditions, exactly_once};
use super::scenario::{Acks, Arrivals, Law, Reports, Scenario, What};
use super::thesis::{PERIOD, PERIOD_OF_TABLE_7, Seen, one, steady, two};
use super::world::run;

/// One figure beside what it should be.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Who asks for it.
    pub source: Source,
    pub condition: String,
    pub figure: &'static str,
    /// The unit of `ours`, `paper` and `limit`.
    pub unit: &'static str,
    /// What the thesis had.
    pub paper: Option<f64>,
    /// What we have: the mean over seeds, or the worst of them where a bar holds for each.
    pub ours: f64,
    /// The bound that no strategy can beat.
    pub limit: Option<f64>,
    /// `ours` in terms of `limit`; the mean over seeds of each seed's.
    pub ratio: Option<f64>,
    pub bar: Bar,
    pub verdict: Verdict,
}

/// Who asks for a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The bars of ADR 0019.
    Issue,
    /// The shapes S5.1 to S5.6 of the study.
    Study,
    /// The algorithm's design asked for it, beyond the bars of this project.
    Balancing,
}

/// What must hold of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bar {
    /// Of `ratio`.
    RatioAtMost(f64),
    /// Of `ours`.
    AtMost(f64),
    /// Of `ours`.
    AtLeast(f64),
    /// Of `ours`.
    Between(f64, f64),
    /// Nothing; it is there to be seen.
    Nothing,
}

/// How a figure stands to its bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Holds,
    Missed,
    /// There is no bar.
    Shown,
}

impl fmt::Display for Bar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bar::RatioAtMost(most) => write!(f, "≤ {most} × limit"),
            Bar::AtMost(most) => write!(f, "≤ {most}"),
            Bar::AtLeast(least) => write!(f, "≥ {least}"),
            Bar::Between(least, most) => write!(f, "{least} to {most}"),
            Bar::Nothing => Ok(()),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Holds => "holds",
            Verdict::Missed => "missed",
            Verdict::Shown => "",
        })
    }
}

impl Row {
    fn new(
        source: Source,
        condition: impl Into<String>,
        figure: &'static str,
        unit: &'static str,
        ours: f64,
    ) -> Row {
        Row {
            source,
            condition: condition.into(),
            figure,
            unit,
            paper: None,
            ours,
            limit: None,
            ratio: None,
            bar: Bar::Nothing,
            verdict: Verdict::Shown,
        }
    }

    fn bar(mut self, bar: Bar) -> Row {
        self.bar = bar;
        let holds = match bar {
            Bar::RatioAtMost(most) => self.ratio.is_some_and(|ratio| ratio <= most),
            Bar::AtMost(most) => self.ours <= most,
            Bar::AtLeast(least) => self.ours >= least,
            Bar::Between(least, most) => (least..=most).contains(&self.ours),
            Bar::Nothing => return self,
        };
        self.verdict = match holds {
            true => Verdict::Holds,
            false => Verdict::Missed,
        };
        self
    }
}

/// All rows, with so many seeds each and so many messages where nothing happens at a certain time. A hundred thousand
/// messages and three seeds take about two minutes with optimisation, and the ten minutes of members that come and go
/// are ten only from there on.
pub fn table(seeds: u64, messages: usize) -> Vec<Row> {
    let mut rows = Vec::new();
    for condition in conditions() {
        let measured = condition.measure(GroupStrategy::Adaptive, messages, 101..101 + seeds);
        rows.extend(of_condition(&condition, &measured));
    }
    rows.extend(rules(messages));
    rows.extend(study(10));
    rows
}

/// The rows of one condition.
pub fn of_condition(condition: &Condition, measured: &Measured) -> Vec<Row> {
    let source = if condition.is_asked {
        Source::Issue
    } else {
        Source::Balancing
    };
    let row = |figure, ours: f64| Row::new(source, condition.name, figure, "ms", ours * 1e3);
    let mean = Row {
        limit: Some(measured.limit.0 * 1e3),
        ratio: Some(measured.ratio.0),
        ..row("mean", average(&measured.runs, |run| run.mean))
    };
    let p99 = Row {
        limit: Some(measured.limit.1 * 1e3),
        ratio: Some(measured.ratio.1),
        ..row("99th percentile", average(&measured.runs, |run| run.p99))
    };
    let mut rows = vec![
        mean.bar(Bar::RatioAtMost(condition.bar.0)),
        p99.bar(Bar::RatioAtMost(condition.bar.1)),
    ];
    let count = |figure, of: fn(&Outcome) -> usize| {
        let worst = measured.runs.iter().map(of).max().unwrap_or_default();
        Row::new(source, condition.name, figure, "messages", worst as f64)
    };
    if condition
        .scenario
        .incidents
        .iter()
        .any(|it| matches!(it.what, What::Freeze | What::Death | What::Stuck))
    {
        // One that is stuck comes back at once, and may be given something, and evicted, again.
        rows.push(
            count("exposed", |run| run.moved.div_ceil(run.stalls.max(1))).bar(Bar::AtMost(2.0)),
        );
        let after = measured
            .runs
            .iter()
            .map(|run| run.moved_after)
            .fold(0.0, f64::max);
        rows.push(
            Row::new(source, condition.name, "resent after", "s", after).bar(Bar::AtMost(2.2)),
        );
    }
    if condition
        .scenario
        .incidents
        .iter()
        .any(|it| matches!(it.what, What::Crash | What::Cut))
    {
        rows.push(count("duplicates", |run| run.processed_twice).bar(Bar::AtMost(2.0)));
        rows.push(count("duplicates not flagged", |run| run.unflagged).bar(Bar::AtMost(0.0)));
    }
    if !condition.scenario.incidents.is_empty() {
        rows.push(count("lost", |run| run.lost).bar(Bar::AtMost(0.0)));
    }
    if condition.scenario.ordered.is_some() {
        rows.push(count("inversions", |run| run.inversions).bar(Bar::AtMost(0.0)));
    }
    rows
}

fn average(runs: &[Outcome], of: impl Fn(&Outcome) -> f64) -> f64 {
    runs.iter().map(of).sum::<f64>() / runs.len().max(1) as f64
}

/// What is not a ratio to the limit.
pub fn rules(messages: usize) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut add = |condition: &str, figure, unit, ours, most| {
        let row = Row::new(Source::Issue, condition, figure, unit, ours);
        rows.push(row.bar(Bar::AtMost(most)));
    };
    for (when, acks) in [("PUBCOMP", Acks::Processed), ("PUBREC", Acks::Recorded)] {
        let name = format!("QoS 2, done at {when}, a member frozen for 10 s");
        let got = run(&exactly_once(acks), GroupStrategy::Adaptive);
        add(
            &name,
            "sent to a second member",
            "messages",
            got.moved as f64,
            0.0,
        );
        add(&name, "exposed", "messages", got.exposed as f64, 1.0);
    }
    let idle = Reports::Idle(0.1);
    for (name, liars, reports) in [
        ("a member that always claims to be idle", 1, idle),
        ("two members that always claim to be idle", 2, idle),
        ("a member whose reports are nonsense", 1, Reports::Wild(0.1)),
    ] {
        let mut scenario = Scenario::base(0.6, 10, 2.0).at_most_once(Reports::Every(1.0));
        let members = scenario.workers.iter_mut().take(liars);
        members.for_each(|liar| liar.reports = reports);
        let got = run(&scenario, GroupStrategy::Adaptive);
        let fair = got.shares.iter().sum::<usize>() as f64 / got.shares.len() as f64;
        let most = got.shares.iter().take(liars).max().copied();
        let most = most.unwrap_or_default() as f64;
        add(
            name,
            "its share in terms of a fair one",
            "",
            most / fair,
            3.0,
        );
    }
    for (name, load, ratio) in [
        (
            "no acknowledgement, no report, 80 %, equal members",
            0.8,
            1.0,
        ),
        ("no acknowledgement, no report, 50 %, speeds 1:2", 0.5, 2.0),
    ] {
        let scenario = Scenario::base(load, 10, ratio).at_most_once(Reports::Never);
        let [turn, ours] =
            [GroupStrategy::RoundRobin, GroupStrategy::Adaptive].map(|it| run(&scenario, it).mean);
        add(name, "mean in terms of round robin", "", ours / turn, 1.02);
    }
    let seconds = if messages >= 100_000 { 600.0 } else { 10.0 };
    let got = run(&churn(1000.0, seconds), GroupStrategy::Adaptive);
    let name = format!("1,000 members leave and 1,000 join each second for {seconds} s, 90 % load");
    let idle = 1e3 * got.idle_while_waiting;
    add(
        &name,
        "longest idle while something waits",
        "ms",
        idle,
        50.0,
    );
    add(&name, "lost", "messages", got.lost as f64, 0.0);
    rows
}

/// The study's shapes, with so many runs each.
pub fn study(runs: u64) -> Vec<Row> {
    let seeds = || 101..101 + runs;
    let wait = |scenario: &Scenario, strategy| run(scenario, strategy).wait_mean * 1e3;
    let over = |of: &dyn Fn(u64) -> f64| seeds().map(of).collect::<Vec<f64>>();
    let mean = |all: &[f64]| all.iter().sum::<f64>() / all.len().max(1) as f64;
    let most = |all: &[f64]| all.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let least = |all: &[f64]| all.iter().copied().fold(f64::INFINITY, f64::min);
    let differences = |first: &[f64], second: &[f64]| -> Vec<f64> {
        first.iter().zip(second).map(|(a, b)| a - b).collect()
    };
    let furthest = |all: &[f64]| all.iter().fold(0.0, |most: f64, it| most.max(it.abs()));
    let mut rows = Vec::new();
    // Of the study's own figures, `f64::NAN` where there is none.
    let mut add = |condition: &str, figure, unit, ours, paper: f64, bar| {
        let row = Row::new(Source::Study, condition, figure, unit, ours).bar(bar);
        let paper = Some(paper).filter(|it| it.is_finite());
        rows.push(Row { paper, ..row });
    };
    let none = f64::NAN;
    let (turn, score, random, adaptive) = (
        GroupStrategy::RoundRobin,
        GroupStrategy::Score,
        GroupStrategy::Random,
        GroupStrategy::Adaptive,
    );

    let of_one = |strategy| over(&|seed| wait(&one(PERIOD, Seen::Reports, seed), strategy));
    let one_turn = of_one(turn);
    for (name, strategy) in [("score", score), ("adaptive", adaptive)] {
        let apart = furthest(&differences(&of_one(strategy), &one_turn));
        let condition = format!("S5.1 scenario 1: {name} and round robin");
        add(
            &condition,
            "difference, worst run",
            "ms",
            apart,
            none,
            Bar::AtMost(1.0),
        );
    }
    let worse = least(&differences(&of_one(random), &one_turn));
    let name = "S5.1 scenario 1: random over round robin";
    add(
        name,
        "least over runs",
        "ms",
        worse,
        none,
        Bar::AtLeast(10.0),
    );

    let two_runs = |strategy, seen, period| {
        seeds()
            .map(|seed| run(&two(period, seen, seed), strategy))
            .collect::<Vec<Outcome>>()
    };
    let waits = |runs: &[Outcome]| {
        runs.iter()
            .map(|run| run.wait_mean * 1e3)
            .collect::<Vec<f64>>()
    };
    let of_member = |runs: &[Outcome], member, of: fn(super::thesis::Steady) -> f64| {
        runs.iter()
            .map(|run| of(steady(run, member)))
            .collect::<Vec<f64>>()
    };
    let two_turn = two_runs(turn, Seen::Reports, PERIOD);
    let two_score = two_runs(score, Seen::Reports, PERIOD);
    let (turn_waits, score_waits) = (waits(&two_turn), waits(&two_score));
    let random_waits = waits(&two_runs(random, Seen::Reports, PERIOD));
    let below: Vec<f64> = score_waits
        .iter()
        .zip(&turn_waits)
        .map(|(score, turn)| 100.0 * (1.0 - score / turn))
        .collect();
    let slow = mean(&of_member(&two_turn, 2, |it| it.mean));
    let name = "S5.2 scenario 2, 10.44 ms";
    let bar = Bar::Between(1343.0, 1641.5);
    add(
        name,
        "round robin, mean wait",
        "ms",
        mean(&turn_waits),
        1492.3,
        bar,
    );
    let figure = "score below round robin, least over runs";
    add(name, figure, "%", least(&below), 98.2, Bar::AtLeast(95.0));
    add(
        name,
        "score, mean wait",
        "ms",
        mean(&score_waits),
        27.4,
        Bar::Nothing,
    );
    add(
        name,
        "random, mean wait",
        "ms",
        mean(&random_waits),
        1400.7,
        Bar::Nothing,
    );
    let figure = "round robin, slow member, mean wait when steady";
    add(
        name,
        figure,
        "ms",
        slow,
        4664.1,
        Bar::Between(4197.7, 5130.5),
    );

    let name = "S5.3 scenario 2, 10.44 ms, score when steady";
    for (member, middle, share, paper, figure, paper_wait, most_wait) in [
        (
            0,
            40.0,
            "share of the first, worst run",
            39.8,
            "mean wait of the first, worst run",
            3.4,
            20.9,
        ),
        (
            1,
            40.0,
            "share of the second, worst run",
            39.8,
            "mean wait of the second, worst run",
            3.7,
            20.9,
        ),
        (
            2,
            20.0,
            "share of the slow one, worst run",
            20.4,
            "mean wait of the slow one, worst run",
            34.8,
            60.0,
        ),
    ] {
        let shares = of_member(&two_score, member, |it| it.messages as f64 / 5.0);
        let off = |it: &f64| (it - middle).abs();
        let worst = shares
            .iter()
            .copied()
            .max_by(|a, b| off(a).total_cmp(&off(b)));
        let bar = Bar::Between(middle - 3.0, middle + 3.0);
        add(name, share, "%", worst.unwrap_or(f64::NAN), paper, bar);
        let waits = of_member(&two_score, member, |it| it.mean);
        add(
            name,
            figure,
            "ms",
            most(&waits),
            paper_wait,
            Bar::AtMost(most_wait),
        );
    }
    let longest = of_member(&two_score, 2, |it| it.longest);
    let figure = "longest wait of the slow one, worst run";
    add(name, figure, "ms", most(&longest), 71.0, Bar::AtMost(120.0));
    let within = longest.iter().filter(|it| **it <= 120.0).count();
    let part = 100.0 * within as f64 / longest.len() as f64;
    let figure = "runs whose longest wait is within 120 ms";
    add(name, figure, "%", part, none, Bar::Nothing);

    let name = "S5.4 round robin against k(50 - 3d)";
    add(
        name,
        "furthest message",
        "ms",
        closed_form(),
        none,
        Bar::AtMost(2.0),
    );

    let of_every = |every, strategy| {
        mean(&over(&|seed| {
            wait(&two(PERIOD, Seen::ReportsEvery(every), seed), strategy)
        }))
    };
    for (strategy, name) in [
        (score, "S5.5 score, pings every 0.1 to 5 s"),
        (adaptive, "S5.5 adaptive, pings every 0.1 to 5 s"),
    ] {
        let all = PINGS.map(|every| of_every(every, strategy));
        let worse = most(&differences(&all, all.get(1..).unwrap_or_default()));
        let figure = "shorter is worse than longer by, at the most";
        add(name, figure, "ms", worse, none, Bar::AtMost(0.0));
    }
    let two_adaptive = two_runs(adaptive, Seen::Reports, PERIOD);
    let [first, second] = [0, 1].map(|member| of_member(&two_adaptive, member, |it| it.mean));
    let apart = furthest(&differences(&first, &second));
    let name = "S5.5 adaptive: members of equal speed";
    add(
        name,
        "difference, worst run",
        "ms",
        apart,
        none,
        Bar::AtMost(2.0),
    );
    let gains = |of: &dyn Fn(u64) -> Scenario| {
        least(&over(&|seed| {
            wait(&of(seed), score) - wait(&of(seed), adaptive)
        }))
    };
    let burst = gains(&|seed| two(CELL, Seen::Reports, seed).with_burst(7.3, 100));
    let name = "S5.5 a burst of 100 between pings: adaptive before score";
    add(
        name,
        "least over runs",
        "ms",
        burst,
        none,
        Bar::AtLeast(0.0),
    );
    let slowed = gains(&|seed| one(CELL, Seen::Reports, seed).with(What::Slow(4.0), 1, 5.0, 5.0));
    let name = "S5.5 a member slows down: adaptive before score";
    add(
        name,
        "least over runs",
        "ms",
        slowed,
        none,
        Bar::AtLeast(0.0),
    );

    let silent = two(PERIOD, Seen::Silent, 101);
    let order = |strategy| {
        let taken = run(&silent, strategy).taken.into_iter();
        taken.map(|(at, _)| at).collect::<Vec<_>>()
    };
    let expected = order(turn);
    for (strategy, name) in [
        (score, "S5.6 score without reports"),
        (adaptive, "S5.6 adaptive without reports"),
    ] {
        let taken = order(strategy);
        let off = taken.iter().zip(&expected).filter(|(a, b)| a != b).count();
        let figure = "messages not in the order of round robin";
        add(name, figure, "messages", off as f64, none, Bar::AtMost(0.0));
    }

    for period in [PERIOD, PERIOD_OF_TABLE_7] {
        let name = format!("thesis scenario 2, {:.2} ms", period * 1e3);
        for (seen, figure, paper, bar) in [
            (Seen::Reports, "unmodified client, mean wait", 27.4, 20.0),
            (Seen::Events, "event-driven client, mean wait", none, 10.0),
            (Seen::Acknowledges, "QoS 1, mean wait", none, 4.0),
        ] {
            let waits = waits(&two_runs(adaptive, seen, period));
            add(&name, figure, "ms", mean(&waits), paper, Bar::AtMost(bar));
        }
    }
    for row in &mut rows {
        if row.condition.starts_with("thesis") {
            row.source = Source::Issue;
        }
    }
    rows
}

/// Intervals of reports, in seconds.
const PINGS: [f64; 8] = [0.1, 0.2, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0];
/// The period of the burst and slow-down cells: what a group that is not full can show.
const CELL: f64 = 0.0125;

/// How far the waits of the slow member's messages are from k(50 - 3d) under round robin, in milliseconds.
pub fn closed_form() -> f64 {
    let mut scenario = two(PERIOD, Seen::Reports, 101);
    (scenario.arrivals, scenario.law) = (Arrivals::Periodic, Law::Deterministic);
    if let Some(slow) = scenario.workers.last_mut() {
        slow.mean = 0.050;
    }
    let outcome = run(&scenario, GroupStrategy::RoundRobin);
    let waits = outcome
        .taken
        .iter()
        .filter(|(at, wait)| *at == 2 && wait.is_finite())
        .map(|(_, wait)| *wait);
    let off = waits
        .enumerate()
        .map(|(k, wait)| (wait - k as f64 * (0.050 - 3.0 * PERIOD)).abs());
    off.fold(0.0, f64::max) * 1e3
}
