//! The part of the screen that shows shared subscriptions and who of their members gets how much.

use std::cmp::Reverse;
use std::fmt::Write as _;

use serde_json::Value;

use super::{short, shown_name};
use crate::admin_api::{list, number, text};

/// Members that are shown of a group: those that got most lately.
const MEMBERS_SHOWN: usize = 10;

/// The groups of `now`, and what happened in them since `before`.
pub(super) fn show(now: &Value, before: &Value, seconds: f64, screen: &mut String) {
    let groups = list(now, "busiest_groups");
    if groups.is_empty() {
        return;
    }
    row(
        screen,
        "groups",
        ["waiting", "oldest", "in/s", "out/s"],
        "strategy",
    );
    row(
        screen,
        "  members",
        ["share", "unsettled", "service", "out/s"],
        "seen by",
    );
    for group in groups {
        let is_same = |other: &&Value| {
            ["group", "filter"]
                .iter()
                .all(|key| text(other, key) == text(group, key))
        };
        let earlier = list(before, "busiest_groups")
            .iter()
            .find(is_same)
            .unwrap_or(&Value::Null);
        show_group(group, earlier, seconds, screen);
    }
}

fn show_group(group: &Value, earlier: &Value, seconds: f64, screen: &mut String) {
    let counted = |value: &Value, name: &str| {
        value
            .get("counters")
            .map_or(0.0, |counters| number(counters, name))
    };
    // A group that was not among the busiest before has no rate yet.
    let rate = |name: &str| match earlier {
        Value::Null => "-".to_owned(),
        _ => per_second(counted(group, name) - counted(earlier, name), seconds),
    };
    let oldest = group
        .get("oldest_millis")
        .and_then(Value::as_f64)
        .map_or_else(|| "-".to_owned(), |it| time(it * 1e3));
    let order = match text(group, "order") {
        "" => String::new(),
        key => format!("/{key}"),
    };
    let name = format!("{} on {}", text(group, "group"), text(group, "filter"));
    let figures = [
        short(number(group, "waiting")),
        oldest,
        rate("arrived"),
        rate("chosen"),
    ];
    row(
        screen,
        &name,
        figures.each_ref().map(String::as_str),
        &format!("{}{order}", text(group, "strategy")),
    );

    let chosen_before = |seat: &Value| {
        let mut seats = list(earlier, "seats").iter();
        seats
            .find(|other| text(other, "client") == text(seat, "client"))
            .map(|other| number(other, "chosen"))
    };
    let mut seats: Vec<(&Value, f64)> = list(group, "seats")
        .iter()
        .map(|seat| {
            (
                seat,
                (number(seat, "chosen") - chosen_before(seat).unwrap_or(0.0)).max(0.0),
            )
        })
        .collect();
    let all: f64 = seats.iter().map(|(_, got)| got).sum();
    seats.sort_by_key(|(_, got)| Reverse(*got as u64));
    seats.truncate(MEMBERS_SHOWN);
    seats.sort_by_key(|(seat, _)| text(seat, "client"));
    for (seat, got) in &seats {
        let share = if all > 0.0 {
            format!("{:.0}%", got / all * 100.0)
        } else {
            "-".to_owned()
        };
        let service = seat
            .get("service_micros")
            .and_then(Value::as_f64)
            .map_or_else(|| "-".to_owned(), time);
        let figures = [
            share,
            short(number(seat, "unsettled")),
            service,
            per_second(*got, seconds),
        ];
        let name = format!("  {}", text(seat, "client"));
        row(
            screen,
            &name,
            figures.each_ref().map(String::as_str),
            &state_of(seat),
        );
    }
    let others = number(group, "members") - seats.len() as f64;
    if others > 0.0 {
        let _ = writeln!(screen, "  and {} more", short(others));
    }
}

/// What the group goes by, or why the member gets nothing.
fn state_of(seat: &Value) -> String {
    let is = |name: &str| seat.get(name).and_then(Value::as_bool) == Some(true);
    let signal = match text(seat, "signal") {
        "acknowledgements" => "acks",
        signal => signal,
    };
    let state = match (is("online"), is("suspended")) {
        (false, _) => "away".to_owned(),
        (true, true) => "SUSPENDED".to_owned(),
        (true, false) => signal.to_owned(),
    };
    match number(seat, "stalls") {
        0.0 => state,
        stalls => format!("{state}, {} stalls", short(stalls)),
    }
}

