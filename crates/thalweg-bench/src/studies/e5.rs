//! E5: what the thesis found of shared subscriptions, and whether it came out here: the statements S5.1 to S5.6, this
//! project's bars for scenario 2, and the rows that are held against the limit.

use super::group::{Group, find};
use super::shape::{Evidence, Found, Shape};
use crate::cell::Row;
use crate::report::stat::{Stat, short};
use crate::sim::rows;

/// The point of the thesis's own period.
pub const POINT: &str = "d=10.44ms";

/// The study's figures of scenario 2 (table of means): overall mean in milliseconds by strategy, and what
/// follows for exact times.
pub const OVERALL: [(&str, f64, &str); 3] = [
    ("random", 1400.7, "1483 to 1536"),
    ("round-robin", 1492.3, "1493"),
    ("score", 27.4, "11 to 17"),
];

/// Tables 7 and 8 of the study, messages 500 to 1000 of scenario 2 by subscriber: count, least, greatest, mean, standard
/// deviation.
pub const STEADY: [(&str, [[f64; 5]; 3]); 2] = [
    (
        "round-robin",
        [
            [167.0, 0.0, 6.0, 0.9, 0.7],
            [166.0, 0.0, 8.0, 1.0, 0.8],
            [167.0, 3075.0, 6250.0, 4664.1, 923.4],
        ],
    ),
    (
        "score",
        [
            [199.0, 1.0, 10.0, 3.4, 2.4],
            [199.0, 1.0, 13.0, 3.7, 2.5],
            [102.0, 13.0, 71.0, 34.8, 17.8],
        ],
    ),
];

/// A scenario of the thesis at its own period.
pub fn core<'g>(groups: &'g [Group], scenario: &str, strategy: &str) -> Option<&'g Group> {
    find(groups, &format!("E5 core {scenario} {POINT} {strategy}"))
}

impl Group {
    /// A figure of its own of E5 over the repeats.
    pub fn more(&self, name: &str) -> Option<Stat> {
        self.stat(|row| row.more.get(name).copied())
    }

    /// From when a message should have been published until a worker took it: the latency of the thesis.
    pub fn wait(&self) -> Option<Stat> {
        self.more("wait_mean_ms")
    }
}

fn wait(groups: &[Group], scenario: &str, strategy: &str) -> Option<Stat> {
    core(groups, scenario, strategy)?.wait()
}

/// What became of all statements.
pub fn shapes(groups: &[Group]) -> Vec<Shape> {
    let not_asked = || Found::not_asked("the study's algorithms run in our broker");
    let shape = |id, found: Option<Found>| {
        let ours = found.unwrap_or_else(Found::nothing);
        Shape::of(id, not_asked(), ours)
    };
    let mut shapes = vec![
        shape("S5.1", equal_members(groups)),
        shape("S5.2", uneven_members(groups)),
        shape("S5.3", steady_split(groups)),
        shape("S5.4", closed_form(groups)),
        shape("S5.5a", shorter_reports(groups)),
        shape("S5.5b", no_bad_start(groups)),
        shape("S5.5c", better_when_things_change(groups)),
        shape("S5.6", silent(groups)),
        shape("bar, reports", bar(groups, "adaptive", 20.0)),
        shape("bar, events", bar(groups, "adaptive+events", 10.0)),
        shape("bar, QoS 1", bar(groups, "adaptive+qos1", 4.0)),
        shape("bar, silent", silent_bar(groups)),
    ];
    for condition in rows::CONDITIONS.iter() {
        let is_it = |group: &&Group| {
            group.axis("part") == "bars" && group.axis("scenario") == condition.name
        };
        let group = groups.iter().find(is_it);
        shapes.extend(group.and_then(against_the_limit).map(|ours| Shape {
            id: &condition.name,
            what: "mean and 99 % of the response as multiples of the work-conserving limit",
            paper: "no study: this project's bars",
            baseline: not_asked(),
            ours,
        }));
    }
    shapes
}

/// Figures, and whatever is true of these faults.
fn judged<const N: usize>(figures: String, faults: [(bool, &str); N]) -> Option<Found> {
    let mut all = Evidence::default();
    all.figure(figures);
    for (is_so, why) in faults {
        all.fault(is_so, why);
    }
    Some(all.found(""))
}

