//! What to write into a program or a configuration.

use super::choice::Choice;
use super::{Advice, Need, Objective, Outcome, RecommendArgs};
use crate::cell::Protocol;
use crate::studies::group;

/// A heading, and lines.
pub fn snippet(advice: &Advice, query: &RecommendArgs) -> Option<(String, String)> {
    let Outcome::Ranked(ranking) = &advice.outcome else {
        return None;
    };
    let best = &ranking.candidates.first()?.choice;
    if let Some(strategy) = best.strategy() {
        return Some(("For our broker".to_owned(), of_group(strategy)));
    }
    if let Some(goal) = best.adaptive() {
        let lines = client(&[("mqtt", ""), ("coap", "")], Some(goal), "AtLeastOnce");
        return Some(("For our client".to_owned(), lines));
    }
    let Some(first) = scheme(best) else {
        let name = group::name(best.publish.protocol);
        return Some((
            format!("Our client does not speak {name}"),
            "nothing to configure here; a library of it is needed".to_owned(),
        ));
    };
    let reliability = match best.publish.qos {
        _ if query.needs.contains(&Need::ExactlyOnce) => "ExactlyOnce",
        0 => "AtMostOnce",
        1 => "AtLeastOnce",
        _ => "ExactlyOnce",
    };
    // The network may change: the client can follow, if the other side of the turn is a protocol of its own.
    let second = ranking.turn.as_ref().and_then(|turn| scheme(&turn.then));
    let lines = match second.filter(|it| *it != first) {
        None => client(&[(first, "")], None, reliability),
        Some(second) => {
            let goal = match query.objective {
                Objective::Bytes => "bytes",
                Objective::Energy => "energy",
                _ => "latency",
            };
            let why = "      // the client chooses while the network changes";
            client(&[(first, ""), (second, why)], Some(goal), reliability)
        }
    };
    Some(("For our client".to_owned(), lines))
}

/// What our client calls a protocol that it speaks on both sides.
fn scheme(choice: &Choice) -> Option<&'static str> {
    match choice.publish.protocol {
        one if one != choice.subscribe.protocol => None,
        Protocol::Mqtt => Some("mqtt"),
        Protocol::Coap => Some("coap"),
        Protocol::Amqp => Some("amqp"),
        Protocol::Stomp => Some("stomp"),
        _ => None,
    }
}

/// Brokers by their schemes, each with what is said of it.
fn client(schemes: &[(&str, &str)], goal: Option<&str>, reliability: &str) -> String {
    let brokers: String = schemes
        .iter()
        .map(|(scheme, why)| format!("    .broker(\"{scheme}://broker\")?{why}\n"))
        .collect();
    let objective = goal.map_or("", |goal| match goal {
        "bytes" => "    .objective(Objective::Bytes)\n",
        "energy" => "    .objective(Objective::Energy)\n",
        _ => "    .objective(Objective::Latency)\n",
    });
    format!(
        "let client = Client::builder()\n{brokers}{objective}    .connect_blocking()?;\n\
         let options = Options {{ reliability: Reliability::{reliability}, ..Options::default() }};"
    )
}

fn of_group(strategy: &str) -> String {
    let (name, told) = strategy.split_once('+').unwrap_or((strategy, ""));
    let how = match (name, told) {
        (_, "qos1") => {
            "members subscribe with QoS 1 and acknowledge what they have processed: `thalweg sub --work`"
        }
        ("score" | "adaptive", _) => {
            "members report their load: `thalweg sub --work --report pingreq --report-every 1s`"
        }
        ("weighted", _) => {
            "members have to name their weights, and the weights have to be right: docs/workers.md"
        }
        _ => "members need to tell nothing",
    };
    format!("# {how}\n[[groups.policies]]\nfilter = \"#\"\nstrategy = \"{name}\"")
}
