//! Whether a trial counts (docs/laboratory.md, "What counts").

use crate::cell::{Cell, Load, Row, Standing};

/// What a verdict rests on.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Evidence {
    /// Messages that were due in the measured phase.
    pub intended: u64,
    pub sent: u64,
    /// Copies of those that were sent, for all subscribers.
    pub expected: u64,
    /// Copies that were received.
    pub delivered: u64,
    /// Messages received of the flow beside the one whose latencies are measured; none without one.
    pub beside: Option<u64>,
    /// It was sent as fast as it went.
    pub is_flood: bool,
    /// Of those that were due, not taken by the driver at once because the broker did not take more.
    pub held_back: u64,
    /// 99th percentile of how late messages were first tried, nanoseconds; none without a schedule.
    pub lag_p99: Option<u64>,
    /// Nanoseconds between two messages of a flow; none without a schedule.
    pub period: Option<f64>,
    /// Processor seconds of the busiest thread that sends or receives, a part of the measured time.
    pub busiest: f64,
    /// The same of all of them, if all have to share one core.
    pub core: Option<f64>,
    /// A buffer between network and books has lost something.
    pub overflow: u64,
    /// The link emulator had no room for a packet, or was busy all the time.
    pub emulator_full: bool,
}

/// Judges. The order is that of importance: the first rule that is broken is named.
pub fn judge(evidence: &Evidence) -> Standing {
    let limited = |words: String| Standing::GeneratorLimited(words);
    if evidence.intended == 0 {
        return Standing::Invalid("nothing was to be sent".to_owned());
    }
    if evidence.overflow > 0 {
        return Standing::Invalid(format!(
            "{} messages were lost between network and books",
            evidence.overflow
        ));
    }
    if evidence.emulator_full {
        return Standing::Invalid("the link emulator was at its limit".to_owned());
    }
    if let Some(why) = not_arrived(
        evidence.is_flood,
        evidence.expected,
        evidence.delivered,
        evidence.beside,
    ) {
        return Standing::Invalid(why);
    }
    if let Some(lag) = evidence.lag_p99 {
        let limit = evidence
            .period
            .map_or(LAG_MAX, |period| LAG_MAX.max((period / 10.0) as u64));
        if lag > limit {
            return limited(format!(
                "one message in a hundred was tried {:.1} ms late; {:.1} ms are allowed",
                lag as f64 / 1e6,
                limit as f64 / 1e6
            ));
        }
    }
    // What the broker held back is the broker's result. What is neither sent nor held back is a failure of the load
    // generator.
    let missing = evidence
        .intended
        .saturating_sub(evidence.sent)
        .saturating_sub(evidence.held_back);
    if (missing as f64) > (1.0 - ACHIEVED_MIN) * evidence.intended as f64 {
        return limited(format!(
            "{missing} of {} messages were not sent in time",
            evidence.intended
        ));
    }
    // It says that the broker is full, and nothing of how late the rest would have been: that was never sent.
    let unsent = evidence.intended.saturating_sub(evidence.sent);
    if (unsent as f64) > (1.0 - ACHIEVED_MIN) * evidence.intended as f64 {
        return Standing::HeldBack(format!(
            "the broker took {} of {} messages: what was never sent has no times",
            evidence.sent, evidence.intended
        ));
    }
    for (what, part) in [
        ("a thread of the generator", Some(evidence.busiest)),
        ("the generator's core", evidence.core),
    ] {
        if let Some(part) = part.filter(|part| *part >= CPU_MAX) {
            return limited(format!("{what} was busy {:.0} % of the time", part * 100.0));
        }
    }
    Standing::Valid
}

/// The standing of a stored trial by the rules of today, as far as its row can tell.
pub fn of_stored(cell: &Cell, row: &Row) -> Standing {
    let is_flood = matches!(cell.load, Load::Flood { .. });
    let beside = row.more.get("bursts_delivered").map(|count| *count as u64);
    match (
        &row.standing,
        not_arrived(is_flood, row.expected, row.delivered, beside),
    ) {
        (Standing::Valid, Some(why)) => Standing::Invalid(why),
        (standing, _) => standing.clone(),
    }
}