fn equal_members(groups: &[Group]) -> Option<Found> {
    let of = |strategy| wait(groups, "S1", strategy);
    let (random, turn, score) = (of("random")?, of("round-robin")?, of("score")?);
    let is_apart = (score.mean - turn.mean).abs() > 1.0;
    let is_no_worse = random.mean < turn.mean + 10.0;
    judged(
        format!("random {random}, round-robin {turn}, score {score} ms"),
        [
            (is_apart, "score and round-robin differ by more than 1 ms"),
            (is_no_worse, "chance is not 10 ms worse"),
        ],
    )
}

fn uneven_members(groups: &[Group]) -> Option<Found> {
    let turns = core(groups, "S2", "round-robin")?;
    let (turn, slow) = (turns.wait()?, turns.more("member_2_steady_mean_ms")?);
    let score = wait(groups, "S2", "score")?;
    let less = 100.0 * (1.0 - score.mean / turn.mean);
    let is_off = |ours: Stat, theirs: f64| (ours.mean / theirs - 1.0).abs() > 0.1;
    let turn_off = "the mean of round-robin is off by more than 10 %";
    let slow_off = "the slow member's mean is off by more than 10 %";
    judged(
        format!(
            "round-robin {turn} ms, its slow member {slow} ms when steady; score {} ms: {less:.1} % less",
            score.spread()
        ),
        [
            (less < 95.0, "score is not 95 % below round-robin"),
            (is_off(turn, 1492.3), turn_off),
            (is_off(slow, 4664.1), slow_off),
        ],
    )
}

fn steady_split(groups: &[Group]) -> Option<Found> {
    let of = |strategy| core(groups, "S2", strategy);
    let (score, turn) = (of("score")?, of("round-robin")?);
    let share = |member: usize| {
        score.stat(|row| {
            let of = |member| {
                row.more
                    .get(&format!("member_{member}_steady_count"))
                    .copied()
            };
            Some(100.0 * of(member)? / (of(0)? + of(1)? + of(2)?))
        })
    };
    let shares = [share(0)?, share(1)?, share(2)?];
    let is_off = |(share, goal): (&Stat, f64)| {
        (share.range.0 - goal).abs() > 3.0 || (share.range.1 - goal).abs() > 3.0
    };
    let penalty = |name| Some(score.more(name)?.mean - turn.more(name)?.mean);
    let first = penalty("member_0_steady_mean_ms")?;
    let second = penalty("member_1_steady_mean_ms")?;
    let slow = score.more("member_2_steady_mean_ms")?.mean;
    let longest = score.more("member_2_steady_greatest_ms")?;
    let is_other = shares.iter().zip([40.0, 40.0, 20.0]).any(is_off);
    let [one, two, three] = shares.map(|it| it.mean);
    let pay = format!("{} and {}", short(first), short(second));
    let waits = short(slow);
    let too_slow = "the slow member waits for more than 60 ms on average";
    let too_long = "the slow member's longest wait is above 120 ms";
    judged(
        format!(
            "{one:.1}/{two:.1}/{three:.1} %; the quick pay {pay} ms; the slow waits {waits} ms, at most {longest}"
        ),
        [
            (is_other, "shares are more than 3 points off"),
            (
                first.max(second) > 20.0,
                "a quick member pays more than 20 ms",
            ),
            (slow > 60.0, too_slow),
            (longest.mean > 120.0, too_long),
        ],
    )
}

fn closed_form(groups: &[Group]) -> Option<Found> {
    let gap = core(groups, "S2", "round-robin")?.more("arithmetic_p99_ms")?;
    let why = "the machine or the broker adds more than 2 ms";
    judged(
        format!("99 % of the messages within {gap} ms of it"),
        [(gap.mean > 2.0, why)],
    )
}

