//! What protocols can, in one table; and what a need leaves out, with the reason.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use clap::ValueEnum;
use serde::Deserialize;

use super::RecommendArgs;
use super::choice::Choice;
use crate::cell::{Leg, Protocol, word};
use crate::studies::group;

/// What an application cannot do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Need {
    /// Nothing that was acknowledged is lost on the way
    AtLeastOnce,
    /// And nothing comes twice
    ExactlyOnce,
    /// Filters with a wildcard for a level
    Wildcards,
    /// Who subscribes later has the last value at once
    Lvc,
    /// Requests to one client, and its answers
    P2p,
    /// Filters that look into payloads
    ContentFilter,
    /// No broker between publisher and subscriber
    Decentralised,
    /// One packet for many subscribers
    Multicast,
    /// Messages that are dropped when they are too old
    Expiry,
    /// Messages that overtake others
    Priority,
    /// Subscribers that share the work
    SharedGroup,
}

/// All protocols that are known, as they are spoken: the versions of MQTT differ.
pub const SPOKEN: [&str; 8] = [
    MQTT3, "MQTT 5", "CoAP", "AMQP", "STOMP", ZMTP, "DDS", "XMPP",
];
/// MQTT as the studies spoke it, too.
pub const MQTT3: &str = "MQTT 3.1.1";
const ZMTP: &str = "ZMTP";

/// `data/capabilities.toml`.
#[derive(Deserialize)]
struct Capabilities {
    row: Vec<Row>,
    extension: BTreeMap<Need, String>,
}

/// How some protocols meet a need: in a way that has to be known, or not at all.
#[derive(Deserialize)]
struct Row {
    need: Need,
    of: Vec<String>,
    with: Option<String>,
    no: Option<String>,
}

static CAPABILITIES: LazyLock<Capabilities> = LazyLock::new(|| {
    toml::from_str(include_str!("data/capabilities.toml")).expect("it is read by the tests")
});

/// What a leg speaks.
pub fn spoken(leg: &Leg) -> &'static str {
    match leg.protocol {
        Protocol::Mqtt if leg.version < 5 => MQTT3,
        Protocol::Mqtt => "MQTT 5",
        other => group::name(other),
    }
}

fn row(spoken: &str, need: Need) -> Option<&'static Row> {
    let mut rows = CAPABILITIES.row.iter();
    rows.find(|row| row.need == need && row.of.iter().any(|it| it == spoken))
}

/// Why a protocol is left out; none, if it is not.
pub fn obstacles(spoken: &str, query: &RecommendArgs) -> Vec<String> {
    let why_not = |need| row(spoken, need)?.no.as_ref();
    let mut out: Vec<String> = query
        .needs
        .iter()
        .filter_map(|need| Some(format!("{}: {}", need.name(), why_not(*need)?)))
        .collect();
    if let Some(why) = why_not(Need::Decentralised).filter(|_| query.no_broker) {
        out.push(format!("no broker is wanted: {why}"));
    }
    if !query.custom_ok && spoken == ZMTP {
        out.push(
            "it is a library and no broker: you have to build one with it (--custom-ok)".to_owned(),
        );
    }
    out
}

/// What has to be known of a protocol that is not left out.
pub fn conditions(spoken: &str, needs: &[Need]) -> Vec<String> {
    let with = |need: &Need| {
        let with = row(spoken, *need)?.with.as_ref()?;
        Some(format!("{}: {with}", need.name()))
    };
    needs.iter().filter_map(with).collect()
}

/// What this broker adds to stock protocols, where a need leaves none of them.
pub fn extension(need: &Need) -> Option<&'static str> {
    CAPABILITIES.extension.get(need).map(String::as_str)
}

/// Why one of the choices of a protocol is left out although the protocol is not.
pub fn obstacle(choice: &Choice, needs: &[Need]) -> Option<&'static str> {
    let (at_least, exactly) = (
        needs.contains(&Need::AtLeastOnce),
        needs.contains(&Need::ExactlyOnce),
    );
    let mut legs = [choice.publish, choice.subscribe].into_iter();
    match choice.publish.qos.min(choice.subscribe.qos) {
        0 if at_least || exactly => Some("it may lose messages (at-least-once)"),
        1 if exactly && legs.all(|leg| leg.protocol == Protocol::Mqtt) => {
            Some("it may repeat messages (exactly-once)")
        }
        _ => None,
    }
}

impl Need {
    /// Its name on the command line.
    pub fn name(self) -> String {
        word(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_names_protocols_and_says_of_each_whether_it_can_or_not() {
        for row in &CAPABILITIES.row {
            let says = row.with.iter().chain(&row.no);
            assert_eq!(says.count(), 1, "{:?} {:?}", row.need, row.of);
            assert!(row.of.iter().all(|it| SPOKEN.contains(&it.as_str())));
        }
        // A19, A20, A21, A22, C1, C5.
        let can = |need| -> Vec<&str> {
            let of = |it: &&str| row(it, need).is_none_or(|row| row.no.is_none());
            SPOKEN.into_iter().filter(of).collect()
        };
        assert!(can(Need::ContentFilter).is_empty());
        assert_eq!(
            can(Need::P2p),
            ["MQTT 5", "CoAP", "AMQP", "STOMP", "ZMTP", "DDS", "XMPP"]
        );
        assert_eq!(can(Need::Decentralised), ["CoAP", "ZMTP", "DDS"]);
        assert!(!can(Need::AtLeastOnce).contains(&"ZMTP"));
        assert!(conditions("MQTT 5", &[Need::P2p])[0].contains("emulated"));
    }
}
