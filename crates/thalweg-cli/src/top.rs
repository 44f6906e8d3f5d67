//! `thalweg top`: a running broker at a glance, from the admin API's overview; plain ANSI, no more.

mod groups;

use std::fmt::Write as _;
use std::io::Write;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::admin_api::{AdminApi, list, number, text};
use crate::cli::TopArgs;
use crate::failure::Failure;
use crate::quantity::spoken;

/// Runs the command; the screen goes to `out`.
pub fn run(args: &TopArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let api = AdminApi::new(&args.admin)?;
    let sessions = args.sessions.min(SESSIONS_MAX).to_string();
    let groups = args.groups.min(GROUPS_MAX).to_string();
    let look = || {
        api.json(
            "/v1/overview",
            &[("sessions", &sessions), ("groups", &groups)],
        )
    };
    let every = args.every.max(Duration::from_millis(100));
    let mut before = look()?;
    if args.once {
        // Rates need two looks.
        std::thread::sleep(every.min(Duration::from_secs(1)));
        out.write_all(screen(&look()?, &before, api.shown()).as_bytes())?;
        return Ok(out.flush()?);
    }
    loop {
        let next = Instant::now() + every;
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
        let now = look()?;
        // Home, the lines, each cleared to its end, then everything below: no flicker.
        let lines = screen(&now, &before, api.shown()).replace('\n', "\x1b[K\n");
        write!(out, "\x1b[H{lines}\x1b[J")?;
        out.flush()?;
        before = now;
    }
}

/// What is shown: the numbers of `now`, and rates since `before`.
fn screen(now: &Value, before: &Value, base: &str) -> String {
    let seconds = (number(now, "monotonic_nanos") - number(before, "monotonic_nanos")) / 1e9;
    let member = |value: &Value, group: &str, name: &str| {
        value.get(group).map_or(0.0, |group| number(group, name))
    };
    let rate = |group: &str, name: &str| {
        let difference = member(now, group, name) - member(before, group, name);
        if seconds > 0.0 {
            (difference / seconds).max(0.0)
        } else {
            0.0
        }
    };
    let count = |name: &str| short(number(now, name));
    let mut screen = String::new();
    let uptime = spoken(Duration::from_secs(number(now, "uptime_seconds") as u64));
    let ready = if now.get("ready").and_then(Value::as_bool) == Some(true) {
        "ready"
    } else {
        "NOT READY"
    };
    let _ = writeln!(
        screen,
        "thalweg {} at {base}   {ready}   up {uptime}",
        text(now, "version")
    );
    let _ = writeln!(
        screen,
        "memory {} of {}   pressure {}   queued {}",
        bytes(number(now, "memory_bytes")),
        bytes(number(now, "memory_bytes_max")),
        text(now, "pressure"),
        bytes(number(now, "queued_bytes")),
    );
    journal(now, before, seconds, &mut screen);
    let _ = writeln!(
        screen,
        "sessions {} online, {} in all   subscriptions {}   groups {}   retained {} ({})",
        count("sessions_online"),
        count("sessions"),
        count("subscriptions"),
        count("groups"),
        count("retained"),
        bytes(number(now, "retained_bytes")),
    );
    let _ = writeln!(
        screen,
        "\n{:<22}{:>12}{:>14}{:>12}{:>14}",
        "", "messages/s", "in all", "bytes/s", "bytes in all"
    );
    for (title, group, messages, size) in [
        ("received", "publishes", "received", "received_bytes"),
        ("delivered", "copies", "delivered", "delivered_bytes"),
    ] {
        let _ = writeln!(
            screen,
            "{title:<22}{:>12}{:>14}{:>12}{:>14}",
            short(rate(group, messages)),
            short(member(now, group, messages)),
            bytes(rate(group, size)),
            bytes(member(now, group, size)),
        );
    }
    for (title, group, name) in [
        ("expired", "copies", "expired"),
        ("dropped", "copies", "dropped"),
        ("without a receiver", "publishes", "unmatched"),
        ("refused", "publishes", "refused"),
    ] {
        let _ = writeln!(
            screen,
            "{title:<22}{:>12}{:>14}",
            short(rate(group, name)),
            short(member(now, group, name))
        );
    }
    let _ = writeln!(
        screen,
        "{:<22}{:>12}{:>14}",
        "waiting / in flight",
        short(member(now, "copies", "waiting")),
        short(member(now, "copies", "in_flight")),
    );
    reasons(now, &mut screen);
    stages(now, &mut screen);
    shards(now, before, seconds, &mut screen);
    groups::show(now, before, seconds, &mut screen);
    sessions(now, &mut screen);
    let silent = number(now, "shards_silent");
    if silent > 0.0 {
        let _ = writeln!(
            screen,
            "\n{silent} shards did not answer; their numbers are missing"
        );
    }
    screen
}