/// Eighty columns: a name, four figures, and a word or two.
fn row(screen: &mut String, name: &str, figures: [&str; 4], words: &str) {
    let gap = if name == "groups" { "\n" } else { "" };
    let [one, two, three, four] = figures;
    let (name, words) = (shown_name(name, 23), shown_name(words, 20));
    let _ = writeln!(
        screen,
        "{gap}{name:<24}{one:>8}{two:>10}{three:>8}{four:>8}  {words}"
    );
}

fn per_second(count: f64, seconds: f64) -> String {
    if seconds > 0.0 {
        short((count / seconds).max(0.0))
    } else {
        "-".to_owned()
    }
}

fn time(micros: f64) -> String {
    match micros {
        us if us < 1e3 => format!("{us:.0}µs"),
        us if us < 1e6 => format!("{:.1}ms", us / 1e3),
        us if us < 6e7 => format!("{:.1}s", us / 1e6),
        us => format!("{:.0}m", us / 6e7),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn seat(client: &str, chosen: u64, more: &Value) -> Value {
        let mut seat = json!({"client": client, "online": true, "suspended": false, "signal": "acknowledgements",
            "service_micros": 25_000, "unsettled": 1, "chosen": chosen, "stalls": 0});
        for (key, value) in more.as_object().into_iter().flatten() {
            seat[key] = value.clone();
        }
        seat
    }

    fn overview(arrived: u64, seats: Vec<Value>) -> Value {
        json!({"busiest_groups": [{
            "group": "crew", "filter": "a/long/filter/of/many/levels/#", "strategy": "least-outstanding", "members": 4,
            "waiting": 12, "oldest_millis": 1250, "counters": {"arrived": arrived, "chosen": arrived}, "seats": seats,
        }]})
    }

    #[test]
    fn shares_are_of_the_last_interval_and_nothing_is_wider_than_eighty_columns() {
        let before = overview(
            100,
            vec![seat("fast", 50, &json!({})), seat("slow", 50, &json!({}))],
        );
        let now = overview(
            180,
            vec![
                seat("fast", 110, &json!({})),
                seat(
                    "late",
                    0,
                    &json!({"online": false, "service_micros": null, "signal": null}),
                ),
                seat(
                    "slow",
                    70,
                    &json!({"suspended": true, "stalls": 2, "service_micros": 1_250_000}),
                ),
            ],
        );
        let mut screen = String::new();
        show(&now, &before, 2.0, &mut screen);
        let line = |start: &str| {
            screen
                .lines()
                .find(|line| line.trim_start().starts_with(start))
                .unwrap_or_default()
        };
        let words = |start: &str| line(start).split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(
            words("crew"),
            "crew on a/long/filter/… 12 1.2s 40 40 least-outstanding"
        );
        assert_eq!(words("fast"), "fast 75% 1 25.0ms 30 acks");
        assert_eq!(words("slow"), "slow 25% 1 1.2s 10 SUSPENDED, 2 stalls");
        assert_eq!(words("late"), "late 0% 1 - 0 away");
        assert_eq!(words("and"), "and 1 more");
        let widest = screen.lines().map(|line| line.chars().count()).max();
        assert!(
            widest.is_some_and(|widest| widest <= 80),
            "{widest:?}\n{screen}"
        );
    }

    #[test]
    fn of_many_members_those_are_shown_that_got_most_lately() {
        let many = |busy: u64| {
            (0..40).map(move |at| {
                seat(
                    &format!("w{at:02}"),
                    if at >= 30 { busy } else { 9 },
                    &json!({}),
                )
            })
        };
        let mut screen = String::new();
        show(
            &overview(400, many(19).collect()),
            &overview(300, many(9).collect()),
            1.0,
            &mut screen,
        );
        let shown: Vec<&str> = screen
            .lines()
            .filter_map(|line| line.trim().strip_prefix('w')?.get(..2))
            .collect();
        assert_eq!(shown, (30..40).map(|at| at.to_string()).collect::<Vec<_>>());
        screen.clear();
        show(&json!({}), &json!({}), 1.0, &mut screen);
        assert_eq!(screen, "");
    }
}
