//! E0.2: a broker that stalls. Who sends by a schedule that does not move, and counts from when a message was *due*, sees
//! the stall in one message of ten; who sends when there is room and counts from then sees it in a handful.

use std::sync::atomic::AtomicBool;

use super::fake::Fate;
use super::{Finding, Wishes, cell};
use crate::cell::{Driver, Measured, Standing};
use crate::load::clock;
use crate::studies::plan::phases;

/// When what arrives leaves a broker that does nothing for `lasts` of each `every` nanoseconds since `begun`.
fn leaves(now: u64, begun: u64, every: u64, lasts: u64) -> u64 {
    let into = now.saturating_sub(begun) % every;
    now + lasts.saturating_sub(into)
}

pub fn run(wishes: &Wishes, stop: &AtomicBool) -> Vec<Finding> {
    let (every, lasts) = if wishes.quick {
        (2_000 * MS, 200 * MS)
    } else {
        (10_000 * MS, 1_000 * MS)
    };
    match measure(every, lasts, 2, wishes.seed, stop) {
        Ok(measured) => judge(lasts, &measured),
        Err(error) => vec![Finding::skipped("stall", error.to_string())],
    }
}

/// A thousand messages a second, one under way, over so many periods.
fn measure(
    every: u64,
    lasts: u64,
    periods: u64,
    seed: u64,
    stop: &AtomicBool,
) -> std::io::Result<Measured> {
    let begun = clock::now();
    let service = move |_: &str, _: u64, now: u64| Fate::At(leaves(now, begun, every, lasts));
    let phases = phases(0.0, 0.0, (periods * every) as f64 / 1e9, 30.0);
    let cell = cell(1, WINDOW, RATE, 1)
        .with(|cell| (cell.driver, cell.phases, cell.seed) = (Driver::Bare, phases, seed));
    super::measure(cell, Box::new(service), stop)
}

fn judge(lasts: u64, measured: &Measured) -> Vec<Finding> {
    let row = &measured.row;
    if let Standing::Invalid(why) = &row.standing {
        return vec![Finding::skipped("stall", why.clone())];
    }
    let (lasts_ms, response_ms, service_ms) = (
        lasts as f64 / 1e6,
        row.response.p99 / 1e3,
        row.service.p99 / 1e3,
    );
    let generator = match &row.standing {
        Standing::GeneratorLimited(why) => format!(" (generator-limited: {why})"),
        _ => String::new(),
    };
    let wanted = 0.9 * lasts_ms;
    vec![
        Finding::new(
            format!(
                "p99 of response times at a broker that stalls {lasts_ms:.0} ms of each {:.0} ms",
                10.0 * lasts_ms
            ),
            format!(
                "{wanted:.0} ms, up to {:.0} ms with the time to catch up",
                wanted + 0.07 * lasts_ms
            ),
            format!("{response_ms:.1} ms{generator}"),
            response_ms >= 0.98 * wanted && response_ms <= wanted + 0.07 * lasts_ms,
        )
        .with("response_p99_ms", response_ms)
        .with("lag_p99_us", row.lag_p99_us),
        Finding::new(
            "p99 of service times of the same run: what coordinated omission would have shown",
            format!("below {:.0} ms", lasts_ms / 10.0),
            format!("{service_ms:.3} ms"),
            service_ms < lasts_ms / 10.0,
        )
        .with("service_p99_ms", service_ms),
        Finding::new(
            "messages of that run that were sent and came",
            format!("{} and {}", row.intended, row.intended),
            format!("{} and {}", row.sent, row.delivered),
            row.sent == row.intended && row.delivered == row.intended && row.duplicates == 0,
        ),
    ]
}

const RATE: f64 = 1000.0;
/// Few, so that the stall catches few that are under way.
const WINDOW: u32 = 4;
const MS: u64 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    /// Three stalls of 50 ms. Times on a busy machine are not judged: only that the wait is where it belongs.
    #[test]
    fn a_stall_is_in_the_response_times_of_all_that_were_due_in_it() {
        let stop = AtomicBool::new(false);
        let measured = measure(500 * MS, 50 * MS, 3, 1, &stop).expect("a port is free");
        let row = &measured.row;
        assert_eq!(
            (row.delivered, row.lost, row.duplicates),
            (row.intended, 0, 0)
        );
        assert_eq!(row.intended, 3 * 500);
        // Of 150 messages that were due in a stall, 60 are due in its first 20 ms, and wait 30 ms or more.
        let waited = measured
            .response
            .iter_recorded()
            .filter(|value| value.value_iterated_to() >= 30 * MS);
        let waited: u64 = waited.map(|value| value.count_at_value()).sum();
        assert!(waited >= 60, "{waited}");
        assert!(row.more["held_back"] >= 100.0, "{:?}", row.more);
    }

    #[test]
    fn what_arrives_in_a_stall_leaves_at_its_end() {
        let at = [1000, 1009, 1010, 1099, 1100, 1205].map(|now| leaves(now, 1000, 100, 10));
        assert_eq!(at, [1010, 1010, 1010, 1099, 1110, 1210]);
    }
}