/// How the journal does; nothing if there is none.
fn journal(now: &Value, before: &Value, seconds: f64, screen: &mut String) {
    let Some(journal) = now.get("journal").filter(|journal| !journal.is_null()) else {
        return;
    };
    let part = |value: &Value, part: &str, name: &str| {
        value.get(part).map_or(0.0, |part| number(part, name))
    };
    let earlier = before.get("journal").unwrap_or(&Value::Null);
    let difference =
        |name: &str| (part(journal, "written", name) - part(earlier, "written", name)).max(0.0);
    let rate = |name: &str| {
        if seconds > 0.0 {
            difference(name) / seconds
        } else {
            0.0
        }
    };
    let syncs = difference("syncs");
    let each = if syncs > 0.0 {
        nanos(difference("sync_seconds") / syncs * 1e9)
    } else {
        "-".to_owned()
    };
    let _ = writeln!(
        screen,
        "journal {}   {} of {}   {}/s written   {} syncs/s of {each}",
        text(journal, "state"),
        bytes(part(journal, "disk", "bytes_used")),
        bytes(part(journal, "disk", "bytes_limit")),
        bytes(rate("bytes")),
        short(rate("syncs")),
    );
}

/// Why messages were dropped; only reasons that happened.
fn reasons(now: &Value, screen: &mut String) {
    let reasons = now
        .get("copies")
        .and_then(|copies| copies.get("dropped_by_reason"))
        .and_then(Value::as_object);
    let happened: Vec<String> = reasons
        .into_iter()
        .flatten()
        .filter_map(|(reason, count)| Some((reason, count.as_f64().filter(|count| *count > 0.0)?)))
        .map(|(reason, count)| format!("{reason} {}", short(count)))
        .collect();
    if !happened.is_empty() {
        let _ = writeln!(screen, "dropped because: {}", happened.join(", "));
    }
}

fn stages(now: &Value, screen: &mut String) {
    let stages = list(now, "stages");
    if stages.is_empty() {
        return;
    }
    let _ = writeln!(
        screen,
        "\n{:<22}{:>12}{:>14}{:>12}{:>14}",
        "stage", "mean", "p50 below", "p99 below", "samples"
    );
    for stage in stages {
        let time = |name: &str| {
            stage
                .get(name)
                .and_then(Value::as_f64)
                .map_or_else(|| "-".to_owned(), nanos)
        };
        let _ = writeln!(
            screen,
            "{:<22}{:>12}{:>14}{:>12}{:>14}",
            text(stage, "span"),
            time("nanos_mean"),
            time("nanos_p50"),
            time("nanos_p99"),
            short(number(stage, "samples")),
        );
    }
}

fn shards(now: &Value, before: &Value, seconds: f64, screen: &mut String) {
    let _ = writeln!(
        screen,
        "\n{:<22}{:>12}{:>14}{:>12}{:>14}",
        "shard", "connections", "received/s", "delivered/s", "reads/s"
    );
    for shard in list(now, "shards") {
        let number_of = number(shard, "shard");
        let earlier = list(before, "shards")
            .iter()
            .find(|earlier| number(earlier, "shard") == number_of);
        let rate = |name: &str| {
            let difference =
                number(shard, name) - earlier.map_or(0.0, |earlier| number(earlier, name));
            if seconds > 0.0 {
                short((difference / seconds).max(0.0))
            } else {
                "-".to_owned()
            }
        };
        let _ = writeln!(
            screen,
            "{number_of:<22}{:>12}{:>14}{:>12}{:>14}",
            short(number(shard, "connections")),
            rate("received"),
            rate("delivered"),
            rate("reads"),
        );
    }
}

fn sessions(now: &Value, screen: &mut String) {
    let sessions = list(now, "longest_queues");
    if sessions.is_empty() {
        return;
    }
    let _ = writeln!(
        screen,
        "\n{:<34}{:>10}{:>11}{:>11}{:>10}  ",
        "longest queues", "waiting", "bytes", "in flight", "dropped"
    );
    for session in sessions {
        let is = |name: &str| session.get(name).and_then(Value::as_bool) == Some(true);
        let state = match (is("connected"), is("congested")) {
            (false, _) => "away",
            (true, true) => "slow",
            (true, false) => "",
        };
        let _ = writeln!(
            screen,
            "{:<34}{:>10}{:>11}{:>11}{:>10}  {state}",
            shown_name(text(session, "client"), 33),
            short(number(session, "waiting")),
            bytes(number(session, "waiting_bytes")),
            format!(
                "{}/{}",
                short(number(session, "in_flight")),
                short(number(session, "in_flight_max"))
            ),
            short(number(session, "dropped")),
        );
    }
}