fn shorter_reports(groups: &[Group]) -> Option<Found> {
    let (mut all, mut beyond) = (Evidence::default(), Vec::new());
    let mut last: Option<(&str, Stat)> = None;
    let mut count = 0;
    for every in ["5", "3", "1", "0.3", "0.1"] {
        let group = find(groups, &format!("E5 S2 every={every}s score"));
        let of = |group: &Group| Some((group.wait()?, group.stat(report_bytes)?.mean));
        let Some((wait, part)) = group.and_then(of) else {
            continue;
        };
        if let Some((longer, before)) = last {
            let halves = [before.half, wait.half].into_iter();
            let slack = halves.filter(|half| half.is_finite()).fold(1.0, f64::max);
            if wait.mean > before.mean + slack {
                let worse = format!("every {every} s is worse than every {longer} s");
                match part <= 0.01 {
                    true => all.fault(true, worse),
                    false => beyond.push(worse),
                }
            }
        }
        all.figure(format!("{every} s {wait} ms ({:.1} %)", 100.0 * part));
        last = Some((every, wait));
        count += 1;
    }
    let found = all.found(", ");
    (count > 1).then(|| match beyond.as_slice() {
        [] => found,
        some => found.under(format!(
            "up to 1 % of the bytes; above that, {}",
            some.join("; ")
        )),
    })
}

/// Reports as a part of all bytes of MQTT: both legs of each message.
fn report_bytes(row: &Row) -> Option<f64> {
    let reports = row.more.get("reports")? * 59.0;
    Some(reports / (reports + 2.0 * 125.0 * row.intended as f64))
}

fn no_bad_start(groups: &[Group]) -> Option<Found> {
    let apart = |strategy| core(groups, "S2", strategy)?.more("apart_ms");
    let (score, adaptive) = (apart("score")?, apart("adaptive")?);
    let why = "the equal members are more than 2 ms apart";
    judged(
        format!("adaptive {adaptive}, score {score} ms apart"),
        [(adaptive.mean > 2.0, why)],
    )
}

fn better_when_things_change(groups: &[Group]) -> Option<Found> {
    let mut all = Evidence::default();
    for what in ["burst", "slow-down"] {
        let of = |strategy| find(groups, &format!("E5 {what} {strategy}"))?.wait();
        let (score, adaptive) = (of("score")?, of("adaptive")?);
        all.figure(format!("{what} {adaptive} against {score} ms"));
        all.compared(
            score.is_above(&adaptive),
            format!("score is better: {what}"),
            format!("the intervals overlap, or there is one repeat only: {what}"),
        );
    }
    Some(all.found(", "))
}

fn silent(groups: &[Group]) -> Option<Found> {
    let turns = |strategy| {
        let in_turn = core(groups, "S2", strategy)?.more("in_turn")?;
        Some(in_turn.range.0 == 1.0)
    };
    let both = [turns("score+silent")?, turns("adaptive+silent")?];
    let [score, adaptive] = both.map(|is_kept| match is_kept {
        true => "every message in turn",
        false => "not in turn",
    });
    judged(
        format!("score {score}, adaptive {adaptive}"),
        [(both != [true; 2], "the order is not that of turns")],
    )
}

/// Whether a mean wait is at most `bar`. Where its interval is not, the repeats do not tell.
fn bar(groups: &[Group], strategy: &str, bar: f64) -> Option<Found> {
    let wait = wait(groups, "S2", strategy)?;
    let half = Some(wait.half).filter(|half| half.is_finite());
    let above = wait.mean + half.unwrap_or(0.0);
    let reaches = format!("the interval of {} repeats reaches", wait.count);
    let mut all = Evidence::default();
    all.figure(format!("{} ms", wait.spread()));
    all.compared(
        (above <= bar || wait.mean > bar).then_some(above <= bar),
        format!("above {bar} ms"),
        format!("{reaches} {} ms", short(above)),
    );
    Some(all.found(""))
}

fn silent_bar(groups: &[Group]) -> Option<Found> {
    let of = |strategy| Some(wait(groups, "S2", strategy)?.mean);
    let ratio = of("adaptive+silent")? / of("round-robin")?;
    judged(format!("{ratio:.3}"), [(ratio > 1.02, "above 1.02")])
}

/// A row and its two bars.
fn against_the_limit(group: &Group) -> Option<Found> {
    let (mean, p99) = (group.more("ratio_mean")?, group.more("ratio_p99")?);
    let (mean_max, p99_max) = (group.more("bar_mean")?.mean, group.more("bar_p99")?.mean);
    judged(
        format!("{mean} and {p99}; at most {mean_max} and {p99_max}"),
        [
            (mean.mean > mean_max, "the mean is above the bar"),
            (p99.mean > p99_max, "the 99th percentile is above the bar"),
        ],
    )
}