/// Where nothing came, something is wrong with the trial: there is no figure to tell. A flood that did not arrive has neither
/// a rate nor a latency: some queue between here and there, often the client library's own, was longer than the trial.
fn not_arrived(
    is_flood: bool,
    expected: u64,
    delivered: u64,
    beside: Option<u64>,
) -> Option<String> {
    let is_all = delivered as f64 >= ARRIVED_MIN * expected as f64;
    if is_flood && !is_all {
        return Some(format!(
            "a flood of {expected} copies of which {delivered} arrived before the end of the drain"
        ));
    }
    if expected > 0 && delivered == 0 {
        return Some(format!("none of {expected} copies arrived"));
    }
    let words = "no message of the flow beside the measured one arrived";
    (beside == Some(0)).then(|| words.to_owned())
}

/// Of a flood's copies.
const ARRIVED_MIN: f64 = 0.99;
/// Of what was intended.
const ACHIEVED_MIN: f64 = 0.99;
const LAG_MAX: u64 = 1_000_000;
const CPU_MAX: f64 = 0.9;

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: Evidence = Evidence {
        intended: 1000,
        sent: 1000,
        expected: 1000,
        delivered: 1000,
        beside: None,
        is_flood: false,
        held_back: 0,
        lag_p99: Some(200_000),
        period: Some(1e6),
        busiest: 0.5,
        core: None,
        overflow: 0,
        emulator_full: false,
    };

    #[test]
    fn each_rule_has_its_border() {
        let with = |change: fn(&mut Evidence)| {
            let mut evidence = GOOD;
            change(&mut evidence);
            evidence
        };
        let closed = |change: fn(&mut Evidence)| Evidence {
            lag_p99: None,
            period: None,
            ..with(change)
        };
        let flood = |change: fn(&mut Evidence)| Evidence {
            is_flood: true,
            ..closed(change)
        };
        for (evidence, word) in [
            (GOOD, "valid"),
            (with(|it| it.sent = 990), "valid"),
            (with(|it| it.sent = 989), "limited"),
            (with(|it| it.lag_p99 = Some(1_000_000)), "valid"),
            (with(|it| it.lag_p99 = Some(1_000_001)), "limited"),
            // A tenth of a period of 20 s is 2 s.
            (
                with(|it| (it.lag_p99, it.period) = (Some(1_900_000_000), Some(2e10))),
                "valid",
            ),
            (with(|it| it.busiest = 0.9), "limited"),
            (with(|it| it.core = Some(0.95)), "limited"),
            (with(|it| it.core = Some(0.89)), "valid"),
            (with(|it| it.overflow = 1), "invalid"),
            (with(|it| it.intended = 0), "invalid"),
            (with(|it| it.emulator_full = true), "invalid"),
            (with(|it| it.delivered = 0), "invalid"),
            (with(|it| it.beside = Some(0)), "invalid"),
            (with(|it| it.beside = Some(1)), "valid"),
            (closed(|it| it.delivered = 1), "valid"),
            (closed(|it| it.delivered = 0), "invalid"),
            (flood(|it| it.delivered = 990), "valid"),
            (flood(|it| it.delivered = 989), "invalid"),
            // A trial is valid only if achieved/intended >= 0.99, whatever the cause.
            (with(|it| (it.sent, it.held_back) = (500, 600)), "held back"),
            (with(|it| (it.sent, it.held_back) = (989, 600)), "held back"),
            // Sent in the end: the waiting is in its times.
            (with(|it| (it.sent, it.held_back) = (990, 600)), "valid"),
            (with(|it| (it.sent, it.held_back) = (500, 400)), "limited"),
        ] {
            let standing = judge(&evidence);
            let found = match &standing {
                Standing::Valid => "valid",
                Standing::Invalid(_) | Standing::Absent(_) => "invalid",
                Standing::GeneratorLimited(_) => "limited",
                Standing::HeldBack(_) => "held back",
            };
            assert_eq!(found, word, "{standing:?} of {evidence:?}");
        }
        let none = Standing::Invalid("none of 1000 copies arrived".to_owned());
        assert_eq!(judge(&with(|it| it.delivered = 0)), none);
    }
}