/// A name that can do no harm to a terminal, cut to its column.
fn shown_name(name: &str, max: usize) -> String {
    let mut shown: String = name
        .chars()
        .map(|letter| if letter.is_control() { '?' } else { letter })
        .take(max)
        .collect();
    if name.chars().count() > max {
        shown.pop();
        shown.push('…');
    }
    shown
}

/// A number in at most six characters.
fn short(number: f64) -> String {
    match number {
        n if n < 10.0 && n.fract() > 0.0 => format!("{n:.1}"),
        n if n < 10_000.0 => format!("{n:.0}"),
        n if n < 1e7 => format!("{:.1}k", n / 1e3),
        n if n < 1e10 => format!("{:.1}M", n / 1e6),
        n => format!("{:.1}G", n / 1e9),
    }
}

fn bytes(number: f64) -> String {
    match number {
        n if n < 1024.0 => format!("{n:.0}B"),
        n if n < 1024.0 * 1024.0 => format!("{:.1}KiB", n / 1024.0),
        n if n < 1024.0 * 1024.0 * 1024.0 => format!("{:.1}MiB", n / 1024.0 / 1024.0),
        n => format!("{:.1}GiB", n / 1024.0 / 1024.0 / 1024.0),
    }
}

/// A duration of a stage.
pub fn nanos(nanos: f64) -> String {
    match nanos {
        n if n < 1e4 => format!("{n:.0}ns"),
        n if n < 1e7 => format!("{:.1}µs", n / 1e3),
        n => format!("{:.1}ms", n / 1e6),
    }
}

/// What the API allows.
const SESSIONS_MAX: usize = 100;
const GROUPS_MAX: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn rates_are_differences_over_the_brokers_own_clock() {
        let at = |nanos: u64, received: u64| {
            json!({
                "version": "0.1.0", "ready": true, "uptime_seconds": 61, "monotonic_nanos": nanos, "pressure": "none",
                "publishes": {"received": received, "received_bytes": received * 36, "unmatched": 0, "refused": 0},
                "copies": {"delivered": 0, "dropped": 3, "dropped_by_reason": {"queue_full": 3, "other": 0}},
                "journal": {
                    "state": "ready",
                    "written": {"bytes": received * 64, "syncs": received / 1000, "sync_seconds": received as f64 / 1e6},
                    "disk": {"bytes_used": 1 << 20, "bytes_limit": 1_u64 << 30},
                },
                "shards": [{"shard": 0, "connections": 2, "received": received}],
                "longest_queues": [{"client": "a\u{1b}b", "connected": false, "waiting": 7, "in_flight": 1, "in_flight_max": 20}],
            })
        };
        let screen = screen(
            &at(3_000_000_000, 60_000),
            &at(1_000_000_000, 20_000),
            "http://x",
        );
        let line = |start: &str| {
            screen
                .lines()
                .find(|line| line.starts_with(start))
                .unwrap_or_default()
                .to_owned()
        };
        assert!(line("received").contains("20.0k"), "{screen}");
        assert!(
            line("thalweg").contains("up 61s") && line("thalweg").contains("ready"),
            "{screen}"
        );
        assert_eq!(
            line("journal"),
            "journal ready   1.0MiB of 1.0GiB   1.2MiB/s written   20 syncs/s of 1000.0µs"
        );
        assert_eq!(line("dropped because"), "dropped because: queue_full 3");
        assert!(
            line("a?b").contains("1/20") && line("a?b").ends_with("away"),
            "{screen}"
        );
    }

    #[test]
    fn an_overview_of_another_version_is_shown_as_far_as_it_goes() {
        assert!(screen(&json!({}), &json!({}), "http://x").contains("NOT READY"));
    }

    #[test]
    fn numbers_stay_short() {
        let table = [
            (0.0, "0"),
            (1.5, "1.5"),
            (9_999.0, "9999"),
            (10_000.0, "10.0k"),
            (2.5e6, "2500.0k"),
            (1.2e7, "12.0M"),
        ];
        for (number, text) in table {
            assert_eq!(short(number), text);
        }
    }
}
