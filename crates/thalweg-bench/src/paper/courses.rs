//! The drawings of E2d: what a message of each step cost, and each message of a course.

use super::axis::Axis;
use super::chart::{Chart, Look, Point, Series};
use super::figures::{Figure, push, series};
use super::input::{Input, Message};
use crate::cell::named;
use crate::e2d::WAYS;
use crate::e2d::plan::step_of;
use crate::studies::e2d::{COSTS, Condition, conditions, who};

/// Adds them, for each size and delay.
pub fn figures(input: &Input, figures: &mut Vec<Figure>) {
    for condition in conditions(&input.groups) {
        let Some(first) = condition.groups.first() else {
            continue;
        };
        let course = first.cell.axes.get("course").map_or("", String::as_str);
        for (goal, unit, cost) in COSTS {
            let chart = Chart::of(
                format!("E2d {}: {goal}, step by step", condition.name),
                Axis::linear("step"),
                Axis::log(unit),
                series(
                    condition.groups.iter().copied(),
                    |group| who(&group.cell),
                    |group| Some(step_of(&group.cell) as f64 + 1.0),
                    |group| group.stat(cost),
                ),
            );
            let caption = format!("Losses, one after the other: {course} each.");
            push(figures, &file(goal, &condition), &chart, caption, "E2d");
        }
        for (goal, ..) in COSTS {
            let file = file(&format!("messages-{goal}"), &condition);
            let chart = Chart::of(
                format!("E2d {}, adaptive, {goal}: each message", condition.name),
                Axis::linear("published after, s"),
                Axis::log("latency, ms"),
                input.dotted(&file, messages(input, &condition, goal)),
            );
            let caption = format!(
                "The first repeat. Losses: {course} each. Colours: the protocol that a message was published by, and the one \
                 that it came by."
            );
            push(figures, &file, &chart, caption, "E2d");
        }
    }
}

fn file(what: &str, condition: &Condition<'_>) -> String {
    format!(
        "e2d-{what}-{}",
        named(&condition.name.replace([' ', ','], ""))
    )
}

/// Each message of the first repeat that counts, over the time at which it was published.
fn messages(input: &Input, condition: &Condition<'_>, goal: &str) -> Vec<Series> {
    let steps = condition.of(&format!("adaptive, {goal}"));
    let messages: Vec<&Message> = steps
        .iter()
        .filter_map(|step| input.messages.get(&step.cell.key()))
        .flatten()
        .collect();
    let of = |(number, (_, name)): (usize, &([&str; 2], &str))| {
        let mine = messages.iter().filter(|it| it.by == Some(number));
        let points = mine.map(|it| Point::at(it.intended_s, it.wait_ms.max(0.05)));
        Series::of(*name, Look::Dots, points)
    };
    let mut all: Vec<Series> = WAYS.iter().enumerate().map(of).collect();
    all.retain(|series| !series.points.is_empty());
    all
}
