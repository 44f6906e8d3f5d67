//! What becomes of the operator's policies and of content filters in each protocol: the tables of `docs/policies.md` and
//! `docs/filters.md`.
//!
//! *Knows:* the records of all fronts, from the registry, and nothing of their code. *Must never know:* a link, the kernel.

use crate::registry::protocols;
use std::fmt::Write as _;

/// A row of the tables, for a protocol or a version of one.
#[derive(Debug)]
pub struct Service {
    /// As users call it.
    pub name: &'static str,
    /// The word by which a receiver is told how long a message lives.
    pub lifespan: Option<&'static str>,
    /// The word by which it is told the priority.
    pub priority: Option<&'static str>,
    /// How a subscriber gets last values.
    pub last_value: &'static str,
    /// What it shows of the messages that an address keeps beside its last value.
    pub history: &'static str,
    /// The answer that waits for what `fsync` asks for.
    pub acknowledgement: Option<&'static str>,
    /// What its publishers send at most once.
    pub at_most_once: &'static str,
    /// Who is sent messages less reliably than was asked for where a policy says so, and hears of it how.
    pub downgraded: &'static str,
    /// How a publisher beyond its rate is slowed down.
    pub throttle: &'static str,
    /// How it is told that a message was refused for its rate.
    pub reject: &'static str,
    /// Which of its receivers a rate of each subscriber is for.
    pub subscriber_rate: &'static str,
    /// Where a subscription says its content filter, or why it has none.
    pub filter: Result<Filtering, &'static str>,
    /// Where a consumer of a queue says its own, or why it has none.
    pub consumer_filter: Result<&'static str, &'static str>,
}

#[derive(Debug)]
pub struct Filtering {
    pub place: &'static str,
    /// How a filter is answered that is none.
    pub refused: &'static str,
}

/// A protocol that acknowledges late where it is slowed down.
pub(crate) const NOT_READ: &str = "not read";

/// All rows, in the order of the protocols.
pub fn services() -> impl Iterator<Item = &'static Service> {
    protocols().flat_map(|protocol| protocol.services)
}

/// The rows of `docs/policies.md` about rates.
pub fn of_rates() -> String {
    table(
        [
            "protocol",
            "`rate`, `rate_bytes` and `rate_burst` with `rate_exceed` `throttle`",
            "`reject`",
            "`rate_per` `subscriber` is for",
        ],
        |it| [it.name, it.throttle, it.reject, it.subscriber_rate].map(Into::into),
    )
}

/// The rows of `docs/policies.md` about reliability.
pub fn of_reliability() -> String {
    table(
        [
            "protocol",
            "`reliability_min` is for",
            "`reliability_max` is for",
        ],
        |it| [it.name, it.at_most_once, it.downgraded].map(Into::into),
    )
}

/// The rows of `docs/policies.md` about what a policy changes.
pub fn of_policies() -> String {
    let or = |word: Option<&str>, otherwise: &str| word.unwrap_or(otherwise).to_owned();
    table(
        [
            "protocol",
            "`lifespan_max`",
            "`priority_min`",
            "`last_value`",
            "`fsync`",
        ],
        |it| {
            [
                it.name.into(),
                or(it.lifespan, "expires in the broker; receivers are not told"),
                or(it.priority, "orders what waits; receivers are not told"),
                it.last_value.into(),
                it.acknowledgement
                    .map_or("nothing is acknowledged".into(), |word| {
                        format!("{word} waits")
                    }),
            ]
        },
    )
}

/// The rows of `docs/policies.md` about several messages of an address.
pub fn of_history() -> String {
    table(["protocol", "`last_value_depth`: what it shows"], |it| {
        [it.name, it.history].map(Into::into)
    })
}

/// The rows of `docs/filters.md`.
pub fn of_filters() -> String {
    table(
        [
            "protocol",
            "a subscription's",
            "a consumer's of a queue",
            "answer to what is no filter",
        ],
        |it| {
            let none = |why: &&str| format!("none: {why}");
            let place = it.filter.as_ref().map(|it| it.place);
            let refused = it.filter.as_ref().map_or("–", |it| it.refused);
            [
                it.name.into(),
                place.map_or_else(none, Into::into),
                it.consumer_filter.map_or_else(|why| none(&why), Into::into),
                refused.into(),
            ]
        },
    )
}

fn table<const N: usize>(head: [&str; N], row: impl Fn(&Service) -> [String; N]) -> String {
    let mut out = format!("| {} |\n|{}\n", head.join(" | "), "---|".repeat(N));
    for service in services() {
        let _ = writeln!(out, "| {} |", row(service).join(" | "));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capabilities::{Capabilities, ExpiryUnit};

    #[test]
    fn a_row_says_what_the_record_of_its_protocol_says() {
        let records: Vec<&Capabilities> = protocols().flat_map(|it| it.carries).collect();
        for record in records {
            let mut rows = services().filter(|it| it.name == record.name);
            let row = rows
                .next()
                .unwrap_or_else(|| panic!("{} has no row", record.name));
            assert!(
                matches!(record.expiry, None | Some(ExpiryUnit::Untold(_)))
                    || row.lifespan.is_some(),
                "{}",
                row.name
            );
            assert!(
                record.priority_max.is_none() || row.priority.is_some(),
                "{}",
                row.name
            );
        }
    }
}
